/* SPDX-License-Identifier: Apache-2.0 */
/* Internal interface of the files tx_*.c. */
#ifndef LLI_TX_INTERNAL_H
#define LLI_TX_INTERNAL_H

#include <llm/llm.h>

#include "core/wire/ranges.h"
#include "core/tx/tx_session.h"

static inline void lli_tx_count(struct lli_tx *tx, uint64_t bytes)
{
    tx->counters.packets_sent++;
    tx->counters.bytes_sent += bytes;
}

/* Marks a packet as being read by the transport from now on. */
static inline void lli_tx_inflight(struct lli_tx *tx, lli_seq seq)
{
    tx->inflight.first = lli_min(tx->inflight.first, seq);
    tx->inflight.first_young = lli_min(tx->inflight.first_young, seq);
}

/* Recomputes the time of rare work after a part of it changed. */
static inline void lli_tx_plan_slow(struct lli_tx *tx)
{
    tx->due.slow_at = lli_min(tx->due.look_at, tx->join.at);
}

/* Allows for an earlier evaluation of the members than was planned. */
static inline void lli_tx_look_soon(struct lli_tx *tx)
{
    tx->due.look_at = lli_min(tx->due.look_at, lli_slow_at(&tx->slow));
    lli_tx_plan_slow(tx);
}

/* Checks members, and reports events, at the next call. */
static inline void lli_tx_look_now(struct lli_tx *tx)
{
    tx->due.look_at = tx->due.slow_at = 0;
}

/* Sender of a request: its member index or LLI_MEMBER_NONE, and if its token confirmed its address. */
struct lli_tx_requester {
    uint32_t member;
    bool confirmed;
};

/* Checks the token of a request. A receiver confirmed by it becomes a member, if there is room. */
struct lli_tx_requester lli_tx_requester(struct lli_tx *tx, uint64_t id,
                                         const struct lli_wire_address *address, uint64_t token, lli_ns now);

/* Likewise for requests that make no member. False: answer with a token only. */
bool lli_tx_is_confirmed(struct lli_tx *tx, uint64_t id, const struct lli_wire_address *address,
                         uint64_t token);

/* Queues a token for a receiver, with the reason for reduced service, if any. */
void lli_tx_give_token(struct lli_tx *tx, uint64_t receiver, const struct lli_wire_address *address,
                       enum lli_wire_join_reason reason, uint64_t value);

/* Builds the next queued token; false: none. */
bool lli_tx_control_token(struct lli_tx *tx, uint8_t *buffer, struct lli_packet *packet);

/* Answers a NAK: queues repairs, rejects and confirmations. */
void lli_tx_input_nak(struct lli_tx *tx, struct lli_wire_nak *nak, lli_ns now);

void lli_tx_repair_init(struct lli_tx *tx, lli_ns now);

/* Sets the rate limit of repairs; 0: no limit. */
void lli_tx_repair_rate(struct lli_tx *tx, uint64_t bytes_per_s, lli_ns now);

/* Adds the share of new data that may be sent as repairs. */
static inline void lli_tx_repair_earn(struct lli_tx *tx, uint64_t bytes)
{
    lli_pacer_give(&tx->repair.pacer, bytes * tx->repair.share >> 16);
}

/* Notes that data, or the end, is sent: heartbeats become frequent again. */
static inline void lli_tx_flows(struct lli_tx *tx)
{
    tx->heartbeat.flowing = true;
    tx->heartbeat.interval = tx->heartbeat.first;
}

