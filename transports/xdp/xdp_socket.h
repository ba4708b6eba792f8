/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_XDP socket of one queue: its memory, and the four rings shared with the kernel.
 *
 * The memory is an array of chunks. Chunks below rx_chunks are for receiving: each belongs to the kernel (in
 * the fill ring, or filled in the receive ring) or is delivered and not yet released. The others are for
 * sending: each is free, or belongs to the kernel until the completion ring returns it.
 */
#ifndef LLI_XDP_SOCKET_H
#define LLI_XDP_SOCKET_H

#include <linux/if_xdp.h>

#include "common/ip.h"
#include "system/memory.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4) /* Linux 6.6 */
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

enum {
    LLI_XDP_TX_CHUNKS = 1024, /* of a sending socket; a power of two */
    LLI_XDP_CHUNK_SMALL = 2048,
    LLI_XDP_CHUNK_LARGE = 4096, /* a page: the largest size that every kernel accepts */
    LLI_XDP_HEADROOM = 256,     /* in the first chunk of a received frame: XDP_PACKET_HEADROOM */
    LLI_XDP_TAILROOM = 384,     /* reserved by drivers at the end of a page; veth reserves 320 */
};

/* One side of a ring: the shared indices, and cached values. */
struct lli_xdp_ring {
    uint32_t *producer;
    uint32_t *consumer;
    uint32_t *flags;
    void *entries;
    uint32_t mask;
    uint32_t put; /* entries produced so far */
    uint32_t got; /* entries consumed so far */
    void *base;
    size_t size;
};

struct lli_xdp_socket {
    int fd; /* -1: not open */
    uint32_t queue;
    uint32_t chunk_bytes; /* a power of two */
    uint32_t rx_chunks;
    uint8_t *chunks;
    struct lli_xdp_ring rx;
    struct lli_xdp_ring fill;
    struct lli_xdp_ring tx;
    struct lli_xdp_ring completion;
    uint32_t free_count;
    uint32_t free[LLI_XDP_TX_CHUNKS]; /* free chunks for sending */
    uint64_t drops_seen;              /* kernel's drop count at the latest reading */
    bool zero_copy;
    struct lli_memory memory;
};

struct lli_xdp_socket_config {
    const struct lli_log *log;
    const struct lli_ip_interface *interface;
    uint32_t queue;
    uint32_t chunk_bytes;
    uint32_t rx_chunks; /* a power of two */
    uint32_t tx_chunks; /* LLI_XDP_TX_CHUNKS, or 0: the socket does not send */
    uint16_t bind_flags;
    uint32_t busy_poll_us;
    int numa_node;
};

/* Opens the socket and binds it to its queue. fini() is required in any case. */
int lli_xdp_socket_init(struct lli_xdp_socket *self, const struct lli_xdp_socket_config *config);
void lli_xdp_socket_fini(struct lli_xdp_socket *socket);

/* Returns the frames that the kernel dropped for this socket since the previous call. */
uint64_t lli_xdp_socket_drops(struct lli_xdp_socket *socket);

/* -------------------------------------------------------------------------------------------------- rings */

static inline uint8_t *lli_xdp_chunk(const struct lli_xdp_socket *socket, uint32_t chunk)
{
    return socket->chunks + (size_t)chunk * socket->chunk_bytes;
}

static inline struct xdp_desc *lli_xdp_desc(const struct lli_xdp_ring *ring, uint32_t index)
{
    return (struct xdp_desc *)ring->entries + (index & ring->mask);
}

static inline uint64_t *lli_xdp_address(const struct lli_xdp_ring *ring, uint32_t index)
{
    return (uint64_t *)ring->entries + (index & ring->mask);
}

/* Returns the number of entries that the kernel has produced and we have not consumed. */
static inline uint32_t lli_xdp_ring_ready(const struct lli_xdp_ring *ring)
{
    return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - ring->got;
}

/* Returns the number of entries that the kernel has not consumed. */
static inline uint32_t lli_xdp_ring_waiting(const struct lli_xdp_ring *ring)
{
    return ring->put - __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE);
}

/* Publishes produced entries, or the room of consumed ones, to the kernel. */
static inline void lli_xdp_ring_publish(struct lli_xdp_ring *ring)
{
    __atomic_store_n(ring->producer, ring->put, __ATOMIC_RELEASE);
}

static inline void lli_xdp_ring_consume(struct lli_xdp_ring *ring)
{
    __atomic_store_n(ring->consumer, ring->got, __ATOMIC_RELEASE);
}

/* Returns true if the kernel needs a system call to process the ring. */
static inline bool lli_xdp_ring_sleeps(const struct lli_xdp_ring *ring)
{
    return (__atomic_load_n(ring->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP) != 0;
}

#endif
