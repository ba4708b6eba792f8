/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a context: what is due on each, and the packets of their handshake. */
#include "connection/connection.h"

#include <stdlib.h>

/* Retry interval of failed sends and resolutions. */
#define CONNECTION_RETRY ((lli_ns)1000000)
/* Interval of checks for a peer that closed and may still receive. */
#define CONNECTION_LOOK ((lli_ns)100000000)

/* --------------------------------------------------------------------------------------------- service */

static void connection_disconnected(struct llm_connection *connection)
{
    const struct llm_event event = {
        .kind = LLM_EVENT_DISCONNECTED,
        .reason = connection->reason,
        .session = connection->session,
        .first = connection->code,
    };

    connection->state = LLI_CONNECTION_REPORTED;
    (void)lli_requests_expire(connection, true, connection->reason, 0);
    if (connection->closing)
        return;
    connection->context->in_handler = true;
    lli_connection_report(connection, &event);
    connection->context->in_handler = false;
    connection->context->delivered++;
}

/* Gives up: the other side accepted, but its address is invalid or was not resolved in time. */
static void connection_unreachable(struct llm_connection *connection)
{
    connection->endpoint->counters.packets_unreachable++;
    lli_log(&connection->context->log, LLM_LEVEL_WARNING,
            "connection %016llx: accepted, but the address that the answer names "
            "could not be resolved in connect_timeout_ns; see whether there is a route to it",
            (unsigned long long)connection->id);
    lli_connection_over(connection, LLM_REASON_UNANSWERED, 0);
}

static lli_ns connection_service_connecting(struct llm_connection *connection, lli_ns now)
{
    struct lli_connector *connector = &connection->connector;
    uint8_t bytes[LLI_WIRE_CONTROL_MAX];
    const size_t size = lli_connector_control(connector, now, bytes);
    int error;

    if (size > 0)
        (void)lli_conn_post(connection->endpoint, bytes, size, connection->group);
    switch (connector->state) {
    case LLI_CONNECTOR_CONNECTING:
        break;
    case LLI_CONNECTOR_REFUSED:
        lli_connection_over(connection,
                            connector->refuse.reason == LLI_WIRE_FULL ? LLM_REASON_FULL : LLM_REASON_REFUSED,
                            connector->refuse.code);
        break;
    case LLI_CONNECTOR_UNANSWERED:
        lli_connection_over(connection, LLM_REASON_UNANSWERED, 0);
        break;
    case LLI_CONNECTOR_ACCEPTED:
        error = lli_connection_run(connection, &connector->accept, now);
        if (error == LLM_EAGAIN && now < connection->until)
            return now + CONNECTION_RETRY;
        if (error != LLM_OK)
            connection_unreachable(connection);
        return connection->until;
    }
    return lli_connector_deadline(connector);
}

/*
 * Drops an accepted connection that the other side did not confirm: it was not heard again, is gone, or
 * connected to another listener. No CLOSE is sent: it would end that other connection.
 */
static void connection_unconfirmed(struct llm_connection *connection)
{
    connection->dismissed = true;
    if (connection->listener != NULL)
        connection->listener->acceptor.counters.connections_unconfirmed++;
    lli_connection_destroy(connection);
}

/*
 * Returns true if a peer that closed may still receive: until it leaves and reports its position, or is lost.
 * Missing reports do not mean that it is lost: it may be blocked while it waits for the DONE.
 */
static bool connection_is_taken(const struct llm_connection *connection, lli_ns now)
{
    const struct llm_receiver *receiver = connection->receiver;

    return !connection->dismissed && (connection->transmitter->tx.members.count > 0 ||
                                      now < receiver->sessions[0].heard_at + receiver->config.timeout);
}

/* Serves a connection that is over, before and after the event. */
static lli_ns connection_service_over(struct llm_connection *connection, lli_ns now)
{
    if (connection->running && connection->reason == LLM_REASON_CLOSED) {
        if (connection_is_taken(connection, now))
            return now + CONNECTION_LOOK;
        lli_connection_stop(connection, 0);
    }
    lli_connection_stop(connection,
                        connection->reason == LLM_REASON_BROKEN ? LLI_WIRE_BROKEN : LLI_WIRE_ABANDONED);
    return LLI_NEVER;
}

/* Ends a connection whose accepting side was not heard after its ACCEPT, within the time allowed. */
static lli_ns connection_service_unheard(struct llm_connection *connection, lli_ns now)
{
    if (!lli_rx_is_unheard(&connection->receiver->sessions[0]))
        return LLI_NEVER;
    if (now >= connection->until)
        lli_connection_over(connection, LLM_REASON_TIMEOUT, 0);
    return connection->until;
}

