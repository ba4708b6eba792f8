/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving end of the throughput benchmark: counts, and tells the transmitter what it counted. */
#ifndef BENCH_SINK_H
#define BENCH_SINK_H

#include <stdbool.h>

#include "peer.h"
#include "raw.h"

struct sink_options {
    struct peer_channels channels;
    struct raw_group raw; /* without an address: raw measurements are not served */
    bool keep;            /* serve one transmitter after the other, without an end */
};

/* The request PEER_START has the size of the messages. These are the values of the answer to PEER_END. */
enum sink_value { SINK_RECEIVED, SINK_LOST, SINK_DISORDERED, SINK_NS, SINK_RESIDENT_KIB, SINK_WAITED_NS, SINK_KERNEL_NS, SINK_VALUES };

/* The values of the answer to PEER_RESULT. The request PEER_RAW has whether the blast is segmented. */
enum sink_raw_value { SINK_RAW_BYTES, SINK_RAW_NS };

/* Serves until the transmitter has said that it is done. 0, or 1 with the reason on stderr. */
int sink_run(const struct sink_options *options);

#endif
