/* SPDX-License-Identifier: Apache-2.0 */
#include "core/join/time_index.h"

#include <string.h>

#define MARKS_DISTANCE_MIN ((lli_ns)1000000)

void lli_marks_init(struct lli_marks *marks, lli_seq start, struct lli_arena *arena, lli_ns now)
{
    *marks = (struct lli_marks){.count = 1, .distance = MARKS_DISTANCE_MIN};
    marks->marks = lli_arena_take(arena, LLI_MARKS * sizeof *marks->marks, 64);
    if (arena->memory != NULL)
        marks->marks[0] = (struct lli_mark){.at = now, .seq = start};
}

/* Half of them go: those of packets that are gone, or else every second one. */
static void marks_thin(struct lli_marks *marks, lli_seq trail)
{
    uint32_t gone = 0, kept = 0;

    while (gone + 1 < marks->count && marks->marks[gone + 1].seq <= trail)
        gone++;
    marks->count -= gone;
    memmove(marks->marks, marks->marks + gone, marks->count * sizeof *marks->marks);
    if (marks->count <= LLI_MARKS / 2) {
        marks->distance = lli_max(marks->distance / 2, MARKS_DISTANCE_MIN);
        return;
    }
    for (uint32_t i = 0; i < marks->count; i += 2)
        marks->marks[kept++] = marks->marks[i];
    marks->count = kept;
    marks->distance *= 2;
}

void lli_marks_add(struct lli_marks *marks, lli_seq seq, lli_seq trail, lli_ns now)
{
    const struct lli_mark *last = &marks->marks[marks->count - 1];

    if (seq == last->seq || now < last->at + marks->distance)
        return;
    if (marks->count == LLI_MARKS)
        marks_thin(marks, trail);
    marks->marks[marks->count++] = (struct lli_mark){.at = now, .seq = seq};
}

lli_seq lli_marks_find(const struct lli_marks *marks, lli_ns since)
{
    uint32_t low = 0, high = marks->count;

    /* The first mark stands for all before it. */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (marks->marks[middle].at <= since)
            low = middle;
        else
            high = middle;
    }
    return marks->marks[low].seq;
}
