/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ack/ack_name.h"

#include <string.h>

/* Returns the number in size bytes; 0 if it is none, or out of range. */
static uint8_t name_count(const char *text, size_t size)
{
    unsigned count = 0;

    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        count = count * 10 + (unsigned)(text[i] - '0');
        if (count > LLI_ACK_COUNT_MAX)
            return 0;
    }
    return (uint8_t)count;
}

/* Returns the offset of the first star from `at` on; size if there is none. */
static size_t name_star(const char *text, size_t size, size_t at)
{
    while (at < size && text[at] != '*')
        at++;
    return at;
}

/* Returns the offset of the last colon after the star; size if there is none. */
static size_t name_colon(const char *text, size_t size, size_t star)
{
    for (size_t i = size; i > star + 1; i--)
        if (text[i - 1] == ':')
            return i - 1;
    return size;
}

enum lli_ack_name_result lli_ack_name_parse(const char *text, size_t size, struct lli_ack_name *name)
{
    const size_t star = name_star(text, size, 0);
    struct lli_ack_name parsed = {.count = 1};

    if (star < size) {
        const size_t colon = name_colon(text, size, star);

        if (name_star(text, size, star + 1) < size)
            return LLI_ACK_NAME_STARS;
        if (colon < size)
            parsed.count = name_count(text + colon + 1, size - colon - 1);
        if (parsed.count == 0)
            return LLI_ACK_NAME_COUNT;
        size = colon;
    }
    if (size == 0 || size > LLI_WIRE_RECEIVER_NAME_MAX)
        return LLI_ACK_NAME_SIZE;
    memcpy(parsed.text, text, size);
    parsed.size = (uint8_t)size;
    parsed.star = (uint8_t)star;
    *name = parsed;
    return LLI_ACK_NAME_OK;
}

/* A receiver without a name matches no pattern: several of them would count as one. */
static bool name_matches_pattern(const struct lli_ack_name *name, const char *receiver)
{
    const size_t size = strlen(receiver), after = name->size - name->star - (size_t)1;

    return size > 0 && size >= name->star + after && memcmp(receiver, name->text, name->star) == 0 &&
           memcmp(receiver + size - after, name->text + name->star + 1, after) == 0;
}

bool lli_ack_name_matches(const struct lli_ack_name *name, const char *receiver)
{
    return lli_ack_name_is_pattern(name) ? name_matches_pattern(name, receiver)
                                         : memcmp(receiver, name->text, sizeof name->text) == 0;
}
