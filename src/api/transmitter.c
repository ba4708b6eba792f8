/* SPDX-License-Identifier: Apache-2.0 */
/* Public API of transmitters: open, close and getters. Sends are in send.c. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/lifecycle.h"
#include "engine/objects.h"
#include "config/options.h"
#include "engine/sealing.h"
#include "security/guard.h"

/*
 * Sealed packets that make a flush worthwhile even while the transport is busy, unless it takes more at once.
 */
enum { TRANSMITTER_BATCH = 32 };

/* Alignment of packets to cache lines; a transport may ask for more. */
enum { TRANSMITTER_ALIGN = 64 };

/* ------------------------------------------------------------------------------------------------ open */

/*
 * Receivers that can each have a processor besides the transmitter's, over a transport that loses no last packet;
 * else 0. Heartbeats keep the path to these in their caches (ADR 67).
 */
static uint32_t transmitter_receivers_apart(const struct lli_endpoint *endpoint)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);

    if (!(endpoint->caps.flags & LLI_CAP_ORDERED))
        return 0;
    return processors > 2 ? (uint32_t)processors - 1 : 1;
}

static struct lli_tx_config transmitter_config(const struct lli_endpoint *endpoint,
                                               const struct llm_options *options)
{
    const uint32_t align = (uint32_t)lli_max(endpoint->caps.align, TRANSMITTER_ALIGN);
    const uint64_t history_packets =
        lli_min(options->history_packets, options->history_bytes / endpoint->caps.payload_max);

    return (struct lli_tx_config){
        .session = lli_entropy(),
        .seed = lli_entropy(),
        .history =
            {
                .bytes = lli_round_up(options->history_bytes, align),
                .packets = options->history_packets,
                .packet_max = endpoint->caps.payload_max,
                .headroom = endpoint->caps.headroom,
                .tail = endpoint->guard != NULL ? LLI_PROTECT_DATA : 0,
                .align = align,
                /*
             * Random, so that a foreign session with the same tag falls outside the window; 2^32 leaves one
             * lap of 32 bits below it.
             */
                .start = ((lli_seq)1 << 32) + (uint32_t)lli_entropy(),
            },
        .receivers_max = options->receivers_max,
        .topics_max = options->topics_max,
        .nak_receivers_immediate = options->nak_receivers_immediate,
        .repair_percent = options->repair_percent,
        .repair_bytes_per_s = options->repair_bytes_per_s,
        .repair_rate = options->repair_rate_bytes_per_s,
        .repair_linger = options->repair_linger_ns,
        .replay_bytes_per_s = options->replay_bytes_per_s,
        .history_ns = options->history_ns,
        .heartbeat_min = options->heartbeat_ns_min,
        .heartbeat_max = options->heartbeat_ns_max,
        .heartbeat_busy = options->heartbeat_ns_busy,
        .heartbeat_receivers_max = transmitter_receivers_apart(endpoint),
        .status = options->status_ns,
        .flow =
            {
                .mode = lli_options_flow(options),
                /*
                 * The flow-control window takes at most half of the history: the other half serves receivers that
                 * lag further.
                 */
                .window_packets =
                    (uint32_t)lli_min(options->flow_window_packets, options->history_packets / 2),
                .window_bytes = options->flow_window_bytes == 0
                                    ? options->history_bytes / 2
                                    : lli_min(options->flow_window_bytes, options->history_bytes / 2),
                .quorum_percent = options->flow_quorum_percent,
                .bytes_per_s_max = options->flow_bytes_per_s_max,
                .rate = options->rate_bytes_per_s,
            },
        .slow = lli_options_slow(options, history_packets),
        .reports_limits = endpoint->context->watch.reports,
        .confirms = true,
        .key = {{lli_entropy(), lli_entropy()}},
        .address = endpoint->address,
    };
}

