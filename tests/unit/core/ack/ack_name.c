/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ack/ack_name.h"

#include <fnmatch.h>
#include <string.h>

#include "unit.h"

static struct lli_ack_name parsed(const char *text)
{
    struct lli_ack_name name;

    assert_int_equal(lli_ack_name_parse(text, strlen(text), &name), LLI_ACK_NAME_OK);
    return name;
}

static bool matches(const char *text, const char *receiver)
{
    const struct lli_ack_name name = parsed(text);
    char padded[LLI_WIRE_RECEIVER_NAME_MAX + 1] = "";

    memcpy(padded, receiver, strlen(receiver));
    return lli_ack_name_matches(&name, padded);
}

static void a_plain_name_matches_itself_and_may_have_colons(void **state)
{
    (void)state;
    assert_true(matches("book", "book"));
    assert_false(matches("book", "books"));
    assert_false(matches("book", "boo"));
    assert_false(matches("book", ""));
    assert_true(matches("host:5001", "host:5001"));
    assert_int_equal(parsed("host:2").count, 1);
    assert_false(lli_ack_name_is_pattern(&(struct lli_ack_name){.size = 4, .star = 4}));
    assert_true(matches("a-name-that-has-thirty-one-byte", "a-name-that-has-thirty-one-byte"));
}

static void a_star_stands_for_any_text_or_none(void **state)
{
    (void)state;
    assert_true(matches("store-*", "store-"));
    assert_true(matches("store-*", "store-7"));
    assert_false(matches("store-*", "store"));
    assert_false(matches("store-*", "restore-7"));
    assert_true(matches("*-eu", "store-eu"));
    assert_true(matches("a*a", "aa"));
    assert_false(matches("a*a", "a"));
    assert_true(matches("*", "x"));
    assert_false(matches("*", ""));
    assert_true(matches("store-*:eu:1", "store-7:eu"));
}

static void a_pattern_has_the_count_after_its_last_colon(void **state)
{
    (void)state;
    assert_int_equal(parsed("store-*").count, 1);
    assert_int_equal(parsed("store-*:2").count, 2);
    assert_string_equal(parsed("store-*:2").text, "store-*");
    assert_int_equal(parsed("a:*:16").count, 16);
    assert_string_equal(parsed("a:*:16").text, "a:*");
    assert_int_equal(parsed("*:b:03").count, 3);
    assert_string_equal(parsed("*:b:03").text, "*:b");
}

static void expect_bad(enum lli_ack_name_result result, const char *text)
{
    struct lli_ack_name name = {.count = 77};

    assert_int_equal(lli_ack_name_parse(text, strlen(text), &name), result);
    assert_int_equal(name.count, 77);
}

static void bad_names_are_refused_with_the_reason(void **state)
{
    (void)state;
    expect_bad(LLI_ACK_NAME_SIZE, "");
    expect_bad(LLI_ACK_NAME_SIZE, "a-name-that-has-thirty-two-bytes");
    expect_bad(LLI_ACK_NAME_SIZE, "*-name-that-has-thirty-two-bytes:2");
    expect_bad(LLI_ACK_NAME_STARS, "a*b*");
    expect_bad(LLI_ACK_NAME_STARS, "**:2");
    expect_bad(LLI_ACK_NAME_STARS, "a*:*");
    expect_bad(LLI_ACK_NAME_COUNT, "a*:");
    expect_bad(LLI_ACK_NAME_COUNT, "a*:0");
    expect_bad(LLI_ACK_NAME_COUNT, "a*:17");
    expect_bad(LLI_ACK_NAME_COUNT, "a*:99999999999999999999");
    expect_bad(LLI_ACK_NAME_COUNT, "a*:-1");
    expect_bad(LLI_ACK_NAME_COUNT, "a*: 2");
    expect_bad(LLI_ACK_NAME_COUNT, "a*:2x");
    expect_bad(LLI_ACK_NAME_COUNT, "a*:eu");
}

/* Text of up to size - 1 letters, of which there are two, and at most one star. */
static void draw(uint64_t *random, char *text, uint32_t size, bool star)
{
    const uint32_t length = 1 + below(random, size - 1);

    for (uint32_t i = 0; i < length; i++)
        text[i] = chance(random, 50) ? 'a' : 'b';
    text[length] = '\0';
    if (star)
        text[below(random, length)] = '*';
}

static void random_patterns_match_as_fnmatch_does(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char pattern[6], receiver[8];

        draw(&random, pattern, sizeof pattern, chance(&random, 80));
        draw(&random, receiver, sizeof receiver, false);
        if (matches(pattern, receiver) != (fnmatch(pattern, receiver, 0) == 0))
            fail_msg("pattern \"%s\", receiver \"%s\"", pattern, receiver);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_name_matches_itself_and_may_have_colons),
        cmocka_unit_test(a_star_stands_for_any_text_or_none),
        cmocka_unit_test(a_pattern_has_the_count_after_its_last_colon),
        cmocka_unit_test(bad_names_are_refused_with_the_reason),
        cmocka_unit_test(random_patterns_match_as_fnmatch_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
