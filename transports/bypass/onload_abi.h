/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What OpenOnload adds to sockets, as far as it is used here: its binary interface in our words, so that a build needs neither
 * its headers nor its library. The functions are looked up by their names when the program runs. The same from Onload 8.1 on,
 * where bytes are little-endian.
 */
#ifndef LLI_ONLOAD_ABI_H
#define LLI_ONLOAD_ABI_H

#include <stdint.h>
#include <sys/socket.h>

/* Values of its enumerations, which are passed as int. */
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
    ONLOAD_ZC_TERMINATE = 1,      /* no further message */
    ONLOAD_ZC_KEEP = 2,           /* the message's memory is the caller's until it is released */
    ONLOAD_ZC_END_OF_BURST = 2,   /* given to the callback: no further message is there at the moment */
    ONLOAD_MSG_WARM = 0x400,      /* of send(): all but the sending; a socket of the kernel's sends */
    ONLOAD_MSG_RECV_OS_INLINE = 0x40000000, /* messages that came by the kernel are given too */
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
    void *buf; /* by which the memory is released; that of a message's first piece stands for all of them */
    void *unused;
};

struct onload_zc_msg {
    struct onload_zc_iovec *iov;
    struct msghdr msghdr; /* msg_iovlen pieces are in iov */
};

struct onload_zc_recv_args {
    struct onload_zc_msg msg;
    int (*cb)(struct onload_zc_recv_args *args, int flags);
    void *user_ptr;
    int flags;
};

#endif
