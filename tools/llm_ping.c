/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llm ping: the time from a send to the answer of every reflector of a channel. Each side has a transmitter and a
 * receiver on the channel; a reflector sends what it receives on PING_TOPIC back, on a topic of its own name.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llm/stats.h>

#include "json.h"
#include "llm_tool.h"
#include "stat_file.h"

#define PING_TOPIC "llm.ping"
#define PONG_TOPICS "llm.pong."

static const char usage[] =
    "usage: llm ping [OPTION]... CHANNEL\n"
    "       llm ping --reflect CHANNEL\n"
    "\n"
    "Sends messages on a channel, and prints the percentiles of the time until each reflector has answered "
    "them. "
    "A reflector is\n"
    "llm ping --reflect on another host, or on this one; it runs until a signal ends it.\n"
    "\n"
    "  --reflect           answers the messages of others\n"
    "  --count COUNT       messages (100); 0: until a signal ends it\n"
    "  --interval SECONDS  time between two messages (0.01)\n"
    "  --size BYTES        of a message, 24 to 65536 (45)\n"
    "  --spin              polls without a pause, at either end: lower latency, one core\n"
    "  --wait SECONDS      for the first answer, and for the last (10)\n"
    "  --json              prints JSON\n"
    "  --help              this text\n"
    "\n"
    "Exit status: 0; 1 if nobody answered, a message was not answered, or something failed; 2 for a wrong "
    "argument.\n";

enum { SIZE_MIN = 24, SIZE_MAX_BYTES = 65536, REFLECTORS_MAX = 64, NAME = 64, CHANNEL_MAX = 4096 };

/* The beginning of a message, in the byte order of the host that measures: reflectors do not read it. */
struct ping_head {
    uint64_t session; /* of the transmitter that measures */
    uint64_t number;  /* WARM_UP: not measured */
    uint64_t sent_at; /* its clock */
};

#define WARM_UP UINT64_MAX

struct reflector {
    char name[NAME];
    uint64_t session;
    uint64_t min;
    struct llm_stats_histogram times; /* nanoseconds */
};

struct ping {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_topic *topic;
    uint64_t session;
    uint64_t count; /* 0: for ever */
    uint64_t interval_ns;
    uint64_t size;
    uint64_t wait_ns;
    bool reflect;
    bool spin;
    bool json;
    /* progress */
    uint64_t sent;
    uint64_t heard; /* answers, warm-up included */
    int reflectors_count;
    struct reflector *reflectors;
};

/* ------------------------------------------------------------------------------------------------ answers */

/* Returns the reflector that has this session, or NULL: there are too many. */
static struct reflector *find_reflector(struct ping *ping, const struct llm_message *message)
{
    struct reflector *new;

    for (int i = 0; i < ping->reflectors_count; i++)
        if (ping->reflectors[i].session == message->session)
            return ping->reflectors + i;
    if (ping->reflectors_count == REFLECTORS_MAX)
        return NULL;
    new = ping->reflectors + ping->reflectors_count++;
    (void)snprintf(new->name, sizeof new->name, "%s", message->topic + strlen(PONG_TOPICS));
    new->session = message->session;
    new->min = UINT64_MAX;
    return new;
}

static void on_pong(void *arg, const struct llm_message *message)
{
    const uint64_t now = llm_clock();
    struct ping *ping = arg;
    struct reflector *reflector;
    struct ping_head head;
    uint64_t took;

    if (message->size < sizeof head)
        return;
    memcpy(&head, message->data, sizeof head);
    reflector = head.session == ping->session ? find_reflector(ping, message) : NULL;
    if (reflector == NULL)
        return;
    ping->heard++;
    if (head.number == WARM_UP)
        return;
    took = now - head.sent_at;
    reflector->min = took < reflector->min ? took : reflector->min;
    reflector->times.max = took > reflector->times.max ? took : reflector->times.max;
    reflector->times.sum += took;
    reflector->times.count++;
    reflector->times.buckets[llm_stats_bucket(took)]++;
}

/* Sends a message back at once, inside the handler. What the transport does not take now is not answered. */
static void on_ping(void *arg, const struct llm_message *message)
{
    struct ping *ping = arg;

    if (llm_send(ping->topic, message->data, message->size, LLM_SEND_NOW) == LLM_OK)
        ping->heard++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    char text[512];

    (void)arg;
    if (event->kind != LLM_EVENT_GAP)
        return;
    (void)llm_event_text(event, text, sizeof text);
    fprintf(stderr, "llm ping: %s\n", text);
}

/* ---------------------------------------------------------------------------------------------- measuring */

static void work_until(const struct ping *ping, uint64_t then)
{
    uint64_t now;

    (void)llm_poll(ping->context);
    while (!tool_stopped && (now = llm_clock()) < then)
        (void)llm_wait(ping->context, then - now < TOOL_SECOND / 10 ? then - now : TOOL_SECOND / 10);
}

