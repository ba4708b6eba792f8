/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batching benchmark: that messages share packets when there are many of them, and never wait for others when there are
 * few: latency and messages per packet against rate.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "sweep.h"

enum batching_field { FIELD_RATE, FIELD_REACHED, FIELDS };

/* In the JSON they are among the fields of the hop. */
static const struct sweep_field batching_fields[FIELDS] = {
    [FIELD_RATE] = {.head = {"", "rate"}, .width = 9},
    [FIELD_REACHED] = {.head = {"rate", "reached"}, .width = 9},
};

static struct option_list batching_rates = {
    .values = {1, 10, 100, 1000, 10000, 100000, 300000, 1000000, 3000000, 0},
    .count = 10,
};

static const struct option_spec batching_specs[] = {
    {.name = "rate", .kind = OPTION_LIST, .value = &batching_rates, .argument = "N,...", .min = 0, .max = 100000000,
     .help = "messages a second, 0 for flat out (1,10,100,1000,10000,100000,300000,1000000,3000000,0); source"},
};

static const struct option_program batching_program = {
    .name = "batching",
    .summary = "usage: batching --role source|reflector --send CHANNEL --receive CHANNEL [OPTION...]\n\n"
               "Measures the latency of one hop and how many messages share a packet, at rates from one message a second to flat\n"
               "out. At low rates a row has few samples: about one for each message, up to 1000 a second.",
    .examples = SWEEP_EXAMPLES("batching", "--rate 1000,1000000,0"),
    .specs = batching_specs,
    .count = sizeof batching_specs / sizeof batching_specs[0],
    .shared = sweep_specs,
};

static int batching_measure(struct source *source, uint64_t rate, double *run)
{
    double *hop = run + FIELDS;

    if (rate > 0)
        fprintf(stderr, "%" PRIu64 " msg/s\n", rate);
    else
        fprintf(stderr, "flat out\n");
    if (sweep_measure_hop(source, rate, hop) != 0)
        return -1;
    run[FIELD_RATE] = hop[HOP_RATE];
    run[FIELD_REACHED] = hop[HOP_RATE_REACHED];
    return 0;
}

static int batching_measure_all(struct source *source, const struct sweep_table *table)
{
    for (uint64_t run = 0; run < sweep.runs; run++) {
        for (int row = 0; row < table->rows; row++) {
            if (batching_measure(source, batching_rates.values[row], sweep_run(table, row, run)) != 0)
                return -1;
        }
    }
    return 0;
}

static int batching_source(void)
{
    struct sweep_table table;
    char measured[200];
    int failed;

    snprintf(measured, sizeof measured, "messages of %" PRIu64 " B at rates to flat out (-), where they are due when sent; "
             "bare, they share datagrams beyond 100000 msg/s", sweep.size);
    failed = sweep_table_init(&table, batching_fields, FIELDS, batching_rates.count) != 0 ||
             sweep_source(&batching_program, &table, batching_measure_all, measured) != 0;
    sweep_table_fini(&table);
    return failed;
}

int main(int argc, char **argv)
{
    struct echo_options echo;
    int failed;

    sweep_parse(&batching_program, argc, argv);
    if (sweep_pin(&batching_program) != 0)
        return 1;
    if (sweep_is_source()) {
        failed = batching_source();
    } else {
        echo = sweep_echo_options(&batching_program);
        failed = echo_run(&echo);
    }
    machine_probe_close(&sweep.probe);
    return failed;
}
