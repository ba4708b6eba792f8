/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of a receiver over the loop transport, with packets built by hand and a simulated time: which of
 * them have an entry, when they count as silent, and what is logged about them.
 */
#include <stdio.h>
#include <time.h>

#include "log_lines.h"

#include "engine/objects.h"
#include "config/registry.h"

#define MS ((lli_ns)1000000)
#define OPTIONS                                                                                            \
    "?reorder_bytes=64K&sessions_max=4&message_bytes_max=64K&topics_max=8&window_packets=64&rcvbuf_bytes=" \
    "8M&mtu=1500"                                                                                          \
    "&session_timeout_ns=1000000000"
#define START (((lli_seq)1 << 32) + 1000)

enum { SESSIONS_MAX = 4, GROUPS = 3, QUEUED = 3000 };

static struct llm_context *context;
static struct llm_receiver *receivers[GROUPS];
static const struct lli_transport *loop;
static void *sender;
static struct lli_wire_address home; /* of the sender */
static lli_handle groups[GROUPS];
static lli_ns now;
static int ends, news, messages;
static uint64_t latest, latest_new; /* numbers of the latest message, and of the first one of a session */
static lli_ns slowness;             /* time that the application takes for each call with messages */
static enum llm_reason end_reason;

static void take_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_SESSION_NEW) {
        news++;
        latest_new = event->first;
    }
    if (event->kind != LLM_EVENT_SESSION_END)
        return;
    ends++;
    end_reason = event->reason;
}

static void take_messages(void *arg, const struct llm_message *given, int count)
{
    (void)arg;
    messages += count;
    latest = given[count - 1].number;
    if (slowness > 0)
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)slowness}, NULL);
}

static void sender_open(void)
{
    struct lli_transport_config config = {.scheme = "loop", .host = "group0", .size_at = LLI_WIRE_SIZE_AT};
    struct lli_log log = {.level = LLM_LEVEL_WARNING};
    struct lli_address address = {.size = 0};
    struct llm_options options;
    struct lli_caps caps;

    llm_options_init(&options);
    options.rcvbuf_bytes = 65536;
    config.options = &options;
    config.log = &log;
    loop = lli_transport_find("loop");
    sender = calloc(1, lli_round_up(loop->size, 64));
    assert_non_null(sender);
    assert_int_equal(loop->open(sender, &config, &caps), LLM_OK);
    assert_int_equal(loop->address(sender, &address), LLM_OK);
    home.size = address.size;
    memcpy(home.bytes, address.bytes, sizeof home.bytes);
    for (int i = 0; i < GROUPS; i++) {
        char host[16];
        const struct lli_group group = {.host = host, .port = 1, .options = &options};

        (void)snprintf(host, sizeof host, "group%d", i);
        assert_int_equal(loop->join(sender, &group, LLI_JOIN_SEND, &groups[i]), LLM_OK);
    }
}

static int up(void **state)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;

    (void)state;
    llm_context_options_init(&options);
    options.stats_directory = "";
    options.log = log_keep;
    log_text[0] = '\0';
    llm_receiver_handlers_init(&handlers);
    handlers.event = take_event;
    handlers.messages = take_messages;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    for (int i = 0; i < GROUPS; i++) {
        char channel[256];

        (void)snprintf(channel, sizeof channel, "loop://group%d:1%s", i, OPTIONS);
        assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &receivers[i]), LLM_OK);
    }
    sender_open();
    now = lli_clock_ns();
    ends = news = messages = 0;
    slowness = 0;
    return 0;
}

static int down(void **state)
{
    (void)state;
    loop->close(sender);
    free(sender);
    assert_int_equal(llm_context_close(&context), LLM_OK);
    return 0;
}

static void post_to(lli_handle to, const uint8_t *packet, size_t size)
{
    const struct lli_out out = {.data = packet, .size = (uint32_t)size, .to = to};

    assert_int_equal(loop->post(sender, &out, 1), 1);
    (void)loop->flush(sender);
}

static void post(int group, const uint8_t *packet, size_t size)
{
    post_to(groups[group], packet, size);
}

static void heartbeat_with(int group, uint64_t session, lli_seq lead, uint8_t flags)
{
    static uint64_t clock;
    const struct lli_wire_heartbeat heartbeat = {.session = session,
                                                 .lead = lead,
                                                 .trail = START,
                                                 .start = START,
                                                 .messages = lead - START,
                                                 .sent_at = ++clock * 100 * MS,
                                                 .interval_us = 10000,
                                                 .flags = flags,
                                                 .address = home};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    post(group, packet, lli_wire_put_heartbeat(packet, &heartbeat));
}

