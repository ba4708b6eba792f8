/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_RAW_PORT_OFFSET 100
#define SWEEP_RUNS_MAX 100
#define SWEEP_SAMPLES_PER_S 1000
#define SWEEP_WAIT_SHARE 0.005 /* of the duration: beyond it the row tells of something else too */

struct sweep sweep = {
    .role = "",
    .send = "",
    .receive = "",
    .size = 45,
    .duration_ns = 5000000000,
    .patience_ns = 30000000000,
    .runs = 1,
    .cpu = MACHINE_NO_CPU,
    .peer_cpu = MACHINE_NO_CPU,
    .network = "",
};

/* ------------------------------------------------------------------------------------------------------------- options */

const struct option_spec sweep_specs[] = {
    {.name = "role", .kind = OPTION_CHOICE, .value = &sweep.role, .argument = "ROLE", .choices = "source reflector",
     .help = "source (measures) or reflector (sends back)"},
    {.name = "send", .kind = OPTION_TEXT, .value = &sweep.send, .argument = "CHANNEL",
     .help = "channel to send on; the other end's --receive"},
    {.name = "receive", .kind = OPTION_TEXT, .value = &sweep.receive, .argument = "CHANNEL",
     .help = "channel to receive from; the other end's --send"},
    {.name = "size", .kind = OPTION_NUMBER, .value = &sweep.size, .argument = "N", .min = sizeof(struct peer_stamped),
     .max = 65507, .help = "bytes of a message (45); source"},
    {.name = "duration", .kind = OPTION_SECONDS, .value = &sweep.duration_ns, .argument = "SECONDS", .min = 50000000,
     .max = 3600000000000, .help = "of each row (5); half as much again is measured bare; source"},
    {.name = "runs", .kind = OPTION_NUMBER, .value = &sweep.runs, .argument = "N", .min = 1, .max = SWEEP_RUNS_MAX,
     .help = "measure all rows so often and report medians (1); source"},
    {.name = "wait", .kind = OPTION_SECONDS, .value = &sweep.patience_ns, .argument = "SECONDS", .min = 0,
     .max = 3600000000000, .help = "how long to wait for the reflector to be started (30); source"},
    {.name = "cpu", .kind = OPTION_NUMBER, .value = &sweep.cpu, .argument = "N", .min = 0, .max = 4095,
     .help = "run on this CPU and no other; it should have nothing else to do"},
    {.name = "peer-cpu", .kind = OPTION_NUMBER, .value = &sweep.peer_cpu, .argument = "N", .min = 0, .max = 4095,
     .help = "CPU of the other end, if it is this machine: measures how near it is; source"},
    {.name = "json", .kind = OPTION_TEXT, .value = &sweep.json, .argument = "FILE", .help = "write the result there; source"},
    {.name = "network", .kind = OPTION_TEXT, .value = &sweep.network, .argument = "TEXT",
     .help = "what is between the ends, for the report; source"},
    {.name = "no-raw", .kind = OPTION_FLAG, .value = &sweep.no_raw, .help = "no bare UDP measurement beside it; both ends"},
    {.name = "keep", .kind = OPTION_FLAG, .value = &sweep.keep,
     .help = "serve one source after the other until killed; reflector"},
    {.name = NULL},
};

void sweep_parse(const struct option_program *program, int argc, char **argv)
{
    options_parse(program, argc, argv);
    if (*sweep.role == '\0')
        options_refuse(program, "--role is missing: source or reflector");
    if (*sweep.send == '\0' || *sweep.receive == '\0')
        options_refuse(program, "--%s is missing: a channel such as udp://239.192.1.1:5001?interface=eth0",
                       *sweep.send == '\0' ? "send" : "receive");
    if (strcmp(sweep.send, sweep.receive) == 0)
        options_refuse(program, "--send and --receive %s: must be two different groups", sweep.send);
}

bool sweep_is_source(void)
{
    return strcmp(sweep.role, "source") == 0;
}

int sweep_pin(const struct option_program *program)
{
    /* Before anything big is opened: the probe's process is a copy of this one. */
    if (sweep_is_source())
        machine_probe_as_asked(&sweep.probe, program->name, sweep.peer_cpu);
    return machine_pin_as_asked(program->name, sweep.cpu);
}

struct raw_group sweep_raw(const struct option_program *program, const char *channel)
{
    struct raw_group group = {.scheme = NULL};
    const char *reason = "";

