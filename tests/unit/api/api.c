/* SPDX-License-Identifier: Apache-2.0 */
/* The public API over the loop transport: refused calls, results of calls, and calls allowed in handlers. */
#include "logged.h"

#include <llm/llm.h>
#include <poll.h>
#include <stdio.h>

enum { MESSAGES_MAX = 4096, EVENTS_MAX = 256, TEXT_MAX = 64 };

#define CHANNEL "loop://api:1?mtu=1500&linger_ns=0"

/* Little memory, so that many objects can be open. */
#define SMALL                                                                                              \
    "&history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=2&message_bytes_max=64K&topics_" \
    "max=8"                                                                                                \
    "&window_packets=64&receivers_max=4&rcvbuf_bytes=1M"

/* Messages and events of a receiver. */
struct heard {
    int messages;
    int events;
    uint32_t sizes[MESSAGES_MAX];
    char texts[MESSAGES_MAX][TEXT_MAX];
    char topics[MESSAGES_MAX][TEXT_MAX];
    struct llm_event event[EVENTS_MAX];
    struct llm_verdict verdict; /* latest verdict */
    const char *refuse;         /* a topic, or "" for every session */
    struct llm_context *context;
    struct llm_topic *reply; /* topic to send to in the handler */
    int handler_results[8];
};

static struct heard heard;

static void on_message(void *arg, const struct llm_message *message)
{
    struct heard *to = arg;

    assert_int_equal(message->number, (uint64_t)to->messages);
    to->sizes[to->messages] = message->size;
    snprintf(to->texts[to->messages], TEXT_MAX, "%.*s", (int)lli_min(message->size, TEXT_MAX - 1),
             (const char *)message->data);
    snprintf(to->topics[to->messages], TEXT_MAX, "%s", message->topic);
    to->messages++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct heard *to = arg;

    to->event[to->events++ % EVENTS_MAX] = *event;
    if (event->verdict != NULL)
        to->verdict = *event->verdict;
}

static bool on_accept(void *arg, const struct llm_source *source)
{
    const struct heard *to = arg;

    return to->refuse == NULL || strcmp(to->refuse, source->topic == NULL ? "" : source->topic) != 0;
}

static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;
static struct llm_topic *topic;

static struct llm_receiver_handlers all_handlers(void)
{
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = &heard;
    handlers.message = on_message;
    handlers.event = on_event;
    handlers.accept = on_accept;
    return handlers;
}

static struct llm_context *context_make(void)
{
    struct llm_context_options options;
    struct llm_context *made = NULL;

    llm_context_options_init(&options);
    options.log = log_keep;
    options.huge_pages = false;
    assert_int_equal(llm_context_open(&options, &made), LLM_OK);
    return made;
}

static int context_up(void **state)
{
    (void)state;
    memset(&heard, 0, sizeof heard);
    logged[0] = '\0';
    context = context_make();
    heard.context = context;
    transmitter = NULL;
    receiver = NULL;
    topic = NULL;
    return 0;
}

static int all_up(void **state)
{
    const struct llm_receiver_handlers handlers = all_handlers();

    (void)context_up(state);
    assert_int_equal(llm_receiver_open(context, CHANNEL SMALL, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL SMALL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "prices", 0, &topic), LLM_OK);
    return 0;
}

static int all_down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&context), LLM_OK);
    assert_null(context);
    return 0;
}

/* Polls until that many messages were delivered. */
static void poll_until(int messages)
{
    const uint64_t until = llm_clock() + UINT64_C(5000000000);

    while (heard.messages < messages && llm_clock() < until)
        assert_true(llm_poll(context) >= 0);
    assert_int_equal(heard.messages, messages);
}

static const struct llm_event *find_event(enum llm_event_kind kind)
{
    for (int i = 0; i < heard.events; i++)
        if (heard.event[i].kind == kind)
            return &heard.event[i];
    return NULL;
}

/* --------------------------------------------------------------------------------------------- arguments */

