/* SPDX-License-Identifier: Apache-2.0 */
#include "core/recording/block.h"

#include "core/base/hash.h"

/* "llmblock", little-endian. */
#define BLOCK_MAGIC UINT64_C(0x6b636f6c626d6c6c)

/* Offsets in the header. */
enum {
    AT_HASH = 0,
    AT_MAGIC = 8,
    AT_SIZE = 16,
    AT_USED = 20,
    AT_SESSION = 24,
    AT_SEQUENCE = 32,
    AT_PREVIOUS = 40,
    AT_PACKET = 48,
    AT_MESSAGE = 56,
    AT_WALL = 64,
    AT_STEADY = 72,
};

enum {
    RECORD_SIZE = 2, /* bytes before a packet: its size; smaller values are kinds of other records */
    GAP_SIZE = RECORD_SIZE + 25,
    NAME_SIZE = RECORD_SIZE + 5, /* without the name */
    HIDDEN_SIZE = RECORD_SIZE + 6,
    END_SIZE = RECORD_SIZE + 9,
};

/* ----------------------------------------------------------------------------------------------- hash */

/* Offset in a block of a piece of its records. */
static uint32_t block_piece_at(uint32_t piece)
{
    return LLI_BLOCK_HEADER + piece * LLI_BLOCK_PIECE;
}

/*
 * Returns the hash of a block: that of its header and of the hashes of all pieces of its records.
 * hashes: of the first count pieces, which are known.
 */
static uint64_t block_hash(const uint8_t *bytes, uint32_t used, const uint64_t *hashes, uint32_t count)
{
    uint8_t hashed[LLI_BLOCK_HEADER - AT_MAGIC + LLI_BLOCK_PIECES * sizeof *hashes];
    size_t size = LLI_BLOCK_HEADER - AT_MAGIC;

    memcpy(hashed, bytes + AT_MAGIC, size);
    for (uint32_t piece = 0; block_piece_at(piece) < used; piece++) {
        const uint32_t at = block_piece_at(piece);

        lli_store_u64(hashed + size, piece < count
                                         ? hashes[piece]
                                         : lli_hash(bytes + at, lli_min(used - at, LLI_BLOCK_PIECE)));
        size += sizeof *hashes;
    }
    return lli_hash(hashed, size);
}

/* ---------------------------------------------------------------------------------------------- write */

void lli_block_begin(struct lli_block_builder *builder, uint8_t *bytes, uint32_t capacity,
                     const struct lli_block_position *at)
{
    assert(capacity % LLI_BLOCK_ALIGN == 0 && capacity > 0 && capacity <= LLI_BLOCK_MAX);
    *builder = (struct lli_block_builder){.bytes = bytes,
                                          .capacity = capacity,
                                          .used = LLI_BLOCK_HEADER,
                                          .message = LLI_BLOCK_UNNUMBERED,
                                          .at = *at,
                                          .next = *at};
}

/* Takes room for a record. NULL: there is none. */
static uint8_t *block_take(struct lli_block_builder *builder, uint32_t size)
{
    uint8_t *at = builder->bytes + builder->used;

    if (size > builder->capacity - builder->used)
        return NULL;
    builder->used += size;
    return at;
}

/* The first record with a message number tells that of the block. */
static void block_number(struct lli_block_builder *builder, uint64_t message)
{
    if (builder->message == LLI_BLOCK_UNNUMBERED)
        builder->message = message;
    builder->next.message = message;
}

/* Hashes complete pieces while they are in the near caches. */
static void block_hash_pieces(struct lli_block_builder *builder)
{
    while (builder->used >= block_piece_at(builder->pieces + 1)) {
        builder->hashes[builder->pieces] =
            lli_hash(builder->bytes + block_piece_at(builder->pieces), LLI_BLOCK_PIECE);
        builder->pieces++;
    }
}

/* Fetches the lines of the next packet, which is likely as large: blocks are larger than the near caches. */
static void block_prefetch(const struct lli_block_builder *builder, uint32_t size)
{
    const uint8_t *at = builder->bytes + builder->used;
    const uint32_t bytes = (uint32_t)lli_min(size, builder->capacity - builder->used);

    for (uint32_t line = 0; line < bytes; line += 64)
        __builtin_prefetch(at + line, 1);
}

bool lli_block_add_packet(struct lli_block_builder *builder, const uint8_t *packet, uint32_t size)
{
    uint8_t *at;

    assert(size >= LLI_WIRE_HEADER && size <= LLI_BLOCK_PACKET_MAX);
    at = block_take(builder, RECORD_SIZE + size);
    if (at == NULL)
        return false;
    lli_store_u16(at, (uint16_t)size);
    memcpy(at + RECORD_SIZE, packet, size);
    block_number(builder, lli_seq_extend(builder->next.message, lli_wire_number(packet)));
    builder->next.packet++;
    block_hash_pieces(builder);
    block_prefetch(builder, RECORD_SIZE + size);
    return true;
}

