/* SPDX-License-Identifier: Apache-2.0 */
#include "tx_session.h"

#include <llm/llm.h>

/* How many heartbeats say the end before it counts as said where nobody is known to listen. */
enum { TX_ENDS = 5 };

/* A repair burst of at most this many bytes follows a time without repairs. */
#define TX_REPAIR_BURST ((uint64_t)1 << 20)

/* A member is forgotten when it misses this many status reports. */
enum { TX_STATUS_MISSED = 10 };

/* No report takes longer to come: a clock jumped, or somebody made it up. */
#define TX_RTT_MAX ((lli_ns)1000000000)

/* One report that was delayed must not hold up all that wait for the round trip: it counts for at most so many of the others. */
enum { TX_RTT_OUTLIER = 4 };

void lli_tx_init(struct lli_tx *tx, const struct lli_tx_config *config, struct lli_arena *arena, lli_ns now)
{
    *tx = (struct lli_tx){
        .config = *config,
        .sent = config->history.start,
        .inflight = UINT64_MAX,
        .inflight_young = UINT64_MAX,
        .opened_at = now,
        .rtt = LLI_TX_RTT_UNKNOWN,
        .heartbeat_at = now,
        .heartbeat_last = now,
        .heartbeat_interval = config->heartbeat_min,
        .expire_at = now + config->status,
    };
    lli_history_init(&tx->history, &config->history, arena);
    lli_repair_init(&tx->repair, &tx->history, config->history.packets, arena);
    lli_members_init(&tx->members, config->receivers_max, arena);
    lli_flow_init(&tx->flow, &config->flow, config->receivers_max, arena, config->history.start, now);
    tx->topics = lli_arena_take(arena, config->topics_max * sizeof *tx->topics, 64);
    tx->answers = lli_arena_take(arena, LLI_TX_ANSWERS * sizeof *tx->answers, 64);
    lli_pack_init(&tx->pack, &tx->history, (uint32_t)config->session);
    lli_pacer_init(&tx->repair_pacer, config->repair_bytes_per_s, TX_REPAIR_BURST, now);
}

uint64_t lli_tx_message_max(const struct lli_tx *tx)
{
    const struct lli_history *history = &tx->history;
    /* With nothing in flight, less a packet for headers and one that may be open. */
    uint64_t packets = lli_min(history->slots_mask, history->bytes_size / history->stride_max - 2);

    return packets < 3 ? 0 : (packets - 3) * (history->packet_max - LLI_WIRE_HEADER);
}

int lli_tx_topic_add(struct lli_tx *tx, const char *name, uint32_t *id)
{
    if (tx->topics_count == tx->config.topics_max)
        return LLM_ELIMIT;
    if (!lli_pack_announce(&tx->pack, tx->topics_count, name, strlen(name), lli_tx_busy(tx)))
        return LLM_EAGAIN;
    *id = tx->topics_count;
    tx->topics[tx->topics_count++] = name;
    return LLM_OK;
}

/* --------------------------------------------------------------------------------------------- receivers */

/* How many receivers hear of a loss when one does. */
static bool tx_is_crowded(const struct lli_tx *tx)
{
    return tx->members.count > tx->config.nak_receivers_immediate;
}

static uint32_t tx_member(struct lli_tx *tx, uint64_t id, const struct lli_wire_address *address, lli_ns now)
{
    uint32_t known = tx->members.count;
    uint32_t member = id == 0 ? LLI_MEMBER_NONE : lli_members_add(&tx->members, id);

    if (member == LLI_MEMBER_NONE) {
        tx->counters.receivers_refused++;
        return member;
    }
    tx->counters.receivers_joined += tx->members.count - known;
    tx->members.table[member].heard_at = now;
    tx->members.table[member].address = *address;
    return member;
}

/* Smoothed as TCP does it (RFC 6298 section 2, without the variance). */
static void tx_measure(struct lli_tx *tx, struct lli_member *member, const struct lli_wire_status *status, lli_ns now)
{
    lli_ns elapsed;

    if (status->echo == 0 || status->echo < tx->opened_at || status->echo > now)
        return;
    elapsed = now - status->echo;
    if (elapsed < status->hold_ns)
        return;
    elapsed -= status->hold_ns;
    if (elapsed > TX_RTT_MAX)
        return;
    if (member->rtt != 0)
        elapsed = lli_min(elapsed, member->rtt * TX_RTT_OUTLIER);
    member->rtt = member->rtt == 0 ? elapsed : (member->rtt * 7 + elapsed) / 8;
    member->rtt = lli_max(member->rtt, 1);
    tx->rtt = tx->members.count == 1 ? member->rtt : lli_members_rtt(&tx->members);
}

