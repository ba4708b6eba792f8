/* SPDX-License-Identifier: Apache-2.0 */
#include "histogram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTOGRAM_STEPS_PER_HALVING 5

int histogram_init(struct histogram *histogram, size_t capacity)
{
    *histogram = (struct histogram){.samples = malloc(capacity * sizeof(uint64_t)), .capacity = capacity};
    if (!histogram->samples)
        return -1;
    /* Written, not only mapped: a page fault would be measured with a message. */
    memset(histogram->samples, 1, capacity * sizeof(uint64_t));
    return 0;
}

void histogram_fini(struct histogram *histogram)
{
    free(histogram->samples);
    *histogram = (struct histogram){0};
}

void histogram_add_all(struct histogram *histogram, const struct histogram *other)
{
    for (size_t i = 0; i < other->count; i++)
        histogram_add(histogram, other->samples[i]);
}

static int histogram_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void histogram_sort(struct histogram *histogram)
{
    qsort(histogram->samples, histogram->count, sizeof(uint64_t), histogram_compare);
}

uint64_t histogram_percentile(const struct histogram *histogram, double share)
{
    double rank = ceil(share * (double)histogram->count);

    if (histogram->count == 0)
        return 0;
    if (rank < 1)
        return histogram->samples[0];
    if (rank >= (double)histogram->count)
        return histogram->samples[histogram->count - 1];
    return histogram->samples[(size_t)rank - 1];
}

static double histogram_mean(const struct histogram *histogram)
{
    double sum = 0;

    for (size_t i = 0; i < histogram->count; i++)
        sum += (double)histogram->samples[i];
    return histogram->count ? sum / (double)histogram->count : 0;
}

static double histogram_std(const struct histogram *histogram)
{
    double mean = histogram_mean(histogram);
    double sum = 0;

    for (size_t i = 0; i < histogram->count; i++) {
        double distance = (double)histogram->samples[i] - mean;

        sum += distance * distance;
    }
    return histogram->count ? sqrt(sum / (double)histogram->count) : 0;
}

struct histogram_summary histogram_summarize(const struct histogram *histogram, double divisor)
{
    double us = 1 / (1000 * divisor);

    return (struct histogram_summary){
        .median = (double)histogram_percentile(histogram, 0.5) * us,
        .mean = histogram_mean(histogram) * us,
        .p99 = (double)histogram_percentile(histogram, 0.99) * us,
        .p99_9 = (double)histogram_percentile(histogram, 0.999) * us,
        .p99_99 = (double)histogram_percentile(histogram, 0.9999) * us,
        .max = (double)histogram_percentile(histogram, 1) * us,
        .std = histogram_std(histogram) * us,
    };
}

/* How many samples are no greater than the one with this value. */
static size_t histogram_rank(const struct histogram *histogram, uint64_t value)
{
    size_t low = 0;
    size_t high = histogram->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (histogram->samples[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void histogram_write_lines(const struct histogram *histogram, double us, FILE *file)
{
    double share = 0;

    while (histogram->count > 0) {
        uint64_t value = histogram_percentile(histogram, share);
        size_t rank = histogram_rank(histogram, value);
        double steps;

        if (rank == histogram->count) {
            fprintf(file, "%12.3f %2.12f %10zu\n", (double)value * us, 1.0, rank);
            return;
        }
        fprintf(file, "%12.3f %2.12f %10zu %14.2f\n", (double)value * us, share, rank, 1 / (1 - share));
        steps = HISTOGRAM_STEPS_PER_HALVING * exp2(floor(log2(1 / (1 - share))) + 1);
        share += 1 / steps;
    }
}

int histogram_write(const struct histogram *histogram, double divisor, const char *path)
{
    struct histogram_summary summary = histogram_summarize(histogram, divisor);
    FILE *file = fopen(path, "w");

    if (!file)
        return -1;
    fprintf(file, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    histogram_write_lines(histogram, 1 / (1000 * divisor), file);
    fprintf(file, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", summary.mean, summary.std);
    fprintf(file, "#[Max     = %12.3f, Total count    = %12zu]\n", summary.max, histogram->count);
    /* Its readers want the line; samples kept one by one are one bucket with a place for each. */
    fprintf(file, "#[Buckets = %12d, SubBuckets     = %12zu]\n", 1, histogram->count);
    return fclose(file) == 0 ? 0 : -1;
}