static void null_arguments_are_refused(void **state)
{
    const struct llm_receiver_handlers handlers = all_handlers();
    struct llm_counter stat;
    uint64_t value;
    void *data;

    (void)state;
    assert_int_equal(llm_context_open(NULL, NULL), LLM_EINVAL);
    assert_int_equal(llm_transmitter_open(NULL, CHANNEL, NULL, NULL, &transmitter), LLM_EINVAL);
    assert_int_equal(llm_transmitter_open(context, NULL, NULL, NULL, &transmitter), LLM_EINVAL);
    assert_int_equal(llm_transmitter_open(context, CHANNEL, NULL, NULL, NULL), LLM_EINVAL);
    assert_int_equal(llm_receiver_open(NULL, CHANNEL, NULL, &handlers, &receiver), LLM_EINVAL);
    assert_int_equal(llm_receiver_open(context, NULL, NULL, &handlers, &receiver), LLM_EINVAL);
    assert_int_equal(llm_receiver_open(context, CHANNEL, NULL, NULL, &receiver), LLM_EINVAL);
    assert_int_equal(llm_receiver_open(context, CHANNEL, NULL, &handlers, NULL), LLM_EINVAL);
    assert_int_equal(llm_topic_open(NULL, "a", 0, &topic), LLM_EINVAL);
    assert_int_equal(llm_send(NULL, "a", 1, 0), LLM_EINVAL);
    assert_int_equal(llm_sendv(NULL, NULL, 0, 0), LLM_EINVAL);
    assert_int_equal(llm_topic_claim(NULL, 1, &data), LLM_EINVAL);
    assert_int_equal(llm_topic_commit(NULL, 1, 0), LLM_EINVAL);
    assert_int_equal(llm_topic_abort(NULL), LLM_EINVAL);
    assert_int_equal(llm_transmitter_flush(NULL), LLM_EINVAL);
    assert_int_equal(llm_transmitter_suspend(NULL, 1), LLM_EINVAL);
    assert_int_equal(llm_transmitter_resume(NULL, 1), LLM_EINVAL);
    assert_int_equal(llm_transmitter_suspend_all(NULL), LLM_EINVAL);
    assert_int_equal(llm_transmitter_resume_all(NULL), LLM_EINVAL);
    assert_int_equal(llm_poll(NULL), LLM_EINVAL);
    assert_int_equal(llm_wait(NULL, 0), LLM_EINVAL);
    assert_int_equal(llm_context_fd(NULL), LLM_EINVAL);
    assert_int_equal(llm_context_start_thread(NULL, -1), LLM_EINVAL);
    assert_int_equal(llm_context_stop_thread(NULL), LLM_EINVAL);
    assert_int_equal(llm_context_counters(NULL, &stat, 1), LLM_EINVAL);
    assert_int_equal(llm_context_counters(context, NULL, 1), LLM_EINVAL);
    assert_int_equal(llm_context_counters(context, &stat, -1), LLM_EINVAL);
    assert_int_equal(llm_context_counter(context, NULL, &value), LLM_EINVAL);
    assert_int_equal(llm_context_counter(context, "naks_sent", NULL), LLM_EINVAL);
    assert_null(transmitter);
    assert_null(receiver);
}

static void closing_null_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(NULL), LLM_OK);
    assert_int_equal(llm_transmitter_close(NULL), LLM_OK);
    assert_int_equal(llm_receiver_close(NULL), LLM_OK);
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
}

static void expect_refused(const char *channel, int error, const char *named)
{
    const struct llm_receiver_handlers handlers = all_handlers();

    logged[0] = '\0';
    assert_int_equal(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), error);
    expect_logged(named);
    assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &receiver), error);
    assert_null(transmitter);
    assert_null(receiver);
}

static void wrong_channels_are_refused_by_name(void **state)
{
    (void)state;
    expect_refused("nonsense", LLM_EINVAL, "nonsense");
    expect_refused("tcp://a:1", LLM_ESCHEME, "tcp");
    expect_refused("impair+tcp://a:1", LLM_ESCHEME, "impair+tcp");
    expect_refused("loop://a:1?ttl=1000", LLM_EOPTION, "1000");
    expect_refused("loop://a:1?mtu=100", LLM_EOPTION, "mtu");
    expect_refused("loop://a:1?source=1.2.3.4", LLM_EOPTION, "source");
    assert_int_equal(llm_transmitter_open(context, "loop://a:1?history_bytes=64K", NULL, NULL, &transmitter),
                     LLM_EOPTION);
    assert_non_null(strstr(logged, "history_bytes"));
    assert_int_equal(
        llm_transmitter_open(context, "loop://a:1?flow=window&slow_lag_bytes=64K", NULL, NULL, &transmitter),
        LLM_EOPTION);
    assert_non_null(strstr(logged, "slow_lag_bytes"));
    /* Nothing is left behind: the context still works. */
    assert_int_equal(llm_transmitter_open(context, CHANNEL SMALL, NULL, NULL, &transmitter), LLM_OK);
}

