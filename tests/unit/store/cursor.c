/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "directory.h"

#include "store/cursor.h"

static char path[64];
static char logged[512];
static const struct lli_log quiet = {.function = directory_quiet, .arg = logged, .level = LLM_LEVEL_WARNING};

struct opened {
    struct lli_catalogue *catalogue;
    struct lli_cursor *cursor;
    lli_seq next; /* packet that has to come next */
};

static struct opened open_it(const struct directory *d)
{
    struct opened o = {.next = d->recorded_from};

    assert_int_equal(lli_catalogue_open(path, &quiet, &o.catalogue), LLM_OK);
    assert_int_equal(
        lli_cursor_open(o.catalogue, lli_catalogue_find(o.catalogue, d->session), &quiet, &o.cursor), LLM_OK);
    return o;
}

static void close_it(struct opened *o)
{
    lli_cursor_close(&o->cursor);
    lli_catalogue_close(&o->catalogue);
}

static void make(struct directory *d, uint64_t seed, bool gaps, bool failures)
{
    directory_make_path(path);
    directory_begin(d, path, DIRECTORY_SESSION, seed, seed % 3 == 0 ? 9000 : 1472);
    directory_fill(d, 4, seed % 2 == 0, gaps, failures);
    directory_finish(d, seed % 5 == 0);
    logged[0] = '\0';
}

static void unmake(struct directory *d)
{
    directory_end(d);
    directory_remove(path);
}

/* Checks a record against the model. */
static void check_record(const struct directory *d, struct opened *o, const struct lli_record *record)
{
    if (record->kind == LLI_RECORD_NAME) {
        assert_true(record->topic < d->topics);
        assert_int_equal(record->size, strlen(directory_topics[record->topic]));
        assert_memory_equal(record->data, directory_topics[record->topic], record->size);
        return;
    }
    assert_int_equal(record->packet, o->next);
    o->next = record->next;
    if (record->kind == LLI_RECORD_END) {
        assert_true(d->ended);
        assert_int_equal(record->message, d->messages);
    } else if (record->kind == LLI_RECORD_GAP && record->reason != LLM_REASON_DAMAGED) {
        assert_int_equal(record->message_next, d->number[record->next]);
        for (lli_seq packet = record->packet; packet < record->next; packet++)
            assert_true(d->dropped[packet]);
    } else if (record->kind == LLI_RECORD_PACKET) {
        assert_false(d->dropped[record->packet]);
        assert_int_equal(record->message, d->number[record->packet]);
        assert_int_equal(lli_load_u32(record->data + 8), (uint32_t)record->packet);
    }
}

static int read_all(const struct directory *d, struct opened *o)
{
    const struct lli_block *block;
    struct lli_record record;
    int there;

    while ((there = lli_cursor_next(o->cursor, &record, &block)) == 1)
        check_record(d, o, &record);
    return there;
}

static void records_come_in_order_across_segments(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct directory d;
        struct opened o;

        make(&d, seed, seed % 4 > 1, seed > 7);
        o = open_it(&d);
        assert_int_equal(read_all(&d, &o), 0);
        assert_int_equal(o.next, d.taken);
        assert_int_equal(read_all(&d, &o), 0);
        close_it(&o);
        unmake(&d);
    }
}

static void a_recording_that_is_written_goes_on(void **state)
{
    (void)state;
    for (uint64_t seed = 30; seed <= 40; seed++) {
        struct directory d;
        struct opened o;

        directory_make_path(path);
        directory_begin(&d, path, DIRECTORY_SESSION, seed, 1472);
        directory_fill(&d, 1, false, true, false);
        directory_write(&d, false);
        o = open_it(&d);
        while (d.segments < 4) {
            const uint32_t segments = d.segments;
            uint8_t header[LLI_SEGMENT_HEADER];
            struct lli_segment segment;

            directory_step(&d, true, seed % 2 == 0);
            if (d.segments > segments) {
                /* As a store that runs does. */
                assert_int_equal(pread(d.fd, header, sizeof header, 0), sizeof header);
                assert_int_equal(lli_segment_get(header, &segment), LLI_SEGMENT_OK);
                assert_int_equal(lli_catalogue_add(o.catalogue, &segment), LLM_OK);
            }
            assert_int_equal(read_all(&d, &o), 0);
            assert_int_equal(o.next, d.recorder.durable.packet);
        }
        close_it(&o);
        unmake(&d);
    }
}

