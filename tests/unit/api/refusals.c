/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row for each public function and each wrong argument: the call returns the documented code, and the
 * context's log gets exactly one line, which names the value and the remedy; none where no object, and so no
 * log, is given. SYMBOLS is the path of the list of public functions: each has to be in a row. HEADERS is
 * that of the public headers: each versioned structure that a function is given has to be in rows with wrong
 * sizes.
 */
#define _GNU_SOURCE
#include "refused.h"
#include "tree.h"

#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------------- the rows */

static void text_and_init_calls_refuse_wrong_arguments(void **state)
{
    struct llm_event event = {.kind = LLM_EVENT_WARNED};
    char text[8] = "x";

    (void)state;
    ROW(llm_version() != NULL, true, NULL);
    ROW(llm_clock() > 0, true, NULL);
    ROW(llm_error_text(-1000) != NULL && llm_error_text(INT_MIN) != NULL, true, NULL);
    ROW(llm_error_name(-1000) != NULL && llm_error_name(INT_MIN) != NULL, true, NULL);
    ROW(llm_event_name((enum llm_event_kind)1000) != NULL, true, NULL);
    ROW(llm_reason_name((enum llm_reason)1000) != NULL, true, NULL);
    ROW(llm_threshold_name((enum llm_threshold)1000) != NULL, true, NULL);
    ROW(llm_limit_name((enum llm_limit)1000) != NULL, true, NULL);
    ROW(llm_event_text(NULL, text, sizeof text), 0, NULL);
    assert_string_equal(text, "");
    ROW(llm_event_text(NULL, NULL, 4), 0, NULL);
    ROW(llm_event_text(&event, NULL, 4) > 0, true, NULL);
    event.kind = LLM_EVENT_LIMITED;
    ROW(llm_event_text(&event, text, sizeof text) > 0, true, NULL);
    ROW_VOID(llm_assurance_init(NULL));
    ROW_VOID(llm_attributes_init(NULL));
    ROW_VOID(llm_connection_handlers_init(NULL));
    ROW_VOID(llm_connection_options_init(NULL));
    ROW_VOID(llm_context_options_init(NULL));
    ROW_VOID(llm_filter_init(NULL));
    ROW_VOID(llm_receiver_handlers_init(NULL));
    ROW_VOID(llm_replay_options_init(NULL));
    ROW_VOID(llm_cache_init(NULL));
    ROW_VOID(llm_listener_handlers_init(NULL));
    ROW_VOID(llm_options_init(NULL));
    ROW_VOID(llm_rate_init(NULL));
    ROW_VOID(llm_transmitter_handlers_init(NULL));
}

static int open_sized(size_t size)
{
    /* Ends at the end of its block, so that a sanitizer detects reads beyond it. */
    struct llm_context_options *options = malloc(sizeof *options);
    struct llm_context *opened = NULL;
    int error;

    assert_non_null(options);
    llm_context_options_init(options);
    options->log = log_count;
    options->size = size;
    error = llm_context_open(options, &opened);
    assert_null(opened);
    free(options);
    return error;
}

#define ROW_OPTION(member, value, code, told)                 \
    do {                                                      \
        llm_context_options_init(&options);                   \
        options.log = log_count;                              \
        options.member = value;                               \
        ROW(llm_context_open(&options, &opened), code, told); \
        assert_null(opened);                                  \
    } while (0)

static void context_calls_refuse_wrong_arguments(void **state)
{
    struct llm_context_options options;
    struct llm_context *opened = NULL;
    struct llm_counter stat;
    uint64_t value;

    (void)state;
    llm_context_options_init(&options);
    options.log = log_count;
    ROW(llm_context_open(&options, NULL), LLM_EINVAL, "NULL");
    ROW(open_sized(0), LLM_EINVAL, "size is 0");
    ROW_SIZES(llm_context_options, options, llm_context_open(&options, &opened));
    ROW(open_sized(4), LLM_EINVAL, "size is 4");
    ROW(open_sized(12), LLM_EINVAL, "size is 12");
    ROW(open_sized(sizeof options + 8), LLM_EVERSION, "size is");
    ROW(open_sized((size_t)1 << 40), LLM_EVERSION, "1099511627776");
    ROW(open_sized(SIZE_MAX - 7), LLM_EVERSION, "size is");
    ROW_OPTION(wait, (enum llm_wait_mode)3, LLM_EINVAL, "wait is 3");
    ROW_OPTION(log_level, (enum llm_level)9, LLM_EINVAL, "log_level 9");
    ROW_OPTION(latency, (enum llm_latency_level)9, LLM_EINVAL, "latency 9");
    ROW_OPTION(watch_ns, 1, LLM_EINVAL, "watch_ns is 1");
    llm_context_options_init(&options);
    options.log = log_count;
    options.stats_directory = "/dev/shm";
    options.stats_ns = 1;
    ROW(llm_context_open(&options, &opened), LLM_EINVAL, "stats_ns");
    options.stats_ns = 1000000;
    options.stats_mode = 077777;
    ROW(llm_context_open(&options, &opened), LLM_EINVAL, "stats_mode");
    ROW(llm_context_close(NULL), LLM_OK, NULL);
    ROW(llm_context_close(&opened), LLM_OK, NULL);
    ROW_INSIDE(llm_context_close(&context), LLM_ESTATE, "llm_context_close");
    ROW(llm_poll(NULL), LLM_EINVAL, NULL);
    ROW_INSIDE(llm_poll(context), LLM_ESTATE, "llm_poll");
    ROW(llm_wait(NULL, 0), LLM_EINVAL, NULL);
    ROW_INSIDE(llm_wait(context, 0), LLM_ESTATE, "llm_wait");
    ROW(llm_context_deadline(NULL) == UINT64_MAX, true, NULL);
    ROW(llm_context_fd(NULL), LLM_EINVAL, NULL);
    ROW(llm_context_counters(NULL, &stat, 1), LLM_EINVAL, NULL);
    ROW(llm_context_counters(context, NULL, 1), LLM_EINVAL, "stats NULL");
    ROW(llm_context_counters(context, &stat, -1), LLM_EINVAL, "max is -1");
    ROW(llm_context_counter(NULL, "naks_sent", &value), LLM_EINVAL, NULL);
    ROW(llm_context_counter(context, NULL, &value), LLM_EINVAL, "name is NULL");
    ROW(llm_context_counter(context, "naks_sent", NULL), LLM_EINVAL, "value is NULL");
    /* A result, which is not logged. */
    ROW(llm_context_counter(context, "nothing_of_the_kind", &value), LLM_ENOTFOUND, NULL);
}

static void loop_thread_calls_refuse_wrong_arguments(void **state)
{
    (void)state;
    ROW(llm_context_start_thread(NULL, -1), LLM_EINVAL, NULL);
    ROW(llm_context_start_thread(context, CPU_SETSIZE), LLM_EINVAL, "cpu 1024");
    ROW(llm_context_start_thread(context, CPU_SETSIZE - 1), LLM_EINVAL, "cpu 1023");
    ROW_INSIDE(llm_context_start_thread(context, -1), LLM_ESTATE,
               "llm_context_start_thread: not allowed inside");
    ROW(llm_context_stop_thread(NULL), LLM_EINVAL, NULL);
    ROW(llm_context_stop_thread(context), LLM_ESTATE, "no loop thread runs");
    ROW_INSIDE(llm_context_stop_thread(context), LLM_ESTATE, "llm_context_stop_thread: not allowed inside");
    assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
    ROW(llm_context_start_thread(context, -1), LLM_ESTATE, "runs already");
    assert_int_equal(llm_context_stop_thread(context), LLM_OK);
    ROW(llm_context_stop_thread(context), LLM_ESTATE, "no loop thread runs");
}

