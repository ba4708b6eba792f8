/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a request takes over a connection until its reply is there, at steady rates and flat out, beside bare UDP from one
 * host to the other and back in the same run.
 */
#define _GNU_SOURCE
#include "requests.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <llm/llm.h>

#include "machine.h"
#include "options.h"
#include "report.h"

#define ASK_BLOCK_NS 500000000ull  /* of the library, then half as long bare, and again */
#define ASK_WARMUP_NS 50000000ull  /* before each block */
#define ASK_LEAD_NS 100000ull
#define ASK_GRACE_NS 50000000ull   /* a block that is later than this has not reached its rate, and is ended */
#define ASK_PATIENCE_NS 1000000000ull /* with a reply */
#define ASK_RAW_GRACE_NS 5000000ull
#define ASK_RAW_LOST_NS 20000000ull   /* bare, flat out: what has not come back by then is lost */
#define ASK_RAW_RATE_MAX 20000        /* a datagram there and one back each keep up so far */
#define ASK_SAMPLES_PER_S 1000000ull  /* at most */
#define ASK_BURST 256                 /* overdue requests between two polls */
#define ASK_ENDS 3

enum row_field {
    ROW_SENT,
    ROW_ANSWERED,
    ROW_LOST, /* unanswered, or the reply refused */
    ROW_WAITED_MS,
    ROW_SAMPLES,
    ROW_REACHED,
    ROW_MEDIAN, /* from here on in the order of struct histogram_summary */
    ROW_MEAN,
    ROW_P99,
    ROW_P99_9,
    ROW_P99_99,
    ROW_MAX,
    ROW_STD,
    ROW_RAW_REACHED,
    ROW_RAW_MEDIAN,
    ROW_RAW_P99,
    ROW_RATIO,
    ROW_RATIO_P99,
    ROW_CORES_NS,
    ROW_FIELDS
};

struct row {
    uint64_t size;
    uint64_t rate; /* 0: flat out */
    double (*runs)[ROW_FIELDS];
    double result[ROW_FIELDS];
    struct histogram rtt; /* of all runs */
    struct histogram raw;
};

/* Message i is due at start + i * interval; the first so many warm up. */
struct schedule {
    uint64_t start;
    double interval_ns;
    uint64_t total;
    uint64_t warmup;
};

struct asker {
    struct llm_context *context;
    struct llm_connection *connection;
    bool connected;
    bool over;
    bool waits;              /* for a reply to what is no measurement ... */
    char answer[256];        /* ... which is this */
    size_t answer_size;
    char machine[256];       /* of the other end */
    int raw;                 /* socket, -1: none */
    uint8_t *message;
    uint64_t outstanding;
    uint64_t answered;       /* that were measured, in the row, as the next */
    uint64_t unanswered;
    uint64_t sent;
    uint64_t refused;
    uint64_t waited_ns;
    double reached;          /* of its slowest block; flat out the mean */
    double raw_reached;
    struct histogram rtt;    /* of the row in this run */
    struct histogram rtt_raw;
};

static const char *ask_role = "", *ask_channel = "", *ask_json, *ask_hgrm, *ask_network = "";
static struct option_list ask_sizes = {.values = {45}, .count = 1}, ask_rates = {.values = {10000}, .count = 1};
static uint64_t ask_duration = 5000000000, ask_runs = 1, ask_cpu = MACHINE_NO_CPU, ask_peer_cpu = MACHINE_NO_CPU;
static uint64_t ask_most = 256, ask_wait = 30000000000;
static bool ask_keep, ask_no_raw;
static struct row *ask_rows;
static int ask_row_count;

/* ---------------------------------------------------------------------------------------------------------- requests */

static void on_answer(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    struct asker *asker = arg;

    asker->waits = false;
    asker->answer_size = reason == LLM_REASON_NONE && size < sizeof asker->answer ? size : 0;
    if (asker->answer_size > 0)
        memcpy(asker->answer, data, asker->answer_size);
    asker->answer[asker->answer_size] = '\0';
    asker->over |= reason != LLM_REASON_NONE;
}

