/* SPDX-License-Identifier: Apache-2.0 */
/* Control operations: creation and set-up of sockets. */
#define _GNU_SOURCE
#include "udp.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    IPV4_HEADERS = 20 + 8,
    IPV6_HEADERS = 40 + 8,
    CACHE_LINE = 64,
};

/* Socket options by address family. */
struct socket_names {
    int level;
    int interface;
    int hops;
    int loop;
    int all;
    int mtu_discover;
    int never_fragment;
};

static const struct socket_names socket_names_v4 = {
    .level = IPPROTO_IP,
    .interface = IP_MULTICAST_IF,
    .hops = IP_MULTICAST_TTL,
    .loop = IP_MULTICAST_LOOP,
    .all = IP_MULTICAST_ALL,
    .mtu_discover = IP_MTU_DISCOVER,
    .never_fragment = IP_PMTUDISC_DO,
};

static const struct socket_names socket_names_v6 = {
    .level = IPPROTO_IPV6,
    .interface = IPV6_MULTICAST_IF,
    .hops = IPV6_MULTICAST_HOPS,
    .loop = IPV6_MULTICAST_LOOP,
    .all = IPV6_MULTICAST_ALL,
    .mtu_discover = IPV6_MTU_DISCOVER,
    .never_fragment = IPV6_PMTUDISC_DO,
};

static const struct socket_names *socket_names(const struct lli_udp *udp)
{
    return udp->family == AF_INET ? &socket_names_v4 : &socket_names_v6;
}

/* ----------------------------------------------------------------------------------------------- failures */

/* Error code and remedy for an errno. */
static const struct socket_failure {
    int number;
    int error;
    const char *remedy;
} socket_failures[] = {
    {EACCES, LLM_EACCESS, "ports below 1024 need CAP_NET_BIND_SERVICE"},
    {EPERM, LLM_EACCESS, "a security policy of this host forbids it"},
    {EADDRINUSE, LLM_EADDRINUSE,
     "another program has the port and does not share it; 'ss -ulpn' shows which"},
    {EADDRNOTAVAIL, LLM_EINTERFACE,
     "the address is not (or not yet) on the interface; 'ip address' shows it"},
    {ENODEV, LLM_EINTERFACE, "the interface is gone; 'ip link' lists those there are"},
    {ENETDOWN, LLM_EINTERFACE, "the interface is down; 'ip link set up' brings it up"},
    {ENETUNREACH, LLM_EINTERFACE, "there is no route to the group; 'ip route add' gives it one"},
    {EHOSTUNREACH, LLM_EINTERFACE, "there is no route to the group; 'ip route add' gives it one"},
    {EAFNOSUPPORT, LLM_ESYSTEM, "the kernel does without this address family"},
    {EMFILE, LLM_ELIMIT, "raise the limit of open files, 'ulimit -n'"},
    {ENFILE, LLM_ELIMIT, "raise the limit of open files, fs.file-max"},
    {ENOMEM, LLM_ENOMEM, "free memory"},
    {ENOBUFS, LLM_ENOMEM, "free memory, or raise net.core.optmem_max"},
};

/* Fails with a code for errno; logs the operation and its value. */
static int socket_fail(const struct lli_udp *udp, const char *what, const char *value)
{
    for (size_t i = 0; i < sizeof socket_failures / sizeof socket_failures[0]; i++)
        if (socket_failures[i].number == errno)
            return lli_fail(udp->log, socket_failures[i].error, "udp: %s %s on interface %s: %m; %s", what,
                            value, udp->interface.name, socket_failures[i].remedy);
    return lli_fail(udp->log, LLM_ESYSTEM, "udp: %s %s on interface %s: %m", what, value,
                    udp->interface.name);
}

static int socket_fail_at(const struct lli_udp *udp, const char *what, const union lli_ip_address *address)
{
    char text[LLI_IP_TEXT_MAX];
    const int number = errno;

    lli_ip_text(address, text);
    errno = number;
    return socket_fail(udp, what, text);
}

/* Sets a mandatory socket option. */
static int socket_set(const struct lli_udp *udp, int fd, int level, int name, int value, const char *what)
{
    char text[16];

    if (setsockopt(fd, level, name, &value, sizeof value) == 0)
        return 0;
    snprintf(text, sizeof text, "%d", value);
    return socket_fail(udp, what, text);
}

