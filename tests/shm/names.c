/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permissions to write under a name and to read it, the files of a name, and the messages when they cannot be
 * created.
 */
#define _GNU_SOURCE
#include "shm_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { OTHER_USER = 65534, SKIPPED = 77 };

/* Shared by a test and its process. */
struct shared {
    struct llm_options options;
    _Atomic uint64_t step;      /* step of the process, */
    _Atomic uint64_t go;        /* and of the test */
    char text[sizeof log_text]; /* log line of the process */
    uint64_t number;
};

static struct shared *shared_open(void)
{
    struct shared *shared = shared_memory(sizeof *shared);

    shared->options = small_options();
    return shared;
}

static void shared_close(struct shared *shared)
{
    shared_free(shared, sizeof *shared);
}

/* ------------------------------------------------------------------------------------ permission to write */

static int write_until_killed(void *arg)
{
    struct shared *shared = arg;
    struct station writer;

    open_writer(&writer, &shared->options);
    atomic_store(&shared->step, 1);
    pause();
    return 0;
}

static void expect_taken(const struct llm_options *options, const char *text, pid_t pid)
{
    struct station station;
    char process[64];

    snprintf(process, sizeof process, "prices: process %d transmits there%s", (int)pid, text);
    assert_int_equal(try_writer(&station, options), LLM_EADDRINUSE);
    expect_logged(process);
    expect_logged("shm_exclusive=0");
    expect_logged("take another name");
}

static void a_second_writer_is_refused_unless_both_share(void **state)
{
    const struct llm_options options = small_options();
    struct station first, second;
    lli_handle handle;

    (void)state;
    open_writer(&first, &options);
    expect_taken(&options, " already", getpid());
    own_set("shm_exclusive", "0");
    expect_taken(&options, " with shm_exclusive=1", getpid());
    /* Also on the same instance. */
    assert_int_equal(station_join(&first, NAME, 0, LLI_JOIN_SEND, &handle), LLM_EADDRINUSE);
    expect_logged("already");
    assert_int_equal(station_join(&first, NAME, 1, LLI_JOIN_SEND, &handle), 0);
    station_close(&first);

    open_writer(&first, &options);
    own_set("shm_exclusive", "1");
    expect_taken(&options, " already", getpid());
    own_set("shm_exclusive", "0");
    open_writer(&second, &options);
    assert_int_equal(station_join(&second, NAME, 0, LLI_JOIN_SEND, &handle), 0);
    assert_int_equal(files_of(NAME, ".data"), 3);
    assert_int_equal(files_of(NAME, ".bell"), 3);
    station_close(&first);
    /* The option of the last writer counts. */
    own_set("shm_exclusive", "1");
    expect_taken(&options, " already", getpid());
    transport->leave(second.instance, second.send, LLI_JOIN_SEND);
    expect_taken(&options, " already", getpid());
    transport->leave(second.instance, handle, LLI_JOIN_SEND);
    open_writer(&first, &options);
    station_close(&first);
    station_close(&second);
}

/* Joins to send beside all others. */
static int join_beside(struct station *station, lli_handle *handle)
{
    const struct lli_group group = {
        .host = NAME, .options = &station->options, .values = &station->values, .shared = true};

    return transport->join(station->instance, &group, LLI_JOIN_SEND, handle);
}

/* A store that runs when its transmitter starts again, for one. */
static void a_writer_beside_others_refuses_none_and_is_not_refused(void **state)
{
    const struct llm_options options = small_options();
    struct station beside, writer;
    lli_handle handles[2];

    (void)state;
    open_reader(&beside, &options);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(join_beside(&beside, &handles[0]), 0);
        open_writer(&writer, &options);
        assert_int_equal(join_beside(&beside, &handles[1]), 0);
        expect_taken(&options, " already", getpid());
        assert_int_equal(files_of(NAME, ".data"), 3);
        transport->leave(beside.instance, handles[0], LLI_JOIN_SEND);
        transport->leave(beside.instance, handles[1], LLI_JOIN_SEND);
        assert_int_equal(files_of(NAME, ".data"), 1);
        station_close(&writer);
    }
    station_close(&beside);
}