bool lli_block_add_gap(struct lli_block_builder *builder, const struct lli_record *gap)
{
    uint8_t *at = block_take(builder, GAP_SIZE);

    if (at == NULL)
        return false;
    lli_store_u16(at, LLI_RECORD_GAP);
    lli_store_u64(at + 2, gap->next);
    lli_store_u64(at + 10, gap->message);
    lli_store_u64(at + 18, gap->message_next);
    at[26] = gap->reason;
    block_number(builder, gap->message);
    builder->next.message = gap->message_next;
    builder->next.packet = gap->next;
    return true;
}

bool lli_block_add_name(struct lli_block_builder *builder, const struct lli_record *name)
{
    const uint32_t head = name->kind == LLI_RECORD_HIDDEN_NAME ? HIDDEN_SIZE : NAME_SIZE;
    uint8_t *at = block_take(builder, head + name->size);

    assert(name->size <= (name->kind == LLI_RECORD_HIDDEN_NAME ? UINT16_MAX : UINT8_MAX));
    if (at == NULL)
        return false;
    lli_store_u16(at, (uint16_t)name->kind);
    lli_store_u32(at + 2, name->topic);
    if (name->kind == LLI_RECORD_HIDDEN_NAME)
        lli_store_u16(at + 6, (uint16_t)name->size);
    else
        at[6] = (uint8_t)name->size;
    memcpy(at + head, name->data, name->size);
    return true;
}

bool lli_block_add_end(struct lli_block_builder *builder, uint64_t messages, uint8_t reason)
{
    uint8_t *at = block_take(builder, END_SIZE);

    if (at == NULL)
        return false;
    lli_store_u16(at, LLI_RECORD_END);
    lli_store_u64(at + 2, messages);
    at[10] = reason;
    block_number(builder, messages);
    return true;
}

void lli_block_split(struct lli_block_builder *builder, const struct lli_block_mark *mark,
                     struct lli_block_builder *rest, uint8_t *bytes)
{
    const uint32_t size = builder->used - mark->used;

    assert(mark->used > LLI_BLOCK_HEADER && mark->used < builder->used);
    lli_block_begin(rest, bytes, builder->capacity, &mark->next);
    memcpy(rest->bytes + rest->used, builder->bytes + mark->used, size);
    rest->used += size;
    rest->message = mark->message;
    rest->next = builder->next;
    builder->used = mark->used;
    builder->next = mark->next;
    builder->pieces = (uint32_t)lli_min(builder->pieces, (mark->used - LLI_BLOCK_HEADER) / LLI_BLOCK_PIECE);
}

uint32_t lli_block_seal(struct lli_block_builder *builder, lli_ns wall, lli_ns steady,
                        struct lli_block_position *next)
{
    const uint32_t size = (uint32_t)lli_round_up(builder->used, LLI_BLOCK_ALIGN);
    const lli_ns later = lli_max(wall, builder->at.wall);
    uint8_t *bytes = builder->bytes;

    assert(builder->used > LLI_BLOCK_HEADER);
    memset(bytes + builder->used, 0, size - builder->used);
    lli_store_u64(bytes + AT_MAGIC, BLOCK_MAGIC);
    lli_store_u32(bytes + AT_SIZE, size);
    lli_store_u32(bytes + AT_USED, builder->used);
    lli_store_u64(bytes + AT_SESSION, builder->at.session);
    lli_store_u64(bytes + AT_SEQUENCE, builder->at.sequence);
    lli_store_u64(bytes + AT_PREVIOUS, builder->at.previous);
    lli_store_u64(bytes + AT_PACKET, builder->at.packet);
    lli_store_u64(bytes + AT_MESSAGE, builder->message);
    lli_store_u64(bytes + AT_WALL, later);
    lli_store_u64(bytes + AT_STEADY, steady);
    *next = builder->next;
    next->sequence = builder->at.sequence + 1;
    next->previous = block_hash(bytes, builder->used, builder->hashes, builder->pieces);
    next->wall = later;
    lli_store_u64(bytes + AT_HASH, next->previous);
    return size;
}

/* ----------------------------------------------------------------------------------------------- read */

enum lli_block_fault lli_block_get(const uint8_t *bytes, size_t size, struct lli_block *block)
{
    if (size < LLI_BLOCK_HEADER || lli_load_u64(bytes + AT_MAGIC) != BLOCK_MAGIC)
        return LLI_BLOCK_NONE;
    *block = (struct lli_block){
        .hash = lli_load_u64(bytes + AT_HASH),
        .session = lli_load_u64(bytes + AT_SESSION),
        .sequence = lli_load_u64(bytes + AT_SEQUENCE),
        .previous = lli_load_u64(bytes + AT_PREVIOUS),
        .packet = lli_load_u64(bytes + AT_PACKET),
        .message = lli_load_u64(bytes + AT_MESSAGE),
        .size = lli_load_u32(bytes + AT_SIZE),
        .used = lli_load_u32(bytes + AT_USED),
        .wall = lli_load_u64(bytes + AT_WALL),
        .steady = lli_load_u64(bytes + AT_STEADY),
    };
    if (block->used <= LLI_BLOCK_HEADER || block->used > LLI_BLOCK_MAX ||
        block->size != lli_round_up(block->used, LLI_BLOCK_ALIGN))
        return LLI_BLOCK_TORN;
    return size < block->size ? LLI_BLOCK_SHORT : LLI_BLOCK_OK;
}

