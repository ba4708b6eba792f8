/* SPDX-License-Identifier: Apache-2.0 */
/* A session that is recorded: from the receiver's packets to writes, and back to acknowledgements. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/rx/former.h"
#include "engine/endpoint.h"
#include "security/guard.h"
#include "store/store.h"

/* Bytes of an earlier recording that are searched for losses: what is before them is not acknowledged again. */
#define RECORDED_REACH ((uint64_t)16 << 20)

static struct llm_store *recorded_store(const struct lli_recorded *recorded)
{
    return recorded->channel->store;
}

static const struct lli_log *recorded_log(const struct lli_recorded *recorded)
{
    return &recorded_store(recorded)->context->log;
}

struct lli_rx *lli_recorded_rx(const struct lli_recorded *recorded)
{
    struct lli_rx *rx = recorded->rx;

    return rx->session == recorded->session && (rx->state == LLI_RX_LIVE || rx->state == LLI_RX_ENDED) ? rx
                                                                                                       : NULL;
}

/* --------------------------------------------------------------------------------------------------- begin */

static int recorded_map(struct lli_recorded *recorded)
{
    const struct llm_store *store = recorded_store(recorded);
    /* Writes from huge pages are faster (docs/performance.md). */
    const struct lli_memory_policy policy = {
        .huge_pages = store->context->options.huge_pages, .populate = true, .numa_node = -1};
    int error = lli_memory_map(&recorded->memory, LLI_RECORDER_MEMORY, &policy, recorded_log(recorded));

    if (error != LLM_OK)
        return error;
    recorded->buffer = lli_disk_buffer_add(store->disk, recorded->memory.base, recorded->memory.size);
    return recorded->buffer < 0 ? recorded->buffer : LLM_OK;
}

/* Returns a free place in the table of the store, which it enlarges; UINT32_MAX: there is none. */
static uint32_t recorded_place(struct llm_store *store)
{
    for (uint32_t i = 0; i < store->sessions_used; i++)
        if (store->sessions[i] == NULL)
            return i;
    return store->sessions_used < LLI_STORE_SESSIONS_MAX ? store->sessions_used++ : UINT32_MAX;
}

static struct lli_recorded *recorded_new(struct lli_store_channel *channel, struct lli_rx *rx)
{
    struct llm_store *store = channel->store;
    struct lli_recorded *recorded = calloc(1, sizeof *recorded);
    const uint32_t place = recorded == NULL ? UINT32_MAX : recorded_place(store);

    if (place == UINT32_MAX) {
        free(recorded);
        return NULL;
    }
    recorded->channel = channel;
    recorded->session = rx->session;
    recorded->place = place;
    recorded->rx = rx;
    recorded->buffer = -1;
    recorded->segment = (struct lli_recorded_segment){.supply = {.fd = -1, .index_fd = -1}, .file = -1};
    recorded->next.fd = recorded->next.index_fd = -1;
    store->sessions[place] = recorded;
    store->sessions_recorded++;
    if (recorded_map(recorded) != LLM_OK) {
        lli_recorded_free(recorded);
        return NULL;
    }
    return recorded;
}

static struct lli_recorded **recorded_slot(struct lli_store_channel *channel, const struct lli_rx *rx)
{
    return &channel->by_place[rx - channel->receiver->sessions];
}

static void recorded_segment_close(struct lli_recorded *recorded)
{
    struct lli_recorded_segment *segment = &recorded->segment;

    if (segment->file >= 0 && !recorded_store(recorded)->context->orphaned)
        lli_disk_file_remove(recorded_store(recorded)->disk, segment->file);
    lli_pool_segment_close(&segment->supply);
    segment->file = -1;
}

/* Gives back the segment that was to follow. */
static void recorded_return(struct lli_recorded *recorded)
{
    struct lli_pool_segment *next = &recorded->next;

    if (next->fd < 0)
        return;
    lli_pool_segment_close(next);
    /* In a child process it is the parent's. */
    if (!recorded_store(recorded)->context->orphaned)
        (void)lli_pool_retire(recorded_store(recorded)->pool, next->session, next->ordinal, true);
}

