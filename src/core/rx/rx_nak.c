/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NAKs of a session: how far and when missing packets are requested, and the transmitter's REJECT
 * (docs/protocol.md sections 5.1 and 5.3). gap.c has the times of each packet.
 */
#include "core/rx/rx_internal.h"

#include <math.h>

/*
 * Packets are requested only as far as there is memory to buffer them, and at most this many beyond: a packet
 * that arrives in order needs no memory, but one that arrives after another loss is dropped and has to be
 * sent again. The number halves with every such drop and grows by one with every repair that arrives in
 * order.
 */
enum { RX_NAK_EXCESS_MAX = 16 };

/* The group's round trip counts as at most nak_retry_ns_max plus this many times the receiver's own. */
enum { RX_RTT_TIMES = 8 };

void lli_rx_nak_start(struct lli_rx *rx)
{
    rx->nak = (struct lli_rx_nak){.excess = RX_NAK_EXCESS_MAX};
}

/* -------------------------------------------------------------------------------------------------- times */

/* Round trip of the group, limited to a multiple of that of this receiver's own repairs (section 5.1). */
static lli_ns rx_group_rtt(const struct lli_rx *rx)
{
    const lli_ns most = rx->nak.rtt == 0 ? LLI_NEVER : rx->config->nak_retry_max + RX_RTT_TIMES * rx->nak.rtt;

    return lli_min(rx->heartbeat.rtt_ns, most);
}

lli_ns lli_rx_rtt(const struct lli_rx *rx)
{
    return lli_max(rx_group_rtt(rx), rx->nak.rtt);
}

/*
 * Delay before the first NAK of a gap. With many receivers the back-off is drawn from a truncated exponential
 * distribution over a few round trips, so that one of the receivers that share a loss is likely to be clearly
 * the first (Nonnenmacher and Biersack, "Scalable feedback for large groups", 1999; docs/protocol.md section
 * 5.1).
 */
static lli_ns rx_nak_delay(struct lli_rx *rx)
{
    lli_ns range = lli_max(rx->config->nak_backoff_min, 4 * rx_group_rtt(rx));
    double receivers = rx->heartbeat.receivers;
    double lambda, uniform;

    if (!lli_rx_is_crowded(rx))
        return rx->config->nak_delay;
    lambda = log(receivers) + 1;
    uniform = (double)(lli_random(rx->random) >> 11) * 0x1p-53;
    return rx->config->nak_delay + (lli_ns)((double)range / lambda * log1p(uniform * (exp(lambda) - 1)));
}

void lli_rx_extend(struct lli_rx *rx, lli_seq end, lli_ns now)
{
    uint64_t missing = rx->gap.missing;
    lli_ns wait;

    if (end <= rx->gap.end)
        return;
    if (lli_rx_is_replaying(rx)) {
        /* The past is not missing: it has yet to be fetched. */
        lli_gap_extend(&rx->gap, lli_min(end, rx->replay.end), now, LLI_NEVER);
        missing = rx->gap.missing;
    }
    wait = rx_nak_delay(rx);
    wait += lli_rx_line_wait(rx, end);
    lli_gap_extend(&rx->gap, end, now, lli_max(now + wait, rx->nak.delayed_until));
    rx->counters->packets_missed += rx->gap.missing - missing;
}

void lli_rx_passed(struct lli_rx *rx, lli_seq from, lli_seq end, lli_ns now)
{
    if (lli_rx_is_replaying(rx))
        from = lli_max(from, rx->replay.end);
    lli_gap_passed(&rx->gap, from, end, lli_max(now + rx_nak_delay(rx), rx->nak.delayed_until));
    lli_rx_need_service(rx);
}

/* Notes the arrival of a missing packet and, if it was requested, the time that took. */
void lli_rx_note_repair(struct lli_rx *rx, lli_seq seq, lli_ns now)
{
    const struct lli_gap_slot *slot = &rx->gap.slots[seq & rx->gap.mask];
    const bool recalled = lli_rx_recalled(rx, seq, now);
    lli_ns elapsed = now - slot->since;

    if (lli_rx_is_replaying(rx) && seq < rx->replay.end) {
        lli_rx_replayed(rx, seq, now);
        return;
    }
    if (recalled || slot->tries == 0)
        return;
    rx->counters->packets_recovered++;
    /* A queue at the transmitter, or a clock that jumped, must not delay NAKs for long. */
    elapsed = lli_min(elapsed, rx->config->nak_retry_max);
    /* Only for a packet requested once is it known which NAK the repair answers (Karn's rule). */
    if (slot->tries == 1)
        rx->nak.rtt = rx->nak.rtt == 0 ? elapsed : (rx->nak.rtt * 7 + elapsed) / 8;
}

/* ----------------------------------------------------------------------------------------------- requests */

void lli_rx_delay_naks(struct lli_rx *rx, lli_ns until)
{
    rx->nak.delayed_until = until;
}

void lli_rx_nak_less(struct lli_rx *rx)
{
    rx->nak.excess = (uint32_t)lli_max(rx->nak.excess / 2, 1);
}

void lli_rx_nak_more(struct lli_rx *rx)
{
    rx->nak.excess = (uint32_t)lli_min(rx->nak.excess + 1, RX_NAK_EXCESS_MAX);
}

