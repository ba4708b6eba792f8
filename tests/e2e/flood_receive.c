/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives and verifies the messages of flood_send: each one once, in order, whole, on its topic; or a gap
 * event in its place.
 *
 *   flood_receive CHANNEL [--sessions N] [--stop-at COUNT] [--timing 1] [--wait MODE] [--pause-us US]
 *                 [--sent FILE] [--any-order 1] [--latency LEVEL] [--watch-ms MS] [--quotes-from NUMBER] [--merged 1]
 *
 * Ends after N sessions (1) with messages, or on a signal, and prints its figures as JSON. Prints a line on
 * stderr for every event, for the first few errors, and at COUNT messages. Exits with 1 after an error; gaps
 * are only counted. --any-order, for order=arrival, checks messages by their numbers: each arrives once, or
 * is in a gap. --timing measures from send to delivery, separately for repaired messages. --pause-us makes
 * the receiver slow: it sleeps before every hundredth message. --merged: all sessions are of one stream whose
 * transmitters send the same messages, so they are checked as one. --quotes-from: messages before that number on
 * the topic without history are not expected. --watch-ms enables the bottleneck watch, whose events name
 * limits; --latency is the level of the latency monitor. "meanwhile" counts messages before the file --sent
 * exists, which the sender creates.
 */
#define _GNU_SOURCE
#include "flood.h"

#include <unistd.h>

enum { SESSIONS_MAX = 64, SAMPLES_MAX = 1 << 20, ERRORS_SHOWN = 5, PAUSE_MESSAGES = 100 };

/* A followed session. */
struct flow {
    uint64_t session;
    uint64_t expected; /* number of the next message */
    uint64_t messages;
    bool begun;
    uint8_t *done; /* in any order: a bit for each message that was delivered or reported lost */
    uint64_t room; /* bits allocated */
};

struct flood {
    struct llm_context *context;
    struct flow flows[SESSIONS_MAX];
    uint32_t flows_count;
    uint64_t messages, lost, gaps, gap_end, errors, sessions_new, ended, timeouts, silences, resumed,
        lines_down, lines_up, diverged, suspended, readmitted, expelled;
    uint64_t limited[LLM_LIMIT_TRANSPORT + 1]; /* number of reports of each limit */
    uint64_t quotes_from; /* earlier messages on the topic without history are not expected */
    uint64_t left_out;
    uint64_t early; /* messages delivered before one with a lower number, or before its gap */
    bool any_order;
    bool merged;
    uint64_t stop_at; /* print a line on stderr at this number of messages */
    uint64_t pause_us;
    const char *sent; /* NULL: the file exists, or is not watched */
    uint64_t meanwhile;
    uint64_t recovered;
    uint64_t repaired_count, clean_count;
    uint64_t *repaired, *clean; /* ns from send to delivery */
};

static struct flow *flood_flow(struct flood *flood, uint64_t session)
{
    for (uint32_t i = 0; i < flood->flows_count; i++)
        if (flood->flows[i].session == session || flood->merged)
            return &flood->flows[i];
    if (flood->flows_count == SESSIONS_MAX) {
        fprintf(stderr, "flood_receive: more than %d sessions\n", SESSIONS_MAX);
        exit(EXIT_FAILURE);
    }
    flood->flows[flood->flows_count] = (struct flow){.session = session};
    return &flood->flows[flood->flows_count++];
}

static void flood_error(struct flood *flood, uint64_t number, uint64_t expected, const char *what)
{
    if (flood->errors++ < ERRORS_SHOWN)
        fprintf(stderr, "wrong: message %" PRIu64 ", expected %" PRIu64 ": %s\n", number, expected, what);
}

