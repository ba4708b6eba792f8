/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks report: JSON, and medians or means over runs. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "histogram.h"
#include "machine.h"

/* Writes JSON, indented, with the commas where they belong. key is NULL inside an array and at the top. */
struct report_json {
    FILE *file;
    int depth;
    bool first; /* nothing in the innermost object or array yet */
};

/* Opens the file and the top object. 0, or -1 with errno set. */
int report_json_open(struct report_json *json, const char *path);
/* Closes the top object and the file. 0, or -1 with errno set. */
int report_json_close(struct report_json *json);

void report_json_begin(struct report_json *json, const char *key, char bracket);
void report_json_end(struct report_json *json, char bracket);
/* null if text is. */
void report_json_text(struct report_json *json, const char *key, const char *text);
/* A number with so many decimals; null if it is not a finite number. */
void report_json_number(struct report_json *json, const char *key, double number, int decimals);

/* An object with the fields of the summary: median, mean, p99, p99_9, p99_99, max, std. */
void report_json_summary(struct report_json *json, const char *key, const struct histogram_summary *summary);

/*
 * The median, in microseconds, of the 99th percentiles of times of 20 ms each, of samples that came at this rate a second and are not sorted
 * yet: what else runs on the machine meets few of these times. NAN if there are too few samples in one.
 */
double report_typical_p99(const struct histogram *histogram, uint64_t rate);

/* The setting of a run, beside the machine itself. */
struct report_setting {
    struct machine machine;
    const char *peer;    /* the machine of the other end, as it describes itself */
    const char *network; /* what is between the ends, as the command line says */
    const char *emulated; /* what is not real, as the command line says; empty: nothing */
    double cores_ns;     /* the probe, median over all; 0: not measured */
};

void report_json_machine(struct report_json *json, const struct report_setting *setting);
void report_print_machine(const struct report_setting *setting);

/* NAN if any is NAN or there are none, as the next. */
double report_mean(const double *values, int count);

/* Sorts the values and returns the middle one; between two, their mean; NAN if any is NAN or there are none. */
double report_median(double *values, int count);

#endif
