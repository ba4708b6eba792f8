/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bottleneck watch, and the reports that carry its results (ADR 22, docs/protocol.md section 7.4). Each
 * receiver has one bottleneck for a while, or none; the transmitter likewise. The expected figures are
 * counted here from their causes: when the application polled, which packets the network lost and which found
 * no buffer.
 *
 * - The figures of each interval are exactly those, and the verdict follows from them as event.h says.
 * - A named bottleneck was imposed on that receiver, in that interval or just before; an imposed one is
 *   named, and no other.
 * - The application gets an event when it changes, and only then.
 * - Reports carry it if the receiver has a watch, as of the latest interval, and the transmitter's view is
 *   the latest report.
 * - Without watches the same packets are sent at the same times, and the same messages arrive.
 */

#include <stdio.h>

#include "cable.h"
#include "core/wire/wire.h"

enum { WATCH_EARS_MAX = 5, WATCH_BURST = 48, WATCH_MESSAGE_MAX = 700, WATCH_SMALL = 16 };

#define WATCH_CHANNEL                                                                                    \
    CABLE_SCHEME "://watch:1?history_bytes=8M&history_packets=8192&window_packets=8192&reorder_bytes=4M" \
                 "&receivers_max=8&topics_max=4&sessions_max=2&linger_ns=0&slow=off&message_bytes_max=64K"

/* An application away for this long at once must expect buffer overflow. */
#define WATCH_LONG (50 * CABLE_MS)

/* Bottleneck imposed on a receiver. */
enum part {
    PART_FINE,
    PART_SLOW,    /* its application has no time left */
    PART_ABSENT,  /* its application has time, but is sometimes away for long, and the buffer is small */
    PART_BUFFER,  /* the buffer has no room for bursts */
    PART_NETWORK, /* packets to it are lost */
};

/* Expected results of a watch. */
struct expected {
    lli_ns polled_at;
    lli_ns assessed_at;
    bool delivered;
    struct llm_bottleneck now;  /* of the current interval */
    struct llm_bottleneck last; /* of the interval before, if time_ns is not 0 */
    uint64_t dropped;           /* drops counted by the latest evaluation */
    uint64_t dropped_away;      /* the same for drops while the application was away */
    uint64_t present_before;    /* drops of the previous interval while the application was present */
    uint64_t unused;            /* drops that explained no miss yet ... */
    lli_ns unused_away;         /* ... and how long the application had been away then */
    enum llm_limit told;
    uint32_t named; /* bits of all limits that were named */
};

struct ear {
    struct llm_context *context;
    struct llm_receiver *receiver;
    enum part part;
    lli_ns from, to; /* time of the bottleneck */
    bool watches;
    uint64_t id; /* identity in its reports */
    uint64_t received;
    uint32_t handled;     /* messages of this turn ... */
    uint32_t delivered;   /* ... and all items delivered by this poll */
    uint32_t events;      /* events of the watch in this poll */
    enum llm_limit event; /* latest of these */
    struct expected expected;
    bool follows;
    uint32_t end;    /* one past the highest packet known to it */
    uint64_t lost;   /* packets whose first transmission did not arrive */
    uint64_t missed; /* missing packets that it found */
    uint64_t dropped_ever;
    uint32_t away_from; /* ms: range of absences of a slow application */
    uint32_t away_to;
    lli_ns absent_at;            /* time of the next absence */
    struct lli_wire_limits seen; /* figures in its latest report to the transmitter */
    bool reports;
    uint32_t seen_dropped;
    enum llm_limit seen_told;
};

static struct {
    bool on; /* contexts have watches, at random */
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topics[2];
    bool watches;
    enum llm_limit holds; /* limit that blocks the transmitter ... */
    lli_ns from, to;      /* ... at this time */
    bool bursts;
    lli_ns gap; /* time between messages */
    lli_ns message_at;
    lli_ns traffic;  /* no messages after this time */
    lli_ns interval; /* interval of the watches */
    lli_ns nap;
    uint64_t sent;
    uint32_t first; /* first packet */
    uint32_t next;  /* next packet to be sent */
    bool known;     /* the two above are known */
    lli_ns assessed_at;
    lli_ns held_at; /* time since which messages are refused; LLI_NEVER: they are not */
    lli_ns held;    /* blocked time in the current interval */
    uint32_t named;
    uint32_t events;
    enum llm_limit event;
    enum llm_limit told;
    uint32_t ears_count;
    struct ear ears[WATCH_EARS_MAX];
    uint64_t wire; /* digest of all packets */
    uint64_t deliveries;
} watch;

