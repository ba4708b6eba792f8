/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory transport: data operations and the transport table. */
#define _GNU_SOURCE
#include "shm.h"

#include <string.h>

#include "system/clock.h"

enum {
    SHM_TURNS_CLOCK = 64, /* calls of receive() per clock reading; a power of two */
    SHM_ARMED_LOOK = 64,  /* calls of arm() between scans for dead writers */
    /* Minimum budget of rings without a datagram, renewed by each timed check of the socket. */
    SHM_RINGS = 16,
    SHM_RINGS_MAX = 1024,    /* maximum of that budget; each datagram adds one */
    SHM_BURST = 32,          /* packets read from a segment at a time */
    SHM_BURST_BYTES = 65536, /* bytes read at a time, so that packets stay in the cache until delivered */
    SHM_LOOKS_SCAN = 10,
    SHM_OUTLINED = 1024, /* smallest packet with an outline */
    /*
     * Bytes of a packet for one of its outline, at least. Outlines of a whole history leave room in the ring of
     * copies, and those of short messages would cost more than they save.
     */
    SHM_OUTLINE_SHARE = 16,
};

/* Interval of socket checks without a ring. Each takes a system call, and only new peers depend on them. */
#define SHM_SOCKET_NS ((lli_ns)2000000)
/*
 * Interval of checks for dead writers. A scan takes 10 us, so it is due when a source is silent; while all
 * write, only at every SHM_LOOKS_SCAN-th check, for a new segment that no datagram announced.
 */
#define SHM_LOOK_NS ((lli_ns)100000000)

/* ------------------------------------------------------------------------------------------------ sending */

/* Copies bytes into the ring of copies. Returns their offset, and their position across all laps. */
static uint64_t put_bytes(struct lli_shm_sender *sender, const void *bytes, uint32_t size, uint64_t *position)
{
    struct lli_shm_header *header = sender->segment.header;
    uint64_t offset;

    if (sender->copies_head + size > sender->segment.copies_bytes) {
        sender->copies_lap += sender->segment.copies_bytes;
        sender->copies_head = 0;
    }
    offset = sender->copies_head;
    *position = sender->copies_lap + offset;
    atomic_store_explicit(&header->copies_edge, *position + size, memory_order_relaxed);
    /* Readers must see the new edge before the bytes below it change. */
    atomic_thread_fence(memory_order_release);
    memcpy(sender->segment.copies + offset, bytes, size);
    sender->copies_head += size;
    return offset;
}

static void put_copy(struct lli_shm_sender *sender, struct lli_shm_entry *entry, const struct lli_out *packet)
{
    entry->place = LLI_SHM_COPIED;
    entry->ring.offset = put_bytes(sender, packet->data, packet->size, &entry->ring.position);
}

/* Adds the outline of a packet in the history to its entry. */
static LLI_OUT_OF_LINE void put_outline(struct lli_shm *shm, struct lli_shm_sender *sender,
                                        struct lli_shm_entry *entry, const struct lli_out *packet)
{
    _Alignas(8) uint8_t bytes[LLI_OUTLINE_BYTES];
    const uint32_t max = (uint32_t)lli_min(packet->size / SHM_OUTLINE_SHARE, sizeof bytes);
    const uint32_t size = shm->out.outline(packet->data, packet->size, bytes, max);

    entry->ring.outline_size = size;
    if (size > 0)
        entry->ring.outline_offset = put_bytes(sender, bytes, size, &entry->ring.outline_position);
}

/*
 * Records the position of a packet in the history. Its lap follows from the edge: an offset at or above it is
 * of the lap before.
 */
static void put_history(struct lli_shm_sender *sender, struct lli_shm_entry *entry, uint64_t offset)
{
    const uint64_t bytes = sender->segment.history_bytes;
    const uint64_t edge = atomic_load_explicit(&sender->segment.header->history_edge, memory_order_relaxed);

    while (edge > sender->history_lap + bytes)
        sender->history_lap += bytes;
    entry->place = LLI_SHM_HISTORY;
    entry->ring.offset = offset;
    entry->ring.position = sender->history_lap + offset - (offset < edge - sender->history_lap ? 0 : bytes);
}

