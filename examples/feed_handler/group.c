/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* struct ip_mreqn, SO_RCVBUFFORCE */
#include "group.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECEIVE_BUFFER_BYTES (16 << 20)

static bool port_parse(const char *text, struct sockaddr_in *address)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || port == 0 || port > 65535)
        return false;
    address->sin_port = htons((uint16_t)port);
    return true;
}

static bool address_parse(const char *text, struct sockaddr_in *address)
{
    const char *colon = strchr(text, ':');
    char host[INET_ADDRSTRLEN];
    size_t size = colon != NULL ? (size_t)(colon - text) : sizeof host;

    if (size >= sizeof host)
        return false;
    memcpy(host, text, size);
    host[size] = '\0';
    address->sin_family = AF_INET;
    return inet_pton(AF_INET, host, &address->sin_addr) == 1 &&
           IN_MULTICAST(ntohl(address->sin_addr.s_addr)) && port_parse(colon + 1, address);
}

bool group_parse(const char *text, const char *interface, struct group *group)
{
    struct group parsed = {0};

    if (!address_parse(text, &parsed.address)) {
        fprintf(stderr, "\"%s\" is not a multicast group and port, such as 239.192.1.2:5002\n", text);
        return false;
    }
    if (*interface != '\0')
        parsed.interface_index = if_nametoindex(interface);
    if (*interface != '\0' && parsed.interface_index == 0) {
        fprintf(stderr, "there is no interface \"%s\"\n", interface);
        return false;
    }
    *group = parsed;
    return true;
}

/* Logs the failure and closes the socket. */
static int give_up(int fd, const char *what)
{
    perror(what);
    if (fd >= 0)
        close(fd);
    return -1;
}

int group_open_sender(const struct group *group)
{
    struct ip_mreqn via = {.imr_ifindex = (int)group->interface_index};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return give_up(fd, "socket");
    if (group->interface_index != 0 && setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &via, sizeof via) < 0)
        return give_up(fd, "IP_MULTICAST_IF");
    if (connect(fd, (const struct sockaddr *)&group->address, sizeof group->address) < 0)
        return give_up(fd, "connect to the feed's group");
    return fd;
}

/*
 * The kernel limits SO_RCVBUF to net.core.rmem_max, which the privileged form may exceed. A smaller buffer
 * still works.
 */
static void grow_receive_buffer(int fd)
{
    int bytes = RECEIVE_BUFFER_BYTES;

    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

int group_open_receiver(const struct group *group)
{
    struct ip_mreqn membership = {.imr_multiaddr = group->address.sin_addr,
                                  .imr_ifindex = (int)group->interface_index};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    int off = 0;

    if (fd < 0)
        return give_up(fd, "socket");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        return give_up(fd, "SO_REUSEADDR");
    /*
     * Without this the socket also receives groups that other programs of the host joined on the same port.
     */
    if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off) < 0)
        return give_up(fd, "IP_MULTICAST_ALL");
    grow_receive_buffer(fd);
    if (bind(fd, (const struct sockaddr *)&group->address, sizeof group->address) < 0)
        return give_up(fd, "bind to the feed's group");
    if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership) < 0)
        return give_up(fd, "join the feed's group");
    return fd;
}

int group_open_lines(const char *const *groups, const char *const *interfaces, int lines,
                     int (*open_line)(const struct group *group), int *fds)
{
    int count = 0;

    for (int i = 0; i < lines; i++)
        fds[i] = -1;
    for (; count < lines && groups[count] != NULL; count++) {
        const char *interface = interfaces[count] != NULL ? interfaces[count] : interfaces[0];
        struct group group;

        if (!group_parse(groups[count], interface, &group))
            return -1;
        fds[count] = open_line(&group);
        if (fds[count] < 0)
            return -1;
    }
    return count;
}
