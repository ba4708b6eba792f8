/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The networks that the program which counts instructions sends over: bench/cost.c is linked with a table of
 * them.
 */
#ifndef BENCH_COST_H
#define BENCH_COST_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Heartbeats and reports stay away: they follow the time, not messages. The history is small, so that it is
 * full, as it is in any stream that lasts, before anything is counted.
 */
#define COST_OPTIONS                                                                                        \
    "history_bytes=1M&history_packets=1024&linger_ns=0&status_ns=60000000000&heartbeat_ns_min=10000000000&" \
    "heartbeat_ns_busy=10000000000&heartbeat_ns_max=10000000000&silence_ns=60000000000&session_timeout_ns=" \
    "600000000000"

enum cost_end { COST_NEAR, COST_FAR };

struct cost_network {
    const char *name;    /* of the channel's scheme */
    const char *channel; /* with %u for a port */
    uint32_t turn_max;   /* messages that may be under way; a multiple of 1000 */
    bool everything;     /* is counted, and not only what is compared between networks */
    /* Packets arrive in the kernel's own time, on a busy machine after the send has returned. */
    bool late;
    void (*open)(void); /* NULL: nothing is to be done */
    /*
     * An end was opened; it has its turn from now on: what the other one sent arrives. NULL: packets arrive
     * by themselves.
     */
    void (*opened)(enum cost_end end);
    void (*turn)(enum cost_end end);
};

/* Ended by one without a name. The first is the one that is counted unless another is asked for. */
extern const struct cost_network cost_networks[];

#endif