    if (!sweep.no_raw && raw_group_of_channel(channel, SWEEP_RAW_PORT_OFFSET, &group, &reason) < 0)
        options_refuse(program, "%s cannot be measured bare: %s. Mend that, or give --no-raw on both ends", channel, reason);
    return group;
}

static struct source_options sweep_source_options(const struct option_program *program)
{
    return (struct source_options){
        .channels = {.send = sweep.send, .receive = sweep.receive},
        .raw_send = sweep_raw(program, sweep.send),
        .raw_receive = sweep_raw(program, sweep.receive),
        .size_max = sweep.size,
        .samples_per_s = SWEEP_SAMPLES_PER_S,
        .duration_ns = sweep.duration_ns,
        .patience_ns = sweep.patience_ns,
    };
}

struct echo_options sweep_echo_options(const struct option_program *program)
{
    return (struct echo_options){
        .channels = {.send = sweep.send, .receive = sweep.receive},
        .raw_send = sweep_raw(program, sweep.send),
        .raw_receive = sweep_raw(program, sweep.receive),
        .keep = sweep.keep,
    };
}

/* -------------------------------------------------------------------------------------------------------------- fields */

static const struct sweep_field sweep_hop_fields[HOP_FIELDS] = {
    [HOP_RATE] = {.name = "rate_msgs_per_s"},
    [HOP_RATE_REACHED] = {.name = "rate_reached_msgs_per_s"},
    [HOP_SENT] = {.name = "sent"},
    [HOP_RECEIVED] = {.name = "received"},
    [HOP_LOST] = {.name = "lost", .head = {"", "lost"}, .width = 6, .worst = true},
    [HOP_DISORDERED] = {.name = "disordered", .worst = true},
    [HOP_REFUSED] = {.name = "refused", .worst = true},
    [HOP_SAMPLES] = {.name = "samples"},
    [HOP_MEDIAN] = {.object = "hop_us", .name = "median", .json_decimals = 3, .head = {"", "median"}, .width = 8, .decimals = 2},
    [HOP_P99] = {.object = "hop_us", .name = "p99", .json_decimals = 3, .head = {"", "p99"}, .width = 8, .decimals = 2},
    [HOP_RAW_MEDIAN] = {.object = "raw_hop_us", .name = "median", .json_decimals = 3, .head = {"raw", "median"}, .width = 8,
                        .decimals = 2},
    [HOP_RAW_P99] = {.object = "raw_hop_us", .name = "p99", .json_decimals = 3, .head = {"raw", "p99"}, .width = 8,
                     .decimals = 2},
    [HOP_RATIO] = {.name = "ratio_to_raw", .json_decimals = 3, .head = {"ratio", "median"}, .width = 6, .decimals = 2},
    [HOP_RATIO_P99] = {.name = "p99_ratio_to_raw", .json_decimals = 3, .head = {"ratio", "p99"}, .width = 6, .decimals = 2},
    [HOP_PER_PACKET] = {.name = "messages_per_packet", .json_decimals = 2, .head = {"msgs a", "packet"}, .width = 6,
                        .decimals = 1},
    [HOP_WAITED_MS] = {.name = "core_wait_ms", .json_decimals = 3},
    [HOP_CORES_NS] = {.name = "core_to_core_ns", .json_decimals = 1, .head = {"cores", "ns"}, .width = 5},
};

static int sweep_field_count(const struct sweep_table *table)
{
    return table->field_count + HOP_FIELDS;
}

static const struct sweep_field *sweep_field(const struct sweep_table *table, int field)
{
    return field < table->field_count ? &table->fields[field] : &sweep_hop_fields[field - table->field_count];
}

int sweep_table_init(struct sweep_table *table, const struct sweep_field *fields, int field_count, int rows)
{
    size_t numbers;

    *table = (struct sweep_table){.fields = fields, .field_count = field_count, .rows = rows};
    numbers = (size_t)(rows * sweep_field_count(table));
    table->runs = calloc(numbers * sweep.runs, sizeof *table->runs);
    table->results = calloc(numbers, sizeof *table->results);
    if (table->runs && table->results)
        return 0;
    fprintf(stderr, "no memory for %d rows\n", rows);
    return -1;
}

void sweep_table_fini(struct sweep_table *table)
{
    free(table->runs);
    free(table->results);
    *table = (struct sweep_table){0};
}

