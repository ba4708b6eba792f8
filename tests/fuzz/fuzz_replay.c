/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay of a store's directory. The input is an edit script: records of blocks in two segments, with right hashes;
 * changes of their bytes; an index; options of the replay. Whatever is there, each session begins and ends once,
 * and message numbers rise, with every number that is left out in a gap.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <llm/llm.h>

#include "core/recording/recovery.h"
#include "fuzz.h"
#include "store/cursor.h"

enum {
    SEGMENT = LLI_SEGMENT_MIN,
    BLOCKS_MAX = 8,
    BLOCK = 2 * LLI_BLOCK_ALIGN,
    EDITS_MAX = 8,
    ENTRIES_MAX = 4
};

#define SESSION 7

static char path[64];
static uint8_t bytes[LLI_SEGMENT_HEADER + BLOCKS_MAX * BLOCK];

struct follow {
    struct llm_replay *replay;
    uint64_t next; /* number that comes next, at least */
    bool in_session;
};

static void quiet(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    fuzz_touch(text, strlen(text));
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct follow *follow = arg;
    struct llm_attributes attributes;

    FUZZ_CHECK(follow->in_session && message->session == SESSION);
    FUZZ_CHECK(message->number == follow->next);
    follow->next = message->number + 1;
    fuzz_touch(message->data, message->size);
    fuzz_touch(message->topic, strlen(message->topic));
    llm_attributes_init(&attributes);
    FUZZ_CHECK(llm_replay_attributes(follow->replay, message, &attributes) == LLM_OK);
    fuzz_touch(attributes.bitmap, attributes.bitmap_bits / 8);
    for (uint32_t i = 0; i < attributes.properties_count; i++)
        if (attributes.properties[i].type == LLM_PROPERTY_BYTES)
            fuzz_touch(attributes.properties[i].value.bytes.data, attributes.properties[i].value.bytes.size);
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct follow *follow = arg;

    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        FUZZ_CHECK(!follow->in_session);
        follow->in_session = true;
        follow->next = event->first;
        break;
    case LLM_EVENT_TOPIC_NEW:
        FUZZ_CHECK(follow->in_session && event->topic[0] != '\0');
        break;
    case LLM_EVENT_GAP:
        FUZZ_CHECK(follow->in_session && event->first == follow->next && event->last + 1 >= event->first);
        follow->next = event->last + 1;
        break;
    default:
        FUZZ_CHECK(event->kind == LLM_EVENT_SESSION_END && follow->in_session);
        follow->in_session = false;
        break;
    }
}

static void on_recording(void *arg, const struct llm_recording *recording)
{
    (void)arg;
    FUZZ_CHECK(recording->session == SESSION && recording->packet_next >= recording->packet_first);
}

static void remove_directory(void)
{
    char line[96];

    (void)snprintf(line, sizeof line, "rm -rf %s", path);
    if (system(line) != 0)
        fprintf(stderr, "%s stays\n", path);
}

static void make_directory(void)
{
    char folder[96];

    (void)strcpy(path, "/dev/shm/llm-fuzz-XXXXXX");
    FUZZ_CHECK(mkdtemp(path) != NULL);
    (void)snprintf(folder, sizeof folder, "%s/%016x", path, SESSION);
    FUZZ_CHECK(mkdir(folder, 0755) == 0);
    (void)atexit(remove_directory);
}

static void write_file(uint64_t ordinal, const char *suffix, const void *data, size_t size, off_t whole)
{
    char file[128];
    int fd;

    (void)snprintf(file, sizeof file, "%s/%016x/%016llx.%s", path, SESSION, (unsigned long long)ordinal,
                   suffix);
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && ftruncate(fd, whole) == 0);
    close(fd);
}

