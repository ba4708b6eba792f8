/* SPDX-License-Identifier: Apache-2.0 */
/* Public API of receivers, and the table of followed sessions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/lifecycle.h"
#include "engine/objects.h"
#include "engine/sealing.h"
#include "config/options.h"
#include "security/guard.h"

void llm_receiver_handlers_init(struct llm_receiver_handlers *handlers)
{
    if (handlers == NULL)
        return;
    *handlers = (struct llm_receiver_handlers){.size = sizeof *handlers};
}

/* ------------------------------------------------------------------------------------------------ open */

/* Places in the table of hints for each session: with a quarter of them in use, sessions rarely share one. */
enum { RECEIVER_HINTS = 4 };

static void receiver_configure(struct llm_receiver *receiver, const struct llm_options *options)
{
    receiver->sessions_max = options->sessions_max;
    receiver->random = lli_entropy();
    receiver->join = lli_options_join(options);
    receiver->config = (struct lli_rx_config){
        .receiver = lli_entropy() | 1,
        .as_it_arrives = lli_options_as_it_arrives(options),
        .chooses = receiver->join.mode != LLM_JOIN_LIVE || receiver->handlers.join != NULL,
        .otherwise = lli_options_join_else(options),
        .window_packets = options->window_packets,
        .topics_max = options->topics_max,
        .counts_topics = options->topic_counters != 0,
        .message_bytes_max = options->message_bytes_max,
        .nak_delay = options->nak_delay_ns,
        .nak_receivers_immediate = options->nak_receivers_immediate,
        .nak_backoff_min = options->nak_backoff_ns_min,
        .nak_retry_min = options->nak_retry_ns_min,
        .nak_retry_max = options->nak_retry_ns_max,
        .nak_giveup = options->nak_giveup_ns,
        .status = options->status_ns,
        .silence = options->silence_ns,
        .timeout = options->session_timeout_ns,
        .limits = receiver->context->watch.interval == 0 ? NULL : &receiver->watch.latest,
        .limits_ever = &receiver->watch.ever,
        .application_acknowledges = options->acknowledge == LLM_ACKNOWLEDGE_APPLICATION,
        .name_size = (uint8_t)strlen(options->receiver_name),
        .address = receiver->endpoint->address,
        .confirms = true,
        .stores = options->stores != 0,
        .store_wait = options->store_wait_ns,
    };
    memcpy(receiver->config.name, options->receiver_name, receiver->config.name_size);
    lli_sealing_hold(receiver->endpoint, &receiver->config);
}

/* Streams that a receiver remembers, if it follows fewer sessions. */
enum { RECEIVER_STREAMS = 64 };

static void receiver_layout(struct llm_receiver *receiver, uint64_t reorder_bytes, struct lli_arena *arena,
                            struct lli_arena *rare)
{
    const struct lli_caps *caps = &receiver->endpoint->caps;
    const uint32_t longest =
        receiver->config.records_protected ? 2 * caps->payload_max + LLI_PROTECT_DATA : caps->payload_max;
    struct lli_rx measured;

    receiver->sessions =
        lli_arena_take(arena, receiver->sessions_max * sizeof *receiver->sessions, _Alignof(struct lli_rx));
    lli_reorder_init(&receiver->reorder, reorder_bytes, longest, caps->flags & LLI_CAP_ORDERED ? rare : arena,
                     rare);
    lli_streams_init(&receiver->streams, (uint32_t)lli_max(receiver->sessions_max, RECEIVER_STREAMS), rare);
    for (uint32_t i = 0; i < receiver->sessions_max; i++)
        lli_rx_init(receiver->sessions == NULL ? &measured : &receiver->sessions[i], &receiver->config,
                    &receiver->reorder, &receiver->counters, &receiver->random, arena, rare);
}

int lli_receiver_place(struct llm_receiver *receiver, const struct llm_options *options)
{
    const struct llm_context *context = receiver->context;
    struct lli_memory_policy policy = {
        .huge_pages = context->options.huge_pages,
        .populate = true,
        .numa_node =
            context->options.numa_node >= 0 ? context->options.numa_node : receiver->endpoint->caps.numa_node,
    };
    struct lli_arena arena = {.memory = NULL}, rare = {.memory = NULL};
    int error;

    receiver_configure(receiver, options);
    receiver->hints_mask = 3;
    while (receiver->hints_mask < receiver->sessions_max * RECEIVER_HINTS)
        receiver->hints_mask = receiver->hints_mask * 2 + 1;
    receiver->hints = calloc(receiver->hints_mask + 1, sizeof *receiver->hints);
    if (receiver->hints == NULL)
        return lli_fail(&context->log, LLM_ENOMEM, "no memory for %u sessions", receiver->sessions_max);
    receiver_layout(receiver, options->reorder_bytes, &arena, &rare);
    error = lli_memory_map(&receiver->memory, arena.used, &policy, &context->log);
    if (error != LLM_OK)
        return error;
    /*
     * Room for the longest messages and many names in every session, and for early packets of a transport
     * that rarely has any: pages are touched only when used.
     */
    policy.populate = policy.huge_pages = false;
    error = lli_memory_map(&receiver->rare, rare.used, &policy, &context->log);
    if (error != LLM_OK)
        return error;
    arena = (struct lli_arena){.memory = receiver->memory.base};
    rare = (struct lli_arena){.memory = receiver->rare.base};
    receiver_layout(receiver, options->reorder_bytes, &arena, &rare);
    return LLM_OK;
}

