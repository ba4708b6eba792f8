/* SPDX-License-Identifier: Apache-2.0 */
/* Delivery of a followed session: messages and events, in order. */
#include "core/rx/former.h"
#include "core/rx/rx_internal.h"

void lli_rx_deliver_start(struct lli_rx *rx)
{
    rx->pending = (struct lli_rx_pending){.service_due = true};
    rx->loss = (struct lli_rx_loss){.broken_reason = LLM_REASON_MALFORMED};
}

void lli_rx_forget_losses(struct lli_rx *rx)
{
    rx->loss.reported_first = rx->loss.reported_end = 0;
    rx->loss.run = rx->loss.run_first = rx->loss.uncounted = 0;
    rx->loss.broken_reason = LLM_REASON_MALFORMED;
    rx->loss.passed = false;
    rx->loss.gone_below = 0;
    rx->pending.lag &= (uint8_t)~LLI_RX_CHASED;
}

/*
 * Makes an item of a loss, up to the first message that was delivered ahead of order; the rest is news.
 * False: no message and no packet was lost up to there.
 */
static bool rx_gap_item(struct lli_rx *rx, const struct lli_unpacked *lost, enum llm_reason reason,
                        struct lli_item *item)
{
    const bool merges = rx->pending.news & LLI_RX_MERGES;
    struct lli_unpacked shown = *lost;

    if (merges && !lli_rx_merge_lost(rx, &shown)) {
        rx->loss.broken_reason = LLM_REASON_MALFORMED;
        rx->loss.passed = false;
        rx->loss.run = 0;
        return false;
    }
    if (merges)
        lost = &shown;
    if (lli_rx_as_it_arrives(rx) && reason != LLM_REASON_TOO_LONG && reason != LLM_REASON_SKIPPED &&
        lli_rx_unordered_split(rx, &shown, reason))
        lost = &shown;
    rx->loss.broken_reason = LLM_REASON_MALFORMED;
    rx->loss.passed = false;
    if (rx->loss.run == 0 && lost->last + 1 == lost->number)
        return false;
    (void)lli_rx_event(rx, LLM_EVENT_GAP, item);
    item->event.reason = reason;
    item->event.first = lost->number;
    item->event.last = lost->last;
    item->event.packets = rx->loss.run;
    if (merges) {
        item->event.first += rx->stream.claim.base;
        item->event.last += rx->stream.claim.base;
    }
    rx->loss.run = 0;
    /*
     * The acknowledged run restarts after the loss: earlier messages were acknowledged or never will be.
     * Unreliable messages and skipped numbers are not acknowledged and leave the run intact.
     */
    if (lost->last + 1 > lost->number && reason != LLM_REASON_UNRELIABLE && reason != LLM_REASON_SKIPPED)
        lli_rx_acknowledge_restart(rx, lli_max(rx->report.acknowledged_from, lost->last + 1));
    if (rx->loss.reported_first == rx->loss.reported_end || rx->loss.reported_end != lost->number)
        rx->loss.reported_first = lost->number;
    rx->loss.reported_end = lost->last + 1;
    rx->counters->gaps++;
    rx->counters->messages_lost += lost->last + 1 - lost->number;
    return true;
}

/* Events outside the stream. */
static bool rx_next_news(struct lli_rx *rx, struct lli_item *item)
{
    if (rx->pending.news & LLI_RX_NEW && lli_rx_stream_new(rx, item))
        return true;
    while (rx->pending.news & LLI_RX_REST) {
        const struct lli_unpacked rest = rx->unordered.rest;

        rx->pending.news &= (uint16_t)~LLI_RX_REST;
        if (rx_gap_item(rx, &rest, rx->unordered.rest_reason, item))
            return true;
    }
    if (rx->pending.news & LLI_RX_SILENT) {
        rx->pending.news &= (uint16_t)~LLI_RX_SILENT;
        return lli_rx_event(rx, LLM_EVENT_HEARTBEAT_LOST, item);
    }
    if (rx->pending.news & LLI_RX_RESUMED) {
        rx->pending.news &= (uint16_t)~LLI_RX_RESUMED;
        return lli_rx_event(rx, LLM_EVENT_RESUMED, item);
    }
    if (rx->pending.news & LLI_RX_LINE)
        return lli_rx_line_item(rx, item);
    if (rx->pending.news & LLI_RX_STANDING)
        return lli_rx_standing_item(rx, item);
    return lli_rx_next_topic(rx, item);
}

