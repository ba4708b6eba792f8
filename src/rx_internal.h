/* SPDX-License-Identifier: Apache-2.0 */
/* What rx_session.c and rx_deliver.c share. */
#ifndef LLI_RX_INTERNAL_H
#define LLI_RX_INTERNAL_H

#include "rx_session.h"

static inline uint32_t *lli_rx_cell(const struct lli_rx *rx, lli_seq seq)
{
    return &rx->cells[seq & rx->gap.mask];
}

/* Gives back every packet that is held. */
void lli_rx_drop_packets(struct lli_rx *rx);

/* Packets before end exist: those not received are missing from now on. */
void lli_rx_extend(struct lli_rx *rx, lli_seq end, lli_ns now);

/* A status report is due: now, or spread over an interval if many others send theirs as well. */
void lli_rx_status_soon(struct lli_rx *rx, lli_ns now);

/* Names of topics announced so far are not known: asks for them. hold: delivers nothing until they are. */
void lli_rx_learn(struct lli_rx *rx, lli_ns now, bool hold);

#endif
