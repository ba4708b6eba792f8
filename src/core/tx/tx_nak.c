/* SPDX-License-Identifier: Apache-2.0 */
/* NAK handling at the transmitter (docs/protocol.md section 5.2). */
#include "core/tx/tx_internal.h"

/*
 * Time for which a repair to this receiver is under way: the receiver may be nearer than others, or late to
 * read its packets.
 */
static lli_ns tx_distance(const struct lli_tx *tx, uint32_t member)
{
    const lli_ns own = member == LLI_MEMBER_NONE ? 0 : tx->members.table[member].rtt;

    return own == 0 ? tx->rtt : lli_min(lli_max(tx->rtt, own), 2 * own);
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

/* Charges this packet to the budget for unconfirmed receivers; true if the budget is exhausted. */
static bool tx_is_used_up(struct lli_tx *tx, lli_seq seq)
{
    if (lli_pacer_take(&tx->unconfirmed, lli_history_slot(&tx->history, seq)->size))
        return false;
    tx->counters.nak_packets_unconfirmed++;
    return true;
}

/* Queues the packets [seq, end), all of which were sent before. */
static void tx_nak_packets(struct lli_tx *tx, lli_seq seq, lli_seq end, struct lli_tx_asker asker, lli_ns now,
                           struct tx_nak_result *result)
{
    const uint32_t member = asker.member;
    const lli_ns linger = lli_max(tx->config.repair_linger, tx_distance(tx, member));
    const lli_ns shared = 4 * lli_max(tx->config.repair_linger, tx->rtt);
    uint32_t to = member == LLI_MEMBER_NONE ? LLI_REPAIR_TO_GROUP : member;
    bool alone = member != LLI_MEMBER_NONE && tx->members.table[member].standing == LLI_STANDING_UNICAST;

    for (; seq < end; seq++) {
        if (seq < tx->history.next && lli_history_slot(&tx->history, seq)->unreliable) {
            lli_tx_unrepaired_add(&result->unrepaired, seq);
            continue;
        }
        if (!asker.confirmed && tx_is_used_up(tx, seq))
            continue;
        switch (lli_repair_request(&tx->repair, seq, to, now, linger, alone ? 0 : shared)) {
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

static void tx_nak_range(struct lli_tx *tx, const struct lli_wire_range *range, struct lli_tx_asker asker, lli_ns now,
                         struct tx_nak_result *result)
{
    lli_seq first = lli_seq_extend(tx->sent, range->first);
    lli_seq end = first + range->count;

    if (asker.member != LLI_MEMBER_NONE)
        tx->members.table[asker.member].asked += range->count - lli_tx_unreliable(tx, range);
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
    tx_nak_packets(tx, first, end, asker, now, result);
}

/*
 * Counts the packets that a NAK asks for. True: no answer but a notice, which is sent later so that such NAKs
 * cost little.
 */
static bool tx_is_shed(struct lli_tx *tx, const struct lli_wire_nak *nak, uint32_t member, lli_ns now)
{
    uint64_t packets = 0, unreliable = 0;
    bool shed;

    for (uint16_t i = 0; i < nak->count; i++) {
        packets += nak->ranges[i].count;
        unreliable += lli_tx_unreliable(tx, &nak->ranges[i]);
    }
    tx->counters.nak_packets += packets;
    tx->counters.nak_packets_unreliable += unreliable;
    if (member == LLI_MEMBER_NONE)
        return tx->slow.shedding;
    /* Asking for unreliable packets makes no receiver slow: it cannot know before it asks. */
    shed = unreliable > 0 && unreliable == packets ? lli_slow_heard(&tx->slow, &tx->members, member, now)
                                                   : lli_slow_nak(&tx->slow, &tx->members, member, packets - unreliable, now);
    lli_tx_look_soon(tx);
    return shed;
}

/*
 * Normalizes a NAK: each packet once, at most as many as the history can hold, none before the receiver's
 * reported `next`.
 */
static void tx_bound_nak(const struct lli_tx *tx, struct lli_wire_nak *nak, struct lli_tx_asker asker)
{
    const lli_seq low = asker.member == LLI_MEMBER_NONE ? 0 : tx->members.table[asker.member].next;
    const uint64_t most = asker.confirmed ? tx->history.slots_mask : TX_UNCONFIRMED_PACKETS;

    nak->count = lli_ranges_merge(nak->ranges, nak->count, tx->sent, low, most);
}

void lli_tx_input_nak(struct lli_tx *tx, struct lli_wire_nak *nak, lli_ns now)
{
    struct tx_nak_result result = {.queued = 0};
    const struct lli_tx_asker asker = lli_tx_asker(tx, nak->receiver, &nak->address, nak->token, now);

    tx->counters.naks_received++;
    tx_bound_nak(tx, nak, asker);
    if (tx_is_shed(tx, nak, asker.member, now)) {
        tx->counters.naks_ignored++;
        return;
    }
    lli_pacer_fill(&tx->unconfirmed, now);
    for (uint16_t i = 0; i < nak->count; i++)
        tx_nak_range(tx, &nak->ranges[i], asker, now, &result);
    /* An unconfirmed receiver gets repairs through the group only, and REJECT when it asks again with the token. */
    if (!asker.confirmed)
        return;
    if (result.gone_count > 0)
        lli_tx_reject(tx, &nak->address, LLI_WIRE_GONE, result.gone, result.gone_count);
    lli_tx_unrepaired_tell(tx, &nak->address, LLI_WIRE_UNREPAIRED, &result.unrepaired);
    /* Confirms repairs that are delayed to the group, so that other receivers suppress their NAKs (section 5.3). */
    if (result.queued > 0 && lli_tx_is_crowded(tx) && tx->repair_pacer.tokens == 0)
        lli_tx_reject(tx, NULL, LLI_WIRE_PENDING, nak->ranges, nak->count);
}
