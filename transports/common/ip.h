/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for transports over IP: names of hosts, groups and interfaces.
 *
 * Functions that fail log one line, prefixed with the scheme of the calling transport.
 */
#ifndef LLI_IP_H
#define LLI_IP_H

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport.h"

enum { LLI_IP_TEXT_MAX = 64 }; /* of an address and port as text */

union lli_ip_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct lli_ip_interface {
    char name[IF_NAMESIZE];
    int index;
    uint32_t mtu;
    unsigned flags;                 /* IFF_... */
    bool wire;                      /* packets may pass a switch: neither loopback nor veth */
    union lli_ip_address address;   /* with port 0 */
    union lli_ip_address broadcast; /* family 0: none */
};

bool lli_ip_multicast(const union lli_ip_address *address);
bool lli_ip_same(const union lli_ip_address *a, const union lli_ip_address *b);
socklen_t lli_ip_length(const union lli_ip_address *address);
uint16_t lli_ip_port(const union lli_ip_address *address); /* in network order */
void lli_ip_port_set(union lli_ip_address *address, uint16_t port);

/* Returns the 4 or 16 bytes of the address, in network order. */
const void *lli_ip_bytes(const union lli_ip_address *address);

/* Formats as "239.192.1.1:5001" or "[ff15::1]:5001". Returns text. */
const char *lli_ip_text(const union lli_ip_address *address, char text[LLI_IP_TEXT_MAX]);

/*
 * Resolves a host name or numeric address; AF_UNSPEC accepts any family. Fails with error, and logs what the
 * host is for.
 */
int lli_ip_resolve(const struct lli_log *log, const char *scheme, int error, const char *what,
                   const char *host, sa_family_t family, union lli_ip_address *address);

/* Resolves a multicast group. Fails with LLM_EGROUP. */
int lli_ip_group_resolve(const struct lli_log *log, const char *scheme, const char *host, sa_family_t family,
                         union lli_ip_address *address);

/*
 * Selects the interface for a group: the one whose name or address is wanted; if wanted is empty, that of the
 * route to the group, else the first that is up and supports multicast, else the loopback. Fails with
 * LLM_EINTERFACE or LLM_ESYSTEM.
 */
int lli_ip_interface_find(const struct lli_log *log, const char *scheme, const char *wanted,
                          const union lli_ip_address *group, struct lli_ip_interface *interface);

/* Chooses the MTU: wanted, or with 0 the MTU of the interface, at most 9000. Fails with LLM_EOPTION. */
int lli_ip_mtu_choose(const struct lli_log *log, const char *scheme, const struct lli_ip_interface *interface,
                      uint32_t wanted, uint32_t *mtu);

/*
 * Returns true if packets to the address go to one host by the interface. NAKs must not be sent to anything
 * else.
 */
bool lli_ip_is_host(const struct lli_ip_interface *interface, const union lli_ip_address *address);

/* Compares the host of a packed address (4 or 6, address, port) with 4 or 16 bytes in network order. */
bool lli_ip_is_from(const struct lli_address *packed, const void *host);

#endif