/* Returns true if an accepted connection was never reported to the application. */
static bool connection_is_untold(const struct llm_connection *connection)
{
    return connection->accepted && (connection->unheard || connection->receiver->counters.sessions_new == 0);
}

/* Serves a connection. Returns when to call it again. The connection may be freed by then. */
static lli_ns connection_service(struct llm_connection *connection, lli_ns now)
{
    lli_ns at = LLI_NEVER;

    if (connection->state == LLI_CONNECTION_CONNECTING)
        at = connection_service_connecting(connection, now);
    if (connection->state == LLI_CONNECTION_OPENING) {
        if (now < connection->until)
            return connection->until;
        lli_connection_over(connection, LLM_REASON_UNANSWERED, 0);
    }
    if (connection->state == LLI_CONNECTION_OPEN)
        at = lli_min(lli_requests_expire(connection, false, LLM_REASON_UNANSWERED, now),
                     connection_service_unheard(connection, now));
    if (connection->state == LLI_CONNECTION_OVER && connection_is_untold(connection)) {
        connection_unconfirmed(connection);
        return LLI_NEVER;
    }
    if (connection->state == LLI_CONNECTION_OVER)
        connection_disconnected(connection);
    if (connection->state == LLI_CONNECTION_REPORTED) {
        at = connection_service_over(connection, now);
        if (connection->released) {
            lli_connection_destroy(connection);
            return LLI_NEVER;
        }
    }
    return at;
}

static void connections_service(struct llm_context *context, lli_ns now)
{
    struct llm_connection *next;

    context->connections_at = LLI_NEVER;
    for (struct llm_listener *listener = context->listeners; listener != NULL; listener = listener->next)
        context->connections_at = lli_min(context->connections_at, lli_listener_service(listener, now));
    for (struct llm_connection *connection = context->connections; connection != NULL; connection = next) {
        next = connection->next;
        context->connections_at = lli_min(context->connections_at, connection_service(connection, now));
    }
    context->connections_at = lli_min(context->connections_at, lli_conn_say(context, now));
    for (struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next)
        lli_endpoint_flush(endpoint);
    if (context->dirty)
        lli_endpoint_send_dirty(context, true);
}

static void connections_close(struct llm_context *context)
{
    /* Listeners first: a peer that connects during the waits below must not start another connection. */
    while (context->listeners != NULL && !context->orphaned)
        lli_listener_destroy(context->listeners);
    while (context->connections != NULL && !context->orphaned) {
        struct llm_connection *connection = context->connections;

        (void)llm_connection_close(&connection);
    }
    lli_conn_part(context);
}

static void connections_release(struct llm_context *context)
{
    while (context->listeners != NULL) {
        struct llm_listener *listener = context->listeners;

        context->listeners = listener->next;
        lli_listener_free(listener);
    }
    while (context->connections != NULL) {
        struct llm_connection *connection = context->connections;

        context->connections = connection->next;
        lli_connection_release(connection);
    }
    free(context->close_retries);
    context->close_retries = NULL;
}

/* ------------------------------------------------------------------------------------------------ input */

static bool conn_connect(struct lli_endpoint *endpoint, lli_handle from,
                         const struct lli_wire_connect *connect, lli_ns now)
{
    bool known = false;

    for (struct llm_listener *listener = endpoint->context->listeners; listener != NULL;
         listener = listener->next)
        if (listener->endpoint == endpoint && listener->group == from) {
            lli_acceptor_input(&listener->acceptor, connect, now);
            known = true;
        }
    return known;
}

static struct llm_connection *conn_find(const struct lli_endpoint *endpoint, uint64_t id, bool accepted)
{
    struct llm_connection *connection = endpoint->context->connections;

    /* Both sides may be of one context. */
    while (connection != NULL &&
           (connection->endpoint != endpoint || connection->id != id || connection->accepted != accepted))
        connection = connection->next;
    return connection;
}

static bool conn_accept(struct lli_endpoint *endpoint, const struct lli_wire_accept *accept, lli_ns now)
{
    const struct lli_wire_close close = {.id = accept->id, .reason = LLI_WIRE_UNKNOWN};
    struct llm_connection *connection = conn_find(endpoint, accept->id, false);

    if (connection == NULL)
        return false;
    /* A peer that does not get this CLOSE gives up by itself, as it hears nothing. */
    if (!lli_connector_input_accept(&connection->connector, accept))
        lli_conn_close_once(endpoint, &close, &accept->address, now);
    return true;
}

