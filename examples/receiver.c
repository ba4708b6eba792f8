/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minimal receiver: prints the messages of a topic, and the events of the sessions that send them.
 *
 *   receiver [CHANNEL [TOPIC [COUNT]]]
 *
 * TOPIC "" (the default) selects every topic. Ends after COUNT messages, or with ctrl-C.
 */
#include <llm/llm.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct application {
    const char *topic; /* "": all */
    uint64_t left;     /* messages still to print */
};

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* Returns the result; ends the program on failure. The library's log says which value was wrong. */
static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "receiver: %s: %s\n", what, llm_error_text(result));
        exit(EXIT_FAILURE);
    }
    return result;
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0') {
        fprintf(stderr, "receiver: \"%s\" is not a number\nusage: receiver [CHANNEL [TOPIC [COUNT]]]\n",
                text);
        exit(EXIT_FAILURE);
    }
    return value;
}

/* Called once for each session, without a topic, and once for each of its topics. */
static bool on_accept(void *arg, const struct llm_source *source)
{
    const struct application *application = arg;

    return source->topic == NULL || application->topic[0] == '\0' ||
           strcmp(source->topic, application->topic) == 0;
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct application *application = arg;

    /* A single llm_wait() may deliver more messages than COUNT. */
    if (application->left == 0)
        return;
    application->left--;
    printf("%s %" PRIu64 ": %.*s\n", message->topic, message->number, (int)message->size,
           (const char *)message->data);
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    printf("* %s, session %016" PRIx64, llm_event_name(event->kind), event->session);
    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        printf(", from message %" PRIu64, event->first);
        if (event->stream != 0)
            printf(", number %" PRIu64 " of its stream", event->stream_base + event->first);
        break;
    case LLM_EVENT_STREAM_GAP:
    case LLM_EVENT_STREAM_AGAIN:
        printf(", %s, numbers %" PRIu64 " to %" PRIu64, llm_reason_name(event->reason), event->first,
               event->last);
        break;
    case LLM_EVENT_DIVERGED:
        printf(", number %" PRIu64 " of its stream", event->first);
        break;
    case LLM_EVENT_STREAM_REFUSED:
    case LLM_EVENT_KEYS:
    case LLM_EVENT_FORGED:
        printf(", %s", llm_reason_name(event->reason));
        break;
    case LLM_EVENT_LINE_DOWN:
    case LLM_EVENT_LINE_UP:
        printf(", line %" PRIu64, event->first);
        break;
    case LLM_EVENT_SESSION_END:
        printf(", %s, before message %" PRIu64, llm_reason_name(event->reason), event->first);
        break;
    case LLM_EVENT_GAP:
        printf(", %s, %" PRIu64 " messages lost from number %" PRIu64, llm_reason_name(event->reason),
               event->last + 1 - event->first, event->first);
        break;
    case LLM_EVENT_TOPIC_NEW:
        printf(", %s", event->topic);
        break;
    case LLM_EVENT_JOIN_REFUSED:
        printf(", %s: from message %" PRIu64 ", there is %" PRIu64, llm_reason_name(event->reason),
               event->first, event->last);
        break;
    case LLM_EVENT_CACHE_LOST:
        printf(", %s: of topic %s and those after it; the stream continues with message %" PRIu64,
               llm_reason_name(event->reason), event->topic, event->first);
        break;
    case LLM_EVENT_LIVE:
        printf(", from message %" PRIu64, event->first);
        break;
    case LLM_EVENT_WARNED:
    case LLM_EVENT_UNICAST_ONLY:
    case LLM_EVENT_SUSPENDED:
    case LLM_EVENT_EXPELLED:
    case LLM_EVENT_READMITTED:
        printf(", %" PRIu64 " %s", event->verdict->value, llm_threshold_name(event->verdict->threshold));
        break;
    case LLM_EVENT_UNREACHABLE:
        printf(", %s: %s", event->address, llm_reason_name(event->reason));
        break;
    case LLM_EVENT_CONNECTED:
    case LLM_EVENT_DISCONNECTED:
    case LLM_EVENT_ACKNOWLEDGED:
    case LLM_EVENT_UNACKNOWLEDGED:
    case LLM_EVENT_STORE_STOPPED:
    case LLM_EVENT_LIMITED:
    case LLM_EVENT_RECEIVER_LIMITED:
    case LLM_EVENT_HEARTBEAT_LOST:
    case LLM_EVENT_RESUMED:
        break;
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    const char *channel = argc > 1 ? argv[1] : "udp://239.192.1.1:5001";
    struct application application = {
        .topic = argc > 2 ? argv[2] : "",
        .left = argc > 3 ? number(argv[3]) : UINT64_MAX,
    };
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;
    struct llm_context *context;
    struct llm_receiver *receiver;

    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);

    llm_context_options_init(&options);
    /* Sleeps until a packet arrives; the default, LLM_WAIT_SPIN, is faster and occupies a core. */
    options.wait = LLM_WAIT_BLOCK;
    check(llm_context_open(&options, &context), "llm_context_open");

    llm_receiver_handlers_init(&handlers);
    handlers.arg = &application;
    handlers.accept = on_accept;
    handlers.message = on_message;
    handlers.event = on_event;
    check(llm_receiver_open(context, channel, NULL, &handlers, &receiver), channel);
    printf("* listening on %s\n", channel);

    /*
     * The handlers run inside llm_wait(), which returns ten times a second even if nothing arrives, to check
     * stopped.
     */
    while (!stopped && application.left > 0)
        check(llm_wait(context, 100000000), "llm_wait");

    check(llm_receiver_close(&receiver), "llm_receiver_close");
    check(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}
