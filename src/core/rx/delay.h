/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-way delay of heartbeats above the minimum seen, from the transmitter's clock to the time at which they
 * are read. The two clocks need not agree: the excess is time in queues, and a long one means a receiver that
 * does not keep up (docs/protocol.md section 7; the same figure as LEDBAT's, RFC 6817, which uses it for
 * queues in the network).
 */
#ifndef LLI_DELAY_H
#define LLI_DELAY_H

#include "core/base/types.h"

/* Zeroed: no heartbeat was read yet. */
struct lli_delay {
    uint64_t least; /* least difference of the two clocks, i.e. of the fastest heartbeat */
    lli_ns at;      /* time at which the latest heartbeat was read, 0: none */
    lli_ns queued;  /* its delay above the least */
    /* Difference so far below the least that another heartbeat has to confirm it, 0: none. */
    uint64_t suspect;
};

/* Takes a heartbeat sent at sent_at by the transmitter's clock and read at now by the receiver's. */
void lli_delay_heard(struct lli_delay *delay, uint64_t sent_at, lli_ns now);

#endif
