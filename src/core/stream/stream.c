/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stream/stream.h"

#include <string.h>

#include "core/base/hash.h"

uint64_t lli_stream_id(const char *name)
{
    const uint64_t id = lli_hash(name, strlen(name));

    return id == 0 ? 1 : id;
}

void lli_streams_init(struct lli_streams *streams, uint32_t limit, struct lli_arena *arena)
{
    *streams = (struct lli_streams){.limit = limit};
    streams->table = lli_arena_take(arena, limit * sizeof *streams->table, 64);
    streams->sums = lli_arena_take(arena, (size_t)limit * LLI_MERGE_SUMS * sizeof *streams->sums, 64);
}

static struct lli_stream *streams_find(const struct lli_streams *streams, uint64_t stream)
{
    for (uint32_t i = 0; i < streams->limit; i++)
        if (streams->table[i].id == stream)
            return &streams->table[i];
    return NULL;
}

/* Finds the entry of a stream in which this session, which does not merge, is the latest; NULL: there is none. */
static struct lli_stream *streams_current(const struct lli_streams *streams,
                                          const struct lli_stream_claim *claim)
{
    struct lli_stream *stream = streams_find(streams, claim->stream);

    return stream != NULL && !claim->merges && !stream->merged && stream->session == claim->session ? stream
                                                                                                    : NULL;
}

/* Finds a free entry, else the one that was not changed for longest among those that are not followed. */
static struct lli_stream *streams_place(const struct lli_streams *streams)
{
    struct lli_stream *place = NULL;

    for (uint32_t i = 0; i < streams->limit; i++) {
        struct lli_stream *stream = &streams->table[i];

        if (stream->id == 0)
            return stream;
        if (!stream->followed && (place == NULL || stream->changed < place->changed))
            place = stream;
    }
    return place;
}

uint64_t lli_streams_session(const struct lli_streams *streams, uint64_t stream)
{
    const struct lli_stream *found = streams_find(streams, stream);

    return found != NULL && found->followed && !found->merged ? found->session : 0;
}

enum lli_stream_verdict lli_streams_ask(const struct lli_streams *streams,
                                        const struct lli_stream_claim *claim, uint32_t heartbeats, bool heard)
{
    const struct lli_stream *stream = streams_find(streams, claim->stream);

    if (stream == NULL)
        return LLI_STREAM_FOLLOW;
    if (stream->merged && stream->followed)
        return claim->merges && stream->merge.count < LLI_MERGE_MEMBERS ? LLI_STREAM_FOLLOW
                                                                        : LLI_STREAM_TAKEN;
    if (claim->merges)
        return stream->followed && heard ? LLI_STREAM_TAKEN : LLI_STREAM_FOLLOW;
    if (stream->session == claim->session)
        return LLI_STREAM_FOLLOW;
    if (claim->term < stream->term)
        return LLI_STREAM_SUPERSEDED;
    if (!stream->followed || !heard)
        return LLI_STREAM_FOLLOW;
    if (claim->term == stream->term)
        return LLI_STREAM_TAKEN;
    return heartbeats < LLI_STREAM_HEARTBEATS ? LLI_STREAM_WAIT : LLI_STREAM_FOLLOW;
}

/* Changes between sessions that merge and single ones, which continue at the same number. */
static void streams_merge_begin(struct lli_streams *streams, struct lli_stream *stream,
                                const struct lli_stream_claim *claim)
{
    if (claim->merges && !stream->merged) {
        stream->merge = (struct lli_merge){.sums = streams->sums + (stream - streams->table) * LLI_MERGE_SUMS,
                                           .next = stream->next,
                                           .known = stream->known};
        memset(stream->merge.sums, 0, LLI_MERGE_SUMS * sizeof *stream->merge.sums);
    } else if (!claim->merges && stream->merged) {
        stream->next = stream->merge.next;
        stream->known = stream->merge.known;
    }
    stream->merged = claim->merges;
    if (claim->merges)
        (void)lli_merge_add(&stream->merge, claim->session);
}

void lli_streams_follow(struct lli_streams *streams, const struct lli_stream_claim *claim)
{
    struct lli_stream *stream = streams_find(streams, claim->stream);

    if (stream == NULL) {
        stream = streams_place(streams);
        if (stream == NULL)
            return;
        *stream = (struct lli_stream){.id = claim->stream};
    }
    streams_merge_begin(streams, stream, claim);
    stream->session = claim->session;
    stream->term = claim->term > stream->term ? claim->term : stream->term;
    stream->followed = true;
    stream->changed = ++streams->changes;
}

struct lli_stream_seam lli_streams_begin(struct lli_streams *streams, const struct lli_stream_claim *claim,
                                         uint64_t first)
{
    struct lli_stream *stream = streams_current(streams, claim);
    const uint64_t number = claim->base + first;
    struct lli_stream_seam seam = {.kind = LLI_STREAM_FIRST};

    if (stream == NULL)
        return seam;
    if (stream->known && stream->next < number)
        seam = (struct lli_stream_seam){LLI_STREAM_MISSING, stream->next, number - 1};
    else if (stream->known && stream->next > number)
        seam = (struct lli_stream_seam){LLI_STREAM_AGAIN, number, stream->next - 1};
    else if (stream->known)
        seam.kind = LLI_STREAM_SEAMLESS;
    stream->known = true;
    stream->next = number;
    return seam;
}

struct lli_merge *lli_streams_merge(const struct lli_streams *streams, const struct lli_stream_claim *claim)
{
    struct lli_stream *stream = streams_find(streams, claim->stream);

    return stream != NULL && claim->merges && stream->merged ? &stream->merge : NULL;
}

void lli_streams_reach(struct lli_streams *streams, const struct lli_stream_claim *claim, uint64_t number)
{
    struct lli_stream *stream = streams_current(streams, claim);

    if (stream == NULL)
        return;
    stream->known = true;
    stream->next = claim->base + number;
}

void lli_streams_leave(struct lli_streams *streams, const struct lli_stream_claim *claim)
{
    struct lli_stream *stream = streams_current(streams, claim);
    struct lli_merge *merge = lli_streams_merge(streams, claim);

    if (merge != NULL) {
        stream = streams_find(streams, claim->stream);
        lli_merge_del(merge, claim->session);
    }
    if (stream == NULL || (merge != NULL && merge->count > 0))
        return;
    stream->followed = false;
    stream->changed = ++streams->changes;
}