/*
 * Takes whole messages that each follow a topic frame, while their topics need nothing but delivery: where
 * topics take turns, nearly all do.
 */
static LLI_OUT_OF_LINE void rx_next_in_turn(struct lli_rx *rx, struct lli_item *item)
{
    struct lli_unpack *unpack = &rx->unpack;
    const uint8_t *end = unpack->end;
    const uint8_t *at = unpack->at;
    uint64_t number = unpack->number;
    uint32_t count = (uint32_t)item->count;

    while (count < LLI_ITEM_MESSAGES_MAX && at < end) {
        struct lli_frame topic, frame;
        const uint8_t *data = lli_frame_get(at, end, &topic);

        if (topic.kind != LLI_FRAME_TOPIC || data == end || !lli_topics_is_plain(&rx->topics, topic.value))
            break;
        data = lli_frame_get(data, end, &frame);
        if (frame.kind != LLI_FRAME_MESSAGE || frame.value > (size_t)(end - data))
            break;
        item->messages[count++] = (struct llm_message){
            .data = data,
            .size = frame.value,
            .topic_id = topic.value,
            .topic = lli_topics_known_name(&rx->topics, topic.value),
            .number = number++,
            .session = rx->session,
            .received_at = rx->stamp_ns,
        };
        unpack->topic = topic.value;
        at = data + frame.value;
    }
    unpack->at = at;
    unpack->number = number;
    item->count = (int)count;
}

/* True if a frame of a topic may come next, of a packet that began with a whole frame. */
static inline bool rx_is_topic_next(const struct lli_unpack *unpack)
{
    return unpack->at < unpack->end && *unpack->at >= LLI_FRAME_TOPIC_SHORT && !unpack->broken &&
           !unpack->assembling;
}

/* Adds the next messages of the packet, or of a piece of it, without those of refused topics. */
static LLI_INLINE void rx_take_messages(struct lli_rx *rx, struct lli_item *item)
{
    struct llm_message like = {.session = rx->session, .received_at = rx->stamp_ns};
    uint32_t topic;

    while (item->count < LLI_ITEM_MESSAGES_MAX && !lli_unpack_is_done(&rx->unpack)) {
        uint32_t entry;
        int count;

        if (rx_is_topic_next(&rx->unpack))
            rx_next_in_turn(rx, item);
        if (item->count == LLI_ITEM_MESSAGES_MAX || !lli_unpack_peek(&rx->unpack, &topic))
            break;
        entry = lli_topics_entry(&rx->topics, topic);
        like.topic = lli_topics_entry_name(&rx->topics, entry);
        count = lli_unpack_messages(&rx->unpack, &like, item->messages + item->count,
                                    LLI_ITEM_MESSAGES_MAX - item->count);
        if (count == 0)
            break;
        if (entry & LLI_TOPICS_MARKS) {
            count = lli_rx_account(rx, topic, item, count);
            if (count == 0) {
                lli_rx_pass_refused(rx);
                continue;
            }
        }
        if (like.topic[0] == '\0')
            rx->counters->topics_unknown += (uint64_t)count;
        item->count += count;
    }
}

/* Adds those of the next pieces of an excerpt, if this one is exhausted. */
static LLI_OUT_OF_LINE void rx_take_pieces(struct lli_rx *rx, struct lli_item *item)
{
    while (lli_rx_excerpt_turn(rx) && item->count < LLI_ITEM_MESSAGES_MAX)
        rx_take_messages(rx, item);
}

