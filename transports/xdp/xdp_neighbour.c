/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "xdp_neighbour.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_BYTES = 4096 };

/* Neighbour states in which the kernel would send without probing. */
#define STATES_KNOWN (NUD_REACHABLE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP)

/* Netlink request: header, message header, attributes. */
struct query {
    struct nlmsghdr header;
    union {
        struct rtmsg route;
        struct ndmsg neighbour;
    } of;
    uint8_t attributes[128];
};

/* Netlink answer. */
struct answer {
    _Alignas(struct nlmsghdr) uint8_t bytes[ANSWER_BYTES];
    size_t size;
};

int lli_xdp_neighbour_open(const struct lli_log *log, const struct lli_ip_interface *interface, int *fd)
{
    *fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (*fd >= 0)
        return 0;
    if (errno == EMFILE || errno == ENFILE)
        return lli_fail(log, LLM_ELIMIT,
                        "xdp: socket for routes of interface %s: %m; raise the limit of open files, "
                        "'ulimit -n'",
                        interface->name);
    return lli_fail(log, LLM_ESYSTEM, "xdp: socket for routes of interface %s: %m", interface->name);
}

static size_t address_bytes(const union lli_ip_address *address)
{
    return address->any.sa_family == AF_INET ? 4 : 16;
}

static void question_begin(struct query *query, uint16_t type, size_t size)
{
    memset(query, 0, sizeof *query);
    query->header.nlmsg_type = type;
    query->header.nlmsg_flags = NLM_F_REQUEST;
    query->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(size);
}

static void question_add(struct query *query, uint16_t type, const void *data, size_t size)
{
    const struct rtattr attribute = {.rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(size)};
    uint8_t *place = (uint8_t *)query + NLMSG_ALIGN(query->header.nlmsg_len);

    memcpy(place, &attribute, sizeof attribute);
    memcpy(place + RTA_LENGTH(0), data, size);
    query->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(query->header.nlmsg_len) + RTA_LENGTH(size));
}

/*
 * Sends a request and reads the answer, which the kernel writes before send() returns. NULL: no answer of
 * this type and size.
 */
static const void *query_send(int fd, struct query *query, uint16_t type, size_t size, struct answer *answer)
{
    const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)answer->bytes;
    static _Thread_local uint32_t number;
    ssize_t got;

    query->header.nlmsg_seq = ++number;
    if (send(fd, query, query->header.nlmsg_len, 0) < 0)
        return NULL;
    /* Skip the answer to an earlier request. */
    do
        got = recv(fd, answer->bytes, sizeof answer->bytes, 0);
    while (got >= (ssize_t)sizeof *header && header->nlmsg_seq != number);
    if (got < (ssize_t)NLMSG_LENGTH(size) || header->nlmsg_type != type || header->nlmsg_len > (size_t)got ||
        header->nlmsg_len < NLMSG_LENGTH(size))
        return NULL;
    answer->size = header->nlmsg_len;
    return answer->bytes + NLMSG_LENGTH(0);
}

/* Returns an attribute of at least size bytes, following a message header of the given size; or NULL. */
static const void *answer_find(const struct answer *answer, size_t header, uint16_t type, size_t size)
{
    size_t at = NLMSG_ALIGN(NLMSG_LENGTH(header));
    struct rtattr attribute;

    while (at + sizeof attribute <= answer->size) {
        memcpy(&attribute, answer->bytes + at, sizeof attribute);
        if (attribute.rta_len < sizeof attribute || attribute.rta_len > answer->size - at)
            return NULL;
        if (attribute.rta_type == type && attribute.rta_len >= RTA_LENGTH(size))
            return answer->bytes + at + RTA_LENGTH(0);
        at += RTA_ALIGN(attribute.rta_len);
    }
    return NULL;
}

/* Finds the next hop to a host: a gateway, or the host itself. */
static enum lli_xdp_hop route_find(int fd, const struct lli_ip_interface *interface,
                                   const union lli_ip_address *host, uint8_t next[16])
{
    const size_t bytes = address_bytes(host);
    const struct rtmsg *route;
    struct query query;
    struct answer answer;
    const void *found;
    uint32_t index = 0;

    question_begin(&query, RTM_GETROUTE, sizeof query.of.route);
    query.of.route.rtm_family = (uint8_t)host->any.sa_family;
    query.of.route.rtm_dst_len = query.of.route.rtm_src_len = (uint8_t)(8 * bytes);
    question_add(&query, RTA_DST, lli_ip_bytes(host), bytes);
    question_add(&query, RTA_SRC, lli_ip_bytes(&interface->address), bytes);
    /* A link-local address is valid on this interface only. */
    if (host->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&host->v6.sin6_addr))
        question_add(&query, RTA_OIF, &interface->index, sizeof interface->index);
    route = query_send(fd, &query, RTM_NEWROUTE, sizeof *route, &answer);
    if (route == NULL)
        return LLI_XDP_HOP_DEAD;
    found = answer_find(&answer, sizeof *route, RTA_OIF, sizeof index);
    if (found != NULL)
        memcpy(&index, found, sizeof index);
    /* RTA_VIA: a gateway of the other address family, which only the kernel can use. */
    if (route->rtm_type != RTN_UNICAST || index != (uint32_t)interface->index ||
        answer_find(&answer, sizeof *route, RTA_VIA, 0) != NULL)
        return route->rtm_type == RTN_UNREACHABLE ? LLI_XDP_HOP_DEAD : LLI_XDP_HOP_ELSEWHERE;
    found = answer_find(&answer, sizeof *route, RTA_GATEWAY, bytes);
    memcpy(next, found != NULL ? found : lli_ip_bytes(host), bytes);
    return LLI_XDP_HOP_KNOWN;
}

enum lli_xdp_hop lli_xdp_neighbour_find(int fd, const struct lli_ip_interface *interface,
                                        const union lli_ip_address *host, uint8_t mac[LLI_XDP_MAC_BYTES])
{
    const struct ndmsg *neighbour;
    struct query query;
    struct answer answer;
    const void *found;
    uint8_t next[16];
    const enum lli_xdp_hop hop = route_find(fd, interface, host, next);

    if (hop != LLI_XDP_HOP_KNOWN)
        return hop;
    question_begin(&query, RTM_GETNEIGH, sizeof query.of.neighbour);
    query.of.neighbour.ndm_family = (uint8_t)host->any.sa_family;
    query.of.neighbour.ndm_ifindex = interface->index;
    question_add(&query, NDA_DST, next, address_bytes(host));
    neighbour = query_send(fd, &query, RTM_NEWNEIGH, sizeof *neighbour, &answer);
    if (neighbour == NULL)
        return LLI_XDP_HOP_UNKNOWN;
    if (neighbour->ndm_state & NUD_FAILED)
        return LLI_XDP_HOP_DEAD;
    found = answer_find(&answer, sizeof *neighbour, NDA_LLADDR, LLI_XDP_MAC_BYTES);
    if (found == NULL || (neighbour->ndm_state & (STATES_KNOWN | NUD_STALE)) == 0)
        return LLI_XDP_HOP_UNKNOWN;
    memcpy(mac, found, LLI_XDP_MAC_BYTES);
    return neighbour->ndm_state & NUD_STALE ? LLI_XDP_HOP_STALE : LLI_XDP_HOP_KNOWN;
}
