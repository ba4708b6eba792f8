/* SPDX-License-Identifier: Apache-2.0 */
/* Random recordings, against a model that goes through all blocks. */
#define _GNU_SOURCE
#include "directory.h"

#include "store/cursor.h"

static char path[64];
static const struct lli_log quiet = {.function = directory_quiet, .level = LLM_LEVEL_DEBUG};

static bool is_numbered(const struct directory_block *block)
{
    return block->block.message != LLI_BLOCK_UNNUMBERED;
}

/* Returns the block at which a seek has to stand; NULL: LLM_ENOTFOUND; d->block + d->blocks: at the end. */
static const struct directory_block *expected(const struct directory *d, enum lli_index_key key,
                                              uint64_t value)
{
    const struct directory_block *last = NULL;

    for (const struct directory_block *block = d->block; block < d->block + d->blocks; block++) {
        if (!is_numbered(block))
            continue;
        if (key == LLI_INDEX_WALL && block->block.wall >= value)
            return block;
        if (key == LLI_INDEX_PACKET && block->block.packet <= value && value < block->next)
            return block;
        if (key == LLI_INDEX_MESSAGE && block->block.message <= value)
            last = block;
    }
    if (key == LLI_INDEX_WALL)
        return d->block + d->blocks;
    return key == LLI_INDEX_MESSAGE && value < d->messages ? last : NULL;
}

static void check(struct directory *d, struct lli_cursor *cursor, enum lli_index_key key, uint64_t value)
{
    const struct directory_block *want = expected(d, key, value);
    const struct lli_block *block;
    struct lli_record record;
    int found = lli_cursor_seek(cursor, key, value);

    if (want == NULL) {
        if (found != LLM_ENOTFOUND)
            fail_msg("key %d value %llu was found", (int)key, (unsigned long long)value);
        return;
    }
    assert_int_equal(found, LLM_OK);
    do
        found = lli_cursor_next(cursor, &record, &block);
    while (found == 1 && lli_record_is_name(&record));
    if (want == d->block + d->blocks) {
        assert_int_equal(found, 0);
        return;
    }
    assert_int_equal(found, 1);
    if (block->sequence != want->block.sequence)
        fail_msg("key %d value %llu: block %llu, not %llu", (int)key, (unsigned long long)value,
                 (unsigned long long)block->sequence, (unsigned long long)want->block.sequence);
    assert_int_equal(record.packet, want->block.packet);
}

static void check_all(struct directory *d, uint32_t seeks)
{
    struct lli_catalogue *catalogue = NULL;
    struct lli_cursor *cursor = NULL;

    assert_int_equal(lli_catalogue_open(path, &quiet, &catalogue), LLM_OK);
    assert_int_equal(lli_cursor_open(catalogue, lli_catalogue_find(catalogue, d->session), &quiet, &cursor),
                     LLM_OK);
    for (uint32_t i = 0; i < seeks; i++) {
        check(d, cursor, LLI_INDEX_PACKET, below(&d->random, (uint32_t)d->taken + 5));
        check(d, cursor, LLI_INDEX_MESSAGE, below(&d->random, (uint32_t)d->messages + 5));
        check(d, cursor, LLI_INDEX_WALL,
              d->block[0].block.wall - 3 +
                  below(&d->random, (uint32_t)(d->wall - d->block[0].block.wall) + 9));
    }
    for (uint32_t i = 0; i < d->blocks; i += 1 + below(&d->random, 5)) {
        check(d, cursor, LLI_INDEX_PACKET, d->block[i].block.packet);
        check(d, cursor, LLI_INDEX_PACKET, d->block[i].next - 1);
        check(d, cursor, LLI_INDEX_WALL, d->block[i].block.wall);
        check(d, cursor, LLI_INDEX_WALL, d->block[i].block.wall + 1);
        if (!is_numbered(d->block + i))
            continue;
        check(d, cursor, LLI_INDEX_MESSAGE, d->block[i].block.message);
        check(d, cursor, LLI_INDEX_MESSAGE, d->block[i].block.message - 1);
    }
    check(d, cursor, LLI_INDEX_PACKET, d->taken);
    check(d, cursor, LLI_INDEX_PACKET, UINT64_MAX);
    check(d, cursor, LLI_INDEX_MESSAGE, d->messages);
    check(d, cursor, LLI_INDEX_MESSAGE, UINT64_MAX);
    check(d, cursor, LLI_INDEX_WALL, 0);
    check(d, cursor, LLI_INDEX_WALL, UINT64_MAX);
    lli_cursor_close(&cursor);
    lli_catalogue_close(&catalogue);
}

