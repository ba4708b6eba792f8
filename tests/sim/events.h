/* SPDX-License-Identifier: Apache-2.0 */
/* Event queue of the simulated world: a heap by time, then by order of insertion. */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include "core/base/types.h"

/* A datagram, shared by all its receivers. */
struct sim_packet {
    uint32_t references;
    uint32_t size;
    uint8_t bytes[];
};

struct sim_packet *sim_packet_new(const uint8_t *data, uint32_t size);
void sim_packet_drop(struct sim_packet *packet);

enum sim_event_kind {
    SIM_ARRIVE, /* a packet reaches a node */
    SIM_WAKE,   /* a node's deadline; value: its version */
    SIM_SEND,   /* a transmitter's application sends; value: its session's index */
    SIM_FAULT,  /* value: index in the scenario's faults */
};

struct sim_event {
    lli_ns at;
    uint64_t serial;
    enum sim_event_kind kind;
    uint32_t node;
    uint32_t size; /* of the packet that arrives, at most the packet's */
    uint8_t line;  /* on which it arrives, from 0 */
    bool group;    /* it was sent to the group */
    bool forged;   /* by a forger */
    struct sim_packet *packet;
    uint64_t value;
};

struct sim_events {
    struct sim_event *heap;
    size_t count;
    size_t room;
    uint64_t serial;
};

void sim_events_add(struct sim_events *events, struct sim_event event);

/* Takes the next event; false if there is none. */
bool sim_events_take(struct sim_events *events, struct sim_event *event);
void sim_events_fini(struct sim_events *events);

/* malloc() and realloc(), zeroed on request, that succeed or end the program. */
void *sim_memory(size_t size);
void *sim_memory_grow(void *memory, size_t size);

#endif
