/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers' reports of their own bottlenecks (docs/protocol.md section 7.4): recorded by the transmitter and
 * reported to its application.
 */
#ifndef LLI_CONGESTION_H
#define LLI_CONGESTION_H

#include "core/tx/tx_session.h"

/*
 * Receiver side: fills in the bottleneck and its figures. Only `latest` matters if the receiver does not
 * watch its bottleneck.
 */
void lli_congestion_fill(struct lli_wire_status *status, const struct llm_bottleneck *latest,
                         const struct llm_bottleneck *ever);

/* Transmitter side: takes a member's report. */
void lli_congestion_reported(struct lli_tx *tx, struct lli_member *member,
                             const struct lli_wire_status *status);

/*
 * Returns the next event for a member whose limit changed since the application's last event; false: none.
 * Valid until the next call.
 */
bool lli_congestion_event(struct lli_tx *tx, struct llm_event *event);

#endif
