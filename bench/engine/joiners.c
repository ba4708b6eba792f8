/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers that join late, one after the other, each in a context of its own. Each joins from a past
 * position, checks that its stream is whole, and leaves. The first request starts them; they answer when all
 * are done, and at the end of requests with the results. channel= size= duration= (over which joins are
 * spread) joiners= topics= keep= stay= (messages for which each stays once it is live); other=CHANNEL for
 * every second joiner; now=1: join live; idle=1: run at the lowest priority.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llm/llm.h>

#include "steady.h"

struct joiner {
    struct llm_context *context;
    struct steady_track track;
    uint64_t opened_at;
    uint64_t live_at;
    uint64_t past;     /* past and cached messages received */
    uint64_t leave_at; /* leave once this number was delivered */
    uint64_t stale;    /* topics whose last message was missing when the joiner became live */
    bool other;        /* uses the other channel */
    bool refused;
    bool wrong;     /* a cached message was repeated, out of order or changed */
    uint64_t *next; /* by topic: lowest number that may follow; 0: no message yet */
};

static struct joiners {
    const char *channel, *other;
    uint64_t duration_ns, count, topics, keep, stay;
    bool now;
    struct joiner *all;
    uint64_t left; /* all before this index have left */
    uint64_t opened;
    uint64_t open;
    uint64_t open_max; /* maximum at a time */
    uint64_t begun_at; /* 0: joining has not started */
    uint64_t last_at;  /* when the last joiner became live */
} joiners;

/* True if the joiner's only past messages are those of the last value cache. */
static bool joiner_is_kept(const struct joiner *joiner)
{
    return joiners.keep > 0 && !joiner->other;
}

/* Cached messages of a topic arrive in order, before the stream, whose numbers are greater. */
static void joiner_take_kept(struct joiner *joiner, const struct llm_message *message)
{
    struct steady_stamp stamp;

    memcpy(&stamp, message->data, sizeof stamp);
    joiner->past++;
    joiner->wrong |=
        stamp.sequence != message->number || stamp.sequence % joiners.topics != message->topic_id;
    joiner->wrong |= message->number < joiner->next[message->topic_id];
}

/* Messages use the topics in turn, so the number of a topic's last message before this one is known. */
static uint64_t joiner_stale(const struct joiner *joiner, uint64_t number)
{
    uint64_t stale = 0;

    for (uint64_t topic = 0; topic < joiners.topics; topic++)
        stale += number <= topic || joiner->next[topic] != number - (number - 1 - topic) % joiners.topics;
    return stale;
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct joiner *joiner = arg;

    if (message->size < STEADY_SIZE_MIN || message->topic_id >= joiners.topics) {
        joiner->wrong = true;
        return;
    }
    if (message->number < joiner->track.first && joiner_is_kept(joiner) && joiner->live_at == 0)
        joiner_take_kept(joiner, message);
    else
        (void)steady_track_message(&joiner->track, message);
    joiner->next[message->topic_id] = message->number + 1;
    /* A joiner that begins with the next message gets no event when it is live. */
    if ((joiner->other || joiners.now) && joiner->live_at == 0) {
        joiner->live_at = llm_clock();
        joiner->leave_at = message->number + joiners.stay;
    }
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct joiner *joiner = arg;

    steady_track_event(&joiner->track, event);
    if (event->kind == LLM_EVENT_LIVE && joiner->live_at == 0) {
        joiner->live_at = llm_clock();
        joiner->past += event->first - joiner->track.first;
        joiner->leave_at = event->first + joiners.stay;
        joiner->stale = joiner_is_kept(joiner) ? joiner_stale(joiner, event->first) : 0;
        joiner->wrong |= event->first != joiner->track.next;
    }
    joiner->refused |= event->kind == LLM_EVENT_JOIN_REFUSED;
    joiner->wrong |= event->kind == LLM_EVENT_CACHE_LOST;
}

static void joiner_open(struct joiner *joiner, bool other)
{
    struct llm_context_options options = steady_options();

    options.huge_pages = false;
    joiner->other = other;
    joiner->next = control_memory(joiners.topics, sizeof *joiner->next);
    joiner->opened_at = llm_clock();
    joiner->context = steady_open(&options);
    (void)steady_receiver(joiner->context, other ? joiners.other : joiners.channel, on_message, on_event,
                          joiner);
    joiners.open_max = ++joiners.open > joiners.open_max ? joiners.open : joiners.open_max;
}

