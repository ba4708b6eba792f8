/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/endpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/destinations.h"
#include "engine/protection.h"
#include "engine/sealing.h"
#include "engine/objects.h"
#include "config/options.h"
#include "config/registry.h"

enum {
    ENDPOINT_BURST = 128,  /* packets fetched at a time */
    ENDPOINT_BURSTS = 8,   /* bursts received before due work is done */
    ENDPOINT_SCRATCH = 64, /* control packets in flight at a time; a power of two */
    ENDPOINT_SCRATCH_STRIDE = LLI_ENDPOINT_SCRATCH_STRIDE,
    ENDPOINT_POST = LLI_ENDPOINT_POST,
    ENDPOINT_OLD = 64, /* repairs, and replayed packets, between two sends of new packets */
};

/* Retry interval while the transport is stuck, in case it does not wake sleepers when it can continue. */
#define ENDPOINT_STUCK ((lli_ns)1000000)

/* Time for which packets are received before due work is done, if that takes longer than ENDPOINT_BURSTS. */
#define ENDPOINT_TURN ((lli_ns)10000000)

/* Interval between looks at the transport. */
#define ENDPOINT_REPORT ((lli_ns)1000000000)

/* ------------------------------------------------------------------------------------- open and close */

/*
 * Returns true if two channels can share an instance: they agree in all options that concern more than the
 * group.
 */
static bool endpoint_is_shared(const struct lli_channel *a, const struct lli_channel *b)
{
    const struct lli_channel_line *c = &a->second, *d = &b->second;
    const bool v6_c = strchr(c->host, ':') != NULL, v6_d = strchr(d->host, ':') != NULL;
    const bool v6_a = strchr(a->host, ':') != NULL, v6_b = strchr(b->host, ':') != NULL;

    return strcmp(a->scheme, b->scheme) == 0 && v6_a == v6_b && lli_protection_is_shared(a, b) &&
           lli_options_share_instance(&a->options, &b->options) &&
           lli_option_values_share_instance(&a->values, &b->values) && strcmp(c->scheme, d->scheme) == 0 &&
           v6_c == v6_d && lli_options_share_instance(&c->options, &d->options) &&
           lli_option_values_share_instance(&c->values, &d->values);
}

static void endpoint_set_address(struct lli_wire_address *wire, const struct lli_address *address)
{
    assert(address->size <= LLI_WIRE_ADDRESS_MAX);
    wire->size = address->size;
    memcpy(wire->bytes, address->bytes, address->size);
}

static int endpoint_address(struct lli_endpoint *endpoint)
{
    struct lli_address address = {.size = 0}, second = {.size = 0};
    int error = endpoint->transport->address(endpoint->instance, &address);

    if (error == LLM_OK && endpoint->lines != NULL)
        error = endpoint->lines->address(endpoint->instance, 1, &second);
    if (error != LLM_OK)
        return error;
    endpoint_set_address(&endpoint->address, &address);
    endpoint_set_address(&endpoint->line_2_address, &second);
    return LLM_OK;
}

static void endpoint_free(struct lli_endpoint *endpoint)
{
    free(endpoint->instance);
    free(endpoint->scratch);
    free(endpoint->scratch_posted);
    free(endpoint->latency);
    lli_sealing_close(endpoint);
    lli_protection_close(endpoint);
    lli_reach_fini(&endpoint->reach);
    free(endpoint);
}

static uint32_t endpoint_outline(const uint8_t *packet, uint32_t size, void *bytes, uint32_t max)
{
    const uint32_t run = sizeof(struct lli_outline_run);

    return run * lli_outline_make(packet, size, bytes, max / run);
}

static int endpoint_new(struct llm_context *context, const struct lli_channel *channel,
                        const struct lli_transport *transport, struct lli_endpoint **result)
{
    const struct lli_transport_config second = {
        .scheme = channel->second.scheme,
        .host = channel->second.host,
        .options = &channel->second.options,
        .values = &channel->second.values,
        .registry = &lli_registry,
        .log = &context->log,
        .size_at = LLI_WIRE_SIZE_AT,
    };
    const struct lli_transport_config config = {
        .second = lli_channel_has_lines(channel) ? &second : NULL,
        .scheme = channel->scheme,
        .host = channel->host,
        .options = &channel->options,
        .values = &channel->values,
        .registry = &lli_registry,
        .log = &context->log,
        .size_at = LLI_WIRE_SIZE_AT,
    };
    struct lli_endpoint *endpoint = calloc(1, sizeof *endpoint);
    size_t size = lli_round_up(transport->size, 64);
    int error = LLM_ENOMEM;

    if (endpoint == NULL)
        return lli_fail(&context->log, error, "no memory for an endpoint");
    endpoint->context = context;
    endpoint->transport = transport;
    endpoint->lines = transport->lines;
    endpoint->channel = *channel;
    endpoint->fd = -1;
    (void)snprintf(endpoint->object, sizeof endpoint->object, "transport %s%s%s", channel->scheme,
                   lli_channel_has_lines(channel) ? " + " : "", channel->second.scheme);
    endpoint->instance = aligned_alloc(64, size);
    endpoint->scratch = aligned_alloc(64, ENDPOINT_SCRATCH * ENDPOINT_SCRATCH_STRIDE);
    endpoint->scratch_posted = calloc(ENDPOINT_SCRATCH, sizeof *endpoint->scratch_posted);
    if (lli_latency_endpoint(endpoint) != LLM_OK)
        goto free_endpoint;
    if (lli_reach_init(&endpoint->reach, channel->options.receivers_max + channel->options.sessions_max) !=
            LLM_OK ||
        endpoint->instance == NULL || endpoint->scratch == NULL || endpoint->scratch_posted == NULL) {
        error = lli_fail(&context->log, error, "no memory for an endpoint");
        goto free_endpoint;
    }
    memset(endpoint->instance, 0, size);
    memset(endpoint->scratch, 0, ENDPOINT_SCRATCH * ENDPOINT_SCRATCH_STRIDE);
    error = transport->open(endpoint->instance, &config, &endpoint->caps);
    if (error != LLM_OK)
        goto free_endpoint;
    error = lli_protection_open(endpoint);
    if (error == LLM_OK)
        error = lli_sealing_open(endpoint);
    if (error == LLM_OK && transport->region != NULL)
        error = transport->region(endpoint->instance, endpoint->scratch,
                                  ENDPOINT_SCRATCH * ENDPOINT_SCRATCH_STRIDE);
    if (error == LLM_OK)
        error = endpoint_address(endpoint);
    if (error != LLM_OK)
        goto close_transport;
    endpoint->inspects = endpoint->latency != NULL || endpoint->guard != NULL || endpoint->lines != NULL;
    endpoint->more = endpoint->caps.flags & LLI_CAP_PARTIAL ? 1 : ENDPOINT_BURST;
    if (transport->excerpts != NULL && endpoint->guard == NULL)
        transport->excerpts->enable(endpoint->instance, endpoint_outline);
    *result = endpoint;
    return LLM_OK;

close_transport:
    transport->close(endpoint->instance);
free_endpoint:
    endpoint_free(endpoint);
    return error;
}

