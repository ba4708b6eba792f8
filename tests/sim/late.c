/* SPDX-License-Identifier: Apache-2.0 */
/* Oracle of late join: its cost, and the delivery of cached messages. */
#include "check.h"

void sim_check_replay(struct sim_world *world, const struct sim_node *node, const struct lli_wire_address *to,
                      uint64_t burst)
{
    const struct sim_sender *sender = node->sender;
    const struct sim_scenario *s = &world->scenario;
    double elapsed = (double)(sim_node_now(world, node) - sender->opened_at) / 1e9;
    double budget = (double)burst + s->packet_max + (double)s->replay_bytes_per_s * elapsed;

    if (to == NULL || (double)sender->replay_bytes > budget)
        sim_fail(world, "node %u: %llu bytes of the past to %s, %.0f are the budget", node->index,
                 (unsigned long long)sender->replay_bytes, to == NULL ? "the group" : "receivers", budget);
}

void sim_check_crowd(struct sim_world *world)
{
    const struct sim_sender *sender = world->nodes[0].sender;
    const struct lli_tx_counters *counters = &sender->tx.counters;

    sim_trace(world,
              "%llu joins granted, %llu packets replayed in %llu requests, %llu dropped; %llu messages",
              (unsigned long long)counters->joins_granted, (unsigned long long)counters->packets_replayed,
              (unsigned long long)counters->fetches_received, (unsigned long long)counters->joins_dropped,
              (unsigned long long)sender->session->end);
    if (counters->joins_granted < SIM_CROWD / 2 || counters->packets_replayed < 50 * SIM_CROWD ||
        sender->session->end < SIM_CROWD || counters->send_blocked > 0)
        sim_fail(world, "%llu joins, %llu packets of the past, %llu messages: not what a crowd should be",
                 (unsigned long long)counters->joins_granted, (unsigned long long)counters->packets_replayed,
                 (unsigned long long)sender->session->end);
}

/* ---------------------------------------------------------------------------------------- cached messages */

bool sim_is_kept(const struct sim_world *world, const struct sim_session *session, uint32_t topic)
{
    return world->scenario.keeps > 0 && !sim_is_transient(world, session, topic) &&
           (topic + session->index) % 4 != 3;
}

void sim_late_choose(struct sim_world *world, struct llm_join *join)
{
    if (world->scenario.keeps == 0 || lli_random_below(&world->random_join, 2) == 0)
        return;
    *join = (struct llm_join){.mode = LLM_JOIN_LATEST};
    if (lli_random_below(&world->random_join, 3) == 0)
        join->value = 1 + lli_random_below(&world->random_join, world->scenario.keeps);
}

void sim_late_begin(const struct sim_world *world, const struct sim_session *session,
                    struct sim_follow *follow, uint64_t first)
{
    (void)world;
    (void)session;
    follow->latest = follow->late && !follow->denied && follow->join.mode == LLM_JOIN_LATEST;
    follow->splice = first;
}

bool sim_late_is_kept(const struct sim_follow *follow, uint64_t number)
{
    return follow->latest && number < follow->splice;
}

static const struct sim_message *late_message(const struct sim_session *session, uint64_t number)
{
    return &session->messages[number - session->first];
}

/* Returns true if a message of a topic is delivered, or reported too long. */
static bool late_is_wanted(const struct sim_session *session, const struct sim_follow *follow, uint32_t topic,
                           uint64_t number)
{
    const struct sim_message *message = late_message(session, number);
    const struct lli_filter *filter = follow->filter;

    return message->topic == topic && !(follow->refused >> topic & 1) &&
           (filter == NULL || (message->label & filter->labels[0].mask) == filter->labels[0].match);
}

/* Returns the maximum number of messages of each topic before the splice. */
static uint64_t late_most(const struct sim_world *world, const struct sim_follow *follow)
{
    return follow->join.value == 0 ? world->scenario.keeps
                                   : lli_min(world->scenario.keeps, follow->join.value);
}

/*
 * Checks a cached message: in order in its topic, once, and not older than the last ones before the splice.
 */
void sim_late_message(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      struct sim_follow *follow, uint64_t number)
{
    const uint32_t topic = late_message(session, number)->topic;
    uint64_t newer = 0, before = number;

    for (uint64_t at = number + 1; at < follow->splice; at++)
        newer += late_message(session, at)->topic == topic;
    if (number < follow->kept_next[topic] || newer >= late_most(world, follow) ||
        !sim_is_kept(world, session, topic) ||
        (!late_is_wanted(session, follow, topic, number) &&
         world->scenario.message_bytes_max > world->scenario.size_max))
        sim_fail(world, "node %u session %u: message %llu of topic %u was kept, %llu are newer, %llu is next",
                 node->index, session->index, (unsigned long long)number, topic, (unsigned long long)newer,
                 (unsigned long long)follow->kept_next[topic]);
    /* No message is omitted after the ones that came before. */
    while (before > session->first && before >= follow->kept_next[topic] &&
           !late_is_wanted(session, follow, topic, before - 1))
        before--;
    follow->kept_run[topic] =
        before == follow->kept_next[topic] && before > session->first ? follow->kept_run[topic] + 1 : 1;
    follow->kept_next[topic] = number + 1;
}

/*
 * Checks that all of a topic's last messages before the splice that newer ones have not displaced were
 * delivered; messages sent or pending are excluded.
 */
static void late_topic(struct sim_world *world, const struct sim_node *node,
                       const struct sim_session *session, const struct sim_follow *follow, uint32_t topic)
{
    uint64_t left = late_most(world, follow), wanted = 0, latest = 0;

    for (uint64_t number = session->end; number-- > follow->splice && left > 0;)
        left -= late_message(session, number)->topic == topic;
    for (uint64_t number = follow->splice; number-- > session->first && left > 0;) {
        left -= late_message(session, number)->topic == topic;
        if (!late_is_wanted(session, follow, topic, number))
            continue;
        latest = wanted++ == 0 ? number + 1 : latest;
    }
    if (wanted > 0 && (follow->kept_next[topic] != latest || follow->kept_run[topic] < wanted))
        sim_fail(world,
                 "node %u session %u: of topic %u the last %llu before message %llu should have come, %llu "
                 "did, up to %llu",
                 node->index, session->index, topic, (unsigned long long)wanted,
                 (unsigned long long)follow->splice, (unsigned long long)follow->kept_run[topic],
                 (unsigned long long)follow->kept_next[topic]);
}

void sim_late_live(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                   struct sim_follow *follow)
{
    if (!follow->latest)
        return;
    follow->latest = false;
    for (uint32_t topic = 0; topic < session->topics && !world->failed; topic++)
        if (sim_is_kept(world, session, topic))
            late_topic(world, node, session, follow, topic);
}

void sim_late_lost(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                   struct sim_follow *follow, const struct llm_event *event, bool excused)
{
    const struct sim_scenario *s = &world->scenario;
    const bool record = (event->reason == LLM_REASON_SUSPENDED && s->slow.most >= LLI_STANDING_SUSPENDED) ||
                        (event->reason == LLM_REASON_EXPELLED && s->slow.most >= LLI_STANDING_EXPELLED) ||
                        (event->reason == LLM_REASON_SUPERSEDED && sim_streams_may_supersede(world, session));

    if (!follow->latest || event->first != follow->splice || event->topic_id >= session->topics ||
        !(event->reason == LLM_REASON_TIMEOUT ? excused : record))
        sim_fail(world, "node %u session %u: no reason to lose what is kept of topic %u with reason %d",
                 node->index, session->index, event->topic_id, (int)event->reason);
    follow->latest = false;
}
