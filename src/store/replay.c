/* SPDX-License-Identifier: Apache-2.0 */
/* Public API of replay: from session to session of a directory. */
#include "store/replay_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "config/options.h"
#include "core/select/filter.h"
#include "store/recordings.h"

#define REPLAY_MESSAGE_MAX ((uint64_t)64 << 20)

void llm_replay_options_init(struct llm_replay_options *options)
{
    if (options == NULL)
        return;
    *options = (struct llm_replay_options){.size = sizeof *options,
                                           .from = LLM_JOIN_OLDEST,
                                           .until_number = UINT64_MAX,
                                           .until_realtime = UINT64_MAX,
                                           .message_bytes_max = REPLAY_MESSAGE_MAX};
}

/* ------------------------------------------------------------------------------------------------- open */

static int replay_check(const struct llm_replay_options *options, const struct lli_log *log)
{
    if (options->from != LLM_JOIN_OLDEST && options->from != LLM_JOIN_MESSAGES &&
        options->from != LLM_JOIN_TIME && options->from != LLM_JOIN_NUMBER)
        return lli_fail(log, LLM_EINVAL,
                        "replay: from is %d: LLM_JOIN_OLDEST, LLM_JOIN_MESSAGES, LLM_JOIN_TIME or "
                        "LLM_JOIN_NUMBER",
                        (int)options->from);
    if (options->message_bytes_max < 1 || options->message_bytes_max > UINT32_MAX)
        return lli_fail(log, LLM_EINVAL, "replay: message_bytes_max is %" PRIu64 ": from 1 to %u",
                        options->message_bytes_max, UINT32_MAX);
    return LLM_OK;
}

static bool replay_is_chosen(const struct llm_replay_options *options, const struct lli_recording *recording)
{
    return (options->session == 0 || options->session == recording->session) &&
           (options->channel == NULL || strcmp(options->channel, recording->channel) == 0);
}

/* Chooses the sessions. */
static int replay_choose(struct llm_replay *replay, const struct llm_replay_options *options)
{
    const char *directory = replay->catalogue->directory;
    uint32_t chosen = 0;

    replay->sessions = lli_catalogue_order(replay->catalogue, &replay->log);
    if (replay->sessions == NULL)
        return LLM_ENOMEM;
    for (uint32_t i = 0; i < replay->catalogue->count; i++) {
        const uint64_t session = replay->sessions[i];

        if (replay_is_chosen(options, lli_catalogue_find(replay->catalogue, session)))
            replay->sessions[chosen++] = session;
    }
    replay->sessions_count = chosen;
    if (chosen == 0 && options->session != 0)
        return lli_fail(&replay->log, LLM_ENOTFOUND,
                        "store %s: no session %016" PRIx64 "%s%s: 'llm-store list' shows what there is",
                        directory, options->session, options->channel == NULL ? "" : " of channel ",
                        options->channel == NULL ? "" : options->channel);
    if (chosen == 0 && options->channel != NULL)
        return lli_fail(&replay->log, LLM_ENOTFOUND,
                        "store %s: no session of channel %s: 'llm-store list' shows what there is", directory,
                        options->channel);
    return LLM_OK;
}

/* Places the topics and the memory in which messages are put together. */
static int replay_map(struct llm_replay *replay)
{
    const struct lli_memory_policy policy = {.numa_node = -1};
    const uint32_t bytes = (uint32_t)replay->options.message_bytes_max;
    struct lli_arena arena = {.used = 0};
    struct lli_topics topics;
    uint8_t *buffer;
    int error;

    lli_topics_init(&topics, LLI_REPLAY_TOPICS, NULL, &arena);
    (void)lli_arena_take(&arena, bytes, 64);
    error = lli_memory_map(&replay->memory, arena.used, &policy, &replay->log);
    if (error != LLM_OK)
        return error;
    arena = (struct lli_arena){.memory = replay->memory.base};
    lli_topics_init(&replay->topics, LLI_REPLAY_TOPICS, NULL, &arena);
    buffer = lli_arena_take(&arena, bytes, 64);
    lli_unpack_init(&replay->unpack, buffer, bytes);
    return LLM_OK;
}

