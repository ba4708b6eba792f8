/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection setup (docs/protocol.md section 13). The connecting side repeats its request until it is
 * answered or times out; the listener keeps a bounded table of requests, so that a repeated request makes no
 * second connection. A pure state machine, like the sessions.
 */
#ifndef LLI_HANDSHAKE_H
#define LLI_HANDSHAKE_H

#include "core/base/types.h"
#include "core/wire/wire.h"

/* ------------------------------------------------------------------------------------ connecting side */

enum lli_connector_state {
    LLI_CONNECTOR_CONNECTING = 0,
    LLI_CONNECTOR_ACCEPTED,
    LLI_CONNECTOR_REFUSED,
    LLI_CONNECTOR_UNANSWERED
};

struct lli_connector {
    enum lli_connector_state state;
    lli_ns until; /* time at which the request is given up */
    lli_ns at;    /* time of the next request */
    lli_ns distance;
    struct lli_wire_connect connect;
    struct lli_wire_accept accept; /* valid if ACCEPTED */
    struct lli_wire_refuse refuse; /* valid if REFUSED */
};

/* Starts asking, at once, and gives up after timeout. */
void lli_connector_init(struct lli_connector *connector, const struct lli_wire_connect *connect,
                        lli_ns timeout, lli_ns now);

/* Handles an answer with this connection's identity. False: ignored, as another host answered first. */
bool lli_connector_input_accept(struct lli_connector *connector, const struct lli_wire_accept *accept);
void lli_connector_input_refuse(struct lli_connector *connector, const struct lli_wire_refuse *refuse);

/* Builds the CONNECT that is due, for the group that listeners joined; 0: none is due. */
size_t lli_connector_control(struct lli_connector *connector, lli_ns now, uint8_t *buffer);

/* Returns the time at which lli_connector_control() has something to do. */
lli_ns lli_connector_deadline(const struct lli_connector *connector);

/* ------------------------------------------------------------------------------------------- listener */

/* X(name, text) */
#define LLI_ACCEPTOR_COUNTERS(X)                                                                            \
    X(requests_received, "requests to connect received")                                                    \
    X(requests_repeated, "of these, repetitions")                                                           \
    X(requests_accepted, "requests accepted")                                                               \
    X(requests_refused, "requests that the application refused")                                            \
    X(requests_full, "requests refused because there were connections_max connections")                     \
    X(requests_expired, "requests that the application did not answer in connect_timeout_ns")               \
    X(requests_unreachable, "requests whose address is invalid, or was not resolved in connect_timeout_ns") \
    X(refusals_dropped,                                                                                     \
      "answers not sent: too many were waiting, or the address was not resolved in connect_timeout_ns")     \
    X(connections_unconfirmed, "connections accepted and given up because the caller was not heard")

struct lli_acceptor_counters {
#define LLI_ACCEPTOR_COUNTER_FIELD(name, text) uint64_t name;
    LLI_ACCEPTOR_COUNTERS(LLI_ACCEPTOR_COUNTER_FIELD)
#undef LLI_ACCEPTOR_COUNTER_FIELD
};

enum lli_applicant_state {
    LLI_APPLICANT_FREE = 0,
    /* Not reported to the application yet, as it is not known if an answer could be sent. */
    LLI_APPLICANT_NEW,
    LLI_APPLICANT_WAITS,   /* reported to the application, which has not answered */
    LLI_APPLICANT_IN,      /* accepted: the connection exists */
    LLI_APPLICANT_REFUSED, /* refused; repetitions get the same answer while the entry lasts */
    /* The connection is over, or the application did not answer: late repetitions are ignored. */
    LLI_APPLICANT_GONE,
};

/* A request to connect. */
struct lli_applicant {
    enum lli_applicant_state state;
    bool answer_due;     /* an answer has to be sent */
    lli_ns answer_until; /* time at which sending the answer is given up */
    lli_ns since;        /* time at which it entered this state */
    struct lli_wire_connect connect;
    struct lli_wire_accept accept;
    struct lli_wire_refuse refuse;
};

