/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C side of bench/python/run.py.
 *
 *   peer rates BATCHES           CPU nanoseconds of a message of 45 bytes over loop: sent, and received
 *   peer echo CHANNEL CHANNEL    sends what it receives on the first channel back on the second, sleeping in between
 *   peer ping CHANNEL CHANNEL N  median round trip of N messages, in nanoseconds
 */
#include <llm/llm.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 45, BATCH = 300 };

static struct llm_topic *topic;
static uint64_t count;
static bool echoes;

static int check(int result)
{
    if (result < 0) {
        fprintf(stderr, "peer: %s\n", llm_error_text(result));
        exit(EXIT_FAILURE);
    }
    return result;
}

static void on_messages(void *arg, const struct llm_message *messages, int messages_count)
{
    (void)arg;
    for (int i = 0; i < messages_count; i++) {
        count += ((const char *)messages[i].data)[0] != 0;
        if (echoes)
            check(llm_send(topic, messages[i].data, messages[i].size, 0));
    }
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

static struct llm_context *open_both(const char *from, const char *to)
{
    struct llm_receiver_handlers handlers;
    struct llm_context_options options;
    struct llm_transmitter *transmitter;
    struct llm_context *context;
    struct llm_receiver *receiver;

    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    options.huge_pages = false;
    check(llm_context_open(&options, &context));
    llm_receiver_handlers_init(&handlers);
    handlers.messages = on_messages;
    handlers.event = on_event;
    check(llm_receiver_open(context, from, NULL, &handlers, &receiver));
    check(llm_transmitter_open(context, to, NULL, NULL, &transmitter));
    check(llm_topic_open(transmitter, "t", 0, &topic));
    return context;
}

static uint64_t cpu_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void rates(int batches)
{
    const char *channel = "loop://rates:1?history_bytes=16M&history_packets=8192";
    struct llm_context *context = open_both(channel, channel);
    uint64_t sent_ns = 0, received_ns = 0;
    char data[BYTES];

    memset(data, 'x', sizeof data);
    for (int batch = 0; batch < batches; batch++) {
        const uint64_t begin = cpu_ns();
        uint64_t middle;

        for (int i = 0; i < BATCH; i++)
            check(llm_send(topic, data, sizeof data, LLM_SEND_MORE));
        middle = cpu_ns();
        while (check(llm_poll(context)) > 0)
            continue;
        sent_ns += middle - begin;
        received_ns += cpu_ns() - middle;
    }
    if (count != (uint64_t)batches * BATCH)
        exit(EXIT_FAILURE);
    printf("%.2f %.2f\n", (double)sent_ns / (double)count, (double)received_ns / (double)count);
    check(llm_context_close(&context));
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void ping(struct llm_context *context, int messages)
{
    uint64_t *trips = calloc((size_t)messages, sizeof *trips);
    const char data[BYTES] = "x";

    if (trips == NULL)
        exit(EXIT_FAILURE);
    /* The first reply shows that both sides follow each other. */
    while (count == 0) {
        check(llm_send(topic, data, sizeof data, 0));
        check(llm_wait(context, 100000000));
    }
    check(llm_wait(context, 300000000));
    for (int i = 0; i < messages; i++) {
        const uint64_t begin = llm_clock(), before = count;

        check(llm_send(topic, data, sizeof data, 0));
        while (count == before)
            check(llm_wait(context, 100000000));
        trips[i] = llm_clock() - begin;
    }
    qsort(trips, (size_t)messages, sizeof *trips, compare);
    printf("%" PRIu64 "\n", trips[messages / 2]);
    free(trips);
    check(llm_context_close(&context));
}

int main(int argc, char **argv)
{
    struct llm_context *context;

    if (argc == 3 && strcmp(argv[1], "rates") == 0) {
        rates(atoi(argv[2]));
        return EXIT_SUCCESS;
    }
    if (argc == 5 && strcmp(argv[1], "ping") == 0) {
        ping(open_both(argv[2], argv[3]), atoi(argv[4]));
        return EXIT_SUCCESS;
    }
    if (argc != 4 || strcmp(argv[1], "echo") != 0)
        return EXIT_FAILURE;
    echoes = true;
    context = open_both(argv[2], argv[3]);
    for (;;)
        check(llm_wait(context, UINT64_MAX));
}
