/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of one transport. A transport declares them in its own folder:
 *
 *   #define LLI_X_OPTIONS(X) X(type, scope, name, default, min, max, text) ...
 *   struct lli_x_options { LLI_X_OPTIONS(LLI_OPTION_FIELD) };
 *
 * The columns are those of LLM_OPTIONS in llm/options.h; type is u32, u64 or str. LLI_OPTION_ROW makes the
 * rows of a struct lli_option_table of them, which lli_transport.options points to. Such options are given in
 * the channel only. src/config parses and checks them by the same code as the options of struct llm_options;
 * the transport reads them in open() and join() by lli_option_values_read().
 */
#ifndef LLI_OPTION_TABLE_H
#define LLI_OPTION_TABLE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum lli_option_type { LLI_OPTION_u32, LLI_OPTION_u64, LLI_OPTION_str, LLI_OPTION_word };

enum lli_option_scope {
    LLI_OPTION_INSTANCE,
    LLI_OPTION_SESSION,
    LLI_OPTION_TRANSMITTER,
    LLI_OPTION_RECEIVER,
    LLI_OPTION_CONNECTION
};

struct lli_option {
    const char *name;
    enum lli_option_scope scope;
    enum lli_option_type type;
    size_t offset; /* of the value in the structure */
    uint64_t min;
    uint64_t max;
    uint64_t value;   /* default of a number */
    const char *text; /* default of a string */
};

struct lli_option_table {
    const struct lli_option *options;
    size_t count;
    size_t size; /* of the structure of values */
};

/* Members of the structure of values. */
#define LLI_OPTION_FIELD_u32(name, max) uint32_t name;
#define LLI_OPTION_FIELD_u64(name, max) uint64_t name;
#define LLI_OPTION_FIELD_str(name, max) char name[max];
#define LLI_OPTION_FIELD(type, scope, name, value, min, max, text) LLI_OPTION_FIELD_##type(name, max)

#define LLI_OPTION_DEFAULT_u32(value) value, ""
#define LLI_OPTION_DEFAULT_u64(value) value, ""
#define LLI_OPTION_DEFAULT_str(value) 0, value
#define LLI_OPTION_DEFAULT_word(value) value, ""
#define LLI_OPTION_MIN_u32(min) min
#define LLI_OPTION_MIN_u64(min) min
#define LLI_OPTION_MIN_str(min) min
#define LLI_OPTION_MIN_word(tag) 0

/* Initializer of a struct lli_option whose value is a member of a structure. */
#define LLI_OPTION_ROW(structure, type, scope, name, value, min, max, text) \
    {#name,                                                                 \
     LLI_OPTION_##scope,                                                    \
     LLI_OPTION_##type,                                                     \
     offsetof(structure, name),                                             \
     LLI_OPTION_MIN_##type(min),                                            \
     max,                                                                   \
     LLI_OPTION_DEFAULT_##type(value)},

enum { LLI_OPTION_TABLES_MAX = 4, LLI_OPTION_VALUES_BYTES = 128 };

/* Values of the options of all transports that a scheme names, as bytes of the structures of their tables. */
struct lli_option_values {
    struct {
        const struct lli_option_table *table; /* NULL: this place and all after it are unused */
        uint8_t bytes[LLI_OPTION_VALUES_BYTES];
    } of[LLI_OPTION_TABLES_MAX];
};

/* Copies the values of a table to a structure of table->size bytes. The table has to be in values. */
static inline void lli_option_values_read(const struct lli_option_values *values,
                                          const struct lli_option_table *table, void *structure)
{
    size_t i = 0;

    while (i + 1 < LLI_OPTION_TABLES_MAX && values->of[i].table != table)
        i++;
    assert(values->of[i].table == table);
    memcpy(structure, values->of[i].bytes, table->size);
}

#endif
