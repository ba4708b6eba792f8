/* SPDX-License-Identifier: Apache-2.0 */
/* Channels with keys, through the public API, over the loop transport. */
#define _GNU_SOURCE
#include <llm/llm.h>
#include <stdio.h>

#include "counter.h"
#include "core/keys/key_file.h"
#include "engine/objects.h"
#include "key_place.h"
#include "log_lines.h"
#include "../../rest.h"

#define CHANNEL                                                                               \
    "keys:1?mtu=1500&flow=window&linger_ns=2000000000&history_bytes=4M&history_packets=2048&" \
    "reorder_bytes=1M&sessions_max=4&message_bytes_max=64K&topics_max=8&window_packets=2048&rcvbuf_bytes=4M"

/* Message number SHORT is the first of 113 bytes, which is sent in a packet of its own. */
enum { MESSAGES = 3000, SIDES = 2, SHORT = 48 };

struct side {
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct llm_transmitter *transmitter;
    uint64_t delivered;
    uint64_t wrong;
    uint64_t lost;
    enum llm_reason reason; /* of LLM_EVENT_KEYS */
    int reported;           /* how often that came */
};

static struct side sides[SIDES];
static char path[SIDES][64];

static uint32_t message_size(uint64_t number)
{
    return 1 + (uint32_t)(number * 7919 % 4000);
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct side *side = arg;
    const uint8_t *bytes = message->data;
    bool right = message->size == message_size(message->number);

    for (size_t i = 0; right && i < message->size; i++)
        right = bytes[i] == pattern(message->number, i);
    side->delivered++;
    side->wrong += !right;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct side *side = arg;

    side->lost += event->kind == LLM_EVENT_GAP;
    if (event->kind != LLM_EVENT_KEYS)
        return;
    side->reason = event->reason;
    side->reported++;
}

static const char *scheme; /* of the channels of a test */

static void channel(char *text, size_t size, const char *keys, const char *more)
{
    (void)snprintf(text, size, "%s://" CHANNEL "%s%s%s", scheme, keys[0] == 0 ? "" : "&keys=", keys, more);
}

static void receiver_up(int index, const char *keys, const char *more)
{
    struct llm_receiver_handlers handlers;
    char text[512];

    channel(text, sizeof text, keys, more);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = &sides[index];
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(sides[index].context, text, NULL, &handlers, &sides[index].receiver),
                     LLM_OK);
}

static void transmitter_up(int index, const char *keys, const char *more)
{
    struct llm_transmitter_handlers handlers;
    char text[512];

    channel(text, sizeof text, keys, more);
    llm_transmitter_handlers_init(&handlers);
    handlers.arg = &sides[index];
    handlers.event = on_event;
    assert_int_equal(
        llm_transmitter_open(sides[index].context, text, NULL, &handlers, &sides[index].transmitter), LLM_OK);
}

static void poll_all(void)
{
    int delivered = 0;

    for (int i = 0; i < SIDES; i++) {
        const int count = llm_poll(sides[i].context);

        assert_true(count >= 0);
        delivered += count;
    }
    rest_after(delivered);
}

static void poll_for(uint64_t ns)
{
    const uint64_t until = llm_clock() + ns;

    while (llm_clock() < until)
        poll_all();
}

static void poll_until(const uint64_t *count, uint64_t wanted)
{
    const uint64_t began = llm_clock();

    while (*count < wanted) {
        assert_true(llm_clock() < began + UINT64_C(60000000000));
        poll_all();
    }
}

static void send_messages(int index, uint64_t first, uint64_t count)
{
    static uint8_t bytes[4096];
    static struct llm_topic *topic;

    if (first == 0)
        assert_int_equal(llm_topic_open(sides[index].transmitter, "topic", 0, &topic), LLM_OK);
    for (uint64_t number = first; number < first + count; number++) {
        const unsigned flags = number % 5 == 0 ? LLM_SEND_MORE : 0;

        pattern_fill(bytes, message_size(number), number);
        while (llm_send(topic, bytes, message_size(number), flags) == LLM_EAGAIN)
            poll_all();
        if (number % 8 == 0)
            poll_all();
    }
    (void)llm_transmitter_flush(sides[index].transmitter);
}

