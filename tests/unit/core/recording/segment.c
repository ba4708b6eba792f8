/* SPDX-License-Identifier: Apache-2.0 */
#include "recording.h"

static void a_header_is_read_as_it_was_written(void **state)
{
    struct lli_segment segment;
    struct recording r;

    (void)state;
    recording_open(&r, 1);
    assert_int_equal(lli_segment_get(r.bytes, &segment), LLI_SEGMENT_OK);
    assert_memory_equal(&segment, &r.segment, sizeof segment);
    /* The longest channel. */
    memset(r.segment.channel, 'x', LLI_SEGMENT_CHANNEL_MAX);
    lli_segment_put(r.bytes, &r.segment);
    assert_int_equal(lli_segment_get(r.bytes, &segment), LLI_SEGMENT_OK);
    assert_memory_equal(&segment, &r.segment, sizeof segment);
    recording_close(&r);
}

static void every_changed_byte_is_noticed(void **state)
{
    struct lli_segment segment;
    struct recording r;

    (void)state;
    recording_open(&r, 1);
    for (uint32_t at = 0; at < LLI_SEGMENT_HEADER; at++) {
        r.bytes[at] ^= 0x40;
        assert_int_equal(lli_segment_get(r.bytes, &segment), LLI_SEGMENT_NONE);
        r.bytes[at] ^= 0x40;
    }
    recording_close(&r);
}

/* A whole header of a later version is named as such. */
static void another_version_is_refused(void **state)
{
    struct lli_segment segment;
    struct recording r;

    (void)state;
    recording_open(&r, 1);
    lli_store_u32(r.bytes + 16, LLI_SEGMENT_VERSION + 1);
    lli_store_u64(r.bytes, lli_hash(r.bytes + 8, LLI_SEGMENT_HEADER - 8));
    assert_int_equal(lli_segment_get(r.bytes, &segment), LLI_SEGMENT_VERSION_BAD);
    recording_close(&r);
}

static void impossible_sizes_are_refused(void **state)
{
    static const uint64_t sizes[] = {0, LLI_SEGMENT_MIN - LLI_BLOCK_ALIGN, RECORDING_SIZE + 1, UINT64_MAX};
    struct lli_segment segment;
    struct recording r;

    (void)state;
    recording_open(&r, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        r.segment.size = sizes[i];
        lli_segment_put(r.bytes, &r.segment);
        assert_int_equal(lli_segment_get(r.bytes, &segment), LLI_SEGMENT_NONE);
    }
    recording_close(&r);
}

static void impossible_numbers_are_refused(void **state)
{
    struct lli_segment segment;
    struct recording r;

    (void)state;
    recording_open(&r, 1);
    for (int i = 0; i < 2; i++) {
        struct lli_segment other = r.segment;
        uint64_t *number = i == 0 ? &other.first.packet : &other.first.message;

        *number = LLI_BLOCK_NUMBER_MAX;
        lli_segment_put(r.bytes, &other);
        assert_int_equal(lli_segment_get(r.bytes, &segment), LLI_SEGMENT_OK);
        *number += 1;
        lli_segment_put(r.bytes, &other);
        assert_int_equal(lli_segment_get(r.bytes, &segment), LLI_SEGMENT_NONE);
    }
    recording_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_read_as_it_was_written), cmocka_unit_test(every_changed_byte_is_noticed),
        cmocka_unit_test(another_version_is_refused),         cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(impossible_numbers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
