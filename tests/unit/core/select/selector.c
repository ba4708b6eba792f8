/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors: selection, precedence, unknown values, and the columns of faults. */
#include "unit.h"

#include <stdio.h>

#include "core/select/selector.h"
#include "core/wire/wire.h"

/*
 * A message with: i = 7 (int32), n = -3 (int64), big = 2^63 - 1, d = 2.5, s = 'abc', e = '', u = 'it''s
 * 100%_x'; `absent` is missing.
 */
static const struct llm_property_name names[] = {{"i", 1},          {"n", 2},   {"big", 3}, {"d", 4},
                                                 {"s", 5},          {"e", 6},   {"u", 700}, {"absent", 8},
                                                 {"absent.too", 9}, {"nan", 10}};
enum { NAMES = sizeof names / sizeof names[0] };

static uint8_t properties[256];
static uint32_t properties_size;

static void put_head(uint16_t code, uint8_t type)
{
    lli_store_u16(properties + properties_size, code);
    properties[properties_size + 2] = type;
    properties_size += 3;
}

static void put_integer(uint16_t code, int64_t value, bool wide)
{
    put_head(code, wide ? LLM_PROPERTY_INT64 : LLM_PROPERTY_INT32);
    if (wide)
        lli_store_u64(properties + properties_size, (uint64_t)value);
    else
        lli_store_u32(properties + properties_size, (uint32_t)value);
    properties_size += wide ? 8 : 4;
}

static void put_real(uint16_t code, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_head(code, LLM_PROPERTY_DOUBLE);
    lli_store_u64(properties + properties_size, bits);
    properties_size += 8;
}

static void put_string(uint16_t code, const char *text)
{
    put_head(code, LLM_PROPERTY_BYTES);
    lli_store_u16(properties + properties_size, (uint16_t)strlen(text));
    memcpy(properties + properties_size + 2, text, strlen(text));
    properties_size += 2 + (uint32_t)strlen(text);
}

static int up(void **state)
{
    (void)state;
    properties_size = 0;
    put_integer(1, 7, false);
    put_integer(2, -3, true);
    put_integer(3, INT64_MAX, true);
    put_real(4, 2.5);
    put_string(5, "abc");
    put_string(6, "");
    put_string(700, "it's 100%_x");
    put_real(10, __builtin_nan(""));
    /* The first property of a code counts. */
    put_integer(1, 8, false);
    return 0;
}

static bool is_selected(const char *text)
{
    static struct lli_selector selector;
    struct lli_selector_fault fault;
    uint8_t *copy = exact_copy(properties, properties_size);
    char *text_copy = (char *)exact_copy(text, strlen(text) + 1);
    bool selected;

    if (!lli_selector_compile(&selector, text_copy, names, NAMES, &fault))
        fail_msg("%s: column %u: %s", text, fault.column, fault.text);
    selected = lli_selector_run(&selector, copy, properties_size);
    free(copy);
    free(text_copy);
    return selected;
}

static void selected(const char *text)
{
    if (!is_selected(text))
        fail_msg("is not selected: %s", text);
}

/* Its negation is not selected either if a value is unknown. */
static void rejected(const char *text)
{
    if (is_selected(text))
        fail_msg("is selected: %s", text);
}

static void unknown(const char *text)
{
    char opposite[512];

    rejected(text);
    snprintf(opposite, sizeof opposite, "NOT (%s)", text);
    rejected(opposite);
    snprintf(opposite, sizeof opposite, "(%s) OR TRUE", text);
    selected(opposite);
    snprintf(opposite, sizeof opposite, "NOT ((%s) AND FALSE)", text);
    selected(opposite);
    snprintf(opposite, sizeof opposite, "(%s) AND TRUE", text);
    rejected(opposite);
    snprintf(opposite, sizeof opposite, "NOT ((%s) OR FALSE)", text);
    rejected(opposite);
}

