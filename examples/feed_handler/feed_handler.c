/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives a MoldUDP64 feed of ITCH messages from a multicast group, or from two of them, line A and line B, maintains
 * the order books, and sends the best bid and offer of each symbol over libllm whenever it changes. With --relay it sends
 * the messages of the feed themselves, under their numbers. See feed_handler --help for usage.
 *
 * It has its own event loop, over the sockets of the feed and the descriptor of libllm.
 */
#define _GNU_SOURCE /* ppoll */
#include "arbiter.h"
#include "arguments.h"
#include "group.h"
#include "publisher.h"
#include "relay.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000u
#define RETRY_NS 100000u
#define REFRESH_NS SECOND_NS
#define RELAY_NS (10 * (uint64_t)SECOND_NS)
#define LEVELS_MAX 1024
/* datagrams received before the quotes are sent and libllm is polled */
#define BURST 64

struct arguments {
    const char *groups[ARBITER_LINES]; /* NULL: there is no such line */
    const char *interfaces[ARBITER_LINES];
    uint64_t wait_us;
    const char *channel;
    bool relays;
    uint32_t symbols_max;
    uint32_t orders_max;
    bool once;
};

struct counters {
    uint64_t datagrams;
    uint64_t messages;
    uint64_t messages_bad;
    uint64_t messages_other; /* of types that do not affect books */
    uint64_t messages_repeated;
    uint64_t messages_refused; /* rejected by the books */
    uint64_t gaps;
    uint64_t messages_lost;
};

struct handler {
    int feeds[ARBITER_LINES]; /* -1: not open */
    uint32_t lines;
    bool relays;
    bool ended;
    int failed; /* the relay could not send: an LLM_E... code */
    uint64_t refresh_at;
    uint64_t gaps_reported;
    struct arbiter arbiter;
    struct market market;        /* unless it relays ... */
    struct publisher publisher;  /* ... and where the quotes go */
    struct relay relay;          /* if it does */
    struct llm_context *context; /* of either */
    struct counters counters;
    uint8_t datagram[65536];
};

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* --------------------------------------------------------------------------------------------------- feed */

static void take_message(struct handler *handler, const uint8_t *data, size_t size, uint64_t sequence)
{
    struct itch_message message;

    handler->counters.messages++;
    if (handler->relays) {
        if (handler->failed == 0)
            handler->failed = relay_send(&handler->relay, sequence, data, size, RELAY_NS);
        return;
    }
    switch (itch_decode(data, size, &message)) {
    case ITCH_OK:
        handler->counters.messages_refused += market_apply(&handler->market, &message, sequence) != MARKET_OK;
        break;
    case ITCH_OTHER:
        handler->counters.messages_other++;
        break;
    case ITCH_BAD:
        /* The message may have concerned any book. */
        handler->counters.messages_bad++;
        market_lost(&handler->market);
        break;
    }
}

static void take_step(struct handler *handler, const struct arbiter_turn *turn)
{
    const struct mold_step *step = &turn->step;

    if (step->session_new) {
        handler->ended = false;
        /* A relay ends with the session of the feed: another one has another stream. */
        if (handler->relays && handler->relay.transmitter == NULL)
            handler->failed = relay_begin(&handler->relay, turn->packet.session, turn->packet.sequence);
        else if (handler->relays)
            handler->ended = true;
        else
            market_clear(&handler->market);
    }
    if (step->lost_count > 0) {
        handler->counters.gaps++;
        handler->counters.messages_lost += step->lost_count;
        /* The numbers that a relay leaves out say what is lost. */
        if (!handler->relays)
            market_lost(&handler->market);
    }
    handler->counters.messages_repeated += step->seen_count;
}