static void replay_free(struct llm_replay *replay)
{
    lli_cursor_close(&replay->cursor);
    lli_catalogue_close(&replay->catalogue);
    lli_memory_unmap(&replay->memory);
    free(replay->sessions);
    free(replay);
}

static int replay_fill(struct llm_replay *replay, const char *directory,
                       const struct llm_replay_options *options, const struct llm_receiver_handlers *handlers)
{
    int error = LLM_OK;

    llm_replay_options_init(&replay->options);
    llm_receiver_handlers_init(&replay->handlers);
    if (options != NULL)
        error = lli_options_import(&replay->options, sizeof replay->options, options,
                                   "struct llm_replay_options", &replay->log);
    if (error == LLM_OK)
        error = replay_check(&replay->options, &replay->log);
    if (error == LLM_OK)
        error = lli_options_import(&replay->handlers, sizeof replay->handlers, handlers,
                                   "struct llm_receiver_handlers", &replay->log);
    if (error == LLM_OK)
        error = lli_catalogue_open(directory, &replay->log, &replay->catalogue);
    if (error == LLM_OK && replay->options.keys != NULL)
        error = lli_catalogue_add_keys(replay->catalogue, replay->options.keys);
    if (error == LLM_OK)
        error = replay_choose(replay, &replay->options);
    if (error == LLM_OK)
        error = replay_map(replay);
    /* They belong to the caller. */
    replay->options.channel = replay->options.keys = NULL;
    return error;
}

int llm_replay_open(const char *directory, const struct llm_replay_options *options,
                    const struct llm_receiver_handlers *handlers, llm_log_fn *log, void *log_arg,
                    struct llm_replay **replay)
{
    const struct lli_log lines = {.function = log, .arg = log_arg, .level = LLM_LEVEL_WARNING};
    struct llm_replay *opened;
    int error;

    if (directory == NULL || handlers == NULL || replay == NULL)
        return lli_fail(&lines, LLM_EINVAL, "llm_replay_open: %s is NULL: it has to be given",
                        directory == NULL  ? "directory"
                        : handlers == NULL ? "handlers"
                                           : "replay");
    opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return lli_fail(&lines, LLM_ENOMEM, "llm_replay_open: no memory for a replay of %s", directory);
    opened->log = lines;
    error = replay_fill(opened, directory, options, handlers);
    if (error != LLM_OK) {
        replay_free(opened);
        return error;
    }
    *replay = opened;
    return LLM_OK;
}

int llm_replay_close(struct llm_replay **replay)
{
    if (replay == NULL || *replay == NULL)
        return LLM_OK;
    if ((*replay)->inside)
        return lli_fail(&(*replay)->log, LLM_ESTATE,
                        "llm_replay_close: not allowed inside a handler: call it when llm_replay_next() has "
                        "returned");
    replay_free(*replay);
    *replay = NULL;
    return LLM_OK;
}

/* ------------------------------------------------------------------------------------------------- seek */

/*
 * The cursor stands at a block. Goes back to the beginning of its segment, which has the names; or of an
 * earlier one, where the message starts whose rest is in the first packet.
 */
static void replay_go_back(struct lli_cursor *cursor)
{
    const struct lli_block *block;
    struct lli_record record = {.message = 0};
    int there;

    lli_cursor_rewind_segment(cursor);
    do
        there = lli_cursor_next(cursor, &record, &block);
    while (there == 1 && lli_record_is_name(&record));
    if (there == 1 && record.message > 0)
        (void)lli_cursor_seek(cursor, LLI_INDEX_MESSAGE, record.message - 1);
    lli_cursor_rewind_segment(cursor);
}

