/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "stat_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "system/owned.h"
#include "observe/stats_sweep.h"

enum { WATCH_FILES_MAX = 1000, WATCH_BYTES_MAX = 128 << 20 /* of all tables */ };

static int watch_compare(const void *a, const void *b)
{
    return strcmp(((const struct stat_source *)a)->name, ((const struct stat_source *)b)->name);
}

/* Finds or adds the source of a file. NULL: no memory, or too many. */
static struct stat_source *watch_source(struct stat_watch *watch, const char *name)
{
    struct stat_source *sources;

    for (int i = 0; i < watch->count; i++)
        if (strcmp(watch->sources[i].name, name) == 0)
            return &watch->sources[i];
    if (watch->count == WATCH_FILES_MAX)
        return NULL;
    sources = realloc(watch->sources, (size_t)(watch->count + 1) * sizeof *sources);
    if (sources == NULL)
        return NULL;
    watch->sources = sources;
    sources[watch->count] = (struct stat_source){.fault = STAT_EMPTY};
    (void)snprintf(sources[watch->count].name, sizeof sources->name, "%s", name);
    return &sources[watch->count++];
}

/* Returns the bytes that the next table may have: the limit less the tables in memory. */
static size_t watch_room(const struct stat_watch *watch)
{
    size_t used = 0;

    for (int i = 0; i < watch->count; i++)
        used += watch->sources[i].now.size + watch->sources[i].before.size;
    if (used >= WATCH_BYTES_MAX)
        return 0;
    return WATCH_BYTES_MAX - used < STAT_TABLE_MAX ? WATCH_BYTES_MAX - used : STAT_TABLE_MAX;
}

static void watch_read(struct stat_source *source, int directory, size_t room)
{
    const int fd = openat(directory, source->name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    struct stat_snapshot now = {.bytes = NULL};

    source->fault = fd < 0 ? STAT_UNREADABLE : stat_read(fd, room, &now);
    source->error = errno;
    source->seen = true;
    if (fd >= 0)
        close(fd);
    /* Another process than before may have the name now. */
    if (source->fault != STAT_OK || source->now.header.started_at != now.header.started_at)
        stat_free(&source->before);
    if (source->fault == STAT_OK && source->now.bytes != NULL &&
        source->now.header.started_at == now.header.started_at &&
        source->now.header.sequence != now.header.sequence) {
        stat_free(&source->before);
        source->before = source->now;
        source->now = (struct stat_snapshot){.bytes = NULL};
    }
    stat_free(&source->now);
    source->now = now;
}

/* Removes the sources of files that are gone. */
static void watch_forget(struct stat_watch *watch)
{
    int remaining = 0;

    for (int i = 0; i < watch->count; i++) {
        if (watch->sources[i].seen) {
            watch->sources[remaining++] = watch->sources[i];
            continue;
        }
        stat_free(&watch->sources[i].now);
        stat_free(&watch->sources[i].before);
    }
    watch->count = remaining;
}

int stat_watch_look(struct stat_watch *watch)
{
    DIR *directory = opendir(watch->directory);
    struct stat_source *source;
    struct dirent *entry;

    for (int i = 0; i < watch->count; i++)
        watch->sources[i].seen = false;
    if (directory == NULL && errno != ENOENT)
        return -1;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.' || (source = watch_source(watch, entry->d_name)) == NULL)
            continue;
        watch_read(source, dirfd(directory), watch_room(watch));
        /* The context was closed between listing and opening of the file. */
        if (source->fault == STAT_UNREADABLE && source->error == ENOENT)
            source->seen = false;
    }
    if (directory != NULL)
        closedir(directory);
    watch_forget(watch);
    if (watch->count > 0)
        qsort(watch->sources, (size_t)watch->count, sizeof *watch->sources, watch_compare);
    return 0;
}

void stat_watch_fini(struct stat_watch *watch)
{
    for (int i = 0; i < watch->count; i++) {
        stat_free(&watch->sources[i].now);
        stat_free(&watch->sources[i].before);
    }
    free(watch->sources);
    *watch = (struct stat_watch){.directory = watch->directory};
}

int stat_watch_clean(const char *path)
{
    const int directory = lli_owned_directory(path);
    int removed;

    if (directory < 0)
        return errno == ENOENT ? 0 : -1;
    removed = lli_stats_clean(directory);
    close(directory);
    return removed;
}

double stat_watch_seconds(const struct stat_source *source)
{
    if (source->before.bytes == NULL || source->now.bytes == NULL ||
        source->now.table.clock_at <= source->before.table.clock_at)
        return 0;
    return (double)(source->now.table.clock_at - source->before.table.clock_at) / 1e9;
}

double stat_watch_age(const struct stat_source *source)
{
    struct timespec now;
    double age;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    age = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)source->now.table.written_at / 1e9;
    return age < 0 ? 0 : age;
}
