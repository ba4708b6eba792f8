/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign and forged files in a counters directory: none is removed, and little of them is read. */
#define _GNU_SOURCE
#include "logged.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <llm/llm.h>

#include "stat_watch.h"

enum { DEAD = 20, DEAD_KEPT = 16, OTHERS = 40, OTHER_USER = 65534, SKIPPED = 77 };

static char place[64];      /* a directory for each test, */
static char directory[128]; /* and the counters directory in it */

static int place_up(void **state)
{
    (void)state;
    logged[0] = '\0';
    strcpy(place, "/dev/shm/llm-unit-XXXXXX");
    if (mkdtemp(place) == NULL)
        return -1;
    snprintf(directory, sizeof directory, "%s/stat", place);
    return chmod(place, 0755) != 0 || mkdir(directory, 0755) != 0;
}

static int place_down(void **state)
{
    char command[256];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", place);
    return system(command);
}

static int files_in(const char *path)
{
    DIR *files = opendir(path);
    struct dirent *entry;
    int count = 0;

    assert_non_null(files);
    while ((entry = readdir(files)) != NULL)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(files);
    return count;
}

static void path_of(char path[512], const char *name)
{
    snprintf(path, 512, "%s/%s", directory, name);
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    char path[512];
    int fd;

    path_of(path, name);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

static bool exists(const char *name)
{
    struct stat file;
    char path[512];

    path_of(path, name);
    return lstat(path, &file) == 0;
}

/* The header of a dead process's file with empty tables. */
static struct llm_stats_file dead_header(uint32_t pid)
{
    struct llm_stats_file header = {.version = LLM_STATS_VERSION,
                                    .pid = pid,
                                    .table_at = {256, 512},
                                    .table_bytes = sizeof(struct llm_stats_table),
                                    .program = "dead"};

    memcpy(header.magic, LLM_STATS_MAGIC, sizeof header.magic);
    return header;
}

static void write_dead(const char *name, uint32_t pid)
{
    const struct llm_stats_file header = dead_header(pid);
    uint8_t bytes[1024] = {0};

    memcpy(bytes, &header, sizeof header);
    write_file(name, bytes, sizeof bytes);
}

static void write_dead_files(void)
{
    char name[64];

    for (uint32_t i = 0; i < DEAD; i++) {
        snprintf(name, sizeof name, "dead.%u.0", i);
        write_dead(name, i);
    }
}

/* Opens and closes a context; returns the result of the open. */
static int come_and_go_in(const char *path)
{
    struct llm_context_options options;
    struct llm_context *context = NULL;
    int status;

    llm_context_options_init(&options);
    options.log = log_keep;
    options.stats_directory = path;
    status = llm_context_open(&options, &context);
    if (status == LLM_OK)
        assert_int_equal(llm_context_close(&context), LLM_OK);
    return status;
}

/* Runs all code that removes files. */
static void sweep_and_clean(void)
{
    assert_int_equal(come_and_go_in(directory), LLM_OK);
    (void)stat_watch_clean(directory);
}

/* ------------------------------------------------------------------------------------------------- bounds */

static void files_of_dead_processes_are_bounded(void **state)
{
    (void)state;
    write_dead_files();
    assert_int_equal(come_and_go_in(directory), LLM_OK);
    assert_int_equal(files_in(directory), DEAD_KEPT);
    assert_int_equal(stat_watch_clean(directory), DEAD_KEPT);
    assert_int_equal(files_in(directory), 0);
}

static void foreign_files_are_not_swept(void **state)
{
    char name[64];

    (void)state;
    for (int i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof name,
                 i % 4 == 0   ? ".rc%d"
                 : i % 4 == 1 ? "letter%d.txt"
                 : i % 4 == 2 ? "feed.%d.0"
                              : "feed%d",
                 i);
        write_file(name, "12345\n", 6);
    }
    sweep_and_clean();
    assert_int_equal(files_in(directory), OTHERS);
}

