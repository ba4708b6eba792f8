/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing: the interface, the options, and the instance of UDP. */
#define _GNU_SOURCE
#include "xdp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    ETHERNET_BYTES = 14,
    RX_CHUNKS_MIN = 64,
    RX_CHUNKS_MAX = 65536,
};

/* ---------------------------------------------------------------------------------------------- interface */

/* Queries the interface by ioctl. Fails with errno. */
static int interface_ioctl(const struct lli_ip_interface *interface, unsigned long what,
                           struct ifreq *request)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int status = fd;

    memcpy(request->ifr_name, interface->name, sizeof request->ifr_name);
    if (fd >= 0) {
        status = ioctl(fd, what, request);
        close(fd);
    }
    return status;
}

static int interface_mac(struct lli_xdp *xdp)
{
    struct ifreq request = {.ifr_flags = 0};

    if (interface_ioctl(&xdp->link.interface, SIOCGIFHWADDR, &request) < 0)
        return lli_fail(xdp->log, LLM_ESYSTEM, "xdp: the MAC address of interface %s cannot be read: %m",
                        xdp->link.interface.name);
    if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
        return lli_fail(xdp->log, LLM_EINTERFACE, "xdp: interface %s is no Ethernet; take another, or udp://",
                        xdp->link.interface.name);
    memcpy(xdp->link.mac, request.ifr_hwaddr.sa_data, LLI_XDP_MAC_BYTES);
    return 0;
}

/* Returns the number of receive queues; 1 if the driver does not report it. */
static uint32_t interface_queues(const struct lli_xdp *xdp)
{
    struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
    struct ifreq request = {.ifr_data = (void *)&channels};
    const bool known = interface_ioctl(&xdp->link.interface, SIOCETHTOOL, &request) == 0;
    const uint32_t count = channels.combined_count + channels.rx_count;

    return known && count > 0 ? count : 1;
}

/* Returns true for veth, a virtual cable of the kernel. */
static bool interface_is_veth(const struct lli_xdp *xdp)
{
    struct ethtool_drvinfo about = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (void *)&about};

    return interface_ioctl(&xdp->link.interface, SIOCETHTOOL, &request) == 0 &&
           strcmp(about.driver, "veth") == 0;
}

/* ------------------------------------------------------------------------------------------------ options */

static const struct lli_option xdp_options[] = {
#define XDP_OPTION(...) LLI_OPTION_ROW(struct lli_xdp_options, __VA_ARGS__)
    LLI_XDP_OPTIONS(XDP_OPTION)};

const struct lli_option_table lli_xdp_option_table = {xdp_options, sizeof xdp_options / sizeof xdp_options[0],
                                                      sizeof(struct lli_xdp_options)};

static int option_mode(const struct lli_log *log, const char *text, enum lli_xdp_mode *mode)
{
    static const char *const names[] = {"auto", "native", "generic"}; /* indexed by enum lli_xdp_mode */

    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *mode = (enum lli_xdp_mode)i;
            return 0;
        }
    return lli_fail(log, LLM_EOPTION, "xdp: xdp_mode=%s: must be auto, native or generic", text);
}

