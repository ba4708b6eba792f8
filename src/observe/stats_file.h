/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, writes and removes the counters file of a context, in the format of llm/stats.h. */
#ifndef LLI_STATS_FILE_H
#define LLI_STATS_FILE_H

#include <llm/llm.h>
#include <llm/stats.h>

#include "system/log.h"
#include "system/memory.h"
#include "core/base/types.h"

enum { LLI_STATS_NAME_MAX = 96, LLI_STATS_PATH_MAX = 288 };

/* Name and object last written for a row. Texts are rewritten only on change, which saves a poll's cache. */
struct lli_stats_known {
    const char *name;
    uint32_t object;
};

struct lli_stats_file {
    struct lli_memory memory; /* the file, mapped */
    int fd;                   /* holds the lock */
    int directory;            /* directory that has its name; -1: none */
    lli_ns interval;
    struct lli_stats_known *known; /* what the rows of either table have now */
    uint64_t writes;
    uint64_t write_ns;             /* time that all writes took */
    char name[LLI_STATS_NAME_MAX]; /* in the directory */
    char path[LLI_STATS_PATH_MAX]; /* the name with the directory; empty: it has no name */
};

/*
 * Creates the file if the options ask for it, else *file is NULL. LLM_EINVAL (stats_ns, stats_mode, a name
 * too long), LLM_EACCESS, LLM_ENOMEM (no space), LLM_ESYSTEM.
 */
int lli_stats_file_open(struct lli_stats_file **result, const struct llm_context_options *options,
                        const struct lli_log *log);

/* Writes a table. */
void lli_stats_file_write(struct lli_stats_file *file, const struct llm_context *context);

/* Removes the file and sets the pointer to NULL. Does nothing for NULL. */
void lli_stats_file_close(struct lli_stats_file **result);

/* As lli_stats_file_close(), in a child process: the file is the parent's and stays. */
void lli_stats_file_release(struct lli_stats_file **result);

#endif
