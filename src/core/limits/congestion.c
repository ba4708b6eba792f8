/* SPDX-License-Identifier: Apache-2.0 */
#include "core/limits/congestion.h"

#define MS ((lli_ns)1000000)
#define US ((lli_ns)1000)

static uint32_t congestion_narrow(uint64_t value)
{
    return (uint32_t)lli_min(value, UINT32_MAX);
}

void lli_congestion_fill(struct lli_wire_status *status, const struct llm_bottleneck *latest,
                         const struct llm_bottleneck *ever)
{
    status->dropped = (uint32_t)ever->packets_dropped;
    /* The first interval is not over. */
    if (latest->time_ns == 0)
        return;
    status->flags |= LLI_WIRE_STATUS_LIMITED;
    status->limits = (struct lli_wire_limits){
        .limit = (uint8_t)latest->limit,
        .time_ms = congestion_narrow(latest->time_ns / MS),
        .away_ms = congestion_narrow(latest->away_ns / MS),
        .away_us_max = congestion_narrow(latest->away_ns_max / US),
        .packets = congestion_narrow(latest->packets),
        .missed = congestion_narrow(latest->packets_missed),
        .dropped = congestion_narrow(latest->packets_dropped),
    };
}

bool lli_congestion_reported(struct lli_member *member, const struct lli_wire_status *status)
{
    const struct lli_wire_limits *limits = &status->limits;

    member->dropped = status->dropped;
    if (!(status->flags & LLI_WIRE_STATUS_LIMITED))
        return false;
    member->limits = (struct llm_bottleneck){
        .limit = (enum llm_limit)limits->limit,
        .receiver = member->id,
        .time_ns = limits->time_ms * MS,
        .away_ns = limits->away_ms * MS,
        .away_ns_max = limits->away_us_max * US,
        .packets = limits->packets,
        .packets_missed = limits->missed,
        .packets_dropped = limits->dropped,
    };
    return member->limits.limit != member->limit_reported;
}

bool lli_congestion_event(struct lli_congestion *congestion, const struct lli_members *members,
                          struct llm_event *event)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; congestion->unreported && seen < members->count; i++) {
        struct lli_member *member = &members->table[i];

        if (member->id == 0)
            continue;
        seen++;
        if (member->limits.limit == member->limit_reported)
            continue;
        member->limit_reported = member->limits.limit;
        congestion->reported = member->limits;
        *event = (struct llm_event){.kind = LLM_EVENT_RECEIVER_LIMITED, .bottleneck = &congestion->reported};
        return true;
    }
    congestion->unreported = false;
    return false;
}
