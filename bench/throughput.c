/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The throughput benchmark: the highest rate at which messages go from one host to another without loss.
 *
 * The transmitter runs on host A, the receiver on host B. The transmitter alone decides what is measured and reports it; the
 * receiver's counts come back on a channel of their own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "options.h"
#include "pump.h"
#include "report.h"
#include "sink.h"

#define THROUGHPUT_RAW_PORT_OFFSET 100
#define THROUGHPUT_WAIT_SHARE 0.005 /* of the duration: beyond it the row tells of something else too */
#define THROUGHPUT_RUNS_MAX 100

enum row_field {
    ROW_SENT,
    ROW_RECEIVED,
    ROW_LOST,
    ROW_DISORDERED,
    ROW_REPAIRED,
    ROW_WAITED_MS,
    ROW_TRIES,
    ROW_MESSAGES_PER_S,
    ROW_GBIT_PER_S,
    ROW_WIRE_SHARE,
    ROW_PACKET_BYTES,
    ROW_RAW, /* in each way, as the next */
    ROW_RATIO = ROW_RAW + RAW_WAYS,
    ROW_TRANSMITTER_MIB = ROW_RATIO + RAW_WAYS,
    ROW_RECEIVER_MIB,
    ROW_TRANSMITTER_KERNEL,
    ROW_RECEIVER_KERNEL,
    ROW_CORES_NS,
    ROW_FIELDS
};

/* A size, over all runs. */
struct row {
    uint64_t size;
    double runs[THROUGHPUT_RUNS_MAX][ROW_FIELDS];
    double result[ROW_FIELDS];
};

struct throughput {
    const char *role;
    const char *channel;
    const char *reverse;
    struct option_list sizes;
    uint64_t duration_ns;
    uint64_t messages;
    uint64_t patience_ns;
    uint64_t batch;
    uint64_t runs;
    const char *average;
    uint64_t cpu;
    uint64_t peer_cpu;
    const char *json;
    const char *network;
    const char *emulated;
    bool keep;
    const char *raw_channel;
    bool no_raw;
    struct raw_group raw;
    struct machine_probe probe;
    struct row rows[OPTION_LIST_MAX];
};

static struct throughput throughput = {
    .role = "",
    .channel = "",
    .reverse = "",
    .sizes = {.values = {45, 100, 1000}, .count = 3},
    .duration_ns = 5000000000,
    .patience_ns = 30000000000,
    .batch = 2048,
    .runs = 1,
    .average = "median",
    .cpu = MACHINE_NO_CPU,
    .peer_cpu = MACHINE_NO_CPU,
    .raw_channel = "",
    .network = "",
    .emulated = "",
};

