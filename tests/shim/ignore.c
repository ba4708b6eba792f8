/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts that a message is to be cut into packets, and sends it as one datagram, in fragments if need be. */
#define _GNU_SOURCE
#include "shim.h"

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    if (level == SOL_UDP && name == UDP_SEGMENT)
        return 0;
    return shim_next_setsockopt(fd, level, name, value, length);
}

/* Has the kernel make fragments of what is sent, or no longer. Only one of the two fits the socket's family. */
static void ignore_fragments(int fd, bool on)
{
    const int v4 = on ? IP_PMTUDISC_DONT : IP_PMTUDISC_DO;
    const int v6 = on ? IPV6_PMTUDISC_DONT : IPV6_PMTUDISC_DO;

    (void)shim_next_setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &v4, sizeof v4);
    (void)shim_next_setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6, sizeof v6);
}

ssize_t sendmsg(int fd, const struct msghdr *header, int flags)
{
    struct msghdr whole = *header;
    ssize_t sent;

    if (!shim_segmented(header))
        return shim_next_sendmsg(fd, header, flags);
    whole.msg_control = NULL;
    whole.msg_controllen = 0;
    ignore_fragments(fd, true);
    sent = shim_next_sendmsg(fd, &whole, flags);
    ignore_fragments(fd, false);
    return sent;
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return shim_send_each(fd, messages, count, flags);
}
