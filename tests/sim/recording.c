/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crashes of a store: a recorder and the recovery over a simulated disk.
 *
 *   sim_recording [--first N] [--seeds N]   runs that many recordings, with CRASHES crashes each
 *   sim_recording --seed N                  runs one again
 *
 * The disk writes sectors of 512 bytes; writes complete in any order, slowly, fail, or find the disk full. At a
 * crash of the machine, each sector of a write that is under way is on the disk or not; at one of the process, each of
 * these writes is, as the lock of a directory lasts until they have ended. Files have the contents of older ones
 * of the same session. After each crash what was acknowledged has to be there, in order and unchanged, and
 * nothing else. Exits with 1 at the
 * first violation, and prints its seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm/event.h"

#include "core/recording/recorder.h"

#define SESSION UINT64_C(0x1122334455667788)
#define FIRST ((lli_seq)1001) /* packet of the session */

enum {
    CRASHES = 10,
    FILES = 12, /* the oldest is removed when there are more */
    FILE_SIZE = LLI_SEGMENT_HEADER + 2 * LLI_RECORDER_BLOCK + (256 << 10),
    SECTOR = 512,
    TOPICS = 12,
    BODY_MAX = 1400,
};

struct file {
    uint64_t ordinal; /* its name */
    uint8_t *bytes;
    uint32_t writes; /* under way: the bytes are needed */
    bool removed;
};

struct flight {
    struct lli_write write;
    struct file *file;
    uint8_t *copy;
};

static struct sim {
    uint64_t seed;
    uint64_t random;
    uint8_t *memory;
    struct lli_recorder recorder;
    struct file *files[FILES + 1]; /* of the directory, in the order of their names */
    uint32_t count;
    struct file *current;
    struct file *ahead; /* of the segment that follows; NULL: none */
    struct flight flying[LLI_RECOVERY_FLIGHT];
    uint32_t flights;
    lli_seq sent; /* the next packet to be recorded */
    lli_seq sent_most;
    uint32_t names;
    uint32_t failing; /* one write of this many fails; 0: none */
    uint32_t full;    /* one request for a file of this many finds the disk full; 0: none */
    uint32_t slow;    /* percentage of turns in which no write completes */
    bool stopped;
    bool violated;
    uint64_t crashes, acknowledged;
} s;

static void sim_violation(const char *what, uint64_t at)
{
    if (!s.violated)
        (void)printf("FAILED: seed %llu: %s, at %llu\n", (unsigned long long)s.seed, what,
                     (unsigned long long)at);
    s.violated = true;
}

static uint32_t below(uint32_t limit)
{
    return (uint32_t)lli_random_below(&s.random, limit);
}

static void *sim_memory(size_t size)
{
    void *memory = aligned_alloc(LLI_BLOCK_ALIGN, lli_round_up(size, LLI_BLOCK_ALIGN));

    if (memory == NULL)
        abort();
    return memory;
}

/* ------------------------------------------------------------------------------------------------ packets */

/* Contents follow from the number of the packet: every 50th is lost with the nine behind it. */
static bool packet_is_lost(lli_seq seq)
{
    return seq % 50 == 0;
}

/* Writes a packet with one message, which has the number of the packet. Returns its size. */
static uint32_t packet_make(uint8_t *packet, lli_seq seq)
{
    const uint32_t body = (uint32_t)(seq * 7919 % BODY_MAX);
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .tag = (uint32_t)SESSION,
                                           .seq = (uint32_t)seq,
                                           .number = (uint32_t)seq,
                                           .size = (uint16_t)(LLI_WIRE_DATA_HEADER + body)};

    lli_wire_put_header(packet, &header);
    for (uint32_t i = 0; i < body; i++)
        packet[LLI_WIRE_DATA_HEADER + i] = (uint8_t)(seq * 31 + i);
    return header.size;
}

