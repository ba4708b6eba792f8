/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that a receiver follows: found by tag, created and dropped, and their messages delivered to the
 * handlers.
 */
#include "engine/objects.h"
#include "core/rx/rx_single.h"

/* --------------------------------------------------------------------------------------------- deliver */

static void sessions_log_event(const struct llm_receiver *receiver, const struct llm_event *event)
{
    enum llm_level level = event->kind == LLM_EVENT_GAP || event->kind == LLM_EVENT_CACHE_LOST ||
                                   event->kind == LLM_EVENT_HEARTBEAT_LOST ||
                                   event->kind == LLM_EVENT_LINE_DOWN ||
                                   (event->stream != 0 && event->kind != LLM_EVENT_SESSION_NEW)
                               ? LLM_LEVEL_WARNING
                               : LLM_LEVEL_INFO;

    if (event->stream != 0 || event->kind == LLM_EVENT_LINE_DOWN || event->kind == LLM_EVENT_LINE_UP) {
        char text[256];

        (void)llm_event_text(event, text, sizeof text);
        lli_log(&receiver->context->log, level, "%s", text);
    } else if (event->kind == LLM_EVENT_GAP)
        lli_log(&receiver->context->log, level, "session %016llx: messages %llu to %llu lost: %s",
                (unsigned long long)event->session, (unsigned long long)event->first,
                (unsigned long long)event->last, llm_reason_name(event->reason));
    else if (event->verdict != NULL)
        lli_log(
            &receiver->context->log, event->kind == LLM_EVENT_READMITTED ? LLM_LEVEL_INFO : LLM_LEVEL_WARNING,
            "session %016llx: this receiver is %s: %llu %s, limit %llu", (unsigned long long)event->session,
            llm_event_name(event->kind), (unsigned long long)event->verdict->value,
            llm_threshold_name(event->verdict->threshold), (unsigned long long)event->verdict->limit);
    else if (event->bottleneck != NULL)
        lli_watched_log(receiver->context, receiver->object, event->bottleneck);
    else
        lli_log(&receiver->context->log, level, "session %016llx: %s %s", (unsigned long long)event->session,
                llm_event_name(event->kind), event->topic == NULL ? "" : event->topic);
}

void lli_sessions_report(struct llm_receiver *receiver, const struct llm_event *event)
{
    if (receiver->handlers.event != NULL)
        receiver->handlers.event(receiver->handlers.arg, event);
    else
        sessions_log_event(receiver, event);
}

/* Asks the accept predicate; topic NULL: for the session as a whole. */
static bool sessions_accepts(const struct llm_receiver *receiver, uint64_t session, const char *topic)
{
    const struct llm_source source = {.session = session, .topic = topic};

    return receiver->handlers.accept == NULL || receiver->handlers.accept(receiver->handlers.arg, &source);
}

/* Returns true if the event was reported to the application. */
static bool sessions_event(struct llm_receiver *receiver, struct lli_rx *rx, const struct llm_event *event)
{
    if (receiver->tap != NULL)
        receiver->tap->event(receiver->tap_arg, rx, event);
    /* A session with a join handler was accepted before. */
    if (event->kind == LLM_EVENT_SESSION_NEW && !rx->join.chosen &&
        !sessions_accepts(receiver, event->session, NULL)) {
        lli_rx_refuse(rx);
        return false;
    }
    lli_sessions_report(receiver, event);
    /* A session that fell silent, unlike one that was closed, may be heard again: as a new one. */
    if (event->kind == LLM_EVENT_SESSION_END && event->reason == LLM_REASON_TIMEOUT)
        lli_rx_stop(rx);
    return true;
}

static inline void sessions_messages(struct llm_receiver *receiver, const struct llm_message *messages,
                                     int count)
{
    const struct llm_receiver_handlers *handlers = &receiver->handlers;

    receiver->context->delivered += count;
    if (handlers->messages != NULL)
        handlers->messages(handlers->arg, messages, count);
    else if (handlers->message != NULL)
        for (int i = 0; i < count; i++)
            handlers->message(handlers->arg, &messages[i]);
}

