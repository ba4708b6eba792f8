/* SPDX-License-Identifier: Apache-2.0 */
/* The far end of the hop: sends back what it receives, through the library or bare, as the source asks. */
#ifndef BENCH_ECHO_H
#define BENCH_ECHO_H

#include <stdbool.h>

#include "peer.h"
#include "raw.h"

/* The values of the answer to PEER_END. */
enum echo_value { ECHO_RECEIVED, ECHO_LOST, ECHO_DISORDERED, ECHO_REFLECTED, ECHO_REFUSED, ECHO_WAITED_NS };

struct echo_options {
    struct peer_channels channels;
    struct raw_group raw_send; /* without an address: raw measurements are not served */
    struct raw_group raw_receive;
    bool keep; /* serve one source after the other, without an end */
};

/* Serves until the source has said that it is done. 0, or 1 with the reason on stderr. */
int echo_run(const struct echo_options *options);

#endif
