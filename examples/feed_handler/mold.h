/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MoldUDP64: numbered messages in datagrams. A packet is session 10, sequence 8 (of its first message; a session starts with
 * 1), count 2, all big-endian, then count times length 2 and message. A count of 0 is a heartbeat and one of 0xFFFF the end of
 * the session; the sequence of both is that of the next message.
 */
#ifndef FEED_MOLD_H
#define FEED_MOLD_H

#include "cursor.h"

#define MOLD_SESSION_BYTES 10
#define MOLD_HEADER_BYTES 20
#define MOLD_COUNT_END 0xFFFF

struct mold_packet {
    const uint8_t *session; /* MOLD_SESSION_BYTES, in the datagram */
    uint64_t sequence;
    uint16_t count; /* messages: 0 in a heartbeat and at the end */
    bool end;
    struct reader blocks;
};

/* Takes a datagram apart, or returns false if any of it is malformed: a packet counts as a whole or not at all. */
bool mold_packet_decode(struct mold_packet *packet, const void *data, size_t size);

/* The next message of a decoded packet, or false after the last. */
bool mold_packet_next(struct mold_packet *packet, const uint8_t **message, size_t *size);

/* What a receiver knows of the feed. */
struct mold_stream {
    uint8_t session[MOLD_SESSION_BYTES];
    bool joined;
    uint64_t next; /* the sequence that comes next */
};

/* How a packet fits onto the stream. */
struct mold_step {
    bool session_new;     /* all that is known of the old session is void */
    uint64_t lost_count;  /* messages missing before the packet, from lost_first on */
    uint64_t lost_first;
    uint16_t seen_count;  /* messages at the start of the packet that came before already */
};

/* Moves the stream on to the end of the packet. */
struct mold_step mold_stream_take(struct mold_stream *stream, const struct mold_packet *packet);

/* Builds a packet: header first, then as many messages as fit, then the count into the header. */
struct mold_builder {
    uint8_t *data;
    struct writer writer;
    uint16_t count;
    size_t size;
};

void mold_builder_start(struct mold_builder *builder, void *data, size_t size, const char *session, uint64_t sequence);

/* Adds a message, or returns false if it does not fit; the packet is as before then. */
bool mold_builder_add(struct mold_builder *builder, const void *message, size_t size);

/* Returns the length of the finished packet. end makes an end of session of one without messages. */
size_t mold_builder_finish(struct mold_builder *builder, bool end);

#endif
