/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tx/congestion.h"
#include "core/rx/rx_internal.h"

#include <math.h>

/*
 * Number of queries before the session continues without the names, and the interval up to which they are
 * spaced. Together they take most of a second, as a receiver that just joined does not know yet how far away
 * the transmitter is.
 */
enum { RX_QUERIES = 16 };
#define RX_QUERY_DISTANCE ((lli_ns)100000000)

/* A session is silent only after it missed this many promised heartbeats. */
enum { RX_HEARTBEATS_MISSED = 5 };

/*
 * Packets are asked for only as far as there is memory to buffer them, and at most this many beyond: a packet
 * that arrives in order needs no memory, but one that arrives after another loss is dropped and has to be
 * sent again. The number halves with every such drop and grows by one with every repair that arrives in
 * order.
 */
enum { RX_ASK_AHEAD_MAX = 16 };

/* The group's round trip counts as at most nak_retry_ns_max plus this many times the receiver's own. */
enum { RX_RTT_TIMES = 8 };

/*
 * Maximum time by which a notice, or a heartbeat, is overtaken by a newer one. It also limits how long a
 * forged one suppresses others.
 */
#define RX_OVERTAKEN ((lli_ns)1000000000)
#define RX_HEARTBEAT_OVERTAKEN ((lli_ns)10000000)

void lli_rx_init(struct lli_rx *rx, const struct lli_rx_config *config, struct lli_reorder *reorder,
                 struct lli_rx_counters *counters, uint64_t *random, struct lli_arena *arena, struct lli_arena *rare)
{
    *rx = (struct lli_rx){.config = config, .reorder = reorder, .counters = counters, .random = random};
    lli_gap_init(&rx->gap, config->window_packets, arena);
    rx->cells = lli_arena_take(arena, config->window_packets * sizeof *rx->cells, 64);
    lli_topics_init(&rx->topics, config->topics_max, rare);
    if (config->counts_topics)
        rx->topic_counts = lli_arena_take(rare, config->topics_max * sizeof *rx->topic_counts, 64);
    lli_unpack_init(&rx->unpack, lli_arena_take(rare, config->message_bytes_max, 4096), config->message_bytes_max);
    lli_rx_unordered_init(rx, rare);
    lli_rx_lvc_init(rx, rare);
    rx->sharing = reorder->sessions;
    reorder->sessions = rx;
}

void lli_rx_start(struct lli_rx *rx, uint32_t tag, lli_ns now)
{
    assert(rx->state == LLI_RX_FREE);
    rx->state = LLI_RX_JOINING;
    rx->tag = tag;
    rx->session = 0;
    rx->heartbeat = (struct lli_wire_heartbeat){.session = 0};
    rx->heartbeat_at = 0;
    rx->delay = (struct lli_delay){.at = 0};
    rx->doubted_at = LLI_NEVER;
    rx->lead_before = rx->messages_before = 0;
    rx->receded_at = LLI_NEVER;
    rx->told_first = rx->told_end = 0;
    rx->beyond = rx->jumped = 0;
    rx->gone_below = 0;
    rx->gone_reason = LLM_REASON_NONE;
    rx->notice = (struct lli_wire_notice){.session = 0};
    rx->naks_held_until = 0;
    rx->rejoin_at = LLI_NEVER;
    rx->behind = 0;
    rx->silent = rx->unheld = false;
    rx->slow_path = 0;
    rx->heard_at = now;
    rx->away_at = 0;
    rx->repair_rtt = 0;
    rx->ask_ahead = RX_ASK_AHEAD_MAX;
    rx->status_at = rx->query_at = LLI_NEVER;
    rx->query_tries = 0;
    rx->topics_wanted = rx->topics_granted = rx->topics_told = 0;
    rx->lost_run = 0;
    rx->naks = rx->lost = 0;
    rx->token = rx->speak_at = rx->expected_at = rx->unanswered = 0;
    rx->crowded = rx->crowded_told = 0;
    rx->news = 0;
    rx->service_due = true;
    rx->given_count = rx->assembled.size = 0;
    lli_rx_filter(rx);
    rx->end_reason = rx->refused = LLM_REASON_NONE;
    rx->broken_reason = LLM_REASON_MALFORMED;
    rx->chosen = rx->enters = rx->passed = false;
    rx->live = rx->live_seq = 0;
    lli_topics_reset(&rx->topics);
    if (rx->config->counts_topics) {
        memset(rx->topics.flags, LLI_TOPICS_COUNTED, rx->topics.limit);
        memset(rx->topic_counts, 0, rx->topics.limit * sizeof *rx->topic_counts);
    }
    lli_unpack_reset(&rx->unpack, 0);
    lli_gap_reset(&rx->gap, 0);
    lli_rx_unordered_reset(rx);
}