/* Sets the flags of bind(). By default the kernel uses zero copy if the driver supports it. */
static int option_bind_flags(const struct lli_xdp *xdp, const char *text, uint16_t *flags)
{
    *flags = XDP_USE_NEED_WAKEUP;
    if (strcmp(text, "auto") != 0 && strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return lli_fail(xdp->log, LLM_EOPTION, "xdp: xdp_zero_copy=%s: must be auto, on or off", text);
    if (strcmp(text, "on") == 0 && xdp->mode == LLI_XDP_GENERIC)
        return lli_fail(xdp->log, LLM_EOPTION,
                        "xdp: xdp_zero_copy=on: there is none in generic mode; take xdp_zero_copy=auto");
    if (strcmp(text, "on") == 0)
        *flags |= XDP_ZEROCOPY;
    else if (strcmp(text, "off") == 0 || xdp->mode == LLI_XDP_GENERIC)
        *flags |= XDP_COPY;
    return 0;
}

/* Parses the queues to use: all, or one. */
static int option_queues(const struct lli_xdp *xdp, const char *text, uint32_t *first, uint32_t *count)
{
    const uint32_t queues = interface_queues(xdp);
    char *end;
    unsigned long number;

    *first = 0;
    *count = queues < LLI_XDP_QUEUES_MAX ? queues : LLI_XDP_QUEUES_MAX;
    if (strcmp(text, "all") == 0)
        return 0;
    number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0')
        return lli_fail(xdp->log, LLM_EOPTION, "xdp: xdp_queue=%s: must be all, or the number of a queue",
                        text);
    if (number >= queues)
        return lli_fail(xdp->log, LLM_EOPTION,
                        "xdp: xdp_queue=%s: interface %s has queues 0 to %u; 'ethtool -L' makes more", text,
                        xdp->link.interface.name, queues - 1);
    *first = (uint32_t)number;
    *count = 1;
    return 0;
}

/* -------------------------------------------------------------------------------------------- open, close */

static int udp_open(struct lli_xdp *xdp, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct lli_transport_config inner = *config;
    int status;

    inner.scheme = "udp";
    xdp->udp = config->registry->find(inner.scheme);
    xdp->udp_instance = aligned_alloc(64, (xdp->udp->size + 63) / 64 * 64);
    if (xdp->udp_instance == NULL)
        return lli_fail(config->log, LLM_ENOMEM, "xdp: no memory for the sockets of UDP");
    memset(xdp->udp_instance, 0, xdp->udp->size);
    status = xdp->udp->open(xdp->udp_instance, &inner, caps);
    if (status != 0) {
        free(xdp->udp_instance);
        xdp->udp_instance = NULL;
    }
    return status;
}

int lli_xdp_own_address(struct lli_xdp *xdp)
{
    struct lli_address packed;
    uint16_t port;
    const int status = xdp->udp->address(xdp->udp_instance, &packed);

    if (status != 0)
        return status;
    memcpy(&port, packed.bytes + packed.size - sizeof port, sizeof port);
    memcpy(xdp->family == AF_INET ? (void *)&xdp->link.interface.address.v4.sin_addr
                                  : (void *)&xdp->link.interface.address.v6.sin6_addr,
           packed.bytes + 1, xdp->family == AF_INET ? 4 : 16);
    xdp->link.own = xdp->link.interface.address;
    lli_ip_port_set(&xdp->link.own, ntohs(port));
    return 0;
}

static uint32_t frame_bytes_max(const struct lli_xdp *xdp)
{
    return xdp->link.interface.mtu + ETHERNET_BYTES;
}

static uint32_t chunk_bytes(const struct lli_xdp *xdp)
{
    return frame_bytes_max(xdp) <= LLI_XDP_CHUNK_SMALL - LLI_XDP_HEADROOM ? LLI_XDP_CHUNK_SMALL
                                                                          : LLI_XDP_CHUNK_LARGE;
}

/* Returns true if frames may exceed one chunk, or one page of the driver. */
static bool has_wholes(const struct lli_xdp *xdp)
{
    return frame_bytes_max(xdp) > LLI_XDP_CHUNK_LARGE - LLI_XDP_HEADROOM - LLI_XDP_TAILROOM;
}

/*
 * Chooses the mode for xdp_mode=auto: generic mode is better on veth, whose native mode copies each frame
 * into a page of its own. Requires a size field in packets, to tell trains, which arrive unsplit in generic
 * mode, from packets.
 */
static bool generic_is_better(const struct lli_xdp *xdp, uint32_t size_at, const struct lli_xdp_options *own)
{
    return size_at != 0 && !has_wholes(xdp) && strcmp(own->xdp_zero_copy, "on") != 0 &&
           interface_is_veth(xdp);
}

static int wholes_open(struct lli_xdp *xdp)
{
    const struct lli_memory_policy policy = {.huge_pages = true, .populate = true, .numa_node = -1};
    int status;

    if (!has_wholes(xdp))
        return 0;
    if (frame_bytes_max(xdp) > LLI_XDP_PIECES_MAX * (LLI_XDP_CHUNK_LARGE - LLI_XDP_HEADROOM))
        return lli_fail(xdp->log, LLM_EOPTION,
                        "xdp: interface %s has an MTU of %u, and frames are of %d pieces at most: "
                        "'ip link set %s mtu 9000'",
                        xdp->link.interface.name, xdp->link.interface.mtu, LLI_XDP_PIECES_MAX,
                        xdp->link.interface.name);
    xdp->in.whole_bytes = (frame_bytes_max(xdp) + 63) / 64 * 64;
    status = lli_memory_map(&xdp->in.whole_memory, (size_t)xdp->in.whole_bytes * LLI_XDP_WHOLES, &policy,
                            xdp->log);
    if (status != 0)
        return status;
    xdp->in.wholes = xdp->in.whole_memory.base;
    while (xdp->in.whole_count < LLI_XDP_WHOLES) {
        xdp->in.whole_free[xdp->in.whole_count] = (uint16_t)xdp->in.whole_count;
        xdp->in.whole_count++;
    }
    return 0;
}

/* Returns a power of two of chunks, such that all sockets together use the memory given by the option. */
static uint32_t rx_chunks(const struct lli_xdp *xdp, const struct llm_options *options, uint32_t sockets)
{
    const uint32_t wanted = options->rcvbuf_bytes / sockets / chunk_bytes(xdp);
    uint32_t chunks = RX_CHUNKS_MIN;

    while (chunks < RX_CHUNKS_MAX && 2 * chunks <= wanted)
        chunks *= 2;
    return chunks;
}

/* Adds a socket to the epoll set. */
static int epoll_watch(const struct lli_xdp *xdp, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    if (epoll_ctl(xdp->sleep.epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    return lli_fail(xdp->log, LLM_ESYSTEM, "xdp: epoll of a socket on interface %s: %m",
                    xdp->link.interface.name);
}

static int sockets_open(struct lli_xdp *xdp, const struct llm_options *options,
                        const struct lli_xdp_options *own, uint32_t first, int numa_node)
{
    struct lli_xdp_socket_config config = {
        .log = xdp->log,
        .interface = &xdp->link.interface,
        .chunk_bytes = chunk_bytes(xdp),
        .rx_chunks = rx_chunks(xdp, options, xdp->socket_count),
        .tx_chunks = LLI_XDP_TX_CHUNKS,
        .busy_poll_us = options->busy_poll_us,
        .numa_node = numa_node,
    };
    int status = option_bind_flags(xdp, own->xdp_zero_copy, &config.bind_flags);

    if (has_wholes(xdp))
        config.bind_flags |= XDP_USE_SG;
    for (uint32_t i = 0; i < xdp->socket_count && status == 0; i++) {
        struct lli_xdp_socket *socket = &xdp->sockets[i];

        config.queue = first + i;
        status = lli_xdp_socket_init(socket, &config);
        if (status == 0)
            status = lli_xdp_program_queue(&xdp->program, xdp->log, socket->queue, socket->fd);
        if (status == 0)
            status = epoll_watch(xdp, socket->fd, socket);
        config.tx_chunks = 0;
    }
    return status;
}

/*
 * Opens the program before the sockets, because some drivers assign a queue to a socket only if a program is
 * attached. Until then it passes all frames to the kernel.
 */
static int fast_path_open(struct lli_xdp *xdp, const struct lli_transport_config *config, int numa_node)
{
    const struct llm_options *options = config->options;
    struct lli_xdp_program_config program = {
        .log = xdp->log,
        .family = xdp->family,
        .groups_max = LLI_XDP_GROUPS_MAX,
        .frags = has_wholes(xdp),
        .size_at = config->size_at,
    };
    struct lli_xdp_options own;
    uint32_t first, count;
    int status;

    lli_option_values_read(config->values, &lli_xdp_option_table, &own);
    if ((status = option_mode(xdp->log, own.xdp_mode, &xdp->mode)) != 0 ||
        (status = option_queues(xdp, own.xdp_queue, &first, &count)) != 0)
        return status;
    if (xdp->mode == LLI_XDP_AUTO && generic_is_better(xdp, config->size_at, &own))
        xdp->mode = LLI_XDP_GENERIC;
    xdp->sockets = calloc(count, sizeof *xdp->sockets);
    if (xdp->sockets == NULL)
        return lli_fail(xdp->log, LLM_ENOMEM, "xdp: no memory for %u sockets", count);
    for (xdp->socket_count = 0; xdp->socket_count < count; xdp->socket_count++)
        xdp->sockets[xdp->socket_count].fd = -1;
    program.queues = first + count;
    if (options->timestamps != 0)
        lli_log(xdp->log, LLM_LEVEL_WARNING,
                "xdp: timestamps=1: frames have none; leave it out, or take udp://");
    if ((status = wholes_open(xdp)) != 0 || (status = lli_xdp_program_init(&xdp->program, &program)) != 0 ||
        (status = lli_xdp_program_attach(&xdp->program, xdp->log, &xdp->link.interface, &xdp->mode)) != 0 ||
        (status = sockets_open(xdp, options, &own, first, numa_node)) != 0)
        return status;
    lli_log(xdp->log, LLM_LEVEL_INFO, "xdp: interface %s, %s mode, %s, %u of its queues from %u on",
            xdp->link.interface.name, xdp->mode == LLI_XDP_NATIVE ? "native" : "generic",
            xdp->sockets[0].zero_copy ? "zero copy" : "copies", count, first);
    return 0;
}

static int instance_set_up(struct lli_xdp *xdp, const struct lli_transport_config *config,
                           struct lli_caps *caps)
{
    const struct llm_options *options = config->options;
    struct lli_ip_interface *interface = &xdp->link.interface;
    union lli_ip_address group;
    int status;

    if ((status = lli_ip_resolve(xdp->log, "xdp", LLM_EGROUP, "group", config->host, AF_UNSPEC, &group)) != 0)
        return status;
    xdp->family = group.any.sa_family;
    if ((status = lli_ip_interface_find(xdp->log, "xdp", options->interface, &group, interface)) != 0 ||
        (status = interface_mac(xdp)) != 0 || (status = udp_open(xdp, config, caps)) != 0 ||
        (status = lli_xdp_own_address(xdp)) != 0)
        return status;
    xdp->out.payload_max = caps->payload_max;
    xdp->sleep.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (xdp->sleep.epoll < 0)
        return lli_fail(xdp->log, LLM_ESYSTEM, "xdp: epoll: %m");
    caps->numa_node = lli_memory_node("net", interface->name);
    if ((status = epoll_watch(xdp, xdp->udp->arm(xdp->udp_instance), NULL)) != 0)
        return status;
    return fast_path_open(xdp, config, caps->numa_node);
}

int lli_xdp_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct lli_xdp *xdp = instance;
    int status;

    xdp->log = config->log;
    xdp->sleep.epoll = xdp->senders.neighbours = -1;
    xdp->senders.look_at = LLI_NEVER;
    xdp->program = (struct lli_xdp_program){-1, -1, -1, -1};
    status = instance_set_up(xdp, config, caps);
    if (status != 0) {
        lli_xdp_close(xdp);
        return status;
    }
    caps->post_max = LLI_XDP_POST_MAX;
    caps->train_max = 1;
    return 0;
}

/*
 * Frees everything but the UDP instance. The program goes first: from then on the kernel gets all frames. In
 * a child process this closes descriptors only; the parent's objects remain.
 */
static void instance_free(struct lli_xdp *xdp)
{
    lli_xdp_program_fini(&xdp->program);
    for (uint32_t i = 0; i < xdp->socket_count; i++)
        lli_xdp_socket_fini(&xdp->sockets[i]);
    xdp->socket_count = 0;
    free(xdp->sockets);
    xdp->sockets = NULL;
    lli_memory_unmap(&xdp->in.whole_memory);
    if (xdp->sleep.epoll >= 0)
        close(xdp->sleep.epoll);
    if (xdp->senders.neighbours >= 0)
        close(xdp->senders.neighbours);
    xdp->sleep.epoll = xdp->senders.neighbours = -1;
}

void lli_xdp_close(void *instance)
{
    struct lli_xdp *xdp = instance;

    instance_free(xdp);
    if (xdp->udp_instance != NULL)
        xdp->udp->close(xdp->udp_instance);
    free(xdp->udp_instance);
    xdp->udp_instance = NULL;
}

void lli_xdp_abandon(void *instance)
{
    struct lli_xdp *xdp = instance;

    instance_free(xdp);
    xdp->udp->abandon(xdp->udp_instance);
    free(xdp->udp_instance);
    xdp->udp_instance = NULL;
}
