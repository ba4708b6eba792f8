/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store whose disk fails: writes that fail, in part on the disk, a quota, a file system without O_DIRECT. The
 * functions of libc that are defined here take the place of the real ones.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store/disk_internal.h"
#include "store/store.h"

#include "store_reading.h"

enum { FAILED_MAX = 64 };

static atomic_int fault_allocate; /* so many calls of fallocate() find the quota used up */
static atomic_bool wait_allocate; /* it does not return */
static atomic_bool fault_direct;  /* there is no O_DIRECT */

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (atomic_load(&fault_allocate) > 0) {
        atomic_fetch_sub(&fault_allocate, 1);
        errno = EDQUOT;
        return -1;
    }
    while (atomic_load(&wait_allocate))
        (void)usleep(1000);
    return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int openat(int at, const char *name, int flags, ...)
{
    mode_t mode = 0;
    va_list list;

    if ((flags & O_DIRECT) != 0 && atomic_load(&fault_direct)) {
        errno = EINVAL;
        return -1;
    }
    if ((flags & O_CREAT) != 0) {
        va_start(list, flags);
        mode = va_arg(list, mode_t);
        va_end(list);
    }
    return (int)syscall(SYS_openat, at, name, flags, mode);
}

/* ------------------------------------------------------------------------------------------ failing writes */

static struct {
    const struct lli_disk_ops *real;
    struct lli_disk_ops ops;
    uint64_t writes;
    bool waits;   /* no write ends */
    bool awaited; /* each has ended when completions are taken */
    int under_way;
    uint64_t from, until; /* writes of these numbers fail */
    int error;
    uint64_t tags[FAILED_MAX]; /* of those that are under way */
    int tags_count;
    int files[FAILED_MAX]; /* copies of the descriptors, so that no other file gets the same identity */
    int files_count;
    bool reused; /* a file was written again after a write to it had failed, and had ended */
} faults;

static bool is_same_file(int fd, int other)
{
    struct stat a, b;

    assert_int_equal(fstat(fd, &a), 0);
    assert_int_equal(fstat(other, &b), 0);
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* A write that fails has reached the disk in part. */
static bool faulty_write(struct lli_disk *disk, const struct lli_disk_write *write)
{
    const int fd = disk->files[write->file].fd;
    struct lli_disk_write done = *write;
    const bool fails = faults.writes >= faults.from && faults.writes < faults.until;

    for (int i = 0; i < faults.files_count && faults.tags_count == 0; i++)
        faults.reused |= is_same_file(fd, faults.files[i]);
    if (fails)
        done.size = (uint32_t)lli_max(write->size / 2 / LLI_BLOCK_ALIGN * LLI_BLOCK_ALIGN, LLI_BLOCK_ALIGN);
    if (!faults.real->write(disk, &done))
        return false;
    faults.writes++;
    faults.under_way++;
    if (fails && faults.files_count < FAILED_MAX) {
        faults.tags[faults.tags_count++] = write->tag;
        faults.files[faults.files_count] = dup(fd);
        assert_true(faults.files[faults.files_count++] >= 0);
    }
    return true;
}

static int faulty_completed(struct lli_disk *disk, struct lli_disk_completion *completions, int max)
{
    int count = faults.waits ? 0 : faults.real->completed(disk, completions, max);

    while (faults.awaited && count < faults.under_way)
        count += faults.real->completed(disk, completions + count, max - count);
    faults.under_way -= count;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < faults.tags_count; j++)
            if (faults.tags[j] == completions[i].tag) {
                faults.tags[j] = faults.tags[--faults.tags_count];
                completions[i].error = faults.error;
                break;
            }
    return count;
}

static void store_up_faulty(void)
{
    assert_int_equal(store_up_in(context), LLM_OK);
    memset(&faults, 0, sizeof faults);
    faults.error = EIO;
    faults.from = faults.until = UINT64_MAX;
    faults.real = store->disk->ops;
    faults.ops = *faults.real;
    faults.ops.write = faulty_write;
    faults.ops.completed = faulty_completed;
    store->disk->ops = &faults.ops;
}