static struct {
    uint64_t record, named, reports, twins;
    uint64_t by_limit[LLM_LIMIT_TRANSPORT + 1];
} seen;

static void note(uint64_t *digest, uint64_t value)
{
    *digest = (*digest ^ value) * UINT64_C(0x100000001b3);
    *digest ^= *digest >> 29;
}

static struct ear *ear_of(uint32_t node)
{
    return &watch.ears[node - 1];
}

static bool is_done(const struct ear *ear)
{
    return cable.now >= ear->from && cable.now < ear->to && cable.now < watch.traffic;
}

/* -------------------------------------------------------------------------------------------- the verdict */

/* Returns the verdict on these figures according to event.h. */
static enum llm_limit verdict(const struct llm_bottleneck *f)
{
    const uint64_t dropped = lli_min(f->packets_dropped, f->packets_missed);

    if (f->away_ns >= f->time_ns / 100 * 90)
        return LLM_LIMIT_APPLICATION;
    if (dropped > 0 && 2 * dropped >= f->packets_missed)
        return f->away_ns_max >= WATCH_LONG ? LLM_LIMIT_APPLICATION : LLM_LIMIT_BUFFER;
    if ((f->packets_missed - dropped) * 10000 > f->packets + f->packets_missed - dropped)
        return LLM_LIMIT_NETWORK;
    return LLM_LIMIT_NONE;
}

/*
 * Returns true if the limit was imposed on this receiver, in this interval or the one before; its figures are
 * correct.
 */
static bool is_true(const struct ear *ear, enum llm_limit limit, uint64_t present)
{
    switch (limit) {
    case LLM_LIMIT_NONE:
        return true;
    case LLM_LIMIT_APPLICATION:
        return ear->part == PART_SLOW || ear->part == PART_ABSENT;
    case LLM_LIMIT_BUFFER:
        /* An application that returns requests much at once, which may overflow the buffer as well. */
        return ear->part == PART_BUFFER || (ear->part == PART_ABSENT && present > 0);
    case LLM_LIMIT_NETWORK:
        return ear->part == PART_NETWORK;
    default:
        return false;
    }
}

static void expect_figures(const struct ear *ear, uint32_t node, const struct llm_bottleneck *is)
{
    const struct llm_bottleneck *want = &ear->expected.last;

    if (is->time_ns != want->time_ns || is->away_ns != want->away_ns ||
        is->away_ns_max != want->away_ns_max || is->packets != want->packets ||
        is->packets_missed != want->packets_missed || is->packets_dropped != want->packets_dropped ||
        is->limit != want->limit)
        cable_fail("node %u: limit %d by %llu ns away, %llu at once, of %llu, %llu packets, %llu missed, "
                   "%llu dropped; "
                   "it was limit %d by %llu, %llu, %llu, %llu, %llu, %llu",
                   node, (int)is->limit, (unsigned long long)is->away_ns, (unsigned long long)is->away_ns_max,
                   (unsigned long long)is->time_ns, (unsigned long long)is->packets,
                   (unsigned long long)is->packets_missed, (unsigned long long)is->packets_dropped,
                   (int)want->limit, (unsigned long long)want->away_ns, (unsigned long long)want->away_ns_max,
                   (unsigned long long)want->time_ns, (unsigned long long)want->packets,
                   (unsigned long long)want->packets_missed, (unsigned long long)want->packets_dropped);
}

