/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack/history.h"

/* Bytes of a packet after which the hardware prefetcher follows the writes. */
enum { HISTORY_PREFETCH = 2048 };

void lli_history_init(struct lli_history *history, const struct lli_history_config *config,
                      struct lli_arena *arena)
{
    assert(lli_is_power_of_two(config->packets) && lli_is_power_of_two(config->align));
    *history = (struct lli_history){
        .bytes_size = config->bytes,
        .slots_mask = config->packets - 1,
        .packet_max = config->packet_max,
        .headroom = config->headroom,
        .around = config->headroom + config->tail,
        .align = config->align,
        .stride_max =
            (uint32_t)lli_round_up(config->headroom + config->packet_max + config->tail, config->align),
        .trail = config->start,
        .next = config->start,
    };
    /* Same formula as in lli_history_fits(). */
    history->packets_free =
        (uint32_t)lli_min(history->slots_mask, lli_max(config->bytes / history->stride_max, 2) - 2);
    history->bytes =
        config->shared != NULL ? config->shared : lli_arena_take(arena, config->bytes, config->align);
    history->edge = config->shared != NULL ? config->shared_edge : &history->edge_own;
    history->slots = lli_arena_take(arena, config->packets * sizeof *history->slots, 64);
}

static void history_forget(struct lli_history *history, lli_seq busy)
{
    (void)busy;
    assert(history->trail < busy);
    history->trail++;
}

void lli_history_forget_before(struct lli_history *history, lli_seq seq, lli_seq busy)
{
    history->trail = lli_max(history->trail, lli_min(seq, busy));
}

/*
 * Prefetches the lines of the packet after this one while this one is filled, since the ring is larger than
 * the near caches. Always inline: gcc 12 removes a call of a function that only prefetches.
 */
static LLI_INLINE void history_prefetch(const struct lli_history *history)
{
    uint64_t from = history->head + history->stride_max;
    const uint8_t *at = history->bytes + (from + history->stride_max <= history->bytes_size ? from : 0);

    /* Eight at a time, unrolled: a few lines too many cost less than loop iterations. */
    for (const uint8_t *end = at + lli_min(history->stride_max, HISTORY_PREFETCH); at < end; at += 8 * 64)
        for (int line = 0; line < 8; line++)
            __builtin_prefetch(at + line * 64, 1);
}

uint8_t *lli_history_open(struct lli_history *history, lli_seq busy)
{
    uint64_t end;

    if (history->head + history->stride_max > history->bytes_size) {
        /* Wrap: packets after the head are of the previous lap, older than everything at the ring's start. */
        while (history->trail < history->next &&
               lli_history_slot(history, history->trail)->offset >= history->head)
            history_forget(history, busy);
        history->head = 0;
        history->lap += history->bytes_size;
    }
    end = history->head + history->stride_max;
    while (history->trail < history->next) {
        uint64_t offset = lli_history_slot(history, history->trail)->offset;

        if (history->next - history->trail < history->slots_mask && (offset < history->head || offset >= end))
            break;
        history_forget(history, busy);
    }
    /*
     * A reader that finds the edge unchanged after copying has copied the bytes before they were overwritten.
     */
    atomic_store_explicit(history->edge, history->lap + end, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    if (history->filling)
        history_prefetch(history);
    return history->bytes + history->head + history->headroom;
}

void lli_history_seal(struct lli_history *history, uint32_t size)
{
    struct lli_history_slot *slot = &history->slots[history->next & history->slots_mask];
    const uint8_t *at;

    assert(size <= history->packet_max);
    *slot = (struct lli_history_slot){.offset = history->head, .size = size};
    history->head += lli_round_up(history->around + size, history->align);
    history->filling = size > history->packet_max / 2;
    history->next++;
    if (history->filling)
        return;
    /* Prefetches the next packet's memory, assuming that it is as short as this one. */
    at = history->bytes + history->head;
    __builtin_prefetch(at, 1);
    __builtin_prefetch(at + 64, 1);
    __builtin_prefetch(slot + 1, 1);
    for (const uint8_t *line = at + 128; line < at + size + 63; line += 64)
        __builtin_prefetch(line, 1);
}
