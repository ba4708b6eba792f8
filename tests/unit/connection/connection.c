/* SPDX-License-Identifier: Apache-2.0 */
/* Connections by the public API: their setup, traffic and end, and the effect of hostile and dead peers. */
#include "calls.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection/connection.h"

#define ENDLESS LOOP "&connections_max=2&linger_ns=10000000000"

/* -------------------------------------------------------------------------------------------------- setup */

static void both_peers_connect_and_messages_flow_both_ways(void **state)
{
    (void)state;
    connected_over(LOOP);
    assert_string_equal(shown, "open sesame");
    assert_int_equal(caller_id, llm_connection_id(sides[CONNECTS].connection));
    assert_int_equal(caller_id, llm_connection_id(sides[LISTENS].connection));
    exchange(2000);
    assert_int_equal(requests, 1);
    assert_int_equal(counter_of(sides[LISTENS].context, "requests_accepted"), 1);
}

static void one_context_may_hold_both_peers(void **state)
{
    struct side *other = &sides[CONNECTS];
    const struct llm_connection_handlers handlers = handlers_of(other);

    (void)state;
    listen_on(LOOP);
    assert_int_equal(
        llm_connection_open(sides[LISTENS].context, LOOP, NULL, &handlers, NULL, &other->connection), LLM_OK);
    POLL_UNTIL(sides[LISTENS].connected && other->connected);
    exchange(300);
    assert_int_equal(llm_connection_close(&other->connection), 0);
    POLL_UNTIL(sides[LISTENS].disconnected);
}

static void a_connection_over_udp_carries_messages_and_closes(void **state)
{
    (void)state;
    connected_over("udp://127.0.0.1:15931?" SMALL);
    exchange(2000);
    close_beside(&sides[CONNECTS].connection, &sides[LISTENS]);
    POLL_UNTIL(sides[LISTENS].disconnected);
    assert_int_equal(sides[LISTENS].last.reason, LLM_REASON_CLOSED);
}

static void a_refusal_carries_the_code_of_the_application(void **state)
{
    (void)state;
    answer = 403;
    listen_on(LOOP);
    connect_to(LOOP);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_REFUSED);
    assert_int_equal(sides[CONNECTS].last.first, 403);
    assert_int_equal(sides[CONNECTS].connected + sides[LISTENS].connected, 0);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
    assert_int_equal(counter_of(sides[LISTENS].context, "requests_refused"), 1);
}

static void an_invalid_answer_of_the_application_refuses_and_is_logged(void **state)
{
    (void)state;
    answer = -99;
    listen_on(LOOP);
    connect_to(LOOP);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_REFUSED);
    assert_non_null(strstr(logged, "returned -99"));
}

static void the_application_may_answer_later(void **state)
{
    const struct llm_connection_handlers handlers = handlers_of(&sides[LISTENS]);
    const uint64_t soon = llm_clock() + 50000000;

    (void)state;
    answer = LLM_EAGAIN;
    listen_on(LOOP);
    connect_to(LOOP);
    POLL_UNTIL(llm_clock() > soon);
    assert_int_equal(requests, 1);
    assert_int_equal(sides[CONNECTS].connected, 0);
    assert_int_equal(llm_listener_refuse(listener, caller_id, 0), LLM_EINVAL);
    assert_int_equal(llm_listener_refuse(listener, caller_id + 1, 1), LLM_ENOTFOUND);
    assert_int_equal(llm_listener_accept(listener, caller_id, &handlers), LLM_OK);
    assert_int_equal(llm_listener_accept(listener, caller_id, &handlers), LLM_ENOTFOUND);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
    exchange(10);
    connect_to(LOOP);
    POLL_UNTIL(requests == 2);
    assert_int_equal(llm_listener_refuse(listener, caller_id, 7), LLM_OK);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.first, 7);
}

static void an_unanswered_connect_is_reported_in_time(void **state)
{
    const uint64_t begin = llm_clock();

    (void)state;
    connect_to(LOOP "&connect_timeout_ns=100000000");
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_UNANSWERED);
    assert_true(llm_clock() - begin >= 100000000);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
    assert_null(sides[CONNECTS].connection);
}

static void a_message_longer_than_the_peer_accepts_is_refused(void **state)
{
    static uint8_t bytes[4000];

    (void)state;
    listen_on(LOOP "&message_bytes_max=3000");
    connect_to(LOOP);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
    assert_int_equal(llm_send(sides[CONNECTS].topic, bytes, 3001, 0), LLM_EMSGSIZE);
    assert_int_equal(llm_send(sides[LISTENS].topic, bytes, 3001, 0), LLM_EMSGSIZE);
}

