/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "raw_xdp.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raw_udp.h"

#define RAW_XDP_CHUNK 2048
#define RAW_XDP_RING 1024 /* chunks to receive into, as many to send from */
#define RAW_XDP_HEADERS 42
#define RAW_XDP_BATCH 32 /* frames that the kernel copies in one call */
#define RAW_XDP_UDP_HEADER 8
#define RAW_XDP_BIND_TRIES 500

struct raw_ring {
    uint32_t *producer;
    uint32_t *consumer;
    void *entries;
    uint32_t put; /* or taken */
};

/* Shared by the ends of the process. */
static struct raw_xsk {
    int users;
    int fd;
    int map;
    int program;
    int link;
    char *chunks;
    struct raw_ring rx;
    struct raw_ring fill;
    struct raw_ring tx;
    struct raw_ring completion;
    uint32_t next; /* chunk to send from */
} raw_xsk;

struct raw_xdp_end {
    struct raw_end end;
    int member; /* a socket that joined the group; -1: the end sends */
    bool lent;  /* the datagram last received is still with the caller */
    uint64_t chunk; /* ... in this chunk */
    unsigned char header[RAW_XDP_HEADERS];
};

static struct raw_xdp_end *raw_xdp_of(struct raw_end *end)
{
    return (struct raw_xdp_end *)end;
}

/* ------------------------------------------------------------------------------------------------------------- program */

static int raw_bpf(enum bpf_cmd command, union bpf_attr *attribute)
{
    return (int)syscall(SYS_bpf, command, attribute, sizeof *attribute);
}

/* UDP to the port goes to the socket, all else to the kernel. */
static int raw_xdp_load(int map, uint16_t port)
{
    const struct bpf_insn insns[] = {
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = offsetof(struct xdp_md, data)},
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 3, .src_reg = 1, .off = offsetof(struct xdp_md, data_end)},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 4, .src_reg = 2},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 4, .imm = RAW_XDP_HEADERS},
        {.code = BPF_JMP | BPF_JGT | BPF_X, .dst_reg = 4, .src_reg = 3, .off = 12},
        {.code = BPF_LDX | BPF_MEM | BPF_H, .dst_reg = 5, .src_reg = 2, .off = 12},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 5, .imm = htons(0x0800), .off = 10},
        {.code = BPF_LDX | BPF_MEM | BPF_B, .dst_reg = 5, .src_reg = 2, .off = 23},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 5, .imm = IPPROTO_UDP, .off = 8},
        {.code = BPF_LDX | BPF_MEM | BPF_H, .dst_reg = 5, .src_reg = 2, .off = 36},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 5, .imm = port, .off = 6},
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = offsetof(struct xdp_md, rx_queue_index)},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {.code = 0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attribute = {.prog_type = BPF_PROG_TYPE_XDP, .insn_cnt = sizeof insns / sizeof insns[0]};

    attribute.insns = (uintptr_t)insns;
    attribute.license = (uintptr_t)"Apache-2.0";
    attribute.expected_attach_type = BPF_XDP;
    return raw_bpf(BPF_PROG_LOAD, &attribute);
}

/* True for one end of a veth pair, where generic mode is the faster one. */
static bool raw_xdp_is_veth(unsigned interface)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ethtool_drvinfo about = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (void *)&about};
    const bool known = fd >= 0 && if_indextoname(interface, request.ifr_name) && ioctl(fd, SIOCETHTOOL, &request) == 0;

    if (fd >= 0)
        close(fd);
    return known && strcmp(about.driver, "veth") == 0;
}

/* In the mode that the library takes: native if the driver can, but of veth. */
static int raw_xdp_attach(int program, unsigned interface)
{
    union bpf_attr attribute = {.link_create = {.prog_fd = (uint32_t)program, .flags = XDP_FLAGS_DRV_MODE}};
    int link = -1;

    attribute.link_create.target_ifindex = interface;
    attribute.link_create.attach_type = BPF_XDP;
    errno = EOPNOTSUPP;
    if (!raw_xdp_is_veth(interface))
        link = raw_bpf(BPF_LINK_CREATE, &attribute);
    if (link >= 0 || errno != EOPNOTSUPP)
        return link;
    attribute.link_create.flags = XDP_FLAGS_SKB_MODE;
    return raw_bpf(BPF_LINK_CREATE, &attribute);
}

