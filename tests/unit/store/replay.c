/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "directory.h"

#include "core/stream/stream.h"

static char path[64];
static char logged[512];

/* Calls of the handlers. */
struct got {
    const struct directory *d; /* that is being replayed; sessions come in the order of these */
    struct llm_replay *replay;
    uint64_t session;
    uint64_t next; /* number of the message that has to come next, or to be lost */
    uint64_t first;
    uint64_t messages; /* delivered */
    uint64_t lost;
    uint64_t lost_to_damage;
    uint32_t sessions;
    uint32_t topics;
    uint32_t ends;
    enum llm_reason reason; /* of the last end */
    enum llm_reason gap;    /* of the last gap with messages */
    bool in_session;
    bool refuses_orders;
    uint32_t batches;
};

static void got_message(void *arg, const struct llm_message *message)
{
    struct got *got = arg;
    const struct directory_message *model = got->d->message + message->number;
    struct llm_attributes attributes;

    assert_true(got->in_session);
    assert_int_equal(message->session, got->d->session);
    if (got->refuses_orders)
        while (got->next < message->number && got->d->message[got->next].topic == 2)
            got->next++;
    if (message->number != got->next)
        fail_msg("message %llu, not %llu", (unsigned long long)message->number,
                 (unsigned long long)got->next);
    got->next++;
    got->messages++;
    assert_int_equal(message->size, model->size);
    pattern_check(message->data, message->size, message->number);
    assert_int_equal(message->topic_id, model->topic);
    assert_string_equal(message->topic, directory_topics[model->topic]);
    assert_true(message->received_at >= 1000000000 && message->received_at <= got->d->wall);
    llm_attributes_init(&attributes);
    assert_int_equal(llm_replay_attributes(got->replay, message, &attributes), LLM_OK);
    assert_int_equal(attributes.label, model->label);
    assert_int_equal(attributes.bitmap_bits, 0);
    assert_int_equal(attributes.properties_count, 0);
}

static void got_messages(void *arg, const struct llm_message *messages, int count)
{
    assert_true(count > 0);
    ((struct got *)arg)->batches++;
    for (int i = 0; i < count; i++)
        got_message(arg, messages + i);
}

static void got_gap(struct got *got, const struct llm_event *event)
{
    assert_true(got->in_session);
    if (got->refuses_orders)
        while (got->next < event->first && got->d->message[got->next].topic == 2)
            got->next++;
    assert_int_equal(event->first, got->next);
    assert_true(event->last + 1 >= event->first);
    got->next = event->last + 1;
    got->lost += event->last + 1 - event->first;
    if (event->last + 1 > event->first)
        got->gap = event->reason;
    if (event->reason == LLM_REASON_DAMAGED)
        got->lost_to_damage += event->last + 1 - event->first;
}

static void got_event(void *arg, const struct llm_event *event)
{
    struct got *got = arg;

    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        assert_false(got->in_session);
        got->in_session = true;
        if (got->sessions++ > 0)
            got->d++;
        got->first = got->next = event->first;
        break;
    case LLM_EVENT_TOPIC_NEW:
        assert_true(got->in_session);
        assert_string_equal(event->topic, directory_topics[event->topic_id]);
        got->topics++;
        break;
    case LLM_EVENT_GAP:
        got_gap(got, event);
        break;
    case LLM_EVENT_SESSION_END:
        assert_true(got->in_session);
        got->in_session = false;
        got->ends++;
        got->reason = event->reason;
        if (!got->refuses_orders)
            assert_int_equal(event->first, got->next);
        break;
    default:
        fail_msg("event %d", (int)event->kind);
    }
    assert_int_equal(event->session, got->d->session);
}

static bool got_accept(void *arg, const struct llm_source *source)
{
    const struct got *got = arg;

    return source->topic == NULL || !got->refuses_orders || strcmp(source->topic, "orders") != 0;
}

