/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wire/wire.h"

/* -------------------------------------------------------------------------------------------- reader */

const uint8_t *lli_read_bytes(struct lli_reader *reader, size_t size)
{
    const uint8_t *at = reader->at;

    if ((size_t)(reader->end - at) < size) {
        reader->ok = false;
        reader->at = reader->end;
        return NULL;
    }
    reader->at = at + size;
    return at;
}

uint8_t lli_read_u8(struct lli_reader *reader)
{
    const uint8_t *at = lli_read_bytes(reader, 1);

    return at == NULL ? 0 : *at;
}

uint16_t lli_read_u16(struct lli_reader *reader)
{
    const uint8_t *at = lli_read_bytes(reader, 2);

    return at == NULL ? 0 : lli_load_u16(at);
}

uint32_t lli_read_u32(struct lli_reader *reader)
{
    const uint8_t *at = lli_read_bytes(reader, 4);

    return at == NULL ? 0 : lli_load_u32(at);
}

uint64_t lli_read_u64(struct lli_reader *reader)
{
    const uint8_t *at = lli_read_bytes(reader, 8);

    return at == NULL ? 0 : lli_load_u64(at);
}

static void read_address(struct lli_reader *reader, uint8_t size, struct lli_wire_address *address)
{
    const uint8_t *bytes = size <= LLI_WIRE_ADDRESS_MAX ? lli_read_bytes(reader, size) : NULL;

    memset(address, 0, sizeof *address);
    if (bytes == NULL) {
        reader->ok = false;
        return;
    }
    address->size = size;
    memcpy(address->bytes, bytes, size);
}

static void read_ranges(struct lli_reader *reader, uint16_t count, struct lli_wire_range *ranges)
{
    if (count > LLI_WIRE_RANGES_MAX) {
        reader->ok = false;
        return;
    }
    for (uint16_t i = 0; i < count; i++) {
        ranges[i].first = lli_read_u32(reader);
        ranges[i].count = lli_read_u32(reader);
    }
}

/* -------------------------------------------------------------------------------------------- writer */

/* Unchecked writer: the size of these packets was proven to fit LLI_WIRE_CONTROL_MAX. */
struct writer {
    uint8_t *at;
};

static void write_u8(struct writer *writer, uint8_t value)
{
    *writer->at++ = value;
}

static void write_u16(struct writer *writer, uint16_t value)
{
    lli_store_u16(writer->at, value);
    writer->at += 2;
}

static void write_u32(struct writer *writer, uint32_t value)
{
    lli_store_u32(writer->at, value);
    writer->at += 4;
}

static void write_u64(struct writer *writer, uint64_t value)
{
    lli_store_u64(writer->at, value);
    writer->at += 8;
}

static void write_address(struct writer *writer, const struct lli_wire_address *address)
{
    memcpy(writer->at, address->bytes, address->size);
    writer->at += address->size;
}

static void write_ranges(struct writer *writer, const struct lli_wire_range *ranges, uint16_t count)
{
    for (uint16_t i = 0; i < count; i++) {
        write_u32(writer, ranges[i].first);
        write_u32(writer, ranges[i].count);
    }
}

/* -------------------------------------------------------------------------------------------- header */

/* Skips a 16-bit length that counts itself, and the bytes that it covers. */
bool lli_wire_skip_extensions(const uint8_t **body, size_t *body_size)
{
    size_t length;

    if (*body_size < 2)
        return false;
    length = lli_load_u16(*body);
    if (length < 2 || length > *body_size)
        return false;
    *body += length;
    *body_size -= length;
    return true;
}

enum lli_wire_fault lli_wire_get_connection(const uint8_t *packet, size_t size,
                                            struct lli_wire_header *header, const uint8_t **body,
                                            size_t *body_size)
{
    assert(size >= LLI_WIRE_HEADER);
    *header =
        (struct lli_wire_header){.type = packet[0] & 15, .flags = packet[1], .tag = lli_load_u32(packet + 4)};
    if (header->type < LLI_WIRE_CONNECT || header->type > LLI_WIRE_CLOSE)
        return LLI_WIRE_TYPE_BAD;
    header->size = lli_load_u16(packet + LLI_WIRE_SIZE_AT);
    if (header->size != size)
        return LLI_WIRE_MALFORMED;
    *body = packet + LLI_WIRE_HEADER;
    *body_size = size - LLI_WIRE_HEADER;
    if (header->flags & LLI_WIRE_FLAG_EXTENDED && !lli_wire_skip_extensions(body, body_size))
        return LLI_WIRE_MALFORMED;
    return LLI_WIRE_OK;
}

