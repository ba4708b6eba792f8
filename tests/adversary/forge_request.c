/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of receivers to a transmitter: NAKs, reports, queries and requests for the past. */
#include "adversary.h"

/*
 * Returns an identity with a fixed hash, as all identities from here: they collide in a table that folds
 * identities without a secret.
 */
static uint64_t forge_colliding(const struct adversary *adversary)
{
    const uint64_t half = 1 + adversary->made % UINT32_MAX;

    return half << 32 | half;
}

/* -------------------------------------------------------------------------------------------------- NAKs */

static void forge_nak(struct adversary_packet *packet, const struct lli_wire_nak *nak)
{
    packet->to = ADVERSARY_TO_TRANSMITTER;
    packet->size = lli_wire_put_nak(packet->bytes, nak);
}

/* NAK in a genuine receiver's name, with that receiver's address. */
static struct lli_wire_nak nak_genuine(const struct adversary *adversary)
{
    struct lli_wire_nak nak = adversary->nak;

    if (nak.receiver != 0 && nak.session == adversary->heartbeat.session)
        return nak;
    return (struct lli_wire_nak){.session = adversary->heartbeat.session,
                                 .receiver = adversary_receiver(adversary, 0),
                                 .address = adversary->members[0].address};
}

/* NAK in a receiver's name, without ranges. */
static struct lli_wire_nak nak_of(const struct adversary *adversary, uint64_t receiver)
{
    return (struct lli_wire_nak){
        .session = adversary->heartbeat.session, .receiver = receiver, .address = adversary->announced};
}

/* NAK for the whole history: ranges back from the latest packet, each adjacent to the one before. */
static void nak_everything(const struct adversary *adversary, struct lli_wire_nak *nak)
{
    nak->count = LLI_WIRE_RANGES_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_RANGES_MAX; i++)
        nak->ranges[i] = (struct lli_wire_range){(uint32_t)adversary->seq - 1024 * (i + 1), 1024};
}

void adversary_nak_all(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_nak nak = nak_of(adversary, adversary_receiver(adversary, 0));

    nak_everything(adversary, &nak);
    forge_nak(packet, &nak);
}

/* The same from receivers that do not exist, another one each time. */
void adversary_nak_invented(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_nak nak = nak_of(adversary, lli_random(&adversary->random) | 1);

    nak_everything(adversary, &nak);
    forge_nak(packet, &nak);
}

/* The same for one packet, as short as a NAK can be. */
void adversary_nak_short(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_nak nak = nak_of(adversary, lli_random(&adversary->random) | 1);

    nak.count = 1;
    nak.ranges[0] = (struct lli_wire_range){(uint32_t)adversary->seq - 1, 1};
    forge_nak(packet, &nak);
}

/* The same; repairs go to the genuine receiver. */
void adversary_nak_genuine(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_nak nak = nak_genuine(adversary);

    nak_everything(adversary, &nak);
    forge_nak(packet, &nak);
}

void adversary_nak_random(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_nak nak = nak_genuine(adversary);

    nak.count = LLI_WIRE_RANGES_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_RANGES_MAX; i++)
        nak.ranges[i] = (struct lli_wire_range){(uint32_t)(adversary->seq - adversary_below(adversary, 4000)),
                                                (uint32_t)adversary_below(adversary, 200)};
    forge_nak(packet, &nak);
}

/* All ranges are the same. */
void adversary_nak_overlap(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_nak nak = nak_genuine(adversary);

    nak.count = LLI_WIRE_RANGES_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_RANGES_MAX; i++)
        nak.ranges[i] = (struct lli_wire_range){(uint32_t)adversary->seq - 2000, i % 2 ? UINT32_MAX : 2000};
    forge_nak(packet, &nak);
}

void adversary_nak_beyond(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_nak nak = nak_genuine(adversary);

    nak.count = LLI_WIRE_RANGES_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_RANGES_MAX; i++)
        nak.ranges[i] = (struct lli_wire_range){
            (uint32_t)(adversary->seq + adversary_below(adversary, INT32_MAX)), UINT32_MAX};
    forge_nak(packet, &nak);
}

