/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of channels with keys: what is on the disk is as on the wire, and readable with the keys of its epoch. */
#define _GNU_SOURCE
#include "key_place.h"
#include "store_joiner.h"

#include <dirent.h>

#define EPOCH_A KEY_EPOCH(7, "aes-128-gcm", KEY_A, "store:1")
#define ENDED_A "7 2020-01-01 2020-01-02 aes-128-gcm " KEY_A " store:1\n"

static char path[2][64];

static int up_with_keys(void **state)
{
    (void)up(state);
    for (int i = 0; i < 2; i++)
        (void)snprintf(path[i], sizeof path[i], "%.40s/%d.keys", "/tmp", (int)getpid() * 2 + i);
    key_file_write(path[0], EPOCH_A);
    (void)snprintf(always, sizeof always, "&keys=%s", path[0]);
    return 0;
}

static int down_with_keys(void **state)
{
    if (other != NULL)
        assert_int_equal(llm_context_close(&other), LLM_OK);
    always[0] = '\0';
    for (int i = 0; i < 2; i++)
        (void)unlink(path[i]);
    return down(state);
}

/* ------------------------------------------------------------------------------------------------- replay */

static struct {
    uint64_t next;
    uint64_t first;
    uint64_t gaps;
    enum llm_reason end;
    uint64_t unnamed; /* messages without their topic's name */
    int nameless;
} played;

static void on_played(void *arg, const struct llm_message *message)
{
    static uint8_t expected[32768];

    (void)arg;
    played.unnamed += message->topic[0] != 't' || message->topic[1] != (char)('0' + message->number % 3);
    assert_int_equal(message->number, played.next++);
    assert_int_equal(message->size, message_size(message->number));
    message_fill(message->number, expected);
    assert_memory_equal(message->data, expected, message->size);
}

static void on_played_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_SESSION_NEW)
        played.first = played.next = event->first;
    if (event->kind == LLM_EVENT_SESSION_END)
        played.end = event->reason;
    played.gaps += event->kind == LLM_EVENT_GAP;
}

/* Counts warnings that names of topics cannot be opened. */
static void on_played_log(void *arg, enum llm_level level, const char *text)
{
    played.nameless += strstr(text, "names of topics are protected by a key of epoch 7") != NULL;
    log_keep(arg, level, text);
}

/* Replays what a replay chooses until it ends or fails. Returns its last result. */
static int play(struct llm_replay_options *chosen, const char *keys)
{
    struct llm_receiver_handlers handlers;
    struct llm_replay *replay;
    int result;

    memset(&played, 0, sizeof played);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_played;
    handlers.event = on_played_event;
    chosen->keys = keys;
    result = llm_replay_open(directory, chosen, &handlers, on_played_log, NULL, &replay);
    if (result != LLM_OK)
        return result;
    while ((result = llm_replay_next(replay, 100)) > 0)
        ;
    assert_int_equal(llm_replay_close(&replay), LLM_OK);
    return result;
}

static void expect_played(uint64_t first, uint64_t next, const char *keys)
{
    struct llm_replay_options chosen;

    llm_replay_options_init(&chosen);
    assert_int_equal(play(&chosen, keys), 0);
    assert_int_equal(played.first, first);
    assert_int_equal(played.next, next);
    assert_int_equal(played.gaps, 0);
}

static void expect_refused(const char *keys, const char *says)
{
    struct llm_replay_options chosen;

    llm_replay_options_init(&chosen);
    logged[0] = '\0';
    assert_int_equal(play(&chosen, keys), LLM_EACCESS);
    assert_int_equal(played.next, 0);
    expect_logged(says);
}

/* Counts where bytes are in the files of the directory. */
static int found_in_files(const char *bytes)
{
    char command[256];
    FILE *pipe;
    int count = -1;

    (void)snprintf(command, sizeof command, "grep -rlaF '%s' %s | wc -l", bytes, directory);
    pipe = popen(command, "re");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    (void)pclose(pipe);
    return count;
}

static void record_some(const char *further, uint64_t count)
{
    acknowledged = 0;
    transmitter_up_with(further);
    send_some(count);
    await_acknowledged(count);
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
}

/* -------------------------------------------------------------------------------------------------- tests */

static void recordings_are_ciphertext_that_the_keys_open(void **state)
{
    static const char secret[] = "abcdefghijklmnopqrstuvwxyz";

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(2000);
    for (int i = 0; i < 64; i++)
        while (llm_send(topics[0], secret, sizeof secret, 0) == LLM_EAGAIN)
            (void)llm_poll(context);
    await_acknowledged(2064);
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_int_equal(found_in_files(secret), 0);
    assert_int_equal(found_in_files("llmblock"), 1);
}