static void expect_judged(struct ear *ear, uint32_t node, lli_ns now)
{
    struct expected *e = &ear->expected;
    const struct cable_node *of = &cable.nodes[node];
    const uint64_t drops = of->dropped - e->dropped;
    const uint64_t present = drops - (of->dropped_away - e->dropped_away);
    /* Dropped before, but found missing only now. */
    const uint64_t late = lli_min(e->unused, e->now.packets_missed);

    e->last = e->now;
    e->last.time_ns = now - e->assessed_at;
    e->last.packets_dropped = drops + e->unused;
    if (late > 0)
        e->last.away_ns_max = lli_max(e->last.away_ns_max, e->unused_away);
    e->last.limit = verdict(&e->last);
    e->unused_away = e->now.away_ns_max;
    if (!is_true(ear, e->last.limit, present + e->present_before))
        cable_fail("node %u: limit %d is named, and was not done to it", node, (int)e->last.limit);
    e->present_before = present;
    e->unused = drops - lli_min(drops, e->now.packets_missed - late);
    e->dropped = of->dropped;
    e->dropped_away = of->dropped_away;
    ear->dropped_ever = of->dropped;
    e->now = (struct llm_bottleneck){.limit = LLM_LIMIT_NONE};
    e->assessed_at = now;
    e->named |= 1u << e->last.limit;
    seen.record++;
    seen.named += e->last.limit != LLM_LIMIT_NONE;
    seen.by_limit[e->last.limit]++;
    if (ear->events != (e->last.limit != e->told) || (ear->events > 0 && ear->event != e->last.limit))
        cable_fail("node %u: limit %d after %d, and %u events, the last of limit %d", node,
                   (int)e->last.limit, (int)e->told, ear->events, (int)ear->event);
    e->told = e->last.limit;
}

/* Updates the expectation after a poll that began now. */
static void expect_polled(struct ear *ear, uint32_t node)
{
    struct expected *e = &ear->expected;
    const lli_ns now = cable_node_now(node);
    struct llm_bottleneck is;
    int error;

    if (e->delivered) {
        e->now.away_ns += now - e->polled_at;
        e->now.away_ns_max = lli_max(e->now.away_ns_max, now - e->polled_at);
    }
    e->polled_at = now;
    e->delivered = ear->delivered > 0;
    if (now - e->assessed_at >= watch.interval)
        expect_judged(ear, node, now);
    else if (ear->events > 0)
        cable_fail("node %u: told of a limit when nothing was judged", node);
    error = llm_receiver_bottleneck(ear->receiver, &is);
    if (error != (e->last.time_ns == 0 ? LLM_EAGAIN : LLM_OK))
        cable_fail("node %u: its bottleneck: %s", node, llm_error_text(error));
    if (error == LLM_OK)
        expect_figures(ear, node, &is);
}

/* -------------------------------------------------------------------------------------------- observation */

/* Adds a packet to the digest, without the fields that depend on watches. */
static void watch_digest(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t size,
                         struct lli_wire_status *status)
{
    uint8_t plain[LLI_WIRE_CONTROL_MAX];

    if (status != NULL) {
        status->flags &= (uint8_t)~LLI_WIRE_STATUS_LIMITED;
        status->dropped = 0;
        size = (uint32_t)lli_wire_put_status(plain, status);
        bytes = plain;
    }
    note(&watch.wire, cable.now);
    note(&watch.wire, (uint64_t)from << 32 | to);
    for (uint32_t i = 0; i < size; i++)
        note(&watch.wire, bytes[i]);
}

static bool status_of(const uint8_t *bytes, uint32_t size, struct lli_wire_status *status)
{
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;

    return lli_wire_get_header(bytes, size, &header, &body, &body_size) == LLI_WIRE_OK &&
           header.type == LLI_WIRE_STATUS && lli_wire_get_status(body, body_size, header.tag, status);
}

static uint32_t narrow(uint64_t value)
{
    return (uint32_t)lli_min(value, UINT32_MAX);
}

static void expect_report(struct ear *ear, uint32_t node, const struct lli_wire_status *status)
{
    const struct llm_bottleneck *last = &ear->expected.last;
    const struct lli_wire_limits want = {.limit = (uint8_t)last->limit,
                                         .time_ms = narrow(last->time_ns / CABLE_MS),
                                         .away_ms = narrow(last->away_ns / CABLE_MS),
                                         .away_us_max = narrow(last->away_ns_max / CABLE_US),
                                         .packets = narrow(last->packets),
                                         .missed = narrow(last->packets_missed),
                                         .dropped = narrow(last->packets_dropped)};
    const bool has = watch.on && ear->watches && last->time_ns != 0;
    const struct lli_wire_limits *is = &status->limits;

    ear->id = status->receiver;
    seen.reports += has;
    if (!(status->flags & LLI_WIRE_STATUS_LIMITED) == has ||
        status->dropped != (has ? (uint32_t)ear->dropped_ever : 0))
        cable_fail("node %u: its report has flags %x and %u drops, of %llu", node, status->flags,
                   status->dropped, (unsigned long long)ear->dropped_ever);
    if (has && (is->limit != want.limit || is->time_ms != want.time_ms || is->away_ms != want.away_ms ||
                is->away_us_max != want.away_us_max || is->packets != want.packets ||
                is->missed != want.missed || is->dropped != want.dropped))
        cable_fail("node %u: its report is not of its latest interval: limit %u, it is %u", node, is->limit,
                   want.limit);
}

