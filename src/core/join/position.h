/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start position of a late joiner (docs/protocol.md section 12.1): the packet and the message with which it
 * begins, or the reason why it cannot.
 */
#ifndef LLI_POSITION_H
#define LLI_POSITION_H

#include "core/base/types.h"
#include "core/join/time_index.h"
#include "core/pack/history.h"
#include "core/wire/wire.h"

/* The packets that a session sent, and those of them that its history still has. */
struct lli_position_stream {
    const struct lli_history *history;
    const struct lli_time_index *times;
    lli_seq start;          /* the session's first packet */
    lli_seq sent;           /* first packet not yet sent */
    uint64_t lead_number;   /* number of the first message that starts in that packet or later */
    lli_seq unacknowledged; /* first packet with unacknowledged messages; UINT64_MAX: none */
    uint32_t topics;
    bool caches; /* some topic has an LVC */
};

/* Number of the first message that starts in a packet or later, given one that is less than 2^31 away. */
static inline uint64_t lli_position_near(const struct lli_history *history, lli_seq seq, uint64_t near)
{
    return lli_seq_extend(near, lli_load_u32(lli_history_packet(history, seq) + 12));
}

/* Likewise, for a sent packet of the history or the next one. */
uint64_t lli_position_number(const struct lli_position_stream *stream, lli_seq seq);

/* Fills in a GRANT or REFUSE for the request in answer->from and answer->value. */
void lli_position_answer(const struct lli_position_stream *stream, struct lli_wire_join *answer, lli_ns now);

#endif