/* The writes from the nth one on, counted from now, fail, so many of them. */
static void fail_writes(uint64_t nth, uint64_t count)
{
    faults.from = faults.writes + nth;
    faults.until = count == UINT64_MAX ? UINT64_MAX : faults.from + count;
}

static void faults_down(void)
{
    for (int i = 0; i < faults.files_count; i++)
        close(faults.files[i]);
    faults.files_count = 0;
}

/* -------------------------------------------------------------------------------------------------- tests */

/* In another segment, which retention made a spare of an older one. */
static void a_failed_write_loses_nothing_acknowledged(void)
{
    uint64_t failures = 0, retired = 0;

    options.spares = 1;
    options.bytes_max = 4 * options.segment_bytes;
    store_up_faulty();
    for (uint64_t nth = 0; nth < 8; nth++) {
        struct reading reading;

        acknowledged = 0;
        transmitter_up();
        fail_writes(nth, 1);
        while (acknowledged < 200 || faults.writes <= faults.from) {
            send_some(50);
            await_acknowledged(llm_transmitter_next(transmitter));
        }
        reading = read_all();
        assert_int_equal(reading.next, llm_transmitter_next(transmitter));
        assert_int_equal(reading.gaps, 0);
        assert_int_equal(llm_transmitter_close(&transmitter), 0);
        assert_int_equal(llm_context_counter(context, "store_write_failures", &failures), LLM_OK);
        assert_int_equal(failures, nth + 1);
        assert_int_equal(stopped.kind, 0);
    }
    assert_int_equal(llm_context_counter(context, "store_segments_retired", &retired), LLM_OK);
    assert_true(retired > 4);
    assert_false(faults.reused);
    faults_down();
}

static void a_failed_write_loses_nothing_acknowledged_by_uring(void **state)
{
    (void)state;
    options.engine = LLM_STORE_AUTO;
    a_failed_write_loses_nothing_acknowledged();
}

static void a_failed_write_loses_nothing_acknowledged_by_a_thread(void **state)
{
    (void)state;
    options.engine = LLM_STORE_THREAD;
    a_failed_write_loses_nothing_acknowledged();
}

static void await_stopped(void)
{
    for (int i = 0; stopped.kind == 0; i++) {
        assert_true(i < 1000000);
        (void)llm_wait(context, 10000);
    }
}

/* Messages are refused while too many wait for the store. */
static void send_until_stopped(void)
{
    static uint8_t bytes[32768];

    while (stopped.kind == 0) {
        const uint64_t n = llm_transmitter_next(transmitter);

        message_fill(n, bytes);
        (void)llm_send(topics[n % 3], bytes, message_size(n), 0);
        (void)llm_wait(context, 10000);
    }
}

/* Without the ones that were not acknowledged, of which some may be there. */
static void expect_acknowledged_there(void)
{
    const uint64_t next = read_all().next;

    assert_true(next >= acknowledged && next <= llm_transmitter_next(transmitter));
}

static void a_second_failure_stops_the_recording_and_names_the_file(void **state)
{
    char name[40];

    (void)state;
    for (int nth = 0; nth < 6; nth++) {
        stopped.kind = 0;
        acknowledged = 0;
        store_up_faulty();
        transmitter_up();
        send_some(100);
        await_acknowledged(100);
        fail_writes((uint64_t)nth, UINT64_MAX);
        send_until_stopped();
        assert_int_equal(stopped.reason, LLM_REASON_DISK);
        assert_int_equal(stopped.error, EIO);
        assert_int_equal(stopped.session, session);
        (void)snprintf(name, sizeof name, "%016llx/", (unsigned long long)session);
        assert_memory_equal(stopped.file, name, 17);
        assert_non_null(strstr(stopped.file, ".segment"));
        assert_true(acknowledged >= 100);
        expect_acknowledged_there();
        /* The next store goes on where the recording ends. */
        assert_int_equal(llm_store_close(&store), LLM_OK);
        faults_down();
        assert_int_equal(store_up_in(context), LLM_OK);
        send_some(50);
        await_acknowledged(llm_transmitter_next(transmitter));
        assert_int_equal(read_all().next, llm_transmitter_next(transmitter));
        assert_int_equal(llm_transmitter_close(&transmitter), 0);
        assert_int_equal(llm_store_close(&store), LLM_OK);
    }
}