/* ------------------------------------------------------------------------------------------------ traffic */

static void loss_duplicates_and_reordering_do_not_change_the_stream(void **state)
{
    (void)state;
    connected_over(
        "impair+loop://"
        "calls:2?impair_loss_ppm=50000&impair_duplicate_ppm=20000&impair_reorder_ppm=20000&" SMALL);
    exchange(3000);
    assert_true(counter_of(sides[LISTENS].context, "packets_recovered") > 0);
}

static void a_peer_that_does_not_poll_blocks_the_other_peer(void **state)
{
    struct side *sender = &sides[CONNECTS];
    uint64_t sent = 0;
    int error = LLM_OK;

    (void)state;
    connected_over(LOOP);
    while (error == LLM_OK && sent < 100000) {
        error = send_one(sender, sent);
        sent += error == LLM_OK;
        assert_true(llm_poll(sender->context) >= 0);
    }
    assert_int_equal(error, LLM_EAGAIN);
    POLL_UNTIL(sides[LISTENS].received == sent);
    assert_int_equal(send_one(sender, sent), LLM_OK);
    POLL_UNTIL(sides[LISTENS].received == sent + 1);
    assert_int_equal(counter_of(sides[LISTENS].context, "messages_lost"), 0);
}

/*
 * A transmitter forgets a silent receiver and then sends without limit; the transmitter of a connection must
 * not.
 */
static void a_pause_longer_than_the_report_timeout_loses_no_message(void **state)
{
    struct side *sender = &sides[CONNECTS];
    uint64_t sent = 0;

    (void)state;
    connected_over(LOOP "&status_ns=1000000");
    POLL_UNTIL(counter_of(sender->context, "receivers") == 1);
    for (const uint64_t until = llm_clock() + WAIT_NS;
         counter_of(sender->context, "receivers") > 0 && llm_clock() < until; (void)llm_poll(sender->context))
        sent += send_one(sender, sent) == LLM_OK;
    for (int i = 0; i < 100000; i++) {
        sent += send_one(sender, sent) == LLM_OK;
        (void)llm_poll(sender->context);
    }
    assert_int_equal(counter_of(sender->context, "receivers"), 0);
    assert_true(counter_of(sender->context, "receivers_lost") > 0);
    POLL_UNTIL(sides[LISTENS].received == sent);
    assert_int_equal(sides[LISTENS].disconnected + sender->disconnected, 0);
}

/* ------------------------------------------------------------------------------------------------- ending */

static void sent_messages_are_delivered_before_the_end(void **state)
{
    struct side *sender = &sides[CONNECTS];
    uint64_t sent = 0;

    (void)state;
    /* One context: closing polls it, and thereby the other side. */
    listen_on(LOOP);
    {
        const struct llm_connection_handlers handlers = handlers_of(sender);

        assert_int_equal(
            llm_connection_open(sides[LISTENS].context, LOOP, NULL, &handlers, NULL, &sender->connection),
            LLM_OK);
    }
    POLL_UNTIL(sides[LISTENS].connected && sender->connected);
    while (send_one(sender, sent) == LLM_OK)
        sent++;
    assert_int_equal(llm_connection_close(&sender->connection), 0);
    assert_null(sender->connection);
    assert_int_equal(sides[LISTENS].received, sent);
    assert_int_equal(sides[LISTENS].disconnected, 1);
    assert_int_equal(sides[LISTENS].last.reason, LLM_REASON_CLOSED);
    assert_int_equal(sender->disconnected, 0);
    assert_int_equal(send_one(&sides[LISTENS], 0), LLM_ESTATE);
    assert_int_equal(llm_connection_close(&sides[LISTENS].connection), 0);
}

static void losses_of_an_unreliable_topic_do_not_end_the_connection(void **state)
{
    struct side *sender = &sides[CONNECTS], *receiver = &sides[LISTENS];
    uint64_t sent = 0;

    (void)state;
    connected_over("impair+loop://calls:4?impair_loss_ppm=50000&" SMALL);
    assert_int_equal(llm_topic_open(llm_connection_transmitter(sender->connection), "prices",
                                    LLM_TOPIC_UNRELIABLE, &sender->topic),
                     LLM_OK);
    while (sent < 1000) {
        const int error = send_one(sender, sent);

        assert_true(error == LLM_OK || error == LLM_EAGAIN);
        sent += error == LLM_OK;
        poll_all();
    }
    POLL_UNTIL(receiver->received == sent);
    assert_true(receiver->others > 0);
    assert_int_equal(receiver->last.reason, LLM_REASON_UNRELIABLE);
    assert_int_equal(receiver->disconnected + sender->disconnected, 0);
    assert_true(llm_connection_close(&sender->connection) >= 0);
    assert_true(llm_connection_close(&receiver->connection) >= 0);
}