double *sweep_run(const struct sweep_table *table, int row, uint64_t run)
{
    return table->runs + ((uint64_t)row * sweep.runs + run) * (uint64_t)sweep_field_count(table);
}

double *sweep_result(const struct sweep_table *table, int row)
{
    return table->results + row * sweep_field_count(table);
}

int sweep_measure_hop(struct source *source, uint64_t rate, double *hop)
{
    double cores_ns = machine_probe_run(&sweep.probe);
    struct histogram_summary rtt;
    struct histogram_summary raw;
    struct source_counts counts;
    bool has_raw;

    if (source_measure(source, sweep.size, rate, &counts) != 0)
        return -1;
    rtt = histogram_summarize(&source->rtt, 2);
    raw = histogram_summarize(&source->raw, 2);
    has_raw = source->raw.count > 0;
    hop[HOP_RATE] = rate > 0 ? (double)rate : NAN;
    hop[HOP_RATE_REACHED] = counts.rate_reached;
    hop[HOP_SENT] = (double)counts.sent;
    hop[HOP_RECEIVED] = (double)counts.received;
    hop[HOP_LOST] = (double)counts.lost;
    hop[HOP_DISORDERED] = (double)counts.disordered;
    hop[HOP_REFUSED] = (double)counts.refused;
    hop[HOP_SAMPLES] = (double)source->rtt.count;
    hop[HOP_MEDIAN] = source->rtt.count > 0 ? rtt.median : NAN;
    hop[HOP_P99] = source->rtt.count > 0 ? rtt.p99 : NAN;
    hop[HOP_RAW_MEDIAN] = has_raw ? raw.median : NAN;
    hop[HOP_RAW_P99] = has_raw ? raw.p99 : NAN;
    hop[HOP_RATIO] = has_raw ? rtt.median / raw.median : NAN;
    hop[HOP_RATIO_P99] = has_raw ? rtt.p99 / raw.p99 : NAN;
    hop[HOP_PER_PACKET] = counts.packets > 0 ? (double)counts.messages / (double)counts.packets : NAN;
    hop[HOP_WAITED_MS] = (double)counts.waited_ns / 1e6;
    hop[HOP_CORES_NS] = cores_ns > 0 ? cores_ns : NAN;
    return 0;
}

/* Sorted by report_median(), the last value is the greatest; a NAN is not sorted, and is the result. */
static void sweep_conclude(const struct sweep_table *table)
{
    double values[SWEEP_RUNS_MAX];

    for (int row = 0; row < table->rows; row++) {
        for (int field = 0; field < sweep_field_count(table); field++) {
            double *result = &sweep_result(table, row)[field];

            for (uint64_t run = 0; run < sweep.runs; run++)
                values[run] = sweep_run(table, row, run)[field];
            *result = report_median(values, (int)sweep.runs);
            if (sweep_field(table, field)->worst && !isnan(*result))
                *result = values[sweep.runs - 1];
        }
    }
}

/* --------------------------------------------------------------------------------------------------------------- table */

static void sweep_print_head(const struct sweep_table *table)
{
    for (int line = 0; line < 2; line++) {
        for (int i = 0; i < sweep_field_count(table); i++) {
            const struct sweep_field *field = sweep_field(table, i);

            if (field->head[line])
                printf(" %*s", field->width, field->head[line]);
        }
        printf("\n");
    }
}

static void sweep_print_row(const struct sweep_table *table, int row)
{
    for (int i = 0; i < sweep_field_count(table); i++) {
        const struct sweep_field *field = sweep_field(table, i);
        double number = sweep_result(table, row)[i];

        if (!field->head[0])
            continue;
        if (isnan(number))
            printf(" %*s", field->width, "-");
        else
            printf(" %*.*f", field->width, field->decimals, number);
    }
    printf("\n");
}

static void sweep_print_notes(const struct sweep_table *table, int row)
{
    const double *hop = sweep_result(table, row) + table->field_count;

    if (hop[HOP_RATE_REACHED] < 0.99 * hop[HOP_RATE])
        printf("* row %d: reached only %.0f msg/s\n", row + 1, hop[HOP_RATE_REACHED]);
    if (hop[HOP_DISORDERED] > 0)
        printf("! row %d: %.0f messages came out of order or twice\n", row + 1, hop[HOP_DISORDERED]);
    if (hop[HOP_REFUSED] > 0)
        printf("! row %d: %.0f messages could not be sent back\n", row + 1, hop[HOP_REFUSED]);
    if (hop[HOP_WAITED_MS] > SWEEP_WAIT_SHARE * (double)sweep.duration_ns / 1e6)
        printf("~ row %d: the ends waited %.1f ms for their cores; something else runs there\n", row + 1, hop[HOP_WAITED_MS]);
}