/* Handles the packet whose turn it is. */
static void take_turn(struct handler *handler, struct arbiter_turn *turn)
{
    const uint8_t *message;
    size_t message_size;

    take_step(handler, turn);
    if (handler->relays && handler->ended)
        return;
    for (uint16_t i = 0; mold_packet_next(&turn->packet, &message, &message_size); i++) {
        if (i >= turn->step.seen_count)
            take_message(handler, message, message_size, turn->packet.sequence + i);
    }
    if (turn->packet.end)
        handler->ended = true;
}

/* Handles what was held and is not waited for any more. */
static void take_held(struct handler *handler, uint64_t now)
{
    struct arbiter_turn turn;

    while (arbiter_next(&handler->arbiter, now, &turn))
        take_turn(handler, &turn);
}

static void take_datagram(struct handler *handler, uint32_t line, size_t size)
{
    const uint64_t now = llm_clock();
    struct arbiter_turn turn;

    handler->counters.datagrams++;
    if (arbiter_take(&handler->arbiter, line, handler->datagram, size, now, &turn))
        take_turn(handler, &turn);
    take_held(handler, now);
}

/* The lines take turns, so that neither is read long after the other. */
static void take_feed(struct handler *handler)
{
    uint32_t dry = 0;

    for (uint32_t i = 0; i < BURST * handler->lines && dry < handler->lines; i++) {
        const uint32_t line = i % handler->lines;
        ssize_t size = recv(handler->feeds[line], handler->datagram, sizeof handler->datagram, 0);

        dry = size < 0 ? dry + 1 : 0;
        if (size >= 0)
            take_datagram(handler, line, (size_t)size);
    }
    take_held(handler, llm_clock());
}

/* --------------------------------------------------------------------------------------------------- loop */

/*
 * Reports losses, once a second at most: a receiver that loses datagrams has no time to print a line for
 * each.
 */
static void report_gaps(struct handler *handler)
{
    const struct counters *counters = &handler->counters;

    if (counters->gaps == handler->gaps_reported)
        return;
    handler->gaps_reported = counters->gaps;
    printf("feed_handler: the feed lost messages: %" PRIu64 " in %" PRIu64 " gaps so far%s\n",
           counters->messages_lost, counters->gaps, handler->relays ? "" : "; the books are stale");
}

static void refresh(struct handler *handler)
{
    uint64_t now = llm_clock();

    if (now < handler->refresh_at)
        return;
    handler->refresh_at = now + REFRESH_NS;
    report_gaps(handler);
    if (!handler->relays)
        publisher_refresh(&handler->publisher, &handler->market);
}

/* Returns the nanoseconds until the next timer. */
static uint64_t idle_ns(const struct handler *handler)
{
    uint64_t now = llm_clock();
    uint64_t then = llm_context_deadline(handler->context);

    if (then > arbiter_deadline(&handler->arbiter))
        then = arbiter_deadline(&handler->arbiter);
    if (then > handler->refresh_at)
        then = handler->refresh_at;
    if (handler->market.changed_count > 0 && then > now + RETRY_NS)
        then = now + RETRY_NS;
    return then > now ? then - now : 0;
}

/* Polls libllm, and sleeps if neither it nor the feed has anything. Returns 0 or an LLM_E... code. */
static int rest(struct handler *handler)
{
    /* poll() ignores a line that is not open. */
    struct pollfd descriptors[ARBITER_LINES + 1] = {{.fd = handler->feeds[0], .events = POLLIN},
                                                    {.fd = handler->feeds[1], .events = POLLIN},
                                                    {.events = POLLIN}};
    struct timespec timeout;
    uint64_t idle;
    int result;

    /* Keep this order: llm_context_fd() arms the descriptor, llm_poll() processes what came before that. */
    descriptors[ARBITER_LINES].fd = llm_context_fd(handler->context);
    if (descriptors[ARBITER_LINES].fd < 0)
        return descriptors[ARBITER_LINES].fd;
    result = llm_poll(handler->context);
    if (result != 0)
        return result < 0 ? result : 0;
    idle = idle_ns(handler);
    timeout = (struct timespec){.tv_sec = (time_t)(idle / SECOND_NS), .tv_nsec = (long)(idle % SECOND_NS)};
    if (ppoll(descriptors, ARBITER_LINES + 1, &timeout, NULL) < 0 && errno != EINTR)
        return LLM_ESYSTEM;
    return 0;
}

