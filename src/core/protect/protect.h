/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protected packets, docs/protocol.md section 14: what a packet of version 2 has in addition, which bytes of it are
 * authenticated, the nonce, from what its key is derived, and which control packets were received before. The
 * cryptography itself is in security/.
 */
#ifndef LLI_PROTECT_H
#define LLI_PROTECT_H

#include "core/base/types.h"
#include "core/wire/wire.h"

enum {
    LLI_PROTECT_VERSION = 2,
    LLI_PROTECT_TAG = 16,           /* bytes of the tag, at the end of the packet */
    LLI_PROTECT_DATA = 20,          /* bytes after the body of DATA, with the tag */
    LLI_PROTECT_CONTROL = 36,       /* bytes after the body of all others, with the tag */
    LLI_PROTECT_NONCE = 12,         /* bytes of a nonce */
    LLI_PROTECT_PURPOSE = 29,       /* bytes from which a key is derived */
    LLI_PROTECT_DATA_BLOCK = 24,    /* 2^24 packets of a session have a key of their own */
    LLI_PROTECT_CONTROL_BLOCK = 28, /* likewise, of the numbers of control packets */
    LLI_PROTECT_SECOND = 20,        /* numbers of control packets in a second: 2^20 */
    LLI_PROTECT_SKEW = 60,          /* seconds by which clocks may differ, and by which epochs are extended */
};

/* Block of the names of topics in recordings, which no packet has. */
#define LLI_PROTECT_NAMES UINT64_MAX

/* Bytes of the longest protected name of a topic. */
enum { LLI_PROTECT_NAME_MAX = LLI_WIRE_DATA_HEADER + LLI_WIRE_NAME_MAX + LLI_PROTECT_DATA };

/* Protection of the body. */
enum lli_protect_mode { LLI_PROTECT_ENCRYPT = 1, LLI_PROTECT_AUTHENTICATE = 2 };

/* Fields after the body. */
struct lli_protect_fields {
    uint64_t sender;  /* all but DATA: identity of the endpoint that sent it */
    uint64_t counter; /* all but DATA: its number there */
    uint16_t epoch;
    uint8_t suite;
    uint8_t mode;
};

/* A packet and its parts. */
struct lli_protect_parts {
    bool is_data;
    uint32_t head;        /* bytes in clear before the body */
    uint32_t body;        /* bytes of the body */
    uint32_t after;       /* bytes after it */
    uint32_t tag;         /* offset of the tag */
    uint32_t session_tag; /* field `tag` of the header */
    uint32_t seq;         /* DATA: low half of the packet number */
};

/* Bytes that are authenticated besides the body: the header, and the fields after the body without the tag. */
enum { LLI_PROTECT_CLEAR_MAX = LLI_WIRE_DATA_HEADER + LLI_PROTECT_CONTROL - LLI_PROTECT_TAG };

/* Returns true if bytes begin as a protected packet, and false for every other version. */
static inline bool lli_protect_is(const uint8_t *packet, size_t size)
{
    return size > 0 && packet[0] >> 4 == LLI_PROTECT_VERSION;
}

/* Returns true if a packet of version 1 is DATA. */
static inline bool lli_protect_is_data(const uint8_t *packet)
{
    return (packet[0] & 15) == LLI_WIRE_DATA;
}

/*
 * Makes a packet of version 1 one of version 2: changes version and size, and writes the fields after the body, where
 * there is room for LLI_PROTECT_DATA or LLI_PROTECT_CONTROL bytes. False, with nothing changed: the packet would be
 * longer than its field `size` can say.
 */
bool lli_protect_begin(uint8_t *packet, uint32_t size, const struct lli_protect_fields *fields,
                       struct lli_protect_parts *parts);

/* Finds the parts of a packet of version 2 from a network. False: it contradicts itself. */
bool lli_protect_parse(const uint8_t *packet, size_t size, struct lli_protect_fields *fields,
                       struct lli_protect_parts *parts);

/* Copies what is authenticated besides the body. Returns how many bytes that is. */
uint32_t lli_protect_clear(const uint8_t *packet, const struct lli_protect_parts *parts,
                           uint8_t clear[LLI_PROTECT_CLEAR_MAX]);

/* Writes the head of the packet of version 1 that a packet of version 2 was; its body follows. */
void lli_protect_restore(const uint8_t *packet, const struct lli_protect_parts *parts, uint8_t *to);

/* Writes the nonce of a number: the 64 bits added, without carries, to the last eight bytes of an IV. */
void lli_protect_nonce(const uint8_t iv[LLI_PROTECT_NONCE], uint64_t number,
                       uint8_t nonce[LLI_PROTECT_NONCE]);

/* Returns the block of a packet number, or of the number of a control packet: packets of a block have one key. */
static inline uint64_t lli_protect_block(bool is_data, uint64_t number)
{
    return number >> (is_data ? LLI_PROTECT_DATA_BLOCK : LLI_PROTECT_CONTROL_BLOCK);
}

/*
 * Writes the purpose from which the key of a block is derived. identity: of the session for DATA, else of the sender.
 * Keys of different suites, modes, epochs, sessions, senders and blocks differ, and none is used in both directions.
 */
void lli_protect_purpose(bool is_data, const struct lli_protect_fields *fields, uint64_t identity,
                         uint64_t block, uint8_t purpose[LLI_PROTECT_PURPOSE]);

/*
 * Writes a packet of version 1 whose body is the name of a topic, with its flags, for a recording that hides it: DATA with
 * the topic's id as its number. Returns its size.
 */
uint32_t lli_protect_name(uint8_t packet[LLI_PROTECT_NAME_MAX], uint64_t session, uint32_t topic,
                          const uint8_t *name, size_t size);

/* ------------------------------------------------------------------------------------- control packets */

/* Returns the number of the next control packet, after the previous one, at a time in seconds since 1970. */
static inline uint64_t lli_protect_count(uint64_t previous, uint64_t seconds)
{
    return lli_max(previous + 1, seconds << LLI_PROTECT_SECOND);
}

/* Returns true if a control packet was numbered at about this time, so it may be the first one of its sender. */
static inline bool lli_protect_is_fresh(uint64_t counter, uint64_t seconds)
{
    const uint64_t then = counter >> LLI_PROTECT_SECOND;

    return then <= seconds + LLI_PROTECT_SKEW && seconds <= then + LLI_PROTECT_SKEW;
}

/* Numbers of control packets received from a sender; all zero before the first. */
struct lli_protect_replay {
    uint64_t highest;
    uint64_t seen; /* bit n: highest - n was received */
};

/* Returns true if a number was not received before, as far as is known: it is not 64 or more below the highest. */
bool lli_protect_is_new(const struct lli_protect_replay *replay, uint64_t counter);

/* Notes a number for which lli_protect_is_new() holds, once its packet is known to be authentic. */
void lli_protect_note(struct lli_protect_replay *replay, uint64_t counter);

#endif
