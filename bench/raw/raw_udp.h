/* SPDX-License-Identifier: Apache-2.0 */
/* Bare UDP multicast. */
#ifndef BENCH_RAW_UDP_H
#define BENCH_RAW_UDP_H

#include "raw.h"

/* A socket that receives from the group without waiting. A descriptor, or -1 with errno set. */
int raw_udp_open_receive(const struct raw_group *group);

/* The longest datagram that goes to the group in one packet. */
size_t raw_udp_datagram_bytes(const struct raw_group *group);

#endif