static void numbers_compare(void **state)
{
    (void)state;
    selected("i = 7");
    selected("7 = i");
    rejected("i <> 7");
    selected("i <> 8");
    selected("i < 8 AND i <= 7 AND i > 6 AND i >= 7");
    rejected("i < 7 OR i > 7");
    selected("n = -3");
    selected("n < 0 and d > 2 And d <> 1");
    selected("i = 7.0");
    selected("d = 2.5 AND d = 25e-1 AND d = 0.25E+1 AND d = .0025e3");
    selected("big = 9223372036854775807");
    selected("9223372036854775808 > 9223372036854775807.5 - 10000");
    selected("123456789012345678901234567890 > 1.2e29 AND 123456789012345678901234567890 < 1.3e29");
    unknown("nan = nan");
    unknown("nan > 1");
}

static void arithmetic_has_the_standards_precedence(void **state)
{
    (void)state;
    selected("1 + 2 * 3 = 7");
    selected("(1 + 2) * 3 = 9");
    selected("10 - 4 - 3 = 3");
    selected("100 / 10 / 5 = 2");
    selected("2 * 3 / 4 = 1");
    selected("2.0 * 3 / 4 = 1.5");
    selected("- i + 1 = -6");
    selected("-(i + 1) = -8");
    selected("- - i = i AND + i = i AND -+-i = 7");
    selected("i * -1 = -7");
    selected("-7 / 2 = -3");
    selected("big + 1 > big - 1");
    selected("big * 2 > 1.8e19");
    selected("-big - 2 < -9.2e18");
    selected("(-big - 1) / -1 > 9.2e18");
    unknown("i / 0 = 1");
    unknown("d / 0 = 1");
    unknown("d / 0.0 <> 1");
    unknown("i + s = 1");
    unknown("-s = 1");
}

static void conditions_join_as_in_sql(void **state)
{
    (void)state;
    selected("TRUE OR FALSE AND FALSE");
    rejected("(TRUE OR FALSE) AND FALSE");
    selected("NOT FALSE AND TRUE");
    rejected("NOT TRUE OR FALSE");
    selected("NOT i = 8");
    selected("NOT NOT i = 7");
    rejected("NOT (i = 8 OR TRUE)");
    selected("(i = 7) = (n = -3)");
    selected("(i = 7) <> FALSE");
    selected("i = 7 AND NOT n = 3 AND NOT d BETWEEN 3 AND 4");
    selected("true");
    rejected("FALSE");
}

static void absent_properties_are_unknown(void **state)
{
    (void)state;
    unknown("absent = 1");
    unknown("absent = absent");
    unknown("absent <> 1");
    unknown("absent + 1 > 0");
    unknown("absent BETWEEN 1 AND 2");
    unknown("absent IN (1, 2)");
    unknown("absent LIKE '%'");
    unknown("i BETWEEN absent AND 10");
    rejected("i BETWEEN absent AND 1");
    selected("i NOT BETWEEN absent AND 1");
    selected("absent IS NULL");
    rejected("absent IS NOT NULL");
    selected("i IS NOT NULL AND NOT i IS NULL");
    selected("absent = 1 OR i = 7");
    selected("absent.too is null");
    selected("(absent) IS NULL");
    /* A string and a number are never compared. */
    unknown("s = i");
    unknown("i LIKE '7'");
    unknown("s IN (1, 2)");
    unknown("s > i");
}

