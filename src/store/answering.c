/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of a store to receivers that lack a part of a session (docs/protocol.md section 12.5): looks up
 * positions, reads recorded packets and posts them. What is answered, and when, is decided in the core
 * (recording/answers.h).
 */
#include "security/guard.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

enum {
    ANSWERING_MAX = 64,      /* recordings that are answered for at a time */
    ANSWERING_SLOTS = 64,    /* packets that the transport has not sent yet */
    ANSWERING_PASSED = 4096, /* packets of ended epochs that are passed by in a turn, likewise */
    ANSWERING_TURN = 64,     /* packets that are read in a turn, so that recording goes on meanwhile */
    ANSWERING_NEAR = 512,    /* packets that a reader passes by, rather than that another one is moved */
};

/* A recording that nothing is recorded to, and nobody asks for, is closed after this time. */
#define ANSWERING_IDLE ((lli_ns)60000000000)

#define ANSWERING_FAR UINT64_MAX

/* Sessions that are announced within a second. */
enum { ANSWERING_ADVERTS = 64 };

struct lli_answering {
    struct lli_answering *next;
    struct lli_store_channel *channel;
    uint64_t session;
    struct lli_answers answers;
    uint8_t *memory;
    struct lli_answering_reader own;     /* finds places too */
    struct lli_answering_reader *reader; /* of the packet that is due */
    lli_seq limit;                       /* of its readers: what is durable */
    lli_seq first;                       /* of the recording ... */
    uint64_t first_number;               /* ... and its first message */
    bool live;                           /* it is being recorded */
    lli_ns used_at;
};

/* --------------------------------------------------------------------------------------------------- slots */

int lli_answering_open(struct lli_store_channel *channel)
{
    const struct lli_endpoint *endpoint = channel->receiver->endpoint;
    const size_t more = endpoint->guard != NULL ? LLI_PROTECT_DATA : 0;
    const size_t size = lli_round_up(endpoint->caps.payload_max + more, 64);
    const struct lli_memory_policy policy = {.numa_node = -1};
    int error = lli_memory_map(&channel->slots, ANSWERING_SLOTS * size, &policy, &endpoint->context->log);

    if (error != LLM_OK)
        return error;
    if (endpoint->transport->region != NULL)
        error = endpoint->transport->region(endpoint->instance, channel->slots.base, channel->slots.size);
    channel->slot_size = size;
    channel->slots_posted = calloc(ANSWERING_SLOTS, sizeof *channel->slots_posted);
    if (error == LLM_OK && channel->slots_posted == NULL)
        error = lli_fail(&endpoint->context->log, LLM_ENOMEM, "no memory for the answers of a store");
    if (error != LLM_OK)
        lli_answering_close(channel);
    return error;
}

void lli_answering_close(struct lli_store_channel *channel)
{
    struct lli_endpoint *endpoint = channel->receiver->endpoint;

    if (channel->slots.base != NULL && endpoint->transport->region_end != NULL) {
        lli_endpoint_flush(endpoint);
        endpoint->transport->region_end(endpoint->instance, channel->slots.base, channel->slots.size);
    }
    lli_answering_release(channel);
}

void lli_answering_release(struct lli_store_channel *channel)
{
    lli_memory_unmap(&channel->slots);
    free(channel->slots_posted);
    channel->slots_posted = NULL;
}

/* Returns a free slot, NULL: the transport has yet to send the packets in all of them. */
static uint8_t *answering_slot(struct lli_store_channel *channel)
{
    struct lli_endpoint *endpoint = channel->receiver->endpoint;
    const uint32_t index = channel->slot_next % ANSWERING_SLOTS;
    const uint64_t posted = channel->slots_posted[index];

    if (endpoint->transport->reap(endpoint->instance) < posted) {
        lli_endpoint_flush(endpoint);
        if (endpoint->transport->reap(endpoint->instance) < posted)
            return NULL;
    }
    return (uint8_t *)channel->slots.base + index * channel->slot_size;
}

/* ------------------------------------------------------------------------------------------------- readers */

/* Opens the cursor of a reader if there is none. False: it cannot be read. */
static bool reader_open(struct lli_answering_reader *reader, struct lli_answering *answering,
                        const struct lli_recording *recording)
{
    const struct llm_store *store = answering->channel->store;

    reader->answering = answering;
    return reader->cursor != NULL ||
           lli_cursor_open(store->catalogue, recording, &store->context->log, &reader->cursor) == LLM_OK;
}

static void reader_close(struct lli_answering_reader *reader)
{
    lli_cursor_close(&reader->cursor);
    *reader = (struct lli_answering_reader){.cursor = NULL};
}

