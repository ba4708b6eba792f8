/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ethernet frames with one UDP packet to a group: what is before the payload, written and read. Plain bytes, no kernel.
 *
 * Frames are those that the kernel would send and take for the same packet, except that the UDP checksum is 0, which IPv4
 * allows (RFC 768); over IPv6 it is computed, as hosts drop what has none (RFC 8200, section 8.1).
 */
#ifndef LLI_XDP_FRAME_H
#define LLI_XDP_FRAME_H

#include "common/ip.h"

enum {
    LLI_XDP_MAC_BYTES = 6,
    LLI_XDP_HEADER_V4 = 14 + 20 + 8, /* Ethernet, IP and UDP */
    LLI_XDP_HEADER_V6 = 14 + 40 + 8,
    LLI_XDP_HEADER_MAX = LLI_XDP_HEADER_V6,
};

/* What all frames to one group begin with, but for lengths and checksums. */
struct lli_xdp_header {
    uint8_t bytes[LLI_XDP_HEADER_MAX];
    uint8_t size;
    uint32_t sum; /* of the words that the checksum covers and that never change */
};

/* What a frame says of itself. */
struct lli_xdp_frame {
    union lli_ip_address source; /* with its port */
    union lli_ip_address group;
    uint32_t payload; /* where it begins */
    uint32_t size;    /* of the payload */
};

uint32_t lli_xdp_header_size(sa_family_t family);

/* Where in it the address of the sender is. */
uint32_t lli_xdp_source_at(sa_family_t family);

/* The header of frames from an address with its port to a group with its port. */
void lli_xdp_header_init(struct lli_xdp_header *header, const uint8_t mac[LLI_XDP_MAC_BYTES],
                         const union lli_ip_address *source, const union lli_ip_address *group, uint8_t ttl);

/* The frames go to this MAC address, where the group is a host. */
void lli_xdp_header_host(struct lli_xdp_header *header, const uint8_t mac[LLI_XDP_MAC_BYTES]);

/* Writes the header of a frame with this payload to a place of header->size bytes. */
void lli_xdp_header_put(const struct lli_xdp_header *header, uint8_t *place, const uint8_t *payload, uint32_t size);

/*
 * Reads a frame. False: its lengths disagree, or it is no whole
 * UDP packet of the family without options. UDP checksums are not looked at: frames of a sender on this host have but a part of it.
 */
bool lli_xdp_frame_get(struct lli_xdp_frame *frame, sa_family_t family, const uint8_t *bytes, uint32_t size);

#endif
