/* SPDX-License-Identifier: Apache-2.0 */
/* The public side of a transmitter and its topics: check, then call. */
#include <stdio.h>
#include <stdlib.h>

#include "objects.h"
#include "options.h"

/* Sealed packets that are worth a flush even while the transport is busy, unless it takes more as one. */
enum { TRANSMITTER_BATCH = 32 };

enum { TRANSMITTER_FLAGS = LLM_SEND_MORE | LLM_SEND_NOW };

/* Packets of the same session are kept apart for cache lines; a transport may ask for more. */
enum { TRANSMITTER_ALIGN = 64 };

/* ------------------------------------------------------------------------------------------------ open */

static struct lli_tx_config transmitter_config(const struct lli_endpoint *endpoint, const struct llm_options *options)
{
    const uint32_t align = (uint32_t)lli_max(endpoint->caps.align, TRANSMITTER_ALIGN);
    const uint64_t history_packets = lli_min(options->history_packets, options->history_bytes / endpoint->caps.payload_max);

    return (struct lli_tx_config){
        .session = lli_entropy(),
        .history = {
            .bytes = lli_round_up(options->history_bytes, align),
            .packets = options->history_packets,
            .packet_max = endpoint->caps.payload_max,
            .headroom = endpoint->caps.headroom,
            .align = align,
            /* Random, so that a foreign session with the same tag falls outside the window; and one lap of 32 bits up. */
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
        .status = options->status_ns,
        .flow = {
            .mode = lli_options_flow(options),
            /* What receivers may be behind has to be there for repairs, and as much again for those that are slower. */
            .window_packets = (uint32_t)lli_max(lli_min(options->flow_window_packets, history_packets / 2), 1),
            .quorum_percent = options->flow_quorum_percent,
            .bytes_per_s_max = options->flow_bytes_per_s_max,
            .rate = options->rate_bytes_per_s,
        },
        .judge = lli_options_slow(options, history_packets),
        .tells_limits = endpoint->context->watch.tells,
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
        return lli_fail(&context->log, LLM_EOPTION, "option history_bytes: %llu is less than 16 packets of %u bytes; raise it, or "
                        "lower mtu on all channels of the context", (unsigned long long)config.history.bytes, config.history.packet_max);
    config.flow.awaits = transmitter->connection != NULL;
    if (transport->region_map != NULL && transmitter->connection == NULL) {
        error = transport->region_map(endpoint->instance, transmitter->group, config.history.bytes, &region);
        if (error != LLM_OK)
            return error;
        transmitter->shared = (struct lli_memory){region.base, config.history.bytes};
        config.history.shared = region.base;
        config.history.shared_edge = region.edge;
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
    transmitter->message_bytes_max = lli_min(options->message_bytes_max, lli_tx_message_max(&transmitter->tx));
    transmitter->keep_bytes = options->keep_bytes;
    if (transport->region != NULL)
        return transport->region(endpoint->instance, transmitter->memory.base, transmitter->memory.size);
    return LLM_OK;
}

/* Gives back what lli_transmitter_place() got, all of it or not. */
static void transmitter_displace(struct llm_transmitter *transmitter)
{
    const struct lli_endpoint *endpoint = transmitter->endpoint;

    if (transmitter->shared.base != NULL)
        endpoint->transport->region_end(endpoint->instance, transmitter->shared.base, transmitter->shared.size);
    if (transmitter->memory.base != NULL)
        endpoint->transport->region_end(endpoint->instance, transmitter->memory.base, transmitter->memory.size);
    lli_memory_unmap(&transmitter->memory);
    free(transmitter->latency);
}

static uint32_t transmitter_destinations(const char *text)
{
    uint32_t count = 1;

    for (; *text != '\0'; text++)
        count += *text == ',';
    return count;
}

/* Joins the places of the option destinations; they stand behind the channel's own, which the channel forgets. */
static int transmitter_join_others(struct llm_transmitter *transmitter, struct lli_channel *channel)
{
    const struct lli_endpoint *endpoint = transmitter->endpoint;
    const char *text = channel->options.destinations;
    int error = LLM_OK;

    if (*text == '\0')
        return LLM_OK;
    if (transmitter->shared.base != NULL)
        return lli_fail(&transmitter->context->log, LLM_EOPTION, "option destinations: with %s a transmitter's packets lie in "
                        "the memory of one name, open a transmitter for each", channel->scheme);
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
        group = (struct lli_group){channel->host, channel->port, &channel->options};
        error = endpoint->transport->join(endpoint->instance, &group, LLI_JOIN_SEND,
                                          &transmitter->destinations[transmitter->destinations_count].to);
        transmitter->destinations_count += error == LLM_OK;
    }
    return error;
}

/* Leaves the group and the other destinations, as many as were joined. */
static void transmitter_leave(struct llm_transmitter *transmitter)
{
    const struct lli_endpoint *endpoint = transmitter->endpoint;

    for (uint32_t i = 1; i < transmitter->destinations_count; i++)
        endpoint->transport->leave(endpoint->instance, transmitter->destinations[i].to, LLI_JOIN_SEND);
    endpoint->transport->leave(endpoint->instance, transmitter->group, LLI_JOIN_SEND);
    free(transmitter->destinations);
}

static int transmitter_open(struct llm_context *context, const char *text, const struct llm_options *options,
                            struct llm_transmitter **result)
{
    struct lli_channel channel;
    struct lli_group group;
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
    (void)snprintf(transmitter->object, sizeof transmitter->object, "transmitter %.230s", text);
    error = lli_endpoint_open(context, &channel, &transmitter->endpoint);
    if (error != LLM_OK)
        goto free_transmitter;
    group = (struct lli_group){channel.host, channel.port, &channel.options};
    error = transmitter->endpoint->transport->join(transmitter->endpoint->instance, &group, LLI_JOIN_SEND,
                                                   &transmitter->group);
    if (error != LLM_OK)
        goto close_endpoint;
    error = lli_transmitter_place(transmitter, &channel.options);
    if (error == LLM_OK)
        error = transmitter_join_others(transmitter, &channel);
    if (error != LLM_OK)
        goto displace;
    transmitter->next = transmitter->endpoint->transmitters;
    transmitter->endpoint->transmitters = transmitter;
    lli_endpoint_due(transmitter->endpoint, 0);
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

int llm_transmitter_open(struct llm_context *context, const char *channel, const struct llm_options *options,
                         struct llm_transmitter **transmitter)
{
    int error = LLM_EINVAL;

    if (context == NULL || channel == NULL || transmitter == NULL)
        return LLM_EINVAL;
    lli_context_enter(context);
    if (context->in_handler) {
        error = LLM_ESTATE;
    } else {
        error = transmitter_open(context, channel, options, transmitter);
        /* Receivers that wait hear of the session at once. */
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
        free(topic->kept);
        free(topic);
    }
    free(transmitter->keep_memory);
    free(transmitter);
}

static void transmitter_destroy(struct llm_transmitter *transmitter)
{
    struct lli_endpoint *endpoint = transmitter->endpoint;
    struct llm_transmitter **link = &endpoint->transmitters;

    while (*link != transmitter)
        link = &(*link)->next;
    *link = transmitter->next;
    transmitter_displace(transmitter);
    transmitter_leave(transmitter);
    lli_endpoint_close(endpoint);
    transmitter_forget(transmitter);
}

void lli_transmitter_free(struct llm_transmitter *transmitter)
{
    transmitter_displace(transmitter);
    transmitter_forget(transmitter);
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
    lli_context_enter(context);
    if (context->in_handler || transmitter->connection != NULL) {
        lli_context_leave(context);
        return LLM_ESTATE;
    }
    transmitter->claimed = NULL;
    lli_tx_end(&transmitter->tx, lli_clock_ns());
    lli_endpoint_due(transmitter->endpoint, 0);
    (void)lli_context_poll(context);
    until = lli_clock_ns() + transmitter->linger;
    while (!(lli_tx_drained(&transmitter->tx) && transmitter->tx.assure.waiting == 0) && lli_clock_ns() < until) {
        /* Others, the loop thread above all, get their turn between two polls. */
        lli_context_leave(context);
        lli_context_enter(context);
        (void)lli_context_poll(context);
    }
    waiting = (int)lli_members_waiting(&transmitter->tx.members);
    transmitter_destroy(transmitter);
    *handle = NULL;
    lli_context_leave(context);
    return waiting;
}

/* -------------------------------------------------------------------------------------------- getters */

uint64_t llm_transmitter_session(const struct llm_transmitter *transmitter)
{
    return transmitter->tx.config.session;
}

uint64_t llm_transmitter_next(const struct llm_transmitter *transmitter)
{
    uint64_t number;

    lli_context_enter(transmitter->context);
    number = transmitter->tx.pack.number;
    lli_context_leave(transmitter->context);
    return number;
}

uint32_t llm_transmitter_receivers(const struct llm_transmitter *transmitter)
{
    uint32_t count;

    lli_context_enter(transmitter->context);
    count = transmitter->tx.members.count;
    lli_context_leave(transmitter->context);
    return count;
}

size_t llm_claim_max(const struct llm_transmitter *transmitter)
{
    return (size_t)lli_min(lli_pack_whole_max(&transmitter->tx.pack), transmitter->message_bytes_max);
}

/* ----------------------------------------------------------------------------------------------- flush */

/* With a latency monitor every message that waits comes by here. */
static bool transmitter_is_batch(struct llm_transmitter *transmitter)
{
    if (transmitter->latency == NULL)
        return true;
    lli_latency_waits(transmitter);
    return transmitter->tx.history.next - transmitter->tx.sent >= transmitter->latency->batch;
}

/* What was just packed goes with what follows; what is worth a flush leaves all the same, but not the packet that is open. */
static void transmitter_wait(struct llm_transmitter *transmitter)
{
    const bool in_handler = transmitter->context->in_handler;

    transmitter->dirty |= in_handler;
    transmitter->context->dirty |= in_handler;
    if (transmitter->tx.history.next - transmitter->tx.sent >= transmitter->batch && transmitter_is_batch(transmitter))
        (void)lli_endpoint_send(transmitter, false, lli_ticks());
    lli_endpoint_due(transmitter->endpoint, 0);
}

/* What was just packed leaves now if the transport is idle, else with the next flush. */
static inline void transmitter_packed(struct llm_transmitter *transmitter, unsigned flags)
{
    uint64_t ticks;

    /* In a handler the rest of the received packet comes first: it may bring more to send. */
    if (!(flags & LLM_SEND_NOW) && (flags & LLM_SEND_MORE || transmitter->context->in_handler)) {
        transmitter_wait(transmitter);
        return;
    }
    ticks = lli_ticks();
    if (!(flags & LLM_SEND_NOW) && lli_transmitter_is_busy(transmitter, ticks))
        transmitter_wait(transmitter);
    else
        (void)lli_endpoint_send(transmitter, true, ticks);
}

int llm_flush(struct llm_transmitter *transmitter)
{
    int error;

    if (transmitter == NULL)
        return LLM_EINVAL;
    lli_context_enter(transmitter->context);
    error = lli_endpoint_send(transmitter, true, lli_ticks());
    lli_context_leave(transmitter->context);
    return error;
}

/* -------------------------------------------------------------------------------------------- messages */

/* The history is full of unsent packets: let the transport take some. True if it is worth trying again. */
static bool transmitter_make_room(struct llm_transmitter *transmitter)
{
    lli_seq busy = lli_tx_busy(&transmitter->tx);

    (void)lli_endpoint_send(transmitter, true, lli_ticks());
    if (lli_tx_busy(&transmitter->tx) > busy)
        return true;
    lli_watch_refused(transmitter);
    return false;
}

static bool topic_is_assured(const struct llm_topic *topic)
{
    return topic->assured != NULL && lli_assured_is_on(topic->assured);
}

/* Whether a message of a topic that keeps its last ones is too long for that, with its attributes. */
static bool topic_is_overfull(const struct llm_topic *topic, size_t size)
{
    const struct lli_pack_attributes *attributes = topic->transmitter->tx.pack.attributes;
    const uint32_t bytes = attributes != NULL ? attributes->size : 0;

    return size > topic->kept->bytes_max || bytes > topic->kept->bytes_max - size ||
           bytes > lli_keep_attributes_max((uint32_t)lli_min(topic->transmitter->tx.config.history.packet_max, LLI_ENDPOINT_SCRATCH));
}

/* Whether a message is longer than the topic, if it is assured or keeps its last ones, can ever take. */
static bool topic_is_exceeded(const struct llm_topic *topic, size_t size)
{
    return (topic_is_assured(topic) && size > topic->assured->rule.bytes_max) || (topic->kept != NULL && topic_is_overfull(topic, size));
}

/* Whether one more message of an assured topic may be unacknowledged. */
static bool transmitter_may_wait(const struct llm_topic *topic, size_t size)
{
    if (!topic_is_assured(topic) || lli_assured_allows(topic->assured, size))
        return true;
    topic->transmitter->tx.counters.send_unacknowledged++;
    return false;
}

/* Whether another packet may be begun: flow control may hold too many back already. */
static bool transmitter_may_open(struct llm_transmitter *transmitter)
{
    if (!lli_tx_is_held(&transmitter->tx))
        return true;
    (void)lli_endpoint_send(transmitter, false, lli_ticks());
    if (!lli_tx_is_held(&transmitter->tx))
        return true;
    lli_watch_refused(transmitter);
    return false;
}

/* Begins a packet where none is open. False: it may not be begun, or the history has no room. */
static bool transmitter_open_packet(struct llm_transmitter *transmitter)
{
    struct lli_tx *tx = &transmitter->tx;

    if (!transmitter_may_open(transmitter))
        return false;
    while (!lli_pack_open(&tx->pack, lli_tx_busy(tx)))
        if (!transmitter_make_room(transmitter))
            return false;
    return true;
}

/* A message of a topic that is assured, rated or counted was packed in this packet or later. */
static void transmitter_account(struct llm_topic *topic, lli_seq seq, size_t size)
{
    if (topic_is_assured(topic))
        lli_tx_assured(&topic->transmitter->tx, topic->assured, seq, size);
    if (topic->rated)
        (void)lli_pacer_take(&topic->rate, size);
    topic->count.messages++;
    topic->count.bytes += size;
}

/* Most messages of a topic that is counted, and nothing else of this: as transmitter_send_in_place(), and counted. */
static inline bool transmitter_count_in_place(struct llm_topic *topic, const struct iovec *piece, size_t size)
{
    struct llm_transmitter *transmitter = topic->transmitter;

    if (topic->rated || topic->kept != NULL || topic_is_assured(topic) || transmitter->claimed != NULL || size == 0 ||
        size > transmitter->message_bytes_max ||
        !lli_pack_in_place(&transmitter->tx.pack, &topic->pack, piece->iov_base, size))
        return false;
    topic->count.messages++;
    topic->count.bytes += size;
    return true;
}

/*
 * What does not take the short way: messages of a topic that is assured, rated or counted or keeps them, and those that are too long for
 * any. Apart, so that the others save no registers for it.
 */
static __attribute__((noinline)) int transmitter_send_account(struct llm_topic *topic, const struct iovec *pieces, int count,
                                                              size_t size, unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    struct lli_tx *tx = &transmitter->tx;
    /* They are the packer's until it has packed them. */
    const struct lli_pack_attributes *attributes = tx->pack.attributes;
    lli_seq seq;

    if (count == 1 && transmitter_count_in_place(topic, pieces, size)) {
        if (flags != LLM_SEND_MORE || transmitter->context->in_handler)
            transmitter_packed(transmitter, flags);
        return LLM_OK;
    }
    if (size > transmitter->message_bytes_max || topic_is_exceeded(topic, size))
        return LLM_EMSGSIZE;
    if (transmitter->claimed != NULL)
        return LLM_ESTATE;
    if (!lli_topic_may_send(topic) || !transmitter_may_wait(topic, size) || !transmitter_may_open(transmitter))
        return LLM_EAGAIN;
    for (;;) {
        seq = tx->history.next;
        if (lli_pack_message(&tx->pack, &topic->pack, pieces, (uint32_t)size, lli_tx_busy(tx)))
            break;
        if (!transmitter_make_room(transmitter))
            return LLM_EAGAIN;
    }
    transmitter_account(topic, seq, size);
    if (topic->kept != NULL)
        lli_tx_kept(tx, topic->kept, attributes, pieces, (uint32_t)size);
    transmitter_packed(transmitter, flags);
    return LLM_OK;
}

static int transmitter_send(struct llm_topic *topic, const struct iovec *pieces, int count, size_t size, unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    struct lli_tx *tx = &transmitter->tx;
    bool tried = flags == LLM_SEND_MORE; /* transmitter_send_in_place() */

    if (flags > TRANSMITTER_FLAGS)
        return LLM_EINVAL;
    if (size >= topic->plain_below)
        return transmitter_send_account(topic, pieces, count, size, flags);
    if (transmitter->claimed != NULL)
        return LLM_ESTATE;
    if (tx->pack.packet == NULL) {
        if (!transmitter_open_packet(transmitter))
            return LLM_EAGAIN;
        tried = false;
    }
    /* One piece is the rule, and most messages have room in the open packet, alone or behind another of their topic. */
    if (tried || count != 1 || size == 0 || !lli_pack_in_place(&tx->pack, &topic->pack, pieces->iov_base, size)) {
        if (!transmitter_may_open(transmitter))
            return LLM_EAGAIN;
        while (!lli_pack_message(&tx->pack, &topic->pack, pieces, (uint32_t)size, lli_tx_busy(tx)))
            if (!transmitter_make_room(transmitter))
                return LLM_EAGAIN;
    }
    transmitter_packed(transmitter, flags);
    return LLM_OK;
}

/*
 * Most messages by far: more follow, and this one has room behind another of its topic. The packet was made due when it was
 * begun, so nothing is left to do.
 */
static inline bool transmitter_send_in_place(struct llm_topic *topic, const void *data, size_t size, unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const struct llm_context *context = transmitter->context;

    return flags == LLM_SEND_MORE && data != NULL && size < topic->plain_below && transmitter->claimed == NULL &&
           !lli_context_is_threaded(context) && !context->in_handler &&
           lli_pack_in_place(&transmitter->tx.pack, &topic->pack, data, size);
}

static int transmitter_send_one(struct llm_topic *topic, const void *data, size_t size, unsigned flags)
{
    const struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    int error;

    lli_context_enter(topic->transmitter->context);
    error = transmitter_send(topic, &piece, 1, size, flags);
    lli_context_leave(topic->transmitter->context);
    return error;
}

/*
 * The same of a topic that is counted, and neither assured nor rated. Apart, and where nothing is left to do after it, so that
 * the others save no registers for it.
 */
static __attribute__((noinline)) int transmitter_send_counted(struct llm_topic *topic, const void *data, size_t size)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const struct llm_context *context = transmitter->context;

    if (transmitter->claimed != NULL || lli_context_is_threaded(context) || context->in_handler ||
        !lli_pack_in_place(&transmitter->tx.pack, &topic->pack, data, size))
        return transmitter_send_one(topic, data, size, LLM_SEND_MORE);
    topic->count.messages++;
    topic->count.bytes += size;
    return LLM_OK;
}

int llm_send(struct llm_topic *topic, const void *data, size_t size, unsigned flags)
{
    if (topic == NULL || (data == NULL && size > 0))
        return LLM_EINVAL;
    if (transmitter_send_in_place(topic, data, size, flags))
        return LLM_OK;
    if (flags == LLM_SEND_MORE && data != NULL && size < topic->counted_below)
        return transmitter_send_counted(topic, data, size);
    return transmitter_send_one(topic, data, size, flags);
}

int llm_sendv(struct llm_topic *topic, const struct iovec *pieces, int count, unsigned flags)
{
    size_t size = 0;
    int error;

    if (topic == NULL || count < 0 || (pieces == NULL && count > 0))
        return LLM_EINVAL;
    for (int i = 0; i < count; i++) {
        if (pieces[i].iov_len > SIZE_MAX - size)
            return LLM_EMSGSIZE;
        size += pieces[i].iov_len;
    }
    lli_context_enter(topic->transmitter->context);
    error = transmitter_send(topic, pieces, count, size, flags);
    lli_context_leave(topic->transmitter->context);
    return error;
}

/* Whether a claim may be made that does not take the short way, as messages may not. */
static __attribute__((noinline)) int transmitter_may_claim(struct llm_topic *topic, size_t size)
{
    if (size > llm_claim_max(topic->transmitter) || topic_is_exceeded(topic, size))
        return LLM_EMSGSIZE;
    return lli_topic_may_send(topic) && transmitter_may_wait(topic, size) && transmitter_may_open(topic->transmitter) ? LLM_OK : LLM_EAGAIN;
}

int llm_claim(struct llm_topic *topic, size_t size, void **data)
{
    struct llm_transmitter *transmitter;
    uint8_t *bytes = NULL;
    int error = LLM_OK;

    if (topic == NULL || data == NULL)
        return LLM_EINVAL;
    transmitter = topic->transmitter;
    lli_context_enter(transmitter->context);
    if (transmitter->claimed != NULL)
        error = LLM_ESTATE;
    else if (size >= topic->claim_below)
        error = transmitter_may_claim(topic, size);
    else if (!transmitter_may_open(transmitter))
        error = LLM_EAGAIN;
    while (error == LLM_OK && bytes == NULL) {
        bytes = lli_pack_claim(&transmitter->tx.pack, &topic->pack, (uint32_t)size, lli_tx_busy(&transmitter->tx));
        if (bytes == NULL && !transmitter_make_room(transmitter))
            error = LLM_EAGAIN;
    }
    if (error == LLM_OK) {
        transmitter->claimed = topic->claims;
        *data = bytes;
    }
    lli_context_leave(transmitter->context);
    return error;
}

/* A claim that did not take the short way; it lies in the open packet, too. */
static __attribute__((noinline)) int transmitter_commit_account(struct llm_topic *topic, size_t size, unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    struct lli_tx *tx = &transmitter->tx;
    struct iovec piece = {.iov_len = size};

    if (transmitter->claimed == NULL || transmitter->claimed != topic->claims)
        return LLM_ESTATE;
    if (flags > TRANSMITTER_FLAGS || size > tx->pack.claim_size)
        return LLM_EINVAL;
    lli_pack_commit(&tx->pack, (uint32_t)size);
    transmitter->claimed = NULL;
    transmitter_account(topic, tx->history.next, size);
    piece.iov_base = tx->pack.at - size;
    if (topic->kept != NULL)
        lli_tx_kept(tx, topic->kept, NULL, &piece, (uint32_t)size);
    transmitter_packed(transmitter, flags);
    return LLM_OK;
}

int llm_commit(struct llm_topic *topic, size_t size, unsigned flags)
{
    struct llm_transmitter *transmitter;
    int error = LLM_OK;

    if (topic == NULL)
        return LLM_EINVAL;
    transmitter = topic->transmitter;
    lli_context_enter(transmitter->context);
    if (transmitter->claimed != topic) {
        error = transmitter_commit_account(topic, size, flags);
    } else if (flags > TRANSMITTER_FLAGS || size > transmitter->tx.pack.claim_size) {
        error = LLM_EINVAL;
    } else {
        lli_pack_commit(&transmitter->tx.pack, (uint32_t)size);
        transmitter->claimed = NULL;
        transmitter_packed(transmitter, flags);
    }
    lli_context_leave(transmitter->context);
    return error;
}

int llm_abort(struct llm_topic *topic)
{
    struct llm_transmitter *transmitter;
    int error = LLM_ESTATE;

    if (topic == NULL)
        return LLM_EINVAL;
    transmitter = topic->transmitter;
    lli_context_enter(transmitter->context);
    if (transmitter->claimed != NULL && transmitter->claimed == topic->claims) {
        lli_pack_abort(&transmitter->tx.pack);
        transmitter->claimed = NULL;
        /* A poll in the meantime could not send what is packed before the claim. */
        lli_endpoint_due(transmitter->endpoint, 0);
        error = LLM_OK;
    }
    lli_context_leave(transmitter->context);
    return error;
}

/* ---------------------------------------------------------------------------------------------- topics */

static int transmitter_topic(struct llm_transmitter *transmitter, const char *name, unsigned flags, struct llm_topic **result)
{
    const struct lli_log *log = &transmitter->context->log;
    struct lli_tx *tx = &transmitter->tx;
    /* What is unreliable has no history anyway. */
    const bool transient = flags & LLM_TOPIC_NO_HISTORY && !(flags & LLM_TOPIC_UNRELIABLE);
    const size_t name_max = LLI_WIRE_NAME_MAX - (flags & LLM_TOPIC_NO_HISTORY ? LLI_WIRE_NAME_FLAGS : 0);
    struct llm_topic *topic;
    int error;

    if (strlen(name) < 1 || strlen(name) > name_max)
        return lli_fail(log, LLM_EINVAL, "topic \"%.32s\": a name has 1 to %zu bytes%s, this one has %zu", name, name_max,
                        flags & LLM_TOPIC_NO_HISTORY ? " without history" : "", strlen(name));
    for (topic = transmitter->topics; topic != NULL; topic = topic->next)
        if (strcmp(topic->name, name) == 0)
            return lli_fail(log, LLM_EINVAL, "topic \"%s\" is open already on this transmitter", name);
    if (transmitter->claimed == transmitter)
        return lli_fail(log, LLM_ESTATE, "topic \"%s\": the connection is over, close it", name);
    if (transmitter->claimed != NULL)
        return lli_fail(log, LLM_ESTATE, "topic \"%s\": commit or abort the open claim first", name);
    topic = calloc(1, sizeof *topic);
    if (topic == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for a topic");
    topic->transmitter = transmitter;
    memcpy(topic->name, name, strlen(name));
    topic->pack.whole = flags & LLM_TOPIC_WHOLE;
    topic->pack.unreliable = flags & LLM_TOPIC_UNRELIABLE;
    topic->pack.transient = transient;
    do
        error = transient ? lli_tx_topic_add_transient(tx, topic->name, &topic->pack.id)
                          : lli_tx_topic_add(tx, topic->name, &topic->pack.id);
    while (error == LLM_EAGAIN && transmitter_make_room(transmitter));
    if (error != LLM_OK) {
        free(topic);
        if (error == LLM_ELIMIT)
            return lli_fail(log, error, "topic \"%s\": there are topics_max=%u already", name, tx->config.topics_max);
        return error;
    }
    if (topic->pack.unreliable)
        lli_pack_unreliable(&tx->pack, topic->pack.id);
    lli_topic_route(topic);
    topic->next = transmitter->topics;
    transmitter->topics = topic;
    *result = topic;
    transmitter_packed(transmitter, LLM_SEND_MORE);
    return LLM_OK;
}

int llm_topic_open(struct llm_transmitter *transmitter, const char *name, unsigned flags, struct llm_topic **topic)
{
    int error;

    if (transmitter == NULL || name == NULL || topic == NULL || flags > (LLM_TOPIC_WHOLE | LLM_TOPIC_UNRELIABLE | LLM_TOPIC_NO_HISTORY))
        return LLM_EINVAL;
    lli_context_enter(transmitter->context);
    error = transmitter_topic(transmitter, name, flags, topic);
    lli_context_leave(transmitter->context);
    return error;
}
