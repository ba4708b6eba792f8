/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subset of OpenOnload's binary interface, rewritten so that a build needs neither its headers nor its
 * library. Functions are looked up by name at run time. Valid since Onload 8.1, on little-endian machines.
 */
#ifndef LLI_ONLOAD_ABI_H
#define LLI_ONLOAD_ABI_H

#include <stdint.h>
#include <sys/socket.h>

/* Values of its enumerations, passed as int. */
enum {
    ONLOAD_THIS_THREAD = 0,
    ONLOAD_SCOPE_PROCESS = 2,
    ONLOAD_SPIN_UDP_RECV = 1,
    ONLOAD_SPIN_UDP_SEND = 2,
    ONLOAD_SPIN_SELECT = 8,
    ONLOAD_SPIN_POLL = 9,
    ONLOAD_SPIN_EPOLL_WAIT = 11,
    ONLOAD_FD_FEAT_MSG_WARM = 0,
    ONLOAD_ZC_CONTINUE = 0,
    ONLOAD_ZC_TERMINATE = 1,    /* stop: no further message */
    ONLOAD_ZC_KEEP = 2,         /* the message's memory belongs to the caller until released */
    ONLOAD_ZC_END_OF_BURST = 2, /* passed to the callback: no further message is available now */
    /* Flag of send(): do everything but transmit; a socket in the kernel transmits. */
    ONLOAD_MSG_WARM = 0x400,
    ONLOAD_MSG_RECV_OS_INLINE = 0x40000000, /* also deliver messages received by the kernel */
    ONLOAD_STACK_NAME_MAX = 16,
};

struct onload_stat {
    int32_t stack_id;
    char *stack_name; /* the caller frees it */
    int32_t endpoint_id;
    int32_t endpoint_state;
};

struct onload_zc_iovec {
    void *iov_base;
    uint64_t iov_len : 48;
    uint64_t iov_flags : 16;
    void *buf; /* releases the memory; the buf of a message's first piece is valid for all pieces */
    void *unused;
};

struct onload_zc_msg {
    struct onload_zc_iovec *iov;
    struct msghdr msghdr; /* describes msg_iovlen pieces in iov */
};

struct onload_zc_recv_args {
    struct onload_zc_msg msg;
    int (*cb)(struct onload_zc_recv_args *args, int flags);
    void *user_ptr;
    int flags;
};

#endif