static void control_begin(uint8_t *packet, struct writer *writer, uint8_t type, uint64_t session)
{
    const struct lli_wire_header header = {.type = type, .tag = (uint32_t)session};

    lli_wire_put_header(packet, &header);
    writer->at = packet + LLI_WIRE_HEADER;
    write_u64(writer, session);
}

static size_t control_end(uint8_t *packet, const struct writer *writer)
{
    size_t size = (size_t)(writer->at - packet);

    assert(size <= LLI_WIRE_CONTROL_MAX);
    lli_wire_put_size(packet, size);
    return size;
}

/* Reads the 64-bit session identity that begins every control body and checks it against the header's tag. */
static uint64_t read_session(struct lli_reader *reader, uint32_t tag)
{
    uint64_t session = lli_read_u64(reader);

    if ((uint32_t)session != tag)
        reader->ok = false;
    return session;
}

/* -------------------------------------------------------------------------------------------- frames */

const uint8_t *lli_frame_get_rare(const uint8_t *at, const uint8_t *end, struct lli_frame *frame)
{
    struct lli_reader reader = lli_reader_of(at, (size_t)(end - at));
    uint8_t code = lli_read_u8(&reader);

    if (code == LLI_FRAME_PAD) {
        frame->kind = LLI_FRAME_SKIP;
    } else if (code == LLI_FRAME_LONG || code == LLI_FRAME_TOPIC_LONG) {
        frame->kind = code == LLI_FRAME_LONG ? LLI_FRAME_MESSAGE : LLI_FRAME_TOPIC;
        frame->value = lli_read_u32(&reader);
    } else if (code >= LLI_FRAME_ANNOUNCEMENT) {
        uint16_t size = lli_read_u16(&reader);

        frame->kind = LLI_FRAME_SKIP;
        frame->bytes = lli_read_bytes(&reader, size);
        frame->bytes_size = size;
        if (code == LLI_FRAME_ANNOUNCEMENT && reader.ok) {
            if (size < 5)
                return frame->kind = LLI_FRAME_BAD, end;
            frame->kind = LLI_FRAME_ANNOUNCE;
            frame->value = lli_load_u32(frame->bytes);
            frame->bytes += 4;
            frame->bytes_size -= 4;
        }
        if (code == LLI_FRAME_SKIPPED && reader.ok) {
            if (size < 4 || reader.at != end)
                return frame->kind = LLI_FRAME_BAD, end;
            frame->kind = LLI_FRAME_NUMBERS;
            frame->value = lli_load_u32(frame->bytes);
            reader.ok = frame->value >= 1 && frame->value <= LLI_FRAME_NUMBERS_MAX;
        }
    } else {
        reader.ok = false;
    }
    if (!reader.ok)
        return frame->kind = LLI_FRAME_BAD, end;
    return reader.at;
}

void lli_frame_put_announcement(uint8_t *at, uint32_t topic, const char *name, size_t name_size)
{
    at[0] = LLI_FRAME_ANNOUNCEMENT;
    lli_store_u16(at + 1, (uint16_t)(4 + name_size));
    lli_store_u32(at + 3, topic);
    memcpy(at + LLI_FRAME_ANNOUNCE_HEAD, name, name_size);
}

void lli_frame_put_numbers(uint8_t *at, uint32_t count)
{
    at[0] = LLI_FRAME_SKIPPED;
    lli_store_u16(at + 1, LLI_FRAME_NUMBERS_SIZE - LLI_FRAME_HEAD);
    lli_store_u32(at + 3, count);
}

