/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool on a real directory. The functions of libc that are defined here take the place of the real ones, so
 * that a test can have them fail.
 */
#define _GNU_SOURCE
#include "store/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "store/pool.h"
#include "descriptors.h"

enum { SEGMENT = 3 << 20 };

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_INFO};
static atomic_int fault_allocate; /* errno of fallocate() */
static atomic_int fault_write;    /* errno of pwrite() of a MiB; EIO: it is short */
static atomic_bool fault_direct;  /* O_DIRECT is not possible: pread() of 4 KiB fails */
static atomic_bool wait_allocate; /* fallocate() waits */
static atomic_bool wait_write;    /* pwrite() of a MiB waits before it returns */
static atomic_uint filled;        /* MiB written by it */
static atomic_uint yields;

int sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    return (int)syscall(SYS_sched_yield);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    while (atomic_load(&wait_allocate))
        (void)usleep(1000);
    if (atomic_load(&fault_allocate) != 0) {
        errno = atomic_load(&fault_allocate);
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    ssize_t done;

    if (size == 1 << 20 && atomic_load(&fault_write) != 0) {
        errno = atomic_load(&fault_write);
        return -1;
    }
    done = syscall(SYS_pwrite64, fd, bytes, size, offset);
    if (size == 1 << 20)
        atomic_fetch_add(&filled, 1);
    while (size == 1 << 20 && atomic_load(&wait_write))
        (void)usleep(1000);
    return done;
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
    if (size == 4096 && atomic_load(&fault_direct)) {
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_pread64, fd, bytes, size, offset);
}

static struct lli_pool *pool_with(uint32_t spares, uint64_t reserve_bytes)
{
    const struct lli_pool_config config = {scratch, SEGMENT, spares, reserve_bytes};
    struct lli_pool *pool;

    assert_int_equal(lli_pool_open(&config, &keeper, &pool), LLM_OK);
    return pool;
}

static void await_spares(const struct lli_pool *pool, uint32_t spares)
{
    while (lli_pool_spares(pool) != spares)
        usleep(1000);
}

static struct lli_pool_segment await_segment(struct lli_pool *pool)
{
    struct pollfd poller = {.fd = lli_pool_fd(pool), .events = POLLIN};
    struct lli_pool_segment segment;

    while (!lli_pool_take(pool, &segment))
        assert_int_equal(poll(&poller, 1, 60000), 1);
    return segment;
}

static void close_segment(struct lli_pool *pool)
{
    struct lli_pool_segment segment = await_segment(pool);

    lli_pool_segment_close(&segment);
}

/* Asks for a segment, and closes it again. */
static void use_segment(struct lli_pool *pool, uint64_t session, uint64_t ordinal)
{
    assert_true(lli_pool_request(pool, session, ordinal, false));
    close_segment(pool);
}

static bool is_there(const char *name)
{
    struct stat file;
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", scratch, name);
    return stat(path, &file) == 0;
}

static void put_file(const char *name, off_t size)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", scratch, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
}

