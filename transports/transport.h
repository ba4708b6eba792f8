/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport interface between the library and a network. registry.h lists the transports of a build.
 *
 * A transport moves packets of up to caps.payload_max bytes to groups and to peers. It does not know the
 * protocol: it never fragments, retries or orders packets, and may lose, duplicate and reorder them. An
 * instance is a single queue used by a single thread: its functions are never called concurrently.
 *
 * Control operations may block and allocate. On failure they log one line with the offending value and the
 * remedy, and return a negative LLM_E code. Data operations never block, allocate or log; accepting k of n
 * packets is not an error.
 *
 * To add a transport: create a directory under transports/ with one const struct lli_transport, add a line to
 * registry.c, and pass the contract suite (tests/contract.c).
 */
#ifndef LLI_TRANSPORT_H
#define LLI_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/llm.h>

#include "option_table.h"
#include "core/base/types.h"
#include "system/log.h"

/*
 * Unicast address of an instance: opaque except to its transport. Carried in packets, so it contains no
 * pointers.
 */
struct lli_address {
    uint8_t size; /* bytes in use; 0: no address */
    uint8_t bytes[31];
};

/*
 * Group as named by the channel. Transports with unicast groups also accept the address of one host: the
 * instance that owns the address joins it to receive, all others join it to send.
 */
struct lli_group {
    /* "239.192.1.1", "ff15::1" (without brackets), or a name; interpreted by the transport */
    const char *host;
    uint16_t port;
    /* Channel options: ttl, loop, source, rcvbuf_bytes, ...; valid during the call. */
    const struct llm_options *options;
    /* Options of the transports that the scheme names; valid during the call. */
    const struct lli_option_values *values;
    bool shared; /* any number of instances may join to send, whatever the options say */
    /* Group on the second line of a channel of two lines, else NULL; valid during the call. */
    const struct lli_group *second;
};

enum lli_join_mode { LLI_JOIN_SEND = 1, LLI_JOIN_RECEIVE = 2 };

/*
 * Destination or origin of a packet. Returned by join() or peer(); valid until leave(), forget() or close().
 */
typedef uint32_t lli_handle;

/* Value of lli_in.from for a packet sent to this instance's unicast address. */
#define LLI_HANDLE_UNICAST ((lli_handle)UINT32_MAX)

enum lli_cap_flags {
    LLI_CAP_TX_COPIES = 1, /* packets taken by post() are reaped when flush() returns */
    LLI_CAP_UNICAST = 2,   /* address() and peer() are supported */
    LLI_CAP_PARTIAL = 4,   /* receive() may return fewer packets than are queued; an empty call is cheap */
    /*
     * A sender's packets to a group arrive in order, with gaps only where it overran a receiver: the last packet
     * before a pause is not lost.
     */
    LLI_CAP_ORDERED = 8,
};

/* Capabilities of an instance; filled by open(). */
struct lli_caps {
    uint32_t payload_max; /* largest packet that can be sent, in bytes */
    uint32_t post_max;    /* packets that can be posted between two flushes */
    /* Consecutively posted packets of full size that are sent as one; 1: trains are not supported. */
    uint32_t train_max;
    uint32_t headroom; /* bytes before each packet that the transport may overwrite when it sends */
    uint32_t align;    /* preferred alignment of packets; a power of two */
    uint32_t slot_max; /* bytes of slot(); 0: not supported */
    uint32_t flags;    /* combination of enum lli_cap_flags */
    int numa_node;     /* of the device; -1 if unknown */
};

/* Packet to send. Its memory must not change until the packet is reaped. */
struct lli_out {
    const uint8_t *data;
    uint32_t size;
    lli_handle to; /* a group joined to send, or a peer */
};

/* Received packet; its memory is valid until release(). */
struct lli_in {
    const uint8_t *data;
    uint32_t size;
    lli_handle from; /* the group it was sent to, or LLI_HANDLE_UNICAST */
    /* For the transport's own use in release(), below 2^62: bits 62 and 63 are reserved for decorators. */
    uint64_t buffer;
    uint64_t stamp_ns; /* arrival time on CLOCK_REALTIME; 0 if unknown */
    /*
     * Valid after ask() of struct lli_excerpt_calls. Not NULL: the transport has the packet, and data only its first
     * LLI_EXCERPT_HEAD bytes, until fetch(). The outline says what the packet has.
     */
    const struct lli_outline *outline;
};

enum {
    LLI_EXCERPT_HEAD = 64,
    LLI_OUTLINE_BYTES = 2048, /* longest outline */
};

/* Outline of a packet, as the sender made it; opaque to the transport. */
struct lli_outline {
    uint32_t size;
    const uint8_t *bytes; /* aligned to 8 */
};

/* Counter of an instance. The table is static and ends with a NULL name. */
struct lli_counter {
    const char *name;
    size_t offset; /* offset of a uint64_t in the instance */
};

