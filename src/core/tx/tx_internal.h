/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files tx_*.c. */
#ifndef LLI_TX_INTERNAL_H
#define LLI_TX_INTERNAL_H

#include <llm/llm.h>

#include "core/tx/ranges.h"
#include "core/tx/tx_session.h"

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
    tx->look_at = lli_min(tx->look_at, lli_slow_at(&tx->slow));
    tx->slow_at = lli_min(tx->look_at, tx->replay_at);
}

/* Members are looked at, and the application told, at the next call. */
static inline void lli_tx_look_now(struct lli_tx *tx)
{
    tx->look_at = tx->slow_at = 0;
}

/* Who sent a packet: an index of the table of members, or LLI_MEMBER_NONE, and whether packets to its address reach it. */
struct lli_tx_asker {
    uint32_t member;
    bool confirmed;
};

/* Takes a token that a receiver sent; a receiver that is confirmed by it becomes a member, if there is room. */
struct lli_tx_asker lli_tx_asker(struct lli_tx *tx, uint64_t id, const struct lli_wire_address *address, uint64_t token, lli_ns now);

/* The same of a request that makes no member. False: all that it is answered by is a token. */
bool lli_tx_is_confirmed(struct lli_tx *tx, uint64_t id, const struct lli_wire_address *address, uint64_t token);

/* A token is sent to a receiver, and with it why it is served less than others. */
void lli_tx_give_token(struct lli_tx *tx, uint64_t receiver, const struct lli_wire_address *address,
                       enum lli_wire_join_reason reason, uint64_t value);

/* Builds the next token that is to be sent; false: there is none. */
bool lli_tx_control_token(struct lli_tx *tx, uint8_t *buffer, struct lli_packet *packet);

/* Repairs what a NAK asks for. */
void lli_tx_input_nak(struct lli_tx *tx, struct lli_wire_nak *nak, lli_ns now);

/* How many receivers hear of a loss when one does. */
static inline bool lli_tx_is_crowded(const struct lli_tx *tx)
{
    return tx->members.count > tx->config.nak_receivers_immediate;
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

/* -------------------------------------------------------------------------------------- tx_members.c */

/* True if a report says that the receiver has everything up to the end. */
static inline bool lli_tx_is_done(const struct lli_tx *tx, const struct lli_wire_status *status)
{
    return tx->ended && (status->flags & LLI_WIRE_STATUS_DONE) && status->next >= tx->history.next;
}

/* The acknowledgement in a report of the member at this place, LLI_MEMBER_NONE: it is none. */
void lli_tx_input_acknowledgement(struct lli_tx *tx, const struct lli_wire_status *status, uint32_t index);

/* The last report of a receiver. */
void lli_tx_input_leaving(struct lli_tx *tx, const struct lli_wire_status *status);

/* The distance of a receiver's reports grows with their number, so that their sum does not (section 7). */
lli_ns lli_tx_status_interval(const struct lli_tx *tx);

/* The round trip of a member, which counts, was measured: the group's may follow it. */
void lli_tx_measured(struct lli_tx *tx, const struct lli_member *member);

/* Forgets receivers that have not been heard for long. */
void lli_tx_expire(struct lli_tx *tx, lli_ns now);

/* ---------------------------------------------------------------------------------- tx_join.c, tx_keep.c */

/* A receiver joins late: asks where to begin, or for packets of the past. */
void lli_tx_input_join(struct lli_tx *tx, struct lli_wire_join *join, lli_ns now);

/* Drops what waits for receivers that are not served any more. */
void lli_tx_shed_joins(struct lli_tx *tx, lli_ns now);

/* Something is due then for those who fetch the past; what is due for kept messages is added. */
void lli_tx_replay_due(struct lli_tx *tx, lli_ns at);

/* A receiver asks for kept messages. False: there is no place for it. */
bool lli_tx_input_lvc(struct lli_tx *tx, const struct lli_wire_join *join, lli_ns now);

/* Builds the next answer to one, or the word that what it asked for is gone. */
bool lli_tx_control_join(struct lli_tx *tx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

#endif
