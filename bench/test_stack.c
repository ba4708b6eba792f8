/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded, it takes the place of a stack and does nothing: it says of every datagram socket that it
 * accelerates it, and leaves all to the kernel. So what the bypass transport costs beside udp can be measured
 * without a card; bench/run --transport bypass does.
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
