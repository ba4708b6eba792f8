/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rx/former.h"
#include "core/rx/rx_internal.h"

void lli_rx_init(struct lli_rx *rx, const struct lli_rx_config *config, struct lli_reorder *reorder,
                 struct lli_rx_counters *counters, uint64_t *random, struct lli_arena *arena,
                 struct lli_arena *rare)
{
    *rx = (struct lli_rx){.config = config, .counters = counters, .random = random};
    lli_gap_init(&rx->gap, config->window_packets, arena);
    lli_rx_buffer_init(rx, reorder, arena);
    lli_rx_topics_init(rx, rare);
    lli_unpack_init(&rx->unpack, lli_arena_take(rare, config->message_bytes_max, 4096),
                    config->message_bytes_max);
    lli_rx_unordered_init(rx, rare);
    lli_rx_lvc_init(rx, rare);
    rx->store.known =
        lli_arena_take(rare, LLI_RX_STORES * sizeof *rx->store.known, _Alignof(struct lli_rx_known_store));
    rx->filter = lli_arena_take(rare, sizeof *rx->filter, _Alignof(struct lli_rx_filter));
    rx->lines = lli_arena_take(rare, sizeof *rx->lines, _Alignof(struct lli_rx_lines));
}

void lli_rx_start(struct lli_rx *rx, uint32_t tag, lli_ns now)
{
    assert(rx->state == LLI_RX_FREE);
    rx->state = LLI_RX_JOINING;
    rx->tag = tag;
    rx->session = 0;
    lli_rx_deliver_start(rx);
    lli_rx_record_start(rx);
    lli_rx_hold_start(rx);
    lli_rx_heard_start(rx, now);
    lli_rx_report_start(rx);
    lli_rx_trust_start(rx);
    lli_rx_nak_start(rx);
    lli_rx_topics_start(rx);
    lli_rx_standing_start(rx);
    lli_rx_token_start(rx);
    lli_rx_join_start(rx);
    lli_rx_store_start(rx);
    lli_rx_stream_start(rx);
    if (rx->config->lines > 1)
        lli_rx_line_start(rx, now);
    lli_rx_filter_start(rx);
    lli_unpack_reset(&rx->unpack, 0);
    lli_gap_reset(&rx->gap, 0);
    lli_rx_unordered_reset(rx);
}

void lli_rx_identify(struct lli_rx *rx, uint64_t session)
{
    rx->session = session;
}

void lli_rx_drop_packets(struct lli_rx *rx)
{
    lli_rx_lvc_drop(rx);
    for (lli_seq seq = rx->gap.next; seq < rx->gap.end; seq++)
        if (lli_gap_is_present(&rx->gap, seq))
            lli_rx_give_back(rx, *lli_rx_cell(rx, seq));
    assert(rx->buffer.chunks == 0);
    lli_gap_reset(&rx->gap, rx->gap.next);
    lli_unpack_reset(&rx->unpack, rx->unpack.number);
}

void lli_rx_stop(struct lli_rx *rx)
{
    if (rx->state == LLI_RX_FREE)
        return;
    lli_rx_stream_left(rx);
    lli_rx_drop_packets(rx);
    rx->state = LLI_RX_FREE;
    lli_rx_unsettle(rx);
}

void lli_rx_note(const struct lli_rx *rx, lli_seq next, uint64_t number, enum llm_reason reason)
{
    const struct lli_former_session session = {
        .session = rx->session,
        .next = rx->loss.uncounted != 0 ? rx->loss.uncounted : next,
        .number = number,
        .reason = reason,
        .acknowledged_from = rx->report.acknowledged_from,
        .acknowledged = rx->report.acknowledged,
        .idle = number == rx->join.first,
    };

    if (rx->config->former != NULL)
        lli_former_note(rx->config->former, &session);
}

void lli_rx_replace(struct lli_rx *rx)
{
    if (rx->state == LLI_RX_LIVE)
        lli_rx_stream_reached(rx, lli_rx_delivered(rx));
    /* Messages delivered ahead of order would be delivered again. */
    if (rx->state == LLI_RX_LIVE && !(rx->pending.slow_path & LLI_RX_LATEST) && !lli_rx_as_it_arrives(rx))
        lli_rx_note(rx, rx->gap.next, lli_rx_delivered(rx), LLM_REASON_REPLACED);
    lli_rx_stop(rx);
}

