/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery with a filter: unwanted messages are skipped in place, and packets whose summary rules out all
 * their messages are skipped whole. Sessions without a filter do not use this file.
 */
#include "core/select/filter.h"
#include "core/rx/rx_internal.h"

struct rx_wanted {
    struct lli_rx_frame frame; /* of its attributes */
    const uint8_t *header;     /* of the message */
    const uint8_t *data;
    uint32_t size;
};

void lli_rx_filter_start(struct lli_rx *rx)
{
    rx->filter->given_count = rx->filter->assembled.size = 0;
    lli_rx_filter(rx);
}

void lli_rx_filter(struct lli_rx *rx)
{
    if (rx->config->filter == NULL)
        return; /* A message being skipped is skipped to its end: rx_filter_end(). */
    lli_rx_unsettle(rx);
    lli_rx_set_news(rx, LLI_RX_FILTERED);
    lli_rx_set_slow_path(rx, LLI_RX_FILTERING);
    /* Dropped messages are not acknowledged, nor are those that might have been dropped. */
    if (!rx->config->filter->all)
        lli_rx_set_incomplete(rx);
}

bool lli_rx_attributes(const struct lli_rx *rx, const struct llm_message *message, struct lli_rx_frame *frame)
{
    for (uint32_t i = 0; i < rx->filter->given_count; i++)
        if (message == rx->filter->given + i) {
            *frame = rx->filter->frames[i];
            return true;
        }
    return false;
}

/* The filter was removed, and no message is being skipped: the session returns to the fast path. */
static void rx_filter_end(struct lli_rx *rx)
{
    lli_rx_clear_news(rx, LLI_RX_FILTERED);
    lli_rx_clear_slow_path(rx, LLI_RX_FILTERING);
    rx->filter->given_count = rx->filter->assembled.size = 0;
}

static void rx_pass(struct lli_rx *rx, struct lli_unpack *unpack, uint64_t messages)
{
    unpack->number += messages;
    rx->counters->messages_rejected += messages;
}

/*
 * Messages of the packet being unpacked that were decided on when it arrived (rx_unordered.c): mostly none.
 */
static inline struct lli_rx_mark rx_decided(const struct lli_rx *rx, const struct lli_unpack *unpack)
{
    return rx->pending.news & LLI_RX_TURN && unpack == &rx->unpack ? rx->unordered.turn
                                                                   : (struct lli_rx_mark){.first = 0};
}

/*
 * Reads the header of the message at `at`. False: it cannot be read there. The message's bytes may continue
 * in the next packets.
 */
static inline bool rx_message_header(const uint8_t *at, const uint8_t *end, struct rx_wanted *message)
{
    const uint8_t code = *at;

    message->header = at;
    if (code <= LLI_FRAME_SHORT_MAX) {
        message->size = code;
        message->data = at + 1;
    } else if (code < LLI_FRAME_TOPIC_SHORT) {
        if (end - at < 2)
            return false;
        message->size = (code & 0x3fu) << 8 | at[1];
        message->data = at + 2;
    } else {
        if (end - at < LLI_WIRE_FRAME_MAX)
            return false;
        message->size = lli_load_u32(at + 1);
        message->data = at + LLI_WIRE_FRAME_MAX;
    }
    return true;
}

/* Skips one frame that is neither a message nor attributes. NULL: lli_unpack_next() has to handle it. */
static const uint8_t *rx_pass_frame(struct lli_unpack *unpack, const uint8_t *at)
{
    struct lli_frame frame;
    const uint8_t *next = lli_frame_get(at, unpack->end, &frame);

    if (frame.kind == LLI_FRAME_TOPIC)
        unpack->topic = frame.value;
    else if (frame.kind != LLI_FRAME_SKIP)
        return NULL;
    return next;
}

/*
 * Returns the message after an attribute frame; without one, `at`. An attribute frame before anything but a
 * message, or at the end, is ignored.
 */
static inline const uint8_t *rx_after_attributes(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *header;

    if (*at != LLI_FRAME_ATTRIBUTES || end - at < LLI_FRAME_HEAD)
        return at;
    header = at + LLI_FRAME_HEAD + lli_load_u16(at + 1);
    return header < end && lli_frame_is_message(*header) ? header : at;
}

static inline struct lli_rx_frame rx_frame(const uint8_t *at, const uint8_t *header)
{
    return header == at
               ? (struct lli_rx_frame){.size = 0}
               : (struct lli_rx_frame){at + LLI_FRAME_HEAD, (uint32_t)(header - at) - LLI_FRAME_HEAD};
}

static inline bool rx_is_wanted(const struct lli_filter *filter, const uint8_t *at, const uint8_t *header)
{
    const struct lli_rx_frame frame = rx_frame(at, header);

    return header == at ? filter->plain : lli_filter_wants(filter, frame.bytes, frame.size);
}

