/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "peer_control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define CONTROL_PORT 7100
#define CONTROL_RETRY_US 10000

/* ------------------------------------------------------------------------------------------------------------- buffers */

static int control_set(int fd, int level, int name, const void *value, socklen_t size)
{
    return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}

/*
 * Stands before the C library's in this program, so that every library gets the socket buffers that it asks for, as libllm gets
 * its own where it may: the form for the privileged knows no limit. Their manuals say to raise net.core.rmem_max, which would be
 * left behind on the machine.
 */
int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    if (level == SOL_SOCKET && name == SO_RCVBUF && control_set(fd, level, SO_RCVBUFFORCE, value, size) == 0)
        return 0;
    if (level == SOL_SOCKET && name == SO_SNDBUF && control_set(fd, level, SO_SNDBUFFORCE, value, size) == 0)
        return 0;
    return control_set(fd, level, name, value, size);
}

/* ---------------------------------------------------------------------------------------------------------- connection */

static int control_close_failed(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

/* Where the far end listens. */
struct control_place {
    union {
        struct sockaddr any;
        struct sockaddr_in ip;
        struct sockaddr_un local;
    } address;
    socklen_t size;
};

static int control_find(const struct harness_link *link, struct control_place *place)
{
    memset(place, 0, sizeof *place);
    if (*link->common) {
        place->address.local.sun_family = AF_UNIX;
        place->size = sizeof place->address.local;
        return (size_t)snprintf(place->address.local.sun_path, sizeof place->address.local.sun_path, "%s/control", link->common) <
               sizeof place->address.local.sun_path ? 0 : -1;
    }
    place->address.ip.sin_family = AF_INET;
    place->address.ip.sin_port = htons(CONTROL_PORT);
    place->size = sizeof place->address.ip;
    return inet_pton(AF_INET, link->near ? link->peer_address : link->address, &place->address.ip.sin_addr) == 1 ? 0 : -1;
}

static int control_socket(const struct control_place *place)
{
    return socket(place->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int control_accept(const struct control_place *place, uint64_t patience_ns)
{
    int listener = control_socket(place);
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    int one = 1;
    int fd = -1;

    if (listener < 0)
        return -1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, &place->address.any, place->size) != 0 || listen(listener, 1) != 0)
        return control_close_failed(listener);
    errno = ETIMEDOUT;
    if (poll(&wait, 1, (int)(patience_ns / 1000000)) > 0)
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    control_close_failed(listener);
    return fd;
}

static int control_connect(const struct control_place *place, uint64_t patience_ns)
{
    uint64_t give_up_at = llm_clock() + patience_ns;
    int fd;

    do {
        fd = control_socket(place);
        if (fd < 0 || connect(fd, &place->address.any, place->size) == 0)
            return fd;
        control_close_failed(fd);
        usleep(CONTROL_RETRY_US);
    } while (llm_clock() < give_up_at);
    errno = ETIMEDOUT;
    return -1;
}

int control_open(const struct harness_link *link, uint64_t patience_ns)
{
    struct control_place place;
    int one = 1;
    int fd;

    if (control_find(link, &place) != 0) {
        errno = EINVAL;
        return -1;
    }
    fd = link->near ? control_connect(&place, patience_ns) : control_accept(&place, patience_ns);
    if (fd >= 0 && place.address.any.sa_family == AF_INET)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

void control_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

int control_send(int fd, const struct peer_control *record)
{
    return send(fd, record, sizeof *record, MSG_NOSIGNAL) == (ssize_t)sizeof *record ? 0 : -1;
}

int control_receive(int fd, struct peer_control *record)
{
    ssize_t size = recv(fd, record, sizeof *record, MSG_DONTWAIT | MSG_PEEK);

    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
        return -1;
    if (size < (ssize_t)sizeof *record)
        return 0;
    return recv(fd, record, sizeof *record, 0) == (ssize_t)sizeof *record ? 1 : -1;
}
