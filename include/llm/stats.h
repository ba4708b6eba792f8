/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters file: a context with the option stats_directory writes it for other processes to read, while
 * it runs and after it died. llm-stat(1) reads it; any program may, with no more than this header and
 * pread().
 *
 * A file is DIRECTORY/PROGRAM.PID.N, one for each context of a process; N counts them from 0. Its writer
 * holds a write lock on it (fcntl, F_OFD_SETLK) for as long as it lives, and removes it when the context is
 * closed. A file without a lock was left by a process that died, and has the last table that it wrote. Such a
 * file, and no other, may be removed: PROGRAM (characters other than letters, digits, _ and - replaced by _)
 * and PID are those of the header, in any version of the format.
 *
 * A file has a header and two tables, which are written alternately. To read one:
 *
 *   1. Read the header. Go on only if magic and version are those below.
 *   2. Read the table at table_at[sequence & 1], table_bytes long.
 *   3. Read sequence again. If it changed, the table may have been overwritten meanwhile: begin again.
 *
 * So a table is never torn, not even if the writer was killed while writing the other one. No byte of a file
 * is to be trusted: compare counts with their bounds; texts may lack their terminating zero.
 *
 * A table is struct llm_stats_table, then objects_max of struct llm_stats_object, rows_max of struct
 * llm_stats_row, rows_max values (uint64_t, in the order of the rows) and histograms_max of struct
 * llm_stats_histogram; of each, only as many are valid as the table says. Numbers have the byte order of the
 * host; everything is aligned to 8 bytes.
 */
#ifndef LLM_STATS_H
#define LLM_STATS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLM_STATS_MAGIC "llmstats"
#define LLM_STATS_VERSION 1u

/* Conventional directory of counters files; the default of llm-stat. */
#define LLM_STATS_DIRECTORY "/dev/shm/llm-stat"

struct llm_stats_file {
    char magic[8];        /* LLM_STATS_MAGIC, without its terminating zero */
    uint32_t version;     /* LLM_STATS_VERSION */
    uint32_t pid;         /* of the writer, in its own namespace */
    uint64_t started_at;  /* time of opening the context: CLOCK_REALTIME, ns */
    uint64_t interval_ns; /* time between two tables */
    uint64_t table_at[2]; /* offsets of the tables in the file */
    uint64_t table_bytes;
    uint32_t objects_max;
    uint32_t rows_max;
    uint32_t histograms_max;
    uint32_t unused; /* 0 */
    char program[64];
    char name[64];     /* of the context: its stats_name, or empty */
    uint64_t sequence; /* tables completed; table sequence & 1 is the latest. 0: none yet */
};

struct llm_stats_table {
    uint64_t written_at; /* CLOCK_REALTIME, ns */
    uint64_t clock_at;   /* the same moment on CLOCK_MONOTONIC: use differences of this one for rates */
    uint64_t dropped;    /* rows and histograms for which there was no space */
    uint32_t objects;
    uint32_t rows;
    uint32_t histograms;
    uint32_t unused; /* 0 */
};

/* X(name, number, text): the numbers are stable. */
#define LLM_STATS_KINDS(X)           \
    X(CONTEXT, 0, "context")         \
    X(TRANSPORT, 1, "transport")     \
    X(TRANSMITTER, 2, "transmitter") \
    X(MEMBER, 3, "member")           \
    X(RECEIVER, 4, "receiver")       \
    X(SESSION, 5, "session")         \
    X(LISTENER, 6, "listener")       \
    X(TOPIC, 7, "topic")             \
    X(STORE, 8, "store")             \
    X(FAILOVER, 9, "failover")

/*
 * MEMBER: a receiver known to a transmitter; SESSION: one followed by a receiver; TOPIC: of a transmitter or
 * a session. Each follows its parent.
 */
enum llm_stats_kind {
#define LLM_STATS_KIND_ENUM(name, number, text) LLM_STATS_##name = number,
    LLM_STATS_KINDS(LLM_STATS_KIND_ENUM)
#undef LLM_STATS_KIND_ENUM
};

struct llm_stats_object {
    uint32_t kind;   /* of enum llm_stats_kind; skip unknown kinds */
    uint32_t parent; /* index of an object before it; its own index: no parent */
    /*
     * Transmitter, session: the session's identity; receiver, member: the receiver's; topic: its number in
     * the session; else 0.
     */
    uint64_t id;
    char label[240]; /* channel, scheme of a transport, or name of a topic; else empty */
};

enum llm_stats_type {
    LLM_STATS_COUNTER = 0, /* only grows */
    LLM_STATS_GAUGE = 1,
};

struct llm_stats_row {
    uint32_t object; /* index of its object */
    uint32_t type;   /* of enum llm_stats_type */
    char name[40];   /* docs/statistics.md lists all */
};

/*
 * Buckets of a histogram: one for each value below 64, then 32 for each power of two, so that a bucket is at
 * most 1/32 of its value wide. The last one takes values of 2^36 (69 s) and more.
 */
#define LLM_STATS_BUCKETS 1024

struct llm_stats_histogram {
    uint32_t object; /* index of its object */
    uint32_t unused; /* 0 */
    char name[40];   /* ends with its unit: "submit_wire_ns", "burst_packets" */
    uint64_t count;  /* number of samples */
    uint64_t sum;    /* of the samples' values */
    uint64_t max;
    uint64_t buckets[LLM_STATS_BUCKETS];
};

/* Returns the bucket of a value. */
static inline uint32_t llm_stats_bucket(uint64_t value)
{
    uint32_t shift = 0;

    if (value >> 36 != 0)
        return LLM_STATS_BUCKETS - 1;
    if (value >= 64)
        shift = 58 - (uint32_t)__builtin_clzll(value);
    return shift * 32 + (uint32_t)(value >> shift);
}

/* Returns the greatest value of a bucket. */
static inline uint64_t llm_stats_bucket_last(uint32_t bucket)
{
    const uint32_t shift = bucket < 64 ? 0 : bucket / 32 - 1;

    return (((uint64_t)bucket - shift * 32 + 1) << shift) - 1;
}

#ifdef __cplusplus
}
#endif

#endif