void lli_recorded_free(struct lli_recorded *recorded)
{
    struct llm_store *store = recorded_store(recorded);

    recorded_segment_close(recorded);
    recorded_return(recorded);
    /* In a child process the engine is the parent's, and the receiver is gone. */
    if (!store->context->orphaned) {
        if (recorded->buffer >= 0)
            lli_disk_buffer_remove(store->disk, recorded->buffer);
        if (*recorded_slot(recorded->channel, recorded->rx) == recorded)
            *recorded_slot(recorded->channel, recorded->rx) = NULL;
    }
    lli_memory_unmap(&recorded->memory);
    store->sessions[recorded->place] = NULL;
    store->sessions_recorded--;
    free(recorded->names);
    free(recorded);
}

static void recorded_init(struct lli_recorded *recorded, const struct lli_block_position *position,
                          uint64_t ordinal)
{
    const struct llm_store *store = recorded_store(recorded);
    struct lli_segment segment = {
        .first = *position,
        .ordinal = ordinal,
        .start = recorded->rx->heartbeat.start,
        .size = store->options.segment_bytes,
        .stream = {.id = recorded->rx->heartbeat.stream,
                   .base = recorded->rx->heartbeat.base,
                   .term = recorded->rx->heartbeat.term},
    };

    memcpy(segment.channel, recorded->channel->text, sizeof segment.channel);
    lli_recorder_init(&recorded->recorder, &segment, recorded->memory.base);
    recorded->begun = true;
}

/* Looks up what an earlier run of the store recorded. False: nothing that can be continued. */
static bool recorded_recover(struct lli_recorded *recorded)
{
    const struct llm_store *store = recorded_store(recorded);
    const struct lli_recording *recording = lli_catalogue_find(store->catalogue, recorded->session);
    struct lli_cursor *cursor = NULL;
    int error;

    if (recording == NULL)
        return false;
    error = lli_cursor_open(store->catalogue, recording, recorded_log(recorded), &cursor);
    if (error == LLM_OK)
        error = lli_cursor_recover(cursor, RECORDED_REACH, &recorded->found);
    if (error == LLM_OK && recorded->found.unopened.is_set) {
        (void)lli_cursor_refuse(cursor, &recorded->found.unopened);
        lli_log(recorded_log(recorded), LLM_LEVEL_WARNING,
                "%s: session %016llx: recording goes on; messages of such packets at its end are not "
                "acknowledged",
                store->object, (unsigned long long)recorded->session);
    }
    lli_cursor_close(&cursor);
    return error == LLM_OK;
}

/* Continues a recording where it ends, and the session with the messages that are not complete there. */
static bool recorded_continue(struct lli_recorded *recorded, struct lli_rx *rx, lli_ns now)
{
    const struct lli_recording_end *found = &recorded->found;
    const struct lli_former_session former = {.session = recorded->session,
                                              .next = found->resume,
                                              .number = found->delivered,
                                              .acknowledged_from = found->run_from,
                                              .acknowledged = found->delivered,
                                              .reason = LLM_REASON_TIMEOUT};

    if (!lli_rx_continue(rx, &former, now))
        return false;
    recorded->acknowledged = found->delivered;
    recorded->over = found->ended;
    recorded->resumes = found->resume < found->next.packet;
    if (!found->ended) {
        recorded_init(recorded, &found->next, found->ordinal);
        recorded->recorder.delivered = found->delivered;
    }
    return true;
}

static void recorded_stop(struct lli_recorded *recorded, int error, const char *file);

/* The session is recorded already: by this channel, where the end of its blocks is awaited, or by another. */
static void recorded_twice(const struct lli_recorded *recorded, const struct lli_store_channel *channel,
                           struct lli_rx *rx)
{
    lli_rx_refuse(rx);
    if (recorded->channel == channel) {
        /* It is followed again when it is heard again. */
        lli_rx_stop(rx);
        return;
    }
    lli_log(recorded_log(recorded), LLM_LEVEL_WARNING,
            "%s: session %016llx comes by two channels and is recorded once: follow one of them; recorded: "
            "\"%s\"",
            channel->store->object, (unsigned long long)recorded->session, recorded->channel->text);
}

static bool tap_begin(void *arg, struct lli_rx *rx, lli_ns now)
{
    struct lli_store_channel *channel = arg;
    struct lli_recorded *recorded = lli_store_recorded(channel->store, rx->session);

    if (recorded != NULL) {
        recorded_twice(recorded, channel, rx);
        return true;
    }
    recorded = recorded_new(channel, rx);
    if (recorded == NULL) {
        lli_log(&channel->store->context->log, LLM_LEVEL_ERROR,
                "%s: session %016llx is not recorded: no memory for it, or more than %d sessions at a time",
                channel->store->object, (unsigned long long)rx->session, LLI_STORE_SESSIONS_MAX);
        channel->store->counters.store_sessions_stopped++;
        lli_rx_refuse(rx);
        return true;
    }
    recorded->settled_at = now;
    *recorded_slot(channel, rx) = recorded;
    return recorded_recover(recorded) && recorded_continue(recorded, rx, now);
}

