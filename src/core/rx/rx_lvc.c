/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a receiver that joins gets the last messages of topics that keep them (section 12.3). The window was put to where the stream goes
 * on; what comes of that is held, or fetched later, until all that is kept and wanted came, a piece at a time.
 *
 * A packet of it names from which place to which it has all there is, so what is missing is a list of spans whatever was lost: a packet
 * that begins where something is missing is given as it comes, others are held until those before them are there.
 */
#include "core/rx/rx_internal.h"

enum {
    KEPT_PIECE = 256, /* packets asked for at a time ... */
    KEPT_PIECE_MIN = 32, /* ... where there is room to hold them; where what is live fills that, what comes in order needs none */
    KEPT_HELD = 256,  /* packets held */
};

/* A packet that is late by so many of the distances between two is asked for again. */
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
    rx->aside |= LLI_RX_LATEST;
}

/* ----------------------------------------------------------------------------------------------- what is held */

static void kept_forget(struct lli_rx *rx, uint32_t index)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    lvc->held_count--;
    memmove(lvc->held + index, lvc->held + index + 1, (lvc->held_count - index) * sizeof *lvc->held);
}

void lli_rx_lvc_drop(struct lli_rx *rx)
{
    if (!(rx->aside & LLI_RX_LATEST))
        return;
    rx->lvc.reading = false;
    for (uint32_t i = 0; i < rx->lvc.held_count; i++)
        lli_rx_give_back(rx, rx->lvc.held[i].cell);
    rx->lvc.held_count = 0;
    rx->aside &= (uint8_t)~LLI_RX_LATEST;
}

/* Holds a packet that comes before its turn, unless another one has all that it has. */
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

/* Goes on to a packet that is held and whose turn it is; false: there is none. */
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

/* ------------------------------------------------------------------------------------------------ packets in */

/* When what is missing is asked for again, now that something came; left: so many packets may follow. */
static void kept_came(struct lli_rx *rx, uint16_t left, lli_ns now)
{
    const lli_ns distance = lli_min(now - rx->replayed_at, LLI_RX_JOIN_RETRY_MAX);

    rx->replay_distance = rx->replay_distance == 0 ? distance : (rx->replay_distance * 7 + distance) / 8;
    rx->replayed_at = now;
    rx->tries = 0;
    /* The last one may just have overtaken what is missing before it. */
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
    rx->counters->kept_packets_received++;
    /* Late, or of an earlier grant, or not asked for. */
    if (!(rx->aside & LLI_RX_LATEST) || rx->aside & LLI_RX_LEARNING || packet->number != lvc->number || lvc->reading)
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

/* --------------------------------------------------------------------------------------------- messages out */

static bool kept_is_refused(const struct lli_rx *rx, uint32_t topic)
{
    return lli_topics_is_refused(&rx->topics, topic);
}

/* Passes over topics that are not wanted. False: none is left. */
static bool kept_pass(struct lli_rx *rx)
{
    struct lli_rx_lvc *lvc = &rx->lvc;

    while (lvc->next.topic < lvc->topics && kept_is_refused(rx, lvc->next.topic))
        lvc->next = (struct lli_wire_place){.topic = lvc->next.topic + 1};
    return lvc->next.topic < lvc->topics;
}

/* Whether a record is of one message, whole or its first part, and nothing else. */
static bool kept_is_message(const struct lli_wire_record *record)
{
    const uint8_t *const end = record->bytes + record->size;
    struct lli_frame frame;
    const uint8_t *at = lli_frame_get(record->bytes, end, &frame);

    if (*record->bytes == LLI_FRAME_ATTRIBUTES && at < end)
        at = lli_frame_get(at, end, &frame);
    return frame.kind == LLI_FRAME_MESSAGE && frame.value >= (size_t)(end - at);
}

/* Begins with a message: it is unpacked as if it were a packet of its own. False: it is none. */
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

/* Goes on with one of which the first part came. False: it was displaced, and this is of another, or it was not begun. */
static bool kept_unpack_more(struct lli_rx *rx, const struct lli_wire_record *record)
{
    struct lli_unpack *unpack = &rx->unpack;
    const struct lli_wire_header header = {.first = record->size, .number = (uint32_t)unpack->number};
    const struct lli_wire_place *part = &rx->lvc.part;

    if (lli_wire_is_before(part, &record->at) || lli_wire_is_before(&record->at, part) || unpack->broken ||
        !(unpack->passing || (unpack->assembling && record->size <= unpack->total - unpack->have)))
        return false;
    if (rx->aside & LLI_RX_FILTERING)
        lli_rx_filter_begin(rx, &header, record->bytes, record->size);
    else
        lli_unpack_begin(unpack, &header, record->bytes, record->size);
    return true;
}

/* Goes on to the next message, or part of one, of the packet that is being read; false: there is none. */
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

/* What is kept came, or is given up: the stream goes on. */
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
        .kind = LLM_EVENT_KEPT_LOST,
        .reason = reason,
        .session = rx->session,
        .first = rx->first,
        .topic_id = rx->lvc.next.topic,
        .topic = lli_topics_name(&rx->topics, rx->lvc.next.topic),
    };
    rx->counters->kept_lost++;
    kept_end(rx, now);
    return true;
}

/* ----------------------------------------------------------------------------------------------- requests out */

/* Adds what of a span is of topics that are wanted, as far as there is room. */
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
        /* Those beyond the limit cannot be refused. */
        end = end.topic < rx->topics.limit && lli_wire_is_before(&end, &span.to) ? end : span.to;
        join->spans[join->count++] = (struct lli_wire_span){span.from, end};
        span.from = end;
    }
}

/* Everything that is missing and wanted, the first first. */
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
    /* What comes behind a loss has to be held, beside what is live. */
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

    /* Of which topics it is nobody can say before their names are known, nor whether it is wanted. */
    if (now < rx->fetch_at || rx->aside & LLI_RX_LEARNING)
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
    rx->counters->kept_fetches_sent++;
    return lli_rx_packet(rx, buffer, lli_wire_put_join(buffer, &join), packet);
}