static void options_of_other_versions_are_checked(void **state)
{
    struct llm_receiver_handlers handlers = all_handlers();
    struct llm_context_options options;
    struct llm_context *other = NULL;

    (void)state;
    llm_context_options_init(&options);
    options.log = log_keep;
    options.size = offsetof(struct llm_context_options, watch_ns);
    assert_int_equal(llm_context_open(&options, &other), LLM_OK);
    assert_int_equal(llm_context_close(&other), LLM_OK);
    options.size = sizeof options + 8;
    assert_int_equal(llm_context_open(&options, &other), LLM_EVERSION);
    options.size = 0;
    assert_int_equal(llm_context_open(&options, &other), LLM_EINVAL);
    assert_null(other);
    handlers.size = sizeof handlers + 8;
    assert_int_equal(llm_receiver_open(context, CHANNEL SMALL, NULL, &handlers, &receiver), LLM_EVERSION);
    handlers.size = sizeof handlers;
    assert_int_equal(llm_receiver_open(context, CHANNEL SMALL, NULL, &handlers, &receiver), LLM_OK);
}

static void context_options_outside_their_enums_are_refused(void **state)
{
    struct llm_context_options options;
    struct llm_context *other = NULL;

    (void)state;
    llm_context_options_init(&options);
    options.log = log_keep;
    options.wait = 3;
    assert_int_equal(llm_context_open(&options, &other), LLM_EINVAL);
    options.wait = LLM_WAIT_SPIN;
    options.log_level = 4;
    assert_int_equal(llm_context_open(&options, &other), LLM_EINVAL);
    assert_null(other);
}

/* ----------------------------------------------------------------------------------------- open and close */

static void objects_can_be_closed_in_any_order(void **state)
{
    const struct llm_receiver_handlers handlers = all_handlers();

    (void)state;
    for (int order = 0; order < 6; order++) {
        assert_int_equal(llm_transmitter_open(context, CHANNEL SMALL, NULL, NULL, &transmitter), LLM_OK);
        assert_int_equal(llm_topic_open(transmitter, "a", 0, &topic), LLM_OK);
        assert_int_equal(llm_receiver_open(context, CHANNEL SMALL, NULL, &handlers, &receiver), LLM_OK);
        (void)llm_poll(context);
        for (int i = 0; i < 2; i++) {
            if ((order + i) % 2 == 0)
                assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
            else if (order < 4)
                assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
        }
        assert_null(transmitter);
        if (order >= 4) {
            assert_int_equal(llm_context_close(&context), LLM_OK);
            context = context_make();
        }
        receiver = NULL;
    }
}

static void closing_announces_the_end_after_all_messages(void **state)
{
    const struct llm_event *end;

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(llm_send(topic, "x", 1, LLM_SEND_MORE), LLM_OK);
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    poll_until(10);
    (void)llm_poll(context);
    end = find_event(LLM_EVENT_SESSION_END);
    assert_non_null(end);
    assert_int_equal(end->reason, LLM_REASON_CLOSED);
    assert_int_equal(end->first, 10);
}

/* --------------------------------------------------------------------------------------------------- send */

static void messages_of_every_kind_arrive_in_order(void **state)
{
    const struct iovec pieces[] = {{"ga", 2}, {NULL, 0}, {"thered", 6}};
    static uint8_t large[60000];
    void *data;

    (void)state;
    assert_int_equal(llm_transmitter_next(transmitter), 0);
    assert_int_equal(llm_send(topic, "one", 3, 0), LLM_OK);
    assert_int_equal(llm_sendv(topic, pieces, 3, LLM_SEND_MORE), LLM_OK);
    assert_int_equal(llm_send(topic, NULL, 0, LLM_SEND_NOW), LLM_OK);
    assert_int_equal(llm_sendv(topic, NULL, 0, 0), LLM_OK);
    assert_int_equal(llm_topic_claim(topic, 100, &data), LLM_OK);
    memcpy(data, "claimed", 7);
    assert_int_equal(llm_topic_commit(topic, 7, 0), LLM_OK);
    assert_int_equal(llm_send(topic, large, sizeof large, 0), LLM_OK);
    assert_int_equal(llm_transmitter_next(transmitter), 6);
    poll_until(6);
    assert_string_equal(heard.texts[0], "one");
    assert_string_equal(heard.texts[1], "gathered");
    assert_int_equal(heard.sizes[2], 0);
    assert_int_equal(heard.sizes[3], 0);
    assert_string_equal(heard.texts[4], "claimed");
    assert_int_equal(heard.sizes[5], sizeof large);
    assert_string_equal(heard.topics[5], "prices");
    assert_non_null(find_event(LLM_EVENT_SESSION_NEW));
    assert_non_null(find_event(LLM_EVENT_TOPIC_NEW));
    assert_null(find_event(LLM_EVENT_GAP));
}

