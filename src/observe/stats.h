/* SPDX-License-Identifier: Apache-2.0 */
/* Every counter of a context, one after the other, for whoever wants to write them down. */
#ifndef LLI_STATS_H
#define LLI_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include <llm/llm.h>
#include <llm/stats.h>

#include "engine/latency.h"

/* Each object comes before its rows, and before the objects that belong to it. */
struct lli_stats_visitor {
    void *arg;
    bool detail; /* the context itself, sessions and known receivers too */
    void (*object)(void *arg, enum llm_stats_kind kind, uint64_t id, const char *object);
    void (*row)(void *arg, enum llm_stats_type type, const char *name, uint64_t value);
    lli_latency_put *histogram; /* NULL: none are wanted */
};

/* A counter by name, and where it stands in a structure of counters. */
struct lli_stats_row {
    const char *name;
    size_t offset;
};

/* Visits one counter. */
void lli_stats_put(const struct lli_stats_visitor *to, enum llm_stats_type type, const char *name, uint64_t value);

/* Visits counters of 64 bits. */
void lli_stats_rows(const struct lli_stats_visitor *to, const void *base, const struct lli_stats_row *rows, int count);

void lli_stats_visit(const struct llm_context *context, const struct lli_stats_visitor *visitor);

#endif
