/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts segmented messages, and sends each as one datagram, in fragments if needed. */
#define _GNU_SOURCE
#include "shim.h"

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    if (level == SOL_UDP && name == UDP_SEGMENT)
        return 0;
    return shim_next_setsockopt(fd, level, name, value, length);
}

ssize_t sendmsg(int fd, const struct msghdr *header, int flags)
{
    return shim_segmented(header) ? shim_send_whole(fd, header, flags) : shim_next_sendmsg(fd, header, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return shim_send_each(fd, messages, count, flags);
}