/* They are at the beginning of the second segment. */
static void names_of_topics_are_ciphertext_too(void **state)
{
    enum { COUNT = 13000 };
    static const char secret[] = "zyxwvutsrqponmlkjihgfedcba";
    struct llm_replay_options chosen;
    struct llm_topic *topic;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    assert_int_equal(llm_topic_open(transmitter, secret, 0, &topic), LLM_OK);
    send_some(COUNT);
    await_acknowledged(COUNT);
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_int_equal(found_in_files("llmsegmt"), 2);
    assert_int_equal(found_in_files(secret), 0);
    llm_replay_options_init(&chosen);
    chosen.from = LLM_JOIN_NUMBER;
    chosen.value = COUNT - 100;
    assert_int_equal(play(&chosen, path[0]), 0);
    assert_int_equal(played.next - played.first, 100);
    assert_int_equal(played.unnamed, 0);
    key_file_write(path[1], KEY_EPOCH(8, "aes-128-gcm", KEY_A, "store:1"));
    assert_int_equal(play(&chosen, path[1]), LLM_EACCESS);
    assert_int_equal(played.nameless, 1);
}

static void an_ended_epoch_is_readable_and_nothing_without_its_key(void **state)
{
    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    record_some("", 2000);
    /* The store opens nothing: it has the bytes of the wire. */
    assert_int_equal(counter_of(context, "packets_forged"), 0);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    expect_played(0, 2000, path[0]);
    key_file_write(path[0], ENDED_A);
    expect_played(0, 2000, path[0]);
    expect_refused(NULL, "epoch 7: give the key file");
    key_file_write(path[1], KEY_EPOCH(8, "aes-128-gcm", KEY_A, "store:1"));
    expect_refused(path[1], "does not have that epoch");
    key_file_write(path[1], KEY_EPOCH(7, "aes-128-gcm", KEY_B, "store:1"));
    expect_refused(path[1], "another key of that number");
    assert_int_equal(unlink(path[1]), 0);
}

/* The last messages are of an epoch that the file does not have. */
static void a_replay_needs_only_the_epochs_of_what_it_delivers(void **state)
{
    struct llm_replay_options chosen;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    acknowledged = 0;
    transmitter_up();
    send_some(1000);
    await_acknowledged(1000);
    key_file_write(path[0], "9 2020-01-03 2999-01-01 aes-256-gcm " KEY_B " store:1\n" EPOCH_A);
    for (const uint64_t end = llm_clock() + 2200000000; llm_clock() < end;)
        (void)llm_wait(context, 10000000);
    send_some(1000);
    await_acknowledged(2000);
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    expect_played(0, 2000, path[0]);
    key_file_write(path[1], KEY_EPOCH(9, "aes-256-gcm", KEY_B, "store:1"));
    expect_refused(path[1], "epoch 7: the key file does not have that epoch");
    llm_replay_options_init(&chosen);
    chosen.from = LLM_JOIN_NUMBER;
    chosen.value = 1100;
    assert_int_equal(play(&chosen, path[1]), 0);
    assert_int_equal(played.first, 1100);
    assert_int_equal(played.next, 2000);
    chosen.value = 900;
    assert_int_equal(play(&chosen, path[1]), LLM_EACCESS);
    chosen.from = LLM_JOIN_MESSAGES;
    chosen.value = 500;
    assert_int_equal(play(&chosen, path[1]), 0);
    assert_int_equal(played.first, 1500);
    assert_int_equal(played.next, 2000);
    key_file_write(path[1], ENDED_A);
    assert_int_equal(play(&chosen, path[1]), LLM_EACCESS);
    llm_replay_options_init(&chosen);
    chosen.until_number = 900;
    assert_int_equal(play(&chosen, path[1]), 0);
    assert_int_equal(played.next, 900);
    chosen.until_number = UINT64_MAX;
    assert_int_equal(play(&chosen, path[1]), LLM_EACCESS);
    assert_int_equal(played.next, 1000);
}

/* The second store finds where the first one stopped, in the middle of a message that spans packets. */
static void a_store_that_is_opened_again_continues_a_protected_recording(void **state)
{
    static const char *const modes[] = {"", "&keys_mode=authenticate"};

    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        (void)snprintf(always, sizeof always, "&keys=%s%s", path[0], modes[mode]);
        acknowledged = 0;
        assert_int_equal(store_up_in(context), LLM_OK);
        transmitter_up();
        for (int i = 0; i < 6; i++) {
            send_some(400 + (uint64_t)i);
            assert_int_equal(llm_store_close(&store), LLM_OK);
            send_some(3);
            assert_int_equal(store_up_in(context), LLM_OK);
        }
        send_some(100);
        await_acknowledged(llm_transmitter_next(transmitter));
        assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
        assert_int_equal(llm_store_close(&store), LLM_OK);
        {
            struct llm_replay_options chosen;

            llm_replay_options_init(&chosen);
            chosen.session = session;
            assert_int_equal(play(&chosen, path[0]), 0);
            assert_int_equal(played.next, 6 * 403 + 15 + 100);
            assert_int_equal(played.gaps, 0);
        }
    }
}

