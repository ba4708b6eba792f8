/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tx/congestion.h"
#include "core/tx/tx_internal.h"

/* Heartbeats with END required before the session counts as ended if no receiver is known. */
enum { TX_ENDS = 5 };

/* Largest burst of repairs, in bytes, after a time without repairs. */
#define TX_REPAIR_BURST ((uint64_t)1 << 20)

/* Maximum of a round trip sample: beyond it a clock jumped, or the report was forged. */
#define TX_RTT_MAX ((lli_ns)1000000000)

/* Heartbeats take at most one part in this many of the sending thread's time (ADR 14). */
enum { TX_HEARTBEAT_SHARE = 4 };

/*
 * On a connection where no report was received yet, heartbeat intervals double up to this multiple of their
 * usual maximum.
 */
enum { TX_HEARTBEATS_UNHEARD = 16 };

/*
 * A round trip sample counts for at most this many times the smoothed value: one delayed report must not hold
 * up everything that depends on the round trip.
 */
enum { TX_RTT_OUTLIER = 4 };

static void tx_repair_rate(struct lli_tx *tx, uint64_t bytes_per_s, lli_ns now)
{
    tx->config.repair_rate = bytes_per_s;
    if (bytes_per_s != 0)
        lli_pacer_init(&tx->repair_limit, bytes_per_s, lli_flow_burst(bytes_per_s), now);
}

void lli_tx_rate(struct lli_tx *tx, uint64_t bytes_per_s, uint64_t repair_bytes_per_s, lli_ns now)
{
    lli_flow_rate(&tx->flow, bytes_per_s, now);
    if (repair_bytes_per_s != tx->config.repair_rate)
        tx_repair_rate(tx, repair_bytes_per_s, now);
}

void lli_tx_wake_at(struct lli_tx *tx, lli_ns at, lli_ns now)
{
    /*
     * An earlier wake-up that is due by now is replaced: a caller whose send is refused again waits for a
     * later time.
     */
    tx->wake_at = tx->wake_at <= now ? at : lli_min(tx->wake_at, at);
    tx->look_at = lli_min(tx->look_at, at);
    tx->slow_at = lli_min(tx->look_at, tx->replay_at);
}

void lli_tx_init(struct lli_tx *tx, const struct lli_tx_config *config, struct lli_arena *arena, lli_ns now)
{
    *tx = (struct lli_tx){
        .config = *config,
        .sent = config->history.start,
        .repair_share = (uint32_t)(((uint64_t)config->repair_percent << 16) / 100),
        .inflight = {UINT64_MAX, UINT64_MAX},
        .idle = {UINT64_MAX, UINT64_MAX},
        .opened_at = now,
        .rtt = LLI_TX_RTT_UNKNOWN,
        .heartbeat_at = now,
        .heartbeat_last = now,
        .heartbeat_first = config->heartbeat_min,
        .heartbeat_interval = config->heartbeat_min,
        .expire_at = now + config->status,
        .look_at = now + config->status,
        .replay_at = LLI_NEVER,
        .kept_at = LLI_NEVER,
        .slow_at = now + config->status,
        .wake_at = LLI_NEVER,
    };
    tx->held_max = lli_min(LLI_TX_HELD, lli_max(LLI_TX_HELD_BYTES / config->history.packet_max, LLI_TX_HELD_LEAST));
    lli_history_init(&tx->history, &config->history, arena);
    lli_repair_init(&tx->repair, &tx->history, config->history.packets, config->receivers_max, arena);
    lli_replay_init(&tx->replay, config->replay_bytes_per_s, arena, now);
    lli_time_index_init(&tx->time_index, config->history.start, arena, now);
    lli_members_init(&tx->members, config->receivers_max, arena);
    tx->members.seed = config->seed;
    lli_flow_init(&tx->flow, &config->flow, config->receivers_max, arena, config->history.start, now);
    tx->flow.session = config->session;
    tx->config.slow.status = config->status;
    lli_slow_init(&tx->slow, &tx->config.slow, config->receivers_max, arena, config->history.start, now);
    lli_ack_init(&tx->ack, config->receivers_max, arena);
    tx->topics = lli_arena_take(arena, config->topics_max * sizeof *tx->topics, 64);
    tx->topic_flags = lli_arena_take(arena, config->topics_max, 64);
    tx->answers = lli_arena_take(arena, LLI_TX_ANSWERS * sizeof *tx->answers, 64);
    tx->tokens = lli_arena_take(arena, LLI_TX_TOKENS * sizeof *tx->tokens, 64);
    lli_pack_init(&tx->pack, &tx->history, (uint32_t)config->session);
    lli_pacer_init(&tx->repair_pacer, config->repair_bytes_per_s, TX_REPAIR_BURST, now);
    lli_pacer_init(&tx->unconfirmed, LLI_TX_UNCONFIRMED_BYTES_PER_S, LLI_TX_UNCONFIRMED_BURST, now);
    tx_repair_rate(tx, config->repair_rate, now);
}

