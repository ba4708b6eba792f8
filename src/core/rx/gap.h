/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss detection of a session: a window of packets, from the next in order to the highest known to exist, and
 * the NAK times of each missing packet (docs/protocol.md section 5.1).
 */
#ifndef LLI_GAP_H
#define LLI_GAP_H

#include "core/base/arena.h"
#include "core/base/types.h"

struct lli_wire_range;

struct lli_gap_slot {
    lli_ns since;    /* when it was found missing or, once requested, when it was first requested */
    lli_ns nak_at;   /* time of the next NAK */
    uint8_t tries;   /* NAKs sent for it */
    bool unrepaired; /* it is not requested: see lli_gap_unrepaired() */
    bool passed;     /* ... and is not a loss; used by rx_*.c */
    uint8_t absent;  /* a bit for each store that lacks it; used by rx_store.c */
};

struct lli_gap {
    lli_seq next; /* every packet before was delivered or given up */
    lli_seq end;  /* one past the highest packet known to exist, at most next + window */
    /* One past the highest packet received; those from here to end are known from heartbeats only. */
    lli_seq received;
    uint64_t missing;  /* packets in [next, end) that are not present */
    uint64_t *present; /* a bit per packet of the window: received, not delivered yet */
    struct lli_gap_slot *slots;
    uint64_t mask;      /* packets in the window, minus one */
    lli_ns due_at;      /* no NAK is due before this time; LLI_NEVER if nothing is missing */
    bool naks_deferred; /* some are not requested until earlier ones arrive: lli_gap_retry.most */
};

/*
 * NAK retry: at retry_min or twice the round trip, doubling to retry_max, each randomized by up to a quarter.
 */
struct lli_gap_retry {
    lli_ns rtt;
    lli_ns retry_min;
    lli_ns retry_max;
    uint64_t most; /* ask for this many missing packets only, in order; 0: all */
    lli_seq from;  /* ask for none before this one */
};

/* Places a window of `packets` (a power of two, at least 64) in the arena. */
void lli_gap_init(struct lli_gap *gap, uint32_t packets, struct lli_arena *arena);

/* Restarts with `next` as the next packet in order, and no packet known beyond. */
void lli_gap_reset(struct lli_gap *gap, lli_seq next);

static inline uint64_t lli_gap_window(const struct lli_gap *gap)
{
    return gap->mask + 1;
}

static inline bool lli_gap_is_present(const struct lli_gap *gap, lli_seq seq)
{
    return gap->present[(seq & gap->mask) / 64] >> (seq & 63) & 1;
}

/*
 * Notes that packets before end exist: those not known before become missing, with their first NAK at nak_at.
 */
void lli_gap_extend(struct lli_gap *gap, lli_seq end, lli_ns now, lli_ns nak_at);

/*
 * Takes the packet next in order while nothing is missing or buffered: it is received and done with at once.
 */
static inline bool lli_gap_in_order(struct lli_gap *gap, lli_seq seq)
{
    if (seq != gap->end || seq != gap->next)
        return false;
    gap->next = gap->end = gap->received = seq + 1;
    return true;
}

/*
 * Changes the number of the next packet in order, and of those beyond alike. The low halves stay the same,
 * so no packet changes its place in the window.
 */
void lli_gap_renumber(struct lli_gap *gap, lli_seq next);

/*
 * Moves next back to an earlier packet: all packets between become missing, with their NAK at nak_at. False
 * if the window is too small.
 */
bool lli_gap_rewind(struct lli_gap *gap, lli_seq next, lli_ns now, lli_ns nak_at);

/* Removes packets from end on that are known from heartbeats only: they do not exist after all. */
void lli_gap_retract(struct lli_gap *gap, lli_seq end);

/* Removes all packets from end on, even received ones: they do not exist. Returns how many were present. */
uint64_t lli_gap_cut(struct lli_gap *gap, lli_seq end);

/* Brings NAKs for missing packets from this one on forward to `until` at the latest. */
void lli_gap_hasten(struct lli_gap *gap, lli_seq from, lli_ns until);

/* Brings the first NAKs for missing packets of [from, end) forward to `until` at the latest. */
void lli_gap_passed(struct lli_gap *gap, lli_seq from, lli_seq end, lli_ns until);

/*
 * Takes a packet in [next, next + window) up to which lli_gap_extend() was called. False if it is a
 * duplicate.
 */
bool lli_gap_receive(struct lli_gap *gap, lli_seq seq);

/* Marks a present packet, whose copy was dropped, as missing again, with its NAK at nak_at. */
void lli_gap_forget(struct lli_gap *gap, lli_seq seq, lli_ns now, lli_ns nak_at);

/* Finishes the packet next in order: it was delivered or given up. */
void lli_gap_advance(struct lli_gap *gap);

/*
 * Lists the missing packets whose NAK is due, in at most max ranges, and counts each as requested. Returns
 * the number of ranges. If there were more, lli_gap.due_at is still not later than now.
 */
int lli_gap_due(struct lli_gap *gap, lli_ns now, const struct lli_gap_retry *retry, uint64_t *random,
                struct lli_wire_range *ranges, int max);

/*
 * Lists the first missing packets before end, at most `most`, in at most max ranges, without those marked
 * absent by one of these bits; *listed is one past the last of them. Changes no state. Returns the number of
 * ranges.
 */
int lli_gap_list(const struct lli_gap *gap, lli_seq end, uint64_t most, uint8_t absent,
                 struct lli_wire_range *ranges, int max, lli_seq *listed);

/*
 * Marks missing packets of [first, end) absent by these bits. Returns how many missing packets before `until`
 * have none of the bits then.
 */
uint64_t lli_gap_absent(struct lli_gap *gap, lli_seq first, lli_seq end, uint8_t bits, lli_seq until);

/* Clears these bits of all missing packets. */
void lli_gap_not_absent(struct lli_gap *gap, uint8_t bits);

/*
 * Notes that a missing packet arrived but could not be buffered. The network is fine, so the packet is
 * requested at nak_at as if for the first time.
 */
void lli_gap_refuse(struct lli_gap *gap, lli_seq seq, lli_ns nak_at);

/* Makes the NAK of every missing packet due now. */
void lli_gap_nak_now(struct lli_gap *gap, lli_ns now);

/*
 * Marks missing packets of [first, end) as not repaired: none is requested. Returns how many of those before
 * `requested` were not marked yet.
 */
uint64_t lli_gap_unrepaired(struct lli_gap *gap, lli_seq first, lli_seq end, lli_seq requested);

/* Delays NAKs for missing packets of [first, first + count) until this time. */
void lli_gap_delay(struct lli_gap *gap, lli_seq first, uint64_t count, lli_ns until);

/* One past the last present packet; next if none is present. */
lli_seq lli_gap_present_end(const struct lli_gap *gap);

/* The first present packet at or after next, or end. */
lli_seq lli_gap_first_present(const struct lli_gap *gap);

#endif