static bool is_done(const struct handler *handler, bool once)
{
    return stopped || ((once || handler->relays) && handler->ended && handler->market.changed_count == 0);
}

static int send_all(struct handler *handler)
{
    if (!handler->relays)
        return publisher_publish(&handler->publisher, &handler->market);
    return handler->failed < 0 ? handler->failed : relay_flush(&handler->relay);
}

static int run(struct handler *handler, bool once)
{
    int result = 0;

    while (result == 0 && !is_done(handler, once)) {
        take_feed(handler);
        refresh(handler);
        result = send_all(handler);
        if (result == 0)
            result = rest(handler);
    }
    return result;
}

/* --------------------------------------------------------------------------------------------------- main */

static void report(const struct handler *handler)
{
    const struct counters *counters = &handler->counters;

    printf("feed_handler: %" PRIu64 " datagrams, %" PRIu64 " bad; %" PRIu64 " messages, %" PRIu64
           " bad, %" PRIu64 " of other types, %" PRIu64 " repeated, %" PRIu64 " refused, %" PRIu64
           " lost in %" PRIu64 " gaps\n",
           counters->datagrams, handler->arbiter.bad, counters->messages, counters->messages_bad,
           counters->messages_other, counters->messages_repeated, counters->messages_refused,
           counters->messages_lost, counters->gaps);
    for (uint32_t i = 0; i < handler->lines && handler->lines > 1; i++)
        printf("feed_handler: line %c: first with %" PRIu64 " packets, second with %" PRIu64 "\n",
               (int)('A' + i), handler->arbiter.line[i].first, handler->arbiter.line[i].second);
    if (handler->lines > 1)
        printf("feed_handler: %" PRIu64 " gaps of one line filled by the other\n", handler->arbiter.filled);
    if (handler->relays) {
        printf("feed_handler: %" PRIu64 " messages sent on\n", handler->relay.messages);
        return;
    }
    printf("feed_handler: %" PRIu64 " quotes of %" PRIu32 " symbols sent, postponed %" PRIu64 " times\n",
           handler->publisher.quotes, handler->market.book_count, handler->publisher.postponed);
}

static void usage(FILE *file)
{
    fprintf(file, "usage: feed_handler [OPTION]...\n"
                  "  --group GROUP:PORT    the feed, or its line A; default 239.192.1.2:5002\n"
                  "  --interface NAME      interface that it comes in by; default: the kernel's choice\n"
                  "  --group-b GROUP:PORT  line B of the feed; default: there is none\n"
                  "  --interface-b NAME    interface that line B comes in by; default: that of line A\n"
                  "  --wait-us N           longest wait for the other line after a gap; default 10000\n"
                  "  --channel CHANNEL     where the quotes go; default udp://239.192.1.3:5003\n"
                  "  --relay               send the messages of the feed, not quotes; implies --once\n"
                  "  --symbols N           most symbols; default 1024\n"
                  "  --orders N            most live orders; default 1048576\n"
                  "  --once                end with the feed's session\n");
}