static void between_in_and_like_compare_as_in_sql(void **state)
{
    (void)state;
    selected("i BETWEEN 7 AND 7");
    selected("i BETWEEN 1 AND 10 AND n = -3");
    rejected("i BETWEEN 8 AND 10");
    rejected("i BETWEEN 10 AND 1");
    selected("i NOT BETWEEN 8 AND 10");
    selected("i + 1 BETWEEN 2 * 4 AND 2 * 4 + 0");
    selected("s BETWEEN 'abb' AND 'abd'");
    selected("i IN (1, 7, 9)");
    selected("d IN (2.5)");
    rejected("i NOT IN (1, 7)");
    selected("s IN ('x', 'abc')");
    selected("s NOT IN ('x', 'ab')");
    selected("s = 'abc' AND s <> 'ab' AND s < 'abd' AND s > 'ab'");
    selected("e = ''");
    selected("u = 'it''s 100%_x'");
    selected("s LIKE 'abc' AND s LIKE 'a_c' AND s LIKE '%' AND s LIKE '%c' AND s LIKE 'a%' AND s LIKE '%b%' "
             "AND s LIKE '___'");
    rejected("s LIKE '__'");
    rejected("s LIKE 'ab'");
    rejected("s LIKE 'b%'");
    selected("s NOT LIKE 'ABC'");
    selected("e LIKE '' AND e LIKE '%' AND e NOT LIKE '_'");
    selected("u LIKE '%100!%!_x' ESCAPE '!'");
    rejected("s LIKE 'a!_c' ESCAPE '!'");
    /* Byte 255 is an ordinary byte, and no escape by default. */
    rejected("s LIKE 'a\xff'");
    selected("s LIKE 'a\xff_c' ESCAPE '\xff' OR s LIKE 'abc'");
    selected("u LIKE 'it''s%'");
    selected("u LIKE 'it!''s%' ESCAPE '!'");
    selected("s LIKE '%a%b%c%' AND s NOT LIKE '%c%b%'");
}

/* ------------------------------------------------------------------------------------------------- faults */

static void faulty(const char *text, uint32_t column, const char *word)
{
    static struct lli_selector selector;
    struct lli_selector_fault fault;
    char *copy = (char *)exact_copy(text, strlen(text) + 1);

    if (lli_selector_compile(&selector, copy, names, NAMES, &fault))
        fail_msg("is compiled: %s", text);
    if (fault.column != column || strstr(fault.text, word) == NULL)
        fail_msg("column %u: %s: %.60s", fault.column, fault.text, text);
    free(copy);
}

static void faults_are_named_with_their_column(void **state)
{
    (void)state;
    faulty("", 1, "ends");
    faulty("   ", 4, "ends");
    faulty("i", 1, "condition");
    faulty("i + 1", 1, "condition");
    faulty("i =", 4, "ends");
    faulty("i = 7 AND", 10, "ends");
    faulty("other = 7", 1, "no property");
    faulty("i = 7 AND I = 7", 11, "no property");
    faulty("i = 7 n = 3", 7, "operator");
    faulty("i == 7", 4, "value");
    faulty("i = 7 ; n = 1", 7, "operator");
    faulty("(i = 7", 1, "not closed");
    faulty("((i = 7)", 1, "not closed");
    faulty("i = 7)", 6, "not opened");
    faulty("()", 2, "value");
    faulty("i = 1 = 2", 7, "comparison");
    faulty("i < 1 BETWEEN 1 AND 2", 7, "comparison");
    faulty("i BETWEEN 1", 3, "BETWEEN");
    faulty("(i BETWEEN 1) AND 2", 4, "BETWEEN");
    faulty("i BETWEEN 1 OR 2 = 2", 3, "BETWEEN");
    faulty("i IN ()", 7, "list");
    faulty("i IN (1,)", 9, "list");
    faulty("i IN (1 2)", 9, "bracket");
    faulty("i IN 1", 6, "brackets");
    faulty("i IN (n)", 7, "list");
    faulty("i IN (1, 'a')", 3, "different types");
    faulty("s LIKE", 7, "pattern");
    faulty("s LIKE u", 8, "pattern");
    faulty("s LIKE 'a' ESCAPE 'xy'", 19, "ESCAPE");
    faulty("s LIKE 'a!' ESCAPE '!'", 10, "follows");
    faulty("7 LIKE 'a'", 3, "strings");
    faulty("i IS 7", 6, "NULL");
    faulty("7 IS NULL", 3, "property");
    faulty("i + 1 IS NULL", 7, "property");
    faulty("i NOT = 7", 3, "NOT is followed");
    faulty("i NOT IS NULL", 3, "NOT is followed");
    faulty("i = NOT 7", 5, "NOT");
    faulty("NOT i", 1, "condition");
    faulty("i AND n = 1", 3, "conditions");
    faulty("TRUE AND 1", 6, "conditions");
    faulty("TRUE + 1 = 2", 6, "arithmetic");
    faulty("'a' + 1 = 2", 5, "arithmetic");
    faulty("-'a' = 2", 1, "sign");
    faulty("s = 'abc", 5, "does not end");
    faulty("s = 'abc''", 5, "does not end");
    faulty("i = 1x", 5, "value");
    faulty("i = 1e", 5, "value");
    faulty("1 = 'a'", 3, "different types");
    faulty("TRUE < FALSE", 6, "different types");
    faulty("i = TRUE", 3, "different types");
    faulty("i = \xc3\xbc", 5, "value");
}

