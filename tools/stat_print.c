/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "stat_print.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    double share;
} percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99_9", 0.999}, {"p99_99", 0.9999}};

enum { PERCENTILES = sizeof percentiles / sizeof percentiles[0] };

/* --------------------------------------------------------------------------------------------------- text */

static void print_since(FILE *to, double seconds)
{
    const long whole = (long)seconds;

    if (whole >= 86400)
        fprintf(to, "%ld d %ld h", whole / 86400, whole % 86400 / 3600);
    else if (whole >= 3600)
        fprintf(to, "%ld h %ld min", whole / 3600, whole % 3600 / 60);
    else if (whole >= 60)
        fprintf(to, "%ld min %ld s", whole / 60, whole % 60);
    else
        fprintf(to, "%.1f s", seconds);
}

void stat_print_title(FILE *to, const struct stat_source *source)
{
    const struct llm_stats_file *header = &source->now.header;
    const double age = stat_watch_age(source);
    char text[256];

    fprintf(to, "%s", source->name);
    if (source->fault != STAT_OK) {
        stat_explain(source->fault, &source->now, text, sizeof text);
        fprintf(to, ": %s", source->fault == STAT_UNREADABLE ? strerror(source->error) : text);
        return;
    }
    if (header->name[0] != '\0')
        fprintf(to, " \"%s\"", header->name);
    fprintf(to, ", %s, up ", source->now.alive ? "alive" : "dead");
    print_since(to, (double)(source->now.table.written_at - header->started_at) / 1e9);
    fputs(source->now.alive ? ", written " : ", last written ", to);
    print_since(to, age);
    fputs(" ago", to);
    /* No new table for ten intervals: the context is not polled. */
    if (source->now.alive && age > 1 && age * 1e9 > 10 * (double)header->interval_ns)
        fputs(", NOT POLLING", to);
}

static void text_histogram(FILE *to, const struct llm_stats_histogram *histogram)
{
    if (histogram->count == 0)
        return;
    fprintf(to, "      %-24s count %" PRIu64, histogram->name, histogram->count);
    for (int i = 0; i < PERCENTILES; i++)
        fprintf(to, " %s %" PRIu64, percentiles[i].name,
                stat_percentile(histogram, NULL, percentiles[i].share));
    fprintf(to, " max %" PRIu64 "\n", histogram->max);
}

static void text_object(FILE *to, const struct stat_snapshot *snapshot, uint32_t object)
{
    const struct llm_stats_object *at = &snapshot->objects[object];

    fprintf(to, at->parent == object ? "  %s" : "    %s", stat_kind_name(at->kind));
    if (at->label[0] != '\0')
        fprintf(to, " %s", at->label);
    if (at->id != 0)
        fprintf(to, " %016" PRIx64, at->id);
    fputc('\n', to);
    for (uint32_t i = 0; i < snapshot->table.rows; i++)
        if (snapshot->rows[i].object == object && snapshot->values[i] != 0)
            fprintf(to, "      %-24s %" PRIu64 "\n", snapshot->rows[i].name, snapshot->values[i]);
    for (uint32_t i = 0; i < snapshot->table.histograms; i++)
        if (snapshot->histograms[i].object == object)
            text_histogram(to, &snapshot->histograms[i]);
}

void stat_print_text(FILE *to, const struct stat_watch *watch)
{
    for (int i = 0; i < watch->count; i++) {
        const struct stat_source *source = &watch->sources[i];

        stat_print_title(to, source);
        fputc('\n', to);
        for (uint32_t j = 0; source->fault == STAT_OK && j < source->now.table.objects; j++)
            text_object(to, &source->now, j);
        if (source->fault == STAT_OK && source->now.table.dropped > 0)
            fprintf(to, "  %" PRIu64 " counters did not fit into the file\n", source->now.table.dropped);
    }
}

/* --------------------------------------------------------------------------------------------------- JSON */

