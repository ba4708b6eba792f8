/* SPDX-License-Identifier: Apache-2.0 */
/* The damage of one forged packet to a receiver, and sessions that are heard again. */
#include "core/rx/former.h"
#include "session.h"

enum { WIDE = 16384, MESSAGES = 256 };

static struct receiver r;
static struct lli_rx *const rx = &r.rx;
static struct lli_former former;
static uint8_t buffer[LLI_WIRE_CONTROL_MAX];
static lli_ns now;
static lli_seq lead; /* of the genuine stream, which has one message of one byte in each packet */

static struct {
    uint64_t next; /* next message */
    uint64_t delivered;
    int gaps, news, ends;
    struct llm_event gap, new, end;
} got;

static int up_with(uint32_t window, uint32_t packets)
{
    r = (struct receiver){.random = 1, .config = rx_config()};
    memset(&got, 0, sizeof got);
    memset(&former, 0, sizeof former);
    now = 100 * MS;
    lead = START;
    r.config.window_packets = window;
    r.config.former = &former;
    r.config.resumes = true;
    receiver_make(&r, packets, now);
    return 0;
}

static int up(void **state)
{
    (void)state;
    return up_with(WIDE, 1024);
}

static int up_narrow(void **state)
{
    (void)state;
    return up_with(WIDE, 16);
}

/* A window that is shorter than what is sent. */
static int up_short(void **state)
{
    (void)state;
    return up_with(64, 1024);
}

static int down(void **state)
{
    (void)state;
    receiver_unmake(&r);
    return 0;
}

/* Checks that every message comes once and in order, or in a gap. */
static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++) {
            assert_int_equal(item.messages[i].number, got.next++);
            got.delivered++;
        }
        if (item.kind != LLI_ITEM_EVENT)
            continue;
        if (item.event.kind == LLM_EVENT_SESSION_NEW) {
            got.news++;
            got.new = item.event;
            got.next = item.event.first;
        } else if (item.event.kind == LLM_EVENT_SESSION_END) {
            got.ends++;
            got.end = item.event;
            if (item.event.reason == LLM_REASON_TIMEOUT)
                lli_rx_stop(rx);
        } else if (item.event.kind == LLM_EVENT_GAP) {
            assert_int_equal(item.event.first, got.next);
            got.gaps++;
            got.gap = item.event;
            got.next = item.event.last + 1;
        }
    }
}

static void rx_take(const uint8_t *packet, size_t size)
{
    if (rx->state == LLI_RX_FREE)
        lli_rx_start(rx, (uint32_t)SESSION, now);
    receiver_take(&r, packet, size, now, pull);
}

/* unrepaired: so many packets before this one are not repaired. */
static void data_after(lli_seq seq, uint64_t number, uint8_t unrepaired)
{
    uint8_t packet[LLI_WIRE_DATA_HEADER + 2] = {0};
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .flags = unrepaired,
                                           .tag = (uint32_t)SESSION,
                                           .seq = (uint32_t)seq,
                                           .number = (uint32_t)number,
                                           .size = sizeof packet};

    lli_wire_put_header(packet, &header);
    packet[LLI_WIRE_DATA_HEADER] = 1;
    rx_take(packet, sizeof packet);
}

static void data(lli_seq seq, uint64_t number)
{
    data_after(seq, number, 0);
}

/* Receives genuine packets. */
static void send(int count)
{
    for (; count > 0; count--, lead++)
        data(lead, lead - START);
}

static struct lli_wire_heartbeat genuine(void)
{
    now += 20 * US;
    return (struct lli_wire_heartbeat){.session = SESSION,
                                       .lead = lead,
                                       .trail = START,
                                       .start = START,
                                       .messages = lead - START,
                                       .sent_at = now,
                                       .interval_us = 10000,
                                       .receivers = 1,
                                       .address = {1, {'t'}}};
}

static void heartbeat(const struct lli_wire_heartbeat *packet)
{
    rx_take(buffer, lli_wire_put_heartbeat(buffer, packet));
}

static void beat(void)
{
    const struct lli_wire_heartbeat packet = genuine();

    heartbeat(&packet);
}

