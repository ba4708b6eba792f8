/* SPDX-License-Identifier: Apache-2.0 */
/* The counters files of a directory, read repeatedly. */
#ifndef STAT_WATCH_H
#define STAT_WATCH_H

#include "stat_file.h"

struct stat_source {
    char name[256];        /* of the file in the directory */
    enum stat_fault fault; /* of the latest read; then now has no table */
    int error;             /* errno of STAT_UNREADABLE */
    struct stat_snapshot now;
    struct stat_snapshot before; /* an earlier table, or none */
    bool seen;
};

struct stat_watch {
    const char *directory;
    struct stat_source *sources; /* sorted by name */
    int count;
};

/*
 * Reads all files again. 0, or -1 with errno set: the directory cannot be read. A directory that does not
 * exist is empty.
 */
int stat_watch_look(struct stat_watch *watch);

void stat_watch_fini(struct stat_watch *watch);

/*
 * Removes the files that dead processes left. Returns their number, or -1 as above. EPERM: other users can
 * rename files there.
 */
int stat_watch_clean(const char *directory);

/*
 * Returns the seconds between the two tables of a source; 0 if there are not two, or the context wrote no new
 * one.
 */
double stat_watch_seconds(const struct stat_source *source);

/* Returns the age of the latest table, in seconds. */
double stat_watch_age(const struct stat_source *source);

#endif
