/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What features cost a message that has no use for them: the latency monitor at each of its levels, the counters file, the
 * watch, and delivery as messages arrive where nothing is lost. Pairs of ends, each with other features on, take turns in one
 * thread, many times; what counts is the difference of each turn to that of the pair with nothing on in the same round, as only
 * figures of one moment compare.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llm/stats.h>

#include "machine.h"
#include "options.h"
#include "overhead.h"
#include "report.h"
#include "steady.h"

enum {
    OVERHEAD_SIZE_MAX = 8192,
    OVERHEAD_EIGHT = 8,
    OVERHEAD_NEAR_POLLS = 64,       /* the transmitter's end is polled once for so many messages */
    OVERHEAD_STREAM = 10,           /* a stream has so many times the messages of a turn, as each takes less */
    OVERHEAD_BURST = 2000,          /* messages of a stream that are under way at most, ... */
    OVERHEAD_BURST_BYTES = 1 << 18, /* ... and their bytes */
    OVERHEAD_SETTLE = 4,            /* polls before each turn */
    OVERHEAD_IMPATIENT = 1 << 16,   /* polls after which somebody has to look after a message that does not come, ... */
    OVERHEAD_POLLS_MAX = 1 << 28,   /* ... and after which it is given up */
    OVERHEAD_NAPS = 20000,          /* of 1 ms and of the watch's interval, in which reports and tables are made */
    OVERHEAD_PATTERNS = 3,
    OVERHEAD_TRANSPORTS = 3,
    OVERHEAD_FEATURES = 11,
};

#define OFF LLM_LATENCY_OFF
#define WIRE LLM_LATENCY_WIRE

/* The first is what all others are compared with. Of the third level of the latency monitor somebody said what it may cost. */
static const struct overhead_feature overhead_features[OVERHEAD_FEATURES] = {
    {.name = "off", .text = "nothing on"},
    {.name = "none", .text = "nothing, once more: chance"},
    {.name = "queues", .text = "latency: queues", .near = LLM_LATENCY_QUEUES, .far = LLM_LATENCY_QUEUES},
    {.name = "wire_transmitter", .text = "latency: wire, transmitter", .near = WIRE, .far = OFF},
    {.name = "wire_receiver", .text = "latency: wire, receiver", .near = OFF, .far = WIRE},
    {.name = "wire", .text = "latency: wire", .near = WIRE, .far = WIRE, .bound_ns = 10},
    {.name = "stages", .text = "latency: stages", .near = LLM_LATENCY_STAGES, .far = LLM_LATENCY_STAGES},
    {.name = "file", .text = "counters file, and its watch", .file = true},
    {.name = "watch", .text = "watch", .watch = true},
    {.name = "arrival", .text = "order=arrival", .arrival = true},
    {.name = "all", .text = "all, with latency: stages", .near = LLM_LATENCY_STAGES, .far = LLM_LATENCY_STAGES, .file = true,
     .watch = true, .arrival = true},
};

static const char *const overhead_transports[OVERHEAD_TRANSPORTS] = {"loop", "shm", "udp"};

typedef void overhead_turn(struct overhead_pair *pair, uint64_t count);
static overhead_turn overhead_lone, overhead_eight, overhead_stream;

static const struct overhead_pattern {
    const char *name;
    const char *text;
    overhead_turn *turn;
    uint64_t times; /* a turn's messages */
} overhead_patterns[OVERHEAD_PATTERNS] = {
    {"lone", "a lone message", overhead_lone, 1},
    {"eight", "eight at a time", overhead_eight, 1},
    {"stream", "a stream", overhead_stream, OVERHEAD_STREAM},
};

/* Of one feature, pattern and transport. */
struct overhead_result {
    double *ns;   /* a message, of each turn */
    double *more; /* the difference to off */
    int turns;
    uint64_t sent;
    uint64_t received;
    double median;
    double more_median;
    double more_low;  /* quartiles */
    double more_high;
};