void lli_frame_put_summary(uint8_t *at, const struct lli_frame_summary *summary)
{
    at[0] = LLI_FRAME_SUMMARY;
    lli_store_u16(at + 1, LLI_FRAME_SUMMARY_SIZE - LLI_FRAME_HEAD);
    lli_store_u32(at + 3, summary->any);
    lli_store_u32(at + 7, summary->all);
    lli_store_u16(at + 11, summary->end);
    lli_store_u16(at + 13, summary->count);
}

/* ----------------------------------------------------------------------------------------- heartbeat */

size_t lli_wire_put_heartbeat(uint8_t *packet, const struct lli_wire_heartbeat *heartbeat)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_HEARTBEAT, heartbeat->session);
    lli_store_u32(packet + 8, (uint32_t)heartbeat->lead);
    lli_store_u32(packet + 12, (uint32_t)heartbeat->messages);
    write_u64(&writer, heartbeat->lead);
    write_u64(&writer, heartbeat->trail);
    write_u64(&writer, heartbeat->start);
    write_u64(&writer, heartbeat->messages);
    write_u64(&writer, heartbeat->sent_at);
    write_u32(&writer, heartbeat->interval_us);
    write_u32(&writer, heartbeat->rtt_ns);
    write_u32(&writer, heartbeat->receivers);
    write_u32(&writer, heartbeat->topics);
    write_u32(&writer, heartbeat->report_packets);
    write_u8(&writer, heartbeat->flags);
    write_u8(&writer, heartbeat->address.size);
    write_address(&writer, &heartbeat->address);
    if (heartbeat->flags & LLI_WIRE_HEARTBEAT_ASSURED) {
        write_u64(&writer, heartbeat->unacknowledged);
        write_u64(&writer, heartbeat->unacknowledged_messages);
        write_u8(&writer, heartbeat->assured);
        for (int i = 0; i < heartbeat->assured; i++)
            write_u32(&writer, heartbeat->assured_topics[i]);
    }
    if (heartbeat->stream != 0) {
        packet[1] = LLI_WIRE_FLAG_STREAM | (heartbeat->merges ? LLI_WIRE_FLAG_MERGE : 0);
        write_u64(&writer, heartbeat->stream);
        write_u64(&writer, heartbeat->base);
        write_u32(&writer, heartbeat->term);
    }
    return control_end(packet, &writer);
}

/* Reads the fields for assured topics. False: inconsistent with the other fields. */
static bool read_assured(struct lli_reader *reader, struct lli_wire_heartbeat *heartbeat)
{
    heartbeat->unacknowledged = lli_read_u64(reader);
    heartbeat->unacknowledged_messages = lli_read_u64(reader);
    heartbeat->assured = lli_read_u8(reader);
    for (int i = 0; i < heartbeat->assured && i < LLI_WIRE_ASSURED_MAX; i++)
        heartbeat->assured_topics[i] = lli_read_u32(reader);
    return heartbeat->assured <= LLI_WIRE_ASSURED_MAX && heartbeat->unacknowledged >= heartbeat->trail &&
           heartbeat->unacknowledged <= heartbeat->lead &&
           heartbeat->unacknowledged_messages <= heartbeat->messages;
}

/* Reads the fields for streams. False: the stream is 0, or a number in it is beyond 2^63. */
static bool read_stream(struct lli_reader *reader, struct lli_wire_heartbeat *heartbeat)
{
    heartbeat->stream = lli_read_u64(reader);
    heartbeat->base = lli_read_u64(reader);
    heartbeat->term = lli_read_u32(reader);
    return heartbeat->stream != 0 && heartbeat->base <= INT64_MAX &&
           heartbeat->base + heartbeat->messages <= INT64_MAX;
}

bool lli_wire_get_heartbeat(const uint8_t *body, size_t size, const struct lli_wire_header *header,
                            struct lli_wire_heartbeat *heartbeat)
{
    struct lli_reader reader = lli_reader_of(body, size);
    uint8_t address_size;