static void watch_sent(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t size)
{
    struct lli_wire_status status;
    const bool reports = from > 0 && status_of(bytes, size, &status);

    if (reports)
        expect_report(ear_of(from), from, &status);
    if (from == 0 && (bytes[0] & 15) == LLI_WIRE_DATA && to == CABLE_GROUP && watch.known)
        watch.next += lli_load_u32(bytes + 8) == watch.next;
    watch_digest(from, to, bytes, size, reports ? &status : NULL);
}

/* Counts packets whose first transmission a receiver missed. */
static void watch_missed(struct ear *ear, uint32_t end)
{
    if (!ear->follows || (int32_t)(end - ear->end) <= 0)
        return;
    ear->expected.now.packets_missed += end - ear->end;
    ear->missed += end - ear->end;
    ear->end = end;
}

static void watch_took_heartbeat(struct ear *ear, const uint8_t *bytes, uint32_t size)
{
    struct lli_wire_header header;
    struct lli_wire_heartbeat heartbeat;
    const uint8_t *body;
    size_t body_size;

    if (lli_wire_get_header(bytes, size, &header, &body, &body_size) != LLI_WIRE_OK ||
        header.type != LLI_WIRE_HEARTBEAT || !lli_wire_get_heartbeat(body, body_size, &header, &heartbeat))
        return;
    if (!ear->follows) {
        ear->follows = true;
        ear->end = (uint32_t)heartbeat.lead;
    }
    if (!watch.known) {
        watch.known = true;
        watch.first = watch.next = (uint32_t)heartbeat.lead;
    }
    watch_missed(ear, (uint32_t)heartbeat.lead);
}

static void watch_took_report(const uint8_t *bytes, uint32_t size)
{
    struct lli_wire_status status;

    if (!status_of(bytes, size, &status))
        return;
    for (uint32_t i = 0; i < watch.ears_count; i++) {
        struct ear *ear = &watch.ears[i];

        if (ear->id != status.receiver)
            continue;
        ear->seen_dropped = status.dropped;
        if (!(status.flags & LLI_WIRE_STATUS_LIMITED))
            continue;
        ear->reports = true;
        ear->seen = status.limits;
    }
}

static void watch_took(uint32_t node, const uint8_t *bytes, uint32_t size)
{
    struct ear *ear;
    uint32_t seq;

    if (node == 0) {
        watch_took_report(bytes, size);
        return;
    }
    ear = ear_of(node);
    if ((bytes[0] & 15) != LLI_WIRE_DATA) {
        watch_took_heartbeat(ear, bytes, size);
        return;
    }
    ear->expected.now.packets++;
    seq = lli_load_u32(bytes + 8);
    watch_missed(ear, seq);
    if (seq == ear->end)
        ear->end++;
}

/* Bottleneck NETWORK: loses a share of the packets to a receiver for a while. */
static bool watch_loses(uint32_t to, const uint8_t *bytes, uint32_t size)
{
    struct ear *ear;

    (void)bytes;
    (void)size;
    if (to == 0)
        return false;
    ear = ear_of(to);
    return ear->part == PART_NETWORK && is_done(ear) && cable_chance(ear->away_from);
}

/* ---------------------------------------------------------------------------------------------- receivers */