void lli_rx_refuse(struct lli_rx *rx)
{
    lli_rx_unsettle(rx);
    lli_rx_stream_left(rx);
    lli_rx_drop_packets(rx);
    rx->state = LLI_RX_REFUSED;
    rx->counters->sessions_refused++;
}

/* -------------------------------------------------------------------------------------------- data in */

/* Takes the packet's count of unrepaired packets before it. */
static void rx_input_unrepaired(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_seq seq,
                                lli_ns now)
{
    const lli_seq count = packet->header.flags & LLI_WIRE_FLAGS_UNREPAIRED;

    if (count > 0 && seq > count)
        lli_rx_unrepaired(rx, seq - count, seq, now);
}

/*
 * Before the first heartbeat: buffers packets from the first one on, so that the beginning of a session is
 * not missed.
 */
static void rx_input_joining(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now)
{
    bool empty = rx->gap.end == rx->gap.next;
    lli_seq seq = empty ? packet->header.seq : lli_seq_extend(rx->gap.next, packet->header.seq);

    if (empty || seq >= rx->gap.next + lli_gap_window(&rx->gap)) {
        lli_rx_drop_packets(rx);
        /*
         * The heartbeat supplies the high half of the number; until then it is 1, so that earlier numbers are
         * not negative.
         */
        seq = (uint64_t)1 << 32 | packet->header.seq;
        lli_gap_reset(&rx->gap, seq);
    } else if (seq < rx->gap.next) {
        return;
    }
    lli_gap_extend(&rx->gap, seq + 1, now, LLI_NEVER);
    rx_input_unrepaired(rx, packet, seq, now);
    if (!lli_gap_is_present(&rx->gap, seq))
        (void)lli_rx_buffer(rx, seq, packet, now);
    /* The first packet determines where the session begins, so nothing is buffered without it. */
    if (!lli_gap_is_present(&rx->gap, rx->gap.next))
        lli_gap_reset(&rx->gap, rx->gap.next);
}

/* A duplicate delivers nothing, but may be the first packet after a silence. */
static bool rx_input_duplicate(struct lli_rx *rx)
{
    rx->counters->packets_duplicate++;
    return (rx->pending.news & (LLI_RX_RESUMED | LLI_RX_LINE)) != 0;
}

/* Takes a packet that is not the next in order. */
static LLI_OUT_OF_LINE bool rx_input_other(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_seq seq,
                                           lli_ns now)
{
    const unsigned others = rx->pending.slow_path & ~(unsigned)(LLI_RX_FILTERING | LLI_RX_RECORDING);
    struct lli_gap *gap = &rx->gap;

    lli_rx_need_service(rx);
    if (others == 0 && seq == gap->next && lli_gap_in_order(gap, seq)) {
        lli_rx_record(rx, seq, packet->bytes, packet->size);
        lli_rx_unpack(rx, seq, &packet->header, packet->body, packet->body_size);
        return !lli_rx_is_idle(rx);
    }
    if (seq < gap->next)
        return rx_input_duplicate(rx);
    if (lli_rx_is_jump(rx, seq))
        return true;
    if (seq >= gap->next + lli_gap_window(gap)) {
        rx->counters->window_overflow++;
        lli_rx_dropped(rx, seq);
        return true;
    }
    if (seq < gap->end && lli_gap_is_present(gap, seq))
        return rx_input_duplicate(rx);
    if (seq > gap->next)
        rx->counters->packets_reordered++;
    lli_rx_extend(rx, seq, now);
    lli_gap_extend(gap, seq + 1, now, now + rx->config->nak_retry_min);
    rx_input_unrepaired(rx, packet, seq, now);
    if (seq != gap->next ||
        rx->pending.slow_path & (LLI_RX_LEARNING | LLI_RX_LATEST | LLI_RX_STALLED | LLI_RX_HOLDING) ||
        (rx->pending.slow_path & LLI_RX_MERGING && lli_rx_merge_asks(rx))) {
        if (lli_rx_buffer(rx, seq, packet, now)) {
            lli_rx_note_repair(rx, seq, now);
            if (lli_rx_as_it_arrives(rx))
                lli_rx_unordered_look(rx, seq, seq + 1);
        } else {
            lli_gap_refuse(gap, seq, now + lli_max(rx->config->nak_retry_min, 2 * lli_rx_rtt(rx)));
            lli_rx_nak_less(rx);
            lli_rx_dropped(rx, seq);
        }
        return true;
    }
    lli_rx_note_repair(rx, seq, now);
    lli_rx_nak_more(rx);
    (void)lli_gap_receive(gap, seq);
    lli_gap_advance(gap);
    if (rx->pending.slow_path & LLI_RX_AGAIN)
        lli_rx_unordered_turn(rx, seq);
    lli_rx_record(rx, seq, packet->bytes, packet->size);
    lli_rx_unpack(rx, seq, &packet->header, packet->body, packet->body_size);
    return true;
}