static char *repeated(const char *before, const char *piece, size_t times, const char *behind)
{
    char *text = calloc(1, strlen(before) + strlen(piece) * times + strlen(behind) + 1), *at = text;

    assert_non_null(text);
    memcpy(at, before, strlen(before));
    at += strlen(before);
    for (size_t i = 0; i < times; i++, at += strlen(piece))
        memcpy(at, piece, strlen(piece));
    memcpy(at, behind, strlen(behind));
    return text;
}

static void hostile_sizes_are_refused(void **state)
{
    const struct {
        const char *before, *piece;
        size_t times;
        const char *behind;
        uint32_t column;
        const char *word;
    } hostile[] = {
        {"", "(", 4000, "TRUE", 65, "64"},
        {"", "NOT ", 1000, "TRUE", 257, "64"},
        {"i = ", "-", 4000, "1", 68, "64"},
        {"TRUE", " AND TRUE", 400, "", 1158, "256"},
        {"i IN (1", ",1", 400, ")", 69, "32"},
        {"i = 1", "+1", 200, "", 261, "256"},
        {"s = '", "x", 4095, "'", 4097, "4096 bytes"},
        {"s LIKE '", "x", 3000, "'", 8, "two for each"},
        {"TRUE", " ", 1000000, "", 4097, "4096 bytes"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        char *text = repeated(hostile[i].before, hostile[i].piece, hostile[i].times, hostile[i].behind);

        faulty(text, hostile[i].column, hostile[i].word);
        free(text);
    }
}

static void truncated_properties_are_absent(void **state)
{
    static const struct {
        uint32_t size;
        uint8_t bytes[8];
    } broken[] = {{2, {1, 0}},
                  {4, {1, 0, 1, 7}},
                  {7, {1, 0, 9, 7, 0, 0, 0}},
                  {6, {2, 0, 4, 0xff, 0xff, 1}},
                  {8, {1, 0, 2, 7, 0, 0, 0, 0}},
                  {6, {1, 0, 4, 2, 0, 'a'}}};
    static struct lli_selector selector;
    struct lli_selector_fault fault;

    (void)state;
    assert_true(lli_selector_compile(&selector, "i IS NULL", names, NAMES, &fault));
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        uint8_t *copy = exact_copy(broken[i].bytes, broken[i].size);

        assert_true(lli_selector_run(&selector, copy, broken[i].size));
        free(copy);
    }
    assert_true(lli_selector_run(&selector, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(numbers_compare, up),
        cmocka_unit_test_setup(arithmetic_has_the_standards_precedence, up),
        cmocka_unit_test_setup(conditions_join_as_in_sql, up),
        cmocka_unit_test_setup(absent_properties_are_unknown, up),
        cmocka_unit_test_setup(between_in_and_like_compare_as_in_sql, up),
        cmocka_unit_test(faults_are_named_with_their_column),
        cmocka_unit_test(hostile_sizes_are_refused),
        cmocka_unit_test(truncated_properties_are_absent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
