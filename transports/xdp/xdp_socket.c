/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "xdp_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

/*
 * The kernel releases the queue of a closed socket with a delay, more than half a second on a loaded machine.
 */
enum { BIND_TRIES = 2000, BIND_RETRY_US = 1000 };

/* ----------------------------------------------------------------------------------------------- failures */

/* Error code and remedy for an errno. */
static const struct socket_failure {
    int number;
    int error;
    const char *remedy;
} socket_failures[] = {
    {EPERM, LLM_EACCESS,
     "it takes CAP_NET_RAW: run as root, or 'setcap cap_bpf,cap_net_admin,cap_net_raw+ep' on the program"},
    {EAFNOSUPPORT, LLM_ESYSTEM, "the kernel was built without CONFIG_XDP_SOCKETS; take udp://"},
    {ENOBUFS, LLM_ELIMIT,
     "raise the limit of locked memory, 'ulimit -l unlimited', or give CAP_IPC_LOCK, or lower rcvbuf_bytes"},
    {EMFILE, LLM_ELIMIT, "raise the limit of open files, 'ulimit -n'"},
    {ENFILE, LLM_ELIMIT, "raise the limit of open files, fs.file-max"},
    {ENOMEM, LLM_ENOMEM, "free memory, or lower rcvbuf_bytes"},
    {EBUSY, LLM_EADDRINUSE, "another AF_XDP socket has the queue; take another with xdp_queue, or udp://"},
    {EOPNOTSUPP, LLM_EOPTION, "the driver has no zero copy here; take xdp_zero_copy=auto"},
    {EINVAL, LLM_EOPTION,
     "the interface has no such queue, or the kernel takes no frames of several pieces (Linux 6.6 does): see "
     "'ethtool -l', or 'ip link set' an MTU of at most 1500"},
    {ENODEV, LLM_EINTERFACE, "the interface is gone; 'ip link' lists those there are"},
    {ENETDOWN, LLM_EINTERFACE, "the interface is down; 'ip link set up' brings it up"},
};

/* Fails with a code for errno; logs the operation. */
static int socket_fail(const struct lli_xdp_socket_config *config, const char *what)
{
    for (size_t i = 0; i < sizeof socket_failures / sizeof socket_failures[0]; i++)
        if (socket_failures[i].number == errno)
            return lli_fail(config->log, socket_failures[i].error,
                            "xdp: %s for queue %u of interface %s: %m; %s", what, config->queue,
                            config->interface->name, socket_failures[i].remedy);
    return lli_fail(config->log, LLM_ESYSTEM, "xdp: %s for queue %u of interface %s: %m", what, config->queue,
                    config->interface->name);
}

/* ------------------------------------------------------------------------------------------------- set-up */

static int memory_open(struct lli_xdp_socket *socket, const struct lli_xdp_socket_config *config)
{
    const size_t size = (size_t)(config->rx_chunks + config->tx_chunks) * config->chunk_bytes;
    const struct lli_memory_policy policy = {
        .huge_pages = true, .populate = true, .numa_node = config->numa_node};
    struct xdp_umem_reg region = {.len = size, .chunk_size = config->chunk_bytes};
    int status = lli_memory_map(&socket->memory, size, &policy, config->log);

    if (status != 0)
        return status;
    socket->chunks = socket->memory.base;
    region.addr = (uintptr_t)socket->chunks;
    if (setsockopt(socket->fd, SOL_XDP, XDP_UMEM_REG, &region, sizeof region) < 0)
        return socket_fail(config, "frame memory");
    for (uint32_t i = 0; i < config->tx_chunks; i++)
        socket->free[socket->free_count++] = config->rx_chunks + i;
    return 0;
}

struct ring_kind {
    int option;
    uint64_t page;
    size_t entry_bytes;
};

static int ring_open(const struct lli_xdp_socket *socket, struct lli_xdp_ring *ring,
                     const struct ring_kind *kind, const struct xdp_ring_offset *offsets)
{
    uint8_t *base;

    ring->size = offsets->desc + ((size_t)ring->mask + 1) * kind->entry_bytes;
    base = mmap(NULL, ring->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket->fd,
                (off_t)kind->page);
    if (base == MAP_FAILED)
        return -1;
    ring->base = base;
    ring->producer = (uint32_t *)(void *)(base + offsets->producer);
    ring->consumer = (uint32_t *)(void *)(base + offsets->consumer);
    ring->flags = (uint32_t *)(void *)(base + offsets->flags);
    ring->entries = base + offsets->desc;
    return 0;
}