static void closing_without_linger_is_reported_as_abandoned(void **state)
{
    struct side *sender = &sides[CONNECTS];
    uint64_t sent = 0;

    (void)state;
    connected_over(LOOP "&linger_ns=0");
    POLL_UNTIL(counter_of(sender->context, "receivers") == 1);
    while (send_one(sender, sent) == LLM_OK)
        sent++;
    assert_int_equal(llm_connection_close(&sender->connection), 1);
    POLL_UNTIL(sides[LISTENS].disconnected);
    assert_int_equal(sides[LISTENS].last.reason, LLM_REASON_ABANDONED);
    assert_true(sides[LISTENS].received < sent);
}

static void a_dead_peer_is_detected_by_its_silence(void **state)
{
    struct side *alive = &sides[CONNECTS];
    const uint64_t begin = llm_clock();

    (void)state;
    connected_over(LOOP "&heartbeat_ns_max=20000000&silence_ns=50000000&session_timeout_ns=600000000&"
                        "heartbeat_ns_busy=1000000");
    while (!alive->disconnected && llm_clock() < begin + WAIT_NS)
        assert_true(llm_poll(alive->context) >= 0);
    assert_int_equal(alive->last.kind, LLM_EVENT_DISCONNECTED);
    assert_int_equal(alive->last.reason, LLM_REASON_TIMEOUT);
    assert_true(alive->others > 0); /* silence before the close */
    assert_int_equal(send_one(alive, 0), LLM_ESTATE);
    assert_int_equal(llm_topic_open(llm_connection_transmitter(alive->connection), "u", 0, &alive->topic),
                     LLM_ESTATE);
    assert_non_null(strstr(logged, "is over"));
    assert_int_equal(llm_connection_close(&alive->connection), 0);
}

#define LOSSY "impair+loop://calls:3?impair_loss_ppm=200000&linger_ns=10000000000&" SMALL

/*
 * One of five packets is lost, and the closing context is closed at once, as by a process that exits. The
 * close waits for the other side, which may be delayed.
 */
static void closing_confirms_delivery_despite_losses(void **state)
{
    (void)state;
    listen_on(LOSSY);
    assert_int_equal(llm_context_close(&sides[CONNECTS].context), LLM_OK);
    for (int i = 1; i <= 40; i++) {
        struct side *other = &sides[LISTENS];

        sides[CONNECTS] = (struct side){.context = context_make()};
        other->received = 0;
        connect_to(LOSSY);
        POLL_UNTIL(other->connected == i && sides[CONNECTS].connected == 1);
        exchange(3);
        assert_int_equal(llm_context_start_thread(other->context, -1), LLM_OK);
        assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
        assert_int_equal(llm_context_close(&sides[CONNECTS].context), LLM_OK);
        assert_int_equal(llm_context_stop_thread(other->context), LLM_OK);
        assert_int_equal(other->disconnected, 1);
        assert_int_equal(other->last.reason, LLM_REASON_CLOSED);
        assert_int_equal(llm_connection_close(&other->connection), 0);
        other->disconnected = 0;
    }
    sides[CONNECTS].context = context_make();
}

/* The closing side pauses between its end and its CLOSE for longer than the report timeout. */
static void a_delayed_close_still_confirms_delivery(void **state)
{
    struct side *closes = &sides[CONNECTS], *other = &sides[LISTENS];

    (void)state;
    connected_over(LOOP "&status_ns=1000000&linger_ns=10000000000");
    exchange(3);
    lli_tx_end(&closes->connection->transmitter->tx, llm_clock());
    lli_endpoint_due(closes->connection->endpoint, 0);
    for (const uint64_t until = llm_clock() + WAIT_NS; !other->disconnected && llm_clock() < until;)
        poll_all();
    assert_int_equal(other->disconnected, 1);
    for (const uint64_t until = llm_clock() + WAIT_NS;
         counter_of(other->context, "receivers_lost") == 0 && llm_clock() < until;)
        assert_true(llm_poll(other->context) >= 0);
    /* Interval of checks of connections that are over. */
    for (const uint64_t until = llm_clock() + 200000000; llm_clock() < until;)
        assert_true(llm_poll(other->context) >= 0);
    close_beside(&closes->connection, other);
    assert_int_equal(llm_connection_close(&other->connection), 0);
}