static bool record_one(void)
{
    uint8_t packet[LLI_WIRE_DATA_HEADER + BODY_MAX];
    const struct lli_record gap = {
        .next = s.sent + 10, .message = s.sent, .message_next = s.sent + 10, .reason = LLM_REASON_GONE};
    const lli_seq next = packet_is_lost(s.sent) ? gap.next : s.sent + 1;
    const bool added = packet_is_lost(s.sent)
                           ? lli_recorder_add_gap(&s.recorder, &gap, next)
                           : lli_recorder_add_packet(&s.recorder, packet, packet_make(packet, s.sent), next);

    if (added)
        s.sent = next;
    s.sent_most = lli_max(s.sent_most, s.sent);
    return added;
}

/* -------------------------------------------------------------------------------------------------- files */

static void file_release(struct file *file)
{
    if (!file->removed || file->writes > 0)
        return;
    free(file->bytes);
    free(file);
}

static void file_remove(uint32_t place)
{
    struct file *file = s.files[place];

    memmove(s.files + place, s.files + place + 1, (--s.count - place) * sizeof *s.files);
    file->removed = true;
    file_release(file);
}

/* Makes a file; another one of that name is replaced. It has what an older one had, with the header cleared. */
static struct file *file_make(uint64_t ordinal)
{
    struct file *file = calloc(1, sizeof *file);
    uint32_t place = 0;

    if (file == NULL)
        abort();
    file->ordinal = ordinal;
    file->bytes = sim_memory(FILE_SIZE);
    if (s.count > 1 && below(2) == 0)
        memcpy(file->bytes, s.files[0]->bytes, FILE_SIZE);
    else
        memset(file->bytes, 0, FILE_SIZE);
    memset(file->bytes, 0, LLI_SEGMENT_HEADER);
    while (place < s.count && s.files[place]->ordinal < ordinal)
        place++;
    if (place < s.count && s.files[place]->ordinal == ordinal)
        file_remove(place);
    memmove(s.files + place + 1, s.files + place, (s.count++ - place) * sizeof *s.files);
    s.files[place] = file;
    if (s.count > FILES)
        file_remove(0);
    return file;
}

/* Returns the file of a segment, made before if it was due soon. */
static struct file *file_of(uint64_t ordinal)
{
    struct file *last = s.count == 0 ? NULL : s.files[s.count - 1];

    return last != NULL && last == s.ahead && last->ordinal == ordinal ? last : file_make(ordinal);
}

/* --------------------------------------------------------------------------------------------------- disk */

static void begin_write(const struct lli_write *write)
{
    struct flight *flight = &s.flying[s.flights++];

    if (write->offset == 0) {
        if (s.full > 0 && below(s.full) == 0) {
            s.stopped = true;
            s.flights--;
            return;
        }
        s.current = file_of(write->ordinal);
        s.ahead = NULL;
        s.names = 0;
    } else if (s.ahead == NULL && write->offset > FILE_SIZE / 2) {
        s.ahead = file_make(s.recorder.ordinal);
    }
    *flight = (struct flight){.write = *write, .file = s.current, .copy = sim_memory(write->size)};
    memcpy(flight->copy, write->bytes, write->size);
    flight->file->writes++;
}

/* Has each sector reach the disk with a probability in percent. */
static void reach_disk(const struct flight *flight, uint32_t percent)
{
    uint8_t *to = flight->file->bytes + flight->write.offset;

    for (uint32_t at = 0; at < flight->write.size; at += SECTOR)
        if (below(100) < percent)
            memcpy(to + at, flight->copy + at, SECTOR);
}

static void end_write(struct flight *flight)
{
    flight->file->writes--;
    file_release(flight->file);
    free(flight->copy);
}

static void complete_one(void)
{
    const uint32_t i = below(s.flights);
    struct flight done = s.flying[i];
    const bool fails = s.failing > 0 && below(s.failing) == 0;

    if (memcmp(done.copy, done.write.bytes, done.write.size) != 0)
        sim_violation("bytes of a write changed while it was under way", done.write.offset);
    reach_disk(&done, fails ? 50 : 100);
    s.flying[i] = s.flying[--s.flights];
    lli_recorder_written(&s.recorder, done.write.id, !fails);
    end_write(&done);
}