static const struct option_spec throughput_specs[] = {
    {.name = "role", .kind = OPTION_CHOICE, .value = &throughput.role, .argument = "ROLE", .choices = "transmitter receiver",
     .help = "transmitter (measures) or receiver"},
    {.name = "channel", .kind = OPTION_TEXT, .value = &throughput.channel, .argument = "CHANNEL",
     .help = "channel that is measured; the same on both ends but for the interface"},
    {.name = "reverse", .kind = OPTION_TEXT, .value = &throughput.reverse, .argument = "CHANNEL",
     .help = "channel, of another group, on which the receiver tells what it counted"},
    {.name = "size", .kind = OPTION_LIST, .value = &throughput.sizes, .argument = "N,...", .min = 1,
     .max = 16777216, .help = "bytes of a message (45,100,1000); transmitter"},
    {.name = "duration", .kind = OPTION_SECONDS, .value = &throughput.duration_ns, .argument = "SECONDS", .min = 50000000,
     .max = 3600000000000, .help = "of each try (5); half as much again is measured bare; transmitter"},
    {.name = "messages", .kind = OPTION_NUMBER, .value = &throughput.messages, .argument = "N", .min = 1, .max = 100000000000,
     .help = "measure so many in each try; the duration is that of the bare measurement alone then; transmitter"},
    {.name = "runs", .kind = OPTION_NUMBER, .value = &throughput.runs, .argument = "N", .min = 1, .max = THROUGHPUT_RUNS_MAX,
     .help = "measure all rows so often (1); transmitter"},
    {.name = "average", .kind = OPTION_CHOICE, .value = &throughput.average, .argument = "WHICH", .choices = "median mean",
     .help = "what is reported of the runs: median (default) or mean; transmitter"},
    {.name = "batch", .kind = OPTION_NUMBER, .value = &throughput.batch, .argument = "N", .min = 1, .max = 65536,
     .help = "messages sent between two polls (2048); transmitter"},
    {.name = "wait", .kind = OPTION_SECONDS, .value = &throughput.patience_ns, .argument = "SECONDS", .min = 0,
     .max = 3600000000000, .help = "how long to wait for the receiver to be started (30); transmitter"},
    {.name = "cpu", .kind = OPTION_NUMBER, .value = &throughput.cpu, .argument = "N", .min = 0, .max = 4095,
     .help = "run on this CPU and no other; it should have nothing else to do"},
    {.name = "peer-cpu", .kind = OPTION_NUMBER, .value = &throughput.peer_cpu, .argument = "N", .min = 0, .max = 4095,
     .help = "CPU of the other end, if it is this machine: measures how near it is; transmitter"},
    {.name = "json", .kind = OPTION_TEXT, .value = &throughput.json, .argument = "FILE",
     .help = "write the result there; transmitter"},
    {.name = "network", .kind = OPTION_TEXT, .value = &throughput.network, .argument = "TEXT",
     .help = "what is between the ends, for the report; transmitter"},
    {.name = "emulated", .kind = OPTION_TEXT, .value = &throughput.emulated, .argument = "TEXT",
     .help = "what is not real, for the report; transmitter"},
    {.name = "raw-channel", .kind = OPTION_TEXT, .value = &throughput.raw_channel, .argument = "CHANNEL",
     .help = "bare datagrams go as this channel says, by another scheme or interface; both ends. An xdp:// channel has its "
             "interface for itself: bare ones need another"},
    {.name = "no-raw", .kind = OPTION_FLAG, .value = &throughput.no_raw,
     .help = "no bare measurement beside it; both ends"},
    {.name = "keep", .kind = OPTION_FLAG, .value = &throughput.keep,
     .help = "serve one transmitter after the other until killed; receiver"},
};

static const struct option_program throughput_program = {
    .name = "throughput",
    .summary = "usage: throughput --role transmitter|receiver --channel CHANNEL --reverse CHANNEL [OPTION...]\n\n"
               "Measures the highest rate at which messages go from one host to another without loss: flat out first, then,\n"
               "as long as something is lost, 10 % slower each time.",
    .examples = "On two machines, in either order:\n"
                "  B$ throughput --role receiver --channel 'udp://239.192.1.1:5001?interface=eth0' \\\n"
                "       --reverse 'udp://239.192.1.2:5002?interface=eth0' --cpu 2\n"
                "  A$ throughput --role transmitter --channel 'udp://239.192.1.1:5001?interface=eth0' \\\n"
                "       --reverse 'udp://239.192.1.2:5002?interface=eth0' --cpu 2 --size 45,1000\n\n"
                "Only bytes of the application count. Raw is a blast of full packets of bare UDP multicast in the same run,\n"
                "100 ports further (so port 5101 must be free too): with sendmmsg and recvmmsg; with segmentation, from one\n"
                "buffer that stays in the caches (seg.); and with segmentation, of messages of the row's size that are copied\n"
                "into a ring of history_bytes first, as whoever is to repair them has to keep them (kept). Of a roce://\n"
                "channel it is a blast of bare verbs, on the group whose last byte is 100 greater; no segmentation is there.\n",
    .specs = throughput_specs,
    .count = sizeof throughput_specs / sizeof throughput_specs[0],
};

/* ------------------------------------------------------------------------------------------------------------- options */

static void throughput_check_options(void)
{
    const char *bare = *throughput.raw_channel ? throughput.raw_channel : throughput.channel;
    const char *reason = "";

    if (*throughput.role == '\0')
        options_refuse(&throughput_program, "--role is missing: transmitter or receiver");
    if (*throughput.channel == '\0' || *throughput.reverse == '\0')
        options_refuse(&throughput_program, "--%s is missing: a channel such as udp://239.192.1.1:5001?interface=eth0",
                       *throughput.channel == '\0' ? "channel" : "reverse");
    if (strcmp(throughput.channel, throughput.reverse) == 0)
        options_refuse(&throughput_program, "--channel and --reverse %s: must be two different groups", throughput.channel);
    if (!throughput.no_raw &&
        raw_group_of_channel(bare, THROUGHPUT_RAW_PORT_OFFSET, &throughput.raw, &reason) < 0)
        options_refuse(&throughput_program, "%s cannot be measured bare: %s. Mend that, or give --no-raw on both ends",
                       bare, reason);
}

/* ---------------------------------------------------------------------------------------------------------------- rows */

