/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <llm/llm.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define RAW_RECEIVE_BUFFER 16777216 /* as the library's default */
#define RAW_SEND_BUFFER 4194304
#define RAW_BATCH 32
#define RAW_MTU_DEFAULT 1500
#define RAW_MTU_MAX 9000 /* as the library's default */
#define RAW_TRAIN_BYTES 65487 /* the longest that one UDP_SEGMENT send may be, IPv6 included */
#define RAW_TRAIN_SEGMENTS 64 /* more are refused by older kernels */
#define RAW_SLOT 67008        /* a shorter one would cut a train; a power of two would put all into the same cache sets */
#define RAW_IDLE_NS 500000000ull
#define RAW_END_COUNT 16

/* ------------------------------------------------------------------------------------------------------------- groups */

static bool raw_address_equal(const struct sockaddr *address, const char *text)
{
    char own[INET6_ADDRSTRLEN] = "";

    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, own, sizeof own);
    else if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, own, sizeof own);
    return strcmp(own, text) == 0;
}

/* By name or by address; without either the first that is up and does multicast, as the library chooses. 0 if none fits. */
static unsigned raw_find_interface(const char *text)
{
    unsigned index = *text ? if_nametoindex(text) : 0;
    struct ifaddrs *all = NULL;

    if (index != 0 || getifaddrs(&all) != 0)
        return index;
    for (const struct ifaddrs *one = all; one && index == 0; one = one->ifa_next) {
        unsigned wanted = IFF_UP | IFF_MULTICAST;

        if (*text ? one->ifa_addr && raw_address_equal(one->ifa_addr, text) : (one->ifa_flags & wanted) == wanted)
            index = if_nametoindex(one->ifa_name);
    }
    freeifaddrs(all);
    return index;
}

static int raw_parse_address(const char *host, const char *port, uint16_t port_offset, struct raw_group *group)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&group->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&group->address;
    unsigned long number = strtoul(port, NULL, 10) + port_offset;

    if (number == port_offset || number > 65535)
        return -1;
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)number);
        group->address_size = sizeof *v4;
        return 0;
    }
    memset(&group->address, 0, sizeof group->address);
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
        return -1;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)number);
    v6->sin6_scope_id = group->interface;
    group->address_size = sizeof *v6;
    return 0;
}

/* Splits "host:port" or "[host]:port" in place. */
static int raw_split(char *where, char **host, char **port)
{
    char *colon = strrchr(where, ':');
    size_t length;

    if (!colon)
        return -1;
    *colon = '\0';
    *port = colon + 1;
    *host = where;
    length = strlen(where);
    if (where[0] == '[' && where[length - 1] == ']') {
        where[length - 1] = '\0';
        *host = where + 1;
    }
    return 0;
}

static void raw_read_option(const char *options, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);

    *value = '\0';
    for (const char *at = options; at; at = strchr(at, '&')) {
        at += strspn(at, "?&");
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            snprintf(value, size, "%.*s", (int)strcspn(at + length + 1, "&"), at + length + 1);
    }
}

/* As the channel says, or the library's default; it is checked where the channel is opened. */
static size_t raw_history_bytes(const char *options)
{
    static const char suffixes[] = "KMG";
    struct llm_options defaults;
    const char *suffix;
    char text[24];
    char *end;
    uint64_t bytes;

    llm_options_init(&defaults);
    raw_read_option(options, "history_bytes", text, sizeof text);
    bytes = *text ? strtoull(text, &end, 10) : defaults.history_bytes;
    suffix = *text && *end ? strchr(suffixes, *end) : NULL;
    return suffix ? bytes << 10 * (suffix - suffixes + 1) : bytes;
}

static unsigned raw_interface_mtu(unsigned interface)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_mtu = 0};
    unsigned mtu = RAW_MTU_DEFAULT;

    if (fd >= 0 && if_indextoname(interface, request.ifr_name) && ioctl(fd, SIOCGIFMTU, &request) == 0)
        mtu = (unsigned)request.ifr_mtu;
    if (fd >= 0)
        close(fd);
    return mtu < RAW_MTU_MAX ? mtu : RAW_MTU_MAX;
}

