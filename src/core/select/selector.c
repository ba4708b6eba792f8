/* SPDX-License-Identifier: Apache-2.0 */
/* Selector compiler: operator precedence parsing with a stack of open operators. */
#include "core/select/selector.h"

#include <string.h>

enum token_kind {
    TOKEN_END,
    TOKEN_BAD,
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_STRING,
    TOKEN_NAME,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_COMMA,
    TOKEN_OPERATOR, /* code: binary operator */
    TOKEN_AND,
    TOKEN_OR,
    TOKEN_NOT,
    TOKEN_BETWEEN,
    TOKEN_IN,
    TOKEN_LIKE,
    TOKEN_ESCAPE,
    TOKEN_IS,
    TOKEN_NULL,
    TOKEN_TRUE,
    TOKEN_FALSE,
};

struct token {
    enum token_kind kind;
    uint8_t code;
    uint32_t at;   /* offset in the text */
    uint32_t size; /* length in the text */
    int64_t integer;
    double real;
};

/* Operators with higher precedence bind more tightly: SQL-92. */
enum precedence { BRACKET = 0, OR = 1, AND = 2, NOT = 3, COMPARISON = 4, SUM = 5, PRODUCT = 6, SIGN = 7 };

/* Open operators without a code of their own. */
enum { OPEN_BRACKET = 0xff, OPEN_BETWEEN = 0xfe, OPEN_PLUS = 0xfd };

struct open {
    uint8_t code;
    uint8_t precedence;
    bool negated; /* NOT BETWEEN */
    uint32_t column;
};

enum type { TYPE_ANY, TYPE_NUMBER, TYPE_STRING, TYPE_CONDITION };

struct compiler {
    struct lli_selector *selector;
    const char *text;
    uint32_t at;
    const struct llm_property_name *names;
    uint32_t names_count;
    struct token token;
    struct open open[LLI_SELECTOR_NESTING];
    uint32_t opened;
    uint8_t types[LLI_SELECTOR_DEPTH];
    uint32_t depth;
    struct lli_selector_fault *fault;
};

/* Records the first fault only. */
static bool refuse(struct compiler *c, uint32_t column, const char *text)
{
    if (c->fault->text == NULL)
        *c->fault = (struct lli_selector_fault){.column = column, .text = text};
    return false;
}

static uint32_t column_of(const struct token *token)
{
    return token->at + 1;
}

/* ------------------------------------------------------------------------------------------------ tokens */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

static double scale(uint64_t mantissa, int32_t exponent)
{
    long double result = mantissa;

    for (; exponent > 0 && result < 1e400L; exponent--)
        result *= 10;
    for (; exponent < 0 && result > 0; exponent++)
        result /= 10;
    return (double)result;
}

/* Reads digits at c->at: *value takes as many as fit into 64 bits, *dropped counts the others. */
static uint32_t read_digits(struct compiler *c, uint64_t *value, int32_t *dropped)
{
    uint32_t count = 0;

    for (; is_digit(c->text[c->at]); c->at++, count++) {
        const uint64_t digit = (uint64_t)(c->text[c->at] - '0');

        if (*dropped > 0 || *value > (UINT64_MAX - digit) / 10)
            ++*dropped;
        else
            *value = *value * 10 + digit;
    }
    return count;
}

static bool read_exponent(struct compiler *c, int32_t *exponent)
{
    uint64_t value = 0;
    int32_t dropped = 0;
    bool negative;

    if (c->text[c->at] != 'e' && c->text[c->at] != 'E')
        return true;
    c->at++;
    negative = c->text[c->at] == '-';
    c->at += negative || c->text[c->at] == '+';
    if (read_digits(c, &value, &dropped) == 0)
        return false;
    value = lli_min(dropped > 0 ? UINT64_MAX : value, 10000);
    *exponent += negative ? -(int32_t)value : (int32_t)value;
    return true;
}