static bool rx_input_data(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now)
{
    lli_seq seq = lli_seq_extend(rx->gap.next, packet->header.seq);

    if (seq != rx->gap.next || rx->pending.slow_path != 0 || !lli_gap_in_order(&rx->gap, seq)) {
        /* A packet of a store is no sign of the transmitter. */
        if (!lli_rx_is_recalled(rx, packet->header.seq))
            lli_rx_heard(rx, now);
        return rx_input_other(rx, packet, seq, now);
    }
    lli_rx_heard(rx, now);
    if (lli_rx_owes_report(rx))
        lli_rx_need_service(rx);
    lli_unpack_begin(&rx->unpack, &packet->header, packet->body, packet->body_size);
    return true;
}

/* ------------------------------------------------------------------------------------ other control in */

/* Counts a packet that was malformed or has another session's identity; true if it is this session's. */
static bool rx_is_mine(struct lli_rx *rx, bool decoded, const uint64_t *session)
{
    if (!decoded)
        rx->counters->control_malformed++;
    else if (*session != rx->session)
        rx->counters->control_foreign++;
    return decoded && *session == rx->session;
}

static void rx_input_control(struct lli_rx *rx, const struct lli_wire_header *header, const uint8_t *body,
                             size_t size, lli_ns now)
{
    union {
        struct lli_wire_heartbeat heartbeat;
        struct lli_wire_reject reject;
        struct lli_wire_topics topics;
        struct lli_wire_join join;
        struct lli_wire_notice notice;
        struct lli_wire_lvc lvc;
    } packet;
    struct lli_reader names;

    switch (header->type) {
    case LLI_WIRE_HEARTBEAT:
        if (lli_wire_get_heartbeat(body, size, header, &packet.heartbeat))
            lli_rx_input_heartbeat(rx, &packet.heartbeat, now);
        else
            rx->counters->control_malformed++;
        break;
    case LLI_WIRE_REJECT:
        if (rx_is_mine(rx, lli_wire_get_reject(body, size, header->tag, &packet.reject),
                       &packet.reject.session) &&
            rx->state == LLI_RX_LIVE)
            lli_rx_input_reject(rx, &packet.reject, now);
        break;
    case LLI_WIRE_NOTICE:
        if (rx_is_mine(rx, lli_wire_get_notice(body, size, header->tag, &packet.notice),
                       &packet.notice.session) &&
            rx->state == LLI_RX_LIVE)
            lli_rx_input_notice(rx, &packet.notice, now);
        break;
    case LLI_WIRE_TOPICS:
        if (rx_is_mine(rx, lli_wire_get_topics(body, size, header->tag, &packet.topics, &names),
                       &packet.topics.session) &&
            rx->state == LLI_RX_LIVE)
            lli_rx_input_topics(rx, &packet.topics, names, now);
        break;
    case LLI_WIRE_JOIN:
        if (rx->state == LLI_RX_JOINING)
            /* Of a store, perhaps: the session is not known yet. */
            break;
        if (rx_is_mine(rx, lli_wire_get_join(body, size, header->tag, &packet.join), &packet.join.session))
            lli_rx_input_join(rx, &packet.join, now);
        break;
    case LLI_WIRE_LVC:
        if (rx_is_mine(rx, lli_wire_get_lvc(body, size, header->tag, &packet.lvc, &names),
                       &packet.lvc.session) &&
            rx->state == LLI_RX_LIVE)
            lli_rx_input_lvc(rx, &packet.lvc, &names, now);
        break;
    default:
        break;
    }
}

