/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, and requests and replies over them. <llm/llm.h> includes it, and has the conventions. */
#ifndef LLM_CONNECTION_H
#define LLM_CONNECTION_H

#include <llm/llm.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A connection is reliable unicast: two sessions, one each way, of the same kind as those of channels, with topics, repairs and
 * flow control. Whoever connects shows a payload to the application that listens, which accepts or refuses. Each side gets
 * every message of the other once and in order until LLM_EVENT_DISCONNECTED, which says whether that was the end or a loss.
 *
 * A channel of a connection is that of whoever listens: over udp, bypass and xdp its own address, "udp://10.0.0.2:5001", or,
 * over every transport, a group, by which only the request goes. All else goes by unicast, so firewalls have to let that pass both
 * ways.
 */
struct llm_connection;
struct llm_listener;

/*
 * Fills *options with what is used for connections if no options are given: the defaults, but flow=window with a quorum of
 * 100, so that a sender waits (LLM_EAGAIN) for a receiver that is slow, and memory for one peer: history_bytes=4M,
 * history_packets=4096, window_packets=2048, flow_window_packets=1024, reorder_bytes=2M, topics_max=64, receivers_max=1,
 * sessions_max=1.
 */
LLM_API void llm_connection_options_init(struct llm_options *options);

/* What the other side of a connection asks: llm_request(). */
struct llm_asked {
    uint64_t id;      /* for llm_reply() */
    const void *data; /* valid until the handler returns */
    size_t size;      /* in bytes */
};

/* What a connection tells its application. Handlers run as those of receivers do. */
struct llm_connection_handlers {
    size_t size; /* sizeof(struct llm_connection_handlers) */
    void *arg;   /* passed to each */
    void (*message)(void *arg, struct llm_connection *connection, const struct llm_message *message); /* NULL: dropped */
    /* LLM_EVENT_CONNECTED, DISCONNECTED, TOPIC_NEW, HEARTBEAT_LOST and RESUMED. NULL: events are logged. */
    void (*event)(void *arg, struct llm_connection *connection, const struct llm_event *event);
    /* The other side asks; llm_reply() answers, at once or later, or never. NULL: never. */
    void (*request)(void *arg, struct llm_connection *connection, const struct llm_asked *asked);
};

/* Fills *handlers with NULL and its size. */
LLM_API void llm_connection_handlers_init(struct llm_connection_handlers *handlers);

/* Bytes of the payload that whoever connects may show. */
#define LLM_CONNECT_PAYLOAD_MAX 512

/*
 * Asks whoever listens on the channel for a connection, again and again for connect_timeout_ns; LLM_EVENT_CONNECTED or
 * LLM_EVENT_DISCONNECTED follows. payload: up to LLM_CONNECT_PAYLOAD_MAX bytes, for the application that listens; NULL: none.
 * options: NULL for llm_connection_options_init(); handlers is copied. Allocates; may block while the transport opens.
 * *connection belongs to the context and is closed with llm_connection_close(), whatever becomes of it.
 * Errors as llm_transmitter_open(), and LLM_EMSGSIZE: the payload is too long.
 */
LLM_API int llm_connect(struct llm_context *context, const char *channel, const struct llm_options *options,
                        const struct iovec *payload, const struct llm_connection_handlers *handlers,
                        struct llm_connection **connection);

/*
 * Ends the connection and frees it. Blocks, polling the context, until the other side has all messages, is gone, or linger_ns
 * has passed; messages that come meanwhile are delivered, no event is. At once if the connection was never there, or is lost.
 * Returns 0, or 1 if the other side is not known to have everything. *connection becomes NULL; NULL in it is allowed. Inside a
 * handler LLM_ESTATE, unless LLM_EVENT_DISCONNECTED was told: then it is allowed.
 */
LLM_API int llm_connection_close(struct llm_connection **connection);

/*
 * The transmitter of this side, for llm_topic_open() and all that follows; NULL before LLM_EVENT_CONNECTED. It belongs to the
 * connection: llm_transmitter_close() is refused with LLM_ESTATE. After LLM_EVENT_DISCONNECTED sends are, too.
 */
