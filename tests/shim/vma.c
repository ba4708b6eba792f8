/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test stack that emulates VMA over the kernel's sockets. As there, options of UDP are accepted without
 * effect, a segmented message leaves whole, in fragments, and IPv6 is left to the kernel.
 */
#define _GNU_SOURCE
#include "stack.h"

#include "../../transports/bypass/vma_abi.h"

enum {
    BY_KERNEL = 8, /* one message in this many arrives by the kernel */
    RING = 100,
};

const char *const stack_name = "VMA";
atomic_ulong stack_warm_sends;
atomic_ulong stack_lent;
atomic_ulong stack_polls;

static bool vma_has(int fd)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;

    return stack_has(fd) && getsockname(fd, (struct sockaddr *)&own, &size) == 0 && own.ss_family == AF_INET;
}

/* ------------------------------------------------------------------------------------------------ sockets */

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    return level == SOL_UDP && vma_has(fd) ? 0 : shim_next_setsockopt(fd, level, name, value, length);
}

ssize_t sendmsg(int fd, const struct msghdr *header, int flags)
{
    return shim_segmented(header) && vma_has(fd) ? shim_send_whole(fd, header, flags)
                                                 : shim_next_sendmsg(fd, header, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return shim_send_each(fd, messages, count, flags);
}

static int vma_tx_ring(int fd, struct sockaddr *to, socklen_t size)
{
    struct sockaddr_storage peer;
    socklen_t peer_size = sizeof peer;

    if (vma_has(fd) && getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 && peer_size == size &&
        memcmp(&peer, to, size) == 0)
        return RING;
    errno = ENODATA;
    return -1;
}

static int vma_rings(int fd)
{
    return vma_has(fd);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    return stack_send(fd, data, size, flags, vma_has(fd));
}

/* ---------------------------------------------------------------------------------------------- zero copy */

static void vma_table(struct vma_packets *table, struct stack_message *message, size_t size)
{
    if (size < sizeof *table + (size_t)message->pieces * sizeof table->pieces[0])
        abort();
    table->n_packet_num = 1;
    table->packet = (struct vma_packet){message, (size_t)message->pieces};
    for (int i = 0; i < message->pieces; i++)
        table->pieces[i] = (struct iovec){stack_piece(message, i), stack_piece_size(message, i)};
}

/* For a socket that it does not accelerate, VMA copies the message and reports it as lent. */
static int vma_recvfrom_zcopy(int fd, void *buffer, size_t size, int *flags, struct sockaddr *from,
                              socklen_t *from_size)
{
    static _Thread_local unsigned messages;
    const bool has = vma_has(fd);
    struct stack_message *message;
    int bytes;

    (void)from;
    (void)from_size;
    if (!has || (messages % BY_KERNEL == BY_KERNEL - 1 && stack_number("SHIM_ZC_ERROR", 0) == 0)) {
        bytes = (int)recv(fd, buffer, size, *flags);
        *flags |= has ? 0 : MSG_VMA_ZCOPY;
        messages += bytes >= 0;
        return bytes;
    }
    message = stack_receive(fd);
    if (message == NULL)
        return -1;
    messages++;
    vma_table(buffer, message, size);
    *flags |= MSG_VMA_ZCOPY;
    return (int)message->size;
}

static int vma_free_packets(int fd, struct vma_packet *packets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct stack_message *message = packets[i].packet_id;

        if (!vma_has(fd) || message->fd != fd) {
            errno = ENOENT;
            return -1;
        }
        stack_free(message);
    }
    return stack_number("SHIM_RELEASE_ERROR", 0) != 0 ? -1 : 0;
}

/* Functions named by SHIM_HIDE are missing. */
static const struct vma_api *vma_table_of_functions(void)
{
    static _Thread_local struct vma_api api;

    api = (struct vma_api){
        .recvfrom_zcopy = stack_hides("recvfrom_zcopy") ? NULL : vma_recvfrom_zcopy,
        .free_packets = stack_hides("free_packets") ? NULL : vma_free_packets,
        .get_socket_rings_num = stack_hides("get_socket_rings_num") ? NULL : vma_rings,
        .get_socket_tx_ring_fd = stack_hides("get_socket_tx_ring_fd") ? NULL : vma_tx_ring,
    };
    api.vma_extra_supported_mask = (api.recvfrom_zcopy != NULL ? VMA_API_RECVFROM_ZCOPY : 0u) |
                                   (api.free_packets != NULL ? VMA_API_FREE_PACKETS : 0u) |
                                   (api.get_socket_rings_num != NULL ? VMA_API_GET_SOCKET_RINGS_NUM : 0u) |
                                   (api.get_socket_tx_ring_fd != NULL ? VMA_API_GET_SOCKET_TX_RING_FD : 0u);
    return &api;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
    static int (*next)(int, int, int, void *, socklen_t *);
    const struct vma_api *api;

    if (next == NULL)
        shim_next("getsockopt", &next);
    if (fd != -1 || level != SOL_SOCKET || name != SO_VMA_GET_API || stack_hides("api"))
        return next(fd, level, name, value, length);
    api = vma_table_of_functions();
    memcpy(value, &api, sizeof api);
    *length = sizeof api;
    return 0;
}
