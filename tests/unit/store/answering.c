/* SPDX-License-Identifier: Apache-2.0 */
/* Receivers get from a store what the transmitter no longer has, in one sequence with live messages. */
#define _GNU_SOURCE
#include "store/store.h"

#include "store_joiner.h"

#include <sys/syscall.h>
#include <unistd.h>

/* Calls of pread(), with which stores read, and the bytes of the longest. */
static unsigned reads;
static size_t longest;

ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
    reads++;
    longest = lli_max(longest, size);
    return syscall(SYS_pread64, fd, bytes, size, offset);
}

static int up_with_store(void **state)
{
    (void)up(state);
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up_with(SMALL);
    return 0;
}

static int down_with_receiver(void **state)
{
    assert_int_equal(llm_context_close(&other), LLM_OK);
    return down(state);
}

static void a_late_joiner_gets_the_session_from_its_first_message(void **state)
{
    (void)state;
    send_past(5000);
    receiver_up(SMALL "&join=oldest");
    expect_whole(0);
}

static void a_late_joiner_gets_so_many_messages_back(void **state)
{
    (void)state;
    send_past(5000);
    receiver_up(SMALL "&join=messages&join_messages=3000");
    expect_whole(2000);
}

static void a_late_joiner_gets_messages_since_a_time(void **state)
{
    char further[160];
    uint64_t then;

    (void)state;
    send_past(2000);
    then = llm_clock();
    send_some(3000);
    await_acknowledged(5000);
    (void)snprintf(further, sizeof further, SMALL "&join=time&join_ns=%llu",
                   (unsigned long long)(llm_clock() - then + 100000000));
    receiver_up(further);
    await_next(5000);
    send_some(10);
    await_next(5010);
    /* From the block that was being written then. */
    assert_true(got.first > 0 && got.first <= 2000);
    assert_int_equal(got.gaps, 0);
}

static void messages_that_are_sent_meanwhile_follow(void **state)
{
    (void)state;
    send_past(3000);
    receiver_up(SMALL "&join=oldest");
    while (got.next < 10000) {
        if (llm_transmitter_next(transmitter) < 10000)
            send_some(1);
        poll_both();
    }
    assert_int_equal(got.first, 0);
    assert_int_equal(got.gaps, 0);
}

/* The receiver was away for longer than the history reaches back. */
static void a_gap_beyond_the_history_is_recalled(void **state)
{
    (void)state;
    receiver_up(SMALL "&rcvbuf_bytes=64K");
    send_some(100);
    await_next(100);
    for (const uint64_t end = llm_clock() + 1500000000; llm_clock() < end;)
        poll_both();
    send_some(5000);
    await_acknowledged(5100);
    await_next(5100);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(got.first, 0);
}

enum { APART = 4, PAST_APART = 20000 };

/* A receiver that joins while others are elsewhere in the recording. */
struct apart {
    struct llm_context *context;
    uint64_t next;
};

static void on_message_apart(void *arg, const struct llm_message *message)
{
    struct apart *apart = arg;

    assert_int_equal(message->number, apart->next);
    apart->next++;
}

static void apart_up(struct apart *apart)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *opened;

    joiner_context(&apart->context);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message_apart;
    handlers.arg = apart;
    assert_int_equal(
        llm_receiver_open(apart->context, channel(SMALL "&join=oldest"), NULL, &handlers, &opened), LLM_OK);
}

/* Polls the first `count` until one of them expects this message. */
static void apart_await(const struct apart *all, int count, const struct apart *one, uint64_t next)
{
    const uint64_t end = llm_clock() + UINT64_C(60000000000);

    while (one->next < next) {
        int delivered = llm_poll(context);

        for (int i = 0; i < count; i++)
            delivered += llm_poll(all[i].context);
        assert_true(llm_clock() < end);
        rest_after(delivered);
    }
}

/*
 * Each receiver reads about as much as one alone, though they take turns at different places. No call reads so much that other
 * processes of the core would wait for it.
 */
static void receivers_at_different_places_read_about_as_much_as_alone(void **state)
{
    struct apart all[APART] = {{.next = 0}};
    unsigned alone;

    (void)state;
    send_past(PAST_APART);
    reads = 0;
    apart_up(&all[0]);
    apart_await(all, 1, &all[0], PAST_APART);
    alone = reads;
    assert_int_equal(llm_context_close(&all[0].context), LLM_OK);
    memset(all, 0, sizeof all);
    reads = 0;
    for (int i = 0; i < APART; i++) {
        apart_up(&all[i]);
        apart_await(all, i + 1, &all[i], PAST_APART / (2 * APART));
    }
    for (int i = 0; i < APART; i++)
        apart_await(all, APART, &all[i], PAST_APART);
    for (int i = 0; i < APART; i++)
        assert_int_equal(llm_context_close(&all[i].context), LLM_OK);
    assert_true(alone > 0);
    print_message("%u reads alone, %u for %d, of at most %zu bytes\n", alone, reads, APART, longest);
    assert_true(reads <= 2 * APART * alone);
    assert_true(longest <= 65536);
}

static void without_stores_a_late_joiner_gets_what_the_transmitter_has(void **state)
{
    (void)state;
    send_past(5000);
    receiver_up(SMALL "&join=oldest&stores=0");
    await_next(5000);
    assert_true(got.first > 0);
}

/* ---------------------------------------------------------------------------------- what nobody has any more */