/* In any order: marks a message as delivered or lost. Returns false if it was marked already. */
static bool flood_done(struct flow *flow, uint64_t number)
{
    if (number >= flow->room) {
        const uint64_t room = ((number + 1) * 2 + 7) & ~UINT64_C(7);

        flow->done = realloc(flow->done, room / 8);
        if (flow->done == NULL)
            exit(EXIT_FAILURE);
        memset(flow->done + flow->room / 8, 0, (room - flow->room) / 8);
        flow->room = room;
    }
    if (flow->done[number / 8] >> number % 8 & 1)
        return false;
    flow->done[number / 8] |= (uint8_t)(1u << number % 8);
    return true;
}

static bool flood_is_done(const struct flow *flow, uint64_t number)
{
    return number < flow->room && flow->done[number / 8] >> number % 8 & 1;
}

/* In any order: advances to the next message that is neither delivered nor lost. */
static void flood_go_on(struct flow *flow)
{
    while (flood_is_done(flow, flow->expected))
        flow->expected++;
}

static void flood_leave_out(struct flood *flood, struct flow *flow)
{
    while (flow->expected < flood->quotes_from && flood_topic(flow->expected) == FLOOD_QUOTES) {
        flow->expected++;
        flood->left_out++;
    }
}

/* True if a message is expected now: the next one, or in any order a new one. */
static bool flood_turn(struct flood *flood, struct flow *flow, uint64_t number)
{
    const bool turn = number == flow->expected;

    if (!flood->any_order) {
        flow->expected = number + 1;
        return turn;
    }
    if (number < flow->expected || !flood_done(flow, number))
        return false;
    flood->early += !turn;
    flood_go_on(flow);
    return true;
}

/* Records the delay of a message, by whether its packets needed repair. */
static void flood_sample(struct flood *flood, const struct llm_message *message)
{
    const uint64_t now = llm_clock();
    uint64_t recovered = 0;

    (void)llm_context_counter(flood->context, "packets_recovered", &recovered);
    if (recovered != flood->recovered && flood->repaired_count < SAMPLES_MAX)
        flood->repaired[flood->repaired_count++] = now - flood_sent_at(message->data);
    else if (recovered == flood->recovered && flood->clean_count < SAMPLES_MAX)
        flood->clean[flood->clean_count++] = now - flood_sent_at(message->data);
    flood->recovered = recovered;
}

/* Spends time before the message is counted. */
static void flood_pace(struct flood *flood)
{
    if (flood->pause_us != 0 && flood->messages % PAUSE_MESSAGES == 0)
        (void)usleep((useconds_t)flood->pause_us);
    if (flood->sent != NULL && access(flood->sent, F_OK) == 0)
        flood->sent = NULL;
    flood->meanwhile += flood->sent != NULL;
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct flood *flood = arg;
    struct flow *flow = flood_flow(flood, message->session);
    const char *wrong = flood_check(message->data, message->size, message->number);
    char topic[16];

    (void)snprintf(topic, sizeof topic, "topic %" PRIu32, flood_topic(message->number));
    if (wrong != NULL)
        flood_error(flood, message->number, flow->expected, wrong);
    else if (strcmp(topic, message->topic) != 0)
        flood_error(flood, message->number, flow->expected, "topic");
    flood_leave_out(flood, flow);
    if (!flow->begun || !flood_turn(flood, flow, message->number))
        flood_error(flood, message->number, flow->expected, "out of sequence, or repeated");
    flood_pace(flood);
    flow->messages++;
    flood->messages++;
    if (flood->stop_at != 0 && flood->messages == flood->stop_at)
        fprintf(stderr, "reached %" PRIu64 "\n", flood->messages);
    if (flood->repaired != NULL && wrong == NULL)
        flood_sample(flood, message);
}