static int endpoint_no_transport(const struct llm_context *context, const char *scheme)
{
    const char *remedy = lli_transport_missing(scheme);
    char names[128];

    lli_transport_names(names, sizeof names);
    if (remedy != NULL)
        return lli_fail(&context->log, LLM_ESCHEME,
                        "scheme \"%s\": this library was built without it and has %s; %s", scheme, names,
                        remedy);
    return lli_fail(&context->log, LLM_ESCHEME,
                    "scheme \"%s\" is not known; this library has %s, and impair+ or shm+ before "
                    "each",
                    scheme, names);
}

int lli_endpoint_open(struct llm_context *context, const struct lli_channel *channel,
                      struct lli_endpoint **result)
{
    const bool lines = lli_channel_has_lines(channel);
    const struct lli_transport *transport = lli_transport_find(channel->scheme);
    struct lli_endpoint *endpoint;
    int error;

    if (transport == NULL)
        return endpoint_no_transport(context, channel->scheme);
    if (lines && lli_transport_find(channel->second.scheme) == NULL)
        return endpoint_no_transport(context, channel->second.scheme);
    if (lines && (transport = lli_transport_find(LLI_SCHEME_LINES)) == NULL)
        return endpoint_no_transport(context, LLI_SCHEME_LINES);
    for (endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next)
        if (endpoint_is_shared(&endpoint->channel, channel))
            break;
    if (endpoint == NULL) {
        error = endpoint_new(context, channel, transport, &endpoint);
        if (error != LLM_OK)
            return error;
        endpoint->next = context->endpoints;
        context->endpoints = endpoint;
    }
    endpoint->users++;
    *result = endpoint;
    return LLM_OK;
}

void lli_endpoint_close(struct lli_endpoint *endpoint)
{
    struct lli_endpoint **link = &endpoint->context->endpoints;

    if (--endpoint->users > 0)
        return;
    while (*link != endpoint)
        link = &(*link)->next;
    *link = endpoint->next;
    lli_endpoint_free(endpoint);
}

void lli_endpoint_free(struct lli_endpoint *endpoint)
{
    if (endpoint->inherited != NULL)
        endpoint->inherited->abandon(endpoint->instance);
    else
        endpoint->transport->close(endpoint->instance);
    endpoint_free(endpoint);
}

/* ------------------------------------------------------------------------------------------------ send */

/* Sends posted packets; lli_endpoint_flush() reads their completions. */
static void endpoint_start(struct lli_endpoint *endpoint)
{
    endpoint->stuck = endpoint->transport->flush(endpoint->instance) != LLM_OK;
    endpoint->started = true;
}

/*
 * Sends posted packets, and reports completions to the transmitters: the transport counts packets, not by
 * transmitter.
 */
void lli_endpoint_flush(struct lli_endpoint *endpoint)
{
    uint64_t reaped;

    if (!endpoint->unsettled)
        return;
    if (!endpoint->started)
        endpoint_start(endpoint);
    endpoint->started = false;
    reaped = endpoint->transport->reap(endpoint->instance);
    endpoint->unsettled = endpoint->stuck || reaped < endpoint->posted;
    if (reaped < endpoint->reaping)
        return;
    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = transmitter->next)
        lli_tx_reaped(&transmitter->tx, reaped == endpoint->posted);
    endpoint->reaping = endpoint->posted;
}

int lli_endpoint_post(struct lli_endpoint *endpoint, const struct lli_out *packets, int count)
{
    int taken = endpoint->transport->post(endpoint->instance, packets, count);

    endpoint->posted += (uint64_t)taken;
    endpoint->unsettled = true;
    endpoint->started = false;
    if (taken == count)
        return taken;
    lli_endpoint_flush(endpoint);
    if (!endpoint->stuck) {
        int more = endpoint->transport->post(endpoint->instance, packets + taken, count - taken);

        endpoint->posted += (uint64_t)more;
        endpoint->unsettled = true;
        taken += more;
    }
    return taken;
}