void lli_rx_drop_packets(struct lli_rx *rx)
{
    lli_rx_lvc_drop(rx);
    for (lli_seq seq = rx->gap.next; seq < rx->gap.end; seq++)
        if (lli_gap_is_present(&rx->gap, seq))
            lli_rx_give_back(rx, *lli_rx_cell(rx, seq));
    assert(rx->chunks == 0);
    lli_gap_reset(&rx->gap, rx->gap.next);
    lli_unpack_reset(&rx->unpack, rx->unpack.number);
}

void lli_rx_stop(struct lli_rx *rx)
{
    if (rx->state == LLI_RX_FREE)
        return;
    lli_rx_drop_packets(rx);
    rx->state = LLI_RX_FREE;
    rx->plain = false;
}

void lli_rx_note(const struct lli_rx *rx, uint64_t number, enum llm_reason reason)
{
    const struct lli_former_session session = {.session = rx->session, .next = rx->gap.next, .number = number, .reason = reason,
                                               .held_from = rx->held_from, .acknowledged = rx->acknowledged, .idle = number == rx->first};

    if (rx->config->former != NULL)
        lli_former_note(rx->config->former, &session);
}

void lli_rx_replace(struct lli_rx *rx)
{
    /* Messages delivered ahead of order would be delivered again. */
    if (rx->state == LLI_RX_LIVE && !(rx->slow_path & LLI_RX_LATEST) && !lli_rx_as_it_arrives(rx))
        lli_rx_note(rx, lli_rx_delivered(rx), LLM_REASON_REPLACED);
    lli_rx_stop(rx);
}

void lli_rx_refuse(struct lli_rx *rx)
{
    rx->plain = false;
    lli_rx_drop_packets(rx);
    rx->state = LLI_RX_REFUSED;
    rx->counters->sessions_refused++;
}

void lli_rx_topic_refuse(struct lli_rx *rx, uint32_t topic)
{
    if (topic < rx->topics.limit)
        rx->topics.flags[topic] |= LLI_TOPICS_REFUSED;
}

bool lli_rx_topic_subscribe(struct lli_rx *rx, uint32_t topic, bool subscribed)
{
    return lli_topics_subscribe(&rx->topics, topic, subscribed);
}

void lli_rx_resolve(struct lli_rx *rx)
{
    if (rx->state != LLI_RX_LIVE)
        return;
    rx->plain = false;
    rx->news |= LLI_RX_RESOLVING;
    rx->topics_resolved = 0;
}

/* ------------------------------------------------------------------------------------------------- time */

/* Round trip of the group, limited to a multiple of that of this receiver's own repairs (section 5.1). */
static lli_ns rx_group_rtt(const struct lli_rx *rx)
{
    const lli_ns most = rx->repair_rtt == 0 ? LLI_NEVER : rx->config->nak_retry_max + RX_RTT_TIMES * rx->repair_rtt;

    return lli_min(rx->heartbeat.rtt_ns, most);
}

lli_ns lli_rx_rtt(const struct lli_rx *rx)
{
    return lli_max(rx_group_rtt(rx), rx->repair_rtt);
}

/*
 * Delay before the first NAK of a gap. With many receivers the back-off is drawn from a truncated exponential
 * distribution over a few round trips, so that one of the receivers that share a loss is likely to be clearly
 * the first (Nonnenmacher and Biersack, "Scalable feedback for large groups", 1999; docs/protocol.md section
 * 5.1).
 */
static lli_ns rx_nak_delay(struct lli_rx *rx)
{
    lli_ns range = lli_max(rx->config->nak_backoff_min, 4 * rx_group_rtt(rx));
    double receivers = rx->heartbeat.receivers;
    double lambda, uniform;

    if (!lli_rx_is_crowded(rx))
        return rx->config->nak_delay;
    lambda = log(receivers) + 1;
    uniform = (double)(lli_random(rx->random) >> 11) * 0x1p-53;
    return rx->config->nak_delay + (lli_ns)((double)range / lambda * log1p(uniform * (exp(lambda) - 1)));
}