/* Invalidates an entry: a reader that is copying it notices afterwards. */
static inline void put_begin(struct lli_shm_entry *entry)
{
    atomic_store_explicit(&entry->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

/* Publishes an entry and advances to the next. */
static inline void put_whole(struct lli_shm_sender *sender, struct lli_shm_entry *entry)
{
    sender->next++;
    atomic_store_explicit(&entry->number, sender->next, memory_order_release);
    sender->slot = lli_shm_entry_at(&sender->segment, sender->next)->bytes;
}

static void put(struct lli_shm *shm, struct lli_shm_sender *sender, const struct lli_out *packet, uint64_t to)
{
    const struct lli_shm_segment *segment = &sender->segment;
    struct lli_shm_entry *entry = lli_shm_entry_at(segment, sender->next);
    const uint64_t offset = (uint64_t)((uintptr_t)packet->data - (uintptr_t)segment->history);

    put_begin(entry);
    entry->to = to;
    entry->size = packet->size;
    if (packet->size <= LLI_SHM_INLINE) {
        entry->place = LLI_SHM_HERE;
        memcpy(entry->bytes, packet->data, packet->size);
    } else if (segment->history != NULL && offset < segment->history_bytes) {
        put_history(sender, entry, offset);
        entry->ring.outline_size = 0;
        if (packet->size >= SHM_OUTLINED && shm->out.outline != NULL &&
            atomic_load_explicit(&segment->bell->outlines, memory_order_relaxed) != 0)
            put_outline(shm, sender, entry, packet);
    } else {
        put_copy(sender, entry, packet);
    }
    put_whole(sender, entry);
}

/* Ends a run of packets in a segment: publishes the head and wakes sleeping readers. */
static void put_end(struct lli_shm *shm, struct lli_shm_sender *sender)
{
    const struct lli_shm_segment *segment = &sender->segment;

    atomic_store_explicit(&segment->header->head, sender->next, memory_order_release);
    /*
     * Pairs with the fence in shm_arm(): either a reader about to sleep sees the packets, or we see that it
     * sleeps.
     */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&segment->bell->sleepers, memory_order_relaxed) != 0)
        lli_shm_socket_wake(shm, segment->bell);
}

/* Returns the sender whose segment a peer reads, or NULL. */
static struct lli_shm_sender *peer_sender(struct lli_shm *shm, struct lli_shm_peer *peer)
{
    struct lli_shm_sender *sender = &shm->out.senders[peer->sender];

    if (sender->segment.bell != NULL && atomic_load_explicit(&sender->segment.bell->readers[peer->reader].id,
                                                             memory_order_relaxed) == peer->id)
        return sender;
    for (uint32_t i = 0; i < shm->out.count; i++) {
        sender = &shm->out.senders[i];
        for (uint32_t j = 0; sender->segment.bell != NULL && j < LLI_SHM_READERS_MAX; j++)
            if (atomic_load_explicit(&sender->segment.bell->readers[j].id, memory_order_relaxed) ==
                peer->id) {
                peer->sender = i;
                peer->reader = j;
                return sender;
            }
    }
    return NULL;
}

/* Returns the sender whose segment takes a packet; NULL if the packet was sent by socket, or is lost. */
static struct lli_shm_sender *route(struct lli_shm *shm, const struct lli_out *packet, uint64_t *to)
{
    struct lli_shm_sender *sender;
    struct lli_shm_peer *peer;

    *to = 0;
    if (packet->size > shm->payload_max) {
        shm->counters.send_errors++;
        return NULL;
    }
    if (!(packet->to & LLI_SHM_PEER))
        return &shm->out.senders[packet->to];
    peer = &shm->peer[packet->to & ~LLI_SHM_PEER];
    *to = peer->id;
    sender = peer_sender(shm, peer);
    if (sender == NULL && !lli_shm_socket_send(shm, peer, packet))
        shm->counters.send_errors++;
    return sender;
}