/* Writes a segment whose records are those of the input, and moves *next behind its last whole block. */
static void write_segment(struct fuzz_input *input, uint64_t ordinal, struct lli_block_position *next)
{
    const struct lli_segment segment = {
        .first = *next, .ordinal = ordinal, .size = SEGMENT, .wall = ordinal, .channel = "loop://a:1"};
    uint64_t end = LLI_SEGMENT_HEADER;

    lli_segment_put(bytes, &segment);
    for (uint32_t blocks = fuzz_u8(input) % BLOCKS_MAX; blocks > 0; blocks--) {
        struct lli_block_builder builder;
        struct lli_block_position after;
        struct lli_block block;
        uint32_t size;
        size_t got;
        uint8_t *records = fuzz_bytes(input, 1u + fuzz_u16(input) % (BLOCK - LLI_BLOCK_HEADER), &got);

        lli_block_begin(&builder, bytes + end, BLOCK, next);
        memcpy(bytes + end + LLI_BLOCK_HEADER, records, got);
        free(records);
        builder.used += (uint32_t)(got == 0 ? 1 : got);
        builder.message = got > 1 && (builder.bytes[LLI_BLOCK_HEADER] == LLI_RECORD_NAME ||
                                      builder.bytes[LLI_BLOCK_HEADER] == LLI_RECORD_HIDDEN_NAME)
                              ? LLI_BLOCK_UNNUMBERED
                              : next->message;
        size = lli_block_seal(&builder, next->wall + 10, end, &after);
        if (lli_block_check(bytes + end, size, next, &block, &after) == LLI_BLOCK_OK)
            *next = after;
        end += size;
    }
    for (uint32_t edits = fuzz_u8(input) % EDITS_MAX; edits > 0; edits--)
        bytes[fuzz_u32(input) % end] ^= fuzz_u8(input);
    write_file(ordinal, "segment", bytes, end, SEGMENT);
}

static void write_index(struct fuzz_input *input, lli_seq packet)
{
    uint8_t entries[ENTRIES_MAX * LLI_INDEX_ENTRY];
    const uint32_t count = fuzz_u8(input) % (ENTRIES_MAX + 1);

    for (uint32_t i = 0; i < count; i++) {
        const struct lli_index_entry entry = {.packet = packet + fuzz_u8(input),
                                              .message = fuzz_u8(input),
                                              .wall = fuzz_u8(input),
                                              .offset = (uint64_t)fuzz_u8(input) * LLI_BLOCK_ALIGN};

        lli_index_put(entries + i * (size_t)LLI_INDEX_ENTRY, &entry);
    }
    write_file(1, "index", entries, count * (size_t)LLI_INDEX_ENTRY, count * (off_t)LLI_INDEX_ENTRY);
}

static void replay_all(struct fuzz_input *input)
{
    static const enum llm_join_mode modes[] = {LLM_JOIN_OLDEST, LLM_JOIN_MESSAGES, LLM_JOIN_TIME,
                                               LLM_JOIN_NUMBER};
    struct llm_receiver_handlers handlers;
    struct llm_replay_options options;
    struct follow follow = {.next = 0};

    llm_replay_options_init(&options);
    options.from = modes[fuzz_u8(input) % 4];
    options.value = fuzz_u8(input);
    options.skip_damage = fuzz_u8(input) % 2 == 0;
    options.message_bytes_max = 1u + fuzz_u16(input);
    if (fuzz_u8(input) % 4 == 1)
        options.until_number = fuzz_u8(input);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = &follow;
    handlers.message = on_message;
    handlers.event = on_event;
    FUZZ_CHECK(llm_replay_open(path, &options, &handlers, quiet, NULL, &follow.replay) == LLM_OK);
    for (;;) {
        const int delivered = llm_replay_next(follow.replay, 3);

        if (delivered == 0)
            break;
        /* LLM_EACCESS: a packet is protected by keys. */
        FUZZ_CHECK(delivered > 0 || delivered == LLM_EDAMAGED || delivered == LLM_ENOTFOUND ||
                   delivered == LLM_EACCESS);
    }
    FUZZ_CHECK(!follow.in_session);
    FUZZ_CHECK(llm_replay_close(&follow.replay) == LLM_OK);
}

