/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers that have to acknowledge by name: one name, or a pattern of names and how many different names of
 * it (docs/protocol.md section 7.3).
 */
#ifndef LLI_ACK_NAME_H
#define LLI_ACK_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire/wire.h"

enum { LLI_ACK_COUNT_MAX = 16 };

struct lli_ack_name {
    char text[LLI_WIRE_RECEIVER_NAME_MAX + 1]; /* name or pattern, padded with zeros */
    uint8_t size;                              /* of text */
    uint8_t star;  /* bytes before the "*", which stands for any text, or none; size: a plain name */
    uint8_t count; /* different names that have to acknowledge, 1 to LLI_ACK_COUNT_MAX */
};

enum lli_ack_name_result {
    LLI_ACK_NAME_OK,
    LLI_ACK_NAME_SIZE,  /* empty, or longer than LLI_WIRE_RECEIVER_NAME_MAX */
    LLI_ACK_NAME_STARS, /* more than one "*" */
    LLI_ACK_NAME_COUNT, /* the count is not a number, or out of its range */
};

/*
 * Reads a name, "PATTERN" or "PATTERN:COUNT" from size bytes. The count is behind the last colon after the
 * "*"; names without "*" may contain colons. *name is written only if the result is LLI_ACK_NAME_OK.
 */
enum lli_ack_name_result lli_ack_name_parse(const char *text, size_t size, struct lli_ack_name *name);

static inline bool lli_ack_name_is_pattern(const struct lli_ack_name *name)
{
    return name->star < name->size;
}

/* True if a receiver of this name is meant; receiver is padded with zeros to the size of name->text. */
bool lli_ack_name_matches(const struct lli_ack_name *name, const char *receiver);

#endif