static uint8_t *shm_slot(void *instance, lli_handle to)
{
    const struct lli_shm *shm = instance;
    const struct lli_shm_sender *sender = &shm->out.senders[to];
    struct lli_shm_entry *entry = lli_shm_entry_at(&sender->segment, sender->next);

    put_begin(entry);
    return entry->bytes;
}

/* Selects the segment for the next packets; ends the run in another segment. */
static inline void put_into(struct lli_shm *shm, struct lli_shm_sender *sender)
{
    if (sender != shm->out.open)
        (void)lli_shm_flush(shm);
    shm->out.open = sender;
}

static void shm_post_slot(void *instance, lli_handle to, uint32_t size)
{
    struct lli_shm *shm = instance;
    struct lli_shm_sender *sender = &shm->out.senders[to];
    struct lli_shm_entry *entry = lli_shm_entry_at(&sender->segment, sender->next);

    entry->to = 0;
    entry->size = size;
    entry->place = LLI_SHM_HERE;
    put_whole(sender, entry);
    put_into(shm, sender);
    shm->out.done++;
}

/* Publishes packets at once: polling readers see them immediately, sleeping ones are woken by flush(). */
static int shm_post(void *instance, const struct lli_out *packets, int count)
{
    struct lli_shm *shm = instance;
    uint64_t to;

    for (int i = 0; i < count; i++) {
        struct lli_shm_sender *sender = route(shm, &packets[i], &to);

        if (sender == NULL)
            continue;
        put_into(shm, sender);
        put(shm, sender, &packets[i], to);
    }
    shm->out.done += (uint64_t)count;
    return count;
}

int lli_shm_flush(void *instance)
{
    struct lli_shm *shm = instance;

    if (shm->out.open != NULL)
        put_end(shm, shm->out.open);
    shm->out.open = NULL;
    return LLM_OK;
}

static uint64_t shm_reap(void *instance)
{
    const struct lli_shm *shm = instance;

    return shm->out.done;
}

/* ---------------------------------------------------------------------------------------------- receiving */

/*
 * Skips to a readable entry, half a ring behind the writer. The writer has written at least the given number
 * of entries, and more if the head says so: the head lags during a run of packets, and remains behind if the
 * writer dies in one.
 */
static void source_skip(struct lli_shm *shm, struct lli_shm_source *source, uint64_t written)
{
    const uint64_t half = (source->segment.entries_mask + 1) / 2;
    const uint64_t head =
        lli_max(atomic_load_explicit(&source->segment.header->head, memory_order_acquire), written);
    const uint64_t next = head > half ? head - half : 0;

    if (next > source->next) {
        shm->counters.lapped += next - source->next;
        source->next = next;
    }
}

/*
 * Returns the packet bytes of an entry, or NULL if its fields are invalid. Reads each field once, before
 * checking it.
 */
static const uint8_t *source_bytes(struct lli_shm_source *source, const struct lli_shm_entry *entry,
                                   uint32_t size)
{
    const volatile struct lli_shm_entry *said = entry;
    struct lli_shm_segment *segment = &source->segment;
    const uint32_t place = said->place;
    const uint64_t offset = said->ring.offset;
    const bool copied = place == LLI_SHM_COPIED;
    uint64_t bytes;

    if (place == LLI_SHM_HERE)
        return size <= LLI_SHM_INLINE ? entry->bytes : NULL;
    if (!copied && segment->history == NULL && !lli_shm_attach_history(segment))
        return NULL;
    bytes = copied ? segment->copies_bytes : segment->history_bytes;
    if (offset > bytes || size > bytes - offset)
        return NULL;
    return (copied ? segment->copies : segment->history) + offset;
}

/* Packet with an outline, between receive() and release(): in its slot, after the room for the packet. */
struct outlined {
    const struct lli_shm_source *source;
    const uint8_t *from;
    uint64_t position;
    struct lli_outline outline;
    uint8_t bytes[]; /* of the outline */
};

