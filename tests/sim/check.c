/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

/* NAKs for a packet that all receivers lost, in the mean. */
enum { CHECK_NAKS_SHARED = 10 };

static struct sim_session *check_session(const struct sim_world *world, uint64_t id)
{
    for (uint32_t i = 0; i < world->sessions_count; i++)
        if (world->sessions[i]->id == id)
            return world->sessions[i];
    return NULL;
}

static struct sim_follow *check_follow(const struct sim_world *world, struct sim_follower *follower, uint32_t index)
{
    if (index >= follower->follows_count) {
        uint32_t count = world->sessions_count;

        follower->follows = sim_memory_grow(follower->follows, count * sizeof *follower->follows);
        memset(follower->follows + follower->follows_count, 0, (count - follower->follows_count) * sizeof *follower->follows);
        follower->follows_count = count;
    }
    return &follower->follows[index];
}

static const struct lli_tx *check_tx(const struct sim_world *world, const struct sim_session *session)
{
    return session->alive ? &world->nodes[session->node].sender->tx : NULL;
}

static const struct sim_message *check_message_of(const struct sim_session *session, uint64_t number)
{
    return &session->messages[number - session->first];
}

/* The next message that is to be delivered: those on refused topics are passed over. */
static uint64_t check_next(const struct sim_session *session, const struct sim_follow *follow)
{
    uint64_t number = follow->expected;

    while (number < session->end && follow->refused >> check_message_of(session, number)->topic & 1)
        number++;
    return number;
}

/* Whether nothing is known that can keep a receiver and a transmitter apart for this long. */
static bool check_is_unexcused(const struct sim_world *world, const struct sim_session *session, lli_ns ns)
{
    return session->alive && world->scenario.outage + 5 * SIM_S < ns;
}

/* --------------------------------------------------------------------------------------------- messages */

static void check_message(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                          struct sim_follow *follow, const struct llm_message *message)
{
    const struct sim_message *sent;
    uint64_t expected = check_next(session, follow);

    if (!follow->open) {
        sim_fail(world, "node %u: message %llu of session %u outside of it", node->index, (unsigned long long)message->number,
                 session->index);
        return;
    }
    if (message->number != expected || message->number >= session->end) {
        sim_fail(world, "node %u session %u: message %llu came, %llu was next (%llu sent)", node->index, session->index,
                 (unsigned long long)message->number, (unsigned long long)expected, (unsigned long long)session->end);
        return;
    }
    sent = check_message_of(session, message->number);
    if (message->topic_id != sent->topic || message->size != sent->size ||
        !sim_message_is(message->data, message->size, session->id, message->number))
        sim_fail(world, "node %u session %u: message %llu is not what was sent", node->index, session->index,
                 (unsigned long long)message->number);
    if (strcmp(message->topic, session->names[sent->topic]) != 0 && (message->topic[0] != '\0' || !follow->gapped))
        sim_fail(world, "node %u session %u: message %llu on topic \"%s\", sent on \"%s\"", node->index, session->index,
                 (unsigned long long)message->number, message->topic, session->names[sent->topic]);
    if (message->topic[0] != '\0' && !(follow->topics >> sent->topic & 1))
        sim_fail(world, "node %u session %u: message %llu before its topic \"%s\"", node->index, session->index,
                 (unsigned long long)message->number, message->topic);
    follow->expected = message->number + 1;
    world->delivered++;
    sim_digest(world, message->number);
}

/* ------------------------------------------------------------------------------------------------- gaps */