void lli_receiver_free(struct llm_receiver *receiver)
{
    lli_memory_unmap(&receiver->memory);
    lli_memory_unmap(&receiver->rare);
    lli_subjects_fini(&receiver->subjects);
    free(receiver->latency);
    free(receiver->hints);
    free(receiver->lines);
    free(receiver->channel);
    free(receiver);
}

int lli_receiver_open(struct llm_context *context, const char *text, const struct llm_options *options,
                      const struct llm_receiver_handlers *handlers, const struct lli_tap *tap, void *tap_arg,
                      struct llm_receiver **result)
{
    struct lli_channel channel;
    struct lli_group group, second;
    struct llm_receiver *receiver;
    const bool records = tap != NULL && tap->packet != NULL;
    int error = lli_context_channel(context, text, options, &channel);

    if (error != LLM_OK)
        return error;
    receiver = calloc(1, sizeof *receiver);
    if (receiver == NULL)
        return lli_fail(&context->log, LLM_ENOMEM, "no memory for a receiver");
    receiver->context = context;
    (void)snprintf(receiver->object, sizeof receiver->object, "receiver %.230s", text);
    llm_receiver_handlers_init(&receiver->handlers);
    error = lli_options_import(&receiver->handlers, sizeof receiver->handlers, handlers,
                               "struct llm_receiver_handlers", &context->log);
    if (error != LLM_OK)
        goto free_receiver;
    error = lli_endpoint_open(context, &channel, &receiver->endpoint);
    if (error != LLM_OK)
        goto free_receiver;
    receiver->tap = tap;
    receiver->tap_arg = tap_arg;
    if (records && receiver->endpoint->guard != NULL)
        lli_guard_keep(receiver->endpoint->guard);
    receiver->channel = malloc(sizeof *receiver->channel);
    if (receiver->channel != NULL)
        *receiver->channel = channel;
    error = receiver->channel == NULL ? lli_fail(&context->log, LLM_ENOMEM, "no memory for a channel")
                                      : lli_receiver_place(receiver, &channel.options);
    receiver->config.former = records ? NULL : &receiver->former;
    receiver->config.streams = records ? NULL : &receiver->streams;
    receiver->config.resumes = receiver->handlers.join == NULL;
    receiver->config.records = records;
    receiver->config.records_protected = records && receiver->endpoint->guard != NULL;
    receiver->config.chooses |= records;
    if (error == LLM_OK)
        error = lli_latency_receiver(receiver);
    if (error == LLM_OK && receiver->endpoint->lines != NULL) {
        receiver->config.lines = LLI_LINES_MAX;
        receiver->lines = calloc(1, sizeof *receiver->lines);
        error =
            receiver->lines != NULL ? LLM_OK : lli_fail(&context->log, LLM_ENOMEM, "no memory for two lines");
    }
    if (error != LLM_OK)
        goto close_endpoint;
    lli_channel_group(&channel, &group, &second);
    error = receiver->endpoint->transport->join(receiver->endpoint->instance, &group, LLI_JOIN_RECEIVE,
                                                &receiver->group);
    if (error != LLM_OK)
        goto close_endpoint;
    receiver->next = receiver->endpoint->receivers;
    receiver->endpoint->receivers = receiver;
    *result = receiver;
    return LLM_OK;

close_endpoint:
    lli_endpoint_close(receiver->endpoint);
free_receiver:
    lli_receiver_free(receiver);
    return error;
}

