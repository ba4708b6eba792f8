/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "raw.h"
/* Socket and program are the library's; sending and receiving are not. */
#include "xdp/xdp_frame.h"
#include "xdp/xdp_program.h"
#include "xdp/xdp_socket.h"

#define RAW_XDP_UDP_HEADER 8
#define RAW_XDP_TAILROOM 256

/* Shared by all ends of the process until it ends, since ends may be opened again. */
static struct raw_xsk {
    bool open;
    struct lli_ip_interface interface; /* interface of the socket */
    struct lli_xdp_socket socket;
    struct lli_xdp_program program;
    uint32_t next; /* next chunk to send from */
} raw_xsk;

struct raw_xdp_end {
    struct raw_end end;
    int member;     /* socket that joined the group; 0: the end sends */
    bool lent;      /* the caller has the datagram last received */
    uint64_t chunk; /* chunk of that datagram */
    struct lli_xdp_header header;
};

static struct raw_xdp_end *raw_xdp_of(struct raw_end *end)
{
    return (struct raw_xdp_end *)end;
}

static int raw_xdp_open_socket(const struct raw_group *group)
{
    static const struct lli_log log = {.level = LLM_LEVEL_ERROR};
    const struct lli_xdp_socket_config config = {.log = &log,
                                                 .interface = &raw_xsk.interface,
                                                 .chunk_bytes = LLI_XDP_CHUNK_SMALL,
                                                 .rx_chunks = LLI_XDP_TX_CHUNKS,
                                                 .tx_chunks = LLI_XDP_TX_CHUNKS,
                                                 .bind_flags = XDP_USE_NEED_WAKEUP,
                                                 .numa_node = -1};

    if (raw_xsk.open)
        return 0;
    raw_xsk.interface = group->interface;
    raw_xsk.open = lli_xdp_socket_init(&raw_xsk.socket, &config) == 0;
    return raw_xsk.open ? 0 : -1;
}

/* Redirects UDP of the group to the socket, and all else to the kernel, in the library's mode. */
static int raw_xdp_take(const union lli_ip_address *address)
{
    static const struct lli_log log = {.level = LLM_LEVEL_ERROR};
    const struct lli_xdp_program_config config = {
        .log = &log, .family = AF_INET, .queues = 1, .groups_max = 1};
    enum lli_xdp_mode mode = raw_xsk.interface.wire ? LLI_XDP_AUTO : LLI_XDP_GENERIC;

    return lli_xdp_program_init(&raw_xsk.program, &config) == 0 &&
                   lli_xdp_program_group(&raw_xsk.program, &log, address, true) == 0 &&
                   lli_xdp_program_queue(&raw_xsk.program, &log, 0, raw_xsk.socket.fd) == 0 &&
                   lli_xdp_program_attach(&raw_xsk.program, &log, &raw_xsk.interface, &mode) == 0
               ? 0
               : -1;
}

static int raw_xdp_hardware_address(unsigned char *mac)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_flags = 0};
    bool found;

    memcpy(request.ifr_name, raw_xsk.interface.name, sizeof request.ifr_name);
    found = fd >= 0 && ioctl(fd, SIOCGIFHWADDR, &request) == 0;
    if (found)
        memcpy(mac, request.ifr_hwaddr.sa_data, 6);
    if (fd >= 0)
        close(fd);
    return found ? 0 : -1;
}

static void raw_xdp_close(struct raw_end *end)
{
    if (raw_xdp_of(end)->member > 0)
        close(raw_xdp_of(end)->member);
}

static int raw_xdp_open(struct raw_end *end, const struct raw_group *group, bool to_send)
{
    const size_t room = LLI_XDP_CHUNK_SMALL - LLI_XDP_HEADER_V4 - RAW_XDP_TAILROOM,
                 datagram_bytes = raw_datagram_bytes(group, RAW_XDP_UDP_HEADER);
    struct raw_xdp_end *xdp = raw_xdp_of(end);
    int failed;

    errno = EAFNOSUPPORT;
    if (group->address.any.sa_family != AF_INET || raw_xdp_open_socket(group) != 0)
        return -1;
    end->datagram_bytes = datagram_bytes < room ? datagram_bytes : room;
    if (to_send) {
        union lli_ip_address source = raw_xsk.interface.address;
        unsigned char mac[LLI_XDP_MAC_BYTES] = {0};

        lli_ip_port_set(&source, lli_ip_port(&group->address));
        failed = raw_xdp_hardware_address(mac);
        lli_xdp_header_init(&xdp->header, mac, &source, &group->address, 1);
        return failed;
    }
    xdp->member = raw_xdp_take(&group->address) == 0 ? raw_udp_open_receive(group) : -1;
    return xdp->member < 0 ? -1 : 0;
}

