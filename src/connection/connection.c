/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: how they start, on top of sessions, and how they end. */
#include "connection/connection.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/options.h"
#include "api/lifecycle.h"

enum {
    CONNECTION_HISTORY_BYTES = 4 << 20,
    CONNECTION_REORDER_BYTES = 2 << 20,
    CONNECTION_HISTORY_PACKETS = 4096,
    CONNECTION_WINDOW_PACKETS = 2048,
    CONNECTION_FLOW_WINDOW_PACKETS = 1024,
    CONNECTION_TOPICS = 64,
    CONNECTION_ADDRESSES = 64,
};

/* --------------------------------------------------------------------------------------------- options */

void llm_connection_options_init(struct llm_options *options)
{
    if (options == NULL)
        return;
    llm_options_init(options);
    options->flow = LLM_FLOW_WINDOW;
    options->flow_quorum_percent = 100;
    options->flow_window_packets = CONNECTION_FLOW_WINDOW_PACKETS;
    options->history_bytes = CONNECTION_HISTORY_BYTES;
    options->history_packets = CONNECTION_HISTORY_PACKETS;
    options->window_packets = CONNECTION_WINDOW_PACKETS;
    options->stores = 0;
    options->reorder_bytes = CONNECTION_REORDER_BYTES;
    options->topics_max = CONNECTION_TOPICS;
    options->receivers_max = options->sessions_max = 1;
}

void llm_connection_handlers_init(struct llm_connection_handlers *handlers)
{
    if (handlers == NULL)
        return;
    *handlers = (struct llm_connection_handlers){.size = sizeof *handlers};
}

int lli_connection_channel(struct llm_context *context, const char *text, const struct llm_options *options,
                           struct lli_channel *channel)
{
    struct llm_options defaults;
    int error;

    llm_connection_options_init(&defaults);
    error = lli_context_channel(context, text, options == NULL ? &defaults : options, channel);
    if (error != LLM_OK)
        return error;
    if (channel->options.destinations[0] != '\0')
        return lli_fail(&context->log, LLM_EOPTION,
                        "option destinations: a connection has one other side, leave it out");
    if (lli_channel_has_lines(channel))
        return lli_fail(&context->log, LLM_EINVAL,
                        "channel \"%s\": a connection has one line: leave out the second", text);
    if (lli_options_as_it_arrives(&channel->options))
        return lli_fail(&context->log, LLM_EOPTION,
                        "option order: a connection delivers in sequence, leave it out");
    /* The transport needs room for one address per connection, and for those answered meanwhile. */
    channel->options.receivers_max = channel->options.connections_max + CONNECTION_ADDRESSES;
    /* Delivery begins with the first packet; flow control waits for the other side as long as it is heard. */
    channel->options.join = LLM_JOIN_LIVE;
    channel->options.slow = LLM_SLOW_OFF;
    if (channel->options.flow == LLM_FLOW_OPEN)
        channel->options.flow = LLM_FLOW_WINDOW;
    channel->options.acknowledge = LLM_ACKNOWLEDGE_LIBRARY;
    return lli_connections_begin(context);
}

/* --------------------------------------------------------------------------------------------- events */

void lli_connection_over(struct llm_connection *connection, enum llm_reason reason, uint16_t code)
{
    if (connection->state >= LLI_CONNECTION_OVER)
        return;
    connection->state = LLI_CONNECTION_OVER;
    connection->reason = reason;
    connection->code = code;
    connection->transmitter->claimed = connection->transmitter;
    lli_conn_due(connection->context, 0);
}

void lli_connection_report(struct llm_connection *connection, const struct llm_event *event)
{
    char text[160];

    if (connection->handlers.event != NULL) {
        connection->handlers.event(connection->handlers.arg, connection, event);
        return;
    }
    (void)llm_event_text(event, text, sizeof text);
    lli_log(&connection->context->log,
            event->reason == LLM_REASON_NONE || event->reason == LLM_REASON_CLOSED ? LLM_LEVEL_INFO
                                                                                   : LLM_LEVEL_WARNING,
            "connection %016llx: %s", (unsigned long long)connection->id, text);
}

