/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends numbered messages of many sizes on several topics.
 *
 *   flood_send CHANNEL [--messages N] [--rate PER_SECOND] [--step N] [--receivers N] [--after-ms MS]
 *              [--wait MODE] [--sent FILE] [--watch-ms MS] [--latency LEVEL] [--quotes 1] [--same 1]
 *              [--leave-out N]
 *              [--limit BYTES_PER_S --limit-from NUMBER --limit-to NUMBER]
 *
 * Waits for --receivers (1), sends, creates the file --sent, serves repairs for --after-ms (500), prints its
 * counters as JSON, and closes. After every --step messages but the last it prints how many it has sent to
 * stderr, and pauses until SIGUSR1. It also prints "held" when the library first refuses a message in a step.
 * --watch-ms enables the bottleneck watch, which logs limits; --latency is the level of the latency monitor.
 * --limit limits the rate from one message number to another; the program then prints how many sends were
 * refused before and during the limit, and the bytes of messages a second during it, beyond the initial
 * burst. With --quotes one of the topics has no history. With --same messages do not have the time of sending, so those of
 * several senders are the same. --leave-out sends by llm_send_numbered(), after the first step without the messages
 * whose number is N more than a multiple of FLOOD_SEVENTH, and without one in a thousand, whatever N is.
 */
#define _GNU_SOURCE
#include "flood.h"

/*
 * Initial burst of a limit, and the maximum bytes of messages in a packet that waits for the limit; requires
 * mtu=1500.
 */
enum { LIMIT_BURST = 16384, LIMIT_PACKET = 1500 };

enum { FLOOD_SEVENTH = 7, FLOOD_THOUSAND = 1000 };

struct flood {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topics[FLOOD_TOPICS];
    uint64_t messages;
    uint64_t rate;
    uint64_t step;
    bool same;          /* messages have no time: those of several senders are the same */
    uint64_t leave_out; /* UINT64_MAX: nothing */
    bool held;          /* a send was refused in this step */
    uint64_t limit;     /* 0: no limit */
    uint64_t limit_from, limit_to;
    uint64_t limited_at, limited_bytes; /* when the limit began, and the bytes of messages accepted since */
    uint64_t limited_bytes_per_s;
    uint64_t rated_before, rated_within;
};

static volatile sig_atomic_t flood_steps_allowed = 1;

static void flood_step_allow(int number)
{
    (void)number;
    flood_steps_allowed++;
}

static void flood_topics(struct flood *flood, bool quotes)
{
    char name[16];

    for (int i = 0; i < FLOOD_TOPICS; i++) {
        const uint32_t flags = quotes && i == FLOOD_QUOTES ? LLM_TOPIC_NO_HISTORY : 0;

        (void)snprintf(name, sizeof name, "topic %d", i);
        flood_ok(
            llm_topic_open(flood->transmitter, name, i == 1 ? LLM_TOPIC_WHOLE : flags, &flood->topics[i]),
            name);
    }
}

static void flood_wait(const struct flood *flood, uint64_t receivers)
{
    while (!flood_stopped && llm_transmitter_receivers(flood->transmitter) < receivers)
        flood_ok(llm_wait(flood->context, 1000000), "llm_wait");
}

static uint64_t flood_count(const struct flood *flood, const char *name)
{
    uint64_t value;

    flood_ok(llm_context_counter(flood->context, name, &value), name);
    return value;
}

static void flood_rate(const struct flood *flood, uint64_t bytes_per_s)
{
    struct llm_rate rate;

    llm_rate_init(&rate);
    rate.bytes_per_s = bytes_per_s;
    flood_ok(llm_transmitter_limit_rate(flood->transmitter, &rate), "llm_transmitter_limit_rate");
}

static void flood_limit_begin(struct flood *flood)
{
    flood->rated_before = flood_count(flood, "send_blocked_rate");
    flood->limited_bytes = 0;
    flood->limited_at = llm_clock();
    flood_rate(flood, flood->limit);
}

static void flood_limit_end(struct flood *flood)
{
    const uint64_t passed = LIMIT_BURST + flood_count(flood, "unsent_packets") * LIMIT_PACKET;
    const uint64_t bytes = flood->limited_bytes > passed ? flood->limited_bytes - passed : 0;

    flood->limited_bytes_per_s = (uint64_t)((double)bytes * 1e9 / (double)(llm_clock() - flood->limited_at));
    flood->rated_within = flood_count(flood, "send_blocked_rate") - flood->rated_before;
    flood_rate(flood, 0);
}

static void flood_limit(struct flood *flood, uint64_t number)
{
    if (flood->limit != 0 && number == flood->limit_from)
        flood_limit_begin(flood);
    if (flood->limit != 0 && number == flood->limit_to)
        flood_limit_end(flood);
}

static int flood_put(struct flood *flood, uint64_t number, const uint8_t *data, uint32_t size)
{
    struct llm_topic *topic = flood->topics[flood_topic(number)];

    return flood->leave_out == UINT64_MAX ? llm_send(topic, data, size, 0)
                                          : llm_send_numbered(topic, number, data, size, 0);
}

