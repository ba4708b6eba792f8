/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "system/log.h"

struct kept {
    int lines;
    enum llm_level level;
    char text[1024];
};

static void log_keep(void *arg, enum llm_level level, const char *text)
{
    struct kept *kept = arg;

    kept->lines++;
    kept->level = level;
    strcpy(kept->text, text);
}

static void lines_up_to_the_level_reach_the_function(void **state)
{
    struct kept kept = {.lines = 0};
    const struct lli_log log = {log_keep, &kept, LLM_LEVEL_WARNING};

    (void)state;
    lli_log(&log, LLM_LEVEL_INFO, "%d", 1);
    lli_log(&log, LLM_LEVEL_DEBUG, "%d", 2);
    assert_int_equal(kept.lines, 0);
    lli_log(&log, LLM_LEVEL_WARNING, "%s=%d", "ttl", 3);
    assert_int_equal(kept.lines, 1);
    assert_int_equal(kept.level, LLM_LEVEL_WARNING);
    assert_string_equal(kept.text, "ttl=3");
}

static void a_failure_is_logged_as_an_error_and_returned(void **state)
{
    struct kept kept = {.lines = 0};
    const struct lli_log log = {log_keep, &kept, LLM_LEVEL_ERROR};

    (void)state;
    assert_int_equal(lli_fail(&log, LLM_EGROUP, "group %u", 7u), LLM_EGROUP);
    assert_int_equal(kept.level, LLM_LEVEL_ERROR);
    assert_string_equal(kept.text, "group 7");
}

static void a_long_line_is_cut(void **state)
{
    struct kept kept = {.lines = 0};
    const struct lli_log log = {log_keep, &kept, LLM_LEVEL_ERROR};

    (void)state;
    lli_log(&log, LLM_LEVEL_ERROR, "%0700d", 0);
    assert_int_equal(strlen(kept.text), 511);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_up_to_the_level_reach_the_function),
        cmocka_unit_test(a_failure_is_logged_as_an_error_and_returned),
        cmocka_unit_test(a_long_line_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
