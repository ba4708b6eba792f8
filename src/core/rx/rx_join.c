/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining a session: with live data (docs/protocol.md section 4.2), or late, in the past that is in the
 * transmitter's history (section 12). The window moves back to the packet granted by the transmitter; missing
 * packets from there on are fetched piece by piece, while live packets are buffered if there is room, else
 * fetched later.
 */
#include "core/rx/former.h"
#include "core/rx/rx_internal.h"

/* A replay packet that is late by this many mean intervals is requested again. */
enum { JOIN_PATIENCE = 4 };

void lli_rx_join_start(struct lli_rx *rx)
{
    rx->join.refused = LLM_REASON_NONE;
    rx->join.chosen = rx->join.enters = false;
    rx->join.live = rx->join.live_seq = 0;
}

/* ------------------------------------------------------------------------------------------ live join */

/*
 * Moves buffered packets, known by the low halves of their numbers only, to the position given by the
 * heartbeat. False if there are none, or they cannot belong to this session.
 */
static bool rx_rebase(struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat)
{
    struct lli_gap *gap = &rx->gap;
    const lli_seq next = lli_seq_extend(heartbeat->lead, (uint32_t)gap->next);

    if (gap->end == gap->next)
        return false;
    if (next < heartbeat->start || next > heartbeat->lead + lli_gap_window(gap)) {
        lli_rx_drop_packets(rx);
        return false;
    }
    lli_gap_renumber(gap, next);
    return true;
}

/* Number of the first message that starts in the first buffered packet or later. */
static uint64_t rx_buffered_number(const struct lli_rx *rx, uint64_t near)
{
    const uint8_t *packet = lli_reorder_head(rx->buffer.reorder, *lli_rx_cell(rx, rx->gap.next));

    return lli_seq_extend(near, lli_load_u32(packet + 12));
}

/* Starts following the session at the next packet of its window; its first message has this number. */
static void rx_follow(struct lli_rx *rx, uint64_t number, lli_ns now)
{
    /* Packets missing before the session was confirmed could not be requested. */
    lli_gap_nak_now(&rx->gap, now);
    rx->state = LLI_RX_LIVE;
    rx->join.began = rx->gap.next;
    lli_rx_report_from(rx, rx->gap.next);
    lli_rx_set_news(rx, LLI_RX_NEW);
    rx->join.first = number;
    lli_rx_acknowledge_from(rx, number, number);
    rx->report.resumed = false;
    rx->counters->sessions_new++;
    lli_unpack_reset(&rx->unpack, number);
    if (lli_rx_as_it_arrives(rx))
        lli_rx_unordered_look(rx, rx->gap.next, rx->gap.end);
    /* A session not followed from its start may begin in the middle of a message. */
    if (rx->gap.next != rx->heartbeat.start || rx->join.enters) {
        lli_unpack_break(&rx->unpack);
        lli_rx_learn(rx, now, true);
    }
    lli_rx_status_soon(rx, now);
}

/*
 * Joins live: at the start of a young session, at the first unacknowledged message (so that this receiver can
 * replace another), or at lead.
 */
static void rx_join_live(struct lli_rx *rx, lli_ns now)
{
    const struct lli_wire_heartbeat *heartbeat = &rx->heartbeat;
    const bool young = heartbeat->flags & LLI_WIRE_HEARTBEAT_YOUNG,
               assured = heartbeat->flags & LLI_WIRE_HEARTBEAT_ASSURED;
    /* Latest packet to begin at. */
    const lli_seq latest = young ? heartbeat->start : assured ? heartbeat->unacknowledged : heartbeat->lead;
    const bool buffered = rx_rebase(rx, heartbeat);
    const uint64_t missed = rx->counters->packets_missed;
    uint64_t number = young ? 0 : assured ? heartbeat->unacknowledged_messages : heartbeat->messages;

    rx->join.live = young ? 0 : heartbeat->messages;
    if (buffered && !young && rx->gap.next <= heartbeat->lead)
        rx->join.live = rx_buffered_number(rx, heartbeat->messages);
    if (buffered && !young && rx->gap.next <= latest) {
        number = rx->join.live;
    } else if (!buffered || !lli_gap_rewind(&rx->gap, latest, now, now)) {
        lli_rx_drop_packets(rx);
        lli_gap_reset(&rx->gap, latest);
    }
    rx_follow(rx, number, now);
    /*
     * Packets sent before this receiver joined are requested but were not lost, so they do not count as
     * missed.
     */
    lli_rx_extend(rx, heartbeat->lead, now);
    rx->counters->packets_missed = missed;
}

