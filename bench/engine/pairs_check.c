/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the features that were measured did their work. Histograms are public in the counters file only, which is a feature
 * of its own: of ends that have none they are looked up where the library has them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/objects.h"
#include "observe/stats_file.h"
#include "control.h"
#include "pairs.h"
#include "stat_file.h"

static bool check_fails(const struct pair *pair, const char *what)
{
    fprintf(stderr, "pairs: %s: %s\n", pair->name, what);
    return false;
}

/* ------------------------------------------------------------------------------------------------ latency monitor */

static bool check_off(const struct pair *pair)
{
    if ((pair->near_level == LLM_LATENCY_OFF) != (pair->near->latency == NULL) ||
        (pair->far_level == LLM_LATENCY_OFF) != (pair->far->latency == NULL))
        return check_fails(pair, "the latency monitor is not where it should be");
    if (pair->file != (pair->near->stats != NULL) || pair->file != (pair->far->stats != NULL))
        return check_fails(pair, "counters files are not where they should be");
    /* Where there is a file the watch runs. */
    if ((pair->watch || pair->file) != (pair->near->watch.interval != 0 && pair->far->watch.interval != 0))
        return check_fails(pair, "the watch does not run where it should, or where it should not");
    if (pair->receiver->latest == NULL || pair->arrival != (pair->receiver->latest->unordered.marks != NULL))
        return check_fails(pair, "messages come in another order than they should");
    return true;
}

/* A level has histograms, and each has samples. */
static bool check_latency(const struct pair *pair)
{
    const struct lli_tx_latency *tx = pair->transmitter->latency;
    const struct lli_rx_latency *rx = pair->receiver->latency;
    bool counted = true;

    if (pair->near_level >= LLM_LATENCY_QUEUES)
        counted &= tx->flush_packets.count > 0 && tx->queue_packets.count > 0;
    if (pair->far_level >= LLM_LATENCY_QUEUES)
        counted &= pair->receiver->endpoint->latency->burst_packets.count > 0 && rx->held_packets.count > 0;
    if (pair->near_level >= LLM_LATENCY_WIRE)
        counted &= tx->submit_wire_ns.count > 0;
    if (pair->far_level >= LLM_LATENCY_WIRE)
        counted &= rx->wire_deliver_ns.count > 0;
    if (pair->near_level >= LLM_LATENCY_STAGES)
        counted &= tx->submit_flush_ns.count > 0 && tx->flush_wire_ns.count > 0 && pair->near->latency->poll_ns.count > 0;
    if (pair->far_level >= LLM_LATENCY_STAGES)
        counted &= rx->fetch_deliver_ns.count > 0 && rx->handler_ns.count > 0 && pair->far->latency->poll_ns.count > 0;
    return counted || check_fails(pair, "a histogram of the latency monitor has no samples");
}

/* ---------------------------------------------------------------------------------------------------------- watch */

/* A report tells the transmitter what the receiver's watch found, so it is as late as the next one. */
static bool check_reported(const struct pair *pair)
{
    struct llm_bottleneck bottleneck;
    struct llm_congestion report;

    return llm_transmitter_bottleneck(pair->transmitter, &bottleneck) == LLM_OK &&
           llm_receiver_bottleneck(pair->receiver, &bottleneck) == LLM_OK &&
           llm_transmitter_congestion(pair->transmitter, &report, 1) == 1 && report.reports;
}

/* ---------------------------------------------------------------------------------------------------------- files */

/* The first object of a kind; 0, the context, if there is none. */
static uint32_t check_object(const struct stat_snapshot *snapshot, enum llm_stats_kind kind)
{
    for (uint32_t i = 0; i < snapshot->table.objects; i++)
        if (snapshot->objects[i].kind == kind)
            return i;
    return 0;
}

