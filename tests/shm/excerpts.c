/* SPDX-License-Identifier: Apache-2.0 */
/* Readers that copy the outline of a packet first, and then parts of the packet. */
#include "shm_test.h"

#include <string.h>

enum { SIZE = 1800 };

/* Outline of a packet here: its size, and its last bytes. */
struct outline {
    uint32_t size;
    uint8_t end[4];
};

static uint32_t outline_make(const uint8_t *packet, uint32_t size, void *bytes, uint32_t max)
{
    struct outline outline = {.size = size};

    assert_int_equal(max, size / 16);
    memcpy(outline.end, packet + size - sizeof outline.end, sizeof outline.end);
    memcpy(bytes, &outline, sizeof outline);
    return sizeof outline;
}

static uint32_t outline_none(const uint8_t *packet, uint32_t size, void *bytes, uint32_t max)
{
    (void)packet;
    (void)size;
    (void)bytes;
    (void)max;
    return 0;
}

static struct feed feed;
static struct station reader;

/* Opens a writer that makes outlines, and a reader that has asked for them. */
static void pair_open(void)
{
    const struct llm_options options = small_options();

    feed_open(&feed, &options, 7);
    open_reader(&reader, &options);
    transport->excerpts->enable(feed.station.instance, outline_make);
    transport->excerpts->ask(reader.instance);
}

static void pair_close(void)
{
    feed_close(&feed);
    station_close(&reader);
}

static struct lli_in receive_one(const struct station *from)
{
    struct lli_in in;

    assert_int_equal(transport->receive(from->instance, &in, 1), 1);
    return in;
}

static void release_one(const struct station *from, const struct lli_in *in)
{
    transport->release(from->instance, in, 1);
}

/* Receives a packet without an outline, all of which is there. */
static void expect_whole(const struct station *from, uint64_t number)
{
    const struct lli_in in = receive_one(from);
    uint64_t writer, got;

    assert_null(in.outline);
    assert_true(packet_read(in.data, in.size, &writer, &got));
    assert_int_equal(got, number);
    release_one(from, &in);
}

/* Receives a packet with an outline, and fetches all of it. */
static void expect_outlined(const struct station *from, uint64_t number, uint32_t size)
{
    const struct lli_in in = receive_one(from);
    const struct lli_piece whole = {.size = in.size};
    struct outline outline;
    uint64_t writer, got;

    assert_non_null(in.outline);
    assert_int_equal(in.size, size);
    assert_int_equal(in.outline->size, sizeof outline);
    memcpy(&outline, in.outline->bytes, sizeof outline);
    assert_int_equal(outline.size, size);
    assert_true(transport->excerpts->fetch(from->instance, &in, &whole, 1));
    assert_true(packet_read(in.data, in.size, &writer, &got));
    assert_int_equal(got, number);
    assert_memory_equal(in.data + size - sizeof outline.end, outline.end, sizeof outline.end);
    release_one(from, &in);
}

static void pieces_are_copied_one_after_the_other(void **state)
{
    static const struct lli_piece pieces[] = {
        {.at = 0, .size = 100}, {.at = 700, .size = 1}, {.at = SIZE - 50, .size = 50}};
    uint8_t expected[SIZE], *to = expected;
    struct lli_in in;

    (void)state;
    pair_open();
    feed_history(&feed, SIZE);
    packet_write(feed.scratch, SIZE, 7, 0);
    for (int i = 0; i < 3; i++) {
        memcpy(to, feed.scratch + pieces[i].at, pieces[i].size);
        to += pieces[i].size;
    }
    in = receive_one(&reader);
    assert_non_null(in.outline);
    assert_memory_equal(in.data, feed.scratch, LLI_EXCERPT_HEAD);
    assert_true(transport->excerpts->fetch(reader.instance, &in, pieces, 3));
    assert_memory_equal(in.data, expected, 151);
    release_one(&reader, &in);
    pair_close();
}

/* The first packet of a poll takes another path than the others. */
static void packets_of_a_burst_have_outlines(void **state)
{
    (void)state;
    pair_open();
    for (uint64_t number = 0; number < 2000; number += 4) {
        feed_history(&feed, SIZE);
        feed_history(&feed, 100);
        feed_plain(&feed, SIZE);
        feed_history(&feed, SIZE - (uint32_t)number / 8);
        expect_outlined(&reader, number, SIZE);
        expect_whole(&reader, number + 1);
        expect_whole(&reader, number + 2);
        expect_outlined(&reader, number + 3, SIZE - (uint32_t)number / 8);
    }
    pair_close();
}

