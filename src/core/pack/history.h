/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets of a session, kept where they were packed so that they can be sent, and sent again, without a copy.
 *
 * A ring of bytes holds the packets one behind the other in the order of their numbers, each contiguous and aligned, and a
 * ring of slots says where each is. The newest packet is open: it is being filled and gets its slot when it is sealed. Room
 * for a new packet is made by forgetting the oldest, but never one at or beyond `busy`, which the caller names: packets not
 * yet sent, or still read by the transport.
 *
 * Who reads the ring of bytes from elsewhere, in shared memory, learns from its edge what is no longer there.
 */
#ifndef LLI_HISTORY_H
#define LLI_HISTORY_H

#include <stdatomic.h>

#include "core/base/arena.h"
#include "core/base/types.h"

/* What is known of a packet; the repair fields belong to repair.c. */
struct lli_history_slot {
    uint64_t offset;      /* in the ring of bytes, of the packet's headroom */
    lli_ns repaired_at;   /* when it was last sent again, 0: never */
    uint32_t size;        /* bytes of the packet */
    uint32_t repair_to;   /* index of a member, or LLI_REPAIR_TO_GROUP */
    bool repair_queued;
    bool unreliable;      /* it is not repaired; the packer's, as the next two */
    bool transient;       /* nothing in it is of a topic with history */
    uint32_t unreliable_sum; /* such packets of the session up to this one */
};

struct lli_history {
    uint8_t *bytes;
    uint64_t bytes_size;
    struct lli_history_slot *slots;
    uint64_t slots_mask;
    uint32_t packet_max; /* bytes of the largest packet */
    uint32_t headroom;   /* before each packet */
    uint32_t stride_max; /* ring bytes that the largest packet takes */
    uint32_t align;
    uint32_t packets_free; /* of the largest size: so many fit when none is busy */
    bool filling;        /* the newest packet was more than half full: so will the next ones be */
    uint64_t lap;        /* ring bytes of all laps before this one */
    _Atomic uint64_t *edge; /* where the ring is written up to, counting all laps; stored before what it covers is touched */
    _Atomic uint64_t edge_own; /* of a ring that nobody else reads */
    lli_seq trail;       /* the oldest packet */
    lli_seq next;        /* the packet that is open or will be opened next */
    uint64_t head;       /* ring offset where the next packet goes */
};

struct lli_history_config {
    uint64_t bytes;
    uint32_t packets; /* a power of two */
    uint32_t packet_max;
    uint32_t headroom;
    uint32_t align;   /* a power of two */
    lli_seq start;    /* number of the first packet */
    uint8_t *shared;  /* the ring of bytes, if it is not to lie in the arena, and its edge */
    _Atomic uint64_t *shared_edge;
};

/* Places the history in the arena; with a measuring arena nothing else is done. */
void lli_history_init(struct lli_history *history, const struct lli_history_config *config, struct lli_arena *arena);

/* Room for the next packet: packet_max bytes, until it is sealed. The caller has seen that it fits. */
uint8_t *lli_history_open(struct lli_history *history, lli_seq busy);

/* Ends the open packet at its size; it is packet number history->next - 1 then. */
void lli_history_seal(struct lli_history *history, uint32_t size);

/* Packets before seq count as gone from now on, but for those at or beyond busy. */
void lli_history_forget_before(struct lli_history *history, lli_seq seq, lli_seq busy);

static inline struct lli_history_slot *lli_history_slot(const struct lli_history *history, lli_seq seq)
{
    assert(seq >= history->trail && seq < history->next);
    return &history->slots[seq & history->slots_mask];
}

/* Whether so many packets of the largest size can be opened one after the other without forgetting busy. */
static inline bool lli_history_fits(const struct lli_history *history, uint64_t packets, lli_seq busy)
{
    uint64_t tail, used;

    if (busy >= history->next)
        return packets <= history->packets_free;
    tail = lli_history_slot(history, busy)->offset;
    used = history->head > tail ? history->head - tail : history->bytes_size - tail + history->head;
    /* One packet's worth may be wasted where the ring wraps, and one is kept free so that full differs from empty. */
    return packets <= history->slots_mask - (history->next - busy) &&
           (packets + 2) * history->stride_max <= history->bytes_size - used;
}

/* How many of the packets [first, end), all kept and sealed, are not repaired. */
static inline uint32_t lli_history_unreliable(const struct lli_history *history, lli_seq first, lli_seq end)
{
    const struct lli_history_slot *slot;

    if (first >= end)
        return 0;
    slot = lli_history_slot(history, first);
    return lli_history_slot(history, end - 1)->unreliable_sum - slot->unreliable_sum + slot->unreliable;
}

/* Bytes of the ring that the packets [first, end), all sealed, take: those that are still kept. */
static inline uint64_t lli_history_span(const struct lli_history *history, lli_seq first, lli_seq end)
{
    uint64_t from, to;

    assert(end <= history->next);
    first = lli_max(first, history->trail);
    if (first >= end)
        return 0;
    from = lli_history_slot(history, first)->offset;
    to = end < history->next ? lli_history_slot(history, end)->offset : history->head;
    return to > from ? to - from : to + history->bytes_size - from;
}

static inline uint8_t *lli_history_bytes(const struct lli_history *history, const struct lli_history_slot *slot)
{
    return history->bytes + slot->offset + history->headroom;
}

static inline uint8_t *lli_history_packet(const struct lli_history *history, lli_seq seq)
{
    return lli_history_bytes(history, lli_history_slot(history, seq));
}

#endif