static void add_names(void)
{
    static const uint8_t name[200];

    while (s.names < TOPICS &&
           lli_recorder_add_name(&s.recorder, &(struct lli_record){.kind = LLI_RECORD_NAME,
                                                                   .topic = s.names,
                                                                   .data = name,
                                                                   .size = sizeof name}))
        s.names++;
    if (s.names == TOPICS)
        lli_recorder_names_end(&s.recorder);
}

static void issue_all(void)
{
    struct lli_write write;

    while (!s.stopped) {
        while (!s.stopped && lli_recorder_next(&s.recorder, s.sent, s.sent, &write))
            begin_write(&write);
        if (s.stopped || s.recorder.phase != LLI_RECORDER_NAMES)
            return;
        add_names();
    }
}

static void run(lli_seq packets)
{
    const lli_seq until = s.sent + packets;

    for (uint32_t turn = 0; s.sent < until && turn < 50000; turn++) {
        if (s.stopped || s.recorder.phase == LLI_RECORDER_STOPPED)
            return;
        if (below(10) < 8 && record_one())
            continue;
        issue_all();
        if (s.flights > 0 && below(100) >= s.slow)
            complete_one();
    }
}

/* ----------------------------------------------------------------------------------------------- recovery */

struct found {
    struct lli_segment segment;
    struct file *file;
};

static int found_compare(const void *left, const void *right)
{
    const struct lli_segment *a = &((const struct found *)left)->segment;
    const struct lli_segment *b = &((const struct found *)right)->segment;

    return a->ordinal < b->ordinal ? -1 : a->ordinal > b->ordinal;
}

/* Reads the headers of all files, as a catalogue does. */
static uint32_t find_segments(struct found *found)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s.count; i++)
        if (lli_segment_get(s.files[i]->bytes, &found[count].segment) == LLI_SEGMENT_OK &&
            found[count].segment.ordinal == s.files[i]->ordinal)
            found[count++].file = s.files[i];
    qsort(found, count, sizeof *found, found_compare);
    return count;
}

static void check_record(const struct lli_record *record, lli_seq *next)
{
    uint8_t packet[LLI_WIRE_DATA_HEADER + BODY_MAX];

    if (record->kind == LLI_RECORD_NAME)
        return;
    if (record->packet != *next)
        sim_violation("a packet is not the one that follows", record->packet);
    if (record->next > s.sent_most)
        sim_violation("a packet was not sent", record->packet);
    if (record->kind != (packet_is_lost(record->packet) ? LLI_RECORD_GAP : LLI_RECORD_PACKET))
        sim_violation("a packet is a gap, or a gap is a packet", record->packet);
    else if (record->kind == LLI_RECORD_PACKET &&
             (record->size != packet_make(packet, record->packet) || record->message != record->packet ||
              memcmp(record->data, packet, record->size) != 0))
        sim_violation("a packet has other bytes", record->packet);
    *next = record->next;
}

/*
 * Reads the blocks of a segment that are before sequence `before`, and checks them. *numbered: one of them has
 * more than names. Returns how it ended.
 */
static enum lli_recovery_step read_segment(const struct found *found, uint64_t before,
                                           struct lli_recovery *recovery, lli_seq *next, bool *numbered)
{
    enum lli_recovery_step step = LLI_RECOVERY_READ;

    *numbered = false;
    lli_recovery_begin(recovery, &found->segment);
    while (step == LLI_RECOVERY_READ || step == LLI_RECOVERY_BLOCK) {
        struct lli_block_reader reader;
        struct lli_record record;
        const uint64_t offset = lli_min(recovery->offset, (uint64_t)FILE_SIZE);

        if (!recovery->found && recovery->next.sequence >= before)
            return LLI_RECOVERY_BLOCK;
        step = lli_recovery_step(recovery, found->file->bytes + offset, FILE_SIZE - offset);
        if (step != LLI_RECOVERY_BLOCK)
            continue;
        *numbered |= recovery->block.message != LLI_BLOCK_UNNUMBERED;
        reader = lli_block_records(found->file->bytes + recovery->offset, &recovery->block);
        while (lli_block_next(&reader, &record))
            check_record(&record, next);
    }
    return step;
}