static void check_gap_reason(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                             const struct llm_event *event)
{
    const struct sim_scenario *s = &world->scenario;
    const struct lli_tx *tx = check_tx(world, session);
    lli_seq trail = tx != NULL ? tx->history.trail : session->trail;
    bool allowed = true;

    switch (event->reason) {
    case LLM_REASON_GONE:
        /* A packet that contradicts the one before is taken for a lost one. */
        allowed = s->truncate_data || trail > session->start;
        if (!s->truncate_data && event->last + 1 > event->first)
            allowed = check_message_of(session, event->last)->seq < trail;
        break;
    case LLM_REASON_TIMEOUT:
        allowed = !check_is_unexcused(world, session, lli_min(s->nak_giveup, s->timeout));
        break;
    case LLM_REASON_OVERRUN:
        allowed = trail > session->start && trail - session->start > 0;
        break;
    case LLM_REASON_TOO_LONG:
        allowed = event->first == event->last && check_message_of(session, event->first)->size > s->message_bytes_max;
        break;
    case LLM_REASON_NONE:
    case LLM_REASON_CLOSED:
    case LLM_REASON_REPLACED:
        allowed = false;
        break;
    }
    if (!allowed)
        sim_fail(world, "node %u session %u: no reason to lose messages %llu to %llu with reason %d", node->index,
                 session->index, (unsigned long long)event->first, (unsigned long long)event->last, (int)event->reason);
}

static void check_gap(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      struct sim_follow *follow, const struct llm_event *event)
{
    uint64_t next = check_next(session, follow);

    if (event->first < follow->expected || event->first > next || event->last + 1 < event->first ||
        event->last + 1 > session->end) {
        sim_fail(world, "node %u session %u: messages %llu to %llu are told lost, %llu was next (%llu sent)", node->index,
                 session->index, (unsigned long long)event->first, (unsigned long long)event->last, (unsigned long long)next,
                 (unsigned long long)session->end);
        return;
    }
    check_gap_reason(world, node, session, event);
    follow->expected = lli_max(event->last + 1, follow->expected);
    follow->gapped = true;
}

/* --------------------------------------------------------------------------------------- begin and end */

static void check_new(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      struct sim_follow *follow, const struct llm_event *event)
{
    const struct lli_tx *tx = check_tx(world, session);
    const uint32_t ends = follow->ends;

    if (follow->open || follow->ended)
        sim_fail(world, "node %u: session %u is new again", node->index, session->index);
    if (event->first < session->first || event->first > session->end)
        sim_fail(world, "node %u: session %u begins with message %llu, %llu were sent", node->index, session->index,
                 (unsigned long long)event->first, (unsigned long long)session->end);
    /* Whatever heartbeat made it known, it said that the session is young. */
    if (tx != NULL && event->first != 0 && tx->history.trail == session->start &&
        sim_node_now(world, &world->nodes[session->node]) < tx->opened_at + LLI_TX_YOUNG)
        sim_fail(world, "node %u: session %u is young and complete, but followed from message %llu only", node->index,
                 session->index, (unsigned long long)event->first);
    *follow = (struct sim_follow){.open = true, .expected = event->first, .ends = ends};
    /* Half a message that began before is passed over in silence, and so are names told long ago, until they are learnt; a cut may hide one. */
    follow->gapped = event->first != 0 || session->first != 0 || world->scenario.truncate_data;
}

static void check_end(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      struct sim_follow *follow, const struct llm_event *event)
{
    bool closed = event->reason == LLM_REASON_CLOSED;

    if (event->first < follow->expected || event->first > check_next(session, follow))
        sim_fail(world, "node %u session %u: it ends before message %llu, %llu is next", node->index, session->index,
                 (unsigned long long)event->first, (unsigned long long)follow->expected);
    if (closed && !session->closed)
        sim_fail(world, "node %u: session %u was not closed", node->index, session->index);
    if (closed && check_next(session, follow) != session->end)
        sim_fail(world, "node %u session %u: it is over after message %llu of %llu", node->index, session->index,
                 (unsigned long long)event->first, (unsigned long long)session->end);
    if (!closed && check_is_unexcused(world, session, world->scenario.timeout))
        sim_fail(world, "node %u: session %u timed out without a reason", node->index, session->index);
    follow->open = false;
    follow->ended = closed;
    follow->ends++;
}

void sim_check_replaced(struct sim_world *world, struct sim_node *node, const struct lli_rx *rx)
{
    struct sim_session *session = check_session(world, rx->session);

    if (rx->state == LLI_RX_JOINING || session == NULL)
        return;
    sim_trace(world, "node %u forgets session %u", node->index, session->index);
    *check_follow(world, node->follower, session->index) = (struct sim_follow){.open = false};
}

