/* SPDX-License-Identifier: Apache-2.0 */
/* llm-store verify. */
#include <inttypes.h>
#include <string.h>

#include "store_survey.h"

struct verify {
    const struct store_arguments *arguments;
    uint64_t recordings;
    uint64_t ignored;
};

/* A segment that was removed while this ran is no damage: retention does that. */
static bool verify_is_damaged(const struct survey *survey)
{
    for (uint32_t i = 0; i < survey->damages_count; i++)
        if (!survey->damages[i].is_removed)
            return true;
    return false;
}

static void verify_json(const struct verify *verify, const struct lli_recording *recording,
                        const struct survey *survey)
{
    printf("%s\n  {\"session\": \"%016" PRIx64 "\", \"blocks\": %" PRIu64 ", \"packets\": %" PRIu64
           ", \"bytes\": %" PRIu64 ", \"damages\": [",
           verify->recordings == 0 ? "" : ",", recording->session, survey->blocks, survey->packets,
           survey->bytes);
    for (uint32_t i = 0; i < survey->damages_count; i++)
        printf("%s{\"file\": \"%016" PRIx64 "/%016" PRIx64 ".segment\", \"offset\": %" PRIu64
               ", \"removed\": %s}",
               i == 0 ? "" : ", ", recording->session, survey->damages[i].segment, survey->damages[i].offset,
               survey->damages[i].is_removed ? "true" : "false");
    printf("]}");
}

static void verify_text(const struct verify *verify, const struct lli_recording *recording,
                        const struct survey *survey)
{
    uint64_t lost = 0;

    for (uint32_t i = 0; i < survey->damages_count; i++)
        printf("%s/%016" PRIx64 "/%016" PRIx64 ".segment: offset %" PRIu64 ": %s\n",
               verify->arguments->directory, recording->session, survey->damages[i].segment,
               survey->damages[i].offset, survey->damages[i].is_removed ? "removed" : "damaged");
    for (uint32_t i = 0; i < survey->gaps_count; i++)
        if (survey->gaps[i].reason == LLM_REASON_DAMAGED)
            lost += survey->gaps[i].packet_next - survey->gaps[i].packet_first;
    printf("%016" PRIx64 " %s: %" PRIu64 " blocks, %" PRIu64 " packets, %.1f MiB", recording->session,
           verify_is_damaged(survey) ? "DAMAGED" : "ok", survey->blocks, survey->packets,
           (double)survey->bytes / (1 << 20));
    if (survey->damages_count > 0)
        printf("; %" PRIu64 " packets lost to damage", lost);
    printf("\n");
}

static int verify_one(void *arg, const struct lli_catalogue *catalogue, const struct lli_recording *recording)
{
    struct verify *verify = arg;
    struct store_progress progress;
    struct survey survey;
    int status;

    store_progress_begin(&progress, "verify", survey_size(recording) >> 20);
    status = survey_read(&survey, catalogue, recording, &progress);
    store_progress_end(&progress);
    if (verify->arguments->json)
        verify_json(verify, recording, &survey);
    else
        verify_text(verify, recording, &survey);
    verify->recordings++;
    verify->ignored = catalogue->ignored;
    if (verify_is_damaged(&survey))
        status = STORE_FAILED;
    survey_free(&survey);
    return status;
}

int store_verify(const struct store_arguments *arguments)
{
    struct verify verify = {.arguments = arguments};
    int status;

    if (arguments->json)
        printf("{\"recordings\": [");
    status = store_each(arguments, verify_one, &verify);
    if (arguments->json)
        printf("%s], \"ignored\": %" PRIu64 ", \"damaged\": %s}\n", verify.recordings > 0 ? "\n" : "",
               verify.ignored, status == 0 ? "false" : "true");
    else if (verify.ignored > 0)
        printf("%" PRIu64
               " files without a whole header: a store that was stopped had not begun to write them\n",
               verify.ignored);
    return status;
}
