/* SPDX-License-Identifier: Apache-2.0 */
#include "core/protect/protect.h"
#include "recording.h"

static uint8_t bytes[LLI_BLOCK_MAX];

static const struct lli_block_position at = {
    .session = RECORDING_SESSION, .sequence = 9, .previous = 77, .packet = 100, .message = 1000, .wall = 500};

static bool add_name(struct lli_block_builder *builder, enum lli_record_kind kind, uint32_t topic,
                     const void *data, uint32_t size)
{
    const struct lli_record name = {.kind = kind, .topic = topic, .data = data, .size = size};

    return lli_block_add_name(builder, &name);
}

/* The block of docs/store.md: a name, a packet of ten bytes of body, a gap, and the end. */
static uint32_t example(struct lli_block_position *next)
{
    const struct lli_record gap = {
        .next = 105, .message = 1002, .message_next = 1010, .reason = LLM_REASON_GONE};
    const uint8_t name[] = {0, 0, 'b', 'i', 'd'};
    struct lli_block_builder builder;
    uint8_t packet[64];

    lli_block_begin(&builder, bytes, 2 * LLI_BLOCK_ALIGN, &at);
    assert_true(add_name(&builder, LLI_RECORD_NAME, 4, name, sizeof name));
    assert_true(lli_block_add_packet(&builder, packet, recording_packet(packet, 100, 1001, 10)));
    assert_true(lli_block_add_gap(&builder, &gap));
    assert_true(lli_block_add_end(&builder, 1010, LLM_REASON_CLOSED));
    return lli_block_seal(&builder, 600, 42, next);
}

static void records_are_read_as_they_were_added(void **state)
{
    struct lli_block_position next, read_next;
    struct lli_block_reader reader;
    struct lli_record record;
    struct lli_block block;
    uint8_t packet[64];
    const uint32_t size = example(&next);

    (void)state;
    assert_int_equal(size, LLI_BLOCK_ALIGN);
    assert_int_equal(lli_block_check(bytes, size, &at, &block, &read_next), LLI_BLOCK_OK);
    assert_memory_equal(&next, &read_next, sizeof next);
    assert_int_equal(next.sequence, 10);
    assert_int_equal(next.packet, 105);
    assert_int_equal(next.message, 1010);
    assert_int_equal(next.wall, 600);
    assert_int_equal(next.previous, block.hash);
    assert_int_equal(block.packet, 100);
    assert_int_equal(block.message, 1001);
    assert_int_equal(block.steady, 42);

    reader = lli_block_records(bytes, &block);
    assert_true(lli_block_next(&reader, &record));
    assert_int_equal(record.kind, LLI_RECORD_NAME);
    assert_int_equal(record.topic, 4);
    assert_int_equal(record.size, 5);
    assert_memory_equal(record.data + 2, "bid", 3);
    assert_int_equal(record.packet, 100);
    assert_true(lli_block_next(&reader, &record));
    assert_int_equal(record.kind, LLI_RECORD_PACKET);
    assert_int_equal(record.packet, 100);
    assert_int_equal(record.next, 101);
    assert_int_equal(record.message, 1001);
    assert_int_equal(record.size, recording_packet(packet, 100, 1001, 10));
    assert_memory_equal(record.data, packet, record.size);
    assert_true(lli_block_next(&reader, &record));
    assert_int_equal(record.kind, LLI_RECORD_GAP);
    assert_int_equal(record.packet, 101);
    assert_int_equal(record.next, 105);
    assert_int_equal(record.message, 1002);
    assert_int_equal(record.message_next, 1010);
    assert_int_equal(record.reason, LLM_REASON_GONE);
    assert_true(lli_block_next(&reader, &record));
    assert_int_equal(record.kind, LLI_RECORD_END);
    assert_int_equal(record.packet, 105);
    assert_int_equal(record.message, 1010);
    assert_int_equal(record.reason, LLM_REASON_CLOSED);
    assert_false(lli_block_next(&reader, &record));
}

