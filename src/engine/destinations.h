/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream to a list of places, each packet once to each (ADR 20): how an endpoint posts what a transmitter with destinations
 * wants sent.
 */
#ifndef LLI_DESTINATIONS_H
#define LLI_DESTINATIONS_H

#include "engine/objects.h"

/* Posts sealed packets until none is left or the transport takes no more. What it took for all of them counts as sent. */
void lli_destinations_post(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter, lli_ns now);

/* What goes to the first goes to the others as well, if it goes to the group. What is not taken is lost there, and asked for. */
void lli_destinations_post_others(struct lli_endpoint *endpoint, const struct llm_transmitter *transmitter,
                                  const struct lli_packet *packet);

#endif