/* The key file lost the epoch of the end meanwhile: recording goes on, and what cannot be counted is named. */
static void a_store_without_the_key_of_its_end_goes_on_recording(void **state)
{
    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up();
    send_some(500);
    await_acknowledged(500);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    key_file_write(path[0], KEY_EPOCH(8, "aes-128-gcm", KEY_B, "store:1"));
    for (const uint64_t end = llm_clock() + 1200000000; llm_clock() < end;)
        (void)llm_wait(context, 10000000);
    assert_int_equal(store_up_in(context), LLM_OK);
    send_some(500);
    await_acknowledged(1000);
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    key_file_write(path[0], EPOCH_A KEY_EPOCH(8, "aes-128-gcm", KEY_B, "store:1"));
    expect_played(0, 1000, path[0]);
}

static void a_late_joiner_gets_the_recorded_ciphertext(void **state)
{
    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up_with(SMALL);
    send_past(5000);
    receiver_up(SMALL "&join=oldest");
    expect_whole(0);
    assert_int_equal(counter_of(other, "packets_forged"), 0);
    assert_int_equal(counter_of(other, "packets_other_keys"), 0);
}

/* Packets of an epoch that has ended are not sent, as no receiver opens them. */
static void a_joiner_is_told_that_packets_of_an_ended_epoch_are_gone(void **state)
{
    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    transmitter_up_with(SMALL);
    send_past(3000);
    key_file_write(path[0], "9 2020-01-03 2999-01-01 aes-256-gcm " KEY_B " store:1\n" ENDED_A);
    for (const uint64_t end = llm_clock() + 1200000000; llm_clock() < end;)
        (void)llm_wait(context, 10000000);
    send_some(3000);
    await_acknowledged(6000);
    receiver_up(SMALL "&join=oldest");
    await_next(6000);
    assert_int_equal(got.first, 0);
    assert_int_equal(got.gaps, 1);
    assert_int_equal(got.gap.first, 0);
    assert_in_range(got.gap.last, 2990, 3010);
    assert_int_equal(counter_of(other, "packets_other_keys"), 0);
}

static void a_stream_continues_only_if_its_end_can_be_opened(void **state)
{
    struct llm_options stream;

    (void)state;
    assert_int_equal(store_up_in(context), LLM_OK);
    record_some("&stream=orders", 700);
    llm_options_init(&stream);
    strcpy(stream.stream, "orders");
    assert_int_equal(llm_store_ask(context, channel(""), &stream, 1, UINT64_C(60000000000)), 1);
    assert_int_equal(stream.stream_base, 700);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    stream.stream_base = 3;
    assert_int_equal(llm_replay_continue(directory, &stream, log_keep, NULL), LLM_EACCESS);
    expect_logged("epoch 7: give the key file");
    assert_int_equal(stream.stream_base, 3);
    strcpy(stream.keys, path[0]);
    assert_int_equal(llm_replay_continue(directory, &stream, log_keep, NULL), 1);
    assert_int_equal(stream.stream_base, 700);
    assert_int_equal(stream.stream_term, 1);
}

static void keys_of_a_store_that_cannot_be_used_are_refused(void **state)
{
    (void)state;
    key_file_write(path[0], ENDED_A);
    assert_int_equal(store_up_in(context), LLM_EACCESS);
    expect_logged("ended at 2020-01-02");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, up_with_keys, down_with_keys)
        TEST(recordings_are_ciphertext_that_the_keys_open),
        TEST(names_of_topics_are_ciphertext_too),
        TEST(an_ended_epoch_is_readable_and_nothing_without_its_key),
        TEST(a_replay_needs_only_the_epochs_of_what_it_delivers),
        TEST(a_store_that_is_opened_again_continues_a_protected_recording),
        TEST(a_store_without_the_key_of_its_end_goes_on_recording),
        TEST(a_late_joiner_gets_the_recorded_ciphertext),
        TEST(a_joiner_is_told_that_packets_of_an_ended_epoch_are_gone),
        TEST(a_stream_continues_only_if_its_end_can_be_opened),
        TEST(keys_of_a_store_that_cannot_be_used_are_refused),
#undef TEST
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
