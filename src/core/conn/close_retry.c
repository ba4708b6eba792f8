/* SPDX-License-Identifier: Apache-2.0 */
#include "core/conn/close_retry.h"

#include "core/tx/tx_session.h"

/*
 * CLOSE is repeated after this time, then at doubling intervals, but not before two round trips. Round trips
 * may have been measured while queues were full, many times their idle value, so they are not doubled.
 */
#define CLOSE_RETRY_FIRST ((lli_ns)1000000)

struct lli_close_retry *lli_close_retries_place(struct lli_close_retries *close_retries)
{
    if (close_retries->count == LLI_CLOSE_RETRIES)
        return NULL;
    for (uint32_t i = 0; i < LLI_CLOSE_RETRIES; i++)
        if (close_retries->places[i].close.id == 0) {
            close_retries->count++;
            return &close_retries->places[i];
        }
    return NULL;
}

void lli_close_retries_free(struct lli_close_retries *close_retries, struct lli_close_retry *close_retry)
{
    close_retry->close.id = 0;
    close_retries->count--;
}

void lli_close_retry_begin(struct lli_close_retry *close_retry, const struct lli_wire_close *close,
                           const struct lli_wire_address *to, lli_ns rtt, lli_ns until, lli_ns now)
{
    *close_retry = (struct lli_close_retry){.close = *close,
                                            .to = *to,
                                            .words = LLI_CLOSE_RETRY_WORDS,
                                            .step = CLOSE_RETRY_FIRST,
                                            .step_min = 2 * rtt,
                                            .until = until};
    lli_close_retry_said(close_retry, now);
}

void lli_close_retry_once(struct lli_close_retry *close_retry, const struct lli_wire_close *close,
                          const struct lli_wire_address *to, lli_ns now)
{
    *close_retry = (struct lli_close_retry){
        .close = *close, .to = *to, .words = 1, .at = now, .until = now + LLI_CLOSE_RETRY_ANSWER};
}

void lli_close_retry_said(struct lli_close_retry *close_retry, lli_ns now)
{
    close_retry->words--;
    close_retry->at = now + lli_max(close_retry->step, close_retry->step_min);
    close_retry->step *= 2;
}

bool lli_close_retries_heard(struct lli_close_retries *close_retries, uint64_t id)
{
    bool waited = false;

    for (uint32_t i = 0; i < LLI_CLOSE_RETRIES && close_retries->count > 0; i++) {
        struct lli_close_retry *close_retry = &close_retries->places[i];

        if (close_retry->close.id != id || !lli_close_retry_wants_answer(&close_retry->close))
            continue;
        close_retry->answered = true;
        close_retry->words = 0;
        close_retry->at = 0;
        waited = true;
    }
    return waited;
}

bool lli_close_retry_is_delivered(const struct lli_tx *tx, bool left)
{
    if (tx->members.count > 0 && !left)
        return tx->heartbeat.ended && lli_members_waiting(&tx->members) == 0;
    return tx->group.taken == tx->history.next && !lli_pack_pending(&tx->pack);
}

void lli_close_retry_left(struct lli_tx *tx, lli_seq next)
{
    /* A connection has at most one receiver. */
    lli_tx_leave(tx, tx->members.table[0].id, next);
}
