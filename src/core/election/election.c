/* SPDX-License-Identifier: Apache-2.0 */
#include "core/election/election.h"

/* The first term of a stream is below this one. */
enum { ELECTION_TERM_FIRST = 1 << 30 };

/* No member comes to a term beyond this one: a packet that has one is forged, and would let terms wrap. */
enum { ELECTION_TERM_MAX = INT32_MAX };

static bool election_votes(const struct lli_election *election)
{
    return election->config.member < election->config.voters;
}

/*
 * Voters that have to agree, the candidate included. A candidate that never followed a primary begins the stream, for
 * which all voters have to be there: a majority that was restarted would begin it a second time.
 */
static uint32_t election_majority(const struct lli_election *election)
{
    return election->position.followed == 0 ? election->config.voters : election->config.voters / 2 + 1;
}

static void election_enter(struct lli_election *election, enum lli_election_state state, lli_ns now)
{
    election->state = state;
    election->since = now;
    election->send_at = now;
}

static void election_fence(struct lli_election *election, enum lli_election_fence fence)
{
    election->state = LLI_ELECTION_FENCED;
    election->fence = fence;
}

/* Members stand one after the other, so that the first one has the votes before the second one asks. */
static lli_ns election_turn(const struct lli_election *election)
{
    return election->config.beat * election->config.member;
}

/* Notes a term, and whose it is; 0: not known. */
static void election_know(struct lli_election *election, uint32_t term, uint64_t by)
{
    if (term > election->highest) {
        election->highest = term;
        election->highest_by = by;
    } else if (term == election->highest && election->highest_by == 0) {
        election->highest_by = by;
    }
}

static void election_back(struct lli_election *election, uint32_t term, uint64_t by, lli_ns now)
{
    election->backed = term;
    election->backed_by = by;
    election->backed_until = now + election->config.detect;
    election->stand_at = election->backed_until + election_turn(election);
}

/*
 * Ends a candidacy; the next one is at a random time, as two candidates may have taken each other's votes. The term is
 * this member's, so nobody leads in it, and its own vote is free at once.
 */
static void election_withdraw(struct lli_election *election, lli_ns now)
{
    election_enter(election, LLI_ELECTION_BACKUP, now);
    if (election->backed == election->term)
        election->backed_until = lli_min(election->backed_until, now);
    election->stand_at = lli_max(election->backed_until, now) + election_turn(election) +
                         lli_random_below(&election->random, election->config.detect);
}

/* ---------------------------------------------------------------------------------------------- commits */

/*
 * Sorts the values and returns the greatest that `needed` of them, at least one, have reached. 0: there are fewer values.
 */
static uint64_t election_reached_by(uint64_t *values, uint32_t count, uint32_t needed)
{
    for (uint32_t i = 1; i < count; i++) {
        const uint64_t value = values[i];
        uint32_t place = i;

        for (; place > 0 && values[place - 1] < value; place--)
            values[place] = values[place - 1];
        values[place] = value;
    }
    return count < needed ? 0 : values[needed - 1];
}

/*
 * Notes the number before which a majority of the voters has all messages. The primary of the term has them, and this
 * member, if it remembers. Before a majority has come to the term's first message nothing is certain: a candidate of an
 * earlier level may still win with other messages.
 */
static void election_commit(struct lli_election *election)
{
    const uint32_t term = election->position.followed;
    const uint32_t primary = term % election->config.voters;
    uint64_t numbers[LLI_ELECTION_VOTERS_MAX], reached;
    uint32_t count = 0;

    if (term == 0)
        return;
    if (election_votes(election) && election->remembers && election->frozen <= term)
        election->reached[election->config.member] =
            (struct lli_election_reach){term, election->position.next};
    for (uint32_t i = 0; i < election->config.voters; i++)
        if (i != primary && election->reached[i].term == term)
            numbers[count++] = election->reached[i].next;
    reached = election_reached_by(numbers, count, election->config.voters / 2);
    if (reached >= election->position.begins)
        election->committed = lli_max(election->committed, reached);
}

