/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection is made (docs/protocol.md section 13): whoever connects asks until it is answered or gives up; whoever
 * listens has a bounded table of those who asked, so that asking again makes no second connection. Pure, like the sessions.
 */
#ifndef LLI_HANDSHAKE_H
#define LLI_HANDSHAKE_H

#include "types.h"
#include "wire.h"

/* -------------------------------------------------------------------------------------- who connects */

enum lli_dial_state { LLI_DIAL_ASKING = 0, LLI_DIAL_ACCEPTED, LLI_DIAL_REFUSED, LLI_DIAL_UNANSWERED };

struct lli_dial {
    enum lli_dial_state state;
    lli_ns until;                  /* given up then */
    lli_ns at;                     /* asked again then */
    lli_ns distance;
    struct lli_wire_connect connect;
    struct lli_wire_accept accept; /* ACCEPTED */
    struct lli_wire_refuse refuse; /* REFUSED */
};

/* Asks at once, and for so long. */
void lli_dial_init(struct lli_dial *dial, const struct lli_wire_connect *connect, lli_ns timeout, lli_ns now);

/* An answer of this connection's identity came. False: there was another before, which counts, by somebody else. */
bool lli_dial_input_accept(struct lli_dial *dial, const struct lli_wire_accept *accept);
void lli_dial_input_refuse(struct lli_dial *dial, const struct lli_wire_refuse *refuse);

/* Builds the CONNECT that is due, for the group of whoever listens; 0: none is. */
size_t lli_dial_control(struct lli_dial *dial, lli_ns now, uint8_t *buffer);

/* When lli_dial_control() has something to do. */
lli_ns lli_dial_deadline(const struct lli_dial *dial);

/* --------------------------------------------------------------------------------------- who listens */

/* X(name, text) */
#define LLI_DOOR_COUNTERS(X)                                                                                               \
    X(requests_received, "requests to connect received")                                                                   \
    X(requests_repeated, "of these, repetitions")                                                                          \
    X(requests_accepted, "requests accepted")                                                                              \
    X(requests_refused, "requests that the application refused")                                                           \
    X(requests_full, "requests refused because there were connections_max connections")                                    \
    X(requests_expired, "requests that the application did not answer in connect_timeout_ns")                              \
    X(refusals_dropped, "refusals not sent because too many were waiting")                                                 \
    X(connections_unconfirmed, "connections accepted and given up because whoever asked was not heard")

struct lli_door_counters {
#define LLI_DOOR_COUNTER_FIELD(name, text) uint64_t name;
    LLI_DOOR_COUNTERS(LLI_DOOR_COUNTER_FIELD)
#undef LLI_DOOR_COUNTER_FIELD
};

enum lli_guest_state {
    LLI_GUEST_FREE = 0,
    LLI_GUEST_ASKS,    /* the application was not told yet */
    LLI_GUEST_WAITS,   /* it was, and has not answered */
    LLI_GUEST_IN,      /* accepted: there is a connection */
    LLI_GUEST_REFUSED, /* answered so as long as it is remembered */
    LLI_GUEST_GONE,    /* its connection is over, or nobody answered: repetitions that come late are ignored */
};

/* One who asked. */
struct lli_guest {
    enum lli_guest_state state;
    bool owed;    /* an answer */
    lli_ns since; /* it is in this state */
    struct lli_wire_connect connect;
    struct lli_wire_accept accept;
    struct lli_wire_refuse refuse;
};

/* Refusals of those for whom there is no place, which wait to be sent. */
enum { LLI_DOOR_TURNED = 32 };

struct lli_door_turned {
    uint64_t id;
    struct lli_wire_address address;
};

struct lli_door {
    struct lli_guest *guests; /* twice max places: the others are remembered */
    uint64_t *ids;            /* of each, 0: free */
    uint32_t places;
    uint32_t max;             /* those that ask, wait or are in */
    uint32_t count;           /* of these */
    uint32_t owed;            /* answers of guests */
    lli_ns timeout;
    struct lli_door_turned turned[LLI_DOOR_TURNED];
    uint32_t turned_head;
    uint32_t turned_tail;
    struct lli_door_counters counters;
};

/* guests and ids have 2 * max zeroed places, the caller's. timeout: so long the application may take to answer. */
void lli_door_init(struct lli_door *door, struct lli_guest *guests, uint64_t *ids, uint32_t max, lli_ns timeout);

/* A CONNECT came. */
void lli_door_input(struct lli_door *door, const struct lli_wire_connect *connect, lli_ns now);

/* One that asks and of whom the application was not told, from then on it waits; NULL: there is none. */
struct lli_guest *lli_door_next(struct lli_door *door, lli_ns now);

/* The one of this identity that waits or is in, or NULL. */
struct lli_guest *lli_door_find(const struct lli_door *door, uint64_t id);

/* One that waits gets an answer. accept->id is filled in. */
void lli_door_accept(struct lli_door *door, struct lli_guest *guest, const struct lli_wire_accept *accept, lli_ns now);
void lli_door_refuse(struct lli_door *door, struct lli_guest *guest, enum lli_wire_refusal reason, uint16_t code, lli_ns now);

/* A connection is no more. */
void lli_door_leave(struct lli_door *door, uint64_t id, lli_ns now);

/* Builds the next answer that is due, and says where it goes; 0: none is. */
size_t lli_door_control(struct lli_door *door, uint8_t *buffer, struct lli_wire_address *to);

/* Forgets requests that waited too long; returns when it has to be called again, LLI_NEVER: when there are new ones. */
lli_ns lli_door_expire(struct lli_door *door, lli_ns now);

#endif