void lli_connection_connected(struct llm_connection *connection)
{
    const struct llm_event event = {.kind = LLM_EVENT_CONNECTED, .session = connection->session};

    if (connection->state != LLI_CONNECTION_OPENING || connection->unheard)
        return;
    connection->state = LLI_CONNECTION_OPEN;
    lli_connection_report(connection, &event);
}

/* Handles events of the receiver's session. */
static void connection_event(void *arg, const struct llm_event *event)
{
    struct llm_connection *connection = arg;

    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        lli_connection_connected(connection);
        break;
    case LLM_EVENT_SESSION_END:
        lli_connection_over(connection, event->reason, 0);
        break;
    case LLM_EVENT_GAP:
        if (event->reason == LLM_REASON_UNRELIABLE)
            lli_connection_report(connection, event);
        else
            lli_connection_over(connection, LLM_REASON_BROKEN, 0);
        break;
    default:
        if (connection->state == LLI_CONNECTION_OPEN && !lli_requests_topic(connection, event))
            lli_connection_report(connection, event);
        break;
    }
}

static void connection_message(void *arg, const struct llm_message *message)
{
    struct llm_connection *connection = arg;

    if (connection->state != LLI_CONNECTION_OPEN)
        return;
    if (lli_requests_has(connection, message))
        lli_requests_message(connection, message);
    else if (connection->handlers.message != NULL)
        connection->handlers.message(connection->handlers.arg, connection, message);
}

/* ------------------------------------------------------------------------------------------------ make */

/*
 * Passes on an event of the connection's transmitter; an address is reported by the receiver's session, if it
 * has one.
 */
static void connection_transmitter_event(void *arg, const struct llm_event *event)
{
    struct llm_connection *connection = arg;
    const bool twice =
        event->kind == LLM_EVENT_UNREACHABLE && lli_rx_is_followed(&connection->receiver->sessions[0]);

    if (connection->state == LLI_CONNECTION_OPEN && !twice)
        lli_connection_report(connection, event);
}

static int connection_transmitter(struct llm_connection *connection, const struct llm_options *options,
                                  const char *text)
{
    struct llm_transmitter *transmitter = calloc(1, sizeof *transmitter);

    if (transmitter == NULL)
        return lli_fail(&connection->context->log, LLM_ENOMEM, "no memory for a transmitter");
    transmitter->context = connection->context;
    transmitter->endpoint = connection->endpoint;
    transmitter->connection = connection;
    transmitter->posted_max = LLI_ENDPOINT_POST;
    transmitter->group = LLI_GROUP_NONE;
    llm_transmitter_handlers_init(&transmitter->handlers);
    transmitter->handlers.arg = connection;
    if (connection->handlers.event != NULL)
        transmitter->handlers.event = connection_transmitter_event;
    (void)snprintf(transmitter->object, sizeof transmitter->object, "transmitter %.230s", text);
    connection->transmitter = transmitter;
    return lli_transmitter_place(transmitter, options);
}

static int connection_receiver(struct llm_connection *connection, const struct llm_options *options,
                               const char *text)
{
    struct llm_receiver *receiver = calloc(1, sizeof *receiver);
    int error;

    if (receiver == NULL)
        return lli_fail(&connection->context->log, LLM_ENOMEM, "no memory for a receiver");
    receiver->context = connection->context;
    receiver->endpoint = connection->endpoint;
    receiver->group = LLI_GROUP_NONE;
    llm_receiver_handlers_init(&receiver->handlers);
    receiver->handlers.arg = connection;
    receiver->handlers.message = connection_message;
    receiver->handlers.event = connection_event;
    (void)snprintf(receiver->object, sizeof receiver->object, "receiver %.230s", text);
    connection->receiver = receiver;
    error = lli_receiver_place(receiver, options);
    /* By then the other side has answered from its address. */
    receiver->config.confirms = false;
    return error == LLM_OK ? lli_latency_receiver(receiver) : error;
}

void lli_connection_release(struct llm_connection *connection)
{
    if (connection->transmitter != NULL)
        lli_transmitter_free(connection->transmitter);
    if (connection->receiver != NULL)
        lli_receiver_free(connection->receiver);
    free(connection->requests);
    free(connection);
}

