/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of the election, one by one; tests/sim/election.c has histories of whole groups. */
#include "core/election/election.h"

#include "unit.h"

#define MS ((lli_ns)1000000)

enum { VOTERS = 3 };

static struct lli_election members[VOTERS + 1];
static lli_ns now;
static bool commits;

static void member_open(uint32_t i)
{
    const struct lli_election_config config = {.voters = VOTERS,
                                               .member = i,
                                               .stands = i < VOTERS,
                                               .commits = commits,
                                               .identity = 100 + i,
                                               .seed = i + 1,
                                               .beat = MS,
                                               .lease = 8 * MS,
                                               .detect = 10 * MS,
                                               .survey = 2 * MS};

    lli_election_init(&members[i], &config, now);
}

static int open_all(bool by_majority)
{
    commits = by_majority;
    now = 1000 * MS;
    for (uint32_t i = 0; i <= VOTERS; i++)
        member_open(i);
    return 0;
}

static int up(void **state)
{
    (void)state;
    return open_all(false);
}

static int up_majority(void **state)
{
    (void)state;
    return open_all(true);
}

/* Lets a member do what is due, and those of the mask hear and answer it. */
static void step(uint32_t i, unsigned heard)
{
    struct lli_election_packet packet, answer;

    while (lli_election_output(&members[i], now, &packet))
        for (uint32_t to = 0; to <= VOTERS; to++)
            if (to != i && heard & 1u << to && lli_election_input(&members[to], &packet, now, &answer))
                (void)lli_election_input(&members[i], &answer, now, &answer);
    if (members[i].state == LLI_ELECTION_READY)
        (void)lli_election_lead(&members[i], now);
}

/* Runs members of the mask for so long; they hear each other. */
static void run(unsigned alive, lli_ns time)
{
    for (const lli_ns end = now + time; now < end; now += MS / 4)
        for (uint32_t i = 0; i <= VOTERS; i++)
            if (alive & 1u << i)
                step(i, alive);
}

static void has(uint32_t i, uint64_t next)
{
    lli_election_has(&members[i], 0, next, now);
}

static void the_first_member_becomes_the_primary(void **state)
{
    (void)state;
    run(15, 20 * MS);
    assert_int_equal(members[0].state, LLI_ELECTION_PRIMARY);
    assert_int_equal(members[0].term % VOTERS, 0);
    assert_true(lli_election_holds(&members[0], now));
    for (uint32_t i = 1; i <= VOTERS; i++) {
        assert_int_equal(members[i].state, LLI_ELECTION_BACKUP);
        assert_int_equal(lli_election_delivery(&members[i], members[0].term), LLI_ELECTION_DELIVER);
    }
}

static void a_stream_begins_with_all_voters_and_goes_on_with_a_majority(void **state)
{
    (void)state;
    run(3, 60 * MS);
    assert_int_not_equal(members[0].state, LLI_ELECTION_PRIMARY);
    assert_int_not_equal(members[1].state, LLI_ELECTION_PRIMARY);
    run(7, 60 * MS);
    run(6, 100 * MS);
    assert_true((members[1].state == LLI_ELECTION_PRIMARY) != (members[2].state == LLI_ELECTION_PRIMARY));
}

/* The terms of candidates would wrap after it, to lower ones. */
static void a_term_that_nobody_comes_to_is_ignored(void **state)
{
    struct lli_election_packet beat = {.kind = LLI_ELECTION_BEAT,
                                       .voters = VOTERS,
                                       .member = 1,
                                       .identity = 999,
                                       .term = UINT32_MAX - (UINT32_MAX - 1) % VOTERS,
                                       .clock = 1};
    struct lli_election_packet answer;

    (void)state;
    assert_int_equal(beat.term % VOTERS, 1);
    run(15, 20 * MS);
    for (uint32_t i = 0; i <= VOTERS; i++) {
        beat.position.followed = 0;
        assert_false(lli_election_input(&members[i], &beat, now, &answer));
        beat.kind = LLI_ELECTION_DENIAL;
        assert_false(lli_election_input(&members[i], &beat, now, &answer));
        beat.kind = LLI_ELECTION_BEAT;
    }
    run(15, 20 * MS);
    assert_int_equal(members[0].state, LLI_ELECTION_PRIMARY);
    run(14, 100 * MS);
    assert_true((members[1].state == LLI_ELECTION_PRIMARY) != (members[2].state == LLI_ELECTION_PRIMARY));
}