/* Names of other formats, and of another process than the header's. */
static void name_and_header_must_agree(void **state)
{
    static const char *const names[] = {"dead.7",    "dead.7.0.bak", "dead.07.0", "dead.7.1000",
                                        "dead.8.0",  ".dead.7.0",    "other.7.0", "dead.7.",
                                        "dead.7.-1", "dead.7.00",    "dead"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        write_dead(names[i], 7);
    sweep_and_clean();
    assert_int_equal(files_in(directory), (int)(sizeof names / sizeof names[0]));
    write_dead("dead.7.999", 7);
    assert_int_equal(stat_watch_clean(directory), 1);
    assert_false(exists("dead.7.999"));
}

static void a_truncated_or_invalid_header_is_not_swept(void **state)
{
    struct llm_stats_file header = dead_header(1);

    (void)state;
    write_file("dead.1.0", &header, sizeof header - 1);
    write_file("dead.1.1", &header, sizeof header);
    header.version = 0;
    write_file("dead.1.2", &header, sizeof header);
    sweep_and_clean();
    assert_int_equal(files_in(directory), 3);
    /* The sizes of a later version are unknown. */
    header.version = LLM_STATS_VERSION + 1;
    write_file("dead.1.3", &header, sizeof header);
    assert_int_equal(stat_watch_clean(directory), 1);
    assert_false(exists("dead.1.3"));
}

static void links_and_their_targets_are_not_swept(void **state)
{
    char from[512], to[512];

    (void)state;
    write_dead("dead.1.0", 1);
    path_of(from, "dead.1.0");
    snprintf(to, sizeof to, "%s/keep", place);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(symlink(to, from), 0);
    path_of(from, "dead.1.1");
    assert_int_equal(link(to, from), 0);
    path_of(from, "dead.1.2");
    assert_int_equal(mkfifo(from, 0600), 0);
    sweep_and_clean();
    assert_int_equal(files_in(directory), 3);
    assert_int_equal(access(to, F_OK), 0);
}

/* -------------------------------------------------------------------------------------------- directories */

static void a_link_in_place_of_the_directory_is_refused(void **state)
{
    char link[256], slash[300];

    (void)state;
    write_dead_files();
    snprintf(link, sizeof link, "%s/link", place);
    assert_int_equal(symlink(directory, link), 0);
    snprintf(slash, sizeof slash, "%s//", link);
    assert_int_equal(come_and_go_in(link), LLM_ESYSTEM);
    expect_logged("is a symbolic link");
    assert_int_equal(come_and_go_in(slash), LLM_ESYSTEM);
    assert_int_equal(stat_watch_clean(slash), -1);
    assert_int_equal(files_in(directory), DEAD);
}

static void no_file_is_removed_if_all_users_can_rename_files(void **state)
{
    (void)state;
    write_dead_files();
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(come_and_go_in(directory), LLM_OK);
    expect_logged("20 files of dead processes are not removed, as other users can rename files there; chown "
                  "it to root and give it mode 1777");
    assert_int_equal(stat_watch_clean(directory), -1);
    assert_int_equal(files_in(directory), DEAD);
    assert_int_equal(chmod(directory, 01777), 0);
    assert_int_equal(stat_watch_clean(directory), DEAD);
}

static void no_file_is_removed_if_another_user_can_rename_files(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can give a directory to another user */
    write_dead_files();
    assert_int_equal(chown(directory, OTHER_USER, OTHER_USER), 0);
    sweep_and_clean();
    assert_int_equal(files_in(directory), DEAD);
}

static void files_are_removed_only_by_their_owner_or_root(void **state)
{
    pid_t child;
    int status;

    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can become another user */
    write_dead_files();
    assert_int_equal(chmod(directory, 0777 | S_ISVTX), 0);
    child = fork();
    if (child == 0) {
        if (setresgid(OTHER_USER, OTHER_USER, OTHER_USER) != 0 ||
            setresuid(OTHER_USER, OTHER_USER, OTHER_USER) != 0)
            _exit(SKIPPED);
        write_dead("dead.100.0", 100);
        _exit(stat_watch_clean(directory));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(files_in(directory), DEAD);
    write_dead("dead.100.0", 100);
    assert_int_equal(stat_watch_clean(directory), DEAD + 1);
}

static void a_context_does_not_remove_a_replacement_of_its_file(void **state)
{
    struct llm_context_options options;
    struct llm_context *context = NULL;
    struct stat_watch watch = {.directory = directory};
    char name[256], path[512];

    (void)state;
    llm_context_options_init(&options);
    options.log = log_keep;
    options.stats_directory = directory;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(stat_watch_look(&watch), 0);
    assert_int_equal(watch.count, 1);
    snprintf(name, sizeof name, "%s", watch.sources[0].name);
    stat_watch_fini(&watch);
    assert_int_equal(stat_watch_clean(directory), 0);
    path_of(path, name);
    assert_int_equal(unlink(path), 0);
    write_file(name, "a text", 6);
    assert_int_equal(llm_context_close(&context), LLM_OK);
    assert_true(exists(name));
}

/* ------------------------------------------------------------------------------------------------ reading */

static uint64_t bytes_read;

/* Replaces the readers' call, which is in this program: its own definition comes before that of libc. */
ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    const ssize_t got = syscall(SYS_pread64, fd, to, size, at);

    bytes_read += got > 0 ? (uint64_t)got : 0;
    return got;
}

/* A sparse file with its header only, of any length. */
static void write_sparse(const char *name, const struct llm_stats_file *header, off_t size)
{
    char path[512];

    write_file(name, header, sizeof *header);
    path_of(path, name);
    assert_int_equal(truncate(path, size), 0);
}

/* A file with tables of this size, fully used. */
static void write_full(const char *name, size_t bytes)
{
    struct llm_stats_file header = dead_header(1);
    struct llm_stats_table table = {
        .rows = (uint32_t)(bytes / (sizeof(struct llm_stats_row) + sizeof(uint64_t))), .objects = 1};
    char path[512];
    int fd;

    header.sequence = 2;
    header.rows_max = table.rows;
    header.objects_max = 1;
    header.table_bytes = sizeof table + sizeof(struct llm_stats_object) +
                         table.rows * (sizeof(struct llm_stats_row) + sizeof(uint64_t));
    header.table_at[1] = header.table_at[0] + (header.table_bytes + 7) / 8 * 8;
    write_sparse(name, &header, (off_t)(header.table_at[1] + header.table_bytes));
    path_of(path, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, &table, sizeof table, (off_t)header.table_at[0]), sizeof table);
    close(fd);
}

