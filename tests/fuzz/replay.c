/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzzer without libFuzzer: its seeds, the same random mutations of each every time, and the files it
 * is given.
 *
 *   replay_X [--mutations N] [FILE|DIRECTORY...]
 *   replay_X --write DIRECTORY      writes the seeds there, one file each, as the first corpus of a fuzzer
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

enum { REPLAY_SIZE_MAX = 65536, REPLAY_MUTATIONS = 20000 };

struct replay {
    const char *directory; /* directory to which seeds are written */
    unsigned long mutations;
    unsigned seeds;
    unsigned long inputs;
    uint64_t random;
};

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t replay_random(struct replay *replay)
{
    uint64_t z = (replay->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void replay_write(void *arg, const uint8_t *data, size_t size)
{
    struct replay *replay = arg;
    char path[4096];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/seed-%02u", replay->directory, replay->seeds++);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
}

/* Makes one small change; returns the new size. */
static size_t replay_mutate(struct replay *replay, uint8_t *data, size_t size)
{
    const uint64_t random = replay_random(replay);
    const size_t at = size == 0 ? 0 : (size_t)(random >> 16) % size;
    const size_t length = size == 0 ? 0 : (size_t)(random >> 40) % 16 % (size - at) + 1;

    switch (random % 6) {
    case 0: /* flips a bit */
        if (size > 0)
            data[at] ^= (uint8_t)(1u << (random >> 8 & 7));
        return size;
    case 1: /* sets a byte, often to a value that overflows */
        if (size > 0)
            data[at] = (uint8_t)(random & 64 ? 0u - (random >> 8 & 1) : random >> 8);
        return size;
    case 2: /* truncates the end */
        return at;
    case 3: /* removes some bytes */
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 4: /* repeats some bytes */
        if (size + length > REPLAY_SIZE_MAX)
            return size;
        memmove(data + at + length, data + at, size - at);
        return size + length;
    default: /* appends noise */
        for (size_t i = 0; i < 8 && size < REPLAY_SIZE_MAX; i++)
            data[size++] = (uint8_t)(replay_random(replay) >> 32);
        return size;
    }
}

static void replay_input(void *arg, const uint8_t *data, size_t size)
{
    struct replay *replay = arg;
    static uint8_t changed[REPLAY_SIZE_MAX];

    replay->seeds++;
    replay->inputs++;
    (void)LLVMFuzzerTestOneInput(data, size);
    for (unsigned long i = 0; i < replay->mutations; i++) {
        size_t changed_size = size < sizeof changed ? size : sizeof changed;

        memcpy(changed, data, changed_size);
        for (uint64_t changes = 1 + replay_random(replay) % 4; changes > 0; changes--)
            changed_size = replay_mutate(replay, changed, changed_size);
        (void)LLVMFuzzerTestOneInput(changed, changed_size);
        replay->inputs++;
    }
}

static void replay_file(struct replay *replay, const char *path)
{
    static uint8_t data[REPLAY_SIZE_MAX];
    FILE *file = fopen(path, "rb");
    size_t size;

    if (file == NULL) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    replay_input(replay, data, size);
}

static void replay_path(struct replay *replay, const char *path)
{
    struct dirent *entry;
    char inner[4096];
    DIR *directory = opendir(path);

    if (directory == NULL) {
        replay_file(replay, path);
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        replay_file(replay, inner);
    }
    (void)closedir(directory);
}

int main(int argc, char **argv)
{
    struct replay replay = {.mutations = REPLAY_MUTATIONS, .random = 1};
    int i = 1;

    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        replay.directory = argv[2];
        fuzz_seeds(replay_write, &replay);
        return EXIT_SUCCESS;
    }
    if (argc > 2 && strcmp(argv[1], "--mutations") == 0) {
        replay.mutations = strtoul(argv[2], NULL, 10);
        i = 3;
    }
    fuzz_seeds(replay_input, &replay);
    for (; i < argc; i++)
        replay_path(&replay, argv[i]);
    printf("%u seeds, %lu inputs\n", replay.seeds, replay.inputs);
    return EXIT_SUCCESS;
}