/* Asks something that is not measured, and waits. -1: there is no reply. */
static int ask_control(struct asker *asker, enum requests_kind kind)
{
    const struct requests_head head = {.kind = kind};
    int error;

    asker->waits = true;
    while ((error = llm_request(asker->connection, &head, sizeof head, 10 * ASK_PATIENCE_NS, on_answer, asker)) == LLM_EAGAIN)
        (void)llm_poll(asker->context);
    while (error == LLM_OK && asker->waits && !asker->over)
        (void)llm_poll(asker->context);
    if (error == LLM_OK && !asker->over)
        return 0;
    (void)fprintf(stderr, "requests: the other end does not answer any more\n");
    return -1;
}

static void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    struct asker *asker = arg;
    struct requests_head head;

    asker->outstanding--;
    if (reason != LLM_REASON_NONE || size < sizeof head) {
        asker->unanswered++;
        return;
    }
    memcpy(&head, data, sizeof head);
    if (head.kind != REQUESTS_DATA)
        return;
    asker->answered++;
    if (head.due_at != 0)
        histogram_add(&asker->rtt, llm_clock() - head.due_at);
}

/* False if the library does not take it now. */
static bool ask_send(struct asker *asker, size_t size, bool measured, uint64_t due_at)
{
    const struct requests_head head = {.due_at = due_at, .kind = measured ? REQUESTS_DATA : REQUESTS_WARMUP};

    memcpy(asker->message, &head, sizeof head);
    if (llm_request(asker->connection, asker->message, size, ASK_PATIENCE_NS, on_reply, asker) != LLM_OK)
        return false;
    asker->outstanding++;
    asker->sent += measured;
    return true;
}

static uint64_t schedule_due(const struct schedule *schedule, uint64_t i)
{
    return schedule->start + (uint64_t)((double)i * schedule->interval_ns);
}

static struct schedule schedule_plan(uint64_t rate, uint64_t duration_ns)
{
    const uint64_t warmup = (uint64_t)((double)rate * (double)ASK_WARMUP_NS / 1e9) + 1;

    return (struct schedule){.start = llm_clock() + ASK_LEAD_NS,
                             .interval_ns = 1e9 / (double)rate,
                             .total = warmup + (uint64_t)((double)rate * (double)duration_ns / 1e9 + 0.5),
                             .warmup = warmup};
}

/* The rate of a block that was to have this one. */
static void ask_reach(double *reached, double rate)
{
    if (*reached == 0 || rate < *reached)
        *reached = rate;
}

/* Sends what is due, polls, and so on. */
static void ask_stream(struct asker *asker, size_t size, uint64_t rate, uint64_t duration_ns)
{
    const struct schedule schedule = schedule_plan(rate, duration_ns);
    const uint64_t give_up_at = schedule_due(&schedule, schedule.total) + ASK_GRACE_NS;
    const uint64_t stamp_every = rate / ASK_SAMPLES_PER_S + 1;
    uint64_t i = 0;

    while (i < schedule.total && !asker->over) {
        const uint64_t now = llm_clock();

        for (int burst = 0; burst < ASK_BURST && i < schedule.total && schedule_due(&schedule, i) <= now; burst++, i++)
            if (!ask_send(asker, size, i >= schedule.warmup, i % stamp_every == 0 ? schedule_due(&schedule, i) : 0))
                break;
        (void)llm_poll(asker->context);
        if (now > give_up_at)
            break;
    }
    ask_reach(&asker->reached, i == schedule.total ? (double)rate : (double)i * 1e9 / (double)(llm_clock() - schedule.start));
}

/* As many as may be outstanding, at once and whenever replies have come. */
static void ask_flood(struct asker *asker, size_t size, uint64_t duration_ns)
{
    const uint64_t measured_at = llm_clock() + ASK_WARMUP_NS;
    const uint64_t before = asker->answered;
    uint64_t now;

    while ((now = llm_clock()) < measured_at + duration_ns && !asker->over) {
        while (asker->outstanding < ask_most && ask_send(asker, size, now >= measured_at, now))
            now = llm_clock();
        (void)llm_poll(asker->context);
    }
    asker->reached += (double)(asker->answered - before) * 1e9 / (double)(now - measured_at);
}

