/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of a store, made by the packer and the recorder, with a model of what is in them: blocks, packets
 * and messages.
 */
#ifndef LLI_TEST_DIRECTORY_H
#define LLI_TEST_DIRECTORY_H

#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "llm/llm.h"

#include "core/pack/pack.h"
#include "core/recording/recorder.h"
#include "store/catalogue.h"

#define DIRECTORY_SESSION UINT64_C(0x00c0ffee11223344)
#define DIRECTORY_CHANNEL "udp://239.1.2.3:5000"

enum {
    DIRECTORY_TOPICS = 6,
    DIRECTORY_MESSAGES = 1 << 16, /* at most */
    DIRECTORY_PACKETS = 1 << 15,
    DIRECTORY_BLOCKS = 4096,
    DIRECTORY_SEGMENT = LLI_SEGMENT_MIN,
    DIRECTORY_MESSAGE_MAX = 300000,
};

/* A block as it was written. */
struct directory_block {
    struct lli_block block;
    lli_seq next; /* packet after it */
    lli_seq segment;
    uint64_t offset;
};

struct directory_message {
    uint32_t size;
    uint32_t topic;
    uint32_t label; /* 0: sent without attributes */
    lli_seq end;    /* packet with its last byte */
    bool skipped;   /* the session has no message of this number */
};

struct directory {
    char path[64];
    uint64_t random;
    uint64_t session;
    lli_ns wall;
    struct lli_arena arena;
    struct lli_history history;
    struct lli_pack pack;
    lli_seq taken;   /* packets before this one were recorded or dropped */
    uint32_t topics; /* announced */
    lli_seq announced[DIRECTORY_TOPICS];
    struct lli_recorder recorder;
    uint8_t *memory;
    int fd;
    uint64_t segment;      /* number of the one being written */
    lli_seq segment_first; /* its first packet */
    lli_seq recorded_from;
    struct lli_index_entry entry;
    bool indexed;
    bool index; /* index files are written */
    struct lli_segment_stream stream;

    uint64_t messages; /* number of the next one */
    struct directory_message *message;
    uint64_t *number; /* by packet: of the first message that starts there or later */
    bool *dropped;    /* by packet */
    struct directory_block *block;
    uint32_t blocks;
    uint32_t segments;
    bool skips; /* now and then numbers are left out */
    bool ended;
};

static const char *const directory_topics[DIRECTORY_TOPICS] = {"prices.a", "prices.b", "orders",
                                                               "trades",   "late.x",   "late.y"};

static inline void directory_file(const struct directory *d, uint64_t segment, const char *suffix, char *path)
{
    (void)sprintf(path, "%.63s/%016llx/%016llx.%s", d->path, (unsigned long long)d->session,
                  (unsigned long long)segment, suffix);
}

/* ---------------------------------------------------------------------------------------------- open */

static inline void directory_make_path(char *path)
{
    (void)strcpy(path, "/tmp/llm-store-XXXXXX");
    assert_non_null(mkdtemp(path));
}

/* Begins a session, of packets of at most packet_max bytes, in a directory that exists. */
static inline void directory_begin(struct directory *d, const char *path, uint64_t session, uint64_t seed,
                                   uint32_t packet_max)
{
    struct lli_history_config config = {
        .bytes = 4 << 20, .packets = 4096, .packet_max = packet_max, .align = 8};
    char folder[96];

    *d = (struct directory){.random = seed, .session = session, .wall = 1000000000, .fd = -1, .index = true};
    (void)snprintf(d->path, sizeof d->path, "%s", path);
    (void)snprintf(folder, sizeof folder, "%s/%016llx", path, (unsigned long long)session);
    assert_int_equal(mkdir(folder, 0755), 0);
    lli_history_init(&d->history, &config, &d->arena);
    arena_fill(&d->arena);
    lli_history_init(&d->history, &config, &d->arena);
    lli_pack_init(&d->pack, &d->history, (uint32_t)session);
    d->memory = aligned_alloc(LLI_BLOCK_ALIGN, LLI_RECORDER_MEMORY);
    d->message = calloc(DIRECTORY_MESSAGES, sizeof *d->message);
    d->number = calloc(DIRECTORY_PACKETS, sizeof *d->number);
    d->dropped = calloc(DIRECTORY_PACKETS, sizeof *d->dropped);
    d->block = calloc(DIRECTORY_BLOCKS, sizeof *d->block);
    assert_non_null(d->memory);
    assert_non_null(d->block);
}

