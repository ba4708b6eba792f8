/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bottleneck watch of a context: counts how long the application is away between polls and what holds transmitters, and
 * judges every receiver and transmitter once in an interval (docs/adr/0022). Costs nothing where it does not run.
 */
#ifndef LLI_WATCH_H
#define LLI_WATCH_H

#include <llm/llm.h>

#include "core/base/types.h"


/* Begins, if the options or a counters file ask for it. LLM_EINVAL: watch_ns. */
int lli_watch_open(struct llm_context *context, const struct llm_context_options *options);

/* A poll that began at now is done. */
void lli_watch_polled(struct llm_context *context, lli_ns now);

/* A message of a transmitter is refused: counts it, and for what. */
void lli_watch_refused(struct llm_transmitter *transmitter);

/* What holds a transmitter at this moment. */
enum llm_limit lli_watch_held(const struct llm_transmitter *transmitter);

#endif