/* Builds the heartbeat that is due. */
bool lli_tx_control_heartbeat(struct lli_tx *tx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* Notes that a receiver lost packets: heartbeats follow data sooner for a while (ADR 51). */
void lli_tx_heartbeat_lossy(struct lli_tx *tx, lli_ns now);

/* Announces the end as often as at first. */
void lli_tx_end_again(struct lli_tx *tx);

/* Queues the answer to a query. */
void lli_tx_input_query(struct lli_tx *tx, const struct lli_wire_query *query);

/* Builds the next reject or answer that is queued; false: none. */
bool lli_tx_control_answer(struct lli_tx *tx, uint8_t *buffer, size_t size, struct lli_packet *packet);

/* True if many receivers hear of a loss at the same time. */
static inline bool lli_tx_is_crowded(const struct lli_tx *tx)
{
    return tx->members.count > tx->config.nak_receivers_immediate;
}

/* Number of the first message that starts in the next packet to be sent, or later. */
uint64_t lli_tx_lead_number(const struct lli_tx *tx);

/* Number of the first message that starts in a packet of the history, or the next to be sent, or later. */
uint64_t lli_tx_number_of(const struct lli_tx *tx, lli_seq seq);

/* Builds a TOPICS packet with as many names from topic `first` on as fit. */
size_t lli_tx_build_topics(const struct lli_tx *tx, uint32_t first, uint8_t *buffer, size_t size);

/* Queues a REJECT of packets, unless too many answers are waiting. to NULL: to the group. */
void lli_tx_reject(struct lli_tx *tx, const struct lli_wire_address *to, enum lli_wire_reason reason,
                   const struct lli_wire_range *ranges, uint16_t count);

/* Packets requested that are not sent again. A receiver asks again for those that do not fit. */
struct lli_tx_unrepaired {
    struct lli_wire_range ranges[LLI_WIRE_RANGES_MAX];
    uint16_t count;
};

void lli_tx_unrepaired_add(struct lli_tx_unrepaired *unrepaired, lli_seq seq);
void lli_tx_unrepaired_send(struct lli_tx *tx, const struct lli_wire_address *to, enum lli_wire_reason reason,
                            const struct lli_tx_unrepaired *unrepaired);

/* -------------------------------------------------------------------------------------- tx_members.c */

/* True if a report says that the receiver has everything up to the end. */
static inline bool lli_tx_is_done(const struct lli_tx *tx, const struct lli_wire_status *status)
{
    return tx->heartbeat.ended && (status->flags & LLI_WIRE_STATUS_DONE) && status->next >= tx->history.next;
}

/*
 * Takes the acknowledgement in a report of the member at this index; LLI_MEMBER_NONE: counts it as refused.
 */
void lli_tx_input_acknowledgement(struct lli_tx *tx, const struct lli_wire_status *status, uint32_t index);

/* Handles a receiver's last report. */
void lli_tx_input_leaving(struct lli_tx *tx, const struct lli_wire_status *status);

/* Report interval of receivers: grows with their number, so that the sum of reports does not (section 7). */
lli_ns lli_tx_status_interval(const struct lli_tx *tx);

/* Updates the group's round trip after that of a member that counts was measured. */
void lli_tx_measured(struct lli_tx *tx, const struct lli_member *member, lli_ns now);

/* Removes receivers that have not been heard for long. */
void lli_tx_expire(struct lli_tx *tx, lli_ns now);

/* ---------------------------------------------------------------------------------- tx_join.c, tx_lvc.c */

/* Handles a late joiner's request: where to begin, or for packets of the past. */
void lli_tx_input_join(struct lli_tx *tx, struct lli_wire_join *join, lli_ns now);

/* Drops the waiting requests of receivers that are not served any more. */
void lli_tx_drop_joins(struct lli_tx *tx, lli_ns now);

/* Schedules replay work at this time; includes the time of pending LVC work. */
void lli_tx_replay_due(struct lli_tx *tx, lli_ns at);

/* Schedules LVC work at this time, if any waits; lli_tx_replay_due() has to follow. */
void lli_tx_lvc_due(struct lli_tx *tx, lli_ns at);

/* Stores the destination of an answer or an LVC packet, and returns where. */
const struct lli_wire_address *lli_tx_join_to(struct lli_tx *tx, const struct lli_wire_address *to);

/* Handles a request for LVC messages. False: no free entry. */
bool lli_tx_input_lvc(struct lli_tx *tx, const struct lli_wire_join *join, lli_ns now);

/* Builds the next answer to a late joiner, or the REJECT for packets no longer in the history. */
bool lli_tx_control_join(struct lli_tx *tx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

#endif
