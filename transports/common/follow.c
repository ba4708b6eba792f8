/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "follow.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <unistd.h>

enum { FOLLOW_BYTES = 16384 };

/* Buffer for one or more netlink messages. */
struct follow_text {
    _Alignas(struct nlmsghdr) uint8_t bytes[FOLLOW_BYTES];
};

void lli_follow_open(struct lli_follow *follow, const struct lli_log *log, const char *scheme,
                     const struct lli_ip_interface *interface)
{
    const struct sockaddr_nl groups = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_LINK |
                     (interface->address.any.sa_family == AF_INET ? RTMGRP_IPV4_IFADDR : RTMGRP_IPV6_IFADDR),
    };

    *follow = (struct lli_follow){.index = interface->index, .family = interface->address.any.sa_family};
    follow->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (follow->fd >= 0 && bind(follow->fd, (const struct sockaddr *)&groups, sizeof groups) == 0)
        return;
    lli_log(log, LLM_LEVEL_INFO, "%s: changes of the address or MTU of interface %s will not be noticed: %m",
            scheme, interface->name);
    lli_follow_close(follow);
}

void lli_follow_close(struct lli_follow *follow)
{
    if (follow->fd >= 0)
        close(follow->fd);
    follow->fd = -1;
}

static size_t family_bytes(sa_family_t family)
{
    return family == AF_INET ? 4 : 16;
}

/* Returns the payload of an attribute of an address message, or NULL. */
static const void *address_attribute(const struct nlmsghdr *header, uint16_t type, size_t size)
{
    const uint8_t *at = (const uint8_t *)header + NLMSG_ALIGN(NLMSG_LENGTH(sizeof(struct ifaddrmsg)));
    const uint8_t *end = (const uint8_t *)header + header->nlmsg_len;
    struct rtattr attribute;

    while ((size_t)(end - at) >= sizeof attribute && at < end) {
        memcpy(&attribute, at, sizeof attribute);
        if (attribute.rta_len < sizeof attribute || attribute.rta_len > end - at)
            return NULL;
        if (attribute.rta_type == type && attribute.rta_len >= RTA_LENGTH(size))
            return at + RTA_LENGTH(0);
        if (RTA_ALIGN(attribute.rta_len) >= (size_t)(end - at))
            return NULL;
        at += RTA_ALIGN(attribute.rta_len);
    }
    return NULL;
}

/*
 * Reads the host's own address from an address message. False: the message is about another interface or
 * family.
 */
static bool address_read(const struct lli_follow *follow, const struct nlmsghdr *header,
                         union lli_ip_address *address)
{
    const struct ifaddrmsg *about = (const void *)((const uint8_t *)header + NLMSG_LENGTH(0));
    const size_t bytes = family_bytes(follow->family);
    const void *found;

    if (header->nlmsg_len < NLMSG_LENGTH(sizeof *about) || about->ifa_family != follow->family ||
        about->ifa_index != (uint32_t)follow->index)
        return false;
    /* On point-to-point links IFA_ADDRESS is the peer's address. */
    found = address_attribute(header, IFA_LOCAL, bytes);
    if (found == NULL)
        found = address_attribute(header, IFA_ADDRESS, bytes);
    memset(address, 0, sizeof *address);
    address->any.sa_family = follow->family;
    if (found != NULL)
        memcpy(follow->family == AF_INET ? (void *)&address->v4.sin_addr : (void *)&address->v6.sin6_addr,
               found, bytes);
    if (follow->family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr))
        address->v6.sin6_scope_id = (uint32_t)follow->index;
    return found != NULL;
}

static bool same_host(const union lli_ip_address *a, const union lli_ip_address *b)
{
    return memcmp(lli_ip_bytes(a), lli_ip_bytes(b), family_bytes(a->any.sa_family)) == 0;
}

