/* SPDX-License-Identifier: Apache-2.0 */
/* The last report of a receiver, mainly after the end of a session, and the transmitter that waits for it. */
#define _GNU_SOURCE
#include "ends.h"

#include <llm/llm.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MANY = 9 }; /* more than report at once */

static struct llm_event last_event;
static uint8_t buffer[LLI_WIRE_CONTROL_MAX];
static lli_ns now;
static uint32_t known; /* receivers, as announced in heartbeats */

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item))
        if (item.kind == LLI_ITEM_EVENT)
            last_event = item.event;
}

static int up(void **state)
{
    const struct lli_tx_config config = tx_config();

    (void)state;
    now = 100 * MS;
    known = MANY;
    r = (struct receiver){.random = 1};
    r.config = rx_config();
    r.config.application_acknowledges = true;
    last_event = (struct llm_event){0};
    transmitter_make(&t, &config, now);
    receiver_make(&r, 32, now);
    return 0;
}

/* Heartbeat of a session with one assured topic. */
static void hear_heartbeat(uint8_t flags)
{
    const struct lli_wire_heartbeat heartbeat = {.session = SESSION,
                                                 .lead = tx->sent,
                                                 .trail = START,
                                                 .start = START,
                                                 .messages = tx->sent - START,
                                                 .sent_at = now,
                                                 .interval_us = 10000,
                                                 .receivers = known,
                                                 .flags = flags | LLI_WIRE_HEARTBEAT_ASSURED,
                                                 .unacknowledged = START,
                                                 .assured = 1,
                                                 .address = {1, {'t'}}};

    receiver_take(&r, buffer, lli_wire_put_heartbeat(buffer, &heartbeat), now, pull);
}

static void hear_all(void)
{
    hear_heartbeat(LLI_WIRE_HEARTBEAT_YOUNG);
    for (int i = 0; i < 2; i++) {
        const lli_seq seq = tx->sent;

        send_one(tx, "message", now);
        receiver_take(&r, lli_history_packet(&tx->history, seq), lli_history_slot(&tx->history, seq)->size,
                      now, pull);
    }
    assert_int_equal(lli_rx_delivered(rx), 2);
}

static void hear_end(void)
{
    hear_heartbeat(LLI_WIRE_HEARTBEAT_YOUNG | LLI_WIRE_HEARTBEAT_HELD | LLI_WIRE_HEARTBEAT_END);
    assert_int_equal(last_event.kind, LLM_EVENT_SESSION_END);
    assert_int_equal(rx->state, LLI_RX_ENDED);
}

static struct lli_wire_status status_of(const struct lli_packet *packet)
{
    struct lli_wire_header header = {0};
    struct lli_wire_status status;
    const uint8_t *body;
    size_t size;

    assert_int_equal(lli_wire_get_header(packet->data, packet->size, &header, &body, &size), LLI_WIRE_OK);
    assert_int_equal(header.type, LLI_WIRE_STATUS);
    assert_true(lli_wire_get_status(body, size, header.tag, &status));
    return status;
}

static void a_report_postponed_after_the_end_is_sent_on_leaving(void **state)
{
    struct lli_wire_status status;
    struct lli_packet packet;

    (void)state;
    hear_all();
    while (lli_rx_control(rx, now, buffer, &packet))
        continue;
    hear_end();
    assert_false(lli_rx_control(rx, now, buffer, &packet));
    assert_true(lli_rx_leave(rx, now, buffer, &packet));
    status = status_of(&packet);
    assert_int_equal(status.flags,
                     LLI_WIRE_STATUS_LEAVING | LLI_WIRE_STATUS_DONE | LLI_WIRE_STATUS_ACKNOWLEDGES);
    assert_int_equal(status.next, START + 2);
    assert_int_equal(status.acknowledged_next, 0);
}

static void an_acknowledgement_after_the_end_is_sent_on_leaving(void **state)
{
    struct lli_wire_status status;
    struct lli_packet packet;

    (void)state;
    hear_all();
    hear_end();
    assert_true(lli_rx_acknowledge(rx, 1, now));
    assert_true(lli_rx_leave(rx, now, buffer, &packet));
    status = status_of(&packet);
    assert_true(status.flags & LLI_WIRE_STATUS_LEAVING);
    assert_int_equal(status.acknowledged_next, 2);
}

static int reports_due(void)
{
    struct lli_packet packet;
    int count = 0;

    while (lli_rx_control(rx, now, buffer, &packet))
        count += status_of(&packet).session == SESSION;
    return count;
}

