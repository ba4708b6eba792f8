/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/pack/pack.h"
#include "core/pack/unpack.h"

enum { BUFFER = 4096 };

static uint8_t buffer[BUFFER];

/*
 * Begins a data packet built by hand, whose body is in a block of exactly its size, valid until the next
 * call.
 */
static void begin(struct lli_unpack *unpack, uint32_t number, uint16_t first, const void *body, size_t size)
{
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA, .first = first, .number = number};
    static uint8_t *copy;

    free(copy);
    copy = exact_copy(body, size);
    lli_unpack_begin(unpack, &header, copy, size);
}

static int next_messages(struct lli_unpack *unpack, struct llm_message *messages, int max)
{
    const struct llm_message like = {.topic = "like", .session = 77};
    uint32_t topic;
    int count = lli_unpack_peek(unpack, &topic) ? lli_unpack_messages(unpack, &like, messages, max) : 0;

    for (int i = 0; i < count; i++) {
        assert_int_equal(messages[i].topic_id, topic);
        assert_string_equal(messages[i].topic, "like");
        assert_int_equal(messages[i].session, 77);
    }
    return count;
}

static void expect_message(struct lli_unpack *unpack, uint64_t number, const char *text)
{
    struct llm_message message;

    assert_int_equal(next_messages(unpack, &message, 1), 1);
    assert_int_equal(message.number, number);
    assert_int_equal(message.size, strlen(text));
    assert_memory_equal(message.data, text, message.size);
}

static void expect(struct lli_unpack *unpack, enum lli_unpack_kind kind, uint64_t number, const char *text)
{
    struct lli_unpacked out = {.kind = LLI_UNPACK_NONE};
    struct llm_message message;

    assert_int_equal(next_messages(unpack, &message, 1), 0);
    lli_unpack_next(unpack, &out);
    assert_int_equal(out.kind, kind);
    if (kind != LLI_UNPACK_NONE && kind != LLI_UNPACK_ANNOUNCE)
        assert_int_equal(out.number, number);
    if (text != NULL) {
        assert_int_equal(out.size, strlen(text));
        assert_memory_equal(out.data, text, out.size);
    }
}

static void expect_lost(struct lli_unpack *unpack, uint64_t first, uint64_t last)
{
    struct lli_unpacked out = {.kind = LLI_UNPACK_NONE};

    lli_unpack_next(unpack, &out);
    assert_int_equal(out.kind, LLI_UNPACK_LOST);
    assert_int_equal(out.number, first);
    assert_int_equal(out.last, last);
}

static void unpack_make(struct lli_unpack *unpack, uint64_t number)
{
    lli_unpack_init(unpack, buffer, sizeof buffer);
    lli_unpack_reset(unpack, number);
}

static void a_packet_with_a_wrong_message_number_is_counted_and_skipped(void **state)
{
    static const uint32_t numbers[] = {9, 1000, 6, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct lli_unpack unpack;

        unpack_make(&unpack, 7);
        begin(&unpack, 7, 0, "\1a", 2);
        expect_message(&unpack, 7, "a");
        expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
        begin(&unpack, numbers[i], 0, "\1b", 2);
        assert_int_equal(unpack.malformed, 1);
        expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
        /* The replaced packet may have had a message. */
        begin(&unpack, 9, 0, "\1c", 2);
        assert_int_equal(unpack.malformed, 1);
        expect_lost(&unpack, 8, 8);
        expect_message(&unpack, 9, "c");
        expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    }
}

static void expect_skipped(struct lli_unpack *unpack, uint64_t first, uint64_t last)
{
    struct lli_unpacked out = {.kind = LLI_UNPACK_NONE};
    struct llm_message message;

    assert_int_equal(next_messages(unpack, &message, 1), 0);
    lli_unpack_next(unpack, &out);
    assert_int_equal(out.kind, LLI_UNPACK_SKIPPED);
    assert_int_equal(out.number, first);
    assert_int_equal(out.last, last);
}

