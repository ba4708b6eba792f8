/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: single packets, valid and hostile. */
#include "filter_world.h"

#include "wire_vectors.h"

/* Sets a label filter; applies from the next packet on. */
static void use_label(uint32_t mask, uint32_t match)
{
    filter = (struct lli_filter){.labels_count = 1, .labels = {{mask, match}}};
    lli_filter_finish(&filter);
    r.config.filter = &filter;
    lli_rx_filter(rx);
}

static void set_label(uint32_t mask, uint32_t match)
{
    model_pass(sent_count);
    use_label(mask, match);
}

/* Returns the summary of the latest sealed packet. */
static bool summary_of_last(struct lli_frame_summary *summary)
{
    const lli_seq seq = tx->history.next - 1;
    const uint8_t *packet = lli_history_packet(&tx->history, seq);
    const uint32_t size = lli_history_slot(&tx->history, seq)->size;

    return lli_frame_get_summary(packet + LLI_WIRE_DATA_HEADER + lli_load_u16(packet + LLI_WIRE_HEADER),
                                 packet + size, summary);
}

/* The announcements of topics are in a separate packet. */
static void begin(void)
{
    const lli_seq from = tx->history.next;

    heartbeat_due();
    deliver(from, 0, false);
}

static void a_packet_of_labels_has_their_summary(void **state)
{
    struct lli_frame_summary summary;
    lli_seq from;

    (void)state;
    begin();
    from = tx->history.next;
    assert_true(pack_labelled(0x11, 10) && pack_labelled(0x31, 20) && pack_labelled(0x13, 0));
    deliver(from, 0, false);
    assert_int_equal(tx->history.next, from + 1);
    assert_true(summary_of_last(&summary));
    assert_int_equal(summary.any, 0x33);
    assert_int_equal(summary.all, 0x11);
    assert_int_equal(summary.count, 3);
    assert_int_equal(summary.end, lli_history_slot(&tx->history, from)->size - LLI_WIRE_DATA_HEADER);
    assert_int_equal(summary.end, LLI_FRAME_SUMMARY_SIZE + 3 * 8 + 30);
}

static void attributes_are_written_as_specified(void **state)
{
    static const uint8_t property[] = {5, 0, LLM_PROPERTY_INT32, 7, 0, 0, 0};
    static uint8_t expected[VECTOR_MAX];
    const struct sent first = {.has = true, .attributes = {.label = 0x01020304}},
                      second = {.has = true, .attributes = {.label = 0x01020300, .bitmap = {0x8001}}};
    const struct lli_pack_topic topic = {.id = 1};
    const struct iovec piece = {(void *)(uintptr_t) "hey", 3};
    struct lli_pack_attributes frame;
    size_t size = 0;
    unsigned value;
    int used;

    (void)state;
    begin();
    for (const struct field *field = attributes_vector.fields; field->hex != NULL; field++)
        for (const char *hex = field->hex; sscanf(hex, "%2x%n", &value, &used) == 1; hex += used)
            expected[size++] = (uint8_t)value;
    for (int i = 0; i < 2; i++) {
        frame_put(&frame, i == 0 ? &first : &second, i == 0 ? 0 : 2);
        if (i == 1) {
            memcpy(frame.frame + frame.size, property, sizeof property);
            frame.size += sizeof property;
            lli_store_u16(frame.frame + 1, (uint16_t)(frame.size - LLI_FRAME_HEAD));
        }
        lli_pack_attribute(&tx->pack, &frame);
        assert_true(lli_pack_message(&tx->pack, &topic, &piece, i == 0 ? 3 : 0, lli_tx_busy(tx)));
    }
    lli_pack_flush(&tx->pack);
    assert_int_equal(lli_history_slot(&tx->history, tx->history.next - 1)->size, size);
    /* The bytes before belong to the session. */
    assert_memory_equal(lli_history_packet(&tx->history, tx->history.next - 1) + LLI_WIRE_DATA_HEADER,
                        expected + LLI_WIRE_DATA_HEADER, size - LLI_WIRE_DATA_HEADER);
}

