/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plausibility checks. Packets are not authenticated: each is checked against everything known, so that a
 * forged one does limited damage (docs/protocol.md section 4.4). The next genuine heartbeat, at most one
 * interval later, corrects a forged one: heartbeats that contradict delivered data are ignored, timers set by
 * one are set anew by the next, and packets not covered by two heartbeats in a row are dropped.
 */
#include "core/rx/rx_internal.h"

/* Maximum lag in which a receiver can name missing packets: low halves of packet numbers distinguish 2^31. */
#define TRUST_REACH ((lli_seq)1 << 30)

/* Upper limits of receivers, heartbeat interval and round trip in genuine heartbeats. */
enum { TRUST_RECEIVERS_MAX = 1 << 20, TRUST_INTERVAL_US_MAX = 10000000, TRUST_RTT_NS_MAX = 1000000000 };

/*
 * A data packet this far beyond all known ones is believed only after another one near it: TRUST_JUMP
 * packets, or one part in TRUST_JUMP_WINDOW of the window if that is more.
 */
enum { TRUST_JUMP = 128, TRUST_JUMP_WINDOW = 16 };

void lli_rx_trust_start(struct lli_rx *rx)
{
    rx->trust = (struct lli_rx_trust){.receded_at = LLI_NEVER, .contradicted_at = LLI_NEVER};
}

/* ------------------------------------------------------------------------------------------ heartbeats */

/*
 * True if the messages announced by a heartbeat could be in the packets that it announces, as far as is known
 * now.
 */
static bool trust_messages(const struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq known = gap->next - lli_min(gap->next, rx->loss.run);

    if (rx->pending.slow_path & LLI_RX_LATEST || rx->loss.passed || heartbeat->lead < gap->next)
        return true;
    return heartbeat->messages <= rx->unpack.number + (heartbeat->lead - known) * LLI_UNPACK_PACKET_MESSAGES;
}

static bool trust_is_credible(const struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat)
{
    const struct lli_gap *gap = &rx->gap;

    if (rx->state != LLI_RX_LIVE)
        return true;
    if (heartbeat->lead > gap->next && heartbeat->lead - gap->next > TRUST_REACH)
        return false;
    if (heartbeat->flags & LLI_WIRE_HEARTBEAT_END && heartbeat->lead < gap->next)
        return false;
    return trust_messages(rx, heartbeat);
}

bool lli_rx_believes(struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat, lli_ns now)
{
    if (trust_is_credible(rx, heartbeat)) {
        rx->trust.contradicted_at = LLI_NEVER;
        return true;
    }
    rx->counters->heartbeats_implausible++;
    rx->trust.contradicted_at = lli_min(rx->trust.contradicted_at, now);
    /* A genuine heartbeat would have contradicted a forged one by now. */
    if (now < rx->trust.contradicted_at + lli_rx_patience(rx))
        return false;
    rx->trust.contradicted_at = LLI_NEVER;
    /* The heartbeats refused before agree with it. */
    lli_rx_heartbeat_agreed(rx, heartbeat);
    if (heartbeat->lead > rx->gap.next && heartbeat->lead - rx->gap.next > TRUST_REACH)
        lli_rx_give_up(rx, heartbeat->lead, LLM_REASON_OVERRUN);
    return true;
}

uint64_t lli_rx_number_max(const struct lli_rx *rx)
{
    uint64_t most = UINT64_MAX;

    if (rx->heartbeat.lead >= rx->gap.next)
        most = rx->heartbeat.messages;
    if (rx->heard.lead_before >= rx->gap.next)
        most = lli_min(most, rx->heard.messages_before);
    return most;
}

bool lli_rx_is_confirmed(const struct lli_rx *rx)
{
    const struct lli_gap *gap = &rx->gap;

    if (gap->next < lli_rx_known_by_data(rx) || (lli_rx_is_replaying(rx) && gap->next < rx->join.live_seq))
        return true;
    return lli_gap_first_present(gap) + 1 < gap->received;
}

void lli_rx_clamp(struct lli_wire_heartbeat *heartbeat)
{
    heartbeat->receivers = (uint32_t)lli_min(heartbeat->receivers, TRUST_RECEIVERS_MAX);
    heartbeat->interval_us = (uint32_t)lli_min(heartbeat->interval_us, TRUST_INTERVAL_US_MAX);
    heartbeat->rtt_ns = (uint32_t)lli_min(heartbeat->rtt_ns, TRUST_RTT_NS_MAX);
}

void lli_rx_replan(struct lli_rx *rx, const struct lli_wire_heartbeat *before, lli_ns now)
{
    const struct lli_rx_config *config = rx->config;
    const struct lli_wire_heartbeat *heartbeat = &rx->heartbeat;
    const lli_seq from = lli_rx_is_replaying(rx) ? rx->replay.end : rx->gap.next;
    lli_ns wait;

    lli_rx_learn_less(rx);
    if (heartbeat->receivers < before->receivers && rx->state == LLI_RX_LIVE)
        lli_rx_report_at(
            rx, lli_min(rx->report.at, now + config->status * lli_max(1, heartbeat->receivers / 10)));
    if (rx->gap.missing == 0 ||
        (heartbeat->receivers >= before->receivers && heartbeat->rtt_ns >= before->rtt_ns))
        return;
    wait = config->nak_delay +
           lli_max(lli_max(config->nak_backoff_min, config->nak_retry_max), 4 * lli_rx_rtt(rx));
    lli_gap_hasten(&rx->gap, from, lli_max(now + wait, rx->nak.delayed_until));
}