/* Takes what a voter that remembers has. */
static void election_input_reach(struct lli_election *election, const struct lli_election_packet *packet)
{
    struct lli_election_reach *reach;

    if (packet->member >= election->config.voters || !packet->remembers)
        return;
    reach = &election->reached[packet->member];
    if (packet->position.followed > reach->term ||
        (packet->position.followed == reach->term && packet->position.next > reach->next))
        *reach = (struct lli_election_reach){packet->position.followed, packet->position.next};
    election_commit(election);
}

/* Takes a beat of the primary that this member follows: how far all are, and what a voter that restarted has to reach. */
static void election_input_committed(struct lli_election *election, const struct lli_election_packet *beat,
                                     lli_ns now)
{
    if (!election->config.commits || election->position.followed != beat->term)
        return;
    election->committed = lli_max(election->committed, beat->committed);
    if (now >= election->remember_at)
        election->remember = lli_min(election->remember, beat->position.next);
    if (election->position.next >= election->remember)
        election->remembers = true;
    election_commit(election);
}

/* ------------------------------------------------------------------------------------------------ begin */

void lli_election_init(struct lli_election *election, const struct lli_election_config *config, lli_ns now)
{
    assert(config->voters <= LLI_ELECTION_VOTERS_MAX && config->lease < config->detect);
    *election = (struct lli_election){.config = *config,
                                      .random = config->seed,
                                      .remember_at = now + config->detect,
                                      .remember = UINT64_MAX};
    election_enter(election, LLI_ELECTION_BACKUP, now);
    /* An earlier life of this voter may have promised its vote. */
    election_back(election, 0, 0, now);
}

/* Notes that this member has come to the first message of the term that it follows. */
static void election_attain(struct lli_election *election)
{
    if (election->position.next >= election->position.begins)
        election->position.level = election->position.followed;
}

void lli_election_has(struct lli_election *election, uint64_t first, uint64_t next, lli_ns now)
{
    election->position.first = first;
    election->position.next = next;
    election_attain(election);
    election->progress_at = now;
    if (next >= election->remember)
        election->remembers = true;
    if (election->config.commits)
        election_commit(election);
    else
        election->delivered = next;
}

void lli_election_restore(struct lli_election *election, const struct lli_election_position *position)
{
    election->position = *position;
    election->position.level = 0;
    election_attain(election);
    /* They were committed where they were delivered. */
    election->delivered = election->committed = position->next;
    election->followed_by = 0;
    election_know(election, position->followed, 0);
}

void lli_election_forget(struct lli_election *election)
{
    election->position = (struct lli_election_position){.followed = 0};
    election->followed_by = 0;
    election->delivered = 0;
    election->remembers = false;
    election->remember = UINT64_MAX;
}

/* -------------------------------------------------------------------------------------------- the lease */

/* Time at which the packet was sent that a majority has answered, this member included; 0: there is none. */
static lli_ns election_answered(const struct lli_election *election)
{
    lli_ns times[LLI_ELECTION_VOTERS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < election->config.voters; i++)
        if (i != election->config.member && election->answered[i] != 0)
            times[count++] = election->answered[i];
    return election_reached_by(times, count, election_majority(election) - 1);
}

lli_ns lli_election_leased_until(const struct lli_election *election)
{
    const lli_ns answered = election_answered(election);

    return answered == 0 ? 0 : answered + election->config.lease;
}

static bool election_is_leased(const struct lli_election *election, lli_ns now)
{
    return now < lli_election_leased_until(election);
}

bool lli_election_holds(const struct lli_election *election, lli_ns now)
{
    return election->state == LLI_ELECTION_PRIMARY && election_is_leased(election, now);
}

void lli_election_expire(struct lli_election *election)
{
    if (election->state == LLI_ELECTION_PRIMARY)
        election_fence(election, LLI_ELECTION_LEASE);
}

