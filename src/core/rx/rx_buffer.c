/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffering of packets ahead of order, in memory shared by a receiver's sessions. One session may use all of
 * it while no other needs any. When it is full, the session that uses most drops its packet furthest ahead,
 * so that no session, genuine or forged, can deprive the others of their share.
 */
#include "core/rx/rx_internal.h"

void lli_rx_buffer_init(struct lli_rx *rx, struct lli_reorder *reorder, struct lli_arena *arena)
{
    rx->buffer.reorder = reorder;
    rx->buffer.cells = lli_arena_take(arena, rx->config->window_packets * sizeof *rx->buffer.cells, 64);
    rx->buffer.next = reorder->sessions;
    reorder->sessions = rx;
}

/*
 * Messages delivered ahead of order must not be reported lost, so their packets stay until they are next in
 * order.
 */
static bool buffer_may_drop(const struct lli_rx *rx)
{
    return rx->buffer.chunks > 0 &&
           !(rx->state == LLI_RX_LIVE && lli_rx_as_it_arrives(rx) && !lli_rx_is_replaying(rx));
}

/* Returns the session that uses most memory and may drop packets, NULL if none may. */
static struct lli_rx *buffer_most(const struct lli_reorder *reorder)
{
    struct lli_rx *most = NULL;

    for (struct lli_rx *rx = reorder->sessions; rx != NULL; rx = rx->buffer.next)
        if (buffer_may_drop(rx) && (most == NULL || rx->buffer.chunks > most->buffer.chunks))
            most = rx;
    return most;
}

/*
 * Drops the packet furthest ahead, if it is beyond seq: a packet closer to delivery frees its memory sooner.
 * False: there is none.
 */
static bool buffer_drop_last(struct lli_rx *rx, lli_seq seq, lli_ns now)
{
    const bool known = rx->state == LLI_RX_LIVE;
    const lli_seq end = lli_gap_present_end(&rx->gap), last = end - 1;

    if (end == rx->gap.next || last <= seq || !buffer_may_drop(rx))
        return false;
    if (!known && last == rx->gap.next) {
        /* The first packet determines where the session begins, so nothing is buffered without it. */
        lli_rx_drop_packets(rx);
        return true;
    }
    lli_rx_give_back(rx, *lli_rx_cell(rx, last));
    lli_gap_forget(&rx->gap, last, now,
                   known ? now + lli_max(rx->config->nak_retry_min, 2 * lli_rx_rtt(rx)) : LLI_NEVER);
    lli_rx_dropped(rx, last);
    return true;
}

/* Frees memory for a packet. False: the packets that use it take precedence. */
static bool buffer_make_room(struct lli_rx *rx, lli_seq seq, uint32_t size, lli_ns now)
{
    const uint32_t chunks = lli_reorder_chunks(size);

    while (!lli_reorder_fits(rx->buffer.reorder, size)) {
        struct lli_rx *most = buffer_most(rx->buffer.reorder);
        const bool others = most != NULL && most != rx && most->buffer.chunks > rx->buffer.chunks + chunks;

        if (!buffer_drop_last(others ? most : rx, others ? 0 : seq, now))
            return false;
    }
    return true;
}

bool lli_rx_buffer(struct lli_rx *rx, lli_seq seq, const struct lli_rx_packet *packet, lli_ns now)
{
    const uint32_t size = lli_rx_whole(rx, (uint32_t)packet->size);

    if (!lli_reorder_fits(rx->buffer.reorder, size) && !buffer_make_room(rx, seq, size, now)) {
        rx->counters->reorder_full++;
        return false;
    }
    *lli_rx_cell(rx, seq) = lli_rx_put(rx, packet->bytes, size);
    (void)lli_gap_receive(&rx->gap, seq);
    return true;
}

uint32_t lli_rx_room(const struct lli_rx *rx)
{
    const struct lli_reorder *reorder = rx->buffer.reorder;
    const struct lli_rx *most =
        lli_reorder_packets(reorder, reorder->left) < lli_gap_window(&rx->gap) ? buffer_most(reorder) : NULL;
    uint32_t chunks = reorder->left;

    if (most != NULL && most->buffer.chunks > rx->buffer.chunks)
        chunks = (uint32_t)lli_max(chunks, (most->buffer.chunks - rx->buffer.chunks) / 2);
    return lli_reorder_packets(reorder, chunks);
}