/* True if the session was followed before: then it has ended, or resumes where it stopped. */
static bool rx_is_former(struct lli_rx *rx, lli_ns now)
{
    const struct lli_former *former = rx->config->former;
    const struct lli_former_session *session = former == NULL ? NULL : lli_former_find(former, rx->session);
    const bool ended = rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_END;

    if (session == NULL || session->next < rx->heartbeat.start)
        return false;
    /*
     * The lead may be lower than the position: a heartbeat can be overtaken by data that was delivered. If it is far lower, the
     * next heartbeat decides whether the position came from a forged one, and the session begins anew.
     */
    if (session->next > rx->heartbeat.lead + lli_gap_window(&rx->gap)) {
        const bool waits = rx->config->resumes && !rx->heard.doubted;

        rx->heard.doubted = true;
        return waits;
    }
    if (session->reason == LLM_REASON_CLOSED && (ended || session->next >= rx->heartbeat.lead)) {
        lli_rx_drop_packets(rx);
        lli_gap_reset(&rx->gap, session->next);
        lli_unpack_reset(&rx->unpack, session->number);
        rx->state = LLI_RX_ENDED;
        return true;
    }
    if (!rx->config->resumes)
        return false;
    lli_rx_resume(rx, session, now);
    return true;
}

void lli_rx_found(struct lli_rx *rx, lli_ns now)
{
    rx->session = rx->heartbeat.session;
    if (!lli_rx_stream_found(rx))
        lli_rx_follow_found(rx, now);
}

void lli_rx_follow_found(struct lli_rx *rx, lli_ns now)
{
    const uint8_t flags = rx->heartbeat.flags;

    if (rx_is_former(rx, now))
        return;
    /* A store takes what a session that has ended still offers, and acknowledges what it has. */
    if (flags & LLI_WIRE_HEARTBEAT_END && !(flags & LLI_WIRE_HEARTBEAT_YOUNG) && !rx->config->records) {
        /* The session ended before it was discovered. */
        lli_rx_drop_packets(rx);
        rx->state = LLI_RX_ENDED;
    } else if (!rx->config->chooses) {
        rx_join_live(rx, now);
    } else {
        rx->state = LLI_RX_REQUESTING;
        rx->join.request_at = rx->join.request_until = LLI_NEVER;
    }
}

/* --------------------------------------------------------------------------------------------- asking */

static void rx_request_join(struct lli_rx *rx, enum llm_join_mode mode, uint64_t value, lli_ns now)
{
    rx->join.position = (struct llm_join){.mode = mode, .value = value};
    rx->replay.tries = 0;
    rx->join.request_at = now;
    rx->join.request_until = now + rx->config->nak_giveup;
}

/* The past requested is all that the young session sent: LLM_EVENT_LIVE follows it. */
static void rx_join_young(struct lli_rx *rx, lli_ns now)
{
    rx_join_live(rx, now);
    lli_rx_set_lag(rx, LLI_RX_YOUNG);
    rx->replay.end = rx->heartbeat.lead;
}

void lli_rx_begin(struct lli_rx *rx, const struct llm_join *join, lli_ns now)
{
    assert(rx->state == LLI_RX_REQUESTING && !rx->join.chosen);
    rx->join.chosen = true;
    /*
     * A receiver that discovers a session within its first second misses nothing; only a join by number
     * excludes messages.
     */
    if (join->mode == LLM_JOIN_LIVE)
        rx_join_live(rx, now);
    else if (rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_YOUNG && join->mode != LLM_JOIN_NUMBER)
        rx_join_young(rx, now);
    else
        rx_request_join(rx, join->mode, join->value, now);
}

lli_ns lli_rx_retry_after(const struct lli_rx *rx, lli_ns least)
{
    return lli_min(least << lli_min(rx->replay.tries, 16),
                   lli_max(least, lli_max(rx->config->nak_retry_max, LLI_RX_JOIN_RETRY_MAX)));
}

lli_ns lli_rx_request_time(const struct lli_rx *rx)
{
    return lli_max(rx->config->nak_retry_min, 2 * lli_rx_rtt(rx));
}

static void rx_refused(struct lli_rx *rx, enum llm_reason reason, uint64_t wanted, uint64_t there)
{
    rx->join.refused = reason;
    rx->join.refused_wanted = wanted;
    rx->join.refused_there = there;
    rx->join.request_at = rx->join.request_until = LLI_NEVER;
    rx->counters->joins_refused++;
}