/* ------------------------------------------------------------------------------------------------- set-up */

/* Requests a buffer size, first above the system limit, then within it. Returns the granted size. */
static uint32_t socket_buffer(int fd, int force, int name, uint32_t bytes)
{
    const int wanted = (int)bytes;
    int granted = 0;
    socklen_t length = sizeof granted;

    if (setsockopt(fd, SOL_SOCKET, force, &wanted, sizeof wanted) < 0)
        setsockopt(fd, SOL_SOCKET, name, &wanted, sizeof wanted);
    getsockopt(fd, SOL_SOCKET, name, &granted, &length);
    return (uint32_t)granted / 2; /* the kernel doubles the value for its own use: socket(7) */
}

/* Warns once per instance: all its sockets have the same limit. */
static void socket_buffer_check(const struct lli_udp *udp, bool *warned, const char *option, uint32_t wanted,
                                uint32_t granted, const char *limit)
{
    /* The kernel clamps the doubled value to INT_MAX, so the largest request is one byte short. */
    if (granted + 1 >= wanted || *warned)
        return;
    *warned = true;
    lli_log(
        udp->log, LLM_LEVEL_WARNING,
        "udp: %s=%u was cut to %u bytes by %s; 'sysctl -w %s=%u' or CAP_NET_ADMIN allows it, or ask for less",
        option, wanted, granted, limit, limit, wanted);
}

static void socket_receive_buffer(struct lli_udp *udp, int fd, const struct llm_options *options)
{
    socket_buffer_check(udp, &udp->warned.receive_buffer, "rcvbuf_bytes", options->rcvbuf_bytes,
                        socket_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, options->rcvbuf_bytes),
                        "net.core.rmem_max");
}

static void socket_send_buffer(struct lli_udp *udp, int fd, const struct llm_options *options)
{
    socket_buffer_check(udp, &udp->warned.send_buffer, "sndbuf_bytes", options->sndbuf_bytes,
                        socket_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, options->sndbuf_bytes),
                        "net.core.wmem_max");
}

static void socket_busy_poll(struct lli_udp *udp, int fd, const struct llm_options *options)
{
    const int time_us = (int)options->busy_poll_us;

    if (time_us == 0 || setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &time_us, sizeof time_us) == 0 ||
        udp->warned.busy_poll)
        return;
    udp->warned.busy_poll = true;
    lli_log(udp->log, LLM_LEVEL_WARNING,
            "udp: busy_poll_us=%d was refused: %m; CAP_NET_ADMIN allows it, or leave it out", time_us);
}

/*
 * Enables UDP_GRO; a kernel that supports it for one socket does so for all. Packets with a size field need
 * no control message with the segment size, which would require a more expensive receive call.
 */
static int socket_merges(const struct lli_udp *udp, struct lli_udp_receiver *receiver)
{
    if (!udp->in.merges)
        return 0;
    receiver->noted = udp->in.size_at == 0;
    receiver->apart |= receiver->noted;
    return socket_set(udp, receiver->fd, SOL_UDP, UDP_GRO, 1, "socket option UDP_GRO");
}

static int socket_stamps(const struct lli_udp *udp, struct lli_udp_receiver *receiver,
                         const struct llm_options *options)
{
    if (options->timestamps == 0 || receiver->stamped)
        return 0;
    receiver->stamped = receiver->noted = receiver->apart = true;
    return socket_set(udp, receiver->fd, SOL_SOCKET, SO_TIMESTAMPNS, 1, "socket option SO_TIMESTAMPNS");
}

int lli_udp_socket(const struct lli_udp *udp, int *fd)
{
    *fd = socket(udp->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return *fd >= 0 ? 0 : socket_fail(udp, "socket", udp->family == AF_INET ? "AF_INET" : "AF_INET6");
}

static int socket_bind(const struct lli_udp *udp, int fd, const union lli_ip_address *address)
{
    return bind(fd, &address->any, lli_ip_length(address)) == 0 ? 0 : socket_fail_at(udp, "bind to", address);
}

/*
 * Forbids fragmentation: losing one fragment loses the packet, and receivers process fragments on a slow
 * path.
 */
int lli_udp_whole_packets(const struct lli_udp *udp, int fd)
{
    const struct socket_names *names = socket_names(udp);

    return socket_set(udp, fd, names->level, names->mtu_discover,
                      udp->link.fragments ? IP_PMTUDISC_DONT : names->never_fragment, "path MTU discovery");
}

static int socket_epoll(const struct lli_udp *udp, struct lli_udp_receiver *receiver)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = receiver};

    return epoll_ctl(udp->epoll, EPOLL_CTL_ADD, receiver->fd, &event) == 0
               ? 0
               : socket_fail(udp, "epoll of", "a socket");
}