static struct outlined *outlined_of(uint8_t *data, uint32_t size)
{
    return (struct outlined *)(void *)(data + lli_round_up(size, 64));
}

/*
 * Copies the head of a packet in the history, and its outline. False: it has none, or it was overwritten, so that the
 * packet is copied whole.
 */
static bool source_outline(const struct lli_shm *shm, const struct lli_shm_source *source,
                           const struct lli_shm_entry *entry, const uint8_t *from, struct lli_in *packet,
                           uint8_t *data)
{
    const struct lli_shm_segment *segment = &source->segment;
    const volatile struct lli_shm_entry *said = entry;
    const uint64_t bytes = said->ring.outline_size, offset = said->ring.outline_offset;
    struct outlined *outlined = outlined_of(data, packet->size);

    if (!shm->in.asks || bytes == 0 || bytes > LLI_OUTLINE_BYTES || packet->size < SHM_OUTLINED ||
        packet->size > LLI_SHM_SLOT_STRIDE - 64 - LLI_OUTLINE_BYTES - sizeof *outlined ||
        offset > segment->copies_bytes || bytes > segment->copies_bytes - offset)
        return false;
    outlined->source = source;
    outlined->from = from;
    outlined->position = said->ring.position;
    outlined->outline = (struct lli_outline){(uint32_t)bytes, outlined->bytes};
    memcpy(outlined->bytes, segment->copies + offset, bytes);
    memcpy(data, from, LLI_EXCERPT_HEAD);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&segment->header->copies_edge, memory_order_relaxed) -
            said->ring.outline_position >
        segment->copies_bytes)
        return false;
    packet->outline = &outlined->outline;
    return true;
}

/* Values to check after a burst was copied. */
struct copied {
    uint64_t position;
    uint32_t place; /* enum lli_shm_place */
};

/* Copies the packets of complete entries; skips entries for other instances, and invalid ones. */
static int source_copy(struct lli_shm *shm, struct lli_shm_source *source, struct lli_in *packets,
                       struct copied *copied, int max)
{
    const struct lli_shm_segment *segment = &source->segment;
    uint32_t bytes = 0;
    int count = 0;

    while (count < max && bytes < SHM_BURST_BYTES) {
        const struct lli_shm_entry *entry = lli_shm_entry_at(segment, source->next);
        const uint64_t number = atomic_load_explicit(&entry->number, memory_order_acquire);
        const uint32_t size = *(const volatile uint32_t *)&entry->size;
        struct lli_shm_slots *slots = lli_shm_slots_for(shm, size);
        const uint8_t *from = NULL;
        uint8_t *data;
        bool mine;

        if (slots->free_count == 0)
            break;
        data = lli_shm_slot_next(slots);

        if (number != source->next + 1) {
            if (number > source->next)
                source_skip(shm, source, number);
            break;
        }
        mine = entry->to == 0 || entry->to == shm->id;
        if (mine && size <= LLI_SHM_SLOT_BYTES)
            from = source_bytes(source, entry, size);
        if (from != NULL) {
            packets[count] = (struct lli_in){.data = data, .size = size};
            packets[count].from = entry->to == 0 ? source->group : LLI_HANDLE_UNICAST;
            if (entry->place != LLI_SHM_HISTORY ||
                !source_outline(shm, source, entry, from, &packets[count], data))
                memcpy(data, from, size);
            copied[count] = (struct copied){entry->ring.position, entry->place};
        }
        /* Re-read the number after the copy: if it is unchanged, the copy is intact. */
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&entry->number, memory_order_relaxed) != number)
            continue;
        source->next++;
        if (from == NULL) {
            shm->counters.overwritten += mine;
            continue;
        }
        bytes += size;
        packets[count++].buffer = lli_shm_slot_take(slots);
    }
    return count;
}

