/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "store_survey.h"

#include <stdlib.h>
#include <string.h>

enum { SURVEY_TOPICS_MAX = 1 << 20 };

void *store_grow(void *elements, uint32_t count, size_t size)
{
    const bool full = (count & (count - 1)) == 0;
    void *grown = full ? realloc(elements, (count == 0 ? 1 : 2 * (size_t)count) * size) : elements;

    if (grown == NULL) {
        fprintf(stderr, "llm-store: out of memory\n");
        exit(STORE_FAILED);
    }
    return grown;
}

static struct survey_topic *survey_topic(struct survey *survey, uint32_t id)
{
    if (id >= SURVEY_TOPICS_MAX)
        return NULL;
    while (survey->topics_count <= id) {
        survey->topics = store_grow(survey->topics, survey->topics_count, sizeof *survey->topics);
        survey->topics[survey->topics_count++] = (struct survey_topic){.name = NULL};
    }
    return survey->topics + id;
}

static void survey_name(struct survey *survey, uint32_t id, const uint8_t *bytes, uint32_t size)
{
    struct survey_topic *topic = survey_topic(survey, id);
    uint8_t flags;

    if (topic != NULL && topic->name == NULL)
        topic->name = strndup((const char *)bytes, lli_wire_get_name(bytes, size, &flags));
}

/* Counts the messages that start in a packet, and notes the topics that it announces. */
static void survey_packet(struct survey *survey, struct lli_cursor *cursor, const struct lli_record *record)
{
    struct lli_unopened unopened;
    struct lli_wire_header header;
    const uint8_t *packet, *at, *end;
    struct lli_frame frame;
    uint32_t packet_size, id = 0;
    size_t size;

    survey->packets++;
    if (!lli_cursor_packet(cursor, record, &packet, &packet_size, &unopened)) {
        if (survey->unopened++ == 0)
            survey->first = unopened;
        return;
    }
    if (lli_wire_get_header(packet, packet_size, &header, &at, &size) != LLI_WIRE_OK ||
        header.type != LLI_WIRE_DATA)
        return;
    end = at + size;
    for (at += header.first; at < end;) {
        struct survey_topic *topic;

        at = lli_frame_get(at, end, &frame);
        if (frame.kind == LLI_FRAME_BAD)
            return;
        if (frame.kind == LLI_FRAME_TOPIC)
            id = frame.value;
        if (frame.kind == LLI_FRAME_ANNOUNCE)
            survey_name(survey, frame.value, frame.bytes, frame.bytes_size);
        if (frame.kind != LLI_FRAME_MESSAGE)
            continue;
        survey->messages++;
        topic = survey_topic(survey, id);
        if (topic != NULL) {
            topic->messages++;
            topic->bytes += frame.value;
        }
        at += lli_min(frame.value, (uint64_t)(end - at));
    }
}

static void survey_gap(struct survey *survey, const struct lli_record *gap)
{
    survey->gaps = store_grow(survey->gaps, survey->gaps_count, sizeof *survey->gaps);
    survey->gaps[survey->gaps_count++] = (struct survey_gap){.packet_first = gap->packet,
                                                             .packet_next = gap->next,
                                                             .message_first = gap->message,
                                                             .message_next = gap->message_next,
                                                             .reason = (enum llm_reason)gap->reason};
}

static void survey_damage(struct survey *survey, struct lli_cursor_place place, bool is_removed)
{
    survey->damages = store_grow(survey->damages, survey->damages_count, sizeof *survey->damages);
    survey->damages[survey->damages_count++] =
        (struct survey_damage){.segment = place.ordinal, .offset = place.offset, .is_removed = is_removed};
}

static void survey_record(struct survey *survey, struct lli_cursor *cursor, const struct lli_record *record)
{
    if (record->kind == LLI_RECORD_PACKET)
        survey_packet(survey, cursor, record);
    else if (record->kind == LLI_RECORD_GAP)
        survey_gap(survey, record);
    else if (record->kind == LLI_RECORD_NAME)
        survey_name(survey, record->topic, record->data, record->size);
}

/* Reads to the end. progress: NULL: none is shown. */
static int survey_run(struct survey *survey, struct lli_cursor *cursor, struct store_progress *progress)
{
    const struct lli_block *block = NULL;
    uint64_t sequence = UINT64_MAX;
    struct lli_record record;

    for (;;) {
        const int there = lli_cursor_next(cursor, &record, &block);

        if (there == 0)
            return 0;
        if (there == LLM_EDAMAGED || there == LLM_ENOTFOUND) {
            survey_damage(survey, lli_cursor_place(cursor), there == LLM_ENOTFOUND);
            if (!lli_cursor_skip_damage(cursor))
                return 0;
            continue;
        }
        if (there < 0)
            return STORE_FAILED;
        survey_record(survey, cursor, &record);
        if (block->sequence == sequence)
            continue;
        sequence = block->sequence;
        survey->blocks++;
        survey->bytes += block->size;
        if (progress != NULL)
            store_progress_note(progress, survey->bytes >> 20, "MiB");
    }
}

int survey_read(struct survey *survey, const struct lli_catalogue *catalogue,
                const struct lli_recording *recording, struct store_progress *progress)
{
    struct lli_cursor *cursor = NULL;
    int status;

    *survey = (struct survey){.is_readable = false};
    if (lli_cursor_open(catalogue, recording, &catalogue->log, &cursor) != LLM_OK)
        return STORE_FAILED;
    status = survey_run(survey, cursor, progress);
    survey->is_readable = lli_cursor_end(cursor, &survey->end) == LLM_OK;
    lli_cursor_close(&cursor);
    return status;
}

void survey_free(struct survey *survey)
{
    for (uint32_t i = 0; i < survey->topics_count; i++)
        free(survey->topics[i].name);
    free(survey->topics);
    free(survey->gaps);
    free(survey->damages);
}

uint64_t survey_size(const struct lli_recording *recording)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < recording->count; i++)
        bytes += recording->segments[i].size;
    return bytes;
}
