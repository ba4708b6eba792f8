/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions of a message, the application's own included: the program in C that bench/languages.py compares those in other languages
 * with. Each does the same by the means of its language: sends bursts, and receives them one by one or together.
 *
 *   cost_c CHANNEL one|together BURSTS MESSAGES
 */
#include <llm/llm.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 45 };

struct seen {
    uint64_t messages;
    uint64_t bytes;
};

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "cost_c: %s: %s\n", what, llm_error_text(result));
        exit(EXIT_FAILURE);
    }
    return result;
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct seen *seen = arg;

    seen->messages++;
    seen->bytes += message->size;
}

static void on_messages(void *arg, const struct llm_message *messages, int count)
{
    struct seen *seen = arg;

    for (int i = 0; i < count; i++) {
        seen->messages++;
        seen->bytes += messages[i].size;
    }
}

/* Callgrind counts during these two functions, which it finds by name. */
void counted_send(struct llm_transmitter *transmitter, struct llm_topic *topic, const uint8_t *data,
                  long count);
void counted_receive(struct llm_context *context);

__attribute__((noinline)) void counted_send(struct llm_transmitter *transmitter, struct llm_topic *topic,
                                            const uint8_t *data, long count)
{
    for (long i = 0; i < count; i++)
        check(llm_send(topic, data, SIZE, LLM_SEND_MORE), "llm_send");
    check(llm_transmitter_flush(transmitter), "llm_transmitter_flush");
}

__attribute__((noinline)) void counted_receive(struct llm_context *context)
{
    while (check(llm_poll(context), "llm_poll") > 0)
        continue;
}

static struct llm_context *open_context(void)
{
    struct llm_context_options options;
    struct llm_context *context;

    llm_context_options_init(&options);
    options.huge_pages = false;
    options.stats_directory = "";
    check(llm_context_open(&options, &context), "llm_context_open");
    return context;
}

int main(int argc, char **argv)
{
    struct llm_context *near = open_context(), *far = open_context();
    struct seen seen = {0, 0};
    struct llm_receiver_handlers handlers;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_topic *topic;
    uint8_t data[SIZE] = {0};

    if (argc != 5)
        return EXIT_FAILURE;
    llm_receiver_handlers_init(&handlers);
    handlers.arg = &seen;
    if (strcmp(argv[2], "one") == 0)
        handlers.message = on_message;
    else
        handlers.messages = on_messages;
    check(llm_receiver_open(far, argv[1], NULL, &handlers, &receiver), argv[1]);
    check(llm_transmitter_open(near, argv[1], NULL, NULL, &transmitter), argv[1]);
    check(llm_topic_open(transmitter, "topic", 0, &topic), "topic");
    for (long i = atol(argv[3]); i > 0; i--) {
        counted_send(transmitter, topic, data, atol(argv[4]));
        counted_receive(far);
        check(llm_poll(near), "llm_poll");
    }
    printf("%" PRIu64 " %" PRIu64 "\n", seen.messages, seen.bytes);
    check(llm_context_close(&near), "llm_context_close");
    check(llm_context_close(&far), "llm_context_close");
    return EXIT_SUCCESS;
}