uint64_t lli_tx_message_max(const struct lli_tx *tx)
{
    const struct lli_history *history = &tx->history;
    /* With nothing in flight, minus a packet for headers and a packet that may be open. */
    uint64_t packets = lli_min(history->slots_mask, history->bytes_size / history->stride_max - 2);

    return packets < 3 ? 0 : (packets - 3) * (history->packet_max - LLI_WIRE_DATA_HEADER);
}

/* --------------------------------------------------------------------------------------- assured topics */

/*
 * Unacknowledged packets must stay in place as if the transport read them; acknowledged ones stay until the
 * next lli_tx_reaped().
 */
static void tx_keep(struct lli_tx *tx)
{
    lli_tx_inflight(tx, tx->ack.kept);
    tx->idle = (struct lli_tx_inflight){tx->ack.kept, tx->ack.kept};
}

bool lli_tx_assure(struct lli_tx *tx, struct lli_ack_topic *topic, const struct lli_ack_rule *rule, struct lli_ack_message *ring,
                   uint64_t places)
{
    if (!lli_ack_set(&tx->ack, &tx->members, topic, rule, ring, places))
        return false;
    tx_keep(tx);
    lli_tx_look_now(tx);
    return true;
}

void lli_tx_assured(struct lli_tx *tx, struct lli_ack_topic *topic, lli_seq seq, uint64_t size)
{
    lli_ack_sent(&tx->ack, topic, tx->pack.number - 1, seq, size);
    tx->counters.messages_assured++;
    tx_keep(tx);
}

void lli_tx_input_acknowledgement(struct lli_tx *tx, const struct lli_wire_status *status, uint32_t index)
{
    if (tx->ack.count == 0 || !(status->flags & LLI_WIRE_STATUS_ACKNOWLEDGES))
        return;
    if (index == LLI_MEMBER_NONE || !lli_ack_report(&tx->ack, &tx->members, index, status, lli_tx_lead_number(tx)))
        tx->counters.acknowledgements_refused++;
    tx_keep(tx);
    /* Reports the event to the application at once. */
    if (tx->ack.untold)
        lli_tx_look_now(tx);
}

/* --------------------------------------------------------------------------------------------- receivers */

/* Smoothed as in TCP (RFC 6298 section 2, without the variance). */
static void tx_measure(struct lli_tx *tx, struct lli_member *member, const struct lli_wire_status *status, lli_ns now)
{
    const bool behind = status->flags & LLI_WIRE_STATUS_BEHIND;
    lli_ns elapsed;

    /* Samples with the other BEHIND flag measured something else. */
    if (member->behind != behind)
        member->rtt = 0;
    member->behind = behind;
    if (status->echo == 0 || status->echo < tx->opened_at || status->echo > now)
        return;
    elapsed = now - status->echo;
    if (elapsed < status->hold_ns)
        return;
    elapsed -= status->hold_ns;
    if (elapsed > TX_RTT_MAX && !behind)
        return;
    elapsed = lli_min(elapsed, TX_RTT_MAX);
    if (member->rtt != 0)
        elapsed = lli_min(elapsed, member->rtt * TX_RTT_OUTLIER);
    member->rtt = member->rtt == 0 ? elapsed : (member->rtt * 7 + elapsed) / 8;
    member->rtt = lli_max(member->rtt, 1);
    if (lli_member_counts(member) && !behind)
        lli_tx_measured(tx, member);
}