static int ask_block(struct asker *asker, const struct row *row, uint64_t duration_ns)
{
    struct requests_result result;

    if (ask_control(asker, REQUESTS_START) != 0)
        return -1;
    if (row->rate > 0)
        ask_stream(asker, row->size, row->rate, duration_ns);
    else
        ask_flood(asker, row->size, duration_ns);
    while (asker->outstanding > 0 && !asker->over)
        (void)llm_poll(asker->context);
    if (ask_control(asker, REQUESTS_END) != 0)
        return -1;
    memcpy(&result, asker->answer, sizeof result);
    asker->refused += result.refused;
    asker->waited_ns += result.waited_ns;
    return 0;
}

/* --------------------------------------------------------------------------------------------------------------- raw */

/* Takes a datagram, if there is one. */
static bool ask_raw_receive(struct asker *asker, bool flood)
{
    uint8_t data[65536];
    struct requests_head head;

    if (recv(asker->raw, data, sizeof data, 0) < (ssize_t)sizeof head)
        return false;
    memcpy(&head, data, sizeof head);
    asker->outstanding -= flood && asker->outstanding > 0;
    if (head.kind == REQUESTS_DATA && head.due_at != 0)
        histogram_add(&asker->rtt_raw, llm_clock() - head.due_at);
    return true;
}

static bool ask_raw_send(struct asker *asker, size_t size, enum requests_kind kind, uint64_t due_at)
{
    const struct requests_head head = {.due_at = due_at, .kind = (uint32_t)kind};

    memcpy(asker->message, &head, sizeof head);
    return send(asker->raw, asker->message, size, 0) == (ssize_t)size;
}

/* The same loop as ask_stream(), with bare datagrams in the library's place. */
static void ask_raw_stream(struct asker *asker, size_t size, uint64_t rate, uint64_t duration_ns)
{
    const struct schedule schedule = schedule_plan(rate, duration_ns);
    const uint64_t end = schedule_due(&schedule, schedule.total) + ASK_RAW_GRACE_NS;
    uint64_t i = 0, now;

    while ((now = llm_clock()) < end) {
        const uint64_t due_at = schedule_due(&schedule, i);

        if (i < schedule.total && due_at <= now &&
            ask_raw_send(asker, size, i < schedule.warmup ? REQUESTS_WARMUP : REQUESTS_DATA, due_at))
            i++;
        (void)ask_raw_receive(asker, false);
    }
    ask_reach(&asker->raw_reached, (double)rate);
}

static void ask_raw_flood(struct asker *asker, size_t size, uint64_t duration_ns)
{
    const uint64_t measured_at = llm_clock() + ASK_WARMUP_NS;
    uint64_t now, heard_at = measured_at, count = 0;

    while ((now = llm_clock()) < measured_at + duration_ns) {
        const enum requests_kind kind = now < measured_at ? REQUESTS_WARMUP : REQUESTS_DATA;

        for (; asker->outstanding < ask_most && ask_raw_send(asker, size, kind, now); now = llm_clock())
            asker->outstanding++;
        while (ask_raw_receive(asker, true)) {
            heard_at = now;
            count += now >= measured_at;
        }
        if (now > heard_at + ASK_RAW_LOST_NS)
            asker->outstanding = 0;
    }
    asker->outstanding = 0;
    asker->raw_reached += (double)count * 1e9 / (double)(now - measured_at);
}

