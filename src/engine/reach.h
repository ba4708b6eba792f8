/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses that an endpoint sends to. A transport has places for so many (transports/transport.h), which are given back here: once a
 * second those of members and sessions that are gone, and at need that of the least recently used. Addresses that packets cannot be
 * sent to are logged, once each, and told to the sessions concerned.
 */
#ifndef LLI_REACH_H
#define LLI_REACH_H

#include "common/peers.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

struct lli_endpoint;

enum {
    LLI_REACH_FAILURES = 64, /* addresses told as unreachable within LLI_REACH_PAUSE rounds; the others are only counted */
    LLI_REACH_KEPT = 10,     /* rounds for which an address that nobody needs is kept after its latest use */
    LLI_REACH_PAUSE = 600,   /* rounds without a failure after which an address may be told again */
};

/* An address in one of two lists, linked by place: those that members and sessions need, and the others. */
struct lli_reach_place {
    uint32_t older;
    uint32_t newer;
    uint32_t used;  /* round of the latest use */
    uint32_t waits; /* round since which it cannot be resolved, 0: it can */
    bool needed;    /* the list that it is in */
    bool marked;    /* during a sweep */
};

struct lli_reach_list {
    uint32_t oldest;
    uint32_t newest;
};

struct lli_reach_failure {
    struct lli_address address;
    int number;     /* errno; 0: peer() refused the address */
    uint32_t round; /* of the latest failure */
    bool told;
};

struct lli_reach {
    struct lli_peers peers;
    struct lli_reach_place *places;
    struct lli_reach_list lists[2]; /* by needed */
    uint32_t known;    /* addresses in both lists */
    uint32_t round;    /* looks so far, one a second or so; starts at 1 */
    lli_ns sweep_at;
    uint64_t departed; /* members and sessions gone, as of the latest sweep */
    bool eviction_told;
    bool failures_overflow;
    bool failures_overflow_told;
    uint32_t failures_untold;
    struct lli_reach_failure failures[LLI_REACH_FAILURES];
};

/* Room for so many addresses. LLM_ENOMEM; fini() is due in any case. */
int lli_reach_init(struct lli_reach *reach, uint32_t max);
void lli_reach_fini(struct lli_reach *reach);

/* As peer() of the transport; evicts the least recently used address where there is no place for another. */
int lli_reach_peer(struct lli_endpoint *endpoint, const struct lli_wire_address *wire, lli_handle *handle);

/* Gives the place of an address back. Flush before. */
void lli_reach_forget(struct lli_endpoint *endpoint, const struct lli_wire_address *wire);

/* The regular look: forgets what nobody needs, tells what cannot be reached. False: there is nothing to look after. */
bool lli_reach_look(struct lli_endpoint *endpoint, lli_ns now);

#endif
