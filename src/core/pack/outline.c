/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack/outline.h"

#include "core/wire/wire.h"

uint32_t lli_outline_make(const uint8_t *packet, uint32_t size, struct lli_outline_run *runs, uint32_t max)
{
    struct lli_outline_run *run = runs;
    struct lli_wire_header header;
    const uint8_t *at, *end;
    struct lli_frame frame;
    uint16_t messages = 0;
    size_t left;

    if (max < 2 || lli_wire_get_base(packet, size, &header, &at, &left) != LLI_WIRE_OK ||
        header.flags & LLI_WIRE_FLAG_EXTENDED)
        return 0;
    end = at + left;
    at += header.first;
    *run = (struct lli_outline_run){.at = (uint16_t)(at - packet)};
    while (at < end) {
        const uint8_t *next = lli_frame_get(at, end, &frame);

        if (frame.kind == LLI_FRAME_TOPIC) {
            if (messages > run->first && ++run == runs + max - 1)
                return 0;
            *run = (struct lli_outline_run){frame.value, (uint16_t)(at - packet), messages};
        } else if (frame.kind == LLI_FRAME_MESSAGE) {
            if (frame.value > (size_t)(end - next)) {
                run->topic = LLI_OUTLINE_UNFINISHED;
                break;
            }
            next += frame.value;
            messages++;
        } else if (frame.kind != LLI_FRAME_SKIP) {
            return 0;
        }
        at = next;
    }
    if (run == runs)
        return 0;
    *++run = (struct lli_outline_run){.at = (uint16_t)size, .first = messages};
    return (uint32_t)(run - runs) + 1;
}
