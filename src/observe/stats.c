/* SPDX-License-Identifier: Apache-2.0 */
/* Counters by name: visits a context and all objects open in it. */
#include "observe/stats.h"

#include <stdio.h>
#include <string.h>

#include "engine/objects.h"
#include "observe/stats_file.h"
#include "security/guard.h"

static const struct lli_stats_row tx_rows[] = {
#define TX_ROW(name, text) {#name, offsetof(struct lli_tx_counters, name)},
    LLI_TX_COUNTERS(TX_ROW)};

static const struct lli_stats_row rx_rows[] = {
#define RX_ROW(name, text) {#name, offsetof(struct lli_rx_counters, name)},
    LLI_RX_COUNTERS(RX_ROW)};

static const struct lli_stats_row endpoint_rows[] = {
#define ENDPOINT_ROW(name, text) {#name, offsetof(struct lli_endpoint_counters, name)},
    LLI_ENDPOINT_COUNTERS(ENDPOINT_ROW)};

#define ROWS(rows) (rows), (int)(sizeof(rows) / sizeof(rows)[0])

/* ----------------------------------------------------------------------------------------------- the walk */

void lli_stats_put(const struct lli_stats_visitor *to, enum llm_stats_type type, const char *name,
                   uint64_t value)
{
    to->row(to->arg, type, name, value);
}

static uint64_t stats_read(const void *base, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const uint8_t *)base + offset, sizeof value);
    return value;
}

void lli_stats_rows(const struct lli_stats_visitor *to, const void *base, const struct lli_stats_row *rows,
                    int count)
{
    for (int i = 0; i < count; i++)
        lli_stats_put(to, LLM_STATS_COUNTER, rows[i].name, stats_read(base, rows[i].offset));
}

static enum llm_stats_type stats_transport_type(const struct lli_transport *transport, const char *name)
{
    for (const char *const *gauge = transport->gauges; gauge != NULL && *gauge != NULL; gauge++)
        if (strcmp(name, *gauge) == 0)
            return LLM_STATS_GAUGE;
    return LLM_STATS_COUNTER;
}

/* Visits the counters of an instance of a transport, and of those below it. */
static void stats_instance(const struct lli_stats_visitor *to, const struct lli_transport *transport,
                           const void *instance)
{
    const struct lli_transport *inner;
    const void *inner_instance = NULL;

    for (const struct lli_counter *counter = transport->counters; counter->name != NULL; counter++)
        lli_stats_put(to, stats_transport_type(transport, counter->name), counter->name,
                      stats_read(instance, counter->offset));
    for (int i = 0;
         transport->inner != NULL && (inner = transport->inner(instance, i, &inner_instance)) != NULL; i++)
        stats_instance(to, inner, inner_instance);
}

static void stats_keys(const struct lli_stats_visitor *to, const struct lli_endpoint *endpoint)
{
    struct lli_guard_epoch epoch;

    if (endpoint->guard == NULL)
        return;
    epoch = lli_guard_epoch(endpoint->guard);
    lli_stats_put(to, LLM_STATS_GAUGE, "keys_epoch", epoch.id);
    lli_stats_put(to, LLM_STATS_GAUGE, "keys_age_s", epoch.age_s);
    lli_stats_put(to, LLM_STATS_GAUGE, "keys_left_s", epoch.left_s);
}

static void stats_transport(const struct lli_stats_visitor *to, const struct lli_endpoint *endpoint)
{
    to->object(to->arg, LLM_STATS_TRANSPORT, 0, endpoint->object);
    lli_stats_rows(to, &endpoint->counters, ROWS(endpoint_rows));
    stats_keys(to, endpoint);
    stats_instance(to, endpoint->transport, endpoint->instance);
    if (to->histogram != NULL)
        lli_latency_visit_endpoint(endpoint->latency, to->histogram, to->arg);
}

/* A table has no room for all topics that may exist (ADR 17). */
enum { STATS_TOPICS = 256 };

static void stats_topic(const struct lli_stats_visitor *to, uint32_t id, const char *name,
                        const struct lli_topic_count *count)
{
    char object[sizeof "topic " + LLI_WIRE_NAME_MAX];

    (void)snprintf(object, sizeof object, "topic %s", name);
    to->object(to->arg, LLM_STATS_TOPIC, id, object);
    lli_stats_put(to, LLM_STATS_COUNTER, "topic_messages", count->messages);
    lli_stats_put(to, LLM_STATS_COUNTER, "topic_bytes", count->bytes);
}