static void recover(struct fuzz_input *input)
{
    const struct lli_log log = {.function = quiet, .level = LLM_LEVEL_WARNING};
    const uint64_t value = fuzz_u8(input);
    struct lli_catalogue *catalogue = NULL;

    FUZZ_CHECK(lli_catalogue_open(path, &log, &catalogue) == LLM_OK);
    for (uint32_t i = 0; i < catalogue->count; i++) {
        struct lli_cursor *cursor = NULL;
        struct lli_recording_end end;

        FUZZ_CHECK(lli_cursor_open(catalogue, catalogue->recordings[i], &log, &cursor) == LLM_OK);
        if (lli_cursor_recover(cursor, value << 8, &end) == LLM_OK)
            FUZZ_CHECK(end.delivered <= end.messages && end.resume <= end.next.packet);
        for (int key = LLI_INDEX_PACKET; key <= LLI_INDEX_WALL; key++)
            (void)lli_cursor_seek(cursor, (enum lli_index_key)key, value);
        lli_cursor_close(&cursor);
    }
    lli_catalogue_close(&catalogue);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lli_block_position next = {.session = SESSION, .sequence = 1, .packet = 100, .message = 5};
    struct fuzz_input input = fuzz_input_of(data, size);
    lli_seq second;

    if (path[0] == '\0')
        make_directory();
    write_segment(&input, 0, &next);
    second = next.packet;
    write_segment(&input, 1, &next);
    write_index(&input, second);
    replay_all(&input);
    recover(&input);
    (void)llm_replay_recordings(path, on_recording, NULL, quiet, NULL);
    return 0;
}

/* Appends a record of a packet with a body, whose first message has this number. */
static size_t seed_packet(uint8_t *at, uint32_t seq, uint32_t number, uint16_t first, const char *body,
                          size_t size)
{
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .tag = SESSION,
                                           .seq = seq,
                                           .number = number,
                                           .first = first,
                                           .size = (uint16_t)(LLI_WIRE_DATA_HEADER + size)};

    lli_store_u16(at, header.size);
    lli_wire_put_header(at + 2, &header);
    memcpy(at + 2 + LLI_WIRE_DATA_HEADER, body, size);
    return 2 + (size_t)header.size;
}

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    /* A name; messages with attributes; one that spans two packets, the second of them in the second segment. */
    static const uint8_t name[] = {2, 0, 0, 0, 0, 0, 1, 'a'};
    static const uint8_t gap[] = {1, 0, 110, 0, 0,  0, 0, 0, 0, 0, 9, 0, 0, 0,
                                  0, 0, 0,   0, 12, 0, 0, 0, 0, 0, 0, 0, 3};
    static const uint8_t end[] = {3, 0, 12, 0, 0, 0, 0, 0, 0, 0, 1};
    static const char attributes[] = "\xf1\x0a\0\1\2\3\4\1\x80\5\0\1\0\3one\xf0\6\0\1\0\0\0bc\2ok";
    uint8_t seed[512] = {2, sizeof name - 1, 0};
    size_t used = 3, count;

    memcpy(seed + used, name, sizeof name);
    used += sizeof name;
    count = used;
    used += 2;
    used += seed_packet(seed + used, 100, 5, 0, attributes, sizeof attributes - 1);
    used += seed_packet(seed + used, 101, 7, 0, "\3six\5sp", 7);
    lli_store_u16(seed + count, (uint16_t)(used - count - 3));
    seed[used++] = 0; /* no edits */
    seed[used++] = 2;
    count = used;
    used += 2;
    used += seed_packet(seed + used, 102, 9, 3, "ans", 3);
    memcpy(seed + used, gap, sizeof gap);
    used += sizeof gap;
    lli_store_u16(seed + count, (uint16_t)(used - count - 3));
    seed[used++] = sizeof end - 1;
    seed[used++] = 0;
    memcpy(seed + used, end, sizeof end);
    used += sizeof end;
    memcpy(seed + used, "\0\1\3\7\12\1\0\0\0\0\1", 12);
    used += 12;
    emit(arg, seed, used);
    emit(arg, seed, used / 2);
    emit(arg, seed, 1);
}
