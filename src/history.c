/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

void lli_history_init(struct lli_history *history, const struct lli_history_config *config, struct lli_arena *arena)
{
    assert(lli_is_power_of_two(config->packets) && lli_is_power_of_two(config->align));
    *history = (struct lli_history){
        .bytes_size = config->bytes,
        .slots_mask = config->packets - 1,
        .packet_max = config->packet_max,
        .headroom = config->headroom,
        .align = config->align,
        .stride_max = (uint32_t)lli_round_up(config->headroom + config->packet_max, config->align),
        .trail = config->start,
        .next = config->start,
    };
    history->bytes = lli_arena_take(arena, config->bytes, config->align);
    history->slots = lli_arena_take(arena, config->packets * sizeof *history->slots, 64);
}

uint64_t lli_history_room(const struct lli_history *history, lli_seq busy)
{
    uint64_t slots = history->slots_mask - (history->next - busy);
    uint64_t used = 0;
    uint64_t packets;

    if (busy < history->next) {
        uint64_t tail = lli_history_slot(history, busy)->offset;

        used = history->head > tail ? history->head - tail : history->bytes_size - tail + history->head;
    }
    /* One packet's worth may be wasted where the ring wraps, and one is kept free so that full differs from empty. */
    packets = (history->bytes_size - used) / history->stride_max;
    packets = packets > 2 ? packets - 2 : 0;
    return lli_min(slots, packets);
}

static void history_forget(struct lli_history *history, lli_seq busy)
{
    (void)busy;
    assert(history->trail < busy);
    history->trail++;
}

uint8_t *lli_history_open(struct lli_history *history, lli_seq busy)
{
    uint64_t end;

    if (history->head + history->stride_max > history->bytes_size) {
        /* Wrap: what lies behind the head is of the lap before, older than all that lies at the ring's start. */
        while (history->trail < history->next && lli_history_slot(history, history->trail)->offset >= history->head)
            history_forget(history, busy);
        history->head = 0;
    }
    end = history->head + history->stride_max;
    while (history->trail < history->next) {
        uint64_t offset = lli_history_slot(history, history->trail)->offset;

        if (history->next - history->trail < history->slots_mask && (offset < history->head || offset >= end))
            break;
        history_forget(history, busy);
    }
    return history->bytes + history->head + history->headroom;
}

void lli_history_seal(struct lli_history *history, uint32_t size)
{
    struct lli_history_slot *slot = &history->slots[history->next & history->slots_mask];

    assert(size <= history->packet_max);
    *slot = (struct lli_history_slot){.offset = history->head, .size = size};
    history->head += lli_round_up(history->headroom + size, history->align);
    history->next++;
}
