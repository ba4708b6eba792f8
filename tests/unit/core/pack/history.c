/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/pack/history.h"

enum { PACKET_MAX = 200, HEADROOM = 10, ALIGN = 64, STRIDE = 256, MODEL_PACKETS = 20000 };

static uint8_t *history_make(struct lli_history *history, uint64_t bytes, uint32_t packets, lli_seq start)
{
    const struct lli_history_config config = {
        .bytes = bytes,
        .packets = packets,
        .packet_max = PACKET_MAX,
        .headroom = HEADROOM,
        .align = ALIGN,
        .start = start,
    };
    struct lli_arena arena = {.memory = NULL};

    lli_history_init(history, &config, &arena);
    arena_fill(&arena);
    lli_history_init(history, &config, &arena);
    return arena.memory;
}

/* Opens a packet, writes as a packetizer and a transport's headroom do, and seals it. */
static void history_add(struct lli_history *history, uint32_t size, lli_seq busy)
{
    uint8_t *packet = lli_history_open(history, busy);

    assert_int_equal((uintptr_t)(packet - HEADROOM - history->bytes) % ALIGN, 0);
    assert_true(packet + PACKET_MAX <= history->bytes + history->bytes_size);
    memset(packet - HEADROOM, 0xee, HEADROOM + PACKET_MAX);
    pattern_fill(packet, size, history->next);
    lli_history_seal(history, size);
}

/* Returns the maximum of packets that fit. */
static uint64_t history_room(const struct lli_history *history, lli_seq busy)
{
    uint64_t packets = 0;

    while (lli_history_fits(history, packets + 1, busy))
        packets++;
    return packets;
}

static void a_sealed_packet_has_its_number_and_place(void **state)
{
    struct lli_history history;
    uint8_t *memory = history_make(&history, 16 * STRIDE, 64, 500);

    (void)state;
    history_add(&history, 20, 500);
    history_add(&history, PACKET_MAX, 500);
    assert_int_equal(history.next, 502);
    assert_int_equal(history.trail, 500);
    assert_int_equal(lli_history_slot(&history, 500)->size, 20);
    assert_int_equal(lli_history_slot(&history, 501)->offset, ALIGN);
    pattern_check(lli_history_packet(&history, 501), PACKET_MAX, 501);
    free(memory);
}

static void the_reported_room_is_usable_without_forgetting_busy_packets(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t random = seed;
        struct lli_history history;
        uint8_t *memory =
            history_make(&history, (8 + below(&random, 30)) * STRIDE + below(&random, 4) * ALIGN, 64, 0);

        for (int laps = 0; laps < 20; laps++) {
            lli_seq busy;
            uint64_t room;

            for (uint32_t i = below(&random, 20); i > 0 && history_room(&history, history.next) > 0; i--)
                history_add(&history, below(&random, PACKET_MAX + 1), history.next);
            busy = history.next - lli_min(below(&random, 8), history.next - history.trail);
            room = history_room(&history, busy);
            for (; room > 0; room--) {
                history_add(&history, PACKET_MAX, busy);
                assert_true(history.trail <= busy);
            }
        }
        free(memory);
    }
}

static void an_idle_history_has_room_for_nearly_all_its_memory(void **state)
{
    struct lli_history history;
    uint8_t *memory = history_make(&history, 32 * STRIDE, 64, 0);

    (void)state;
    assert_int_equal(history_room(&history, 0), 30);
    free(memory);
    memory = history_make(&history, 640 * STRIDE, 64, 0);
    assert_int_equal(history_room(&history, 0), 63);
    free(memory);
}

/* ---------------------------------------------------------------------------------- against a plain list */

static uint32_t model_sizes[MODEL_PACKETS];

static uint64_t model_kept_bytes(const struct lli_history *history, lli_seq start)
{
    uint64_t bytes = 0;

    for (lli_seq seq = history->trail; seq < history->next; seq++)
        bytes += lli_round_up(HEADROOM + model_sizes[seq - start], ALIGN);
    return bytes;
}

/* Checks the bytes that packets take together: up to a packet's size may be unused at the end of the ring. */
static void model_compare_span(const struct lli_history *history, lli_seq start)
{
    uint64_t bytes = 0;

    assert_int_equal(lli_history_span(history, history->next, history->next), 0);
    for (lli_seq seq = history->next; seq > history->trail; seq--) {
        bytes += lli_round_up(HEADROOM + model_sizes[seq - 1 - start], ALIGN);
        assert_in_range(lli_history_span(history, seq - 1, history->next), bytes,
                        lli_min(bytes + STRIDE, history->bytes_size));
        assert_in_range(lli_history_span(history, seq - 1, seq), 1, 2 * STRIDE);
    }
    if (history->trail > start)
        assert_int_equal(lli_history_span(history, start, history->next),
                         lli_history_span(history, history->trail, history->next));
}

