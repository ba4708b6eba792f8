/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/pack/pack.h"

enum { PACKET_MAX = 128, PACKETS = 64, BODY = PACKET_MAX - LLI_WIRE_DATA_HEADER };

struct packer {
    struct lli_history history;
    struct lli_pack pack;
    uint8_t *memory;
};

static void packer_make(struct packer *packer, uint32_t packets)
{
    const struct lli_history_config config = {.bytes = packets * PACKET_MAX,
                                              .packets = PACKETS,
                                              .packet_max = PACKET_MAX,
                                              .align = 64,
                                              .start = 100};
    struct lli_arena arena = {.memory = NULL};

    lli_history_init(&packer->history, &config, &arena);
    arena_fill(&arena);
    packer->memory = arena.memory;
    lli_history_init(&packer->history, &config, &arena);
    lli_pack_init(&packer->pack, &packer->history, 0xabcd);
}

static bool packer_send(struct packer *packer, uint32_t topic, bool whole, uint32_t size, lli_seq busy)
{
    static uint8_t bytes[1 << 16];
    const struct lli_pack_topic to = {.id = topic, .whole = whole};
    const struct iovec piece = {bytes, size};

    return lli_pack_message(&packer->pack, &to, &piece, size, busy);
}

static uint32_t packet_size(const struct packer *packer, lli_seq seq)
{
    return lli_history_slot(&packer->history, seq)->size;
}

static void an_empty_packet_is_not_flushed(void **state)
{
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    assert_false(lli_pack_pending(&packer.pack));
    lli_pack_flush(&packer.pack);
    assert_int_equal(packer.history.next, 100);
    assert_true(packer_send(&packer, 0, false, 0, 100));
    assert_true(lli_pack_pending(&packer.pack));
    lli_pack_flush(&packer.pack);
    assert_false(lli_pack_pending(&packer.pack));
    assert_int_equal(packer.history.next, 101);
    assert_int_equal(packet_size(&packer, 100), LLI_WIRE_DATA_HEADER + 1);
    free(packer.memory);
}

static void a_packet_names_each_topic_once_and_topic_zero_never(void **state)
{
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    (void)packer_send(&packer, 0, false, 4, 100);
    (void)packer_send(&packer, 9, false, 4, 100);
    (void)packer_send(&packer, 9, false, 4, 100);
    (void)packer_send(&packer, 9000, false, 4, 100);
    lli_pack_flush(&packer.pack);
    assert_int_equal(packet_size(&packer, 100), LLI_WIRE_DATA_HEADER + 4 * 5 + 2 + 5);
    (void)packer_send(&packer, 9000, false, 4, 100);
    lli_pack_flush(&packer.pack);
    assert_int_equal(packet_size(&packer, 101), LLI_WIRE_DATA_HEADER + 5 + 5);
    free(packer.memory);
}

static void a_stream_fills_every_packet_to_the_brim(void **state)
{
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    for (int i = 0; i < 200; i++)
        assert_true(packer_send(&packer, 3, false, 37, packer.history.next));
    for (lli_seq seq = packer.history.trail; seq < packer.history.next; seq++)
        assert_int_equal(packet_size(&packer, seq), PACKET_MAX);
    free(packer.memory);
}

static void a_frame_header_alone_does_not_end_a_packet(void **state)
{
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    (void)packer_send(&packer, 0, false, BODY - 2, 100);
    (void)packer_send(&packer, 0, false, 10, 100);
    assert_int_equal(packer.history.next, 101);
    assert_int_equal(packet_size(&packer, 100), PACKET_MAX);
    assert_int_equal(lli_history_packet(&packer.history, 100)[PACKET_MAX - 1], LLI_FRAME_PAD);
    lli_pack_flush(&packer.pack);
    assert_int_equal(packet_size(&packer, 101), LLI_WIRE_DATA_HEADER + 11);
    free(packer.memory);
}

static void a_message_that_just_fits_stays_in_its_packet(void **state)
{
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    (void)packer_send(&packer, 0, false, BODY - 1, 100);
    assert_int_equal(packer.history.next, 100);
    lli_pack_flush(&packer.pack);
    assert_int_equal(packet_size(&packer, 100), PACKET_MAX);
    (void)packer_send(&packer, 0, false, BODY, 100);
    assert_int_equal(packer.history.next, 102);
    lli_pack_flush(&packer.pack);
    assert_int_equal(packet_size(&packer, 102), LLI_WIRE_DATA_HEADER + 1);
    free(packer.memory);
}

static void whole_messages_never_span_packets(void **state)
{
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    for (int i = 0; i < 50; i++)
        assert_true(packer_send(&packer, 1, true, 60, packer.history.next));
    lli_pack_flush(&packer.pack);
    for (lli_seq seq = packer.history.trail; seq < packer.history.next; seq++)
        assert_int_equal(lli_load_u16(lli_history_packet(&packer.history, seq) + LLI_WIRE_HEADER), 0);
    free(packer.memory);
}