static void check_topic(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                        struct sim_follow *follow, const struct llm_event *event)
{
    uint64_t bit = (uint64_t)1 << event->topic_id;

    if (!follow->open || event->topic_id >= session->topics || strcmp(event->topic, session->names[event->topic_id]) != 0 ||
        follow->topics & bit) {
        sim_fail(world, "node %u session %u: topic %u \"%s\" is not new, or not this", node->index, session->index,
                 event->topic_id, event->topic);
        return;
    }
    follow->topics |= bit;
    if (node->follower->refuses && event->topic_id % 3 == 1)
        follow->refused |= bit;
}

static void check_event(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                        struct sim_follow *follow, const struct llm_event *event)
{
    if (event->kind != LLM_EVENT_SESSION_NEW && !follow->open) {
        sim_fail(world, "node %u: event %d of session %u outside of it", node->index, (int)event->kind, session->index);
        return;
    }
    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        check_new(world, node, session, follow, event);
        break;
    case LLM_EVENT_SESSION_END:
        check_end(world, node, session, follow, event);
        break;
    case LLM_EVENT_GAP:
        check_gap(world, node, session, follow, event);
        break;
    case LLM_EVENT_TOPIC_NEW:
        check_topic(world, node, session, follow, event);
        break;
    case LLM_EVENT_HEARTBEAT_LOST:
    case LLM_EVENT_RESUMED:
        break;
    }
}

void sim_check_item(struct sim_world *world, struct sim_node *node, const struct lli_item *item)
{
    bool is_message = item->kind == LLI_ITEM_MESSAGES;
    struct sim_session *session = check_session(world, is_message ? item->messages[0].session : item->event.session);
    struct sim_follow *follow;

    if (session == NULL) {
        if (is_message || !world->scenario.forging)
            sim_fail(world, "node %u: something of a session that never was", node->index);
        return;
    }
    follow = check_follow(world, node->follower, session->index);
    if (is_message) {
        for (int i = 0; i < item->count; i++)
            check_message(world, node, session, follow, &item->messages[i]);
        return;
    }
    sim_trace(world, "node %u session %u: event %d reason %d, %llu to %llu%s%s", node->index, session->index,
              (int)item->event.kind, (int)item->event.reason, (unsigned long long)item->event.first,
              (unsigned long long)item->event.last, item->event.topic != NULL ? " " : "",
              item->event.topic != NULL ? item->event.topic : "");
    sim_digest(world, (uint64_t)item->event.kind << 56 ^ item->event.first);
    check_event(world, node, session, follow, &item->event);
}

/* ----------------------------------------------------------------------------------------------- budget */

void sim_check_repairs(struct sim_world *world, const struct sim_node *node, uint64_t burst)
{
    const struct sim_sender *sender = node->sender;
    const struct sim_scenario *s = &world->scenario;
    double elapsed = (double)(sim_node_now(world, node) - sender->opened_at) / 1e9;
    double budget = (double)burst + s->packet_max + (double)sender->data_bytes * s->repair_percent / 100 +
                    (double)s->repair_bytes_per_s * elapsed;

    if ((double)sender->repair_bytes > budget)
        sim_fail(world, "node %u: %llu bytes of repairs, %.0f are the budget", node->index,
                 (unsigned long long)sender->repair_bytes, budget);
}

void sim_check_suppression(struct sim_world *world)
{
    uint64_t asked = 0, lost = world->network.lost_source;

    for (uint32_t i = world->scenario.transmitters; i < world->network.nodes; i++)
        asked += world->nodes[i].follower->counters.nak_packets;
    sim_trace(world, "%llu packets lost by all were asked for %llu times", (unsigned long long)lost,
              (unsigned long long)asked);
    if (lost >= 20 && asked > lost * CHECK_NAKS_SHARED)
        sim_fail(world, "%llu packets lost by all were asked for %llu times", (unsigned long long)lost,
                 (unsigned long long)asked);
}