/* docs/store.md has these bytes; a change of the format is a change of LLI_SEGMENT_VERSION. */
static void the_bytes_are_those_of_the_specification(void **state)
{
    static const uint8_t expected[] = {
        0x0c, 0x1a, 0x0e, 0xe9, 0x77, 0x0a, 0x88, 0x77, 0x6c, 0x6c, 0x6d, 0x62, 0x6c, 0x6f, 0x63, 0x6b,
        0x00, 0x10, 0x00, 0x00, 0xa0, 0x00, 0x00, 0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
        0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x64, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe9, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x58, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x02, 0x00, 0x04, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x62, 0x69, 0x64, 0x1c, 0x00, 0x11, 0x00,
        0x1c, 0x00, 0x88, 0x77, 0x66, 0x55, 0x64, 0x00, 0x00, 0x00, 0xe9, 0x03, 0x00, 0x00, 0x00, 0x00,
        0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x01, 0x00, 0x69, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0xea, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf2, 0x03, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x03, 0x03, 0x00, 0xf2, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
    };
    struct lli_block_position next;

    (void)state;
    (void)example(&next);
    assert_memory_equal(bytes, expected, sizeof expected);
    for (size_t i = sizeof expected; i < LLI_BLOCK_ALIGN; i++)
        assert_int_equal(bytes[i], 0);
}

/* The hash of docs/store.md, of a block with so many bytes of records. */
static uint64_t hash_of(const uint8_t *block, uint32_t records)
{
    uint8_t hashed[72 + 64 * 8];
    size_t size = 72;

    memcpy(hashed, block + 8, size);
    for (uint32_t done = 0; done < records; done += 16384, size += 8)
        lli_store_u64(hashed + size,
                      lli_hash(block + 80 + done, records - done < 16384 ? records - done : 16384));
    return lli_hash(hashed, size);
}

/* Adds packets until a block has so many bytes of records. */
static void fill(struct lli_block_builder *builder, uint32_t records, uint32_t packet_max)
{
    static uint8_t packet[LLI_BLOCK_PACKET_MAX];

    while (builder->used - 80 < records) {
        const uint32_t left = records - (builder->used - 80);
        uint32_t size = left < packet_max ? left : packet_max;

        /* The rest has to be a packet, too. */
        if (left > size && left - size < 100)
            size -= 100;
        (void)recording_packet(packet, builder->next.packet, builder->next.message + 1,
                               size - 2 - LLI_WIRE_DATA_HEADER);
        assert_true(lli_block_add_packet(builder, packet, size - 2));
    }
}