static void expect_segment(const struct lli_pool_segment *segment, const char *name)
{
    struct stat file;

    assert_int_equal(segment->error, 0);
    assert_string_equal(segment->name, name);
    assert_true(is_there(name));
    assert_int_equal(fstat(segment->fd, &file), 0);
    assert_int_equal(file.st_size, SEGMENT);
    assert_int_equal(fcntl(segment->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

/* --------------------------------------------------------------------------------------------- segments */

static void a_request_takes_a_spare_that_is_replaced(void **state)
{
    struct lli_pool *pool = pool_with(2, 0);
    struct lli_pool_segment segment;
    struct stat file;

    (void)state;
    await_spares(pool, 2);
    assert_true(lli_pool_request(pool, 0x1122334455667788, 100, false));
    segment = await_segment(pool);
    assert_true(segment.session == 0x1122334455667788 && segment.ordinal == 100);
    expect_segment(&segment, "1122334455667788/0000000000000064.segment");
    assert_true(segment.written);
    assert_int_equal(fstat(segment.fd, &file), 0);
    assert_true((uint64_t)file.st_blocks * 512 >= SEGMENT);
    lli_pool_segment_close(&segment);
    await_spares(pool, 2);
    assert_true(lli_pool_free_bytes(pool) > 0);
    lli_pool_close(&pool);
    assert_null(pool);
}

static void a_request_without_a_spare_is_served_at_once(void **state)
{
    struct lli_pool *pool = pool_with(0, 0);

    (void)state;
    for (uint64_t ordinal = 0; ordinal < 3; ordinal++)
        assert_true(lli_pool_request(pool, 7, ordinal, false));
    for (uint64_t ordinal = 0; ordinal < 3; ordinal++) {
        struct lli_pool_segment segment = await_segment(pool);
        char name[64];

        (void)snprintf(name, sizeof name, "0000000000000007/%016x.segment", (unsigned)ordinal);
        expect_segment(&segment, name);
        assert_false(segment.written);
        lli_pool_segment_close(&segment);
    }
    assert_false(is_there("spare/0.part"));
    lli_pool_close(&pool);
}

static void a_segment_takes_writes_as_it_says(void **state)
{
    struct lli_pool *pool = pool_with(1, 0);
    uint8_t *bytes = aligned_alloc(4096, 4096);

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 1, 4096);
    for (uint64_t ordinal = 0; ordinal < 2; ordinal++) {
        struct lli_pool_segment segment;

        assert_true(lli_pool_request(pool, 8, ordinal, false));
        segment = await_segment(pool);
        assert_int_equal((fcntl(segment.fd, F_GETFL) & O_DIRECT) != 0, segment.direct);
        assert_int_equal(pwrite(segment.fd, bytes, 4096, SEGMENT - 4096), 4096);
        assert_int_equal(pread(segment.fd, bytes, 4096, 0), 4096);
        assert_int_equal(bytes[0], 0);
        memset(bytes, 1, 4096);
        lli_pool_segment_close(&segment);
    }
    free(bytes);
    lli_pool_close(&pool);
}

static void a_retired_segment_is_used_again_without_its_header(void **state)
{
    struct lli_pool *pool = pool_with(1, 0);
    uint8_t *bytes = aligned_alloc(4096, 4096);
    struct lli_pool_segment segment;
    struct stat before, after;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 1, 4096);
    await_spares(pool, 1);
    /* No further spare can be made: a retired segment takes its place. */
    atomic_store(&fault_write, ENOSPC);
    assert_true(lli_pool_request(pool, 5, 1, false));
    segment = await_segment(pool);
    assert_int_equal(fstat(segment.fd, &before), 0);
    assert_int_equal(pwrite(segment.fd, bytes, 4096, 0), 4096);
    lli_pool_segment_close(&segment);
    put_file("0000000000000005/0000000000000001.index", 32);
    assert_true(lli_pool_retire(pool, 5, 1, true));
    await_spares(pool, 1);
    assert_true(lli_pool_request(pool, 6, 9, false));
    segment = await_segment(pool);
    assert_true(segment.written);
    assert_int_equal(fstat(segment.fd, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_int_equal(pread(segment.fd, bytes, 4096, 0), 4096);
    for (int at = 0; at < 4096; at++)
        assert_int_equal(bytes[at], 0);
    lli_pool_segment_close(&segment);
    atomic_store(&fault_write, 0);
    assert_false(is_there("0000000000000005"));
    free(bytes);
    lli_pool_close(&pool);
}

/* Records until there is a spare. */
static void record_until_spare(struct lli_pool *pool, bool behind)
{
    while (lli_pool_spares(pool) == 0) {
        lli_pool_recorded(pool, 4096, behind);
        usleep(1000);
    }
}

static void a_spare_is_filled_beside_a_recording(void **state)
{
    struct lli_pool *pool = pool_with(1, 0);

    (void)state;
    await_spares(pool, 1);
    for (uint64_t ordinal = 0; ordinal < 2; ordinal++) {
        use_segment(pool, 5, ordinal);
        record_until_spare(pool, false);
    }
    assert_true(lli_pool_request(pool, 5, 2, false));
    assert_true(await_segment(pool).written);
    lli_pool_close(&pool);
}

/* Everything would be written twice if one was filled for each segment, though another one is retired for it. */
static void no_spare_is_filled_where_a_retired_segment_is_expected(void **state)
{
    enum { LONGER_US = 300000 }; /* than the thread rests after each request */
    struct lli_pool *pool = pool_with(1, 0);
    struct lli_pool_segment segment;
    struct stat before, after;

    (void)state;
    await_spares(pool, 1);
    assert_true(lli_pool_request(pool, 5, 0, true));
    segment = await_segment(pool);
    assert_int_equal(fstat(segment.fd, &before), 0);
    lli_pool_segment_close(&segment);
    (void)usleep(LONGER_US);
    assert_int_equal(lli_pool_spares(pool), 0);
    assert_true(lli_pool_retire(pool, 5, 0, true));
    await_spares(pool, 1);
    /* None is expected now. */
    assert_true(lli_pool_request(pool, 5, 1, false));
    segment = await_segment(pool);
    assert_int_equal(fstat(segment.fd, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    lli_pool_segment_close(&segment);
    await_spares(pool, 1);
    lli_pool_close(&pool);
}

static void a_recorder_that_is_behind_gets_a_spare_that_is_not_written(void **state)
{
    struct lli_pool *pool = pool_with(1, 0);
    struct lli_pool_segment segment;
    struct stat before, after;

    (void)state;
    await_spares(pool, 1);
    /* None can be written either, if this process does not run for so long that the recorder seems to be idle. */
    atomic_store(&fault_write, ENOSPC);
    assert_true(lli_pool_request(pool, 5, 1, false));
    segment = await_segment(pool);
    assert_true(segment.written);
    assert_int_equal(fstat(segment.fd, &before), 0);
    lli_pool_segment_close(&segment);
    record_until_spare(pool, true);
    assert_true(lli_pool_request(pool, 5, 2, false));
    segment = await_segment(pool);
    assert_false(segment.written);
    assert_int_equal(fstat(segment.fd, &after), 0);
    assert_true((uint64_t)after.st_size == SEGMENT && after.st_ino != before.st_ino);
    lli_pool_segment_close(&segment);
    /* A retired segment, which is written, takes the place of the spare that is not. */
    record_until_spare(pool, true);
    assert_true(lli_pool_retire(pool, 5, 1, true));
    assert_true(lli_pool_request(pool, 6, 9, false));
    segment = await_segment(pool);
    assert_true(segment.written);
    assert_int_equal(fstat(segment.fd, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    lli_pool_segment_close(&segment);
    atomic_store(&fault_write, 0);
    lli_pool_close(&pool);
}

/* Returns the inode of the only file in spare/, which may be renamed meanwhile. */
static ino_t spare_inode(void)
{
    unsigned files = 0;
    char path[256];
    ino_t found = 0;

    (void)snprintf(path, sizeof path, "%s/spare", scratch);
    while (files != 1) {
        DIR *directory = opendir(path);
        const struct dirent *entry;

        assert_non_null(directory);
        for (files = 0; (entry = readdir(directory)) != NULL;)
            if (entry->d_name[0] != '.') {
                files++;
                found = entry->d_ino;
            }
        closedir(directory);
    }
    return found;
}

/* Takes the segment that was requested: the file that was the only spare, if `same`. */
static void expect_spare(struct lli_pool *pool, ino_t inode, bool same, bool written)
{
    struct lli_pool_segment segment = await_segment(pool);
    struct stat file;

    assert_int_equal(segment.written, written);
    assert_int_equal(fstat(segment.fd, &file), 0);
    assert_int_equal(file.st_ino == inode, same && segment.direct);
    assert_int_equal(file.st_size, SEGMENT);
    lli_pool_segment_close(&segment);
}

/* If a new one took its place, it would be removed, and its blocks discarded while recordings wait. */
static void a_spare_that_is_not_written_is_written_where_it_is(void **state)
{
    struct lli_pool *pool = pool_with(1, 0);
    ino_t inode;

    (void)state;
    await_spares(pool, 1);
    atomic_store(&fault_write, ENOSPC);
    use_segment(pool, 5, 1);
    record_until_spare(pool, true);
    atomic_store(&filled, 0);
    atomic_store(&fault_write, 0);
    inode = spare_inode();
    while (atomic_load(&filled) < SEGMENT >> 20)
        usleep(1000);
    await_spares(pool, 1);
    assert_true(lli_pool_request(pool, 5, 2, false));
    expect_spare(pool, inode, true, true);
    lli_pool_close(&pool);
}

/* Requests a segment while the first spare is being written. taken: it is that file. */
static void request_beside_a_write(bool direct, bool taken)
{
    struct lli_pool *pool;
    ino_t inode;

    atomic_store(&fault_direct, !direct);
    atomic_store(&filled, 0);
    atomic_store(&wait_write, true);
    pool = pool_with(1, 0);
    atomic_store(&fault_direct, false);
    while (atomic_load(&filled) == 0)
        usleep(1000);
    inode = spare_inode();
    assert_int_equal(lli_pool_spares(pool), 0);
    assert_true(lli_pool_request(pool, 5, 2, false));
    atomic_store(&wait_write, false);
    expect_spare(pool, inode, taken, false);
    lli_pool_close(&pool);
}

static void a_request_takes_the_spare_that_is_being_written_if_there_is_no_other(void **state)
{
    (void)state;
    request_beside_a_write(true, true);
}

/* All that was written of it would have to reach the disk first. */
static void a_request_takes_no_spare_that_is_being_written_in_the_page_cache(void **state)
{
    (void)state;
    request_beside_a_write(false, false);
}

static void retired_segments_beyond_the_spares_are_removed(void **state)
{
    struct lli_pool *pool = pool_with(0, 0);

    (void)state;
    for (uint64_t ordinal = 0; ordinal < 2; ordinal++)
        use_segment(pool, 5, ordinal);
    assert_true(lli_pool_retire(pool, 5, 0, true));
    /* Jobs are done in order. */
    use_segment(pool, 6, 0);
    assert_false(is_there("0000000000000005/0000000000000000.segment"));
    assert_true(is_there("0000000000000005/0000000000000001.segment"));
    assert_true(lli_pool_retire(pool, 5, 1, true));
    assert_true(lli_pool_retire(pool, 99, 1, true));
    use_segment(pool, 6, 1);
    assert_false(is_there("0000000000000005"));
    assert_int_equal(lli_pool_spares(pool), 0);
    lli_pool_close(&pool);
}

static void a_segment_that_must_not_be_used_again_is_removed(void **state)
{
    struct lli_pool *pool = pool_with(1, 0);

    (void)state;
    await_spares(pool, 1);
    /* No further spare can be made: only a retired segment could take its place. */
    atomic_store(&fault_write, ENOSPC);
    use_segment(pool, 5, 0);
    assert_true(lli_pool_retire(pool, 5, 0, false));
    assert_true(lli_pool_request(pool, 6, 0, false));
    assert_false(await_segment(pool).written);
    assert_false(is_there("0000000000000005"));
    assert_int_equal(lli_pool_spares(pool), 0);
    atomic_store(&fault_write, 0);
    lli_pool_close(&pool);
}

static void a_segment_of_the_same_name_is_replaced(void **state)
{
    struct lli_pool *pool = pool_with(0, 0);
    uint64_t inode = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct lli_pool_segment segment;
        struct stat file;

        assert_true(lli_pool_request(pool, 5, 0, false));
        segment = await_segment(pool);
        expect_segment(&segment, "0000000000000005/0000000000000000.segment");
        assert_int_equal(fstat(segment.fd, &file), 0);
        assert_true(file.st_ino != inode);
        inode = file.st_ino;
        assert_int_equal(fstat(segment.index_fd, &file), 0);
        assert_int_equal(file.st_size, 0);
        put_file("0000000000000005/0000000000000000.index", 32);
        assert_int_equal(fstat(segment.index_fd, &file), 0);
        assert_int_equal(file.st_size, 32);
        lli_pool_segment_close(&segment);
    }
    lli_pool_close(&pool);
}

static void segments_that_nobody_took_are_gone_after_close(void **state)
{
    const int before = descriptors_open();
    struct pollfd poller;
    struct lli_pool *pool = pool_with(1, 0);

    (void)state;
    poller = (struct pollfd){.fd = lli_pool_fd(pool), .events = POLLIN};
    await_spares(pool, 1);
    assert_true(lli_pool_request(pool, 5, 0, false));
    assert_int_equal(poll(&poller, 1, 60000), 1);
    lli_pool_close(&pool);
    assert_false(is_there("0000000000000005"));
    assert_int_equal(descriptors_open(), before);
}

static void segments_that_were_retired_are_gone_after_close(void **state)
{
    struct lli_pool *pool = pool_with(0, 0);

    (void)state;
    for (uint64_t ordinal = 0; ordinal < 8; ordinal++)
        use_segment(pool, 5, ordinal);
    for (uint64_t ordinal = 0; ordinal < 8; ordinal++)
        assert_true(lli_pool_retire(pool, 5, ordinal, true));
    lli_pool_close(&pool);
    assert_false(is_there("0000000000000005"));
}

static void too_many_requests_are_refused(void **state)
{
    struct lli_pool *pool = pool_with(0, 0);
    struct pollfd poller = {.fd = lli_pool_fd(pool), .events = POLLIN};
    struct lli_pool_segment segment;

    (void)state;
    for (uint64_t ordinal = 0; ordinal < LLI_POOL_REQUESTS; ordinal++)
        assert_true(lli_pool_request(pool, 5, ordinal, false));
    assert_false(lli_pool_request(pool, 5, LLI_POOL_REQUESTS, false));
    for (uint64_t ordinal = 0; ordinal < LLI_POOL_REQUESTS; ordinal++) {
        segment = await_segment(pool);
        assert_true(segment.ordinal == ordinal);
        lli_pool_segment_close(&segment);
    }
    assert_int_equal(poll(&poller, 1, 0), 0);
    assert_false(lli_pool_take(pool, &segment));
    use_segment(pool, 5, LLI_POOL_REQUESTS);
    lli_pool_close(&pool);
}

/* -------------------------------------------------------------------------------------------- a full disk */

static void a_reserve_that_is_reached_fails_requests(void **state)
{
    struct lli_pool *pool = pool_with(1, UINT64_MAX);
    struct lli_pool_segment segment;

    (void)state;
    assert_true(lli_pool_request(pool, 5, 0, false));
    segment = await_segment(pool);
    assert_int_equal(segment.error, ENOSPC);
    assert_int_equal(segment.fd, -1);
    assert_int_equal(lli_pool_spares(pool), 0);
    assert_true(lli_pool_free_bytes(pool) == 0);
    lli_pool_close(&pool);
    assert_false(is_there("0000000000000005/0000000000000000.segment"));
}

static void an_error_of_allocation_ends_the_request_with_it(void **state)
{
    static const int errors[] = {ENOSPC, EDQUOT, EROFS};
    struct lli_pool *pool = pool_with(0, 0);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct lli_pool_segment segment;

        atomic_store(&fault_allocate, errors[i]);
        assert_true(lli_pool_request(pool, 5, 0, false));
        segment = await_segment(pool);
        atomic_store(&fault_allocate, 0);
        assert_int_equal(segment.error, errors[i]);
    }
    lli_pool_close(&pool);
    assert_false(is_there("0000000000000005/0000000000000000.segment"));
}

static void a_file_system_without_allocation_gets_sparse_segments(void **state)
{
    struct lli_pool *pool = pool_with(0, 0);
    struct lli_pool_segment segment;

    (void)state;
    atomic_store(&fault_allocate, EOPNOTSUPP);
    assert_true(lli_pool_request(pool, 5, 0, false));
    segment = await_segment(pool);
    atomic_store(&fault_allocate, 0);
    expect_segment(&segment, "0000000000000005/0000000000000000.segment");
    lli_pool_segment_close(&segment);
    lli_pool_close(&pool);
}

/* On a core that both share, the thread would else wait for the end of the caller's time slice. */
static void a_caller_yields_to_the_thread_while_a_request_is_not_finished(void **state)
{
    struct lli_pool *pool = pool_with(0, 0);
    struct lli_pool_segment segment;

    (void)state;
    atomic_store(&yields, 0);
    assert_false(lli_pool_take(pool, &segment));
    assert_int_equal(atomic_load(&yields), 0);
    atomic_store(&wait_allocate, true);
    assert_true(lli_pool_request(pool, 5, 1, false));
    assert_false(lli_pool_take(pool, &segment));
    assert_int_equal(atomic_load(&yields), 1);
    atomic_store(&wait_allocate, false);
    close_segment(pool);
    atomic_store(&yields, 0);
    assert_false(lli_pool_take(pool, &segment));
    assert_int_equal(atomic_load(&yields), 0);
    lli_pool_close(&pool);
}

static void a_spare_that_cannot_be_written_is_removed_and_reported(void **state)
{
    struct lli_pool *pool;
    struct lli_pool_segment segment;

    (void)state;
    atomic_store(&fault_write, EDQUOT);
    pool = pool_with(1, 0);
    logged[0] = '\0';
    while (logged[0] == '\0') {
        assert_false(lli_pool_take(pool, &segment));
        usleep(1000);
    }
    expect_logged("no spare file");
    expect_logged(strerror(EDQUOT));
    assert_int_equal(lli_pool_spares(pool), 0);
    lli_pool_close(&pool);
    atomic_store(&fault_write, 0);
    assert_false(is_there("spare/0.part"));
    assert_false(is_there("spare/0.segment"));
}

/* Runs in a process with a small or read-only file system at the directory. 77: that is not possible here. */
static int in_a_mount(const char *options, unsigned long flags, int (*test)(void))
{
    const pid_t child = fork();
    int status;

    if (child == 0) {
        if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0 ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", scratch, "tmpfs", flags, options) != 0)
            _exit(77);
        _exit(test());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int fill_a_small_disk(void)
{
    struct lli_pool *pool = pool_with(0, 0);
    struct lli_pool_segment segment;
    uint64_t ordinal = 0;

    do {
        if (!lli_pool_request(pool, 5, ordinal++, false))
            return 1;
        segment = await_segment(pool);
        if (segment.fd >= 0)
            lli_pool_segment_close(&segment);
    } while (segment.error == 0 && ordinal < 10);
    if (segment.error != ENOSPC || ordinal != 3)
        return 2;
    /* A retired segment makes room. */
    if (!lli_pool_retire(pool, 5, 0, true) || !lli_pool_request(pool, 5, ordinal, false))
        return 3;
    segment = await_segment(pool);
    lli_pool_close(&pool);
    return segment.error == 0 ? 0 : 4;
}

static void a_full_disk_fails_requests_until_a_segment_is_retired(void **state)
{
    const int status = in_a_mount("size=7m", 0, fill_a_small_disk);

    (void)state;
    assert_true(status == 0 || status == 77);
}

static int open_a_read_only_one(void)
{
    const struct lli_pool_config config = {scratch, SEGMENT, 1, 0};
    struct lli_pool *pool = NULL;

    return lli_pool_open(&config, &keeper, &pool) == LLM_EACCESS && pool == NULL &&
                   strstr(logged, "read-only") != NULL && strstr(logged, "remount,rw") != NULL
               ? 0
               : 1;
}

static void a_read_only_file_system_is_refused(void **state)
{
    const int status = in_a_mount("size=1m", MS_RDONLY, open_a_read_only_one);

    (void)state;
    assert_true(status == 0 || status == 77);
}

/* ---------------------------------------------------------------------------------------------------- open */

static void expect_refused(const struct lli_pool_config *config, int error, const char *text)
{
    struct lli_pool *pool = NULL;

    logged[0] = '\0';
    assert_int_equal(lli_pool_open(config, &keeper, &pool), error);
    assert_null(pool);
    expect_logged(text);
}

static void a_second_store_is_refused_with_the_pid_of_the_first(void **state)
{
    const struct lli_pool_config config = {scratch, SEGMENT, 0, 0};
    struct lli_pool *pool = pool_with(0, 0);
    char text[64];

    (void)state;
    (void)snprintf(text, sizeof text, "the store of process %ld has this directory", (long)getpid());
    expect_refused(&config, LLM_ESTATE, text);
    lli_pool_close(&pool);
    pool = pool_with(0, 0);
    lli_pool_close(&pool);
}

static void a_store_that_dies_leaves_the_directory_to_the_next(void **state)
{
    struct lli_pool *pool;
    int ready[2], status;
    char byte;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (child == 0) {
        pool = pool_with(1, 0);
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    pool = pool_with(1, 0);
    await_spares(pool, 1);
    lli_pool_close(&pool);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ready[0]);
    close(ready[1]);
}

static void a_forked_process_closes_without_harm(void **state)
{
    const struct lli_pool_config config = {scratch, SEGMENT, 0, 0};
    struct lli_pool *pool = pool_with(1, 0);
    int status;
    pid_t child;

    (void)state;
    await_spares(pool, 1);
    child = fork();
    if (child == 0) {
        lli_pool_close(&pool);
        _exit(pool == NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* The lock is still that of this process, and so is the thread. */
    expect_refused(&config, LLM_ESTATE, "has this directory");
    use_segment(pool, 5, 0);
    lli_pool_close(&pool);
}

static void an_unusable_directory_is_refused_with_a_remedy(void **state)
{
    struct lli_pool_config config = {.segment_bytes = SEGMENT};
    char path[600];

    (void)state;
    config.directory = path;
    (void)snprintf(path, sizeof path, "%s/absent", scratch);
    expect_refused(&config, LLM_ENOTFOUND, "run 'mkdir -p ");
    put_file("plain", 0);
    (void)snprintf(path, sizeof path, "%s/plain", scratch);
    expect_refused(&config, LLM_ESYSTEM, "is not a directory");
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    expect_refused(&config, LLM_EOPTION, "has 599 bytes: at most 255");
}

/* Runs as another user, who has neither the directory nor the right to write to it. */
static int open_as_another_user(void)
{
    const struct lli_pool_config config = {scratch, SEGMENT, 0, 0};
    struct lli_pool *pool = NULL;

    if (seteuid(65534) != 0)
        return 77;
    return lli_pool_open(&config, &keeper, &pool) == LLM_EACCESS && strstr(logged, "of user 0") != NULL ? 0
                                                                                                        : 1;
}

static int open_without_permission(void)
{
    const struct lli_pool_config config = {scratch, SEGMENT, 0, 0};
    struct lli_pool *pool = NULL;

    if (chown(scratch, 65534, 65534) != 0 || chmod(scratch, 0555) != 0 || seteuid(65534) != 0)
        return 77;
    return lli_pool_open(&config, &keeper, &pool) == LLM_EACCESS && strstr(logged, "chmod u+rwx") != NULL ? 0
                                                                                                          : 1;
}

static void a_directory_of_another_user_or_without_permission_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    assert_int_equal(in_a_mount("mode=0777", 0, open_as_another_user), 0);
    assert_int_equal(in_a_mount("mode=0777", 0, open_without_permission), 0);
}

static void values_out_of_range_are_refused(void **state)
{
    struct lli_pool_config config = {scratch, SEGMENT + 1, 0, 0};
    struct rlimit before, lower;

    (void)state;
    expect_refused(&config, LLM_EOPTION, "multiple of 4096");
    config.segment_bytes = 0;
    expect_refused(&config, LLM_EOPTION, "multiple of 4096");
    config = (struct lli_pool_config){scratch, SEGMENT, LLI_POOL_SPARES_MAX + 1, 0};
    expect_refused(&config, LLM_EOPTION, "at most 64");
    config.spares = 0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    lower = (struct rlimit){SEGMENT - 1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &lower), 0);
    expect_refused(&config, LLM_ELIMIT, "ulimit -f");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static void spares_are_found_again_and_what_was_not_completed_is_removed(void **state)
{
    struct lli_pool *pool = pool_with(2, 0);
    struct lli_pool_segment segment;

    (void)state;
    await_spares(pool, 2);
    lli_pool_close(&pool);
    put_file("spare/77.part", SEGMENT);
    put_file("spare/78.segment", SEGMENT - 4096);
    put_file("spare/other", 1);
    put_file("spare/079.segment", SEGMENT);
    pool = pool_with(2, 0);
    assert_int_equal(lli_pool_spares(pool), 2);
    assert_false(is_there("spare/77.part"));
    assert_false(is_there("spare/78.segment"));
    assert_false(is_there("spare/other"));
    assert_false(is_there("spare/079.segment"));
    assert_true(lli_pool_request(pool, 5, 0, false));
    segment = await_segment(pool);
    assert_true(segment.written);
    lli_pool_segment_close(&segment);
    lli_pool_close(&pool);
    /* Fewer are wanted now. */
    pool = pool_with(1, 0);
    assert_int_equal(lli_pool_spares(pool), 1);
    lli_pool_close(&pool);
}

static void no_descriptor_remains_open(void **state)
{
    const int before = descriptors_open();
    struct lli_pool *pool = pool_with(1, 0);

    (void)state;
    await_spares(pool, 1);
    lli_pool_close(&pool);
    lli_pool_close(&pool);
    assert_int_equal(descriptors_open(), before);
}

static int make_directory(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

#define POOL_TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        POOL_TEST(a_request_takes_a_spare_that_is_replaced),
        POOL_TEST(a_request_without_a_spare_is_served_at_once),
        POOL_TEST(a_segment_takes_writes_as_it_says),
        POOL_TEST(a_retired_segment_is_used_again_without_its_header),
        POOL_TEST(a_spare_is_filled_beside_a_recording),
        POOL_TEST(no_spare_is_filled_where_a_retired_segment_is_expected),
        POOL_TEST(a_recorder_that_is_behind_gets_a_spare_that_is_not_written),
        POOL_TEST(a_spare_that_is_not_written_is_written_where_it_is),
        POOL_TEST(a_request_takes_the_spare_that_is_being_written_if_there_is_no_other),
        POOL_TEST(a_request_takes_no_spare_that_is_being_written_in_the_page_cache),
        POOL_TEST(retired_segments_beyond_the_spares_are_removed),
        POOL_TEST(a_segment_that_must_not_be_used_again_is_removed),
        POOL_TEST(a_segment_of_the_same_name_is_replaced),
        POOL_TEST(segments_that_nobody_took_are_gone_after_close),
        POOL_TEST(segments_that_were_retired_are_gone_after_close),
        POOL_TEST(too_many_requests_are_refused),
        POOL_TEST(a_reserve_that_is_reached_fails_requests),
        POOL_TEST(an_error_of_allocation_ends_the_request_with_it),
        POOL_TEST(a_file_system_without_allocation_gets_sparse_segments),
        POOL_TEST(a_caller_yields_to_the_thread_while_a_request_is_not_finished),
        POOL_TEST(a_spare_that_cannot_be_written_is_removed_and_reported),
        POOL_TEST(a_full_disk_fails_requests_until_a_segment_is_retired),
        POOL_TEST(a_read_only_file_system_is_refused),
        POOL_TEST(a_second_store_is_refused_with_the_pid_of_the_first),
        POOL_TEST(a_store_that_dies_leaves_the_directory_to_the_next),
        POOL_TEST(a_forked_process_closes_without_harm),
        POOL_TEST(an_unusable_directory_is_refused_with_a_remedy),
        POOL_TEST(a_directory_of_another_user_or_without_permission_is_refused),
        POOL_TEST(values_out_of_range_are_refused),
        POOL_TEST(spares_are_found_again_and_what_was_not_completed_is_removed),
        POOL_TEST(no_descriptor_remains_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
