/* SPDX-License-Identifier: Apache-2.0 */
/* Status reports: when a receiver sends them, and their contents (docs/protocol.md section 7). */
#include "core/limits/congestion.h"
#include "core/rx/rx_internal.h"

/*
 * Bounds that hold for any number of receivers: a report at least every RX_REPORTS_SHARED intervals that the
 * transmitter asks for, of which eight are in its window, and RX_REPORTS_OWN in the receiver's own window, as
 * some are lost.
 */
enum { RX_REPORTS_SHARED = 2, RX_REPORTS_OWN = 4 };

/*
 * This many receivers may send an awaited report within one receiver's report interval without being a
 * burden.
 */
enum { RX_AWAITED_CROWD = 1000 };

/* Reports after which intervals no longer double: far beyond the interval of 2^20 receivers. */
enum { RX_EARLY_MAX = 24 };

enum { RX_HEARTBEAT_AWAITS = LLI_WIRE_HEARTBEAT_HELD | LLI_WIRE_HEARTBEAT_END };

/* ------------------------------------------------------------------------------------------------ timing */

/* The report interval grows with the number of receivers, so that the sum of reports does not (section 7). */
static lli_ns rx_status_interval(const struct lli_rx *rx)
{
    return rx->config->status * lli_max(1, rx->heartbeat.receivers / 10);
}

/*
 * The first reports with a new token follow at doubling intervals: where many receivers join at a time, the
 * network may drop the report that makes this one known, and measures longer round trips than later.
 */
static lli_ns rx_next_interval(const struct lli_rx *rx)
{
    return lli_min(rx_status_interval(rx), rx->config->status << rx->report.early);
}

/*
 * Interval within which all receivers send a report that the transmitter waits for, to send more or to close.
 */
static lli_ns rx_awaited_interval(const struct lli_rx *rx)
{
    const uint32_t share = rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_END ? 0 : lli_rx_share(&rx->heartbeat);

    return rx->config->status * lli_max(1, (rx->heartbeat.receivers >> share) / RX_AWAITED_CROWD);
}

/*
 * Packets after which a report is due, 0: by time only (section 7.1). With more receivers each reports less
 * often, but several times before the transmitter is blocked by its own window or this receiver's.
 */
static uint64_t rx_report_packets(const struct lli_rx *rx)
{
    const uint64_t wanted = lli_rx_is_in_share(rx) ? rx->heartbeat.report_packets : 0;
    const uint64_t shared = wanted * lli_max(1, rx->heartbeat.receivers / 10);

    return lli_min(
        shared, lli_min(wanted * RX_REPORTS_SHARED, lli_max(lli_gap_window(&rx->gap) / RX_REPORTS_OWN, 1)));
}

/*
 * With many receivers, each reports at a random packet of the last quarter: otherwise all would report at the
 * same packet.
 */
void lli_rx_plan_report(struct lli_rx *rx)
{
    const uint64_t packets = rx_report_packets(rx);
    const uint64_t early = lli_rx_is_crowded(rx) ? lli_random_below(rx->random, packets / 4) : 0;

    rx->report_due = packets == 0 ? UINT64_MAX : rx->report.next + packets - early;
}

void lli_rx_report_start(struct lli_rx *rx)
{
    rx->report = (struct lli_rx_report){.at = LLI_NEVER, .early = RX_EARLY_MAX};
    rx->report_due = 0;
}

void lli_rx_report_early(struct lli_rx *rx, lli_ns now)
{
    rx->report.early = 0;
    rx->report.at = now;
}

void lli_rx_report_from(struct lli_rx *rx, lli_seq next)
{
    rx->report.next = next;
    lli_rx_plan_report(rx);
}

void lli_rx_report_at(struct lli_rx *rx, lli_ns at)
{
    rx->report.at = at;
}

void lli_rx_status_soon(struct lli_rx *rx, lli_ns now)
{
    /* Named receivers are few, and a topic waits for them. */
    const bool spreads = lli_rx_is_crowded(rx) && rx->config->name_size == 0;
    const lli_ns range =
        rx->heartbeat.flags & RX_HEARTBEAT_AWAITS ? rx_awaited_interval(rx) : rx_status_interval(rx);

    /* Drawn once, however often a report is requested. */
    if (!spreads || rx->report.at > now + range)
        rx->report.at = lli_min(rx->report.at, now + (spreads ? lli_random_below(rx->random, range) : 0));
}

/* ---------------------------------------------------------------------------------------------- contents */

void lli_rx_acknowledge_from(struct lli_rx *rx, uint64_t acknowledged_from, uint64_t acknowledged)
{
    rx->report.acknowledged_from = acknowledged_from;
    rx->report.acknowledged = acknowledged;
}

void lli_rx_acknowledge_restart(struct lli_rx *rx, uint64_t number)
{
    rx->report.acknowledged_from = number;
}

void lli_rx_set_incomplete(struct lli_rx *rx)
{
    rx->report.incomplete = true;
}

bool lli_rx_acknowledge(struct lli_rx *rx, uint64_t number, lli_ns now)
{
    if (number >= lli_rx_delivered(rx))
        return false;
    /* An application may acknowledge the same messages again and again. */
    if (number < rx->report.acknowledged)
        return true;
    rx->report.acknowledged = number + 1;
    if (rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_HELD)
        lli_rx_status_soon(rx, now);
    return true;
}

