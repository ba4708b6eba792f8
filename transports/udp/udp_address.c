/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts and interfaces by name, addresses as packets carry them, the table of peers. */
#define _GNU_SOURCE
#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"

/* ------------------------------------------------------------------------------------------------- addresses */

static uint32_t address_v4(const union lli_udp_address *address)
{
    return ntohl(address->v4.sin_addr.s_addr);
}

bool lli_udp_multicast(const union lli_udp_address *address)
{
    if (address->any.sa_family == AF_INET)
        return IN_MULTICAST(address_v4(address));
    return IN6_IS_ADDR_MULTICAST(&address->v6.sin6_addr);
}

/* Whether the hosts are the same, whatever the ports. */
static bool address_same_host(const union lli_udp_address *a, const union lli_udp_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
}

static uint16_t address_port(const union lli_udp_address *address)
{
    return address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port;
}

bool lli_udp_same(const union lli_udp_address *a, const union lli_udp_address *b)
{
    if (a->any.sa_family == AF_UNSPEC)
        return b->any.sa_family == AF_UNSPEC;
    return address_same_host(a, b) && address_port(a) == address_port(b);
}

socklen_t lli_udp_length(const union lli_udp_address *address)
{
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

void lli_udp_port_set(union lli_udp_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET)
        address->v4.sin_port = htons(port);
    else
        address->v6.sin6_port = htons(port);
}

static const void *address_bytes(const union lli_udp_address *address)
{
    return address->any.sa_family == AF_INET ? (const void *)&address->v4.sin_addr : &address->v6.sin6_addr;
}

const char *lli_udp_text(const union lli_udp_address *address, char text[LLI_UDP_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN];
    const bool v4 = address->any.sa_family == AF_INET;

    if (inet_ntop(address->any.sa_family, address_bytes(address), host, sizeof host) == NULL)
        host[0] = '\0';
    snprintf(text, LLI_UDP_TEXT_MAX, v4 ? "%s:%u" : "[%s]:%u", host, (unsigned)ntohs(address_port(address)));
    return text;
}

int lli_udp_resolve(const struct lli_log *log, int error, const char *what, const char *host, sa_family_t family,
                    union lli_udp_address *address)
{
    const struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    int status = host[0] == '\0' ? EAI_NONAME : getaddrinfo(host, NULL, &hints, &found);