/* Reads a context's file, as others do. */
static enum stat_fault check_read(const struct llm_context *context, struct stat_snapshot *snapshot)
{
    const int fd = open(context->stats->path, O_RDONLY | O_CLOEXEC);
    enum stat_fault fault;

    if (fd < 0) {
        *snapshot = (struct stat_snapshot){.bytes = NULL};
        return STAT_UNREADABLE;
    }
    fault = stat_read(fd, STAT_TABLE_MAX, snapshot);
    close(fd);
    return fault;
}

static bool check_content(const struct pair *pair, const struct stat_snapshot *snapshot, enum llm_stats_kind kind,
                          const char *name, uint64_t expected)
{
    const uint64_t found = stat_value(snapshot, check_object(snapshot, kind), name);
    char text[160];

    for (uint32_t i = 0; i < snapshot->table.histograms; i++)
        /* Without time stamps of the kernel that one has none. */
        if (snapshot->histograms[i].count == 0 && strcmp(snapshot->histograms[i].name, "wire_fetch_ns") != 0)
            return check_fails(pair, "a histogram in the counters file has no samples");
    if ((snapshot->table.histograms > 0) != (pair->near_level != LLM_LATENCY_OFF))
        return check_fails(pair, "the counters file has other histograms than it should");
    if (found == expected)
        return true;
    (void)snprintf(text, sizeof text, "the counters file has %s %" PRIu64 ", not %" PRIu64, name, found, expected);
    return check_fails(pair, text);
}

/* Each end counts messages under a name of its own. */
static bool check_file(const struct pair *pair, bool near)
{
    const struct llm_context *context = near ? pair->near : pair->far;
    struct stat_snapshot snapshot;
    const enum stat_fault fault = check_read(context, &snapshot);
    char text[256];
    bool good;

    if (fault != STAT_OK) {
        stat_explain(fault, &snapshot, text, sizeof text);
        return check_fails(pair, text);
    }
    good = near ? check_content(pair, &snapshot, LLM_STATS_TRANSMITTER, "messages_sent", pair->sent)
                : check_content(pair, &snapshot, LLM_STATS_RECEIVER, "messages_delivered", pair->received);
    json_begin(near ? "near" : "far", '{');
    json_number("writes", (double)stat_value(&snapshot, check_object(&snapshot, LLM_STATS_CONTEXT), "stats_writes"));
    json_number("ns", (double)stat_value(&snapshot, check_object(&snapshot, LLM_STATS_CONTEXT), "stats_write_ns"));
    json_end('}');
    stat_free(&snapshot);
    return good;
}

/* ------------------------------------------------------------------------------------------------------------ all */

static bool check_messages(const struct pair *pair)
{
    const uint64_t numbers = pair->sent * pair->first + pair->sent * (pair->sent - 1) / 2;
    char text[160];

    if (pair->received == pair->sent && pair->lost + pair->changed == 0 && pair->numbers == numbers)
        return true;
    (void)snprintf(text, sizeof text, "of %" PRIu64 " messages %" PRIu64 " came, %" PRIu64 " were lost, %" PRIu64 " changed%s",
                   pair->sent, pair->received, pair->lost, pair->changed,
                   pair->numbers == numbers ? "" : ", and not each came once");
    return check_fails(pair, text);
}

bool pairs_done(struct pair *pair)
{
    /* One is written at open. */
    if (pair->file && pair->near_tables == 0) {
        pair->near_tables = pair->near->stats->writes;
        pair->far_tables = pair->far->stats->writes;
    }
    if (pair->file && (pair->near->stats->writes == pair->near_tables || pair->far->stats->writes == pair->far_tables))
        return false;
    return !pair->watch || check_reported(pair);
}

bool pairs_check(const struct pair *pair)
{
    if (!check_messages(pair) || !check_off(pair) || !check_latency(pair))
        return false;
    if (pair->watch && !check_reported(pair))
        return check_fails(pair, "the watch made no report");
    return !pair->file || (check_file(pair, true) && check_file(pair, false));
}
