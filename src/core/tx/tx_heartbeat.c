/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heartbeats: their contents, their intervals (ADR 14), and the end of the session, which they announce
 * (docs/protocol.md section 4).
 */
#include "core/tx/tx_internal.h"

/* Heartbeats with END required before the session counts as ended if no receiver is known. */
enum { TX_ENDS = 5 };

/* Heartbeats take at most one part in this many of the sending thread's time (ADR 14). */
enum { TX_HEARTBEAT_SHARE = 4 };

/*
 * After a loss the first heartbeat follows data in a part of the usual time, and may take a larger share of
 * the thread's time, until TX_LOSSY_NS pass without another loss (ADR 51).
 */
enum { TX_LOSSY_PART = 3, TX_LOSSY_SHARE = 2 };
#define TX_LOSSY_NS ((lli_ns)1000000000)

/*
 * If each data packet follows the one before within two of the first distances, heartbeats between them show no
 * loss that the next packet does not show as soon. The first one then waits for four distances (ADR 54).
 */
enum { TX_STEADY_GAP = 2, TX_STEADY_PART = 4 };

/*
 * On a connection where no report was received yet, heartbeat intervals double up to this multiple of their
 * usual maximum.
 */
enum { TX_HEARTBEATS_UNHEARD = 16 };

/*
 * Interval from data to the first heartbeat if no heartbeat is needed to show a loss, and receivers are so many
 * that they share processors (ADR 67).
 */
#define TX_SPARING_NS ((lli_ns)1000000)

/* ----------------------------------------------------------------------------------------------- contents */

/*
 * Adds the heartbeat's fields about assured topics. Joining receivers begin with the oldest unacknowledged
 * message.
 */
static void tx_heartbeat_assured(const struct lli_tx *tx, struct lli_wire_heartbeat *heartbeat)
{
    const struct lli_ack *ack = &tx->ack;

    heartbeat->flags |= LLI_WIRE_HEARTBEAT_ASSURED | (ack->waiting > 0 ? LLI_WIRE_HEARTBEAT_HELD : 0);
    heartbeat->report_packets = lli_ack_report_packets(ack, heartbeat->report_packets);
    heartbeat->unacknowledged = heartbeat->lead;
    heartbeat->unacknowledged_messages = heartbeat->messages;
    if (ack->unacknowledged < heartbeat->lead) {
        heartbeat->unacknowledged = ack->unacknowledged;
        heartbeat->unacknowledged_messages = lli_tx_number_of(tx, ack->unacknowledged);
    }
    heartbeat->assured = ack->count;
    for (int i = 0; i < ack->count; i++)
        heartbeat->assured_topics[i] = ack->topics[i]->id;
}

/* Interval to the next heartbeat unless data is sent: it doubles, except directly after data. */
static lli_ns tx_heartbeat_distance(const struct lli_tx *tx)
{
    /*
     * On a connection whose other side never reported, and may be a third party, heartbeats become far rarer.
     */
    const lli_ns most = tx->config.heartbeat_max *
                        (tx->config.flow.awaits && tx->members.count == 0 ? TX_HEARTBEATS_UNHEARD : 1);

    return tx->heartbeat.flowing ? tx->heartbeat.interval : lli_min(tx->heartbeat.interval * 2, most);
}

/* A heartbeat announces only packets that the transport took: later ones are not lost. */
static size_t tx_build_heartbeat(struct lli_tx *tx, lli_ns now, uint8_t *buffer)
{
    bool whole = !lli_tx_is_waiting(tx);
    struct lli_wire_heartbeat heartbeat = {
        .session = tx->config.session,
        .lead = tx->sent,
        .trail = lli_min(tx->history.trail, tx->sent),
        .start = tx->config.history.start,
        .messages = lli_tx_lead_number(tx),
        .sent_at = now,
        .interval_us = (uint32_t)(lli_max(tx_heartbeat_distance(tx), tx->config.heartbeat_busy) / 1000 + 1),
        .rtt_ns = (uint32_t)lli_min(tx->group.rtt, UINT32_MAX),
        .receivers = tx->members.count,
        .topics = tx->topics.count,
        .report_packets = lli_flow_report_packets(&tx->flow, tx->sent),
        .address = tx->config.address,
        .stream = tx->config.stream,
        .base = tx->config.stream_base,
        .term = tx->config.stream_term,
        .merges = tx->config.stream_merge,
    };

    lli_members_announce(&tx->members, lli_tx_status_interval(tx), now);
    heartbeat.flags = (uint8_t)(LLI_WIRE_HEARTBEAT_SHARE *
                                lli_flow_share(&tx->flow, &tx->members, tx->ack.count > 0, tx->sent));
    if (!whole && lli_flow_ready_at(&tx->flow, tx->sent) == LLI_NEVER)
        heartbeat.flags |= LLI_WIRE_HEARTBEAT_HELD;
    if (tx->ack.count > 0)
        tx_heartbeat_assured(tx, &heartbeat);
    tx->heartbeat.asks = heartbeat.flags & LLI_WIRE_HEARTBEAT_HELD;
    tx->heartbeat.fixed = tx->heartbeat.ended;
    if (now < tx->opened_at + LLI_TX_YOUNG && heartbeat.trail == heartbeat.start)
        heartbeat.flags |= LLI_WIRE_HEARTBEAT_YOUNG;
    if (tx->heartbeat.ended && whole) {
        heartbeat.flags |= LLI_WIRE_HEARTBEAT_END;
        tx->heartbeat.ends_sent++;
    }
    return lli_wire_put_heartbeat(buffer, &heartbeat);
}

