/* SPDX-License-Identifier: Apache-2.0 */
/* Plain IPv4 multicast sockets for the feed. */
#ifndef FEED_GROUP_H
#define FEED_GROUP_H

#include <netinet/in.h>
#include <stdbool.h>

struct group {
    struct sockaddr_in address;
    unsigned interface_index; /* 0: chosen by the kernel */
};

/*
 * Parses "239.192.1.2:5002" and the name of an interface ("" for none). On failure prints the reason to
 * stderr and returns false.
 */
bool group_parse(const char *text, const char *interface, struct group *group);

/* Opens a socket that sends to the group. Returns -1 after a message on stderr. */
int group_open_sender(const struct group *group);

/* Opens a socket that receives from the group. Returns -1 after a message on stderr. */
int group_open_receiver(const struct group *group);

/*
 * Opens a socket for each line of the feed. groups: at most `lines` texts as of group_parse(), up to the first NULL.
 * An interface that is NULL is that of the first line. Returns the number of lines, or -1 after a message on stderr.
 * Entries of fds without a socket are -1.
 */
int group_open_lines(const char *const *groups, const char *const *interfaces, int lines,
                     int (*open_line)(const struct group *group), int *fds);

#endif
