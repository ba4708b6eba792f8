/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unordered delivery: messages that lie wholly in a packet received ahead of order are delivered at once. The
 * packet is buffered all the same and unpacked in order later, without the delivered messages: so losses are
 * reported, names of topics learnt and spanning messages reassembled as always.
 *
 * Messages delivered ahead of order are a run, from the first that starts in the packet. It ends at a message
 * of a topic without a known name, as it cannot be decided yet if that one is wanted. The packet's mark stays
 * until the packet is next in order, and so does the packet. If the packet is dropped meanwhile, because
 * heartbeats do not cover it, its mark remains: should the packet arrive again, the rest is delivered; should
 * it not, the delivered messages are excluded from the reported loss. A filter decides on the run when it is
 * read, and counts its rejections then (rx_filter.c).
 */
#include "core/rx/rx_internal.h"

void lli_rx_unordered_init(struct lli_rx *rx, struct lli_arena *arena)
{
    if (rx->config->as_it_arrives)
        rx->unordered.marks =
            lli_arena_take(arena, rx->config->window_packets * sizeof *rx->unordered.marks, 64);
    /* Nothing is reassembled in it: only a valid address is needed. */
    lli_unpack_init(&rx->unordered.unpack, rx->unpack.buffer, 0);
}

void lli_rx_unordered_reset(struct lli_rx *rx)
{
    if (rx->unordered.marks == NULL)
        return;
    memset(rx->unordered.marks, 0, rx->config->window_packets * sizeof *rx->unordered.marks);
    lli_unpack_reset(&rx->unordered.unpack, 0);
    rx->unordered.seq = rx->unordered.from = rx->unordered.end = rx->unordered.dropped = 0;
    lli_rx_clear_slow_path(rx, LLI_RX_AGAIN);
    lli_rx_clear_news(rx, LLI_RX_REST);
}

void lli_rx_unordered_look(struct lli_rx *rx, lli_seq first, lli_seq end)
{
    struct lli_rx_unordered *unordered = &rx->unordered;

    unordered->from = unordered->from == unordered->end ? first : lli_min(unordered->from, first);
    unordered->end = lli_max(unordered->end, end);
}

static struct lli_rx_mark *unordered_mark(const struct lli_rx *rx, lli_seq seq)
{
    return &rx->unordered.marks[seq & rx->gap.mask];
}

static bool unordered_is_buffered(const struct lli_rx *rx, lli_seq seq)
{
    return seq >= rx->gap.next && seq < rx->gap.end && lli_gap_is_present(&rx->gap, seq);
}

/* ----------------------------------------------------------------------------------------- ahead of order */

/* Starts reading a buffered packet. */
static void unordered_begin(struct lli_rx *rx, lli_seq seq)
{
    struct lli_rx_unordered *unordered = &rx->unordered;
    struct lli_wire_header header;
    const uint8_t *packet, *body;
    size_t body_size;
    uint32_t size;
    uint64_t number;

    unordered->seq = seq;
    packet = lli_reorder_get(rx->buffer.reorder, *lli_rx_cell(rx, seq), LLI_REORDER_UNORDERED, &size);
    /* It was parsed on arrival, so parsing cannot fail now. */
    if (lli_wire_get_header(packet, size, &header, &body, &body_size) != LLI_WIRE_OK)
        return;
    number = lli_seq_extend(rx->unpack.number, header.number);
    *unordered_mark(rx, seq) = (struct lli_rx_mark){.seq = seq, .first = number, .end = number};
    lli_unpack_reset(&unordered->unpack, number);
    /* Message numbers never decrease; such a packet is examined when it is next in order. */
    if (number < rx->unpack.number)
        return;
    unordered->unpack.at = body + header.first;
    unordered->unpack.end = body + body_size;
    if (!(rx->pending.news & LLI_RX_FILTERED))
        return;
    lli_rx_filter_unordered(rx, body);
    unordered_mark(rx, seq)->end = unordered->unpack.number;
}

/*
 * Returns true if a packet may be marked: marks of packets in a loss that is not reported yet, a window before it,
 * tell which messages are not lost.
 */
static bool unordered_may_mark(const struct lli_rx *rx, lli_seq seq)
{
    return rx->loss.run == 0 || !(rx->pending.slow_path & LLI_RX_AGAIN) ||
           seq < rx->loss.run_first + lli_gap_window(&rx->gap);
}

/* Starts the next packet not read yet; false: there is none. */
static bool unordered_next(struct lli_rx *rx)
{
    struct lli_rx_unordered *unordered = &rx->unordered;

    for (lli_seq seq = lli_max(unordered->from, rx->gap.next); seq < unordered->end; seq++) {
        if (!unordered_may_mark(rx, seq))
            return false;
        unordered->from = seq + 1;
        if (unordered_is_buffered(rx, seq) && unordered_mark(rx, seq)->seq != seq) {
            unordered_begin(rx, seq);
            return true;
        }
    }
    return false;
}

/* Removes messages that were delivered ahead of order. */
static int unordered_less(const struct lli_rx_mark *given, struct llm_message *messages, int count)
{
    int lvc = 0;

    for (int i = 0; i < count; i++)
        if (messages[i].number < given->first || messages[i].number >= given->end)
            messages[lvc++] = messages[i];
    return lvc;
}

/*
 * Returns the next messages of a packet, without those of refused topics. In order: without those already
 * delivered. Ahead of order (given NULL): only those of topics with known names.
 */
static bool unordered_messages(struct lli_rx *rx, struct lli_unpack *unpack, const struct lli_rx_mark *given,
                               struct lli_item *item)
{
    struct llm_message like = {.session = rx->session, .received_at = rx->stamp_ns};
    uint32_t topic;

