/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/pacer.h"

#define NS_PER_S 1000000000u

/* Adds the tokens of whole seconds, so that the arithmetic in lli_pacer_fill() does not overflow 64 bits. */
static void pacer_fill_seconds(struct lli_pacer *pacer, uint64_t seconds)
{
    uint64_t full = pacer->burst + pacer->debt;

    lli_pacer_give(pacer, seconds > full / pacer->bytes_per_s ? full : seconds * pacer->bytes_per_s);
    pacer->filled_at += seconds * NS_PER_S;
}

void lli_pacer_fill(struct lli_pacer *pacer, lli_ns now)
{
    lli_ns elapsed = now > pacer->filled_at ? now - pacer->filled_at : 0;
    uint64_t bytes;

    if (elapsed >= NS_PER_S) {
        pacer_fill_seconds(pacer, elapsed / NS_PER_S);
        elapsed %= NS_PER_S;
        if (pacer->tokens == pacer->burst) {
            pacer->filled_at = now;
            return;
        }
    }
    bytes = (pacer->bytes_per_s >> 10) * elapsed / (NS_PER_S >> 10);
    if (bytes == 0)
        return;
    /* Advances only by the time of whole bytes: frequent calls must not lose the fractions. */
    pacer->filled_at += bytes * (NS_PER_S >> 10) / (pacer->bytes_per_s >> 10);
    lli_pacer_give(pacer, bytes);
}

bool lli_pacer_take(struct lli_pacer *pacer, uint64_t bytes)
{
    uint64_t paid = lli_min(bytes, pacer->tokens);

    if (pacer->tokens == 0)
        return false;
    pacer->tokens -= paid;
    pacer->debt = bytes - paid;
    return true;
}

lli_ns lli_pacer_ready_at(const struct lli_pacer *pacer)
{
    if (pacer->tokens > 0)
        return pacer->filled_at;
    /* First time at which at least one byte more than the debt is available. */
    return pacer->filled_at + (pacer->debt + 1) * NS_PER_S / pacer->bytes_per_s + 1025;
}
