/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a synthetic market as a MoldUDP64 feed of ITCH messages to a multicast group, or to two: line A and line B. The
 * same seed makes the same market. See feed_generator --help for usage.
 */
#define _GNU_SOURCE /* clock_nanosleep */
#include "arguments.h"
#include "group.h"
#include "mold.h"
#include "synth.h"

#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000u
#define DATAGRAM_BYTES 1400
#define DATAGRAM_MESSAGES_MAX 20
#define END_REPEATS 3
#define END_INTERVAL_NS 100000000u
#define HOLD_MS 100
#define LINES 2

struct arguments {
    const char *groups[LINES]; /* NULL: there is no such line */
    const char *interfaces[LINES];
    const char *session;
    const char *expect; /* NULL: do not write */
    uint64_t seed;
    uint64_t messages; /* in addition to the directory */
    uint64_t rate;     /* messages per second; 0: as fast as possible */
    uint64_t drop;     /* number of the datagram to skip on all lines, from 1; 0: none */
    uint32_t loss; /* each line skips one datagram in this many, never the same one as the other; 0: none */
    bool hold;     /* send heartbeats until a line is on the standard input */
    uint32_t symbols;
};

struct generator {
    const struct arguments *arguments;
    int fds[LINES];    /* -1: not open */
    uint64_t sequence; /* of the next message */
    uint64_t datagrams;
    uint64_t send_at;
    struct synth synth;
    struct synth lost; /* only for the random numbers of the losses */
};

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* ------------------------------------------------------------------------------------------------ packets */

/* Sends a datagram on all lines but one; without: the line that does not get it, LINES for none. */
static bool send_datagram(const struct generator *generator, const void *data, size_t size, uint32_t without)
{
    for (uint32_t i = 0; i < LINES; i++) {
        if (generator->fds[i] < 0 || i == without || send(generator->fds[i], data, size, 0) >= 0)
            continue;
        perror("feed_generator: send");
        return false;
    }
    return true;
}

/* Returns the line that loses the next datagram; LINES: none. */
static uint32_t line_without(struct generator *generator)
{
    const uint32_t loss = generator->arguments->loss;
    const uint32_t drawn = loss > 0 ? synth_random(&generator->lost, loss) : LINES;

    return drawn < LINES ? drawn : LINES;
}

/* Sends a heartbeat, or the end of the session. */
static bool send_sign(const struct generator *generator, bool end)
{
    uint8_t data[MOLD_HEADER_BYTES];
    struct mold_builder builder;

    mold_builder_start(&builder, data, sizeof data, generator->arguments->session, generator->sequence);
    return send_datagram(generator, data, mold_builder_finish(&builder, end), LINES);
}

/* Sends at most most of the next messages. */
static bool send_messages(struct generator *generator, uint64_t most)
{
    uint64_t count = 1 + synth_random(&generator->synth, DATAGRAM_MESSAGES_MAX);
    uint8_t data[DATAGRAM_BYTES];
    struct mold_builder builder;

    mold_builder_start(&builder, data, sizeof data, generator->arguments->session, generator->sequence);
    for (uint64_t i = 0; i < count && i < most; i++) {
        uint8_t bytes[ITCH_MESSAGE_BYTES_MAX];
        struct itch_message message;

        synth_next(&generator->synth, &message);
        /* Twenty of the longest messages fit into a datagram. */
        mold_builder_add(&builder, bytes, itch_encode(&message, bytes, sizeof bytes));
    }
    generator->sequence += builder.count;
    if (++generator->datagrams == generator->arguments->drop)
        return true;
    return send_datagram(generator, data, mold_builder_finish(&builder, false), line_without(generator));
}

/* --------------------------------------------------------------------------------------------------- pace */

