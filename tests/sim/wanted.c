/* SPDX-License-Identifier: Apache-2.0 */
#include "wanted.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cable.h"

enum {
    BINDS_OR = 1,
    BINDS_AND,
    BINDS_NOT,
    BINDS_COMPARISON,
    BINDS_SUM,
    BINDS_PRODUCT,
    BINDS_SIGN,
    BINDS_VALUE
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

const char *const wanted_names[WANTED_CODES] = {"a", "b.2", "$c", "name", "x"};

static const char *const strings[] = {"", "a", "ab", "b%", "abc", "it's", "100%"};

static const struct {
    const char *pattern;
    char escape; /* '\0': none */
} patterns[] = {{"a%", '\0'},  {"_b%", '\0'}, {"%", '\0'}, {"%b%c", '\0'}, {"_", '\0'},
                {"%'s", '\0'}, {"%!%", '!'},  {"", '\0'},  {"_!%%", '!'},  {"%%b_", '\0'}};

/* ------------------------------------------------------------------------------------------------ drawing */

static int64_t draw_integer(bool literal)
{
    static const int64_t far[] = {INT64_MAX, INT64_MIN, (1ll << 53) + 1, 1ll << 53, -1, 3000000000};
    const int64_t drawn = cable_chance(75) ? (int64_t)cable_below(8) : far[cable_below(COUNT(far))];

    if (literal)
        return drawn < 0 ? 0 : drawn;
    return cable_chance(20) && drawn > 0 ? -drawn : drawn;
}

struct wanted_value wanted_draw(enum wanted_kind kind, bool literal)
{
    static const double far[] = {
        9223372036854775808.0, -9223372036854775808.0, 9007199254740992.0, -0.0, NAN, INFINITY};
    struct wanted_value value = {.kind = kind};