static void read_number(struct compiler *c)
{
    struct token *token = &c->token;
    uint64_t value = 0;
    int32_t dropped = 0, exponent = 0;
    uint32_t before = read_digits(c, &value, &dropped), after = 0, begin = c->at;

    if (c->text[c->at] == '.') {
        const int32_t already = dropped;

        c->at++;
        after = read_digits(c, &value, &dropped);
        exponent = -(int32_t)(after - (uint32_t)(dropped - already));
        exponent += already;
    } else {
        exponent = dropped;
    }
    token->kind = before + after > 0 && read_exponent(c, &exponent) && !is_letter(c->text[c->at]) ? TOKEN_REAL
                                                                                                  : TOKEN_BAD;
    if (token->kind == TOKEN_REAL && c->at == begin && dropped == 0 && value <= INT64_MAX) {
        token->kind = TOKEN_INTEGER;
        token->integer = (int64_t)value;
    } else {
        token->real = scale(value, exponent);
    }
}

/* Reads a string up to its closing quote; two quotes stand for one. */
static void read_string(struct compiler *c)
{
    c->token.kind = TOKEN_BAD;
    for (c->at++; c->text[c->at] != '\0'; c->at++) {
        if (c->text[c->at] != '\'')
            continue;
        if (c->text[c->at + 1] != '\'') {
            c->at++;
            c->token.kind = TOKEN_STRING;
            return;
        }
        c->at++;
    }
}

static bool is_word(const char *text, uint32_t size, const char *word)
{
    if (strlen(word) != size)
        return false;
    for (uint32_t i = 0; i < size; i++)
        if ((text[i] >= 'a' && text[i] <= 'z' ? text[i] - 'a' + 'A' : text[i]) != word[i])
            return false;
    return true;
}

static void read_name(struct compiler *c)
{
    static const struct {
        const char *word;
        enum token_kind kind;
    } words[] = {{"AND", TOKEN_AND},         {"OR", TOKEN_OR},      {"NOT", TOKEN_NOT},
                 {"BETWEEN", TOKEN_BETWEEN}, {"IN", TOKEN_IN},      {"LIKE", TOKEN_LIKE},
                 {"ESCAPE", TOKEN_ESCAPE},   {"IS", TOKEN_IS},      {"NULL", TOKEN_NULL},
                 {"TRUE", TOKEN_TRUE},       {"FALSE", TOKEN_FALSE}};

    while (is_letter(c->text[c->at]) || is_digit(c->text[c->at]) || c->text[c->at] == '.')
        c->at++;
    c->token.kind = TOKEN_NAME;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (is_word(c->text + c->token.at, c->at - c->token.at, words[i].word))
            c->token.kind = words[i].kind;
}

static void read_sign(struct compiler *c)
{
    static const struct {
        const char *sign;
        enum token_kind kind;
        uint8_t code;
    } signs[] = {{"<>", TOKEN_OPERATOR, LLI_SELECT_UNEQUAL},
                 {"<=", TOKEN_OPERATOR, LLI_SELECT_AT_MOST},
                 {">=", TOKEN_OPERATOR, LLI_SELECT_AT_LEAST},
                 {"=", TOKEN_OPERATOR, LLI_SELECT_EQUAL},
                 {"<", TOKEN_OPERATOR, LLI_SELECT_LESS},
                 {">", TOKEN_OPERATOR, LLI_SELECT_MORE},
                 {"+", TOKEN_OPERATOR, LLI_SELECT_ADD},
                 {"-", TOKEN_OPERATOR, LLI_SELECT_SUBTRACT},
                 {"*", TOKEN_OPERATOR, LLI_SELECT_MULTIPLY},
                 {"/", TOKEN_OPERATOR, LLI_SELECT_DIVIDE},
                 {"(", TOKEN_OPEN, 0},
                 {")", TOKEN_CLOSE, 0},
                 {",", TOKEN_COMMA, 0}};

    c->token.kind = TOKEN_BAD;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (c->text[c->at] == signs[i].sign[0] &&
            (signs[i].sign[1] == '\0' || c->text[c->at + 1] == signs[i].sign[1])) {
            c->token.kind = signs[i].kind;
            c->token.code = signs[i].code;
            c->at += (uint32_t)strlen(signs[i].sign);
            return;
        }
}

static void token_next(struct compiler *c)
{
    char first;

    while (c->text[c->at] == ' ' || (c->text[c->at] >= '\t' && c->text[c->at] <= '\r'))
        c->at++;
    first = c->text[c->at];
    c->token = (struct token){.kind = TOKEN_END, .at = c->at};
    if (first == '\'')
        read_string(c);
    else if (is_digit(first) || (first == '.' && is_digit(c->text[c->at + 1])))
        read_number(c);
    else if (is_letter(first))
        read_name(c);
    else if (first != '\0')
        read_sign(c);
    c->token.size = c->at - c->token.at;
}

