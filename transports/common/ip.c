/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "ip.h"

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

enum {
    IPV4_MTU_MIN = 576,  /* RFC 791: every host accepts this */
    IPV6_MTU_MIN = 1280, /* RFC 8200, section 5 */
    MTU_DEFAULT_MAX = 9000,
};

/* ---------------------------------------------------------------------------------------------- addresses */

static uint32_t address_v4(const union lli_ip_address *address)
{
    return ntohl(address->v4.sin_addr.s_addr);
}

bool lli_ip_multicast(const union lli_ip_address *address)
{
    if (address->any.sa_family == AF_INET)
        return IN_MULTICAST(address_v4(address));
    return IN6_IS_ADDR_MULTICAST(&address->v6.sin6_addr);
}

/* Compares hosts; ignores ports. */
static bool address_same_host(const union lli_ip_address *a, const union lli_ip_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
}

uint16_t lli_ip_port(const union lli_ip_address *address)
{
    return address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port;
}

bool lli_ip_same(const union lli_ip_address *a, const union lli_ip_address *b)
{
    if (a->any.sa_family == AF_UNSPEC)
        return b->any.sa_family == AF_UNSPEC;
    return address_same_host(a, b) && lli_ip_port(a) == lli_ip_port(b);
}

socklen_t lli_ip_length(const union lli_ip_address *address)
{
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

void lli_ip_port_set(union lli_ip_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET)
        address->v4.sin_port = htons(port);
    else
        address->v6.sin6_port = htons(port);
}

const void *lli_ip_bytes(const union lli_ip_address *address)
{
    return address->any.sa_family == AF_INET ? (const void *)&address->v4.sin_addr : &address->v6.sin6_addr;
}

const char *lli_ip_text(const union lli_ip_address *address, char text[LLI_IP_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN];
    const bool v4 = address->any.sa_family == AF_INET;

    if (inet_ntop(address->any.sa_family, lli_ip_bytes(address), host, sizeof host) == NULL)
        host[0] = '\0';
    snprintf(text, LLI_IP_TEXT_MAX, v4 ? "%s:%u" : "[%s]:%u", host, (unsigned)ntohs(lli_ip_port(address)));
    return text;
}

