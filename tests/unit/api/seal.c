/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transmitters that seal their packets and receivers that verify them, through the public API, over the loop transport;
 * and a member of the group that has its key and forges packets in the transmitter's name.
 */
#define _GNU_SOURCE
#include <llm/llm.h>

#include "counter.h"
#include "config/options.h"
#include "config/registry.h"
#include "core/protect/seal.h"
#include "engine/objects.h"
#include "key_place.h"
#include "log_lines.h"
#include "seal_keys.h"
#include "security/guard.h"

#define PLACE                                                                 \
    "://sealed:1?mtu=1500&flow=window&linger_ns=2000000000&history_bytes=8M&" \
    "reorder_bytes=4M&topics_max=8&rcvbuf_bytes=8M&silence_ns=10000000000"

enum { MESSAGES = 3000, SIZE = 700, PACKET_MAX = 1600, FILES = 5 };

enum { GROUP, PRIVATE, PUBLIC, OTHER_PRIVATE, OTHER_PUBLIC };

static struct llm_context *contexts[2]; /* of the receiver, and of the transmitter */
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;
static struct llm_topic *topic;
static char path[FILES][64];
static const char *scheme;
static uint32_t history; /* history_packets of the transmitter */
static int sessions;     /* sessions_max of the receiver */
static uint64_t delivered, forged_delivered, sent, lost;
static struct llm_event forged; /* the latest LLM_EVENT_FORGED */
static int forged_events;
static struct llm_event gap; /* the latest LLM_EVENT_GAP */

/* The forging member: its transport, its guard, and the latest data packet that it heard, as it was opened. */
static struct {
    const struct lli_transport *loop;
    void *instance;
    lli_handle group;
    struct lli_guard *guard;
    uint8_t heard[PACKET_MAX];
    uint32_t size;
    uint64_t session;
    lli_seq seq;
} member;

static void on_message(void *arg, const struct llm_message *message)
{
    const uint8_t *bytes = message->data;

    (void)arg;
    delivered++;
    forged_delivered += bytes[SIZE - 1] == 'F';
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    lost += event->kind == LLM_EVENT_GAP;
    if (event->kind == LLM_EVENT_GAP)
        gap = *event;
    if (event->kind != LLM_EVENT_FORGED)
        return;
    forged = *event;
    forged_events++;
}

static int up(void **state)
{
    static const char *const texts[FILES] = {KEY_EPOCH(7, "aes-128-gcm", KEY_A, "sealed:1"), SEAL_PRIVATE_A,
                                             SEAL_PUBLIC_A, SEAL_PRIVATE_B, SEAL_PUBLIC_B};
    struct llm_context_options options;

    (void)state;
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(path[i], sizeof path[i], "/tmp/llm-seal-%d-%d", (int)getpid(), i);
        key_file_write(path[i], texts[i]);
    }
    scheme = "loop";
    history = 4096;
    sessions = 4;
    delivered = forged_delivered = sent = lost = 0;
    forged_events = 0;
    log_text[0] = '\0';
    llm_context_options_init(&options);
    options.log = log_keep;
    for (int i = 0; i < 2; i++)
        assert_int_equal(llm_context_open(&options, &contexts[i]), LLM_OK);
    return 0;
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(llm_context_close(&contexts[i]), LLM_OK);
    for (int i = 0; i < FILES; i++)
        (void)unlink(path[i]);
    return 0;
}

static void channel(char *text, size_t size, const char *more)
{
    (void)snprintf(text, size, "%s" PLACE "&history_packets=%u&sessions_max=%d&keys=%s%s", scheme, history,
                   sessions, path[GROUP], more);
}

static void receiver_up(int public_key, const char *more)
{
    struct llm_receiver_handlers handlers;
    char options[256], text[512];

    (void)snprintf(options, sizeof options, "&seal_keys=%s%s", path[public_key], more);
    channel(text, sizeof text, options);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(contexts[0], text, NULL, &handlers, &receiver), LLM_OK);
}