bool lli_rx_control_join(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    const struct lli_wire_join join = {
        .session = rx->session,
        .receiver = rx->config->receiver,
        .kind = LLI_WIRE_JOIN_ASK,
        .from = (uint8_t)rx->join.position.mode,
        .value = rx->join.position.value,
        .address = rx->config->address,
        .token = lli_rx_token(rx),
    };

    if (now >= rx->join.request_until || (rx->join.request_until != LLI_NEVER && !rx->config->unread &&
                                          now >= rx->heard_at + rx->config->timeout)) {
        rx_refused(rx, LLM_REASON_UNANSWERED,
                   rx->join.position.mode == LLM_JOIN_NUMBER ? rx->join.position.value : 0, 0);
        return false;
    }
    if (now < rx->join.request_at)
        return false;
    rx->join.request_at = now + lli_rx_retry_after(rx, lli_rx_request_time(rx));
    rx->replay.tries++;
    rx->counters->joins_sent++;
    return lli_rx_packet(rx, buffer, lli_wire_put_join(buffer, &join), packet);
}

/* Falls back as configured after a refusal. */
static void rx_join_otherwise(struct lli_rx *rx, enum llm_reason reason, lli_ns now)
{
    if (rx->config->otherwise == LLI_RX_ELSE_REFUSE) {
        lli_rx_stream_left(rx);
        lli_rx_drop_packets(rx);
        rx->state = LLI_RX_REFUSED;
    } else if (rx->config->otherwise == LLI_RX_ELSE_OLDEST &&
               (reason == LLM_REASON_HISTORY || reason == LLM_REASON_NO_CACHE)) {
        rx_request_join(rx, LLM_JOIN_OLDEST, 0, now);
    } else {
        rx_join_live(rx, now);
    }
}

bool lli_rx_next_join(struct lli_rx *rx, lli_ns now, struct lli_item *item)
{
    const enum llm_reason reason = rx->join.refused;

    item->kind = rx->join.chosen ? LLI_ITEM_EVENT : LLI_ITEM_JOIN;
    item->event =
        (struct llm_event){.kind = LLM_EVENT_JOIN_REFUSED, .session = rx->session, .reason = reason};
    if (!rx->join.chosen)
        return true;
    if (reason == LLM_REASON_NONE)
        return false;
    item->event.first = rx->join.refused_wanted;
    item->event.last = rx->join.refused_there;
    rx->join.refused = LLM_REASON_NONE;
    rx_join_otherwise(rx, reason, now);
    return true;
}

void lli_rx_joined(struct lli_rx *rx)
{
    /* Limits a number that a forged answer may have supplied. */
    rx->join.live = lli_min(rx->join.live, rx->unpack.number);
}

/* ------------------------------------------------------------------------------------------- answer */

/* Moves the window to the packet to begin with; buffered packets that fit into it stay. */
static void rx_place(struct lli_rx *rx, lli_seq begin, lli_ns now)
{
    struct lli_gap *gap = &rx->gap;

    if (rx_rebase(rx, &rx->heartbeat) && begin < gap->end) {
        for (; gap->next < begin; lli_gap_advance(gap))
            if (lli_gap_is_present(gap, gap->next))
                lli_rx_give_back(rx, *lli_rx_cell(rx, gap->next));
        if (lli_gap_rewind(gap, begin, now, now))
            return;
    }
    lli_rx_drop_packets(rx);
    lli_gap_reset(gap, begin);
}

void lli_rx_resume(struct lli_rx *rx, const struct lli_former_session *former, lli_ns now)
{
    rx_place(rx, former->next, now);
    rx->join.live = 0;
    lli_rx_set_lag(rx, 0);
    lli_rx_broken(rx, former->reason == LLM_REASON_REPLACED ? LLM_REASON_REPLACED : LLM_REASON_TIMEOUT);
    rx_follow(rx, former->number, now);
    rx->report.resumed = true;
    /* A session forgotten in favour of another may have had losses that were not reported. */
    lli_unpack_allow(&rx->unpack, UINT32_MAX, UINT64_MAX);
    /* Messages acknowledged before the interruption still are. */
    lli_rx_acknowledge_from(rx, former->acknowledged_from, former->acknowledged);
    lli_rx_stream_resumed(rx);
    lli_rx_extend(rx, rx->heartbeat.lead, now);
}

