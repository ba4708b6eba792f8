/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of peers of listeners and connections, and close retries. */
#include "connection/connection.h"
#include "api/lifecycle.h"

#include <stdlib.h>

/* Retry interval of failed sends and resolutions. */
#define CONN_RETRY ((lli_ns)1000000)

int lli_conn_reach(struct lli_endpoint *endpoint, const struct lli_wire_address *wire, lli_handle *handle)
{
    const int error = lli_reach_peer(endpoint, wire, handle);

    /* Entries are freed: one may be available soon. */
    return error == LLM_ELIMIT ? LLM_EAGAIN : error;
}

bool lli_conn_post(struct lli_endpoint *endpoint, const uint8_t *bytes, size_t size, lli_handle to)
{
    uint8_t *buffer = lli_endpoint_scratch(endpoint);
    const struct lli_packet packet = {.data = buffer, .size = (uint32_t)size};

    if (buffer == NULL)
        return false;
    memcpy(buffer, bytes, size);
    lli_endpoint_post_control(endpoint, &packet, to);
    return true;
}

static bool conn_is(const struct lli_wire_address *a, const struct lli_wire_address *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

bool lli_conn_need(const struct lli_endpoint *endpoint, const struct lli_wire_address *wire)
{
    for (const struct llm_connection *c = endpoint->context->connections; c != NULL; c = c->next)
        if (c->endpoint == endpoint && conn_is(&c->peer, wire))
            return true;
    for (uint32_t i = 0; i < LLI_CLOSE_RETRIES && endpoint->context->close_retries != NULL; i++) {
        const struct lli_close_retry *close_retry = &endpoint->context->close_retries->places[i];

        if (close_retry->close.id != 0 && close_retry->via == endpoint && conn_is(&close_retry->to, wire))
            return true;
    }
    for (const struct llm_listener *l = endpoint->context->listeners; l != NULL; l = l->next)
        if (l->endpoint == endpoint && lli_acceptor_needs(&l->acceptor, wire))
            return true;
    return false;
}

void lli_conn_forget(struct lli_endpoint *endpoint, const struct lli_wire_address *wire)
{
    if (wire->size == 0 || lli_conn_need(endpoint, wire))
        return;
    lli_endpoint_flush(endpoint);
    lli_reach_forget(endpoint, wire);
}

/* ------------------------------------------------------------------------------------------ close retries */

/* Schedules a close retry; the endpoint stays open for it. */
static void conn_retry(struct lli_endpoint *endpoint, struct lli_close_retry *close_retry)
{
    close_retry->via = endpoint;
    endpoint->users++;
    lli_conn_due(endpoint->context, close_retry->at);
}

void lli_conn_leave(const struct llm_connection *connection, const struct lli_wire_close *close)
{
    struct lli_endpoint *endpoint = connection->endpoint;
    const struct llm_transmitter *transmitter = connection->transmitter;
    const lli_ns now = lli_clock_ns();
    const lli_ns until =
        connection->lingers_until != 0 ? connection->lingers_until : now + connection->linger;
    struct lli_close_retry *close_retry;
    uint8_t bytes[LLI_WIRE_CONTROL_MAX];

    (void)lli_conn_post(endpoint, bytes, lli_wire_put_close(bytes, close), transmitter->group);
    /*
     * No retry: the peer fell silent, or was accepted and never heard, so its address may be of a host that
     * never connected.
     */
    if (connection->reason == LLM_REASON_TIMEOUT || connection->unheard)
        return;
    close_retry = lli_close_retries_place(endpoint->context->close_retries);
    if (close_retry == NULL) {
        endpoint->counters.closes_unanswered++;
        return;
    }
    lli_close_retry_begin(close_retry, close, &connection->peer, transmitter->tx.group.rtt, until, now);
    conn_retry(endpoint, close_retry);
}

void lli_conn_close_once(struct lli_endpoint *endpoint, const struct lli_wire_close *close,
                         const struct lli_wire_address *to, lli_ns now)
{
    struct lli_close_retries *close_retries = endpoint->context->close_retries;
    struct lli_close_retry *close_retry;

    /*
     * Reserve half of the entries for CLOSEs of own connections, which no packet from elsewhere can provoke.
     */
    if (close_retries == NULL || close_retries->count >= LLI_CLOSE_RETRIES / 2 || to->size == 0)
        return;
    close_retry = lli_close_retries_place(close_retries);
    lli_close_retry_once(close_retry, close, to, now);
    conn_retry(endpoint, close_retry);
}

bool lli_conn_heard(const struct lli_endpoint *endpoint, const struct lli_wire_close *close)
{
    return endpoint->context->close_retries != NULL &&
           lli_close_retries_heard(endpoint->context->close_retries, close->id);
}

static void conn_end(struct llm_context *context, struct lli_close_retry *close_retry)
{
    struct lli_endpoint *endpoint = close_retry->via;
    const struct lli_wire_address to = close_retry->to;

    endpoint->counters.closes_unanswered +=
        lli_close_retry_wants_answer(&close_retry->close) && !close_retry->answered;
    lli_close_retries_free(context->close_retries, close_retry);
    lli_conn_forget(endpoint, &to);
    lli_endpoint_flush(endpoint);
    lli_endpoint_close(endpoint);
}

/* Sends a close retry. False: it could not be sent yet. */
static bool conn_say(struct lli_close_retry *close_retry, lli_ns now)
{
    struct lli_endpoint *endpoint = close_retry->via;
    uint8_t bytes[LLI_WIRE_CONTROL_MAX];
    lli_handle to;
    const int error = lli_conn_reach(endpoint, &close_retry->to, &to);

    if (error == LLM_OK &&
        lli_conn_post(endpoint, bytes, lli_wire_put_close(bytes, &close_retry->close), to)) {
        endpoint->counters.closes_repeated += lli_close_retry_wants_answer(&close_retry->close);
        lli_close_retry_said(close_retry, now);
        return true;
    }
    if (error != LLM_EINVAL && now < close_retry->until)
        return false;
    endpoint->counters.packets_unreachable++;
    close_retry->words = 0;
    return true;
}

lli_ns lli_conn_say(struct llm_context *context, lli_ns now)
{
    struct lli_close_retries *close_retries = context->close_retries;
    lli_ns at = LLI_NEVER;

    for (uint32_t i = 0; close_retries != NULL && i < LLI_CLOSE_RETRIES && close_retries->count > 0; i++) {
        struct lli_close_retry *close_retry = &close_retries->places[i];

        if (close_retry->close.id == 0)
            continue;
        if (close_retry->words > 0 && now >= close_retry->at && !conn_say(close_retry, now))
            close_retry->at = now + CONN_RETRY;
        if (close_retry->words == 0)
            conn_end(context, close_retry);
        else
            at = lli_min(at, close_retry->at);
    }
    return at;
}

/* Returns the time until which an answer is awaited; 0: none is. */
static lli_ns conn_waited_until(const struct lli_close_retries *close_retries)
{
    lli_ns until = 0;

    for (uint32_t i = 0; i < LLI_CLOSE_RETRIES; i++)
        if (close_retries->places[i].close.id != 0 &&
            lli_close_retry_wants_answer(&close_retries->places[i].close))
            until = lli_max(until, close_retries->places[i].until);
    return until;
}

void lli_conn_part(struct llm_context *context)
{
    struct lli_close_retries *close_retries = context->close_retries;

    if (close_retries == NULL)
        return;
    /* The first of these polls also sends pending answers. */
    do
        (void)lli_context_poll(context);
    while (!context->orphaned && lli_clock_ns() < conn_waited_until(close_retries));
    for (uint32_t i = 0; i < LLI_CLOSE_RETRIES; i++)
        if (close_retries->places[i].close.id != 0)
            conn_end(context, &close_retries->places[i]);
    free(close_retries);
    context->close_retries = NULL;
}
