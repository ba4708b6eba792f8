/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes during the life of an instance: the interface gets another address or MTU, or is removed; sends
 * fail. The kernel does not notify sockets: those bound to a removed address fail as if there were no route,
 * and packets larger than the MTU are refused.
 */
#define _GNU_SOURCE
#include "udp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* ------------------------------------------------------------------------------------------------ sockets */

/* Calls act for every sending socket. */
static void senders_each(struct lli_udp *udp, void (*act)(struct lli_udp *udp, int fd))
{
    act(udp, udp->in.control.fd);
    for (uint32_t i = 0; i < LLI_UDP_GROUPS_MAX; i++)
        if (udp->out.senders[i] >= 0)
            act(udp, udp->out.senders[i]);
}

/*
 * Rebinds a socket to the instance's new address, with a port chosen by the kernel, and reconnects it if it
 * was connected. Disconnecting releases the old port; the socket retains its namespace and options.
 */
static void sender_rebind(struct lli_udp *udp, int fd)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    const union lli_ip_address *own = &udp->interface.address;
    union lli_ip_address group;
    socklen_t length = sizeof group;
    const bool connected = fd != udp->in.control.fd && getpeername(fd, &group.any, &length) == 0;

    if (connect(fd, &none, sizeof none) == 0 && bind(fd, &own->any, lli_ip_length(own)) == 0 &&
        (!connected || connect(fd, &group.any, lli_ip_length(&group)) == 0))
        return;
    udp->link.again = true;
}

static void sender_whole(struct lli_udp *udp, int fd)
{
    (void)lli_udp_whole_packets(udp, fd);
}

/*
 * Rejoins a group: the membership may be lost with the old address, and membership reports should use the new
 * one.
 */
static void group_rejoin(struct lli_udp *udp, struct lli_udp_receiver *receiver)
{
    if (!lli_ip_multicast(&receiver->group))
        return;
    (void)lli_udp_membership(udp, receiver, false);
    if (lli_udp_membership(udp, receiver, true) < 0)
        udp->link.again = true;
}

static void groups_rejoin(struct lli_udp *udp)
{
    for (uint32_t i = 0; i < udp->in.polled_count; i++)
        group_rejoin(udp, &udp->in.groups[udp->in.polled[i]]);
}

/* ---------------------------------------------------------------------------------------------------- MTU */

/* Reads the MTU of the interface, and its name, which may also change. 0: failed. */
static uint32_t mtu_read(struct lli_udp *udp)
{
    struct ifreq request = {.ifr_ifindex = udp->interface.index};

    if (ioctl(udp->in.control.fd, SIOCGIFNAME, &request) < 0)
        return 0;
    memcpy(udp->interface.name, request.ifr_name, sizeof udp->interface.name);
    return ioctl(udp->in.control.fd, SIOCGIFMTU, &request) < 0 ? 0 : (uint32_t)request.ifr_mtu;
}

/* Packets in the history cannot shrink: they leave in fragments until the MTU is large enough again. */
static void mtu_follow(struct lli_udp *udp)
{
    const uint32_t needed = udp->out.payload_max + lli_udp_headers(udp);
    const uint32_t mtu = mtu_read(udp);
    const bool fragments = mtu < needed;
    uint32_t largest;

    if (mtu == 0)
        return;
    largest = (mtu < UINT16_MAX ? mtu : UINT16_MAX) - lli_udp_headers(udp);
    if (largest > udp->in.packet_bytes)
        udp->in.packet_bytes = largest < udp->in.buffer_bytes ? largest : udp->in.buffer_bytes;
    udp->counters.interface_changes += mtu != udp->interface.mtu;
    udp->interface.mtu = mtu;
    if (fragments == udp->link.fragments)
        return;
    udp->link.fragments = fragments;
    senders_each(udp, sender_whole);
    if (fragments)
        lli_log(udp->log, LLM_LEVEL_WARNING,
                "udp: the MTU of interface %s is %u now, and packets are of up to %u bytes: they leave in "
                "fragments until 'ip link set %s mtu %u', or until the channels are opened again",
                udp->interface.name, mtu, needed, udp->interface.name, needed);
    else
        lli_log(udp->log, LLM_LEVEL_WARNING,
                "udp: the MTU of interface %s is %u now: packets leave whole again", udp->interface.name,
                mtu);
}

/* Probes trains again, if they worked at open, because they may have failed for the old address or MTU. */
static void trains_follow(struct lli_udp *udp)
{
    if (udp->link.fragments)
        udp->out.train_max = 1;
    else if (udp->out.train_max == 1 && udp->out.train_max_first > 1)
        lli_udp_trains_probe(udp);
}

/* ------------------------------------------------------------------------------------------------ address */

static void address_move(struct lli_udp *udp, const struct lli_follow_address *found)
{
    char before[LLI_IP_TEXT_MAX], now[LLI_IP_TEXT_MAX];
    struct lli_udp_receiver *control = &udp->in.control;
    socklen_t length = sizeof control->group;

    lli_ip_text(&control->group, before);
    udp->interface.address = found->address;
    udp->interface.broadcast = found->broadcast;
    senders_each(udp, sender_rebind);
    if (getsockname(control->fd, &control->group.any, &length) < 0)
        udp->link.again = true;
    udp->counters.interface_changes++;
    lli_log(
        udp->log, LLM_LEVEL_WARNING,
        "udp: interface %s has another address: unicasts reach this instance at %s from now on, no longer "
        "at %s; %s",
        udp->interface.name, lli_ip_text(&control->group, now), before,
        udp->link.again ? "not all sockets could be bound to it; this is retried" : "its peers are notified");
}

