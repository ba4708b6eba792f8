/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual network: loses, delays, reorders, duplicates and truncates packets between nodes, all by one seed.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "events.h"
#include "scenario.h"
#include "core/wire/wire.h"

/* Destination: all receivers. */
#define SIM_GROUP UINT32_MAX

/* One direction between a node and the network. */
struct sim_link {
    lli_ns last_at; /* packets that are not reordered arrive no earlier than this */
    lli_ns cut_until;
    lli_ns bad_until; /* a run of losses ends by then */
    bool bad;
};

struct sim_network {
    const struct sim_scenario *scenario;
    struct sim_events *events;
    uint64_t random;
    struct sim_link *in, *out; /* by node, of the first line, then of the second */
    uint32_t nodes;
    bool healed;
    uint64_t packets;
    uint64_t lost_source; /* data packets to the group that no receiver got */
};

void sim_network_init(struct sim_network *network, const struct sim_scenario *scenario,
                      struct sim_events *events);
void sim_network_fini(struct sim_network *network);

/*
 * Sends a packet from a node to SIM_GROUP, on all lines, or to a node at an address. As an endpoint does, it
 * replaces the address of the node that the packet announces by the one that it has on the line.
 */
void sim_network_send(struct sim_network *network, lli_ns now, uint32_t from, uint32_t to,
                      const struct lli_wire_address *address, const uint8_t *data, uint32_t size);

/* Delivers a packet to a node without using a link. */
void sim_network_forge(struct sim_network *network, lli_ns now, uint32_t to, bool group, const uint8_t *data,
                       uint32_t size);

/* Ends the faults: cuts end, losses too unless they last to the end. */
void sim_network_heal(struct sim_network *network);

/* Address of a node, as carried in packets. */
struct lli_wire_address sim_address(uint32_t node);

/* Address of a node on a line, from 0. */
struct lli_wire_address sim_address_on(uint32_t node, uint32_t line);
bool sim_address_node(const struct sim_network *network, const struct lli_wire_address *address,
                      uint32_t *node);

#endif