/* Returns the next messages, without those of refused topics. */
static LLI_INLINE bool rx_next_messages(struct lli_rx *rx, struct lli_item *item)
{
    item->count = 0;
    rx_take_messages(rx, item);
    if (rx->unpack.rest != NULL)
        rx_take_pieces(rx, item);
    rx->counters->messages_delivered += (uint64_t)item->count;
    item->kind = LLI_ITEM_MESSAGES;
    return item->count > 0;
}

/* Makes an item of numbers that the session skips. A merged session first asks the others. */
static LLI_COLD LLI_OUT_OF_LINE bool rx_skip_item(struct lli_rx *rx, const struct lli_unpacked *unpacked,
                                                  struct lli_item *item)
{
    struct lli_unpacked skipped = *unpacked;

    /* A receiver that joins between these numbers gets those from its own beginning on. */
    skipped.number = lli_max(skipped.number, rx->join.first);
    if (skipped.number > skipped.last)
        return false;
    if (rx->pending.news & LLI_RX_MERGES) {
        lli_rx_merge_skip(rx, &skipped);
        return false;
    }
    return rx_gap_item(rx, &skipped, LLM_REASON_SKIPPED, item);
}

/* Goes on with the next piece of an excerpt; a filter may be set while one is delivered. */
static bool rx_turns(struct lli_rx *rx)
{
    return rx->unpack.rest != NULL && lli_rx_excerpt_turn(rx);
}

/*
 * Returns the next item of the packet being unpacked; `messages` is the function that returns its messages.
 */
static LLI_INLINE bool rx_next_unpacked_by(struct lli_rx *rx, struct lli_item *item,
                                           bool (*messages)(struct lli_rx *, struct lli_item *))
{
    struct lli_unpacked unpacked;

    if (lli_unpack_is_done(&rx->unpack) && !rx_turns(rx))
        return false;
    for (;;) {
        if (messages(rx, item))
            return true;
        if (rx_turns(rx))
            continue;
        lli_unpack_next(&rx->unpack, &unpacked);
        rx->counters->data_malformed += rx->unpack.malformed;
        rx->unpack.malformed = 0;
        switch (unpacked.kind) {
        case LLI_UNPACK_NONE:
            return false;
        case LLI_UNPACK_ANNOUNCE:
            if (lli_rx_announced(rx, &unpacked, item))
                return true;
            break;
        case LLI_UNPACK_LOST:
            if (rx->loss.run == 0 && rx->loss.passed) {
                rx->loss.passed = false;
                rx->loss.broken_reason = LLM_REASON_MALFORMED;
                break;
            }
            if (rx_gap_item(rx, &unpacked, lli_rx_loss_reason(rx), item) || rx_next_news(rx, item))
                return true;
            break;
        case LLI_UNPACK_TOO_LONG:
            if (lli_rx_is_stale(rx, unpacked.topic, unpacked.number))
                break;
            return rx_gap_item(rx, &unpacked, LLM_REASON_TOO_LONG, item);
        case LLI_UNPACK_SKIPPED:
            if (rx_skip_item(rx, &unpacked, item))
                return true;
            break;
        }
    }
}

static bool rx_next_unpacked(struct lli_rx *rx, struct lli_item *item)
{
    return rx_next_unpacked_by(rx, item, rx_next_messages);
}

/* Likewise with a filter: leaves nothing of the packet to the caller. */
static LLI_OUT_OF_LINE bool rx_next_filtered(struct lli_rx *rx, struct lli_item *item)
{
    return rx->pending.news & LLI_RX_FILTERED && rx_next_unpacked_by(rx, item, lli_rx_filtered_messages);
}

