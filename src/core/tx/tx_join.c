/* SPDX-License-Identifier: Apache-2.0 */
/* Late join at the transmitter: takes requests, answers them and replays the past (section 12). */
#include "core/join/position.h"
#include "core/tx/tx_internal.h"

/* Packets of one request that are checked for unreliable topics; receivers ask for fewer at a time. */
enum { JOIN_LOOKED_AT = 1024 };

/* A receiver that has to wait longer for one request gets BUSY. */
#define JOIN_LONG ((lli_ns)1000000000)

/* ---------------------------------------------------------------------------------- messages to packets */

uint64_t lli_tx_lead_number(const struct lli_tx *tx)
{
    if (tx->sent < tx->history.next)
        return lli_position_near(&tx->history, tx->sent, tx->pack.number);
    return tx->pack.packet != NULL ? lli_seq_extend(tx->pack.number, tx->pack.first_number) : tx->pack.number;
}

static struct lli_position_stream tx_stream(const struct lli_tx *tx)
{
    return (struct lli_position_stream){
        .history = &tx->history,
        .times = &tx->time_index,
        .start = tx->config.history.start,
        .sent = tx->sent,
        .lead_number = lli_tx_lead_number(tx),
        .unacknowledged = tx->ack.unacknowledged,
        .topics = tx->topics.count,
        .caches = tx->lvc.count > 0,
    };
}

uint64_t lli_tx_number_of(const struct lli_tx *tx, lli_seq seq)
{
    const struct lli_position_stream stream = tx_stream(tx);

    return lli_position_number(&stream, seq);
}

/* ------------------------------------------------------------------------------------------ packets in */

void lli_tx_replay_due(struct lli_tx *tx, lli_ns at)
{
    tx->join.at = tx->replay.answering > 0 ? 0 : lli_min(at, tx->join.lvc_at);
    lli_tx_plan_slow(tx);
}

void lli_tx_lvc_due(struct lli_tx *tx, lli_ns at)
{
    tx->join.lvc_at = tx->lvc.waiting > 0 ? at : LLI_NEVER;
}

const struct lli_wire_address *lli_tx_join_to(struct lli_tx *tx, const struct lli_wire_address *to)
{
    tx->join.to = *to;
    return &tx->join.to;
}

/*
 * True if a request is not answered. Its receiver may be known from NAKs and reports, and be suspended or
 * expelled.
 */
static bool tx_ignores_join(struct lli_tx *tx, uint64_t receiver, lli_ns now)
{
    const uint32_t member = lli_members_get(&tx->members, receiver);
    bool ignored;

    if (member == LLI_MEMBER_NONE)
        return tx->slow.suspends_all;
    tx->members.table[member].heard_at = now;
    ignored = lli_slow_heard(&tx->slow, &tx->members, member, now);
    lli_tx_look_soon(tx);
    return ignored;
}

static bool tx_ignores_now(const struct lli_tx *tx, uint64_t receiver)
{
    const uint32_t member = lli_members_get(&tx->members, receiver);

    return tx->slow.suspends_all ||
           (member != LLI_MEMBER_NONE && !lli_member_counts(&tx->members.table[member]));
}

void lli_tx_drop_joins(struct lli_tx *tx, lli_ns now)
{
    struct lli_replay *replay = &tx->replay;

    /* Backwards, as dropping an entry moves the last one into its place. */
    for (uint32_t i = replay->count; i-- > 0;)
        if (tx_ignores_now(tx, replay->receivers[i])) {
            lli_replay_drop(replay, i);
            tx->counters.joins_ignored++;
        }
    for (uint32_t i = tx->lvc.waiting; i-- > 0;)
        if (tx_ignores_now(tx, tx->lvc.receivers[i])) {
            lli_lvc_drop(&tx->lvc, i);
            tx->counters.joins_ignored++;
        }
    if (tx->lvc.waiting == 0)
        tx->join.lvc_at = LLI_NEVER;
    lli_tx_replay_due(tx, replay->fetching > 0 ? now : LLI_NEVER);
}

/* Returns the reason not to replay a packet to a receiver whose live data begins at `live`; 0: replay it. */
static enum lli_wire_reason tx_is_left_out(const struct lli_tx *tx, lli_seq seq, lli_seq live)
{
    const struct lli_history_slot *slot = lli_history_slot(&tx->history, seq);

    return slot->unreliable ? LLI_WIRE_UNREPAIRED : slot->transient && seq < live ? LLI_WIRE_PASSED : 0;
}

