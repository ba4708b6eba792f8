/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both engines on a real file. The functions of libc and liburing that are defined here take the place of the
 * real ones, so that a test can have them fail.
 */
#define _GNU_SOURCE
#include "store/scratch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "store/disk_internal.h"
#include "descriptors.h"

#ifdef LLI_WITH_URING
#include <liburing.h>
#endif

enum { PIECE = 4096, PIECES = 64 };

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_INFO};
static enum lli_disk_engine engine; /* of the tests for both */
static uint8_t *memory;             /* PIECES pieces, each with a pattern */

/* --------------------------------------------------------------------------------------------- the faults */

static atomic_int fault_error;       /* errno of writes; EIO: they are short */
static atomic_uint fault_delay_us;   /* of each write by the thread */
static atomic_bool fault_refused;    /* the kernel takes nothing that is submitted */
static atomic_int fault_forbidden;   /* errno of io_uring_setup() */
static atomic_int fault_flags;       /* of the latest write */
static atomic_int fault_submissions; /* calls that submit to io_uring */

ssize_t pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    const int error = atomic_load(&fault_error);
    const struct iovec half = {vector->iov_base, vector->iov_len / 2};

    atomic_store(&fault_flags, flags);
    usleep(atomic_load(&fault_delay_us));
    if (error != 0 && error != EIO) {
        errno = error;
        return -1;
    }
    return syscall(SYS_pwritev2, fd, error == EIO ? &half : vector, count, offset, 0, flags);
}

#ifdef LLI_WITH_URING
int io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *parameters)
{
    int (*real)(unsigned, struct io_uring *, struct io_uring_params *);

    if (atomic_load(&fault_forbidden) != 0)
        return -atomic_load(&fault_forbidden);
    *(void **)&real = dlsym(RTLD_NEXT, "io_uring_queue_init_params");
    return real(entries, ring, parameters);
}

/* Changes what is submitted, so that the kernel itself has it fail: ENOSPC is that of /dev/full. */
int io_uring_submit(struct io_uring *ring)
{
    static int full = -1;
    int (*real)(struct io_uring *);

    atomic_fetch_add(&fault_submissions, 1);
    if (atomic_load(&fault_refused))
        return -EAGAIN;
    if (full < 0)
        full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; at++) {
        struct io_uring_sqe *entry = &ring->sq.sqes[at & *ring->sq.kring_mask];

        atomic_store(&fault_flags, (int)entry->rw_flags);
        if (atomic_load(&fault_error) == ENOSPC) {
            entry->fd = full;
            entry->flags &= (uint8_t)~IOSQE_FIXED_FILE;
        }
        if (atomic_load(&fault_error) == EIO)
            entry->len /= 2;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit");
    return real(ring);
}
#endif

static bool has_uring(void)
{
    static int has = -1;
    struct lli_disk *disk = NULL;

    if (has < 0) {
        has = lli_disk_open(LLI_DISK_URING, true, &keeper, &disk) == LLM_OK;
        lli_disk_close(&disk);
    }
    return has != 0;
}

/* ---------------------------------------------------------------------------------------------- one engine */

struct world {
    struct lli_disk *disk;
    int buffer;
    int fds[2];
    int files[2];
};

static struct world world_open(bool sync)
{
    struct world world;

    assert_int_equal(lli_disk_open(engine, sync, &keeper, &world.disk), LLM_OK);
    world.buffer = lli_disk_buffer_add(world.disk, memory, (size_t)PIECES * PIECE);
    assert_true(world.buffer >= 0);
    for (int i = 0; i < 2; i++) {
        char path[96];

        (void)snprintf(path, sizeof path, "%s/%d", scratch, i);
        world.fds[i] = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(world.fds[i] >= 0);
        world.files[i] = lli_disk_file_add(world.disk, world.fds[i]);
        assert_true(world.files[i] >= 0);
    }
    return world;
}

static void world_close(struct world *world)
{
    lli_disk_close(&world->disk);
    assert_null(world->disk);
    close(world->fds[0]);
    close(world->fds[1]);
}

