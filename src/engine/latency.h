/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The latency monitor: how long messages take between the stages of their way, and how long queues are, by the level that the
 * context was opened with. Whatever it needs is allocated at open and there only if it was asked for.
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

/* X(name, level): those of a context, of an instance of a transport, of a transmitter, and of a receiver. docs/statistics.md has the meaning. */
#define LLI_LATENCY_CONTEXT(X)                                                                                             \
    X(poll_ns, LLM_LATENCY_STAGES)
#define LLI_LATENCY_ENDPOINT(X)                                                                                            \
    X(burst_packets, LLM_LATENCY_QUEUES)
#define LLI_LATENCY_TX(X)                                                                                                  \
    X(flush_packets, LLM_LATENCY_QUEUES)                                                                                   \
    X(queue_packets, LLM_LATENCY_QUEUES)                                                                                   \
    X(submit_wire_ns, LLM_LATENCY_WIRE)                                                                                    \
    X(submit_flush_ns, LLM_LATENCY_STAGES)                                                                                 \
    X(flush_wire_ns, LLM_LATENCY_STAGES)
#define LLI_LATENCY_RX(X)                                                                                                  \
    X(held_packets, LLM_LATENCY_QUEUES)                                                                                    \
    X(wire_deliver_ns, LLM_LATENCY_WIRE)                                                                                   \
    X(wire_fetch_ns, LLM_LATENCY_STAGES)                                                                                   \
    X(fetch_deliver_ns, LLM_LATENCY_STAGES)                                                                                \
    X(handler_ns, LLM_LATENCY_STAGES)

#define LLI_LATENCY_FIELD(name, level) struct lli_histogram name;

/* Of a context. */
struct lli_latency {
    enum llm_latency_level level;
    uint64_t ns_per_tick; /* times 2^20 */
    lli_ns polled_at;
    LLI_LATENCY_CONTEXT(LLI_LATENCY_FIELD)
};

struct lli_endpoint_latency {
    const struct lli_latency *of;
    bool measured;         /* the latest burst is */
    int64_t credit;        /* messages delivered, less those that readings of the counter took: LATENCY_READING each */
    int64_t charge;        /* what the next delivery of this burst takes of it: the first pays for the fetch too */
    uint64_t fetched_at;   /* lli_ticks() when the latest burst was there, if it is measured */
    uint64_t fetched_real; /* CLOCK_REALTIME of the same, if its packets have time stamps; else 0 */
    LLI_LATENCY_ENDPOINT(LLI_LATENCY_FIELD)
};

struct lli_tx_latency {
    const struct lli_latency *of;
    uint64_t batch;        /* what llm_transmitter.batch would be */
    bool following;        /* a message was submitted and has not left yet: */
    uint64_t submitted_at; /* lli_ticks() */
    uint64_t number;       /* of the message after the latest that was followed */
    lli_seq in;            /* the packet that has its last byte */
    lli_seq sent;          /* as of the latest flush */
    LLI_LATENCY_TX(LLI_LATENCY_FIELD)
};

struct lli_rx_latency {
    const struct lli_latency *of;
    struct llm_handlers handlers; /* the application's */
    LLI_LATENCY_RX(LLI_LATENCY_FIELD)
};

/* Each allocates what the context's level asks for: nothing at LLM_LATENCY_OFF. LLM_ENOMEM. */
int lli_latency_open(struct llm_context *context, enum llm_latency_level level);
int lli_latency_endpoint(struct lli_endpoint *endpoint);
int lli_latency_transmitter(struct llm_transmitter *transmitter);
/* Puts itself before the handlers. */
int lli_latency_receiver(struct llm_receiver *receiver);

/* A message was packed and waits. */
void lli_latency_waits(struct llm_transmitter *transmitter);
/* A flush that began and ended then, by lli_ticks(); end 0: just now. If no message waited, one was submitted when it began. */
void lli_latency_sent(struct llm_transmitter *transmitter, uint64_t begin, uint64_t end);
/* A burst of packets was fetched. */
void lli_latency_fetched(struct lli_endpoint *endpoint, const struct lli_in *packets, int count);
/* A poll began. */
void lli_latency_polled(struct lli_latency *latency, lli_ns now);

/* Calls put for each histogram of a level. */
typedef void lli_latency_put(void *arg, const char *name, const struct lli_histogram *histogram);
void lli_latency_visit_context(const struct lli_latency *latency, lli_latency_put *put, void *arg);
void lli_latency_visit_endpoint(const struct lli_endpoint_latency *latency, lli_latency_put *put, void *arg);
void lli_latency_visit_tx(const struct lli_tx_latency *latency, lli_latency_put *put, void *arg);
void lli_latency_visit_rx(const struct lli_rx_latency *latency, lli_latency_put *put, void *arg);

#endif