static void tx_input_status(struct lli_tx *tx, const struct lli_wire_status *status, lli_ns now)
{
    struct lli_tx_asker asker;
    struct lli_member *member;
    uint32_t index;

    tx->counters.status_received++;
    if (status->flags & LLI_WIRE_STATUS_LEAVING) {
        lli_tx_input_leaving(tx, status);
        return;
    }
    asker = lli_tx_asker(tx, status->receiver, &status->address, status->token, now);
    index = asker.member;
    if (!asker.confirmed)
        return;
    lli_tx_input_acknowledgement(tx, status, index);
    if (index == LLI_MEMBER_NONE) {
        lli_tx_give_token(tx, status->receiver, &status->address, LLI_WIRE_JOIN_FULL, tx->members.limit);
        return;
    }
    member = &tx->members.table[index];
    member->next = lli_min(status->next, tx->sent);
    member->window = lli_max(status->highest, status->next) - status->next + status->window_free;
    member->lag = member->next == 0 ? 0 : tx->sent - member->next;
    member->lag_bytes = member->next == 0 ? 0 : lli_history_span(&tx->history, member->next, tx->sent);
    member->owes = lli_ack_owes(&tx->ack, &tx->members, index);
    member->naks = status->naks;
    member->lost = status->lost_packets;
    lli_congestion_reported(tx, member, status);
    lli_slow_report(&tx->slow, &tx->members, index, tx->sent, now);
    member->report_ns = lli_members_told(&tx->members, status->echo);
    lli_flow_moved(&tx->flow, &tx->members, index);
    lli_tx_look_soon(tx);
    member->done = lli_tx_is_done(tx, status);
    tx_measure(tx, member, status, now);
}

/* ---------------------------------------------------------------------------------------------- answers */

/* Returns a free entry for an answer, or NULL. */
static struct lli_tx_answer *tx_answer(struct lli_tx *tx, const struct lli_wire_address *to)
{
    struct lli_tx_answer *answer;

    if (tx->answers_tail - tx->answers_head == LLI_TX_ANSWERS) {
        tx->counters.answers_dropped++;
        return NULL;
    }
    answer = &tx->answers[tx->answers_tail++ % LLI_TX_ANSWERS];
    answer->is_topics = false;
    answer->to_group = to == NULL;
    if (to != NULL)
        answer->to = *to;
    answer->reject = (struct lli_wire_reject){.session = tx->config.session, .trail = tx->history.trail};
    return answer;
}

void lli_tx_reject(struct lli_tx *tx, const struct lli_wire_address *to, enum lli_wire_reason reason,
                   const struct lli_wire_range *ranges, uint16_t count)
{
    struct lli_tx_answer *answer = tx_answer(tx, to);

    if (answer == NULL)
        return;
    answer->reject.reason = (uint8_t)reason;
    answer->reject.count = count;
    memcpy(answer->reject.ranges, ranges, count * sizeof *ranges);
}

static void tx_input_query(struct lli_tx *tx, const struct lli_wire_query *query)
{
    struct lli_tx_answer *answer;

    tx->counters.queries_received++;
    /* Names take far more bytes than the query: the address has to be confirmed. */
    if (!lli_tx_is_confirmed(tx, query->receiver, &query->address, query->token))
        return;
    answer = tx_answer(tx, &query->address);
    if (answer == NULL)
        return;
    answer->is_topics = true;
    answer->topics_first = query->first;
}

/* Counts a packet that was malformed or has another session's identity; true if it is this session's. */
static bool tx_is_mine(struct lli_tx *tx, bool decoded, const uint64_t *session)
{
    if (!decoded)
        tx->counters.control_malformed++;
    else if (*session != tx->config.session)
        tx->counters.control_foreign++;
    return decoded && *session == tx->config.session;
}

