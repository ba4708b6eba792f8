/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections and listeners (ADR 21): what they are made of, and how an endpoint and a context drive them. A connection is a
 * transmitter and a receiver of one session each, which are linked into the endpoint like all others as soon as it is known
 * where the other side is; only how they come about and end is different.
 */
#ifndef LLI_CONNECTION_H
#define LLI_CONNECTION_H

#include "core/conn/close_retry.h"
#include "core/conn/handshake.h"
#include "engine/objects.h"

enum lli_connection_state {
    LLI_CONNECTION_ASKING = 0, /* for it: the dial says how far that is */
    LLI_CONNECTION_OPENING,    /* its sessions run; who accepted has not heard the other */
    LLI_CONNECTION_OPEN,
    LLI_CONNECTION_OVER,       /* to be told */
    LLI_CONNECTION_TOLD,
};

/* A request that waits for its reply. */
struct lli_request {
    llm_reply_fn *reply; /* NULL: the place is free */
    void *arg;
    uint64_t number;
    lli_ns until;
};

struct llm_connection {
    struct llm_context *context;
    struct llm_connection *next; /* of the context */
    struct lli_endpoint *endpoint;
    struct llm_listener *listener; /* whose it is; NULL: it asked, or the listener was closed */
    struct llm_connection_handlers handlers;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    uint64_t id;
    enum lli_connection_state state;
    enum llm_reason reason; /* OVER, TOLD */
    uint16_t code;
    bool accepted;          /* and did not ask */
    bool running;           /* its sessions are linked into the endpoint, or hushed */
    bool closing;           /* llm_connection_close() runs */
    bool released;          /* it was called in a handler */
    bool undelivered;       /* not known to have arrived: something that was sent */
    bool dismissed;         /* the other side is not told of the end: it has left, and said so, or never was there */
    bool hushed;            /* accepted, and nothing but the ACCEPT is sent: the other side has not shown that it got that */
    bool joined;            /* the group of whoever listens, to ask */
    lli_handle group;
    lli_ns until;           /* OPENING: given up then */
    lli_ns linger;
    lli_ns lingers_until;   /* it is being closed; else 0 */
    uint64_t session;       /* the other side's, 0: not known */
    struct lli_wire_address peer; /* where the other side is; empty: not known, or needed no more */
    struct lli_dial dial;
    /* Requests and replies. */
    struct lli_request *requests; /* LLM_REQUESTS_MAX places: request n has place n modulo that */
    uint64_t requests_next;
    lli_ns requests_at;           /* none has waited too long before */
    struct llm_topic *asking;     /* NULL: not opened yet */
    struct llm_topic *replying;
    uint32_t asked_topic;         /* of the other side, UINT32_MAX: not known */
    uint32_t replied_topic;
};

struct llm_listener {
    struct llm_context *context;
    struct llm_listener *next; /* of the context */
    struct lli_endpoint *endpoint;
    struct llm_listener_handlers handlers;
    struct lli_channel channel;
    struct lli_door door;
    lli_handle group;
    char text[LLI_CHANNEL_TEXT_MAX]; /* of the channel */
    char object[LLI_CHANNEL_TEXT_MAX + 16];
};

/* --------------------------------------------------------------------------------------- connection.c */

/* Takes the channel of a connection or listener apart; options may be NULL. */
int lli_connection_channel(struct llm_context *context, const char *text, const struct llm_options *options,
                           struct lli_channel *channel);

/* Makes one, with memory for both sessions, which do not run yet. LLM_E. */
int lli_connection_make(struct llm_context *context, const struct lli_channel *channel, const char *text,
                        const struct llm_connection_handlers *handlers, struct llm_connection **connection);

/*
 * The other side is known: its session, address and the longest message that it takes; of one that accepted the session's first packet,
 * too. Both sessions run from now on, or LLM_E; those of a connection that was accepted when the other side is heard.
 */
