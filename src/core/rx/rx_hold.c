/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that are buffered until their transmitter sealed them (docs/protocol.md section 14.8). */
#include "core/rx/rx_internal.h"

void lli_rx_hold_start(struct lli_rx *rx)
{
    if (rx->config->seal_state != NULL)
        lli_rx_set_slow_path(rx, LLI_RX_HOLDING);
}

static enum lli_seal_state hold_state(const struct lli_rx *rx, lli_seq seq)
{
    return rx->config->seal_state(rx->config->seals, rx->session, seq);
}

bool lli_rx_is_unsealed(const struct lli_rx *rx)
{
    /* A packet that the transmitter has not announced is a forged one: its own follows. */
    return rx->gap.next < lli_rx_known(rx) && hold_state(rx, rx->gap.next) == LLI_SEAL_REFUSED;
}

/*
 * Drops the packets from the next one on that are not the transmitter's, up to one of another state, and requests them:
 * of a range with one that was forged it is not known which.
 */
static void hold_drop(struct lli_rx *rx, lli_ns now)
{
    const enum lli_seal_state state = hold_state(rx, rx->gap.next);
    const lli_ns nak_at = now + lli_max(rx->config->nak_retry_min, 2 * lli_rx_rtt(rx));

    for (lli_seq seq = rx->gap.next;
         seq < rx->gap.end && lli_gap_is_present(&rx->gap, seq) && hold_state(rx, seq) == state; seq++) {
        lli_rx_give_back(rx, *lli_rx_cell(rx, seq));
        lli_gap_forget(&rx->gap, seq, now, nak_at);
    }
    lli_rx_need_service(rx);
}

bool lli_rx_holds(struct lli_rx *rx, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;

    if (gap->next == gap->end || !lli_gap_is_present(gap, gap->next))
        return false;
    switch (hold_state(rx, gap->next)) {
    case LLI_SEAL_VERIFIED:
        return false;
    case LLI_SEAL_WAITING:
        /* Messages of the session that continues the stream may not come before these. */
        if (rx->loss.end_reason != LLM_REASON_SUPERSEDED)
            return true;
        break;
    case LLI_SEAL_NONE:
    case LLI_SEAL_REFUSED:
        break;
    }
    hold_drop(rx, now);
    return false;
}