    *heartbeat = (struct lli_wire_heartbeat){0}; /* as in a status */
    heartbeat->session = read_session(&reader, header->tag);
    heartbeat->lead = lli_read_u64(&reader);
    heartbeat->trail = lli_read_u64(&reader);
    heartbeat->start = lli_read_u64(&reader);
    heartbeat->messages = lli_read_u64(&reader);
    heartbeat->sent_at = lli_read_u64(&reader);
    heartbeat->interval_us = lli_read_u32(&reader);
    heartbeat->rtt_ns = lli_read_u32(&reader);
    heartbeat->receivers = lli_read_u32(&reader);
    heartbeat->topics = lli_read_u32(&reader);
    heartbeat->report_packets = lli_read_u32(&reader);
    heartbeat->flags = lli_read_u8(&reader);
    address_size = lli_read_u8(&reader);
    read_address(&reader, address_size, &heartbeat->address);
    if (heartbeat->flags & LLI_WIRE_HEARTBEAT_ASSURED && !read_assured(&reader, heartbeat))
        return false;
    if (header->flags & LLI_WIRE_FLAG_STREAM && !read_stream(&reader, heartbeat))
        return false;
    heartbeat->merges = heartbeat->stream != 0 && header->flags & LLI_WIRE_FLAG_MERGE;
    /*
     * No session lives long enough for numbers beyond 2^63, and arithmetic on numbers below cannot overflow.
     */
    return reader.ok && heartbeat->start <= heartbeat->trail && heartbeat->trail <= heartbeat->lead &&
           heartbeat->lead <= INT64_MAX && heartbeat->messages <= INT64_MAX;
}

/* ----------------------------------------------------------------------------------- NAK and reject */

size_t lli_wire_put_nak(uint8_t *packet, const struct lli_wire_nak *nak)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_NAK, nak->session);
    write_u64(&writer, nak->receiver);
    write_u8(&writer, 0);
    write_u8(&writer, nak->address.size);
    write_u16(&writer, nak->count);
    write_address(&writer, &nak->address);
    write_ranges(&writer, nak->ranges, nak->count);
    write_u64(&writer, nak->token);
    return control_end(packet, &writer);
}

bool lli_wire_get_nak(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_nak *nak)
{
    struct lli_reader reader = lli_reader_of(body, size);
    uint8_t address_size;

    nak->session = read_session(&reader, tag);
    nak->receiver = lli_read_u64(&reader);
    (void)lli_read_u8(&reader);
    address_size = lli_read_u8(&reader);
    nak->count = lli_read_u16(&reader);
    read_address(&reader, address_size, &nak->address);
    read_ranges(&reader, nak->count, nak->ranges);
    nak->token = lli_read_u64(&reader);
    return reader.ok;
}

size_t lli_wire_put_reject(uint8_t *packet, const struct lli_wire_reject *reject)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_REJECT, reject->session);
    write_u64(&writer, reject->trail);
    write_u8(&writer, reject->reason);
    write_u8(&writer, 0);
    write_u16(&writer, reject->count);
    write_ranges(&writer, reject->ranges, reject->count);
    return control_end(packet, &writer);
}

bool lli_wire_get_reject(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_reject *reject)
{
    struct lli_reader reader = lli_reader_of(body, size);

    reject->session = read_session(&reader, tag);
    reject->trail = lli_read_u64(&reader);
    reject->reason = lli_read_u8(&reader);
    (void)lli_read_u8(&reader);
    reject->count = lli_read_u16(&reader);
    read_ranges(&reader, reject->count, reject->ranges);
    return reader.ok;
}

/* -------------------------------------------------------------------------------------------- status */

static void write_limits(struct writer *writer, const struct lli_wire_limits *limits)
{
    write_u8(writer, limits->limit);
    write_u32(writer, limits->time_ms);
    write_u32(writer, limits->away_ms);
    write_u32(writer, limits->away_us_max);
    write_u32(writer, limits->packets);
    write_u32(writer, limits->missed);
    write_u32(writer, limits->dropped);
}

static void read_limits(struct lli_reader *reader, struct lli_wire_limits *limits)
{
    limits->limit = lli_read_u8(reader);
    limits->time_ms = lli_read_u32(reader);
    limits->away_ms = lli_read_u32(reader);
    limits->away_us_max = lli_read_u32(reader);
    limits->packets = lli_read_u32(reader);
    limits->missed = lli_read_u32(reader);
    limits->dropped = lli_read_u32(reader);
}