/* Drops buffered packets from `end` on, which do not exist. */
static void trust_cut(struct lli_rx *rx, lli_seq end)
{
    for (lli_seq seq = end; seq < rx->gap.received; seq++)
        if (lli_gap_is_present(&rx->gap, seq)) {
            lli_rx_give_back(rx, *lli_rx_cell(rx, seq));
            if (lli_rx_as_it_arrives(rx))
                lli_rx_unordered_drop(rx, seq);
        }
    rx->counters->packets_implausible += lli_gap_cut(&rx->gap, end);
}

void lli_rx_cover(struct lli_rx *rx, lli_ns now)
{
    const lli_seq lead = rx->heartbeat.lead, replay_end = rx->replay.end;
    lli_seq end;

    /*
     * Packets dropped because they arrived too early may not exist. Those that do are requested like live
     * packets.
     */
    if (lli_rx_is_replaying(rx))
        lli_rx_replay_limit(rx, lead);
    if (rx->replay.end < replay_end)
        lli_gap_hasten(&rx->gap, rx->replay.end,
                       lli_max(now + rx->config->nak_retry_max, rx->nak.delayed_until));
    end = lli_max(lli_rx_is_replaying(rx) ? lli_max(lead, rx->replay.end) : lead, rx->gap.next);
    lli_gap_retract(&rx->gap, end);
    if (rx->trust.beyond > end)
        trust_cut(rx, end);
    /* Later packets may have overtaken one heartbeat; hardly two. */
    rx->trust.beyond = rx->gap.received > end ? rx->gap.received : 0;
    if (rx->unpack.broken && !(rx->pending.slow_path & LLI_RX_LATEST))
        lli_unpack_allow(&rx->unpack, 0, lli_rx_number_max(rx));
}

/* Messages before this one were delivered; later ones were at most reported lost. */
static uint64_t trust_delivered(const struct lli_rx *rx)
{
    const bool reported = rx->loss.reported_first < rx->loss.reported_end &&
                          rx->unpack.number == rx->loss.reported_end && !rx->unpack.assembling;

    return reported ? rx->loss.reported_first : lli_rx_delivered(rx);
}

/* Continues with packet `next`; heartbeats supply the number of its first message. */
static void trust_go_back(struct lli_rx *rx, lli_seq next, uint64_t number, lli_ns now)
{
    /* Messages reported lost but never sent are sent from here on; so is one of which only a part had come. */
    const uint64_t first = lli_min(lli_rx_delivered(rx), number);

    rx->counters->streams_receded++;
    lli_rx_drop_packets(rx);
    lli_rx_unordered_reset(rx);
    lli_gap_reset(&rx->gap, next);
    lli_unpack_reset(&rx->unpack, first);
    lli_unpack_break(&rx->unpack);
    lli_unpack_allow(&rx->unpack, UINT32_MAX, number);
    lli_rx_acknowledge_from(rx, lli_min(rx->report.acknowledged_from, number),
                            lli_min(rx->report.acknowledged, number));
    lli_rx_forget_losses(rx);
    rx->trust.beyond = rx->trust.jumped = 0;
    lli_rx_report_from(rx, next);
    lli_rx_status_soon(rx, now);
}

void lli_rx_recede(struct lli_rx *rx, lli_ns now)
{
    const bool latest = rx->heartbeat.lead >= rx->heard.lead_before;
    const lli_seq lead = latest ? rx->heartbeat.lead : rx->heard.lead_before;
    const uint64_t messages = latest ? rx->heartbeat.messages : rx->heard.messages_before;
    const bool numbered = lead >= rx->gap.next; /* the packets exist; check the messages */

    if (lli_rx_is_replaying(rx) || rx->pending.slow_path & LLI_RX_LATEST ||
        rx->loss.end_reason != LLM_REASON_NONE || (numbered && messages >= lli_rx_delivered(rx))) {
        rx->trust.receded_at = LLI_NEVER;
    } else if (rx->trust.receded_at == LLI_NEVER ||
               (lead >= rx->trust.receded_next && messages >= rx->trust.receded_number)) {
        rx->trust.receded_at = now;
        rx->trust.receded_next = rx->gap.next;
        rx->trust.receded_number = lli_rx_delivered(rx);
    } else if (now >= rx->trust.receded_at + lli_rx_patience(rx) &&
               (numbered || messages >= trust_delivered(rx))) {
        /* If neither holds, old heartbeats were replayed, or packets were forged in order. */
        rx->trust.receded_at = LLI_NEVER;
        trust_go_back(rx, lead, messages, now);
    }
}

/* ------------------------------------------------------------------------------------------------ data */

bool lli_rx_is_jump(struct lli_rx *rx, lli_seq seq)
{
    const lli_seq other = rx->trust.jumped,
                  jump = lli_max(TRUST_JUMP, lli_gap_window(&rx->gap) / TRUST_JUMP_WINDOW);

    if (seq < rx->gap.end + jump || seq < rx->heartbeat.lead)
        return false;
    if (other != seq && other < seq + jump && seq < other + jump)
        return false;
    rx->trust.jumped = seq;
    rx->counters->packets_implausible++;
    return true;
}
