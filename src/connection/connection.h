/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections and listeners (ADR 21), and how an endpoint and a context drive them. A connection is a
 * transmitter and a receiver of one session each, linked into the endpoint like all others once the other
 * side's address is known; only their start and end differ.
 */
#ifndef LLI_CONNECTION_H
#define LLI_CONNECTION_H

#include "core/conn/close_retry.h"
#include "core/conn/handshake.h"
#include "engine/objects.h"

enum lli_connection_state {
    LLI_CONNECTION_CONNECTING = 0, /* CONNECT is sent or being sent; connector has its state */
    LLI_CONNECTION_OPENING,        /* its sessions run; the accepting side has not heard the other */
    LLI_CONNECTION_OPEN,
    LLI_CONNECTION_OVER, /* over, to be reported */
    LLI_CONNECTION_REPORTED,
};

/* A request that waits for its reply. */
struct lli_request {
    llm_reply_fn *reply; /* NULL: unused */
    void *arg;
    uint64_t number;
    lli_ns until;
};

struct llm_connection {
    struct llm_context *context;
    struct llm_connection *next; /* next connection of the context */
    struct lli_endpoint *endpoint;
    /* Listener that accepted it; NULL: the connecting side, or the listener was closed. */
    struct llm_listener *listener;
    struct llm_connection_handlers handlers;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    uint64_t id;
    enum lli_connection_state state;
    enum llm_reason reason; /* valid in OVER and REPORTED */
    uint16_t code;
    bool accepted;    /* this is the accepting side */
    bool running;     /* the sessions are linked into the endpoint, or the connection is muted */
    bool closing;     /* llm_connection_close() runs */
    bool released;    /* llm_connection_close() was called in a handler */
    bool undelivered; /* some messages are not known to have arrived */
    bool dismissed;   /* no CLOSE is sent: the other side announced that it left, or never connected */
    bool unheard;     /* accepted, and only the ACCEPT is sent: the other side has not confirmed it */
    bool joined;      /* joined the listener's group, to send the request */
    lli_handle group;
    lli_ns until; /* OPENING: deadline */
    lli_ns linger;
    lli_ns lingers_until;         /* deadline of the close, 0: not closing */
    uint64_t session;             /* session of the other side, 0: unknown */
    struct lli_wire_address peer; /* address of the other side; empty: unknown, or no longer needed */
    struct lli_connector connector;
    /* Requests and replies. */
    struct lli_request *requests; /* LLM_REQUESTS_MAX entries: request n is in entry n modulo that */
    uint64_t requests_next;
    lli_ns requests_at;       /* no request times out before */
    struct llm_topic *asking; /* topic of requests; NULL: not opened yet */
    struct llm_topic *replying;
    uint32_t request_topic; /* the other side's topic of requests, UINT32_MAX: unknown */
    uint32_t replied_topic;
};

struct llm_listener {
    struct llm_context *context;
    struct llm_listener *next; /* next listener of the context */
    struct lli_endpoint *endpoint;
    struct llm_listener_handlers handlers;
    struct lli_channel channel;
    struct lli_acceptor acceptor;
    lli_handle group;
    char text[LLI_CHANNEL_TEXT_MAX]; /* the channel's text */
    char object[LLI_CHANNEL_TEXT_MAX + 16];
};

/* --------------------------------------------------------------------------------------- connection.c */

/* Parses the channel of a connection or listener; options may be NULL. */
int lli_connection_channel(struct llm_context *context, const char *text, const struct llm_options *options,
                           struct lli_channel *channel);

/* Creates a connection, with memory for both sessions, which do not run yet. LLM_E... on failure. */
int lli_connection_make(struct llm_context *context, const struct lli_channel *channel, const char *text,
                        const struct llm_connection_handlers *handlers, struct llm_connection **result);

/* Requests a connection: as llm_connection_open(), without a lock. The request is sent with the next poll. */
int lli_connection_connect(struct llm_context *context, const char *text, const struct llm_options *options,
                           const struct iovec *payload, const struct llm_connection_handlers *handlers,
                           struct llm_connection **result);

/*
 * Starts both sessions: the other side's session, address and longest message are known, for the connecting
 * side also the session's first packet. Sessions of an accepted connection run once the other side is heard.
 * LLM_E... on failure.
 */
int lli_connection_run(struct llm_connection *connection, const struct lli_wire_accept *other, lli_ns now);

/* Reports LLM_EVENT_CONNECTED, once. */
void lli_connection_connected(struct llm_connection *connection);

/* Ends and frees a connection without an event. */
void lli_connection_destroy(struct llm_connection *connection);

/* Reports an event to the application. */
void lli_connection_report(struct llm_connection *connection, const struct llm_event *event);