static void one_voter_of_three_stays_a_backup(void **state)
{
    (void)state;
    run(7, 20 * MS);
    run(2, 200 * MS);
    assert_int_not_equal(members[1].state, LLI_ELECTION_PRIMARY);
}

static void a_primary_that_hears_no_majority_is_fenced_before_another_is_elected(void **state)
{
    lli_ns fenced = 0;

    (void)state;
    run(7, 20 * MS);
    for (const lli_ns end = now + 60 * MS; now < end; now += MS / 4) {
        step(0, 0);
        step(1, 6);
        step(2, 6);
        if (fenced == 0 && !lli_election_holds(&members[0], now))
            fenced = now;
        assert_true(fenced != 0 ||
                    (members[1].state != LLI_ELECTION_PRIMARY && members[2].state != LLI_ELECTION_PRIMARY));
    }
    assert_int_equal(members[0].state, LLI_ELECTION_FENCED);
    assert_int_equal(members[0].fence, LLI_ELECTION_LEASE);
    assert_true(lli_election_holds(&members[1], now) || lli_election_holds(&members[2], now));
}

static void a_primary_that_was_stopped_finds_its_lease_expired(void **state)
{
    (void)state;
    run(7, 20 * MS);
    run(6, 60 * MS);
    assert_false(lli_election_holds(&members[0], now));
    run(7, MS);
    assert_int_equal(members[0].state, LLI_ELECTION_FENCED);
}

static void a_primary_that_may_send_no_more_is_fenced_and_a_backup_is_not(void **state)
{
    (void)state;
    run(7, 20 * MS);
    lli_election_expire(&members[1]);
    assert_int_equal(members[1].state, LLI_ELECTION_BACKUP);
    lli_election_expire(&members[0]);
    assert_int_equal(members[0].state, LLI_ELECTION_FENCED);
    assert_int_equal(members[0].fence, LLI_ELECTION_LEASE);
    assert_false(lli_election_holds(&members[0], now));
    run(7, 60 * MS);
    assert_int_equal(members[0].state, LLI_ELECTION_FENCED);
    assert_true(members[1].state == LLI_ELECTION_PRIMARY);
}

static void a_voter_backs_one_candidate_for_as_long_as_detection_takes(void **state)
{
    struct lli_election_packet first = {.kind = LLI_ELECTION_CANVASS,
                                        .term = 3 * 400000,
                                        .member = 0,
                                        .voters = VOTERS,
                                        .identity = 100,
                                        .clock = 1};
    struct lli_election_packet second = first, answer;

    (void)state;
    second.term = 3 * 500000 + 1;
    second.member = 1;
    second.identity = 101;
    assert_false(lli_election_input(&members[2], &first, now, &answer));
    now += 10 * MS;
    assert_true(lli_election_input(&members[2], &first, now, &answer));
    assert_int_equal(answer.kind, LLI_ELECTION_ANSWER);
    assert_int_equal(answer.member, 2);
    assert_false(lli_election_input(&members[2], &second, now + 9 * MS, &answer));
    assert_true(lli_election_input(&members[2], &second, now + 10 * MS, &answer));
    /* The term of another member is not taken from this one. */
    second.member = 0;
    second.identity = 100;
    assert_false(lli_election_input(&members[2], &second, now + 30 * MS, &answer));
}

/* Else nobody could begin the stream anew when all others were restarted, and have nothing either. */
static void a_voter_without_messages_backs_a_candidate_that_follows_no_term(void **state)
{
    struct lli_election_packet packet = {.kind = LLI_ELECTION_BEAT,
                                         .member = 0,
                                         .voters = VOTERS,
                                         .identity = 7,
                                         .term = 3 * VOTERS,
                                         .clock = 1,
                                         .position = {.followed = 3 * VOTERS, .begins = 10, .next = 20}};
    struct lli_election_packet answer;

    (void)state;
    now += 20 * MS;
    assert_true(lli_election_input(&members[1], &packet, now, &answer));
    assert_int_equal(members[1].position.followed, packet.term);
    now += 20 * MS;
    packet = (struct lli_election_packet){.kind = LLI_ELECTION_CANVASS,
                                          .member = 2,
                                          .voters = VOTERS,
                                          .identity = 8,
                                          .term = 3 * VOTERS + 2,
                                          .clock = 1};
    assert_true(lli_election_input(&members[1], &packet, now, &answer));
    assert_int_equal(answer.kind, LLI_ELECTION_ANSWER);
    assert_int_equal(answer.member, 1);
}

