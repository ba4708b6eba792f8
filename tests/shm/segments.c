/* SPDX-License-Identifier: Apache-2.0 */
/* Invalid segments: of another version, truncated, damaged, or changed while they are read. */
#define _GNU_SOURCE
#include "shm_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FUZZ_ROUNDS = 3000, ENTRIES_OFFSET = 4096 };

/* A segment as a writer left it, and a file of it that looks as if its writer was alive. */
static uint8_t *image;
static size_t image_bytes;
static struct lli_shm_header *header; /* header of the image */

struct forged {
    int data, bell;
    char data_path[160], bell_path[160], name_path[160];
};

static void path_of(char path[160], const char *name, const char *ending)
{
    snprintf(path, 160, "%s/llm/%s%s", directory, name, ending);
}

/* Creates the image of a segment with packets in all three places. */
static int take_image(void **state)
{
    struct llm_options options;
    struct stat file;
    char path[160], link[64];
    static struct feed feed;
    int fd;

    if (own_directory(state) != 0)
        return -1;
    options = small_options();
    feed_open(&feed, &options, 1);
    for (uint32_t i = 0; i < 90; i++) {
        feed_history(&feed, 105 + i * 17);
        feed_plain(&feed, 105 + i * 20);
        feed_plain(&feed, 50);
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", segment_of(&feed.station)->fd);
    fd = open(link, O_RDONLY);
    assert_int_equal(fstat(fd, &file), 0);
    image_bytes = (size_t)file.st_size;
    image = malloc(image_bytes);
    assert_non_null(image);
    assert_int_equal(read(fd, image, image_bytes), (ssize_t)image_bytes);
    header = (struct lli_shm_header *)(void *)image;
    close(fd);
    assert_int_equal(header->entries_offset, ENTRIES_OFFSET);
    feed_close(&feed);
    path_of(path, "", "");
    assert_int_equal(mkdir(path, 0700), 0);
    path_of(path, NAME, "");
    assert_int_equal(mkdir(path, 0700), 0);
    return 0;
}

static int drop_image(void **state)
{
    char path[160];

    free(image);
    path_of(path, NAME, "");
    rmdir(path);
    path_of(path, "@", "");
    rmdir(path);
    path_of(path, "", "");
    rmdir(path);
    return nothing_left(state);
}

static int forge_file(const char *path, const void *bytes, size_t size)
{
    const int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    assert_true(lli_shm_take(fd, F_WRLCK));
    return fd;
}

static void forge(struct forged *forged, size_t data_bytes, size_t bell_bytes)
{
    static const struct lli_shm_bell bell;

    path_of(forged->data_path, NAME, "/0123456789abcdef.data");
    path_of(forged->bell_path, NAME, "/0123456789abcdef.bell");
    forged->bell = forge_file(forged->bell_path, &bell, bell_bytes);
    forged->data = forge_file(forged->data_path, image, data_bytes);
}

static void forged_end(const struct forged *forged)
{
    close(forged->data);
    close(forged->bell);
    unlink(forged->data_path);
    unlink(forged->bell_path);
}

static int try_forged(size_t data_bytes, size_t bell_bytes)
{
    const struct llm_options options = small_options();
    struct station reader;
    struct forged forged;
    int status;

    forge(&forged, data_bytes, bell_bytes);
    status = try_reader(&reader, &options);
    if (status == 0)
        station_close(&reader);
    forged_end(&forged);
    return status;
}

static void a_segment_of_another_version_is_refused_by_number(void **state)
{
    (void)state;
    assert_int_equal(try_forged(image_bytes, sizeof(struct lli_shm_bell)), 0);
    header->version = LLI_SHM_VERSION + 1;
    assert_int_equal(try_forged(image_bytes, sizeof(struct lli_shm_bell)), LLM_EVERSION);
    expect_logged("0123456789abcdef.data: version 4 of a segment, this library reads 3");
    expect_logged("use the same libllm on both sides");
}

/* Scans and logs as an earlier reader does. */
static void look_and_tell(struct station *reader)
{
    for (int i = 0; i < 3; i++) {
        station_look(reader);
        transport->report(reader->instance);
    }
}

static void unreadable_segments_are_logged_once_for_a_waiting_reader(void **state)
{
    const struct llm_options options = small_options();
    struct station reader;
    struct forged forged;

    (void)state;
    open_reader(&reader, &options);
    look_and_tell(&reader);
    assert_string_equal(log_text, "");
    header->version = LLI_SHM_VERSION + 1;
    forge(&forged, image_bytes, sizeof(struct lli_shm_bell));
    look_and_tell(&reader);
    expect_logged_once("version 4 of a segment, this library reads 3; use the same libllm on both sides");
    forged_end(&forged);
    log_text[0] = '\0';
    look_and_tell(&reader);
    assert_string_equal(log_text, "");
    /* Another segment of the same name is reported separately. */
    header->version = LLI_SHM_VERSION;
    header->entries--;
    forge(&forged, image_bytes, sizeof(struct lli_shm_bell));
    look_and_tell(&reader);
    expect_logged_once("0123456789abcdef.data: is damaged; remove the file");
    forged_end(&forged);
    log_text[0] = '\0';
    header->entries++;
    forge(&forged, image_bytes, sizeof(struct lli_shm_bell));
    look_and_tell(&reader);
    assert_string_equal(log_text, "");
    assert_int_equal(shm_of(&reader)->in.count, 1);
    station_close(&reader);
    forged_end(&forged);
}

static void files_of_any_length_are_refused_unless_whole(void **state)
{
    const size_t lengths[] = {0,    1,    100,  sizeof *header - 1,        sizeof *header,
                              4095, 4096, 4097, header->history_offset - 1};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        assert_int_equal(try_forged(lengths[i], sizeof(struct lli_shm_bell)), LLM_EVERSION);
        expect_logged("0123456789abcdef.data");
        expect_logged("remove the file");
    }
    assert_int_equal(try_forged(header->history_offset, sizeof(struct lli_shm_bell)), 0);
    memset(image, 0xa5, image_bytes);
    assert_int_equal(try_forged(image_bytes, sizeof(struct lli_shm_bell)), LLM_EVERSION);
    expect_logged("is no segment; remove the file");
}

