/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual network of switches between one transmitter and very many receivers. A trunk switch has a port for
 * the transmitter and one for each leaf switch; a leaf switch has a port for each of its receivers. Every
 * port sends at 10 Gbit/s, in both directions, from a queue of limited size. The seed alone decides losses
 * and distances. Packets and wake-ups are pulled, in the order of their times.
 */
#ifndef SIM_FABRIC_H
#define SIM_FABRIC_H

#include "events.h"

enum {
    FABRIC_GROUP = UINT32_MAX,   /* destination: every receiver */
    FABRIC_LEAF_PORTS = 48,      /* receivers of a leaf switch */
    FABRIC_QUEUE_BYTES = 262144, /* queue of a port */
    FABRIC_PPM = 1000000,
};

enum fabric_kind {
    /* Of the network: */
    FABRIC_DOWN,  /* a packet is at leaf switch `index` */
    FABRIC_UP,    /* ... of receiver `index`, is at its leaf switch */
    FABRIC_TRUNK, /* ... is at the trunk switch, on its way to the transmitter */
    /* Returned by fabric_next(): */
    FABRIC_RECEIVERS,        /* a packet has arrived at the receivers `mask` of leaf switch `index` */
    FABRIC_LOST,             /* a packet to the group would have arrived there, and was lost */
    FABRIC_TRANSMITTER,      /* a packet has arrived at the transmitter */
    FABRIC_WAKE_RECEIVER,    /* fabric_wake() */
    FABRIC_WAKE_TRANSMITTER, /* likewise */
    FABRIC_SEND,             /* likewise: the application sends */
};

struct fabric_event {
    lli_ns at;
    uint64_t serial;
    uint64_t mask; /* a bit for each receiver of the leaf switch */
    struct sim_packet *packet;
    enum fabric_kind kind;
    uint32_t index;
};

/* A port sends one packet after the other. */
struct fabric_port {
    lli_ns free_at; /* time at which its queue is empty */
};

struct fabric_config {
    uint32_t receivers;
    uint32_t loss_port_ppm;  /* losses between each leaf switch and each receiver, in both directions */
    uint32_t loss_trunk_ppm; /* losses of packets of the transmitter: no receiver gets them */
    uint64_t seed;
};

struct fabric {
    struct fabric_config config;
    lli_ns now;
    uint64_t random;
    struct fabric_event *heap;
    size_t count, room;
    uint64_t serial;
    uint32_t leaves;
    lli_ns *distances;              /* by leaf switch: to the trunk */
    struct fabric_port sender;      /* of the transmitter */
    struct fabric_port *leaf_down;  /* of the trunk switch, by leaf switch */
    struct fabric_port *leaf_up;    /* of each leaf switch, to the trunk switch */
    struct fabric_port *down;       /* of the leaf switches, by receiver */
    struct fabric_port last;        /* of the trunk switch, to the transmitter */
    uint64_t port_left, trunk_left; /* packets before the next random loss */
    struct sim_packet *latest;      /* packet of the latest event */
    uint64_t drops_transmitter;     /* packets to the transmitter that the queue of its port dropped */
    uint64_t drops;                 /* packets that other queues dropped */
    uint64_t lost_port, lost_trunk; /* random losses */
};

void fabric_init(struct fabric *fabric, const struct fabric_config *config, lli_ns now);
void fabric_fini(struct fabric *fabric);

/* Sets the probabilities of losses from now on. */
void fabric_lose(struct fabric *fabric, uint32_t port_ppm, uint32_t trunk_ppm);

/* True if the transmitter's own port has room for a packet. */
bool fabric_has_room(const struct fabric *fabric);

/* Sends a packet of the transmitter to a receiver or FABRIC_GROUP, or one of a receiver to the transmitter. */
void fabric_send(struct fabric *fabric, uint32_t to, const uint8_t *data, uint32_t size);
void fabric_answer(struct fabric *fabric, uint32_t from, const uint8_t *data, uint32_t size);

/* Adds an event of one of the last three kinds. */
void fabric_wake(struct fabric *fabric, enum fabric_kind kind, uint32_t index, lli_ns at);

/* Advances the time to the next event, and returns it. Its packet is valid until the next call. */
bool fabric_next(struct fabric *fabric, struct fabric_event *event);

#endif