int lli_transmitter_place(struct llm_transmitter *transmitter, const struct llm_options *options)
{
    const struct llm_context *context = transmitter->context;
    const struct lli_endpoint *endpoint = transmitter->endpoint;
    const struct lli_transport *transport = endpoint->transport;
    struct lli_tx_config config = transmitter_config(endpoint, options);
    const struct lli_memory_policy policy = {
        .huge_pages = context->options.huge_pages,
        .populate = true,
        .numa_node = context->options.numa_node >= 0 ? context->options.numa_node : endpoint->caps.numa_node,
    };
    struct lli_arena arena = {.memory = NULL};
    struct lli_region region = {.base = NULL};
    int error;

    if (config.history.bytes < 16u * config.history.packet_max)
        return lli_fail(&context->log, LLM_EOPTION,
                        "option history_bytes: %llu is less than 16 packets of %u bytes; raise it, or "
                        "lower mtu on all channels of the context",
                        (unsigned long long)config.history.bytes, config.history.packet_max);
    error = lli_options_check_window(options, &config.flow, config.history.packet_max, &context->log);
    if (error != LLM_OK)
        return error;
    lli_options_log_unused(options, transmitter->object, &context->log);
    /* The two sides of a connection have exchanged their addresses. */
    config.flow.awaits = transmitter->connection != NULL;
    config.confirms = transmitter->connection == NULL;
    if (transmitter->connection == NULL && options->stream[0] != '\0') {
        config.stream = lli_stream_id(options->stream);
        config.stream_base = options->stream_base;
        config.stream_term = options->stream_term;
        config.stream_merge = options->stream_merge != 0;
    }
    if (transport->region_map != NULL && transmitter->connection == NULL) {
        error = transport->region_map(endpoint->instance, transmitter->group, config.history.bytes, &region);
        if (error != LLM_OK)
            return error;
        transmitter->shared = (struct lli_memory){region.base, config.history.bytes};
        config.history.shared = region.base;
        config.history.shared_edge = region.edge;
        transmitter->slot = region.slot;
    }
    lli_tx_init(&transmitter->tx, &config, &arena, 0);
    error = lli_memory_map(&transmitter->memory, arena.used, &policy, &context->log);
    if (error != LLM_OK)
        return error;
    arena = (struct lli_arena){.memory = transmitter->memory.base};
    lli_tx_init(&transmitter->tx, &config, &arena, lli_clock_ns());
    transmitter->batch = lli_max(TRANSMITTER_BATCH, endpoint->caps.train_max);
    transmitter->watched = lli_tx_is_paced(&transmitter->tx);
    error = lli_latency_transmitter(transmitter);
    if (error != LLM_OK)
        return error;
    transmitter->message_bytes_max = options->message_bytes_max;
    lli_transmitter_limit(transmitter, lli_tx_message_max(&transmitter->tx));
    transmitter->cache_bytes = options->cache_bytes;
    if (endpoint->guard != NULL) {
        transmitter->posted_max = 0;
        error = lli_guard_session_open(endpoint->guard, config.session, &transmitter->protection);
        if (error != LLM_OK)
            return error;
    }
    error = lli_sealer_open(transmitter, options);
    if (error != LLM_OK)
        return error;
    if (transport->region != NULL)
        return transport->region(endpoint->instance, transmitter->memory.base, transmitter->memory.size);
    return LLM_OK;
}

/* Frees all or part of what lli_transmitter_place() allocated. */
static void transmitter_displace(struct llm_transmitter *transmitter)
{
    const struct lli_endpoint *endpoint = transmitter->endpoint;

    if (transmitter->shared.base != NULL)
        endpoint->transport->region_end(endpoint->instance, transmitter->shared.base,
                                        transmitter->shared.size);
    if (transmitter->memory.base != NULL)
        endpoint->transport->region_end(endpoint->instance, transmitter->memory.base,
                                        transmitter->memory.size);
    lli_memory_unmap(&transmitter->memory);
    lli_sealer_close(transmitter->sealer);
    lli_guard_session_close(transmitter->protection);
    free(transmitter->latency);
}

static uint32_t transmitter_destinations(const char *text)
{
    uint32_t count = 1;

    for (; *text != '\0'; text++)
        count += *text == ',';
    return count;
}

/*
 * Joins the addresses of the option destinations; they follow the channel's own, from which they are removed.
 */
static int transmitter_join_others(struct llm_transmitter *transmitter, struct lli_channel *channel)
{
    const struct lli_endpoint *endpoint = transmitter->endpoint;
    const char *text = channel->options.destinations;
    int error = LLM_OK;

    if (*text == '\0')
        return LLM_OK;
    if (transmitter->shared.base != NULL)
        return lli_fail(&transmitter->context->log, LLM_EOPTION,
                        "option destinations: with %s a transmitter's packets lie in "
                        "the memory of one name, open a transmitter for each",
                        channel->scheme);
    transmitter->destinations = calloc(1 + transmitter_destinations(text), sizeof *transmitter->destinations);
    if (transmitter->destinations == NULL)
        return lli_fail(&transmitter->context->log, LLM_ENOMEM, "no memory for destinations");
    transmitter->posted_max = 0;
    transmitter->destinations[transmitter->destinations_count++].to = transmitter->group;
    while (text != NULL && error == LLM_OK) {
        struct lli_group group;

        error = lli_channel_destination(channel, &text, &transmitter->context->log);
        if (error != LLM_OK)
            break;
        group = (struct lli_group){.host = channel->host,
                                   .port = channel->port,
                                   .options = &channel->options,
                                   .values = &channel->values};
        error = endpoint->transport->join(endpoint->instance, &group, LLI_JOIN_SEND,
                                          &transmitter->destinations[transmitter->destinations_count].to);
        transmitter->destinations_count += error == LLM_OK;
    }
    return error;
}