void lli_tx_input(struct lli_tx *tx, const struct lli_wire_header *header, const uint8_t *body, size_t size, lli_ns now)
{
    union {
        struct lli_wire_nak nak;
        struct lli_wire_status status;
        struct lli_wire_query query;
        struct lli_wire_join join;
    } packet;

    switch (header->type) {
    case LLI_WIRE_NAK:
        if (tx_is_mine(tx, lli_wire_get_nak(body, size, header->tag, &packet.nak), &packet.nak.session))
            lli_tx_input_nak(tx, &packet.nak, now);
        break;
    case LLI_WIRE_STATUS:
        if (tx_is_mine(tx, lli_wire_get_status(body, size, header->tag, &packet.status), &packet.status.session))
            tx_input_status(tx, &packet.status, now);
        break;
    case LLI_WIRE_QUERY:
        if (tx_is_mine(tx, lli_wire_get_query(body, size, header->tag, &packet.query), &packet.query.session))
            tx_input_query(tx, &packet.query);
        break;
    case LLI_WIRE_JOIN:
        if (tx_is_mine(tx, lli_wire_get_join(body, size, header->tag, &packet.join), &packet.join.session))
            lli_tx_input_join(tx, &packet.join, now);
        break;
    default:
        /* The session's own data and heartbeats, received back. */
        break;
    }
}

/* ------------------------------------------------------------------------------------------- packets out */

int lli_tx_unsent(struct lli_tx *tx, lli_ns now, struct lli_packet *packets, int max)
{
    const int count = lli_tx_ready(tx, now, max);

    for (int i = 0; i < count; i++)
        packets[i] = lli_tx_packet(tx, i);
    return count;
}

void lli_tx_sent(struct lli_tx *tx, int count, lli_ns now)
{
    uint64_t bytes = 0;

    if (count == 0)
        return;
    lli_tx_inflight(tx, tx->sent);
    for (int i = 0; i < count; i++)
        bytes += lli_history_slot(&tx->history, tx->sent++)->size;
    tx->counters.packets_sent += (uint64_t)count;
    tx->counters.packets_data += (uint64_t)count;
    tx->counters.bytes_sent += bytes;
    lli_pacer_give(&tx->repair_pacer, bytes * tx->repair_share >> 16);
    if (lli_flow_is_metered(&tx->flow)) {
        lli_flow_sent(&tx->flow, bytes);
        lli_flow_assess(&tx->flow, &tx->members, tx->sent, tx->rtt, now);
    }
    tx->flowing = true;
    tx->heartbeat_interval = tx->heartbeat_first;
    if (now != LLI_NEVER)
        lli_tx_sent_at(tx, now);
}

static bool tx_is_served(const struct lli_tx *tx, uint32_t to)
{
    const struct lli_member *members = tx->members.table;

    return !tx->slow.shedding &&
           (to == LLI_REPAIR_TO_GROUP || (members[to].id != 0 && members[to].standing < LLI_STANDING_SUSPENDED));
}

/* Drops repairs at the head whose receiver has left or is not served. False if none is left. */
static bool tx_repair_next(struct lli_tx *tx, lli_seq *seq)
{
    while (lli_repair_peek(&tx->repair, seq)) {
        if (tx_is_served(tx, lli_history_slot(&tx->history, *seq)->repair_to))
            return true;
        lli_repair_skip(&tx->repair);
        tx->counters.repairs_dropped++;
    }
    return false;
}

/* True if the rate limit blocks repairs. */
static bool tx_repair_is_limited(struct lli_tx *tx, lli_ns now)
{
    if (tx->config.repair_rate == 0)
        return false;
    lli_pacer_fill(&tx->repair_limit, now);
    if (tx->repair_limit.tokens > 0)
        return false;
    tx->counters.repairs_delayed += !tx->repair_waits;
    tx->repair_waits = true;
    return true;
}