/*
 * Ends a connection: nothing is sent or delivered any more. The event follows when the endpoints have been
 * polled.
 */
void lli_connection_over(struct llm_connection *connection, enum llm_reason reason, uint16_t code);

/* Stops the sessions, if they run, and sends CLOSE with a reason (0: the other side knows). */
void lli_connection_stop(struct llm_connection *connection, unsigned closing);

/* Frees everything that belongs to the connection alone. */
void lli_connection_release(struct llm_connection *connection);

/* Makes listeners and connections due at a time. */
static inline void lli_conn_due(struct llm_context *context, lli_ns at)
{
    context->connections_at = lli_min(context->connections_at, at);
    context->watch_at = lli_min(context->watch_at, at);
}

/* ---------------------------------------------------------------------------------------- connections.c */

/* Makes the context call listeners and connections; every function that creates one calls it. LLM_ENOMEM. */
int lli_connections_begin(struct llm_context *context);

/* ------------------------------------------------------------------------------------------- confirm.c */

/* Links both sessions into the endpoint: they run from now on. */
void lli_connection_link(struct llm_connection *connection);

/* Implements confirm() of struct lli_upcalls. */
bool lli_connection_confirm(struct lli_endpoint *endpoint, const struct lli_rx_packet *packet, lli_ns now);

/* ------------------------------------------------------------------------------------------- peers.c */

/*
 * Resolves an address. LLM_EAGAIN: it is being resolved, or there is no room for it now; LLM_EINVAL: it never
 * will be.
 */
int lli_conn_reach(struct lli_endpoint *endpoint, const struct lli_wire_address *wire, lli_handle *handle);

/* Sends one packet, to a peer or a group. False: there is no buffer now. */
bool lli_conn_post(struct lli_endpoint *endpoint, const uint8_t *bytes, size_t size, lli_handle to);

/* Returns true if a connection, its close retry or a pending caller needs an address. */
bool lli_conn_need(const struct lli_endpoint *endpoint, const struct lli_wire_address *address);

/*
 * Frees the transport's entry of an address, of which there are few, unless a connection or a pending caller
 * needs it.
 */
void lli_conn_forget(struct lli_endpoint *endpoint, const struct lli_wire_address *wire);

/* Sends CLOSE of a connection whose peer is resolved, and repeats it until it is answered (close retry). */
void lli_conn_leave(const struct llm_connection *connection, const struct lli_wire_close *close);

/* Sends CLOSE once to an address that may not be resolved yet; nothing if there is no room for it now. */
void lli_conn_close_once(struct lli_endpoint *endpoint, const struct lli_wire_close *close,
                         const struct lli_wire_address *to, lli_ns now);

/* Takes the answer to a CLOSE. False: no close retry waits for it. */
bool lli_conn_heard(const struct lli_endpoint *endpoint, const struct lli_wire_close *close);

/* Sends the close retries that are due. Returns when to call it again. */
lli_ns lli_conn_say(struct llm_context *context, lli_ns now);

/*
 * Waits for outstanding answers to close retries, until their linger time is over; then drops all close
 * retries.
 */
void lli_conn_part(struct llm_context *context);

/* ------------------------------------------------------------------------------------------ request.c */

/*
 * Returns true if a topic of the other side is that of requests or replies, which is not reported to the
 * application.
 */
bool lli_requests_topic(struct llm_connection *connection, const struct llm_event *event);

/* Takes a message on one of these topics. */
void lli_requests_message(struct llm_connection *connection, const struct llm_message *message);

static inline bool lli_requests_has(const struct llm_connection *connection,
                                    const struct llm_message *message)
{
    return message->topic_id == connection->request_topic || message->topic_id == connection->replied_topic;
}

/* Reports requests that timed out, or all, for this reason. Returns when to call it again. */
lli_ns lli_requests_expire(struct llm_connection *connection, bool all, enum llm_reason reason, lli_ns now);

/* ----------------------------------------------------------------------------------------- listener.c */

/* Shows callers to the application, and answers them. Returns when to call it again. */
lli_ns lli_listener_service(struct llm_listener *listener, lli_ns now);

/* As llm_listener_open(), without a lock. */
int lli_listener_open(struct llm_context *context, const char *text, const struct llm_options *options,
                      const struct llm_listener_handlers *handlers, struct llm_listener **result);

void lli_listener_destroy(struct llm_listener *listener);

/* Visits the listener's counters. */
void lli_listener_stats(const struct llm_listener *listener, const struct lli_stats_visitor *to);

/* Frees the memory of a listener only. */
void lli_listener_free(struct llm_listener *listener);

#endif
