/* SPDX-License-Identifier: Apache-2.0 */
#include "xdp_frame.h"

#include <arpa/inet.h>
#include <string.h>

/* Offsets of fields: in the frame, in the IP header, in the UDP header. */
enum {
    AT_ETHER_TYPE = 12,
    AT_IP = 14,
    AT_IPV4_LENGTH = AT_IP + 2,
    AT_IPV4_FRAGMENT = AT_IP + 6,
    AT_IPV4_TTL = AT_IP + 8,
    AT_IPV4_CHECKSUM = AT_IP + 10,
    AT_IPV4_SOURCE = AT_IP + 12,
    AT_IPV4_GROUP = AT_IP + 16,
    AT_IPV6_LENGTH = AT_IP + 4,
    AT_IPV6_NEXT = AT_IP + 6,
    AT_IPV6_HOPS = AT_IP + 7,
    AT_IPV6_SOURCE = AT_IP + 8,
    AT_IPV6_GROUP = AT_IP + 24,
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    UDP_BYTES = 8,
    UDP_GROUP_PORT = 2,
    UDP_LENGTH = 4,
    UDP_CHECKSUM = 6,
};

enum {
    ETHER_IPV4 = 0x0800,
    ETHER_IPV6 = 0x86dd,
    IPV4_PLAIN = 0x45, /* version 4, five words: no options */
    IPV4_DONT_FRAGMENT = 0x4000,
    IPV4_FRAGMENTED = 0x3fff, /* mask: more fragments, or a fragment offset */
    PROTOCOL_UDP = 17,
};

static void put16(uint8_t *place, uint32_t value)
{
    const uint16_t word = htons((uint16_t)value);

    memcpy(place, &word, sizeof word);
}

static uint32_t get16(const uint8_t *place)
{
    return (uint32_t)place[0] << 8 | place[1];
}

/* Ones' complement sum, padded with zeros, in the machine's byte order, which does not matter (RFC 1071). */
static uint32_t sum_bytes(uint64_t sum, const uint8_t *bytes, size_t size)
{
    uint32_t word;

    for (; size >= sizeof word; size -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        sum += word;
    }
    word = 0;
    memcpy(&word, bytes, size);
    sum += word;
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint32_t)sum;
}

static void put_checksum(uint8_t *place, uint32_t sum)
{
    const uint16_t checksum = (uint16_t)~sum;

    memcpy(place, &checksum, sizeof checksum);
}

uint32_t lli_xdp_header_size(sa_family_t family)
{
    return family == AF_INET ? LLI_XDP_HEADER_V4 : LLI_XDP_HEADER_V6;
}

uint32_t lli_xdp_source_at(sa_family_t family)
{
    return family == AF_INET ? 14 + 12 : 14 + 8;
}

/* MAC address of a group: RFC 1112, section 6.4, and RFC 2464, section 7. */
static void header_mac(uint8_t *bytes, const union lli_ip_address *group)
{
    const uint8_t *address = lli_ip_bytes(group);

    if (group->any.sa_family == AF_INET) {
        memcpy(bytes, (const uint8_t[]){0x01, 0x00, 0x5e, address[1] & 0x7f, address[2], address[3]},
               LLI_XDP_MAC_BYTES);
    } else {
        memcpy(bytes, (const uint8_t[]){0x33, 0x33}, 2);
        memcpy(bytes + 2, address + 12, 4);
    }
}

static void header_init_v4(struct lli_xdp_header *header, uint8_t ttl)
{
    uint8_t *bytes = header->bytes;

    put16(bytes + AT_ETHER_TYPE, ETHER_IPV4);
    bytes[AT_IP] = IPV4_PLAIN;
    put16(bytes + AT_IPV4_FRAGMENT, IPV4_DONT_FRAGMENT);
    bytes[AT_IPV4_TTL] = ttl;
    bytes[AT_IPV4_TTL + 1] = PROTOCOL_UDP;
}

static void header_init_v6(struct lli_xdp_header *header, uint8_t ttl)
{
    uint8_t *bytes = header->bytes;

    put16(bytes + AT_ETHER_TYPE, ETHER_IPV6);
    bytes[AT_IP] = 0x60;
    bytes[AT_IPV6_NEXT] = PROTOCOL_UDP;
    bytes[AT_IPV6_HOPS] = ttl;
}

void lli_xdp_header_init(struct lli_xdp_header *header, const uint8_t mac[LLI_XDP_MAC_BYTES],
                         const union lli_ip_address *source, const union lli_ip_address *group, uint8_t ttl)
{
    const bool v4 = group->any.sa_family == AF_INET;
    const size_t address_bytes = v4 ? 4 : 16;
    const uint16_t ports[2] = {lli_ip_port(source), lli_ip_port(group)};
    uint8_t *addresses = header->bytes + (v4 ? AT_IPV4_SOURCE : AT_IPV6_SOURCE);
    uint8_t *udp = header->bytes + AT_IP + (v4 ? IPV4_BYTES : IPV6_BYTES);

    memset(header, 0, sizeof *header);
    header->size = (uint8_t)lli_xdp_header_size(group->any.sa_family);
    header_mac(header->bytes, group);
    memcpy(header->bytes + LLI_XDP_MAC_BYTES, mac, LLI_XDP_MAC_BYTES);
    if (v4)
        header_init_v4(header, ttl);
    else
        header_init_v6(header, ttl);
    memcpy(addresses, lli_ip_bytes(source), address_bytes);
    memcpy(addresses + address_bytes, lli_ip_bytes(group), address_bytes);
    memcpy(udp, ports, sizeof ports);
    /*
     * For IPv4 the sum of the IP header; for IPv6 that of UDP with the pseudo-header (RFC 8200, section 8.1).
     */
    if (v4)
        header->sum = sum_bytes(0, header->bytes + AT_IP, IPV4_BYTES);
    else
        header->sum = sum_bytes(htons(PROTOCOL_UDP), addresses, 2 * address_bytes + sizeof ports);
}