static void skipped_numbers_are_reported_and_the_next_packet_goes_on_after_them(void **state)
{
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 7);
    begin(&unpack, 7, 0, "\1a\xf3\4\0\3\0\0\0", 9);
    expect_message(&unpack, 7, "a");
    expect_skipped(&unpack, 8, 10);
    assert_true(lli_unpack_is_done(&unpack));
    begin(&unpack, 11, 0, "\1b", 2);
    expect_message(&unpack, 11, "b");
    assert_int_equal(unpack.malformed, 0);
    /* Behind a loss. */
    lli_unpack_break(&unpack);
    begin(&unpack, 13, 0, "\xf3\4\0\2\0\0\0", 7);
    expect_lost(&unpack, 12, 12);
    expect_skipped(&unpack, 13, 14);
    assert_int_equal(unpack.number, 15);
}

static void a_number_that_is_skipped_is_entered_at_its_frame(void **state)
{
    static const uint8_t body[] = "\1a\xf3\4\0\3\0\0";
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA, .number = 7};
    uint8_t packet[LLI_WIRE_DATA_HEADER + sizeof body];
    struct lli_wire_header whole = header;
    struct lli_unpack unpack;

    (void)state;
    for (uint64_t number = 8; number < 11; number++) {
        unpack_make(&unpack, 0);
        assert_true(lli_unpack_enter(&unpack, &header, body, sizeof body, number));
        assert_int_equal(unpack.number, 7);
    }
    unpack_make(&unpack, 0);
    assert_false(lli_unpack_enter(&unpack, &header, body, sizeof body, 11));
    whole.size = sizeof packet;
    lli_wire_put_header(packet, &whole);
    memcpy(packet + LLI_WIRE_DATA_HEADER, body, sizeof body);
    assert_int_equal(lli_unpack_count(packet, sizeof packet), 4);
}

static void the_lost_packets_bound_the_lost_messages(void **state)
{
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 7);
    lli_unpack_break(&unpack);
    lli_unpack_allow(&unpack, 2, UINT64_MAX);
    begin(&unpack, 8 + 3 * (uint32_t)LLI_UNPACK_PACKET_MESSAGES, 0, "\1a", 2);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    assert_int_equal(unpack.malformed, 1);
    begin(&unpack, 8 + 3 * (uint32_t)LLI_UNPACK_PACKET_MESSAGES, 0, "\1a", 2);
    expect_lost(&unpack, 7, 7 + 3 * LLI_UNPACK_PACKET_MESSAGES);
    expect_message(&unpack, 8 + 3 * LLI_UNPACK_PACKET_MESSAGES, "a");
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
}

/* The bound applies to one packet: its replacement after a skip is not covered by a heartbeat. */
static void heartbeats_bound_the_lost_messages(void **state)
{
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 7);
    lli_unpack_break(&unpack);
    lli_unpack_allow(&unpack, 2, 9);
    begin(&unpack, 10, 0, "\1a", 2);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    assert_int_equal(unpack.malformed, 1);
    begin(&unpack, 10, 0, "\1b", 2);
    expect_lost(&unpack, 7, 9);
    expect_message(&unpack, 10, "b");
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
}

static void a_bad_frame_loses_only_the_rest_of_its_packet(void **state)
{
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 7);
    begin(&unpack, 7, 0, "\1a\xe3\1b", 5);
    expect_message(&unpack, 7, "a");
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    assert_int_equal(unpack.malformed, 1);
    begin(&unpack, 8, 0, "\1c", 2);
    expect_lost(&unpack, 8, 7);
    expect_message(&unpack, 8, "c");
}

static void a_message_of_another_length_than_announced_is_lost(void **state)
{
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 0);
    begin(&unpack, 0, 0, "\5ab", 3);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    begin(&unpack, 1, 2, "cd\1e", 4);
    expect_lost(&unpack, 0, 0);
    expect_message(&unpack, 1, "e");
}

static void a_message_longer_than_the_buffer_is_reported_at_its_end(void **state)
{
    static uint8_t bytes[BUFFER - 1];
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 0);
    begin(&unpack, 0, 0,
          "\xe1\x01\x10\0\0"
          "a",
          6);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    begin(&unpack, 1, sizeof bytes, bytes, sizeof bytes);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    begin(&unpack, 1, 1, "z\1b", 3);
    expect(&unpack, LLI_UNPACK_TOO_LONG, 0, NULL);
    expect_message(&unpack, 1, "b");
}

static void padding_and_unknown_frames_are_skipped(void **state)
{
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 0);
    begin(&unpack, 0, 0, "\xe0\xf5\2\0xy\1a\xe0\xe0", 10);
    expect_message(&unpack, 0, "a");
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
}