/* The recording begins with the next packet. */
static inline void directory_record(struct directory *d)
{
    struct lli_segment segment = {
        .first = {.session = d->session, .packet = d->taken, .message = d->messages},
        .start = 0,
        .size = DIRECTORY_SEGMENT,
        .stream = d->stream,
        .channel = DIRECTORY_CHANNEL};

    d->recorded_from = d->taken;
    lli_recorder_init(&d->recorder, &segment, d->memory);
}

static inline void directory_end(struct directory *d)
{
    if (d->fd >= 0)
        close(d->fd);
    free(d->arena.memory);
    free(d->memory);
    free(d->message);
    free(d->number);
    free(d->dropped);
    free(d->block);
}

/* Removes a directory with its folders and files. */
static inline void directory_remove(const char *path)
{
    DIR *folder = opendir(path);
    char name[512];

    for (struct dirent *entry = folder == NULL ? NULL : readdir(folder); entry != NULL;
         entry = readdir(folder)) {
        struct stat file;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (lstat(name, &file) == 0 && S_ISDIR(file.st_mode)) {
            DIR *inner = opendir(name);

            for (struct dirent *at = inner == NULL ? NULL : readdir(inner); at != NULL; at = readdir(inner)) {
                char deep[800];

                (void)snprintf(deep, sizeof deep, "%s/%s", name, at->d_name);
                (void)unlink(deep);
            }
            if (inner != NULL)
                closedir(inner);
            (void)rmdir(name);
        } else {
            (void)unlink(name);
        }
    }
    if (folder != NULL)
        closedir(folder);
    (void)rmdir(path);
}

/* ---------------------------------------------------------------------------------------------- write */

