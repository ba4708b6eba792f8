/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint is an instance of a transport with the transmitters and receivers that use it. It hands
 * received packets to their sessions and the sessions' packets to the transport; no other module knows both
 * sides.
 */
#ifndef LLI_ENDPOINT_H
#define LLI_ENDPOINT_H

#include "config/channel.h"
#include "engine/reach.h"
#include "transport.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

struct llm_context;
struct llm_transmitter;
struct llm_receiver;
struct lli_packet;
struct lli_endpoint_latency;
struct lli_guard;
struct lli_sealing;

/* X(name, text) */
#define LLI_ENDPOINT_COUNTERS(X)                                                                            \
    X(packets_short, "packets too short for a header")                                                      \
    X(packets_version, "packets of another version")                                                        \
    X(packets_type, "packets of an unknown type")                                                           \
    X(packets_malformed, "packets that contradict themselves")                                              \
    X(packets_foreign, "packets of sessions that are neither sent nor followed here")                       \
    X(packets_misaddressed,                                                                                 \
      "packets refused because they announce an address of another host than their source (check_source)")  \
    X(packets_in_clear, "packets in clear that came to a channel with keys, and were dropped")              \
    X(packets_other_keys, "packets dropped because this channel is without their keys")                     \
    X(packets_ended, "data packets of an earlier epoch, whose keys are no longer used, dropped")            \
    X(packets_forged, "packets dropped because they are not authentic")                                     \
    X(packets_repeated, "control packets dropped because they came before, or are too old")                 \
    X(packets_unannounced, "data packets dropped before a heartbeat of their session, which opens them")    \
    X(packets_crowded, "control packets dropped because more others send than are expected")                \
    X(packets_keyless, "attempts to send a packet while no epoch of the key file is valid")                 \
    X(packets_sealed, "data packets that a seal of their transmitter verified")                             \
    X(packets_unsealed, "data packets for which no seal came")                                              \
    X(packets_refuted, "data packets among which are some that differ from what their transmitter sealed")  \
    X(packets_substituted, "data packets dropped because another one of the same number came before")       \
    X(seals_sent, "seals sent")                                                                             \
    X(seals_requested, "requests for seals that did not come")                                              \
    X(seals_invalid, "seals dropped because no key of seal_keys signed them")                               \
    X(packets_unsent, "control packets dropped because the transport accepted none")                        \
    X(packets_unreachable, "packets not sent: address not resolved, or no room for it")                     \
    X(addresses_forgotten, "addresses removed because they were no longer needed")                          \
    X(addresses_evicted, "addresses removed although needed, to make room for others; raise receivers_max") \
    X(addresses_unreachable, "addresses that packets could not be sent to")                                 \
    X(closes_repeated, "close retries sent")                                                                \
    X(closes_unanswered, "CLOSEs that were not answered after all retries")

enum {
    LLI_ENDPOINT_POST = 64,      /* data packets posted at a time */
    LLI_ENDPOINT_SCRATCH = 1024, /* largest packet built for lli_endpoint_post_control(), in bytes */
    /* With what keys add to it. */
    LLI_ENDPOINT_SCRATCH_STRIDE = LLI_ENDPOINT_SCRATCH + 64,
};

struct lli_endpoint_counters {
#define LLI_ENDPOINT_COUNTER_FIELD(name, text) uint64_t name;
    LLI_ENDPOINT_COUNTERS(LLI_ENDPOINT_COUNTER_FIELD)
#undef LLI_ENDPOINT_COUNTER_FIELD
};

struct lli_endpoint {
    struct llm_context *context;
    struct lli_endpoint *next;
    const struct lli_transport *transport;
    /*
     * In a child process: the transport of the instance, while transport is one that does nothing; else NULL.
     */
    const struct lli_transport *inherited;
    void *instance;
    struct lli_caps caps;
    struct lli_wire_address address;    /* with two lines, that of the first */
    const struct lli_line_calls *lines; /* NULL: the transport has one line */
    struct lli_wire_address line_2_address;
    /* Of its first user; later users agree in the options that concern the instance. */
    struct lli_channel channel;
    uint32_t users;
    int fd; /* result of transport->arm(), -1 before */

    struct llm_transmitter *transmitters;
    struct llm_receiver *receivers;

    uint64_t posted;  /* packets that the transport took */
    uint64_t reaping; /* of these, packets whose completion transmitters wait for: lli_tx_reaped() */
    int more;         /* a receive of at least this many packets suggests that more wait */
    bool unsettled;   /* posted packets are not all sent and completed */
    /* A flush of all of them was requested from the transport, and completions were not read since. */
    bool started;
    bool inspects;   /* bursts take the slow path: a latency monitor, a guard, a second line, or outlines */
    bool outlines;   /* it has asked for outlines, so packets may come with them */
    bool unread;     /* the latest poll ended before the transport ran out of packets */
    bool stuck;      /* the transport could not send all of them yet */
    bool brief;      /* the next poll ends after a full burst: lli_endpoint_be_brief() */
    lli_ns deadline; /* nothing is due before */
    /*
     * Next look at the transport (endpoint_look()); LLI_NEVER: it has nothing to report, and no address is
     * known.
     */
    lli_ns report_at;