static void flood_gap(struct flood *flood, struct flow *flow, const struct llm_event *event)
{
    const bool empty = event->last + 1 == event->first;

    /* An empty gap, of a packet in which no message starts, may precede others delivered ahead of order. */
    if ((empty && flood->any_order ? event->first > flow->expected : event->first != flow->expected) ||
        event->last + 1 < event->first)
        flood_error(flood, event->first, flow->expected, "gap that does not start after the last message");
    for (uint64_t number = event->first; flood->any_order && number < event->last + 1; number++)
        if (!flood_done(flow, number))
            flood_error(flood, number, flow->expected, "lost, but delivered");
    if (!empty)
        flow->expected = event->last + 1;
    flood_go_on(flow);
    flood->gaps++;
    flood->gap_end = event->last + 1;
    flood->lost += event->last + 1 - event->first;
}

static void flood_end(struct flood *flood, struct flow *flow, const struct llm_event *event)
{
    if (event->first != flow->expected && !flood->merged)
        flood_error(flood, event->first, flow->expected, "end that does not follow the last message");
    flow->begun = flood->merged;
    free(flow->done);
    flow->done = NULL;
    flow->room = 0;
    /* The session, if heard again, counts as a new one. */
    flow->session = 0;
    flood->ended += flow->messages > 0;
    flood->timeouts += event->reason == LLM_REASON_TIMEOUT;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct flood *flood = arg;
    struct flow *flow;
    char text[256];

    if (event->kind == LLM_EVENT_LIMITED) {
        (void)llm_event_text(event, text, sizeof text);
        fprintf(stderr, "event: %s\n", text);
        flood->limited[event->bottleneck->limit]++;
        return;
    }
    flow = flood_flow(flood, event->session);
    if (event->kind != LLM_EVENT_TOPIC_NEW)
        fprintf(stderr, "event: %s %s session %016" PRIx64 " %" PRIu64 " %" PRIu64 " packets %" PRIu64 "\n",
                llm_event_name(event->kind), llm_reason_name(event->reason), event->session, event->first,
                event->last, event->packets);
    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        if (!flood->merged || !flow->begun)
            flow->expected = event->first;
        flow->begun = true;
        flood->sessions_new++;
        break;
    case LLM_EVENT_SESSION_END:
        flood_end(flood, flow, event);
        break;
    case LLM_EVENT_GAP:
        flood_gap(flood, flow, event);
        break;
    case LLM_EVENT_HEARTBEAT_LOST:
        flood->silences++;
        break;
    case LLM_EVENT_RESUMED:
        flood->resumed++;
        break;
    case LLM_EVENT_DIVERGED:
        flood->diverged++;
        break;
    case LLM_EVENT_LINE_DOWN:
        flood->lines_down++;
        break;
    case LLM_EVENT_LINE_UP:
        flood->lines_up++;
        break;
    case LLM_EVENT_SUSPENDED:
        flood->suspended++;
        break;
    case LLM_EVENT_READMITTED:
        flood->readmitted++;
        break;
    case LLM_EVENT_EXPELLED:
        flood->expelled++;
        break;
    case LLM_EVENT_TOPIC_NEW:
    case LLM_EVENT_JOIN_REFUSED:
    case LLM_EVENT_LIVE:
    case LLM_EVENT_CACHE_LOST:
    case LLM_EVENT_WARNED:
    case LLM_EVENT_UNICAST_ONLY:
    case LLM_EVENT_CONNECTED:
    case LLM_EVENT_DISCONNECTED:
    case LLM_EVENT_UNREACHABLE:
    case LLM_EVENT_KEYS:
    case LLM_EVENT_FORGED:
    case LLM_EVENT_STREAM_GAP:
    case LLM_EVENT_STREAM_AGAIN:
    case LLM_EVENT_STREAM_REFUSED:
    case LLM_EVENT_ACKNOWLEDGED:
    case LLM_EVENT_UNACKNOWLEDGED:
    case LLM_EVENT_STORE_STOPPED:
    case LLM_EVENT_LIMITED:
    case LLM_EVENT_RECEIVER_LIMITED:
        break;
    }
}

static int flood_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static double flood_median_us(uint64_t *samples, uint64_t count)
{
    if (count == 0)
        return 0;
    qsort(samples, count, sizeof *samples, flood_compare);
    return (double)samples[count / 2] / 1000;
}

