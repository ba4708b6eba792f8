/* SPDX-License-Identifier: Apache-2.0 */
#include "recording.h"

static struct recording r;
static struct lli_recovery recovery;
static uint32_t blocks;

static void fill(uint64_t seed, uint32_t count)
{
    recording_open(&r, seed);
    while (r.blocks < count && recording_write(&r, 1 + (uint32_t)below(&r.random, 30)))
        ;
}

static enum lli_recovery_step recover(void)
{
    lli_recovery_begin(&recovery, &r.segment);
    return recording_recover(r.bytes, RECORDING_SIZE, &recovery, &blocks);
}

/* The end is behind `count` blocks. */
static void ends_after(uint32_t count)
{
    assert_int_equal(recover(), LLI_RECOVERY_END);
    assert_int_equal(blocks, count);
    assert_int_equal(recovery.end, count == r.blocks ? r.end : r.offsets[count]);
    assert_memory_equal(&recovery.next, &r.at[count], sizeof recovery.next);
}

static void whole_segments_are_read_to_their_end(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        fill(seed, (uint32_t)seed * 7);
        ends_after(r.blocks);
        recording_close(&r);
    }
}

static void an_empty_segment_ends_at_its_first_block(void **state)
{
    (void)state;
    recording_open(&r, 1);
    ends_after(0);
    recording_close(&r);
}

static void a_full_segment_ends_at_its_end(void **state)
{
    (void)state;
    fill(3, RECORDING_BLOCKS);
    while (r.blocks < RECORDING_BLOCKS && RECORDING_SIZE - r.end >= LLI_BLOCK_ALIGN) {
        struct lli_block_builder builder;

        r.offsets[r.blocks] = r.end;
        lli_block_begin(&builder, r.bytes + r.end, LLI_BLOCK_ALIGN, &r.next);
        assert_true(lli_block_add_end(&builder, r.next.message, LLM_REASON_CLOSED));
        r.end += lli_block_seal(&builder, 1, 1, &r.next);
        r.at[++r.blocks] = r.next;
    }
    assert_int_equal(r.end, RECORDING_SIZE);
    ends_after(r.blocks);
    recording_close(&r);
}

/*
 * Sectors of 512 bytes are written whole, in any order. A block of which some are missing does not count, nor
 * do those behind it that were under way.
 */
static void torn_writes_are_cut_off(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const uint32_t under_way = 1 + (uint32_t)(seed % LLI_RECOVERY_FLIGHT);
        uint32_t whole = 0;
        bool torn = false;

        fill(seed, 20 + under_way);
        for (uint32_t i = 20; i < r.blocks; i++) {
            const uint64_t end = i + 1 < r.blocks ? r.offsets[i + 1] : r.end;
            struct lli_block block;

            for (uint64_t at = r.offsets[i]; at < end; at += 512)
                if (below(&r.random, 8) == 0)
                    memset(r.bytes + at, 0, 512);
            torn |= lli_block_check(r.bytes + r.offsets[i], end - r.offsets[i], NULL, &block, NULL) !=
                    LLI_BLOCK_OK;
            whole += !torn;
        }
        ends_after(20 + whole);
        recording_close(&r);
    }
}

/* The segment had another session, or an earlier part of this one. */
static void contents_of_an_earlier_use_are_not_taken(void **state)
{
    struct recording old;

    (void)state;
    for (int same = 0; same < 2; same++) {
        fill(8, 12);
        recording_open(&old, 9);
        old.next.session += !same;
        old.next.sequence = 4;
        /* The session used the segment for blocks before those that it has now. */
        while (old.next.sequence < r.segment.first.sequence && recording_write(&old, 20))
            ;
        assert_true(old.end > r.end);
        memcpy(r.bytes + r.end, old.bytes + r.end, RECORDING_SIZE - r.end);
        ends_after(r.blocks);
        recording_close(&old);
        recording_close(&r);
    }
}

/* More whole blocks follow than can have been under way, so this one was acknowledged. */
static void damage_before_acknowledged_blocks_is_reported(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint32_t bad;

        fill(seed, 40);
        bad = (uint32_t)below(&r.random, r.blocks);
        r.bytes[r.offsets[bad] + below(&r.random, LLI_BLOCK_HEADER + 2)] ^= 0x10;
        if (bad + LLI_RECOVERY_FLIGHT < r.blocks) {
            assert_int_equal(recover(), LLI_RECOVERY_DAMAGED);
            assert_int_equal(blocks, bad);
            assert_int_equal(recovery.end, r.offsets[bad]);
            assert_int_equal(recovery.offset, r.offsets[bad + LLI_RECOVERY_FLIGHT]);
            assert_int_equal(recovery.block.sequence, r.at[bad + LLI_RECOVERY_FLIGHT].sequence);
        } else {
            ends_after(bad);
        }
        recording_close(&r);
    }
}