static void tx_input_status(struct lli_tx *tx, const struct lli_wire_status *status, lli_ns now)
{
    struct lli_member *member;
    uint32_t index;

    tx->counters.status_received++;
    if (status->flags & LLI_WIRE_STATUS_LEAVING) {
        uint32_t known = tx->members.count;

        lli_members_del(&tx->members, status->receiver);
        lli_flow_reported(&tx->flow, &tx->members);
        tx->counters.receivers_left += known - tx->members.count;
        return;
    }
    index = tx_member(tx, status->receiver, &status->address, now);
    if (index == LLI_MEMBER_NONE)
        return;
    member = &tx->members.table[index];
    member->next = lli_min(status->next, tx->sent);
    member->window = lli_max(status->highest, status->next) - status->next + status->window_free;
    lli_flow_reported(&tx->flow, &tx->members);
    member->done = tx->ended && (status->flags & LLI_WIRE_STATUS_DONE) && status->next >= tx->history.next;
    tx_measure(tx, member, status, now);
}

/* ------------------------------------------------------------------------------------------------- NAKs */

/* A place for an answer, or NULL. */
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

static void tx_reject(struct lli_tx *tx, const struct lli_wire_address *to, enum lli_wire_reason reason,
                      const struct lli_wire_range *ranges, uint16_t count)
{
    struct lli_tx_answer *answer = tx_answer(tx, to);

    if (answer == NULL)
        return;
    answer->reject.reason = (uint8_t)reason;
    answer->reject.count = count;
    memcpy(answer->reject.ranges, ranges, count * sizeof *ranges);
}

/* What became of one NAK's packets. */
struct tx_nak_result {
    uint64_t queued;
    struct lli_wire_range gone[LLI_WIRE_RANGES_MAX];
    uint16_t gone_count;
};

/* Asks for [seq, end), all sent already. */
static void tx_nak_packets(struct lli_tx *tx, lli_seq seq, lli_seq end, uint32_t member, lli_ns now,
                           struct tx_nak_result *result)
{
    lli_ns linger = lli_max(tx->config.repair_linger, tx->rtt);
    uint32_t to = member == LLI_MEMBER_NONE ? LLI_REPAIR_TO_GROUP : member;

    for (; seq < end; seq++) {
        switch (lli_repair_request(&tx->repair, seq, to, now, linger, 4 * linger)) {
        case LLI_REPAIR_QUEUED:
            result->queued++;
            break;
        case LLI_REPAIR_JOINED:
            result->queued++;
            tx->counters.nak_packets_ignored++;
            break;
        case LLI_REPAIR_IGNORED:
            tx->counters.nak_packets_ignored++;
            break;
        case LLI_REPAIR_GONE:
            assert(false);
            break;
        }
    }
}

static void tx_nak_range(struct lli_tx *tx, const struct lli_wire_range *range, uint32_t member, lli_ns now,
                         struct tx_nak_result *result)
{
    uint32_t count = range->count < tx->history.slots_mask ? range->count : (uint32_t)tx->history.slots_mask;
    lli_seq first = lli_seq_extend(tx->sent, range->first);
    lli_seq end = first + count;

    tx->counters.nak_packets += count;
    if (member != LLI_MEMBER_NONE)
        tx->members.table[member].asked += count;
    if (first > tx->sent || end > tx->sent) {
        lli_seq beyond = lli_max(first, tx->sent);

        tx->counters.nak_packets_beyond += end - beyond;
        end = beyond;
    }
    if (first < tx->history.trail) {
        lli_seq gone_end = lli_min(end, tx->history.trail);

        if (gone_end > first) {
            tx->counters.nak_packets_gone += gone_end - first;
            result->gone[result->gone_count++] = (struct lli_wire_range){range->first, (uint32_t)(gone_end - first)};
        }
        first = tx->history.trail;
    }
    tx_nak_packets(tx, first, end, member, now, result);
}

static void tx_input_nak(struct lli_tx *tx, const struct lli_wire_nak *nak, lli_ns now)
{
    struct tx_nak_result result = {.queued = 0};
    uint32_t member = tx_member(tx, nak->receiver, &nak->address, now);

    tx->counters.naks_received++;
    for (uint16_t i = 0; i < nak->count; i++)
        tx_nak_range(tx, &nak->ranges[i], member, now, &result);
    if (result.gone_count > 0)
        tx_reject(tx, &nak->address, LLI_WIRE_GONE, result.gone, result.gone_count);
    /* What cannot go at once is confirmed to the group, so that the others hold their NAKs back (section 5.3). */
    if (result.queued > 0 && tx_is_crowded(tx) && tx->repair_pacer.tokens == 0)
        tx_reject(tx, NULL, LLI_WIRE_PENDING, nak->ranges, nak->count);
}

static void tx_input_query(struct lli_tx *tx, const struct lli_wire_query *query)
{
    struct lli_tx_answer *answer = tx_answer(tx, &query->address);

    tx->counters.queries_received++;
    if (answer == NULL)
        return;
    answer->is_topics = true;
    answer->topics_first = query->first;
}