static struct lli_election_packet packet_of_life(enum lli_election_kind kind, uint64_t identity)
{
    const uint32_t term = 3 * VOTERS + 2;

    return (struct lli_election_packet){.kind = kind,
                                        .member = 2,
                                        .voters = VOTERS,
                                        .identity = identity,
                                        .term = term,
                                        .clock = 1,
                                        .position = {.followed = kind == LLI_ELECTION_BEAT ? term : 0}};
}

/* A member that is restarted may come to the term that it had before. */
static void a_term_that_another_life_of_its_member_used_gets_no_vote(void **state)
{
    struct lli_election_packet packet = packet_of_life(LLI_ELECTION_CANVASS, 7), answer;

    (void)state;
    now += 20 * MS;
    assert_true(lli_election_input(&members[1], &packet, now, &answer));
    assert_int_equal(answer.kind, LLI_ELECTION_ANSWER);
    assert_int_equal(answer.member, 1);
    packet = packet_of_life(LLI_ELECTION_CANVASS, 8);
    for (int i = 0; i < 2; i++, now += 20 * MS) {
        assert_true(lli_election_input(&members[1], &packet, now, &answer));
        assert_int_equal(answer.kind, LLI_ELECTION_DENIAL);
        assert_int_equal(answer.term, packet.term);
    }
}

/* Those that elected it were restarted as well. */
static void a_member_that_followed_another_life_of_a_primary_is_fenced(void **state)
{
    struct lli_election_packet packet = packet_of_life(LLI_ELECTION_BEAT, 7), answer;

    (void)state;
    for (int i = 0; i < 2; i++) {
        now += MS;
        assert_true(lli_election_input(&members[VOTERS], &packet, now, &answer));
        assert_int_equal(members[VOTERS].position.followed, packet.term);
    }
    packet = packet_of_life(LLI_ELECTION_BEAT, 8);
    assert_false(lli_election_input(&members[VOTERS], &packet, now, &answer));
    assert_int_equal(members[VOTERS].state, LLI_ELECTION_FENCED);
    assert_int_equal(members[VOTERS].fence, LLI_ELECTION_DIVERGED);
}

static void a_candidate_that_lacks_what_is_no_longer_retained_gets_no_vote(void **state)
{
    struct lli_election_packet canvass = {.kind = LLI_ELECTION_CANVASS,
                                          .term = 3 * 500000 + 1,
                                          .member = 1,
                                          .voters = VOTERS,
                                          .identity = 101,
                                          .clock = 1,
                                          .position = {.next = 49}};
    struct lli_election_packet answer;

    (void)state;
    lli_election_has(&members[2], 50, 90, now);
    now += 20 * MS;
    assert_false(lli_election_input(&members[2], &canvass, now, &answer));
    canvass.position.next = 50;
    assert_true(lli_election_input(&members[2], &canvass, now, &answer));
}

static void a_new_primary_fetches_from_the_farthest_and_repeats_for_the_slowest(void **state)
{
    const struct lli_election_peer *source = NULL;
    struct lli_election_packet packet;

    (void)state;
    run(15, 20 * MS);
    has(0, 100);
    has(1, 90);
    has(2, 80);
    has(3, 95); /* a receiver without a vote */
    for (int i = 0; i < 400 && source == NULL; i++, now += MS / 4) {
        step(1, 14);
        source = lli_election_source(&members[1]);
    }
    assert_non_null(source);
    now += 2 * MS;
    step(1, 14);
    assert_int_equal(members[1].state, LLI_ELECTION_SURVEYING);
    source = lli_election_source(&members[1]);
    assert_int_equal(source->identity, 103);
    assert_int_equal(source->position.next, 95);
    has(1, 95);
    (void)lli_election_output(&members[1], now, &packet);
    assert_int_equal(members[1].state, LLI_ELECTION_READY);
    assert_int_equal(lli_election_lead(&members[1], now), 80);
    assert_int_equal(members[1].position.begins, 95);
}