/* Drops packets of a burst whose bytes may have been overwritten during the copy. */
static int source_check(struct lli_shm *shm, const struct lli_shm_source *source, struct lli_in *packets,
                        const struct copied *copied, int count)
{
    const struct lli_shm_segment *segment = &source->segment;
    const uint64_t history_edge = atomic_load_explicit(&segment->header->history_edge, memory_order_relaxed);
    const uint64_t copies_edge = atomic_load_explicit(&segment->header->copies_edge, memory_order_relaxed);
    int remaining = 0;

    for (int i = 0; i < count; i++) {
        const bool history = copied[i].place == LLI_SHM_HISTORY;
        const uint64_t lag = (history ? history_edge : copies_edge) - copied[i].position;

        if (copied[i].place != LLI_SHM_HERE &&
            lag > (history ? segment->history_bytes : segment->copies_bytes)) {
            lli_shm_slot_release(shm, packets[i].buffer);
            shm->counters.overwritten++;
        } else {
            packets[remaining++] = packets[i];
        }
    }
    return remaining;
}

/* Returns true if an unread entry is available. Inline: called in every poll. */
static inline bool source_has(const struct lli_shm_source *source)
{
    const struct lli_shm_entry *entry = lli_shm_entry_at(&source->segment, source->next);
    const bool has = atomic_load_explicit(&entry->number, memory_order_acquire) > source->next;

    /* The writer takes both cache lines from this core; prefetch so that they return together. */
    if (!has)
        __builtin_prefetch(entry);
    return has;
}

/*
 * Copies the next packet if it is for all instances and in its entry or in the history, as most are. Copies the
 * full inline size of an entry, which is cheaper than a variable length. Returns false, with nothing changed, if
 * the packet is another kind, is being written, or was overwritten.
 */
static inline bool source_copy_one(struct lli_shm *shm, struct lli_shm_source *source, struct lli_in *packet)
{
    const struct lli_shm_segment *segment = &source->segment;
    const struct lli_shm_entry *entry = lli_shm_entry_at(segment, source->next);
    const uint64_t number = atomic_load_explicit(&entry->number, memory_order_acquire);
    const volatile struct lli_shm_entry *said = entry;
    const uint32_t size = said->size, place = said->place;
    struct lli_shm_slots *slots = lli_shm_slots_for(shm, size);
    uint64_t position = 0;
    uint8_t *data;

    if (number != source->next + 1 || said->to != 0 || slots->free_count == 0)
        return false;
    data = lli_shm_slot_next(slots);
    if (place == LLI_SHM_HERE && size <= LLI_SHM_INLINE) {
        memcpy(data, entry->bytes, LLI_SHM_INLINE);
    } else if (place == LLI_SHM_HISTORY && segment->history != NULL && size <= LLI_SHM_SLOT_BYTES) {
        const uint64_t offset = said->ring.offset;

        position = said->ring.position;
        if (said->ring.outline_size != 0)
            return false;
        if (offset > segment->history_bytes || size > segment->history_bytes - offset)
            return false;
        memcpy(data, segment->history + offset, size);
    } else {
        return false;
    }
    *packet = (struct lli_in){.data = data, .size = size, .from = source->group};
    /* See source_copy(), and source_check(). */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&entry->number, memory_order_relaxed) != number ||
        (place == LLI_SHM_HISTORY &&
         atomic_load_explicit(&segment->header->history_edge, memory_order_relaxed) - position >
             segment->history_bytes))
        return false;
    source->next++;
    packet->buffer = lli_shm_slot_take(slots);
    return true;
}

/* Takes as many packets of a source as are there and fit. */
static LLI_OUT_OF_LINE int source_take_all(struct lli_shm *shm, struct lli_shm_source *source,
                                           struct lli_in *packets, int max)
{
    struct copied copied[SHM_BURST];
    const int count = source_copy(shm, source, packets, copied, max < SHM_BURST ? max : SHM_BURST);

    /* Packets in entries were already checked by source_copy(). */
    for (int i = 0; i < count; i++)
        if (copied[i].place != LLI_SHM_HERE)
            return source_check(shm, source, packets, copied, count);
    return count;
}

