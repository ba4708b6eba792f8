/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the recording of the messages of store_fixture.h. */
#ifndef TESTS_STORE_READING_H
#define TESTS_STORE_READING_H

#include "store_fixture.h"

#include "core/pack/unpack.h"
#include "store/cursor.h"

struct reading {
    uint64_t next; /* message */
    uint64_t gaps;
    uint32_t names;
    bool ended;
};

static inline void read_messages(struct lli_unpack *unpack, struct reading *reading)
{
    static uint8_t expected[32768];
    const struct llm_message like = {.session = session};
    struct llm_message messages[16];
    struct lli_unpacked other;
    uint32_t topic;

    for (;;) {
        const int count =
            lli_unpack_peek(unpack, &topic) ? lli_unpack_messages(unpack, &like, messages, 16) : 0;

        for (int i = 0; i < count; i++) {
            const uint64_t n = reading->next++;

            assert_int_equal(messages[i].number, n);
            assert_int_equal(topic, n % 3);
            assert_int_equal(messages[i].size, message_size(n));
            message_fill(n, expected);
            assert_memory_equal(messages[i].data, expected, messages[i].size);
        }
        if (count > 0)
            continue;
        lli_unpack_next(unpack, &other);
        assert_int_not_equal(other.kind, LLI_UNPACK_LOST);
        if (other.kind == LLI_UNPACK_NONE)
            return;
    }
}

/* Reads the recording of the session: every message is there once, in order. */
static inline struct reading read_all(void)
{
    const struct lli_log log = {.function = log_keep};
    static uint8_t buffer[1 << 20];
    struct lli_catalogue *catalogue;
    struct lli_cursor *cursor;
    struct reading reading = {0};
    const struct lli_block *block;
    struct lli_record record;
    struct lli_unpack unpack;
    int result;

    assert_int_equal(lli_catalogue_open(directory, &log, &catalogue), LLM_OK);
    assert_non_null(lli_catalogue_find(catalogue, session));
    assert_int_equal(lli_cursor_open(catalogue, lli_catalogue_find(catalogue, session), &log, &cursor),
                     LLM_OK);
    lli_unpack_init(&unpack, buffer, sizeof buffer);
    lli_unpack_reset(&unpack, 0);
    while ((result = lli_cursor_next(cursor, &record, &block)) == 1) {
        struct lli_wire_header header;
        const uint8_t *body;
        size_t size;

        reading.gaps += record.kind == LLI_RECORD_GAP;
        reading.names += record.kind == LLI_RECORD_NAME;
        reading.ended |= record.kind == LLI_RECORD_END;
        if (record.kind != LLI_RECORD_PACKET)
            continue;
        assert_int_equal(lli_wire_get_header(record.data, record.size, &header, &body, &size), LLI_WIRE_OK);
        lli_unpack_begin(&unpack, &header, body, size);
        read_messages(&unpack, &reading);
    }
    assert_int_equal(result, 0);
    lli_cursor_close(&cursor);
    lli_catalogue_close(&catalogue);
    return reading;
}

#endif
