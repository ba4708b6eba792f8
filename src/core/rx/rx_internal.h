/* SPDX-License-Identifier: Apache-2.0 */
/* Internal interface of the files rx_*.c. */
#ifndef LLI_RX_INTERNAL_H
#define LLI_RX_INTERNAL_H

#include "core/protect/protect.h"
#include "core/rx/rx_session.h"

struct lli_former_session;

/* --------------------------------------------------------------------------------------- rx_deliver.c */

void lli_rx_deliver_start(struct lli_rx *rx);

/* Rules the fast path out until lli_rx_settle() allows it again. */
static inline void lli_rx_unsettle(struct lli_rx *rx)
{
    rx->pending.plain = false;
}

/* Notes that lli_rx_deadline() may be earlier now. */
static inline void lli_rx_need_service(struct lli_rx *rx)
{
    rx->pending.service_due = true;
}

static inline void lli_rx_set_news(struct lli_rx *rx, enum lli_rx_news news)
{
    rx->pending.news |= (uint16_t)news;
}

static inline void lli_rx_clear_news(struct lli_rx *rx, enum lli_rx_news news)
{
    rx->pending.news &= (uint16_t) ~(unsigned)news;
}

static inline void lli_rx_set_slow_path(struct lli_rx *rx, enum lli_rx_slow_path reason)
{
    rx->pending.slow_path |= (uint8_t)reason;
}

static inline void lli_rx_clear_slow_path(struct lli_rx *rx, enum lli_rx_slow_path reason)
{
    rx->pending.slow_path &= (uint8_t) ~(unsigned)reason;
}

/* lag: of enum lli_rx_lag. */
static inline void lli_rx_set_lag(struct lli_rx *rx, int lag)
{
    rx->pending.lag = (uint8_t)lag;
}

/* Gives up the packets before this one. */
static inline void lli_rx_give_up(struct lli_rx *rx, lli_seq below, enum llm_reason reason)
{
    rx->loss.gone_below = below;
    rx->loss.gone_reason = reason;
}

/* Ends the session for this receiver, after everything before the end is reported. */
static inline void lli_rx_end(struct lli_rx *rx, enum llm_reason reason)
{
    rx->loss.end_reason = reason;
}

/* Sets the reason for a loss without lost packets. */
static inline void lli_rx_broken(struct lli_rx *rx, enum llm_reason reason)
{
    rx->loss.broken_reason = reason;
}

/*
 * Reason of the loss that is reported next. A loss of unreliable packets has numbers before it that are missing for the reason of an
 * interruption, if there was one: the whole is not unreliable then.
 */
static inline enum llm_reason lli_rx_loss_reason(const struct lli_rx *rx)
{
    const bool interrupted = rx->loss.broken_reason != LLM_REASON_MALFORMED;

    return rx->loss.run == 0 || (interrupted && rx->loss.run_reason == LLM_REASON_UNRELIABLE)
               ? rx->loss.broken_reason
               : rx->loss.run_reason;
}

/* Forgets losses: the stream continues at an earlier position. */
void lli_rx_forget_losses(struct lli_rx *rx);

/* ----------------------------------------------------------------------------------------- rx_excerpt.c */

/* Goes on with the next piece if this one is exhausted. False: it is not, or it was the last one. */
bool lli_rx_excerpt_turn(struct lli_rx *rx);

/* ------------------------------------------------------------------------------------------ rx_buffer.c */

void lli_rx_buffer_init(struct lli_rx *rx, struct lli_reorder *reorder, struct lli_arena *arena);

static inline uint32_t *lli_rx_cell(const struct lli_rx *rx, lli_seq seq)
{
    return &rx->buffer.cells[seq & rx->gap.mask];
}

/*
 * Buffers a copy of a packet, or of a part of one; LLI_REORDER_NONE if there is no room. lli_rx_give_back()
 * frees it.
 */
static inline uint32_t lli_rx_put(struct lli_rx *rx, const uint8_t *data, uint32_t size)
{
    const uint32_t cell = lli_reorder_put(rx->buffer.reorder, data, size);

    rx->buffer.chunks += cell == LLI_REORDER_NONE ? 0 : lli_reorder_chunks(size);
    return cell;
}

static inline void lli_rx_give_back(struct lli_rx *rx, uint32_t cell)
{
    rx->buffer.chunks -= lli_reorder_free(rx->buffer.reorder, cell);
}

