/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topics of a session: names are learnt from the stream and from queries, and announced to the application
 * (docs/protocol.md section 8). topics.c has the table.
 */
#include "core/rx/rx_internal.h"

/*
 * Number of queries before the session continues without the names, and the interval up to which they are
 * spaced. Together they take most of a second, as a receiver that just joined does not know yet how far away
 * the transmitter is.
 */
enum { RX_QUERIES = 16 };
#define RX_QUERY_DISTANCE ((lli_ns)100000000)

void lli_rx_topics_init(struct lli_rx *rx, struct lli_arena *arena)
{
    lli_topics_init(&rx->topics, rx->config->topics_max, rx->few_topics, arena);
    if (rx->config->counts_topics)
        rx->names.counts = lli_arena_take(arena, rx->config->topics_max * sizeof *rx->names.counts, 64);
}

void lli_rx_topics_start(struct lli_rx *rx)
{
    rx->names = (struct lli_rx_names){.query_at = LLI_NEVER, .counts = rx->names.counts};
    lli_topics_reset(&rx->topics);
    if (rx->config->counts_topics) {
        for (uint32_t id = 0; id < rx->topics.limit; id++)
            lli_topics_set(&rx->topics, id, LLI_TOPICS_COUNTED);
        memset(rx->names.counts, 0, rx->topics.limit * sizeof *rx->names.counts);
    }
}

/* ------------------------------------------------------------------------------------------ subscriptions */

void lli_rx_topic_refuse(struct lli_rx *rx, uint32_t topic)
{
    lli_topics_set(&rx->topics, topic, LLI_TOPICS_REFUSED);
}

bool lli_rx_topic_subscribe(struct lli_rx *rx, uint32_t topic, bool subscribed)
{
    return lli_topics_subscribe(&rx->topics, topic, subscribed);
}

void lli_rx_resolve(struct lli_rx *rx)
{
    if (rx->state != LLI_RX_LIVE)
        return;
    lli_rx_unsettle(rx);
    lli_rx_set_news(rx, LLI_RX_RESOLVING);
    rx->names.resolved = 0;
}

/* -------------------------------------------------------------------------------------------------- names */

void lli_rx_learn(struct lli_rx *rx, lli_ns now, bool block)
{
    if (rx->topics.known >= rx->heartbeat.topics || rx->names.wanted == rx->heartbeat.topics)
        return;
    rx->names.wanted = rx->heartbeat.topics;
    if (block)
        lli_rx_set_slow_path(rx, LLI_RX_LEARNING);
    rx->names.tries = 0;
    rx->names.query_at = now;
}

void lli_rx_topics_granted(struct lli_rx *rx, uint32_t topics)
{
    rx->names.granted = topics;
}

void lli_rx_learn_less(struct lli_rx *rx)
{
    rx->names.wanted = (uint32_t)lli_min(rx->names.wanted, lli_max(rx->heartbeat.topics, rx->names.granted));
}

void lli_rx_query_at(struct lli_rx *rx, lli_ns at)
{
    rx->names.query_at = at;
}

bool lli_rx_control_query(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    const struct lli_wire_query query = {
        .session = rx->session,
        .receiver = rx->config->receiver,
        .first = rx->topics.known,
        .address = rx->config->address,
        .token = lli_rx_token(rx),
    };
    lli_ns base = lli_max(rx->config->nak_retry_min, 2 * lli_rx_rtt(rx));

    if (rx->topics.known >= rx->names.wanted || rx->names.tries == RX_QUERIES) {
        lli_rx_clear_slow_path(rx, LLI_RX_LEARNING);
        rx->names.query_at = LLI_NEVER;
        return false;
    }
    rx->names.query_at =
        now + lli_min(base << rx->names.doubled, lli_max(rx->config->nak_retry_max, RX_QUERY_DISTANCE));
    rx->names.doubled = (uint32_t)lli_min(rx->names.doubled + 1, RX_QUERIES);
    rx->names.tries++;
    rx->counters->queries_sent++;
    return lli_rx_packet(rx, buffer, lli_wire_put_query(buffer, &query), packet);
}

/*
 * The interval of an answer that took several queries stays, and is halved by each answer to a first query:
 * if it began anew with each, queries of many receivers that join at a time would be sent, and answered,
 * several times each.
 */
static void rx_names_answered(struct lli_rx_names *names)
{
    const uint32_t less = names->tries <= 1 ? 2 : 1;

    names->doubled -= (uint32_t)lli_min(names->doubled, less);
    names->tries = 0;
}