/* A segment is begun, in a new file, which may replace one that has nothing but names. */
static inline void directory_begin_segment(struct directory *d, const uint8_t *header)
{
    struct lli_segment segment;
    char path[128], made[96];

    assert_int_equal(lli_segment_get(header, &segment), LLI_SEGMENT_OK);
    while (d->blocks > 0 && d->block[d->blocks - 1].block.sequence >= segment.first.sequence)
        d->blocks--;
    if (d->fd >= 0)
        close(d->fd);
    (void)snprintf(made, sizeof made, "%.63s/made", d->path);
    d->fd = open(made, O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_true(d->fd >= 0);
    assert_int_equal(ftruncate(d->fd, DIRECTORY_SEGMENT), 0);
    directory_file(d, segment.ordinal, "segment", path);
    assert_int_equal(rename(made, path), 0);
    d->segment = segment.ordinal;
    d->segment_first = segment.first.packet;
    d->indexed = false;
    d->segments++;
    directory_file(d, d->segment, "index", path);
    (void)unlink(path);
}

static inline void directory_index(struct directory *d, const struct lli_block *block, lli_ns before,
                                   uint64_t offset)
{
    uint8_t bytes[LLI_INDEX_ENTRY];
    char path[128];
    int fd;

    if (!d->index || !lli_index_wants(d->indexed ? &d->entry : NULL, block, offset))
        return;
    d->entry = (struct lli_index_entry){
        .packet = block->packet, .message = block->message, .wall = before, .offset = offset};
    d->indexed = true;
    lli_index_put(bytes, &d->entry);
    directory_file(d, d->segment, "index", path);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
    close(fd);
}

static inline void directory_apply(struct directory *d, const struct lli_write *write)
{
    const lli_ns before = d->blocks == 0 ? 0 : d->block[d->blocks - 1].block.wall;
    struct directory_block *block = d->block + d->blocks;
    struct lli_block_position next;

    if (write->offset == 0)
        directory_begin_segment(d, write->bytes);
    assert_int_equal(pwrite(d->fd, write->bytes, write->size, (off_t)write->offset), write->size);
    if (write->offset == 0)
        return;
    assert_true(d->blocks < DIRECTORY_BLOCKS);
    assert_int_equal(lli_block_check(write->bytes, write->size, NULL, &block->block, &next), LLI_BLOCK_OK);
    block->next = next.packet;
    block->segment = d->segment;
    block->offset = write->offset;
    directory_index(d, &block->block, before, write->offset);
    d->blocks++;
}

static inline void directory_names(struct directory *d)
{
    for (uint32_t topic = 0; topic < d->topics; topic++) {
        const char *name = directory_topics[topic];

        const struct lli_record record = {.kind = LLI_RECORD_NAME,
                                          .topic = topic,
                                          .data = (const uint8_t *)name,
                                          .size = (uint32_t)strlen(name)};

        if (d->announced[topic] < d->recorder.durable.packet)
            assert_true(lli_recorder_add_name(&d->recorder, &record));
    }
    lli_recorder_names_end(&d->recorder);
}

/* Writes what is there; fails: one of the writes fails after it was made. */
static inline void directory_write(struct directory *d, bool fails)
{
    struct lli_write writes[2];
    uint32_t count;

    d->wall += 1 + below(&d->random, 5000);
    do {
        count = 0;
        while (count < 2 && lli_recorder_next(&d->recorder, d->wall, d->wall, writes + count))
            directory_apply(d, writes + count++);
        for (uint32_t i = 0; i < count; i++)
            lli_recorder_written(&d->recorder, writes[i].id,
                                 !(fails && writes[i].offset != 0 && i + 1 == count));
        fails = fails && !(count > 0 && writes[count - 1].offset != 0);
        if (d->recorder.phase == LLI_RECORDER_NAMES)
            directory_names(d);
    } while (count > 0 || d->recorder.phase == LLI_RECORDER_FAILED ||
             d->recorder.names.state != LLI_SLOT_EMPTY);
    assert_int_equal(d->recorder.used, 0);
}

/* ----------------------------------------------------------------------------------------------- send */

/* Notes the packets that were sealed. They are not recorded yet. */
static inline void directory_note(struct directory *d, lli_seq seq)
{
    d->number[seq] = lli_seq_extend(d->messages, lli_wire_number(lli_history_packet(&d->history, seq)));
}

/* Records all packets that were sealed; drop: or loses them. */
static inline void directory_take(struct directory *d, bool drop)
{
    for (; d->taken < d->history.next && !drop; d->taken++) {
        const struct lli_history_slot *slot = lli_history_slot(&d->history, d->taken);

        directory_note(d, d->taken);
        while (!lli_recorder_add_packet(&d->recorder, lli_history_bytes(&d->history, slot), slot->size, 0))
            directory_write(d, false);
    }
    for (; d->taken < d->history.next; d->taken++) {
        directory_note(d, d->taken);
        d->dropped[d->taken] = true;
    }
}

static inline void directory_send(struct directory *d, uint32_t topic, uint32_t size, uint32_t label)
{
    static uint8_t data[DIRECTORY_MESSAGE_MAX];
    const struct lli_pack_topic to = {.id = topic};
    struct lli_pack_attributes attributes = {.label = label, .size = LLI_FRAME_HEAD + 4};
    struct iovec piece[2] = {{.iov_base = data, .iov_len = size}, {.iov_base = data}};
    struct directory_message *message = d->message + d->messages;

    assert_true(d->messages < DIRECTORY_MESSAGES);
    pattern_fill(data, size, d->messages);
    *message = (struct directory_message){.size = size, .topic = topic, .label = label};
    attributes.frame[0] = LLI_FRAME_ATTRIBUTES;
    lli_store_u16(attributes.frame + 1, 4);
    lli_store_u32(attributes.frame + LLI_FRAME_HEAD, label);
    if (label != 0) {
        lli_pack_attribute(&d->pack, &attributes);
        assert_true(lli_pack_message(&d->pack, &to, piece, size, d->history.next));
        lli_pack_attribute(&d->pack, NULL);
    } else {
        assert_true(lli_pack_message(&d->pack, &to, piece, size, d->history.next));
    }
    d->messages++;
    message->end = d->history.next - !lli_pack_pending(&d->pack);
}

static inline void directory_skip(struct directory *d, uint32_t count)
{
    assert_true(lli_pack_skip(&d->pack, count, d->history.next));
    for (uint32_t i = 0; i < count; i++)
        d->message[d->messages++] = (struct directory_message){.end = d->history.next - 1, .skipped = true};
}

static inline void directory_announce(struct directory *d, uint32_t topic)
{
    const char *name = directory_topics[topic];

    assert_int_equal(topic, d->topics);
    assert_true(lli_pack_announce(&d->pack, topic, name, strlen(name), d->history.next));
    d->announced[topic] = d->history.next;
    d->topics++;
}

/* The first message that is not complete before a packet. */
static inline uint64_t directory_complete_before(const struct directory *d, lli_seq packet)
{
    uint64_t number = d->messages;

    while (number > 0 && d->message[number - 1].end >= packet)
        number--;
    return number;
}

/* Sends messages of random sizes whose packets are lost, and records the gap. The next packet is recorded. */
static inline void directory_lose(struct directory *d, uint32_t messages)
{
    struct lli_record gap = {.kind = LLI_RECORD_GAP, .reason = LLM_REASON_GONE};

    lli_pack_flush(&d->pack);
    directory_take(d, false);
    gap.packet = d->taken;
    for (uint32_t i = 0; i < messages; i++)
        directory_send(d, below(&d->random, d->topics), below(&d->random, 3000), 0);
    /* Often in the middle of a message. */
    if (chance(&d->random, 50) || d->history.next == d->taken)
        lli_pack_flush(&d->pack);
    directory_take(d, true);
    directory_send(d, 0, 10, 0);
    lli_pack_flush(&d->pack);
    directory_note(d, d->taken);
    gap.next = d->taken;
    gap.message = directory_complete_before(d, gap.packet);
    gap.message_next = d->number[d->taken];
    while (!lli_recorder_add_gap(&d->recorder, &gap, 0))
        directory_write(d, false);
    directory_take(d, false);
}

/* A random step: some messages, sometimes long ones, gaps, a write. */
static inline void directory_step(struct directory *d, bool gaps, bool failures)
{
    const uint32_t count = 1 + below(&d->random, 40);

    if (d->skips && chance(&d->random, 30))
        directory_skip(d, 1 + below(&d->random, 100));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t size = chance(&d->random, 2) ? below(&d->random, 30000) : below(&d->random, 400);

        directory_send(d, below(&d->random, d->topics), size, chance(&d->random, 20) ? 1 + i : 0);
        directory_take(d, false);
    }
    if (chance(&d->random, 30))
        lli_pack_flush(&d->pack);
    if (gaps && chance(&d->random, 5))
        directory_lose(d, 1 + below(&d->random, 5));
    if (d->topics < DIRECTORY_TOPICS && chance(&d->random, 5)) {
        directory_announce(d, d->topics);
        lli_pack_flush(&d->pack);
    }
    directory_take(d, false);
    if (chance(&d->random, 40))
        directory_write(d, failures && chance(&d->random, 10));
}

