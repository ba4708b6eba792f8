/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much longer than the quickest of them heartbeats take from the transmitter's clock to whoever reads them. The two clocks
 * need not agree: what differs is time in queues, and the long one is that of a reader that does not keep up
 * (docs/protocol.md section 7; the same figure as LEDBAT's, RFC 6817, which takes it for queues in the network).
 */
#ifndef LLI_DELAY_H
#define LLI_DELAY_H

#include "core/base/types.h"

/* All 0: no heartbeat came yet. */
struct lli_delay {
    uint64_t least; /* from one clock to the other, for the quickest */
    lli_ns at;      /* when the latest was read, 0: none was */
    lli_ns queued;  /* by how much longer that one took */
    uint64_t doubted; /* one took so much less than the quickest that another has to confirm it, 0: none did */
};

/* A heartbeat that was sent by one clock at sent_at is read by the other at now. */
void lli_delay_heard(struct lli_delay *delay, uint64_t sent_at, lli_ns now);

#endif