/* Packet memory supplied by a transport for sending to a group. */
struct lli_region {
    uint8_t *base;
    /* End of the packets written to the ring, see history.h; updated by the transmitter. */
    _Atomic uint64_t *edge;
    const uint8_t *const *slot; /* variable that points to slot(), for prefetching; NULL: there is none */
};

struct lli_transport;

/* Transports of this build; decorators use it to find the transports below them. */
struct lli_registry {
    const struct lli_transport *(*find)(const char *scheme); /* NULL: not in this build */
    bool (*is_named)(const char *scheme);                    /* true if groups of the scheme need no port */
};

struct lli_transport_config {
    /* As written in the channel; a decorator derives its inner transport from it. */
    const char *scheme;
    /* Of the first channel that needs the instance; selects the address family. */
    const char *host;
    const struct llm_options *options; /* of the first channel that needs the instance; valid during open() */
    /* Options of the transports that the scheme names; valid during open() */
    const struct lli_option_values *values;
    const struct lli_registry *registry;
    const struct lli_log *log; /* valid while the instance is open */
    /* Of the network part of a hybrid transport, else NULL; the other part derives its own from it. */
    const struct lli_address *address;
    /* Of the second line of a channel of two lines, else NULL; valid during open(). */
    const struct lli_transport_config *second;
    /* Offset of the 16-bit little-endian size in every packet; used to split merged packets; 0: none. */
    uint32_t size_at;
};

enum { LLI_LINES_MAX = 2 };

/*
 * Calls of a transport that sends on two lines. Every line has an address of its own, at which the instance is
 * reached over that line, so packets that announce it differ from line to line.
 */
struct lli_line_calls {
    /* Returns the address at which peers reach this instance over a line. That of line 0 is address(). */
    int (*address)(void *instance, int line, struct lli_address *address);
    /* Returns the handle by which packets to a group are sent on one line only. */
    lli_handle (*narrow)(lli_handle group, int line);
    /* Returns the line by which a peer is reached; -1: the handle is one of a group. */
    int (*line_to)(const void *instance, lli_handle to);
    /* Returns the line on which a packet arrived that is not released yet. */
    int (*line_of)(const void *instance, const struct lli_in *packet);
    /* Notes that this packet announced this address, which is reached over the line that it came on. */
    void (*announced)(void *instance, const struct lli_in *packet, const struct lli_address *address);
};

typedef uint32_t lli_outline_maker(const uint8_t *packet, uint32_t size, void *bytes, uint32_t max);

/* Calls of a transport whose receivers may copy parts of a packet instead of all of it. */
struct lli_excerpt_calls {
    /*
     * Sets the function that makes outlines of packets that this instance sends, of at most max bytes; it returns
     * the size, 0: none.
     */
    void (*enable)(void *instance, lli_outline_maker *outline);
    /*
     * Asks the senders to the groups joined, now and later, for outlines: this instance needs parts of packets only.
     * From now on receive() may return packets that have to be fetched.
     */
    void (*ask)(void *instance);
    /*
     * Copies pieces of a received packet with an outline, one after the other, to its memory. False: the packet was
     * overwritten before. The packet may be fetched once, before it is released.
     */
    bool (*fetch)(void *instance, const struct lli_in *packet, const struct lli_piece *pieces,
                  uint32_t count);
};

struct lli_transport {
    const char *scheme;
    bool named;  /* groups are names; a port is optional */
    size_t size; /* size of an instance; the library allocates it, zeroed and aligned to 64 bytes */
    const struct lli_counter *counters;
    const struct lli_option_table *options; /* options of this transport alone; NULL: none */
    const char *const *gauges; /* names of the counters that go up and down, ended by NULL; NULL: none do */

    /* ------------------------------------------------------------------ control */