static void throughput_fill_run(double *run, uint64_t size, const struct pump_result *result)
{
    run[ROW_SENT] = (double)result->sent;
    run[ROW_RECEIVED] = (double)result->received;
    run[ROW_LOST] = (double)result->lost;
    run[ROW_DISORDERED] = (double)result->disordered;
    run[ROW_REPAIRED] = (double)result->repaired_packets;
    run[ROW_WAITED_MS] = (double)result->waited_ns / 1e6;
    run[ROW_TRIES] = result->tries;
    run[ROW_MESSAGES_PER_S] = result->messages_per_s;
    run[ROW_GBIT_PER_S] = result->messages_per_s * (double)size * 8 / 1e9;
    run[ROW_WIRE_SHARE] = result->wire_share;
    run[ROW_PACKET_BYTES] = result->packet_bytes_mean;
    for (int way = 0; way < RAW_WAYS; way++) {
        run[ROW_RAW + way] = result->raw_gbit_per_s[way];
        run[ROW_RATIO + way] = run[ROW_GBIT_PER_S] / result->raw_gbit_per_s[way];
    }
    run[ROW_TRANSMITTER_MIB] = result->transmitter_mib;
    run[ROW_RECEIVER_MIB] = result->receiver_mib;
    run[ROW_TRANSMITTER_KERNEL] = result->transmitter_kernel;
    run[ROW_RECEIVER_KERNEL] = result->receiver_kernel;
}

static int throughput_measure_all(struct pump *pump)
{
    for (uint64_t i = 0; i < throughput.runs; i++) {
        for (int j = 0; j < throughput.sizes.count; j++) {
            struct row *row = &throughput.rows[j];
            struct pump_result result;

            row->size = throughput.sizes.values[j];
            fprintf(stderr, "%" PRIu64 " B", row->size);
            if (throughput.runs > 1)
                fprintf(stderr, ", run %" PRIu64 " of %" PRIu64, i + 1, throughput.runs);
            fprintf(stderr, "\n");
            row->runs[i][ROW_CORES_NS] = machine_probe_run(&throughput.probe);
            if (pump_measure(pump, row->size, &result) != 0)
                return -1;
            throughput_fill_run(row->runs[i], row->size, &result);
        }
    }
    peer_request(&pump->peer, PEER_BYE, NULL, 0);
    return 0;
}

/* Medians or means over the runs. A loss in any run is a loss, though: of those the worst is reported. */
static void throughput_conclude(struct row *row)
{
    bool mean = strcmp(throughput.average, "mean") == 0;
    double values[THROUGHPUT_RUNS_MAX];

    for (int field = 0; field < ROW_FIELDS; field++) {
        double average;

        for (uint64_t i = 0; i < throughput.runs; i++)
            values[i] = row->runs[i][field];
        average = report_mean(values, (int)throughput.runs);
        row->result[field] = report_median(values, (int)throughput.runs);
        if (field == ROW_LOST || field == ROW_DISORDERED)
            row->result[field] = values[throughput.runs - 1];
        else if (mean)
            row->result[field] = average;
    }
}

/* Of what was measured, as the result says. */
static double throughput_row_ms(const struct row *row)
{
    if (throughput.messages == 0)
        return (double)throughput.duration_ns / 1e6;
    return (double)throughput.messages * 1e3 / row->result[ROW_MESSAGES_PER_S];
}

/* -------------------------------------------------------------------------------------------------------------- report */

static void throughput_print_number(double number, int width, int decimals)
{
    if (isnan(number))
        printf(" %*s", width, "-");
    else
        printf(" %*.*f", width, decimals, number);
}

static void throughput_print_row(const struct row *row)
{
    const double *result = row->result;

    printf("%7" PRIu64, row->size);
    throughput_print_number(result[ROW_MESSAGES_PER_S], 10, 0);
    throughput_print_number(result[ROW_GBIT_PER_S], 8, 3);
    throughput_print_number(result[ROW_WIRE_SHARE] * 100, 6, 1);
    throughput_print_number(result[ROW_LOST], 6, 0);
    throughput_print_number(result[ROW_REPAIRED], 8, 0);
    throughput_print_number(result[ROW_TRIES], 5, 0);
    for (int way = 0; way < RAW_WAYS; way++) {
        throughput_print_number(result[ROW_RAW + way], 8, 3);
        throughput_print_number(result[ROW_RATIO + way], 6, 2);
    }
    throughput_print_number(result[ROW_TRANSMITTER_MIB], 11, 1);
    throughput_print_number(result[ROW_RECEIVER_MIB], 8, 1);
    if (result[ROW_CORES_NS] > 0)
        throughput_print_number(result[ROW_CORES_NS], 5, 0);
    printf("\n");
}