static bool conn_refuse(const struct lli_endpoint *endpoint, const struct lli_wire_refuse *refuse)
{
    struct llm_connection *connection = conn_find(endpoint, refuse->id, false);

    if (connection != NULL)
        lli_connector_input_refuse(&connection->connector, refuse);
    return connection != NULL;
}

/* Returns the reason reported for a CLOSE of the other side. */
static enum llm_reason conn_closed(const struct lli_wire_close *close)
{
    if (close->reason == LLI_WIRE_BROKEN)
        return LLM_REASON_BROKEN;
    return close->reason == LLI_WIRE_LEFT ? LLM_REASON_CLOSED : LLM_REASON_ABANDONED;
}

static bool conn_close(struct lli_endpoint *endpoint, const struct lli_wire_close *close, lli_ns now)
{
    const struct lli_wire_close answer = {.id = close->id, .reason = LLI_WIRE_HEARD};
    bool known = false;

    if (close->reason == LLI_WIRE_HEARD)
        return lli_conn_heard(endpoint, close);
    /* Answer even without a connection: the other side only needs to know that it is over. */
    if (lli_close_retry_wants_answer(close))
        lli_conn_close_once(endpoint, &answer, &close->address, now);
    for (int accepted = 0; accepted < 2; accepted++) {
        struct llm_connection *connection = conn_find(endpoint, close->id, accepted != 0);

        if (connection == NULL)
            continue;
        known = true;
        if (!connection->running)
            continue;
        connection->dismissed = true;
        lli_close_retry_left(&connection->transmitter->tx, close->next);
        lli_connection_over(connection, conn_closed(close), 0);
    }
    return known;
}

static enum lli_wire_fault connections_input(struct lli_endpoint *endpoint, const struct lli_in *in,
                                             lli_ns now)
{
    union {
        struct lli_wire_connect connect;
        struct lli_wire_accept accept;
        struct lli_wire_refuse refuse;
        struct lli_wire_close close;
    } packet;
    struct lli_wire_header header;
    const uint8_t *body;
    size_t size;
    const enum lli_wire_fault fault = lli_wire_get_connection(in->data, in->size, &header, &body, &size);
    const bool group = in->from != LLI_HANDLE_UNICAST;
    bool whole = true, known = false;

    if (fault != LLI_WIRE_OK || !lli_endpoint_is_from(endpoint, in, header.type, body, size))
        return fault;
    if (header.type == LLI_WIRE_CONNECT)
        known = (whole = lli_wire_get_connect(body, size, header.tag, &packet.connect)) && group &&
                conn_connect(endpoint, in->from, &packet.connect, now);
    else if (header.type == LLI_WIRE_ACCEPT)
        known = (whole = lli_wire_get_accept(body, size, header.tag, &packet.accept)) && !group &&
                conn_accept(endpoint, &packet.accept, now);
    else if (header.type == LLI_WIRE_REFUSE)
        known = (whole = lli_wire_get_refuse(body, size, header.tag, &packet.refuse)) && !group &&
                conn_refuse(endpoint, &packet.refuse);
    else
        known = (whole = lli_wire_get_close(body, size, header.tag, &packet.close)) && !group &&
                conn_close(endpoint, &packet.close, now);
    if (!whole)
        return LLI_WIRE_MALFORMED;
    if (known)
        lli_conn_due(endpoint->context, 0);
    else
        endpoint->counters.packets_foreign++;
    return LLI_WIRE_OK;
}

/* ------------------------------------------------------------------------------------------------ upcalls */

static void connections_moved(const struct lli_endpoint *endpoint)
{
    for (struct llm_connection *c = endpoint->context->connections; c != NULL; c = c->next)
        if (c->endpoint == endpoint)
            c->connector.connect.address = c->transmitter->tx.config.address = c->receiver->config.address =
                endpoint->address;
}

static void connections_stats(const struct llm_context *context, const struct lli_stats_visitor *visitor)
{
    for (const struct llm_listener *listener = context->listeners; listener != NULL;
         listener = listener->next)
        lli_listener_stats(listener, visitor);
}

static const struct lli_upcalls connections_upcalls = {
    .input = connections_input,
    .confirm = lli_connection_confirm,
    .needs = lli_conn_need,
    .moved = connections_moved,
    .service = connections_service,
    .close = connections_close,
    .release = connections_release,
    .stats = connections_stats,
};

int lli_connections_begin(struct llm_context *context)
{
    context->upcalls = &connections_upcalls;
    if (context->close_retries == NULL)
        context->close_retries = calloc(1, sizeof *context->close_retries);
    return context->close_retries == NULL
               ? lli_fail(&context->log, LLM_ENOMEM, "no memory for the ends of connections")
               : LLM_OK;
}