static void what_a_member_has_that_did_not_hear_the_latest_primary_is_fetched(void **state)
{
    const struct lli_election_peer *source = NULL;
    uint32_t level;

    (void)state;
    run(15, 20 * MS);
    level = members[0].term;
    has(0, 100);
    has(1, 95);
    has(2, 80);
    has(3, 95);
    for (int i = 0; i < 400 && members[1].state != LLI_ELECTION_PRIMARY; i++, now += MS / 4)
        step(1, 12);
    /* A beat comes to member 2, and nothing else of that primary to anybody. */
    step(1, 4);
    assert_int_equal(members[2].position.followed, members[1].term);
    assert_int_equal(members[2].position.begins, 95);
    assert_int_equal(members[2].position.level, level);
    member_open(0);
    for (int i = 0; i < 400 && source == NULL; i++, now += MS / 4) {
        step(2, 9);
        source = lli_election_source(&members[2]);
    }
    assert_non_null(source);
    assert_int_equal(source->identity, 103);
    assert_int_equal(source->position.next, 95);
    for (int i = 0; i < 8 && members[2].state != LLI_ELECTION_PRIMARY; i++, now += MS / 4) {
        has(2, 95);
        step(2, 9);
    }
    assert_int_equal(members[2].state, LLI_ELECTION_PRIMARY);
    /* Nobody that answered came to the messages of the term between. */
    assert_int_equal(members[2].position.previous, level);
    assert_int_equal(members[2].position.begins, 95);
    step(2, 8);
    assert_int_equal(members[3].fence, LLI_ELECTION_UNFENCED);
    assert_int_equal(members[3].position.level, members[2].term);
}

/* Lets a member survey another one whose messages are of a level that it missed. */
static void survey_another_level(void)
{
    struct lli_election *election = &members[1];
    struct lli_election_packet packet;

    election->state = LLI_ELECTION_SURVEYING;
    election->since = now - 3 * MS;
    election->position = (struct lli_election_position){.followed = 12, .level = 3, .begins = 95, .next = 90};
    election->delivered = commits ? 70 : 90;
    election->peers_count = 1;
    election->peers[0] = (struct lli_election_peer){
        .identity = 102, .member = 2, .position = {.followed = 6, .level = 6, .begins = 60, .next = 80}};
    for (uint32_t i = 0; i < VOTERS; i++)
        election->answered[i] = now - 1;
    assert_null(lli_election_source(election));
    while (lli_election_output(election, now, &packet))
        ;
}

static void messages_of_a_higher_level_take_the_place_of_those_that_wait(void **state)
{
    (void)state;
    survey_another_level();
    assert_int_equal(members[1].position.next, 70);
    assert_int_equal(members[1].position.followed, 6);
    assert_non_null(lli_election_source(&members[1]));
    assert_int_equal(members[1].state, LLI_ELECTION_SURVEYING);
}

static void messages_of_a_higher_level_are_left_out_where_others_were_delivered(void **state)
{
    (void)state;
    survey_another_level();
    assert_int_equal(members[1].position.next, 90);
    assert_int_equal(members[1].state, LLI_ELECTION_READY);
}

static void nothing_is_committed_before_the_first_message_of_the_term(void **state)
{
    (void)state;
    members[2].position = (struct lli_election_position){.followed = 7, .begins = 100, .next = 90};
    members[2].remembers = true;
    has(2, 99);
    assert_int_equal(members[2].committed, 0);
    has(2, 100);
    assert_int_equal(members[2].committed, 100);
    assert_int_equal(members[2].position.level, 7);
}

static void a_voter_that_took_a_survey_counts_in_no_earlier_term(void **state)
{
    struct lli_election_packet packet;

    (void)state;
    members[2].position.followed = 7;
    members[2].remembers = true;
    members[2].frozen = 9;
    has(2, 10);
    assert_int_equal(members[2].committed, 0);
    assert_false(lli_election_output(&members[2], now, &packet));
    members[2].frozen = 7;
    has(2, 11);
    assert_int_equal(members[2].committed, 11);
    assert_true(lli_election_output(&members[2], now, &packet));
    assert_int_equal(packet.kind, LLI_ELECTION_HAVE);
}

