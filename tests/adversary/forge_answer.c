/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of a transmitter to receivers: rejects, notices, names, answers to late joiners. */
#include "adversary.h"
#include "core/flow/standing.h"
#include "core/wire/token.h"

static void to_receiver(const struct adversary *adversary, struct adversary_packet *packet)
{
    packet->to = ADVERSARY_TO_RECEIVER;
    packet->member = (uint32_t)adversary->made;
}

/* ----------------------------------------------------------------------------------------------- rejects */

static void forge_reject(struct adversary *adversary, struct adversary_packet *packet,
                         enum lli_wire_reason reason, lli_seq trail)
{
    struct lli_wire_reject reject = {.session = adversary->heartbeat.session,
                                     .trail = trail,
                                     .reason = (uint8_t)reason,
                                     .count = LLI_WIRE_RANGES_MAX};

    for (uint32_t i = 0; i < LLI_WIRE_RANGES_MAX; i++)
        reject.ranges[i] = (struct lli_wire_range){(uint32_t)adversary->seq - 32768 + 1024 * i, 1024};
    packet->to = ADVERSARY_TO_GROUP;
    packet->size = lli_wire_put_reject(packet->bytes, &reject);
}

void adversary_reject_gone(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_reject(adversary, packet, LLI_WIRE_GONE, adversary->seq);
}

void adversary_reject_gone_max(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_reject(adversary, packet, LLI_WIRE_GONE,
                 adversary->made % 2 ? UINT64_MAX : adversary->seq + 100000);
}

void adversary_reject_pending(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_reject(adversary, packet, LLI_WIRE_PENDING, adversary->heartbeat.trail);
}

void adversary_reject_unrepaired(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_reject(adversary, packet, LLI_WIRE_UNREPAIRED, adversary->heartbeat.trail);
}

void adversary_reject_passed(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_reject(adversary, packet, LLI_WIRE_PASSED, adversary->heartbeat.trail);
}

/* ----------------------------------------------------------------------------------------------- notices */

static void forge_notice(struct adversary *adversary, struct adversary_packet *packet,
                         enum lli_standing standing, uint64_t receiver)
{
    const struct lli_wire_notice notice = {
        .session = adversary->heartbeat.session,
        .receiver = receiver,
        .decided_at = adversary_heartbeat(adversary).sent_at,
        .lead = adversary->seq,
        .standing = (uint8_t)standing,
        .threshold = 1,
    };

    to_receiver(adversary, packet);
    packet->size = lli_wire_put_notice(packet->bytes, &notice);
}

void adversary_notice_suspended(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_notice(adversary, packet, LLI_STANDING_SUSPENDED,
                 adversary_receiver(adversary, (uint32_t)adversary->made));
}

void adversary_notice_expelled(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_notice(adversary, packet, LLI_STANDING_EXPELLED,
                 adversary_receiver(adversary, (uint32_t)adversary->made));
}

void adversary_notice_warned(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_notice(adversary, packet, (enum lli_standing)(adversary->made / 2 % 3),
                 adversary_receiver(adversary, (uint32_t)adversary->made));
}

/* From an adversary that reads only the group: the receiver's identity is not in the packet. */
void adversary_notice_foreign(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_notice(adversary, packet, LLI_STANDING_EXPELLED, lli_random(&adversary->random));
}

/* ------------------------------------------------------------------------------------------------- names */

static void forge_topics(struct adversary *adversary, struct adversary_packet *packet, uint32_t total,
                         uint32_t first)
{
    struct lli_wire_topics topics = {.session = adversary->heartbeat.session, .total = total, .first = first};
    size_t used = LLI_WIRE_TOPICS_HEAD;

    for (; topics.count < 20; topics.count++)
        used = lli_wire_add_topic(packet->bytes, used, sizeof packet->bytes, "not this", 8);
    to_receiver(adversary, packet);
    packet->size = lli_wire_put_topics(packet->bytes, &topics, used);
}

void adversary_topics_names(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_topics(adversary, packet, 20, 0);
}

void adversary_topics_beyond(struct adversary *adversary, struct adversary_packet *packet)
{
    forge_topics(adversary, packet, UINT32_MAX, UINT32_MAX - 20);
}

/* -------------------------------------------------------------------------------- answers to late joiners */