/* Sends due control packets until a time; returns the number of NAKs. */
static int naks(lli_ns until)
{
    struct lli_packet packet;
    int count = 0;

    for (;;) {
        while (rx->state != LLI_RX_FREE && lli_rx_control(rx, now, buffer, &packet))
            count += (packet.data[0] & 15) == LLI_WIRE_NAK;
        pull();
        if (now >= until)
            return count;
        now = lli_min(lli_max(now + US, rx->state == LLI_RX_FREE ? until : lli_rx_deadline(rx)), until);
    }
}

/* --------------------------------------------------------------------------------------------------- data */

static void a_forged_packet_far_beyond_lead_has_no_cost(void **state)
{
    (void)state;
    beat();
    send(10);
    data(lead + 16000, 16000);
    assert_int_equal(naks(now + 9 * MS), 0);
    send(10);
    beat();
    assert_int_equal(naks(now + 1000 * MS), 0);
    assert_int_equal(got.delivered, 20);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(rx->gap.missing, 0);
}

static void packets_beyond_the_lead_of_two_heartbeats_are_dropped(void **state)
{
    (void)state;
    beat();
    send(10);
    data(lead + 9000, 9000);
    data(lead + 9001, 9001);
    assert_int_equal(rx->gap.missing, 9001);
    assert_true(naks(now + 10 * MS) < 64);
    send(10);
    beat();
    assert_true(naks(now + 10 * MS) < 64);
    send(10);
    beat();
    assert_int_equal(rx->gap.missing, 0);
    assert_int_equal(r.reorder.used, 0);
    assert_int_equal(naks(now + 400 * MS), 0);
    send(10);
    assert_int_equal(got.delivered, 40);
    assert_int_equal(got.gaps, 0);
}

/* The stream pauses for longer than the time after which missing packets are given up. */
static void packets_beyond_every_heartbeat_are_not_given_up(void **state)
{
    (void)state;
    beat();
    send(10);
    data(lead + 100, 100);
    for (int i = 0; i < 8; i++)
        (void)naks(now + 100 * MS);
    assert_int_equal(got.gaps, 0);
    for (int i = 0; i < MESSAGES; i++) {
        send(1);
        beat();
        (void)naks(now + MS);
    }
    assert_int_equal(got.delivered, 10 + MESSAGES);
    assert_int_equal(got.gaps, 0);
}

static void a_forged_packet_does_not_stop_a_stream_with_little_memory(void **state)
{
    (void)state;
    beat();
    send(10);
    data(lead + 9000, 9000);
    data(lead + 9001, 9001);
    for (int i = 0; i < MESSAGES; i++) {
        const lli_seq lost = lead++;

        send(1);
        (void)naks(now + 10 * MS);
        data(lost, lost - START);
        beat();
    }
    assert_int_equal(got.delivered, 10 + 2 * MESSAGES);
    assert_int_equal(got.gaps, 0);
}

/* A packet overtook two heartbeats, was delivered unordered and dropped: it arrives again in order. */
static void messages_of_a_dropped_packet_are_not_delivered_twice(void **state)
{
    struct lli_item item;
    uint64_t times[4] = {0};

    (void)state;
    (void)down(NULL);
    r = (struct receiver){.random = 1, .config = rx_config()};
    r.config.as_it_arrives = true;
    receiver_make(&r, 64, now);
    for (int i = 0; i < 7; i++) {
        static const int order[] = {-1, 1, -1, -1, 0, 1, 2};
        struct lli_wire_heartbeat packet = genuine();
        struct lli_rx_packet in = {.bytes = buffer, .size = lli_wire_put_heartbeat(buffer, &packet)};
        uint8_t bytes[LLI_WIRE_DATA_HEADER + 2] = {0};
        const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                               .tag = (uint32_t)SESSION,
                                               .seq = (uint32_t)START + (uint32_t)order[i],
                                               .number = (uint32_t)order[i],
                                               .size = sizeof bytes};

        if (order[i] >= 0) {
            lli_wire_put_header(bytes, &header);
            bytes[LLI_WIRE_DATA_HEADER] = 1;
            in = (struct lli_rx_packet){.bytes = bytes, .size = sizeof bytes};
        }
        if (rx->state == LLI_RX_LIVE)
            (void)lli_topics_add(&rx->topics, 0, (const uint8_t *)"t", 1);
        assert_int_equal(lli_wire_get_header(in.bytes, in.size, &in.header, &in.body, &in.body_size),
                         LLI_WIRE_OK);
        if (!lli_rx_input(rx, &in, now))
            continue;
        while (lli_rx_next(rx, now, &item))
            for (int j = 0; item.kind == LLI_ITEM_MESSAGES && j < item.count; j++)
                times[item.messages[j].number]++;
        assert_int_equal(times[1], i > 0);
    }
    assert_int_equal(times[0], 1);
    assert_int_equal(times[1], 1);
    assert_int_equal(times[2], 1);
}

