/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bottleneck watch of a context measures how long the application is away between polls and what blocks
 * transmitters, and determines the bottleneck of every receiver and transmitter once in an interval
 * (docs/adr/0022). Costs nothing where it does not run.
 */
#ifndef LLI_WATCH_H
#define LLI_WATCH_H

#include <llm/llm.h>

#include "core/base/types.h"

/* Starts the watch, if the options or a counters file ask for it. LLM_EINVAL: watch_ns. */
int lli_watch_open(struct llm_context *context, const struct llm_context_options *options);

/* Records a poll that began at now and is over. */
void lli_watch_polled(struct llm_context *context, lli_ns now);

/* Counts a refused message, by the limit that refused it. */
void lli_watch_refused(struct llm_transmitter *transmitter);

/* Returns the limit that blocks a transmitter now. */
enum llm_limit lli_watch_blocked(const struct llm_transmitter *transmitter);

#endif
