/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Last value cache at the transmitter: stores the last messages of topics and sends them to joining receivers
 * (section 12.3).
 */
#include "core/tx/tx_internal.h"

void lli_tx_lvc_begin(struct lli_tx *tx, struct lli_lvc_topic *topic, struct lli_arena *memory)
{
    if (tx->lvc.topics == NULL)
        lli_lvc_init(&tx->lvc, tx->config.topics_max, memory);
    lli_lvc_add(&tx->lvc, topic);
}

void lli_tx_lvc_add(struct lli_tx *tx, struct lli_lvc_topic *topic,
                    const struct lli_pack_attributes *attributes, const struct iovec *pieces, uint32_t size)
{
    lli_lvc_put(topic, tx->pack.number - 1, attributes, pieces, size);
    tx->counters.messages_cached++;
}

bool lli_tx_input_lvc(struct lli_tx *tx, const struct lli_wire_join *join, lli_ns now)
{
    /* Messages not sent yet arrive in the stream, whatever number a request has. */
    const bool placed = lli_lvc_join(&tx->lvc, join->receiver, join, lli_tx_lead_number(tx));

    lli_tx_lvc_due(tx, now);
    return placed;
}

/* True if LVC packets have to wait, and until when: repairs go first, and they share the replay budget. */
static bool tx_lvc_waits(struct lli_tx *tx, lli_ns now, lli_ns *until)
{
    lli_seq seq;

    if (lli_repair_peek(&tx->repair.queue, &seq)) {
        *until = lli_tx_repair_ready_at(tx);
        return true;
    }
    lli_pacer_fill(&tx->replay.pacer, now);
    *until = lli_pacer_ready_at(&tx->replay.pacer);
    return tx->replay.pacer.tokens == 0;
}

bool lli_tx_replay_lvc(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    struct lli_wire_lvc header = {.session = tx->config.session, .next = tx->pack.number};
    struct lli_wire_address to;
    size_t used;
    lli_ns at;

    if (tx->lvc.waiting == 0)
        return false;
    if (tx_lvc_waits(tx, now, &at)) {
        lli_tx_lvc_due(tx, at);
        lli_tx_replay_due(tx, tx->replay.fetching > 0 ? at : LLI_NEVER);
        return false;
    }
    size = (size_t)lli_min(size, tx->config.history.packet_max);
    used = lli_lvc_next(&tx->lvc, &header, buffer, size, &to);
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)used, .to = lli_tx_join_to(tx, &to)};
    /* Charges a full packet however little it holds: scanning for its contents costs time as well. */
    (void)lli_pacer_take(&tx->replay.pacer, size);
    tx->counters.cache_packets_sent++;
    lli_tx_count(tx, used);
    lli_tx_lvc_due(tx, now);
    lli_tx_replay_due(tx, tx->replay.fetching > 0 ? now : LLI_NEVER);
    return true;
}
