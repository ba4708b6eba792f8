/* SPDX-License-Identifier: Apache-2.0 */
/* llm-store record: follows channels and records their sessions until a signal ends it. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "store_tool.h"

static volatile sig_atomic_t ending;

static void on_signal(int number)
{
    (void)number;
    ending = 1;
}

static const char usage[] =
    "usage: llm-store record [OPTION]... DIRECTORY CHANNEL...\n"
    "\n"
    "Records every session on the channels, until SIGINT or SIGTERM. Transmitters know the store by the "
    "receiver_name "
    "in its channel.\n"
    "\n"
    "  --level LEVEL         acknowledges messages that are synced (default), written or received\n"
    "  --engine ENGINE       writes by uring, thread, or auto (default): uring if the system allows it\n"
    "  --segment MIB         size of a segment (256)\n"
    "  --spares COUNT        segments that are prepared ahead (2)\n"
    "  --reserve MIB         free space that is left on the disk (1024)\n"
    "  --full ACTION         if the disk is full: stop (default), or oldest: removes the oldest segment\n"
    "  --max MIB             size of all segments, beyond which the oldest are removed; 0: no limit "
    "(default)\n"
    "  --age HOURS           age at which segments are removed; 0: never (default)\n"
    "  --until-acknowledged  retains what not all receivers that have to have acknowledged\n"
    "  --name NAME           name of the counters file, for llm-stat\n"
    "  --help                this text\n";

/* Parses a number up to max / unit. False: refused. */
static bool record_number(const char *option, const char *text, uint64_t unit, uint64_t max, uint64_t *value)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno != 0 || *end != '\0' || number > max / unit) {
        fprintf(stderr,
                "llm-store: %s %s: has to be a number, at most %" PRIu64 "; try 'llm-store record --help'\n",
                option, text, max / unit);
        return false;
    }
    *value = number * unit;
    return true;
}

/* Parses one of a few words. False: refused. */
static bool record_word(const char *option, const char *text, const char *const *words, int *value)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(text, words[i]) == 0) {
            *value = i;
            return true;
        }
    fprintf(stderr, "llm-store: %s %s: has to be one of", option, text);
    for (int i = 0; words[i] != NULL; i++)
        fprintf(stderr, " %s", words[i]);
    fputs("; try 'llm-store record --help'\n", stderr);
    return false;
}

/* Options in the order of record_options. */
enum { LEVEL, ENGINE, SEGMENT, SPARES, RESERVE, FULL, MAX, AGE, UNTIL_ACKNOWLEDGED, NAME, HELP };

static const struct option record_options[] = {{"level", required_argument, NULL, LEVEL},
                                               {"engine", required_argument, NULL, ENGINE},
                                               {"segment", required_argument, NULL, SEGMENT},
                                               {"spares", required_argument, NULL, SPARES},
                                               {"reserve", required_argument, NULL, RESERVE},
                                               {"full", required_argument, NULL, FULL},
                                               {"max", required_argument, NULL, MAX},
                                               {"age", required_argument, NULL, AGE},
                                               {"until-acknowledged", no_argument, NULL, UNTIL_ACKNOWLEDGED},
                                               {"name", required_argument, NULL, NAME},
                                               {"help", no_argument, NULL, HELP},
                                               {NULL, 0, NULL, 0}};

static bool record_option(int option, struct llm_store_options *store, struct llm_context_options *context)
{
    static const char *const levels[] = {"synced", "written", "received", NULL};
    static const char *const engines[] = {"auto", "uring", "thread", NULL};
    static const char *const fulls[] = {"stop", "oldest", NULL};
    const uint64_t mib = 1 << 20, most = UINT64_MAX / 2;
    uint64_t value = 0;
    int word = 0;
    bool accepted = true;

    switch (option) {
    case LEVEL:
        accepted = record_word("--level", optarg, levels, &word);
        store->level = (enum llm_store_level)word;
        break;
    case ENGINE:
        accepted = record_word("--engine", optarg, engines, &word);
        store->engine = (enum llm_store_engine)word;
        break;
    case FULL:
        accepted = record_word("--full", optarg, fulls, &word);
        store->full = (enum llm_store_full)word;
        break;
    case SEGMENT:
        accepted = record_number("--segment", optarg, mib, most, &store->segment_bytes);
        break;
    case SPARES:
        accepted = record_number("--spares", optarg, 1, UINT32_MAX, &value);
        store->spares = (uint32_t)value;
        break;
    case RESERVE:
        accepted = record_number("--reserve", optarg, mib, most, &store->reserve_bytes);
        break;
    case MAX:
        accepted = record_number("--max", optarg, mib, most, &store->bytes_max);
        break;
    case AGE:
        accepted = record_number("--age", optarg, UINT64_C(3600000000000), most, &store->age_ns_max);
        break;
    case UNTIL_ACKNOWLEDGED:
        store->until_acknowledged = true;
        break;
    case NAME:
        context->stats_name = optarg;
        break;
    default:
        accepted = false;
        break;
    }
    return accepted;
}

/* Status that the program ends with if nothing else fails. */
static int record_status;

static void on_event(void *arg, const struct llm_event *event)
{
    char text[512];

    (void)arg;
    if (event->kind == LLM_EVENT_STORE_STOPPED)
        record_status = STORE_FAILED;
    if (event->kind == LLM_EVENT_TOPIC_NEW)
        return;
    (void)llm_event_text(event, text, sizeof text);
    store_log(NULL, LLM_LEVEL_INFO, text);
}

static int record_run(const struct llm_context_options *context_options,
                      const struct llm_store_options *options, char **channels)
{
    struct llm_store_handlers handlers;
    struct llm_context *context = NULL;
    struct llm_store *store = NULL;
    int error = llm_context_open(context_options, &context);

    llm_store_handlers_init(&handlers);
    handlers.event = on_event;
    if (error == LLM_OK)
        error = llm_store_open(context, options, &handlers, &store);
    for (; error == LLM_OK && *channels != NULL; channels++)
        error = llm_store_follow(store, *channels, NULL);
    if (error == LLM_OK)
        store_log(NULL, LLM_LEVEL_INFO, "recording");
    while (error >= 0 && !ending)
        error = llm_wait(context, 100000000);
    if (store != NULL && llm_store_close(&store) != LLM_OK)
        error = LLM_ESYSTEM;
    (void)llm_context_close(&context);
    return error < 0 ? STORE_FAILED : record_status;
}

int store_record(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = on_signal};
    struct llm_context_options context;
    struct llm_store_options options;
    int option;

    llm_store_options_init(&options);
    llm_context_options_init(&context);
    context.wait = LLM_WAIT_BLOCK;
    context.log = store_log;
    context.log_level = LLM_LEVEL_INFO;
    while ((option = getopt_long(argc, argv, "", record_options, NULL)) != -1) {
        if (option == HELP) {
            fputs(usage, stdout);
            return 0;
        }
        if (!record_option(option, &options, &context))
            return STORE_USAGE;
    }
    if (argc - optind < 2)
        return store_refuse("record", "a directory and a channel have to be given");
    options.directory = argv[optind];
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    return record_run(&context, &options, argv + optind + 1);
}