LLM_API struct llm_transmitter *llm_connection_transmitter(const struct llm_connection *connection);

/* The identity of the connection, the same on both sides; random, never used again. */
LLM_API uint64_t llm_connection_id(const struct llm_connection *connection);

/* Requests of one side of a connection that may wait for their replies. */
#define LLM_REQUESTS_MAX 1024

/*
 * Told once of each request, as a handler. LLM_REASON_NONE: this is the reply, valid until it returns. UNANSWERED: none came
 * in time.
 * Others: the connection is over, for that reason; CLOSED also if it was closed on this side.
 */
typedef void llm_reply_fn(void *arg, enum llm_reason reason, const void *data, size_t size);

/*
 * Asks the other side: sends a request of size bytes, and has reply called with what it replies in timeout_ns (UINT64_MAX: as
 * long as the connection lasts). Requests and replies go in order with messages of all topics, on topics "llm.requests" and
 * "llm.replies" of the connection. Allowed in handlers.
 * LLM_EAGAIN: LLM_REQUESTS_MAX requests wait, or as llm_send(); LLM_EMSGSIZE: 8 bytes less than a message may have;
 * LLM_ESTATE: not connected, or over; LLM_EINVAL: no reply function, or no time.
 */
LLM_API int llm_request(struct llm_connection *connection, const void *data, size_t size, uint64_t timeout_ns,
                        llm_reply_fn *reply, void *arg);

/*
 * Replies to the request with this id. One that nobody waits for any more is ignored on the other side. Allowed in handlers.
 * LLM_EAGAIN, LLM_EMSGSIZE, LLM_ESTATE as llm_request().
 */
LLM_API int llm_reply(struct llm_connection *connection, uint64_t id, const void *data, size_t size);

/* Who wants to connect. */
struct llm_caller {
    uint64_t id;                /* of the connection */
    const void *payload;        /* as it was given to llm_connect(); valid until the handler returns */
    size_t payload_size;
    uint32_t message_bytes_max; /* longer messages cannot be sent to it: LLM_EMSGSIZE */
};

/* The handler of a listener. */
struct llm_listener_handlers {
    size_t size; /* sizeof(struct llm_listener_handlers) */
    void *arg;   /* passed to it */
    /*
     * Somebody wants to connect, and can be answered. LLM_OK: accepted, with *handlers, which the handler fills in. 1 to
     * 65535: refused, with this code.
     * LLM_EAGAIN: llm_accept() or llm_refuse() will follow, in connect_timeout_ns. What is accepted tells LLM_EVENT_CONNECTED
     * when whoever connects was heard, and is the application's from then on; without that it comes to nothing, unsaid.
     */
    int (*request)(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                   struct llm_connection_handlers *handlers);
};

/* Fills *handlers with NULL and its size. */
LLM_API void llm_listener_handlers_init(struct llm_listener_handlers *handlers);

/*
 * Listens on a channel for those who connect. options, as for llm_connect(), are those of its connections as well. handlers is
 * copied; its request must not be NULL. Errors as llm_receiver_open().
 */
LLM_API int llm_listen(struct llm_context *context, const char *channel, const struct llm_options *options,
                       const struct llm_listener_handlers *handlers, struct llm_listener **listener);

/*
 * Answers a caller for whom the handler returned LLM_EAGAIN. handlers is copied. Accepting allocates. Not in handlers:
 * LLM_ESTATE.
 * LLM_ENOTFOUND: no such caller waits, or no longer; LLM_EINVAL: a code that is not 1 to 65535; others as llm_connect(): the
 * caller is refused then.
 */
LLM_API int llm_accept(struct llm_listener *listener, uint64_t id, const struct llm_connection_handlers *handlers);
LLM_API int llm_refuse(struct llm_listener *listener, uint64_t id, int code);

/* Accepts no more. Its connections stay. *listener becomes NULL; NULL in it is allowed. LLM_ESTATE inside a handler. */
LLM_API int llm_listener_close(struct llm_listener **listener);

#ifdef __cplusplus
}
#endif

#endif