static uint64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t then)
{
    struct timespec at = {.tv_sec = (time_t)(then / SECOND_NS), .tv_nsec = (long)(then % SECOND_NS)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/*
 * Sleeps until the next datagram is due; meanwhile sends a heartbeat every second, for receivers of a slow
 * feed.
 */
static bool keep_pace(struct generator *generator)
{
    uint64_t now;

    while (!stopped && (now = clock_now()) + SECOND_NS < generator->send_at) {
        sleep_until(now + SECOND_NS);
        if (!send_sign(generator, false))
            return false;
    }
    if (!stopped && clock_now() < generator->send_at)
        sleep_until(generator->send_at);
    return true;
}

static bool generate(struct generator *generator)
{
    const struct arguments *arguments = generator->arguments;
    uint64_t left = arguments->messages + arguments->symbols;

    generator->send_at = clock_now();
    while (!stopped && left > 0) {
        uint64_t before = generator->sequence;
        uint64_t sent;

        if (!send_messages(generator, left))
            return false;
        sent = generator->sequence - before;
        left -= sent;
        if (arguments->rate > 0)
            generator->send_at += sent * SECOND_NS / arguments->rate;
        if (!keep_pace(generator))
            return false;
    }
    return true;
}

/* Repeats the end of session, because a lost one is not requested again. */
static bool end_session(const struct generator *generator)
{
    for (int i = 0; i < END_REPEATS; i++) {
        if (!send_sign(generator, true))
            return false;
        sleep_until(clock_now() + END_INTERVAL_NS);
    }
    return true;
}

/* --------------------------------------------------------------------------------------------------- main */

static bool write_expected(const struct generator *generator, const char *path)
{
    FILE *file = fopen(path, "w");

    if (file == NULL) {
        perror(path);
        return false;
    }
    for (uint32_t i = 0; i < generator->synth.directory_count; i++) {
        struct quote top = synth_top(&generator->synth.symbols[i]);

        quote_write_line(file, generator->synth.symbols[i].name, &top);
    }
    if (fclose(file) != 0) {
        perror(path);
        return false;
    }
    return true;
}

static void usage(FILE *file)
{
    fprintf(file, "usage: feed_generator [OPTION]...\n"
                  "  --group GROUP:PORT    where to send, as line A; default 239.192.1.2:5002\n"
                  "  --interface NAME      interface to send by; default: the kernel's choice\n"
                  "  --group-b GROUP:PORT  where to send the same as line B; default: nowhere\n"
                  "  --interface-b NAME    interface to send line B by; default: that of line A\n"
                  "  --session NAME        the session, ten characters at most; default SYNTHETIC\n"
                  "  --seed N              makes the market; default 1\n"
                  "  --symbols N           number of symbols; default 20\n"
                  "  --messages N          orders to send; default: until ctrl-C\n"
                  "  --rate N              messages a second, 0: as fast as can be; default 1000\n"
                  "  --drop N              leave datagram N out, on both lines\n"
                  "  --loss N              leave one datagram in N out on each line, never the same on both; "
                  "2 or more\n"
                  "  --hold                send heartbeats only until a line is on the standard input\n"
                  "  --expect FILE         write the top of each book to FILE at the end\n");
}

static struct arguments parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"group", required_argument, NULL, 'g'},
        {"interface", required_argument, NULL, 'i'},
        {"group-b", required_argument, NULL, 'G'},
        {"interface-b", required_argument, NULL, 'I'},
        {"loss", required_argument, NULL, 'l'},
        {"hold", no_argument, NULL, 'H'},
        {"session", required_argument, NULL, 'S'},
        {"seed", required_argument, NULL, 's'},
        {"symbols", required_argument, NULL, 'n'},
        {"messages", required_argument, NULL, 'm'},
        {"rate", required_argument, NULL, 'r'},
        {"drop", required_argument, NULL, 'd'},
        {"expect", required_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct arguments arguments = {
        .groups = {"239.192.1.2:5002"},
        .interfaces = {""},
        .session = "SYNTHETIC",
        .seed = 1,
        .messages = UINT64_MAX - SYNTH_SYMBOLS_MAX,
        .rate = 1000,
        .symbols = 20,
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
        case 'l':
            arguments.loss = (uint32_t)argument_number("loss", optarg, 2, UINT32_MAX);
            break;
        case 'H':
            arguments.hold = true;
            break;
        case 'S':
            arguments.session = optarg;
            break;
        case 's':
            arguments.seed = argument_number("seed", optarg, 0, UINT64_MAX);
            break;
        case 'n':
            arguments.symbols = (uint32_t)argument_number("symbols", optarg, 1, SYNTH_SYMBOLS_MAX);
            break;
        case 'm':
            arguments.messages = argument_number("messages", optarg, 0, arguments.messages);
            break;
        case 'r':
            arguments.rate = argument_number("rate", optarg, 0, 1000000000);
            break;
        case 'd':
            arguments.drop = argument_number("drop", optarg, 0, UINT64_MAX);
            break;
        case 'e':
            arguments.expect = optarg;
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

/* Sends heartbeats until a line, or the end, is on the standard input. */
static bool hold(const struct generator *generator)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    while (!stopped && poll(&input, 1, HOLD_MS) <= 0) {
        if (!send_sign(generator, false))
            return false;
    }
    return true;
}

static bool run(struct generator *generator)
{
    const struct arguments *arguments = generator->arguments;

    if (!send_sign(generator, false) || (arguments->hold && !hold(generator)) || !generate(generator) ||
        !end_session(generator))
        return false;
    printf("feed_generator: %" PRIu64 " messages in %" PRIu64 " datagrams sent to %s%s%s\n",
           generator->sequence - 1, generator->datagrams, arguments->groups[0],
           arguments->groups[1] != NULL ? " and " : "",
           arguments->groups[1] != NULL ? arguments->groups[1] : "");
    return arguments->expect == NULL || write_expected(generator, arguments->expect);
}

int main(int argc, char **argv)
{
    struct arguments arguments = parse(argc, argv);
    struct generator generator = {
        .arguments = &arguments, .fds = {-1, -1}, .sequence = 1, .lost = {.random = arguments.seed}};
    int lines;
    bool good;

    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    if (!synth_init(&generator.synth, arguments.seed, arguments.symbols)) {
        fprintf(stderr, "feed_generator: no memory for %" PRIu32 " symbols\n", arguments.symbols);
        return EXIT_FAILURE;
    }
    lines = group_open_lines(arguments.groups, arguments.interfaces, LINES, group_open_sender, generator.fds);
    good = lines > 0 && run(&generator);
    for (uint32_t i = 0; i < LINES; i++) {
        if (generator.fds[i] >= 0)
            close(generator.fds[i]);
    }
    synth_fini(&generator.synth);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
