/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins: groups to receive, which the program redirects, and groups and unicast hosts to send to, whose
 * neighbours are looked up.
 */
#include "xdp.h"

#include <string.h>

#include "system/clock.h"

enum { HOST_TTL = 64 }; /* the kernel's default; option ttl applies to groups only */

/* Intervals of neighbour lookups: while the kernel resolves the neighbour, and afterwards. */
#define HOST_LOOK_SOON ((lli_ns)2000000)
#define HOST_LOOK ((lli_ns)1000000000)

uint32_t lli_xdp_group_hash(const union lli_ip_address *group)
{
    const uint8_t *bytes = lli_ip_bytes(group);
    uint32_t tail;

    memcpy(&tail, bytes + (group->any.sa_family == AF_INET ? 0 : 12), sizeof tail);
    return (tail ^ (uint32_t)lli_ip_port(group) << 7) * 0x9e3779b1u >> 23 & (LLI_XDP_GROUP_SLOTS - 1);
}

/* Counts the joins of a group; each has a different source. */
static uint32_t group_count(const struct lli_xdp *xdp, const union lli_ip_address *group)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < LLI_XDP_GROUPS_MAX; i++)
        count += xdp->groups.table[i].users > 0 && lli_ip_same(&xdp->groups.table[i].group, group);
    return count;
}

static bool group_hears_own(const struct lli_xdp *xdp, const struct lli_xdp_group *joined)
{
    const size_t bytes = xdp->family == AF_INET ? 4 : 16;

    return joined->users > 0 &&
           (joined->source.any.sa_family == AF_UNSPEC ||
            memcmp(lli_ip_bytes(&joined->source), lli_ip_bytes(&xdp->link.own), bytes) == 0);
}

/*
 * Decides which groups also go through the kernel: those that receivers on this host should get and that this
 * instance has joined. Only for joined groups does the kernel keep packets with a TTL of 0 from leaving the
 * host.
 */
static void loops_settle(struct lli_xdp *xdp)
{
    for (uint32_t i = 0; i < LLI_XDP_GROUPS_MAX; i++) {
        struct lli_xdp_sender *sender = &xdp->senders.table[i];

        if (sender->open && sender->host)
            continue;
        sender->loops = false;
        for (uint32_t j = 0; j < LLI_XDP_GROUPS_MAX && sender->open && sender->loop; j++)
            sender->loops |= group_hears_own(xdp, &xdp->groups.table[j]) &&
                             lli_ip_same(&xdp->groups.table[j].group, &sender->group);
    }
}

/*
 * Updates the program: it redirects groups joined once. Groups joined several times (by source) are left to
 * the kernel, which selects by source and makes copies.
 */
static int group_settle(struct lli_xdp *xdp, const union lli_ip_address *group)
{
    loops_settle(xdp);
    memset(xdp->groups.slots, 0, sizeof xdp->groups.slots);
    for (uint32_t i = 0; i < LLI_XDP_GROUPS_MAX; i++) {
        const struct lli_xdp_group *one = &xdp->groups.table[i];
        uint32_t slot;

        if (one->users == 0 || group_count(xdp, &one->group) > 1)
            continue;
        slot = lli_xdp_group_hash(&one->group);
        while (xdp->groups.slots[slot] != 0)
            slot = (slot + 1) & (LLI_XDP_GROUP_SLOTS - 1);
        xdp->groups.slots[slot] = (uint16_t)(i + 1);
    }
    return lli_xdp_program_group(&xdp->program, xdp->log, group, group_count(xdp, group) == 1);
}

static int join_receive(struct lli_xdp *xdp, const struct lli_group *group,
                        const union lli_ip_address *address, lli_handle handle)
{
    struct lli_xdp_group *joined = &xdp->groups.table[handle];
    const char *source = group->options->source;
    int status = 0;

    if (joined->users++ > 0)
        return 0;
    joined->group = *address;
    joined->source.any.sa_family = AF_UNSPEC;
    if (source[0] != '\0')
        status = lli_ip_resolve(xdp->log, "xdp", LLM_EOPTION, "source", source, xdp->family, &joined->source);
    if (status == 0)
        status = group_settle(xdp, address);
    if (status != 0)
        lli_xdp_leave(xdp, handle, LLI_JOIN_RECEIVE);
    return status;
}

static void join_send(struct lli_xdp *xdp, const struct lli_group *group, const union lli_ip_address *address,
                      lli_handle handle)
{
    struct lli_xdp_sender *sender = &xdp->senders.table[handle];
    const bool host = !lli_ip_multicast(address);
    const uint32_t ttl = host ? HOST_TTL : group->options->ttl;

    *sender = (struct lli_xdp_sender){.group = *address, .host = host, .loops = host};
    sender->ttl = (uint8_t)ttl;
    lli_xdp_header_init(&sender->header, xdp->link.mac, &xdp->link.own, address, sender->ttl);
    sender->open = true;
    sender->wire = !host && ttl > 0;
    sender->loop = !host && group->options->loop != 0;
    if (host)
        xdp->senders.look_at = 0;
    loops_settle(xdp);
}

