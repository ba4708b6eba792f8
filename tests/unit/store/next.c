/* SPDX-License-Identifier: Apache-2.0 */
/* The segment that follows is made before it is due. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"

#include "store_reading.h"

enum { SOME = 500 };

static const struct lli_recorded *recorded(void)
{
    return lli_store_recorded(store, session);
}

/* Reads where the file of a segment is. False: there is none. */
static bool find_file(uint64_t ordinal, struct stat *file)
{
    char path[160];

    (void)snprintf(path, sizeof path, "%s/%016llx/%016llx.segment", directory, (unsigned long long)session,
                   (unsigned long long)ordinal);
    return stat(path, file) == 0;
}

/* Records until the segment is half full. */
static void fill_half(void)
{
    struct stat file;

    while (recorded() == NULL || recorded()->recorder.offset <= options.segment_bytes / 2) {
        assert_true(recorded() == NULL || recorded()->next.fd < 0);
        assert_false(find_file(1, &file));
        send_some(SOME);
    }
}

static void await_next(void)
{
    for (int i = 0; recorded()->next.fd < 0; i++) {
        assert_true(i < 1000000);
        (void)llm_wait(context, 10000);
    }
}

static void record_with_next(void)
{
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    fill_half();
    await_next();
}

/* ------------------------------------------------------------------------------------------------- tests */

/* It counts as a spare, and a reader takes it for what it is. */
static void it_is_there_when_half_of_the_segment_is_full(void **state)
{
    const struct lli_log log = {.function = log_keep};
    struct lli_catalogue *catalogue;
    struct stat ahead, begun;

    (void)state;
    record_with_next();
    assert_true(find_file(1, &ahead));
    assert_int_equal(ahead.st_size, options.segment_bytes);
    assert_int_equal(counter_of(context, "store_spares"), 1);
    assert_int_equal(counter_of(context, "store_segments_begun"), 1);
    assert_int_equal(lli_catalogue_open(directory, &log, &catalogue), LLM_OK);
    assert_int_equal(catalogue->recordings[0]->count, 1);
    assert_int_equal(catalogue->ignored, 0);
    assert_int_equal(catalogue->ready_count, 1);
    lli_catalogue_close(&catalogue);
    while (counter_of(context, "store_segments_begun") == 1)
        send_some(SOME);
    assert_true(find_file(1, &begun));
    assert_true(begun.st_ino == ahead.st_ino);
    await_acknowledged(llm_transmitter_next(transmitter));
    assert_int_equal(read_all().next, llm_transmitter_next(transmitter));
}

static void a_session_that_ends_before_gives_it_back(void **state)
{
    struct stat file;

    (void)state;
    options.spares = 2;
    record_with_next();
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    while (store->sessions_recorded > 0 || lli_pool_spares(store->pool) < 2)
        (void)llm_wait(context, 10000);
    assert_true(find_file(0, &file));
    assert_false(find_file(1, &file));
}

static void a_store_that_closes_before_leaves_no_file(void **state)
{
    struct stat file;

    (void)state;
    record_with_next();
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_true(find_file(0, &file));
    assert_false(find_file(1, &file));
}

/* A store that is killed does not close: the next one finds the file, with a cleared header. */
static void a_store_that_was_killed_leaves_it_to_the_next(void **state)
{
    struct stat file;
    char path[160];
    FILE *left;

    (void)state;
    record_with_next();
    await_acknowledged(llm_transmitter_next(transmitter));
    assert_int_equal(llm_store_close(&store), LLM_OK);
    (void)snprintf(path, sizeof path, "%s/%016llx/%016x.segment", directory, (unsigned long long)session, 1);
    left = fopen(path, "wb");
    assert_non_null(left);
    assert_int_equal(ftruncate(fileno(left), (off_t)options.segment_bytes), 0);
    assert_int_equal(fclose(left), 0);
    assert_true(find_file(1, &file));
    assert_int_equal(store_up_in(context), LLM_OK);
    while (find_file(1, &file))
        (void)usleep(1000);
    /* The recording goes on in a segment with this number. */
    send_some(SOME);
    await_acknowledged(llm_transmitter_next(transmitter));
    assert_true(find_file(1, &file));
    assert_int_equal(read_all().next, llm_transmitter_next(transmitter));
}

/* As many segments as retention leaves, whatever is ahead; and no spare is filled for the one that it will remove. */
static void retention_does_not_count_it(void **state)
{
    enum { LONGER_MS = 500 }; /* than the pool rests after a request, and than it takes to fill a spare */

    (void)state;
    options.spares = 1;
    options.bytes_max = 2 * options.segment_bytes;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    while (counter_of(context, "store_segments_begun") < 2 || recorded()->next.fd < 0)
        send_some(SOME);
    (void)llm_poll(context);
    assert_int_equal(counter_of(context, "store_segments_retired"), 0);
    for (int i = 0; i < LONGER_MS; i++)
        (void)llm_wait(context, 1000000);
    assert_int_equal(lli_pool_spares(store->pool), 0);
    while (counter_of(context, "store_segments_begun") < 3)
        send_some(SOME);
    await_acknowledged(llm_transmitter_next(transmitter));
    (void)llm_poll(context);
    assert_int_equal(counter_of(context, "store_segments_retired"), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)
    const struct CMUnitTest tests[] = {
        TEST(it_is_there_when_half_of_the_segment_is_full),
        TEST(a_session_that_ends_before_gives_it_back),
        TEST(a_store_that_closes_before_leaves_no_file),
        TEST(a_store_that_was_killed_leaves_it_to_the_next),
        TEST(retention_does_not_count_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
