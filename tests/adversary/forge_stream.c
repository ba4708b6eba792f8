/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of a transmitter to the group: data, heartbeats and whole sessions. */
#include "adversary.h"

enum { BODY_SIZE = 64, WINDOW = 16384 };

/* ------------------------------------------------------------------------------------------------- data */

/* Data packet of a session with this number; its body is one forged message of BODY_SIZE - 1 bytes. */
static void forge_data(struct adversary_packet *packet, uint32_t tag, lli_seq seq, uint32_t number)
{
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .size = LLI_WIRE_DATA_HEADER + BODY_SIZE,
                                           .tag = tag,
                                           .seq = (uint32_t)seq,
                                           .number = number};

    packet->to = ADVERSARY_TO_GROUP;
    packet->size = header.size;
    lli_wire_put_header(packet->bytes, &header);
    lli_store_u16(packet->bytes + LLI_WIRE_HEADER, 0);
    packet->bytes[LLI_WIRE_DATA_HEADER] = BODY_SIZE - 1;
    memset(packet->bytes + LLI_WIRE_DATA_HEADER + 1, 'x', BODY_SIZE - 1);
}

static void forge_genuine(const struct adversary *adversary, struct adversary_packet *packet, uint32_t ahead)
{
    forge_data(packet, (uint32_t)adversary->heartbeat.session, adversary->seq + ahead,
               adversary->number + ahead);
}

void adversary_data_far(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_genuine(adversary, packet, 16000);
}

void adversary_data_edge(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_genuine(adversary, packet, WINDOW - 1);
}

void adversary_data_beyond(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_genuine(adversary, packet, WINDOW + (uint32_t)adversary_below(adversary, UINT32_MAX / 2 - WINDOW));
}

void adversary_data_next(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_genuine(adversary, packet, 0);
}

void adversary_data_ahead(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_genuine(adversary, packet, 200 + (uint32_t)adversary_below(adversary, 100));
}

/* The next packet, whose message numbers skip messages that were never sent. */
void adversary_data_contradicts(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_data(packet, (uint32_t)adversary->heartbeat.session, adversary->seq, adversary->number + 1000);
}

void adversary_data_unrepaired(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_genuine(adversary, packet, 60);
    packet->bytes[1] = 60;
}

void adversary_data_replayed(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct adversary_heard *heard = &adversary->heard[adversary_below(adversary, ADVERSARY_HEARD)];

    packet->to = ADVERSARY_TO_GROUP;
    packet->size = heard->size;
    memcpy(packet->bytes, heard->bytes, heard->size);
}

void adversary_data_frames(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_genuine(adversary, packet, 0);
    for (int i = 0; i < BODY_SIZE; i++)
        packet->bytes[LLI_WIRE_DATA_HEADER + i] = (uint8_t)lli_random(&adversary->random);
}

/* No frame starts in it: it claims to be the middle of a message. */
void adversary_data_middle(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_genuine(adversary, packet, 0);
    lli_store_u16(packet->bytes + LLI_WIRE_HEADER, BODY_SIZE);
}

/* The beginning of a message of 16 MiB. */
void adversary_data_long(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_genuine(adversary, packet, 0);
    lli_frame_put_message(packet->bytes + LLI_WIRE_DATA_HEADER, LLI_WIRE_FRAME_MAX, 1 << 24);
}

/* Each packet is of another forged session. */
void adversary_data_tags(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_data(packet, (uint32_t)lli_random(&adversary->random), lli_random(&adversary->random), 0);
}

/* One forged session that sends data, and no heartbeat. */
void adversary_data_tag(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_data(packet, ~(uint32_t)adversary->heartbeat.session, adversary->made, (uint32_t)adversary->made);
}

/* ------------------------------------------------------------------------------------------- heartbeats */

static void forge_heartbeat(struct adversary_packet *packet, const struct lli_wire_heartbeat *heartbeat)
{
    packet->to = ADVERSARY_TO_GROUP;
    packet->size = lli_wire_put_heartbeat(packet->bytes, heartbeat);
}

void adversary_heartbeat_replayed(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_heartbeat(packet, &adversary->heartbeat);
}