static void sweep_print(const struct sweep_table *table, const struct report_setting *setting, const char *measured)
{
    report_print_machine(setting);
    printf("channels  there %s, back %s\n", sweep.send, sweep.receive);
    printf("measured  %s; one hop = half a round trip, in us, from the time due; %g s a row", measured,
           (double)sweep.duration_ns / 1e9);
    printf(sweep.runs > 1 ? "; medians of %" PRIu64 " runs, the worst of lost\n\n" : "\n\n", sweep.runs);
    sweep_print_head(table);
    for (int row = 0; row < table->rows; row++)
        sweep_print_row(table, row);
    for (int row = 0; row < table->rows; row++)
        sweep_print_notes(table, row);
    printf("\n");
}

/* ---------------------------------------------------------------------------------------------------------------- JSON */

static void sweep_json_row(struct report_json *json, const struct sweep_table *table, int row)
{
    const char *object = NULL;
    char transport[32];

    snprintf(transport, sizeof transport, "%.*s", (int)strcspn(sweep.send, ":"), sweep.send);
    report_json_begin(json, NULL, '{');
    report_json_text(json, "transport", transport);
    report_json_number(json, "size_bytes", (double)sweep.size, 0);
    report_json_number(json, "duration_s", (double)sweep.duration_ns / 1e9, 3);
    for (int i = 0; i < sweep_field_count(table); i++) {
        const struct sweep_field *field = sweep_field(table, i);

        if (object && (!field->object || strcmp(object, field->object) != 0))
            report_json_end(json, '}');
        if (field->object && (!object || strcmp(object, field->object) != 0))
            report_json_begin(json, field->object, '{');
        object = field->object;
        if (field->name)
            report_json_number(json, field->name, sweep_result(table, row)[i], field->json_decimals);
    }
    report_json_end(json, '}');
}

static int sweep_write_json(const struct option_program *program, const struct sweep_table *table,
                            const struct report_setting *setting)
{
    struct report_json json;

    if (!sweep.json)
        return 0;
    if (report_json_open(&json, sweep.json) == 0) {
        report_json_text(&json, "benchmark", program->name);
        report_json_machine(&json, setting);
        report_json_begin(&json, "rows", '[');
        for (int row = 0; row < table->rows; row++)
            sweep_json_row(&json, table, row);
        report_json_end(&json, ']');
        if (report_json_close(&json) == 0)
            return 0;
    }
    fprintf(stderr, "%s: cannot write %s: %s\n", program->name, sweep.json, strerror(errno));
    return -1;
}

static double sweep_cores_ns(const struct sweep_table *table)
{
    double *values = table->rows > 0 ? calloc((size_t)table->rows, sizeof *values) : NULL;
    double median = 0;

    if (!values)
        return 0;
    for (int row = 0; row < table->rows; row++)
        values[row] = sweep_result(table, row)[table->field_count + HOP_CORES_NS];
    median = report_median(values, table->rows);
    free(values);
    return isnan(median) ? 0 : median;
}

static int sweep_report(const struct option_program *program, const struct sweep_table *table, const struct peer *peer,
                        const char *measured)
{
    struct report_setting setting = {.peer = peer->machine, .network = sweep.network, .cores_ns = sweep_cores_ns(table)};

    machine_describe(&setting.machine);
    sweep_print(table, &setting, measured);
    return sweep_write_json(program, table, &setting);
}

int sweep_source(const struct option_program *program, const struct sweep_table *table,
                 int (*measure)(struct source *source, const struct sweep_table *table), const char *measured)
{
    struct source_options options = sweep_source_options(program);
    struct source source;
    int failed = source_open(&source, &options) != 0 || measure(&source, table) != 0;

    if (!failed) {
        peer_request(&source.peer, PEER_BYE, NULL, 0);
        sweep_conclude(table);
        failed = sweep_report(program, table, &source.peer, measured) != 0;
    }
    if (!failed)
        peer_print_counters(&source.peer, "source");
    source_close(&source);
    return failed;
}
