/* SPDX-License-Identifier: Apache-2.0 */
/* llm-store compare: packets that two directories have of the same sessions. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "store_survey.h"

enum { SIDES = 2 };

/* Packets that one directory only has. */
struct compare_range {
    uint64_t first;
    uint64_t next;
    int side;
};

/* A recording of one directory, read packet by packet. */
struct compare_side {
    struct lli_cursor *cursor; /* NULL: there is none of the session */
    struct lli_record record;
    bool has_packet; /* record is a packet that was not compared yet */
    uint64_t sequence;
};

struct compare {
    const struct store_arguments *arguments;
    struct lli_catalogue *catalogues[SIDES];
    struct compare_side sides[SIDES];
    struct store_progress progress;
    uint64_t bytes;
    /* Of the session. */
    uint64_t session;
    uint64_t same;
    uint64_t different;
    uint64_t packet, message; /* the first packet with other bytes */
    struct compare_range *ranges;
    uint32_t ranges_count;
    int shown; /* sessions */
    bool differs;
    int status;
};

static const char *compare_directory(const struct compare *compare, int side)
{
    return side == 0 ? compare->arguments->directory : compare->arguments->target;
}

/* Reads the next packet of a side. What is damaged, or lost, it does not have. */
static void compare_read(struct compare *compare, int at)
{
    struct compare_side *side = &compare->sides[at];
    const struct lli_block *block;

    side->has_packet = false;
    while (side->cursor != NULL && !side->has_packet) {
        const int there = lli_cursor_next(side->cursor, &side->record, &block);

        if (there == 1) {
            side->has_packet = side->record.kind == LLI_RECORD_PACKET;
            compare->bytes += block->sequence == side->sequence ? 0 : block->size;
            side->sequence = block->sequence;
            continue;
        }
        compare->status = there < 0 ? STORE_FAILED : compare->status;
        if (there == 0 || !lli_cursor_skip_damage(side->cursor))
            lli_cursor_close(&side->cursor);
    }
    store_progress_note(&compare->progress, compare->bytes >> 20, "MiB");
}

/* One side only has this packet. */
static void compare_only(struct compare *compare, int side, uint64_t packet)
{
    struct compare_range *last =
        compare->ranges_count > 0 ? compare->ranges + compare->ranges_count - 1 : NULL;

    if (last != NULL && last->side == side && last->next == packet) {
        last->next++;
        return;
    }
    compare->ranges = store_grow(compare->ranges, compare->ranges_count, sizeof *compare->ranges);
    compare->ranges[compare->ranges_count++] =
        (struct compare_range){.first = packet, .next = packet + 1, .side = side};
}

/* Both sides have this packet. */
static void compare_both(struct compare *compare, const struct lli_record *left,
                         const struct lli_record *right)
{
    if (left->size == right->size && memcmp(left->data, right->data, left->size) == 0) {
        compare->same++;
        return;
    }
    if (compare->different++ == 0) {
        compare->packet = left->packet;
        compare->message = left->message;
    }
}

/* Goes through both recordings by the numbers of their packets. */
static void compare_packets(struct compare *compare)
{
    struct compare_side *left = &compare->sides[0], *right = &compare->sides[1];

    compare_read(compare, 0);
    compare_read(compare, 1);
    while (left->has_packet || right->has_packet) {
        const uint64_t of_left = left->has_packet ? left->record.packet : UINT64_MAX;
        const uint64_t of_right = right->has_packet ? right->record.packet : UINT64_MAX;

        if (of_left == of_right)
            compare_both(compare, &left->record, &right->record);
        else
            compare_only(compare, of_left > of_right, lli_min(of_left, of_right));
        if (of_left <= of_right)
            compare_read(compare, 0);
        if (of_right <= of_left)
            compare_read(compare, 1);
    }
}

/* ------------------------------------------------------------------------------------------------ results */

static void compare_text(const struct compare *compare)
{
    printf("%016" PRIx64 " %s: %" PRIu64 " packets are the same\n", compare->session,
           compare->different > 0 || compare->ranges_count > 0 ? "DIFFERS" : "same", compare->same);
    if (compare->different > 0)
        printf("  %" PRIu64 " packets have other bytes, the first is packet %" PRIu64
               ", with message %" PRIu64 " or before it\n",
               compare->different, compare->packet, compare->message);
    for (uint32_t i = 0; i < compare->ranges_count; i++)
        printf("  packets %" PRIu64 " to before %" PRIu64 ": only in %s\n", compare->ranges[i].first,
               compare->ranges[i].next, compare_directory(compare, compare->ranges[i].side));
}