static void a_loss_at_the_end_is_reported_once_on_request(void **state)
{
    struct lli_unpacked out;
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 5);
    assert_false(lli_unpack_lost_before(&unpack, 8, &out));
    lli_unpack_break(&unpack);
    assert_true(lli_unpack_lost_before(&unpack, 8, &out));
    assert_int_equal(out.number, 5);
    assert_int_equal(out.last, 7);
    assert_false(lli_unpack_lost_before(&unpack, 8, &out));
    assert_int_equal(unpack.number, 8);
}

static void an_exhausted_packet_does_not_affect_later_losses(void **state)
{
    struct llm_message messages[4];
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 7);
    begin(&unpack, 7, 0, "\1a", 2);
    assert_int_equal(next_messages(&unpack, messages, 4), 1);
    assert_true(lli_unpack_is_done(&unpack));
    lli_unpack_break(&unpack);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    assert_int_equal(unpack.malformed, 0);
    begin(&unpack, 9, 0, "\1b", 2);
    expect_lost(&unpack, 8, 8);
    expect_message(&unpack, 9, "b");
}

static void a_topic_frame_applies_to_the_end_of_its_packet(void **state)
{
    struct llm_message messages[4];
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 0);
    begin(&unpack, 0, 0, "\1a\xc0\5\1b\1c", 8);
    assert_int_equal(next_messages(&unpack, messages, 4), 1);
    assert_int_equal(messages[0].topic_id, 0);
    assert_int_equal(next_messages(&unpack, messages, 4), 2);
    assert_int_equal(messages[0].topic_id, 5);
    assert_int_equal(messages[1].topic_id, 5);
    assert_int_equal(messages[1].number, 2);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    begin(&unpack, 3, 0, "\1d", 2);
    assert_int_equal(next_messages(&unpack, messages, 4), 1);
    assert_int_equal(messages[0].topic_id, 0);
}

static void one_call_ends_a_message_and_begins_the_next_message(void **state)
{
    struct llm_message messages[4];
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 0);
    begin(&unpack, 0, 0, "\5ab", 3);
    assert_int_equal(next_messages(&unpack, messages, 4), 0);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    begin(&unpack, 1, 3, "cde\1x\4yz", 8);
    assert_int_equal(next_messages(&unpack, messages, 4), 2);
    assert_int_equal(messages[0].number, 0);
    assert_int_equal(messages[1].number, 1);
    assert_true(unpack.assembling);
    assert_int_equal(unpack.have, 2);
    assert_int_equal(messages[0].size, 5);
    assert_memory_equal(messages[0].data, "abcde", 5);
    assert_memory_equal(messages[1].data, "x", 1);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    begin(&unpack, 3, 2, "wv\1q", 4);
    expect_message(&unpack, 2, "yzwv");
    expect_message(&unpack, 3, "q");
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
}

static void messages_too_large_for_one_buffer_are_returned_in_turns(void **state)
{
    enum { SIZE = BUFFER - 10 };
    static const uint8_t head[] = {LLI_FRAME_MEDIUM | SIZE >> 8, SIZE & 0xff, 'a'};
    static uint8_t bytes[SIZE - 1 + sizeof head];
    struct llm_message messages[4];
    struct lli_unpack unpack;

    (void)state;
    memset(bytes, 'a', SIZE - 1);
    memcpy(bytes + SIZE - 1, head, sizeof head);
    unpack_make(&unpack, 0);
    begin(&unpack, 0, 0, head, sizeof head);
    assert_int_equal(next_messages(&unpack, messages, 4), 0);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    for (uint64_t number = 0; number < 2; number++) {
        begin(&unpack, (uint32_t)number + 1, SIZE - 1, bytes, number == 0 ? sizeof bytes : SIZE - 1);
        assert_int_equal(next_messages(&unpack, messages, 4), 1);
        assert_int_equal(messages[0].number, number);
        assert_int_equal(messages[0].size, SIZE);
        for (uint32_t i = 0; i < SIZE; i++)
            assert_int_equal(((const uint8_t *)messages[0].data)[i], 'a');
        assert_false(unpack.assembling);
        expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
        assert_int_equal(unpack.assembling, number == 0);
    }
}

