/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "logged.h"
#include "sanitized.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "security/key_reader.h"

#define KEY_A "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define EPOCH "7 2026-11-25 2026-12-02 aes-128-gcm " KEY_A " 239.192.*\n"

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_WARNING};
static char path[64];

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void expect_refused(int error, const char *says)
{
    struct lli_keys keys;

    logged[0] = 0;
    assert_int_equal(lli_keys_read(&keys, path, &keeper), error);
    assert_null(keys.file);
    assert_null(keys.memory.base);
    expect_logged(path);
    expect_logged(says);
    assert_null(strstr(logged, "AAEC"));
}

static void a_file_of_mode_0600_is_read(void **state)
{
    struct lli_keys keys;

    (void)state;
    write_file(EPOCH, 0600);
    assert_int_equal(lli_keys_read(&keys, path, &keeper), LLM_OK);
    assert_int_equal(keys.file->count, 1);
    lli_keys_close(&keys);
    assert_null(keys.file);
    lli_keys_close(&keys);
}

static void files_that_cannot_be_used_are_refused_with_the_remedy(void **state)
{
    char *text = malloc(LLI_KEY_FILE_MAX + 2);

    (void)state;
    assert_non_null(text);
    (void)unlink(path);
    expect_refused(LLM_ENOTFOUND, "llm-key new");
    write_file(EPOCH, 0640);
    expect_refused(LLM_EACCESS, "0640");
    write_file(EPOCH, 0604);
    expect_refused(LLM_EACCESS, "chmod 0600");
    write_file(EPOCH, 0600);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, 65534), 0);
        expect_refused(LLM_EACCESS, "belongs to user 65534");
        expect_logged("chown it");
    }
    (void)unlink(path);
    write_file("", 0600);
    expect_refused(LLM_EDAMAGED, "no epoch");
    (void)unlink(path);
    write_file("7 2026-11-25 2026-12-02 aes-128-gcm " KEY_A " 239.192.*", 0600);
    expect_refused(LLM_EDAMAGED, "cut");
    write_file(EPOCH "8 2026-11-25 2026-12-02 rot13 " KEY_A " *\n", 0600);
    expect_refused(LLM_EDAMAGED, "line 2: \"rot13\"");
    write_file(EPOCH "8 2026-11-25 2026-12-02 aes-128-gcm AAECx *\n", 0600);
    expect_refused(LLM_EDAMAGED, "line 2: the key");
    memset(text, '#', LLI_KEY_FILE_MAX + 1);
    text[LLI_KEY_FILE_MAX + 1] = 0;
    write_file(text, 0600);
    expect_refused(LLM_EDAMAGED, "32768");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused(LLM_EACCESS, "regular");
    assert_int_equal(rmdir(path), 0);
    free(text);
}

static void an_epoch_that_is_not_valid_is_refused_with_both_times(void **state)
{
    const lli_key_time begin = 1795564800; /* 2026-11-25 */
    struct lli_keys keys;

    (void)state;
    write_file(EPOCH, 0600);
    assert_int_equal(lli_keys_read(&keys, path, &keeper), LLM_OK);
    assert_int_equal(lli_keys_current(&keys, path, "239.192.1.1:1", begin, &keeper)->id, 7);
    assert_null(lli_keys_current(&keys, path, "239.192.1.1:1", begin - 3600, &keeper));
    expect_logged("line 1: epoch 7");
    expect_logged("begins at 2026-11-25T00:00:00Z, and it is 2026-11-24T23:00:00Z");
    assert_null(lli_keys_current(&keys, path, "239.192.1.1:1", begin + 8 * 86400, &keeper));
    expect_logged("ended at 2026-12-02T00:00:00Z");
    expect_logged("llm-key epoch");
    assert_null(lli_keys_current(&keys, path, "10.0.0.1:1", begin, &keeper));
    expect_logged("no pattern matches \"10.0.0.1:1\"");
    lli_keys_close(&keys);
}

static void fingerprints_are_of_the_key_alone(void **state)
{
    struct lli_key_epoch a = {.id = 1, .key = {1}}, b = {.id = 2, .key = {1}}, c = {.id = 1, .key = {2}};
    char text[3][LLI_KEY_FINGERPRINT_MAX];

    (void)state;
    assert_true(lli_key_fingerprint(&a, text[0]));
    assert_true(lli_key_fingerprint(&b, text[1]));
    assert_true(lli_key_fingerprint(&c, text[2]));
    assert_int_equal(strlen(text[0]), 16);
    assert_string_equal(text[0], text[1]);
    assert_string_not_equal(text[0], text[2]);
}

/* Returns true if the mapping at an address has a flag of VmFlags in /proc/self/smaps. */
static bool has_flag(const void *base, const char *flag)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    char line[512], start[32];
    bool here = false, has = false;

    assert_non_null(maps);
    (void)snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)base);
    while (fgets(line, sizeof line, maps) != NULL) {
        if (strncmp(line, start, strlen(start)) == 0)
            here = true;
        else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            has = strstr(line, flag) != NULL;
            break;
        }
    }
    (void)fclose(maps);
    return has;
}

static void keys_are_locked_and_in_no_core_dump_or_child(void **state)
{
    struct lli_keys keys;
    int status;
    pid_t child;

    (void)state;
    write_file(EPOCH, 0600);
    assert_int_equal(lli_keys_read(&keys, path, &keeper), LLM_OK);
    assert_true(has_flag(keys.memory.base, " dd"));
    /* Sanitizers ignore mlock(). */
    assert_true(SANITIZED || has_flag(keys.memory.base, " lo"));
    child = fork();
    if (child == 0)
        _exit((int)keys.file->count);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    lli_keys_close(&keys);
}

static int make_place(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/llm-keys-test-%d", (int)getpid());
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_mode_0600_is_read),
        cmocka_unit_test(files_that_cannot_be_used_are_refused_with_the_remedy),
        cmocka_unit_test(an_epoch_that_is_not_valid_is_refused_with_both_times),
        cmocka_unit_test(fingerprints_are_of_the_key_alone),
        cmocka_unit_test(keys_are_locked_and_in_no_core_dump_or_child),
    };

    return cmocka_run_group_tests(tests, make_place, remove_place);
}
