/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <llm/llm.h>
#include <stdio.h>

static void every_code_has_its_name_and_text(void **state)
{
    (void)state;
#define EXPECT(name, number, text)                                 \
    assert_int_equal(LLM_##name, number);                          \
    assert_string_equal(llm_error_name(LLM_##name), "LLM_" #name); \
    assert_string_equal(llm_error_text(LLM_##name), text);
    LLM_ERRORS(EXPECT)
}

static void counts_are_success_and_other_numbers_are_unknown(void **state)
{
    (void)state;
    assert_string_equal(llm_error_name(0), "LLM_OK");
    assert_string_equal(llm_error_name(17), "LLM_OK");
    assert_string_equal(llm_error_text(17), "success");
    assert_string_equal(llm_error_name(-1000), "LLM_UNKNOWN");
    assert_string_equal(llm_error_text(INT32_MIN), "unknown error");
}

static void every_event_and_reason_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = LLM_EVENT_SESSION_NEW; i <= LLM_EVENT_TOPIC_NEW; i++)
        for (int j = LLM_EVENT_SESSION_NEW; j <= LLM_EVENT_TOPIC_NEW + 1; j++)
            assert_int_equal(strcmp(llm_event_name((enum llm_event_kind)i), llm_event_name((enum llm_event_kind)j)) == 0, i == j);
    for (int i = LLM_REASON_NONE; i <= LLM_REASON_REPLACED; i++)
        for (int j = LLM_REASON_NONE; j <= LLM_REASON_REPLACED + 1; j++)
            assert_int_equal(strcmp(llm_reason_name((enum llm_reason)i), llm_reason_name((enum llm_reason)j)) == 0, i == j);
    assert_string_equal(llm_event_name(0), "unknown event");
    assert_string_equal(llm_reason_name(99), "unknown reason");
}

static void the_version_is_that_of_the_header(void **state)
{
    char text[32];

    (void)state;
    snprintf(text, sizeof text, "%d.%d.%d", LLM_VERSION_MAJOR, LLM_VERSION_MINOR, LLM_VERSION_PATCH);
    assert_string_equal(llm_version(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_name_and_text),
        cmocka_unit_test(counts_are_success_and_other_numbers_are_unknown),
        cmocka_unit_test(every_event_and_reason_has_a_name_of_its_own),
        cmocka_unit_test(the_version_is_that_of_the_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
