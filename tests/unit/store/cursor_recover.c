/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a recording after a crash, against a model of its packets and messages. */
#define _GNU_SOURCE
#include "directory.h"

#include "store/cursor.h"

static char path[64];
static char logged[512];
static const struct lli_log quiet = {.function = directory_quiet, .arg = logged, .level = LLM_LEVEL_WARNING};

static void make(struct directory *d, uint64_t seed, uint32_t segments, bool gaps, bool failures)
{
    directory_make_path(path);
    directory_begin(d, path, DIRECTORY_SESSION, seed, seed % 3 == 0 ? 9000 : 1472);
    directory_fill(d, segments, seed % 2 == 0, gaps, failures);
    logged[0] = '\0';
}

static void unmake(struct directory *d)
{
    directory_end(d);
    directory_remove(path);
}

static void recover(const struct directory *d, uint64_t reach, struct lli_recording_end *end)
{
    struct lli_catalogue *catalogue = NULL;
    struct lli_cursor *cursor = NULL;
    const struct lli_block *block;
    struct lli_record record;

    assert_int_equal(lli_catalogue_open(path, &quiet, &catalogue), LLM_OK);
    assert_int_equal(lli_cursor_open(catalogue, lli_catalogue_find(catalogue, d->session), &quiet, &cursor),
                     LLM_OK);
    memset(end, 0xa5, sizeof *end);
    assert_int_equal(lli_cursor_recover(cursor, reach, end), LLM_OK);
    lli_cursor_limit(cursor, end->next.packet);
    assert_int_equal(lli_cursor_next(cursor, &record, &block), 0);
    lli_cursor_close(&cursor);
    lli_catalogue_close(&catalogue);
}

/* First message after the last loss before a packet, or of the recording. */
static uint64_t run_of(const struct directory *d, lli_seq end)
{
    uint64_t number = directory_complete_before(d, end);

    while (number > 0 && directory_has(d, number - 1, end))
        number--;
    return number;
}

/* Checks what was recovered, if the recording goes on at packet `end`. */
static void check(const struct directory *d, const struct lli_recording_end *found, lli_seq end, bool all)
{
    uint64_t delivered = directory_complete_before(d, end);
    lli_seq resume = end;

    assert_int_equal(found->next.packet, end);
    /* A message that has begun, and of which nothing was lost, goes on. */
    if (delivered < d->messages && directory_start_of(d, delivered) < end) {
        bool whole = directory_start_of(d, delivered) >= d->recorded_from;

        for (lli_seq packet = directory_start_of(d, delivered); packet < end; packet++)
            whole = whole && !d->dropped[packet];
        if (whole)
            resume = directory_start_of(d, delivered);
        else
            delivered++;
    }
    assert_int_equal(found->delivered, delivered);
    assert_int_equal(found->resume, resume);
    assert_int_equal(found->messages, delivered + (resume < end));
    assert_true(found->run_from >= run_of(d, end));
    if (all && found->run_from != run_of(d, end))
        assert_int_equal(found->run_from, delivered);
}

static void the_end_of_a_recording_is_found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct lli_recording_end end;
        struct directory d;

        make(&d, seed, 1 + (uint32_t)seed % 4, seed % 4 > 1, seed > 7);
        directory_write(&d, false);
        /* Packets that were sent and not written are part of the model only. */
        directory_take(&d, false);
        lli_pack_flush(&d.pack);
        for (; d.taken < d.history.next; d.taken++)
            directory_note(&d, d.taken);
        for (uint64_t reach = 0; reach <= UINT64_C(1) << 40; reach = 3 * reach + 100000) {
            recover(&d, reach, &end);
            check(&d, &end, d.recorder.durable.packet, reach > 1 << 30);
            assert_int_equal(end.next.sequence, d.recorder.durable.sequence);
            assert_int_equal(end.next.previous, d.recorder.durable.previous);
            assert_int_equal(end.next.message, d.recorder.durable.message);
            assert_int_equal(end.ordinal, d.recorder.ordinal);
            assert_false(end.ended);
            assert_false(end.damaged);
            assert_false(end.replaces);
        }
        unmake(&d);
    }
}