static void flood_print(struct flood *flood)
{
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {
        {"messages", flood->messages},
        {"lost", flood->lost},
        {"gaps", flood->gaps},
        {"gap_end", flood->gap_end},
        {"errors", flood->errors},
        {"sessions_new", flood->sessions_new},
        {"sessions_ended", flood->ended},
        {"timeouts", flood->timeouts},
        {"silences", flood->silences},
        {"resumed", flood->resumed},
        {"lines_down", flood->lines_down},
        {"lines_up", flood->lines_up},
        {"diverged", flood->diverged},
        {"meanwhile", flood->meanwhile},
        {"early", flood->early},
        {"left_out", flood->left_out},
        {"suspended", flood->suspended},
        {"readmitted", flood->readmitted},
        {"expelled", flood->expelled},
        {"by_application", flood->limited[LLM_LIMIT_APPLICATION]},
        {"by_buffer", flood->limited[LLM_LIMIT_BUFFER]},
        {"by_network", flood->limited[LLM_LIMIT_NETWORK]},
    };

    printf("{");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        printf("\"%s\": %" PRIu64 ", ", figures[i].name, figures[i].value);
    if (flood->repaired != NULL)
        printf("\"repaired\": %" PRIu64 ", \"repaired_median_us\": %.1f, \"others_median_us\": %.1f, ",
               flood->repaired_count, flood_median_us(flood->repaired, flood->repaired_count),
               flood_median_us(flood->clean, flood->clean_count));
    flood_print_stats(stdout, flood->context);
    printf("}\n");
}

static void flood_timing(struct flood *flood)
{
    flood->repaired = malloc(SAMPLES_MAX * sizeof *flood->repaired);
    flood->clean = malloc(SAMPLES_MAX * sizeof *flood->clean);
    if (flood->repaired == NULL || flood->clean == NULL)
        exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    static struct flood flood;
    const char *channel = argc > 1 ? argv[1] : "";
    const uint64_t sessions = flood_option(argc, argv, "--sessions", 1);
    const uint64_t wait = flood_option(argc, argv, "--wait", LLM_WAIT_SPIN);
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;

    flood_signals();
    flood.stop_at = flood_option(argc, argv, "--stop-at", 0);
    flood.pause_us = flood_option(argc, argv, "--pause-us", 0);
    flood.sent = flood_text(argc, argv, "--sent");
    flood.quotes_from = flood_option(argc, argv, "--quotes-from", 0);
    flood.merged = flood_option(argc, argv, "--merged", 0) != 0;
    flood.any_order = flood_option(argc, argv, "--any-order", 0) != 0;
    if (flood_option(argc, argv, "--timing", 0) != 0)
        flood_timing(&flood);
    llm_context_options_init(&options);
    options.wait = (enum llm_wait_mode)wait;
    options.watch_ns = flood_option(argc, argv, "--watch-ms", 0) * 1000000;
    options.latency = (enum llm_latency_level)flood_option(argc, argv, "--latency", LLM_LATENCY_OFF);
    flood_ok(llm_context_open(&options, &flood.context), "llm_context_open");
    llm_receiver_handlers_init(&handlers);
    handlers.arg = &flood;
    handlers.message = on_message;
    handlers.event = on_event;
    flood_ok(llm_receiver_open(flood.context, channel, NULL, &handlers, &receiver), channel);
    fprintf(stderr, "listening\n");
    while (!flood_stopped && flood.ended < sessions)
        flood_ok(llm_wait(flood.context, 10000000), "llm_wait");
    flood_print(&flood);
    flood_ok(llm_receiver_close(&receiver), "llm_receiver_close");
    flood_ok(llm_context_close(&flood.context), "llm_context_close");
    free(flood.repaired);
    free(flood.clean);
    return flood.errors == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