/* Chooses the line of a NAK of this many ranges, and its token. */
static void rx_nak_line(struct lli_rx *rx, struct lli_wire_nak *nak, int count)
{
    const struct lli_wire_range *last = &nak->ranges[count - 1];
    const lli_seq first = lli_seq_extend(rx->gap.next, nak->ranges[0].first);

    lli_rx_line_for_nak(rx, rx->gap.slots[first & rx->gap.mask].tries);
    lli_rx_line_asked(rx, lli_seq_extend(rx->gap.next, last->first) + last->count);
    nak->token = lli_rx_token(rx);
}

bool lli_rx_control_nak(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    const struct lli_gap_retry retry = {
        .rtt = lli_rx_rtt(rx),
        .retry_min = rx->config->nak_retry_min,
        .retry_max = rx->config->nak_retry_max,
        .most = lli_rx_room(rx) + rx->nak.excess,
        .from = lli_max(lli_rx_is_replaying(rx) ? rx->replay.end : 0,
                        lli_rx_is_gone_for_store(rx) ? rx->loss.gone_below : 0),
    };
    struct lli_wire_nak nak = {
        .session = rx->session,
        .receiver = rx->config->receiver,
        .address = rx->config->address,
        .token = lli_rx_token(rx),
    };
    int count = lli_gap_due(&rx->gap, now, &retry, rx->random, nak.ranges, lli_rx_ranges_max(rx));

    if (count == 0)
        return false;
    if (rx->config->lines > 1)
        rx_nak_line(rx, &nak, count);
    nak.count = (uint16_t)count;
    for (int i = 0; i < count; i++)
        rx->counters->nak_packets += nak.ranges[i].count;
    rx->counters->naks_sent++;
    rx->nak.sent++;
    return lli_rx_packet(rx, buffer, lli_wire_put_nak(buffer, &nak), packet);
}

/* ------------------------------------------------------------------------------------------------- REJECT */

/* UNREPAIRED: marks packets that were requested by NAK or FETCH as not repaired; others are not affected. */
static void rx_rejected(struct lli_rx *rx, const struct lli_wire_range *range, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq first = lli_seq_extend(gap->next, range->first),
                  end = lli_min(first + range->count, gap->end);

    for (lli_seq seq = lli_max(first, gap->next); seq < end; seq++)
        if (gap->slots[seq & gap->mask].tries > 0 || (lli_rx_is_replaying(rx) && seq < rx->replay.fetched))
            lli_rx_unrepaired(rx, seq, seq + 1, now);
}

/*
 * PASSED: marks packets that were fetched from the past as skipped; they are no loss, so this is limited to
 * packets sent before this receiver joined.
 */
static void rx_passed(struct lli_rx *rx, const struct lli_wire_range *range, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq first = lli_seq_extend(gap->next, range->first),
                  end = lli_min(first + range->count, gap->end);
    const lli_seq past = lli_rx_is_replaying(rx) ? lli_min(rx->replay.fetched, rx->join.live_seq) : 0;

    for (lli_seq seq = lli_max(first, gap->next); seq < lli_min(end, past); seq++) {
        struct lli_gap_slot *slot = &gap->slots[seq & gap->mask];

        slot->passed |= !slot->unrepaired && !lli_gap_is_present(gap, seq);
        lli_rx_unrepaired(rx, seq, seq + 1, now);
    }
}

void lli_rx_input_reject(struct lli_rx *rx, const struct lli_wire_reject *reject, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq trail = lli_min(reject->trail, lli_rx_known(rx));

    if (reject->reason == LLI_WIRE_PENDING) {
        rx->counters->naks_suppressed++;
        for (uint16_t i = 0; i < reject->count; i++)
            lli_gap_delay(&rx->gap, lli_seq_extend(gap->next, reject->ranges[i].first),
                          reject->ranges[i].count,
                          now + lli_max(rx->config->nak_retry_min, 2 * lli_rx_rtt(rx)));
        return;
    }
    rx->counters->rejects_received++;
    if (reject->reason == LLI_WIRE_UNREPAIRED || reject->reason == LLI_WIRE_PASSED) {
        for (uint16_t i = 0; i < reject->count; i++)
            if (reject->reason == LLI_WIRE_PASSED)
                rx_passed(rx, &reject->ranges[i], now);
            else
                rx_rejected(rx, &reject->ranges[i], now);
        return;
    }
    /* GONE counts only for packets that were requested, and up to those known to exist. */
    if (reject->reason != LLI_WIRE_GONE || gap->missing == 0 || trail <= rx->loss.gone_below ||
        reject->trail > lli_max(rx->heartbeat.lead, gap->end) ||
        (gap->slots[gap->next & gap->mask].tries == 0 && !lli_rx_is_gone_for_store(rx) &&
         !(lli_rx_is_replaying(rx) && gap->next < rx->replay.fetched)))
        return;
    lli_rx_give_up(rx, trail, LLM_REASON_GONE);
    /* A packet that a store may have is not lost, however long it takes. */
    if (rx->heartbeat.lead <= gap->next + lli_gap_window(gap) || lli_rx_is_recalling(rx))
        return;
    /*
     * Lag of more than a window. The first time, continue with the oldest packets that the transmitter still
     * has. If those are gone as well before this receiver has caught up, chasing is hopeless: continue with
     * live data.
     */
    if (rx->pending.lag & LLI_RX_CHASED)
        lli_rx_give_up(rx, lli_rx_known(rx), LLM_REASON_OVERRUN);
    lli_rx_set_lag(rx, rx->pending.lag | LLI_RX_CHASED);
}
