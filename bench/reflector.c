/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The latency benchmark: how long a message takes from one host to another, as half of the way there and back.
 *
 * The source runs on host A, the reflector on host B. The source alone decides what is measured and reports it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "machine.h"
#include "options.h"
#include "report.h"
#include "source.h"

#define REFLECTOR_RAW_PORT_OFFSET 100
#define REFLECTOR_WAIT_SHARE 0.005 /* of the duration: beyond it the row tells of something else too */

enum row_field {
    ROW_SENT,
    ROW_RECEIVED,
    ROW_LOST,
    ROW_DISORDERED,
    ROW_REFUSED,
    ROW_WAITED_MS,
    ROW_SAMPLES,
    ROW_RATE_REACHED,
    ROW_RTT_MEDIAN, /* from here on in the order of struct histogram_summary */
    ROW_RTT_MEAN,
    ROW_RTT_P99,
    ROW_RTT_P99_9,
    ROW_RTT_P99_99,
    ROW_RTT_MAX,
    ROW_RTT_STD,
    ROW_SUBMIT_MEDIAN, /* of the hop */
    ROW_SUBMIT_P99,
    ROW_RAW_MEDIAN, /* of the hop */
    ROW_RAW_P99,
    ROW_RATIO,
    ROW_RATIO_P99,
    ROW_CORES_NS,
    ROW_FIELDS
};

/* The combination of a size and a rate, over all runs. */
struct row {
    uint64_t size;
    uint64_t rate;
    double (*runs)[ROW_FIELDS];
    double result[ROW_FIELDS];
    struct histogram rtt; /* samples of all runs, for the files */
    struct histogram raw;
    bool raw_is_packed;
};

struct reflector {
    const char *role;
    const char *send;
    const char *receive;
    const char *raw_send;
    const char *raw_receive;
    struct option_list sizes;
    struct option_list rates;
    const char *reflect;
    uint64_t duration_ns;
    uint64_t patience_ns;
    uint64_t samples_per_s;
    uint64_t runs;
    uint64_t cpu;
    uint64_t peer_cpu;
    const char *json;
    const char *hgrm;
    const char *network;
    const char *emulated;
    bool keep;
    bool no_raw;
    struct machine_probe probe;
    struct row *rows;
    int row_count;
};

static struct reflector reflector = {
    .role = "",
    .send = "",
    .receive = "",
    .raw_send = "",
    .raw_receive = "",
    .sizes = {.values = {45}, .count = 1},
    .rates = {.values = {10000}, .count = 1},
    .reflect = "stamped",
    .duration_ns = 5000000000,
    .patience_ns = 30000000000,
    .samples_per_s = 1000,
    .runs = 1,
    .cpu = MACHINE_NO_CPU,
    .peer_cpu = MACHINE_NO_CPU,
    .network = "",
    .emulated = "",
};