/* Blocks of less than a piece, of whole ones, of many, of packets that are longer, and the longest one. */
static void the_hash_is_that_of_the_header_and_the_pieces(void **state)
{
    static const struct {
        uint32_t records, packet_max;
    } cases[] = {
        {16383, 1500}, {16384, 1500},   {16385, 1500},          {32768, 16384},
        {32769, 1500}, {200000, 60000}, {(1 << 20) - 80, 9000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lli_block_builder builder;
        struct lli_block_position next;
        struct lli_block block;

        lli_block_begin(&builder, bytes, LLI_BLOCK_MAX, &at);
        fill(&builder, cases[i].records, cases[i].packet_max);
        assert_int_equal(builder.used, 80 + cases[i].records);
        (void)lli_block_seal(&builder, 600, 42, &next);
        assert_true(next.previous == hash_of(bytes, cases[i].records));
        assert_int_equal(lli_block_check(bytes, LLI_BLOCK_MAX, &at, &block, NULL), LLI_BLOCK_OK);
        bytes[79 + cases[i].records] ^= 1;
        assert_int_equal(lli_block_check(bytes, LLI_BLOCK_MAX, &at, &block, NULL), LLI_BLOCK_TORN);
    }
}

/* A block that is split within a piece that was hashed already. */
static void the_hash_of_a_part_is_right(void **state)
{
    static uint8_t more[LLI_BLOCK_MAX];
    struct lli_block_builder builder, rest;
    struct lli_block_position next;
    struct lli_block_mark mark;

    (void)state;
    lli_block_begin(&builder, bytes, LLI_BLOCK_MAX, &at);
    fill(&builder, 40000, 1500);
    mark =
        (struct lli_block_mark){.used = builder.used, .next = builder.next, .message = builder.next.message};
    fill(&builder, 90000, 1500);
    lli_block_split(&builder, &mark, &rest, more);
    fill(&builder, 48000, 1000);
    fill(&rest, 70000, 1500);
    (void)lli_block_seal(&builder, 600, 42, &next);
    assert_true(next.previous == hash_of(bytes, 48000));
    (void)lli_block_seal(&rest, 600, 42, &next);
    assert_true(next.previous == hash_of(more, 70000));
}

static void every_changed_bit_is_noticed(void **state)
{
    struct lli_block_position next;
    struct lli_block block;
    uint32_t size = example(&next);

    (void)state;
    assert_int_equal(lli_block_get(bytes, size, &block), LLI_BLOCK_OK);
    for (uint32_t bit = 0; bit < 8 * block.used; bit++) {
        struct lli_block changed;

        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(lli_block_check(bytes, size, NULL, &changed, NULL), LLI_BLOCK_OK);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(lli_block_check(bytes, size, NULL, &block, NULL), LLI_BLOCK_OK);
}

static void a_block_of_another_place_is_foreign(void **state)
{
    struct lli_block_position next, other;
    struct lli_block block;
    const uint32_t size = example(&next);

    (void)state;
    for (int i = 0; i < 4; i++) {
        other = at;
        other.session += i == 0;
        other.sequence += i == 1;
        other.previous += i == 2;
        other.packet += i == 3;
        assert_int_equal(lli_block_check(bytes, size, &other, &block, NULL), LLI_BLOCK_FOREIGN);
    }
}

static void a_part_of_a_block_is_short(void **state)
{
    struct lli_block_position next;
    struct lli_block block;
    const uint32_t size = example(&next);

    (void)state;
    assert_int_equal(lli_block_check(bytes, LLI_BLOCK_HEADER - 1, &at, &block, NULL), LLI_BLOCK_NONE);
    assert_int_equal(lli_block_check(bytes, LLI_BLOCK_HEADER, &at, &block, NULL), LLI_BLOCK_SHORT);
    assert_int_equal(block.size, size);
    assert_int_equal(lli_block_check(bytes, size - 1, &at, &block, NULL), LLI_BLOCK_SHORT);
    memset(bytes, 0, size);
    assert_int_equal(lli_block_check(bytes, size, &at, &block, NULL), LLI_BLOCK_NONE);
}

static void a_full_block_takes_no_more(void **state)
{
    struct lli_block_builder builder;
    struct lli_block_position next;
    struct lli_block block;
    const struct lli_record gap = {.next = 200, .message = 1001, .message_next = 1001};
    static uint8_t packet[LLI_BLOCK_PACKET_MAX];
    uint32_t size, used;

    (void)state;
    lli_block_begin(&builder, bytes, LLI_BLOCK_ALIGN, &at);
    size = recording_packet(packet, 100, 1000,
                            LLI_BLOCK_ALIGN - LLI_BLOCK_HEADER - 2 - LLI_WIRE_DATA_HEADER - 9);
    assert_true(lli_block_add_packet(&builder, packet, size));
    used = builder.used;
    assert_int_equal(used, LLI_BLOCK_ALIGN - 9);
    assert_false(lli_block_add_packet(&builder, packet, LLI_WIRE_HEADER));
    assert_false(lli_block_add_gap(&builder, &gap));
    assert_false(lli_block_add_end(&builder, 1001, LLM_REASON_CLOSED));
    assert_false(add_name(&builder, LLI_RECORD_NAME, 1, packet, 3));
    assert_false(add_name(&builder, LLI_RECORD_HIDDEN_NAME, 1, packet, 2));
    assert_int_equal(builder.used, used);
    assert_int_equal(builder.next.packet, 101);
    assert_true(add_name(&builder, LLI_RECORD_NAME, 1, packet, 2));
    assert_int_equal(builder.used, LLI_BLOCK_ALIGN);
    assert_int_equal(lli_block_seal(&builder, 600, 0, &next), LLI_BLOCK_ALIGN);
    assert_int_equal(lli_block_check(bytes, LLI_BLOCK_ALIGN, &at, &block, &next), LLI_BLOCK_OK);

    /* The longest packet fits into a block. */
    lli_block_begin(&builder, bytes, LLI_BLOCK_MAX, &at);
    assert_true(lli_block_add_packet(
        &builder, packet, recording_packet(packet, 100, 1000, LLI_BLOCK_PACKET_MAX - LLI_WIRE_DATA_HEADER)));
    size = lli_block_seal(&builder, 600, 0, &next);
    assert_int_equal(lli_block_check(bytes, size, &at, &block, &next), LLI_BLOCK_OK);
}

/* Both parts are read back, and the second one follows the first. */
static void records_behind_a_mark_begin_another_block(void **state)
{
    const struct lli_record gap = {
        .next = 105, .message = 1001, .message_next = 1009, .reason = LLM_REASON_GONE};
    static uint8_t more[LLI_BLOCK_ALIGN];
    struct lli_block_builder builder, rest;
    struct lli_block_position next, last;
    struct lli_block_mark mark;
    struct lli_block block;
    uint8_t packet[64];

    (void)state;
    lli_block_begin(&builder, bytes, LLI_BLOCK_ALIGN, &at);
    assert_true(lli_block_add_packet(&builder, packet, recording_packet(packet, 100, 1000, 10)));
    mark = (struct lli_block_mark){.used = builder.used, .next = builder.next, .message = gap.message};
    assert_true(lli_block_add_gap(&builder, &gap));
    assert_true(lli_block_add_packet(&builder, packet, recording_packet(packet, 105, 1009, 10)));
    lli_block_split(&builder, &mark, &rest, more);
    (void)lli_block_seal(&builder, 600, 0, &next);
    assert_int_equal(next.packet, 101);
    assert_int_equal(lli_block_check(bytes, LLI_BLOCK_ALIGN, &at, &block, NULL), LLI_BLOCK_OK);
    assert_int_equal(block.message, 1000);
    rest.at.sequence = next.sequence;
    rest.at.previous = next.previous;
    (void)lli_block_seal(&rest, 600, 0, &last);
    assert_int_equal(lli_block_check(more, LLI_BLOCK_ALIGN, &next, &block, NULL), LLI_BLOCK_OK);
    assert_int_equal(block.message, 1001);
    assert_int_equal(last.packet, 106);
}

static void a_clock_that_steps_back_counts_as_stopped(void **state)
{
    struct lli_block_builder builder;
    struct lli_block_position next;
    struct lli_block block;

    (void)state;
    lli_block_begin(&builder, bytes, LLI_BLOCK_ALIGN, &at);
    assert_true(lli_block_add_end(&builder, 1000, LLM_REASON_TIMEOUT));
    (void)lli_block_seal(&builder, at.wall - 1, 0, &next);
    assert_int_equal(lli_block_check(bytes, LLI_BLOCK_ALIGN, &at, &block, NULL), LLI_BLOCK_OK);
    assert_int_equal(block.wall, at.wall);
    assert_int_equal(next.wall, at.wall);
}

/* The numbers of messages go on behind a block that has none. */
static void a_block_of_names_has_no_number(void **state)
{
    struct lli_block_builder builder;
    struct lli_block_position next, read_next;
    struct lli_block block;

    (void)state;
    lli_block_begin(&builder, bytes, LLI_BLOCK_ALIGN, &at);
    assert_true(add_name(&builder, LLI_RECORD_NAME, 1, "\0\0ask", 5));
    (void)lli_block_seal(&builder, 600, 0, &next);
    assert_int_equal(lli_block_check(bytes, LLI_BLOCK_ALIGN, &at, &block, &read_next), LLI_BLOCK_OK);
    assert_true(block.message == LLI_BLOCK_UNNUMBERED);
    assert_int_equal(read_next.message, at.message);
    assert_memory_equal(&next, &read_next, sizeof next);
}

static void a_hidden_name_may_be_longer_than_a_name(void **state)
{
    struct lli_block_builder builder;
    struct lli_block_position next;
    struct lli_block_reader reader;
    struct lli_record record;
    struct lli_block block;
    uint8_t hidden[LLI_PROTECT_NAME_MAX];

    (void)state;
    pattern_fill(hidden, sizeof hidden, 1);
    lli_block_begin(&builder, bytes, LLI_BLOCK_ALIGN, &at);
    assert_true(add_name(&builder, LLI_RECORD_HIDDEN_NAME, 70000, hidden, sizeof hidden));
    (void)lli_block_seal(&builder, 600, 0, &next);
    assert_int_equal(lli_block_check(bytes, LLI_BLOCK_ALIGN, &at, &block, &next), LLI_BLOCK_OK);
    assert_true(block.message == LLI_BLOCK_UNNUMBERED);
    reader = lli_block_records(bytes, &block);
    assert_true(lli_block_next(&reader, &record));
    assert_int_equal(record.kind, LLI_RECORD_HIDDEN_NAME);
    assert_int_equal(record.topic, 70000);
    assert_int_equal(record.size, sizeof hidden);
    assert_memory_equal(record.data, hidden, sizeof hidden);
    assert_false(lli_block_next(&reader, &record));
}

/* A hash says nothing about its maker: records of a block that was made wrong are not read beyond its end. */
static void malformed_records_make_no_block(void **state)
{
    static const struct {
        uint8_t record[40];
        uint32_t size;
    } wrong[] = {
        {{5, 0}, 2},                               /* an unknown kind */
        {{0, 0}, 2},                               /* a packet shorter than a header */
        {{200, 0, 0x11}, 30},                      /* a packet longer than the block */
        {{LLI_RECORD_GAP, 0, 101}, 20},            /* truncated */
        {{LLI_RECORD_GAP, 0, 100}, 27},            /* a gap of no packets */
        {{LLI_RECORD_NAME, 0, 1, 0, 0, 0, 9}, 12}, /* a name longer than the block */
        {{LLI_RECORD_HIDDEN_NAME, 0, 1, 0, 0, 0, 1, 1}, 40},
        {{LLI_RECORD_GAP, 0, [9] = 0x80}, 27},       /* a gap up to packet 2^63 */
        {{LLI_RECORD_GAP, 0, 101, [25] = 0x80}, 27}, /* a gap up to message 2^63 */
        {{LLI_RECORD_END, 0, [9] = 0x80}, 11},       /* an end at message 2^63 */
        {{LLI_RECORD_END, 0}, 10},                   /* truncated */
        {{LLI_RECORD_END}, 1},                       /* half of a size */
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct lli_block_builder builder;
        struct lli_block_position next;
        struct lli_block block;

        lli_block_begin(&builder, bytes, LLI_BLOCK_ALIGN, &at);
        memcpy(bytes + builder.used, wrong[i].record, wrong[i].size);
        builder.used += wrong[i].size;
        (void)lli_block_seal(&builder, 600, 0, &next);
        assert_int_equal(lli_block_check(bytes, LLI_BLOCK_ALIGN, &at, &block, NULL), LLI_BLOCK_TORN);
    }
}

static void random_blocks_are_read_back(void **state)
{
    struct recording r;
    struct lli_block block;
    struct lli_block_position next;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        recording_open(&r, seed);
        while (recording_write(&r, 1 + (uint32_t)below(&r.random, seed % 2 == 0 ? 3 : 200)))
            ;
        assert_true(r.blocks > 5);
        for (uint32_t i = 0; i < r.blocks; i++) {
            const uint8_t *from = r.bytes + r.offsets[i];
            struct lli_block_reader reader;
            struct lli_record record;
            lli_seq packet = r.at[i].packet;

            assert_int_equal(lli_block_check(from, RECORDING_SIZE - r.offsets[i], &r.at[i], &block, &next),
                             LLI_BLOCK_OK);
            assert_memory_equal(&next, &r.at[i + 1], sizeof next);
            reader = lli_block_records(from, &block);
            while (lli_block_next(&reader, &record)) {
                uint8_t expected[LLI_WIRE_DATA_HEADER + 1500];

                assert_int_equal(record.packet, packet);
                packet = record.next;
                if (record.kind != LLI_RECORD_PACKET)
                    continue;
                (void)recording_packet(expected, record.packet, record.message,
                                       record.size - LLI_WIRE_DATA_HEADER);
                assert_memory_equal(record.data, expected, record.size);
            }
            assert_int_equal(packet, r.at[i + 1].packet);
        }
        recording_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_read_as_they_were_added),
        cmocka_unit_test(the_bytes_are_those_of_the_specification),
        cmocka_unit_test(the_hash_is_that_of_the_header_and_the_pieces),
        cmocka_unit_test(the_hash_of_a_part_is_right),
        cmocka_unit_test(every_changed_bit_is_noticed),
        cmocka_unit_test(a_block_of_another_place_is_foreign),
        cmocka_unit_test(a_part_of_a_block_is_short),
        cmocka_unit_test(a_full_block_takes_no_more),
        cmocka_unit_test(records_behind_a_mark_begin_another_block),
        cmocka_unit_test(a_clock_that_steps_back_counts_as_stopped),
        cmocka_unit_test(a_block_of_names_has_no_number),
        cmocka_unit_test(a_hidden_name_may_be_longer_than_a_name),
        cmocka_unit_test(malformed_records_make_no_block),
        cmocka_unit_test(random_blocks_are_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
