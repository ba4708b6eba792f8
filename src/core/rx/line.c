/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rx/line.h"

/* Deviation assumed before a measurement: a line is waited for by four times that. */
#define LINE_DEVIATION ((lli_ns)250000)
/* Waiting times are not less: a receiver that reads both lines reads one after the other. */
#define LINE_WAIT_MIN ((lli_ns)20000)
/* Waiting times exceed the lateness by this at least: clocks are read once a poll. */
#define LINE_MARGIN ((lli_ns)5000)

void lli_line_start(struct lli_line *line, lli_ns now)
{
    *line = (struct lli_line){.heard_at = now, .came = UINT64_MAX, .late_spread = LINE_DEVIATION};
}

/* Counts the packets that have not come among the `count` oldest ones of the memory. */
static uint64_t line_lost(uint64_t came, lli_seq count)
{
    uint64_t absent = count < LLI_LINE_MEMORY ? ~came >> (LLI_LINE_MEMORY - count) : ~came;
    uint64_t lost = count < LLI_LINE_MEMORY ? 0 : count - LLI_LINE_MEMORY;

    for (; absent != 0; absent &= absent - 1)
        lost++;
    return lost;
}

uint64_t lli_line_pass(struct lli_line *line, lli_seq end)
{
    lli_seq count = end - line->passed;
    uint64_t lost;

    if (!line->heard) {
        line->heard = true;
        line->passed = end;
        return 0;
    }
    if (end <= line->passed)
        return 0;
    lost = line_lost(line->came, count);
    line->came = count < LLI_LINE_MEMORY ? line->came << count : 0;
    line->passed = end;
    line->overdue = false;
    return lost;
}

uint64_t lli_line_packet(struct lli_line *line, lli_seq seq)
{
    const uint64_t lost = lli_line_pass(line, seq + 1);
    const lli_seq age = line->passed - 1 - seq;

    if (age < LLI_LINE_MEMORY)
        line->came |= (uint64_t)1 << age;
    return lost;
}

void lli_line_measured(struct lli_line *line, lli_ns late)
{
    const lli_ns off = late > line->late ? late - line->late : line->late - late;

    line->late_spread = line->late_spread - line->late_spread / 4 + off / 4;
    line->late = line->late - line->late / 8 + late / 8;
}

lli_ns lli_line_wait(const struct lli_line *line, lli_ns most)
{
    const lli_ns wait = line->late + 4 * line->late_spread + LINE_MARGIN;

    return lli_min(lli_max(wait, LINE_WAIT_MIN), most);
}
