/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The near end of the hop: sends at a steady rate, takes the time of what the reflector sends back, and does the same bare.
 */
#ifndef BENCH_SOURCE_H
#define BENCH_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "peer.h"
#include "raw.h"

struct source_options {
    struct peer_channels channels;
    struct raw_group raw_send; /* without an address: there is no raw measurement */
    struct raw_group raw_receive;
    bool reflect_all;
    uint64_t size_max;       /* of the messages of all rows */
    uint64_t samples_per_s;
    uint64_t duration_ns;    /* of a row, without warming up and without the raw measurement */
    uint64_t patience_ns;    /* with a reflector that does not answer */
};

/* What one measured row came to. */
struct source_counts {
    uint64_t sent; /* measured messages, those for warming up aside */
    uint64_t received;
    uint64_t lost; /* on the way there and on the way back, warming up included */
    uint64_t disordered;
    uint64_t refused; /* that the reflector could not send back */
    uint64_t waited_ns; /* of both ends, for their cores */
    double rate_reached; /* of the slowest block */
    uint64_t messages;   /* that the transmitter packed, warming up included */
    uint64_t packets;    /* into so many */
};

struct source {
    struct peer peer;
    const struct source_options *options;
    struct histogram rtt;       /* from the time due, of the last row */
    struct histogram submitted; /* from the time of the send, of the last row */
    struct histogram raw;       /* from the time due, bare, of the last row */
    bool raw_is_packed;         /* several messages a datagram, in the last row */
    uint64_t returned;          /* messages that came back in the current measurement */
    struct raw_end *raw_send; /* NULL: there is no raw measurement */
    struct raw_end *raw_receive;
    char *message;
    char *raw_messages; /* as many as one call takes */
};

/* Opens everything and waits for the reflector; 0, or -1 with the reason on
 * stderr; source_close() is for both. */
int source_open(struct source *source, const struct source_options *options);
void source_close(struct source *source);

/* Measures messages of size bytes at rate a second (0: flat out), libllm and bare in turns; on one topic unless
 * peer_use_topics() said otherwise. 0, or -1 if the reflector stopped answering. */
int source_measure(struct source *source, uint64_t size, uint64_t rate, struct source_counts *counts);

#endif
