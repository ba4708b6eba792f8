/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses that an endpoint sends to. A transport has a limited table of them (transports/transport.h).
 * Entries are freed here: once a second those of departed members and ended sessions, and on demand the least
 * recently used. Addresses that packets cannot be sent to are logged, once each, and reported to the sessions
 * concerned.
 */
#ifndef LLI_REACH_H
#define LLI_REACH_H

#include "common/peers.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

struct lli_endpoint;

enum {
    /* Addresses reported as unreachable within LLI_REACH_PAUSE rounds; others are only counted. */
    LLI_REACH_FAILURES = 64,
    LLI_REACH_UNUSED_ROUNDS = 10, /* rounds for which an unneeded address stays after its latest use */
    LLI_REACH_PAUSE = 600,        /* rounds without a failure after which an address may be reported again */
};

/* An address in one of two lists, linked by index: needed by members or sessions, and others. */
struct lli_reach_place {
    uint32_t older;
    uint32_t newer;
    uint32_t used;  /* round of the latest use */
    uint32_t waits; /* round since which it cannot be resolved, 0: it can */
    bool needed;    /* the list that it is in */
    bool marked;    /* temporary, during a sweep */
};

struct lli_reach_list {
    uint32_t oldest;
    uint32_t newest;
};

struct lli_reach_failure {
    struct lli_address address;
    int number;     /* errno; 0: peer() refused the address */
    uint32_t round; /* of the latest failure */
    bool reported;
};

struct lli_reach {
    struct lli_peers peers;
    struct lli_reach_place *places;
    struct lli_reach_list lists[2]; /* indexed by needed */
    uint32_t known;                 /* addresses in both lists */
    uint32_t refused;               /* candidates for eviction since an address was freed; all were needed */
    uint32_t round;                 /* number of looks, about one a second; starts at 1 */
    lli_ns sweep_at;
    uint64_t departed; /* departed members and ended sessions, at the latest sweep */
    bool eviction_logged;
    bool full_logged;
    bool failures_overflow;
    bool failures_overflow_logged;
    uint32_t failures_untold;
    struct lli_reach_failure failures[LLI_REACH_FAILURES];
};

/* Allocates room for max addresses. LLM_ENOMEM; call fini() in any case. */
int lli_reach_init(struct lli_reach *reach, uint32_t max);
void lli_reach_fini(struct lli_reach *reach);

/*
 * As peer() of the transport; evicts the least recently used address where there is no room for another.
 * LLM_ELIMIT: none can be evicted, which is logged once if all are needed; or the transport is stuck.
 */
int lli_reach_peer(struct lli_endpoint *endpoint, const struct lli_wire_address *wire, lli_handle *handle);

/* Frees the entry of an address. Flush before. */
void lli_reach_forget(struct lli_endpoint *endpoint, const struct lli_wire_address *wire);

/*
 * Regular work: frees unneeded addresses, reports unreachable ones. False: there is nothing left to do
 * regularly.
 */
bool lli_reach_look(struct lli_endpoint *endpoint, lli_ns now);

#endif
