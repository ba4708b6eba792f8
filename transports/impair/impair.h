/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the fault injector. */
#ifndef LLI_IMPAIR_H
#define LLI_IMPAIR_H

#include "transport.h"

/* clang-format off */
#define LLI_IMPAIR_OPTIONS(X)                                                                                                    \
    X(u64, INSTANCE, impair_seed, 1, 0, UINT64_MAX, "seed of every decision")                                                    \
    X(u32, INSTANCE, impair_loss_ppm, 0, 0, 1000000, "packets lost, in parts per million")                                       \
    X(u32, INSTANCE, impair_burst_packets, 1, 1, 1000000, "mean length of a run of losses")                                      \
    X(u32, INSTANCE, impair_duplicate_ppm, 0, 0, 1000000, "packets sent twice")                                                  \
    X(u32, INSTANCE, impair_reorder_ppm, 0, 0, 1000000, "packets delayed until later ones arrived")                              \
    X(u32, INSTANCE, impair_corrupt_ppm, 0, 0, 1000000, "packets with flipped bits or cut short")                                \
    X(u64, INSTANCE, impair_delay_ns, 0, 0, 10000000000, "every received packet is late by a random time up to this")
/* clang-format on */

struct lli_impair_options {
    LLI_IMPAIR_OPTIONS(LLI_OPTION_FIELD)
};

#endif
