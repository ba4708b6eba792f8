/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing allocates after open: this program defines the allocator's functions itself, counts the calls, and
 * passes them on to the C library's under their internal names.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <llm/llm.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sanitized.h"

enum { EXIT_SKIP = 77, TOPICS = 8, ROUNDS = 4000 };

static atomic_ulong allocations;

#if !SANITIZED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);

static void count_one(void)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

void *malloc(size_t size)
{
    count_one();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    count_one();
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    count_one();
    return __libc_realloc(old, size);
}

void *memalign(size_t align, size_t size)
{
    count_one();
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    count_one();
    return __libc_memalign(align, size);
}

int posix_memalign(void **result, size_t align, size_t size)
{
    void *memory;

    count_one();
    memory = __libc_memalign(align, size);
    if (memory == NULL)
        return ENOMEM;
    *result = memory;
    return 0;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    count_one();
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
#endif

/* ------------------------------------------------------------------------------------------------ traffic */

struct station {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_topic *topics[TOPICS];
    uint64_t delivered;
    uint64_t lost;
    uint64_t next;
};

static void on_message(void *arg, const struct llm_message *message)
{
    struct station *station = arg;

    if (message->number != station->next)
        fail_msg("message %llu came where %llu was due", (unsigned long long)message->number,
                 (unsigned long long)station->next);
    pattern_check(message->data, message->size, message->number);
    station->next++;
    station->delivered++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct station *station = arg;

    if (event->kind != LLM_EVENT_GAP)
        return;
    station->lost += event->last + 1 - event->first;
    station->next = event->last + 1;
}

/* False if the channel cannot be opened on this machine. */
static bool station_open(struct station *station, const char *channel)
{
    struct llm_receiver_handlers handlers;

    memset(station, 0, sizeof *station);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = station;
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_context_open(NULL, &station->context), LLM_OK);
    if (llm_receiver_open(station->context, channel, NULL, &handlers, &station->receiver) != LLM_OK ||
        llm_transmitter_open(station->context, channel, NULL, NULL, &station->transmitter) != LLM_OK) {
        (void)llm_context_close(&station->context);
        return false;
    }
    for (int i = 0; i < TOPICS; i++) {
        char name[16];

        snprintf(name, sizeof name, "topic %d", i);
        assert_int_equal(
            llm_topic_open(station->transmitter, name, i % 2 ? LLM_TOPIC_WHOLE : 0, &station->topics[i]),
            LLM_OK);
    }
    return true;
}

static void station_poll_until(struct station *station, uint64_t number)
{
    const uint64_t until = llm_clock() + UINT64_C(10000000000);

    while (station->next < number && llm_clock() < until)
        assert_true(llm_poll(station->context) >= 0);
    assert_int_equal(station->next, number);
}

static void station_send(struct station *station, size_t size, uint64_t *random)
{
    static uint8_t bytes[20000];
    struct llm_topic *topic = station->topics[below(random, TOPICS)];
    const unsigned flags = below(random, 4);
    void *place;

    pattern_fill(bytes, size, llm_transmitter_next(station->transmitter));
    if (size <= llm_transmitter_claim_max(station->transmitter) && chance(random, 30)) {
        assert_int_equal(llm_topic_claim(topic, size, &place), LLM_OK);
        memcpy(place, bytes, size);
        assert_int_equal(llm_topic_commit(topic, size, flags), LLM_OK);
        return;
    }
    while (llm_send(topic, bytes, size, flags) == LLM_EAGAIN)
        (void)llm_poll(station->context);
}

static void station_run(struct station *station, int rounds, uint64_t *random)
{
    struct llm_counter stats[256];
    uint64_t value;

    for (int round = 0; round < rounds; round++) {
        for (uint32_t burst = below(random, 8); burst > 0; burst--)
            station_send(station, chance(random, 10) ? below(random, 20000) : below(random, 200), random);
        /* The receiver shares the thread: pending data must fit the memory of the socket or inbox. */
        if (round % 16 == 0)
            station_poll_until(station, llm_transmitter_next(station->transmitter));
        (void)llm_poll(station->context);
        (void)llm_context_deadline(station->context);
    }
    (void)llm_transmitter_flush(station->transmitter);
    station_poll_until(station, llm_transmitter_next(station->transmitter));
    (void)llm_context_fd(station->context);
    (void)llm_context_counters(station->context, stats, 256);
    (void)llm_context_counter(station->context, "messages_sent", &value);
}

static void expect_no_allocation(const char *channel, bool may_be_absent)
{
    struct station station;
    uint64_t random = 1;
    unsigned long before, after;

    if (!station_open(&station, channel)) {
        assert_true(may_be_absent);
        print_message("%s cannot be opened here: not tested\n", channel);
        return;
    }
    before = atomic_load(&allocations);
    assert_true(before > 0);
    station_run(&station, ROUNDS, &random);
    after = atomic_load(&allocations);
    assert_true(station.delivered > 5000);
    if (after != before)
        fail_msg("%s: %lu allocations after open", channel, after - before);
    (void)llm_context_close(&station.context);
}