/* The forged packet replaces the genuine one; no other message is lost. */
static void a_packet_that_contradicts_its_predecessor_is_skipped(void **state)
{
    (void)state;
    beat();
    send(3);
    data(lead++, 1003);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(r.counters.data_malformed, 1);
    send(10);
    assert_int_equal(got.delivered, 13);
    assert_int_equal(got.gaps, 1);
    assert_int_equal(got.gap.reason, LLM_REASON_MALFORMED);
    assert_int_equal(got.gap.packets, 0);
    assert_int_equal(got.gap.first, 3);
    assert_int_equal(got.gap.last, 3);
}

/* Two forged packets agree, and heartbeats contradict them. */
static void consecutive_forged_packets_are_bounded_by_heartbeats(void **state)
{
    (void)state;
    beat();
    send(3);
    data(lead++, 1003);
    lead++;
    beat();
    lead--;
    data(lead++, 1004);
    assert_int_equal(got.gaps, 0);
    send(10);
    assert_int_equal(got.delivered, 13);
    assert_int_equal(got.gaps, 1);
    assert_int_equal(got.gap.first, 3);
    assert_int_equal(got.gap.last, 4);
}

/* A packet that was buffered and delivered, beyond two heartbeats, never arrives again. */
static void delivered_messages_of_a_dropped_packet_are_not_reported_lost(void **state)
{
    static const struct lli_wire_reject gone = {
        .session = SESSION, .trail = START + 6, .reason = LLI_WIRE_GONE};
    uint64_t told[8] = {0};
    struct lli_item item;

    (void)state;
    (void)down(NULL);
    r = (struct receiver){.random = 1, .config = rx_config()};
    r.config.as_it_arrives = true;
    receiver_make(&r, 64, now);
    for (int i = 0; i < 10; i++) {
        /* A packet, or a heartbeat with lead -n, or the NAK and its answer. */
        static const int order[] = {-1, 0, 2, 4, -2, -2, -7, -7, -100, 6};
        uint8_t bytes[LLI_WIRE_DATA_HEADER + 2] = {0};
        const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                               .tag = (uint32_t)SESSION,
                                               .seq = (uint32_t)START + (uint32_t)order[i],
                                               .number = (uint32_t)order[i],
                                               .size = sizeof bytes};
        struct lli_rx_packet in = {.bytes = bytes, .size = sizeof bytes};
        struct lli_wire_heartbeat packet;
        struct lli_packet nak;

        lead = START + (lli_seq)(order[i] < 0 ? -1 - order[i] : 0);
        packet = genuine();
        if (order[i] >= 0) {
            lli_wire_put_header(bytes, &header);
            bytes[LLI_WIRE_DATA_HEADER] = 1;
        } else if (order[i] == -100) {
            while (lli_rx_control(rx, now, buffer, &nak))
                continue;
            in = (struct lli_rx_packet){.bytes = buffer, .size = lli_wire_put_reject(buffer, &gone)};
        } else {
            in = (struct lli_rx_packet){.bytes = buffer, .size = lli_wire_put_heartbeat(buffer, &packet)};
        }
        if (rx->state == LLI_RX_LIVE)
            (void)lli_topics_add(&rx->topics, 0, (const uint8_t *)"t", 1);
        assert_int_equal(lli_wire_get_header(in.bytes, in.size, &in.header, &in.body, &in.body_size),
                         LLI_WIRE_OK);
        if (!lli_rx_input(rx, &in, now))
            continue;
        while (lli_rx_next(rx, now, &item)) {
            for (int j = 0; item.kind == LLI_ITEM_MESSAGES && j < item.count; j++)
                told[item.messages[j].number]++;
            if (item.kind == LLI_ITEM_EVENT && item.event.kind == LLM_EVENT_GAP)
                for (uint64_t number = item.event.first; number < item.event.last + 1; number++)
                    told[number]++;
        }
    }
    assert_int_equal(r.counters.packets_implausible, 2);
    assert_int_equal(r.counters.messages_delivered, 4);
    assert_int_equal(r.counters.messages_lost, 3);
    for (int i = 0; i < 7; i++)
        assert_int_equal(told[i], 1);
}

