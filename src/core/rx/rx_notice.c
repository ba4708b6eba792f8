/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service that the transmitter gives this receiver: notices of its standing (docs/protocol.md section 7.2),
 * and reasons for reduced service.
 */
#include "core/flow/standing.h"
#include "core/rx/rx_internal.h"

/*
 * Maximum time by which a notice is overtaken by a newer one. It also limits how long a forged one suppresses
 * others.
 */
#define RX_OVERTAKEN ((lli_ns)1000000000)

void lli_rx_standing_start(struct lli_rx *rx)
{
    rx->standing = (struct lli_rx_standing){.rejoin_at = LLI_NEVER};
}

/*
 * A suspension gives up packets already requested, so a forged one costs no more than a REJECT; later losses
 * need another notice.
 */
static void rx_suspended(struct lli_rx *rx, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq lead = lli_min(rx->standing.notice.lead, lli_rx_known(rx));
    const bool requests = lli_rx_is_fetching(rx) || rx->pending.slow_path & LLI_RX_LATEST;
    const bool requested = requests ? rx->replay.tries > 0 : gap->slots[gap->next & gap->mask].tries > 0;

    /* Silence: the notice went to a receiver that was not heard, and which is served again when it is. */
    if (rx->standing.notice.threshold == LLM_THRESHOLD_SILENCE)
        return;
    lli_rx_delay_naks(rx, now + rx->config->nak_retry_max);
    if (rx->pending.slow_path & LLI_RX_LATEST && requested)
        lli_rx_lvc_lose(rx, LLM_REASON_SUSPENDED);
    if (gap->missing == 0 || lead <= rx->loss.gone_below || !requested)
        return;
    lli_rx_give_up(rx, lead, LLM_REASON_SUSPENDED);
}

void lli_rx_input_notice(struct lli_rx *rx, const struct lli_wire_notice *notice, lli_ns now)
{
    /* A forger has to know this receiver's identity as well, which is in no packet to the group. */
    if (notice->receiver != rx->config->receiver) {
        rx->counters->control_foreign++;
        return;
    }
    rx->counters->notices_received++;
    /* A notice may be a probe, so a report answers it. */
    lli_rx_report_at(rx, now);
    if (notice->decided_at < rx->standing.notice.decided_at &&
        rx->standing.notice.decided_at - notice->decided_at < RX_OVERTAKEN)
        return;
    if (notice->standing != rx->standing.notice.standing ||
        notice->threshold != rx->standing.notice.threshold)
        lli_rx_set_news(rx, LLI_RX_STANDING);
    rx->standing.notice = *notice;
    if (notice->standing == LLI_STANDING_SUSPENDED)
        rx_suspended(rx, now);
    if (notice->standing != LLI_STANDING_EXPELLED)
        return;
    lli_rx_end(rx, LLM_REASON_EXPELLED);
    rx->standing.rejoin_at = notice->rejoin_ms == 0 ? LLI_NEVER : now + (lli_ns)notice->rejoin_ms * 1000000;
}

/* Event for a change of this receiver's standing at the transmitter. */
bool lli_rx_standing_item(struct lli_rx *rx, struct lli_item *item)
{
    static const enum llm_event_kind kinds[] = {LLM_EVENT_READMITTED, LLM_EVENT_WARNED,
                                                LLM_EVENT_UNICAST_ONLY, LLM_EVENT_SUSPENDED,
                                                LLM_EVENT_EXPELLED};
    const struct lli_wire_notice *notice = &rx->standing.notice;

    lli_rx_clear_news(rx, LLI_RX_STANDING);
    (void)lli_rx_event(rx, kinds[notice->standing], item);
    rx->standing.verdict = (struct llm_verdict){
        .receiver = notice->receiver,
        .threshold = (enum llm_threshold)notice->threshold,
        .value = notice->value,
        .limit = notice->limit,
        .naks_per_s = notice->naks_per_s,
        .nak_ppm = notice->nak_ppm,
        .lag_packets = notice->lag_packets,
        .lag_bytes = notice->threshold == LLM_THRESHOLD_LAG_BYTES ? notice->value : 0,
        .ack_ns = notice->threshold == LLM_THRESHOLD_ACK_TIME ? notice->value : 0,
        .lag_ns = notice->lag_ns,
        .silent_ns = notice->silent_ns,
        .rejoin_ns = notice->standing == LLI_STANDING_EXPELLED ? (uint64_t)notice->rejoin_ms * 1000000 : 0,
        .receivers = notice->receivers,
        .suffering = notice->suffering,
    };
    item->event.verdict = &rx->standing.verdict;
    return true;
}

void lli_rx_input_crowded(struct lli_rx *rx, const struct lli_wire_join *join)
{
    if (join->reason != LLI_WIRE_JOIN_FULL && join->reason != LLI_WIRE_JOIN_BUSY)
        return;
    rx->standing.crowded |= (uint8_t)(1u << join->reason);
    rx->standing.crowd = join->value;
    rx->counters->crowded++;
}

unsigned lli_rx_take_crowded(struct lli_rx *rx)
{
    const unsigned news = rx->standing.crowded & ~(unsigned)rx->standing.crowded_reported;

    rx->standing.crowded_reported = rx->standing.crowded;
    return news;
}