static void the_longest_whole_message_fits_one_packet_on_any_topic(void **state)
{
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    (void)packer_send(&packer, UINT32_MAX, true, lli_pack_whole_max(&packer.pack), 100);
    lli_pack_flush(&packer.pack);
    assert_int_equal(packer.history.next, 101);
    free(packer.memory);
}

static void a_send_without_room_changes_nothing(void **state)
{
    struct packer packer;
    struct lli_pack before;
    int taken = 0;

    (void)state;
    packer_make(&packer, 16);
    do
        before = packer.pack;
    while (packer_send(&packer, 1, false, 300, 100) && ++taken < 100);
    assert_true(taken >= 2 && taken <= 6);
    assert_memory_equal(&packer.pack, &before, sizeof before);
    assert_int_equal(packer.history.trail, 100);
    /* Sent packets make room. */
    assert_true(packer_send(&packer, 1, false, 300, packer.history.next));
    free(packer.memory);
}

static void a_claim_is_committed_shorter_or_aborted(void **state)
{
    const struct lli_pack_topic topic = {.id = 0};
    struct packer packer;
    uint8_t *data;

    (void)state;
    packer_make(&packer, 32);
    data = lli_pack_claim(&packer.pack, &topic, lli_pack_whole_max(&packer.pack), 100);
    assert_non_null(data);
    lli_pack_abort(&packer.pack);
    assert_int_equal(packer.pack.number, 0);
    lli_pack_flush(&packer.pack);
    assert_int_equal(packer.history.next, 100);
    data = lli_pack_claim(&packer.pack, &topic, 50, 100);
    assert_ptr_equal(data, packer.pack.claim + 1);
    memcpy(data, "abc", 3);
    lli_pack_flush(&packer.pack);
    assert_int_equal(packer.history.next, 100);
    lli_pack_commit(&packer.pack, 3);
    assert_int_equal(packer.pack.number, 1);
    lli_pack_flush(&packer.pack);
    assert_int_equal(packet_size(&packer, 100), LLI_WIRE_DATA_HEADER + 4);
    assert_memory_equal(lli_history_packet(&packer.history, 100) + LLI_WIRE_DATA_HEADER, "\3abc", 4);
    free(packer.memory);
}

static void a_claim_that_does_not_fit_opens_a_packet(void **state)
{
    const struct lli_pack_topic topic = {.id = 0};
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    (void)packer_send(&packer, 0, false, BODY - 20, 100);
    /* Room for a topic frame is reserved, needed or not. */
    assert_non_null(lli_pack_claim(&packer.pack, &topic, 16, 100));
    assert_int_equal(packer.history.next, 100);
    lli_pack_commit(&packer.pack, 16);
    assert_non_null(lli_pack_claim(&packer.pack, &topic, 1, 100));
    assert_int_equal(packer.history.next, 101);
    lli_pack_commit(&packer.pack, 0);
    free(packer.memory);
}

static void claims_and_announcements_need_room(void **state)
{
    const struct lli_pack_topic topic = {.id = 0};
    struct packer packer;

    (void)state;
    packer_make(&packer, 16);
    while (lli_pack_claim(&packer.pack, &topic, 80, 100) != NULL)
        lli_pack_commit(&packer.pack, 80);
    assert_false(lli_pack_announce(&packer.pack, 1, "0123456789012345678901234567890123456789", 40, 100));
    assert_int_equal(packer.history.trail, 100);
    assert_true(lli_pack_announce(&packer.pack, 1, "0123456789012345678901234567890123456789", 40,
                                  packer.history.next));
    free(packer.memory);
}

static void a_message_is_gathered_from_its_pieces(void **state)
{
    struct iovec pieces[] = {{NULL, 0}, {"ab", 2}, {NULL, 0}, {"cde", 3}, {"f", 1}, {NULL, 0}};
    const struct lli_pack_topic topic = {.id = 0};
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    assert_true(lli_pack_message(&packer.pack, &topic, pieces, 6, 100));
    lli_pack_flush(&packer.pack);
    assert_memory_equal(lli_history_packet(&packer.history, 100) + LLI_WIRE_DATA_HEADER, "\6abcdef", 7);
    free(packer.memory);
}

/*
 * Messages of both kinds in turn, long and short: a packet has messages of one kind, and the number of
 * unrepaired packets before it.
 */