/* ------------------------------------------------------------------------------------------------- packets */

/* Names of topics as they are recorded: a size byte and the name with its flags, 0: not known. */
static size_t recorded_name(const struct lli_topics *topics, uint32_t id, uint8_t *name)
{
    const char *text = lli_topics_name(topics, id);
    size_t size = strlen(text);

    memcpy(name, text, size);
    if (size > 0 && lli_topics_is_transient(topics, id)) {
        name[size++] = 0;
        name[size++] = LLI_WIRE_TOPIC_TRANSIENT;
    }
    return size;
}

/* Copies the names of a session that ends, for a segment that may still be begun. */
static void recorded_keep_names(struct lli_recorded *recorded, const struct lli_topics *topics)
{
    uint8_t name[LLI_WIRE_NAME_MAX + LLI_WIRE_NAME_FLAGS];
    uint8_t *at;

    if (recorded->names != NULL || !recorded->begun)
        return;
    /* A size byte, and up to two bytes of flags, in addition to the zero of each. */
    recorded->names = at = malloc(topics->text_used + 3 * (size_t)topics->known + 1);
    if (at == NULL) {
        recorded_stop(recorded, ENOMEM, "");
        return;
    }
    for (uint32_t id = 0; id < topics->known; id++) {
        const size_t size = recorded_name(topics, id, name);

        *at++ = (uint8_t)size;
        memcpy(at, name, size);
        at += size;
        recorded->names_count++;
    }
}

/*
 * Stalls or releases the session as the recorder has room. True: it was released. While it is stalled, polls are brief, so
 * that the next write is submitted soon after one has ended.
 */
static bool recorded_pace(struct lli_recorded *recorded, struct lli_rx *rx)
{
    const bool stalled = !recorded->stopped && recorded->begun && !lli_recorder_has_room(&recorded->recorder);

    if (stalled)
        lli_endpoint_be_brief(recorded->channel->receiver->endpoint);
    if (stalled == recorded->stalled)
        return false;
    recorded_store(recorded)->counters.store_stalls += stalled;
    recorded->stalled = stalled;
    lli_rx_stall(rx, stalled);
    return !stalled;
}

static bool recorded_add_gap(struct lli_recorded *recorded, lli_seq next, uint64_t message,
                             uint64_t message_next, enum llm_reason reason)
{
    const struct lli_record gap = {
        .next = next, .message = message, .message_next = message_next, .reason = (uint8_t)reason};

    recorded_store(recorded)->counters.store_gaps++;
    return lli_recorder_add_gap(&recorded->recorder, &gap, message_next);
}

static bool recorded_add(struct lli_recorded *recorded, const struct lli_rx_recorded *packet)
{
    struct lli_recorder *recorder = &recorded->recorder;

    if (packet->seq > recorder->end.packet &&
        !recorded_add_gap(recorded, packet->seq, packet->message, packet->message_next, packet->reason))
        return false;
    return lli_recorder_add_packet(recorder, packet->bytes, packet->size, packet->message);
}

static void recorded_write(struct lli_recorded *recorded, lli_ns now);

/* A block is full: packets that waited come one after another for milliseconds, in which the disk would be idle. */
static void recorded_filled(struct lli_recorded *recorded)
{
    lli_store_take_completions(recorded_store(recorded));
    recorded_write(recorded, lli_clock_ns());
}

static void tap_packet(void *arg, struct lli_rx *rx, const struct lli_rx_recorded *packet)
{
    struct lli_store_channel *channel = arg;
    struct lli_recorded *recorded = *recorded_slot(channel, rx);
    struct lli_store_counters *counters = &channel->store->counters;
    uint32_t full;

    if (recorded == NULL || recorded->stopped) {
        counters->store_packets_unrecorded++;
        return;
    }
    if (!recorded->begun)
        recorded_init(recorded,
                      &(struct lli_block_position){
                          .session = recorded->session, .packet = packet->first, .message = packet->message},
                      0);
    else
        lli_recorder_complete(&recorded->recorder, packet->message);
    /* Read again from the recording itself, for a message that was not complete at its end. */
    if (packet->seq < recorded->recorder.end.packet)
        return;
    full = lli_recorder_waiting(&recorded->recorder);
    if (!recorded_add(recorded, packet)) {
        recorded_stop(recorded, ENOBUFS, "");
        return;
    }
    counters->store_packets++;
    counters->store_bytes += packet->size;
    if (lli_recorder_waiting(&recorded->recorder) > full)
        recorded_filled(recorded);
    (void)recorded_pace(recorded, rx);
}

