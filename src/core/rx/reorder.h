/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reorder buffer: copies of packets received ahead of order, in chunks of one size shared by a receiver's
 * sessions. A packet takes any free chunks, so memory does not fragment and packets of all lengths fit.
 * Reading copies the packet into one piece.
 */
#ifndef LLI_REORDER_H
#define LLI_REORDER_H

#include "core/base/arena.h"
#include "core/base/types.h"

#define LLI_REORDER_NONE UINT32_MAX

enum {
    LLI_REORDER_CHUNK = 256,
    LLI_REORDER_PACKET_MAX =
        131072,                /* longest packet, whose size is a 16-bit number, with what lies behind it */
    LLI_REORDER_MEAN_ONE = 64, /* unit of `mean`: one chunk */
};

/* Two packets may be read at a time: the one next in order, and one read ahead of order. */
enum lli_reorder_piece { LLI_REORDER_TURN, LLI_REORDER_UNORDERED, LLI_REORDER_PIECES };

struct lli_rx;

struct lli_reorder {
    uint8_t *chunks;
    uint32_t *next;          /* by chunk: next chunk of its packet, or next free one */
    uint32_t *sizes;         /* by first chunk: size of its packet */
    uint32_t count;          /* number of chunks */
    uint32_t left;           /* free chunks */
    uint32_t free;           /* first free chunk */
    uint32_t used;           /* packets buffered */
    uint32_t mean;           /* smoothed chunks per packet, in 1 / LLI_REORDER_MEAN_ONE */
    uint8_t *pieces;         /* buffers into which packets are read */
    struct lli_rx *sessions; /* sessions that share the memory; linked and used by rx_session.c */
};

/*
 * Places `bytes` bytes of chunks, at least enough for 16 packets of packet_max bytes. `rare` takes the arrays
 * that only packets longer than one chunk touch.
 */
void lli_reorder_init(struct lli_reorder *reorder, uint64_t bytes, uint32_t packet_max,
                      struct lli_arena *arena, struct lli_arena *rare);

/* Chunks that a packet of this size takes. */
static inline uint32_t lli_reorder_chunks(uint32_t size)
{
    return size <= LLI_REORDER_CHUNK ? 1 : (size + LLI_REORDER_CHUNK - 1) / LLI_REORDER_CHUNK;
}

static inline bool lli_reorder_fits(const struct lli_reorder *reorder, uint32_t size)
{
    return lli_reorder_chunks(size) <= reorder->left;
}

/* Estimates how many packets fit into this many chunks, from recent packet lengths. */
static inline uint32_t lli_reorder_packets(const struct lli_reorder *reorder, uint32_t chunks)
{
    return (uint32_t)((uint64_t)chunks * LLI_REORDER_MEAN_ONE / reorder->mean);
}

/*
 * Copies a packet; returns its first chunk, which identifies it. LLI_REORDER_NONE if too few chunks are free.
 */
uint32_t lli_reorder_put(struct lli_reorder *reorder, const uint8_t *data, uint32_t size);

/*
 * Returns a packet in one piece, valid until the next read of the same kind; the packet may be freed before
 * that.
 */
const uint8_t *lli_reorder_get(const struct lli_reorder *reorder, uint32_t packet,
                               enum lli_reorder_piece piece, uint32_t *size);

/* The first LLI_REORDER_CHUNK bytes of a packet, in place. */
static inline const uint8_t *lli_reorder_head(const struct lli_reorder *reorder, uint32_t packet)
{
    return reorder->chunks + (uint64_t)packet * LLI_REORDER_CHUNK;
}

/* Frees a packet; returns the number of chunks it took. */
uint32_t lli_reorder_free(struct lli_reorder *reorder, uint32_t packet);

#endif
