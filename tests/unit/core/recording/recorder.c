/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorder over a simulated disk: sectors of 512 bytes are written whole, in any order; writes complete in
 * any order and fail now and then; the machine stops at any time. What the recorder said is durable is found
 * again.
 */
#include "recording.h"

#include "core/recording/recorder.h"

enum { SEGMENTS = 24, SEGMENT_SIZE = LLI_SEGMENT_HEADER + 2 * LLI_RECORDER_BLOCK + (256 << 10), TOPICS = 40 };

struct disk_write {
    struct lli_write write;
    uint8_t *copy; /* as the bytes were when the write began */
};

static struct world {
    struct lli_recorder recorder;
    uint8_t *memory;
    uint8_t *segments[SEGMENTS];
    uint32_t newest; /* segments that were written to: 0 to newest - 1 */
    struct disk_write flying[LLI_RECOVERY_FLIGHT];
    uint32_t count;
    uint64_t random;
    uint32_t failures; /* one write of this many fails; 0: none */
    lli_seq sent;      /* next packet to be recorded */
    uint64_t number;   /* of its first message */
    uint32_t names;    /* added to this segment */
} w;

/* Contents follow from the number of the packet: every 50th is lost with the nine behind it. */
static bool is_lost(lli_seq seq)
{
    return seq % 50 == 0;
}

static uint32_t body_of(lli_seq seq)
{
    return (uint32_t)(seq * 7919 % 1400);
}

static void up(uint64_t seed)
{
    const struct lli_segment segment = {
        .first = {.session = RECORDING_SESSION, .packet = 1001, .message = 1001},
        .start = 1001,
        .size = SEGMENT_SIZE,
        .channel = "loop://a:1"};

    memset(&w, 0, sizeof w);
    w.random = seed;
    w.memory = aligned_alloc(LLI_BLOCK_ALIGN, lli_round_up(LLI_RECORDER_MEMORY, LLI_BLOCK_ALIGN));
    assert_non_null(w.memory);
    w.sent = 1001;
    lli_recorder_init(&w.recorder, &segment, w.memory);
}

static void forget_writes(void)
{
    for (uint32_t i = 0; i < w.count; i++)
        free(w.flying[i].copy);
    w.count = 0;
}

static void down(void)
{
    forget_writes();
    for (int i = 0; i < SEGMENTS; i++)
        free(w.segments[i]);
    free(w.memory);
}

/* ----------------------------------------------------------------------------------------------- disk */

static void begin_write(const struct lli_write *write)
{
    struct disk_write *flying = &w.flying[w.count++];

    assert_true(w.count <= LLI_RECOVERY_FLIGHT);
    assert_true(write->ordinal < SEGMENTS);
    assert_true(write->offset + write->size <= SEGMENT_SIZE && write->offset % LLI_BLOCK_ALIGN == 0);
    assert_true(write->size % LLI_BLOCK_ALIGN == 0);
    if (w.segments[write->ordinal] == NULL) {
        assert_int_equal(write->offset, 0);
        w.segments[write->ordinal] = calloc(1, SEGMENT_SIZE);
        assert_non_null(w.segments[write->ordinal]);
        w.newest = (uint32_t)write->ordinal + 1;
        w.names = 0;
    }
    flying->write = *write;
    flying->copy = malloc(write->size);
    assert_non_null(flying->copy);
    memcpy(flying->copy, write->bytes, write->size);
}

/* Writes each sector with a probability of `percent`. */
static void reach_disk(const struct disk_write *flying, uint32_t percent)
{
    uint8_t *to = w.segments[flying->write.ordinal] + flying->write.offset;

    /* The bytes of a write do not change while it is under way. */
    assert_memory_equal(flying->copy, flying->write.bytes, flying->write.size);
    for (uint32_t at = 0; at < flying->write.size; at += 512)
        if (below(&w.random, 100) < percent)
            memcpy(to + at, flying->copy + at, 512);
}