/* --------------------------------------------------------------------------------------------- heartbeats */

static void a_heartbeat_from_the_future_does_not_mask_others(void **state)
{
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    send(10);
    forged = genuine();
    forged.sent_at += 999 * MS;
    heartbeat(&forged);
    now += 15 * MS;
    lead += 5;
    beat();
    assert_int_equal(rx->gap.missing, 5);
    assert_int_equal(rx->heard.delay.queued, 0);
}

static void a_forged_receiver_count_delays_reports_for_one_heartbeat(void **state)
{
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    (void)naks(now + 10 * MS);
    forged = genuine();
    forged.receivers = UINT32_MAX;
    heartbeat(&forged);
    (void)naks(now + 500 * MS);
    beat();
    assert_true(rx->report.at <= now + r.config.status);
}

static void a_forged_round_trip_delays_naks_for_one_heartbeat(void **state)
{
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    send(10);
    forged = genuine();
    forged.receivers = 100;
    forged.rtt_ns = UINT32_MAX;
    heartbeat(&forged);
    lead++;
    send(1);
    beat();
    assert_true(naks(now + 60 * MS) > 0);
}

static void a_forged_topic_count_delays_messages_for_one_heartbeat(void **state)
{
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    send(10);
    forged = genuine();
    forged.topics = UINT32_MAX;
    heartbeat(&forged);
    lead++;
    beat();
    assert_int_equal(rx->names.wanted, 0);
}

static void an_end_below_received_packets_is_ignored_at_first(void **state)
{
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    send(10);
    forged = genuine();
    forged.lead -= 5;
    forged.flags = LLI_WIRE_HEARTBEAT_END;
    heartbeat(&forged);
    assert_int_equal(got.ends, 0);
    send(10);
    assert_int_equal(got.delivered, 20);
    /* Unless no other packet comes for long: then the packets received beyond were forged. */
    for (int i = 0; i < 6; i++) {
        now += 100 * MS;
        forged.sent_at = now;
        heartbeat(&forged);
    }
    assert_int_equal(got.ends, 1);
    assert_int_equal(got.end.reason, LLM_REASON_CLOSED);
}

static void a_contradicted_end_is_revoked(void **state)
{
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    send(10);
    forged = genuine();
    forged.flags = LLI_WIRE_HEARTBEAT_END;
    heartbeat(&forged);
    assert_int_equal(got.ends, 1);
    send(10);
    assert_int_equal(got.delivered, 10);
    beat();
    assert_int_equal(got.news, 2);
    assert_int_equal(got.new.first, 10);
    for (lli_seq seq = START + 10; seq < lead; seq++)
        data(seq, seq - START);
    assert_int_equal(got.delivered, 20);
    assert_int_equal(got.gaps, 0);
}

/* The topics of the session are not announced again either. */
static void old_heartbeats_do_not_revive_an_ended_session(void **state)
{
    struct lli_wire_heartbeat packet, old;

    (void)state;
    beat();
    send(10);
    packet = genuine();
    packet.flags = LLI_WIRE_HEARTBEAT_END;
    heartbeat(&packet);
    assert_int_equal(got.ends, 1);
    for (lli_seq seq = START; seq <= lead; seq++) {
        old = packet;
        old.flags = 0;
        old.lead = seq;
        old.messages = seq - START;
        old.sent_at -= 50 * MS;
        heartbeat(&old);
    }
    assert_int_equal(got.news, 1);
    assert_int_equal(rx->state, LLI_RX_ENDED);
    assert_int_equal(rx->heartbeat.lead, lead);
}