    item->count = 0;
    item->kind = LLI_ITEM_MESSAGES;
    while (item->count < LLI_ITEM_MESSAGES_MAX && !lli_unpack_is_done(unpack) &&
           lli_unpack_peek(unpack, &topic)) {
        struct llm_message *messages = item->messages + item->count;
        int count;

        like.topic = lli_topics_name(&rx->topics, topic);
        if (given == NULL && like.topic[0] == '\0') {
            unpack->at = unpack->end;
            break;
        }
        count = lli_unpack_messages(unpack, &like, messages, LLI_ITEM_MESSAGES_MAX - item->count);
        if (count == 0)
            break;
        if (given != NULL)
            count = unordered_less(given, messages, count);
        if (count > 0 && lli_topics_is_marked(&rx->topics, topic))
            count = lli_rx_account(rx, topic, item, count);
        if (count == 0)
            continue;
        if (like.topic[0] == '\0')
            rx->counters->topics_unknown += (uint64_t)count;
        item->count += count;
    }
    rx->counters->messages_delivered += (uint64_t)item->count;
    return item->count > 0;
}

/* Returns the next item of the packet being read. */
static bool unordered_item(struct lli_rx *rx, struct lli_item *item)
{
    struct lli_unpack *unpack = &rx->unordered.unpack;
    struct lli_unpacked unpacked;

    for (;;) {
        const bool some = rx->pending.news & LLI_RX_FILTERED ? lli_rx_filtered_unordered(rx, item)
                                                             : unordered_messages(rx, unpack, NULL, item);

        /* Excludes a message that continues in the next packet. */
        unordered_mark(rx, rx->unordered.seq)->end = unpack->number - unpack->assembling;
        if (some) {
            rx->counters->messages_unordered += (uint64_t)item->count;
            return true;
        }
        if (unpack->at == unpack->end)
            return false;
        lli_unpack_next(unpack, &unpacked);
        if (unpacked.kind != LLI_UNPACK_ANNOUNCE)
            return false;
        if (lli_rx_announced(rx, &unpacked, item))
            return true;
    }
}

bool lli_rx_next_unordered(struct lli_rx *rx, struct lli_item *item)
{
    /* The past is delivered in order, so that everything before LLM_EVENT_LIVE is of the past. */
    if (rx->pending.lag & (LLI_RX_REPLAYING | LLI_RX_YOUNG))
        return false;
    for (;;) {
        if (!lli_unpack_is_done(&rx->unordered.unpack) && unordered_is_buffered(rx, rx->unordered.seq) &&
            unordered_item(rx, item))
            return true;
        if (!unordered_next(rx))
            return false;
    }
}

/* ----------------------------------------------------------------------------------------------- in order */

void lli_rx_unordered_turn(struct lli_rx *rx, lli_seq seq)
{
    const struct lli_rx_mark *mark = unordered_mark(rx, seq);

    if (mark->seq != seq || mark->end == mark->first)
        return;
    rx->unordered.turn = *mark;
    lli_rx_set_news(rx, LLI_RX_TURN);
}

void lli_rx_unordered_drop(struct lli_rx *rx, lli_seq seq)
{
    const struct lli_rx_mark *mark = unordered_mark(rx, seq);

    /* Its position in the reorder buffer may differ when it arrives again. */
    if (rx->unordered.seq == seq)
        lli_unpack_reset(&rx->unordered.unpack, 0);
    if (mark->seq != seq || mark->end == mark->first)
        return;
    lli_rx_set_slow_path(rx, LLI_RX_AGAIN);
    rx->unordered.dropped = lli_max(rx->unordered.dropped, seq + 1);
}

bool lli_rx_unordered_split(struct lli_rx *rx, struct lli_unpacked *lost, enum llm_reason reason)
{
    const lli_seq end = lli_min(rx->gap.next, rx->loss.run_first + lli_gap_window(&rx->gap));

    if (!(rx->pending.slow_path & LLI_RX_AGAIN))
        return false;
    for (lli_seq seq = rx->loss.run_first; seq < end; seq++) {
        const struct lli_rx_mark *mark = unordered_mark(rx, seq);

        if (mark->seq != seq || mark->end <= lost->number || mark->first >= lost->last + 1 ||
            mark->end == mark->first)
            continue;
        rx->unordered.rest = *lost;
        rx->unordered.rest.number = lli_min(mark->end, lost->last + 1);
        rx->unordered.rest_reason = reason;
        lost->last = lli_max(mark->first, lost->number) - 1;
        if (rx->unordered.rest.number < rx->unordered.rest.last + 1)
            lli_rx_set_news(rx, LLI_RX_REST);
        return true;
    }
    return false;
}

lli_seq lli_rx_unordered_end(const struct lli_rx *rx, uint64_t *number)
{
    const bool is_sure = rx->loss.run == 0 && rx->loss.uncounted == 0 && *number == rx->unpack.number &&
                         !rx->unpack.assembling;
    lli_seq next = rx->gap.next;

    if (!(rx->pending.slow_path & LLI_RX_AGAIN) || !is_sure)
        return next;
    for (lli_seq seq = next; unordered_mark(rx, seq)->seq == seq; seq++) {
        const struct lli_rx_mark *mark = unordered_mark(rx, seq);

        if (mark->first != *number || mark->end == mark->first)
            break;
        /* The packet may have more than was delivered. */
        *number = mark->end;
        next = seq;
    }
    return next;
}

bool lli_rx_turn_messages(struct lli_rx *rx, struct lli_item *item)
{
    return unordered_messages(rx, &rx->unpack, &rx->unordered.turn, item);
}