static struct arguments parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"group", required_argument, NULL, 'g'},   {"interface", required_argument, NULL, 'i'},
        {"group-b", required_argument, NULL, 'G'}, {"interface-b", required_argument, NULL, 'I'},
        {"wait-us", required_argument, NULL, 'w'}, {"relay", no_argument, NULL, 'r'},
        {"channel", required_argument, NULL, 'c'}, {"symbols", required_argument, NULL, 's'},
        {"orders", required_argument, NULL, 'o'},  {"once", no_argument, NULL, '1'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    struct arguments arguments = {
        .groups = {"239.192.1.2:5002"},
        .interfaces = {""},
        .wait_us = 10000,
        .channel = "udp://239.192.1.3:5003",
        .symbols_max = 1024,
        .orders_max = 1048576,
    };

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'g':
            arguments.groups[0] = optarg;
            break;
        case 'i':
            arguments.interfaces[0] = optarg;
            break;
        case 'G':
            arguments.groups[1] = optarg;
            break;
        case 'I':
            arguments.interfaces[1] = optarg;
            break;
        case 'w':
            arguments.wait_us = argument_number("wait-us", optarg, 0, 10000000);
            break;
        case 'r':
            arguments.relays = true;
            break;
        case 'c':
            arguments.channel = optarg;
            break;
        case 's':
            arguments.symbols_max = (uint32_t)argument_number("symbols", optarg, 1, BOOK_LOCATES);
            break;
        case 'o':
            arguments.orders_max = (uint32_t)argument_number("orders", optarg, 1, 1u << 28);
            break;
        case '1':
            arguments.once = true;
            break;
        case 'h':
            usage(stdout);
            exit(EXIT_SUCCESS);
        default:
            usage(stderr);
            exit(EXIT_FAILURE);
        }
    }
    return arguments;
}

/* Opens the output: books and quotes, or the messages of the feed. Returns false after a message on stderr. */
static bool output_open(struct handler *handler, const struct arguments *arguments)
{
    const struct market_limits limits = {arguments->symbols_max, arguments->orders_max, LEVELS_MAX};
    int result;

    if (!arguments->relays && !market_init(&handler->market, &limits)) {
        fprintf(stderr, "feed_handler: no memory for %" PRIu32 " symbols and %" PRIu32 " orders\n",
                limits.symbols_max, limits.orders_max);
        return false;
    }
    result = arguments->relays ? relay_open(&handler->relay, arguments->channel)
                               : publisher_open(&handler->publisher, arguments->channel, limits.symbols_max);
    handler->context = arguments->relays ? handler->relay.context : handler->publisher.context;
    if (result < 0)
        fprintf(stderr, "feed_handler: %s: %s\n", arguments->channel, llm_error_text(result));
    return result >= 0;
}

static bool handler_open(struct handler *handler, const struct arguments *arguments)
{
    int lines;

    handler->feeds[0] = handler->feeds[1] = -1;
    handler->relays = arguments->relays;
    if (!output_open(handler, arguments))
        return false;
    lines = group_open_lines(arguments->groups, arguments->interfaces, ARBITER_LINES, group_open_receiver,
                             handler->feeds);
    if (lines < 0)
        return false;
    handler->lines = (uint32_t)lines;
    if (!arbiter_init(&handler->arbiter, handler->lines, arguments->wait_us * 1000)) {
        fprintf(stderr, "feed_handler: no memory for %d packets\n", ARBITER_HELD);
        return false;
    }
    return true;
}

static void handler_close(struct handler *handler)
{
    for (uint32_t i = 0; i < ARBITER_LINES; i++)
        if (handler->feeds[i] >= 0)
            close(handler->feeds[i]);
    if (handler->relays)
        relay_close(&handler->relay);
    else
        publisher_close(&handler->publisher);
    market_fini(&handler->market);
    arbiter_fini(&handler->arbiter);
}

int main(int argc, char **argv)
{
    static struct handler handler;
    struct arguments arguments = parse(argc, argv);
    int result = LLM_ESTATE;

    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    if (handler_open(&handler, &arguments)) {
        printf("feed_handler: listening to %s%s%s, sending to %s\n", arguments.groups[0],
               handler.lines > 1 ? " and " : "", handler.lines > 1 ? arguments.groups[1] : "",
               arguments.channel);
        result = run(&handler, arguments.once);
        if (result < 0)
            fprintf(stderr, "feed_handler: %s\n", llm_error_text(result));
        report(&handler);
    }
    handler_close(&handler);
    return result < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
