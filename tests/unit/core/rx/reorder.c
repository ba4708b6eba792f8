/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/rx/reorder.h"

enum { CHUNKS = 64, PACKETS = CHUNKS, LONGEST = 20 * LLI_REORDER_CHUNK };

static uint8_t *reorder_make(struct lli_reorder *reorder, uint64_t bytes, uint32_t packet_max)
{
    struct lli_arena arena = {.memory = NULL};

    lli_reorder_init(reorder, bytes, packet_max, &arena, &arena);
    arena_fill(&arena);
    lli_reorder_init(reorder, bytes, packet_max, &arena, &arena);
    return arena.memory;
}

static void the_buffer_has_room_for_at_least_sixteen_packets(void **state)
{
    struct lli_reorder reorder;
    uint8_t *memory = reorder_make(&reorder, CHUNKS * LLI_REORDER_CHUNK, 100);

    (void)state;
    assert_int_equal(reorder.count, CHUNKS);
    assert_int_equal(reorder.left, CHUNKS);
    free(memory);
    memory = reorder_make(&reorder, 1, LLI_REORDER_CHUNK + 1);
    assert_int_equal(reorder.count, 32);
    free(memory);
}

/* The receiver's own mtu is 576. */
static void the_longest_packet_fits_the_least_memory(void **state)
{
    static uint8_t packet[65535];
    struct lli_reorder reorder;
    uint8_t *memory = reorder_make(&reorder, 65536, 576);
    uint32_t held, size;

    (void)state;
    pattern_fill(packet, sizeof packet, 1);
    held = lli_reorder_put(&reorder, packet, sizeof packet);
    assert_int_not_equal(held, LLI_REORDER_NONE);
    pattern_check(lli_reorder_get(&reorder, held, LLI_REORDER_TURN, &size), sizeof packet, 1);
    assert_int_equal(size, sizeof packet);
    assert_int_equal(lli_reorder_put(&reorder, packet, 1), LLI_REORDER_NONE);
    assert_int_equal(lli_reorder_free(&reorder, held), 256);
    assert_int_equal(reorder.left, 256);
    free(memory);
}

static void a_packet_takes_memory_by_its_own_length(void **state)
{
    struct lli_reorder reorder;
    uint8_t *memory = reorder_make(&reorder, CHUNKS * LLI_REORDER_CHUNK, 9000);
    const uint8_t packet[100] = {1};
    const uint32_t count = reorder.count;

    (void)state;
    for (uint32_t i = 0; i < count; i++)
        assert_int_not_equal(lli_reorder_put(&reorder, packet, sizeof packet), LLI_REORDER_NONE);
    assert_int_equal(reorder.used, count);
    /* After many short packets, free space is counted in packets of that length. */
    assert_int_equal(lli_reorder_packets(&reorder, 10), 10);
    free(memory);
}

static void a_read_packet_stays_valid_until_the_next_read(void **state)
{
    struct lli_reorder reorder;
    uint8_t *memory = reorder_make(&reorder, CHUNKS * LLI_REORDER_CHUNK, 1500);
    uint8_t packet[3][1000];
    const uint8_t *turn, *ahead;
    uint32_t held[3], size;

    (void)state;
    for (int i = 0; i < 3; i++) {
        pattern_fill(packet[i], sizeof packet[i], (uint64_t)i);
        held[i] = lli_reorder_put(&reorder, packet[i], sizeof packet[i]);
        assert_memory_equal(lli_reorder_head(&reorder, held[i]), packet[i], LLI_REORDER_CHUNK);
    }
    turn = lli_reorder_get(&reorder, held[0], LLI_REORDER_TURN, &size);
    ahead = lli_reorder_get(&reorder, held[1], LLI_REORDER_UNORDERED, &size);
    (void)lli_reorder_free(&reorder, held[0]);
    (void)lli_reorder_put(&reorder, packet[2], sizeof packet[2]);
    pattern_check(turn, sizeof packet[0], 0);
    pattern_check(ahead, sizeof packet[1], 1);
    free(memory);
}

/* The model has the start, the bytes and the size of each packet. */
static void random_puts_and_frees_leave_every_packet_unchanged(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lli_reorder reorder;
        uint8_t *memory = reorder_make(&reorder, CHUNKS * LLI_REORDER_CHUNK, 100);
        uint32_t sizes[PACKETS] = {0};
        bool full[PACKETS] = {false};
        uint64_t tags[PACKETS] = {0};
        uint32_t used = 0, chunks = 0;
        uint64_t random = seed;

        for (uint64_t step = 0; step < 3000; step++) {
            static uint8_t data[LONGEST];
            uint32_t size = below(&random, chance(&random, 50) ? 2 * LLI_REORDER_CHUNK : LONGEST + 1);
            uint32_t packet = below(&random, PACKETS);

            if (chance(&random, step % 1000 < 500 ? 70 : 30)) {
                pattern_fill(data, size, step);
                packet = lli_reorder_put(&reorder, data, size);
                assert_int_equal(packet == LLI_REORDER_NONE, chunks + lli_reorder_chunks(size) > CHUNKS);
                if (packet != LLI_REORDER_NONE) {
                    assert_true(packet < CHUNKS && !full[packet]);
                    full[packet] = true;
                    sizes[packet] = size;
                    tags[packet] = step;
                    chunks += lli_reorder_chunks(size);
                    used++;
                }
            } else if (full[packet]) {
                assert_int_equal(lli_reorder_free(&reorder, packet), lli_reorder_chunks(sizes[packet]));
                full[packet] = false;
                chunks -= lli_reorder_chunks(sizes[packet]);
                used--;
            }
            assert_int_equal(reorder.used, used);
            assert_int_equal(reorder.left, CHUNKS - chunks);
            for (uint32_t i = 0; i < PACKETS; i++) {
                if (!full[i])
                    continue;
                pattern_check(lli_reorder_get(&reorder, i, LLI_REORDER_TURN, &size), sizes[i], tags[i]);
                assert_int_equal(size, sizes[i]);
            }
        }
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_buffer_has_room_for_at_least_sixteen_packets),
        cmocka_unit_test(the_longest_packet_fits_the_least_memory),
        cmocka_unit_test(a_packet_takes_memory_by_its_own_length),
        cmocka_unit_test(a_read_packet_stays_valid_until_the_next_read),
        cmocka_unit_test(random_puts_and_frees_leave_every_packet_unchanged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
