/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What receivers that join late cost one that is there, and how long each takes: a transmitter at a steady rate, a live receiver,
 * and a process in which one receiver after the other joins from the past, each in a context of its own, checks that its stream is
 * whole, and leaves. The joiners read from their standard input which phase the transmitter is in; it reads from its own when they are
 * done.
 */
#define _GNU_SOURCE
#include <llm/llm.h>

#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "machine.h"
#include "options.h"
#include "report.h"
#include "steady.h"

enum { JOINERS_MAX = 100000, JOIN_TOPICS_MAX = 16000 };

/* The past is made in the first; the fourth lasts until the last joiner has left. */
enum join_phase { JOIN_FILL, JOIN_BEFORE, JOIN_DURING, JOIN_SETTLE, JOIN_AFTER, JOIN_PHASES };

static const char *const join_phases[JOIN_PHASES] = {"fill", "before", "during", "settle", "after"};

/* A session that is younger than a second is followed from its start, whatever was asked for. */
#define JOIN_FILL_NS 1200000000ull
#define JOIN_SETTLE_NS 30000000000ull /* for the last ones, at most, in steps of */
#define JOIN_STEP_NS 20000000ull

static const char *join_role = "transmitter", *join_channel = "", *join_other = "", *join_json = "", *join_wait = "spin";
static uint64_t join_rate = 10000, join_size = 45, join_duration = 10000000000, join_calm = 3000000000, join_joiners = 1000;
static uint64_t join_history = 1024, join_past = 1024, join_topics = 1, join_keep, join_stay = 100, join_cpu = MACHINE_NO_CPU;
static bool join_idle, join_now;

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

static void join_report_transmitter(struct llm_context *context, const double *rates)
{
    static const char *const counters[] = {"joins_received", "joins_granted", "joins_refused", "joins_dropped", "packets_replayed",
                                           "naks_received", "packets_repaired", "receivers_suspended"};
    struct report_setting setting = {.peer = "", .network = ""};
    struct report_json json;

    steady_json_open(&json, join_json);
    machine_describe(&setting.machine);
    report_json_machine(&json, &setting);
    report_json_begin(&json, "msgs_per_s", '{');
    for (int i = 0; i < JOIN_PHASES; i++)
        report_json_number(&json, join_phases[i], rates[i], 0);
    report_json_end(&json, '}');
    steady_json_stats(&json, context, counters, sizeof counters / sizeof counters[0]);
    (void)report_json_close(&json);
}

