/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters in the text format 0.0.4 of Prometheus: all samples of a family together, after its HELP and TYPE.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/endpoint.h"
#include "failover/failover.h"
#include "store/store.h"
#include "core/conn/handshake.h"
#include "core/rx/rx_session.h"
#include "stat_print.h"
#include "core/tx/tx_session.h"

struct family {
    uint32_t kind;
    uint32_t type; /* of enum llm_stats_type, or FAMILY_HISTOGRAM */
    const char *name;
};

enum { FAMILY_HISTOGRAM = 100, FAMILIES_MAX = 2000 };

static const struct {
    uint32_t kind;
    const char *name;
    const char *text;
} helps[] = {
#define TX_HELP(name, text) {LLM_STATS_TRANSMITTER, #name, text},
    LLI_TX_COUNTERS(TX_HELP)
#define RX_HELP(name, text) {LLM_STATS_RECEIVER, #name, text},
        LLI_RX_COUNTERS(RX_HELP)
#define ENDPOINT_HELP(name, text) {LLM_STATS_TRANSPORT, #name, text},
            LLI_ENDPOINT_COUNTERS(ENDPOINT_HELP)
#define ACCEPTOR_HELP(name, text) {LLM_STATS_LISTENER, #name, text},
                LLI_ACCEPTOR_COUNTERS(ACCEPTOR_HELP)
#define STORE_HELP(name, text) {LLM_STATS_STORE, #name, text},
                    LLI_STORE_COUNTERS(STORE_HELP) LLI_ANSWERS_COUNTERS(STORE_HELP)
#define FAILOVER_HELP(name, text) {LLM_STATS_FAILOVER, #name, text},
                        LLI_FAILOVER_COUNTERS(FAILOVER_HELP)};

/* ----------------------------------------------------------------------------------------------- families */

static void family_add(struct family *families, int *count, struct family family)
{
    for (int i = 0; i < *count; i++)
        if (families[i].kind == family.kind && families[i].type == family.type &&
            strcmp(families[i].name, family.name) == 0)
            return;
    if (*count < FAMILIES_MAX)
        families[(*count)++] = family;
}

/* Accepts only names that the format allows: any user may write counters files. */
static bool family_is_named(const char *name)
{
    return name[0] != '\0' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(name);
}

static void families_of(const struct stat_snapshot *snapshot, struct family *families, int *count)
{
    for (uint32_t i = 0; i < snapshot->table.rows; i++) {
        const struct llm_stats_row *row = &snapshot->rows[i];

        if (family_is_named(row->name) && row->type <= LLM_STATS_GAUGE)
            family_add(families, count,
                       (struct family){snapshot->objects[row->object].kind, row->type, row->name});
    }
    for (uint32_t i = 0; i < snapshot->table.histograms; i++) {
        const struct llm_stats_histogram *histogram = &snapshot->histograms[i];

        if (family_is_named(histogram->name))
            family_add(families, count,
                       (struct family){snapshot->objects[histogram->object].kind, FAMILY_HISTOGRAM,
                                       histogram->name});
    }
}

/*
 * Writes the name of a family: "llm_transmitter_packets_sent_total". A name that already has its kind gets no
 * second one.
 */
static void family_name(const struct family *family, char *text, size_t size)
{
    const char *kind = stat_kind_name(family->kind);
    const char *name = family->name;
    const size_t length = strlen(kind);

    if (strncmp(name, kind, length) == 0 && name[length] == '_' && name[length + 1] != '\0')
        name += length + 1;
    (void)snprintf(text, size, "llm_%s_%s%s", kind, name, family->type == LLM_STATS_COUNTER ? "_total" : "");
}

static void family_head(FILE *to, const struct family *family, const char *name)
{
    const char *type = family->type == FAMILY_HISTOGRAM  ? "histogram"
                       : family->type == LLM_STATS_GAUGE ? "gauge"
                                                         : "counter";
    const char *text = NULL;

    for (size_t i = 0; i < sizeof helps / sizeof helps[0] && text == NULL; i++)
        if (helps[i].kind == family->kind && strcmp(helps[i].name, family->name) == 0)
            text = helps[i].text;
    if (text != NULL)
        fprintf(to, "# HELP %s %s\n", name, text);
    else
        fprintf(to, "# HELP %s %s of a %s, see docs/statistics.md\n", name, family->name,
                stat_kind_name(family->kind));
    fprintf(to, "# TYPE %s %s\n", name, type);
}

/* ------------------------------------------------------------------------------------------------ samples */

static void label(FILE *to, const char *name, const char *value)
{
    fprintf(to, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '\n') {
            fputs("\\n", to);
            continue;
        }
        if (*value == '"' || *value == '\\')
            fputc('\\', to);
        fputc(*value < ' ' || *value > '~' ? '?' : *value, to);
    }
    fputc('"', to);
}

static void labels_source(FILE *to, const struct stat_source *source)
{
    const struct llm_stats_file *header = &source->now.header;

    fputc('{', to);
    label(to, "file", source->name);
    fputc(',', to);
    label(to, "program", header->program);
    fputc(',', to);
    label(to, "name", header->name);
    fprintf(to, ",pid=\"%" PRIu32 "\"", header->pid);
}

