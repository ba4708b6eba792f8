/* SPDX-License-Identifier: Apache-2.0 */
/* Roles of a process of llm-bench: engine/main.c names them. Each serves until its work is done, and returns the exit status. */
#ifndef BENCH_ROLES_H
#define BENCH_ROLES_H

#include "control.h"

typedef int role_run(const struct control *control);

role_run assured_transmit, assured_receive, destinations_transmit, destinations_receive, join_all, kept_run, load_run, rate_transmit,
    rate_receive, rate_half, stream_transmit, stream_receive, stream_mute, watch_transmit, watch_receive;

#endif
