/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LVC fetch of a joining receiver (section 12.3). The window is already at the granted start of the stream;
 * live packets are buffered, or fetched later, until all wanted LVC messages arrived, piece by piece.
 *
 * An LVC packet names the span that it covers completely, so missing parts are a list of spans. A packet that
 * begins at the first missing position is delivered as it arrives; others are buffered until those before
 * them arrived.
 */
#include "core/rx/rx_internal.h"

enum {
    KEPT_PIECE = 256, /* packets asked for at a time ... */
    KEPT_PIECE_MIN = 32, /* ... as far as there is room to buffer them, but at least this many: those in order need no room */
    KEPT_HELD = 256,  /* packets buffered */
};

/* An LVC packet that is late by this many mean intervals is asked for again. */
enum { KEPT_PATIENCE = 4 };

struct lli_rx_held {
    struct lli_wire_span span;
    uint32_t cell;
};

void lli_rx_lvc_init(struct lli_rx *rx, struct lli_arena *arena)
{
    rx->lvc.held = lli_arena_take(arena, KEPT_HELD * sizeof *rx->lvc.held, 64);
}

void lli_rx_lvc_begin(struct lli_rx *rx, const struct lli_wire_join *granted)
{
    rx->lvc = (struct lli_rx_lvc){
        .held = rx->lvc.held,
        .number = granted->number,
        .live = granted->number,
        .most = granted->value,
        .topics = granted->topics,
    };
    rx->slow_path |= LLI_RX_LATEST;
}

/* ------------------------------------------------------------------------------------ buffered packets */

static void kept_forget(struct lli_rx *rx, uint32_t index)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    lvc->held_count--;
    memmove(lvc->held + index, lvc->held + index + 1, (lvc->held_count - index) * sizeof *lvc->held);
}

void lli_rx_lvc_drop(struct lli_rx *rx)
{
    if (!(rx->slow_path & LLI_RX_LATEST))
        return;
    rx->lvc.reading = false;
    for (uint32_t i = 0; i < rx->lvc.held_count; i++)
        lli_rx_give_back(rx, rx->lvc.held[i].cell);
    rx->lvc.held_count = 0;
    rx->slow_path &= (uint8_t)~LLI_RX_LATEST;
}

/* Buffers a packet ahead of order, unless another one covers its span. */
static void kept_hold(struct lli_rx *rx, const struct lli_wire_span *span, const struct lli_reader *records)
{
    struct lli_rx_lvc *lvc = &rx->lvc;
    uint32_t at = lvc->held_count, cell;

    while (at > 0 && lli_wire_is_before(&span->from, &lvc->held[at - 1].span.from))
        at--;
    if (at > 0 && !lli_wire_is_before(&lvc->held[at - 1].span.to, &span->to)) {
        rx->counters->packets_duplicate++;
        return;
    }
    cell = lvc->held_count == KEPT_HELD ? LLI_REORDER_NONE
                                         : lli_rx_put(rx, records->at, (uint32_t)(records->end - records->at));
    if (cell == LLI_REORDER_NONE) {
        rx->counters->reorder_full++;
        return;
    }
    memmove(lvc->held + at + 1, lvc->held + at, (lvc->held_count - at) * sizeof *lvc->held);
    lvc->held[at] = (struct lli_rx_held){*span, cell};
    lvc->held_count++;
}