/* A heartbeat and a reject agree that much was sent, and is gone. */
static void packets_within_one_heartbeat_only_are_not_given_up(void **state)
{
    struct lli_wire_reject gone = {.session = SESSION, .reason = LLI_WIRE_GONE};
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    send(10);
    beat();
    forged = genuine();
    forged.lead += 5000;
    forged.messages += 5000;
    heartbeat(&forged);
    assert_true(naks(now + 100 * US) > 0);
    gone.trail = forged.lead;
    rx_take(buffer, lli_wire_put_reject(buffer, &gone));
    assert_int_equal(got.gaps, 0);
    beat();
    send(10);
    assert_int_equal(got.delivered, 20);
    assert_int_equal(got.gaps, 0);
}

/*
 * Two forged heartbeats and a reject move the receiver; it returns when heartbeats have contradicted the lead
 * for long.
 */
static void a_receiver_with_a_forged_lead_returns_to_the_stream(void **state)
{
    struct lli_wire_reject gone = {.session = SESSION, .reason = LLI_WIRE_GONE};
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    send(10);
    for (int i = 0; i < 2; i++) {
        forged = genuine();
        forged.lead += 5000;
        forged.messages += 5000;
        heartbeat(&forged);
    }
    assert_true(naks(now + 100 * US) > 0);
    gone.trail = forged.lead;
    rx_take(buffer, lli_wire_put_reject(buffer, &gone));
    assert_int_equal(got.gaps, 1);
    assert_int_equal(got.next, 5010);
    assert_true(lli_rx_acknowledge(rx, 5009, now));
    for (int i = 0; i < 70; i++) {
        now += 10 * MS;
        send(1);
        beat();
        /* Messages of the time between were reported lost; each later one is delivered once. */
        if (got.next > MESSAGES && r.counters.streams_receded > 0)
            got.next = rx->unpack.number;
    }
    assert_int_equal(r.counters.streams_receded, 1);
    for (lli_seq seq = START; seq < lead; seq++)
        data(seq, seq - START);
    assert_int_equal(got.delivered, 10 + got.next - rx->report.acknowledged_from);
    /* The messages that were reported lost are not acknowledged. */
    assert_true(rx->report.acknowledged <= rx->report.acknowledged_from);
    send(10);
    assert_int_equal(got.next, 90);
    assert_int_equal(rx->gap.missing, 0);
}

/* Two forged packets in a row agree, and no heartbeat is between them. */
static void a_receiver_with_forged_numbers_returns_to_the_stream(void **state)
{
    (void)state;
    beat();
    send(3);
    data(lead++, 10003);
    data(lead++, 10004);
    assert_int_equal(got.next, 10005);
    for (int i = 0; i < 70; i++) {
        now += 10 * MS;
        send(1);
        beat();
        if (got.next > MESSAGES && r.counters.streams_receded > 0)
            got.next = rx->unpack.number;
    }
    assert_int_equal(r.counters.streams_receded, 1);
    assert_int_equal(got.next, 75);
    send(10);
    assert_int_equal(got.next, 85);
    assert_int_equal(rx->gap.missing, 0);
}

/* The forger repeats old heartbeats. */
static void a_receiver_does_not_return_to_delivered_packets(void **state)
{
    struct lli_wire_heartbeat old;

    (void)state;
    beat();
    send(100);
    beat();
    for (int i = 0; i < 200; i++) {
        now += 20 * MS;
        old = genuine();
        old.lead -= 50;
        old.messages -= 50;
        heartbeat(&old);
    }
    assert_int_equal(r.counters.streams_receded, 0);
    for (lli_seq seq = START; seq < lead; seq++)
        data(seq, seq - START);
    send(10);
    assert_int_equal(got.delivered, 110);
}

static void impossible_message_counts_are_not_reported_as_loss(void **state)
{
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    send(10);
    forged = genuine();
    forged.messages = 1 << 30;
    forged.flags = LLI_WIRE_HEARTBEAT_END;
    heartbeat(&forged);
    assert_int_equal(got.gaps, 0);
    send(10);
    assert_int_equal(got.delivered, 20);
}

/* ------------------------------------------------------------------------------------------ heard again */

