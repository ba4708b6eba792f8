/* SPDX-License-Identifier: Apache-2.0 */
/* Latency samples, kept one by one, and what is computed from them. Exact: there are no buckets. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

struct histogram {
    uint64_t *samples; /* nanoseconds */
    size_t count;
    size_t capacity;
};

struct histogram_summary {
    double median; /* all in microseconds */
    double mean;
    double p99;
    double p99_9;
    double p99_99;
    double max;
    double std;
};

/* Allocates and touches the memory of capacity samples. 0, or -1 without memory. */
int histogram_init(struct histogram *histogram, size_t capacity);
void histogram_fini(struct histogram *histogram);

/* Samples beyond the capacity are dropped. */
static inline void histogram_add(struct histogram *histogram, uint64_t ns)
{
    if (histogram->count < histogram->capacity)
        histogram->samples[histogram->count++] = ns;
}

void histogram_add_all(struct histogram *histogram, const struct histogram *other);

/* Sorts the samples, which is what the functions below expect. */
void histogram_sort(struct histogram *histogram);

/* The smallest sample that at least this share (0 to 1) of the samples does not exceed (nearest rank); 0 without samples. */
uint64_t histogram_percentile(const struct histogram *histogram, double share);

/* Every sample divided by divisor: 2 makes hops of round trips. All zero without samples. */
struct histogram_summary histogram_summarize(const struct histogram *histogram, double divisor);

/* Writes the percentile distribution as HdrHistogram's outputPercentileDistribution() does, five steps each time the distance
 * to 100 % halves; its plotters read it. Values in microseconds, divided by divisor. 0, or -1 with errno set. */
int histogram_write(const struct histogram *histogram, double divisor, const char *path);

#endif
