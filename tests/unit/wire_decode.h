/* SPDX-License-Identifier: Apache-2.0 */
/* Test vectors as bytes, and decoding of packets of every type. */
#ifndef TESTS_WIRE_DECODE_H
#define TESTS_WIRE_DECODE_H

#include "unit.h"

#include <stdio.h>

#include "core/wire/wire.h"
#include "wire_vectors.h"

#define SESSION UINT64_C(0x1122334455667788)
#define RECEIVER UINT64_C(0x99aabbccddeeff01)
#define TOKEN UINT64_C(0x060708090a0b0c0d)

static inline size_t hex_bytes(const char *hex, uint8_t *bytes)
{
    size_t size = 0;
    unsigned value;
    int used;

    while (sscanf(hex, "%2x%n", &value, &used) == 1) {
        bytes[size++] = (uint8_t)value;
        hex += used;
    }
    return size;
}

static inline size_t vector_bytes(const struct vector *vector, uint8_t bytes[VECTOR_MAX])
{
    size_t size = 0;

    for (const struct field *field = vector->fields; field->hex != NULL; field++)
        size += hex_bytes(field->hex, bytes + size);
    return size;
}

static inline void expect_vector(const struct vector *vector, const uint8_t *packet, size_t size)
{
    uint8_t bytes[VECTOR_MAX];
    size_t expected = vector_bytes(vector, bytes);

    if (size != expected)
        fail_msg("%s: %zu bytes, expected %zu", vector->name, size, expected);
    for (size_t at = 0; at < size; at++)
        if (packet[at] != bytes[at])
            fail_msg("%s: byte %zu is %02x, expected %02x", vector->name, at, packet[at], bytes[at]);
}

struct decoded {
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;
    union {
        struct lli_wire_heartbeat heartbeat;
        struct lli_wire_nak nak;
        struct lli_wire_reject reject;
        struct lli_wire_status status;
        struct lli_wire_query query;
        struct lli_wire_notice notice;
        struct lli_wire_topics topics;
        struct lli_wire_join join;
        struct lli_wire_lvc kept;
        struct lli_wire_connect connect;
        struct lli_wire_accept accept;
        struct lli_wire_refuse refuse;
        struct lli_wire_close close;
    };
};

/* Sets the size field, so that a truncated or extended packet is not refused for its size alone. */
static inline void set_size(uint8_t *packet, size_t size)
{
    if (size >= LLI_WIRE_HEADER)
        lli_wire_put_size(packet, size);
}

static inline bool decode_names(const struct lli_wire_topics *topics, struct lli_reader names)
{
    for (uint16_t i = 0; i < topics->count; i++)
        (void)lli_read_bytes(&names, lli_read_u8(&names));
    return names.ok;
}

static inline bool decode_connection(const uint8_t *packet, size_t size, struct decoded *out)
{
    if (lli_wire_get_connection(packet, size, &out->header, &out->body, &out->body_size) != LLI_WIRE_OK)
        return false;
    switch (out->header.type) {
    case LLI_WIRE_CONNECT:
        return lli_wire_get_connect(out->body, out->body_size, out->header.tag, &out->connect);
    case LLI_WIRE_ACCEPT:
        return lli_wire_get_accept(out->body, out->body_size, out->header.tag, &out->accept);
    case LLI_WIRE_REFUSE:
        return lli_wire_get_refuse(out->body, out->body_size, out->header.tag, &out->refuse);
    default:
        return lli_wire_get_close(out->body, out->body_size, out->header.tag, &out->close);
    }
}

/* Returns true if all of a packet was decoded; the frames of data are read as far as possible. */
static inline bool decode(const uint8_t *packet, size_t size, struct decoded *out)
{
    struct lli_reader names;
    enum lli_wire_fault fault;
    uint32_t tag;

    memset(out, 0, sizeof *out);
    fault = lli_wire_get_header(packet, size, &out->header, &out->body, &out->body_size);
    if (fault == LLI_WIRE_TYPE_BAD)
        return decode_connection(packet, size, out);
    if (fault != LLI_WIRE_OK)
        return false;
    tag = out->header.tag;
    switch (out->header.type) {
    case LLI_WIRE_HEARTBEAT:
        return lli_wire_get_heartbeat(out->body, out->body_size, &out->header, &out->heartbeat);
    case LLI_WIRE_NAK:
        return lli_wire_get_nak(out->body, out->body_size, tag, &out->nak);
    case LLI_WIRE_REJECT:
        return lli_wire_get_reject(out->body, out->body_size, tag, &out->reject);
    case LLI_WIRE_STATUS:
        return lli_wire_get_status(out->body, out->body_size, tag, &out->status);
    case LLI_WIRE_QUERY:
        return lli_wire_get_query(out->body, out->body_size, tag, &out->query);
    case LLI_WIRE_JOIN:
        return lli_wire_get_join(out->body, out->body_size, tag, &out->join);
    case LLI_WIRE_LVC:
        return lli_wire_get_lvc(out->body, out->body_size, tag, &out->kept, &names);
    case LLI_WIRE_NOTICE:
        return lli_wire_get_notice(out->body, out->body_size, tag, &out->notice);
    case LLI_WIRE_TOPICS:
        return lli_wire_get_topics(out->body, out->body_size, tag, &out->topics, &names) &&
               decode_names(&out->topics, names);
    default:
        return true;
    }
}

/* Decodes the packet of a vector with one byte changed, in a block of exactly its size. */
static inline bool decode_changed(const struct vector *vector, size_t at, uint8_t value)
{
    uint8_t bytes[VECTOR_MAX];
    size_t size = vector_bytes(vector, bytes);
    struct decoded out;
    uint8_t *copy;
    bool taken;

    bytes[at] = value;
    copy = exact_copy(bytes, size);
    taken = decode(copy, size, &out);
    free(copy);
    return taken;
}

static inline void decode_vector(const struct vector *vector, struct decoded *out)
{
    uint8_t bytes[VECTOR_MAX];
    size_t size = vector_bytes(vector, bytes);
    uint8_t *copy = exact_copy(bytes, size);

    assert_true(decode(copy, size, out));
    assert_int_equal(out->header.tag, (uint32_t)SESSION);
    free(copy);
}

#endif