static void complete_one(void)
{
    const uint32_t i = (uint32_t)below(&w.random, w.count);
    const struct disk_write done = w.flying[i];
    const bool fails = w.failures > 0 && below(&w.random, w.failures) == 0;

    reach_disk(&done, fails ? 50 : 100);
    w.flying[i] = w.flying[--w.count];
    lli_recorder_written(&w.recorder, done.write.id, !fails);
    free(done.copy);
}

/* ------------------------------------------------------------------------------------------- recorder */

static bool record_one(void)
{
    uint8_t packet[LLI_WIRE_DATA_HEADER + 1500];
    bool added;

    if (is_lost(w.sent)) {
        const struct lli_record gap = {
            .next = w.sent + 10, .message = w.sent, .message_next = w.sent + 10, .reason = LLM_REASON_GONE};

        added = lli_recorder_add_gap(&w.recorder, &gap, w.sent + 10);
        w.sent += added ? 10 : 0;
        return added;
    }
    /* Each packet has one message, with its number. */
    added = lli_recorder_add_packet(&w.recorder, packet,
                                    recording_packet(packet, w.sent, w.sent, body_of(w.sent)), w.sent + 1);
    w.sent += added;
    return added;
}

static void add_names(void)
{
    static const uint8_t name[250];

    while (w.names < TOPICS &&
           lli_recorder_add_name(&w.recorder, &(struct lli_record){.kind = LLI_RECORD_NAME,
                                                                   .topic = w.names,
                                                                   .data = name,
                                                                   .size = sizeof name}))
        w.names++;
    if (w.names == TOPICS)
        lli_recorder_names_end(&w.recorder);
}

static void issue_all(void)
{
    struct lli_write write;

    for (;;) {
        while (lli_recorder_next(&w.recorder, w.sent, w.sent, &write))
            begin_write(&write);
        if (w.recorder.phase != LLI_RECORDER_NAMES)
            return;
        add_names();
    }
}

/* Records until `packets` have been, or the recorder stops. */
static void run(lli_seq packets)
{
    const lli_seq until = w.sent + packets;

    while (w.sent < until && w.recorder.phase != LLI_RECORDER_STOPPED) {
        if (below(&w.random, 10) < 8 && record_one())
            continue;
        issue_all();
        if (w.count > 0 && below(&w.random, 3) > 0)
            complete_one();
    }
}

static void drain(void)
{
    for (;;) {
        issue_all();
        if (w.count == 0)
            return;
        complete_one();
    }
}

/* ------------------------------------------------------------------------------------------ recovery */

/*
 * Reads all segments in order, each up to where the next one begins, and checks every record. Returns the
 * position behind the last.
 */
static struct lli_block_position read_all(uint64_t *last_ordinal)
{
    struct lli_block_position position = {.packet = 1001, .message = 1001};
    struct lli_segment headers[SEGMENTS];
    uint32_t count = 0;

    for (uint32_t i = 0; i < w.newest; i++)
        if (w.segments[i] != NULL && lli_segment_get(w.segments[i], &headers[count]) == LLI_SEGMENT_OK)
            count++;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *bytes = w.segments[headers[i].ordinal];
        struct lli_recovery recovery;
        enum lli_recovery_step step = LLI_RECOVERY_READ;

        assert_int_equal(headers[i].first.packet, position.packet);
        assert_int_equal(headers[i].first.sequence, position.sequence);
        lli_recovery_begin(&recovery, &headers[i]);
        while (step == LLI_RECOVERY_READ || step == LLI_RECOVERY_BLOCK) {
            struct lli_block_reader reader;
            struct lli_record record;

            if (i + 1 < count && recovery.next.sequence == headers[i + 1].first.sequence && !recovery.found)
                break;
            step = lli_recovery_step(&recovery, bytes + lli_min(recovery.offset, SEGMENT_SIZE),
                                     SEGMENT_SIZE - lli_min(recovery.offset, SEGMENT_SIZE));
            if (step != LLI_RECOVERY_BLOCK)
                continue;
            reader = lli_block_records(bytes + recovery.offset, &recovery.block);
            while (lli_block_next(&reader, &record)) {
                uint8_t packet[LLI_WIRE_DATA_HEADER + 1500];

                if (record.kind == LLI_RECORD_NAME)
                    continue;
                assert_int_equal(record.packet, position.packet);
                assert_int_equal(record.message, record.packet);
                assert_int_equal(record.kind, is_lost(record.packet) ? LLI_RECORD_GAP : LLI_RECORD_PACKET);
                position.packet = record.next;
                if (record.kind != LLI_RECORD_PACKET)
                    continue;
                assert_int_equal(record.size, recording_packet(packet, record.packet, record.packet,
                                                               body_of(record.packet)));
                assert_memory_equal(record.data, packet, record.size);
            }
            position.sequence = recovery.next.sequence;
            if (i + 1 == count)
                position = recovery.next;
        }
        /* Only the last segment may end in what was under way. */
        assert_int_not_equal(step, LLI_RECOVERY_DAMAGED);
        if (i + 1 == count)
            position = recovery.next;
    }
    *last_ordinal = w.newest;
    return position;
}