void lli_election_diverge(struct lli_election *election)
{
    election_fence(election, LLI_ELECTION_DIVERGED);
}

/* ----------------------------------------------------------------------------------------- packets in */

static bool election_is_candidate(const struct lli_election *election)
{
    return election->state == LLI_ELECTION_CANVASSING || election->state == LLI_ELECTION_SURVEYING ||
           election->state == LLI_ELECTION_READY;
}

static struct lli_election_packet election_packet(const struct lli_election *election,
                                                  enum lli_election_kind kind)
{
    return (struct lli_election_packet){.kind = kind,
                                        .member = election->config.member,
                                        .voters = election->config.voters,
                                        .identity = election->config.identity,
                                        .commits = election->config.commits,
                                        .remembers = election->remembers,
                                        .position = election->position};
}

/* Notes what a member has, for the survey. */
static void election_peer(struct lli_election *election, const struct lli_election_packet *packet)
{
    struct lli_election_peer *peer = election->peers;

    while (peer < election->peers + election->peers_count && peer->identity != packet->identity)
        peer++;
    if (peer == election->peers + LLI_ELECTION_PEERS_MAX)
        return;
    election->peers_count += peer == election->peers + election->peers_count;
    *peer = (struct lli_election_peer){packet->identity, packet->position,
                                       (uint32_t)lli_min(packet->member, election->config.voters),
                                       packet->remembers};
}

static void election_input_answer(struct lli_election *election, const struct lli_election_packet *packet,
                                  lli_ns now)
{
    if (packet->term != election->term || packet->clock > now ||
        (!election_is_candidate(election) && election->state != LLI_ELECTION_PRIMARY))
        return;
    if (packet->member < election->config.voters && packet->member != election->config.member)
        election->answered[packet->member] = lli_max(election->answered[packet->member], packet->clock);
    if (packet->answered == LLI_ELECTION_SURVEY && election->state == LLI_ELECTION_SURVEYING)
        election_peer(election, packet);
    /* A voter that answers a candidate takes part in no earlier term any more. */
    if (election->config.commits && packet->answered == LLI_ELECTION_BEAT)
        election_input_reach(election, packet);
    if (election->state != LLI_ELECTION_CANVASSING || !election_is_leased(election, now))
        return;
    election_enter(election, LLI_ELECTION_SURVEYING, now);
    election->peers_count = 0;
    election->frozen = (uint32_t)lli_max(election->frozen, election->term);
}

/*
 * Returns true if a candidate has, or can fetch, what this member has: nothing, or it did not miss a term, and the messages
 * that it lacks are retained.
 */
static bool election_may_lead(const struct lli_election *election,
                              const struct lli_election_position *candidate)
{
    return election->position.next == 0 || (candidate->followed >= election->position.followed &&
                                            candidate->next >= election->position.first);
}

/* Returns true if another life of the sender used its term: that one forgot it when it was restarted. */
static bool election_is_used(const struct lli_election *election, const struct lli_election_packet *packet)
{
    return packet->term == election->highest && election->highest_by != 0 &&
           packet->identity != election->highest_by;
}

/* Returns true if the vote of this member can be given to the sender, or is given to it already. */
static bool election_may_back(const struct lli_election *election, const struct lli_election_packet *packet,
                              lli_ns now)
{
    if (election->state == LLI_ELECTION_PRIMARY || packet->term < election->frozen ||
        election_is_used(election, packet))
        return false;
    if (packet->term == election->backed)
        return packet->identity == election->backed_by;
    if (now < election->backed_until)
        return false;
    if (packet->kind == LLI_ELECTION_CANVASS)
        return packet->term >= election->highest && election_may_lead(election, &packet->position);
    return packet->kind == LLI_ELECTION_BEAT || packet->term >= election->highest;
}

/* Drops the messages that were not delivered. */
static void election_drop(struct lli_election *election)
{
    struct lli_election_position *mine = &election->position;

    mine->next = election->delivered;
    mine->first = lli_min(mine->first, mine->next);
    mine->level = 0;
    election->remembers = false;
    election->remember = UINT64_MAX;
}