lli_ns lli_rx_patience(const struct lli_rx *rx)
{
    lli_ns promised = (lli_ns)rx->heartbeat.interval_us * 1000 * RX_HEARTBEATS_MISSED;

    return lli_max(rx->config->silence, promised);
}

static lli_ns rx_silent_at(const struct lli_rx *rx)
{
    return lli_max(rx->heard_at, rx->away_at) + lli_rx_patience(rx);
}

void lli_rx_away(struct lli_rx *rx, lli_ns now)
{
    /* Once for each silence: a receiver that polls rarely must detect the end of a session, too. */
    if (rx->away_at <= rx->heard_at)
        rx->away_at = now;
}

bool lli_rx_is_quiet(const struct lli_rx *rx, lli_ns now)
{
    /* Not forever: under load some packet is always waiting. */
    return rx->state != LLI_RX_FREE && rx->away_at > rx->heard_at && now < rx->away_at + rx->config->timeout &&
           now >= (rx->silent ? rx->heard_at + rx->config->timeout : rx_silent_at(rx));
}

static void rx_heard(struct lli_rx *rx, lli_ns now)
{
    rx->heard_at = now;
    if (rx->silent) {
        rx->silent = false;
        rx->news |= LLI_RX_RESUMED;
        rx->service_due = true;
    }
}

/* -------------------------------------------------------------------------------------------- data in */

void lli_rx_extend(struct lli_rx *rx, lli_seq end, lli_ns now)
{
    uint64_t missing = rx->gap.missing;

    if (end <= rx->gap.end)
        return;
    if (lli_rx_is_replaying(rx)) {
        /* The past is not missing: it has yet to be fetched. */
        lli_gap_extend(&rx->gap, lli_min(end, rx->replay_end), now, LLI_NEVER);
        missing = rx->gap.missing;
    }
    lli_gap_extend(&rx->gap, end, now, lli_max(now + rx_nak_delay(rx), rx->naks_held_until));
    rx->counters->packets_missed += rx->gap.missing - missing;
}

/* Notes the arrival of a missing packet and, if it was asked for, the time that took. */
static void rx_note_repair(struct lli_rx *rx, lli_seq seq, lli_ns now)
{
    const struct lli_gap_slot *slot = &rx->gap.slots[seq & rx->gap.mask];
    lli_ns elapsed = now - slot->since;

    if (lli_rx_is_replaying(rx) && seq < rx->replay_end) {
        lli_rx_replayed(rx, seq, now);
        return;
    }
    if (slot->tries == 0)
        return;
    rx->counters->packets_recovered++;
    /* A queue at the transmitter, or a clock that jumped, must not delay NAKs for long. */
    elapsed = lli_min(elapsed, rx->config->nak_retry_max);
    /* Only a packet asked for once tells which NAK it answers (Karn's rule). */
    if (slot->tries == 1)
        rx->repair_rtt = rx->repair_rtt == 0 ? elapsed : (rx->repair_rtt * 7 + elapsed) / 8;
}

/* Takes the packet's count of unrepaired packets before it. */
static void rx_input_unrepaired(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_seq seq, lli_ns now)
{
    const lli_seq count = packet->header.flags & LLI_WIRE_FLAGS_UNREPAIRED;

    if (count > 0 && seq > count)
        lli_rx_unrepaired(rx, seq - count, seq, now);
}

/*
 * Before the first heartbeat: buffers packets from the first one on, so that the beginning of a session is
 * not missed.
 */
static void rx_input_joining(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now)
{
    bool empty = rx->gap.end == rx->gap.next;
    lli_seq seq = empty ? packet->header.seq : lli_seq_extend(rx->gap.next, packet->header.seq);

    if (empty || seq >= rx->gap.next + lli_gap_window(&rx->gap)) {
        lli_rx_drop_packets(rx);
        /*
         * The heartbeat supplies the high half of the number; until then it is 1, so that earlier numbers are
         * not negative.
         */
        seq = (uint64_t)1 << 32 | packet->header.seq;
        lli_gap_reset(&rx->gap, seq);
    } else if (seq < rx->gap.next) {
        return;
    }
    lli_gap_extend(&rx->gap, seq + 1, now, LLI_NEVER);
    rx_input_unrepaired(rx, packet, seq, now);
    if (!lli_gap_is_present(&rx->gap, seq))
        (void)lli_rx_hold(rx, seq, packet, now);
    /* The first packet determines where the session begins, so nothing is buffered without it. */
    if (!lli_gap_is_present(&rx->gap, rx->gap.next))
        lli_gap_reset(&rx->gap, rx->gap.next);
}