static void a_short_bell_file_is_refused(void **state)
{
    (void)state;
    assert_int_equal(try_forged(image_bytes, sizeof(struct lli_shm_bell) - 1), LLM_EVERSION);
    expect_logged("0123456789abcdef.bell");
    expect_logged("remove the file");
}

/* Invalid files of a dead writer are not logged. */
static void segments_of_dead_writers_are_skipped(void **state)
{
    const struct llm_options options = small_options();
    struct station reader;
    struct forged forged;

    (void)state;
    header->version = 77;
    forge(&forged, image_bytes, 10);
    close(forged.data);
    open_reader(&reader, &options);
    assert_string_equal(log_text, "");
    assert_int_equal(shm_of(&reader)->in.count, 0);
    station_close(&reader);
    forged.data = -1;
    forged_end(&forged);
}

/* ------------------------------------------------------------------------------------------------- damage */

static const uint64_t odd_values[] = {0,
                                      1,
                                      2,
                                      3,
                                      63,
                                      65,
                                      104,
                                      105,
                                      127,
                                      128,
                                      4095,
                                      4096,
                                      4097,
                                      65536,
                                      65537,
                                      1u << 20,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      1ull << 32,
                                      1ull << 47,
                                      UINT64_MAX - 1,
                                      UINT64_MAX,
                                      UINT64_MAX - 4095,
                                      UINT64_MAX / 128};

/* Writes a value, or a random one, to a random field of the header or of an entry. */
static void damage(uint8_t *bytes)
{
    const uint64_t value = random_below(4) == 0
                               ? random_below(UINT64_MAX)
                               : odd_values[random_below(sizeof odd_values / sizeof odd_values[0])];
    const size_t width = random_below(2) == 0 ? 4 : 8;
    size_t at = 0;

    switch (random_below(3)) {
    case 0:
        at = random_below(sizeof *header / 4) * 4;
        break;
    case 1:
        at = 8 + random_below(16) * 4; /* fields that are written once */
        break;
    default:
        at = ENTRIES_OFFSET + random_below(64) * sizeof(struct lli_shm_entry) + 88 + random_below(10) * 4;
        break;
    }
    memcpy(bytes + at, &value, at + width <= image_bytes ? width : 4);
}

static void read_whatever(struct station *reader)
{
    struct lli_in packets[BURST];

    for (int turn = 0; turn < 10; turn++) {
        const int count = transport->receive(reader->instance, packets, BURST);
        uint64_t writer, number;

        for (int i = 0; i < count; i++) /* reads all bytes, valid or not */
            (void)packet_read(packets[i].data, packets[i].size, &writer, &number);
        transport->release(reader->instance, packets, count);
    }
}