static void recorded_lost(struct lli_recorded *recorded, const struct lli_rx *rx,
                          const struct llm_event *event)
{
    if (rx->gap.next > recorded->recorder.end.packet &&
        !recorded_add_gap(recorded, rx->gap.next, event->first, event->last + 1, event->reason))
        recorded_stop(recorded, ENOBUFS, "");
}

static void recorded_end(struct lli_recorded *recorded, const struct lli_rx *rx,
                         const struct llm_event *event)
{
    recorded_keep_names(recorded, &rx->topics);
    recorded->over = true;
    if (!recorded->begun || recorded->stopped)
        return;
    lli_recorder_complete(&recorded->recorder, event->first);
    /* Any other end is this receiver's: the session may go on, and its recording too. */
    if (event->reason == LLM_REASON_CLOSED &&
        !lli_recorder_add_end(&recorded->recorder, event->first, (uint8_t)event->reason))
        recorded_stop(recorded, ENOBUFS, "");
}

static void tap_event(void *arg, struct lli_rx *rx, const struct llm_event *event)
{
    struct lli_recorded *recorded = *recorded_slot(arg, rx);

    if (recorded == NULL)
        return;
    if (event->kind == LLM_EVENT_SESSION_END && !recorded->over)
        recorded_end(recorded, rx, event);
    else if (event->kind == LLM_EVENT_GAP && recorded->begun && !recorded->stopped)
        recorded_lost(recorded, rx, event);
}

static bool tap_request(void *arg, const struct lli_rx_packet *packet, lli_ns now)
{
    return lli_answering_request(arg, packet, now);
}

const struct lli_tap lli_recorded_tap = {
    .begin = tap_begin, .packet = tap_packet, .request = tap_request, .event = tap_event};

/* --------------------------------------------------------------------------------------------------- stop */

/* Stops for good: what is not durable is not acknowledged. */
static void recorded_stop(struct lli_recorded *recorded, int error, const char *file)
{
    struct llm_store *store = recorded_store(recorded);
    struct lli_rx *rx = lli_recorded_rx(recorded);
    const struct llm_event event = {
        .kind = LLM_EVENT_STORE_STOPPED,
        .reason = error == ENOSPC || error == EDQUOT ? LLM_REASON_DISK_FULL : LLM_REASON_DISK,
        .session = recorded->session,
        .first = recorded->recorder.delivered,
        .file = file,
        .error = error,
    };

    if (recorded->stopped)
        return;
    recorded->stopped = true;
    recorded->error = error;
    store->counters.store_sessions_stopped++;
    if (rx != NULL) {
        (void)recorded_pace(recorded, rx);
        lli_rx_set_incomplete(rx);
    }
    lli_store_report(store, &event);
}

/* -------------------------------------------------------------------------------------------------- index */

/* The index is a hint: if it cannot be written, reading takes longer. */
static void index_flush(struct lli_recorded *recorded)
{
    struct lli_recorded_segment *segment = &recorded->segment;

    if (segment->indexed == 0)
        return;
    if (segment->supply.index_fd >= 0)
        (void)!pwrite(segment->supply.index_fd, segment->index, segment->indexed * LLI_INDEX_ENTRY,
                      (off_t)(segment->index_at * LLI_INDEX_ENTRY));
    segment->index_at += segment->indexed;
    segment->indexed = 0;
}

/* Adds an entry for a block that is being written, if one is due. */
static void index_add(struct lli_recorded *recorded, const struct lli_write *write)
{
    struct lli_recorded_segment *segment = &recorded->segment;
    const bool first = segment->index_at + segment->indexed == 0;
    struct lli_block block;

    if (lli_block_get(write->bytes, write->size, &block) != LLI_BLOCK_OK ||
        !lli_index_wants(first ? NULL : &segment->latest, &block, write->offset))
        return;
    if (first)
        lli_catalogue_number(recorded_store(recorded)->catalogue, recorded->session, segment->supply.ordinal,
                             block.message);
    segment->latest = (struct lli_index_entry){
        .packet = block.packet, .message = block.message, .wall = block.wall, .offset = write->offset};
    lli_index_put(segment->index + segment->indexed * LLI_INDEX_ENTRY, &segment->latest);
    if (++segment->indexed == LLI_STORE_INDEX_MAX)
        index_flush(recorded);
}

