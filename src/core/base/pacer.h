/* SPDX-License-Identifier: Apache-2.0 */
/* A token bucket in bytes: filled by time, and by whoever gives it a share of what he does; emptied by what it paces. */
#ifndef LLI_PACER_H
#define LLI_PACER_H

#include "core/base/types.h"

struct lli_pacer {
    uint64_t bytes_per_s;
    uint64_t burst;  /* it never holds more, in bytes */
    uint64_t tokens; /* bytes that may go now */
    uint64_t debt;   /* bytes that went beforehand, while tokens is 0 */
    lli_ns filled_at;
};

static inline void lli_pacer_init(struct lli_pacer *pacer, uint64_t bytes_per_s, uint64_t burst, lli_ns now)
{
    *pacer = (struct lli_pacer){.bytes_per_s = bytes_per_s, .burst = burst, .tokens = burst, .filled_at = now};
}

static inline void lli_pacer_give(struct lli_pacer *pacer, uint64_t bytes)
{
    uint64_t paid = lli_min(bytes, pacer->debt);

    pacer->debt -= paid;
    pacer->tokens = lli_min(pacer->tokens + bytes - paid, pacer->burst);
}

/* Fills by the time that has passed. */
void lli_pacer_fill(struct lli_pacer *pacer, lli_ns now);

/*
 * Takes bytes if any tokens are there. A packet larger than what is left goes too, so that every size gets its turn: the
 * difference is a debt that the next tokens pay.
 */
bool lli_pacer_take(struct lli_pacer *pacer, uint64_t bytes);

/* When lli_pacer_take() will next succeed, if it does not now. */
lli_ns lli_pacer_ready_at(const struct lli_pacer *pacer);

#endif