static void on_message(void *arg, const struct llm_message *message)
{
    struct ear *ear = arg;
    uint64_t number;

    memcpy(&number, message->data, sizeof number);
    if (number != ear->received || message->number != number)
        cable_fail("node %u: message %llu, the next one is %llu", (unsigned)(ear - watch.ears) + 1,
                   (unsigned long long)number, (unsigned long long)ear->received);
    ear->received++;
    ear->handled++;
    ear->delivered++;
    note(&watch.deliveries, number ^ (uint64_t)(ear - watch.ears) << 56);
    note(&watch.deliveries, cable.now);
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct ear *ear = arg;

    if (event->kind == LLM_EVENT_LIMITED) {
        ear->events++;
        ear->event = event->bottleneck->limit;
        if (event->bottleneck->receiver != 0)
            cable_fail("node %u: its own bottleneck has the identity of a receiver",
                       (unsigned)(ear - watch.ears) + 1);
        return;
    }
    ear->delivered++;
    if (event->kind == LLM_EVENT_GAP || event->kind == LLM_EVENT_SESSION_END)
        cable_fail("node %u: %s", (unsigned)(ear - watch.ears) + 1, llm_event_name(event->kind));
}

static void ear_poll(struct ear *ear, uint32_t node)
{
    ear->delivered = ear->events = 0;
    cable_must(llm_poll(ear->context), "poll");
    if (watch.on && ear->watches)
        expect_polled(ear, node);
    else if (ear->events > 0)
        cable_fail("node %u: told of a limit without a watch", node);
}

/* Returns how long the application is away now; 0: it is not. */
static lli_ns ear_away(struct ear *ear)
{
    if (!is_done(ear) || ear->handled == 0)
        return 0;
    if (ear->part == PART_SLOW)
        return cable_between(ear->away_from, ear->away_to) * CABLE_MS;
    if (ear->part != PART_ABSENT || cable.now < ear->absent_at)
        return 0;
    ear->absent_at = cable.now + cable_between(2 * watch.interval / CABLE_MS + 150, 500) * CABLE_MS;
    return cable_between(60, 140) * CABLE_MS;
}

static void ear_turn(uint32_t node)
{
    struct ear *ear = ear_of(node);
    lli_ns away;

    ear->handled = 0;
    do {
        ear_poll(ear, node);
        away = ear_away(ear);
    } while (ear->delivered > 0 && away == 0);
    if (away == 0) {
        cable_sleep(node, ear->context, watch.nap);
        return;
    }
    cable.nodes[node].asleep = false;
    cable.nodes[node].turn_at = cable.now + away;
}

static void ear_open(struct ear *ear)
{
    const uint32_t node = cable_node_add();
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;

    llm_context_options_init(&options);
    options.watch_ns = watch.on && ear->watches ? watch.interval : 0;
    ear->context = cable_context(node, &options);
    ear->expected.polled_at = ear->expected.assessed_at = cable_node_now(node);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = ear;
    handlers.message = on_message;
    handlers.event = on_event;
    cable_must(llm_receiver_open(ear->context, WATCH_CHANNEL, NULL, &handlers, &ear->receiver), "a receiver");
    if (ear->part == PART_BUFFER || ear->part == PART_ABSENT)
        cable.nodes[node].inbox_max = WATCH_SMALL;
}

/* -------------------------------------------------------------------------------------------- transmitter */

static void on_tx_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_LIMITED) {
        watch.events++;
        watch.event = event->bottleneck->limit;
        return;
    }
    if (event->kind != LLM_EVENT_RECEIVER_LIMITED)
        return;
    for (uint32_t i = 0; i < watch.ears_count; i++) {
        struct ear *ear = &watch.ears[i];

        if (ear->id != event->bottleneck->receiver)
            continue;
        if (event->bottleneck->limit == ear->seen_told ||
            (uint8_t)event->bottleneck->limit != ear->seen.limit)
            cable_fail("node %u is said to be limited by %d, it reported %u, after %d", i + 1,
                       (int)event->bottleneck->limit, ear->seen.limit, (int)ear->seen_told);
        ear->seen_told = event->bottleneck->limit;
        return;
    }
    cable_fail("a receiver that is none is limited by %d", (int)event->bottleneck->limit);
}

