/* SPDX-License-Identifier: Apache-2.0 */
/* A transmitter with cached topics and a late receiver: sent, delivered and expected messages. */
#ifndef TESTS_KEPT_WORLD_H
#define TESTS_KEPT_WORLD_H

#include "ends.h"

#include <stdio.h>

#include "core/select/filter.h"

enum { TOPICS = 40, MESSAGES_MAX = 4096, SIZE_MAX_SENT = 2000, WANTED = 2 };

static uint8_t buffer[1024], bytes[SIZE_MAX_SENT];
static struct llm_join join;
static lli_ns now;
static uint64_t dice = 1;
static uint32_t loss;         /* percentage, of all packets but new data */
static bool deaf;             /* the transmitter receives nothing */
static uint64_t refused_from; /* topics from this one on are refused */

/* Sent messages. */
static struct {
    uint32_t topic;
    uint32_t size;
} sent[MESSAGES_MAX];
static struct lli_lvc_topic *kept[TOPICS];
static char names[TOPICS][8];
static uint8_t *lvc_memory;

/* Delivered messages. */
static struct {
    uint64_t splice;   /* the session's start of the stream */
    uint64_t expected; /* next message after it */
    bool given[MESSAGES_MAX];
    uint64_t next[TOPICS]; /* by topic: number after its latest message */
    uint64_t at_live;      /* next message at LLM_EVENT_LIVE */
    int before, news, lives, gaps;
    struct llm_event refused, lost, gap;
} got;

static int up(void **state)
{
    struct lli_tx_config tx_options = tx_config();

    (void)state;
    now = 5000 * MS;
    r = (struct receiver){.random = 1};
    loss = 0;
    deaf = false;
    refused_from = TOPICS;
    join = (struct llm_join){.mode = LLM_JOIN_LATEST};
    memset(&got, 0, sizeof got);
    r.config = rx_config();
    r.config.chooses = true;
    r.config.otherwise = LLI_RX_ELSE_REFUSE;
    r.config.topics_max = TOPICS;
    tx_options.topics_max = TOPICS;
    transmitter_make(&t, &tx_options, now);
    now += 2 * LLI_TX_YOUNG;
    receiver_make(&r, 32, now);
    return 0;
}

static int lvc_down(void **state)
{
    (void)down(state);
    for (int i = 0; i < TOPICS; i++)
        free(kept[i]);
    memset(kept, 0, sizeof kept);
    free(lvc_memory);
    lvc_memory = NULL;
    return 0;
}

/* ------------------------------------------------------------------------------------------- transmitter */

static void sent_all(void)
{
    lli_pack_flush(&tx->pack);
    lli_tx_sent(tx, (int)(tx->history.next - tx->sent), now);
    lli_tx_reaped(tx, true);
}

static void lvc(uint32_t id, uint32_t messages, uint32_t bytes_max)
{
    struct lli_arena arena = {.memory = lvc_memory};

    if (lvc_memory == NULL) {
        struct lli_lvc measured;

        lli_lvc_init(&measured, TOPICS, &arena);
        arena_fill(&arena);
        lvc_memory = arena.memory;
    }
    arena.used = 0;
    kept[id] = calloc(1, sizeof **kept + lli_lvc_ring_size(messages, bytes_max));
    *kept[id] = (struct lli_lvc_topic){id, messages, bytes_max, 0, (uint8_t *)(kept[id] + 1)};
    lli_tx_lvc_begin(tx, kept[id], &arena);
}

static uint32_t open_topic(void)
{
    uint32_t id;

    (void)snprintf(names[tx->topics.count], sizeof names[0], "t%u", tx->topics.count);
    assert_int_equal(lli_tx_topic_add(tx, names[tx->topics.count], &id), LLM_OK);
    return id;
}

/* Opens this many topics that each cache this many messages. */
static void open_topics(uint32_t count, uint32_t messages, uint32_t bytes_max)
{
    while (count-- > 0)
        lvc(open_topic(), messages, bytes_max);
    sent_all();
}

static void rx_take(const struct lli_packet *packet);

/* Sends a message in its own packet, which the receiver hears or not. */
static void send(uint32_t topic, uint32_t size, bool heard)
{
    const struct lli_pack_topic to = {.id = topic};
    const struct lli_pack_attributes *attributes = tx->pack.attributes;
    const uint64_t number = tx->pack.number;
    struct iovec pieces[] = {{bytes, size / 3}, {bytes + size / 3, size - size / 3}};
    struct lli_packet packets[16];
    int count;

    assert_true(number < MESSAGES_MAX && size <= SIZE_MAX_SENT);
    sent[number].topic = topic;
    sent[number].size = size;
    pattern_fill(bytes, size, number);
    assert_true(lli_pack_message(&tx->pack, &to, pieces, size, lli_tx_busy(tx)));
    if (kept[topic] != NULL)
        lli_tx_lvc_add(tx, kept[topic], attributes, pieces, size);
    lli_pack_flush(&tx->pack);
    count = lli_tx_unsent(tx, now, packets, 16);
    for (int i = 0; heard && i < count; i++)
        rx_take(&packets[i]);
    lli_tx_sent(tx, count, now);
    lli_tx_reaped(tx, true);
}

/* ---------------------------------------------------------------------------------------------- receiver */