static int open_on(const char *channel)
{
    struct llm_transmitter *opened = NULL;
    const int error = llm_transmitter_open(context, channel, NULL, NULL, &opened);

    assert_null(opened);
    return error;
}

static int open_with_size(size_t size)
{
    struct llm_options *options = malloc(sizeof *options);
    struct llm_transmitter *opened = NULL;
    int error;

    assert_non_null(options);
    llm_options_init(options);
    options->size = size;
    error = llm_transmitter_open(context, CHANNEL, options, NULL, &opened);
    free(options);
    return error;
}

static void transmitter_calls_refuse_wrong_arguments(void **state)
{
    struct llm_transmitter *opened = NULL;
    struct llm_transmitter_handlers handlers = {.size = 0};
    struct llm_options options;
    struct llm_congestion congestion;
    struct llm_bottleneck bottleneck;
    struct llm_rate rate = {.size = 0};

    (void)state;
    ROW(llm_transmitter_open(NULL, CHANNEL, NULL, NULL, &opened), LLM_EINVAL, NULL);
    ROW(llm_transmitter_open(context, NULL, NULL, NULL, &opened), LLM_EINVAL, "channel is NULL");
    ROW(llm_transmitter_open(context, CHANNEL, NULL, NULL, NULL), LLM_EINVAL, "transmitter is NULL");
    ROW_INSIDE(llm_transmitter_open(context, CHANNEL, NULL, NULL, &opened), LLM_ESTATE,
               "llm_transmitter_open");
    llm_options_init(&options);
    ROW_SIZES(llm_options, options, llm_transmitter_open(context, CHANNEL, &options, NULL, &opened));
    ROW(open_with_size(0), LLM_EINVAL, "size is 0");
    ROW(open_with_size(sizeof(struct llm_options) + 8), LLM_EVERSION, "size is");
    ROW(open_with_size((size_t)1 << 40), LLM_EVERSION, "size is");
    ROW(open_on(""), LLM_EINVAL, "scheme://group:port");
    ROW(open_on("loop"), LLM_EINVAL, "scheme://group:port");
    ROW(open_on("nothing://a:1"), LLM_ESCHEME, "nothing");
    ROW(open_on("loop://a"), LLM_EINVAL, "port");
    ROW(open_on("loop://a:0"), LLM_EINVAL, "port");
    ROW(open_on("loop://a:1?x=1"), LLM_EOPTION, "\"x\"");
    ROW(open_on("loop://a:1?ttl"), LLM_EOPTION, "key=value");
    ROW(open_on("loop://a:1?ttl=256"), LLM_EOPTION, "256");
    ROW(open_on("loop://a:1?flow=none"), LLM_EOPTION, "none");
    ROW(open_on("loop://a:1?impair_loss_ppm=1"), LLM_EOPTION, "impair");
    ROW(open_on("udp://10.0.0.300:1"), LLM_EGROUP, "10.0.0.300");
    ROW(open_on("udp://239.1.1.1:1?interface=nowhere0"), LLM_EINTERFACE, "nowhere0");
    ROW(llm_transmitter_close(NULL), LLM_OK, NULL);
    ROW(llm_transmitter_close(&opened), LLM_OK, NULL);
    ROW_INSIDE(llm_transmitter_close(&transmitter), LLM_ESTATE, "llm_transmitter_close");
    assert_non_null(transmitter);
    ROW(llm_transmitter_session(NULL), 0, NULL);
    ROW(llm_transmitter_next(NULL), 0, NULL);
    ROW(llm_transmitter_receivers(NULL), 0, NULL);
    ROW(llm_transmitter_claim_max(NULL), 0, NULL);
    ROW(llm_transmitter_wait(NULL, 1, 0), LLM_EINVAL, NULL);
    ROW(llm_transmitter_wait(transmitter, 5, 0), LLM_ELIMIT, "5 receivers");
    ROW_INSIDE(llm_transmitter_wait(transmitter, 1, 0), LLM_ESTATE, "llm_transmitter_wait");
    ROW(llm_transmitter_flush(NULL), LLM_EINVAL, NULL);
    ROW_SIZES(llm_transmitter_handlers, handlers,
              llm_transmitter_open(context, CHANNEL, NULL, &handlers, &opened));
    ROW(llm_transmitter_suspend(NULL, 0x123), LLM_EINVAL, NULL);
    ROW(llm_transmitter_suspend(transmitter, 0x123), LLM_ENOTFOUND, "0000000000000123");
    ROW(llm_transmitter_suspend(transmitter, 0), LLM_ENOTFOUND, "0000000000000000");
    ROW(llm_transmitter_resume(NULL, 0x123), LLM_EINVAL, NULL);
    ROW(llm_transmitter_resume(transmitter, 0x123), LLM_ENOTFOUND, "llm_transmitter_resume");
    ROW(llm_transmitter_suspend_all(NULL), LLM_EINVAL, NULL);
    ROW(llm_transmitter_resume_all(NULL), LLM_EINVAL, NULL);
    ROW(llm_transmitter_congestion(NULL, &congestion, 1), LLM_EINVAL, NULL);
    ROW(llm_transmitter_congestion(transmitter, NULL, 1), LLM_EINVAL, "receivers NULL");
    ROW(llm_transmitter_congestion(transmitter, &congestion, -1), LLM_EINVAL, "max is -1");
    ROW(llm_transmitter_bottleneck(NULL, &bottleneck), LLM_EINVAL, NULL);
    ROW(llm_transmitter_bottleneck(transmitter, NULL), LLM_EINVAL, "bottleneck is NULL");
    ROW(llm_transmitter_bottleneck(transmitter, &bottleneck), LLM_ESTATE, "watch_ns");
    ROW(llm_transmitter_limit_rate(NULL, &rate), LLM_EINVAL, NULL);
    ROW(llm_transmitter_limit_rate(transmitter, NULL), LLM_EINVAL, "rate is NULL");
    ROW_SIZES(llm_rate, rate, llm_transmitter_limit_rate(transmitter, &rate));
    llm_rate_init(&rate);
    rate.bytes_per_s = 1;
    ROW(llm_transmitter_limit_rate(transmitter, &rate), LLM_EINVAL, "bytes_per_s: 1 ");
    rate.bytes_per_s = 0;
    rate.repair_bytes_per_s = UINT64_MAX;
    ROW(llm_transmitter_limit_rate(transmitter, &rate), LLM_EINVAL, "18446744073709551615");
}