bool lli_rx_continue(struct lli_rx *rx, const struct lli_former_session *former, lli_ns now)
{
    const lli_seq lead = rx->heartbeat.lead;

    assert(rx->state == LLI_RX_REQUESTING && !rx->join.chosen);
    if (former->next < rx->heartbeat.start || former->next > lead + lli_gap_window(&rx->gap))
        return false;
    rx->join.chosen = true;
    rx->join.begin = rx->replay.fetched = former->next;
    rx->replay.end = rx->join.live_seq = lli_max(lead, former->next);
    rx->replay.fetching = 0;
    lli_rx_request_start(rx, now);
    lli_rx_resume(rx, former, now);
    /* A store refuses no topic. */
    rx->report.resumed = false;
    lli_rx_set_lag(rx, LLI_RX_REPLAYING);
    return true;
}

static void rx_granted(struct lli_rx *rx, const struct lli_wire_join *join, lli_ns now)
{
    rx_place(rx, join->packet, now);
    rx->counters->joins_granted++;
    /* Topics may have been announced in skipped packets, or before. */
    lli_rx_heartbeat_topics(rx, join->topics);
    lli_rx_topics_granted(rx, join->topics);
    rx->join.begin = rx->replay.fetched = join->packet;
    rx->join.enters = join->from == LLM_JOIN_MESSAGES || join->from == LLM_JOIN_NUMBER;
    rx->replay.end = rx->join.live_seq = join->lead;
    rx->join.live = join->wanted;
    lli_rx_set_lag(rx, LLI_RX_REPLAYING);
    rx->replay.fetching = 0;
    lli_rx_request_start(rx, now);
    rx_follow(rx, join->number, now);
    lli_rx_extend(rx, lli_max(rx->heartbeat.lead, join->lead), now);
    lli_rx_lvc_granted(rx, join);
}

static enum llm_reason rx_refusal(uint8_t reason)
{
    return reason == LLI_WIRE_JOIN_NOT_SENT  ? LLM_REASON_NOT_SENT
           : reason == LLI_WIRE_JOIN_NOTHING ? LLM_REASON_NO_CACHE
                                             : LLM_REASON_HISTORY;
}

void lli_rx_join_sought(struct lli_rx *rx, lli_ns now)
{
    const struct lli_rx_offer *answer = &rx->store.answer, *offer = &rx->store.offer;
    const bool granted = answer->kind == LLI_WIRE_JOIN_GRANT, offered = offer->kind != 0;
    const struct lli_wire_join join = {
        .from = (uint8_t)rx->join.position.mode,
        .topics = answer->topics,
        .packet = offered ? offer->packet : answer->packet,
        .number = offered ? offer->number : answer->number,
        .wanted = granted ? answer->wanted : rx->heartbeat.messages,
        .lead = granted ? answer->lead : rx->heartbeat.lead,
    };

    if (!offered && !granted) {
        rx_refused(rx, rx_refusal(answer->reason), answer->wanted, answer->number);
        return;
    }
    rx_granted(rx, &join, now);
    if (!offered)
        return;
    rx->counters->joins_from_stores++;
    lli_rx_give_up(rx, lli_min(answer->packet, lli_rx_known(rx)), LLM_REASON_GONE);
}

void lli_rx_input_join(struct lli_rx *rx, const struct lli_wire_join *join, lli_ns now)
{
    if (join->kind == LLI_WIRE_JOIN_OFFER || join->kind == LLI_WIRE_JOIN_ABSENT) {
        lli_rx_input_store(rx, join, now);
        return;
    }
    /* The answer is for another receiver at the same address. */
    if (join->receiver != rx->config->receiver)
        return;
    if (join->kind == LLI_WIRE_JOIN_GRANT || join->kind == LLI_WIRE_JOIN_REFUSE ||
        join->kind == LLI_WIRE_JOIN_TOKEN)
        lli_rx_take_token(rx, join->token, now);
    if (join->kind == LLI_WIRE_JOIN_TOKEN)
        lli_rx_input_crowded(rx, join);
    /* The answer is to an earlier request, or to one already answered. */
    if (rx->state != LLI_RX_REQUESTING || !rx->join.chosen || rx->join.refused != LLM_REASON_NONE ||
        join->from != rx->join.position.mode || join->value != rx->join.position.value)
        return;
    if (rx->store.seeking || lli_rx_store_seek(rx, join, now))
        return;
    if (join->kind == LLI_WIRE_JOIN_GRANT && join->packet >= rx->heartbeat.start)
        rx_granted(rx, join, now);
    else if (join->kind == LLI_WIRE_JOIN_REFUSE)
        rx_refused(rx, rx_refusal(join->reason), join->wanted, join->number);
}

