/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selector stack machine: runs a program over the properties of a message, with the three-valued logic of
 * SQL.
 */
#include <string.h>

#include "core/select/filter.h"

enum value_kind { VALUE_UNKNOWN, VALUE_TRUTH, VALUE_INTEGER, VALUE_REAL, VALUE_STRING };

struct value {
    enum value_kind kind;
    uint32_t size;
    union {
        int64_t integer; /* or truth value */
        double real;
        const uint8_t *string;
    } as;
};

static struct value value_truth(bool truth)
{
    return (struct value){.kind = VALUE_TRUTH, .as.integer = truth};
}

static struct value value_integer(int64_t integer)
{
    return (struct value){.kind = VALUE_INTEGER, .as.integer = integer};
}

static struct value value_real(double real)
{
    return (struct value){.kind = VALUE_REAL, .as.real = real};
}

static struct value value_unknown(void)
{
    return (struct value){.kind = VALUE_UNKNOWN};
}

static bool value_is_number(const struct value *value)
{
    return value->kind == VALUE_INTEGER || value->kind == VALUE_REAL;
}

static double value_as_real(const struct value *value)
{
    return value->kind == VALUE_INTEGER ? (double)value->as.integer : value->as.real;
}

/* ------------------------------------------------------------------------------------------- properties */

static struct value property_value(const struct llm_property *property)
{
    switch (property->type) {
    case LLM_PROPERTY_INT32:
        return value_integer(property->value.int32);
    case LLM_PROPERTY_INT64:
        return value_integer(property->value.int64);
    case LLM_PROPERTY_DOUBLE:
        return value_real(property->value.float64);
    case LLM_PROPERTY_BYTES:
        return (struct value){.kind = VALUE_STRING,
                              .size = property->value.bytes.size,
                              .as.string = property->value.bytes.data};
    }
    return value_unknown();
}

static struct value property_find(const uint8_t *properties, uint32_t size, uint32_t wanted)
{
    static const uint8_t nothing[1];
    struct lli_reader reader = lli_reader_of(size == 0 ? nothing : properties, size);
    struct llm_property property;

    while (lli_property_next(&reader, &property))
        if (property.code == wanted)
            return property_value(&property);
    return value_unknown();
}

/* -------------------------------------------------------------------------------------------- operators */

/* Results beyond 64 bits continue as real numbers. */
static struct value run_integers(uint8_t code, int64_t a, int64_t b)
{
    int64_t result;

    switch (code) {
    case LLI_SELECT_ADD:
        return __builtin_add_overflow(a, b, &result) ? value_real((double)a + (double)b)
                                                     : value_integer(result);
    case LLI_SELECT_SUBTRACT:
        return __builtin_sub_overflow(a, b, &result) ? value_real((double)a - (double)b)
                                                     : value_integer(result);
    case LLI_SELECT_MULTIPLY:
        return __builtin_mul_overflow(a, b, &result) ? value_real((double)a * (double)b)
                                                     : value_integer(result);
    default:
        if (b == 0)
            return value_unknown();
        if (b == -1)
            return __builtin_sub_overflow(0, a, &result) ? value_real(-(double)a) : value_integer(result);
        return value_integer(a / b);
    }
}

static struct value run_arithmetic(uint8_t code, const struct value *a, const struct value *b)
{
    double x, y;

    if (!value_is_number(a) || !value_is_number(b))
        return value_unknown();
    if (a->kind == VALUE_INTEGER && b->kind == VALUE_INTEGER)
        return run_integers(code, a->as.integer, b->as.integer);
    x = value_as_real(a);
    y = value_as_real(b);
    switch (code) {
    case LLI_SELECT_ADD:
        return value_real(x + y);
    case LLI_SELECT_SUBTRACT:
        return value_real(x - y);
    case LLI_SELECT_MULTIPLY:
        return value_real(x * y);
    default:
        return y == 0 ? value_unknown() : value_real(x / y);
    }
}

