/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random conditions over properties, as trees: printed for the library, and evaluated here without it. A node
 * comes after its operands, so a loop over the nodes evaluates a tree.
 */
#ifndef SIM_WANTED_H
#define SIM_WANTED_H

#include <stdbool.h>
#include <stdint.h>

enum { WANTED_CODES = 5, WANTED_NODES_MAX = 96, WANTED_TEXT_MAX = 1536 };

/*
 * A value. Truth: 0 false, 1 unknown, 2 true, so AND is the minimum, OR the maximum, and NOT is 2 minus the
 * value.
 */
struct wanted_value {
    enum wanted_kind { WANTED_NOTHING, WANTED_INTEGER, WANTED_REAL, WANTED_STRING, WANTED_TRUTH } kind;
    int64_t integer;
    double real;
    const char *string;
};

struct wanted_node {
    enum wanted_op {
        WANTED_LITERAL,
        WANTED_PROPERTY,
        WANTED_NEGATE,
        WANTED_ADD,
        WANTED_SUBTRACT,
        WANTED_MULTIPLY,
        WANTED_DIVIDE,
        WANTED_EQUAL,
        WANTED_UNEQUAL,
        WANTED_LESS,
        WANTED_AT_MOST,
        WANTED_MORE,
        WANTED_AT_LEAST,
        WANTED_BETWEEN,
        WANTED_IN,
        WANTED_LIKE,
        WANTED_IS_NULL,
        WANTED_NOT,
        WANTED_AND,
        WANTED_OR
    } op;
    bool negated;
    uint32_t binds; /* precedence */
    uint32_t left;  /* operands */
    uint32_t right;
    uint32_t count; /* length of a list, code of a property, or index of a pattern */
    struct wanted_value value;
    char text[WANTED_TEXT_MAX];
};

struct wanted_tree {
    uint32_t count; /* 0: every message is wanted */
    struct wanted_node nodes[WANTED_NODES_MAX];
};

/* Names of the properties with these codes in selectors. */
extern const char *const wanted_names[WANTED_CODES];

/* Draws a value for a property or a literal; a literal has no sign. */
struct wanted_value wanted_draw(enum wanted_kind kind, bool literal);

void wanted_draw_tree(struct wanted_tree *tree);

/* Returns the text of the tree, which is that of the last node. */
static inline const char *wanted_text(const struct wanted_tree *tree)
{
    return tree->count == 0 ? "" : tree->nodes[tree->count - 1].text;
}

/* Returns true if the condition holds for these properties, one of each code. */
bool wanted_is_true(const struct wanted_tree *tree, const struct wanted_value *properties);

/* Returns true if a subject matches the name of a topic. */
bool wanted_takes(const char *subject, const char *name);

#endif