int lli_connection_run(struct llm_connection *connection, const struct lli_wire_accept *other, lli_ns now);

/* Tells the application that the connection is there, once. */
void lli_connection_connected(struct llm_connection *connection);

/* Ends it without a word to the application. */
void lli_connection_destroy(struct llm_connection *connection);

/* Has the context call listeners and connections: every way to one comes by here. LLM_ENOMEM. */
int lli_connections_begin(struct llm_context *context);

/* Something of them is due. */
static inline void lli_conn_due(struct llm_context *context, lli_ns at)
{
    context->connections_at = lli_min(context->connections_at, at);
    context->watch_at = lli_min(context->watch_at, at);
}

/* ------------------------------------------------------------------------------------------- confirm.c */

/* Both sessions run from now on. */
void lli_connection_link(struct llm_connection *connection);

/* As confirm() of struct lli_upcalls. */
bool lli_connection_confirm(struct lli_endpoint *endpoint, const struct lli_rx_packet *packet, lli_ns now);

/* ------------------------------------------------------------------------------------------- links.c */

/* The handle of an address. LLM_EAGAIN: it is being resolved, or there is no place for it now; LLM_EINVAL: it never will be. */
int lli_conn_reach(struct lli_endpoint *endpoint, const struct lli_wire_address *address, lli_handle *handle);

/* Sends one packet, to a peer or a group. False: there is no buffer now. */
bool lli_conn_post(struct lli_endpoint *endpoint, const uint8_t *bytes, size_t size, lli_handle to);

/* Whether a connection, its last word or somebody who asked needs an address. */
bool lli_conn_need(const struct lli_endpoint *endpoint, const struct lli_wire_address *address);

/*
 * An address that no connection and nobody who asks needs, need not be known to the transport, where places for addresses are
 * few.
 */
void lli_conn_forget(struct lli_endpoint *endpoint, const struct lli_wire_address *address);

/* Says the last word of a connection whose peer is reached, and repeats it until it is answered. */
void lli_conn_leave(const struct llm_connection *connection, const struct lli_wire_close *close);

/* Says something to an address that is not resolved perhaps, once; nothing if there is no place for it now. */
void lli_conn_tell(struct lli_endpoint *endpoint, const struct lli_wire_close *close, const struct lli_wire_address *to,
                    lli_ns now);

/* The answer to a last word came. False: nobody waits for it. */
bool lli_conn_heard(const struct lli_endpoint *endpoint, const struct lli_wire_close *close);

/* Says what is due; returns when it has to be called again. */
lli_ns lli_conn_say(struct llm_context *context, lli_ns now);

/* Waits for the answers that are waited for, for as long as those linger who wait for them; nothing more is said then. */
void lli_conn_part(struct llm_context *context);

/* ------------------------------------------------------------------------------------------ request.c */

/* Whether a topic of the other side is one of requests or replies, which the application is not told of. */
bool lli_requests_topic(struct llm_connection *connection, const struct llm_event *event);

/* A message on one of these. */
void lli_requests_message(struct llm_connection *connection, const struct llm_message *message);

static inline bool lli_requests_has(const struct llm_connection *connection, const struct llm_message *message)
{
    return message->topic_id == connection->asked_topic || message->topic_id == connection->replied_topic;
}

/* Tells those that have waited too long, or all, for this reason; returns when it has to be called again. */
lli_ns lli_requests_expire(struct llm_connection *connection, bool all, enum llm_reason reason, lli_ns now);

/* ----------------------------------------------------------------------------------------- listener.c */

/* Asks the application, and answers. Returns when it has to be called again. */
lli_ns lli_listener_service(struct llm_listener *listener, lli_ns now);

void lli_listener_destroy(struct llm_listener *listener);

/* Visits its counters. */
void lli_listener_stats(const struct llm_listener *listener, const struct lli_stats_visitor *visitor);

/* Frees it alone. */
void lli_listener_free(struct llm_listener *listener);

#endif
