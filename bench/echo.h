/* SPDX-License-Identifier: Apache-2.0 */
/* The far end of the hop: sends back what it receives, through the library or bare, as the source asks. */
#ifndef BENCH_ECHO_H
#define BENCH_ECHO_H

#include <stdbool.h>

#include "load.h"
#include "peer.h"
#include "raw.h"

/* The values of the answer to PEER_END. */
enum echo_value { ECHO_RECEIVED, ECHO_LOST, ECHO_DISORDERED, ECHO_REFLECTED, ECHO_REFUSED, ECHO_WAITED_NS };

/* The values of the answer to PEER_LOAD: of the load before, and whether there is now what was asked for. */
enum echo_load_value { ECHO_LOAD_FAILED, ECHO_LOAD_RECEIVED, ECHO_LOAD_CPU_NS, ECHO_LOAD_NS };

struct echo_options {
    struct peer_channels channels;
    struct raw_group raw_send; /* without an address: raw measurements are not served */
    struct raw_group raw_receive;
    struct load *load; /* that receives; NULL: there is none */
    bool keep; /* serve one source after the other, without an end */
};

/* Serves until the source has said that it is done. 0, or 1 with the reason on stderr. */
int echo_run(const struct echo_options *options);

#endif
