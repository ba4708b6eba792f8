/* SPDX-License-Identifier: Apache-2.0 */
/* Counters by name: walks a context and all that is open in it. */
#include <string.h>

#include "objects.h"

struct stats_row {
    const char *name;
    size_t offset;
};

static const struct stats_row tx_rows[] = {
#define TX_ROW(name, text) {#name, offsetof(struct lli_tx_counters, name)},
    LLI_TX_COUNTERS(TX_ROW)
};

static const struct stats_row rx_rows[] = {
#define RX_ROW(name, text) {#name, offsetof(struct lli_rx_counters, name)},
    LLI_RX_COUNTERS(RX_ROW)
};

static const struct stats_row endpoint_rows[] = {
#define ENDPOINT_ROW(name, text) {#name, offsetof(struct lli_endpoint_counters, name)},
    LLI_ENDPOINT_COUNTERS(ENDPOINT_ROW)
};

#define ROWS(rows) (rows), (int)(sizeof(rows) / sizeof(rows)[0])

/* Where the counters go, and how many there were; or the sum of those of one name. */
struct stats_out {
    struct llm_stat *stats;
    int max;
    int count;
    const char *name; /* NULL: all */
    uint64_t sum;
};

static void stats_put(struct stats_out *out, const char *object, const char *name, uint64_t value)
{
    if (out->name != NULL && strcmp(out->name, name) != 0)
        return;
    if (out->count < out->max)
        out->stats[out->count] = (struct llm_stat){object, name, value};
    out->count++;
    out->sum += value;
}

static uint64_t stats_read(const void *base, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const uint8_t *)base + offset, sizeof value);
    return value;
}

static void stats_rows(struct stats_out *out, const char *object, const void *base, const struct stats_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        stats_put(out, object, rows[i].name, stats_read(base, rows[i].offset));
}

static void stats_transport(struct stats_out *out, const struct lli_endpoint *endpoint)
{
    const struct lli_transport *transport = endpoint->transport;
    const void *instance = endpoint->instance;

    stats_rows(out, endpoint->object, &endpoint->counters, ROWS(endpoint_rows));
    while (transport != NULL) {
        for (const struct lli_counter *counter = transport->counters; counter->name != NULL; counter++)
            stats_put(out, endpoint->object, counter->name, stats_read(instance, counter->offset));
        transport = transport->inner == NULL ? NULL : transport->inner(instance, &instance);
    }
}

static void stats_transmitter(struct stats_out *out, const struct llm_transmitter *transmitter)
{
    const struct lli_tx *tx = &transmitter->tx;

    stats_rows(out, transmitter->object, &tx->counters, ROWS(tx_rows));
    stats_put(out, transmitter->object, "messages_sent", tx->pack.number);
    stats_put(out, transmitter->object, "receivers", tx->members.count);
    stats_put(out, transmitter->object, "rtt_ns", tx->rtt);
    stats_put(out, transmitter->object, "history_packets", tx->history.next - tx->history.trail);
}

static void stats_receiver(struct stats_out *out, const struct llm_receiver *receiver)
{
    uint64_t live = 0;

    for (uint32_t i = 0; i < receiver->sessions_used; i++)
        live += receiver->sessions[i].state == LLI_RX_LIVE;
    stats_rows(out, receiver->object, &receiver->counters, ROWS(rx_rows));
    stats_put(out, receiver->object, "sessions", live);
    stats_put(out, receiver->object, "reorder_packets", receiver->reorder.used);
}

static void stats_walk(struct stats_out *out, const struct llm_context *context)
{
    struct llm_context *locked = (struct llm_context *)(uintptr_t)context;

    lli_context_enter(locked);
    for (const struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next) {
        stats_transport(out, endpoint);
        for (const struct llm_transmitter *t = endpoint->transmitters; t != NULL; t = t->next)
            stats_transmitter(out, t);
        for (const struct llm_receiver *r = endpoint->receivers; r != NULL; r = r->next)
            stats_receiver(out, r);
    }
    lli_context_leave(locked);
}

int llm_stats(const struct llm_context *context, struct llm_stat *stats, int max)
{
    struct stats_out out = {.stats = stats, .max = max};

    if (context == NULL || max < 0 || (stats == NULL && max > 0))
        return LLM_EINVAL;
    stats_walk(&out, context);
    return out.count;
}

int llm_stat(const struct llm_context *context, const char *name, uint64_t *value)
{
    struct stats_out out = {.name = name};

    if (context == NULL || name == NULL || value == NULL)
        return LLM_EINVAL;
    stats_walk(&out, context);
    if (out.count == 0)
        return LLM_ENOTFOUND;
    *value = out.sum;
    return LLM_OK;
}