/* A duplicate delivers nothing, but may be the first packet after a silence. */
static bool rx_input_duplicate(struct lli_rx *rx)
{
    rx->counters->packets_duplicate++;
    return (rx->news & LLI_RX_RESUMED) != 0;
}

/* Out of line: keeps registers free for packets in order. */
static __attribute__((noinline)) bool rx_input_other(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_seq seq,
                                                     lli_ns now)
{
    struct lli_gap *gap = &rx->gap;

    rx->service_due = true;
    if (rx->slow_path == LLI_RX_FILTERING && seq == gap->next && lli_gap_in_order(gap, seq)) {
        lli_rx_filter_begin(rx, &packet->header, packet->body, packet->body_size);
        return !lli_rx_is_idle(rx);
    }
    if (seq < gap->next)
        return rx_input_duplicate(rx);
    if (lli_rx_is_jump(rx, seq))
        return true;
    if (seq >= gap->next + lli_gap_window(gap)) {
        rx->counters->window_overflow++;
        lli_rx_dropped(rx, seq);
        return true;
    }
    if (seq < gap->end && lli_gap_is_present(gap, seq))
        return rx_input_duplicate(rx);
    if (seq > gap->next)
        rx->counters->packets_reordered++;
    lli_rx_extend(rx, seq, now);
    lli_gap_extend(gap, seq + 1, now, now + rx->config->nak_retry_min);
    rx_input_unrepaired(rx, packet, seq, now);
    if (seq != gap->next || rx->slow_path & (LLI_RX_LEARNING | LLI_RX_LATEST)) {
        if (lli_rx_hold(rx, seq, packet, now)) {
            rx_note_repair(rx, seq, now);
            if (lli_rx_as_it_arrives(rx))
                lli_rx_unordered_look(rx, seq, seq + 1);
        } else {
            lli_gap_refuse(gap, seq, now + lli_max(rx->config->nak_retry_min, 2 * lli_rx_rtt(rx)));
            rx->ask_ahead = (uint32_t)lli_max(rx->ask_ahead / 2, 1);
            lli_rx_dropped(rx, seq);
        }
        return true;
    }
    rx_note_repair(rx, seq, now);
    rx->ask_ahead = (uint32_t)lli_min(rx->ask_ahead + 1, RX_ASK_AHEAD_MAX);
    (void)lli_gap_receive(gap, seq);
    lli_gap_advance(gap);
    if (rx->slow_path & LLI_RX_AGAIN)
        lli_rx_unordered_turn(rx, seq);
    lli_rx_unpack(rx, seq, &packet->header, packet->body, packet->body_size);
    return true;
}

static bool rx_input_data(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now)
{
    lli_seq seq = lli_seq_extend(rx->gap.next, packet->header.seq);

    if (seq != rx->gap.next || rx->slow_path != 0 || !lli_gap_in_order(&rx->gap, seq))
        return rx_input_other(rx, packet, seq, now);
    if (lli_rx_owes_report(rx))
        rx->service_due = true;
    lli_unpack_begin(&rx->unpack, &packet->header, packet->body, packet->body_size);
    return true;
}

/* --------------------------------------------------------------------------------------- heartbeats in */

void lli_rx_learn(struct lli_rx *rx, lli_ns now, bool hold)
{
    if (rx->topics.known >= rx->heartbeat.topics || rx->topics_wanted == rx->heartbeat.topics)
        return;
    rx->topics_wanted = rx->heartbeat.topics;
    rx->slow_path |= hold ? LLI_RX_LEARNING : 0;
    rx->query_tries = 0;
    rx->query_at = now;
}

/*
 * True if a heartbeat of an ended session agrees with the end, or announces more than the heartbeat that
 * ended the session.
 */
static bool rx_is_of_ended(const struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat)
{
    const bool more = heartbeat->lead > lli_max(rx->gap.next, rx->heartbeat.lead);

    return rx->end_reason != LLM_REASON_NONE || (heartbeat->flags & LLI_WIRE_HEARTBEAT_END ? !more : more);
}

