/* SPDX-License-Identifier: Apache-2.0 */
/* Learns identities, numbers and addresses from packets heard. */
#include "adversary.h"

uint64_t adversary_below(struct adversary *adversary, uint64_t limit)
{
    return lli_random_below(&adversary->random, limit);
}

static void hear_member(struct adversary *adversary, const struct lli_wire_status *status)
{
    uint32_t i = 0;

    while (i < adversary->members_count && adversary->members[i].id != status->receiver)
        i++;
    if (i == ADVERSARY_MEMBERS || status->session != adversary->heartbeat.session)
        return;
    adversary->members_count += i == adversary->members_count;
    adversary->members[i] = (struct adversary_member){status->receiver, status->address, *status};
}

static void hear_heartbeat(struct adversary *adversary, const struct lli_wire_heartbeat *heartbeat)
{
    if (adversary->heartbeat.session != 0 && adversary->heartbeat.session != heartbeat->session)
        return;
    adversary->heartbeat = *heartbeat;
    adversary->heartbeat_at = adversary->now;
    adversary->seq = lli_max(adversary->seq, heartbeat->lead);
}

static void hear_data(struct adversary *adversary, const struct lli_wire_header *header, const uint8_t *body,
                      size_t size)
{
    const lli_seq seq = lli_seq_extend(adversary->seq, header->seq);

    if (adversary->heartbeat.session == 0 || header->tag != (uint32_t)adversary->heartbeat.session ||
        seq < adversary->seq)
        return;
    adversary->seq = seq + 1;
    /* The driver sends each message in a packet of its own; announcements have none. */
    adversary->number = header->number + (size > 0 && body[0] < LLI_FRAME_TOPIC_SHORT);
}

static void hear_session(struct adversary *adversary, const struct lli_wire_header *header,
                         const uint8_t *body, size_t size)
{
    union {
        struct lli_wire_heartbeat heartbeat;
        struct lli_wire_status status;
        struct lli_wire_join join;
        struct lli_wire_nak nak;
    } packet;

    switch (header->type) {
    case LLI_WIRE_DATA:
        hear_data(adversary, header, body, size);
        break;
    case LLI_WIRE_HEARTBEAT:
        if (lli_wire_get_heartbeat(body, size, header, &packet.heartbeat))
            hear_heartbeat(adversary, &packet.heartbeat);
        break;
    case LLI_WIRE_STATUS:
        if (lli_wire_get_status(body, size, header->tag, &packet.status))
            hear_member(adversary, &packet.status);
        break;
    case LLI_WIRE_NAK:
        if (lli_wire_get_nak(body, size, header->tag, &packet.nak))
            adversary->nak = packet.nak;
        break;
    case LLI_WIRE_JOIN:
        if (!lli_wire_get_join(body, size, header->tag, &packet.join))
            break;
        if (packet.join.kind == LLI_WIRE_JOIN_ASK)
            adversary->ask = packet.join;
        else if (packet.join.kind == LLI_WIRE_JOIN_GRANT)
            adversary->grant = packet.join;
        else if (packet.join.kind == LLI_WIRE_JOIN_FETCH)
            adversary->fetch = packet.join;
        break;
    default:
        break;
    }
}

void adversary_hear(struct adversary *adversary, const uint8_t *packet, size_t size)
{
    struct adversary_heard *heard = &adversary->heard[adversary->heard_count % ADVERSARY_HEARD];
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;
    enum lli_wire_fault fault;

    if (size > ADVERSARY_PACKET_MAX)
        return;
    /* Records only some data packets, the most frequent type. */
    if ((packet[0] & 15) != LLI_WIRE_DATA || adversary->heard_count % 4 != 3 ||
        adversary->heard_count < ADVERSARY_HEARD) {
        heard->size = size;
        memcpy(heard->bytes, packet, size);
        adversary->heard_count++;
    }
    fault = lli_wire_get_header(packet, size, &header, &body, &body_size);
    if (fault == LLI_WIRE_OK)
        hear_session(adversary, &header, body, body_size);
    else if (fault == LLI_WIRE_TYPE_BAD &&
             lli_wire_get_connection(packet, size, &header, &body, &body_size) == LLI_WIRE_OK &&
             header.type == LLI_WIRE_CONNECT)
        (void)lli_wire_get_connect(body, body_size, header.tag, &adversary->connect);
}

bool adversary_knows(const struct adversary *adversary)
{
    return adversary->heartbeat.session != 0 && adversary->members_count > 0 &&
           adversary->heard_count > ADVERSARY_HEARD;
}

bool adversary_is_end(const struct adversary_packet *packet)
{
    struct lli_wire_header header;
    struct lli_wire_heartbeat heartbeat;
    const uint8_t *body;
    size_t size;

    return lli_wire_get_header(packet->bytes, packet->size, &header, &body, &size) == LLI_WIRE_OK &&
           header.type == LLI_WIRE_HEARTBEAT && lli_wire_get_heartbeat(body, size, &header, &heartbeat) &&
           heartbeat.flags & LLI_WIRE_HEARTBEAT_END;
}

struct lli_wire_heartbeat adversary_heartbeat(const struct adversary *adversary)
{
    struct lli_wire_heartbeat heartbeat = adversary->heartbeat;

    heartbeat.lead = adversary->seq;
    heartbeat.messages = lli_seq_extend(heartbeat.messages, adversary->number);
    heartbeat.sent_at += adversary->now - adversary->heartbeat_at;
    if (heartbeat.flags & LLI_WIRE_HEARTBEAT_ASSURED)
        heartbeat.unacknowledged = lli_min(heartbeat.unacknowledged, heartbeat.lead);
    return heartbeat;
}

uint64_t adversary_receiver(const struct adversary *adversary, uint32_t index)
{
    return adversary->members_count == 0 ? 1 : adversary->members[index % adversary->members_count].id;
}
