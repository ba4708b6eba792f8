/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wire/ranges.h"

/* Inserts a range among the first `count`, which are sorted relative to `near` (insertion sort). */
static void ranges_insert(struct lli_wire_range *ranges, uint16_t count, lli_seq near,
                          struct lli_wire_range range)
{
    const lli_seq first = lli_seq_extend(near, range.first);

    for (; count > 0 && lli_seq_extend(near, ranges[count - 1].first) > first; count--)
        ranges[count] = ranges[count - 1];
    ranges[count] = range;
}

uint16_t lli_ranges_merge(struct lli_wire_range *ranges, uint16_t count, lli_seq near, lli_seq low,
                          uint64_t most)
{
    lli_seq end = low;
    uint16_t used = 0;

    for (uint16_t i = 1; i < count; i++)
        ranges_insert(ranges, i, near, ranges[i]);
    for (uint16_t i = 0; i < count && most > 0; i++) {
        const lli_seq first = lli_max(lli_seq_extend(near, ranges[i].first), end);
        const lli_seq range_end = lli_seq_extend(near, ranges[i].first) + ranges[i].count;
        uint64_t packets;

        if (range_end <= first)
            continue;
        packets = lli_min(range_end - first, most);
        if (used > 0 && first == end)
            ranges[used - 1].count += (uint32_t)packets;
        else
            ranges[used++] = (struct lli_wire_range){(uint32_t)first, (uint32_t)packets};
        end = first + packets;
        most -= packets;
    }
    return used;
}