/* Starts reading the buffered packet that is next in order; false: there is none. */
static bool kept_take(struct lli_rx *rx)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    while (lvc->held_count > 0 && !lli_wire_is_before(&lvc->next, &lvc->held[0].span.from)) {
        const struct lli_rx_held held = lvc->held[0];
        const uint8_t *bytes;
        uint32_t size;

        kept_forget(rx, 0);
        bytes = lli_reorder_get(rx->reorder, held.cell, LLI_REORDER_TURN, &size);
        lli_rx_give_back(rx, held.cell);
        if (lli_wire_is_before(&lvc->next, &held.span.to)) {
            lvc->records = lli_reader_of(bytes, size);
            lvc->until = held.span.to;
            return lvc->reading = true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------------------------------ packets in */

/* Sets the time of the next request after a packet arrived. left: further packets that may follow. */
static void kept_came(struct lli_rx *rx, uint16_t left, lli_ns now)
{
    const lli_ns distance = lli_min(now - rx->replayed_at, LLI_RX_JOIN_RETRY_MAX);

    rx->replay_distance = rx->replay_distance == 0 ? distance : (rx->replay_distance * 7 + distance) / 8;
    rx->replayed_at = now;
    rx->tries = 0;
    /* The last packet may just have overtaken missing ones. */
    rx->fetch_at = now + (left > 0 ? lli_rx_request_time(rx) + KEPT_PATIENCE * rx->replay_distance
                          : rx->lvc.held_count > 0 ? rx->config->nak_retry_min : 0);
}

void lli_rx_input_lvc(struct lli_rx *rx, const struct lli_wire_lvc *packet, const struct lli_reader *records, lli_ns now)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    if (packet->receiver != rx->config->receiver) {
        rx->counters->control_foreign++;
        return;
    }
    rx->counters->cache_packets_received++;
    /* Late, of an earlier grant, or not asked for. */
    if (!(rx->slow_path & LLI_RX_LATEST) || rx->slow_path & LLI_RX_LEARNING || packet->number != lvc->number || lvc->reading)
        return;
    if (!lli_wire_is_before(&lvc->next, &packet->span.to)) {
        rx->counters->packets_duplicate++;
        return;
    }
    if (lli_wire_is_before(&lvc->next, &packet->span.from)) {
        kept_hold(rx, &packet->span, records);
    } else {
        lvc->records = *records;
        lvc->until = packet->span.to;
        lvc->reading = true;
    }
    lvc->live = lli_max(lvc->live, packet->next);
    kept_came(rx, packet->left, now);
}

/* ---------------------------------------------------------------------------------------- messages out */

static bool kept_is_refused(const struct lli_rx *rx, uint32_t topic)
{
    return lli_topics_is_refused(&rx->topics, topic);
}

/* Skips topics that are not wanted. False: none is left. */
static bool kept_pass(struct lli_rx *rx)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    while (lvc->next.topic < lvc->topics && kept_is_refused(rx, lvc->next.topic))
        lvc->next = (struct lli_wire_place){.topic = lvc->next.topic + 1};
    return lvc->next.topic < lvc->topics;
}

/* True if a record is one message, whole or its first part, and nothing else. */
static bool kept_is_message(const struct lli_wire_record *record)
{
    const uint8_t *const end = record->bytes + record->size;
    struct lli_frame frame;
    const uint8_t *at = lli_frame_get(record->bytes, end, &frame);

    if (*record->bytes == LLI_FRAME_ATTRIBUTES && at < end)
        at = lli_frame_get(at, end, &frame);
    return frame.kind == LLI_FRAME_MESSAGE && frame.value >= (size_t)(end - at);
}

/* Starts a message, unpacked as if it were a packet of its own. False: malformed. */
static bool kept_unpack(struct lli_rx *rx, const struct lli_wire_record *record)
{
    struct lli_unpack *unpack = &rx->unpack;

    if (!kept_is_message(record)) {
        rx->counters->data_malformed++;
        return false;
    }
    lli_unpack_reset(unpack, record->at.number);
    unpack->topic = record->at.topic;
    unpack->at = record->bytes;
    unpack->end = record->bytes + record->size;
    unpack->given = false;
    return true;
}

/*
 * Continues a message whose first part arrived. False: that message was displaced and this is part of
 * another, or it was never started.
 */
static bool kept_unpack_more(struct lli_rx *rx, const struct lli_wire_record *record)
{
    struct lli_unpack *unpack = &rx->unpack;
    const struct lli_wire_header header = {.first = record->size, .number = (uint32_t)unpack->number};
    const struct lli_wire_place *part = &rx->lvc.part;

    if (lli_wire_is_before(part, &record->at) || lli_wire_is_before(&record->at, part) || unpack->broken ||
        !(unpack->passing || (unpack->assembling && record->size <= unpack->total - unpack->have)))
        return false;
    if (rx->slow_path & LLI_RX_FILTERING)
        lli_rx_filter_begin(rx, &header, record->bytes, record->size);
    else
        lli_unpack_begin(unpack, &header, record->bytes, record->size);
    return true;
}

/* Advances to the next message, or part of one, in the packet being read; false: there is none. */
static bool kept_next_record(struct lli_rx *rx)
{
    struct lli_rx_lvc *lvc = &rx->lvc;
    struct lli_wire_record record;

    while (lli_wire_next_record(&lvc->records, &record)) {
        if (lli_wire_is_before(&record.at, &lvc->next))
            continue;
        if (record.at.offset > 0 ? !kept_unpack_more(rx, &record) : !kept_unpack(rx, &record))
            continue;
        lvc->part = record.at;
        lvc->part.offset += record.size;
        return true;
    }
    return false;
}

