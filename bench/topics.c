/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The topics benchmark: what it costs that the messages of one session take turns on many topics, in rate and in latency.
 *
 * All rows are measured for their rate first, with the two ends of the throughput benchmark, then all for their latency with
 * those of the reflector, each time in one session, which has the topics of a row open when its turn comes.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pump.h"
#include "sink.h"
#include "sweep.h"

#define TOPICS_BATCH 256 /* messages sent between two polls, as in the throughput benchmark */
#define TOPICS_MAX 16000 /* within the library's default topics_max */

enum topics_field {
    FIELD_TOPICS,
    FIELD_RATE,
    FIELD_GBIT,
    FIELD_LOST,
    FIELD_TRIES,
    FIELD_RAW,
    FIELD_RATIO,
    FIELDS
};

static const struct sweep_field topics_fields[FIELDS] = {
    [FIELD_TOPICS] = {.name = "topics", .head = {"", "topics"}, .width = 7},
    [FIELD_RATE] = {.object = "throughput", .name = "msgs_per_s", .head = {"", "msg/s"}, .width = 10},
    [FIELD_GBIT] = {.object = "throughput", .name = "payload_gbit_per_s", .json_decimals = 4, .head = {"", "Gbit/s"}, .width = 7,
                    .decimals = 3},
    [FIELD_LOST] = {.object = "throughput", .name = "lost", .head = {"", "lost"}, .width = 5, .worst = true},
    [FIELD_TRIES] = {.object = "throughput", .name = "tries", .head = {"", "tries"}, .width = 5},
    [FIELD_RAW] = {.object = "throughput", .name = "raw_gbit_per_s", .json_decimals = 4, .head = {"raw", "Gbit/s"}, .width = 7,
                   .decimals = 3},
    [FIELD_RATIO] = {.object = "throughput", .name = "ratio_to_raw", .json_decimals = 4, .head = {"", "ratio"}, .width = 6,
                     .decimals = 2},
};

struct topics {
    struct option_list topics;
    uint64_t rate;
};

static struct topics topics = {
    .topics = {.values = {1, 10, 100, 1000, 10000}, .count = 5},
    .rate = 100000,
};

static const struct option_spec topics_specs[] = {
    {.name = "topics", .kind = OPTION_LIST, .value = &topics.topics, .argument = "N,...", .min = 1, .max = TOPICS_MAX,
     .help = "topics that messages take turns on, ascending (1,10,100,1000,10000); source"},
    {.name = "rate", .kind = OPTION_NUMBER, .value = &topics.rate, .argument = "N", .min = 1, .max = 100000000,
     .help = "messages a second where the hop is measured (100000); source"},
};

static const struct option_program topics_program = {
    .name = "topics",
    .summary = "usage: topics --role source|reflector --send CHANNEL --receive CHANNEL [OPTION...]\n\n"
               "Measures the highest lossless rate of messages that take turns on many topics of one session, and the latency\n"
               "of one hop at a steady rate. Each takes the duration for a row.",
    .examples = SWEEP_EXAMPLES("topics", "--topics 1,10000"),
    .specs = topics_specs,
    .count = sizeof topics_specs / sizeof topics_specs[0],
    .shared = sweep_specs,
};

/* ---------------------------------------------------------------------------------------------------------------- rows */

static void topics_fill(double *run, const struct pump_result *result)
{
    run[FIELD_RATE] = result->messages_per_s;
    run[FIELD_GBIT] = result->messages_per_s * (double)sweep.size * 8 / 1e9;
    run[FIELD_LOST] = (double)(result->lost + result->disordered);
    run[FIELD_TRIES] = result->tries;
    run[FIELD_RAW] = result->raw_gbit_per_s[RAW_BATCHES];
    run[FIELD_RATIO] = run[FIELD_GBIT] / result->raw_gbit_per_s[RAW_BATCHES];
}

/* A topic cannot be closed: all runs of a row come before a row with more. */
static int topics_measure_rates(struct pump *pump, const struct sweep_table *table)
{
    for (int row = 0; row < table->rows; row++) {
        uint64_t count = topics.topics.values[row];

        fprintf(stderr, "%" PRIu64 " topics, rate\n", count);
        if (peer_use_topics(&pump->peer, count) != 0)
            return -1;
        for (uint64_t run = 0; run < sweep.runs; run++) {
            struct pump_result result;
            double *fields = sweep_run(table, row, run);

            if (pump_measure(pump, sweep.size, &result) != 0)
                return -1;
            fields[FIELD_TOPICS] = (double)count;
            topics_fill(fields, &result);
        }
    }
    peer_request(&pump->peer, PEER_BYE, NULL, 0);
    return 0;
}

static int topics_measure_hops(struct source *source, const struct sweep_table *table)
{
    for (int row = 0; row < table->rows; row++) {
        fprintf(stderr, "%" PRIu64 " topics, hop\n", topics.topics.values[row]);
        if (peer_use_topics(&source->peer, topics.topics.values[row]) != 0)
            return -1;
        for (uint64_t run = 0; run < sweep.runs; run++) {
            if (sweep_measure_hop(source, topics.rate, sweep_run(table, row, run) + FIELDS) != 0)
                return -1;
        }
    }
    return 0;
}

/* --------------------------------------------------------------------------------------------------------------- roles */

static int topics_rates(const struct sweep_table *table)
{
    struct pump_options options = {.channels = {.send = sweep.send, .receive = sweep.receive},
                                   .raw = sweep_raw(&topics_program, sweep.send),
                                   .header_bytes = raw_header_bytes(sweep.send),
                                   .size_max = sweep.size,
                                   .duration_ns = sweep.duration_ns,
                                   .batch = TOPICS_BATCH,
                                   .patience_ns = sweep.patience_ns};
    struct pump pump;
    int failed = pump_open(&pump, &options) != 0 || topics_measure_rates(&pump, table) != 0;

    pump_close(&pump);
    return failed;
}

static int topics_source(void)
{
    struct sweep_table table;
    char measured[160];
    int failed;

    snprintf(measured, sizeof measured, "messages of %" PRIu64 " B flat out without loss, then %" PRIu64 " msg/s", sweep.size,
             topics.rate);
    failed = sweep_table_init(&table, topics_fields, FIELDS, topics.topics.count) != 0 || topics_rates(&table) != 0 ||
             sweep_source(&topics_program, &table, topics_measure_hops, measured) != 0;
    sweep_table_fini(&table);
    return failed;
}

/* Both far ends, one after the other. */
static int topics_reflector(void)
{
    struct sink_options sink = {.channels = {.send = sweep.send, .receive = sweep.receive},
                                .raw = sweep_raw(&topics_program, sweep.receive)};
    struct echo_options echo = sweep_echo_options(&topics_program);
    int failed;

    echo.keep = false;
    do {
        failed = sink_run(&sink) != 0 || echo_run(&echo) != 0;
    } while (sweep.keep);
    return failed;
}

int main(int argc, char **argv)
{
    int failed;

    sweep_parse(&topics_program, argc, argv);
    for (int i = 1; i < topics.topics.count; i++) {
        if (topics.topics.values[i] < topics.topics.values[i - 1])
            options_refuse(&topics_program, "--topics: must ascend, as a topic cannot be closed");
    }
    if (sweep_pin(&topics_program) != 0)
        return 1;
    failed = sweep_is_source() ? topics_source() : topics_reflector();
    machine_probe_close(&sweep.probe);
    return failed;
}
