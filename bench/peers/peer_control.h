/* SPDX-License-Identifier: Apache-2.0 */
/* The connection by which the ends of a measurement direct each other: fixed records beside what is measured, over TCP, or over a
 * local socket if they share memory. */
#ifndef BENCH_PEER_CONTROL_H
#define BENCH_PEER_CONTROL_H

#include <stdint.h>

#include "../peer.h"
#include "peer_harness.h"

/* The far end listens for one connection, the near one connects; either may be first. A descriptor, or -1 with errno set. */
int control_open(const struct harness_link *link, uint64_t patience_ns);
void control_close(int fd);

/* 0, or -1 if the other end has gone. */
int control_send(int fd, const struct peer_control *record);

/* 1 with a record, 0 if there is none yet, -1 if the other end has gone. */
int control_receive(int fd, struct peer_control *record);

#endif
