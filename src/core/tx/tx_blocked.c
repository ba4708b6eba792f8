/* SPDX-License-Identifier: Apache-2.0 */
/* Packets blocked by flow control and rate limits. */
#include "core/tx/tx_session.h"

/*
 * Returns the first packet, at most end, that the pace does not allow to be sent; bytes: of the packets
 * before it.
 */
static lli_seq tx_paced_end(struct lli_tx *tx, lli_ns now, lli_seq end, uint64_t *bytes)
{
    lli_seq seq;

    lli_pacer_fill(&tx->flow.pacer, now);
    for (seq = tx->sent, *bytes = 0; seq < end && lli_flow_allows(&tx->flow, seq, *bytes); seq++)
        *bytes += lli_history_slot(&tx->history, seq)->size;
    return seq;
}

int lli_tx_ready_paced(struct lli_tx *tx, lli_ns now, int max)
{
    uint64_t bytes;

    return (int)(tx_paced_end(tx, now, lli_min(tx->sent + (unsigned)max, tx->history.next), &bytes) -
                 tx->sent);
}

bool lli_tx_may_leave(struct lli_tx *tx, lli_ns now)
{
    const lli_seq open = tx->history.next;
    uint64_t bytes = 0;

    if (!lli_pack_pending(&tx->pack) || open >= tx->flow.limit)
        return false;
    return !lli_tx_is_paced(tx) ||
           (tx_paced_end(tx, now, open, &bytes) == open && lli_flow_allows(&tx->flow, open, bytes));
}