static int raw_xdp_take(const struct raw_group *group)
{
    union bpf_attr create = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
    union bpf_attr update = {.flags = BPF_ANY};
    const struct sockaddr_in *address = (const struct sockaddr_in *)&group->address;
    const uint32_t queue = 0;
    const uint32_t fd = (uint32_t)raw_xsk.fd;

    raw_xsk.map = raw_bpf(BPF_MAP_CREATE, &create);
    update.map_fd = (uint32_t)raw_xsk.map;
    update.key = (uintptr_t)&queue;
    update.value = (uintptr_t)&fd;
    if (raw_xsk.map < 0 || raw_bpf(BPF_MAP_UPDATE_ELEM, &update) < 0)
        return -1;
    raw_xsk.program = raw_xdp_load(raw_xsk.map, address->sin_port);
    if (raw_xsk.program < 0)
        return -1;
    raw_xsk.link = raw_xdp_attach(raw_xsk.program, group->interface);
    return raw_xsk.link < 0 ? -1 : 0;
}

/* -------------------------------------------------------------------------------------------------------------- socket */

static int raw_xdp_ring(struct raw_ring *ring, int option, off_t page, size_t entry_bytes, const struct xdp_ring_offset *offset)
{
    const uint32_t size = RAW_XDP_RING;
    char *base;

    if (setsockopt(raw_xsk.fd, SOL_XDP, option, &size, sizeof size) < 0)
        return -1;
    base = mmap(NULL, offset->desc + size * entry_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, raw_xsk.fd, page);
    if (base == MAP_FAILED)
        return -1;
    ring->producer = (uint32_t *)(void *)(base + offset->producer);
    ring->consumer = (uint32_t *)(void *)(base + offset->consumer);
    ring->entries = base + offset->desc;
    ring->put = 0;
    return 0;
}

static int raw_xdp_rings(void)
{
    const size_t bytes = 2 * RAW_XDP_RING * RAW_XDP_CHUNK;
    struct xdp_umem_reg region = {.len = bytes, .chunk_size = RAW_XDP_CHUNK};
    struct xdp_mmap_offsets offsets;
    socklen_t length = sizeof offsets;

    raw_xsk.chunks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (raw_xsk.chunks == MAP_FAILED)
        return -1;
    region.addr = (uintptr_t)raw_xsk.chunks;
    if (setsockopt(raw_xsk.fd, SOL_XDP, XDP_UMEM_REG, &region, sizeof region) < 0 ||
        getsockopt(raw_xsk.fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) < 0)
        return -1;
    if (raw_xdp_ring(&raw_xsk.rx, XDP_RX_RING, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc), &offsets.rx) < 0 ||
        raw_xdp_ring(&raw_xsk.tx, XDP_TX_RING, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc), &offsets.tx) < 0 ||
        raw_xdp_ring(&raw_xsk.fill, XDP_UMEM_FILL_RING, XDP_UMEM_PGOFF_FILL_RING, sizeof(uint64_t), &offsets.fr) < 0 ||
        raw_xdp_ring(&raw_xsk.completion, XDP_UMEM_COMPLETION_RING, (off_t)XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(uint64_t),
                     &offsets.cr) < 0)
        return -1;
    for (uint64_t i = 0; i < RAW_XDP_RING; i++)
        ((uint64_t *)raw_xsk.fill.entries)[i] = (RAW_XDP_RING + i) * RAW_XDP_CHUNK;
    raw_xsk.fill.put = RAW_XDP_RING;
    __atomic_store_n(raw_xsk.fill.producer, RAW_XDP_RING, __ATOMIC_RELEASE);
    return 0;
}

/* The kernel gives a queue back some time after the socket that had it was closed. */
static int raw_xdp_bind(unsigned interface)
{
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_flags = XDP_USE_NEED_WAKEUP, .sxdp_ifindex = interface};

    for (int i = 0; i < RAW_XDP_BIND_TRIES; i++) {
        if (bind(raw_xsk.fd, (const struct sockaddr *)(const void *)&address, sizeof address) == 0)
            return 0;
        if (errno != EBUSY)
            return -1;
        usleep(1000);
    }
    return -1;
}