/* Rejects those packets of a FETCH that are left out for this reason. */
static void tx_fetch_left_out(struct lli_tx *tx, const struct lli_wire_join *join,
                              enum lli_wire_reason reason)
{
    struct lli_tx_unrepaired unrepaired = {.count = 0};
    uint32_t left = JOIN_LOOKED_AT;

    for (uint16_t i = 0; i < join->count; i++) {
        const lli_seq first = lli_seq_extend(tx->sent, join->ranges[i].first);
        const lli_seq end = lli_min(first + join->ranges[i].count, tx->sent);

        for (lli_seq seq = lli_max(first, tx->history.trail); seq < end && left > 0; seq++, left--)
            if (tx_is_left_out(tx, seq, join->lead) == reason)
                lli_tx_unrepaired_add(&unrepaired, seq);
    }
    lli_tx_unrepaired_send(tx, &join->address, reason, &unrepaired);
}

/* Time until all packets of a FETCH are sent, with the present number of receivers taking turns. */
static lli_ns tx_replay_time(const struct lli_tx *tx, const struct lli_wire_join *join)
{
    uint64_t bytes = 0;

    for (uint16_t i = 0; i < join->count; i++)
        bytes += (uint64_t)join->ranges[i].count * tx->config.history.packet_max;
    return bytes * tx->replay.fetching / lli_max(tx->config.replay_bytes_per_s / 1000000, 1) * 1000;
}

/*
 * Time until the cached messages that a LATEST requests are sent. Each packet counts as a full one, and a
 * request ends with at most `wanted` packets.
 */
static lli_ns tx_lvc_time(const struct lli_tx *tx, const struct lli_wire_join *join)
{
    const uint64_t packets = lli_min(join->wanted, LLI_LVC_PACKETS_MAX);
    const uint64_t stored = tx->lvc.bytes / tx->config.history.packet_max + 1;
    const uint64_t bytes = lli_min(packets, stored) * tx->config.history.packet_max;

    return bytes * tx->lvc.waiting / lli_max(tx->config.replay_bytes_per_s / 1000000, 1) * 1000;
}

/* Sends BUSY to a receiver that has to wait for long. */
static void tx_answer_busy(struct lli_tx *tx, const struct lli_wire_join *join, bool placed)
{
    const uint32_t places = join->kind == LLI_WIRE_JOIN_LATEST ? tx->lvc.waiting : tx->replay.count;

    if (!placed || (join->kind == LLI_WIRE_JOIN_FETCH && tx_replay_time(tx, join) > JOIN_LONG) ||
        (join->kind == LLI_WIRE_JOIN_LATEST && tx_lvc_time(tx, join) > JOIN_LONG))
        lli_tx_give_token(tx, join->receiver, &join->address, LLI_WIRE_JOIN_BUSY, places);
}

void lli_tx_input_join(struct lli_tx *tx, struct lli_wire_join *join, lli_ns now)
{
    const bool fetches = join->kind == LLI_WIRE_JOIN_FETCH || join->kind == LLI_WIRE_JOIN_LATEST;
    bool placed = true;

    if (join->receiver == 0) {
        tx->counters.control_malformed++;
        return;
    }
    /* An answer to ASK is short and carries the token, so it needs no confirmation. */
    if (fetches && !lli_tx_is_confirmed(tx, join->receiver, &join->address, join->token))
        return;
    if (tx_ignores_join(tx, join->receiver, now)) {
        tx->counters.joins_ignored++;
        return;
    }
    if (join->kind == LLI_WIRE_JOIN_ASK && join->from >= LLM_JOIN_OLDEST && join->from <= LLM_JOIN_LATEST) {
        tx->counters.joins_received++;
        placed = lli_replay_join(&tx->replay, join->receiver, join);
    } else if (join->kind == LLI_WIRE_JOIN_FETCH) {
        tx->counters.fetches_received++;
        join->count = lli_ranges_merge(join->ranges, join->count, tx->sent, 0, LLI_WIRE_FETCH_PACKETS);
        placed = lli_replay_fetch(&tx->replay, join->receiver, join, tx->sent);
        if (tx->pack.unreliable_sum > 0)
            tx_fetch_left_out(tx, join, LLI_WIRE_UNREPAIRED);
        if (tx->pack.transients && join->lead > 0)
            tx_fetch_left_out(tx, join, LLI_WIRE_PASSED);
    } else if (join->kind == LLI_WIRE_JOIN_LATEST) {
        tx->counters.cache_fetches_received++;
        placed = lli_tx_input_lvc(tx, join, now);
    } else {
        /* A kind of a later version, or an answer. */
        return;
    }
    tx->counters.joins_dropped += !placed;
    tx_answer_busy(tx, join, placed);
    /* A request may match no packet at all. */
    lli_tx_replay_due(tx, tx->replay.fetching > 0 ? now : LLI_NEVER);
}