static void a_message_without_attributes_ends_the_summary(void **state)
{
    const struct sent plain = {.size = 5};
    struct lli_frame_summary summary;
    lli_seq from;

    (void)state;
    begin();
    from = tx->history.next;
    set_label(4, 4);
    assert_true(pack_labelled(1, 10) && pack_message(&plain, 0) && pack_labelled(2, 10));
    deliver(from, 0, false);
    assert_true(summary_of_last(&summary));
    assert_int_equal(summary.any, 1);
    assert_int_equal(summary.count, 1);
    assert_int_equal(summary.end, LLI_FRAME_SUMMARY_SIZE + 8 + 10);
    assert_int_equal(r.counters.packets_skipped, 0);
    assert_int_equal(r.counters.messages_rejected, 3);
    /* It begins with a message without attributes: no summary is possible. */
    from = tx->history.next;
    assert_true(pack_message(&plain, 0) && pack_labelled(2, 10));
    deliver(from, 0, false);
    assert_false(summary_of_last(&summary));
    assert_int_equal(r.counters.messages_rejected, 5);
    /* Such a message is wanted if label 0 is. */
    set_label(3, 0);
    assert_true(pack_labelled(1, 10) && pack_message(&plain, 0) && pack_labelled(4, 10));
    deliver(from + 1, 0, false);
    assert_int_equal(delivered, 2);
}

static void a_packet_without_wanted_messages_is_skipped_whole(void **state)
{
    lli_seq from;
    struct lli_rx_packet in;

    (void)state;
    begin();
    set_label(0xf0, 0x50);
    from = tx->history.next;
    /* Excluded by the bits that all labels have, and by those that any label has. */
    assert_true(pack_labelled(0x70, 10) && pack_labelled(0xd0, 10));
    lli_pack_flush(&tx->pack);
    assert_true(pack_labelled(0x10, 10) && pack_labelled(0x20, 10));
    lli_pack_flush(&tx->pack);
    /* Not excluded by both, though no label matches. */
    assert_true(pack_labelled(0x10, 10) && pack_labelled(0x40, 10));
    lli_pack_flush(&tx->pack);
    lli_tx_sent(tx, 3, now);
    for (lli_seq seq = from; seq < from + 3; seq++) {
        const uint32_t size = lli_history_slot(&tx->history, seq)->size;

        in = (struct lli_rx_packet){.bytes = lli_history_packet(&tx->history, seq), .size = size};
        assert_int_equal(lli_wire_get_header(in.bytes, size, &in.header, &in.body, &in.body_size),
                         LLI_WIRE_OK);
        assert_false(lli_rx_input(rx, &in, now));
    }
    assert_int_equal(r.counters.packets_skipped, 1);
    assert_int_equal(r.counters.messages_rejected, 6);
    assert_int_equal(delivered, 0);
    pull();
    told = sent_count;
}

static void an_announcement_is_never_skipped(void **state)
{
    lli_seq from;
    uint32_t id;

    (void)state;
    begin();
    set_label(1, 1);
    from = tx->history.next;
    assert_true(pack_labelled(0, 10));
    assert_int_equal(lli_tx_topic_add(tx, "late", &id), LLM_OK);
    assert_true(pack_labelled(0, 10));
    deliver(from, 0, false);
    assert_int_equal(r.counters.packets_skipped, 0);
    assert_int_equal(r.counters.messages_rejected, 2);
    assert_int_equal(rx->topics.known, TOPICS + 1);
    assert_string_equal(lli_topics_name(&rx->topics, id), "late");
}