/*
 * Buffers a packet until it is next in order, after lli_gap_extend() covered it. False if there is no memory
 * for it.
 */
bool lli_rx_buffer(struct lli_rx *rx, lli_seq seq, const struct lli_rx_packet *packet, lli_ns now);

/* Returns how many more packets could be buffered now. */
uint32_t lli_rx_room(const struct lli_rx *rx);

/* Records where the session ended, which is where it would resume, and the reason. */
void lli_rx_note(const struct lli_rx *rx, lli_seq next, uint64_t number, enum llm_reason reason);

/* Frees every buffered packet. */
void lli_rx_drop_packets(struct lli_rx *rx);

/* Addresses the packet in buffer to the transmitter. */
bool lli_rx_packet(const struct lli_rx *rx, const uint8_t *buffer, size_t size, struct lli_packet *packet);

/* Makes the item an event of the session. */
static inline bool lli_rx_event(const struct lli_rx *rx, enum llm_event_kind kind, struct lli_item *item)
{
    item->kind = LLI_ITEM_EVENT;
    item->event = (struct llm_event){.kind = kind, .session = rx->session};
    return true;
}

/* ------------------------------------------------------------------------------------- rx_heartbeat.c */

void lli_rx_heard_start(struct lli_rx *rx, lli_ns now);

/* Takes figures of a heartbeat with which those refused before it agree. */
void lli_rx_heartbeat_agreed(struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat);

/* Notes that this many topics exist, according to a packet other than a heartbeat. */
void lli_rx_heartbeat_topics(struct lli_rx *rx, uint32_t topics);

/* Handles a heartbeat. */
void lli_rx_input_heartbeat(struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat, lli_ns now);

/* A session is silent only after it missed this many promised heartbeats. */
enum { RX_HEARTBEATS_MISSED = 5 };

/* Time without packets after which a session is silent. */
static inline lli_ns lli_rx_patience(const struct lli_rx *rx)
{
    lli_ns promised = (lli_ns)rx->heartbeat.interval_us * 1000 * RX_HEARTBEATS_MISSED;

    return lli_max(rx->config->silence, promised);
}

/* Time at which the session is silent, unless it is heard before. */
static inline lli_ns lli_rx_silent_at(const struct lli_rx *rx)
{
    return lli_max(rx->heard_at, rx->heard.away_at) + lli_rx_patience(rx);
}

/* Notes that a packet of the session arrived. */
static inline void lli_rx_heard(struct lli_rx *rx, lli_ns now)
{
    rx->heard_at = now;
    if (rx->heard.silent) {
        rx->heard.silent = false;
        lli_rx_set_news(rx, LLI_RX_RESUMED);
        lli_rx_need_service(rx);
    }
}

/* Declares the session silent, or ended, if it was not heard for that long. */
void lli_rx_check_silence(struct lli_rx *rx, lli_ns now);

/* ------------------------------------------------------------------------------------------- rx_nak.c */

void lli_rx_nak_start(struct lli_rx *rx);

/* Notes that packets before end exist: those not received are missing from now on. */
void lli_rx_extend(struct lli_rx *rx, lli_seq end, lli_ns now);

/* Best known round trip. */
lli_ns lli_rx_rtt(const struct lli_rx *rx);

/* Notes the arrival of a missing packet and, if it was requested, the time that took. */
void lli_rx_note_repair(struct lli_rx *rx, lli_seq seq, lli_ns now);

/* Sends no NAK until then. */
void lli_rx_delay_naks(struct lli_rx *rx, lli_ns until);

/*
 * lli_rx_nak_less(): a packet was dropped for lack of memory. lli_rx_nak_more(): a missing one arrived in
 * order.
 */
void lli_rx_nak_less(struct lli_rx *rx);
void lli_rx_nak_more(struct lli_rx *rx);

