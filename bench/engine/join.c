/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers that join late: one after the other joins from the past, each in a context of its own, checks that its stream is
 * whole, and leaves. They hear when they may begin to, "during", and say when they are done. channel= size= duration=, in which they
 * begin to, joiners= topics= keep= stay=, messages for which one stays once it is live; other=CHANNEL, of every second one, now=1, they
 * begin with what is sent now, idle=1, they have the time that nobody else wants.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <llm/llm.h>

#include "roles.h"
#include "steady.h"

static const char *join_channel, *join_other;
static uint64_t join_size, join_duration, join_joiners, join_topics, join_keep, join_stay;
static bool join_now;

static void join_options(const struct control *control)
{
    join_channel = control_text(control, "channel", "");
    join_other = control_text(control, "other", "");
    join_size = control_number(control, "size", 45);
    join_duration = control_ns(control, "duration", 10000000000);
    join_joiners = control_number(control, "joiners", 1000);
    join_topics = control_number(control, "topics", 1);
    join_keep = control_number(control, "keep", 0);
    join_stay = control_number(control, "stay", 100);
    join_now = control_flag(control, "now");
}

/* ------------------------------------------------------------------------------------------------------- joiners */

struct joiner {
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct steady_track track;
    uint64_t opened_at;
    uint64_t live_at;
    uint64_t past;       /* messages of the past, and of what topics keep */
    uint64_t leave_at;   /* once this number was delivered */
    uint64_t stale;      /* topics whose last message had not come when it was live */
    bool other;          /* it joins by the other channel */
    bool refused;
    bool wrong;          /* what topics keep came twice, out of order, or not as it was sent */
    uint64_t *next;      /* by topic, the least number that may come: behind the latest; 0: none came */
};

/* True if all that it gets of the past is what topics keep. */
static bool join_is_kept(const struct joiner *joiner)
{
    return join_keep > 0 && !joiner->other;
}

/* Messages that one topic keeps come in order, before the stream, whose numbers are greater. */
static void join_take_kept(struct joiner *joiner, const struct llm_message *message)
{
    struct steady_stamp stamp;

    memcpy(&stamp, message->data, sizeof stamp);
    joiner->past++;
    joiner->wrong |= stamp.sequence != message->number || stamp.sequence % join_topics != message->topic_id;
    joiner->wrong |= message->number < joiner->next[message->topic_id];
}

/* Messages take turns on the topics, so the last one of a topic before this number follows from it. */
static uint64_t join_stale(const struct joiner *joiner, uint64_t number)
{
    uint64_t stale = 0;

    for (uint64_t topic = 0; topic < join_topics; topic++)
        stale += number <= topic || joiner->next[topic] != number - (number - 1 - topic) % join_topics;
    return stale;
}

static void on_joiner_message(void *arg, const struct llm_message *message)
{
    struct joiner *joiner = arg;

    if (message->size < STEADY_SIZE_MIN || message->topic_id >= join_topics) {
        joiner->wrong = true;
        return;
    }
    if (message->number < joiner->track.first && join_is_kept(joiner) && joiner->live_at == 0)
        join_take_kept(joiner, message);
    else
        (void)steady_track_message(&joiner->track, message);
    joiner->next[message->topic_id] = message->number + 1;
    /* A joiner that begins with the next message is told nothing when it is live. */
    if ((joiner->other || join_now) && joiner->live_at == 0) {
        joiner->live_at = llm_clock();
        joiner->leave_at = message->number + join_stay;
    }
}

static void on_joiner_event(void *arg, const struct llm_event *event)
{
    struct joiner *joiner = arg;

    steady_track_event(&joiner->track, event);
    if (event->kind == LLM_EVENT_LIVE && joiner->live_at == 0) {
        joiner->live_at = llm_clock();
        joiner->past += event->first - joiner->track.first;
        joiner->leave_at = event->first + join_stay;
        joiner->stale = join_is_kept(joiner) ? join_stale(joiner, event->first) : 0;
        joiner->wrong |= event->first != joiner->track.next;
    }
    joiner->refused |= event->kind == LLM_EVENT_JOIN_REFUSED;
    joiner->wrong |= event->kind == LLM_EVENT_CACHE_LOST;
}

/* With small windows, as there are many. */
static void join_open(struct joiner *joiner)
{
    const char *channel = joiner->other ? join_other : join_channel;
    struct llm_context_options context_options;
    struct llm_options options;

    llm_context_options_init(&context_options);
    context_options.log_level = LLM_LEVEL_ERROR;
    context_options.huge_pages = false;
    llm_options_init(&options);
    options.sessions_max = 1;
    options.window_packets = 1024;
    options.reorder_bytes = 2097152;
    options.message_bytes_max = (uint32_t)join_size;
    joiner->next = steady_memory(join_topics, sizeof *joiner->next);
    joiner->opened_at = llm_clock();
    steady_ok(llm_context_open(&context_options, &joiner->context), "llm_context_open");
    joiner->receiver = steady_receiver(joiner->context, channel, &options, on_joiner_message, on_joiner_event, joiner);
}

static void join_close(struct joiner *joiner)
{
    steady_ok(llm_context_close(&joiner->context), "llm_context_close");
    free(joiner->next);
}

