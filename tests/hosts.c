/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int home = -1;
static int hosts[HOSTS_MAX];
static bool taken[HOSTS_MAX];
static int made;

static bool command(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool command(const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return system(text) == 0;
}

static bool own_namespace(int *fd)
{
    if (unshare(CLONE_NEWNET) != 0)
        return false;
    *fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return *fd >= 0;
}

/* The kernel detects a carrier, and adds IPv6 routes, with a delay. */
static bool host_make(int host, int mtu)
{
    const int pid = getpid();

    return own_namespace(&hosts[host]) &&
           command("{ ip link set lo up && ip link add llm0 mtu %d type veth peer name port%d mtu %d &&"
                   " ip link set port%d netns /proc/%d/fd/%d; } >/dev/null 2>&1",
                   mtu, host, mtu, host, pid, home) &&
           setns(home, CLONE_NEWNET) == 0 &&
           command("ip link set port%d master bridge up >/dev/null 2>&1", host) &&
           setns(hosts[host], CLONE_NEWNET) == 0 &&
           command("{ ip address add 10.77.0.%d/24 dev llm0 && ip address add fd77::%d/64 dev llm0 nodad && "
                   "ip link set llm0 up &&"
                   " for i in $(seq 500); do ip -6 route get ff15::1 oif llm0 && exit 0; sleep 0.01; done; "
                   "exit 1; }"
                   " >/dev/null 2>&1",
                   host + 1, host + 1);
}

bool hosts_make(int count, int mtu)
{
    if (geteuid() != 0 || !own_namespace(&home) ||
        !command("{ ip link add bridge mtu %d type bridge mcast_snooping 0 && ip link set bridge up; } "
                 ">/dev/null 2>&1",
                 mtu))
        return false;
    for (made = 0; made < count; made++)
        if (!host_make(made, mtu))
            return false;
    hosts_leave();
    return true;
}

int hosts_enter(void)
{
    for (int host = 0; host < made; host++)
        if (!taken[host]) {
            taken[host] = true;
            hosts_enter_again(host);
            return host;
        }
    if (made > 0) {
        fprintf(stderr, "more than %d hosts\n", made);
        abort();
    }
    return -1;
}

void hosts_enter_again(int host)
{
    if (host >= 0 && setns(hosts[host], CLONE_NEWNET) != 0)
        abort();
}

void hosts_leave(void)
{
    if (made > 0 && setns(home, CLONE_NEWNET) != 0)
        abort();
}

void hosts_free(int host)
{
    if (host >= 0)
        taken[host] = false;
}