static void an_unanswered_close_is_repeated_then_given_up(void **state)
{
    const struct side *side = &sides[CONNECTS];
    uint64_t begin, repeated = 0;

    (void)state;
    connected_over(LOOP "&linger_ns=0");
    exchange(3);
    begin = llm_clock();
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 1);
    /* The endpoint stays open for the close retries, and is closed after the last. */
    for (; side->context->endpoints != NULL && llm_clock() < begin + WAIT_NS;
         assert_true(llm_poll(side->context) >= 0))
        repeated = counter_of(side->context, "closes_repeated");
    assert_null(side->context->endpoints);
    assert_true(llm_clock() - begin >= 100000000);
    assert_int_equal(repeated, LLI_CLOSE_RETRY_WORDS - 2); /* before the last retry */
    assert_int_equal(sides[LISTENS].disconnected, 0);
    POLL_UNTIL(sides[LISTENS].disconnected == 1);
    /* No message is missing before the end, which was reported too. */
    assert_int_equal(sides[LISTENS].last.reason, LLM_REASON_CLOSED);
    assert_int_equal(llm_connection_close(&sides[LISTENS].connection), 0);
}

/* The clock does not advance between the poll and the close, as in a fast process. */
static void closing_right_after_a_poll_without_linger_sends_the_end(void **state)
{
    struct llm_context *context = sides[CONNECTS].context;

    (void)state;
    connected_over(LOOP "&linger_ns=0");
    exchange(3);
    context->moment = UINT64_MAX;
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 1);
    context->moment = LLI_TICKS_MOMENT;
    POLL_UNTIL(sides[LISTENS].disconnected == 1);
    assert_int_equal(sides[LISTENS].last.reason, LLM_REASON_CLOSED);
    assert_int_equal(llm_connection_close(&sides[LISTENS].connection), 0);
}

static void a_closed_peer_still_answers_close(void **state)
{
    struct side *closer = &sides[CONNECTS], *other = &sides[LISTENS];

    (void)state;
    connected_over(LOOP "&linger_ns=0");
    /* Neither side hears the other's CLOSE. */
    assert_true(llm_connection_close(&closer->connection) >= 0);
    assert_true(llm_connection_close(&other->connection) >= 0);
    POLL_UNTIL(closer->context->endpoints == NULL && other->context->endpoints->users == 1);
    assert_int_equal(counter_of(other->context, "closes_unanswered"), 0);
    assert_true(counter_of(other->context, "closes_repeated") < LLI_CLOSE_RETRY_WORDS - 1);
}

static void both_peers_may_close_at_once(void **state)
{
    (void)state;
    connected_over(LOOP);
    exchange(50);
    assert_int_equal(llm_context_start_thread(sides[LISTENS].context, -1), LLM_OK);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
    assert_int_equal(llm_connection_close(&sides[LISTENS].connection), 0);
    assert_int_equal(llm_context_stop_thread(sides[LISTENS].context), LLM_OK);
}

static void close_in_the_last_handler(void *arg, struct llm_connection *connection,
                                      const struct llm_event *event)
{
    struct side *side = arg;
    struct llm_connection *mine = connection;

    if (event->kind != LLM_EVENT_DISCONNECTED) {
        assert_int_equal(llm_connection_close(&mine), LLM_ESTATE);
        on_event(arg, connection, event);
        return;
    }
    assert_int_equal(llm_connection_close(&mine), LLM_OK);
    assert_null(mine);
    side->disconnected++;
}

static void an_ended_connection_may_be_closed_in_its_handler(void **state)
{
    struct llm_connection_handlers handlers = handlers_of(&sides[CONNECTS]);

    (void)state;
    handlers.event = close_in_the_last_handler;
    listen_on(LOOP);
    assert_int_equal(llm_connection_open(sides[CONNECTS].context, LOOP, NULL, &handlers, NULL,
                                         &sides[CONNECTS].connection),
                     LLM_OK);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
    close_beside(&sides[LISTENS].connection, &sides[CONNECTS]);
    POLL_UNTIL(sides[CONNECTS].disconnected == 1);
    assert_int_equal(counter_of(sides[LISTENS].context, "requests_accepted"), 1);
}

/* ------------------------------------------------------------------------------ hostile and failing peers */

