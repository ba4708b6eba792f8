/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepted connections, until the other side has confirmed the ACCEPT (docs/protocol.md section 13.3). Until
 * then their sessions are not linked into the endpoint: they take packets, but send nothing and cost nothing.
 */
#include "connection/connection.h"

void lli_connection_link(struct llm_connection *connection)
{
    struct lli_endpoint *endpoint = connection->endpoint;

    connection->transmitter->next = endpoint->transmitters;
    endpoint->transmitters = connection->transmitter;
    connection->receiver->next = endpoint->receivers;
    endpoint->receivers = connection->receiver;
    lli_endpoint_due(endpoint, 0);
}

/*
 * Confirms a connection by a report with the session's identity. Only the ACCEPT had that identity, so the
 * report comes from the address that the ACCEPT went to. Heartbeats prove nothing: their identity was in the
 * CONNECT.
 */
static void confirm_heard(struct llm_connection *connection, lli_ns now)
{
    connection->unheard = false;
    connection->endpoint->unheard--;
    lli_rx_refresh(&connection->receiver->sessions[0], now);
    lli_connection_link(connection);
    /* A heartbeat of the other side may have arrived before the confirmation. */
    if (connection->receiver->counters.sessions_new == 0)
        return;
    connection->context->in_handler = true;
    lli_connection_connected(connection);
    connection->context->in_handler = false;
    connection->context->delivered++;
}

static bool confirm_input(struct llm_connection *connection, const struct lli_rx_packet *packet, lli_ns now)
{
    struct lli_tx *tx = &connection->transmitter->tx;

    if ((uint32_t)tx->config.session != packet->header.tag)
        return lli_sessions_input(connection->receiver, false, packet, now);
    lli_tx_input(tx, &packet->header, packet->body, packet->body_size, now);
    if (tx->members.count > 0)
        confirm_heard(connection, now);
    return true;
}

bool lli_connection_confirm(struct lli_endpoint *endpoint, const struct lli_rx_packet *packet, lli_ns now)
{
    struct llm_connection *connection = endpoint->context->connections;

    while (connection != NULL &&
           !(connection->unheard && connection->endpoint == endpoint &&
             connection->state == LLI_CONNECTION_OPENING && confirm_input(connection, packet, now)))
        connection = connection->next;
    return connection != NULL;
}
