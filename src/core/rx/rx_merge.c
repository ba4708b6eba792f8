/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of a stream that are merged (docs/protocol.md section 4.5.1): which messages are copies, which missing
 * packets the other sessions make up for, and when a session waits for the others. Nothing here is called for other
 * sessions.
 */
#include "core/base/hash.h"
#include "core/rx/rx_internal.h"

/* A session that waits for the others looks at them at least this often. */
#define MERGE_RETRY ((lli_ns)1000000)

void lli_rx_merge_begin(struct lli_rx *rx)
{
    struct lli_merge *merge = lli_streams_merge(rx->config->streams, &rx->stream.claim);

    /* Sessions are recorded as they are. */
    if (merge == NULL || rx->config->records)
        return;
    rx->stream.member = lli_merge_add(merge, rx->session);
    if (rx->stream.member == NULL)
        return;
    rx->stream.merge = merge;
    rx->stream.merges = true;
    rx->stream.diverges = rx->stream.diverges_news = false;
    lli_rx_set_news(rx, LLI_RX_MERGES);
    lli_rx_set_slow_path(rx, LLI_RX_MERGING);
}

void lli_rx_merge_end(struct lli_rx *rx)
{
    rx->stream.merge = NULL;
    rx->stream.member = NULL;
    rx->stream.ahead = rx->stream.skips = rx->stream.skip_lost = false;
    rx->stream.retry_at = 0;
    lli_rx_clear_news(rx, LLI_RX_MERGES);
    lli_rx_clear_slow_path(rx, LLI_RX_MERGING);
}

bool lli_rx_merge_seam(struct lli_rx *rx, uint64_t number, uint64_t *first)
{
    struct lli_merge *merge = rx->stream.merge;

    if (rx->stream.lost) {
        rx->stream.lost = false;
        *first = lli_merge_lose(merge, rx->stream.member, number);
        return *first < number;
    }
    rx->stream.joined = merge->known;
    if (!merge->known)
        merge->next = number;
    merge->known = true;
    rx->counters->streams_continued += rx->stream.joined;
    if (lli_merge_covers(merge, number))
        return false;
    /* The other sessions may have the messages before: delivery waits, as for the names of topics. */
    rx->stream.ahead = true;
    lli_rx_stall(rx, true);
    return false;
}

/* Asks the other sessions for the messages before this number of the session. */
static enum lli_merge_verdict merge_ask(struct lli_rx *rx, uint64_t number, lli_ns now)
{
    struct lli_rx_stream *stream = &rx->stream;
    const enum lli_merge_verdict verdict =
        lli_merge_ask(stream->merge, stream->member, stream->claim.base + number, now, rx->config->silence);

    stream->retry_at = verdict == LLI_MERGE_WAIT ? now + MERGE_RETRY : 0;
    return verdict;
}

void lli_rx_merge_skip(struct lli_rx *rx, const struct lli_unpacked *skipped)
{
    rx->stream.skipped = *skipped;
    rx->stream.skips = true;
    lli_rx_stall(rx, true);
}

bool lli_rx_merge_skipped(struct lli_rx *rx, struct lli_unpacked *skipped)
{
    if (!rx->stream.skip_lost)
        return false;
    rx->stream.skip_lost = false;
    *skipped = rx->stream.skipped;
    return true;
}

bool lli_rx_merge_resumes(struct lli_rx *rx, lli_ns now)
{
    struct lli_rx_stream *stream = &rx->stream;
    enum lli_merge_verdict verdict;

    if (!(stream->ahead || stream->skips) || rx->pending.slow_path & LLI_RX_LEARNING)
        return false;
    verdict = merge_ask(rx, stream->skips ? stream->skipped.last + 1 : rx->join.first, now);
    if (verdict == LLI_MERGE_WAIT)
        return false;
    lli_rx_stall(rx, false);
    if (verdict == LLI_MERGE_LOST && stream->ahead) {
        /* Reported as if the session began now. */
        stream->lost = stream->announced = true;
        lli_rx_set_news(rx, LLI_RX_NEW);
    }
    stream->skip_lost = stream->skips && verdict == LLI_MERGE_LOST;
    stream->ahead = stream->skips = false;
    return true;
}

/* Returns the number of the first message that starts in a present packet, or after it. */
static uint64_t merge_number(const struct lli_rx *rx, lli_seq seq)
{
    return lli_seq_extend(rx->unpack.number,
                          lli_wire_number(lli_reorder_head(rx->buffer.reorder, *lli_rx_cell(rx, seq))));
}

/* Finds the message with which the session continues after the missing packets. False: it is not known. */
static bool merge_resume(const struct lli_rx *rx, uint64_t *number)
{
    const struct lli_gap *gap = &rx->gap;
    const lli_seq seq = gap->received > gap->next ? lli_gap_first_present(gap) : gap->end;

    if (seq < gap->end) {
        *number = merge_number(rx, seq);
        return true;
    }
    *number = lli_max(lli_rx_known_messages(rx), rx->unpack.number);
    return false;
}

bool lli_rx_merge_waits(struct lli_rx *rx, uint64_t number, lli_ns now)
{
    return merge_ask(rx, number, now) == LLI_MERGE_WAIT;
}

bool lli_rx_merge_proceeds(struct lli_rx *rx, lli_ns now)
{
    return rx->loss.run == 0 || !lli_rx_merge_waits(rx, merge_number(rx, rx->gap.next), now);
}