int raw_group_of_channel(const char *channel, uint16_t port_offset, struct raw_group *group, const char **reason)
{
    const char *where = strstr(channel, "udp://");
    char place[128];
    char interface[64];
    char mtu[16];
    char *host;
    char *port;

    memset(group, 0, sizeof *group);
    if (!where)
        return 1;
    where += strlen("udp://");
    raw_read_option(strchr(where, '?'), "interface", interface, sizeof interface);
    snprintf(place, sizeof place, "%.*s", (int)strcspn(where, "?"), where);
    *reason = "its interface is not there";
    group->interface = raw_find_interface(interface);
    if (group->interface == 0)
        return -1;
    *reason = "it needs a numeric group and a port that leaves room for those of the raw measurement";
    if (raw_split(place, &host, &port) != 0)
        return -1;
    raw_read_option(strchr(where, '?'), "mtu", mtu, sizeof mtu);
    group->mtu = *mtu && *mtu != '0' ? (unsigned)strtoul(mtu, NULL, 10) : raw_interface_mtu(group->interface);
    group->history_bytes = raw_history_bytes(strchr(where, '?'));
    return raw_parse_address(host, port, port_offset, group);
}

size_t raw_datagram_bytes(const struct raw_group *group)
{
    return group->mtu - (group->address.ss_family == AF_INET6 ? 48 : 28); /* the headers of IP and UDP */
}

/* ------------------------------------------------------------------------------------------------------------ sockets */

static int raw_set(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* The privileged form knows no limit; without the privilege the plain one gives what there is. */
static void raw_set_buffer(int fd, int forced, int plain, int bytes)
{
    if (raw_set(fd, SOL_SOCKET, forced, bytes) != 0)
        raw_set(fd, SOL_SOCKET, plain, bytes);
}

static int raw_close_failed(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

static int raw_send_through(int fd, const struct raw_group *group)
{
    struct ip_mreqn request = {.imr_ifindex = (int)group->interface};

    if (group->address.ss_family == AF_INET6)
        return raw_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)group->interface);
    return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request);
}

/* As the library does it: the kernel need not find an identification for datagrams that may not be fragmented. */
static int raw_never_fragment(int fd, const struct raw_group *group)
{
    if (group->address.ss_family == AF_INET6)
        return raw_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    return raw_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
}

int raw_open_send(const struct raw_group *group)
{
    int fd = socket(group->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    raw_set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, RAW_SEND_BUFFER);
    if (raw_send_through(fd, group) != 0 || raw_never_fragment(fd, group) != 0 ||
        connect(fd, (const struct sockaddr *)&group->address, group->address_size) != 0)
        return raw_close_failed(fd);
    return fd;
}

static int raw_join(int fd, const struct raw_group *group)
{
    int level = group->address.ss_family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
    struct group_req request = {.gr_interface = group->interface, .gr_group = group->address};

    if (level == IPPROTO_IP)
        raw_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    return setsockopt(fd, level, MCAST_JOIN_GROUP, &request, sizeof request);
}

int raw_open_receive(const struct raw_group *group)
{
    int fd = socket(group->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    raw_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    raw_set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, RAW_RECEIVE_BUFFER);
    if (bind(fd, (const struct sockaddr *)&group->address, group->address_size) != 0 || raw_join(fd, group) != 0)
        return raw_close_failed(fd);
    return fd;
}

/* ------------------------------------------------------------------------------------------------------------- trains */

void raw_segment(struct msghdr *message, void *control, size_t datagram_bytes)
{
    struct cmsghdr *header = control;
    uint16_t segment = (uint16_t)datagram_bytes;

    memset(control, 0, RAW_CONTROL_BYTES);
    header->cmsg_level = IPPROTO_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(header), &segment, sizeof segment);
    message->msg_control = control;
    message->msg_controllen = RAW_CONTROL_BYTES;
}

size_t raw_train_bytes(size_t datagram_bytes)
{
    size_t segments = RAW_TRAIN_BYTES / datagram_bytes;

    return datagram_bytes * (segments > RAW_TRAIN_SEGMENTS ? RAW_TRAIN_SEGMENTS : segments);
}

int raw_merge(int fd, bool on)
{
    return raw_set(fd, IPPROTO_UDP, UDP_GRO, on);
}

/* -------------------------------------------------------------------------------------------------------------- blast */

/* Memory that messages are kept in, as the library's history; none: base is NULL. */
struct raw_ring {
    char *base;
    size_t bytes;
    size_t at;
};

struct raw_blast {
    struct mmsghdr messages[RAW_BATCH];
    struct iovec pieces[RAW_BATCH];
    alignas(struct cmsghdr) char control[RAW_CONTROL_BYTES]; /* of the first message: a train is sent alone */
    char memory[RAW_BATCH * RAW_SLOT];
};

struct raw_blast *raw_blast_open(void)
{
    struct raw_blast *blast = malloc(sizeof *blast);

    if (blast)
        memset(blast, 'x', sizeof *blast);
    return blast;
}

void raw_blast_close(struct raw_blast *blast)
{
    free(blast);
}