/* Writes a piece of the memory to the same place of a file. */
static bool world_write(const struct world *world, int file, int piece)
{
    const struct lli_disk_write write = {
        .file = world->files[file],
        .buffer = world->buffer,
        .bytes = memory + (size_t)piece * PIECE,
        .size = PIECE,
        .offset = (uint64_t)piece * PIECE,
        .tag = (uint64_t)piece + 1000,
    };

    return lli_disk_write(world->disk, &write);
}

/* Waits for completions, each with the same error; counts them by piece. */
static void world_await(const struct world *world, int count, int error, int *seen)
{
    struct pollfd poller = {.fd = lli_disk_fd(world->disk), .events = POLLIN};
    struct lli_disk_completion completions[7];

    while (count > 0) {
        const int done = lli_disk_completed(world->disk, completions, 7);

        for (int i = 0; i < done; i++) {
            assert_int_equal(completions[i].error, error);
            assert_true(completions[i].took > 0);
            seen[completions[i].tag - 1000]++;
        }
        count -= done;
        if (done == 0)
            assert_int_equal(poll(&poller, 1, 60000), 1);
    }
    assert_int_equal(count, 0);
}

static void world_expect(const struct world *world, int file, int piece)
{
    uint8_t bytes[PIECE];

    assert_int_equal(pread(world->fds[file], bytes, PIECE, (off_t)piece * PIECE), PIECE);
    pattern_check(bytes, PIECE, (uint64_t)piece);
}

static void data_on_disk_is_what_was_written(void **state)
{
    struct world world = world_open(true);
    int seen[PIECES] = {0};

    (void)state;
    for (int piece = 0; piece < PIECES; piece++)
        assert_true(world_write(&world, piece % 2, piece));
    lli_disk_submit(world.disk);
    world_await(&world, PIECES, 0, seen);
    for (int piece = 0; piece < PIECES; piece++) {
        assert_int_equal(seen[piece], 1);
        world_expect(&world, piece % 2, piece);
    }
    world_close(&world);
}

static void writes_are_refused_while_all_places_are_taken(void **state)
{
    struct world world = world_open(false);
    struct lli_disk_completion completion;
    int seen[PIECES] = {0};

    (void)state;
    for (int round = 0; round < 50; round++) {
        for (int piece = 0; piece < PIECES; piece++)
            assert_true(world_write(&world, 0, piece));
        assert_false(world_write(&world, 0, 0));
        lli_disk_submit(world.disk);
        assert_false(world_write(&world, 0, 0));
        world_await(&world, PIECES, 0, seen);
        assert_int_equal(lli_disk_completed(world.disk, &completion, 1), 0);
    }
    world_close(&world);
}

/* Else a stream of writes, each of which ends soon, would count as one long wait, in which the caller sleeps. */
static void a_wait_ends_with_a_completion(void **state)
{
    struct world world = world_open(false);
    struct lli_disk_completion completion;
    int seen[PIECES] = {0};

    (void)state;
    assert_true(world_write(&world, 0, 0));
    assert_int_equal(lli_disk_completed(world.disk, &completion, 1), 0);
    assert_true(world.disk->yield.sleep_at > 0);
    lli_disk_submit(world.disk);
    world_await(&world, 1, 0, seen);
    assert_int_equal(world.disk->yield.sleep_at, 0);
    world_close(&world);
}

static void each_write_is_durable_if_asked_for(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct world world = world_open(sync == 1);
        int seen[PIECES] = {0};

        assert_true(world_write(&world, 0, 0));
        lli_disk_submit(world.disk);
        world_await(&world, 1, 0, seen);
        assert_int_equal(atomic_load(&fault_flags), sync == 1 ? 2 /* RWF_DSYNC */ : 0);
        world_close(&world);
    }
}