static int up(void **state)
{
    struct llm_context_options options;

    (void)state;
    memset(sides, 0, sizeof sides);
    scheme = "loop";
    llm_context_options_init(&options);
    options.log = log_keep;
    log_text[0] = '\0';
    for (int i = 0; i < SIDES; i++) {
        (void)snprintf(path[i], sizeof path[i], "/tmp/llm-keys-api-%d-%d", (int)getpid(), i);
        key_file_write(path[i], KEY_EPOCH(7, "aes-128-gcm", KEY_A, "keys:1"));
        assert_int_equal(llm_context_open(&options, &sides[i].context), LLM_OK);
    }
    return 0;
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < SIDES; i++) {
        assert_int_equal(llm_context_close(&sides[i].context), LLM_OK);
        (void)unlink(path[i]);
    }
    return 0;
}

static void expect_all(const char *keys, const char *more)
{
    receiver_up(0, keys, more);
    transmitter_up(1, keys, more);
    send_messages(1, 0, MESSAGES);
    poll_until(&sides[0].delivered, MESSAGES);
    assert_int_equal(sides[0].delivered, MESSAGES);
    assert_int_equal(sides[0].wrong, 0);
    assert_int_equal(sides[0].lost, 0);
    assert_int_equal(sides[0].reported + sides[1].reported, 0);
    assert_int_equal(
        counter_of(sides[0].context, "packets_forged") + counter_of(sides[1].context, "packets_forged"), 0);
    assert_int_equal(counter_of(sides[0].context, "packets_in_clear") +
                         counter_of(sides[1].context, "packets_in_clear"),
                     0);
}

static void statistics_have_the_epoch_with_its_times(void **state)
{
    (void)state;
    expect_all(path[0], "");
    assert_int_equal(counter_of(sides[0].context, "keys_epoch"), 7);
    assert_true(counter_of(sides[0].context, "keys_age_s") > UINT64_C(5) * 365 * 86400);
    assert_true(counter_of(sides[0].context, "keys_left_s") > UINT64_C(900) * 365 * 86400);
}

static void messages_arrive_with_the_keys_of_every_suite_and_mode(void **state)
{
    static const char *const suites[] = {"aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"};
    static const char *const modes[] = {"", "&keys_mode=authenticate"};
    char text[256];

    for (int suite = 0; suite < 3; suite++) {
        for (int mode = 0; mode < 2; mode++) {
            assert_int_equal(down(state), 0);
            assert_int_equal(up(state), 0);
            (void)snprintf(text, sizeof text, "7 " KEY_ALWAYS " %s " KEY_A " keys:*\n", suites[suite]);
            key_file_write(path[0], text);
            expect_all(path[0], modes[mode]);
            assert_int_equal(counter_of(sides[1].context, "status_received") > 0, 1);
        }
    }
}

/* Sends a few messages, of which none may arrive. */
static void expect_none(void)
{
    send_messages(1, 0, 20);
    poll_for(UINT64_C(300000000));
    assert_int_equal(sides[0].delivered, 0);
    assert_int_equal(llm_transmitter_close(&sides[1].transmitter), 0);
}

static void a_receiver_without_keys_reports_that_once(void **state)
{
    (void)state;
    receiver_up(0, "", "");
    transmitter_up(1, path[1], "");
    expect_none();
    assert_int_equal(sides[0].reported, 1);
    assert_int_equal(sides[0].reason, LLM_REASON_KEYS);
    assert_true(counter_of(sides[0].context, "packets_other_keys") > 1);
    assert_int_equal(counter_of(sides[0].context, "packets_version"), 0);
    assert_int_equal(logged_count("open the channel with the option keys"), 1);
}

static void a_receiver_with_keys_drops_and_reports_what_is_in_clear(void **state)
{
    (void)state;
    receiver_up(0, path[0], "");
    transmitter_up(1, "", "");
    expect_none();
    assert_int_equal(sides[0].reported, 1);
    assert_int_equal(sides[0].reason, LLM_REASON_IN_CLEAR);
    assert_true(counter_of(sides[0].context, "packets_in_clear") > 1);
    assert_int_equal(logged_count("some members of the group are without the option keys"), 1);
}

static void another_key_of_the_epoch_opens_nothing(void **state)
{
    (void)state;
    key_file_write(path[1], KEY_EPOCH(7, "aes-128-gcm", KEY_B, "keys:1"));
    receiver_up(0, path[0], "");
    transmitter_up(1, path[1], "");
    expect_none();
    assert_true(counter_of(sides[0].context, "packets_forged") > 1);
    assert_int_equal(sides[0].reported, 0);
}