static void address_missing(struct lli_udp *udp)
{
    /* The missing address caused these failures, not the peers. */
    udp->link.unreached_count = 0;
    if (udp->link.addressless)
        return;
    udp->link.addressless = true;
    lli_log(
        udp->log, LLM_LEVEL_ERROR,
        "udp: interface %s has no %s address any more: nothing is sent by it until 'ip address add' gives it "
        "one",
        udp->interface.name, udp->family == AF_INET ? "IPv4" : "IPv6");
}

static void address_follow(struct lli_udp *udp, unsigned changes)
{
    const bool retries = udp->link.again;
    struct lli_follow_address found;
    bool moved;

    if (!lli_follow_address(&udp->link.follow, &udp->interface.address, &found)) {
        udp->link.again = true;
        return;
    }
    if (found.address.any.sa_family == AF_UNSPEC) {
        address_missing(udp);
        return;
    }
    udp->link.again = false;
    moved = retries || memcmp(lli_ip_bytes(&found.address), lli_ip_bytes(&udp->interface.address),
                              udp->family == AF_INET ? 4 : 16) != 0;
    if (!moved && !udp->link.addressless && (changes & LLI_FOLLOW_LOST) == 0)
        return;
    udp->link.unreached_count = 0;
    if (moved)
        address_move(udp, &found);
    else
        lli_log(udp->log, LLM_LEVEL_WARNING, "udp: interface %s has its address again", udp->interface.name);
    groups_rejoin(udp);
    udp->link.addressless = false;
}

/* ------------------------------------------------------------------------------------------ failing sends */

void lli_udp_unreached_note(struct lli_udp *udp, const struct lli_udp_out *out, int number)
{
    const struct lli_address *address;

    /* No listener at present, or an oversized packet: the peer is reachable. */
    if (number == ECONNREFUSED || number == EMSGSIZE)
        return;
    if (out->to == NULL) {
        udp->link.error = number;
        udp->link.error_fd = out->fd;
        return;
    }
    address = &udp->peers.addresses[out->to - udp->peer_addresses];
    for (uint32_t i = 0; i < udp->link.unreached_count; i++)
        if (udp->link.unreached[i].address.size == address->size &&
            memcmp(udp->link.unreached[i].address.bytes, address->bytes, address->size) == 0)
            return;
    if (udp->link.unreached_count < LLI_UDP_UNREACHED_MAX)
        udp->link.unreached[udp->link.unreached_count++] = (struct lli_udp_unreached){*address, number};
}

bool lli_udp_unreached(void *instance, struct lli_address *address, int *number)
{
    struct lli_udp *udp = instance;

    if (udp->link.unreached_count == 0)
        return false;
    udp->link.unreached_count--;
    *address = udp->link.unreached[udp->link.unreached_count].address;
    *number = udp->link.unreached[udp->link.unreached_count].number;
    return true;
}

/* Logs each error once, until the interface changes. */
static void groups_report(struct lli_udp *udp)
{
    union lli_ip_address group;
    socklen_t length = sizeof group;
    char text[LLI_IP_TEXT_MAX];

    if (udp->link.error == 0 || udp->link.error == udp->link.error_logged || udp->link.addressless)
        return;
    udp->link.error_logged = udp->link.error;
    if (getpeername(udp->link.error_fd, &group.any, &length) < 0)
        return;
    lli_ip_text(&group, text);
    errno = udp->link.error;
    lli_log(
        udp->log, LLM_LEVEL_ERROR,
        "udp: packets to %s on interface %s cannot be sent and are lost: %m; see 'ip link', 'ip route get' "
        "and the packet filter of this host",
        text, udp->interface.name);
}

/* -------------------------------------------------------------------------------------------- diagnostics */

static void interface_follow(struct lli_udp *udp, unsigned changes)
{
    udp->link.error = udp->link.error_logged = 0;
    mtu_follow(udp);
    address_follow(udp, changes);
    trains_follow(udp);
}

/*
 * Queries by the instance's socket, because the calling thread may have moved to another network namespace.
 * Interface indices are not reused, so a new interface of the same name has another index.
 */
static bool interface_is_gone(struct lli_udp *udp)
{
    struct ifreq request = {.ifr_ifindex = udp->interface.index};

    return ioctl(udp->in.control.fd, SIOCGIFNAME, &request) < 0 && errno == ENODEV;
}

void lli_udp_report(void *instance)
{
    struct lli_udp *udp = instance;
    unsigned changes;

    if (udp->link.gone)
        return;
    if (interface_is_gone(udp)) {
        udp->link.gone = true;
        lli_log(
            udp->log, LLM_LEVEL_ERROR,
            "udp: interface %s is gone, and nothing is sent or received by it any more: close the channels "
            "on it, and open them again once 'ip link' lists it",
            udp->interface.name);
        return;
    }
    changes = lli_follow_changes(&udp->link.follow, &udp->interface.address);
    if (changes != 0 || udp->link.again)
        interface_follow(udp, changes);
    groups_report(udp);
}
