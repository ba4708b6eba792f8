/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same by the public API: receivers of a killed transmitter get all messages that it sent, or a gap event
 * in their place, then the end; a killed receiver costs the others no message.
 *
 *   shm_kill_session [ROUNDS [SEED]]   (4)
 */
#define _GNU_SOURCE
#include "shm_test.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX = 5000, LAST = 60000 };

static uint64_t rounds = 4;

/* A round, shared by its processes. */
struct round {
    char channel[320];
    _Atomic uint64_t session; /* identity of the transmitter's session */
    _Atomic uint64_t sent;    /* messages that were sent */
    _Atomic uint64_t heard;   /* messages received by the receiver to be killed */
    _Atomic uint64_t allowed; /* messages that the transmitter may send */
    uint64_t receivers;       /* receivers that the transmitter waits for */
    uint64_t last;            /* messages that the transmitter sends */
};

/* Fate of one session, which is followed again if it is heard after a long silence. */
struct record {
    uint64_t session;
    uint64_t next; /* first message without a delivery or gap */
    uint64_t messages, lost, wrong;
    uint64_t skipped; /* messages between an end and the next beginning */
    uint64_t silences, news, ends;
    enum llm_reason reason;
};

static void on_message(void *arg, const struct llm_message *message)
{
    struct record *record = arg;
    uint64_t session, number;

    if (message->session != record->session)
        return;
    record->wrong += message->number != record->next ||
                     !packet_read(message->data, message->size, &session, &number) ||
                     session != message->session || number != message->number;
    record->next = message->number + 1;
    record->messages++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct record *record = arg;

    if (event->kind == LLM_EVENT_SESSION_NEW) {
        record->wrong += event->first < record->next;
        record->skipped += event->first - record->next;
        record->news++;
        record->session = event->session;
        record->next = event->first;
    }
    if (event->session != record->session)
        return;
    if (event->kind == LLM_EVENT_GAP) {
        record->wrong += event->first != record->next;
        record->lost += event->last + 1 - event->first;
        record->next = event->last + 1;
    }
    record->silences += event->kind == LLM_EVENT_HEARTBEAT_LOST;
    if (event->kind == LLM_EVENT_SESSION_END) {
        record->wrong += event->first != record->next;
        record->reason = event->reason;
        record->ends++;
    }
}

static struct llm_context *context_make(void)
{
    struct llm_context *context = NULL;

    assert_int_equal(llm_context_open(NULL, &context), 0);
    return context;
}

static struct llm_context *receive(const char *channel, struct record *record)
{
    struct llm_context *context = context_make();
    struct llm_receiver *receiver;
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = record;
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &receiver), 0);
    return context;
}

static int transmit(void *arg)
{
    static uint8_t data[MESSAGE_MAX];
    struct round *round = arg;
    struct llm_context *context = context_make();
    struct llm_transmitter *transmitter = NULL;
    struct llm_topic *topic = NULL;
    uint64_t session;
    int status;

    if (llm_transmitter_open(context, round->channel, NULL, NULL, &transmitter) != 0 ||
        llm_topic_open(transmitter, "topic", 0, &topic) != 0)
        return 1;
    session = llm_transmitter_session(transmitter);
    atomic_store(&round->session, session);
    while (llm_transmitter_receivers(transmitter) < round->receivers)
        (void)llm_wait(context, 1000000);
    for (uint64_t number = 0; number < round->last; number++) {
        const uint32_t size = number % 50 == 0 ? MESSAGE_MAX : PACKET_MIN + (uint32_t)(number * 7919 % 500);

        while (number >= atomic_load(&round->allowed))
            (void)llm_poll(context);
        packet_write(data, size, session, number);
        while ((status = llm_send(topic, data, size, LLM_SEND_NOW)) == LLM_EAGAIN)
            (void)llm_poll(context);
        if (status != 0)
            return 2;
        (void)llm_poll(context);
        if (llm_transmitter_flush(transmitter) == 0)
            atomic_store(&round->sent, number + 1);
    }
    return llm_context_close(&context);
}

static int receive_on(void *arg)
{
    struct round *round = arg;
    struct record record = {.session = 0};
    struct llm_context *context = receive(round->channel, &record);

    for (;;) {
        (void)llm_wait(context, 1000000);
        atomic_store(&round->heard, record.messages);
    }
    return 0;
}

static struct round *round_make(const char *options)
{
    struct round *round = shared_memory(sizeof *round);

    snprintf(round->channel, sizeof round->channel,
             "shm://" NAME "?shm_directory=%s&mtu=2000&silence_ns=200000000"
             "&session_timeout_ns=1000000000&nak_giveup_ns=500000000&%s",
             directory, options);
    round->receivers = 1;
    round->allowed = UINT64_MAX;
    round->last = UINT64_MAX;
    return round;
}

static void record_expect_all(const struct record *record)
{
    assert_int_equal(record->wrong, 0);
    assert_int_equal(record->messages + record->lost + record->skipped, record->next);
}

/*
 * Kills the transmitter, and polls the receiver until it reports the end. False: an end was reported before,
 * because the machine stopped the transmitter for longer than a session may be silent; such rounds are
 * covered by another test.
 */
static bool kill_and_drain(pid_t pid, struct llm_context *context, const struct record *record)
{
    const bool followed = record->ends == 0;

    process_kill(pid);
    while (record->ends == 0 || record->ends < record->news)
        (void)llm_wait(context, 10000000);
    record_expect_all(record);
    return followed;
}