static int send_ping(struct ping *ping, uint64_t number)
{
    static uint8_t data[SIZE_MAX_BYTES];
    const struct ping_head head = {.session = ping->session, .number = number, .sent_at = llm_clock()};

    memcpy(data, &head, sizeof head);
    return llm_send(ping->topic, data, ping->size, LLM_SEND_NOW);
}

/* Sends unmeasured messages until somebody answers, and a little longer, as others may need more time. */
static bool warm_up(struct ping *ping)
{
    const uint64_t until = llm_clock() + ping->wait_ns;

    while (!tool_stopped && ping->heard == 0 && llm_clock() < until) {
        (void)send_ping(ping, WARM_UP);
        work_until(ping, llm_clock() + TOOL_SECOND / 20);
    }
    for (int i = 0; i < 4 && ping->heard > 0; i++) {
        (void)send_ping(ping, WARM_UP);
        work_until(ping, llm_clock() + TOOL_SECOND / 20);
    }
    return ping->heard > 0;
}

/* Returns the answers that are missing. */
static uint64_t unanswered(const struct ping *ping)
{
    uint64_t missing = 0;

    for (int i = 0; i < ping->reflectors_count; i++)
        missing += ping->sent - ping->reflectors[i].times.count;
    return missing;
}

static int measure(struct ping *ping)
{
    const uint64_t begun_at = llm_clock();
    uint64_t until;
    bool stopping = false;
    int error = LLM_OK;

    while (!tool_stopped && (ping->count == 0 || ping->sent < ping->count) &&
           (error == LLM_OK || error == LLM_EAGAIN)) {
        error = send_ping(ping, ping->sent);
        ping->sent += error == LLM_OK;
        work_until(ping, begun_at + ping->sent * ping->interval_ns);
    }
    until = llm_clock() + ping->wait_ns;
    while (unanswered(ping) > 0 && llm_clock() < until) {
        /* After a signal answers that are under way still count, if they come soon. */
        if (tool_stopped && !stopping) {
            stopping = true;
            until = llm_clock() + (ping->wait_ns < TOOL_SECOND ? ping->wait_ns : TOOL_SECOND);
        }
        (void)llm_wait(ping->context, TOOL_SECOND / 20);
    }
    return error == LLM_EAGAIN ? LLM_OK : error;
}

/* ------------------------------------------------------------------------------------------------- report */

static const struct {
    const char *name;
    double share;
} percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99_9", 0.999}};

enum { PERCENTILES = sizeof percentiles / sizeof percentiles[0] };

static void report_json(const struct ping *ping)
{
    printf("{\"sent\": %" PRIu64 ", \"size\": %" PRIu64 ", \"reflectors\": [", ping->sent, ping->size);
    for (int i = 0; i < ping->reflectors_count; i++) {
        const struct reflector *reflector = ping->reflectors + i;

        printf("%s{\"name\": ", i == 0 ? "" : ", ");
        json_string(stdout, reflector->name, strlen(reflector->name));
        printf(", \"answers\": %" PRIu64, reflector->times.count);
        if (reflector->times.count > 0)
            printf(", \"min_ns\": %" PRIu64, reflector->min);
        for (int j = 0; j < PERCENTILES && reflector->times.count > 0; j++)
            printf(", \"%s_ns\": %" PRIu64, percentiles[j].name,
                   stat_percentile(&reflector->times, NULL, percentiles[j].share));
        if (reflector->times.count > 0)
            printf(", \"max_ns\": %" PRIu64, reflector->times.max);
        printf("}");
    }
    printf("]}\n");
}

static void report_text(const struct ping *ping)
{
    printf("%" PRIu64 " messages of %" PRIu64 " bytes; there and back, in microseconds\n", ping->sent,
           ping->size);
    printf("%-32s %9s %9s %9s %9s %9s %9s %9s\n", "REFLECTOR", "ANSWERS", "MIN", "P50", "P90", "P99", "P99.9",
           "MAX");
    for (int i = 0; i < ping->reflectors_count; i++) {
        const struct reflector *reflector = ping->reflectors + i;
        const bool any = reflector->times.count > 0;

        printf("%-32s %9" PRIu64 " %9.1f", reflector->name, reflector->times.count,
               any ? (double)reflector->min / 1e3 : 0.0);
        for (int j = 0; j < PERCENTILES; j++)
            printf(" %9.1f", (double)stat_percentile(&reflector->times, NULL, percentiles[j].share) / 1e3);
        printf(" %9.1f\n", (double)reflector->times.max / 1e3);
    }
}

/* --------------------------------------------------------------------------------------------------- main */

/* Writes the name of this reflector: one element of a topic, of printable characters. */
static void own_topic(char *text, size_t size)
{
    char host[33] = "host";

    (void)gethostname(host, sizeof host - 1);
    for (char *at = host; *at != '\0'; at++)
        if (*at == '.' || *at <= ' ' || *at > '~' || *at == '*' || *at == '>')
            *at = '-';
    (void)snprintf(text, size, "%s%s:%d", PONG_TOPICS, host, (int)getpid());
}