/* The message is longer than the receiver accepts, and no event reports it. */
static void rejected_long_messages_are_not_reassembled(void **state)
{
    static uint8_t bytes[6000];
    const struct lli_pack_topic topic = {.id = 0};
    const struct iovec piece = {bytes, sizeof bytes};
    struct lli_pack_attributes frame;
    const struct sent message = {.attributes = {.label = 2}, .has = true, .size = sizeof bytes};
    lli_seq from;

    (void)state;
    begin();
    set_label(1, 1);
    from = tx->history.next;
    assert_true(pack_labelled(0, 200));
    frame_put(&frame, &message, 0);
    lli_pack_attribute(&tx->pack, &frame);
    assert_true(lli_pack_message(&tx->pack, &topic, &piece, sizeof bytes, lli_tx_busy(tx)));
    sent[sent_count++] = message;
    assert_true(pack_labelled(1, 10) && pack_labelled(0, 10));
    deliver(from, 0, false);
    assert_int_equal(lost, 0);
    assert_int_equal(delivered, 1);
    assert_int_equal(r.counters.messages_rejected, 3);
    assert_int_equal(r.counters.data_malformed, 0);
    /* Without a filter an event would have reported it. */
    assert_true(sizeof bytes > r.config.message_bytes_max);
}

static void contradictory_frames_do_no_harm(void **state)
{
    static const uint8_t bodies[][24] = {
        {0xf1, 0xff, 0xff, 1},                                      /* beyond the end */
        {0xf1, 2, 0, 1, 1, 1, 'a'},                                 /* no label: counts as 0 */
        {0xf1, 5, 0, 1, 0, 0, 0, 33, 1, 'a'},                       /* a bitmap beyond its frame */
        {0xf1, 4, 0, 1, 0, 0, 0},                                   /* no message after it */
        {0xf1, 4, 0, 1, 0, 0, 0, 0xf1, 4, 0, 2, 0, 0, 0, 1, 'a'},   /* the second one counts */
        {0xf2, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23, 0, 1, 0, 1, 'a'}, /* an end beyond the packet's */
        {0xf2, 1, 0, 9, 1, 'a'},
        {0xf1},
    };
    struct lli_wire_header header = {.type = LLI_WIRE_DATA, .tag = (uint32_t)SESSION};
    uint8_t packet[64];

    (void)state;
    begin();
    set_label(3, 1);
    filter.bitmap = filter.any = true;
    filter.mask[0] = 1;
    lli_filter_finish(&filter);
    sent_count = MESSAGES_MAX;
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        header.seq = (uint32_t)rx->gap.next;
        header.number = (uint32_t)rx->unpack.number;
        header.size = LLI_WIRE_DATA_HEADER + sizeof bodies[i];
        lli_wire_put_header(packet, &header);
        memcpy(packet + LLI_WIRE_DATA_HEADER, bodies[i], sizeof bodies[i]);
        rx_take(packet, header.size);
    }
    assert_int_equal(r.counters.packets_skipped, 0);
    told = sent_count;
}

static void messages_are_not_acknowledged_with_a_filter(void **state)
{
    struct lli_wire_heartbeat heartbeat = {.session = SESSION,
                                           .lead = START + 1,
                                           .trail = START,
                                           .start = START,
                                           .sent_at = now,
                                           .interval_us = 10000,
                                           .flags = LLI_WIRE_HEARTBEAT_ASSURED,
                                           .unacknowledged = START,
                                           .assured = 1,
                                           .address = {1, {'t'}}};
    struct lli_wire_header header = {.type = 0};
    struct lli_wire_status status;
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;

    (void)state;
    begin();
    for (int with = 0; with < 2; with++) {
        heartbeat.sent_at = now += 200 * MS;
        rx_take(buffer, lli_wire_put_heartbeat(buffer, &heartbeat));
        assert_true(lli_rx_control(rx, now, buffer, &packet));
        assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
        assert_true(lli_wire_get_status(body, size, header.tag, &status));
        assert_int_equal(status.accepts, with == 0 ? 1 : 0);
        set_label(1, 1);
    }
}

static void the_filter_is_in_force_from_a_sessions_first_packet(void **state)
{
    lli_seq from = tx->history.next;

    (void)state;
    set_label(1, 1);
    lli_rx_stop(rx);
    lli_rx_start(rx, (uint32_t)SESSION, now);
    assert_true(pack_labelled(0, 10) && pack_labelled(1, 10));
    deliver(from, 0, false);
    heartbeat_due();
    assert_int_equal(delivered, 1);
    assert_int_equal(r.counters.messages_rejected, 1);
}

/*
 * Three packets of messages with these labels, the first of which arrives last; the last message continues in
 * the third packet.
 */