static void a_quota_counts_as_a_full_disk(void **state)
{
    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    atomic_store(&fault_allocate, 1);
    send_some(100);
    await_stopped();
    assert_int_equal(stopped.reason, LLM_REASON_DISK_FULL);
    assert_int_equal(stopped.error, EDQUOT);
    assert_int_equal(acknowledged, 0);
}

static void a_quota_is_relieved_by_the_oldest_segment(void **state)
{
    uint64_t before, retired = 0;
    struct stat folder;
    char path[128];

    (void)state;
    options.full = LLM_STORE_OLDEST;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(100);
    await_acknowledged(100);
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    before = session;
    while (store->sessions_recorded > 0)
        (void)llm_wait(context, 10000);
    acknowledged = 0;
    atomic_store(&fault_allocate, 1);
    transmitter_up();
    send_some(100);
    await_acknowledged(100);
    assert_int_equal(atomic_load(&fault_allocate), 0);
    assert_int_equal(llm_context_counter(context, "store_segments_retired", &retired), LLM_OK);
    assert_int_equal(retired, 1);
    (void)snprintf(path, sizeof path, "%s/%016llx", directory, (unsigned long long)before);
    assert_int_not_equal(stat(path, &folder), 0);
    assert_int_equal(read_all().next, 100);
    assert_int_equal(stopped.kind, 0);
}

/* The segment that follows is asked for before it is due: only then has it to be there. */
static void a_quota_before_a_segment_is_due_stops_nothing(void **state)
{
    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(100);
    await_acknowledged(100);
    atomic_store(&fault_allocate, 1);
    while (counter_of(context, "store_segments_begun") < 2)
        send_some(100);
    assert_int_equal(atomic_load(&fault_allocate), 0);
    await_acknowledged(llm_transmitter_next(transmitter));
    assert_int_equal(stopped.kind, 0);
    assert_int_equal(read_all().next, llm_transmitter_next(transmitter));
}

/* The pool owes it a segment: another session of that number must not get it. */
static void a_session_ends_when_the_segment_that_was_asked_for_is_there(void **state)
{
    struct lli_recorded *recorded;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(100);
    await_acknowledged(100);
    recorded = lli_store_recorded(store, session);
    atomic_store(&wait_allocate, true);
    while (!recorded->segment.asked_next)
        send_some(100);
    await_acknowledged(llm_transmitter_next(transmitter));
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    while (!recorded->over || !lli_recorded_is_settled(recorded))
        (void)llm_wait(context, 10000);
    for (int i = 0; i < 100; i++)
        (void)llm_poll(context);
    assert_int_equal(store->sessions_recorded, 1);
    atomic_store(&wait_allocate, false);
    while (store->sessions_recorded > 0)
        (void)llm_wait(context, 10000);
}

static void a_file_system_without_o_direct_records_by_the_page_cache(void **state)
{
    (void)state;
    atomic_store(&fault_direct, true);
    options.spares = 1;
    for (unsigned engine = LLM_STORE_AUTO; engine <= LLM_STORE_THREAD; engine += LLM_STORE_THREAD) {
        acknowledged = 0;
        options.engine = engine;
        assert_int_equal(store_up_in(context), LLM_OK);
        transmitter_up();
        send_some(2000);
        await_acknowledged(2000);
        for (int i = 0; i < LLI_DISK_FILES; i++)
            if (store->disk->files[i].fd >= 0)
                assert_int_equal(fcntl(store->disk->files[i].fd, F_GETFL) & O_DIRECT, 0);
        assert_int_equal(read_all().next, 2000);
        assert_int_equal(llm_transmitter_close(&transmitter), 0);
        assert_int_equal(llm_store_close(&store), LLM_OK);
    }
    atomic_store(&fault_direct, false);
}