static void heartbeat(int group, uint64_t session, lli_seq lead)
{
    heartbeat_with(group, session, lead, 0);
}

/* Sends a packet of one message. */
static void data_of(int group, uint64_t session, lli_seq seq, uint32_t message_size)
{
    const uint32_t frame_header = lli_frame_message_size(message_size);
    uint8_t packet[LLI_WIRE_DATA_HEADER + 1400] = {0};
    const struct lli_wire_header header = {
        .type = LLI_WIRE_DATA,
        .tag = (uint32_t)session,
        .seq = (uint32_t)seq,
        .number = (uint32_t)(seq - START),
        .size = (uint16_t)(LLI_WIRE_DATA_HEADER + frame_header + message_size)};

    assert_true(header.size <= sizeof packet);
    lli_wire_put_header(packet, &header);
    lli_frame_put_message(packet + LLI_WIRE_DATA_HEADER, frame_header, message_size);
    post(group, packet, header.size);
}

static void data(int group, uint64_t session, lli_seq seq)
{
    data_of(group, session, seq, 1);
}

/* Sends a token by unicast, with a reason for reduced service. */
static void token(uint64_t session, enum lli_wire_join_reason reason, uint64_t value)
{
    const struct lli_wire_join join = {.session = session,
                                       .receiver = receivers[0]->config.receiver,
                                       .kind = LLI_WIRE_JOIN_TOKEN,
                                       .reason = (uint8_t)reason,
                                       .value = value,
                                       .token = 77};
    const struct lli_wire_address *wire = &receivers[0]->endpoint->address;
    struct lli_address address = {.size = wire->size};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    lli_handle to;

    memcpy(address.bytes, wire->bytes, sizeof address.bytes);
    assert_int_equal(loop->peer(sender, &address, &to), LLM_OK);
    post_to(to, packet, lli_wire_put_join(packet, &join));
}

static void poll_for(lli_ns time)
{
    for (const lli_ns until = now + time; now < until; now += MS)
        lli_endpoint_poll(receivers[0]->endpoint, now);
}

/*
 * The first poll finds more packets of one group than it takes at a time, and has not read those of the
 * others then.
 */
static void a_stopped_context_ends_no_session_with_unread_packets(void **state)
{
    (void)state;
    for (int i = 0; i < GROUPS; i++)
        heartbeat(i, 0x100000001 + (uint64_t)i, START);
    poll_for(5 * MS);
    assert_int_equal(news, GROUPS);
    for (lli_seq seq = START; seq < START + QUEUED; seq++)
        data(0, 0x100000001, seq);
    for (int i = 1; i < GROUPS; i++) {
        data(i, 0x100000001 + (uint64_t)i, START);
        heartbeat(i, 0x100000001 + (uint64_t)i, START + 1);
    }
    now += 20000 * MS;
    poll_for(100 * MS);
    assert_int_equal(ends, 0);
    assert_int_equal(news, GROUPS);
    assert_int_equal(messages, QUEUED + GROUPS - 1);
    /* A session that is silent while everything is read ends as usual. */
    for (int i = 0; i < 30; i++) {
        heartbeat(0, 0x100000001, START + QUEUED);
        poll_for(50 * MS);
    }
    assert_int_equal(ends, GROUPS - 1);
    assert_int_equal(end_reason, LLM_REASON_TIMEOUT);
}

/* The socket overflowed, so no packet of the session can be read. */
static void a_stopped_context_waits_for_heartbeats_of_its_sessions(void **state)
{
    (void)state;
    heartbeat(0, 0x100000001, START);
    poll_for(5 * MS);
    now += 20000 * MS;
    poll_for(50 * MS);
    assert_int_equal(ends, 0);
    heartbeat(0, 0x100000001, START);
    poll_for(50 * MS);
    assert_int_equal(news, 1);
}

/*
 * The history still has every message, and is sent again; the receiver resumes after the last one delivered,
 * whether the session outlived the stop or timed out after it.
 */
