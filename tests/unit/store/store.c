/* SPDX-License-Identifier: Apache-2.0 */
/* A store through its public calls, over the loop transport, on a real directory. */
#define _GNU_SOURCE
#include "unit.h"

#include "store/disk_internal.h"
#include "store/store.h"

#include "store_reading.h"

#include <sys/wait.h>
#include <unistd.h>

/* --------------------------------------------------------------------------------------------------- tests */

static void acknowledged_messages_are_on_the_disk(void)
{
    struct reading reading;

    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(2000);
    await_acknowledged(2000);
    reading = read_all();
    assert_int_equal(reading.next, 2000);
    assert_int_equal(reading.gaps, 0);
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_true(read_all().ended);
}

static void acknowledged_messages_are_on_the_disk_by_uring(void **state)
{
    (void)state;
    options.engine = LLM_STORE_AUTO;
    acknowledged_messages_are_on_the_disk();
}

static void acknowledged_messages_are_on_the_disk_by_a_thread(void **state)
{
    (void)state;
    options.engine = LLM_STORE_THREAD;
    acknowledged_messages_are_on_the_disk();
}

static void all_levels_acknowledge(void **state)
{
    (void)state;
    for (unsigned level = LLM_STORE_SYNCED; level <= LLM_STORE_RECEIVED; level++) {
        acknowledged = 0;
        options.level = level;
        assert_int_equal(store_up_in(context), LLM_OK);
        transmitter_up();
        send_some(100);
        await_acknowledged(100);
        assert_int_equal(llm_transmitter_close(&transmitter), 0);
        assert_int_equal(llm_store_close(&store), LLM_OK);
        assert_int_equal(read_all().next, 100);
    }
}

/* Without waiting for a report that is due by time or number. */
static void what_was_received_is_acknowledged_in_the_next_polls(void **state)
{
    (void)state;
    (void)snprintf(always, sizeof always, "&status_ns=5G&silence_ns=6G&session_timeout_ns=6G");
    options.level = LLM_STORE_RECEIVED;
    assert_int_equal(store_up_in(context), LLM_OK);
    always[0] = '\0';
    transmitter_up_with("&heartbeat_ns_min=2G&heartbeat_ns_max=2G&silence_ns=6G&session_timeout_ns=6G");
    send_some(1);
    await_acknowledged(1);
    send_some(1);
    for (int i = 0; i < 10; i++)
        (void)llm_poll(context);
    assert_int_equal(acknowledged, 2);
}

/* The second store finds where the first one stopped, in the middle of a message that spans packets. */
static void a_store_that_is_opened_again_continues_the_recording(void **state)
{
    struct reading reading;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    for (int i = 0; i < 6; i++) {
        send_some(400 + (uint64_t)i);
        assert_int_equal(llm_store_close(&store), LLM_OK);
        send_some(3);
        assert_int_equal(store_up_in(context), LLM_OK);
    }
    send_some(100);
    await_acknowledged(llm_transmitter_next(transmitter));
    reading = read_all();
    assert_int_equal(reading.next, llm_transmitter_next(transmitter));
    assert_int_equal(reading.gaps, 0);
    assert_true(reading.names > 0);
}

static void a_recording_has_as_many_segments_as_it_needs(void **state)
{
    struct reading reading;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(40000);
    await_acknowledged(40000);
    reading = read_all();
    assert_int_equal(reading.next, 40000);
    /* Three topics at the beginning of each segment after the first. */
    assert_true(reading.names >= 9);
}

static uint64_t retired_after(lli_ns time)
{
    const uint64_t end = llm_clock() + time;
    uint64_t retired = 0;

    while (retired == 0 && llm_clock() < end) {
        (void)llm_wait(context, 10000000);
        assert_int_equal(llm_context_counter(context, "store_segments_retired", &retired), LLM_OK);
    }
    return retired;
}

/* Whenever another one begins, so that a fast recording uses the files again. */
static void the_oldest_segments_are_removed(void **state)
{
    uint64_t begun = 0, retired = 0;

    (void)state;
    options.bytes_max = 2 * options.segment_bytes;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(60000);
    await_acknowledged(60000);
    (void)llm_poll(context);
    assert_int_equal(llm_context_counter(context, "store_segments_begun", &begun), LLM_OK);
    assert_int_equal(llm_context_counter(context, "store_segments_retired", &retired), LLM_OK);
    assert_true(retired >= 3 && retired + 2 >= begun);
}

/* Files longer than the limit cannot be written. */
static void a_disk_that_is_full_stops_the_recording(void **state)
{
    (void)state;
    options.reserve_bytes = UINT64_MAX / 2;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(100);
    for (int i = 0; stopped.kind == 0; i++) {
        assert_true(i < 1000000);
        (void)llm_wait(context, 10000);
    }
    assert_int_equal(stopped.kind, LLM_EVENT_STORE_STOPPED);
    assert_int_equal(stopped.reason, LLM_REASON_DISK_FULL);
    assert_int_equal(stopped.session, session);
    assert_int_equal(acknowledged, 0);
}

