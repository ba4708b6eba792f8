/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes came in windows of time: the mean rate, and the most that any window of 1 ms, 10 ms and 1 s
 * had.
 */
#ifndef BENCH_WINDOWS_H
#define BENCH_WINDOWS_H

#include <stddef.h>
#include <stdint.h>

struct windows_entry {
    uint64_t at;
    uint64_t bytes;
};

struct windows {
    struct windows_entry *entries;
    size_t count;
    size_t capacity;
};

/* Ends the program without memory. */
void windows_init(struct windows *windows, size_t capacity);

/* Entries beyond the capacity are dropped. */
static inline void windows_add(struct windows *windows, uint64_t at, uint64_t bytes)
{
    if (windows->count < windows->capacity)
        windows->entries[windows->count++] = (struct windows_entry){.at = at, .bytes = bytes};
}

/* Sorts the entries by time and writes an object: bytes; bytes_per_s, the mean from the first to the last; for each window the most
 * bytes a second that one had, wherever it begins; and bins, how many entries there are in each 10 ms from begun_at, the first, on. */
void windows_json(const char *key, struct windows *windows);

#endif