/* It stays until the process ends: an end may be opened again. */
static int raw_xdp_socket(unsigned interface)
{
    if (raw_xsk.users > 0)
        return 0;
    raw_xsk.fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (raw_xsk.fd < 0)
        return -1;
    if (raw_xdp_rings() == 0 && raw_xdp_bind(interface) == 0)
        return 0;
    close(raw_xsk.fd);
    return -1;
}

/* ---------------------------------------------------------------------------------------------------------------- ends */

static void raw_put16(unsigned char *at, size_t value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static int raw_xdp_addresses(unsigned interface, unsigned char *mac, unsigned char *ip)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_flags = 0};
    int failed = fd < 0 || !if_indextoname(interface, request.ifr_name) || ioctl(fd, SIOCGIFHWADDR, &request) != 0;

    if (!failed)
        memcpy(mac, request.ifr_hwaddr.sa_data, 6);
    failed = failed || ioctl(fd, SIOCGIFADDR, &request) != 0;
    if (!failed)
        memcpy(ip, &((const struct sockaddr_in *)(const void *)&request.ifr_addr)->sin_addr, 4);
    if (fd >= 0)
        close(fd);
    return failed ? -1 : 0;
}

static int raw_xdp_header(unsigned char *header, const struct raw_group *group)
{
    const struct sockaddr_in *address = (const struct sockaddr_in *)&group->address;
    const unsigned char *ip = (const unsigned char *)&address->sin_addr;

    memcpy(header, (const unsigned char[]){0x01, 0x00, 0x5e, ip[1] & 0x7f, ip[2], ip[3]}, 6);
    raw_put16(header + 12, 0x0800);
    raw_put16(header + 14, 0x4500);
    raw_put16(header + 20, 0x4000); /* not to be fragmented */
    header[22] = 1;
    header[23] = IPPROTO_UDP;
    memcpy(header + 30, ip, 4);
    memcpy(header + 34, &address->sin_port, 2);
    memcpy(header + 36, &address->sin_port, 2);
    return raw_xdp_addresses(group->interface, header + 6, header + 26);
}

static void raw_xdp_close(struct raw_end *end)
{
    struct raw_xdp_end *xdp = raw_xdp_of(end);

    if (xdp->member >= 0)
        close(xdp->member);
    raw_xsk.users--;
    free(xdp);
}

static struct raw_end *raw_xdp_open(const struct raw_group *group, bool to_send)
{
    struct raw_xdp_end *xdp = calloc(1, sizeof *xdp);

    if (!xdp)
        return NULL;
    xdp->member = -1;
    errno = EAFNOSUPPORT;
    if (group->address.ss_family != AF_INET || raw_xdp_socket(group->interface) != 0) {
        free(xdp);
        return NULL;
    }
    raw_xsk.users++;
    xdp->end.datagram_bytes = raw_udp_datagram_bytes(group);
    if (xdp->end.datagram_bytes > RAW_XDP_CHUNK - RAW_XDP_HEADERS - 256)
        xdp->end.datagram_bytes = RAW_XDP_CHUNK - RAW_XDP_HEADERS - 256;
    if (to_send ? raw_xdp_header(xdp->header, group) == 0
                : raw_xdp_take(group) == 0 && (xdp->member = raw_udp_open_receive(group)) >= 0)
        return &xdp->end;
    raw_xdp_close(&xdp->end);
    return NULL;
}