static void reliable_and_unreliable_messages_never_share_a_packet(void **state)
{
    static const uint32_t sizes[] = {3, 300, 0, 20};
    struct packer packer;
    uint32_t run = 0, sum = 0;
    bool kinds[PACKETS];
    lli_seq seq = 100;

    (void)state;
    packer_make(&packer, 64);
    lli_pack_unreliable(&packer.pack, 1);
    for (int i = 0; i < 8; i++) {
        const struct lli_pack_topic topic = {.id = (uint32_t)i % 2, .unreliable = i % 2 == 1};
        static uint8_t bytes[300];
        const struct iovec piece = {bytes, sizes[i / 2]};

        assert_true(lli_pack_message(&packer.pack, &topic, &piece, sizes[i / 2], 100));
        /* The last packed bytes are in the open packet. */
        for (; seq <= packer.history.next; seq++)
            kinds[seq - 100] = i % 2 == 1;
    }
    lli_pack_flush(&packer.pack);
    assert_int_equal(packer.history.next, seq);
    for (lli_seq at = 100; at < seq; at++) {
        const struct lli_history_slot *slot = lli_history_slot(&packer.history, at);

        assert_int_equal(slot->unreliable, kinds[at - 100]);
        assert_int_equal(lli_history_packet(&packer.history, at)[1], run);
        run = slot->unreliable ? run + 1 : 0;
        sum += slot->unreliable;
        assert_int_equal(lli_history_unreliable(&packer.history, 100, at + 1), sum);
    }
    assert_true(sum >= 5);
    assert_int_equal(lli_history_unreliable(&packer.history, 100, 100), 0);
    free(packer.memory);
}

/*
 * A packet that begins with topic 0 has no topic frame; a packet of the other kind must not be taken for one
 * of topic 0.
 */
static void an_unreliable_topic_zero_shares_no_packet_with_announcements(void **state)
{
    const struct lli_pack_topic zero = {.id = 0, .unreliable = true};
    const struct lli_pack_topic one = {.id = 1};
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    assert_true(lli_pack_announce(&packer.pack, 0, "zero", 4, 100));
    lli_pack_unreliable(&packer.pack, 0);
    assert_false(lli_pack_in_place(&packer.pack, &zero, "a", 1));
    assert_non_null(lli_pack_claim(&packer.pack, &zero, 1, 100));
    assert_int_equal(packer.history.next, 101);
    lli_pack_abort(&packer.pack);
    assert_true(lli_pack_in_place(&packer.pack, &zero, "a", 1));
    /* A message that continues in another packet reserves the rest of that packet for its own kind, too. */
    assert_true(lli_pack_announce(&packer.pack, 1, "one", 3, 100));
    assert_int_equal(packer.history.next, 102);
    assert_true(packer_send(&packer, 1, false, BODY, 100));
    assert_int_equal(packer.history.next, 103);
    assert_false(lli_pack_in_place(&packer.pack, &zero, "a", 1));
    assert_true(lli_pack_message(&packer.pack, &one, &(struct iovec){"b", 1}, 1, 100));
    assert_int_equal(packer.history.next, 103);
    lli_pack_flush(&packer.pack);
    assert_false(lli_history_slot(&packer.history, 100)->unreliable);
    assert_true(lli_history_slot(&packer.history, 101)->unreliable);
    assert_false(lli_history_slot(&packer.history, 102)->unreliable);
    /* A longer run is counted up to the maximum of the field. */
    for (int i = 0; i < 70; i++) {
        assert_true(lli_pack_message(&packer.pack, &zero, &(struct iovec){"c", 1}, 1, packer.history.next));
        lli_pack_flush(&packer.pack);
    }
    assert_int_equal(lli_history_packet(&packer.history, packer.history.next - 1)[1],
                     LLI_WIRE_FLAGS_UNREPAIRED);
    assert_int_equal(lli_history_packet(&packer.history, packer.history.next - 8)[1], 62);
    free(packer.memory);
}

