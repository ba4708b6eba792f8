/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of topics: in the file if enabled, correct at both ends, and bounded. */
#define _GNU_SOURCE
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <llm/llm.h>

#include "engine/objects.h"
#include "observe/stats_file.h"
#include "stat_file.h"

#define SMALL                                                                                               \
    "?history_bytes=1M&history_packets=1024&reorder_bytes=64K&sessions_max=3&message_bytes_max=64K&topics_" \
    "max=300"                                                                                               \
    "&window_packets=64&receivers_max=4&rcvbuf_bytes=1M&mtu=1500&linger_ns=0"

enum { MESSAGES = 10, SHOWN = 256 };

static char directory[128], path[512];
static struct llm_context *context;
static struct stat_snapshot snapshot;

static int up(void **state)
{
    struct llm_context_options options;

    (void)state;
    (void)snprintf(directory, sizeof directory, "/dev/shm/llm-unit-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    llm_context_options_init(&options);
    options.stats_directory = directory;
    options.stats_ns = 1000000;
    return llm_context_open(&options, &context);
}

static int down(void **state)
{
    (void)state;
    stat_free(&snapshot);
    return llm_context_close(&context) == LLM_OK ? rmdir(directory) : -1;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

static bool accept_all_but_one(void *arg, const struct llm_source *source)
{
    (void)arg;
    return source->topic == NULL || strcmp(source->topic, "refused") != 0;
}

static struct llm_transmitter *transmitter_make(const char *options)
{
    struct llm_transmitter *transmitter = NULL;
    char channel[512];

    (void)snprintf(channel, sizeof channel, "loop://topics:1" SMALL "%s", options);
    assert_int_equal(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), LLM_OK);
    return transmitter;
}

static struct llm_receiver *receiver_make(const char *options)
{
    struct llm_receiver *receiver = NULL;
    struct llm_receiver_handlers handlers;
    char channel[512];

    llm_receiver_handlers_init(&handlers);
    handlers.event = on_event;
    handlers.accept = accept_all_but_one;
    (void)snprintf(channel, sizeof channel, "loop://topics:1" SMALL "%s", options);
    assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &receiver), LLM_OK);
    return receiver;
}

static struct llm_topic *topic_make(struct llm_transmitter *transmitter, const char *name)
{
    struct llm_topic *topic = NULL;

    assert_int_equal(llm_topic_open(transmitter, name, 0, &topic), LLM_OK);
    return topic;
}

static void send(struct llm_topic *topic, int messages, size_t size)
{
    static const uint8_t data[8000];

    for (int i = 0; i < messages; i++)
        assert_int_equal(llm_send(topic, data, size, i % 2 == 0 ? LLM_SEND_MORE : LLM_SEND_NOW), LLM_OK);
}

