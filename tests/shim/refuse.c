/* SPDX-License-Identifier: Apache-2.0 */
/* Rejects socket options of UDP, and segmented messages. */
#define _GNU_SOURCE
#include "shim.h"

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    if (level == IPPROTO_UDP) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return shim_next_setsockopt(fd, level, name, value, length);
}

ssize_t sendmsg(int fd, const struct msghdr *header, int flags)
{
    if (shim_segmented(header)) {
        errno = EINVAL;
        return -1;
    }
    return shim_next_sendmsg(fd, header, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return shim_send_each(fd, messages, count, flags);
}