/* Resolves the destination of a packet: its address, or the group. False if it cannot be resolved. */
static bool endpoint_resolve(struct lli_endpoint *endpoint, const struct lli_packet *packet, lli_handle group,
                             lli_handle *to)
{
    *to = group;
    if (packet->to == NULL || lli_reach_peer(endpoint, packet->to, to) == LLM_OK)
        return true;
    endpoint->counters.packets_unreachable++;
    return false;
}

uint8_t *lli_endpoint_scratch(struct lli_endpoint *endpoint)
{
    uint32_t index = endpoint->scratch_next & (ENDPOINT_SCRATCH - 1);

    if (endpoint->transport->reap(endpoint->instance) < endpoint->scratch_posted[index]) {
        lli_endpoint_flush(endpoint);
        if (endpoint->transport->reap(endpoint->instance) < endpoint->scratch_posted[index])
            return NULL;
    }
    return endpoint->scratch + (size_t)index * ENDPOINT_SCRATCH_STRIDE;
}

/*
 * Protects a packet in the scratch buffer that is in use, if the channel has keys and it is not protected yet. False:
 * it must not be sent.
 */
static bool endpoint_protect(struct lli_endpoint *endpoint, const uint8_t *packet, uint32_t *size)
{
    uint8_t *buffer = endpoint->scratch +
                      (size_t)(endpoint->scratch_next & (ENDPOINT_SCRATCH - 1)) * ENDPOINT_SCRATCH_STRIDE;

    assert(packet == buffer);
    return endpoint->guard == NULL || lli_protection_control(endpoint, buffer, size);
}

/* Protects and posts a packet that is in the scratch buffer in turn. */
static void endpoint_post_scratch(struct lli_endpoint *endpoint, struct lli_out packet)
{
    if (!endpoint_protect(endpoint, packet.data, &packet.size))
        return;
    if (lli_endpoint_post(endpoint, &packet, 1) == 0) {
        endpoint->counters.packets_unsent++;
        return;
    }
    endpoint->scratch_posted[endpoint->scratch_next++ & (ENDPOINT_SCRATCH - 1)] = endpoint->posted;
}

/*
 * Posts a packet on two lines, or on that of its peer. One that announces the address of this instance announces
 * on each line the address that it has there.
 */
static LLI_OUT_OF_LINE void endpoint_post_lines(struct lli_endpoint *endpoint, struct lli_out packet)
{
    const int line = endpoint->lines->line_to(endpoint->instance, packet.to);
    uint8_t second[LLI_ENDPOINT_SCRATCH];
    const size_t size = lli_wire_readdress(packet.data, packet.size, &endpoint->address,
                                           &endpoint->line_2_address, second, sizeof second);
    uint8_t *buffer;

    if (size == 0 || line == 0) {
        endpoint_post_scratch(endpoint, packet);
        return;
    }
    if (line < 0) {
        const lli_handle group = packet.to;

        packet.to = endpoint->lines->narrow(group, 0);
        endpoint_post_scratch(endpoint, packet);
        packet.to = endpoint->lines->narrow(group, 1);
    }
    buffer = lli_endpoint_scratch(endpoint);
    if (buffer == NULL) {
        endpoint->counters.packets_unsent++;
        return;
    }
    memcpy(buffer, second, size);
    packet.data = buffer;
    packet.size = (uint32_t)size;
    endpoint_post_scratch(endpoint, packet);
}

void lli_endpoint_post_control(struct lli_endpoint *endpoint, const struct lli_packet *packet,
                               lli_handle group)
{
    struct lli_out out = {.data = packet->data, .size = packet->size};

    if (!endpoint_resolve(endpoint, packet, group, &out.to))
        return;
    if (endpoint->lines != NULL)
        endpoint_post_lines(endpoint, out);
    else
        endpoint_post_scratch(endpoint, out);
}

void lli_endpoint_post_session(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter,
                               struct lli_packet *packet)
{
    /* All destinations get the same bytes. */
    if (transmitter->destinations != NULL && !endpoint_protect(endpoint, packet->data, &packet->size))
        return;
    lli_destinations_post_others(endpoint, transmitter, packet);
    /* The buffer is in use even if the transport has no room for the first destination. */
    endpoint->scratch_posted[endpoint->scratch_next & (ENDPOINT_SCRATCH - 1)] = endpoint->posted;
    lli_endpoint_post_control(endpoint, packet, transmitter->group);
}

/* Posts sealed packets until none is left or the transport takes no more. */
static void endpoint_post_data(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter, lli_ns now)
{
    struct lli_out out[ENDPOINT_POST];
    int count, taken;

    do {
        count = lli_tx_ready(&transmitter->tx, now, transmitter->posted_max);
        if (count == 0) {
            if (transmitter->posted_max == 0)
                lli_destinations_post(endpoint, transmitter, now);
            return;
        }
        for (int i = 0; i < count; i++) {
            const struct lli_packet packet = lli_tx_packet(&transmitter->tx, i);

            out[i] = (struct lli_out){packet.data, packet.size, transmitter->group};
        }
        taken = lli_endpoint_post(endpoint, out, count);
        /* Send these before any other work. */
        if (taken < ENDPOINT_POST)
            endpoint_start(endpoint);
        lli_tx_sent(&transmitter->tx, taken, now);
    } while (lli_tx_may_follow(&transmitter->tx, count, taken));
}

