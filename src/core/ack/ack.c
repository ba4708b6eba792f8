/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ack/ack.h"

#include "core/flow/members.h"
#include "core/flow/flow.h"

enum { ACK_REPORTS = 8 }; /* reports of a receiver per messages_max */

void lli_ack_init(struct lli_ack *ack, uint32_t members_max, struct lli_arena *arena)
{
    *ack = (struct lli_ack){.unacknowledged = UINT64_MAX};
    ack->table = lli_arena_take(arena, members_max * sizeof *ack->table, 64);
    ack->reached = lli_arena_take(arena, members_max * sizeof *ack->reached, 64);
}

static struct lli_ack_message *assured_at(const struct lli_ack_topic *topic, uint64_t place)
{
    return &topic->ring[place & topic->mask];
}

/* Recomputes the totals after a change of unacknowledged messages. */
static void ack_count(struct lli_ack *ack)
{
    ack->waiting = 0;
    ack->unacknowledged = UINT64_MAX;
    for (int i = 0; i < ack->count; i++) {
        const struct lli_ack_topic *topic = ack->topics[i];

        ack->waiting += lli_ack_topic_waiting(topic);
        if (lli_ack_topic_waiting(topic) > 0)
            ack->unacknowledged = lli_min(ack->unacknowledged, assured_at(topic, topic->head)->seq);
    }
}

/* Returns the index of a topic, adding it if new; LLI_WIRE_ASSURED_MAX if there is no room. */
static int ack_place(struct lli_ack *ack, struct lli_ack_topic *topic)
{
    int place = 0;

    while (place < ack->count && ack->topics[place] != topic)
        place++;
    if (place < LLI_WIRE_ASSURED_MAX && place == ack->count)
        ack->topics[ack->count++] = topic;
    return place;
}

void lli_ack_sent(struct lli_ack *ack, struct lli_ack_topic *topic, uint64_t number, lli_seq seq,
                  uint64_t size)
{
    assert(lli_ack_topic_allows(topic, size));
    topic->bytes += size;
    *assured_at(topic, topic->tail++) =
        (struct lli_ack_message){.number = number, .bytes = topic->bytes, .seq = seq};
    ack->waiting++;
    ack->unacknowledged = lli_min(ack->unacknowledged, seq);
}

/* --------------------------------------------------------------------------------------- acknowledgements */

/*
 * Returns a member's acknowledged run if it may count for this topic; NULL if the member reported nothing,
 * refused the topic or is suspended.
 */
static const struct lli_ack_range *ack_range(const struct lli_ack *ack, const struct lli_members *members,
                                             uint32_t index, int place)
{
    const struct lli_ack_range *range = &ack->table[index];

    return lli_member_counts(&members->table[index]) && range->id == members->table[index].id &&
                   range->accepts >> place & 1
               ? range
               : NULL;
}

/*
 * Returns the end (one past the last message) of what enough receivers acknowledged in a run that includes
 * `number`.
 */
static uint64_t ack_reached(const struct lli_ack *ack, const struct lli_members *members, int place,
                            uint64_t number)
{
    const uint32_t receivers = ack->topics[place]->rule.receivers;
    uint32_t seen = 0, count = 0;

    if (receivers == 0)
        return UINT64_MAX;
    for (uint32_t i = 0; seen < members->count; i++) {
        const struct lli_ack_range *range = ack_range(ack, members, i, place);

        seen += members->table[i].id != 0;
        if (range != NULL && range->from <= number)
            ack->reached[count++] = range->next;
    }
    return count < receivers ? number : lli_flow_find(ack->reached, count, receivers);
}

/* Runs of members with different names that match a required name: at most its count, the furthest first. */
struct ack_found {
    const struct lli_ack_range *range[LLI_ACK_COUNT_MAX];
    uint32_t count;
};