/* ----------------------------------------------------------------------------------------------- memory */

/* More NAKs for a packet in this time than doubling the distance, spread downwards by a quarter, allows. */
static bool check_is_pestering(const struct sim_scenario *s, const struct lli_gap_slot *slot, lli_ns now)
{
    lli_ns at = slot->since, distance = s->nak_retry_min;
    unsigned tries = 1;

    for (; tries < slot->tries && at <= now; tries++) {
        at += distance - distance / 4;
        if (tries >= 4)
            distance = lli_min(2 * distance, lli_max(s->nak_retry_max, s->nak_retry_min));
    }
    return at > now && tries > 1;
}

/* Checks a session's window; returns how many packets it holds. */
static uint32_t check_window(struct sim_world *world, const struct sim_node *node, const struct lli_rx *rx)
{
    const struct lli_gap *gap = &rx->gap;
    lli_ns now = sim_node_now(world, node);
    uint64_t missing = 0, bits = 0, present = 0;

    for (lli_seq seq = gap->next; seq < gap->end; seq++) {
        const struct lli_gap_slot *slot = &gap->slots[seq & gap->mask];

        if (lli_gap_is_present(gap, seq)) {
            present++;
            continue;
        }
        missing++;
        if (slot->nak_at < gap->due_at && !gap->held_back)
            sim_fail(world, "node %u: packet %llu is to be asked for before anything is due", node->index,
                     (unsigned long long)seq);
        if (check_is_pestering(&world->scenario, slot, now))
            sim_fail(world, "node %u: packet %llu was asked for %u times in %llu ns", node->index, (unsigned long long)seq,
                     slot->tries, (unsigned long long)(now - slot->since));
    }
    for (uint64_t i = 0; i < lli_gap_window(gap) / 64; i++)
        bits += (uint64_t)__builtin_popcountll(gap->present[i]);
    if (missing != gap->missing || bits != present || gap->end - gap->next > lli_gap_window(gap))
        sim_fail(world, "node %u: window %llu to %llu: %llu missing, %llu counted; %llu present, %llu bits", node->index,
                 (unsigned long long)gap->next, (unsigned long long)gap->end, (unsigned long long)missing,
                 (unsigned long long)gap->missing, (unsigned long long)present, (unsigned long long)bits);
    return (uint32_t)present + (rx->current_cell != LLI_REORDER_NONE);
}

void sim_check_memory(struct sim_world *world, const struct sim_node *node)
{
    const struct sim_follower *follower = node->follower;
    uint32_t held = 0;

    for (uint32_t i = 0; i < follower->used; i++)
        if (follower->sessions[i].state != LLI_RX_FREE)
            held += check_window(world, node, &follower->sessions[i]);
    if (held != follower->reorder.used || held > follower->reorder.count)
        sim_fail(world, "node %u: %u packets are held, %u of %u cells used", node->index, held, follower->reorder.used,
                 follower->reorder.count);
}

/* --------------------------------------------------------------------------------------------- liveness */

bool sim_check_caught_up(struct sim_world *world, const struct sim_node *node, const struct sim_session *session)
{
    const struct lli_tx *tx = check_tx(world, session);
    const struct lli_rx *rx = sim_follower_find(node->follower, session);
    const struct sim_follow *follow = check_follow(world, node->follower, session->index);

    if (rx == NULL || rx->state != LLI_RX_LIVE)
        return false;
    return follow->open && rx->gap.missing == 0 && rx->gap.next == tx->sent && tx->sent == tx->history.next &&
           (check_next(session, follow) == session->end || world->scenario.truncate_data);
}

bool sim_check_is_over(struct sim_world *world, const struct sim_node *node, const struct sim_session *session)
{
    const struct lli_rx *rx = sim_follower_find(node->follower, session);

    return !check_follow(world, node->follower, session->index)->open &&
           (rx == NULL || rx->state == LLI_RX_ENDED || rx->state == LLI_RX_JOINING);
}