/* Returns true if the messages of this member are those of a term, as far as they go. */
static bool election_continues(const struct lli_election *election, const struct lli_election_position *term)
{
    const struct lli_election_position *mine = &election->position;

    return mine->next == 0 ||
           (mine->next <= term->begins &&
            (mine->followed == term->previous || (mine->level == term->previous && mine->level != 0)));
}

static void election_assume(struct lli_election *election, const struct lli_election_position *term,
                            uint64_t by)
{
    election->followed_by = by;
    election->position.followed = term->followed;
    election->position.previous = term->previous;
    election->position.begins = term->begins;
    election_attain(election);
}

/*
 * Follows a term. A member that has messages which its primary lacks, or that missed the term between, cannot know that
 * its messages are those of the stream. It withdraws what it did not deliver; if that is not enough, it is fenced.
 */
static void election_follow(struct lli_election *election, const struct lli_election_position *term,
                            uint64_t by)
{
    if (term->followed <= election->position.followed)
        return;
    if (!election_continues(election, term)) {
        if (!election->config.commits || election->delivered > term->begins) {
            election_fence(election, LLI_ELECTION_DIVERGED);
            return;
        }
        election_drop(election);
    }
    election_assume(election, term, by);
}

/* Takes the identity of the primary of the term that is followed. Another life of it has other messages. */
static void election_identify(struct lli_election *election, const struct lli_election_packet *beat)
{
    if (beat->term != election->position.followed)
        return;
    if (election->followed_by == 0)
        election->followed_by = beat->identity;
    else if (election->followed_by != beat->identity)
        election_fence(election, LLI_ELECTION_DIVERGED);
}

/* Takes a packet of a candidate, or of a primary. True: *answer has the answer to it. */
static bool election_input_claim(struct lli_election *election, const struct lli_election_packet *packet,
                                 lli_ns now, struct lli_election_packet *answer)
{
    /* A survey, and a primary, were elected by a majority: no other one of a lower term is alive. */
    const bool elected = packet->kind != LLI_ELECTION_CANVASS;
    const bool backs = election_votes(election) && election_may_back(election, packet, now);
    const uint64_t known =
        elected ? lli_max(election->frozen, election->position.followed) : election->highest;

    if (!backs && (packet->term < known || (!elected && election_is_used(election, packet)))) {
        *answer = election_packet(election, LLI_ELECTION_DENIAL);
        answer->term = election->highest;
        answer->position.followed = (uint32_t)lli_max(election->frozen, election->position.followed);
        answer->clock = packet->clock;
        return true;
    }
    if (elected && packet->term > election->term) {
        if (election->state == LLI_ELECTION_PRIMARY) {
            election_fence(election, LLI_ELECTION_SUPERSEDED);
            return false;
        }
        if (election_is_candidate(election))
            election_withdraw(election, now);
    }
    if (packet->kind == LLI_ELECTION_BEAT) {
        election_follow(election, &packet->position, packet->identity);
        election_identify(election, packet);
        election_input_committed(election, packet, now);
    }
    if (election->state == LLI_ELECTION_FENCED)
        return false;
    if (elected) {
        election->frozen = (uint32_t)lli_max(election->frozen, packet->term);
        election_know(election, packet->term, packet->identity);
    }
    if (backs) {
        if (election_is_candidate(election) && packet->term != election->term)
            election_withdraw(election, now);
        election_back(election, packet->term, packet->identity, now);
        election_know(election, packet->term, packet->identity);
    }
    if (!backs && !elected)
        return false;
    *answer = election_packet(election, LLI_ELECTION_ANSWER);
    /* Without its vote, the answer tells what this member has. */
    if (!backs)
        answer->member = election->config.voters;
    answer->answered = packet->kind;
    answer->term = packet->term;
    answer->clock = packet->clock;
    return true;
}

