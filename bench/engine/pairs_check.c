/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the features that were measured did their work. Histograms are public in the counters file
 * only, which is a feature of its own: they are looked up where the library has them. What is in the files
 * tests/e2e/stat.sh checks.
 */
#include <inttypes.h>
#include <stdio.h>

#include "engine/objects.h"
#include "observe/stats_file.h"
#include "control.h"
#include "pairs.h"

/* Returns good, having said what is not. */
static bool check(const struct pair *pair, bool good, const char *what)
{
    if (!good)
        (void)fprintf(stderr, "pairs: %s: %s\n", pair->name, what);
    return good;
}

static bool check_off(const struct pair *pair)
{
    const struct llm_context *near = pair->near, *far = pair->far;
    /* Where there is a file the watch runs. */
    const bool watches = pair->watch || pair->file;
    const struct lli_rx *session = pair->receiver->latest;

    return check(pair,
                 (pair->near_level == LLM_LATENCY_OFF) == (near->latency == NULL) &&
                     (pair->far_level == LLM_LATENCY_OFF) == (far->latency == NULL),
                 "the latency monitor is not where it should be") &&
           check(pair, pair->file == (near->stats != NULL) && pair->file == (far->stats != NULL),
                 "counters files are not where they should be") &&
           check(pair, watches == (near->watch.interval != 0 && far->watch.interval != 0),
                 "the watch does not run where it should, or where it should not") &&
           check(pair, session != NULL && pair->arrival == (session->unordered.marks != NULL),
                 "messages come in another order than they should");
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
        counted &=
            pair->receiver->endpoint->latency->burst_packets.count > 0 && rx->buffered_packets.count > 0;
    if (pair->near_level >= LLM_LATENCY_WIRE)
        counted &= tx->submit_wire_ns.count > 0;
    if (pair->far_level >= LLM_LATENCY_WIRE)
        counted &= rx->wire_deliver_ns.count > 0;
    if (pair->near_level >= LLM_LATENCY_STAGES)
        counted &= tx->submit_flush_ns.count > 0 && tx->flush_wire_ns.count > 0 &&
                   pair->near->latency->poll_ns.count > 0;
    if (pair->far_level >= LLM_LATENCY_STAGES)
        counted &= rx->fetch_deliver_ns.count > 0 && rx->handler_ns.count > 0 &&
                   pair->far->latency->poll_ns.count > 0;
    return check(pair, counted, "a histogram of the latency monitor has no samples");
}

/* A report tells the transmitter what the receiver's watch found, so it is as late as the next one. */
static bool check_reported(const struct pair *pair)
{
    struct llm_bottleneck bottleneck;
    struct llm_congestion report;

    return llm_transmitter_bottleneck(pair->transmitter, &bottleneck) == LLM_OK &&
           llm_receiver_bottleneck(pair->receiver, &bottleneck) == LLM_OK &&
           llm_transmitter_congestion(pair->transmitter, &report, 1) == 1 && report.reports;
}

static bool check_messages(const struct pair *pair)
{
    const uint64_t numbers = pair->sent * pair->first + pair->sent * (pair->sent - 1) / 2;
    char text[160];

    (void)snprintf(text, sizeof text,
                   "of %" PRIu64 " messages %" PRIu64 " came, %" PRIu64 " were lost, %" PRIu64 " changed%s",
                   pair->sent, pair->received, pair->lost, pair->changed,
                   pair->numbers == numbers ? "" : ", and not each came once");
    return check(pair,
                 pair->received == pair->sent && pair->lost + pair->changed == 0 && pair->numbers == numbers,
                 text);
}

/* How often each end has written its counters file, at least. */
static uint64_t check_files(const struct pair *pair)
{
    const uint64_t near = pair->near->stats->writes, far = pair->far->stats->writes;

    return near < far ? near : far;
}

bool pairs_done(struct pair *pair)
{
    /* One is written at open. */
    if (pair->file && pair->tables == 0) {
        const uint64_t near = pair->near->stats->writes, far = pair->far->stats->writes;

        pair->tables = near > far ? near : far;
    }
    return (!pair->file || check_files(pair) > pair->tables) && (!pair->watch || check_reported(pair));
}

bool pairs_check(const struct pair *pair)
{
    if (!check_messages(pair) || !check_off(pair) || !check_latency(pair) ||
        !check(pair, !pair->watch || check_reported(pair), "the watch made no report"))
        return false;
    if (!pair->file)
        return true;
    json_number("writes", (double)(pair->near->stats->writes + pair->far->stats->writes));
    json_number("ns", (double)(pair->near->stats->write_ns + pair->far->stats->write_ns));
    return check(pair, check_files(pair) > pair->tables,
                 "no counters file was written after the last message");
}
