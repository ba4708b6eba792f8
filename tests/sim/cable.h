/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole contexts of the library in virtual time, on a network that the test holds in its hands. Each node is
 * a context and an application above it, by a clock of its own; it sleeps until a packet comes or something
 * is due, unless it is away. What happens, and when, is decided by the seed alone: the clock, the random
 * numbers and the transport are the test's, and time stands still while the library computes.
 *
 * What the other simulator (world.h) runs is the core; here it is what applications call.
 */
#ifndef SIM_CABLE_H
#define SIM_CABLE_H

#include <llm/llm.h>

#include "events.h"

#define CABLE_US ((lli_ns)1000)
#define CABLE_MS ((lli_ns)1000000)
#define CABLE_S ((lli_ns)1000000000)

/* The channel's scheme, and the largest packet. */
#define CABLE_SCHEME "cable"
enum { CABLE_NODES_MAX = 16, CABLE_PACKET_MAX = 1472, CABLE_NOBODY = UINT16_MAX, CABLE_GROUP = UINT16_MAX };

/* A node as the network knows it. What is lost and delayed concerns packets on their way to it. */
struct cable_node {
    bool dead;      /* nothing comes and nothing leaves, and it has no turn */
    bool asleep;    /* a packet wakes it */
    bool blocked;   /* its transport takes nothing */
    lli_ns clock;   /* ahead of the world's time */
    lli_ns turn_at; /* its application has the next turn, by the world's time */
    uint32_t loss;  /* parts per million, as the next two */
    uint32_t duplicate;
    uint32_t reorder;
    lli_ns delay;
    lli_ns delay_more; /* up to this; those that are reordered up to ten times that more */
    lli_ns cut_until;
    uint32_t inbox_max;
    /* Counted. */
    uint64_t lost;
    uint64_t dropped;
    uint64_t dropped_away; /* of these, while it was not asleep */
};

/* What the test does, and wants to see. Those that may be NULL say so. */
struct cable_test {
    void (*turn)(uint32_t node); /* sets asleep and turn_at */
    /* NULL; to may be CABLE_GROUP */
    void (*sent)(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t size);
    /* NULL; it gets this packet now */
    void (*took)(uint32_t node, const uint8_t *bytes, uint32_t size);
    /* NULL; beside what is lost by chance */
    bool (*loses)(uint32_t to, const uint8_t *bytes, uint32_t size);
};

extern struct cable {
    uint64_t seed;
    uint64_t random; /* of the test */
    lli_ns now;
    bool verbose;
    uint32_t nodes_count;
    struct cable_node nodes[CABLE_NODES_MAX];
} cable;

/* Begins with nothing, at some time. */
void cable_begin(uint64_t seed, const struct cable_test *test);

/* Another node, with a clean network and its first turn now. */
uint32_t cable_node_add(void);

/* A context for it. The options are changed. */
struct llm_context *cable_context(uint32_t node, struct llm_context_options *options);

/* Calls of the library from here on are this node's; of those in its turns they are anyway. */
void cable_as(uint32_t node);

/* The time by a node's clock, and back. */
static inline lli_ns cable_node_now(uint32_t node)
{
    return cable.now + cable.nodes[node].clock;
}

/* Time passes. */
void cable_run(lli_ns until);

/*
 * A packet that a node sends past its transport, which need not have one: to another node, or to CABLE_GROUP,
 * all that joined.
 */
void cable_inject(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t size);

/*
 * A call that may block follows, and is over: while it polls, time passes for all others. False: another node
 * is in one.
 */
bool cable_blocks(uint32_t node);
void cable_blocks_no_more(void);

/* Nothing is simulated any more: time flies, so that whatever lingers is over. Contexts are to be closed. */
void cable_end(void);
void cable_fini(void);

/*
 * The application has nothing to do: its next turn is when something is due, after so long, or when a packet
 * comes.
 */
void cable_sleep(uint32_t node, const struct llm_context *context, lli_ns nap);

/* Parts of numbers of the test: below, in a range, and by per cent. */
uint64_t cable_below(uint64_t limit);
uint64_t cable_between(uint64_t low, uint64_t high);
bool cable_chance(uint32_t percent);

/* Says what was violated, in which seed and when, and ends the program. */
__attribute__((noreturn, format(printf, 1, 2))) void cable_fail(const char *format, ...);
__attribute__((format(printf, 1, 2))) void cable_trace(const char *format, ...);

/* A call of the library that has to succeed. */
void cable_must(int error, const char *what);

/* The histories of each kind: runs one seed, to which there is nothing to say if it passes. */
void watch_run(uint64_t seed);
void requests_run(uint64_t seed);
void topics_run(uint64_t seed);
void shed_run(uint64_t seed);
void filters_run(uint64_t seed);
void closing_run(uint64_t seed);

/* What they have seen, for the last line. */
void watch_print(void);
void requests_print(void);
void topics_print(void);
void shed_print(void);
void filters_print(void);
void closing_print(void);

#endif
