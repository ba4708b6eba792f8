/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport contract: everything the library asks of a network. registry.h lists the transports that there are.
 *
 * A transport moves packets of up to caps.payload_max bytes to groups and to peers. It does not know the protocol: it never
 * fragments, never retries, never orders, and may lose, repeat and reorder. One instance is one queue of one thread: its
 * functions are never called concurrently.
 *
 * Control operations may block and allocate. On failure they log one line that names the value and the remedy, and return a
 * negative LLM_E code. Data operations never block, allocate or log; "took k of n" is not an error.
 *
 * To add a transport: one directory under transports/ with one const struct lli_transport, one line in registry.c, and the
 * contract suite (tests/contract.c) passing over it.
 */
#ifndef LLI_TRANSPORT_H
#define LLI_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/llm.h>

#include "system/log.h"

/* An address of an instance, opaque to everybody but its transport; carried in packets, so free of pointers. */
struct lli_address {
    uint8_t size; /* bytes in use, 0: none */
    uint8_t bytes[31];
};

/*
 * A group as the channel names it. Where a transport has it, one instance can stand in its place: the host is the address of a
 * host then, joined to receive by the one that has the address, and to send by all others.
 */
struct lli_group {
    const char *host; /* "239.192.1.1", "ff15::1" (without brackets), or a name; what it means is the transport's affair */
    uint16_t port;
    const struct llm_options *options; /* those of the channel: ttl, loop, source, rcvbuf_bytes, ...; valid during the call */
};

enum lli_join_mode { LLI_JOIN_SEND = 1, LLI_JOIN_RECEIVE = 2 };

/* Where a packet goes or came in: a handle given by join() or peer(), valid until leave(), forget() or close(). */
typedef uint32_t lli_handle;

/* As lli_in.from: the packet was sent to this instance's own address, not to a group. */
#define LLI_HANDLE_UNICAST ((lli_handle)UINT32_MAX)

enum lli_cap_flags {
    LLI_CAP_TX_COPIES = 1, /* what post() took is reaped by the time flush() returns */
    LLI_CAP_UNICAST = 2,   /* address() and peer() work */
    LLI_CAP_PARTIAL = 4,   /* receive() may give fewer than there are; it costs little where there is nothing */
};

/* What an instance can do; filled by open(). */
struct lli_caps {
    uint32_t payload_max; /* bytes of the largest packet that can be sent */
    uint32_t post_max;    /* packets that fit between two flushes */
    uint32_t train_max;   /* packets of full size that leave as one if they are posted one behind the other; 1: none do */
    uint32_t headroom;    /* bytes before each packet that the transport may write when it sends */
    uint32_t align;       /* packets should start at multiples of this; a power of two */
    uint32_t slot_max;    /* bytes of slot(); 0: there is none */
    uint32_t flags;       /* of enum lli_cap_flags */
    int numa_node;        /* of the device, -1 if unknown */
};

/* A packet to send. The memory stays untouched until it is reaped. */
struct lli_out {
    const uint8_t *data;
    uint32_t size;
    lli_handle to; /* a group joined to send, or a peer */
};

/* A received packet, lent until release(). */
struct lli_in {
    const uint8_t *data;
    uint32_t size;
    lli_handle from;   /* the group it was sent to, or LLI_HANDLE_UNICAST */
    uint64_t buffer;   /* the transport's own note, for release(), below 2^63: the bit above is for one that is made of others */
    uint64_t stamp_ns; /* CLOCK_REALTIME of arrival, 0 if not known */
};

/* A counter of an instance: its name and where it stands. Static table, ended by a NULL name. */
struct lli_counter {
    const char *name;
    size_t offset; /* of a uint64_t in the instance */
};

/* Memory that a transport gives for what is sent to a group. */
struct lli_region {
    uint8_t *base;
    _Atomic uint64_t *edge; /* the ring of packets in it is written up to there, see history.h; the sender's to keep */
};

struct lli_transport;

/* The transports of this build, as decorators ask for those that they stand upon. */
struct lli_registry {
    const struct lli_transport *(*find)(const char *scheme); /* NULL: there is none */
    bool (*is_named)(const char *scheme);                    /* its groups need no port */
};

struct lli_transport_config {
    const char *scheme;                /* as the channel wrote it: the decorator finds its inner transport by it */
    const char *host;                  /* of the channel that needed the instance first: tells the address family */
    const struct llm_options *options; /* of the channel that needed the instance first; valid during open() */
    const struct lli_registry *registry;
    const struct lli_log *log;         /* valid while the instance is open */
    const struct lli_address *address; /* of the instance on the network, if it has one: one on the same host derives its own */
    uint32_t size_at; /* where in every packet its size stands, 16 bits, little-endian: tells apart what came merged. 0: nowhere */
};

struct lli_transport {
    const char *scheme;
    bool named;  /* groups are names: a port may follow, or not */
    size_t size; /* of an instance; the library allocates it, zeroed and aligned to 64 bytes */
    const struct lli_counter *counters;

    /* ------------------------------------------------------------------ control */

