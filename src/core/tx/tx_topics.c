/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topics of a session: announced in its stream, and named in answer to queries (docs/protocol.md sections 3.1
 * and 8).
 */
#include "core/tx/tx_internal.h"

static int tx_topic_add(struct lli_tx *tx, const char *name, uint8_t flags, uint32_t *id)
{
    char bytes[LLI_WIRE_NAME_MAX];

    if (tx->topics.count == tx->config.topics_max)
        return LLM_ELIMIT;
    if (!lli_pack_announce(&tx->pack, tx->topics.count, bytes, lli_wire_put_name(bytes, name, flags),
                           lli_tx_busy(tx)))
        return LLM_EAGAIN;
    *id = tx->topics.count;
    tx->topics.flags[tx->topics.count] = flags;
    tx->topics.names[tx->topics.count++] = name;
    return LLM_OK;
}

int lli_tx_topic_add(struct lli_tx *tx, const char *name, uint32_t *id)
{
    return tx_topic_add(tx, name, 0, id);
}

int lli_tx_topic_add_transient(struct lli_tx *tx, const char *name, uint32_t *id)
{
    const int error = tx_topic_add(tx, name, LLI_WIRE_TOPIC_TRANSIENT, id);

    if (error == LLM_OK)
        lli_pack_transient(&tx->pack, *id);
    return error;
}

size_t lli_tx_build_topics(const struct lli_tx *tx, uint32_t first, uint8_t *buffer, size_t size)
{
    struct lli_wire_topics topics = {.session = tx->config.session, .total = tx->topics.count};
    size_t used = LLI_WIRE_TOPICS_HEAD;

    topics.first = first < tx->topics.count ? first : tx->topics.count;
    for (uint32_t id = topics.first; id < tx->topics.count; id++) {
        char bytes[LLI_WIRE_NAME_MAX];
        const size_t bytes_size = lli_wire_put_name(bytes, tx->topics.names[id], tx->topics.flags[id]);
        const size_t added = lli_wire_add_topic(buffer, used, size, bytes, bytes_size);

        if (added == 0)
            break;
        used = added;
        topics.count++;
    }
    return lli_wire_put_topics(buffer, &topics, used);
}