/* --------------------------------------------------------------------------------------------- program */

static bool emit(struct compiler *c, uint8_t code, uint32_t arg)
{
    struct lli_selector *selector = c->selector;

    if (selector->count == LLI_SELECTOR_OPS)
        return refuse(c, column_of(&c->token), "it is too long: it may have 256 values and operators");
    selector->ops[selector->count++] = (struct lli_selector_op){.code = code, .arg = arg};
    return true;
}

static bool push(struct compiler *c, enum type type)
{
    if (c->depth == LLI_SELECTOR_DEPTH)
        return refuse(c, column_of(&c->token),
                      "too many values at a time: there may be 32 that no operator took yet");
    c->types[c->depth++] = (uint8_t)type;
    return true;
}

static bool open_push(struct compiler *c, uint8_t code, enum precedence precedence, bool negated)
{
    if (c->opened == LLI_SELECTOR_NESTING)
        return refuse(c, column_of(&c->token),
                      "too many brackets and operators inside of each other: there may be 64");
    c->open[c->opened++] = (struct open){code, (uint8_t)precedence, negated, column_of(&c->token)};
    return true;
}

static uint8_t top_precedence(const struct compiler *c)
{
    return c->opened == 0 ? BRACKET : c->open[c->opened - 1].precedence;
}

/* True if the value this far below the top may have this type. */
static bool is_of(const struct compiler *c, uint32_t below, enum type type)
{
    const uint8_t has = c->types[c->depth - 1 - below];

    return has == type || (has == TYPE_ANY && type != TYPE_CONDITION);
}

/*
 * True if `count` values on top may be compared with the one below them: all numbers, all strings, or two
 * conditions.
 */
static bool are_alike(const struct compiler *c, uint32_t count, bool conditions)
{
    bool numbers = true, strings = true, truths = conditions;

    for (uint32_t i = 0; i <= count; i++) {
        numbers &= is_of(c, i, TYPE_NUMBER);
        strings &= is_of(c, i, TYPE_STRING);
        truths &= is_of(c, i, TYPE_CONDITION);
    }
    return numbers || strings || truths;
}

static bool close_comparison(struct compiler *c, const struct open *open)
{
    const uint32_t operands = open->code == LLI_SELECT_BETWEEN ? 2 : 1;

    if (open->code == OPEN_BETWEEN)
        return refuse(c, open->column, "BETWEEN needs an AND and a second value");
    if (!are_alike(c, operands, open->code == LLI_SELECT_EQUAL || open->code == LLI_SELECT_UNEQUAL))
        return refuse(c, open->column, "different types: compare numbers with numbers, strings with strings");
    c->depth -= operands;
    c->types[c->depth - 1] = TYPE_CONDITION;
    return emit(c, open->code, 0) && (!open->negated || emit(c, LLI_SELECT_NOT, 0));
}

/* Emits the operator opened last; its values are complete. */
static bool close_one(struct compiler *c)
{
    const struct open open = c->open[--c->opened];

    switch (open.precedence) {
    case OR:
    case AND:
        if (!is_of(c, 0, TYPE_CONDITION) || !is_of(c, 1, TYPE_CONDITION))
            return refuse(c, open.column, "AND and OR stand between conditions");
        c->depth--;
        return emit(c, open.code, 0);
    case NOT:
        if (!is_of(c, 0, TYPE_CONDITION))
            return refuse(c, open.column, "NOT stands before a condition");
        return emit(c, open.code, 0);
    case COMPARISON:
        return close_comparison(c, &open);
    case SIGN:
        if (!is_of(c, 0, TYPE_NUMBER))
            return refuse(c, open.column, "a sign stands before a number");
        c->types[c->depth - 1] = TYPE_NUMBER;
        return emit(c, LLI_SELECT_NEGATE, 0) && (open.code != OPEN_PLUS || emit(c, LLI_SELECT_NEGATE, 0));
    default:
        if (!is_of(c, 0, TYPE_NUMBER) || !is_of(c, 1, TYPE_NUMBER))
            return refuse(c, open.column, "arithmetic is for numbers");
        c->depth--;
        c->types[c->depth - 1] = TYPE_NUMBER;
        return emit(c, open.code, 0);
    }
}

