/* SPDX-License-Identifier: Apache-2.0 */
#include "recording.h"

static void entries_are_read_as_they_were_written(void **state)
{
    const struct lli_index_entry entry = {.packet = 1, .message = UINT64_MAX - 2, .wall = 3, .offset = 4};
    struct lli_index_entry read;
    uint8_t bytes[LLI_INDEX_ENTRY];

    (void)state;
    lli_index_put(bytes, &entry);
    lli_index_get(bytes, &read);
    assert_memory_equal(&read, &entry, sizeof entry);
}

static void entries_are_a_distance_apart(void **state)
{
    struct recording r;

    (void)state;
    recording_open(&r, 5);
    while (recording_write(&r, 3))
        ;
    assert_true(r.entry_count > 10 && r.entry_count < r.blocks / 2);
    for (size_t i = 1; i < r.entry_count; i++)
        assert_true(r.entries[i].offset >= r.entries[i - 1].offset + LLI_INDEX_DISTANCE);
    recording_close(&r);
}

/* Blocks of names have no message number, so no search could use them. */
static void blocks_of_names_have_no_entry(void **state)
{
    const struct lli_block block = {.message = LLI_BLOCK_UNNUMBERED};

    (void)state;
    assert_false(lli_index_wants(NULL, &block, LLI_SEGMENT_HEADER));
}

/* Nothing that was searched for lies before the block found, and hardly more than necessary behind it. */
static void the_block_found_is_the_last_that_omits_nothing(void **state)
{
    struct recording r;

    (void)state;
    recording_open(&r, 6);
    while (recording_write(&r, 1 + (uint32_t)below(&r.random, 40)))
        ;
    for (int i = 0; i < 20000; i++) {
        const struct lli_block_position *last = &r.at[r.blocks];
        const lli_seq packet =
            r.segment.first.packet + lli_random_below(&r.random, last->packet - r.segment.first.packet);
        const lli_ns wall = r.at[0].wall + lli_random_below(&r.random, last->wall - r.at[0].wall);
        size_t found = lli_index_find(r.entries, r.entry_count, LLI_INDEX_PACKET, packet);

        assert_true(r.entries[found].packet <= packet);
        assert_true(found + 1 == r.entry_count || r.entries[found + 1].packet > packet);
        found =
            lli_index_find(r.entries, r.entry_count, LLI_INDEX_MESSAGE, r.entries[0].message + packet % 5000);
        assert_true(r.entries[found].message <= r.entries[0].message + packet % 5000);
        found = lli_index_find(r.entries, r.entry_count, LLI_INDEX_WALL, wall);
        assert_true(found == 0 || r.entries[found].wall < wall);
        assert_true(found + 1 == r.entry_count || r.entries[found + 1].wall >= wall);
    }
    recording_close(&r);
}

static void values_before_the_first_entry_are_searched_from_there(void **state)
{
    const struct lli_index_entry entries[] = {{.packet = 10, .message = 20, .wall = 30},
                                              {.packet = 11, .message = 20, .wall = 30},
                                              {.packet = 12, .message = 25, .wall = 31}};

    (void)state;
    assert_int_equal(lli_index_find(entries, 3, LLI_INDEX_PACKET, 3), 0);
    assert_int_equal(lli_index_find(entries, 0, LLI_INDEX_PACKET, 3), 0);
    /* No message starts in the first block. */
    assert_int_equal(lli_index_find(entries, 3, LLI_INDEX_MESSAGE, 20), 1);
    assert_int_equal(lli_index_find(entries, 3, LLI_INDEX_MESSAGE, 24), 1);
    assert_int_equal(lli_index_find(entries, 3, LLI_INDEX_MESSAGE, 25), 2);
    /* Both blocks may have what arrived at 30. */
    assert_int_equal(lli_index_find(entries, 3, LLI_INDEX_WALL, 30), 0);
    assert_int_equal(lli_index_find(entries, 3, LLI_INDEX_WALL, 31), 1);
    assert_int_equal(lli_index_find(entries, 3, LLI_INDEX_WALL, 32), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read_as_they_were_written),
        cmocka_unit_test(entries_are_a_distance_apart),
        cmocka_unit_test(blocks_of_names_have_no_entry),
        cmocka_unit_test(the_block_found_is_the_last_that_omits_nothing),
        cmocka_unit_test(values_before_the_first_entry_are_searched_from_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