/* Checks that the transmitter's view of a receiver is its latest report. */
static void expect_seen(const struct llm_congestion *is)
{
    for (uint32_t i = 0; i < watch.ears_count; i++) {
        const struct ear *ear = &watch.ears[i];

        if (ear->id != is->receiver)
            continue;
        if (is->reports != ear->reports || is->packets_dropped != ear->seen_dropped ||
            (is->reports &&
             (is->bottleneck.receiver != ear->id || is->bottleneck.limit != (enum llm_limit)ear->seen.limit ||
              is->bottleneck.time_ns != ear->seen.time_ms * CABLE_MS ||
              is->bottleneck.packets_missed != ear->seen.missed ||
              is->bottleneck.packets_dropped != ear->seen.dropped)))
            cable_fail("node %u reported limit %u, and %d is seen", i + 1, ear->seen.limit,
                       (int)is->bottleneck.limit);
        if (watch.on && watch.watches && ear->reports && (uint8_t)ear->seen_told != ear->seen.limit)
            cable_fail("node %u reported limit %u, and %d was told", i + 1, ear->seen.limit,
                       (int)ear->seen_told);
        return;
    }
    cable_fail("a receiver that is none is seen");
}

/* Returns true if the limit was imposed on the transmitter, now or recently. */
static bool is_held(void)
{
    return watch.holds != LLM_LIMIT_NONE && cable.now >= watch.from &&
           cable.now < watch.to + 2 * watch.interval;
}

static void expect_held(void)
{
    struct llm_bottleneck is;
    const lli_ns now = cable_node_now(0);
    const lli_ns passed = now - watch.assessed_at;

    if (passed < watch.interval) {
        if (watch.events > 0)
            cable_fail("the transmitter was told of a limit when nothing was judged");
        return;
    }
    cable_must(llm_transmitter_bottleneck(watch.transmitter, &is), "the transmitter's bottleneck");
    if (is.time_ns != passed)
        cable_fail("the transmitter was judged for %llu ns, %llu passed", (unsigned long long)is.time_ns,
                   (unsigned long long)passed);
    if (watch.held_at != LLI_NEVER) {
        const lli_ns until = lli_min(cable.now, watch.message_at);

        watch.held += until - lli_min(watch.held_at, until);
        watch.held_at = cable.now;
    }
    if (is.limit != LLM_LIMIT_NONE && (is.limit != watch.holds || !is_held()))
        cable_fail("the transmitter: limit %d is named, and was not done to it", (int)is.limit);
    if (watch.held > passed / 2 && is.limit != watch.holds)
        cable_fail("the transmitter was held for %llu of %llu ns by %d, and %d is named",
                   (unsigned long long)watch.held, (unsigned long long)passed, (int)watch.holds,
                   (int)is.limit);
    if (watch.events != (is.limit != watch.told) || (watch.events > 0 && watch.event != is.limit))
        cable_fail("the transmitter: limit %d after %d, and %u events", (int)is.limit, (int)watch.told,
                   watch.events);
    watch.told = is.limit;
    watch.named |= 1u << is.limit;
    watch.held = 0;
    watch.assessed_at = now;
    seen.record++;
    seen.by_limit[is.limit]++;
    seen.named += is.limit != LLM_LIMIT_NONE;
}

static void mouth_poll(void)
{
    struct llm_congestion receivers[WATCH_EARS_MAX + 1];
    int count;

    watch.events = 0;
    cable_must(llm_poll(watch.context), "poll");
    count = llm_transmitter_congestion(watch.transmitter, receivers, WATCH_EARS_MAX + 1);
    if (count > (int)watch.ears_count)
        cable_fail("%d receivers are seen, of %u", count, watch.ears_count);
    for (int i = 0; i < count; i++)
        expect_seen(&receivers[i]);
    if (watch.on && watch.watches)
        expect_held();
}

/* Sends one message: accepted, or refused and not sent again. */
static void mouth_say(void)
{
    uint8_t data[WATCH_MESSAGE_MAX] = {0};
    struct llm_topic *topic = watch.topics[watch.topics[1] != NULL && watch.sent % 4 != 0];
    int error;

    memcpy(data, &watch.sent, sizeof watch.sent);
    error = llm_send(topic, data, cable_between(8, sizeof data), LLM_SEND_NOW);
    if (error == LLM_OK) {
        watch.sent++;
        if (watch.held_at != LLI_NEVER)
            watch.held += cable.now - watch.held_at;
        watch.held_at = LLI_NEVER;
        return;
    }
    if (error != LLM_EAGAIN || watch.holds == LLM_LIMIT_NONE)
        cable_fail("a message is refused: %s", llm_error_text(error));
    watch.held_at = lli_min(watch.held_at, cable.now);
}

