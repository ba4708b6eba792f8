/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The multicast scalability benchmark: the hop on one group while another pair of processes loads N other groups.
 *
 * The source and the transmitter of the load run on host A, the reflector and the receiver of the load on host B. The load's
 * rate is the same in all rows, over all its groups together, and its processes sleep between: what differs from row to row is
 * the number of groups alone.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "load.h"
#include "sweep.h"

#define GROUPS_SETTLE_NS 1000000000ull /* the kernel reports what it joined a second time within this */
#define GROUPS_DRAIN_NS 50000000ull    /* until the receiver of the load has what was sent */

enum groups_field {
    FIELD_GROUPS,
    FIELD_LOAD,
    FIELD_LOAD_LOST,
    FIELD_CPU_A,
    FIELD_CPU_B,
    FIELD_TO_FIRST,
    FIELDS
};

static const struct sweep_field groups_fields[FIELDS] = {
    [FIELD_GROUPS] = {.name = "groups", .head = {"", "groups"}, .width = 7},
    [FIELD_LOAD] = {.object = "load", .name = "msgs_per_s", .head = {"load", "msg/s"}, .width = 7},
    [FIELD_LOAD_LOST] = {.object = "load", .name = "lost", .head = {"load", "lost"}, .width = 5, .worst = true},
    [FIELD_CPU_A] = {.object = "load", .name = "transmitter_cpu_percent", .json_decimals = 2, .head = {"load A", "CPU %"},
                     .width = 6, .decimals = 1},
    [FIELD_CPU_B] = {.object = "load", .name = "receiver_cpu_percent", .json_decimals = 2, .head = {"load B", "CPU %"}, .width = 6,
                     .decimals = 1},
    [FIELD_TO_FIRST] = {.name = "ratio_to_first", .json_decimals = 3, .head = {"to", "first"}, .width = 6, .decimals = 3},
};

struct groups {
    struct option_list groups;
    uint64_t rate;
    uint64_t load_rate;
    struct load load;
};

static struct groups groups = {
    .groups = {.values = {1, 16, 64, 256, 512, 1000}, .count = 6},
    .rate = 100000,
    .load_rate = 1000,
};

static const struct option_spec groups_specs[] = {
    {.name = "groups", .kind = OPTION_LIST, .value = &groups.groups, .argument = "N,...", .min = 0, .max = LOAD_GROUPS_MAX,
     .help = "other groups that are loaded (1,16,64,256,512,1000); 0: no load; source"},
    {.name = "load", .kind = OPTION_NUMBER, .value = &groups.load_rate, .argument = "N", .min = 1, .max = 100000,
     .help = "messages a second on the other groups, all together (1000); source"},
    {.name = "rate", .kind = OPTION_NUMBER, .value = &groups.rate, .argument = "N", .min = 1, .max = 100000000,
     .help = "messages a second on the group that is measured (100000); source"},
};

static const struct option_program groups_program = {
    .name = "groups",
    .summary = "usage: groups --role source|reflector --send CHANNEL --receive CHANNEL [OPTION...]\n\n"
               "Measures the latency of one hop on one group while another pair of processes, one on each host, sends and\n"
               "receives on many other groups: 239.193.0.1 and so on, with the port and the options of --send. Each group is a\n"
               "socket on either side, so the limit of open files must allow that many.",
    .examples = SWEEP_EXAMPLES("groups", "--groups 1,1000"),
    .specs = groups_specs,
    .count = sizeof groups_specs / sizeof groups_specs[0],
    .shared = sweep_specs,
};

/* ---------------------------------------------------------------------------------------------------------------- rows */

static void groups_wait(const struct source *source, uint64_t ns)
{
    uint64_t start = llm_clock();

    while (llm_clock() - start < ns)
        llm_poll(source->peer.context);
}

/* Has the reflector's side receive from so many groups. */
static int groups_ask(struct source *source, uint64_t count)
{
    if (peer_request(&source->peer, PEER_LOAD, &count, 1) != 0) {
        fprintf(stderr, "groups: the reflector does not answer any more\n");
        return -1;
    }
    if (source->peer.answer.values[ECHO_LOAD_FAILED]) {
        fprintf(stderr, "groups: %" PRIu64 " groups: %s\n", count, source->peer.answer.text);
        return -1;
    }
    return 0;
}

/* The receiver first: what it has not joined it cannot get. */
static int groups_load(struct source *source, uint64_t count)
{
    struct load_result before;

    if (groups_ask(source, count) != 0 || load_set(&groups.load, count, groups.load_rate, &before) != 0)
        return -1;
    groups_wait(source, GROUPS_SETTLE_NS);
    return 0;
}