    if (status != 0)
        return lli_fail(log, error, "udp: %s '%s': %s; it takes an %s address or a name that has one", what, host,
                        gai_strerror(status), family == AF_INET ? "IPv4" : family == AF_INET6 ? "IPv6" : "IP");
    memset(address, 0, sizeof *address);
    memcpy(address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ interfaces */

static bool interface_link_local(const struct ifaddrs *entry)
{
    return entry->ifa_addr->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr);
}

static void interface_copy(union lli_udp_address *to, const struct sockaddr *from)
{
    memset(to, 0, sizeof *to);
    memcpy(to, from, from->sa_family == AF_INET ? sizeof to->v4 : sizeof to->v6);
}

static bool interface_has_family(const struct ifaddrs *entry, sa_family_t family)
{
    return entry->ifa_addr != NULL && entry->ifa_addr->sa_family == family;
}

static bool interface_has_address(const struct ifaddrs *entry, const union lli_udp_address *address)
{
    union lli_udp_address own;

    if (!interface_has_family(entry, address->any.sa_family))
        return false;
    interface_copy(&own, entry->ifa_addr);
    return address_same_host(&own, address);
}

/* The entry of an address, or NULL. */
static const struct ifaddrs *interface_by_address(const struct ifaddrs *list, const union lli_udp_address *address)
{
    for (; list != NULL; list = list->ifa_next)
        if (interface_has_address(list, address))
            return list;
    return NULL;
}

/* The entry of an interface's address in a family, not a link-local one if it has another; or NULL. */
static const struct ifaddrs *interface_by_name(const struct ifaddrs *list, const char *name, sa_family_t family)
{
    const struct ifaddrs *found = NULL;

    for (; list != NULL; list = list->ifa_next)
        if (strcmp(list->ifa_name, name) == 0 && interface_has_family(list, family) &&
            (found == NULL || interface_link_local(found)))
            found = list;
    return found;
}

static bool interface_fits(const struct ifaddrs *entry)
{
    const unsigned needed = IFF_UP | IFF_MULTICAST;

    return (entry->ifa_flags & needed) == needed && (entry->ifa_flags & IFF_LOOPBACK) == 0;
}

/* The kernel's choice of source address for a packet to the group, asked for by connecting; nothing is sent. */
static bool interface_route_source(const union lli_udp_address *group, union lli_udp_address *source)
{
    const int fd = socket(group->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    union lli_udp_address to = *group;
    socklen_t length = sizeof *source;
    bool found;

    if (fd < 0)
        return false;
    lli_udp_port_set(&to, 9);
    memset(source, 0, sizeof *source);
    found = connect(fd, &to.any, lli_udp_length(&to)) == 0 && getsockname(fd, &source->any, &length) == 0;
    close(fd);
    return found;
}

static const struct ifaddrs *interface_default(const struct ifaddrs *list, const union lli_udp_address *group)
{
    const sa_family_t family = group->any.sa_family;
    union lli_udp_address source;
    const struct ifaddrs *found = interface_route_source(group, &source) ? interface_by_address(list, &source) : NULL;
    const struct ifaddrs *loopback = NULL;

    if (found != NULL && interface_fits(found))
        return found;
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        if (!interface_has_family(entry, family))
            continue;
        if (interface_fits(entry))
            return interface_by_name(list, entry->ifa_name, family);
        if (loopback == NULL && (entry->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == (IFF_UP | IFF_LOOPBACK))
            loopback = entry;
    }
    return loopback;
}

/* The interface that the option names, or has as its address. */
static int interface_wanted(const struct lli_log *log, const struct ifaddrs *list, const char *wanted, sa_family_t family,
                            const struct ifaddrs **found)
{
    union lli_udp_address address = {0};
    const struct ifaddrs *entry = NULL;
    const char *name = wanted;

    if (inet_pton(AF_INET, wanted, &address.v4.sin_addr) == 1)
        address.any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, wanted, &address.v6.sin6_addr) == 1)
        address.any.sa_family = AF_INET6;
    if (address.any.sa_family != AF_UNSPEC) {
        entry = interface_by_address(list, &address);
        if (entry == NULL)
            return lli_fail(log, LLM_EINTERFACE, "udp: no interface has the address %s; 'ip address' lists them", wanted);
        name = entry->ifa_name;
    } else if (if_nametoindex(wanted) == 0) {
        return lli_fail(log, LLM_EINTERFACE, "udp: there is no interface %s; 'ip link' lists those there are", wanted);
    }
    if (entry == NULL || entry->ifa_addr->sa_family != family)
        entry = interface_by_name(list, name, family);
    if (entry == NULL)
        return lli_fail(log, LLM_EINTERFACE, "udp: interface %s has no %s address; 'ip address add' gives it one", wanted,
                        family == AF_INET ? "IPv4" : "IPv6");
    *found = entry;
    return 0;
}

static int interface_mtu(const struct lli_log *log, const char *name, uint32_t *mtu)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {0};
    int status = -1;

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd >= 0)
        status = ioctl(fd, SIOCGIFMTU, &request);
    if (status < 0)
        lli_fail(log, LLM_ESYSTEM, "udp: the MTU of interface %s cannot be read: %m", name);
    else
        *mtu = (uint32_t)request.ifr_mtu;
    if (fd >= 0)
        close(fd);
    return status < 0 ? LLM_ESYSTEM : 0;
}

