/* SPDX-License-Identifier: Apache-2.0 */
/* Retention, and recordings, while the wall clock steps. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"

#include "store_reading.h"

#define HOUR ((int64_t)3600)

static int64_t step; /* seconds of the wall clock */

/* In the place of the function of libc. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    const int result = (int)syscall(SYS_clock_gettime, clock, time);

    if (clock == CLOCK_REALTIME)
        time->tv_sec += step;
    return result;
}

static int up_in_step(void **state)
{
    step = 0;
    return up(state);
}

static void record_session(uint64_t messages)
{
    acknowledged = 0;
    transmitter_up();
    send_some(messages);
    await_acknowledged(messages);
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    while (store->sessions_recorded > 0)
        (void)llm_wait(context, 10000);
}

static bool is_there(uint64_t of)
{
    return lli_catalogue_find(store->catalogue, of) != NULL;
}

/* Has the store look for segments to remove. */
static void retain(void)
{
    store->retention_at = 0;
    (void)llm_poll(context);
}

static void reopen(void)
{
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_int_equal(store_up_in(context), LLM_OK);
    retain();
}

/* ------------------------------------------------------------------------------------------------- reading */

static struct {
    uint64_t first, next, last_at;
} played;

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    if (played.first == UINT64_MAX)
        played.first = played.next = message->number;
    assert_int_equal(message->number, played.next++);
    assert_true(message->received_at >= played.last_at);
    played.last_at = message->received_at;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    assert_int_not_equal(event->kind, LLM_EVENT_GAP);
}

/* Replays what was received at a time or later. */
static void play_since(uint64_t realtime)
{
    struct llm_receiver_handlers handlers;
    struct llm_replay_options replay_options;
    struct llm_replay *replay;

    memset(&played, 0, sizeof played);
    played.first = UINT64_MAX;
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    llm_replay_options_init(&replay_options);
    replay_options.from = LLM_JOIN_TIME;
    replay_options.value = realtime;
    assert_int_equal(llm_replay_open(directory, &replay_options, &handlers, log_keep, NULL, &replay), LLM_OK);
    while (llm_replay_next(replay, 100) > 0)
        continue;
    assert_int_equal(llm_replay_close(&replay), LLM_OK);
}

/* ------------------------------------------------------------------------------------------------- tests */

/* Replay by time begins early rather than late. */
static void a_clock_that_steps_back_hides_no_message(void **state)
{
    uint64_t back;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(300);
    await_acknowledged(300);
    step -= HOUR;
    back = lli_clock_real_ns();
    send_some(300);
    await_acknowledged(600);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_int_equal(store_up_in(context), LLM_OK);
    /* Enough for another segment. */
    send_some(20000);
    await_acknowledged(20600);
    assert_int_equal(read_all().next, 20600);
    play_since(back);
    assert_true(played.first <= 300);
    assert_int_equal(played.next, 20600);
    /* The clock is right again, and later than ever. */
    step += HOUR;
    back = lli_clock_real_ns();
    send_some(300);
    await_acknowledged(20900);
    play_since(back);
    assert_true(played.first <= 20600 && played.first > 600);
    assert_int_equal(played.next, 20900);
}

static void a_step_of_the_clock_removes_nothing_early(void **state)
{
    uint64_t first, second;

    (void)state;
    options.age_ns_max = (uint64_t)HOUR * 1000000000;
    assert_int_equal(store_up_in(context), LLM_OK);
    record_session(100);
    first = session;
    retain();
    step += 2 * HOUR;
    record_session(100);
    second = session;
    retain();
    assert_true(is_there(first));
    /* Segments that are there when a store opens have the age that the clock says. */
    reopen();
    assert_false(is_there(first));
    assert_true(is_there(second));
    /* A segment of the future is new, whatever the clock does from then on. */
    step -= 10 * HOUR;
    reopen();
    assert_true(is_there(second));
    step += 20 * HOUR;
    retain();
    assert_true(is_there(second));
}

/* Its last write was long ago by the wall clock. */
static void a_session_that_was_followed_until_now_is_new(void **state)
{
    (void)state;
    options.age_ns_max = (uint64_t)HOUR * 1000000000;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(100);
    await_acknowledged(100);
    retain();
    step += 2 * HOUR;
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    while (store->sessions_recorded > 0)
        (void)llm_wait(context, 10000);
    retain();
    assert_true(is_there(session));
}

static void what_the_clock_says_is_in_the_future_gets_old(void **state)
{
    (void)state;
    options.age_ns_max = 200000000;
    assert_int_equal(store_up_in(context), LLM_OK);
    record_session(100);
    step -= 10 * HOUR;
    reopen();
    for (int i = 0; is_there(session); i++) {
        assert_true(i < 1000);
        (void)usleep(10000);
        retain();
    }
}

static void the_oldest_segment_is_that_of_the_earliest_session(void **state)
{
    uint64_t first, second;

    (void)state;
    options.bytes_max = 2 * options.segment_bytes;
    assert_int_equal(store_up_in(context), LLM_OK);
    record_session(100);
    first = session;
    retain();
    (void)usleep(20000);
    step -= HOUR;
    record_session(100);
    second = session;
    retain();
    assert_true(is_there(first) && is_there(second));
    (void)usleep(20000);
    record_session(100);
    retain();
    assert_true(!is_there(first) && is_there(second) && is_there(session));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, up_in_step, down)
        TEST(a_clock_that_steps_back_hides_no_message),
        TEST(a_step_of_the_clock_removes_nothing_early),
        TEST(a_session_that_was_followed_until_now_is_new),
        TEST(what_the_clock_says_is_in_the_future_gets_old),
        TEST(the_oldest_segment_is_that_of_the_earliest_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
