/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending one stream to several addresses, each packet once to each (ADR 20), for transmitters with the
 * option destinations.
 */
#ifndef LLI_DESTINATIONS_H
#define LLI_DESTINATIONS_H

#include "engine/objects.h"

/*
 * Posts sealed packets until none is left or the transport takes no more. A packet counts as sent once it was
 * taken for all.
 */
void lli_destinations_post(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter, lli_ns now);

/*
 * Posts a packet for the group to the other destinations as well. A packet not taken is lost there, and
 * repaired by NAKs.
 */
void lli_destinations_post_others(struct lli_endpoint *endpoint, const struct llm_transmitter *transmitter,
                                  const struct lli_packet *packet);

#endif
