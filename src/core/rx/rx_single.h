/* SPDX-License-Identifier: Apache-2.0 */
/* Fast path for a packet with a single message in a followed session; inline where it is delivered. */
#ifndef LLI_RX_SINGLE_H
#define LLI_RX_SINGLE_H

#include "core/rx/rx_session.h"

/*
 * Returns the message that alone fills a packet's frames. False: other frames are present, or the message is
 * incomplete.
 */
static inline bool lli_rx_single_frame(const uint8_t *at, const uint8_t *end, uint32_t *topic,
                                       struct llm_message *message)
{
    struct lli_frame frame;

    *topic = 0;
    at = lli_frame_get(at, end, &frame);
    if (frame.kind == LLI_FRAME_TOPIC && at < end) {
        *topic = frame.value;
        at = lli_frame_get(at, end, &frame);
    }
    if (frame.kind != LLI_FRAME_MESSAGE || frame.value != (size_t)(end - at))
        return false;
    message->data = at;
    message->size = frame.value;
    return true;
}

/*
 * Fast path. Takes a packet for the group that is next in order and has a single message, while everything
 * before it was delivered and nothing else is pending. The message counts as delivered when this returns.
 * False, with nothing changed, in any other case. Handling the message may make something due: unless
 * lli_rx_is_idle(), call lli_rx_next() afterwards.
 */
static inline bool lli_rx_single(struct lli_rx *rx, const uint8_t *packet, size_t size, uint64_t stamp_ns,
                                 lli_ns now, struct llm_message *message)
{
    const uint8_t *end = packet + size;
    struct lli_gap *gap = &rx->gap;
    uint32_t topic;

    if (!rx->pending.plain)
        lli_rx_settle(rx);
    if (!rx->pending.plain || size <= LLI_WIRE_DATA_HEADER ||
        !lli_wire_is_data(packet, size, rx->tag, gap->next, rx->unpack.number) ||
        !lli_rx_single_frame(packet + LLI_WIRE_DATA_HEADER, end, &topic, message) ||
        !lli_topics_is_plain(&rx->topics, topic))
        return false;
    gap->end = gap->received = ++gap->next;
    rx->heard_at = now;
    rx->stamp_ns = stamp_ns;
    rx->pending.service_due |= lli_rx_owes_report(rx);
    rx->counters->packets_received++;
    rx->counters->bytes_received += size;
    rx->counters->messages_delivered++;
    message->topic_id = topic;
    message->topic = lli_topics_known_name(&rx->topics, topic);
    message->number = rx->unpack.number++;
    message->session = rx->session;
    message->received_at = stamp_ns;
    return true;
}

#endif
