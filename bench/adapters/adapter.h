/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters are what is measured: libllm, the transports that carry its packets bare, and other libraries. The
 * pace, the stamps, the counts and the link to the runner are in engine/ends.c, the same for all.
 */
#ifndef BENCH_ADAPTER_H
#define BENCH_ADAPTER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Places of the two directions of an end. Texts are "" if the runner did not say them. */
struct adapter_link {
    bool near;
    bool throughput;          /* else reflector; of other libraries, whose ends do one work */
    bool reads_all;           /* of each message that comes, not only what the measurement needs */
    bool small;               /* the way back carries next to nothing */
    uint64_t rate;            /* of the messages, reflector only */
    size_t size;              /* of every message; 0: it changes */
    const char *variant;      /* which of its transports the library uses */
    const char *interface;    /* by name */
    const char *address;      /* of this end, IPv4 */
    const char *peer_address; /* of the other */
    const char *directory;    /* for files of the library; empty, this end's alone */
    /* The same of both ends, which share memory then; "": there is a network between them. */
    const char *common;
    const char *send_group; /* multicast groups of the two directions, IPv4; in memory, names */
    const char *receive_group;
    unsigned send_port;
    unsigned receive_port;
    const char *send; /* channels of libllm */
    const char *receive;
    const char *raw_send; /* and those of what is measured bare */
    const char *raw_receive;
};

/* What to do while idle. A library whose threads share the core wants the core for them. */
enum adapter_idle {
    ADAPTER_SPIN,  /* polls again; what adapters do that say nothing else */
    ADAPTER_YIELD, /* lets other threads run first */
    ADAPTER_SLEEP, /* sleeps in wait() */
};

struct adapter {
    const char *name;
    unsigned batch; /* messages between two polls at full rate, all but the last with more */
    enum adapter_idle idle_reflector; /* as measured: the one with the best figures */
    enum adapter_idle idle_throughput;

    /* Opens both directions. 0, or -1 having said on stderr what is wrong. */
    int (*open)(const struct adapter_link *link);

    /* Takes a message and sends it at once unless more follows at once. 1, or 0 if it cannot be taken now. */
    int (*send)(const void *data, size_t size, bool more);

    /* Sends what is due, and gives what came to adapter_deliver(), then adapter_delivered(). Returns messages. */
    int (*poll)(void);

    /* Sleeps until something may have come, a message can be taken again, or the time has come; see adapter_sleep().
     * NULL: the idle_ are ADAPTER_SPIN or ADAPTER_YIELD. */
    void (*wait)(uint64_t until);

    /* Accepts what open() left half open. */
    void (*close)(void);

    /* The rest may be NULL. A measurement begins; packed: messages due at once share datagrams. */
    void (*begin)(size_t size, bool packed);

    /* Sends so many messages with others: message number n begins at pattern + n modulo 256. Returns how many were taken. The other side
     * is told the numbers by adapter_deliver_numbered(), and the engine writes none. */
    uint64_t (*pump)(const uint8_t *pattern, size_t size, uint64_t count);

    /* Has messages take turns on so many topics. */
    void (*topics)(uint64_t count);

    /* A counter of what sends, 0 if there is none of the name. */
    uint64_t (*counter)(const char *name);

    /* Writes an object of counters into the answer. */
    void (*counters)(void);
};

/* For poll(), or one thread of the library: a message has come. It may be sent back from within. */
void adapter_deliver(const void *data, size_t size);

/* Of libraries that number messages in the order sent. */
void adapter_deliver_numbered(const void *data, size_t size, uint64_t number);

/* No more messages at this time: notes when the last ones came. */
void adapter_delivered(void);

/* Sleeps until a descriptor is ready or the time (of llm_clock()) has come. count may be 0. */
void adapter_sleep(struct pollfd *fds, unsigned count, uint64_t until);

/* True if send() refused the last message: wait() has to look for room too. */
bool adapter_is_refused(void);

/* For open(): another way to idle than the adapter's own. */
void adapter_prefer_idle(enum adapter_idle idle);

/* Says on stderr which adapter failed, in what, and why. Returns -1. */
int adapter_fail(const char *what, const char *why);

extern const struct adapter adapter_llm;
extern const struct adapter adapter_bare;
extern const struct adapter adapter_requests; /* over a connection of libllm */

/*
 * The two ends of hops and rates, over any adapter: near sends and takes times, far sends back or counts.
 * Opens up to two adapters, of which the second needs channels of its own, and serves requests until there are
 * no more.
 */
struct control;
int ends_run(const struct control *control, const struct adapter *first, const struct adapter *second);

extern const struct adapter adapter_peer; /* another library, with a program of its own (peer.c) */

#ifdef __cplusplus
}
#endif

#endif