static void socket_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* -------------------------------------------------------------------------------------------- open, close */

/* Opens the unicast socket: interface address, and a port chosen by the kernel. */
static int control_open(struct lli_udp *udp, const struct llm_options *options)
{
    struct lli_udp_receiver *control = &udp->in.control;
    socklen_t length = sizeof control->group;
    int status;

    if ((status = lli_udp_socket(udp, &control->fd)) != 0 ||
        (status = lli_udp_whole_packets(udp, control->fd)) != 0 ||
        (status = socket_bind(udp, control->fd, &udp->interface.address)) != 0 ||
        (status = socket_merges(udp, control)) != 0 || (status = socket_stamps(udp, control, options)) != 0 ||
        (status = socket_epoll(udp, control)) != 0)
        return status;
    control->named = control->apart = options->check_source != 0;
    control->apart |= control->noted;
    socket_receive_buffer(udp, control->fd, options);
    socket_send_buffer(udp, control->fd, options);
    socket_busy_poll(udp, control->fd, options);
    if (getsockname(control->fd, &control->group.any, &length) < 0)
        return socket_fail(udp, "name of", "the unicast socket");
    return 0;
}

uint32_t lli_udp_headers(const struct lli_udp *udp)
{
    return udp->family == AF_INET ? IPV4_HEADERS : IPV6_HEADERS;
}

/*
 * Sizes buffers for the largest packet of the interface, because peers may send larger packets than we do,
 * and for the largest merged packet.
 */
static int buffers_open(struct lli_udp *udp)
{
    const struct lli_memory_policy policy = {.populate = true, .numa_node = -1};
    const uint32_t largest = udp->interface.mtu < UINT16_MAX ? udp->interface.mtu : UINT16_MAX;
    size_t lines;
    int status;

    udp->in.packet_bytes = largest - lli_udp_headers(udp);
    udp->in.buffer_bytes = udp->in.merges ? UINT16_MAX : udp->in.packet_bytes;
    /*
     * Use an odd number of cache lines: with a power of two all packet headers would map to a few cache sets.
     */
    lines = (udp->in.buffer_bytes + CACHE_LINE) / CACHE_LINE | 1;
    udp->in.stride = lines * CACHE_LINE;
    if ((status = lli_memory_map(&udp->in.memory, udp->in.stride * LLI_UDP_BUFFERS, &policy, udp->log)) != 0)
        return status;
    udp->in.free = UINT64_MAX;
    for (size_t i = 0; i < LLI_UDP_BUFFERS; i++) {
        udp->in.pieces[i] =
            (struct iovec){(uint8_t *)udp->in.memory.base + i * udp->in.stride, udp->in.buffer_bytes};
        udp->in.messages[i].msg_hdr.msg_iov = &udp->in.pieces[i];
        udp->in.messages[i].msg_hdr.msg_iovlen = 1;
        udp->in.messages[i].msg_hdr.msg_control = udp->in.notes[i];
    }
    return 0;
}

/* Initial state from which lli_udp_close() works. */
static void instance_init(struct lli_udp *udp, const struct lli_log *log)
{
    udp->log = log;
    udp->epoll = -1;
    udp->watched_fd = -1;
    udp->in.control.fd = -1;
    udp->link.follow.fd = -1;
    udp->in.control.handle = LLI_HANDLE_UNICAST;
    for (uint32_t i = 0; i < LLI_UDP_GROUPS_MAX; i++) {
        udp->out.senders[i] = -1;
        udp->in.groups[i].fd = -1;
        udp->in.groups[i].handle = i;
    }
}

/* A group may be a unicast host: transmitters send to that host, and the receiver has that address. */
static int group_check(const struct lli_udp *udp, const char *host, const union lli_ip_address *address)
{
    if (lli_ip_multicast(address) || lli_ip_is_host(&udp->interface, address))
        return 0;
    return lli_fail(udp->log, LLM_EGROUP,
                    "udp: group '%s' is neither multicast (239.0.0.0/8, 232.0.0.0/8, ff00::/8) nor a host "
                    "that interface %s "
                    "reaches; interface= takes another",
                    host, udp->interface.name);
}

