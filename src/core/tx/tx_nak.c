/* SPDX-License-Identifier: Apache-2.0 */
/* NAKs, and the repairs that answer them (docs/protocol.md section 5.2). repair.c has the queue. */
#include "core/tx/tx_internal.h"

/* Largest burst of repairs, in bytes, after a time without repairs. */
#define TX_REPAIR_BURST ((uint64_t)1 << 20)

/*
 * Time for which a repair to this receiver is under way: the receiver may be nearer than others, or late to
 * read its packets.
 */
static lli_ns tx_distance(const struct lli_tx *tx, uint32_t member)
{
    const lli_ns own = member == LLI_MEMBER_NONE ? 0 : tx->members.table[member].rtt;

    return own == 0 ? tx->group.rtt : lli_min(lli_max(tx->group.rtt, own), 2 * own);
}

/* Packets that an unconfirmed receiver may ask for at a time. */
enum { TX_UNCONFIRMED_PACKETS = 64 };

/* Result of one NAK. */
struct tx_nak_result {
    uint64_t queued;
    struct lli_wire_range gone[LLI_WIRE_RANGES_MAX];
    uint16_t gone_count;
    struct lli_tx_unrepaired unrepaired;
};

/* Number of packets in a range that belong to unreliable topics, as far as they are still in the history. */
static uint32_t tx_unreliable(const struct lli_tx *tx, const struct lli_wire_range *range)
{
    const lli_seq first = lli_seq_extend(tx->sent, range->first);

    return lli_history_unreliable(&tx->history, lli_max(first, tx->history.trail),
                                  lli_min(first + range->count, tx->sent));
}

/* Charges this packet to the budget for unconfirmed receivers; true if the budget is exhausted. */
static bool tx_is_used_up(struct lli_tx *tx, lli_seq seq)
{
    if (lli_pacer_take(&tx->repair.unconfirmed, lli_history_slot(&tx->history, seq)->size))
        return false;
    tx->counters.nak_packets_unconfirmed++;
    return true;
}

