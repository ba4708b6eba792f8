/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Excerpts: of a packet in memory shared with the transmitter, a receiver copies only the messages that it wants.
 * The outline says where they are. Only the packet next in order of a session in which nothing else is pending is
 * taken so: it is delivered at once, so that nobody reads its other bytes.
 */
#include "core/pack/outline.h"
#include "core/rx/rx_internal.h"

/* An excerpt of more than this share of a packet is not worth its while, in sixteenths. */
enum { RX_EXCERPT_SHARE = 12 };

/* True if the packet is the next in order, and continues where the one before ended. */
static bool rx_may_excerpt(const struct lli_rx *rx, const struct lli_wire_header *header)
{
    const struct lli_unpack *unpack = &rx->unpack;
    const uint32_t left = unpack->assembling ? unpack->total - unpack->have : 0;

    return rx->state == LLI_RX_LIVE && rx->pending.slow_path == 0 && rx->pending.news == 0 &&
           rx->gap.next == rx->gap.end && header->seq == (uint32_t)rx->gap.next && !unpack->broken &&
           !(unpack->assembling && unpack->too_long) && header->number == (uint32_t)unpack->number &&
           header->first == left;
}

/* Returns a bit for each of up to 64 runs: whether its messages are wanted. */
static uint64_t rx_wanted_runs(const struct lli_topics *topics, const struct lli_outline_run *runs,
                               uint32_t count)
{
    uint64_t wanted = 0;

    /* Without branches, since topics alternate without a pattern. */
    for (uint32_t i = 0; i < count; i++)
        wanted |= (uint64_t)!lli_topics_is_refused(topics, runs[i].topic) << i;
    return wanted;
}

uint32_t lli_rx_excerpt(const struct lli_rx *rx, const uint8_t *head, uint32_t size,
                        const struct lli_outline_run *runs, uint32_t count, struct lli_piece *pieces)
{
    struct lli_piece *piece = pieces;
    struct lli_wire_header header;
    uint32_t messages = 0, copied = 0;
    const uint8_t *body;
    size_t body_size;

    if (count < 2 || lli_wire_get_base(head, size, &header, &body, &body_size) != LLI_WIRE_OK ||
        header.flags & LLI_WIRE_FLAG_EXTENDED || !rx_may_excerpt(rx, &header) ||
        runs[0].at < LLI_WIRE_DATA_HEADER + header.first || runs[0].at > size || runs[count - 1].at != size)
        return 0;
    *piece = (struct lli_piece){.size = runs[0].at};
    for (uint32_t from = 0; from < count - 1; from += 64) {
        const uint32_t some = (uint32_t)lli_min(64, count - 1 - from);

        for (uint64_t wanted = rx_wanted_runs(&rx->topics, runs + from, some); wanted != 0;
             wanted &= wanted - 1) {
            const struct lli_outline_run *run = &runs[from + (uint32_t)__builtin_ctzll(wanted)];

            if (run[1].at < run->at || run[1].at > size || run->at < piece->at + piece->size)
                return 0;
            copied += run[1].at - (uint32_t)run->at;
            if (piece->at + piece->size == run->at) {
                piece->size += run[1].at - (uint32_t)run->at;
            } else {
                piece->more = true;
                *++piece = (struct lli_piece){.at = run->at,
                                              .size = run[1].at - (uint32_t)run->at,
                                              .passed = (uint16_t)(run->first - messages)};
            }
            messages = run[1].first;
        }
    }
    if (messages != runs[count - 1].first) {
        piece->more = true;
        *++piece = (struct lli_piece){.at = size, .passed = (uint16_t)(runs[count - 1].first - messages)};
    }
    return copied <= size / 16 * RX_EXCERPT_SHARE ? (uint32_t)(piece - pieces) + 1 : 0;
}

bool lli_rx_input_excerpt(struct lli_rx *rx, const uint8_t *bytes, uint32_t size, uint64_t stamp_ns,
                          const struct lli_piece *pieces, lli_ns now)
{
    struct lli_rx_packet packet = {.bytes = bytes, .size = size, .stamp_ns = stamp_ns};

    /* The bytes are copied again since lli_rx_excerpt(): whoever wrote them may have changed them. */
    if (lli_wire_get_base(bytes, size, &packet.header, &packet.body, &packet.body_size) != LLI_WIRE_OK ||
        packet.header.flags & LLI_WIRE_FLAG_EXTENDED || !rx_may_excerpt(rx, &packet.header) ||
        pieces->size < LLI_WIRE_DATA_HEADER + (uint32_t)packet.header.first) {
        rx->counters->data_malformed++;
        return false;
    }
    packet.body_size = pieces->size - LLI_WIRE_DATA_HEADER;
    /* The packet is next in order, so that it is unpacked, and nothing was delivered of it yet. */
    (void)lli_rx_input(rx, &packet, now);
    rx->unpack.rest = pieces->more ? pieces + 1 : NULL;
    (void)lli_rx_excerpt_turn(rx);
    return true;
}

bool lli_rx_excerpt_turn(struct lli_rx *rx)
{
    struct lli_unpack *unpack = &rx->unpack;
    bool turned = false;

    /* Only the last piece may end with the begin of a message: the outline was wrong, and what follows is lost. */
    if (unpack->assembling && unpack->have < unpack->total)
        unpack->rest = NULL;
    while (lli_unpack_is_done(unpack) && unpack->rest != NULL) {
        rx->counters->messages_refused += lli_unpack_turn(unpack);
        turned = !lli_unpack_is_done(unpack);
    }
    return turned;
}