/* Adds a run unless one of the same name, or as many others as may be required, reach as far. */
static void ack_found_add(struct ack_found *found, const struct lli_ack_range *range, uint32_t most)
{
    uint32_t place = 0;

    while (place < found->count && memcmp(found->range[place]->name, range->name, sizeof range->name) != 0)
        place++;
    if (place == most)
        place--;
    else if (place == found->count)
        found->range[found->count++] = range;
    if (found->range[place]->next > range->next)
        return;
    for (; place > 0 && found->range[place - 1]->next < range->next; place--)
        found->range[place] = found->range[place - 1];
    found->range[place] = range;
}

/* Finds the runs that begin at `number` or before and count for a required name. */
static void ack_find(const struct lli_ack *ack, const struct lli_members *members, int place,
                     const struct lli_ack_name *name, uint64_t number, struct ack_found *found)
{
    uint32_t seen = 0;

    found->count = 0;
    for (uint32_t i = 0; seen < members->count; i++) {
        const struct lli_ack_range *range = ack_range(ack, members, i, place);

        seen += members->table[i].id != 0;
        if (range != NULL && range->from <= number && lli_ack_name_matches(name, range->name))
            ack_found_add(found, range, name->count);
    }
}

/* As ack_reached(), for the receivers that a name or a pattern requires. */
static uint64_t ack_reached_by(const struct lli_ack *ack, const struct lli_members *members, int place,
                               const struct lli_ack_name *name, uint64_t number)
{
    struct ack_found found;

    ack_find(ack, members, place, name, number, &found);
    return found.count < name->count ? number : lli_max(number, found.range[name->count - 1]->next);
}

/* Returns the end of the acknowledged messages of a topic, from `number` on. */
static uint64_t ack_limit(const struct lli_ack *ack, const struct lli_members *members, int place,
                          uint64_t number)
{
    const struct lli_ack_rule *rule = &ack->topics[place]->rule;
    uint64_t limit = ack_reached(ack, members, place, number);

    for (uint32_t i = 0; i < rule->names && limit > number; i++)
        limit = lli_min(limit, ack_reached_by(ack, members, place, &rule->name[i], number));
    return limit;
}

static void ack_done(struct lli_ack *ack, struct lli_ack_topic *topic)
{
    const struct lli_ack_message *message = assured_at(topic, topic->head++);

    topic->bytes_acknowledged = message->bytes;
    if (!topic->news.acknowledged)
        topic->news.first = message->number;
    topic->news.acknowledged = true;
    topic->news.last = message->number;
    ack->unreported = true;
}

/*
 * Repeats from the oldest message left: the receivers that acknowledged it may differ from those that
 * acknowledged later ones.
 */
static void ack_topic(struct lli_ack *ack, const struct lli_members *members, int place)
{
    struct lli_ack_topic *topic = ack->topics[place];

    while (lli_ack_topic_waiting(topic) > 0) {
        const uint64_t limit = ack_limit(ack, members, place, assured_at(topic, topic->head)->number);

        if (assured_at(topic, topic->head)->number >= limit)
            break;
        while (lli_ack_topic_waiting(topic) > 0 && assured_at(topic, topic->head)->number < limit)
            ack_done(ack, topic);
        topic->reported = topic->news.reason = LLM_REASON_NONE;
    }
}

bool lli_ack_set(struct lli_ack *ack, const struct lli_members *members, struct lli_ack_topic *topic,
                 const struct lli_ack_rule *rule, struct lli_ack_message *ring, uint64_t places)
{
    const uint64_t waiting = lli_ack_topic_waiting(topic);
    const int place = ack_place(ack, topic);

    if (place == LLI_WIRE_ASSURED_MAX)
        return false;
    topic->rule = *rule;
    if (!lli_ack_topic_is_on(topic)) {
        topic->head = topic->tail;
        topic->bytes_acknowledged = topic->bytes;
    }
    for (uint64_t i = 0; i < lli_ack_topic_waiting(topic); i++)
        ring[i] = *assured_at(topic, topic->head + i);
    topic->ring = ring;
    topic->mask = places - 1;
    topic->head = 0;
    topic->tail = lli_ack_topic_is_on(topic) ? waiting : 0;
    topic->reported = topic->news.reason = LLM_REASON_NONE;
    topic->waited_head = UINT64_MAX;
    ack_topic(ack, members, place);
    ack_count(ack);
    return true;
}