bool lli_tx_repair(struct lli_tx *tx, lli_ns now, struct lli_packet *packet)
{
    struct lli_history_slot *slot;
    lli_seq seq;

    if (!tx_repair_next(tx, &seq))
        return false;
    lli_pacer_fill(&tx->repair_pacer, now);
    slot = lli_history_slot(&tx->history, seq);
    if (tx->repair_pacer.tokens == 0 || tx_repair_is_limited(tx, now))
        return false;
    packet->data = lli_history_packet(&tx->history, seq);
    packet->size = slot->size;
    /* On a connection the group is the other side, at the address exchanged then, whatever address a NAK has. */
    packet->to = slot->repair_to == LLI_REPAIR_TO_GROUP || tx->config.flow.awaits ? NULL : &tx->members.table[slot->repair_to].address;
    return true;
}

void lli_tx_repaired(struct lli_tx *tx, lli_ns now)
{
    lli_seq seq = 0;
    bool queued = lli_repair_peek(&tx->repair, &seq);
    uint32_t size = lli_history_slot(&tx->history, seq)->size;

    (void)queued;
    assert(queued);
    (void)lli_pacer_take(&tx->repair_pacer, size);
    if (tx->config.repair_rate != 0)
        (void)lli_pacer_take(&tx->repair_limit, size);
    tx->repair_waits = false;
    tx->counters.repairs_multicast += lli_repair_pop(&tx->repair, now) == LLI_REPAIR_TO_GROUP;
    tx->counters.packets_repaired++;
    lli_tx_inflight(tx, seq);
    lli_tx_count(tx, size);
}

/* Adds the heartbeat's fields about assured topics. Joining receivers begin with the oldest unacknowledged message. */
static void tx_heartbeat_assured(const struct lli_tx *tx, struct lli_wire_heartbeat *heartbeat)
{
    const struct lli_ack *ack = &tx->ack;

    heartbeat->flags |= LLI_WIRE_HEARTBEAT_ASSURED | (ack->waiting > 0 ? LLI_WIRE_HEARTBEAT_HELD : 0);
    heartbeat->report_packets = lli_ack_report_packets(ack, heartbeat->report_packets);
    heartbeat->kept = heartbeat->lead;
    heartbeat->kept_messages = heartbeat->messages;
    if (ack->kept < heartbeat->lead) {
        heartbeat->kept = ack->kept;
        heartbeat->kept_messages = lli_tx_number_of(tx, ack->kept);
    }
    heartbeat->assured = ack->count;
    for (int i = 0; i < ack->count; i++)
        heartbeat->assured_topics[i] = ack->topics[i]->id;
}

/* Interval to the next heartbeat unless data is sent: it doubles, except directly after data. */
static lli_ns tx_heartbeat_distance(const struct lli_tx *tx)
{
    /* On a connection whose other side never reported, and may be a third party, heartbeats become far rarer. */
    const lli_ns most = tx->config.heartbeat_max * (tx->config.flow.awaits && tx->members.count == 0 ? TX_HEARTBEATS_UNHEARD : 1);

    return tx->flowing ? tx->heartbeat_interval : lli_min(tx->heartbeat_interval * 2, most);
}