/* Likewise for a session that is merged with others. */
static LLI_OUT_OF_LINE bool rx_next_merged(struct lli_rx *rx, struct lli_item *item)
{
    struct lli_unpacked skipped;

    /* Set again by whatever waits for other sessions. */
    rx->stream.retry_at = 0;
    if (lli_rx_merge_skipped(rx, &skipped) && rx_gap_item(rx, &skipped, LLM_REASON_SKIPPED, item))
        return true;
    while (rx_next_filtered(rx, item) || rx_next_unpacked(rx, item))
        if (item->kind != LLI_ITEM_MESSAGES || lli_rx_merge_messages(rx, item))
            return true;
    lli_rx_merge_passed(rx);
    return lli_rx_merge_diverged(rx, item);
}

/* Likewise for a packet with messages delivered ahead of order. */
static LLI_OUT_OF_LINE bool rx_next_of_turn(struct lli_rx *rx, struct lli_item *item)
{
    if (!(rx->pending.news & LLI_RX_TURN))
        return false;
    if (rx_next_unpacked_by(rx, item, lli_rx_turn_messages))
        return true;
    rx->pending.news &= (uint16_t)~LLI_RX_TURN;
    return false;
}

/* Gives up packets. */
static void rx_lose(struct lli_rx *rx, uint64_t packets, enum llm_reason reason)
{
    /* One gap event covers them all, so LLM_REASON_UNRELIABLE has to hold for each of them. */
    if (rx->loss.run == 0 || reason != LLM_REASON_UNRELIABLE)
        rx->loss.run_reason = reason;
    if (rx->loss.run == 0)
        rx->loss.run_first = rx->gap.next;
    rx->loss.run += packets;
    rx->loss.packets += (uint32_t)packets;
    rx->counters->packets_lost += packets;
    rx->counters->packets_unreliable += reason == LLM_REASON_UNRELIABLE ? packets : 0;
}

/*
 * Skips the missing packet next in order, which is not for this receiver. A loss just before it is reported
 * together with it.
 */
static void rx_pass_by(struct lli_rx *rx)
{
    rx->counters->packets_without_history++;
    if (rx->loss.run > 0)
        return;
    rx->loss.passed = true;
    if (!rx->unpack.broken)
        lli_unpack_break(&rx->unpack);
}

/* Returns the reason to give up the missing packet next in order; LLM_REASON_NONE: keep waiting. */
static enum llm_reason rx_is_lost(const struct lli_rx *rx, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;
    const struct lli_gap_slot *slot = &gap->slots[gap->next & gap->mask];

    /* Before the next line: what a store sends again would have no seal again. */
    if (rx->pending.slow_path & LLI_RX_HOLDING && lli_rx_is_unsealed(rx))
        return LLM_REASON_UNSEALED;
    if (lli_rx_is_recalling(rx))
        return LLM_REASON_NONE;
    if (gap->next < rx->loss.gone_below)
        return rx->loss.gone_reason;
    if (rx->loss.end_reason != LLM_REASON_NONE)
        return rx->loss.end_reason;
    if (slot->unrepaired &&
        (slot->passed || (now >= slot->since + rx->config->nak_delay + lli_rx_line_wait(rx, gap->next + 1) &&
                          lli_rx_is_confirmed(rx))))
        return LLM_REASON_UNRELIABLE;
    /* A packet known only from heartbeats, or only from data, is not given up by time: section 4.3. */
    if (!lli_rx_is_fetching(rx) && gap->next < lli_min(gap->received, lli_rx_known(rx)) && slot->tries > 0 &&
        now >= slot->since + rx->config->nak_giveup)
        return LLM_REASON_TIMEOUT;
    return LLM_REASON_NONE;
}

/* Likewise, for a session that may be merged with others. */
static enum llm_reason rx_gives_up(struct lli_rx *rx, lli_ns now)
{
    const enum llm_reason reason = rx_is_lost(rx, now);

