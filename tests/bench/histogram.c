/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the numbers on standard input in a histogram, and writes it; tests/bench/histogram.py compares it
 * with PyPI's hdrhistogram.
 */
#include <inttypes.h>
#include <stdio.h>

#include "../../bench/engine/control.h"

int main(void)
{
    struct histogram histogram;
    uint64_t ns;

    histogram_init(&histogram, 0);
    while (scanf("%" SCNu64, &ns) == 1)
        histogram_add(&histogram, ns);
    json_open();
    json_histogram("histogram", &histogram);
    json_close();
    return 0;
}