/* Slow path after a flush: rate limits and the latency monitor. */
static void endpoint_watch(struct llm_transmitter *transmitter, lli_seq sent, uint64_t begin)
{
    struct lli_tx *tx = &transmitter->tx;

    if (!lli_tx_is_paced(tx) && tx->sent != sent)
        lli_tx_sent_at(tx, lli_context_time(transmitter->context, transmitter->flushed_at));
    if (transmitter->latency != NULL)
        lli_latency_sent(transmitter, begin, transmitter->flushed_at);
}

/* Measures the flush that just ended: the transport counts as busy for as long again. */
static inline void endpoint_flushed(struct llm_transmitter *transmitter, uint64_t begin)
{
    transmitter->flushed_at = lli_ticks();
    transmitter->busy_for = transmitter->flushed_at - begin;
}

int lli_endpoint_send(struct llm_transmitter *transmitter, bool all, uint64_t begin)
{
    struct lli_endpoint *endpoint = transmitter->endpoint;
    struct lli_tx *tx = &transmitter->tx;
    const bool watched = transmitter->watched;
    const lli_seq sent = tx->sent;
    /*
     * Only a rate limit needs the time before the flush; otherwise the clock is read after the packets left.
     */
    const lli_ns now = watched && lli_tx_is_paced(tx) ? lli_clock_ns() : LLI_NEVER;

    if (all)
        lli_tx_seal(tx, now);
    endpoint_post_data(endpoint, transmitter, now);
    lli_endpoint_flush(endpoint);
    endpoint_flushed(transmitter, begin);
    if (watched)
        endpoint_watch(transmitter, sent, begin);
    else if (tx->sent != sent)
        lli_tx_sent_at(tx, lli_context_time(endpoint->context, transmitter->flushed_at));
    lli_endpoint_due(endpoint, lli_tx_deadline(tx));
    lli_pack_prepare(&tx->pack, lli_tx_busy(tx));
    transmitter->dirty &= !all;
    return endpoint->stuck || tx->sent < tx->history.next ? LLM_EAGAIN : LLM_OK;
}

/* Accounts for a packet that is in the history and was posted; or posts it, if the transport did not take it. */
static LLI_INLINE void endpoint_sent_one(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter,
                                         bool taken, uint64_t begin)
{
    struct lli_tx *tx = &transmitter->tx;

    if (!taken) {
        (void)lli_endpoint_send(transmitter, true, begin);
        return;
    }
    endpoint->posted++;
    endpoint->unsettled = true;
    lli_tx_sent(tx, 1, LLI_NEVER);
    lli_endpoint_flush(endpoint);
    endpoint_flushed(transmitter, begin);
    lli_tx_sent_at(tx, lli_context_time(endpoint->context, transmitter->flushed_at));
    if (transmitter->latency != NULL)
        lli_latency_sent(transmitter, begin, transmitter->flushed_at);
    lli_endpoint_due(endpoint, lli_tx_deadline(tx));
    lli_pack_prepare(&tx->pack, lli_tx_busy(tx));
}

void lli_endpoint_sent_single(struct llm_transmitter *transmitter, const uint8_t *packet, uint32_t bytes,
                              bool taken, uint64_t begin)
{
    struct lli_endpoint *endpoint = transmitter->endpoint;

    if (taken)
        endpoint_start(endpoint);
    lli_pack_single_end(&transmitter->tx.pack, packet, bytes);
    endpoint_sent_one(endpoint, transmitter, taken, begin);
}

void lli_endpoint_sent_protected(struct llm_transmitter *transmitter, uint32_t bytes, uint32_t protected,
                                 bool taken, uint64_t begin)
{
    struct lli_endpoint *endpoint = transmitter->endpoint;
    struct lli_history *history = &transmitter->tx.history;

    if (taken)
        endpoint_start(endpoint);
    lli_pack_single_end(&transmitter->tx.pack, transmitter->tx.pack.prepared, bytes);
    lli_history_extend(history, history->next - 1, protected);
    endpoint_sent_one(endpoint, transmitter, taken, begin);
}

LLI_OUT_OF_LINE void lli_endpoint_send_dirty(struct llm_context *context, bool all)
{
    bool dirty = false;

    for (struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next) {
        for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
             transmitter = transmitter->next) {
            uint64_t ticks;

            if (!transmitter->dirty)
                continue;
            ticks = lli_ticks();
            if (all || !lli_transmitter_is_busy(transmitter, ticks))
                (void)lli_endpoint_send(transmitter, true, ticks);
            dirty |= transmitter->dirty;
        }
    }
    context->dirty = dirty;
}

static void endpoint_post_repairs(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter,
                                  lli_ns now)
{
    struct lli_packet packet;
    struct lli_out out;

    for (int i = 0; i < ENDPOINT_OLD && !endpoint->stuck && lli_tx_repair(&transmitter->tx, now, &packet);
         i++) {
        out = (struct lli_out){.data = packet.data, .size = packet.size};
        /* A repair to an address that cannot be resolved is dropped: the receiver sends its NAK again. */
        if (endpoint_resolve(endpoint, &packet, transmitter->group, &out.to) &&
            lli_endpoint_post(endpoint, &out, 1) == 0)
            return;
        lli_destinations_post_others(endpoint, transmitter, &packet);
        lli_tx_repaired(&transmitter->tx, now);
    }
}

