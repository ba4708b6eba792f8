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
    LVC_PIECE = 256, /* packets requested at a time ... */
    /* ... as far as there is room to buffer them, but at least this many: those in order need no room */
    LVC_PIECE_MIN = 32,
    LVC_BUFFERED_MAX = 256, /* packets buffered */
};

/* An LVC packet that is late by this many mean intervals is requested again. */
enum { LVC_PATIENCE = 4 };

struct lli_rx_lvc_packet {
    struct lli_wire_span span;
    uint32_t cell;
};

void lli_rx_lvc_init(struct lli_rx *rx, struct lli_arena *arena)
{
    rx->lvc.buffered = lli_arena_take(arena, LVC_BUFFERED_MAX * sizeof *rx->lvc.buffered, 64);
}

void lli_rx_lvc_granted(struct lli_rx *rx, const struct lli_wire_join *granted)
{
    if (granted->from != LLM_JOIN_LATEST) {
        rx->lvc.live = 0;
        return;
    }
    rx->lvc = (struct lli_rx_lvc){
        .buffered = rx->lvc.buffered,
        .number = granted->number,
        .live = granted->number,
        .most = granted->value,
        .topics = granted->topics,
    };
    lli_rx_set_slow_path(rx, LLI_RX_LATEST);
}

/* ------------------------------------------------------------------------------------ buffered packets */

static void lvc_remove(struct lli_rx *rx, uint32_t index)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    lvc->buffered_count--;
    memmove(lvc->buffered + index, lvc->buffered + index + 1,
            (lvc->buffered_count - index) * sizeof *lvc->buffered);
}

void lli_rx_lvc_drop(struct lli_rx *rx)
{
    if (!(rx->pending.slow_path & LLI_RX_LATEST))
        return;
    rx->lvc.reading = false;
    for (uint32_t i = 0; i < rx->lvc.buffered_count; i++)
        lli_rx_give_back(rx, rx->lvc.buffered[i].cell);
    rx->lvc.buffered_count = 0;
    lli_rx_clear_slow_path(rx, LLI_RX_LATEST);
}

/* Buffers a packet ahead of order, unless another one covers its span. */
static void lvc_buffer(struct lli_rx *rx, const struct lli_wire_span *span, const struct lli_reader *records)
{
    struct lli_rx_lvc *lvc = &rx->lvc;
    uint32_t at = lvc->buffered_count, cell;

    while (at > 0 && lli_wire_is_before(&span->from, &lvc->buffered[at - 1].span.from))
        at--;
    if (at > 0 && !lli_wire_is_before(&lvc->buffered[at - 1].span.to, &span->to)) {
        rx->counters->packets_duplicate++;
        return;
    }
    cell = lvc->buffered_count == LVC_BUFFERED_MAX
               ? LLI_REORDER_NONE
               : lli_rx_put(rx, records->at, (uint32_t)(records->end - records->at));
    if (cell == LLI_REORDER_NONE) {
        rx->counters->reorder_full++;
        return;
    }
    memmove(lvc->buffered + at + 1, lvc->buffered + at, (lvc->buffered_count - at) * sizeof *lvc->buffered);
    lvc->buffered[at] = (struct lli_rx_lvc_packet){*span, cell};
    lvc->buffered_count++;
}