/* Opens both directions. A channel in shared memory has to permit several transmitters. */
static int ping_open(struct ping *ping, const char *channel)
{
    const bool shared = strncmp(channel, "shm", 3) == 0 && strstr(channel, "shm_exclusive") == NULL;
    char own[sizeof PONG_TOPICS + NAME], text[CHANNEL_MAX];
    struct llm_receiver_handlers handlers;
    int error = tool_open("llm ping", ping->spin, &ping->context);

    (void)snprintf(text, sizeof text, "%s%s", channel,
                   !shared                        ? ""
                   : strchr(channel, '?') == NULL ? "?shm_exclusive=0"
                                                  : "&shm_exclusive=0");
    own_topic(own, sizeof own);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = ping;
    handlers.message = ping->reflect ? on_ping : on_pong;
    handlers.event = on_event;
    if (error == LLM_OK)
        error = llm_transmitter_open(ping->context, text, NULL, NULL, &ping->transmitter);
    if (error == LLM_OK)
        error = llm_topic_open(ping->transmitter, ping->reflect ? own : PING_TOPIC, 0, &ping->topic);
    if (error == LLM_OK)
        error = llm_receiver_open(ping->context, text, NULL, &handlers, &ping->receiver);
    if (error == LLM_OK)
        error = llm_receiver_subscribe(ping->receiver, ping->reflect ? PING_TOPIC : PONG_TOPICS "*");
    ping->session = llm_transmitter_session(ping->transmitter);
    return error;
}

static int reflect(struct ping *ping, const char *channel)
{
    fprintf(stderr, "llm ping: reflecting on %s\n", channel);
    while (!tool_stopped)
        (void)llm_wait(ping->context, TOOL_SECOND / 10);
    fprintf(stderr, "llm ping: %" PRIu64 " messages were answered\n", ping->heard);
    return 0;
}

static int run(struct ping *ping, const char *channel)
{
    int error;

    if (!warm_up(ping)) {
        fprintf(
            stderr,
            "llm ping: nobody answered on %s: run 'llm ping --reflect' with the same group and port there, "
            "and 'llm doctor' at both ends\n",
            channel);
        return TOOL_FAILED;
    }
    error = measure(ping);
    if (ping->json)
        report_json(ping);
    else
        report_text(ping);
    if (unanswered(ping) > 0)
        fprintf(stderr, "llm ping: %" PRIu64 " answers are missing\n", unanswered(ping));
    return tool_flush(error != LLM_OK || unanswered(ping) > 0 ? TOOL_FAILED : 0);
}

enum { REFLECT, COUNT, INTERVAL, SIZE, SPIN, WAIT, JSON, HELP };

static const struct option options[] = {{"reflect", no_argument, NULL, REFLECT},
                                        {"count", required_argument, NULL, COUNT},
                                        {"interval", required_argument, NULL, INTERVAL},
                                        {"size", required_argument, NULL, SIZE},
                                        {"spin", no_argument, NULL, SPIN},
                                        {"wait", required_argument, NULL, WAIT},
                                        {"json", no_argument, NULL, JSON},
                                        {"help", no_argument, NULL, HELP},
                                        {NULL, 0, NULL, 0}};

/* Takes an option. False: its value was refused. */
static bool ping_option(struct ping *ping, int option)
{
    switch (option) {
    case REFLECT:
        return ping->reflect = true;
    case COUNT:
        return tool_number("ping", "--count", optarg, 0, UINT64_MAX - 1, &ping->count);
    case INTERVAL:
        return tool_seconds("ping", "--interval", optarg, &ping->interval_ns);
    case SIZE:
        return tool_number("ping", "--size", optarg, SIZE_MIN, SIZE_MAX_BYTES, &ping->size);
    case SPIN:
        return ping->spin = true;
    case WAIT:
        return tool_seconds("ping", "--wait", optarg, &ping->wait_ns);
    default:
        return ping->json = true;
    }
}

int tool_ping(int argc, char **argv)
{
    struct ping ping = {
        .count = 100, .interval_ns = TOOL_SECOND / 100, .size = 45, .wait_ns = 10 * TOOL_SECOND};
    int option, status;

    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == '?' || option == ':')
            return tool_refuse_option("ping", option, argv);
        if (option == HELP) {
            fputs(usage, stdout);
            return tool_flush(0);
        }
        if (!ping_option(&ping, option))
            return TOOL_USAGE;
    }
    if (argc - optind != 1)
        return tool_refuse("ping", optind == argc ? "CHANNEL" : argv[optind + 1],
                           optind == argc ? "has to be given" : "one channel at a time");
    ping.reflectors = calloc(REFLECTORS_MAX, sizeof *ping.reflectors);
    if (ping.reflectors == NULL) {
        fprintf(stderr, "llm ping: out of memory\n");
        return TOOL_FAILED;
    }
    tool_catch_signals();
    status = tool_status(ping_open(&ping, argv[optind]));
    if (status == 0)
        status = ping.reflect ? reflect(&ping, argv[optind]) : run(&ping, argv[optind]);
    (void)llm_context_close(&ping.context);
    free(ping.reflectors);
    return status;
}