/*
 * Advances to the packet's first wanted message; false: none before the end, or before a frame for
 * lli_unpack_next(). Leaves unpack->at at its attribute frame. Ahead of order, a message that continues in
 * the next packet ends the search: it is decided on in order.
 */
static bool rx_find_wanted(struct lli_rx *rx, struct lli_unpack *unpack, struct rx_wanted *wanted)
{
    const struct lli_filter *filter = rx->config->filter;
    const struct lli_rx_mark decided = rx_decided(rx, unpack);
    const uint8_t *const end = unpack->end;
    const uint8_t *at = unpack->at;
    uint64_t passed = 0, before = 0;
    bool found = false, spans;

    while (at < end) {
        const uint8_t *header = rx_after_attributes(at, end);

        if (!lli_frame_is_message(*header)) {
            const uint8_t *next = rx_pass_frame(unpack, at);

            if (next == NULL)
                break;
            at = next;
            continue;
        }
        if (!rx_message_header(header, end, wanted)) {
            at = header;
            break;
        }
        spans = wanted->size > (size_t)(end - wanted->data);
        if (spans && unpack != &rx->unpack) {
            at = end;
            break;
        }
        if (unpack->number + passed + before - decided.first < decided.end - decided.first) {
            before++;
        } else {
            found = filter == NULL || rx_is_wanted(filter, at, header);
            if (found) {
                wanted->frame = rx_frame(at, header);
                break;
            }
            passed++;
        }
        unpack->passing = spans;
        at = spans ? end : wanted->data + wanted->size;
    }
    unpack->at = at;
    unpack->number += before;
    rx_pass(rx, unpack, passed);
    return found;
}

/* True if the summary rules out every message in the packet. */
static bool rx_is_unwanted(const struct lli_rx *rx, const struct lli_unpack *unpack, const uint8_t *body,
                           struct lli_frame_summary *summary)
{
    return rx->config->filter != NULL && lli_frame_get_summary(unpack->at, unpack->end, summary) &&
           summary->end == unpack->end - body &&
           !lli_filter_may_want(rx->config->filter, summary->any, summary->all);
}

/* Skips such a packet in order; its last message may continue in the next one. */
static bool rx_pass_packet(struct lli_rx *rx, const uint8_t *body)
{
    struct lli_unpack *unpack = &rx->unpack;
    const struct lli_rx_mark decided = rx_decided(rx, unpack);
    struct lli_frame_summary summary;
    uint64_t before = 0;

    if (!rx_is_unwanted(rx, unpack, body, &summary))
        return false;
    if (decided.first >= unpack->number)
        before = lli_min(decided.end, unpack->number + summary.count) -
                 lli_min(decided.first, unpack->number + summary.count);
    rx->counters->packets_skipped++;
    unpack->number += before;
    rx_pass(rx, unpack, summary.count - before);
    unpack->at = unpack->end;
    unpack->passing = true;
    return true;
}

void lli_rx_filter_begin(struct lli_rx *rx, const struct lli_wire_header *header, const uint8_t *body,
                         size_t size)
{
    struct lli_unpack *unpack = &rx->unpack;
    struct rx_wanted wanted;

    if (unpack->passing && header->number == (uint32_t)unpack->number) {
        /* The length of the skipped message may be unknown: `first` gives its end. */
        unpack->at = body + header->first;
        unpack->end = body + size;
        unpack->topic = 0;
        unpack->given = false;
        unpack->passing = header->first == size;
    } else {
        unpack->passing = false;
        lli_unpack_begin(unpack, header, body, size);
    }
    if (unpack->broken || unpack->assembling)
        return;
    if (rx->config->filter == NULL && !unpack->passing)
        rx_filter_end(rx);
    else if (!rx_pass_packet(rx, body))
        (void)rx_find_wanted(rx, unpack, &wanted);
}

static struct llm_message *rx_like(const struct lli_rx *rx, uint32_t topic, struct llm_message *like)
{
    *like = (struct llm_message){.session = rx->session,
                                 .received_at = rx->stamp_ns,
                                 .topic_id = topic,
                                 .topic = lli_topics_name(&rx->topics, topic)};
    return like;
}

/* Delivers a reassembled message. */
static void rx_give_assembled(struct lli_rx *rx, struct lli_item *item)
{
    struct lli_unpack *unpack = &rx->unpack;
    const uint32_t topic = unpack->assembled_topic;
    struct llm_message like;
    const int count = lli_unpack_messages(unpack, rx_like(rx, topic, &like), item->messages + item->count, 1);

    if (lli_topics_is_refused(&rx->topics, topic))
        rx->counters->messages_refused++;
    else if (!lli_rx_is_stale(rx, topic, item->messages[item->count].number))
        rx->filter->frames[item->count++] = rx->filter->assembled;
    assert(count == 1);
    (void)count;
}