static void a_message_beyond_the_limit_is_refused(void **state)
{
    static uint8_t large[65537];
    const struct iovec pieces[] = {{large, SIZE_MAX}, {large, 2}};
    void *data;

    (void)state;
    assert_int_equal(llm_send(topic, large, 65536, 0), LLM_OK);
    assert_int_equal(llm_send(topic, large, 65537, 0), LLM_EMSGSIZE);
    assert_int_equal(llm_sendv(topic, pieces, 2, 0), LLM_EMSGSIZE);
    assert_int_equal(llm_sendv(topic, pieces, -1, 0), LLM_EINVAL);
    assert_int_equal(llm_send(topic, NULL, 1, 0), LLM_EINVAL);
    assert_true(llm_transmitter_claim_max(transmitter) > 1400 &&
                llm_transmitter_claim_max(transmitter) < 1500);
    assert_int_equal(llm_topic_claim(topic, llm_transmitter_claim_max(transmitter) + 1, &data), LLM_EMSGSIZE);
    assert_int_equal(llm_topic_claim(topic, llm_transmitter_claim_max(transmitter), &data), LLM_OK);
    assert_int_equal(llm_transmitter_next(transmitter), 1);
}

static void a_transmitter_has_one_claim_at_a_time(void **state)
{
    struct llm_topic *other;
    void *data;

    (void)state;
    assert_int_equal(llm_topic_open(transmitter, "other", LLM_TOPIC_WHOLE, &other), LLM_OK);
    assert_int_equal(llm_topic_abort(topic), LLM_ESTATE);
    assert_int_equal(llm_topic_commit(topic, 0, 0), LLM_ESTATE);
    assert_int_equal(llm_topic_claim(topic, 10, &data), LLM_OK);
    assert_int_equal(llm_topic_claim(topic, 10, &data), LLM_ESTATE);
    assert_int_equal(llm_topic_claim(other, 10, &data), LLM_ESTATE);
    assert_int_equal(llm_send(other, "a", 1, 0), LLM_ESTATE);
    assert_int_equal(llm_sendv(topic, NULL, 0, 0), LLM_ESTATE);
    assert_int_equal(llm_topic_open(transmitter, "third", 0, &other), LLM_ESTATE);
    assert_int_equal(llm_topic_commit(other, 1, 0), LLM_ESTATE);
    assert_int_equal(llm_topic_abort(other), LLM_ESTATE);
    assert_int_equal(llm_topic_commit(topic, 11, 0), LLM_EINVAL);
    (void)llm_poll(context);
    memcpy(data, "still mine", 10);
    assert_int_equal(llm_topic_commit(topic, 10, 0), LLM_OK);
    assert_int_equal(llm_topic_claim(topic, 10, &data), LLM_OK);
    assert_int_equal(llm_topic_abort(topic), LLM_OK);
    assert_int_equal(llm_send(other, "after", 5, 0), LLM_OK);
    poll_until(2);
    assert_string_equal(heard.texts[0], "still mine");
    assert_string_equal(heard.texts[1], "after");
}

static void an_aborted_claim_makes_packed_messages_due(void **state)
{
    void *data;

    (void)state;
    poll_until(0);
    assert_int_equal(llm_send(topic, "a", 1, LLM_SEND_MORE), LLM_OK);
    assert_int_equal(llm_topic_claim(topic, 10, &data), LLM_OK);
    (void)llm_poll(context);
    assert_int_equal(llm_topic_abort(topic), LLM_OK);
    assert_true(llm_context_deadline(context) <= llm_clock());
    poll_until(1);
}

static void poll_until_event(enum llm_event_kind kind)
{
    const uint64_t until = llm_clock() + UINT64_C(5000000000);

    heard.events = 0;
    while (find_event(kind) == NULL && llm_clock() < until)
        assert_true(llm_poll(context) >= 0);
    assert_non_null(find_event(kind));
}