bool lli_ack_report(struct lli_ack *ack, const struct lli_members *members, uint32_t index,
                    const struct lli_wire_status *status, uint64_t messages)
{
    struct lli_ack_range *range = &ack->table[index];

    if (status->acknowledged_next > messages)
        return false;
    if (range->id != status->receiver)
        *range = (struct lli_ack_range){.id = status->receiver};
    /*
     * The report was overtaken; or the receiver follows the session anew, and its earlier acknowledgements
     * stay valid.
     */
    if (status->acknowledged_next < range->next)
        return true;
    range->from = status->acknowledged_from;
    range->next = status->acknowledged_next;
    range->accepts = status->accepts;
    range->acknowledged |= status->acknowledged_next > status->acknowledged_from;
    memcpy(range->name, status->name, sizeof range->name);
    if (ack->waiting == 0)
        return true;
    for (int i = 0; i < ack->count; i++)
        ack_topic(ack, members, i);
    ack_count(ack);
    return true;
}

/* True if a topic that a receiver accepts waits for this receiver. */
static bool ack_waits_for(const struct lli_ack_topic *topic, const struct lli_ack_range *range)
{
    for (uint32_t i = 0; i < topic->rule.names; i++)
        if (lli_ack_name_matches(&topic->rule.name[i], range->name))
            return true;
    return topic->rule.receivers > 0 && range->acknowledged;
}

/*
 * Returns the packet where the first unacknowledged message at or after this number starts; UINT64_MAX: none.
 */
