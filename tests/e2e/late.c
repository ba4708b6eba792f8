/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late joiners in one process, each in a context of its own, and some receivers present from the start. A
 * late joiner gets exactly the messages from its requested position on, except earlier ones on a topic
 * without history; the other receivers are not affected.
 *
 *   e2e_late CHANNEL JOINERS, CHANNEL with options: udp://239.192.3.1:5003?interface=eth0
 */
#include "flood.h"

#include <sys/resource.h>

enum { LIVE = 3, JOINERS_MAX = 2000, BATCH = 10, FIRST = 3000, BACK = 500, REST = 1000 };

/* Time before the first late joiner: the session is no longer young then. */
#define YOUNG_NS UINT64_C(1200000000)
#define BACK_NS UINT64_C(50000000)

struct place {
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct llm_join join;
    uint64_t asked; /* messages sent before the request */
    uint64_t asked_at;
    uint64_t first;
    uint64_t expected; /* number of the next message */
    uint64_t begun_at; /* messages sent before the answer */
    bool begun;
    bool quoted; /* a message of the topic without history was delivered */
    bool live;
    bool refused;
    bool ended;
};

static struct place places[LIVE + JOINERS_MAX];
static uint64_t sent_at[1 << 20]; /* by number */
static uint64_t sent;
static unsigned errors;

static void wrong(const struct place *place, const char *what, uint64_t number)
{
    if (errors++ < 20)
        printf("receiver %d, join %d %" PRIu64 ": %s %" PRIu64 ", %" PRIu64 " is next\n",
               (int)(place - places), (int)place->join.mode, place->join.value, what, number,
               place->expected);
}

/* Every third message is on a topic without history. */
static bool is_quote(uint64_t number)
{
    return number % 3 == 0;
}

/* True if the next message may be missing: it was sent before this receiver joined. */
static bool may_pass(const struct place *place)
{
    return place->join.mode != LLM_JOIN_LIVE && !place->quoted && is_quote(place->expected) &&
           place->expected < place->begun_at;
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct place *place = arg;
    const bool quote = is_quote(message->number);

    if (message->number == place->expected + 1 && may_pass(place))
        place->expected++;
    if (strcmp(message->topic, quote ? "quotes" : "late") != 0 || (quote && message->number < place->asked))
        wrong(place, "wrong topic, or too old: message", message->number);
    place->quoted |= quote;
    if (message->number != place->expected ||
        flood_check(message->data, message->size, message->number) != NULL)
        wrong(place, "message", message->number);
    place->expected = message->number + 1;
}

/* True if a session begins at the requested position. */
static bool is_asked(const struct place *place, uint64_t first)
{
    switch (place->join.mode) {
    case LLM_JOIN_LIVE:
        return first >= place->asked || place->asked == 0;
    case LLM_JOIN_OLDEST:
        return first == 0;
    case LLM_JOIN_MESSAGES:
        return first + place->join.value >= place->asked && first + place->join.value <= sent;
    case LLM_JOIN_TIME:
        return first == 0 || sent_at[first - 1] < llm_clock() - place->join.value;
    case LLM_JOIN_NUMBER:
        return first == place->join.value;
    case LLM_JOIN_LATEST:
        break;
    }
    return false;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct place *place = arg;

    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        if (place->begun || place->refused || !is_asked(place, event->first))
            wrong(place, "begins with message", event->first);
        place->begun = true;
        place->begun_at = sent;
        place->first = place->expected = event->first;
        break;
    case LLM_EVENT_GAP:
        wrong(place, "lost: message", event->first);
        break;
    case LLM_EVENT_SESSION_END:
        place->ended = event->reason == LLM_REASON_CLOSED;
        break;
    case LLM_EVENT_LIVE:
        if (place->live ||
            (event->first != place->expected && !(event->first == place->expected + 1 && may_pass(place))))
            wrong(place, "live from message", event->first);
        place->live = true;
        break;
    case LLM_EVENT_JOIN_REFUSED:
        place->refused = event->reason == LLM_REASON_NOT_SENT && event->first == place->join.value;
        break;
    case LLM_EVENT_CACHE_LOST:
    case LLM_EVENT_TOPIC_NEW:
    case LLM_EVENT_HEARTBEAT_LOST:
    case LLM_EVENT_RESUMED:
    case LLM_EVENT_CONNECTED:
    case LLM_EVENT_DISCONNECTED:
    case LLM_EVENT_UNREACHABLE:
    case LLM_EVENT_KEYS:
    case LLM_EVENT_FORGED:
    case LLM_EVENT_DIVERGED:
    case LLM_EVENT_STREAM_GAP:
    case LLM_EVENT_STREAM_AGAIN:
    case LLM_EVENT_STREAM_REFUSED:
    case LLM_EVENT_LINE_DOWN:
    case LLM_EVENT_LINE_UP:
    case LLM_EVENT_ACKNOWLEDGED:
    case LLM_EVENT_UNACKNOWLEDGED:
    case LLM_EVENT_STORE_STOPPED:
    case LLM_EVENT_LIMITED:
    case LLM_EVENT_RECEIVER_LIMITED:
    case LLM_EVENT_WARNED:
    case LLM_EVENT_UNICAST_ONLY:
    case LLM_EVENT_SUSPENDED:
    case LLM_EVENT_EXPELLED:
    case LLM_EVENT_READMITTED:
        break;
    }
}

static void on_join(void *arg, uint64_t session, struct llm_join *join)
{
    const struct place *place = arg;

    (void)session;
    *join = place->join;
}