static void the_writing_process_is_named(void **state)
{
    struct shared *shared = shared_open();
    pid_t pid;

    (void)state;
    pid = process_start(write_until_killed, shared);
    await_value(&shared->step, 1);
    expect_taken(&shared->options, " already", pid);
    process_kill(pid);
    next_writer(&shared->options);
    shared_close(shared);
}

/* The next writer removes the files of the previous writer. */
static void a_name_is_free_when_its_writer_left_or_was_killed(void **state)
{
    struct shared *shared = shared_open();
    struct station writer;

    (void)state;
    for (int round = 0; round < 10; round++) {
        const pid_t pid = process_start(write_until_killed, shared);

        await_value(&shared->step, 1);
        process_kill(pid);
        atomic_store(&shared->step, 0);
        assert_int_equal(files_of(NAME, ".data"), 1);
        own_number("shm_exclusive", round % 2 == 0);
        open_writer(&writer, &shared->options);
        assert_int_equal(files_of(NAME, ".data"), 1);
        assert_int_equal(files_of(NAME, ".bell"), 1);
        assert_int_equal(files_of("@", ""), 1);
        station_close(&writer);
        assert_int_equal(files_of(NAME, ""), 0);
    }
    shared_close(shared);
}

static void the_last_writer_removes_the_files_of_a_killed_writer(void **state)
{
    struct shared *shared = shared_open();
    struct station writer;
    pid_t pid;

    (void)state;
    own_set("shm_exclusive", "0");
    pid = process_start(write_until_killed, shared);
    await_value(&shared->step, 1);
    open_writer(&writer, &shared->options);
    process_kill(pid);
    assert_int_equal(files_of(NAME, ".data"), 2);
    transport->leave(writer.instance, writer.send, LLI_JOIN_SEND);
    assert_int_equal(files_of("", NAME), 0);
    station_close(&writer);
    next_writer(&shared->options);
    shared_close(shared);
}

/* Writers that share a name join and leave; none disturbs another. */
static int come_and_go(void *arg)
{
    struct shared *shared = arg;

    for (int i = 0; i < 1500; i++) {
        struct station writer;

        if (try_writer(&writer, &shared->options) != 0) {
            snprintf(shared->text, sizeof shared->text, "%s", log_text);
            return 1;
        }
        station_close(&writer);
    }
    return 0;
}

static void writers_that_share_a_name_never_refuse_each_other(void **state)
{
    struct shared *shared = shared_open();
    pid_t pids[3];
    int failed = 0;

    (void)state;
    own_set("shm_exclusive", "0");
    for (int i = 0; i < 3; i++)
        pids[i] = process_start(come_and_go, shared);
    for (int i = 0; i < 3; i++)
        failed += process_end(pids[i]) != 0;
    if (failed > 0)
        fail_msg("%s", shared->text);
    shared_close(shared);
}

static void half_created_files_do_not_prevent_a_new_writer(void **state)
{
    const struct llm_options options = small_options();
    static struct lli_shm_bell bell;
    struct station writer;
    char path[256];
    struct stat file;
    int fd;

    (void)state;
    snprintf(path, sizeof path, "%s/llm", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/" NAME);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/0123456789abcdef.bell");
    memcpy(bell.magic, LLI_SHM_BELL_MAGIC, sizeof bell.magic);
    fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_int_equal(write(fd, &bell, sizeof bell), sizeof bell);
    close(fd);
    open_writer(&writer, &options);
    assert_int_equal(files_of(NAME, ""), 3);
    snprintf(path, sizeof path, "%s/llm", directory);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 07777, 01777);
    station_close(&writer);
}

/* -------------------------------------------------------------------------------------------------- modes */

