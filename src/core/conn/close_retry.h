/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a connection (docs/protocol.md section 13.4): the last word of a side that leaves is repeated until it is
 * answered, at growing distances and a bounded number of times. Pure, like the sessions.
 */
#ifndef LLI_CLOSE_RETRY_H
#define LLI_CLOSE_RETRY_H

#include "core/tx/tx_session.h"

enum { LLI_CLOSE_RETRY_WORDS = 8, LLI_CLOSE_RETRIES = 64 };

/* After this an answer that cannot be sent, as the address is not resolved, is not worth it any more. */
#define LLI_CLOSE_RETRY_ANSWER ((lli_ns)2000000000)

/* What is said to one peer. */
struct lli_close_retry {
    struct lli_wire_close close; /* id 0: the place is free */
    struct lli_wire_address to;
    void *via;                   /* who can send it */
    uint32_t words;              /* still to be said; 0: it is over */
    bool answered;
    lli_ns at;                   /* the next one */
    lli_ns step;                 /* from the next one to the one after it, but no less than */
    lli_ns step_min;
    lli_ns until;                /* who closes the context waits for the answer, and to reach the peer is tried, for so long */
};

/* Bounded: whoever finds no place says its word once. */
struct lli_close_retries {
    struct lli_close_retry places[LLI_CLOSE_RETRIES];
    uint32_t count;
};

/* A place that is free, NULL: there is none. */
struct lli_close_retry *lli_close_retries_place(struct lli_close_retries *close_retries);
void lli_close_retries_free(struct lli_close_retries *close_retries, struct lli_close_retry *close_retry);

/* Takes the place for a word that was said just now for the first time, to a peer so far away; it is waited for until then. */
void lli_close_retry_begin(struct lli_close_retry *close_retry, const struct lli_wire_close *close, const struct lli_wire_address *to,
                        lli_ns rtt, lli_ns until, lli_ns now);

/* Takes it for a word that is said once, as soon as that is possible. */
void lli_close_retry_once(struct lli_close_retry *close_retry, const struct lli_wire_close *close, const struct lli_wire_address *to,
                       lli_ns now);

/* A word that is due was said. */
void lli_close_retry_said(struct lli_close_retry *close_retry, lli_ns now);

/* The answer to whatever was said of a connection. True: somebody was waiting for it. */
bool lli_close_retries_heard(struct lli_close_retries *close_retries, uint64_t id);

/* Whether the words of such a reason are answered. */
static inline bool lli_close_retry_wants_answer(const struct lli_wire_close *close)
{
    return close->address.size > 0 &&
           (close->reason == LLI_WIRE_LEFT || close->reason == LLI_WIRE_ABANDONED || close->reason == LLI_WIRE_BROKEN);
}

/*
 * Whether the other side has said that it has all, and the end; where it has left, that it had all when it did: a report that
 * comes after that was overtaken.
 */
bool lli_close_retry_is_delivered(const struct lli_tx *tx, bool left);

/* The other side has left, and had taken all packets before this one. */
void lli_close_retry_left(struct lli_tx *tx, lli_seq next);

#endif
