/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare AEADs (raw/raw_aead.h): how long sealing and opening a packet takes where packets follow each other. Prints nanoseconds for
 * each call, the median of 1,001 runs of 64 packets, as a table or, with --json, as rows of JSON.
 *
 *   aead [--json]
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llm/llm.h>

#include "../raw/raw_aead.h"

enum {
    AEAD_RING = 64,   /* packets in the ring, so that one is not as warm as a benchmark's only one */
    AEAD_RUNS = 1001, /* of each measurement; the median counts */
    AEAD_STRIDE = 2048,
};

struct aead_packet {
    uint8_t head[RAW_AEAD_HEAD];
    uint8_t body[AEAD_STRIDE - RAW_AEAD_HEAD - RAW_AEAD_TAG];
    uint8_t tag[RAW_AEAD_TAG];
};

static struct aead_packet packets[AEAD_RING];

static const size_t sizes[] = {64, 256, 1472};

enum { AEAD_SIZES = sizeof sizes / sizeof sizes[0] };

struct aead_times {
    double key, seal, open;
};

/* Seals and opens the ring, with the same numbers, and sets a key as often. Sets the times, ns for a call. */
static void aead_run(const struct raw_aead *aead, const uint8_t *key, size_t size, struct aead_times *times)
{
    static uint8_t clear[AEAD_STRIDE];
    const uint64_t begin = llm_clock();
    uint64_t keyed, sealed;

    for (int i = 0; i < AEAD_RING; i++)
        aead->key(aead, key);
    keyed = llm_clock();
    for (unsigned i = 0; i < AEAD_RING; i++)
        aead->seal(i, packets[i].head, packets[i].body, size, packets[i].tag);
    sealed = llm_clock();
    for (unsigned i = 0; i < AEAD_RING; i++)
        aead->open(i, packets[i].head, packets[i].body, size, packets[i].tag, clear);
    *times = (struct aead_times){.key = (double)(keyed - begin) / AEAD_RING,
                                 .seal = (double)(sealed - keyed) / AEAD_RING,
                                 .open = (double)(llm_clock() - sealed) / AEAD_RING};
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof values[0], compare);
    return values[count / 2];
}

static struct aead_times aead_measure(const struct raw_aead *aead, const uint8_t *key, size_t size)
{
    static double keys[AEAD_RUNS], seals[AEAD_RUNS], opens[AEAD_RUNS];
    struct aead_times times;

    for (int i = 0; i < AEAD_RUNS; i++) {
        aead_run(aead, key, size, &times);
        keys[i] = times.key;
        seals[i] = times.seal;
        opens[i] = times.open;
    }
    return (struct aead_times){
        .key = median(keys, AEAD_RUNS), .seal = median(seals, AEAD_RUNS), .open = median(opens, AEAD_RUNS)};
}

static void aead_print(bool json, const struct raw_aead *aead, size_t size, struct aead_times times)
{
    printf(json ? "{\"backend\": \"%s\", \"suite\": \"%s\", \"size_bytes\": %zu, \"seal_ns\": %.1f, "
                  "\"open_ns\": %.1f, \"key_ns\": %.1f}\n"
                : "%-10s %-18s %6zu %9.1f %9.1f %9.1f\n",
           aead->backend, aead->suite, size, times.seal, times.open, times.key);
}

int main(int argc, char **argv)
{
    static const uint8_t key[RAW_AEAD_KEY] = {1, 2, 3};
    const bool json = argc > 1 && strcmp(argv[1], "--json") == 0;

    if (argc > 1 + json) {
        (void)fprintf(stderr, "usage: aead [--json]\n");
        return 2;
    }
    if (!json)
        printf("%-10s %-18s %6s %9s %9s %9s\n", "back end", "suite", "bytes", "seal ns", "open ns", "key ns");
    for (const struct raw_aead *aead = raw_aeads; aead->backend != NULL; aead++)
        for (int i = 0; i < AEAD_SIZES; i++)
            aead_print(json, aead, sizes[i], aead_measure(aead, key, sizes[i]));
    return 0;
}