static const char *overhead_transport = "loop,shm", *overhead_pattern = "lone,eight,stream", *overhead_json = "";
static const char *overhead_feature = "", *overhead_options = "", *overhead_directory = LLM_STATS_DIRECTORY;
static uint64_t overhead_rounds = 41, overhead_messages = 20000, overhead_runs = 5, overhead_size = 45;
static uint64_t overhead_watch = 1000000000, overhead_cpu = MACHINE_NO_CPU;

static bool overhead_transport_chosen[OVERHEAD_TRANSPORTS], overhead_pattern_chosen[OVERHEAD_PATTERNS];
static bool overhead_feature_chosen[OVERHEAD_FEATURES];
static struct overhead_result overhead_results[OVERHEAD_TRANSPORTS][OVERHEAD_PATTERNS][OVERHEAD_FEATURES];
static struct overhead_writing overhead_writing[OVERHEAD_FEATURES];
static uint8_t overhead_data[OVERHEAD_SIZE_MAX];

/* ---------------------------------------------------------------------------------------------------- pairs of ends */

static void on_message(void *arg, const struct llm_message *message)
{
    struct overhead_pair *pair = arg;

    pair->received++;
    pair->numbers += message->number;
    pair->changed += message->size != overhead_size;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct overhead_pair *pair = arg;

    if (event->kind == LLM_EVENT_SESSION_NEW)
        pair->first = event->first;
    if (event->kind == LLM_EVENT_GAP)
        pair->lost += event->last + 1 - event->first;
}

static void overhead_poll(struct overhead_pair *pair)
{
    steady_ok(llm_poll(pair->near), "llm_poll");
    steady_ok(llm_poll(pair->far), "llm_poll");
}

/* Without huge pages: where there are some, they might be enough for a part of the pairs. */
static void overhead_context(const struct overhead_feature *feature, enum llm_latency_level level, struct llm_context **context)
{
    struct llm_context_options options;

    llm_context_options_init(&options);
    options.log_level = LLM_LEVEL_ERROR;
    options.huge_pages = false;
    options.latency = level;
    options.stats_directory = feature->file ? overhead_directory : "";
    options.stats_name = "overhead";
    options.watch_ns = feature->watch ? overhead_watch : 0;
    steady_ok(llm_context_open(&options, context), "llm_context_open");
}

/* Each pair has a group that no other process has either. */
static void overhead_channel(const char *transport, int at, bool arrival, char *channel, size_t size)
{
    const int port = 20000 + (int)(getpid() % 700) * 16 + at;
    const bool udp = strcmp(transport, "udp") == 0;
    const int length = snprintf(channel, size, "%s://%s:%d?%sorder=%s%s%s", transport, udp ? "239.192.77.1" : "overhead", port,
                                udp ? "interface=lo&" : "", arrival ? "arrival" : "sequence",
                                *overhead_options == '\0' ? "" : "&", overhead_options);

    if (length < 0 || (size_t)length >= size) {
        fprintf(stderr, "overhead: --options: too long, at most %zu characters\n", size - 100);
        exit(2);
    }
}

static void overhead_open(struct overhead_pair *pair, const char *transport, int at)
{
    struct llm_handlers handlers;
    char channel[1024];

    *pair = (struct overhead_pair){.feature = &overhead_features[at]};
    overhead_channel(transport, at, pair->feature->arrival, channel, sizeof channel);
    overhead_context(pair->feature, pair->feature->near, &pair->near);
    overhead_context(pair->feature, pair->feature->far, &pair->far);
    llm_handlers_init(&handlers);
    handlers.arg = pair;
    handlers.message = on_message;
    handlers.event = on_event;
    steady_ok(llm_receiver_open(pair->far, channel, NULL, &handlers, &pair->receiver), channel);
    steady_ok(llm_transmitter_open(pair->near, channel, NULL, &pair->transmitter), channel);
    steady_ok(llm_topic_open(pair->transmitter, "overhead", 0, &pair->topic), "llm_topic_open");
    for (int i = 0; llm_transmitter_receivers(pair->transmitter) != 1; i++) {
        if (i == OVERHEAD_POLLS_MAX)
            steady_ok(LLM_EAGAIN, "the receiver does not become known");
        overhead_poll(pair);
    }
}