/* The transmitter waits for it. */
static void an_acknowledgement_is_reported_at_once_and_once(void **state)
{
    (void)state;
    known = 1;
    hear_all();
    (void)reports_due();
    hear_heartbeat(LLI_WIRE_HEARTBEAT_YOUNG | LLI_WIRE_HEARTBEAT_HELD);
    (void)reports_due();
    assert_true(lli_rx_acknowledge(rx, 0, now));
    assert_int_equal(reports_due(), 1);
    for (int i = 0; i < 10; i++)
        assert_true(lli_rx_acknowledge(rx, 0, now));
    assert_int_equal(reports_due(), 0);
    assert_true(lli_rx_acknowledge(rx, 1, now));
    assert_int_equal(reports_due(), 1);
}

static void one_of_a_thousand_receivers_answers_the_end_in_time(void **state)
{
    struct lli_packet packet;

    (void)state;
    known = 1000;
    hear_all();
    while (lli_rx_control(rx, now, buffer, &packet))
        continue;
    hear_heartbeat(LLI_WIRE_HEARTBEAT_YOUNG | LLI_WIRE_HEARTBEAT_END);
    assert_int_equal(rx->state, LLI_RX_ENDED);
    assert_true(lli_rx_deadline(rx) < now + r.config.status);
}

static void heartbeat_of_share(uint64_t session_receiver, uint32_t k)
{
    const struct lli_wire_heartbeat heartbeat = {
        .session = SESSION,
        .lead = tx->sent,
        .trail = START,
        .start = START,
        .messages = tx->sent - START,
        .sent_at = now,
        .interval_us = 10000,
        .receivers = 1000,
        .report_packets = 2,
        .flags = (uint8_t)(LLI_WIRE_HEARTBEAT_SHARE * k | LLI_WIRE_HEARTBEAT_HELD),
        .address = {1, {'t'}}};

    r.config.receiver = SESSION ^ session_receiver;
    receiver_take(&r, buffer, lli_wire_put_heartbeat(buffer, &heartbeat), now, pull);
}

/* Only receivers of the share report by packets, and when the transmitter waits. */
static void a_receiver_outside_the_share_reports_by_time(void **state)
{
    struct lli_packet packet;

    (void)state;
    known = 1000;
    hear_all();
    while (lli_rx_control(rx, now, buffer, &packet))
        continue;
    now += MS;
    rx->report.at = now + 90000 * MS;
    heartbeat_of_share(UINT64_C(1) << 60, 4);
    assert_false(lli_rx_owes_report(rx));
    assert_int_equal(rx->report.at, now + 90000 * MS);
    assert_int_equal(rx->report_due, UINT64_MAX);
    now += MS;
    heartbeat_of_share(UINT64_C(1) << 60, 3);
    assert_int_not_equal(rx->report_due, UINT64_MAX);
    assert_true(rx->report.at < now + r.config.status);
}

static void a_transmitter_silent_after_the_end_gets_no_report(void **state)
{
    struct lli_packet packet;

    (void)state;
    hear_all();
    hear_end();
    now += r.config.timeout;
    assert_false(lli_rx_leave(rx, now, buffer, &packet));
    hear_heartbeat(LLI_WIRE_HEARTBEAT_END);
    assert_true(lli_rx_leave(rx, now, buffer, &packet));
}

/* A leave would remove the record of the expulsion. */
static void an_expelled_receiver_sends_no_leave(void **state)
{
    const struct lli_wire_notice notice = {.session = SESSION,
                                           .receiver = RECEIVER,
                                           .decided_at = now,
                                           .lead = START + 2,
                                           .standing = LLI_STANDING_EXPELLED,
                                           .threshold = LLM_THRESHOLD_NAKS,
                                           .rejoin_ms = 60000};
    struct lli_packet packet;

    (void)state;
    hear_all();
    receiver_take(&r, buffer, lli_wire_put_notice(buffer, &notice), now, pull);
    assert_int_equal(rx->state, LLI_RX_ENDED);
    hear_heartbeat(LLI_WIRE_HEARTBEAT_END);
    assert_false(lli_rx_leave(rx, now, buffer, &packet));
}

/* ----------------------------------------------------------------------------------------- transmitter */

static struct lli_ack_message ring[8];

static void leave(uint64_t receiver, uint64_t acknowledged_next, uint8_t flags)
{
    const struct lli_wire_status status = {.session = SESSION,
                                           .receiver = receiver,
                                           .next = tx->sent,
                                           .highest = tx->sent,
                                           .acknowledged_next = acknowledged_next,
                                           .accepts = 1,
                                           .flags =
                                               flags | LLI_WIRE_STATUS_DONE | LLI_WIRE_STATUS_ACKNOWLEDGES,
                                           .address = {1, {'a'}}};

    tx_take(tx, buffer, lli_wire_put_status(buffer, &status), now);
}