static void the_end_of_a_session_is_found(void **state)
{
    struct lli_recording_end end;
    struct directory d;

    (void)state;
    make(&d, 26, 3, true, false);
    directory_finish(&d, true);
    recover(&d, 1 << 20, &end);
    assert_true(end.ended);
    assert_int_equal(end.reason, LLM_REASON_CLOSED);
    assert_int_equal(end.delivered, d.messages);
    assert_int_equal(end.messages, d.messages);
    assert_int_equal(end.next.packet, d.taken);
    assert_int_equal(end.wall, d.block[d.blocks - 1].block.wall);
    unmake(&d);
}

/* Restores a file. */
static void restore(const char *file, const uint8_t *bytes, size_t size)
{
    const int fd = open(file, O_WRONLY | O_TRUNC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static void model_the_rest(struct directory *d)
{
    directory_take(d, false);
    lli_pack_flush(&d->pack);
    for (; d->taken < d->history.next; d->taken++)
        directory_note(d, d->taken);
}

/*
 * Returns the packet at which the recording goes on if the last segment is whole up to an offset only. A block
 * without the zeros at its end is whole, unless the file ends there.
 */
static lli_seq end_at(const struct directory *d, uint64_t offset, bool truncated)
{
    lli_seq end = d->segment_first;

    for (uint32_t i = 0; i < d->blocks; i++)
        if (d->block[i].segment == d->segment &&
            d->block[i].offset + (truncated ? d->block[i].block.size : d->block[i].block.used) <= offset)
            end = d->block[i].next;
    return end;
}

static void a_recording_cut_at_any_sector_ends_with_its_last_whole_block(void **state)
{
    static uint8_t bytes[DIRECTORY_SEGMENT];

    (void)state;
    for (uint64_t seed = 30; seed < 34; seed++) {
        struct lli_recording_end end;
        struct directory d;
        char file[128];

        make(&d, seed, 2, true, seed % 2 == 0);
        for (int i = 0; i < 12; i++)
            directory_step(&d, true, false);
        directory_write(&d, false);
        model_the_rest(&d);
        directory_file(&d, d.segment, "segment", file);
        assert_int_equal(pread(d.fd, bytes, sizeof bytes, 0), sizeof bytes);
        for (uint64_t cut = LLI_SEGMENT_HEADER; cut <= d.recorder.offset; cut += 512) {
            const int fd = open(file, O_WRONLY);
            const bool truncated = chance(&d.random, 50);
            uint8_t noise[512];

            /* The rest is what was there before. */
            for (size_t i = 0; i < sizeof noise; i++)
                noise[i] = (uint8_t)below(&d.random, 256);
            if (truncated)
                assert_int_equal(ftruncate(fd, (off_t)cut), 0);
            else
                for (uint64_t at = cut; at < d.recorder.offset; at += sizeof noise)
                    assert_int_equal(pwrite(fd, noise, sizeof noise, (off_t)at), sizeof noise);
            close(fd);
            recover(&d, 1 << 18, &end);
            /* Names do not count. */
            check(&d, &end, end_at(&d, cut, truncated), false);
            assert_int_equal(end.replaces, end_at(&d, cut, truncated) == d.segment_first);
            assert_int_equal(end.ordinal, d.recorder.segment.ordinal + !end.replaces);
            assert_false(end.damaged);
            restore(file, bytes, sizeof bytes);
        }
        unmake(&d);
    }
}

static void a_bit_flip_in_the_tail_ends_the_recording_there_and_is_reported(void **state)
{
    static uint8_t bytes[DIRECTORY_SEGMENT];

    (void)state;
    for (uint64_t seed = 40; seed < 44; seed++) {
        struct lli_recording_end end;
        struct directory d;
        char file[128];

        make(&d, seed, 2, true, seed % 2 == 0);
        for (int i = 0; i < 12; i++)
            directory_step(&d, true, false);
        directory_write(&d, false);
        model_the_rest(&d);
        directory_file(&d, d.segment, "segment", file);
        assert_int_equal(pread(d.fd, bytes, sizeof bytes, 0), sizeof bytes);
        for (uint32_t i = 0; i < d.blocks; i++) {
            const struct directory_block *hurt = d.block + i;
            const uint64_t at = hurt->offset + below(&d.random, hurt->block.used);
            char index[128];

            if (hurt->segment != d.segment)
                continue;
            /* Without an index, so that all blocks are read. */
            directory_file(&d, d.segment, "index", index);
            (void)unlink(index);
            bytes[at] ^= 4;
            restore(file, bytes, sizeof bytes);
            bytes[at] ^= 4;
            logged[0] = '\0';
            recover(&d, 1 << 18, &end);
            check(&d, &end, end_at(&d, hurt->offset, true), false);
            assert_int_equal(end.damaged, i + LLI_RECOVERY_FLIGHT < d.blocks);
            assert_int_equal(logged[0] != '\0', end.damaged);
        }
        unmake(&d);
    }
}

static void an_index_that_is_wrong_does_not_change_the_end(void **state)
{
    (void)state;
    for (uint64_t seed = 50; seed < 60; seed++) {
        struct lli_recording_end end;
        struct directory d;
        char file[128];
        int fd;

        make(&d, seed, 3, true, false);
        for (int i = 0; i < 12; i++)
            directory_step(&d, true, false);
        directory_write(&d, false);
        model_the_rest(&d);
        directory_file(&d, d.segment, "index", file);
        fd = open(file, O_WRONLY | O_APPEND);
        for (int i = 0; i < 5; i++) {
            /* Of blocks that never reached the disk. */
            const struct lli_index_entry entry = {.packet = d.taken + 100 + (lli_seq)i,
                                                  .message = d.messages + (uint64_t)i,
                                                  .wall = d.wall + (uint64_t)i,
                                                  .offset =
                                                      d.recorder.offset + (uint64_t)i * LLI_BLOCK_ALIGN};
            uint8_t bytes[LLI_INDEX_ENTRY];

            lli_index_put(bytes, &entry);
            assert_true(fd < 0 || write(fd, bytes, sizeof bytes) == sizeof bytes);
        }
        if (fd >= 0)
            close(fd);
        recover(&d, 1 << 18, &end);
        check(&d, &end, d.recorder.durable.packet, false);
        unmake(&d);
    }
}

static void a_last_segment_with_names_only_is_replaced(void **state)
{
    struct lli_recording_end end;
    struct lli_segment segment;
    uint8_t header[LLI_SEGMENT_HEADER];
    struct directory d;
    char file[128];
    int fd;

    (void)state;
    make(&d, 61, 2, false, false);
    directory_write(&d, false);
    model_the_rest(&d);
    segment = d.recorder.segment;
    segment.first = d.recorder.durable;
    segment.ordinal = d.recorder.ordinal;
    lli_segment_put(header, &segment);
    directory_file(&d, segment.ordinal, "segment", file);
    fd = open(file, O_WRONLY | O_CREAT, 0644);
    assert_int_equal(write(fd, header, sizeof header), sizeof header);
    assert_int_equal(ftruncate(fd, DIRECTORY_SEGMENT), 0);
    close(fd);
    recover(&d, 1 << 20, &end);
    assert_true(end.replaces);
    assert_int_equal(end.ordinal, segment.ordinal);
    assert_int_equal(end.next.sequence, segment.first.sequence);
    check(&d, &end, segment.first.packet, false);
    unmake(&d);
}

static void a_message_longer_than_the_reach_is_found(void **state)
{
    struct lli_recording_end end;
    struct directory d;

    (void)state;
    directory_make_path(path);
    directory_begin(&d, path, DIRECTORY_SESSION, 7, 1472);
    directory_announce(&d, 0);
    directory_record(&d);
    directory_send(&d, 0, 100, 0);
    directory_send(&d, 0, DIRECTORY_MESSAGE_MAX, 0);
    directory_take(&d, false);
    directory_write(&d, false);
    model_the_rest(&d);
    recover(&d, 0, &end);
    assert_int_equal(end.delivered, 1);
    check(&d, &end, d.recorder.durable.packet, false);
    assert_true(end.resume < end.next.packet - 100);
    unmake(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_recording_is_found),
        cmocka_unit_test(the_end_of_a_session_is_found),
        cmocka_unit_test(a_recording_cut_at_any_sector_ends_with_its_last_whole_block),
        cmocka_unit_test(a_bit_flip_in_the_tail_ends_the_recording_there_and_is_reported),
        cmocka_unit_test(an_index_that_is_wrong_does_not_change_the_end),
        cmocka_unit_test(a_last_segment_with_names_only_is_replaced),
        cmocka_unit_test(a_message_longer_than_the_reach_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