static void a_receiver_absent_for_half_the_number_space_goes_live(void **state)
{
    static const lli_seq away[] = {((lli_seq)1 << 31) + 10, (lli_seq)1 << 32, ((lli_seq)5 << 32) - 3};

    for (size_t i = 0; i < sizeof away / sizeof away[0]; i++) {
        beat();
        send(10);
        lead += away[i];
        for (int j = 0; j < 7; j++) {
            now += 100 * MS;
            beat();
        }
        assert_int_equal(got.gaps, 1);
        assert_int_equal(got.gap.reason, LLM_REASON_OVERRUN);
        assert_int_equal(got.gap.first, 10);
        assert_int_equal(got.gap.last, lead - START - 1);
        send(10);
        assert_int_equal(got.delivered, 20);
        assert_int_equal(got.ends, 0);
        (void)down(state);
        (void)up(state);
    }
}

static void one_forged_lead_gives_up_no_packet(void **state)
{
    struct lli_wire_heartbeat forged;

    (void)state;
    beat();
    send(10);
    for (int i = 0; i < 20; i++) {
        forged = genuine();
        forged.lead += (lli_seq)1 << 40;
        heartbeat(&forged);
        now += 50 * MS;
        beat();
    }
    send(10);
    assert_int_equal(got.delivered, 20);
    assert_int_equal(got.gaps, 0);
}

/* A heartbeat makes the session resume with message `first`; the packets before message `end` are requested, and arrive. */
static void resume(uint64_t first, uint64_t end)
{
    beat();
    assert_int_equal(got.news, 2);
    assert_int_equal(got.new.first, first);
    assert_true(naks(now + MS) > 0);
    for (uint64_t number = first; number < end; number++)
        data(START + number, number);
}

static void a_session_that_timed_out_continues_where_it_ended(void **state)
{
    (void)state;
    beat();
    send(10);
    (void)naks(now + 2000 * MS);
    assert_int_equal(got.ends, 1);
    assert_int_equal(got.end.reason, LLM_REASON_TIMEOUT);
    assert_int_equal(got.end.first, 10);
    /* It sent ten more meanwhile, which are not reported lost before they are. */
    lead += 10;
    send(1);
    resume(10, 20);
    assert_int_equal(got.delivered, 21);
    assert_int_equal(got.gaps, 0);
}

/* It would resume where it resumed before, with messages that were delivered since. */
static void a_session_that_expelled_this_receiver_does_not_resume(void **state)
{
    struct lli_wire_notice notice = {
        .session = SESSION, .receiver = RECEIVER, .standing = LLI_STANDING_EXPELLED, .rejoin_ms = 300};

    (void)state;
    beat();
    send(10);
    (void)naks(now + 2000 * MS);
    assert_non_null(lli_former_find(&former, SESSION));
    beat();
    assert_int_equal(got.news, 2);
    send(10);
    notice.decided_at = now;
    rx_take(buffer, lli_wire_put_notice(buffer, &notice));
    assert_int_equal(got.ends, 2);
    assert_int_equal(got.end.reason, LLM_REASON_EXPELLED);
    assert_int_equal(got.end.first, 20);
    assert_null(lli_former_find(&former, SESSION));
}

/*
 * The last packets came early, were dropped as the reorder buffer was full, and no heartbeat said how many messages they
 * have: they are not reported lost, so the session resumes with them, even if nothing else is sent.
 */
static void a_session_that_timed_out_continues_with_messages_that_were_not_counted(void **state)
{
    (void)state;
    beat();
    send(10);
    lead++;
    send(20);
    (void)naks(now + 2000 * MS);
    assert_int_equal(got.ends, 1);
    assert_int_equal(r.counters.reorder_full, 4);
    assert_int_equal(got.end.first, 27);
    resume(27, 31);
    assert_int_equal(got.next, 31);
    assert_int_equal(got.delivered, 30);
    assert_int_equal(r.counters.heartbeats_implausible, 0);
}

/* A heartbeat from before the end, which the network delayed by more than a window. */
static void a_heartbeat_far_behind_does_not_begin_a_session_anew(void **state)
{
    struct lli_wire_heartbeat delayed;

    (void)state;
    beat();
    send(100);
    (void)naks(now + 2000 * MS);
    assert_int_equal(got.ends, 1);
    delayed = genuine();
    delayed.lead = START + 10;
    delayed.messages = 10;
    heartbeat(&delayed);
    pull();
    assert_int_equal(got.news, 1);
    beat();
    assert_int_equal(got.news, 2);
    assert_int_equal(got.new.first, 100);
    send(10);
    assert_int_equal(got.delivered, 110);
}