/* Posts a packet of cached messages (last value cache). False: there is none to post. */
static bool endpoint_post_lvc(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter, lli_ns now)
{
    struct lli_packet packet;
    uint8_t *buffer;

    if (transmitter->tx.lvc.waiting == 0 || endpoint->stuck ||
        (buffer = lli_endpoint_scratch(endpoint)) == NULL ||
        !lli_tx_replay_lvc(&transmitter->tx, now, buffer, endpoint->scratch_max, &packet))
        return false;
    lli_endpoint_post_control(endpoint, &packet, transmitter->group);
    return true;
}

/* Serves late joiners last: posts replayed packets, and cached messages between them. */
static void endpoint_post_replays(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter,
                                  lli_ns now)
{
    struct lli_packet packet;
    struct lli_out out;

    for (int i = 0; i < ENDPOINT_OLD && !endpoint->stuck && lli_tx_replay(&transmitter->tx, now, &packet);
         i++) {
        out = (struct lli_out){.data = packet.data, .size = packet.size};
        if (endpoint_resolve(endpoint, &packet, transmitter->group, &out.to) &&
            lli_endpoint_post(endpoint, &out, 1) == 0)
            return;
        lli_tx_replayed(&transmitter->tx);
        (void)endpoint_post_lvc(endpoint, transmitter, now);
    }
    for (int i = 0; i < ENDPOINT_OLD && endpoint_post_lvc(endpoint, transmitter, now); i++)
        continue;
}

/* Sends what is due for a transmitter. Returns the number of control packets, mostly heartbeats. */
static uint32_t endpoint_service_transmitter(struct lli_endpoint *endpoint,
                                             struct llm_transmitter *transmitter, lli_ns now)
{
    struct lli_packet packet;
    uint32_t count = 0;
    uint8_t *buffer;

    lli_tx_seal(&transmitter->tx, now);
    if (now < lli_tx_deadline(&transmitter->tx))
        return 0;
    endpoint_post_data(endpoint, transmitter, now);
    endpoint_post_repairs(endpoint, transmitter, now);
    for (; (buffer = lli_endpoint_scratch(endpoint)) != NULL &&
           lli_tx_control(&transmitter->tx, now, buffer, endpoint->scratch_max, &packet);
         count++)
        lli_endpoint_post_session(endpoint, transmitter, &packet);
    endpoint_post_replays(endpoint, transmitter, now);
    if (transmitter->tx.tokens.crowded != transmitter->tx.tokens.crowded_reported)
        lli_transmitter_log_crowd(transmitter);
    if (lli_tx_has_events(&transmitter->tx)) {
        /* Acknowledged packets need not stay: ask the transport again which ones it still reads. */
        endpoint->unsettled = true;
        lli_transmitter_events(transmitter);
    }
    return count;
}

/* Flushes `count` heartbeats alone, and reports the time that one took to the transmitters. */
static void endpoint_flush_heartbeats(struct lli_endpoint *endpoint, uint32_t count)
{
    const lli_ns begin = lli_clock_ns();
    lli_ns took;

    lli_endpoint_flush(endpoint);
    took = (lli_clock_ns() - begin) / count;
    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = transmitter->next)
        lli_tx_heartbeat_took(&transmitter->tx, took);
}

/* --------------------------------------------------------------------------------------------- receive */

static void endpoint_count_fault(struct lli_endpoint *endpoint, enum lli_wire_fault fault)
{
    switch (fault) {
    case LLI_WIRE_SHORT:
        endpoint->counters.packets_short++;
        break;
    case LLI_WIRE_VERSION_BAD:
        endpoint->counters.packets_version++;
        break;
    case LLI_WIRE_TYPE_BAD:
        endpoint->counters.packets_type++;
        break;
    case LLI_WIRE_MALFORMED:
        endpoint->counters.packets_malformed++;
        break;
    case LLI_WIRE_OK:
    case LLI_WIRE_CONTROL:
        break;
    }
}

LLI_OUT_OF_LINE bool lli_endpoint_is_from(struct lli_endpoint *endpoint, const struct lli_in *in,
                                          uint8_t type, const uint8_t *body, size_t body_size)
{
    /* With keys a member sent the packet, and whoever delivered it could not change it. */
    const bool checks = endpoint->guard == NULL && endpoint->transport->came_from != NULL &&
                        endpoint->channel.options.check_source != 0;
    struct lli_wire_address announced;
    struct lli_address address;

    if ((!checks && endpoint->lines == NULL) || !lli_wire_get_announced(type, body, body_size, &announced))
        return true;
    address.size = announced.size;
    memcpy(address.bytes, announced.bytes, sizeof address.bytes);
    if (!checks || endpoint->transport->came_from(endpoint->instance, in, &address)) {
        if (endpoint->lines != NULL)
            endpoint->lines->announced(endpoint->instance, in, &address);
        return true;
    }
    if (endpoint->counters.packets_misaddressed++ == 0)
        lli_log(&endpoint->context->log, LLM_LEVEL_WARNING,
                "%s: a packet of type %u announced an address of another host than the one that "
                "it came from, and was refused, as all such are; where a network translates addresses set "
                "check_source=0 on all channels",
                endpoint->object, type);
    return false;
}

/* Hands a packet to accepted connections that heard nothing yet, whose sessions are not linked. */
static LLI_OUT_OF_LINE void endpoint_hand_on_unheard(struct lli_endpoint *endpoint, bool group, bool known,
                                                     const struct lli_rx_packet *packet, lli_ns now)
{
    const bool unheard =
        !group && endpoint->unheard > 0 && endpoint->context->upcalls->confirm(endpoint, packet, now);

    endpoint->counters.packets_foreign += !known && !unheard;
}