static int instance_set_up(struct lli_udp *udp, const struct lli_transport_config *config)
{
    const struct llm_options *options = config->options;
    union lli_ip_address group;
    uint32_t mtu;
    int status;

    if ((status = lli_ip_resolve(udp->log, "udp", LLM_EGROUP, "group", config->host, AF_UNSPEC, &group)) != 0)
        return status;
    udp->family = group.any.sa_family;
    if ((status = lli_ip_interface_find(udp->log, "udp", options->interface, &group, &udp->interface)) != 0 ||
        (status = group_check(udp, config->host, &group)) != 0 ||
        (status = lli_ip_mtu_choose(udp->log, "udp", &udp->interface, options->mtu, &mtu)) != 0)
        return status;
    udp->out.payload_max = mtu - lli_udp_headers(udp);
    udp->in.size_at = config->size_at;
    lli_udp_offload_probe(udp, options);
    lli_follow_open(&udp->link.follow, udp->log, "udp", &udp->interface);
    if ((status = buffers_open(udp)) != 0)
        return status;
    udp->peer_addresses = calloc(options->receivers_max + options->sessions_max, sizeof *udp->peer_addresses);
    if (lli_peers_init(&udp->peers, options->receivers_max + options->sessions_max) != 0 ||
        udp->peer_addresses == NULL)
        return lli_fail(udp->log, LLM_ENOMEM, "udp: no memory for the addresses of receivers_max=%u",
                        options->receivers_max);
    udp->epoll = epoll_create1(EPOLL_CLOEXEC);
    return udp->epoll < 0 ? socket_fail(udp, "epoll", "of sockets") : control_open(udp, options);
}

int lli_udp_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct lli_udp *udp = instance;
    int status;

    instance_init(udp, config->log);
    status = instance_set_up(udp, config);
    if (status != 0) {
        lli_udp_close(udp);
        return status;
    }
    *caps = (struct lli_caps){
        .payload_max = udp->out.payload_max,
        .post_max = LLI_UDP_POST_MAX,
        .train_max = udp->out.train_max < udp->out.train_bytes / udp->out.payload_max
                         ? udp->out.train_max
                         : udp->out.train_bytes / udp->out.payload_max,
        .align = 1,
        .flags = LLI_CAP_TX_COPIES | LLI_CAP_UNICAST,
        .numa_node = -1,
    };
    return 0;
}

void lli_udp_close(void *instance)
{
    struct lli_udp *udp = instance;

    for (uint32_t i = 0; i < LLI_UDP_GROUPS_MAX; i++) {
        socket_close(&udp->out.senders[i]);
        socket_close(&udp->in.groups[i].fd);
    }
    socket_close(&udp->in.control.fd);
    socket_close(&udp->epoll);
    lli_follow_close(&udp->link.follow);
    lli_peers_fini(&udp->peers);
    free(udp->peer_addresses);
    udp->peer_addresses = NULL;
    lli_memory_unmap(&udp->in.memory);
}

/* -------------------------------------------------------------------------------------------- join, leave */

int lli_udp_sender_set_up(const struct lli_udp *udp, int fd, const struct llm_options *options)
{
    const struct socket_names *names = socket_names(udp);
    const struct ip_mreqn v4 = {.imr_ifindex = udp->interface.index};
    int status;

    if (udp->family == AF_INET
            ? setsockopt(fd, names->level, names->interface, &v4, sizeof v4) < 0
            : setsockopt(fd, names->level, names->interface, &udp->interface.index, sizeof(int)) < 0)
        return socket_fail(udp, "sending of", "multicast");
    if ((status = socket_set(udp, fd, names->level, names->hops, (int)options->ttl, "option ttl")) != 0 ||
        (status = socket_set(udp, fd, names->level, names->loop, (int)options->loop, "option loop")) != 0)
        return status;
    return lli_udp_whole_packets(udp, fd);
}

