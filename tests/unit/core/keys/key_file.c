/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "core/keys/key_file.h"

#define KEY_A "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define KEY_B "/////////////////////////////////////////v8="
#define LINE_7 "7 2026-11-25T10:00:00Z 2026-12-02 aes-128-gcm " KEY_A " 239.192.1.*:*\n"

static struct lli_key_file file;
static struct lli_key_fault fault;

static bool parse(const char *text)
{
    /* Of exactly this size, without a zero: reads beyond it are detected. */
    char *copy = (char *)exact_copy(text, strlen(text));
    const bool parsed = lli_key_parse(copy, strlen(text), &file, &fault);

    free(copy);
    return parsed;
}

static void expect_fault(const char *text, uint32_t line, const char *value, const char *says)
{
    assert_false(parse(text));
    assert_int_equal(fault.line, line);
    assert_string_equal(fault.value, value);
    if (strstr(fault.text, says) == NULL)
        fail_msg("\"%s\" is not in: %s", says, fault.text);
    for (size_t i = 0; i < sizeof file; i++)
        assert_int_equal(((const uint8_t *)&file)[i], 0);
}

static void an_epoch_is_read_with_all_its_fields(void **state)
{
    (void)state;
    assert_true(parse("# a comment\n\n\t " LINE_7));
    assert_int_equal(file.count, 1);
    assert_int_equal(file.epochs[0].id, 7);
    assert_int_equal(file.epochs[0].line, 3);
    assert_int_equal(file.epochs[0].suite, LLI_KEY_AES_128_GCM);
    assert_int_equal(file.epochs[0].from, 1795600800);
    assert_int_equal(file.epochs[0].until, 1796169600);
    assert_string_equal(file.epochs[0].pattern, "239.192.1.*:*");
    for (int i = 0; i < LLI_KEY_BYTES; i++)
        assert_int_equal(file.epochs[0].key[i], i);
}

static void a_file_with_carriage_returns_is_read(void **state)
{
    (void)state;
    assert_true(parse("1 2026-01-01 2027-01-01 chacha20-poly1305 " KEY_B " *\r\n"));
    assert_string_equal(file.epochs[0].pattern, "*");
}

static void a_damaged_file_names_line_field_and_remedy(void **state)
{
    (void)state;
    expect_fault("", 0, "", "llm-key new");
    expect_fault("# nothing\n", 0, "", "llm-key new");
    expect_fault(LINE_7 "8 2026", 2, "", "cut");
    expect_fault("7 2026-11-25 2026-12-02 aes-128-gcm " KEY_A "\n", 1, "", "six fields");
    expect_fault("7 2026-11-25 2026-12-02 aes-128-gcm " KEY_A " * *\n", 1, "", "six fields");
    expect_fault("0 2026-11-25 2026-12-02 aes-128-gcm " KEY_A " *\n", 1, "0", "1 to 65535");
    expect_fault("65536 2026-11-25 2026-12-02 aes-128-gcm " KEY_A " *\n", 1, "65536", "1 to 65535");
    expect_fault("-1 2026-11-25 2026-12-02 aes-128-gcm " KEY_A " *\n", 1, "-1", "1 to 65535");
    expect_fault("7 2026-02-29 2026-12-02 aes-128-gcm " KEY_A " *\n", 1, "2026-02-29", "from which");
    expect_fault("7 2026-11-25T24:00:00Z 2026-12-02 aes-128-gcm " KEY_A " *\n", 1, "2026-11-25T24:00:00Z",
                 "from which");
    expect_fault("7 2026-11-25 2026-11-25 aes-128-gcm " KEY_A " *\n", 1, "2026-11-25", "until which");
    expect_fault("7 2026-11-25 tomorrow aes-128-gcm " KEY_A " *\n", 1, "tomorrow", "until which");
    expect_fault("7 2026-11-25 2026-12-02 aes-128 " KEY_A " *\n", 1, "aes-128", "aes-256-gcm");
    expect_fault(LINE_7 LINE_7, 2, "7", "one key for each pattern");
}

static void a_fault_never_has_a_part_of_the_key(void **state)
{
    (void)state;
    expect_fault("7 2026-11-25 2026-12-02 aes-128-gcm AAEC *\n", 1, "", "32 bytes in base64");
    /* The last digit has bits that no byte takes. */
    expect_fault("7 2026-11-25 2026-12-02 aes-128-gcm AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9= *\n", 1,
                 "", "32 bytes in base64");
    expect_fault("7 2026-11-25 2026-12-02 aes-128-gcm AAECAwQFBgcICQoL!A0ODxAREhMUFRYXGBkaGxwdHh8= *\n", 1,
                 "", "32 bytes in base64");
}

static void one_epoch_may_have_keys_for_several_patterns(void **state)
{
    (void)state;
    assert_true(parse("7 2026-11-25 2026-12-02 aes-128-gcm " KEY_A " a\n"
                      "7 2026-11-25 2026-12-02 aes-256-gcm " KEY_B " b\n"));
    assert_int_equal(file.count, 2);
}