/* Where it ended was forged. */
static void two_heartbeats_far_behind_begin_a_session_anew(void **state)
{
    (void)state;
    beat();
    send(100);
    (void)naks(now + 2000 * MS);
    lead = START + 10;
    beat();
    assert_int_equal(got.news, 1);
    beat();
    assert_int_equal(got.news, 2);
    assert_int_equal(got.new.first, 10);
    send(10);
    assert_int_equal(got.delivered, 110);
}

static void an_ended_young_session_is_not_followed_again(void **state)
{
    struct lli_wire_heartbeat packet;

    (void)state;
    packet = genuine();
    packet.flags = LLI_WIRE_HEARTBEAT_YOUNG;
    heartbeat(&packet);
    send(10);
    packet = genuine();
    packet.flags = LLI_WIRE_HEARTBEAT_YOUNG | LLI_WIRE_HEARTBEAT_END;
    heartbeat(&packet);
    assert_int_equal(got.ends, 1);
    /* Its entry was needed for another session. */
    lli_rx_stop(rx);
    packet.sent_at = now += 50 * MS;
    heartbeat(&packet);
    (void)naks(now + 10 * MS);
    assert_int_equal(got.news, 1);
    assert_int_equal(rx->state, LLI_RX_ENDED);
}

static void a_replaced_session_continues_at_its_position(void **state)
{
    (void)state;
    beat();
    send(10);
    lli_rx_replace(rx);
    lead += 3;
    beat();
    assert_int_equal(got.news, 2);
    assert_int_equal(got.new.first, 10);
    assert_int_equal(rx->gap.missing, 3);
}

/* Messages of packets that only heartbeats showed are lost in the interruption, and the next packet is of an unreliable topic. */
static void a_loss_of_an_interruption_is_not_of_an_unreliable_packet(void **state)
{
    struct lli_wire_heartbeat packet;

    (void)state;
    beat();
    send(10);
    beat();
    packet = genuine();
    packet.lead += 2;
    heartbeat(&packet);
    packet = genuine();
    packet.lead += 2;
    heartbeat(&packet);
    (void)naks(now + 3000 * MS);
    assert_int_equal(got.ends, 1);
    lead += 2;
    beat();
    beat();
    assert_int_equal(got.news, 2);
    assert_int_equal(got.new.first, 10);
    got.gaps = 0;
    lead += 2;
    data_after(lead - 1, lead - 1 - START, 1);
    beat();
    beat();
    (void)naks(now + 100 * MS);
    assert_int_equal(got.gaps, 1);
    assert_int_equal(got.gap.first, 10);
    assert_int_equal(got.gap.last, 12);
    assert_int_equal(got.gap.reason, LLM_REASON_TIMEOUT);
    /* None of them is acknowledged. */
    assert_int_equal(rx->report.acknowledged_from, 13);
    assert_int_equal(got.next, 14);
}

/* A heartbeat of a session of which topic 0 is assured. */
static void assured_beat(void)
{
    struct lli_wire_heartbeat packet = genuine();

    packet.flags = LLI_WIRE_HEARTBEAT_ASSURED;
    packet.unacknowledged = packet.lead;
    packet.unacknowledged_messages = packet.messages;
    packet.topics = 1;
    packet.assured = 1;
    heartbeat(&packet);
}

/* True if a report says that messages of topic 0 are acknowledged. */
static bool is_acknowledged(void)
{
    struct lli_wire_status status;
    struct lli_packet packet;

    assert_true(lli_rx_leave(rx, now, buffer, &packet));
    assert_true(lli_wire_get_status(packet.data + LLI_WIRE_HEADER, packet.size - LLI_WIRE_HEADER,
                                    (uint32_t)SESSION, &status));
    return status.accepts & 1;
}

static void name_topic(void)
{
    assert_true(lli_topics_add(&rx->topics, 0, (const uint8_t *)"t", 1));
}