/* Reads a table written after the call. */
static void look(void)
{
    DIR *at = opendir(directory);
    struct dirent *entry;
    int fd;

    for (int i = 0; i < 100; i++)
        (void)llm_poll(context);
    for (const uint64_t before = context->stats->writes; context->stats->writes < before + 2;)
        (void)llm_poll(context);
    while ((entry = readdir(at)) != NULL && entry->d_name[0] == '.')
        ;
    assert_non_null(entry);
    (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    closedir(at);
    stat_free(&snapshot);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(stat_read(fd, STAT_TABLE_MAX, &snapshot), STAT_OK);
    close(fd);
}

/* Returns a topic of an object of this kind, with this name; UINT32_MAX: there is none. */
static uint32_t topic_of(enum llm_stats_kind kind, uint64_t id, const char *name)
{
    for (uint32_t i = 0; i < snapshot.table.objects; i++) {
        const struct llm_stats_object *object = &snapshot.objects[i];
        const struct llm_stats_object *parent = &snapshot.objects[object->parent];

        if (object->kind == LLM_STATS_TOPIC && parent->kind == kind && parent->id == id &&
            strcmp(object->label, name) == 0)
            return i;
    }
    return UINT32_MAX;
}

static void counted(enum llm_stats_kind kind, uint64_t id, const char *name, uint64_t messages,
                    uint64_t bytes)
{
    const uint32_t topic = topic_of(kind, id, name);

    assert_int_not_equal(topic, UINT32_MAX);
    assert_int_equal(stat_value(&snapshot, topic, "topic_messages"), messages);
    assert_int_equal(stat_value(&snapshot, topic, "topic_bytes"), bytes);
}

static void messages_and_bytes_of_each_topic_are_counted_at_both_ends(void **state)
{
    struct llm_transmitter *transmitter;
    struct llm_topic *short_ones, *long_ones, *refused;
    uint64_t session;
    void *claim;

    (void)state;
    receiver_make("&topic_counters=1");
    transmitter = transmitter_make("&topic_counters=1");
    session = llm_transmitter_session(transmitter);
    short_ones = topic_make(transmitter, "short");
    refused = topic_make(transmitter, "refused");
    long_ones = topic_make(transmitter, "long");
    topic_make(transmitter, "quiet");
    send(short_ones, MESSAGES, 3);
    send(long_ones, 2 * MESSAGES, 4000);
    send(refused, 5, 100);
    send(short_ones, MESSAGES, 5);
    send(long_ones, 1, 0);
    assert_int_equal(llm_topic_claim(short_ones, 100, &claim), LLM_OK);
    assert_int_equal(llm_topic_commit(short_ones, 7, 0), LLM_OK);
    look();
    counted(LLM_STATS_TRANSMITTER, session, "short", 2 * MESSAGES + 1, MESSAGES * (3 + 5) + 7);
    counted(LLM_STATS_TRANSMITTER, session, "long", 2 * MESSAGES + 1, 2 * MESSAGES * 4000);
    counted(LLM_STATS_TRANSMITTER, session, "refused", 5, 500);
    counted(LLM_STATS_TRANSMITTER, session, "quiet", 0, 0);
    counted(LLM_STATS_SESSION, session, "short", 2 * MESSAGES + 1, MESSAGES * (3 + 5) + 7);
    counted(LLM_STATS_SESSION, session, "long", 2 * MESSAGES + 1, 2 * MESSAGES * 4000);
    counted(LLM_STATS_SESSION, session, "quiet", 0, 0);
    assert_int_equal(topic_of(LLM_STATS_SESSION, session, "refused"), UINT32_MAX);
    assert_int_equal(snapshot.table.dropped, 0);
}

static void messages_accepted_by_a_filter_are_counted(void **state)
{
    const struct llm_label_match odd = {.mask = 1, .match = 1};
    struct llm_transmitter *transmitter;
    struct llm_attributes attributes;
    struct llm_filter filter;
    struct llm_topic *px;
    static const uint8_t data[4000];
    uint64_t session;

    (void)state;
    llm_filter_init(&filter);
    filter.labels = &odd;
    filter.labels_count = 1;
    assert_int_equal(llm_receiver_filter(receiver_make("&topic_counters=1"), &filter), LLM_OK);
    transmitter = transmitter_make("&topic_counters=1");
    session = llm_transmitter_session(transmitter);
    px = topic_make(transmitter, "px");
    llm_attributes_init(&attributes);
    /* In one packet, and spanning some. */
    for (uint32_t i = 0; i < 4 * MESSAGES; i++) {
        attributes.label = i;
        assert_int_equal(llm_send_with(px, data, i < 2 * MESSAGES ? 10 : sizeof data, &attributes, 0),
                         LLM_OK);
    }
    look();
    counted(LLM_STATS_TRANSMITTER, session, "px", 4 * MESSAGES, 2 * MESSAGES * (10 + sizeof data));
    counted(LLM_STATS_SESSION, session, "px", 2 * MESSAGES, MESSAGES * (10 + sizeof data));
}

static void sessions_count_separately(void **state)
{
    struct llm_transmitter *first, *second;

    (void)state;
    receiver_make("&topic_counters=1");
    first = transmitter_make("");
    second = transmitter_make("");
    send(topic_make(first, "px"), 3, 1);
    send(topic_make(second, "px"), 4, 2);
    look();
    counted(LLM_STATS_SESSION, llm_transmitter_session(first), "px", 3, 3);
    counted(LLM_STATS_SESSION, llm_transmitter_session(second), "px", 4, 8);
    assert_int_equal(topic_of(LLM_STATS_TRANSMITTER, llm_transmitter_session(first), "px"), UINT32_MAX);
}

/* The new session reuses the place of the previous one. */
static void counts_of_a_new_session_begin_at_zero(void **state)
{
    (void)state;
    receiver_make("&topic_counters=1");
    for (int i = 0; i < 5; i++) {
        struct llm_transmitter *transmitter = transmitter_make("");

        send(topic_make(transmitter, "px"), i, 1);
        look();
        counted(LLM_STATS_SESSION, llm_transmitter_session(transmitter), "px", (uint64_t)i, (uint64_t)i);
        (void)llm_transmitter_close(&transmitter);
    }
}

static void topics_are_not_counted_without_the_option(void **state)
{
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;

    (void)state;
    receiver_make("");
    transmitter = transmitter_make("");
    topic = topic_make(transmitter, "px");
    send(topic, MESSAGES, 1);
    look();
    for (uint32_t i = 0; i < snapshot.table.objects; i++)
        assert_int_not_equal(snapshot.objects[i].kind, LLM_STATS_TOPIC);
    assert_int_equal(topic->route, LLI_ROUTE_PLAIN);
    assert_int_equal(topic->count.messages, 0);
}

static void topics_are_written_up_to_the_given_room(void **state)
{
    struct llm_transmitter *transmitter;
    uint32_t of_transmitter = 0, of_session = 0;
    char name[16];

    (void)state;
    receiver_make("&topic_counters=1");
    transmitter = transmitter_make("&topic_counters=1");
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "topic %d", i);
        send(topic_make(transmitter, name), 1, 1);
        (void)llm_poll(context);
    }
    look();
    for (uint32_t i = 0; i < snapshot.table.objects; i++) {
        const struct llm_stats_object *object = &snapshot.objects[i];

        if (object->kind != LLM_STATS_TOPIC)
            continue;
        assert_true(object->id < SHOWN);
        of_transmitter += snapshot.objects[object->parent].kind == LLM_STATS_TRANSMITTER;
        of_session += snapshot.objects[object->parent].kind == LLM_STATS_SESSION;
        assert_int_equal(stat_value(&snapshot, i, "topic_messages"), 1);
    }
    assert_int_equal(of_transmitter, SHOWN);
    assert_int_equal(of_session, SHOWN);
}

