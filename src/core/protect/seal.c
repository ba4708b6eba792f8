/* SPDX-License-Identifier: Apache-2.0 */
#include "core/protect/seal.h"

#include <string.h>

enum { SEAL_ASKS = 1 /* flag of the body */ };

/* In the place of the header, so that no other signature with the same key is one of a seal. */
static const uint8_t seal_purpose[LLI_WIRE_HEADER] = "libllm seal 1";

static uint32_t seal_text_size(const struct lli_seal *seal)
{
    const uint32_t each = seal->asks ? LLI_SEAL_RANGE : LLI_SEAL_RANGE + LLI_SEAL_DIGEST;

    return LLI_SEAL_HEAD + seal->count * each;
}

uint32_t lli_seal_put(uint8_t *packet, const struct lli_seal *seal)
{
    const uint32_t size = seal_text_size(seal) + (seal->asks ? 0 : LLI_SEAL_SIGNATURE);
    const struct lli_wire_header header = {
        .type = LLI_SEAL_TYPE, .size = (uint16_t)size, .tag = (uint32_t)seal->session};
    uint8_t *at = packet + LLI_SEAL_HEAD;

    assert(seal->count > 0 && seal->count <= LLI_SEAL_RANGES_MAX);
    lli_wire_put_header(packet, &header);
    lli_store_u64(packet + LLI_WIRE_HEADER, seal->session);
    packet[LLI_WIRE_HEADER + 8] = seal->asks ? SEAL_ASKS : 0;
    packet[LLI_WIRE_HEADER + 9] = (uint8_t)seal->count;
    for (uint32_t i = 0; i < seal->count; i++) {
        lli_store_u64(at, seal->ranges[i].first);
        lli_store_u16(at + 8, (uint16_t)seal->ranges[i].count);
        at += LLI_SEAL_RANGE;
        if (seal->asks)
            continue;
        memcpy(at, seal->ranges[i].digest, LLI_SEAL_DIGEST);
        at += LLI_SEAL_DIGEST;
    }
    if (!seal->asks)
        memset(at, 0, LLI_SEAL_SIGNATURE);
    return size;
}

bool lli_seal_get(const uint8_t *packet, size_t size, struct lli_seal *seal)
{
    struct lli_reader reader;
    uint8_t flags;

    if (size < LLI_WIRE_HEADER)
        return false;
    reader = lli_reader_of(packet + LLI_WIRE_HEADER, size - LLI_WIRE_HEADER);
    seal->session = lli_read_u64(&reader);
    flags = lli_read_u8(&reader);
    seal->asks = (flags & SEAL_ASKS) != 0;
    seal->count = lli_read_u8(&reader);
    reader.ok &= seal->count > 0 && seal->count <= LLI_SEAL_RANGES_MAX;
    for (uint32_t i = 0; reader.ok && i < seal->count; i++) {
        struct lli_seal_range *range = &seal->ranges[i];
        const uint8_t *digest;

        range->first = lli_read_u64(&reader);
        range->count = lli_read_u16(&reader);
        reader.ok &= range->count > 0 && range->count <= LLI_SEAL_PACKETS_MAX &&
                     range->first <= UINT64_MAX - range->count;
        digest = seal->asks ? NULL : lli_read_bytes(&reader, LLI_SEAL_DIGEST);
        if (digest != NULL)
            memcpy(range->digest, digest, LLI_SEAL_DIGEST);
    }
    if (!seal->asks)
        (void)lli_read_bytes(&reader, LLI_SEAL_SIGNATURE);
    return reader.ok;
}

uint32_t lli_seal_text(const uint8_t *packet, const struct lli_seal *seal, uint8_t text[LLI_SEAL_TEXT_MAX])
{
    const uint32_t size = seal_text_size(seal);

    memcpy(text, seal_purpose, LLI_WIRE_HEADER);
    memcpy(text + LLI_WIRE_HEADER, packet + LLI_WIRE_HEADER, size - LLI_WIRE_HEADER);
    return size;
}

/* ---------------------------------------------------------------------------------------- transmitters */

