/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration and memory of the receivers that are fuzzed. */
#ifndef LLI_FUZZ_RX_H
#define LLI_FUZZ_RX_H

#include "core/rx/rx_session.h"
#include "fuzz.h"

enum { WINDOW = 64, MESSAGE_MAX = 4096, REORDER_BYTES = 65536 };

#define START (((uint64_t)1 << 32) + 0xfffffff0u) /* first packet of a session; wraps soon */

static inline struct lli_rx_config fuzz_rx_config(void)
{
    return (struct lli_rx_config){
        .receiver = 77,
        .window_packets = WINDOW,
        .message_bytes_max = MESSAGE_MAX,
        .nak_receivers_immediate = 8,
        .nak_backoff_min = 50000,
        .nak_retry_min = 50000,
        .nak_retry_max = 50000000,
        .nak_giveup = 1000000000,
        .status = 100000000,
        .silence = 500000000,
        .timeout = 2000000000,
        .address = {.size = 7, .bytes = {4, 127, 0, 0, 1, 1, 1}},
    };
}

/* Places what a world needs, the first time without memory: then the arenas only measure. */
typedef void fuzz_place_fn(void *world, struct lli_arena arenas[2]);

/* Places it in memory that is the same, and zero, for each input. */
static inline void fuzz_place(fuzz_place_fn *place, void *world)
{
    static void *memory[2];
    static size_t size[2];
    struct lli_arena arenas[2] = {{.memory = NULL}, {.memory = NULL}};

    if (memory[0] == NULL)
        place(world, arenas);
    for (int i = 0; i < 2; i++) {
        if (memory[i] == NULL) {
            size[i] = (arenas[i].used + 4095) / 4096 * 4096;
            memory[i] = aligned_alloc(4096, size[i]);
            FUZZ_CHECK(memory[i] != NULL);
        }
        memset(memory[i], 0, size[i]);
        arenas[i] = (struct lli_arena){.memory = memory[i]};
    }
    place(world, arenas);
}

#endif