static void the_sixty_fifth_epoch_is_refused(void **state)
{
    char text[66 * 128];
    size_t used = 0;

    (void)state;
    for (int i = 1; i <= 65; i++) {
        if (i == 65)
            assert_true(parse(text));
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%d 2026-11-25 2026-12-02 aes-128-gcm " KEY_A " *\n", i);
    }
    expect_fault(text, 65, "", "64 epochs");
}

static void a_written_epoch_is_read_back(void **state)
{
    uint64_t random = 3;
    char line[LLI_KEY_LINE_MAX];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        struct lli_key_epoch epoch;
        size_t size;

        /* With its padding: the whole of it is compared. */
        memset(&epoch, 0, sizeof epoch);
        epoch.id = (uint16_t)(1 + below(&random, 65535));
        epoch.line = 1;
        epoch.suite = (enum lli_key_suite)(1 + below(&random, 3));
        epoch.from = lli_random_below(&random, LLI_KEY_TIME_LAST);
        epoch.until = epoch.from + 1 + lli_random_below(&random, LLI_KEY_TIME_LAST - epoch.from);
        for (int k = 0; k < LLI_KEY_BYTES; k++)
            epoch.key[k] = (uint8_t)below(&random, 256);
        memset(epoch.pattern, 'x', 1 + below(&random, LLI_KEY_PATTERN_MAX));
        size = lli_key_put(line, &epoch);
        assert_int_equal(size, strlen(line));
        assert_true(parse(line));
        assert_int_equal(file.count, 1);
        assert_memory_equal(&file.epochs[0], &epoch, sizeof epoch);
    }
}

static void patterns_match_as_their_stars_say(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {
        {"*", "", true},
        {"*", "239.192.1.1:5001", true},
        {"239.192.1.1:5001", "239.192.1.1:5001", true},
        {"239.192.1.1:5001", "239.192.1.1:50011", false},
        {"239.192.1.*:5001", "239.192.1.77:5001", true},
        {"239.192.1.*:5001", "239.192.2.77:5001", false},
        {"*:5001", "a:5001:5001", true},
        {"a*b*c", "a-b-b-c", true},
        {"a*b*c", "a-b-b", false},
        {"", "", true},
        {"", "a", false},
        {"**", "a", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(lli_key_matches(cases[i].pattern, cases[i].name), cases[i].matches);
}

static void of_overlapping_epochs_the_one_that_began_last_is_current(void **state)
{
    const struct lli_key_epoch *next, *last;

    (void)state;
    assert_true(parse("1 2026-11-01 2026-11-10 aes-128-gcm " KEY_A " *\n"
                      "3 2026-11-20 2026-11-30 aes-128-gcm " KEY_A " *\n"
                      "2 2026-11-09 2026-11-21 aes-128-gcm " KEY_B " *\n"
                      "9 2026-11-09 2026-11-21 aes-128-gcm " KEY_B " other\n"));
    /* 2026-11-09 is day 20,766. */
    assert_int_equal(lli_key_current(&file, "a", (lli_key_time)20766 * 86400 - 1, &next, &last)->id, 1);
    assert_int_equal(next->id, 2);
    assert_null(last);
    assert_int_equal(lli_key_current(&file, "a", (lli_key_time)20766 * 86400, &next, &last)->id, 2);
    assert_int_equal(lli_key_current(&file, "a", (lli_key_time)20777 * 86400, &next, &last)->id, 3);
    assert_null(next);
    assert_int_equal(last->id, 1);
    assert_null(lli_key_current(&file, "a", (lli_key_time)20800 * 86400, &next, &last));
    assert_int_equal(last->id, 3);
    assert_null(lli_key_current(&file, "a", 0, &next, &last));
    assert_int_equal(next->id, 1);
}

static void suites_have_names_and_sizes(void **state)
{
    (void)state;
    assert_string_equal(lli_key_suite_name(LLI_KEY_CHACHA20_POLY1305), "chacha20-poly1305");
    assert_null(lli_key_suite_name((enum lli_key_suite)9));
    assert_int_equal(lli_key_suite_find("aes-256-gcm", 11), LLI_KEY_AES_256_GCM);
    assert_int_equal(lli_key_suite_find("aes-256-gcm", 10), 0);
    assert_int_equal(lli_key_suite_bytes(LLI_KEY_AES_128_GCM), 16);
    assert_int_equal(lli_key_suite_bytes((enum lli_key_suite)0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_is_read_with_all_its_fields),
        cmocka_unit_test(a_file_with_carriage_returns_is_read),
        cmocka_unit_test(a_damaged_file_names_line_field_and_remedy),
        cmocka_unit_test(a_fault_never_has_a_part_of_the_key),
        cmocka_unit_test(one_epoch_may_have_keys_for_several_patterns),
        cmocka_unit_test(the_sixty_fifth_epoch_is_refused),
        cmocka_unit_test(a_written_epoch_is_read_back),
        cmocka_unit_test(patterns_match_as_their_stars_say),
        cmocka_unit_test(of_overlapping_epochs_the_one_that_began_last_is_current),
        cmocka_unit_test(suites_have_names_and_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