/*
 * True if the acknowledged run covers a topic. After an interruption it is not known which topics were refused before, until their names
 * are known again.
 */
static bool rx_status_covers(const struct lli_rx *rx, uint32_t topic)
{
    return !rx->report.incomplete && lli_topics_is_complete(&rx->topics, topic) &&
           (!rx->report.resumed || topic < rx->topics.known || topic >= rx->topics.limit);
}

/* Adds the acknowledged run and the assured topics that it covers (section 7.3). */
static void rx_status_acknowledged(const struct lli_rx *rx, struct lli_wire_status *status)
{
    const struct lli_rx_config *config = rx->config;
    const uint64_t delivered = lli_rx_delivered(rx);
    const uint64_t next =
        config->application_acknowledges ? lli_min(delivered, rx->report.acknowledged) : delivered;

    status->flags |= LLI_WIRE_STATUS_ACKNOWLEDGES;
    status->acknowledged_from = rx->report.acknowledged_from;
    status->acknowledged_next = lli_max(next, rx->report.acknowledged_from);
    status->name_size = config->name_size;
    memcpy(status->name, config->name, sizeof status->name);
    for (int i = 0; i < rx->heartbeat.assured; i++)
        if (rx_status_covers(rx, rx->heartbeat.assured_topics[i]))
            status->accepts |= (uint16_t)(1u << i);
}

static struct lli_wire_status rx_status(const struct lli_rx *rx, lli_ns now)
{
    bool done = !lli_rx_is_replaying(rx) && rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_END &&
                rx->gap.next >= rx->heartbeat.lead;

    struct lli_wire_status status = {
        .session = rx->session,
        .receiver = rx->config->receiver,
        /* 0: flow control does not wait for a receiver that fetches, or recalls, the past. */
        .next = lli_rx_is_replaying(rx) || lli_rx_is_gone_for_store(rx) ? 0 : rx->gap.next,
        .highest = lli_max(rx->gap.end, rx->gap.next),
        .echo = rx->heartbeat.sent_at,
        .echo_age_ns = (uint32_t)lli_min(now - rx->heard.heartbeat_at, UINT32_MAX),
        .lost_packets = rx->loss.packets,
        .naks = rx->nak.sent,
        .window_free = (uint32_t)(lli_gap_window(&rx->gap) - (rx->gap.end - rx->gap.next)),
        .flags = done ? LLI_WIRE_STATUS_DONE : 0,
        .address = rx->config->address,
        .token = lli_rx_token(rx),
    };

    /* A delay up to half of nak_retry_max is no more than other receivers wait between NAKs anyway. */
    if (rx->heard.delay.queued > rx->config->nak_retry_max / 2)
        status.flags |= LLI_WIRE_STATUS_BEHIND;
    if (rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_ASSURED)
        rx_status_acknowledged(rx, &status);
    if (rx->config->limits != NULL)
        lli_congestion_fill(&status, rx->config->limits, rx->config->limits_ever);
    return status;
}

bool lli_rx_control_status(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    struct lli_wire_status status;
    lli_ns retry, interval, spread;
    bool early;

    lli_rx_line_turn(rx);
    status = rx_status(rx, now);
    retry = lli_rx_token_retry(rx);
    interval = lli_rx_is_unheard(rx) ? retry : lli_min(rx_next_interval(rx), retry);

    /*
     * Spread by a tenth, so that receivers started together drift apart; the early reports by a half, as many
     * may join at the same time. On a connection there is one.
     */
    early = interval < rx_status_interval(rx) && !lli_rx_is_unheard(rx);
    spread = early ? interval / 2 : interval / 10;

    /* After the end, only heartbeats trigger a report. */
    rx->report.at =
        rx->state == LLI_RX_LIVE ? now + interval - lli_random_below(rx->random, spread) : LLI_NEVER;
    rx->report.early = (uint8_t)lli_min(rx->report.early + 1, RX_EARLY_MAX);
    lli_rx_report_from(rx, rx->gap.next);
    rx->counters->status_sent++;
    return lli_rx_packet(rx, buffer, lli_wire_put_status(buffer, &status), packet);
}

/*
 * True if the transmitter may wait for a final report: one that ended its session repeats heartbeats until
 * all receivers have reported everything, and a report may have been postponed or lost. A transmitter silent
 * for long waits for none.
 */
static bool rx_is_awaited(const struct lli_rx *rx, lli_ns now)
{
    return rx->state == LLI_RX_ENDED && rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_END &&
           rx->gap.next >= rx->heartbeat.lead && rx->loss.end_reason == LLM_REASON_NONE &&
           now < rx->heard.heartbeat_at + rx->config->timeout;
}

bool lli_rx_leave(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    struct lli_wire_status status;

    if (rx->state != LLI_RX_LIVE && !rx_is_awaited(rx, now))
        return false;
    status = rx_status(rx, now);
    status.flags |= LLI_WIRE_STATUS_LEAVING;
    return lli_rx_packet(rx, buffer, lli_wire_put_status(buffer, &status), packet);
}
