/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms of fixed size whose buckets are as wide as their values are large: llm/stats.h gives the bounds.
 */
#ifndef LLI_HISTOGRAM_H
#define LLI_HISTOGRAM_H

#include <llm/stats.h>

struct lli_histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t buckets[LLM_STATS_BUCKETS];
};

/* Adds count samples of one value. */
static inline void lli_histogram_add(struct lli_histogram *histogram, uint64_t value, uint64_t count)
{
    histogram->buckets[llm_stats_bucket(value)] += count;
    histogram->count += count;
    histogram->sum += value * count;
    if (value > histogram->max)
        histogram->max = value;
}

#endif
