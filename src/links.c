/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that listeners and connections reach, and give back. */
#include "connection.h"

static struct lli_address links_address(const struct lli_wire_address *wire)
{
    struct lli_address address = {.size = wire->size};

    memcpy(address.bytes, wire->bytes, sizeof address.bytes);
    return address;
}

int lli_links_reach(const struct lli_endpoint *endpoint, const struct lli_wire_address *wire, lli_handle *handle)
{
    const struct lli_address address = links_address(wire);
    const int error = endpoint->transport->peer(endpoint->instance, &address, handle);

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

static bool links_need(const struct lli_endpoint *endpoint, const struct lli_wire_address *wire)
{
    for (const struct llm_connection *c = endpoint->context->connections; c != NULL; c = c->next)
        if (c->endpoint == endpoint && (links_is(&c->peer, wire) || links_is(&c->spurned, wire)))
            return true;
    for (const struct llm_listener *l = endpoint->context->listeners; l != NULL; l = l->next)
        if (l->endpoint == endpoint && lli_door_needs(&l->door, wire))
            return true;
    return false;
}

void lli_links_forget(struct lli_endpoint *endpoint, const struct lli_wire_address *wire)
{
    const struct lli_address address = links_address(wire);

    if (endpoint->transport->forget == NULL || wire->size == 0 || links_need(endpoint, wire))
        return;
    lli_endpoint_flush(endpoint);
    endpoint->transport->forget(endpoint->instance, &address);
}