/* Asks the application if it accepts a session, and where to begin. */
static void sessions_join(struct llm_receiver *receiver, struct lli_rx *rx, uint64_t session, lli_ns now)
{
    struct llm_join join = receiver->join;

    if (receiver->tap != NULL && receiver->tap->begin(receiver->tap_arg, rx, now))
        return;
    if (!sessions_accepts(receiver, session, NULL)) {
        lli_rx_refuse(rx);
        return;
    }
    if (receiver->handlers.join != NULL)
        receiver->handlers.join(receiver->handlers.arg, session, &join);
    if ((unsigned)join.mode > LLM_JOIN_LATEST) {
        lli_log(&receiver->context->log, LLM_LEVEL_ERROR,
                "%s: session %016llx: join mode %u does not exist: as the options say", receiver->object,
                (unsigned long long)session, (unsigned)join.mode);
        join = receiver->join;
    }
    if (join.mode == LLM_JOIN_LATEST && receiver->config.seal_state != NULL) {
        lli_log(&receiver->context->log, LLM_LEVEL_ERROR,
                "%s: session %016llx: join mode latest: cached messages are not sealed, and option seal_hold "
                "is 1: "
                "it begins with live messages",
                receiver->object, (unsigned long long)session);
        join.mode = LLM_JOIN_LIVE;
    }
    /* On the wire 0 asks for all of them. */
    if (join.mode == LLM_JOIN_LATEST && join.value == 0)
        join.mode = LLM_JOIN_LIVE;
    else if (join.mode == LLM_JOIN_LATEST && join.value == LLM_JOIN_ALL)
        join.value = 0;
    lli_rx_begin(rx, &join, now);
}

/* Decides about a topic: it was announced, or the subscriptions changed. */
static void sessions_topic(struct llm_receiver *receiver, struct lli_rx *rx, const struct llm_event *event)
{
    if (!lli_rx_topic_subscribe(rx, event->topic_id, lli_subjects_match(&receiver->subjects, event->topic)))
        return;
    if (!sessions_accepts(receiver, event->session, event->topic)) {
        lli_rx_topic_refuse(rx, event->topic_id);
        return;
    }
    lli_sessions_report(receiver, event);
    receiver->context->delivered++;
}

/* Handles items other than messages. */
static LLI_OUT_OF_LINE void sessions_other(struct llm_receiver *receiver, struct lli_rx *rx,
                                           const struct lli_item *item, lli_ns now)
{
    if (item->kind == LLI_ITEM_PACKET)
        receiver->tap->packet(receiver->tap_arg, rx, &item->packet);
    else if (item->kind == LLI_ITEM_TOPIC)
        sessions_topic(receiver, rx, &item->event);
    else if (item->kind == LLI_ITEM_EVENT)
        receiver->context->delivered += sessions_event(receiver, rx, &item->event);
    else
        sessions_join(receiver, rx, item->event.session, now);
}

/* Joins the group to send to it, once. False: that failed, which the transport has logged. */
static LLI_OUT_OF_LINE bool sessions_may_send(struct llm_receiver *receiver)
{
    const struct lli_endpoint *endpoint = receiver->endpoint;
    struct lli_group group, second;

    if (receiver->sends || receiver->send_failed)
        return receiver->sends;
    lli_channel_group(receiver->channel, &group, &second);
    group.shared = second.shared = true;
    receiver->sends =
        endpoint->transport->join(endpoint->instance, &group, LLI_JOIN_SEND, &receiver->send_group) == LLM_OK;
    receiver->send_failed = !receiver->sends;
    return receiver->sends;
}

void lli_sessions_post(struct llm_receiver *receiver, const struct lli_packet *packet)
{
    if (packet->to != NULL || sessions_may_send(receiver))
        lli_endpoint_post_control(receiver->endpoint, packet, receiver->send_group);
}

enum {
    SESSIONS_RUN = 8,       /* buffered packets delivered in a row between two looks at the clock */
    SESSIONS_REFUSED = 100, /* messages of topics not wanted after which outlines are asked for */
};

/*
 * Sends a report if it has become due since the delivery began: a run of packets that were buffered after a
 * gap may take the application longer than the transmitter waits for reports. Returns the time.
 */
static LLI_OUT_OF_LINE lli_ns sessions_report_meanwhile(struct llm_receiver *receiver, struct lli_rx *rx)
{
    const lli_ns now = lli_clock_ns();
    struct lli_packet packet;
    uint8_t *buffer;

    rx->buffer.run = 0;
    if ((buffer = lli_endpoint_scratch(receiver->endpoint)) != NULL &&
        lli_rx_control_meanwhile(rx, now, buffer, &packet)) {
        lli_sessions_post(receiver, &packet);
        lli_endpoint_flush(receiver->endpoint);
    }
    return now;
}