static void a_candidate_that_withdraws_backs_the_other_one_at_once(void **state)
{
    struct lli_election *low = &members[0], *high = &members[1];
    struct lli_election_packet packets[2], answer;

    (void)state;
    now += 30 * MS;
    assert_true(lli_election_output(low, now, &packets[0]));
    assert_true(lli_election_output(high, now, &packets[1]));
    if (packets[0].term > packets[1].term) {
        packets[0] = packets[1];
        low = &members[1];
        high = &members[0];
    }
    assert_true(lli_election_input(high, &packets[0], now, &answer));
    assert_int_equal(answer.kind, LLI_ELECTION_DENIAL);
    assert_false(lli_election_input(low, &answer, now, &packets[0]));
    assert_int_equal(low->state, LLI_ELECTION_BACKUP);
    now += MS;
    assert_true(lli_election_output(high, now, &packets[1]));
    assert_true(lli_election_input(low, &packets[1], now, &answer));
    assert_int_equal(answer.kind, LLI_ELECTION_ANSWER);
    assert_int_equal(answer.member, low->config.member);
}

static void a_member_that_was_given_more_than_the_new_primary_has_is_fenced(void **state)
{
    (void)state;
    run(7, 20 * MS);
    has(0, 100);
    has(1, 90);
    has(2, 90);
    has(3, 90);
    run(6, 60 * MS);
    assert_true(members[1].state == LLI_ELECTION_PRIMARY);
    /* It was cut off, and the old primary sent it some more. */
    has(3, 91);
    members[3].position.followed = members[0].term;
    run(14, 5 * MS);
    assert_int_equal(members[3].state, LLI_ELECTION_FENCED);
    assert_int_equal(members[3].fence, LLI_ELECTION_DIVERGED);
    assert_int_equal(lli_election_delivery(&members[3], members[1].term), LLI_ELECTION_DROP);
}

static void messages_of_a_primary_that_was_not_heard_wait_and_those_of_an_old_one_are_dropped(void **state)
{
    (void)state;
    run(15, 20 * MS);
    assert_int_equal(lli_election_delivery(&members[3], members[0].term + 1), LLI_ELECTION_WAIT);
    assert_int_equal(lli_election_delivery(&members[3], members[0].term - 1), LLI_ELECTION_DROP);
    run(14, 60 * MS);
    assert_int_equal(lli_election_delivery(&members[3], members[0].term), LLI_ELECTION_DROP);
}

static void of_two_members_with_one_number_one_is_fenced(void **state)
{
    struct lli_election_packet beat = {.kind = LLI_ELECTION_BEAT,
                                       .term = 3000001,
                                       .member = 1,
                                       .voters = VOTERS,
                                       .identity = 999,
                                       .clock = 1};
    struct lli_election_packet answer;

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_false(lli_election_input(&members[1], &beat, now, &answer));
    assert_int_equal(members[1].fence, LLI_ELECTION_CONFLICT);
}

static void a_message_is_committed_when_a_majority_has_it(void **state)
{
    (void)state;
    run(15, 25 * MS);
    has(0, 10);
    run(15, 5 * MS);
    for (int i = 0; i <= VOTERS; i++)
        assert_int_equal(members[i].committed, 0);
    has(3, 10);
    run(15, 5 * MS);
    assert_int_equal(lli_election_deliverable(&members[3]), 0);
    has(1, 6);
    assert_int_equal(lli_election_deliverable(&members[1]), 6);
    run(15, MS);
    assert_int_equal(members[0].committed, 6);
    assert_int_equal(lli_election_deliverable(&members[3]), 6);
    has(2, 8);
    run(15, MS);
    assert_int_equal(lli_election_deliverable(&members[3]), 8);
}

static void a_receiver_that_missed_what_voters_have_is_told_by_the_primary(void **state)
{
    (void)state;
    run(15, 25 * MS);
    has(0, 10);
    has(1, 10);
    has(3, 10);
    /* The receiver hears the primary only. */
    run(7, 2 * MS);
    assert_int_equal(lli_election_deliverable(&members[3]), 0);
    step(0, 8);
    now += MS;
    step(0, 8);
    assert_int_equal(lli_election_deliverable(&members[3]), 10);
}