static struct llm_join choose(unsigned index)
{
    switch (index % 6) {
    case 0:
        return (struct llm_join){LLM_JOIN_OLDEST, 0};
    case 1:
        return (struct llm_join){LLM_JOIN_MESSAGES, BACK};
    case 2:
        return (struct llm_join){LLM_JOIN_TIME, BACK_NS};
    case 3:
        return (struct llm_join){LLM_JOIN_NUMBER, index * 13 % sent};
    case 4:
        return (struct llm_join){LLM_JOIN_NUMBER, UINT64_C(1) << 40};
    default:
        return (struct llm_join){LLM_JOIN_LIVE, 0};
    }
}

static void join(struct place *place, const char *channel)
{
    struct llm_receiver_handlers handlers;
    struct llm_options options;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = place;
    handlers.message = on_message;
    handlers.event = on_event;
    handlers.join = on_join;
    llm_options_init(&options);
    options.sessions_max = 1;
    options.window_packets = 256;
    options.reorder_bytes = 262144;
    options.topics_max = 16;
    options.message_bytes_max = FLOOD_SIZE_MAX;
    options.join_else = LLM_JOIN_ELSE_REFUSE;
    place->asked = sent;
    flood_ok(llm_context_open(NULL, &place->context), "llm_context_open");
    flood_ok(llm_receiver_open(place->context, channel, &options, &handlers, &place->receiver), channel);
}

static void poll_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        flood_ok(llm_poll(places[i].context), "llm_poll");
}

static void send_one(struct llm_context *context, struct llm_topic **topics, unsigned count)
{
    static uint8_t data[FLOOD_SIZE_MAX];
    uint32_t size = flood_write(data, sent, llm_clock());
    int result;

    sent_at[sent] = llm_clock();
    while ((result = llm_send(topics[is_quote(sent)], data, size, 0)) == LLM_EAGAIN)
        flood_ok(llm_poll(context), "llm_poll");
    flood_ok(result, "llm_send");
    sent++;
    flood_ok(llm_poll(context), "llm_poll");
    poll_all(count);
}

/* True if a receiver has all sent messages. */
static bool has_all(const struct place *place)
{
    return place->expected == sent || (place->expected + 1 == sent && may_pass(place));
}

static bool all_ended(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!places[i].ended && !places[i].refused)
            return false;
    return true;
}

static void check(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct place *place = &places[i];
        const bool ahead = place->join.mode == LLM_JOIN_NUMBER && place->join.value > sent;

        if (ahead ? !place->refused || place->begun : !has_all(place) || !place->begun)
            wrong(place, "sent were", sent);
        if (place->live != (place->join.mode != LLM_JOIN_LIVE && !ahead))
            wrong(place, "live", place->live);
    }
}

static uint64_t stat_of(const struct llm_context *context, const char *name)
{
    uint64_t value = 0;

    flood_ok(llm_context_counter(context, name, &value), name);
    return value;
}

int main(int argc, char **argv)
{
    const unsigned joiners = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100;
    struct rlimit files = {.rlim_cur = 0};
    struct llm_transmitter *transmitter;
    struct llm_context *context;
    struct llm_topic *topics[2];
    struct llm_options options;
    unsigned count = 0;
    uint64_t begin;

    if (argc < 2 || joiners > JOINERS_MAX)
        return EXIT_FAILURE;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    llm_options_init(&options);
    options.replay_bytes_per_s = UINT64_C(1) << 30;
    options.history_bytes = 256 << 20;
    options.history_packets = 1 << 18;
    options.receivers_max = JOINERS_MAX + LIVE;
    options.linger_ns = 0;
    flood_ok(llm_context_open(NULL, &context), "llm_context_open");
    while (count < LIVE)
        join(&places[count++], argv[1]);
    flood_ok(llm_transmitter_open(context, argv[1], &options, NULL, &transmitter), argv[1]);
    flood_ok(llm_topic_open(transmitter, "late", 0, &topics[0]), "late");
    flood_ok(llm_topic_open(transmitter, "quotes", LLM_TOPIC_NO_HISTORY, &topics[1]), "quotes");
    for (begin = llm_clock(); sent < FIRST || llm_clock() < begin + YOUNG_NS;) {
        if (sent < FIRST)
            send_one(context, topics, count);
        flood_ok(llm_poll(context), "llm_poll");
        poll_all(count);
    }
    while (count < LIVE + joiners) {
        places[count].join = choose(count);
        join(&places[count++], argv[1]);
        for (unsigned i = 0; i < (count % BATCH == 0 ? BATCH : 0); i++)
            send_one(context, topics, count);
    }
    for (unsigned i = 0; i < REST; i++)
        send_one(context, topics, count);
    /* Wait without a limit of time, which the caller sets. */
    for (unsigned i = LIVE; i < count;) {
        flood_ok(llm_poll(context), "llm_poll");
        poll_all(count);
        while (i < count && (has_all(&places[i]) || places[i].refused))
            i++;
    }
    printf("{\"joiners\": %u, \"messages\": %" PRIu64 ", \"granted\": %" PRIu64 ", \"refused\": %" PRIu64
           ", \"replayed\": %" PRIu64 ", \"repaired\": %" PRIu64 ", \"seconds\": %.1f}\n",
           joiners, sent, stat_of(context, "joins_granted"), stat_of(context, "joins_refused"),
           stat_of(context, "packets_replayed"), stat_of(context, "packets_repaired"),
           (double)(llm_clock() - begin) / 1e9);
    flood_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    for (begin = llm_clock(); !all_ended(count) && llm_clock() < begin + YOUNG_NS;)
        poll_all(count);
    check(count);
    for (unsigned i = 0; i < count; i++)
        flood_ok(llm_context_close(&places[i].context), "llm_context_close");
    flood_ok(llm_context_close(&context), "llm_context_close");
    printf("%u errors\n", errors);
    return errors == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