static void sessions_deliver(struct llm_receiver *receiver, struct lli_rx *rx, lli_ns now)
{
    struct lli_item item;

    receiver->context->in_handler = true;
    while (lli_rx_next(rx, now, &item)) {
        if (item.kind == LLI_ITEM_MESSAGES)
            sessions_messages(receiver, item.messages, item.count);
        else
            sessions_other(receiver, rx, &item, now);
        if (rx->buffer.run >= SESSIONS_RUN)
            now = lli_max(now, sessions_report_meanwhile(receiver, rx));
    }
    receiver->context->in_handler = false;
}

/* -------------------------------------------------------------------------------------------- sessions */

/* Hints that a tag may have: those of others may take some of them. */
enum { SESSIONS_PROBES = 8 };

static bool sessions_has_tag(const struct lli_rx *rx, uint32_t tag)
{
    return rx->tag == tag && rx->state != LLI_RX_FREE;
}

/* Notes the place of a session, in place of a hint that is out of date if there is one. */
static void sessions_hint(struct llm_receiver *receiver, const struct lli_rx *rx)
{
    uint32_t *hint = &receiver->hints[rx->tag & receiver->hints_mask];

    for (uint32_t i = 0; i < SESSIONS_PROBES; i++) {
        const uint32_t at = (rx->tag + i) & receiver->hints_mask;
        const struct lli_rx *other = &receiver->sessions[receiver->hints[at]];

        if (other->state == LLI_RX_FREE || ((at - other->tag) & receiver->hints_mask) >= SESSIONS_PROBES) {
            hint = &receiver->hints[at];
            break;
        }
    }
    *hint = (uint32_t)(rx - receiver->sessions);
}

/* Finds a session by its tag: mostly by a hint, as a search takes long with many sessions. */
static LLI_INLINE struct lli_rx *sessions_find(struct llm_receiver *receiver, uint32_t tag)
{
    if (receiver->latest != NULL && sessions_has_tag(receiver->latest, tag))
        return receiver->latest;
    for (uint32_t i = 0; i < SESSIONS_PROBES; i++) {
        struct lli_rx *rx = &receiver->sessions[receiver->hints[(tag + i) & receiver->hints_mask]];

        if (sessions_has_tag(rx, tag))
            return receiver->latest = rx;
    }
    for (uint32_t i = 0; i < receiver->sessions_used; i++) {
        if (!sessions_has_tag(&receiver->sessions[i], tag))
            continue;
        sessions_hint(receiver, &receiver->sessions[i]);
        return receiver->latest = &receiver->sessions[i];
    }
    return NULL;
}

/*
 * Returns true if session a is to be dropped rather than b: one that is over, else the one heard less
 * recently.
 */
static bool sessions_is_staler(const struct lli_rx *a, const struct lli_rx *b)
{
    bool over_a = !lli_rx_is_followed(a), over_b = !lli_rx_is_followed(b);

    if (over_a != over_b)
        return over_a;
    return a->heard_at < b->heard_at;
}

static void sessions_replace(struct llm_receiver *receiver, struct lli_rx *rx)
{
    if (rx->state == LLI_RX_LIVE) {
        const struct llm_event event = {
            .kind = LLM_EVENT_SESSION_END,
            .reason = LLM_REASON_REPLACED,
            .session = rx->session,
            .first = lli_rx_delivered(rx),
        };

        receiver->context->in_handler = true;
        if (receiver->tap != NULL)
            receiver->tap->event(receiver->tap_arg, rx, &event);
        lli_sessions_report(receiver, &event);
        receiver->context->in_handler = false;
        receiver->context->delivered++;
        receiver->counters.sessions_ended++;
    }
    lli_rx_replace(rx);
}

/*
 * Finds the session to drop in favour of one that sends data, among sessions that are heard; NULL: all have
 * sent data. Thus forged sessions, which cost a heartbeat each, do not keep out a genuine one, and idle
 * genuine ones do not displace each other.
 */
static struct lli_rx *sessions_idlest(struct llm_receiver *receiver)
{
    struct lli_rx *idlest = NULL;

    for (uint32_t i = 0; i < receiver->sessions_used; i++)
        if (!lli_rx_has_data(&receiver->sessions[i]) &&
            (idlest == NULL || receiver->sessions[i].heard_at < idlest->heard_at))
            idlest = &receiver->sessions[i];
    return idlest;
}

/* Finds a place for a new session. NULL: all are in use by sessions that are heard. */
static struct lli_rx *sessions_place(struct llm_receiver *receiver, bool data, lli_ns now)
{
    struct lli_rx *stalest = NULL;