/* Reads the next packet or gap. False: there is none, or the rest is damaged. */
static bool reader_next(struct lli_answering_reader *reader, struct lli_record *record)
{
    const struct lli_block *block;
    int result;

    for (;;) {
        result = lli_cursor_next(reader->cursor, record, &block);
        if (result < 0 && lli_cursor_skip_damage(reader->cursor))
            continue;
        if (result != 1)
            return false;
        if (record->kind == LLI_RECORD_PACKET || record->kind == LLI_RECORD_GAP)
            return true;
    }
}

/* Reads on from the block that has a packet, a message or a time. */
static bool reader_move(struct lli_answering_reader *reader, enum lli_index_key key, uint64_t value)
{
    reader->has_record = false;
    reader->at = 0;
    return lli_cursor_seek(reader->cursor, key, value) == LLM_OK;
}

/* Packets that a reader passes by until it is at this one; ANSWERING_FAR: it has to be moved. */
static uint64_t reader_distance(const struct lli_answering_reader *reader, lli_seq seq)
{
    if (reader->has_record && reader->record.packet == seq)
        return 0;
    return reader->at > 0 && seq >= reader->at && seq - reader->at < ANSWERING_NEAR ? seq - reader->at
                                                                                    : ANSWERING_FAR;
}

/* The reader that read least recently, of those of all recordings, moved to this one; that of the recording if that fails. */
static struct lli_answering_reader *reader_take(struct lli_answering *answering)
{
    struct llm_store *store = answering->channel->store;
    const struct lli_recording *recording = lli_catalogue_find(store->catalogue, answering->session);
    struct lli_answering_reader *oldest = store->readers;

    for (int i = 1; i < LLI_ANSWERING_READERS; i++)
        if (store->readers[i].used_at < oldest->used_at)
            oldest = &store->readers[i];
    if (oldest->answering != answering)
        reader_close(oldest);
    return recording != NULL && reader_open(oldest, answering, recording) ? oldest : &answering->own;
}

/*
 * Returns the reader for a packet: the nearest before it, else that of the recording if it stands nowhere, else the one that read
 * least recently.
 */
static struct lli_answering_reader *reader_for(struct lli_answering *answering, lli_seq seq)
{
    struct llm_store *store = answering->channel->store;
    struct lli_answering_reader *nearest = &answering->own;
    uint64_t distance = reader_distance(nearest, seq);

    for (int i = 0; i < LLI_ANSWERING_READERS && distance > 0; i++) {
        struct lli_answering_reader *reader = &store->readers[i];
        const uint64_t its = reader->answering == answering ? reader_distance(reader, seq) : ANSWERING_FAR;

        if (its < distance) {
            nearest = reader;
            distance = its;
        }
    }
    if (distance == ANSWERING_FAR && answering->own.at > 0)
        nearest = reader_take(answering);
    nearest->used_at = ++store->reads;
    lli_cursor_limit(nearest->cursor, answering->limit);
    return nearest;
}

/* ---------------------------------------------------------------------------------------------------- open */

static struct lli_answering *answering_find(const struct llm_store *store, uint64_t session)
{
    for (struct lli_answering *answering = store->answering; answering != NULL; answering = answering->next)
        if (answering->session == session)
            return answering;
    return NULL;
}

static void answering_add(struct lli_answers_counters *sum, const struct lli_answers_counters *counters)
{
#define ANSWERING_ADD(name, text) sum->name += counters->name;
    LLI_ANSWERS_COUNTERS(ANSWERING_ADD)
#undef ANSWERING_ADD
}

static void answering_free(struct lli_answering *answering)
{
    struct lli_answering **link = &answering->channel->store->answering;

    while (*link != answering)
        link = &(*link)->next;
    *link = answering->next;
    answering->channel->store->answering_count--;
    answering_add(&answering->channel->store->answered, &answering->answers.counters);
    reader_close(&answering->own);
    for (int i = 0; i < LLI_ANSWERING_READERS; i++)
        if (answering->channel->store->readers[i].answering == answering)
            reader_close(&answering->channel->store->readers[i]);
    free(answering->memory);
    free(answering);
}

void lli_answering_free_all(struct llm_store *store)
{
    while (store->answering != NULL)
        answering_free(store->answering);
}

/* Frees the one that was asked least recently and is not recorded. False: there is none. */
static bool answering_evict(struct llm_store *store)
{
    struct lli_answering *oldest = NULL;

    for (struct lli_answering *answering = store->answering; answering != NULL; answering = answering->next)
        if (!answering->live && (oldest == NULL || answering->used_at < oldest->used_at))
            oldest = answering;
    if (oldest != NULL)
        answering_free(oldest);
    return oldest != NULL;
}