static void acknowledgements_of_departed_receivers_add_up_after_the_end(void **state)
{
    const struct lli_ack_rule rule = {
        .receivers = 2, .messages_max = 8, .bytes_max = 1000, .patience = 1000 * MS};
    struct lli_ack_topic topic;
    struct lli_packet packet;

    (void)state;
    lli_ack_topic_init(&topic, 0, "orders");
    assert_true(lli_tx_assure(tx, &topic, &rule, ring, 8));
    for (uint64_t receiver = 1; receiver <= 3; receiver++)
        leave(receiver, 0, 0);
    pack_one(tx, "message");
    lli_tx_assured(tx, &topic, tx->sent, 7);
    lli_tx_sent(tx, 1, now);
    lli_tx_reaped(tx, true);
    /* Before the end a receiver that left may return, and would count twice. */
    leave(1, 1, LLI_WIRE_STATUS_LEAVING);
    assert_int_equal(tx->members.count, 2);
    lli_tx_end(tx, now);
    leave(2, 1, LLI_WIRE_STATUS_LEAVING);
    leave(2, 1, LLI_WIRE_STATUS_LEAVING);
    assert_int_equal(tx->counters.receivers_left, 2);
    assert_int_equal(tx->ack.waiting, 1);
    assert_int_equal(lli_members_waiting(&tx->members), 1);
    /* However long the third receiver takes. */
    for (int i = 0; i < 100; i++) {
        now += 100 * MS;
        leave(3, 0, 0);
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            continue;
    }
    assert_int_equal(tx->counters.receivers_lost, 0);
    leave(3, 1, LLI_WIRE_STATUS_LEAVING);
    assert_int_equal(tx->ack.waiting, 0);
    assert_true(lli_tx_drained(tx));
}

/* ------------------------------------------------------------------------------------------- public API */

#define CHANNEL                                                                                         \
    "loop://leaving:1?mtu=1500&history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=2"   \
    "&message_bytes_max=64K&topics_max=8&window_packets=64&receivers_max=16&rcvbuf_bytes=1M&status_ns=" \
    "1000000000&linger_ns=8000000000"

static struct llm_context *contexts[2];
static struct llm_receiver *receivers[MANY];
static atomic_int ended;

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_SESSION_END)
        atomic_fetch_add(&ended, 1);
}

/* Polls, and closes all receivers at the moment in which the end was reported to the last of them. */
static void *close_receivers(void *arg)
{
    while (atomic_load(&ended) < MANY) {
        if (llm_poll(contexts[1]) < 0)
            return arg;
        (void)sched_yield();
    }
    for (int i = 0; i < MANY; i++)
        if (llm_receiver_close(&receivers[i]) != LLM_OK)
            return arg;
    return NULL;
}

static void nine_receivers_closing_at_the_end_confirm_all_messages(void **state)
{
    struct llm_context_options options;
    struct llm_transmitter *transmitter;
    struct llm_receiver_handlers handlers;
    struct llm_topic *topic;
    pthread_t thread;
    void *failed;

    (void)state;
    llm_context_options_init(&options);
    options.log_level = LLM_LEVEL_ERROR;
    llm_receiver_handlers_init(&handlers);
    handlers.event = on_event;
    for (int i = 0; i < 2; i++)
        assert_int_equal(llm_context_open(&options, &contexts[i]), LLM_OK);
    assert_int_equal(llm_transmitter_open(contexts[0], CHANNEL, NULL, NULL, &transmitter), LLM_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(llm_receiver_open(contexts[1], CHANNEL, NULL, &handlers, &receivers[i]), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
    while (llm_transmitter_receivers(transmitter) < MANY)
        assert_true(llm_poll(contexts[0]) >= 0 && llm_poll(contexts[1]) >= 0);
    assert_int_equal(llm_send(topic, "last", 4, 0), LLM_OK);
    assert_int_equal(pthread_create(&thread, NULL, close_receivers, contexts), 0);
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    for (int i = 0; i < 2; i++)
        assert_int_equal(llm_context_close(&contexts[i]), LLM_OK);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_report_postponed_after_the_end_is_sent_on_leaving),
        T(an_acknowledgement_after_the_end_is_sent_on_leaving),
        T(an_acknowledgement_is_reported_at_once_and_once),
        T(one_of_a_thousand_receivers_answers_the_end_in_time),
        T(a_receiver_outside_the_share_reports_by_time),
        T(a_transmitter_silent_after_the_end_gets_no_report),
        T(an_expelled_receiver_sends_no_leave),
        T(acknowledgements_of_departed_receivers_add_up_after_the_end),
        cmocka_unit_test(nine_receivers_closing_at_the_end_confirm_all_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