/* Each join to send has its own socket, because ttl and loop are channel options. */
static int sender_open(struct lli_udp *udp, const union lli_ip_address *group,
                       const struct llm_options *options, int *fd)
{
    int status = lli_udp_socket(udp, fd);

    if (status == 0)
        status = lli_udp_sender_set_up(udp, *fd, options);
    if (status == 0)
        socket_send_buffer(udp, *fd, options);
    if (status == 0)
        status = socket_bind(udp, *fd, &udp->interface.address);
    if (status == 0 && connect(*fd, &group->any, lli_ip_length(group)) < 0)
        status = socket_fail_at(udp, "connect to", group);
    if (status != 0)
        socket_close(fd);
    return status;
}

static int join_send(struct lli_udp *udp, const union lli_ip_address *group,
                     const struct llm_options *options, lli_handle *handle)
{
    int status;

    for (uint32_t i = 0; i < LLI_UDP_GROUPS_MAX; i++) {
        if (udp->out.senders[i] >= 0)
            continue;
        status = sender_open(udp, group, options, &udp->out.senders[i]);
        if (status == 0)
            *handle = i;
        return status;
    }
    return lli_fail(udp->log, LLM_ELIMIT,
                    "udp: more than %d joins to send on interface %s; use a second context",
                    LLI_UDP_GROUPS_MAX, udp->interface.name);
}

/* Joins or leaves; the kernel announces it to the network (IGMP, MLD). RFC 3678, section 5. */
int lli_udp_membership(const struct lli_udp *udp, const struct lli_udp_receiver *receiver, bool join)
{
    const int level = socket_names(udp)->level;
    struct group_req any = {.gr_interface = (uint32_t)udp->interface.index};
    struct group_source_req specific = {.gsr_interface = (uint32_t)udp->interface.index};

    if (receiver->source.any.sa_family == AF_UNSPEC) {
        memcpy(&any.gr_group, &receiver->group, sizeof receiver->group);
        return setsockopt(receiver->fd, level, join ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP, &any, sizeof any);
    }
    memcpy(&specific.gsr_group, &receiver->group, sizeof receiver->group);
    memcpy(&specific.gsr_source, &receiver->source, sizeof receiver->source);
    return setsockopt(receiver->fd, level, join ? MCAST_JOIN_SOURCE_GROUP : MCAST_LEAVE_SOURCE_GROUP,
                      &specific, sizeof specific);
}

/*
 * By default the kernel delivers a group that any socket of this host joined to all sockets bound to its
 * address and port; for IPv6 even across interfaces. This limits delivery to the socket's own membership.
 */
static int receiver_only_own(const struct lli_udp *udp, int fd)
{
    const struct socket_names *names = socket_names(udp);
    const int off = 0;

    if (udp->family == AF_INET)
        return socket_set(udp, fd, names->level, names->all, off, "socket option IP_MULTICAST_ALL");
    setsockopt(fd, names->level, names->all, &off, sizeof off); /* since Linux 4.20 */
    if (setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &udp->interface.index, sizeof(int)) < 0)
        lli_log(udp->log, LLM_LEVEL_INFO,
                "udp: groups that others join on interfaces besides %s are received too: %m",
                udp->interface.name);
    return 0;
}

/*
 * Groups are shared with other sockets of this host. Unicast addresses are not: one of two sockets would get
 * everything.
 */
static int receiver_share(const struct lli_udp *udp, int fd)
{
    const int status = socket_set(udp, fd, SOL_SOCKET, SO_REUSEADDR, 1, "socket option SO_REUSEADDR");

    return status != 0 ? status : receiver_only_own(udp, fd);
}

static int receiver_set_up(struct lli_udp *udp, struct lli_udp_receiver *receiver,
                           const struct llm_options *options)
{
    const bool multicast = lli_ip_multicast(&receiver->group);
    int status = multicast ? receiver_share(udp, receiver->fd) : 0;

    if (status != 0 || (status = socket_bind(udp, receiver->fd, &receiver->group)) != 0 ||
        (status = socket_merges(udp, receiver)) != 0 || (status = socket_stamps(udp, receiver, options)) != 0)
        return status;
    socket_receive_buffer(udp, receiver->fd, options);
    socket_busy_poll(udp, receiver->fd, options);
    if (multicast && lli_udp_membership(udp, receiver, true) < 0)
        return socket_fail_at(udp, "join of", &receiver->group);
    return socket_epoll(udp, receiver);
}

