/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, and requests and replies over them. Included by <llm/llm.h>, which states the conventions. */
#ifndef LLM_CONNECTION_H
#define LLM_CONNECTION_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <llm/context.h>
#include <llm/event.h>
#include <llm/options.h>
#include <llm/receiver.h>
#include <llm/transmitter.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A connection is reliable unicast: two sessions, one in each direction, of the same kind as those of
 * channels, with topics, repairs and flow control. The connecting side presents a payload to the listening
 * application, which accepts or refuses. Each side receives every message of the other once and in order
 * until LLM_EVENT_DISCONNECTED, which says whether the connection ended regularly or was lost.
 *
 * The channel of a connection is that of the listener. Over udp, bypass and xdp it is the listener's own
 * address, "udp://10.0.0.2:5001"; over every transport it may be a group, to which only the connection
 * request goes. All other packets go by unicast, so firewalls have to let unicast pass in both directions.
 */
struct llm_connection;
struct llm_listener;

/*
 * Fills *options with the options that connections use if none are given. They are the defaults with
 * flow=window and a quorum of 100, so that a sender waits (LLM_EAGAIN) for a slow receiver, and with memory
 * for one peer: history_bytes=4M, history_packets=4096, window_packets=2048, flow_window_packets=1024,
 * reorder_bytes=2M, topics_max=64, receivers_max=1, sessions_max=1.
 */
LLM_API void llm_connection_options_init(struct llm_options *options);

/* A request of the other side of a connection: llm_connection_request(). */
struct llm_request {
    uint64_t id;      /* argument of llm_connection_reply() */
    const void *data; /* valid until the handler returns */
    size_t size;      /* in bytes */
};

/*
 * Handlers of a connection. They run under the same rules as those of receivers (struct
 * llm_receiver_handlers).
 */
struct llm_connection_handlers {
    size_t size; /* sizeof(struct llm_connection_handlers) */
    void *arg;   /* passed to each handler */
    /* NULL: messages are dropped */
    void (*message)(void *arg, struct llm_connection *connection, const struct llm_message *message);
    /*
     * LLM_EVENT_CONNECTED, DISCONNECTED, TOPIC_NEW, HEARTBEAT_LOST and RESUMED, and the events of the
     * connection's transmitter. NULL: events are logged.
     */
    void (*event)(void *arg, struct llm_connection *connection, const struct llm_event *event);
    /*
     * A request of the other side. llm_connection_reply() answers it, at once or later. NULL: requests are
     * never answered.
     */
    void (*request)(void *arg, struct llm_connection *connection, const struct llm_request *asked);
};

/* Sets the size and makes every handler NULL. */
LLM_API void llm_connection_handlers_init(struct llm_connection_handlers *handlers);

/* Largest payload of a connection request, in bytes. */
#define LLM_CONNECT_PAYLOAD_MAX 512

/*
 * Requests a connection from the listener on the channel, and repeats the request for connect_timeout_ns;
 * LLM_EVENT_CONNECTED or LLM_EVENT_DISCONNECTED follows. payload: up to LLM_CONNECT_PAYLOAD_MAX bytes, for
 * the listening application; NULL: none. options: NULL for llm_connection_options_init(); handlers is copied.
 * Allocates; may block while the transport opens. *connection belongs to the context and is closed with
 * llm_connection_close(), also after it was refused or lost. Errors as llm_transmitter_open(), and
 * LLM_EMSGSIZE: the payload is too long.
 */
LLM_API int llm_connection_open(struct llm_context *context, const char *channel,
                                const struct llm_options *options,
                                const struct llm_connection_handlers *handlers, const struct iovec *payload,
                                struct llm_connection **connection);

/*
 * Ends the connection and frees it. Blocks, polling the context, until the other side has all messages, is
 * gone, or linger_ns has passed; messages that arrive meanwhile are delivered, events are not. Returns at
 * once if the connection was never established, or is lost. Returns 0, or 1 if the other side is not known to
 * have everything. *connection becomes NULL; NULL in it is allowed. Inside a handler LLM_ESTATE, unless
 * LLM_EVENT_DISCONNECTED was delivered: then it is allowed.
 */
LLM_API int llm_connection_close(struct llm_connection **connection);

/*
 * Returns the transmitter of this side, for llm_topic_open() and sends; NULL before LLM_EVENT_CONNECTED. It
 * belongs to the connection: llm_transmitter_close() on it is LLM_ESTATE. Sends are LLM_ESTATE after
 * LLM_EVENT_DISCONNECTED.
 */