static void a_message_of_another_topic_is_returned_separately(void **state)
{
    struct llm_message messages[4];
    struct lli_unpack unpack;

    (void)state;
    unpack_make(&unpack, 0);
    begin(&unpack, 0, 0, "\xc0\5\3a", 4);
    assert_int_equal(next_messages(&unpack, messages, 4), 0);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    begin(&unpack, 1, 2, "bc\1x\xc0\5\2y", 8);
    assert_int_equal(next_messages(&unpack, messages, 4), 1);
    assert_int_equal(messages[0].topic_id, 5);
    assert_int_equal(next_messages(&unpack, messages + 1, 3), 1);
    assert_int_equal(messages[1].topic_id, 0);
    assert_int_equal(next_messages(&unpack, messages + 2, 2), 0);
    assert_memory_equal(messages[0].data, "abc", 3);
    expect(&unpack, LLI_UNPACK_NONE, 0, NULL);
    begin(&unpack, 3, 1, "z", 1);
    assert_int_equal(next_messages(&unpack, messages, 4), 1);
    assert_int_equal(messages[0].topic_id, 5);
    assert_memory_equal(messages[0].data, "yz", 2);
}

/* --------------------------------------------------------------------------------- packing against a list */

enum { MESSAGES = 600, STREAM_PACKETS = 8192 };

struct sent {
    uint32_t topic;
    uint32_t size;
    bool is_announcement;
    lli_seq first; /* packet with the header */
    lli_seq last;  /* packet with the last byte */
};

struct stream {
    struct lli_history history;
    struct lli_pack pack;
    uint8_t *memory;
    uint64_t start_number;
    uint32_t messages;
    struct sent sent[MESSAGES];
    bool dropped[STREAM_PACKETS];
    uint64_t random;
};

static void stream_make(struct stream *stream, uint64_t seed, lli_seq start, uint64_t number)
{
    struct lli_history_config config = {
        .packets = STREAM_PACKETS, .align = 64, .headroom = 0, .start = start};
    struct lli_arena arena = {.memory = NULL};

    memset(stream, 0, sizeof *stream);
    stream->random = seed;
    config.packet_max = 300 + below(&stream->random, seed % 3 == 0 ? 1200 : 20);
    config.bytes = (uint64_t)STREAM_PACKETS * lli_round_up(config.packet_max, 64);
    lli_history_init(&stream->history, &config, &arena);
    arena_fill(&arena);
    stream->memory = arena.memory;
    lli_history_init(&stream->history, &config, &arena);
    lli_pack_init(&stream->pack, &stream->history, 1);
    stream->pack.number = stream->start_number = number;
}

static uint32_t stream_size(struct stream *stream)
{
    switch (below(&stream->random, 8)) {
    case 0:
        return below(&stream->random, BUFFER + 1);
    case 1:
        /* Sizes that nearly fill the packet. */
        return stream->pack.packet == NULL
                   ? stream->history.packet_max - LLI_WIRE_DATA_HEADER - below(&stream->random, 14)
                   : (uint32_t)lli_max((uint64_t)(stream->pack.end - stream->pack.at), 12) -
                         below(&stream->random, 12);
    case 2:
        return 120 + below(&stream->random, 20);
    default:
        return below(&stream->random, 60);
    }
}

static void stream_message(struct stream *stream, struct sent *sent)
{
    static uint8_t bytes[2 * BUFFER];
    const struct lli_pack_topic topic = {.id = sent->topic, .whole = sent->topic % 2};
    uint64_t number = stream->pack.number;
    uint32_t cut = below(&stream->random, sent->size + 1);
    const struct iovec pieces[] = {{bytes, cut}, {NULL, 0}, {bytes + cut, sent->size - cut}};

    pattern_fill(bytes, sent->size, number);
    assert_true(lli_pack_message(&stream->pack, &topic, pieces, sent->size, 0 + stream->history.trail));
}

static void stream_claim(struct stream *stream, struct sent *sent)
{
    const struct lli_pack_topic topic = {.id = sent->topic};
    uint32_t claimed =
        (uint32_t)lli_min(sent->size + below(&stream->random, 200), lli_pack_whole_max(&stream->pack));
    uint8_t *data = lli_pack_claim(&stream->pack, &topic, claimed, stream->history.trail);

    assert_non_null(data);
    sent->size = (uint32_t)lli_min(sent->size, claimed);
    if (chance(&stream->random, 20)) {
        lli_pack_abort(&stream->pack);
        data = lli_pack_claim(&stream->pack, &topic, claimed, stream->history.trail);
    }
    pattern_fill(data, sent->size, stream->pack.number);
    lli_pack_commit(&stream->pack, sent->size);
}

