/* SPDX-License-Identifier: Apache-2.0 */
/* Counters as text, as JSON, and as Prometheus has them. */
#ifndef STAT_PRINT_H
#define STAT_PRINT_H

#include <stdio.h>

#include "stat_watch.h"

/* Name and state of a process: "feed.1234.0 \"name\", alive, up 3 min, written 0.1 s ago". */
void stat_print_title(FILE *to, const struct stat_source *source);

/* All counters that are not zero, for people. */
void stat_print_text(FILE *to, const struct stat_watch *watch);

/* Everything, as one JSON object. */
void stat_print_json(FILE *to, const struct stat_watch *watch);

/* The living, in the text format 0.0.4 of Prometheus. */
void stat_print_prometheus(FILE *to, const struct stat_watch *watch);

#endif
