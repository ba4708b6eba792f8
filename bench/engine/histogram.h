/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latencies in nanoseconds, in the buckets of an HdrHistogram with three digits: exact below 2,048, within a
 * thousandth above. The runner merges histograms and computes percentiles; tests/bench/histogram.py compares
 * the buckets with PyPI's hdrhistogram.
 */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    HISTOGRAM_HALF = 1024, /* buckets of each doubling */
    /* Doublings above 2,048: up to 68 s; longer times count in the last bucket. */
    HISTOGRAM_DOUBLINGS = 26,
    HISTOGRAM_COUNTS = (HISTOGRAM_DOUBLINGS + 1) * HISTOGRAM_HALF,
};

struct histogram {
    uint32_t *counts;
    uint64_t max;    /* exact */
    uint32_t *trace; /* the first values in order of arrival; NULL: not recorded */
    size_t trace_count;
    size_t trace_max;
};

/* Allocates and touches the memory, including that of a trace of so many values. */
void histogram_init(struct histogram *histogram, size_t trace_max);
void histogram_reset(struct histogram *histogram);

/* Bucket of a value. */
static inline size_t histogram_index(uint64_t ns)
{
    unsigned shift;

    if (ns < 2 * HISTOGRAM_HALF)
        return (size_t)ns;
    shift = 53 - (unsigned)__builtin_clzll(ns); /* shift that reduces the value to 1,024 to 2,047 */
    return shift >= HISTOGRAM_DOUBLINGS ? HISTOGRAM_COUNTS - 1
                                        : shift * HISTOGRAM_HALF + (size_t)(ns >> shift);
}

/* Highest value of a bucket. */
uint64_t histogram_value(size_t index);

static inline void histogram_add(struct histogram *histogram, uint64_t ns)
{
    histogram->counts[histogram_index(ns)]++;
    histogram->max = ns > histogram->max ? ns : histogram->max;
    if (histogram->trace_count < histogram->trace_max)
        histogram->trace[histogram->trace_count++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

#endif