void lli_seal_log_init(struct lli_seal_log *log, uint8_t (*digests)[LLI_SEAL_DIGEST], uint32_t capacity)
{
    assert((capacity & (capacity - 1)) == 0);
    *log = (struct lli_seal_log){.digests = digests, .capacity = capacity};
}

void lli_seal_log_note(struct lli_seal_log *log, lli_seq seq, const uint8_t digest[LLI_SEAL_DIGEST],
                       lli_ns now)
{
    if (seq != log->next)
        log->first = log->sealed = log->next = seq;
    if (log->sealed == log->next)
        log->since = now;
    memcpy(log->digests[seq & (log->capacity - 1)], digest, LLI_SEAL_DIGEST);
    log->next = seq + 1;
    if (log->next - log->first > log->capacity)
        log->first = log->next - log->capacity;
    log->sealed = lli_max(log->sealed, log->first);
}

lli_ns lli_seal_log_due(const struct lli_seal_log *log)
{
    const lli_seq open = log->next - log->sealed;

    if (open == 0)
        return LLI_NEVER;
    return open >= LLI_SEAL_DUE ? log->since : log->since + LLI_SEAL_NS;
}

void lli_seal_log_take(struct lli_seal_log *log, struct lli_seal *seal, lli_ns now)
{
    for (seal->count = 0; seal->count < LLI_SEAL_RANGES_MAX && log->sealed < log->next; seal->count++) {
        struct lli_seal_range *range = &seal->ranges[seal->count];

        range->first = log->sealed;
        range->count = (uint32_t)lli_min(log->next - log->sealed, LLI_SEAL_PACKETS_MAX);
        log->sealed += range->count;
    }
    log->since = now;
}

void lli_seal_log_answer(const struct lli_seal_log *log, struct lli_seal *seal)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < seal->count; i++) {
        const lli_seq first = lli_max(seal->ranges[i].first, log->first);
        const lli_seq end = lli_min(seal->ranges[i].first + seal->ranges[i].count, log->sealed);

        if (first < end)
            seal->ranges[count++] = (struct lli_seal_range){.first = first, .count = (uint32_t)(end - first)};
    }
    seal->count = count;
}

const uint8_t *lli_seal_log_digest(const struct lli_seal_log *log, lli_seq seq)
{
    return log->digests[seq & (log->capacity - 1)];
}

/* ------------------------------------------------------------------------------------------- receivers */

static struct lli_seal_entry *window_at(const struct lli_seal_window *window, lli_seq seq)
{
    return &window->entries[seq & (LLI_SEAL_WINDOW - 1)];
}

/* Finds the entry of a packet; NULL: it did not come, or was displaced. */
static struct lli_seal_entry *window_find(const struct lli_seal_window *window, lli_seq seq)
{
    struct lli_seal_entry *entry = window_at(window, seq);

    return entry->state != LLI_SEAL_NONE && entry->seq == seq ? entry : NULL;
}

void lli_seal_window_reset(struct lli_seal_window *window)
{
    struct lli_seal_entry *entries = window->entries;

    memset(entries, 0, LLI_SEAL_WINDOW * sizeof *entries);
    *window = (struct lli_seal_window){.entries = entries};
}

enum lli_seal_taken lli_seal_window_note(struct lli_seal_window *window, lli_seq seq,
                                         const uint8_t digest[LLI_SEAL_DIGEST], lli_ns now)
{
    struct lli_seal_entry *entry = window_at(window, seq);

    window->heard = now;
    if (entry->state != LLI_SEAL_NONE && entry->seq == seq)
        return memcmp(entry->digest, digest, LLI_SEAL_DIGEST) == 0 ? LLI_SEAL_SAME : LLI_SEAL_DIFFERS;
    if (entry->state == LLI_SEAL_WAITING) {
        window->waiting--;
        window->displaced++;
    }
    if (window->waiting == 0)
        window->low = window->high = seq;
    window->low = lli_min(window->low, seq);
    window->high = lli_max(window->high, seq + 1);
    window->waiting++;
    *entry = (struct lli_seal_entry){.seq = seq, .at = now, .state = LLI_SEAL_WAITING};
    memcpy(entry->digest, digest, LLI_SEAL_DIGEST);
    return LLI_SEAL_NEW;
}

