/* SPDX-License-Identifier: Apache-2.0 */
/* llm receive: messages as text, JSON, hexadecimal digits, bytes, or their number. */
#define _GNU_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "llm_tool.h"

static const char usage[] =
    "usage: llm receive [OPTION]... CHANNEL [PATTERN]...\n"
    "\n"
    "Prints the messages of a channel, as TOPIC: TEXT, until a signal ends it. Each PATTERN selects topics: "
    "an "
    "element * is\n"
    "any one element of a name, an element > at its end one or more ('prices.*.bonds', 'prices.>').\n"
    "\n"
    "  --json             one line of JSON a message\n"
    "  --hex              bytes of messages in hexadecimal digits\n"
    "  --plain            bytes of messages as they are, each on a line, without the topic\n"
    "  --raw              bytes of messages as they are, and nothing between them\n"
    "  --count            only how many messages and bytes came, once a second and at the end\n"
    "  --limit COUNT      ends after so many messages\n"
    "  --timeout SECONDS  ends if no message came for so long; fails if there were none, or fewer than "
    "--limit\n"
    "  --events           all events on standard error; else only those that report losses and refusals\n"
    "  --help             this text\n"
    "\n"
    "In text, bytes that are no printable UTF-8 are \\xNN. Options of the channel choose where to begin:\n"
    "'udp://239.192.1.1:5001?join=oldest', join=latest, join=messages&join_messages=10; llm_options(7) lists "
    "all.\n"
    "\n"
    "Exit status: 0; 1 if something failed; 2 for a wrong argument.\n";

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_HEX, FORMAT_PLAIN, FORMAT_RAW, FORMAT_COUNT };

struct receive {
    struct llm_context *context;
    enum format format;
    uint64_t limit; /* messages; UINT64_MAX: none */
    uint64_t timeout_ns;
    bool events;
    /* progress */
    uint64_t messages;
    uint64_t bytes;
    uint64_t lost;
    uint64_t received_at; /* the last message */
};

/* ---------------------------------------------------------------------------------------------- formats */

/* True for text of one line that neither controls a terminal nor looks like an escape. */
static bool is_plain(const uint8_t *bytes, size_t size)
{
    if (!json_is_text(bytes, size))
        return false;
    for (size_t i = 0; i < size; i++) {
        /* U+0080 to U+009F are control characters, too. */
        const bool control = bytes[i] == 0xc2 && bytes[i + 1] < 0xa0;

        if (control || bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\\')
            return false;
    }
    return true;
}

/* Prints text that cannot control a terminal. */
static void print_text(const uint8_t *bytes, size_t size)
{
    if (is_plain(bytes, size)) {
        fwrite(bytes, 1, size, stdout);
        return;
    }
    for (size_t i = 0; i < size; i++)
        if (bytes[i] >= ' ' && bytes[i] <= '~' && bytes[i] != '\\')
            putchar(bytes[i]);
        else
            printf("\\x%02x", bytes[i]);
}

static void print_hex(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        printf("%02x", bytes[i]);
}

/* The fields that llm-store export has, as far as a receiver knows them. */
static void print_json(const struct llm_message *message)
{
    const bool text = json_is_text(message->data, message->size);

    printf("{\"session\": \"%016" PRIx64 "\", \"number\": %" PRIu64 ", \"topic\": ", message->session,
           message->number);
    json_string(stdout, message->topic, strlen(message->topic));
    if (message->received_at != 0)
        printf(", \"received_ns\": %" PRIu64, message->received_at);
    printf(", \"size\": %u, %s", message->size, text ? "\"text\": " : "\"base64\": ");
    if (text)
        json_string(stdout, message->data, message->size);
    else
        json_base64(stdout, message->data, message->size);
    printf("}\n");
}

static void print_topic(const char *topic)
{
    print_text((const uint8_t *)topic, strlen(topic));
    printf(": ");
}

static void print_message(enum format format, const struct llm_message *message)
{
    switch (format) {
    case FORMAT_TEXT:
        print_topic(message->topic);
        print_text(message->data, message->size);
        putchar('\n');
        break;
    case FORMAT_HEX:
        print_topic(message->topic);
        print_hex(message->data, message->size);
        putchar('\n');
        break;
    case FORMAT_JSON:
        print_json(message);
        break;
    case FORMAT_PLAIN:
    case FORMAT_RAW:
        fwrite(message->data, 1, message->size, stdout);
        if (format == FORMAT_PLAIN)
            putchar('\n');
        break;
    case FORMAT_COUNT:
        break;
    }
}

/* ---------------------------------------------------------------------------------------------- handlers */

static void on_message(void *arg, const struct llm_message *message)
{
    struct receive *receive = arg;

    /* A poll may deliver more messages than were asked for. */
    if (receive->messages == receive->limit)
        return;
    receive->messages++;
    receive->bytes += message->size;
    print_message(receive->format, message);
}

/* True for events of the normal course of sessions. */
static bool is_routine(enum llm_event_kind kind)
{
    return kind == LLM_EVENT_SESSION_NEW || kind == LLM_EVENT_SESSION_END || kind == LLM_EVENT_TOPIC_NEW ||
           kind == LLM_EVENT_LIVE || kind == LLM_EVENT_LINE_UP || kind == LLM_EVENT_RESUMED;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct receive *receive = arg;
    char text[512];

    if (event->kind == LLM_EVENT_GAP)
        receive->lost += event->last + 1 - event->first;
    if (!receive->events && is_routine(event->kind))
        return;
    (void)llm_event_text(event, text, sizeof text);
    fprintf(stderr, "llm receive: %s\n", text);
}

/* -------------------------------------------------------------------------------------------------- main */

/* Prints the rates since the last time. */
static void print_rates(const struct receive *now, const struct receive *before, double seconds)
{
    printf("%.0f messages/s, %.3f MiB/s, %" PRIu64 " messages, %" PRIu64 " bytes, %" PRIu64 " lost\n",
           (double)(now->messages - before->messages) / seconds,
           (double)(now->bytes - before->bytes) / (1 << 20) / seconds, now->messages, now->bytes, now->lost);
}

/* Receives until a signal, the limit or the timeout. Returns the exit status. */
static int receive_loop(struct receive *receive)
{
    const uint64_t begun_at = llm_clock();
    struct receive before = *receive;
    uint64_t shown_at = begun_at;
    int status = 0;

    receive->received_at = begun_at;
    while (!tool_stopped && receive->messages < receive->limit && status == 0) {
        const uint64_t messages = receive->messages;
        uint64_t now;

        (void)llm_wait(receive->context, TOOL_SECOND / 20);
        now = llm_clock();
        if (receive->messages != messages) {
            receive->received_at = now;
            status = tool_flush(0);
        } else if (now - receive->received_at > receive->timeout_ns) {
            status = receive->messages == 0 || receive->limit != UINT64_MAX ? TOOL_FAILED : 0;
            break;
        }
        if (receive->format == FORMAT_COUNT && now - shown_at >= TOOL_SECOND) {
            print_rates(receive, &before, (double)(now - shown_at) / 1e9);
            before = *receive;
            shown_at = now;
            status = tool_flush(status);
        }
    }
    if (receive->format == FORMAT_COUNT)
        printf("%" PRIu64 " messages, %" PRIu64 " bytes, %" PRIu64 " lost\n", receive->messages,
               receive->bytes, receive->lost);
    return tool_flush(status);
}

static int receive_run(struct receive *receive, const char *channel, char **patterns)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver = NULL;
    int error = tool_open("llm receive", false, &receive->context);
    int status;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = receive;
    handlers.message = on_message;
    handlers.event = on_event;
    if (error == LLM_OK)
        error = llm_receiver_open(receive->context, channel, NULL, &handlers, &receiver);
    for (; error == LLM_OK && *patterns != NULL; patterns++)
        error = llm_receiver_subscribe(receiver, *patterns);
    if (error == LLM_OK && receive->events)
        fprintf(stderr, "llm receive: listening on %s\n", channel);
    status = error == LLM_OK ? receive_loop(receive) : tool_status(error);
    (void)llm_receiver_close(&receiver);
    (void)llm_context_close(&receive->context);
    return status;
}

