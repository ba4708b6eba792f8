/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a channel that are truncated while they are mapped: SIGBUS ends no process, and intact parts
 * continue to work.
 */
#define _GNU_SOURCE
#include "shm_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHER_USER = 65534 };

static void path_of(char path[256], const struct station *writer, const char *suffix)
{
    snprintf(path, 256, "%s/llm/%s/%016llx%s", directory, NAME, (unsigned long long)segment_of(writer)->id,
             suffix);
}

static void cut(const struct station *writer, const char *suffix, off_t size)
{
    char path[256];

    path_of(path, writer, suffix);
    assert_int_equal(truncate(path, size), 0);
}

/*
 * Changes the owner of a station's segment, because only segments of other users are guarded. False: this
 * needs root.
 */
static bool give_away(const struct station *writer)
{
    char path[256];

    path_of(path, writer, ".data");
    return geteuid() == 0 && chown(path, OTHER_USER, OTHER_USER) == 0;
}

static struct llm_options options_for_all(void)
{
    struct llm_options options = small_options();

    own_set("shm_mode", "0644");
    return options;
}

static int take_all(struct station *reader)
{
    struct lli_in packets[BURST];
    int count, all = 0;

    while ((count = transport->receive(reader->instance, packets, BURST)) > 0) {
        transport->release(reader->instance, packets, count);
        all += count;
    }
    return all;
}

static void look_and_tell(struct station *station)
{
    for (int i = 0; i < 3; i++) {
        lli_shm_rescan(shm_of(station));
        (void)take_all(station);
        transport->report(station->instance);
    }
}

/* The segment is cut in the header, the entries, the copies and the history. */
static void a_segment_truncated_by_its_writer_kills_no_reader(void **state)
{
    static const off_t lengths[] = {0, 1, 4096, 8192, 4096 + 64 * 128, 100000, 139264, 180000};
    static struct feed feed;
    struct llm_options options = options_for_all();

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct station reader;

        feed_open(&feed, &options, i);
        if (!give_away(&feed.station)) {
            feed_close(&feed);
            skip(); /* only root can give a file away */
        }
        open_reader(&reader, &options);
        for (int j = 0; j < 10; j++) {
            feed_plain(&feed, 40);
            feed_plain(&feed, 1000);
            feed_history(&feed, 1900);
        }
        assert_int_equal(take_all(&reader), 30);
        /* Unread packets, whose pages are removed by the truncation. */
        for (int j = 0; j < 10; j++) {
            feed_plain(&feed, 40);
            feed_plain(&feed, 1000);
            feed_history(&feed, 1900);
        }
        cut(&feed.station, ".data", lengths[i]);
        assert_in_range(take_all(&reader), 0, 30);
        look_and_tell(&reader);
        if (lengths[i] < 100000) {
            assert_int_equal(shm_of(&reader)->in.count, 0);
            assert_int_equal(station_counter(&reader, "shm_truncated"), 1);
            expect_logged("of user 65534, or its bell, was truncated while it was mapped");
        }
        station_close(&reader);
        /*
         * The writer is not guarded against its own user: restore the file's pages before the writer closes.
         */
        cut(&feed.station, ".data", 1 << 20);
        feed_close(&feed);
    }
}

/* The next access is the writer's in two rounds, the reader's in the others. */
static void a_bell_truncated_by_a_reader_kills_no_process(void **state)
{
    static struct feed feed;
    struct llm_options options = options_for_all();
    struct station reader;

    (void)state;
    feed_open(&feed, &options, 1);
    open_reader(&reader, &options);
    for (int round = 0; round < 4; round++) {
        cut(&feed.station, ".bell", round % 2 == 0 ? 0 : 1);
        for (int i = 0; i < 5; i++) {
            if (round < 2) {
                feed_plain(&feed, 40);
                (void)transport->arm(reader.instance);
            } else {
                (void)transport->arm(reader.instance);
                feed_plain(&feed, 40);
            }
            assert_int_equal(take_all(&reader), 1);
        }
        look_and_tell(&feed.station);
        look_and_tell(&reader);
        /* The bell works again: a sleeping reader is woken. */
        (void)transport->arm(reader.instance);
        assert_int_equal(station_counter(&feed.station, "shm_truncated"), round + 1);
        {
            const uint64_t wakes = station_counter(&feed.station, "shm_wakes");

            feed_plain(&feed, 40);
            assert_int_equal(station_counter(&feed.station, "shm_wakes"), wakes + 1);
        }
        assert_int_equal(take_all(&reader), 1);
        assert_int_equal(shm_of(&reader)->in.count, 1);
    }
    station_close(&reader);
    feed_close(&feed);
}

/* ----------------------------------------------------------------------------------------------- handlers */

static volatile sig_atomic_t caught;

static void on_sigbus(int signal)
{
    (void)signal;
    caught++;
}

static void the_previous_handler_gets_other_signals_and_is_restored(void **state)
{
    const struct sigaction mine = {.sa_handler = on_sigbus}, plain = {.sa_handler = SIG_DFL};
    struct llm_options options = options_for_all();
    struct sigaction now;
    struct station writer;

    (void)state;
    assert_int_equal(sigaction(SIGBUS, &mine, NULL), 0);
    open_writer(&writer, &options);
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    assert_true(now.sa_handler != on_sigbus);
    raise(SIGBUS);
    assert_int_equal(caught, 1);
    station_close(&writer);
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    assert_true(now.sa_handler == on_sigbus);
    assert_int_equal(sigaction(SIGBUS, &plain, NULL), 0);
}

static void a_process_without_other_users_files_has_no_handler(void **state)
{
    struct llm_options options = small_options();
    struct station writer, reader;
    struct sigaction before, now;

    (void)state;
    assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
    open_writer(&writer, &options);
    open_reader(&reader, &options);
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    assert_true(now.sa_handler == before.sa_handler);
    station_close(&reader);
    station_close(&writer);
}

/* Reads beyond the end of a file that is not part of a channel. */
static int touch_elsewhere(void *arg)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    struct llm_options options = options_for_all();
    struct station writer;
    const int fd = memfd_create("elsewhere", 0);
    volatile char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

    (void)arg;
    (void)sigaction(SIGBUS, &plain, NULL);
    open_writer(&writer, &options);
    return map[0];
}

static void a_fault_elsewhere_kills_the_process(void **state)
{
    const struct llm_options options = small_options();

    (void)state;
    assert_int_equal(process_end(process_start(touch_elsewhere, NULL)), 128 + SIGBUS);
    next_writer(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        shm_test(a_segment_truncated_by_its_writer_kills_no_reader),
        shm_test(a_bell_truncated_by_a_reader_kills_no_process),
        shm_test(the_previous_handler_gets_other_signals_and_is_restored),
        shm_test(a_process_without_other_users_files_has_no_handler),
        shm_test(a_fault_elsewhere_kills_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
