/* SPDX-License-Identifier: Apache-2.0 */
/* A transmitter that restarts asks stores where its stream ends. */
#define _GNU_SOURCE
#include "store_fixture.h"

#define LONG UINT64_C(60000000000)
#define SHORT UINT64_C(100000000)

static struct llm_options stream;

static int up_with_store(void **state)
{
    (void)up(state);
    assert_int_equal(store_up_in(context), LLM_OK);
    llm_options_init(&stream);
    strcpy(stream.stream, "orders");
    return 0;
}

/* One life of the transmitter, as the stores said. */
static void live(uint64_t messages)
{
    char further[128];

    (void)snprintf(further, sizeof further, "&stream=orders&stream_base=%llu&stream_term=%u",
                   (unsigned long long)stream.stream_base, stream.stream_term);
    acknowledged = 0;
    transmitter_up_with(further);
    send_some(messages);
    await_acknowledged(messages);
    (void)llm_transmitter_close(&transmitter);
}

static void expect_ask(uint32_t stores, uint64_t base, uint32_t term)
{
    assert_int_equal(llm_store_ask(context, channel(""), &stream, stores, LONG), stores);
    assert_int_equal(stream.stream_base, base);
    assert_int_equal(stream.stream_term, term);
}

static void a_store_says_where_a_stream_ends(void **state)
{
    (void)state;
    expect_ask(1, 0, 0);
    live(500);
    expect_ask(1, 500, 1);
    live(70);
    expect_ask(1, 570, 2);
    strcpy(stream.stream, "trades");
    expect_ask(1, 0, 0);
    assert_true(counter_of(context, "store_streams_answered") >= 4);
}

/* While the session goes on, and after the store was opened again. */
static void the_end_is_that_of_the_recording_on_the_disk(void **state)
{
    (void)state;
    transmitter_up_with("&stream=orders&stream_base=1000&stream_term=7");
    send_some(300);
    await_acknowledged(300);
    expect_ask(1, 1300, 8);
    send_some(50);
    await_acknowledged(350);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_int_equal(store_up_in(context), LLM_OK);
    expect_ask(1, 1350, 8);
}

/* The second one was away in the second life. */
static void the_farthest_of_several_stores_counts(void **state)
{
    char second[64] = "/tmp/llm-store-XXXXXX";
    struct llm_context_options context_options;
    struct llm_store *first = store;
    struct llm_context *other;

    (void)state;
    assert_non_null(mkdtemp(second));
    llm_context_options_init(&context_options);
    context_options.huge_pages = false;
    assert_int_equal(llm_context_open(&context_options, &other), LLM_OK);
    options.directory = second;
    assert_int_equal(store_up_in(other), LLM_OK);
    assert_int_equal(llm_context_start_thread(other, -1), LLM_OK);
    expect_ask(2, 0, 0);
    live(400);
    expect_ask(2, 400, 1);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    live(100);
    assert_int_equal(store_up_in(other), LLM_OK);
    expect_ask(2, 500, 2);
    /* Alone it has the end of the first life, at most. */
    assert_int_equal(llm_store_close(&first), LLM_OK);
    assert_int_equal(llm_store_ask(context, channel(""), &stream, 1, LONG), 1);
    assert_in_range(stream.stream_base, 1, 400);
    assert_int_equal(stream.stream_term, 1);
    assert_int_equal(llm_context_stop_thread(other), LLM_OK);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_int_equal(llm_context_close(&other), LLM_OK);
    assert_int_equal(tree_remove(second), 0);
}

static void fewer_stores_than_wanted_are_an_error(void **state)
{
    (void)state;
    stream.stream_base = 5;
    stream.stream_term = 6;
    assert_int_equal(llm_store_ask(context, channel(""), &stream, 2, SHORT), LLM_ENOTFOUND);
    expect_logged("1 of 2 stores");
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_int_equal(llm_store_ask(context, channel(""), &stream, 1, SHORT), LLM_ENOTFOUND);
    expect_logged("0 of 1 stores");
    assert_int_equal(stream.stream_base, 5);
    assert_int_equal(stream.stream_term, 6);
}

/* The store reads its disk for each question. */
static void too_many_questions_are_dropped(void **state)
{
    (void)state;
    live(10);
    for (int i = 0; i < 100; i++)
        (void)llm_store_ask(context, channel(""), &stream, 1, 0);
    assert_true(counter_of(context, "store_streams_dropped") > 0);
    expect_ask(1, 10, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, up_with_store, down)
        TEST(a_store_says_where_a_stream_ends),      TEST(the_end_is_that_of_the_recording_on_the_disk),
        TEST(the_farthest_of_several_stores_counts), TEST(fewer_stores_than_wanted_are_an_error),
        TEST(too_many_questions_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
