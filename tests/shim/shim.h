/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by libraries to preload, each of which treats segmentation offload (UDP_SEGMENT) as some user-space
 * stack does: the underlying calls, and the control message that requests segmentation. Include it after
 * defining _GNU_SOURCE.
 */
#ifndef TESTS_SHIM_H
#define TESTS_SHIM_H

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Returns the next definition of a name, after the preloaded one. POSIX guarantees that a function pointer
 * fits an object pointer.
 */
static inline void shim_next(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL)
        abort();
    memcpy(function, &found, sizeof found);
}

static inline ssize_t shim_next_sendmsg(int fd, const struct msghdr *header, int flags)
{
    static ssize_t (*next)(int, const struct msghdr *, int);

    if (next == NULL)
        shim_next("sendmsg", &next);
    return next(fd, header, flags);
}

static inline int shim_next_setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    static int (*next)(int, int, int, const void *, socklen_t);

    if (next == NULL)
        shim_next("setsockopt", &next);
    return next(fd, level, name, value, length);
}

/* Returns true if a message is to be segmented. */
static inline bool shim_segmented(const struct msghdr *header)
{
    struct msghdr copy = *header; /* CMSG_NXTHDR() requires a header that is not const */

    for (struct cmsghdr *note = CMSG_FIRSTHDR(&copy); note != NULL; note = CMSG_NXTHDR(&copy, note))
        if (note->cmsg_level == SOL_UDP && note->cmsg_type == UDP_SEGMENT)
            return true;
    return false;
}

/* Allows or forbids fragmentation by the kernel. Only one of the two options fits the socket's family. */
static inline void shim_fragments(int fd, bool on)
{
    const int v4 = on ? IP_PMTUDISC_DONT : IP_PMTUDISC_DO;
    const int v6 = on ? IPV6_PMTUDISC_DONT : IPV6_PMTUDISC_DO;

    (void)shim_next_setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &v4, sizeof v4);
    (void)shim_next_setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6, sizeof v6);
}

/* Sends a segmented message as one datagram, in fragments if needed. */
static inline ssize_t shim_send_whole(int fd, const struct msghdr *header, int flags)
{
    struct msghdr whole = *header;
    ssize_t sent;

    whole.msg_control = NULL;
    whole.msg_controllen = 0;
    shim_fragments(fd, true);
    sent = shim_next_sendmsg(fd, &whole, flags);
    shim_fragments(fd, false);
    return sent;
}

/* sendmmsg() by sendmsg(): returns how many were sent before the first failure, or -1. */
static inline int shim_send_each(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    for (unsigned i = 0; i < count; i++) {
        const ssize_t sent = sendmsg(fd, &messages[i].msg_hdr, flags);

        if (sent < 0)
            return i > 0 ? (int)i : -1;
        messages[i].msg_len = (unsigned)sent;
    }
    return (int)count;
}

#endif