    if (kind == WANTED_INTEGER)
        value.integer = draw_integer(literal);
    else if (kind == WANTED_REAL)
        value.real = literal || cable_chance(75) ? (double)cable_below(32) / 4 : far[cable_below(COUNT(far))];
    else if (kind == WANTED_STRING)
        value.string = strings[cable_below(COUNT(strings))];
    return value;
}

static uint32_t node_add(struct wanted_tree *tree, struct wanted_node node, const char *format, ...)
{
    va_list arguments;

    if (tree->count == WANTED_NODES_MAX)
        cable_fail("the tree has too many nodes");
    tree->nodes[tree->count] = node;
    va_start(arguments, format);
    if (vsnprintf(tree->nodes[tree->count].text, WANTED_TEXT_MAX, format, arguments) >= WANTED_TEXT_MAX)
        cable_fail("the tree has too long a text");
    va_end(arguments);
    return tree->count++;
}

/*
 * Returns the text of a node as part of another: in brackets if it binds less closely, and sometimes anyway.
 */
static const char *node_text(struct wanted_tree *tree, uint32_t at, uint32_t binds)
{
    char *text = tree->nodes[at].text;
    const size_t size = strlen(text);

    if (tree->nodes[at].binds >= binds && !cable_chance(20))
        return text;
    if (size + 3 > WANTED_TEXT_MAX)
        cable_fail("the tree has too long a text");
    memmove(text + 1, text, size);
    text[0] = '(';
    memcpy(text + size + 1, ")", 2);
    return text;
}

static uint32_t draw_literal(struct wanted_tree *tree, enum wanted_kind kind)
{
    const struct wanted_node node = {
        .op = WANTED_LITERAL, .binds = BINDS_VALUE, .value = wanted_draw(kind, true)};

    if (kind == WANTED_INTEGER)
        return node_add(tree, node, "%lld", (long long)node.value.integer);
    if (kind == WANTED_REAL)
        return node_add(tree, node, "%.2f", node.value.real);
    /* The one string with a quote doubles it. */
    return node_add(tree, node, "'%s'", strcmp(node.value.string, "it's") == 0 ? "it''s" : node.value.string);
}

static enum wanted_kind draw_number_kind(void)
{
    return cable_chance(60) ? WANTED_INTEGER : WANTED_REAL;
}

static uint32_t draw_property(struct wanted_tree *tree, uint32_t first, uint32_t end)
{
    const uint32_t code = (uint32_t)cable_between(first, end - 1);

    return node_add(tree, (struct wanted_node){.op = WANTED_PROPERTY, .binds = BINDS_VALUE, .count = code},
                    "%s", wanted_names[code]);
}

/* Draws a value; most properties are numbers. */
static uint32_t draw_atom(struct wanted_tree *tree)
{
    if (cable_chance(40))
        return draw_literal(tree, draw_number_kind());
    return cable_chance(80) ? draw_property(tree, 0, 3) : draw_property(tree, 0, WANTED_CODES);
}

static uint32_t draw_number(struct wanted_tree *tree)
{
    static const char signs[] = "+-*/";
    uint32_t at = draw_atom(tree);

    for (uint64_t more = cable_below(3); more > 0; more--) {
        const uint32_t sign = (uint32_t)cable_below(4), binds = sign < 2 ? BINDS_SUM : BINDS_PRODUCT;
        struct wanted_node node = {.op = WANTED_ADD + sign, .binds = binds, .left = at};

        if (cable_chance(20)) {
            at = node_add(tree, (struct wanted_node){.op = WANTED_NEGATE, .binds = BINDS_SIGN, .left = at},
                          "-%s", node_text(tree, at, BINDS_SIGN));
            continue;
        }
        node.right = draw_atom(tree);
        if (cable_chance(50))
            node =
                (struct wanted_node){.op = node.op, .binds = binds, .left = node.right, .right = node.left};
        at = node_add(tree, node, "%s %c %s", node_text(tree, node.left, binds), signs[sign],
                      node_text(tree, node.right, binds + 1));
    }
    return at;
}

static uint32_t draw_in(struct wanted_tree *tree)
{
    const bool text = cable_chance(50);
    struct wanted_node node = {.op = WANTED_IN,
                               .binds = BINDS_COMPARISON,
                               .negated = cable_chance(30),
                               .count = (uint32_t)cable_between(1, 4)};
    char list[128] = "";

    node.left = text ? draw_property(tree, 3, WANTED_CODES) : draw_number(tree);
    node.right = tree->count;
    for (uint32_t i = 0; i < node.count; i++) {
        const uint32_t at = draw_literal(tree, text ? WANTED_STRING : draw_number_kind());

        (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? ", " : "",
                       tree->nodes[at].text);
    }
    return node_add(tree, node, "%s %s (%s)", node_text(tree, node.left, BINDS_SUM),
                    node.negated ? "not in" : "IN", list);
}

static uint32_t draw_like(struct wanted_tree *tree)
{
    struct wanted_node node = {.op = WANTED_LIKE,
                               .binds = BINDS_COMPARISON,
                               .negated = cable_chance(30),
                               .count = (uint32_t)cable_below(COUNT(patterns))};
    const char *pattern = patterns[node.count].pattern;

    node.left = draw_property(tree, 3, WANTED_CODES);
    return node_add(tree, node, "%s%s LIKE '%s'%s", node_text(tree, node.left, BINDS_SUM),
                    node.negated ? " NOT" : "", strcmp(pattern, "%'s") == 0 ? "%''s" : pattern,
                    patterns[node.count].escape == '!' ? " ESCAPE '!'" : "");
}

static uint32_t draw_between(struct wanted_tree *tree)
{
    struct wanted_node node = {.op = WANTED_BETWEEN, .binds = BINDS_COMPARISON, .negated = cable_chance(30)};

    node.left = draw_number(tree);
    node.right = draw_atom(tree);
    node.count = draw_atom(tree);
    return node_add(tree, node, "%s %sBETWEEN %s AND %s", node_text(tree, node.left, BINDS_SUM),
                    node.negated ? "NOT " : "", node_text(tree, node.right, BINDS_SUM),
                    node_text(tree, node.count, BINDS_SUM));
}

static uint32_t draw_comparison(struct wanted_tree *tree)
{
    static const char *const signs[] = {"=", "<>", "<", "<=", ">", ">="};
    const uint32_t sign = (uint32_t)cable_below(COUNT(signs)), what = (uint32_t)cable_below(10);
    struct wanted_node node = {.op = WANTED_EQUAL + sign, .binds = BINDS_COMPARISON};

    if (what == 0)
        return draw_in(tree);
    if (what == 1)
        return draw_like(tree);
    if (what == 2)
        return draw_between(tree);
    if (what == 3) {
        node = (struct wanted_node){
            .op = WANTED_IS_NULL, .binds = BINDS_COMPARISON, .negated = cable_chance(50)};
        node.left = draw_property(tree, 0, WANTED_CODES);
        return node_add(tree, node, "%s IS %sNULL", tree->nodes[node.left].text, node.negated ? "NOT " : "");
    }
    node.left = what == 4 ? draw_property(tree, 3, WANTED_CODES) : draw_number(tree);
    node.right = what == 4 ? draw_literal(tree, WANTED_STRING) : draw_number(tree);
    return node_add(tree, node, "%s %s %s", node_text(tree, node.left, BINDS_SUM), signs[sign],
                    node_text(tree, node.right, BINDS_SUM));
}

/* Draws some comparisons, joined in pairs in any order. */
void wanted_draw_tree(struct wanted_tree *tree)
{
    uint32_t parts[5], count = (uint32_t)cable_between(1, COUNT(parts));

    tree->count = 0;
    for (uint32_t i = 0; i < count; i++)
        parts[i] = draw_comparison(tree);
    for (;;) {
        const uint32_t one = (uint32_t)cable_below(count), other = (uint32_t)cable_below(count);
        const bool both = cable_chance(50);
        struct wanted_node node = {.op = both ? WANTED_AND : WANTED_OR, .binds = both ? BINDS_AND : BINDS_OR};

        if (cable_chance(25))
            parts[one] =
                node_add(tree, (struct wanted_node){.op = WANTED_NOT, .binds = BINDS_NOT, .left = parts[one]},
                         "NOT %s", node_text(tree, parts[one], BINDS_NOT));
        if (count == 1)
            return;
        if (one == other)
            continue;
        node.left = parts[one];
        node.right = parts[other];
        parts[one] = node_add(tree, node, "%s %s %s", node_text(tree, node.left, node.binds),
                              both ? "AND" : "or", node_text(tree, node.right, node.binds));
        parts[other] = parts[--count];
    }
}

/* --------------------------------------------------------------------------------------------- evaluating */

static struct wanted_value truth(int64_t of)
{
    return (struct wanted_value){.kind = WANTED_TRUTH, .integer = of};
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_number(const struct wanted_value *value)
{
    return value->kind == WANTED_INTEGER || value->kind == WANTED_REAL;
}

/* Converts to long double, which represents all integers and all doubles. */
static long double number(const struct wanted_value *value)
{
    return value->kind == WANTED_INTEGER ? (long double)value->integer : (long double)value->real;
}

static struct wanted_value calculate(enum wanted_op op, const struct wanted_value *a,
                                     const struct wanted_value *b)
{
    const bool whole = a->kind == WANTED_INTEGER && b->kind == WANTED_INTEGER;
    struct wanted_value result = {.kind = whole ? WANTED_INTEGER : WANTED_REAL};
    const double x = (double)number(a), y = (double)number(b);
    bool over = false;

    if (!is_number(a) || !is_number(b) || (op == WANTED_DIVIDE && y == 0))
        return (struct wanted_value){.kind = WANTED_NOTHING};
    result.real = op == WANTED_ADD        ? x + y
                  : op == WANTED_SUBTRACT ? x - y
                  : op == WANTED_MULTIPLY ? x * y
                                          : x / y;
    if (!whole)
        return result;
    if (op == WANTED_ADD)
        over = __builtin_add_overflow(a->integer, b->integer, &result.integer);
    else if (op == WANTED_SUBTRACT)
        over = __builtin_sub_overflow(a->integer, b->integer, &result.integer);
    else if (op == WANTED_MULTIPLY)
        over = __builtin_mul_overflow(a->integer, b->integer, &result.integer);
    else if (a->integer == INT64_MIN && b->integer == -1)
        over = true;
    else
        result.integer = a->integer / b->integer;
    result.kind = over ? WANTED_REAL : WANTED_INTEGER;
    return result;
}

static int64_t compare(enum wanted_op op, const struct wanted_value *a, const struct wanted_value *b)
{
    const bool numbers = is_number(a) && is_number(b);
    int order;

    if (numbers && (isnan(number(a)) || isnan(number(b))))
        return 1;
    if (numbers)
        order = (number(a) > number(b)) - (number(a) < number(b));
    else if (a->kind == WANTED_STRING && b->kind == WANTED_STRING)
        order = strcmp(a->string, b->string);
    else
        return 1;
    return 2 * (op == WANTED_EQUAL     ? order == 0
                : op == WANTED_UNEQUAL ? order != 0
                : op == WANTED_LESS    ? order < 0
                : op == WANTED_AT_MOST ? order <= 0
                : op == WANTED_MORE    ? order > 0
                                       : order >= 0);
}

/* Matches prefixes of the text with prefixes of the pattern, one element of the pattern at a time. */
static bool is_like(const char *text, const char *pattern, char escape)
{
    const size_t size = strlen(text);
    bool takes[16] = {true};

    for (; *pattern != '\0'; pattern++) {
        const bool escaped = escape != '\0' && *pattern == escape;

        pattern += escaped;
        for (size_t i = 1; !escaped && *pattern == '%' && i <= size; i++)
            takes[i] |= takes[i - 1];
        if (!escaped && *pattern == '%')
            continue;
        for (size_t i = size; i > 0; i--)
            takes[i] = takes[i - 1] && ((!escaped && *pattern == '_') || text[i - 1] == *pattern);
        takes[0] = false;
    }
    return takes[size];
}

static struct wanted_value evaluate(const struct wanted_node *node, const struct wanted_value *values,
                                    const struct wanted_value *properties)
{
    const struct wanted_value zero = {.kind = WANTED_INTEGER};
    const struct wanted_value *left = values + node->left, *right = values + node->right;
    int64_t result = 0;

    switch (node->op) {
    case WANTED_LITERAL:
        return node->value;
    case WANTED_PROPERTY:
        return properties[node->count];
    case WANTED_NEGATE:
        return calculate(WANTED_SUBTRACT, &zero, left);
    case WANTED_ADD:
    case WANTED_SUBTRACT:
    case WANTED_MULTIPLY:
    case WANTED_DIVIDE:
        return calculate(node->op, left, right);
    case WANTED_BETWEEN:
        result = lesser(compare(WANTED_AT_LEAST, left, right),
                        compare(WANTED_AT_MOST, left, values + node->count));
        break;
    case WANTED_IN:
        for (uint32_t i = 0; i < node->count; i++)
            result = greater(result, compare(WANTED_EQUAL, left, right + i));
        break;
    case WANTED_LIKE:
        result = left->kind != WANTED_STRING
                     ? 1
                     : 2 * is_like(left->string, patterns[node->count].pattern, patterns[node->count].escape);
        break;
    case WANTED_IS_NULL:
        result = left->kind == WANTED_NOTHING ? 2 : 0;
        break;
    case WANTED_NOT:
        return truth(2 - left->integer);
    case WANTED_AND:
        return truth(lesser(left->integer, right->integer));
    case WANTED_OR:
        return truth(greater(left->integer, right->integer));
    default:
        return truth(compare(node->op, left, right));
    }
    return truth(node->negated ? 2 - result : result);
}

bool wanted_is_true(const struct wanted_tree *tree, const struct wanted_value *properties)
{
    struct wanted_value values[WANTED_NODES_MAX];

    for (uint32_t i = 0; i < tree->count; i++)
        values[i] = evaluate(&tree->nodes[i], values, properties);
    return tree->count == 0 || values[tree->count - 1].integer == 2;
}

bool wanted_takes(const char *subject, const char *name)
{
    for (;;) {
        const size_t a = strcspn(subject, "."), b = strcspn(name, ".");

        if (strcmp(subject, ">") == 0)
            return true;
        if (!(a == 1 && *subject == '*') && (a != b || memcmp(subject, name, a) != 0))
            return false;
        if (subject[a] == '\0' || name[b] == '\0')
            return subject[a] == name[b];
        subject += a + 1;
        name += b + 1;
    }
}
