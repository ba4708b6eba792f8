/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds-checked access to the bytes of a packet: big-endian integers. A failure is sticky, so that a decoder
 * reads all fields and checks failed once.
 */
#ifndef FEED_CURSOR_H
#define FEED_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

static inline struct reader reader_of(const void *data, size_t size)
{
    return (struct reader){.at = data, .left = size};
}

/* Returns the next size bytes, or NULL. */
static inline const uint8_t *read_bytes(struct reader *reader, size_t size)
{
    const uint8_t *bytes = reader->at;

    if (reader->failed || size > reader->left) {
        reader->failed = true;
        return NULL;
    }
    reader->at += size;
    reader->left -= size;
    return bytes;
}

/* Returns the next big-endian integer of size bytes; 0 after a failure. */
static inline uint64_t read_integer(struct reader *reader, size_t size)
{
    const uint8_t *bytes = read_bytes(reader, size);
    uint64_t value = 0;

    for (size_t i = 0; bytes != NULL && i < size; i++)
        value = value << 8 | bytes[i];
    return value;
}

struct writer {
    uint8_t *at;
    size_t left;
    bool failed;
};

static inline struct writer writer_of(void *data, size_t size)
{
    return (struct writer){.at = data, .left = size};
}

/* Returns room for the next size bytes, or NULL. */
static inline uint8_t *write_bytes(struct writer *writer, size_t size)
{
    uint8_t *bytes = writer->at;

    if (writer->failed || size > writer->left) {
        writer->failed = true;
        return NULL;
    }
    writer->at += size;
    writer->left -= size;
    return bytes;
}

static inline void write_integer(struct writer *writer, size_t size, uint64_t value)
{
    uint8_t *bytes = write_bytes(writer, size);

    for (size_t i = size; bytes != NULL && i > 0; i--) {
        bytes[i - 1] = (uint8_t)value;
        value >>= 8;
    }
}

#endif
