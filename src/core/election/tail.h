/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last messages of a stream that a member has, by number, for a new primary to fetch and to repeat
 * (docs/protocol.md section 12.7).
 */
#ifndef LLI_TAIL_H
#define LLI_TAIL_H

#include "core/base/arena.h"
#include "core/base/types.h"

struct lli_tail_message {
    uint64_t at; /* its place: bytes added before it */
    uint32_t size;
    uint32_t topic; /* a number of the caller */
};

struct lli_tail {
    uint8_t *bytes;
    uint64_t size; /* of `bytes` */
    struct lli_tail_message *messages;
    uint32_t count; /* places in `messages` */
    uint64_t first; /* number of the oldest message */
    uint64_t next;  /* number after the last one */
    uint64_t added; /* bytes */
};

/* Places an empty tail for so many bytes and messages in the arena; its first message will be `next`. */
void lli_tail_init(struct lli_tail *tail, uint64_t size, uint32_t count, struct lli_arena *arena);

/* Empties it; the next message is to be of this number. */
void lli_tail_reset(struct lli_tail *tail, uint64_t next);

/* Adds the message tail->next. Older ones make room; one that is too long takes the place of all. */
void lli_tail_add(struct lli_tail *tail, uint32_t topic, const void *data, uint32_t size);

/* Drops the messages from a number on, as far as they are there: next becomes this number. */
void lli_tail_truncate(struct lli_tail *tail, uint64_t number);

/* Finds a message, NULL: it is not there. */
const struct lli_tail_message *lli_tail_find(const struct lli_tail *tail, uint64_t number);

/* Copies size bytes of a message, from an offset. */
void lli_tail_copy(const struct lli_tail *tail, const struct lli_tail_message *message, uint32_t offset,
                   void *to, uint32_t size);

#endif
