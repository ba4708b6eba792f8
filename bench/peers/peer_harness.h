/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same two works for every library that is measured beside libllm: the pace, the stamps, the counts and the report are here,
 * and a library comes in as five functions. A program is one end (near: sends and reports; far: receives, sends back) of one
 * measurement: one work, one size, one rate.
 *
 * The ends direct each other over a connection of their own that is silent while something is measured. Messages begin with
 * struct peer_header, in the reflector with struct peer_stamped, as in the benchmarks of libllm itself.
 */
#ifndef BENCH_PEER_HARNESS_H
#define BENCH_PEER_HARNESS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an end needs to know to open its two directions. */
struct harness_link {
    bool near;
    bool throughput;           /* else reflector */
    bool reads_all;            /* of each message that comes, not only what the measurement needs */
    uint64_t rate;             /* of the messages, reflector only */
    size_t size;               /* of every message */
    const char *variant;       /* which of its transports the library uses, as the command line says */
    const char *interface;     /* by name */
    const char *address;       /* of this end, IPv4 */
    const char *peer_address;  /* of the other */
    const char *directory;     /* for files of the library; empty, this end's alone */
    const char *common;        /* the same of both ends, which share memory then; "": there is a network between them */
    const char *send_group;    /* multicast groups of the two directions, IPv4; in memory, names */
    const char *receive_group;
    unsigned send_port;
    unsigned receive_port;
};

/* What the program does when there is nothing to do. A library whose threads share the core with it wants the core for them. */
enum harness_idle {
    HARNESS_SPIN,  /* polls again */
    HARNESS_YIELD, /* lets other threads run first */
    HARNESS_SLEEP, /* sleeps in wait() */
};

struct harness_peer {
    const char *name;
    unsigned batch; /* messages between two polls at full rate, all but the last with more */
    enum harness_idle idle_reflector; /* as measured: the one with the best figures */
    enum harness_idle idle_throughput;

    /* Opens both directions. 0, or -1 having said on stderr what is wrong. */
    int (*open)(const struct harness_link *link);

    /* Takes a message and sends it at once unless more follows at once. 1, or 0 if it cannot be taken now. */
    int (*send)(const void *data, size_t size, bool more);

    /* Sends what is due and gives what has come to harness_deliver(), then harness_delivered(). How many messages came. */
    int (*poll)(void);

    /* Sleeps until something may have come, a message can be taken again, or the time has come; see harness_sleep().
     * NULL: the idle_ are HARNESS_SPIN or HARNESS_YIELD. */
    void (*wait)(uint64_t until);

    /* Accepts what open() left half open. */
    void (*close)(void);
};

/* For poll(), or a thread of the library (one only): a message has come; it may be sent back before this returns. */
void harness_deliver(const void *data, size_t size);

/* No more messages at this time: notes when the last ones came. */
void harness_delivered(void);

/* Sleeps until a descriptor is ready or the time (of llm_clock()) has come. count may be 0. */
void harness_sleep(struct pollfd *fds, unsigned count, uint64_t until);

/* Whether something was not taken by send() since it was last taken: wait() has to look for room too. */
bool harness_is_refused(void);

/* For open(): another way to idle than the peer's own. What the command line says stands. */
void harness_prefer_idle(enum harness_idle idle);

/* Says on stderr which peer failed, in what, and why. Returns -1. */
int harness_fail(const char *what, const char *why);

/* The program. Returns the exit status. */
int harness_main(const struct harness_peer *peer, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
