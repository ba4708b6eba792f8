/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where frames to one host go: the kernel is asked for the route, and for the neighbour that it leads to. It alone resolves
 * neighbours; nothing here sends ARP or neighbour solicitations.
 */
#ifndef LLI_XDP_NEIGHBOUR_H
#define LLI_XDP_NEIGHBOUR_H

#include "common/ip.h"
#include "xdp_frame.h"

enum lli_xdp_hop {
    LLI_XDP_HOP_ELSEWHERE = 0, /* this host, or by way of another interface */
    LLI_XDP_HOP_UNKNOWN,       /* nobody has asked for the neighbour yet, or its answer is awaited */
    LLI_XDP_HOP_DEAD,          /* it does not answer, or there is no route */
    LLI_XDP_HOP_STALE,         /* it was not heard of for a while: the kernel asks it once it has a packet for it */
    LLI_XDP_HOP_KNOWN,
};

/* A socket to ask by, or LLM_E. */
int lli_xdp_neighbour_open(const struct lli_log *log, const struct lli_ip_interface *interface, int *fd);

/* What the kernel knows of the way to a host; mac is written if that is KNOWN or STALE. At most four system calls. */
enum lli_xdp_hop lli_xdp_neighbour_find(int fd, const struct lli_ip_interface *interface, const union lli_ip_address *host,
                                        uint8_t mac[LLI_XDP_MAC_BYTES]);

#endif
