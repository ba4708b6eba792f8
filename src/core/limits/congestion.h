/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers' reports of their own bottlenecks (docs/protocol.md section 7.4): recorded by the transmitter and
 * reported to its application.
 */
#ifndef LLI_CONGESTION_H
#define LLI_CONGESTION_H

#include <llm/llm.h>

#include "core/flow/members.h"
#include "core/wire/wire.h"

/* Events about members' limits. A zeroed structure is valid. */
struct lli_congestion {
    bool unreported;                /* some member's limit changed since it was last reported */
    struct llm_bottleneck reported; /* figures of the latest event */
};

/*
 * Receiver side: fills in the bottleneck and its figures. Only `latest` matters if the receiver does not
 * watch its bottleneck.
 */
void lli_congestion_fill(struct lli_wire_status *status, const struct llm_bottleneck *latest,
                         const struct llm_bottleneck *ever);

/*
 * Transmitter side: records the bottleneck in a member's report. True: it is not the one that the application
 * heard of last.
 */
bool lli_congestion_reported(struct lli_member *member, const struct lli_wire_status *status);

/* Notes that lli_congestion_event() is to check the members. */
static inline void lli_congestion_changed(struct lli_congestion *congestion)
{
    congestion->unreported = true;
}

/*
 * Returns the next event for a member whose limit changed since the application's last event; false: none.
 * Valid until the next call.
 */
bool lli_congestion_event(struct lli_congestion *congestion, const struct lli_members *members,
                          struct llm_event *event);

#endif
