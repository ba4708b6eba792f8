/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key file: the epochs of group keys, a line each, see docs/security.md. This parses and writes its text; the
 * file itself is read by security/key_reader.h. The text is not trusted: a damaged one is refused with the line
 * and the remedy, and no part of a key is ever in a fault.
 */
#ifndef LLI_KEY_FILE_H
#define LLI_KEY_FILE_H

#include "core/base/types.h"

enum {
    LLI_KEY_BYTES = 32,        /* of a key of an epoch */
    LLI_KEY_EPOCHS_MAX = 64,   /* epochs in a file */
    LLI_KEY_PATTERN_MAX = 127, /* bytes of a pattern */
    LLI_KEY_FILE_MAX = 32768,  /* bytes of a file */
    LLI_KEY_LINE_MAX = 256,    /* bytes of a line that lli_key_put() writes, with its end */
    LLI_KEY_TIME_MAX = 24,     /* bytes of a time as text, with its end */
};

/* Seconds since 1970, UTC. */
typedef uint64_t lli_key_time;

/* Last second of the year 9999. */
#define LLI_KEY_TIME_LAST ((lli_key_time)253402300799)

/* X(id, name, bytes of the cipher's key). The ids are in packets and never change. */
#define LLI_KEY_SUITES(X)                \
    X(1, AES_128_GCM, "aes-128-gcm", 16) \
    X(2, AES_256_GCM, "aes-256-gcm", 32) \
    X(3, CHACHA20_POLY1305, "chacha20-poly1305", 32)

enum lli_key_suite {
#define LLI_KEY_SUITE_ID(id, symbol, name, bytes) LLI_KEY_##symbol = (id),
    LLI_KEY_SUITES(LLI_KEY_SUITE_ID)
#undef LLI_KEY_SUITE_ID
};

struct lli_key_epoch {
    uint16_t id; /* not 0 */
    enum lli_key_suite suite;
    uint32_t line;                         /* in the file */
    lli_key_time from;                     /* senders use it from this second on ... */
    lli_key_time until;                    /* ... and before this one */
    uint8_t key[LLI_KEY_BYTES];            /* secret */
    char pattern[LLI_KEY_PATTERN_MAX + 1]; /* of the channels that it is for */
};

struct lli_key_file {
    uint32_t count;
    struct lli_key_epoch epochs[LLI_KEY_EPOCHS_MAX];
};

/* A fault of a file. */
struct lli_key_fault {
    uint32_t line;    /* 0: the file as a whole */
    const char *text; /* what is wrong, and what would be right */
    char value[32];   /* the offending field, cut; empty if there is none, or if it is a key */
};

/* Returns the name of a suite; NULL: there is no such suite. */
const char *lli_key_suite_name(enum lli_key_suite suite);

/* Returns the suite of a name of so many bytes; 0: there is none. */
enum lli_key_suite lli_key_suite_find(const char *name, size_t size);

/* Returns the bytes of the key of its cipher. */
size_t lli_key_suite_bytes(enum lli_key_suite suite);

/* Parses the text of a file. False, with the fault filled and the file wiped: it is not a valid one. */
bool lli_key_parse(const char *text, size_t size, struct lli_key_file *file, struct lli_key_fault *fault);

/* Writes the line of an epoch, with its end and a zero byte; returns its size without the zero byte. */
size_t lli_key_put(char line[LLI_KEY_LINE_MAX], const struct lli_key_epoch *epoch);

/* Writes a time as 2026-11-25T10:00:00Z. */
void lli_key_put_time(char text[LLI_KEY_TIME_MAX], lli_key_time time);

/* True if a pattern, in which each * stands for any text, matches a name. */
bool lli_key_matches(const char *pattern, const char *name);

/*
 * Returns the epoch with which a channel of this name sends at a time: of those that match and are valid, the one that
 * began last. NULL: there is none; then next is the matching one that begins next, or NULL, and last the one that
 * ended last, or NULL.
 */
const struct lli_key_epoch *lli_key_current(const struct lli_key_file *file, const char *name,
                                            lli_key_time now, const struct lli_key_epoch **next,
                                            const struct lli_key_epoch **last);

/* Overwrites memory, in a way that is not optimised out. */
void lli_key_wipe(void *memory, size_t size);

#endif