/* Counts what a decoder refused; true if the identity is this session's. */
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
    } packet;

    switch (header->type) {
    case LLI_WIRE_NAK:
        if (tx_is_mine(tx, lli_wire_get_nak(body, size, header->tag, &packet.nak), &packet.nak.session))
            tx_input_nak(tx, &packet.nak, now);
        break;
    case LLI_WIRE_STATUS:
        if (tx_is_mine(tx, lli_wire_get_status(body, size, header->tag, &packet.status), &packet.status.session))
            tx_input_status(tx, &packet.status, now);
        break;
    case LLI_WIRE_QUERY:
        if (tx_is_mine(tx, lli_wire_get_query(body, size, header->tag, &packet.query), &packet.query.session))
            tx_input_query(tx, &packet.query);
        break;
    default:
        /* The session's own data and heartbeats, heard back. */
        break;
    }
}

/* ------------------------------------------------------------------------------------------- packets out */

int lli_tx_unsent(struct lli_tx *tx, lli_ns now, struct lli_packet *packets, int max)
{
    uint64_t bytes = 0;
    int count = 0;

    if (tx->config.flow.mode == LLI_FLOW_PACED)
        lli_pacer_fill(&tx->flow.pacer, now);
    for (lli_seq seq = tx->sent; seq < tx->history.next && count < max && lli_flow_allows(&tx->flow, seq, bytes); seq++) {
        packets[count] = (struct lli_packet){
            .data = lli_history_packet(&tx->history, seq),
            .size = lli_history_slot(&tx->history, seq)->size,
        };
        bytes += packets[count++].size;
    }
    return count;
}

static void tx_count(struct lli_tx *tx, uint64_t bytes)
{
    tx->counters.packets_sent++;
    tx->counters.bytes_sent += bytes;
}

/* The transport reads it from now on. */
static void tx_inflight(struct lli_tx *tx, lli_seq seq)
{
    tx->inflight = lli_min(tx->inflight, seq);
    tx->inflight_young = lli_min(tx->inflight_young, seq);
}

void lli_tx_sent(struct lli_tx *tx, int count, lli_ns now)
{
    uint64_t bytes = 0;

    if (count == 0)
        return;
    tx_inflight(tx, tx->sent);
    for (int i = 0; i < count; i++)
        bytes += lli_history_slot(&tx->history, tx->sent++)->size;
    tx->counters.packets_sent += (uint64_t)count;
    tx->counters.packets_data += (uint64_t)count;
    tx->counters.bytes_sent += bytes;
    lli_pacer_give(&tx->repair_pacer, bytes * tx->config.repair_percent / 100);
    if (tx->config.flow.mode == LLI_FLOW_PACED) {
        lli_flow_sent(&tx->flow, bytes);
        lli_flow_judge(&tx->flow, &tx->members, tx->sent, tx->rtt, now);
    }
    /* Tail loss: a heartbeat follows soon, unless more data does; while data flows, one every heartbeat_busy. */
    tx->flowing = true;
    tx->heartbeat_interval = tx->config.heartbeat_min;
    tx->heartbeat_at = lli_min(now + tx->config.heartbeat_min, lli_max(tx->heartbeat_last + tx->config.heartbeat_busy, now));
    if (tx->ended)
        tx->heartbeat_at = now;
}

bool lli_tx_repair(struct lli_tx *tx, lli_ns now, struct lli_packet *packet)
{
    struct lli_history_slot *slot;
    lli_seq seq;

    if (!lli_repair_peek(&tx->repair, &seq))
        return false;
    lli_pacer_fill(&tx->repair_pacer, now);
    slot = lli_history_slot(&tx->history, seq);
    if (tx->repair_pacer.tokens == 0)
        return false;
    packet->data = lli_history_packet(&tx->history, seq);
    packet->size = slot->size;
    packet->to = slot->repair_to == LLI_REPAIR_TO_GROUP ? NULL : &tx->members.table[slot->repair_to].address;
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
    tx->counters.repairs_multicast += lli_repair_pop(&tx->repair, now) == LLI_REPAIR_TO_GROUP;
    tx->counters.packets_repaired++;
    tx_inflight(tx, seq);
    tx_count(tx, size);
}

