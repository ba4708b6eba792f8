/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tx/tx_internal.h"

/* Maximum of a round trip sample: beyond it a clock jumped, or the report was forged. */
#define TX_RTT_MAX ((lli_ns)1000000000)

/*
 * A round trip sample counts for at most this many times the smoothed value: one delayed report must not hold
 * up everything that depends on the round trip.
 */
enum { TX_RTT_OUTLIER = 4 };

void lli_tx_rate(struct lli_tx *tx, uint64_t bytes_per_s, uint64_t repair_bytes_per_s, lli_ns now)
{
    lli_flow_rate(&tx->flow, bytes_per_s, now);
    if (repair_bytes_per_s != tx->config.repair_rate)
        lli_tx_repair_rate(tx, repair_bytes_per_s, now);
}

void lli_tx_wake_at(struct lli_tx *tx, lli_ns at, lli_ns now)
{
    /*
     * An earlier wake-up that is due by now is replaced: a caller whose send is refused again waits for a
     * later time.
     */
    tx->due.wake_at = tx->due.wake_at <= now ? at : lli_min(tx->due.wake_at, at);
    tx->due.look_at = lli_min(tx->due.look_at, at);
    lli_tx_plan_slow(tx);
}

void lli_tx_init(struct lli_tx *tx, const struct lli_tx_config *config, struct lli_arena *arena, lli_ns now)
{
    *tx = (struct lli_tx){
        .config = *config,
        .sent = config->history.start,
        .repair.share = (uint32_t)(((uint64_t)config->repair_percent << 16) / 100),
        .inflight = {UINT64_MAX, UINT64_MAX, UINT64_MAX},
        .opened_at = now,
        .group.rtt = LLI_TX_RTT_UNKNOWN,
        .heartbeat.at = now,
        .heartbeat.last = now,
        .heartbeat.first = config->heartbeat_min,
        .heartbeat.interval = config->heartbeat_min,
        .group.expire_at = now + config->status,
        .due.look_at = now + config->status,
        .join.at = LLI_NEVER,
        .join.lvc_at = LLI_NEVER,
        .due.slow_at = now + config->status,
        .due.wake_at = LLI_NEVER,
    };
    tx->blocked_max = lli_min(LLI_TX_BLOCKED_MAX,
                              lli_max(LLI_TX_BLOCKED_BYTES / config->history.packet_max, LLI_TX_BLOCKED_MIN));
    lli_history_init(&tx->history, &config->history, arena);
    lli_repair_init(&tx->repair.queue, &tx->history, config->history.packets, config->receivers_max, arena);
    lli_replay_init(&tx->replay, config->replay_bytes_per_s, arena, now);
    lli_time_index_init(&tx->time_index, config->history.start, arena, now);
    lli_members_init(&tx->members, config->receivers_max, arena);
    tx->members.seed = config->seed;
    lli_flow_init(&tx->flow, &config->flow, config->receivers_max, arena, config->history.start, now);
    tx->flow.session = config->session;
    tx->flow.history = &tx->history;
    tx->config.slow.status = config->status;
    lli_slow_init(&tx->slow, &tx->config.slow, config->receivers_max, arena, config->history.start, now);
    lli_ack_init(&tx->ack, config->receivers_max, arena);
    tx->topics.names = lli_arena_take(arena, config->topics_max * sizeof *tx->topics.names, 64);
    tx->topics.flags = lli_arena_take(arena, config->topics_max, 64);
    tx->answers.queue = lli_arena_take(arena, LLI_TX_ANSWERS * sizeof *tx->answers.queue, 64);
    tx->tokens.queue = lli_arena_take(arena, LLI_TX_TOKENS * sizeof *tx->tokens.queue, 64);
    lli_pack_init(&tx->pack, &tx->history, (uint32_t)config->session);
    lli_tx_repair_init(tx, now);
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
static void tx_plan_retained(struct lli_tx *tx)
{
    lli_tx_inflight(tx, tx->ack.unacknowledged);
    tx->inflight.first_idle = tx->ack.unacknowledged;
}

bool lli_tx_assure(struct lli_tx *tx, struct lli_ack_topic *topic, const struct lli_ack_rule *rule,
                   struct lli_ack_message *ring, uint64_t places)
{
    if (!lli_ack_set(&tx->ack, &tx->members, topic, rule, ring, places))
        return false;
    tx_plan_retained(tx);
    lli_tx_look_now(tx);
    return true;
}

void lli_tx_assured(struct lli_tx *tx, struct lli_ack_topic *topic, lli_seq seq, uint64_t size)
{
    lli_ack_sent(&tx->ack, topic, tx->pack.number - 1, seq, size);
    tx->counters.messages_assured++;
    tx->heartbeat.fixed |= !tx->heartbeat.asks;
    tx_plan_retained(tx);
}

void lli_tx_input_acknowledgement(struct lli_tx *tx, const struct lli_wire_status *status, uint32_t index)
{
    if (tx->ack.count == 0 || !(status->flags & LLI_WIRE_STATUS_ACKNOWLEDGES))
        return;
    if (index == LLI_MEMBER_NONE ||
        !lli_ack_report(&tx->ack, &tx->members, index, status, lli_tx_lead_number(tx)))
        tx->counters.acknowledgements_refused++;
    tx_plan_retained(tx);
    /* Reports the event to the application at once. */
    if (tx->ack.unreported)
        lli_tx_look_now(tx);
}

/* --------------------------------------------------------------------------------------------- receivers */

/* Smoothed as in TCP (RFC 6298 section 2, without the variance). */
static void tx_measure(struct lli_tx *tx, struct lli_member *member, const struct lli_wire_status *status,
                       lli_ns now)
{
    const bool lagging = status->flags & LLI_WIRE_STATUS_BEHIND;
    lli_ns elapsed;

    /* Samples with the other BEHIND flag measured something else. */
    if (member->lagging != lagging)
        member->rtt = 0;
    member->lagging = lagging;
    if (status->echo == 0 || status->echo < tx->opened_at || status->echo > now)
        return;
    elapsed = now - status->echo;
    if (elapsed < status->echo_age_ns)
        return;
    elapsed -= status->echo_age_ns;
    if (elapsed > TX_RTT_MAX && !lagging)
        return;
    elapsed = lli_min(elapsed, TX_RTT_MAX);
    if (member->rtt != 0)
        elapsed = lli_min(elapsed, member->rtt * TX_RTT_OUTLIER);
    member->rtt = member->rtt == 0 ? elapsed : (member->rtt * 7 + elapsed) / 8;
    member->rtt = lli_max(member->rtt, 1);
    if (lli_member_counts(member) && !lagging)
        lli_tx_measured(tx, member, now);
}

static void tx_input_status(struct lli_tx *tx, const struct lli_wire_status *status, lli_ns now)
{
    struct lli_tx_requester requester;
    struct lli_member *member;
    uint32_t index;

    tx->counters.status_received++;
    if (status->flags & LLI_WIRE_STATUS_LEAVING) {
        lli_tx_input_leaving(tx, status);
        return;
    }
    requester = lli_tx_requester(tx, status->receiver, &status->address, status->token, now);
    index = requester.member;
    if (!requester.confirmed)
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
    if (lli_congestion_reported(member, status) && tx->config.reports_limits) {
        lli_congestion_changed(&tx->congestion);
        lli_tx_look_now(tx);
    }
    lli_slow_report(&tx->slow, &tx->members, index, tx->sent, now);
    member->report_ns = lli_members_announced(&tx->members, status->echo);
    lli_flow_moved(&tx->flow, &tx->members, index, tx->sent);
    lli_tx_look_soon(tx);
    member->done = lli_tx_is_done(tx, status);
    tx_measure(tx, member, status, now);
}

/* ------------------------------------------------------------------------------------------- packets in */

/* Counts a packet that was malformed or has another session's identity; true if it is this session's. */
static bool tx_is_mine(struct lli_tx *tx, bool decoded, const uint64_t *session)
{
    if (!decoded)
        tx->counters.control_malformed++;
    else if (*session != tx->config.session)
        tx->counters.control_foreign++;
    return decoded && *session == tx->config.session;
}

void lli_tx_input(struct lli_tx *tx, const struct lli_wire_header *header, const uint8_t *body, size_t size,
                  lli_ns now)
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
        if (tx_is_mine(tx, lli_wire_get_status(body, size, header->tag, &packet.status),
                       &packet.status.session))
            tx_input_status(tx, &packet.status, now);
        break;
    case LLI_WIRE_QUERY:
        if (tx_is_mine(tx, lli_wire_get_query(body, size, header->tag, &packet.query), &packet.query.session))
            lli_tx_input_query(tx, &packet.query);
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

/* Out of line, so that lli_tx_sent() saves no registers for it. */
static LLI_OUT_OF_LINE void tx_reached_limit(struct lli_tx *tx)
{
    lli_flow_advanced(&tx->flow, &tx->members, tx->sent);
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
    lli_tx_repair_earn(tx, bytes);
    if (lli_flow_is_metered(&tx->flow)) {
        lli_flow_sent(&tx->flow, bytes);
        lli_flow_assess(&tx->flow, &tx->members, tx->sent, tx->group.rtt, now);
    }
    if (tx->sent >= tx->flow.limit)
        tx_reached_limit(tx);
    lli_tx_flows(tx);
    if (now != LLI_NEVER)
        lli_tx_sent_at(tx, now);
}

/* -------------------------------------------------------------------------------------- slow receivers */

static void tx_evaluate(struct lli_tx *tx, lli_ns now)
{
    const uint64_t *decided = tx->slow.decided;

    if (lli_slow_all(&tx->slow, &tx->members, tx->sent, now)) {
        lli_flow_reported(&tx->flow, &tx->members, tx->sent);
        lli_tx_drop_joins(tx, now);
    }
    tx->counters.receivers_warned = decided[LLI_STANDING_WARNED];
    tx->counters.receivers_unicast = decided[LLI_STANDING_UNICAST];
    tx->counters.receivers_suspended = decided[LLI_STANDING_SUSPENDED];
    tx->counters.receivers_expelled = decided[LLI_STANDING_EXPELLED];
    tx->counters.receivers_readmitted = decided[LLI_STANDING_FINE];
}

static void tx_look(struct lli_tx *tx, lli_ns now)
{
    if (now >= tx->group.expire_at)
        lli_tx_expire(tx, now);
    if (now >= lli_slow_at(&tx->slow))
        tx_evaluate(tx, now);
    lli_ack_look(&tx->ack, &tx->members, now);
    if (now >= tx->due.wake_at)
        tx->due.wake_at = LLI_NEVER;
    tx->due.look_at = lli_min(lli_min(tx->group.expire_at, lli_slow_at(&tx->slow)), tx->due.wake_at);
    lli_tx_plan_slow(tx);
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
    *packet =
        (struct lli_packet){.data = buffer, .size = (uint32_t)used, .to = &tx->members.table[member].address};
    tx->counters.notices_sent++;
    lli_tx_count(tx, used);
    return true;
}

bool lli_tx_event(struct lli_tx *tx, struct llm_event *event)
{
    if (!(tx->slow.unreported && lli_slow_event(&tx->slow, event)) &&
        !(tx->ack.unreported && lli_ack_event(&tx->ack, event)) &&
        !lli_congestion_event(&tx->congestion, &tx->members, event))
        return false;
    event->session = tx->config.session;
    return true;
}

static void tx_suspended(struct lli_tx *tx, lli_ns now)
{
    lli_flow_reported(&tx->flow, &tx->members, tx->sent);
    lli_tx_drop_joins(tx, now);
    lli_tx_look_soon(tx);
}

bool lli_tx_suspend(struct lli_tx *tx, uint64_t receiver, bool suspend, lli_ns now)
{
    const bool known = lli_slow_suspend(&tx->slow, &tx->members, receiver, suspend, now);

    tx_suspended(tx, now);
    return known;
}

void lli_tx_suspend_all(struct lli_tx *tx, bool suspend, lli_ns now)
{
    lli_slow_suspend_all(&tx->slow, suspend);
    tx_suspended(tx, now);
}

/* ---------------------------------------------------------------------------------------------- control */

bool lli_tx_control(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    assert(size >= LLI_WIRE_CONTROL_MAX);
    if (lli_tx_control_answer(tx, buffer, size, packet) || lli_tx_control_join(tx, now, buffer, packet) ||
        lli_tx_control_token(tx, buffer, packet))
        return true;
    if (now >= tx->due.look_at)
        tx_look(tx, now);
    if (tx->slow.notices.due && tx_control_notice(tx, buffer, packet))
        return true;
    return lli_tx_control_heartbeat(tx, now, buffer, packet);
}

lli_ns lli_tx_deadline_waiting(const struct lli_tx *tx)
{
    lli_ns at = lli_min(tx->heartbeat.at, tx->due.slow_at);

    if (lli_tx_is_waiting(tx))
        at = lli_min(at, lli_flow_ready_at(&tx->flow, tx->sent));
    if (tx->answers.head != tx->answers.tail)
        return 0;
    if (lli_repair_queued(&tx->repair.queue) > 0)
        at = lli_min(at, lli_tx_repair_ready_at(tx));
    return at;
}