/* Starts reading the buffered packet that is next in order; false: there is none. */
static bool lvc_take(struct lli_rx *rx)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    while (lvc->buffered_count > 0 && !lli_wire_is_before(&lvc->next, &lvc->buffered[0].span.from)) {
        const struct lli_rx_lvc_packet buffered = lvc->buffered[0];
        const uint8_t *bytes;
        uint32_t size;

        lvc_remove(rx, 0);
        bytes = lli_reorder_get(rx->buffer.reorder, buffered.cell, LLI_REORDER_TURN, &size);
        lli_rx_give_back(rx, buffered.cell);
        if (lli_wire_is_before(&lvc->next, &buffered.span.to)) {
            lvc->records = lli_reader_of(bytes, size);
            lvc->until = buffered.span.to;
            return lvc->reading = true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------------------------------ packets in */

/* Sets the time of the next request after a packet arrived. left: further packets that may follow. */
static void lvc_received(struct lli_rx *rx, uint16_t left, lli_ns now)
{
    lli_rx_request_answered(rx, now);
    /* The last packet may just have overtaken missing ones. */
    lli_rx_request_at(rx, now + (left > 0 ? lli_rx_request_time(rx) + LVC_PATIENCE * rx->replay.distance
                                 : rx->lvc.buffered_count > 0 ? rx->config->nak_retry_min
                                                              : 0));
}

void lli_rx_input_lvc(struct lli_rx *rx, const struct lli_wire_lvc *packet, const struct lli_reader *records,
                      lli_ns now)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    if (packet->receiver != rx->config->receiver) {
        rx->counters->control_foreign++;
        return;
    }
    rx->counters->cache_packets_received++;
    /* Late, of an earlier grant, or not requested. */
    if (!(rx->pending.slow_path & LLI_RX_LATEST) || rx->pending.slow_path & LLI_RX_LEARNING ||
        packet->number != lvc->number || lvc->reading)
        return;
    if (!lli_wire_is_before(&lvc->next, &packet->span.to)) {
        rx->counters->packets_duplicate++;
        return;
    }
    if (lli_wire_is_before(&lvc->next, &packet->span.from)) {
        lvc_buffer(rx, &packet->span, records);
    } else {
        lvc->records = *records;
        lvc->until = packet->span.to;
        lvc->reading = true;
    }
    lvc->live = lli_max(lvc->live, packet->next);
    lvc_received(rx, packet->left, now);
}

/* ---------------------------------------------------------------------------------------- messages out */

static bool lvc_is_refused(const struct lli_rx *rx, uint32_t topic)
{
    return lli_topics_is_refused(&rx->topics, topic);
}

/* Skips topics that are not wanted. False: none is left. */
static bool lvc_pass(struct lli_rx *rx)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    while (lvc->next.topic < lvc->topics && lvc_is_refused(rx, lvc->next.topic))
        lvc->next = (struct lli_wire_place){.topic = lvc->next.topic + 1};
    return lvc->next.topic < lvc->topics;
}

/* True if a record is one message, whole or its first part, and nothing else. */
static bool lvc_is_message(const struct lli_wire_record *record)
{
    const uint8_t *const end = record->bytes + record->size;
    struct lli_frame frame;
    const uint8_t *at = lli_frame_get(record->bytes, end, &frame);

    if (*record->bytes == LLI_FRAME_ATTRIBUTES && at < end)
        at = lli_frame_get(at, end, &frame);
    return frame.kind == LLI_FRAME_MESSAGE && frame.value >= (size_t)(end - at);
}