enum { LIMIT = 100, TIMEOUT, EVENTS, HELP };

/* Formats have the number of their format. */
static const struct option options[] = {{"json", no_argument, NULL, FORMAT_JSON},
                                        {"hex", no_argument, NULL, FORMAT_HEX},
                                        {"plain", no_argument, NULL, FORMAT_PLAIN},
                                        {"raw", no_argument, NULL, FORMAT_RAW},
                                        {"count", no_argument, NULL, FORMAT_COUNT},
                                        {"limit", required_argument, NULL, LIMIT},
                                        {"timeout", required_argument, NULL, TIMEOUT},
                                        {"events", no_argument, NULL, EVENTS},
                                        {"help", no_argument, NULL, HELP},
                                        {NULL, 0, NULL, 0}};

/* Takes an option. False: it was refused. */
static bool receive_option(struct receive *receive, int option, const char *text)
{
    switch (option) {
    case LIMIT:
        return tool_number("receive", "--limit", optarg, 1, UINT64_MAX - 1, &receive->limit);
    case TIMEOUT:
        return tool_seconds("receive", "--timeout", optarg, &receive->timeout_ns);
    case EVENTS:
        return receive->events = true;
    default:
        if (receive->format != FORMAT_TEXT) {
            (void)tool_refuse("receive", text, "one of --json, --hex, --plain, --raw and --count at a time");
            return false;
        }
        receive->format = (enum format)option;
        return true;
    }
}

int tool_receive(int argc, char **argv)
{
    struct receive receive = {.limit = UINT64_MAX, .timeout_ns = UINT64_MAX};
    int option;

    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == '?' || option == ':')
            return tool_refuse_option("receive", option, argv);
        if (option == HELP) {
            fputs(usage, stdout);
            return tool_flush(0);
        }
        if (!receive_option(&receive, option, argv[optind - 1]))
            return TOOL_USAGE;
    }
    if (optind == argc)
        return tool_refuse("receive", "CHANNEL", "has to be given");
    tool_catch_signals();
    return receive_run(&receive, argv[optind], argv + optind + 1);
}