void adversary_nak_gone(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_nak nak = nak_of(adversary, adversary_receiver(adversary, 0));

    nak.count = LLI_WIRE_RANGES_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_RANGES_MAX; i++)
        nak.ranges[i] = (struct lli_wire_range){(uint32_t)adversary->heartbeat.start - 1000 * (i + 1), 500};
    forge_nak(packet, &nak);
}

void adversary_nak_nobody(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_nak nak = nak_of(adversary, 0);

    nak_everything(adversary, &nak);
    forge_nak(packet, &nak);
}

/* ----------------------------------------------------------------------------------------------- reports */

static void forge_status(struct adversary_packet *packet, const struct lli_wire_status *status)
{
    packet->to = ADVERSARY_TO_TRANSMITTER;
    packet->size = lli_wire_put_status(packet->bytes, status);
}

/* Report of a receiver that has everything. */
static struct lli_wire_status status_of(const struct adversary *adversary, uint64_t receiver)
{
    return (struct lli_wire_status){
        .session = adversary->heartbeat.session,
        .receiver = receiver,
        .next = adversary->seq,
        .highest = adversary->seq,
        .echo = adversary->heartbeat.sent_at,
        .echo_age_ns = (uint32_t)lli_min(adversary->now - adversary->heartbeat_at, UINT32_MAX),
        .window_free = 16384,
        .address = adversary->announced,
    };
}

static struct lli_wire_status status_genuine(const struct adversary *adversary, uint32_t index)
{
    struct lli_wire_status status = adversary->members[index % lli_max(adversary->members_count, 1)].status;

    status.next = status.highest = adversary->seq;
    return status;
}

void adversary_status_invented(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_status status = status_of(adversary, lli_random(&adversary->random) | 1);

    status.next -= lli_min(status.next, 2000);
    forge_status(packet, &status);
}

void adversary_status_leaving(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_status status = status_genuine(adversary, (uint32_t)adversary->made);

    status.flags = LLI_WIRE_STATUS_LEAVING;
    forge_status(packet, &status);
}

/* next is beyond the packets sent, or far below them. */
void adversary_status_next(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_status status = status_genuine(adversary, (uint32_t)adversary->made);

    status.next = adversary->made % 2 ? INT64_MAX : adversary->heartbeat.start;
    status.highest = INT64_MAX;
    forge_status(packet, &status);
}

void adversary_status_window(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_status status = status_genuine(adversary, (uint32_t)adversary->made);

    status.window_free = adversary->made % 3 ? 0 : UINT32_MAX;
    status.highest = status.next;
    status.naks = UINT32_MAX;
    status.lost_packets = UINT32_MAX;
    forge_status(packet, &status);
}

void adversary_status_done(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_status status = status_genuine(adversary, (uint32_t)adversary->made);

    status.flags = LLI_WIRE_STATUS_DONE;
    forge_status(packet, &status);
}

/* Round trips of a second, and negative ones. */
void adversary_status_echo(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_status status = status_genuine(adversary, (uint32_t)adversary->made);

    status.echo = adversary->made % 2 ? UINT64_MAX : status.echo - 900000000;
    status.echo_age_ns = adversary->made % 3 ? 0 : UINT32_MAX;
    status.flags = adversary->made % 5 ? 0 : LLI_WIRE_STATUS_BEHIND;
    forge_status(packet, &status);
}

void adversary_status_acknowledges(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_status status = status_genuine(adversary, (uint32_t)adversary->made);

    status.flags = LLI_WIRE_STATUS_ACKNOWLEDGES;
    status.acknowledged_next = adversary->made % 2
                                   ? INT64_MAX
                                   : lli_seq_extend(adversary->heartbeat.messages, adversary->number) + 1;
    status.accepts = UINT16_MAX;
    forge_status(packet, &status);
}

void adversary_status_crowd(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct lli_wire_status status = status_of(adversary, forge_colliding(adversary));

    forge_status(packet, &status);
}

/* Two receivers that do not exist and lose nothing: a genuine receiver with losses is then in a minority. */
void adversary_status_healthy(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct lli_wire_status status = status_of(adversary, 1 + adversary->made % 2);

    forge_status(packet, &status);
}

/* ---------------------------------------------------------------------------------------------- requests */

