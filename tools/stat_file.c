/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "stat_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_TRIES = 8, FILE_BYTES_MAX = 16 << 20 };

/* -------------------------------------------------------------------------------------------------- check */

/* Terminates a text, and replaces characters that a terminal would interpret. */
static void parse_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static bool parse_header(const struct llm_stats_file *header, size_t size)
{
    const uint64_t bytes = sizeof(struct llm_stats_table) +
                           header->objects_max * (uint64_t)sizeof(struct llm_stats_object) +
                           header->rows_max * (uint64_t)(sizeof(struct llm_stats_row) + sizeof(uint64_t)) +
                           header->histograms_max * (uint64_t)sizeof(struct llm_stats_histogram);

    if (header->table_bytes != bytes || bytes > size)
        return false;
    for (int i = 0; i < 2; i++)
        if (header->table_at[i] < sizeof *header || header->table_at[i] % 8 != 0 ||
            header->table_at[i] > size - bytes)
            return false;
    return true;
}

/* Checks indices and texts of the arrays, which are in their places. */
static bool parse_arrays(struct llm_stats_object *objects, struct llm_stats_row *rows,
                         struct llm_stats_histogram *histograms, const struct llm_stats_table *table)
{
    for (uint32_t i = 0; i < table->objects; i++) {
        if (objects[i].parent > i)
            return false;
        parse_text(objects[i].label, sizeof objects[i].label);
    }
    for (uint32_t i = 0; i < table->rows; i++) {
        if (rows[i].object >= table->objects)
            return false;
        parse_text(rows[i].name, sizeof rows[i].name);
    }
    for (uint32_t i = 0; i < table->histograms; i++) {
        if (histograms[i].object >= table->objects)
            return false;
        parse_text(histograms[i].name, sizeof histograms[i].name);
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------- fetch */

/* Source of bytes: a file, or memory. */
struct origin {
    int fd; /* -1: memory */
    const uint8_t *bytes;
    uint64_t size;
    size_t table_max; /* limit of a table, in bytes */
};

static bool fetch(const struct origin *origin, uint64_t at, void *to, size_t size)
{
    if (at > origin->size || size > origin->size - at)
        return false;
    if (origin->fd >= 0)
        return pread(origin->fd, to, size, (off_t)at) == (ssize_t)size;
    if (size > 0)
        memcpy(to, origin->bytes + at, size);
    return true;
}

static enum stat_fault fetch_header(const struct origin *origin, struct stat_snapshot *snapshot)
{
    struct llm_stats_file *header = &snapshot->header;
    const size_t size = origin->size < sizeof *header ? (size_t)origin->size : sizeof *header;

    if (!fetch(origin, 0, header, size))
        return STAT_SHORT;
    parse_text(header->program, sizeof header->program);
    parse_text(header->name, sizeof header->name);
    if (size >= sizeof header->magic && memcmp(header->magic, LLM_STATS_MAGIC, sizeof header->magic) != 0)
        return STAT_FOREIGN;
    if (size < sizeof *header)
        return STAT_SHORT;
    if (header->version != LLM_STATS_VERSION)
        return STAT_VERSION;
    if (origin->size > FILE_BYTES_MAX)
        return STAT_LARGE;
    if (header->table_bytes > origin->size || header->table_at[0] > origin->size - header->table_bytes ||
        header->table_at[1] > origin->size - header->table_bytes)
        return STAT_SHORT;
    if (!parse_header(header, origin->size))
        return STAT_DAMAGED;
    return header->sequence == 0 ? STAT_EMPTY : STAT_OK;
}

/* Reads the used part of each array. */
static enum stat_fault fetch_arrays(const struct origin *origin, uint64_t at, struct stat_snapshot *snapshot)
{
    const struct llm_stats_file *header = &snapshot->header;
    const struct llm_stats_table *table = &snapshot->table;
    const uint64_t rows_at = at + header->objects_max * (uint64_t)sizeof(struct llm_stats_object);
    const uint64_t values_at = rows_at + header->rows_max * (uint64_t)sizeof(struct llm_stats_row);
    const uint64_t histograms_at = values_at + header->rows_max * (uint64_t)sizeof(uint64_t);
    struct llm_stats_object *objects;
    struct llm_stats_row *rows;
    struct llm_stats_histogram *histograms;
    uint64_t *values;

    snapshot->size = table->objects * sizeof *objects + table->rows * (sizeof *rows + sizeof *values) +
                     table->histograms * sizeof *histograms;
    if (snapshot->size > origin->table_max)
        return STAT_LARGE;
    snapshot->bytes = malloc(snapshot->size == 0 ? 1 : snapshot->size);
    if (snapshot->bytes == NULL)
        return STAT_UNREADABLE;
    objects = (struct llm_stats_object *)(void *)snapshot->bytes;
    rows = (struct llm_stats_row *)(objects + table->objects);
    values = (uint64_t *)(void *)(rows + table->rows);
    histograms = (struct llm_stats_histogram *)(void *)(values + table->rows);
    if (!fetch(origin, at, objects, table->objects * sizeof *objects) ||
        !fetch(origin, rows_at, rows, table->rows * sizeof *rows) ||
        !fetch(origin, values_at, values, table->rows * sizeof *values) ||
        !fetch(origin, histograms_at, histograms, table->histograms * sizeof *histograms))
        return STAT_SHORT;
    snapshot->objects = objects;
    snapshot->rows = rows;
    snapshot->values = values;
    snapshot->histograms = histograms;
    return parse_arrays(objects, rows, histograms, table) ? STAT_OK : STAT_DAMAGED;
}

static enum stat_fault fetch_table(const struct origin *origin, struct stat_snapshot *snapshot)
{
    const struct llm_stats_file *header = &snapshot->header;
    const uint64_t at = header->table_at[header->sequence & 1];
    struct llm_stats_table *table = &snapshot->table;

    if (!fetch(origin, at, table, sizeof *table))
        return STAT_SHORT;
    if (table->objects > header->objects_max || table->rows > header->rows_max ||
        table->histograms > header->histograms_max)
        return STAT_DAMAGED;
    return fetch_arrays(origin, at + sizeof *table, snapshot);
}

/* Reads header and table. Without a valid table the snapshot has only the header. */
static enum stat_fault fetch_all(const struct origin *origin, struct stat_snapshot *snapshot)
{
    enum stat_fault fault = fetch_header(origin, snapshot);
    const struct llm_stats_file header = snapshot->header;

    if (fault == STAT_OK)
        fault = fetch_table(origin, snapshot);
    if (fault != STAT_OK) {
        const int error = errno;

        stat_free(snapshot);
        snapshot->header = header;
        errno = error;
    }
    return fault;
}

enum stat_fault stat_parse(const uint8_t *bytes, size_t size, struct stat_snapshot *snapshot)
{
    const struct origin origin = {.fd = -1, .bytes = bytes, .size = size, .table_max = STAT_TABLE_MAX};

    *snapshot = (struct stat_snapshot){.bytes = NULL};
    return fetch_all(&origin, snapshot);
}

/* --------------------------------------------------------------------------------------------------- read */

static bool read_is_locked(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static enum stat_fault read_once(const struct origin *origin, struct stat_snapshot *snapshot)
{
    const enum stat_fault fault = fetch_all(origin, snapshot);
    uint64_t sequence = 0;

    if (fault != STAT_OK && fault != STAT_DAMAGED)
        return fault;
    if (!fetch(origin, offsetof(struct llm_stats_file, sequence), &sequence, sizeof sequence))
        return STAT_SHORT;
    /* A damaged table may have been overwritten while it was read. */
    return sequence == snapshot->header.sequence ? fault : STAT_BUSY;
}

enum stat_fault stat_read(int fd, size_t table_max, struct stat_snapshot *snapshot)
{
    struct origin origin = {.fd = fd, .table_max = table_max};
    enum stat_fault fault = STAT_BUSY;
    struct stat file;

    *snapshot = (struct stat_snapshot){.bytes = NULL};
    if (fstat(fd, &file) != 0)
        return STAT_UNREADABLE;
    if (!S_ISREG(file.st_mode))
        return STAT_FOREIGN;
    origin.size = (uint64_t)file.st_size;
    for (int i = 0; i < READ_TRIES && fault == STAT_BUSY; i++) {
        stat_free(snapshot);
        fault = read_once(&origin, snapshot);
    }
    snapshot->alive = read_is_locked(fd);
    return fault;
}

void stat_free(struct stat_snapshot *snapshot)
{
    free(snapshot->bytes);
    *snapshot = (struct stat_snapshot){.bytes = NULL};
}

void stat_explain(enum stat_fault fault, const struct stat_snapshot *snapshot, char *text, size_t size)
{
    static const char *const texts[] = {
        [STAT_OK] = "no fault",
        [STAT_SHORT] = "cut short: not all of it was copied, or something else truncated it",
        [STAT_FOREIGN] = "not a counters file",
        [STAT_DAMAGED] = "damaged: it contradicts itself",
        [STAT_EMPTY] = "nothing was written to it yet",
        [STAT_LARGE] = "too large: a counters file has at most 16 MiB; at most 8 MiB of a table are read, "
                       "and 128 MiB of all tables",
        [STAT_BUSY] = "written faster than it can be read: raise its stats_ns",
    };

    if (fault == STAT_UNREADABLE)
        (void)snprintf(text, size, "%s", strerror(errno));
    else if (fault == STAT_VERSION)
        (void)snprintf(
            text, size,
            "a counters file of version %u, this program reads version %u: take the llm-stat of the "
            "libllm that wrote it",
            snapshot->header.version, LLM_STATS_VERSION);
    else
        (void)snprintf(text, size, "%s", texts[fault]);
}

/* ------------------------------------------------------------------------------------------------ compare */

static bool is_same_object(const struct stat_snapshot *before, uint32_t x, const struct stat_snapshot *now,
                           uint32_t y)
{
    const struct llm_stats_object *a = &before->objects[x], *b = &now->objects[y];

    /* Topics of several sessions may have the same number and name. */
    if (a->kind == LLM_STATS_TOPIC && before->objects[a->parent].id != now->objects[b->parent].id)
        return false;
    return a->kind == b->kind && a->id == b->id && strcmp(a->label, b->label) == 0;
}

static bool is_same_row(const struct stat_snapshot *before, uint32_t x, const struct stat_snapshot *now,
                        uint32_t y)
{
    return strcmp(before->rows[x].name, now->rows[y].name) == 0 &&
           is_same_object(before, before->rows[x].object, now, now->rows[y].object);
}

uint64_t stat_before(const struct stat_snapshot *before, const struct stat_snapshot *now, uint32_t row)
{
    /* Common case: it has the same index as before. */
    if (row < before->table.rows && is_same_row(before, row, now, row))
        return before->values[row];
    for (uint32_t i = 0; i < before->table.rows; i++)
        if (is_same_row(before, i, now, row))
            return before->values[i];
    return now->values[row];
}

const struct llm_stats_histogram *stat_histogram_before(const struct stat_snapshot *before,
                                                        const struct stat_snapshot *now, uint32_t histogram)
{
    const struct llm_stats_histogram *wanted = &now->histograms[histogram];

    for (uint32_t i = 0; i < before->table.histograms; i++)
        if (strcmp(before->histograms[i].name, wanted->name) == 0 &&
            is_same_object(before, before->histograms[i].object, now, wanted->object))
            return &before->histograms[i];
    return NULL;
}

static uint64_t samples(const struct llm_stats_histogram *histogram, const struct llm_stats_histogram *before,
                        uint32_t bucket)
{
    const uint64_t then = before == NULL ? 0 : before->buckets[bucket];

    return histogram->buckets[bucket] > then ? histogram->buckets[bucket] - then : 0;
}

uint64_t stat_percentile(const struct llm_stats_histogram *histogram,
                         const struct llm_stats_histogram *before, double share)
{
    uint64_t count = 0, seen = 0, rank;
    uint32_t bucket;

    for (bucket = 0; bucket < LLM_STATS_BUCKETS; bucket++)
        count += samples(histogram, before, bucket);
    if (count == 0)
        return 0;
    rank = (uint64_t)ceil(share * (double)count);
    for (bucket = 0; bucket < LLM_STATS_BUCKETS - 1; bucket++) {
        seen += samples(histogram, before, bucket);
        if (seen > 0 && seen >= rank)
            break;
    }
    /* The end of its bucket may exceed the greatest sample. */
    return llm_stats_bucket_last(bucket) < histogram->max ? llm_stats_bucket_last(bucket) : histogram->max;
}

uint64_t stat_value(const struct stat_snapshot *snapshot, uint32_t object, const char *name)
{
    for (uint32_t i = 0; i < snapshot->table.rows; i++)
        if (snapshot->rows[i].object == object && strcmp(snapshot->rows[i].name, name) == 0)
            return snapshot->values[i];
    return 0;
}

const char *stat_kind_name(uint32_t kind)
{
    switch (kind) {
#define KIND_NAME(name, number, text) \
    case number:                      \
        return text;
        LLM_STATS_KINDS(KIND_NAME)
    default:
        return "unknown";
    }
}