/* Reads all records. False: one is malformed. */
static bool block_read(const uint8_t *bytes, const struct lli_block *block, struct lli_block_position *next)
{
    struct lli_block_reader reader = lli_block_records(bytes, block);
    struct lli_record record;

    while (lli_block_next(&reader, &record))
        ;
    *next = (struct lli_block_position){.session = block->session,
                                        .sequence = block->sequence + 1,
                                        .previous = block->hash,
                                        .packet = reader.packet,
                                        .message = reader.message,
                                        .wall = block->wall};
    return reader.bytes.ok && reader.bytes.at == reader.bytes.end;
}

enum lli_block_fault lli_block_check(const uint8_t *bytes, size_t size, const struct lli_block_position *at,
                                     struct lli_block *block, struct lli_block_position *next)
{
    const enum lli_block_fault fault = lli_block_get(bytes, size, block);
    struct lli_block_position after;

    if (fault != LLI_BLOCK_OK)
        return fault;
    if (block_hash(bytes, block->used, NULL, 0) != block->hash || !block_read(bytes, block, &after))
        return LLI_BLOCK_TORN;
    if (at != NULL && (block->session != at->session || block->sequence != at->sequence ||
                       block->previous != at->previous || block->packet != at->packet))
        return LLI_BLOCK_FOREIGN;
    if (at != NULL && block->message == LLI_BLOCK_UNNUMBERED)
        after.message = at->message;
    if (next != NULL)
        *next = after;
    return LLI_BLOCK_OK;
}

struct lli_block_reader lli_block_records(const uint8_t *bytes, const struct lli_block *block)
{
    return (struct lli_block_reader){
        .bytes = lli_reader_of(bytes + LLI_BLOCK_HEADER, block->used - LLI_BLOCK_HEADER),
        .packet = block->packet,
        .message = block->message == LLI_BLOCK_UNNUMBERED ? 0 : block->message,
    };
}

static void block_read_packet(struct lli_block_reader *reader, uint16_t size, struct lli_record *record)
{
    record->data = lli_read_bytes(&reader->bytes, size);
    record->size = size;
    record->next = record->packet + 1;
    if (record->data != NULL)
        record->message = lli_seq_extend(reader->message, lli_wire_number(record->data));
}

static void block_read_gap(struct lli_block_reader *reader, struct lli_record *record)
{
    record->next = lli_read_u64(&reader->bytes);
    record->message = lli_read_u64(&reader->bytes);
    record->message_next = lli_read_u64(&reader->bytes);
    record->reason = lli_read_u8(&reader->bytes);
    reader->bytes.ok &= record->next > record->packet && record->message_next >= record->message;
}

static void block_read_name(struct lli_block_reader *reader, struct lli_record *record)
{
    record->topic = lli_read_u32(&reader->bytes);
    record->size =
        record->kind == LLI_RECORD_HIDDEN_NAME ? lli_read_u16(&reader->bytes) : lli_read_u8(&reader->bytes);
    record->data = lli_read_bytes(&reader->bytes, record->size);
}

bool lli_block_next(struct lli_block_reader *reader, struct lli_record *record)
{
    uint64_t message;
    uint16_t size;

    if (reader->bytes.at == reader->bytes.end || !reader->bytes.ok)
        return false;
    size = lli_read_u16(&reader->bytes);
    *record =
        (struct lli_record){.kind = size < LLI_WIRE_HEADER ? (enum lli_record_kind)size : LLI_RECORD_PACKET,
                            .packet = reader->packet,
                            .next = reader->packet,
                            .message = reader->message};
    if (size >= LLI_WIRE_HEADER) {
        block_read_packet(reader, size, record);
    } else if (size == LLI_RECORD_GAP) {
        block_read_gap(reader, record);
    } else if (lli_record_is_name(record)) {
        block_read_name(reader, record);
    } else if (size == LLI_RECORD_END) {
        record->message = lli_read_u64(&reader->bytes);
        record->reason = lli_read_u8(&reader->bytes);
    } else {
        reader->bytes.ok = false;
    }
    message = record->kind == LLI_RECORD_GAP ? record->message_next : record->message;
    reader->bytes.ok &= record->next <= LLI_BLOCK_NUMBER_MAX && message <= LLI_BLOCK_NUMBER_MAX;
    if (!reader->bytes.ok)
        return false;
    reader->packet = record->next;
    reader->message = message;
    return true;
}