/* ------------------------------------------------------------------------------------------------- writes */

/* The header of a segment comes next: the pool has to have supplied the file. */
static void recorded_want(struct lli_recorded *recorded)
{
    index_flush(recorded);
    recorded_segment_close(recorded);
    recorded->segment = (struct lli_recorded_segment){
        .supply = {.ordinal = recorded->write.ordinal, .fd = -1, .index_fd = -1}, .file = -1, .wanted = true};
}

/* Begins the segment that is wanted in the file that was supplied. */
static void recorded_use(struct lli_recorded *recorded)
{
    struct llm_store *store = recorded_store(recorded);
    struct lli_recorded_segment *segment = &recorded->segment;

    assert(recorded->next.ordinal == segment->supply.ordinal);
    segment->supply = recorded->next;
    recorded->next.fd = recorded->next.index_fd = -1;
    segment->file = lli_disk_file_add(store->disk, segment->supply.fd);
    segment->wanted = false;
    if (segment->file >= 0)
        store->counters.store_segments_begun++;
    else
        recorded_stop(recorded, EMFILE, segment->supply.name);
}

void lli_recorded_take(struct lli_recorded *recorded, const struct lli_pool_segment *supply)
{
    struct llm_store *store = recorded_store(recorded);

    recorded->requested = false;
    if (supply->error == 0)
        recorded->next = *supply;
    else if ((supply->error == ENOSPC || supply->error == EDQUOT) &&
             store->options.full == LLM_STORE_OLDEST && lli_retention_make_room(store))
        recorded->segment.asked_next = false;
    else if (recorded->segment.wanted)
        recorded_stop(recorded, supply->error, supply->name);
}

static bool recorded_request(const struct lli_recorded *recorded, uint64_t ordinal)
{
    const struct llm_store *store = recorded_store(recorded);

    return lli_pool_request(store->pool, recorded->session, ordinal, lli_retention_is_reached(store));
}

/*
 * Asks for the segment that follows when half of this one is full: its directory takes milliseconds to be on the disk where a
 * journal is written. A session that ends before takes no space for it.
 */
static void recorded_ask_next(struct lli_recorded *recorded)
{
    struct lli_recorded_segment *segment = &recorded->segment;
    const struct lli_recorder *recorder = &recorded->recorder;

    if (!segment->asked_next && !segment->wanted && !recorded->over && !recorded->stopped &&
        recorder->offset > recorder->segment.size / 2)
        segment->asked_next = recorded->requested = recorded_request(recorded, recorder->ordinal);
}

/* Hands the next write to the engine. False: the segment or the engine has no place for it yet. */
static bool recorded_issue(struct lli_recorded *recorded)
{
    struct llm_store *store = recorded_store(recorded);
    struct lli_recorded_segment *segment = &recorded->segment;
    const struct lli_write *write = &recorded->write;

    if (segment->wanted && recorded->next.fd >= 0)
        recorded_use(recorded);
    if (segment->wanted) {
        recorded->requested = recorded->requested || recorded_request(recorded, segment->supply.ordinal);
        return false;
    }
    if (recorded->stopped)
        return false;
    if (!lli_disk_write(store->disk, &(struct lli_disk_write){
                                         .file = segment->file,
                                         .buffer = recorded->buffer,
                                         .bytes = write->bytes,
                                         .size = write->size,
                                         .offset = write->offset,
                                         .tag = (uint64_t)recorded->place << 8 | write->id,
                                     }))
        return false;
    store->counters.store_blocks++;
    store->counters.store_block_bytes += write->size;
    if (write->offset > 0)
        index_add(recorded, write);
    recorded->has_write = false;
    return true;
}

