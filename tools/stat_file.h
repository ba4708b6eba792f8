/* SPDX-License-Identifier: Apache-2.0 */
/* Reads counters files (llm/stats.h), whose content is not trusted. */
#ifndef STAT_FILE_H
#define STAT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/stats.h>

enum stat_fault {
    STAT_OK = 0,
    STAT_UNREADABLE, /* errno gives the reason */
    STAT_SHORT,      /* shorter than its header says, or than a header */
    STAT_FOREIGN,    /* not a counters file */
    STAT_VERSION,    /* of another version */
    STAT_DAMAGED,    /* the content is inconsistent */
    STAT_EMPTY,      /* nothing was written yet */
    STAT_LARGE,      /* exceeds the limit of a file, a table, or all tables */
    STAT_BUSY,       /* written faster than it can be read */
};

/*
 * A checked table: counts are within the arrays, indices within the counts, texts are printable and
 * terminated.
 */
struct stat_snapshot {
    struct llm_stats_file header;
    struct llm_stats_table table;
    const struct llm_stats_object *objects;
    const struct llm_stats_row *rows;
    const uint64_t *values;
    const struct llm_stats_histogram *histograms;
    uint8_t *bytes; /* memory of the arrays above; NULL: there is no table */
    size_t size;    /* of the bytes */
    bool alive;     /* the writer is alive */
};

enum { STAT_TABLE_MAX = 8 << 20 };

/*
 * Reads a file: the header, and the used part of the latest table, of at most table_max bytes
 * (STAT_TABLE_MAX). Any result may be passed to stat_free(); with STAT_VERSION the version is in the header.
 */
enum stat_fault stat_read(int fd, size_t table_max, struct stat_snapshot *snapshot);

/* As stat_read(), of the bytes of a file in memory. */
enum stat_fault stat_parse(const uint8_t *bytes, size_t size, struct stat_snapshot *snapshot);

void stat_free(struct stat_snapshot *snapshot);

/* Describes a fault and its remedy, for people, without a newline. */
void stat_explain(enum stat_fault fault, const struct stat_snapshot *snapshot, char *text, size_t size);

/*
 * Returns the value of a row of `now` in an earlier snapshot of the same file, found by name and object; its
 * value in `now` if the earlier one lacks it, so that the difference is 0.
 */
uint64_t stat_before(const struct stat_snapshot *before, const struct stat_snapshot *now, uint32_t row);

/* Returns the same histogram of an earlier snapshot, or NULL. */
const struct llm_stats_histogram *stat_histogram_before(const struct stat_snapshot *before,
                                                        const struct stat_snapshot *now, uint32_t histogram);

/*
 * Returns the smallest value that at least this share (0 to 1) of the samples since `before` (NULL: of all)
 * does not exceed, rounded up to the end of its bucket; 0 without samples.
 */
uint64_t stat_percentile(const struct llm_stats_histogram *histogram,
                         const struct llm_stats_histogram *before, double share);

/* Returns the value of a counter of an object, by name; 0 if there is none. */
uint64_t stat_value(const struct stat_snapshot *snapshot, uint32_t object, const char *name);

const char *stat_kind_name(uint32_t kind);

#endif
