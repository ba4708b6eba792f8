/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MAC addresses of hosts: queries the kernel's route and neighbour tables. Only the kernel resolves
 * neighbours; this module sends no ARP or neighbour solicitations.
 */
#ifndef LLI_XDP_NEIGHBOUR_H
#define LLI_XDP_NEIGHBOUR_H

#include "common/ip.h"
#include "xdp_frame.h"

enum lli_xdp_hop {
    LLI_XDP_HOP_ELSEWHERE = 0, /* this host, or reached by another interface */
    LLI_XDP_HOP_UNKNOWN,       /* not resolved yet, or resolution is under way */
    LLI_XDP_HOP_DEAD,          /* the neighbour does not answer, or there is no route */
    LLI_XDP_HOP_STALE,         /* not confirmed recently: the kernel probes it when it has a packet for it */
    LLI_XDP_HOP_KNOWN,
};

/* Opens a netlink socket. Returns 0 or a negative LLM_E code. */
int lli_xdp_neighbour_open(const struct lli_log *log, const struct lli_ip_interface *interface, int *fd);

/*
 * Looks up the route and neighbour of a host; writes mac if the result is KNOWN or STALE. At most four system
 * calls.
 */
enum lli_xdp_hop lli_xdp_neighbour_find(int fd, const struct lli_ip_interface *interface,
                                        const union lli_ip_address *host, uint8_t mac[LLI_XDP_MAC_BYTES]);

#endif