static void another_epoch_or_mode_is_named(void **state)
{
    uint64_t others;

    (void)state;
    key_file_write(path[1], KEY_EPOCH(8, "aes-128-gcm", KEY_A, "keys:1"));
    receiver_up(0, path[0], "");
    transmitter_up(1, path[1], "");
    expect_none();
    assert_int_equal(sides[0].reported, 1);
    assert_int_equal(sides[0].reason, LLM_REASON_KEYS);
    assert_int_equal(logged_count("compare the epochs"), 1);
    others = counter_of(sides[0].context, "packets_other_keys");
    transmitter_up(1, path[0], "&keys_mode=authenticate");
    expect_none();
    assert_int_equal(sides[0].reported, 1);
    assert_true(counter_of(sides[0].context, "packets_other_keys") > others);
    assert_int_equal(counter_of(sides[0].context, "packets_forged"), 0);
}

static void losses_and_damage_are_repaired(void **state)
{
    (void)state;
    scheme = "impair+loop";
    expect_all(path[0], "&impair_loss_ppm=20000&impair_duplicate_ppm=10000&impair_reorder_ppm=10000");
    assert_true(counter_of(sides[1].context, "packets_repaired") > 0);
}

/* Control packets announce an address of each line, so they are protected for each. */
static void both_lines_of_a_channel_are_protected(void **state)
{
    (void)state;
    expect_all(path[0], " + loop://other:2");
    assert_int_equal(counter_of(sides[0].context, "packets_other_keys") +
                         counter_of(sides[1].context, "packets_other_keys"),
                     0);
    assert_true(
        counter_of(sides[0].context, "line_1_second") + counter_of(sides[0].context, "line_2_second") > 0);
    scheme = "impair+loop";
    assert_int_equal(down(state), 0);
    assert_int_equal(up(state), 0);
    scheme = "impair+loop";
    expect_all(path[0], "&impair_loss_ppm=50000 + impair+loop://other:2?impair_loss_ppm=50000");
}

static void keys_of_a_channel_with_lines_stand_in_the_first(void **state)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;
    char text[512];

    (void)state;
    llm_receiver_handlers_init(&handlers);
    (void)snprintf(text, sizeof text, "loop://a:1 + loop://keys:1?keys=%s", path[0]);
    assert_int_equal(llm_receiver_open(sides[0].context, text, NULL, &handlers, &receiver), LLM_EOPTION);
    assert_non_null(strstr(log_text, "option keys: it applies to both lines"));
}

static void damaged_packets_are_repaired_and_nothing_of_them_is_delivered(void **state)
{
    (void)state;
    scheme = "impair+loop";
    receiver_up(0, path[0], "&impair_corrupt_ppm=50000");
    transmitter_up(1, path[0], "&impair_corrupt_ppm=50000");
    send_messages(1, 0, MESSAGES);
    poll_until(&sides[0].delivered, MESSAGES);
    assert_int_equal(sides[0].wrong + sides[0].lost, 0);
    assert_true(counter_of(sides[0].context, "packets_forged") > 0);
}

static void an_epoch_changes_at_full_rate_under_loss(void **state)
{
    const uint64_t until = llm_clock() + UINT64_C(5500000000);
    char text[512], from[LLI_KEY_TIME_MAX];
    uint64_t sent = 0;

    (void)state;
    scheme = "impair+loop";
    receiver_up(0, path[0], "&impair_loss_ppm=10000");
    transmitter_up(1, path[1], "&impair_loss_ppm=10000");
    lli_key_put_time(from, (lli_key_time)time(NULL) + 3);
    (void)snprintf(text, sizeof text,
                   KEY_EPOCH(7, "aes-128-gcm", KEY_A, "keys:1") "8 %s 2999-01-01 chacha20-poly1305 " KEY_B
                                                                " keys:1\n",
                   from);
    for (int i = 0; i < SIDES; i++)
        key_file_write(path[i], text);
    /* Each side looks once a second, so both use the new epoch before the end. */
    while (llm_clock() < until) {
        send_messages(1, sent, 50);
        sent += 50;
        poll_for(UINT64_C(5000000));
    }
    poll_until(&sides[0].delivered, sent);
    assert_int_equal(sides[0].wrong + sides[0].lost, 0);
    assert_int_equal(sides[0].reported + sides[1].reported, 0);
    assert_true(counter_of(sides[1].context, "packets_repaired") > 0);
    /* A member that has only the new epoch follows it. */
    (void)snprintf(text, sizeof text, "8 %s 2999-01-01 chacha20-poly1305 " KEY_B " keys:1\n", from);
    key_file_write(path[0], text);
    poll_for(UINT64_C(1500000000));
    send_messages(1, sent, 50);
    poll_until(&sides[0].delivered, sent + 50);
    assert_int_equal(sides[0].wrong + sides[0].lost, 0);
}