static void topic_calls_refuse_wrong_arguments(void **state)
{
    struct llm_assurance assurance = {.size = 0};
    struct llm_cache lvc = {.size = 0};
    struct llm_rate rate = {.size = 0};
    struct llm_topic *opened = NULL;
    char name[257];

    (void)state;
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    ROW(llm_topic_open(NULL, "x", 0, &opened), LLM_EINVAL, NULL);
    ROW(llm_topic_open(transmitter, NULL, 0, &opened), LLM_EINVAL, "name is NULL");
    ROW(llm_topic_open(transmitter, "x", 0, NULL), LLM_EINVAL, "topic is NULL");
    ROW(llm_topic_open(transmitter, "x", 8, &opened), LLM_EINVAL, "flags 0x8");
    ROW(llm_topic_open(transmitter, "", 0, &opened), LLM_EINVAL, "has 0");
    ROW(llm_topic_open(transmitter, name, 0, &opened), LLM_EINVAL, "has 256");
    ROW(llm_topic_open(transmitter, "t", 0, &opened), LLM_EINVAL, "open already");
    assert_null(opened);
    ROW(llm_topic_assure(NULL, NULL), LLM_EINVAL, NULL);
    ROW_SIZES(llm_assurance, assurance, llm_topic_assure(topic, &assurance));
    llm_assurance_init(&assurance);
    assurance.receivers = 0;
    ROW(llm_topic_assure(topic, &assurance), LLM_EINVAL, "no receiver");
    assurance.receivers = 5;
    ROW(llm_topic_assure(topic, &assurance), LLM_ELIMIT, "receivers_max is 4");
    assurance.receivers = 1;
    assurance.messages_max = 0;
    ROW(llm_topic_assure(topic, &assurance), LLM_EINVAL, "messages_max: 0");
    assurance.messages_max = 1;
    assurance.bytes_max = UINT64_MAX;
    ROW(llm_topic_assure(topic, &assurance), LLM_EINVAL, "18446744073709551615");
    assurance.bytes_max = 0;
    assurance.names = "a,,b";
    ROW(llm_topic_assure(topic, &assurance), LLM_EINVAL, "a,,b");
    ROW(llm_topic_wait(NULL, 1, 0), LLM_EINVAL, NULL);
    ROW(llm_topic_wait(topic, 100000, 0), LLM_EMSGSIZE, "100000");
    ROW_INSIDE(llm_topic_wait(topic, 1, 0), LLM_ESTATE, "llm_topic_wait");
    ROW(llm_topic_cache(NULL, NULL), LLM_EINVAL, NULL);
    ROW_SIZES(llm_cache, lvc, llm_topic_cache(topic, &lvc));
    llm_cache_init(&lvc);
    lvc.messages = 0;
    ROW(llm_topic_cache(topic, &lvc), LLM_EINVAL, "messages: 0");
    lvc.messages = 1;
    lvc.bytes_max = 0;
    ROW(llm_topic_cache(topic, &lvc), LLM_EINVAL, "bytes_max: 0");
    ROW(llm_topic_limit_rate(NULL, &rate), LLM_EINVAL, NULL);
    ROW(llm_topic_limit_rate(topic, NULL), LLM_EINVAL, "rate is NULL");
    ROW_SIZES(llm_rate, rate, llm_topic_limit_rate(topic, &rate));
    llm_rate_init(&rate);
    rate.bytes_per_s = 1;
    ROW(llm_topic_limit_rate(topic, &rate), LLM_EINVAL, "bytes_per_s: 1 ");
    rate.bytes_per_s = 0;
    rate.repair_bytes_per_s = 1 << 20;
    ROW(llm_topic_limit_rate(topic, &rate), LLM_EINVAL, "repair_bytes_per_s");
}

static void send_calls_refuse_wrong_arguments(void **state)
{
    static uint8_t large[100000];
    struct llm_attributes attributes = {.size = 0};
    struct llm_property property = {.code = 7, .type = LLM_PROPERTY_INT32};
    const struct iovec bad = {NULL, 4}, twice[] = {{large, 4}, {NULL, 4}}, long_one = {large, sizeof large},
                       endless[] = {{large, SIZE_MAX}, {large, SIZE_MAX}};
    struct llm_topic *tos[2] = {topic, NULL};
    struct llm_transmitter *counting;

    (void)state;
    ROW(llm_send(NULL, "x", 1, 0), LLM_EINVAL, NULL);
    ROW(llm_sendv(NULL, &bad, 1, 0), LLM_EINVAL, NULL);
    ROW(llm_send_numbered(NULL, 0, "x", 1, 0), LLM_EINVAL, NULL);
    ROW(llm_send_numbered(topic, 0, NULL, 1, 0), LLM_EINVAL, "size 1");
    ROW(llm_send_numbered(topic, 0, "x", 1, 0), LLM_ESTATE, "stream=NAME");
    ROW(llm_send_with(NULL, "x", 1, &attributes, 0), LLM_EINVAL, NULL);
    ROW(llm_send_with(topic, "x", 1, NULL, 0), LLM_EINVAL, "attributes is NULL");
    ROW_SIZES(llm_attributes, attributes, llm_send_with(topic, "x", 1, &attributes, 0));
    llm_attributes_init(&attributes);
    /* Counted messages take another route. */
    assert_int_equal(llm_transmitter_open(context, CHANNEL "&topic_counters=1", NULL, NULL, &counting),
                     LLM_OK);
    assert_int_equal(llm_topic_open(counting, "counted", 0, &tos[1]), LLM_OK);
    for (int i = 0; i < 2; i++) {
        struct llm_topic *to = tos[i];

        for (unsigned flags = 0; flags <= LLM_SEND_NOW; flags++) {
            ROW(llm_send(to, NULL, 4, flags), LLM_EINVAL, "size 4");
            ROW(llm_send(to, large, sizeof large, flags), LLM_EMSGSIZE, "100000");
            ROW(llm_send(to, large, SIZE_MAX, flags), LLM_EMSGSIZE, "18446744073709551615");
            ROW(llm_sendv(to, &bad, 1, flags), LLM_EINVAL, "pieces[0] has 4 bytes at NULL");
            ROW(llm_sendv(to, twice, 2, flags), LLM_EINVAL, "pieces[1] has 4 bytes at NULL");
            ROW(llm_sendv(to, NULL, 1, flags), LLM_EINVAL, "pieces NULL");
            ROW(llm_sendv(to, &long_one, -1, flags), LLM_EINVAL, "count is -1");
            ROW(llm_sendv(to, &long_one, 1, flags), LLM_EMSGSIZE, "100000");
            ROW(llm_sendv(to, endless, 2, flags), LLM_EMSGSIZE, "18446744073709551615");
            ROW(llm_send_with(to, NULL, 4, &attributes, flags), LLM_EINVAL, "size 4");
            ROW(llm_send_with(to, large, sizeof large, &attributes, flags), LLM_EMSGSIZE, "100000");
            ROW(llm_send_with(to, large, SIZE_MAX, &attributes, flags), LLM_EMSGSIZE, "18446744073709551615");
        }
        ROW(llm_send(to, "x", 1, 4), LLM_EINVAL, "flags 0x4");
        ROW(llm_send(to, "x", 1, 0x80000001u), LLM_EINVAL, "flags 0x80000001");
        ROW(llm_sendv(to, twice, 1, 4), LLM_EINVAL, "flags 0x4");
        ROW(llm_send_with(to, "x", 1, &attributes, 4), LLM_EINVAL, "flags 0x4");
    }
    attributes.bitmap_bits = 257;
    attributes.bitmap = large;
    ROW(llm_send_with(topic, "x", 1, &attributes, 0), LLM_EINVAL, "257");
    attributes.bitmap_bits = 8;
    attributes.bitmap = NULL;
    ROW(llm_send_with(topic, "x", 1, &attributes, 0), LLM_EINVAL, "bitmap NULL");
    llm_attributes_init(&attributes);
    attributes.properties_count = 1;
    ROW(llm_send_with(topic, "x", 1, &attributes, 0), LLM_EINVAL, "properties NULL");
    attributes.properties = &property;
    property.type = (enum llm_property_type)9;
    ROW(llm_send_with(topic, "x", 1, &attributes, 0), LLM_EINVAL, "type 9");
    property.type = LLM_PROPERTY_BYTES;
    property.value.bytes.data = NULL;
    property.value.bytes.size = 3;
    ROW(llm_send_with(topic, "x", 1, &attributes, 0), LLM_EINVAL, "data is NULL");
    property.value.bytes.data = large;
    property.value.bytes.size = 5000;
    ROW(llm_send_with(topic, "x", 1, &attributes, 0), LLM_EMSGSIZE, "property 7");
    /* No message was sent. */
    assert_int_equal(llm_transmitter_next(transmitter), 0);
}