/* Fast path for a single packet, the usual case after an empty poll. */
static LLI_OUT_OF_LINE int source_take(struct lli_shm *shm, struct lli_shm_source *source,
                                       struct lli_in *packets, int max)
{
    const int first = source_copy_one(shm, source, packets);

    return first == 1 && !source_has(source)
               ? 1
               : first + source_take_all(shm, source, packets + first, max - first);
}

/* Returns true if a bell has rung: the socket may have datagrams. Inline: called in every poll. */
static inline bool shm_is_rung(const struct lli_shm *shm)
{
    for (uint32_t i = 0; i < shm->out.count; i++) {
        const struct lli_shm_sender *sender = &shm->out.senders[i];

        if (sender->segment.bell != NULL &&
            atomic_load_explicit(&sender->segment.bell->rung, memory_order_acquire) != sender->rung)
            return true;
    }
    return false;
}

/* Records the count of each bell and drains the socket. Returns the number of packets. */
static uint32_t shm_take_out(struct lli_shm *shm)
{
    const uint32_t before = shm->waiting.tail;

    for (uint32_t i = 0; i < shm->out.count; i++)
        if (shm->out.senders[i].segment.bell != NULL)
            shm->out.senders[i].rung =
                atomic_load_explicit(&shm->out.senders[i].segment.bell->rung, memory_order_acquire);
    lli_shm_socket_drain(shm);
    return shm->waiting.tail - before;
}

/*
 * Answers a ring by draining the socket. Every reader may ring, and a ring without a datagram costs a system
 * call; a datagram may also be read before its ring is seen. The budget is one such ring per datagram, plus
 * SHM_RINGS; beyond it rings are ignored until the next timed check.
 */
static LLI_OUT_OF_LINE void shm_answer(struct lli_shm *shm)
{
    const uint32_t found = shm_take_out(shm);

    if (found > 0) {
        shm->ringing.left = (uint32_t)lli_min(shm->ringing.left + found, SHM_RINGS_MAX);
        return;
    }
    shm->counters.rings_empty++;
    shm->ringing.deaf = shm->ringing.left == 0;
    shm->ringing.left -= !shm->ringing.deaf;
}

/* Timed check: drains the socket, and answers rings again. */
static void shm_drain(struct lli_shm *shm)
{
    const uint32_t found = shm_take_out(shm);

    shm->ringing.left = (uint32_t)lli_min(lli_max(shm->ringing.left, SHM_RINGS) + found, SHM_RINGS_MAX);
    if (shm->ringing.deaf)
        shm->in.only = NULL;
    shm->ringing.deaf = false;
}

/* Wakes readers whose waking was deferred. */
static LLI_OUT_OF_LINE void shm_wake_due(struct lli_shm *shm)
{
    shm->wake.due = false;
    for (uint32_t i = 0; i < shm->out.count; i++) {
        struct lli_shm_bell *bell = shm->out.senders[i].segment.bell;

        if (bell != NULL && atomic_load_explicit(&bell->sleepers, memory_order_relaxed) != 0)
            lli_shm_socket_wake(shm, bell);
    }
}

/* Enables the fast path of polls if no other work is pending. */
static void shm_settle(struct lli_shm *shm)
{
    const struct lli_shm_bell *bell = shm->out.senders[0].segment.bell;

    shm->ringing.bell = shm->ringing.deaf                     ? &shm->ringing.silence
                        : shm->out.count == 1 && bell != NULL ? &bell->rung
                                                              : NULL;
    shm->ringing.rung = shm->ringing.deaf ? 0 : shm->out.senders[0].rung;
    shm->in.only =
        shm->in.count == 1 && !shm->in.changed && !shm->wake.due && shm->waiting.head == shm->waiting.tail
            ? shm->in.sources
            : NULL;
}

