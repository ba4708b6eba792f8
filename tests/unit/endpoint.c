/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint over a transport whose queue is full when something is to be posted. */
#include "unit.h"

#include "objects.h"

#define CHANNEL "loop://endpoint:1?history_bytes=1M&history_packets=1024&reorder_bytes=1M&sessions_max=2&message_bytes_max=64K" \
                "&topics_max=8&window_packets=1024&receivers_max=4&mtu=1500&linger_ns=0"

/* Stands between the endpoint and loop. */
static struct {
    const struct lli_transport *loop;
    struct lli_transport transport;
    bool full;           /* takes nothing until it is flushed */
    uint64_t found_full; /* posts that found it so */
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

/* Heartbeats are all that an idle transmitter sends: nothing that follows takes one along. */
static void a_control_packet_that_found_the_queue_full_leaves_with_the_poll_that_made_room(void **state)
{
    struct llm_context_options options;
    struct llm_transmitter *transmitter;
    struct llm_context *context;
    struct llm_topic *topic;

    (void)state;
    llm_context_options_init(&options);
    options.stats_directory = "";
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL, NULL, &transmitter), LLM_OK);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_control_packet_that_found_the_queue_full_leaves_with_the_poll_that_made_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