static void claim_calls_refuse_wrong_arguments(void **state)
{
    struct llm_attributes attributes;
    struct llm_rate rate;
    struct llm_topic *opened;
    const struct iovec piece = {(void *)(uintptr_t) "x", 1};
    void *data = NULL;

    (void)state;
    llm_attributes_init(&attributes);
    llm_rate_init(&rate);
    ROW(llm_topic_claim(NULL, 1, &data), LLM_EINVAL, NULL);
    ROW(llm_topic_claim(topic, 1, NULL), LLM_EINVAL, "data is NULL");
    ROW(llm_topic_claim(topic, 60000, &data), LLM_EMSGSIZE, "60000");
    ROW(llm_topic_claim(topic, SIZE_MAX, &data), LLM_EMSGSIZE, "18446744073709551615");
    ROW(llm_topic_commit(NULL, 1, 0), LLM_EINVAL, NULL);
    ROW(llm_topic_commit(topic, 1, 0), LLM_ESTATE, "no claim");
    ROW(llm_topic_abort(NULL), LLM_EINVAL, NULL);
    ROW(llm_topic_abort(topic), LLM_ESTATE, "no claim");
    assert_null(data);
    assert_int_equal(llm_topic_claim(topic, 16, &data), LLM_OK);
    ROW(llm_topic_claim(topic, 1, &data), LLM_ESTATE, "claim is open");
    ROW(llm_topic_commit(topic, 17, 0), LLM_EINVAL, "17 bytes: 16");
    ROW(llm_topic_commit(topic, 16, 4), LLM_EINVAL, "flags 0x4");
    ROW(llm_topic_commit(other, 16, 0), LLM_ESTATE, "\"other\"");
    ROW(llm_topic_abort(other), LLM_ESTATE, "\"other\"");
    for (unsigned flags = 0; flags <= LLM_SEND_NOW; flags++) {
        ROW(llm_send(topic, "x", 1, flags), LLM_ESTATE, "claim is open");
        ROW(llm_sendv(other, &piece, 1, flags), LLM_ESTATE, "claim is open");
        ROW(llm_send_with(topic, "x", 1, &attributes, flags), LLM_ESTATE, "claim is open");
    }
    ROW(llm_topic_wait(topic, 1, UINT64_MAX), LLM_ESTATE, "claim is open");
    ROW(llm_topic_open(transmitter, "x", 0, &opened), LLM_ESTATE, "claim is open");
    ROW(llm_topic_assure(other, NULL), LLM_ESTATE, "claim is open");
    ROW(llm_topic_cache(other, NULL), LLM_ESTATE, "claim is open");
    ROW(llm_topic_limit_rate(other, &rate), LLM_ESTATE, "claim is open");
    assert_int_equal(llm_topic_commit(topic, 16, 0), LLM_OK);
    assert_int_equal(llm_transmitter_next(transmitter), 1);
}

static void messages_longer_than_the_topic_allows_are_refused(void **state)
{
    static uint8_t bytes[60000];
    struct llm_assurance assurance;
    void *data;

    (void)state;
    llm_assurance_init(&assurance);
    assurance.bytes_max = 100;
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    assert_int_equal(llm_topic_cache(other, NULL), LLM_OK);
    ROW(llm_send(topic, bytes, 101, 0), LLM_EMSGSIZE, "llm_topic_assure()");
    ROW(llm_topic_claim(topic, 101, &data), LLM_EMSGSIZE, "llm_topic_assure()");
    ROW(llm_send(other, bytes, 257, 0), LLM_EMSGSIZE, "llm_topic_cache()");
    ROW(llm_topic_claim(other, 257, &data), LLM_EMSGSIZE, "llm_topic_cache()");
    ROW(llm_topic_cache(other, NULL), LLM_ESTATE, "already");
    /* Back-pressure is not an error: only one message may be unacknowledged. */
    assert_int_equal(llm_send(topic, bytes, 100, 0), LLM_OK);
    ROW(llm_send(topic, bytes, 100, 0), LLM_EAGAIN, NULL);
}

static void receiver_calls_refuse_wrong_arguments(void **state)
{
    struct llm_receiver_handlers handlers = {.size = 0}, usable;
    struct llm_options options;
    struct llm_receiver *opened = NULL;
    struct llm_bottleneck bottleneck;
    struct llm_filter filter = {.size = 0};
    struct llm_attributes attributes = {.size = 0};
    struct llm_property property;
    const struct llm_message message = {.number = 5};

    (void)state;
    ROW(llm_receiver_open(NULL, CHANNEL, NULL, &handlers, &opened), LLM_EINVAL, NULL);
    ROW(llm_receiver_open(context, NULL, NULL, &handlers, &opened), LLM_EINVAL, "channel is NULL");
    ROW(llm_receiver_open(context, CHANNEL, NULL, NULL, &opened), LLM_EINVAL, "handlers is NULL");
    ROW(llm_receiver_open(context, CHANNEL, NULL, &handlers, NULL), LLM_EINVAL, "receiver is NULL");
    ROW_SIZES(llm_receiver_handlers, handlers, llm_receiver_open(context, CHANNEL, NULL, &handlers, &opened));
    llm_receiver_handlers_init(&usable);
    llm_options_init(&options);
    ROW_SIZES(llm_options, options, llm_receiver_open(context, CHANNEL, &options, &usable, &opened));
    ROW_INSIDE(llm_receiver_open(context, CHANNEL, NULL, &handlers, &opened), LLM_ESTATE,
               "llm_receiver_open");
    assert_null(opened);
    ROW(llm_receiver_close(NULL), LLM_OK, NULL);
    ROW(llm_receiver_close(&opened), LLM_OK, NULL);
    ROW_INSIDE(llm_receiver_close(&receiver), LLM_ESTATE, "llm_receiver_close");
    assert_non_null(receiver);
    ROW(llm_receiver_acknowledge(NULL, 1, 1), LLM_EINVAL, NULL);
    ROW(llm_receiver_acknowledge(receiver, 1, 1), LLM_ESTATE, "acknowledge=application");
    ROW(llm_receiver_subscribe(NULL, "x"), LLM_EINVAL, NULL);
    ROW(llm_receiver_subscribe(receiver, NULL), LLM_EINVAL, "subject is NULL");
    ROW(llm_receiver_subscribe(receiver, ""), LLM_EINVAL, "subject");
    ROW(llm_receiver_subscribe(receiver, "a.>.b"), LLM_EINVAL, "a.>.b");
    ROW(llm_receiver_unsubscribe(NULL, "x"), LLM_EINVAL, NULL);
    ROW(llm_receiver_unsubscribe(receiver, NULL), LLM_EINVAL, "subject is NULL");
    ROW(llm_receiver_unsubscribe(receiver, "x"), LLM_ENOTFOUND, "\"x\"");
    ROW(llm_receiver_bottleneck(NULL, &bottleneck), LLM_EINVAL, NULL);
    ROW(llm_receiver_bottleneck(receiver, NULL), LLM_EINVAL, "bottleneck is NULL");
    ROW(llm_receiver_bottleneck(receiver, &bottleneck), LLM_ESTATE, "watch_ns");
    ROW(llm_receiver_filter(NULL, &filter), LLM_EINVAL, NULL);
    ROW_SIZES(llm_filter, filter, llm_receiver_filter(receiver, &filter));
    llm_filter_init(&filter);
    filter.labels_count = 17;
    ROW(llm_receiver_filter(receiver, &filter), LLM_EINVAL, "17");
    filter.labels_count = 1;
    ROW(llm_receiver_filter(receiver, &filter), LLM_EINVAL, "labels_count: 1");
    llm_filter_init(&filter);
    filter.bitmap_bits = 8;
    ROW(llm_receiver_filter(receiver, &filter), LLM_EINVAL, "bitmap_mask is NULL");
    llm_filter_init(&filter);
    filter.selector = "price >";
    ROW(llm_receiver_filter(receiver, &filter), LLM_EINVAL, "column");
    filter.names_count = 1;
    ROW(llm_receiver_filter(receiver, &filter), LLM_EINVAL, "names NULL");
    ROW(llm_message_attributes(NULL, &message, &attributes), LLM_EINVAL, NULL);
    ROW(llm_message_attributes(receiver, NULL, &attributes), LLM_EINVAL, "message is NULL");
    ROW(llm_message_attributes(receiver, &message, NULL), LLM_EINVAL, "attributes is NULL");
    ROW_SIZES(llm_attributes, attributes, llm_message_attributes(receiver, &message, &attributes));
    llm_attributes_init(&attributes);
    ROW(llm_message_attributes(receiver, &message, &attributes), LLM_ESTATE, "without a filter");
    ROW(llm_message_property(NULL, &message, 1, &property), LLM_EINVAL, NULL);
    ROW(llm_message_property(receiver, NULL, 1, &property), LLM_EINVAL, "message is NULL");
    ROW(llm_message_property(receiver, &message, 1, NULL), LLM_EINVAL, "property is NULL");
    ROW(llm_message_property(receiver, &message, 1, &property), LLM_ESTATE, "without a filter");
    llm_filter_init(&filter);
    assert_int_equal(llm_receiver_filter(receiver, &filter), LLM_OK);
    ROW(llm_message_attributes(receiver, &message, &attributes), LLM_EINVAL, "message 5");
    ROW(llm_message_property(receiver, &message, 1, &property), LLM_EINVAL, "message 5");
}