/* It may have been refused before, and what was sent meanwhile may be dropped. */
static void a_topic_without_its_name_is_not_acknowledged_after_an_interruption(void **state)
{
    (void)state;
    assured_beat();
    send(10);
    /* No message is dropped before its topic is known. */
    assert_true(is_acknowledged());
    name_topic();
    assert_true(is_acknowledged());
    lli_rx_topic_refuse(rx, 0);
    assert_false(is_acknowledged());
    (void)naks(now + 3000 * MS);
    assert_int_equal(got.ends, 1);
    assured_beat();
    assured_beat();
    assert_int_equal(got.news, 2);
    assert_false(is_acknowledged());
    name_topic();
    assert_true(is_acknowledged());
}

/* ------------------------------------------------------------------------------------------------ silence */

static void silence_is_not_evaluated_while_packets_may_be_unread(void **state)
{
    (void)state;
    beat();
    send(10);
    /* Away for twice the timeout. */
    now += 2000 * MS;
    lli_rx_away(rx, now);
    assert_int_equal(naks(now + 499 * MS), 0);
    assert_int_equal(got.ends, 0);
    now += 100 * MS;
    assert_true(lli_rx_is_quiet(rx, now));
    r.config.unread = true;
    assert_int_equal(naks(now), 0);
    assert_int_equal(got.ends, 0);
    send(10);
    r.config.unread = false;
    assert_int_equal(naks(now), 0);
    assert_int_equal(got.ends, 0);
    assert_int_equal(got.delivered, 20);
    assert_int_equal(got.news, 1);
}

static void a_seldom_polled_receiver_reports_the_timeout(void **state)
{
    (void)state;
    beat();
    send(10);
    for (int i = 0; i < 4; i++) {
        now += 2000 * MS;
        lli_rx_away(rx, now);
        assert_int_equal(naks(now), 0);
    }
    assert_int_equal(got.ends, 1);
    assert_int_equal(got.end.reason, LLM_REASON_TIMEOUT);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_forged_packet_far_beyond_lead_has_no_cost),
        T(packets_beyond_the_lead_of_two_heartbeats_are_dropped),
        T(packets_beyond_every_heartbeat_are_not_given_up),
        cmocka_unit_test_setup_teardown(a_forged_packet_does_not_stop_a_stream_with_little_memory, up_narrow,
                                        down),
        T(messages_of_a_dropped_packet_are_not_delivered_twice),
        T(delivered_messages_of_a_dropped_packet_are_not_reported_lost),
        T(a_packet_that_contradicts_its_predecessor_is_skipped),
        T(consecutive_forged_packets_are_bounded_by_heartbeats),
        T(a_heartbeat_from_the_future_does_not_mask_others),
        T(a_forged_receiver_count_delays_reports_for_one_heartbeat),
        T(a_forged_round_trip_delays_naks_for_one_heartbeat),
        T(a_forged_topic_count_delays_messages_for_one_heartbeat),
        T(an_end_below_received_packets_is_ignored_at_first),
        T(a_contradicted_end_is_revoked),
        T(old_heartbeats_do_not_revive_an_ended_session),
        T(packets_within_one_heartbeat_only_are_not_given_up),
        T(a_receiver_with_a_forged_lead_returns_to_the_stream),
        T(a_receiver_with_forged_numbers_returns_to_the_stream),
        T(a_receiver_does_not_return_to_delivered_packets),
        T(impossible_message_counts_are_not_reported_as_loss),
        T(a_receiver_absent_for_half_the_number_space_goes_live),
        T(one_forged_lead_gives_up_no_packet),
        T(a_session_that_timed_out_continues_where_it_ended),
        T(a_session_that_expelled_this_receiver_does_not_resume),
        cmocka_unit_test_setup_teardown(
            a_session_that_timed_out_continues_with_messages_that_were_not_counted, up_narrow, down),
        cmocka_unit_test_setup_teardown(a_heartbeat_far_behind_does_not_begin_a_session_anew, up_short, down),
        cmocka_unit_test_setup_teardown(two_heartbeats_far_behind_begin_a_session_anew, up_short, down),
        T(an_ended_young_session_is_not_followed_again),
        T(a_replaced_session_continues_at_its_position),
        T(a_loss_of_an_interruption_is_not_of_an_unreliable_packet),
        T(a_topic_without_its_name_is_not_acknowledged_after_an_interruption),
        T(silence_is_not_evaluated_while_packets_may_be_unread),
        T(a_seldom_polled_receiver_reports_the_timeout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