/* The machine stops: some sectors of what is under way are on the disk. Then the recording goes on. */
static void crash(void)
{
    const lli_seq durable = w.recorder.durable.packet, sent = w.sent;
    struct lli_segment segment = w.recorder.segment;

    for (uint32_t i = 0; i < w.count; i++)
        reach_disk(&w.flying[i], (uint32_t)below(&w.random, 4) * 33);
    forget_writes();
    segment.first = read_all(&segment.ordinal);
    segment.first.session = RECORDING_SESSION;
    assert_true(segment.first.packet >= durable);
    assert_true(segment.first.packet <= sent);
    w.sent = segment.first.packet;
    memset(w.memory, 0xa5, LLI_RECORDER_MEMORY);
    lli_recorder_init(&w.recorder, &segment, w.memory);
}

static void complete(void)
{
    uint64_t ordinal;
    struct lli_block_position end;

    drain();
    end = read_all(&ordinal);
    assert_int_equal(end.packet, w.sent);
    assert_int_equal(w.recorder.durable.packet, w.sent);
    assert_int_equal(w.recorder.delivered, w.sent);
}

/* --------------------------------------------------------------------------------------------- tests */

static void everything_is_read_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        up(seed);
        run(9000);
        complete();
        assert_true(w.newest >= 3);
        down();
    }
}

static void a_crash_loses_nothing_durable(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        up(seed);
        for (int crashes = 0; crashes < 5; crashes++) {
            run(1 + below(&w.random, 1500));
            crash();
        }
        run(500);
        complete();
        down();
    }
}

/* Blocks that a segment failed to take go to the next one, in the same order. */
static void a_failed_write_loses_nothing(void **state)
{
    uint32_t stopped = 0, failed = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        up(seed);
        w.failures = 60;
        run(3000);
        w.failures = 0;
        stopped += w.recorder.phase == LLI_RECORDER_STOPPED;
        failed += w.newest > 3;
        if (w.recorder.phase == LLI_RECORDER_STOPPED) {
            while (w.count > 0)
                complete_one();
            crash();
            run(100);
        }
        complete();
        down();
    }
    assert_true(failed > 10);
    assert_true(stopped > 0);
}

static void a_second_failure_stops(void **state)
{
    const lli_seq durable = 1001;
    struct lli_write write;

    (void)state;
    up(3);
    w.failures = 1;
    run(100000);
    assert_int_equal(w.recorder.phase, LLI_RECORDER_STOPPED);
    assert_int_equal(w.recorder.durable.packet, durable);
    assert_int_equal(w.newest, 2);
    assert_false(lli_recorder_next(&w.recorder, 1, 1, &write));
    down();
}

/* A record that is alone is written at once; what arrives meanwhile is one block. */
static void a_block_has_what_arrived_during_the_write_before_it(void **state)
{
    struct lli_write write;

    (void)state;
    up(4);
    assert_true(record_one());
    issue_all();
    assert_int_equal(w.count, 1);
    complete_one(); /* the header */
    issue_all();
    assert_int_equal(w.count, 1);
    complete_one(); /* the names */
    issue_all();
    assert_int_equal(w.count, 1);
    for (int i = 0; i < 10; i++)
        assert_true(record_one());
    assert_false(lli_recorder_next(&w.recorder, 1, 1, &write));
    complete_one();
    assert_int_equal(w.recorder.durable.packet, 1002);
    issue_all();
    assert_int_equal(w.count, 1);
    complete_one();
    assert_int_equal(w.recorder.durable.packet, w.sent);
    assert_false(lli_recorder_next(&w.recorder, 1, 1, &write));
    down();
}

