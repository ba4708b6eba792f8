/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The latency monitor: times between the stages of a message, and lengths of queues, at the level that the
 * context was opened with. Its memory is allocated at open, and only if it was requested.
 */
#ifndef LLI_LATENCY_H
#define LLI_LATENCY_H

#include <llm/llm.h>

#include "engine/histogram.h"
#include "system/log.h"
#include "core/base/types.h"

struct llm_context;
struct llm_receiver;
struct llm_transmitter;
struct lli_endpoint;
struct lli_in;

/*
 * X(name, level): histograms of a context, of an instance of a transport, of a transmitter, and of a
 * receiver. Meanings: docs/statistics.md.
 */
#define LLI_LATENCY_CONTEXT(X) X(poll_ns, LLM_LATENCY_STAGES)
#define LLI_LATENCY_ENDPOINT(X) X(burst_packets, LLM_LATENCY_QUEUES)
#define LLI_LATENCY_TX(X)                  \
    X(flush_packets, LLM_LATENCY_QUEUES)   \
    X(queue_packets, LLM_LATENCY_QUEUES)   \
    X(submit_wire_ns, LLM_LATENCY_WIRE)    \
    X(submit_flush_ns, LLM_LATENCY_STAGES) \
    X(flush_wire_ns, LLM_LATENCY_STAGES)
#define LLI_LATENCY_RX(X)                   \
    X(buffered_packets, LLM_LATENCY_QUEUES) \
    X(wire_deliver_ns, LLM_LATENCY_WIRE)    \
    X(wire_fetch_ns, LLM_LATENCY_STAGES)    \
    X(fetch_deliver_ns, LLM_LATENCY_STAGES) \
    X(handler_ns, LLM_LATENCY_STAGES)

/* Of a receiver on two lines; recorded without a latency monitor, too. */
#define LLI_LATENCY_LINES(X)              \
    X(line_1_skew_ns, LLM_LATENCY_QUEUES) \
    X(line_2_skew_ns, LLM_LATENCY_QUEUES)

#define LLI_LATENCY_FIELD(name, level) struct lli_histogram name;

/* By how much packets came later on a line than on the other. */
struct lli_line_times {
    LLI_LATENCY_LINES(LLI_LATENCY_FIELD)
};

/* of a tick, times 2^20 */
struct lli_latency {
    enum llm_latency_level level;
    uint64_t ns_per_tick; /* times 2^20 */
    lli_ns polled_at;
    LLI_LATENCY_CONTEXT(LLI_LATENCY_FIELD)
};

struct lli_endpoint_latency {
    const struct lli_latency *of;
    bool measured;  /* the latest burst is measured */
    int64_t credit; /* messages delivered, less LATENCY_READING for each reading of the counter */
    /* Cost of this burst's next delivery, from credit: the first one also pays for the fetch. */
    int64_t charge;
    uint64_t fetched_at;   /* lli_ticks() when the latest burst was fetched, if it is measured */
    uint64_t fetched_real; /* CLOCK_REALTIME of the same, if its packets have time stamps; else 0 */
    LLI_LATENCY_ENDPOINT(LLI_LATENCY_FIELD)
};

struct lli_tx_latency {
    const struct lli_latency *of;
    uint64_t batch;        /* the value of llm_transmitter.batch without a monitor */
    bool following;        /* a submitted message is tracked until it leaves: submitted_at and in */
    uint64_t submitted_at; /* lli_ticks() */
    uint64_t number;       /* number after that of the latest followed message */
    lli_seq in;            /* packet that has its last byte */
    lli_seq sent;          /* tx.sent at the latest flush */
    LLI_LATENCY_TX(LLI_LATENCY_FIELD)
};

struct lli_rx_latency {
    const struct lli_latency *of;
    struct llm_receiver_handlers handlers; /* handlers of the application */
    LLI_LATENCY_RX(LLI_LATENCY_FIELD)
};

/* Allocate what the context's level needs: nothing at LLM_LATENCY_OFF. LLM_ENOMEM. */
int lli_latency_open(struct llm_context *context, enum llm_latency_level level);
int lli_latency_endpoint(struct lli_endpoint *endpoint);
int lli_latency_transmitter(struct llm_transmitter *transmitter);
/* As above; also puts the monitor's handlers before the application's. */
int lli_latency_receiver(struct llm_receiver *receiver);

/* Notes that a message was packed and waits. */
void lli_latency_waits(struct llm_transmitter *transmitter);
/*
 * Records a flush that began at begin and ended at end, by lli_ticks(); end 0: just now. If no message
 * waited, one was submitted at begin.
 */
void lli_latency_sent(struct llm_transmitter *transmitter, uint64_t begin, uint64_t end);
/* Notes that a burst of packets was fetched. */
void lli_latency_fetched(struct lli_endpoint *endpoint, const struct lli_in *packets, int count);
/* Notes that a poll began. */
void lli_latency_polled(struct lli_latency *latency, lli_ns now);

/* Calls put for each histogram of a level. */
typedef void lli_latency_put(void *arg, const char *name, const struct lli_histogram *histogram);
void lli_latency_visit_context(const struct lli_latency *latency, lli_latency_put *put, void *arg);
void lli_latency_visit_endpoint(const struct lli_endpoint_latency *latency, lli_latency_put *put, void *arg);
void lli_latency_visit_tx(const struct lli_tx_latency *latency, lli_latency_put *put, void *arg);
void lli_latency_visit_rx(const struct lli_rx_latency *latency, lli_latency_put *put, void *arg);

#endif
