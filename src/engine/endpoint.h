/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance of a transport with the sessions that use it: the only place that knows both sides. It hands received packets
 * to the sessions and what the sessions want sent to the transport.
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

/* X(name, text) */
#define LLI_ENDPOINT_COUNTERS(X)                                                                                           \
    X(packets_short, "packets too short for a header")                                                                     \
    X(packets_version, "packets of another version")                                                                       \
    X(packets_type, "packets of an unknown type")                                                                          \
    X(packets_malformed, "packets that contradict themselves")                                                             \
    X(packets_foreign, "packets of sessions that nobody here has or follows")                                              \
    X(packets_misaddressed, "packets refused as they announce an address of another host than the one that they came from") \
    X(packets_unsent, "control packets dropped because the transport took none")                                           \
    X(packets_unreachable, "packets not sent because their address could not be resolved")                                    \
    X(addresses_forgotten, "addresses whose places were given back because nobody needed them any more")                  \
    X(addresses_evicted, "addresses that had to give their places to others though they were needed")                     \
    X(addresses_unreachable, "addresses that packets could not be sent to; each is logged and told once")                 \
    X(closes_repeated, "last words of a connection that were repeated")                                                    \
    X(closes_unanswered, "last words of a connection, with all repetitions, that were not answered")

enum {
    LLI_ENDPOINT_POST = 64,      /* data packets posted at a time */
    LLI_ENDPOINT_SCRATCH = 1024, /* bytes of the largest packet that is built for lli_endpoint_post_control() */
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
    const struct lli_transport *inherited; /* whose the instance is, in a child process: transport is one that does nothing; else NULL */
    void *instance;
    struct lli_caps caps;
    struct lli_wire_address address;
    struct lli_channel channel; /* of the first to use it; those that agree in what concerns the instance share it */
    uint32_t users;
    int fd;                     /* of transport->arm(), -1 before */

    struct llm_transmitter *transmitters;
    struct llm_receiver *receivers;

    uint64_t posted;  /* packets that the transport took */
    uint64_t reaping; /* of these, those that transmitters wait for: lli_tx_reaped() */
    int more;         /* so many received at a time say that there may be more */
    bool unsettled;   /* not all of them are sent and done with */
    bool started;     /* it was told to send all of them, and nobody has looked what it is done with */
    bool unread;      /* the latest poll ended before the transport said that there are no more packets */
    bool stuck;       /* the transport could not send all of them yet */
    lli_ns deadline;  /* nothing is due before */
    lli_ns tell_at;   /* the transport is asked what it found out; LLI_NEVER: it finds out nothing, and no address is known */

    uint8_t *scratch; /* a ring of buffers for control packets */
    uint64_t *scratch_posted; /* for each, `posted` behind it: in use until that is reaped */
    uint32_t scratch_next;
    uint32_t hushed;  /* connections whose other side was accepted and has not been heard */
    struct lli_endpoint_counters counters;
    struct lli_endpoint_latency *latency; /* NULL without a monitor */
    char object[64];  /* for statistics */
    struct lli_reach reach;
};

/* The endpoint of a context for a channel: one that is open, or a new one. */
int lli_endpoint_open(struct llm_context *context, const struct lli_channel *channel, struct lli_endpoint **endpoint);

/* One user less; the last one closes it. */
void lli_endpoint_close(struct lli_endpoint *endpoint);

/* Frees it with its instance, in a child process without a word to anybody; it is not of the context's list any more. */
void lli_endpoint_free(struct lli_endpoint *endpoint);

/* Receives, delivers and sends what is due. */
void lli_endpoint_poll(struct lli_endpoint *endpoint, lli_ns now);

/* True if packets may have come that were not read yet. */
bool lli_endpoint_is_unread(const struct lli_endpoint *endpoint);

/* When something is due at any endpoint of a context, or its counters are. */
lli_ns lli_endpoint_deadline(const struct llm_context *context);

/*
 * Sends what a transmitter has packed: all, or only the packets that are full. LLM_OK, or LLM_EAGAIN if the transport did not
 * take them. begin: lli_ticks(), just read.
 */
int lli_endpoint_send(struct llm_transmitter *transmitter, bool all, uint64_t begin);

/*
 * Does whatever there is to do after the transport was given the packet that lli_pack_single() made, and took it or not: sends it, and notes
 * that it was. begin: as above.
 */
void lli_endpoint_sent_single(struct llm_transmitter *transmitter, const uint8_t *packet, uint32_t bytes, bool taken, uint64_t begin);

/* Does so for all that packed in a handler: whatever the transport does, or only where it is idle. */
void lli_endpoint_send_dirty(struct llm_context *context, bool all);

/* Posts packets, flushing when the transport is full; returns how many it took. */
int lli_endpoint_post(struct lli_endpoint *endpoint, const struct lli_out *packets, int count);

/* Sends one packet that somebody built in a buffer of lli_endpoint_scratch(). */
void lli_endpoint_post_control(struct lli_endpoint *endpoint, const struct lli_packet *packet, lli_handle group);
uint8_t *lli_endpoint_scratch(struct lli_endpoint *endpoint);
void lli_endpoint_flush(struct lli_endpoint *endpoint);

/* Whether the host that a control packet announces, if it does, is the one that it came from, as far as the transport can tell. */
bool lli_endpoint_is_from(struct lli_endpoint *endpoint, const struct lli_in *in, uint8_t type, const uint8_t *body, size_t body_size);

/* Something may be due earlier than was thought. */
static inline void lli_endpoint_due(struct lli_endpoint *endpoint, lli_ns at)
{
    endpoint->deadline = lli_min(endpoint->deadline, at);
}

/* An address became known: the regular look may have been switched off. */
static inline void lli_endpoint_look_soon(struct lli_endpoint *endpoint)
{
    if (endpoint->tell_at != LLI_NEVER)
        return;
    endpoint->tell_at = 0;
    lli_endpoint_due(endpoint, 0);
}

#endif