/* Takes a control packet of one of two lines. */
static LLI_OUT_OF_LINE void rx_input_line(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now)
{
    const uint64_t sent_at = rx->heartbeat.sent_at;
    int before;

    if (lli_rx_line_copy(rx, packet, now))
        return;
    before = lli_rx_line_begin(rx, packet);
    rx_input_control(rx, &packet->header, packet->body, packet->body_size, now);
    if (rx->heartbeat.sent_at != sent_at)
        lli_rx_line_heartbeat(rx, packet->line, now);
    lli_rx_line_end(rx, before);
}

bool lli_rx_input(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now)
{
    lli_rx_unsettle(rx);
    if (packet->header.type != LLI_WIRE_DATA) {
        lli_rx_need_service(rx);
        if (packet->header.type == LLI_WIRE_LVC)
            rx->stamp_ns = packet->stamp_ns;
        if (rx->config->lines > 1)
            rx_input_line(rx, packet, now);
        else
            rx_input_control(rx, &packet->header, packet->body, packet->body_size, now);
        return true;
    }
    rx->counters->packets_received++;
    rx->counters->bytes_received += packet->size;
    rx->stamp_ns = packet->stamp_ns;
    if (rx->state == LLI_RX_LIVE)
        return rx_input_data(rx, packet, now);
    lli_rx_need_service(rx);
    if (rx->state == LLI_RX_JOINING || rx->state == LLI_RX_REQUESTING) {
        lli_rx_refresh(rx, now);
        rx_input_joining(rx, packet, now);
    } else {
        rx->counters->packets_stale++;
    }
    return false;
}

/* ----------------------------------------------------------------------------------------- control out */

bool lli_rx_packet(const struct lli_rx *rx, const uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)size, .to = &rx->heartbeat.address};
    return true;
}

static bool rx_report_is_due(const struct lli_rx *rx, lli_ns now)
{
    return now >= rx->report.at || (rx->state == LLI_RX_LIVE && lli_rx_owes_report(rx));
}

/* True if a request is due whose predecessor was not answered. */
static bool rx_repeats(const struct lli_rx *rx, lli_ns now)
{
    if (now >= rx->names.query_at && rx->names.tries > 0)
        return true;
    return rx->replay.tries > 0 &&
           (rx->state == LLI_RX_REQUESTING ? now >= rx->join.request_at : now >= rx->replay.fetch_at);
}

static bool rx_control(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    if (rx->config->lines > 1 && rx_repeats(rx, now))
        lli_rx_line_turn(rx);
    if (rx->state == LLI_RX_REQUESTING)
        return lli_rx_control_join(rx, now, buffer, packet);
    if (now >= rx->names.query_at && lli_rx_control_query(rx, now, buffer, packet))
        return true;
    if (rx->state == LLI_RX_LIVE && now >= rx->gap.due_at && lli_rx_control_nak(rx, now, buffer, packet))
        return true;
    if (rx->pending.slow_path & LLI_RX_LATEST && rx->state == LLI_RX_LIVE) {
        if (lli_rx_control_lvc(rx, now, buffer, packet))
            return true;
    } else if (rx->state == LLI_RX_LIVE && lli_rx_is_fetching(rx) && !lli_rx_is_gone_for_store(rx) &&
               lli_rx_control_fetch(rx, now, buffer, packet)) {
        return true;
    }
    return rx_report_is_due(rx, now) && lli_rx_control_status(rx, now, buffer, packet);
}