static const struct option_spec reflector_specs[] = {
    {.name = "role", .kind = OPTION_CHOICE, .value = &reflector.role, .argument = "ROLE", .choices = "source reflector",
     .help = "source (measures) or reflector (sends back)"},
    {.name = "send", .kind = OPTION_TEXT, .value = &reflector.send, .argument = "CHANNEL",
     .help = "channel to send on; the other end's --receive"},
    {.name = "receive", .kind = OPTION_TEXT, .value = &reflector.receive, .argument = "CHANNEL",
     .help = "channel to receive from; the other end's --send"},
    {.name = "size", .kind = OPTION_LIST, .value = &reflector.sizes, .argument = "N,...", .min = sizeof(struct peer_stamped),
     .max = 65507, .help = "bytes of a message (45); source"},
    {.name = "rate", .kind = OPTION_LIST, .value = &reflector.rates, .argument = "N,...", .min = 1, .max = 100000000,
     .help = "messages a second (10000); source"},
    {.name = "reflect", .kind = OPTION_CHOICE, .value = &reflector.reflect, .argument = "WHICH", .choices = "stamped all",
     .help = "what is sent back: stamped (about 1000 a second, default) or all; source"},
    {.name = "duration", .kind = OPTION_SECONDS, .value = &reflector.duration_ns, .argument = "SECONDS", .min = 50000000,
     .max = 3600000000000, .help = "of each row (5); half as much again is measured bare; source"},
    {.name = "runs", .kind = OPTION_NUMBER, .value = &reflector.runs, .argument = "N", .min = 1, .max = 100,
     .help = "measure all rows so often and report medians (1); source"},
    {.name = "samples", .kind = OPTION_NUMBER, .value = &reflector.samples_per_s, .argument = "N", .min = 1, .max = 1000000,
     .help = "stamped messages a second (1000); source"},
    {.name = "wait", .kind = OPTION_SECONDS, .value = &reflector.patience_ns, .argument = "SECONDS", .min = 0,
     .max = 3600000000000, .help = "how long to wait for the reflector to be started (30); source"},
    {.name = "cpu", .kind = OPTION_NUMBER, .value = &reflector.cpu, .argument = "N", .min = 0, .max = 4095,
     .help = "run on this CPU and no other; it should have nothing else to do"},
    {.name = "peer-cpu", .kind = OPTION_NUMBER, .value = &reflector.peer_cpu, .argument = "N", .min = 0, .max = 4095,
     .help = "CPU of the other end, if it is this machine: measures how near it is; source"},
    {.name = "json", .kind = OPTION_TEXT, .value = &reflector.json, .argument = "FILE", .help = "write the result there; source"},
    {.name = "hgrm", .kind = OPTION_TEXT, .value = &reflector.hgrm, .argument = "DIR",
     .help = "write the percentiles there in HdrHistogram's text form; source"},
    {.name = "network", .kind = OPTION_TEXT, .value = &reflector.network, .argument = "TEXT",
     .help = "what is between the ends, for the report; source"},
    {.name = "emulated", .kind = OPTION_TEXT, .value = &reflector.emulated, .argument = "TEXT",
     .help = "what is not real, for the report; source"},
    {.name = "raw-send", .kind = OPTION_TEXT, .value = &reflector.raw_send, .argument = "CHANNEL",
     .help = "bare datagrams go as this channel says, by another scheme or interface; the other end's --raw-receive"},
    {.name = "raw-receive", .kind = OPTION_TEXT, .value = &reflector.raw_receive, .argument = "CHANNEL",
     .help = "... and come so; the other end's --raw-send. An xdp:// channel has its interface for itself: bare ones need "
             "another"},
    {.name = "no-raw", .kind = OPTION_FLAG, .value = &reflector.no_raw, .help = "no bare measurement beside it; both ends"},
    {.name = "keep", .kind = OPTION_FLAG, .value = &reflector.keep,
     .help = "serve one source after the other until killed; reflector"},
};

static const struct option_program reflector_program = {
    .name = "reflector",
    .summary = "usage: reflector --role source|reflector --send CHANNEL --receive CHANNEL [OPTION...]\n\n"
               "Measures the latency of one hop between two hosts, as half of the way there and back.",
    .examples = "On two machines, in either order:\n"
                "  B$ reflector --role reflector --send 'udp://239.192.1.2:5002?interface=eth0' \\\n"
                "       --receive 'udp://239.192.1.1:5001?interface=eth0' --cpu 2\n"
                "  A$ reflector --role source --send 'udp://239.192.1.1:5001?interface=eth0' \\\n"
                "       --receive 'udp://239.192.1.2:5002?interface=eth0' --cpu 2 --size 45,512 --rate 10000,1000000\n\n"
                "Latency counts from when a message was due, so a stall counts against every message that it delayed.\n"
                "The raw hop is bare UDP multicast between the same processes, in turns with the library's, 100 ports\n"
                "further (so ports 5101 and 5102 must be free too): one message a datagram, and beyond 100,000 a second\n"
                "what is due at once in full datagrams, split by the kernel (UDP_SEGMENT). Of roce:// channels it is bare\n"
                "verbs, on groups whose last byte is 100 greater.\n",
    .specs = reflector_specs,
    .count = sizeof reflector_specs / sizeof reflector_specs[0],
};

/* ------------------------------------------------------------------------------------------------------------- options */