static void nothing_allocates_after_open_over_loop(void **state)
{
    (void)state;
    expect_no_allocation("loop://allocation:1?mtu=1500&linger_ns=0", false);
}

static void nothing_allocates_while_losses_are_repaired(void **state)
{
    (void)state;
    expect_no_allocation(
        "impair+loop://allocation:2?mtu=1500&linger_ns=0&impair_loss_ppm=50000&impair_reorder_ppm=20000"
        "&impair_duplicate_ppm=20000&impair_delay_ns=20000",
        false);
}

static void nothing_allocates_after_open_over_udp(void **state)
{
    (void)state;
    expect_no_allocation("udp://239.195.77.1:17077?interface=lo&mtu=1500&linger_ns=0&rcvbuf_bytes=4M", true);
}

/* ------------------------------------------------------------------------------------------- other claims */

#define TIME_MAX UINT64_C(20000000000)
#define POLL_UNTIL(context, condition)                                     \
    do {                                                                   \
        for (const uint64_t until = llm_clock() + TIME_MAX; !(condition);) \
            assert_true(llm_poll(context) >= 0 && llm_clock() < until);    \
    } while (0)

static void expect_none_since(unsigned long before, const char *during)
{
    const unsigned long after = atomic_load(&allocations);

    if (after != before)
        fail_msg("%lu allocations during %s", after - before, during);
}

struct late {
    struct llm_receiver *receiver;
    uint64_t before_live, delivered;
    bool live;
};

static void on_late_message(void *arg, const struct llm_message *message)
{
    struct late *late = arg;

    pattern_check(message->data, message->size, message->number);
    late->delivered++;
    late->before_live += !late->live;
}

static void on_late_event(void *arg, const struct llm_event *event)
{
    struct late *late = arg;

    late->live |= event->kind == LLM_EVENT_LIVE;
}

static void late_open(struct llm_context *context, struct late *late, const char *channel)
{
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = late;
    handlers.message = on_late_message;
    handlers.event = on_late_event;
    assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &late->receiver), LLM_OK);
}

/* From the history, and from the caches of topics, which the transmitter sends once its session is old. */
static void nothing_allocates_during_late_joins(void **state)
{
    static struct late oldest, latest;
    struct station station;
    struct llm_cache cache;
    struct llm_assurance assurance;
    uint64_t random = 1, replayed = 0;
    unsigned long before;

    (void)state;
    assert_true(station_open(&station, "loop://allocation:3?mtu=1500&linger_ns=0"));
    llm_cache_init(&cache);
    cache.bytes_max = 200;
    llm_assurance_init(&assurance);
    assert_int_equal(llm_topic_cache(station.topics[0], &cache), LLM_OK);
    assert_int_equal(llm_topic_assure(station.topics[2], &assurance), LLM_OK);
    before = atomic_load(&allocations);
    for (int i = 0; i < 100; i++)
        station_send(&station, below(&random, 200), &random);
    (void)llm_transmitter_flush(station.transmitter);
    station_poll_until(&station, llm_transmitter_next(station.transmitter));
    for (const uint64_t until = llm_clock() + UINT64_C(1500000000); llm_clock() < until;)
        assert_true(llm_poll(station.context) >= 0);
    expect_none_since(before, "sends to cached and assured topics");
    late_open(station.context, &oldest, "loop://allocation:3?mtu=1500&join=oldest");
    late_open(station.context, &latest, "loop://allocation:3?mtu=1500&join=latest");
    before = atomic_load(&allocations);
    POLL_UNTIL(station.context, oldest.live && latest.live);
    for (int i = 0; i < 100; i++)
        station_send(&station, below(&random, 200), &random);
    (void)llm_transmitter_flush(station.transmitter);
    POLL_UNTIL(station.context, oldest.delivered == 200 && latest.delivered == latest.before_live + 100);
    expect_none_since(before, "late joins");
    assert_int_equal(oldest.before_live, 100);
    assert_true(latest.before_live > 0);
    assert_int_equal(llm_context_counter(station.context, "packets_replayed", &replayed), LLM_OK);
    assert_true(replayed > 0);
    assert_int_equal(llm_context_close(&station.context), LLM_OK);
}