static void acknowledge_calls_refuse_wrong_arguments(void **state)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *own;

    (void)state;
    llm_receiver_handlers_init(&handlers);
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(context, CHANNEL "&acknowledge=application", NULL, &handlers, &own),
                     LLM_OK);
    assert_int_equal(llm_send(topic, "x", 1, 0), LLM_OK);
    for (int i = 0; i < ROUNDS && llm_transmitter_receivers(transmitter) < 2; i++)
        assert_true(llm_poll(context) >= 0);
    ROW(llm_receiver_acknowledge(own, 0x77, 0), LLM_ENOTFOUND, "0000000000000077");
    ROW(llm_receiver_acknowledge(own, llm_transmitter_session(transmitter), 1000), LLM_EINVAL,
        "message 1000");
}

static void connection_calls_refuse_wrong_arguments(void **state)
{
    const struct llm_connection_handlers usable = connection_handlers(&connection);
    struct llm_connection_handlers handlers = {.size = 0};
    struct llm_options options;
    static uint8_t bytes[100000];
    const struct iovec bad = {NULL, 4}, long_one = {bytes, LLM_CONNECT_PAYLOAD_MAX + 1};
    struct llm_connection *opened = NULL;
    struct llm_transmitter *part;

    (void)state;
    ROW(llm_connection_open(NULL, CALLS, NULL, &handlers, NULL, &opened), LLM_EINVAL, NULL);
    ROW(llm_connection_open(context, NULL, NULL, &handlers, NULL, &opened), LLM_EINVAL, "channel is NULL");
    ROW(llm_connection_open(context, CALLS, NULL, NULL, NULL, &opened), LLM_EINVAL, "handlers is NULL");
    ROW(llm_connection_open(context, CALLS, NULL, &handlers, NULL, NULL), LLM_EINVAL, "connection is NULL");
    ROW(llm_connection_open(context, CALLS, NULL, &handlers, &bad, &opened), LLM_EINVAL, "4 bytes at NULL");
    ROW(llm_connection_open(context, CALLS, NULL, &handlers, &long_one, &opened), LLM_EMSGSIZE, "513");
    ROW_SIZES(llm_connection_handlers, handlers,
              llm_connection_open(context, CALLS, NULL, &handlers, NULL, &opened));
    llm_connection_options_init(&options);
    ROW_SIZES(llm_options, options, llm_connection_open(context, CALLS, &options, &usable, NULL, &opened));
    ROW_INSIDE(llm_connection_open(context, CALLS, NULL, &handlers, NULL, &opened), LLM_ESTATE,
               "llm_connection_open");
    assert_null(opened);
    ROW(llm_connection_close(NULL), LLM_OK, NULL);
    ROW(llm_connection_close(&opened), LLM_OK, NULL);
    ROW(llm_connection_id(NULL), 0, NULL);
    ROW((intptr_t)llm_connection_transmitter(NULL), 0, NULL);
    connect_both();
    ROW(llm_connection_request(NULL, "x", 1, 1, on_reply, NULL), LLM_EINVAL, NULL);
    ROW(llm_connection_request(connection, NULL, 1, 1, on_reply, NULL), LLM_EINVAL, "data is NULL");
    ROW(llm_connection_request(connection, "x", 1, 0, on_reply, NULL), LLM_EINVAL, "timeout_ns is 0");
    ROW(llm_connection_request(connection, "x", 1, 1, NULL, NULL), LLM_EINVAL, "reply is NULL");
    ROW(llm_connection_request(connection, bytes, sizeof bytes, 1, on_reply, NULL), LLM_EMSGSIZE, "100000");
    ROW(llm_connection_reply(NULL, 1, "x", 1), LLM_EINVAL, NULL);
    ROW(llm_connection_reply(connection, 1, NULL, 1), LLM_EINVAL, "data is NULL");
    ROW(llm_connection_reply(connection, 1, bytes, sizeof bytes), LLM_EMSGSIZE, "100000");
    part = llm_connection_transmitter(connection);
    ROW(llm_transmitter_close(&part), LLM_ESTATE, "llm_connection_close()");
    ROW_INSIDE(llm_connection_close(&connection), LLM_ESTATE, "llm_connection_close");
}

static void calls_on_an_ended_connection_are_refused(void **state)
{
    struct llm_topic *of, *opened;
    struct llm_attributes attributes;

    (void)state;
    llm_attributes_init(&attributes);
    connect_both();
    assert_int_equal(llm_topic_open(llm_connection_transmitter(connection), "t", 0, &of), LLM_OK);
    assert_true(llm_connection_close(&accepted) >= 0);
    for (int i = 0; i < ROUNDS && connection->state < LLI_CONNECTION_OVER; i++)
        assert_true(llm_poll(context) >= 0);
    ROW(llm_send(of, "x", 1, 0), LLM_ESTATE, "is over");
    ROW(llm_send(of, "x", 1, LLM_SEND_MORE), LLM_ESTATE, "is over");
    ROW(llm_send_with(of, "x", 1, &attributes, 0), LLM_ESTATE, "is over");
    ROW(llm_topic_open(llm_connection_transmitter(connection), "u", 0, &opened), LLM_ESTATE, "is over");
    ROW(llm_connection_request(connection, "x", 1, 1, on_reply, NULL), LLM_ESTATE, "is not open");
    ROW(llm_connection_reply(connection, 1, "x", 1), LLM_ESTATE, "is not open");
}

static int remove_all(const char *directory)
{
    return tree_remove(directory);
}