    for (uint32_t i = 0; i < receiver->sessions_used; i++) {
        struct lli_rx *rx = &receiver->sessions[i];

        if (rx->state == LLI_RX_FREE)
            return rx;
        /* A session that sends data will be confirmed by its heartbeat soon. */
        if (!data && rx->state == LLI_RX_JOINING && now < rx->heard_at + receiver->config.silence)
            continue;
        if (stalest == NULL || sessions_is_staler(rx, stalest))
            stalest = rx;
    }
    if (receiver->sessions_used < receiver->sessions_max)
        return &receiver->sessions[receiver->sessions_used++];
    if (stalest != NULL && lli_rx_is_followed(stalest) && !stalest->heard.silent)
        stalest = data ? sessions_idlest(receiver) : NULL;
    if (stalest == NULL)
        return NULL;
    sessions_replace(receiver, stalest);
    return stalest;
}

static struct lli_rx *sessions_new(struct llm_receiver *receiver, const struct lli_wire_header *header,
                                   lli_ns now)
{
    struct lli_rx *rx = sessions_place(receiver, header->type == LLI_WIRE_DATA, now);

    if (rx == NULL) {
        receiver->counters.sessions_dropped++;
        if (!receiver->warned_full)
            lli_log(&receiver->context->log, LLM_LEVEL_WARNING,
                    "%s: more than sessions_max=%u sessions at a time, the "
                    "others are not followed until one ends; raise it",
                    receiver->object, receiver->sessions_max);
        receiver->warned_full = true;
        return NULL;
    }
    lli_rx_start(rx, header->tag, now);
    return receiver->latest = rx;
}

/*
 * Makes the endpoint due if a packet changed the session's deadlines. Most packets have messages in order and
 * do not.
 */
static inline void sessions_service_due(const struct llm_receiver *receiver, struct lli_rx *rx)
{
    if (lli_rx_take_service(rx))
        lli_endpoint_due(receiver->endpoint, 0);
}

/* Logs, once for each session, why the transmitter gives this receiver less service than others. */
static void sessions_log_crowd(const struct llm_receiver *receiver, struct lli_rx *rx)
{
    const unsigned news = lli_rx_take_crowded(rx);

    if (news & 1u << LLI_WIRE_JOIN_FULL)
        lli_log(&receiver->context->log, LLM_LEVEL_WARNING,
                "%s: session %016llx: its transmitter knows %llu receivers and no more: it "
                "does not wait for this one, nor count its acknowledgements; raise receivers_max there",
                receiver->object, (unsigned long long)rx->session, (unsigned long long)rx->standing.crowd);
    if (news & 1u << LLI_WIRE_JOIN_BUSY)
        lli_log(&receiver->context->log, LLM_LEVEL_WARNING,
                "%s: session %016llx: %llu receivers are being sent the past, which takes "
                "long; raise replay_bytes_per_s at the transmitter, or join at another time",
                receiver->object, (unsigned long long)rx->session, (unsigned long long)rx->standing.crowd);
}

/* Decides about a session that may continue a stream, after the session that it continues was ended. */
static LLI_OUT_OF_LINE void sessions_stream(struct llm_receiver *receiver, struct lli_rx *rx, lli_ns now)
{
    struct llm_event event;
    struct lli_rx *before;

    if (!lli_rx_stream_ask(rx, receiver->sessions, receiver->sessions_used, &before, &event)) {
        receiver->context->in_handler = true;
        if (event.kind != 0)
            lli_sessions_report(receiver, &event);
        receiver->context->in_handler = false;
        receiver->context->delivered += event.kind != 0;
        return;
    }
    if (before != NULL) {
        sessions_deliver(receiver, before, now);
        lli_rx_settle(before);
        sessions_service_due(receiver, before);
    }
    lli_rx_stream_begin(rx, now);
    sessions_deliver(receiver, rx, now);
}

/* Takes a packet other than DATA. */
static LLI_OUT_OF_LINE bool sessions_input_control(struct llm_receiver *receiver, struct lli_rx *rx,
                                                   const struct lli_rx_packet *packet, lli_ns now)
{
    if (lli_rx_input(rx, packet, now))
        sessions_deliver(receiver, rx, now);
    if (receiver->tap != NULL)
        (void)receiver->tap->request(receiver->tap_arg, packet, now);
    if (lli_rx_asks_stream(rx))
        sessions_stream(receiver, rx, now);
    lli_rx_settle(rx);
    if (rx->standing.crowded != rx->standing.crowded_reported)
        sessions_log_crowd(receiver, rx);
    sessions_service_due(receiver, rx);
    return true;
}

