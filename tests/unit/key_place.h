/* SPDX-License-Identifier: Apache-2.0 */
/* A key file for a test, which is removed at its end. */
#ifndef TESTS_KEY_PLACE_H
#define TESTS_KEY_PLACE_H

#include "unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_A "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define KEY_B "/////////////////////////////////////////v8="
/* Valid whenever the test runs. */
#define KEY_ALWAYS "2020-01-01 2999-01-01"
#define KEY_EPOCH(id, suite, key, pattern) #id " " KEY_ALWAYS " " suite " " key " " pattern "\n"

/* Replaces the file at once, as llm-key does. */
static inline void key_file_write(const char *path, const char *text)
{
    char fresh[640];
    FILE *file;

    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    file = fopen(fresh, "we");
    assert_non_null(file);
    assert_int_equal(chmod(fresh, 0600), 0);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

#endif