/* A heartbeat announces only packets that the transport took: later ones are not lost. */
static size_t tx_build_heartbeat(struct lli_tx *tx, lli_ns now, uint8_t *buffer)
{
    bool whole = !lli_tx_is_waiting(tx);
    struct lli_wire_heartbeat heartbeat = {
        .session = tx->config.session,
        .lead = tx->sent,
        .trail = lli_min(tx->history.trail, tx->sent),
        .start = tx->config.history.start,
        .messages = lli_tx_lead_number(tx),
        .sent_at = now,
        .interval_us = (uint32_t)(lli_max(tx_heartbeat_distance(tx), tx->config.heartbeat_busy) / 1000 + 1),
        .rtt_ns = (uint32_t)lli_min(tx->rtt, UINT32_MAX),
        .receivers = tx->members.count,
        .topics = tx->topics_count,
        .report_packets = lli_flow_report_packets(&tx->flow),
        .address = tx->config.address,
    };

    lli_members_tell(&tx->members, lli_tx_status_interval(tx), now);
    heartbeat.flags = (uint8_t)(LLI_WIRE_HEARTBEAT_SHARE * lli_flow_share(&tx->flow, &tx->members, tx->ack.count > 0));
    if (!whole && lli_flow_ready_at(&tx->flow, tx->sent) == LLI_NEVER)
        heartbeat.flags |= LLI_WIRE_HEARTBEAT_HELD;
    if (tx->ack.count > 0)
        tx_heartbeat_assured(tx, &heartbeat);
    if (now < tx->opened_at + LLI_TX_YOUNG && heartbeat.trail == heartbeat.start)
        heartbeat.flags |= LLI_WIRE_HEARTBEAT_YOUNG;
    if (tx->ended && whole) {
        heartbeat.flags |= LLI_WIRE_HEARTBEAT_END;
        tx->ends_sent++;
    }
    return lli_wire_put_heartbeat(buffer, &heartbeat);
}

static void tx_heartbeat_next(struct lli_tx *tx, lli_ns now)
{
    tx->heartbeat_interval = tx_heartbeat_distance(tx);
    /* While data flows, the members are evaluated. */
    tx->slow.quiet &= !tx->flowing;
    lli_tx_look_soon(tx);
    tx->followed = tx->flowing;
    tx->flowing = false;
    tx->heartbeat_last = now;
    tx->heartbeat_at = now + tx->heartbeat_interval;
    lli_time_index_add(&tx->time_index, tx->sent, tx->history.trail, now);
    if (tx->config.history_ns != 0 && now > tx->config.history_ns)
        lli_history_forget_before(&tx->history, lli_time_index_find(&tx->time_index, now - tx->config.history_ns), lli_tx_busy(tx));
}

/*
 * Only the first heartbeat after data counts: caches are as warm as for data that follows soon. One sample
 * may be an outlier, so the interval at most doubles.
 */
void lli_tx_heartbeat_took(struct lli_tx *tx, lli_ns took)
{
    const lli_ns share = lli_min(took, tx->config.heartbeat_max) * TX_HEARTBEAT_SHARE;

    if (tx->followed)
        tx->heartbeat_first = lli_max(tx->config.heartbeat_min, lli_min(lli_min(share, tx->config.heartbeat_max), 2 * tx->heartbeat_first));
}

static bool tx_control_answer(struct lli_tx *tx, uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    const struct lli_tx_answer *answer;
    size_t used;

    if (tx->answers_head == tx->answers_tail)
        return false;
    answer = &tx->answers[tx->answers_head++ % LLI_TX_ANSWERS];
    if (answer->is_topics) {
        used = lli_tx_build_topics(tx, answer->topics_first, buffer, size);
        tx->counters.topics_sent++;
    } else {
        used = lli_wire_put_reject(buffer, &answer->reject);
        tx->counters.rejects_sent++;
    }
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)used, .to = answer->to_group ? NULL : &answer->to};
    lli_tx_count(tx, used);
    return true;
}

/* -------------------------------------------------------------------------------------- slow receivers */

static void tx_judge(struct lli_tx *tx, lli_ns now)
{
    const uint64_t *decided = tx->slow.decided;

    if (lli_slow_all(&tx->slow, &tx->members, tx->sent, now)) {
        lli_flow_reported(&tx->flow, &tx->members);
        lli_tx_shed_joins(tx, now);
    }
    tx->counters.receivers_warned = decided[LLI_STANDING_WARNED];
    tx->counters.receivers_unicast = decided[LLI_STANDING_UNICAST];
    tx->counters.receivers_suspended = decided[LLI_STANDING_SUSPENDED];
    tx->counters.receivers_expelled = decided[LLI_STANDING_EXPELLED];
    tx->counters.receivers_readmitted = decided[LLI_STANDING_FINE];
}