/* Two sessions have a topic of the same name and number. */
static void rates_compare_values_of_the_same_session(void **state)
{
    struct llm_transmitter *first, *second;
    struct llm_topic *px[2];
    struct stat_snapshot before;

    (void)state;
    receiver_make("&topic_counters=1");
    first = transmitter_make("");
    second = transmitter_make("");
    px[0] = topic_make(first, "px");
    px[1] = topic_make(second, "px");
    send(px[0], 3, 1);
    send(px[1], 5, 1);
    look();
    before = snapshot;
    snapshot = (struct stat_snapshot){.bytes = NULL};
    send(px[1], 2, 1);
    receiver_make("");
    look();
    for (uint32_t row = 0; row < snapshot.table.rows; row++) {
        const struct llm_stats_object *object = &snapshot.objects[snapshot.rows[row].object];

        if (strcmp(snapshot.rows[row].name, "topic_messages") != 0)
            continue;
        assert_int_equal(stat_before(&before, &snapshot, row),
                         snapshot.objects[object->parent].id == llm_transmitter_session(first) ? 3 : 5);
    }
    stat_free(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_and_bytes_of_each_topic_are_counted_at_both_ends, up, down),
        cmocka_unit_test_setup_teardown(messages_accepted_by_a_filter_are_counted, up, down),
        cmocka_unit_test_setup_teardown(sessions_count_separately, up, down),
        cmocka_unit_test_setup_teardown(counts_of_a_new_session_begin_at_zero, up, down),
        cmocka_unit_test_setup_teardown(topics_are_not_counted_without_the_option, up, down),
        cmocka_unit_test_setup_teardown(topics_are_written_up_to_the_given_room, up, down),
        cmocka_unit_test_setup_teardown(rates_compare_values_of_the_same_session, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