/* For all topics and sizes the fast path makes the same bytes as packing and sealing. */
static void a_single_message_packet_equals_a_packed_packet(void **state)
{
    static const uint32_t topics[] = {0, 1, LLI_FRAME_TOPIC_SHORT_MAX, LLI_FRAME_TOPIC_SHORT_MAX + 1,
                                      UINT32_MAX};
    static uint8_t bytes[PACKET_MAX];
    struct packer packer, other;

    (void)state;
    packer_make(&packer, 32);
    packer_make(&other, 32);
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + 1);
    for (uint32_t t = 0; t < sizeof topics / sizeof topics[0]; t++)
        for (uint32_t size = 1; size <= PACKET_MAX; size++) {
            const struct lli_pack_topic topic = {.id = topics[t]};
            const struct iovec piece = {bytes, size};
            const lli_seq seq = packer.history.next;
            uint8_t elsewhere[PACKET_MAX / 2];
            const bool away = size % 2 == 0 && size <= lli_pack_single_max(sizeof elsewhere);

            lli_pack_prepare(&packer.pack, seq);
            assert_true(lli_pack_message(&other.pack, &topic, &piece, size, seq));
            lli_pack_flush(&other.pack);
            if (!lli_pack_may_be_single(&packer.pack, size)) {
                /* It would have to span packets, on any topic. */
                assert_true(size + lli_frame_message_size(PACKET_MAX) + lli_frame_topic_size(UINT32_MAX) >
                            BODY);
                assert_true(lli_pack_message(&packer.pack, &topic, &piece, size, seq));
                lli_pack_flush(&packer.pack);
            } else {
                uint8_t *packet = away ? elsewhere : packer.pack.prepared;
                const uint32_t lone = lli_pack_single(&packer.pack, packet, &topic, bytes, size);

                assert_int_equal(packer.history.next, seq);
                assert_true(!away || lone <= sizeof elsewhere);
                lli_pack_single_end(&packer.pack, packet, lone);
                assert_int_equal(lone, packet_size(&packer, seq));
            }
            assert_int_equal(packer.history.next, other.history.next);
            assert_int_equal(packer.history.trail, other.history.trail);
            assert_int_equal(packer.pack.number, other.pack.number);
            for (lli_seq at = seq; at < packer.history.next; at++) {
                assert_int_equal(packet_size(&packer, at), packet_size(&other, at));
                assert_memory_equal(lli_history_packet(&packer.history, at),
                                    lli_history_packet(&other.history, at), packet_size(&other, at));
            }
        }
    free(packer.memory);
    free(other.memory);
}

static uint32_t packer_send_lone(struct packer *packer, const struct lli_pack_topic *topic, const char *data,
                                 size_t size)
{
    uint8_t *packet = packer->pack.prepared;
    const uint32_t bytes = lli_pack_single(&packer->pack, packet, topic, data, size);

    lli_pack_single_end(&packer->pack, packet, bytes);
    return bytes;
}

static void unprepared_or_special_messages_avoid_the_single_message_path(void **state)
{
    static const struct lli_pack_attributes attributes = {.size = 7, .frame = {LLI_FRAME_ATTRIBUTES, 4}};
    const struct lli_pack_topic topic = {.id = 0};
    struct packer packer;

    (void)state;
    packer_make(&packer, 32);
    assert_false(lli_pack_may_be_single(&packer.pack, 1));
    lli_pack_prepare(&packer.pack, 100);
    assert_true(lli_pack_may_be_single(&packer.pack, 1));
    assert_false(lli_pack_may_be_single(&packer.pack, 0));
    lli_pack_attribute(&packer.pack, &attributes);
    assert_false(lli_pack_may_be_single(&packer.pack, 1));
    lli_pack_attribute(&packer.pack, NULL);
    /* No packet is prepared while one is open. */
    assert_true(packer_send(&packer, 0, false, 1, 100));
    lli_pack_prepare(&packer.pack, 100);
    assert_false(lli_pack_may_be_single(&packer.pack, 1));
    lli_pack_flush(&packer.pack);
    /* Nor without room in the history: a packet still being read is at that place. */
    for (lli_pack_prepare(&packer.pack, 100); lli_pack_may_be_single(&packer.pack, 1);
         lli_pack_prepare(&packer.pack, 100))
        assert_int_equal(packer_send_lone(&packer, &topic, "x", 1), LLI_WIRE_DATA_HEADER + 2);
    assert_true(packer.history.next > 100 && packer.history.trail == 100);
    lli_pack_prepare(&packer.pack, packer.history.next);
    assert_true(lli_pack_may_be_single(&packer.pack, 1));
    assert_int_equal(packer_send_lone(&packer, &topic, "x", 1), LLI_WIRE_DATA_HEADER + 2);
    free(packer.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_packet_is_not_flushed),
        cmocka_unit_test(a_packet_names_each_topic_once_and_topic_zero_never),
        cmocka_unit_test(a_stream_fills_every_packet_to_the_brim),
        cmocka_unit_test(a_frame_header_alone_does_not_end_a_packet),
        cmocka_unit_test(a_message_that_just_fits_stays_in_its_packet),
        cmocka_unit_test(whole_messages_never_span_packets),
        cmocka_unit_test(the_longest_whole_message_fits_one_packet_on_any_topic),
        cmocka_unit_test(a_send_without_room_changes_nothing),
        cmocka_unit_test(a_claim_is_committed_shorter_or_aborted),
        cmocka_unit_test(a_claim_that_does_not_fit_opens_a_packet),
        cmocka_unit_test(claims_and_announcements_need_room),
        cmocka_unit_test(a_message_is_gathered_from_its_pieces),
        cmocka_unit_test(reliable_and_unreliable_messages_never_share_a_packet),
        cmocka_unit_test(an_unreliable_topic_zero_shares_no_packet_with_announcements),
        cmocka_unit_test(a_single_message_packet_equals_a_packed_packet),
        cmocka_unit_test(unprepared_or_special_messages_avoid_the_single_message_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