static void election_input_denial(struct lli_election *election, const struct lli_election_packet *packet,
                                  lli_ns now)
{
    election_know(election, packet->term, 0);
    /*
     * A primary goes on as long as a majority answers, unless a higher term was elected: so many voters were restarted
     * at a time that this was forgotten, and the member that knows it could not follow this primary.
     */
    if (packet->position.followed > election->term && election->state == LLI_ELECTION_PRIMARY)
        election_fence(election, LLI_ELECTION_SUPERSEDED);
    if (packet->term > election->term && election_is_candidate(election))
        election_withdraw(election, now);
}

bool lli_election_input(struct lli_election *election, const struct lli_election_packet *packet, lli_ns now,
                        struct lli_election_packet *answer)
{
    enum { CONFLICTS = 8 };

    if (packet->identity == election->config.identity || election->state == LLI_ELECTION_FENCED)
        return false;
    if (packet->term > ELECTION_TERM_MAX || packet->position.followed > ELECTION_TERM_MAX ||
        packet->position.level > packet->position.followed)
        return false;
    if (packet->voters != election->config.voters || packet->commits != election->config.commits) {
        election->mismatched = true;
        return false;
    }
    if (packet->member == election->config.member && election_votes(election)) {
        /* Packets of an earlier life of this member may still arrive; of two that live, one is fenced. */
        if (packet->identity > election->config.identity && ++election->conflicts == CONFLICTS)
            election_fence(election, LLI_ELECTION_CONFLICT);
        return false;
    }
    switch (packet->kind) {
    case LLI_ELECTION_ANSWER:
        election_input_answer(election, packet, now);
        return false;
    case LLI_ELECTION_DENIAL:
        election_input_denial(election, packet, now);
        return false;
    case LLI_ELECTION_HAVE:
        election_input_reach(election, packet);
        return false;
    case LLI_ELECTION_CANVASS:
    case LLI_ELECTION_SURVEY:
    case LLI_ELECTION_BEAT:
        break;
    }
    /* A term belongs to one voter, so that no two candidates have the same. */
    if (packet->member >= election->config.voters ||
        packet->term % election->config.voters != packet->member || packet->term == 0)
        return false;
    return election_input_claim(election, packet, now, answer);
}

/* ---------------------------------------------------------------------------------------- packets out */

/* Returns the lowest term of this member that is higher than all that it knows. */
static uint32_t election_next_term(const struct lli_election *election)
{
    const uint32_t voters = election->config.voters;
    const uint32_t term = election->highest / voters * voters + election->config.member;

    return term > election->highest ? term : term + voters;
}

static void election_stand(struct lli_election *election, lli_ns now)
{
    /* The first is random, as receivers and stores may remember the terms of an earlier stream of the name. */
    if (election->highest == 0)
        election->highest = (uint32_t)lli_random_below(&election->random, ELECTION_TERM_FIRST);
    election->term = election_next_term(election);
    election_know(election, election->term, election->config.identity);
    for (uint32_t i = 0; i < LLI_ELECTION_VOTERS_MAX; i++)
        election->answered[i] = 0;
    election_back(election, election->term, election->config.identity, now);
    election_enter(election, LLI_ELECTION_CANVASSING, now);
}

/*
 * Returns the level of a position, as far as this member can tell: of two that follow the same term, the one with more
 * messages has those of the other.
 */
static uint32_t election_level(const struct lli_election *election,
                               const struct lli_election_position *position)
{
    const struct lli_election_position *mine = &election->position;
    uint32_t level = position->level;

    if (mine->followed == position->followed && mine->next <= position->next)
        level = (uint32_t)lli_max(level, mine->level);
    for (const struct lli_election_peer *peer = election->peers;
         peer < election->peers + election->peers_count; peer++)
        if (peer->position.followed == position->followed && peer->position.next <= position->next)
            level = (uint32_t)lli_max(level, peer->position.level);
    return level;
}

