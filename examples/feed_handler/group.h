/* SPDX-License-Identifier: Apache-2.0 */
/* Plain multicast sockets for the feed, IPv4. */
#ifndef FEED_GROUP_H
#define FEED_GROUP_H

#include <netinet/in.h>
#include <stdbool.h>

struct group {
    struct sockaddr_in address;
    unsigned interface_index; /* 0: the kernel chooses */
};

/* Reads "239.192.1.2:5002" and an interface's name ("" for none). Says on stderr what is wrong, and returns false. */
bool group_parse(const char *text, const char *interface, struct group *group);

/* A socket that sends to the group, or -1 after a line on stderr. */
int group_open_sender(const struct group *group);

/* A socket that receives what is sent to the group, or -1 after a line on stderr. */
int group_open_receiver(const struct group *group);

#endif
