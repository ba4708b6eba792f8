/* SPDX-License-Identifier: Apache-2.0 */
/* llm-store list and show. */
#include <inttypes.h>
#include <string.h>

#include "json.h"
#include "store_survey.h"

/* ------------------------------------------------------------------------------------------------- list */

struct list {
    const struct store_arguments *arguments;
    int rows;
};

static void list_text(const struct llm_recording *recording, bool first)
{
    char began[STORE_TIME], last[STORE_TIME];

    if (first)
        printf("%-16s %12s %12s %9s %-23s %-23s %-20s %s\n", "SESSION", "PACKETS", "MESSAGES", "MIB", "BEGAN",
               "LAST", "STATE", "CHANNEL");
    printf("%016" PRIx64 " %12" PRIu64 " %12" PRIu64 " %9.1f %.23s %.23s %-20s %s\n", recording->session,
           recording->packet_next - recording->packet_first,
           recording->message_next - recording->message_first, (double)recording->bytes / (1 << 20),
           store_time(began, recording->realtime_first), store_time(last, recording->realtime_last),
           recording->ended ? llm_reason_name(recording->reason) : "no end", recording->channel);
}

static void list_json(const struct llm_recording *recording, bool first)
{
    char began[STORE_TIME], last[STORE_TIME];

    printf("%s\n    {\"session\": \"%016" PRIx64 "\", \"channel\": ", first ? "" : ",", recording->session);
    json_string(stdout, recording->channel, strlen(recording->channel));
    printf(", \"packet_first\": %" PRIu64 ", \"packet_next\": %" PRIu64 ", \"message_first\": %" PRIu64
           ", \"message_next\": %" PRIu64 ", \"realtime_first_ns\": %" PRIu64
           ", \"realtime_last_ns\": %" PRIu64 ", \"began\": \"%s\", \"last\": \"%s\", \"bytes\": %" PRIu64
           ", \"segments\": %u, \"ended\": %s, \"reason\": \"%s\"}",
           recording->packet_first, recording->packet_next, recording->message_first, recording->message_next,
           recording->realtime_first, recording->realtime_last, store_time(began, recording->realtime_first),
           store_time(last, recording->realtime_last), recording->bytes, recording->segments,
           recording->ended ? "true" : "false", llm_reason_name(recording->reason));
}

static void list_found(void *arg, const struct llm_recording *recording)
{
    struct list *list = arg;
    const struct store_arguments *arguments = list->arguments;

    if (arguments->channel != NULL && strcmp(arguments->channel, recording->channel) != 0)
        return;
    if (recording->realtime_last < arguments->since || recording->realtime_first >= arguments->until)
        return;
    if (arguments->json)
        list_json(recording, list->rows == 0);
    else
        list_text(recording, list->rows == 0);
    list->rows++;
}

int store_list(const struct store_arguments *arguments)
{
    struct list list = {.arguments = arguments};
    int found;

    if (arguments->json) {
        printf("{\"directory\": ");
        json_string(stdout, arguments->directory, strlen(arguments->directory));
        printf(", \"recordings\": [");
    }
    found = llm_replay_recordings(arguments->directory, list_found, &list, store_log, NULL);
    if (arguments->json)
        printf("%s]}\n", list.rows > 0 ? "\n" : "");
    return found < 0 ? STORE_FAILED : 0;
}

/* ------------------------------------------------------------------------------------------------- show */

struct show {
    const struct store_arguments *arguments;
    int shown;
};

static void show_head(const struct lli_recording *recording, const struct survey *survey)
{
    char time[STORE_TIME];

    printf("session   %016" PRIx64 "\nchannel   %s\n", recording->session, recording->channel);
    printf("packets   %" PRIu64 ", numbers %" PRIu64 " to before %" PRIu64 ", first of the session %" PRIu64
           "\n",
           survey->packets, recording->segments[0].packet, survey->end.next.packet, recording->start);
    printf("messages  %" PRIu64 ", to before %" PRIu64 "\n", survey->messages, survey->end.delivered);
    if (survey->unopened > 0)
        printf("unread    %" PRIu64 " packets, from packet %" PRIu64
               " on, are protected by keys that were not given, first of epoch %u: their messages are not "
               "counted; --keys FILE opens them\n",
               survey->unopened, survey->first.packet, survey->first.epoch);
    printf("blocks    %" PRIu64 ", %.1f MiB\n", survey->blocks, (double)survey->bytes / (1 << 20));
    printf("last      %s\n", store_time(time, survey->end.wall));
    printf("end       %s\n", survey->end.ended ? llm_reason_name((enum llm_reason)survey->end.reason)
                                               : "not recorded: it goes on, or was not seen");
}

static void show_segments(const struct lli_recording *recording)
{
    char time[STORE_TIME];

    printf("\n%-25s %8s %12s %12s %8s  %s\n", "SEGMENT", "NUMBER", "PACKET", "BLOCK", "MIB", "BEGUN");
    for (uint32_t i = 0; i < recording->count; i++) {
        const struct lli_catalogue_segment *segment = recording->segments + i;

        printf("%016" PRIx64 ".segment  %8" PRIu64 " %12" PRIu64 " %12" PRIu64 " %8.1f  %s\n",
               segment->ordinal, segment->ordinal, segment->packet, segment->sequence,
               (double)segment->size / (1 << 20), store_time(time, segment->begun));
    }
}