static mode_t mode_of(const char *name, const char *ending)
{
    char command[256], path[256] = "";
    struct stat file;
    FILE *found;

    snprintf(command, sizeof command, "ls -d %s/llm/%s%s", directory, name, ending);
    found = popen(command, "r");
    assert_non_null(found);
    assert_int_equal(fscanf(found, "%255s", path), 1);
    pclose(found);
    assert_int_equal(stat(path, &file), 0);
    return file.st_mode & 07777;
}

static void files_have_the_configured_mode(void **state)
{
    static const struct {
        const char *text;
        mode_t directory, data, other;
    } modes[] = {{"0600", 0700, 0600, 0600},
                 {"0640", 0750, 0640, 0660},
                 {"644", 0755, 0644, 0666},
                 {"0604", 0705, 0604, 0606}};
    const mode_t mask = umask(077);

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct llm_options options = small_options();
        struct station writer;

        own_set("shm_mode", modes[i].text);
        open_writer(&writer, &options);
        assert_int_equal(mode_of("", ""), 01777);
        assert_int_equal(mode_of("@", ""), 01777);
        assert_int_equal(mode_of(NAME, ""), modes[i].directory);
        assert_int_equal(mode_of(NAME, "/*.data"), modes[i].data);
        assert_int_equal(mode_of(NAME, "/*.bell"), modes[i].other);
        assert_int_equal(mode_of(NAME, "/lock"), 0600);
        assert_int_equal(mode_of("@", "/*"), modes[i].other);
        station_close(&writer);
    }
    umask(mask);
}

static void invalid_modes_are_refused(void **state)
{
    static const char *const wrong[] = {"",     "0666", "0700", "0200", "0400",
                                        "1600", "600x", "rw",   "-600", " 600"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct llm_options options = small_options();
        struct station station;
        char text[32];

        own_set("shm_mode", wrong[i]);
        snprintf(text, sizeof text, "shm_mode=%s:", wrong[i]);
        assert_int_equal(instance_open(&station, NAME, &options), LLM_EOPTION);
        expect_logged(text);
        expect_logged("0600, 0640 or 0644");
    }
}

static void invalid_names_are_refused(void **state)
{
    static const char *const wrong[] = {"",    ".",    "..",  ".hidden", "@",       "-x",
                                        "a/b", "../x", "a b", "a\n",     "\xc3\xa4"};
    const struct llm_options options = small_options();
    struct station station;
    lli_handle handle;
    char longest[66] = "";

    (void)state;
    assert_int_equal(instance_open(&station, NAME, &options), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(station_join(&station, wrong[i], 0, LLI_JOIN_SEND, &handle), LLM_EGROUP);
        expect_logged(wrong[i]);
        expect_logged("1 to 64 letters");
    }
    memset(longest, 'x', 65);
    assert_int_equal(station_join(&station, longest, 0, LLI_JOIN_SEND, &handle), LLM_EGROUP);
    longest[64] = '\0';
    assert_int_equal(station_join(&station, longest, 65535, LLI_JOIN_SEND, &handle), 0);
    assert_int_equal(files_of(longest, ""), 0);
    assert_int_equal(station_join(&station, "A.b_c:d-9", 0, LLI_JOIN_SEND, &handle), 0);
    assert_int_equal(files_of("A.b_c:d-9", ".data"), 1);
    station_close(&station);
}

/* -------------------------------------------------------------------------------------------- other users */

/* Becomes another user. False: only root can. A process that is that user already stays that user. */
static bool become_another(void)
{
    return geteuid() == 0 && setresgid(OTHER_USER, OTHER_USER, OTHER_USER) == 0 &&
           setresuid(OTHER_USER, OTHER_USER, OTHER_USER) == 0;
}