static int ask_raw_block(struct asker *asker, const struct row *row, uint64_t duration_ns)
{
    if (asker->raw < 0)
        return 0;
    while (ask_raw_receive(asker, false))
        continue;
    if (ask_control(asker, REQUESTS_RAW) != 0)
        return -1;
    if (row->rate > 0)
        ask_raw_stream(asker, row->size, row->rate < ASK_RAW_RATE_MAX ? row->rate : ASK_RAW_RATE_MAX, duration_ns);
    else
        ask_raw_flood(asker, row->size, duration_ns);
    /* Who misses them goes on when it hears nothing more. */
    for (int i = 0; i < ASK_ENDS; i++)
        (void)ask_raw_send(asker, sizeof(struct requests_head), REQUESTS_RAW_END, 0);
    return 0;
}

/* -------------------------------------------------------------------------------------------------------------- rows */

static void ask_conclude_run(const struct asker *asker, double *run, uint64_t blocks, bool flood)
{
    const struct histogram_summary rtt = histogram_summarize(&asker->rtt, 1), raw = histogram_summarize(&asker->rtt_raw, 1);
    const bool has_raw = asker->rtt_raw.count > 0;

    run[ROW_SENT] = (double)asker->sent;
    run[ROW_ANSWERED] = (double)asker->answered;
    run[ROW_LOST] = (double)(asker->unanswered + asker->refused);
    run[ROW_WAITED_MS] = (double)asker->waited_ns / 1e6;
    run[ROW_SAMPLES] = (double)asker->rtt.count;
    run[ROW_REACHED] = flood ? asker->reached / (double)blocks : asker->reached;
    memcpy(&run[ROW_MEDIAN], &rtt, sizeof rtt);
    run[ROW_RAW_REACHED] = !has_raw ? (double)NAN : flood ? asker->raw_reached / (double)blocks : asker->raw_reached;
    run[ROW_RAW_MEDIAN] = has_raw ? raw.median : (double)NAN;
    run[ROW_RAW_P99] = has_raw ? raw.p99 : (double)NAN;
    run[ROW_RATIO] = has_raw ? rtt.median / raw.median : (double)NAN;
    run[ROW_RATIO_P99] = has_raw ? rtt.p99 / raw.p99 : (double)NAN;
}

static int ask_measure(struct asker *asker, struct machine_probe *probe, struct row *row, uint64_t which)
{
    const uint64_t blocks = ask_duration > ASK_BLOCK_NS ? ask_duration / ASK_BLOCK_NS : 1;
    const uint64_t waited_ns = machine_waited_ns();
    double *run = row->runs[which];

    (void)fprintf(stderr, "%" PRIu64 " B at %" PRIu64 " requests/s\n", row->size, row->rate);
    run[ROW_CORES_NS] = machine_probe_run(probe);
    asker->rtt.count = asker->rtt_raw.count = 0;
    asker->answered = asker->unanswered = asker->sent = asker->refused = asker->waited_ns = 0;
    asker->reached = asker->raw_reached = 0;
    for (uint64_t i = 0; i < blocks; i++)
        if (ask_raw_block(asker, row, ask_duration / blocks / 2) != 0 || ask_block(asker, row, ask_duration / blocks) != 0)
            return -1;
    asker->waited_ns += machine_waited_ns() - waited_ns;
    histogram_sort(&asker->rtt);
    histogram_sort(&asker->rtt_raw);
    ask_conclude_run(asker, run, blocks, row->rate == 0);
    histogram_add_all(&row->rtt, &asker->rtt);
    histogram_add_all(&row->raw, &asker->rtt_raw);
    return 0;
}

static size_t ask_samples(uint64_t rate)
{
    const uint64_t most = rate == 0 || rate > ASK_SAMPLES_PER_S ? ASK_SAMPLES_PER_S : rate;

    return (size_t)((double)ask_duration / 1e9 * (double)most) + 1024;
}

