/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the AF_XDP transport share: instances at hosts of their own. They need root. */
#ifndef TESTS_XDP_RIG_H
#define TESTS_XDP_RIG_H

#include "../contract.h"

#define GROUP "239.193.7.3"
#define FAR "10.77.0.4" /* the host of plain sockets */

enum { PORT = 17003, FAR_HOST = 3, NEAR_HOST = 2 };

struct llm_options options_on(const char *interface);
void expect_logged(const char *text);

/* Opens an instance at the first host that nobody is at; joins the group; both. */
void must_open(struct station *station, const struct llm_options *options);
lli_handle must_join(struct station *station, enum lli_join_mode mode);
lli_handle must_listen(struct station *station, const struct llm_options *options);

/* How many packets come until none does for a while, and how many have come as frames since open. */
int heard(struct station *station);
uint64_t frames_received(const struct station *station);

/* Makes the hosts and runs the tests; what main() returns. */
int rig_run(const struct CMUnitTest *tests, size_t count);

#endif
