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

enum { READ_TRIES = 8, READ_BYTES_MAX = 256 << 20 };

/* ---------------------------------------------------------------------------------------------------------- check */

/* Ends a text, and leaves nothing in it that a terminal would take for more than text. */
static void parse_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static bool parse_header(const struct llm_stats_file *header, size_t size)
{
    const uint64_t bytes = sizeof(struct llm_stats_table) + header->objects_max * (uint64_t)sizeof(struct llm_stats_object) +
                           header->rows_max * (uint64_t)(sizeof(struct llm_stats_row) + sizeof(uint64_t)) +
                           header->histograms_max * (uint64_t)sizeof(struct llm_stats_histogram);

    if (header->table_bytes != bytes || bytes > size)
        return false;
    for (int i = 0; i < 2; i++)
        if (header->table_at[i] < sizeof *header || header->table_at[i] % 8 != 0 || header->table_at[i] > size - bytes)
            return false;
    return true;
}

/* Indices and texts of the arrays; the arrays themselves are where they belong. */
static bool parse_arrays(struct llm_stats_object *objects, struct llm_stats_row *rows, struct llm_stats_histogram *histograms,
                         const struct llm_stats_table *table)
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

static enum stat_fault parse_table(uint8_t *at, struct stat_snapshot *snapshot)
{
    const struct llm_stats_file *header = &snapshot->header;
    struct llm_stats_object *objects = (struct llm_stats_object *)(void *)(at + sizeof snapshot->table);
    struct llm_stats_row *rows = (struct llm_stats_row *)(objects + header->objects_max);
    uint64_t *values = (uint64_t *)(void *)(rows + header->rows_max);
    struct llm_stats_histogram *histograms = (struct llm_stats_histogram *)(void *)(values + header->rows_max);

    memcpy(&snapshot->table, at, sizeof snapshot->table);
    if (snapshot->table.objects > header->objects_max || snapshot->table.rows > header->rows_max ||
        snapshot->table.histograms > header->histograms_max ||
        !parse_arrays(objects, rows, histograms, &snapshot->table)) {
        snapshot->table = (struct llm_stats_table){.rows = 0};
        return STAT_DAMAGED;
    }
    snapshot->objects = objects;
    snapshot->rows = rows;
    snapshot->values = values;
    snapshot->histograms = histograms;
    return STAT_OK;
}

enum stat_fault stat_parse(uint8_t *bytes, size_t size, struct stat_snapshot *snapshot)
{
    struct llm_stats_file *header = &snapshot->header;

    *snapshot = (struct stat_snapshot){.bytes = bytes};
    memcpy(header, bytes, size < sizeof *header ? size : sizeof *header);
    parse_text(header->program, sizeof header->program);
    parse_text(header->name, sizeof header->name);
    if (size >= sizeof header->magic && memcmp(header->magic, LLM_STATS_MAGIC, sizeof header->magic) != 0)
        return STAT_FOREIGN;
    if (size < sizeof *header)
        return STAT_SHORT;
    if (header->version != LLM_STATS_VERSION)
        return STAT_VERSION;
    if (header->table_bytes > size || header->table_at[0] > size - header->table_bytes ||
        header->table_at[1] > size - header->table_bytes)
        return STAT_SHORT;
    if (!parse_header(header, size))
        return STAT_DAMAGED;
    if (header->sequence == 0)
        return STAT_EMPTY;
    return parse_table(bytes + header->table_at[header->sequence & 1], snapshot);
}

/* ----------------------------------------------------------------------------------------------------------- read */