static void transmitter_up(bool seals, const char *more)
{
    struct llm_transmitter_handlers handlers;
    char options[256], text[512];

    (void)snprintf(options, sizeof options, "%s%s%s", seals ? "&seal=" : "", seals ? path[PRIVATE] : "",
                   more);
    channel(text, sizeof text, options);
    llm_transmitter_handlers_init(&handlers);
    assert_int_equal(llm_transmitter_open(contexts[1], text, NULL, &handlers, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "topic", 0, &topic), LLM_OK);
}

static void poll_all(void)
{
    for (int i = 0; i < 2; i++)
        assert_true(llm_poll(contexts[i]) >= 0);
}

/* Data packets that the transmitter sent, repairs not counted. */
static uint64_t data_packets(void)
{
    return transmitter->tx.sent - transmitter->tx.config.history.start;
}

static void poll_until_counter(int index, const char *name, uint64_t wanted)
{
    const uint64_t began = llm_clock();

    while (counter_of(contexts[index], name) < wanted) {
        assert_true(llm_clock() < began + UINT64_C(60000000000));
        poll_all();
    }
}

static void send_messages(uint64_t count)
{
    uint8_t bytes[SIZE];

    for (uint64_t end = sent + count; sent < end; sent++) {
        pattern_fill(bytes, SIZE, sent);
        bytes[SIZE - 1] = 'T';
        while (llm_send(topic, bytes, SIZE, 0) == LLM_EAGAIN)
            poll_all();
        if (sent % 8 == 0)
            poll_all();
    }
}

static void poll_until_delivered(uint64_t wanted)
{
    const uint64_t began = llm_clock();

    while (delivered < wanted) {
        assert_true(llm_clock() < began + UINT64_C(60000000000));
        poll_all();
    }
}

static void expect_all_sealed(void)
{
    poll_until_delivered(sent);
    poll_until_counter(0, "packets_sealed", data_packets());
    assert_int_equal(lost, 0);
    assert_int_equal(forged_events, 0);
    assert_int_equal(counter_of(contexts[0], "packets_unsealed") + counter_of(contexts[0], "packets_refuted"),
                     0);
    assert_int_equal(
        counter_of(contexts[0], "packets_substituted") + counter_of(contexts[0], "seals_invalid"), 0);
}

static void every_packet_is_verified(void **state)
{
    (void)state;
    receiver_up(PUBLIC, "");
    transmitter_up(true, "");
    send_messages(MESSAGES);
    expect_all_sealed();
    assert_true(counter_of(contexts[1], "seals_sent") > 0);
    assert_true(counter_of(contexts[1], "seals_sent") < MESSAGES / 2);
}

/* Many more packets are sent than a history of 64 packets has, before a seal of them is due. */
static void packets_that_left_a_short_history_are_verified(void **state)
{
    (void)state;
    history = 64;
    receiver_up(PUBLIC, "");
    transmitter_up(true, "");
    send_messages(MESSAGES);
    expect_all_sealed();
}

static void lost_packets_and_lost_seals_are_verified_later(void **state)
{
    (void)state;
    scheme = "impair+loop";
    receiver_up(PUBLIC, "&impair_loss_ppm=50000&impair_reorder_ppm=20000&impair_duplicate_ppm=20000");
    transmitter_up(true, "&impair_loss_ppm=50000");
    send_messages(MESSAGES);
    expect_all_sealed();
    for (int lap = 0; lap < 100 && counter_of(contexts[0], "seals_requested") == 0; lap++) {
        send_messages(20);
        expect_all_sealed();
    }
    assert_true(counter_of(contexts[0], "seals_requested") > 0);
}

