/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection is made (docs/protocol.md section 13): whoever connects asks until it is answered or gives up; whoever
 * listens has a bounded table of those who asked, so that asking again makes no second connection. Pure, like the sessions.
 */
#ifndef LLI_HANDSHAKE_H
#define LLI_HANDSHAKE_H

#include "core/base/types.h"
#include "core/wire/wire.h"

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
    X(requests_unreachable, "requests of an address that is none, or was not resolved in connect_timeout_ns")              \
    X(refusals_dropped, "answers not sent: too many were waiting, or the address was not resolved in connect_timeout_ns")  \
    X(connections_unconfirmed, "connections accepted and given up because whoever asked was not heard")

struct lli_door_counters {
#define LLI_DOOR_COUNTER_FIELD(name, text) uint64_t name;
    LLI_DOOR_COUNTERS(LLI_DOOR_COUNTER_FIELD)
#undef LLI_DOOR_COUNTER_FIELD
};

enum lli_guest_state {
    LLI_GUEST_FREE = 0,
    LLI_GUEST_ASKS,    /* the application was not told yet, as it is not known whether an answer could be sent */
    LLI_GUEST_WAITS,   /* it was, and has not answered */
    LLI_GUEST_IN,      /* accepted: there is a connection */
    LLI_GUEST_REFUSED, /* answered so as long as it is remembered */
    LLI_GUEST_GONE,    /* its connection is over, or nobody answered: repetitions that come late are ignored */
};

/* One who asked. */
struct lli_guest {
    enum lli_guest_state state;
    bool owed;         /* an answer */
    lli_ns owed_until; /* given up then */
    lli_ns since;      /* it is in this state */
    struct lli_wire_connect connect;
    struct lli_wire_accept accept;
    struct lli_wire_refuse refuse;
};

/* Refusals of those for whom there is no place, which wait to be sent. */
enum { LLI_DOOR_TURNED = 32 };

struct lli_door_turned {
    uint64_t id; /* 0: free */
    struct lli_wire_address address;
    lli_ns until; /* given up then */
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
    uint32_t turned_count;
    struct lli_door_counters counters;
};

/*
 * guests and ids have 2 * max zeroed places, the caller's. timeout: so long the application, or what resolves addresses, may
 * take.
 */
void lli_door_init(struct lli_door *door, struct lli_guest *guests, uint64_t *ids, uint32_t max, lli_ns timeout);

/* A CONNECT came. */
void lli_door_input(struct lli_door *door, const struct lli_wire_connect *connect, lli_ns now);

/*
 * Those who ask and of whom the application was not told: the first at this place or behind it, which place is set to; NULL:
 * there is none. Each is let in by lli_door_show(), once an answer could be sent, from when on it waits; or dropped, if none
 * ever can.
 */
struct lli_guest *lli_door_next(const struct lli_door *door, uint32_t *place);
void lli_door_show(struct lli_guest *guest, lli_ns now);
void lli_door_drop(struct lli_door *door, struct lli_guest *guest, lli_ns now);

/* The one of this identity that waits or is in, or NULL. */
struct lli_guest *lli_door_find(const struct lli_door *door, uint64_t id);

/* One that waits gets an answer. accept->id is filled in. */
void lli_door_accept(struct lli_door *door, struct lli_guest *guest, const struct lli_wire_accept *accept, lli_ns now);
void lli_door_refuse(struct lli_door *door, struct lli_guest *guest, enum lli_wire_refusal reason, uint16_t code, lli_ns now);

/* A connection is no more. */
void lli_door_leave(struct lli_door *door, uint64_t id, lli_ns now);

/*
 * To whom an answer is due: the first at this place or behind it, which place is set to; NULL: there is none. The answer is
 * built as often as it is asked for, until it was sent or cannot be.
 */
const struct lli_wire_address *lli_door_owed(const struct lli_door *door, uint32_t *place);
size_t lli_door_answer(const struct lli_door *door, uint32_t place, uint8_t *buffer);
void lli_door_answered(struct lli_door *door, uint32_t place);

/*
 * Gives up what has waited too long, one at this place or behind it, which place is set to: true, and the address that it need
 * not be reached at any more. False: there is none. at becomes the time when there may be one, if that is sooner.
 */
bool lli_door_expire(struct lli_door *door, lli_ns now, uint32_t *place, struct lli_wire_address *address, lli_ns *at);

/* Whether somebody at this address asks, waits or is to be answered. */
bool lli_door_needs(const struct lli_door *door, const struct lli_wire_address *address);

#endif
