/* SPDX-License-Identifier: Apache-2.0 */
/* How a transmitter keeps the last messages of topics, and sends them to receivers that join (section 12.3). */
#include "core/tx/tx_internal.h"

void lli_tx_keep(struct lli_tx *tx, struct lli_kept_topic *topic, struct lli_arena *memory)
{
    if (tx->keep.topics == NULL)
        lli_keep_init(&tx->keep, tx->config.topics_max, memory);
    lli_keep_add(&tx->keep, topic);
}

void lli_tx_kept(struct lli_tx *tx, struct lli_kept_topic *topic, const struct lli_pack_attributes *attributes,
                 const struct iovec *pieces, uint32_t size)
{
    lli_keep_put(topic, tx->pack.number - 1, attributes, pieces, size);
    tx->counters.messages_kept++;
}

static void tx_kept_due(struct lli_tx *tx, lli_ns at)
{
    tx->kept_at = tx->keep.waiting > 0 ? at : LLI_NEVER;
}

bool lli_tx_input_kept(struct lli_tx *tx, const struct lli_wire_join *join, lli_ns now)
{
    /* What was not sent yet comes as it is sent, whatever a request says. */
    const bool placed = lli_keep_ask(&tx->keep, join->receiver, join, lli_tx_lead_number(tx));

    tx_kept_due(tx, now);
    return placed;
}

/* Whether what is kept has to wait, and until when: behind repairs, and in the budget of those who join late. */
static bool tx_kept_waits(struct lli_tx *tx, lli_ns now, lli_ns *until)
{
    lli_seq seq;

    if (lli_repair_peek(&tx->repair, &seq)) {
        *until = lli_tx_repair_ready_at(tx);
        return true;
    }
    lli_pacer_fill(&tx->replay.pacer, now);
    *until = lli_pacer_ready_at(&tx->replay.pacer);
    return tx->replay.pacer.tokens == 0;
}

bool lli_tx_replay_kept(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    struct lli_wire_kept kept = {.session = tx->config.session, .next = tx->pack.number};
    size_t used;
    lli_ns at;

    if (tx->keep.waiting == 0)
        return false;
    if (tx_kept_waits(tx, now, &at)) {
        tx_kept_due(tx, at);
        lli_tx_replay_due(tx, tx->replay.fetching > 0 ? at : LLI_NEVER);
        return false;
    }
    size = (size_t)lli_min(size, tx->config.history.packet_max);
    used = lli_keep_next(&tx->keep, &kept, buffer, size, &tx->told);
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)used, .to = &tx->told};
    /* However little is in it: what it takes to find that out is paid for as well. */
    (void)lli_pacer_take(&tx->replay.pacer, size);
    tx->counters.kept_packets_sent++;
    lli_tx_count(tx, used);
    tx_kept_due(tx, now);
    lli_tx_replay_due(tx, tx->replay.fetching > 0 ? now : LLI_NEVER);
    return true;
}
