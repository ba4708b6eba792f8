/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses in packets, by packet type. */
#include "core/wire/wire.h"

/* Offsets in the body of the address's size and of the address; 0: the type has no address. */
struct wire_place {
    uint8_t size_at;
    uint8_t at;
};

static const struct wire_place wire_places[16] = {
    [LLI_WIRE_HEARTBEAT] = {69, 70}, [LLI_WIRE_NAK] = {17, 20},     [LLI_WIRE_STATUS] = {61, 62},  [LLI_WIRE_QUERY] = {20, 21},
    [LLI_WIRE_JOIN] = {19, 66},      [LLI_WIRE_CONNECT] = {23, 24}, [LLI_WIRE_ACCEPT] = {28, 29}, [LLI_WIRE_CLOSE] = {9, 18},
};

bool lli_wire_get_announced(uint8_t type, const uint8_t *body, size_t size, struct lli_wire_address *address)
{
    const struct wire_place place = wire_places[type & 15];

    *address = (struct lli_wire_address){.size = 0};
    if (place.at == 0 || size < place.at)
        return false;
    address->size = body[place.size_at];
    if (address->size == 0 || address->size > LLI_WIRE_ADDRESS_MAX || size - place.at < address->size)
        return false;
    memcpy(address->bytes, body + place.at, address->size);
    return true;
}