/* Writes a frame into the ring. Returns false if the kernel has not yet sent enough earlier frames. */
static bool raw_xdp_put(struct raw_xdp_end *xdp, const void *data, size_t size)
{
    struct lli_xdp_socket *xsk = &raw_xsk.socket;
    const uint32_t chunk = xsk->rx_chunks + raw_xsk.next % LLI_XDP_TX_CHUNKS;
    unsigned char *frame = lli_xdp_chunk(xsk, chunk);

    xsk->completion.got += lli_xdp_ring_ready(&xsk->completion);
    lli_xdp_ring_consume(&xsk->completion);
    if (xsk->tx.put - xsk->completion.got == LLI_XDP_TX_CHUNKS)
        return false;
    memcpy(frame + LLI_XDP_HEADER_V4, data, size);
    lli_xdp_header_put(&xdp->header, frame, frame + LLI_XDP_HEADER_V4, (uint32_t)size);
    *lli_xdp_desc(&xsk->tx, xsk->tx.put++) = (struct xdp_desc){.addr = (uint64_t)chunk * xsk->chunk_bytes,
                                                               .len = (uint32_t)(LLI_XDP_HEADER_V4 + size)};
    raw_xsk.next++;
    return true;
}

/* Makes the kernel send the frames in the ring. */
static int raw_xdp_kick(void)
{
    lli_xdp_ring_publish(&raw_xsk.socket.tx);
    if (sendto(raw_xsk.socket.fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0)
        return 0;
    return errno == EAGAIN || errno == EBUSY || errno == ENOBUFS ? 0 : -1;
}

static int raw_xdp_send(struct raw_end *end, const void *data, size_t size)
{
    raw_xdp_put(raw_xdp_of(end), data, size);
    return raw_xdp_kick();
}

/* Returns the chunk of the previous datagram to the kernel first. */
static const void *raw_xdp_receive(struct raw_end *end, size_t *size)
{
    struct raw_xdp_end *xdp = raw_xdp_of(end);
    struct lli_xdp_socket *xsk = &raw_xsk.socket;
    const struct xdp_desc *desc;
    const unsigned char *frame;

    if (xdp->lent) {
        *lli_xdp_address(&xsk->fill, xsk->fill.put++) = xdp->chunk;
        lli_xdp_ring_publish(&xsk->fill);
        xdp->lent = false;
    }
    if (lli_xdp_ring_ready(&xsk->rx) == 0)
        return NULL;
    desc = lli_xdp_desc(&xsk->rx, xsk->rx.got++);
    frame = xsk->chunks + desc->addr;
    *size = ((size_t)frame[38] << 8 | frame[39]) - RAW_XDP_UDP_HEADER;
    xdp->chunk = desc->addr & ~(uint64_t)(xsk->chunk_bytes - 1);
    xdp->lent = true;
    lli_xdp_ring_consume(&xsk->rx);
    return frame + LLI_XDP_HEADER_V4;
}

/* Sends frames that the kernel copies in one call. */
static int raw_xdp_send_each(struct raw_end *end, const void *data, size_t size, size_t message_bytes)
{
    for (size_t at = 0; at < size; at += message_bytes)
        if (!raw_xdp_put(raw_xdp_of(end), (const char *)data + at, message_bytes))
            break;
    return raw_xdp_kick();
}

const struct raw_scheme raw_xdp = {
    .name = "xdp",
    .bytes = sizeof(struct raw_xdp_end),
    .open = raw_xdp_open,
    .close = raw_xdp_close,
    .send = raw_xdp_send,
    .receive = raw_xdp_receive,
    .send_each = raw_xdp_send_each,
};