/* Returns true if a source was silent since the latest call, or if there is none. */
static bool shm_is_silent(struct lli_shm *shm)
{
    bool silent = shm->in.count == 0;

    for (uint32_t i = 0; i < shm->in.count; i++) {
        silent |= shm->in.sources[i].looked == shm->in.sources[i].next;
        shm->in.sources[i].looked = shm->in.sources[i].next;
    }
    return silent;
}

/* Periodic work that nothing signals. */
static LLI_OUT_OF_LINE void shm_look_around(struct lli_shm *shm)
{
    const lli_ns now = lli_clock_ns();

    if (now >= shm->ringing.drained_at + SHM_SOCKET_NS) {
        shm->ringing.drained_at = now;
        shm_drain(shm);
    }
    if (now >= shm->in.looked_at + SHM_LOOK_NS) {
        shm->in.looked_at = now;
        if (shm_is_silent(shm) || ++shm->in.looks % SHM_LOOKS_SCAN == 0)
            lli_shm_rescan(shm);
    }
}

/* Takes packets of all sources in turn, from the one after the latest on, as many as stay in the cache. */
static inline int sources_take(struct lli_shm *shm, struct lli_in *packets, int max)
{
    const uint32_t sources = shm->in.count;
    uint32_t at = shm->in.next, bytes = 0;
    int count = 0, end;

    for (uint32_t left = sources; left > 0; left--) {
        struct lli_shm_source *source;

        at = at + 1 < sources ? at + 1 : 0;
        source = &shm->in.sources[at];
        if (!source_has(source))
            continue;
        end = count + source_take(shm, source, packets + count, max - count);
        while (count < end)
            bytes += packets[count++].size;
        if (count == max || bytes >= SHM_BURST_BYTES)
            break;
    }
    shm->in.next = at;
    return count;
}

/* Slow path: datagrams, new segments, and any number of sources. */
static LLI_OUT_OF_LINE int shm_receive_all(struct lli_shm *shm, struct lli_in *packets, int max)
{
    int count = 0;

    if (!shm->ringing.deaf && shm_is_rung(shm))
        shm_answer(shm);
    if (shm->wake.due)
        shm_wake_due(shm);
    if (shm->in.changed)
        lli_shm_look(shm);
    while (count < max && shm->waiting.head != shm->waiting.tail)
        packets[count++] = shm->waiting.in[shm->waiting.head++ % LLI_SHM_WAITING];
    if (count < max)
        count += sources_take(shm, packets + count, max - count);
    shm_settle(shm);
    return count;
}

static int shm_receive(void *instance, struct lli_in *packets, int max)
{
    struct lli_shm *shm = instance;

    if (++shm->in.turn % SHM_TURNS_CLOCK == 0)
        shm_look_around(shm);
    if (shm->in.only == NULL ||
        (shm->ringing.bell != NULL
             ? atomic_load_explicit(shm->ringing.bell, memory_order_acquire) != shm->ringing.rung
             : shm_is_rung(shm)))
        return shm_receive_all(shm, packets, max);
    return source_has(shm->in.only) ? source_take(shm, shm->in.only, packets, max) : 0;
}

static void shm_enable(void *instance, lli_outline_maker *outline)
{
    struct lli_shm *shm = instance;

    shm->out.outline = outline;
}

static void shm_ask(void *instance)
{
    struct lli_shm *shm = instance;

    shm->in.asks = true;
    for (uint32_t i = 0; i < shm->in.count; i++)
        atomic_store_explicit(&shm->in.sources[i].segment.bell->outlines, 1, memory_order_relaxed);
}

static bool shm_fetch(void *instance, const struct lli_in *packet, const struct lli_piece *pieces,
                      uint32_t count)
{
    struct lli_shm *shm = instance;
    uint8_t *data = (uint8_t *)(uintptr_t)packet->data;
    const struct outlined *outlined = outlined_of(data, packet->size);
    const struct lli_shm_segment *segment = &outlined->source->segment;

    for (uint32_t i = 0; i < count; i++) {
        memcpy(data, outlined->from + pieces[i].at, pieces[i].size);
        data += pieces[i].size;
    }
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&segment->header->history_edge, memory_order_relaxed) - outlined->position <=
        segment->history_bytes)
        return true;
    shm->counters.overwritten++;
    return false;
}

