/* SPDX-License-Identifier: Apache-2.0 */
/* Delivery of the packets, gaps and names of a recording to the handlers of a replay. */
#include "store/replay_internal.h"

void lli_replay_begin(struct llm_replay *replay, uint64_t session)
{
    replay->session = session;
    lli_unpack_reset(&replay->unpack, 0);
    lli_topics_reset(&replay->topics);
    replay->topics_reported = 0;
    replay->unpacking = replay->begun = replay->over = replay->damaged = false;
    replay->oldest = replay->from = 0;
    replay->from_wall = replay->wall = 0;
    replay->assembled.size = 0;
    replay->passed.is_set = replay->refused.is_set = false;
}

/* ------------------------------------------------------------------------------------------------ events */

static struct llm_event replay_event(const struct llm_replay *replay, enum llm_event_kind kind)
{
    return (struct llm_event){.kind = kind, .session = replay->session};
}

static void replay_give_event(struct llm_replay *replay, const struct llm_event *event)
{
    char text[256];

    replay->delivered++;
    if (replay->handlers.event == NULL) {
        (void)llm_event_text(event, text, sizeof text);
        lli_log(&replay->log, event->kind == LLM_EVENT_GAP ? LLM_LEVEL_WARNING : LLM_LEVEL_INFO, "replay: %s",
                text);
        return;
    }
    replay->inside = true;
    replay->handlers.event(replay->handlers.arg, event);
    replay->inside = false;
}

static bool replay_accepts(struct llm_replay *replay, const char *topic)
{
    const struct llm_source source = {.session = replay->session, .topic = topic};
    bool accepted;

    if (replay->handlers.accept == NULL)
        return true;
    replay->inside = true;
    accepted = replay->handlers.accept(replay->handlers.arg, &source);
    replay->inside = false;
    return accepted;
}

/* Asks if a topic is accepted, and reports it. */
static void replay_report_topic(struct llm_replay *replay, uint32_t topic)
{
    struct llm_event event = replay_event(replay, LLM_EVENT_TOPIC_NEW);

    lli_topics_set(&replay->topics, topic, LLI_TOPICS_REPORTED);
    event.topic_id = topic;
    event.topic = lli_topics_name(&replay->topics, topic);
    if (replay_accepts(replay, event.topic))
        replay_give_event(replay, &event);
    else
        lli_topics_set(&replay->topics, topic, LLI_TOPICS_REFUSED);
}

/* Reports the session, before anything else of it, and the topics that are known by then. */
static void replay_report(struct llm_replay *replay, uint64_t first)
{
    struct llm_event event = replay_event(replay, LLM_EVENT_SESSION_NEW);

    if (replay->begun)
        return;
    replay->begun = true;
    event.first = first;
    replay_give_event(replay, &event);
    for (uint32_t topic = 0; topic < replay->topics_reported; topic++)
        if (*lli_topics_name(&replay->topics, topic) != '\0')
            replay_report_topic(replay, topic);
}

static void replay_topic(struct llm_replay *replay, uint32_t topic, const uint8_t *name, uint32_t size)
{
    if (!lli_topics_add(&replay->topics, topic, name, size))
        return;
    if (replay->begun)
        replay_report_topic(replay, topic);
    else
        replay->topics_reported = (uint32_t)lli_max(replay->topics_reported, topic + 1);
}

/* Number of the first message that is delivered, or reported as lost. */
static uint64_t replay_first(const struct llm_replay *replay)
{
    return lli_max(replay->from, replay->oldest);
}

/* Reports messages that are lost, as far as they are wanted. */
static void replay_give_gap(struct llm_replay *replay, uint64_t first, uint64_t end, uint64_t packets,
                            enum llm_reason reason)
{
    struct llm_event event = replay_event(replay, LLM_EVENT_GAP);

    if (first == end && packets == 0)
        return;
    if (end < replay_first(replay) || (end == replay_first(replay) && !replay->begun) ||
        first >= replay->options.until_number)
        return;
    event.reason = reason;
    event.first = lli_max(first, replay_first(replay));
    event.last = lli_min(end, replay->options.until_number) - 1;
    event.packets = packets;
    replay_report(replay, replay_first(replay));
    replay_give_event(replay, &event);
}

