/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign files and links where channels have their files: links are not followed, and only files of dead
 * instances are removed.
 */
#define _GNU_SOURCE
#include "shm_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHER_USER = 65534, SKIPPED = 77 };

static void path_of(char path[256], const char *below)
{
    snprintf(path, 256, "%s/%s", directory, below);
}

static void make_directory(const char *below, mode_t mode)
{
    char path[256];

    path_of(path, below);
    assert_int_equal(mkdir(path, mode), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static mode_t mode_of(const char *below)
{
    char path[256];
    struct stat file;

    path_of(path, below);
    assert_int_equal(stat(path, &file), 0);
    return file.st_mode & 07777;
}

static void make_file(const char *below, const char *text)
{
    char path[256];
    int fd;

    path_of(path, below);
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static bool take_away(const char *below)
{
    char path[256];

    path_of(path, below);
    return remove(path) == 0;
}

/* A private directory of a user, elsewhere. */
#define PRIVATE "home"

static void plant(const char *below)
{
    char from[256], to[256];

    path_of(from, PRIVATE);
    path_of(to, below);
    assert_int_equal(symlink(from, to), 0);
}

static void expect_link_refused(const char *below)
{
    const struct llm_options options = small_options();
    struct station writer;

    log_text[0] = '\0';
    assert_int_equal(try_writer(&writer, &options), LLM_EACCESS);
    expect_logged(below);
    expect_logged("is a symbolic link of user");
    assert_int_equal(mode_of(PRIVATE), 0700);
    assert_true(take_away(below));
}

static void a_link_in_place_of_a_directory_is_refused(void **state)
{
    const struct llm_options options = small_options();

    (void)state;
    make_directory(PRIVATE, 0700);
    plant("llm");
    expect_link_refused("llm");
    make_directory("llm", 01777);
    plant("llm/@");
    expect_link_refused("llm/@");
    make_directory("llm/@", 01777);
    plant("llm/" NAME);
    expect_link_refused("llm/" NAME);
    assert_true(take_away(PRIVATE));
    next_writer(&options);
}

static void foreign_files_are_not_removed(void **state)
{
    static const char *const files[] = {"llm/" NAME "/0123456789abcdef.data",
                                        "llm/" NAME "/0123456789abcdef.bell",
                                        "llm/" NAME "/letter",
                                        "llm/@/0123456789abcdef",
                                        "llm/@/123",
                                        "llm/@/letter"};
    const struct llm_options options = small_options();

    (void)state;
    make_directory("llm", 01777);
    make_directory("llm/" NAME, 0700);
    make_directory("llm/@", 01777);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        make_file(files[i], "a text of more than sixteen bytes");
    next_writer(&options);
    next_writer(&options);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (!take_away(files[i]))
            fail_msg("%s is gone", files[i]);
    next_writer(&options);
}

/* The test links a file with the contents of a dead writer's segment. */
static void a_hard_linked_file_is_not_removed(void **state)
{
    const struct llm_options options = small_options();
    char from[256], to[256];

    (void)state;
    make_directory("llm", 01777);
    make_directory("llm/" NAME, 0700);
    make_file("keep", LLI_SHM_MAGIC);
    path_of(from, "keep");
    assert_int_equal(truncate(from, 4096), 0);
    path_of(to, "llm/" NAME "/0123456789abcdef.data");
    assert_int_equal(link(from, to), 0);
    next_writer(&options);
    assert_true(take_away("llm/" NAME "/0123456789abcdef.data"));
    assert_true(take_away("keep"));
    next_writer(&options);
}

/* ------------------------------------------------------------------------------------------------- claims */

static void a_reserved_name_is_not_removed(void **state)
{
    struct llm_options options = small_options();

    (void)state;
    make_directory("llm", 01777);
    make_directory("llm/" NAME, 01755);
    next_writer(&options);
    assert_int_equal(mode_of("llm/" NAME), 01700);
    own_set("shm_exclusive", "0");
    own_set("shm_mode", "0644");
    next_writer(&options);
    assert_int_equal(mode_of("llm/" NAME), 01755);
    assert_int_equal(files_of(NAME, ""), 0);
    assert_true(take_away("llm/" NAME));
    next_writer(&options);
}

/*
 * Root creates them on a host of many users: no other user can claim a name, and all users can create
 * sockets.
 */
static void directories_of_the_administrator_are_not_removed(void **state)
{
    const struct llm_options options = small_options();

    (void)state;
    make_directory("llm", 0755);
    make_directory("llm/@", 01777);
    make_directory("llm/" NAME, 01755);
    next_writer(&options);
    assert_int_equal(mode_of("llm"), 0755);
    assert_int_equal(mode_of("llm/@"), 01777);
    assert_int_equal(mode_of("llm/" NAME), 01700);
    assert_true(take_away("llm/" NAME) && take_away("llm/@") && take_away("llm"));
}

static int write_as_another(void *arg)
{
    const struct llm_options options = small_options();
    struct station writer;
    int status;

    if (geteuid() != 0 || setresgid(OTHER_USER, OTHER_USER, OTHER_USER) != 0 ||
        setresuid(OTHER_USER, OTHER_USER, OTHER_USER) != 0)
        return SKIPPED;
    status = try_writer(&writer, &options);
    if (status == 0)
        station_close(&writer);
    strcpy(arg, log_text);
    return -status;
}

/* A directory with write permission for all users is refused too: its owner could replace files. */
static void a_name_of_another_user_is_refused_with_its_owner(void **state)
{
    const struct llm_options options = small_options();
    char *text = shared_memory(sizeof log_text);
    struct station writer;
    char path[256];

    (void)state;
    make_directory("llm", 01777);
    make_directory("llm/" NAME, 0777);
    path_of(path, "llm/" NAME);
    if (geteuid() != 0 || chown(path, 1234, 1234) != 0) {
        assert_true(take_away("llm/" NAME));
        next_writer(&options);
        shared_free(text, sizeof log_text);
        skip(); /* only root can become another user */
    }
    assert_int_equal(process_end(process_start(write_as_another, text)), -LLM_EACCESS);
    strcpy(log_text, text);
    expect_logged("llm/" NAME ": the name is another user's (1234); take another, have user 1234 or root "
                  "remove it with llm-shm --clean");
    log_text[0] = '\0';
    assert_int_equal(try_writer(&writer, &options), LLM_EACCESS);
    expect_logged("the name is another user's (1234)");
    assert_true(take_away("llm/" NAME));
    next_writer(&options);
    shared_free(text, sizeof log_text);
}

/* The first user to claim a name cannot impersonate its transmitter. */
static void segments_of_other_users_are_read_only_if_the_mode_allows(void **state)
{
    static const struct {
        const char *mode;
        gid_t group;
        int status;
    } cases[] = {{"0600", 0, LLM_EACCESS},
                 {"0640", OTHER_USER, LLM_EACCESS},
                 {"0640", 0, LLM_OK},
                 {"0644", OTHER_USER, LLM_OK}};
    struct llm_options options = small_options();
    struct station writer, reader;
    char path[256];

    (void)state;
    open_writer(&writer, &options);
    snprintf(path, sizeof path, "%s/llm/" NAME "/%016llx.data", directory,
             (unsigned long long)segment_of(&writer)->id);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (geteuid() != 0 || chown(path, OTHER_USER, cases[i].group) != 0) {
            station_close(&writer);
            skip(); /* only root can give a file away */
        }
        own_set("shm_mode", cases[i].mode);
        log_text[0] = '\0';
        assert_int_equal(try_reader(&reader, &options), cases[i].status);
        if (cases[i].status == LLM_OK) {
            assert_int_equal(shm_of(&reader)->in.count, 1);
            station_close(&reader);
            continue;
        }
        expect_logged("is of user 65534, group");
        expect_logged("this receiver has shm_mode=06");
    }
    /* The same for a segment that appears after the reader joined. */
    assert_int_equal(chown(path, 0, 0), 0);
    station_close(&writer);
    own_set("shm_mode", "0600");
    open_reader(&reader, &options);
    open_writer(&writer, &options);
    snprintf(path, sizeof path, "%s/llm/" NAME "/%016llx.data", directory,
             (unsigned long long)segment_of(&writer)->id);
    assert_int_equal(chown(path, OTHER_USER, OTHER_USER), 0);
    station_look(&reader);
    assert_int_equal(shm_of(&reader)->in.count, 0);
    log_text[0] = '\0';
    for (int i = 0; i < 3; i++) {
        transport->report(reader.instance);
        station_look(&reader);
    }
    expect_logged_once("is of user 65534, group 65534, and this receiver has shm_mode=0600");
    station_close(&reader);
    station_close(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        shm_test(a_link_in_place_of_a_directory_is_refused),
        shm_test(foreign_files_are_not_removed),
        shm_test(a_hard_linked_file_is_not_removed),
        shm_test(a_reserved_name_is_not_removed),
        shm_test(directories_of_the_administrator_are_not_removed),
        shm_test(a_name_of_another_user_is_refused_with_its_owner),
        shm_test(segments_of_other_users_are_read_only_if_the_mode_allows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