/* Emits all open operators of at least this precedence, up to a bracket. */
static bool close_down_to(struct compiler *c, uint8_t precedence)
{
    while (c->opened > 0 && top_precedence(c) != BRACKET && top_precedence(c) >= precedence)
        if (!close_one(c))
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------ values */

/* Copies the token's string into the pool. */
static bool pool_string(struct compiler *c, uint32_t *where, uint32_t *size)
{
    struct lli_selector *selector = c->selector;
    const char *text = c->text + c->token.at;

    *where = selector->pooled;
    for (uint32_t i = 1; i + 1 < c->token.size; i++) {
        if (selector->pooled == LLI_SELECTOR_POOL)
            return refuse(c, column_of(&c->token),
                          "its strings are too long: there may be 4096 bytes in all");
        selector->pool[selector->pooled++] = (uint8_t)text[i];
        i += text[i] == '\'';
    }
    *size = selector->pooled - *where;
    return true;
}

static bool value_name(struct compiler *c)
{
    const char *text = c->text + c->token.at;

    for (uint32_t i = 0; i < c->names_count; i++)
        if (strlen(c->names[i].name) == c->token.size && memcmp(c->names[i].name, text, c->token.size) == 0)
            return emit(c, LLI_SELECT_PROPERTY, c->names[i].code) && push(c, TYPE_ANY);
    return refuse(c, column_of(&c->token), "no property has this name");
}

static bool value_literal(struct compiler *c)
{
    const struct token *token = &c->token;
    const enum token_kind kind = token->kind;
    uint32_t where = 0, size = 0;

    if (kind == TOKEN_STRING && !pool_string(c, &where, &size))
        return false;
    if (!emit(c,
              kind == TOKEN_STRING    ? LLI_SELECT_STRING
              : kind == TOKEN_INTEGER ? LLI_SELECT_INTEGER
                                      : LLI_SELECT_REAL,
              where))
        return false;
    if (kind == TOKEN_STRING)
        c->selector->ops[c->selector->count - 1].value.size = size;
    else if (kind == TOKEN_INTEGER)
        c->selector->ops[c->selector->count - 1].value.integer = token->integer;
    else
        c->selector->ops[c->selector->count - 1].value.real = token->real;
    return push(c, kind == TOKEN_STRING ? TYPE_STRING : TYPE_NUMBER);
}

static bool is_literal(const struct token *token)
{
    return token->kind == TOKEN_INTEGER || token->kind == TOKEN_REAL || token->kind == TOKEN_STRING;
}

/* Compiles a value, or a prefix of one. *more: the value has yet to follow. */
static bool compile_value(struct compiler *c, bool *more)
{
    const struct token *token = &c->token;

    *more = false;
    if (is_literal(token))
        return value_literal(c);
    switch (token->kind) {
    case TOKEN_NAME:
        return value_name(c);
    case TOKEN_TRUE:
    case TOKEN_FALSE:
        return emit(c, LLI_SELECT_TRUTH, token->kind == TOKEN_TRUE) && push(c, TYPE_CONDITION);
    case TOKEN_OPEN:
        *more = true;
        return open_push(c, OPEN_BRACKET, BRACKET, false);
    case TOKEN_NOT:
        *more = true;
        if (top_precedence(c) > NOT)
            return refuse(c, column_of(token), "NOT does not stand inside a comparison: set brackets");
        return open_push(c, LLI_SELECT_NOT, NOT, false);
    default:
        break;
    }
    *more = true;
    if (token->kind == TOKEN_OPERATOR &&
        (token->code == LLI_SELECT_ADD || token->code == LLI_SELECT_SUBTRACT))
        return open_push(c, token->code == LLI_SELECT_ADD ? OPEN_PLUS : LLI_SELECT_NEGATE, SIGN, false);
    if (token->kind == TOKEN_BAD && c->text[token->at] == '\'')
        return refuse(c, column_of(token), "a string does not end");
    return refuse(c, column_of(token),
                  token->kind == TOKEN_END ? "it ends where a value should come"
                                           : "a value should come here");
}

/* --------------------------------------------------------------------------------------------- predicates */

static bool compile_in(struct compiler *c, uint32_t column)
{
    uint32_t count = 0;

    token_next(c);
    if (c->token.kind != TOKEN_OPEN)
        return refuse(c, column_of(&c->token), "IN needs a list in brackets");
    do {
        token_next(c);
        if (!is_literal(&c->token))
            return refuse(c, column_of(&c->token), "a list has strings and numbers, with commas between");
        if (!value_literal(c))
            return false;
        count++;
        token_next(c);
    } while (c->token.kind == TOKEN_COMMA);
    if (c->token.kind != TOKEN_CLOSE)
        return refuse(c, column_of(&c->token), "a list ends with a bracket");
    if (!are_alike(c, count, false))
        return refuse(c, column, "different types: compare numbers with numbers, strings with strings");
    c->depth -= count;
    return emit(c, LLI_SELECT_IN, count);
}

/*
 * Compiles the token's pattern into the pool; `escape`: the byte that makes the next one literal; -1: none.
 */
static bool pool_pattern(struct compiler *c, const struct token *token, int escape, uint32_t *where,
                         uint32_t *size)
{
    struct lli_selector *selector = c->selector;
    const char *text = c->text + token->at;

    *where = selector->pooled;
    for (uint32_t i = 1; i + 1 < token->size; i++) {
        const bool escaped = (unsigned char)text[i] == escape;
        uint8_t kind = LLI_PATTERN_BYTE;

        i += escaped || text[i] == '\'';
        if (escaped && i + 1 >= token->size)
            return refuse(c, token->at + i, "nothing follows the escape");
        i += escaped && text[i] == '\'';
        if (!escaped && text[i] == '_')
            kind = LLI_PATTERN_ONE;
        else if (!escaped && text[i] == '%')
            kind = LLI_PATTERN_RUN;
        if (selector->pooled + 2 > LLI_SELECTOR_POOL)
            return refuse(
                c, column_of(token),
                "its strings are too long: there may be 4096 bytes in all, two for each of a pattern");
        selector->pool[selector->pooled++] = kind;
        selector->pool[selector->pooled++] = (uint8_t)text[i];
    }
    *size = selector->pooled - *where;
    return true;
}

/* Leaves the token after the predicate in c->token. */
static bool compile_like(struct compiler *c, uint32_t column)
{
    struct token pattern;
    uint32_t where, size;
    int escape = -1;

    token_next(c);
    pattern = c->token;
    if (pattern.kind != TOKEN_STRING)
        return refuse(c, column_of(&pattern), "LIKE needs a pattern as a string");
    token_next(c);
    if (c->token.kind == TOKEN_ESCAPE) {
        token_next(c);
        if (c->token.kind != TOKEN_STRING || c->token.size != 3)
            return refuse(c, column_of(&c->token), "ESCAPE needs a string of one byte, which is no quote");
        escape = (unsigned char)c->text[c->token.at + 1];
        token_next(c);
    }
    if (!is_of(c, 0, TYPE_STRING))
        return refuse(c, column, "LIKE is for strings");
    if (!pool_pattern(c, &pattern, escape, &where, &size) || !emit(c, LLI_SELECT_LIKE, where))
        return false;
    c->selector->ops[c->selector->count - 1].value.size = size;
    return true;
}

/* IS NULL, IS NOT NULL. */
static bool compile_is(struct compiler *c, bool *negated)
{
    const uint32_t column = column_of(&c->token);

    token_next(c);
    *negated = c->token.kind == TOKEN_NOT;
    if (*negated)
        token_next(c);
    if (c->token.kind != TOKEN_NULL)
        return refuse(c, column_of(&c->token), "IS is followed by NULL or NOT NULL");
    if (c->selector->ops[c->selector->count - 1].code != LLI_SELECT_PROPERTY)
        return refuse(c, column, "IS NULL is for a property");
    return emit(c, LLI_SELECT_IS_NULL, 0);
}

/*
 * Compiles a predicate after a value and leaves a condition in its place. Its next token is the current one.
 */
static bool compile_predicate(struct compiler *c, bool *more)
{
    const uint32_t column = column_of(&c->token);
    bool negated = c->token.kind == TOKEN_NOT, done;

    if (!close_down_to(c, SUM))
        return false;
    if (top_precedence(c) == COMPARISON)
        return refuse(c, column, "a comparison of a comparison: set brackets, or AND between");
    if (negated)
        token_next(c);
    *more = c->token.kind == TOKEN_BETWEEN;
    switch (c->token.kind) {
    case TOKEN_BETWEEN:
        done = open_push(c, OPEN_BETWEEN, COMPARISON, negated);
        token_next(c);
        return done;
    case TOKEN_IN:
        done = compile_in(c, column);
        token_next(c);
        break;
    case TOKEN_LIKE:
        done = compile_like(c, column);
        break;
    case TOKEN_IS:
        if (negated)
            return refuse(c, column, "NOT is followed by BETWEEN, IN or LIKE here");
        done = compile_is(c, &negated);
        token_next(c);
        break;
    default:
        return refuse(c, column, "NOT is followed by BETWEEN, IN or LIKE here");
    }
    if (!done || (negated && !emit(c, LLI_SELECT_NOT, 0)))
        return false;
    c->types[c->depth - 1] = TYPE_CONDITION;
    return true;
}

/* ----------------------------------------------------------------------------------------- expressions */

static bool compile_operator(struct compiler *c)
{
    const uint8_t code = c->token.code;
    const bool compares = code >= LLI_SELECT_EQUAL;
    const enum precedence precedence = compares                                                ? COMPARISON
                                       : code == LLI_SELECT_ADD || code == LLI_SELECT_SUBTRACT ? SUM
                                                                                               : PRODUCT;

    if (!close_down_to(c, (uint8_t)(compares ? SUM : precedence)))
        return false;
    if (compares && top_precedence(c) == COMPARISON)
        return refuse(c, column_of(&c->token), "a comparison of a comparison: set brackets, or AND between");
    return open_push(c, code, precedence, false);
}

static bool compile_join(struct compiler *c)
{
    const bool both = c->token.kind == TOKEN_AND;

    if (both && !close_down_to(c, SUM))
        return false;
    if (both && c->opened > 0 && c->open[c->opened - 1].code == OPEN_BETWEEN) {
        c->open[c->opened - 1].code = LLI_SELECT_BETWEEN;
        return true;
    }
    return close_down_to(c, both ? AND : OR) &&
           open_push(c, both ? LLI_SELECT_AND : LLI_SELECT_OR, both ? AND : OR, false);
}

static bool compile_close(struct compiler *c)
{
    if (!close_down_to(c, OR))
        return false;
    if (c->opened == 0)
        return refuse(c, column_of(&c->token), "this bracket was not opened");
    c->opened--;
    return true;
}

/* Compiles what may follow a value, and advances to the next token. *more: another value has to follow. */
static bool compile_after(struct compiler *c, bool *more)
{
    bool done;

    *more = true;
    switch (c->token.kind) {
    case TOKEN_OPERATOR:
        done = compile_operator(c);
        break;
    case TOKEN_AND:
    case TOKEN_OR:
        done = compile_join(c);
        break;
    case TOKEN_CLOSE:
        *more = false;
        done = compile_close(c);
        break;
    case TOKEN_NOT:
    case TOKEN_BETWEEN:
    case TOKEN_IN:
    case TOKEN_LIKE:
    case TOKEN_IS:
        return compile_predicate(c, more);
    default:
        return refuse(c, column_of(&c->token), "an operator should come here");
    }
    token_next(c);
    return done;
}

static bool compile_end(struct compiler *c)
{
    if (!close_down_to(c, OR))
        return false;
    if (c->opened > 0)
        return refuse(c, c->open[c->opened - 1].column, "this bracket is not closed");
    if (!is_of(c, 0, TYPE_CONDITION))
        return refuse(c, 1, "it is a value, and should be a condition");
    return true;
}

bool lli_selector_compile(struct lli_selector *selector, const char *text,
                          const struct llm_property_name *names, uint32_t names_count,
                          struct lli_selector_fault *fault)
{
    struct compiler c = {
        .selector = selector, .text = text, .names = names, .names_count = names_count, .fault = fault};
    bool more = true;

    selector->count = selector->pooled = 0;
    *fault = (struct lli_selector_fault){.text = NULL};
    if (strlen(text) > LLM_SELECTOR_MAX)
        return refuse(&c, LLM_SELECTOR_MAX + 1, "it is too long: it may have 4096 bytes");
    token_next(&c);
    while (more || c.token.kind != TOKEN_END) {
        if (!more) {
            if (!compile_after(&c, &more))
                return false;
        } else {
            if (!compile_value(&c, &more))
                return false;
            token_next(&c);
        }
    }
    return compile_end(&c);
}