bool lli_rx_control(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    lli_rx_unsettle(rx);
    if (!lli_rx_is_followed(rx) && rx->state != LLI_RX_ENDED)
        return false;
    if (rx->state == LLI_RX_LIVE)
        lli_rx_check_silence(rx, now);
    if (rx->config->stores && lli_rx_control_store(rx, now, buffer, packet))
        return true;
    /* An unanswered join request is reported in time, too. */
    if ((now < rx->token.speak_at && !(rx->state == LLI_RX_REQUESTING && now >= rx->join.request_until)) ||
        !rx_control(rx, now, buffer, packet))
        return false;
    return lli_rx_may_speak(rx, packet->size, now);
}

bool lli_rx_control_meanwhile(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    if (rx->state != LLI_RX_LIVE || now < rx->token.speak_at || !rx_report_is_due(rx, now) ||
        !lli_rx_control_status(rx, now, buffer, packet))
        return false;
    return lli_rx_may_speak(rx, packet->size, now);
}

/* True if the packet next in order came, and waits for its seal: nothing is given up, and nothing ends, before. */
static bool rx_has_next(const struct lli_rx *rx)
{
    return rx->pending.slow_path & LLI_RX_HOLDING && rx->gap.next < rx->gap.end &&
           lli_gap_is_present(&rx->gap, rx->gap.next);
}

/* Time at which missing packets are fetched or given up. */
static lli_ns rx_missing_deadline(const struct lli_rx *rx)
{
    const struct lli_gap *gap = &rx->gap;
    const struct lli_gap_slot *slot = &gap->slots[gap->next & gap->mask];

    if (rx->store.count > 0 && lli_rx_is_recalling(rx))
        return lli_rx_is_fetching(rx) && !lli_rx_is_gone_for_store(rx) ? rx->replay.fetch_at : LLI_NEVER;
    if (rx_has_next(rx))
        return LLI_NEVER;
    if (!(rx->pending.slow_path & LLI_RX_LEARNING) && slot->unrepaired && gap->next < gap->end &&
        (slot->passed || lli_rx_is_confirmed(rx)))
        return slot->since + rx->config->nak_delay + lli_rx_line_wait(rx, gap->next + 1);
    if (lli_rx_is_fetching(rx))
        return rx->replay.fetch_at;
    if (rx->pending.slow_path & LLI_RX_LEARNING || gap->next >= lli_min(gap->received, lli_rx_known(rx)) ||
        slot->tries == 0)
        return LLI_NEVER;
    return slot->since + rx->config->nak_giveup;
}

lli_ns lli_rx_deadline(const struct lli_rx *rx)
{
    lli_ns at = lli_min(rx->report.at, rx->names.query_at);
    const struct lli_gap *gap = &rx->gap;

    if (rx->state == LLI_RX_ENDED)
        return lli_max(at, rx->token.speak_at);
    if (rx->state != LLI_RX_LIVE)
        return rx->state == LLI_RX_REQUESTING
                   ? lli_min(
                         lli_min(lli_max(rx->join.request_at, rx->token.speak_at), rx->join.request_until),
                         lli_rx_store_deadline(rx))
                   : LLI_NEVER;
    if (rx->pending.news & LLI_RX_RESOLVING)
        return 0;
    at = lli_rx_owes_report(rx) ? 0 : lli_min(at, gap->due_at);
    if (rx->pending.slow_path & LLI_RX_LATEST)
        at = lli_min(at, rx->pending.slow_path & LLI_RX_LEARNING ? LLI_NEVER : rx->replay.fetch_at);
    else if (rx->stream.retry_at != 0 && !(rx->pending.slow_path & LLI_RX_LEARNING))
        at = lli_min(at, rx->stream.retry_at);
    else if (gap->missing > 0)
        at = lli_min(at, rx_missing_deadline(rx));
    at = lli_min(lli_max(at, rx->token.speak_at), lli_rx_store_deadline(rx));
    /* Ended by silence: packets of stores, seals, or what another session delivers, may follow. */
    if (rx->loss.end_reason == LLM_REASON_TIMEOUT &&
        (lli_rx_is_recalling(rx) || rx_has_next(rx) || rx->stream.retry_at != 0))
        return at;
    return lli_min(at, rx->heard.silent ? rx->heard_at + rx->config->timeout : lli_rx_silent_at(rx));
}