/* ----------------------------------------------------------------------------------------- packets out */

/* Returns the next replay packet of any receiver; skips a limited number of left-out packets per call. */
static bool tx_replay_next(struct lli_tx *tx, lli_seq *seq, const struct lli_wire_address **to)
{
    for (int i = 0; i < JOIN_LOOKED_AT; i++) {
        enum lli_wire_reason reason;

        if (!lli_replay_peek(&tx->replay, tx->history.trail, seq, to))
            return false;
        reason = tx_is_left_out(tx, *seq, lli_replay_live(&tx->replay));
        if (reason == 0)
            return true;
        tx->counters.packets_without_history += reason == LLI_WIRE_PASSED;
        lli_replay_pop(&tx->replay);
    }
    return false;
}

bool lli_tx_replay(struct lli_tx *tx, lli_ns now, struct lli_packet *packet)
{
    struct lli_replay *replay = &tx->replay;
    lli_seq seq;

    /* The common case: this is called as often as lli_tx_repair(). */
    if (replay->fetching == 0)
        return false;
    if (lli_repair_peek(&tx->repair.queue, &seq)) {
        lli_tx_replay_due(tx, lli_tx_repair_ready_at(tx));
        return false;
    }
    lli_pacer_fill(&replay->pacer, now);
    if (replay->pacer.tokens == 0 || !tx_replay_next(tx, &seq, &packet->to)) {
        lli_tx_replay_due(tx, replay->fetching > 0 ? lli_pacer_ready_at(&replay->pacer) : LLI_NEVER);
        return false;
    }
    packet->data = lli_history_packet(&tx->history, seq);
    packet->size = lli_history_slot(&tx->history, seq)->size;
    return true;
}

void lli_tx_replayed(struct lli_tx *tx)
{
    const struct lli_wire_address *address;
    lli_seq seq = 0;
    uint32_t size;
    bool found = lli_replay_peek(&tx->replay, tx->history.trail, &seq, &address);

    (void)found;
    assert(found);
    size = lli_history_slot(&tx->history, seq)->size;
    (void)lli_pacer_take(&tx->replay.pacer, size);
    lli_replay_pop(&tx->replay);
    if (tx->replay.fetching == 0)
        lli_tx_replay_due(tx, LLI_NEVER);
    tx->counters.packets_replayed++;
    lli_tx_inflight(tx, seq);
    lli_tx_count(tx, size);
}

static size_t tx_build_gone(struct lli_tx *tx, uint8_t *buffer)
{
    const struct lli_wire_reject reject = {
        .session = tx->config.session, .trail = tx->history.trail, .reason = LLI_WIRE_GONE};

    tx->counters.rejects_sent++;
    return lli_wire_put_reject(buffer, &reject);
}

static size_t tx_build_answer(struct lli_tx *tx, const struct lli_replay_place *place, uint64_t receiver,
                              lli_ns now, uint8_t *buffer)
{
    const struct lli_position_stream stream = tx_stream(tx);
    struct lli_wire_join answer = {
        .session = tx->config.session, .receiver = receiver, .from = place->from, .value = place->value};

    if (tx->config.confirms)
        answer.token = lli_token(&tx->config.key, receiver, &place->address);
    lli_position_answer(&stream, &answer, now);
    tx->counters.joins_granted += answer.kind == LLI_WIRE_JOIN_GRANT;
    tx->counters.joins_refused += answer.kind == LLI_WIRE_JOIN_REFUSE;
    return lli_wire_put_join(buffer, &answer);
}

bool lli_tx_control_join(struct lli_tx *tx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    struct lli_replay_place place;
    uint64_t receiver;
    size_t used;

    if (!lli_replay_answer(&tx->replay, &receiver, &place))
        return false;
    used = place.requested ? tx_build_answer(tx, &place, receiver, now, buffer) : tx_build_gone(tx, buffer);
    *packet =
        (struct lli_packet){.data = buffer, .size = (uint32_t)used, .to = lli_tx_join_to(tx, &place.address)};
    lli_tx_replay_due(tx, tx->replay.fetching > 0 ? now : LLI_NEVER);
    lli_tx_count(tx, used);
    return true;
}