static void model_compare(const struct lli_history *history, lli_seq start, lli_seq busy)
{
    assert_true(history->trail <= busy && history->trail >= start);
    for (lli_seq seq = history->trail; seq < history->next; seq++) {
        assert_int_equal(lli_history_slot(history, seq)->size, model_sizes[seq - start]);
        assert_int_equal(lli_history_slot(history, seq)->repaired_at, 0);
        assert_false(lli_history_slot(history, seq)->repair_queued);
        pattern_check(lli_history_packet(history, seq), model_sizes[seq - start], seq);
    }
    model_compare_span(history, start);
    /* Packets are dropped only if necessary: memory or slots are nearly used up. */
    if (history->trail > start && history->next - history->trail < history->slots_mask - 1)
        assert_true(model_kept_bytes(history, start) + 3 * STRIDE > history->bytes_size);
}

static void random_packets_stay_unchanged_until_forgotten_in_order(void **state)
{
    const lli_seq starts[] = {0, BEFORE_WRAP_32, BEFORE_WRAP_33};

    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        const lli_seq start = starts[seed % 3];
        uint64_t random = seed;
        /* Limited by bytes, by slots, or by either in turn. */
        uint64_t bytes =
            seed % 4 == 0 ? 100 * STRIDE : (8 + below(&random, 40)) * STRIDE + below(&random, 4) * ALIGN;
        struct lli_history history;
        uint8_t *memory = history_make(&history, bytes, seed % 5 == 0 ? 16 : 64, start);
        lli_seq busy = start;
        uint32_t large = below(&random, 100);

        for (int step = 0; step < 3000; step++) {
            if (chance(&random, 1))
                large = below(&random, 100);
            busy += below(&random, (uint32_t)(history.next - busy) + 1);
            if (history_room(&history, busy) == 0)
                continue;
            uint32_t size = chance(&random, large) ? PACKET_MAX : below(&random, PACKET_MAX);
            model_sizes[history.next - start] = size;
            history_add(&history, size, busy);
            model_compare(&history, start, busy);
        }
        assert_true(history.next - start > 1000);
        free(memory);
    }
}

static void packets_grow_into_their_tails_and_touch_no_other(void **state)
{
    enum { TAIL = 20 };
    const struct lli_history_config config = {.bytes = 16 * STRIDE,
                                              .packets = 64,
                                              .packet_max = PACKET_MAX,
                                              .headroom = HEADROOM,
                                              .tail = TAIL,
                                              .align = ALIGN,
                                              .start = 500};
    struct lli_history history;
    struct lli_arena arena = {.memory = NULL};
    uint64_t random = 9;

    (void)state;
    lli_history_init(&history, &config, &arena);
    arena_fill(&arena);
    lli_history_init(&history, &config, &arena);
    for (int i = 0; i < 1000; i++) {
        const uint32_t size = chance(&random, 30) ? PACKET_MAX : 1 + below(&random, PACKET_MAX);
        const lli_seq seq = history.next;
        uint8_t *packet;

        history_add(&history, size, seq);
        packet = lli_history_packet(&history, seq);
        assert_true(packet + size + TAIL <= history.bytes + history.bytes_size);
        memset(packet + size, 0xdd, TAIL);
        lli_history_extend(&history, seq, size + TAIL);
        assert_int_equal(lli_history_slot(&history, seq)->size, size + TAIL);
        for (lli_seq k = history.trail; k < history.next; k++) {
            const uint32_t own = lli_history_slot(&history, k)->size - TAIL;

            pattern_check(lli_history_packet(&history, k), own, k);
            for (uint32_t at = own; at < own + TAIL; at++)
                assert_int_equal(lli_history_packet(&history, k)[at], 0xdd);
        }
    }
    assert_true(history.trail > 500);
    free(arena.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sealed_packet_has_its_number_and_place),
        cmocka_unit_test(the_reported_room_is_usable_without_forgetting_busy_packets),
        cmocka_unit_test(an_idle_history_has_room_for_nearly_all_its_memory),
        cmocka_unit_test(random_packets_stay_unchanged_until_forgotten_in_order),
        cmocka_unit_test(packets_grow_into_their_tails_and_touch_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
