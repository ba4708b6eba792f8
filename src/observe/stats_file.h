/* SPDX-License-Identifier: Apache-2.0 */
/* The counters file of a context, as llm/stats.h lays it out: opened, written from time to time, and removed. */
#ifndef LLI_STATS_FILE_H
#define LLI_STATS_FILE_H

#include <llm/llm.h>
#include <llm/stats.h>

#include "system/log.h"
#include "system/memory.h"
#include "core/base/types.h"

enum { LLI_STATS_NAME_MAX = 96, LLI_STATS_PATH_MAX = 288 };

/* Texts are written where they change only: a poll has better use for the cache. */
struct lli_stats_known {
    const char *name;
    uint32_t object;
};

struct lli_stats_file {
    struct lli_memory memory; /* the file, mapped */
    int fd;                   /* holds the lock */
    int directory;            /* where it has its name; -1: none */
    lli_ns interval;
    struct lli_stats_known *known; /* of the rows of either table: what is written there already */
    uint64_t writes;
    uint64_t write_ns;        /* that they took, together */
    char name[LLI_STATS_NAME_MAX]; /* in the directory */
    char path[LLI_STATS_PATH_MAX]; /* the same with the directory; empty: it has no name */
};

/*
 * Makes the file that the options ask for, if they do; else *file is NULL. LLM_EINVAL (stats_ns, stats_mode, a name too long), LLM_EACCESS, LLM_ENOMEM (no
 * room left there), LLM_ESYSTEM.
 */
int lli_stats_file_open(struct lli_stats_file **file, const struct llm_context_options *options, const struct lli_log *log);

/* Writes a table. */
void lli_stats_file_write(struct lli_stats_file *file, const struct llm_context *context);

/* Removes the file and sets the pointer to NULL. Nothing is done if that is NULL. */
void lli_stats_file_close(struct lli_stats_file **file);

/* The same in a child process: the file stays, as the parent's. */
void lli_stats_file_release(struct lli_stats_file **file);

#endif
