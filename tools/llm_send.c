/* SPDX-License-Identifier: Apache-2.0 */
/* llm send: messages from arguments, from lines of standard input, or all of that as one message. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "llm_tool.h"

static const char usage[] =
    "usage: llm send [OPTION]... CHANNEL TOPIC [MESSAGE]...\n"
    "\n"
    "Sends each MESSAGE, or without one each line of standard input, on a topic of the channel.\n"
    "\n"
    "  --count COUNT      sends the arguments so many times (1); 0: until a signal ends it\n"
    "  --rate RATE        messages a second, at most (no limit)\n"
    "  --whole            all of standard input is one message\n"
    "  --hex              messages are written in hexadecimal digits\n"
    "  --receivers COUNT  begins when so many receivers are there (0)\n"
    "  --wait SECONDS     ... and fails if they are not by then (10)\n"
    "  --cache COUNT      caches the last COUNT messages for receivers that join with join=latest\n"
    "  --stay             stays for late receivers after the last message, until a signal ends it\n"
    "  --quiet            does not print what was sent, on standard error\n"
    "  --help             this text\n"
    "\n"
    "A message that begins with a dash goes behind --. The log of the library goes to standard error.\n"
    "\n"
    "Exit status: 0; 1 if something failed, a signal came before all was sent, or a receiver did not confirm "
    "all messages; 2 for a wrong argument.\n";

struct send {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    uint64_t count; /* 0: for ever */
    uint64_t rate;  /* messages a second; 0: no limit */
    uint64_t receivers;
    uint64_t wait_ns;
    uint64_t cache; /* messages; 0: none */
    bool hex;
    bool whole;
    bool stay;
    bool quiet;
    /* progress */
    uint64_t begun_at;
    uint64_t messages;
    uint64_t bytes;
};

/* ------------------------------------------------------------------------------------------- sending */

/* Works until a point in time: a transmitter has to send repairs and heartbeats between its messages. */
static void work_until(const struct send *send, uint64_t then)
{
    uint64_t now;

    (void)llm_poll(send->context);
    while (!tool_stopped && (now = llm_clock()) < then)
        (void)llm_wait(send->context, then - now < TOOL_SECOND / 10 ? then - now : TOOL_SECOND / 10);
}

static int hex_digit(char digit)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *const found = digit == '\0' ? NULL : strchr(digits, digit);

    return found == NULL ? -1 : (int)(found - digits) % 16;
}

/* Decodes hexadecimal digits in place. False: there is something else, or half a byte. */
static bool decode_hex(char *text, size_t *size)
{
    if (*size % 2 != 0)
        return false;
    for (size_t i = 0; i < *size; i += 2) {
        const int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);

        if (high < 0 || low < 0)
            return false;
        text[i / 2] = (char)(high << 4 | low);
    }
    *size /= 2;
    return true;
}

/* Sends one message, when the rate permits it. data is overwritten if it has to be decoded. */
static int send_message(struct send *send, char *data, size_t size)
{
    int error = LLM_EAGAIN;

    if (send->hex && !decode_hex(data, &size)) {
        fprintf(stderr, "llm send: message %" PRIu64 ": not an even number of hexadecimal digits\n",
                send->messages + 1);
        return TOOL_USAGE;
    }
    if (send->messages == 0)
        send->begun_at = llm_clock();
    if (send->rate > 0)
        work_until(send, send->begun_at +
                             (uint64_t)((double)send->messages * (double)TOOL_SECOND / (double)send->rate));
    else if (send->messages % 64 == 0)
        (void)llm_poll(send->context);
    while (!tool_stopped && (error = llm_send(send->topic, data, size, 0)) == LLM_EAGAIN)
        (void)llm_topic_wait(send->topic, size, TOOL_SECOND / 10);
    if (error != LLM_OK)
        return TOOL_FAILED;
    send->messages++;
    send->bytes += size;
    return 0;
}

/* Returns the exit status for a signal that came too early. */
static int send_stopped(void)
{
    fprintf(stderr, "llm send: a signal ended it: not everything was sent\n");
    return TOOL_FAILED;
}

/* Without a count a signal is the end; with one it comes too early. */
static int send_arguments(struct send *send, int count, char **messages)
{
    int status = 0;

    for (uint64_t round = 0; (send->count == 0 || round < send->count) && status == 0; round++)
        for (int i = 0; i < count && status == 0; i++) {
            char *const copy = strdup(messages[i]);

            status = copy == NULL || tool_stopped ? TOOL_FAILED : send_message(send, copy, strlen(copy));
            free(copy);
        }
    if (!tool_stopped || status == 0)
        return status;
    return send->count == 0 ? 0 : send_stopped();
}

