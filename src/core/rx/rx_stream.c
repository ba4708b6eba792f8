/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that continue a stream (docs/protocol.md section 4.5). A session of a stream is not followed before
 * the receiver decided about it, and ended the session that it continues: until then its packets are buffered
 * as those of a session without a heartbeat.
 */
#include "core/rx/rx_internal.h"

void lli_rx_stream_start(struct lli_rx *rx)
{
    rx->stream = (struct lli_rx_stream){.asks = false};
}

bool lli_rx_stream_found(struct lli_rx *rx)
{
    const struct lli_wire_heartbeat *heartbeat = &rx->heartbeat;

    if (heartbeat->stream == 0 || rx->config->streams == NULL)
        return false;
    rx->stream.claim = (struct lli_stream_claim){.stream = heartbeat->stream,
                                                 .session = heartbeat->session,
                                                 .base = heartbeat->base,
                                                 .term = heartbeat->term,
                                                 /* The sequence of messages ahead of order is not known. */
                                                 .merges = heartbeat->merges && !lli_rx_as_it_arrives(rx)};
    rx->stream.heartbeats++;
    rx->stream.asks = true;
    return true;
}

/* Finds the session that the stream's next one ends; NULL: it is not followed. */
static struct lli_rx *stream_before(const struct lli_rx *rx, struct lli_rx *sessions, uint32_t count)
{
    const uint64_t session = lli_streams_session(rx->config->streams, rx->stream.claim.stream);

    for (uint32_t i = 0; session != 0 && i < count; i++)
        if (sessions[i].session == session && &sessions[i] != rx && lli_rx_is_followed(&sessions[i]))
            return &sessions[i];
    return NULL;
}

/*
 * Ends a session that another one continues. What is buffered is delivered. Packets after that are not lost:
 * the numbers of the next session tell which messages are missing.
 */
static void stream_supersede(struct lli_rx *rx)
{
    if (rx->state != LLI_RX_LIVE) {
        lli_rx_stop(rx);
        return;
    }
    lli_gap_retract(&rx->gap, rx->gap.next);
    rx->replay.end = lli_min(rx->replay.end, rx->gap.end);
    lli_rx_end(rx, LLM_REASON_SUPERSEDED);
    lli_rx_unsettle(rx);
    lli_rx_need_service(rx);
}

static void stream_event(const struct lli_rx *rx, enum llm_event_kind kind, struct llm_event *event)
{
    const struct lli_stream_claim *claim = &rx->stream.claim;

    *event = (struct llm_event){.kind = kind,
                                .session = claim->session,
                                .stream = claim->stream,
                                .stream_base = claim->base,
                                .stream_term = claim->term};
}

bool lli_rx_stream_ask(struct lli_rx *rx, struct lli_rx *sessions, uint32_t count, struct lli_rx **before,
                       struct llm_event *event)
{
    struct lli_rx *predecessor = stream_before(rx, sessions, count);
    const enum lli_stream_verdict verdict =
        lli_streams_ask(rx->config->streams, &rx->stream.claim, rx->stream.heartbeats,
                        predecessor != NULL && !predecessor->heard.silent);

    rx->stream.asks = false;
    *event = (struct llm_event){.reason = LLM_REASON_NONE};
    *before = predecessor;
    if (verdict == LLI_STREAM_FOLLOW) {
        if (predecessor != NULL)
            stream_supersede(predecessor);
        return true;
    }
    if (verdict == LLI_STREAM_WAIT || (verdict == LLI_STREAM_TAKEN && rx->stream.taken))
        return false;
    stream_event(rx, LLM_EVENT_STREAM_REFUSED, event);
    event->reason = LLM_REASON_SUPERSEDED;
    if (verdict == LLI_STREAM_TAKEN) {
        event->reason = LLM_REASON_TERM_TAKEN;
        rx->stream.taken = true;
        return false;
    }
    rx->counters->stream_sessions_refused++;
    lli_rx_unsettle(rx);
    lli_rx_drop_packets(rx);
    rx->state = LLI_RX_REFUSED;
    return false;
}

void lli_rx_stream_begin(struct lli_rx *rx, lli_ns now)
{
    assert(rx->state == LLI_RX_JOINING);
    lli_rx_unsettle(rx);
    lli_rx_need_service(rx);
    lli_rx_follow_found(rx, now);
    if (lli_rx_is_followed(rx))
        lli_rx_stream_resumed(rx);
}

void lli_rx_stream_resumed(struct lli_rx *rx)
{
    if (rx->stream.claim.stream == 0)
        return;
    lli_streams_follow(rx->config->streams, &rx->stream.claim);
    if (rx->stream.claim.merges)
        lli_rx_merge_begin(rx);
}

bool lli_rx_stream_is_superseded(const struct lli_rx *rx)
{
    return rx->stream.claim.stream != 0 && lli_streams_ask(rx->config->streams, &rx->stream.claim,
                                                           LLI_STREAM_HEARTBEATS, true) != LLI_STREAM_FOLLOW;
}

/* Returns the event of messages that no merged session has. */
static bool stream_merge_seam(struct lli_rx *rx, struct lli_item *item)
{
    const uint64_t number = rx->stream.claim.base + rx->join.first;
    uint64_t first;

    if (!lli_rx_merge_seam(rx, number, &first))
        return false;
    stream_event(rx, LLM_EVENT_STREAM_GAP, &item->event);
    item->event.reason = LLM_REASON_RESTARTED;
    item->event.first = first;
    item->event.last = number - 1;
    rx->counters->stream_messages_missing += number - first;
    return true;
}

bool lli_rx_stream_new(struct lli_rx *rx, struct lli_item *item)
{
    const uint64_t first = rx->join.first;
    struct lli_stream_seam seam;

    item->kind = LLI_ITEM_EVENT;
    if (!rx->stream.announced) {
        stream_event(rx, LLM_EVENT_SESSION_NEW, &item->event);
        item->event.session = rx->session;
        item->event.first = first;
        rx->stream.announced = rx->stream.claim.stream != 0;
        if (!rx->stream.announced)
            lli_rx_clear_news(rx, LLI_RX_NEW);
        return true;
    }
    rx->stream.announced = false;
    lli_rx_clear_news(rx, LLI_RX_NEW);
    if (rx->stream.merge != NULL)
        return stream_merge_seam(rx, item);
    seam = lli_streams_begin(rx->config->streams, &rx->stream.claim, first);
    rx->counters->streams_continued += seam.kind != LLI_STREAM_FIRST;
    if (seam.kind != LLI_STREAM_MISSING && seam.kind != LLI_STREAM_AGAIN)
        return false;
    stream_event(rx, seam.kind == LLI_STREAM_MISSING ? LLM_EVENT_STREAM_GAP : LLM_EVENT_STREAM_AGAIN,
                 &item->event);
    item->event.reason = LLM_REASON_RESTARTED;
    item->event.first = seam.first;
    item->event.last = seam.last;
    *(seam.kind == LLI_STREAM_MISSING ? &rx->counters->stream_messages_missing
                                      : &rx->counters->stream_messages_again) += seam.last + 1 - seam.first;
    return true;
}

void lli_rx_stream_reached(const struct lli_rx *rx, uint64_t number)
{
    if (rx->stream.claim.stream != 0)
        lli_streams_reach(rx->config->streams, &rx->stream.claim, number);
}

void lli_rx_stream_left(struct lli_rx *rx)
{
    if (rx->stream.claim.stream == 0)
        return;
    lli_streams_leave(rx->config->streams, &rx->stream.claim);
    if (rx->stream.merge != NULL)
        lli_rx_merge_end(rx);
}
