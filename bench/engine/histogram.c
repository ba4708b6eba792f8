/* SPDX-License-Identifier: Apache-2.0 */
#include "histogram.h"

#include <string.h>

#include "control.h"

/* Writes to every page: a page fault would be measured with a message. */
static uint32_t *histogram_memory(size_t count)
{
    uint32_t *memory = control_memory(count + 1, sizeof *memory);

    return memset(memory, 1, (count + 1) * sizeof *memory);
}

void histogram_init(struct histogram *histogram, size_t trace_max)
{
    *histogram = (struct histogram){.counts = histogram_memory(HISTOGRAM_COUNTS), .trace_max = trace_max};
    if (trace_max > 0)
        histogram->trace = histogram_memory(trace_max);
    histogram_reset(histogram);
}

void histogram_reset(struct histogram *histogram)
{
    memset(histogram->counts, 0, HISTOGRAM_COUNTS * sizeof *histogram->counts);
    histogram->max = 0;
    histogram->trace_count = 0;
}

uint64_t histogram_value(size_t index)
{
    const unsigned shift = index < 2 * HISTOGRAM_HALF ? 0 : (unsigned)(index / HISTOGRAM_HALF) - 1;

    return ((uint64_t)(index - (size_t)shift * HISTOGRAM_HALF + 1) << shift) - 1;
}