static void a_late_joiner_verifies_what_was_sealed_before_it_came(void **state)
{
    const uint64_t began = llm_clock();

    (void)state;
    transmitter_up(true, "");
    send_messages(MESSAGES / 2);
    while (llm_clock() < began + UINT64_C(1100000000))
        poll_all();
    receiver_up(PUBLIC, "&join=oldest");
    poll_until_delivered(sent);
    send_messages(MESSAGES / 2);
    expect_all_sealed();
}

static void a_transmitter_that_does_not_seal_is_reported_once_a_second(void **state)
{
    (void)state;
    receiver_up(PUBLIC, "");
    transmitter_up(false, "");
    send_messages(100);
    poll_until_counter(0, "packets_unsealed", data_packets());
    assert_int_equal(delivered, sent);
    assert_int_equal(forged_events, 1);
    assert_int_equal(forged.reason, LLM_REASON_UNSEALED);
    assert_true(forged.packets > 0);
    assert_int_equal(logged_count("public key is not in seal_keys"), 1);
}

/* Packets of a session that has no place are not verified, and that is reported. */
static void sessions_beyond_the_places_are_reported(void **state)
{
    (void)state;
    sessions = 1;
    receiver_up(PUBLIC, "&connections_max=1");
    for (int i = 0; i < 2; i++) {
        transmitter_up(true, "");
        send_messages(1);
        poll_until_counter(0, "packets_sealed", (uint64_t)i + 1);
    }
    assert_int_equal(forged_events, 0);
    transmitter_up(true, "");
    send_messages(1);
    poll_until_counter(0, "packets_unsealed", 1);
    assert_int_equal(forged_events, 1);
    assert_int_equal(forged.reason, LLM_REASON_UNSEALED);
    assert_int_equal(forged.session, transmitter->tx.config.session);
}

static void a_seal_by_another_key_counts_for_nothing(void **state)
{
    (void)state;
    receiver_up(OTHER_PUBLIC, "");
    transmitter_up(true, "");
    send_messages(100);
    poll_until_counter(0, "packets_unsealed", data_packets());
    assert_true(counter_of(contexts[0], "seals_invalid") > 0);
    assert_int_equal(counter_of(contexts[0], "packets_sealed"), 0);
    assert_int_equal(forged.reason, LLM_REASON_UNSEALED);
}

/* -------------------------------------------------------------------------------- delivery that waits for seals */

static void messages_wait_for_the_seals_of_their_packets(void **state)
{
    (void)state;
    receiver_up(PUBLIC, "&seal_hold=1");
    transmitter_up(true, "");
    send_messages(MESSAGES);
    /* A packet has two messages at most. */
    assert_true(delivered <= 2 * counter_of(contexts[0], "packets_sealed"));
    expect_all_sealed();
    assert_int_equal(counter_of(contexts[0], "nak_packets"), 0);
}

static void held_messages_survive_the_loss_of_packets_and_seals(void **state)
{
    (void)state;
    scheme = "impair+loop";
    receiver_up(PUBLIC,
                "&seal_hold=1&impair_loss_ppm=50000&impair_reorder_ppm=20000&impair_duplicate_ppm=20000");
    transmitter_up(true, "&impair_loss_ppm=50000");
    send_messages(MESSAGES);
    expect_all_sealed();
}

/* Also if the transmitter does not wait for its receivers. */
static void the_last_messages_are_sealed_when_the_transmitter_closes(void **state)
{
    (void)state;
    receiver_up(PUBLIC, "&seal_hold=1");
    transmitter_up(true, "&linger_ns=0");
    send_messages(1);
    expect_all_sealed();
    send_messages(20);
    assert_true(llm_transmitter_close(&transmitter) >= 0);
    poll_until_delivered(sent);
    assert_int_equal(lost + (uint64_t)forged_events, 0);
}

/* Nothing of it is delivered, and each message is reported lost. */
static void held_messages_of_a_transmitter_that_does_not_seal_are_lost(void **state)
{
    (void)state;
    receiver_up(PUBLIC, "&seal_hold=1");
    transmitter_up(false, "");
    send_messages(100);
    poll_until_counter(0, "messages_lost", sent);
    assert_int_equal(delivered, 0);
    assert_int_equal(gap.reason, LLM_REASON_UNSEALED);
    assert_int_equal(forged.reason, LLM_REASON_UNSEALED);
}