static void a_failure_is_reported_and_not_repeated(void **state)
{
    static const int errors[] = {ENOSPC, EIO};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world world = world_open(true);
        int seen[PIECES] = {0};

        atomic_store(&fault_error, errors[i]);
        assert_true(world_write(&world, 0, 1));
        assert_true(world_write(&world, 1, 2));
        lli_disk_submit(world.disk);
        world_await(&world, 2, errors[i], seen);
        atomic_store(&fault_error, 0);
        /* A write that comes after a failure has its own result. */
        assert_true(world_write(&world, 0, 3));
        lli_disk_submit(world.disk);
        world_await(&world, 1, 0, seen);
        assert_int_equal(seen[1] + seen[2] + seen[3], 3);
        world_expect(&world, 0, 3);
        world_close(&world);
    }
}

static void the_descriptor_is_readable_exactly_while_there_are_completions(void **state)
{
    struct world world = world_open(true);
    struct pollfd poller = {.fd = lli_disk_fd(world.disk), .events = POLLIN};
    struct lli_disk_completion completion;

    (void)state;
    for (int round = 0; round < 20; round++) {
        assert_int_equal(poll(&poller, 1, 0), 0);
        for (int piece = 0; piece < 3; piece++)
            assert_true(world_write(&world, 0, piece));
        assert_int_equal(poll(&poller, 1, 0), 0);
        lli_disk_submit(world.disk);
        for (int piece = 0; piece < 3; piece++) {
            do
                assert_int_equal(poll(&poller, 1, 60000), 1);
            while (lli_disk_completed(world.disk, &completion, 1) == 0);
        }
        assert_int_equal(lli_disk_completed(world.disk, &completion, 1), 0);
    }
    assert_int_equal(poll(&poller, 1, 0), 0);
    world_close(&world);
}

static void close_waits_for_queued_writes(void **state)
{
    struct world world = world_open(true);

    (void)state;
    atomic_store(&fault_delay_us, 20000);
    for (int piece = 0; piece < 3; piece++)
        assert_true(world_write(&world, 0, piece));
    lli_disk_submit(world.disk);
    assert_true(world_write(&world, 1, 3));
    lli_disk_close(&world.disk);
    atomic_store(&fault_delay_us, 0);
    for (int piece = 0; piece < 3; piece++)
        world_expect(&world, 0, piece);
    world_expect(&world, 1, 3);
    world_close(&world);
}

static void files_and_buffers_are_removed_and_their_places_used_again(void **state)
{
    struct world world = world_open(true);
    uint8_t *other = aligned_alloc(PIECE, PIECE);

    (void)state;
    assert_non_null(other);
    for (int round = 0; round < 3 * LLI_DISK_FILES; round++) {
        lli_disk_file_remove(world.disk, world.files[0]);
        world.files[0] = lli_disk_file_add(world.disk, world.fds[0]);
        assert_true(world.files[0] >= 0);
    }
    for (int round = 0; round < 10; round++) {
        struct lli_disk_write write = {.file = world.files[0], .bytes = other, .size = PIECE, .tag = 1000};
        uint8_t bytes[PIECE];
        int seen[PIECES] = {0};

        pattern_fill(other, PIECE, (uint64_t)round);
        write.buffer = lli_disk_buffer_add(world.disk, other, PIECE);
        assert_true(lli_disk_write(world.disk, &write));
        lli_disk_submit(world.disk);
        world_await(&world, 1, 0, seen);
        lli_disk_buffer_remove(world.disk, write.buffer);
        assert_int_equal(pread(world.fds[0], bytes, PIECE, 0), PIECE);
        pattern_check(bytes, PIECE, (uint64_t)round);
    }
    free(other);
    world_close(&world);
}

static void more_files_than_places_are_refused(void **state)
{
    struct world world = world_open(true);

    (void)state;
    for (int i = 2; i < LLI_DISK_FILES; i++)
        assert_true(lli_disk_file_add(world.disk, world.fds[0]) >= 0);
    assert_int_equal(lli_disk_file_add(world.disk, world.fds[0]), LLM_ELIMIT);
    expect_logged("sessions_max");
    world_close(&world);
}