static void make(struct directory *d, uint64_t seed, bool gaps, bool failures)
{
    directory_make_path(path);
    directory_begin(d, path, DIRECTORY_SESSION, seed, seed % 3 == 0 ? 9000 : 1472);
    directory_fill(d, 4, seed % 2 == 0, gaps, failures);
    directory_finish(d, seed % 5 == 0);
}

static void every_key_leads_to_its_block(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct directory d;

        make(&d, seed, seed > 3, seed > 6);
        check_all(&d, 100);
        directory_end(&d);
        directory_remove(path);
    }
}

/* Changes the index files: removes them, or gives them bytes that are wrong in one of several ways. */
static void spoil(struct directory *d, uint32_t how)
{
    for (uint32_t i = 0; i < d->blocks; i++) {
        uint8_t bytes[LLI_INDEX_ENTRY];
        struct lli_index_entry entry;
        char file[128];
        int fd;

        directory_file(d, d->block[i].segment, "index", file);
        fd = open(file, O_RDWR);
        if (fd < 0)
            continue;
        if (how == 0)
            (void)unlink(file);
        if (how == 1)
            assert_int_equal(ftruncate(fd, 33 + below(&d->random, 100)), 0);
        for (off_t at = 0; how > 1 && pread(fd, bytes, sizeof bytes, at) == sizeof bytes;
             at += LLI_INDEX_ENTRY) {
            lli_index_get(bytes, &entry);
            if (how == 2)
                entry.offset += LLI_BLOCK_ALIGN;
            if (how == 3)
                entry.message /= 2, entry.wall -= 3000, entry.packet += 1;
            if (how == 4)
                entry.wall += 20000, entry.message += 500;
            if (how == 5 && chance(&d->random, 50))
                entry.packet ^= below(&d->random, 1000);
            if (how == 6)
                for (size_t b = 0; b < sizeof entry; b++)
                    ((uint8_t *)&entry)[b] = (uint8_t)below(&d->random, 256);
            if (how == 7)
                entry.message = entry.message > 900 ? entry.message - 900 : 0;
            lli_index_put(bytes, &entry);
            assert_int_equal(pwrite(fd, bytes, sizeof bytes, at), sizeof bytes);
        }
        close(fd);
    }
}

static void an_index_that_is_missing_or_wrong_costs_time_only(void **state)
{
    (void)state;
    for (uint32_t how = 0; how < 8; how++) {
        struct directory d;

        make(&d, 20 + how, true, how % 2 == 0);
        spoil(&d, how);
        check_all(&d, 25);
        directory_end(&d);
        directory_remove(path);
    }
}

static void a_message_that_spans_segments_is_found_where_it_starts(void **state)
{
    struct directory d;

    (void)state;
    directory_make_path(path);
    directory_begin(&d, path, DIRECTORY_SESSION, 99, 9000);
    directory_announce(&d, 0);
    directory_record(&d);
    for (int i = 0; i < 20; i++) {
        directory_send(&d, 0, i % 4 == 0 ? DIRECTORY_MESSAGE_MAX : 100, 0);
        directory_take(&d, false);
        directory_write(&d, false);
    }
    directory_finish(&d, false);
    assert_true(d.segments >= 2);
    check_all(&d, 50);
    directory_end(&d);
    directory_remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_leads_to_its_block),
        cmocka_unit_test(an_index_that_is_missing_or_wrong_costs_time_only),
        cmocka_unit_test(a_message_that_spans_segments_is_found_where_it_starts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