/* ------------------------------------------------------------------------------------- a forging member */

static void member_up(void)
{
    static struct llm_options options;
    static struct lli_option_values values;
    static struct lli_log log = {.function = log_keep, .level = LLM_LEVEL_WARNING};
    const struct lli_transport_config config = {.scheme = "loop",
                                                .host = "sealed",
                                                .options = &options,
                                                .values = &values,
                                                .registry = &lli_registry,
                                                .log = &log,
                                                .size_at = LLI_WIRE_SIZE_AT};
    const struct lli_group group = {
        .host = "sealed", .port = 1, .options = &options, .values = &values, .shared = true};
    const struct lli_guard_config guard = {.path = path[GROUP],
                                           .name = "sealed:1",
                                           .log = &log,
                                           .mode = LLI_PROTECT_ENCRYPT,
                                           .packet_max = UINT16_MAX,
                                           .senders = 16};
    struct lli_caps caps;
    lli_handle ignored;

    memset(&member, 0, sizeof member);
    llm_options_init(&options);
    options.mtu = 1500;
    options.rcvbuf_bytes = 8 << 20;
    lli_option_values_init(&values, "loop");
    member.loop = lli_transport_find("loop");
    member.instance = aligned_alloc(64, lli_round_up(member.loop->size, 64));
    assert_non_null(member.instance);
    memset(member.instance, 0, lli_round_up(member.loop->size, 64));
    assert_int_equal(member.loop->open(member.instance, &config, &caps), LLM_OK);
    assert_int_equal(member.loop->join(member.instance, &group, LLI_JOIN_SEND, &member.group), LLM_OK);
    assert_int_equal(member.loop->join(member.instance, &group, LLI_JOIN_RECEIVE, &ignored), LLM_OK);
    assert_int_equal(lli_guard_open(&guard, &member.guard), LLM_OK);
}

static void member_down(void)
{
    lli_guard_close(member.guard);
    member.loop->close(member.instance);
    free(member.instance);
}

/* Opens what came, and remembers the latest data packet. */
static void member_hear(void)
{
    struct lli_in packets[32];
    int count;

    while ((count = member.loop->receive(member.instance, packets, 32)) > 0) {
        for (int i = 0; i < count; i++) {
            const uint8_t *clear;
            size_t size;

            if (lli_guard_take(member.guard, packets[i].data, packets[i].size, &clear, &size) !=
                    LLI_GUARD_AUTHENTIC ||
                !lli_protect_is_data(clear))
                continue;
            memcpy(member.heard, clear, size);
            member.size = (uint32_t)size;
            member.seq = lli_guard_opened(member.guard, &member.session);
        }
        member.loop->release(member.instance, packets, count);
    }
}

/* Sends the message of the packet that it heard, with another last byte, as the transmitter's next one. */
static void member_forge(void)
{
    struct lli_guard_session *session;
    struct lli_out out = {.data = member.heard, .to = member.group};

    assert_true(member.size > 0);
    assert_int_equal(member.heard[member.size - 1], 'T');
    member.heard[member.size - 1] = 'F';
    lli_store_u32(member.heard + 8, lli_load_u32(member.heard + 8) + 1);
    lli_store_u32(member.heard + 12, lli_load_u32(member.heard + 12) + 1);
    assert_int_equal(lli_guard_session_open(member.guard, member.session, &session), LLM_OK);
    out.size = lli_guard_data(session, member.seq + 1, member.heard, member.size);
    lli_guard_session_close(session);
    assert_int_equal(member.loop->post(member.instance, &out, 1), 1);
    (void)member.loop->flush(member.instance);
}

