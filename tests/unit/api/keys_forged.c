/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attacker on a channel with keys, who hears every packet to the group and sends to everybody: packets in clear of
 * every type with the identity of the session, repeated packets, changed ones and invented ones, against a live transmitter
 * and a live receiver. Nothing but counters may change, and nothing may come in answer.
 */
#define _GNU_SOURCE
#include <llm/llm.h>

#include "counter.h"
#include "config/options.h"
#include "config/registry.h"
#include "core/protect/protect.h"
#include "engine/objects.h"
#include "key_place.h"
#include "log_lines.h"

#define PLACE                                                                                             \
    "loop://"                                                                                             \
    "forged:1?mtu=1500&flow=window&silence_ns=10000000000&linger_ns=2000000000&rcvbuf_bytes=8M&sessions_" \
    "max=4&topics_max=8&keys="

enum { ATTACKS = 30000, HEARD_MAX = 512, PACKET_MAX = 1600, ROUND = 20 };

static struct llm_context *contexts[2]; /* of the receiver, and of the transmitter */
static struct llm_transmitter *transmitter;
static struct llm_topic *topic;
static struct llm_receiver *receiver;
static char path[64];
static uint64_t delivered, sent, events;
static uint64_t chance_state = 5;

/* The attacker: its transport, and the packets that it heard. */
static struct {
    const struct lli_transport *loop;
    void *instance;
    struct lli_caps caps;
    lli_handle group, peers[2];
    uint8_t heard[HEARD_MAX][PACKET_MAX];
    uint32_t sizes[HEARD_MAX];
    uint32_t count;
    uint64_t answers; /* packets that came to its own address */
} attacker;

static void on_message(void *arg, const struct llm_message *message)
{
    uint64_t number;

    (void)arg;
    assert_int_equal(message->size, sizeof number);
    memcpy(&number, message->data, sizeof number);
    assert_int_equal(number, delivered);
    assert_int_equal(message->number, delivered);
    delivered++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    events += event->kind != LLM_EVENT_SESSION_NEW && event->kind != LLM_EVENT_TOPIC_NEW &&
              event->kind != LLM_EVENT_KEYS;
}

static void members_up(void)
{
    struct llm_receiver_handlers handlers;
    struct llm_transmitter_handlers senders;
    struct llm_context_options options;
    char text[512];

    key_file_write(path, KEY_EPOCH(7, "aes-128-gcm", KEY_A, "forged:1"));
    llm_context_options_init(&options);
    options.log = log_keep;
    for (int i = 0; i < 2; i++)
        assert_int_equal(llm_context_open(&options, &contexts[i]), LLM_OK);
    (void)snprintf(text, sizeof text, PLACE "%s", path);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(contexts[0], text, NULL, &handlers, &receiver), LLM_OK);
    llm_transmitter_handlers_init(&senders);
    senders.event = on_event;
    assert_int_equal(llm_transmitter_open(contexts[1], text, NULL, &senders, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "topic", 0, &topic), LLM_OK);
}

static void attacker_up(void)
{
    static struct llm_options options;
    static struct lli_option_values values;
    static struct lli_log log = {.function = log_keep, .level = LLM_LEVEL_WARNING};
    const struct lli_transport_config config = {.scheme = "loop",
                                                .host = "forged",
                                                .options = &options,
                                                .values = &values,
                                                .registry = &lli_registry,
                                                .log = &log,
                                                .size_at = LLI_WIRE_SIZE_AT};
    const struct lli_group group = {
        .host = "forged", .port = 1, .options = &options, .values = &values, .shared = true};
    lli_handle ignored;

    llm_options_init(&options);
    options.mtu = 1500;
    options.rcvbuf_bytes = 8 << 20;
    lli_option_values_init(&values, "loop");
    attacker.loop = lli_transport_find("loop");
    attacker.instance = aligned_alloc(64, lli_round_up(attacker.loop->size, 64));
    assert_non_null(attacker.instance);
    memset(attacker.instance, 0, lli_round_up(attacker.loop->size, 64));
    assert_int_equal(attacker.loop->open(attacker.instance, &config, &attacker.caps), LLM_OK);
    assert_int_equal(attacker.loop->join(attacker.instance, &group, LLI_JOIN_SEND, &attacker.group), LLM_OK);
    assert_int_equal(attacker.loop->join(attacker.instance, &group, LLI_JOIN_RECEIVE, &ignored), LLM_OK);
    for (int i = 0; i < 2; i++) {
        const struct lli_wire_address *wire = &contexts[i]->endpoints->address;
        struct lli_address address = {.size = wire->size};

        memcpy(address.bytes, wire->bytes, sizeof address.bytes);
        assert_int_equal(attacker.loop->peer(attacker.instance, &address, &attacker.peers[i]), LLM_OK);
    }
}

/* Takes what came, and remembers some of it. */
static void attacker_hear(void)
{
    struct lli_in packets[32];
    int count;

    while ((count = attacker.loop->receive(attacker.instance, packets, 32)) > 0) {
        for (int i = 0; i < count; i++) {
            const uint32_t at = attacker.count < HEARD_MAX ? attacker.count : below(&chance_state, HEARD_MAX);

            attacker.answers += packets[i].from == LLI_HANDLE_UNICAST;
            assert_true(packets[i].size <= PACKET_MAX);
            /* It hears its own, too. */
            if (!lli_protect_is(packets[i].data, packets[i].size) ||
                (attacker.count == HEARD_MAX && !chance(&chance_state, 5)))
                continue;
            memcpy(attacker.heard[at], packets[i].data, packets[i].size);
            attacker.sizes[at] = packets[i].size;
            attacker.count += attacker.count < HEARD_MAX;
        }
        attacker.loop->release(attacker.instance, packets, count);
    }
}

