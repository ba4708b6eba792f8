/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heartbeats of a session, and its silence (docs/protocol.md sections 4.2 and 4.3). rx_trust.c decides which
 * heartbeats are followed.
 */
#include "core/rx/former.h"
#include "core/rx/rx_internal.h"

/*
 * Maximum time by which a heartbeat is overtaken by a newer one. It also limits how long a forged one
 * suppresses others.
 */
#define RX_HEARTBEAT_OVERTAKEN ((lli_ns)10000000)

void lli_rx_heard_start(struct lli_rx *rx, lli_ns now)
{
    rx->heartbeat = (struct lli_wire_heartbeat){.session = 0};
    rx->heard = (struct lli_rx_heard){0};
    rx->heard_at = now;
}

/* ------------------------------------------------------------------------------------------- heartbeats */

void lli_rx_heartbeat_agreed(struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat)
{
    rx->heartbeat.lead = heartbeat->lead;
    rx->heartbeat.messages = heartbeat->messages;
}

void lli_rx_heartbeat_topics(struct lli_rx *rx, uint32_t topics)
{
    rx->heartbeat.topics = (uint32_t)lli_max(rx->heartbeat.topics, topics);
}

/*
 * True if a heartbeat of an ended session agrees with the end, or announces more than the heartbeat that
 * ended the session.
 */
static bool rx_is_of_ended(const struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat)
{
    const bool more = heartbeat->lead > lli_max(rx->gap.next, rx->heartbeat.lead);

    return rx->loss.end_reason != LLM_REASON_NONE ||
           (heartbeat->flags & LLI_WIRE_HEARTBEAT_END ? !more : more);
}

/* More packets exist than the END announced: the END was forged. */
static void rx_contradict_end(struct lli_rx *rx, lli_ns now)
{
    const struct lli_wire_heartbeat heartbeat = rx->heartbeat;
    const struct lli_former_session *session;

    if (rx->loss.end_reason != LLM_REASON_NONE || heartbeat.flags & LLI_WIRE_HEARTBEAT_END ||
        rx->config->former == NULL || lli_rx_stream_is_superseded(rx))
        return;
    session = lli_former_find(rx->config->former, rx->session);
    if (session != NULL && rx->config->resumes) {
        /* The names of topics learnt before the end are still known. */
        lli_rx_resume(rx, session, now);
        return;
    }
    lli_rx_stop(rx);
    lli_rx_start(rx, rx->tag, now);
    rx->heartbeat = heartbeat;
    rx->heard.heartbeat_at = now;
    rx->heard.lead_before = heartbeat.lead;
    rx->heard.messages_before = heartbeat.messages;
    lli_rx_addressed(rx);
    lli_rx_found(rx, now);
}

void lli_rx_input_heartbeat(struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat, lli_ns now)
{
    const struct lli_wire_heartbeat before = rx->heartbeat;
    const bool first = rx->heard.heartbeat_at == 0;
    bool replan;

    rx->counters->heartbeats_received++;
    if (rx->session != 0 && heartbeat->session != rx->session) {
        rx->counters->control_foreign++;
        return;
    }
    /*
     * A heartbeat slightly older than the latest one was overtaken and adds nothing; a much older one shows
     * that the latest was forged.
     */
    if (rx->heard.heartbeat_at != 0 && heartbeat->sent_at < rx->heartbeat.sent_at &&
        rx->heartbeat.sent_at - heartbeat->sent_at < RX_HEARTBEAT_OVERTAKEN)
        return;
    if (!lli_rx_believes(rx, heartbeat, now))
        return;
    lli_rx_heard(rx, now);
    if (rx->state == LLI_RX_ENDED && !rx_is_of_ended(rx, heartbeat))
        return;
    rx->heard.lead_before = first ? heartbeat->lead : rx->heartbeat.lead;
    rx->heard.messages_before = first ? heartbeat->messages : rx->heartbeat.messages;
    rx->heartbeat = *heartbeat;
    lli_rx_clamp(&rx->heartbeat);
    replan = before.report_packets != rx->heartbeat.report_packets ||
             before.receivers != rx->heartbeat.receivers ||
             lli_rx_share(&before) != lli_rx_share(&rx->heartbeat);
    rx->heard.heartbeat_at = now;
    lli_delay_heard(&rx->heard.delay, heartbeat->sent_at, now);
    lli_rx_addressed(rx);
    if (replan)
        lli_rx_plan_report(rx);
    if (rx->state == LLI_RX_JOINING)
        lli_rx_found(rx, now);
    else if (rx->state == LLI_RX_ENDED)
        rx_contradict_end(rx, now);
    /*
     * A report of a receiver for which the session ended early is withheld: the transmitter would wait for
     * that receiver.
     */
    if ((heartbeat->flags & LLI_WIRE_HEARTBEAT_HELD && rx->state != LLI_RX_ENDED && lli_rx_is_in_share(rx)) ||
        (heartbeat->flags & LLI_WIRE_HEARTBEAT_END && rx->gap.next >= heartbeat->lead))
        lli_rx_status_soon(rx, now);
    if (rx->state != LLI_RX_LIVE)
        return;
    /*
     * Packets known only from a heartbeat are believed as long as heartbeats announce them: the next
     * heartbeat corrects a forged one, and none makes a receiver give up anything (section 4.3).
     */
    lli_rx_recede(rx, now);
    lli_rx_cover(rx, now);
    lli_rx_replan(rx, &before, now);
    lli_rx_extend(rx, heartbeat->lead, now);
    /* Every topic announced in the stream is known by now, unless the announcement was lost. */
    if (rx->gap.missing == 0 && rx->gap.next >= heartbeat->lead)
        lli_rx_learn(rx, now, false);
}

void lli_rx_expect(struct lli_rx *rx, uint64_t session, lli_seq start, const struct lli_wire_address *address,
                   lli_ns now)
{
    assert(rx->state == LLI_RX_JOINING);
    rx->heard.expected_at = rx->heard_at = rx->heard.heartbeat_at = lli_max(now, 1);
    rx->heartbeat = (struct lli_wire_heartbeat){.session = session,
                                                .start = start,
                                                .trail = start,
                                                .lead = start,
                                                .flags = LLI_WIRE_HEARTBEAT_YOUNG,
                                                .address = *address};
    lli_rx_found(rx, now);
}

/* ---------------------------------------------------------------------------------------------- silence */

void lli_rx_refresh(struct lli_rx *rx, lli_ns now)
{
    rx->heard_at = now;
}

void lli_rx_away(struct lli_rx *rx, lli_ns now)
{
    /* Once for each silence: a receiver that polls rarely must detect the end of a session, too. */
    if (rx->heard.away_at <= rx->heard_at)
        rx->heard.away_at = now;
}

bool lli_rx_is_quiet(const struct lli_rx *rx, lli_ns now)
{
    /* Not forever: under load some packet is always waiting. */
    return rx->state != LLI_RX_FREE && rx->heard.away_at > rx->heard_at &&
           now < rx->heard.away_at + rx->config->timeout &&
           now >= (rx->heard.silent ? rx->heard_at + rx->config->timeout : lli_rx_silent_at(rx));
}

void lli_rx_check_silence(struct lli_rx *rx, lli_ns now)
{
    if (rx->config->unread)
        return;
    if (!rx->heard.silent && now >= lli_rx_silent_at(rx)) {
        rx->heard.silent = true;
        lli_rx_set_news(rx, LLI_RX_SILENT);
    }
    if (rx->heard.silent && now >= rx->heard_at + rx->config->timeout)
        lli_rx_end(rx, LLM_REASON_TIMEOUT);
}
