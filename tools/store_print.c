/* SPDX-License-Identifier: Apache-2.0 */
/* Output of llm-store: times, progress. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/recordings.h"
#include "store_tool.h"

#define SECOND UINT64_C(1000000000)

void store_log(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    fprintf(stderr, "llm-store: %s\n", text);
}

int store_flush(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "llm-store: standard output: %s\n", strerror(errno));
    return STORE_FAILED;
}

const char *store_time(char text[static STORE_TIME], uint64_t realtime_ns)
{
    const time_t seconds = (time_t)(realtime_ns / SECOND);
    struct tm parts;
    char date[24];

    if (gmtime_r(&seconds, &parts) == NULL || strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        (void)snprintf(text, STORE_TIME, "@%" PRIu64, realtime_ns / SECOND);
    else
        (void)snprintf(text, STORE_TIME, "%s.%09" PRIu64 "Z", date, realtime_ns % SECOND);
    return text;
}

/* --------------------------------------------------------------------------------------------- progress */

void store_progress_begin(struct store_progress *progress, const char *what, uint64_t total)
{
    *progress = (struct store_progress){.what = what, .total = total, .started_at = llm_clock()};
    progress->shown_at = progress->started_at;
}

void store_progress_note(struct store_progress *progress, uint64_t done, const char *unit)
{
    const bool terminal = isatty(STDERR_FILENO);
    const uint64_t now = llm_clock();

    if (now - progress->shown_at < SECOND)
        return;
    progress->shown_at = now;
    progress->shown = terminal;
    fprintf(stderr, "%sllm-store: %s: %" PRIu64 " %s", terminal ? "\r" : "", progress->what, done, unit);
    if (progress->total > 0)
        fprintf(stderr, " of %" PRIu64 ", %.0f %%", progress->total,
                100 * (double)done / (double)progress->total);
    fputs(terminal ? "   " : "\n", stderr);
}

void store_progress_end(struct store_progress *progress)
{
    if (progress->shown)
        fputc('\n', stderr);
}

/* ------------------------------------------------------------------------------------------- recordings */

static bool is_chosen(const struct store_arguments *arguments, const struct lli_recording *recording)
{
    return (arguments->session == 0 || arguments->session == recording->session) &&
           (arguments->channel == NULL || strcmp(arguments->channel, recording->channel) == 0);
}

static int each(const struct store_arguments *arguments, const struct lli_catalogue *catalogue,
                int (*visit)(void *arg, const struct lli_catalogue *, const struct lli_recording *),
                void *arg)
{
    uint64_t *sessions = lli_catalogue_order(catalogue, &catalogue->log);
    int status = sessions == NULL ? STORE_FAILED : 0;
    uint32_t chosen = 0;

    for (uint32_t i = 0; sessions != NULL && i < catalogue->count; i++) {
        const struct lli_recording *recording = lli_catalogue_find(catalogue, sessions[i]);
        int visited;

        if (!is_chosen(arguments, recording))
            continue;
        chosen++;
        visited = visit(arg, catalogue, recording);
        status = visited > status ? visited : status;
    }
    free(sessions);
    if (chosen == 0 && (arguments->session != 0 || arguments->channel != NULL)) {
        fprintf(stderr, "llm-store: %s: no such session or channel: 'llm-store list' shows what there is\n",
                arguments->directory);
        return STORE_FAILED;
    }
    return status;
}

int store_each(const struct store_arguments *arguments,
               int (*visit)(void *arg, const struct lli_catalogue *catalogue,
                            const struct lli_recording *recording),
               void *arg)
{
    const struct lli_log log = {.function = store_log, .level = LLM_LEVEL_WARNING};
    struct lli_catalogue *catalogue = NULL;
    int status;

    if (lli_catalogue_open(arguments->directory, &log, &catalogue) != LLM_OK)
        return STORE_FAILED;
    status = arguments->keys == NULL || lli_catalogue_add_keys(catalogue, arguments->keys) == LLM_OK
                 ? each(arguments, catalogue, visit, arg)
                 : STORE_FAILED;
    lli_catalogue_close(&catalogue);
    return status;
}