/* Replays all into *got, whose d is set. Returns the error at which it stopped, or LLM_OK. */
static int replay(struct got *got, const struct llm_replay_options *options, int packets)
{
    struct llm_receiver_handlers handlers;
    int delivered;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = got;
    handlers.event = got_event;
    handlers.accept = got_accept;
    if (packets % 2 == 0)
        handlers.messages = got_messages;
    else
        handlers.message = got_message;
    assert_int_equal(llm_replay_open(path, options, &handlers, directory_quiet, logged, &got->replay),
                     LLM_OK);
    do
        delivered = llm_replay_next(got->replay, packets);
    while (delivered > 0);
    assert_int_equal(llm_replay_close(&got->replay), LLM_OK);
    assert_null(got->replay);
    return delivered;
}

static void make(struct directory *d, uint64_t seed, uint32_t segments, bool gaps, bool failures, bool ends)
{
    directory_make_path(path);
    directory_begin(d, path, DIRECTORY_SESSION, seed, seed % 3 == 0 ? 9000 : 1472);
    directory_fill(d, segments, seed % 2 == 0, gaps, failures);
    directory_finish(d, ends);
    logged[0] = '\0';
}

static void unmake(struct directory *d)
{
    directory_end(d);
    directory_remove(path);
}

/* Messages in [first, end) that were recorded whole. */
static uint64_t recorded(const struct directory *d, uint64_t first, uint64_t end)
{
    uint64_t count = 0;

    for (uint64_t number = first; number < end; number++)
        count += directory_has(d, number, d->taken);
    return count;
}

/* Number of the first message that starts in the recording. */
static uint64_t oldest(const struct directory *d)
{
    return d->number[d->recorded_from];
}

static void a_whole_recording_is_delivered_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const bool ends = seed % 2 == 0;
        struct directory d;
        struct got got = {.d = &d};

        make(&d, seed, 4, seed % 4 > 1, seed > 7, ends);
        assert_int_equal(replay(&got, NULL, 1 + (int)seed * 3), 0);
        assert_int_equal(got.first, oldest(&d));
        assert_int_equal(got.next, d.messages);
        assert_int_equal(got.messages, recorded(&d, 0, d.messages));
        assert_int_equal(got.messages + got.lost, d.messages - oldest(&d));
        assert_int_equal(got.sessions, 1);
        assert_int_equal(got.topics, d.topics);
        assert_int_equal(got.ends, 1);
        assert_int_equal(got.reason, ends ? LLM_REASON_CLOSED : LLM_REASON_ABANDONED);
        if (got.lost > 0)
            assert_int_equal(got.gap, LLM_REASON_GONE);
        assert_string_equal(logged, "");
        unmake(&d);
    }
}

static void replay_begins_and_ends_at_message_numbers(void **state)
{
    (void)state;
    for (uint64_t seed = 30; seed < 36; seed++) {
        struct llm_replay_options options;
        struct directory d;

        make(&d, seed, 4, true, seed % 2 == 0, true);
        for (int i = 0; i < 15; i++) {
            struct got got = {.d = &d};

            llm_replay_options_init(&options);
            options.from = LLM_JOIN_NUMBER;
            options.value = below(&d.random, (uint32_t)d.messages + 30);
            options.until_number = options.value + below(&d.random, 3000);
            assert_int_equal(replay(&got, &options, 7), 0);
            assert_int_equal(got.sessions, 1);
            assert_int_equal(got.ends, 1);
            if (options.value < d.messages)
                assert_int_equal(got.first, lli_max(options.value, oldest(&d)));
            assert_int_equal(got.messages, recorded(&d, lli_min(options.value, d.messages),
                                                    lli_min(options.until_number, d.messages)));
            if (options.until_number < d.messages && options.until_number > oldest(&d))
                assert_int_equal(got.reason, LLM_REASON_NONE);
        }
        for (int i = 0; i < 5; i++) {
            struct got got = {.d = &d};

            llm_replay_options_init(&options);
            options.from = LLM_JOIN_MESSAGES;
            options.value = i == 0 ? UINT64_MAX : below(&d.random, (uint32_t)d.messages);
            assert_int_equal(replay(&got, &options, 100), 0);
            assert_int_equal(got.first, lli_max(d.messages - lli_min(options.value, d.messages), oldest(&d)));
            assert_int_equal(got.next, d.messages);
        }
        unmake(&d);
    }
}

