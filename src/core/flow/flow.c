/* SPDX-License-Identifier: Apache-2.0 */
#include "core/flow/flow.h"

#include "core/flow/members.h"
#include "core/pack/history.h"

enum {
    FLOW_BACKSTOP = 2, /* paced: windows by which receivers may lag until the rate is adjusted */
    FLOW_REPORTS = 8,  /* reports of a receiver per window */
    FLOW_LATEST = 64,  /* packets whose sizes the next ones are expected to have */
    /* A receiver that asks for a larger share of the packets again does not keep up. */
    FLOW_LOSS_PPM = 20000,
    FLOW_PACKETS_MIN = 32,        /* packets sent in an interval: fewer allow no conclusion */
    FLOW_BURST_BYTES = 256 << 10, /* bytes sent at once after a pause: a few trains */
    FLOW_BURST_BYTES_MIN = 16 << 10,
    FLOW_BURSTS_PER_S = 512, /* at a limited rate */
    FLOW_SHARE_LEAST = 96,   /* lower and ... */
    /*
     * ... upper bound of receivers that report by packets, where there are more: their median is that of all
     * within a few per cent
     */
    FLOW_SHARE_MOST = 256,
    FLOW_SHARE_QUORUM = 90, /* per cent: for a larger quorum the share is not accurate enough */
};

#define FLOW_INTERVAL ((lli_ns)10000000)
#define FLOW_RATE_FIRST ((uint64_t)64 << 20)
#define FLOW_RATE_MIN ((uint64_t)1 << 20)
#define FLOW_RATE_MAX ((uint64_t)1 << 36)

static uint64_t flow_rate_max(const struct lli_flow *flow)
{
    const uint64_t max = flow->config.bytes_per_s_max == 0 ? FLOW_RATE_MAX : flow->config.bytes_per_s_max;

    return flow->config.rate == 0 ? max : lli_min(max, flow->config.rate);
}

uint64_t lli_flow_burst(uint64_t bytes_per_s)
{
    return lli_min(lli_max(bytes_per_s / FLOW_BURSTS_PER_S, FLOW_BURST_BYTES_MIN), FLOW_BURST_BYTES);
}

void lli_flow_rate(struct lli_flow *flow, uint64_t bytes_per_s, lli_ns now)
{
    const bool paced = flow->config.mode == LLI_FLOW_PACED;
    const bool metered = lli_flow_is_metered(flow);

    flow->config.rate = bytes_per_s;
    flow->meter = paced || bytes_per_s != 0 ? LLI_FLOW_PACED : LLI_FLOW_OPEN;
    flow->blocking = flow->config.mode != LLI_FLOW_OPEN ? flow->config.mode : flow->meter;
    if (!lli_flow_is_metered(flow))
        return;
    if (!metered) {
        lli_pacer_init(&flow->pacer, bytes_per_s, lli_flow_burst(bytes_per_s), now);
        return;
    }
    /* The debt at the old rate carries over to the new one. */
    lli_pacer_fill(&flow->pacer, now);
    flow->pacer.bytes_per_s = paced ? lli_min(flow->pacer.bytes_per_s, flow_rate_max(flow)) : bytes_per_s;
    flow->pacer.burst = paced ? FLOW_BURST_BYTES : lli_flow_burst(bytes_per_s);
    flow->pacer.tokens = lli_min(flow->pacer.tokens, flow->pacer.burst);
}

void lli_flow_init(struct lli_flow *flow, const struct lli_flow_config *config, uint32_t members_max,
                   struct lli_arena *arena, lli_seq start, lli_ns now)
{
    *flow = (struct lli_flow){.config = *config,
                              .limit = config->awaits ? start : UINT64_MAX,
                              .doubling = true,
                              .assessed_at = now,
                              .record = start};
    lli_quorum_init(&flow->quorum, members_max, arena);
    lli_pacer_init(&flow->pacer, lli_min(FLOW_RATE_FIRST, flow_rate_max(flow)), FLOW_BURST_BYTES, now);
    flow->meter = config->mode == LLI_FLOW_PACED ? LLI_FLOW_PACED : LLI_FLOW_OPEN;
    lli_flow_rate(flow, config->rate, now);
}

/* Number of receivers, out of count, that have to keep up. */
static uint32_t flow_quorum(const struct lli_flow *flow, uint32_t count)
{
    return (uint32_t)(((uint64_t)count * flow->config.quorum_percent + 99) / 100);
}