/* Frees all or part of what lli_connection_make() allocated. */
static void connection_free(struct llm_connection *connection)
{
    struct lli_endpoint *endpoint = connection->endpoint;
    const bool joined = connection->joined;
    const lli_handle group = connection->group;

    lli_connection_release(connection);
    if (joined)
        endpoint->transport->leave(endpoint->instance, group, LLI_JOIN_SEND);
    lli_endpoint_close(endpoint);
}

int lli_connection_make(struct llm_context *context, const struct lli_channel *channel, const char *text,
                        const struct llm_connection_handlers *handlers, struct llm_connection **result)
{
    struct llm_connection *connection = calloc(1, sizeof *connection);
    struct llm_options options = channel->options;
    int error;

    if (connection == NULL)
        return lli_fail(&context->log, LLM_ENOMEM, "no memory for a connection");
    /* One receiver and one session on each side. */
    options.receivers_max = options.sessions_max = 1;
    connection->context = context;
    connection->linger = channel->options.linger_ns;
    connection->requests_at = LLI_NEVER;
    connection->request_topic = connection->replied_topic = UINT32_MAX;
    llm_connection_handlers_init(&connection->handlers);
    error = lli_options_import(&connection->handlers, sizeof connection->handlers, handlers,
                               "struct llm_connection_handlers", &context->log);
    if (error == LLM_OK)
        error = lli_endpoint_open(context, channel, &connection->endpoint);
    if (error != LLM_OK) {
        free(connection);
        return error;
    }
    if (!(connection->endpoint->caps.flags & LLI_CAP_UNICAST))
        error = lli_fail(&context->log, LLM_ESCHEME,
                         "channel \"%s\": the transport has no unicast, which connections need", text);
    connection->requests = calloc(LLM_REQUESTS_MAX, sizeof *connection->requests);
    if (error == LLM_OK && connection->requests == NULL)
        error = lli_fail(&context->log, LLM_ENOMEM, "no memory for requests");
    if (error == LLM_OK)
        error = connection_transmitter(connection, &options, text);
    if (error == LLM_OK)
        error = connection_receiver(connection, &options, text);
    if (error != LLM_OK) {
        connection_free(connection);
        return error;
    }
    connection->next = context->connections;
    context->connections = connection;
    *result = connection;
    return LLM_OK;
}

/* ------------------------------------------------------------------------------------------ run and stop */

int lli_connection_run(struct llm_connection *connection, const struct lli_wire_accept *other, lli_ns now)
{
    struct lli_endpoint *endpoint = connection->endpoint;
    struct llm_transmitter *transmitter = connection->transmitter;
    struct lli_rx *rx = &connection->receiver->sessions[0];
    int error;

    connection->peer = other->address;
    error = lli_conn_reach(endpoint, &connection->peer, &transmitter->group);
    if (error != LLM_OK)
        return error;
    connection->session = other->session;
    lli_transmitter_limit(transmitter, other->message_bytes_max);
    lli_rx_start(rx, (uint32_t)other->session, now);
    lli_rx_identify(rx, other->session);
    connection->receiver->sessions_used = 1;
    connection->running = true;
    connection->state = LLI_CONNECTION_OPENING;
    connection->unheard = connection->accepted;
    endpoint->unheard += connection->unheard;
    if (connection->unheard)
        return LLM_OK;
    lli_rx_expect(rx, other->session, other->start, &other->address, now);
    lli_connection_link(connection);
    return LLM_OK;
}

static void connection_unlink(struct llm_connection *connection)
{
    struct llm_transmitter **transmitter = &connection->endpoint->transmitters;
    struct llm_receiver **receiver = &connection->endpoint->receivers;

    while (*transmitter != connection->transmitter)
        transmitter = &(*transmitter)->next;
    *transmitter = (*transmitter)->next;
    while (*receiver != connection->receiver)
        receiver = &(*receiver)->next;
    *receiver = (*receiver)->next;
}

static bool connection_is_delivered(const struct llm_connection *connection)
{
    return lli_close_retry_is_delivered(&connection->transmitter->tx, connection->dismissed);
}