/* The first message that is complete in a block of this time or later. */
static uint64_t first_at(const struct directory *d, lli_ns wall)
{
    for (uint32_t i = 0; i < d->blocks; i++)
        if (d->block[i].block.wall >= wall && d->block[i].block.message != LLI_BLOCK_UNNUMBERED)
            return lli_max(directory_complete_before(d, d->block[i].block.packet), oldest(d));
    return d->messages;
}

static void skipped_numbers_are_gaps(void **state)
{
    (void)state;
    for (uint64_t seed = 40; seed < 44; seed++) {
        struct llm_replay_options options;
        struct directory d;
        struct got whole = {.d = &d};

        directory_make_path(path);
        directory_begin(&d, path, DIRECTORY_SESSION, seed, 1472);
        d.skips = true;
        directory_fill(&d, 3, false, false, false);
        directory_finish(&d, true);
        assert_int_equal(replay(&whole, NULL, 5), 0);
        assert_int_equal(whole.next, d.messages);
        assert_int_equal(whole.messages, recorded(&d, 0, d.messages));
        assert_int_equal(whole.messages + whole.lost, d.messages);
        assert_true(whole.lost > 100);
        assert_int_equal(whole.gap, LLM_REASON_SKIPPED);
        /* Many of these numbers were skipped. */
        for (int i = 0; i < 30; i++) {
            struct got got = {.d = &d};

            llm_replay_options_init(&options);
            options.from = LLM_JOIN_NUMBER;
            options.value = below(&d.random, (uint32_t)d.messages);
            options.until_number = lli_min(options.value + 1 + below(&d.random, 500), d.messages);
            assert_int_equal(replay(&got, &options, 7), 0);
            assert_int_equal(got.first, options.value);
            assert_int_equal(got.next, options.until_number);
            assert_int_equal(got.messages, recorded(&d, options.value, options.until_number));
        }
        unmake(&d);
    }
}

static void replay_begins_and_ends_at_times(void **state)
{
    (void)state;
    for (uint64_t seed = 40; seed < 46; seed++) {
        struct directory d;

        make(&d, seed, 4, true, seed % 2 == 0, seed % 3 == 0);
        for (int i = 0; i < 25; i++) {
            struct llm_replay_options options;
            struct got got = {.d = &d};
            const lli_ns begin = d.block[0].block.wall;
            uint64_t first, end;

            llm_replay_options_init(&options);
            options.from = LLM_JOIN_TIME;
            options.value = begin - 5 + below(&d.random, (uint32_t)(d.wall - begin) + 100);
            options.until_realtime = options.value + below(&d.random, 30000);
            first = first_at(&d, options.value);
            end = first_at(&d, options.until_realtime);
            assert_int_equal(replay(&got, &options, 50), 0);
            assert_int_equal(got.sessions, 1);
            assert_int_equal(got.ends, 1);
            /* A loss is not counted before it shows. */
            if (got.messages != recorded(&d, first, lli_max(first, end)))
                fail_msg("%llu messages, not %llu, from %llu to %llu", (unsigned long long)got.messages,
                         (unsigned long long)recorded(&d, first, end), (unsigned long long)first,
                         (unsigned long long)end);
        }
        unmake(&d);
    }
}

static void refused_topics_are_left_out(void **state)
{
    struct directory d;
    struct got got = {.d = &d, .refuses_orders = true};
    uint64_t wanted = 0;

    (void)state;
    make(&d, 50, 2, true, false, true);
    for (uint64_t number = 0; number < d.messages; number++)
        wanted += directory_has(&d, number, d.taken) && d.message[number].topic != 2;
    assert_int_equal(replay(&got, NULL, 64), 0);
    assert_int_equal(got.messages, wanted);
    assert_int_equal(got.topics, d.topics - 1);
    unmake(&d);
}