static void overhead_close(struct overhead_pair *pair)
{
    steady_ok(llm_transmitter_close(&pair->transmitter), "llm_transmitter_close");
    steady_ok(llm_context_close(&pair->near), "llm_context_close");
    steady_ok(llm_context_close(&pair->far), "llm_context_close");
}

/* ---------------------------------------------------------------------------------------------------------- patterns */

/* What is lost on the way comes only if the transmitter is polled. */
static __attribute__((noinline)) void overhead_impatient(struct overhead_pair *pair, uint64_t polls)
{
    steady_ok(llm_poll(pair->near), "llm_poll");
    if (polls < OVERHEAD_POLLS_MAX)
        return;
    fprintf(stderr, "overhead: %s: of %" PRIu64 " messages %" PRIu64 " came\n", pair->feature->name, pair->sent,
            pair->received);
    exit(EXIT_FAILURE);
}

static void overhead_await(struct overhead_pair *pair)
{
    for (uint64_t polls = 1; pair->received + pair->lost < pair->sent; polls++) {
        steady_ok(llm_poll(pair->far), "llm_poll");
        if (polls % OVERHEAD_IMPATIENT == 0)
            overhead_impatient(pair, polls);
    }
}

static void overhead_send(struct overhead_pair *pair, unsigned flags)
{
    int result;

    while ((result = llm_send(pair->topic, overhead_data, overhead_size, flags)) == LLM_EAGAIN)
        overhead_poll(pair);
    steady_ok(result, "llm_send");
    pair->sent++;
}

static void overhead_lone(struct overhead_pair *pair, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        overhead_send(pair, LLM_SEND_NOW);
        overhead_await(pair);
        if (i % OVERHEAD_NEAR_POLLS == 0)
            steady_ok(llm_poll(pair->near), "llm_poll");
    }
}

static void overhead_eight(struct overhead_pair *pair, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        overhead_send(pair, LLM_SEND_MORE);
        if (i % OVERHEAD_EIGHT != 0)
            continue;
        steady_ok(llm_flush(pair->transmitter), "llm_flush");
        overhead_await(pair);
        if (i % OVERHEAD_NEAR_POLLS == 0)
            steady_ok(llm_poll(pair->near), "llm_poll");
    }
}

/* All of a burst that could not leave at once leaves with the polls. */
static void overhead_drain(struct overhead_pair *pair)
{
    steady_ok(llm_flush(pair->transmitter), "llm_flush");
    for (uint64_t polls = 1; pair->received + pair->lost < pair->sent; polls++) {
        overhead_poll(pair);
        if (polls % OVERHEAD_IMPATIENT == 0)
            overhead_impatient(pair, polls);
    }
}

static void overhead_stream(struct overhead_pair *pair, uint64_t count)
{
    const uint64_t fit = OVERHEAD_BURST_BYTES / overhead_size, burst = fit < OVERHEAD_BURST ? fit : OVERHEAD_BURST;

    for (uint64_t i = 1; i <= count; i++) {
        overhead_send(pair, LLM_SEND_MORE);
        if (i % burst == 0)
            overhead_drain(pair);
    }
    overhead_drain(pair);
}

/* ------------------------------------------------------------------------------------------------------------- turns */