/* Records a sent message. The packet with its last byte is still open, unless it was full. */
static void stream_note(struct stream *stream, struct sent *sent, lli_seq before)
{
    uint32_t header = LLI_WIRE_DATA_HEADER;

    sent->last = stream->history.next;
    sent->first = before;
    /* It began in a new packet if the previous one was sealed without any of its bytes. */
    for (lli_seq seq = before; seq < stream->history.next; seq++) {
        const uint8_t *packet = lli_history_packet(&stream->history, seq);
        uint32_t numbered = lli_load_u32(packet + 12);
        uint32_t starts = 0;
        const uint8_t *at = packet + header + lli_load_u16(packet + LLI_WIRE_HEADER);
        const uint8_t *end = packet + lli_history_slot(&stream->history, seq)->size;
        struct lli_frame frame;

        while (at < end) {
            at = lli_frame_get(at, end, &frame);
            starts += frame.kind == LLI_FRAME_MESSAGE;
            if (frame.kind == LLI_FRAME_MESSAGE)
                at += lli_min(frame.value, (uint64_t)(end - at));
        }
        if (numbered + starts > (uint32_t)(stream->pack.number - 1) ||
            numbered + starts == (uint32_t)stream->pack.number)
            break;
        sent->first = seq + 1;
    }
}

static void stream_send(struct stream *stream)
{
    static const uint32_t topics[] = {0, 1, 2, 3, 8191, 8192, 100001};

    while (stream->messages < MESSAGES) {
        struct sent *sent = &stream->sent[stream->messages];
        lli_seq before = stream->history.next;

        sent->topic = topics[below(&stream->random, 7)];
        sent->size = (uint32_t)lli_min(stream_size(stream), BUFFER);
        if (chance(&stream->random, 4))
            assert_true(lli_pack_announce(&stream->pack, 7, "seven", 5, stream->history.trail));
        before = stream->history.next;
        if (chance(&stream->random, 25))
            stream_claim(stream, sent);
        else
            stream_message(stream, sent);
        stream_note(stream, sent, before);
        stream->messages++;
        if (chance(&stream->random, 20))
            lli_pack_flush(&stream->pack);
    }
    lli_pack_flush(&stream->pack);
}

/* Messages and losses returned so far. */
struct told {
    uint64_t next;
    uint64_t delivered;
    uint64_t lost;
};

static bool stream_is_whole(const struct stream *stream, uint64_t number)
{
    const struct sent *sent = &stream->sent[number - stream->start_number];

    for (lli_seq seq = sent->first; seq <= sent->last; seq++)
        if (stream->dropped[seq & (STREAM_PACKETS - 1)])
            return false;
    return true;
}

static void told_lost(const struct stream *stream, struct told *told, const struct lli_unpacked *out)
{
    assert_int_equal(out->number, told->next);
    assert_true(out->last + 1 >= out->number);
    for (; told->next <= out->last; told->next++, told->lost++)
        if (stream_is_whole(stream, told->next))
            fail_msg("message %llu was said to be lost", (unsigned long long)told->next);
}

static void told_message(const struct stream *stream, struct told *told, const struct llm_message *message)
{
    const struct sent *sent = &stream->sent[told->next - stream->start_number];

    assert_int_equal(message->number, told->next);
    assert_true(stream_is_whole(stream, told->next));
    assert_int_equal(message->topic_id, sent->topic);
    assert_int_equal(message->size, sent->size);
    pattern_check(message->data, message->size, message->number);
    told->next++;
    told->delivered++;
}

static void stream_packet(const struct stream *stream, struct lli_unpack *unpack, lli_seq seq,
                          struct told *told)
{
    uint32_t size = lli_history_slot(&stream->history, seq)->size;
    uint8_t *copy = exact_copy(lli_history_packet(&stream->history, seq), size);
    struct lli_wire_header header;
    struct lli_unpacked out;
    const uint8_t *body;
    size_t body_size;