static void sessions_are_replayed_as_they_began(void **state)
{
    struct directory d[3];
    struct llm_receiver_handlers handlers;
    struct llm_replay_options options;
    struct got got = {.d = d};

    (void)state;
    llm_receiver_handlers_init(&handlers);
    directory_make_path(path);
    for (uint64_t i = 0; i < 3; i++) {
        directory_begin(d + i, path, 90 - i, 60 + i, 1472);
        d[i].wall += i * 100000000;
        directory_fill(d + i, 1 + (uint32_t)i, false, true, false);
        directory_finish(d + i, true);
    }
    assert_int_equal(replay(&got, NULL, 200), 0);
    assert_int_equal(got.sessions, 3);
    assert_int_equal(got.ends, 3);
    llm_replay_options_init(&options);
    options.session = 89;
    options.channel = DIRECTORY_CHANNEL;
    got = (struct got){.d = d + 1};
    assert_int_equal(replay(&got, &options, 200), 0);
    assert_int_equal(got.sessions, 1);
    assert_int_equal(got.messages, recorded(d + 1, 0, d[1].messages));
    assert_string_equal(logged, "");
    options.channel = "udp://239.1.1.1:1";
    assert_int_equal(llm_replay_open(path, &options, &handlers, directory_quiet, logged, &got.replay),
                     LLM_ENOTFOUND);
    assert_non_null(strstr(logged, "no session 0000000000000059 of channel udp://239.1.1.1:1"));
    options.session = 0;
    assert_int_equal(llm_replay_open(path, &options, &handlers, directory_quiet, logged, &got.replay),
                     LLM_ENOTFOUND);
    for (uint64_t i = 0; i < 3; i++)
        directory_end(d + i);
    directory_remove(path);
}

static void damage_is_an_error_or_a_gap(void **state)
{
    (void)state;
    for (uint64_t seed = 70; seed < 80; seed++) {
        struct llm_replay_options options;
        struct directory d;
        struct got got = {.d = &d};
        const struct directory_block *hurt;
        char file[128];
        uint8_t byte = 0;
        int fd;

        make(&d, seed, 3, true, seed % 2 == 0, true);
        /* Without names, of which there is no second copy. */
        do
            hurt = d.block + below(&d.random, d.blocks - 5);
        while (hurt->block.message == LLI_BLOCK_UNNUMBERED || hurt == d.block);
        for (uint32_t topic = 0; topic < d.topics; topic++)
            if (d.announced[topic] >= hurt->block.packet && d.announced[topic] < hurt->next)
                hurt = d.block + 1;
        directory_file(&d, hurt->segment, "segment", file);
        fd = open(file, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, (off_t)hurt->offset + 100), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)hurt->offset + 100), 1);
        close(fd);
        llm_replay_options_init(&options);
        options.skip_damage = true;
        assert_int_equal(replay(&got, &options, 10), 0);
        assert_int_equal(got.next, d.messages);
        assert_int_equal(got.messages + got.lost, d.messages - oldest(&d));
        assert_true(hurt->next == hurt->block.packet || d.dropped[hurt->block.packet] ||
                    got.lost_to_damage > 0);
        assert_non_null(strstr(logged, "damaged"));
        got = (struct got){.d = &d};
        options.skip_damage = false;
        assert_int_equal(replay(&got, &options, 10), LLM_EDAMAGED);
        unmake(&d);
    }
}