/* The genuine heartbeats of the next second look overtaken by this one, whose contents are old. */
void adversary_heartbeat_second(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.sent_at += 999000000;
    heartbeat.lead = heartbeat.start;
    heartbeat.trail = heartbeat.start;
    heartbeat.messages = 0;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_clock(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.sent_at = UINT64_MAX - adversary_below(adversary, 2) * (UINT64_MAX / 2);
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_past(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.sent_at = adversary_below(adversary, 2) * (heartbeat.sent_at - 2000000000);
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_lead(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.lead += 1 << 20;
    heartbeat.messages += 1 << 20;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_lead_max(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.lead = INT64_MAX;
    heartbeat.messages = INT64_MAX;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_lead_low(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.lead = heartbeat.trail = heartbeat.start;
    heartbeat.messages = 0;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_receivers(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.receivers = UINT32_MAX;
    forge_heartbeat(packet, &heartbeat);
}

static void forge_end(struct adversary *adversary, struct adversary_packet *packet, lli_seq lead)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.messages += lead - heartbeat.lead;
    heartbeat.lead = lead;
    heartbeat.trail = lli_min(heartbeat.trail, lead);
    heartbeat.flags |= LLI_WIRE_HEARTBEAT_END;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_end_below(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_end(adversary, packet, adversary->seq - 20);
}

void adversary_heartbeat_end(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_end(adversary, packet, adversary->seq);
}

void adversary_heartbeat_end_ahead(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_end(adversary, packet, adversary->seq + 1000);
}

void adversary_heartbeat_interval(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.interval_us = adversary_below(adversary, 2) ? UINT32_MAX : 0;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_rtt(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.rtt_ns = UINT32_MAX;
    heartbeat.receivers = 1000000;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_topics(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.topics = UINT32_MAX;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_report(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.report_packets = 1;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_held(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.flags |= LLI_WIRE_HEARTBEAT_HELD;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_assured(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.flags |= LLI_WIRE_HEARTBEAT_ASSURED | LLI_WIRE_HEARTBEAT_HELD;
    heartbeat.unacknowledged = heartbeat.trail;
    heartbeat.unacknowledged_messages = 0;
    heartbeat.assured = LLI_WIRE_ASSURED_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_ASSURED_MAX; i++)
        heartbeat.assured_topics[i] = (uint32_t)lli_random(&adversary->random);
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_address(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.address = adversary->announced;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_foreign(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.session ^= (1 + adversary_below(adversary, UINT32_MAX)) << 32;
    heartbeat.flags |= LLI_WIRE_HEARTBEAT_END;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_trail(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.lead += 4096;
    heartbeat.messages += 4096;
    heartbeat.trail = heartbeat.lead;
    forge_heartbeat(packet, &heartbeat);
}

void adversary_heartbeat_messages(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = adversary_heartbeat(adversary);

    heartbeat.messages = adversary_below(adversary, 2) ? INT64_MAX : 0;
    forge_heartbeat(packet, &heartbeat);
}

/* --------------------------------------------------------------------------------------------- sessions */

/* Heartbeat of a forged session. */
static struct lli_wire_heartbeat forge_session(struct adversary *adversary)
{
    return (struct lli_wire_heartbeat){
        .session = lli_random(&adversary->random),
        .start = UINT64_C(1) << 32,
        .trail = UINT64_C(1) << 32,
        .lead = (UINT64_C(1) << 32) + 65535,
        .messages = 65535,
        .sent_at = 1,
        .interval_us = 10000,
        .address = adversary->announced,
    };
}

void adversary_session_old(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct lli_wire_heartbeat heartbeat = forge_session(adversary);

    forge_heartbeat(packet, &heartbeat);
}

/* Followed from its start: all its packets are missing. */
void adversary_session_young(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = forge_session(adversary);

    heartbeat.flags = LLI_WIRE_HEARTBEAT_YOUNG;
    heartbeat.topics = 100;
    forge_heartbeat(packet, &heartbeat);
}

/* Occupies an entry at every receiver, and causes no requests. */
void adversary_session_many(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = forge_session(adversary);

    heartbeat.lead = heartbeat.trail;
    heartbeat.messages = 0;
    forge_heartbeat(packet, &heartbeat);
}

/* One forged session that sends heartbeats and some data. */
void adversary_session_followed(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_heartbeat heartbeat = forge_session(adversary);
    const uint64_t step = adversary->made % 100;

    heartbeat.session = ~adversary->heartbeat.session;
    heartbeat.lead = heartbeat.start + step;
    heartbeat.messages = step;
    heartbeat.sent_at += adversary->made;
    heartbeat.flags = LLI_WIRE_HEARTBEAT_YOUNG;
    if (step % 3 == 0)
        forge_data(packet, (uint32_t)heartbeat.session, heartbeat.lead, (uint32_t)heartbeat.messages);
    else
        forge_heartbeat(packet, &heartbeat);
}
