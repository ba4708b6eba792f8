/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transmitter and several subscribers of its channel in one process, for callgrind, which counts the
 * instructions of each side:
 *   valgrind --tool=callgrind --toggle-collect=subscribers_send PROGRAM CHANNEL SUBSCRIBERS SIZE BATCH
 *   valgrind --tool=callgrind --toggle-collect=subscribers_receive PROGRAM CHANNEL SUBSCRIBERS SIZE BATCH
 * A batch of messages is sent, then every subscriber takes it. Fails unless each receives all messages.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/steady.h"

enum {
    SUBSCRIBERS_MAX = 64,
    SUBSCRIBERS_MESSAGES = 8000,
    SUBSCRIBERS_SIZE_MAX = 1400,
    SUBSCRIBERS_TURNS = 1000
};

static struct llm_context *near_end, *far_ends[SUBSCRIBERS_MAX];
static struct llm_topic *topic;
static uint64_t received[SUBSCRIBERS_MAX];
static unsigned count;

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

    for (unsigned i = 0; i < batch; i++)
        steady_ok(llm_send(topic, data, size, i + 1 < batch ? LLM_SEND_MORE : 0), "llm_send");
    steady_poll(near_end);
}

void subscribers_receive(uint64_t wanted)
{
    for (unsigned i = 0; i < count; i++)
        while (received[i] < wanted)
            steady_poll(far_ends[i]);
}

static void subscribers_open(const char *channel)
{
    const struct llm_context_options options = steady_options();
    struct llm_transmitter *transmitter;
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;

    llm_receiver_handlers_init(&handlers);
    handlers.message = subscribers_message;
    near_end = steady_open(&options);
    steady_ok(llm_transmitter_open(near_end, channel, NULL, NULL, &transmitter), channel);
    steady_ok(llm_topic_open(transmitter, "topic", 0, &topic), "topic");
    for (unsigned i = 0; i < count; i++) {
        handlers.arg = &received[i];
        far_ends[i] = steady_open(&options);
        steady_ok(llm_receiver_open(far_ends[i], channel, NULL, &handlers, &receiver), channel);
    }
}

static void subscribers_poll_all(void)
{
    steady_poll(near_end);
    for (unsigned i = 0; i < count; i++)
        steady_poll(far_ends[i]);
}

/* Messages that are not counted: until every subscriber receives them, then as many as are counted. */
static void subscribers_warm_up(size_t size, unsigned batch)
{
    bool all = false;

    while (!all) {
        steady_ok(llm_send(topic, "", 1, 0), "llm_send");
        for (int turn = 0; turn < SUBSCRIBERS_TURNS; turn++)
            subscribers_poll_all();
        all = true;
        for (unsigned i = 0; i < count; i++)
            all = all && received[i] > 0;
    }
    for (unsigned i = 0; i < count; i++)
        received[i] = 0;
    for (uint64_t sent = 0; sent < SUBSCRIBERS_MESSAGES; sent += batch) {
        subscribers_send(size, batch);
        for (unsigned i = 0; i < count; i++)
            while (received[i] < sent + batch)
                subscribers_poll_all();
    }
}

int main(int argc, char **argv)
{
    const size_t size = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
    const unsigned batch = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    uint64_t sent = SUBSCRIBERS_MESSAGES;

    count = argc == 5 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    if (count == 0 || count > SUBSCRIBERS_MAX || size == 0 || size > SUBSCRIBERS_SIZE_MAX || batch == 0 ||
        SUBSCRIBERS_MESSAGES % batch != 0) {
        (void)fprintf(stderr, "usage: subscribers CHANNEL SUBSCRIBERS SIZE BATCH\n");
        return 2;
    }
    subscribers_open(argv[1]);
    subscribers_warm_up(size, batch);
    for (uint64_t i = 0; i < SUBSCRIBERS_MESSAGES; i += batch) {
        subscribers_send(size, batch);
        subscribers_receive(sent += batch);
    }
    (void)printf("%d messages to %u subscribers\n", SUBSCRIBERS_MESSAGES, count);
    return 0;
}