static void throughput_print_notes(const struct row *row)
{
    if (row->result[ROW_DISORDERED] > 0)
        printf("! %" PRIu64 " B: %.0f messages came out of order or twice\n", row->size, row->result[ROW_DISORDERED]);
    if (row->result[ROW_WAITED_MS] > THROUGHPUT_WAIT_SHARE * throughput_row_ms(row))
        printf("~ %" PRIu64 " B: the ends waited %.1f ms for their cores; something else runs there\n", row->size,
               row->result[ROW_WAITED_MS]);
}

static void throughput_print(const struct report_setting *setting)
{
    report_print_machine(setting);
    printf("channel   %s, reports back on %s\n", throughput.channel, throughput.reverse);
    printf("measured  bytes of the application one way, ");
    if (throughput.messages > 0)
        printf("%" PRIu64 " messages a row", throughput.messages);
    else
        printf("%g s a row", (double)throughput.duration_ns / 1e9);
    if (throughput.runs > 1)
        printf("; %ss of %" PRIu64 " runs, the worst of lost", throughput.average, throughput.runs);
    printf("\n\n");
    printf("%7s %10s %8s %6s %6s %8s %5s %8s %6s %8s %6s %8s %6s %11s %8s %5s\n", "", "", "", "wire", "", "packets", "", "raw",
           "ratio", "raw seg.", "ratio", "raw kept", "ratio", "transmitter", "receiver", "cores");
    printf("%7s %10s %8s %6s %6s %8s %5s %8s %6s %8s %6s %8s %6s %11s %8s %5s\n", "size", "msg/s", "Gbit/s", "%", "lost",
           "repaired", "tries", "Gbit/s", "", "Gbit/s", "", "Gbit/s", "", "MiB", "MiB", "ns");
    for (int i = 0; i < throughput.sizes.count; i++)
        throughput_print_row(&throughput.rows[i]);
    for (int i = 0; i < throughput.sizes.count; i++)
        throughput_print_notes(&throughput.rows[i]);
    printf("\n");
}

static void throughput_json_row(struct report_json *json, const struct row *row)
{
    const double *result = row->result;
    char transport[32];

    snprintf(transport, sizeof transport, "%.*s", (int)strcspn(throughput.channel, ":"), throughput.channel);
    report_json_begin(json, NULL, '{');
    report_json_text(json, "transport", transport);
    report_json_number(json, "size_bytes", (double)row->size, 0);
    report_json_number(json, "duration_s", throughput.messages > 0 ? NAN : (double)throughput.duration_ns / 1e9, 3);
    report_json_number(json, "messages", throughput.messages > 0 ? (double)throughput.messages : NAN, 0);
    report_json_number(json, "runs", (double)throughput.runs, 0);
    report_json_text(json, "average", throughput.average);
    report_json_number(json, "sent", result[ROW_SENT], 0);
    report_json_number(json, "received", result[ROW_RECEIVED], 0);
    report_json_number(json, "lost", result[ROW_LOST], 0);
    report_json_number(json, "repaired_packets", result[ROW_REPAIRED], 0);
    report_json_number(json, "tries", result[ROW_TRIES], 0);
    report_json_number(json, "msgs_per_s", result[ROW_MESSAGES_PER_S], 0);
    report_json_number(json, "payload_gbit_per_s", result[ROW_GBIT_PER_S], 4);
    report_json_number(json, "wire_share", result[ROW_WIRE_SHARE], 4);
    report_json_number(json, "packet_bytes_mean", result[ROW_PACKET_BYTES], 1);
    report_json_number(json, "raw_gbit_per_s", result[ROW_RAW], 4);
    report_json_number(json, "ratio_to_raw", result[ROW_RATIO], 4);
    report_json_number(json, "raw_segmented_gbit_per_s", result[ROW_RAW + RAW_TRAINS], 4);
    report_json_number(json, "ratio_to_raw_segmented", result[ROW_RATIO + RAW_TRAINS], 4);
    report_json_number(json, "raw_kept_gbit_per_s", result[ROW_RAW + RAW_KEPT], 4);
    report_json_number(json, "ratio_to_raw_kept", result[ROW_RATIO + RAW_KEPT], 4);
    report_json_begin(json, "rss_mib", '{');
    report_json_number(json, "transmitter", result[ROW_TRANSMITTER_MIB], 1);
    report_json_number(json, "receiver", result[ROW_RECEIVER_MIB], 1);
    report_json_end(json, '}');
    report_json_begin(json, "kernel_share", '{');
    report_json_number(json, "transmitter", result[ROW_TRANSMITTER_KERNEL], 4);
    report_json_number(json, "receiver", result[ROW_RECEIVER_KERNEL], 4);
    report_json_end(json, '}');
    report_json_number(json, "core_wait_ms", result[ROW_WAITED_MS], 3);
    report_json_number(json, "core_to_core_ns", result[ROW_CORES_NS] > 0 ? result[ROW_CORES_NS] : NAN, 1);
    report_json_end(json, '}');
}