static bool election_is_ahead(const struct lli_election *election, const struct lli_election_position *a,
                              const struct lli_election_position *b)
{
    const uint32_t levels[] = {election_level(election, a), election_level(election, b)};

    return levels[0] != levels[1] ? levels[0] > levels[1] : a->next > b->next;
}

/* Finds the peer that is ahead of all others and of this member, and has what comes next; NULL: none. */
static const struct lli_election_peer *election_farthest(const struct lli_election *election)
{
    const struct lli_election_peer *farthest = NULL;

    for (const struct lli_election_peer *peer = election->peers;
         peer < election->peers + election->peers_count; peer++)
        if (peer->position.first <= election->position.next &&
            election_is_ahead(election, &peer->position,
                              farthest != NULL ? &farthest->position : &election->position))
            farthest = peer;
    return farthest;
}

const struct lli_election_peer *lli_election_source(const struct lli_election *election)
{
    const struct lli_election_peer *farthest =
        election->state == LLI_ELECTION_SURVEYING ? election_farthest(election) : NULL;

    return farthest != NULL && farthest->position.followed == election->position.followed ? farthest : NULL;
}

/* Returns true if the messages of this member are the first ones of those of a peer that is ahead. */
static bool election_agrees(const struct lli_election *election, const struct lli_election_peer *peer)
{
    const struct lli_election_position *mine = &election->position;
    const uint32_t level = election_level(election, &peer->position);

    return mine->next == 0 || level == mine->followed || (level == mine->level && level != 0);
}

/* Leaves out a peer: what only it has is lost, as if it had died. */
static void election_leave_out(struct lli_election *election, const struct lli_election_peer *peer)
{
    struct lli_election_peer *left = &election->peers[peer - election->peers];

    left->position = election->position;
    left->member = election->config.voters;
}

/*
 * Follows what a peer that is ahead follows, to take its messages. If that is an earlier term, nobody that answered came to
 * the messages of the later one.
 */
static void election_adopt(struct lli_election *election, const struct lli_election_peer *peer)
{
    if (election_agrees(election, peer)) {
        election_assume(election, &peer->position, 0);
    } else if (peer->position.followed > election->position.followed) {
        election_follow(election, &peer->position, 0);
    } else if (election->config.commits) {
        election_drop(election);
        election_assume(election, &peer->position, 0);
    } else {
        /* Its own messages, of another term, were delivered at once. */
        election_leave_out(election, peer);
    }
}

/*
 * Returns true if this member may lead, as far as others' memory is concerned: with `commits`, one of those that it
 * asked has each message that was delivered, and this one has it now.
 */
static bool election_is_informed(const struct lli_election *election)
{
    const uint32_t all = (1u << election->config.voters) - 1;
    uint32_t answered = 1u << election->config.member;
    uint32_t remembering = election->remembers ? answered : 0;
    uint32_t count = 0;

    if (!election->config.commits)
        return true;
    for (const struct lli_election_peer *peer = election->peers;
         peer < election->peers + election->peers_count; peer++) {
        const uint32_t voter = 1u << peer->member & all;

        /* It has messages that cannot be fetched, as those before are not retained. */
        if (voter != 0 && election_is_ahead(election, &peer->position, &election->position))
            return false;
        answered |= voter;
        remembering |= peer->remembers ? voter : 0;
    }
    for (; remembering != 0; remembering &= remembering - 1)
        count++;
    return answered == all || count >= election_majority(election);
}

/* Looks if the survey is complete. A member from which nothing comes is left out after a while. */
static void election_survey(struct lli_election *election, lli_ns now)
{
    const struct lli_election_peer *farthest;

    if (!election_is_leased(election, now)) {
        election_withdraw(election, now);
        return;
    }
    if (now < election->since + election->config.survey)
        return;
    farthest = election_farthest(election);
    if (farthest != NULL && farthest->position.followed != election->position.followed) {
        election_adopt(election, farthest);
        return;
    }
    if (farthest == NULL || farthest->position.next <= election->position.next) {
        if (farthest != NULL)
            election->position.level = election_level(election, &farthest->position);
        if (election_is_informed(election))
            election_enter(election, LLI_ELECTION_READY, now);
        else if (now >= election->since + 2 * election->config.detect)
            election_withdraw(election, now);
    } else if (now >= lli_max(election->progress_at, election->since + election->config.survey) +
                          election->config.detect) {
        election_leave_out(election, farthest);
    }
}