/* Stands so that everything from a message on is read. */
static int replay_seek_number(struct llm_replay *replay, uint64_t number)
{
    const struct lli_recording *recording = lli_catalogue_find(replay->catalogue, replay->session);
    int error = lli_cursor_seek(replay->cursor, LLI_INDEX_MESSAGE, number);

    replay->from = number;
    /* Beyond the end, the last segment tells where that is. */
    if (error == LLM_ENOTFOUND && recording != NULL && number > recording->segments[0].message)
        error = lli_cursor_seek(replay->cursor, LLI_INDEX_WALL, UINT64_MAX);
    if (error == LLM_OK)
        lli_cursor_rewind_segment(replay->cursor);
    return error == LLM_ENOTFOUND ? LLM_OK : error;
}

static int replay_seek(struct llm_replay *replay)
{
    const struct llm_replay_options *options = &replay->options;
    struct lli_recording_end end;
    int error;

    if (options->from == LLM_JOIN_NUMBER)
        return replay_seek_number(replay, options->value);
    if (options->from == LLM_JOIN_MESSAGES) {
        error = lli_cursor_end(replay->cursor, &end);
        replay->refused = end.unopened;
        return error != LLM_OK
                   ? error
                   : replay_seek_number(replay, end.delivered - lli_min(end.delivered, options->value));
    }
    if (options->from == LLM_JOIN_TIME) {
        replay->from = UINT64_MAX;
        replay->from_wall = options->value;
        error = lli_cursor_seek(replay->cursor, LLI_INDEX_WALL, options->value);
        if (error == LLM_OK)
            replay_go_back(replay->cursor);
        return error;
    }
    return LLM_OK;
}

/* ------------------------------------------------------------------------------------------------- next */

static bool replay_accepts_session(struct llm_replay *replay, uint64_t session)
{
    const struct llm_source source = {.session = session};
    bool accepted;

    if (replay->handlers.accept == NULL)
        return true;
    replay->inside = true;
    accepted = replay->handlers.accept(replay->handlers.arg, &source);
    replay->inside = false;
    return accepted;
}

/* Opens the next session that is accepted. 1: it is open; 0: there is none left; else an error. */
static int replay_open_next(struct llm_replay *replay)
{
    while (replay->sessions_done < replay->sessions_count) {
        const uint64_t session = replay->sessions[replay->sessions_done++];
        const struct lli_recording *recording = lli_catalogue_find(replay->catalogue, session);
        int error;

        if (recording == NULL || !replay_accepts_session(replay, session))
            continue;
        lli_replay_begin(replay, session);
        error = lli_cursor_open(replay->catalogue, recording, &replay->log, &replay->cursor);
        if (error == LLM_OK)
            error = replay_seek(replay);
        /* An error of the place is found again, and reported, when the first record is read. */
        if (replay->cursor == NULL)
            return error;
        return 1;
    }
    return 0;
}

/* The cursor cannot go on. LLM_OK: it can behind the damage, or the session is over. */
static int replay_fault(struct llm_replay *replay, int error)
{
    const bool passable = error == LLM_EDAMAGED || error == LLM_ENOTFOUND;

    if (!replay->damaged && !(replay->options.skip_damage && passable)) {
        replay->damaged = true;
        return error;
    }
    replay->damaged = false;
    if (!passable || !lli_cursor_skip_damage(replay->cursor))
        lli_replay_end(replay, LLM_REASON_DAMAGED);
    return LLM_OK;
}

/* A packet that is wanted could not be opened: nothing after it is delivered. */
static int replay_refuse(struct llm_replay *replay)
{
    if (!replay->damaged) {
        replay->damaged = true;
        return lli_cursor_refuse(replay->cursor, &replay->refused);
    }
    replay->damaged = false;
    lli_replay_end(replay, LLM_REASON_KEYS);
    return LLM_OK;
}

