/* SPDX-License-Identifier: Apache-2.0 */
/* Visits every counter of a context, for functions and files that report them. */
#ifndef LLI_STATS_H
#define LLI_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include <llm/llm.h>
#include <llm/stats.h>

#include "engine/latency.h"

/* Callbacks of a visit. Each object comes before its rows, and before its children. */
struct lli_stats_visitor {
    void *arg;
    bool detail; /* also the context itself, sessions and known receivers */
    void (*object)(void *arg, enum llm_stats_kind kind, uint64_t id, const char *object);
    void (*row)(void *arg, enum llm_stats_type type, const char *name, uint64_t value);
    lli_latency_put *histogram; /* NULL: no histograms */
};

/* A counter's name, and its offset in a structure of counters. */
struct lli_stats_row {
    const char *name;
    size_t offset;
};

/* Visits one counter. */
void lli_stats_put(const struct lli_stats_visitor *to, enum llm_stats_type type, const char *name,
                   uint64_t value);

/* Visits 64-bit counters. */
void lli_stats_rows(const struct lli_stats_visitor *to, const void *base, const struct lli_stats_row *rows,
                    int count);

void lli_stats_visit(const struct llm_context *context, const struct lli_stats_visitor *to);

#endif