static void answering_place(struct lli_answering *answering, struct lli_arena *arena, lli_ns now)
{
    const struct lli_store_channel *channel = answering->channel;
    const struct lli_answers_config config = {
        .session = answering->session,
        .address = channel->receiver->endpoint->address,
        .key = channel->store->key,
        .replay_bytes_per_s = channel->receiver->endpoint->channel.options.replay_bytes_per_s,
        .unconfirmed = &channel->store->unconfirmed,
    };

    lli_answers_init(&answering->answers, &config, arena, now);
}

static struct lli_answering *answering_new(struct lli_store_channel *channel, uint64_t session, lli_ns now)
{
    struct llm_store *store = channel->store;
    struct lli_answering *answering;
    struct lli_arena arena = {.memory = NULL};

    if ((store->answering_count == ANSWERING_MAX && !answering_evict(store)) ||
        (answering = calloc(1, sizeof *answering)) == NULL)
        return NULL;
    answering->channel = channel;
    answering->session = session;
    answering->used_at = now;
    answering_place(answering, &arena, now);
    arena.memory = aligned_alloc(64, (size_t)lli_round_up(arena.used, 64));
    if (arena.memory == NULL) {
        free(answering);
        return NULL;
    }
    answering->memory = arena.memory;
    memset(answering->memory, 0, arena.used);
    arena.used = 0;
    answering_place(answering, &arena, now);
    answering->next = store->answering;
    store->answering = answering;
    store->answering_count++;
    return answering;
}

/* -------------------------------------------------------------------------------------------------- extent */

/*
 * Number of the first message of the recording, which changes when its first segment is removed. It is read if an earlier
 * run has written that segment: the disk may take milliseconds for it.
 */
static bool answering_first(struct lli_answering *answering, const struct lli_catalogue_segment *first)
{
    struct lli_record record = {.message = first->number};

    if (answering->first == first->packet && first->packet > 0)
        return true;
    if (first->number == LLI_BLOCK_UNNUMBERED &&
        (!reader_move(&answering->own, LLI_INDEX_PACKET, first->packet) ||
         !reader_next(&answering->own, &record)))
        return false;
    answering->first = first->packet;
    answering->first_number = record.message;
    return true;
}

/*
 * Durable part of a session that is recorded. The number of the message that starts next is only known where a
 * packet begins: behind the last packet if the receiver has read all of it, else before it.
 */
static void answering_extent_live(const struct lli_recorded *recorded, struct lli_answers_extent *extent)
{
    const struct lli_rx *rx = lli_recorded_rx(recorded);
    const struct lli_block_position *durable = &recorded->recorder.durable;

    extent->end = durable->packet;
    extent->end_number = durable->message;
    if (rx != NULL && rx->gap.next == durable->packet)
        extent->end_number = rx->unpack.number;
    else if (extent->end > extent->first)
        extent->end--;
}

/* Notes what can be answered with. False: nothing. */
static bool answering_extent(struct lli_answering *answering, const struct lli_recorded *recorded)
{
    const struct llm_store *store = answering->channel->store;
    const struct lli_recording *recording = lli_catalogue_find(store->catalogue, answering->session);
    struct lli_answers_extent extent;
    struct lli_recording_end end;

    if (recording == NULL || !reader_open(&answering->own, answering, recording))
        return false;
    extent = (struct lli_answers_extent){.first = recording->segments[0].packet};
    if (recorded != NULL && recorded->begun) {
        answering->live = true;
        answering->limit = recorded->recorder.durable.packet;
        lli_cursor_limit(answering->own.cursor, answering->limit);
        answering_extent_live(recorded, &extent);
    } else if (answering->live || answering->answers.extent.end == 0) {
        answering->live = false;
        answering->limit = UINT64_MAX;
        lli_cursor_limit(answering->own.cursor, answering->limit);
        if (lli_cursor_recover(answering->own.cursor, 0, &end) != LLM_OK)
            return false;
        answering->own.has_record = false;
        answering->own.at = 0;
        extent.end = end.next.packet;
        extent.end_number = end.messages;
        extent.ended = end.ended;
    } else {
        extent = answering->answers.extent;
        extent.first = recording->segments[0].packet;
    }
    if (extent.end <= extent.first || !answering_first(answering, recording->segments))
        return false;
    extent.first_number = answering->first_number;
    lli_answers_recorded(&answering->answers, &extent);
    return true;
}

/* -------------------------------------------------------------------------------------------------- lookups */

