/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------------- JSON */

static void report_json_string(struct report_json *json, const char *text)
{
    fputc('"', json->file);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ')
            fprintf(json->file, "\\u%04x", (unsigned)*text);
        else
            fprintf(json->file, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    fputc('"', json->file);
}

static void report_json_next(struct report_json *json, const char *key)
{
    if (json->depth > 0)
        fprintf(json->file, "%s\n%*s", json->first ? "" : ",", json->depth * 2, "");
    json->first = false;
    if (key) {
        report_json_string(json, key);
        fputs(": ", json->file);
    }
}

int report_json_open(struct report_json *json, const char *path)
{
    *json = (struct report_json){.file = fopen(path, "w"), .first = true};
    if (!json->file)
        return -1;
    report_json_begin(json, NULL, '{');
    return 0;
}

int report_json_close(struct report_json *json)
{
    report_json_end(json, '}');
    fputc('\n', json->file);
    return fclose(json->file) == 0 ? 0 : -1;
}

void report_json_begin(struct report_json *json, const char *key, char bracket)
{
    report_json_next(json, key);
    fputc(bracket, json->file);
    json->depth++;
    json->first = true;
}

void report_json_end(struct report_json *json, char bracket)
{
    json->depth--;
    if (!json->first)
        fprintf(json->file, "\n%*s", json->depth * 2, "");
    fputc(bracket, json->file);
    json->first = false;
}

void report_json_text(struct report_json *json, const char *key, const char *text)
{
    report_json_next(json, key);
    if (text)
        report_json_string(json, text);
    else
        fputs("null", json->file);
}

void report_json_number(struct report_json *json, const char *key, double number, int decimals)
{
    report_json_next(json, key);
    if (!isfinite(number))
        fputs("null", json->file);
    else
        fprintf(json->file, "%.*f", decimals, number);
}

void report_json_summary(struct report_json *json, const char *key, const struct histogram_summary *summary)
{
    report_json_begin(json, key, '{');
    report_json_number(json, "median", summary->median, 3);
    report_json_number(json, "mean", summary->mean, 3);
    report_json_number(json, "p99", summary->p99, 3);
    report_json_number(json, "p99_9", summary->p99_9, 3);
    report_json_number(json, "p99_99", summary->p99_99, 3);
    report_json_number(json, "max", summary->max, 3);
    report_json_number(json, "std", summary->std, 3);
    report_json_end(json, '}');
}

/* ------------------------------------------------------------------------------------------------------------- machine */

void report_json_machine(struct report_json *json, const struct report_setting *setting)
{
    report_json_begin(json, "machine", '{');
    report_json_text(json, "cpu", setting->machine.cpu);
    report_json_number(json, "cores", setting->machine.cores, 0);
    report_json_number(json, "memory_mib", (double)setting->machine.memory_mib, 0);
    report_json_text(json, "kernel", setting->machine.kernel);
    report_json_text(json, "peer", setting->peer);
    report_json_text(json, "network", setting->network);
    report_json_text(json, "emulated", setting->emulated && *setting->emulated ? setting->emulated : NULL);
    report_json_number(json, "core_to_core_ns", setting->cores_ns > 0 ? setting->cores_ns : NAN, 1);
    report_json_end(json, '}');
}

void report_print_machine(const struct report_setting *setting)
{
    char text[256];

    if (setting->emulated && *setting->emulated)
        printf("EMULATED  %s\n", setting->emulated);
    machine_print(&setting->machine, text, sizeof text);
    printf("machine   %s\n", text);
    if (strcmp(text, setting->peer) != 0)
        printf("peer      %s\n", setting->peer);
    if (*setting->network)
        printf("network   %s\n", setting->network);
    if (setting->cores_ns > 0)
        printf("cores     a cache line goes from one to the other in %.0f ns\n", setting->cores_ns);
}

/* ------------------------------------------------------------------------------------------------------- medians, means */

static int report_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double report_median(double *values, int count)
{
    int middle = count / 2;

    for (int i = 0; i < count; i++) {
        if (isnan(values[i]))
            return NAN;
    }
    if (count == 0)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, report_compare);
    return count % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double report_mean(const double *values, int count)
{
    double sum = 0;

    for (int i = 0; i < count; i++)
        sum += values[i];
    return count > 0 ? sum / count : NAN;
}

#define REPORT_WINDOW_NS 20000000ull

/* Of the samples of one window, in microseconds. */
static double report_p99(uint64_t *samples, size_t count)
{
    struct histogram window = {.samples = samples, .count = count, .capacity = count};

    histogram_sort(&window);
    return (double)samples[count * 99 / 100] / 1e3;
}

double report_typical_p99(const struct histogram *histogram, uint64_t rate)
{
    const size_t size = rate * REPORT_WINDOW_NS / 1000000000, windows = size < 100 ? 0 : histogram->count / size;
    uint64_t *samples = calloc(size + 1, sizeof *samples);
    double *found = calloc(windows + 1, sizeof *found);
    double median = NAN;

    for (size_t i = 0; samples && found && i < windows; i++) {
        memcpy(samples, histogram->samples + i * size, size * sizeof *samples);
        found[i] = report_p99(samples, size);
    }
    if (samples && found)
        median = report_median(found, (int)windows);
    free(samples);
    free(found);
    return median;
}
