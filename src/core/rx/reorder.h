/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of packets that came before their turn, in chunks of one size that a receiver's sessions share. A packet takes as many chunks as it
 * needs, wherever they are free, so memory does not fragment and packets of any length are held; it is read as one piece, a copy.
 */
#ifndef LLI_REORDER_H
#define LLI_REORDER_H

#include "core/base/arena.h"
#include "core/base/types.h"

#define LLI_REORDER_NONE UINT32_MAX

enum {
    LLI_REORDER_CHUNK = 256,
    LLI_REORDER_PACKET_MAX = 65536, /* no packet is longer: its size is a 16-bit number */
    LLI_REORDER_MEAN_ONE = 64,      /* one chunk, as the mean counts them */
};

/* Two packets may be read at a time: the one whose turn it is, and one that is looked into before its turn. */
enum lli_reorder_piece { LLI_REORDER_TURN, LLI_REORDER_AHEAD, LLI_REORDER_PIECES };

struct lli_rx;

struct lli_reorder {
    uint8_t *chunks;
    uint32_t *next;  /* of a chunk: the next one of its packet, or the next free one */
    uint32_t *sizes; /* of the packet that begins in a chunk */
    uint32_t count;  /* chunks */
    uint32_t left;   /* of these, free */
    uint32_t free;   /* the first free chunk */
    uint32_t used;   /* packets held */
    uint32_t mean;   /* chunks of a packet, smoothed, times LLI_REORDER_MEAN_ONE */
    uint8_t *pieces; /* packets as they are read */
    struct lli_rx *sessions; /* that share the memory: linked and used by rx_session.c */
};

/*
 * Places as many chunks as take bytes of memory, at least those of 16 packets of packet_max bytes; in rare what longer packets alone
 * touch.
 */
void lli_reorder_init(struct lli_reorder *reorder, uint64_t bytes, uint32_t packet_max, struct lli_arena *arena,
                      struct lli_arena *rare);

/* Chunks of a packet of this size. */
static inline uint32_t lli_reorder_chunks(uint32_t size)
{
    return size <= LLI_REORDER_CHUNK ? 1 : (size + LLI_REORDER_CHUNK - 1) / LLI_REORDER_CHUNK;
}

static inline bool lli_reorder_fits(const struct lli_reorder *reorder, uint32_t size)
{
    return lli_reorder_chunks(size) <= reorder->left;
}

/* As many packets as take so many chunks, of those lengths that were held lately. */
static inline uint32_t lli_reorder_packets(const struct lli_reorder *reorder, uint32_t chunks)
{
    return (uint32_t)((uint64_t)chunks * LLI_REORDER_MEAN_ONE / reorder->mean);
}

/* Copies a packet; returns the chunk it begins in, by which it is known. LLI_REORDER_NONE if too few are free. */
uint32_t lli_reorder_put(struct lli_reorder *reorder, const uint8_t *data, uint32_t size);

/* A packet in one piece, valid until the next one is read as the same; the packet may be given back before. */
const uint8_t *lli_reorder_get(const struct lli_reorder *reorder, uint32_t packet, enum lli_reorder_piece piece, uint32_t *size);

/* The first LLI_REORDER_CHUNK bytes of a packet, in place. */
static inline const uint8_t *lli_reorder_head(const struct lli_reorder *reorder, uint32_t packet)
{
    return reorder->chunks + (uint64_t)packet * LLI_REORDER_CHUNK;
}

/* Gives a packet back; returns how many chunks it took. */
uint32_t lli_reorder_free(struct lli_reorder *reorder, uint32_t packet);

#endif