void adversary_query(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct lli_wire_query query = {.session = adversary->heartbeat.session,
                                         .receiver = adversary->made + 1,
                                         .first = adversary->made % 4 == 3 ? UINT32_MAX : 0,
                                         .address = adversary->announced};

    packet->to = ADVERSARY_TO_TRANSMITTER;
    packet->size = lli_wire_put_query(packet->bytes, &query);
}

static void forge_join(struct adversary_packet *packet, const struct lli_wire_join *join)
{
    packet->to = ADVERSARY_TO_TRANSMITTER;
    packet->size = lli_wire_put_join(packet->bytes, join);
}

static struct lli_wire_join join_of(const struct adversary *adversary, enum lli_wire_join_kind kind,
                                    uint64_t receiver)
{
    return (struct lli_wire_join){.session = adversary->heartbeat.session,
                                  .receiver = receiver,
                                  .kind = (uint8_t)kind,
                                  .address = adversary->announced};
}

void adversary_ask(struct adversary *adversary, struct adversary_packet *packet)
{
    static const uint64_t values[] = {0, 1, 1000, UINT64_MAX};
    struct lli_wire_join join = join_of(adversary, LLI_WIRE_JOIN_ASK, 1);

    join.from = (uint8_t)adversary_below(adversary, 7);
    join.value = values[adversary_below(adversary, 4)];
    forge_join(packet, &join);
}

/* Each request in another name. */
void adversary_ask_crowd(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join join = join_of(adversary, LLI_WIRE_JOIN_ASK, forge_colliding(adversary));

    join.from = 1;
    forge_join(packet, &join);
}

/* The whole history, in as many ranges as a FETCH can have. */
void adversary_fetch_all(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join join = join_of(adversary, LLI_WIRE_JOIN_FETCH, adversary->made + 1);

    join.count = LLI_WIRE_FETCH_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_FETCH_MAX; i++)
        join.ranges[i] = (struct lli_wire_range){(uint32_t)adversary->seq - 4096 * (i + 1), 4096};
    forge_join(packet, &join);
}

/* The whole history in each range. */
void adversary_fetch_overlap(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join join = join_of(adversary, LLI_WIRE_JOIN_FETCH, adversary->made + 1);

    join.count = LLI_WIRE_FETCH_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_FETCH_MAX; i++)
        join.ranges[i] = (struct lli_wire_range){(uint32_t)adversary->seq - 2500, i % 2 ? UINT32_MAX : 2500};
    forge_join(packet, &join);
}

/* All cached messages, sixteen times. */
void adversary_latest(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join join = join_of(adversary, LLI_WIRE_JOIN_LATEST, adversary->made + 1);

    join.from = 5;
    join.number = lli_seq_extend(adversary->heartbeat.messages, adversary->number);
    join.wanted = UINT64_MAX;
    join.count = LLI_WIRE_SPANS_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_SPANS_MAX; i++)
        join.spans[i] = (struct lli_wire_span){{0, 0, 0}, {UINT64_MAX, UINT32_MAX, UINT32_MAX}};
    forge_join(packet, &join);
}

/* To the group: receivers are not stores. */
void adversary_seek(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join join = join_of(adversary, LLI_WIRE_JOIN_SEEK, adversary->made + 1);

    join.from = (uint8_t)adversary_below(adversary, 7);
    forge_join(packet, &join);
    packet->to = ADVERSARY_TO_GROUP;
}

/* The whole history, from a transmitter, which is no store. */
void adversary_recall(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join join = join_of(adversary, LLI_WIRE_JOIN_RECALL, adversary->made + 1);

    join.count = 1;
    join.ranges[0] = (struct lli_wire_range){(uint32_t)adversary->seq - 2500, 2500};
    forge_join(packet, &join);
}

/* The same in the name of a receiver that fetches the past, to its address. */
void adversary_fetch_genuine(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join join =
        adversary->fetch.receiver != 0 ? adversary->fetch : join_of(adversary, LLI_WIRE_JOIN_FETCH, 1);

    join.count = LLI_WIRE_FETCH_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_FETCH_MAX; i++)
        join.ranges[i] = (struct lli_wire_range){(uint32_t)adversary->seq - 2500, UINT32_MAX};
    forge_join(packet, &join);
}