static int ask_open_rows(struct asker *asker)
{
    size_t most = 0;
    uint64_t size_max = sizeof(struct requests_head);

    ask_row_count = ask_sizes.count * ask_rates.count;
    ask_rows = calloc((size_t)ask_row_count, sizeof *ask_rows);
    for (int i = 0; ask_rows != NULL && i < ask_row_count; i++) {
        struct row *row = &ask_rows[i];
        size_t samples;

        row->size = ask_sizes.values[i / ask_rates.count];
        row->rate = ask_rates.values[i % ask_rates.count];
        samples = ask_samples(row->rate);
        most = samples > most ? samples : most;
        size_max = row->size > size_max ? row->size : size_max;
        row->runs = calloc(ask_runs, sizeof *row->runs);
        if (row->runs == NULL || histogram_init(&row->rtt, samples * ask_runs) != 0 ||
            histogram_init(&row->raw, samples * ask_runs) != 0)
            return -1;
    }
    asker->message = calloc(1, size_max);
    return ask_rows != NULL && asker->message != NULL && histogram_init(&asker->rtt, most) == 0 &&
                   histogram_init(&asker->rtt_raw, most) == 0 ? 0 : -1;
}

static void ask_close_rows(struct asker *asker)
{
    for (int i = 0; ask_rows != NULL && i < ask_row_count; i++) {
        free(ask_rows[i].runs);
        histogram_fini(&ask_rows[i].rtt);
        histogram_fini(&ask_rows[i].raw);
    }
    free(ask_rows);
    free(asker->message);
    histogram_fini(&asker->rtt);
    histogram_fini(&asker->rtt_raw);
}

/* ------------------------------------------------------------------------------------------------------------ report */

/* Medians over the runs; of what must not happen the worst. */
static void ask_conclude(struct row *row)
{
    double values[100];

    for (int field = 0; field < ROW_FIELDS; field++) {
        for (uint64_t i = 0; i < ask_runs; i++)
            values[i] = row->runs[i][field];
        row->result[field] = report_median(values, (int)ask_runs);
        if (field == ROW_LOST)
            row->result[field] = values[ask_runs - 1];
    }
    histogram_sort(&row->rtt);
    histogram_sort(&row->raw);
}

static void ask_print_number(double number, int width, int decimals)
{
    if (isnan(number))
        (void)printf(" %*s", width, "-");
    else
        (void)printf(" %*.*f", width, decimals, number);
}

static void ask_print_row(const struct row *row)
{
    const double *result = row->result;

    if (row->rate == 0)
        (void)printf("%9s", "flat out");
    else
        (void)printf("%8" PRIu64 "%s", row->rate, result[ROW_REACHED] >= 0.99 * (double)row->rate ? " " : "*");
    (void)printf(" %5" PRIu64, row->size);
    for (int field = ROW_MEDIAN; field <= ROW_STD; field++)
        ask_print_number(result[field], 8, 2);
    ask_print_number(result[ROW_LOST], 6, 0);
    ask_print_number(result[ROW_RAW_MEDIAN], 8, 2);
    ask_print_number(result[ROW_RAW_P99], 8, 2);
    ask_print_number(result[ROW_RATIO], 6, 2);
    ask_print_number(result[ROW_RATIO_P99], 6, 2);
    ask_print_number(result[ROW_REACHED], 10, 0);
    ask_print_number(result[ROW_RAW_REACHED], 10, 0);
    (void)printf("\n");
}

static void ask_print_notes(const struct row *row)
{
    if (row->rate > 0 && row->result[ROW_REACHED] < 0.99 * (double)row->rate)
        (void)printf("* %" PRIu64 " B at %" PRIu64 " requests/s: reached only %.0f\n", row->size, row->rate,
                     row->result[ROW_REACHED]);
    if (row->result[ROW_WAITED_MS] > 0.005 * (double)ask_duration / 1e6)
        (void)printf("~ %" PRIu64 " B at %" PRIu64 " requests/s: the ends waited %.1f ms for their cores; something else runs "
                     "there\n", row->size, row->rate, row->result[ROW_WAITED_MS]);
}