static void store_calls_refuse_wrong_arguments(void **state)
{
    struct llm_store_handlers handlers = {.size = 0};
    struct llm_store_options options = {.size = 0};
    char directory[] = "/tmp/llm-refusals-XXXXXX";
    struct llm_store *opened = NULL;
    struct llm_options channel, stream;

    (void)state;
    ROW_VOID(llm_store_options_init(NULL));
    ROW_VOID(llm_store_handlers_init(NULL));
    ROW(llm_store_open(NULL, &options, NULL, &opened), LLM_EINVAL, NULL);
    ROW(llm_store_open(context, NULL, NULL, &opened), LLM_EINVAL, "options is NULL");
    ROW(llm_store_open(context, &options, NULL, NULL), LLM_EINVAL, "store is NULL");
    ROW_SIZES(llm_store_options, options, llm_store_open(context, &options, NULL, &opened));
    llm_store_options_init(&options);
    ROW_SIZES(llm_store_handlers, handlers, llm_store_open(context, &options, &handlers, &opened));
    ROW(llm_store_open(context, &options, NULL, &opened), LLM_EINVAL, "directory is NULL");
    options.directory = "/nowhere";
    ROW(llm_store_open(context, &options, NULL, &opened), LLM_ENOTFOUND, "/nowhere");
    options.spares = 65;
    ROW(llm_store_open(context, &options, NULL, &opened), LLM_EOPTION, "spares is 65");
    ROW_INSIDE(llm_store_open(context, &options, NULL, &opened), LLM_ESTATE, "llm_store_open");
    assert_null(opened);
    ROW(llm_store_close(NULL), LLM_OK, NULL);
    ROW(llm_store_close(&opened), LLM_OK, NULL);
    options.spares = 0;
    options.directory = mkdtemp(directory);
    assert_int_equal(llm_store_open(context, &options, NULL, &opened), LLM_OK);
    llm_options_init(&channel);
    llm_options_init(&stream);
    ROW(llm_store_ask(NULL, CALLS, &stream, 1, 0), LLM_EINVAL, NULL);
    ROW(llm_store_ask(context, NULL, &stream, 1, 0), LLM_EINVAL, "channel is NULL");
    ROW(llm_store_ask(context, CALLS, NULL, 1, 0), LLM_EINVAL, "options is NULL");
    ROW(llm_store_ask(context, CALLS, &stream, 1, 0), LLM_EOPTION, "stream is empty");
    ROW_SIZES(llm_options, stream, llm_store_ask(context, CALLS, &stream, 1, 0));
    llm_options_init(&stream);
    strcpy(stream.stream, "s");
    ROW(llm_store_ask(context, CALLS, &stream, 0, 0), LLM_EOPTION, "stores is 0");
    ROW(llm_store_ask(context, CALLS, &stream, 65, 0), LLM_EOPTION, "stores is 65");
    ROW(llm_store_ask(context, "loop://a", &stream, 1, 0), LLM_EINVAL, "port");
    ROW_INSIDE(llm_store_ask(context, CALLS, &stream, 1, 0), LLM_ESTATE, "llm_store_ask");
    ROW(llm_store_follow(NULL, CALLS, NULL), LLM_EINVAL, NULL);
    ROW(llm_store_follow(opened, NULL, NULL), LLM_EINVAL, "channel is NULL");
    ROW_SIZES(llm_options, channel, llm_store_follow(opened, CALLS, &channel));
    ROW_INSIDE(llm_store_follow(opened, CALLS, NULL), LLM_ESTATE, "llm_store_follow");
    ROW_INSIDE(llm_store_close(&opened), LLM_ESTATE, "llm_store_close");
    assert_int_equal(llm_store_close(&opened), LLM_OK);
    assert_int_equal(remove_all(directory), 0);
}

static void failover_calls_refuse_wrong_arguments(void **state)
{
    struct llm_failover_options options;
    struct llm_failover_handlers handlers;
    struct llm_failover *opened = NULL;
    struct llm_options channel;
    struct llm_topic *found = NULL;

    (void)state;
    ROW_VOID(llm_failover_options_init(NULL));
    ROW_VOID(llm_failover_handlers_init(NULL));
    llm_failover_options_init(&options);
    llm_failover_handlers_init(&handlers);
    llm_options_init(&channel);
    strcpy(channel.stream, "s");
    options.voters = 3;
    ROW(llm_failover_open(NULL, CALLS, &channel, &options, &handlers, &opened), LLM_EINVAL, NULL);
    ROW(llm_failover_open(context, NULL, &channel, &options, &handlers, &opened), LLM_EINVAL,
        "channel is NULL");
    ROW(llm_failover_open(context, CALLS, &channel, NULL, &handlers, &opened), LLM_EINVAL,
        "failover is NULL");
    ROW(llm_failover_open(context, CALLS, &channel, &options, NULL, &opened), LLM_EINVAL, "handlers is NULL");
    ROW(llm_failover_open(context, CALLS, &channel, &options, &handlers, NULL), LLM_EINVAL, "result is NULL");
    ROW(llm_failover_open(context, "loop://a", &channel, &options, &handlers, &opened), LLM_EINVAL, "port");
    ROW_SIZES(llm_options, channel,
              llm_failover_open(context, CALLS, &channel, &options, &handlers, &opened));
    llm_options_init(&channel);
    strcpy(channel.stream, "s");
    ROW_SIZES(llm_failover_options, options,
              llm_failover_open(context, CALLS, &channel, &options, &handlers, &opened));
    llm_failover_options_init(&options);
    options.voters = 3;
    ROW_SIZES(llm_failover_handlers, handlers,
              llm_failover_open(context, CALLS, &channel, &options, &handlers, &opened));
    llm_failover_handlers_init(&handlers);
    ROW_INSIDE(llm_failover_open(context, CALLS, &channel, &options, &handlers, &opened), LLM_ESTATE,
               "llm_failover_open");
    options.voters = 2;
    ROW(llm_failover_open(context, CALLS, &channel, &options, &handlers, &opened), LLM_EOPTION,
        "voters is 2");
    options.voters = 3;
    options.snapshot_channel = "loop://snapshots:1";
    ROW(llm_failover_open(context, CALLS, &channel, &options, &handlers, &opened), LLM_EINVAL,
        "handler save is NULL");
    options.snapshot_channel = NULL;
    assert_null(opened);
    ROW(llm_failover_close(NULL), LLM_OK, NULL);
    ROW(llm_failover_close(&opened), LLM_OK, NULL);
    ROW(llm_failover_topic(NULL, "t", &found), LLM_EINVAL, NULL);
    options.voters = 3;
    assert_int_equal(llm_failover_open(context, CALLS, &channel, &options, &handlers, &opened), LLM_OK);
    ROW(llm_failover_topic(opened, NULL, &found), LLM_EINVAL, "name is NULL");
    ROW(llm_failover_topic(opened, "t", NULL), LLM_EINVAL, "topic is NULL");
    ROW(llm_failover_topic(opened, "t", &found), LLM_ESTATE, "is not the primary");
    ROW_INSIDE(llm_failover_close(&opened), LLM_ESTATE, "llm_failover_close");
    ROW((int)llm_failover_role(NULL), LLM_ROLE_BACKUP, NULL);
    ROW((int)llm_failover_fence(NULL), LLM_FENCE_NONE, NULL);
    ROW((int)llm_failover_next(NULL), 0, NULL);
    ROW((int)llm_failover_committed(NULL), 0, NULL);
    ROW(llm_snapshot_write(NULL, "", 1), LLM_EINVAL, NULL);
    assert_int_equal(llm_failover_close(&opened), LLM_OK);
}

