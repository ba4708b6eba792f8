/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries to preload, each of which treats segmentation offload (UDP_SEGMENT) as some stack in the kernel's
 * place does. What they share: the calls behind them, and the control message that asks for it. Include it
 * after defining _GNU_SOURCE.
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
 * The next definition of a name, after the preloaded one. POSIX has pointers to functions fit into those to
 * objects.
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

/* Whether a message is to be cut into packets. */
static inline bool shim_segmented(const struct msghdr *header)
{
    struct msghdr copy = *header; /* CMSG_NXTHDR() wants one that could be written */

    for (struct cmsghdr *note = CMSG_FIRSTHDR(&copy); note != NULL; note = CMSG_NXTHDR(&copy, note))
        if (note->cmsg_level == SOL_UDP && note->cmsg_type == UDP_SEGMENT)
            return true;
    return false;
}

/*
 * Has the kernel make fragments of what is sent, or no longer. Only one of the two fits the socket's family.
 */
static inline void shim_fragments(int fd, bool on)
{
    const int v4 = on ? IP_PMTUDISC_DONT : IP_PMTUDISC_DO;
    const int v6 = on ? IPV6_PMTUDISC_DONT : IPV6_PMTUDISC_DO;

    (void)shim_next_setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &v4, sizeof v4);
    (void)shim_next_setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6, sizeof v6);
}

/* Sends a message that is to be cut into packets as one datagram, in fragments if need be. */
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

/* sendmmsg() by sendmsg(): how many were sent before the first that failed, or -1. */
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