static void a_stopped_context_that_joins_the_oldest_delivers_nothing_twice(void **state)
{
    const uint64_t session = 0x100000001;
    struct llm_receiver_handlers handlers;

    (void)state;
    llm_receiver_handlers_init(&handlers);
    handlers.event = take_event;
    handlers.messages = take_messages;
    assert_int_equal(llm_receiver_close(&receivers[2]), LLM_OK);
    assert_int_equal(
        llm_receiver_open(context, "loop://group2:1" OPTIONS "&join=oldest", NULL, &handlers, &receivers[2]),
        LLM_OK);
    heartbeat_with(2, session, START, LLI_WIRE_HEARTBEAT_YOUNG);
    for (lli_seq seq = START; seq < START + 10; seq++)
        data(2, session, seq);
    poll_for(5 * MS);
    assert_int_equal(messages, 10);
    for (int stop = 1; stop <= 2; stop++) {
        const lli_seq end = START + 10 + (lli_seq)stop;

        now += 20000 * MS;
        /* In the second stop it hears nothing for longer than the timeout, which then counts. */
        if (stop == 2)
            poll_for(2500 * MS);
        assert_int_equal(ends, stop - 1);
        heartbeat(2, session, end);
        poll_for(5 * MS);
        for (lli_seq seq = START; seq < end; seq++)
            data(2, session, seq);
        heartbeat(2, session, end);
        poll_for(50 * MS);
        assert_int_equal(news, stop);
        assert_int_equal(messages, 10 + stop);
        assert_int_equal(latest, 9 + stop);
    }
    assert_int_equal(end_reason, LLM_REASON_TIMEOUT);
    assert_int_equal(latest_new, 11);
}

/*
 * A repair completes a run of packets that takes the application six times the interval between reports:
 * without them, the transmitter would forget this receiver.
 */
static void a_slow_application_reports_while_a_run_is_delivered(void **state)
{
    enum { RUN = 60 };
    const uint64_t session = 0x100000001;
    uint64_t before;

    (void)state;
    heartbeat(0, session, START);
    poll_for(5 * MS);
    for (lli_seq seq = START + 1; seq < START + RUN; seq++)
        data(0, session, seq);
    poll_for(5 * MS);
    assert_int_equal(messages, 0);
    now = lli_clock_ns();
    before = receivers[0]->counters.status_sent;
    slowness = 10 * MS;
    data(0, session, START);
    lli_endpoint_poll(receivers[0]->endpoint, now);
    assert_int_equal(messages, RUN);
    assert_in_range(receivers[0]->counters.status_sent - before, 4, RUN / 8);
}

/*
 * Packets that wait in the socket do not put off due work for as long as the application takes for them all.
 */
static void a_slow_application_receives_one_burst_in_a_turn(void **state)
{
    enum { BURST = 128 };
    const uint64_t session = 0x100000001;

    (void)state;
    heartbeat(0, session, START);
    poll_for(5 * MS);
    for (lli_seq seq = START; seq < START + QUEUED; seq++)
        data(0, session, seq);
    now = lli_clock_ns();
    slowness = MS / 10;
    lli_endpoint_poll(receivers[0]->endpoint, now);
    assert_int_equal(messages, BURST);
    slowness = 0;
    poll_for(100 * MS);
    assert_int_equal(messages, QUEUED);
}

static void invented_sessions_are_replaced_by_a_session_with_data(void **state)
{
    const uint64_t genuine = 0x1111111122222222;

    (void)state;
    for (uint64_t i = 1; i <= SESSIONS_MAX; i++)
        heartbeat(0, i << 32 | i, START);
    poll_for(5 * MS);
    assert_int_equal(news, SESSIONS_MAX);
    for (lli_seq seq = START; seq < START + 10; seq++) {
        data(0, genuine, seq);
        for (uint64_t i = 1; i <= SESSIONS_MAX; i++)
            heartbeat(0, i << 32 | i, START);
        heartbeat(0, genuine, seq + 1);
        poll_for(5 * MS);
    }
    assert_int_equal(messages, 10);
    assert_int_equal(ends, 1);
    assert_int_equal(end_reason, LLM_REASON_REPLACED);
}

/* Idle sessions do not replace each other. */
static void heartbeats_alone_replace_no_active_session(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        for (uint64_t i = 1; i <= SESSIONS_MAX + 3; i++)
            heartbeat(0, i << 32 | i, START);
        poll_for(10 * MS);
    }
    assert_int_equal(news, SESSIONS_MAX);
    assert_int_equal(ends, 0);
}