int llm_receiver_open(struct llm_context *context, const char *channel, const struct llm_options *options,
                      const struct llm_receiver_handlers *handlers, struct llm_receiver **receiver)
{
    int error;

    if (context == NULL)
        return LLM_EINVAL;
    if (channel == NULL || handlers == NULL || receiver == NULL)
        return lli_refuse(context, LLM_EINVAL, "llm_receiver_open: %s is NULL: it has to be given",
                          channel == NULL    ? "channel"
                          : handlers == NULL ? "handlers"
                                             : "receiver");
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    if (!context->in_handler)
        error = lli_receiver_open(context, channel, options, handlers, NULL, NULL, receiver);
    else
        error = LLI_REFUSE_IN_HANDLER(context, "llm_receiver_open");
    lli_context_leave(context);
    return error;
}

/* ----------------------------------------------------------------------------------------- acknowledge */

static int receiver_acknowledge(struct llm_receiver *receiver, uint64_t session, uint64_t number)
{
    if (!receiver->config.application_acknowledges)
        return LLM_ESTATE;
    for (uint32_t i = 0; i < receiver->sessions_used; i++) {
        struct lli_rx *rx = &receiver->sessions[i];

        if (rx->session != session || (rx->state != LLI_RX_LIVE && rx->state != LLI_RX_ENDED))
            continue;
        if (!lli_rx_acknowledge(rx, number - lli_rx_number_offset(rx), lli_clock_ns()))
            return LLM_EINVAL;
        lli_endpoint_due(receiver->endpoint, lli_rx_deadline(rx));
        return LLM_OK;
    }
    return LLM_ENOTFOUND;
}

static int receiver_refuse_acknowledge(const struct llm_receiver *receiver, int error, uint64_t session,
                                       uint64_t number)
{
    switch (error) {
    case LLM_ESTATE:
        return lli_refuse(
            receiver->context, error,
            "llm_receiver_acknowledge: %s: the library acknowledges: open it with acknowledge=application",
            receiver->object);
    case LLM_EINVAL:
        return lli_refuse(receiver->context, error,
                          "llm_receiver_acknowledge: %s: message %llu of session %016llx was not delivered "
                          "yet: acknowledge "
                          "numbers of struct llm_message",
                          receiver->object, (unsigned long long)number, (unsigned long long)session);
    case LLM_ENOTFOUND:
        return lli_refuse(
            receiver->context, error,
            "llm_receiver_acknowledge: %s: session %016llx is not followed: acknowledge sessions of struct "
            "llm_message until they end",
            receiver->object, (unsigned long long)session);
    default:
        return error;
    }
}

int llm_receiver_acknowledge(struct llm_receiver *receiver, uint64_t session, uint64_t number)
{
    int error;

    if (receiver == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(receiver->context))
        return LLM_ESTATE;
    error = receiver_acknowledge(receiver, session, number);
    if (error < 0)
        error = receiver_refuse_acknowledge(receiver, error, session, number);
    lli_context_leave(receiver->context);
    return error;
}

/* ----------------------------------------------------------------------------------------------- close */

void lli_receiver_leave(struct llm_receiver *receiver)
{
    struct lli_endpoint *endpoint = receiver->endpoint;
    const lli_ns now = lli_clock_ns();
    struct lli_packet packet;
    uint8_t *buffer;

    for (uint32_t i = 0; i < receiver->sessions_used; i++) {
        /* Notifies the transmitter that it need not wait for this receiver any longer. */
        buffer = lli_endpoint_scratch(endpoint);
        if (buffer != NULL && lli_rx_leave(&receiver->sessions[i], now, buffer, &packet))
            lli_endpoint_post_control(endpoint, &packet, receiver->group);
    }
    lli_endpoint_flush(endpoint);
}

void lli_receiver_destroy(struct llm_receiver *receiver)
{
    struct lli_endpoint *endpoint = receiver->endpoint;
    struct llm_receiver **link = &endpoint->receivers;

    lli_receiver_leave(receiver);
    while (*link != receiver)
        link = &(*link)->next;
    *link = receiver->next;
    endpoint->transport->leave(endpoint->instance, receiver->group, LLI_JOIN_RECEIVE);
    if (receiver->sends)
        endpoint->transport->leave(endpoint->instance, receiver->send_group, LLI_JOIN_SEND);
    lli_endpoint_close(endpoint);
    lli_receiver_free(receiver);
}

int llm_receiver_close(struct llm_receiver **handle)
{
    struct llm_context *context;
    int error = LLM_OK;

    if (handle == NULL || *handle == NULL)
        return LLM_OK;
    context = (*handle)->context;
    if (!lli_context_enter(context)) {
        *handle = NULL;
        return LLM_OK;
    }
    if (!context->in_handler) {
        lli_receiver_destroy(*handle);
        *handle = NULL;
    } else {
        error = LLI_REFUSE_IN_HANDLER(context, "llm_receiver_close");
    }
    lli_context_leave(context);
    return error;
}