size_t lli_wire_put_status(uint8_t *packet, const struct lli_wire_status *status)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_STATUS, status->session);
    write_u64(&writer, status->receiver);
    write_u64(&writer, status->next);
    write_u64(&writer, status->highest);
    write_u64(&writer, status->echo);
    write_u32(&writer, status->echo_age_ns);
    write_u32(&writer, status->lost_packets);
    write_u32(&writer, status->naks);
    write_u32(&writer, status->dropped);
    write_u32(&writer, status->window_free);
    write_u8(&writer, status->flags);
    write_u8(&writer, status->address.size);
    write_address(&writer, &status->address);
    if (status->flags & LLI_WIRE_STATUS_ACKNOWLEDGES) {
        write_u64(&writer, status->acknowledged_from);
        write_u64(&writer, status->acknowledged_next);
        write_u16(&writer, status->accepts);
        write_u8(&writer, status->name_size);
        memcpy(writer.at, status->name, status->name_size);
        writer.at += status->name_size;
    }
    if (status->flags & LLI_WIRE_STATUS_LIMITED)
        write_limits(&writer, &status->limits);
    write_u64(&writer, status->token);
    return control_end(packet, &writer);
}

/* Reads the acknowledgement fields. False: inconsistent. */
static bool read_acknowledgement(struct lli_reader *reader, struct lli_wire_status *status)
{
    const uint8_t *name;

    status->acknowledged_from = lli_read_u64(reader);
    status->acknowledged_next = lli_read_u64(reader);
    status->accepts = lli_read_u16(reader);
    status->name_size = lli_read_u8(reader);
    if (status->name_size > LLI_WIRE_RECEIVER_NAME_MAX ||
        (name = lli_read_bytes(reader, status->name_size)) == NULL)
        return false;
    memset(status->name, 0, sizeof status->name);
    memcpy(status->name, name, status->name_size);
    return status->acknowledged_from <= status->acknowledged_next &&
           strlen(status->name) == status->name_size;
}

bool lli_wire_get_status(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_status *status)
{
    struct lli_reader reader = lli_reader_of(body, size);
    uint8_t address_size;

    *status = (struct lli_wire_status){0}; /* the fields without their flag are 0 */
    status->session = read_session(&reader, tag);
    status->receiver = lli_read_u64(&reader);
    status->next = lli_read_u64(&reader);
    status->highest = lli_read_u64(&reader);
    status->echo = lli_read_u64(&reader);
    status->echo_age_ns = lli_read_u32(&reader);
    status->lost_packets = lli_read_u32(&reader);
    status->naks = lli_read_u32(&reader);
    status->dropped = lli_read_u32(&reader);
    status->window_free = lli_read_u32(&reader);
    status->flags = lli_read_u8(&reader);
    address_size = lli_read_u8(&reader);
    read_address(&reader, address_size, &status->address);
    if (status->flags & LLI_WIRE_STATUS_ACKNOWLEDGES && !read_acknowledgement(&reader, status))
        return false;
    if (status->flags & LLI_WIRE_STATUS_LIMITED)
        read_limits(&reader, &status->limits);
    status->token = lli_read_u64(&reader);
    return reader.ok && status->next <= status->highest;
}

/* -------------------------------------------------------------------------------------------- notice */

size_t lli_wire_put_notice(uint8_t *packet, const struct lli_wire_notice *notice)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_NOTICE, notice->session);
    write_u64(&writer, notice->receiver);
    write_u64(&writer, notice->decided_at);
    write_u64(&writer, notice->lead);
    write_u64(&writer, notice->value);
    write_u64(&writer, notice->limit);
    write_u64(&writer, notice->lag_ns);
    write_u64(&writer, notice->silent_ns);
    write_u32(&writer, notice->naks_per_s);
    write_u32(&writer, notice->nak_ppm);
    write_u32(&writer, notice->lag_packets);
    write_u32(&writer, notice->receivers);
    write_u32(&writer, notice->suffering);
    write_u32(&writer, notice->rejoin_ms);
    write_u8(&writer, notice->standing);
    write_u8(&writer, notice->threshold);
    return control_end(packet, &writer);
}