int lli_ip_resolve(const struct lli_log *log, const char *scheme, int error, const char *what,
                   const char *host, sa_family_t family, union lli_ip_address *address)
{
    const struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    int status = host[0] == '\0' ? EAI_NONAME : getaddrinfo(host, NULL, &hints, &found);

    if (status != 0)
        return lli_fail(log, error, "%s: %s '%s': %s; it takes an %s address or a name that has one", scheme,
                        what, host, gai_strerror(status),
                        family == AF_INET    ? "IPv4"
                        : family == AF_INET6 ? "IPv6"
                                             : "IP");
    memset(address, 0, sizeof *address);
    memcpy(address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

/* --------------------------------------------------------------------------------------------- interfaces */

static bool interface_link_local(const struct ifaddrs *entry)
{
    return entry->ifa_addr->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr);
}

static void interface_copy(union lli_ip_address *to, const struct sockaddr *from)
{
    memset(to, 0, sizeof *to);
    memcpy(to, from, from->sa_family == AF_INET ? sizeof to->v4 : sizeof to->v6);
}

static bool interface_has_family(const struct ifaddrs *entry, sa_family_t family)
{
    return entry->ifa_addr != NULL && entry->ifa_addr->sa_family == family;
}

static bool interface_has_address(const struct ifaddrs *entry, const union lli_ip_address *address)
{
    union lli_ip_address own;

    if (!interface_has_family(entry, address->any.sa_family))
        return false;
    interface_copy(&own, entry->ifa_addr);
    return address_same_host(&own, address);
}

/* Returns the entry that has the address, or NULL. */
static const struct ifaddrs *interface_by_address(const struct ifaddrs *list,
                                                  const union lli_ip_address *address)
{
    for (; list != NULL; list = list->ifa_next)
        if (interface_has_address(list, address))
            return list;
    return NULL;
}

/* Returns the entry of an interface's address in a family, preferably not link-local; or NULL. */
static const struct ifaddrs *interface_by_name(const struct ifaddrs *list, const char *name,
                                               sa_family_t family)
{
    const struct ifaddrs *found = NULL;

    for (; list != NULL; list = list->ifa_next)
        if (strcmp(list->ifa_name, name) == 0 && interface_has_family(list, family) &&
            (found == NULL || interface_link_local(found)))
            found = list;
    return found;
}

/* Returns the flags, besides IFF_UP, that an interface needs to carry packets to a group. */
static unsigned interface_needs(const union lli_ip_address *group)
{
    return lli_ip_multicast(group) ? IFF_MULTICAST : 0;
}

static bool interface_fits(const struct ifaddrs *entry)
{
    const unsigned needed = IFF_UP | IFF_MULTICAST;

    return (entry->ifa_flags & needed) == needed && (entry->ifa_flags & IFF_LOOPBACK) == 0;
}

/* Gets the kernel's choice of source address for the group by connecting a socket; sends nothing. */
static bool interface_route_source(const union lli_ip_address *group, union lli_ip_address *source)
{
    const int fd = socket(group->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    union lli_ip_address to = *group;
    socklen_t length = sizeof *source;
    bool found;

    if (fd < 0)
        return false;
    lli_ip_port_set(&to, 9);
    memset(source, 0, sizeof *source);
    found = connect(fd, &to.any, lli_ip_length(&to)) == 0 && getsockname(fd, &source->any, &length) == 0;
    close(fd);
    return found;
}

static const struct ifaddrs *interface_default(const struct ifaddrs *list, const union lli_ip_address *group)
{
    const sa_family_t family = group->any.sa_family;
    union lli_ip_address source;
    const struct ifaddrs *found =
        interface_route_source(group, &source) ? interface_by_address(list, &source) : NULL;
    const struct ifaddrs *loopback = NULL;

    /* A unicast host can be reached only by its route. */
    if (found != NULL && (interface_fits(found) || !lli_ip_multicast(group)))
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

/* Finds the interface given by name or by address in the option. */
static int interface_wanted(const struct lli_log *log, const char *scheme, const struct ifaddrs *list,
                            const char *wanted, sa_family_t family, const struct ifaddrs **found)
{
    union lli_ip_address address = {0};
    const struct ifaddrs *entry = NULL;
    const char *name = wanted;

    if (inet_pton(AF_INET, wanted, &address.v4.sin_addr) == 1)
        address.any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, wanted, &address.v6.sin6_addr) == 1)
        address.any.sa_family = AF_INET6;
    if (address.any.sa_family != AF_UNSPEC) {
        entry = interface_by_address(list, &address);
        if (entry == NULL)
            return lli_fail(log, LLM_EINTERFACE,
                            "%s: no interface has the address %s; 'ip address' lists them", scheme, wanted);
        name = entry->ifa_name;
    } else if (if_nametoindex(wanted) == 0) {
        return lli_fail(log, LLM_EINTERFACE, "%s: there is no interface %s; 'ip link' lists those there are",
                        scheme, wanted);
    }
    if (entry == NULL || entry->ifa_addr->sa_family != family)
        entry = interface_by_name(list, name, family);
    if (entry == NULL)
        return lli_fail(log, LLM_EINTERFACE,
                        "%s: interface %s has no %s address; 'ip address add' gives it one", scheme, wanted,
                        family == AF_INET ? "IPv4" : "IPv6");
    *found = entry;
    return 0;
}

static int interface_mtu(const struct lli_log *log, const char *scheme, const char *name, uint32_t *mtu)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {0};
    int status = -1;

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd >= 0)
        status = ioctl(fd, SIOCGIFMTU, &request);
    if (status < 0)
        lli_fail(log, LLM_ESYSTEM, "%s: the MTU of interface %s cannot be read: %m", scheme, name);
    else
        *mtu = (uint32_t)request.ifr_mtu;
    if (fd >= 0)
        close(fd);
    return status < 0 ? LLM_ESYSTEM : 0;
}

/* Returns true if packets may pass a switch, which must queue them; false for loopback and veth. */
static bool interface_is_wire(const struct lli_ip_interface *interface)
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

/* Derives the broadcast address; networks of two hosts have none (RFC 3021). */
static void interface_broadcast(const struct ifaddrs *entry, struct lli_ip_interface *interface)
{
    union lli_ip_address mask;

    if (entry->ifa_addr->sa_family != AF_INET || entry->ifa_netmask == NULL)
        return;
    interface_copy(&mask, entry->ifa_netmask);
    if (ntohl(mask.v4.sin_addr.s_addr) >= 0xfffffffe)
        return;
    interface->broadcast = interface->address;
    interface->broadcast.v4.sin_addr.s_addr |= ~mask.v4.sin_addr.s_addr;
}

/* Checks the interface: one named by the option may be unusable. */
static int interface_take(const struct lli_log *log, const char *scheme, const struct ifaddrs *entry,
                          unsigned needs, struct lli_ip_interface *interface)
{
    const char *name = entry->ifa_name;

    if ((entry->ifa_flags & IFF_UP) == 0)
        return lli_fail(log, LLM_EINTERFACE, "%s: interface %s is down; 'ip link set %s up' brings it up",
                        scheme, name, name);
    if (needs != 0 && (entry->ifa_flags & (needs | IFF_LOOPBACK)) == 0)
        return lli_fail(log, LLM_EINTERFACE,
                        "%s: interface %s does no multicast; 'ip link set %s multicast on', or take another",
                        scheme, name, name);
    memset(interface, 0, sizeof *interface);
    snprintf(interface->name, sizeof interface->name, "%s", name);
    interface->index = (int)if_nametoindex(name);
    interface->flags = entry->ifa_flags;
    interface_copy(&interface->address, entry->ifa_addr);
    interface->wire = interface_is_wire(interface);
    interface_broadcast(entry, interface);
    return interface_mtu(log, scheme, name, &interface->mtu);
}