/* Their hints have the same place, and later that of sessions that ended. */
static void sessions_with_similar_tags_are_told_apart(void **state)
{
    (void)state;
    for (uint64_t generation = 0; generation < 3; generation++) {
        for (lli_seq seq = START; seq < START + 10; seq++) {
            for (uint64_t i = 0; i < SESSIONS_MAX; i++) {
                const uint64_t session = UINT64_C(0x500000001) + (generation * SESSIONS_MAX + i) * 64;

                heartbeat(0, session, seq);
                data(0, session, seq);
            }
            poll_for(5 * MS);
        }
        assert_int_equal(news, (generation + 1) * SESSIONS_MAX);
        assert_int_equal(messages, (generation + 1) * SESSIONS_MAX * 10);
        poll_for(5000 * MS);
        assert_int_equal(ends, news);
    }
}

/* ------------------------------------------------------------------------------------------------- log */

static void a_full_table_of_the_transmitter_is_logged_once_for_each_session(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 2; i++)
        heartbeat(0, i << 32 | i, START);
    poll_for(5 * MS);
    assert_string_equal(log_text, "");
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 1; i <= 2; i++)
            token(i << 32 | i, LLI_WIRE_JOIN_FULL, 1000 + i);
        poll_for(5 * MS);
    }
    assert_int_equal(receivers[0]->counters.crowded, 6);
    assert_int_equal(logged_count("\n"), 2);
    assert_int_equal(logged_count("session 0000000100000001: its transmitter knows 1001 receivers"), 1);
    assert_int_equal(logged_count("session 0000000200000002: its transmitter knows 1002 receivers"), 1);
    assert_int_equal(logged_count("raise receivers_max there"), 2);
}

/* A full table of receivers, which was logged before, is another reason. */
static void a_slow_replay_is_logged_once(void **state)
{
    (void)state;
    heartbeat(0, 0x100000001, START);
    poll_for(5 * MS);
    token(0x100000001, LLI_WIRE_JOIN_FULL, 1001);
    poll_for(5 * MS);
    assert_int_equal(logged_count("\n"), 1);
    for (int round = 0; round < 3; round++) {
        token(0x100000001, LLI_WIRE_JOIN_BUSY, 33);
        poll_for(5 * MS);
    }
    assert_int_equal(receivers[0]->counters.crowded, 4);
    assert_int_equal(logged_count("\n"), 2);
    assert_int_equal(logged_count("session 0000000100000001: 33 receivers are being sent the past"), 1);
    assert_int_equal(logged_count("raise replay_bytes_per_s"), 1);
}

/* The buffer of 64 KiB has room for 42 packets of 6 chunks, the window for 64 packets. */
static void a_full_reorder_buffer_is_logged_once(void **state)
{
    const uint64_t session = 0x100000001;
    lli_seq seq = START + 2; /* after a packet that is lost */

    (void)state;
    heartbeat(0, session, START);
    poll_for(5 * MS);
    data(0, session, START);
    for (; seq < START + 44; seq++)
        data_of(0, session, seq, 1380);
    heartbeat(0, session, seq);
    poll_for(5 * MS);
    assert_int_equal(messages, 1);
    assert_int_equal(receivers[0]->counters.reorder_full, 0);
    assert_string_equal(log_text, "");
    for (; seq < START + 60; seq++) {
        data_of(0, session, seq, 1380);
        heartbeat(0, session, seq + 1);
        poll_for(5 * MS);
    }
    assert_int_equal(receivers[0]->counters.reorder_full, 16);
    assert_int_equal(logged_count("\n"), 1);
    assert_int_equal(logged_count(receivers[0]->object), 1);
    assert_int_equal(logged_count("reorder buffer of 65536 bytes is full"), 1);
    assert_int_equal(logged_count("raise reorder_bytes"), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_stopped_context_ends_no_session_with_unread_packets),
        T(a_stopped_context_waits_for_heartbeats_of_its_sessions),
        T(a_stopped_context_that_joins_the_oldest_delivers_nothing_twice),
        T(a_slow_application_reports_while_a_run_is_delivered),
        T(a_slow_application_receives_one_burst_in_a_turn),
        T(invented_sessions_are_replaced_by_a_session_with_data),
        T(heartbeats_alone_replace_no_active_session),
        T(sessions_with_similar_tags_are_told_apart),
        T(a_full_table_of_the_transmitter_is_logged_once_for_each_session),
        T(a_slow_replay_is_logged_once),
        T(a_full_reorder_buffer_is_logged_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