static int throughput_write_json(const struct report_setting *setting)
{
    struct report_json json;

    if (!throughput.json)
        return 0;
    if (report_json_open(&json, throughput.json) == 0) {
        report_json_text(&json, "benchmark", "throughput");
        report_json_machine(&json, setting);
        report_json_begin(&json, "rows", '[');
        for (int i = 0; i < throughput.sizes.count; i++)
            throughput_json_row(&json, &throughput.rows[i]);
        report_json_end(&json, ']');
        if (report_json_close(&json) == 0)
            return 0;
    }
    fprintf(stderr, "throughput: cannot write %s: %s\n", throughput.json, strerror(errno));
    return -1;
}

static int throughput_report(const struct pump *pump)
{
    struct report_setting setting = {.peer = pump->peer.machine, .network = throughput.network, .emulated = throughput.emulated};
    double cores[OPTION_LIST_MAX];

    machine_describe(&setting.machine);
    for (int i = 0; i < throughput.sizes.count; i++) {
        throughput_conclude(&throughput.rows[i]);
        cores[i] = throughput.rows[i].result[ROW_CORES_NS];
    }
    setting.cores_ns = report_median(cores, throughput.sizes.count);
    throughput_print(&setting);
    return throughput_write_json(&setting);
}

/* --------------------------------------------------------------------------------------------------------------- roles */

/* The reverse channel carries a few reports; at the default sizes its memory would be counted as the measured channel's. */
static void throughput_make_small(struct llm_options *options)
{
    llm_options_init(options);
    options->history_bytes = 262144;
    options->history_packets = 128;
    options->window_packets = 64;
    options->reorder_bytes = 262144;
    options->topics_max = 16;
    options->receivers_max = 16;
    options->message_bytes_max = 4096;
    /* Channels that share an interface by AF_XDP share its sockets, and so agree in their buffers. */
    if (strncmp(throughput.channel, "xdp://", strlen("xdp://")) != 0)
        options->rcvbuf_bytes = 1048576;
}

static int throughput_transmitter(const struct llm_options *small)
{
    struct pump_options options = {.channels = {.send = throughput.channel, .receive = throughput.reverse,
                                                .receive_options = small},
                                   .raw = throughput.raw,
                                   .header_bytes = raw_header_bytes(throughput.channel),
                                   .duration_ns = throughput.duration_ns,
                                   .messages = throughput.messages,
                                   .batch = throughput.batch,
                                   .patience_ns = throughput.patience_ns};
    struct pump pump;
    int failed;

    for (int i = 0; i < throughput.sizes.count; i++) {
        if (throughput.sizes.values[i] > options.size_max)
            options.size_max = throughput.sizes.values[i];
    }
    machine_probe_as_asked(&throughput.probe, "throughput", throughput.peer_cpu);
    failed = pump_open(&pump, &options) != 0 || throughput_measure_all(&pump) != 0 || throughput_report(&pump) != 0;
    if (!failed)
        peer_print_counters(&pump.peer, "transmitter");
    pump_close(&pump);
    machine_probe_close(&throughput.probe);
    return failed;
}

static int throughput_receiver(const struct llm_options *small)
{
    struct sink_options options = {.channels = {.send = throughput.reverse, .receive = throughput.channel,
                                                .send_options = small},
                                   .raw = throughput.raw,
                                   .keep = throughput.keep};

    return sink_run(&options);
}

int main(int argc, char **argv)
{
    struct llm_options small;

    options_parse(&throughput_program, argc, argv);
    throughput_check_options();
    throughput_make_small(&small);
    if (machine_pin_as_asked("throughput", throughput.cpu) != 0)
        return 1;
    return strcmp(throughput.role, "receiver") == 0 ? throughput_receiver(&small) : throughput_transmitter(&small);
}