/* Hands a packet to the sessions that have its tag. */
static inline void endpoint_hand_on(struct lli_endpoint *endpoint, const struct lli_in *in,
                                    const struct lli_rx_packet *packet, lli_ns now)
{
    const bool group = in->from != LLI_HANDLE_UNICAST;
    bool known = false;

    for (struct llm_receiver *receiver = endpoint->receivers; receiver != NULL; receiver = receiver->next)
        if (!group || receiver->group == in->from)
            known |= lli_sessions_input(receiver, group, packet, now);
    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL && !group;
         transmitter = transmitter->next) {
        if ((uint32_t)transmitter->tx.config.session != packet->header.tag)
            continue;
        known = true;
        lli_endpoint_due(endpoint, 0);
        lli_tx_input(&transmitter->tx, &packet->header, packet->body, packet->body_size, now);
    }
    if (!known || endpoint->unheard > 0)
        endpoint_hand_on_unheard(endpoint, group, known, packet, now);
}

/* Hands a packet on to connections, or only checks its form if there are none. */
static enum lli_wire_fault endpoint_input_connection(struct lli_endpoint *endpoint, const struct lli_in *in,
                                                     lli_ns now)
{
    struct lli_wire_header header;
    enum lli_wire_fault fault;
    const uint8_t *body;
    size_t size;

    if (endpoint->context->upcalls != NULL)
        return endpoint->context->upcalls->input(endpoint, in, now);
    fault = lli_wire_get_connection(in->data, in->size, &header, &body, &size);
    endpoint->counters.packets_foreign += fault == LLI_WIRE_OK;
    return fault;
}

/* Takes packets other than DATA: control packets, those of connections being set up, or invalid ones. */
static LLI_OUT_OF_LINE void endpoint_input_other(struct lli_endpoint *endpoint, const struct lli_in *in,
                                                 enum lli_wire_fault fault,
                                                 const struct lli_rx_packet *packet, lli_ns now)
{
    if (fault == LLI_WIRE_CONTROL) {
        if (lli_endpoint_is_from(endpoint, in, packet->header.type, packet->body, packet->body_size))
            endpoint_hand_on(endpoint, in, packet, now);
        return;
    }
    lli_endpoint_due(endpoint, 0);
    if (fault == LLI_WIRE_VERSION_BAD && lli_protection_is_keyless(endpoint, in))
        return;
    endpoint_count_fault(endpoint,
                         fault != LLI_WIRE_TYPE_BAD ? fault : endpoint_input_connection(endpoint, in, now));
}

static LLI_INLINE void endpoint_input(struct lli_endpoint *endpoint, const struct lli_in *in, int line,
                                      lli_ns now)
{
    struct lli_rx_packet packet = {
        .bytes = in->data, .size = in->size, .stamp_ns = in->stamp_ns, .line = (uint8_t)line};
    enum lli_wire_fault fault =
        lli_wire_get_base(in->data, in->size, &packet.header, &packet.body, &packet.body_size);

    if (fault != LLI_WIRE_OK)
        endpoint_input_other(endpoint, in, fault, &packet, now);
    else
        endpoint_hand_on(endpoint, in, &packet, now);
}

/* Returns the only receiver of a group; NULL: there are others, or none. */
static struct llm_receiver *endpoint_receiver_of(const struct lli_endpoint *endpoint, lli_handle group)
{
    struct llm_receiver *only = NULL;

    for (struct llm_receiver *receiver = endpoint->receivers; receiver != NULL; receiver = receiver->next) {
        if (receiver->group != group)
            continue;
        if (only != NULL)
            return NULL;
        only = receiver;
    }
    return only;
}

/* Takes a packet of which the transport has copied the head and the outline. */
static LLI_OUT_OF_LINE void endpoint_input_outlined(struct lli_endpoint *endpoint, const struct lli_in *in,
                                                    lli_ns now)
{
    const struct lli_excerpt_calls *calls = endpoint->transport->excerpts;
    struct llm_receiver *receiver = endpoint_receiver_of(endpoint, in->from);
    struct lli_piece pieces[LLI_RX_PIECES_MAX];
    struct lli_in whole = *in;
    uint32_t count = 0;

    if (receiver != NULL)
        count = lli_sessions_excerpt(receiver, in, pieces);
    if (count > 0) {
        if (calls->fetch(endpoint->instance, in, pieces, count))
            lli_sessions_input_excerpt(receiver, in, pieces, now);
        return;
    }
    pieces[0] = (struct lli_piece){.size = in->size};
    whole.outline = NULL;
    if (calls->fetch(endpoint->instance, in, pieces, 1))
        endpoint_input(endpoint, &whole, 0, now);
}

/* Returns true if a packet may have a single message: the size of the first message excludes most others. */
static inline bool endpoint_may_be_single(const struct lli_in *in)
{
    const uint8_t *at = in->data + LLI_WIRE_DATA_HEADER;

    if (in->size <= LLI_WIRE_DATA_HEADER + 1)
        return false;
    if (at[0] <= LLI_FRAME_SHORT_MAX)
        return in->size == LLI_WIRE_DATA_HEADER + 1u + at[0];
    return at[0] >= LLI_FRAME_TOPIC_SHORT || in->size == LLI_WIRE_DATA_HEADER + 2u + lli_frame_medium(at);
}