static void listener_calls_refuse_wrong_arguments(void **state)
{
    struct llm_listener_handlers handlers = {.size = 0};
    struct llm_connection_handlers answers;
    struct llm_options options;
    struct llm_listener *opened = NULL;

    (void)state;
    llm_connection_handlers_init(&answers);
    ROW(llm_listener_open(NULL, CALLS, NULL, &handlers, &opened), LLM_EINVAL, NULL);
    ROW(llm_listener_open(context, NULL, NULL, &handlers, &opened), LLM_EINVAL, "channel is NULL");
    ROW(llm_listener_open(context, CALLS, NULL, NULL, &opened), LLM_EINVAL, "handlers is NULL");
    ROW(llm_listener_open(context, CALLS, NULL, &handlers, NULL), LLM_EINVAL, "listener is NULL");
    ROW_SIZES(llm_listener_handlers, handlers, llm_listener_open(context, CALLS, NULL, &handlers, &opened));
    llm_listener_handlers_init(&handlers);
    ROW(llm_listener_open(context, CALLS, NULL, &handlers, &opened), LLM_EINVAL, "handler connect");
    handlers.connect = on_request;
    llm_connection_options_init(&options);
    ROW_SIZES(llm_options, options, llm_listener_open(context, CALLS, &options, &handlers, &opened));
    ROW_INSIDE(llm_listener_open(context, CALLS, NULL, &handlers, &opened), LLM_ESTATE, "llm_listener_open");
    assert_null(opened);
    ROW(llm_listener_close(NULL), LLM_OK, NULL);
    ROW(llm_listener_close(&opened), LLM_OK, NULL);
    assert_int_equal(llm_listener_open(context, CALLS, NULL, &handlers, &listener), LLM_OK);
    ROW(llm_listener_open(context, CALLS, NULL, &handlers, &opened), LLM_EADDRINUSE, "listener");
    ROW(llm_listener_accept(NULL, 1, &answers), LLM_EINVAL, NULL);
    ROW(llm_listener_accept(listener, 1, NULL), LLM_EINVAL, "handlers is NULL");
    ROW(llm_listener_accept(listener, 1, &answers), LLM_ENOTFOUND, "0000000000000001");
    ROW_INSIDE(llm_listener_accept(listener, 1, &answers), LLM_ESTATE, "inside a handler");
    ROW(llm_listener_refuse(NULL, 1, 1), LLM_EINVAL, NULL);
    ROW(llm_listener_refuse(listener, 1, 0), LLM_EINVAL, "code 0");
    ROW(llm_listener_refuse(listener, 1, 65536), LLM_EINVAL, "code 65536");
    ROW(llm_listener_refuse(listener, 1, 1), LLM_ENOTFOUND, "0000000000000001");
    ROW_INSIDE(llm_listener_refuse(listener, 1, 1), LLM_ESTATE, "inside a handler");
    ROW_INSIDE(llm_listener_close(&listener), LLM_ESTATE, "llm_listener_close");
    assert_non_null(listener);
}

static int on_caller(void *arg, struct llm_listener *of, const struct llm_caller *caller,
                     struct llm_connection_handlers *handlers)
{
    (void)of;
    (void)handlers;
    *(uint64_t *)arg = caller->id;
    return LLM_EAGAIN;
}

/* Opens a connection, whose caller then waits for the answer of the listener. */
static void caller_waits(const uint64_t *id)
{
    const struct llm_connection_handlers handlers = connection_handlers(&connection);
    const uint64_t before = *id;

    assert_int_equal(llm_connection_open(context, CALLS, NULL, &handlers, NULL, &connection), LLM_OK);
    for (int i = 0; i < ROUNDS && *id == before; i++)
        assert_true(llm_poll(context) >= 0);
    assert_true(*id != before);
}

/* The caller is refused then, so each row needs another one. */
static void a_waiting_caller_is_not_accepted_with_handlers_of_a_wrong_size(void **state)
{
    struct llm_listener_handlers handlers;
    struct llm_connection_handlers answers;
    uint64_t id = 0;

    (void)state;
    llm_connection_handlers_init(&answers);
    llm_listener_handlers_init(&handlers);
    handlers.arg = &id;
    handlers.connect = on_caller;
    assert_int_equal(llm_listener_open(context, CALLS, NULL, &handlers, &listener), LLM_OK);
    caller_waits(&id);
    ROW_SIZE_ZERO(llm_connection_handlers, answers, llm_listener_accept(listener, id, &answers));
    ROW(llm_listener_accept(listener, id, &answers), LLM_ENOTFOUND, "answered already");
    caller_waits(&id);
    ROW_SIZE_LARGER(llm_connection_handlers, answers, llm_listener_accept(listener, id, &answers));
}

static void count_recording(void *arg, const struct llm_recording *recording)
{
    (void)recording;
    ++*(int *)arg;
}

static void replay_calls_refuse_wrong_arguments(void **state)
{
    char directory[] = "/tmp/llm-refusals-XXXXXX";
    const struct llm_message message = {.number = 5};
    struct llm_attributes attributes;
    struct llm_receiver_handlers handlers;
    struct llm_replay_options options;
    struct llm_replay *replay = NULL;
    struct llm_options stream;
    int found = 0;

    (void)state;
    assert_non_null(mkdtemp(directory));
    llm_receiver_handlers_init(&handlers);
    ROW(llm_replay_open(NULL, NULL, &handlers, log_count, NULL, &replay), LLM_EINVAL, "directory is NULL");
    ROW(llm_replay_open(directory, NULL, NULL, log_count, NULL, &replay), LLM_EINVAL, "handlers is NULL");
    ROW(llm_replay_open(directory, NULL, &handlers, log_count, NULL, NULL), LLM_EINVAL, "replay is NULL");
    ROW(llm_replay_open("/nowhere/at/all", NULL, &handlers, log_count, NULL, &replay), LLM_ENOTFOUND,
        "/nowhere/at/all");
    llm_replay_options_init(&options);
    ROW_SIZES(llm_replay_options, options,
              llm_replay_open(directory, &options, &handlers, log_count, NULL, &replay));
    llm_replay_options_init(&options);
    options.from = LLM_JOIN_LIVE;
    ROW(llm_replay_open(directory, &options, &handlers, log_count, NULL, &replay), LLM_EINVAL, "from is 0");
    options.from = (enum llm_join_mode)77;
    ROW(llm_replay_open(directory, &options, &handlers, log_count, NULL, &replay), LLM_EINVAL, "from is 77");
    llm_replay_options_init(&options);
    options.message_bytes_max = UINT64_C(1) << 32;
    ROW(llm_replay_open(directory, &options, &handlers, log_count, NULL, &replay), LLM_EINVAL,
        "message_bytes_max is 4294967296");
    llm_replay_options_init(&options);
    options.session = 0xabc;
    ROW(llm_replay_open(directory, &options, &handlers, log_count, NULL, &replay), LLM_ENOTFOUND,
        "no session 0000000000000abc");
    ROW_SIZES(llm_receiver_handlers, handlers,
              llm_replay_open(directory, NULL, &handlers, log_count, NULL, &replay));
    assert_null(replay);
    llm_receiver_handlers_init(&handlers);
    assert_int_equal(llm_replay_open(directory, NULL, &handlers, log_count, NULL, &replay), LLM_OK);
    ROW(llm_replay_next(NULL, 1), LLM_EINVAL, NULL);
    ROW(llm_replay_next(replay, 0), LLM_EINVAL, "packets_max is 0");
    ROW(llm_replay_next(replay, INT_MIN), LLM_EINVAL, "packets_max is -2147483648");
    ROW(llm_replay_next(replay, 1), 0, NULL);
    llm_attributes_init(&attributes);
    ROW(llm_replay_attributes(NULL, &message, &attributes), LLM_EINVAL, NULL);
    ROW(llm_replay_attributes(replay, NULL, &attributes), LLM_EINVAL, "message is NULL");
    ROW(llm_replay_attributes(replay, &message, NULL), LLM_EINVAL, "attributes is NULL");
    ROW(llm_replay_attributes(replay, &message, &attributes), LLM_EINVAL, "message 5 is not one");
    ROW_SIZES(llm_attributes, attributes, llm_replay_attributes(replay, &message, &attributes));
    ROW(llm_replay_close(NULL), LLM_OK, NULL);
    ROW(llm_replay_close(&replay), LLM_OK, NULL);
    ROW(llm_replay_close(&replay), LLM_OK, NULL);
    ROW(llm_replay_recordings(NULL, count_recording, &found, log_count, NULL), LLM_EINVAL,
        "directory is NULL");
    ROW(llm_replay_recordings(directory, NULL, &found, log_count, NULL), LLM_EINVAL, "found is NULL");
    ROW(llm_replay_recordings("/nowhere/at/all", count_recording, &found, log_count, NULL), LLM_ENOTFOUND,
        "/nowhere/at/all");
    ROW(llm_replay_recordings(directory, count_recording, &found, log_count, NULL), 0, NULL);
    assert_int_equal(found, 0);
    llm_options_init(&stream);
    ROW(llm_replay_continue(NULL, &stream, log_count, NULL), LLM_EINVAL, "directory is NULL");
    ROW(llm_replay_continue(directory, NULL, log_count, NULL), LLM_EINVAL, "options is NULL");
    ROW(llm_replay_continue(directory, &stream, log_count, NULL), LLM_EOPTION, "stream is empty");
    ROW_SIZES(llm_options, stream, llm_replay_continue(directory, &stream, log_count, NULL));
    llm_options_init(&stream);
    strcpy(stream.stream, "s");
    ROW(llm_replay_continue("/nowhere/at/all", &stream, log_count, NULL), LLM_ENOTFOUND, "/nowhere/at/all");
    ROW(llm_replay_continue(directory, &stream, log_count, NULL), 0, NULL);
    assert_int_equal(rmdir(directory), 0);
}

