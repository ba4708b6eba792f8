/* SPDX-License-Identifier: Apache-2.0 */
/*
 * History: the packets of a session, stored where they were packed, so that sending and resending need no
 * copy.
 *
 * A byte ring holds the packets in order of their numbers, each contiguous and aligned; a slot ring holds the
 * position of each. The newest packet is open: it is being filled and gets its slot when it is sealed. Room
 * for a new packet is made by dropping the oldest, but never a packet at or beyond `busy`, which the caller
 * supplies: packets not sent yet, or still read by the transport.
 *
 * Readers of the byte ring in shared memory learn from `edge` which packets are no longer there.
 */
#ifndef LLI_HISTORY_H
#define LLI_HISTORY_H

#include <stdatomic.h>

#include "core/base/arena.h"
#include "core/base/types.h"

/* Packet of the history; the repair fields belong to repair.c. */
struct lli_history_slot {
    uint64_t offset;    /* in the byte ring, of the packet's headroom */
    lli_ns repaired_at; /* time of its last repair, 0: never */
    uint32_t size;      /* bytes of the packet */
    uint32_t repair_to; /* index of a member, or LLI_REPAIR_TO_GROUP */
    bool repair_queued;
    bool unreliable;         /* not repaired; set by the packer, as the next two fields are */
    bool transient;          /* it holds only messages of topics without history */
    uint32_t unreliable_sum; /* unreliable packets of the session up to and including this one */
};

struct lli_history {
    uint8_t *bytes;
    uint64_t bytes_size;
    struct lli_history_slot *slots;
    uint64_t slots_mask;
    uint32_t packet_max; /* size of the largest packet */
    uint32_t headroom;   /* bytes before each packet */
    uint32_t around;     /* bytes before and after it that are not its own */
    uint32_t stride_max; /* ring bytes that the largest packet takes */
    uint32_t align;
    uint32_t packets_free; /* packets of the largest size that fit while none is busy */
    bool filling;          /* the newest packet was more than half full; the next ones are expected to be */
    uint64_t lap;          /* ring bytes of all earlier laps */
    /*
     * End of the written part of the ring, counted over all laps; stored before the memory it covers is
     * overwritten.
     */
    _Atomic uint64_t *edge;
    _Atomic uint64_t edge_own; /* used if no other process reads the ring */
    lli_seq trail;             /* oldest packet */
    lli_seq next;              /* packet that is open, or will be opened next */
    uint64_t head;             /* ring offset of the next packet */
};

struct lli_history_config {
    uint64_t bytes;
    uint32_t packets; /* a power of two */
    uint32_t packet_max;
    uint32_t headroom;
    uint32_t tail;   /* bytes after each packet, by which lli_history_extend() may extend it */
    uint32_t align;  /* a power of two */
    lli_seq start;   /* sequence number of the first packet */
    uint8_t *shared; /* byte ring and its edge in shared memory; NULL: in the arena */
    _Atomic uint64_t *shared_edge;
};

/* Places the history in the arena; a measuring arena only measures. */
void lli_history_init(struct lli_history *history, const struct lli_history_config *config,
                      struct lli_arena *arena);

/*
 * Opens the next packet: room for packet_max bytes until it is sealed. The caller has checked that it fits.
 */
uint8_t *lli_history_open(struct lli_history *history, lli_seq busy);

/* Seals the open packet at this size; its sequence number is then history->next - 1. */
void lli_history_seal(struct lli_history *history, uint32_t size);

/* Drops packets before seq, except those at or beyond busy. */
void lli_history_forget_before(struct lli_history *history, lli_seq seq, lli_seq busy);

static inline struct lli_history_slot *lli_history_slot(const struct lli_history *history, lli_seq seq)
{
    assert(seq >= history->trail && seq < history->next);
    return &history->slots[seq & history->slots_mask];
}

/* Sets the size of a sealed packet, which grew by bytes of the tail. */
static inline void lli_history_extend(const struct lli_history *history, lli_seq seq, uint32_t size)
{
    struct lli_history_slot *slot = lli_history_slot(history, seq);

    assert(size >= slot->size && size - slot->size <= history->around - history->headroom);
    slot->size = size;
}

/*
 * True if this many packets of the largest size can be opened in a row without dropping packets from `busy`
 * on.
 */
static inline bool lli_history_fits(const struct lli_history *history, uint64_t packets, lli_seq busy)
{
    uint64_t tail, used;

    if (busy >= history->next)
        return packets <= history->packets_free;
    tail = lli_history_slot(history, busy)->offset;
    used = history->head > tail ? history->head - tail : history->bytes_size - tail + history->head;
    /*
     * The ring may waste one packet's worth where it wraps; one is left free to distinguish full from empty.
     */
    return packets <= history->slots_mask - (history->next - busy) &&
           (packets + 2) * history->stride_max <= history->bytes_size - used;
}

/* Number of unreliable packets in [first, end); all have to be sealed and in the history. */
static inline uint32_t lli_history_unreliable(const struct lli_history *history, lli_seq first, lli_seq end)
{
    const struct lli_history_slot *slot;

    if (first >= end)
        return 0;
    slot = lli_history_slot(history, first);
    return lli_history_slot(history, end - 1)->unreliable_sum - slot->unreliable_sum + slot->unreliable;
}

/* Ring bytes of the packets [first, end) that are still in the history; all have to be sealed. */
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

static inline uint8_t *lli_history_bytes(const struct lli_history *history,
                                         const struct lli_history_slot *slot)
{
    return history->bytes + slot->offset + history->headroom;
}

static inline uint8_t *lli_history_packet(const struct lli_history *history, lli_seq seq)
{
    return lli_history_bytes(history, lli_history_slot(history, seq));
}

#endif
