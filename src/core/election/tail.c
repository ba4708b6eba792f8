/* SPDX-License-Identifier: Apache-2.0 */
#include "core/election/tail.h"

#include <string.h>

void lli_tail_init(struct lli_tail *tail, uint64_t size, uint32_t count, struct lli_arena *arena)
{
    *tail = (struct lli_tail){.size = size, .count = count};
    tail->bytes = lli_arena_take(arena, size, 64);
    tail->messages = lli_arena_take(arena, count * sizeof *tail->messages, 64);
}

void lli_tail_reset(struct lli_tail *tail, uint64_t next)
{
    tail->first = tail->next = next;
}

static uint64_t tail_used(const struct lli_tail *tail)
{
    return tail->first == tail->next ? 0 : tail->added - tail->messages[tail->first % tail->count].at;
}

void lli_tail_add(struct lli_tail *tail, uint32_t topic, const void *data, uint32_t size)
{
    const uint64_t at = tail->added % tail->size;
    const uint64_t whole = lli_min(size, tail->size - at);

    if (size > tail->size) {
        lli_tail_reset(tail, tail->next + 1);
        return;
    }
    while (tail->next - tail->first == tail->count || tail_used(tail) + size > tail->size)
        tail->first++;
    tail->messages[tail->next++ % tail->count] = (struct lli_tail_message){tail->added, size, topic};
    memcpy(tail->bytes + at, data, whole);
    memcpy(tail->bytes, (const uint8_t *)data + whole, size - whole);
    tail->added += size;
}

void lli_tail_truncate(struct lli_tail *tail, uint64_t number)
{
    if (number >= tail->next)
        return;
    if (number <= tail->first) {
        lli_tail_reset(tail, number);
        return;
    }
    tail->added = tail->messages[number % tail->count].at;
    tail->next = number;
}

const struct lli_tail_message *lli_tail_find(const struct lli_tail *tail, uint64_t number)
{
    return number < tail->first || number >= tail->next ? NULL : &tail->messages[number % tail->count];
}

void lli_tail_copy(const struct lli_tail *tail, const struct lli_tail_message *message, uint32_t offset,
                   void *to, uint32_t size)
{
    const uint64_t at = (message->at + offset) % tail->size;
    const uint64_t whole = lli_min(size, tail->size - at);

    assert(offset <= message->size && size <= message->size - offset);
    memcpy(to, tail->bytes + at, whole);
    memcpy((uint8_t *)to + whole, tail->bytes, size - whole);
}
