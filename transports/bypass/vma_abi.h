/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subset of VMA's binary interface, rewritten so that a build needs neither its header nor its library. The
 * table of functions is returned by getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API). Valid since libvma 8.5.
 */
#ifndef LLI_VMA_ABI_H
#define LLI_VMA_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    SO_VMA_GET_API = 2800,
    /* Returned flag: the buffer contains a struct vma_packets, not the message. */
    MSG_VMA_ZCOPY = 0x00040000,
    /* Flag of send(): do everything but transmit; a socket in the kernel transmits. */
    VMA_SND_FLAGS_DUMMY = 0x400,
    VMA_API_RECVFROM_ZCOPY = 1 << 1,
    VMA_API_FREE_PACKETS = 1 << 2,
    VMA_API_GET_SOCKET_RINGS_NUM = 1 << 10,
    VMA_API_GET_SOCKET_TX_RING_FD = 1 << 12,
};

/* Message in VMA's memory. */
struct vma_packet {
    void *packet_id;
    size_t sz_iov;
};

/* Result of recvfrom_zcopy(): one message and its pieces. */
struct vma_packets {
    size_t n_packet_num;
    struct vma_packet packet;
    struct iovec pieces[];
};

struct vma_api {
    int (*register_recv_callback)(int, void *, void *);
    int (*recvfrom_zcopy)(int fd, void *buffer, size_t size, int *flags, struct sockaddr *from,
                          socklen_t *from_size);
    int (*free_packets)(int fd, struct vma_packet *packets, size_t count);
    void (*unused_3[3])(void);
    int (*get_socket_rings_num)(int fd);
    void (*unused_7)(void);
    int (*get_socket_tx_ring_fd)(int fd, struct sockaddr *to, socklen_t to_size);
    void (*unused_9[10])(void);
    uint64_t vma_extra_supported_mask; /* bits VMA_API_...: functions that exist */
    void (*unused_20)(void);
};

#endif
