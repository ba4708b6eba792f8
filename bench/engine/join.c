/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What receivers that join late cost one that is there, and how long each takes: a transmitter at a steady rate, a live receiver,
 * and a process in which one receiver after the other joins from the past, each in a context of its own, checks that its stream is
 * whole, and leaves. The joiners hear which phase the transmitter is in; it hears when they are done. Of all: channel= rate= size=
 * duration= calm= joiners= history= past= topics= keep= stay=; of the live receiver wait=spin|block; of joiners other=CHANNEL, of
 * every second one, now=1, they begin with what is sent now, idle=1, they have the time that nobody else wants.
 */
#define _GNU_SOURCE
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <llm/llm.h>

#include "machine.h"
#include "roles.h"
#include "steady.h"

enum { JOINERS_MAX = 100000 };

/* The past is made in the first; the fourth lasts until the last joiner has left. */
enum join_phase { JOIN_FILL, JOIN_BEFORE, JOIN_DURING, JOIN_SETTLE, JOIN_AFTER, JOIN_PHASES };

static const char *const join_phases[JOIN_PHASES] = {"fill", "before", "during", "settle", "after"};

/* A session that is younger than a second is followed from its start, whatever was asked for. */
#define JOIN_FILL_NS 1200000000ull
#define JOIN_SETTLE_NS 30000000000ull /* for the last ones, at most, in steps of */
#define JOIN_STEP_NS 20000000ull

static const char *join_channel, *join_other;
static uint64_t join_rate, join_size, join_duration, join_calm, join_joiners, join_past, join_topics, join_keep, join_stay;
static bool join_now;

static void join_options(const struct control *control)
{
    join_channel = control_text(control, "channel", "");
    join_other = control_text(control, "other", "");
    join_rate = control_number(control, "rate", 10000);
    join_size = control_number(control, "size", 45);
    join_duration = control_ns(control, "duration", 10000000000);
    join_calm = control_ns(control, "calm", 3000000000);
    join_joiners = control_number(control, "joiners", 1000);
    join_past = control_number(control, "past", 1024);
    join_topics = control_number(control, "topics", 1);
    join_keep = control_number(control, "keep", 0);
    join_stay = control_number(control, "stay", 100);
    join_now = control_flag(control, "now");
}

/* ------------------------------------------------------------------------------------------------ transmitter */

static uint64_t join_phase_ns(enum join_phase phase)
{
    const uint64_t fill = (join_past > join_topics ? join_past : join_topics) * 1000000000 / join_rate;

    switch (phase) {
    case JOIN_FILL:
        return fill > JOIN_FILL_NS ? fill : JOIN_FILL_NS;
    case JOIN_DURING:
        return join_duration;
    case JOIN_SETTLE:
        return JOIN_STEP_NS;
    case JOIN_BEFORE:
    case JOIN_AFTER:
    case JOIN_PHASES:
        break;
    }
    return join_calm;
}

/* Whether the joiners are, or have ended. */
static bool join_done(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&input, 1, 0) > 0;
}

static double join_send(struct steady_sender *sender, enum join_phase phase)
{
    const uint64_t begun_at = llm_clock();
    double rate;

    steady_say(join_phases[phase]);
    do
        rate = steady_send(sender, join_phase_ns(phase), 0, (uint32_t)phase);
    while (phase == JOIN_SETTLE && !join_done() && llm_clock() < begun_at + JOIN_SETTLE_NS);
    return rate;
}

static void join_open_topics(struct llm_transmitter *transmitter, struct llm_topic **topics)
{
    struct llm_keep keep;
    char name[32];

    llm_keep_init(&keep);
    keep.messages = join_keep;
    keep.bytes_max = join_size;
    for (uint64_t i = 0; i < join_topics; i++) {
        (void)snprintf(name, sizeof name, "join.%u", (unsigned)i);
        steady_ok(llm_topic_open(transmitter, name, 0, &topics[i]), "llm_topic_open");
        if (join_keep > 0)
            steady_ok(llm_topic_keep(topics[i], &keep), "llm_topic_keep");
    }
}