static enum stat_fault fault_of(const struct stat_watch *watch, const char *name)
{
    for (int i = 0; i < watch->count; i++)
        if (strcmp(watch->sources[i].name, name) == 0)
            return watch->sources[i].fault;
    fail_msg("%s is not known", name);
    return STAT_OK;
}

static void long_files_are_refused_by_name_and_not_read(void **state)
{
    const struct llm_stats_file none = {.version = 1}, header = dead_header(1);
    struct stat_watch watch = {.directory = directory};
    char text[256];

    (void)state;
    write_sparse("foreign", &none, 200 << 20);
    write_sparse("dead.1.0", &header, 200 << 20);
    write_sparse("dead.1.1", &header, 17 << 20);
    write_full("dead.1.2", 9 << 20);
    bytes_read = 0;
    assert_int_equal(stat_watch_look(&watch), 0);
    assert_int_equal(fault_of(&watch, "foreign"), STAT_FOREIGN);
    assert_int_equal(fault_of(&watch, "dead.1.0"), STAT_LARGE);
    assert_int_equal(fault_of(&watch, "dead.1.1"), STAT_LARGE);
    assert_int_equal(fault_of(&watch, "dead.1.2"), STAT_LARGE);
    assert_in_range(bytes_read, 1, 4096);
    stat_explain(STAT_LARGE, &watch.sources[0].now, text, sizeof text);
    assert_non_null(strstr(text, "too large: a counters file has at most 16 MiB"));
    stat_watch_fini(&watch);
}

static void the_bytes_read_of_all_files_are_limited(void **state)
{
    struct stat_watch watch = {.directory = directory};
    int read = 0, refused = 0;
    char name[32];

    (void)state;
    for (int i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof name, "dead.1.%d", i);
        write_full(name, 7 << 20);
    }
    bytes_read = 0;
    assert_int_equal(stat_watch_look(&watch), 0);
    for (int i = 0; i < watch.count; i++) {
        read += watch.sources[i].fault == STAT_OK;
        refused += watch.sources[i].fault == STAT_LARGE;
    }
    assert_in_range(read, 10, 18);
    assert_int_equal(read + refused, OTHERS);
    assert_in_range(bytes_read, 1, 140 << 20);
    stat_watch_fini(&watch);
}

#define sweep_test(function) cmocka_unit_test_setup_teardown(function, place_up, place_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        sweep_test(files_of_dead_processes_are_bounded),
        sweep_test(foreign_files_are_not_swept),
        sweep_test(name_and_header_must_agree),
        sweep_test(a_truncated_or_invalid_header_is_not_swept),
        sweep_test(links_and_their_targets_are_not_swept),
        sweep_test(a_link_in_place_of_the_directory_is_refused),
        sweep_test(no_file_is_removed_if_all_users_can_rename_files),
        sweep_test(no_file_is_removed_if_another_user_can_rename_files),
        sweep_test(files_are_removed_only_by_their_owner_or_root),
        sweep_test(a_context_does_not_remove_a_replacement_of_its_file),
        sweep_test(long_files_are_refused_by_name_and_not_read),
        sweep_test(the_bytes_read_of_all_files_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
