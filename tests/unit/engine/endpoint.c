/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint over a transport whose queue is full at the time of a post. */
#include <stdio.h>

#include "unit.h"

#include "engine/objects.h"

#define CHANNEL                                                                                              \
    "loop://"                                                                                                \
    "endpoint:1?history_bytes=1M&history_packets=1024&reorder_bytes=1M&sessions_max=2&message_bytes_max=64K" \
    "&topics_max=8&window_packets=1024&receivers_max=4&mtu=1500&linger_ns=0"

/* Decorator between the endpoint and loop. */
static struct {
    const struct lli_transport *loop;
    struct lli_transport transport;
    bool full;           /* takes nothing until the next flush */
    uint64_t found_full; /* posts refused for that reason */
    uint64_t waiting;    /* packets taken since the latest flush */
} queue;

static int queue_post(void *instance, const struct lli_out *packets, int count)
{
    int taken;

    if (queue.full) {
        queue.found_full++;
        return 0;
    }
    taken = queue.loop->post(instance, packets, count);
    queue.waiting += (uint64_t)taken;
    return taken;
}

static int queue_flush(void *instance)
{
    queue.full = false;
    queue.waiting = 0;
    return queue.loop->flush(instance);
}

static void queue_put_before(struct lli_endpoint *endpoint)
{
    queue.loop = endpoint->transport;
    queue.transport = *queue.loop;
    queue.transport.post = queue_post;
    queue.transport.flush = queue_flush;
    endpoint->transport = &queue.transport;
}

/* An idle transmitter sends heartbeats only: no later packet flushes them. */
static void a_control_packet_leaves_when_a_full_queue_has_room(void **state)
{
    struct llm_context_options options;
    struct llm_transmitter *transmitter;
    struct llm_context *context;
    struct llm_topic *topic;

    (void)state;
    llm_context_options_init(&options);
    options.stats_directory = "";
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
    queue_put_before(transmitter->endpoint);
    for (int i = 0; i < 3; i++) {
        queue.full = true;
        while (queue.found_full == (uint64_t)i)
            assert_true(llm_poll(context) >= 0);
        assert_int_equal(queue.waiting, 0);
    }
    transmitter->endpoint->transport = queue.loop;
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

/* ---------------------------------------------------------------------------------------------- source */

static bool from_home;

static bool queue_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    (void)instance;
    (void)packet;
    (void)address;
    return from_home;
}

static void report_of(struct llm_context *context, const struct llm_transmitter *transmitter,
                      uint64_t receiver, struct llm_transmitter *by)
{
    const struct lli_wire_status status = {.session = transmitter->tx.config.session,
                                           .receiver = receiver,
                                           .next = transmitter->tx.sent,
                                           .highest = transmitter->tx.sent,
                                           .address = by->endpoint->address};
    const uint64_t counted =
        transmitter->tx.counters.status_received + transmitter->endpoint->counters.packets_misaddressed;
    struct lli_packet packet = {.data = lli_endpoint_scratch(by->endpoint),
                                .to = &transmitter->endpoint->address};

    packet.size = (uint32_t)lli_wire_put_status((uint8_t *)(uintptr_t)packet.data, &status);
    lli_endpoint_post_control(by->endpoint, &packet, by->group);
    lli_endpoint_flush(by->endpoint);
    while (transmitter->tx.counters.status_received + transmitter->endpoint->counters.packets_misaddressed ==
           counted)
        assert_true(llm_poll(context) >= 0);
}

static void packets_that_announce_another_host_are_refused_by_default(void **state)
{
    static const char *const options_text[] = {"", "&check_source=0"};
    struct llm_context_options options;

    (void)state;
    llm_context_options_init(&options);
    options.stats_directory = "";
    for (int i = 0; i < 2; i++) {
        struct llm_transmitter *transmitter;
        struct llm_context *context;
        char channel[512];

        (void)snprintf(channel, sizeof channel, "%s%s", CHANNEL, options_text[i]);
        assert_int_equal(llm_context_open(&options, &context), LLM_OK);
        assert_int_equal(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), LLM_OK);
        queue_put_before(transmitter->endpoint);
        queue.transport.came_from = queue_came_from;
        from_home = true;
        report_of(context, transmitter, 1, transmitter);
        assert_int_equal(transmitter->endpoint->counters.packets_misaddressed, 0);
        from_home = false;
        report_of(context, transmitter, 2, transmitter);
        assert_int_equal(transmitter->endpoint->counters.packets_misaddressed, i == 0);
        assert_int_equal(transmitter->tx.counters.status_received, 1 + i);
        transmitter->endpoint->transport = queue.loop;
        assert_int_equal(llm_transmitter_close(&transmitter), 0);
        assert_int_equal(llm_context_close(&context), LLM_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_control_packet_leaves_when_a_full_queue_has_room),
        cmocka_unit_test(packets_that_announce_another_host_are_refused_by_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
