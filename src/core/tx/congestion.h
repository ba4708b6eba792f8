/* SPDX-License-Identifier: Apache-2.0 */
/* What receivers report of their own bottlenecks (docs/protocol.md section 7.4), as their transmitter keeps and tells it. */
#ifndef LLI_CONGESTION_H
#define LLI_CONGESTION_H

#include "core/tx/tx_session.h"

/* A receiver reports: what limits it, and by which figures. Nothing but latest matters where the receiver has no watch. */
void lli_congestion_fill(struct lli_wire_status *status, const struct llm_bottleneck *latest, const struct llm_bottleneck *ever);

/* A member's report came. */
void lli_congestion_reported(struct lli_tx *tx, struct lli_member *member, const struct lli_wire_status *status);

/* A member that is limited by something else than the application was told; false if there is none. Valid until the next call. */
bool lli_congestion_event(struct lli_tx *tx, struct llm_event *event);

#endif