static void stats_topics_sent(const struct lli_stats_visitor *to, const struct llm_transmitter *transmitter)
{
    for (const struct llm_topic *topic = transmitter->topics; topic != NULL; topic = topic->next)
        if (topic->pack.id < STATS_TOPICS)
            stats_topic(to, topic->pack.id, topic->name, &topic->count);
}

static void stats_topics_delivered(const struct lli_stats_visitor *to, const struct lli_rx *rx)
{
    for (uint32_t id = 0; id < STATS_TOPICS && id < rx->topics.known; id++)
        if (!lli_topics_is_refused(&rx->topics, id))
            stats_topic(to, id, lli_topics_name(&rx->topics, id), &rx->names.counts[id]);
}

static void stats_member(const struct lli_stats_visitor *to, const struct lli_member *member)
{
    to->object(to->arg, LLM_STATS_MEMBER, member->id, "");
    lli_stats_put(to, LLM_STATS_GAUGE, "lag_packets", member->lag);
    lli_stats_put(to, LLM_STATS_GAUGE, "member_lag_bytes", member->lag_bytes);
    lli_stats_put(to, LLM_STATS_GAUGE, "member_rtt_ns", member->rtt);
    lli_stats_put(to, LLM_STATS_GAUGE, "member_window_packets", member->window);
    lli_stats_put(to, LLM_STATS_GAUGE, "member_heard_at", member->heard_at);
    lli_stats_put(to, LLM_STATS_GAUGE, "member_standing", member->standing);
    lli_stats_put(to, LLM_STATS_COUNTER, "member_naks", member->naks);
    lli_stats_put(to, LLM_STATS_COUNTER, "member_packets_lost", member->lost);
    lli_stats_put(to, LLM_STATS_COUNTER, "member_packets_dropped", member->dropped);
    lli_stats_put(to, LLM_STATS_GAUGE, "member_limited_by", member->limits.limit);
}

/* Visits the results of the bottleneck watch, where it runs. */
static void stats_watched_transmitter(const struct lli_stats_visitor *to,
                                      const struct llm_transmitter *transmitter)
{
    const struct lli_watched *watched = &transmitter->watch;

    if (transmitter->context->watch.interval == 0)
        return;
    lli_stats_put(to, LLM_STATS_GAUGE, "limited_by", watched->latest.limit);
    lli_stats_put(to, LLM_STATS_COUNTER, "blocked_window_ns", watched->ever.window_ns);
    lli_stats_put(to, LLM_STATS_COUNTER, "blocked_rate_ns", watched->ever.rate_ns);
    lli_stats_put(to, LLM_STATS_COUNTER, "blocked_history_ns", watched->ever.history_ns);
    lli_stats_put(to, LLM_STATS_COUNTER, "blocked_transport_ns", watched->ever.transport_ns);
}

static void stats_watched_receiver(const struct lli_stats_visitor *to, const struct llm_receiver *receiver)
{
    const struct llm_bottleneck *latest = &receiver->watch.latest;

    if (receiver->context->watch.interval == 0)
        return;
    lli_stats_put(to, LLM_STATS_GAUGE, "limited_by", latest->limit);
    lli_stats_put(to, LLM_STATS_COUNTER, "away_ns", receiver->context->watch.away_ever);
    lli_stats_put(to, LLM_STATS_GAUGE, "away_ns_max", latest->away_ns_max);
    lli_stats_put(to, LLM_STATS_GAUGE, "dropped_packets", latest->packets_dropped);
}