struct joiners {
    struct joiner *all;
    uint64_t opened;
    uint64_t open_max;   /* at a time */
    uint64_t *open;      /* those that have not left yet, and how many these are */
    uint64_t open_count;
    uint64_t begun_at;   /* 0: they may not come yet */
    uint64_t last_at;    /* when the last one was live */
    bool done;           /* which the transmitter knows */
    bool over;           /* no more is to come */
};

static void join_hear(struct joiners *joiners)
{
    const char *phase = steady_hear(&joiners->over);

    if (phase != NULL && strcmp(phase, "during") == 0)
        joiners->begun_at = llm_clock();
}

static bool join_is_done(const struct joiner *joiner)
{
    return joiner->refused || joiner->track.ended || (joiner->live_at != 0 && joiner->track.next >= joiner->leave_at);
}

static void join_poll_all(struct joiners *joiners)
{
    for (uint64_t i = 0; i < joiners->open_count;) {
        struct joiner *joiner = &joiners->all[joiners->open[i]];

        steady_ok(llm_poll(joiner->context), "llm_poll");
        if (!join_is_done(joiner)) {
            i++;
            continue;
        }
        joiners->last_at = joiner->live_at > joiners->last_at ? joiner->live_at : joiners->last_at;
        join_close(joiner);
        joiners->open[i] = joiners->open[--joiners->open_count];
    }
}

/* Those whose turn has come. */
static void join_open_due(struct joiners *joiners)
{
    while (joiners->begun_at != 0 && joiners->opened < join_joiners &&
           llm_clock() >= joiners->begun_at + joiners->opened * join_duration / join_joiners) {
        joiners->all[joiners->opened].other = *join_other && joiners->opened % 2 == 1;
        join_open(&joiners->all[joiners->opened]);
        joiners->open[joiners->open_count++] = joiners->opened++;
        joiners->open_max = joiners->open_count > joiners->open_max ? joiners->open_count : joiners->open_max;
        join_poll_all(joiners);
    }
}

/* Times of the joiners of either channel; times of each are the runner's to sum up. */
static void join_report_each(const struct joiners *joiners, bool other, const char *key)
{
    json_begin(key, '[');
    for (uint64_t i = 0; i < joiners->opened; i++)
        if (joiners->all[i].live_at != 0 && joiners->all[i].other == other)
            json_number(NULL, (double)(joiners->all[i].live_at - joiners->all[i].opened_at));
    json_end(']');
}

static void join_report_joiners(const struct joiners *joiners)
{
    uint64_t live = 0, exact = 0, refused = 0, past = 0, stale = 0;
    struct steady_track sum = {.begun = true};

    json_open();
    json_begin("pasts", '[');
    for (uint64_t i = 0; i < joiners->opened; i++) {
        const struct joiner *joiner = &joiners->all[i];

        exact += joiner->live_at != 0 && !joiner->wrong && joiner->stale == 0 && steady_track_exact(&joiner->track);
        live += joiner->live_at != 0;
        refused += joiner->refused;
        past += joiner->past;
        stale += joiner->stale;
        sum.received += joiner->track.received;
        sum.lost += joiner->track.lost;
        sum.unsaid += joiner->track.unsaid;
        sum.duplicated += joiner->track.duplicated;
        sum.changed += joiner->track.changed + joiner->wrong;
        if (joiner->live_at != 0 && !joiner->other)
            json_number(NULL, (double)joiner->past);
    }
    json_end(']');
    json_number("joiners", (double)joiners->opened);
    json_number("asked_for", (double)join_joiners);
    json_number("live", (double)live);
    json_number("exact", (double)exact);
    json_number("refused", (double)refused);
    json_number("stale", (double)stale);
    json_number("open_max", (double)joiners->open_max);
    steady_json_track(&sum);
    json_number("past", (double)past);
    json_number("past_ns", (double)(joiners->last_at - joiners->begun_at));
    join_report_each(joiners, false, "until_live_ns");
    join_report_each(joiners, true, "other_until_live_ns");
    json_close();
}

/* The context without receivers is polled while nobody joins, so that the core is at work then as well. */
int join_all(const struct control *control)
{
    struct llm_context *context = steady_context(control, LLM_WAIT_SPIN);
    static struct joiners joiners;
    const struct sched_param lowest = {.sched_priority = 0};
    struct rlimit files = {.rlim_cur = 0};

    join_options(control);
    if (control_flag(control, "idle") && sched_setscheduler(0, SCHED_IDLE, &lowest) != 0)
        perror("join: SCHED_IDLE");
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    joiners.all = steady_memory(join_joiners, sizeof *joiners.all);
    joiners.open = steady_memory(join_joiners, sizeof *joiners.open);
    while (!joiners.over) {
        for (int i = 0; i < 64; i++) {
            steady_ok(llm_poll(context), "llm_poll");
            join_poll_all(&joiners);
        }
        join_open_due(&joiners);
        join_hear(&joiners);
        if (!joiners.done && joiners.opened == join_joiners && joiners.open_count == 0) {
            joiners.done = true;
            steady_say("done");
        }
    }
    while (joiners.open_count > 0)
        join_close(&joiners.all[joiners.open[--joiners.open_count]]);
    join_report_joiners(&joiners);
    free(joiners.all);
    free(joiners.open);
    return steady_ok(llm_context_close(&context), "llm_context_close");
}