static void packets_beyond_the_limit_wait(void **state)
{
    struct directory d;
    struct opened o;
    lli_seq limit;

    (void)state;
    make(&d, 45, true, false);
    o = open_it(&d);
    for (limit = 0; limit < d.taken; limit += 1 + below(&d.random, 90)) {
        lli_cursor_limit(o.cursor, limit);
        assert_int_equal(read_all(&d, &o), 0);
        assert_true(o.next <= lli_max(limit, d.recorded_from));
        /* Only a gap keeps it from the limit. */
        assert_true(limit < d.recorded_from || o.next == limit || d.dropped[limit - 1]);
    }
    assert_int_equal(lli_cursor_seek(o.cursor, LLI_INDEX_PACKET, limit - 200), LLM_OK);
    lli_cursor_limit(o.cursor, limit - 200);
    assert_int_equal(lli_cursor_seek(o.cursor, LLI_INDEX_PACKET, limit - 200), LLM_ENOTFOUND);
    lli_cursor_limit(o.cursor, UINT64_MAX);
    o.next = d.recorded_from;
    assert_int_equal(read_all(&d, &o), 0);
    assert_int_equal(o.next, d.taken);
    /* Every packet below the limit has to be there. */
    lli_cursor_limit(o.cursor, d.taken + 1);
    assert_int_equal(read_all(&d, &o), LLM_EDAMAGED);
    close_it(&o);
    unmake(&d);
}

/* Changes a byte of a file. */
static void flip(const struct directory *d, lli_seq segment, uint64_t offset)
{
    char file[128];
    uint8_t byte;
    int fd;

    directory_file(d, segment, "segment", file);
    fd = open(file, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

/* Reads all, and goes on behind damage. Returns the packets that were lost to it. */
static uint64_t read_over_damage(const struct directory *d, struct opened *o, uint32_t *damages)
{
    const struct lli_block *block;
    struct lli_record record;
    uint64_t lost = 0;

    *damages = 0;
    for (;;) {
        const int there = lli_cursor_next(o->cursor, &record, &block);

        if (there == 1) {
            if (record.kind == LLI_RECORD_GAP && record.reason == LLM_REASON_DAMAGED)
                lost += record.next - record.packet;
            check_record(d, o, &record);
            continue;
        }
        if (there == 0)
            return lost;
        assert_int_equal(there, LLM_EDAMAGED);
        assert_int_equal(lli_cursor_next(o->cursor, &record, &block), LLM_EDAMAGED);
        (*damages)++;
        if (!lli_cursor_skip_damage(o->cursor))
            return lost;
    }
}

static void a_damaged_block_is_named_and_skipped(void **state)
{
    (void)state;
    for (uint64_t seed = 50; seed < 70; seed++) {
        const struct directory_block *hurt;
        char name[LLI_CATALOGUE_NAME], offset[32];
        struct directory d;
        struct opened o;
        uint32_t damages;
        uint64_t lost;

        make(&d, seed, true, seed % 2 == 0);
        /* Not one of those that can have been under way at a crash. */
        hurt = d.block + below(&d.random, d.blocks - 5);
        flip(&d, hurt->segment, hurt->offset + below(&d.random, hurt->block.used));
        o = open_it(&d);
        lost = read_over_damage(&d, &o, &damages);
        assert_int_equal(damages, 1);
        assert_int_equal(o.next, d.taken);
        assert_int_equal(lost, hurt->next - hurt->block.packet);
        lli_catalogue_name(name, d.session, hurt->segment, LLI_CATALOGUE_SEGMENT);
        (void)snprintf(offset, sizeof offset, "offset %llu:", (unsigned long long)hurt->offset);
        assert_non_null(strstr(logged, name));
        assert_non_null(strstr(logged, offset));
        close_it(&o);
        unmake(&d);
    }
}

static void damage_at_many_places_never_invents_a_record(void **state)
{
    (void)state;
    for (uint64_t seed = 70; seed < 90; seed++) {
        struct directory d;
        struct opened o;
        uint32_t damages, flips;

        make(&d, seed, true, seed % 2 == 0);
        flips = 1 + below(&d.random, 30);
        for (uint32_t i = 0; i < flips; i++)
            flip(&d, d.block[below(&d.random, d.blocks)].segment, below(&d.random, DIRECTORY_SEGMENT));
        if (lli_catalogue_open(path, &quiet, &o.catalogue) == LLM_OK &&
            lli_catalogue_find(o.catalogue, d.session) != NULL) {
            const struct lli_recording *recording = lli_catalogue_find(o.catalogue, d.session);

            o.next = recording->segments[0].packet;
            assert_int_equal(lli_cursor_open(o.catalogue, recording, &quiet, &o.cursor), LLM_OK);
            (void)read_over_damage(&d, &o, &damages);
            assert_true(o.next <= d.taken);
            close_it(&o);
        }
        unmake(&d);
    }
}

/* The segments of a directory, in order. */
static uint32_t segments_of(const struct directory *d, uint64_t *segments)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < d->blocks; i++)
        if (count == 0 || segments[count - 1] != d->block[i].segment)
            segments[count++] = d->block[i].segment;
    return count;
}

