/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of shared memory: laps, both rings, restarts of the writer, wake-ups, places, unicasts. */
#define _GNU_SOURCE
#include "shm_test.h"

#include <string.h>

/* --------------------------------------------------------------------------------------- order of opening */

static void a_reader_may_open_before_its_writer(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader;

    (void)state;
    open_reader(&reader, &options);
    station_expect_nothing(&reader);
    open_writer(&writer, &options);
    station_send(&writer, writer.send, "first", 5);
    station_expect(&reader, reader.receive, "first", 5);
    assert_int_equal(station_counter(&reader, "shm_segments"), 1);
    station_close(&writer);
    station_close(&reader);
}

static void late_readers_receive_only_new_packets(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader;

    (void)state;
    open_writer(&writer, &options);
    for (int i = 0; i < 3; i++)
        station_send(&writer, writer.send, "early", 5);
    open_reader(&reader, &options);
    station_send(&writer, writer.send, "later", 5);
    station_expect(&reader, reader.receive, "later", 5);
    station_expect_nothing(&reader);
    station_close(&writer);
    station_close(&reader);
}

/* The segment of the previous writer is read to its end and then released. */
static void readers_follow_a_restarted_writer(void **state)
{
    const struct llm_options options = small_options();
    struct audit audit = {.writer = 0};
    struct station reader;
    struct feed feed;

    (void)state;
    open_reader(&reader, &options);
    for (uint64_t i = 1; i <= 5; i++) {
        feed_open(&feed, &options, i);
        station_look(&reader);
        assert_int_equal(shm_of(&reader)->in.count, i == 1 ? 1 : 2);
        audit_all(&audit, &reader);
        assert_int_equal(audit.got, (i - 1) * 40);
        station_look(&reader);
        assert_int_equal(shm_of(&reader)->in.count, 1);
        for (uint32_t j = 0; j < 20; j++) {
            feed_history(&feed, 500);
            feed_plain(&feed, j % 2 == 0 ? 100 : 1000);
        }
        feed_close(&feed);
    }
    audit_all(&audit, &reader);
    audit_fine(&audit);
    assert_int_equal(audit.got, 5 * 40);
    station_look(&reader);
    assert_int_equal(shm_of(&reader)->in.count, 0);
    assert_int_equal(station_counter(&reader, "shm_segments"), 5);
    station_close(&reader);
}

/* A datagram announces a new segment; without it an empty poll would have to read the directory. */
static void a_new_writer_notifies_readers_by_their_sockets(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader;
    int fd;

    (void)state;
    open_reader(&reader, &options);
    fd = transport->arm(reader.instance);
    assert_false(readable(fd, 0));
    open_writer(&writer, &options);
    assert_true(readable(fd, 0));
    assert_int_equal(transport->receive(reader.instance, NULL, 0), 0);
    transport->arm(reader.instance);
    assert_int_equal(transport->receive(reader.instance, NULL, 0), 0);
    assert_int_equal(shm_of(&reader)->in.count, 1);
    station_close(&writer);
    station_close(&reader);
}

/* ---------------------------------------------------------------------------------------- history, copies */

/* Many laps, with a reader that lags by less than the ring, and repairs of packets at random positions. */
static void packets_in_the_history_are_read_in_place(void **state)
{
    enum { ROUNDS = 4000, BEHIND = 20 };
    struct llm_options options = small_options();
    struct station reader;
    struct feed feed;
    struct lli_in packets[BURST];
    uint64_t seed = 1, writer, number, expected[64];
    int count;

    (void)state;
    options.history_packets = 256;
    feed_open(&feed, &options, 7);
    open_reader(&reader, &options);
    for (int round = 0; round < ROUNDS; round++) {
        int sent = 0;

        for (int i = 0; i < BEHIND; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            expected[sent++] = feed.sent;
            feed_history(&feed, 105 + (uint32_t)(seed >> 33) % 1896);
        }
        /* The oldest, the newest, and one between. */
        for (int i = 0; i < 3; i++) {
            const struct lli_history *history = &feed.history;
            const lli_seq again = i == 0   ? history->trail
                                  : i == 1 ? history->next - 1
                                           : history->trail + (seed >> 33) % (history->next - history->trail);

            expected[sent++] = again - 1;
            feed_packet(&feed, lli_history_packet(history, again), lli_history_slot(history, again)->size);
        }
        for (int got = 0; got < sent; got += count) {
            count = transport->receive(reader.instance, packets, BURST);
            assert_true(count > 0);
            for (int i = 0; i < count; i++) {
                assert_true(packet_read(packets[i].data, packets[i].size, &writer, &number));
                assert_int_equal(number, expected[got + i]);
            }
            transport->release(reader.instance, packets, count);
        }
    }
    assert_true(feed.history.lap > 500 * feed.history.bytes_size);
    assert_int_equal(station_counter(&reader, "shm_overwritten"), 0);
    assert_int_equal(shm_of(&feed.station)->out.senders[0].copies_head, 0);
    feed_close(&feed);
    station_close(&reader);
}

