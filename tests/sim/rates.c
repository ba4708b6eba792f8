/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limits: over any window of time at most limit * window + burst bytes are sent, plus the rest of the
 * packet that used up the last token; packets within the limit are not blocked.
 *
 * Checked by two buckets of the test: one never emptier than the limit allows, one never fuller. A window
 * with too many bytes ends with the first bucket empty, so each packet is checked once, and no window has to
 * be.
 */
#include <math.h>

#include "check.h"

/*
 * The library's buckets round to whole bytes, and times to a nanosecond at each fill: relative error at most
 * this.
 */
#define RATES_ROUNDED 1e-3

/* Error of a bucket in bytes from the same rounding. */
#define RATES_BYTES 2.0

/* Maximum delay of a node's wake-up after it may send. */
#define RATES_LATE ((lli_ns)10 * SIM_US)

/* Limits are rounded down to multiples of this many bytes per second. */
enum { RATES_STEP = 1024 };

static double rates_low(uint64_t bytes_per_s)
{
    return (double)(bytes_per_s / RATES_STEP * RATES_STEP);
}

static void limit_fill(struct sim_limit *limit, lli_ns now)
{
    const double elapsed = (double)(now - limit->at) / 1e9;

    limit->most =
        fmin(limit->burst, limit->most + (double)limit->bytes_per_s * (1 + RATES_ROUNDED) * elapsed);
    limit->least = fmin(limit->burst, limit->least + rates_low(limit->bytes_per_s) * elapsed);
    limit->at = now;
}

/* Sets a limit from now on. A debt remains, unless the sender starts anew. */
static void limit_set(struct sim_limit *limit, uint64_t bytes_per_s, uint64_t burst, bool anew, lli_ns now)
{
    /* The time for less than a byte counts at the new rate. */
    const double rounded = limit->bytes_per_s == 0 ? 0 : (double)bytes_per_s / (double)limit->bytes_per_s;

    limit_fill(limit, now);
    if (limit->bytes_per_s == 0 || anew)
        limit->most = limit->least = (double)burst;
    limit->bytes_per_s = bytes_per_s;
    limit->burst = (double)burst;
    limit->most = fmin(limit->burst, limit->most + rounded);
    limit->least = fmin(limit->burst, limit->least);
}

/* Takes a packet's bytes; false if the limit is used up. */
static bool limit_take(struct sim_limit *limit, uint32_t size, lli_ns now)
{
    bool allowed;

    if (limit->bytes_per_s == 0)
        return true;
    limit_fill(limit, now);
    allowed = limit->most > -RATES_BYTES;
    limit->most -= size;
    limit->least -= size;
    return allowed;
}

static bool limit_allows(struct sim_limit *limit, lli_ns now)
{
    if (limit->bytes_per_s == 0)
        return true;
    limit_fill(limit, now);
    return limit->least > RATES_BYTES;
}

/* Returns the maximum time from now until the limit allows a packet. */
static lli_ns limit_wait(struct sim_limit *limit, lli_ns now)
{
    if (limit_allows(limit, now))
        return 0;
    return (lli_ns)((RATES_BYTES - limit->least) / rates_low(limit->bytes_per_s) * 1e9);
}

/* With pacing, the pace has the bucket, which is larger. */
static uint64_t rates_burst(const struct sim_world *world, uint64_t bytes_per_s)
{
    return lli_flow_burst(world->scenario.flow.mode == LLI_FLOW_PACED ? UINT64_MAX : bytes_per_s);
}

void sim_rates_start(const struct sim_world *world, struct sim_node *node)
{
    const struct sim_rate *rate = &world->rate;
    const lli_ns now = sim_node_now(world, node);
    struct sim_sender *sender = node->sender;

    sender->data_limit.at = sender->repair_limit.at = now;
    limit_set(&sender->data_limit, rate->bytes_per_s, rates_burst(world, rate->bytes_per_s), true, now);
    limit_set(&sender->repair_limit, rate->repair_bytes_per_s, lli_flow_burst(rate->repair_bytes_per_s), true,
              now);
    sender->held_until = LLI_NEVER;
}