    uint8_t *scratch; /* ring of buffers for control packets */
    /* For each buffer, `posted` after its packet: in use until that many are reaped. */
    uint64_t *scratch_posted;
    uint32_t scratch_next;
    uint32_t scratch_max;                 /* bytes of the longest control packet that may be built */
    struct lli_guard *guard;              /* keys of the channel; NULL: packets are in clear */
    struct lli_sealing *sealing;          /* verification of seals; NULL: none */
    char name[LLI_CHANNEL_HOST_MAX + 16]; /* of the channel, with which patterns of a key file are compared */
    uint8_t mixed;                        /* reasons of LLM_EVENT_KEYS that were reported, a bit each */
    uint32_t unheard;                     /* accepted connections whose other side was not heard yet */
    struct lli_endpoint_counters counters;
    struct lli_endpoint_latency *latency; /* NULL without a latency monitor */
    char object[80];                      /* for statistics */
    struct lli_reach reach;
};

/* Finds the context's open endpoint for a channel, or opens one. */
int lli_endpoint_open(struct llm_context *context, const struct lli_channel *channel,
                      struct lli_endpoint **result);

/*
 * Ends the poll that is under way, or else the next one, after a full burst, since other work of the context is due before
 * more packets are.
 */
static inline void lli_endpoint_be_brief(struct lli_endpoint *endpoint)
{
    endpoint->brief = true;
}

/* Removes a user; removing the last one closes the endpoint. */
void lli_endpoint_close(struct lli_endpoint *endpoint);

/*
 * Frees an endpoint with its instance; in a child process, without sending anything. It is no longer in the
 * context's list.
 */
void lli_endpoint_free(struct lli_endpoint *endpoint);

/* Receives, delivers and sends what is due. */
void lli_endpoint_poll(struct lli_endpoint *endpoint, lli_ns now);

/* Returns true if packets may have come that were not read yet. */
bool lli_endpoint_is_unread(const struct lli_endpoint *endpoint);

/* Asks for outlines of packets, of which only parts are copied then, if the transport has them; once. */
void lli_endpoint_ask_outlines(struct lli_endpoint *endpoint);

/* Returns when an endpoint of the context, or its counters, are due next. */
lli_ns lli_endpoint_deadline(const struct llm_context *context);

/*
 * Sends a transmitter's packed messages: all, or only full packets. LLM_OK, or LLM_EAGAIN if the transport
 * did not take them. begin: lli_ticks(), just read.
 */
int lli_endpoint_send(struct llm_transmitter *transmitter, bool all, uint64_t begin);

/*
 * Completes the send of a packet of lli_pack_single() that was posted; taken: the transport took it. Flushes
 * and updates the history and the counters. begin: as above.
 */
void lli_endpoint_sent_single(struct llm_transmitter *transmitter, const uint8_t *packet, uint32_t bytes,
                              bool taken, uint64_t begin);

/* Likewise of a packet that was protected where it is prepared: `bytes` before, and `protected` now. */
void lli_endpoint_sent_protected(struct llm_transmitter *transmitter, uint32_t bytes, uint32_t protected,
                                 bool taken, uint64_t begin);

/* Sends messages packed in handlers; all: even if the transport is busy. */
void lli_endpoint_send_dirty(struct llm_context *context, bool all);

/* Posts packets, flushing when the transport is full. Returns how many it took. */
int lli_endpoint_post(struct lli_endpoint *endpoint, const struct lli_out *packets, int count);

/* Sends one packet that was built in a buffer of lli_endpoint_scratch(). */
void lli_endpoint_post_control(struct lli_endpoint *endpoint, const struct lli_packet *packet,
                               lli_handle group);

/* Sends such a packet of a transmitter's session to the group, and to its other destinations. */
void lli_endpoint_post_session(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter,
                               struct lli_packet *packet);
uint8_t *lli_endpoint_scratch(struct lli_endpoint *endpoint);
void lli_endpoint_flush(struct lli_endpoint *endpoint);

/*
 * Returns true if the host that a control packet announces, if it does, is the packet's sender, as far as the
 * transport can tell.
 */
bool lli_endpoint_is_from(struct lli_endpoint *endpoint, const struct lli_in *in, uint8_t type,
                          const uint8_t *body, size_t body_size);

/* Makes the endpoint due earlier. */
static inline void lli_endpoint_due(struct lli_endpoint *endpoint, lli_ns at)
{
    endpoint->deadline = lli_min(endpoint->deadline, at);
}

/* Schedules the next look at the transport: an address became known, and looks may have been switched off. */
static inline void lli_endpoint_look_soon(struct lli_endpoint *endpoint)
{
    if (endpoint->report_at != LLI_NEVER)
        return;
    endpoint->report_at = 0;
    lli_endpoint_due(endpoint, 0);
}

#endif
