/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minimal server: accepts connections of clients that present the password, and answers each request with its
 * text reversed.
 *
 *   answerer [CHANNEL [WORD]]
 */
#include <llm/llm.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 256, CODE_UNKNOWN_WORD = 403 };

/* Returns the result; ends the program on failure. The library's log says which value was wrong. */
static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "answerer: %s: %s\n", what, llm_error_text(result));
        exit(EXIT_FAILURE);
    }
    return result;
}

/*
 * Handles a request. A client that sends faster than it reads gets no answer in time; other clients are not
 * delayed.
 */
static void on_asked(void *arg, struct llm_connection *connection, const struct llm_request *asked)
{
    const char *text = asked->data;
    char turned[TEXT_MAX];
    size_t size = asked->size < TEXT_MAX ? asked->size : TEXT_MAX;

    (void)arg;
    for (size_t i = 0; i < size; i++)
        turned[i] = text[size - 1 - i];
    if (llm_connection_reply(connection, asked->id, turned, size) == LLM_EAGAIN)
        fprintf(stderr, "answerer: a reply is dropped\n");
}

static void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    char text[160];

    (void)arg;
    llm_event_text(event, text, sizeof text);
    printf("%016" PRIx64 ": %s\n", llm_connection_id(connection), text);
    /* Each side closes its connection, also after the other side has closed. */
    if (event->kind == LLM_EVENT_DISCONNECTED)
        check(llm_connection_close(&connection), "llm_connection_close");
}

/* Handles a connection request with its credentials. */
static int on_request(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                      struct llm_connection_handlers *handlers)
{
    const char *word = arg;

    (void)listener;
    if (caller->payload_size != strlen(word) || memcmp(caller->payload, word, strlen(word)) != 0)
        return CODE_UNKNOWN_WORD;
    handlers->request = on_asked;
    handlers->event = on_event;
    return LLM_OK;
}

int main(int argc, char **argv)
{
    const char *channel = argc > 1 ? argv[1] : "udp://127.0.0.1:5001?interface=lo";
    struct llm_listener_handlers handlers;
    struct llm_context_options options;
    struct llm_context *context;
    struct llm_listener *listener;

    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    check(llm_context_open(&options, &context), "llm_context_open");
    llm_listener_handlers_init(&handlers);
    handlers.arg = argc > 2 ? argv[2] : "please";
    handlers.connect = on_request;
    check(llm_listener_open(context, channel, NULL, &handlers, &listener), "llm_listener_open");
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("listening on %s\n", channel);
    for (;;)
        check(llm_wait(context, UINT64_MAX), "llm_wait");
}