    return rx->pending.slow_path & LLI_RX_MERGING ? lli_rx_merge_gives_up(rx, reason, now) : reason;
}

/* Gives up a packet whose messages other sessions delivered. */
static void rx_cover(struct lli_rx *rx)
{
    if (rx->loss.run == 0) {
        rx->loss.run_reason = LLM_REASON_TIMEOUT;
        rx->loss.run_first = rx->gap.next;
    }
    rx->loss.run++;
    rx->counters->packets_covered++;
}

/*
 * Gives up packets before `end`, of which the window has none, up to one that a store may have: the window
 * then goes on there.
 */
static void rx_lose_up_to(struct lli_rx *rx, lli_seq end, enum llm_reason reason, lli_ns now)
{
    const lli_seq ahead = lli_rx_store_ahead(rx, rx->gap.next, end);

    if (ahead > rx->gap.next) {
        rx_lose(rx, ahead - rx->gap.next, reason);
        lli_gap_reset(&rx->gap, ahead);
    }
    lli_gap_extend(&rx->gap, end, now, now + rx->config->nak_retry_max);
}

/*
 * Unpacks the next buffered packet, or skips lost ones. False if the next packet in order has yet to arrive.
 */
static bool rx_next_packet(struct lli_rx *rx, lli_ns now)
{
    struct lli_gap *gap = &rx->gap;
    const lli_seq first = gap->next;
    enum llm_reason reason = LLM_REASON_NONE;

    if (rx->pending.slow_path & LLI_RX_HOLDING && lli_rx_holds(rx, now))
        return false;
    if (gap->next < gap->end && lli_gap_is_present(gap, gap->next)) {
        struct lli_wire_header header;
        const uint8_t *packet, *body;
        size_t body_size;
        uint32_t size;

        if (rx->pending.slow_path & LLI_RX_MERGING && !lli_rx_merge_proceeds(rx, now))
            return false;
        packet = lli_reorder_get(rx->buffer.reorder, *lli_rx_cell(rx, gap->next), LLI_REORDER_TURN, &size);
        lli_rx_give_back(rx, *lli_rx_cell(rx, gap->next));
        size = lli_rx_alone(rx, size);
        /* It was parsed on arrival, so parsing cannot fail now. */
        (void)lli_wire_get_header(packet, size, &header, &body, &body_size);
        lli_gap_advance(gap);
        if (lli_rx_as_it_arrives(rx))
            lli_rx_unordered_turn(rx, gap->next - 1);
        lli_rx_record(rx, gap->next - 1, packet, size);
        lli_rx_unpack(rx, gap->next - 1, &header, body, body_size);
        rx->buffer.run++;
        return true;
    }
    while (gap->next < gap->end && !lli_gap_is_present(gap, gap->next) &&
           (reason = rx_gives_up(rx, now)) != LLM_REASON_NONE) {
        if (gap->slots[gap->next & gap->mask].passed)
            rx_pass_by(rx);
        else if (rx->stream.covered)
            rx_cover(rx);
        else
            rx_lose(rx, 1, reason);
        lli_gap_advance(gap);
    }
    if (gap->next == gap->end && gap->next < rx->loss.gone_below)
        rx_lose_up_to(rx, rx->loss.gone_below, rx->loss.gone_reason, now);
    if (gap->next == gap->end && gap->next < lli_rx_known(rx) && rx->loss.end_reason != LLM_REASON_NONE &&
        rx->loss.end_reason != LLM_REASON_SUPERSEDED)
        rx_lose_up_to(rx, lli_rx_known(rx), rx->loss.end_reason, now);
    if (rx->loss.run > 0 && (!rx->unpack.broken || rx->loss.passed)) {
        rx->loss.passed = false;
        lli_unpack_break(&rx->unpack);
        /* Announcements may have been lost, except with unreliable packets. */
        if (rx->loss.run_reason != LLM_REASON_UNRELIABLE)
            lli_rx_learn(rx, now, true);
    }
    if (gap->next > first)
        lli_unpack_allow(&rx->unpack, gap->next - first, lli_rx_number_max(rx));
    if (gap->next < gap->end && lli_gap_is_present(gap, gap->next))
        return true;
    /* The past may end with the packets that were lost or skipped. */
    if (lli_rx_is_replaying(rx) && gap->next > first && gap->next >= rx->replay.end)
        return true;
    /* The window has moved past the loss and has room for more packets known from heartbeats. */
    return (gap->next > first || (gap->next == gap->end && rx->loss.end_reason == LLM_REASON_NONE)) &&
           gap->end < rx->heartbeat.lead;
}