static void flood_one(struct flood *flood, uint64_t number)
{
    static uint8_t data[FLOOD_SIZE_MAX];
    uint32_t size = flood_write(data, number, flood->same ? 0 : llm_clock());
    int result;

    if (flood->leave_out != UINT64_MAX && number >= flood->step &&
        (number % FLOOD_SEVENTH == flood->leave_out || number % FLOOD_THOUSAND == FLOOD_THOUSAND / 2))
        return;
    while ((result = flood_put(flood, number, data, size)) == LLM_EAGAIN && !flood_stopped) {
        if (!flood->held)
            fprintf(stderr, "held in step %" PRIu64 "\n", number / flood->step + 1);
        flood->held = true;
        flood_ok(llm_poll(flood->context), "llm_poll");
    }
    /* A refused message is not sent if the program was stopped. */
    if (result != LLM_EAGAIN)
        flood_ok(result, "llm_send");
    flood->limited_bytes += size;
}

static void flood_step(struct flood *flood, uint64_t first, uint64_t end)
{
    const uint64_t begin = llm_clock();
    uint64_t due, now;

    flood->held = false;
    for (uint64_t number = first; number < end && !flood_stopped; number++) {
        due = begin + (uint64_t)((double)(number - first) * 1e9 / (double)flood->rate);
        while ((now = llm_clock()) < due && !flood_stopped)
            flood_ok(flood->rate < 10000 ? llm_wait(flood->context, due - now) : llm_poll(flood->context),
                     "poll");
        flood_limit(flood, number);
        flood_one(flood, number);
        if (number % 16 == 0)
            flood_ok(llm_poll(flood->context), "llm_poll");
    }
}

static void flood_all(struct flood *flood)
{
    for (uint64_t first = 0, end; first < flood->messages && !flood_stopped; first = end) {
        end = flood->messages - first < flood->step ? flood->messages : first + flood->step;
        while ((uint64_t)flood_steps_allowed <= first / flood->step && !flood_stopped)
            flood_ok(llm_wait(flood->context, 1000000), "llm_wait");
        flood_step(flood, first, end);
        if (end < flood->messages)
            fprintf(stderr, "sent %" PRIu64 "\n", end);
    }
}

static void flood_make_file(const char *name)
{
    FILE *file = fopen(name, "w");

    flood_ok(file != NULL && fclose(file) == 0 ? LLM_OK : LLM_EOPTION, name);
}

int main(int argc, char **argv)
{
    struct flood flood = {
        .messages = flood_option(argc, argv, "--messages", 100000),
        .rate = flood_option(argc, argv, "--rate", 200000),
    };
    const char *channel = argc > 1 ? argv[1] : "";
    const char *sent_file = flood_text(argc, argv, "--sent");
    struct llm_context_options context_options;
    struct llm_options options;
    uint64_t sent;

    flood_signals();
    flood.same = flood_option(argc, argv, "--same", 0) != 0;
    flood.leave_out = flood_option(argc, argv, "--leave-out", UINT64_MAX);
    flood.limit = flood_option(argc, argv, "--limit", 0);
    flood.limit_from = flood_option(argc, argv, "--limit-from", 0);
    flood.limit_to = flood_option(argc, argv, "--limit-to", 0);
    (void)sigaction(SIGUSR1,
                    &(const struct sigaction){.sa_handler = flood_step_allow, .sa_flags = SA_RESTART}, NULL);
    flood.step = flood_option(argc, argv, "--step", flood.messages);
    llm_options_init(&options);
    options.linger_ns = 30000000000;
    llm_context_options_init(&context_options);
    context_options.wait = (enum llm_wait_mode)flood_option(argc, argv, "--wait", LLM_WAIT_SPIN);
    context_options.watch_ns = flood_option(argc, argv, "--watch-ms", 0) * 1000000;
    context_options.latency = (enum llm_latency_level)flood_option(argc, argv, "--latency", LLM_LATENCY_OFF);
    flood_ok(llm_context_open(&context_options, &flood.context), "llm_context_open");
    flood_ok(llm_transmitter_open(flood.context, channel, &options, NULL, &flood.transmitter), channel);
    flood_topics(&flood, flood_option(argc, argv, "--quotes", 0) != 0);
    flood_wait(&flood, flood_option(argc, argv, "--receivers", 1));
    flood_all(&flood);
    if (sent_file != NULL)
        flood_make_file(sent_file);
    sent = llm_transmitter_next(flood.transmitter);
    /* The counters end with the transmitter, and repairs are outstanding, so some idle time is included. */
    for (uint64_t until = llm_clock() + flood_option(argc, argv, "--after-ms", 500) * 1000000;
         llm_clock() < until;)
        flood_ok(llm_wait(flood.context, 1000000), "llm_wait");
    printf("{\"sent\": %" PRIu64 ", \"rated_before\": %" PRIu64 ", \"rated_within\": %" PRIu64
           ", \"limited_bytes_per_s\": %" PRIu64 ", ",
           sent, flood.rated_before, flood.rated_within, flood.limited_bytes_per_s);
    flood_print_stats(stdout, flood.context);
    printf("}\n");
    flood_ok(llm_transmitter_close(&flood.transmitter), "llm_transmitter_close");
    flood_ok(llm_context_close(&flood.context), "llm_context_close");
    return EXIT_SUCCESS;
}
