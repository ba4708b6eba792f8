/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives a MoldUDP64 feed of ITCH messages from a multicast group, maintains the order books, and sends the
 * best bid and offer of each symbol over libllm whenever it changes. See feed_handler --help for usage.
 *
 * It has its own event loop, over the socket of the feed and the descriptor of libllm.
 */
#define _GNU_SOURCE /* ppoll */
#include "arguments.h"
#include "group.h"
#include "mold.h"
#include "publisher.h"

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
#define LEVELS_MAX 1024
/* datagrams received before the quotes are sent and libllm is polled */
#define BURST 64

struct arguments {
    const char *group;
    const char *interface;
    const char *channel;
    uint32_t symbols_max;
    uint32_t orders_max;
    bool once;
};

struct counters {
    uint64_t datagrams;
    uint64_t datagrams_bad;
    uint64_t messages;
    uint64_t messages_bad;
    uint64_t messages_other; /* of types that do not affect books */
    uint64_t messages_repeated;
    uint64_t messages_refused; /* rejected by the books */
    uint64_t gaps;
    uint64_t messages_lost;
};

struct handler {
    int feed;
    bool ended;
    uint64_t refresh_at;
    uint64_t gaps_reported;
    struct mold_stream stream;
    struct market market;
    struct publisher publisher;
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

static void take_step(struct handler *handler, const struct mold_step *step)
{
    if (step->session_new) {
        handler->ended = false;
        market_clear(&handler->market);
    }
    if (step->lost_count > 0) {
        handler->counters.gaps++;
        handler->counters.messages_lost += step->lost_count;
        market_lost(&handler->market);
    }
    handler->counters.messages_repeated += step->seen_count;
}

static void take_datagram(struct handler *handler, size_t size)
{
    struct mold_packet packet;
    struct mold_step step;
    const uint8_t *message;
    size_t message_size;

    handler->counters.datagrams++;
    if (!mold_packet_decode(&packet, handler->datagram, size)) {
        handler->counters.datagrams_bad++;
        return;
    }
    step = mold_stream_take(&handler->stream, &packet);
    take_step(handler, &step);
    for (uint16_t i = 0; mold_packet_next(&packet, &message, &message_size); i++) {
        if (i >= step.seen_count)
            take_message(handler, message, message_size, packet.sequence + i);
    }
    if (packet.end)
        handler->ended = true;
}

static void take_feed(struct handler *handler)
{
    for (int i = 0; i < BURST; i++) {
        ssize_t size = recv(handler->feed, handler->datagram, sizeof handler->datagram, 0);

        if (size < 0)
            return;
        take_datagram(handler, (size_t)size);
    }
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
    printf("feed_handler: the feed lost messages: %" PRIu64 " in %" PRIu64
           " gaps so far; the books are stale\n",
           counters->messages_lost, counters->gaps);
}

static void refresh(struct handler *handler)
{
    uint64_t now = llm_clock();

    if (now < handler->refresh_at)
        return;
    handler->refresh_at = now + REFRESH_NS;
    report_gaps(handler);
    publisher_refresh(&handler->publisher, &handler->market);
}

/* Returns the nanoseconds until the next timer. */
static uint64_t idle_ns(const struct handler *handler)
{
    uint64_t now = llm_clock();
    uint64_t then = llm_context_deadline(handler->publisher.context);

    if (then > handler->refresh_at)
        then = handler->refresh_at;
    if (handler->market.changed_count > 0 && then > now + RETRY_NS)
        then = now + RETRY_NS;
    return then > now ? then - now : 0;
}

/* Polls libllm, and sleeps if neither it nor the feed has anything. Returns 0 or an LLM_E... code. */
static int rest(struct handler *handler)
{
    struct pollfd descriptors[2] = {{.fd = handler->feed, .events = POLLIN}, {.events = POLLIN}};
    struct timespec timeout;
    uint64_t idle;
    int result;

    /* Keep this order: llm_context_fd() arms the descriptor, llm_poll() processes what came before that. */
    descriptors[1].fd = llm_context_fd(handler->publisher.context);
    if (descriptors[1].fd < 0)
        return descriptors[1].fd;
    result = llm_poll(handler->publisher.context);
    if (result != 0)
        return result < 0 ? result : 0;
    idle = idle_ns(handler);
    timeout = (struct timespec){.tv_sec = (time_t)(idle / SECOND_NS), .tv_nsec = (long)(idle % SECOND_NS)};
    if (ppoll(descriptors, 2, &timeout, NULL) < 0 && errno != EINTR)
        return LLM_ESYSTEM;
    return 0;
}

static bool is_done(const struct handler *handler, bool once)
{
    return stopped || (once && handler->ended && handler->market.changed_count == 0);
}

static int run(struct handler *handler, bool once)
{
    int result = 0;

    while (result == 0 && !is_done(handler, once)) {
        take_feed(handler);
        refresh(handler);
        result = publisher_publish(&handler->publisher, &handler->market);
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
           counters->datagrams, counters->datagrams_bad, counters->messages, counters->messages_bad,
           counters->messages_other, counters->messages_repeated, counters->messages_refused,
           counters->messages_lost, counters->gaps);
    printf("feed_handler: %" PRIu64 " quotes of %" PRIu32 " symbols sent, postponed %" PRIu64 " times\n",
           handler->publisher.quotes, handler->market.book_count, handler->publisher.postponed);
}

static void usage(FILE *file)
{
    fprintf(file, "usage: feed_handler [OPTION]...\n"
                  "  --group GROUP:PORT  the feed; default 239.192.1.2:5002\n"
                  "  --interface NAME    interface that the feed comes in by; default: the kernel's choice\n"
                  "  --channel CHANNEL   where the quotes go; default udp://239.192.1.3:5003\n"
                  "  --symbols N         most symbols; default 1024\n"
                  "  --orders N          most live orders; default 1048576\n"
                  "  --once              end with the feed's session\n");
}

static struct arguments parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"group", required_argument, NULL, 'g'},   {"interface", required_argument, NULL, 'i'},
        {"channel", required_argument, NULL, 'c'}, {"symbols", required_argument, NULL, 's'},
        {"orders", required_argument, NULL, 'o'},  {"once", no_argument, NULL, '1'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    struct arguments arguments = {
        .group = "239.192.1.2:5002",
        .interface = "",
        .channel = "udp://239.192.1.3:5003",
        .symbols_max = 1024,
        .orders_max = 1048576,
    };

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'g':
            arguments.group = optarg;
            break;
        case 'i':
            arguments.interface = optarg;
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

static bool handler_open(struct handler *handler, const struct arguments *arguments)
{
    struct market_limits limits = {arguments->symbols_max, arguments->orders_max, LEVELS_MAX};
    struct group group;
    int result;

    handler->feed = -1;
    if (!group_parse(arguments->group, arguments->interface, &group))
        return false;
    if (!market_init(&handler->market, &limits)) {
        fprintf(stderr, "feed_handler: no memory for %" PRIu32 " symbols and %" PRIu32 " orders\n",
                limits.symbols_max, limits.orders_max);
        return false;
    }
    result = publisher_open(&handler->publisher, arguments->channel, limits.symbols_max);
    if (result < 0) {
        fprintf(stderr, "feed_handler: %s: %s\n", arguments->channel, llm_error_text(result));
        return false;
    }
    handler->feed = group_open_receiver(&group);
    return handler->feed >= 0;
}

static void handler_close(struct handler *handler)
{
    if (handler->feed >= 0)
        close(handler->feed);
    publisher_close(&handler->publisher);
    market_fini(&handler->market);
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
        printf("feed_handler: listening to %s, sending to %s\n", arguments.group, arguments.channel);
        result = run(&handler, arguments.once);
        if (result < 0)
            fprintf(stderr, "feed_handler: %s\n", llm_error_text(result));
        report(&handler);
    }
    handler_close(&handler);
    return result < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