/* ------------------------------------------------------------------------------------------ threads, fork */

static void *write_from_a_thread(void *arg)
{
    const struct world *world = arg;
    int seen[PIECES] = {0};

    for (int round = 0; round < 20; round++) {
        assert_true(world_write(world, 0, round));
        lli_disk_submit(world->disk);
        world_await(world, 1, 0, seen);
    }
    return NULL;
}

static void threads_use_an_engine_one_after_the_other(void **state)
{
    struct world world = world_open(true);

    (void)state;
    (void)write_from_a_thread(&world);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, write_from_a_thread, &world), 0);
        pthread_join(thread, NULL);
    }
    (void)write_from_a_thread(&world);
    world_close(&world);
}

static void *take_in_a_thread(void *arg)
{
    int seen[PIECES] = {0};

    world_await(arg, 8, 0, seen);
    return NULL;
}

static void another_thread_takes_completions(void **state)
{
    struct world world = world_open(true);

    (void)state;
    for (int round = 0; round < 10; round++) {
        pthread_t thread;

        for (int piece = 0; piece < 8; piece++)
            assert_true(world_write(&world, 0, piece));
        lli_disk_submit(world.disk);
        assert_int_equal(pthread_create(&thread, NULL, take_in_a_thread, &world), 0);
        pthread_join(thread, NULL);
    }
    world_close(&world);
}

