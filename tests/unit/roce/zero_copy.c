/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From llm_send() to the handler, a message within one packet is copied only by the device, once it is in the
 * history.
 */
#define _GNU_SOURCE
#include "rig.h"

#include <llm/llm.h>

#include "engine/objects.h"
#include "core/wire/wire.h"

enum { MESSAGES = 2000, PACKETS = MESSAGES + 10, IN_ONE_PACKET = 4000, IN_THREE = 10000, LOST_EVERY = 7 };

#define CHANNEL "roce://239.1.2.3:5000?rcvbuf_bytes=4M&history_bytes=4M"

/* Two ends in one context, connected by the device. */
struct ends {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_topic *topic;
    uint64_t random;
    const uint8_t *claimed; /* address of the latest claimed message; NULL: llm_send() was used */
    uint64_t delivered;
    uint64_t copied; /* messages that were not in a buffer of the device */
    uint64_t data_packets, inlined, repairs;
    bool lossy;                     /* some data packets are lost at their first transmission */
    const uint8_t *places[PACKETS]; /* by packet: address from which it was sent */
    uint32_t first_seq;
};

static struct ends ends;

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    assert_int_equal(message->number, ends.delivered);
    pattern_check(message->data, message->size, message->number);
    ends.delivered++;
    ends.copied += !fake_is_writable(message->data, message->size);
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    assert_int_not_equal(event->kind, LLM_EVENT_GAP);
}

/* --------------------------------------------------------------------------------------------------- wire */

static bool lies_in(const struct lli_memory *memory, const uint8_t *data, size_t size)
{
    return (uintptr_t)data >= (uintptr_t)memory->base &&
           (uintptr_t)data + size <= (uintptr_t)memory->base + memory->size;
}

/*
 * Checks that a data packet is sent from its place in the history, also when sent again. False: it is lost.
 */
static bool data_packet(const struct fake_send *sent)
{
    const uint32_t seq = lli_load_u32(sent->data + 8);
    const uint8_t **place;

    assert_true(lies_in(&ends.transmitter->memory, sent->data, sent->size));
    if (ends.data_packets == 0)
        ends.first_seq = seq;
    assert_in_range(seq - ends.first_seq, 0, PACKETS - 1);
    place = &ends.places[seq - ends.first_seq];
    if (*place != NULL) {
        assert_ptr_equal(sent->data, *place);
        ends.repairs++;
        return true;
    }
    *place = sent->data;
    ends.data_packets++;
    ends.inlined += (sent->flags & IBV_SEND_INLINE) != 0;
    if (ends.claimed != NULL)
        assert_true(ends.claimed > sent->data && ends.claimed < sent->data + sent->size);
    return !ends.lossy || ends.data_packets % LOST_EVERY != 0;
}

/* Delivers the sent packets, and completes them. */
static void wire(void)
{
    for (uint32_t i = 0; i < fake.sent_count; i++) {
        const struct fake_send *sent = &fake.sent[i];
        const bool is_data = (sent->data[0] & 0xf) == LLI_WIRE_DATA;

        if (!is_data || data_packet(sent))
            assert_true(fake_arrive_sent(sent));
    }
    fake_sent_forget();
    fake_complete_all();
    assert_true(llm_poll(ends.context) >= 0);
}

/* -------------------------------------------------------------------------------------------------- tests */

static void ends_open(void)
{
    struct llm_receiver_handlers handlers;

    memset(&ends, 0, sizeof ends);
    ends.random = 1;
    fake.complete_when_polled = false;
    fake_sent_forget();
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_context_open(NULL, &ends.context), 0);
    assert_int_equal(llm_receiver_open(ends.context, CHANNEL, NULL, &handlers, &ends.receiver), 0);
    assert_int_equal(
        llm_transmitter_open(ends.context, CHANNEL "&linger_ns=0", NULL, NULL, &ends.transmitter), 0);
    assert_int_equal(llm_topic_open(ends.transmitter, "topic", 0, &ends.topic), 0);
    AWAIT((wire(), llm_transmitter_receivers(ends.transmitter) == 1));
}

static void ends_close(void)
{
    fake.complete_when_polled = true;
    assert_int_equal(llm_context_close(&ends.context), 0);
}

static void send_message(uint64_t number, uint32_t size, bool claim)
{
    uint8_t message[IN_THREE];
    void *data = message;

    ends.claimed = NULL;
    if (claim) {
        assert_int_equal(llm_topic_claim(ends.topic, size, &data), 0);
        ends.claimed = data;
    }
    pattern_fill(data, size, number);
    if (claim)
        assert_int_equal(llm_topic_commit(ends.topic, size, LLM_SEND_NOW), 0);
    else
        assert_int_equal(llm_send(ends.topic, data, size, LLM_SEND_NOW), 0);
}

static void messages_are_not_copied_by_either_end(void **state)
{
    static const uint32_t granted[] = {0, 256};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        fake.device.inline_granted = granted[i];
        ends_open();
        for (uint64_t number = 0; number < MESSAGES; number++) {
            send_message(number, 1 + below(&ends.random, chance(&ends.random, 50) ? 100 : IN_ONE_PACKET),
                         number % 2 == 0);
            wire();
            AWAIT((wire(), ends.delivered == number + 1));
        }
        assert_int_equal(ends.copied, 0);
        assert_int_equal(ends.repairs, 0);
        /* The first packet may have the topic's name only. */
        assert_in_range(ends.data_packets, MESSAGES, MESSAGES + 1);
        if (granted[i] == 0)
            assert_int_equal(ends.inlined, 0);
        else
            assert_in_range(ends.inlined, MESSAGES / 4, MESSAGES * 3 / 4);
        send_message(MESSAGES, IN_THREE, false);
        AWAIT((wire(), ends.delivered == MESSAGES + 1));
        assert_int_equal(ends.copied, 1); /* it is reassembled */
        ends_close();
    }
}

static void repairs_are_sent_from_the_history(void **state)
{
    (void)state;
    fake.device.inline_granted = 0;
    ends_open();
    ends.lossy = true;
    for (uint64_t number = 0; number < MESSAGES / 4; number++) {
        send_message(number, IN_ONE_PACKET, false);
        wire();
    }
    AWAIT((wire(), ends.delivered == MESSAGES / 4));
    assert_in_range(ends.repairs, MESSAGES / 4 / LOST_EVERY, MESSAGES / 4);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_are_not_copied_by_either_end),
        TEST(repairs_are_sent_from_the_history),
    };

    alarm(100);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
