/* SPDX-License-Identifier: Apache-2.0 */
/* The latency monitor, by the counters file: results of each level, and no other effects. */
#define _GNU_SOURCE
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <llm/llm.h>

#include "stat_file.h"

#define CHANNEL                                                                                             \
    "loop://"                                                                                               \
    "latency:1?history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=2&message_bytes_max=64K" \
    "&topics_max=8&window_packets=64&receivers_max=4&rcvbuf_bytes=1M&mtu=1500&linger_ns=0"

/* The counter and the clock agree within 1 %. */
enum { MESSAGES = 20, PAUSE_NS = 3000000, LEAST_NS = PAUSE_NS - PAUSE_NS / 100 };

static char directory[128];
static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_topic *topic;
static struct stat_snapshot snapshot;
static int heard, told, asked, pause_ns;

static void spin(uint64_t ns)
{
    const uint64_t until = llm_clock() + ns;

    while (llm_clock() < until)
        ;
}

static void on_message(void *arg, const struct llm_message *message)
{
    assert_ptr_equal(arg, &heard);
    assert_int_equal(message->number, heard);
    heard++;
    if (pause_ns > 0)
        spin((uint64_t)pause_ns);
    pause_ns = 0;
}

static void on_event(void *arg, const struct llm_event *event)
{
    assert_ptr_equal(arg, &heard);
    told += event->kind == LLM_EVENT_SESSION_NEW;
}

static bool on_accept(void *arg, const struct llm_source *source)
{
    assert_ptr_equal(arg, &heard);
    assert_true(source->session != 0);
    asked++;
    return true;
}

