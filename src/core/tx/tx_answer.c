/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rejects, confirmations of NAKs and answers to queries: queued until the transport has room
 * (docs/protocol.md sections 5.3, 6 and 8).
 */
#include "core/tx/tx_internal.h"

/* Returns a free entry for an answer, or NULL. */
static struct lli_tx_answer *tx_answer(struct lli_tx *tx, const struct lli_wire_address *to)
{
    struct lli_tx_answer *answer;

    if (tx->answers.tail - tx->answers.head == LLI_TX_ANSWERS) {
        tx->counters.answers_dropped++;
        return NULL;
    }
    answer = &tx->answers.queue[tx->answers.tail++ % LLI_TX_ANSWERS];
    answer->is_topics = false;
    answer->to_group = to == NULL;
    if (to != NULL)
        answer->to = *to;
    answer->reject = (struct lli_wire_reject){.session = tx->config.session, .trail = tx->history.trail};
    return answer;
}

void lli_tx_reject(struct lli_tx *tx, const struct lli_wire_address *to, enum lli_wire_reason reason,
                   const struct lli_wire_range *ranges, uint16_t count)
{
    struct lli_tx_answer *answer = tx_answer(tx, to);

    if (answer == NULL)
        return;
    answer->reject.reason = (uint8_t)reason;
    answer->reject.count = count;
    memcpy(answer->reject.ranges, ranges, count * sizeof *ranges);
}

void lli_tx_unrepaired_add(struct lli_tx_unrepaired *unrepaired, lli_seq seq)
{
    struct lli_wire_range *end = &unrepaired->ranges[unrepaired->count];

    if (unrepaired->count > 0 && end[-1].first + end[-1].count == (uint32_t)seq)
        end[-1].count++;
    else if (unrepaired->count < LLI_WIRE_RANGES_MAX)
        unrepaired->ranges[unrepaired->count++] = (struct lli_wire_range){(uint32_t)seq, 1};
}

void lli_tx_unrepaired_send(struct lli_tx *tx, const struct lli_wire_address *to, enum lli_wire_reason reason,
                            const struct lli_tx_unrepaired *unrepaired)
{
    if (unrepaired->count > 0)
        lli_tx_reject(tx, to, reason, unrepaired->ranges, unrepaired->count);
}

void lli_tx_input_query(struct lli_tx *tx, const struct lli_wire_query *query)
{
    struct lli_tx_answer *answer;

    tx->counters.queries_received++;
    /* Names take far more bytes than the query: the address has to be confirmed. */
    if (!lli_tx_is_confirmed(tx, query->receiver, &query->address, query->token))
        return;
    answer = tx_answer(tx, &query->address);
    if (answer == NULL)
        return;
    answer->is_topics = true;
    answer->topics_first = query->first;
}

bool lli_tx_control_answer(struct lli_tx *tx, uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    const struct lli_tx_answer *answer;
    size_t used;

    if (tx->answers.head == tx->answers.tail)
        return false;
    answer = &tx->answers.queue[tx->answers.head++ % LLI_TX_ANSWERS];
    if (answer->is_topics) {
        used = lli_tx_build_topics(tx, answer->topics_first, buffer, size);
        tx->counters.topics_sent++;
    } else {
        used = lli_wire_put_reject(buffer, &answer->reject);
        tx->counters.rejects_sent++;
    }
    *packet = (struct lli_packet){
        .data = buffer, .size = (uint32_t)used, .to = answer->to_group ? NULL : &answer->to};
    lli_tx_count(tx, used);
    return true;
}