static void suspensions_by_hand_are_reported_on_both_sides(void **state)
{
    const uint64_t until = llm_clock() + UINT64_C(5000000000);
    uint64_t id;

    (void)state;
    while (llm_transmitter_receivers(transmitter) == 0 && llm_clock() < until)
        assert_true(llm_poll(context) >= 0);
    assert_int_equal(llm_transmitter_suspend(transmitter, 12345), LLM_ENOTFOUND);
    assert_int_equal(llm_transmitter_suspend_all(transmitter), LLM_OK);
    poll_until_event(LLM_EVENT_SUSPENDED);
    assert_int_equal(heard.verdict.threshold, LLM_THRESHOLD_OPERATOR);
    id = heard.verdict.receiver;
    assert_int_not_equal(id, 0);
    assert_int_equal(llm_transmitter_resume_all(transmitter), LLM_OK);
    poll_until_event(LLM_EVENT_READMITTED);
    /* The log of this call only; without a handler, the transmitter logs the event. */
    logged[0] = '\0';
    assert_int_equal(llm_transmitter_suspend(transmitter, id), LLM_OK);
    poll_until_event(LLM_EVENT_SUSPENDED);
    assert_non_null(strstr(logged, "suspended"));
    assert_int_equal(llm_transmitter_resume_all(transmitter), LLM_OK);
    assert_null(strstr(logged, "readmitted"));
    assert_int_equal(llm_transmitter_resume(transmitter, id), LLM_OK);
    poll_until_event(LLM_EVENT_READMITTED);
    assert_int_equal(heard.verdict.receiver, id);
}

static void a_window_is_at_most_half_of_the_history(void **state)
{
    const uint64_t until = llm_clock() + UINT64_C(5000000000);
    const struct llm_receiver_handlers handlers = all_handlers();
    struct llm_context *sender = context_make();
    uint64_t packets = 0;
    char large[1000] = "";
    int error = LLM_OK;

    (void)state;
    assert_int_equal(
        llm_receiver_open(context, CHANNEL "&reorder_bytes=1M&sessions_max=2", NULL, &handlers, &receiver),
        LLM_OK);
    assert_int_equal(llm_transmitter_open(sender, CHANNEL SMALL "&flow=window", NULL, NULL, &transmitter),
                     LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "prices", 0, &topic), LLM_OK);
    while (llm_transmitter_receivers(transmitter) == 0 && llm_clock() < until)
        assert_true(llm_poll(sender) >= 0 && llm_poll(context) >= 0);
    assert_int_equal(llm_transmitter_receivers(transmitter), 1);
    /* The receiver is not polled, so nothing is reported; 256 packets are retained. */
    for (int i = 0; i < 5000 && error == LLM_OK; i++)
        error = llm_send(topic, large, sizeof large, LLM_SEND_MORE);
    assert_int_equal(error, LLM_EAGAIN);
    assert_int_equal(llm_context_counter(sender, "packets_data", &packets), LLM_OK);
    assert_in_range(packets, 100, 130);
    assert_int_equal(llm_context_close(&sender), LLM_OK);
}

/* Bursts and their lengths, beside the records of on_message(). */
static int bursts;

static void on_messages(void *arg, const struct llm_message *messages, int count)
{
    assert_true(count > 0);
    bursts++;
    for (int i = 0; i < count; i++)
        on_message(arg, &messages[i]);
}

static void a_burst_handler_replaces_the_message_handler(void **state)
{
    struct llm_receiver_handlers handlers = all_handlers();
    struct llm_topic *other;
    char large[3000];

    (void)state;
    bursts = 0;
    memset(large, 'l', sizeof large);
    handlers.messages = on_messages;
    assert_int_equal(llm_receiver_open(context, CHANNEL SMALL, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL SMALL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "prices", 0, &topic), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "other", 0, &other), LLM_OK);
    for (int i = 0; i < 200; i++)
        assert_int_equal(llm_send(i % 50 < 40 ? topic : other, "short", 5, LLM_SEND_MORE), LLM_OK);
    assert_int_equal(llm_send(topic, large, sizeof large, LLM_SEND_MORE), LLM_OK);
    assert_int_equal(llm_send(other, "", 0, LLM_SEND_MORE), LLM_OK);
    poll_until(202);
    assert_in_range(bursts, 3, 20);
    for (int i = 0; i < 200; i++) {
        assert_string_equal(heard.texts[i], "short");
        assert_string_equal(heard.topics[i], i % 50 < 40 ? "prices" : "other");
    }
    assert_int_equal(heard.sizes[200], sizeof large);
    assert_int_equal(heard.sizes[201], 0);
    assert_string_equal(heard.topics[201], "other");
}