/* Has the member hear a few messages, and forge the next one. */
static void forge_before(const char *more)
{
    receiver_up(PUBLIC, more);
    transmitter_up(true, "");
    send_messages(1);
    poll_until_counter(0, "packets_sealed", 1);
    member_up();
    /* It opens nothing before a heartbeat. */
    do {
        send_messages(1);
        poll_until_counter(0, "packets_sealed", data_packets());
        member_hear();
    } while (member.size == 0);
    member_forge();
}

/* The group key does not tell who sent it. */
static void forge_next(void)
{
    forge_before("");
    poll_until_delivered(sent + 1);
    assert_int_equal(forged_delivered, 1);
    assert_int_equal(forged_events, 0);
}

static void a_forged_packet_is_found_with_the_transmitters_next_one(void **state)
{
    (void)state;
    forge_next();
    send_messages(1);
    poll_until_counter(0, "packets_refuted", 1);
    assert_int_equal(counter_of(contexts[0], "packets_substituted"), 1);
    assert_int_equal(forged_events, 1);
    assert_int_equal(forged.reason, LLM_REASON_SEAL);
    assert_int_equal(forged.session, member.session);
    assert_int_equal(logged_count("withdraw its key"), 1);
    assert_int_equal(counter_of(contexts[0], "seals_invalid"), 0);
    member_down();
}

static void a_forged_packet_is_found_if_no_other_one_comes(void **state)
{
    (void)state;
    forge_next();
    poll_until_counter(0, "packets_unsealed", 1);
    assert_int_equal(forged_events, 1);
    assert_int_equal(forged.reason, LLM_REASON_UNSEALED);
    assert_int_equal(forged.packets, 1);
    member_down();
}

static void a_seal_of_the_forging_member_counts_for_nothing(void **state)
{
    struct lli_seal seal = {.count = 1};
    uint8_t packet[LLI_SEAL_MAX + LLI_PROTECT_CONTROL];
    struct lli_out out = {.data = packet};

    (void)state;
    forge_next();
    seal.session = member.session;
    seal.ranges[0] = (struct lli_seal_range){.first = member.seq + 1, .count = 1};
    out.to = member.group;
    out.size = lli_guard_control(member.guard, packet, lli_seal_put(packet, &seal));
    assert_int_equal(member.loop->post(member.instance, &out, 1), 1);
    (void)member.loop->flush(member.instance);
    poll_until_counter(0, "seals_invalid", 1);
    assert_int_equal(counter_of(contexts[0], "packets_sealed"), data_packets());
    member_down();
}

/* The transmitter's own packet of that number is requested again. */
static void a_forged_packet_is_replaced_where_delivery_waits_for_seals(void **state)
{
    (void)state;
    forge_before("&seal_hold=1");
    send_messages(MESSAGES);
    poll_until_delivered(sent);
    assert_int_equal(forged_delivered, 0);
    assert_int_equal(lost, 0);
    assert_true(counter_of(contexts[0], "packets_refuted") > 0);
    assert_int_equal(forged.reason, LLM_REASON_SEAL);
    member_down();
}

/* Also if that comes when the forged one was given up. */
static void a_forged_packet_ahead_of_the_transmitter_costs_no_message(void **state)
{
    (void)state;
    forge_before("&seal_hold=1");
    poll_until_counter(0, "packets_unsealed", 1);
    assert_int_equal(forged.reason, LLM_REASON_UNSEALED);
    send_messages(100);
    poll_until_delivered(sent);
    assert_int_equal(forged_delivered, 0);
    assert_int_equal(lost, 0);
    member_down();
}

/* ---------------------------------------------------------------------------------------------- refusals */

