/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outline of a packet: where its runs of messages of one topic begin. A receiver that shares memory with the
 * transmitter reads it instead of the packet, and copies only the runs that it wants (docs/architecture.md).
 */
#ifndef LLI_OUTLINE_H
#define LLI_OUTLINE_H

#include "core/base/types.h"

/* A run, which ends where the next one begins; the last of an outline is empty, at the end of the packet. */
struct lli_outline_run {
    uint32_t topic; /* LLI_OUTLINE_UNFINISHED: any, and its last message continues in the next packet */
    uint16_t at;    /* offset in the packet */
    uint16_t first; /* whole messages of the packet before it */
};

#define LLI_OUTLINE_UNFINISHED UINT32_MAX

/* Longest outline, in runs, including the empty one. */
enum { LLI_OUTLINE_RUNS_MAX = 256 };

/*
 * Makes the outline of a packet; returns its number of runs, including the empty one. 0: the packet has no outline,
 * as it has something besides messages, or the messages of one topic only, or more runs than max.
 */
uint32_t lli_outline_make(const uint8_t *packet, uint32_t size, struct lli_outline_run *runs, uint32_t max);

#endif