static void a_voter_that_restarted_counts_when_it_caught_up(void **state)
{
    (void)state;
    run(7, 25 * MS);
    has(0, 10);
    has(1, 10);
    run(7, 2 * MS);
    assert_int_equal(members[0].committed, 10);
    member_open(2);
    members[2].config.identity = 202;
    assert_false(members[2].remembers);
    lli_election_restore(&members[2], &members[1].position);
    has(2, 4);
    has(0, 12);
    run(5, 5 * MS);
    assert_false(members[2].remembers);
    run(7, 10 * MS);
    assert_false(members[2].remembers);
    has(2, 11);
    assert_false(members[2].remembers);
    has(2, 12);
    assert_true(members[2].remembers);
    run(7, MS);
    assert_int_equal(members[0].committed, 12);
}

static void nobody_leads_without_a_majority_that_remembers(void **state)
{
    (void)state;
    run(7, 25 * MS);
    has(0, 10);
    has(1, 4);
    has(2, 10);
    run(7, 2 * MS);
    assert_int_equal(members[0].committed, 10);
    /* The primary dies, and the only other one that has everything is opened anew, without it. */
    member_open(2);
    members[2].config.identity = 202;
    run(6, 200 * MS);
    assert_int_not_equal(members[1].state, LLI_ELECTION_PRIMARY);
    assert_int_not_equal(members[2].state, LLI_ELECTION_PRIMARY);
    /* All voters answer: nobody else has anything. */
    member_open(0);
    members[0].config.identity = 200;
    run(7, 200 * MS);
    assert_true(lli_election_holds(&members[0], now) || lli_election_holds(&members[1], now) ||
                lli_election_holds(&members[2], now));
}

/* The primary has 10 messages that a majority has: this one lacks some, and the other one has them. It then dies. */
static void primary_dies_with(uint64_t next)
{
    run(7, 25 * MS);
    has(0, 10);
    has(1, next);
    has(2, 10);
    run(7, 2 * MS);
    assert_int_equal(members[0].committed, 10);
}

static void a_voter_whose_messages_do_not_come_does_not_count(void **state)
{
    (void)state;
    primary_dies_with(4);
    /* The other voter answers, and nothing is fetched from it. */
    for (const lli_ns end = now + 300 * MS; now < end; now += MS / 4) {
        step(1, 4);
        assert_int_not_equal(members[1].state, LLI_ELECTION_PRIMARY);
    }
}

static void nobody_leads_without_messages_that_a_voter_no_longer_retains(void **state)
{
    (void)state;
    primary_dies_with(4);
    for (const lli_ns end = now + 300 * MS; now < end; now += MS / 4) {
        /* It gave its vote before. */
        if (members[1].state == LLI_ELECTION_SURVEYING)
            lli_election_has(&members[2], 8, 10, now);
        step(1, 4);
        assert_int_not_equal(members[1].state, LLI_ELECTION_PRIMARY);
    }
    assert_int_equal(members[2].position.first, 8);
}

/* The first primary has more messages than the others, which go on without it. Member 3 delivered those before `next`. */
static void another_leads_from(uint64_t next)
{
    run(15, 25 * MS);
    has(0, next + 10);
    for (uint32_t i = 1; i <= VOTERS; i++)
        has(i, next);
    run(15, 2 * MS);
    lli_election_delivered(&members[3], next);
    run(6, 60 * MS);
    assert_true(members[1].state == LLI_ELECTION_PRIMARY);
}

static void a_member_remembers_again_when_it_has_what_it_withdrew(void **state)
{
    (void)state;
    another_leads_from(90);
    has(1, 95);
    has(3, 93);
    members[3].position.followed = members[0].term;
    assert_true(members[3].remembers);
    run(14, 5 * MS);
    assert_int_equal(members[3].position.next, 90);
    assert_false(members[3].remembers);
    has(3, 95);
    assert_true(members[3].remembers);
}

