/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that listeners and connections reach, and give back; what is said to them when a connection is no more. */
#include "connection/connection.h"
#include "api/lifecycle.h"

#include <stdlib.h>

/* What is not possible now is tried again after this. */
#define LINKS_RETRY ((lli_ns)1000000)

int lli_links_reach(struct lli_endpoint *endpoint, const struct lli_wire_address *wire, lli_handle *handle)
{
    const int error = lli_reach_peer(endpoint, wire, handle);

    /* Places are given back: one that there is not may be there soon. */
    return error == LLM_ELIMIT ? LLM_EAGAIN : error;
}

bool lli_links_post(struct lli_endpoint *endpoint, const uint8_t *bytes, size_t size, lli_handle to)
{
    uint8_t *buffer = lli_endpoint_scratch(endpoint);
    const struct lli_packet packet = {.data = buffer, .size = (uint32_t)size};

    if (buffer == NULL)
        return false;
    memcpy(buffer, bytes, size);
    lli_endpoint_post_control(endpoint, &packet, to);
    return true;
}

static bool links_is(const struct lli_wire_address *a, const struct lli_wire_address *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

bool lli_links_need(const struct lli_endpoint *endpoint, const struct lli_wire_address *wire)
{
    for (const struct llm_connection *c = endpoint->context->connections; c != NULL; c = c->next)
        if (c->endpoint == endpoint && links_is(&c->peer, wire))
            return true;
    for (uint32_t i = 0; i < LLI_FAREWELLS && endpoint->context->farewells != NULL; i++) {
        const struct lli_farewell *farewell = &endpoint->context->farewells->places[i];

        if (farewell->close.id != 0 && farewell->via == endpoint && links_is(&farewell->to, wire))
            return true;
    }
    for (const struct llm_listener *l = endpoint->context->listeners; l != NULL; l = l->next)
        if (l->endpoint == endpoint && lli_door_needs(&l->door, wire))
            return true;
    return false;
}

void lli_links_forget(struct lli_endpoint *endpoint, const struct lli_wire_address *wire)
{
    if (wire->size == 0 || lli_links_need(endpoint, wire))
        return;
    lli_endpoint_flush(endpoint);
    lli_reach_forget(endpoint, wire);
}

/* --------------------------------------------------------------------------------------------- last words */

/* The endpoint stays for as long. */
static void links_keep(struct lli_endpoint *endpoint, struct lli_farewell *farewell)
{
    farewell->via = endpoint;
    endpoint->users++;
    lli_links_due(endpoint->context, farewell->at);
}

void lli_links_leave(const struct llm_connection *connection, const struct lli_wire_close *close)
{
    struct lli_endpoint *endpoint = connection->endpoint;
    const struct llm_transmitter *transmitter = connection->transmitter;
    const lli_ns now = lli_clock_ns();
    const lli_ns until = connection->lingers_until != 0 ? connection->lingers_until : now + connection->linger;
    struct lli_farewell *farewell;
    uint8_t bytes[LLI_WIRE_CONTROL_MAX];

    (void)lli_links_post(endpoint, bytes, lli_wire_put_close(bytes, close), transmitter->group);
    /* Nobody is there to hear it, unless the network is whole again just now; or somebody may be who never asked. */
    if (connection->reason == LLM_REASON_TIMEOUT || connection->hushed)
        return;
    farewell = lli_farewells_place(endpoint->context->farewells);
    if (farewell == NULL) {
        endpoint->counters.closes_unanswered++;
        return;
    }
    lli_farewell_begin(farewell, close, &connection->peer, transmitter->tx.rtt, until, now);
    links_keep(endpoint, farewell);
}

void lli_links_tell(struct lli_endpoint *endpoint, const struct lli_wire_close *close, const struct lli_wire_address *to,
                    lli_ns now)
{
    struct lli_farewells *farewells = endpoint->context->farewells;
    struct lli_farewell *farewell;

    /* Half of the places are for what nobody else can have said. */
    if (farewells == NULL || farewells->count >= LLI_FAREWELLS / 2 || to->size == 0)
        return;
    farewell = lli_farewells_place(farewells);
    lli_farewell_once(farewell, close, to, now);
    links_keep(endpoint, farewell);
}

bool lli_links_heard(const struct lli_endpoint *endpoint, const struct lli_wire_close *close)
{
    return endpoint->context->farewells != NULL && lli_farewells_heard(endpoint->context->farewells, close->id);
}

static void links_end(struct llm_context *context, struct lli_farewell *farewell)
{
    struct lli_endpoint *endpoint = farewell->via;
    const struct lli_wire_address to = farewell->to;

    endpoint->counters.closes_unanswered += lli_farewell_wants_answer(&farewell->close) && !farewell->answered;
    lli_farewells_free(context->farewells, farewell);
    lli_links_forget(endpoint, &to);
    lli_endpoint_flush(endpoint);
    lli_endpoint_close(endpoint);
}

/* False: it could not be said yet. */
static bool links_say(struct lli_farewell *farewell, lli_ns now)
{
    struct lli_endpoint *endpoint = farewell->via;
    uint8_t bytes[LLI_WIRE_CONTROL_MAX];
    lli_handle to;
    const int error = lli_links_reach(endpoint, &farewell->to, &to);

    if (error == LLM_OK && lli_links_post(endpoint, bytes, lli_wire_put_close(bytes, &farewell->close), to)) {
        endpoint->counters.closes_repeated += lli_farewell_wants_answer(&farewell->close);
        lli_farewell_said(farewell, now);
        return true;
    }
    if (error != LLM_EINVAL && now < farewell->until)
        return false;
    endpoint->counters.packets_unreachable++;
    farewell->words = 0;
    return true;
}

lli_ns lli_links_say(struct llm_context *context, lli_ns now)
{
    struct lli_farewells *farewells = context->farewells;
    lli_ns at = LLI_NEVER;

    for (uint32_t i = 0; farewells != NULL && i < LLI_FAREWELLS && farewells->count > 0; i++) {
        struct lli_farewell *farewell = &farewells->places[i];

        if (farewell->close.id == 0)
            continue;
        if (farewell->words > 0 && now >= farewell->at && !links_say(farewell, now))
            farewell->at = now + LINKS_RETRY;
        if (farewell->words == 0)
            links_end(context, farewell);
        else
            at = lli_min(at, farewell->at);
    }
    return at;
}

/* Until when somebody waits for an answer; 0: nobody does. */
static lli_ns links_waited_until(const struct lli_farewells *farewells)
{
    lli_ns until = 0;

    for (uint32_t i = 0; i < LLI_FAREWELLS; i++)
        if (farewells->places[i].close.id != 0 && lli_farewell_wants_answer(&farewells->places[i].close))
            until = lli_max(until, farewells->places[i].until);
    return until;
}

void lli_links_part(struct llm_context *context)
{
    struct lli_farewells *farewells = context->farewells;

    if (farewells == NULL)
        return;
    /* Answers that are owed go with the first of these. */
    do
        (void)lli_context_poll(context);
    while (!context->orphaned && lli_clock_ns() < links_waited_until(farewells));
    for (uint32_t i = 0; i < LLI_FAREWELLS; i++)
        if (farewells->places[i].close.id != 0)
            links_end(context, &farewells->places[i]);
    free(farewells);
    context->farewells = NULL;
}