static void a_directory_that_goes_away_ends_the_replay(void **state)
{
    struct directory d;
    struct got got = {.d = &d};
    struct llm_receiver_handlers handlers;
    int delivered;

    (void)state;
    make(&d, 81, 3, false, false, true);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = &got;
    handlers.event = got_event;
    handlers.message = got_message;
    assert_int_equal(llm_replay_open(path, NULL, &handlers, directory_quiet, logged, &got.replay), LLM_OK);
    assert_true(llm_replay_next(got.replay, 5) > 0);
    directory_remove(path);
    do
        delivered = llm_replay_next(got.replay, 100);
    while (delivered > 0);
    assert_int_equal(delivered, LLM_ENOTFOUND);
    assert_int_equal(llm_replay_next(got.replay, 100), 1);
    assert_int_equal(got.reason, LLM_REASON_DAMAGED);
    assert_int_equal(llm_replay_next(got.replay, 100), 0);
    assert_int_equal(llm_replay_close(&got.replay), LLM_OK);
    unmake(&d);
}

struct list {
    const struct directory *d;
    uint32_t count;
};

static void list_check(void *arg, const struct llm_recording *recording)
{
    struct list *list = arg;
    const struct directory *d = list->d + list->count++;
    lli_seq segment = UINT64_MAX;
    uint32_t segments = 0;

    for (uint32_t i = 0; i < d->blocks; i++) {
        segments += d->block[i].segment != segment;
        segment = d->block[i].segment;
    }
    assert_int_equal(recording->size, sizeof *recording);
    assert_int_equal(recording->session, d->session);
    assert_string_equal(recording->channel, DIRECTORY_CHANNEL);
    assert_int_equal(recording->packet_first, d->recorded_from);
    assert_int_equal(recording->packet_next, d->taken);
    assert_int_equal(recording->message_first, oldest(d));
    assert_int_equal(recording->message_next, d->messages);
    assert_int_equal(recording->realtime_last, d->block[d->blocks - 1].block.wall);
    assert_true(recording->realtime_first <= d->block[0].block.wall);
    assert_int_equal(recording->segments, segments);
    assert_int_equal(recording->bytes, (uint64_t)segments * DIRECTORY_SEGMENT);
    assert_int_equal(recording->ended, d->ended);
    assert_int_equal(recording->reason, d->ended ? LLM_REASON_CLOSED : LLM_REASON_NONE);
}

static void recordings_are_listed_as_they_began(void **state)
{
    struct directory d[4];
    struct list list = {.d = d};

    (void)state;
    directory_make_path(path);
    assert_int_equal(llm_replay_recordings(path, list_check, &list, directory_quiet, logged), 0);
    for (uint64_t i = 0; i < 4; i++) {
        directory_begin(d + i, path, 90 - i, 85 + i, 1472);
        d[i].wall += i * 100000000;
        directory_fill(d + i, 1 + (uint32_t)i, i % 2 == 0, true, i > 1);
        directory_finish(d + i, i != 2);
    }
    assert_int_equal(llm_replay_recordings(path, list_check, &list, directory_quiet, logged), 4);
    assert_int_equal(list.count, 4);
    for (uint64_t i = 0; i < 4; i++)
        directory_end(d + i);
    directory_remove(path);
}

/* -------------------------------------------------------------------------------------------- streams */

/* Makes the recording of a session of a stream; returns the number of its messages. */
static uint64_t life(uint64_t number, const char *stream, uint64_t base, uint32_t term)
{
    struct directory d;
    uint64_t messages;

    directory_begin(&d, path, 70 + number, 60 + number, 1472);
    d.stream = (struct lli_segment_stream){.id = lli_stream_id(stream), .base = base, .term = term};
    directory_fill(&d, 1, true, false, false);
    directory_finish(&d, number % 2 == 0);
    messages = d.messages;
    directory_end(&d);
    return messages;
}

static void expect_continued(const char *stream, int sessions, uint64_t base, uint32_t term)
{
    struct llm_options options;

    llm_options_init(&options);
    (void)snprintf(options.stream, sizeof options.stream, "%s", stream);
    options.stream_base = 77;
    options.stream_term = 77;
    assert_int_equal(llm_replay_continue(path, &options, directory_quiet, logged), sessions);
    assert_int_equal(options.stream_base, base);
    assert_int_equal(options.stream_term, term);
}