void sim_rates_change(struct sim_world *world, struct sim_node *node, const struct sim_rate *rate)
{
    const lli_ns now = sim_node_now(world, node);
    struct sim_sender *sender = node->sender;

    world->rate = *rate;
    if (!node->alive)
        return;
    sim_trace(world, "node %u: at most %llu bytes of data and %llu of repairs a second", node->index,
              (unsigned long long)rate->bytes_per_s, (unsigned long long)rate->repair_bytes_per_s);
    lli_tx_rate(&sender->tx, rate->bytes_per_s, rate->repair_bytes_per_s, now);
    limit_set(&sender->data_limit, rate->bytes_per_s, rates_burst(world, rate->bytes_per_s), false, now);
    /* A new limit of repairs begins with its burst. */
    if (rate->repair_bytes_per_s != sender->repair_limit.bytes_per_s)
        limit_set(&sender->repair_limit, rate->repair_bytes_per_s, lli_flow_burst(rate->repair_bytes_per_s),
                  true, now);
    if (sender->held_until != LLI_NEVER)
        sender->held_until = world->now + limit_wait(&sender->data_limit, now);
}

void sim_rates_posted(struct sim_world *world, struct sim_node *node, uint32_t size)
{
    struct sim_sender *sender = node->sender;

    if (!limit_take(&sender->data_limit, size, sim_node_now(world, node)))
        sim_fail(world, "node %u: data goes faster than %llu bytes/s, by %.0f bytes", node->index,
                 (unsigned long long)sender->data_limit.bytes_per_s, -sender->data_limit.most);
    if (world->now > sender->held_until && world->now - sender->held_until > RATES_LATE)
        sim_fail(world, "node %u: data is held %llu ns longer than its limit of %llu bytes/s takes",
                 node->index, (unsigned long long)(world->now - sender->held_until),
                 (unsigned long long)sender->data_limit.bytes_per_s);
}

void sim_rates_held(struct sim_world *world, struct sim_node *node)
{
    const lli_ns now = sim_node_now(world, node);
    struct sim_sender *sender = node->sender;
    const struct lli_tx *tx = &sender->tx;

    sender->held_until = LLI_NEVER;
    if (tx->flow.config.mode == LLI_FLOW_PACED || tx->sent >= lli_min(tx->history.next, tx->flow.limit))
        return;
    if (limit_allows(&sender->data_limit, now))
        sim_fail(world, "node %u: data is held, though %.0f bytes may go at %llu bytes/s", node->index,
                 sender->data_limit.least, (unsigned long long)sender->data_limit.bytes_per_s);
    /* Reports move a window in both directions, so the duration of its limit is not known. */
    if (tx->flow.config.mode == LLI_FLOW_OPEN)
        sender->held_until = world->now + limit_wait(&sender->data_limit, now);
}

void sim_rates_repaired(struct sim_world *world, struct sim_node *node, uint32_t size)
{
    struct sim_limit *limit = &node->sender->repair_limit;

    if (!limit_take(limit, size, sim_node_now(world, node)))
        sim_fail(world, "node %u: repairs go faster than %llu bytes/s, by %.0f bytes", node->index,
                 (unsigned long long)limit->bytes_per_s, -limit->most);
}

void sim_rates_repairs_held(struct sim_world *world, struct sim_node *node)
{
    struct lli_tx *tx = &node->sender->tx;
    struct sim_limit *limit = &node->sender->repair_limit;
    lli_seq seq;

    if (tx->repair.pacer.tokens > 0 && limit_allows(limit, sim_node_now(world, node)) &&
        lli_repair_peek(&tx->repair.queue, &seq))
        sim_fail(world,
                 "node %u: the repair of packet %llu is held, though %.0f bytes may go at %llu bytes/s",
                 node->index, (unsigned long long)seq, limit->least, (unsigned long long)limit->bytes_per_s);
}

lli_ns sim_rates_patience(const struct sim_world *world)
{
    const struct sim_scenario *s = &world->scenario;
    uint64_t data = UINT64_MAX, repairs = UINT64_MAX;
    double ns = 0;

    for (uint32_t i = 0; i < s->rates_count; i++) {
        data = s->rates[i].bytes_per_s != 0 ? lli_min(data, s->rates[i].bytes_per_s) : data;
        repairs =
            s->rates[i].repair_bytes_per_s != 0 ? lli_min(repairs, s->rates[i].repair_bytes_per_s) : repairs;
    }
    for (uint32_t i = 0; i < s->transmitters; i++) {
        const struct sim_sender *sender = world->nodes[i].sender;
        const double unsent = (double)(sender->tx.history.next - sender->tx.sent) * s->packet_max;
        const double sent = (double)sender->data_bytes + unsent;

        /* At worst each receiver has to be sent everything again. */
        ns = fmax(ns, unsent / (double)data * 2e9 + sent * s->receivers / (double)repairs * 2e9);
    }
    return (lli_ns)ns;
}
