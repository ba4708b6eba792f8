/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole contexts of the library in virtual time, on a network controlled by the test. Each node is a context
 * with an application, and has its own clock; it sleeps until a packet arrives or work is due, unless it is
 * away. The seed alone decides all events and their times: clock, random numbers and transport are the
 * test's, and time stands still while the library computes.
 *
 * The other simulator (world.h) runs the core; this one runs the calls of applications.
 */
#ifndef SIM_CABLE_H
#define SIM_CABLE_H

#include <llm/llm.h>

#include "events.h"

#define CABLE_US ((lli_ns)1000)
#define CABLE_MS ((lli_ns)1000000)
#define CABLE_S ((lli_ns)1000000000)
#define CABLE_CALENDAR ((lli_ns)1767225600 * CABLE_S) /* CLOCK_REALTIME at the world's time 0: 2026-01-01 */

/* Scheme of the channel, and maximum packet size. */
#define CABLE_SCHEME "cable"
enum { CABLE_NODES_MAX = 16, CABLE_PACKET_MAX = 1472, CABLE_NOBODY = UINT16_MAX, CABLE_GROUP = UINT16_MAX };

/* A node as the network knows it. Losses and delays apply to packets on their way to it. */
struct cable_node {
    bool dead;      /* nothing arrives and nothing leaves, and it has no turns */
    bool asleep;    /* an arriving packet wakes it */
    bool blocked;   /* its transport accepts nothing */
    lli_ns clock;   /* offset of its clock from the world's time */
    int64_t skew;   /* ns by which its calendar differs */
    lli_ns turn_at; /* time of its application's next turn, by the world's time */
    uint32_t loss;  /* parts per million, as are the next two */
    uint32_t duplicate;
    uint32_t reorder;
    lli_ns delay;
    lli_ns delay_more; /* maximum of the random delay; ten times that for reordered packets */
    lli_ns cut_until;
    uint32_t inbox_max;
    /* Counters. */
    uint64_t lost;
    uint64_t dropped;
    uint64_t dropped_away; /* of these, while it was not asleep */
};

/* Callbacks of a test. Those that may be NULL are marked. */
struct cable_test {
    void (*turn)(uint32_t node); /* runs the application; sets asleep and turn_at */
    /* NULL; to may be CABLE_GROUP */
    void (*sent)(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t size);
    /* NULL allowed; the node receives this packet now */
    void (*took)(uint32_t node, const uint8_t *bytes, uint32_t size);
    /* NULL allowed; adds losses to the random ones */
    bool (*loses)(uint32_t to, const uint8_t *bytes, uint32_t size);
};

extern struct cable {
    uint64_t seed;
    uint64_t random; /* of the test */
    lli_ns now;
    bool verbose;
    bool wraps; /* random numbers of the library are just below a multiple of 2^24 */
    uint32_t nodes_count;
    struct cable_node nodes[CABLE_NODES_MAX];
} cable;

/* Starts an empty world at an arbitrary time. */
void cable_begin(uint64_t seed, const struct cable_test *test);

/* Adds a node, with a network without faults and its first turn now. */
uint32_t cable_node_add(void);

/* Opens a context for a node. Changes the options. */
struct llm_context *cable_context(uint32_t node, struct llm_context_options *options);

/* Assigns the following calls of the library to this node; calls in its turns are assigned already. */
void cable_as(uint32_t node);

/* Converts between the world's time and a node's clock. */
static inline lli_ns cable_node_now(uint32_t node)
{
    return cable.now + cable.nodes[node].clock;
}

/* Runs the world until a time. */
void cable_run(lli_ns until);

/*
 * Sends a packet from a node past its transport, which it need not have: to another node, or to CABLE_GROUP,
 * all that joined.
 */
void cable_inject(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t size);

/*
 * Encloses a call that may block: while it polls, time passes for all other nodes. False: another node is in
 * one.
 */
bool cable_blocks(uint32_t node);
void cable_blocks_no_more(void);

/* Ends the simulation: time advances quickly, so that all lingering ends. Contexts are to be closed then. */
void cable_end(void);
void cable_fini(void);

/* Puts a node to sleep until work is due, this time has passed, or a packet arrives. */
void cable_sleep(uint32_t node, const struct llm_context *context, lli_ns nap);

/* Random numbers of the test: below a limit, in a range, and by per cent. */
uint64_t cable_below(uint64_t limit);
uint64_t cable_between(uint64_t low, uint64_t high);
bool cable_chance(uint32_t percent);

/* Reports a violation, with seed and time, and ends the program. */
__attribute__((noreturn, format(printf, 1, 2))) void cable_fail(const char *format, ...);
__attribute__((format(printf, 1, 2))) void cable_trace(const char *format, ...);

/* Fails unless a call of the library succeeded. */
void cable_must(int error, const char *what);

/* Histories of each kind: each runs one seed, and reports only violations. */
void watch_run(uint64_t seed);
void requests_run(uint64_t seed);
void topics_run(uint64_t seed);
void shed_run(uint64_t seed);
void filters_run(uint64_t seed);
void closing_run(uint64_t seed);
void merged_run(uint64_t seed);

/* Print the statistics of all seeds, for the last line. */
void watch_print(void);
void requests_print(void);
void topics_print(void);
void shed_print(void);
void filters_print(void);
void closing_print(void);
void merged_print(void);

#endif