/* What time has made due meanwhile, a table of counters or a report, is no message's. */
static double overhead_take_turn(struct overhead_pair *pair, const struct overhead_pattern *pattern)
{
    const uint64_t count = overhead_messages * pattern->times;
    uint64_t begun_at;

    for (int i = 0; i < OVERHEAD_SETTLE; i++)
        overhead_poll(pair);
    begun_at = llm_clock();
    pattern->turn(pair, count);
    return (double)(llm_clock() - begun_at) / (double)count;
}

/* Each pair has its turn; who begins changes, and so does the direction, so that each comes behind each of two others. */
static void overhead_round(struct overhead_pair *pairs, const struct overhead_pattern *pattern, struct overhead_result *results,
                           uint64_t round)
{
    const int first = (int)(round % OVERHEAD_FEATURES);

    for (int i = 0; i < OVERHEAD_FEATURES; i++) {
        const int at = round % 2 == 0 ? (first + i) % OVERHEAD_FEATURES : (first - i + OVERHEAD_FEATURES) % OVERHEAD_FEATURES;
        struct overhead_result *result = &results[at];
        const uint64_t sent = pairs[at].sent, received = pairs[at].received;

        if (!overhead_feature_chosen[at])
            continue;
        result->ns[result->turns] = overhead_take_turn(&pairs[at], pattern);
        result->sent += pairs[at].sent - sent;
        result->received += pairs[at].received - received;
    }
    for (int at = 0; at < OVERHEAD_FEATURES; at++) {
        if (!overhead_feature_chosen[at])
            continue;
        results[at].more[results[at].turns] = results[at].ns[results[at].turns] - results[0].ns[results[at].turns];
        results[at].turns++;
    }
}

static void overhead_measure(struct overhead_pair *pairs, const struct overhead_pattern *pattern,
                             struct overhead_result *results)
{
    for (int at = 0; at < OVERHEAD_FEATURES; at++)
        if (overhead_feature_chosen[at])
            (void)overhead_take_turn(&pairs[at], pattern);
    for (uint64_t round = 0; round < overhead_rounds; round++)
        overhead_round(pairs, pattern, results, round);
}

/* All together, as a report of the watch takes more than its interval. What is not done in the end overhead_check() tells. */
static void overhead_wait(struct overhead_pair *pairs)
{
    const uint64_t naps = OVERHEAD_NAPS + 4 * overhead_watch / 1000000;
    bool done = false;

    for (uint64_t i = 0; i < naps && !done; i++) {
        done = true;
        (void)usleep(1000);
        for (int at = 0; at < OVERHEAD_FEATURES; at++) {
            if (!overhead_feature_chosen[at])
                continue;
            overhead_poll(&pairs[at]);
            done &= overhead_done(&pairs[at]);
        }
    }
}

/* In each run pairs are opened anew: where in memory one lies is its fate for a run. */
static bool overhead_run(int transport)
{
    static struct overhead_pair pairs[OVERHEAD_FEATURES];
    bool good = true;

    for (int at = 0; at < OVERHEAD_FEATURES; at++)
        if (overhead_feature_chosen[at])
            overhead_open(&pairs[at], overhead_transports[transport], at);
    for (int i = 0; i < OVERHEAD_PATTERNS; i++)
        if (overhead_pattern_chosen[i])
            overhead_measure(pairs, &overhead_patterns[i], overhead_results[transport][i]);
    overhead_wait(pairs);
    for (int at = 0; at < OVERHEAD_FEATURES; at++) {
        if (!overhead_feature_chosen[at])
            continue;
        good &= overhead_check(&pairs[at], &overhead_writing[at]);
        overhead_close(&pairs[at]);
    }
    return good;
}