/* Sends CLOSE to the other side. */
static void connection_leave(const struct llm_connection *connection, enum lli_wire_closing reason)
{
    const struct lli_rx *rx = &connection->receiver->sessions[0];
    const struct lli_wire_close close = {
        .id = connection->id,
        .reason = (uint8_t)reason,
        /* The position of a broken connection is unknown. */
        .next = reason == LLI_WIRE_BROKEN || rx->state == LLI_RX_JOINING ? 0 : rx->gap.next,
        .address = connection->endpoint->address,
    };

    lli_conn_leave(connection, &close);
}

void lli_connection_stop(struct llm_connection *connection, unsigned closing)
{
    const struct lli_wire_address peer = connection->peer;

    if (connection->running) {
        connection->undelivered =
            connection->transmitter->tx.pack.number > 0 && !connection_is_delivered(connection);
        if (closing != 0 && !connection->dismissed)
            connection_leave(connection, (enum lli_wire_closing)closing);
        lli_endpoint_flush(connection->endpoint);
        if (connection->unheard)
            connection->endpoint->unheard--;
        else
            connection_unlink(connection);
        connection->running = false;
    }
    connection->peer.size = 0;
    lli_conn_forget(connection->endpoint, &peer);
}

/* Returns the reason of the CLOSE of a connection that is not broken. */
static enum lli_wire_closing connection_closing(const struct llm_connection *connection)
{
    return connection_is_delivered(connection) ? LLI_WIRE_LEFT : LLI_WIRE_ABANDONED;
}

void lli_connection_destroy(struct llm_connection *connection)
{
    struct llm_connection **link = &connection->context->connections;

    lli_connection_stop(connection, connection_closing(connection));
    while (*link != connection)
        link = &(*link)->next;
    *link = connection->next;
    if (connection->listener != NULL)
        lli_acceptor_leave(&connection->listener->acceptor, connection->id, lli_clock_ns());
    connection_free(connection);
}

/* --------------------------------------------------------------------------------------------- connect */

static int connection_send_connect(struct llm_connection *connection, const struct lli_channel *channel,
                                   const struct iovec *payload)
{
    /* Any number of connections may be requested under one name. */
    const struct lli_group group = {.host = channel->host,
                                    .port = channel->port,
                                    .options = &channel->options,
                                    .values = &channel->values,
                                    .shared = true};
    const struct lli_endpoint *endpoint = connection->endpoint;
    struct lli_wire_connect connect = {
        .id = connection->id,
        .session = connection->transmitter->tx.config.session,
        .message_bytes_max = connection->receiver->config.message_bytes_max,
        .address = endpoint->address,
    };
    const lli_ns now = lli_clock_ns();
    int error = endpoint->transport->join(endpoint->instance, &group, LLI_JOIN_SEND, &connection->group);

    if (error != LLM_OK)
        return error;
    connection->joined = true;
    if (payload != NULL && payload->iov_len > 0) {
        connect.payload_size = (uint16_t)payload->iov_len;
        memcpy(connect.payload, payload->iov_base, payload->iov_len);
    }
    connection->until = now + channel->options.connect_timeout_ns;
    lli_connector_init(&connection->connector, &connect, channel->options.connect_timeout_ns, now);
    lli_conn_due(connection->context, 0);
    return LLM_OK;
}

int lli_connection_connect(struct llm_context *context, const char *text, const struct llm_options *options,
                           const struct iovec *payload, const struct llm_connection_handlers *handlers,
                           struct llm_connection **result)
{
    struct llm_connection *connection;
    struct lli_channel channel;
    int error = lli_connection_channel(context, text, options, &channel);

    if (error == LLM_OK && payload != NULL && payload->iov_len > LLM_CONNECT_PAYLOAD_MAX)
        error = lli_fail(&context->log, LLM_EMSGSIZE,
                         "channel \"%s\": a payload of %zu bytes, at most %d can be shown", text,
                         payload->iov_len, LLM_CONNECT_PAYLOAD_MAX);
    if (error == LLM_OK)
        error = lli_connection_make(context, &channel, text, handlers, &connection);
    if (error != LLM_OK)
        return error;
    do
        connection->id = lli_entropy();
    while (connection->id == 0);
    error = connection_send_connect(connection, &channel, payload);
    if (error != LLM_OK) {
        lli_connection_destroy(connection);
        return error;
    }
    *result = connection;
    return LLM_OK;
}

