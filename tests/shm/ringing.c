/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers that ring without a datagram, or mark all others as asleep: the cost to a writer is bounded, and it
 * continues to send.
 */
#define _GNU_SOURCE
#include "shm_test.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/clock.h"

enum { RINGS = 100000, FLUSHES = 300 };

#define PATIENCE_NS 20000000000u

static uint64_t received, sent; /* system calls */

/* Replaces the library's call: the program's own definitions come before those of libc. */
ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    received++;
    return syscall(SYS_recvfrom, fd, bytes, size, flags, NULL, NULL);
}

ssize_t sendto(int fd, const void *bytes, size_t size, int flags, __CONST_SOCKADDR_ARG address,
               socklen_t address_size)
{
    sent++;
    return syscall(SYS_sendto, fd, bytes, size, flags, address.__sockaddr__, address_size);
}

static void ring(struct station *writer)
{
    atomic_fetch_add(&segment_of(writer)->bell->rung, 1);
}

static void take_nothing(struct station *station)
{
    struct lli_in packets[BURST];
    const int count = transport->receive(station->instance, packets, BURST);

    transport->release(station->instance, packets, count);
}

/* One timed check of the socket in 2 ms, and up to seventeen for rings in between. */
static void empty_rings_cost_a_system_call_now_and_then(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader;
    uint64_t from, most;

    (void)state;
    open_writer(&writer, &options);
    open_reader(&reader, &options);
    take_nothing(&writer);
    from = lli_clock_ns();
    received = 0;
    for (int i = 0; i < RINGS; i++) {
        ring(&writer);
        take_nothing(&writer);
    }
    most = (lli_clock_ns() - from) / 2000000 * 18 + 40;
    if (received > most)
        fail_msg("%llu system calls for %d rings, at most %llu", (unsigned long long)received, RINGS,
                 (unsigned long long)most);
    assert_in_range(station_counter(&writer, "shm_rings_empty"), 1, most);
    station_close(&reader);
    station_close(&writer);
}

static void a_datagram_after_empty_rings_arrives(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader;
    lli_handle peer;

    (void)state;
    open_writer(&writer, &options);
    open_reader(&reader, &options);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 1000; i++) {
            ring(&writer);
            take_nothing(&writer);
        }
        peer = station_peer(&reader, &writer);
        station_send(&reader, peer, "to one", 6);
        station_expect(&writer, LLI_HANDLE_UNICAST, "to one", 6);
    }
    station_close(&reader);
    station_close(&writer);
}

/* One ring for each packet is answered at once, however many packets there are. */
static void rings_followed_by_packets_are_answered_at_once(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader;
    struct lli_in packet;
    lli_handle peer;

    (void)state;
    open_writer(&writer, &options);
    open_reader(&reader, &options);
    peer = station_peer(&reader, &writer);
    take_nothing(&writer);
    for (int i = 0; i < 5000; i++) {
        station_send(&reader, peer, "to one", 6);
        assert_int_equal(transport->receive(writer.instance, &packet, 1), 1);
        transport->release(writer.instance, &packet, 1);
    }
    station_close(&reader);
    station_close(&writer);
}

/* ------------------------------------------------------------------------------------------------- waking */

/* Marks every place but the first as that of a sleeping reader. */
static void say_that_all_sleep(struct station *writer, uint64_t id)
{
    struct lli_shm_bell *bell = segment_of(writer)->bell;

    for (uint32_t i = 1; i < LLI_SHM_READERS_MAX; i++) {
        atomic_store_explicit(&bell->readers[i].id, id, memory_order_relaxed);
        atomic_store_explicit(&bell->readers[i].asleep, 1, memory_order_relaxed);
    }
    atomic_store(&bell->sleepers, 1);
}

/* Arms a reader, and sends packets, or only polls after one packet, until it is woken. */
static void expect_woken(struct station *writer, struct station *reader, bool sends)
{
    const uint64_t give_up_at = lli_clock_ns() + PATIENCE_NS;
    const int fd = transport->arm(reader->instance);

    if (!sends)
        station_send(writer, writer->send, "once", 4);
    while (!readable(fd, 0)) {
        assert_true(lli_clock_ns() < give_up_at);
        if (sends)
            station_send(writer, writer->send, "again", 5);
        take_nothing(writer);
    }
}

/* The reader that is said to sleep does not exist, or does not read its socket. */
static void needless_wakes_take_a_bounded_share_of_the_time(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader, awake;

    (void)state;
    open_writer(&writer, &options);
    open_reader(&reader, &options);
    open_reader(&awake, &options);
    for (int round = 0; round < 2; round++) {
        const uint64_t from = lli_clock_ns(), before = sent;
        uint64_t most;

        for (int i = 0; i < FLUSHES; i++) {
            say_that_all_sleep(&writer, round == 0 ? 12345 : shm_of(&awake)->id);
            station_send(&writer, writer.send, "all", 3);
        }
        most = (lli_clock_ns() - from) / 10000 + 4000;
        if (sent - before > most)
            fail_msg("%llu datagrams for %d flushes, at most %llu", (unsigned long long)(sent - before),
                     FLUSHES, (unsigned long long)most);
        assert_true(station_counter(&writer, "shm_wakes_deferred") > 0);
        /* A reader that does sleep is woken nevertheless. */
        expect_woken(&writer, &reader, true);
        say_that_all_sleep(&writer, 12345);
        expect_woken(&writer, &reader, false);
    }
    station_close(&awake);
    station_close(&reader);
    station_close(&writer);
}

/* Another reader overwrites half of the places, or all of them. */
static void a_reader_with_an_overwritten_place_takes_another_place(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader;

    (void)state;
    open_writer(&writer, &options);
    open_reader(&reader, &options);
    for (int round = 0; round < 3; round++) {
        memset(segment_of(&writer)->bell->readers, round == 1 ? 0 : 0xff,
               sizeof segment_of(&writer)->bell->readers / (round == 2 ? 1 : 2));
        expect_woken(&writer, &reader, true);
        take_nothing(&reader);
    }
    station_close(&reader);
    station_close(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        shm_test(empty_rings_cost_a_system_call_now_and_then),
        shm_test(a_datagram_after_empty_rings_arrives),
        shm_test(rings_followed_by_packets_are_answered_at_once),
        shm_test(needless_wakes_take_a_bounded_share_of_the_time),
        shm_test(a_reader_with_an_overwritten_place_takes_another_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