/* Points the messages at buffers of so many bytes, one behind the other. */
static void raw_blast_prepare(struct raw_blast *blast, size_t bytes)
{
    memset(blast->messages, 0, sizeof blast->messages);
    for (int i = 0; i < RAW_BATCH; i++) {
        blast->pieces[i] = (struct iovec){.iov_base = blast->memory + (size_t)i * bytes, .iov_len = bytes};
        blast->messages[i].msg_hdr.msg_iov = &blast->pieces[i];
        blast->messages[i].msg_hdr.msg_iovlen = 1;
    }
}

/* It is there during its blast only: the memory of the library is measured in the same process. */
static int raw_ring_open(struct raw_ring *ring, size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return -1;
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    memset(base, 'x', bytes);
    *ring = (struct raw_ring){.base = base, .bytes = bytes};
    return 0;
}

static void raw_ring_close(struct raw_ring *ring)
{
    if (ring->base)
        munmap(ring->base, ring->bytes);
}

/* Copies messages to the next place of the ring, the last one as far as it fits, and has the train sent from there. */
static void raw_ring_fill(struct raw_ring *ring, struct raw_blast *blast, size_t message_bytes)
{
    const size_t train_bytes = blast->pieces[0].iov_len;
    char *train;

    if (ring->at + train_bytes > ring->bytes)
        ring->at = 0;
    train = ring->base + ring->at;
    for (size_t at = 0; at < train_bytes; at += message_bytes)
        memcpy(train + at, blast->memory, message_bytes < train_bytes - at ? message_bytes : train_bytes - at);
    blast->pieces[0].iov_base = train;
    ring->at += train_bytes;
}

static int raw_blast_run(struct raw_blast *blast, int fd, const struct raw_load *load, struct raw_ring *ring)
{
    const unsigned count = load->way == RAW_BATCHES ? RAW_BATCH : 1;
    const uint64_t end = llm_clock() + load->duration_ns;

    while (llm_clock() < end) {
        if (ring->base)
            raw_ring_fill(ring, blast, load->message_bytes);
        if (sendmmsg(fd, blast->messages, count, 0) < 0 && errno != ENOBUFS && errno != EAGAIN)
            return -1;
    }
    return 0;
}

static int raw_blast_end(int fd)
{
    for (int i = 0; i < RAW_END_COUNT; i++) {
        usleep(1000); /* a receiver whose buffer is full must have read some of it before one of these arrives */
        if (send(fd, "", 1, 0) < 0 && errno != ENOBUFS && errno != EAGAIN)
            return -1;
    }
    return 0;
}

int raw_blast_send(struct raw_blast *blast, int fd, const struct raw_load *load)
{
    const bool trains = load->way != RAW_BATCHES;
    struct raw_ring ring = {.base = NULL};
    int failed;

    raw_blast_prepare(blast, trains ? raw_train_bytes(load->datagram_bytes) : load->datagram_bytes);
    if (trains)
        raw_segment(&blast->messages[0].msg_hdr, blast->control, load->datagram_bytes);
    if (load->way == RAW_KEPT && raw_ring_open(&ring, load->ring_bytes) != 0)
        return -1;
    failed = raw_blast_run(blast, fd, load, &ring) != 0 || raw_blast_end(fd) != 0;
    raw_ring_close(&ring);
    return failed ? -1 : 0;
}

/* False when the end of the blast is among what was received. */
static bool raw_blast_count(const struct raw_blast *blast, int count, struct raw_blast_result *result)
{
    for (int i = 0; i < count; i++) {
        if (blast->messages[i].msg_len <= 1)
            return false;
        result->bytes += blast->messages[i].msg_len;
    }
    return true;
}

void raw_blast_expect(struct raw_blast *blast, int fd, bool segmented)
{
    char byte;

    while (recv(fd, &byte, sizeof byte, MSG_DONTWAIT) >= 0)
        ;
    raw_merge(fd, segmented);
    raw_blast_prepare(blast, RAW_SLOT);
}

struct raw_blast_result raw_blast_receive(struct raw_blast *blast, int fd)
{
    struct raw_blast_result result = {0};
    uint64_t first = 0;
    uint64_t last = llm_clock();

    for (;;) {
        int count = recvmmsg(fd, blast->messages, RAW_BATCH, MSG_DONTWAIT, NULL);
        uint64_t now = llm_clock();

        if (count <= 0) {
            if (now - last > RAW_IDLE_NS)
                break;
            continue;
        }
        if (!raw_blast_count(blast, count, &result))
            break;
        last = now;
        if (first == 0)
            first = now;
    }
    result.ns = first ? last - first : 0;
    return result;
}