static void a_forked_process_closes_without_harm(void **state)
{
    struct world world = world_open(true);
    int seen[PIECES] = {0}, status;
    pid_t child;

    (void)state;
    atomic_store(&fault_delay_us, 20000);
    assert_true(world_write(&world, 0, 0));
    lli_disk_submit(world.disk);
    child = fork();
    if (child == 0) {
        lli_disk_close(&world.disk);
        _exit(world.disk == NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    atomic_store(&fault_delay_us, 0);
    assert_true(world_write(&world, 0, 1));
    lli_disk_submit(world.disk);
    world_await(&world, 2, 0, seen);
    world_close(&world);
}

enum { KILLED_PIECE = 1 << 20, KILLED_PIECES = 48 };

/* Writes for longer than the process lives, which has a lock in the engine. */
static void write_and_die(const char *data, int lock)
{
    uint8_t *bytes = aligned_alloc(PIECE, (size_t)KILLED_PIECES * KILLED_PIECE);
    struct lli_disk_write write = {.bytes = bytes, .size = KILLED_PIECE};
    struct lli_disk *disk;
    int fd = open(data, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0600);

    /* A file system in memory has no O_DIRECT. */
    if (fd < 0)
        fd = open(data, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (bytes == NULL || fd < 0 || lli_disk_open(engine, true, &keeper, &disk) != LLM_OK ||
        lli_disk_file_add(disk, lock) < 0)
        _exit(1);
    /* Blocks that were written before are written again without a thread of the kernel, which would end first. */
    memset(bytes, 0, (size_t)KILLED_PIECES * KILLED_PIECE);
    if (pwrite(fd, bytes, (size_t)KILLED_PIECES * KILLED_PIECE, 0) < 0 || fsync(fd) != 0)
        _exit(1);
    memset(bytes, 1, (size_t)KILLED_PIECES * KILLED_PIECE);
    write.buffer = lli_disk_buffer_add(disk, bytes, (size_t)KILLED_PIECES * KILLED_PIECE);
    write.file = lli_disk_file_add(disk, fd);
    for (int piece = 0; piece < KILLED_PIECES; piece++) {
        (void)lli_disk_write(disk, &write);
        write.bytes += KILLED_PIECE;
        write.offset += KILLED_PIECE;
    }
    lli_disk_submit(disk);
    (void)raise(SIGKILL);
}

/* Counts the pages that were written. */
static int pages_written(const char *data)
{
    static uint8_t page[PIECE];
    const int fd = open(data, O_RDONLY | O_CLOEXEC);
    int count = 0;

    assert_true(fd >= 0);
    for (off_t at = 0; pread(fd, page, PIECE, at) == PIECE; at += PIECE)
        count += page[0] == 1 && page[PIECE - 1] == 1;
    close(fd);
    return count;
}

/* So the next process that has the lock finds all that will ever be on the disk. */
static void a_lock_lasts_until_the_writes_of_a_killed_process_have_ended(void **state)
{
    char data[96], path[96];
    pid_t child;
    int lock, status, count;

    (void)state;
    (void)snprintf(data, sizeof data, "%s/data", scratch);
    (void)snprintf(path, sizeof path, "%s/lock", scratch);
    child = fork();
    if (child == 0) {
        lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (lock < 0 || flock(lock, LOCK_EX) != 0)
            _exit(1);
        write_and_die(data, lock);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    lock = open(path, O_RDWR | O_CLOEXEC);
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    count = pages_written(data);
    usleep(200000);
    assert_int_equal(pages_written(data), count);
    close(lock);
}

/* The ring itself has its files, so they stay open after the process as long as writes do. */
static void a_ring_has_its_files_until_it_is_closed(void **state)
{
    struct world world = world_open(true);
    char path[96];
    int first, second, file;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/lock", scratch);
    first = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    second = open(path, O_RDWR | O_CLOEXEC);
    assert_true(first >= 0 && second >= 0);
    assert_int_equal(flock(first, LOCK_EX), 0);
    file = lli_disk_file_add(world.disk, first);
    assert_true(file >= 0);
    close(first);
    assert_int_not_equal(flock(second, LOCK_EX | LOCK_NB), 0);
    world_close(&world);
    /* The kernel releases it soon, not at once. */
    assert_int_equal(flock(second, LOCK_EX), 0);
    close(second);
}

static void no_descriptor_remains_open(void **state)
{
    const int before = descriptors_open();
    struct world world = world_open(true);

    (void)state;
    world_close(&world);
    assert_int_equal(descriptors_open(), before);
}

/* ----------------------------------------------------------------------------------------------- the choice */

static void the_engine_is_logged_with_the_reason(void **state)
{
    struct lli_disk *disk;

    (void)state;
    assert_int_equal(lli_disk_open(LLI_DISK_THREAD, true, &keeper, &disk), LLM_OK);
    expect_logged("engine thread");
    expect_logged("as configured");
    assert_string_equal(lli_disk_engine_name(disk), "thread");
    lli_disk_close(&disk);
    assert_int_equal(lli_disk_open(LLI_DISK_AUTO, true, &keeper, &disk), LLM_OK);
    expect_logged(has_uring() ? "engine uring" : "engine thread");
    assert_string_equal(lli_disk_engine_name(disk), has_uring() ? "uring" : "thread");
    lli_disk_close(&disk);
    lli_disk_close(&disk);
}

static void forbidden_io_uring_leaves_the_thread(void **state)
{
#ifdef LLI_WITH_URING
    static const struct {
        int error;
        const char *why;
    } cases[] = {
        {ENOSYS, "the kernel has no io_uring"},
        {EPERM, "seccomp"},
        {EINVAL, "Linux 5.19"},
        {ENOMEM, "ulimit -l"},
    };
    struct lli_disk *disk = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        atomic_store(&fault_forbidden, cases[i].error);
        assert_int_equal(lli_disk_open(LLI_DISK_AUTO, true, &keeper, &disk), LLM_OK);
        expect_logged(cases[i].why);
        assert_string_equal(lli_disk_engine_name(disk), "thread");
        lli_disk_close(&disk);
        assert_int_equal(lli_disk_open(LLI_DISK_URING, true, &keeper, &disk), LLM_ESYSTEM);
        expect_logged(cases[i].why);
        expect_logged("choose the engine thread");
        assert_null(disk);
    }
    atomic_store(&fault_forbidden, 0);
#else
    struct lli_disk *disk = NULL;

    (void)state;
    assert_int_equal(lli_disk_open(LLI_DISK_URING, true, &keeper, &disk), LLM_ESYSTEM);
    expect_logged("without liburing");
#endif
}

static void what_the_kernel_does_not_take_is_submitted_later(void **state)
{
    struct world world = world_open(true);
    struct lli_disk_completion completion;
    int seen[PIECES] = {0};

    (void)state;
    atomic_store(&fault_refused, true);
    assert_true(world_write(&world, 0, 0));
    lli_disk_submit(world.disk);
    assert_int_equal(lli_disk_completed(world.disk, &completion, 1), 0);
    atomic_store(&fault_refused, false);
    atomic_store(&fault_submissions, 0);
    while (lli_disk_completed(world.disk, &completion, 1) == 0)
        ;
    assert_int_equal(completion.tag, 1000);
    assert_int_equal(completion.error, 0);
    assert_int_equal(atomic_load(&fault_submissions), 1);
    /* All that is queued goes with one system call, and a call with nothing queued makes none. */
    for (int piece = 0; piece < 10; piece++)
        assert_true(world_write(&world, 0, piece));
    lli_disk_submit(world.disk);
    lli_disk_submit(world.disk);
    world_await(&world, 10, 0, seen);
    assert_int_equal(atomic_load(&fault_submissions), 2);
    world_close(&world);
}

static int with_thread(void **state)
{
    (void)state;
    engine = LLI_DISK_THREAD;
    return 0;
}

static int with_uring(void **state)
{
    (void)state;
    engine = LLI_DISK_URING;
    return 0;
}

#define TESTS_OF_BOTH(setup)                                                                           \
    cmocka_unit_test_setup(data_on_disk_is_what_was_written, setup),                                   \
        cmocka_unit_test_setup(writes_are_refused_while_all_places_are_taken, setup),                  \
        cmocka_unit_test_setup(a_wait_ends_with_a_completion, setup),                                  \
        cmocka_unit_test_setup(each_write_is_durable_if_asked_for, setup),                             \
        cmocka_unit_test_setup(a_failure_is_reported_and_not_repeated, setup),                         \
        cmocka_unit_test_setup(the_descriptor_is_readable_exactly_while_there_are_completions, setup), \
        cmocka_unit_test_setup(close_waits_for_queued_writes, setup),                                  \
        cmocka_unit_test_setup(files_and_buffers_are_removed_and_their_places_used_again, setup),      \
        cmocka_unit_test_setup(more_files_than_places_are_refused, setup),                             \
        cmocka_unit_test_setup(threads_use_an_engine_one_after_the_other, setup),                      \
        cmocka_unit_test_setup(another_thread_takes_completions, setup),                               \
        cmocka_unit_test_setup(a_forked_process_closes_without_harm, setup),                           \
        cmocka_unit_test_setup(a_lock_lasts_until_the_writes_of_a_killed_process_have_ended, setup),   \
        cmocka_unit_test_setup(no_descriptor_remains_open, setup)

int main(void)
{
    const struct CMUnitTest thread[] = {
        TESTS_OF_BOTH(with_thread),
        cmocka_unit_test(the_engine_is_logged_with_the_reason),
        cmocka_unit_test(forbidden_io_uring_leaves_the_thread),
    };
    const struct CMUnitTest uring[] = {
        TESTS_OF_BOTH(with_uring),
        cmocka_unit_test_setup(what_the_kernel_does_not_take_is_submitted_later, with_uring),
        cmocka_unit_test_setup(a_ring_has_its_files_until_it_is_closed, with_uring),
    };
    int failed;

    scratch_make();
    memory = aligned_alloc(PIECE, (size_t)PIECES * PIECE);
    for (int piece = 0; memory != NULL && piece < PIECES; piece++)
        pattern_fill(memory + (size_t)piece * PIECE, PIECE, (uint64_t)piece);
    failed = cmocka_run_group_tests_name("thread", thread, NULL, NULL);
    /* Without io_uring, or where it is forbidden, the thread is all there is. */
    if (has_uring())
        failed += cmocka_run_group_tests_name("uring", uring, NULL, NULL);
    scratch_remove();
    free(memory);
    return failed;
}
