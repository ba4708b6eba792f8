/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the first SHIM_SEGMENTED_MAX segmented messages, and fails with EIO from then on. */
#define _GNU_SOURCE
#include "shim.h"

static bool fail_now(void)
{
    static long sent;
    const char *most = getenv("SHIM_SEGMENTED_MAX");

    return most != NULL && sent++ >= strtol(most, NULL, 10);
}

ssize_t sendmsg(int fd, const struct msghdr *header, int flags)
{
    if (shim_segmented(header) && fail_now()) {
        errno = EIO;
        return -1;
    }
    return shim_next_sendmsg(fd, header, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return shim_send_each(fd, messages, count, flags);
}