/* The first message waits for an application that is absent, with three segments behind it. */
static void what_is_not_acknowledged_by_others_is_retained(void **state)
{
    static const uint8_t bytes[30000];
    struct llm_assurance assurance;

    (void)state;
    options.bytes_max = 2 * options.segment_bytes;
    options.until_acknowledged = true;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up_with("&history_bytes=128M&history_packets=131072&rcvbuf_bytes=64M");
    for (int i = 1; i < 3; i++)
        assert_int_equal(llm_topic_assure(topics[i], NULL), LLM_OK);
    llm_assurance_init(&assurance);
    assurance.receivers = 0;
    assurance.names = "a,absent";
    assert_int_equal(llm_topic_assure(topics[0], &assurance), LLM_OK);
    assert_int_equal(llm_send(topics[0], "waits", 5, 0), LLM_OK);
    for (int i = 0; i < 2000;) {
        i += llm_send(topics[1], bytes, sizeof bytes, 0) == LLM_OK;
        (void)llm_poll(context);
    }
    assert_int_equal(retired_after(1500000000), 0);
    assert_int_equal(llm_topic_assure(topics[0], NULL), LLM_OK);
    assert_true(retired_after(10000000000) > 0);
}

/* One transmitter sends to two groups, and the store follows both. */
static void a_session_that_comes_by_two_channels_is_recorded_once(void **state)
{
    struct reading reading;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    group = "loop://store-beside:1";
    assert_int_equal(llm_store_follow(store, channel(""), NULL), LLM_OK);
    group = "loop://store:1";
    transmitter_up_with("&destinations=store-beside:1");
    send_some(300);
    await_acknowledged(300);
    reading = read_all();
    assert_int_equal(reading.next, 300);
    assert_int_equal(reading.gaps, 0);
    expect_logged("follow one of them");
}

static void a_child_process_leaves_the_store_alone(void **state)
{
    pid_t child;
    int status;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(100);
    child = fork();
    if (child == 0) {
        const bool closed = llm_context_close(&context) == LLM_OK;

        _exit(closed ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    send_some(100);
    await_acknowledged(200);
    assert_int_equal(read_all().next, 200);
}

static void a_second_store_in_the_directory_is_refused(void **state)
{
    struct llm_store *second = NULL;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    assert_int_equal(llm_store_open(context, &options, NULL, &second), LLM_ESTATE);
    assert_null(second);
}

/* So the lock lasts until the writes of a killed process have ended. */
static void the_engine_has_the_lock_of_the_directory(void **state)
{
    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    assert_int_equal(store->disk->files[0].fd, lli_pool_lock(store->pool));
}

static void options_out_of_their_range_are_refused(void **state)
{
    static const struct {
        size_t at;
        uint64_t value;
    } wrong[] = {{offsetof(struct llm_store_options, segment_bytes), 4096},
                 {offsetof(struct llm_store_options, segment_bytes), (16 << 20) + 1},
                 {offsetof(struct llm_store_options, bytes_max), 1}};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct llm_store_options bad = options;

        memcpy((uint8_t *)&bad + wrong[i].at, &wrong[i].value, sizeof wrong[i].value);
        assert_int_equal(llm_store_open(context, &bad, NULL, &store), LLM_EOPTION);
    }
    options.directory = "/nowhere";
    assert_int_equal(llm_store_open(context, &options, NULL, &store), LLM_ENOTFOUND);
    options.directory = NULL;
    assert_int_equal(llm_store_open(context, &options, NULL, &store), LLM_EINVAL);
}

static void channel_options_that_do_not_apply_are_refused(void **state)
{
    (void)state;
    assert_int_equal(llm_store_open(context, &options, NULL, &store), LLM_OK);
    assert_int_equal(llm_store_follow(store, channel("&order=arrival"), NULL), LLM_EOPTION);
    assert_int_equal(llm_store_follow(store, channel("&join=latest"), NULL), LLM_EOPTION);
    assert_int_equal(llm_store_follow(store, channel("&acknowledge=application"), NULL), LLM_EOPTION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)
        TEST(acknowledged_messages_are_on_the_disk_by_uring),
        TEST(acknowledged_messages_are_on_the_disk_by_a_thread),
        TEST(all_levels_acknowledge),
        TEST(what_was_received_is_acknowledged_in_the_next_polls),
        TEST(a_store_that_is_opened_again_continues_the_recording),
        TEST(a_recording_has_as_many_segments_as_it_needs),
        TEST(the_oldest_segments_are_removed),
        TEST(a_disk_that_is_full_stops_the_recording),
        TEST(what_is_not_acknowledged_by_others_is_retained),
        TEST(a_session_that_comes_by_two_channels_is_recorded_once),
        TEST(a_child_process_leaves_the_store_alone),
        TEST(a_second_store_in_the_directory_is_refused),
        TEST(the_engine_has_the_lock_of_the_directory),
        TEST(options_out_of_their_range_are_refused),
        TEST(channel_options_that_do_not_apply_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