/* Outlines cost the writer time: nothing has one that nobody asked for, and a packet may have none. */
static void outlines_are_made_when_a_reader_asks(void **state)
{
    const struct llm_options options = small_options();
    struct station late;

    (void)state;
    feed_open(&feed, &options, 7);
    open_reader(&reader, &options);
    transport->excerpts->enable(reader.instance, outline_make);
    feed_history(&feed, SIZE);
    transport->excerpts->enable(feed.station.instance, outline_make);
    feed_history(&feed, SIZE);
    expect_whole(&reader, 0);
    expect_whole(&reader, 1);
    transport->excerpts->ask(reader.instance);
    feed_history(&feed, SIZE);
    expect_outlined(&reader, 2, SIZE);
    transport->excerpts->enable(feed.station.instance, outline_none);
    feed_history(&feed, SIZE);
    expect_whole(&reader, 3);
    transport->excerpts->enable(feed.station.instance, outline_make);
    /* A reader that does not fetch gets the whole packet. */
    open_reader(&late, &options);
    feed_history(&feed, SIZE);
    expect_whole(&late, 4);
    expect_outlined(&reader, 4, SIZE);
    station_close(&late);
    pair_close();
}

static void a_writer_that_comes_later_is_asked(void **state)
{
    const struct llm_options options = small_options();

    (void)state;
    open_reader(&reader, &options);
    transport->excerpts->enable(reader.instance, outline_make);
    transport->excerpts->ask(reader.instance);
    feed_open(&feed, &options, 7);
    transport->excerpts->enable(feed.station.instance, outline_make);
    station_look(&reader);
    feed_history(&feed, SIZE);
    expect_outlined(&reader, 0, SIZE);
    pair_close();
}

/* The writer laps the history between receive() and fetch(). */
static void a_packet_overwritten_before_it_is_fetched_is_lost(void **state)
{
    const struct lli_piece piece = {.size = SIZE};
    struct lli_in in;

    (void)state;
    pair_open();
    feed_history(&feed, SIZE);
    in = receive_one(&reader);
    assert_non_null(in.outline);
    for (int i = 0; i < HISTORY_BYTES / SIZE + 2; i++)
        feed_history(&feed, SIZE);
    assert_false(transport->excerpts->fetch(reader.instance, &in, &piece, 1));
    assert_int_equal(station_counter(&reader, "shm_overwritten"), 1);
    release_one(&reader, &in);
    pair_close();
}

/* Whatever the fields of an entry say, a packet is read whole, or not at all. */
static void an_outline_out_of_bounds_is_not_read(void **state)
{
    (void)state;
    pair_open();
    for (uint64_t i = 0; i < 6; i++) {
        struct lli_shm_segment *segment = segment_of(&feed.station);
        struct lli_shm_entry *entry = lli_shm_entry_at(segment, shm_of(&feed.station)->out.senders[0].next);

        feed_history(&feed, SIZE);
        if (i == 0)
            entry->ring.outline_size = LLI_OUTLINE_BYTES + 1;
        else if (i == 1)
            entry->ring.outline_size = UINT64_MAX;
        else if (i == 2)
            entry->ring.outline_offset = segment->copies_bytes + 1;
        else if (i == 3)
            entry->ring.outline_offset = UINT64_MAX - 3;
        else if (i == 4)
            entry->ring.outline_offset = segment->copies_bytes - 1;
        else /* overwritten since */
            entry->ring.outline_position -= segment->copies_bytes + 1;
        expect_whole(&reader, i);
    }
    pair_close();
}

/* Outlines take their place in the ring of copies: both are whole, or are noticed to be overwritten. */
static void outlines_and_copies_share_their_ring(void **state)
{
    (void)state;
    pair_open();
    for (uint64_t number = 0; number < 20000; number += 2) {
        feed_plain(&feed, 1001 + (uint32_t)(number % 450) * 2);
        feed_history(&feed, SIZE);
        expect_whole(&reader, number);
        expect_outlined(&reader, number + 1, SIZE);
    }
    assert_true(shm_of(&feed.station)->out.senders[0].copies_lap > 0);
    assert_int_equal(station_counter(&reader, "shm_overwritten"), 0);
    pair_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        shm_test(pieces_are_copied_one_after_the_other),
        shm_test(packets_of_a_burst_have_outlines),
        shm_test(outlines_are_made_when_a_reader_asks),
        shm_test(a_writer_that_comes_later_is_asked),
        shm_test(a_packet_overwritten_before_it_is_fetched_is_lost),
        shm_test(an_outline_out_of_bounds_is_not_read),
        shm_test(outlines_and_copies_share_their_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