/* Writes labels that distinguish an object from all others of its kind. */
static void labels_object(FILE *to, const struct stat_source *source, uint32_t index)
{
    const struct llm_stats_object *object = &source->now.objects[index];
    const struct llm_stats_object *parent = &source->now.objects[object->parent];

    labels_source(to, source);
    switch (object->kind) {
    case LLM_STATS_TRANSPORT:
        fputc(',', to);
        label(to, "scheme", object->label);
        fprintf(to, ",number=\"%" PRIu32 "\"", index);
        break;
    case LLM_STATS_TRANSMITTER:
    case LLM_STATS_RECEIVER:
        fputc(',', to);
        label(to, "channel", object->label);
        fprintf(to, ",%s=\"%016" PRIx64 "\"", object->kind == LLM_STATS_RECEIVER ? "receiver" : "session",
                object->id);
        break;
    case LLM_STATS_LISTENER:
    case LLM_STATS_FAILOVER:
        fputc(',', to);
        label(to, "channel", object->label);
        break;
    case LLM_STATS_STORE:
        fputc(',', to);
        label(to, "directory", object->label);
        break;
    case LLM_STATS_MEMBER:
    case LLM_STATS_SESSION: {
        const bool member = object->kind == LLM_STATS_MEMBER;

        fputc(',', to);
        label(to, "channel", parent->label);
        fprintf(to, ",session=\"%016" PRIx64 "\",receiver=\"%016" PRIx64 "\"",
                member ? parent->id : object->id, member ? object->id : parent->id);
        break;
    }
    case LLM_STATS_TOPIC: {
        const struct llm_stats_object *root = &source->now.objects[parent->parent];

        fputc(',', to);
        label(to, "channel", root->label);
        fprintf(to, ",session=\"%016" PRIx64 "\"", parent->id);
        if (root != parent)
            fprintf(to, ",receiver=\"%016" PRIx64 "\"", root->id);
        fputc(',', to);
        label(to, "topic", object->label);
        break;
    }
    default:
        break;
    }
}

static void sample_histogram(FILE *to, const char *name, const struct stat_source *source,
                             const struct llm_stats_histogram *histogram)
{
    uint64_t below = 0;

    for (uint32_t i = 0; i < LLM_STATS_BUCKETS; i++) {
        below += histogram->buckets[i];
        /* One bucket for each power of two; the last bucket has no end. */
        if (i % 32 != 31)
            continue;
        fprintf(to, "%s_bucket", name);
        labels_object(to, source, histogram->object);
        if (i == LLM_STATS_BUCKETS - 1)
            fprintf(to, ",le=\"+Inf\"} %" PRIu64 "\n", below);
        else
            fprintf(to, ",le=\"%" PRIu64 "\"} %" PRIu64 "\n", llm_stats_bucket_last(i), below);
    }
    fprintf(to, "%s_sum", name);
    labels_object(to, source, histogram->object);
    fprintf(to, "} %" PRIu64 "\n%s_count", histogram->sum, name);
    labels_object(to, source, histogram->object);
    fprintf(to, "} %" PRIu64 "\n", below);
}

static void family_samples(FILE *to, const struct family *family, const char *name,
                           const struct stat_source *source)
{
    const struct stat_snapshot *now = &source->now;

    if (family->type == FAMILY_HISTOGRAM) {
        for (uint32_t i = 0; i < now->table.histograms; i++)
            if (now->objects[now->histograms[i].object].kind == family->kind &&
                strcmp(now->histograms[i].name, family->name) == 0)
                sample_histogram(to, name, source, &now->histograms[i]);
        return;
    }
    for (uint32_t i = 0; i < now->table.rows; i++) {
        const struct llm_stats_row *row = &now->rows[i];

        if (row->type != family->type || now->objects[row->object].kind != family->kind ||
            strcmp(row->name, family->name) != 0)
            continue;
        fputs(name, to);
        labels_object(to, source, row->object);
        fprintf(to, "} %" PRIu64 "\n", now->values[i]);
    }
}

/* --------------------------------------------------------------------------------------------------- page */

static bool is_shown(const struct stat_source *source)
{
    return source->fault == STAT_OK && source->now.alive;
}

static void page_of_files(FILE *to, const struct stat_watch *watch)
{
    int bad = 0;

    fputs("# HELP llm_up Whether the process that has the counters file lives.\n# TYPE llm_up gauge\n", to);
    for (int i = 0; i < watch->count; i++) {
        if (watch->sources[i].fault != STAT_OK)
            continue;
        fputs("llm_up", to);
        labels_source(to, &watch->sources[i]);
        fprintf(to, "} %d\n", watch->sources[i].now.alive);
    }
    fputs("# HELP llm_files_unreadable Counters files that could not be read.\n# TYPE llm_files_unreadable "
          "gauge\n",
          to);
    for (int i = 0; i < watch->count; i++)
        bad += watch->sources[i].fault != STAT_OK;
    fprintf(to, "llm_files_unreadable %d\n", bad);
    fputs("# HELP llm_written_timestamp_seconds When the counters were written.\n"
          "# TYPE llm_written_timestamp_seconds gauge\n",
          to);
    for (int i = 0; i < watch->count; i++) {
        if (!is_shown(&watch->sources[i]))
            continue;
        fputs("llm_written_timestamp_seconds", to);
        labels_source(to, &watch->sources[i]);
        fprintf(to, "} %.3f\n", (double)watch->sources[i].now.table.written_at / 1e9);
    }
}

void stat_print_prometheus(FILE *to, const struct stat_watch *watch)
{
    struct family *families = calloc(FAMILIES_MAX, sizeof *families);
    char name[160];
    int count = 0;

    page_of_files(to, watch);
    if (families == NULL)
        return;
    for (int i = 0; i < watch->count; i++)
        if (is_shown(&watch->sources[i]))
            families_of(&watch->sources[i].now, families, &count);
    for (int i = 0; i < count; i++) {
        family_name(&families[i], name, sizeof name);
        family_head(to, &families[i], name);
        for (int j = 0; j < watch->count; j++)
            if (is_shown(&watch->sources[j]))
                family_samples(to, &families[i], name, &watch->sources[j]);
    }
    free(families);
}