/* Blocks under way at the crash do not come back when the recording goes on in their place. */
static void blocks_cut_off_do_not_come_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        fill(seed, 23);
        memset(r.bytes + r.offsets[20], 0, 512);
        ends_after(20);
        r.blocks = 20;
        r.end = r.offsets[20];
        r.next = r.at[20];
        for (uint32_t i = 1; i <= 3; i++) {
            assert_true(recording_write(&r, 1 + (uint32_t)below(&r.random, 10)));
            ends_after(20 + i);
        }
        recording_close(&r);
    }
}

static void files_may_be_truncated(void **state)
{
    (void)state;
    fill(4, 30);
    for (uint32_t i = 0; i < r.blocks; i++) {
        for (uint64_t cut = 0; cut < 3; cut++) {
            const uint64_t size = r.offsets[i] + cut * 37;

            lli_recovery_begin(&recovery, &r.segment);
            assert_int_equal(recording_recover(r.bytes, size, &recovery, &blocks), LLI_RECOVERY_END);
            assert_int_equal(blocks, i);
        }
    }
    recording_close(&r);
}

static void an_index_entry_saves_the_blocks_before_it(void **state)
{
    (void)state;
    fill(11, 200);
    assert_true(r.entry_count > 3);
    for (size_t i = 0; i < r.entry_count; i++) {
        uint32_t before = 0;

        while (r.offsets[before] < r.entries[i].offset)
            before++;
        lli_recovery_begin_at(&recovery, &r.segment, &r.entries[i]);
        assert_int_equal(recording_recover(r.bytes, RECORDING_SIZE, &recovery, &blocks), LLI_RECOVERY_END);
        assert_int_equal(blocks, r.blocks - before);
        assert_memory_equal(&recovery.next, &r.next, sizeof recovery.next);
    }
    recording_close(&r);
}

static void a_wrong_index_entry_finds_nothing(void **state)
{
    (void)state;
    fill(12, 50);
    for (int i = 0; i < 5000; i++) {
        struct lli_index_entry entry = r.entries[r.entry_count - 1];

        if (i % 2 == 0)
            entry.offset = i % 8 == 0 ? lli_random(&r.random) : lli_random_below(&r.random, RECORDING_SIZE);
        else
            entry.packet += 1 + lli_random_below(&r.random, 1000);
        if (entry.offset / LLI_BLOCK_ALIGN == r.entries[r.entry_count - 1].offset / LLI_BLOCK_ALIGN &&
            i % 2 == 0)
            continue;
        lli_recovery_begin_at(&recovery, &r.segment, &entry);
        assert_int_equal(recording_recover(r.bytes, RECORDING_SIZE, &recovery, &blocks), LLI_RECOVERY_END);
        assert_int_equal(blocks, 0);
    }
    recording_close(&r);
}

/* A recovery ends with any bytes from the disk, and finds nothing that was not written. */
static void random_damage_invents_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        fill(seed, 30);
        for (uint64_t i = 0; i < 1 + seed % 4; i++) {
            const uint64_t at = LLI_SEGMENT_HEADER + lli_random_below(&r.random, r.end - LLI_SEGMENT_HEADER);
            const uint64_t from =
                LLI_SEGMENT_HEADER + lli_random_below(&r.random, r.end - LLI_SEGMENT_HEADER);
            const uint64_t size = lli_min(1 + below(&r.random, 9000), RECORDING_SIZE - lli_max(at, from));

            memmove(r.bytes + at, r.bytes + from, size);
        }
        (void)recover();
        assert_true(blocks <= r.blocks);
        assert_memory_equal(&recovery.next, &r.at[blocks], sizeof recovery.next);
        recording_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_segments_are_read_to_their_end),
        cmocka_unit_test(an_empty_segment_ends_at_its_first_block),
        cmocka_unit_test(a_full_segment_ends_at_its_end),
        cmocka_unit_test(torn_writes_are_cut_off),
        cmocka_unit_test(contents_of_an_earlier_use_are_not_taken),
        cmocka_unit_test(damage_before_acknowledged_blocks_is_reported),
        cmocka_unit_test(blocks_cut_off_do_not_come_back),
        cmocka_unit_test(files_may_be_truncated),
        cmocka_unit_test(an_index_entry_saves_the_blocks_before_it),
        cmocka_unit_test(a_wrong_index_entry_finds_nothing),
        cmocka_unit_test(random_damage_invents_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
