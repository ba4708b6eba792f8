/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals of data packets (docs/protocol.md section 14.8): transmitters with the option seal send them, endpoints with the
 * option seal_keys verify them, ask for those that did not come, and report packets that another member forged.
 */
#ifndef LLI_SEALING_H
#define LLI_SEALING_H

#include "core/rx/rx_session.h"
#include "engine/endpoint.h"

struct lli_sealing;
struct lli_sealer;

/* Opens the verification of an endpoint whose channel has the option seal_keys. */
int lli_sealing_open(struct lli_endpoint *endpoint);
void lli_sealing_close(struct lli_endpoint *endpoint);

/* Has a receiver deliver only what is sealed, if its channel has the option seal_hold. */
void lli_sealing_hold(struct lli_endpoint *endpoint, struct lli_rx_config *config);

/*
 * Takes an authentic packet: packet as it came, clear as it was opened. False: it is a seal, or differs from one that
 * came before, and has to be dropped.
 */
bool lli_sealing_take(struct lli_endpoint *endpoint, const struct lli_in *packet, const struct lli_in *clear);

/* Sends seals and requests for seals that are due, and reports packets whose seals did not come. */
void lli_sealing_service(struct lli_endpoint *endpoint, lli_ns now);

/* Returns when that has to be called next. */
lli_ns lli_sealing_deadline(const struct lli_endpoint *endpoint);

/* Opens the seals of a transmitter whose options have the option seal. */
int lli_sealer_open(struct llm_transmitter *transmitter, const struct llm_options *options);
void lli_sealer_close(struct lli_sealer *sealer);

/* Notes a data packet as it will be sent, in the order of packet numbers. */
void lli_sealer_note(struct llm_transmitter *transmitter, lli_seq seq, const uint8_t *packet, uint32_t size);

/* After packets were posted: sends a seal that is due, or makes the endpoint due for the next one. */
void lli_sealer_posted(struct llm_transmitter *transmitter);

/* Sends the seals of all packets now, as the transmitter ends. */
void lli_sealer_finish(struct llm_transmitter *transmitter);

#endif