static void past_messages_and_cached_ones_arrive(void **state)
{
    struct llm_cache cache;
    struct llm_topic *topic;

    (void)state;
    transmitter_up(1, path[1], "");
    llm_cache_init(&cache);
    cache.messages = 1;
    cache.bytes_max = 4096;
    send_messages(1, 0, 200);
    assert_int_equal(llm_topic_open(sides[1].transmitter, "cached", 0, &topic), LLM_OK);
    assert_int_equal(llm_topic_cache(topic, &cache), LLM_OK);
    assert_int_equal(llm_send(topic, "x", 1, 0), LLM_OK);
    poll_for(UINT64_C(1100000000));
    receiver_up(0, path[0], "&join=oldest");
    poll_until(&sides[0].delivered, 201);
    assert_int_equal(counter_of(sides[0].context, "joins_granted"), 1);
    sides[0].delivered = 0;
    assert_int_equal(llm_receiver_close(&sides[0].receiver), LLM_OK);
    receiver_up(0, path[0], "&join=latest");
    poll_until(&sides[0].delivered, 1);
    assert_true(counter_of(sides[1].context, "cache_packets_sent") > 0);
}

static void expect_refused(const char *keys, int error, const char *says)
{
    struct llm_transmitter *transmitter;
    char text[512];

    log_text[0] = 0;
    channel(text, sizeof text, keys, "");
    assert_int_equal(llm_transmitter_open(sides[0].context, text, NULL, NULL, &transmitter), error);
    if (strstr(log_text, says) == NULL)
        fail_msg("\"%s\" is not in: %s", says, log_text);
}

static void keys_that_cannot_be_used_are_refused(void **state)
{
    (void)state;
    expect_refused("/nonexistent/keys", LLM_ENOTFOUND, "llm-key new");
    assert_int_equal(chmod(path[0], 0644), 0);
    expect_refused(path[0], LLM_EACCESS, "chmod 0600");
    key_file_write(path[0], "7 2020-01-01 2020-01-02 aes-128-gcm " KEY_A " *\n");
    expect_refused(path[0], LLM_EACCESS, "ended at 2020-01-02");
    key_file_write(path[0], "7 2900-01-01 2900-01-02 aes-128-gcm " KEY_A " *\n");
    expect_refused(path[0], LLM_EACCESS, "begins at 2900-01-01");
    key_file_write(path[0], KEY_EPOCH(7, "aes-128-gcm", KEY_A, "keys:2"));
    expect_refused(path[0], LLM_EACCESS, "no pattern matches \"keys:1\"");
    key_file_write(path[0],
                   KEY_EPOCH(7, "aes-128-gcm", KEY_A, "keys:*") KEY_EPOCH(7, "aes-128-gcm", KEY_B, "*:1"));
    expect_refused(path[0], LLM_EDAMAGED, "lines 1 and 2");
}

static int on_connect(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                      struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)listener;
    (void)caller;
    (void)handlers;
    return 1;
}