bool lli_wire_get_notice(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_notice *notice)
{
    struct lli_reader reader = lli_reader_of(body, size);

    notice->session = read_session(&reader, tag);
    notice->receiver = lli_read_u64(&reader);
    notice->decided_at = lli_read_u64(&reader);
    notice->lead = lli_read_u64(&reader);
    notice->value = lli_read_u64(&reader);
    notice->limit = lli_read_u64(&reader);
    notice->lag_ns = lli_read_u64(&reader);
    notice->silent_ns = lli_read_u64(&reader);
    notice->naks_per_s = lli_read_u32(&reader);
    notice->nak_ppm = lli_read_u32(&reader);
    notice->lag_packets = lli_read_u32(&reader);
    notice->receivers = lli_read_u32(&reader);
    notice->suffering = lli_read_u32(&reader);
    notice->rejoin_ms = lli_read_u32(&reader);
    notice->standing = lli_read_u8(&reader);
    notice->threshold = lli_read_u8(&reader);
    return reader.ok && notice->lead <= INT64_MAX && notice->standing <= LLI_WIRE_STANDING_MAX &&
           notice->threshold <= LLI_WIRE_THRESHOLD_MAX;
}

/* -------------------------------------------------------------------------------------------- topics */

size_t lli_wire_put_query(uint8_t *packet, const struct lli_wire_query *query)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_QUERY, query->session);
    write_u64(&writer, query->receiver);
    write_u32(&writer, query->first);
    write_u8(&writer, query->address.size);
    write_address(&writer, &query->address);
    write_u64(&writer, query->token);
    return control_end(packet, &writer);
}

bool lli_wire_get_query(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_query *query)
{
    struct lli_reader reader = lli_reader_of(body, size);
    uint8_t address_size;

    query->session = read_session(&reader, tag);
    query->receiver = lli_read_u64(&reader);
    query->first = lli_read_u32(&reader);
    address_size = lli_read_u8(&reader);
    read_address(&reader, address_size, &query->address);
    query->token = lli_read_u64(&reader);
    return reader.ok;
}

size_t lli_wire_put_topics(uint8_t *packet, const struct lli_wire_topics *topics, size_t size)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_TOPICS, topics->session);
    write_u32(&writer, topics->total);
    write_u32(&writer, topics->first);
    write_u16(&writer, topics->count);
    assert(writer.at == packet + LLI_WIRE_TOPICS_HEAD);
    lli_wire_put_size(packet, size);
    return size;
}

size_t lli_wire_add_topic(uint8_t *packet, size_t used, size_t size, const char *name, size_t name_size)
{
    if (used + 1 + name_size > size)
        return 0;
    packet[used] = (uint8_t)name_size;
    memcpy(packet + used + 1, name, name_size);
    return used + 1 + name_size;
}

size_t lli_wire_put_name(char *to, const char *name, uint8_t flags)
{
    const size_t size = strlen(name);

    memcpy(to, name, size);
    if (flags == 0)
        return size;
    assert(size + LLI_WIRE_NAME_FLAGS <= LLI_WIRE_NAME_MAX);
    to[size] = '\0';
    to[size + 1] = (char)flags;
    return size + LLI_WIRE_NAME_FLAGS;
}

size_t lli_wire_get_name(const uint8_t *bytes, size_t size, uint8_t *flags)
{
    size_t used = 0;

    while (used < size && bytes[used] != '\0')
        used++;
    *flags = size - used >= LLI_WIRE_NAME_FLAGS ? bytes[used + 1] : 0;
    return used;
}

bool lli_wire_get_topics(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_topics *topics,
                         struct lli_reader *names)
{
    struct lli_reader reader = lli_reader_of(body, size);

    topics->session = read_session(&reader, tag);
    topics->total = lli_read_u32(&reader);
    topics->first = lli_read_u32(&reader);
    topics->count = lli_read_u16(&reader);
    *names = reader;
    return reader.ok && topics->count <= topics->total && topics->first <= topics->total - topics->count;
}

