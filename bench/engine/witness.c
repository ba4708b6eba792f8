/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of a transmitter as they arrive at an interface, whatever the library makes of them: bytes of new
 * data and of repairs in windows of time, by the kernel's time stamps. It reads seldom, as it shares the
 * machine with who is measured. New data is what goes to a group and is further than all before. Ends with
 * SIGTERM. witness role interface=NAME
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "steady.h"
#include "windows.h"
#include "core/wire/wire.h"

enum {
    WITNESS_FRAME_MAX = 65536,
    WITNESS_BUFFER = 64 << 20,
    WITNESS_NAP_US = 5000,
    WITNESS_PACKETS_MAX = 1 << 23,
    WITNESS_UDP = 17
};

struct witness {
    int fd;
    struct windows fresh;
    struct windows repairs;
    uint32_t next; /* low half of the packet number behind all so far */
    bool begun;
};

static volatile sig_atomic_t witness_over;

static void witness_end(int number)
{
    (void)number;
    witness_over = 1;
}

static void witness_open(struct witness *witness, const char *interface)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htobe16(ETH_P_IP),
                                  .sll_ifindex = (int)if_nametoindex(interface)};
    const int buffer = WITNESS_BUFFER, on = 1;

    witness->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htobe16(ETH_P_IP));
    if (address.sll_ifindex == 0 || witness->fd < 0 ||
        bind(witness->fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(witness->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0)
        control_fail(interface, strerror(errno));
    if (setsockopt(witness->fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) != 0)
        (void)setsockopt(witness->fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
}

static uint64_t witness_stamp(struct msghdr *message)
{
    struct timespec time = {.tv_sec = 0};

    for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control != NULL;
         control = CMSG_NXTHDR(message, control))
        if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_TIMESTAMPNS)
            memcpy(&time, CMSG_DATA(control), sizeof time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* One data packet. A group's is new if it is further than all before. */
static void witness_take(struct witness *witness, const struct lli_wire_header *header, bool group,
                         uint64_t at)
{
    const bool fresh = group && (!witness->begun || (int32_t)(header->seq - witness->next) >= 0);

    windows_add(fresh ? &witness->fresh : &witness->repairs, at, header->size);
    if (fresh)
        witness->next = header->seq + 1;
    witness->begun |= fresh;
}

/* Packets of one send may come as one. */
static void witness_look(struct witness *witness, const uint8_t *bytes, size_t size, uint64_t at)
{
    const size_t begin = size >= 20 ? (size_t)(bytes[0] & 15) * 4 + 8 : size;
    const bool group = size >= 20 && bytes[16] >> 4 == 14;

    if (size < 20 || bytes[9] != WITNESS_UDP)
        return;
    for (size_t offset = begin; offset + LLI_WIRE_HEADER <= size;) {
        const uint8_t *packet = bytes + offset;
        const size_t length = lli_load_u16(packet + 2);
        struct lli_wire_header header;
        const uint8_t *body;
        size_t body_size;

        if (length < LLI_WIRE_HEADER || length > size - offset ||
            lli_wire_get_header(packet, length, &header, &body, &body_size) != LLI_WIRE_OK)
            return;
        if (header.type == LLI_WIRE_DATA)
            witness_take(witness, &header, group, at);
        offset += length;
    }
}

/* Everything that has come. */
static void witness_drain(struct witness *witness)
{
    static uint8_t frame[WITNESS_FRAME_MAX];
    union {
        struct cmsghdr header;
        uint8_t bytes[256];
    } control;
    struct iovec piece = {.iov_base = frame, .iov_len = sizeof frame};

    for (;;) {
        struct msghdr message = {
            .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        const ssize_t size = recvmsg(witness->fd, &message, MSG_DONTWAIT);

        if (size < 0)
            return;
        witness_look(witness, frame, (size_t)size, witness_stamp(&message));
    }
}

static void witness_report(struct witness *witness)
{
    struct tpacket_stats stats = {.tp_drops = 0};
    socklen_t size = sizeof stats;

    (void)getsockopt(witness->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
    json_open();
    windows_json("fresh", &witness->fresh);
    windows_json("repairs", &witness->repairs);
    json_number("missed", stats.tp_drops);
    json_close();
}

int main(int argc, char **argv)
{
    static struct witness witness;
    struct control control;

    control_of_arguments(&control, argc, argv);
    windows_init(&witness.fresh, WITNESS_PACKETS_MAX);
    windows_init(&witness.repairs, WITNESS_PACKETS_MAX);
    (void)signal(SIGTERM, witness_end);
    witness_open(&witness, control_text(&control, "interface", ""));
    while (!witness_over) {
        (void)usleep(WITNESS_NAP_US);
        witness_drain(&witness);
    }
    witness_report(&witness);
    return close(witness.fd) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
