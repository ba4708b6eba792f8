/* SPDX-License-Identifier: Apache-2.0 */
/* The list of recordings, by their beginnings and ends. */
#include <stdlib.h>

#include <llm/store.h>

#include "config/options.h"
#include "core/stream/stream.h"
#include "store/cursor.h"
#include "store/recordings.h"

struct order_entry {
    lli_ns begun;
    uint64_t session;
};

static int order_compare(const void *left, const void *right)
{
    const struct order_entry *a = left, *b = right;

    if (a->begun != b->begun)
        return a->begun < b->begun ? -1 : 1;
    return a->session < b->session ? -1 : a->session > b->session;
}

uint64_t *lli_catalogue_order(const struct lli_catalogue *catalogue, const struct lli_log *log)
{
    struct order_entry *entries = malloc((catalogue->count + 1) * sizeof *entries);
    uint64_t *sessions = malloc((catalogue->count + 1) * sizeof *sessions);

    if (entries == NULL || sessions == NULL) {
        free(entries);
        free(sessions);
        (void)lli_fail(log, LLM_ENOMEM, "store %s: no memory to sort %u recordings", catalogue->directory,
                       catalogue->count);
        return NULL;
    }
    for (uint32_t i = 0; i < catalogue->count; i++)
        entries[i] = (struct order_entry){.begun = catalogue->recordings[i]->segments[0].begun,
                                          .session = catalogue->recordings[i]->session};
    qsort(entries, catalogue->count, sizeof *entries, order_compare);
    for (uint32_t i = 0; i < catalogue->count; i++)
        sessions[i] = entries[i].session;
    free(entries);
    return sessions;
}

/* Number of the first message that starts in the recording. */
static uint64_t recordings_first(struct lli_cursor *cursor, lli_seq packet, uint64_t otherwise)
{
    const struct lli_block *block;
    struct lli_record record;
    int there = lli_cursor_seek(cursor, LLI_INDEX_PACKET, packet);

    if (there != LLM_OK)
        return otherwise;
    do
        there = lli_cursor_next(cursor, &record, &block);
    while (there == 1 && lli_record_is_name(&record));
    return there == 1 ? record.message : otherwise;
}

static int recordings_describe(const struct lli_catalogue *catalogue, const struct lli_recording *recording,
                               struct llm_recording *described)
{
    const struct lli_catalogue_segment *first = recording->segments;
    struct lli_cursor *cursor = NULL;
    struct lli_recording_end end;
    int error = lli_cursor_open(catalogue, recording, &catalogue->log, &cursor);

    if (error == LLM_OK)
        error = lli_cursor_end(cursor, &end);
    if (error == LLM_OK)
        *described = (struct llm_recording){
            .size = sizeof *described,
            .session = recording->session,
            .channel = recording->channel,
            .packet_first = first->packet,
            .packet_next = end.next.packet,
            .message_first = recordings_first(cursor, first->packet, end.delivered),
            .message_next = end.delivered,
            .realtime_first = first->begun,
            .realtime_last = end.wall,
            .segments = recording->count,
            .ended = end.ended,
            .reason = end.ended ? (enum llm_reason)end.reason : LLM_REASON_NONE,
            .stream = recording->stream.id,
            .stream_base = recording->stream.base,
            .stream_term = recording->stream.term,
        };
    for (uint32_t i = 0; error == LLM_OK && i < recording->count; i++)
        described->bytes += recording->segments[i].size;
    lli_cursor_close(&cursor);
    return error;
}

int llm_replay_recordings(const char *directory, llm_recording_fn *found, void *arg, llm_log_fn *log,
                          void *log_arg)
{
    const struct lli_log lines = {.function = log, .arg = log_arg, .level = LLM_LEVEL_WARNING};
    struct lli_catalogue *catalogue = NULL;
    uint64_t *sessions = NULL;
    int error, count = 0;

    if (directory == NULL || found == NULL)
        return lli_fail(&lines, LLM_EINVAL, "llm_replay_recordings: %s is NULL: it has to be given",
                        directory == NULL ? "directory" : "found");
    error = lli_catalogue_open(directory, &lines, &catalogue);
    if (error != LLM_OK)
        return error;
    sessions = lli_catalogue_order(catalogue, &lines);
    if (sessions == NULL)
        error = LLM_ENOMEM;
    for (uint32_t i = 0; error == LLM_OK && i < catalogue->count; i++) {
        struct llm_recording described;

        error = recordings_describe(catalogue, lli_catalogue_find(catalogue, sessions[i]), &described);
        /* Retention removed it meanwhile. */
        if (error == LLM_ENOTFOUND) {
            error = LLM_OK;
            continue;
        }
        if (error != LLM_OK)
            break;
        found(arg, &described);
        count++;
    }
    free(sessions);
    lli_catalogue_close(&catalogue);
    return error == LLM_OK ? count : error;
}

