/* SPDX-License-Identifier: Apache-2.0 */
#include "mold.h"

static bool blocks_are_whole(struct reader blocks, uint16_t count)
{
    for (uint16_t i = 0; i < count; i++)
        read_bytes(&blocks, (size_t)read_integer(&blocks, 2));
    return !blocks.failed && blocks.left == 0;
}

bool mold_packet_decode(struct mold_packet *packet, const void *data, size_t size)
{
    struct reader reader = reader_of(data, size);
    struct mold_packet decoded = {.session = read_bytes(&reader, MOLD_SESSION_BYTES)};

    decoded.sequence = read_integer(&reader, 8);
    decoded.count = (uint16_t)read_integer(&reader, 2);
    if (reader.failed)
        return false;
    if (decoded.count == MOLD_COUNT_END) {
        decoded.end = true;
        decoded.count = 0;
    }
    if (decoded.sequence == 0 || decoded.sequence > UINT64_MAX - decoded.count ||
        !blocks_are_whole(reader, decoded.count))
        return false;
    decoded.blocks = reader;
    *packet = decoded;
    return true;
}

bool mold_packet_next(struct mold_packet *packet, const uint8_t **message, size_t *size)
{
    size_t length = (size_t)read_integer(&packet->blocks, 2);
    const uint8_t *bytes = read_bytes(&packet->blocks, length);

    if (bytes == NULL)
        return false;
    *message = bytes;
    *size = length;
    return true;
}

struct mold_step mold_stream_take(struct mold_stream *stream, const struct mold_packet *packet)
{
    struct mold_step step = {
        .session_new = !stream->joined || memcmp(stream->session, packet->session, MOLD_SESSION_BYTES) != 0};
    uint64_t end = packet->sequence + packet->count;

    if (step.session_new) {
        memcpy(stream->session, packet->session, MOLD_SESSION_BYTES);
        stream->joined = true;
        stream->next = 1;
    }
    if (packet->sequence > stream->next) {
        step.lost_first = stream->next;
        step.lost_count = packet->sequence - stream->next;
    } else if (end > stream->next) {
        step.seen_count = (uint16_t)(stream->next - packet->sequence);
    } else {
        step.seen_count = packet->count;
    }
    if (end > stream->next)
        stream->next = end;
    return step;
}

void mold_builder_start(struct mold_builder *builder, void *data, size_t size, const char *session,
                        uint64_t sequence)
{
    uint8_t *name;

    *builder = (struct mold_builder){.data = data, .writer = writer_of(data, size), .size = size};
    name = write_bytes(&builder->writer, MOLD_SESSION_BYTES);
    for (size_t i = 0; name != NULL && i < MOLD_SESSION_BYTES; i++)
        name[i] = *session != '\0' ? (uint8_t)*session++ : ' ';
    write_integer(&builder->writer, 8, sequence);
    write_integer(&builder->writer, 2, 0);
}

bool mold_builder_add(struct mold_builder *builder, const void *message, size_t size)
{
    uint8_t *bytes;

    if (builder->writer.failed || size > UINT16_MAX || builder->writer.left < 2 + size ||
        builder->count == MOLD_COUNT_END - 1)
        return false;
    write_integer(&builder->writer, 2, size);
    bytes = write_bytes(&builder->writer, size);
    memcpy(bytes, message, size);
    builder->count++;
    return true;
}

size_t mold_builder_finish(struct mold_builder *builder, bool end)
{
    struct writer count = writer_of(builder->data + MOLD_HEADER_BYTES - 2, 2);

    if (builder->writer.failed)
        return 0;
    write_integer(&count, 2, end ? MOLD_COUNT_END : builder->count);
    return builder->size - builder->writer.left;
}
