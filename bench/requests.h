/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and replies, measured: what both ends agree on, and bare UDP from one host to the other beside them. */
#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

enum requests_kind {
    REQUESTS_HELLO = 1, /* the reply is text: what machine the other end is */
    REQUESTS_START,     /* a measurement follows */
    REQUESTS_END,       /* it is over; the reply is a struct requests_result */
    REQUESTS_RAW,       /* the same is measured bare, at once after the reply */
    REQUESTS_RAW_END,   /* in a bare datagram: it is over */
    REQUESTS_WARMUP,    /* comes back as it is, as the next */
    REQUESTS_DATA,      /* ... and is measured */
};

/* How requests, replies to those that are measured, and bare datagrams begin. Both ends have the same byte order. */
struct requests_head {
    uint64_t due_at; /* 0: its time is not taken */
    uint32_t kind;
    uint32_t unused;
};

struct requests_result {
    uint64_t refused;   /* replies that could not be sent */
    uint64_t waited_ns; /* for the core */
};

/* Bare datagrams go this many ports further. */
#define REQUESTS_RAW_PORT_OFFSET 100

/*
 * A socket that is connected to the host and port of a channel, that much further, or bound to it; it never waits. -1 with the
 * reason on stderr. The host is numeric, and one host.
 */
int requests_raw_open(const char *channel, bool bound);

/*
 * The far end: listens on the channel and replies, until whoever connected is gone; then, with keep, to the next one. 0, or 1
 * with the reason on stderr. raw: whether bare datagrams are answered as well.
 */
int requests_answer(const char *channel, bool keep, bool raw);

#endif
