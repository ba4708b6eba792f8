/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to requests for packets of unreliable topics (docs/protocol.md section 6). */
#include "core/tx/tx_internal.h"

uint32_t lli_tx_unreliable(const struct lli_tx *tx, const struct lli_wire_range *range)
{
    const lli_seq first = lli_seq_extend(tx->sent, range->first);

    return lli_history_unreliable(&tx->history, lli_max(first, tx->history.trail), lli_min(first + range->count, tx->sent));
}

void lli_tx_unrepaired_add(struct lli_tx_unrepaired *unrepaired, lli_seq seq)
{
    struct lli_wire_range *end = &unrepaired->ranges[unrepaired->count];

    if (unrepaired->count > 0 && end[-1].first + end[-1].count == (uint32_t)seq)
        end[-1].count++;
    else if (unrepaired->count < LLI_WIRE_RANGES_MAX)
        unrepaired->ranges[unrepaired->count++] = (struct lli_wire_range){(uint32_t)seq, 1};
}

void lli_tx_unrepaired_tell(struct lli_tx *tx, const struct lli_wire_address *to, enum lli_wire_reason reason,
                            const struct lli_tx_unrepaired *unrepaired)
{
    if (unrepaired->count > 0)
        lli_tx_reject(tx, to, reason, unrepaired->ranges, unrepaired->count);
}