static void ask_print(const struct report_setting *setting)
{
    report_print_machine(setting);
    (void)printf("channel   %s\n", ask_channel);
    (void)printf("measured  from when a request was due to its reply, in us; %g s a row; flat out: %" PRIu64 " wait;\n"
                 "          raw is bare UDP there and back%s", (double)ask_duration / 1e9, ask_most,
                 ask_no_raw ? ", not measured" : ", at most 20,000 a second where there is a rate");
    (void)printf(ask_runs > 1 ? "; medians of %" PRIu64 " runs, the worst of lost\n\n" : "\n\n", ask_runs);
    (void)printf("%8s  %5s %8s %8s %8s %8s %8s %8s %8s %6s %8s %8s %6s %6s %10s %10s\n", "", "", "", "", "", "", "", "", "", "",
                 "raw", "raw", "ratio", "ratio", "requests", "raw");
    (void)printf("%8s  %5s %8s %8s %8s %8s %8s %8s %8s %6s %8s %8s %6s %6s %10s %10s\n", "rate", "size", "median", "mean",
                 "p99", "p99.9", "p99.99", "max", "std", "lost", "median", "p99", "median", "p99", "/s", "/s");
    for (int i = 0; i < ask_row_count; i++)
        ask_print_row(&ask_rows[i]);
    for (int i = 0; i < ask_row_count; i++)
        ask_print_notes(&ask_rows[i]);
    (void)printf("\n");
}

static void ask_json_row(struct report_json *json, const struct row *row)
{
    const double *result = row->result;
    struct histogram_summary rtt;
    char transport[32];

    memcpy(&rtt, &result[ROW_MEDIAN], sizeof rtt);
    (void)snprintf(transport, sizeof transport, "%.*s", (int)strcspn(ask_channel, ":"), ask_channel);
    report_json_begin(json, NULL, '{');
    report_json_text(json, "transport", transport);
    report_json_number(json, "size_bytes", (double)row->size, 0);
    report_json_number(json, "rate_requests_per_s", row->rate > 0 ? (double)row->rate : (double)NAN, 0);
    report_json_number(json, "outstanding_max", row->rate > 0 ? (double)NAN : (double)ask_most, 0);
    report_json_number(json, "duration_s", (double)ask_duration / 1e9, 3);
    report_json_number(json, "sent", result[ROW_SENT], 0);
    report_json_number(json, "received", result[ROW_ANSWERED], 0);
    report_json_number(json, "lost", result[ROW_LOST], 0);
    report_json_number(json, "samples", result[ROW_SAMPLES], 0);
    report_json_summary(json, "rtt_us", &rtt);
    report_json_begin(json, "raw_rtt_us", '{');
    report_json_number(json, "median", result[ROW_RAW_MEDIAN], 3);
    report_json_number(json, "p99", result[ROW_RAW_P99], 3);
    report_json_end(json, '}');
    report_json_number(json, "ratio_to_raw", result[ROW_RATIO], 3);
    report_json_number(json, "p99_ratio_to_raw", result[ROW_RATIO_P99], 3);
    report_json_number(json, "requests_per_s", result[ROW_REACHED], 0);
    report_json_number(json, "raw_requests_per_s", result[ROW_RAW_REACHED], 0);
    report_json_number(json, "core_wait_ms", result[ROW_WAITED_MS], 3);
    report_json_number(json, "core_to_core_ns", result[ROW_CORES_NS] > 0 ? result[ROW_CORES_NS] : (double)NAN, 1);
    report_json_end(json, '}');
}

static int ask_write_json(const struct report_setting *setting)
{
    struct report_json json;

    if (ask_json == NULL)
        return 0;
    if (report_json_open(&json, ask_json) == 0) {
        report_json_text(&json, "benchmark", "requests");
        report_json_machine(&json, setting);
        report_json_begin(&json, "rows", '[');
        for (int i = 0; i < ask_row_count; i++)
            ask_json_row(&json, &ask_rows[i]);
        report_json_end(&json, ']');
        if (report_json_close(&json) == 0)
            return 0;
    }
    (void)fprintf(stderr, "requests: cannot write %s: %s\n", ask_json, strerror(errno));
    return -1;
}

