/* SPDX-License-Identifier: Apache-2.0 */
/* libllm with topics. */
#include <llm/llm.h>

#include "../engine/control.h"
#include "../engine/steady.h"
#include "feed.h"

static struct own_feed {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_topic **topics;
    uint32_t first; /* number of topics[0] */
} own;

static void own_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    market_deliver(message->data, message->size);
}

/* Lost messages show in the numbers on each topic. */
static void own_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_LIVE)
        market_live();
}

static void own_open_topics(const struct feed_link *link)
{
    char name[FEED_NAME_BYTES + 1];
    struct llm_cache cache;

    own.first = link->topics.first;
    own.topics = control_memory(link->topics.count, sizeof *own.topics);
    llm_cache_init(&cache);
    cache.messages = link->cache;
    cache.bytes_max = (uint32_t)link->size;
    for (uint32_t i = 0; i < link->topics.count; i++) {
        int error;

        feed_topic_name(own.first + i, name);
        while ((error = llm_topic_open(own.transmitter, name, 0, &own.topics[i])) == LLM_EAGAIN)
            steady_poll(own.context);
        steady_ok(error, name);
        if (link->cache > 0)
            steady_ok(llm_topic_cache(own.topics[i], &cache), "llm_topic_cache");
    }
}

static void own_subscribe(const struct feed_link *link)
{
    char name[FEED_NAME_BYTES + 1];

    own.receiver = steady_receiver(own.context, link->subscribe, own_message, own_event, NULL);
    for (uint32_t topic = 0; link->watched != NULL && topic < link->topics_max; topic++) {
        feed_topic_name(topic, name);
        if (link->watched[topic])
            steady_ok(llm_receiver_subscribe(own.receiver, name), name);
    }
}

static void own_open(const struct feed_link *link)
{
    struct llm_context_options options = steady_options();

    options.wait = link->blocks ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN;
    own.context = steady_open(&options);
    if (*link->publish != '\0') {
        steady_ok(llm_transmitter_open(own.context, link->publish, NULL, NULL, &own.transmitter),
                  link->publish);
        own_open_topics(link);
    }
    if (*link->subscribe != '\0')
        own_subscribe(link);
}

static bool own_send(uint32_t topic, const void *data, size_t size, bool more)
{
    const int error = llm_send(own.topics[topic - own.first], data, size, more ? LLM_SEND_MORE : 0);

    return error != LLM_EAGAIN && steady_ok(error, "llm_send") == LLM_OK;
}

static int own_poll(void)
{
    return steady_ok(llm_poll(own.context), "llm_poll");
}

static int own_wait(uint64_t ns)
{
    return steady_ok(llm_wait(own.context, ns), "llm_wait");
}

static void own_close(void)
{
    if (own.receiver != NULL)
        steady_ok(llm_receiver_close(&own.receiver), "llm_receiver_close");
    if (own.transmitter != NULL)
        steady_ok(llm_transmitter_close(&own.transmitter), "llm_transmitter_close");
    steady_ok(llm_context_close(&own.context), "llm_context_close");
}

const struct feed feed_llm = {
    .name = "llm",
    .open = own_open,
    .send = own_send,
    .poll = own_poll,
    .wait = own_wait,
    .close = own_close,
};