/* A ring holds this many packets: a reader with a larger lag loses the oldest packets, and no other. */
static void expect_held(struct feed *feed, struct station *reader, void (*send)(struct feed *, uint32_t),
                        uint32_t size, int held)
{
    for (int ahead = -1; ahead <= 2; ahead++) {
        struct audit audit = {.writer = 1, .next = feed->sent};
        const uint64_t before = station_counter(reader, "shm_overwritten");
        const uint64_t lost = ahead > 0 ? (uint64_t)ahead : 0;

        for (int i = 0; i < held + ahead; i++)
            send(feed, size);
        audit_all(&audit, reader);
        audit_fine(&audit);
        assert_int_equal(audit.skipped, lost);
        assert_int_equal(audit.got, (uint64_t)(held + ahead) - lost);
        assert_int_equal(station_counter(reader, "shm_overwritten") - before, lost);
    }
}

/*
 * The ring holds this many packets: a reader that comes after one more was begun loses the oldest, and no
 * other.
 */
static void packets_in_the_history_are_readable_until_overwritten(void **state)
{
    enum { STRIDE = 2048, HELD = HISTORY_BYTES / STRIDE };
    struct llm_options options = small_options();
    struct station reader;
    struct feed feed;

    (void)state;
    options.mtu = STRIDE;
    feed_open(&feed, &options, 1);
    open_reader(&reader, &options);
    expect_held(&feed, &reader, feed_history, STRIDE, HELD);
    /* A packet counts from its beginning. */
    for (int i = 0; i < HELD; i++)
        feed_history(&feed, STRIDE);
    (void)lli_history_open(&feed.history, feed.history.next);
    struct audit audit = {.writer = 1, .next = feed.sent - HELD};
    audit_all(&audit, &reader);
    assert_int_equal(audit.got, HELD - 1);
    /* A repaired packet stays the oldest. */
    feed_packet(&feed, lli_history_packet(&feed.history, feed.history.trail), STRIDE);
    lli_history_seal(&feed.history, STRIDE);
    (void)lli_history_open(&feed.history, feed.history.next);
    audit = (struct audit){.writer = 1};
    audit_all(&audit, &reader);
    assert_int_equal(audit.got, 0);
    feed_close(&feed);
    station_close(&reader);
}

/* The same for packets copied into the segment. */
static void copied_packets_are_readable_until_overwritten(void **state)
{
    enum { SIZE = 1024, HELD = LLI_SHM_COPIES };
    struct llm_options options = small_options();
    struct station reader;
    struct feed feed;

    (void)state;
    options.mtu = SIZE;
    options.history_packets = 256;
    feed_open(&feed, &options, 1);
    open_reader(&reader, &options);
    expect_held(&feed, &reader, feed_plain, SIZE, HELD);
    feed_close(&feed);
    station_close(&reader);
}

static void copied_packets_of_any_size_are_contiguous(void **state)
{
    const struct llm_options options = small_options();
    struct audit audit = {.writer = 1};
    struct station reader;
    struct feed feed;

    (void)state;
    feed_open(&feed, &options, 1);
    open_reader(&reader, &options);
    for (uint32_t size = PACKET_MIN; size <= 2000; size++) {
        feed_plain(&feed, size);
        audit_all(&audit, &reader);
    }
    audit_fine(&audit);
    assert_int_equal(audit.got, feed.sent);
    assert_true(shm_of(&feed.station)->out.senders[0].copies_lap > 10 * 64 * 2000);
    feed_close(&feed);
    station_close(&reader);
}

