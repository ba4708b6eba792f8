/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls from the engine and the API up to connections, which are built on them. A context has the table from
 * its first connection or listener on; until then the pointer is NULL and there is nothing to call.
 */
#ifndef LLI_UPCALLS_H
#define LLI_UPCALLS_H

#include "core/rx/rx_session.h"
#include "core/wire/wire.h"
#include "transport.h"

struct lli_endpoint;
struct lli_stats_visitor;
struct llm_context;

struct lli_upcalls {
    /*
     * Takes a packet of the types of docs/protocol.md section 13. Returns its fault; counts foreign packets.
     */
    enum lli_wire_fault (*input)(struct lli_endpoint *endpoint, const struct lli_in *in, lli_ns now);

    /*
     * Takes a unicast packet, perhaps for an accepted connection whose other side was not heard before.
     * False: it is not.
     */
    bool (*confirm)(struct lli_endpoint *endpoint, const struct lli_rx_packet *packet, lli_ns now);

    /* Returns true if a connection, its close or a pending request for one needs an address. */
    bool (*needs)(const struct lli_endpoint *endpoint, const struct lli_wire_address *address);

    /* The endpoint's address changed. */
    void (*moved)(const struct lli_endpoint *endpoint);

    /* Does what is due. Never inside an endpoint's loops: it may change the lists that they walk. */
    void (*service)(struct llm_context *context, lli_ns now);

    /* Closes all listeners and connections. */
    void (*close)(struct llm_context *context);

    /* Frees all of them in a child process, without their endpoints. */
    void (*release)(struct llm_context *context);

    /* Visits their counters. */
    void (*stats)(const struct llm_context *context, const struct lli_stats_visitor *visitor);
};

/*
 * Likewise, for stores: a context has the table from its first store on.
 */
struct lli_store_calls {
    /*
     * Does what is due, and what writes that ended allow, in each poll. Returns when the next is due; writes wake
     * a sleeper by their descriptors.
     */
    lli_ns (*service)(struct llm_context *context, lli_ns now);

    /* Adds the stores' descriptors to those that wake a sleeper: each of them by watch(). */
    int (*watch)(struct llm_context *context, int (*watch)(struct llm_context *context, int fd));

    /* Closes all stores. */
    void (*close)(struct llm_context *context);

    /* Frees all of them in a child process, without their receivers. */
    void (*release)(struct llm_context *context);

    /* Visits their counters. */
    void (*stats)(const struct llm_context *context, const struct lli_stats_visitor *visitor);
};

/*
 * Likewise, for members of failover groups: a context has the table from its first member on.
 */
struct lli_failover_calls {
    /* Fences primaries whose lease has expired, before a poll sends anything. */
    void (*expire)(struct llm_context *context, lli_ns now);

    /* Does what is due, in each poll. Returns when the next is due. */
    lli_ns (*service)(struct llm_context *context, lli_ns now);

    /* Closes all of them. */
    void (*close)(struct llm_context *context);

    /* Frees all of them in a child process, without their receivers. */
    void (*release)(struct llm_context *context);

    /* Visits their counters. */
    void (*stats)(const struct llm_context *context, const struct lli_stats_visitor *visitor);
};

#endif
