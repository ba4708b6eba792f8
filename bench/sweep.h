/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs share that measure the hop against something else: their options, the fields of a hop, medians over runs,
 * and the report. Each of them gives a table of the fields that are its own.
 */
#ifndef BENCH_SWEEP_H
#define BENCH_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "echo.h"
#include "options.h"
#include "report.h"
#include "source.h"

/* ------------------------------------------------------------------------------------------------------------- options */

struct sweep {
    const char *role; /* "source" or "reflector" */
    const char *send;
    const char *receive;
    uint64_t size;
    uint64_t duration_ns;
    uint64_t patience_ns;
    uint64_t runs;
    uint64_t cpu;
    uint64_t peer_cpu;
    const char *json;
    const char *network;
    bool keep;
    bool no_raw;
    struct machine_probe probe;
};

extern struct sweep sweep;

/* For struct option_program: shared. */
extern const struct option_spec sweep_specs[];

/* The end of --help, which every program continues. */
#define SWEEP_EXAMPLES(name, options)                                                                                      \
    "On two machines, in either order:\n"                                                                                  \
    "  B$ " name " --role reflector --send 'udp://239.192.1.2:5002?interface=eth0' \\\n"                                   \
    "       --receive 'udp://239.192.1.1:5001?interface=eth0' --cpu 2\n"                                                   \
    "  A$ " name " --role source --send 'udp://239.192.1.1:5001?interface=eth0' \\\n"                                      \
    "       --receive 'udp://239.192.1.2:5002?interface=eth0' --cpu 2 " options "\n\n"                                     \
    "A hop is half of the way there and back, from when a message was due. Raw is bare UDP multicast in the same run,\n"   \
    "100 ports further (so ports 5101 and 5102 must be free too).\n"

/* Parses the command line and exits with 2 if something is wrong with it. */
void sweep_parse(const struct option_program *program, int argc, char **argv);

/* Moves to the CPU that was asked for, after the source's probe is started. 0, or -1 with the reason on stderr. */
int sweep_pin(const struct option_program *program);

bool sweep_is_source(void);

/* The bare group that belongs to a channel; none if the options say so. */
struct raw_group sweep_raw(const struct option_program *program, const char *channel);

/* What the options come to for the far end. */
struct echo_options sweep_echo_options(const struct option_program *program);

/* -------------------------------------------------------------------------------------------------------------- report */

struct sweep_field {
    const char *object; /* of the JSON, that it is in; NULL: none. Those of one object are neighbours */
    const char *name;   /* in the JSON; NULL: not there */
    int json_decimals;
    const char *head[2]; /* above its column, two lines; NULL: it has none */
    int width;
    int decimals;
    bool worst; /* of the runs the greatest is reported, not the median */
};

/* The fields that every row has after those of its program. */
enum sweep_hop {
    HOP_RATE,
    HOP_RATE_REACHED,
    HOP_SENT,
    HOP_RECEIVED,
    HOP_LOST,
    HOP_DISORDERED,
    HOP_REFUSED,
    HOP_SAMPLES,
    HOP_MEDIAN,
    HOP_P99,
    HOP_RAW_MEDIAN,
    HOP_RAW_P99,
    HOP_RATIO,
    HOP_RATIO_P99,
    HOP_PER_PACKET, /* messages */
    HOP_WAITED_MS,
    HOP_CORES_NS,
    HOP_FIELDS
};

/* Rows of numbers, over all runs; NAN: not measured. A row's fields are its program's own, then those of the hop. */
struct sweep_table {
    const struct sweep_field *fields; /* own ones */
    int field_count;
    int rows;
    double *runs;    /* by row, run and field */
    double *results; /* by row and field */
};

/* The memory of it. 0, or -1 with the reason on stderr; sweep_table_fini() is for both. */
int sweep_table_init(struct sweep_table *table, const struct sweep_field *fields, int field_count, int rows);
void sweep_table_fini(struct sweep_table *table);

/* The fields of a row in one run, and what they come to. */
double *sweep_run(const struct sweep_table *table, int row, uint64_t run);
double *sweep_result(const struct sweep_table *table, int row);

/* Measures a hop at rate (0: flat out) into the fields of it. 0, or -1 with the reason on stderr. */
int sweep_measure_hop(struct source *source, uint64_t rate, double *hop);

/* The whole of the near end: opens a source, measures all rows of the table in all runs by measure(), which returns 0, or -1 with
 * the reason on stderr, and ends the far end; concludes medians, and the worst of what must not happen; prints the table with what
 * it was measured on, and writes the JSON. measured: what a row is, for people. 0, or 1 with the reason on stderr. */
int sweep_source(const struct option_program *program, const struct sweep_table *table,
                 int (*measure)(struct source *source, const struct sweep_table *table), const char *measured);

#endif