/* Decides how packets to a host are sent, by the state of its neighbour. */
static void host_settle(struct lli_xdp *xdp, struct lli_xdp_sender *sender, lli_ns now)
{
    uint8_t mac[LLI_XDP_MAC_BYTES];
    const enum lli_xdp_hop hop =
        lli_xdp_neighbour_find(xdp->senders.neighbours, &xdp->link.interface, &sender->group, mac);
    const bool dead = hop == LLI_XDP_HOP_DEAD;

    sender->wire = hop >= LLI_XDP_HOP_STALE;
    sender->loops = !sender->wire;
    sender->nudge = hop == LLI_XDP_HOP_STALE;
    sender->look_at = now + (hop == LLI_XDP_HOP_UNKNOWN ? HOST_LOOK_SOON : HOST_LOOK);
    if (sender->wire)
        lli_xdp_header_host(&sender->header, mac);
    if (dead && !sender->dead) {
        xdp->counters.hosts_dead++;
        sender->unlogged = xdp->senders.unlogged_any = true;
    }
    sender->dead = dead || (sender->dead && !sender->wire);
}

void lli_xdp_hosts_look(struct lli_xdp *xdp)
{
    const lli_ns now = lli_clock_ns();

    if (now < xdp->senders.look_at)
        return;
    xdp->senders.look_at = LLI_NEVER;
    for (uint32_t i = 0; i < LLI_XDP_GROUPS_MAX; i++) {
        struct lli_xdp_sender *sender = &xdp->senders.table[i];

        if (!sender->open || !sender->host)
            continue;
        if (now >= sender->look_at)
            host_settle(xdp, sender, now);
        xdp->senders.look_at = lli_min(xdp->senders.look_at, sender->look_at);
    }
}

/* Adopts the new address after the UDP sockets followed an interface change. */
static void own_follow(struct lli_xdp *xdp)
{
    const union lli_ip_address before = xdp->link.own;

    if (lli_xdp_own_address(xdp) != 0 || lli_ip_same(&before, &xdp->link.own))
        return;
    for (uint32_t i = 0; i < LLI_XDP_GROUPS_MAX; i++) {
        struct lli_xdp_sender *sender = &xdp->senders.table[i];

        if (sender->open)
            lli_xdp_header_init(&sender->header, xdp->link.mac, &xdp->link.own, &sender->group, sender->ttl);
        /* The header of a host contains its MAC address, which is looked up again. */
        if (sender->open && sender->host) {
            sender->wire = false;
            sender->loops = true;
            sender->look_at = xdp->senders.look_at = 0;
        }
    }
    loops_settle(xdp);
}

void lli_xdp_report(void *instance)
{
    struct lli_xdp *xdp = instance;
    char text[LLI_IP_TEXT_MAX];

    own_follow(xdp);
    for (uint32_t i = 0; xdp->senders.unlogged_any && i < LLI_XDP_GROUPS_MAX; i++) {
        struct lli_xdp_sender *sender = &xdp->senders.table[i];

        if (sender->open && sender->unlogged)
            lli_log(xdp->log, LLM_LEVEL_WARNING,
                    "xdp: host %s does not answer on interface %s, or no route leads to it: see "
                    "'ip route get' and 'ip neigh'; its packets go by the kernel until it does",
                    lli_ip_text(&sender->group, text), xdp->link.interface.name);
        sender->unlogged = false;
    }
    xdp->senders.unlogged_any = false;
}

int lli_xdp_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle)
{
    struct lli_xdp *xdp = instance;
    struct llm_options options = *group->options;
    const struct lli_group inner = {.host = group->host,
                                    .port = group->port,
                                    .options = &options,
                                    .values = group->values,
                                    .shared = group->shared};
    union lli_ip_address address;
    lli_handle joined;
    int status = lli_ip_resolve(xdp->log, "xdp", LLM_EGROUP, "group", group->host, xdp->family, &address);

    if (status != 0)
        return status;
    lli_ip_port_set(&address, group->port);
    if (mode == LLI_JOIN_SEND && !lli_ip_multicast(&address) && xdp->senders.neighbours < 0 &&
        (status = lli_xdp_neighbour_open(xdp->log, &xdp->link.interface, &xdp->senders.neighbours)) != 0)
        return status;
    /* The UDP sockets send groups to receivers on this host only. */
    if (mode == LLI_JOIN_SEND)
        options.ttl = 0;
    if ((status = xdp->udp->join(xdp->udp_instance, &inner, mode, &joined)) != 0)
        return status;
    if (joined >= LLI_XDP_GROUPS_MAX) {
        xdp->udp->leave(xdp->udp_instance, joined, mode);
        return lli_fail(
            xdp->log, LLM_ELIMIT,
            "xdp: more than %d groups on interface %s, which a context has for itself; take udp:// for "
            "the others",
            LLI_XDP_GROUPS_MAX, xdp->link.interface.name);
    }
    if (mode == LLI_JOIN_SEND)
        join_send(xdp, group, &address, joined);
    else
        status = join_receive(xdp, group, &address, joined);
    if (status == 0)
        *handle = joined;
    return status;
}

void lli_xdp_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct lli_xdp *xdp = instance;

    if (mode == LLI_JOIN_SEND) {
        lli_xdp_queue_lose(xdp, handle);
        xdp->senders.table[handle].open = false;
    } else if (--xdp->groups.table[handle].users == 0) {
        (void)group_settle(xdp, &xdp->groups.table[handle].group);
    }
    xdp->udp->leave(xdp->udp_instance, handle, mode);
}