static void connects_beyond_connections_max_are_refused_until_one_closes(void **state)
{
    struct llm_connection *first;

    (void)state;
    listen_on(LOOP "&connections_max=1");
    connect_to(LOOP);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
    first = sides[CONNECTS].connection;
    connect_to(LOOP);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_FULL);
    assert_int_equal(counter_of(sides[LISTENS].context, "requests_full"), 1);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
    close_beside(&first, &sides[LISTENS]);
    POLL_UNTIL(sides[LISTENS].disconnected);
    assert_int_equal(llm_connection_close(&sides[LISTENS].connection), 0);
    connect_to(LOOP);
    POLL_UNTIL(sides[LISTENS].connected == 2 && sides[CONNECTS].connected == 2);
}

static void callers_that_vanish_after_connect_leave_no_trace(void **state)
{
    (void)state;
    listen_on(LOOP "&connections_max=4&connect_timeout_ns=50000000");
    for (int i = 0; i < 12; i++) {
        const uint64_t until = llm_clock() + 15000000;

        /* Sends one request only, as the context is not polled any more. */
        connect_to(LOOP);
        while (llm_clock() < until)
            assert_true(llm_poll(sides[LISTENS].context) >= 0);
        assert_int_equal(llm_context_close(&sides[CONNECTS].context), LLM_OK);
        sides[CONNECTS].context = context_make();
    }
    for (const uint64_t until = llm_clock() + WAIT_NS;
         counter_of(sides[LISTENS].context, "connections_unconfirmed") <
             counter_of(sides[LISTENS].context, "requests_accepted") &&
         llm_clock() < until;)
        assert_true(llm_poll(sides[LISTENS].context) >= 0);
    assert_int_equal(counter_of(sides[LISTENS].context, "connections_unconfirmed"),
                     counter_of(sides[LISTENS].context, "requests_accepted"));
    assert_int_equal(sides[LISTENS].connected + sides[LISTENS].disconnected, 0);
    connect_to(LOOP);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
}

static void an_endless_stream_of_connections_is_served(void **state)
{
    (void)state;
    /* The closing side waits for the other, which the machine may delay. */
    listen_on(ENDLESS);
    assert_int_equal(llm_context_close(&sides[CONNECTS].context), LLM_OK);
    for (int i = 1; i <= 300; i++) {
        sides[CONNECTS] = (struct side){.context = context_make()};
        connect_to(ENDLESS);
        POLL_UNTIL(sides[LISTENS].connected == i && sides[CONNECTS].connected == 1);
        sides[LISTENS].received = 0;
        exchange(3);
        close_beside(&sides[CONNECTS].connection, &sides[LISTENS]);
        POLL_UNTIL(sides[LISTENS].disconnected == 1);
        assert_int_equal(llm_connection_close(&sides[LISTENS].connection), 0);
        sides[LISTENS].disconnected = 0;
        assert_int_equal(llm_context_close(&sides[CONNECTS].context), LLM_OK);
    }
    sides[CONNECTS].context = context_make();
    assert_int_equal(counter_of(sides[LISTENS].context, "requests_accepted"), 300);
}

/*
 * Builds a packet that resembles one of a connection, existing or not, from a sender who knows no identity.
 */
static size_t forge(uint64_t *random, uint8_t *packet)
{
    const struct lli_wire_address address = {.size = 7,
                                             .bytes = {4, 127, (uint8_t)below(random, 256),
                                                       (uint8_t)below(random, 256), 1, 0x13,
                                                       (uint8_t)below(random, 256)}};
    struct lli_wire_connect connect = {
        .id = lli_random(random), .session = lli_random(random), .address = address};
    const struct lli_wire_accept accept = {
        .id = lli_random(random), .session = lli_random(random), .address = address};
    const struct lli_wire_refuse refuse = {.id = lli_random(random), .reason = LLI_WIRE_FULL};
    const struct lli_wire_close close = {.id = lli_random(random),
                                         .reason = (uint8_t)below(random, 7),
                                         .next = lli_random(random),
                                         .address = address};
    size_t size;

    connect.payload_size = (uint16_t)below(random, LLI_WIRE_PAYLOAD_MAX + 1);
    connect.message_bytes_max = below(random, 2000);
    switch (below(random, 5)) {
    case 0:
        size = lli_wire_put_accept(packet, &accept);
        break;
    case 1:
        size = lli_wire_put_refuse(packet, &refuse);
        break;
    case 2:
        size = lli_wire_put_close(packet, &close);
        break;
    default:
        size = lli_wire_put_connect(packet, &connect);
        break;
    }
    for (uint32_t flips = below(random, 3); flips > 0; flips--)
        packet[below(random, (uint32_t)size)] ^= (uint8_t)(1u << below(random, 8));
    return chance(random, 20) ? below(random, (uint32_t)size) : size;
}

