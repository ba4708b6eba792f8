/* SPDX-License-Identifier: Apache-2.0 */
#include "core/limits/bottleneck.h"

enum {
    /*
     * Share of time not polling at which the application is at its limit: a larger buffer would fill as well.
     */
    BOTTLENECK_AWAY_PERCENT = 90,
    BOTTLENECK_BLOCKED_PERCENT = 10, /* below this share of time, a blocked transmitter hardly waits */
    BOTTLENECK_LOSS_PPM = 100,       /* a lower loss is no bottleneck */
};

/*
 * A receiver that does not poll for this long at once must expect buffer overflow, however rarely: no
 * scheduler takes as long.
 */
#define BOTTLENECK_AWAY ((lli_ns)50000000)

enum llm_limit lli_bottleneck_receiver(const struct llm_bottleneck *f)
{
    /* Drops without missed packets belong to another receiver, or will show when a later packet arrives. */
    const uint64_t explained = lli_min(f->packets_dropped, f->packets_missed);
    const uint64_t unexplained = f->packets_missed - explained;

    if (f->time_ns > 0 && f->away_ns >= f->time_ns / 100 * BOTTLENECK_AWAY_PERCENT)
        return LLM_LIMIT_APPLICATION;
    if (explained > 0 && explained >= unexplained)
        return f->away_ns_max >= BOTTLENECK_AWAY ? LLM_LIMIT_APPLICATION : LLM_LIMIT_BUFFER;
    if (unexplained * 1000000 > (f->packets + unexplained) * BOTTLENECK_LOSS_PPM)
        return LLM_LIMIT_NETWORK;
    return LLM_LIMIT_NONE;
}

uint64_t *lli_bottleneck_blocked(struct llm_bottleneck *f, enum llm_limit limit)
{
    switch (limit) {
    case LLM_LIMIT_WINDOW:
        return &f->window_ns;
    case LLM_LIMIT_RATE:
        return &f->rate_ns;
    case LLM_LIMIT_HISTORY:
        return &f->history_ns;
    case LLM_LIMIT_TRANSPORT:
        return &f->transport_ns;
    default:
        return NULL;
    }
}

enum llm_limit lli_bottleneck_transmitter(const struct llm_bottleneck *f)
{
    const uint64_t most = lli_max(lli_max(f->window_ns, f->rate_ns), lli_max(f->history_ns, f->transport_ns));

    if (most == 0 || most < f->time_ns / 100 * BOTTLENECK_BLOCKED_PERCENT)
        return LLM_LIMIT_NONE;
    if (most == f->window_ns)
        return LLM_LIMIT_WINDOW;
    if (most == f->rate_ns)
        return LLM_LIMIT_RATE;
    return most == f->history_ns ? LLM_LIMIT_HISTORY : LLM_LIMIT_TRANSPORT;
}