static void a_stream_goes_on_where_its_highest_term_ends(void **state)
{
    struct llm_options options;
    uint64_t orders, trades;

    (void)state;
    directory_make_path(path);
    expect_continued("orders", 0, 0, 0);
    orders = life(0, "orders", 1000, 3);
    expect_continued("orders", 1, 1000 + orders, 4);
    expect_continued("trades", 0, 0, 0);
    trades = life(1, "trades", 0, 0);
    expect_continued("trades", 1, trades, 1);
    /* A lower term does not count, however far it is; of an equal one the farthest does. */
    (void)life(2, "orders", UINT64_C(1) << 40, 2);
    expect_continued("orders", 2, 1000 + orders, 4);
    orders = 5000 + life(3, "orders", 5000, 3);
    expect_continued("orders", 3, orders, 4);
    (void)life(4, "orders", 10, 3);
    expect_continued("orders", 4, orders, 4);
    expect_continued("trades", 1, trades, 1);
    /* The end of all numbers. */
    (void)life(5, "orders", 0, UINT32_MAX);
    (void)life(6, "trades", UINT64_C(1) << 62, 2);
    for (int i = 0; i < 2; i++) {
        llm_options_init(&options);
        (void)snprintf(options.stream, sizeof options.stream, "%s", i == 0 ? "orders" : "trades");
        options.stream_base = 77;
        logged[0] = '\0';
        assert_int_equal(llm_replay_continue(path, &options, directory_quiet, logged), LLM_ELIMIT);
        assert_non_null(strstr(logged, options.stream));
        assert_int_equal(options.stream_base, 77);
    }
    directory_remove(path);
}

/* ------------------------------------------------------------------------------------------- refusals */

static void close_inside(void *arg, const struct llm_message *message)
{
    struct got *got = arg;

    (void)message;
    assert_int_equal(llm_replay_next(got->replay, 1), LLM_ESTATE);
    assert_int_equal(llm_replay_close(&got->replay), LLM_ESTATE);
    got->messages++;
}

static void handlers_cannot_call_back_and_events_are_logged(void **state)
{
    struct llm_receiver_handlers handlers;
    struct llm_message other = {.number = 3};
    struct llm_attributes attributes;
    struct directory d;
    struct got got = {.d = &d};

    (void)state;
    make(&d, 87, 1, true, false, true);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = &got;
    handlers.message = close_inside;
    assert_int_equal(llm_replay_open(path, NULL, &handlers, directory_quiet, logged, &got.replay), LLM_OK);
    assert_true(llm_replay_next(got.replay, 20) > 0);
    assert_true(got.messages > 0);
    llm_attributes_init(&attributes);
    assert_int_equal(llm_replay_attributes(got.replay, &other, &attributes), LLM_EINVAL);
    assert_non_null(strstr(logged, "message 3 is not one"));
    assert_int_equal(llm_replay_close(&got.replay), LLM_OK);
    /* All are dropped without a handler. */
    llm_receiver_handlers_init(&handlers);
    assert_int_equal(llm_replay_open(path, NULL, &handlers, directory_quiet, logged, &got.replay), LLM_OK);
    while (llm_replay_next(got.replay, 1000) > 0)
        ;
    assert_int_equal(llm_replay_close(&got.replay), LLM_OK);
    unmake(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_recording_is_delivered_in_order),
        cmocka_unit_test(replay_begins_and_ends_at_message_numbers),
        cmocka_unit_test(skipped_numbers_are_gaps),
        cmocka_unit_test(replay_begins_and_ends_at_times),
        cmocka_unit_test(refused_topics_are_left_out),
        cmocka_unit_test(sessions_are_replayed_as_they_began),
        cmocka_unit_test(damage_is_an_error_or_a_gap),
        cmocka_unit_test(a_directory_that_goes_away_ends_the_replay),
        cmocka_unit_test(recordings_are_listed_as_they_began),
        cmocka_unit_test(a_stream_goes_on_where_its_highest_term_ends),
        cmocka_unit_test(handlers_cannot_call_back_and_events_are_logged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
