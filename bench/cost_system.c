/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks that this host has. The packet is that of an Ethernet without the headers of IP and UDP, or of a
 * RoCE device on one.
 */
#include "cost.h"

#include <stddef.h>

const struct cost_network cost_networks[] = {
    {.name = "loop",
     .channel = "loop://cost:%u?mtu=1472&" COST_OPTIONS,
     .turn_max = 8000,
     .everything = true},
    {.name = "udp",
     .channel = "udp://239.195.1.1:%u?interface=lo&mtu=1052&" COST_OPTIONS,
     .turn_max = 4000,
     .late = true},
    {.name = NULL},
};
