/* SPDX-License-Identifier: Apache-2.0 */
/* What the files rx_*.c share. */
#ifndef LLI_RX_INTERNAL_H
#define LLI_RX_INTERNAL_H

#include "core/rx/former.h"
#include "core/rx/rx_session.h"

static inline uint32_t *lli_rx_cell(const struct lli_rx *rx, lli_seq seq)
{
    return &rx->cells[seq & rx->gap.mask];
}

/* Holds a copy of a packet, or of a part of one; LLI_REORDER_NONE if there is no room. Gives one back. */
static inline uint32_t lli_rx_put(struct lli_rx *rx, const uint8_t *data, uint32_t size)
{
    const uint32_t cell = lli_reorder_put(rx->reorder, data, size);

    rx->chunks += cell == LLI_REORDER_NONE ? 0 : lli_reorder_chunks(size);
    return cell;
}

static inline void lli_rx_give_back(struct lli_rx *rx, uint32_t cell)
{
    rx->chunks -= lli_reorder_free(rx->reorder, cell);
}

/* Holds a packet until its turn, which lli_gap_extend() made known; false if no memory is free for it. */
bool lli_rx_hold(struct lli_rx *rx, lli_seq seq, const struct lli_rx_packet *packet, lli_ns now);

/* As many packets more could be held now. */
uint32_t lli_rx_room(const struct lli_rx *rx);

/* Notes where the session ended, and why. */
void lli_rx_note(const struct lli_rx *rx, uint64_t number, enum llm_reason reason);

/* Gives back every packet that is held. */
void lli_rx_drop_packets(struct lli_rx *rx);

/* Packets before end exist: those not received are missing from now on. */
void lli_rx_extend(struct lli_rx *rx, lli_seq end, lli_ns now);

/* The round trip as far as it is known. */
lli_ns lli_rx_rtt(const struct lli_rx *rx);

/* A packet in buffer goes to the transmitter. */
bool lli_rx_packet(const struct lli_rx *rx, const uint8_t *buffer, size_t size, struct lli_packet *packet);

/* Names of topics announced so far are not known: asks for them. hold: delivers nothing until they are. */
void lli_rx_learn(struct lli_rx *rx, lli_ns now, bool hold);

/* How long a session that is there may say nothing. */
lli_ns lli_rx_patience(const struct lli_rx *rx);

/* ---------------------------------------------------------------------------------------- rx_trust.c */

/* True if a heartbeat is to be followed: it contradicts nothing that was received, or no other has come for long. */
bool lli_rx_believes(struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat, lli_ns now);

/* Reduces figures that no transmitter sends to the largest that one does. */
void lli_rx_clamp(struct lli_wire_heartbeat *heartbeat);

/* Plans by the latest heartbeat what the one before put off. */
void lli_rx_replan(struct lli_rx *rx, const struct lli_wire_heartbeat *before, lli_ns now);

/* Packets before this one exist, as two heartbeats say: only such are given up. */
static inline lli_seq lli_rx_known(const struct lli_rx *rx)
{
    return lli_min(rx->heartbeat.lead, rx->lead_before);
}

/* Packets before this one exist, as two heartbeats say, or one and data that came. */
static inline lli_seq lli_rx_known_by_data(const struct lli_rx *rx)
{
    return lli_min(rx->heartbeat.lead, lli_max(rx->lead_before, rx->gap.received));
}

/* Messages that start before lli_rx_known(). */
static inline uint64_t lli_rx_known_messages(const struct lli_rx *rx)
{
    return lli_min(rx->heartbeat.messages, rx->messages_before);
}

/* The number of the first message that starts in the packet next in order is at most this, as far as heartbeats say. */
uint64_t lli_rx_number_max(const struct lli_rx *rx);

/* Whether the missing packet next in order is known to exist by more than the one packet that says that it is not repaired. */
bool lli_rx_is_confirmed(const struct lli_rx *rx);

/* Packets that the latest heartbeat, and the one before, do not cover do not exist: what is held of them is dropped. */
void lli_rx_cover(struct lli_rx *rx, lli_ns now);

/* Goes on where heartbeats are if for long all of them say that the next packet in order is far from being sent. */
void lli_rx_recede(struct lli_rx *rx, lli_ns now);

/* True if a data packet is so far ahead of all that is known that another one has to come before it is believed; it is noted. */
bool lli_rx_is_jump(struct lli_rx *rx, lli_seq seq);

/* --------------------------------------------------------------------------------------- rx_report.c */

/* Whether enough receivers share the session that they must not all answer at once. */
static inline bool lli_rx_is_crowded(const struct lli_rx *rx)
{
    return rx->heartbeat.receivers > rx->config->nak_receivers_immediate;
}