static int ask_write_histogram(const struct row *row, const struct histogram *histogram, const char *kind)
{
    char path[4096];

    if (ask_hgrm == NULL || histogram->count == 0)
        return 0;
    (void)snprintf(path, sizeof path, "%s/requests-%" PRIu64 "B-%" PRIu64 "%s.hgrm", ask_hgrm, row->size, row->rate, kind);
    if (histogram_write(histogram, 1, path) == 0)
        return 0;
    (void)fprintf(stderr, "requests: cannot write %s: %s\n", path, strerror(errno));
    return -1;
}

static int ask_report(const struct asker *asker)
{
    struct report_setting setting = {.network = ask_network, .emulated = "", .peer = asker->machine};
    double *cores = calloc((size_t)ask_row_count, sizeof *cores);
    int failed = 0;

    machine_describe(&setting.machine);
    for (int i = 0; i < ask_row_count; i++) {
        ask_conclude(&ask_rows[i]);
        if (cores != NULL)
            cores[i] = ask_rows[i].result[ROW_CORES_NS];
    }
    setting.cores_ns = cores != NULL ? report_median(cores, ask_row_count) : 0;
    free(cores);
    ask_print(&setting);
    for (int i = 0; i < ask_row_count; i++) {
        failed |= ask_write_histogram(&ask_rows[i], &ask_rows[i].rtt, "");
        failed |= ask_write_histogram(&ask_rows[i], &ask_rows[i].raw, "-raw");
    }
    return failed | ask_write_json(&setting);
}

/* ------------------------------------------------------------------------------------------------------------- roles */

static void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct asker *asker = arg;

    (void)connection;
    asker->connected |= event->kind == LLM_EVENT_CONNECTED;
    if (event->kind != LLM_EVENT_DISCONNECTED)
        return;
    asker->over = true;
    (void)fprintf(stderr, "requests: %s: %s\n", ask_channel, llm_reason_name(event->reason));
}

static int ask_connect(struct asker *asker)
{
    struct llm_connection_handlers handlers;
    struct llm_options options;
    int error = llm_context_open(NULL, &asker->context);

    llm_connection_options_init(&options);
    options.connect_timeout_ns = ask_wait;
    llm_connection_handlers_init(&handlers);
    handlers.arg = asker;
    handlers.event = on_event;
    if (error == LLM_OK)
        error = llm_connect(asker->context, ask_channel, &options, NULL, &handlers, &asker->connection);
    if (error != LLM_OK) {
        (void)fprintf(stderr, "requests: %s: %s\n", ask_channel, llm_error_text(error));
        return -1;
    }
    while (!asker->connected && !asker->over)
        (void)llm_poll(asker->context);
    if (asker->over || ask_control(asker, REQUESTS_HELLO) != 0)
        return -1;
    (void)snprintf(asker->machine, sizeof asker->machine, "%s", asker->answer);
    (void)mlockall(MCL_CURRENT | MCL_ONFAULT);
    return 0;
}

static int ask_measure_all(struct asker *asker, struct machine_probe *probe)
{
    for (uint64_t run = 0; run < ask_runs; run++)
        for (int i = 0; i < ask_row_count; i++)
            if (ask_measure(asker, probe, &ask_rows[i], run) != 0)
                return -1;
    return 0;
}

static int ask(void)
{
    static struct asker asker;
    struct machine_probe probe = {0};
    int failed;

    /* Before anything big is opened: the probe's process is a copy of this one. */
    machine_probe_as_asked(&probe, "requests", ask_peer_cpu);
    asker.raw = ask_no_raw ? -1 : requests_raw_open(ask_channel, false);
    failed = (!ask_no_raw && asker.raw < 0) || ask_open_rows(&asker) != 0 || ask_connect(&asker) != 0 ||
             ask_measure_all(&asker, &probe) != 0 || ask_report(&asker) != 0;
    (void)llm_connection_close(&asker.connection);
    (void)llm_context_close(&asker.context);
    ask_close_rows(&asker);
    if (asker.raw >= 0)
        (void)close(asker.raw);
    machine_probe_close(&probe);
    return failed;
}