static lli_seq ack_seq(const struct lli_ack_topic *topic, uint64_t number)
{
    uint64_t low = topic->head, high = topic->tail;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;

        if (assured_at(topic, middle)->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low == topic->tail ? UINT64_MAX : assured_at(topic, low)->seq;
}

lli_seq lli_ack_owes(const struct lli_ack *ack, const struct lli_members *members, uint32_t index)
{
    const struct lli_ack_range *range = &ack->table[index];
    lli_seq owes = UINT64_MAX;

    if (ack->waiting == 0 || range->id != members->table[index].id)
        return 0;
    for (int i = 0; i < ack->count; i++)
        if (range->accepts >> i & 1 && ack_waits_for(ack->topics[i], range))
            owes = lli_min(owes, ack_seq(ack->topics[i], range->next));
    return owes == UINT64_MAX ? 0 : owes;
}

/* ---------------------------------------------------------------------------------------------- waiting */

/* Counts the receivers that accept the topic, and those of them that can still acknowledge a message. */
static uint32_t ack_able(const struct lli_ack *ack, const struct lli_members *members, int place,
                         uint64_t number, uint32_t *known)
{
    uint32_t seen = 0, able = 0;

    *known = 0;
    for (uint32_t i = 0; seen < members->count; i++) {
        const struct lli_ack_range *range = ack_range(ack, members, i, place);

        seen += members->table[i].id != 0;
        *known += range != NULL;
        able += range != NULL && range->from <= number;
    }
    return able;
}

/* Reason why the receivers that a name requires have not acknowledged a message. */
static enum llm_reason ack_reason_of(const struct lli_ack *ack, const struct lli_members *members, int place,
                                     const struct lli_ack_name *name, struct lli_ack_news *news)
{
    const struct lli_ack_topic *topic = ack->topics[place];
    const bool pattern = lli_ack_name_is_pattern(name);
    enum llm_reason reason = pattern ? LLM_REASON_RECEIVERS_FEW : LLM_REASON_RECEIVER_ABSENT;
    struct ack_found found;

    news->receiver = name->text;
    ack_find(ack, members, place, name, UINT64_MAX, &found);
    if (found.count == name->count) {
        ack_find(ack, members, place, name, assured_at(topic, topic->head)->number, &found);
        if (found.count == name->count)
            return LLM_REASON_PENDING;
        reason = LLM_REASON_GIVEN_UP;
    }
    news->receivers = pattern ? found.count : 0;
    news->wanted = pattern ? name->count : 0;
    return reason;
}

/* Reason why the oldest message is not acknowledged. */
static enum llm_reason ack_reason(const struct lli_ack *ack, const struct lli_members *members, int place,
                                  struct lli_ack_news *news)
{
    const struct lli_ack_topic *topic = ack->topics[place];
    const struct lli_ack_rule *rule = &topic->rule;
    const uint64_t number = assured_at(topic, topic->head)->number;
    uint32_t able, known;

    news->receivers = news->wanted = 0;
    for (uint32_t i = 0; i < rule->names; i++)
        if (ack_reached_by(ack, members, place, &rule->name[i], number) <= number)
            return ack_reason_of(ack, members, place, &rule->name[i], news);
    news->receiver = NULL;
    able = ack_able(ack, members, place, number, &known);
    if (able >= rule->receivers)
        return LLM_REASON_PENDING;
    news->receivers = known < rule->receivers ? known : able;
    news->wanted = rule->receivers;
    return known < rule->receivers ? LLM_REASON_RECEIVERS_FEW : LLM_REASON_GIVEN_UP;
}

void lli_ack_look(struct lli_ack *ack, const struct lli_members *members, lli_ns now)
{
    for (int i = 0; i < ack->count; i++) {
        struct lli_ack_topic *topic = ack->topics[i];
        struct lli_ack_news found = topic->news;

        if (lli_ack_topic_waiting(topic) == 0 || topic->head != topic->waited_head) {
            topic->waited_head = lli_ack_topic_waiting(topic) == 0 ? UINT64_MAX : topic->head;
            topic->waited_since = now;
            continue;
        }
        if (now - topic->waited_since < topic->rule.patience)
            continue;
        found.reason = ack_reason(ack, members, i, &found);
        if (found.reason == topic->reported && found.receiver == topic->reported_receiver)
            continue;
        topic->news = found;
        topic->reported = found.reason;
        topic->reported_receiver = found.receiver;
        ack->unreported = true;
    }
}

bool lli_ack_close(struct lli_ack *ack)
{
    for (int i = 0; i < ack->count; i++) {
        struct lli_ack_topic *topic = ack->topics[i];

        if (lli_ack_topic_waiting(topic) == 0)
            continue;
        topic->news.reason = LLM_REASON_CLOSED;
        topic->news.receiver = NULL;
        topic->news.receivers = topic->news.wanted = 0;
        ack->unreported = true;
    }
    return ack->waiting > 0;
}

bool lli_ack_event(struct lli_ack *ack, struct llm_event *event)
{
    for (int i = 0; i < ack->count; i++) {
        struct lli_ack_topic *topic = ack->topics[i];
        struct lli_ack_news *news = &topic->news;

        *event =
            (struct llm_event){.kind = LLM_EVENT_ACKNOWLEDGED, .topic_id = topic->id, .topic = topic->name};
        if (news->acknowledged) {
            news->acknowledged = false;
            event->first = news->first;
            event->last = news->last;
            return true;
        }
        if (news->reason != LLM_REASON_NONE) {
            event->kind = LLM_EVENT_UNACKNOWLEDGED;
            event->reason = news->reason;
            event->receiver = news->receiver;
            event->receivers = news->receivers;
            event->receivers_wanted = news->wanted;
            event->first = assured_at(topic, topic->head)->number;
            event->last = assured_at(topic, topic->tail - 1)->number;
            news->reason = LLM_REASON_NONE;
            return true;
        }
    }
    ack->unreported = false;
    return false;
}

uint32_t lli_ack_report_packets(const struct lli_ack *ack, uint32_t most)
{
    for (int i = 0; i < ack->count; i++) {
        const struct lli_ack_topic *topic = ack->topics[i];
        const uint32_t packets = (uint32_t)lli_max(topic->rule.messages_max / ACK_REPORTS, 1);

        if (lli_ack_topic_is_on(topic) && (most == 0 || packets < most))
            most = packets;
    }
    return most;
}