/* The lag of each receiver is below the window, so all sent packets are readable. */
static void messages_of_a_killed_transmitter_precede_its_session_end(void **state)
{
    struct round *round =
        round_make("flow=window&flow_quorum_percent=100&slow=off&history_packets=4096&history_bytes=4M");
    const struct llm_options options = small_options();

    (void)state;
    for (uint64_t i = 0; i < rounds;) {
        struct record record = {.session = 0};
        struct llm_context *context = receive(round->channel, &record);
        const uint64_t until = 1 + random_below(20000);
        pid_t pid;

        round->sent = 0;
        pid = process_start(transmit, round);
        while (round->sent < until)
            (void)llm_poll(context);
        if (kill_and_drain(pid, context, &record)) {
            /* The last packet may have been incomplete. */
            assert_in_range(record.lost, 0, 1);
            if (record.messages < round->sent)
                fail_msg("round %" PRIu64 ": of %" PRIu64 " messages %" PRIu64 " came, %" PRIu64
                         " were lost, %" PRIu64 " skipped; %" PRIu64 " silences, %" PRIu64 " ends, %s",
                         i, round->sent, record.messages, record.lost, record.skipped, record.silences,
                         record.ends, llm_reason_name(record.reason));
            assert_int_equal(record.reason, LLM_REASON_TIMEOUT);
            assert_true(record.silences >= 1);
            i++;
        }
        assert_int_equal(llm_context_close(&context), 0);
    }
    shared_free(round, sizeof *round);
    next_writer(&options);
}

/*
 * The session times out and begins again with the next packets: the history has all of them, so no message is
 * lost.
 */
static void a_transmitter_stopped_for_long_is_followed_again_without_loss(void **state)
{
    enum { ALL = 3000 };
    struct round *round =
        round_make("flow=window&flow_quorum_percent=100&slow=off&history_packets=4096&history_bytes=4M");
    const struct llm_options options = small_options();
    struct record record = {.session = 0};
    struct llm_context *context = receive(round->channel, &record);
    const uint64_t until = 1 + random_below(ALL / 2);
    pid_t pid;

    (void)state;
    round->allowed = ALL;
    pid = process_start(transmit, round);
    while (round->sent < until)
        (void)llm_poll(context);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    while (record.ends == 0)
        (void)llm_wait(context, 10000000);
    assert_int_equal(record.reason, LLM_REASON_TIMEOUT);
    assert_int_equal(kill(pid, SIGCONT), 0);
    while (record.next < ALL || record.news < 2)
        (void)llm_wait(context, 10000000);
    record_expect_all(&record);
    assert_int_equal(record.skipped, 0);
    /* The transmitter may have been stopped within a message. */
    assert_in_range(record.lost, 0, record.ends);
    process_kill(pid);
    assert_int_equal(llm_context_close(&context), 0);
    shared_free(round, sizeof *round);
    next_writer(&options);
}

/*
 * The receiver is lapped repeatedly: lost messages have a gap in their place. Its lag never exceeds the
 * packets that it can buffer after a gap.
 */
static void packets_overwritten_by_a_killed_transmitter_become_a_gap(void **state)
{
    enum { STEP = 1000, STEPS = 10 };
    struct round *round = round_make("history_packets=64&history_bytes=64K");
    const struct llm_options options = small_options();
    uint64_t lost = 0;

    (void)state;
    for (uint64_t i = 0; i < rounds;) {
        struct record record = {.session = 0};
        struct llm_context *context = receive(round->channel, &record);
        pid_t pid;

        round->sent = 0;
        round->allowed = 1;
        pid = process_start(transmit, round);
        while (record.messages < 1)
            (void)llm_poll(context);
        for (int step = 0; step < STEPS; step++) {
            atomic_fetch_add(&round->allowed, STEP);
            await_value(&round->sent, round->allowed);
            (void)llm_poll(context);
        }
        atomic_fetch_add(&round->allowed, STEP);
        await_value(&round->sent, round->allowed - random_below(STEP));
        if (kill_and_drain(pid, context, &record)) {
            /* The newest packet cannot have been overwritten. */
            assert_true(record.next >= round->sent);
            lost += record.lost;
            i++;
        }
        assert_int_equal(llm_context_close(&context), 0);
    }
    assert_true(lost > 0);
    shared_free(round, sizeof *round);
    next_writer(&options);
}

static void a_killed_receiver_costs_other_receivers_no_message(void **state)
{
    struct round *round = round_make("flow=window&flow_quorum_percent=100&linger_ns=5000000000");
    const struct llm_options options = small_options();

    (void)state;
    round->receivers = 2;
    round->last = LAST;
    for (uint64_t i = 0; i < rounds; i++) {
        struct record record = {.session = 0};
        struct llm_context *context = receive(round->channel, &record);
        const uint64_t until = 1 + random_below(LAST / 2);
        pid_t victim, pid;

        round->heard = round->sent = 0;
        victim = process_start(receive_on, round);
        pid = process_start(transmit, round);
        while (round->heard < until)
            (void)llm_poll(context);
        process_kill(victim);
        while (record.ends == 0)
            (void)llm_wait(context, 10000000);
        record_expect_all(&record);
        assert_int_equal(record.messages, LAST);
        assert_int_equal(record.reason, LLM_REASON_CLOSED);
        assert_int_equal(process_end(pid), 0);
        assert_int_equal(llm_context_close(&context), 0);
    }
    shared_free(round, sizeof *round);
    next_writer(&options);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        shm_test(messages_of_a_killed_transmitter_precede_its_session_end),
        shm_test(a_transmitter_stopped_for_long_is_followed_again_without_loss),
        shm_test(packets_overwritten_by_a_killed_transmitter_become_a_gap),
        shm_test(a_killed_receiver_costs_other_receivers_no_message),
    };

    rounds_arguments(argc, argv, &rounds);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
