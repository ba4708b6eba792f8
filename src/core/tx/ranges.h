/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of packets as a request names them, made into what there is to do: in order, each packet once, not too many. */
#ifndef LLI_RANGES_H
#define LLI_RANGES_H

#include "core/base/types.h"
#include "core/wire/wire.h"

/*
 * Sorts ranges, merges those that overlap or touch, and leaves out what lies before low, what is empty and what is beyond the
 * first `most` packets. `near` is a packet number that their low halves are nearest to. Returns how many ranges are left.
 */
uint16_t lli_ranges_merge(struct lli_wire_range *ranges, uint16_t count, lli_seq near, lli_seq low, uint64_t most);

#endif