/* Opens both ends, and waits until they know each other. */
static void open_at(enum llm_latency_level level)
{
    struct llm_context_options options;
    struct llm_receiver *receiver = NULL;
    struct llm_receiver_handlers handlers;

    heard = told = asked = pause_ns = 0;
    snprintf(directory, sizeof directory, "/dev/shm/llm-unit-XXXXXX");
    assert_non_null(mkdtemp(directory));
    llm_context_options_init(&options);
    options.stats_directory = directory;
    options.stats_ns = 1000000;
    options.latency = level;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = &heard;
    handlers.message = on_message;
    handlers.event = on_event;
    handlers.accept = on_accept;
    assert_int_equal(llm_receiver_open(context, CHANNEL, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
    while (llm_transmitter_receivers(transmitter) == 0)
        (void)llm_poll(context);
}

static void send_one(unsigned flags)
{
    assert_int_equal(llm_send(topic, "x", 1, flags), LLM_OK);
}

/* Polls until this many messages arrived, reads the file, and closes. */
static void close_after(int messages)
{
    struct dirent *entry;
    DIR *at;

    while (heard < messages)
        (void)llm_poll(context);
    spin(2000000);
    (void)llm_poll(context);
    at = opendir(directory);
    assert_non_null(at);
    while ((entry = readdir(at)) != NULL) {
        const int fd = entry->d_name[0] == '.' ? -1 : openat(dirfd(at), entry->d_name, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
            continue;
        assert_int_equal(stat_read(fd, STAT_TABLE_MAX, &snapshot), STAT_OK);
        close(fd);
    }
    closedir(at);
    assert_int_equal(llm_context_close(&context), LLM_OK);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(told, 1);
    assert_true(asked >= 1);
}

/* NULL: there is none. */
static const struct llm_stats_histogram *histogram_of(const char *name)
{
    for (uint32_t i = 0; i < snapshot.table.histograms; i++)
        if (strcmp(snapshot.histograms[i].name, name) == 0)
            return &snapshot.histograms[i];
    return NULL;
}

static void the_level_off_has_no_histogram(void **state)
{
    (void)state;
    open_at(LLM_LATENCY_OFF);
    send_one(0);
    close_after(1);
    assert_int_equal(snapshot.header.histograms_max, 0);
    assert_int_equal(snapshot.table.histograms, 0);
    stat_free(&snapshot);
}

static void the_first_level_measures_queues_only(void **state)
{
    static const char *const queues[] = {"flush_packets", "queue_packets", "burst_packets",
                                         "buffered_packets"};

    (void)state;
    open_at(LLM_LATENCY_QUEUES);
    for (int i = 0; i < MESSAGES; i++)
        send_one(LLM_SEND_NOW);
    close_after(MESSAGES);
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        assert_non_null(histogram_of(queues[i]));
        assert_true(histogram_of(queues[i])->count > 0);
    }
    assert_int_equal(snapshot.table.histograms, 4);
    /* Packets left one at a time, but arrived in one burst. */
    assert_true(histogram_of("flush_packets")->count >= MESSAGES);
    assert_true(histogram_of("burst_packets")->max >= MESSAGES);
    stat_free(&snapshot);
}

static void the_second_level_measures_to_and_from_the_wire(void **state)
{
    (void)state;
    open_at(LLM_LATENCY_WIRE);
    for (int i = 0; i < MESSAGES; i++)
        send_one(LLM_SEND_NOW);
    close_after(MESSAGES);
    /* Only some of the messages sent one by one are measured. */
    assert_int_equal(histogram_of("submit_wire_ns")->count, MESSAGES / 8);
    assert_true(histogram_of("wire_deliver_ns")->count > 0 &&
                histogram_of("wire_deliver_ns")->count <= MESSAGES);
    assert_true(histogram_of("wire_deliver_ns")->max > 0);
    assert_null(histogram_of("handler_ns"));
    assert_null(histogram_of("poll_ns"));
    stat_free(&snapshot);
}

/* All messages of a packet are measured. */
static void messages_in_one_packet_share_clock_readings(void **state)
{
    (void)state;
    open_at(LLM_LATENCY_WIRE);
    for (int i = 0; i < 10 * MESSAGES; i++)
        send_one((i + 1) % MESSAGES == 0 ? LLM_SEND_NOW : LLM_SEND_MORE);
    close_after(10 * MESSAGES);
    assert_int_equal(histogram_of("wire_deliver_ns")->count, 10 * MESSAGES);
    assert_true(histogram_of("submit_wire_ns")->count >= 10);
    stat_free(&snapshot);
}

static void the_wait_of_a_message_in_its_packet_is_measured(void **state)
{
    (void)state;
    open_at(LLM_LATENCY_STAGES);
    send_one(LLM_SEND_NOW);
    send_one(LLM_SEND_MORE);
    spin(PAUSE_NS);
    /* This message did not wait, and leaves with the previous one. */
    send_one(LLM_SEND_MORE);
    assert_int_equal(llm_transmitter_flush(transmitter), LLM_OK);
    /* With a poll likewise. */
    send_one(LLM_SEND_MORE);
    spin(PAUSE_NS);
    close_after(4);
    assert_true(histogram_of("submit_wire_ns")->max >= LEAST_NS);
    assert_true(histogram_of("submit_wire_ns")->sum >= 2 * LEAST_NS);
    assert_true(histogram_of("submit_flush_ns")->sum >= 2 * LEAST_NS);
    assert_int_equal(histogram_of("submit_flush_ns")->count, histogram_of("submit_wire_ns")->count);
    assert_int_equal(histogram_of("flush_wire_ns")->count, histogram_of("submit_wire_ns")->count);
    stat_free(&snapshot);
}

static void the_last_level_measures_handlers_separately(void **state)
{
    (void)state;
    open_at(LLM_LATENCY_STAGES);
    pause_ns = PAUSE_NS;
    for (int i = 0; i < MESSAGES; i++)
        send_one(LLM_SEND_NOW);
    close_after(MESSAGES);
    assert_true(histogram_of("handler_ns")->max >= LEAST_NS);
    assert_int_equal(histogram_of("fetch_deliver_ns")->count, MESSAGES);
    /* Messages after the slow handler waited for it, and so did the next poll. */
    assert_true(histogram_of("fetch_deliver_ns")->max >= LEAST_NS);
    assert_true(histogram_of("poll_ns")->max >= LEAST_NS);
    /* Loop gives no time stamps. */
    assert_int_equal(histogram_of("wire_fetch_ns")->count, 0);
    stat_free(&snapshot);
}

/* Flushes of paced transmitters take the slow path. */
static void paced_transmitters_are_measured(void **state)
{
    struct llm_transmitter *paced = NULL;
    struct llm_topic *other;

    int found = 0;

    (void)state;
    open_at(LLM_LATENCY_WIRE);
    assert_int_equal(llm_transmitter_open(context,
                                          "loop://paced:1?flow=paced&history_bytes=1M&history_packets=256"
                                          "&linger_ns=0&mtu=1500",
                                          NULL, NULL, &paced),
                     LLM_OK);
    assert_int_equal(llm_topic_open(paced, "t", 0, &other), LLM_OK);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(llm_send(other, "x", 1, LLM_SEND_NOW), LLM_OK);
    close_after(0);
    for (uint32_t i = 0; i < snapshot.table.histograms; i++)
        found += strcmp(snapshot.histograms[i].name, "submit_wire_ns") == 0 &&
                 snapshot.histograms[i].count > 0 &&
                 strstr(snapshot.objects[snapshot.histograms[i].object].label, "paced") != NULL;
    assert_int_equal(found, 1);
    stat_free(&snapshot);
}

static void an_unknown_level_is_refused(void **state)
{
    struct llm_context_options options;

    (void)state;
    llm_context_options_init(&options);
    options.log_level = LLM_LEVEL_ERROR;
    options.latency = (enum llm_latency_level)4;
    assert_int_equal(llm_context_open(&options, &context), LLM_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_level_off_has_no_histogram),
        cmocka_unit_test(the_first_level_measures_queues_only),
        cmocka_unit_test(the_second_level_measures_to_and_from_the_wire),
        cmocka_unit_test(messages_in_one_packet_share_clock_readings),
        cmocka_unit_test(the_wait_of_a_message_in_its_packet_is_measured),
        cmocka_unit_test(the_last_level_measures_handlers_separately),
        cmocka_unit_test(paced_transmitters_are_measured),
        cmocka_unit_test(an_unknown_level_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