/* ----------------------------------------------------------------------------------------------- interval */

/*
 * Reports that packets or assured topics wait for are requested by heartbeats as soon as usual, and the end is
 * announced as soon.
 */
static bool tx_heartbeat_is_sparing(const struct lli_tx *tx)
{
    return tx->config.heartbeat_receivers_max != 0 &&
           tx->members.count > tx->config.heartbeat_receivers_max && tx->ack.count == 0 &&
           !tx->heartbeat.ended && !lli_tx_is_waiting(tx);
}

/* Least interval from data to the first heartbeat. */
static lli_ns tx_heartbeat_least(const struct lli_tx *tx)
{
    if (tx->heartbeat.sparing)
        return lli_min(lli_max(TX_SPARING_NS, tx->config.heartbeat_min), tx->config.heartbeat_max);
    if (tx->heartbeat.lossy_until != 0)
        return tx->config.heartbeat_min / TX_LOSSY_PART;
    return tx->heartbeat.steady ? lli_min(TX_STEADY_PART * tx->config.heartbeat_min, tx->config.heartbeat_max)
                                : tx->config.heartbeat_min;
}

/*
 * Two heartbeats one after the other, each directly after data, show the distance of data. Blocked packets and
 * assured topics wait for the reports that heartbeats request.
 */
static bool tx_heartbeat_is_steady(const struct lli_tx *tx, lli_ns now)
{
    return tx->heartbeat.flowing && tx->heartbeat.followed &&
           now <= tx->heartbeat.last + TX_STEADY_GAP * tx->config.heartbeat_min &&
           tx->heartbeat.lossy_until == 0 && tx->ack.count == 0 && !lli_tx_is_waiting(tx);
}

static void tx_heartbeat_set(struct lli_tx *tx, bool steady, bool sparing)
{
    if (steady == tx->heartbeat.steady && sparing == tx->heartbeat.sparing)
        return;
    tx->heartbeat.steady = steady;
    tx->heartbeat.sparing = sparing;
    tx->heartbeat.first = tx_heartbeat_least(tx);
}

void lli_tx_heartbeat_lossy(struct lli_tx *tx, lli_ns now)
{
    tx_heartbeat_set(tx, false, tx->heartbeat.sparing);
    if (tx->heartbeat.lossy_until == 0 && !tx->heartbeat.sparing)
        tx->heartbeat.first /= TX_LOSSY_PART;
    tx->heartbeat.lossy_until = now + TX_LOSSY_NS;
}

static void tx_heartbeat_next(struct lli_tx *tx, lli_ns now)
{
    if (tx->heartbeat.lossy_until != 0 && now >= tx->heartbeat.lossy_until) {
        tx->heartbeat.lossy_until = 0;
        tx->heartbeat.first = lli_max(tx->heartbeat.first, tx_heartbeat_least(tx));
    }
    tx->heartbeat.interval = tx_heartbeat_distance(tx);
    tx_heartbeat_set(tx, tx_heartbeat_is_steady(tx, now), tx_heartbeat_is_sparing(tx));
    if (tx->heartbeat.flowing)
        lli_slow_flows(&tx->slow);
    lli_tx_look_soon(tx);
    tx->heartbeat.followed = tx->heartbeat.flowing;
    tx->heartbeat.flowing = false;
    tx->heartbeat.last = now;
    tx->heartbeat.at = now + tx->heartbeat.interval;
    lli_time_index_add(&tx->time_index, tx->sent, tx->history.trail, now);
    if (tx->config.history_ns != 0 && now > tx->config.history_ns)
        lli_history_forget_before(
            &tx->history, lli_time_index_find(&tx->time_index, now - tx->config.history_ns), lli_tx_busy(tx));
}

/*
 * Only the first heartbeat after data counts: caches are as warm as for data that follows soon. One sample
 * may be an outlier, so the interval at most doubles.
 */
void lli_tx_heartbeat_took(struct lli_tx *tx, lli_ns took)
{
    const lli_ns most = tx->config.heartbeat_max;
    const lli_ns share =
        lli_min(took, most) * (tx->heartbeat.lossy_until == 0 ? TX_HEARTBEAT_SHARE : TX_LOSSY_SHARE);

    if (tx->heartbeat.followed)
        tx->heartbeat.first =
            lli_max(tx_heartbeat_least(tx), lli_min(lli_min(share, most), 2 * tx->heartbeat.first));
}

bool lli_tx_control_heartbeat(struct lli_tx *tx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    size_t used;

    if (now < tx->heartbeat.at)
        return false;
    used = tx_build_heartbeat(tx, now, buffer);
    tx_heartbeat_next(tx, now);
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)used};
    tx->counters.heartbeats_sent++;
    lli_tx_count(tx, used);
    return true;
}

/* ---------------------------------------------------------------------------------------------------- end */

void lli_tx_end(struct lli_tx *tx, lli_ns now)
{
    if (tx->pack.claim != NULL)
        lli_pack_abort(&tx->pack);
    lli_pack_flush(&tx->pack);
    tx->heartbeat.ended = tx->heartbeat.fixed = true;
    tx_heartbeat_set(tx, tx->heartbeat.steady, false);
    lli_tx_flows(tx);
    tx->heartbeat.at = now;
}

bool lli_tx_drained(const struct lli_tx *tx)
{
    return tx->heartbeat.ended && tx->heartbeat.ends_sent >= TX_ENDS &&
           lli_members_waiting(&tx->members) == 0;
}

void lli_tx_end_again(struct lli_tx *tx)
{
    tx->heartbeat.ends_sent = 0;
}