void lli_xdp_header_host(struct lli_xdp_header *header, const uint8_t mac[LLI_XDP_MAC_BYTES])
{
    memcpy(header->bytes, mac, LLI_XDP_MAC_BYTES);
}

void lli_xdp_header_put(const struct lli_xdp_header *header, uint8_t *place, const uint8_t *payload,
                        uint32_t size)
{
    uint8_t *udp = place + header->size - UDP_BYTES;
    const uint32_t udp_bytes = UDP_BYTES + size;
    uint32_t sum;

    memcpy(place, header->bytes, header->size);
    put16(udp + UDP_LENGTH, udp_bytes);
    if (header->size == LLI_XDP_HEADER_V4) {
        put16(place + AT_IPV4_LENGTH, IPV4_BYTES + udp_bytes);
        put_checksum(place + AT_IPV4_CHECKSUM,
                     sum_bytes(header->sum, place + AT_IPV4_LENGTH, sizeof(uint16_t)));
        return;
    }
    put16(place + AT_IPV6_LENGTH, udp_bytes);
    /* The length counts twice: it is also in the pseudo-header. */
    sum = sum_bytes((uint64_t)header->sum + 2 * htons((uint16_t)udp_bytes), payload, size);
    put_checksum(udp + UDP_CHECKSUM, sum == 0xffff ? 0 : sum); /* 0 would mean no checksum */
}

/*
 * Returns the offset of the UDP header, and the bytes after the IP header; 0: not a packet for this
 * transport.
 */
static uint32_t frame_ip_v4(struct lli_xdp_frame *frame, const uint8_t *bytes, uint32_t *udp_bytes)
{
    const uint32_t length = get16(bytes + AT_IPV4_LENGTH);

    if (get16(bytes + AT_ETHER_TYPE) != ETHER_IPV4 || bytes[AT_IP] != IPV4_PLAIN ||
        bytes[AT_IPV4_TTL + 1] != PROTOCOL_UDP || (get16(bytes + AT_IPV4_FRAGMENT) & IPV4_FRAGMENTED) != 0 ||
        length < IPV4_BYTES || sum_bytes(0, bytes + AT_IP, IPV4_BYTES) != 0xffff)
        return 0;
    memcpy(&frame->source.v4.sin_addr, bytes + AT_IPV4_SOURCE, 4);
    memcpy(&frame->group.v4.sin_addr, bytes + AT_IPV4_GROUP, 4);
    *udp_bytes = length - IPV4_BYTES;
    return AT_IP + IPV4_BYTES;
}

static uint32_t frame_ip_v6(struct lli_xdp_frame *frame, const uint8_t *bytes, uint32_t *udp_bytes)
{
    if (get16(bytes + AT_ETHER_TYPE) != ETHER_IPV6 || bytes[AT_IP] >> 4 != 6 ||
        bytes[AT_IPV6_NEXT] != PROTOCOL_UDP)
        return 0;
    memcpy(&frame->source.v6.sin6_addr, bytes + AT_IPV6_SOURCE, 16);
    memcpy(&frame->group.v6.sin6_addr, bytes + AT_IPV6_GROUP, 16);
    *udp_bytes = get16(bytes + AT_IPV6_LENGTH);
    return AT_IP + IPV6_BYTES;
}

bool lli_xdp_frame_get(struct lli_xdp_frame *frame, sa_family_t family, const uint8_t *bytes, uint32_t size)
{
    uint32_t udp, udp_bytes;

    if (size < lli_xdp_header_size(family))
        return false;
    memset(frame, 0, sizeof *frame);
    frame->source.any.sa_family = frame->group.any.sa_family = family;
    udp = family == AF_INET ? frame_ip_v4(frame, bytes, &udp_bytes) : frame_ip_v6(frame, bytes, &udp_bytes);
    /* Bytes after the UDP packet pad a short frame. */
    if (udp == 0 || udp_bytes < UDP_BYTES || udp_bytes > size - udp ||
        get16(bytes + udp + UDP_LENGTH) != udp_bytes)
        return false;
    lli_ip_port_set(&frame->source, (uint16_t)get16(bytes + udp));
    lli_ip_port_set(&frame->group, (uint16_t)get16(bytes + udp + UDP_GROUP_PORT));
    frame->payload = udp + UDP_BYTES;
    frame->size = udp_bytes - UDP_BYTES;
    return true;
}