/* Builds the NAK that is due. */
bool lli_rx_control_nak(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* Handles a REJECT. */
void lli_rx_input_reject(struct lli_rx *rx, const struct lli_wire_reject *reject, lli_ns now);

/* Hastens NAKs for the missing packets of [from, end), which no line will bring. */
void lli_rx_passed(struct lli_rx *rx, lli_seq from, lli_seq end, lli_ns now);

/* ------------------------------------------------------------------------------------------- rx_line.c */

void lli_rx_line_start(struct lli_rx *rx, lli_ns now);

/* Sends the next requests over the other line, if that is up: one line may be broken in one direction only. */
void lli_rx_line_turn(struct lli_rx *rx);

/* Chooses the line for a NAK, the first of which goes over the line heard last: this is the tries-th. */
void lli_rx_line_for_nak(struct lli_rx *rx, uint32_t tries);

/* Returns the event that a line is down, or up. */
bool lli_rx_line_item(struct lli_rx *rx, struct lli_item *item);

/* Time to wait for lines that may still bring packets before end, from when one has passed them. */
lli_ns lli_rx_lines_wait(const struct lli_rx *rx, lli_seq end);

static inline lli_ns lli_rx_line_wait(const struct lli_rx *rx, lli_seq end)
{
    return rx->config->lines > 1 ? lli_rx_lines_wait(rx, end) : 0;
}

/* Notes that packets before end were requested: lines that have not passed them were waited for in vain. */
void lli_rx_line_asked(struct lli_rx *rx, lli_seq end);

/* Hastens NAKs for packets that all lines have passed since the latest call. */
void lli_rx_line_passed(struct lli_rx *rx, lli_ns now);

/* Takes a copy of a heartbeat that came on the other line before. False: the packet is something else. */
bool lli_rx_line_copy(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now);

/* Notes that the latest heartbeat came on this line. */
void lli_rx_line_heartbeat(struct lli_rx *rx, int line, lli_ns now);

/*
 * lli_rx_line_begin(): until lli_rx_line_end(), requests go over the line of a control packet. Returns the line
 * before, over which they go again then.
 */
int lli_rx_line_begin(struct lli_rx *rx, const struct lli_rx_packet *packet);
void lli_rx_line_end(struct lli_rx *rx, int before);

/* ---------------------------------------------------------------------------------------- rx_topics.c */

void lli_rx_topics_init(struct lli_rx *rx, struct lli_arena *arena);
void lli_rx_topics_start(struct lli_rx *rx);

/* Notes how many topics a GRANT announced. */
void lli_rx_topics_granted(struct lli_rx *rx, uint32_t topics);

/* Asks for no more names than the latest heartbeat, or a GRANT, announced. */
void lli_rx_learn_less(struct lli_rx *rx);

/* Sets the time of the next query. */
void lli_rx_query_at(struct lli_rx *rx, lli_ns at);

/* Counts the messages of an item by topic. */
void lli_rx_count_topics(struct lli_rx *rx, const struct lli_item *item);

/* Starts asking for names of topics announced so far. block: deliver nothing until they are known. */
void lli_rx_learn(struct lli_rx *rx, lli_ns now, bool block);

/* Builds the query that is due; false: the names are known, or no answer came. */
bool lli_rx_control_query(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* Handles the answer to a query. */
void lli_rx_input_topics(struct lli_rx *rx, const struct lli_wire_topics *topics, struct lli_reader names,
                         lli_ns now);

/* Takes an announcement in the stream. True: the topic is new, and the item announces it. */
bool lli_rx_announced(struct lli_rx *rx, const struct lli_unpacked *unpacked, struct lli_item *item);

/* Returns the next topic that is to be announced outside the stream; false: none. */
bool lli_rx_next_topic(struct lli_rx *rx, struct lli_item *item);

/* Returns the item that announces a topic. */
bool lli_rx_topic_item(const struct lli_rx *rx, uint32_t topic, struct lli_item *item);

/*
 * Accounts for `count` messages, stored after those of the item, of a topic that is refused, counted or
 * without history. Returns how many of them, from the first on, are delivered all the same.
 */
int lli_rx_account(struct lli_rx *rx, uint32_t topic, struct lli_item *item, int count);

/* Skips messages of refused topics that come next in the packet being unpacked, as far as they are whole. */
void lli_rx_pass_refused(struct lli_rx *rx);

/* ---------------------------------------------------------------------------------------- rx_notice.c */

void lli_rx_standing_start(struct lli_rx *rx);

/* Handles a notice of how this receiver is served. */
void lli_rx_input_notice(struct lli_rx *rx, const struct lli_wire_notice *notice, lli_ns now);

/* Returns the event for a change of this receiver's standing at the transmitter. */
bool lli_rx_standing_item(struct lli_rx *rx, struct lli_item *item);

/* Takes the reason for reduced service in an answer of kind TOKEN, if it has one. */
void lli_rx_input_crowded(struct lli_rx *rx, const struct lli_wire_join *join);

/* ---------------------------------------------------------------------------------------- rx_trust.c */

void lli_rx_trust_start(struct lli_rx *rx);

/*
 * True if a heartbeat is to be followed: it is consistent with what was received, or only inconsistent ones
 * have arrived for a long time.
 */
bool lli_rx_believes(struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat, lli_ns now);

/* Limits figures to the largest values that a transmitter sends. */
void lli_rx_clamp(struct lli_wire_heartbeat *heartbeat);

/* Brings forward timers that the previous heartbeat put off, if the latest one has smaller figures. */
void lli_rx_replan(struct lli_rx *rx, const struct lli_wire_heartbeat *before, lli_ns now);

/* Packets before this one exist, as two heartbeats say: only these may be given up. */
static inline lli_seq lli_rx_known(const struct lli_rx *rx)
{
    return lli_min(rx->heartbeat.lead, rx->heard.lead_before);
}

/* Packets before this one exist, as two heartbeats say, or one heartbeat and received data. */
static inline lli_seq lli_rx_known_by_data(const struct lli_rx *rx)
{
    return lli_min(rx->heartbeat.lead, lli_max(rx->heard.lead_before, rx->gap.received));
}

/* Messages that start before lli_rx_known(). */
static inline uint64_t lli_rx_known_messages(const struct lli_rx *rx)
{
    return lli_min(rx->heartbeat.messages, rx->heard.messages_before);
}

/* Upper bound, from heartbeats, of the number of the first message in the packet next in order. */
uint64_t lli_rx_number_max(const struct lli_rx *rx);

/*
 * True if the missing packet next in order is known to exist from more than the single packet that says it is
 * not repaired.
 */
bool lli_rx_is_confirmed(const struct lli_rx *rx);

/* Drops buffered packets that neither the latest heartbeat nor the previous one covers: they do not exist. */
void lli_rx_cover(struct lli_rx *rx, lli_ns now);

/*
 * Moves back to the heartbeats' position if all of them have said for a long time that the next packet in
 * order is far from being sent.
 */
void lli_rx_recede(struct lli_rx *rx, lli_ns now);

/*
 * True if a data packet is so far beyond all known ones that another such packet has to arrive before it is
 * believed; notes it.
 */
bool lli_rx_is_jump(struct lli_rx *rx, lli_seq seq);

/* --------------------------------------------------------------------------------------- rx_report.c */

/* True if so many receivers share the session that they must not all answer at once. */
static inline bool lli_rx_is_crowded(const struct lli_rx *rx)
{
    return rx->heartbeat.receivers > rx->config->nak_receivers_immediate;
}

/* Returns k: one receiver of 2^k reports by packets (section 7.1). */
static inline uint32_t lli_rx_share(const struct lli_wire_heartbeat *heartbeat)
{
    return heartbeat->flags / LLI_WIRE_HEARTBEAT_SHARE;
}

/* True if this receiver reports by packets. */
static inline bool lli_rx_is_in_share(const struct lli_rx *rx)
{
    return lli_wire_is_in_share(rx->session, rx->config->receiver, lli_rx_share(&rx->heartbeat));
}

void lli_rx_report_start(struct lli_rx *rx);

/* Counts packets until the next report from this one on. */
void lli_rx_report_from(struct lli_rx *rx, lli_seq next);

/* Sets the time of the next report. */
void lli_rx_report_at(struct lli_rx *rx, lli_ns at);

/* Reports now, with a new token, and again at intervals that double up to that of all receivers. */
void lli_rx_report_early(struct lli_rx *rx, lli_ns now);

/* Starts the run of messages without a loss, and those that the application acknowledged. */
void lli_rx_acknowledge_from(struct lli_rx *rx, uint64_t acknowledged_from, uint64_t acknowledged);

/* Restarts the run at this message. */
void lli_rx_acknowledge_restart(struct lli_rx *rx, uint64_t number);

/* Schedules a status report: now, or spread over an interval if many other receivers report as well. */
void lli_rx_status_soon(struct lli_rx *rx, lli_ns now);

/* Recomputes when the next report by packets is due, after a report or a change of their interval. */
void lli_rx_plan_report(struct lli_rx *rx);

/* Builds a status report. */
bool lli_rx_control_status(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* ----------------------------------------------------------------------------------------- rx_join.c */

void lli_rx_join_start(struct lli_rx *rx);

/* Handles the first heartbeat, which confirms the session (section 4.2). */
void lli_rx_found(struct lli_rx *rx, lli_ns now);

/* Likewise, when it is decided that a session of a stream is followed. */
void lli_rx_follow_found(struct lli_rx *rx, lli_ns now);

/*
 * Resumes a session where it ended, if it ended for this receiver only, or by an END that other heartbeats
 * contradict.
 */
void lli_rx_resume(struct lli_rx *rx, const struct lli_former_session *former, lli_ns now);

/* Handles the transmitter's GRANT or REFUSE. */
void lli_rx_input_join(struct lli_rx *rx, const struct lli_wire_join *join, lli_ns now);

/* Builds the ASK that is due, before the start position is known. */
bool lli_rx_control_join(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* Returns the item that is due before the start position is known. */
bool lli_rx_next_join(struct lli_rx *rx, lli_ns now, struct lli_item *item);

/* Builds the FETCH that is due. */
bool lli_rx_control_fetch(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* Requests repeat at doubling intervals up to this: the transmitter may have many to serve. */
#define LLI_RX_JOIN_RETRY_MAX ((lli_ns)100000000)

/*
 * lli_rx_retry_after(): interval to the next repetition of a request, after rx->replay.tries of them.
 * lli_rx_request_time(): time that an answer takes.
 */
lli_ns lli_rx_retry_after(const struct lli_rx *rx, lli_ns least);
lli_ns lli_rx_request_time(const struct lli_rx *rx);

enum { LLI_RX_RANGES_UNANSWERED = 8 };

/*
 * Requests for the past or for LVC messages: lli_rx_request_start() begins with a request at once,
 * lli_rx_request_answered() notes the arrival of a packet, lli_rx_request_sent() a request,
 * lli_rx_request_at() the time of the next one.
 */
void lli_rx_request_start(struct lli_rx *rx, lli_ns now);
void lli_rx_request_answered(struct lli_rx *rx, lli_ns now);
void lli_rx_request_sent(struct lli_rx *rx);
void lli_rx_request_at(struct lli_rx *rx, lli_ns at);

/* Ends the past at `lead`, but not before the position granted. */
void lli_rx_replay_limit(struct lli_rx *rx, lli_seq lead);

/* Notes that the past was delivered. */
void lli_rx_joined(struct lli_rx *rx);

/* Notes the arrival of a replay packet. */
void lli_rx_replayed(struct lli_rx *rx, lli_seq seq, lli_ns now);

static inline bool lli_rx_is_replaying(const struct lli_rx *rx)
{
    return rx->pending.lag & LLI_RX_REPLAYING;
}

/* True if the next packet in order is to be fetched. */
static inline bool lli_rx_is_fetching(const struct lli_rx *rx)
{
    return lli_rx_is_replaying(rx) && rx->gap.next < rx->replay.end;
}

/*
 * Marks missing packets of [first, end) as not repaired: each is given up once all packets before it arrived
 * or were given up.
 */
void lli_rx_unrepaired(struct lli_rx *rx, lli_seq first, lli_seq end, lli_ns now);

/*
 * Notes that a packet was dropped for lack of room: while the past is being fetched, it becomes part of the
 * past.
 */
static inline void lli_rx_dropped(struct lli_rx *rx, lli_seq seq)
{
    if (lli_rx_is_replaying(rx))
        rx->replay.end = lli_max(rx->replay.end, seq + 1);
}

/* Begins at the position that a store offered, or as the transmitter answered, once stores were sought. */
void lli_rx_join_sought(struct lli_rx *rx, lli_ns now);

/* ---------------------------------------------------------------------------------------- rx_store.c */

void lli_rx_store_start(struct lli_rx *rx);

/*
 * Takes the transmitter's GRANT or REFUSE. True: stores are sought for an earlier position, and
 * lli_rx_join_sought() follows.
 */
bool lli_rx_store_seek(struct lli_rx *rx, const struct lli_wire_join *answer, lli_ns now);

/* Handles an OFFER or ABSENT. */
void lli_rx_input_store(struct lli_rx *rx, const struct lli_wire_join *join, lli_ns now);

/* Builds the SEEK or RECALL that is due. */
bool lli_rx_control_store(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* Time of the next call of lli_rx_control_store(). */
lli_ns lli_rx_store_deadline(const struct lli_rx *rx);

/* True if the missing packet next in order is asked of stores, so it is not given up. */
bool lli_rx_is_recalling(const struct lli_rx *rx);

/* True if it is asked of stores only, because the transmitter no longer has it. */
static inline bool lli_rx_is_gone_for_store(const struct lli_rx *rx)
{
    return rx->store.count > 0 && rx->gap.next < rx->loss.gone_below && lli_rx_is_recalling(rx);
}

/* The first packet of [from, end) that a store may have; end if there is none. */
lli_seq lli_rx_store_ahead(const struct lli_rx *rx, lli_seq from, lli_seq end);

/* Makes packets known that stores offer, while the session is silent. */
void lli_rx_store_extend(struct lli_rx *rx, lli_ns now);

/* Notes the arrival of a missing packet. True: a store was asked for it. */
bool lli_rx_recalled(struct lli_rx *rx, lli_seq seq, lli_ns now);

/* True if a store was asked for this packet: it is no sign of life of the transmitter. */
static inline bool lli_rx_is_recalled(const struct lli_rx *rx, uint32_t seq)
{
    return rx->store.recalling > 0 && lli_seq_extend(rx->gap.next, seq) < rx->store.recalled;
}

void lli_rx_filter_start(struct lli_rx *rx);

/*
 * Like lli_unpack_begin() while LLI_RX_FILTERING is set; skips unwanted messages up to the first wanted one.
 */
void lli_rx_filter_begin(struct lli_rx *rx, const struct lli_wire_header *header, const uint8_t *body,
                         size_t size);

/* Returns the next wanted messages, without those of refused topics; false: none. */
bool lli_rx_filtered_messages(struct lli_rx *rx, struct lli_item *item);

/* Like lli_rx_filter_begin(), for a packet read ahead of order. */
void lli_rx_filter_unordered(struct lli_rx *rx, const uint8_t *body);

/*
 * Like lli_rx_filtered_messages(), for such a packet: only messages that lie wholly in it, on topics with
 * known names.
 */
bool lli_rx_filtered_unordered(struct lli_rx *rx, struct lli_item *item);

/*
 * True if a message of a topic without history was sent before this receiver joined: it is skipped and
 * counted.
 */
static inline bool lli_rx_is_stale(struct lli_rx *rx, uint32_t topic, uint64_t number)
{
    const bool stale = number < rx->join.live && lli_topics_is_transient(&rx->topics, topic);

    rx->counters->messages_stale += stale;
    return stale;
}

/* ---------------------------------------------------------------------------------------- rx_token.c */

void lli_rx_token_start(struct lli_rx *rx);

/* True if the transmitter has answered from the address that it announces. */
static inline bool lli_rx_is_answered(const struct lli_rx *rx)
{
    return rx->token.value != 0 && lli_wire_is_address(&rx->token.from, &rx->heartbeat.address);
}

/* Token for packets to the transmitter; 0, to request one, if it has not answered. */
static inline uint64_t lli_rx_token(const struct lli_rx *rx)
{
    return lli_rx_is_answered(rx) ? rx->token.value : 0;
}

/* Maximum of ranges in a NAK: packets to an unconfirmed address are short. */
static inline int lli_rx_ranges_max(const struct lli_rx *rx)
{
    return !rx->config->confirms || lli_rx_is_answered(rx) ? LLI_WIRE_RANGES_MAX : LLI_RX_RANGES_UNANSWERED;
}

/*
 * Interval to the next report while there is no token, or nothing was heard of the session: the answer may
 * have been lost. Else LLI_NEVER.
 */
lli_ns lli_rx_token_retry(const struct lli_rx *rx);

/*
 * Notes that a packet of this size is to be sent to the transmitter; an unconfirmed address delays the next one.
 * False: it must not be sent, as what came from there does not permit that many bytes.
 */
bool lli_rx_may_speak(struct lli_rx *rx, uint32_t size, lli_ns now);

/* Notes a heartbeat from an address that has not answered: more may be sent to it. */
void lli_rx_token_allow(struct lli_rx_token *token);

/* The same for any heartbeat, whose address may have answered before. */
void lli_rx_addressed(struct lli_rx *rx);

/* Takes the token of an answer. */
void lli_rx_take_token(struct lli_rx *rx, uint64_t token, lli_ns now);

/* --------------------------------------------------------------------------------------- rx_stream.c */

void lli_rx_stream_start(struct lli_rx *rx);

/* Notes a heartbeat of a session that is not followed yet. True: it is not to be followed before a decision. */
bool lli_rx_stream_found(struct lli_rx *rx);

/* Notes that the session resumes where it ended. */
void lli_rx_stream_resumed(struct lli_rx *rx);

/* True if another session of the stream is followed instead of this one, which ended. */
bool lli_rx_stream_is_superseded(const struct lli_rx *rx);

/*
 * Returns, while LLI_RX_NEW is set, LLM_EVENT_SESSION_NEW and then, for a session of a stream, what is missing
 * or sent again; false: nothing.
 */
bool lli_rx_stream_new(struct lli_rx *rx, struct lli_item *item);

/* Notes the position when the session ends, and that it is no longer followed. */
void lli_rx_stream_reached(const struct lli_rx *rx, uint64_t number);
void lli_rx_stream_left(struct lli_rx *rx);

/* ---------------------------------------------------------------------------------------- rx_merge.c */

/* Merges a session that is followed with the others of its stream, if it is one that merges. */
void lli_rx_merge_begin(struct lli_rx *rx);
void lli_rx_merge_end(struct lli_rx *rx);

/*
 * Places the beginning of a session, of this number in the stream. True: messages from *first on and before it are
 * lost.
 */
bool lli_rx_merge_seam(struct lli_rx *rx, uint64_t number, uint64_t *first);

/* Has a session wait that skips numbers, which another session may have. */
void lli_rx_merge_skip(struct lli_rx *rx, const struct lli_unpacked *skipped);

/* Returns the numbers that the session skipped and no other one has, once they are known to be lost. */
bool lli_rx_merge_skipped(struct lli_rx *rx, struct lli_unpacked *skipped);

/* True if a session that waited at its beginning, or because it skips numbers, goes on. */
bool lli_rx_merge_resumes(struct lli_rx *rx, lli_ns now);

/*
 * Returns the reason to give up the missing packet next in order: `reason` is that of the session alone.
 * rx->stream.covered: it is no loss.
 */
enum llm_reason lli_rx_merge_gives_up(struct lli_rx *rx, enum llm_reason reason, lli_ns now);

/* True if the messages before this number of the session are missing, and another session may have them. */
bool lli_rx_merge_waits(struct lli_rx *rx, uint64_t number, lli_ns now);

/* True if lli_rx_merge_proceeds() decides about the packet next in order. */
static inline bool lli_rx_merge_asks(const struct lli_rx *rx)
{
    return rx->loss.run > 0 || rx->stream.retry_at != 0;
}

/* True if the packet next in order, which is present, may be taken: after a loss the others are asked first. */
bool lli_rx_merge_proceeds(struct lli_rx *rx, lli_ns now);

/* Limits a loss to the messages that no session has. False: there are none. */
bool lli_rx_merge_lost(struct lli_rx *rx, struct lli_unpacked *lost);

/* Notes that the messages unpacked so far, some of them refused, are not missing. */
void lli_rx_merge_passed(struct lli_rx *rx);

/* Returns the item of the first copies that have other bytes than the delivered messages, once. */
bool lli_rx_merge_diverged(struct lli_rx *rx, struct lli_item *item);

/* Removes copies from an item, and numbers the rest as the stream does. False: nothing is left. */
bool lli_rx_merge_messages(struct lli_rx *rx, struct lli_item *item);

/* ------------------------------------------------------------------------------------------ rx_lvc.c */

void lli_rx_lvc_init(struct lli_rx *rx, struct lli_arena *arena);

/*
 * Starts fetching LVC messages, if they were requested, that precede the granted start of the stream; they
 * come first, while LLI_RX_LATEST is set.
 */
void lli_rx_lvc_granted(struct lli_rx *rx, const struct lli_wire_join *granted);

/* Gives up the LVC messages that are missing. */
void lli_rx_lvc_lose(struct lli_rx *rx, enum llm_reason reason);

/* Frees buffered LVC packets. */
void lli_rx_lvc_drop(struct lli_rx *rx);

/* Handles an LVC packet. */
void lli_rx_input_lvc(struct lli_rx *rx, const struct lli_wire_lvc *packet, const struct lli_reader *records,
                      lli_ns now);

/*
 * Moves on to the next LVC message, to be unpacked, or to the stream when all are there. False: more packets
 * are needed.
 */
bool lli_rx_next_lvc(struct lli_rx *rx, lli_ns now);

/* Returns the item that reports an incomplete fetch, once it is given up. */
bool lli_rx_lost_lvc(struct lli_rx *rx, lli_ns now, struct lli_item *item);

/* Builds the LATEST request that is due. */
bool lli_rx_control_lvc(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* ------------------------------------------------------------------------------------------ rx_hold.c */

/* Starts waiting for seals, if config.seal_state is set. Call after lli_rx_deliver_start(). */
void lli_rx_hold_start(struct lli_rx *rx);

/*
 * Of a session that waits for seals: true if the packet next in order came and waits. One that was forged, or will not
 * be sealed, is missing from then on.
 */
bool lli_rx_holds(struct lli_rx *rx, lli_ns now);

/* Likewise, true if the missing packet next in order came, and its transmitter did not seal it in time. */
bool lli_rx_is_unsealed(const struct lli_rx *rx);

/* ---------------------------------------------------------------------------------------- rx_record.c */

/* Starts recording, if config.records is set. Call after lli_rx_deliver_start(). */
void lli_rx_record_start(struct lli_rx *rx);

/* Notes the packet that is unpacked next. */
static inline void lli_rx_record(struct lli_rx *rx, lli_seq seq, const uint8_t *bytes, size_t size)
{
    if (!(rx->pending.slow_path & LLI_RX_RECORDING))
        return;
    rx->record = (struct lli_rx_record){.bytes = bytes, .size = (uint32_t)size, .seq = seq};
    lli_rx_set_news(rx, LLI_RX_RECORD);
}

/* Bytes of a packet of this size with what lies behind it. */
static inline uint32_t lli_rx_whole(const struct lli_rx *rx, uint32_t size)
{
    return rx->config->records_protected ? 2 * size + LLI_PROTECT_DATA : size;
}

/* Likewise, the size of the packet alone. */
static inline uint32_t lli_rx_alone(const struct lli_rx *rx, uint32_t whole)
{
    return rx->config->records_protected ? (whole - LLI_PROTECT_DATA) / 2 : whole;
}

/* Returns the item of the packet noted last, once. */
bool lli_rx_next_record(struct lli_rx *rx, struct lli_item *item);

/* ------------------------------------------------------------------------------------ rx_unordered.c */

void lli_rx_unordered_init(struct lli_rx *rx, struct lli_arena *arena);
void lli_rx_unordered_reset(struct lli_rx *rx);

static inline bool lli_rx_as_it_arrives(const struct lli_rx *rx)
{
    return rx->unordered.marks != NULL;
}

/* Marks buffered packets of [first, end) to be read ahead of order. */
void lli_rx_unordered_look(struct lli_rx *rx, lli_seq first, lli_seq end);

/* Returns the next messages, or a topic, of buffered packets; false: everything possible was delivered. */
bool lli_rx_next_unordered(struct lli_rx *rx, struct lli_item *item);

/*
 * Prepares to unpack the packet next in order: sets LLI_RX_TURN, until it is finished, if some of it was
 * delivered ahead of order.
 */
void lli_rx_unordered_turn(struct lli_rx *rx, lli_seq seq);

/*
 * Drops a packet ahead of order. Its messages that were delivered are neither delivered again nor reported
 * lost.
 */
void lli_rx_unordered_drop(struct lli_rx *rx, lli_seq seq);

/*
 * Cuts lost messages before the first that was delivered; false: none was. The messages after it become the
 * rest.
 */
bool lli_rx_unordered_split(struct lli_rx *rx, struct lli_unpacked *lost, enum llm_reason reason);

/*
 * Moves *number, the next message in order of a session that ends, behind messages that were delivered ahead of
 * order from packets that were dropped since. Returns the packet with which the session would resume: no message
 * from *number on begins before it.
 */
lli_seq lli_rx_unordered_end(const struct lli_rx *rx, uint64_t *number);

/* Returns the next messages in order, without delivered and refused ones; false: none. */
bool lli_rx_turn_messages(struct lli_rx *rx, struct lli_item *item);

/* Begins to unpack a packet in order. */
static inline void lli_rx_unpack(struct lli_rx *rx, lli_seq seq, const struct lli_wire_header *header,
                                 const uint8_t *body, size_t size)
{
    if (rx->join.enters && seq == rx->join.begin && header->number != (uint32_t)rx->join.first)
        (void)lli_unpack_enter(&rx->unpack, header, body, size, rx->join.first);
    else if (rx->pending.slow_path & LLI_RX_FILTERING)
        lli_rx_filter_begin(rx, header, body, size);
    else
        lli_unpack_begin(&rx->unpack, header, body, size);
    rx->join.enters = false;
}

#endif
