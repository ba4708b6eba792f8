/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with attributes from a transmitter's session to a receiver's with a filter, and a model of the
 * expected ones.
 */
#ifndef TESTS_FILTER_WORLD_H
#define TESTS_FILTER_WORLD_H

#include "ends.h"

#include <stdio.h>

#include "core/select/filter.h"

enum { TOPICS = 4, REFUSED = 2, MESSAGES_MAX = 6000, ROUND = 24, SIZE_MAX_SENT = 900 };

/* Sent messages, by number. */
struct sent {
    struct lli_attributes attributes;
    bool has;
    uint32_t size;
    uint32_t topic;
};

static struct lli_filter filter;
static uint64_t seeded;
static uint8_t buffer[LLI_WIRE_CONTROL_MAX];
static lli_ns now;
static struct sent sent[MESSAGES_MAX];
static bool came[MESSAGES_MAX];
static uint64_t sent_count, told, delivered, lost;
static bool arriving; /* unordered delivery: in any order, each message once, or lost */

static inline void topics_open(void)
{
    static const char *const names[] = {"zero", "one", "two", "three"};

    for (uint32_t i = 0, id; i < TOPICS; i++) {
        assert_int_equal(lli_tx_topic_add(tx, names[i], &id), LLM_OK);
        assert_int_equal(id, i);
    }
}

static inline int up(void **state)
{
    const struct lli_tx_config tx_options = tx_config();

    (void)state;
    now = 100 * MS;
    r = (struct receiver){.random = 1};
    seeded = 1;
    memset(&filter, 0, sizeof filter);
    memset(came, 0, sizeof came);
    sent_count = told = delivered = lost = 0;
    r.config = rx_config();
    r.config.as_it_arrives = arriving;
    r.config.window_packets = 4 * WINDOW;
    r.config.timeout = 5000 * MS;
    transmitter_make(&t, &tx_options, now);
    receiver_make(&r, 96, now);
    topics_open();
    return 0;
}

static inline int up_arriving(void **state)
{
    arriving = true;
    (void)up(state);
    arriving = false;
    return 0;
}

/* ------------------------------------------------------------------------------------------------- oracle */

static inline bool model_wants(const struct sent *message)
{
    bool label = filter.labels_count == 0;
    unsigned common = 0, wrong = 0;

    if (r.config.filter == NULL)
        return true;
    for (uint32_t i = 0; i < filter.labels_count; i++)
        label |= (message->attributes.label & filter.labels[i].mask) == filter.labels[i].match;
    for (unsigned bit = 0; bit < LLM_BITMAP_BITS_MAX; bit++) {
        const unsigned has = message->attributes.bitmap[bit / 64] >> bit % 64 & 1,
                       mask = filter.mask[bit / 64] >> bit % 64 & 1;

        common += has & mask;
        wrong += (has & mask) != (filter.match[bit / 64] >> bit % 64 & 1);
    }
    return label && (!filter.bitmap || (filter.any ? common > 0 : wrong == 0));
}

/* The next messages were skipped up to this number: none of them was wanted. */
static inline void model_pass(uint64_t number)
{
    assert_true(number >= told && number <= sent_count);
    for (; told < number; told++)
        if (sent[told].topic != REFUSED && model_wants(&sent[told]) && !came[told])
            fail_msg("message %llu with label %08x did not come", (unsigned long long)told,
                     sent[told].attributes.label);
}

static inline void model_message(const struct llm_message *message)
{
    static const char *const names[] = {"zero", "one", "two", "three", "four"};
    const uint64_t number = message->number;
    struct lli_attributes attributes;
    struct lli_rx_frame frame;

    if (!r.config.as_it_arrives)
        model_pass(number);
    assert_true(number >= told && number < sent_count && !came[number]);
    if (!model_wants(&sent[number]) || sent[number].topic == REFUSED)
        fail_msg("message %llu with label %08x came", (unsigned long long)number,
                 sent[number].attributes.label);
    assert_int_equal(message->size, sent[number].size);
    assert_int_equal(message->topic_id, sent[number].topic);
    assert_string_equal(message->topic, names[sent[number].topic]);
    pattern_check(message->data, message->size, number);
    if (r.config.filter != NULL) {
        assert_true(lli_rx_attributes(rx, message, &frame));
        (void)lli_attributes_get(frame.bytes, frame.size, &attributes);
        assert_int_equal(attributes.label, sent[number].attributes.label);
    }
    came[number] = true;
    told += !r.config.as_it_arrives;
    delivered++;
}