static const struct lli_excerpt_calls shm_excerpt_calls = {shm_enable, shm_ask, shm_fetch};

static void shm_release(void *instance, const struct lli_in *packets, int count)
{
    struct lli_shm *shm = instance;

    for (int i = 0; i < count; i++)
        lli_shm_slot_release(shm, packets[i].buffer);
}

/* Takes another place if this reader's was overwritten: every reader may write the bell. */
static void arm_place(const struct lli_shm *shm, struct lli_shm_source *source)
{
    if (atomic_load_explicit(&source->reader->id, memory_order_relaxed) != shm->id)
        lli_shm_place_again(source, shm->id);
}

static int shm_arm(void *instance)
{
    struct lli_shm *shm = instance;

    if (++shm->armed % SHM_ARMED_LOOK == 0)
        lli_shm_rescan(shm);
    /* Drain earlier wake-ups, which would end the coming sleep. */
    lli_shm_socket_drain(shm);
    for (uint32_t i = 0; i < shm->in.count; i++) {
        arm_place(shm, &shm->in.sources[i]);
        atomic_store_explicit(&shm->in.sources[i].reader->asleep, 1, memory_order_relaxed);
        atomic_store_explicit(&shm->in.sources[i].segment.bell->sleepers, 1, memory_order_relaxed);
    }
    /*
     * Pairs with the fence in put_end(): either the caller's next poll finds the packets, or the writer sees
     * that we sleep.
     */
    atomic_thread_fence(memory_order_seq_cst);
    return shm->socket;
}

/* -------------------------------------------------------------------------------------------------- table */

/* Packets overwritten by the writer before they were read. */
static uint64_t shm_drops(void *instance)
{
    struct lli_shm *shm = instance;
    const uint64_t reported = shm->counters.drops_reported;

    shm->counters.drops_reported = shm->counters.lapped + shm->counters.overwritten;
    return shm->counters.drops_reported - reported;
}

static const struct lli_counter shm_counters[] = {
    {"shm_segments", offsetof(struct lli_shm, counters.attached)},
    {"shm_attach_errors", offsetof(struct lli_shm, counters.attach_errors)},
    {"shm_lapped", offsetof(struct lli_shm, counters.lapped)},
    {"shm_overwritten", offsetof(struct lli_shm, counters.overwritten)},
    {"shm_truncated", offsetof(struct lli_shm, counters.truncated)},
    {"shm_wakes", offsetof(struct lli_shm, counters.wakes)},
    {"shm_wakes_deferred", offsetof(struct lli_shm, counters.wakes_deferred)},
    {"shm_rings_empty", offsetof(struct lli_shm, counters.rings_empty)},
    {"shm_send_errors", offsetof(struct lli_shm, counters.send_errors)},
    {NULL, 0},
};

const struct lli_transport lli_transport_shm = {
    .scheme = "shm",
    .options = &lli_shm_option_table,
    .named = true,
    .size = sizeof(struct lli_shm),
    .counters = shm_counters,
    .open = lli_shm_open,
    .close = lli_shm_close,
    .abandon = lli_shm_abandon,
    .region_map = lli_shm_region_map,
    .region_end = lli_shm_region_end,
    .join = lli_shm_join,
    .leave = lli_shm_leave,
    .address = lli_shm_address,
    .peer = lli_shm_peer,
    .forget = lli_shm_forget,
    .report = lli_shm_report,
    .slot = shm_slot,
    .post_slot = shm_post_slot,
    .post = shm_post,
    .flush = lli_shm_flush,
    .reap = shm_reap,
    .receive = shm_receive,
    .release = shm_release,
    .arm = shm_arm,
    .drops = shm_drops,
    .excerpts = &shm_excerpt_calls,
};
