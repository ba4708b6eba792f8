/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as carried in packets. */
#define _GNU_SOURCE
#include "udp.h"

#include <stdio.h>
#include <string.h>

enum { PACKED_V4_BYTES = 1 + 4 + 2, PACKED_V6_BYTES = 1 + 16 + 2 };

void lli_udp_pack(const union lli_ip_address *address, struct lli_address *packed)
{
    const bool v4 = address->any.sa_family == AF_INET;
    const size_t bytes = v4 ? 4 : 16;
    const uint16_t port = lli_ip_port(address);

    memset(packed, 0, sizeof *packed);
    packed->size = v4 ? PACKED_V4_BYTES : PACKED_V6_BYTES;
    packed->bytes[0] = v4 ? 4 : 6;
    memcpy(packed->bytes + 1, lli_ip_bytes(address), bytes);
    memcpy(packed->bytes + 1 + bytes, &port, sizeof port);
}

static bool peer_unpack(const struct lli_udp *udp, const struct lli_address *packed,
                        union lli_ip_address *address)
{
    memset(address, 0, sizeof *address);
    address->any.sa_family = udp->family;
    if (udp->family == AF_INET) {
        if (packed->size != PACKED_V4_BYTES || packed->bytes[0] != 4)
            return false;
        memcpy(&address->v4.sin_addr, packed->bytes + 1, 4);
        memcpy(&address->v4.sin_port, packed->bytes + 5, 2);
    } else {
        if (packed->size != PACKED_V6_BYTES || packed->bytes[0] != 6)
            return false;
        memcpy(&address->v6.sin6_addr, packed->bytes + 1, 16);
        memcpy(&address->v6.sin6_port, packed->bytes + 17, 2);
        /* A scope has no meaning on another host; peers that reach us are on our interface. */
        if (IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr))
            address->v6.sin6_scope_id = (uint32_t)udp->interface.index;
    }
    return lli_ip_port(address) != 0 && lli_ip_is_host(&udp->interface, address);
}

void lli_udp_describe(const struct lli_address *packed, char *text, size_t size)
{
    const bool v4 = packed->size == PACKED_V4_BYTES && packed->bytes[0] == 4;
    char words[LLI_IP_TEXT_MAX];
    union lli_ip_address address = {.any.sa_family = v4 ? AF_INET : AF_INET6};
    uint16_t port;

    if (!v4 && (packed->size != PACKED_V6_BYTES || packed->bytes[0] != 6))
        return;
    memcpy(v4 ? (void *)&address.v4.sin_addr : (void *)&address.v6.sin6_addr, packed->bytes + 1, v4 ? 4 : 16);
    memcpy(&port, packed->bytes + packed->size - sizeof port, sizeof port);
    lli_ip_port_set(&address, ntohs(port));
    (void)snprintf(text, size, "%s", lli_ip_text(&address, words));
}

int lli_udp_peer(void *instance, const struct lli_address *packed, lli_handle *handle)
{
    struct lli_udp *udp = instance;
    union lli_ip_address address;
    uint32_t place;
    int status;

    if (!peer_unpack(udp, packed, &address))
        return LLM_EINVAL;
    if ((status = lli_peers_place(&udp->peers, packed, &place)) != 0)
        return status;
    udp->peer_addresses[place] = address;
    *handle = LLI_UDP_PEER | place;
    return 0;
}

void lli_udp_forget(void *instance, const struct lli_address *packed)
{
    struct lli_udp *udp = instance;
    uint32_t place;

    (void)lli_peers_remove(&udp->peers, packed, &place);
}