static void show_text(const struct lli_recording *recording, const struct survey *survey)
{
    show_head(recording, survey);
    show_segments(recording);
    if (survey->topics_count > 0)
        printf("\n%8s %12s %12s  %s\n", "TOPIC", "MESSAGES", "MIB", "NAME");
    for (uint32_t i = 0; i < survey->topics_count; i++) {
        const struct survey_topic *topic = survey->topics + i;

        if (topic->name != NULL || topic->messages > 0)
            printf("%8u %12" PRIu64 " %12.1f  %s\n", i, topic->messages, (double)topic->bytes / (1 << 20),
                   topic->name == NULL ? "(not announced)" : topic->name);
    }
    for (uint32_t i = 0; i < survey->gaps_count; i++) {
        const struct survey_gap *gap = survey->gaps + i;

        printf("%sgap: packets %" PRIu64 " to before %" PRIu64 ", messages %" PRIu64 " to before %" PRIu64
               ": %s\n",
               i == 0 ? "\n" : "", gap->packet_first, gap->packet_next, gap->message_first, gap->message_next,
               llm_reason_name(gap->reason));
    }
    for (uint32_t i = 0; i < survey->damages_count; i++)
        printf("%s%s: %016" PRIx64 ".segment, offset %" PRIu64 "\n", i == 0 ? "\n" : "",
               survey->damages[i].is_removed ? "removed" : "damaged", survey->damages[i].segment,
               survey->damages[i].offset);
}

static void show_json_lists(const struct lli_recording *recording, const struct survey *survey)
{
    const char *comma = "";

    printf(" \"segments\": [");
    for (uint32_t i = 0; i < recording->count; i++)
        printf("%s\n  {\"file\": \"%016" PRIx64 ".segment\", \"number\": %" PRIu64 ", \"packet\": %" PRIu64
               ", \"block\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"begun_ns\": %" PRIu64 "}",
               i == 0 ? "" : ",", recording->segments[i].ordinal, recording->segments[i].ordinal,
               recording->segments[i].packet, recording->segments[i].sequence, recording->segments[i].size,
               recording->segments[i].begun);
    printf("],\n \"topics\": [");
    for (uint32_t i = 0; i < survey->topics_count; i++) {
        const struct survey_topic *topic = survey->topics + i;

        if (topic->name == NULL && topic->messages == 0)
            continue;
        printf("%s\n  {\"id\": %u, \"messages\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"name\": ", comma, i,
               topic->messages, topic->bytes);
        comma = ",";
        json_string(stdout, topic->name == NULL ? "" : topic->name,
                    topic->name == NULL ? 0 : strlen(topic->name));
        printf("}");
    }
    printf("],\n \"gaps\": [");
    for (uint32_t i = 0; i < survey->gaps_count; i++)
        printf("%s\n  {\"packet_first\": %" PRIu64 ", \"packet_next\": %" PRIu64
               ", \"message_first\": %" PRIu64 ", \"message_next\": %" PRIu64 ", \"reason\": \"%s\"}",
               i == 0 ? "" : ",", survey->gaps[i].packet_first, survey->gaps[i].packet_next,
               survey->gaps[i].message_first, survey->gaps[i].message_next,
               llm_reason_name(survey->gaps[i].reason));
    printf("],\n \"damages\": [");
    for (uint32_t i = 0; i < survey->damages_count; i++)
        printf("%s\n  {\"file\": \"%016" PRIx64 ".segment\", \"offset\": %" PRIu64 ", \"removed\": %s}",
               i == 0 ? "" : ",", survey->damages[i].segment, survey->damages[i].offset,
               survey->damages[i].is_removed ? "true" : "false");
    printf("]}\n");
}

static void show_json(const struct lli_recording *recording, const struct survey *survey)
{
    printf("{\"session\": \"%016" PRIx64 "\", \"channel\": ", recording->session);
    json_string(stdout, recording->channel, strlen(recording->channel));
    printf(", \"start\": %" PRIu64 ", \"packet_first\": %" PRIu64 ", \"packet_next\": %" PRIu64
           ", \"packets\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"message_next\": %" PRIu64
           ", \"blocks\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"realtime_last_ns\": %" PRIu64
           ", \"packets_unread\": %" PRIu64 ", \"ended\": %s, \"reason\": \"%s\",\n",
           recording->start, recording->segments[0].packet, survey->end.next.packet, survey->packets,
           survey->messages, survey->end.delivered, survey->blocks, survey->bytes, survey->end.wall,
           survey->unopened, survey->end.ended ? "true" : "false",
           llm_reason_name(survey->end.ended ? (enum llm_reason)survey->end.reason : LLM_REASON_NONE));
    show_json_lists(recording, survey);
}

static int show_one(void *arg, const struct lli_catalogue *catalogue, const struct lli_recording *recording)
{
    struct show *show = arg;
    struct store_progress progress;
    struct survey survey;
    int status;

    store_progress_begin(&progress, "show", survey_size(recording) >> 20);
    status = survey_read(&survey, catalogue, recording, &progress);
    store_progress_end(&progress);
    if (show->arguments->json) {
        show_json(recording, &survey);
    } else {
        printf("%s", show->shown > 0 ? "\n" : "");
        show_text(recording, &survey);
    }
    show->shown++;
    survey_free(&survey);
    return status;
}

int store_show(const struct store_arguments *arguments)
{
    struct show show = {.arguments = arguments};

    return store_each(arguments, show_one, &show);
}
