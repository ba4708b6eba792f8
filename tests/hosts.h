/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests that need several hosts: network namespaces, each with an interface of the same name at one
 * bridge.
 *
 * Sockets belong to the namespace they were made in. So a thread enters a host, opens what it needs, and
 * leaves; from then on it is at several hosts at a time.
 */
#ifndef TESTS_HOSTS_H
#define TESTS_HOSTS_H

#include <stdbool.h>

enum { HOSTS_MAX = 4 };

/*
 * The interface of each host; its addresses are 10.77.0.N and fd77::N, where N is 1 more than the host's
 * number.
 */
#define HOSTS_INTERFACE "llm0"

/*
 * Makes them, with cables of an MTU; once in a process. False if that cannot be done: it takes root, ip and a
 * bridge.
 */
bool hosts_make(int count, int mtu);

/* Enters a host nobody is at, which is its number; -1 if hosts were not made, and there is only this one. */
int hosts_enter(void);

/* Enters a host again. Nothing is done for -1. */
void hosts_enter_again(int host);

/* Goes back to where the process began. */
void hosts_leave(void);

/* Nobody is at the host any more. Nothing is done for -1. */
void hosts_free(int host);

#endif