/* Processes a burst of several packets. */
static LLI_OUT_OF_LINE void endpoint_receive(struct lli_endpoint *endpoint, const struct lli_in *packets,
                                             int count, lli_ns now)
{
    for (int i = 0; i < count; i++) {
        if (!endpoint_may_be_single(&packets[i]) || !lli_sessions_single_of_burst(endpoint, &packets[i], now))
            endpoint_input(endpoint, &packets[i], 0, now);
        if (endpoint->context->dirty)
            lli_endpoint_send_dirty(endpoint->context, false);
    }
    endpoint->transport->release(endpoint->instance, packets, count);
}

void lli_endpoint_ask_outlines(struct lli_endpoint *endpoint)
{
    const struct lli_excerpt_calls *calls = endpoint->transport->excerpts;

    if (endpoint->outlines || calls == NULL || endpoint->guard != NULL)
        return;
    calls->ask(endpoint->instance);
    endpoint->outlines = endpoint->inspects = true;
}

/* Processes a packet that arrived alone. */
static LLI_OUT_OF_LINE void endpoint_receive_alone(struct lli_endpoint *endpoint, const struct lli_in *packet,
                                                   lli_ns now)
{
    endpoint_input(endpoint, packet, 0, now);
    if (endpoint->context->dirty)
        lli_endpoint_send_dirty(endpoint->context, false);
    endpoint->transport->release(endpoint->instance, packet, 1);
}

/*
 * Fast path: processes a packet that arrived alone and has one message. False, with nothing changed: it is
 * not such a packet.
 */
static inline bool endpoint_receive_single(struct lli_endpoint *endpoint, const struct lli_in *packet,
                                           lli_ns now)
{
    if (!endpoint_may_be_single(packet) || !lli_sessions_single(endpoint, packet, now))
        return false;
    if (endpoint->context->dirty)
        lli_endpoint_send_dirty(endpoint->context, false);
    endpoint->transport->release(endpoint->instance, packet, 1);
    return true;
}

/*
 * Processes a burst of an endpoint with keys: what is authentic, after it was opened; or of one with two lines, or that
 * asked for outlines.
 */
static void endpoint_receive_inspected(struct lli_endpoint *endpoint, const struct lli_in *packets, int count,
                                       lli_ns now)
{
    if (endpoint->guard != NULL)
        lli_protection_look(endpoint);
    for (int i = 0; i < count; i++) {
        const struct lli_in *in = &packets[i];
        struct lli_in clear;
        int line = 0;

        if (endpoint->guard != NULL) {
            if (!lli_protection_take(endpoint, in, &clear))
                continue;
            in = &clear;
        }
        if (endpoint->lines != NULL) {
            line = endpoint->lines->line_of(endpoint->instance, &packets[i]);
            if (lli_sessions_second(endpoint, in, line, now))
                continue;
        }
        if (endpoint->outlines && in->outline != NULL)
            endpoint_input_outlined(endpoint, in, now);
        else if (!endpoint_may_be_single(in) ||
                 !(count == 1 ? lli_sessions_single : lli_sessions_single_of_burst)(endpoint, in, now))
            endpoint_input(endpoint, in, line, now);
        if (endpoint->context->dirty)
            lli_endpoint_send_dirty(endpoint->context, false);
    }
    endpoint->transport->release(endpoint->instance, packets, count);
}

/* Slow path of a burst: the latency monitor, keys, lines, and outlines. True: the burst was processed. */
static LLI_OUT_OF_LINE bool endpoint_inspect(struct lli_endpoint *endpoint, const struct lli_in *packets,
                                             int count, lli_ns now)
{
    if (endpoint->latency != NULL)
        lli_latency_fetched(endpoint, packets, count);
    if (endpoint->guard == NULL && endpoint->lines == NULL && !endpoint->outlines)
        return false;
    endpoint_receive_inspected(endpoint, packets, count, now);
    return true;
}

/* Sends packed messages before anything else: they have waited longest. */
static LLI_OUT_OF_LINE void endpoint_send_packed(struct lli_endpoint *endpoint, lli_ns now)
{
    uint64_t begin = 0;

    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = transmitter->next) {
        lli_tx_seal(&transmitter->tx, now);
        if (endpoint->latency != NULL && begin == 0 && transmitter->tx.sent != transmitter->tx.history.next)
            begin = lli_ticks();
        endpoint_post_data(endpoint, transmitter, now);
    }
    lli_endpoint_flush(endpoint);
    if (begin == 0)
        return;
    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = transmitter->next)
        lli_latency_sent(transmitter, begin, 0);
}

/*
 * Logs deferred diagnostics of the transports below a transport, then its own: it adopts an address that they
 * have found, before the endpoint announces it. Returns true if any of them has a report().
 */
static bool endpoint_report(const struct lli_transport *transport, void *instance)
{
    const struct lli_transport *inner;
    const void *inner_instance = NULL;
    bool reports = transport->report != NULL;

    for (int i = 0;
         transport->inner != NULL && (inner = transport->inner(instance, i, &inner_instance)) != NULL; i++)
        reports |= endpoint_report(inner, (void *)(uintptr_t)inner_instance);
    if (transport->report != NULL)
        transport->report(instance);
    return reports;
}