    assert_int_equal(lli_wire_get_header(copy, size, &header, &body, &body_size), LLI_WIRE_OK);
    assert_int_equal(header.seq, (uint32_t)seq);
    lli_unpack_begin(unpack, &header, body, body_size);
    do {
        struct llm_message messages[3];
        int count;

        while ((count = next_messages(unpack, messages, 3)) > 0)
            for (int i = 0; i < count; i++)
                told_message(stream, told, &messages[i]);
        lli_unpack_next(unpack, &out);
        assert_int_not_equal(out.kind, LLI_UNPACK_TOO_LONG);
        if (out.kind == LLI_UNPACK_LOST)
            told_lost(stream, told, &out);
        else if (out.kind == LLI_UNPACK_ANNOUNCE)
            assert_memory_equal(out.data, "seven", 5);
    } while (out.kind != LLI_UNPACK_NONE);
    free(copy);
}

static struct told stream_receive(struct stream *stream, uint32_t drop_percent)
{
    struct told told = {.next = stream->start_number};
    struct lli_unpack unpack;
    struct lli_unpacked out;

    for (lli_seq seq = stream->history.trail; seq < stream->history.next; seq++)
        stream->dropped[seq & (STREAM_PACKETS - 1)] = chance(&stream->random, drop_percent);
    unpack_make(&unpack, stream->start_number);
    for (lli_seq seq = stream->history.trail; seq < stream->history.next; seq++) {
        if (stream->dropped[seq & (STREAM_PACKETS - 1)])
            lli_unpack_break(&unpack);
        else
            stream_packet(stream, &unpack, seq, &told);
        if (unpack.broken && unpack.number < told.next)
            fail_msg("message %llu is counted as lost and was delivered", (unsigned long long)unpack.number);
    }
    if (lli_unpack_lost_before(&unpack, stream->pack.number, &out))
        told_lost(stream, &told, &out);
    assert_int_equal(told.next, stream->start_number + stream->messages);
    assert_int_equal(told.delivered + told.lost, stream->messages);
    assert_int_equal(unpack.malformed, 0);
    return told;
}

static void random_streams_are_unpacked_unchanged(void **state)
{
    static struct stream stream;
    const uint64_t numbers[] = {0, ((uint64_t)1 << 32) - 300, ((uint64_t)1 << 33) - 300};

    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        stream_make(&stream, seed, BEFORE_WRAP_32, numbers[seed % 3]);
        stream_send(&stream);
        assert_int_equal(stream_receive(&stream, 0).lost, 0);
        free(stream.memory);
    }
}

static void dropped_packets_lose_exactly_the_messages_in_them(void **state)
{
    static struct stream stream;
    const uint64_t numbers[] = {0, ((uint64_t)1 << 32) - 300, ((uint64_t)1 << 33) - 300};
    uint64_t lost = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        stream_make(&stream, seed, seed % 2 ? BEFORE_WRAP_32 : BEFORE_WRAP_33, numbers[seed % 3]);
        stream_send(&stream);
        lost += stream_receive(&stream, 1 + (uint32_t)seed % 40).lost;
        free(stream.memory);
    }
    assert_true(lost > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_with_a_wrong_message_number_is_counted_and_skipped),
        cmocka_unit_test(skipped_numbers_are_reported_and_the_next_packet_goes_on_after_them),
        cmocka_unit_test(a_number_that_is_skipped_is_entered_at_its_frame),
        cmocka_unit_test(the_lost_packets_bound_the_lost_messages),
        cmocka_unit_test(heartbeats_bound_the_lost_messages),
        cmocka_unit_test(a_bad_frame_loses_only_the_rest_of_its_packet),
        cmocka_unit_test(a_message_of_another_length_than_announced_is_lost),
        cmocka_unit_test(a_message_longer_than_the_buffer_is_reported_at_its_end),
        cmocka_unit_test(padding_and_unknown_frames_are_skipped),
        cmocka_unit_test(a_loss_at_the_end_is_reported_once_on_request),
        cmocka_unit_test(an_exhausted_packet_does_not_affect_later_losses),
        cmocka_unit_test(a_topic_frame_applies_to_the_end_of_its_packet),
        cmocka_unit_test(one_call_ends_a_message_and_begins_the_next_message),
        cmocka_unit_test(messages_too_large_for_one_buffer_are_returned_in_turns),
        cmocka_unit_test(a_message_of_another_topic_is_returned_separately),
        cmocka_unit_test(random_streams_are_unpacked_unchanged),
        cmocka_unit_test(dropped_packets_lose_exactly_the_messages_in_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