/* Sends messages of a topic that is not assured, each in its own packet. */
static void send_packets(struct llm_topic *topic, int count)
{
    static const uint8_t bytes[1400];

    for (int i = 0; i < count; i++)
        assert_int_equal(llm_send(topic, bytes, sizeof bytes, LLM_SEND_NOW), LLM_OK);
}

/* A faulty store that has recorded some messages, and a topic that is not assured. */
static struct llm_topic *bulk_up(void)
{
    struct llm_topic *bulk = NULL;

    store_up_faulty();
    transmitter_up();
    assert_int_equal(llm_topic_open(transmitter, "bulk", 0, &bulk), LLM_OK);
    send_some(100);
    await_acknowledged(100);
    return bulk;
}

/* Most packets that one poll received, until `count` were received in all. */
static uint64_t most_per_poll(uint64_t count)
{
    uint64_t most = 0, after = counter_of(context, "packets_received");

    for (int i = 0; after < count; i++) {
        const uint64_t before = after;

        assert_true(i < 1000000);
        (void)llm_poll(context);
        after = counter_of(context, "packets_received");
        most = lli_max(most, after - before);
    }
    return most;
}

/* So that the next write is submitted soon after one has ended. */
static void polls_are_brief_while_the_disk_is_awaited(void **state)
{
    enum { BURST = 128, PACKETS = 5 * BURST };
    struct llm_topic *bulk;
    uint64_t most;

    (void)state;
    bulk = bulk_up();
    send_packets(bulk, PACKETS);
    assert_true(most_per_poll(counter_of(context, "packets_received") + PACKETS) > BURST);
    faults.waits = true;
    while (counter_of(context, "store_stalls") == 0) {
        send_packets(bulk, 1);
        (void)llm_poll(context);
    }
    send_packets(bulk, PACKETS);
    most = most_per_poll(counter_of(context, "packets_received") + PACKETS);
    /* Before anything fails: the store would not close. */
    faults.waits = false;
    assert_int_equal(most, BURST);
    send_some(100);
    await_acknowledged(llm_transmitter_next(transmitter));
    assert_int_equal(counter_of(context, "store_gaps"), 0);
}

/* A block is what arrived while the write before it was under way, however fast that was. */
static void a_block_is_not_written_before_the_poll_ends(void **state)
{
    enum { PACKETS = 200 };
    struct llm_topic *bulk;
    uint64_t blocks;

    (void)state;
    bulk = bulk_up();
    /* One is under way when the packets arrive, and ends as soon as the store looks. */
    faults.waits = true;
    send_packets(bulk, 1);
    while (faults.under_way == 0)
        (void)llm_poll(context);
    faults.waits = false;
    blocks = counter_of(context, "store_blocks");
    faults.awaited = true;
    send_packets(bulk, PACKETS);
    (void)most_per_poll(counter_of(context, "packets_received") + PACKETS);
    assert_true(counter_of(context, "store_blocks") > blocks);
    assert_true(counter_of(context, "store_blocks") <= blocks + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)
        TEST(a_failed_write_loses_nothing_acknowledged_by_uring),
        TEST(a_failed_write_loses_nothing_acknowledged_by_a_thread),
        TEST(a_second_failure_stops_the_recording_and_names_the_file),
        TEST(a_quota_counts_as_a_full_disk),
        TEST(a_quota_is_relieved_by_the_oldest_segment),
        TEST(a_quota_before_a_segment_is_due_stops_nothing),
        TEST(a_session_ends_when_the_segment_that_was_asked_for_is_there),
        TEST(a_file_system_without_o_direct_records_by_the_page_cache),
        TEST(polls_are_brief_while_the_disk_is_awaited),
        TEST(a_block_is_not_written_before_the_poll_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
