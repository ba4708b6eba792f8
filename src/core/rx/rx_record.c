/* SPDX-License-Identifier: Apache-2.0 */
/* Packets in order for whoever records them, byte for byte, each before its messages. */
#include "core/rx/rx_internal.h"

void lli_rx_record_start(struct lli_rx *rx)
{
    rx->record = (struct lli_rx_record){.bytes = NULL};
    if (rx->config->records)
        lli_rx_set_slow_path(rx, LLI_RX_RECORDING);
}

bool lli_rx_next_record(struct lli_rx *rx, struct lli_item *item)
{
    const struct lli_rx_record *record = &rx->record;
    const uint64_t next = rx->unpack.number;
    const bool lost = rx->loss.run > 0;
    const bool is_protected = rx->config->records_protected;

    lli_rx_clear_news(rx, LLI_RX_RECORD);
    if (record->bytes == NULL)
        return false;
    item->kind = LLI_ITEM_PACKET;
    item->packet = (struct lli_rx_recorded){
        .bytes = is_protected ? record->bytes + record->size : record->bytes,
        .size = is_protected ? record->size + LLI_PROTECT_DATA : record->size,
        .seq = record->seq,
        .first = lost ? rx->loss.run_first : record->seq,
        .reason = lost ? lli_rx_loss_reason(rx) : LLM_REASON_NONE,
        .message = next - rx->unpack.assembling,
        .message_next = lli_seq_extend(next, lli_wire_number(record->bytes)),
    };
    rx->record.bytes = NULL;
    return true;
}

void lli_rx_stall(struct lli_rx *rx, bool stalled)
{
    if (stalled)
        lli_rx_set_slow_path(rx, LLI_RX_STALLED);
    else
        lli_rx_clear_slow_path(rx, LLI_RX_STALLED);
    lli_rx_need_service(rx);
}
