/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers and subscribers of a channel in one process, for callgrind, which counts the instructions of each
 * side:
 *   valgrind --tool=callgrind --toggle-collect=subscribers_send \
 *       PROGRAM CHANNEL SUBSCRIBERS SIZE BATCH [PUBLISHERS [TOPICS]]
 *   valgrind --tool=callgrind --toggle-collect=subscribers_receive ...
 * Each publisher (1) sends a batch of messages on its topics (1) in turn, then every subscriber takes all of them.
 * Fails unless each receives all messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/steady.h"

enum {
    SUBSCRIBERS_MAX = 64,
    SUBSCRIBERS_TOPICS_MAX = 64,
    SUBSCRIBERS_MESSAGES = 8000,
    SUBSCRIBERS_SIZE_MAX = 1400,
    SUBSCRIBERS_TURNS = 1000
};

static struct publisher {
    struct llm_context *context;
    struct llm_topic *topics[SUBSCRIBERS_TOPICS_MAX];
} publishers[SUBSCRIBERS_MAX];
static struct llm_context *far_ends[SUBSCRIBERS_MAX];
static uint64_t received[SUBSCRIBERS_MAX];
static unsigned count, publisher_count, topic_count;

static void subscribers_message(void *arg, const struct llm_message *message)
{
    (void)message;
    ++*(uint64_t *)arg;
}

__attribute__((noinline)) void subscribers_send(size_t size, unsigned batch);
__attribute__((noinline)) void subscribers_receive(uint64_t wanted);

void subscribers_send(size_t size, unsigned batch)
{
    static const char data[SUBSCRIBERS_SIZE_MAX];

    for (unsigned p = 0; p < publisher_count; p++) {
        for (unsigned i = 0; i < batch; i++)
            steady_ok(llm_send(publishers[p].topics[i % topic_count], data, size,
                               i + 1 < batch ? LLM_SEND_MORE : 0),
                      "llm_send");
        steady_poll(publishers[p].context);
    }
}

void subscribers_receive(uint64_t wanted)
{
    for (unsigned i = 0; i < count; i++)
        while (received[i] < wanted)
            steady_poll(far_ends[i]);
}

static void publisher_open(struct publisher *publisher, const char *channel)
{
    const struct llm_context_options options = steady_options();
    struct llm_transmitter *transmitter;
    char name[16];

    publisher->context = steady_open(&options);
    steady_ok(llm_transmitter_open(publisher->context, channel, NULL, NULL, &transmitter), channel);
    for (unsigned i = 0; i < topic_count; i++) {
        (void)snprintf(name, sizeof name, "topic%u", i);
        steady_ok(llm_topic_open(transmitter, name, 0, &publisher->topics[i]), name);
    }
}

static void subscribers_open(const char *channel)
{
    const struct llm_context_options options = steady_options();
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;

    llm_receiver_handlers_init(&handlers);
    handlers.message = subscribers_message;
    for (unsigned p = 0; p < publisher_count; p++)
        publisher_open(&publishers[p], channel);
    for (unsigned i = 0; i < count; i++) {
        handlers.arg = &received[i];
        far_ends[i] = steady_open(&options);
        steady_ok(llm_receiver_open(far_ends[i], channel, NULL, &handlers, &receiver), channel);
    }
}

static void subscribers_poll_all(void)
{
    for (unsigned p = 0; p < publisher_count; p++)
        steady_poll(publishers[p].context);
    for (unsigned i = 0; i < count; i++)
        steady_poll(far_ends[i]);
}

/* Messages that are not counted: until every subscriber receives each publisher's, then as many as are counted. */
static void subscribers_warm_up(size_t size, unsigned batch)
{
    bool all = false;

    while (!all) {
        memset(received, 0, sizeof received);
        for (unsigned p = 0; p < publisher_count; p++)
            steady_ok(llm_send(publishers[p].topics[0], "", 1, 0), "llm_send");
        for (int turn = 0; turn < SUBSCRIBERS_TURNS; turn++)
            subscribers_poll_all();
        all = true;
        for (unsigned i = 0; i < count; i++)
            all = all && received[i] == publisher_count;
    }
    memset(received, 0, sizeof received);
    for (uint64_t sent = 0; sent < SUBSCRIBERS_MESSAGES; sent += (uint64_t)batch * publisher_count) {
        subscribers_send(size, batch);
        for (unsigned i = 0; i < count; i++)
            while (received[i] < sent + (uint64_t)batch * publisher_count)
                subscribers_poll_all();
    }
}

/* Returns the number at a place of the command line, `absent` if it is shorter; 0: not from 1 to max. */
static unsigned argument(int argc, char **argv, int place, unsigned absent, unsigned max)
{
    const unsigned long number = place < argc ? strtoul(argv[place], NULL, 10) : absent;

    return number <= max ? (unsigned)number : 0;
}

int main(int argc, char **argv)
{
    const size_t size = argument(argc, argv, 3, 0, SUBSCRIBERS_SIZE_MAX);
    const unsigned batch = argument(argc, argv, 4, 0, SUBSCRIBERS_MESSAGES);
    uint64_t sent = SUBSCRIBERS_MESSAGES;

    count = argument(argc, argv, 2, 0, SUBSCRIBERS_MAX);
    publisher_count = argument(argc, argv, 5, 1, SUBSCRIBERS_MAX);
    topic_count = argument(argc, argv, 6, 1, SUBSCRIBERS_TOPICS_MAX);
    if (count == 0 || size == 0 || batch == 0 || publisher_count == 0 || topic_count == 0 || argc > 7 ||
        SUBSCRIBERS_MESSAGES % (batch * publisher_count) != 0) {
        (void)fprintf(stderr, "usage: subscribers CHANNEL SUBSCRIBERS SIZE BATCH [PUBLISHERS [TOPICS]]\n");
        return 2;
    }
    subscribers_open(argv[1]);
    subscribers_warm_up(size, batch);
    for (uint64_t i = 0; i < SUBSCRIBERS_MESSAGES; i += (uint64_t)batch * publisher_count) {
        subscribers_send(size, batch);
        subscribers_receive(sent += (uint64_t)batch * publisher_count);
    }
    (void)printf("%d messages to %u subscribers\n", SUBSCRIBERS_MESSAGES, count);
    return 0;
}