/* Everything that was sent is on the disk then. */
static inline void directory_finish(struct directory *d, bool ends)
{
    lli_pack_flush(&d->pack);
    directory_take(d, false);
    if (ends)
        while (!lli_recorder_add_end(&d->recorder, d->messages, LLM_REASON_CLOSED))
            directory_write(d, false);
    d->ended = ends;
    directory_write(d, false);
}

/*
 * Makes a recording of some segments. early: messages that were sent, and topics announced, before it began.
 */
static inline void directory_fill(struct directory *d, uint32_t segments, bool early, bool gaps,
                                  bool failures)
{
    for (uint32_t topic = 0; topic < 3; topic++)
        directory_announce(d, topic);
    for (uint32_t i = 0; i < (early ? 50 : 0); i++)
        directory_send(d, i % 3, 200, 0);
    if (early) {
        lli_pack_flush(&d->pack);
        directory_take(d, true);
    }
    directory_record(d);
    while (d->segments < segments)
        directory_step(d, gaps, failures);
}

/* The packet in which a message starts. */
static inline lli_seq directory_start_of(const struct directory *d, uint64_t number)
{
    lli_seq packet = d->message[number].end;

    while (d->number[packet] > number)
        packet--;
    return packet;
}

/* True if all of a message was recorded, in packets before `end`. */
static inline bool directory_has(const struct directory *d, uint64_t number, lli_seq end)
{
    const lli_seq first = directory_start_of(d, number), last = d->message[number].end;

    if (d->message[number].skipped || first < d->recorded_from || last >= end)
        return false;
    for (lli_seq packet = first; packet <= last; packet++)
        if (d->dropped[packet])
            return false;
    return true;
}

static inline void directory_quiet(void *arg, enum llm_level level, const char *text)
{
    char *kept = arg;

    (void)level;
    if (kept != NULL)
        (void)snprintf(kept, 512, "%s", text);
}

#endif