static double groups_percent(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100 * (double)part / (double)whole : NAN;
}

/* Ends the load in the other order, so that nothing is missed. */
static int groups_unload(struct source *source, double *run)
{
    const uint64_t *far = source->peer.answer.values;
    struct load_result near;

    if (load_set(&groups.load, 0, 0, &near) != 0)
        return -1;
    groups_wait(source, GROUPS_DRAIN_NS);
    if (groups_ask(source, 0) != 0)
        return -1;
    run[FIELD_LOAD] = (double)near.messages * 1e9 / (double)near.ns;
    run[FIELD_LOAD_LOST] = (double)near.messages - (double)far[ECHO_LOAD_RECEIVED];
    run[FIELD_CPU_A] = groups_percent(near.cpu_ns, near.ns);
    run[FIELD_CPU_B] = groups_percent(far[ECHO_LOAD_CPU_NS], far[ECHO_LOAD_NS]);
    return 0;
}

static int groups_measure(struct source *source, uint64_t count, double *run)
{
    run[FIELD_GROUPS] = (double)count;
    run[FIELD_LOAD] = NAN;
    run[FIELD_LOAD_LOST] = NAN;
    run[FIELD_CPU_A] = NAN;
    run[FIELD_CPU_B] = NAN;
    fprintf(stderr, "%" PRIu64 " groups\n", count);
    if (count > 0 && groups_load(source, count) != 0)
        return -1;
    if (sweep_measure_hop(source, groups.rate, run + FIELDS) != 0)
        return -1;
    return count > 0 ? groups_unload(source, run) : 0;
}

/* Within a run: the machine's mood drifts from one to the next. */
static void groups_compare(const struct sweep_table *table, uint64_t run)
{
    double first = sweep_run(table, 0, run)[FIELDS + HOP_MEDIAN];

    for (int row = 0; row < table->rows; row++) {
        double *fields = sweep_run(table, row, run);

        fields[FIELD_TO_FIRST] = fields[FIELDS + HOP_MEDIAN] / first;
    }
}

/* Every other run goes through the rows backwards: a steady drift of the machine would look like the groups' doing. */
static int groups_measure_all(struct source *source, const struct sweep_table *table)
{
    for (uint64_t run = 0; run < sweep.runs; run++) {
        for (int i = 0; i < table->rows; i++) {
            int row = run % 2 == 0 ? i : table->rows - 1 - i;

            if (groups_measure(source, groups.groups.values[row], sweep_run(table, row, run)) != 0)
                return -1;
        }
        groups_compare(table, run);
    }
    return 0;
}

/* --------------------------------------------------------------------------------------------------------------- roles */

static int groups_source(void)
{
    struct sweep_table table;
    char measured[160];
    int failed;

    snprintf(measured, sizeof measured, "%" PRIu64 " msg/s of %" PRIu64 " B on one group, %" PRIu64 " msg/s on the others together",
             groups.rate, sweep.size, groups.load_rate);
    failed = sweep_table_init(&table, groups_fields, FIELDS, groups.groups.count) != 0 ||
             sweep_source(&groups_program, &table, groups_measure_all, measured) != 0;
    sweep_table_fini(&table);
    return failed;
}

static int groups_reflector(void)
{
    struct echo_options options = sweep_echo_options(&groups_program);

    options.load = &groups.load;
    return echo_run(&options);
}

/* The process of the load is started first: it is not to be pinned where this one will be. */
static int groups_open_load(void)
{
    struct load_options load = {.channel = sweep.send, .transmits = true, .size = sweep.size};

    if (!sweep_is_source()) {
        load.channel = sweep.receive;
        load.transmits = false;
        return load_open(&groups.load, &load);
    }
    for (int i = 0; i < groups.groups.count; i++) {
        if (groups.groups.values[i] > load.groups_max)
            load.groups_max = groups.groups.values[i];
    }
    return load_open(&groups.load, &load);
}

int main(int argc, char **argv)
{
    int failed;

    sweep_parse(&groups_program, argc, argv);
    if (!load_is_apart(sweep.send) || !load_is_apart(sweep.receive))
        options_refuse(&groups_program, "--send and --receive: not in 239.193.0.0/16, where the load is");
    if (groups_open_load() != 0 || sweep_pin(&groups_program) != 0)
        return 1;
    failed = sweep_is_source() ? groups_source() : groups_reflector();
    load_close(&groups.load);
    machine_probe_close(&sweep.probe);
    return failed;
}