/* Sends to the address of a listener, and to that of a side of a connection. */
static void hurl(int fd, uint64_t *random, const struct side *side, uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    if (side != NULL)
        memcpy(&to.sin_port, side->connection->endpoint->address.bytes + 5, sizeof to.sin_port);
    for (int i = 0; i < 20; i++) {
        const size_t size = forge(random, packet);

        (void)!sendto(fd, packet, size, 0, (const struct sockaddr *)&to, sizeof to);
    }
}

/* The application accepts hostile callers; they stay unconfirmed and are given up. */
static void hostile_packets_disturb_no_connection(void **state)
{
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    uint64_t random = 9, sent[SIDES] = {0};

    (void)state;
    connected_over("udp://127.0.0.1:15932?connections_max=4&connect_timeout_ns=50000000&" SMALL);
    /* Long enough for accepted callers to be given up. */
    for (const uint64_t begin = llm_clock();
         llm_clock() < begin + WAIT_NS &&
         (llm_clock() < begin + 500000000 || sides[0].received < 1500 || sides[1].received < 1500);) {
        hurl(fd, &random, NULL, 15932);
        for (int i = 0; i < SIDES; i++) {
            hurl(fd, &random, &sides[i], 0);
            for (int burst = 0; burst < 10; burst++)
                sent[i] += sent[i] < 1500 && send_one(&sides[i], sent[i]) == LLM_OK;
        }
        /* One of eight polls checks the unicast socket. */
        for (int polls = 0; polls < 32; polls++)
            poll_all();
    }
    close(fd);
    assert_int_equal(sides[0].received, 1500);
    assert_int_equal(sides[1].received, 1500);
    assert_int_equal(sides[0].disconnected + sides[1].disconnected, 0);
    assert_int_equal(sides[LISTENS].connected, 1);
    assert_true(requests > 4);
    assert_true(counter_of(sides[LISTENS].context, "requests_full") > 0);
    assert_true(counter_of(sides[LISTENS].context, "connections_unconfirmed") > 0);
    assert_true(counter_of(sides[LISTENS].context, "packets_malformed") > 0);
    assert_true(counter_of(sides[CONNECTS].context, "packets_foreign") > 0);
    /* They leave nothing in use: there is room again after they are given up. */
    for (const uint64_t until = llm_clock() + 200000000; llm_clock() < until;)
        poll_all();
    connect_to("udp://127.0.0.1:15932?" SMALL);
    POLL_UNTIL(sides[LISTENS].connected == 2 && sides[CONNECTS].connected == 2);
}

/* ------------------------------------------------------------------------------------------------ by hand */

/* A caller that builds its packets by hand, over a socket on this host. */
struct hand {
    int fd;
    struct sockaddr_in to; /* address of the listener, later of a side of a connection */
    struct lli_wire_address address;
    uint64_t id, session;
    struct lli_wire_accept accept;
    int accepts, closes, others; /* counts of received packets */
};

static void hand_open(struct hand *hand, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;

    *hand = (struct hand){.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0),
                          .to = at,
                          .id = 77,
                          .session = UINT64_C(0x1234500000007),
                          .address = {.size = 7, .bytes = {4, 127, 0, 0, 1}}};
    hand->to.sin_port = htons(port);
    assert_int_equal(bind(hand->fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(hand->fd, (struct sockaddr *)&at, &size), 0);
    memcpy(hand->address.bytes + 5, &at.sin_port, sizeof at.sin_port);
}

static void hand_send(const struct hand *hand, const uint8_t *packet, size_t size)
{
    assert_int_equal(sendto(hand->fd, packet, size, 0, (const struct sockaddr *)&hand->to, sizeof hand->to),
                     size);
}

static void hand_connect(const struct hand *hand)
{
    const struct lli_wire_connect connect = {
        .id = hand->id, .session = hand->session, .message_bytes_max = 1000, .address = hand->address};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    hand_send(hand, packet, lli_wire_put_connect(packet, &connect));
}

static void hand_beat(const struct hand *hand)
{
    const struct lli_wire_heartbeat heartbeat = {.session = hand->session,
                                                 .lead = 7,
                                                 .trail = 7,
                                                 .start = 7,
                                                 .sent_at = llm_clock(),
                                                 .interval_us = 100000,
                                                 .flags = LLI_WIRE_HEARTBEAT_YOUNG,
                                                 .address = hand->address};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    hand_send(hand, packet, lli_wire_put_heartbeat(packet, &heartbeat));
}

static void hand_report(const struct hand *hand, uint64_t session)
{
    const struct lli_wire_status status = {.session = session,
                                           .receiver = 5,
                                           .next = hand->accept.start,
                                           .highest = hand->accept.start,
                                           .window_free = 64,
                                           .address = hand->address};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    hand_send(hand, packet, lli_wire_put_status(packet, &status));
}