static void a_context_that_requires_keys_refuses_channels_without(void **state)
{
    struct llm_listener_handlers listening;
    struct llm_receiver_handlers handlers;
    struct llm_context_options options;
    struct llm_transmitter *transmitter;
    struct llm_context *context;
    struct llm_listener *listener;
    struct llm_receiver *receiver;
    char text[512];

    (void)state;
    llm_context_options_init(&options);
    options.log = log_keep;
    options.keys_required = true;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    llm_receiver_handlers_init(&handlers);
    llm_listener_handlers_init(&listening);
    listening.connect = on_connect;
    channel(text, sizeof text, "", "");
    assert_int_equal(llm_transmitter_open(context, text, NULL, NULL, &transmitter), LLM_EOPTION);
    assert_int_equal(llm_receiver_open(context, text, NULL, &handlers, &receiver), LLM_EOPTION);
    assert_int_equal(llm_listener_open(context, text, NULL, &listening, &listener), LLM_EOPTION);
    assert_int_equal(logged_count("add keys=FILE"), 3);
    channel(text, sizeof text, path[0], "");
    assert_int_equal(llm_transmitter_open(context, text, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_receiver_open(context, text, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

static void a_file_that_becomes_unusable_leaves_the_keys_in_use(void **state)
{
    (void)state;
    receiver_up(0, path[0], "");
    transmitter_up(1, path[1], "");
    send_messages(1, 0, 100);
    key_file_write(path[1], "7 2020");
    poll_for(UINT64_C(1500000000));
    send_messages(1, 100, 100);
    poll_until(&sides[0].delivered, 200);
    assert_int_equal(logged_count("the keys read before stay in use"), 1);
}

static void nothing_is_sent_when_no_epoch_is_valid(void **state)
{
    uint64_t sent;

    (void)state;
    receiver_up(0, path[0], "");
    transmitter_up(1, path[1], "");
    send_messages(1, 0, SHORT);
    poll_until(&sides[0].delivered, SHORT);
    key_file_write(path[1], "7 2020-01-01 2020-01-02 aes-128-gcm " KEY_A " keys:1\n");
    poll_for(UINT64_C(1500000000));
    assert_int_equal(logged_count("nothing is sent until an epoch is valid"), 1);
    sent = counter_of(sides[1].context, "packets_data");
    send_messages(1, SHORT, 10);
    poll_for(UINT64_C(300000000));
    assert_int_equal(sides[0].delivered, SHORT);
    assert_int_equal(counter_of(sides[1].context, "packets_data"), sent);
    assert_true(counter_of(sides[1].context, "packets_keyless") > 0);
    /* It tries again, and not at once: whoever waits sleeps. */
    assert_true(llm_context_deadline(sides[1].context) > 0);
    key_file_write(path[1], KEY_EPOCH(7, "aes-128-gcm", KEY_A, "keys:1"));
    poll_until(&sides[0].delivered, SHORT + 10);
    assert_int_equal(sides[0].wrong + sides[0].lost, 0);
}

static int post_none(void *instance, const struct lli_out *packets, int count)
{
    (void)instance;
    (void)packets;
    (void)count;
    return 0;
}

static void a_packet_that_was_protected_and_not_taken_is_sent_later(void **state)
{
    struct lli_endpoint *endpoint;
    const struct lli_transport *transport;
    struct lli_transport full;

    (void)state;
    receiver_up(0, path[0], "");
    transmitter_up(1, path[1], "");
    send_messages(1, 0, SHORT);
    poll_until(&sides[0].delivered, SHORT);
    endpoint = sides[1].transmitter->endpoint;
    transport = endpoint->transport;
    full = *transport;
    full.post = post_none;
    endpoint->transport = &full;
    send_messages(1, SHORT, 1);
    endpoint->transport = transport;
    assert_int_equal(sides[1].transmitter->tx.sent + 1, sides[1].transmitter->tx.history.next);
    poll_until(&sides[0].delivered, SHORT + 1);
    assert_int_equal(sides[0].wrong + sides[0].lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(statistics_have_the_epoch_with_its_times, up, down),
        cmocka_unit_test_setup_teardown(messages_arrive_with_the_keys_of_every_suite_and_mode, up, down),
        cmocka_unit_test_setup_teardown(a_receiver_without_keys_reports_that_once, up, down),
        cmocka_unit_test_setup_teardown(a_receiver_with_keys_drops_and_reports_what_is_in_clear, up, down),
        cmocka_unit_test_setup_teardown(another_key_of_the_epoch_opens_nothing, up, down),
        cmocka_unit_test_setup_teardown(another_epoch_or_mode_is_named, up, down),
        cmocka_unit_test_setup_teardown(losses_and_damage_are_repaired, up, down),
        cmocka_unit_test_setup_teardown(both_lines_of_a_channel_are_protected, up, down),
        cmocka_unit_test_setup_teardown(keys_of_a_channel_with_lines_stand_in_the_first, up, down),
        cmocka_unit_test_setup_teardown(damaged_packets_are_repaired_and_nothing_of_them_is_delivered, up,
                                        down),
        cmocka_unit_test_setup_teardown(an_epoch_changes_at_full_rate_under_loss, up, down),
        cmocka_unit_test_setup_teardown(past_messages_and_cached_ones_arrive, up, down),
        cmocka_unit_test_setup_teardown(keys_that_cannot_be_used_are_refused, up, down),
        cmocka_unit_test_setup_teardown(a_context_that_requires_keys_refuses_channels_without, up, down),
        cmocka_unit_test_setup_teardown(a_file_that_becomes_unusable_leaves_the_keys_in_use, up, down),
        cmocka_unit_test_setup_teardown(nothing_is_sent_when_no_epoch_is_valid, up, down),
        cmocka_unit_test_setup_teardown(a_packet_that_was_protected_and_not_taken_is_sent_later, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