static void take_event(const struct llm_event *event)
{
    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        got.news++;
        got.splice = got.expected = event->first;
        break;
    case LLM_EVENT_GAP:
        got.gaps++;
        got.gap = *event;
        if (event->first >= got.splice) {
            assert_int_equal(event->first, got.expected);
            got.expected = event->last + 1;
        }
        break;
    case LLM_EVENT_LIVE:
        got.lives++;
        while (got.expected < event->first && sent[got.expected].topic >= refused_from)
            got.expected++;
        assert_int_equal(event->first, got.expected);
        got.at_live = got.expected;
        break;
    case LLM_EVENT_JOIN_REFUSED:
        got.refused = *event;
        break;
    case LLM_EVENT_CACHE_LOST:
        assert_int_equal(got.lives, 0);
        got.lost = *event;
        break;
    default:
        break;
    }
}

/* Checks the order: in its topic before the splice; after it over all wanted topics, without omissions. */
static void take_message(const struct llm_message *message)
{
    const uint64_t number = message->number;
    const uint32_t topic = message->topic_id;

    assert_true(number < tx->pack.number && topic < refused_from);
    assert_int_equal(message->size, sent[number].size);
    assert_int_equal(topic, sent[number].topic);
    assert_string_equal(message->topic, names[topic]);
    pattern_check(message->data, message->size, number);
    if (number < got.splice) {
        assert_int_equal(got.lives, 0);
        assert_int_equal(got.expected, got.splice);
        got.before++;
    } else {
        while (got.expected < number && sent[got.expected].topic >= refused_from)
            got.expected++;
        assert_int_equal(number, got.expected++);
    }
    assert_true(number >= got.next[topic]);
    got.next[topic] = number + 1;
    got.given[number] = true;
}

static void take_messages(const struct lli_item *item)
{
    struct lli_rx_frame frame;

    for (int i = 0; i < item->count; i++) {
        if (r.config.filter != NULL) {
            assert_true(lli_rx_attributes(rx, &item->messages[i], &frame));
            assert_int_equal(frame.bytes[0], WANTED);
        }
        take_message(&item->messages[i]);
    }
}

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        if (item.kind == LLI_ITEM_JOIN)
            lli_rx_begin(rx, &join, now);
        else if (item.kind == LLI_ITEM_TOPIC && item.event.topic_id >= refused_from)
            lli_rx_topic_refuse(rx, item.event.topic_id);
        else if (item.kind == LLI_ITEM_MESSAGES)
            take_messages(&item);
        else
            take_event(&item.event);
    }
}

static void rx_take(const struct lli_packet *out)
{
    receiver_take(&r, out->data, out->size, now, pull);
}

/* Carries all due packets between both once. */
static void turn(void)
{
    struct lli_packet packet;

    while (lli_tx_repair(tx, now, &packet)) {
        if (!chance(&dice, loss))
            rx_take(&packet);
        lli_tx_repaired(tx, now);
    }
    while (lli_tx_replay(tx, now, &packet)) {
        if (!chance(&dice, loss))
            rx_take(&packet);
        lli_tx_replayed(tx);
    }
    while (lli_tx_replay_lvc(tx, now, buffer, sizeof buffer, &packet)) {
        assert_int_equal(packet.to->bytes[0], 'r');
        assert_true(packet.size <= PACKET_MAX);
        if (!chance(&dice, loss))
            rx_take(&packet);
    }
    lli_tx_reaped(tx, true);
    while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
        if (!chance(&dice, loss))
            rx_take(&packet);
    while (lli_rx_control(rx, now, buffer, &packet))
        if (!deaf && !chance(&dice, loss))
            tx_take(tx, packet.data, packet.size, now);
    pull();
}

static void talk(lli_ns until)
{
    for (; now < until; now += 20 * US)
        turn();
}

static void talk_until_new(void)
{
    while (got.news == 0)
        talk(now + 20 * US);
}

/* ------------------------------------------------------------------------------------------------ oracle */

/*
 * Checks a wanted topic: every message from the splice on, and before it only the last ones that it cached;
 * of these, all that were still among its last ones when the receiver went live.
 */
static void expect_topic(uint32_t topic, uint64_t keeps)
{
    uint64_t live = 0, before = 0;

    for (uint64_t number = got.at_live; number-- > got.splice;)
        live += sent[number].topic == topic;
    for (uint64_t number = got.splice; number-- > 0;)
        if (sent[number].topic == topic) {
            assert_true(!got.given[number] || before < keeps);
            assert_true(got.given[number] || before + live >= keeps);
            before++;
        }
}

static void expect_latest(uint64_t most)
{
    assert_int_equal(got.news, 1);
    assert_int_equal(got.lives, 1);
    assert_int_equal(got.expected, tx->pack.number);
    for (uint32_t topic = 0; topic < tx->topics.count && topic < refused_from; topic++)
        expect_topic(topic, kept[topic] == NULL ? 0 : lli_min(kept[topic]->messages, most));
    assert_int_equal(r.counters.data_malformed, 0);
    assert_int_equal(r.counters.control_malformed, 0);
    assert_int_equal(r.reorder.used, 0);
}

static void expect_before(int count)
{
    talk(now + 200 * MS);
    send(0, 5, true);
    expect_latest(UINT64_MAX);
    assert_int_equal(got.before, count);
}

#endif