/* More packets exist than the END announced: the END was forged. */
static void rx_contradict_end(struct lli_rx *rx, lli_ns now)
{
    const struct lli_wire_heartbeat heartbeat = rx->heartbeat;
    const struct lli_former_session *session;

    if (rx->end_reason != LLM_REASON_NONE || heartbeat.flags & LLI_WIRE_HEARTBEAT_END || rx->config->former == NULL)
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
    rx->heartbeat_at = now;
    rx->lead_before = heartbeat.lead;
    rx->messages_before = heartbeat.messages;
    lli_rx_found(rx, now);
}

static void rx_input_heartbeat(struct lli_rx *rx, const struct lli_wire_heartbeat *heartbeat, lli_ns now)
{
    const struct lli_wire_heartbeat before = rx->heartbeat;
    const bool first = rx->heartbeat_at == 0;
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
    if (rx->heartbeat_at != 0 && heartbeat->sent_at < rx->heartbeat.sent_at &&
        rx->heartbeat.sent_at - heartbeat->sent_at < RX_HEARTBEAT_OVERTAKEN)
        return;
    if (!lli_rx_believes(rx, heartbeat, now))
        return;
    rx_heard(rx, now);
    if (rx->state == LLI_RX_ENDED && !rx_is_of_ended(rx, heartbeat))
        return;
    rx->lead_before = first ? heartbeat->lead : rx->heartbeat.lead;
    rx->messages_before = first ? heartbeat->messages : rx->heartbeat.messages;
    rx->heartbeat = *heartbeat;
    lli_rx_clamp(&rx->heartbeat);
    replan = before.report_packets != rx->heartbeat.report_packets || before.receivers != rx->heartbeat.receivers ||
             lli_rx_share(&before) != lli_rx_share(&rx->heartbeat);
    rx->heartbeat_at = now;
    lli_delay_heard(&rx->delay, heartbeat->sent_at, now);
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

/* ------------------------------------------------------------------------------------ other control in */

/* UNREPAIRED: marks packets that were asked for by NAK or FETCH as not repaired; others are not affected. */
static void rx_rejected(struct lli_rx *rx, const struct lli_wire_range *range, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq first = lli_seq_extend(gap->next, range->first), end = lli_min(first + range->count, gap->end);

    for (lli_seq seq = lli_max(first, gap->next); seq < end; seq++)
        if (gap->slots[seq & gap->mask].tries > 0 || (lli_rx_is_replaying(rx) && seq < rx->fetched))
            lli_rx_unrepaired(rx, seq, seq + 1, now);
}

/*
 * PASSED: marks packets that were fetched from the past as skipped; they are no loss, so this is limited to
 * packets sent before this receiver joined.
 */
static void rx_passed(struct lli_rx *rx, const struct lli_wire_range *range, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq first = lli_seq_extend(gap->next, range->first), end = lli_min(first + range->count, gap->end);
    const lli_seq past = lli_rx_is_replaying(rx) ? lli_min(rx->fetched, rx->live_seq) : 0;

    for (lli_seq seq = lli_max(first, gap->next); seq < lli_min(end, past); seq++) {
        struct lli_gap_slot *slot = &gap->slots[seq & gap->mask];

        slot->passed |= !slot->unrepaired && !lli_gap_is_present(gap, seq);
        lli_rx_unrepaired(rx, seq, seq + 1, now);
    }
}

static void rx_input_reject(struct lli_rx *rx, const struct lli_wire_reject *reject, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq trail = lli_min(reject->trail, lli_rx_known(rx));

    if (reject->reason == LLI_WIRE_PENDING) {
        rx->counters->naks_suppressed++;
        for (uint16_t i = 0; i < reject->count; i++)
            lli_gap_hold(&rx->gap, lli_seq_extend(gap->next, reject->ranges[i].first), reject->ranges[i].count,
                         now + lli_max(rx->config->nak_retry_min, 2 * lli_rx_rtt(rx)));
        return;
    }
    rx->counters->rejects_received++;
    if (reject->reason == LLI_WIRE_UNREPAIRED || reject->reason == LLI_WIRE_PASSED) {
        for (uint16_t i = 0; i < reject->count; i++)
            if (reject->reason == LLI_WIRE_PASSED)
                rx_passed(rx, &reject->ranges[i], now);
            else
                rx_rejected(rx, &reject->ranges[i], now);
        return;
    }
    /* GONE counts only for packets that were asked for, and up to those known to exist. */
    if (reject->reason != LLI_WIRE_GONE || gap->missing == 0 || trail <= rx->gone_below ||
        reject->trail > lli_max(rx->heartbeat.lead, gap->end) ||
        (gap->slots[gap->next & gap->mask].tries == 0 && !(lli_rx_is_replaying(rx) && gap->next < rx->fetched)))
        return;
    rx->gone_below = trail;
    rx->gone_reason = LLM_REASON_GONE;
    if (rx->heartbeat.lead <= gap->next + lli_gap_window(gap))
        return;
    /*
     * More than a window behind. The first time, continue with the oldest packets that the transmitter still
     * has. If those are gone as well before this receiver has caught up, chasing is hopeless: continue with
     * live data.
     */
    if (rx->behind & LLI_RX_CHASED) {
        rx->gone_below = lli_rx_known(rx);
        rx->gone_reason = LLM_REASON_OVERRUN;
    }
    rx->behind |= LLI_RX_CHASED;
}

/*
 * A suspension gives up packets already asked for, so a forged one costs no more than a REJECT; later losses
 * need another notice.
 */
static void rx_suspended(struct lli_rx *rx, lli_ns now)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq lead = lli_min(rx->notice.lead, lli_rx_known(rx));
    const bool asked = lli_rx_is_fetching(rx) || rx->slow_path & LLI_RX_LATEST ? rx->tries > 0 : gap->slots[gap->next & gap->mask].tries > 0;

    /* Silence: the notice went to a receiver that was not heard, and which is served again when it is. */
    if (rx->notice.threshold == LLM_THRESHOLD_SILENCE)
        return;
    rx->naks_held_until = now + rx->config->nak_retry_max;
    if (rx->slow_path & LLI_RX_LATEST && asked)
        rx->lvc.lost = LLM_REASON_SUSPENDED;
    if (gap->missing == 0 || lead <= rx->gone_below || !asked)
        return;
    rx->gone_below = lead;
    rx->gone_reason = LLM_REASON_SUSPENDED;
}