static void packed_messages_leave_with_flush_or_poll(void **state)
{
    (void)state;
    assert_int_equal(llm_send(topic, "a", 1, LLM_SEND_MORE), LLM_OK);
    assert_int_equal(llm_transmitter_flush(transmitter), LLM_OK);
    poll_until(1);
    assert_int_equal(llm_send(topic, "b", 1, LLM_SEND_MORE), LLM_OK);
    poll_until(2);
}

/* ------------------------------------------------------------------------------------------------- topics */

static void topics_have_names_of_their_own_within_limits(void **state)
{
    char name[257];
    struct llm_topic *other;

    (void)state;
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    assert_int_equal(llm_topic_open(transmitter, "", 0, &other), LLM_EINVAL);
    assert_int_equal(llm_topic_open(transmitter, name, 0, &other), LLM_EINVAL);
    name[255] = '\0';
    assert_int_equal(llm_topic_open(transmitter, name, LLM_TOPIC_NO_HISTORY, &other), LLM_EINVAL);
    assert_non_null(strstr(logged, "253 bytes without history"));
    assert_int_equal(llm_topic_open(transmitter, name, 0, &other), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "prices", 0, &other), LLM_EINVAL);
    assert_non_null(strstr(logged, "prices"));
    assert_int_equal(llm_topic_open(transmitter, "flags", 8, &other), LLM_EINVAL);
    assert_int_equal(llm_topic_open(transmitter, NULL, 0, &other), LLM_EINVAL);
    assert_int_equal(llm_topic_open(transmitter, "null", 0, NULL), LLM_EINVAL);
    for (char letter = 'a'; letter < 'g'; letter++) {
        const char text[] = {letter, '\0'};

        assert_int_equal(llm_topic_open(transmitter, text, 0, &other), LLM_OK);
    }
    assert_int_equal(llm_topic_open(transmitter, "ninth", 0, &other), LLM_ELIMIT);
    assert_non_null(strstr(logged, "topics_max"));
}

static void a_refused_topic_is_not_delivered(void **state)
{
    struct llm_topic *other;

    (void)state;
    heard.refuse = "noise";
    assert_int_equal(llm_topic_open(transmitter, "noise", 0, &other), LLM_OK);
    assert_int_equal(llm_send(topic, "a", 1, 0), LLM_OK);
    poll_until(1);
    assert_int_equal(llm_send(other, "b", 1, LLM_SEND_NOW), LLM_OK);
    for (int i = 0; i < 100; i++)
        (void)llm_poll(context);
    assert_int_equal(heard.messages, 1);
    for (int i = 0; i < heard.events; i++)
        assert_true(heard.event[i].kind != LLM_EVENT_TOPIC_NEW || heard.event[i].topic_id == 0);
}

static void a_refused_session_is_silent(void **state)
{
    uint64_t refused = 0;

    (void)state;
    heard.refuse = "";
    assert_int_equal(llm_send(topic, "a", 1, LLM_SEND_NOW), LLM_OK);
    for (int i = 0; i < 100; i++)
        (void)llm_poll(context);
    assert_int_equal(heard.messages, 0);
    assert_int_equal(heard.events, 0);
    assert_int_equal(llm_context_counter(context, "sessions_refused", &refused), LLM_OK);
    assert_int_equal(refused, 1);
}

/* ----------------------------------------------------------------------------------------------- handlers */

static void on_message_misbehave(void *arg, const struct llm_message *message)
{
    struct heard *to = arg;
    struct llm_receiver_handlers handlers = all_handlers();
    struct llm_context *same = to->context;
    struct llm_transmitter *made = NULL, *mine = transmitter;
    struct llm_receiver *made_receiver = NULL, *my_receiver = receiver;
    int *results = to->handler_results;

    (void)message;
    results[0] = llm_poll(to->context);
    results[1] = llm_transmitter_open(to->context, CHANNEL, NULL, NULL, &made);
    results[2] = llm_receiver_open(to->context, CHANNEL, NULL, &handlers, &made_receiver);
    results[3] = llm_transmitter_close(&mine);
    results[4] = llm_receiver_close(&my_receiver);
    results[5] = llm_context_close(&same);
    results[6] = llm_context_start_thread(to->context, -1);
    results[7] = llm_wait(to->context, 0);
    to->messages++;
}

static void handlers_may_not_poll_open_or_close(void **state)
{
    struct llm_receiver_handlers handlers = all_handlers();

    (void)state;
    handlers.message = on_message_misbehave;
    assert_int_equal(llm_receiver_open(context, CHANNEL SMALL, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL SMALL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "prices", 0, &topic), LLM_OK);
    assert_int_equal(llm_send(topic, "a", 1, 0), LLM_OK);
    poll_until(1);
    for (int i = 0; i < 8; i++)
        assert_int_equal(heard.handler_results[i], LLM_ESTATE);
}

