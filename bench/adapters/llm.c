/* SPDX-License-Identifier: Apache-2.0 */
/* libllm. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llm/llm.h>

#include "../engine/control.h"
#include "adapter.h"

enum { OWN_STATS_MAX = 512 };

static struct own {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_topic **topics; /* topics that messages use in turn */
    uint64_t opened;
    uint64_t used;
    uint64_t turn;
} own;

static void own_messages(void *arg, const struct llm_message *messages, int count)
{
    (void)arg;
    for (int i = 0; i < count; i++)
        adapter_deliver_numbered(messages[i].data, messages[i].size, messages[i].number);
}

static void own_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_GAP)
        (void)fprintf(stderr, "messages %" PRIu64 " to %" PRIu64 " are lost: %s\n", event->first, event->last,
                      llm_reason_name(event->reason));
}

/* The return direction of a blast carries a few reports only; at the default sizes its memory would
 * distort the figures of the measured channel. Channels that share an interface by AF_XDP share its sockets,
 * so their buffers must match. */
static void own_make_small(struct llm_options *options, const char *channel)
{
    options->history_bytes = 262144;
    options->history_packets = 128;
    options->window_packets = 64;
    options->reorder_bytes = 262144;
    options->topics_max = 16;
    options->receivers_max = 16;
    options->message_bytes_max = 4096;
    if (strncmp(channel, "xdp://", strlen("xdp://")) != 0)
        options->rcvbuf_bytes = 1048576;
}

static void own_topics(uint64_t count)
{
    char name[32];
    int error = LLM_OK;

    if (count > own.opened) {
        own.topics = realloc(own.topics, count * sizeof(struct llm_topic *));
        if (own.topics == NULL)
            control_fail("topics", "no memory");
    }
    while (error == LLM_OK && own.opened < count) {
        (void)snprintf(name, sizeof name, "data %" PRIu64, own.opened);
        while ((error = llm_topic_open(own.transmitter, name, 0, &own.topics[own.opened])) == LLM_EAGAIN)
            (void)llm_poll(own.context);
        own.opened++;
    }
    if (error != LLM_OK)
        control_fail(name, llm_error_text(error));
    own.used = count;
    own.turn = 0;
}

static int own_open(const struct adapter_link *link)
{
    struct llm_receiver_handlers handlers;
    struct llm_options small, defaults;
    int error = llm_context_open(NULL, &own.context);

    llm_options_init(&defaults);
    small = defaults;
    own_make_small(&small, link->send);
    llm_receiver_handlers_init(&handlers);
    handlers.messages = own_messages;
    handlers.event = own_event;
    if (error == LLM_OK)
        error = llm_transmitter_open(own.context, link->send, link->small && !link->near ? &small : &defaults,
                                     NULL, &own.transmitter);
    if (error == LLM_OK)
        error = llm_receiver_open(own.context, link->receive, link->small && link->near ? &small : &defaults,
                                  &handlers, &own.receiver);
    if (error != LLM_OK)
        return adapter_fail("open", llm_error_text(error));
    own_topics(1);
    return 0;
}

static int own_send(const void *data, size_t size, bool more)
{
    struct llm_topic *topic = own.topics[own.turn];
    const int error = llm_send(topic, data, size, more ? LLM_SEND_MORE : 0);

    if (error == LLM_OK) {
        own.turn = own.turn + 1 < own.used ? own.turn + 1 : 0;
        return 1;
    }
    if (error != LLM_EAGAIN)
        control_fail("a message is refused", llm_error_text(error));
    return 0;
}

static int own_poll(void)
{
    const int count = llm_poll(own.context);

    if (count > 0)
        adapter_delivered();
    return count > 0 ? count : 0;
}

static void own_close(void)
{
    (void)llm_receiver_close(&own.receiver);
    (void)llm_transmitter_close(&own.transmitter);
    (void)llm_context_close(&own.context);
    free(own.topics);
}

static uint64_t own_pump(const uint8_t *pattern, size_t size, uint64_t count)
{
    const uint64_t first = llm_transmitter_next(own.transmitter);
    uint64_t number = first;
    int error = LLM_OK;

    for (; number < first + count; number++) {
        error = llm_send(own.topics[own.turn], pattern + number % 256, size, LLM_SEND_MORE);
        if (error != LLM_OK)
            break;
        own.turn = own.turn + 1 < own.used ? own.turn + 1 : 0;
    }
    if (error != LLM_OK && error != LLM_EAGAIN)
        control_fail("a message is refused", llm_error_text(error));
    return number - first;
}

static uint64_t own_counter(const char *name)
{
    struct llm_counter stats[OWN_STATS_MAX];
    const int count = llm_context_counters(own.context, stats, OWN_STATS_MAX);
    uint64_t sum = 0;

    for (int i = 0; i < count && i < OWN_STATS_MAX; i++)
        if (strncmp(stats[i].object, "transmitter", strlen("transmitter")) == 0 &&
            strcmp(stats[i].name, name) == 0)
            sum += stats[i].value;
    return sum;
}

/* Writes the counters that are not zero, by object. */
static void own_counters(void)
{
    struct llm_counter stats[OWN_STATS_MAX];
    const int count = llm_context_counters(own.context, stats, OWN_STATS_MAX);
    const char *object = "";

    for (int i = 0; i < count && i < OWN_STATS_MAX; i++) {
        if (stats[i].value == 0)
            continue;
        if (strcmp(object, stats[i].object) != 0) {
            if (*object != '\0')
                json_end('}');
            json_begin(stats[i].object, '{');
        }
        object = stats[i].object;
        json_number(stats[i].name, (double)stats[i].value);
    }
    if (*object != '\0')
        json_end('}');
}

const struct adapter adapter_llm = {
    .name = "libllm",
    .batch = 2048,
    .open = own_open,
    .send = own_send,
    .poll = own_poll,
    .close = own_close,
    .pump = own_pump,
    .topics = own_topics,
    .counter = own_counter,
    .counters = own_counters,
};