static void rx_input_notice(struct lli_rx *rx, const struct lli_wire_notice *notice, lli_ns now)
{
    /* A forger has to know this receiver's identity as well, which is in no packet to the group. */
    if (notice->receiver != rx->config->receiver) {
        rx->counters->control_foreign++;
        return;
    }
    rx->counters->notices_received++;
    /* A notice may be a probe, so a report answers it. */
    rx->status_at = now;
    if (notice->decided_at < rx->notice.decided_at && rx->notice.decided_at - notice->decided_at < RX_OVERTAKEN)
        return;
    if (notice->standing != rx->notice.standing || notice->threshold != rx->notice.threshold)
        rx->news |= LLI_RX_STANDING;
    rx->notice = *notice;
    if (notice->standing == LLI_STANDING_SUSPENDED)
        rx_suspended(rx, now);
    if (notice->standing != LLI_STANDING_EXPELLED)
        return;
    rx->end_reason = LLM_REASON_EXPELLED;
    rx->rejoin_at = notice->rejoin_ms == 0 ? LLI_NEVER : now + (lli_ns)notice->rejoin_ms * 1000000;
}

static void rx_input_topics(struct lli_rx *rx, const struct lli_wire_topics *topics, struct lli_reader names, lli_ns now)
{
    const uint32_t known = rx->topics.known;

    for (uint32_t i = 0; i < topics->count; i++) {
        uint8_t size = lli_read_u8(&names);
        const uint8_t *name = lli_read_bytes(&names, size);

        if (name == NULL) {
            rx->counters->control_malformed++;
            break;
        }
        (void)lli_topics_add(&rx->topics, topics->first + i, name, size);
    }
    /* If an answer added no name, because there is no room for more, another one would not either. */
    if (rx->topics.known == known)
        return;
    rx->query_tries = 0;
    if (rx->topics.known < rx->topics_wanted && rx->query_at != LLI_NEVER)
        rx->query_at = now;
}

/* Counts a packet that was malformed or has another session's identity; true if it is this session's. */
static bool rx_is_mine(struct lli_rx *rx, bool decoded, const uint64_t *session)
{
    if (!decoded)
        rx->counters->control_malformed++;
    else if (*session != rx->session)
        rx->counters->control_foreign++;
    return decoded && *session == rx->session;
}