/* ------------------------------------------------------------------------------------- standard input */

/* Bytes read from standard input and not sent yet. */
struct input {
    char *data;
    size_t size;
    size_t room;
};

/* Sleeps until there is input; the transmitter works meanwhile. */
static void input_wait(const struct send *send)
{
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = llm_context_fd(send->context), .events = POLLIN}};
    int ready = 0;

    while (!tool_stopped && ready == 0) {
        uint64_t now, deadline;

        (void)llm_context_fd(send->context);
        (void)llm_poll(send->context);
        deadline = llm_context_deadline(send->context);
        now = llm_clock();
        deadline = deadline < now ? 0 : deadline - now;
        (void)poll(fds, 2, deadline > TOOL_SECOND / 10 ? 100 : (int)(deadline / 1000000) + 1);
        ready = fds[0].revents;
    }
}

/* Reads more input. Returns 0 at its end, or if a signal came; -1 on failure. */
static ssize_t input_read(const struct send *send, struct input *input)
{
    ssize_t got;

    if (input->size == input->room) {
        const size_t room = input->room == 0 ? 65536 : 2 * input->room;
        char *const data = realloc(input->data, room);

        if (data == NULL)
            return -1;
        input->data = data;
        input->room = room;
    }
    do {
        input_wait(send);
        got = tool_stopped ? 0 : read(STDIN_FILENO, input->data + input->size, input->room - input->size);
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    if (got > 0)
        input->size += (size_t)got;
    return got;
}

/* Sends the complete lines of the input, and removes them from it. */
static int send_lines(struct send *send, struct input *input)
{
    size_t at = 0;
    char *end;
    int status = 0;

    while (status == 0 && !tool_stopped && at < input->size &&
           (end = memchr(input->data + at, '\n', input->size - at)) != NULL) {
        const size_t length = (size_t)(end - input->data) - at;

        status = send_message(send, input->data + at, length);
        at += length + 1;
    }
    input->size -= at;
    memmove(input->data, input->data + at, input->size);
    return status;
}

/* True if a signal left something unsent: of what was read, or of what waits in standard input. */
static bool input_remains(const struct send *send, const struct input *input, int status)
{
    int waiting = 0;

    if (!tool_stopped)
        return false;
    (void)ioctl(STDIN_FILENO, FIONREAD, &waiting);
    return status != 0 || send->whole || input->size > 0 || waiting > 0;
}

static int send_input(struct send *send)
{
    struct input input = {NULL, 0, 0};
    ssize_t got;
    bool remains;
    int status = 0;

    while (status == 0 && (got = input_read(send, &input)) > 0)
        if (!send->whole)
            status = send_lines(send, &input);
    if (status == 0 && got < 0) {
        fprintf(stderr, "llm send: standard input: %s\n", strerror(errno));
        status = TOOL_FAILED;
    }
    remains = input_remains(send, &input, status);
    /* The last line may have no end; a whole message may be empty. */
    if (!remains && status == 0 && (send->whole || input.size > 0)) {
        status = send_message(send, input.data, input.size);
        remains = tool_stopped && status != 0;
    }
    free(input.data);
    return remains ? send_stopped() : status;
}

/* ---------------------------------------------------------------------------------------------- main */

static int send_open(struct send *send, const char *channel, const char *topic)
{
    struct llm_cache cache;
    int error = tool_open("llm send", false, &send->context);

    if (error == LLM_OK)
        error = llm_transmitter_open(send->context, channel, NULL, NULL, &send->transmitter);
    if (error == LLM_OK)
        error = llm_topic_open(send->transmitter, topic, 0, &send->topic);
    if (error != LLM_OK || send->cache == 0)
        return error;
    llm_cache_init(&cache);
    cache.messages = send->cache;
    cache.bytes_max = 65536;
    return llm_topic_cache(send->topic, &cache);
}

/* Waits for the receivers that have to be there. False: some are not. */
static bool send_await(const struct send *send)
{
    const uint64_t until = llm_clock() + send->wait_ns;
    uint32_t known = 0;

    /* In short waits, so that a signal ends it. */
    while (!tool_stopped && (known = llm_transmitter_receivers(send->transmitter)) < send->receivers &&
           llm_clock() < until)
        (void)llm_transmitter_wait(send->transmitter, (uint32_t)send->receivers, TOOL_SECOND / 20);
    if (known >= send->receivers)
        return true;
    fprintf(stderr, "llm send: %" PRIu32 " of %" PRIu64 " receivers are there: nothing was sent\n", known,
            send->receivers);
    return false;
}

/* Ends the session. Returns the exit status. */
static int send_end(struct send *send, int status)
{
    const uint32_t receivers = llm_transmitter_receivers(send->transmitter);
    const double seconds = send->messages == 0 ? 0 : (double)(llm_clock() - send->begun_at) / 1e9;
    int missing;

    while (send->stay && status == 0 && !tool_stopped)
        (void)llm_wait(send->context, TOOL_SECOND / 10);
    missing = llm_transmitter_close(&send->transmitter);
    if (!send->quiet)
        fprintf(stderr, "sent %" PRIu64 " messages, %" PRIu64 " bytes, in %.3f s; %" PRIu32 " receivers\n",
                send->messages, send->bytes, seconds, receivers);
    if (missing <= 0)
        return status;
    fprintf(stderr, "llm send: %d receivers did not confirm all messages in time\n", missing);
    return TOOL_FAILED;
}

static int send_run(struct send *send, char **arguments, int messages)
{
    int error = send_open(send, arguments[0], arguments[1]);
    int status;

    if (error != LLM_OK) {
        (void)llm_context_close(&send->context);
        return tool_status(error);
    }
    status = send->receivers > 0 && !send_await(send) ? TOOL_FAILED
             : messages > 0                           ? send_arguments(send, messages, arguments + 2)
                                                      : send_input(send);
    status = send_end(send, status);
    (void)llm_context_close(&send->context);
    return status;
}

enum { COUNT, RATE, WHOLE, HEX, RECEIVERS, WAIT, CACHE, STAY, QUIET, HELP };

static const struct option options[] = {{"count", required_argument, NULL, COUNT},
                                        {"rate", required_argument, NULL, RATE},
                                        {"whole", no_argument, NULL, WHOLE},
                                        {"hex", no_argument, NULL, HEX},
                                        {"receivers", required_argument, NULL, RECEIVERS},
                                        {"wait", required_argument, NULL, WAIT},
                                        {"cache", required_argument, NULL, CACHE},
                                        {"stay", no_argument, NULL, STAY},
                                        {"quiet", no_argument, NULL, QUIET},
                                        {"help", no_argument, NULL, HELP},
                                        {NULL, 0, NULL, 0}};

/* Takes an option. False: its value was refused. */
static bool send_option(struct send *send, int option)
{
    switch (option) {
    case COUNT:
        return tool_number("send", "--count", optarg, 0, UINT64_MAX, &send->count);
    case RATE:
        return tool_number("send", "--rate", optarg, 1, UINT32_MAX, &send->rate);
    case RECEIVERS:
        return tool_number("send", "--receivers", optarg, 0, UINT16_MAX, &send->receivers);
    case WAIT:
        return tool_seconds("send", "--wait", optarg, &send->wait_ns);
    case CACHE:
        return tool_number("send", "--cache", optarg, 1, 1048576, &send->cache);
    case WHOLE:
        return send->whole = true;
    case HEX:
        return send->hex = true;
    case STAY:
        return send->stay = true;
    default:
        return send->quiet = true;
    }
}

int tool_send(int argc, char **argv)
{
    struct send send = {.count = 1, .wait_ns = 10 * TOOL_SECOND};
    bool counted = false;
    int option;

    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == '?' || option == ':')
            return tool_refuse_option("send", option, argv);
        if (option == HELP) {
            fputs(usage, stdout);
            return tool_flush(0);
        }
        if (!send_option(&send, option))
            return TOOL_USAGE;
        counted |= option == COUNT;
    }
    if (argc - optind < 2)
        return tool_refuse("send", argc == optind ? "CHANNEL" : "TOPIC", "has to be given");
    if (argc - optind == 2 && counted)
        return tool_refuse("send", "--count", "needs messages as arguments");
    if (argc - optind > 2 && send.whole)
        return tool_refuse("send", "--whole", "not together with messages as arguments");
    tool_catch_signals();
    return send_run(&send, argv + optind, argc - optind - 2);
}
