/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bottleneck verdict: names what limits a receiver or a transmitter, from the figures of an interval
 * (docs/adr/0022).
 */
#ifndef LLI_BOTTLENECK_H
#define LLI_BOTTLENECK_H

#include <llm/llm.h>

#include "core/base/types.h"

/* Verdict on a receiver, from all figures except `limit` itself. */
enum llm_limit lli_bottleneck_receiver(const struct llm_bottleneck *figures);

/* Verdict on a transmitter, from all figures except `limit` itself. */
enum llm_limit lli_bottleneck_transmitter(const struct llm_bottleneck *figures);

/*
 * Field with the time for which one limit blocked a transmitter; NULL for LLM_LIMIT_NONE and limits without
 * such a field.
 */
uint64_t *lli_bottleneck_blocked(struct llm_bottleneck *figures, enum llm_limit limit);

#endif