/* Subscribing allocates. */
static void nothing_allocates_while_subscriptions_select_topics(void **state)
{
    struct station station;
    struct late selecting = {.live = true};
    struct llm_topic *added;
    unsigned long before;

    (void)state;
    assert_true(station_open(&station, "loop://allocation:4?mtu=1500&linger_ns=0"));
    late_open(station.context, &selecting, "loop://allocation:4?mtu=1500");
    before = atomic_load(&allocations);
    assert_int_equal(llm_receiver_subscribe(selecting.receiver, "topic 1"), LLM_OK);
    assert_int_equal(llm_receiver_subscribe(selecting.receiver, "prices.*"), LLM_OK);
    assert_true(atomic_load(&allocations) > before);
    assert_int_equal(llm_topic_open(station.transmitter, "prices.gold", 0, &added), LLM_OK);
    before = atomic_load(&allocations);
    for (uint64_t i = 0; i < 300; i++) {
        uint8_t byte[8];

        pattern_fill(byte, sizeof byte, llm_transmitter_next(station.transmitter));
        assert_int_equal(llm_send(i % 3 == 0 ? added : station.topics[i % 3 - 1], byte, sizeof byte, 0),
                         LLM_OK);
        if (i % 16 == 0)
            station_poll_until(&station, i + 1);
    }
    POLL_UNTIL(station.context, selecting.delivered == 200 && station.next == 300);
    assert_int_equal(llm_receiver_unsubscribe(selecting.receiver, "topic 1"), LLM_OK);
    assert_true(llm_poll(station.context) >= 0);
    expect_none_since(before, "delivery of subscribed topics");
    assert_int_equal(llm_context_close(&station.context), LLM_OK);
}

/* Two sides of a connection in one context. */
static struct {
    struct llm_connection *asks, *answers;
    uint64_t caller;
    int connected, replies;
} talk;

static void on_talk_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    if (event->kind != LLM_EVENT_CONNECTED)
        return;
    *(struct llm_connection **)arg = connection;
    talk.connected++;
}

static void on_talk_request(void *arg, struct llm_connection *connection, const struct llm_request *asked)
{
    (void)arg;
    assert_int_equal(llm_connection_reply(connection, asked->id, asked->data, asked->size), LLM_OK);
}

static void on_talk_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    (void)arg;
    (void)data;
    assert_int_equal(reason, LLM_REASON_NONE);
    assert_int_equal(size, 3);
    talk.replies++;
}

static int on_talk_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                          struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)listener;
    (void)handlers;
    talk.caller = caller->id;
    return LLM_EAGAIN;
}

static struct llm_connection_handlers talk_handlers(struct llm_connection **connection)
{
    struct llm_connection_handlers handlers;

    llm_connection_handlers_init(&handlers);
    handlers.arg = connection;
    handlers.event = on_talk_event;
    handlers.request = on_talk_request;
    return handlers;
}

/* Accepting allocates, and so do the first request and the first reply, which open topics. */
static void nothing_allocates_for_callers_requests_and_replies(void **state)
{
    const char *const channel = "loop://allocation:5?mtu=1500&linger_ns=0";
    const struct llm_connection_handlers asks = talk_handlers(&talk.asks),
                                         answers = talk_handlers(&talk.answers);
    struct llm_listener_handlers handlers;
    struct llm_listener *listener;
    struct llm_context *context;
    unsigned long before;

    (void)state;
    llm_listener_handlers_init(&handlers);
    handlers.connect = on_talk_caller;
    assert_int_equal(llm_context_open(NULL, &context), LLM_OK);
    assert_int_equal(llm_listener_open(context, channel, NULL, &handlers, &listener), LLM_OK);
    assert_int_equal(llm_connection_open(context, channel, NULL, &asks, NULL, &talk.asks), LLM_OK);
    before = atomic_load(&allocations);
    POLL_UNTIL(context, talk.caller != 0);
    expect_none_since(before, "the request of a connection");
    assert_int_equal(llm_listener_accept(listener, talk.caller, &answers), LLM_OK);
    assert_true(atomic_load(&allocations) > before);
    before = atomic_load(&allocations);
    POLL_UNTIL(context, talk.connected == 2);
    expect_none_since(before, "the begin of a connection");
    assert_int_equal(llm_connection_request(talk.asks, "ask", 3, TIME_MAX, on_talk_reply, NULL), LLM_OK);
    POLL_UNTIL(context, talk.replies == 1);
    before = atomic_load(&allocations);
    for (int i = 1; i < 1000; i++) {
        assert_int_equal(llm_connection_request(talk.asks, "ask", 3, TIME_MAX, on_talk_reply, NULL), LLM_OK);
        POLL_UNTIL(context, talk.replies == i + 1);
    }
    expect_none_since(before, "requests and replies");
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_allocates_after_open_over_loop),
        cmocka_unit_test(nothing_allocates_while_losses_are_repaired),
        cmocka_unit_test(nothing_allocates_after_open_over_udp),
        cmocka_unit_test(nothing_allocates_during_late_joins),
        cmocka_unit_test(nothing_allocates_while_subscriptions_select_topics),
        cmocka_unit_test(nothing_allocates_for_callers_requests_and_replies),
    };

    return SANITIZED ? EXIT_SKIP : cmocka_run_group_tests(tests, NULL, NULL);
}