/* Queues the packets [seq, end), all of which were sent before. */
static void tx_nak_packets(struct lli_tx *tx, lli_seq seq, lli_seq end, struct lli_tx_requester requester,
                           lli_ns now, struct tx_nak_result *result)
{
    const uint32_t member = requester.member;
    const lli_ns linger = lli_max(tx->config.repair_linger, tx_distance(tx, member));
    const lli_ns shared = 4 * lli_max(tx->config.repair_linger, tx->group.rtt);
    uint32_t to = member == LLI_MEMBER_NONE ? LLI_REPAIR_TO_GROUP : member;
    bool alone = member != LLI_MEMBER_NONE && tx->members.table[member].standing == LLI_STANDING_UNICAST;

    for (; seq < end; seq++) {
        if (seq < tx->history.next && lli_history_slot(&tx->history, seq)->unreliable) {
            lli_tx_unrepaired_add(&result->unrepaired, seq);
            continue;
        }
        if (!requester.confirmed && tx_is_used_up(tx, seq))
            continue;
        switch (lli_repair_request(&tx->repair.queue, seq, to, now, linger, alone ? 0 : shared)) {
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

static void tx_nak_range(struct lli_tx *tx, const struct lli_wire_range *range,
                         struct lli_tx_requester requester, lli_ns now, struct tx_nak_result *result)
{
    lli_seq first = lli_seq_extend(tx->sent, range->first);
    lli_seq end = first + range->count;

    if (requester.member != LLI_MEMBER_NONE)
        tx->members.table[requester.member].requested += range->count - tx_unreliable(tx, range);
    if (first > tx->sent || end > tx->sent) {
        lli_seq beyond = lli_max(first, tx->sent);

        tx->counters.nak_packets_beyond += end - beyond;
        end = beyond;
    }
    if (first < tx->history.trail) {
        lli_seq gone_end = lli_min(end, tx->history.trail);

        if (gone_end > first) {
            tx->counters.nak_packets_gone += gone_end - first;
            result->gone[result->gone_count++] =
                (struct lli_wire_range){range->first, (uint32_t)(gone_end - first)};
        }
        first = tx->history.trail;
    }
    tx_nak_packets(tx, first, end, requester, now, result);
}

/*
 * Counts the packets that a NAK asks for. True: no answer but a notice, which is sent later so that such NAKs
 * cost little.
 */
static bool tx_ignores(struct lli_tx *tx, const struct lli_wire_nak *nak, uint32_t member, lli_ns now)
{
    uint64_t packets = 0, unreliable = 0;
    bool ignored;

    for (uint16_t i = 0; i < nak->count; i++) {
        packets += nak->ranges[i].count;
        unreliable += tx_unreliable(tx, &nak->ranges[i]);
    }
    tx->counters.nak_packets += packets;
    tx->counters.nak_packets_unreliable += unreliable;
    if (member == LLI_MEMBER_NONE)
        return tx->slow.suspends_all;
    /* Asking for unreliable packets makes no receiver slow: it cannot know before it asks. */
    ignored = unreliable > 0 && unreliable == packets
                  ? lli_slow_heard(&tx->slow, &tx->members, member, now)
                  : lli_slow_nak(&tx->slow, &tx->members, member, packets - unreliable, now);
    lli_tx_look_soon(tx);
    return ignored;
}

/*
 * Normalizes a NAK: each packet once, at most as many as the history can hold, none before the receiver's
 * reported `next`.
 */
static void tx_bound_nak(const struct lli_tx *tx, struct lli_wire_nak *nak, struct lli_tx_requester requester)
{
    const lli_seq low = requester.member == LLI_MEMBER_NONE ? 0 : tx->members.table[requester.member].next;
    const uint64_t most = requester.confirmed ? tx->history.slots_mask : TX_UNCONFIRMED_PACKETS;

    nak->count = lli_ranges_merge(nak->ranges, nak->count, tx->sent, low, most);
}

void lli_tx_input_nak(struct lli_tx *tx, struct lli_wire_nak *nak, lli_ns now)
{
    struct tx_nak_result result = {.queued = 0};
    const struct lli_tx_requester requester =
        lli_tx_requester(tx, nak->receiver, &nak->address, nak->token, now);

    tx->counters.naks_received++;
    tx_bound_nak(tx, nak, requester);
    if (tx_ignores(tx, nak, requester.member, now)) {
        tx->counters.naks_ignored++;
        return;
    }
    lli_pacer_fill(&tx->repair.unconfirmed, now);
    for (uint16_t i = 0; i < nak->count; i++)
        tx_nak_range(tx, &nak->ranges[i], requester, now, &result);
    /*
     * An unconfirmed receiver gets repairs through the group only, and REJECT when it asks again with the
     * token.
     */
    if (!requester.confirmed)
        return;
    if (result.queued > 0)
        lli_tx_heartbeat_lossy(tx, now);
    if (result.gone_count > 0)
        lli_tx_reject(tx, &nak->address, LLI_WIRE_GONE, result.gone, result.gone_count);
    lli_tx_unrepaired_send(tx, &nak->address, LLI_WIRE_UNREPAIRED, &result.unrepaired);
    /*
     * Confirms repairs that are delayed to the group, so that other receivers suppress their NAKs (section
     * 5.3).
     */
    if (result.queued > 0 && lli_tx_is_crowded(tx) && tx->repair.pacer.tokens == 0)
        lli_tx_reject(tx, NULL, LLI_WIRE_PENDING, nak->ranges, nak->count);
}

/* ------------------------------------------------------------------------------------------------ repairs */

void lli_tx_repair_init(struct lli_tx *tx, lli_ns now)
{
    lli_pacer_init(&tx->repair.pacer, tx->config.repair_bytes_per_s, TX_REPAIR_BURST, now);
    lli_pacer_init(&tx->repair.unconfirmed, LLI_TX_UNCONFIRMED_BYTES_PER_S, LLI_TX_UNCONFIRMED_BURST, now);
    lli_tx_repair_rate(tx, tx->config.repair_rate, now);
}

void lli_tx_repair_rate(struct lli_tx *tx, uint64_t bytes_per_s, lli_ns now)
{
    tx->config.repair_rate = bytes_per_s;
    if (bytes_per_s != 0)
        lli_pacer_init(&tx->repair.limit, bytes_per_s, lli_flow_burst(bytes_per_s), now);
}

static bool tx_is_served(const struct lli_tx *tx, uint32_t to)
{
    const struct lli_member *members = tx->members.table;

    return !tx->slow.suspends_all && (to == LLI_REPAIR_TO_GROUP ||
                                      (members[to].id != 0 && members[to].standing < LLI_STANDING_SUSPENDED));
}

/* Drops repairs at the head whose receiver has left or is not served. False if none is left. */
static bool tx_repair_next(struct lli_tx *tx, lli_seq *seq)
{
    while (lli_repair_peek(&tx->repair.queue, seq)) {
        if (tx_is_served(tx, lli_history_slot(&tx->history, *seq)->repair_to))
            return true;
        lli_repair_skip(&tx->repair.queue);
        tx->counters.repairs_dropped++;
    }
    return false;
}

/* True if the rate limit blocks repairs. */
static bool tx_repair_is_limited(struct lli_tx *tx, lli_ns now)
{
    if (tx->config.repair_rate == 0)
        return false;
    lli_pacer_fill(&tx->repair.limit, now);
    if (tx->repair.limit.tokens > 0)
        return false;
    tx->counters.repairs_delayed += !tx->repair.waits;
    tx->repair.waits = true;
    return true;
}

bool lli_tx_repair(struct lli_tx *tx, lli_ns now, struct lli_packet *packet)
{
    struct lli_history_slot *slot;
    lli_seq seq;

    if (!tx_repair_next(tx, &seq))
        return false;
    lli_pacer_fill(&tx->repair.pacer, now);
    slot = lli_history_slot(&tx->history, seq);
    if (tx->repair.pacer.tokens == 0 || tx_repair_is_limited(tx, now))
        return false;
    packet->data = lli_history_packet(&tx->history, seq);
    packet->size = slot->size;
    /*
     * On a connection the group is the other side, at the address exchanged then, whatever address a NAK has.
     */
    packet->to = slot->repair_to == LLI_REPAIR_TO_GROUP || tx->config.flow.awaits
                     ? NULL
                     : &tx->members.table[slot->repair_to].address;
    return true;
}

void lli_tx_repaired(struct lli_tx *tx, lli_ns now)
{
    lli_seq seq = 0;
    bool queued = lli_repair_peek(&tx->repair.queue, &seq);
    uint32_t size = lli_history_slot(&tx->history, seq)->size;

    (void)queued;
    assert(queued);
    (void)lli_pacer_take(&tx->repair.pacer, size);
    if (tx->config.repair_rate != 0)
        (void)lli_pacer_take(&tx->repair.limit, size);
    tx->repair.waits = false;
    tx->counters.repairs_multicast += lli_repair_pop(&tx->repair.queue, now) == LLI_REPAIR_TO_GROUP;
    tx->counters.packets_repaired++;
    lli_tx_inflight(tx, seq);
    lli_tx_count(tx, size);
}

lli_ns lli_tx_repair_ready_at(const struct lli_tx *tx)
{
    const lli_ns ready_at = lli_pacer_ready_at(&tx->repair.pacer);

    return tx->config.repair_rate == 0 ? ready_at : lli_max(ready_at, lli_pacer_ready_at(&tx->repair.limit));
}