/* --------------------------------------------------------------------------------------------------- laps */

/* A reader that was lapped continues in the middle of the ring, and counts the packets that it missed. */
static void lapped_packets_are_counted(void **state)
{
    enum { ENTRIES = 64 };
    const struct llm_options options = small_options();
    struct station reader;
    struct feed feed;

    (void)state;
    feed_open(&feed, &options, 1);
    open_reader(&reader, &options);
    for (uint64_t sent = ENTRIES - 1; sent < 5 * ENTRIES; sent++) {
        struct audit audit = {.writer = 1, .next = feed.sent};
        const uint64_t before = station_counter(&reader, "shm_lapped");
        const uint64_t lost = sent > ENTRIES ? sent - ENTRIES / 2 : 0;

        for (uint64_t i = 0; i < sent; i++)
            feed_plain(&feed, 64);
        /* The call that detects the lap returns no packet. */
        (void)audit_take(&audit, &reader);
        audit_all(&audit, &reader);
        audit_fine(&audit);
        assert_int_equal(audit.got, sent - lost);
        assert_int_equal(audit.skipped, lost);
        assert_int_equal(station_counter(&reader, "shm_lapped") - before, lost);
    }
    feed_close(&feed);
    station_close(&reader);
}

/* A run of packets longer than the ring, which the writer did not finish. */
static void an_unfinished_run_longer_than_the_ring_is_read(void **state)
{
    const struct llm_options options = small_options();
    struct lli_shm_sender *sender;
    struct audit audit = {.writer = 1};
    struct station reader;
    struct feed feed;

    (void)state;
    feed_open(&feed, &options, 1);
    open_reader(&reader, &options);
    sender = &shm_of(&feed.station)->out.senders[feed.station.send];
    for (int i = 0; i < 100; i++)
        feed_plain(&feed, 64);
    atomic_store(&sender->segment.header->head, 0);
    for (int i = 0; i < 5; i++) /* a call that detects a lap returns no packet */
        (void)audit_take(&audit, &reader);
    audit_fine(&audit);
    assert_in_range(audit.got, 32, 64);
    assert_int_equal(audit.next, 100);
    feed_close(&feed);
    station_close(&reader);
}

/*
 * The writer died while overwriting the entry that a reader one lap late would read next: the rest of the lap
 * is readable.
 */
static void packets_of_a_writer_killed_in_an_entry_are_read_to_the_end(void **state)
{
    enum { ENTRIES = 64 };
    const struct llm_options options = small_options();
    struct audit audit = {.writer = 1};
    struct station reader;
    struct feed feed;
    struct lli_shm_segment *segment;

    (void)state;
    feed_open(&feed, &options, 1);
    open_reader(&reader, &options);
    for (int i = 0; i < 10 + ENTRIES; i++) {
        feed_plain(&feed, 64);
        if (i < 10)
            audit_all(&audit, &reader);
    }
    segment = segment_of(&feed.station);
    atomic_store(&segment->entries[10].number, 0);
    atomic_store(&segment->header->head, 10);
    assert_int_equal(audit_take(&audit, &reader), 0);
    station_look(&reader);
    assert_int_equal(audit_take(&audit, &reader), 0);
    feed_close(&feed);
    station_look(&reader);
    audit_all(&audit, &reader);
    audit_fine(&audit);
    assert_int_equal(audit.got, 10 + ENTRIES - 1);
    assert_int_equal(audit.next, 10 + ENTRIES);
    assert_int_equal(station_counter(&reader, "shm_lapped"), 1);
    station_look(&reader);
    assert_int_equal(shm_of(&reader)->in.count, 0);
    station_close(&reader);
}

/* A writer that sends without pause packets of one size to one of three places. */
struct flood {
    _Atomic uint64_t stop;
    _Atomic uint64_t sent;
    struct llm_options options;
    int (*put)(struct feed *feed, uint64_t number);
};