static void reflector_check_options(void)
{
    if (*reflector.role == '\0')
        options_refuse(&reflector_program, "--role is missing: source or reflector");
    if (*reflector.send == '\0' || *reflector.receive == '\0')
        options_refuse(&reflector_program, "--%s is missing: a channel such as udp://239.192.1.1:5001?interface=eth0",
                       *reflector.send == '\0' ? "send" : "receive");
    if (strcmp(reflector.send, reflector.receive) == 0)
        options_refuse(&reflector_program, "--send and --receive %s: must be two different groups", reflector.send);
}

/* What stands bare beside a channel: it itself, or another if one was given. */
static void reflector_find_raw(const char *own, const char *other, struct raw_group *group)
{
    const char *channel = *other ? other : own;
    const char *reason = "";

    if (reflector.no_raw)
        memset(group, 0, sizeof *group);
    else if (raw_group_of_channel(channel, REFLECTOR_RAW_PORT_OFFSET, group, &reason) < 0)
        options_refuse(&reflector_program, "%s cannot be measured bare: %s. Mend that, or give --no-raw on both ends", channel,
                       reason);
}

/* ---------------------------------------------------------------------------------------------------------------- rows */

static int reflector_open_rows(void)
{
    size_t samples = (size_t)(reflector.runs * (reflector.duration_ns / 1000000000 + 1) * reflector.samples_per_s * 2);

    reflector.row_count = reflector.sizes.count * reflector.rates.count;
    reflector.rows = calloc((size_t)reflector.row_count, sizeof *reflector.rows);
    for (int i = 0; reflector.rows && i < reflector.row_count; i++) {
        struct row *row = &reflector.rows[i];

        row->size = reflector.sizes.values[i / reflector.rates.count];
        row->rate = reflector.rates.values[i % reflector.rates.count];
        row->runs = calloc(reflector.runs, sizeof *row->runs);
        if (!row->runs || histogram_init(&row->rtt, samples) != 0 || histogram_init(&row->raw, samples) != 0)
            return -1;
    }
    return reflector.rows ? 0 : -1;
}

static void reflector_close_rows(void)
{
    for (int i = 0; reflector.rows && i < reflector.row_count; i++) {
        free(reflector.rows[i].runs);
        histogram_fini(&reflector.rows[i].rtt);
        histogram_fini(&reflector.rows[i].raw);
    }
    free(reflector.rows);
}

static void reflector_fill_run(double *run, const struct source *source, const struct source_counts *counts)
{
    struct histogram_summary rtt = histogram_summarize(&source->rtt, 1);
    struct histogram_summary submitted = histogram_summarize(&source->submitted, 2);
    struct histogram_summary raw = histogram_summarize(&source->raw, 2);
    bool has_raw = source->raw.count > 0;

    run[ROW_SENT] = (double)counts->sent;
    run[ROW_RECEIVED] = (double)counts->received;
    run[ROW_LOST] = (double)counts->lost;
    run[ROW_DISORDERED] = (double)counts->disordered;
    run[ROW_REFUSED] = (double)counts->refused;
    run[ROW_WAITED_MS] = (double)counts->waited_ns / 1e6;
    run[ROW_SAMPLES] = (double)source->rtt.count;
    run[ROW_RATE_REACHED] = counts->rate_reached;
    memcpy(&run[ROW_RTT_MEDIAN], &rtt, sizeof rtt);
    run[ROW_SUBMIT_MEDIAN] = submitted.median;
    run[ROW_SUBMIT_P99] = submitted.p99;
    run[ROW_RAW_MEDIAN] = has_raw ? raw.median : NAN;
    run[ROW_RAW_P99] = has_raw ? raw.p99 : NAN;
    run[ROW_RATIO] = has_raw ? rtt.median / 2 / raw.median : NAN;
    run[ROW_RATIO_P99] = has_raw ? rtt.p99 / 2 / raw.p99 : NAN;
}

static int reflector_measure(struct source *source, struct row *row, uint64_t which)
{
    double *run = row->runs[which];
    struct source_counts counts;

    fprintf(stderr, "%" PRIu64 " B at %" PRIu64 " msg/s", row->size, row->rate);
    if (reflector.runs > 1)
        fprintf(stderr, ", run %" PRIu64 " of %" PRIu64, which + 1, reflector.runs);
    fprintf(stderr, "\n");
    run[ROW_CORES_NS] = machine_probe_run(&reflector.probe);
    if (source_measure(source, row->size, row->rate, &counts) != 0)
        return -1;
    reflector_fill_run(run, source, &counts);
    histogram_add_all(&row->rtt, &source->rtt);
    histogram_add_all(&row->raw, &source->raw);
    row->raw_is_packed = source->raw_is_packed;
    return 0;
}