void lli_rx_input_topics(struct lli_rx *rx, const struct lli_wire_topics *topics, struct lli_reader names,
                         lli_ns now)
{
    const uint32_t known = rx->topics.known;

    for (uint32_t i = 0; i < topics->count; i++) {
        uint8_t size = lli_read_u8(&names);
        const uint8_t *name = lli_read_bytes(&names, size);

        if (name == NULL) {
            rx->counters->control_malformed++;
            break;
        }
        (void)lli_topics_add(&rx->topics, topics->first + i, name, size);
    }
    /* If an answer added no name, because there is no room for more, another one would not either. */
    if (rx->topics.known == known)
        return;
    rx_names_answered(&rx->names);
    if (rx->topics.known < rx->names.wanted && rx->names.query_at != LLI_NEVER)
        rx->names.query_at = now;
}

/* -------------------------------------------------------------------------------------------------- items */

bool lli_rx_topic_item(const struct lli_rx *rx, uint32_t topic, struct lli_item *item)
{
    (void)lli_rx_event(rx, LLM_EVENT_TOPIC_NEW, item);
    item->kind = LLI_ITEM_TOPIC;
    item->event.topic_id = topic;
    item->event.topic = lli_topics_name(&rx->topics, topic);
    return true;
}

bool lli_rx_announced(struct lli_rx *rx, const struct lli_unpacked *unpacked, struct lli_item *item)
{
    if (!lli_topics_add(&rx->topics, unpacked->topic, unpacked->data, unpacked->size))
        return false;
    lli_topics_set(&rx->topics, unpacked->topic, LLI_TOPICS_REPORTED);
    return lli_rx_topic_item(rx, unpacked->topic, item);
}

/* Returns the next topic item to deliver again; UINT32_MAX: no more. */
static uint32_t rx_resolve_next(struct lli_rx *rx)
{
    while (rx->names.resolved < rx->topics.limit) {
        const uint32_t topic = rx->names.resolved++;

        if (lli_topics_has(&rx->topics, topic, LLI_TOPICS_ASKED | LLI_TOPICS_UNSUBSCRIBED))
            return topic;
    }
    lli_rx_clear_news(rx, LLI_RX_RESOLVING);
    return UINT32_MAX;
}

bool lli_rx_next_topic(struct lli_rx *rx, struct lli_item *item)
{
    if (rx->pending.news & LLI_RX_RESOLVING) {
        const uint32_t topic = rx_resolve_next(rx);

        if (topic != UINT32_MAX)
            return lli_rx_topic_item(rx, topic, item);
    }
    /* Topics learnt from a query; those announced in the stream were delivered there. */
    while (rx->names.reported < rx->topics.known) {
        uint32_t topic = rx->names.reported++;

        if (!lli_topics_has(&rx->topics, topic, LLI_TOPICS_REPORTED))
            return lli_rx_topic_item(rx, topic, item);
    }
    return false;
}

/* ----------------------------------------------------------------------------------------------- messages */

/* A receiver of few of many topics spends most of its time here, so the position is in registers. */
LLI_OUT_OF_LINE void lli_rx_pass_refused(struct lli_rx *rx)
{
    struct lli_unpack *unpack = &rx->unpack;
    const uint8_t *at = unpack->at, *const end = unpack->end;
    uint32_t topic = unpack->topic;
    uint64_t passed = 0;
    bool refused = lli_topics_is_refused(&rx->topics, topic);

    while (at < end) {
        struct lli_frame frame;
        const uint8_t *next = lli_frame_get(at, end, &frame);

        if (frame.kind == LLI_FRAME_TOPIC) {
            topic = frame.value;
            refused = lli_topics_is_refused(&rx->topics, topic);
        } else if (frame.kind == LLI_FRAME_MESSAGE) {
            if (!refused || frame.value > (size_t)(end - next))
                break;
            next += frame.value;
            passed++;
        } else if (frame.kind != LLI_FRAME_SKIP) {
            break;
        }
        at = next;
    }
    unpack->at = at;
    unpack->topic = topic;
    unpack->number += passed;
    rx->counters->messages_refused += passed;
}

LLI_OUT_OF_LINE int lli_rx_account(struct lli_rx *rx, uint32_t topic, struct lli_item *item, int count)
{
    struct llm_message *messages = item->messages + item->count;
    int stale = 0;

    if (lli_topics_is_refused(&rx->topics, topic)) {
        rx->counters->messages_refused += (uint64_t)count;
        return 0;
    }
    while (stale < count && lli_rx_is_stale(rx, topic, messages[stale].number))
        stale++;
    count -= stale;
    if (stale > 0)
        memmove(messages, messages + stale, (size_t)count * sizeof *messages);
    if (rx->config->counts_topics)
        rx->names.counts[topic].messages += (uint64_t)count;
    for (int i = 0; i < count && rx->config->counts_topics; i++)
        rx->names.counts[topic].bytes += messages[i].size;
    return count;
}

void lli_rx_count_topics(struct lli_rx *rx, const struct lli_item *item)
{
    for (int i = 0; i < item->count; i++) {
        const struct llm_message *message = &item->messages[i];

        if (message->topic_id < rx->topics.limit) {
            rx->names.counts[message->topic_id].messages++;
            rx->names.counts[message->topic_id].bytes += message->size;
        }
    }
}