/* Whether packets leave this machine by it: with loopback and veth no switch has to queue them. */
static bool interface_is_wire(const struct lli_udp_interface *interface)
{
    const int fd = interface->flags & IFF_LOOPBACK ? -1 : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (void *)&driver};
    bool known;

    if (fd < 0)
        return false;
    memcpy(request.ifr_name, interface->name, sizeof request.ifr_name);
    known = ioctl(fd, SIOCETHTOOL, &request) == 0;
    close(fd);
    return !known || strcmp(driver.driver, "veth") != 0;
}

/* The address of all hosts of the network; networks of two hosts have none (RFC 3021). */
static void interface_broadcast(const struct ifaddrs *entry, struct lli_udp_interface *interface)
{
    union lli_udp_address mask;

    if (entry->ifa_addr->sa_family != AF_INET || entry->ifa_netmask == NULL)
        return;
    interface_copy(&mask, entry->ifa_netmask);
    if (ntohl(mask.v4.sin_addr.s_addr) >= 0xfffffffe)
        return;
    interface->broadcast = interface->address;
    interface->broadcast.v4.sin_addr.s_addr |= ~mask.v4.sin_addr.s_addr;
}

/* An interface may come from the option, so it may be one that cannot be used. */
static int interface_take(const struct lli_log *log, const struct ifaddrs *entry, struct lli_udp_interface *interface)
{
    const char *name = entry->ifa_name;

    if ((entry->ifa_flags & IFF_UP) == 0)
        return lli_fail(log, LLM_EINTERFACE, "udp: interface %s is down; 'ip link set %s up' brings it up", name, name);
    if ((entry->ifa_flags & (IFF_MULTICAST | IFF_LOOPBACK)) == 0)
        return lli_fail(log, LLM_EINTERFACE,
                        "udp: interface %s does no multicast; 'ip link set %s multicast on', or take another", name, name);
    memset(interface, 0, sizeof *interface);
    snprintf(interface->name, sizeof interface->name, "%s", name);
    interface->index = (int)if_nametoindex(name);
    interface->flags = entry->ifa_flags;
    interface_copy(&interface->address, entry->ifa_addr);
    interface->wire = interface_is_wire(interface);
    interface_broadcast(entry, interface);
    return interface_mtu(log, name, &interface->mtu);
}

int lli_udp_interface_find(const struct lli_log *log, const char *wanted, const union lli_udp_address *group,
                           struct lli_udp_interface *interface)
{
    const struct ifaddrs *found = NULL;
    struct ifaddrs *list = NULL;
    int status = 0;

    if (getifaddrs(&list) != 0)
        return errno == EMFILE
                   ? lli_fail(log, LLM_ELIMIT, "udp: the interfaces cannot be listed: %m; raise the limit, 'ulimit -n'")
                   : lli_fail(log, LLM_ESYSTEM, "udp: the interfaces cannot be listed: %m");
    if (wanted[0] != '\0')
        status = interface_wanted(log, list, wanted, group->any.sa_family, &found);
    else
        found = interface_default(list, group);
    if (status == 0 && found == NULL)
        status = lli_fail(log, LLM_EINTERFACE, "udp: no interface is up with an %s address; 'ip address' lists them",
                          group->any.sa_family == AF_INET ? "IPv4" : "IPv6");
    if (status == 0)
        status = interface_take(log, found, interface);
    freeifaddrs(list);
    return status;
}

/* ---------------------------------------------------------------------------------------- addresses in packets */

enum { PACKED_V4_BYTES = 1 + 4 + 2, PACKED_V6_BYTES = 1 + 16 + 2 };

void lli_udp_pack(const union lli_udp_address *address, struct lli_address *packed)
{
    const bool v4 = address->any.sa_family == AF_INET;
    const size_t bytes = v4 ? 4 : 16;
    const uint16_t port = address_port(address);

    memset(packed, 0, sizeof *packed);
    packed->size = v4 ? PACKED_V4_BYTES : PACKED_V6_BYTES;
    packed->bytes[0] = v4 ? 4 : 6;
    memcpy(packed->bytes + 1, address_bytes(address), bytes);
    memcpy(packed->bytes + 1 + bytes, &port, sizeof port);
}

