/* SPDX-License-Identifier: Apache-2.0 */
/* What limits a receiver or a transmitter: the verdict on the figures of an interval (docs/adr/0022). */
#ifndef LLI_BOTTLENECK_H
#define LLI_BOTTLENECK_H

#include <llm/llm.h>

#include "core/base/types.h"

/* The verdict on a receiver by all figures but its limit. */
enum llm_limit lli_bottleneck_receiver(const struct llm_bottleneck *figures);

/* The same of a transmitter. */
enum llm_limit lli_bottleneck_transmitter(const struct llm_bottleneck *figures);

/* So long a transmitter was held by one of its limits; NONE: nowhere. */
uint64_t *lli_bottleneck_held(struct llm_bottleneck *figures, enum llm_limit limit);

#endif
