/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the counters of this host's processes that use libllm, living or dead. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stat_print.h"
#include "stat_serve.h"
#include "stat_view.h"

static const char usage[] =
    "usage: llm-stat [--once | --json | --prometheus ADDRESS | --clean] [--interval SECONDS] [DIRECTORY]\n"
    "\n"
    "Shows the counters of contexts that have a counters file, and refreshes them every second; q quits.\n"
    "\n"
    "  DIRECTORY             directory of the counters files (" LLM_STATS_DIRECTORY
    ", or $LLM_STATS_DIRECTORY)\n"
    "  --once                prints all counters that are not zero, and ends\n"
    "  --json                prints everything as JSON, and ends\n"
    "  --prometheus ADDRESS  serves everything to Prometheus, at HOST:PORT, [HOST]:PORT or :PORT\n"
    "  --clean               removes the counters files of dead processes of this user; for root, of all "
    "users\n"
    "  --interval SECONDS    time between two views, 0.1 to 3600 (1)\n"
    "  --help                this text\n"
    "\n"
    "Exit status: 0; 1 if something failed, or a file could not be read; 2 for a wrong argument.\n";

enum mode { MODE_VIEW, MODE_ONCE, MODE_JSON, MODE_SERVE, MODE_CLEAN };

struct arguments {
    enum mode mode;
    const char *directory;
    const char *address;
    double interval;
};

static int refuse(const char *what, const char *why)
{
    fprintf(stderr, "llm-stat: %s: %s; try 'llm-stat --help'\n", what, why);
    return 2;
}

static int directory_failed(const char *directory)
{
    fprintf(stderr, "llm-stat: %s: %s\n", directory, strerror(errno));
    return 1;
}

static int parse_interval(const char *text, double *interval)
{
    char *end;

    *interval = text == NULL ? 0 : strtod(text, &end);
    if (text == NULL || *end != '\0' || !(*interval >= 0.1 && *interval <= 3600))
        return refuse("--interval", "must be seconds from 0.1 to 3600");
    return 0;
}

/* Parses the arguments. Returns 0, a status for exit(), or -1: --help was all. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
    static const struct {
        const char *name;
        enum mode mode;
    } modes[] = {
        {"--once", MODE_ONCE}, {"--json", MODE_JSON}, {"--prometheus", MODE_SERVE}, {"--clean", MODE_CLEAN}};
    bool chosen = false, given = false;

    for (int i = 1; i < argc; i++) {
        size_t mode = 0;

        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return -1;
        }
        while (mode < sizeof modes / sizeof modes[0] && strcmp(argv[i], modes[mode].name) != 0)
            mode++;
        if (mode < sizeof modes / sizeof modes[0]) {
            if (chosen)
                return refuse(argv[i], "one of --once, --json, --prometheus and --clean at a time");
            chosen = true;
            arguments->mode = modes[mode].mode;
            if (arguments->mode == MODE_SERVE && (arguments->address = argv[++i]) == NULL)
                return refuse("--prometheus", "needs an address, as 127.0.0.1:9464");
        } else if (strcmp(argv[i], "--interval") == 0) {
            if (parse_interval(argv[++i], &arguments->interval) != 0)
                return 2;
        } else if (argv[i][0] == '-') {
            return refuse(argv[i], "no such option");
        } else if (given) {
            return refuse(argv[i], "one directory at a time");
        } else {
            arguments->directory = argv[i];
            given = true;
        }
    }
    return 0;
}

static int print_now(const struct arguments *arguments)
{
    struct stat_watch watch = {.directory = arguments->directory};
    int status = 0;

    if (stat_watch_look(&watch) != 0)
        return directory_failed(arguments->directory);
    if (arguments->mode == MODE_JSON)
        stat_print_json(stdout, &watch);
    else if (watch.count > 0)
        stat_print_text(stdout, &watch);
    else
        printf("no counters files in %s: set stats_directory or LLM_STATS_DIRECTORY to write them\n",
               arguments->directory);
    for (int i = 0; i < watch.count; i++)
        status |= watch.sources[i].fault != STAT_OK;
    stat_watch_fini(&watch);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "llm-stat: standard output: %s\n", strerror(errno));
        return 1;
    }
    return status;
}

static int clean(const char *directory)
{
    const int removed = stat_watch_clean(directory);

    if (removed < 0 && errno == EPERM) {
        fprintf(stderr,
                "llm-stat: %s: nothing is removed, as other users can rename files there; it must be owned "
                "by root or this user, and sticky "
                "if everybody may write: 'chown root %s; chmod 1777 %s'\n",
                directory, directory, directory);
        return 1;
    }
    if (removed < 0)
        return directory_failed(directory);
    printf("removed %d files of dead processes\n", removed);
    return 0;
}

int main(int argc, char **argv)
{
    const char *environment = getenv("LLM_STATS_DIRECTORY");
    struct arguments arguments = {.directory = LLM_STATS_DIRECTORY, .interval = 1};
    int status;

    if (environment != NULL && environment[0] != '\0')
        arguments.directory = environment;
    status = parse(argc, argv, &arguments);
    if (status != 0)
        return status < 0 ? 0 : status;
    switch (arguments.mode) {
    case MODE_SERVE:
        return stat_serve(arguments.directory, arguments.address);
    case MODE_CLEAN:
        return clean(arguments.directory);
    case MODE_VIEW:
        return stat_view(arguments.directory, arguments.interval);
    default:
        return print_now(&arguments);
    }
}
