/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Close retry of a connection (docs/protocol.md section 13.4): a side that leaves repeats its CLOSE until it
 * is answered, at growing intervals and a bounded number of times. A pure state machine, like the sessions.
 */
#ifndef LLI_CLOSE_RETRY_H
#define LLI_CLOSE_RETRY_H

#include "core/base/types.h"
#include "core/wire/wire.h"

struct lli_tx;

enum { LLI_CLOSE_RETRY_WORDS = 8, LLI_CLOSE_RETRIES = 64 };

/* An answer that cannot be sent for this long, because its address is not resolved, is dropped. */
#define LLI_CLOSE_RETRY_ANSWER ((lli_ns)2000000000)

/* CLOSE to one peer. */
struct lli_close_retry {
    struct lli_wire_close close; /* id 0: the entry is free */
    struct lli_wire_address to;
    void *via;      /* caller's handle of the sender */
    uint32_t words; /* transmissions left; 0: finished */
    bool answered;
    lli_ns at;   /* time of the next transmission */
    lli_ns step; /* interval after the next transmission, but at least step_min */
    lli_ns step_min;
    /* Closing the context waits for the answer until then, and attempts to reach the peer end then. */
    lli_ns until;
};

/* Bounded table: a connection that finds no free entry sends its CLOSE once. */
struct lli_close_retries {
    struct lli_close_retry places[LLI_CLOSE_RETRIES];
    uint32_t count;
};

/* Returns a free entry, NULL if there is none. */
struct lli_close_retry *lli_close_retries_place(struct lli_close_retries *close_retries);
void lli_close_retries_free(struct lli_close_retries *close_retries, struct lli_close_retry *close_retry);

/*
 * Fills an entry for a CLOSE just sent for the first time, to a peer at this round trip; waits for the answer
 * until `until`.
 */
void lli_close_retry_begin(struct lli_close_retry *close_retry, const struct lli_wire_close *close,
                           const struct lli_wire_address *to, lli_ns rtt, lli_ns until, lli_ns now);

/* Fills an entry for a CLOSE that is sent once, as soon as possible. */
void lli_close_retry_once(struct lli_close_retry *close_retry, const struct lli_wire_close *close,
                          const struct lli_wire_address *to, lli_ns now);

/* Notes that a due CLOSE was sent. */
void lli_close_retry_said(struct lli_close_retry *close_retry, lli_ns now);

/* Handles the answer to the CLOSE of a connection. True: an entry was waiting for it. */
bool lli_close_retries_heard(struct lli_close_retries *close_retries, uint64_t id);

/* True if a CLOSE with this reason is answered. */
static inline bool lli_close_retry_wants_answer(const struct lli_wire_close *close)
{
    return close->address.size > 0 &&
           (close->reason == LLI_WIRE_LEFT || close->reason == LLI_WIRE_ABANDONED ||
            close->reason == LLI_WIRE_BROKEN);
}

/*
 * True if the other side reported everything delivered, and the end. If it has left: true if it had
 * everything when it left, since a report that arrives later was overtaken.
 */
bool lli_close_retry_is_delivered(const struct lli_tx *tx, bool left);

/* Notes that the other side has left and had taken all packets before `next`. */
void lli_close_retry_left(struct lli_tx *tx, lli_seq next);

#endif
