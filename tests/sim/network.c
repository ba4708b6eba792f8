/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <math.h>
#include <stdlib.h>

/* A run of losses ends after this time for each packet of its mean length, even if hardly any are sent. */
#define RUN_NS SIM_MS

void sim_network_init(struct sim_network *network, const struct sim_scenario *scenario,
                      struct sim_events *events)
{
    *network = (struct sim_network){
        .scenario = scenario,
        .events = events,
        .random = scenario->seed ^ 0x6e6574776f726b,
        .nodes = scenario->transmitters + scenario->receivers,
    };
    network->in = sim_memory((size_t)network->nodes * scenario->lines * sizeof *network->in);
    network->out = sim_memory((size_t)network->nodes * scenario->lines * sizeof *network->out);
}

void sim_network_fini(struct sim_network *network)
{
    free(network->in);
    free(network->out);
}

void sim_network_heal(struct sim_network *network)
{
    network->healed = true;
    for (uint32_t i = 0; i < network->nodes * network->scenario->lines; i++)
        network->in[i].cut_until = network->out[i].cut_until = 0;
}

/* An address of the second line is longer, as one of another family is. */
struct lli_wire_address sim_address_on(uint32_t node, uint32_t line)
{
    struct lli_wire_address address = {.size = (uint8_t)(4 + line)};

    lli_store_u32(address.bytes, node);
    return address;
}

struct lli_wire_address sim_address(uint32_t node)
{
    return sim_address_on(node, 0);
}

bool sim_address_node(const struct sim_network *network, const struct lli_wire_address *address,
                      uint32_t *node)
{
    if (address->size < 4 || address->size >= 4 + network->scenario->lines ||
        lli_load_u32(address->bytes) >= network->nodes)
        return false;
    *node = lli_load_u32(address->bytes);
    return true;
}

static bool network_hits(struct sim_network *network, uint32_t ppm)
{
    return ppm > 0 && lli_random_below(&network->random, 1000000) < ppm;
}

/*
 * Gilbert-Elliott model: in the bad state everything is lost; the state lasts for loss_burst packets on
 * average.
 */
static bool network_loses(struct sim_network *network, struct sim_link *link, uint32_t ppm, lli_ns now)
{
    uint32_t burst = network->scenario->loss_burst;

    if (now < link->cut_until)
        return true;
    if (ppm == 0 || (network->healed && !network->scenario->lossy_to_the_end))
        return false;
    if (burst <= 1)
        return network_hits(network, ppm);
    if (link->bad && (now >= link->bad_until || network_hits(network, 1000000 / burst)))
        link->bad = false;
    else if (!link->bad && network_hits(network, ppm / burst)) {
        link->bad = true;
        link->bad_until = now + burst * RUN_NS;
    }
    return link->bad;
}

static lli_ns network_exponential(struct sim_network *network, lli_ns mean)
{
    double uniform = (double)(lli_random(&network->random) >> 11) * 0x1p-53;

    return (lli_ns)((double)mean * -log1p(-uniform));
}

static lli_ns network_delay(struct sim_network *network, struct sim_link *link, lli_ns now)
{
    const struct sim_scenario *scenario = network->scenario;
    lli_ns at = now + scenario->delay_min + network_exponential(network, scenario->delay_mean);

    if (network_hits(network, scenario->reorder))
        return at + network_exponential(network, 4 * (scenario->delay_min + scenario->delay_mean));
    link->last_at = lli_max(link->last_at, at);
    return link->last_at;
}

/* Returns the remaining length of a packet that may be truncated. */
static uint32_t network_truncate(struct sim_network *network, const struct sim_packet *packet)
{
    if (!network_hits(network, network->scenario->truncate))
        return packet->size;
    return (uint32_t)lli_random_below(&network->random, packet->size);
}

static void network_deliver(struct sim_network *network, lli_ns now, uint32_t to, uint32_t line, bool group,
                            struct sim_packet *packet)
{
    struct sim_link *link = &network->in[line * network->nodes + to];
    int copies = network_hits(network, network->scenario->duplicate) ? 2 : 1;

    if (network_loses(network, link, network->scenario->loss, now))
        return;
    for (int i = 0; i < copies; i++) {
        struct sim_event event = {
            .kind = SIM_ARRIVE, .node = to, .line = (uint8_t)line, .group = group, .packet = packet};

        event.at = network_delay(network, link, now + line * network->scenario->skew);
        /* The second copy may be very late. */
        if (i > 0)
            event.at +=
                lli_random_below(&network->random, network_hits(network, 100000) ? 300 * SIM_MS : SIM_MS);
        event.size = network_truncate(network, packet);
        packet->references++;
        sim_events_add(network->events, event);
    }
}

/* Sends a packet on one line. */
static void network_send_on(struct sim_network *network, lli_ns now, uint32_t from, uint32_t to,
                            uint32_t line, const uint8_t *data, uint32_t size)
{
    const struct lli_wire_address first = sim_address(from), own = sim_address_on(from, line);
    struct sim_link *out = &network->out[line * network->nodes + from];
    uint8_t announced[LLI_WIRE_CONTROL_MAX + 1];
    size_t announces = 0;
    struct sim_packet *packet;

    network->packets++;
    if (network_loses(network, out, network->scenario->loss_source, now)) {
        network->lost_source += to == SIM_GROUP && (data[0] & 15) == LLI_WIRE_DATA;
        return;
    }
    if (line > 0)
        announces = lli_wire_readdress(data, size, &first, &own, announced, sizeof announced);
    packet = announces > 0 ? sim_packet_new(announced, (uint32_t)announces) : sim_packet_new(data, size);
    if (to != SIM_GROUP)
        network_deliver(network, now, to, line, false, packet);
    else
        for (uint32_t node = network->scenario->transmitters; node < network->nodes; node++)
            network_deliver(network, now, node, line, true, packet);
    sim_packet_drop(packet);
}

void sim_network_send(struct sim_network *network, lli_ns now, uint32_t from, uint32_t to,
                      const struct lli_wire_address *address, const uint8_t *data, uint32_t size)
{
    if (to != SIM_GROUP) {
        network_send_on(network, now, from, to, address->size - 4u, data, size);
        return;
    }
    for (uint32_t line = 0; line < network->scenario->lines; line++)
        network_send_on(network, now, from, to, line, data, size);
}

void sim_network_forge(struct sim_network *network, lli_ns now, uint32_t to, bool group, const uint8_t *data,
                       uint32_t size)
{
    const struct sim_event event = {
        .at = now,
        .kind = SIM_ARRIVE,
        .node = to,
        .group = group,
        .forged = true,
        .size = size,
        .packet = sim_packet_new(data, size),
    };

    sim_events_add(network->events, event);
}
