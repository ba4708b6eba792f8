/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ethernet frames with one UDP packet to a group: encoding and decoding of the headers. Bytes only, no system
 * calls.
 *
 * Frames are equal to those the kernel would send for the same packet, except that the UDP checksum is 0,
 * which IPv4 allows (RFC 768); over IPv6 it is computed, because hosts drop packets without one (RFC 8200,
 * section 8.1).
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

/* Header template of frames to a group; lengths and checksums are filled in per frame. */
struct lli_xdp_header {
    uint8_t bytes[LLI_XDP_HEADER_MAX];
    uint8_t size;
    uint32_t sum; /* checksum of the constant words */
};

/* Decoded frame. */
struct lli_xdp_frame {
    union lli_ip_address source; /* address and port */
    union lli_ip_address group;
    uint32_t payload; /* offset of the payload */
    uint32_t size;    /* of the payload */
};

uint32_t lli_xdp_header_size(sa_family_t family);

/* Returns the offset of the source address in a frame. */
uint32_t lli_xdp_source_at(sa_family_t family);

/* Initializes the template for frames from an address and port to a group and port. */
void lli_xdp_header_init(struct lli_xdp_header *header, const uint8_t mac[LLI_XDP_MAC_BYTES],
                         const union lli_ip_address *source, const union lli_ip_address *group, uint8_t ttl);

/* Sets the destination MAC address of a unicast host. */
void lli_xdp_header_host(struct lli_xdp_header *header, const uint8_t mac[LLI_XDP_MAC_BYTES]);

/* Writes the header for a frame with this payload; place has header->size bytes. */
void lli_xdp_header_put(const struct lli_xdp_header *header, uint8_t *place, const uint8_t *payload,
                        uint32_t size);

/*
 * Decodes a frame. False: its lengths disagree, or it is not a complete UDP packet of the family without IP
 * options. Does not verify UDP checksums: those of local senders are incomplete.
 */
bool lli_xdp_frame_get(struct lli_xdp_frame *frame, sa_family_t family, const uint8_t *bytes, uint32_t size);

#endif
