/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communication of instances other than by packets to all readers: wake-ups, places in a bell, unicasts; and
 * the absence of system calls.
 */
#define _GNU_SOURCE
#include "shm_test.h"
#include "engine/objects.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------- waking */

static void count_message(void *arg, const struct llm_message *message)
{
    (void)message;
    ++*(int *)arg;
}

/*
 * One long message has so many packets that several polls deliver nothing, and no datagram announces those
 * already in the ring.
 */
static void a_receiver_does_not_sleep_on_available_packets(void **state)
{
    static const uint8_t bytes[1 << 20];
    struct llm_context *near = NULL, *far = NULL;
    struct llm_transmitter *transmitter = NULL;
    struct llm_receiver *receiver = NULL;
    struct llm_topic *topic = NULL;
    struct llm_receiver_handlers handlers;
    char channel[128];
    int got = 0;

    (void)state;
    snprintf(channel, sizeof channel, "shm://" NAME "?shm_directory=%s", directory);
    llm_receiver_handlers_init(&handlers);
    handlers.message = count_message;
    handlers.arg = &got;
    assert_int_equal(llm_context_open(NULL, &near), LLM_OK);
    assert_int_equal(llm_context_open(NULL, &far), LLM_OK);
    assert_int_equal(llm_receiver_open(far, channel, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(near, channel, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "long", 0, &topic), LLM_OK);
    assert_int_equal(llm_send(topic, "short", 5, LLM_SEND_NOW), LLM_OK);
    while (got < 1) {
        (void)llm_poll(near);
        (void)llm_poll(far);
    }
    assert_int_equal(llm_send(topic, bytes, sizeof bytes, LLM_SEND_NOW), LLM_OK);
    while (got < 2) {
        const int fd = llm_context_fd(far);

        if (llm_poll(far) == 0 && llm_context_deadline(far) > llm_clock())
            assert_true(readable(fd, 0));
    }
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
    assert_int_equal(llm_context_close(&far), LLM_OK);
    assert_int_equal(llm_context_close(&near), LLM_OK);
}

/* Returns how many bytes a transmitter with these options sends to a receiver that stops, before it refuses messages. */
static uint64_t sent_to_stopped(const char *options)
{
    static const uint8_t bytes[30000]; /* a packet each */
    struct llm_context *near = NULL, *far = NULL;
    struct llm_transmitter *transmitter = NULL;
    struct llm_receiver *receiver = NULL;
    struct llm_topic *topic = NULL;
    struct llm_receiver_handlers handlers;
    int refused = 0;
    char channel[256];
    lli_seq first;
    uint64_t sent;

    snprintf(channel, sizeof channel,
             "shm://" NAME
             "?shm_directory=%s&flow=window&flow_quorum_percent=100&linger_ns=0&status_ns=60000000000%s",
             directory, options);
    llm_receiver_handlers_init(&handlers);
    assert_int_equal(llm_context_open(NULL, &far), LLM_OK);
    assert_int_equal(llm_receiver_open(far, channel, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_context_open(NULL, &near), LLM_OK);
    assert_int_equal(llm_transmitter_open(near, channel, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "topic", 0, &topic), LLM_OK);
    while (llm_transmitter_receivers(transmitter) == 0) {
        (void)llm_poll(near);
        (void)llm_poll(far);
    }
    first = transmitter->tx.sent;
    /* A message is refused for good if those before it could not be sent meanwhile. */
    while (refused < 100) {
        refused = llm_send(topic, bytes, sizeof bytes, 0) == LLM_EAGAIN ? refused + 1 : 0;
        (void)llm_poll(near);
    }
    sent = lli_history_span(&transmitter->tx.history, first, transmitter->tx.sent);
    assert_int_equal(llm_context_close(&far), LLM_OK);
    assert_int_equal(llm_context_close(&near), LLM_OK);
    return sent;
}

static void a_receiver_lags_by_the_bytes_of_the_window(void **state)
{
    const uint64_t full = 65536;

    (void)state;
    assert_in_range(sent_to_stopped(""), (12 << 20) - 2 * full, 12 << 20);
    assert_in_range(sent_to_stopped("&flow_window_bytes=16M"), (12 << 20) - 2 * full, 12 << 20);
    assert_in_range(sent_to_stopped("&flow_window_bytes=1M"), (1 << 20) - 2 * full, 1 << 20);
    assert_in_range(sent_to_stopped("&flow_window_bytes=256K"), (256 << 10) - 2 * full, 256 << 10);
}

static void only_sleeping_readers_are_woken_and_only_once(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, sleeper, poller;
    int sleeping, polling;

    (void)state;
    open_writer(&writer, &options);
    open_reader(&sleeper, &options);
    open_reader(&poller, &options);
    polling = shm_of(&poller)->socket;
    for (int round = 0; round < 3; round++) {
        sleeping = transport->arm(sleeper.instance);
        station_send(&writer, writer.send, "one", 3);
        station_send(&writer, writer.send, "two", 3);
        assert_true(readable(sleeping, 0));
        assert_false(readable(polling, 0));
        assert_int_equal(station_counter(&writer, "shm_wakes"), round + 1);
        station_expect(&sleeper, sleeper.receive, "one", 3);
        station_expect(&sleeper, sleeper.receive, "two", 3);
        station_expect(&poller, poller.receive, "one", 3);
        station_expect(&poller, poller.receive, "two", 3);
        /* A wake-up wakes once only. */
        assert_false(readable(transport->arm(sleeper.instance), 0));
    }
    assert_int_equal(segment_of(&writer)->bell->sleepers, 1);
    station_send(&writer, writer.send, "one", 3);
    assert_int_equal(segment_of(&writer)->bell->sleepers, 0);
    /* A reader that was woken and has not slept since is not woken with another. */
    transport->arm(poller.instance);
    station_send(&writer, writer.send, "two", 3);
    assert_int_equal(station_counter(&writer, "shm_wakes"), 5);
    transport->arm(sleeper.instance);
    /* A reader armed, left, and another reader took its place. */
    station_close(&sleeper);
    open_reader(&sleeper, &options);
    station_send(&writer, writer.send, "one", 3);
    assert_false(readable(shm_of(&sleeper)->socket, 0));
    station_close(&sleeper);
    station_close(&poller);
    station_close(&writer);
}

static void all_sleeping_readers_are_woken_by_the_end_of_a_run(void **state)
{
    enum { READERS = 20 };
    const struct llm_options options = small_options();
    struct station writer, readers[READERS];
    struct lli_out packets[10];

    (void)state;
    open_writer(&writer, &options);
    for (int i = 0; i < READERS; i++) {
        open_reader(&readers[i], &options);
        transport->arm(readers[i].instance);
    }
    for (int i = 0; i < 10; i++)
        packets[i] = (struct lli_out){(const uint8_t *)"up", 2, writer.send};
    assert_int_equal(transport->post(writer.instance, packets, 10), 10);
    assert_int_equal(transport->flush(writer.instance), 0);
    assert_int_equal(station_counter(&writer, "shm_wakes"), READERS);
    for (int i = 0; i < READERS; i++) {
        assert_true(readable(shm_of(&readers[i])->socket, 0));
        station_close(&readers[i]);
    }
    station_close(&writer);
}

static void a_flush_to_several_names_wakes_the_readers_of_each(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, first, second;
    struct lli_out packets[4];
    lli_handle other;

    (void)state;
    open_writer(&writer, &options);
    assert_int_equal(station_join(&writer, "second", 0, LLI_JOIN_SEND, &other), 0);
    open_reader(&first, &options);
    assert_int_equal(instance_open(&second, NAME, &options), 0);
    assert_int_equal(station_join(&second, "second", 0, LLI_JOIN_RECEIVE, &second.receive), 0);
    for (int i = 0; i < 4; i++)
        packets[i] = (struct lli_out){(const uint8_t *)"up", 2, i < 2 ? writer.send : other};
    assert_false(readable(transport->arm(first.instance), 0));
    assert_false(readable(transport->arm(second.instance), 0));
    assert_int_equal(transport->post(writer.instance, packets, 4), 4);
    assert_int_equal(transport->flush(writer.instance), 0);
    assert_true(readable(shm_of(&first)->socket, 0));
    assert_true(readable(shm_of(&second)->socket, 0));
    for (int i = 0; i < 2; i++) {
        station_expect(&first, first.receive, "up", 2);
        station_expect(&second, second.receive, "up", 2);
    }
    station_close(&second);
    station_close(&first);
    station_close(&writer);
}

/* A full socket gets no notification of a new writer. */
static void a_reader_with_a_full_socket_still_finds_a_new_writer(void **state)
{
    enum { SENT = 1000 };
    const struct llm_options options = small_options();
    struct station reader, other, writer;
    struct lli_in packets[BURST];
    lli_handle peer;
    int got = 0, count;

    (void)state;
    open_reader(&reader, &options);
    assert_int_equal(instance_open(&other, NAME, &options), 0);
    peer = station_peer(&other, &reader);
    for (int i = 0; i < SENT; i++)
        station_send(&other, peer, "full", 4);
    open_writer(&writer, &options);
    assert_true(readable(transport->arm(reader.instance), 0) || shm_of(&reader)->waiting.tail > 0);
    while ((count = transport->receive(reader.instance, packets, BURST)) > 0) {
        transport->release(reader.instance, packets, count);
        transport->arm(reader.instance);
        got += count;
    }
    assert_int_equal(got + (int)station_counter(&other, "shm_send_errors"), SENT);
    assert_int_equal(shm_of(&reader)->in.count, 1);
    station_close(&writer);
    station_close(&other);
    station_close(&reader);
}

/* ------------------------------------------------------------------------------------------------- places */

struct flag {
    struct llm_options options;
    _Atomic uint64_t ready;
};

static int read_until_killed(void *arg)
{
    struct flag *flag = arg;
    struct station reader;

    open_reader(&reader, &flag->options);
    atomic_store(&flag->ready, 1);
    pause();
    return 0;
}

/* All places but one belong to a living reader. */
static void reader_places_are_limited_and_those_of_killed_readers_reused(void **state)
{
    struct flag *flag = shared_memory(sizeof *flag);
    struct station writer, reader, another;
    struct lli_shm_bell *bell;
    uint64_t killed;
    pid_t pid;

    (void)state;
    flag->options = small_options();
    open_writer(&writer, &flag->options);
    bell = segment_of(&writer)->bell;
    pid = process_start(read_until_killed, flag);
    await_value(&flag->ready, 1);
    killed = bell->readers[0].id;
    assert_int_not_equal(killed, 0);
    open_reader(&reader, &flag->options);
    assert_int_equal(bell->readers[1].id, shm_of(&reader)->id);
    for (int i = 2; i < LLI_SHM_READERS_MAX; i++)
        bell->readers[i].id = shm_of(&reader)->id;
    assert_int_equal(try_reader(&another, &flag->options), LLM_ELIMIT);
    expect_logged(NAME);
    expect_logged("1023 readers");
    assert_int_equal(bell->readers[0].id, killed);
    /* An earlier instance fails in the same way. */
    assert_int_equal(instance_open(&another, NAME, &flag->options), 0);
    strcpy(shm_of(&another)->groups[0].name, NAME);
    shm_of(&another)->groups[0].users = 1;
    for (int i = 0; i < 3; i++) {
        station_look(&another);
        transport->report(another.instance);
    }
    expect_logged_once("1023 readers");
    station_close(&another);
    assert_int_equal(process_kill(pid), 128 + 9);
    open_reader(&another, &flag->options);
    assert_int_equal(bell->readers[0].id, shm_of(&another)->id);
    station_send(&writer, writer.send, "both", 4);
    station_expect(&reader, reader.receive, "both", 4);
    station_expect(&another, another.receive, "both", 4);
    /* Places of readers that leave are free, too. */
    station_close(&another);
    assert_int_equal(bell->readers[0].id, 0);
    open_reader(&another, &flag->options);
    station_close(&another);
    station_close(&reader);
    station_close(&writer);
    next_writer(&flag->options);
    shared_free(flag, sizeof *flag);
}

static int sleep_until_killed(void *arg)
{
    struct flag *flag = arg;
    struct station reader;

    open_reader(&reader, &flag->options);
    transport->arm(reader.instance);
    atomic_store(&flag->ready, 1);
    pause();
    return 0;
}

static void a_reader_killed_asleep_is_removed_at_the_next_wake(void **state)
{
    struct flag *flag = shared_memory(sizeof *flag);
    struct station writer;
    pid_t pid;

    (void)state;
    flag->options = small_options();
    open_writer(&writer, &flag->options);
    pid = process_start(sleep_until_killed, flag);
    await_value(&flag->ready, 1);
    assert_int_equal(process_kill(pid), 128 + 9);
    assert_int_not_equal(segment_of(&writer)->bell->readers[0].id, 0);
    station_send(&writer, writer.send, "up!", 3);
    assert_int_equal(segment_of(&writer)->bell->readers[0].id, 0);
    station_send(&writer, writer.send, "up!", 3);
    assert_int_equal(station_counter(&writer, "shm_wakes"), 1);
    station_close(&writer);
    next_writer(&flag->options);
    shared_free(flag, sizeof *flag);
}

/* ----------------------------------------------------------------------------------------------- unicasts */

/*
 * Packets to readers of the writer's segment use the segment, with any number of readers; packets to others
 * use their sockets.
 */
static void unicasts_use_the_segment_of_a_reader_or_its_socket(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader, other, stranger;

    (void)state;
    open_writer(&writer, &options);
    open_reader(&other, &options);
    open_reader(&reader, &options);
    assert_int_equal(instance_open(&stranger, NAME, &options), 0);
    for (int i = 0; i < 100; i++) {
        station_send(&writer, station_peer(&writer, &reader), "you", 3);
        assert_false(readable(shm_of(&reader)->socket, 0));
        station_expect(&reader, LLI_HANDLE_UNICAST, "you", 3);
        station_send(&writer, station_peer(&writer, &stranger), "you too", 7);
        assert_true(readable(shm_of(&stranger)->socket, 0));
        station_expect(&stranger, LLI_HANDLE_UNICAST, "you too", 7);
        /* The bell notifies a polling writer. */
        station_send(&reader, station_peer(&reader, &writer), "and back", 8);
        assert_int_equal(transport->receive(writer.instance, &(struct lli_in){.size = 0}, 0), 0);
        assert_int_equal(shm_of(&writer)->waiting.tail, i + 1);
        station_expect(&writer, LLI_HANDLE_UNICAST, "and back", 8);
    }
    station_expect_nothing(&other);
    assert_int_equal(station_counter(&other, "shm_overwritten"), 0);
    /* The reader leaves the segment. */
    transport->leave(reader.instance, reader.receive, LLI_JOIN_RECEIVE);
    station_send(&writer, station_peer(&writer, &reader), "still", 5);
    station_expect(&reader, LLI_HANDLE_UNICAST, "still", 5);
    station_close(&stranger);
    station_close(&reader);
    station_close(&other);
    station_close(&writer);
}

/* The writer finds the segment that a peer reads, also if the peer changes to another segment later. */
static void a_writer_of_several_names_finds_the_segment_of_a_peer(void **state)
{
    const struct llm_options options = small_options();
    struct station writer, reader, other;
    lli_handle second, read;

    (void)state;
    open_writer(&writer, &options);
    assert_int_equal(station_join(&writer, "second", 0, LLI_JOIN_SEND, &second), 0);
    assert_int_equal(instance_open(&other, NAME, &options), 0);
    assert_int_equal(station_join(&other, "second", 0, LLI_JOIN_RECEIVE, &other.receive), 0);
    assert_int_equal(instance_open(&reader, NAME, &options), 0);
    assert_int_equal(station_join(&reader, "second", 0, LLI_JOIN_RECEIVE, &read), 0);
    station_send(&writer, station_peer(&writer, &reader), "second", 6);
    assert_false(readable(shm_of(&reader)->socket, 0));
    station_expect(&reader, LLI_HANDLE_UNICAST, "second", 6);
    assert_int_equal(station_join(&reader, NAME, 0, LLI_JOIN_RECEIVE, &reader.receive), 0);
    transport->leave(reader.instance, read, LLI_JOIN_RECEIVE);
    station_send(&writer, station_peer(&writer, &reader), "first", 5);
    assert_false(readable(shm_of(&reader)->socket, 0));
    station_expect(&reader, LLI_HANDLE_UNICAST, "first", 5);
    /* The segment is removed, the peer stays. */
    transport->leave(writer.instance, writer.send, LLI_JOIN_SEND);
    station_send(&writer, station_peer(&writer, &reader), "socket", 6);
    station_expect(&reader, LLI_HANDLE_UNICAST, "socket", 6);
    station_expect_nothing(&other);
    station_close(&reader);
    station_close(&other);
    station_close(&writer);
}

static void undeliverable_unicasts_are_counted(void **state)
{
    enum { SENT = 1000 };
    const struct llm_options options = small_options();
    struct station writer, full, gone, other;
    lli_handle to_full, to_gone;
    int got = 0;
    struct lli_in packets[BURST];
    uint64_t errors;

    (void)state;
    open_writer(&writer, &options);
    open_reader(&other, &options);
    assert_int_equal(instance_open(&full, NAME, &options), 0);
    assert_int_equal(instance_open(&gone, NAME, &options), 0);
    to_full = station_peer(&writer, &full);
    to_gone = station_peer(&writer, &gone);
    station_close(&gone);
    for (int i = 0; i < SENT; i++)
        station_send(&writer, to_full, "full", 4);
    errors = station_counter(&writer, "shm_send_errors");
    assert_in_range(errors, 1, SENT - 1);
    station_send(&writer, to_gone, "gone", 4);
    assert_int_equal(station_counter(&writer, "shm_send_errors"), errors + 1);
    station_send(&writer, writer.send, "others", 6);
    station_expect(&other, other.receive, "others", 6);
    for (int count; (count = station_await(&full, packets, BURST, QUIET_NS)) > 0; got += count)
        transport->release(full.instance, packets, count);
    assert_int_equal(got + (int)errors, SENT);
    station_send(&writer, to_full, "again", 5);
    station_expect(&full, LLI_HANDLE_UNICAST, "again", 5);
    assert_int_equal(transport->reap(writer.instance), SENT + 3);
    station_close(&full);
    station_close(&other);
    station_close(&writer);
}

#ifndef SANITIZED
/* ------------------------------------------------------------------------------------------- system calls */

/*
 * From now on every system call ends the process, except exit, reading the clock where that needs the kernel,
 * and this one, which fails as if there was nothing to read.
 */
static bool forbid_system_calls(uint32_t but)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, but, 2, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
    };
    const struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/*
 * Sends and receives this many packets of all kinds, and makes as many empty polls. Touches all memory
 * before.
 */
static int poll_without_system_calls(uint32_t packets, uint32_t but)
{
    const struct llm_options options = small_options();
    struct audit audit = {.writer = 1};
    struct station reader;
    static struct feed feed;

    feed_open(&feed, &options, 1);
    open_reader(&reader, &options);
    /* Events without a signal are found by time. */
    shm_of(&reader)->in.looked_at = UINT64_MAX / 2;
    if (but != SYS_recvfrom)
        shm_of(&reader)->ringing.drained_at = UINT64_MAX / 2;
    if (!forbid_system_calls(but))
        return 77;
    for (uint32_t i = 0; i < packets; i++) {
        if (i % 2 == 0)
            feed_history(&feed, PACKET_MIN + i % 1900);
        else
            feed_plain(&feed, PACKET_MIN + i % 1900);
        (void)audit_take(&audit, &reader);
        (void)audit_take(&audit, &reader);
    }
    return audit.got == packets && audit.torn == 0 ? 0 : 1;
}

static int poll_shortly(void *arg)
{
    (void)arg;
    return poll_without_system_calls(500, SYS_exit_group);
}

static int poll_long(void *arg)
{
    (void)arg;
    return poll_without_system_calls(100000, SYS_recvfrom);
}

static void sending_and_polling_need_no_system_call(void **state)
{
    const struct llm_options options = small_options();
    int status;

    (void)state;
    status = process_end(process_start(poll_shortly, NULL));
    if (status == 77)
        skip();
    assert_int_equal(status, 0);
    /* Occasional polls check the socket. */
    assert_int_equal(process_end(process_start(poll_long, NULL)), 0);
    next_writer(&options);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        shm_test(a_receiver_does_not_sleep_on_available_packets),
        shm_test(a_receiver_lags_by_the_bytes_of_the_window),
        shm_test(only_sleeping_readers_are_woken_and_only_once),
        shm_test(all_sleeping_readers_are_woken_by_the_end_of_a_run),
        shm_test(a_flush_to_several_names_wakes_the_readers_of_each),
        shm_test(a_reader_with_a_full_socket_still_finds_a_new_writer),
        shm_test(reader_places_are_limited_and_those_of_killed_readers_reused),
        shm_test(a_reader_killed_asleep_is_removed_at_the_next_wake),
        shm_test(unicasts_use_the_segment_of_a_reader_or_its_socket),
        shm_test(a_writer_of_several_names_finds_the_segment_of_a_peer),
        shm_test(undeliverable_unicasts_are_counted),
#ifndef SANITIZED
        shm_test(sending_and_polling_need_no_system_call),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