/* Announces the address of the instance if it changed (docs/protocol.md section 9). */
static void endpoint_move(struct lli_endpoint *endpoint, lli_ns now)
{
    const struct lli_wire_address before = endpoint->address, second = endpoint->line_2_address;

    if (endpoint_address(endpoint) != LLM_OK || (lli_wire_is_address(&before, &endpoint->address) &&
                                                 lli_wire_is_address(&second, &endpoint->line_2_address)))
        return;
    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = transmitter->next)
        lli_tx_move(&transmitter->tx, &endpoint->address, now);
    for (struct llm_receiver *receiver = endpoint->receivers; receiver != NULL; receiver = receiver->next)
        receiver->config.address = endpoint->address;
    if (endpoint->context->upcalls != NULL)
        endpoint->context->upcalls->moved(endpoint);
}

/* Looks at the transport, and at its table of addresses; regularly. */
static void endpoint_look(struct lli_endpoint *endpoint, lli_ns now)
{
    const bool reports = endpoint_report(endpoint->transport, endpoint->instance);

    endpoint_move(endpoint, now);
    endpoint->report_at = lli_reach_look(endpoint, now) || reports ? now + ENDPOINT_REPORT : LLI_NEVER;
}

/* Does what is due, and computes the next deadline. */
static LLI_OUT_OF_LINE void endpoint_service(struct lli_endpoint *endpoint, lli_ns now)
{
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    const uint64_t posted = endpoint->posted;
    lli_ns at = LLI_NEVER;
    uint32_t heartbeats = 0;

    if (endpoint->guard != NULL)
        lli_sealing_service(endpoint, now);
    for (transmitter = endpoint->transmitters; transmitter != NULL; transmitter = transmitter->next)
        heartbeats += endpoint_service_transmitter(endpoint, transmitter, now);
    for (receiver = endpoint->receivers; receiver != NULL; receiver = receiver->next)
        at = lli_min(at, lli_sessions_service(receiver, now));
    if (heartbeats > 0 && endpoint->posted - posted == heartbeats)
        endpoint_flush_heartbeats(endpoint, heartbeats);
    else
        lli_endpoint_flush(endpoint);
    if (now >= endpoint->report_at)
        endpoint_look(endpoint, now);
    /* Handlers may have packed and sent meanwhile. */
    for (transmitter = endpoint->transmitters; transmitter != NULL; transmitter = transmitter->next)
        at = lli_min(at, lli_tx_deadline(&transmitter->tx));
    if (endpoint->guard != NULL)
        at = lli_min(at, lli_sealing_deadline(endpoint));
    /*
     * An endpoint with transmitters is polled for its heartbeats; one with receivers only may have no other
     * deadline.
     */
    endpoint->deadline = endpoint->transmitters != NULL ? at : lli_min(at, endpoint->report_at);
    if (endpoint->stuck || (endpoint->guard != NULL && lli_protection_waits(endpoint)))
        endpoint->deadline = lli_max(endpoint->deadline, now + ENDPOINT_STUCK);
}

/* Returns true if a transport, or one below it, has packets that were not read. */
static bool endpoint_waits(const struct lli_transport *transport, const void *instance)
{
    const struct lli_transport *inner;
    const void *inner_instance = NULL;
    bool waits = transport->waiting != NULL && transport->waiting(instance);

    for (int i = 0; !waits && transport->inner != NULL &&
                    (inner = transport->inner(instance, i, &inner_instance)) != NULL;
         i++)
        waits = endpoint_waits(inner, inner_instance);
    return waits;
}

bool lli_endpoint_is_unread(const struct lli_endpoint *endpoint)
{
    return endpoint->unread || endpoint_waits(endpoint->transport, endpoint->instance);
}

/*
 * Returns the bursts left in a turn after a full one: none if the turn has to be brief, or if it, which began at begin, has
 * taken long, as it may in the application.
 */
static LLI_OUT_OF_LINE int endpoint_left(struct lli_endpoint *endpoint, int left, lli_ns begin)
{
    const bool ends = endpoint->brief || lli_clock_ns() > begin + ENDPOINT_TURN;

    endpoint->brief = false;
    return ends ? 0 : left;
}

void lli_endpoint_poll(struct lli_endpoint *endpoint, lli_ns now)
{
    struct lli_in packets[ENDPOINT_BURST];
    int left = ENDPOINT_BURSTS;
    int count;

    if (now >= endpoint->deadline && endpoint->transmitters != NULL)
        endpoint_send_packed(endpoint, now);
    do {
        count = endpoint->transport->receive(endpoint->instance, packets, ENDPOINT_BURST);
        if (count > 0 && !(endpoint->inspects && endpoint_inspect(endpoint, packets, count, now))) {
            if (count > 1)
                endpoint_receive(endpoint, packets, count, now);
            else if (!endpoint_receive_single(endpoint, packets, now))
                endpoint_receive_alone(endpoint, packets, now);
        }
        if (count < endpoint->more)
            break;
        left = count < ENDPOINT_BURST ? left - 1 : endpoint_left(endpoint, left - 1, now);
    } while (left > 0);
    if (now >= endpoint->deadline || endpoint->stuck ||
        (endpoint->unsettled && (count > 0 || left < ENDPOINT_BURSTS))) {
        endpoint->unread = left == 0;
        endpoint_service(endpoint, now);
    }
    /* Do not sleep while packets may wait. */
    if (left == 0)
        endpoint->deadline = 0;
}

lli_ns lli_endpoint_deadline(const struct llm_context *context)
{
    lli_ns at = lli_min(lli_min(context->stats_at, context->connections_at), context->stores_at);

    for (const struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL;
         endpoint = endpoint->next)
        at = lli_min(at, endpoint->deadline);
    return at;
}