static void every_public_function_is_in_a_row(void **state)
{
    FILE *file = fopen(SYMBOLS, "r");
    char name[128];

    (void)state;
    assert_non_null(file);
    while (fgets(name, sizeof name, file) != NULL) {
        bool found = name[0] == '#';

        name[strcspn(name, "\n")] = '\0';
        for (int i = 0; i < covered_count && !found; i++)
            found = strcmp(covered[i], name) == 0;
        if (!found)
            fail_msg("%s is in no row: add its wrong arguments", name);
    }
    fclose(file);
}

/* All public headers, one after the other. */
static char headers[1 << 17];

static void headers_read(void)
{
    size_t used = 0;
    glob_t found;

    assert_int_equal(glob(HEADERS "/*.h", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r");

        assert_non_null(file);
        used += fread(headers + used, 1, sizeof headers - 1 - used, file);
        assert_true(used < sizeof headers - 1);
        fclose(file);
    }
    headers[used] = '\0';
    globfree(&found);
}

/* A versioned structure has its size as the first member. */
static bool is_versioned(const char *structure)
{
    char start[NAME_MAX_BYTES + 32];

    (void)snprintf(start, sizeof start, "\nstruct %s {\n    size_t size;", structure);
    return strstr(headers, start) != NULL;
}

static bool is_in_a_row_of_size(const char *function, const char *structure, int error)
{
    for (int i = 0; i < sizes_count; i++)
        if (sizes[i].error == error && strcmp(sizes[i].function, function) == 0 &&
            strcmp(sizes[i].structure, structure) == 0)
            return true;
    return false;
}

/* Checks the parameters of a declaration, from its name to its end; returns how many are versioned. */
static int check_parameters(const char *name, const char *end)
{
    char function[NAME_MAX_BYTES], structure[NAME_MAX_BYTES];
    const char *at = name;
    int versioned = 0;

    (void)snprintf(function, sizeof function, "%.*s", (int)strcspn(name, "("), name);
    while ((at = strstr(at, "struct llm_")) != NULL && at < end) {
        at += strlen("struct ");
        (void)snprintf(structure, sizeof structure, "%.*s", (int)strcspn(at, " "), at);
        if (!is_versioned(structure))
            continue;
        versioned++;
        if (!is_in_a_row_of_size(function, structure, LLM_EINVAL) ||
            !is_in_a_row_of_size(function, structure, LLM_EVERSION))
            fail_msg("%s is in no ROW_SIZES with a struct %s", function, structure);
    }
    return versioned;
}

static void every_versioned_parameter_is_in_rows_of_wrong_sizes(void **state)
{
    const char *at = headers;
    int versioned = 0;

    (void)state;
    headers_read();
    while ((at = strstr(at, "\nLLM_API ")) != NULL) {
        const char *const end = strchr(at, ';'), *const open = strchr(at, '(');
        const char *name = open;

        assert_true(end != NULL && open != NULL && open < end);
        while (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z'))
            name--;
        /* The others are given structures without a size yet. */
        if (strncmp(open - strlen("_init"), "_init", strlen("_init")) != 0)
            versioned += check_parameters(name, end);
        at = end;
    }
    assert_true(versioned >= 17);
}

/* ---------------------------------------------------------------------------------------------- in a loop */

static void a_call_refused_in_a_loop_is_logged_once_a_second(void **state)
{
    (void)state;
    row_begin();
    for (int i = 0; i < 1000; i++)
        assert_int_equal(llm_send(topic, "x", 1, 4), LLM_EINVAL);
    assert_int_equal(lines, 1);
    /* Another kind is logged separately, and the next line of the first kind counts the others. */
    assert_int_equal(llm_send(topic, NULL, 1, 0), LLM_EINVAL);
    assert_int_equal(lines, 2);
    for (unsigned i = 0; i < LLI_REFUSALS; i++)
        context->refusals.kinds[i].logged_at -= UINT64_C(1000000000);
    assert_int_equal(llm_send(topic, "x", 1, 4), LLM_EINVAL);
    assert_int_equal(lines, 3);
    assert_non_null(strstr(line, "999"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(text_and_init_calls_refuse_wrong_arguments),
        TEST(context_calls_refuse_wrong_arguments),
        TEST(loop_thread_calls_refuse_wrong_arguments),
        TEST(transmitter_calls_refuse_wrong_arguments),
        TEST(topic_calls_refuse_wrong_arguments),
        TEST(send_calls_refuse_wrong_arguments),
        TEST(claim_calls_refuse_wrong_arguments),
        TEST(messages_longer_than_the_topic_allows_are_refused),
        TEST(receiver_calls_refuse_wrong_arguments),
        TEST(acknowledge_calls_refuse_wrong_arguments),
        TEST(connection_calls_refuse_wrong_arguments),
        TEST(calls_on_an_ended_connection_are_refused),
        TEST(store_calls_refuse_wrong_arguments),
        TEST(failover_calls_refuse_wrong_arguments),
        TEST(listener_calls_refuse_wrong_arguments),
        TEST(a_waiting_caller_is_not_accepted_with_handlers_of_a_wrong_size),
        TEST(replay_calls_refuse_wrong_arguments),
        cmocka_unit_test(every_public_function_is_in_a_row),
        cmocka_unit_test(every_versioned_parameter_is_in_rows_of_wrong_sizes),
        TEST(a_call_refused_in_a_loop_is_logged_once_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