static bool read_is_locked(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static enum stat_fault read_once(int fd, size_t size, struct stat_snapshot *snapshot)
{
    uint8_t *bytes = malloc(size == 0 ? 1 : size);
    uint64_t sequence = 0;
    enum stat_fault fault;
    ssize_t got;

    if (bytes == NULL)
        return STAT_UNREADABLE;
    got = pread(fd, bytes, size, 0);
    if (got < 0) {
        free(bytes);
        return STAT_UNREADABLE;
    }
    fault = stat_parse(bytes, (size_t)got, snapshot);
    if (fault != STAT_OK)
        return fault;
    if (pread(fd, &sequence, sizeof sequence, offsetof(struct llm_stats_file, sequence)) != (ssize_t)sizeof sequence)
        return STAT_SHORT;
    return sequence == snapshot->header.sequence ? STAT_OK : STAT_BUSY;
}

enum stat_fault stat_read(int fd, struct stat_snapshot *snapshot)
{
    enum stat_fault fault = STAT_BUSY;
    struct stat file;

    *snapshot = (struct stat_snapshot){.bytes = NULL};
    if (fstat(fd, &file) != 0)
        return STAT_UNREADABLE;
    if (!S_ISREG(file.st_mode) || file.st_size > READ_BYTES_MAX)
        return STAT_FOREIGN;
    for (int i = 0; i < READ_TRIES && fault == STAT_BUSY; i++) {
        stat_free(snapshot);
        fault = read_once(fd, (size_t)file.st_size, snapshot);
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
        [STAT_OK] = "it is as it should be",
        [STAT_SHORT] = "cut short: not all of it was copied, or something else truncated it",
        [STAT_FOREIGN] = "not a counters file",
        [STAT_DAMAGED] = "damaged: it contradicts itself",
        [STAT_EMPTY] = "nothing was written to it yet",
        [STAT_BUSY] = "written faster than it can be read: raise its stats_ns",
    };

    if (fault == STAT_UNREADABLE)
        (void)snprintf(text, size, "%s", strerror(errno));
    else if (fault == STAT_VERSION)
        (void)snprintf(text, size, "a counters file of version %u, this program reads version %u: take the llm-stat of the "
                       "libllm that wrote it", snapshot->header.version, LLM_STATS_VERSION);
    else
        (void)snprintf(text, size, "%s", texts[fault]);
}

/* -------------------------------------------------------------------------------------------------------- compare */

static bool is_same_object(const struct stat_snapshot *before, uint32_t x, const struct stat_snapshot *now, uint32_t y)
{
    const struct llm_stats_object *a = &before->objects[x], *b = &now->objects[y];

    /* Sessions have topics of the same number and name. */
    if (a->kind == LLM_STATS_TOPIC && before->objects[a->parent].id != now->objects[b->parent].id)
        return false;
    return a->kind == b->kind && a->id == b->id && strcmp(a->label, b->label) == 0;
}

static bool is_same_row(const struct stat_snapshot *before, uint32_t x, const struct stat_snapshot *now, uint32_t y)
{
    return strcmp(before->rows[x].name, now->rows[y].name) == 0 &&
           is_same_object(before, before->rows[x].object, now, now->rows[y].object);
}

uint64_t stat_before(const struct stat_snapshot *before, const struct stat_snapshot *now, uint32_t row)
{
    /* Mostly it stands where it stood. */
    if (row < before->table.rows && is_same_row(before, row, now, row))
        return before->values[row];
    for (uint32_t i = 0; i < before->table.rows; i++)
        if (is_same_row(before, i, now, row))
            return before->values[i];
    return now->values[row];
}

const struct llm_stats_histogram *stat_histogram_before(const struct stat_snapshot *before, const struct stat_snapshot *now,
                                                        uint32_t histogram)
{
    const struct llm_stats_histogram *wanted = &now->histograms[histogram];

    for (uint32_t i = 0; i < before->table.histograms; i++)
        if (strcmp(before->histograms[i].name, wanted->name) == 0 &&
            is_same_object(before, before->histograms[i].object, now, wanted->object))
            return &before->histograms[i];
    return NULL;
}

static uint64_t samples(const struct llm_stats_histogram *histogram, const struct llm_stats_histogram *before, uint32_t bucket)
{
    const uint64_t then = before == NULL ? 0 : before->buckets[bucket];

    return histogram->buckets[bucket] > then ? histogram->buckets[bucket] - then : 0;
}

uint64_t stat_percentile(const struct llm_stats_histogram *histogram, const struct llm_stats_histogram *before, double share)
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
    /* The end of its bucket may lie beyond the greatest of all. */
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