static struct lli_wire_join answer_of(const struct adversary *adversary, enum lli_wire_join_kind kind)
{
    return (struct lli_wire_join){
        .session = adversary->heartbeat.session,
        .receiver = adversary->ask.receiver,
        .kind = (uint8_t)kind,
        .from = adversary->ask.from,
        .value = adversary->ask.value,
        .packet = adversary->seq - 10,
        .lead = adversary->seq + 10,
    };
}

static void forge_answer(const struct adversary *adversary, struct adversary_packet *packet,
                         const struct lli_wire_join *answer)
{
    to_receiver(adversary, packet);
    packet->size = lli_wire_put_join(packet->bytes, answer);
}

void adversary_join_grant(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct lli_wire_join answer = answer_of(adversary, LLI_WIRE_JOIN_GRANT);

    forge_answer(adversary, packet, &answer);
}

void adversary_join_refuse(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join answer = answer_of(adversary, LLI_WIRE_JOIN_REFUSE);

    answer.reason = (uint8_t)adversary_below(adversary, 5);
    forge_answer(adversary, packet, &answer);
}

/* ------------------------------------------------------------------------------------------------ stores */

/* Of a store that does not exist, which has everything. */
static struct lli_wire_join offer_of(const struct adversary *adversary)
{
    return (struct lli_wire_join){
        .session = adversary->heartbeat.session,
        .kind = LLI_WIRE_JOIN_OFFER,
        .value = UINT64_MAX,
        .packet = adversary->heartbeat.start,
        .lead = adversary->made % 2 ? INT64_MAX : adversary->seq + 1000,
        .address = adversary->announced,
    };
}

/* Identity of a receiver for stores, as one that knows its identity can compute it. */
static uint64_t identity_for_stores(const struct adversary *adversary, uint64_t receiver)
{
    const struct lli_token_key key = {{receiver, adversary->heartbeat.session}};
    const struct lli_wire_address nowhere = {.size = 0};

    return lli_token(&key, 0, &nowhere);
}

void adversary_offer(struct adversary *adversary, struct adversary_packet *packet)
{
    const struct lli_wire_join offer = offer_of(adversary);

    forge_answer(adversary, packet, &offer);
    packet->to = ADVERSARY_TO_GROUP;
}

/* Packets that are missing just then are asked of the store. */
void adversary_offer_gone(struct adversary *adversary, struct adversary_packet *packet)
{
    if (adversary->made % 8 == 0)
        adversary_offer(adversary, packet);
    else
        adversary_reject_gone(adversary, packet);
}

/* As the answer to a SEEK, or to a RECALL. */
void adversary_offer_answer(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join offer = offer_of(adversary);

    offer.receiver =
        identity_for_stores(adversary, adversary_receiver(adversary, (uint32_t)adversary->made / 2));
    offer.from = (uint8_t)(adversary->made % 5);
    offer.value = 0;
    offer.token = adversary->made + 1;
    forge_answer(adversary, packet, &offer);
}

void adversary_absent(struct adversary *adversary, struct adversary_packet *packet)
{
    struct lli_wire_join absent = offer_of(adversary);

    absent.receiver =
        identity_for_stores(adversary, adversary_receiver(adversary, (uint32_t)adversary->made));
    absent.kind = LLI_WIRE_JOIN_ABSENT;
    absent.lead = INT64_MAX;
    absent.count = 1;
    absent.ranges[0] = (struct lli_wire_range){(uint32_t)adversary->seq - 32768, 65536};
    forge_answer(adversary, packet, &absent);
}

/* Record of a message that no topic caches. */
void adversary_kept_records(struct adversary *adversary, struct adversary_packet *packet)
{
    static const uint8_t frame[] = {4, 'e', 'v', 'i', 'l'};
    const uint64_t number = adversary->grant.number;
    const struct lli_wire_lvc kept = {
        .session = adversary->heartbeat.session,
        .receiver = adversary->ask.receiver,
        .number = number,
        .next = number,
        .span = {{0, 0, 0}, {number, 0, 0}},
        .count = 1,
    };
    const struct lli_wire_record record = {
        .at = {number == 0 ? 0 : number - 1, 0, 0}, .bytes = frame, .size = sizeof frame};
    const size_t used = lli_wire_add_record(packet->bytes, LLI_WIRE_LVC_HEAD, sizeof packet->bytes, &record);

    to_receiver(adversary, packet);
    packet->size = lli_wire_put_lvc(packet->bytes, &kept, used);
}