/* Reads everything, and finds where the recording goes on. False: nothing is there. */
static bool recover(struct lli_segment *segment)
{
    struct found found[FILES + 1];
    const uint32_t count = find_segments(found);
    lli_seq next = count == 0 ? FIRST : found[0].segment.first.packet;
    struct lli_recovery recovery;
    bool numbered = false;

    for (uint32_t i = 0; i < count; i++) {
        const bool last = i + 1 == count;
        const enum lli_recovery_step step = read_segment(
            &found[i], last ? UINT64_MAX : found[i + 1].segment.first.sequence, &recovery, &next, &numbered);

        if (!last && recovery.next.sequence != found[i + 1].segment.first.sequence)
            sim_violation("a segment ends before the next one begins", next);
        if (last && step == LLI_RECOVERY_DAMAGED)
            sim_violation("damage is reported, and there is none", next);
    }
    if (count == 0)
        return false;
    *segment = found[count - 1].segment;
    /* A segment without packets is replaced by one of the same name. */
    if (numbered) {
        segment->first = recovery.next;
        segment->ordinal++;
    }
    return true;
}

/* Starts a store: at the end of the recording, if there is one. */
static void start(void)
{
    struct lli_segment segment = {.first = {.session = SESSION, .packet = FIRST, .message = FIRST},
                                  .start = FIRST,
                                  .size = FILE_SIZE,
                                  .channel = "loop://a:1"};

    (void)recover(&segment);
    if (s.ahead != NULL)
        file_remove(s.count - 1);
    s.ahead = NULL;
    s.sent = segment.first.packet;
    s.stopped = false;
    memset(s.memory, 0xa5, LLI_RECORDER_MEMORY);
    lli_recorder_init(&s.recorder, &segment, s.memory);
}

/* -------------------------------------------------------------------------------------------------- crash */

/* Some sectors of the writes under way are on the disk; the rest is lost. */
static void crash(void)
{
    const lli_seq durable = s.recorder.delivered > FIRST ? s.recorder.delivered : FIRST;
    const bool process_only = below(4) == 0;

    if (s.recorder.delivered > 0 && s.recorder.delivered != s.recorder.durable.packet)
        sim_violation("messages and packets that are acknowledged differ", s.recorder.delivered);
    for (uint32_t i = 0; i < s.flights; i++) {
        reach_disk(&s.flying[i], process_only ? 100 : below(4) * 33);
        end_write(&s.flying[i]);
    }
    s.flights = 0;
    start();
    if (s.sent < durable)
        sim_violation("acknowledged messages are lost", durable);
    s.acknowledged += durable - FIRST;
    s.crashes++;
}

static bool run_seed(uint64_t seed)
{
    memset(s.files, 0, sizeof s.files);
    s.seed = s.random = seed;
    s.count = s.flights = 0;
    s.sent = s.sent_most = FIRST;
    s.failing = below(3) == 0 ? 20 + below(60) : 0;
    s.full = below(4) == 0 ? 2 + below(6) : 0;
    s.slow = 20 + below(75);
    start();
    for (int i = 0; i < CRASHES && !s.violated; i++) {
        run(1 + below(below(4) == 0 ? 4000 : 400));
        crash();
    }
    while (s.count > 0)
        file_remove(0);
    s.ahead = NULL;
    return !s.violated;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, seeds = 100;

    for (int i = 1; i + 1 < argc; i += 2) {
        const uint64_t value = strtoull(argv[i + 1], NULL, 10);

        if (strcmp(argv[i], "--first") == 0 || strcmp(argv[i], "--seed") == 0)
            first = value;
        else if (strcmp(argv[i], "--seeds") == 0)
            seeds = value;
        if (strcmp(argv[i], "--seed") == 0)
            seeds = 1;
    }
    s.memory = sim_memory(LLI_RECORDER_MEMORY);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        if (!run_seed(seed))
            return EXIT_FAILURE;
    (void)printf("%llu crashes in %llu seeds from %llu, %llu messages acknowledged before them\n",
                 (unsigned long long)s.crashes, (unsigned long long)seeds, (unsigned long long)first,
                 (unsigned long long)s.acknowledged);
    free(s.memory);
    return EXIT_SUCCESS;
}
