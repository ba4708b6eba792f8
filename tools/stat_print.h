/* SPDX-License-Identifier: Apache-2.0 */
/* Counters as text, as JSON, and in the text format of Prometheus. */
#ifndef STAT_PRINT_H
#define STAT_PRINT_H

#include <stdio.h>

#include "stat_watch.h"

/* Prints name and state of a process: "feed.1234.0 \"name\", alive, up 3 min, written 0.1 s ago". */
void stat_print_title(FILE *to, const struct stat_source *source);

/* Prints all counters that are not zero, for people. */
void stat_print_text(FILE *to, const struct stat_watch *watch);

/* Prints everything, as one JSON object. */
void stat_print_json(FILE *to, const struct stat_watch *watch);

/* Prints the counters of living processes, in the text format 0.0.4 of Prometheus. */
void stat_print_prometheus(FILE *to, const struct stat_watch *watch);

#endif