void lli_replay_end(struct llm_replay *replay, enum llm_reason reason)
{
    struct llm_event event = replay_event(replay, LLM_EVENT_SESSION_END);

    if (replay->over)
        return;
    replay->over = true;
    event.reason = reason;
    event.first = lli_min(replay->unpack.number - replay->unpack.assembling, replay->options.until_number);
    replay_report(replay, lli_max(event.first, replay->oldest));
    replay_give_event(replay, &event);
}

/* ---------------------------------------------------------------------------------------------- messages */

static bool replay_is_wanted(const struct llm_replay *replay, const struct llm_message *message)
{
    return message->number >= replay->from && message->number < replay->options.until_number &&
           !lli_topics_is_refused(&replay->topics, message->topic_id);
}

static void replay_call(struct llm_replay *replay)
{
    const struct llm_receiver_handlers *handlers = &replay->handlers;

    replay->inside = true;
    if (handlers->messages != NULL)
        handlers->messages(handlers->arg, replay->messages, (int)replay->count);
    else if (handlers->message != NULL)
        for (uint32_t i = 0; i < replay->count; i++)
            handlers->message(handlers->arg, replay->messages + i);
    replay->inside = false;
    replay->delivered += (int)replay->count;
}

/* Delivers the messages that were taken from the packet, as far as they are wanted. */
static void replay_give(struct llm_replay *replay)
{
    const uint32_t taken = replay->count;
    uint32_t wanted = 0;

    if (replay->messages[taken - 1].number >= replay->from &&
        replay->messages[0].number < replay->options.until_number)
        replay_report(replay, replay_first(replay));
    for (uint32_t i = 0; i < taken; i++) {
        if (!replay_is_wanted(replay, replay->messages + i))
            continue;
        replay->messages[wanted] = replay->messages[i];
        replay->frames[wanted++] = replay->frames[i];
    }
    replay->count = wanted;
    if (wanted > 0)
        replay_call(replay);
    replay->count = 0;
}

/* Returns the message behind a frame of attributes; without one, `at`. */
static const uint8_t *replay_after_attributes(const uint8_t *at, const uint8_t *end,
                                              struct lli_replay_frame *frame)
{
    const uint8_t *next;

    *frame = (struct lli_replay_frame){.size = 0};
    if (*at != LLI_FRAME_ATTRIBUTES || end - at < LLI_FRAME_HEAD)
        return at;
    next = at + LLI_FRAME_HEAD + lli_load_u16(at + 1);
    if (next >= end || !lli_frame_is_message(*next))
        return at;
    *frame = (struct lli_replay_frame){at + LLI_FRAME_HEAD, lli_load_u16(at + 1)};
    return next;
}

/*
 * Advances to the next message of the packet with its attributes, and returns where the message itself is.
 * NULL: something else comes, for lli_unpack_next().
 */
static const uint8_t *replay_find(struct lli_unpack *unpack, struct lli_replay_frame *attributes)
{
    while (unpack->at < unpack->end) {
        const uint8_t *header = replay_after_attributes(unpack->at, unpack->end, attributes);
        struct lli_frame frame;
        const uint8_t *next = lli_frame_get(header, unpack->end, &frame);

        if (frame.kind == LLI_FRAME_MESSAGE)
            return header;
        if (frame.kind == LLI_FRAME_TOPIC)
            unpack->topic = frame.value;
        else if (frame.kind != LLI_FRAME_SKIP)
            return NULL;
        unpack->at = next;
    }
    return NULL;
}

/* True if a message continues in the next packet. */
static bool replay_spans(const struct lli_unpack *unpack, const uint8_t *header)
{
    struct lli_frame frame;
    const uint8_t *bytes = lli_frame_get(header, unpack->end, &frame);

    return frame.value > (size_t)(unpack->end - bytes);
}

/* Copies the attributes of a message that spans packets, unless they are longer than this version sends. */
static void replay_keep_attributes(struct llm_replay *replay, const struct lli_replay_frame *frame)
{
    replay->assembled = (struct lli_replay_frame){.size = 0};
    if (frame->size == 0 || frame->size > sizeof replay->assembled_frame)
        return;
    memcpy(replay->assembled_frame, frame->bytes, frame->size);
    replay->assembled = (struct lli_replay_frame){replay->assembled_frame, frame->size};
}