/* Capacity of the queue of refusals for requests that found the table full. */
enum { LLI_ACCEPTOR_TURNED_AWAY = 32 };

struct lli_acceptor_turned_away {
    uint64_t id; /* 0: free */
    struct lli_wire_address address;
    lli_ns until; /* time at which it is given up */
};

struct lli_acceptor {
    struct lli_applicant *applicants; /* 2 * max entries: the surplus remembers past requests */
    uint64_t *ids;                    /* identity of each entry, 0: free */
    uint32_t places;
    uint32_t max;         /* maximum of entries in NEW, WAITS or IN */
    uint32_t count;       /* entries in one of these states */
    uint32_t answers_due; /* answers that wait to be sent, to entries of the table */
    lli_ns timeout;
    struct lli_acceptor_turned_away turned[LLI_ACCEPTOR_TURNED_AWAY];
    uint32_t turned_count;
    struct lli_acceptor_counters counters;
};

/*
 * applicants and ids have 2 * max zeroed entries and belong to the caller. timeout: time allowed for the
 * application's answer, and for address resolution.
 */
void lli_acceptor_init(struct lli_acceptor *acceptor, struct lli_applicant *applicants, uint64_t *ids,
                       uint32_t max, lli_ns timeout);

/* Handles a CONNECT. */
void lli_acceptor_input(struct lli_acceptor *acceptor, const struct lli_wire_connect *connect, lli_ns now);

/*
 * Requests not yet reported to the application. lli_acceptor_next() returns the first one at or after *place,
 * and sets *place to it; NULL: none. Call lli_acceptor_show() once an answer could be sent, from when on the
 * request waits for the application, or lli_acceptor_drop() if none ever can.
 */
struct lli_applicant *lli_acceptor_next(const struct lli_acceptor *acceptor, uint32_t *place);
void lli_acceptor_show(struct lli_applicant *applicant, lli_ns now);
void lli_acceptor_drop(struct lli_acceptor *acceptor, struct lli_applicant *applicant, lli_ns now);

/* Returns the request or connection of this identity in WAITS or IN, else NULL. */
struct lli_applicant *lli_acceptor_find(const struct lli_acceptor *acceptor, uint64_t id);

/* Answers a waiting request. accept->id is filled in. */
void lli_acceptor_accept(struct lli_acceptor *acceptor, struct lli_applicant *applicant,
                         const struct lli_wire_accept *accept, lli_ns now);
void lli_acceptor_refuse(struct lli_acceptor *acceptor, struct lli_applicant *applicant,
                         enum lli_wire_refusal reason, uint16_t code, lli_ns now);

/* Notes that a connection is over. */
void lli_acceptor_leave(struct lli_acceptor *acceptor, uint64_t id, lli_ns now);

/*
 * Answers due. lli_acceptor_answer_due() returns the address of the first one at or after *place, and sets
 * *place to it; NULL: none. lli_acceptor_answer() may be repeated until lli_acceptor_answered() notes that
 * the answer was sent, or cannot be.
 */
const struct lli_wire_address *lli_acceptor_answer_due(const struct lli_acceptor *acceptor, uint32_t *place);
size_t lli_acceptor_answer(const struct lli_acceptor *acceptor, uint32_t place, uint8_t *buffer);
void lli_acceptor_answered(struct lli_acceptor *acceptor, uint32_t place);

/*
 * Gives up one wait that timed out, at or after *place, and sets *place to it. True: *address no longer has
 * to be resolved for it. False: none timed out. Lowers *at to the time at which one may.
 */
bool lli_acceptor_expire(struct lli_acceptor *acceptor, lli_ns now, uint32_t *place,
                         struct lli_wire_address *address, lli_ns *at);

/* True if an entry for this address is asking, waiting or to be answered. */
bool lli_acceptor_needs(const struct lli_acceptor *acceptor, const struct lli_wire_address *address);

#endif