static void on_message_reply(void *arg, const struct llm_message *message)
{
    struct heard *to = arg;
    struct llm_topic *opened;
    uint64_t value;

    if (message->number == 0) {
        to->handler_results[0] = llm_topic_open(transmitter, "from a handler", 0, &opened);
        to->handler_results[1] = llm_context_counter(to->context, "messages_sent", &value);
        to->handler_results[2] = llm_transmitter_flush(transmitter);
    }
    if (to->messages < 10)
        to->handler_results[3] |= llm_send(topic, "reply", 5, 0);
    to->messages++;
}

static void handlers_may_send_flush_open_topics_and_read_statistics(void **state)
{
    struct llm_receiver_handlers handlers = all_handlers();

    (void)state;
    handlers.message = on_message_reply;
    assert_int_equal(llm_receiver_open(context, CHANNEL SMALL, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL SMALL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "prices", 0, &topic), LLM_OK);
    assert_int_equal(llm_send(topic, "a", 1, 0), LLM_OK);
    poll_until(11);
    for (int i = 0; i < 4; i++)
        assert_int_equal(heard.handler_results[i], LLM_OK);
}

static void events_are_logged_and_messages_dropped_without_handlers(void **state)
{
    struct llm_receiver_handlers handlers;
    uint64_t delivered = 0;

    (void)state;
    llm_receiver_handlers_init(&handlers);
    assert_int_equal(llm_receiver_open(context, CHANNEL SMALL, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL SMALL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "prices", 0, &topic), LLM_OK);
    assert_int_equal(llm_send(topic, "a", 1, 0), LLM_OK);
    for (int i = 0; i < 100; i++)
        (void)llm_poll(context);
    assert_int_equal(llm_context_counter(context, "messages_delivered", &delivered), LLM_OK);
    assert_int_equal(delivered, 1);
}

/* -------------------------------------------------------------------------------------------------- sleep */

static void a_sleeper_is_woken_by_its_descriptor_and_its_deadline(void **state)
{
    struct llm_context *sender = context_make();
    struct llm_transmitter *other;
    struct llm_topic *to;
    const int fd = llm_context_fd(context);
    const uint64_t until = llm_clock() + UINT64_C(5000000000);

    (void)state;
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    assert_true(fd >= 0);
    assert_int_equal(llm_transmitter_open(sender, CHANNEL SMALL, NULL, NULL, &other), LLM_OK);
    assert_int_equal(llm_topic_open(other, "elsewhere", 0, &to), LLM_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(llm_send(to, "wake", 4, LLM_SEND_NOW), LLM_OK);
    while (heard.messages < 20 && llm_clock() < until) {
        struct pollfd waiting = {.fd = llm_context_fd(context), .events = POLLIN};
        uint64_t now = llm_clock(), at = llm_context_deadline(context);

        assert_int_equal(waiting.fd, fd);
        if (llm_poll(context) > 0)
            continue;
        assert_true(poll(&waiting, 1, at <= now ? 0 : (int)lli_min((at - now) / 1000000 + 1, 1000)) >= 0);
        (void)llm_poll(sender);
    }
    assert_int_equal(heard.messages, 20);
    assert_int_equal(llm_context_close(&sender), LLM_OK);
}

static void waiting_ends_with_a_delivery_or_the_timeout(void **state)
{
    const uint64_t began = llm_clock();

    (void)state;
    while (llm_wait(context, 1000000) > 0)
        assert_true(llm_clock() < began + UINT64_C(5000000000));
    assert_int_equal(llm_wait(context, 0), 0);
    assert_int_equal(llm_send(topic, "a", 1, 0), LLM_OK);
    assert_true(llm_wait(context, UINT64_MAX) > 0);
}

/* ------------------------------------------------------------------------------------------ destinations */

static void each_destination_gets_all_messages(void **state)
{
    static const char *const channels[] = {"loop://a:1?mtu=1500" SMALL, "loop://b:2?mtu=1500" SMALL,
                                           "loop://c:3?mtu=1500" SMALL};
    struct heard each[3] = {{0}};
    struct llm_receiver *receivers[3];
    const uint64_t until = llm_clock() + UINT64_C(5000000000);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct llm_receiver_handlers handlers = all_handlers();

        handlers.arg = &each[i];
        assert_int_equal(llm_receiver_open(context, channels[i], NULL, &handlers, &receivers[i]), LLM_OK);
    }
    assert_int_equal(llm_transmitter_open(context, "loop://a:1?mtu=1500&destinations=b:2,c:3" SMALL, NULL,
                                          NULL, &transmitter),
                     LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "prices", 0, &topic), LLM_OK);
    for (int i = 0; i < 1000; i++)
        while (llm_send(topic, "to each of them", 15, LLM_SEND_MORE) == LLM_EAGAIN)
            assert_true(llm_poll(context) >= 0);
    while ((each[0].messages < 1000 || each[1].messages < 1000 || each[2].messages < 1000 ||
            llm_transmitter_receivers(transmitter) < 3) &&
           llm_clock() < until)
        assert_true(llm_poll(context) >= 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(each[i].messages, 1000);
    assert_int_equal(llm_transmitter_receivers(transmitter), 3);
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
}