/* Medians over the runs. A loss in any run is a loss, though: of those the worst is reported. */
static void reflector_conclude(struct row *row)
{
    double values[100];

    for (int field = 0; field < ROW_FIELDS; field++) {
        for (uint64_t i = 0; i < reflector.runs; i++)
            values[i] = row->runs[i][field];
        row->result[field] = report_median(values, (int)reflector.runs);
        if (field == ROW_LOST || field == ROW_DISORDERED || field == ROW_REFUSED)
            row->result[field] = values[reflector.runs - 1];
    }
    histogram_sort(&row->rtt);
    histogram_sort(&row->raw);
}

static struct histogram_summary reflector_summary(const struct row *row, double divisor)
{
    const double *rtt = &row->result[ROW_RTT_MEDIAN];

    return (struct histogram_summary){.median = rtt[0] / divisor, .mean = rtt[1] / divisor, .p99 = rtt[2] / divisor,
                                      .p99_9 = rtt[3] / divisor, .p99_99 = rtt[4] / divisor, .max = rtt[5] / divisor,
                                      .std = rtt[6] / divisor};
}

/* -------------------------------------------------------------------------------------------------------------- report */

static bool reflector_reached(const struct row *row)
{
    return row->result[ROW_RATE_REACHED] >= 0.99 * (double)row->rate;
}

static void reflector_print_row(const struct row *row)
{
    struct histogram_summary hop = reflector_summary(row, 2);
    const double *result = row->result;

    printf("%8" PRIu64 "%s %5" PRIu64 " %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %7.2f %7.2f %6.0f ", row->rate,
           reflector_reached(row) ? " " : "*", row->size, hop.median, hop.mean, hop.p99, hop.p99_9, hop.p99_99, hop.max,
           hop.std, result[ROW_RTT_STD], result[ROW_LOST]);
    if (isnan(result[ROW_RAW_MEDIAN]))
        printf("%8s %8s %6s %6s ", "-", "-", "-", "-");
    else
        printf("%8.2f %8.2f %6.2f %6.2f ", result[ROW_RAW_MEDIAN], result[ROW_RAW_P99], result[ROW_RATIO],
               result[ROW_RATIO_P99]);
    printf("%8.2f", result[ROW_SUBMIT_MEDIAN]);
    if (result[ROW_CORES_NS] > 0)
        printf(" %6.0f", result[ROW_CORES_NS]);
    printf("\n");
}

static void reflector_print_notes(const struct row *row)
{
    const double *result = row->result;

    if (!reflector_reached(row))
        printf("* %" PRIu64 " B at %" PRIu64 " msg/s: reached only %.0f msg/s\n", row->size, row->rate,
               result[ROW_RATE_REACHED]);
    if (result[ROW_DISORDERED] > 0)
        printf("! %" PRIu64 " B at %" PRIu64 " msg/s: %.0f messages came out of order or twice\n", row->size, row->rate,
               result[ROW_DISORDERED]);
    if (result[ROW_WAITED_MS] > REFLECTOR_WAIT_SHARE * (double)reflector.duration_ns / 1e6)
        printf("~ %" PRIu64 " B at %" PRIu64 " msg/s: the ends waited %.1f ms for their cores; something else runs there\n", row->size,
               row->rate, result[ROW_WAITED_MS]);
    if (result[ROW_REFUSED] > 0)
        printf("! %" PRIu64 " B at %" PRIu64 " msg/s: %.0f messages could not be sent back\n", row->size, row->rate,
               result[ROW_REFUSED]);
}

