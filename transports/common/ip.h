/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What transports over IP share: hosts, groups and interfaces by name.
 *
 * Functions that can fail log one line, which begins with the scheme of the transport that asked.
 */
#ifndef LLI_IP_H
#define LLI_IP_H

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport.h"

enum { LLI_IP_TEXT_MAX = 64 }; /* of an address and port in words */

union lli_ip_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct lli_ip_interface {
    char name[IF_NAMESIZE];
    int index;
    uint32_t mtu;
    unsigned flags;                /* IFF_... */
    bool wire;                     /* a switch may follow: neither loopback nor veth */
    union lli_ip_address address;   /* with port 0 */
    union lli_ip_address broadcast; /* family 0 if it has none */
};

bool lli_ip_multicast(const union lli_ip_address *address);
bool lli_ip_same(const union lli_ip_address *a, const union lli_ip_address *b);
socklen_t lli_ip_length(const union lli_ip_address *address);
uint16_t lli_ip_port(const union lli_ip_address *address); /* in network order */
void lli_ip_port_set(union lli_ip_address *address, uint16_t port);

/* The 4 or 16 bytes of the address itself, in network order. */
const void *lli_ip_bytes(const union lli_ip_address *address);

/* "239.192.1.1:5001" or "[ff15::1]:5001", for people. Returns text. */
const char *lli_ip_text(const union lli_ip_address *address, char text[LLI_IP_TEXT_MAX]);

/* The address of a host, by number or by name; family AF_UNSPEC takes any. Fails with error, and says what it is for. */
int lli_ip_resolve(const struct lli_log *log, const char *scheme, int error, const char *what, const char *host,
                   sa_family_t family, union lli_ip_address *address);

/* The same for a group. LLM_EGROUP. */
int lli_ip_group_resolve(const struct lli_log *log, const char *scheme, const char *host, sa_family_t family,
                         union lli_ip_address *address);

/*
 * The interface to reach a group by: the one that wanted names or gives an address of; if that is empty, the one of the
 * route to the group; else the first that is up and does multicast; else the loopback. LLM_EINTERFACE, LLM_ESYSTEM.
 */
int lli_ip_interface_find(const struct lli_log *log, const char *scheme, const char *wanted, const union lli_ip_address *group,
                          struct lli_ip_interface *interface);

/* The largest packet to send: as wanted, or with 0 what the interface carries, at most 9000. LLM_EOPTION. */
int lli_ip_mtu_choose(const struct lli_log *log, const char *scheme, const struct lli_ip_interface *interface,
                      uint32_t wanted, uint32_t *mtu);

/* Whether a packet to it goes to one host, by way of the interface: NAKs must not be aimed at anything else. */
bool lli_ip_is_host(const struct lli_ip_interface *interface, const union lli_ip_address *address);

/* Whether an address as packets carry it, which is 4 or 6, the address and the port, has these 4 or 16 bytes for its host. */
bool lli_ip_is_from(const struct lli_address *packed, const void *host);

#endif