/* Finds the packet in which a message starts: the last one whose number is not beyond it. */
static bool answering_find_message(struct lli_answering *answering, uint64_t message, lli_seq *packet,
                                   uint64_t *number)
{
    struct lli_record record;
    bool found = false;

    if (!reader_move(&answering->own, LLI_INDEX_MESSAGE, message))
        return false;
    while (reader_next(&answering->own, &record) && record.message <= message) {
        *packet = record.packet;
        *number = record.message;
        found = true;
    }
    return found;
}

static bool answering_find_time(struct lli_answering *answering, lli_ns wall, lli_seq *packet,
                                uint64_t *number)
{
    struct lli_record record;

    if (!reader_move(&answering->own, LLI_INDEX_WALL, wall) || !reader_next(&answering->own, &record))
        return false;
    *packet = record.packet;
    *number = record.message;
    return true;
}

static void answering_look_up(struct lli_answering *answering, lli_ns now)
{
    struct lli_answers_seek seek;

    while (lli_answers_sought(&answering->answers, &seek)) {
        uint64_t number = 0;
        lli_seq packet = 0;
        bool found;

        if (seek.from == LLM_JOIN_TIME) {
            const lli_ns wall = lli_clock_real_ns();
            const lli_ns back = lli_min(seek.value, wall) + (now - seek.at);

            found = answering_find_time(answering, wall - lli_min(back, wall), &packet, &number);
        } else {
            found = answering_find_message(answering, seek.value, &packet, &number);
        }
        lli_answers_found(&answering->answers, found, packet, number);
    }
}

/* -------------------------------------------------------------------------------------------------- packets */

/* Reads a packet. False: it is lost, and so is all before *end. */
static bool answering_get(struct lli_answering *answering, lli_seq seq, lli_seq *end)
{
    struct lli_answering_reader *reader = answering->reader = reader_for(answering, seq);
    struct lli_record *record = &reader->record;

    *end = seq + 1;
    if (!(reader->has_record && record->packet == seq)) {
        if (reader_distance(reader, seq) == ANSWERING_FAR && !reader_move(reader, LLI_INDEX_PACKET, seq))
            return false;
        do {
            reader->has_record = reader_next(reader, record);
            /* After an error the place is sought anew. */
            reader->at = reader->has_record ? record->next : 0;
            if (!reader->has_record)
                return false;
        } while (record->next <= seq);
    }
    if (record->kind == LLI_RECORD_PACKET && record->packet == seq)
        return true;
    *end = record->kind == LLI_RECORD_GAP ? record->next : record->packet;
    reader->has_record = false;
    reader->at = 0;
    return false;
}

/*
 * True if a receiver of the channel would open a recorded packet: with keys its epoch is valid, without it is in
 * clear, since the recording may be of another channel.
 */
static bool answering_is_readable(const struct lli_answering *answering, const struct lli_record *record)
{
    struct lli_guard *guard = answering->channel->receiver->endpoint->guard;

    return guard != NULL ? lli_guard_is_valid(guard, record->data, record->size)
                         : !lli_protect_is(record->data, record->size);
}

/* Finds where packets go on that can be opened, in a turn or, if there are many of the others, in several. */
static lli_seq answering_pass(struct lli_answering *answering)
{
    struct lli_answering_reader *reader = answering->reader;
    struct lli_record *record = &reader->record;

    for (int i = 0; i < ANSWERING_PASSED; i++) {
        reader->has_record = reader_next(reader, record);
        if (!reader->has_record)
            break;
        reader->at = record->next;
        if (record->kind == LLI_RECORD_PACKET && answering_is_readable(answering, record))
            return record->packet;
    }
    return reader->at;
}

/* Posts the packet that is due. False: not now. */
static bool answering_post(struct lli_answering *answering, lli_seq seq, const struct lli_wire_address *to)
{
    struct lli_store_channel *channel = answering->channel;
    struct lli_endpoint *endpoint = channel->receiver->endpoint;
    uint8_t *slot = answering_slot(channel);
    struct lli_out out;
    lli_seq end;

    if (slot == NULL)
        return false;
    if (!answering_get(answering, seq, &end) || answering->reader->record.size > channel->slot_size) {
        lli_answers_lacks(&answering->answers, end);
        return true;
    }
    if (!answering_is_readable(answering, &answering->reader->record)) {
        /* That many packets may have been read that the turn is over. */
        lli_answers_lacks(&answering->answers, answering_pass(answering));
        return false;
    }
    out = (struct lli_out){.data = slot, .size = answering->reader->record.size};
    if (lli_reach_peer(endpoint, to, &out.to) != LLM_OK) {
        lli_answers_defer(&answering->answers);
        return true;
    }
    memcpy(slot, answering->reader->record.data, answering->reader->record.size);
    if (lli_endpoint_post(endpoint, &out, 1) == 0)
        return false;
    channel->slots_posted[channel->slot_next++ % ANSWERING_SLOTS] = endpoint->posted;
    answering->reader->has_record = false;
    lli_answers_sent(&answering->answers, out.size);
    return true;
}