/* Joins as another user, and returns the result; then receives one packet. */
static int read_as_another(void *arg)
{
    struct shared *shared = arg;
    struct station reader;
    int status;

    if (!become_another())
        return SKIPPED;
    status = try_reader(&reader, &shared->options);
    strcpy(shared->text, log_text);
    atomic_store(&shared->step, 1);
    if (status != 0)
        return -status;
    while (atomic_load(&shared->go) == 0)
        sched_yield();
    station_look(&reader);
    shared->number = station_counter(&reader, "shm_attach_errors");
    for (int i = 0; i < 3; i++) {
        transport->report(reader.instance);
        station_look(&reader);
    }
    strcpy(shared->text, log_text);
    if (shared->number == 0)
        station_expect(&reader, reader.receive, "for all", 7);
    station_close(&reader);
    return 0;
}

static void readers_of_other_users_are_admitted_or_refused_with_advice(void **state)
{
    struct shared *shared = shared_open();
    struct llm_options mine = small_options();
    struct station writer;
    char text[128];
    pid_t pid;
    int status;

    (void)state;
    open_writer(&writer, &mine);
    own_set("shm_mode", "0644");
    status = process_end(process_start(read_as_another, shared));
    if (status == SKIPPED) {
        station_close(&writer);
        shared_close(shared);
        skip(); /* only root can become another user */
    }
    assert_int_equal(status, -LLM_EACCESS);
    snprintf(text, sizeof text, "%s/llm/%s: is of user %u, with mode 0700", directory, NAME,
             (unsigned)geteuid());
    strcpy(log_text, shared->text);
    expect_logged(text);
    expect_logged("shm_mode=0640 or 0644");
    station_close(&writer);

    open_writer(&writer, &mine);
    atomic_store(&shared->step, 0);
    pid = process_start(read_as_another, shared);
    await_value(&shared->step, 1);
    station_send(&writer, writer.send, "for all", 7);
    atomic_store(&shared->go, 1);
    assert_int_equal(process_end(pid), 0);
    station_close(&writer);
    shared_close(shared);
}

static void a_waiting_reader_counts_unreadable_segments(void **state)
{
    struct shared *shared = shared_open();
    const struct llm_options mine = small_options();
    struct station writer;
    char text[256];
    pid_t pid;

    (void)state;
    if (geteuid() != 0) {
        shared_close(shared);
        skip(); /* only root can become another user */
    }
    pid = process_start(read_as_another, shared);
    await_value(&shared->step, 1);
    open_writer(&writer, &mine);
    atomic_store(&shared->go, 1);
    assert_int_equal(process_end(pid), 0);
    assert_true(shared->number > 0);
    /* The first reader gets a log line, as later ones do. */
    snprintf(
        text, sizeof text,
        "%s/llm/%s: is of user 0, with mode 0700; have its transmitter open it with shm_mode=0640 or 0644",
        directory, NAME);
    strcpy(log_text, shared->text);
    expect_logged_once(text);
    station_close(&writer);
    shared_close(shared);
}

/*
 * The mode is that of the current writer, not of a killed one; of several writers, the most open of their
 * modes.
 */
static void a_reused_name_has_the_mode_of_its_current_writers(void **state)
{
    struct shared *shared = shared_open();
    const struct llm_options options = small_options();
    struct station first, second;

    (void)state;
    process_kill(process_start(write_until_killed, shared));
    own_set("shm_mode", "0644");
    open_writer(&first, &options);
    assert_int_equal(mode_of(NAME, ""), 0755);
    station_close(&first);
    own_set("shm_exclusive", "0");
    own_set("shm_mode", "0600");
    open_writer(&first, &options);
    own_set("shm_mode", "0644");
    open_writer(&second, &options);
    assert_int_equal(mode_of(NAME, ""), 0755);
    station_close(&second);
    own_set("shm_mode", "0600");
    open_writer(&second, &options);
    assert_int_equal(mode_of(NAME, ""), 0755);
    station_close(&second);
    station_close(&first);
    shared_close(shared);
}