/* -------------------------------------------------------------------------------------------------- streams */

static int stream_end_of(const struct lli_catalogue *catalogue, const struct lli_recording *recording,
                         struct lli_stream_end *end)
{
    struct lli_cursor *cursor = NULL;
    struct lli_recording_end found;
    int error = lli_cursor_open(catalogue, recording, &catalogue->log, &cursor);

    if (error == LLM_OK)
        error = lli_cursor_end(cursor, &found);
    /* Numbers of messages that are recorded must not be used again. */
    if (error == LLM_OK && found.unopened.is_set)
        error = lli_cursor_refuse(cursor, &found.unopened);
    lli_cursor_close(&cursor);
    if (error == LLM_OK && (end->session == 0 || recording->stream.base + found.delivered > end->next)) {
        end->session = recording->session;
        end->next = recording->stream.base + found.delivered;
    }
    return error;
}

int lli_catalogue_stream(const struct lli_catalogue *catalogue, uint64_t stream, struct lli_stream_end *end)
{
    struct lli_stream_end found = {.session = 0};
    int error = LLM_OK;

    for (uint32_t i = 0; i < catalogue->count; i++) {
        const struct lli_segment_stream *of = &catalogue->recordings[i]->stream;

        found.sessions += of->id == stream;
        if (of->id == stream && of->term > found.term)
            found.term = of->term;
    }
    for (uint32_t i = 0; i < catalogue->count && error == LLM_OK; i++) {
        const struct lli_recording *recording = catalogue->recordings[i];

        if (recording->stream.id == stream && recording->stream.term == found.term)
            error = stream_end_of(catalogue, recording, &found);
        /* Retention removed it meanwhile. */
        if (error == LLM_ENOTFOUND)
            error = LLM_OK;
    }
    *end = found;
    return error;
}

int lli_stream_continue(struct llm_options *options, const struct lli_stream_end *end,
                        const struct lli_log *log)
{
    if (end->sessions > 0 && (end->next > LLI_STREAM_BASE_MAX || end->term == UINT32_MAX))
        return lli_fail(
            log, LLM_ELIMIT,
            "stream %.63s ends at number %llu, term %u, and cannot continue: begin a stream of another "
            "name",
            options->stream, (unsigned long long)end->next, end->term);
    options->stream_base = end->next;
    options->stream_term = end->sessions > 0 ? end->term + 1 : 0;
    return LLM_OK;
}

int lli_stream_named(const struct llm_options *options, const char *call, const struct lli_log *log,
                     uint64_t *stream)
{
    struct llm_options read;
    int error;

    llm_options_init(&read);
    error = lli_options_import(&read, sizeof read, options, "struct llm_options", log);
    if (error != LLM_OK)
        return error;
    read.stream[sizeof read.stream - 1] = '\0';
    /* A structure of an earlier version has none. */
    if (read.stream[0] == '\0')
        return lli_fail(log, LLM_EOPTION, "%s: options->stream is empty: name the stream", call);
    *stream = lli_stream_id(read.stream);
    return LLM_OK;
}

int llm_replay_continue(const char *directory, struct llm_options *options, llm_log_fn *log, void *log_arg)
{
    const struct lli_log lines = {.function = log, .arg = log_arg, .level = LLM_LEVEL_WARNING};
    struct lli_catalogue *catalogue = NULL;
    struct lli_stream_end end;
    struct llm_options read;
    uint64_t stream = 0;
    int error;

    if (directory == NULL || options == NULL)
        return lli_fail(&lines, LLM_EINVAL, "llm_replay_continue: %s is NULL: it has to be given",
                        directory == NULL ? "directory" : "options");
    error = lli_stream_named(options, "llm_replay_continue", &lines, &stream);
    if (error != LLM_OK)
        return error;
    error = lli_options_copy(&read, options, &lines);
    if (error == LLM_OK)
        error = lli_catalogue_open(directory, &lines, &catalogue);
    if (error == LLM_OK && read.keys[0] != '\0')
        error = lli_catalogue_add_keys(catalogue, read.keys);
    if (error == LLM_OK)
        error = lli_catalogue_stream(catalogue, stream, &end);
    lli_catalogue_close(&catalogue);
    if (error == LLM_OK)
        error = lli_stream_continue(options, &end, &lines);
    return error == LLM_OK ? (int)end.sessions : error;
}
