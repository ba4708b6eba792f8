/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers that join late: one after the other joins from the past, each in a context of its own, checks
 * that its stream is whole, and leaves. The first request has them begin, and they answer when they are done;
 * at the end of requests they answer with what they found. channel= size= duration=, in which they begin to,
 * joiners= topics= keep= stay=, messages for which one stays once it is live; other=CHANNEL, of every second
 * one, now=1, they begin with what is sent now, idle=1, they have the time that nobody else wants.
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
    uint64_t past;     /* messages of the past, and of what topics keep */
    uint64_t leave_at; /* once this number was delivered */
    uint64_t stale;    /* topics whose last message had not come when it was live */
    bool other;        /* it joins by the other channel */
    bool refused;
    bool wrong;     /* what topics keep came twice, out of order, or not as it was sent */
    uint64_t *next; /* by topic, the least number that may come: behind the latest; 0: none came */
};

static struct joiners {
    const char *channel, *other;
    uint64_t duration_ns, count, topics, keep, stay;
    bool now;
    struct joiner *all;
    uint64_t left; /* those before this one have left, and others too */
    uint64_t opened;
    uint64_t open;
    uint64_t open_max; /* at a time */
    uint64_t begun_at; /* 0: they may not come yet */
    uint64_t last_at;  /* when the last one was live */
} joiners;

/* True if all that it gets of the past is what topics keep. */
static bool joiner_is_kept(const struct joiner *joiner)
{
    return joiners.keep > 0 && !joiner->other;
}

/* Messages that one topic keeps come in order, before the stream, whose numbers are greater. */
static void joiner_take_kept(struct joiner *joiner, const struct llm_message *message)
{
    struct steady_stamp stamp;

    memcpy(&stamp, message->data, sizeof stamp);
    joiner->past++;
    joiner->wrong |=
        stamp.sequence != message->number || stamp.sequence % joiners.topics != message->topic_id;
    joiner->wrong |= message->number < joiner->next[message->topic_id];
}

/* Messages take turns on the topics, so the last one of a topic before this number follows from it. */
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
    /* A joiner that begins with the next message is told nothing when it is live. */
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

/* Opens those that may begin to join by now; the others are polled meanwhile. */
static void joiners_open_due(void)
{
    while (joiners.begun_at != 0 && joiners.opened < joiners.count &&
           llm_clock() >= joiners.begun_at + joiners.opened * joiners.duration_ns / joiners.count) {
        joiner_open(&joiners.all[joiners.opened], *joiners.other != '\0' && joiners.opened % 2 == 1);
        joiners.opened++;
        joiners_poll();
    }
}

/* Each of them is the runner's to sum up. */
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

/* The context without receivers is polled while nobody joins, so that the core is at work then as well. */
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
