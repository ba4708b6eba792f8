/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minimal transmitter: sends numbered messages on one topic.
 *
 *   transmitter [CHANNEL [TOPIC [COUNT [INTERVAL_MS]]]]
 */
#include <llm/llm.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the result; ends the program on failure. The library's log says which value was wrong. */
static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "transmitter: %s: %s\n", what, llm_error_text(result));
        exit(EXIT_FAILURE);
    }
    return result;
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0') {
        fprintf(stderr,
                "transmitter: \"%s\" is not a number\n"
                "usage: transmitter [CHANNEL [TOPIC [COUNT [INTERVAL_MS]]]]\n",
                text);
        exit(EXIT_FAILURE);
    }
    return value;
}

/*
 * Processes events until the given time. Between messages a transmitter has to send repairs and heartbeats,
 * which it does only inside llm_poll() and llm_wait(): so poll at least once, however fast messages are sent.
 */
static void work_until(struct llm_context *context, uint64_t then)
{
    uint64_t now;

    check(llm_poll(context), "llm_poll");
    while ((now = llm_clock()) < then)
        check(llm_wait(context, then - now), "llm_wait");
}

static void send_number(struct llm_context *context, struct llm_topic *topic, uint64_t i)
{
    char text[64];
    int size = snprintf(text, sizeof text, "hello, number %" PRIu64, i);
    int result;

    /* llm_send() never blocks: if the network is slower, it returns LLM_EAGAIN, and llm_poll() makes room. */
    while ((result = llm_send(topic, text, (size_t)size, 0)) == LLM_EAGAIN)
        check(llm_poll(context), "llm_poll");
    check(result, "llm_send");
}

int main(int argc, char **argv)
{
    const char *channel = argc > 1 ? argv[1] : "udp://239.192.1.1:5001";
    const char *name = argc > 2 ? argv[2] : "greetings";
    uint64_t count = argc > 3 ? number(argv[3]) : 10;
    uint64_t interval_ns = (argc > 4 ? number(argv[4]) : 500) * 1000000;
    struct llm_context_options options;
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    uint64_t send_at;

    llm_context_options_init(&options);
    /* Sleeps between messages; the default, LLM_WAIT_SPIN, is faster and occupies a core. */
    options.wait = LLM_WAIT_BLOCK;
    check(llm_context_open(&options, &context), "llm_context_open");
    check(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), channel);
    check(llm_topic_open(transmitter, name, 0, &topic), name);

    send_at = llm_clock();
    for (uint64_t i = 0; i < count; i++) {
        send_number(context, topic, i);
        send_at += interval_ns;
        work_until(context, send_at);
    }

    /* Waits, by default at most one second, until all known receivers have everything. */
    check(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    check(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}