static void answering_send(struct lli_answering *answering, lli_ns now)
{
    struct lli_store_channel *channel = answering->channel;
    struct lli_endpoint *endpoint = channel->receiver->endpoint;
    const struct lli_wire_address *to;
    struct lli_packet packet;
    uint8_t *buffer;
    lli_seq seq;

    answering->answers.config.address = endpoint->address;
    for (int i = 0;
         i < ANSWERING_TURN && !endpoint->stuck && lli_answers_next(&answering->answers, now, &seq, &to); i++)
        if (!answering_post(answering, seq, to))
            break;
    while ((buffer = lli_endpoint_scratch(endpoint)) != NULL &&
           lli_answers_control(&answering->answers, now, buffer, &packet))
        lli_endpoint_post_control(endpoint, &packet, channel->group);
    lli_endpoint_flush(endpoint);
}

/* ------------------------------------------------------------------------------------------------- service */

bool lli_answering_request(struct lli_store_channel *channel, const struct lli_rx_packet *packet, lli_ns now)
{
    struct lli_answering *answering;
    struct lli_wire_join join;

    if (packet->header.type != LLI_WIRE_JOIN ||
        !lli_wire_get_join(packet->body, packet->body_size, packet->header.tag, &join))
        return false;
    if (join.kind == LLI_WIRE_JOIN_STREAM) {
        lli_streams_request(channel, &join, now);
        return true;
    }
    if (join.kind != LLI_WIRE_JOIN_SEEK && join.kind != LLI_WIRE_JOIN_RECALL)
        return false;
    answering = answering_find(channel->store, join.session);
    if (answering == NULL && lli_catalogue_find(channel->store->catalogue, join.session) != NULL)
        answering = answering_new(channel, join.session, now);
    if (answering == NULL || answering->channel != channel ||
        !answering_extent(answering, lli_store_recorded(channel->store, join.session)))
        return false;
    answering->used_at = now;
    (void)lli_answers_input(&answering->answers, &join, now);
    answering_look_up(answering, now);
    return true;
}

/* Announces sessions that are recorded, and no others. */
static void answering_adverts(struct llm_store *store, lli_ns now)
{
    const lli_ns every = LLI_ANSWERS_ADVERT *
                         lli_max(1, (store->sessions_recorded + ANSWERING_ADVERTS - 1) / ANSWERING_ADVERTS);

    for (uint32_t i = 0; i < store->sessions_used; i++) {
        const struct lli_recorded *recorded = store->sessions[i];

        if (recorded != NULL && recorded->begun && !recorded->over && !recorded->stopped &&
            answering_find(store, recorded->session) == NULL &&
            lli_catalogue_find(store->catalogue, recorded->session) != NULL)
            (void)answering_new(recorded->channel, recorded->session, now);
    }
    for (struct lli_answering *answering = store->answering; answering != NULL; answering = answering->next) {
        const struct lli_recorded *recorded = lli_store_recorded(store, answering->session);
        const bool announced = recorded != NULL && !recorded->over && !recorded->stopped;

        if (announced != (answering->answers.advert_every != 0) && answering_extent(answering, recorded))
            lli_answers_advertise(&answering->answers, announced ? every : 0, now);
    }
}

lli_ns lli_answering_service(struct llm_store *store, lli_ns now)
{
    struct lli_answering *next;
    lli_ns at = LLI_NEVER;

    if (now >= store->retention_at)
        answering_adverts(store, now);
    for (struct lli_answering *answering = store->answering; answering != NULL; answering = next) {
        next = answering->next;
        if (!answering->live && now > answering->used_at + ANSWERING_IDLE) {
            answering_free(answering);
            continue;
        }
        if (now >= lli_answers_deadline(&answering->answers) &&
            answering_extent(answering, lli_store_recorded(store, answering->session)))
            answering_send(answering, now);
        at = lli_min(at, lli_answers_deadline(&answering->answers));
    }
    return at;
}

void lli_answering_stats(const struct llm_store *store, struct lli_answers_counters *sum)
{
    *sum = store->answered;
    for (const struct lli_answering *answering = store->answering; answering != NULL;
         answering = answering->next)
        answering_add(sum, &answering->answers.counters);
}