static int put_here(struct feed *feed, uint64_t number)
{
    feed_plain(feed, PACKET_MIN + (uint32_t)(number % (LLI_SHM_INLINE - PACKET_MIN + 1)));
    return 0;
}

static int put_copied(struct feed *feed, uint64_t number)
{
    feed_plain(feed, 105 + (uint32_t)(number * 7919 % 1890));
    return 0;
}

static int put_history(struct feed *feed, uint64_t number)
{
    feed_history(feed, 105 + (uint32_t)(number * 7919 % 1890));
    return 0;
}

static int put_all(struct feed *feed, uint64_t number)
{
    return number % 3 == 0   ? put_here(feed, number)
           : number % 3 == 1 ? put_copied(feed, number)
                             : put_history(feed, number);
}

static int flood(void *arg)
{
    static struct feed feed;
    struct flood *flood = arg;

    feed_open(&feed, &flood->options, 1);
    while (!atomic_load_explicit(&flood->stop, memory_order_relaxed)) {
        (void)flood->put(&feed, feed.sent);
        atomic_store_explicit(&flood->sent, feed.sent, memory_order_release);
    }
    feed_close(&feed);
    return 0;
}

/* Rings of minimum size, so that the writer is always close behind the reader. */
static void lapped_readers_get_whole_packets_only(void **state)
{
    enum { PACKETS = 200000 };
    int (*const puts[])(struct feed *, uint64_t) = {put_here, put_copied, put_history, put_all};
    struct flood *shared = shared_memory(sizeof *shared);

    (void)state;
    for (size_t i = 0; i < sizeof puts / sizeof puts[0]; i++) {
        struct audit audit = {.writer = 0};
        struct station reader;
        pid_t pid;

        *shared = (struct flood){.options = small_options(), .put = puts[i]};
        shared->options.history_bytes = 16 * 2000;
        open_reader(&reader, &shared->options);
        pid = process_start(flood, shared);
        while (audit.next < PACKETS)
            (void)audit_take(&audit, &reader);
        atomic_store(&shared->stop, 1);
        assert_int_equal(process_end(pid), 0);
        /* In one go: a reader that was lapped finds its position first. */
        for (int idle = 0; idle < 3; idle++)
            audit_all(&audit, &reader);
        audit_fine(&audit);
        assert_int_equal(audit.next, shared->sent);
        assert_int_equal(audit.skipped, station_counter(&reader, "shm_lapped") +
                                            station_counter(&reader, "shm_overwritten"));
        station_close(&reader);
    }
    shared_free(shared, sizeof *shared);
}

static void the_history_size_bounds_the_packet_size(void **state)
{
    static const uint64_t sizes[][2] = {
        {64 << 10, 9000}, {1 << 20, 9000}, {2 << 20, 16384}, {4 << 20, 32768}, {24 << 20, 32768}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct llm_options options = small_options();
        struct station writer;

        options.mtu = 0;
        options.history_bytes = sizes[i][0];
        open_writer(&writer, &options);
        assert_int_equal(writer.caps.payload_max, sizes[i][1]);
        station_close(&writer);
    }
}

/* --------------------------------------------------------------------------------------------------- main */

int main(void)
{
    const struct CMUnitTest tests[] = {
        shm_test(a_reader_may_open_before_its_writer),
        shm_test(late_readers_receive_only_new_packets),
        shm_test(readers_follow_a_restarted_writer),
        shm_test(a_new_writer_notifies_readers_by_their_sockets),
        shm_test(packets_in_the_history_are_read_in_place),
        shm_test(packets_in_the_history_are_readable_until_overwritten),
        shm_test(copied_packets_are_readable_until_overwritten),
        shm_test(copied_packets_of_any_size_are_contiguous),
        shm_test(the_history_size_bounds_the_packet_size),
        shm_test(lapped_packets_are_counted),
        shm_test(an_unfinished_run_longer_than_the_ring_is_read),
        shm_test(packets_of_a_writer_killed_in_an_entry_are_read_to_the_end),
        shm_test(lapped_readers_get_whole_packets_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