/* Compares exactly: not every integer is a double. */
static int order_mixed(int64_t integer, double real)
{
    const double limit = 9223372036854775808.0;
    int64_t whole;

    if (real >= limit || real < -limit)
        return real > 0 ? -1 : 1;
    whole = (int64_t)real;
    if (integer != whole)
        return integer < whole ? -1 : 1;
    return ((double)whole > real) - ((double)whole < real);
}

/* False: one of them is NaN. */
static bool order_numbers(const struct value *a, const struct value *b, int *order)
{
    if (a->kind == VALUE_INTEGER && b->kind == VALUE_INTEGER) {
        *order = (a->as.integer > b->as.integer) - (a->as.integer < b->as.integer);
        return true;
    }
    if ((a->kind == VALUE_REAL && a->as.real != a->as.real) ||
        (b->kind == VALUE_REAL && b->as.real != b->as.real))
        return false;
    if (a->kind == VALUE_INTEGER)
        *order = order_mixed(a->as.integer, b->as.real);
    else if (b->kind == VALUE_INTEGER)
        *order = -order_mixed(b->as.integer, a->as.real);
    else
        *order = (a->as.real > b->as.real) - (a->as.real < b->as.real);
    return true;
}

/* Sets *order to -1, 0 or 1. False: not comparable, such as a number with a string, or an absent value. */
static bool run_order(const struct value *a, const struct value *b, int *order)
{
    if (value_is_number(a) && value_is_number(b))
        return order_numbers(a, b, order);
    if (a->kind != b->kind || (a->kind != VALUE_STRING && a->kind != VALUE_TRUTH))
        return false;
    if (a->kind == VALUE_TRUTH) {
        *order = (int)(a->as.integer - b->as.integer);
        return true;
    }
    *order = memcmp(a->as.string, b->as.string, lli_min(a->size, b->size));
    if (*order == 0)
        *order = (a->size > b->size) - (a->size < b->size);
    return true;
}

static struct value run_compare(uint8_t code, const struct value *a, const struct value *b)
{
    int order;

    if (!run_order(a, b, &order))
        return value_unknown();
    switch (code) {
    case LLI_SELECT_EQUAL:
        return value_truth(order == 0);
    case LLI_SELECT_UNEQUAL:
        return value_truth(order != 0);
    case LLI_SELECT_LESS:
        return value_truth(order < 0);
    case LLI_SELECT_AT_MOST:
        return value_truth(order <= 0);
    case LLI_SELECT_MORE:
        return value_truth(order > 0);
    default:
        return value_truth(order >= 0);
    }
}

/* AND: false decides; OR: true decides. Otherwise an unknown value makes the result unknown. */
static struct value run_join(const struct value *a, const struct value *b, bool decides)
{
    if ((a->kind == VALUE_TRUTH && a->as.integer == decides) ||
        (b->kind == VALUE_TRUTH && b->as.integer == decides))
        return value_truth(decides);
    return a->kind == VALUE_TRUTH && b->kind == VALUE_TRUTH ? value_truth(!decides) : value_unknown();
}

static struct value run_in(const struct value *value, uint32_t count)
{
    struct value found = value_truth(false);

    for (uint32_t i = 1; i <= count; i++) {
        const struct value equal = run_compare(LLI_SELECT_EQUAL, value, value + i);

        found = run_join(&found, &equal, true);
    }
    return found;
}

/* Backtracks to the latest run only, so the cost is at most the product of both lengths. */
static bool run_like(const uint8_t *text, uint32_t size, const uint8_t *pattern, uint32_t pairs)
{
    uint32_t at = 0, pair = 0, run = UINT32_MAX, run_at = 0;

    while (at < size) {
        const uint8_t *p = pattern + 2 * (size_t)pair;

        if (pair < pairs && p[0] == LLI_PATTERN_RUN) {
            run = pair++;
            run_at = at;
        } else if (pair < pairs && (p[0] == LLI_PATTERN_ONE || p[1] == text[at])) {
            pair++;
            at++;
        } else if (run != UINT32_MAX) {
            pair = run + 1;
            at = ++run_at;
        } else {
            return false;
        }
    }
    while (pair < pairs && pattern[2 * (size_t)pair] == LLI_PATTERN_RUN)
        pair++;
    return pair == pairs;
}