/* Reads the next record. 1: there was one; 0: there is none left; else an error of the cursor. */
static int replay_read(struct llm_replay *replay)
{
    const struct lli_block *block;
    struct lli_record record;
    const int there = lli_cursor_next(replay->cursor, &record, &block);

    if (there == 1)
        lli_replay_record(replay, &record, block);
    /* The packets passed by at the end may have been wanted. */
    if (there == 0 && replay->passed.is_set)
        replay->refused = replay->passed;
    else if (there == 0)
        lli_replay_end(replay, LLM_REASON_ABANDONED);
    return there;
}

/* Reads a record. 1: there was one; 0: everything was read; else an error. */
static int replay_step(struct llm_replay *replay)
{
    int there = replay->cursor == NULL ? replay_open_next(replay) : 1;
    int error = LLM_OK;

    if (there <= 0)
        return there;
    there = replay->refused.is_set ? 1 : replay_read(replay);
    if (replay->refused.is_set)
        error = replay_refuse(replay);
    else if (there < 0)
        error = replay_fault(replay, there);
    if (error != LLM_OK)
        return error;
    if (replay->over)
        lli_cursor_close(&replay->cursor);
    return 1;
}

int llm_replay_next(struct llm_replay *replay, int packets_max)
{
    int there = 1;

    if (replay == NULL)
        return LLM_EINVAL;
    if (replay->inside)
        return lli_fail(&replay->log, LLM_ESTATE,
                        "llm_replay_next: not allowed inside a handler: call it when the call that runs it "
                        "has returned");
    if (packets_max < 1)
        return lli_fail(&replay->log, LLM_EINVAL, "llm_replay_next: packets_max is %d: 1 or more",
                        packets_max);
    replay->delivered = 0;
    for (int i = 0; there == 1 && (i < packets_max || replay->delivered == 0); i++)
        there = replay_step(replay);
    return there < 0 ? there : replay->delivered;
}

/* ------------------------------------------------------------------------------------------- attributes */

/* Decodes the attributes; the properties stay in the replay. */
static struct llm_attributes replay_decode(struct llm_replay *replay, const struct lli_replay_frame *frame)
{
    struct lli_attributes read = {.label = 0};
    struct llm_attributes attributes;
    struct lli_reader reader;

    llm_attributes_init(&attributes);
    (void)lli_attributes_get(frame->bytes, frame->size, &read);
    attributes.label = read.label;
    attributes.bitmap_bits = 8 * read.bitmap_size;
    attributes.bitmap = read.bitmap_bytes;
    reader = lli_reader_of(read.properties, read.properties_size);
    while (attributes.properties_count < LLI_REPLAY_PROPERTIES &&
           lli_property_next(&reader, replay->properties + attributes.properties_count))
        attributes.properties_count++;
    if (attributes.properties_count > 0)
        attributes.properties = replay->properties;
    return attributes;
}

int llm_replay_attributes(struct llm_replay *replay, const struct llm_message *message,
                          struct llm_attributes *attributes)
{
    struct llm_attributes checked, read;
    int error;

    if (replay == NULL)
        return LLM_EINVAL;
    if (message == NULL || attributes == NULL)
        return lli_fail(&replay->log, LLM_EINVAL, "llm_replay_attributes: %s is NULL: it has to be given",
                        message == NULL ? "message" : "attributes");
    error = lli_options_import(&checked, sizeof checked, attributes, "struct llm_attributes", &replay->log);
    if (error != LLM_OK)
        return error;
    for (uint32_t i = 0; i < replay->count; i++) {
        if (message != replay->messages + i)
            continue;
        read = replay_decode(replay, replay->frames + i);
        read.size = attributes->size;
        memcpy(attributes, &read, read.size);
        return LLM_OK;
    }
    return lli_fail(&replay->log, LLM_EINVAL,
                    "llm_replay_attributes: message %" PRIu64
                    " is not one that the running handler was called "
                    "with: attributes last as long as the handler runs",
                    message->number);
}