static void json_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        /* File names may have any character. */
        fputc(*text < ' ' || *text > '~' ? '?' : *text, to);
    }
    fputc('"', to);
}

static void json_rows(FILE *to, const struct stat_snapshot *snapshot, uint32_t object, uint32_t type,
                      const char *title)
{
    const char *separator = "";

    fprintf(to, ", \"%s\": {", title);
    for (uint32_t i = 0; i < snapshot->table.rows; i++) {
        if (snapshot->rows[i].object != object || snapshot->rows[i].type != type)
            continue;
        fputs(separator, to);
        json_text(to, snapshot->rows[i].name);
        fprintf(to, ": %" PRIu64, snapshot->values[i]);
        separator = ", ";
    }
    fputc('}', to);
}

static void json_histograms(FILE *to, const struct stat_snapshot *snapshot, uint32_t object)
{
    const char *separator = "";

    fputs(", \"histograms\": {", to);
    for (uint32_t i = 0; i < snapshot->table.histograms; i++) {
        const struct llm_stats_histogram *histogram = &snapshot->histograms[i];

        if (histogram->object != object)
            continue;
        fputs(separator, to);
        json_text(to, histogram->name);
        fprintf(to, ": {\"count\": %" PRIu64 ", \"sum\": %" PRIu64 ", \"max\": %" PRIu64, histogram->count,
                histogram->sum, histogram->max);
        for (int j = 0; j < PERCENTILES; j++)
            fprintf(to, ", \"%s\": %" PRIu64, percentiles[j].name,
                    stat_percentile(histogram, NULL, percentiles[j].share));
        fputc('}', to);
        separator = ", ";
    }
    fputc('}', to);
}

static void json_objects(FILE *to, const struct stat_snapshot *snapshot)
{
    fputs(", \"objects\": [", to);
    for (uint32_t i = 0; i < snapshot->table.objects; i++) {
        const struct llm_stats_object *object = &snapshot->objects[i];

        fprintf(to,
                "%s\n    {\"kind\": \"%s\", \"parent\": %" PRIu32 ", \"id\": \"%016" PRIx64 "\", \"label\": ",
                i > 0 ? "," : "", stat_kind_name(object->kind), object->parent, object->id);
        json_text(to, object->label);
        json_rows(to, snapshot, i, LLM_STATS_COUNTER, "counters");
        json_rows(to, snapshot, i, LLM_STATS_GAUGE, "gauges");
        json_histograms(to, snapshot, i);
        fputc('}', to);
    }
    fputc(']', to);
}

static void json_source(FILE *to, const struct stat_source *source)
{
    const struct llm_stats_file *header = &source->now.header;
    char text[256];

    fputs("  {\"file\": ", to);
    json_text(to, source->name);
    if (source->fault != STAT_OK) {
        stat_explain(source->fault, &source->now, text, sizeof text);
        fputs(", \"error\": ", to);
        json_text(to, source->fault == STAT_UNREADABLE ? strerror(source->error) : text);
    } else {
        fputs(", \"program\": ", to);
        json_text(to, header->program);
        fputs(", \"name\": ", to);
        json_text(to, header->name);
        fprintf(to,
                ", \"pid\": %" PRIu32 ", \"alive\": %s, \"started_at\": %" PRIu64 ", \"written_at\": %" PRIu64
                ", \"clock_at\": %" PRIu64 ", \"interval_ns\": %" PRIu64 ", \"dropped\": %" PRIu64,
                header->pid, source->now.alive ? "true" : "false", header->started_at,
                source->now.table.written_at, source->now.table.clock_at, header->interval_ns,
                source->now.table.dropped);
        json_objects(to, &source->now);
    }
    fputc('}', to);
}

void stat_print_json(FILE *to, const struct stat_watch *watch)
{
    fputs("{\"contexts\": [", to);
    for (int i = 0; i < watch->count; i++) {
        fputs(i > 0 ? ",\n" : "\n", to);
        json_source(to, &watch->sources[i]);
    }
    fputs("\n]}\n", to);
}