static void rx_input_control(struct lli_rx *rx, const struct lli_wire_header *header, const uint8_t *body, size_t size,
                             lli_ns now)
{
    union {
        struct lli_wire_heartbeat heartbeat;
        struct lli_wire_reject reject;
        struct lli_wire_topics topics;
        struct lli_wire_join join;
        struct lli_wire_notice notice;
        struct lli_wire_lvc lvc;
    } packet;
    struct lli_reader names;

    switch (header->type) {
    case LLI_WIRE_HEARTBEAT:
        if (lli_wire_get_heartbeat(body, size, header->tag, &packet.heartbeat))
            rx_input_heartbeat(rx, &packet.heartbeat, now);
        else
            rx->counters->control_malformed++;
        break;
    case LLI_WIRE_REJECT:
        if (rx_is_mine(rx, lli_wire_get_reject(body, size, header->tag, &packet.reject), &packet.reject.session) &&
            rx->state == LLI_RX_LIVE)
            rx_input_reject(rx, &packet.reject, now);
        break;
    case LLI_WIRE_NOTICE:
        if (rx_is_mine(rx, lli_wire_get_notice(body, size, header->tag, &packet.notice), &packet.notice.session) &&
            rx->state == LLI_RX_LIVE)
            rx_input_notice(rx, &packet.notice, now);
        break;
    case LLI_WIRE_TOPICS:
        if (rx_is_mine(rx, lli_wire_get_topics(body, size, header->tag, &packet.topics, &names), &packet.topics.session) &&
            rx->state == LLI_RX_LIVE)
            rx_input_topics(rx, &packet.topics, names, now);
        break;
    case LLI_WIRE_JOIN:
        if (rx_is_mine(rx, lli_wire_get_join(body, size, header->tag, &packet.join), &packet.join.session))
            lli_rx_input_join(rx, &packet.join, now);
        break;
    case LLI_WIRE_LVC:
        if (rx_is_mine(rx, lli_wire_get_lvc(body, size, header->tag, &packet.lvc, &names), &packet.lvc.session) &&
            rx->state == LLI_RX_LIVE)
            lli_rx_input_lvc(rx, &packet.lvc, &names, now);
        break;
    default:
        break;
    }
}

bool lli_rx_input(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now)
{
    rx->plain = false;
    if (packet->header.type != LLI_WIRE_DATA) {
        rx->service_due = true;
        if (packet->header.type == LLI_WIRE_LVC)
            rx->stamp_ns = packet->stamp_ns;
        rx_input_control(rx, &packet->header, packet->body, packet->body_size, now);
        return true;
    }
    rx->counters->packets_received++;
    rx->counters->bytes_received += packet->size;
    rx->stamp_ns = packet->stamp_ns;
    if (rx->state == LLI_RX_LIVE) {
        rx_heard(rx, now);
        return rx_input_data(rx, packet, now);
    }
    rx->service_due = true;
    if (rx->state == LLI_RX_JOINING || rx->state == LLI_RX_ASKING) {
        rx->heard_at = now;
        rx_input_joining(rx, packet, now);
    } else {
        rx->counters->packets_stale++;
    }
    return false;
}

/* ----------------------------------------------------------------------------------------- control out */

bool lli_rx_packet(const struct lli_rx *rx, const uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)size, .to = &rx->heartbeat.address};
    return true;
}

static bool rx_control_query(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    const struct lli_wire_query query = {
        .session = rx->session,
        .receiver = rx->config->receiver,
        .first = rx->topics.known,
        .address = rx->config->address,
        .token = lli_rx_token(rx),
    };
    lli_ns base = lli_max(rx->config->nak_retry_min, 2 * lli_rx_rtt(rx));

    if (rx->topics.known >= rx->topics_wanted || rx->query_tries == RX_QUERIES) {
        rx->slow_path &= (uint8_t)~LLI_RX_LEARNING;
        rx->query_at = LLI_NEVER;
        return false;
    }
    rx->query_at = now + lli_min(base << rx->query_tries, lli_max(rx->config->nak_retry_max, RX_QUERY_DISTANCE));
    rx->query_tries++;
    rx->counters->queries_sent++;
    return lli_rx_packet(rx, buffer, lli_wire_put_query(buffer, &query), packet);
}

