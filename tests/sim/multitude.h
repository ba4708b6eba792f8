/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transmitter and very many receivers over a network of switches (fabric.h): the production core in
 * virtual time, driven as src/engine/endpoint.c and src/engine/sessions.c drive it. Options have their
 * defaults, except flow=window and those that size memory. A receiver costs nothing while no packet comes
 * and nothing is due.
 */
#ifndef SIM_MULTITUDE_H
#define SIM_MULTITUDE_H

#include "core/rx/rx_session.h"
#include "core/tx/tx_session.h"
#include "fabric.h"

#define MULTITUDE_US ((lli_ns)1000)
#define MULTITUDE_MS (1000 * MULTITUDE_US)
#define MULTITUDE_S (1000 * MULTITUDE_MS)

struct multitude_receiver {
    struct lli_rx rx;
    struct lli_rx_config config;
    uint64_t random;
    uint64_t next;      /* number after the latest message delivered */
    uint64_t delivered; /* messages */
    lli_ns wake_at;     /* pending event; LLI_NEVER: none */
    lli_ns known_at;    /* time at which the last of the topics that it watches became known */
    uint32_t watched;   /* topics that it watches and knows */
    uint32_t losses;    /* first of its packets that are lost and not delivered yet, in `losses` */
    bool open;          /* it hears the group */
};

/* A packet that a receiver lost. */
struct multitude_loss {
    lli_seq seq;
    lli_ns at;     /* time at which it would have arrived */
    uint32_t next; /* next one of the receiver, or free one; MULTITUDE_NONE: none */
};

enum { MULTITUDE_NONE = UINT32_MAX };

struct multitude_config {
    uint32_t receivers;
    uint32_t topics;
    uint32_t watch_percent; /* share of the topics that each receiver subscribes to */
    uint32_t message_size;
    uint64_t seed;
};

/* Figures of the transmitter so far; a difference of two has those of an interval. */
struct multitude_figures {
    lli_ns at;
    struct lli_tx_counters counters;
    uint64_t repair_bytes; /* as passed to the transport */
    uint64_t drops, drops_transmitter;
    uint64_t lost;          /* packets lost on the way to a receiver, once for each that missed them */
    uint64_t lost_distinct; /* data packets that a receiver or more missed */
    uint64_t steps;         /* operations: comparisons of the quorum, and receivers evaluated */
};

struct multitude {
    struct multitude_config config;
    struct fabric fabric;
    struct lli_tx tx;
    struct multitude_receiver *receivers;
    struct lli_reorder *reorders; /* one for the receivers of a leaf switch together */
    struct lli_rx_counters counters;
    char (*names)[40];
    uint32_t named;    /* topics opened */
    lli_ns wake_at;    /* of the transmitter */
    uint64_t pause_ns; /* longest call of the transmitter's core, processor time: not the same in every run */
    struct multitude_figures figures;
    struct multitude_loss *losses;
    uint32_t losses_count, losses_room, losses_free;
    uint8_t *distinct; /* by packet of the history: it was lost */
    uint32_t *samples; /* ns from a loss to the delivery */
    size_t samples_count, samples_room;
    uint32_t waiting; /* receivers that do not know all their topics */
    uint64_t random;
    uint64_t packets, packets_max; /* packets that the application sent in this run, and is to send */
    lli_ns distance;               /* time from one to the next */
    void *memories[2];
    size_t memory_size[2];
    size_t transmitter_bytes; /* memory of the transmitter, without the packets of its history */
    size_t single_bytes;      /* ... with its history, for one receiver */
    size_t member_bytes;      /* ... for each further receiver */
    size_t receiver_bytes;    /* memory of a receiver with one session, without its reorder buffer */
};

/* Opens the transmitter and, unless they are late, all receivers at the same time. */
void multitude_open(struct multitude *multitude, const struct multitude_config *config, bool late);
void multitude_close(struct multitude *multitude);

/* Opens the topics that are not open yet, as far as there is room in the history. */
void multitude_topics(struct multitude *multitude);

/* All receivers join now. */
void multitude_join(struct multitude *multitude);

/* Runs until a condition holds. False: it did not within this time. */
bool multitude_until(struct multitude *multitude, bool (*done)(const struct multitude *), lli_ns time);
void multitude_run(struct multitude *multitude, lli_ns time);

/* Sends packets of one message each at a constant distance. */
void multitude_send(struct multitude *multitude, uint64_t packets, lli_ns distance);

/* Conditions: the transmitter knows all receivers; all messages were sent and delivered; names are known. */
bool multitude_is_known(const struct multitude *multitude);
bool multitude_is_done(const struct multitude *multitude);
bool multitude_has_names(const struct multitude *multitude);

struct multitude_figures multitude_now(const struct multitude *multitude);

/* True if a receiver watches a topic. */
bool multitude_watches(const struct multitude *multitude, uint32_t receiver, uint32_t topic);

/* Ends the program: a promise of the protocol is broken. */
__attribute__((noreturn)) void multitude_fail(const struct multitude *multitude, const char *what);

#endif