uint64_t lli_flow_find(uint64_t *values, uint32_t count, uint32_t reached_by)
{
    uint32_t low = 0, high = count - 1;
    const uint32_t place = count - reached_by;

    while (low < high) {
        const lli_seq pivot = values[place];
        uint32_t i = low, j = high;

        do {
            while (values[i] < pivot)
                i++;
            while (pivot < values[j])
                j--;
            if (i <= j) {
                lli_seq value = values[i];

                values[i++] = values[j];
                values[j] = value;
                if (j == 0)
                    break;
                j--;
            }
        } while (i <= j);
        if (j < place)
            low = i;
        if (place < i)
            high = j;
    }
    return values[place];
}

static bool flow_has_say(const struct lli_flow *flow, const struct lli_member *member)
{
    return lli_member_counts(member) && lli_wire_is_in_share(flow->session, member->id, flow->share);
}

/* Bytes of the history that a member lacks, as far as they are still there; 0 without a limit in bytes. */
static uint64_t flow_lag_bytes(const struct lli_flow *flow, const struct lli_member *member, lli_seq sent)
{
    return flow->config.window_bytes == 0 ? 0 : lli_history_span(flow->history, member->next, sent);
}

/*
 * Returns the packet before which a window of bytes lets the transmitter send. Packets from `sent` on count as
 * of the largest size, as their sizes are not known yet.
 */
static lli_seq flow_reach_bytes(const struct lli_flow *flow, const struct lli_member *member,
                                uint64_t windows, lli_seq sent)
{
    const uint64_t window = windows * flow->config.window_bytes;
    const uint64_t lag = flow_lag_bytes(flow, member, sent);

    if (window == 0)
        return UINT64_MAX;
    return sent + (lag < window ? (window - lag) / flow->history->stride_max : 0);
}

/* Sets how far a member lets the transmitter send; 0: it does not count. */
static void flow_set(struct lli_flow *flow, const struct lli_members *members, uint32_t index, lli_seq sent)
{
    const struct lli_member *member = &members->table[index];
    const uint64_t windows = flow->config.mode == LLI_FLOW_PACED ? FLOW_BACKSTOP : 1;
    lli_seq reach, bytes;

    if (!flow_has_say(flow, member) || member->next == 0) {
        lli_quorum_set(&flow->quorum, index, 0);
        return;
    }
    reach = member->next + lli_min(windows * flow->config.window_packets, member->window);
    bytes = flow_reach_bytes(flow, member, windows, sent);
    flow->in_bytes |= bytes < reach;
    lli_quorum_set(&flow->quorum, index, lli_min(reach, bytes));
}

/* Updates the limit from the quorum. */
static void flow_limit(struct lli_flow *flow)
{
    const uint32_t known = lli_quorum_count(&flow->quorum);

    lli_quorum_rank(&flow->quorum, flow_quorum(flow, known));
    if (known > 0)
        flow->limit = lli_quorum_value(&flow->quorum);
    else if (!flow->config.awaits)
        flow->limit = UINT64_MAX;
}

void lli_flow_moved(struct lli_flow *flow, const struct lli_members *members, uint32_t index, lli_seq sent)
{
    if (flow->config.mode == LLI_FLOW_OPEN)
        return;
    flow_set(flow, members, index, sent);
    flow_limit(flow);
}

void lli_flow_reported(struct lli_flow *flow, const struct lli_members *members, lli_seq sent)
{
    uint32_t seen = 0;

    if (flow->config.mode == LLI_FLOW_OPEN)
        return;
    lli_quorum_clear(&flow->quorum);
    flow->in_bytes = false;
    for (uint32_t i = 0; seen < members->count; i++) {
        seen += members->table[i].id != 0;
        flow_set(flow, members, i, sent);
    }
    flow_limit(flow);
}

uint32_t lli_flow_share(struct lli_flow *flow, const struct lli_members *members, bool all, lli_seq sent)
{
    uint32_t share = flow->share;

    if (flow->config.mode == LLI_FLOW_OPEN)
        return 0;
    /* Hysteresis: the share does not change with every receiver that joins or leaves. */
    while (share < LLI_WIRE_SHARE_MAX && members->count >> share > FLOW_SHARE_MOST)
        share++;
    while (share > 0 && members->count >> share < FLOW_SHARE_LEAST)
        share--;
    if (all || flow->config.quorum_percent > FLOW_SHARE_QUORUM)
        share = 0;
    if (share == flow->share)
        return share;
    flow->share = share;
    lli_flow_reported(flow, members, sent);
    /* Receivers choose their identities, so none may be in the share. */
    if (lli_quorum_count(&flow->quorum) == 0 && share > 0) {
        flow->share = 0;
        lli_flow_reported(flow, members, sent);
    }
    return flow->share;
}