static bool rx_control_nak(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    const struct lli_gap_retry retry = {
        .rtt = lli_rx_rtt(rx),
        .retry_min = rx->config->nak_retry_min,
        .retry_max = rx->config->nak_retry_max,
        .most = lli_rx_room(rx) + rx->ask_ahead,
        .from = lli_rx_is_replaying(rx) ? rx->replay_end : 0,
    };
    struct lli_wire_nak nak = {
        .session = rx->session,
        .receiver = rx->config->receiver,
        .address = rx->config->address,
        .token = lli_rx_token(rx),
    };
    int count = lli_gap_due(&rx->gap, now, &retry, rx->random, nak.ranges, lli_rx_ranges_max(rx));

    if (count == 0)
        return false;
    nak.count = (uint16_t)count;
    for (int i = 0; i < count; i++)
        rx->counters->nak_packets += nak.ranges[i].count;
    rx->counters->naks_sent++;
    rx->naks++;
    return lli_rx_packet(rx, buffer, lli_wire_put_nak(buffer, &nak), packet);
}

static void rx_check_silence(struct lli_rx *rx, lli_ns now)
{
    if (rx->config->unread)
        return;
    if (!rx->silent && now >= rx_silent_at(rx)) {
        rx->silent = true;
        rx->news |= LLI_RX_SILENT;
    }
    if (rx->silent && now >= rx->heard_at + rx->config->timeout)
        rx->end_reason = LLM_REASON_TIMEOUT;
}

static bool rx_control(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    if (rx->state == LLI_RX_ASKING)
        return lli_rx_control_join(rx, now, buffer, packet);
    if (now >= rx->query_at && rx_control_query(rx, now, buffer, packet))
        return true;
    if (rx->state == LLI_RX_LIVE && now >= rx->gap.due_at && rx_control_nak(rx, now, buffer, packet))
        return true;
    if (rx->slow_path & LLI_RX_LATEST && rx->state == LLI_RX_LIVE) {
        if (lli_rx_control_lvc(rx, now, buffer, packet))
            return true;
    } else if (rx->state == LLI_RX_LIVE && lli_rx_is_fetching(rx) && lli_rx_control_fetch(rx, now, buffer, packet)) {
        return true;
    }
    return (now >= rx->status_at || (rx->state == LLI_RX_LIVE && lli_rx_owes_report(rx))) &&
           lli_rx_control_status(rx, now, buffer, packet);
}

bool lli_rx_control(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    rx->plain = false;
    if (!lli_rx_is_followed(rx) && rx->state != LLI_RX_ENDED)
        return false;
    if (rx->state == LLI_RX_LIVE)
        rx_check_silence(rx, now);
    /* An unanswered join request is reported in time, too. */
    if ((now < rx->speak_at && !(rx->state == LLI_RX_ASKING && now >= rx->ask_until)) || !rx_control(rx, now, buffer, packet))
        return false;
    lli_rx_spoke(rx, now);
    return true;
}

/* Time at which missing packets are fetched or given up. */
static lli_ns rx_missing_deadline(const struct lli_rx *rx)
{
    const struct lli_gap *gap = &rx->gap;
    const struct lli_gap_slot *slot = &gap->slots[gap->next & gap->mask];

    if (!(rx->slow_path & LLI_RX_LEARNING) && slot->unrepaired && gap->next < gap->end && (slot->passed || lli_rx_is_confirmed(rx)))
        return slot->since + rx->config->nak_delay;
    if (lli_rx_is_fetching(rx))
        return rx->fetch_at;
    if (rx->slow_path & LLI_RX_LEARNING || gap->next >= lli_min(gap->received, lli_rx_known(rx)) || slot->tries == 0)
        return LLI_NEVER;
    return slot->since + rx->config->nak_giveup;
}

lli_ns lli_rx_deadline(const struct lli_rx *rx)
{
    lli_ns at = lli_min(rx->status_at, rx->query_at);
    const struct lli_gap *gap = &rx->gap;

    if (rx->state == LLI_RX_ENDED)
        return lli_max(at, rx->speak_at);
    if (rx->state != LLI_RX_LIVE)
        return rx->state == LLI_RX_ASKING ? lli_min(lli_max(rx->ask_at, rx->speak_at), rx->ask_until) : LLI_NEVER;
    if (rx->news & LLI_RX_RESOLVING)
        return 0;
    at = lli_rx_owes_report(rx) ? 0 : lli_min(at, gap->due_at);
    if (rx->slow_path & LLI_RX_LATEST)
        at = lli_min(at, rx->slow_path & LLI_RX_LEARNING ? LLI_NEVER : rx->fetch_at);
    else if (gap->missing > 0)
        at = lli_min(at, rx_missing_deadline(rx));
    return lli_min(lli_max(at, rx->speak_at), rx->silent ? rx->heard_at + rx->config->timeout : rx_silent_at(rx));
}
