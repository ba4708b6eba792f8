/* SPDX-License-Identifier: Apache-2.0 */
/* Last value caches and their packets, against a model that stores all sent messages. */
#include "unit.h"

#include "core/lvc/store.h"
#include "core/pack/pack.h"

enum { TOPICS = 12, MESSAGES = 600, SIZE = 700, PACKET = 200 };

static struct lli_lvc lvc;
static struct lli_lvc_topic *topics[TOPICS];
static uint8_t *memory;
static struct {
    uint32_t topic;
    uint32_t size;
} sent[MESSAGES];
static uint64_t number;
static uint8_t packet[1024];

static int up(void **state)
{
    struct lli_arena arena = {.memory = NULL};

    (void)state;
    lli_lvc_init(&lvc, TOPICS, &arena);
    arena_fill(&arena);
    memory = arena.memory;
    lli_lvc_init(&lvc, TOPICS, &arena);
    number = 0;
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(memory);
    for (int i = 0; i < TOPICS; i++)
        free(topics[i]);
    memset(topics, 0, sizeof topics);
    return 0;
}

static void add(uint32_t id, uint32_t messages, uint32_t bytes_max)
{
    const uint64_t size = lli_lvc_ring_size(messages, bytes_max);
    struct lli_lvc_topic *topic = calloc(1, sizeof *topic + size);

    *topic = (struct lli_lvc_topic){id, messages, bytes_max, 0, (uint8_t *)(topic + 1)};
    lli_lvc_add(&lvc, topic);
    topics[id] = topic;
}

static void put(uint32_t id, uint32_t size)
{
    uint8_t bytes[SIZE];
    const struct iovec pieces[] = {{bytes, size / 2}, {NULL, 0}, {bytes + size / 2, size - size / 2}};

    pattern_fill(bytes, size, number);
    sent[number].topic = id;
    sent[number].size = size;
    lli_lvc_put(topics[id], number++, NULL, pieces, size);
}

static bool ask(uint64_t receiver, uint64_t before, uint64_t most, struct lli_wire_span span,
                uint64_t packets)
{
    const struct lli_wire_join join = {.number = before,
                                       .value = most,
                                       .wanted = packets,
                                       .count = 1,
                                       .spans = {span},
                                       .address = {1, {(uint8_t)receiver}}};

    return lli_lvc_join(&lvc, receiver, &join, number);
}

static const struct lli_wire_span everything = {{0, 0, 0}, {0, TOPICS, 0}};

/* Reads the next packet as its receiver does, and marks each complete message. */
static struct lli_wire_lvc take(bool given[MESSAGES], uint8_t *assembled, uint32_t *have)
{
    struct lli_wire_lvc built = {.session = 77, .next = number}, kept;
    struct lli_wire_address to;
    struct lli_reader records;
    struct lli_wire_record record;
    const size_t size = lli_lvc_next(&lvc, &built, packet, PACKET, &to);
    uint8_t *copy = exact_copy(packet, size);

    assert_true(size <= PACKET);
    assert_true(lli_wire_get_lvc(copy + LLI_WIRE_HEADER, size - LLI_WIRE_HEADER, 77, &kept, &records));
    while (lli_wire_next_record(&records, &record)) {
        const uint64_t n = record.at.number;
        const uint32_t header = lli_frame_message_size(sent[n].size);

        assert_int_equal(record.at.topic, sent[n].topic);
        *have = record.at.offset == 0 ? 0 : *have;
        assert_int_equal(*have, record.at.offset);
        memcpy(assembled + *have, record.bytes, record.size);
        *have += record.size;
        if (*have < header + sent[n].size)
            continue;
        assert_int_equal(*have, header + sent[n].size);
        pattern_check(assembled + header, sent[n].size, n);
        assert_false(given[n]);
        given[n] = true;
    }
    free(copy);
    return kept;
}

/* Reads all packets of one request; their spans are contiguous. */
static void take_all(bool given[MESSAGES], struct lli_wire_span span)
{
    uint8_t assembled[SIZE + 8];
    struct lli_wire_lvc kept;
    uint32_t have = 0;

    do {
        kept = take(given, assembled, &have);
        assert_memory_equal(&kept.span.from, &span.from, sizeof span.from);
        span.from = kept.span.to;
    } while (kept.left > 0);
    assert_memory_equal(&kept.span.to, &span.to, sizeof span.to);
    assert_int_equal(lvc.waiting, 0);
}

static bool is_among_the_last(uint64_t n, uint64_t before, uint64_t most)
{
    uint64_t newer_there = 0, newer = 0;

    for (uint64_t i = n + 1; i < number; i++) {
        newer += sent[i].topic == sent[n].topic;
        newer_there += sent[i].topic == sent[n].topic && i < before;
    }
    return newer < topics[sent[n].topic]->messages && newer_there < most && n < before;
}

static void the_last_messages_of_each_topic_are_delivered(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t random = seed, before, most;
        const uint32_t size = chance(&random, 50) ? SIZE : 60;
        bool given[MESSAGES] = {false};

        (void)down(state);
        (void)up(state);
        /* Topics are added in any order of their ids. */
        for (uint32_t i = 0; i < TOPICS; i++)
            if (chance(&random, 80))
                add(i * 5 % TOPICS, 1 + below(&random, 6), size);
        while (lvc.count > 0 && number < 300) {
            const uint32_t id = below(&random, TOPICS);

            if (topics[id] != NULL)
                put(id, below(&random, size + 1));
        }
        before = below(&random, 320);
        most = chance(&random, 50) ? 0 : 1 + below(&random, 4);
        assert_true(ask(5, before, most, everything, 1000));
        if (lvc.count > 0)
            take_all(given, everything);
        for (uint64_t n = 0; n < number; n++)
            assert_int_equal(given[n], is_among_the_last(n, before, most == 0 ? UINT64_MAX : most));
    }
}

