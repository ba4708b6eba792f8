/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MoldUDP64: numbered messages in datagrams. A packet consists of session 10, sequence 8 (of its first
 * message; a session starts with 1), count 2, all big-endian, then count times length 2 and message. A count
 * of 0 is a heartbeat and one of 0xFFFF the end of the session; the sequence of both is that of the next
 * message.
 */
#ifndef FEED_MOLD_H
#define FEED_MOLD_H

#include "cursor.h"

#define MOLD_SESSION_BYTES 10
#define MOLD_HEADER_BYTES 20
#define MOLD_COUNT_END 0xFFFF

struct mold_packet {
    const uint8_t *session; /* MOLD_SESSION_BYTES bytes in the datagram */
    uint64_t sequence;
    uint16_t count; /* messages: 0 in a heartbeat and at the end of the session */
    bool end;
    struct reader blocks;
};

/*
 * Decodes a datagram. Returns false if any part of it is malformed: a packet is accepted as a whole or not at
 * all.
 */
bool mold_packet_decode(struct mold_packet *packet, const void *data, size_t size);

/* Gets the next message of a decoded packet. False after the last. */
bool mold_packet_next(struct mold_packet *packet, const uint8_t **message, size_t *size);

/* Receiver's state of the feed. */
struct mold_stream {
    uint8_t session[MOLD_SESSION_BYTES];
    bool joined;
    uint64_t next; /* expected sequence */
};

/* Relation of a packet to the stream. */
struct mold_step {
    bool session_new;    /* a new session: all state of the old one is invalid */
    uint64_t lost_count; /* messages missing before the packet, starting with lost_first */
    uint64_t lost_first;
    uint16_t seen_count; /* messages at the start of the packet that were already received */
};

/* Advances the stream to the end of the packet. */
struct mold_step mold_stream_take(struct mold_stream *stream, const struct mold_packet *packet);

/* Builds a packet: the header, then messages as they fit, then the count in the header. */
struct mold_builder {
    uint8_t *data;
    struct writer writer;
    uint16_t count;
    size_t size;
};

void mold_builder_start(struct mold_builder *builder, void *data, size_t size, const char *session,
                        uint64_t sequence);

/* Adds a message. Returns false if it does not fit, leaving the packet unchanged. */
bool mold_builder_add(struct mold_builder *builder, const void *message, size_t size);

/*
 * Returns the length of the finished packet. With end, a packet without messages becomes an end of session.
 */
size_t mold_builder_finish(struct mold_builder *builder, bool end);

#endif
