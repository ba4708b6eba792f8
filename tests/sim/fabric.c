/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric.h"

#include <math.h>
#include <stdlib.h>

/* Times: of light in the cables, in a switch, and in the host of a receiver or the transmitter. */
enum {
    FABRIC_CABLE_NS = 500,
    FABRIC_LEAF_NS_MIN = 500, /* between trunk and leaf switch, different for each leaf switch */
    FABRIC_LEAF_NS_MAX = 5000,
    FABRIC_SWITCH_NS = 600,
    FABRIC_HOST_NS = 2000,
    FABRIC_HEADERS = 66, /* UDP, IPv4 and Ethernet, with preamble and gap */
};

/* ------------------------------------------------------------------------------------------------ events */

static bool event_is_sooner(const struct fabric_event *a, const struct fabric_event *b)
{
    return a->at < b->at || (a->at == b->at && a->serial < b->serial);
}

static void fabric_add(struct fabric *fabric, struct fabric_event event)
{
    size_t at = fabric->count++;

    if (fabric->count > fabric->room) {
        fabric->room = fabric->room == 0 ? 1024 : fabric->room * 2;
        fabric->heap = sim_memory_grow(fabric->heap, fabric->room * sizeof *fabric->heap);
    }
    if (event.packet != NULL)
        event.packet->references++;
    event.serial = fabric->serial++;
    while (at > 0 && event_is_sooner(&event, &fabric->heap[(at - 1) / 2])) {
        fabric->heap[at] = fabric->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    fabric->heap[at] = event;
}

static struct fabric_event fabric_take(struct fabric *fabric)
{
    const struct fabric_event event = fabric->heap[0], *last = &fabric->heap[--fabric->count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < fabric->count) {
        if (child + 1 < fabric->count && event_is_sooner(&fabric->heap[child + 1], &fabric->heap[child]))
            child++;
        if (!event_is_sooner(&fabric->heap[child], last))
            break;
        fabric->heap[at] = fabric->heap[child];
        at = child;
    }
    fabric->heap[at] = *last;
    return event;
}

void fabric_wake(struct fabric *fabric, enum fabric_kind kind, uint32_t index, lli_ns at)
{
    fabric_add(fabric, (struct fabric_event){.at = lli_max(at, fabric->now), .kind = kind, .index = index});
}

/* ------------------------------------------------------------------------------------------------- losses */

/* Draws the number of packets before the next loss. */
static uint64_t fabric_draw(struct fabric *fabric, uint32_t ppm)
{
    const double uniform = ((double)(lli_random(&fabric->random) >> 11) + 1) * 0x1p-53;

    return ppm == 0 ? UINT64_MAX : (uint64_t)(log(uniform) / log1p(-(double)ppm / FABRIC_PPM));
}

void fabric_lose(struct fabric *fabric, uint32_t port_ppm, uint32_t trunk_ppm)
{
    fabric->config.loss_port_ppm = port_ppm;
    fabric->config.loss_trunk_ppm = trunk_ppm;
    fabric->port_left = fabric_draw(fabric, port_ppm);
    fabric->trunk_left = fabric_draw(fabric, trunk_ppm);
}

static bool fabric_loses_port(struct fabric *fabric)
{
    if (fabric->port_left-- > 0)
        return false;
    fabric->port_left = fabric_draw(fabric, fabric->config.loss_port_ppm);
    fabric->lost_port++;
    return true;
}

static bool fabric_loses_trunk(struct fabric *fabric)
{
    if (fabric->trunk_left-- > 0)
        return false;
    fabric->trunk_left = fabric_draw(fabric, fabric->config.loss_trunk_ppm);
    fabric->lost_trunk++;
    return true;
}

/* -------------------------------------------------------------------------------------------------- ports */

/* Time that a packet takes to leave a port at 10 Gbit/s. */
static lli_ns fabric_time(uint32_t size)
{
    return ((lli_ns)size + FABRIC_HEADERS) * 4 / 5;
}

/* Returns when a packet has left a port; LLI_NEVER: its queue is full. */
static lli_ns port_send(struct fabric_port *port, lli_ns now, uint32_t size)
{
    const lli_ns begin = lli_max(port->free_at, now);

    if (begin - now > (lli_ns)FABRIC_QUEUE_BYTES * 4 / 5)
        return LLI_NEVER;
    return port->free_at = begin + fabric_time(size);
}

bool fabric_has_room(const struct fabric *fabric)
{
    return fabric->sender.free_at < fabric->now + (lli_ns)FABRIC_QUEUE_BYTES * 4 / 5;
}

/* Number of receivers of a leaf switch. */
static uint32_t fabric_ports(const struct fabric *fabric, uint32_t leaf)
{
    return (uint32_t)lli_min(FABRIC_LEAF_PORTS, fabric->config.receivers - leaf * FABRIC_LEAF_PORTS);
}

/* A packet passes the trunk switch; lost: it would have. */
static void fabric_trunk(struct fabric *fabric, uint32_t leaf, uint64_t mask, struct sim_packet *packet,
                         lli_ns at, bool lost)
{
    const lli_ns left =
        lost ? at + fabric_time(packet->size) : port_send(&fabric->leaf_down[leaf], at, packet->size);

    if (left == LLI_NEVER) {
        fabric->drops++;
        lost = true;
    }
    fabric_add(fabric, (struct fabric_event){
                           .at = (left == LLI_NEVER ? at : left) + fabric->distances[leaf] + FABRIC_SWITCH_NS,
                           .kind = lost ? FABRIC_LOST : FABRIC_DOWN,
                           .index = leaf,
                           .mask = mask,
                           .packet = packet,
                       });
}

void fabric_send(struct fabric *fabric, uint32_t to, const uint8_t *data, uint32_t size)
{
    struct sim_packet *packet = sim_packet_new(data, size);
    lli_ns at = lli_max(fabric->sender.free_at, fabric->now) + fabric_time(size);
    const bool lost = fabric_loses_trunk(fabric);

    fabric->sender.free_at = at;
    at += FABRIC_CABLE_NS + FABRIC_SWITCH_NS;
    if (to != FABRIC_GROUP && !lost)
        fabric_trunk(fabric, to / FABRIC_LEAF_PORTS, UINT64_C(1) << to % FABRIC_LEAF_PORTS, packet, at,
                     false);
    for (uint32_t leaf = 0; to == FABRIC_GROUP && leaf < fabric->leaves; leaf++)
        fabric_trunk(fabric, leaf, (UINT64_C(1) << fabric_ports(fabric, leaf)) - 1, packet, at, lost);
    sim_packet_drop(packet);
}

void fabric_answer(struct fabric *fabric, uint32_t from, const uint8_t *data, uint32_t size)
{
    struct sim_packet *packet;

    if (fabric_loses_port(fabric))
        return;
    packet = sim_packet_new(data, size);
    fabric_add(fabric, (struct fabric_event){
                           .at = fabric->now + fabric_time(size) + FABRIC_CABLE_NS + FABRIC_SWITCH_NS,
                           .kind = FABRIC_UP,
                           .index = from,
                           .packet = packet,
                       });
    sim_packet_drop(packet);
}

/* A packet passes a leaf switch: receivers whose ports are idle get it at the same time. */
static void fabric_down(struct fabric *fabric, const struct fabric_event *event)
{
    const lli_ns idle = event->at + fabric_time(event->packet->size);
    struct fabric_event arrival = {.packet = event->packet, .index = event->index};
    uint64_t together = 0, lost = 0;

    for (uint64_t left = event->mask; left != 0; left &= left - 1) {
        const uint32_t port = (uint32_t)__builtin_ctzll(left);
        const lli_ns at =
            port_send(&fabric->down[event->index * FABRIC_LEAF_PORTS + port], event->at, event->packet->size);

        fabric->drops += at == LLI_NEVER;
        if (fabric_loses_port(fabric) || at == LLI_NEVER) {
            lost |= UINT64_C(1) << port;
        } else if (at == idle) {
            together |= UINT64_C(1) << port;
        } else {
            arrival.kind = FABRIC_RECEIVERS;
            arrival.mask = UINT64_C(1) << port;
            arrival.at = at + FABRIC_CABLE_NS + FABRIC_HOST_NS;
            fabric_add(fabric, arrival);
        }
    }
    arrival.at = idle + FABRIC_CABLE_NS + FABRIC_HOST_NS;
    arrival.kind = FABRIC_RECEIVERS;
    arrival.mask = together;
    if (together != 0)
        fabric_add(fabric, arrival);
    arrival.kind = FABRIC_LOST;
    arrival.mask = lost;
    if (lost != 0)
        fabric_add(fabric, arrival);
}

/* A packet of a receiver passes its leaf switch, or the trunk switch. */
static void fabric_up(struct fabric *fabric, const struct fabric_event *event)
{
    const uint32_t leaf = event->index / FABRIC_LEAF_PORTS;
    const bool last = event->kind == FABRIC_TRUNK;
    const lli_ns left =
        port_send(last ? &fabric->last : &fabric->leaf_up[leaf], event->at, event->packet->size);
    struct fabric_event next = {.packet = event->packet, .index = event->index};

    if (left == LLI_NEVER) {
        *(last ? &fabric->drops_transmitter : &fabric->drops) += 1;
        return;
    }
    next.kind = last ? FABRIC_TRANSMITTER : FABRIC_TRUNK;
    next.at = left + (last ? FABRIC_CABLE_NS + FABRIC_HOST_NS : fabric->distances[leaf] + FABRIC_SWITCH_NS);
    fabric_add(fabric, next);
}

/* --------------------------------------------------------------------------------------------------- use */

void fabric_init(struct fabric *fabric, const struct fabric_config *config, lli_ns now)
{
    *fabric = (struct fabric){.config = *config, .now = now, .random = config->seed};
    fabric->leaves = (config->receivers + FABRIC_LEAF_PORTS - 1) / FABRIC_LEAF_PORTS;
    fabric->distances = sim_memory(fabric->leaves * sizeof *fabric->distances);
    fabric->leaf_down = sim_memory(fabric->leaves * sizeof *fabric->leaf_down);
    fabric->leaf_up = sim_memory(fabric->leaves * sizeof *fabric->leaf_up);
    fabric->down = sim_memory((size_t)fabric->leaves * FABRIC_LEAF_PORTS * sizeof *fabric->down);
    for (uint32_t leaf = 0; leaf < fabric->leaves; leaf++)
        fabric->distances[leaf] =
            FABRIC_LEAF_NS_MIN + lli_random_below(&fabric->random, FABRIC_LEAF_NS_MAX - FABRIC_LEAF_NS_MIN);
    fabric_lose(fabric, config->loss_port_ppm, config->loss_trunk_ppm);
}

void fabric_fini(struct fabric *fabric)
{
    for (size_t i = 0; i < fabric->count; i++)
        sim_packet_drop(fabric->heap[i].packet);
    sim_packet_drop(fabric->latest);
    free(fabric->heap);
    free(fabric->distances);
    free(fabric->leaf_down);
    free(fabric->leaf_up);
    free(fabric->down);
}

bool fabric_next(struct fabric *fabric, struct fabric_event *event)
{
    while (fabric->count > 0) {
        *event = fabric_take(fabric);
        fabric->now = event->at;
        sim_packet_drop(fabric->latest);
        fabric->latest = event->packet;
        if (event->kind == FABRIC_DOWN)
            fabric_down(fabric, event);
        else if (event->kind == FABRIC_UP || event->kind == FABRIC_TRUNK)
            fabric_up(fabric, event);
        else
            return true;
    }
    return false;
}