static int rings_open(struct lli_xdp_socket *socket, const struct lli_xdp_socket_config *config)
{
    static const struct ring_kind kinds[] = {
        {XDP_RX_RING, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc)},
        {XDP_TX_RING, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc)},
        {XDP_UMEM_FILL_RING, XDP_UMEM_PGOFF_FILL_RING, sizeof(uint64_t)},
        {XDP_UMEM_COMPLETION_RING, XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(uint64_t)},
    };
    struct lli_xdp_ring *const rings[] = {&socket->rx, &socket->tx, &socket->fill, &socket->completion};
    /* bind() requires a completion ring of every socket. */
    const uint32_t sizes[] = {config->rx_chunks, config->tx_chunks, config->rx_chunks, LLI_XDP_TX_CHUNKS};
    struct xdp_mmap_offsets offsets;
    const struct xdp_ring_offset *const places[] = {&offsets.rx, &offsets.tx, &offsets.fr, &offsets.cr};
    socklen_t length = sizeof offsets;

    for (int i = 0; i < 4; i++) {
        rings[i]->mask = sizes[i] - 1;
        if (sizes[i] > 0 && setsockopt(socket->fd, SOL_XDP, kinds[i].option, &sizes[i], sizeof sizes[i]) < 0)
            return socket_fail(config, "ring");
    }
    if (getsockopt(socket->fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) < 0 || length < sizeof offsets)
        return socket_fail(config, "ring");
    for (int i = 0; i < 4; i++)
        if (sizes[i] > 0 && ring_open(socket, rings[i], &kinds[i], places[i]) < 0)
            return socket_fail(config, "ring");
    return 0;
}

static int socket_bind(struct lli_xdp_socket *socket, const struct lli_xdp_socket_config *config)
{
    const struct sockaddr_xdp address = {
        .sxdp_family = AF_XDP,
        .sxdp_flags = config->bind_flags,
        .sxdp_ifindex = (uint32_t)config->interface->index,
        .sxdp_queue_id = config->queue,
    };
    struct xdp_options options = {.flags = 0};
    socklen_t length = sizeof options;

    for (int tries = 0; bind(socket->fd, (const struct sockaddr *)(const void *)&address, sizeof address) < 0;
         tries++)
        if (errno != EBUSY || tries == BIND_TRIES || usleep(BIND_RETRY_US) != 0)
            return socket_fail(config, "bind");
    getsockopt(socket->fd, SOL_XDP, XDP_OPTIONS, &options, &length);
    socket->zero_copy = (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
    return 0;
}

static void socket_busy_poll(const struct lli_xdp_socket *socket, const struct lli_xdp_socket_config *config)
{
    const int time_us = (int)config->busy_poll_us;

    if (time_us > 0 && setsockopt(socket->fd, SOL_SOCKET, SO_BUSY_POLL, &time_us, sizeof time_us) < 0)
        lli_log(config->log, LLM_LEVEL_WARNING, "xdp: busy_poll_us=%d was refused: %m; leave it out",
                time_us);
}

int lli_xdp_socket_init(struct lli_xdp_socket *self, const struct lli_xdp_socket_config *config)
{
    int status;

    memset(self, 0, sizeof *self);
    self->queue = config->queue;
    self->chunk_bytes = config->chunk_bytes;
    self->rx_chunks = config->rx_chunks;
    self->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (self->fd < 0)
        return socket_fail(config, "AF_XDP socket");
    if ((status = memory_open(self, config)) != 0 || (status = rings_open(self, config)) != 0)
        return status;
    for (uint32_t i = 0; i < config->rx_chunks; i++)
        *lli_xdp_address(&self->fill, self->fill.put++) = (uint64_t)i * config->chunk_bytes;
    lli_xdp_ring_publish(&self->fill);
    socket_busy_poll(self, config);
    return socket_bind(self, config);
}

void lli_xdp_socket_fini(struct lli_xdp_socket *socket)
{
    struct lli_xdp_ring *const rings[] = {&socket->rx, &socket->tx, &socket->fill, &socket->completion};

    for (int i = 0; i < 4; i++)
        if (rings[i]->base != NULL)
            munmap(rings[i]->base, rings[i]->size);
    if (socket->fd >= 0)
        close(socket->fd);
    lli_memory_unmap(&socket->memory);
    memset(socket, 0, sizeof *socket);
    socket->fd = -1;
}

uint64_t lli_xdp_socket_drops(struct lli_xdp_socket *socket)
{
    struct xdp_statistics statistics = {.rx_dropped = 0};
    socklen_t length = sizeof statistics;
    const uint64_t seen = socket->drops_seen;

    if (getsockopt(socket->fd, SOL_XDP, XDP_STATISTICS, &statistics, &length) < 0)
        return 0;
    socket->drops_seen = statistics.rx_dropped + statistics.rx_ring_full;
    return socket->drops_seen - seen;
}