static void reflector_print(const struct report_setting *setting)
{
    report_print_machine(setting);
    printf("channels  there %s, back %s\n", reflector.send, reflector.receive);
    printf("measured  one hop = half a round trip, in us, from the time due; %s messages sent back; %g s a row", reflector.reflect,
           (double)reflector.duration_ns / 1e9);
    printf(reflector.runs > 1 ? "; medians of %" PRIu64 " runs, the worst of lost\n" : "\n", reflector.runs);
    for (int i = 0; i < reflector.row_count; i++)
        if (reflector.rows[i].raw_is_packed) {
            printf("raw       at %" PRIu64 " msg/s and beyond what is due at once leaves at once, in full datagrams\n",
                   reflector.rows[i].rate);
            break;
        }
    printf("\n");
    printf("%8s  %5s %8s %8s %8s %8s %8s %8s %7s %7s %6s %8s %8s %6s %6s %8s %6s\n", "", "", "", "", "", "", "", "", "", "RTT",
           "", "raw", "raw", "ratio", "ratio", "from", "cores");
    printf("%8s  %5s %8s %8s %8s %8s %8s %8s %7s %7s %6s %8s %8s %6s %6s %8s %6s\n", "rate", "size", "median", "mean", "p99",
           "p99.9", "p99.99", "max", "std", "std", "lost", "median", "p99", "median", "p99", "submit", "ns");
    for (int i = 0; i < reflector.row_count; i++)
        reflector_print_row(&reflector.rows[i]);
    for (int i = 0; i < reflector.row_count; i++)
        reflector_print_notes(&reflector.rows[i]);
    printf("\n");
}

static void reflector_transport(char *name, size_t size)
{
    snprintf(name, size, "%.*s", (int)strcspn(reflector.send, ":"), reflector.send);
}

static void reflector_json_row(struct report_json *json, const struct row *row)
{
    const double *result = row->result;
    struct histogram_summary hop = reflector_summary(row, 2);
    struct histogram_summary rtt = reflector_summary(row, 1);
    char transport[32];

    reflector_transport(transport, sizeof transport);
    report_json_begin(json, NULL, '{');
    report_json_text(json, "transport", transport);
    report_json_number(json, "size_bytes", (double)row->size, 0);
    report_json_number(json, "rate_msgs_per_s", (double)row->rate, 0);
    report_json_number(json, "rate_reached_msgs_per_s", result[ROW_RATE_REACHED], 0);
    report_json_text(json, "reflect", reflector.reflect);
    report_json_number(json, "duration_s", (double)reflector.duration_ns / 1e9, 3);
    report_json_number(json, "sent", result[ROW_SENT], 0);
    report_json_number(json, "received", result[ROW_RECEIVED], 0);
    report_json_number(json, "lost", result[ROW_LOST], 0);
    report_json_number(json, "samples", result[ROW_SAMPLES], 0);
    report_json_summary(json, "hop_us", &hop);
    report_json_summary(json, "rtt_us", &rtt);
    report_json_begin(json, "hop_submit_us", '{');
    report_json_number(json, "median", result[ROW_SUBMIT_MEDIAN], 3);
    report_json_number(json, "p99", result[ROW_SUBMIT_P99], 3);
    report_json_end(json, '}');
    report_json_begin(json, "raw_hop_us", '{');
    report_json_number(json, "median", result[ROW_RAW_MEDIAN], 3);
    report_json_number(json, "p99", result[ROW_RAW_P99], 3);
    report_json_end(json, '}');
    report_json_number(json, "raw_packed", row->raw_is_packed, 0);
    report_json_number(json, "ratio_to_raw", result[ROW_RATIO], 3);
    report_json_number(json, "p99_ratio_to_raw", result[ROW_RATIO_P99], 3);
    report_json_number(json, "core_wait_ms", result[ROW_WAITED_MS], 3);
    report_json_number(json, "core_to_core_ns", result[ROW_CORES_NS] > 0 ? result[ROW_CORES_NS] : NAN, 1);
    report_json_end(json, '}');
}

static int reflector_write_json(const struct report_setting *setting)
{
    struct report_json json;

    if (!reflector.json)
        return 0;
    if (report_json_open(&json, reflector.json) == 0) {
        report_json_text(&json, "benchmark", "reflector");
        report_json_machine(&json, setting);
        report_json_begin(&json, "rows", '[');
        for (int i = 0; i < reflector.row_count; i++)
            reflector_json_row(&json, &reflector.rows[i]);
        report_json_end(&json, ']');
        if (report_json_close(&json) == 0)
            return 0;
    }
    fprintf(stderr, "reflector: cannot write %s: %s\n", reflector.json, strerror(errno));
    return -1;
}