/* Adds the name of a topic to the segment, hidden if its channel encrypts. False: a block of them has to be written first. */
static bool recorded_add_name(struct lli_recorded *recorded, uint32_t topic, const uint8_t *name, size_t size)
{
    struct lli_guard *guard = recorded->channel->receiver->endpoint->guard;
    struct lli_record record = {
        .kind = LLI_RECORD_NAME, .topic = topic, .data = name, .size = (uint32_t)size};
    uint8_t packet[LLI_PROTECT_NAME_MAX];

    if (size == 0)
        return true;
    if (guard != NULL && lli_guard_encrypts(guard)) {
        record.kind = LLI_RECORD_HIDDEN_NAME;
        record.data = packet;
        record.size = lli_protect_name(packet, recorded->session, topic, name, size);
        record.size = lli_guard_name(guard, recorded->session, topic, packet, record.size);
    }
    return record.size == 0 || lli_recorder_add_name(&recorded->recorder, &record);
}

/* Adds the names of all topics to the segment. False: a block of them has to be written first. */
static bool recorded_add_names(struct lli_recorded *recorded)
{
    const struct lli_rx *rx = lli_recorded_rx(recorded);
    const uint8_t *at = recorded->names;
    uint8_t name[LLI_WIRE_NAME_MAX + LLI_WIRE_NAME_FLAGS];

    for (uint32_t id = 0; recorded->names != NULL && id < recorded->names_count; id++, at += 1 + *at)
        if (!recorded_add_name(recorded, id, at + 1, *at))
            return false;
    for (uint32_t id = 0; recorded->names == NULL && rx != NULL && id < rx->topics.known; id++) {
        if (!recorded_add_name(recorded, id, name, recorded_name(&rx->topics, id, name)))
            return false;
    }
    return true;
}

static void recorded_write(struct lli_recorded *recorded, lli_ns now)
{
    struct llm_store *store = recorded_store(recorded);
    struct lli_recorder *recorder = &recorded->recorder;
    uint64_t bytes = store->counters.store_block_bytes;

    while (!recorded->stopped && (!recorded->has_write || recorded_issue(recorded))) {
        if (recorder->phase == LLI_RECORDER_NAMES && recorder->names.state == LLI_SLOT_EMPTY &&
            recorded_add_names(recorded))
            lli_recorder_names_end(recorder);
        recorded->has_write = lli_recorder_next(recorder, lli_clock_real_ns(), now, &recorded->write);
        if (!recorded->has_write)
            break;
        if (recorded->write.offset == 0)
            recorded_want(recorded);
    }
    recorded_ask_next(recorded);
    lli_disk_submit(store->disk);
    bytes = store->counters.store_block_bytes - bytes;
    if (bytes > 0 || lli_recorder_is_behind(recorder))
        lli_pool_recorded(store->pool, bytes, lli_recorder_is_behind(recorder));
    if (recorder->phase == LLI_RECORDER_STOPPED)
        recorded_stop(recorded, recorded->error == 0 ? ENOSPC : recorded->error,
                      recorded->segment.supply.name);
}

void lli_recorded_written(struct lli_recorded *recorded, uint32_t id, int error)
{
    struct llm_store *store = recorded_store(recorded);
    struct lli_recorder *recorder = &recorded->recorder;
    const bool heading = recorder->heading;

    if (error != 0) {
        recorded->error = error;
        store->counters.store_write_failures++;
        lli_catalogue_fail(store->catalogue, recorded->session, recorded->segment.supply.ordinal);
        lli_log(recorded_log(recorded), LLM_LEVEL_ERROR,
                "%s: writing %s/%s failed: %s; what is not on the disk goes to another segment",
                store->object, store->directory, recorded->segment.supply.name, strerror(error));
    }
    lli_recorder_written(recorder, id, error == 0);
    if (!heading || recorder->heading || error != 0)
        return;
    if (lli_catalogue_add(store->catalogue, &recorder->segment) != LLM_OK)
        recorded_stop(recorded, ENOMEM, recorded->segment.supply.name);
    /* At once: one that is removed becomes the spare for the next, which need not be written first. */
    store->retention_at = 0;
}

/* ------------------------------------------------------------------------------------------------ service */

bool lli_recorded_is_settled(const struct lli_recorded *recorded)
{
    const struct lli_recorder *recorder = &recorded->recorder;

    if (!recorded->begun)
        return true;
    /* A write that waits for its place counts as under way in the recorder. */
    return recorded->stopped ? recorder->flying == (recorded->has_write ? 1u : 0u)
                             : lli_recorder_is_settled(recorder);
}

bool lli_recorded_may_end(const struct lli_recorded *recorded)
{
    return lli_recorded_is_settled(recorded) && !recorded->requested;
}