/* ------------------------------------------------------------------------------------------- replay */

void lli_rx_request_start(struct lli_rx *rx, lli_ns now)
{
    rx->replay.tries = 0;
    rx->replay.distance = 0;
    rx->replay.at = rx->replay.fetch_at = now;
}

void lli_rx_request_answered(struct lli_rx *rx, lli_ns now)
{
    const lli_ns distance = lli_min(now - rx->replay.at, LLI_RX_JOIN_RETRY_MAX);

    rx->replay.distance = rx->replay.distance == 0 ? distance : (rx->replay.distance * 7 + distance) / 8;
    rx->replay.at = now;
    rx->replay.tries = 0;
}

void lli_rx_request_at(struct lli_rx *rx, lli_ns at)
{
    rx->replay.fetch_at = at;
}

void lli_rx_request_sent(struct lli_rx *rx)
{
    rx->replay.tries++;
}

void lli_rx_replay_limit(struct lli_rx *rx, lli_seq lead)
{
    rx->replay.end = lli_max(rx->join.live_seq, lli_min(rx->replay.end, lead));
}

void lli_rx_replayed(struct lli_rx *rx, lli_seq seq, lli_ns now)
{
    rx->counters->packets_replayed++;
    lli_rx_request_answered(rx, now);
    if (seq >= rx->replay.fetched)
        return;
    if (rx->replay.fetching > 0 && --rx->replay.fetching == 0)
        rx->replay.fetch_at = now;
    else if (seq + 1 == rx->replay.fetched)
        /* Last packet of the request: missing ones of the others may just have been overtaken by it. */
        rx->replay.fetch_at = now + rx->config->nak_retry_min;
    else
        rx->replay.fetch_at = now + lli_rx_request_time(rx) + JOIN_PATIENCE * rx->replay.distance;
}

void lli_rx_unrepaired(struct lli_rx *rx, lli_seq first, lli_seq end, lli_ns now)
{
    const uint64_t fetched =
        lli_gap_unrepaired(&rx->gap, first, end, lli_rx_is_replaying(rx) ? rx->replay.fetched : 0);

    /* This many of the packets requested last will not arrive. */
    if (fetched == 0 || rx->replay.fetching == 0)
        return;
    rx->replay.fetching -= (uint32_t)lli_min(fetched, rx->replay.fetching);
    rx->replay.at = now;
    rx->replay.tries = 0;
    if (rx->replay.fetching == 0)
        rx->replay.fetch_at = now;
}

bool lli_rx_control_fetch(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    /*
     * Asks for the next piece when this one is complete. Packets after a loss have to be buffered, and other
     * sessions need room, too.
     */
    const struct lli_reorder *reorder = rx->buffer.reorder;
    const uint64_t most =
        lli_min(LLI_WIRE_FETCH_PACKETS, lli_reorder_packets(reorder, reorder->count / 2) + rx->nak.excess);
    struct lli_wire_join join = {
        .session = rx->session,
        .receiver = rx->config->receiver,
        .kind = LLI_WIRE_JOIN_FETCH,
        .lead = rx->join.live_seq,
        .address = rx->config->address,
        .token = lli_rx_token(rx),
    };

    if (now < rx->replay.fetch_at)
        return false;
    if (now >= rx->replay.at + rx->config->nak_giveup) {
        /* Nothing arrived for this long: gives up the rest of the past. */
        lli_rx_give_up(rx, lli_max(rx->loss.gone_below, rx->replay.end), LLM_REASON_TIMEOUT);
    }
    rx->replay.fetch_at = now + rx->config->nak_retry_min;
    join.count = (uint16_t)lli_gap_list(&rx->gap, rx->replay.end, most, 0, join.ranges, LLI_WIRE_FETCH_MAX,
                                        &rx->replay.fetched);
    if (join.count == 0 || rx->gap.next < rx->loss.gone_below)
        return false;
    rx->replay.fetching = 0;
    for (uint16_t i = 0; i < join.count; i++)
        rx->replay.fetching += join.ranges[i].count;
    rx->replay.fetch_at =
        now + lli_rx_retry_after(rx, lli_rx_request_time(rx) + JOIN_PATIENCE * rx->replay.distance);
    rx->replay.tries++;
    rx->counters->fetches_sent++;
    return lli_rx_packet(rx, buffer, lli_wire_put_join(buffer, &join), packet);
}
