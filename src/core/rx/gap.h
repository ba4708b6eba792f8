/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which packets of a session are missing, and when to ask for them: a window from the packet that is next in order to the
 * highest known to exist, with the times of the NAKs for each missing one (docs/protocol.md section 5.1).
 */
#ifndef LLI_GAP_H
#define LLI_GAP_H

#include "core/base/arena.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

struct lli_gap_slot {
    lli_ns since;  /* when it was found missing; once it was asked for, when that was first */
    lli_ns nak_at; /* when to ask for it next */
    uint8_t tries; /* NAKs sent for it */
    bool unrepaired; /* it is not asked for: lli_gap_unrepaired() */
    bool passed; /* ... and is no loss; the receiver's */
};

struct lli_gap {
    uint64_t *present;         /* a bit per packet of the window: received, not yet delivered */
    struct lli_gap_slot *slots;
    uint64_t mask;             /* packets in the window, less one */
    lli_seq next;              /* everything before was delivered or given up */
    lli_seq end;               /* one past the highest packet known to exist, at most next + window */
    lli_seq received;          /* one past the highest packet received; what lies between it and end is only told of */
    uint64_t missing;          /* packets in [next, end) that are not present */
    lli_ns due_at;             /* no NAK is due before; LLI_NEVER if nothing is missing */
    bool held_back;            /* some are not asked for before the first ones came: lli_gap_retry.most */
};

/* How NAKs repeat: at retry_min or twice the round trip, doubling to retry_max, each spread by a quarter up or down. */
struct lli_gap_retry {
    lli_ns rtt;
    lli_ns retry_min;
    lli_ns retry_max;
    uint64_t most; /* only so many missing packets, the first in order, are asked for; 0: all */
    lli_seq from;  /* none before this one is */
};

/* Places the window of packets (a power of two, at least 64) in the arena. */
void lli_gap_init(struct lli_gap *gap, uint32_t packets, struct lli_arena *arena);

/* Starts over with next as the next packet in order and nothing known beyond. */
void lli_gap_reset(struct lli_gap *gap, lli_seq next);

static inline uint64_t lli_gap_window(const struct lli_gap *gap)
{
    return gap->mask + 1;
}

static inline bool lli_gap_is_present(const struct lli_gap *gap, lli_seq seq)
{
    return gap->present[(seq & gap->mask) / 64] >> (seq & 63) & 1;
}

/* Packets before end exist. Those beyond what was known are missing from now on and first asked for at nak_at. */
void lli_gap_extend(struct lli_gap *gap, lli_seq end, lli_ns now, lli_ns nak_at);

/* The packet next in order came while nothing is missing and nothing is held: it is received and done with at once. */
static inline bool lli_gap_in_order(struct lli_gap *gap, lli_seq seq)
{
    if (seq != gap->end || seq != gap->next)
        return false;
    gap->next = gap->end = gap->received = seq + 1;
    return true;
}

/*
 * Moves next back to an earlier packet, all between them missing, asked for at nak_at. False if the window does not reach.
 */
bool lli_gap_rewind(struct lli_gap *gap, lli_seq next, lli_ns now, lli_ns nak_at);

/* Packets from end on were only told of, and another report says that they do not exist after all. */
void lli_gap_retract(struct lli_gap *gap, lli_seq end);

/* Packets from end on do not exist, whatever was said: none of them is present any more. Returns how many were. */
uint64_t lli_gap_cut(struct lli_gap *gap, lli_seq end);

/* Missing packets from this one on that are to be asked for are asked for by then at the latest. */
void lli_gap_hasten(struct lli_gap *gap, lli_seq from, lli_ns until);

/* A packet in [next, next + window) came. False if it was there already. lli_gap_extend() was called up to it. */
bool lli_gap_receive(struct lli_gap *gap, lli_seq seq);

/* A packet that is present is given back: it is missing again, and asked for at nak_at. */
void lli_gap_forget(struct lli_gap *gap, lli_seq seq, lli_ns now, lli_ns nak_at);

/* The packet next in order is done with; it was received, or is given up. */
void lli_gap_advance(struct lli_gap *gap);

/*
 * The missing packets whose NAK is due, as at most max ranges; each counts as asked for. Returns the number of ranges.
 * If there were more, lli_gap_due_at() is still now.
 */
int lli_gap_due(struct lli_gap *gap, lli_ns now, const struct lli_gap_retry *retry, uint64_t *random,
                struct lli_wire_range *ranges, int max);

/*
 * The first missing packets before end, at most `most` of them, as at most max ranges; one past the last is *listed. Nothing
 * is noted of it. Returns the number of ranges.
 */
int lli_gap_list(const struct lli_gap *gap, lli_seq end, uint64_t most, struct lli_wire_range *ranges, int max,
                 lli_seq *listed);

/* A missing packet came, but could not be kept: the network is fine, so it is asked for at nak_at as if for the first time. */
void lli_gap_refuse(struct lli_gap *gap, lli_seq seq, lli_ns nak_at);

/* All missing packets are asked for from now on, whatever was set before. */
void lli_gap_ask(struct lli_gap *gap, lli_ns now);

/*
 * Missing packets of [first, end) will not come if they were lost, so none is asked for. Of those before `asked` that were not
 * known to be such the number is returned.
 */
uint64_t lli_gap_unrepaired(struct lli_gap *gap, lli_seq first, lli_seq end, lli_seq asked);

/* Holds back the NAKs for missing packets of [first, first + count) until then. */
void lli_gap_hold(struct lli_gap *gap, lli_seq first, uint64_t count, lli_ns until);

/* One past the last present packet; next if none is. */
lli_seq lli_gap_present_end(const struct lli_gap *gap);

/* The first present packet at or behind next, or end. */
lli_seq lli_gap_first_present(const struct lli_gap *gap);

#endif