static void wrong_destinations_open_no_transmitter(void **state)
{
    (void)state;
    assert_int_equal(llm_transmitter_open(context, "loop://a:1?destinations=b", NULL, NULL, &transmitter),
                     LLM_EINVAL);
    assert_int_equal(llm_transmitter_open(context, "loop://a:1?destinations=b:2,", NULL, NULL, &transmitter),
                     LLM_EINVAL);
    assert_int_equal(
        llm_transmitter_open(context, "loop://a:1?destinations=b:2,c:0", NULL, NULL, &transmitter),
        LLM_EINVAL);
    assert_int_equal(llm_transmitter_open(context, "shm://a?destinations=b", NULL, NULL, &transmitter),
                     LLM_EOPTION);
    assert_non_null(strstr(logged, "destinations"));
    assert_null(transmitter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(null_arguments_are_refused, context_up, all_down),
        cmocka_unit_test_setup_teardown(closing_null_is_allowed, context_up, all_down),
        cmocka_unit_test_setup_teardown(wrong_channels_are_refused_by_name, context_up, all_down),
        cmocka_unit_test_setup_teardown(options_of_other_versions_are_checked, context_up, all_down),
        cmocka_unit_test_setup_teardown(context_options_outside_their_enums_are_refused, context_up,
                                        all_down),
        cmocka_unit_test_setup_teardown(objects_can_be_closed_in_any_order, context_up, all_down),
        cmocka_unit_test_setup_teardown(closing_announces_the_end_after_all_messages, all_up, all_down),
        cmocka_unit_test_setup_teardown(messages_of_every_kind_arrive_in_order, all_up, all_down),
        cmocka_unit_test_setup_teardown(a_message_beyond_the_limit_is_refused, all_up, all_down),
        cmocka_unit_test_setup_teardown(a_transmitter_has_one_claim_at_a_time, all_up, all_down),
        cmocka_unit_test_setup_teardown(an_aborted_claim_makes_packed_messages_due, all_up, all_down),
        cmocka_unit_test_setup_teardown(a_window_is_at_most_half_of_the_history, context_up, all_down),
        cmocka_unit_test_setup_teardown(a_burst_handler_replaces_the_message_handler, context_up, all_down),
        cmocka_unit_test_setup_teardown(packed_messages_leave_with_flush_or_poll, all_up, all_down),
        cmocka_unit_test_setup_teardown(topics_have_names_of_their_own_within_limits, all_up, all_down),
        cmocka_unit_test_setup_teardown(a_refused_topic_is_not_delivered, all_up, all_down),
        cmocka_unit_test_setup_teardown(a_refused_session_is_silent, all_up, all_down),
        cmocka_unit_test_setup_teardown(suspensions_by_hand_are_reported_on_both_sides, all_up, all_down),
        cmocka_unit_test_setup_teardown(handlers_may_not_poll_open_or_close, context_up, all_down),
        cmocka_unit_test_setup_teardown(handlers_may_send_flush_open_topics_and_read_statistics, context_up,
                                        all_down),
        cmocka_unit_test_setup_teardown(events_are_logged_and_messages_dropped_without_handlers, context_up,
                                        all_down),
        cmocka_unit_test_setup_teardown(a_sleeper_is_woken_by_its_descriptor_and_its_deadline, all_up,
                                        all_down),
        cmocka_unit_test_setup_teardown(waiting_ends_with_a_delivery_or_the_timeout, all_up, all_down),
        cmocka_unit_test_setup_teardown(each_destination_gets_all_messages, context_up, all_down),
        cmocka_unit_test_setup_teardown(wrong_destinations_open_no_transmitter, context_up, all_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