/* ---------------------------------------------------------------------------------------------- program */

static struct value run_literal(const struct lli_selector *selector, const struct lli_selector_op *op)
{
    switch (op->code) {
    case LLI_SELECT_INTEGER:
        return value_integer(op->value.integer);
    case LLI_SELECT_REAL:
        return value_real(op->value.real);
    case LLI_SELECT_TRUTH:
        return value_truth(op->arg != 0);
    default:
        return (struct value){
            .kind = VALUE_STRING, .size = op->value.size, .as.string = selector->pool + op->arg};
    }
}

/* Applies an operation on the top value alone. */
static struct value run_unary(const struct lli_selector *selector, const struct lli_selector_op *op,
                              const struct value *a)
{
    const struct value zero = value_integer(0);

    switch (op->code) {
    case LLI_SELECT_NEGATE:
        return a->kind == VALUE_REAL ? value_real(-a->as.real)
                                     : run_arithmetic(LLI_SELECT_SUBTRACT, &zero, a);
    case LLI_SELECT_NOT:
        return a->kind == VALUE_TRUTH ? value_truth(!a->as.integer) : value_unknown();
    case LLI_SELECT_IS_NULL:
        return value_truth(a->kind == VALUE_UNKNOWN);
    default:
        if (a->kind != VALUE_STRING)
            return value_unknown();
        return value_truth(run_like(a->as.string, a->size, selector->pool + op->arg, op->value.size / 2));
    }
}

static struct value run_binary(uint8_t code, const struct value *a, const struct value *b)
{
    if (code == LLI_SELECT_AND || code == LLI_SELECT_OR)
        return run_join(a, b, code == LLI_SELECT_OR);
    return code <= LLI_SELECT_DIVIDE ? run_arithmetic(code, a, b) : run_compare(code, a, b);
}

static struct value run_between(const struct value *a)
{
    const struct value least = run_compare(LLI_SELECT_AT_LEAST, a, a + 1),
                       most = run_compare(LLI_SELECT_AT_MOST, a, a + 2);

    return run_join(&least, &most, false);
}

bool lli_selector_run(const struct lli_selector *selector, const uint8_t *properties, uint32_t size)
{
    struct value stack[LLI_SELECTOR_DEPTH];
    uint32_t depth = 0;

    for (uint32_t i = 0; i < selector->count; i++) {
        const struct lli_selector_op *op = &selector->ops[i];

        switch (op->code) {
        case LLI_SELECT_INTEGER:
        case LLI_SELECT_REAL:
        case LLI_SELECT_STRING:
        case LLI_SELECT_TRUTH:
            stack[depth++] = run_literal(selector, op);
            break;
        case LLI_SELECT_PROPERTY:
            stack[depth++] = property_find(properties, size, op->arg);
            break;
        case LLI_SELECT_NEGATE:
        case LLI_SELECT_NOT:
        case LLI_SELECT_IS_NULL:
        case LLI_SELECT_LIKE:
            stack[depth - 1] = run_unary(selector, op, &stack[depth - 1]);
            break;
        case LLI_SELECT_BETWEEN:
            depth -= 2;
            stack[depth - 1] = run_between(&stack[depth - 1]);
            break;
        case LLI_SELECT_IN:
            depth -= op->arg;
            stack[depth - 1] = run_in(&stack[depth - 1], op->arg);
            break;
        default:
            depth--;
            stack[depth - 1] = run_binary(op->code, &stack[depth - 1], &stack[depth]);
            break;
        }
        assert(depth >= 1 && depth <= LLI_SELECTOR_DEPTH);
    }
    return selector->count == 0 || (stack[0].kind == VALUE_TRUTH && stack[0].as.integer != 0);
}
