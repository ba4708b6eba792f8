/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts for tests: network namespaces, each with an interface of the same name, connected to one bridge.
 *
 * A socket belongs to the namespace in which it was opened. So a thread enters a host, opens its objects, and
 * leaves; afterwards its objects are on several hosts.
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
 * Creates them, with cables of this MTU; once per process. False if that is not possible: it needs root, ip
 * and a bridge.
 */
bool hosts_make(int count, int mtu);

/* Enters an unused host and returns its number; -1 if hosts were not created: there is only this one. */
int hosts_enter(void);

/* Enters a host again. Does nothing for -1. */
void hosts_enter_again(int host);

/* Returns to the namespace in which the process began. */
void hosts_leave(void);

/* Marks a host as unused. Does nothing for -1. */
void hosts_free(int host);

#endif