/* Leaves the group and those of the other destinations that were joined. */
static void transmitter_leave(struct llm_transmitter *transmitter)
{
    const struct lli_endpoint *endpoint = transmitter->endpoint;

    for (uint32_t i = 1; i < transmitter->destinations_count; i++)
        endpoint->transport->leave(endpoint->instance, transmitter->destinations[i].to, LLI_JOIN_SEND);
    endpoint->transport->leave(endpoint->instance, transmitter->group, LLI_JOIN_SEND);
    free(transmitter->destinations);
}

/* Makes a transmitter of which nothing is sent before it is linked to its endpoint. */
static int transmitter_make(struct llm_context *context, const char *text, const struct llm_options *options,
                            const struct llm_transmitter_handlers *handlers, struct llm_transmitter **result)
{
    struct lli_channel channel;
    struct lli_group group, second;
    struct llm_transmitter *transmitter;
    int error = lli_context_channel(context, text, options, &channel);

    if (error != LLM_OK)
        return error;
    transmitter = calloc(1, sizeof *transmitter);
    if (transmitter == NULL)
        return lli_fail(&context->log, LLM_ENOMEM, "no memory for a transmitter");
    transmitter->context = context;
    transmitter->linger = channel.options.linger_ns;
    transmitter->posted_max = LLI_ENDPOINT_POST;
    transmitter->counts_topics = channel.options.topic_counters != 0;
    llm_transmitter_handlers_init(&transmitter->handlers);
    if (handlers != NULL)
        error = lli_options_import(&transmitter->handlers, sizeof transmitter->handlers, handlers,
                                   "struct llm_transmitter_handlers", &context->log);
    if (error != LLM_OK)
        goto free_transmitter;
    (void)snprintf(transmitter->object, sizeof transmitter->object, "transmitter %.230s", text);
    error = lli_endpoint_open(context, &channel, &transmitter->endpoint);
    if (error != LLM_OK)
        goto free_transmitter;
    lli_channel_group(&channel, &group, &second);
    error = transmitter->endpoint->transport->join(transmitter->endpoint->instance, &group, LLI_JOIN_SEND,
                                                   &transmitter->group);
    if (error != LLM_OK)
        goto close_endpoint;
    error = lli_transmitter_place(transmitter, &channel.options);
    if (error == LLM_OK)
        error = transmitter_join_others(transmitter, &channel);
    if (error != LLM_OK)
        goto displace;
    transmitter->slot_max = lli_pack_single_max(transmitter->endpoint->caps.slot_max);
    *result = transmitter;
    return LLM_OK;

displace:
    transmitter_displace(transmitter);
    transmitter_leave(transmitter);
close_endpoint:
    lli_endpoint_close(transmitter->endpoint);
free_transmitter:
    free(transmitter);
    return error;
}

static int transmitter_open(struct llm_context *context, const char *text, const struct llm_options *options,
                            const struct llm_transmitter_handlers *handlers, struct llm_transmitter **result)
{
    struct llm_transmitter *transmitter;
    const int error = transmitter_make(context, text, options, handlers, &transmitter);

    if (error != LLM_OK)
        return error;
    transmitter->next = transmitter->endpoint->transmitters;
    transmitter->endpoint->transmitters = transmitter;
    lli_endpoint_due(transmitter->endpoint, 0);
    *result = transmitter;
    return LLM_OK;
}

int lli_transmitter_prepare(struct llm_context *context, const char *text, const struct llm_options *options,
                            struct llm_transmitter **transmitter)
{
    return transmitter_make(context, text, options, NULL, transmitter);
}

int llm_transmitter_open(struct llm_context *context, const char *channel, const struct llm_options *options,
                         const struct llm_transmitter_handlers *handlers,
                         struct llm_transmitter **transmitter)
{
    int error;

    if (context == NULL)
        return LLM_EINVAL;
    if (channel == NULL || transmitter == NULL)
        return lli_refuse(context, LLM_EINVAL, "llm_transmitter_open: %s is NULL: it has to be given",
                          channel == NULL ? "channel" : "transmitter");
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    if (context->in_handler) {
        error = LLI_REFUSE_IN_HANDLER(context, "llm_transmitter_open");
    } else {
        error = transmitter_open(context, channel, options, handlers, transmitter);
        /* Announces the session at once to waiting receivers. */
        if (error == LLM_OK)
            (void)lli_context_poll(context);
    }
    lli_context_leave(context);
    return error;
}