/* Heartbeats announce only what the transport took: the rest is not lost yet. */
static size_t tx_build_heartbeat(struct lli_tx *tx, lli_ns now, uint8_t *buffer)
{
    bool whole = tx->sent == tx->history.next;
    struct lli_wire_heartbeat heartbeat = {
        .session = tx->config.session,
        .lead = tx->sent,
        .trail = lli_min(tx->history.trail, tx->sent),
        .start = tx->config.history.start,
        .messages = tx->pack.number,
        .sent_at = now,
        .interval_us = (uint32_t)(lli_max(tx->heartbeat_interval, tx->config.heartbeat_busy) / 1000 + 1),
        .rtt_ns = (uint32_t)lli_min(tx->rtt, UINT32_MAX),
        .receivers = tx->members.count,
        .topics = tx->topics_count,
        .report_packets = lli_flow_report_packets(&tx->flow),
        .address = tx->config.address,
    };

    if (!whole && lli_flow_ready_at(&tx->flow, tx->sent) == LLI_NEVER)
        heartbeat.flags |= LLI_WIRE_HEARTBEAT_HELD;
    /* The number of the first message at lead or later stands in that packet's header, if it is packed already. */
    if (!whole)
        heartbeat.messages = lli_seq_extend(tx->pack.number, lli_load_u32(lli_history_packet(&tx->history, tx->sent) + 12));
    else if (tx->pack.packet != NULL)
        heartbeat.messages = lli_seq_extend(tx->pack.number, tx->pack.first_number);
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
    if (!tx->flowing)
        tx->heartbeat_interval = lli_min(tx->heartbeat_interval * 2, tx->config.heartbeat_max);
    tx->flowing = false;
    tx->heartbeat_last = now;
    tx->heartbeat_at = now + tx->heartbeat_interval;
}

static size_t tx_build_topics(struct lli_tx *tx, uint32_t first, uint8_t *buffer, size_t size)
{
    struct lli_wire_topics topics = {.session = tx->config.session, .total = tx->topics_count};
    size_t used = LLI_WIRE_TOPICS_HEAD;

    topics.first = first < tx->topics_count ? first : tx->topics_count;
    for (uint32_t id = topics.first; id < tx->topics_count; id++) {
        size_t added = lli_wire_add_topic(buffer, used, size, tx->topics[id], strlen(tx->topics[id]));

        if (added == 0)
            break;
        used = added;
        topics.count++;
    }
    lli_wire_put_topics(buffer, &topics);
    return used;
}

static bool tx_control_answer(struct lli_tx *tx, uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    const struct lli_tx_answer *answer;
    size_t used;

    if (tx->answers_head == tx->answers_tail)
        return false;
    answer = &tx->answers[tx->answers_head++ % LLI_TX_ANSWERS];
    if (answer->is_topics) {
        used = tx_build_topics(tx, answer->topics_first, buffer, size);
        tx->counters.topics_sent++;
    } else {
        used = lli_wire_put_reject(buffer, &answer->reject);
        tx->counters.rejects_sent++;
    }
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)used, .to = answer->to_group ? NULL : &answer->to};
    tx_count(tx, used);
    return true;
}

/* The distance of a receiver's reports grows with their number, so that their sum does not (section 7). */
static lli_ns tx_status_interval(const struct lli_tx *tx)
{
    return tx->config.status * lli_max(1, tx->members.count / 10);
}

static void tx_expire(struct lli_tx *tx, lli_ns now)
{
    lli_ns patience = tx_status_interval(tx) * TX_STATUS_MISSED;

    tx->expire_at = now + tx->config.status;
    if (now > patience)
        tx->counters.receivers_lost += lli_members_expire(&tx->members, now - patience);
    lli_flow_reported(&tx->flow, &tx->members);
    if (tx->members.count > 0 && lli_members_rtt(&tx->members) > 0)
        tx->rtt = lli_members_rtt(&tx->members);
}

bool lli_tx_control(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    size_t used;

    assert(size >= LLI_WIRE_CONTROL_MAX);
    if (tx_control_answer(tx, buffer, size, packet))
        return true;
    if (now >= tx->expire_at)
        tx_expire(tx, now);
    if (now < tx->heartbeat_at)
        return false;
    used = tx_build_heartbeat(tx, now, buffer);
    tx_heartbeat_next(tx, now);
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)used};
    tx->counters.heartbeats_sent++;
    tx_count(tx, used);
    return true;
}

lli_ns lli_tx_deadline(const struct lli_tx *tx)
{
    lli_ns at = lli_min(tx->heartbeat_at, tx->expire_at);

    if (tx->sent < tx->history.next)
        at = lli_min(at, lli_flow_ready_at(&tx->flow, tx->sent));
    if (tx->answers_head != tx->answers_tail ||
        (lli_pack_pending(&tx->pack) && tx->pack.claim == NULL))
        return 0;
    if (lli_repair_queued(&tx->repair) > 0)
        at = lli_min(at, lli_pacer_ready_at(&tx->repair_pacer));
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
    tx->heartbeat_interval = tx->config.heartbeat_min;
    tx->heartbeat_at = now;
}

bool lli_tx_drained(const struct lli_tx *tx)
{
    return tx->ended && tx->ends_sent >= TX_ENDS && lli_members_waiting(&tx->members) == 0;
}
