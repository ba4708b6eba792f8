/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Oracle of assured topics: messages reported as acknowledged were delivered to the required receivers, and
 * messages that can be acknowledged are.
 */
#include "check.h"

static uint8_t *acknowledge_mark(const struct sim_world *world, struct sim_follower *follower,
                                 const struct sim_session *session, uint64_t number)
{
    const size_t place = (size_t)(number - session->first);
    struct sim_marks *marks = &follower->marks[session->index];

    (void)world;
    if (place >= marks->room) {
        const size_t room = marks->room;

        marks->room = place * 2 + 64;
        marks->bytes = sim_memory_grow(marks->bytes, marks->room);
        memset(marks->bytes + room, 0, marks->room - room);
    }
    return &marks->bytes[place];
}

/* Sets the bit of a node's name, if the name matches the pattern. */
static void acknowledge_store(const struct sim_scenario *s, uint32_t node, uint8_t *stores)
{
    const uint32_t store = sim_scenario_store(s, node);

    if (store != SIM_STORE_NONE)
        *stores |= (uint8_t)(1u << store);
}

static bool acknowledge_has_stores(const struct sim_scenario *s, uint8_t stores)
{
    return (uint32_t)__builtin_popcount(stores) >= s->stores_wanted;
}

static void acknowledge_hold(struct sim_world *world, struct sim_node *node, struct sim_session *session,
                             uint64_t number)
{
    struct sim_message *message = &session->messages[number - session->first];
    uint8_t *mark = acknowledge_mark(world, node->follower, session, number);

    if (*mark & SIM_MARK_HELD || !(*mark & SIM_MARK_GIVEN))
        return;
    *mark |= SIM_MARK_HELD;
    message->held++;
    message->held_by_named |= node->index == world->scenario.named;
    acknowledge_store(&world->scenario, node->index, &message->held_by_stores);
}

void sim_check_given(struct sim_world *world, struct sim_node *node, struct sim_session *session,
                     uint64_t number)
{
    if (world->scenario.assured == 0)
        return;
    *acknowledge_mark(world, node->follower, session, number) |= SIM_MARK_GIVEN;
    if (!node->follower->config.application_acknowledges)
        acknowledge_hold(world, node, session, number);
}

void sim_check_done(struct sim_world *world, struct sim_node *node, struct sim_session *session,
                    uint64_t number)
{
    for (uint64_t i = session->first; i <= number; i++)
        acknowledge_hold(world, node, session, i);
}

static bool acknowledge_is_held(const struct sim_scenario *s, const struct sim_message *message)
{
    return message->held >= s->assurance.receivers && (s->named == 0 || message->held_by_named) &&
           acknowledge_has_stores(s, message->held_by_stores);
}

/* Returns true if a name or a pattern of the rule is meant. */
static bool acknowledge_is_required(const struct lli_ack_rule *rule, const char *name)
{
    for (uint32_t i = 0; i < rule->names; i++)
        if (strcmp(rule->name[i].text, name) == 0)
            return true;
    return false;
}

void sim_check_acknowledged(struct sim_world *world, struct sim_node *node, const struct llm_event *event)
{
    struct sim_sender *sender = node->sender;
    const struct sim_session *session = sender->session;
    const struct lli_ack_topic *topic = &sender->assured[event->topic_id];
    uint64_t *told = &sender->acknowledged[event->topic_id];

    sim_trace(world, "node %u: messages %llu to %llu of topic %u are %s, %s", node->index,
              (unsigned long long)event->first, (unsigned long long)event->last, event->topic_id,
              llm_event_name(event->kind), llm_reason_name(event->reason));
    sim_digest(world, event->last ^ (uint64_t)event->kind << 56);
    if (event->first < *told || event->last < event->first || event->last >= session->end) {
        sim_fail(world, "node %u: told of messages %llu to %llu of topic %u, after %llu, of %llu",
                 node->index, (unsigned long long)event->first, (unsigned long long)event->last,
                 event->topic_id, (unsigned long long)*told, (unsigned long long)session->end);
        return;
    }
    if (event->kind == LLM_EVENT_UNACKNOWLEDGED) {
        if (event->reason < LLM_REASON_RECEIVERS_FEW || lli_ack_topic_waiting(topic) == 0 ||
            (event->receiver != NULL && !acknowledge_is_required(&topic->rule, event->receiver)))
            sim_fail(world, "node %u: told that topic %u waits, which it does not", node->index,
                     event->topic_id);
        return;
    }
    for (uint64_t number = event->first; number < event->last + 1; number++) {
        const struct sim_message *message = &session->messages[number - session->first];

        if (message->topic == event->topic_id && !acknowledge_is_held(&world->scenario, message))
            sim_fail(world,
                     "node %u: message %llu of topic %u is acknowledged, but held by %u receivers%s, and "
                     "stores %x",
                     node->index, (unsigned long long)number, event->topic_id, message->held,
                     message->held_by_named ? ", the named one too" : "", message->held_by_stores);
    }
    *told = event->last + 1;
}

static uint64_t acknowledge_oldest(const struct lli_ack_topic *topic)
{
    return topic->ring[topic->head & topic->mask].number;
}

void sim_check_begins(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      uint64_t first)
{
    const struct sim_sender *sender = session->alive ? world->nodes[session->node].sender : NULL;

    for (uint32_t i = 0; sender != NULL && i < sender->tx.ack.count; i++)
        if (lli_ack_topic_waiting(&sender->assured[i]) > 0 && first > acknowledge_oldest(&sender->assured[i]))
            sim_fail(world, "node %u: session %u begins with message %llu, message %llu is not acknowledged",
                     node->index, session->index, (unsigned long long)first,
                     (unsigned long long)acknowledge_oldest(&sender->assured[i]));
}

/* Returns true if a receiver can acknowledge a message: it lost none since, and the transmitter knows it. */
static bool acknowledge_is_able(const struct sim_node *node, const struct sim_session *session,
                                const struct lli_tx *tx, uint32_t topic, uint64_t number)
{
    const struct lli_rx *rx = sim_follower_find(node->follower, session);
    const uint32_t member = lli_members_get(&tx->members, node->follower->config.receiver);

    return rx != NULL && rx->state == LLI_RX_LIVE && rx->report.acknowledged_from <= number &&
           !lli_topics_is_refused(&rx->topics, topic) && member != LLI_MEMBER_NONE &&
           lli_member_counts(&tx->members.table[member]);
}

bool sim_check_answered(struct sim_world *world, const struct sim_node *node,
                        const struct sim_session *session)
{
    const struct sim_scenario *s = &world->scenario;
    const struct sim_sender *sender = world->nodes[session->node].sender;

    (void)node;
    for (uint32_t i = 0; i < sender->tx.ack.count; i++) {
        const struct lli_ack_topic *topic = &sender->assured[i];
        uint32_t able = 0;
        bool named = s->named == 0;
        uint8_t stores = 0;

        for (uint32_t j = s->transmitters; lli_ack_topic_waiting(topic) > 0 && j < world->network.nodes;
             j++) {
            if (!acknowledge_is_able(&world->nodes[j], session, &sender->tx, i, acknowledge_oldest(topic)))
                continue;
            able++;
            named |= j == s->named && acknowledge_is_required(&s->assurance, "named");
            acknowledge_store(s, j, &stores);
        }
        if (lli_ack_topic_waiting(topic) > 0 && able >= topic->rule.receivers && named &&
            acknowledge_has_stores(s, stores))
            return false;
    }
    return true;
}