static bool overhead_run_all(void)
{
    for (uint64_t run = 1; run <= overhead_runs; run++)
        for (int i = 0; i < OVERHEAD_TRANSPORTS; i++) {
            if (!overhead_transport_chosen[i])
                continue;
            fprintf(stderr, "run %" PRIu64 " of %" PRIu64 ", %s\n", run, overhead_runs, overhead_transports[i]);
            if (!overhead_run(i))
                return false;
        }
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ report */

static void overhead_summarize(struct overhead_result *result)
{
    result->median = report_median(result->ns, result->turns);
    result->more_median = report_median(result->more, result->turns);
    result->more_low = result->more[result->turns / 4];
    result->more_high = result->more[result->turns * 3 / 4];
}

/* NAN: no file was. */
static double overhead_write_us(int at)
{
    const struct overhead_writing *writing = &overhead_writing[at];

    return writing->writes > 0 ? (double)writing->ns / (double)writing->writes / 1e3 : (double)NAN;
}

static void overhead_print_row(int transport, int at)
{
    printf("%-28s", overhead_features[at].text);
    for (int i = 0; i < OVERHEAD_PATTERNS; i++) {
        const struct overhead_result *result = &overhead_results[transport][i][at];
        char text[64];

        if (!overhead_pattern_chosen[i])
            continue;
        if (at == 0)
            (void)snprintf(text, sizeof text, "%.1f", result->median);
        else
            (void)snprintf(text, sizeof text, "%+.1f (%+.1f to %+.1f)", result->more_median, result->more_low,
                           result->more_high);
        printf("  %-26s", text);
    }
    if (overhead_features[at].bound_ns > 0)
        printf("  %.0f\n", overhead_features[at].bound_ns);
    else
        printf("  -\n");
}

static void overhead_print_transport(int transport)
{
    printf("\n%-28s", overhead_transports[transport]);
    for (int i = 0; i < OVERHEAD_PATTERNS; i++)
        if (overhead_pattern_chosen[i])
            printf("  %-26s", overhead_patterns[i].text);
    printf("  bound\n");
    for (int at = 0; at < OVERHEAD_FEATURES; at++)
        if (overhead_feature_chosen[at])
            overhead_print_row(transport, at);
}

static void overhead_print(const struct report_setting *setting)
{
    report_print_machine(setting);
    printf("measured  ns of a message of %" PRIu64 " B, sent and received in one thread, and what a feature at both adds:\n"
           "          the median, and in brackets the quartiles, of the differences of %" PRIu64 " turns of %" PRIu64
           " messages\n", overhead_size, overhead_rounds * overhead_runs, overhead_messages);
    if (*overhead_options != '\0')
        printf("          options of the channels: %s\n", overhead_options);
    for (int i = 0; i < OVERHEAD_TRANSPORTS; i++)
        if (overhead_transport_chosen[i])
            overhead_print_transport(i);
    printf("\n");
    for (int at = 0; at < OVERHEAD_FEATURES; at++)
        if (overhead_writing[at].writes > 0)
            printf("%s: a counters file is written in %.1f us, ten times a second\n", overhead_features[at].text,
                   overhead_write_us(at));
}

static void overhead_json_row(struct report_json *json, int transport, int pattern, int at)
{
    const struct overhead_result *result = &overhead_results[transport][pattern][at];
    const double bound = overhead_features[at].bound_ns;

    report_json_begin(json, NULL, '{');
    report_json_text(json, "transport", overhead_transports[transport]);
    report_json_text(json, "pattern", overhead_patterns[pattern].name);
    report_json_text(json, "feature", overhead_features[at].name);
    report_json_number(json, "size_bytes", (double)overhead_size, 0);
    report_json_number(json, "runs", (double)overhead_runs, 0);
    report_json_number(json, "rounds", (double)overhead_rounds, 0);
    report_json_number(json, "sent", (double)result->sent, 0);
    report_json_number(json, "received", (double)result->received, 0);
    report_json_number(json, "lost", (double)(result->sent - result->received), 0);
    report_json_number(json, "ns_per_message", result->median, 3);
    report_json_begin(json, "more_ns", '{');
    report_json_number(json, "median", result->more_median, 3);
    report_json_number(json, "low_quartile", result->more_low, 3);
    report_json_number(json, "high_quartile", result->more_high, 3);
    report_json_end(json, '}');
    report_json_number(json, "bound_ns", bound > 0 ? bound : (double)NAN, 0);
    report_json_number(json, "file_write_us", overhead_write_us(at), 3);
    report_json_end(json, '}');
}

static void overhead_write(const struct report_setting *setting)
{
    struct report_json json;

    steady_json_open(&json, overhead_json);
    report_json_text(&json, "benchmark", "overhead");
    report_json_machine(&json, setting);
    report_json_begin(&json, "rows", '[');
    for (int transport = 0; transport < OVERHEAD_TRANSPORTS; transport++)
        for (int i = 0; i < OVERHEAD_PATTERNS; i++)
            for (int at = 0; at < OVERHEAD_FEATURES; at++)
                if (overhead_transport_chosen[transport] && overhead_pattern_chosen[i] && overhead_feature_chosen[at])
                    overhead_json_row(&json, transport, i, at);
    report_json_end(&json, ']');
    if (report_json_close(&json) == 0)
        return;
    perror(overhead_json);
    exit(EXIT_FAILURE);
}

/* ----------------------------------------------------------------------------------------------------------- options */

static const char *overhead_transport_name(int at)
{
    return overhead_transports[at];
}

static const char *overhead_pattern_name(int at)
{
    return overhead_patterns[at].name;
}

static const char *overhead_feature_name(int at)
{
    return overhead_features[at].name;
}

/* What an option chooses from. */
struct overhead_choice {
    const char *option;
    const char *(*name)(int at);
    int from;
    int count;
    bool *chosen;
};

static bool overhead_choose_one(const struct overhead_choice *choice, const char *word, size_t length)
{
    for (int at = choice->from; at < choice->count; at++)
        if (strlen(choice->name(at)) == length && strncmp(choice->name(at), word, length) == 0)
            return choice->chosen[at] = true;
    return false;
}

/* Names with commas between; an empty list is all of them. */
static void overhead_choose(const struct option_program *program, const struct overhead_choice *choice, const char *list)
{
    char names[256] = "";

    for (int at = choice->from; at < choice->count; at++) {
        choice->chosen[at] = *list == '\0';
        (void)snprintf(names + strlen(names), sizeof names - strlen(names), " %s", choice->name(at));
    }
    for (const char *word = list; *list != '\0'; word++) {
        const size_t length = strcspn(word, ",");

        if (!overhead_choose_one(choice, word, length))
            options_refuse(program, "--%s %s: must be of these, with commas between:%s", choice->option, list, names);
        word += length;
        if (*word == '\0')
            return;
    }
}

static void overhead_check_options(const struct option_program *program)
{
    static const struct overhead_choice transport = {"transport", overhead_transport_name, 0, OVERHEAD_TRANSPORTS,
                                                     overhead_transport_chosen};
    static const struct overhead_choice pattern = {"pattern", overhead_pattern_name, 0, OVERHEAD_PATTERNS,
                                                   overhead_pattern_chosen};
    static const struct overhead_choice feature = {"feature", overhead_feature_name, 1, OVERHEAD_FEATURES,
                                                   overhead_feature_chosen};

    overhead_choose(program, &transport, overhead_transport);
    overhead_choose(program, &pattern, overhead_pattern);
    overhead_choose(program, &feature, overhead_feature);
    overhead_feature_chosen[0] = true;
    if (overhead_messages % OVERHEAD_EIGHT != 0)
        options_refuse(program, "--messages %" PRIu64 ": must be a multiple of %d, as some leave so many at a time",
                       overhead_messages, OVERHEAD_EIGHT);
    if (strncmp(overhead_options, "order=", 6) == 0 || strstr(overhead_options, "&order=") != NULL)
        options_refuse(program, "--options %s: order is what is measured; leave it out", overhead_options);
}

/* It stays where it is if nobody said where: figures of several CPUs do not compare. */
static void overhead_pin(void)
{
    if (overhead_cpu == MACHINE_NO_CPU)
        overhead_cpu = (uint64_t)sched_getcpu();
    if (machine_pin_as_asked("overhead", overhead_cpu) != 0)
        exit(EXIT_FAILURE);
}

static void overhead_prepare(void)
{
    const size_t turns = overhead_runs * overhead_rounds;

    for (int transport = 0; transport < OVERHEAD_TRANSPORTS; transport++)
        for (int i = 0; i < OVERHEAD_PATTERNS; i++)
            for (int at = 0; at < OVERHEAD_FEATURES; at++) {
                overhead_results[transport][i][at].ns = steady_memory(turns, sizeof(double));
                overhead_results[transport][i][at].more = steady_memory(turns, sizeof(double));
            }
}

static void overhead_finish(void)
{
    char machine[256];
    struct report_setting setting = {.peer = machine, .network = ""};

    machine_describe(&setting.machine);
    machine_print(&setting.machine, machine, sizeof machine);
    for (int transport = 0; transport < OVERHEAD_TRANSPORTS; transport++)
        for (int i = 0; i < OVERHEAD_PATTERNS; i++)
            for (int at = 0; at < OVERHEAD_FEATURES; at++) {
                struct overhead_result *result = &overhead_results[transport][i][at];

                overhead_summarize(result);
                free(result->ns);
                free(result->more);
            }
    overhead_print(&setting);
    if (*overhead_json != '\0')
        overhead_write(&setting);
}

int main(int argc, char **argv)
{
    static const struct option_spec specs[] = {
        {"transport", OPTION_TEXT, &overhead_transport, "NAME,...", "which of loop, shm and udp, by loopback (loop,shm)", 0, 0,
         NULL},
        {"pattern", OPTION_TEXT, &overhead_pattern, "NAME,...", "which of lone, eight and stream (all)", 0, 0, NULL},
        {"feature", OPTION_TEXT, &overhead_feature, "NAME,...", "which features (all)", 0, 0, NULL},
        {"rounds", OPTION_NUMBER, &overhead_rounds, "N", "turns of each in a run (41)", 1, 1000, NULL},
        {"messages", OPTION_NUMBER, &overhead_messages, "N", "of a turn, a multiple of 8; of a stream ten times that (20000)",
         64, 10000000, NULL},
        {"runs", OPTION_NUMBER, &overhead_runs, "N", "in each of which all is opened anew (5)", 1, 100, NULL},
        {"size", OPTION_NUMBER, &overhead_size, "N", "bytes of a message (45)", 1, OVERHEAD_SIZE_MAX, NULL},
        {"watch", OPTION_SECONDS, &overhead_watch, "SECONDS", "the interval of the watch (1)", 1000000, 60000000000, NULL},
        {"options", OPTION_TEXT, &overhead_options, "K=V&..", "options of all channels", 0, 0, NULL},
        {"cpu", OPTION_NUMBER, &overhead_cpu, "CPU", "the CPU to run on", 0, MACHINE_NO_CPU - 1, NULL},
        {"directory", OPTION_TEXT, &overhead_directory, "DIR", "of counters files (" LLM_STATS_DIRECTORY ")", 0, 0, NULL},
        {"json", OPTION_TEXT, &overhead_json, "FILE", "where the JSON goes", 0, 0, NULL},
    };
    static const struct option_program program = {
        "overhead", "What features cost a message that has no use for them; run by bench/run overhead.",
        "  overhead --transport loop --pattern lone --feature wire,watch\n", specs, sizeof specs / sizeof specs[0], NULL};

    options_parse(&program, argc, argv);
    overhead_check_options(&program);
    overhead_pin();
    overhead_prepare();
    if (!overhead_run_all())
        return EXIT_FAILURE;
    overhead_finish();
    return EXIT_SUCCESS;
}