void lli_seal_window_forgive(struct lli_seal_window *window, lli_seq seq)
{
    struct lli_seal_entry *entry = window_find(window, seq);

    if (entry != NULL && entry->state == LLI_SEAL_REFUSED)
        entry->state = LLI_SEAL_NONE;
}

enum lli_seal_state lli_seal_window_state(const struct lli_seal_window *window, lli_seq seq)
{
    const struct lli_seal_entry *entry = window_find(window, seq);

    return entry != NULL ? entry->state : LLI_SEAL_NONE;
}

bool lli_seal_window_needs(const struct lli_seal_window *window, const struct lli_seal_range *range)
{
    bool waits = false;

    for (uint32_t i = 0; i < range->count; i++) {
        const struct lli_seal_entry *entry = window_find(window, range->first + i);

        if (entry == NULL)
            return false;
        waits |= entry->state == LLI_SEAL_WAITING;
    }
    return waits;
}

const uint8_t *lli_seal_window_digest(const struct lli_seal_window *window, lli_seq seq)
{
    return window_at(window, seq)->digest;
}

/* Returns how many entries from that of `low` on may wait: a forged number far ahead makes it all of them. */
static uint32_t window_span(const struct lli_seal_window *window)
{
    return (uint32_t)lli_min(window->high - window->low, LLI_SEAL_WINDOW);
}

/* Narrows `low` and `high` around the packets that wait. */
static void window_settle(struct lli_seal_window *window)
{
    if (window->high - window->low > LLI_SEAL_WINDOW) {
        window->low = window->waiting > 0 ? UINT64_MAX : window->high;
        for (uint32_t i = 0; i < LLI_SEAL_WINDOW; i++)
            if (window->entries[i].state == LLI_SEAL_WAITING)
                window->low = lli_min(window->low, window->entries[i].seq);
    }
    while (window->low < window->high) {
        const struct lli_seal_entry *entry = window_find(window, window->low);

        if (window->waiting > 0 && (window->high - window->low > LLI_SEAL_WINDOW ||
                                    (entry != NULL && entry->state == LLI_SEAL_WAITING)))
            break;
        window->low = window->waiting > 0 ? window->low + 1 : window->high;
    }
}

uint32_t lli_seal_window_set(struct lli_seal_window *window, const struct lli_seal_range *range,
                             enum lli_seal_state state)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < range->count; i++) {
        struct lli_seal_entry *entry = window_find(window, range->first + i);

        if (entry == NULL || entry->state != LLI_SEAL_WAITING)
            continue;
        entry->state = state;
        count++;
    }
    window->waiting -= count;
    window_settle(window);
    return count;
}

bool lli_seal_window_ask(struct lli_seal_window *window, lli_ns now, struct lli_seal *seal)
{
    const uint32_t span = window_span(window);
    struct lli_seal_range *range = NULL;

    seal->asks = true;
    seal->count = 0;
    for (uint32_t i = 0; window->waiting > 0 && i < span; i++) {
        const struct lli_seal_entry *entry = window_at(window, window->low + i);

        if (entry->state != LLI_SEAL_WAITING || now < entry->at + LLI_SEAL_ASK)
            continue;
        if (range != NULL && range->first + range->count == entry->seq &&
            range->count < LLI_SEAL_PACKETS_MAX) {
            range->count++;
            continue;
        }
        if (seal->count == LLI_SEAL_RANGES_MAX)
            break;
        range = &seal->ranges[seal->count++];
        *range = (struct lli_seal_range){.first = entry->seq, .count = 1};
    }
    return seal->count > 0;
}

uint32_t lli_seal_window_give_up(struct lli_seal_window *window, lli_ns now)
{
    const uint32_t span = window_span(window);
    uint32_t count = window->displaced;

    window->displaced = 0;
    for (uint32_t i = 0; window->waiting > 0 && i < span; i++) {
        struct lli_seal_entry *entry = window_at(window, window->low + i);

        if (entry->state != LLI_SEAL_WAITING ||
            (window->heard < entry->at + LLI_SEAL_PATIENCE && now < entry->at + LLI_SEAL_SILENCE))
            continue;
        entry->state = LLI_SEAL_REFUSED;
        window->waiting--;
        count++;
    }
    window_settle(window);
    return count;
}
