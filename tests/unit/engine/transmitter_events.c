/* SPDX-License-Identifier: Apache-2.0 */
/* Log of a transmitter about its receivers, whose packets are built by hand, over the loop transport. */
#include "log_lines.h"

#include "engine/objects.h"

#define MS ((lli_ns)1000000)
#define CHANNEL                                                                                          \
    "loop://"                                                                                            \
    "events:1?history_bytes=1M&history_packets=1024&message_bytes_max=64K&topics_max=8&receivers_max=2&" \
    "sessions_max=2&replay_bytes_per_s=64K&mtu=1500&linger_ns=0"

static struct llm_context *context;
static struct llm_transmitter *transmitter;
static lli_ns now;

static int up(void **state)
{
    struct llm_context_options options;

    (void)state;
    log_text[0] = '\0';
    llm_context_options_init(&options);
    options.stats_directory = "";
    options.log = log_keep;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL, NULL, NULL, &transmitter), LLM_OK);
    now = lli_clock_ns();
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_true(llm_transmitter_close(&transmitter) >= 0); /* receivers that never existed */
    assert_int_equal(llm_context_close(&context), LLM_OK);
    return 0;
}

static uint64_t token_of(uint64_t receiver)
{
    return lli_token(&transmitter->tx.config.key, receiver, &transmitter->endpoint->address);
}

/* Sends a packet that was built in the endpoint's next buffer to the transmitter. */
static void send_built(size_t size)
{
    struct lli_endpoint *endpoint = transmitter->endpoint;
    const struct lli_packet packet = {
        .data = lli_endpoint_scratch(endpoint), .size = (uint32_t)size, .to = &endpoint->address};

    lli_endpoint_post_control(endpoint, &packet, transmitter->group);
    lli_endpoint_flush(endpoint);
}

static void report_from(uint64_t receiver)
{
    const struct lli_wire_status status = {.session = transmitter->tx.config.session,
                                           .receiver = receiver,
                                           .next = transmitter->tx.sent,
                                           .highest = transmitter->tx.sent,
                                           .token = token_of(receiver),
                                           .address = transmitter->endpoint->address};

    send_built(lli_wire_put_status(lli_endpoint_scratch(transmitter->endpoint), &status));
}

/* Requests the latest packets, as many as one request may name. */
static void fetch_from(uint64_t receiver)
{
    const struct lli_wire_join join = {
        .session = transmitter->tx.config.session,
        .receiver = receiver,
        .kind = LLI_WIRE_JOIN_FETCH,
        .count = 1,
        .ranges = {{.first = (uint32_t)(transmitter->tx.sent - LLI_WIRE_FETCH_PACKETS),
                    .count = LLI_WIRE_FETCH_PACKETS}},
        .token = token_of(receiver),
        .address = transmitter->endpoint->address};

    send_built(lli_wire_put_join(lli_endpoint_scratch(transmitter->endpoint), &join));
}

static void poll_some(void)
{
    for (int i = 0; i < 10; i++)
        lli_endpoint_poll(transmitter->endpoint, now += MS);
}

static void receivers_beyond_receivers_max_are_logged_once(void **state)
{
    (void)state;
    for (uint64_t receiver = 1; receiver <= 2; receiver++)
        report_from(receiver);
    poll_some();
    assert_int_equal(transmitter->tx.members.count, 2);
    assert_string_equal(log_text, "");
    for (uint64_t receiver = 3; receiver <= 6; receiver++) {
        report_from(receiver);
        poll_some();
    }
    assert_int_equal(transmitter->tx.counters.receivers_refused, 4);
    assert_int_equal(logged_count("\n"), 1);
    assert_int_equal(logged_count(transmitter->object), 1);
    assert_int_equal(logged_count("more than receivers_max=2 receivers"), 1);
    assert_int_equal(logged_count("raise it"), 1);
}

static void receivers_that_wait_long_for_the_past_are_logged_once(void **state)
{
    static const uint8_t message[1400];
    struct llm_topic *topic;

    (void)state;
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
    for (int i = 0; i < LLI_WIRE_FETCH_PACKETS; i++)
        assert_int_equal(llm_send(topic, message, sizeof message, 0), LLM_OK);
    poll_some();
    for (uint64_t receiver = 1; receiver <= 2; receiver++)
        fetch_from(receiver);
    poll_some();
    assert_int_equal(transmitter->tx.replay.fetching, 2);
    assert_string_equal(log_text, "");
    for (uint64_t receiver = 3; receiver <= 6; receiver++) {
        fetch_from(receiver);
        poll_some();
    }
    assert_int_equal(transmitter->tx.replay.fetching, 6);
    assert_int_equal(logged_count("\n"), 1);
    assert_int_equal(logged_count(transmitter->object), 1);
    assert_int_equal(logged_count("3 receivers join late at a time"), 1);
    assert_int_equal(logged_count("for every 256 packets"), 1);
    assert_int_equal(logged_count("raise replay_bytes_per_s"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
        T(receivers_beyond_receivers_max_are_logged_once),
        T(receivers_that_wait_long_for_the_past_are_logged_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
