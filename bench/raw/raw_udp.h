/* SPDX-License-Identifier: Apache-2.0 */
/* Bare UDP multicast: its sockets, and what the kernel does with trains of datagrams. */
#ifndef BENCH_RAW_UDP_H
#define BENCH_RAW_UDP_H

#include "raw.h"

/* A socket that sends to the group, or receives from it without waiting. A descriptor, or -1 with errno set. */
int raw_udp_open_send(const struct raw_group *group);
int raw_udp_open_receive(const struct raw_group *group);

/* The longest datagram that goes to the group in one packet. */
size_t raw_udp_datagram_bytes(const struct raw_group *group);

/* Has the kernel split a message into datagrams of so many bytes (UDP_SEGMENT). control: memory of RAW_CONTROL_BYTES, aligned for
 * a struct cmsghdr, which the message refers to from then on. */
#define RAW_CONTROL_BYTES CMSG_SPACE(sizeof(uint16_t))
void raw_udp_segment(struct msghdr *message, void *control, size_t datagram_bytes);

/* The longest train of such datagrams that the kernel takes in one message. */
size_t raw_udp_train_bytes(size_t datagram_bytes);

/* Whether the kernel gives trains as one (UDP_GRO). 0, or -1 with errno set. */
int raw_udp_merge(int fd, bool on);

#endif