    /* Opens an instance. On failure it releases everything, and close() is not called. */
    int (*open)(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
    /* Leaves all groups, forgets all peers, and frees everything except the instance itself. */
    void (*close)(void *instance);
    /*
     * Releases the copy of an instance that fork() left in a child process: frees its memory and descriptors
     * and leaves the parent's instance unchanged. Sends no packet; removes no name, lock, registration or
     * setting; does not write to shared memory; takes no mutex and joins no thread, because another thread of
     * the parent may have used them. Never NULL.
     */
    void (*abandon)(void *instance);
    /* Declares memory from which packets will be posted. NULL: packets may be posted from any memory. */
    int (*region)(void *instance, void *base, size_t size);
    /*
     * Supplies a packet ring of the given size that receivers of the group read in place; released by
     * region_end(). One per join to send. May be NULL, or may leave region->base NULL: packets may then be
     * posted from any memory.
     */
    int (*region_map)(void *instance, lli_handle to, size_t size, struct lli_region *region);
    /*
     * Announces the release of packet memory: drops queued packets in it, and waits for those that the device
     * is reading.
     */
    void (*region_end)(void *instance, void *base, size_t size);
    /*
     * Joins a group to send to it or to receive from it. A group may be joined in both modes and more than
     * once in each; every join needs its own leave(). Repeated receive joins of a group on an instance return
     * the same handle. Handles of the two modes are numbered independently.
     */
    int (*join)(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
    void (*leave)(void *instance, lli_handle handle, enum lli_join_mode mode);
    /* Returns the address at which peers reach this instance by unicast. */
    int (*address)(void *instance, struct lli_address *address);
    /*
     * Returns a handle for the address of another instance. Never blocks and never logs, because addresses
     * come from the network. Returns
     *   0            the handle; later calls return the same handle for the address, until forget().
     *   LLM_EAGAIN   not available yet: the address is being resolved, resolution failed and is retried, or its entry
     *                is being freed. Not a refusal: the caller retries about every millisecond and decides when to give
     *                up. Some transports return it on the first call for an address, others never; none returns it after
     *                it has returned the handle.
     *   LLM_ELIMIT   the address table is full: an address must be forgotten first.
     *   LLM_EINVAL   not a valid address; permanent.
     * An address that was answered with 0 or LLM_EAGAIN occupies a table entry until forget(). The table has
     * at least receivers_max + sessions_max entries.
     */
    int (*peer)(void *instance, const struct lli_address *address, lli_handle *handle);
    /*
     * Releases the table entry of an address, if it has one, whatever peer() returned. Its handle may be
     * reused, so packets still queued for it may be lost or sent to another peer: flush first. NULL:
     * addresses remain until close().
     */
    void (*forget)(void *instance, const struct lli_address *address);
    /*
     * Logs deferred diagnostics, each once: problems found by data operations, and changes of the underlying
     * interface or device. Called about once a second, after those of the transports below. NULL: the
     * transport has none.
     */
    void (*report)(void *instance);
    /*
     * Returns the next address to which sending failed since the previous call, and the errno of the failure
     * in number. False: there are no more. An address is returned once however often sending to it failed.
     * NULL: failures are unknown.
     */
    bool (*unreached)(void *instance, struct lli_address *address, int *number);
    /* Formats an address as text, such as "10.0.0.1:5001". NULL: there is no text form; print the bytes. */
    void (*describe)(const struct lli_address *address, char *text, size_t size);

    /*
     * Returns true if a received packet, not yet released, came from the host of the address, on any port;
     * also if the origin is unknown or irrelevant. Called for packets other than data that announce an
     * address. May be NULL.
     */
    bool (*came_from)(void *instance, const struct lli_in *packet, const struct lli_address *address);

    /* --------------------------------------------------------------------- data */

    /*
     * Sends single packets without a copy: slot() returns the memory of the next packet to a group joined to
     * send, for the caller to write in place; post_slot() posts size bytes of it, always succeeds, and
     * returns the address of the slot after it, for prefetching only. Posting anything else in between moves
     * the slot. The bytes remain readable until the next post. Both may be NULL.
     */
    uint8_t *(*slot)(void *instance, lli_handle to);
    void (*post_slot)(void *instance, lli_handle to, uint32_t size);
    /*
     * Queues or sends packets in order. Returns the number taken, from the first. A packet larger than
     * payload_max may be taken and lost.
     */
    int (*post)(void *instance, const struct lli_out *packets, int count);
    /*
     * Starts sending all queued packets. Returns 0, or LLM_EAGAIN if some remain queued: flush again later.
     */
    int (*flush)(void *instance);
    /*
     * Returns the number of packets completed since open(), in order of posting. Their memory may be reused.
     */
    uint64_t (*reap)(void *instance);
    /*
     * Receives up to max packets. Fewer than max: the queue is empty; with LLI_CAP_PARTIAL, only 0 means
     * empty.
     */
    int (*receive)(void *instance, struct lli_in *packets, int max);
    /* Returns received packets to the transport, in any order. */
    void (*release)(void *instance, const struct lli_in *packets, int count);
    /*
     * Returns a descriptor that becomes readable when receive() has packets or flush() can continue; armed
     * until it fires. The caller polls once more before it sleeps. The descriptor stays the same for the life
     * of the instance.
     */
    int (*arm)(void *instance);

    /*
     * Returns true if packets may be queued that the last empty receive() did not check for. Called rarely:
     * it may take a system call. NULL: an empty receive() means that none are queued.
     */
    bool (*waiting)(const void *instance);

    /*
     * Returns an estimate of the packets that reached the host but were dropped for lack of buffer space
     * since the previous call: exact where known, otherwise an upper bound. May take system calls. NULL:
     * drops are unknown.
     */
    uint64_t (*drops)(void *instance);

    /*
     * Returns the index-th transport below a decorator, and its instance, for statistics; NULL after the
     * last. NULL unless the transport is a decorator.
     */
    const struct lli_transport *(*inner)(const void *instance, int index, const void **inner_instance);

    const struct lli_line_calls *lines;       /* NULL: one line */
    const struct lli_excerpt_calls *excerpts; /* NULL: packets are received whole */
};

#endif