/* ----------------------------------------------------------------------------------------------- close */

static void transmitter_forget(struct llm_transmitter *transmitter)
{
    while (transmitter->topics != NULL) {
        struct llm_topic *topic = transmitter->topics;

        transmitter->topics = topic->next;
        if (topic->assured != NULL)
            free(topic->assured->ring);
        free(topic->assured);
        free(topic->cache);
        free(topic);
    }
    free(transmitter->lvc_memory);
    free(transmitter);
}

void lli_transmitter_discard(struct llm_transmitter *transmitter)
{
    struct lli_endpoint *endpoint = transmitter->endpoint;

    transmitter_displace(transmitter);
    transmitter_leave(transmitter);
    lli_endpoint_close(endpoint);
    transmitter_forget(transmitter);
}

static void transmitter_destroy(struct llm_transmitter *transmitter)
{
    struct llm_transmitter **link = &transmitter->endpoint->transmitters;

    while (*link != transmitter)
        link = &(*link)->next;
    *link = transmitter->next;
    lli_transmitter_discard(transmitter);
}

void lli_transmitter_free(struct llm_transmitter *transmitter)
{
    transmitter_displace(transmitter);
    transmitter_forget(transmitter);
}

static int transmitter_refuse_close(const struct llm_transmitter *transmitter)
{
    if (transmitter->connection != NULL)
        return lli_refuse(transmitter->context, LLM_ESTATE,
                          "llm_transmitter_close: %s is part of a connection: llm_connection_close() "
                          "closes both",
                          transmitter->object);
    return LLI_REFUSE_IN_HANDLER(transmitter->context, "llm_transmitter_close");
}

int llm_transmitter_close(struct llm_transmitter **handle)
{
    struct llm_transmitter *transmitter;
    struct llm_context *context;
    lli_ns until;
    int waiting;

    if (handle == NULL || *handle == NULL)
        return LLM_OK;
    transmitter = *handle;
    context = transmitter->context;
    if (!lli_context_enter(context)) {
        *handle = NULL;
        return LLM_OK;
    }
    if (context->in_handler || transmitter->connection != NULL) {
        const int error = transmitter_refuse_close(transmitter);

        lli_context_leave(context);
        return error;
    }
    transmitter->claimed = NULL;
    /*
     * Use a time that is not later than the next poll's: the end is due in that poll, which may be the only
     * one.
     */
    lli_tx_end(&transmitter->tx, lli_context_time(context, lli_ticks()));
    lli_endpoint_due(transmitter->endpoint, 0);
    (void)lli_context_poll(context);
    lli_sealer_finish(transmitter);
    until = lli_clock_ns() + transmitter->linger;
    while (!(lli_tx_drained(&transmitter->tx) && transmitter->tx.ack.waiting == 0) &&
           lli_clock_ns() < until) {
        /* Other threads, above all the loop thread, get their turn between two polls. */
        lli_context_leave(context);
        if (!lli_context_enter(context))
            break;
        (void)lli_context_poll(context);
    }
    waiting = (int)lli_members_waiting(&transmitter->tx.members);
    if (lli_ack_close(&transmitter->tx.ack))
        waiting = waiting > 0 ? waiting : 1;
    lli_transmitter_events(transmitter);
    transmitter_destroy(transmitter);
    *handle = NULL;
    lli_context_leave(context);
    return waiting;
}

/* -------------------------------------------------------------------------------------------- getters */

uint64_t llm_transmitter_session(const struct llm_transmitter *transmitter)
{
    return transmitter == NULL ? 0 : transmitter->tx.config.session;
}

uint64_t llm_transmitter_next(const struct llm_transmitter *transmitter)
{
    uint64_t number;

    if (transmitter == NULL)
        return 0;
    if (!lli_context_enter(transmitter->context))
        return transmitter->tx.pack.number;
    number = transmitter->tx.pack.number;
    lli_context_leave(transmitter->context);
    return number;
}

uint32_t llm_transmitter_receivers(const struct llm_transmitter *transmitter)
{
    uint32_t count;

    if (transmitter == NULL)
        return 0;
    if (!lli_context_enter(transmitter->context))
        return transmitter->tx.members.count;
    count = transmitter->tx.members.count;
    lli_context_leave(transmitter->context);
    return count;
}

size_t llm_transmitter_claim_max(const struct llm_transmitter *transmitter)
{
    if (transmitter == NULL)
        return 0;
    return transmitter->tx.pack.claim_max;
}
