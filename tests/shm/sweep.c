/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of dead processes are removed while other processes look at them: at no moment does one look like a
 * living writer's.
 */
#define _GNU_SOURCE
#include "shm_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char watched[160];     /* directory of a name, while it is watched */
static uint32_t looks, taken; /* how often a file in it was seen, and seen locked */

/* Checks the files as another process does, by separate descriptors. */
static void look(void)
{
    DIR *files = opendir(watched);
    const struct dirent *entry;

    assert_non_null(files);
    while ((entry = readdir(files)) != NULL) {
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        int fd;

        if (strstr(entry->d_name, ".data") == NULL && strstr(entry->d_name, ".bell") == NULL)
            continue;
        fd = openat(dirfd(files), entry->d_name, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0 && syscall(SYS_fcntl, fd, F_OFD_GETLK, &lock) == 0);
        looks++;
        taken += lock.l_type != F_UNLCK;
        close(fd);
    }
    closedir(files);
}

/*
 * Replaces the library's call: the program's own definition comes before that of libc. Checks the files after
 * each call.
 */
int fcntl(int fd, int command, ...)
{
    va_list list;
    void *argument;
    long result;

    va_start(list, command);
    argument = va_arg(list, void *);
    va_end(list);
    result = syscall(SYS_fcntl, fd, command, argument);
    if (watched[0] != '\0')
        look();
    return (int)result;
}

static int write_until_killed(void *arg)
{
    struct llm_options options = small_options();
    struct station writer;

    open_writer(&writer, &options);
    atomic_store((_Atomic uint64_t *)arg, 1);
    pause();
    return 0;
}

static void the_files_of_a_dead_writer_never_look_in_use(void **state)
{
    _Atomic uint64_t *step = shared_memory(sizeof *step);
    const struct llm_options options = small_options();
    struct lli_shm_options own;
    struct lli_shm_root root;
    const struct lli_log log = {.level = LLM_LEVEL_WARNING};
    pid_t pid;

    (void)state;
    pid = process_start(write_until_killed, step);
    await_value(step, 1);
    process_kill(pid);
    await_unlocked(NAME);
    lli_option_values_read(&own_options, &lli_shm_option_table, &own);
    assert_int_equal(lli_shm_root(&root, &own, &log), LLM_OK);
    assert_int_equal(files_of(NAME, ".data") + files_of(NAME, ".bell"), 2);
    looks = taken = 0;
    snprintf(watched, sizeof watched, "%s/%s", root.path, NAME);
    lli_shm_sweep(&root, NAME);
    watched[0] = '\0';
    assert_int_equal(files_of(NAME, ".data") + files_of(NAME, ".bell"), 0);
    assert_true(looks >= 2);
    assert_int_equal(taken, 0);
    next_writer(&options);
    shared_free((void *)step, sizeof *step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        shm_test(the_files_of_a_dead_writer_never_look_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