/* Returns the changes that a notification reports, as enum lli_follow_changes. */
static unsigned message_changes(const struct lli_follow *follow, const struct nlmsghdr *header,
                                const union lli_ip_address *own)
{
    const struct ifinfomsg *link = (const void *)((const uint8_t *)header + NLMSG_LENGTH(0));
    union lli_ip_address address;

    if (header->nlmsg_type == RTM_NEWLINK || header->nlmsg_type == RTM_DELLINK)
        return header->nlmsg_len >= NLMSG_LENGTH(sizeof *link) && link->ifi_index == follow->index
                   ? LLI_FOLLOW_CHANGED
                   : 0;
    if ((header->nlmsg_type != RTM_NEWADDR && header->nlmsg_type != RTM_DELADDR) ||
        !address_read(follow, header, &address))
        return 0;
    return header->nlmsg_type == RTM_DELADDR && same_host(&address, own)
               ? LLI_FOLLOW_CHANGED | LLI_FOLLOW_LOST
               : LLI_FOLLOW_CHANGED;
}

unsigned lli_follow_changes(struct lli_follow *follow, const union lli_ip_address *own)
{
    unsigned changes = follow->changes;
    struct follow_text text;
    ssize_t got;

    follow->changes = 0;
    while (follow->fd >= 0 &&
           ((got = recv(follow->fd, text.bytes, sizeof text.bytes, 0)) > 0 || errno == ENOBUFS)) {
        const struct nlmsghdr *header = (const void *)text.bytes;
        long left = got > 0 ? got : 0;

        /* ENOBUFS: the kernel dropped notifications. */
        if (got < 0)
            changes |= LLI_FOLLOW_CHANGED;
        for (; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left))
            changes |= message_changes(follow, header, own);
    }
    return changes;
}

/* ---------------------------------------------------------------------------------------------- addresses */

static bool addresses_request(struct lli_follow *follow)
{
    const struct {
        struct nlmsghdr header;
        struct ifaddrmsg about;
    } query = {
        .header =
            {
                .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
                .nlmsg_type = RTM_GETADDR,
                .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                .nlmsg_seq = ++follow->number,
            },
        .about = {.ifa_family = (uint8_t)follow->family},
    };

    return send(follow->fd, &query, query.header.nlmsg_len, 0) >= 0;
}

/*
 * Ranks an address: 0 unusable (such as during duplicate address detection), 1 link-local, 2 other, 3 the
 * current one.
 */
static int address_rank(const struct nlmsghdr *header, const union lli_ip_address *address,
                        const union lli_ip_address *own)
{
    const struct ifaddrmsg *about = (const void *)((const uint8_t *)header + NLMSG_LENGTH(0));

    if (about->ifa_flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED))
        return 0;
    if (same_host(address, own))
        return 3;
    return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr) ? 1 : 2;
}

static void address_take(const struct nlmsghdr *header, const union lli_ip_address *address,
                         struct lli_follow_address *found)
{
    const struct ifaddrmsg *about = (const void *)((const uint8_t *)header + NLMSG_LENGTH(0));

    found->address = *address;
    memset(&found->broadcast, 0, sizeof found->broadcast);
    /* Networks of two hosts have no broadcast address (RFC 3021). */
    if (address->any.sa_family != AF_INET || about->ifa_prefixlen > 30)
        return;
    found->broadcast = *address;
    found->broadcast.v4.sin_addr.s_addr |= htonl(UINT32_MAX >> about->ifa_prefixlen);
}

bool lli_follow_address(struct lli_follow *follow, const union lli_ip_address *own,
                        struct lli_follow_address *found)
{
    struct follow_text text;
    ssize_t got;
    int rank, best = 0;

    memset(found, 0, sizeof *found);
    if (follow->fd < 0 || !addresses_request(follow))
        return false;
    /* The kernel generates each part of the dump after the previous one is read. */
    while ((got = recv(follow->fd, text.bytes, sizeof text.bytes, 0)) > 0) {
        const struct nlmsghdr *header = (const void *)text.bytes;
        long left = got;

        for (; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left)) {
            union lli_ip_address address;

            if (header->nlmsg_seq != follow->number) {
                follow->changes |= message_changes(follow, header, own);
                continue;
            }
            if (header->nlmsg_type == NLMSG_DONE)
                return true;
            if (header->nlmsg_type != RTM_NEWADDR)
                return false;
            if (!address_read(follow, header, &address) ||
                (rank = address_rank(header, &address, own)) <= best)
                continue;
            best = rank;
            address_take(header, &address, found);
        }
    }
    return false;
}