/* Whether a packet to it goes to one host, by way of our interface: NAKs must not be aimed at anything else. */
static bool peer_acceptable_v4(const struct lli_udp *udp, const union lli_udp_address *address)
{
    const uint32_t host = address_v4(address);
    const uint32_t network = host >> 24;

    if (network == IN_LOOPBACKNET)
        return (udp->interface.flags & IFF_LOOPBACK) != 0;
    return network != 0 && network < 224 && !address_same_host(address, &udp->interface.broadcast);
}

static bool peer_acceptable_v6(const struct lli_udp *udp, const union lli_udp_address *address)
{
    const struct in6_addr *host = &address->v6.sin6_addr;

    if (IN6_IS_ADDR_LOOPBACK(host))
        return (udp->interface.flags & IFF_LOOPBACK) != 0;
    return !IN6_IS_ADDR_UNSPECIFIED(host) && !IN6_IS_ADDR_MULTICAST(host) && !IN6_IS_ADDR_V4MAPPED(host) &&
           !IN6_IS_ADDR_V4COMPAT(host);
}

static bool peer_unpack(const struct lli_udp *udp, const struct lli_address *packed, union lli_udp_address *address)
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
        /* A scope means nothing on another host; whoever we hear is on our interface. */
        if (IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr))
            address->v6.sin6_scope_id = (uint32_t)udp->interface.index;
    }
    if (address_port(address) == 0)
        return false;
    return udp->family == AF_INET ? peer_acceptable_v4(udp, address) : peer_acceptable_v6(udp, address);
}

/* ------------------------------------------------------------------------------------------------------ peers */

int lli_udp_peers_init(struct lli_udp_peers *peers, uint32_t max)
{
    uint32_t slots = 64;

    while (slots < 2 * max)
        slots *= 2;
    peers->max = max;
    peers->slot_mask = slots - 1;
    peers->addresses = calloc(max, sizeof *peers->addresses);
    peers->slots = calloc(slots, sizeof *peers->slots);
    peers->seed = lli_entropy();
    return peers->addresses == NULL || peers->slots == NULL ? LLM_ENOMEM : 0;
}

void lli_udp_peers_fini(struct lli_udp_peers *peers)
{
    free(peers->addresses);
    free(peers->slots);
    memset(peers, 0, sizeof *peers);
}

static uint64_t peers_mix(uint64_t value)
{
    value = (value ^ value >> 32) * 0x9e3779b97f4a7c15u;
    return value ^ value >> 29;
}

static uint32_t peers_hash(const struct lli_udp_peers *peers, const struct lli_address *packed)
{
    uint64_t words[3] = {0};
    uint64_t hash = peers->seed;

    memcpy(words, packed->bytes, packed->size);
    for (int i = 0; i < 3; i++)
        hash = peers_mix(hash ^ words[i]);
    return (uint32_t)(hash >> 32);
}

int lli_udp_peer(void *instance, const struct lli_address *packed, lli_handle *handle)
{
    struct lli_udp *udp = instance;
    struct lli_udp_peers *peers = &udp->peers;
    union lli_udp_address address;
    uint32_t slot;

    if (!peer_unpack(udp, packed, &address))
        return LLM_EINVAL;
    /* Half of the slots stay empty, so the search ends. */
    slot = peers_hash(peers, packed) & peers->slot_mask;
    for (; peers->slots[slot] != 0; slot = (slot + 1) & peers->slot_mask) {
        if (lli_udp_same(&peers->addresses[peers->slots[slot] - 1], &address)) {
            *handle = LLI_UDP_PEER | (peers->slots[slot] - 1);
            return 0;
        }
    }
    if (peers->count == peers->max)
        return LLM_ELIMIT;
    peers->addresses[peers->count] = address;
    *handle = LLI_UDP_PEER | peers->count;
    peers->slots[slot] = ++peers->count;
    return 0;
}
