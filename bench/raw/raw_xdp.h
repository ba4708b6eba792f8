/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare AF_XDP: UDP multicast as frames, written and read in place, with nothing of the library. IPv4 groups only.
 *
 * The ends of a process share one socket, on the first queue of the interface, and a program that takes what comes to the port
 * of the group that is received. So the library cannot have the same interface.
 */
#ifndef BENCH_RAW_XDP_H
#define BENCH_RAW_XDP_H

#include "raw.h"

extern const struct raw_scheme raw_xdp;

#endif
