/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded stack without effect: it claims to accelerate every datagram socket, and leaves all work to the
 * kernel. It allows `bench/run --transport bypass` to measure the cost of the bypass transport, compared with
 * udp, without a card.
 */
#include <stddef.h>
#include <sys/socket.h>

#include "../transports/bypass/onload_abi.h"

__attribute__((visibility("default"))) int onload_is_present(void);
__attribute__((visibility("default"))) int onload_fd_stat(int fd, struct onload_stat *stat);

int onload_is_present(void)
{
    return 1;
}

int onload_fd_stat(int fd, struct onload_stat *stat)
{
    int type = 0;
    socklen_t size = sizeof type;

    *stat = (struct onload_stat){.stack_name = NULL};
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
}
