/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

/* Mean number of NAKs for a packet that all receivers lost. */
enum { CHECK_NAKS_SHARED = 10 };

/*
 * Allowed delay of a message in a crowd: the packet is lost a few times in a row, at one loss in a hundred.
 */
#define CHECK_CROWD_LATE (50 * SIM_MS)

static struct sim_session *check_session(const struct sim_world *world, uint64_t id)
{
    for (uint32_t i = 0; i < world->sessions_count; i++)
        if (world->sessions[i]->id == id)
            return world->sessions[i];
    return NULL;
}

static struct sim_follow *check_follow(const struct sim_world *world, struct sim_follower *follower,
                                       uint32_t index)
{
    if (index >= follower->follows_count) {
        uint32_t count = world->sessions_count;

        follower->follows = sim_memory_grow(follower->follows, count * sizeof *follower->follows);
        memset(follower->follows + follower->follows_count, 0,
               (count - follower->follows_count) * sizeof *follower->follows);
        follower->marks = sim_memory_grow(follower->marks, count * sizeof *follower->marks);
        memset(follower->marks + follower->follows_count, 0,
               (count - follower->follows_count) * sizeof *follower->marks);
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

/* Returns true if a message was sent before a receiver joined, on a topic without history. */
static bool check_is_stale(const struct sim_world *world, const struct sim_session *session,
                           const struct sim_follow *follow, uint64_t number)
{
    return number < follow->live && !check_message_of(session, number)->skipped &&
           sim_is_transient(world, session, check_message_of(session, number)->topic);
}

static bool check_is_wanted(const struct sim_world *world, const struct sim_session *session,
                            const struct sim_follow *follow, uint64_t number)
{
    const struct sim_message *message = check_message_of(session, number);
    const struct lli_filter *filter = follow->filter;

    /* It does not come, but has to be told. */
    if (message->skipped)
        return true;
    return !(follow->refused >> message->topic & 1) && !check_is_stale(world, session, follow, number) &&
           (filter == NULL || (message->label & filter->labels[0].mask) == filter->labels[0].match);
}

/* Returns true if a message was delivered to a receiver with unordered delivery. */
static bool check_was_given(const struct sim_session *session, const struct sim_follow *follow,
                            uint64_t number)
{
    return number < follow->given_end && follow->given.bytes[number - session->first] != 0;
}

/*
 * Returns the next message to be delivered: skips refused topics, messages that the filter rejects, stale
 * messages, and delivered ones.
 */
static uint64_t check_next(const struct sim_world *world, const struct sim_session *session,
                           const struct sim_follow *follow)
{
    uint64_t number = follow->expected;

    while (number < session->end &&
           (!check_is_wanted(world, session, follow, number) || check_was_given(session, follow, number)))
        number++;
    return number;
}

/* Unordered delivery: checks that a message is delivered once and, during replay, in order. */
static bool check_arrives(const struct sim_world *world, const struct sim_session *session,
                          struct sim_follow *follow, uint64_t number)
{
    const size_t place = (size_t)(number - session->first);
    struct sim_marks *marks = &follow->given;

    if (number >= session->end || number < check_next(world, session, follow) ||
        check_was_given(session, follow, number) || !check_is_wanted(world, session, follow, number) ||
        ((follow->late || follow->young) && number != check_next(world, session, follow)))
        return false;
    if (place >= marks->room) {
        const size_t room = marks->room;

        marks->room = place * 2 + 64;
        marks->bytes = sim_memory_grow(marks->bytes, marks->room);
        memset(marks->bytes + room, 0, marks->room - room);
    }
    marks->bytes[place] = 1;
    follow->given_end = lli_max(follow->given_end, number + 1);
    return true;
}

/* Forgets the deliveries of a session that begins, begins again, or is forgotten. */
static struct sim_marks check_forget(const struct sim_follow *follow)
{
    if (follow->given.room > 0)
        memset(follow->given.bytes, 0, follow->given.room);
    return follow->given;
}

/* Returns true if no fault can have separated a receiver and a transmitter for this long. */
static bool check_is_unexcused(const struct sim_world *world, const struct sim_session *session, lli_ns ns)
{
    return session->alive && world->scenario.outage + 5 * SIM_S < ns;
}

/* --------------------------------------------------------------------------------------------- messages */

static void check_message(struct sim_world *world, struct sim_node *node, struct sim_session *session,
                          struct sim_follow *follow, const struct llm_message *message)
{
    const struct sim_message *sent;
    uint64_t expected = check_next(world, session, follow);
    const bool turn = message->number == expected;
    const bool kept = sim_late_is_kept(follow, message->number);
    const bool arrives = node->follower->config.as_it_arrives;

    if (!follow->open) {
        sim_fail(world, "node %u: message %llu of session %u outside of it", node->index,
                 (unsigned long long)message->number, session->index);
        return;
    }
    /* Without the name, the topic cannot be checked. */
    if (message->number < session->end && message->topic[0] == '\0' && follow->gapped &&
        check_is_stale(world, session, follow, message->number))
        return;
    if (message->number >= session->end ||
        (kept      ? false
         : arrives ? !check_arrives(world, session, follow, message->number)
                   : !turn)) {
        sim_fail(world, "node %u session %u: message %llu came, %llu was next (%llu sent)", node->index,
                 session->index, (unsigned long long)message->number, (unsigned long long)expected,
                 (unsigned long long)session->end);
        return;
    }
    sent = check_message_of(session, message->number);
    if (sent->skipped)
        sim_fail(world, "node %u session %u: message %llu was skipped, and came", node->index, session->index,
                 (unsigned long long)message->number);
    if (message->topic_id != sent->topic || message->size != sent->size ||
        !sim_message_is(message->data, message->size, session->id, message->number))
        sim_fail(world, "node %u session %u: message %llu is not what was sent", node->index, session->index,
                 (unsigned long long)message->number);
    /* A name announced before the first packet of a join is queried, and a transmitter that is gone does not answer. */
    if (strcmp(message->topic, session->names[sent->topic]) != 0 &&
        (message->topic[0] != '\0' ||
         !(follow->gapped || (check_tx(world, session) == NULL && !(follow->topics >> sent->topic & 1)))))
        sim_fail(world, "node %u session %u: message %llu on topic \"%s\", sent on \"%s\"", node->index,
                 session->index, (unsigned long long)message->number, message->topic,
                 session->names[sent->topic]);
    if (message->topic[0] != '\0' && !(follow->topics >> sent->topic & 1))
        sim_fail(world, "node %u session %u: message %llu before its topic \"%s\"", node->index,
                 session->index, (unsigned long long)message->number, message->topic);
    if (turn)
        follow->expected = message->number + 1;
    if (world->scenario.crowd && node->index <= SIM_CROWD_LIVE && world->now > sent->at + CHECK_CROWD_LATE)
        sim_fail(world, "node %u: message %llu is %llu us late because others join", node->index,
                 (unsigned long long)message->number, (unsigned long long)((world->now - sent->at) / SIM_US));
    if (kept)
        sim_late_message(world, node, session, follow, message->number);
    else
        sim_check_given(world, node, session, message->number);
    world->delivered++;
    sim_digest(world, message->number);
}

/* ------------------------------------------------------------------------------------------------- gaps */

/* Returns the last of these messages that is repaired for a receiver; NULL: none is. */
static const struct sim_message *check_reliable(const struct sim_world *world,
                                                const struct sim_session *session,
                                                const struct sim_follow *follow, uint64_t first, uint64_t end)
{
    while (end-- > first)
        if ((check_message_of(session, end)->skipped ||
             !sim_is_unreliable(world, session, check_message_of(session, end)->topic)) &&
            !check_is_stale(world, session, follow, end))
            return check_message_of(session, end);
    return NULL;
}

/* Returns true if the session skipped all of these numbers. */
static bool check_is_skipped(const struct sim_session *session, uint64_t first, uint64_t end)
{
    while (first < end && check_message_of(session, first)->skipped)
        first++;
    return first == end;
}

/* Returns true if the policy allows this standing, and is not a dry run. */
static bool check_may_be(const struct sim_scenario *s, enum lli_standing standing)
{
    return s->slow.most >= standing && !s->slow.dry;
}

static void check_gap_reason(struct sim_world *world, const struct sim_node *node,
                             const struct sim_session *session, const struct sim_follow *follow,
                             const struct llm_event *event)
{
    const struct sim_scenario *s = &world->scenario;
    const struct lli_tx *tx = check_tx(world, session);
    const struct sim_message *reliable =
        check_reliable(world, session, follow, event->first, event->last + 1);
    lli_seq trail = tx != NULL ? tx->history.trail : session->trail;
    bool allowed = true;

    switch (event->reason) {
    case LLM_REASON_GONE:
        allowed = trail > session->start;
        if (reliable != NULL)
            allowed = reliable->seq < trail;
        break;
    case LLM_REASON_TIMEOUT:
        /*
         * With unordered delivery and full memory no room is made: the next packets arrive one at a time (ADR
         * 23).
         */
        allowed = !check_is_unexcused(world, session, lli_min(s->nak_giveup, s->timeout)) ||
                  (node->follower->config.as_it_arrives && node->follower->counters.reorder_full > 0);
        break;
    case LLM_REASON_REPLACED:
        /* Only for a message that had begun. */
        allowed = event->packets == 0 && event->first == event->last;
        break;
    case LLM_REASON_OVERRUN:
        allowed = trail > session->start && trail - session->start > 0;
        break;
    case LLM_REASON_TOO_LONG:
        allowed = event->first == event->last &&
                  check_message_of(session, event->first)->size > s->message_bytes_max;
        break;
    case LLM_REASON_SUSPENDED:
        allowed = check_may_be(s, LLI_STANDING_SUSPENDED) &&
                  (tx == NULL || tx->slow.decided[LLI_STANDING_SUSPENDED] > 0);
        break;
    case LLM_REASON_EXPELLED:
        allowed = check_may_be(s, LLI_STANDING_EXPELLED) &&
                  (tx == NULL || tx->slow.decided[LLI_STANDING_EXPELLED] > 0);
        break;
    case LLM_REASON_UNRELIABLE:
        allowed = s->unreliable > 0 && reliable == NULL;
        break;
    case LLM_REASON_SKIPPED:
        allowed = event->packets == 0 && check_is_skipped(session, event->first, event->last + 1);
        break;
    case LLM_REASON_SUPERSEDED:
        allowed = sim_streams_may_supersede(world, session);
        break;
    case LLM_REASON_NONE:
    case LLM_REASON_RESTARTED:
    case LLM_REASON_TERM_TAKEN:
    case LLM_REASON_IN_CLEAR:
    case LLM_REASON_KEYS:
    case LLM_REASON_SEAL:
    case LLM_REASON_UNSEALED:
    case LLM_REASON_CLOSED:
    case LLM_REASON_MALFORMED:
    case LLM_REASON_HISTORY:
    case LLM_REASON_UNANSWERED:
    case LLM_REASON_NOT_SENT:
    case LLM_REASON_NO_CACHE:
    case LLM_REASON_REFUSED:
    case LLM_REASON_FULL:
    case LLM_REASON_ABANDONED:
    case LLM_REASON_BROKEN:
    case LLM_REASON_RECEIVERS_FEW:
    case LLM_REASON_RECEIVER_ABSENT:
    case LLM_REASON_GIVEN_UP:
    case LLM_REASON_PENDING:
    case LLM_REASON_DISK:
    case LLM_REASON_DISK_FULL:
    case LLM_REASON_NO_ROUTE:
    case LLM_REASON_ADDRESS:
    case LLM_REASON_FORBIDDEN:
    case LLM_REASON_DAMAGED:
        allowed = false;
        break;
    }
    if (!allowed)
        sim_fail(world, "node %u session %u: no reason to lose messages %llu to %llu with reason %d",
                 node->index, session->index, (unsigned long long)event->first,
                 (unsigned long long)event->last, (int)event->reason);
}

static void check_gap(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      struct sim_follow *follow, const struct llm_event *event)
{
    uint64_t next = check_next(world, session, follow);
    /* For unwanted messages it is not visible if they preceded the unordered ones. */
    const uint64_t low = node->follower->config.as_it_arrives ? follow->told : follow->expected;

    if (event->reason == LLM_REASON_TOO_LONG && sim_late_is_kept(follow, event->first)) {
        sim_late_message(world, node, session, follow, event->first);
        return;
    }
    if (event->first < low || event->first > next || event->last + 1 < event->first ||
        event->last + 1 > session->end) {
        sim_fail(world, "node %u session %u: messages %llu to %llu are told lost, %llu was next (%llu sent)",
                 node->index, session->index, (unsigned long long)event->first,
                 (unsigned long long)event->last, (unsigned long long)next, (unsigned long long)session->end);
        return;
    }
    /* Without messages, as for a lost packet of announcements, last is one below first: at 0 it wraps. */
    for (uint64_t number = event->first; number < event->last + 1 && number < follow->given_end; number++)
        if (check_was_given(session, follow, number))
            sim_fail(world, "node %u session %u: message %llu is told lost, and came", node->index,
                     session->index, (unsigned long long)number);
    check_gap_reason(world, node, session, follow, event);
    if (world->scenario.crowd && node->index <= SIM_CROWD_LIVE)
        sim_fail(world, "node %u: messages %llu to %llu are lost because others join", node->index,
                 (unsigned long long)event->first, (unsigned long long)event->last);
    follow->expected = lli_max(event->last + 1, follow->expected);
    follow->told = event->last + 1;
    follow->gapped |= event->reason != LLM_REASON_UNRELIABLE;
}

/* ------------------------------------------------------------------------------------------ late join */

static const char *const check_joins[] = {"live", "oldest", "messages", "time", "number", "latest"};

/*
 * Returns the number of the first unsent message; one message is known to start in its packet or later:
 * early.
 */
static uint64_t check_unsent(const struct sim_world *world, const struct sim_session *session, bool early)
{
    const struct lli_tx *tx = check_tx(world, session);
    uint64_t number = session->end;

    while (tx != NULL && number > session->first &&
           check_message_of(session, number - 1)->seq + early >= tx->sent)
        number--;
    return number;
}

static struct llm_join check_draw(uint64_t *random, const struct sim_session *session, uint64_t seen)
{
    struct llm_join join = {.mode = (enum llm_join_mode)lli_random_below(random, LLM_JOIN_NUMBER + 1)};

    if (seen != 0 && lli_random_below(random, 4) != 0)
        return (struct llm_join){LLM_JOIN_NUMBER, seen};
    if (join.mode == LLM_JOIN_MESSAGES)
        join.value = lli_random_below(random, 300);
    if (join.mode == LLM_JOIN_TIME)
        join.value = lli_random_below(random, 300) * SIM_MS;
    if (join.mode == LLM_JOIN_NUMBER)
        join.value = session->first + lli_random_below(random, session->end - session->first + 2);
    return join;
}

struct llm_join sim_check_choose(struct sim_world *world, struct sim_node *node, uint64_t id)
{
    struct sim_session *session = check_session(world, id);
    struct sim_follow *follow;

    /* Forged session: there is no answer. */
    if (session == NULL)
        return (struct llm_join){.mode = LLM_JOIN_LIVE};
    follow = check_follow(world, node->follower, session->index);
    follow->join = check_draw(&world->random_join, session,
                              session->index < node->seen_count ? node->seen[session->index] : 0);
    sim_late_choose(world, &follow->join);
    if (world->scenario.crowd && node->index <= SIM_CROWD_LIVE)
        follow->join = (struct llm_join){.mode = LLM_JOIN_LIVE};
    follow->asked = check_unsent(world, session, true);
    follow->late = follow->denied = false;
    follow->keeping = check_tx(world, session) != NULL && check_tx(world, session)->lvc.count > 0;
    sim_trace(world, "node %u session %u: join %s %llu", node->index, session->index,
              check_joins[follow->join.mode], (unsigned long long)follow->join.value);
    return follow->join;
}

static void check_refused(struct sim_world *world, const struct sim_node *node,
                          const struct sim_session *session, struct sim_follow *follow,
                          const struct llm_event *event)
{
    const struct lli_tx *tx = check_tx(world, session);
    const lli_seq trail = tx != NULL ? tx->history.trail : session->trail;
    const struct llm_join *join = &follow->join;
    bool allowed;

    if (event->reason == LLM_REASON_HISTORY)
        allowed =
            join->mode != LLM_JOIN_OLDEST && trail > session->start &&
            (join->mode != LLM_JOIN_NUMBER || (event->first == join->value && join->value < event->last &&
                                               check_message_of(session, join->value)->seq < trail));
    else if (event->reason == LLM_REASON_NO_CACHE)
        allowed = join->mode == LLM_JOIN_LATEST && !follow->keeping;
    else if (event->reason == LLM_REASON_NOT_SENT)
        allowed = join->mode == LLM_JOIN_NUMBER && event->first == join->value && join->value > follow->asked;
    else
        allowed =
            !check_is_unexcused(world, session, lli_min(world->scenario.nak_giveup, world->scenario.timeout));
    if (follow->open || join->mode == LLM_JOIN_LIVE || !allowed)
        sim_fail(world, "node %u session %u: join %s %llu was refused for reason %d: %llu, %llu", node->index,
                 session->index, check_joins[join->mode], (unsigned long long)join->value, (int)event->reason,
                 (unsigned long long)event->first, (unsigned long long)event->last);
    follow->denied = true;
}

/* Checks that a late join begins at the requested position. */
static bool check_is_asked(const struct sim_world *world, const struct sim_session *session,
                           const struct sim_follow *follow, uint64_t first)
{
    const uint64_t back = follow->join.value;
    const uint64_t sent = check_unsent(world, session, false);
    /* Unacknowledged messages may precede it. */
    const bool assured = world->scenario.assured > 0;

    switch (follow->join.mode) {
    case LLM_JOIN_NUMBER:
        return first == back || (assured && first < back);
    case LLM_JOIN_MESSAGES:
        return (assured ||
                first >= (follow->asked > session->first + back ? follow->asked - back : session->first)) &&
               first <= (sent > session->first + back ? sent - back : session->first);
    case LLM_JOIN_TIME:
        /* A clock that jumped had another value then. */
        for (uint32_t i = 0; i < world->scenario.faults_count; i++)
            if (world->scenario.faults[i].kind == SIM_FAULT_STEP)
                return true;
        return first == session->first || check_message_of(session, first - 1)->at + back < world->now;
    case LLM_JOIN_OLDEST:
        return first == session->first || session->trail > session->start ||
               (check_tx(world, session) != NULL && check_tx(world, session)->history.trail > session->start);
    case LLM_JOIN_LATEST:
        return first <= sent && (assured || first >= follow->asked);
    case LLM_JOIN_LIVE:
        break;
    }
    return false;
}

static void check_late(struct sim_world *world, struct sim_node *node, const struct sim_session *session,
                       const struct sim_follow *follow, uint64_t first)
{
    if (follow->late && !follow->denied && !check_is_asked(world, session, follow, first))
        sim_fail(world, "node %u session %u: begins with message %llu, join %s %llu was asked for",
                 node->index, session->index, (unsigned long long)first, check_joins[follow->join.mode],
                 (unsigned long long)follow->join.value);
}

static void check_live(struct sim_world *world, const struct sim_node *node,
                       const struct sim_session *session, struct sim_follow *follow,
                       const struct llm_event *event)
{
    if ((!follow->late && !follow->young) || event->first < follow->expected ||
        event->first > check_next(world, session, follow))
        sim_fail(world, "node %u session %u: live from message %llu on, %llu is next", node->index,
                 session->index, (unsigned long long)event->first, (unsigned long long)follow->expected);
    if (follow->late)
        sim_late_live(world, node, session, follow);
    follow->late = follow->young = false;
}

/* --------------------------------------------------------------------------------------- begin and end */

static void check_new(struct sim_world *world, struct sim_node *node, const struct sim_session *session,
                      struct sim_follow *follow, const struct llm_event *event)
{
    const struct lli_tx *tx = check_tx(world, session);
    const struct lli_rx *rx = sim_follower_find(node->follower, session);
    const struct sim_follow before = *follow;

    if (follow->open || follow->ended)
        sim_fail(world, "node %u: session %u is new again", node->index, session->index);
    if (event->first < session->first || event->first > session->end)
        sim_fail(world, "node %u: session %u begins with message %llu, %llu were sent", node->index,
                 session->index, (unsigned long long)event->first, (unsigned long long)session->end);
    /* Any heartbeat that announced the session marked it as young. */
    if (tx != NULL && event->first != 0 && !before.left && follow->join.mode != LLM_JOIN_NUMBER &&
        tx->history.trail == session->start &&
        sim_node_now(world, &world->nodes[session->node]) < tx->opened_at + LLI_TX_YOUNG)
        sim_fail(world, "node %u: session %u is young and complete, but followed from message %llu only",
                 node->index, session->index, (unsigned long long)event->first);
    if (before.left && node->follower->config.resumes && event->first != before.left_at)
        sim_fail(world, "node %u: session %u goes on with message %llu, %llu was next", node->index,
                 session->index, (unsigned long long)event->first, (unsigned long long)before.left_at);
    if (!before.left || !node->follower->config.resumes)
        sim_check_begins(world, node, session, event->first);
    *follow = (struct sim_follow){.open = true,
                                  .expected = event->first,
                                  .ends = before.ends,
                                  .join = before.join,
                                  .asked = before.asked,
                                  .denied = before.denied,
                                  .filter = node->follower->config.filter,
                                  .given = check_forget(&before)};
    follow->late = rx != NULL && rx->pending.lag & LLI_RX_REPLAYING;
    follow->young = rx != NULL && rx->pending.lag & LLI_RX_YOUNG;
    follow->live = rx != NULL ? rx->join.live : 0;
    if (follow->live > check_unsent(world, session, false) ||
        (follow->late && follow->live < lli_max(before.asked, event->first)))
        sim_fail(world, "node %u: session %u is live from message %llu on, not between %llu and %llu",
                 node->index, session->index, (unsigned long long)follow->live,
                 (unsigned long long)before.asked, (unsigned long long)check_unsent(world, session, false));
    check_late(world, node, session, follow, event->first);
    sim_late_begin(world, session, follow, event->first);
    /*
     * The rest of a message begun before is skipped silently, and so are earlier names of topics, until they
     * are learnt.
     */
    follow->gapped = event->first != 0 || session->first != 0;
}

static void check_end(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      struct sim_follow *follow, const struct llm_event *event)
{
    bool closed = event->reason == LLM_REASON_CLOSED;
    const bool superseded = event->reason == LLM_REASON_SUPERSEDED;
    /* A receiver that takes messages as they arrive cannot know that a missing packet has none that it wants. */
    const bool ahead =
        node->follower->config.as_it_arrives && !check_was_given(session, follow, event->first);

    if ((event->first < follow->expected && !ahead) || event->first > check_next(world, session, follow))
        sim_fail(world, "node %u session %u: it ends before message %llu, %llu is next", node->index,
                 session->index, (unsigned long long)event->first, (unsigned long long)follow->expected);
    if (closed && !session->closed)
        sim_fail(world, "node %u: session %u was not closed", node->index, session->index);
    if (closed && check_next(world, session, follow) != session->end)
        sim_fail(world, "node %u session %u: it is over after message %llu of %llu", node->index,
                 session->index, (unsigned long long)event->first, (unsigned long long)session->end);
    if (event->reason == LLM_REASON_EXPELLED && !check_may_be(&world->scenario, LLI_STANDING_EXPELLED))
        sim_fail(world, "node %u session %u: expelled, which the policy does not allow", node->index,
                 session->index);
    if (superseded && !sim_streams_may_supersede(world, session))
        sim_fail(world, "node %u session %u: no other session continues it", node->index, session->index);
    if (!closed && !superseded && event->reason != LLM_REASON_EXPELLED &&
        check_is_unexcused(world, session, world->scenario.timeout))
        sim_fail(world, "node %u: session %u timed out without a reason", node->index, session->index);
    follow->open = false;
    follow->ended = closed || superseded;
    follow->left = event->reason == LLM_REASON_TIMEOUT;
    follow->left_at = event->first;
    follow->ends++;
}

void sim_check_replaced(struct sim_world *world, struct sim_node *node, const struct lli_rx *rx)
{
    struct sim_session *session = check_session(world, rx->session);
    struct sim_follow *follow;

    if (rx->state == LLI_RX_JOINING || session == NULL)
        return;
    sim_trace(world, "node %u forgets session %u", node->index, session->index);
    follow = check_follow(world, node->follower, session->index);
    sim_streams_left(node, session, lli_rx_delivered(rx));
    *follow = (struct sim_follow){.given = check_forget(follow),
                                  .left_at = lli_rx_delivered(rx),
                                  .left = rx->state == LLI_RX_LIVE && follow->open &&
                                          !node->follower->config.as_it_arrives};
}

static void check_topic(struct sim_world *world, const struct sim_node *node,
                        const struct sim_session *session, struct sim_follow *follow,
                        const struct llm_event *event)
{
    uint64_t bit = (uint64_t)1 << event->topic_id;

    if (!follow->open || event->topic_id >= session->topics ||
        strcmp(event->topic, session->names[event->topic_id]) != 0 || follow->topics & bit) {
        sim_fail(world, "node %u session %u: topic %u \"%s\" is not new, or not this", node->index,
                 session->index, event->topic_id, event->topic);
        return;
    }
    follow->topics |= bit;
    if (node->follower->refuses && event->topic_id % 3 == 1)
        follow->refused |= bit;
}

/* A line is down at most once, and then up; with one line there is neither. */
static void check_line(struct sim_world *world, const struct sim_node *node, struct sim_follow *follow,
                       const struct llm_event *event)
{
    const bool down = event->kind == LLM_EVENT_LINE_DOWN;
    const unsigned line = 1u << (event->first & 3);

    if (world->scenario.lines < 2 || event->first < 1 || event->first > 2 ||
        ((follow->lines_down & line) != 0) == down)
        sim_fail(world, "node %u: line %llu is %s, and was before", node->index,
                 (unsigned long long)event->first, down ? "down" : "up");
    follow->lines_down ^= line;
}

static void check_event(struct sim_world *world, struct sim_node *node, const struct sim_session *session,
                        struct sim_follow *follow, const struct llm_event *event)
{
    if (event->kind != LLM_EVENT_SESSION_NEW && event->kind != LLM_EVENT_JOIN_REFUSED &&
        event->kind != LLM_EVENT_STREAM_REFUSED && !follow->open) {
        sim_fail(world, "node %u: event %d of session %u outside of it", node->index, (int)event->kind,
                 session->index);
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
    case LLM_EVENT_JOIN_REFUSED:
        check_refused(world, node, session, follow, event);
        break;
    case LLM_EVENT_LIVE:
        check_live(world, node, session, follow, event);
        break;
    case LLM_EVENT_CACHE_LOST:
        sim_late_lost(world, node, session, follow, event,
                      !check_is_unexcused(world, session,
                                          lli_min(world->scenario.nak_giveup, world->scenario.timeout)));
        break;
    case LLM_EVENT_WARNED:
    case LLM_EVENT_UNICAST_ONLY:
    case LLM_EVENT_SUSPENDED:
    case LLM_EVENT_EXPELLED:
    case LLM_EVENT_READMITTED:
        sim_check_verdict(world, event);
        if (event->verdict->receiver != node->follower->config.receiver || world->scenario.slow.dry)
            sim_fail(world, "node %u session %u: a verdict on another receiver, or none in earnest",
                     node->index, session->index);
        break;
    case LLM_EVENT_ACKNOWLEDGED:
    case LLM_EVENT_UNACKNOWLEDGED:
    case LLM_EVENT_LIMITED:
    case LLM_EVENT_STORE_STOPPED:
    case LLM_EVENT_RECEIVER_LIMITED:
        sim_fail(world, "node %u session %u: a receiver is told of acknowledgements", node->index,
                 session->index);
        break;
    case LLM_EVENT_CONNECTED:
    case LLM_EVENT_DISCONNECTED:
    case LLM_EVENT_UNREACHABLE:
    case LLM_EVENT_KEYS:
    case LLM_EVENT_FORGED:
    case LLM_EVENT_DIVERGED:
        sim_fail(world, "node %u session %u: a receiver is told of a connection or a network", node->index,
                 session->index);
        break;
    case LLM_EVENT_HEARTBEAT_LOST:
    case LLM_EVENT_RESUMED:
    case LLM_EVENT_STREAM_GAP:
    case LLM_EVENT_STREAM_AGAIN:
    case LLM_EVENT_STREAM_REFUSED:
        break;
    case LLM_EVENT_LINE_DOWN:
    case LLM_EVENT_LINE_UP:
        check_line(world, node, follow, event);
        break;
    }
}

void sim_check_item(struct sim_world *world, struct sim_node *node, const struct lli_item *item)
{
    bool is_message = item->kind == LLI_ITEM_MESSAGES;
    struct sim_session *session =
        check_session(world, is_message ? item->messages[0].session : item->event.session);
    struct sim_follow *follow;

    if (session == NULL) {
        if (is_message || !world->scenario.forging)
            sim_fail(world, "node %u: something of a session that never was", node->index);
        return;
    }
    follow = check_follow(world, node->follower, session->index);
    sim_streams_item(world, node, session, item);
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

/* --------------------------------------------------------------------------------------- slow receivers */

void sim_check_repair_to(struct sim_world *world, const struct sim_node *node,
                         const struct lli_wire_address *to)
{
    const struct lli_members *members = &node->sender->tx.members;
    bool served = false, known = false;

    /* A receiver that died has left its address to the next. */
    for (uint32_t i = 0; i < members->limit; i++) {
        const struct lli_member *member = &members->table[i];

        if (member->id == 0 || member->address.size != to->size ||
            memcmp(member->address.bytes, to->bytes, to->size) != 0)
            continue;
        known = true;
        served |= member->standing < LLI_STANDING_SUSPENDED;
    }
    if (known && !served)
        sim_fail(world, "node %u: a repair goes to a receiver that is suspended", node->index);
}

void sim_check_notice(struct sim_world *world, struct sim_node *node, const struct lli_packet *packet)
{
    const lli_ns now = sim_node_now(world, node), interval = lli_slow_interval(&node->sender->tx.slow);
    struct lli_wire_header header;
    struct lli_wire_notice notice;
    const uint8_t *body;
    uint32_t to;
    size_t size;

    if (lli_wire_get_header(packet->data, packet->size, &header, &body, &size) != LLI_WIRE_OK ||
        header.type != LLI_WIRE_NOTICE)
        return;
    if (!lli_wire_get_notice(body, size, header.tag, &notice) || packet->to == NULL ||
        !sim_address_node(&world->network, packet->to, &to)) {
        sim_fail(world, "node %u: a notice that cannot be read, or to nobody", node->index);
        return;
    }
    if (node->sender->notices[to].receiver == notice.receiver &&
        now < node->sender->notices[to].at + interval)
        sim_fail(world, "node %u: two notices to node %u within %llu ns", node->index, to,
                 (unsigned long long)(now - node->sender->notices[to].at));
    node->sender->notices[to].receiver = notice.receiver;
    node->sender->notices[to].at = now;
}

/* Returns the maximum time in which the policy detects a slow receiver. */
static lli_ns check_judge_patience(const struct sim_scenario *s, const struct lli_tx *tx)
{
    return 2 * (lli_slow_interval(&tx->slow) + s->heartbeat_busy) + s->heartbeat_min;
}

/* Time for which one of so many receivers may be silent. */
static lli_ns check_silence(const struct sim_scenario *s, uint64_t crowd)
{
    return s->slow.limits[LLM_THRESHOLD_SILENCE] * lli_max(1, crowd / 10);
}

/*
 * Each of many receivers may be silent for longer; after some have left, the next evaluation is pending. One that was heard when
 * they were most may be silent as long as one of those.
 */
static void check_crowd(const struct sim_scenario *s, struct sim_sender *sender, lli_ns now)
{
    const uint32_t count = sender->tx.members.count;
    const lli_ns patience = check_judge_patience(s, &sender->tx);

    if (count >= sender->most || now > sender->most_at + check_silence(s, sender->most) + patience) {
        sender->most = count;
        sender->most_at = now;
    }
    if (count < sender->crowd && now <= sender->crowd_at + patience)
        return;
    sender->crowd = count;
    sender->crowd_at = now;
}

/* Returns true if flow control waits for a receiver that was silent for too long. */
static bool check_is_waited_for(const struct sim_scenario *s, const struct sim_sender *sender, uint32_t index,
                                lli_ns now)
{
    const struct lli_tx *tx = &sender->tx;
    const struct lli_member *member = &tx->members.table[index];
    const struct lli_slow_record *record = &tx->slow.table[index];
    const uint32_t crowd = record->heard_at <= sender->most_at ? sender->most : sender->crowd;
    /* The latest heartbeat that it is known to have heard may have been for a larger crowd, which reports less often. */
    const uint64_t heard = 10 * (member->report_ns / s->status);

    return member->standing < LLI_STANDING_SUSPENDED && record->id == member->id && record->next != 0 &&
           record->next < tx->slow.sent.counted &&
           now > record->heard_at + check_silence(s, lli_max(crowd, heard)) + check_judge_patience(s, tx);
}

void sim_check_judge(struct sim_world *world, const struct sim_node *node)
{
    const struct sim_scenario *s = &world->scenario;
    const struct lli_tx *tx = &node->sender->tx;
    const lli_ns now = sim_node_now(world, node);
    lli_seq limit = 0;
    bool excluded = false;

    check_crowd(s, node->sender, now);
    for (uint32_t i = 0, seen = 0; seen < tx->members.count; i++) {
        const struct lli_member *member = &tx->members.table[i];

        if (member->id == 0)
            continue;
        seen++;
        excluded |= member->standing >= LLI_STANDING_SUSPENDED;
        if (lli_member_counts(member) && member->next != 0)
            limit = lli_max(limit, member->next + 2 * (uint64_t)s->flow.window_packets);
        if (check_may_be(s, LLI_STANDING_SUSPENDED) &&
            tx->slow.group.suffering <= tx->slow.group.receivers / 2 &&
            check_is_waited_for(s, node->sender, i, now))
            sim_fail(world, "node %u: a receiver is not suspended, though not heard for %llu ns", node->index,
                     (unsigned long long)(now - tx->slow.table[i].heard_at));
        if (member->standing > s->slow.most || (s->slow.dry && member->standing != LLI_STANDING_FINE))
            sim_fail(world, "node %u: a receiver is served worse than the policy allows", node->index);
    }
    if (excluded && limit == 0 && tx->flow.limit != UINT64_MAX)
        sim_fail(world, "node %u: it waits for receivers that are suspended", node->index);
}

void sim_check_verdict(struct sim_world *world, const struct llm_event *event)
{
    const struct llm_verdict *v = event->verdict;

    if (event->kind == LLM_EVENT_READMITTED)
        return;
    if (v->threshold == LLM_THRESHOLD_NONE || v->threshold == LLM_THRESHOLD_OPERATOR || v->value < v->limit)
        sim_fail(world, "a verdict without a reason: %llu is not %llu", (unsigned long long)v->value,
                 (unsigned long long)v->limit);
}

/* ----------------------------------------------------------------------------------------------- memory */

/*
 * Returns true for more NAKs for a packet in this time than doubling intervals, reduced by up to a quarter,
 * allow.
 */
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

/* Checks a session's window; returns the number of buffered packets. */
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
        if (seq < rx->replay.end && rx->pending.lag & LLI_RX_REPLAYING)
            continue;
        if (slot->nak_at < gap->due_at && now < gap->due_at && !gap->naks_deferred)
            sim_fail(world, "node %u: packet %llu is to be asked for before anything is due", node->index,
                     (unsigned long long)seq);
        if (check_is_pestering(&world->scenario, slot, now))
            sim_fail(world, "node %u: packet %llu was asked for %u times in %llu ns", node->index,
                     (unsigned long long)seq, slot->tries, (unsigned long long)(now - slot->since));
    }
    for (uint64_t i = 0; i < lli_gap_window(gap) / 64; i++)
        bits += (uint64_t)__builtin_popcountll(gap->present[i]);
    if (missing != gap->missing || bits != present || gap->end - gap->next > lli_gap_window(gap))
        sim_fail(world, "node %u: window %llu to %llu: %llu missing, %llu counted; %llu present, %llu bits",
                 node->index, (unsigned long long)gap->next, (unsigned long long)gap->end,
                 (unsigned long long)missing, (unsigned long long)gap->missing, (unsigned long long)present,
                 (unsigned long long)bits);
    return (uint32_t)present + (rx->pending.slow_path & LLI_RX_LATEST ? rx->lvc.buffered_count : 0);
}

void sim_check_memory(struct sim_world *world, const struct sim_node *node)
{
    const struct sim_follower *follower = node->follower;
    uint32_t held = 0, chunks = 0;

    for (uint32_t i = 0; i < follower->used; i++)
        if (follower->sessions[i].state != LLI_RX_FREE)
            held += check_window(world, node, &follower->sessions[i]);
    for (uint32_t i = 0; i < follower->used; i++)
        chunks += follower->sessions[i].buffer.chunks;
    if (held != follower->reorder.used || chunks + follower->reorder.left != follower->reorder.count)
        sim_fail(world, "node %u: %u packets are held, %u counted; %u of %u chunks in use, %u free",
                 node->index, held, follower->reorder.used, chunks, follower->reorder.count,
                 follower->reorder.left);
}

/* --------------------------------------------------------------------------------------------- liveness */

/* Expelled for the third time or more: a policy that a receiver cannot meet extends its absence each time. */
static bool check_is_kept_away(const struct lli_tx *tx, const struct sim_node *node)
{
    const uint32_t index = lli_members_get(&tx->members, node->follower->config.receiver);

    return index != LLI_MEMBER_NONE && tx->members.table[index].standing == LLI_STANDING_EXPELLED &&
           tx->slow.table[index].rejoin >= lli_min(4 * tx->slow.policy.rejoin, LLI_SLOW_REJOIN_MAX);
}

bool sim_check_caught_up(struct sim_world *world, const struct sim_node *node,
                         const struct sim_session *session)
{
    const struct lli_tx *tx = check_tx(world, session);
    const struct lli_rx *rx = sim_follower_find(node->follower, session);
    const struct sim_follow *follow = check_follow(world, node->follower, session->index);

    if (rx != NULL && rx->state == LLI_RX_REFUSED)
        return follow->denied;
    if (rx == NULL || rx->state != LLI_RX_LIVE)
        return check_is_kept_away(tx, node);
    return follow->open && !follow->late && !follow->young && rx->gap.missing == 0 &&
           rx->gap.next == tx->sent && tx->sent == tx->history.next &&
           check_next(world, session, follow) == session->end;
}

bool sim_check_is_over(struct sim_world *world, const struct sim_node *node,
                       const struct sim_session *session)
{
    const struct lli_rx *rx = sim_follower_find(node->follower, session);

    return !check_follow(world, node->follower, session->index)->open &&
           (rx == NULL || rx->state == LLI_RX_ENDED || rx->state == LLI_RX_JOINING ||
            rx->state == LLI_RX_REFUSED);
}