/* Acknowledges what has reached the level of the store, in the poll in which it does. */
static void recorded_acknowledge(struct lli_recorded *recorded, struct lli_rx *rx, lli_ns now)
{
    const uint64_t received = lli_rx_delivered(rx);
    const uint64_t reached = recorded_store(recorded)->options.level == LLM_STORE_RECEIVED
                                 ? received
                                 : lli_min(recorded->recorder.delivered, received);

    if (recorded->stopped || reached <= recorded->acknowledged)
        return;
    recorded->acknowledged = reached;
    if (lli_rx_acknowledge(rx, reached - 1, now))
        lli_endpoint_due(recorded->channel->receiver->endpoint, lli_rx_deadline(rx));
}

/* Bytes of an opened packet with the recorded one behind it. */
enum { RECORDED_WHOLE = 2 * (UINT16_MAX + 1) };

/* Gives the session a packet that was recorded by an earlier run. False: it cannot be opened. */
static bool recorded_give(struct lli_recorded *recorded, struct lli_cursor *cursor,
                          const struct lli_record *record, uint8_t whole[RECORDED_WHOLE], lli_ns now)
{
    struct lli_rx_packet packet = {.bytes = whole};
    struct lli_unopened unopened;
    const uint8_t *clear;
    uint32_t size;

    if (!lli_cursor_packet(cursor, record, &clear, &size, &unopened))
        return false;
    memcpy(whole, clear, size);
    memcpy(whole + size, record->data, record->size);
    packet.size = size;
    if (lli_wire_get_base(whole, size, &packet.header, &packet.body, &packet.body_size) == LLI_WIRE_OK)
        (void)lli_sessions_input(recorded->channel->receiver, true, &packet, now);
    return true;
}

/* Gives the session the packets from found.resume on, which were recorded by an earlier run. */
static void recorded_resume(struct lli_recorded *recorded, struct lli_rx *rx, lli_ns now)
{
    const struct llm_store *store = recorded_store(recorded);
    const struct lli_recording *recording = lli_catalogue_find(store->catalogue, recorded->session);
    struct lli_cursor *cursor = NULL;
    const struct lli_block *block;
    struct lli_record record;
    uint8_t *whole = recording == NULL ? NULL : malloc(RECORDED_WHOLE);

    recorded->resumes = false;
    if (whole == NULL ||
        lli_cursor_open(store->catalogue, recording, recorded_log(recorded), &cursor) != LLM_OK) {
        free(whole);
        return;
    }
    if (lli_cursor_seek(cursor, LLI_INDEX_PACKET, recorded->found.resume) == LLM_OK)
        while (rx->gap.next < recorded->found.next.packet && lli_cursor_next(cursor, &record, &block) == 1)
            if (record.kind == LLI_RECORD_PACKET && record.packet >= rx->gap.next &&
                !recorded_give(recorded, cursor, &record, whole, now))
                break;
    lli_cursor_close(&cursor);
    free(whole);
}

/* True if the receiver has let the session go without an event: before it knew where it begins. */
static bool recorded_is_gone(const struct lli_recorded *recorded)
{
    const struct lli_rx *rx = recorded->rx;

    return rx->session != recorded->session ||
           (rx->state != LLI_RX_REQUESTING && rx->state != LLI_RX_LIVE && rx->state != LLI_RX_ENDED);
}

bool lli_recorded_service(struct lli_recorded *recorded, lli_ns now)
{
    struct lli_rx *rx = lli_recorded_rx(recorded);

    recorded->over = recorded->over || recorded_is_gone(recorded);
    if (recorded->resumes && rx != NULL)
        recorded_resume(recorded, rx, now);
    if (recorded->begun) {
        if (rx != NULL && !recorded->over)
            lli_recorder_complete(&recorded->recorder,
                                  lli_max(lli_rx_delivered(rx), recorded->recorder.delivered));
        if (!lli_recorder_is_settled(&recorded->recorder))
            recorded_write(recorded, now);
        if (rx != NULL) {
            recorded_acknowledge(recorded, rx, now);
            if (recorded_pace(recorded, rx))
                lli_sessions_go_on(recorded->channel->receiver, rx, now);
        }
    }
    if (!lli_recorded_is_settled(recorded))
        return true;
    recorded->settled_at = now;
    if (!lli_recorded_may_end(recorded) || !recorded->over)
        return true;
    index_flush(recorded);
    return false;
}