/* Reports the end; number: of the message that would have come next. */
static bool rx_end_item(struct lli_rx *rx, lli_ns now, uint64_t number, struct lli_item *item)
{
    const enum llm_reason reason =
        rx->loss.end_reason != LLM_REASON_NONE ? rx->loss.end_reason : LLM_REASON_CLOSED;
    const lli_seq next = lli_rx_unordered_end(rx, &number);

    (void)lli_rx_event(rx, LLM_EVENT_SESSION_END, item);
    item->event.reason = reason;
    item->event.first = number;
    rx->counters->sessions_ended++;
    lli_rx_drop_packets(rx);
    rx->state = LLI_RX_ENDED;
    if (reason == LLM_REASON_CLOSED || reason == LLM_REASON_TIMEOUT)
        lli_rx_note(rx, next, number, reason);
    /* To an expelled receiver that returns the session is new, even if it has resumed before. */
    if (reason == LLM_REASON_EXPELLED && rx->config->former != NULL)
        lli_former_forget(rx->config->former, rx->session);
    lli_rx_stream_reached(rx, number);
    lli_rx_stream_left(rx);
    /* Nothing is requested any more, but an expelled receiver may return: lli_rx_may_return(). */
    lli_rx_query_at(rx, rx->standing.rejoin_at);
    if (rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_END)
        lli_rx_status_soon(rx, now);
    return true;
}

/* After everything before the end was delivered: reports a loss at the very end, then the end itself. */
static bool rx_next_end(struct lli_rx *rx, lli_ns now, struct lli_item *item)
{
    struct lli_unpacked lost;
    const bool breaks = rx->loss.end_reason != LLM_REASON_NONE,
               ended = rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_END;
    const lli_seq end = breaks ? lli_rx_known(rx) : rx->heartbeat.lead;

    if (rx->loss.end_reason == LLM_REASON_SUPERSEDED)
        return rx->gap.next >= rx->gap.end && rx_end_item(rx, now, lli_rx_delivered(rx), item);
    if (rx->gap.next < end || rx->gap.next < rx->gap.end)
        return false;
    if (rx->loss.run > 0) {
        /*
         * The heartbeats' message numbers belong to their leads; losses after them show with the next
         * heartbeat.
         */
        if (rx->gap.next > lli_rx_known(rx) && !breaks)
            return false;
        if (rx->pending.slow_path & LLI_RX_MERGING && !breaks &&
            lli_rx_merge_waits(rx, lli_max(lli_rx_known_messages(rx), rx->unpack.number), now))
            return false;
        if (rx->gap.next > lli_rx_known(rx))
            rx->loss.uncounted = lli_max(rx->loss.run_first, lli_rx_known(rx));
        if (lli_unpack_lost_before(&rx->unpack, lli_max(lli_rx_known_messages(rx), rx->unpack.number),
                                   &lost)) {
            /* The next packet may begin with the rest of a lost message. */
            lli_unpack_break(&rx->unpack);
            return rx_gap_item(rx, &lost, lli_rx_loss_reason(rx), item);
        }
    }
    if (rx->loss.end_reason == LLM_REASON_NONE && !ended)
        return false;
    /* A message was never completed though no packet is missing: the packets contradicted each other. */
    if (rx->unpack.assembling || (ended && rx->unpack.number < rx->heartbeat.messages)) {
        lli_unpack_break(&rx->unpack);
        (void)lli_unpack_lost_before(&rx->unpack, lli_max(rx->heartbeat.messages, rx->unpack.number), &lost);
        if (lost.last + 1 > lost.number &&
            (rx_gap_item(rx, &lost,
                         rx->loss.end_reason != LLM_REASON_NONE ? rx->loss.end_reason : LLM_REASON_MALFORMED,
                         item) ||
             rx_next_news(rx, item)))
            return true;
    }
    return rx_end_item(rx, now, rx->unpack.number, item);
}