/* The first packet of a segment. */
static lli_seq first_of(const struct directory *d, uint64_t segment)
{
    uint32_t i = 0;

    while (d->block[i].segment != segment)
        i++;
    return d->block[i].block.packet;
}

static void a_segment_that_is_removed_meanwhile_is_an_error(void **state)
{
    struct lli_record record;
    const struct lli_block *block;
    uint64_t segments[64];
    struct directory d;
    struct opened o;
    char file[128];

    (void)state;
    make(&d, 91, false, false);
    assert_true(segments_of(&d, segments) >= 3);
    o = open_it(&d);
    directory_file(&d, segments[1], "segment", file);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(read_all(&d, &o), LLM_ENOTFOUND);
    assert_non_null(strstr(logged, "was removed"));
    assert_int_equal(o.next, first_of(&d, segments[1]));
    assert_true(lli_cursor_skip_damage(o.cursor));
    assert_int_equal(read_all(&d, &o), 0);
    assert_int_equal(o.next, d.taken);

    /* Retention takes the first one, and forgets it. */
    assert_true(lli_catalogue_remove(o.catalogue, d.session, segments[1]));
    assert_true(lli_catalogue_remove(o.catalogue, d.session, segments[0]));
    assert_int_equal(lli_cursor_seek(o.cursor, LLI_INDEX_PACKET, first_of(&d, segments[0])), LLM_ENOTFOUND);
    assert_int_equal(lli_cursor_seek(o.cursor, LLI_INDEX_PACKET, first_of(&d, segments[2])), LLM_OK);
    for (uint32_t i = 2; i < 64 && lli_catalogue_find(o.catalogue, d.session) != NULL; i++)
        assert_true(lli_catalogue_remove(o.catalogue, d.session, segments[i]));
    assert_int_equal(lli_cursor_seek(o.cursor, LLI_INDEX_PACKET, first_of(&d, segments[2])), LLM_ENOTFOUND);
    assert_int_equal(lli_cursor_next(o.cursor, &record, &block), LLM_ENOTFOUND);
    assert_false(lli_cursor_skip_damage(o.cursor));
    close_it(&o);
    unmake(&d);
}

static void a_segment_that_is_used_again_meanwhile_is_an_error(void **state)
{
    const struct lli_block *block;
    struct lli_record record;
    uint64_t segments[64];
    struct directory d;
    struct opened o;
    char file[128], spare[128];
    static uint8_t other[DIRECTORY_SEGMENT];
    int fd;

    (void)state;
    make(&d, 92, false, false);
    (void)segments_of(&d, segments);
    o = open_it(&d);
    assert_int_equal(lli_cursor_next(o.cursor, &record, &block), 1);
    check_record(&d, &o, &record);
    directory_file(&d, segments[0], "segment", file);
    (void)snprintf(spare, sizeof spare, "%s/spare", path);
    assert_int_equal(rename(file, spare), 0);
    fd = open(spare, O_WRONLY);
    assert_int_equal(write(fd, other, sizeof other), sizeof other);
    close(fd);
    assert_int_equal(read_all(&d, &o), LLM_ENOTFOUND);
    close_it(&o);
    unmake(&d);
}

static void a_segment_that_shrinks_is_damaged(void **state)
{
    uint64_t segments[64];
    struct directory d;
    struct opened o;
    char file[128];

    (void)state;
    make(&d, 93, false, false);
    (void)segments_of(&d, segments);
    directory_file(&d, segments[1], "segment", file);
    assert_int_equal(truncate(file, 300000), 0);
    o = open_it(&d);
    assert_int_equal(read_all(&d, &o), LLM_EDAMAGED);
    assert_true(lli_cursor_skip_damage(o.cursor));
    assert_int_equal(read_all(&d, &o), 0);
    assert_int_equal(o.next, d.taken);
    close_it(&o);
    unmake(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_in_order_across_segments),
        cmocka_unit_test(a_recording_that_is_written_goes_on),
        cmocka_unit_test(packets_beyond_the_limit_wait),
        cmocka_unit_test(a_damaged_block_is_named_and_skipped),
        cmocka_unit_test(damage_at_many_places_never_invents_a_record),
        cmocka_unit_test(a_segment_that_is_removed_meanwhile_is_an_error),
        cmocka_unit_test(a_segment_that_is_used_again_meanwhile_is_an_error),
        cmocka_unit_test(a_segment_that_shrinks_is_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