LLM_API struct llm_transmitter *llm_connection_transmitter(const struct llm_connection *connection);

/* Returns the identity of the connection: the same on both sides, random, never used again. */
LLM_API uint64_t llm_connection_id(const struct llm_connection *connection);

/* Requests of one side of a connection that may wait for their replies at a time. */
#define LLM_REQUESTS_MAX 1024

/*
 * Called once for each request, as a handler. LLM_REASON_NONE: this is the reply, valid until the handler
 * returns. UNANSWERED: no reply came in time. Others: the connection is over, for that reason; CLOSED also if
 * this side closed it.
 */
typedef void llm_reply_fn(void *arg, enum llm_reason reason, const void *data, size_t size);

/*
 * Sends a request of size bytes to the other side; reply is called with the answer that comes within
 * timeout_ns (UINT64_MAX: as long as the connection lasts). Requests and replies are in order with the
 * messages of all topics, on the topics "llm.requests" and "llm.replies" of the connection. Allowed in
 * handlers. LLM_EAGAIN: LLM_REQUESTS_MAX requests wait, or as llm_send(); LLM_EMSGSIZE: longer than 8 bytes
 * less than the longest message; LLM_ESTATE: not connected, or over; LLM_EINVAL: no reply function, or no
 * time.
 */
LLM_API int llm_connection_request(struct llm_connection *connection, const void *data, size_t size,
                                   uint64_t timeout_ns, llm_reply_fn *reply, void *arg);

/*
 * Replies to the request with this id. A reply that comes too late is ignored by the other side. Allowed in
 * handlers. LLM_EAGAIN, LLM_EMSGSIZE, LLM_ESTATE as llm_connection_request().
 */
LLM_API int llm_connection_reply(struct llm_connection *connection, uint64_t id, const void *data,
                                 size_t size);

/* A peer that requests a connection. */
struct llm_caller {
    uint64_t id; /* identity of the connection */
    /* The payload given to llm_connection_open(); valid until the handler returns. */
    const void *payload;
    size_t payload_size;
    uint32_t message_bytes_max; /* longest message that the peer accepts; longer ones are LLM_EMSGSIZE */
};

/* Handler of a listener. */
struct llm_listener_handlers {
    size_t size; /* sizeof(struct llm_listener_handlers) */
    void *arg;   /* passed to the handler */
    /*
     * A peer requests a connection. Return LLM_OK to accept, with *handlers filled in by the handler; 1 to
     * 65535 to refuse, with this code; LLM_EAGAIN if llm_listener_accept() or llm_listener_refuse() follows
     * within connect_timeout_ns. An accepted connection belongs to the application from its
     * LLM_EVENT_CONNECTED on, which follows once the peer was heard; a connection whose peer is not heard is
     * dropped without an event.
     */
    int (*connect)(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                   struct llm_connection_handlers *handlers);
};

/* Sets the size and makes the handler NULL. */
LLM_API void llm_listener_handlers_init(struct llm_listener_handlers *handlers);

/*
 * Listens on a channel for connection requests. options, as for llm_connection_open(), also apply to the
 * connections of the listener. handlers is copied; its connect must not be NULL. Errors as
 * llm_receiver_open().
 */
LLM_API int llm_listener_open(struct llm_context *context, const char *channel,
                              const struct llm_options *options, const struct llm_listener_handlers *handlers,
                              struct llm_listener **listener);

/*
 * Answer a caller for which the handler returned LLM_EAGAIN. handlers is copied. Accepting allocates.
 * LLM_ESTATE inside a handler. LLM_ENOTFOUND: no such caller waits, or no longer; LLM_EINVAL: a code that is
 * not 1 to 65535; others as llm_connection_open(): the caller is refused then.
 */
LLM_API int llm_listener_accept(struct llm_listener *listener, uint64_t id,
                                const struct llm_connection_handlers *handlers);
LLM_API int llm_listener_refuse(struct llm_listener *listener, uint64_t id, int code);

/*
 * Closes the listener. Its connections stay open. *listener becomes NULL; NULL in it is allowed. LLM_ESTATE
 * inside a handler.
 */
LLM_API int llm_listener_close(struct llm_listener **listener);

#ifdef __cplusplus
}
#endif

#endif