/*
 * The last packets of the past were skipped and no later one arrived: the past ends where live data begins.
 */
static void rx_pass_up(struct lli_rx *rx)
{
    struct lli_unpacked passed;

    (void)lli_unpack_lost_before(&rx->unpack, lli_max(rx->join.live, rx->unpack.number), &passed);
    /* The next packet may begin with the rest of a skipped message. */
    lli_unpack_break(&rx->unpack);
    rx->loss.passed = false;
}

/* Reports the end of the past: later messages are live. */
static bool rx_next_live(struct lli_rx *rx, lli_ns now, struct lli_item *item)
{
    /* Losses in the past are reported first. */
    if (rx->gap.next < rx->replay.end || rx->loss.run > 0)
        return false;
    if (rx->loss.passed)
        rx_pass_up(rx);
    /*
     * Waits until the stream has delivered the messages that displaced LVC messages during the fetch, as far
     * as a heartbeat announces them.
     */
    if (rx->unpack.number - rx->unpack.assembling < rx->lvc.live &&
        (rx->gap.next < rx->heartbeat.lead || rx->heartbeat.messages < rx->lvc.live))
        return false;
    rx->pending.lag &= (uint8_t)~LLI_RX_REPLAYING;
    lli_rx_status_soon(rx, now);
    (void)lli_rx_event(rx, LLM_EVENT_LIVE, item);
    item->event.first = rx->unpack.number - rx->unpack.assembling;
    lli_rx_joined(rx);
    return true;
}

/* Likewise for a young session, whose past arrived in the stream. */
static bool rx_next_young(struct lli_rx *rx, struct lli_item *item)
{
    if (rx->gap.next < rx->replay.end || rx->loss.run > 0)
        return false;
    rx->pending.lag &= (uint8_t)~LLI_RX_YOUNG;
    (void)lli_rx_event(rx, LLM_EVENT_LIVE, item);
    item->event.first = rx->unpack.number - rx->unpack.assembling;
    return true;
}

static void rx_go_on(struct lli_rx *rx, lli_ns now)
{
    if (rx->heartbeat.lead > rx->gap.end && rx->loss.end_reason == LLM_REASON_NONE)
        lli_rx_extend(rx, rx->heartbeat.lead, now);
    if (lli_rx_is_replaying(rx) && rx->loss.end_reason == LLM_REASON_NONE)
        lli_rx_extend(rx, rx->replay.end, now);
    if (rx->heard.silent && rx->store.count > 0)
        lli_rx_store_extend(rx, now);
    if (rx->pending.lag & LLI_RX_CHASED && rx->heartbeat.lead - rx->gap.next <= lli_gap_window(&rx->gap) / 2)
        rx->pending.lag &= (uint8_t)~LLI_RX_CHASED;
    if (rx->pending.slow_path & LLI_RX_LEARNING &&
        (rx->topics.known >= rx->names.wanted || rx->loss.end_reason != LLM_REASON_NONE))
        rx->pending.slow_path &= (uint8_t)~LLI_RX_LEARNING;
}

static bool rx_has_news(const struct lli_rx *rx)
{
    return rx->pending.news != 0 || rx->names.reported < rx->topics.known;
}