static const struct option_spec ask_specs[] = {
    {"role", OPTION_CHOICE, &ask_role, "ROLE", "asker (measures) or answerer (replies)", 0, 0, "asker answerer"},
    {"channel", OPTION_TEXT, &ask_channel, "CHANNEL", "where the answerer listens, such as udp://10.0.0.2:5041", 0, 0, NULL},
    {"size", OPTION_LIST, &ask_sizes, "N,...", "bytes of a request and of its reply (45); asker", sizeof(struct requests_head),
     65000, NULL},
    {"rate", OPTION_LIST, &ask_rates, "N,...", "requests a second (10000); 0: flat out; asker", 0, 100000000, NULL},
    {"outstanding", OPTION_NUMBER, &ask_most, "N", "flat out: requests that wait for their replies at a time (256); asker", 1,
     LLM_REQUESTS_MAX, NULL},
    {"duration", OPTION_SECONDS, &ask_duration, "SECONDS", "of each row (5); half as much again is measured bare; asker",
     50000000, 3600000000000, NULL},
    {"runs", OPTION_NUMBER, &ask_runs, "N", "measure all rows so often and report medians (1); asker", 1, 100, NULL},
    {"wait", OPTION_SECONDS, &ask_wait, "SECONDS", "how long to wait for the answerer to be started (30); asker", 1000000,
     3600000000000, NULL},
    {"cpu", OPTION_NUMBER, &ask_cpu, "N", "run on this CPU and no other; it should have nothing else to do", 0, 4095, NULL},
    {"peer-cpu", OPTION_NUMBER, &ask_peer_cpu, "N",
     "CPU of the other end, if it is this machine: measures how near it is; asker", 0, 4095, NULL},
    {"json", OPTION_TEXT, &ask_json, "FILE", "write the result there; asker", 0, 0, NULL},
    {"hgrm", OPTION_TEXT, &ask_hgrm, "DIR", "write the percentiles there in HdrHistogram's text form; asker", 0, 0, NULL},
    {"network", OPTION_TEXT, &ask_network, "TEXT", "what is between the ends, for the report; asker", 0, 0, NULL},
    {"no-raw", OPTION_FLAG, &ask_no_raw, NULL, "no bare measurement beside it; both ends", 0, 0, NULL},
    {"keep", OPTION_FLAG, &ask_keep, NULL, "serve one asker after the other until killed; answerer", 0, 0, NULL},
};

static const struct option_program ask_program = {
    .name = "requests",
    .summary = "usage: requests --role asker|answerer --channel CHANNEL [OPTION...]\n\n"
               "Measures the time from a request over a connection to its reply, and how many there can be in a second.",
    .examples = "On two machines, in either order:\n"
                "  B$ requests --role answerer --channel 'udp://10.0.0.2:5041?interface=eth0' --cpu 2\n"
                "  A$ requests --role asker --channel 'udp://10.0.0.2:5041?interface=eth0' --cpu 2 --rate 1000,100000,0\n\n"
                "The time counts from when a request was due, so a stall counts against every request that it delayed. Raw is\n"
                "bare UDP from one host to the other and back between the same processes, in turns with the library, 100\n"
                "ports further (so port 5141 must be free, too).\n",
    .specs = ask_specs,
    .count = sizeof ask_specs / sizeof ask_specs[0],
};

int main(int argc, char **argv)
{
    options_parse(&ask_program, argc, argv);
    if (*ask_role == '\0')
        options_refuse(&ask_program, "--role is missing: asker or answerer");
    if (*ask_channel == '\0')
        options_refuse(&ask_program, "--channel is missing: where the answerer listens, such as udp://10.0.0.2:5041");
    if (machine_pin_as_asked("requests", ask_cpu) != 0)
        return EXIT_FAILURE;
    return strcmp(ask_role, "answerer") == 0 ? requests_answer(ask_channel, ask_keep, !ask_no_raw) : ask();
}