bool lli_sessions_input(struct llm_receiver *receiver, bool group, const struct lli_rx_packet *packet,
                        lli_ns now)
{
    const struct lli_wire_header *header = &packet->header;
    struct lli_rx *rx = sessions_find(receiver, header->tag);

    if (rx == NULL) {
        if (receiver->tap != NULL && receiver->tap->request(receiver->tap_arg, packet, now))
            return true;
        /* Only packets sent to the group create sessions. */
        if (!group || (header->type != LLI_WIRE_DATA && header->type != LLI_WIRE_HEARTBEAT))
            return false;
        rx = sessions_new(receiver, header, now);
        if (rx == NULL)
            return true;
    }
    if (header->type != LLI_WIRE_DATA)
        return sessions_input_control(receiver, rx, packet, now);
    if (lli_rx_input(rx, packet, now))
        sessions_deliver(receiver, rx, now);
    sessions_service_due(receiver, rx);
    return true;
}

uint32_t lli_sessions_excerpt(struct llm_receiver *receiver, const struct lli_in *in,
                              struct lli_piece *pieces)
{
    struct lli_rx *rx = sessions_find(receiver, lli_load_u32(in->data + LLI_WIRE_TAG_AT));
    const uint32_t runs = in->outline->size / (uint32_t)sizeof(struct lli_outline_run);

    if (rx == NULL || runs > LLI_OUTLINE_RUNS_MAX)
        return 0;
    return lli_rx_excerpt(rx, in->data, in->size, (const void *)in->outline->bytes, runs, pieces);
}

void lli_sessions_input_excerpt(struct llm_receiver *receiver, const struct lli_in *in,
                                const struct lli_piece *pieces, lli_ns now)
{
    struct lli_rx *rx = receiver->latest;

    if (lli_rx_input_excerpt(rx, in->data, in->size, in->stamp_ns, pieces, now))
        sessions_deliver(receiver, rx, now);
    sessions_service_due(receiver, rx);
}

static LLI_INLINE bool sessions_single(struct lli_endpoint *endpoint, const struct lli_in *in, bool alone,
                                       lli_ns now)
{
    struct llm_context *context = endpoint->context;
    struct llm_receiver *receiver = endpoint->receivers;
    struct llm_message message;
    struct lli_rx *rx;

    if (receiver == NULL || receiver->next != NULL || receiver->group != in->from)
        return false;
    /* A packet alone is mostly of the latest session; those of a burst are often of several. */
    rx = alone ? receiver->latest : sessions_find(receiver, lli_load_u32(in->data + LLI_WIRE_TAG_AT));
    if (rx == NULL || !lli_rx_single(rx, in->data, in->size, in->stamp_ns, now, &message))
        return false;
    context->in_handler = true;
    context->in_single = alone;
    sessions_messages(receiver, &message, 1);
    context->in_handler = context->in_single = false;
    if (!rx->pending.plain && !lli_rx_is_idle(rx))
        sessions_deliver(receiver, rx, now);
    sessions_service_due(receiver, rx);
    return true;
}

bool lli_sessions_single(struct lli_endpoint *endpoint, const struct lli_in *in, lli_ns now)
{
    return sessions_single(endpoint, in, true, now);
}

bool lli_sessions_single_of_burst(struct lli_endpoint *endpoint, const struct lli_in *in, lli_ns now)
{
    return sessions_single(endpoint, in, false, now);
}

/* Notes a packet of a line in the session of a receiver. False: the session has to take it. */
static bool sessions_line(struct llm_receiver *receiver, const struct lli_in *in, int line, lli_ns now)
{
    struct lli_rx *rx = sessions_find(receiver, lli_load_u32(in->data + LLI_WIRE_TAG_AT));
    bool second;

    if (rx == NULL || rx->state != LLI_RX_LIVE)
        return false;
    second = lli_rx_line_data(rx, line, lli_load_u32(in->data + 8), now);
    if (rx->lines->measured != LLI_NEVER)
        lli_histogram_add(line == 0 ? &receiver->lines->line_1_skew_ns : &receiver->lines->line_2_skew_ns,
                          rx->lines->measured, 1);
    if (second)
        sessions_service_due(receiver, rx);
    return second;
}