/*
 * True if everything received was delivered, nothing is missing and no end is pending, as between any two
 * packets in order. The caller checks for pending events.
 */
static LLI_INLINE bool rx_is_idle(const struct lli_rx *rx)
{
    const struct lli_gap *gap = &rx->gap;

    return lli_unpack_is_done(&rx->unpack) && gap->next == gap->end && gap->next >= rx->heartbeat.lead &&
           gap->next >= rx->loss.gone_below && rx->pending.lag == 0 &&
           !(rx->pending.slow_path & LLI_RX_LEARNING) && rx->loss.end_reason == LLM_REASON_NONE &&
           !(rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_END);
}

bool lli_rx_is_idle(const struct lli_rx *rx)
{
    return rx_is_idle(rx) && (rx->pending.news & ~(LLI_RX_FILTERED | LLI_RX_MERGES)) == 0 &&
           rx->names.reported >= rx->topics.known;
}

/* Slow path: returns the next item when it may be other than messages. */
static LLI_OUT_OF_LINE bool rx_next_item(struct lli_rx *rx, lli_ns now, struct lli_item *item)
{
    rx->pending.service_due = true;
    rx->pending.plain = false;
    for (;;) {
        if (rx->pending.news & LLI_RX_RECORD && lli_rx_next_record(rx, item))
            return true;
        if (rx_has_news(rx) &&
            (rx_next_news(rx, item) ||
             (rx->pending.news & LLI_RX_MERGES ? rx_next_merged(rx, item) : rx_next_filtered(rx, item)) ||
             rx_next_of_turn(rx, item)))
            return true;
        if (rx_next_unpacked(rx, item))
            return true;
        rx_go_on(rx, now);
        if (rx->pending.slow_path & (LLI_RX_LEARNING | LLI_RX_STALLED)) {
            if (lli_rx_merge_resumes(rx, now))
                continue;
            return false;
        }
        if (rx->pending.slow_path & LLI_RX_LATEST) {
            if (lli_rx_lost_lvc(rx, now, item))
                return true;
            if (lli_rx_next_lvc(rx, now))
                continue;
            return false;
        }
        if (lli_rx_is_replaying(rx) && rx_next_live(rx, now, item))
            return true;
        if (rx->pending.lag & LLI_RX_YOUNG && rx_next_young(rx, item))
            return true;
        if (!rx_next_packet(rx, now))
            return rx_next_end(rx, now, item) ||
                   (lli_rx_as_it_arrives(rx) && lli_rx_next_unordered(rx, item));
    }
}

/* Nearly always messages come next, and nothing after them. */
static LLI_OUT_OF_LINE bool rx_next_in_order(struct lli_rx *rx, lli_ns now, struct lli_item *item)
{
    return rx_next_messages(rx, item) || (!rx_is_idle(rx) && rx_next_item(rx, now, item));
}

/* Fast path allowed: no gap, event or filter is pending. */
static bool rx_is_plain(const struct lli_rx *rx)
{
    return rx->state == LLI_RX_LIVE && !rx_has_news(rx) && rx->pending.slow_path == 0 && !rx->heard.silent &&
           !rx->unpack.broken && !rx->unpack.assembling && rx_is_idle(rx);
}

void lli_rx_settle(struct lli_rx *rx)
{
    rx->pending.plain = rx_is_plain(rx);
}

bool lli_rx_next(struct lli_rx *rx, lli_ns now, struct lli_item *item)
{
    if (rx->state == LLI_RX_LIVE) {
        if (rx_has_news(rx))
            return rx_next_item(rx, now, item);
        if (!lli_unpack_is_done(&rx->unpack))
            return rx_next_in_order(rx, now, item);
        return !rx_is_idle(rx) && rx_next_item(rx, now, item);
    }
    return rx->state == LLI_RX_REQUESTING && lli_rx_next_join(rx, now, item);
}
