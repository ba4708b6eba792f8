/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minimal client: connects to an answerer, sends a request, and prints the reply and how long it took.
 *
 *   asker [CHANNEL [WORD [TEXT...]]]
 */
#include <llm/llm.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS UINT64_C(1000000000)

struct application {
    bool connected;
    bool over;
    bool waits; /* waiting for a reply */
    uint64_t asked_at;
};

/* Returns the result; ends the program on failure. The library's log says which value was wrong. */
static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "asker: %s: %s\n", what, llm_error_text(result));
        exit(EXIT_FAILURE);
    }
    return result;
}

static void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct application *application = arg;
    char text[160];

    (void)connection;
    llm_event_text(event, text, sizeof text);
    printf("%s\n", text);
    application->connected |= event->kind == LLM_EVENT_CONNECTED;
    application->over |= event->kind == LLM_EVENT_DISCONNECTED;
}

/* Called once per request: with the reply, or with the reason for its absence. */
static void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    struct application *application = arg;

    application->waits = false;
    if (reason == LLM_REASON_NONE)
        printf("%.*s, after %" PRIu64 " us\n", (int)size, (const char *)data,
               (llm_clock() - application->asked_at) / 1000);
    else
        printf("no reply: %s\n", llm_reason_name(reason));
}

static void ask(struct llm_context *context, struct llm_connection *connection,
                struct application *application, const char *text)
{
    application->waits = true;
    application->asked_at = llm_clock();
    check(llm_connection_request(connection, text, strlen(text), PATIENCE_NS, on_reply, application),
          "llm_connection_request");
    while (application->waits)
        check(llm_wait(context, PATIENCE_NS), "llm_wait");
}

int main(int argc, char **argv)
{
    const char *channel = argc > 1 ? argv[1] : "udp://127.0.0.1:5001?interface=lo";
    const char *word = argc > 2 ? argv[2] : "please";
    const struct iovec payload = {(void *)(uintptr_t)word, strlen(word)};
    struct application application = {.connected = false};
    struct llm_connection_handlers handlers;
    struct llm_context *context;
    struct llm_connection *connection;

    check(llm_context_open(NULL, &context), "llm_context_open");
    llm_connection_handlers_init(&handlers);
    handlers.arg = &application;
    handlers.event = on_event;
    check(llm_connection_open(context, channel, NULL, &handlers, &payload, &connection),
          "llm_connection_open");
    while (!application.connected && !application.over)
        check(llm_wait(context, PATIENCE_NS), "llm_wait");
    for (int i = 3; i < argc && !application.over; i++)
        ask(context, connection, &application, argv[i]);
    check(llm_connection_close(&connection), "llm_connection_close");
    check(llm_context_close(&context), "llm_context_close");
    return application.connected ? EXIT_SUCCESS : EXIT_FAILURE;
}
