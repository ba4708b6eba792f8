/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that the state machines hand out to be sent. */
#ifndef LLI_PACKET_H
#define LLI_PACKET_H

#include <stdint.h>

struct lli_wire_address;

/*
 * Packet to send, to an address or, if `to` is NULL, to the group. Valid until the session that built it is
 * used again.
 */
struct lli_packet {
    const uint8_t *data;
    uint32_t size;
    const struct lli_wire_address *to;
};

#endif