static int write_as_another(void *arg)
{
    struct shared *shared = arg;
    struct station writer;
    int status;

    if (!become_another())
        return SKIPPED;
    status = try_writer(&writer, &shared->options);
    strcpy(shared->text, log_text);
    return -status;
}

static void names_of_other_users_are_refused_to_writers(void **state)
{
    struct shared *shared = shared_open();
    struct llm_options mine = small_options();
    struct station writer;
    int status;

    (void)state;
    own_set("shm_mode", "0644");
    open_writer(&writer, &mine);
    own_set("shm_mode", "0600");
    status = process_end(process_start(write_as_another, shared));
    station_close(&writer);
    strcpy(log_text, shared->text);
    shared_close(shared);
    if (status == SKIPPED)
        skip(); /* only root can become another user */
    assert_int_equal(status, -LLM_EACCESS);
    expect_logged("the name is another user's");
    expect_logged("llm-shm --clean");
}

/* -------------------------------------------------------------------------------------------- directories */

static void unusable_directories_are_named(void **state)
{
    struct shared *shared = shared_open();
    struct llm_options options = small_options();
    struct station station;
    char path[128];
    int status;

    (void)state;
    snprintf(path, sizeof path, "%s/absent", directory);
    own_set("shm_directory", path);
    assert_int_equal(instance_open(&station, NAME, &options), LLM_ESYSTEM);
    expect_logged(path);
    expect_logged("No such file or directory; shm_directory must be");
    snprintf(path, sizeof path, "%s/file", directory);
    assert_int_equal(close(open(path, O_CREAT | O_RDWR, 0600)), 0);
    own_set("shm_directory", path);
    assert_int_equal(instance_open(&station, NAME, &options), LLM_ESYSTEM);
    expect_logged("Not a directory; shm_directory must be");
    unlink(path);
    own_set("shm_directory", directory);
    assert_int_equal(chmod(directory, 0755), 0);
    status = process_end(process_start(write_as_another, shared));
    strcpy(log_text, shared->text);
    shared_close(shared);
    if (status != SKIPPED) {
        assert_int_equal(status, -LLM_EACCESS);
        expect_logged(directory);
        expect_logged("Permission denied; shm_directory must be a directory that may be written");
    }
}

/* -------------------------------------------------------------------------------------------- full memory */

static bool write_to(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY);
    const bool written = fd >= 0 && write(fd, text, strlen(text)) >= 0;

    if (fd >= 0)
        close(fd);
    return written;
}

/* Becomes root in a user namespace: files of unmapped groups cannot be created there. */
static bool map_self(unsigned user, unsigned group)
{
    char users[32], groups[32];

    snprintf(users, sizeof users, "0 %u 1", user);
    snprintf(groups, sizeof groups, "0 %u 1", group);
    return write_to("/proc/self/uid_map", users) && write_to("/proc/self/setgroups", "deny") &&
           write_to("/proc/self/gid_map", groups);
}

/* Mounts a separate memory file system over the directory; false if that is not possible. */
static bool mount_own(const char *options)
{
    const unsigned user = geteuid(), group = getegid();

    if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0)
        return false;
    if (user != 0 && !map_self(user, group))
        return false;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", directory, "tmpfs", 0, options) == 0;
}

static int expect(bool fine, int line)
{
    if (!fine)
        fprintf(stderr, "line %d: %s\n", line, log_text);
    return fine ? 0 : 1;
}

#define EXPECT(fine)                 \
    if (expect(fine, __LINE__) != 0) \
    return 1

static bool is_logged(const char *text)
{
    return strstr(log_text, text) != NULL;
}