static int receiver_open(struct lli_udp *udp, struct lli_udp_receiver *receiver,
                         const struct llm_options *options)
{
    int status = lli_udp_socket(udp, &receiver->fd);

    receiver->bursting = receiver->merged = receiver->stamped = receiver->noted = receiver->apart = false;
    receiver->unchecked = receiver->drops_seen = 0;
    if (status == 0)
        status = receiver_set_up(udp, receiver, options);
    if (status != 0)
        socket_close(&receiver->fd);
    return status;
}

static int join_receive(struct lli_udp *udp, const union lli_ip_address *group,
                        const struct llm_options *options, lli_handle *handle)
{
    struct lli_udp_receiver *unused = NULL;
    union lli_ip_address source = {0};
    int status = 0;

    if (options->source[0] != '\0' && !lli_ip_multicast(group))
        return lli_fail(udp->log, LLM_EOPTION,
                        "udp: source=%s: only groups are joined by source, leave it out", options->source);
    if (options->source[0] != '\0')
        status =
            lli_ip_resolve(udp->log, "udp", LLM_EOPTION, "source", options->source, udp->family, &source);
    for (uint32_t i = 0; i < LLI_UDP_GROUPS_MAX && status == 0; i++) {
        struct lli_udp_receiver *receiver = &udp->in.groups[i];

        if (receiver->fd < 0) {
            unused = unused == NULL ? receiver : unused;
        } else if (lli_ip_same(&receiver->group, group) && lli_ip_same(&receiver->source, &source)) {
            status = socket_stamps(udp, receiver, options);
            receiver->users += status == 0;
            *handle = receiver->handle;
            return status;
        }
    }
    if (status == 0 && unused == NULL)
        status =
            lli_fail(udp->log, LLM_ELIMIT, "udp: more than %d groups on interface %s; use a second context",
                     LLI_UDP_GROUPS_MAX, udp->interface.name);
    if (status != 0)
        return status;
    unused->group = *group;
    unused->source = source;
    status = receiver_open(udp, unused, options);
    if (status != 0)
        return status;
    unused->users = 1;
    udp->in.polled[udp->in.polled_count++] = (uint16_t)unused->handle;
    *handle = unused->handle;
    return 0;
}

static int group_resolve(const struct lli_udp *udp, const char *host, union lli_ip_address *address)
{
    const int status = lli_ip_resolve(udp->log, "udp", LLM_EGROUP, "group", host, udp->family, address);

    return status != 0 ? status : group_check(udp, host, address);
}

int lli_udp_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle)
{
    struct lli_udp *udp = instance;
    union lli_ip_address address;
    int status = group_resolve(udp, group->host, &address);

    if (status != 0)
        return status;
    if (group->port == 0)
        return lli_fail(udp->log, LLM_EGROUP, "udp: group '%s' has port 0: take one of 1 to 65535",
                        group->host);
    lli_ip_port_set(&address, group->port);
    if (udp->family == AF_INET6)
        address.v6.sin6_scope_id = (uint32_t)udp->interface.index;
    if (mode == LLI_JOIN_SEND)
        return join_send(udp, &address, group->options, handle);
    return join_receive(udp, &address, group->options, handle);
}

/*
 * Skips lost packets at the head of the queue, so that others can be sent and arm() watches the next packet's
 * socket.
 */
static void queue_skip_lost(struct lli_udp *udp)
{
    while (udp->out.done != udp->out.taken && udp->out.packets[udp->out.done % LLI_UDP_POST_MAX].fd < 0) {
        udp->out.done++;
        udp->counters.send_errors++;
    }
}

void lli_udp_region_end(void *instance, void *base, size_t size)
{
    struct lli_udp *udp = instance;

    for (uint64_t i = udp->out.done; i != udp->out.taken; i++)
        if ((uintptr_t)udp->out.packets[i % LLI_UDP_POST_MAX].data - (uintptr_t)base < size)
            udp->out.packets[i % LLI_UDP_POST_MAX].fd = -1;
    queue_skip_lost(udp);
}

static void leave_send(struct lli_udp *udp, lli_handle handle)
{
    const int fd = udp->out.senders[handle];

    for (uint64_t i = udp->out.done; i != udp->out.taken; i++)
        if (udp->out.packets[i % LLI_UDP_POST_MAX].fd == fd)
            udp->out.packets[i % LLI_UDP_POST_MAX].fd = -1;
    if (udp->watched_fd == fd)
        udp->watched_fd = -1;
    socket_close(&udp->out.senders[handle]);
    queue_skip_lost(udp);
}