/* ---------------------------------------------------------------------------------------------- join */

size_t lli_wire_put_join(uint8_t *packet, const struct lli_wire_join *join)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_JOIN, join->session);
    write_u64(&writer, join->receiver);
    write_u8(&writer, join->kind);
    write_u8(&writer, join->from);
    write_u8(&writer, join->reason);
    write_u8(&writer, join->address.size);
    write_u16(&writer, join->count);
    write_u32(&writer, join->topics);
    write_u64(&writer, join->value);
    write_u64(&writer, join->packet);
    write_u64(&writer, join->number);
    write_u64(&writer, join->wanted);
    write_u64(&writer, join->lead);
    write_address(&writer, &join->address);
    if (join->kind == LLI_WIRE_JOIN_LATEST)
        writer.at = lli_wire_put_spans(writer.at, join->spans, join->count);
    else
        write_ranges(&writer, join->ranges, join->count);
    write_u64(&writer, join->token);
    return control_end(packet, &writer);
}

bool lli_wire_get_join(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_join *join)
{
    struct lli_reader reader = lli_reader_of(body, size);
    uint8_t address_size;

    join->session = read_session(&reader, tag);
    join->receiver = lli_read_u64(&reader);
    join->kind = lli_read_u8(&reader);
    join->from = lli_read_u8(&reader);
    join->reason = lli_read_u8(&reader);
    address_size = lli_read_u8(&reader);
    join->count = lli_read_u16(&reader);
    join->topics = lli_read_u32(&reader);
    join->value = lli_read_u64(&reader);
    join->packet = lli_read_u64(&reader);
    join->number = lli_read_u64(&reader);
    join->wanted = lli_read_u64(&reader);
    join->lead = lli_read_u64(&reader);
    read_address(&reader, address_size, &join->address);
    if (join->count > LLI_WIRE_FETCH_MAX)
        return false;
    if (join->kind == LLI_WIRE_JOIN_LATEST)
        lli_wire_get_spans(&reader, join->count, join->spans);
    else
        read_ranges(&reader, join->count, join->ranges);
    join->token = lli_read_u64(&reader);
    return reader.ok && join->packet <= join->lead && join->lead <= INT64_MAX && join->number <= INT64_MAX;
}

/* ---------------------------------------------------------------------------------------- connections */

size_t lli_wire_put_connect(uint8_t *packet, const struct lli_wire_connect *connect)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_CONNECT, connect->id);
    write_u64(&writer, connect->session);
    write_u32(&writer, connect->message_bytes_max);
    write_u16(&writer, connect->payload_size);
    write_u8(&writer, 0);
    write_u8(&writer, connect->address.size);
    write_address(&writer, &connect->address);
    memcpy(writer.at, connect->payload, connect->payload_size);
    writer.at += connect->payload_size;
    return control_end(packet, &writer);
}

bool lli_wire_get_connect(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_connect *connect)
{
    struct lli_reader reader = lli_reader_of(body, size);
    const uint8_t *payload;
    uint8_t address_size;

    connect->id = read_session(&reader, tag);
    connect->session = lli_read_u64(&reader);
    connect->message_bytes_max = lli_read_u32(&reader);
    connect->payload_size = lli_read_u16(&reader);
    (void)lli_read_u8(&reader);
    address_size = lli_read_u8(&reader);
    read_address(&reader, address_size, &connect->address);
    if (connect->payload_size > LLI_WIRE_PAYLOAD_MAX ||
        (payload = lli_read_bytes(&reader, connect->payload_size)) == NULL)
        return false;
    memcpy(connect->payload, payload, connect->payload_size);
    return reader.ok;
}

size_t lli_wire_put_accept(uint8_t *packet, const struct lli_wire_accept *accept)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_ACCEPT, accept->id);
    write_u64(&writer, accept->session);
    write_u64(&writer, accept->start);
    write_u32(&writer, accept->message_bytes_max);
    write_u8(&writer, accept->address.size);
    write_address(&writer, &accept->address);
    return control_end(packet, &writer);
}