static lli_seq three_packets(const uint32_t labels[8])
{
    const lli_seq from = tx->history.next;
    struct sent message = {.has = true, .size = lli_pack_whole_max(&tx->pack)};

    for (int i = 0; i < 7; i++) {
        assert_true(pack_labelled(labels[i], 10));
        if (i == 1)
            lli_pack_flush(&tx->pack);
    }
    message.attributes.label = labels[7];
    assert_true(pack_message(&message, 0));
    lli_pack_flush(&tx->pack);
    assert_int_equal(tx->history.next, from + 3);
    lli_tx_sent(tx, 3, now);
    lli_tx_reaped(tx, true);
    return from;
}

/* The whole messages of an early packet are filtered on arrival and counted once. */
static void filter_decisions_on_early_packets_are_final(void **state)
{
    lli_seq from;

    (void)state;
    begin();
    set_label(3, 1);
    from = three_packets((const uint32_t[]){1, 2, 1, 2, 1, 2, 2, 2});
    carry(from + 1);
    assert_int_equal(delivered, 2);
    assert_int_equal(r.counters.messages_rejected, 3);
    use_label(3, 2);
    carry(from);
    assert_true(came[1] && !came[3] && !came[7]);
    carry(from + 2);
    assert_true(came[7]);
    assert_int_equal(delivered, 4);
    assert_int_equal(r.counters.messages_rejected, 4);
    assert_int_equal(r.counters.messages_unordered, 2);
    told = sent_count;
}

/* The last message is not skipped early, as its end is unknown. */
static void an_early_packet_skipped_by_its_summary_is_counted_in_order(void **state)
{
    (void)state;
    for (int later = 0; later < 3; later++) {
        lli_seq from;

        (void)down(NULL);
        (void)up_arriving(NULL);
        begin();
        set_label(3, 1);
        from = three_packets((const uint32_t[]){1, 1, 2, 2, 2, 2, 2, 2});
        carry(from + 1);
        assert_int_equal(r.counters.messages_rejected, 5);
        assert_int_equal(r.counters.packets_skipped, 0);
        if (later == 1)
            use_label(3, 2);
        if (later == 2) {
            r.config.filter = NULL;
            lli_rx_filter(rx);
        }
        carry(from);
        carry(from + 2);
        assert_int_equal(delivered, later == 0 ? 2 : later == 1 ? 1 : 3);
        assert_int_equal(came[7], later > 0);
        assert_int_equal(r.counters.messages_rejected, later == 0 ? 6 : later == 1 ? 7 : 5);
        /* The second packet examined ahead of order, or the first one under the second filter. */
        assert_int_equal(r.counters.packets_skipped, later < 2);
        assert_int_equal(r.counters.data_malformed, 0);
        told = sent_count;
    }
}

/* The topic was not announced: wanted messages wait for its name, others are skipped. */
static void wanted_messages_wait_for_the_name_of_their_topic(void **state)
{
    struct sent message = {.has = true, .attributes = {.label = 2}, .size = 10};
    lli_seq from;

    (void)state;
    begin();
    set_label(3, 1);
    from = tx->history.next;
    lli_tx_topic_add(tx, "four", &message.topic);
    lli_pack_flush(&tx->pack);
    assert_true(pack_message(&message, 0) && pack_labelled(1, 10));
    message.attributes.label = 1;
    assert_true(pack_message(&message, 0) && pack_labelled(1, 10));
    lli_pack_flush(&tx->pack);
    lli_tx_sent(tx, 2, now);
    lli_tx_reaped(tx, true);
    carry(from + 1);
    assert_int_equal(delivered, 1);
    assert_int_equal(r.counters.messages_rejected, 1);
    carry(from);
    assert_int_equal(delivered, 3);
    assert_int_equal(r.counters.messages_rejected, 1);
    told = sent_count;
}

static void take_any(const uint8_t *packet, size_t size)
{
    uint8_t *copy = exact_copy(packet, size);
    struct lli_rx_packet in = {.bytes = copy, .size = size};
    struct lli_item item;

    assert_int_equal(lli_wire_get_header(copy, size, &in.header, &in.body, &in.body_size), LLI_WIRE_OK);
    (void)lli_rx_input(rx, &in, now);
    while (lli_rx_next(rx, now, &item))
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++)
            free(exact_copy(item.messages[i].data, item.messages[i].size));
    free(copy);
}

