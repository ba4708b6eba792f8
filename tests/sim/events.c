/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As sessions of receivers need: cache lines. */
enum { SIM_ALIGNMENT = 64 };

void *sim_memory_grow(void *memory, size_t size)
{
    memory = realloc(memory, size);
    if (memory == NULL) {
        (void)fprintf(stderr, "sim: no memory\n");
        exit(2);
    }
    return memory;
}

void *sim_memory(size_t size)
{
    const size_t aligned = (size_t)lli_round_up(lli_max(size, 1), SIM_ALIGNMENT);
    void *memory = aligned_alloc(SIM_ALIGNMENT, aligned);

    if (memory == NULL) {
        (void)fprintf(stderr, "sim: no memory\n");
        exit(2);
    }
    return memset(memory, 0, aligned);
}

struct sim_packet *sim_packet_new(const uint8_t *data, uint32_t size)
{
    struct sim_packet *packet = sim_memory_grow(NULL, sizeof *packet + size);

    packet->references = 1;
    packet->size = size;
    memcpy(packet->bytes, data, size);
    return packet;
}

void sim_packet_drop(struct sim_packet *packet)
{
    if (packet != NULL && --packet->references == 0)
        free(packet);
}

static bool event_is_sooner(const struct sim_event *a, const struct sim_event *b)
{
    return a->at < b->at || (a->at == b->at && a->serial < b->serial);
}

void sim_events_add(struct sim_events *events, struct sim_event event)
{
    size_t at = events->count++;

    if (events->count > events->room) {
        events->room = events->room == 0 ? 1024 : events->room * 2;
        events->heap = sim_memory_grow(events->heap, events->room * sizeof *events->heap);
    }
    event.serial = events->serial++;
    while (at > 0 && event_is_sooner(&event, &events->heap[(at - 1) / 2])) {
        events->heap[at] = events->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    events->heap[at] = event;
}

bool sim_events_take(struct sim_events *events, struct sim_event *event)
{
    const struct sim_event *last;
    size_t at = 0, child;

    if (events->count == 0)
        return false;
    *event = events->heap[0];
    last = &events->heap[--events->count];
    while ((child = 2 * at + 1) < events->count) {
        if (child + 1 < events->count && event_is_sooner(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (!event_is_sooner(&events->heap[child], last))
            break;
        events->heap[at] = events->heap[child];
        at = child;
    }
    events->heap[at] = *last;
    return true;
}

void sim_events_fini(struct sim_events *events)
{
    for (size_t i = 0; i < events->count; i++)
        sim_packet_drop(events->heap[i].packet);
    free(events->heap);
    *events = (struct sim_events){.heap = NULL};
}