/* Copies the attributes of a message that spans packets, unless they are longer than this version sends. */
static void rx_lvc_frame(struct lli_rx *rx, const struct lli_rx_frame *frame)
{
    rx->filter->assembled = (struct lli_rx_frame){.size = 0};
    if (frame->size == 0 || frame->size > sizeof rx->filter->assembled_frame)
        return;
    memcpy(rx->filter->assembled_frame, frame->bytes, frame->size);
    rx->filter->assembled = (struct lli_rx_frame){rx->filter->assembled_frame, frame->size};
}

/* Delivers a message that lies in the packet. */
static void rx_give_wanted(struct lli_rx *rx, struct lli_unpack *unpack, const struct rx_wanted *wanted,
                           struct lli_item *item)
{
    struct llm_message *message = &item->messages[item->count];

    rx->filter->frames[item->count++] = wanted->frame;
    (void)rx_like(rx, unpack->topic, message);
    message->data = wanted->data;
    message->size = wanted->size;
    message->number = unpack->number++;
    rx->counters->topics_unknown += message->topic[0] == '\0';
    unpack->at = wanted->data + wanted->size;
}

/* Skips a wanted message of an unwanted topic, or from before this receiver joined. False: deliver it. */
static bool rx_refuse_wanted(struct lli_rx *rx, struct lli_unpack *unpack, const struct rx_wanted *wanted)
{
    if (lli_topics_is_refused(&rx->topics, unpack->topic))
        rx->counters->messages_refused++;
    else if (!lli_rx_is_stale(rx, unpack->topic, unpack->number))
        return false;
    unpack->number++;
    unpack->passing = wanted->size > (size_t)(unpack->end - wanted->data);
    unpack->at = unpack->passing ? unpack->end : wanted->data + wanted->size;
    return true;
}

/* Records the messages being delivered; their attributes stay available. */
static bool rx_give(struct lli_rx *rx, const struct lli_item *item)
{
    if (rx->config->counts_topics)
        lli_rx_count_topics(rx, item);
    /* With no messages, the previous record stays. */
    if (item->count > 0)
        rx->filter->given = item->messages;
    rx->filter->given_count = (uint32_t)item->count;
    rx->counters->messages_delivered += (uint64_t)item->count;
    return item->count > 0;
}

bool lli_rx_filtered_messages(struct lli_rx *rx, struct lli_item *item)
{
    struct lli_unpack *unpack = &rx->unpack;
    struct rx_wanted wanted;

    item->count = 0;
    item->kind = LLI_ITEM_MESSAGES;
    while (item->count < LLI_ITEM_MESSAGES_MAX && !unpack->broken) {
        if (unpack->assembling) {
            if (unpack->have < unpack->total || unpack->too_long)
                break;
            rx_give_assembled(rx, item);
        } else if (!rx_find_wanted(rx, unpack, &wanted)) {
            break;
        } else if (rx_refuse_wanted(rx, unpack, &wanted)) {
            continue;
        } else if (wanted.size > (size_t)(unpack->end - wanted.data)) {
            /* lli_unpack_next() starts its reassembly, in a buffer that may hold a message of this item. */
            if (item->count == 0) {
                rx_lvc_frame(rx, &wanted.frame);
                unpack->at = wanted.header;
            }
            break;
        } else {
            rx_give_wanted(rx, unpack, &wanted, item);
        }
    }
    return rx_give(rx, item);
}

/* ----------------------------------------------------------------------------------------- ahead of order */

void lli_rx_filter_unordered(struct lli_rx *rx, const uint8_t *body)
{
    struct lli_unpack *unpack = &rx->unordered.unpack;
    struct lli_frame_summary summary;

    if (!rx_is_unwanted(rx, unpack, body, &summary))
        return;
    /*
     * The last message may continue in the next packet, and the packet is counted when it is next in order.
     */
    rx_pass(rx, unpack, summary.count > 0 ? summary.count - 1u : 0);
    unpack->at = unpack->end;
}

bool lli_rx_filtered_unordered(struct lli_rx *rx, struct lli_item *item)
{
    struct lli_unpack *unpack = &rx->unordered.unpack;
    struct rx_wanted wanted;

    item->count = 0;
    item->kind = LLI_ITEM_MESSAGES;
    while (item->count < LLI_ITEM_MESSAGES_MAX && !lli_unpack_is_done(unpack) &&
           rx_find_wanted(rx, unpack, &wanted)) {
        if (rx_refuse_wanted(rx, unpack, &wanted))
            continue;
        if (*lli_topics_name(&rx->topics, unpack->topic) == '\0')
            unpack->at = unpack->end;
        else
            rx_give_wanted(rx, unpack, &wanted, item);
    }
    return rx_give(rx, item);
}
