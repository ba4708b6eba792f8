/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors: conditions over the properties of a message, in a subset of SQL-92 as in JMS, compiled to a
 * program for a stack machine. Text and program are bounded and a program has no jumps, so its cost is known
 * once it is compiled.
 */
#ifndef LLI_SELECTOR_H
#define LLI_SELECTOR_H

#include <llm/llm.h>

#include "core/base/types.h"

enum {
    LLI_SELECTOR_OPS = 256,    /* operations of a program */
    LLI_SELECTOR_DEPTH = 32,   /* values on the stack */
    LLI_SELECTOR_NESTING = 64, /* operators and brackets open at a time */
    LLI_SELECTOR_POOL = 4096,  /* bytes of strings and patterns */
};

struct lli_selector_op {
    uint8_t code;
    uint32_t arg; /* property: its code; string: its offset in the pool; list: number of items */
    union {
        int64_t integer;
        double real;
        uint32_t size;
    } value;
};

struct lli_selector {
    uint32_t count; /* 0: every message is selected */
    uint32_t pooled;
    struct lli_selector_op ops[LLI_SELECTOR_OPS];
    uint8_t pool[LLI_SELECTOR_POOL]; /* strings as they are; patterns as pairs of kind and byte */
};

struct lli_selector_fault {
    uint32_t column; /* in bytes, from 1 */
    const char *text;
};

/*
 * Compiles a text; names maps the names in it to property codes. False: *fault says where and why it cannot
 * be compiled.
 */
bool lli_selector_compile(struct lli_selector *selector, const char *text,
                          const struct llm_property_name *names, uint32_t names_count,
                          struct lli_selector_fault *fault);

/*
 * True if the selector holds for these properties, encoded as in a frame of attributes (docs/protocol.md
 * section 3.2).
 */
bool lli_selector_run(const struct lli_selector *selector, const uint8_t *properties, uint32_t size);

/* Shared by the compiler and the stack machine. */
enum lli_selector_code {
    LLI_SELECT_INTEGER,
    LLI_SELECT_REAL,
    LLI_SELECT_STRING,
    LLI_SELECT_TRUTH, /* arg: 0 or 1 */
    LLI_SELECT_PROPERTY,
    LLI_SELECT_NEGATE,
    LLI_SELECT_ADD,
    LLI_SELECT_SUBTRACT,
    LLI_SELECT_MULTIPLY,
    LLI_SELECT_DIVIDE,
    LLI_SELECT_EQUAL,
    LLI_SELECT_UNEQUAL,
    LLI_SELECT_LESS,
    LLI_SELECT_AT_MOST,
    LLI_SELECT_MORE,
    LLI_SELECT_AT_LEAST,
    LLI_SELECT_BETWEEN,
    LLI_SELECT_IN,   /* a value and `arg` literals */
    LLI_SELECT_LIKE, /* pattern: pairs of kind and byte */
    LLI_SELECT_IS_NULL,
    LLI_SELECT_NOT,
    LLI_SELECT_AND,
    LLI_SELECT_OR,
};

enum lli_selector_pattern { LLI_PATTERN_BYTE, LLI_PATTERN_ONE, LLI_PATTERN_RUN };

#endif