static void mouth_turn(void)
{
    if (cable.now >= watch.message_at && cable.now < watch.traffic) {
        const uint64_t count = watch.bursts && cable_chance(3) ? WATCH_BURST : 1;

        for (uint64_t i = 0; i < count; i++)
            mouth_say();
        watch.message_at = cable.now + cable_between(watch.gap / 2, watch.gap * 3 / 2);
    }
    mouth_poll();
    cable_sleep(0, watch.context,
                lli_min(watch.nap, watch.message_at > cable.now ? watch.message_at - cable.now : LLI_NEVER));
}

static void watch_turn(uint32_t node)
{
    if (node == 0)
        mouth_turn();
    else
        ear_turn(node);
}

static void mouth_open(void)
{
    const uint32_t node = cable_node_add();
    struct llm_context_options options;
    struct llm_transmitter_handlers handlers;
    struct llm_assurance assurance;
    char channel[512];

    llm_context_options_init(&options);
    options.watch_ns = watch.on && watch.watches ? watch.interval : 0;
    watch.context = cable_context(node, &options);
    watch.assessed_at = cable_node_now(node);
    (void)snprintf(
        channel, sizeof channel, "%s%s", WATCH_CHANNEL,
        watch.holds == LLM_LIMIT_WINDOW ? "&flow=window&flow_window_packets=64&flow_quorum_percent=100" : "");
    llm_transmitter_handlers_init(&handlers);
    handlers.event = on_tx_event;
    cable_must(llm_transmitter_open(watch.context, channel, NULL, &handlers, &watch.transmitter),
               "a transmitter");
    cable_must(llm_topic_open(watch.transmitter, "a", 0, &watch.topics[0]), "a topic");
    if (watch.holds != LLM_LIMIT_HISTORY)
        return;
    cable_must(llm_topic_open(watch.transmitter, "b", 0, &watch.topics[1]), "a topic");
    llm_assurance_init(&assurance);
    assurance.receivers = watch.ears_count + 1;
    assurance.messages_max = 8;
    cable_must(llm_topic_assure(watch.topics[1], &assurance), "an assured topic");
}

/* -------------------------------------------------------------------------------------------- the history */

static void ear_draw(struct ear *ear)
{
    static const enum part with_bursts[] = {PART_FINE, PART_SLOW, PART_BUFFER, PART_NETWORK};
    static const enum part without[] = {PART_FINE, PART_SLOW, PART_ABSENT, PART_NETWORK};

    *ear = (struct ear){.watches = cable_chance(85)};
    ear->part = watch.bursts ? with_bursts[cable_below(4)] : without[cable_below(4)];
    ear->from = cable.now + cable_between(30, 400) * CABLE_MS;
    ear->to = ear->from + cable_between(3 * watch.interval / CABLE_MS, 600) * CABLE_MS;
    ear->away_from = (uint32_t)cable_between(5, 20);
    ear->away_to = ear->away_from + (uint32_t)cable_below(10);
}

static void watch_draw(void)
{
    static const enum llm_limit holds[] = {LLM_LIMIT_WINDOW, LLM_LIMIT_RATE, LLM_LIMIT_HISTORY,
                                           LLM_LIMIT_TRANSPORT};

    watch.watches = cable_chance(85);
    watch.interval = cable_between(20, 150) * CABLE_MS;
    watch.nap = cable_between(200, 2000) * CABLE_US;
    watch.gap = cable_between(300, 1200) * CABLE_US;
    watch.bursts = cable_chance(40);
    watch.holds = cable_chance(50) ? LLM_LIMIT_NONE : holds[cable_below(4)];
    watch.from = cable.now + cable_between(50, 300) * CABLE_MS;
    watch.to = watch.from + cable_between(2 * watch.interval / CABLE_MS, 400) * CABLE_MS;
    if (watch.holds == LLM_LIMIT_HISTORY || watch.holds == LLM_LIMIT_WINDOW) {
        watch.from = 0;
        watch.to = LLI_NEVER / 2;
    }
    watch.message_at = cable.now + 20 * CABLE_MS;
    watch.traffic = cable.now + cable_between(600, 1200) * CABLE_MS;
    watch.held_at = LLI_NEVER;
    watch.ears_count = (uint32_t)cable_between(1, WATCH_EARS_MAX);
    for (uint32_t i = 0; i < watch.ears_count; i++)
        ear_draw(&watch.ears[i]);
}