static void attacker_send(const uint8_t *packet, uint32_t size)
{
    const uint32_t where = below(&chance_state, 3);
    const struct lli_out out = {packet, size, where < 2 ? attacker.peers[where] : attacker.group};

    (void)attacker.loop->post(attacker.instance, &out, 1);
    (void)attacker.loop->flush(attacker.instance);
}

/* A packet of any type, in clear, with the identities that the attacker is given here. */
static uint32_t forge_clear(uint8_t *packet)
{
    const uint64_t session = transmitter->tx.config.session;
    const uint8_t type = (uint8_t)(1 + below(&chance_state, 14));
    const uint32_t size = LLI_WIRE_HEADER + 16 + below(&chance_state, 200);
    const struct lli_wire_header header = {.type = type,
                                           .size = (uint16_t)size,
                                           .tag = (uint32_t)session,
                                           .seq = (uint32_t)transmitter->tx.sent + below(&chance_state, 20),
                                           .number = (uint32_t)sent};

    for (uint32_t i = 0; i < size; i++)
        packet[i] = (uint8_t)below(&chance_state, 256);
    lli_wire_put_header(packet, &header);
    if (type != LLI_WIRE_DATA)
        lli_store_u64(packet + LLI_WIRE_HEADER, session);
    lli_store_u64(packet + LLI_WIRE_HEADER + 8, receiver->config.receiver);
    return size;
}

/* The same, as if it were protected. */
static uint32_t forge_protected(uint8_t *packet)
{
    const uint32_t size = forge_clear(packet);
    const uint32_t after = lli_protect_is_data(packet) ? LLI_PROTECT_DATA : LLI_PROTECT_CONTROL;
    const struct lli_protect_fields fields = {
        .sender = below(&chance_state, 4) + 1,
        .counter = ((uint64_t)time(NULL) << LLI_PROTECT_SECOND) + below(&chance_state, 100),
        .epoch = (uint16_t)(chance(&chance_state, 90) ? 7 : below(&chance_state, 10)),
        .suite = 1,
        .mode = 1,
    };
    struct lli_protect_parts parts;

    for (uint32_t i = 0; i < after; i++)
        packet[size + i] = (uint8_t)below(&chance_state, 256);
    assert_true(lli_protect_begin(packet, size, &fields, &parts));
    return size + after;
}

/* A packet that was heard: as it is, or with a changed bit, or cut. */
static uint32_t forge_heard(uint8_t *packet)
{
    const uint32_t which = below(&chance_state, attacker.count);
    uint32_t size = attacker.sizes[which];

    memcpy(packet, attacker.heard[which], size);
    if (chance(&chance_state, 40)) {
        packet[below(&chance_state, size)] ^= (uint8_t)(1 << below(&chance_state, 8));
    } else if (chance(&chance_state, 20)) {
        size = 1 + below(&chance_state, size);
        if (size >= LLI_WIRE_HEADER)
            lli_wire_put_size(packet, size);
    }
    return size;
}

static void attack(void)
{
    uint8_t packet[PACKET_MAX];
    const uint32_t kind = below(&chance_state, 3);
    uint32_t size;

    if (kind == 0 || attacker.count == 0)
        size = forge_clear(packet);
    else
        size = kind == 1 ? forge_protected(packet) : forge_heard(packet);
    attacker_send(packet, size);
}

static void poll_members(void)
{
    for (int i = 0; i < 2; i++)
        assert_true(llm_poll(contexts[i]) >= 0);
}

static void forged_packets_have_no_effect_and_no_answer(void **state)
{
    uint64_t began;

    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/llm-keys-forged-%d", (int)getpid());
    members_up();
    attacker_up();
    for (int i = 0; i < ATTACKS; i++) {
        attack();
        if (i % ROUND != 0)
            continue;
        while (llm_send(topic, &sent, sizeof sent, 0) == LLM_EAGAIN)
            poll_members();
        sent++;
        poll_members();
        attacker_hear();
    }
    began = llm_clock();
    while (delivered < sent) {
        poll_members();
        assert_true(llm_clock() < began + UINT64_C(60000000000));
    }
    attacker_hear();
    assert_int_equal(delivered, sent);
    assert_int_equal(events, 0);
    assert_int_equal(attacker.answers, 0);
    for (int i = 0; i < 2; i++) {
        assert_true(counter_of(contexts[i], "packets_forged") > ATTACKS / 50);
        assert_true(counter_of(contexts[i], "packets_in_clear") > ATTACKS / 50);
        assert_true(counter_of(contexts[i], "packets_repeated") > 0);
        assert_int_equal(counter_of(contexts[i], "control_malformed"), 0);
        assert_int_equal(counter_of(contexts[i], "control_foreign"), 0);
        assert_int_equal(counter_of(contexts[i], "packets_malformed"), 0);
        assert_int_equal(counter_of(contexts[i], "packets_foreign"), 0);
    }
    assert_int_equal(counter_of(contexts[0], "sessions_new"), 1);
    assert_int_equal(counter_of(contexts[1], "receivers_joined"), 1);
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(llm_context_close(&contexts[i]), LLM_OK);
    attacker.loop->close(attacker.instance);
    free(attacker.instance);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forged_packets_have_no_effect_and_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