int llm_connection_open(struct llm_context *context, const char *channel, const struct llm_options *options,
                        const struct llm_connection_handlers *handlers, const struct iovec *payload,
                        struct llm_connection **connection)
{
    int error;

    if (context == NULL)
        return LLM_EINVAL;
    if (channel == NULL || handlers == NULL || connection == NULL)
        return lli_refuse(context, LLM_EINVAL, "llm_connection_open: %s is NULL: it has to be given",
                          channel == NULL    ? "channel"
                          : handlers == NULL ? "handlers"
                                             : "connection");
    if (payload != NULL && payload->iov_base == NULL && payload->iov_len > 0)
        return lli_refuse(
            context, LLM_EINVAL,
            "llm_connection_open: the payload has %zu bytes at NULL: give its bytes, or NULL for payload",
            payload->iov_len);
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    if (!context->in_handler)
        error = lli_connection_connect(context, channel, options, payload, handlers, connection);
    else
        error = LLI_REFUSE_IN_HANDLER(context, "llm_connection_open");
    /* Sends the request now. */
    if (error == LLM_OK)
        (void)lli_context_poll(context);
    lli_context_leave(context);
    return error;
}

struct llm_transmitter *llm_connection_transmitter(const struct llm_connection *connection)
{
    struct llm_transmitter *transmitter = NULL;

    if (connection == NULL)
        return NULL;
    if (!lli_context_enter(connection->context))
        return NULL;
    /* A connection may be over without ever having been open. */
    if (connection->state >= LLI_CONNECTION_OPEN && connection->session != 0)
        transmitter = connection->transmitter;
    lli_context_leave(connection->context);
    return transmitter;
}

uint64_t llm_connection_id(const struct llm_connection *connection)
{
    return connection == NULL ? 0 : connection->id;
}

/* ----------------------------------------------------------------------------------------------- close */

/*
 * Sends the rest and the end, and waits until the other side has everything, is gone, or linger_ns has
 * passed.
 */
static void connection_finish(struct llm_connection *connection)
{
    struct llm_context *context = connection->context;

    connection->transmitter->claimed = connection->transmitter;
    /* Use the poll's clock, so that the end is sent in this poll: with linger_ns 0 there is no other. */
    lli_tx_end(&connection->transmitter->tx, lli_context_time(context, lli_ticks()));
    lli_endpoint_due(connection->endpoint, 0);
    (void)lli_context_poll(context);
    connection->lingers_until = lli_clock_ns() + connection->linger;
    while (connection->running && !connection_is_delivered(connection) &&
           lli_clock_ns() < connection->lingers_until) {
        lli_context_leave(context);
        if (!lli_context_enter(context))
            break;
        (void)lli_context_poll(context);
    }
}

static int connection_close(struct llm_connection *connection)
{
    int undelivered;

    if (connection->closing ||
        (connection->context->in_handler && connection->state != LLI_CONNECTION_REPORTED))
        return LLI_REFUSE_IN_HANDLER(connection->context, "llm_connection_close");
    if (connection->context->in_handler) {
        connection->released = true;
        lli_conn_due(connection->context, 0);
        return LLM_OK;
    }
    connection->closing = true;
    if (connection->running && connection->state >= LLI_CONNECTION_OPEN && !connection->unheard)
        connection_finish(connection);
    lli_connection_stop(connection, connection_closing(connection));
    undelivered = connection->undelivered;
    (void)lli_requests_expire(connection, true, LLM_REASON_CLOSED, 0);
    lli_connection_destroy(connection);
    return undelivered;
}

int llm_connection_close(struct llm_connection **handle)
{
    struct llm_context *context;
    int result;

    if (handle == NULL || *handle == NULL)
        return LLM_OK;
    context = (*handle)->context;
    if (!lli_context_enter(context)) {
        *handle = NULL;
        return LLM_OK;
    }
    result = connection_close(*handle);
    if (result >= 0)
        *handle = NULL;
    lli_context_leave(context);
    return result;
}