enum llm_reason lli_rx_merge_gives_up(struct lli_rx *rx, enum llm_reason reason, lli_ns now)
{
    struct lli_rx_stream *stream = &rx->stream;
    uint64_t number;
    bool known;
    enum lli_merge_verdict verdict;

    stream->covered = false;
    known = merge_resume(rx, &number);
    /* A heartbeat after the packet tells if it announced topics, whose names are then asked for. */
    if (reason == LLM_REASON_NONE && (!known || rx->gap.next >= rx->heartbeat.lead ||
                                      !lli_merge_covers(stream->merge, stream->claim.base + number)))
        return LLM_REASON_NONE;
    /* Nothing is left to wait for in this session. Its next packet tells which messages are missing. */
    if (!known && rx->gap.next < rx->loss.gone_below)
        return reason;
    verdict = merge_ask(rx, number, now);
    if (verdict == LLI_MERGE_WAIT)
        return LLM_REASON_NONE;
    stream->covered = verdict == LLI_MERGE_COVERED;
    /* No loss, but a reason to ask for the names that these packets may have announced. */
    return stream->covered ? LLM_REASON_TIMEOUT : reason;
}

bool lli_rx_merge_lost(struct lli_rx *rx, struct lli_unpacked *lost)
{
    struct lli_rx_stream *stream = &rx->stream;
    const uint64_t base = stream->claim.base;
    uint64_t first;

    /* At the end of a session the others need not be waited for: what they lack they report. */
    if (rx->loss.end_reason != LLM_REASON_NONE && lli_unpack_is_done(&rx->unpack) &&
        lli_merge_has_others(stream->merge, stream->member))
        return false;
    first = lli_merge_lose(stream->merge, stream->member, base + lost->last + 1);
    if (first > base + lost->last)
        return false;
    lost->number = lli_max(lost->number, first - base);
    return true;
}

void lli_rx_merge_passed(struct lli_rx *rx)
{
    const struct lli_rx_stream *stream = &rx->stream;
    const uint64_t end = stream->claim.base + lli_rx_delivered(rx);

    /* Before its seam the session has no place in the sequence; after its end it has numbers that others report. */
    if (stream->merge == NULL || !stream->merge->known || stream->ahead || stream->lost ||
        stream->announced || stream->skips || rx->loss.end_reason != LLM_REASON_NONE ||
        lli_merge_covers(stream->merge, end))
        return;
    (void)lli_merge_take(stream->merge, stream->member, end);
}

/* Removes messages from the beginning of an item. */
static void merge_drop(struct lli_rx *rx, struct lli_item *item, int copies)
{
    const int rest = item->count - copies;

    if (copies == 0)
        return;
    memmove(item->messages, item->messages + copies, (size_t)rest * sizeof *item->messages);
    if (rx->pending.news & LLI_RX_FILTERED) {
        memmove(rx->filter->frames, rx->filter->frames + copies, (size_t)rest * sizeof *rx->filter->frames);
        rx->filter->given_count = (uint32_t)rest;
    }
    item->count = rest;
    rx->counters->messages_delivered -= (uint64_t)copies;
    rx->counters->messages_copies += (uint64_t)copies;
}

/* Compares a copy with the message that was delivered, if that was among the latest. */
static void merge_compare(struct lli_rx *rx, uint64_t number, uint64_t hash)
{
    struct lli_rx_stream *stream = &rx->stream;
    const struct lli_merge_sum *sum = lli_merge_noted(stream->merge, number);
    const bool diverges = sum != NULL && sum->hash != hash;

    rx->counters->messages_diverged += diverges;
    if (diverges && !stream->diverges && !stream->diverges_news) {
        stream->diverges_news = true;
        stream->diverged = number;
        stream->hashes[0] = sum->hash;
        stream->hashes[1] = hash;
    }
    if (sum != NULL)
        stream->diverges = diverges;
}

bool lli_rx_merge_diverged(struct lli_rx *rx, struct lli_item *item)
{
    struct lli_rx_stream *stream = &rx->stream;

    if (!stream->diverges_news)
        return false;
    stream->diverges_news = false;
    (void)lli_rx_event(rx, LLM_EVENT_DIVERGED, item);
    item->event.first = stream->diverged;
    item->event.hash = stream->hashes[0];
    item->event.hash_copy = stream->hashes[1];
    return true;
}

bool lli_rx_merge_messages(struct lli_rx *rx, struct lli_item *item)
{
    const uint64_t base = rx->stream.claim.base;
    int copies = 0;

    for (int i = 0; i < item->count; i++)
        item->messages[i].number += base;
    if (rx->pending.slow_path & LLI_RX_LATEST) {
        /* The session that the stream began with at this receiver has delivered the cached messages. */
        copies = rx->stream.joined ? item->count : 0;
    } else {
        const uint64_t next =
            lli_merge_take(rx->stream.merge, rx->stream.member, item->messages[item->count - 1].number + 1);

        while (copies < item->count && item->messages[copies].number < next)
            copies++;
        for (int i = 0; i < item->count; i++) {
            const struct llm_message *message = &item->messages[i];
            const uint64_t hash = lli_hash(message->data, message->size);

            if (i < copies)
                merge_compare(rx, message->number, hash);
            else
                lli_merge_note(rx->stream.merge, message->number, hash);
        }
    }
    merge_drop(rx, item, copies);
    return item->count > 0;
}