/* Ends the fetch, complete or given up, and continues with the stream. */
static void kept_end(struct lli_rx *rx, lli_ns now)
{
    lli_rx_lvc_drop(rx);
    lli_unpack_reset(&rx->unpack, rx->first);
    if (rx->gap.next != rx->heartbeat.start)
        lli_unpack_break(&rx->unpack);
    rx->tries = 0;
    rx->replay_distance = 0;
    rx->replayed_at = rx->fetch_at = now;
}

bool lli_rx_next_lvc(struct lli_rx *rx, lli_ns now)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    for (;;) {
        if (lvc->reading) {
            if (kept_next_record(rx))
                return true;
            lvc->next = lvc->until;
            lvc->reading = false;
        }
        if (!kept_pass(rx)) {
            kept_end(rx, now);
            return true;
        }
        if (!kept_take(rx))
            return false;
    }
}

bool lli_rx_lost_lvc(struct lli_rx *rx, lli_ns now, struct lli_item *item)
{
    const enum llm_reason reason = rx->lvc.lost != LLM_REASON_NONE ? rx->lvc.lost : rx->end_reason;

    if (reason == LLM_REASON_NONE)
        return false;
    item->kind = LLI_ITEM_EVENT;
    item->event = (struct llm_event){
        .kind = LLM_EVENT_CACHE_LOST,
        .reason = reason,
        .session = rx->session,
        .first = rx->first,
        .topic_id = rx->lvc.next.topic,
        .topic = lli_topics_name(&rx->topics, rx->lvc.next.topic),
    };
    rx->counters->cache_losses++;
    kept_end(rx, now);
    return true;
}

/* ---------------------------------------------------------------------------------------- requests out */

/* Adds the parts of a span on wanted topics, as far as there is room. */
static void kept_add_spans(const struct lli_rx *rx, struct lli_wire_join *join, struct lli_wire_span span)
{
    while (join->count < LLI_WIRE_SPANS_MAX && lli_wire_is_before(&span.from, &span.to)) {
        struct lli_wire_place end = {.topic = span.from.topic};

        if (kept_is_refused(rx, span.from.topic)) {
            span.from = (struct lli_wire_place){.topic = span.from.topic + 1};
            continue;
        }
        while (end.topic < rx->topics.limit && end.topic <= span.to.topic && !kept_is_refused(rx, end.topic))
            end.topic++;
        /* Topics beyond the limit cannot be refused. */
        end = end.topic < rx->topics.limit && lli_wire_is_before(&end, &span.to) ? end : span.to;
        join->spans[join->count++] = (struct lli_wire_span){span.from, end};
        span.from = end;
    }
}

/* Lists everything missing and wanted, in order. */
static void kept_missing(const struct lli_rx *rx, struct lli_wire_join *join)
{
    const struct lli_rx_lvc *lvc = &rx->lvc;
    struct lli_wire_place from = lvc->next;

    for (uint32_t i = 0; i < lvc->held_count; i++) {
        const struct lli_wire_span *span = &lvc->held[i].span;

        kept_add_spans(rx, join, (struct lli_wire_span){from, span->from});
        if (lli_wire_is_before(&from, &span->to))
            from = span->to;
    }
    kept_add_spans(rx, join, (struct lli_wire_span){from, {.topic = lvc->topics}});
}

bool lli_rx_control_lvc(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    /* Packets after a loss have to be buffered, besides live ones. */
    const uint64_t room = lli_max(lli_reorder_packets(rx->reorder, rx->reorder->left), KEPT_PIECE_MIN);
    struct lli_wire_join join = {
        .session = rx->session,
        .receiver = rx->config->receiver,
        .kind = LLI_WIRE_JOIN_LATEST,
        .from = LLM_JOIN_LATEST,
        .value = rx->lvc.most,
        .number = rx->lvc.number,
        .wanted = lli_min(KEPT_PIECE, room),
        .address = rx->config->address,
        .token = lli_rx_token(rx),
    };

    /* Before the names of topics are known, an LVC message's topic cannot be named, nor its subscription decided. */
    if (now < rx->fetch_at || rx->slow_path & LLI_RX_LEARNING)
        return false;
    if (now >= rx->replayed_at + rx->config->nak_giveup) {
        rx->lvc.lost = LLM_REASON_TIMEOUT;
        return false;
    }
    kept_missing(rx, &join);
    rx->fetch_at = now + lli_rx_retry_after(rx, lli_rx_request_time(rx) + KEPT_PATIENCE * rx->replay_distance);
    if (join.count == 0)
        return false;
    rx->tries++;
    rx->counters->cache_fetches_sent++;
    return lli_rx_packet(rx, buffer, lli_wire_put_join(buffer, &join), packet);
}
