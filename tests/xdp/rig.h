/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of the AF_XDP transport: instances on hosts of their own. Needs root. */
#ifndef TESTS_XDP_RIG_H
#define TESTS_XDP_RIG_H

#include "../contract.h"

#define GROUP "239.193.7.3"
#define FAR "10.77.0.4" /* address of the host with plain sockets */

enum { PORT = 17003, FAR_HOST = 3, NEAR_HOST = 2 };

struct llm_options options_on(const char *interface);
void expect_logged(const char *text);

/* Open an instance on the first unused host; join the group; both. */
void must_open(struct station *station, const struct llm_options *options);
lli_handle must_join(struct station *station, enum lli_join_mode mode);
lli_handle must_listen(struct station *station, const struct llm_options *options);

/*
 * Returns the number of packets until none comes for a while, and the number received as frames since open.
 */
int heard(struct station *station);
uint64_t frames_received(const struct station *station);

/* Creates the hosts and runs the tests; returns the result of main(). */
int rig_run(const struct CMUnitTest *tests, size_t count);

#endif
