/* SPDX-License-Identifier: Apache-2.0 */
/* Token bucket in bytes. It fills with time and with lli_pacer_give(); the paced packets empty it. */
#ifndef LLI_PACER_H
#define LLI_PACER_H

#include "core/base/types.h"

struct lli_pacer {
    uint64_t bytes_per_s;
    uint64_t burst;  /* maximum of tokens */
    uint64_t tokens; /* bytes that may be sent now */
    uint64_t debt;   /* bytes sent beyond the tokens; the next tokens pay it. 0 while tokens is not 0 */
    lli_ns filled_at;
};

static inline void lli_pacer_init(struct lli_pacer *pacer, uint64_t bytes_per_s, uint64_t burst, lli_ns now)
{
    *pacer =
        (struct lli_pacer){.bytes_per_s = bytes_per_s, .burst = burst, .tokens = burst, .filled_at = now};
}

static inline void lli_pacer_give(struct lli_pacer *pacer, uint64_t bytes)
{
    uint64_t paid = lli_min(bytes, pacer->debt);

    pacer->debt -= paid;
    pacer->tokens = lli_min(pacer->tokens + bytes - paid, pacer->burst);
}

/* Adds the tokens for the time since filled_at. */
void lli_pacer_fill(struct lli_pacer *pacer, lli_ns now);

/*
 * Takes bytes if any token is left. A packet larger than the remaining tokens is admitted too, so that every
 * size gets its turn; the difference becomes a debt that the next tokens pay.
 */
bool lli_pacer_take(struct lli_pacer *pacer, uint64_t bytes);

/* Returns the time at which lli_pacer_take() next succeeds, if it fails now. */
lli_ns lli_pacer_ready_at(const struct lli_pacer *pacer);

#endif