static void reading_survives_any_contents_of_a_segment(void **state)
{
    const struct llm_options options = small_options();
    uint8_t *whole = malloc(image_bytes);
    int read = 0;

    (void)state;
    assert_non_null(whole);
    memcpy(whole, image, image_bytes);
    for (int i = 0; i < FUZZ_ROUNDS; i++) {
        struct station reader;
        struct forged forged;

        for (uint64_t j = random_below(4); j < 4; j++)
            damage(image);
        forge(&forged, image_bytes, sizeof(struct lli_shm_bell));
        if (try_reader(&reader, &options) == 0) {
            /* From the first entry, as readers do that attached before it. */
            for (uint32_t j = 0; j < shm_of(&reader)->in.count; j++)
                shm_of(&reader)->in.sources[j].next = 128;
            read_whatever(&reader);
            station_look(&reader);
            station_close(&reader);
            read++;
        }
        forged_end(&forged);
        memcpy(image, whole, image_bytes);
    }
    assert_in_range(read, FUZZ_ROUNDS / 10, FUZZ_ROUNDS);
    free(whole);
}

/* One byte less is valid in each case. */
static void entries_beyond_the_end_of_their_ring_are_dropped(void **state)
{
    static const struct {
        uint32_t place, size;
        uint64_t before_end; /* of the ring, where it begins */
    } cases[] = {{LLI_SHM_HERE, LLI_SHM_INLINE, 0}, {LLI_SHM_COPIED, 500, 500}, {LLI_SHM_HISTORY, 500, 500}};
    const struct llm_options options = small_options();

    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const bool copied = cases[i / 2].place == LLI_SHM_COPIED;
        const uint64_t ring = copied ? header->copies_bytes : HISTORY_BYTES;
        struct lli_shm_entry *entry = (struct lli_shm_entry *)(void *)(image + ENTRIES_OFFSET);
        struct station reader;
        struct forged forged;
        struct lli_in packet;

        entry->place = cases[i / 2].place;
        entry->size = cases[i / 2].size + i % 2;
        entry->ring.offset = entry->ring.position = ring - cases[i / 2].before_end;
        header->copies_edge = header->history_edge = ring;
        forge(&forged, image_bytes, sizeof(struct lli_shm_bell));
        open_reader(&reader, &options);
        shm_of(&reader)->in.sources[0].next = entry->number - 1;
        /* A dropped packet makes room for the next. */
        assert_int_equal(transport->receive(reader.instance, &packet, 1), 1);
        assert_int_equal(packet.size == entry->size, i % 2 == 0);
        transport->release(reader.instance, &packet, 1);
        assert_int_equal(station_counter(&reader, "shm_overwritten"), i % 2);
        station_close(&reader);
        forged_end(&forged);
    }
}

/* Values that were checked at attachment change later. */
static void reading_survives_concurrent_changes_of_a_segment(void **state)
{
    const struct llm_options options = small_options();

    (void)state;
    for (int i = 0; i < FUZZ_ROUNDS / 10; i++) {
        struct station reader;
        struct forged forged;
        uint8_t *map;

        header->history_bytes = i % 2 == 0 ? 0 : HISTORY_BYTES;
        forge(&forged, image_bytes, sizeof(struct lli_shm_bell));
        open_reader(&reader, &options);
        map = mmap(NULL, image_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, forged.data, 0);
        assert_true(map != MAP_FAILED);
        header->history_bytes = HISTORY_BYTES;
        memcpy(map, image, sizeof *header);
        for (int j = 0; j < 20; j++) {
            damage(map);
            shm_of(&reader)->in.sources[0].next = 128;
            read_whatever(&reader);
        }
        station_look(&reader);
        munmap(map, image_bytes);
        station_close(&reader);
        forged_end(&forged);
    }
}

#define segment_test(function) cmocka_unit_test_setup_teardown(function, take_image, drop_image)

int main(void)
{
    const struct CMUnitTest tests[] = {
        segment_test(a_segment_of_another_version_is_refused_by_number),
        segment_test(unreadable_segments_are_logged_once_for_a_waiting_reader),
        segment_test(files_of_any_length_are_refused_unless_whole),
        segment_test(a_short_bell_file_is_refused),
        segment_test(segments_of_dead_writers_are_skipped),
        segment_test(reading_survives_any_contents_of_a_segment),
        segment_test(entries_beyond_the_end_of_their_ring_are_dropped),
        segment_test(reading_survives_concurrent_changes_of_a_segment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
