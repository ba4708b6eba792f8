/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the fuzzers. Each is one file that defines LLVMFuzzerTestOneInput() and its seeds. Linked with
 * libFuzzer it searches; linked with replay.c it runs its seeds, mutations of them and given files, with any
 * compiler.
 */
#ifndef LLI_FUZZ_H
#define LLI_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Receives one seed. */
typedef void fuzz_emit_fn(void *arg, const uint8_t *data, size_t size);

/* Passes every seed of the fuzzer to emit. */
void fuzz_seeds(fuzz_emit_fn *emit, void *arg);

/* Fails on a violated invariant, in every build: assert() may be disabled. */
#define FUZZ_CHECK(condition)                                                       \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* The input as a stream of numbers, followed by zeros. */
struct fuzz_input {
    const uint8_t *at;
    const uint8_t *end;
};

static inline struct fuzz_input fuzz_input_of(const uint8_t *data, size_t size)
{
    return (struct fuzz_input){.at = data, .end = data == NULL ? NULL : data + size};
}

static inline size_t fuzz_left(const struct fuzz_input *input)
{
    return (size_t)(input->end - input->at);
}

static inline uint8_t fuzz_u8(struct fuzz_input *input)
{
    return input->at == input->end ? 0 : *input->at++;
}

static inline uint16_t fuzz_u16(struct fuzz_input *input)
{
    const unsigned low = fuzz_u8(input);

    return (uint16_t)(low | (unsigned)fuzz_u8(input) << 8);
}

static inline uint32_t fuzz_u32(struct fuzz_input *input)
{
    const uint32_t low = fuzz_u16(input);

    return low | (uint32_t)fuzz_u16(input) << 16;
}

/*
 * Copies the next size bytes, or those left, to a block of exactly that size, so that sanitizers detect
 * overruns.
 */
static inline uint8_t *fuzz_bytes(struct fuzz_input *input, size_t size, size_t *got)
{
    uint8_t *copy;

    *got = size < fuzz_left(input) ? size : fuzz_left(input);
    copy = malloc(*got == 0 ? 1 : *got);
    FUZZ_CHECK(copy != NULL);
    if (*got > 0)
        memcpy(copy, input->at, *got);
    input->at += *got;
    return copy;
}

/* Reads every byte, so that a sanitizer detects inaccessible ones. */
static inline void fuzz_touch(const void *data, size_t size)
{
    static volatile uint8_t sum;
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + bytes[i]);
}

#endif
