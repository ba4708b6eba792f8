/* SPDX-License-Identifier: Apache-2.0 */
/* What tx_session.c, tx_join.c and tx_keep.c share. */
#ifndef LLI_TX_INTERNAL_H
#define LLI_TX_INTERNAL_H

#include <llm/llm.h>

#include "tx_session.h"

static inline void lli_tx_count(struct lli_tx *tx, uint64_t bytes)
{
    tx->counters.packets_sent++;
    tx->counters.bytes_sent += bytes;
}

/* The transport reads it from now on. */
static inline void lli_tx_inflight(struct lli_tx *tx, lli_seq seq)
{
    tx->inflight.first = lli_min(tx->inflight.first, seq);
    tx->inflight.first_young = lli_min(tx->inflight.first_young, seq);
}

/* Members may have to be judged before it was thought. */
static inline void lli_tx_look_soon(struct lli_tx *tx)
{
    tx->look_at = lli_min(tx->look_at, lli_judge_at(&tx->judge));
    tx->slow_at = lli_min(tx->look_at, tx->replay_at);
}

/* Members are looked at, and the application told, at the next call. */
static inline void lli_tx_look_now(struct lli_tx *tx)
{
    tx->look_at = tx->slow_at = 0;
}

/* The number of the first message that starts in the packet that is sent next, or later. */
uint64_t lli_tx_lead_number(const struct lli_tx *tx);

/* The same of a packet that is kept, or sent next. */
uint64_t lli_tx_number_of(const struct lli_tx *tx, lli_seq seq);

/* A TOPICS packet with as many names from this topic on as fit. */
size_t lli_tx_build_topics(const struct lli_tx *tx, uint32_t first, uint8_t *buffer, size_t size);

/* Rejects packets that were asked for, unless too many answers wait. to NULL: to the group. */
void lli_tx_reject(struct lli_tx *tx, const struct lli_wire_address *to, enum lli_wire_reason reason,
                   const struct lli_wire_range *ranges, uint16_t count);

/* How many of the packets that a range asks for are of unreliable topics, as far as they are kept. */
uint32_t lli_tx_unreliable(const struct lli_tx *tx, const struct lli_wire_range *range);

/* Packets that were asked for and are not sent again; of what does not fit the receiver will ask again. */
struct lli_tx_unrepaired {
    struct lli_wire_range ranges[LLI_WIRE_RANGES_MAX];
    uint16_t count;
};

void lli_tx_unrepaired_add(struct lli_tx_unrepaired *unrepaired, lli_seq seq);
void lli_tx_unrepaired_tell(struct lli_tx *tx, const struct lli_wire_address *to, enum lli_wire_reason reason,
                            const struct lli_tx_unrepaired *unrepaired);

/* A receiver joins late: asks where to begin, or for packets of the past. */
void lli_tx_input_join(struct lli_tx *tx, const struct lli_wire_join *join, lli_ns now);

/* Drops what waits for receivers that are not served any more. */
void lli_tx_shed_joins(struct lli_tx *tx, lli_ns now);

/* Something is due then for those who fetch the past; what is due for kept messages is added. */
void lli_tx_replay_due(struct lli_tx *tx, lli_ns at);

/* A receiver asks for kept messages. False: there is no place for it. */
bool lli_tx_input_kept(struct lli_tx *tx, const struct lli_wire_join *join, lli_ns now);

/* Builds the next answer to one, or the word that what it asked for is gone. */
bool lli_tx_control_join(struct lli_tx *tx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

#endif
