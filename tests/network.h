/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network namespace for tests, with a loopback and one cable, both ends of which are in it. Include it
 * after defining _GNU_SOURCE.
 */
#ifndef TESTS_NETWORK_H
#define TESTS_NETWORK_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Exit status that meson takes for a skipped test. */
#define NETWORK_SKIPPED 77

/* Interface for tests, and its addresses; MTU 1500. */
#define NETWORK_INTERFACE "llm0"
#define NETWORK_IPV4 "10.77.0.1"
#define NETWORK_IPV6 "fd77::1"

/*
 * Result of main() if the network is not available. tests/run shows the last line that a skipped test wrote.
 */
static inline int network_skipped(void)
{
    fprintf(stderr, "its network cannot be made: run as root, with iproute2; some do with unprivileged user "
                    "namespaces\n");
    return NETWORK_SKIPPED;
}

static inline bool network_command(const char *command)
{
    return system(command) == 0;
}

static inline bool network_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool written;

    if (file == NULL)
        return false;
    written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

/*
 * Enters a new network namespace and, if needed, a user namespace in which it is root: without a map, started
 * programs lose their rights.
 */
static inline bool network_unshare(void)
{
    const unsigned user = geteuid();
    char map[32];

    if (user == 0)
        return unshare(CLONE_NEWNET) == 0;
    snprintf(map, sizeof map, "0 %u 1", user);
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && network_write("/proc/self/uid_map", map);
}

/*
 * Moves the calling thread into the namespace; false if that is not possible. Returns when the kernel, which
 * detects a carrier with a delay, has routes.
 */
static inline bool network_own(void)
{
    if (!network_unshare())
        return false;
    return network_command(
        "{ ip link set lo up && ip link add llm0 mtu 1500 type veth peer name llm1 mtu 1500 &&"
        " ip address add 10.77.0.1/24 dev llm0 && ip address add fd77::1/64 dev llm0 nodad &&"
        " ip link set llm1 addrgenmode none && ip link set llm0 up &&"
        " ip link set llm1 up && for i in $(seq 500); do ip -6 route get ff15::1 oif llm0 && exit 0;"
        " sleep 0.01; done; exit 1; } >/dev/null 2>&1");
}

#endif