static void a_false_summary_in_an_early_packet_does_no_harm(void **state)
{
    static const uint8_t lie[] = {0xf2, 12, 0, 2, 0, 0, 0,   2,    0, 0, 0, 33, 0, 0, 2, 0xf1, 4,
                                  0,    2,  0, 0, 0, 1, 'a', 0xf1, 4, 0, 2, 0,  0, 0, 9, 'b'};
    struct lli_wire_header header = {.type = LLI_WIRE_DATA, .tag = (uint32_t)SESSION};
    uint8_t packet[64];

    (void)state;
    begin();
    for (int later = 0; later < 9; later++) {
        use_label(3, 1);
        for (uint32_t ahead = 2; ahead-- > 0;) {
            header.seq = (uint32_t)rx->gap.next + ahead;
            header.number = (uint32_t)rx->unpack.number;
            header.size = LLI_WIRE_DATA_HEADER + (ahead > 0 ? sizeof lie : 0);
            lli_wire_put_header(packet, &header);
            memcpy(packet + LLI_WIRE_DATA_HEADER, lie, sizeof lie);
            take_any(packet, header.size);
            use_label(3, 2);
            if (later % 3 == 0)
                r.config.filter = NULL;
        }
    }
    assert_true(r.counters.data_malformed > 0);
    told = sent_count;
}

/* The attributes stand before the message and are included. */
static void a_session_may_begin_with_any_message_of_a_packet(void **state)
{
    struct lli_unpack unpack = {.buffer = NULL};
    struct lli_wire_header header;
    const uint8_t *body, *packet;
    size_t size;

    (void)state;
    begin();
    assert_true(pack_labelled(1, 10) && pack_labelled(2, 20) && pack_labelled(3, 30));
    lli_pack_flush(&tx->pack);
    packet = lli_history_packet(&tx->history, tx->history.next - 1);
    size = lli_history_slot(&tx->history, tx->history.next - 1)->size;
    assert_int_equal(lli_wire_get_header(packet, size, &header, &body, &size), LLI_WIRE_OK);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(lli_unpack_enter(&unpack, &header, body, size, i));
        assert_int_equal(unpack.at[0], LLI_FRAME_ATTRIBUTES);
        assert_int_equal(lli_load_u32(unpack.at + LLI_FRAME_HEAD), i + 1);
    }
    told = sent_count;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_session_may_begin_with_any_message_of_a_packet, up, down),
        cmocka_unit_test_setup_teardown(a_packet_of_labels_has_their_summary, up, down),
        cmocka_unit_test_setup_teardown(attributes_are_written_as_specified, up, down),
        cmocka_unit_test_setup_teardown(a_message_without_attributes_ends_the_summary, up, down),
        cmocka_unit_test_setup_teardown(a_packet_without_wanted_messages_is_skipped_whole, up, down),
        cmocka_unit_test_setup_teardown(an_announcement_is_never_skipped, up, down),
        cmocka_unit_test_setup_teardown(rejected_long_messages_are_not_reassembled, up, down),
        cmocka_unit_test_setup_teardown(contradictory_frames_do_no_harm, up, down),
        cmocka_unit_test_setup_teardown(messages_are_not_acknowledged_with_a_filter, up, down),
        cmocka_unit_test_setup_teardown(the_filter_is_in_force_from_a_sessions_first_packet, up, down),
        cmocka_unit_test_setup_teardown(filter_decisions_on_early_packets_are_final, up_arriving, down),
        cmocka_unit_test_setup_teardown(an_early_packet_skipped_by_its_summary_is_counted_in_order,
                                        up_arriving, down),
        cmocka_unit_test_setup_teardown(wanted_messages_wait_for_the_name_of_their_topic, up_arriving, down),
        cmocka_unit_test_setup_teardown(a_false_summary_in_an_early_packet_does_no_harm, up_arriving, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