/* Of how many receivers one reports by packets, as a power of two (section 7.1). */
static inline uint32_t lli_rx_share(const struct lli_wire_heartbeat *heartbeat)
{
    return heartbeat->flags / LLI_WIRE_HEARTBEAT_SHARE;
}

/* True if this receiver is one of them. */
static inline bool lli_rx_is_in_share(const struct lli_rx *rx)
{
    return lli_wire_is_in_share(rx->session, rx->config->receiver, lli_rx_share(&rx->heartbeat));
}

/* A status report is due: now, or spread over an interval if many others send theirs as well. */
void lli_rx_status_soon(struct lli_rx *rx, lli_ns now);

/* What was reported, or how often reports are wanted, has changed: says when the next one is owed. */
void lli_rx_plan_report(struct lli_rx *rx);

/* Builds a report. */
bool lli_rx_control_status(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* ----------------------------------------------------------------------------------------- rx_join.c */

/* The first heartbeat made the session known (section 4.2). */
void lli_rx_found(struct lli_rx *rx, lli_ns now);

/* A session that ended for this receiver only, or by a heartbeat that others contradict, goes on where it ended. */
void lli_rx_resume(struct lli_rx *rx, const struct lli_former_session *former, lli_ns now);

/* The transmitter said where to begin, or that it cannot be done. */
void lli_rx_input_join(struct lli_rx *rx, const struct lli_wire_join *join, lli_ns now);

/* Before it is known where to begin: builds the request that is due. */
bool lli_rx_control_join(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* What is to be told or asked before it is known. */
bool lli_rx_next_join(struct lli_rx *rx, lli_ns now, struct lli_item *item);

/* Builds the request for packets of the past that is due. */
bool lli_rx_control_fetch(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* Requests repeat at doubling distances up to this: the transmitter may have many to serve. */
#define LLI_RX_JOIN_RETRY_MAX ((lli_ns)100000000)

/* When a request is repeated that was sent so often already as rx->tries says, and the time that an answer takes. */
lli_ns lli_rx_retry_after(const struct lli_rx *rx, lli_ns least);
lli_ns lli_rx_request_time(const struct lli_rx *rx);

enum { LLI_RX_RANGES_UNANSWERED = 8 };

/* A packet of the past came. */
void lli_rx_replayed(struct lli_rx *rx, lli_seq seq, lli_ns now);

static inline bool lli_rx_is_replaying(const struct lli_rx *rx)
{
    return rx->behind & LLI_RX_REPLAYING;
}

/* Whether what comes next in order is of the past. */
static inline bool lli_rx_is_fetching(const struct lli_rx *rx)
{
    return lli_rx_is_replaying(rx) && rx->gap.next < rx->replay_end;
}

/* Missing packets of [first, end) are not repaired: they are given up as soon as those before them are there, or were. */
void lli_rx_unrepaired(struct lli_rx *rx, lli_seq first, lli_seq end, lli_ns now);

/* A packet was dropped for which there was no room: if the past is being fetched, this one is of the past now. */
static inline void lli_rx_dropped(struct lli_rx *rx, lli_seq seq)
{
    if (lli_rx_is_replaying(rx))
        rx->replay_end = lli_max(rx->replay_end, seq + 1);
}

/* As lli_unpack_begin(), where LLI_RX_FILTERING is on; passes over what is not wanted up to the first that is. */
void lli_rx_filter_begin(struct lli_rx *rx, const struct lli_wire_header *header, const uint8_t *body, size_t size);

/* The messages that come next and are wanted, less those of refused topics; false: none. */
bool lli_rx_filtered_messages(struct lli_rx *rx, struct lli_item *item);

/* As lli_rx_filter_begin(), for a packet that is looked into before its turn. */
void lli_rx_filter_unordered(struct lli_rx *rx, const uint8_t *body);

/* As lli_rx_filtered_messages(), of that packet: only what lies wholly in it, and is of a topic with a name. */
bool lli_rx_filtered_unordered(struct lli_rx *rx, struct lli_item *item);

/*
 * So many messages behind those of an item are of a topic that is refused or counted, or has no history: how many of them, from
 * the first, are delivered all the same.
 */
int lli_rx_account(struct lli_rx *rx, uint32_t topic, struct lli_item *item, int count);

/* Whether a message was sent before this receiver joined, on a topic without history: it is passed over then, and counted. */
static inline bool lli_rx_is_stale(struct lli_rx *rx, uint32_t topic, uint64_t number)
{
    const bool stale = number < rx->live && lli_topics_is_transient(&rx->topics, topic);

    rx->counters->messages_stale += stale;
    return stale;
}

/* The item that a topic is announced by. */
bool lli_rx_topic_item(const struct lli_rx *rx, uint32_t topic, struct lli_item *item);

/* ---------------------------------------------------------------------------------------- rx_token.c */

/* Whether the transmitter has answered from the address that it announces. */
static inline bool lli_rx_is_answered(const struct lli_rx *rx)
{
    return rx->token != 0 && lli_wire_is_address(&rx->token_from, &rx->heartbeat.address);
}

/* What packets have as their token: none, to be given one, where it has not. */
static inline uint64_t lli_rx_token(const struct lli_rx *rx)
{
    return lli_rx_is_answered(rx) ? rx->token : 0;
}

/* Ranges of a NAK: a packet to an address that may be anybody's is short. */
static inline int lli_rx_ranges_max(const struct lli_rx *rx)
{
    return !rx->config->confirms || lli_rx_is_answered(rx) ? LLI_WIRE_RANGES_MAX : LLI_RX_RANGES_UNANSWERED;
}

/* Distance to the next report while there is no token, or nothing was heard of the session: the answer may have been lost. Else LLI_NEVER. */
lli_ns lli_rx_token_retry(const struct lli_rx *rx);

/* A packet went to the transmitter: another may have to wait. */
void lli_rx_spoke(struct lli_rx *rx, lli_ns now);

/* A heartbeat came, which may be the first with an address that has answered before. */
void lli_rx_addressed(struct lli_rx *rx);

/* An answer came. */
void lli_rx_take_token(struct lli_rx *rx, uint64_t token, lli_ns now);

/* ----------------------------------------------------------------------------------------- rx_kept.c */

void lli_rx_lvc_init(struct lli_rx *rx, struct lli_arena *arena);

/* The transmitter said where the stream goes on: what topics keep of the messages before comes first, while LLI_RX_LATEST is set. */
void lli_rx_lvc_begin(struct lli_rx *rx, const struct lli_wire_join *granted);

/* Gives back what is held of it. */
void lli_rx_lvc_drop(struct lli_rx *rx);

/* A packet of it came. */
void lli_rx_input_lvc(struct lli_rx *rx, const struct lli_wire_lvc *packet, const struct lli_reader *records, lli_ns now);

/* Goes on to the next message, to be unpacked, or to the stream when all is there; false: it is still to come. */
bool lli_rx_next_lvc(struct lli_rx *rx, lli_ns now);

/* The item that it does not all come, once that is given up. */
bool lli_rx_lost_lvc(struct lli_rx *rx, lli_ns now, struct lli_item *item);

/* Builds the request for it that is due. */
bool lli_rx_control_lvc(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* ---------------------------------------------------------------------------------------- rx_ahead.c */

void lli_rx_unordered_init(struct lli_rx *rx, struct lli_arena *arena);
void lli_rx_unordered_reset(struct lli_rx *rx);

static inline bool lli_rx_as_it_arrives(const struct lli_rx *rx)
{
    return rx->unordered.marks != NULL;
}

/* Those of these packets that are held have messages that may be given before their turn. */
void lli_rx_unordered_look(struct lli_rx *rx, lli_seq first, lli_seq end);

/* The next messages, or a topic, of packets that are held; false: all that can be was given. */
bool lli_rx_next_unordered(struct lli_rx *rx, struct lli_item *item);

/* The turn of a packet has come, which is unpacked next: if some of it was given, LLI_RX_TURN is set until the rest is. */
void lli_rx_unordered_turn(struct lli_rx *rx, lli_seq seq);

/* A packet is dropped before its turn, of which messages may have been given: they are not given again, nor told lost. */
void lli_rx_unordered_drop(struct lli_rx *rx, lli_seq seq);

/* Of messages that are told lost keeps those before the first that was given; false: none was. Those behind it are the rest. */
bool lli_rx_unordered_split(struct lli_rx *rx, struct lli_unpacked *lost, enum llm_reason reason);

/* The messages that come next in order, less what was given and what is refused; false: none. */
bool lli_rx_turn_messages(struct lli_rx *rx, struct lli_item *item);

/* Begins to unpack a packet, in order. */
static inline void lli_rx_unpack(struct lli_rx *rx, lli_seq seq, const struct lli_wire_header *header, const uint8_t *body,
                                 size_t size)
{
    if (rx->enters && seq == rx->begin && header->number != (uint32_t)rx->first)
        (void)lli_unpack_enter(&rx->unpack, header, body, size, rx->first);
    else if (rx->aside & LLI_RX_FILTERING)
        lli_rx_filter_begin(rx, header, body, size);
    else
        lli_unpack_begin(&rx->unpack, header, body, size);
    rx->enters = false;
}

#endif