static void raw_xdp_checksum(unsigned char *ip)
{
    uint32_t sum = 0;

    raw_put16(ip + 10, 0);
    for (int i = 0; i < 20; i += 2)
        sum += (uint32_t)ip[i] << 8 | ip[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    raw_put16(ip + 10, ~(sum + (sum >> 16)) & 0xffff);
}

/* Writes a frame into the ring. False: the kernel has not sent enough of those before. */
static bool raw_xdp_put(struct raw_xdp_end *xdp, const void *data, size_t size)
{
    const uint32_t sent = __atomic_load_n(raw_xsk.completion.producer, __ATOMIC_ACQUIRE);
    struct xdp_desc *desc = (struct xdp_desc *)raw_xsk.tx.entries + raw_xsk.tx.put % RAW_XDP_RING;
    const uint64_t at = (uint64_t)(raw_xsk.next % RAW_XDP_RING) * RAW_XDP_CHUNK;
    unsigned char *frame = (unsigned char *)raw_xsk.chunks + at;

    __atomic_store_n(raw_xsk.completion.consumer, sent, __ATOMIC_RELEASE);
    if (raw_xsk.tx.put - sent == RAW_XDP_RING)
        return false;
    memcpy(frame, xdp->header, RAW_XDP_HEADERS);
    raw_put16(frame + 16, size + 28);
    raw_put16(frame + 38, size + 8);
    raw_xdp_checksum(frame + 14);
    memcpy(frame + RAW_XDP_HEADERS, data, size);
    *desc = (struct xdp_desc){.addr = at, .len = (uint32_t)(RAW_XDP_HEADERS + size)};
    raw_xsk.tx.put++;
    raw_xsk.next++;
    return true;
}

/* Sends what is in the ring. */
static int raw_xdp_kick(void)
{
    __atomic_store_n(raw_xsk.tx.producer, raw_xsk.tx.put, __ATOMIC_RELEASE);
    if (sendto(raw_xsk.fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0)
        return 0;
    return errno == EAGAIN || errno == EBUSY || errno == ENOBUFS ? 0 : -1;
}

static int raw_xdp_send(struct raw_end *end, const void *data, size_t size)
{
    raw_xdp_put(raw_xdp_of(end), data, size);
    return raw_xdp_kick();
}

static void raw_xdp_give_back(struct raw_xdp_end *xdp)
{
    if (!xdp->lent)
        return;
    ((uint64_t *)raw_xsk.fill.entries)[raw_xsk.fill.put++ % RAW_XDP_RING] = xdp->chunk;
    __atomic_store_n(raw_xsk.fill.producer, raw_xsk.fill.put, __ATOMIC_RELEASE);
    xdp->lent = false;
}

static bool raw_xdp_is_readable(struct raw_end *end)
{
    (void)end;
    return __atomic_load_n(raw_xsk.rx.producer, __ATOMIC_ACQUIRE) != raw_xsk.rx.put;
}

static const void *raw_xdp_receive(struct raw_end *end, size_t *size)
{
    struct raw_xdp_end *xdp = raw_xdp_of(end);
    const struct xdp_desc *desc;
    const unsigned char *frame;

    raw_xdp_give_back(xdp);
    if (!raw_xdp_is_readable(end))
        return NULL;
    desc = (const struct xdp_desc *)raw_xsk.rx.entries + raw_xsk.rx.put++ % RAW_XDP_RING;
    frame = (const unsigned char *)raw_xsk.chunks + desc->addr;
    *size = ((size_t)frame[38] << 8 | frame[39]) - RAW_XDP_UDP_HEADER;
    xdp->chunk = desc->addr & ~(uint64_t)(RAW_XDP_CHUNK - 1);
    xdp->lent = true;
    __atomic_store_n(raw_xsk.rx.consumer, raw_xsk.rx.put, __ATOMIC_RELEASE);
    return frame + RAW_XDP_HEADERS;
}

/* --------------------------------------------------------------------------------------------------------------- blast */

static int raw_xdp_blast_next(struct raw_end *end, const struct raw_load *load)
{
    static const char payload[RAW_XDP_CHUNK];

    (void)load;
    for (int i = 0; i < RAW_XDP_BATCH && raw_xdp_put(raw_xdp_of(end), payload, end->datagram_bytes); i++)
        ;
    return raw_xdp_kick();
}

static int raw_xdp_blast_take(struct raw_end *end, struct raw_blast_result *result, bool *over)
{
    size_t size;
    int count = 0;

    while (count < RAW_XDP_BATCH && raw_xdp_receive(end, &size)) {
        if (size <= 1)
            *over = true;
        else
            result->bytes += size;
        count++;
    }
    return count;
}

const struct raw_scheme raw_xdp = {
    .prefix = "xdp://",
    .header_bytes = RAW_XDP_UDP_HEADER,
    .ways = 1u << RAW_BATCHES,
    .open = raw_xdp_open,
    .close = raw_xdp_close,
    .send = raw_xdp_send,
    .receive = raw_xdp_receive,
    .is_readable = raw_xdp_is_readable,
    .blast_next = raw_xdp_blast_next,
    .blast_take = raw_xdp_blast_take,
};
