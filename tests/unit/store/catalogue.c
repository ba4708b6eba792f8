/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "directory.h"

#include "core/base/hash.h"

static char path[64];
static char logged[512];
static const struct lli_log log_kept = {
    .function = directory_quiet, .arg = logged, .level = LLM_LEVEL_WARNING};

static int setup(void **state)
{
    (void)state;
    directory_make_path(path);
    logged[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    directory_remove(path);
    return 0;
}

static struct lli_segment segment_of(uint64_t session, lli_seq packet, uint64_t ordinal)
{
    return (struct lli_segment){
        .first = {.session = session, .packet = packet, .sequence = ordinal * 10, .message = packet * 2},
        .ordinal = ordinal,
        .start = 3,
        .size = LLI_SEGMENT_MIN,
        .wall = 5,
        .channel = "udp://239.9.9.9:9",
    };
}

/* Writes a file below the directory. */
static void put(const char *name, const void *bytes, size_t size)
{
    char file[160];
    char *slash;
    FILE *to;

    (void)snprintf(file, sizeof file, "%s/%s", path, name);
    slash = strrchr(file, '/');
    *slash = '\0';
    (void)mkdir(file, 0755);
    *slash = '/';
    to = fopen(file, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(bytes, 1, size, to), size);
    (void)fclose(to);
}

static void put_segment(uint64_t session, lli_seq packet, uint64_t ordinal)
{
    const struct lli_segment segment = segment_of(session, packet, ordinal);
    char name[LLI_CATALOGUE_NAME];
    uint8_t bytes[LLI_SEGMENT_HEADER];

    lli_segment_put(bytes, &segment);
    lli_catalogue_name(name, session, ordinal, LLI_CATALOGUE_SEGMENT);
    put(name, bytes, sizeof bytes);
}

static struct lli_catalogue *open_it(void)
{
    struct lli_catalogue *catalogue = NULL;

    assert_int_equal(lli_catalogue_open(path, &log_kept, &catalogue), LLM_OK);
    return catalogue;
}

static void segments_are_in_the_order_of_their_ordinals(void **state)
{
    const uint64_t sessions[] = {UINT64_MAX, 1, 77};
    struct lli_catalogue *catalogue;

    (void)state;
    for (uint64_t i = 0; i < 40; i++)
        put_segment(sessions[i % 3], 1000 - i * 7, 50 - i);
    catalogue = open_it();
    assert_int_equal(catalogue->count, 3);
    for (uint32_t r = 0; r < 3; r++) {
        const struct lli_recording *recording = catalogue->recordings[r];

        assert_true(r == 0 || recording->session > catalogue->recordings[r - 1]->session);
        assert_ptr_equal(lli_catalogue_find(catalogue, recording->session), recording);
        assert_int_equal(recording->count, recording->session == UINT64_MAX ? 14 : 13);
        assert_int_equal(recording->start, 3);
        assert_string_equal(recording->channel, "udp://239.9.9.9:9");
        for (uint32_t i = 0; i < recording->count; i++) {
            const struct lli_catalogue_segment *segment = recording->segments + i;
            const struct lli_segment whole = lli_catalogue_segment(recording, segment);

            assert_true(i == 0 || segment->ordinal > recording->segments[i - 1].ordinal);
            assert_int_equal(segment->packet, 1000 - (50 - segment->ordinal) * 7);
            assert_int_equal(segment->sequence, segment->ordinal * 10);
            assert_int_equal(segment->message, segment->packet * 2);
            assert_int_equal(whole.first.session, recording->session);
            assert_int_equal(whole.ordinal, segment->ordinal);
            assert_int_equal(whole.size, LLI_SEGMENT_MIN);
        }
    }
    assert_null(lli_catalogue_find(catalogue, 2));
    assert_int_equal(catalogue->ignored, 0);
    lli_catalogue_close(&catalogue);
    assert_null(catalogue);
    lli_catalogue_close(&catalogue);
}

static void what_is_no_segment_of_its_name_is_ignored_and_counted(void **state)
{
    struct lli_segment segment = segment_of(5, 90, 9);
    uint8_t bytes[LLI_SEGMENT_HEADER];
    struct lli_catalogue *catalogue;

    (void)state;
    put_segment(5, 1, 1);
    lli_segment_put(bytes, &segment);
    put("0000000000000005/000000000000000a.segment", bytes, sizeof bytes);     /* another number */
    put("0000000000000006/0000000000000009.segment", bytes, sizeof bytes);     /* of another session */
    put("0000000000000005/0000000000000009.segment", bytes, sizeof bytes - 1); /* not whole */
    put("0000000000000005/0000000000000008.segment", "", 0);
    bytes[200] ^= 1;
    put("0000000000000005/0000000000000007.segment", bytes, sizeof bytes);
    /* Not by the names of segments, and so not counted. */
    put("0000000000000005/0000000000000001.index", "x", 1);
    put("0000000000000005/000000000000000G.segment", "x", 1);
    put("0000000000000005/00000000000000011.segment", "x", 1);
    put("0000000000000005/A.segment", "x", 1);
    put("spare/0000000000000001.segment", "x", 1);
    put("lock", "1", 1);
    put("0000000000000007", "a file", 6);
    catalogue = open_it();
    assert_int_equal(catalogue->count, 1);
    assert_int_equal(catalogue->recordings[0]->count, 1);
    assert_int_equal(catalogue->ignored, 5);
    assert_int_equal(catalogue->versions, 0);
    assert_string_equal(logged, "");
    lli_catalogue_close(&catalogue);
}

/* One that waits to become a segment was cleared; nothing is wrong with it. */
static void files_with_a_cleared_header_are_ready(void **state)
{
    static uint8_t bytes[LLI_SEGMENT_HEADER + 4096];
    struct lli_catalogue *catalogue;

    (void)state;
    memset(bytes + LLI_SEGMENT_HEADER, 0xa5, 4096);
    put_segment(5, 1, 1);
    put("0000000000000005/0000000000000002.segment", bytes, sizeof bytes);
    put("0000000000000006/0000000000000000.segment", bytes, sizeof bytes);
    catalogue = open_it();
    assert_int_equal(catalogue->count, 1);
    assert_int_equal(catalogue->recordings[0]->count, 1);
    assert_int_equal(catalogue->ignored, 0);
    assert_int_equal(catalogue->ready_count, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(catalogue->ready[i].ordinal, catalogue->ready[i].session == 5 ? 2 : 0);
    assert_true(catalogue->ready[0].session != catalogue->ready[1].session);
    lli_catalogue_close(&catalogue);
}

static void a_segment_of_another_version_is_named(void **state)
{
    const struct lli_segment segment = segment_of(5, 9, 0);
    uint8_t bytes[LLI_SEGMENT_HEADER];
    struct lli_catalogue *catalogue;

    (void)state;
    lli_segment_put(bytes, &segment);
    lli_store_u32(bytes + 16, LLI_SEGMENT_VERSION + 1);
    lli_store_u64(bytes, lli_hash(bytes + 8, sizeof bytes - 8));
    put("0000000000000005/0000000000000009.segment", bytes, sizeof bytes);
    catalogue = open_it();
    assert_int_equal(catalogue->count, 0);
    assert_int_equal(catalogue->versions, 1);
    assert_non_null(
        strstr(logged, "0000000000000005/0000000000000009.segment: a segment of another version"));
    lli_catalogue_close(&catalogue);
}

static void links_and_pipes_are_not_read(void **state)
{
    struct lli_catalogue *catalogue;
    char name[160], target[160];

    (void)state;
    put_segment(5, 1, 1);
    (void)snprintf(target, sizeof target, "%s/0000000000000005/0000000000000001.segment", path);
    (void)snprintf(name, sizeof name, "%s/0000000000000005/0000000000000002.segment", path);
    assert_int_equal(symlink(target, name), 0);
    (void)snprintf(name, sizeof name, "%s/0000000000000005/0000000000000003.segment", path);
    assert_int_equal(mkfifo(name, 0600), 0);
    (void)snprintf(target, sizeof target, "%s/0000000000000005", path);
    (void)snprintf(name, sizeof name, "%s/0000000000000004", path);
    assert_int_equal(symlink(target, name), 0);
    catalogue = open_it();
    assert_int_equal(catalogue->count, 1);
    assert_int_equal(catalogue->recordings[0]->count, 1);
    lli_catalogue_close(&catalogue);
}

static void a_running_store_adds_replaces_and_removes_segments(void **state)
{
    struct lli_catalogue *catalogue = open_it();
    struct lli_segment segment;

    (void)state;
    assert_int_equal(catalogue->count, 0);
    for (uint64_t i = 0; i < 20; i++) {
        segment = segment_of(i % 2 == 0 ? 8 : 4, i, i);
        assert_int_equal(lli_catalogue_add(catalogue, &segment), LLM_OK);
    }
    assert_int_equal(catalogue->count, 2);
    assert_int_equal(lli_catalogue_find(catalogue, 8)->count, 10);
    segment = segment_of(8, 180, 18);
    assert_int_equal(lli_catalogue_add(catalogue, &segment), LLM_OK);
    assert_int_equal(lli_catalogue_find(catalogue, 8)->count, 10);
    assert_int_equal(lli_catalogue_find(catalogue, 8)->segments[9].packet, 180);
    assert_false(lli_catalogue_remove(catalogue, 8, 1));
    assert_false(lli_catalogue_remove(catalogue, 9, 0));
    for (uint64_t i = 0; i < 20; i += 2) {
        assert_int_equal(lli_catalogue_find(catalogue, 8)->segments[0].ordinal, i);
        assert_true(lli_catalogue_remove(catalogue, 8, i));
    }
    assert_null(lli_catalogue_find(catalogue, 8));
    assert_int_equal(catalogue->count, 1);
    lli_catalogue_close(&catalogue);
}

static void a_directory_that_cannot_be_read_is_refused(void **state)
{
    struct lli_catalogue *catalogue = NULL;
    char name[160];

    (void)state;
    (void)snprintf(name, sizeof name, "%s/absent", path);
    assert_int_equal(lli_catalogue_open(name, &log_kept, &catalogue), LLM_ENOTFOUND);
    assert_non_null(strstr(logged, "absent"));
    put("file", "x", 1);
    (void)snprintf(name, sizeof name, "%s/file", path);
    assert_int_equal(lli_catalogue_open(name, &log_kept, &catalogue), LLM_ENOTFOUND);
    put_segment(5, 1, 1);
    (void)snprintf(name, sizeof name, "%s/0000000000000005/0000000000000001.segment", path);
    assert_int_equal(chmod(name, 0), 0);
    if (geteuid() != 0) {
        assert_int_equal(lli_catalogue_open(path, &log_kept, &catalogue), LLM_EACCESS);
        assert_non_null(strstr(logged, "0000000000000001.segment"));
    }
    assert_null(catalogue);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(segments_are_in_the_order_of_their_ordinals),
        TEST(what_is_no_segment_of_its_name_is_ignored_and_counted),
        TEST(files_with_a_cleared_header_are_ready),
        TEST(a_segment_of_another_version_is_named),
        TEST(links_and_pipes_are_not_read),
        TEST(a_running_store_adds_replaces_and_removes_segments),
        TEST(a_directory_that_cannot_be_read_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