static void what_was_not_delivered_is_withdrawn(void **state)
{
    (void)state;
    another_leads_from(90);
    /* It was cut off, and the old primary sent it some more. */
    has(3, 95);
    members[3].position.followed = members[0].term;
    run(14, 5 * MS);
    assert_int_equal(members[3].state, LLI_ELECTION_BACKUP);
    assert_int_equal(members[3].position.next, 90);
    /* Unless it was delivered. */
    has(3, 95);
    lli_election_delivered(&members[3], 95);
    members[3].position.followed = members[0].term;
    run(14, 5 * MS);
    assert_int_equal(members[3].fence, LLI_ELECTION_DIVERGED);
}

static void another_number_of_voters_is_noted_and_ignored(void **state)
{
    struct lli_election_packet beat = {
        .kind = LLI_ELECTION_BEAT, .term = 5000000, .member = 0, .voters = 5, .identity = 999, .clock = 1};
    struct lli_election_packet answer;

    (void)state;
    assert_false(lli_election_input(&members[1], &beat, now + 20 * MS, &answer));
    assert_true(members[1].mismatched);
    assert_int_equal(members[1].highest, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_first_member_becomes_the_primary, up),
        cmocka_unit_test_setup(a_stream_begins_with_all_voters_and_goes_on_with_a_majority, up),
        cmocka_unit_test_setup(a_term_that_nobody_comes_to_is_ignored, up),
        cmocka_unit_test_setup(one_voter_of_three_stays_a_backup, up),
        cmocka_unit_test_setup(a_primary_that_hears_no_majority_is_fenced_before_another_is_elected, up),
        cmocka_unit_test_setup(a_primary_that_was_stopped_finds_its_lease_expired, up),
        cmocka_unit_test_setup(a_primary_that_may_send_no_more_is_fenced_and_a_backup_is_not, up),
        cmocka_unit_test_setup(a_voter_backs_one_candidate_for_as_long_as_detection_takes, up),
        cmocka_unit_test_setup(a_voter_without_messages_backs_a_candidate_that_follows_no_term, up),
        cmocka_unit_test_setup(a_term_that_another_life_of_its_member_used_gets_no_vote, up),
        cmocka_unit_test_setup(a_member_that_followed_another_life_of_a_primary_is_fenced, up),
        cmocka_unit_test_setup(a_candidate_that_lacks_what_is_no_longer_retained_gets_no_vote, up),
        cmocka_unit_test_setup(a_new_primary_fetches_from_the_farthest_and_repeats_for_the_slowest, up),
        cmocka_unit_test_setup(what_a_member_has_that_did_not_hear_the_latest_primary_is_fetched, up),
        cmocka_unit_test_setup(messages_of_a_higher_level_take_the_place_of_those_that_wait, up_majority),
        cmocka_unit_test_setup(messages_of_a_higher_level_are_left_out_where_others_were_delivered, up),
        cmocka_unit_test_setup(nothing_is_committed_before_the_first_message_of_the_term, up_majority),
        cmocka_unit_test_setup(a_voter_that_took_a_survey_counts_in_no_earlier_term, up_majority),
        cmocka_unit_test_setup(a_candidate_that_withdraws_backs_the_other_one_at_once, up),
        cmocka_unit_test_setup(a_member_that_was_given_more_than_the_new_primary_has_is_fenced, up),
        cmocka_unit_test_setup(
            messages_of_a_primary_that_was_not_heard_wait_and_those_of_an_old_one_are_dropped, up),
        cmocka_unit_test_setup(of_two_members_with_one_number_one_is_fenced, up),
        cmocka_unit_test_setup(another_number_of_voters_is_noted_and_ignored, up),
        cmocka_unit_test_setup(a_message_is_committed_when_a_majority_has_it, up_majority),
        cmocka_unit_test_setup(a_receiver_that_missed_what_voters_have_is_told_by_the_primary, up_majority),
        cmocka_unit_test_setup(a_voter_that_restarted_counts_when_it_caught_up, up_majority),
        cmocka_unit_test_setup(nobody_leads_without_a_majority_that_remembers, up_majority),
        cmocka_unit_test_setup(what_was_not_delivered_is_withdrawn, up_majority),
        cmocka_unit_test_setup(a_voter_whose_messages_do_not_come_does_not_count, up_majority),
        cmocka_unit_test_setup(nobody_leads_without_messages_that_a_voter_no_longer_retains, up_majority),
        cmocka_unit_test_setup(a_member_remembers_again_when_it_has_what_it_withdrew, up_majority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