void lli_flow_sent(struct lli_flow *flow, uint64_t bytes)
{
    flow->assessed_bytes += bytes;
    (void)lli_pacer_take(&flow->pacer, bytes);
    flow->hungry |= flow->pacer.tokens == 0;
}

lli_ns lli_flow_ready_at(const struct lli_flow *flow, lli_seq seq)
{
    if (lli_flow_allows(flow, seq, 0))
        return 0;
    return seq >= flow->limit ? LLI_NEVER : lli_pacer_ready_at(&flow->pacer);
}

bool lli_flow_is_at_limit(const struct lli_flow *flow)
{
    return flow->config.mode != LLI_FLOW_PACED || flow->pacer.bytes_per_s >= flow_rate_max(flow);
}

/* Packets that fit in the window if they are as large as the latest ones. */
static uint64_t flow_window(const struct lli_flow *flow, lli_seq sent)
{
    const uint64_t window = flow->config.window_bytes;
    uint64_t latest, packets;

    if (window == 0)
        return flow->config.window_packets;
    latest = lli_min(sent - lli_min(flow->history->trail, sent), FLOW_LATEST);
    packets = latest == 0 ? window / flow->history->stride_max
                          : window * latest / lli_history_span(flow->history, sent - latest, sent);
    return lli_min(flow->config.window_packets, packets);
}

uint32_t lli_flow_report_packets(const struct lli_flow *flow, lli_seq sent)
{
    return flow->config.mode == LLI_FLOW_OPEN ? 0
                                              : (uint32_t)lli_max(flow_window(flow, sent) / FLOW_REPORTS, 1);
}

/* True if a receiver was fast enough since the last rate decision. */
static bool flow_is_fast_enough(const struct lli_flow *flow, const struct lli_member *member, lli_seq sent)
{
    uint64_t packets = sent - flow->record;

    if (member->next != 0 && sent > member->next &&
        (sent - member->next > lli_min(flow->config.window_packets, member->window) ||
         flow_lag_bytes(flow, member, sent) > flow->config.window_bytes))
        return false;
    return (uint64_t)member->requested * 1000000 <= packets * FLOW_LOSS_PPM;
}

static void flow_slow_down(struct lli_flow *flow, lli_ns elapsed)
{
    /* A rate that was allowed but not used is no measure. */
    uint64_t used = flow->assessed_bytes * 1000000 / lli_max(elapsed / 1000, 1);
    uint64_t rate = lli_min(flow->pacer.bytes_per_s, used);

    flow->pacer.bytes_per_s = lli_min(lli_max(rate - rate / 8, FLOW_RATE_MIN), flow_rate_max(flow));
    flow->step = lli_max(rate / 64, 1);
    flow->doubling = false;
}

void lli_flow_assess(struct lli_flow *flow, struct lli_members *members, lli_seq sent, lli_ns rtt, lli_ns now)
{
    const lli_ns elapsed = now - flow->assessed_at;
    uint32_t seen = 0, counted = 0, fine = 0;

    if (flow->config.mode != LLI_FLOW_PACED || now < flow->assessed_at + lli_max(FLOW_INTERVAL, 4 * rtt))
        return;
    lli_pacer_fill(&flow->pacer, now);
    if (sent - flow->record < FLOW_PACKETS_MIN)
        return;
    for (uint32_t i = 0; seen < members->count; i++) {
        struct lli_member *member = &members->table[i];

        if (member->id == 0)
            continue;
        seen++;
        counted += flow_has_say(flow, member);
        fine += flow_has_say(flow, member) && flow_is_fast_enough(flow, member, sent);
        member->requested = 0;
    }
    if (fine < flow_quorum(flow, counted))
        flow_slow_down(flow, elapsed);
    else if (flow->hungry)
        flow->pacer.bytes_per_s =
            lli_min(flow->pacer.bytes_per_s + (flow->doubling ? flow->pacer.bytes_per_s : flow->step),
                    flow_rate_max(flow));
    flow->hungry = false;
    flow->assessed_at = now;
    flow->record = sent;
    flow->assessed_bytes = 0;
}
