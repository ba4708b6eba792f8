/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end of the throughput benchmark: as many messages as go without loss, and the same packets bare. */
#ifndef BENCH_PUMP_H
#define BENCH_PUMP_H

#include <stdint.h>

#include "peer.h"
#include "raw.h"

struct pump_options {
    struct peer_channels channels;
    struct raw_group raw; /* without an address: there is no raw measurement */
    size_t header_bytes;  /* before the payload of a packet, from the IP header on */
    uint64_t size_max;    /* of the messages of all rows */
    uint64_t duration_ns; /* of a try, and of the raw measurement */
    uint64_t messages;    /* measured in a try instead, if not 0 */
    uint64_t batch;       /* messages between two polls */
    uint64_t patience_ns; /* with a receiver that does not answer */
};

struct pump_result {
    uint64_t sent; /* measured messages, those for warming up aside */
    uint64_t received;
    uint64_t lost; /* or not what was sent; warming up included, as the following */
    uint64_t disordered;
    uint64_t repaired_packets;
    uint64_t waited_ns;       /* of both ends, for their cores */
    int tries;                /* 1: nothing was lost flat out */
    double messages_per_s;    /* received */
    double wire_share;        /* payload as a share of what the packets take on Ethernet */
    double packet_bytes_mean; /* payload of a packet */
    double transmitter_kernel; /* share of the time that it spent in the kernel */
    double receiver_kernel;
    double transmitter_mib;   /* resident */
    double receiver_mib;
    double raw_gbit_per_s[RAW_WAYS]; /* NAN if not measured */
};

struct pump {
    struct peer peer;
    const struct pump_options *options;
    uint8_t *pattern; /* byte i is i modulo 256 */
    struct raw_end *raw; /* NULL: there is no raw measurement */
};

/* Opens everything and waits for the receiver. 0, or -1 with the reason on stderr; pump_close() is for both. */
int pump_open(struct pump *pump, const struct pump_options *options);
void pump_close(struct pump *pump);

/* Measures messages of size bytes, on one topic unless peer_use_topics() said otherwise. 0, or -1 with the reason on stderr if
 * the receiver stopped answering. */
int pump_measure(struct pump *pump, uint64_t size, struct pump_result *result);

#endif
