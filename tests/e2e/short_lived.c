/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A permanent context, and many short-lived peers: receivers that fetch the history of its transmitter, and
 * transmitters whose losses its receiver has repaired. Each peer is a context with its own address, and has
 * to get all its messages, the last peer like the first.
 *
 *   e2e_short_lived SCHEME GROUP OPTIONS PEERS, GROUP without a port, OPTIONS as in a channel: interface=lo
 *
 * Prints the counters of the permanent context. OPTIONS limit the number of addresses that it knows:
 * receivers_max, sessions_max.
 */
#include <stdatomic.h>

#include "flood.h"

enum {
    MESSAGES = 8,
    CROWD = 16,   /* peers at a time */
    ROUND = 1000, /* peers between two progress lines */
    PORT_PAST = 17101,
    PORT_LIVE = 17102,
};

#define PATIENCE_NS 20000000000u
#define MEMORY                                                                                          \
    "history_bytes=1M&history_packets=1024&reorder_bytes=1M&window_packets=1024&message_bytes_max=64K&" \
    "topics_max=8"                                                                                      \
    "&heartbeat_ns_min=1000000&heartbeat_ns_max=1000000&slow=off&gso_packets=1"

static const char *scheme, *group, *options;
static atomic_uint_fast64_t delivered; /* messages delivered to the permanent receiver */
static atomic_uint_fast64_t gaps;

static void channel_of(char *text, size_t size, unsigned port, const char *more)
{
    (void)snprintf(text, size, "%s://%s:%u?" MEMORY "&%s&%s", scheme, group, port, options, more);
}

static struct llm_context *context_of(void)
{
    struct llm_context_options own;
    struct llm_context *context;

    llm_context_options_init(&own);
    own.stats_directory = "";
    own.huge_pages = false;
    own.wait = LLM_WAIT_BLOCK;
    flood_ok(llm_context_open(&own, &context), "llm_context_open");
    return context;
}

static void on_message(void *arg, const struct llm_message *message)
{
    (void)message;
    (void)atomic_fetch_add((atomic_uint_fast64_t *)arg, 1);
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)atomic_fetch_add(&gaps, event->kind == LLM_EVENT_GAP);
}

static struct llm_receiver *receiver_of(struct llm_context *context, unsigned port, const char *more,
                                        atomic_uint_fast64_t *count)
{
    struct llm_receiver *receiver;
    struct llm_receiver_handlers handlers;
    char channel[512];

    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    handlers.arg = count;
    channel_of(channel, sizeof channel, port, more);
    flood_ok(llm_receiver_open(context, channel, NULL, &handlers, &receiver), "llm_receiver_open");
    flood_ok(llm_receiver_subscribe(receiver, "*"), "llm_receiver_subscribe");
    return receiver;
}

static void transmit(struct llm_context *context, unsigned port, const char *more,
                     struct llm_transmitter **transmitter)
{
    static const char text[64] = "a message";
    struct llm_topic *topic;
    char channel[512];

    channel_of(channel, sizeof channel, port, more);
    flood_ok(llm_transmitter_open(context, channel, NULL, NULL, transmitter), "llm_transmitter_open");
    flood_ok(llm_topic_open(*transmitter, "t", 0, &topic), "llm_topic_open");
    for (int i = 0; i < MESSAGES; i++)
        flood_ok(llm_send(topic, text, sizeof text, 0), "llm_send");
}

/* Half of a crowd receives, half transmits. */
struct peer {
    struct llm_context *context;
    struct llm_transmitter *transmitter; /* NULL: the peer receives */
    atomic_uint_fast64_t count;
};

static void peer_open(struct peer *peer, bool transmits)
{
    *peer = (struct peer){.context = context_of()};
    if (transmits)
        transmit(peer->context, PORT_LIVE, "linger_ns=10000000000", &peer->transmitter);
    else
        (void)receiver_of(peer->context, PORT_PAST, "join=oldest", &peer->count);
}

static void peer_close(struct peer *peer)
{
    if (peer->transmitter != NULL)
        flood_ok(llm_transmitter_close(&peer->transmitter), "llm_transmitter_close");
    flood_ok(llm_context_close(&peer->context), "llm_context_close");
}

/*
 * Polls the peers until all receivers have the history, and the permanent receiver has so many messages in
 * total.
 */
static void crowd_await(struct peer *crowd, uint64_t wanted, uint64_t number)
{
    const uint64_t give_up_at = llm_clock() + PATIENCE_NS;
    uint64_t waiting = 1, live;

    while (waiting > 0) {
        waiting = 0;
        for (int i = 0; i < CROWD; i++) {
            flood_ok(llm_poll(crowd[i].context), "llm_poll");
            waiting += crowd[i].transmitter == NULL && atomic_load(&crowd[i].count) < MESSAGES;
        }
        live = atomic_load(&delivered);
        if ((waiting > 0 || live < wanted) && (llm_clock() > give_up_at || atomic_load(&gaps) > 0)) {
            fprintf(stderr,
                    "after %" PRIu64 " peers: %" PRIu64 " receivers wait for the past; %" PRIu64
                    " of %" PRIu64 " messages of transmitters came; %" PRIuFAST64 " gaps\n",
                    number, waiting, live, wanted, atomic_load(&gaps));
            exit(EXIT_FAILURE);
        }
        waiting += live < wanted;
    }
}

static void crowd_pass(uint64_t number)
{
    struct peer crowd[CROWD];

    for (int i = 0; i < CROWD; i++)
        peer_open(&crowd[i], i % 2 == 0);
    crowd_await(crowd, (number + CROWD) / 2 * MESSAGES, number);
    for (int i = 0; i < CROWD; i++)
        peer_close(&crowd[i]);
}

int main(int argc, char **argv)
{
    const uint64_t peers = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    struct llm_context *context;
    struct llm_transmitter *transmitter;

    if (peers == 0) {
        fprintf(stderr, "usage: e2e_short_lived SCHEME GROUP OPTIONS PEERS\n");
        return EXIT_FAILURE;
    }
    scheme = argv[1];
    group = argv[2];
    options = argv[3];
    context = context_of();
    transmit(context, PORT_PAST, "linger_ns=0", &transmitter);
    (void)receiver_of(context, PORT_LIVE, "join=oldest", &delivered);
    /* A receiver that joins a session in its first second needs no grant. */
    for (const uint64_t until = llm_clock() + 1200000000u; llm_clock() < until;)
        flood_ok(llm_wait(context, 10000000), "llm_wait");
    flood_ok(llm_context_start_thread(context, -1), "llm_context_start_thread");
    for (uint64_t number = 0; number < peers; number += CROWD) {
        crowd_pass(number);
        if (number / ROUND != (number + CROWD) / ROUND)
            fprintf(stderr, "%" PRIu64 " peers\n", number + CROWD);
    }
    flood_ok(llm_context_stop_thread(context), "llm_context_stop_thread");
    printf("{\"peers\": %" PRIu64 ", ", peers);
    flood_print_stats(stdout, context);
    printf("}\n");
    flood_ok(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}