static void election_advance(struct lli_election *election, lli_ns now)
{
    switch (election->state) {
    case LLI_ELECTION_BACKUP:
        if (election->config.stands && now >= election->stand_at)
            election_stand(election, now);
        break;
    case LLI_ELECTION_CANVASSING:
        if (now >= election->since + election->config.detect)
            election_withdraw(election, now);
        break;
    case LLI_ELECTION_SURVEYING:
        election_survey(election, now);
        break;
    case LLI_ELECTION_PRIMARY:
        if (!election_is_leased(election, now))
            election_fence(election, LLI_ELECTION_LEASE);
        break;
    case LLI_ELECTION_READY:
    case LLI_ELECTION_FENCED:
        break;
    }
}

/* Returns true if others wait for this voter: it has more messages than it announced. */
static bool election_has_news(const struct lli_election *election)
{
    return election->config.commits && election_votes(election) && election->remembers &&
           election->state == LLI_ELECTION_BACKUP && election->position.followed != 0 &&
           election->frozen <= election->position.followed &&
           (election->announced.term != election->position.followed ||
            election->announced.next != election->position.next);
}

bool lli_election_output(struct lli_election *election, lli_ns now, struct lli_election_packet *packet)
{
    enum lli_election_kind kind;

    election_advance(election, now);
    if (election_has_news(election)) {
        election->announced =
            (struct lli_election_reach){election->position.followed, election->position.next};
        *packet = election_packet(election, LLI_ELECTION_HAVE);
        packet->term = election->position.followed;
        packet->clock = now;
        return true;
    }
    if (election->state == LLI_ELECTION_BACKUP || election->state == LLI_ELECTION_FENCED ||
        now < election->send_at)
        return false;
    kind = election->state == LLI_ELECTION_PRIMARY      ? LLI_ELECTION_BEAT
           : election->state == LLI_ELECTION_CANVASSING ? LLI_ELECTION_CANVASS
                                                        : LLI_ELECTION_SURVEY;
    election->send_at = now + election->config.beat;
    if (kind != LLI_ELECTION_CANVASS)
        election_back(election, election->term, election->config.identity, now);
    *packet = election_packet(election, kind);
    packet->term = election->term;
    packet->clock = now;
    packet->committed = election->committed;
    return true;
}

lli_ns lli_election_deadline(const struct lli_election *election)
{
    switch (election->state) {
    case LLI_ELECTION_BACKUP:
        return election->config.stands ? election->stand_at : LLI_NEVER;
    case LLI_ELECTION_FENCED:
        return LLI_NEVER;
    case LLI_ELECTION_PRIMARY:
        return lli_min(election->send_at, lli_election_leased_until(election));
    case LLI_ELECTION_CANVASSING:
    case LLI_ELECTION_SURVEYING:
    case LLI_ELECTION_READY:
        break;
    }
    return election->send_at;
}

uint64_t lli_election_lead(struct lli_election *election, lli_ns now)
{
    struct lli_election_position *mine = &election->position;
    uint64_t base = mine->next;

    assert(election->state == LLI_ELECTION_READY);
    if (!election_is_leased(election, now)) {
        election_withdraw(election, now);
        return base;
    }
    for (uint32_t i = 0; i < election->peers_count; i++)
        base = lli_min(base, election->peers[i].position.next);
    election->remembers = true;
    mine->previous = mine->level;
    mine->followed = mine->level = election->term;
    election->followed_by = election->config.identity;
    mine->begins = mine->next;
    election_enter(election, LLI_ELECTION_PRIMARY, now);
    return lli_max(base, lli_min(mine->first, mine->next));
}
