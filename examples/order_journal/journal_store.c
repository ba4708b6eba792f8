/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Store: records every message of a channel on disk, and acknowledges it when it is there.
 *
 *   journal_store DIRECTORY NAME [JOURNAL]
 *
 * NAME is the name by which the gateway requires it, such as store-a. Ends with ctrl-C or SIGTERM.
 */
#include "order.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* A store that records no longer acknowledges no longer, so it ends: another one takes its place. */
static void on_event(void *arg, const struct llm_event *event)
{
    char text[256];

    (void)arg;
    llm_event_text(event, text, sizeof text);
    printf("* %s\n", text);
    if (event->kind == LLM_EVENT_STORE_STOPPED)
        stopped = 1;
}

static void follow(struct llm_store *store, const char *name, const char *channel)
{
    struct llm_options options;

    llm_options_init(&options);
    if (strlen(name) >= sizeof options.receiver_name) {
        fprintf(stderr, "\"%s\": a name of less than %zu bytes is wanted\n", name,
                sizeof options.receiver_name);
        exit(EXIT_FAILURE);
    }
    memcpy(options.receiver_name, name, strlen(name) + 1);
    check(llm_store_follow(store, channel, &options), channel);
}

int main(int argc, char **argv)
{
    const char *channel = argc > 3 ? argv[3] : JOURNAL_CHANNEL;
    struct llm_context_options options;
    struct llm_store_options store_options;
    struct llm_store_handlers handlers;
    struct llm_context *context;
    struct llm_store *store;

    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: journal_store DIRECTORY NAME [JOURNAL]\n");
        return EXIT_FAILURE;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);

    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    check(llm_context_open(&options, &context), "llm_context_open");

    /* The level is LLM_STORE_SYNCED: what is acknowledged is on the disk. */
    llm_store_options_init(&store_options);
    store_options.directory = argv[1];
    /* Small, so that the example runs on any disk; the defaults are for a disk of its own. */
    store_options.segment_bytes = 16u << 20;
    store_options.spares = 1;
    store_options.reserve_bytes = 64u << 20;
    llm_store_handlers_init(&handlers);
    handlers.event = on_event;
    check(llm_store_open(context, &store_options, &handlers, &store), argv[1]);
    follow(store, argv[2], channel);
    printf("* %s listening on %s\n", argv[2], channel);

    while (!stopped)
        check(llm_wait(context, 100000000), "llm_wait");

    check(llm_store_close(&store), "llm_store_close");
    check(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}