int join_transmit(const struct control *control)
{
    static const char *const counters[] = {"joins_received", "joins_granted", "joins_refused", "joins_dropped", "packets_replayed",
                                           "naks_received", "packets_repaired", "receivers_suspended"};
    struct llm_context *context = steady_context(control, LLM_WAIT_SPIN);
    struct steady_sender sender = {.context = context};
    struct llm_transmitter *transmitter;
    struct llm_options options;
    double rates[JOIN_PHASES];

    join_options(control);
    sender.topics = steady_memory(join_topics, sizeof(struct llm_topic *));
    sender.topic_count = join_topics;
    sender.size = join_size;
    sender.rate = join_rate;
    llm_options_init(&options);
    options.history_packets = (uint32_t)control_number(control, "history", 1024);
    options.receivers_max = JOINERS_MAX;
    steady_ok(llm_transmitter_open(context, join_channel, &options, &transmitter), join_channel);
    join_open_topics(transmitter, sender.topics);
    steady_await(context, transmitter, 1);
    for (int phase = 0; phase < JOIN_PHASES; phase++)
        rates[phase] = join_send(&sender, (enum join_phase)phase);
    json_open();
    machine_json("machine");
    json_begin("msgs_per_s", '{');
    for (int i = 0; i < JOIN_PHASES; i++)
        json_number(join_phases[i], rates[i]);
    json_end('}');
    steady_json_stats(context, counters, sizeof counters / sizeof counters[0]);
    json_close();
    steady_close(&sender, transmitter);
    free(sender.topics);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- live receiver */

static bool join_is_measured(uint64_t phase)
{
    return phase == JOIN_BEFORE || phase == JOIN_DURING || phase == JOIN_AFTER;
}

struct live {
    struct steady_track track;
    struct histogram latency[JOIN_PHASES];
};

static void on_live_message(void *arg, const struct llm_message *message)
{
    struct live *live = arg;
    const struct steady_stamp stamp = steady_track_message(&live->track, message);

    if (join_is_measured(stamp.phase))
        histogram_add(&live->latency[stamp.phase], llm_clock() - stamp.due_at);
}

int join_live(const struct control *control)
{
    const bool blocks = strcmp(control_text(control, "wait", "spin"), "block") == 0;
    struct llm_context *context = steady_context(control, blocks ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN);
    static struct live live;

    join_options(control);
    for (int i = 0; i < JOIN_PHASES; i++)
        if (join_is_measured((uint64_t)i))
            histogram_init(&live.latency[i], join_rate * join_phase_ns((enum join_phase)i) / 1000000000 + 1);
    (void)steady_receiver(context, join_channel, NULL, on_live_message, steady_place_event, &live);
    while (!live.track.ended)
        steady_ok(llm_wait(context, 10000000), "llm_wait");
    json_open();
    for (int i = 0; i < JOIN_PHASES; i++)
        if (join_is_measured((uint64_t)i)) {
            json_histogram(join_phases[i], &live.latency[i]);
            histogram_fini(&live.latency[i]);
        }
    steady_json_track(&live.track);
    json_close();
    return steady_ok(llm_context_close(&context), "llm_context_close");
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

/* What it gets of the past is what topics keep. */
static bool join_is_kept(const struct joiner *joiner)
{
    return join_keep > 0 && !joiner->other;
}

/* What one topic keeps comes in order, before the stream, whose numbers are greater. */
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
    /* Who begins with what is sent now is told nothing when it is live. */
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
    joiner->wrong |= event->kind == LLM_EVENT_KEPT_LOST;
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
    bool over;           /* the transmitter has ended */
};

static void join_hear(struct joiners *joiners)
{
    const char *phase = steady_hear(&joiners->over);

    if (phase != NULL && strcmp(phase, join_phases[JOIN_DURING]) == 0)
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

/* What the joiners of either channel had; times of each are the runner's to sum up. */
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
