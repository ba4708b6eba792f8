/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles of a process of llm-bench: engine/main.c names them. Each serves until its work is done, and returns
 * the exit status.
 */
#ifndef BENCH_ROLES_H
#define BENCH_ROLES_H

#include "../adapters/adapter.h"
#include "control.h"

typedef int role_run(const struct control *control);

role_run joiners_run, load_run, mute_run, receivers_run, transmitter_run;

/* The two ends of hops and rates, over any adapter: near sends and takes times, far sends back or counts. Opens the adapters, up to two, of
 * which the second needs channels of its own, and serves requests until there are no more. */
int ends_run(const struct control *control, const struct adapter *first, const struct adapter *second);

#endif