static void compare_json(const struct compare *compare)
{
    printf("%s\n  {\"session\": \"%016" PRIx64 "\", \"same\": %" PRIu64 ", \"different\": %" PRIu64
           ", \"first_different\": ",
           compare->shown == 0 ? "" : ",", compare->session, compare->same, compare->different);
    if (compare->different > 0)
        printf("{\"packet\": %" PRIu64 ", \"message\": %" PRIu64 "}", compare->packet, compare->message);
    else
        printf("null");
    printf(", \"only\": [");
    for (uint32_t i = 0; i < compare->ranges_count; i++)
        printf("%s{\"directory\": %d, \"packet_first\": %" PRIu64 ", \"packet_next\": %" PRIu64 "}",
               i == 0 ? "" : ", ", compare->ranges[i].side, compare->ranges[i].first,
               compare->ranges[i].next);
    printf("]}");
}

/* Compares a session that one directory has, or both. */
static void compare_session(struct compare *compare, uint64_t session)
{
    uint64_t size = 0;

    compare->session = session;
    compare->same = compare->different = compare->bytes = 0;
    compare->ranges_count = 0;
    for (int i = 0; i < SIDES; i++) {
        const struct lli_catalogue *catalogue = compare->catalogues[i];
        const struct lli_recording *recording = lli_catalogue_find(catalogue, session);

        compare->sides[i] = (struct compare_side){.sequence = UINT64_MAX};
        if (recording == NULL)
            continue;
        size += survey_size(recording);
        if (lli_cursor_open(catalogue, recording, &catalogue->log, &compare->sides[i].cursor) != LLM_OK)
            compare->status = STORE_FAILED;
    }
    store_progress_begin(&compare->progress, "compare", size >> 20);
    compare_packets(compare);
    store_progress_end(&compare->progress);
    if (compare->different > 0 || compare->ranges_count > 0) {
        compare->differs = true;
        compare->status = STORE_FAILED;
    }
    if (compare->arguments->json)
        compare_json(compare);
    else
        compare_text(compare);
    compare->shown++;
}

/* Returns the first session at or after this one that a directory has. False: there is none. */
static bool compare_next(const struct compare *compare, uint64_t from, uint64_t *session)
{
    bool found = false;

    for (int side = 0; side < SIDES; side++) {
        const struct lli_catalogue *catalogue = compare->catalogues[side];

        for (uint32_t i = 0; i < catalogue->count; i++) {
            const uint64_t at = catalogue->recordings[i]->session;

            if (at < from)
                continue;
            *session = found ? lli_min(*session, at) : at;
            found = true;
            break;
        }
    }
    return found;
}

static void compare_all(struct compare *compare)
{
    const uint64_t only = compare->arguments->session;
    uint64_t session;

    for (uint64_t from = 0; compare_next(compare, from, &session); from = session + 1) {
        if (only == 0 || session == only)
            compare_session(compare, session);
        if (session == UINT64_MAX)
            break;
    }
    if (compare->shown > 0 || only == 0)
        return;
    fprintf(stderr, "llm-store: no such session in either directory: 'llm-store list' shows what there is\n");
    compare->status = STORE_FAILED;
}

int store_compare(const struct store_arguments *arguments)
{
    const struct lli_log log = {.function = store_log, .level = LLM_LEVEL_WARNING};
    struct compare compare = {.arguments = arguments};

    for (int i = 0; i < SIDES; i++)
        if (lli_catalogue_open(compare_directory(&compare, i), &log, &compare.catalogues[i]) != LLM_OK)
            compare.status = STORE_FAILED;
    if (compare.status == 0) {
        if (arguments->json) {
            printf("{\"directories\": [");
            json_string(stdout, arguments->directory, strlen(arguments->directory));
            printf(", ");
            json_string(stdout, arguments->target, strlen(arguments->target));
            printf("], \"recordings\": [");
        }
        compare_all(&compare);
        if (arguments->json)
            printf("%s], \"differ\": %s}\n", compare.shown > 0 ? "\n" : "",
                   compare.differs ? "true" : "false");
    }
    free(compare.ranges);
    for (int i = 0; i < SIDES; i++)
        lli_catalogue_close(&compare.catalogues[i]);
    return compare.status;
}