static void leave_receive(struct lli_udp *udp, lli_handle handle)
{
    struct lli_udp_receiver *receiver = &udp->in.groups[handle];
    uint32_t remaining = 0;

    if (--receiver->users > 0)
        return;
    lli_udp_drops_read(udp, receiver);
    lli_udp_fetched_drop(udp, receiver);
    socket_close(&receiver->fd);
    for (uint32_t i = 0; i < udp->in.polled_count; i++)
        if (udp->in.polled[i] != handle)
            udp->in.polled[remaining++] = udp->in.polled[i];
    udp->in.polled_count = remaining;
    udp->in.polled_next = 0;
    udp->in.ready_count = udp->in.ready_next = 0; /* may refer to the closed socket */
}

void lli_udp_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    if (mode == LLI_JOIN_SEND)
        leave_send(instance, handle);
    else
        leave_receive(instance, handle);
}

/* --------------------------------------------------------------------------------------- address, waiting */

int lli_udp_address(void *instance, struct lli_address *address)
{
    const struct lli_udp *udp = instance;

    lli_udp_pack(&udp->in.control.group, address);
    return 0;
}

/*
 * Reads SO_MEMINFO, not SO_RXQ_OVFL: the latter needs recvmsg() and reports only with the next packet, so a
 * burst that overflows the buffer and then ends would stay unknown while the network is quiet.
 */
void lli_udp_drops_read(struct lli_udp *udp, struct lli_udp_receiver *receiver)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof memory;

    receiver->unchecked = 0;
    if (getsockopt(receiver->fd, SOL_SOCKET, SO_MEMINFO, memory, &length) < 0 || length < sizeof memory)
        return;
    udp->counters.kernel_drops += memory[SK_MEMINFO_DROPS] - receiver->drops_seen;
    receiver->drops_seen = memory[SK_MEMINFO_DROPS];
}

/* Updates the drop count of every socket that received packets since its last check. */
static void drops_read_all(struct lli_udp *udp)
{
    if (udp->in.control.unchecked > 0)
        lli_udp_drops_read(udp, &udp->in.control);
    for (uint32_t i = 0; i < udp->in.polled_count; i++)
        if (udp->in.groups[udp->in.polled[i]].unchecked > 0)
            lli_udp_drops_read(udp, &udp->in.groups[udp->in.polled[i]]);
}

/* Starts or stops watching a socket for writability. The control socket is always in the epoll set. */
static void watch(const struct lli_udp *udp, int fd, bool on)
{
    const bool control = fd == udp->in.control.fd;
    struct epoll_event event = {.events = on ? EPOLLOUT : 0};

    if (control) {
        event.events |= EPOLLIN;
        event.data.ptr = (void *)&udp->in.control;
    }
    epoll_ctl(udp->epoll, control ? EPOLL_CTL_MOD : on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
}

int lli_udp_arm(void *instance)
{
    struct lli_udp *udp = instance;
    int wanted = udp->out.stuck && udp->out.done != udp->out.taken
                     ? udp->out.packets[udp->out.done % LLI_UDP_POST_MAX].fd
                     : -1;

    /* Fetched packets are pending: the control socket is writable, so the descriptor fires at once. */
    if (udp->in.fetched.next < udp->in.fetched.end)
        wanted = udp->in.control.fd;
    if (wanted != udp->watched_fd) {
        if (udp->watched_fd >= 0)
            watch(udp, udp->watched_fd, false);
        if (wanted >= 0)
            watch(udp, wanted, true);
        udp->watched_fd = wanted;
    }
    drops_read_all(udp);
    return udp->epoll;
}

uint64_t lli_udp_drops(void *instance)
{
    struct lli_udp *udp = instance;
    const uint64_t reported = udp->counters.drops_reported;
    /* Merged packets are dropped as one. */
    const uint64_t most =
        udp->counters.superframes != udp->counters.superframes_reported ? LLI_UDP_TRAIN_MAX : 1;

    drops_read_all(udp);
    udp->counters.drops_reported = udp->counters.kernel_drops;
    udp->counters.superframes_reported = udp->counters.superframes;
    return (udp->counters.kernel_drops - reported) * most;
}