    /* Opens an instance. On failure nothing is left behind and close() is not called. */
    int (*open)(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
    /* Leaves all groups, forgets all peers, frees everything but the instance itself. */
    void (*close)(void *instance);
    /*
     * The same in a child process, where fork() left a copy: gives back memory and descriptors of this process, and changes nothing
     * that the parent has. No packet leaves; no name, lock, registration or setting is removed; nothing is written to shared memory;
     * no mutex is taken and no thread joined, which another thread may have had. Not NULL.
     */
    void (*abandon)(void *instance);
    /* Declares memory from which packets will be posted. May be NULL: any memory will do. */
    int (*region)(void *instance, void *base, size_t size);
    /*
     * Memory for a ring of so many bytes of packets, where those who joined the group read it in place; given back by
     * region_end(). One for each join to send. May be NULL, or leave region->base NULL: any memory will do.
     */
    int (*region_map)(void *instance, lli_handle to, size_t size, struct lli_region *region);
    /* The memory is about to go: packets in it that are still queued are lost, those that are being read are waited for. */
    void (*region_end)(void *instance, void *base, size_t size);
    /*
     * Joins a group to send to it or to receive from it. The same group may be joined for both, and several times for each;
     * every join is left on its own. Two joins to receive the same group on one instance get the same handle. Handles of the
     * two modes are numbered apart.
     */
    int (*join)(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
    void (*leave)(void *instance, lli_handle handle, enum lli_join_mode mode);
    /* The address under which others reach this instance by unicast. */
    int (*address)(void *instance, struct lli_address *address);
    /*
     * A handle for another instance's address. Never blocks, logs nothing (addresses come from the network), and answers
     *   0            the handle; from then on the same one for the same address, until forget().
     *   LLM_EAGAIN   not yet: it is being resolved, or could not be and is tried again, or its place is about to be given
     *                back. That is no refusal: who needs the address asks again, every millisecond or so, and decides when
     *                to give up. Some answer so the first time an address is asked for, others never; none does once it
     *                has given the handle.
     *   LLM_ELIMIT   there are as many addresses as may be: one has to be forgotten first.
     *   LLM_EINVAL   not an address, and it never will be.
     * One that was answered with 0 or LLM_EAGAIN takes a place, one of receivers_max + sessions_max or more, until forget().
     */
    int (*peer)(void *instance, const struct lli_address *address, lli_handle *handle);
    /*
     * The address is not needed any more, if it was, whatever peer() answered: its handle may be given to another, and what
     * is queued for it be lost, or go there. So flush first. May be NULL: addresses are kept until close().
     */
    void (*forget)(void *instance, const struct lli_address *address);
    /*
     * Logs what data operations, or a look at what the instance stands on, have found out that people should know, each once.
     * Called every second or so. NULL: there is nothing to find out.
     */
    void (*tell)(void *instance);
    /*
     * The next address that packets could not be sent to since the latest call; number: the errno that says why. False: there is no
     * other. An address is given once, however often sending fails between two calls. NULL: none is ever known of.
     */
    bool (*unreached)(void *instance, struct lli_address *address, int *number);
    /* Writes an address for people, as "10.0.0.1:5001". NULL: it has no other words than its bytes. */
    void (*describe)(const struct lli_address *address, char *text, size_t size);

    /*
     * Whether a packet that was received, and not released yet, came from the host that an address names, whatever its port. True where
     * that cannot be told, or cannot matter. Asked of packets other than data that announce an address; may be NULL.
     */
    bool (*came_from)(void *instance, const struct lli_in *packet, const struct lli_address *address);

    /* --------------------------------------------------------------------- data */

    /*
     * Where the next packet to a group joined to send will lie, for the caller to make it there: post_slot() posts it, of so many bytes,
     * and always takes it. If anything else is posted first, the slot is another. The bytes stay as they were posted, to be read,
     * until something else is posted. Where slot_at() says, until the group is left, it is kept where the slot lies, to be fetched before
     * it is asked for. All may be NULL.
     */
    uint8_t *(*slot)(void *instance, lli_handle to);
    void (*post_slot)(void *instance, lli_handle to, uint32_t size);
    const uint8_t *const *(*slot_at)(void *instance, lli_handle to);
    /*
     * Queues packets in order, or sends them; returns how many were taken, from the front. One over payload_max may be taken
     * and lost.
     */
    int (*post)(void *instance, const struct lli_out *packets, int count);
    /* Starts sending all that is queued. 0, or LLM_EAGAIN if some of it could not go yet: it stays queued, flush again. */
    int (*flush)(void *instance);
    /* How many packets, of all taken since open(), are done with: their memory may be reused. Counted in order. */
    uint64_t (*reap)(void *instance);
    /* Fetches up to max packets. Fewer: there are no more now; with LLI_CAP_PARTIAL none says so. */
    int (*receive)(void *instance, struct lli_in *packets, int max);
    /* Gives received packets back, in any order. */
    void (*release)(void *instance, const struct lli_in *packets, int count);
    /*
     * A descriptor that becomes readable when receive() has something or flush() may go on; armed until it fires. The
     * caller polls once more before it sleeps. The descriptor stays the same for the instance's life.
     */
    int (*arm)(void *instance);

    /*
     * True if packets may wait that receive() has not looked for, though it gave none. Asked seldom: it may cost a system call. NULL: none
     * wait when receive() gives none.
     */
    bool (*waiting)(const void *instance);

    /*
     * How many packets that came to the host found no room for this instance since the latest call, as far as can be known: brought
     * up to date, which may take system calls; at most so many where it is not sure. NULL: none are ever known of.
     */
    uint64_t (*drops)(void *instance);

    /* The transports below a decorator and their instances, by index, for statistics; NULL behind the last. NULL unless it is one. */
    const struct lli_transport *(*inner)(const void *instance, int index, const void **inner_instance);
};

#endif