/* Full blocks are written side by side, and count in order. */
static void full_blocks_do_not_wait_for_each_other(void **state)
{
    struct lli_write write;

    (void)state;
    up(5);
    while (record_one())
        ;
    assert_false(lli_recorder_is_behind(&w.recorder));
    issue_all();
    assert_true(lli_recorder_is_behind(&w.recorder));
    complete_one();
    issue_all();
    complete_one();
    issue_all();
    /* The third does not fit into the segment, and the next one begins when this one is complete. */
    assert_int_equal(w.count, 2);
    assert_false(lli_recorder_next(&w.recorder, 1, 1, &write));
    assert_int_equal(w.recorder.phase, LLI_RECORDER_SEGMENT);
    reach_disk(&w.flying[1], 100);
    lli_recorder_written(&w.recorder, w.flying[1].write.id, true);
    free(w.flying[--w.count].copy);
    assert_int_equal(w.recorder.durable.packet, 1001);
    complete_one();
    assert_true(w.recorder.durable.packet > 1001 + 1000);
    complete();
    assert_false(lli_recorder_is_behind(&w.recorder));
    down();
}

/* Less than a packet is empty behind its records, and the moved ones are written next. */
static void the_end_of_a_large_block_goes_to_the_next_one(void **state)
{
    uint64_t size = 0, used = 0;

    (void)state;
    up(7);
    assert_true(record_one());
    /* The header, the names, and the first packet. */
    for (int i = 0; i < 3; i++) {
        issue_all();
        assert_int_equal(w.count, 1);
        if (i < 2)
            complete_one();
    }
    for (int i = 0; i < 10; i++) {
        struct lli_block block;

        for (int packets = 0; packets < 120; packets++)
            assert_true(record_one());
        complete_one();
        issue_all();
        assert_int_equal(w.count, 1);
        assert_int_equal(lli_block_get(w.flying[0].write.bytes, w.flying[0].write.size, &block),
                         LLI_BLOCK_OK);
        assert_true(block.size > 32 << 10);
        assert_true(block.size - block.used < LLI_WIRE_DATA_HEADER + 1400 + 2);
        size += block.size;
        used += block.used;
    }
    assert_true(size * 1000 < used * 1013);
    complete_one();
    complete();
    down();
}

static void names_that_fill_a_segment_stop(void **state)
{
    static const uint8_t name[250];
    struct lli_write header;

    (void)state;
    up(6);
    assert_true(record_one());
    assert_true(lli_recorder_next(&w.recorder, 1, 1, &header));
    begin_write(&header);
    complete_one();
    for (uint32_t topic = 0; w.recorder.offset + LLI_RECORDER_BLOCK < SEGMENT_SIZE; topic++)
        while (!lli_recorder_add_name(
            &w.recorder, &(struct lli_record){
                             .kind = LLI_RECORD_NAME, .topic = topic, .data = name, .size = sizeof name})) {
            struct lli_write write;

            assert_true(lli_recorder_next(&w.recorder, 1, 1, &write));
            begin_write(&write);
            complete_one();
        }
    lli_recorder_names_end(&w.recorder);
    while (record_one())
        ;
    drain();
    assert_int_equal(w.recorder.phase, LLI_RECORDER_STOPPED);
    down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read_back),
        cmocka_unit_test(a_crash_loses_nothing_durable),
        cmocka_unit_test(a_failed_write_loses_nothing),
        cmocka_unit_test(a_second_failure_stops),
        cmocka_unit_test(a_block_has_what_arrived_during_the_write_before_it),
        cmocka_unit_test(full_blocks_do_not_wait_for_each_other),
        cmocka_unit_test(the_end_of_a_large_block_goes_to_the_next_one),
        cmocka_unit_test(names_that_fill_a_segment_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