static void stats_transmitter(const struct lli_stats_visitor *to, const struct llm_transmitter *transmitter)
{
    const struct lli_tx *tx = &transmitter->tx;

    to->object(to->arg, LLM_STATS_TRANSMITTER, tx->config.session, transmitter->object);
    lli_stats_rows(to, &tx->counters, ROWS(tx_rows));
    lli_stats_put(to, LLM_STATS_COUNTER, "messages_sent", tx->pack.number - tx->counters.numbers_skipped);
    lli_stats_put(to, LLM_STATS_GAUGE, "messages_unacknowledged", tx->ack.waiting);
    lli_stats_put(to, LLM_STATS_GAUGE, "receivers", tx->members.count);
    lli_stats_put(to, LLM_STATS_GAUGE, "rtt_ns", tx->group.rtt);
    lli_stats_put(to, LLM_STATS_GAUGE, "history_packets", tx->history.next - tx->history.trail);
    lli_stats_put(to, LLM_STATS_GAUGE, "unsent_packets", tx->history.next - tx->sent);
    lli_stats_put(to, LLM_STATS_GAUGE, "topics", tx->topics.count);
    stats_watched_transmitter(to, transmitter);
    if (to->histogram != NULL)
        lli_latency_visit_tx(transmitter->latency, to->histogram, to->arg);
    if (!to->detail)
        return;
    if (transmitter->counts_topics)
        stats_topics_sent(to, transmitter);
    for (uint32_t i = 0, seen = 0; i < tx->members.limit && seen < tx->members.count; i++) {
        if (tx->members.table[i].id == 0)
            continue;
        stats_member(to, &tx->members.table[i]);
        seen++;
    }
}

static void stats_session(const struct lli_stats_visitor *to, const struct lli_rx *rx)
{
    const lli_seq known = lli_max(rx->gap.end, rx->heard.heartbeat_at == 0 ? 0 : rx->heartbeat.lead);

    to->object(to->arg, LLM_STATS_SESSION, rx->session, "");
    lli_stats_put(to, LLM_STATS_GAUGE, "lag_packets", known - rx->gap.next);
    lli_stats_put(to, LLM_STATS_GAUGE, "packets_missing", rx->gap.missing);
    lli_stats_put(to, LLM_STATS_GAUGE, "session_repair_rtt_ns", rx->nak.rtt);
    lli_stats_put(to, LLM_STATS_GAUGE, "session_silent", rx->heard.silent);
    lli_stats_put(to, LLM_STATS_GAUGE, "session_heard_at", rx->heard_at);
    lli_stats_put(to, LLM_STATS_GAUGE, "topics", rx->topics.known);
    lli_stats_put(to, LLM_STATS_COUNTER, "session_messages", lli_rx_delivered(rx) - rx->join.first);
    lli_stats_put(to, LLM_STATS_COUNTER, "session_naks", rx->nak.sent);
    lli_stats_put(to, LLM_STATS_COUNTER, "session_packets_lost", rx->loss.packets);
    if (rx->config->counts_topics)
        stats_topics_delivered(to, rx);
}

/* Lateness of a line, of the session whose packets are latest on it, and the sessions that it is down for. */
struct stats_line {
    uint64_t late_ns;
    uint64_t down;
};

static struct stats_line stats_line(const struct llm_receiver *receiver, int line)
{
    struct stats_line found = {.down = 0};

    for (uint32_t i = 0; i < receiver->sessions_used; i++) {
        const struct lli_rx *rx = &receiver->sessions[i];

        if (rx->state != LLI_RX_LIVE)
            continue;
        found.late_ns = lli_max(found.late_ns, rx->lines->line[line].late);
        found.down += rx->lines->line[line].down;
    }
    return found;
}

static void stats_lines(const struct lli_stats_visitor *to, const struct llm_receiver *receiver)
{
    const struct stats_line first = stats_line(receiver, 0), second = stats_line(receiver, 1);

    lli_stats_put(to, LLM_STATS_GAUGE, "line_1_late_ns", first.late_ns);
    lli_stats_put(to, LLM_STATS_GAUGE, "line_1_down", first.down);
    lli_stats_put(to, LLM_STATS_GAUGE, "line_2_late_ns", second.late_ns);
    lli_stats_put(to, LLM_STATS_GAUGE, "line_2_down", second.down);
    if (to->histogram == NULL || receiver->latency == NULL)
        return;
    to->histogram(to->arg, "line_1_skew_ns", &receiver->lines->line_1_skew_ns);
    to->histogram(to->arg, "line_2_skew_ns", &receiver->lines->line_2_skew_ns);
}

static void stats_receiver(const struct lli_stats_visitor *to, const struct llm_receiver *receiver)
{
    uint64_t live = 0;

    to->object(to->arg, LLM_STATS_RECEIVER, receiver->config.receiver, receiver->object);
    for (uint32_t i = 0; i < receiver->sessions_used; i++)
        live += receiver->sessions[i].state == LLI_RX_LIVE;
    lli_stats_rows(to, &receiver->counters, ROWS(rx_rows));
    lli_stats_put(to, LLM_STATS_GAUGE, "sessions", live);
    lli_stats_put(to, LLM_STATS_GAUGE, "reorder_packets", receiver->reorder.used);
    stats_watched_receiver(to, receiver);
    if (receiver->lines != NULL)
        stats_lines(to, receiver);
    if (to->histogram != NULL)
        lli_latency_visit_rx(receiver->latency, to->histogram, to->arg);
    for (uint32_t i = 0; i < receiver->sessions_used && to->detail; i++)
        if (receiver->sessions[i].state == LLI_RX_LIVE)
            stats_session(to, &receiver->sessions[i]);
}