/* Has the topics wait for the store, or not. */
static void assure(bool assured)
{
    struct llm_assurance assurance;

    llm_assurance_init(&assurance);
    assurance.receivers = 0;
    assurance.names = "a";
    for (int i = 0; i < 3; i++)
        assert_int_equal(llm_topic_assure(topics[i], assured ? &assurance : NULL), LLM_OK);
}

static struct {
    uint64_t next, lost, first_lost, last_lost;
    enum llm_reason reason;
} played;

static void on_played_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    assert_int_equal(message->number, played.next++);
}

static void on_played_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind != LLM_EVENT_GAP)
        return;
    assert_int_equal(event->first, played.next);
    if (played.lost == 0)
        played.first_lost = event->first;
    played.lost += event->last + 1 - event->first;
    played.last_lost = event->last;
    played.reason = event->reason;
    played.next = event->last + 1;
}

static void play(void)
{
    struct llm_receiver_handlers handlers;
    struct llm_replay *replay;

    memset(&played, 0, sizeof played);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_played_message;
    handlers.event = on_played_event;
    assert_int_equal(llm_replay_open(directory, NULL, &handlers, log_keep, NULL, &replay), LLM_OK);
    while (llm_replay_next(replay, 100) > 0)
        continue;
    assert_int_equal(llm_replay_close(&replay), LLM_OK);
}

/* The store was away for longer than the history reaches back. */
static void a_middle_that_nobody_has_is_a_gap_for_joiners_and_in_replays(void **state)
{
    (void)state;
    send_past(2000);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assure(false);
    send_some(3000);
    assert_int_equal(store_up_in(context), LLM_OK);
    assure(true);
    /* One that waits: the store has caught up before more follow, which might overflow its window. */
    send_some(1);
    await_acknowledged(5001);
    send_some(999);
    await_acknowledged(6000);
    /* The store alone acknowledges by the name that topics wait for. */
    receiver_up(SMALL "&join=oldest&receiver_name=b");
    await_next(6000);
    send_some(100);
    await_next(6100);
    assert_int_equal(got.first, 0);
    assert_int_equal(got.lives, 1);
    assert_int_equal(got.gap.reason, LLM_REASON_GONE);
    assert_true(got.gap.last < 5000 && got.lost > 2000);
    await_acknowledged(6100);
    play();
    assert_int_equal(played.next, 6100);
    assert_int_equal(played.reason, LLM_REASON_GONE);
    assert_true(played.first_lost >= 2000);
    assert_int_equal(played.last_lost, got.gap.last);
    assert_int_equal(played.lost, got.lost);
}

/* The refusal names the oldest message, which the store has. */
static void a_position_that_retention_removed_is_refused_and_named(void **state)
{
    (void)state;
    send_past(14000);
    assert_true(lli_catalogue_find(store->catalogue, session)->count >= 2);
    assert_true(lli_retention_make_room(store));
    receiver_up(SMALL "&join=messages&join_messages=13900");
    await_next(14000);
    send_some(100);
    await_next(14100);
    assert_int_equal(got.refusals, 1);
    assert_int_equal(got.refused.reason, LLM_REASON_HISTORY);
    assert_int_equal(got.refused.first, 100);
    assert_true(got.first > 100 && got.first < 14000);
    assert_int_equal(got.refused.last, got.first);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(got.lives, 1);
}

/* It is announced from where the recording begins then. */
static void a_session_of_which_retention_removes_segments_is_announced_without_reading(void **state)
{
    const struct lli_recording *recording;
    uint64_t first, adverts, later;

    (void)state;
    send_past(14000);
    first = lli_catalogue_find(store->catalogue, session)->segments[0].packet;
    assert_true(lli_retention_make_room(store));
    assert_int_equal(llm_context_counter(context, "adverts_sent", &adverts), LLM_OK);
    reads = 0;
    do {
        (void)llm_wait(context, 10000000);
        assert_int_equal(llm_context_counter(context, "adverts_sent", &later), LLM_OK);
    } while (later < adverts + 2);
    recording = lli_catalogue_find(store->catalogue, session);
    assert_true(recording->segments[0].packet > first);
    assert_int_equal(reads, 0);
    receiver_up(SMALL "&join=oldest");
    await_next(14000);
    assert_true(reads > 0);
    assert_int_equal(got.first, recording->segments[0].number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, up_with_store, down_with_receiver)
        TEST(a_late_joiner_gets_the_session_from_its_first_message),
        TEST(a_late_joiner_gets_so_many_messages_back),
        TEST(a_late_joiner_gets_messages_since_a_time),
        TEST(messages_that_are_sent_meanwhile_follow),
        TEST(a_gap_beyond_the_history_is_recalled),
        TEST(receivers_at_different_places_read_about_as_much_as_alone),
        TEST(without_stores_a_late_joiner_gets_what_the_transmitter_has),
        TEST(a_middle_that_nobody_has_is_a_gap_for_joiners_and_in_replays),
        TEST(a_position_that_retention_removed_is_refused_and_named),
        TEST(a_session_of_which_retention_removes_segments_is_announced_without_reading),
    };

    char name[64];
    int failed = cmocka_run_group_tests_name("loop", tests, NULL, NULL);

    (void)snprintf(name, sizeof name, "shm://llm-store-test-%d", (int)getpid());
    group = name;
    failed += cmocka_run_group_tests_name("shm", tests, NULL, NULL);
    return failed;
}