static int reflector_write_histogram(const struct row *row, const struct histogram *histogram, const char *kind)
{
    char path[4096];
    char transport[32];

    if (!reflector.hgrm || histogram->count == 0)
        return 0;
    reflector_transport(transport, sizeof transport);
    snprintf(path, sizeof path, "%s/%s-%" PRIu64 "B-%" PRIu64 "%s.hgrm", reflector.hgrm, transport, row->size, row->rate, kind);
    if (histogram_write(histogram, 2, path) == 0)
        return 0;
    fprintf(stderr, "reflector: cannot write %s: %s\n", path, strerror(errno));
    return -1;
}

static int reflector_report(const struct source *source)
{
    struct report_setting setting = {.network = reflector.network, .emulated = reflector.emulated};
    double *cores = calloc((size_t)reflector.row_count, sizeof *cores);
    int failed = 0;

    machine_describe(&setting.machine);
    setting.peer = source->peer.machine;
    for (int i = 0; i < reflector.row_count; i++) {
        reflector_conclude(&reflector.rows[i]);
        if (cores)
            cores[i] = reflector.rows[i].result[ROW_CORES_NS];
    }
    setting.cores_ns = cores ? report_median(cores, reflector.row_count) : 0;
    free(cores);
    reflector_print(&setting);
    for (int i = 0; i < reflector.row_count; i++) {
        failed |= reflector_write_histogram(&reflector.rows[i], &reflector.rows[i].rtt, "");
        failed |= reflector_write_histogram(&reflector.rows[i], &reflector.rows[i].raw, "-raw");
    }
    failed |= reflector_write_json(&setting);
    return failed ? -1 : 0;
}

/* --------------------------------------------------------------------------------------------------------------- roles */

static int reflector_measure_all(struct source *source)
{
    for (uint64_t run = 0; run < reflector.runs; run++) {
        for (int i = 0; i < reflector.row_count; i++) {
            if (reflector_measure(source, &reflector.rows[i], run) != 0)
                return -1;
        }
    }
    peer_request(&source->peer, PEER_BYE, NULL, 0);
    return 0;
}

static int reflector_source(const struct peer_channels *channels, const struct source_options *base)
{
    struct source_options options = *base;
    struct source source;
    int failed;

    options.channels = *channels;
    for (int i = 0; i < reflector.sizes.count; i++) {
        if (reflector.sizes.values[i] > options.size_max)
            options.size_max = reflector.sizes.values[i];
    }
    /* Before anything big is opened: the probe's process is a copy of this one. */
    machine_probe_as_asked(&reflector.probe, "reflector", reflector.peer_cpu);
    failed = source_open(&source, &options) != 0 || reflector_open_rows() != 0 || reflector_measure_all(&source) != 0 ||
             reflector_report(&source) != 0;
    if (!failed)
        peer_print_counters(&source.peer, "source");
    source_close(&source);
    reflector_close_rows();
    machine_probe_close(&reflector.probe);
    return failed;
}

int main(int argc, char **argv)
{
    struct source_options source = {0};
    struct echo_options echo = {0};
    struct peer_channels channels;

    options_parse(&reflector_program, argc, argv);
    reflector_check_options();
    channels = (struct peer_channels){.send = reflector.send, .receive = reflector.receive};
    if (machine_pin_as_asked("reflector", reflector.cpu) != 0)
        return 1;
    if (strcmp(reflector.role, "reflector") == 0) {
        echo.channels = channels;
        echo.keep = reflector.keep;
        reflector_find_raw(reflector.send, reflector.raw_send, &echo.raw_send);
        reflector_find_raw(reflector.receive, reflector.raw_receive, &echo.raw_receive);
        return echo_run(&echo);
    }
    reflector_find_raw(reflector.send, reflector.raw_send, &source.raw_send);
    reflector_find_raw(reflector.receive, reflector.raw_receive, &source.raw_receive);
    source.reflect_all = strcmp(reflector.reflect, "all") == 0;
    source.samples_per_s = reflector.samples_per_s;
    source.duration_ns = reflector.duration_ns;
    source.patience_ns = reflector.patience_ns;
    return reflector_source(&channels, &source);
}