bool lli_sessions_second(struct lli_endpoint *endpoint, const struct lli_in *in, int line, lli_ns now)
{
    bool second = false, first = false;

    if (in->from == LLI_HANDLE_UNICAST || in->size < LLI_WIRE_DATA_HEADER ||
        in->data[0] != (LLI_WIRE_VERSION << 4 | LLI_WIRE_DATA) ||
        lli_load_u16(in->data + LLI_WIRE_SIZE_AT) != in->size)
        return false;
    for (struct llm_receiver *receiver = endpoint->receivers; receiver != NULL; receiver = receiver->next) {
        if (receiver->group != in->from)
            continue;
        if (sessions_line(receiver, in, line, now))
            second = true;
        else
            first = true;
    }
    return second && !first;
}

void lli_sessions_go_on(struct llm_receiver *receiver, struct lli_rx *rx, lli_ns now)
{
    sessions_deliver(receiver, rx, now);
    sessions_service_due(receiver, rx);
}

void lli_sessions_resume(struct llm_receiver *receiver, uint64_t session, lli_ns now)
{
    for (uint32_t i = 0; i < receiver->sessions_max; i++)
        if (receiver->sessions[i].state == LLI_RX_LIVE && receiver->sessions[i].session == session)
            lli_sessions_go_on(receiver, &receiver->sessions[i], now);
}

/* -------------------------------------------------------------------------------------------- service */

/* Sends and delivers what is due for a session. Returns when the next is due. */
static lli_ns sessions_service(struct llm_receiver *receiver, struct lli_rx *rx, lli_ns now)
{
    struct lli_endpoint *endpoint = receiver->endpoint;
    lli_ns at = lli_rx_deadline(rx);
    struct lli_packet packet;
    uint8_t *buffer;

    if (now < at)
        return at;
    /* May cost a system call, so ask only for a session that would be reported silent, or ended. */
    receiver->config.unread = lli_rx_is_quiet(rx, now) && lli_endpoint_is_unread(endpoint);
    while ((buffer = lli_endpoint_scratch(endpoint)) != NULL && lli_rx_control(rx, now, buffer, &packet))
        lli_sessions_post(receiver, &packet);
    sessions_deliver(receiver, rx, now);
    lli_rx_settle(rx);
    return lli_rx_deadline(rx);
}

/*
 * Returns true if a session can be freed: no heartbeat confirmed it, or its identity need not be remembered
 * any more.
 */
static bool sessions_is_over(const struct llm_receiver *receiver, const struct lli_rx *rx, lli_ns now)
{
    return (rx->state == LLI_RX_JOINING &&
            now >= lli_max(rx->heard_at, rx->heard.away_at) + receiver->config.timeout) ||
           lli_rx_may_return(rx, now);
}

/* Excludes time without polls from the sessions' time-outs: their packets may have waited unread. */
static void sessions_away(struct llm_receiver *receiver, lli_ns now)
{
    const bool away = receiver->serviced_at != 0 && now - receiver->serviced_at > receiver->config.silence;

    receiver->serviced_at = now;
    for (uint32_t i = 0; away && i < receiver->sessions_used; i++)
        lli_rx_away(&receiver->sessions[i], now);
}

/* Warns once of a full reorder buffer, which costs repairs. */
static void sessions_warn(struct llm_receiver *receiver)
{
    if (receiver->warned_memory || receiver->counters.reorder_full == 0)
        return;
    receiver->warned_memory = true;
    lli_log(&receiver->context->log, LLM_LEVEL_WARNING,
            "%s: the reorder buffer of %llu bytes is full of packets received after gaps: each further early "
            "packet is dropped and requested again; raise reorder_bytes",
            receiver->object, (unsigned long long)receiver->reorder.count * LLI_REORDER_CHUNK);
}

/* Asks for outlines once many messages came that are not wanted. */
static void sessions_ask(struct llm_receiver *receiver)
{
    if (receiver->counters.messages_refused >= SESSIONS_REFUSED)
        lli_endpoint_ask_outlines(receiver->endpoint);
}

lli_ns lli_sessions_service(struct llm_receiver *receiver, lli_ns now)
{
    lli_ns at = LLI_NEVER;

    sessions_warn(receiver);
    sessions_ask(receiver);
    sessions_away(receiver, now);
    for (uint32_t i = 0; i < receiver->sessions_used; i++) {
        struct lli_rx *rx = &receiver->sessions[i];

        if (rx->state != LLI_RX_LIVE && sessions_is_over(receiver, rx, now))
            lli_rx_stop(rx);
        at = lli_min(at, sessions_service(receiver, rx, now));
    }
    return at;
}