static void tx_look(struct lli_tx *tx, lli_ns now)
{
    if (now >= tx->expire_at)
        lli_tx_expire(tx, now);
    if (now >= lli_slow_at(&tx->slow))
        tx_judge(tx, now);
    lli_ack_look(&tx->ack, &tx->members, now);
    if (now >= tx->wake_at)
        tx->wake_at = LLI_NEVER;
    tx->look_at = lli_min(lli_min(tx->expire_at, lli_slow_at(&tx->slow)), tx->wake_at);
    tx->slow_at = lli_min(tx->look_at, tx->replay_at);
}

static bool tx_control_notice(struct lli_tx *tx, uint8_t *buffer, struct lli_packet *packet)
{
    struct lli_wire_notice notice;
    uint32_t member;
    size_t used;

    if (!lli_slow_notice(&tx->slow, &tx->members, &notice, &member))
        return false;
    notice.session = tx->config.session;
    notice.lead = tx->sent;
    used = lli_wire_put_notice(buffer, &notice);
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)used, .to = &tx->members.table[member].address};
    tx->counters.notices_sent++;
    lli_tx_count(tx, used);
    return true;
}

bool lli_tx_event(struct lli_tx *tx, struct llm_event *event)
{
    if (!(tx->slow.untold && lli_slow_event(&tx->slow, event)) && !(tx->ack.untold && lli_ack_event(&tx->ack, event)) &&
        !(tx->limits_untold && lli_congestion_event(tx, event)))
        return false;
    event->session = tx->config.session;
    return true;
}

bool lli_tx_shed(struct lli_tx *tx, uint64_t receiver, bool on, lli_ns now)
{
    const bool known = lli_slow_shed(&tx->slow, &tx->members, receiver, on, now);

    lli_flow_reported(&tx->flow, &tx->members);
    lli_tx_shed_joins(tx, now);
    lli_tx_look_soon(tx);
    return known;
}

/* ---------------------------------------------------------------------------------------------- control */

bool lli_tx_control(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    size_t used;

    assert(size >= LLI_WIRE_CONTROL_MAX);
    if (tx_control_answer(tx, buffer, size, packet) || lli_tx_control_join(tx, now, buffer, packet) ||
        lli_tx_control_token(tx, buffer, packet))
        return true;
    if (now >= tx->look_at)
        tx_look(tx, now);
    if (tx->slow.unsent && tx_control_notice(tx, buffer, packet))
        return true;
    if (now < tx->heartbeat_at)
        return false;
    used = tx_build_heartbeat(tx, now, buffer);
    tx_heartbeat_next(tx, now);
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)used};
    tx->counters.heartbeats_sent++;
    lli_tx_count(tx, used);
    return true;
}

lli_ns lli_tx_repair_ready_at(const struct lli_tx *tx)
{
    const lli_ns ready_at = lli_pacer_ready_at(&tx->repair_pacer);

    return tx->config.repair_rate == 0 ? ready_at : lli_max(ready_at, lli_pacer_ready_at(&tx->repair_limit));
}

lli_ns lli_tx_deadline_waiting(const struct lli_tx *tx)
{
    lli_ns at = lli_min(tx->heartbeat_at, tx->slow_at);

    if (lli_tx_is_waiting(tx))
        at = lli_min(at, lli_flow_ready_at(&tx->flow, tx->sent));
    if (tx->answers_head != tx->answers_tail)
        return 0;
    if (lli_repair_queued(&tx->repair) > 0)
        at = lli_min(at, lli_tx_repair_ready_at(tx));
    return at;
}

/* --------------------------------------------------------------------------------------------------- end */

void lli_tx_end(struct lli_tx *tx, lli_ns now)
{
    if (tx->pack.claim != NULL)
        lli_pack_abort(&tx->pack);
    lli_pack_flush(&tx->pack);
    tx->ended = true;
    tx->flowing = true;
    tx->heartbeat_interval = tx->heartbeat_first;
    tx->heartbeat_at = now;
}

bool lli_tx_drained(const struct lli_tx *tx)
{
    return tx->ended && tx->ends_sent >= TX_ENDS && lli_members_waiting(&tx->members) == 0;
}