/* With little space, a writer fails at its segment or at its history, and leaves nothing. */
static int write_into_little_room(void *arg)
{
    struct llm_options options = small_options();
    struct lli_region region;
    struct station writer;

    (void)arg;
    if (!mount_own("size=3m"))
        return SKIPPED;
    options.history_packets = 65536;
    EXPECT(try_writer(&writer, &options) == LLM_ENOMEM);
    EXPECT(is_logged("prices: a segment of 8523776 bytes: No space left on device"));
    EXPECT(is_logged("has room for 3145728 bytes, and the channel takes 8589312; lower history_packets=65536 "
                     "(128 bytes each), or "
                     "mtu=2000 (64 times), remove stale") &&
           is_logged("mount -o remount,size=") && !is_logged("history_bytes"));
    EXPECT(files_of("", "") == 0);
    options.history_packets = 64;
    EXPECT(try_writer(&writer, &options) == 0);
    log_text[0] = '\0';
    EXPECT(transport->region_map(writer.instance, writer.send, 4000000, &region) == LLM_ENOMEM);
    EXPECT(is_logged("prices: a history of 4000000 bytes: No space left on device"));
    EXPECT(is_logged(
        "has room for 2985984 bytes, and the channel takes 4145152; lower history_bytes, remove stale"));
    /* A smaller history still fits. */
    EXPECT(transport->region_map(writer.instance, writer.send, 2800000, &region) == 0);
    memset(region.base, 1, 2800000);
    station_close(&writer);
    EXPECT(files_of("", "") == 0);
    return 0;
}

/* Allows one file more each time. */
static int write_with_few_files(void *arg)
{
    const struct llm_options options = small_options();
    struct station writer;
    char limit[32];
    int files, status = LLM_ENOMEM;

    (void)arg;
    for (files = 1; status == LLM_ENOMEM && files < 20; files++) {
        snprintf(limit, sizeof limit, "nr_inodes=%d", files);
        if (!mount_own(limit))
            return SKIPPED;
        status = try_writer(&writer, &options);
        EXPECT(status == 0 || (status == LLM_ENOMEM && is_logged("No space left on device") &&
                               is_logged("llm-shm --clean")));
        EXPECT(status == 0 || !is_logged("a segment") ||
               (is_logged("no more files") && is_logged("remount,nr_inodes=")));
        if (status != 0)
            EXPECT(files_of("", "") == 0);
    }
    /* The root, llm, @, the socket, the name, lock, two files. */
    EXPECT(status == 0 && files >= 8);
    station_close(&writer);
    EXPECT(files_of("", "") == 0);
    return 0;
}

/* With few descriptors, each operation that needs one more fails, names the limit, and leaves nothing. */
static int open_few_files(void *arg)
{
    const struct llm_options options = small_options();
    struct rlimit all, few;
    struct station station;
    int status = LLM_ELIMIT;

    EXPECT(getrlimit(RLIMIT_NOFILE, &all) == 0);
    few = all;
    for (few.rlim_cur = 3; status != 0; few.rlim_cur++) {
        EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
        status = arg == NULL ? try_writer(&station, &options) : try_reader(&station, &options);
        EXPECT(setrlimit(RLIMIT_NOFILE, &all) == 0);
        EXPECT(status == 0 || (status == LLM_ELIMIT &&
                               is_logged("Too many open files; raise the limit of open files, 'ulimit -n'")));
        EXPECT(status == 0 || arg != NULL || files_of("", "") == 0);
        EXPECT(status == 0 || arg == NULL || files_of("@", "") == 1);
    }
    EXPECT(few.rlim_cur > 5);
    station_close(&station);
    return 0;
}