/* Starts a message, unpacked as if it were a packet of its own. False: malformed. */
static bool lvc_unpack(struct lli_rx *rx, const struct lli_wire_record *record)
{
    struct lli_unpack *unpack = &rx->unpack;

    if (!lvc_is_message(record)) {
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
static bool lvc_unpack_more(struct lli_rx *rx, const struct lli_wire_record *record)
{
    struct lli_unpack *unpack = &rx->unpack;
    const struct lli_wire_header header = {.first = record->size, .number = (uint32_t)unpack->number};
    const struct lli_wire_place *part = &rx->lvc.part;

    if (lli_wire_is_before(part, &record->at) || lli_wire_is_before(&record->at, part) || unpack->broken ||
        !(unpack->passing || (unpack->assembling && record->size <= unpack->total - unpack->have)))
        return false;
    if (rx->pending.slow_path & LLI_RX_FILTERING)
        lli_rx_filter_begin(rx, &header, record->bytes, record->size);
    else
        lli_unpack_begin(unpack, &header, record->bytes, record->size);
    return true;
}

/* Advances to the next message, or part of one, in the packet being read; false: there is none. */
static bool lvc_next_record(struct lli_rx *rx)
{
    struct lli_rx_lvc *lvc = &rx->lvc;
    struct lli_wire_record record;

    while (lli_wire_next_record(&lvc->records, &record)) {
        if (lli_wire_is_before(&record.at, &lvc->next))
            continue;
        if (record.at.offset > 0 ? !lvc_unpack_more(rx, &record) : !lvc_unpack(rx, &record))
            continue;
        lvc->part = record.at;
        lvc->part.offset += record.size;
        return true;
    }
    return false;
}

/* Ends the fetch, complete or given up, and continues with the stream. */
static void lvc_end(struct lli_rx *rx, lli_ns now)
{
    lli_rx_lvc_drop(rx);
    lli_unpack_reset(&rx->unpack, rx->join.first);
    if (rx->gap.next != rx->heartbeat.start)
        lli_unpack_break(&rx->unpack);
    lli_rx_request_start(rx, now);
}

void lli_rx_lvc_lose(struct lli_rx *rx, enum llm_reason reason)
{
    rx->lvc.lost = reason;
}

bool lli_rx_next_lvc(struct lli_rx *rx, lli_ns now)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    for (;;) {
        if (lvc->reading) {
            if (lvc_next_record(rx))
                return true;
            lvc->next = lvc->until;
            lvc->reading = false;
        }
        if (!lvc_pass(rx)) {
            lvc_end(rx, now);
            return true;
        }
        if (!lvc_take(rx))
            return false;
    }
}

bool lli_rx_lost_lvc(struct lli_rx *rx, lli_ns now, struct lli_item *item)
{
    const enum llm_reason reason = rx->lvc.lost != LLM_REASON_NONE ? rx->lvc.lost : rx->loss.end_reason;

    if (reason == LLM_REASON_NONE)
        return false;
    item->kind = LLI_ITEM_EVENT;
    item->event = (struct llm_event){
        .kind = LLM_EVENT_CACHE_LOST,
        .reason = reason,
        .session = rx->session,
        .first = rx->join.first,
        .topic_id = rx->lvc.next.topic,
        .topic = lli_topics_name(&rx->topics, rx->lvc.next.topic),
    };
    rx->counters->cache_losses++;
    lvc_end(rx, now);
    return true;
}

/* ---------------------------------------------------------------------------------------- requests out */

/* Adds the parts of a span on wanted topics, as far as there is room. */
static void lvc_add_spans(const struct lli_rx *rx, struct lli_wire_join *join, struct lli_wire_span span)
{
    while (join->count < LLI_WIRE_SPANS_MAX && lli_wire_is_before(&span.from, &span.to)) {
        struct lli_wire_place end = {.topic = span.from.topic};

        if (lvc_is_refused(rx, span.from.topic)) {
            span.from = (struct lli_wire_place){.topic = span.from.topic + 1};
            continue;
        }
        while (end.topic < rx->topics.limit && end.topic <= span.to.topic && !lvc_is_refused(rx, end.topic))
            end.topic++;
        /* Topics beyond the limit cannot be refused. */
        end = end.topic < rx->topics.limit && lli_wire_is_before(&end, &span.to) ? end : span.to;
        join->spans[join->count++] = (struct lli_wire_span){span.from, end};
        span.from = end;
    }
}

/* Lists everything missing and wanted, in order. */
static void lvc_missing(const struct lli_rx *rx, struct lli_wire_join *join)
{
    const struct lli_rx_lvc *lvc = &rx->lvc;
    struct lli_wire_place from = lvc->next;

    for (uint32_t i = 0; i < lvc->buffered_count; i++) {
        const struct lli_wire_span *span = &lvc->buffered[i].span;

        lvc_add_spans(rx, join, (struct lli_wire_span){from, span->from});
        if (lli_wire_is_before(&from, &span->to))
            from = span->to;
    }
    lvc_add_spans(rx, join, (struct lli_wire_span){from, {.topic = lvc->topics}});
}

bool lli_rx_control_lvc(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    /* Packets after a loss have to be buffered, besides live ones. */
    const uint64_t room =
        lli_max(lli_reorder_packets(rx->buffer.reorder, rx->buffer.reorder->left), LVC_PIECE_MIN);
    struct lli_wire_join join = {
        .session = rx->session,
        .receiver = rx->config->receiver,
        .kind = LLI_WIRE_JOIN_LATEST,
        .from = LLM_JOIN_LATEST,
        .value = rx->lvc.most,
        .number = rx->lvc.number,
        .wanted = lli_min(LVC_PIECE, room),
        .address = rx->config->address,
        .token = lli_rx_token(rx),
    };

    /*
     * Before the names of topics are known, an LVC message's topic cannot be named, nor its subscription
     * decided.
     */
    if (now < rx->replay.fetch_at || rx->pending.slow_path & LLI_RX_LEARNING)
        return false;
    if (now >= rx->replay.at + rx->config->nak_giveup) {
        rx->lvc.lost = LLM_REASON_TIMEOUT;
        return false;
    }
    lvc_missing(rx, &join);
    lli_rx_request_at(
        rx, now + lli_rx_retry_after(rx, lli_rx_request_time(rx) + LVC_PATIENCE * rx->replay.distance));
    if (join.count == 0)
        return false;
    lli_rx_request_sent(rx);
    rx->counters->cache_fetches_sent++;
    return lli_rx_packet(rx, buffer, lli_wire_put_join(buffer, &join), packet);
}