bool lli_wire_get_accept(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_accept *accept)
{
    struct lli_reader reader = lli_reader_of(body, size);
    uint8_t address_size;

    accept->id = read_session(&reader, tag);
    accept->session = lli_read_u64(&reader);
    accept->start = lli_read_u64(&reader);
    accept->message_bytes_max = lli_read_u32(&reader);
    address_size = lli_read_u8(&reader);
    read_address(&reader, address_size, &accept->address);
    return reader.ok && accept->start <= INT64_MAX;
}

size_t lli_wire_put_refuse(uint8_t *packet, const struct lli_wire_refuse *refuse)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_REFUSE, refuse->id);
    write_u16(&writer, refuse->code);
    write_u8(&writer, refuse->reason);
    return control_end(packet, &writer);
}

bool lli_wire_get_refuse(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_refuse *refuse)
{
    struct lli_reader reader = lli_reader_of(body, size);

    refuse->id = read_session(&reader, tag);
    refuse->code = lli_read_u16(&reader);
    refuse->reason = lli_read_u8(&reader);
    return reader.ok;
}

size_t lli_wire_put_close(uint8_t *packet, const struct lli_wire_close *close)
{
    struct writer writer;

    control_begin(packet, &writer, LLI_WIRE_CLOSE, close->id);
    write_u8(&writer, close->reason);
    write_u8(&writer, close->address.size);
    write_u64(&writer, close->next);
    write_address(&writer, &close->address);
    return control_end(packet, &writer);
}

bool lli_wire_get_close(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_close *close)
{
    struct lli_reader reader = lli_reader_of(body, size);
    uint8_t address_size;

    close->id = read_session(&reader, tag);
    close->reason = lli_read_u8(&reader);
    address_size = lli_read_u8(&reader);
    close->next = lli_read_u64(&reader);
    read_address(&reader, address_size, &close->address);
    return reader.ok;
}

/* ------------------------------------------------------------------------------ addresses, by packet type */

/* Offsets in the body of the address's size and of the address; 0: the type has no address. */
struct wire_place {
    uint8_t size_at;
    uint8_t at;
};

static const struct wire_place wire_places[16] = {
    [LLI_WIRE_HEARTBEAT] = {69, 70}, [LLI_WIRE_NAK] = {17, 20},  [LLI_WIRE_STATUS] = {61, 62},
    [LLI_WIRE_QUERY] = {20, 21},     [LLI_WIRE_JOIN] = {19, 66}, [LLI_WIRE_CONNECT] = {23, 24},
    [LLI_WIRE_ACCEPT] = {28, 29},    [LLI_WIRE_CLOSE] = {9, 18},
};

bool lli_wire_get_announced(uint8_t type, const uint8_t *body, size_t size, struct lli_wire_address *address)
{
    const struct wire_place place = wire_places[type & 15];

    *address = (struct lli_wire_address){.size = 0};
    if (place.at == 0 || size < place.at)
        return false;
    address->size = body[place.size_at];
    if (address->size == 0 || address->size > LLI_WIRE_ADDRESS_MAX || size - place.at < address->size)
        return false;
    memcpy(address->bytes, body + place.at, address->size);
    return true;
}

size_t lli_wire_readdress(const uint8_t *packet, size_t size, const struct lli_wire_address *from,
                          const struct lli_wire_address *to, uint8_t *out, size_t room)
{
    struct lli_wire_header header;
    struct lli_wire_address announced;
    struct wire_place place;
    const uint8_t *body;
    size_t body_size, at, moved;

    if (lli_wire_get_header(packet, size, &header, &body, &body_size) != LLI_WIRE_OK ||
        !lli_wire_get_announced(header.type, body, body_size, &announced) ||
        !lli_wire_is_address(&announced, from) || size - from->size + to->size > room)
        return 0;
    place = wire_places[header.type & 15];
    at = (size_t)(body - packet) + place.at;
    moved = at + from->size;
    memcpy(out, packet, at);
    out[(size_t)(body - packet) + place.size_at] = to->size;
    memcpy(out + at, to->bytes, to->size);
    memcpy(out + at + to->size, packet + moved, size - moved);
    lli_wire_put_size(out, size - from->size + to->size);
    return size - from->size + to->size;
}