static void join_transmit(struct llm_context *context)
{
    struct llm_topic **topics = steady_memory(join_topics, sizeof(struct llm_topic *));
    struct steady_sender sender = {.context = context, .topics = topics, .topic_count = join_topics, .size = join_size, .rate = join_rate};
    struct llm_transmitter *transmitter;
    struct llm_options options;
    double rates[JOIN_PHASES];

    llm_options_init(&options);
    options.history_packets = (uint32_t)join_history;
    options.receivers_max = JOINERS_MAX;
    steady_ok(llm_transmitter_open(context, join_channel, &options, &transmitter), join_channel);
    join_open_topics(transmitter, topics);
    while (llm_transmitter_receivers(transmitter) < 1)
        steady_ok(llm_poll(context), "llm_poll");
    for (int phase = 0; phase < JOIN_PHASES; phase++)
        rates[phase] = join_send(&sender, (enum join_phase)phase);
    join_report_transmitter(context, rates);
    steady_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    free(sender.data);
    free(topics);
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

static void on_live_event(void *arg, const struct llm_event *event)
{
    struct live *live = arg;

    steady_track_event(&live->track, event);
}

static void join_report_live(struct live *live)
{
    struct report_json json;

    steady_json_open(&json, join_json);
    for (int i = 0; i < JOIN_PHASES; i++) {
        struct histogram_summary summary;

        if (!join_is_measured((uint64_t)i))
            continue;
        report_json_begin(&json, join_phases[i], '{');
        report_json_number(&json, "typical_p99", report_typical_p99(&live->latency[i], join_rate), 3);
        histogram_sort(&live->latency[i]);
        summary = histogram_summarize(&live->latency[i], 1);
        report_json_summary(&json, "latency_us", &summary);
        report_json_end(&json, '}');
        histogram_fini(&live->latency[i]);
    }
    steady_json_track(&json, &live->track);
    (void)report_json_close(&json);
}

static void join_live(struct llm_context *context)
{
    static struct live live;
    struct llm_receiver *receiver;
    struct llm_handlers handlers;

    for (int i = 0; i < JOIN_PHASES; i++)
        if (join_is_measured((uint64_t)i) && histogram_init(&live.latency[i], join_rate * join_phase_ns((enum join_phase)i) / 1000000000 + 1) != 0)
            steady_ok(LLM_ENOMEM, "histogram");
    llm_handlers_init(&handlers);
    handlers.arg = &live;
    handlers.message = on_live_message;
    handlers.event = on_live_event;
    steady_ok(llm_receiver_open(context, join_channel, NULL, &handlers, &receiver), join_channel);
    while (!live.track.ended)
        steady_ok(llm_wait(context, 10000000), "llm_wait");
    join_report_live(&live);
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
    struct llm_handlers handlers;
    struct llm_options options;

    llm_context_options_init(&context_options);
    context_options.log_level = LLM_LEVEL_ERROR;
    context_options.huge_pages = false;
    llm_handlers_init(&handlers);
    handlers.arg = joiner;
    handlers.message = on_joiner_message;
    handlers.event = on_joiner_event;
    llm_options_init(&options);
    options.sessions_max = 1;
    options.window_packets = 1024;
    options.reorder_bytes = 2097152;
    options.message_bytes_max = (uint32_t)join_size;
    joiner->next = steady_memory(join_topics, sizeof *joiner->next);
    joiner->opened_at = llm_clock();
    steady_ok(llm_context_open(&context_options, &joiner->context), "llm_context_open");
    steady_ok(llm_receiver_open(joiner->context, channel, &options, &handlers, &joiner->receiver), channel);
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
    struct steady_ear ear;
};

static void join_hear(struct joiners *joiners)
{
    const char *phase = steady_hear(&joiners->ear);

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

static int join_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* values: memory for one figure of each joiner. */
static void join_report_values(struct report_json *json, const char *name, double *values, uint64_t count)
{
    qsort(values, count, sizeof *values, join_compare);
    report_json_begin(json, name, '{');
    report_json_number(json, "median", count > 0 ? values[count / 2] : (double)NAN, 3);
    report_json_number(json, "p99", count > 0 ? values[(count - 1) * 99 / 100] : (double)NAN, 3);
    report_json_number(json, "max", count > 0 ? values[count - 1] : (double)NAN, 3);
    report_json_end(json, '}');
}

static void join_report_joiners(const struct joiners *joiners)
{
    double *until_live = steady_memory(join_joiners + 1, sizeof(double)), *rates = steady_memory(join_joiners + 1, sizeof(double));
    double *other_until_live = steady_memory(join_joiners + 1, sizeof(double));
    uint64_t live = 0, other_live = 0, exact = 0, refused = 0, past = 0, stale = 0;
    struct steady_track sum = {.begun = true};
    struct report_json json;

    for (uint64_t i = 0; i < joiners->opened; i++) {
        const struct joiner *joiner = &joiners->all[i];

        exact += joiner->live_at != 0 && !joiner->wrong && joiner->stale == 0 && steady_track_exact(&joiner->track);
        refused += joiner->refused;
        past += joiner->past;
        stale += joiner->stale;
        sum.received += joiner->track.received;
        sum.lost += joiner->track.lost;
        sum.unsaid += joiner->track.unsaid;
        sum.duplicated += joiner->track.duplicated;
        sum.changed += joiner->track.changed + joiner->wrong;
        if (joiner->live_at == 0)
            continue;
        if (joiner->other) {
            other_until_live[other_live++] = (double)(joiner->live_at - joiner->opened_at) / 1e6;
            continue;
        }
        until_live[live] = (double)(joiner->live_at - joiner->opened_at) / 1e6;
        rates[live++] = (double)joiner->past * 1e9 / (double)(joiner->live_at - joiner->opened_at);
    }
    steady_json_open(&json, join_json);
    report_json_number(&json, "joiners", (double)joiners->opened, 0);
    report_json_number(&json, "asked_for", (double)join_joiners, 0);
    report_json_number(&json, "live", (double)(live + other_live), 0);
    report_json_number(&json, "exact", (double)exact, 0);
    report_json_number(&json, "refused", (double)refused, 0);
    report_json_number(&json, "stale", (double)stale, 0);
    report_json_number(&json, "open_max", (double)joiners->open_max, 0);
    steady_json_track(&json, &sum);
    report_json_number(&json, "past", (double)past, 0);
    report_json_number(&json, "past_msgs_per_s", (double)past * 1e9 / (double)(joiners->last_at - joiners->begun_at), 0);
    join_report_values(&json, "until_live_ms", until_live, live);
    join_report_values(&json, "other_until_live_ms", other_until_live, other_live);
    join_report_values(&json, "each_past_msgs_per_s", rates, live);
    (void)report_json_close(&json);
    free(until_live);
    free(other_until_live);
    free(rates);
}

/* The context without receivers is polled while nobody joins, so that the core is at work then as well. */
static void join_all(struct llm_context *context)
{
    static struct joiners joiners;
    const struct sched_param lowest = {.sched_priority = 0};
    struct rlimit files = {.rlim_cur = 0};

    if (join_idle && sched_setscheduler(0, SCHED_IDLE, &lowest) != 0)
        perror("join: SCHED_IDLE");
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    steady_ear_open();
    joiners.all = steady_memory(join_joiners, sizeof *joiners.all);
    joiners.open = steady_memory(join_joiners, sizeof *joiners.open);
    while (!joiners.ear.over) {
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
}

/* ------------------------------------------------------------------------------------------------------- main */

int main(int argc, char **argv)
{
    static const struct option_spec specs[] = {
        {"role", OPTION_CHOICE, &join_role, "ROLE", "transmitter, live or joiners", 0, 0, "transmitter live joiners"},
        {"channel", OPTION_TEXT, &join_channel, "CHANNEL", "the channel, with its options; of joiners join=... too", 0, 0, NULL},
        {"other", OPTION_TEXT, &join_other, "CHANNEL", "of every second joiner, which begins with what is sent now", 0, 0, NULL},
        {"now", OPTION_FLAG, &join_now, NULL, "the other joiners begin with what is sent now, too", 0, 0, NULL},
        {"rate", OPTION_NUMBER, &join_rate, "N", "messages a second", 1, 1000000, NULL},
        {"size", OPTION_NUMBER, &join_size, "N", "bytes of a message", STEADY_SIZE_MIN, 65507, NULL},
        {"duration", OPTION_SECONDS, &join_duration, "SECONDS", "in which all join", 100000000, 3600000000000, NULL},
        {"calm", OPTION_SECONDS, &join_calm, "SECONDS", "before and after that", 100000000, 3600000000000, NULL},
        {"joiners", OPTION_NUMBER, &join_joiners, "N", "receivers that join", 1, JOINERS_MAX, NULL},
        {"history", OPTION_NUMBER, &join_history, "PACKETS", "that the transmitter keeps, a power of two", 64, 1 << 24, NULL},
        {"past", OPTION_NUMBER, &join_past, "N", "messages sent before all else", 0, 1 << 24, NULL},
        {"topics", OPTION_NUMBER, &join_topics, "N", "that messages take turns on", 1, JOIN_TOPICS_MAX, NULL},
        {"keep", OPTION_NUMBER, &join_keep, "N", "messages that each topic keeps", 0, 1 << 20, NULL},
        {"stay", OPTION_NUMBER, &join_stay, "N", "messages for which a joiner stays once it is live", 0, 100000000, NULL},
        {"wait", OPTION_CHOICE, &join_wait, "MODE", "how a live receiver waits: spin or block", 0, 0, "spin block"},
        {"idle", OPTION_FLAG, &join_idle, NULL, "joiners have the time that nobody else wants (SCHED_IDLE)", 0, 0, NULL},
        {"cpu", OPTION_NUMBER, &join_cpu, "CPU", "the CPU to run on", 0, MACHINE_NO_CPU, NULL},
        {"json", OPTION_TEXT, &join_json, "FILE", "where the figures go", 0, 0, NULL},
    };
    static const struct option_program program = {
        "join", "What receivers that join late cost one that is there; run by bench/run join.",
        "  join --role live --channel udp://239.192.1.1:5001 --json live.json\n", specs, sizeof specs / sizeof specs[0], NULL};
    struct llm_context *context;

    options_parse(&program, argc, argv);
    context = steady_context("join", join_cpu, strcmp(join_wait, "block") == 0 ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN);
    if (strcmp(join_role, "transmitter") == 0)
        join_transmit(context);
    else if (strcmp(join_role, "live") == 0)
        join_live(context);
    else
        join_all(context);
    steady_ok(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}