static void hand_take(struct hand *hand)
{
    struct lli_wire_header header;
    struct lli_wire_accept accept;
    uint8_t packet[2048];
    const uint8_t *body;
    size_t body_size;
    ssize_t size;

    while ((size = recv(hand->fd, packet, sizeof packet, 0)) > 0) {
        if (lli_wire_get_connection(packet, (size_t)size, &header, &body, &body_size) != LLI_WIRE_OK) {
            hand->others++;
        } else if (header.type == LLI_WIRE_ACCEPT &&
                   lli_wire_get_accept(body, body_size, header.tag, &accept)) {
            hand->accepts++;
            hand->accept = accept;
            memcpy(&hand->to.sin_port, accept.address.bytes + 5, sizeof hand->to.sin_port);
        } else {
            hand->closes += header.type == LLI_WIRE_CLOSE;
        }
    }
}

/* Polls until the condition holds, for at most ns. */
#define HAND_UNTIL(hand, condition, ns)                                                                   \
    for (const uint64_t until = llm_clock() + (ns); !(condition) && llm_clock() < until; hand_take(hand)) \
    assert_true(llm_poll(sides[LISTENS].context) >= 0)

/*
 * The caller's heartbeats and guesses do not prove that it got the ACCEPT: another host may have sent them.
 */
static void an_unconfirmed_caller_is_sent_only_accept(void **state)
{
    struct hand hand;

    (void)state;
    hand_open(&hand, 15933);
    listen_on("udp://127.0.0.1:15933?" SMALL);
    hand_connect(&hand);
    HAND_UNTIL(&hand, hand.accepts > 0, WAIT_NS);
    hand_beat(&hand);
    hand_report(&hand, hand.accept.session ^ UINT64_C(1) << 40);
    HAND_UNTIL(&hand, false, 300000000);
    assert_int_equal(hand.accepts, 1);
    assert_int_equal(hand.closes + hand.others, 0);
    assert_int_equal(sides[LISTENS].connected, 0);
    /* A repeated request is answered again. */
    memcpy(&hand.to.sin_port, (uint8_t[]){15933 >> 8, 15933 & 255}, sizeof hand.to.sin_port);
    hand_connect(&hand);
    HAND_UNTIL(&hand, hand.accepts > 1, WAIT_NS);
    HAND_UNTIL(&hand, false, 50000000);
    assert_int_equal(hand.accepts, 2);
    assert_int_equal(hand.others, 0);
    /* The heartbeat came before. */
    hand_report(&hand, hand.accept.session);
    HAND_UNTIL(&hand, sides[LISTENS].connected && hand.others > 1, WAIT_NS);
    assert_int_equal(sides[LISTENS].connected, 1);
    assert_true(hand.others > 1);
    close(hand.fd);
}

static void an_unconfirmed_caller_gets_at_most_one_close(void **state)
{
    struct hand hand;

    (void)state;
    hand_open(&hand, 15934);
    listen_on("udp://127.0.0.1:15934?" SMALL);
    hand_connect(&hand);
    HAND_UNTIL(&hand, hand.accepts > 0, WAIT_NS);
    assert_int_equal(llm_context_close(&sides[LISTENS].context), LLM_OK);
    hand_take(&hand);
    assert_int_equal(hand.accepts, 1);
    assert_int_equal(hand.others, 0);
    assert_true(hand.closes <= 1);
    close(hand.fd);
    sides[LISTENS].context = context_make();
}

/* The accepting side ends right after the ACCEPT. */
static void silence_after_accept_is_reported_to_the_caller_in_time(void **state)
{
    const uint64_t begin = llm_clock();

    (void)state;
    listen_on(LOOP);
    connect_to(LOOP "&connect_timeout_ns=300000000");
    while (!sides[CONNECTS].connected && llm_clock() < begin + WAIT_NS)
        poll_all();
    assert_int_equal(sides[CONNECTS].connected, 1);
    while (!sides[CONNECTS].disconnected && llm_clock() < begin + WAIT_NS)
        assert_true(llm_poll(sides[CONNECTS].context) >= 0);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_TIMEOUT);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
}

/* ------------------------------------------------------------------------------------------------- misuse */