/* Takes one message. */
static void replay_take_one(struct llm_replay *replay, const struct lli_replay_frame *frame)
{
    const struct llm_message like = {.session = replay->session, .received_at = replay->wall};
    struct llm_message *message = replay->messages + replay->count;

    if (lli_unpack_messages(&replay->unpack, &like, message, 1) == 0)
        return;
    message->topic = lli_topics_name(&replay->topics, message->topic_id);
    replay->frames[replay->count++] = *frame;
}

/* Takes the next message that lies in the packet, or notes that one starts that spans packets. */
static bool replay_take_next(struct llm_replay *replay)
{
    struct lli_unpack *unpack = &replay->unpack;
    struct lli_replay_frame frame;
    const uint8_t *header = replay_find(unpack, &frame);

    if (header == NULL)
        return false;
    if (replay_spans(unpack, header)) {
        /* lli_unpack_next() starts its reassembly, in a buffer that may have a message of this batch. */
        if (replay->count == 0) {
            replay_keep_attributes(replay, &frame);
            unpack->at = header;
        }
        return false;
    }
    unpack->at = header;
    replay_take_one(replay, &frame);
    return true;
}

/* Takes the next messages of the packet. False: something else comes. */
static bool replay_take(struct llm_replay *replay)
{
    const struct lli_unpack *unpack = &replay->unpack;

    while (replay->count < LLI_REPLAY_BATCH && !unpack->broken) {
        if (unpack->assembling) {
            if (unpack->have < unpack->total || unpack->too_long)
                break;
            replay_take_one(replay, &replay->assembled);
        } else if (!replay_take_next(replay)) {
            break;
        }
    }
    return replay->count > 0;
}

static void replay_unpack(struct llm_replay *replay)
{
    struct lli_unpacked next;

    do {
        while (replay_take(replay))
            replay_give(replay);
        lli_unpack_next(&replay->unpack, &next);
        if (next.kind == LLI_UNPACK_ANNOUNCE)
            replay_topic(replay, next.topic, next.data, next.size);
        else if (next.kind == LLI_UNPACK_LOST)
            replay_give_gap(replay, next.number, next.last + 1, 0, LLM_REASON_MALFORMED);
        else if (next.kind == LLI_UNPACK_SKIPPED)
            replay_give_gap(replay, next.number, next.last + 1, 0, LLM_REASON_SKIPPED);
        else if (next.kind == LLI_UNPACK_TOO_LONG)
            replay_give_gap(replay, next.number, next.number + 1, 0, LLM_REASON_TOO_LONG);
    } while (next.kind != LLI_UNPACK_NONE);
}

/* ----------------------------------------------------------------------------------------------- records */

/* The first packet or gap of the recording, or of the part that is read. */
static void replay_start(struct llm_replay *replay, uint64_t number)
{
    if (replay->unpacking)
        return;
    replay->unpacking = true;
    replay->oldest = number;
    lli_unpack_reset(&replay->unpack, number);
    lli_unpack_break(&replay->unpack);
}

/*
 * No key opens a packet. That is no reason to stop as long as messages before those that are wanted are read, which
 * the next packet shows.
 */
static void replay_pass(struct llm_replay *replay, const struct lli_record *record,
                        const struct lli_unopened *unopened)
{
    if (record->message >= replay->from)
        replay->refused = *unopened;
    else
        replay->passed = *unopened;
    lli_unpack_reset(&replay->unpack, record->message);
    lli_unpack_break(&replay->unpack);
}

/* True if the packet that was passed by has messages that are wanted, if the next record begins with this one. */
static bool replay_is_refused(struct llm_replay *replay, uint64_t next)
{
    if (replay->passed.is_set && next > replay->from)
        replay->refused = replay->passed;
    replay->passed.is_set = false;
    return replay->refused.is_set;
}