int lli_ip_interface_find(const struct lli_log *log, const char *scheme, const char *wanted,
                          const union lli_ip_address *group, struct lli_ip_interface *interface)
{
    const struct ifaddrs *found = NULL;
    struct ifaddrs *list = NULL;
    int status = 0;

    if (getifaddrs(&list) != 0)
        return errno == EMFILE
                   ? lli_fail(log, LLM_ELIMIT,
                              "%s: the interfaces cannot be listed: %m; raise the limit, 'ulimit -n'", scheme)
                   : lli_fail(log, LLM_ESYSTEM, "%s: the interfaces cannot be listed: %m", scheme);
    if (wanted[0] != '\0')
        status = interface_wanted(log, scheme, list, wanted, group->any.sa_family, &found);
    else
        found = interface_default(list, group);
    if (status == 0 && found == NULL)
        status = lli_fail(log, LLM_EINTERFACE,
                          "%s: no interface is up with an %s address; 'ip address' lists them", scheme,
                          group->any.sa_family == AF_INET ? "IPv4" : "IPv6");
    if (status == 0)
        status = interface_take(log, scheme, found, interface_needs(group), interface);
    freeifaddrs(list);
    return status;
}

/*
 * Returns true if packets to the address go to one host by the interface. NAKs must not be sent to anything
 * else.
 */
static bool host_acceptable_v4(const struct lli_ip_interface *interface, const union lli_ip_address *address)
{
    const uint32_t host = address_v4(address);
    const uint32_t network = host >> 24;

    if (network == IN_LOOPBACKNET)
        return (interface->flags & IFF_LOOPBACK) != 0;
    return network != 0 && network < 224 && !address_same_host(address, &interface->broadcast);
}

static bool host_acceptable_v6(const struct lli_ip_interface *interface, const union lli_ip_address *address)
{
    const struct in6_addr *host = &address->v6.sin6_addr;

    if (IN6_IS_ADDR_LOOPBACK(host))
        return (interface->flags & IFF_LOOPBACK) != 0;
    return !IN6_IS_ADDR_UNSPECIFIED(host) && !IN6_IS_ADDR_MULTICAST(host) && !IN6_IS_ADDR_V4MAPPED(host) &&
           !IN6_IS_ADDR_V4COMPAT(host);
}

bool lli_ip_is_host(const struct lli_ip_interface *interface, const union lli_ip_address *address)
{
    return address->any.sa_family == AF_INET ? host_acceptable_v4(interface, address)
                                             : host_acceptable_v6(interface, address);
}

/* -------------------------------------------------------------------------------------------- groups, MTU */

int lli_ip_group_resolve(const struct lli_log *log, const char *scheme, const char *host, sa_family_t family,
                         union lli_ip_address *address)
{
    const int status = lli_ip_resolve(log, scheme, LLM_EGROUP, "group", host, family, address);

    if (status == 0 && !lli_ip_multicast(address))
        return lli_fail(log, LLM_EGROUP,
                        "%s: group '%s' is not multicast: take one of 239.0.0.0/8, 232.0.0.0/8 or ff00::/8",
                        scheme, host);
    return status;
}

int lli_ip_mtu_choose(const struct lli_log *log, const char *scheme, const struct lli_ip_interface *interface,
                      uint32_t wanted, uint32_t *mtu)
{
    const uint32_t least = interface->address.any.sa_family == AF_INET ? IPV4_MTU_MIN : IPV6_MTU_MIN;
    const uint32_t most = interface->mtu < UINT16_MAX ? interface->mtu : UINT16_MAX;

    *mtu = wanted;
    if (wanted == 0)
        *mtu = most < MTU_DEFAULT_MAX ? most : MTU_DEFAULT_MAX;
    else if (wanted < least || wanted > most)
        return lli_fail(log, LLM_EOPTION, "%s: mtu=%u is not in %u to %u, which interface %s can carry",
                        scheme, wanted, least, most, interface->name);
    return 0;
}

bool lli_ip_is_from(const struct lli_address *packed, const void *host)
{
    const size_t bytes = packed->bytes[0] == 4 ? 4 : 16;

    return packed->size == 1 + bytes + 2 && (packed->bytes[0] == 4 || packed->bytes[0] == 6) &&
           memcmp(packed->bytes + 1, host, bytes) == 0;
}