static void a_span_ends_at_its_requested_end(void **state)
{
    const struct lli_wire_span span = {{4, 1, 0}, {8, 2, 100}};
    bool given[MESSAGES] = {false};
    uint8_t assembled[SIZE + 8];
    uint32_t have = 0;
    struct lli_wire_lvc kept;

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        add(i, 4, SIZE);
    for (uint32_t i = 0; i < 12; i++)
        put(i % 3, i == 8 ? 400 : 10);
    assert_true(ask(5, 100, 0, span, 10));
    do {
        kept = take(given, assembled, &have);
        assert_false(lli_wire_is_before(&span.to, &kept.span.to));
    } while (kept.left > 0);
    for (uint64_t n = 0; n < number; n++)
        assert_int_equal(given[n], n == 4 || n == 7 || n == 10 || n == 2 || n == 5);
    /* The first 100 bytes of message 8. */
    assert_int_equal(have, 100);
}

static void a_message_displaced_in_its_middle_is_skipped(void **state)
{
    bool given[MESSAGES] = {false};
    uint8_t assembled[SIZE + 8];
    struct lli_wire_lvc kept;
    uint32_t have = 0;

    (void)state;
    add(0, 1, SIZE);
    add(1, 1, SIZE);
    put(0, 600);
    put(1, 10);
    assert_true(ask(5, 100, 0, everything, 10));
    kept = take(given, assembled, &have);
    assert_true(have > 0 && have < 600);
    put(0, 20);
    do
        kept = take(given, assembled, &have);
    while (kept.left > 0);
    assert_false(given[0]);
    assert_true(given[1]);
    /* It was sent after the request. */
    assert_false(given[2]);
}

static void receivers_get_at_most_the_requested_packets_in_turns(void **state)
{
    struct lli_wire_lvc kept = {.session = 1};
    struct lli_wire_address to;
    int packets[4] = {0};

    (void)state;
    add(0, 100, 100);
    for (int i = 0; i < 100; i++)
        put(0, 90);
    for (uint64_t receiver = 1; receiver <= 3; receiver++)
        assert_true(ask(receiver, 100, 0, everything, receiver * 2));
    /* The latest request counts. */
    assert_true(ask(3, 100, 0, everything, 3));
    while (lvc.waiting > 0) {
        (void)lli_lvc_next(&lvc, &kept, packet, PACKET, &to);
        packets[to.bytes[0]]++;
        assert_int_equal(kept.receiver, to.bytes[0]);
        assert_true(packets[1] >= packets[2] - 3 && packets[3] >= packets[2] - 3);
    }
    assert_true(packets[1] == 2 && packets[2] == 4 && packets[3] == 3);
}

static void a_request_is_dropped_with_its_place(void **state)
{
    struct lli_wire_lvc kept = {.session = 1};
    struct lli_wire_address to;

    (void)state;
    add(0, 100, 100);
    put(0, 10);
    for (uint64_t receiver = 1; receiver <= 3; receiver++)
        assert_true(ask(receiver, 100, 0, everything, 5));
    lli_lvc_drop(&lvc, 0);
    assert_int_equal(lvc.waiting, 2);
    while (lvc.waiting > 0) {
        (void)lli_lvc_next(&lvc, &kept, packet, PACKET, &to);
        assert_true(to.bytes[0] != 1);
    }
}

static void attributes_stand_before_the_message(void **state)
{
    const struct lli_pack_attributes attributes = {
        .label = 9, .size = 7, .frame = {LLI_FRAME_ATTRIBUTES, 4, 0, 9}};
    const struct iovec piece = {(void *)(uintptr_t) "hi", 2};
    struct lli_wire_lvc kept = {.session = 77, .next = 1};
    struct lli_wire_record record;
    struct lli_wire_address to;
    struct lli_reader records;
    size_t size;

    (void)state;
    add(3, 1, 9);
    lli_lvc_put(topics[3], number++, &attributes, &piece, 2);
    assert_true(ask(5, 1, 0, everything, 1));
    size = lli_lvc_next(&lvc, &kept, packet, PACKET, &to);
    assert_true(lli_wire_get_lvc(packet + LLI_WIRE_HEADER, size - LLI_WIRE_HEADER, 77, &kept, &records));
    assert_true(lli_wire_next_record(&records, &record));
    assert_int_equal(record.size, 10);
    assert_memory_equal(record.bytes, attributes.frame, 7);
    assert_memory_equal(record.bytes + 7, "\2hi", 3);
}

static void the_ring_size_does_not_overflow(void **state)
{
    (void)state;
    assert_true(lli_lvc_ring_size(UINT32_MAX, UINT32_MAX) > (uint64_t)UINT32_MAX * UINT32_MAX);
    assert_true(lli_lvc_ring_size(1, 1) < 40);
    assert_int_equal(lli_lvc_ring_size(10, 100), 10 * lli_lvc_ring_size(1, 100));
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_last_messages_of_each_topic_are_delivered),
        T(a_span_ends_at_its_requested_end),
        T(a_message_displaced_in_its_middle_is_skipped),
        T(receivers_get_at_most_the_requested_packets_in_turns),
        T(a_request_is_dropped_with_its_place),
        T(attributes_stand_before_the_message),
        T(the_ring_size_does_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