static void invalid_connection_arguments_are_refused(void **state)
{
    const struct llm_connection_handlers handlers = handlers_of(&sides[CONNECTS]);
    struct llm_listener_handlers none;
    struct llm_context *context = sides[CONNECTS].context;
    struct llm_transmitter *transmitter;
    struct llm_connection *connection = NULL;
    struct llm_listener *other = NULL;
    const struct iovec long_one = {logged, LLM_CONNECT_PAYLOAD_MAX + 1};

    (void)state;
    llm_listener_handlers_init(&none);
    assert_int_equal(llm_connection_open(NULL, LOOP, NULL, &handlers, NULL, &connection), LLM_EINVAL);
    assert_int_equal(llm_connection_open(context, NULL, NULL, &handlers, NULL, &connection), LLM_EINVAL);
    assert_int_equal(llm_connection_open(context, LOOP, NULL, NULL, NULL, &connection), LLM_EINVAL);
    assert_int_equal(llm_connection_open(context, LOOP, NULL, &handlers, NULL, NULL), LLM_EINVAL);
    assert_int_equal(llm_connection_open(context, LOOP, NULL, &handlers, &long_one, &connection),
                     LLM_EMSGSIZE);
    assert_non_null(strstr(logged, "513 bytes, at most 512"));
    assert_int_equal(llm_connection_open(context, "nowhere://a:1", NULL, &handlers, NULL, &connection),
                     LLM_ESCHEME);
    assert_int_equal(
        llm_connection_open(context, LOOP "&destinations=b:1", NULL, &handlers, NULL, &connection),
        LLM_EOPTION);
    assert_int_equal(llm_connection_open(context, LOOP "&order=arrival", NULL, &handlers, NULL, &connection),
                     LLM_EOPTION);
    assert_int_equal(
        llm_connection_open(context, LOOP "&history_bytes=64K&mtu=9000", NULL, &handlers, NULL, &connection),
        LLM_EOPTION);
    assert_non_null(strstr(logged, "65536 is less than 16 packets"));
    assert_non_null(strstr(logged, "lower mtu"));
    assert_null(connection);
    assert_int_equal(llm_listener_open(context, LOOP, NULL, &none, &other), LLM_EINVAL);
    assert_int_equal(llm_listener_open(context, LOOP, NULL, NULL, &other), LLM_EINVAL);
    assert_null(other);
    assert_int_equal(llm_connection_close(NULL), LLM_OK);
    assert_int_equal(llm_listener_close(NULL), LLM_OK);
    connected_over(LOOP);
    none.connect = on_request;
    assert_int_equal(llm_listener_open(sides[LISTENS].context, LOOP, NULL, &none, &other), LLM_EADDRINUSE);
    transmitter = llm_connection_transmitter(sides[CONNECTS].connection);
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_ESTATE);
    assert_int_equal(llm_listener_close(&listener), LLM_OK);
    assert_null(listener);
    exchange(10); /* accepted connections stay open */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_peers_connect_and_messages_flow_both_ways),
        TEST(one_context_may_hold_both_peers),
        TEST(a_connection_over_udp_carries_messages_and_closes),
        TEST(a_refusal_carries_the_code_of_the_application),
        TEST(an_invalid_answer_of_the_application_refuses_and_is_logged),
        TEST(the_application_may_answer_later),
        TEST(an_unanswered_connect_is_reported_in_time),
        TEST(a_message_longer_than_the_peer_accepts_is_refused),
        TEST(loss_duplicates_and_reordering_do_not_change_the_stream),
        TEST(a_peer_that_does_not_poll_blocks_the_other_peer),
        TEST(a_pause_longer_than_the_report_timeout_loses_no_message),
        TEST(sent_messages_are_delivered_before_the_end),
        TEST(losses_of_an_unreliable_topic_do_not_end_the_connection),
        TEST(closing_without_linger_is_reported_as_abandoned),
        TEST(a_dead_peer_is_detected_by_its_silence),
        TEST(closing_confirms_delivery_despite_losses),
        TEST(a_delayed_close_still_confirms_delivery),
        TEST(an_unanswered_close_is_repeated_then_given_up),
        TEST(closing_right_after_a_poll_without_linger_sends_the_end),
        TEST(a_closed_peer_still_answers_close),
        TEST(both_peers_may_close_at_once),
        TEST(an_ended_connection_may_be_closed_in_its_handler),
        TEST(connects_beyond_connections_max_are_refused_until_one_closes),
        TEST(callers_that_vanish_after_connect_leave_no_trace),
        TEST(an_endless_stream_of_connections_is_served),
        TEST(hostile_packets_disturb_no_connection),
        TEST(an_unconfirmed_caller_is_sent_only_accept),
        TEST(an_unconfirmed_caller_gets_at_most_one_close),
        TEST(silence_after_accept_is_reported_to_the_caller_in_time),
        TEST(invalid_connection_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