/* Imposes or removes the transmitter's limit. */
static void watch_hold(bool on)
{
    struct llm_rate rate;

    cable_as(0);
    llm_rate_init(&rate);
    rate.bytes_per_s = on ? 65536 : 0;
    if (watch.holds == LLM_LIMIT_RATE)
        cable_must(llm_transmitter_limit_rate(watch.transmitter, &rate), "a rate");
    cable.nodes[0].blocked = on && watch.holds == LLM_LIMIT_TRANSPORT;
}

static void watch_check(void)
{
    for (uint32_t i = 0; i < watch.ears_count; i++) {
        const struct ear *ear = &watch.ears[i];
        const uint32_t named = ear->expected.named & ~1u;

        if (ear->received != watch.sent)
            cable_fail("node %u has %llu of %llu messages", i + 1, (unsigned long long)ear->received,
                       (unsigned long long)watch.sent);
        if (!watch.on || !ear->watches)
            continue;
        if (ear->missed > 0 && named == 0)
            cable_fail("node %u missed %llu packets, and nothing was ever named", i + 1,
                       (unsigned long long)ear->missed);
        if (ear->part == PART_SLOW && watch.holds == LLM_LIMIT_NONE && ear->to < watch.traffic &&
            ear->to - ear->from > 3 * watch.interval + 200 * CABLE_MS &&
            !(named >> LLM_LIMIT_APPLICATION & 1))
            cable_fail("node %u was slow, and nothing was ever named", i + 1);
        /* Then all missing packets were dropped by the host. */
        if (ear->part == PART_ABSENT && watch.holds == LLM_LIMIT_NONE && ear->missed > 0 &&
            cable.nodes[i + 1].dropped == cable.nodes[i + 1].dropped_away &&
            !(named >> LLM_LIMIT_APPLICATION & 1))
            cable_fail("node %u was absent, and that was never named", i + 1);
    }
}

static void watch_history(uint64_t seed, bool on)
{
    static const struct cable_test test = {
        .turn = watch_turn, .sent = watch_sent, .took = watch_took, .loses = watch_loses};

    cable_begin(seed, &test);
    memset(&watch, 0, sizeof watch);
    watch.on = on;
    watch_draw();
    mouth_open();
    for (uint32_t i = 0; i < watch.ears_count; i++)
        ear_open(&watch.ears[i]);
    if (watch.from < watch.traffic && watch.from > 0) {
        cable_run(watch.from);
        watch_hold(true);
        cable_run(watch.to);
        watch_hold(false);
    }
    cable_run(watch.traffic);
    cable_run(lli_max(cable.now, watch.traffic) + 1500 * CABLE_MS);
    watch_check();
    cable_end();
    for (uint32_t i = 0; i < watch.ears_count; i++) {
        cable_as(i + 1);
        (void)llm_context_close(&watch.ears[i].context);
    }
    cable_as(0);
    (void)llm_context_close(&watch.context);
    cable_fini();
}

void watch_run(uint64_t seed)
{
    uint64_t wire, deliveries;

    watch_history(seed, true);
    if (cable.verbose)
        for (uint32_t i = 0; i < watch.ears_count; i++)
            (void)printf("node %u: part %d, missed %llu, named %x\n", i + 1, (int)watch.ears[i].part,
                         (unsigned long long)watch.ears[i].missed, watch.ears[i].expected.named);
    /* With a rate limit, a bucket that is filled more often rounds differently: by a nanosecond. */
    if (seed % 3 != 0 || watch.holds == LLM_LIMIT_RATE)
        return;
    wire = watch.wire;
    deliveries = watch.deliveries;
    seen.twins++;
    watch_history(seed, false);
    if (wire != watch.wire || deliveries != watch.deliveries)
        cable_fail("without watches %s", wire != watch.wire ? "other packets go, or at other times"
                                                            : "messages come at other times");
}

void watch_print(void)
{
    (void)printf("%llu judgements, %llu of something, %llu reports, %llu histories again without watches\n",
                 (unsigned long long)seen.record, (unsigned long long)seen.named,
                 (unsigned long long)seen.reports, (unsigned long long)seen.twins);
    for (int i = 0; i <= LLM_LIMIT_TRANSPORT; i++)
        (void)printf("  %8llu of %s\n", (unsigned long long)seen.by_limit[i],
                     llm_limit_name((enum llm_limit)i));
}