static void stats_context(const struct lli_stats_visitor *to, const struct llm_context *context)
{
    to->object(to->arg, LLM_STATS_CONTEXT, 0, "");
    lli_stats_put(to, LLM_STATS_COUNTER, "stats_writes", context->stats == NULL ? 0 : context->stats->writes);
    lli_stats_put(to, LLM_STATS_COUNTER, "stats_write_ns",
                  context->stats == NULL ? 0 : context->stats->write_ns);
    if (to->histogram != NULL)
        lli_latency_visit_context(context->latency, to->histogram, to->arg);
}

void lli_stats_visit(const struct llm_context *context, const struct lli_stats_visitor *to)
{
    if (to->detail)
        stats_context(to, context);
    for (const struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL;
         endpoint = endpoint->next) {
        stats_transport(to, endpoint);
        for (const struct llm_transmitter *t = endpoint->transmitters; t != NULL; t = t->next)
            stats_transmitter(to, t);
        for (const struct llm_receiver *r = endpoint->receivers; r != NULL; r = r->next)
            stats_receiver(to, r);
    }
    if (context->upcalls != NULL)
        context->upcalls->stats(context, to);
    if (context->store_calls != NULL)
        context->store_calls->stats(context, to);
    if (context->failover_calls != NULL)
        context->failover_calls->stats(context, to);
}

/* ------------------------------------------------------------------------------------------ by the caller */

/* Output of the visit: counters and their number, or the sum of the counters of one name. */
struct stats_out {
    struct llm_counter *stats;
    int max;
    int count;
    const char *object;
    const char *name; /* NULL: all */
    uint64_t sum;
};

static void stats_out_object(void *arg, enum llm_stats_kind kind, uint64_t id, const char *object)
{
    struct stats_out *out = arg;

    (void)kind;
    (void)id;
    out->object = object;
}

static void stats_out_row(void *arg, enum llm_stats_type type, const char *name, uint64_t value)
{
    struct stats_out *out = arg;

    (void)type;
    if (out->name != NULL && strcmp(out->name, name) != 0)
        return;
    if (out->count < out->max)
        out->stats[out->count] = (struct llm_counter){out->object, name, value};
    out->count++;
    out->sum += value;
}

/* Visits a context with its lock. False: the context is orphaned, and the call refused. */
static bool stats_collect(struct stats_out *out, const struct llm_context *context)
{
    const struct lli_stats_visitor visitor = {.arg = out, .object = stats_out_object, .row = stats_out_row};
    struct llm_context *locked = (struct llm_context *)(uintptr_t)context;

    if (!lli_context_enter(locked))
        return false;
    lli_stats_visit(context, &visitor);
    lli_context_leave(locked);
    return true;
}

int llm_context_counters(const struct llm_context *context, struct llm_counter *stats, int max)
{
    struct stats_out out = {.stats = stats, .max = max};

    if (context == NULL)
        return LLM_EINVAL;
    if (max < 0 || (stats == NULL && max > 0))
        return lli_refuse((struct llm_context *)(uintptr_t)context, LLM_EINVAL,
                          "llm_context_counters: max is %d%s: give room for so many, or 0 for "
                          "their number alone",
                          max, stats == NULL ? " and stats NULL" : "");
    return stats_collect(&out, context) ? out.count : LLM_ESTATE;
}

int llm_context_counter(const struct llm_context *context, const char *name, uint64_t *value)
{
    struct stats_out out = {.name = name};

    if (context == NULL)
        return LLM_EINVAL;
    if (name == NULL || value == NULL)
        return lli_refuse((struct llm_context *)(uintptr_t)context, LLM_EINVAL,
                          "llm_context_counter: %s is NULL: it has to be given",
                          name == NULL ? "name" : "value");
    if (!stats_collect(&out, context))
        return LLM_ESTATE;
    if (out.count == 0)
        return LLM_ENOTFOUND;
    *value = out.sum;
    return LLM_OK;
}
