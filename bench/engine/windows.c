/* SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#include <math.h>
#include <stdlib.h>

#include "steady.h"

static const struct {
    const char *name;
    uint64_t ns;
} windows_all[] = {
    {"bytes_per_s_1ms_max", 1000000}, {"bytes_per_s_10ms_max", 10000000}, {"bytes_per_s_1s_max", 1000000000}};

#define WINDOWS_BIN_NS 10000000ull

void windows_init(struct windows *windows, size_t capacity)
{
    *windows =
        (struct windows){.entries = control_memory(capacity, sizeof *windows->entries), .capacity = capacity};
}

static int windows_compare(const void *a, const void *b)
{
    const struct windows_entry *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* The most bytes in any window that ends with an entry, which is no less than in any other. */
static uint64_t windows_most(const struct windows *windows, uint64_t ns)
{
    uint64_t bytes = 0, most = 0;
    size_t first = 0;

    for (size_t i = 0; i < windows->count; i++) {
        bytes += windows->entries[i].bytes;
        while (windows->entries[i].at - windows->entries[first].at >= ns)
            bytes -= windows->entries[first++].bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void windows_json_bins(const struct windows *windows)
{
    uint64_t count = 0, end = windows->count > 0 ? windows->entries[0].at + WINDOWS_BIN_NS : 0;

    json_counts((struct json_count[]){
        {"begun_at", end - (end > 0 ? WINDOWS_BIN_NS : 0)}, {"bin_ns", WINDOWS_BIN_NS}, {NULL, 0}});
    json_begin("bins", '[');
    for (size_t i = 0; i < windows->count; i++, count++)
        for (; windows->entries[i].at >= end; end += WINDOWS_BIN_NS, count = 0)
            json_number(NULL, (double)count);
    json_end(']');
}

void windows_json(const char *key, struct windows *windows)
{
    uint64_t bytes = 0, ns = 0;

    qsort(windows->entries, windows->count, sizeof *windows->entries, windows_compare);
    for (size_t i = 0; i < windows->count; i++)
        bytes += windows->entries[i].bytes;
    if (windows->count > 1)
        ns = windows->entries[windows->count - 1].at - windows->entries[0].at;
    json_begin(key, '{');
    json_number("bytes", (double)bytes);
    json_number("bytes_per_s", ns > 0 ? (double)bytes * 1e9 / (double)ns : (double)NAN);
    for (size_t i = 0; i < sizeof windows_all / sizeof windows_all[0]; i++)
        json_number(windows_all[i].name,
                    ns >= windows_all[i].ns
                        ? (double)windows_most(windows, windows_all[i].ns) * 1e9 / (double)windows_all[i].ns
                        : (double)NAN);
    windows_json_bins(windows);
    json_end('}');
}
