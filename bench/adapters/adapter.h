/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters: one for each system under measurement (libllm, bare transports, other libraries). Pacing, time
 * stamps, counts and the link to the runner are common to all, in engine/ends.c.
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

/* Addresses of the two directions of an end. Texts that the runner did not set are "". */
struct adapter_link {
    bool near;
    bool throughput;          /* false: reflector; for other libraries, whose ends do one kind of work only */
    bool reads_all;           /* read every byte of a received message, not only the stamps */
    bool small;               /* the return direction carries almost nothing */
    uint64_t rate;            /* messages a second, reflector only */
    size_t size;              /* bytes of every message; 0: it varies */
    const char *variant;      /* transport of the library, if it has several */
    const char *interface;    /* network interface */
    const char *address;      /* IPv4 address of this end */
    const char *peer_address; /* IPv4 address of the other end */
    const char *directory;    /* empty directory for the library's files, private to this end */
    /* Directory that both ends share, for shared memory; "": a network is between the ends. */
    const char *common;
    const char *send_group; /* IPv4 multicast groups of the two directions; for shared memory, names */
    const char *receive_group;
    unsigned send_port;
    unsigned receive_port;
    const char *send; /* channels of libllm */
    const char *receive;
    const char *raw_send; /* channels of the bare transport */
    const char *raw_receive;
    const char *raw_aead; /* back end that seals each bare datagram; "": they are in clear */
    const char *raw_suite;
    unsigned index;  /* number of this process on its side */
    unsigned others; /* processes on the other side */
    /* First four bytes of wanted messages; NULL: all. A library without such a filter delivers more. */
    const uint32_t *prefixes;
    size_t prefix_count;
};

/* Idle behaviour. A library with threads of its own needs the core for them. */
enum adapter_idle {
    ADAPTER_SPIN,  /* polls again; the default */
    ADAPTER_YIELD, /* yields the core to other threads first */
    ADAPTER_SLEEP, /* sleeps in wait() */
};

struct adapter {
    const char *name;
    unsigned batch; /* messages between two polls at full rate, all but the last sent with `more` */
    enum adapter_idle idle_reflector; /* idle behaviour with the best measured figures */
    enum adapter_idle idle_throughput;

    /* Opens both directions. Returns 0, or -1 after printing the error to stderr. */
    int (*open)(const struct adapter_link *link);

    /* Takes a message; sends it at once unless more is true. Returns 1, or 0 if the message is refused. */
    int (*send)(const void *data, size_t size, bool more);

    /* Sends due packets; passes received messages to adapter_deliver(), then calls adapter_delivered().
     * Returns the number of messages. */
    int (*poll)(void);

    /* Sleeps until a message may have arrived, sending may be possible again, or the time is reached; see
     * adapter_sleep(). NULL if no idle_ field is ADAPTER_SLEEP. */
    void (*wait)(uint64_t until);

    /* Accepts a partly opened adapter. */
    void (*close)(void);

    /* Optional from here on (NULL). Starts a measurement; packed: messages due together share datagrams. */
    void (*begin)(size_t size, bool packed);

    /* Sends up to count messages in batches; message n starts at pattern + n modulo 256. Returns how many
     * were accepted. Their numbers arrive by adapter_deliver_numbered(); the engine writes none. */
    uint64_t (*pump)(const uint8_t *pattern, size_t size, uint64_t count);

    /* Distributes messages over so many topics, in turn. */
    void (*topics)(uint64_t count);

    /* A counter of the sending side; 0 if the name is unknown. */
    uint64_t (*counter)(const char *name);

    /* Writes counters as a JSON object into the answer. */
    void (*counters)(void);
};

/* Reports a received message, from poll() or one thread of the library. The callee may send it back. */
void adapter_deliver(const void *data, size_t size);

/* The same, for libraries that number messages in sending order. */
void adapter_deliver_numbered(const void *data, size_t size, uint64_t number);

/* Ends a batch of deliveries: records the arrival time of its last messages. */
void adapter_delivered(void);

/* Reads the words of a command line. near: the end that sends first. */
struct control;
struct adapter_link adapter_link_of(const struct control *control, bool near);

/* Sleeps until a descriptor is ready or llm_clock() reaches the time. count may be 0. */
void adapter_sleep(struct pollfd *fds, unsigned count, uint64_t until);

/* True if send() refused the last message: wait() then has to wait for space too. */
bool adapter_is_refused(void);

/* Replaces the adapter's idle behaviour; for open(). */
void adapter_prefer_idle(enum adapter_idle idle);

/* Prints the adapter, the failed step and the reason to stderr. Returns -1. */
int adapter_fail(const char *what, const char *why);

extern const struct adapter adapter_llm;
extern const struct adapter adapter_bare;
extern const struct adapter adapter_requests; /* requests over a connection of libllm */

/*
 * Runs an end for latency and rate measurements, over any adapter: the near end sends and measures, the far
 * end sends back or counts. Opens up to two adapters, the second with channels of its own, and serves
 * requests until their end.
 */
int ends_run(const struct control *control, const struct adapter *first, const struct adapter *second);

extern const struct adapter adapter_peer; /* another library, in a program of its own (peer.c) */

#ifdef __cplusplus
}
#endif

#endif
