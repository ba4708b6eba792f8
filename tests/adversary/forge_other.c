/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of connections, and invalid packets: truncated, noise, with flipped bits, and of other versions. */
#include "adversary.h"

/* ------------------------------------------------------------------------------------------- connections */

static void forge_connect(struct adversary *adversary, struct adversary_packet *packet, uint64_t id,
                          uint16_t payload_size)
{
    const struct lli_wire_connect connect = {.id = id,
                                             .session = lli_random(&adversary->random),
                                             .message_bytes_max = UINT32_MAX,
                                             .payload_size = payload_size,
                                             .address = adversary->announced};

    packet->to = ADVERSARY_TO_GROUP;
    packet->size = lli_wire_put_connect(packet->bytes, &connect);
}

void adversary_connect(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_connect(adversary, packet, lli_random(&adversary->random), 0);
}

/* CONNECT with a payload that the application accepts. */
void adversary_connect_shown(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_connect(adversary, packet, lli_random(&adversary->random), 2);
}

/* CONNECT with few identities, repeated. */
void adversary_connect_crowd(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_connect(adversary, packet, 1 + adversary->made % 100, 0);
}

void adversary_accept(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct lli_wire_accept accept = {.id = adversary->connect.id,
                                           .session = lli_random(&adversary->random),
                                           .address = adversary->announced};

    packet->to = ADVERSARY_TO_RECEIVER;
    packet->size = lli_wire_put_accept(packet->bytes, &accept);
}

void adversary_refuse(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct lli_wire_refuse refuse = {
        .id = adversary->connect.id, .reason = LLI_WIRE_REFUSED, .code = 1};

    packet->to = ADVERSARY_TO_RECEIVER;
    packet->size = lli_wire_put_refuse(packet->bytes, &refuse);
}

static void forge_close(struct adversary *adversary, struct adversary_packet *packet, uint64_t id,
                        enum lli_wire_closing reason)
{
    const struct lli_wire_close close = {
        .id = id, .reason = (uint8_t)reason, .next = adversary->seq, .address = adversary->announced};

    packet->to = adversary->made % 2 ? ADVERSARY_TO_RECEIVER : ADVERSARY_TO_TRANSMITTER;
    packet->size = lli_wire_put_close(packet->bytes, &close);
}

void adversary_close_left(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_close(adversary, packet, adversary->connect.id, LLI_WIRE_LEFT);
}

/* CLOSE of connections that do not exist. */
void adversary_close_unknown(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_close(adversary, packet, lli_random(&adversary->random),
                (enum lli_wire_closing)(1 + adversary_below(adversary, LLI_WIRE_HEARD)));
}

/* ---------------------------------------------------------------------------------------- invalid packets */

/* A heard packet of some type, to a receiver of that type. */
static void other_heard(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct adversary_heard *heard = &adversary->heard[adversary_below(adversary, ADVERSARY_HEARD)];

    packet->to = (enum adversary_to)adversary_below(adversary, 3);
    packet->member = (uint32_t)adversary_below(adversary, ADVERSARY_MEMBERS);
    packet->size = heard->size;
    memcpy(packet->bytes, heard->bytes, heard->size);
}

/* Half of them have the reduced size in their header. */
void adversary_cut(struct adversary *adversary, struct adversary_packet *packet)
{
    other_heard(adversary, packet);
    packet->size = adversary_below(adversary, packet->size);
    if (adversary->made % 2 && packet->size >= LLI_WIRE_HEADER)
        lli_wire_put_size(packet->bytes, packet->size);
}

void adversary_noise(struct adversary *adversary, struct adversary_packet *packet)
{
    other_heard(adversary, packet);
    packet->size = adversary_below(adversary, ADVERSARY_PACKET_MAX + 1);
    for (size_t i = 0; i < packet->size; i++)
        packet->bytes[i] = (uint8_t)lli_random(&adversary->random);
    if (packet->size < LLI_WIRE_HEADER || adversary->made % 4 == 0)
        return;
    packet->bytes[0] = (uint8_t)(0x10 | adversary_below(adversary, 16));
    lli_wire_put_size(packet->bytes, packet->size);
    lli_store_u32(packet->bytes + 4, (uint32_t)adversary->heartbeat.session);
    if (packet->size >= LLI_WIRE_HEADER + 8)
        lli_store_u64(packet->bytes + LLI_WIRE_HEADER, adversary->heartbeat.session);
    /* Data of the session is covered by other kinds. */
    if ((packet->bytes[0] & 15) == LLI_WIRE_DATA)
        packet->bytes[4] ^= 1;
}

/* A control packet with one or a few flipped bits. */
void adversary_flipped(struct adversary *adversary, struct adversary_packet *packet)
{
    do
        other_heard(adversary, packet);
    while ((packet->bytes[0] & 15) == LLI_WIRE_DATA && adversary->made++ % 1000 != 0);
    for (uint64_t i = 0; i <= adversary->made % 3; i++)
        packet->bytes[1 + adversary_below(adversary, packet->size - 1)] ^=
            (uint8_t)(1u << adversary_below(adversary, 8));
    if ((packet->bytes[0] & 15) == LLI_WIRE_DATA || adversary_is_end(packet))
        packet->bytes[4] ^= 1;
}

void adversary_extended(struct adversary *adversary, struct adversary_packet *packet)
{
    static const uint16_t sizes[] = {0, 1, 2, 3, 16, 0x7fff, 0xffff};

    other_heard(adversary, packet);
    packet->bytes[1] |= LLI_WIRE_FLAG_EXTENDED;
    if (packet->size >= LLI_WIRE_HEADER + 2)
        lli_store_u16(packet->bytes + LLI_WIRE_HEADER,
                      sizes[adversary_below(adversary, sizeof sizes / sizeof sizes[0])]);
    if ((packet->bytes[0] & 15) == LLI_WIRE_DATA)
        packet->bytes[4] ^= 1;
}

void adversary_versions(struct adversary *adversary, struct adversary_packet *packet)
{
    other_heard(adversary, packet);
    packet->bytes[0] = (uint8_t)(packet->bytes[0] ^ (1 + adversary_below(adversary, 15)) << 4);
}

/* A control packet in which 4 or 8 bytes of the body are all ones, or none. */
void adversary_bounds(struct adversary *adversary, struct adversary_packet *packet)
{
    size_t at;

    do
        other_heard(adversary, packet);
    while (((packet->bytes[0] & 15) == LLI_WIRE_DATA || packet->size < LLI_WIRE_HEADER + 16) &&
           adversary->made++ % 1000 != 0);
    if ((packet->bytes[0] & 15) == LLI_WIRE_DATA || packet->size < LLI_WIRE_HEADER + 16)
        return;
    at = LLI_WIRE_HEADER + 8 + adversary_below(adversary, (packet->size - LLI_WIRE_HEADER - 8) / 4) * 4;
    memset(packet->bytes + at, adversary->made % 2 ? 0xff : 0,
           lli_min(packet->size - at, 4 + adversary_below(adversary, 2) * 4));
    if (adversary_is_end(packet))
        packet->bytes[4] ^= 1;
}