static void replay_packet(struct llm_replay *replay, const struct lli_record *record)
{
    struct lli_unopened unopened;
    struct lli_wire_header header;
    const uint8_t *packet, *body;
    uint32_t packet_size;
    size_t size;

    if (replay_is_refused(replay, record->message))
        return;
    replay_start(replay, record->message);
    if (!lli_cursor_packet(replay->cursor, record, &packet, &packet_size, &unopened)) {
        replay_pass(replay, record, &unopened);
        return;
    }
    if (lli_wire_get_header(packet, packet_size, &header, &body, &size) != LLI_WIRE_OK ||
        header.type != LLI_WIRE_DATA)
        return;
    lli_unpack_begin(&replay->unpack, &header, body, size);
    replay_unpack(replay);
}

static void replay_gap(struct llm_replay *replay, const struct lli_record *gap)
{
    struct lli_unpack *unpack = &replay->unpack;
    struct lli_unpacked lost;

    if (replay_is_refused(replay, gap->message))
        return;
    replay_start(replay, gap->message);
    if (!unpack->broken)
        lli_unpack_break(unpack);
    (void)lli_unpack_lost_before(unpack, lli_max(gap->message_next, unpack->number), &lost);
    /* The next packet may begin with the rest of a message that is lost. */
    lli_unpack_break(unpack);
    replay_give_gap(replay, lost.number, lost.last + 1, gap->next - gap->packet,
                    (enum llm_reason)gap->reason);
}

/* The session ended: what is missing up to there was never in a packet. */
static void replay_ended(struct llm_replay *replay, const struct lli_record *end)
{
    struct lli_unpacked lost;

    if (replay_is_refused(replay, end->message))
        return;
    replay_start(replay, end->message);
    if (replay->unpack.assembling || replay->unpack.number < end->message) {
        if (!replay->unpack.broken)
            lli_unpack_break(&replay->unpack);
        (void)lli_unpack_lost_before(&replay->unpack, lli_max(end->message, replay->unpack.number), &lost);
        replay_give_gap(replay, lost.number, lost.last + 1, 0, LLM_REASON_MALFORMED);
    }
    lli_replay_end(replay, (enum llm_reason)end->reason);
}

/* True if nothing from a record on is wanted. */
static bool replay_is_past(const struct llm_replay *replay, const struct lli_record *record)
{
    if (record->kind == LLI_RECORD_END && record->message <= replay->options.until_number)
        return false;
    return replay->wall >= replay->options.until_realtime ||
           (replay->unpacking &&
            replay->unpack.number - replay->unpack.assembling >= replay->options.until_number);
}

/* A block that was received at the time from which on messages are wanted. */
static void replay_note_time(struct llm_replay *replay, const struct lli_record *record)
{
    if (replay->from == UINT64_MAX && replay->wall >= replay->from_wall && !lli_record_is_name(record))
        replay->from = replay->unpacking && !replay->passed.is_set
                           ? replay->unpack.number - replay->unpack.assembling
                           : record->message;
}

/* A topic's name. Without it its messages are delivered all the same. */
static void replay_name(struct llm_replay *replay, const struct lli_record *record)
{
    struct lli_unopened unopened;
    const uint8_t *name;
    uint32_t size;

    if (lli_cursor_packet(replay->cursor, record, &name, &size, &unopened)) {
        replay_topic(replay, record->topic, name, size);
        return;
    }
    if (!replay->nameless)
        lli_log(
            &replay->log, LLM_LEVEL_WARNING,
            "store %s: session %016llx: names of topics are protected by a key of epoch %u, which the key "
            "file does not have: messages come without them",
            replay->catalogue->directory, (unsigned long long)replay->session, unopened.epoch);
    replay->nameless = true;
}

void lli_replay_record(struct llm_replay *replay, const struct lli_record *record,
                       const struct lli_block *block)
{
    replay->wall = block->wall;
    replay_note_time(replay, record);
    if (replay_is_past(replay, record)) {
        lli_replay_end(replay, LLM_REASON_NONE);
        return;
    }
    switch (record->kind) {
    case LLI_RECORD_PACKET:
        replay_packet(replay, record);
        break;
    case LLI_RECORD_GAP:
        replay_gap(replay, record);
        break;
    case LLI_RECORD_NAME:
    case LLI_RECORD_HIDDEN_NAME:
        replay_name(replay, record);
        break;
    case LLI_RECORD_END:
        replay_ended(replay, record);
        break;
    }
}
