/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions over properties, drawn as trees: printed for the library, and evaluated here without it. A node
 * stands behind those that it is made of, so a loop over the nodes evaluates a tree.
 */
#ifndef SIM_WANTED_H
#define SIM_WANTED_H

#include <stdbool.h>
#include <stdint.h>

enum { WANTED_CODES = 5, WANTED_NODES_MAX = 96, WANTED_TEXT_MAX = 1536 };

/*
 * A value; of truth: 0 false, 1 unknown, 2 true, so that AND is the lesser one, OR the greater one and NOT 2
 * less it.
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
    uint32_t binds; /* how closely */
    uint32_t left;  /* nodes that it is made of */
    uint32_t right;
    uint32_t count; /* of a list, or the code of a property, or which pattern */
    struct wanted_value value;
    char text[WANTED_TEXT_MAX];
};

struct wanted_tree {
    uint32_t count; /* 0: everything is wanted */
    struct wanted_node nodes[WANTED_NODES_MAX];
};

/* How selectors call the properties of these codes. */
extern const char *const wanted_names[WANTED_CODES];

/* Values for properties and literals; a literal has no sign. */
struct wanted_value wanted_draw(enum wanted_kind kind, bool literal);

void wanted_draw_tree(struct wanted_tree *tree);

/* Its text is that of the last node. */
static inline const char *wanted_text(const struct wanted_tree *tree)
{
    return tree->count == 0 ? "" : tree->nodes[tree->count - 1].text;
}

/* Whether it is true of these properties, of each code one. */
bool wanted_is_true(const struct wanted_tree *tree, const struct wanted_value *properties);

/* Whether a subject takes the name of a topic. */
bool wanted_takes(const char *subject, const char *name);

#endif
