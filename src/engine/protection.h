/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection of an endpoint's packets by the keys of its channel: between the endpoint and its guard. Counts what is
 * dropped, and reports groups whose members have different keys.
 */
#ifndef LLI_PROTECTION_H
#define LLI_PROTECTION_H

#include "engine/endpoint.h"
#include "security/guard.h"

/* Returns true if keys permit that two channels share an instance: they have none, or are the same place. */
bool lli_protection_is_shared(const struct lli_channel *a, const struct lli_channel *b);

/*
 * Opens the guard of an endpoint whose channel has keys, and lowers its largest packet by what they add. Errors are
 * those of lli_guard_open().
 */
int lli_protection_open(struct lli_endpoint *endpoint);
void lli_protection_close(struct lli_endpoint *endpoint);

/*
 * Protects a control packet where it is, unless it is protected already, and updates its size. False: no epoch is valid,
 * so it must not be sent.
 */
bool lli_protection_control(struct lli_endpoint *endpoint, uint8_t *packet, uint32_t *size);

/*
 * Protects those of a transmitter's next unsent packets that are not protected yet, in the history, and updates their
 * sizes. Returns how many may be sent: 0 if no epoch is valid.
 */
int lli_protection_data(struct llm_transmitter *transmitter, struct lli_packet *packets, int count);

/*
 * Protects the packet of lli_pack_single() where it is prepared in the history. Returns its size then; 0, with nothing
 * changed: no epoch is valid, so it must not be sent.
 */
uint32_t lli_protection_single(struct llm_transmitter *transmitter, uint32_t size);

/* Returns true if nothing can be sent before an epoch is valid, of an endpoint with keys. */
bool lli_protection_waits(const struct lli_endpoint *endpoint);

/* Has the guard look at the calendar and the key file, before packets of a burst are opened. */
void lli_protection_look(struct lli_endpoint *endpoint);

/*
 * Opens a packet that arrived. False: it was counted and has to be dropped. *clear is the packet of version 1, valid
 * until the next call.
 */
bool lli_protection_take(struct lli_endpoint *endpoint, const struct lli_in *packet, struct lli_in *clear);

/*
 * Returns true if a packet of another version is protected, and the channel has no keys: counts and reports it.
 */
bool lli_protection_is_keyless(struct lli_endpoint *endpoint, const struct lli_in *packet);

#endif