static inline void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++)
            model_message(&item.messages[i]);
        if (item.kind == LLI_ITEM_TOPIC && item.event.topic_id == REFUSED)
            lli_rx_topic_refuse(rx, REFUSED);
        if (item.kind != LLI_ITEM_EVENT || item.event.kind != LLM_EVENT_GAP)
            continue;
        model_pass(item.event.first);
        lost += item.event.last + 1 - item.event.first;
        for (; told <= item.event.last; told++)
            assert_false(came[told]);
    }
}

static inline void rx_take(const uint8_t *packet, size_t size)
{
    receiver_take(&r, packet, size, now, pull);
}

static inline void carry(lli_seq seq)
{
    rx_take(lli_history_packet(&tx->history, seq), lli_history_slot(&tx->history, seq)->size);
}

static inline void heartbeat_due(void)
{
    struct lli_packet packet;

    tx->heartbeat.at = now;
    while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
        rx_take(packet.data, packet.size);
    pull();
}

/* The receiver requests missing packets without success. */
static inline void wait_for(lli_ns time)
{
    struct lli_packet packet;

    for (lli_ns until = now + time; now < until; now += 10 * MS) {
        while (lli_rx_control(rx, now, buffer, &packet))
            continue;
        heartbeat_due();
    }
}

/* --------------------------------------------------------------------------------------------------- send */

static inline void frame_put(struct lli_pack_attributes *frame, const struct sent *message, uint8_t bitmap)
{
    uint8_t *at = frame->frame;

    at[0] = LLI_FRAME_ATTRIBUTES;
    lli_store_u16(at + 1, (uint16_t)(bitmap > 0 ? 5 + bitmap : 4));
    lli_store_u32(at + 3, message->attributes.label);
    at[7] = bitmap;
    for (unsigned i = 0; i < bitmap; i++)
        at[8 + i] = (uint8_t)(message->attributes.bitmap[i / 8] >> i % 8 * 8);
    frame->label = message->attributes.label;
    frame->size = bitmap > 0 ? 8u + bitmap : 7;
}

static inline bool pack_message(const struct sent *message, uint8_t bitmap)
{
    static uint8_t bytes[SIZE_MAX_SENT + 1];
    const struct lli_pack_topic topic = {.id = message->topic, .whole = message->topic == 3};
    const struct iovec piece = {bytes, message->size};
    struct lli_pack_attributes frame;
    bool packed;

    pattern_fill(bytes, message->size, sent_count);
    frame_put(&frame, message, bitmap);
    if (message->has)
        lli_pack_attribute(&tx->pack, &frame);
    packed = lli_pack_message(&tx->pack, &topic, &piece, message->size, lli_tx_busy(tx));
    if (message->has)
        lli_pack_attribute(&tx->pack, NULL);
    if (packed)
        sent[sent_count++] = *message;
    return packed;
}

static inline bool pack_labelled(uint32_t label, uint32_t size)
{
    const struct sent message = {.has = true, .attributes = {.label = label}, .size = size};

    return pack_message(&message, 0);
}

/* Delivers all packed messages in some order; some packets are lost. */
static inline void deliver(lli_seq from, uint32_t loss_percent, bool reorders)
{
    lli_seq order[HISTORY];
    uint32_t count = 0;

    lli_pack_flush(&tx->pack);
    for (lli_seq seq = from; seq < tx->history.next; seq++)
        order[count++] = seq;
    lli_tx_sent(tx, (int)count, now);
    lli_tx_reaped(tx, true);
    for (uint32_t i = 0; reorders && i < count; i++) {
        const uint32_t other = i + below(&seeded, (uint32_t)lli_min(4, count - i));
        const lli_seq seq = order[i];

        order[i] = order[other];
        order[other] = seq;
    }
    for (uint32_t i = 0; i < count; i++)
        /* The last packet reveals those before it. */
        if (order[i] + 1 == tx->history.next || !chance(&seeded, loss_percent))
            carry(order[i]);
}

#endif
