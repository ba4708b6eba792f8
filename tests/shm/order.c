/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory order between a writer and a reader, for the thread sanitizer. It identifies memory by address, and
 * a reader maps a writer's files at another one, so the sanitizer would see two memories and no race.
 * Therefore the reader of this test uses the writer's mapping, with the code of every reader.
 *
 * The reader is never lapped and takes one packet at a time: data read before the number is compared, or
 * while it may be overwritten, is copied and then dropped, which the sanitizer cannot know. The reader
 * publishes its position by a release, which orders its reads before the writes over them, but not the
 * writer's writes before its reads: only the writer's own order does that.
 */
#define _GNU_SOURCE
#include "shm_test.h"

#include <pthread.h>
#include <sched.h>

enum { PACKETS = 3000, AHEAD = 16 };

struct reading {
    struct station station;
    _Atomic uint64_t taken;
    uint64_t wrong;
};

static void *read_all(void *arg)
{
    struct reading *reading = arg;
    uint64_t writer, number;
    struct lli_in packet;

    for (uint64_t taken = 0; taken < PACKETS;) {
        if (transport->receive(reading->station.instance, &packet, 1) == 0) {
            sched_yield();
            continue;
        }
        reading->wrong += !packet_read(packet.data, packet.size, &writer, &number) || number != taken;
        transport->release(reading->station.instance, &packet, 1);
        atomic_store_explicit(&reading->taken, ++taken, memory_order_release);
    }
    return NULL;
}

/* Packets in entries, in the history and in the ring of copies. */
static void write_all(struct feed *feed, const struct reading *reading)
{
    static const uint32_t sizes[] = {PACKET_MIN, LLI_SHM_INLINE, LLI_SHM_INLINE + 1, 1900};

    for (uint64_t sent = 0; sent < PACKETS; sent++) {
        const uint32_t size = sizes[sent % 4];

        while (atomic_load_explicit(&reading->taken, memory_order_acquire) + AHEAD < sent)
            sched_yield();
        if (sent / 4 % 2 == 0)
            feed_history(feed, size);
        else
            feed_plain(feed, size);
    }
}

static void a_reader_sees_packets_only_after_they_are_written(void **state)
{
    static struct feed feed;
    const struct llm_options options = small_options();
    struct reading reading = {.wrong = 0};
    struct lli_shm_segment own, *segment;
    pthread_t thread;

    (void)state;
    feed_open(&feed, &options, 1);
    open_reader(&reading.station, &options);
    segment = &shm_of(&reading.station)->in.sources[0].segment;
    own = *segment;
    assert_non_null(own.history);
    segment->header = segment_of(&feed.station)->header;
    segment->entries = segment_of(&feed.station)->entries;
    segment->copies = segment_of(&feed.station)->copies;
    segment->history = segment_of(&feed.station)->history;
    assert_int_equal(pthread_create(&thread, NULL, read_all, &reading), 0);
    write_all(&feed, &reading);
    assert_int_equal(pthread_join(thread, NULL), 0);
    *segment = own;
    assert_int_equal(reading.wrong, 0);
    assert_int_equal(station_counter(&reading.station, "shm_lapped") +
                         station_counter(&reading.station, "shm_overwritten"),
                     0);
    station_close(&reading.station);
    feed_close(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {shm_test(a_reader_sees_packets_only_after_they_are_written)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
