/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizes the packet ranges of a request: sorted, each packet once, bounded. */
#ifndef LLI_RANGES_H
#define LLI_RANGES_H

#include "core/base/types.h"
#include "core/wire/wire.h"

/*
 * Sorts ranges, merges those that overlap or touch, and removes packets before low, empty ranges, and all
 * beyond the first `most` packets. The ranges hold low halves of packet numbers near `near`. Returns the
 * number of ranges left.
 */
uint16_t lli_ranges_merge(struct lli_wire_range *ranges, uint16_t count, lli_seq near, lli_seq low,
                          uint64_t most);

#endif