static void waiting_for_seals_that_cannot_come_is_refused(void **state)
{
    static const char *const more[][2] = {
        {"seal_hold=1", "set seal_keys, too"},
        {"seal_hold=1&order=arrival&seal_keys=/x", "order=arrival does not"},
        {"seal_hold=1&join=latest&seal_keys=/x", "those of join=latest"}};
    struct llm_receiver_handlers handlers;
    char text[512];

    (void)state;
    llm_receiver_handlers_init(&handlers);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(text, sizeof text, "loop://sealed:1?keys=%s&%s", path[GROUP], more[i][0]);
        assert_int_equal(llm_receiver_open(contexts[0], text, NULL, &handlers, &receiver), LLM_EOPTION);
        assert_int_equal(logged_count(more[i][1]), 1);
    }
}

static void seals_without_keys_or_without_their_file_are_refused(void **state)
{
    struct llm_receiver_handlers handlers;
    struct llm_transmitter_handlers senders;
    char text[512];

    (void)state;
    llm_receiver_handlers_init(&handlers);
    llm_transmitter_handlers_init(&senders);
    (void)snprintf(text, sizeof text, "loop://sealed:1?seal=%s", path[PRIVATE]);
    assert_int_equal(llm_transmitter_open(contexts[1], text, NULL, &senders, &transmitter), LLM_EOPTION);
    assert_int_equal(logged_count("option seal: "), 1);
    (void)snprintf(text, sizeof text, "loop://sealed:1?seal_keys=%s", path[PUBLIC]);
    assert_int_equal(llm_receiver_open(contexts[0], text, NULL, &handlers, &receiver), LLM_EOPTION);
    assert_int_equal(logged_count("option seal_keys: "), 1);
    (void)snprintf(text, sizeof text, "loop://sealed:1?keys=%s&seal=%s", path[GROUP], path[PUBLIC]);
    assert_int_equal(llm_transmitter_open(contexts[1], text, NULL, &senders, &transmitter), LLM_EDAMAGED);
    (void)snprintf(text, sizeof text, "loop://sealed:1?keys=%s&seal_keys=/nonexistent", path[GROUP]);
    assert_int_equal(llm_receiver_open(contexts[0], text, NULL, &handlers, &receiver), LLM_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_wait_for_the_seals_of_their_packets, up, down),
        cmocka_unit_test_setup_teardown(held_messages_survive_the_loss_of_packets_and_seals, up, down),
        cmocka_unit_test_setup_teardown(the_last_messages_are_sealed_when_the_transmitter_closes, up, down),
        cmocka_unit_test_setup_teardown(held_messages_of_a_transmitter_that_does_not_seal_are_lost, up, down),
        cmocka_unit_test_setup_teardown(a_forged_packet_is_replaced_where_delivery_waits_for_seals, up, down),
        cmocka_unit_test_setup_teardown(a_forged_packet_ahead_of_the_transmitter_costs_no_message, up, down),
        cmocka_unit_test_setup_teardown(waiting_for_seals_that_cannot_come_is_refused, up, down),
        cmocka_unit_test_setup_teardown(every_packet_is_verified, up, down),
        cmocka_unit_test_setup_teardown(packets_that_left_a_short_history_are_verified, up, down),
        cmocka_unit_test_setup_teardown(lost_packets_and_lost_seals_are_verified_later, up, down),
        cmocka_unit_test_setup_teardown(a_late_joiner_verifies_what_was_sealed_before_it_came, up, down),
        cmocka_unit_test_setup_teardown(a_transmitter_that_does_not_seal_is_reported_once_a_second, up, down),
        cmocka_unit_test_setup_teardown(sessions_beyond_the_places_are_reported, up, down),
        cmocka_unit_test_setup_teardown(a_seal_by_another_key_counts_for_nothing, up, down),
        cmocka_unit_test_setup_teardown(a_forged_packet_is_found_with_the_transmitters_next_one, up, down),
        cmocka_unit_test_setup_teardown(a_forged_packet_is_found_if_no_other_one_comes, up, down),
        cmocka_unit_test_setup_teardown(a_seal_of_the_forging_member_counts_for_nothing, up, down),
        cmocka_unit_test_setup_teardown(seals_without_keys_or_without_their_file_are_refused, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