static void joiner_close(struct joiner *joiner)
{
    steady_ok(llm_context_close(&joiner->context), "llm_context_close");
    free(joiner->next);
    joiners.open--;
}

static void joiners_poll(void)
{
    while (joiners.left < joiners.opened && joiners.all[joiners.left].context == NULL)
        joiners.left++;
    for (uint64_t i = joiners.left; i < joiners.opened; i++) {
        struct joiner *joiner = &joiners.all[i];

        if (joiner->context == NULL)
            continue;
        steady_poll(joiner->context);
        if (!joiner->refused && !joiner->track.ended &&
            (joiner->live_at == 0 || joiner->track.next < joiner->leave_at))
            continue;
        joiners.last_at = joiner->live_at > joiners.last_at ? joiner->live_at : joiners.last_at;
        joiner_close(joiner);
    }
}

/* Opens the joiners that are due; polls the others meanwhile. */
static void joiners_open_due(void)
{
    while (joiners.begun_at != 0 && joiners.opened < joiners.count &&
           llm_clock() >= joiners.begun_at + joiners.opened * joiners.duration_ns / joiners.count) {
        joiner_open(&joiners.all[joiners.opened], *joiners.other != '\0' && joiners.opened % 2 == 1);
        joiners.opened++;
        joiners_poll();
    }
}

/* Writes each joiner's figures, which the runner summarizes. */
static void joiner_json(const struct joiner *joiner)
{
    json_begin(NULL, '{');
    steady_json_track(&joiner->track);
    json_counts("begun until_live_ns other past stale refused wrong",
                (uint64_t[]){joiner->track.begun,
                             joiner->live_at != 0 ? joiner->live_at - joiner->opened_at : 0, joiner->other,
                             joiner->past, joiner->stale, joiner->refused, joiner->wrong});
    json_end('}');
}

static void joiners_report(void)
{
    json_open();
    json_begin("each", '[');
    for (uint64_t i = 0; i < joiners.opened; i++)
        joiner_json(&joiners.all[i]);
    json_end(']');
    json_counts("open_max", (uint64_t[]){joiners.open_max});
    json_number("past_ns", (double)(joiners.last_at - joiners.begun_at));
    json_close();
}

static void joiners_prepare(const struct control *control)
{
    const struct sched_param lowest = {.sched_priority = 0};

    joiners.channel = control_text(control, "channel", "");
    joiners.other = control_text(control, "other", "");
    joiners.duration_ns = control_ns(control, "duration", 10000000000);
    joiners.count = control_number(control, "joiners", 1000);
    joiners.topics = control_number(control, "topics", 1);
    joiners.keep = control_number(control, "keep", 0);
    joiners.stay = control_number(control, "stay", 100);
    joiners.now = control_flag(control, "now");
    joiners.all = control_memory(joiners.count, sizeof *joiners.all);
    if (control_flag(control, "idle") && sched_setscheduler(0, SCHED_IDLE, &lowest) != 0)
        perror("joiners: SCHED_IDLE");
    steady_allow_files(0);
}

/* The context without receivers is polled while nobody joins, to keep the load on the core constant. */
int joiners_run(const struct control *control)
{
    struct llm_context *context = steady_context(control);
    struct control request;
    bool done = false;
    int came = 0;

    joiners_prepare(control);
    for (; came >= 0; came = control_take(&request, 0)) {
        joiners.begun_at = came > 0 ? llm_clock() : joiners.begun_at;
        for (int i = 0; i < 64; i++) {
            steady_poll(context);
            joiners_poll();
        }
        joiners_open_due();
        if (!done && joiners.opened == joiners.count && joiners.open == 0) {
            done = true;
            json_done("done", 1);
        }
    }
    for (uint64_t i = joiners.left; i < joiners.opened; i++)
        if (joiners.all[i].context != NULL)
            joiner_close(&joiners.all[i]);
    joiners_report();
    return steady_ok(llm_context_close(&context), "llm_context_close");
}