/* Without the check, a file beyond the limit would make the kernel end the process. */
static int write_short_files(void *arg)
{
    struct llm_options options = small_options();
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    struct lli_region region;
    struct station writer;

    (void)arg;
    limit.rlim_max = limit.rlim_cur;
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    options.history_packets = 65536;
    EXPECT(try_writer(&writer, &options) == LLM_ELIMIT);
    EXPECT(is_logged("prices: a segment of 8523776 bytes: File too large: the channel takes a file of "
                     "8589312 bytes; raise the limit of "
                     "the size of files, 'ulimit -f', or lower history_packets=65536 (128 bytes each), or "
                     "mtu=2000 (64 times)"));
    EXPECT(files_of("", "") == 0);
    options.history_packets = 64;
    EXPECT(try_writer(&writer, &options) == 0);
    log_text[0] = '\0';
    EXPECT(transport->region_map(writer.instance, writer.send, 1 << 20, &region) == LLM_ELIMIT);
    EXPECT(is_logged("prices: a history of 1048576 bytes: File too large: the channel takes a file of "
                     "1191936 bytes; raise the limit of "
                     "the size of files, 'ulimit -f', or lower history_bytes"));
    EXPECT(transport->region_map(writer.instance, writer.send, 1 << 19, &region) == 0);
    memset(region.base, 1, 1 << 19);
    station_close(&writer);
    EXPECT(files_of("", "") == 0);
    return 0;
}

static void expect_in_process(int (*function)(void *arg))
{
    const int status = process_end(process_start(function, NULL));

    if (status == SKIPPED)
        skip(); /* mounts are not allowed here */
    assert_int_equal(status, 0);
}

static void a_lack_of_memory_is_named_and_leaves_no_file(void **state)
{
    (void)state;
    expect_in_process(write_into_little_room);
}

static void a_lack_of_files_is_named_and_leaves_no_file(void **state)
{
    (void)state;
    expect_in_process(write_with_few_files);
}

static void a_lack_of_descriptors_is_named_and_leaves_no_file(void **state)
{
    const struct llm_options options = small_options();
    struct station writer;

    (void)state;
    expect_in_process(open_few_files);
    open_writer(&writer, &options);
    assert_int_equal(process_end(process_start(open_few_files, &writer)), 0);
    station_close(&writer);
}

static void a_file_size_limit_is_named_and_kills_no_process(void **state)
{
    (void)state;
    expect_in_process(write_short_files);
}

static void on_alarm(int signal)
{
    (void)signal;
}

/* The signals are more frequent than the allocation of the memory takes. */
static void signals_do_not_interrupt_the_allocation_of_memory(void **state)
{
    const struct itimerval often = {{.tv_usec = 2000}, {.tv_usec = 2000}}, never = {{0, 0}, {0, 0}};
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct llm_options options = small_options();
    struct lli_region region;
    struct station writer;
    int status;

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    open_writer(&writer, &options);
    status = transport->region_map(writer.instance, writer.send, 256 << 20, &region);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    if (status != 0)
        fail_msg("%s", log_text);
    station_close(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        shm_test(a_second_writer_is_refused_unless_both_share),
        shm_test(a_writer_beside_others_refuses_none_and_is_not_refused),
        shm_test(the_writing_process_is_named),
        shm_test(a_name_is_free_when_its_writer_left_or_was_killed),
        shm_test(the_last_writer_removes_the_files_of_a_killed_writer),
        shm_test(writers_that_share_a_name_never_refuse_each_other),
        shm_test(half_created_files_do_not_prevent_a_new_writer),
        shm_test(files_have_the_configured_mode),
        shm_test(invalid_modes_are_refused),
        shm_test(invalid_names_are_refused),
        shm_test(readers_of_other_users_are_admitted_or_refused_with_advice),
        shm_test(a_waiting_reader_counts_unreadable_segments),
        shm_test(a_reused_name_has_the_mode_of_its_current_writers),
        shm_test(names_of_other_users_are_refused_to_writers),
        shm_test(unusable_directories_are_named),
        shm_test(a_lack_of_memory_is_named_and_leaves_no_file),
        shm_test(a_lack_of_files_is_named_and_leaves_no_file),
        shm_test(a_lack_of_descriptors_is_named_and_leaves_no_file),
        shm_test(a_file_size_limit_is_named_and_kills_no_process),
        shm_test(signals_do_not_interrupt_the_allocation_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
