/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of llm-store. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store_tool.h"

#define SECOND UINT64_C(1000000000)

int store_refuse(const char *what, const char *why)
{
    fprintf(stderr, "llm-store: %s: %s; try 'llm-store --help'\n", what, why);
    return STORE_USAGE;
}

/* ---------------------------------------------------------------------------------------------- values */

static bool parse_number(const char *text, int base, uint64_t *number)
{
    char *end;

    if (text[0] == '\0' || strspn(text, base == 16 ? "0123456789abcdefABCDEF" : "0123456789") != strlen(text))
        return false;
    errno = 0;
    *number = strtoull(text, &end, base);
    return errno == 0 && *end == '\0';
}

/* Parses a decimal fraction of a second, with its point, if there is one. Moves *text behind it. */
static uint64_t parse_fraction(const char **text)
{
    uint64_t unit = SECOND, value = 0;

    if (**text != '.')
        return 0;
    for (++*text; **text >= '0' && **text <= '9'; ++*text) {
        unit /= 10;
        value += unit * (uint64_t)(**text - '0');
    }
    return value;
}

/* Parses a number of seconds since 1970, without the @. */
static bool parse_since_1970(const char *text, uint64_t *time_ns)
{
    char *end;
    const char *rest;
    unsigned long long seconds;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    seconds = strtoull(text, &end, 10);
    if (errno != 0 || seconds > UINT64_MAX / SECOND - 1)
        return false;
    rest = end;
    *time_ns = seconds * SECOND + parse_fraction(&rest);
    return *rest == '\0';
}

/* Parses a time before now: 90s, 10m, 2h, 3d. */
static bool parse_ago(const char *text, uint64_t *time_ns)
{
    const size_t digits = strspn(text, "0123456789");
    const char *unit = digits == 0 || text[digits] == '\0' ? NULL : strchr("smhd", text[digits]);
    static const uint64_t seconds[] = {1, 60, 3600, 86400};
    struct timespec now;
    uint64_t ago, now_ns;

    if (unit == NULL || text[digits + 1] != '\0' || digits > 9)
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    now_ns = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
    ago = strtoull(text, NULL, 10) * seconds[unit - "smhd"];
    *time_ns = ago > now_ns / SECOND ? 0 : now_ns - ago * SECOND;
    return true;
}

static bool parse_date(const char *text, uint64_t *time_ns)
{
    static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"};

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct tm parts = {.tm_isdst = 0};
        const char *rest = strptime(text, formats[i], &parts);
        uint64_t fraction;
        time_t seconds;

        if (rest == NULL)
            continue;
        fraction = i == 0 ? parse_fraction(&rest) : 0;
        rest += i < 2 && *rest == 'Z';
        seconds = timegm(&parts);
        *time_ns = (uint64_t)seconds * SECOND + fraction;
        if (*rest == '\0' && seconds >= 0)
            return true;
    }
    return false;
}

static bool parse_time(const char *text, uint64_t *time_ns)
{
    if (text[0] == '@')
        return parse_since_1970(text + 1, time_ns);
    return parse_ago(text, time_ns) || parse_date(text, time_ns);
}

static bool parse_session(const char *text, uint64_t *session)
{
    return strlen(text) <= 16 && parse_number(text, 16, session) && *session != 0;
}

static bool parse_factor(const char *text, double most, double *factor)
{
    char *end;

    *factor = strtod(text, &end);
    return end != text && *end == '\0' && *factor > 0 && *factor <= most;
}

/* --------------------------------------------------------------------------------------------- options */

static const struct {
    const char *name;
    enum store_option option;
    const char *wrong; /* why a value is refused; NULL: it takes none */
} known[] = {
    {"--session", STORE_SESSION,
     "needs a session, up to 16 hexadecimal digits, as 'llm-store list' shows it"},
    {"--channel", STORE_CHANNEL, "needs a channel, as 'llm-store list' shows it"},
    {"--since", STORE_SINCE, "needs a time: 2026-11-25T10:00:00 in UTC, @1700000000, or 10m ago"},
    {"--until", STORE_UNTIL, "needs a time: 2026-11-25T10:00:00 in UTC, @1700000000, or 10m ago"},
    {"--from", STORE_FROM, "needs the number of a message"},
    {"--to", STORE_TO, "needs the number of a message"},
    {"--json", STORE_JSON, NULL},
    {"--skip-damage", STORE_SKIP_DAMAGE, NULL},
    {"--format", STORE_FORMAT, "needs json or pcap"},
    {"--speed", STORE_SPEED, "needs a factor from 0.000001 to 1000000, or max"},
    {"--receivers", STORE_RECEIVERS, "needs a number of receivers, up to 65535"},
    {"--wait", STORE_WAIT, "needs seconds, up to 1000000"},
    {"--keys", STORE_KEYS, "needs a key file"},
};

/* Sets an option that takes no value, or one that takes the value. False: the value is wrong. */
static bool set_option(enum store_option option, const char *value, struct store_arguments *arguments)
{
    uint64_t number;

    switch (option) {
    case STORE_SESSION:
        return parse_session(value, &arguments->session);
    case STORE_CHANNEL:
        arguments->channel = value;
        return value[0] != '\0';
    case STORE_SINCE:
        arguments->since_given = true;
        return parse_time(value, &arguments->since);
    case STORE_UNTIL:
        return parse_time(value, &arguments->until);
    case STORE_FROM:
        arguments->from_given = true;
        return parse_number(value, 10, &arguments->from);
    case STORE_TO:
        return parse_number(value, 10, &arguments->to);
    case STORE_JSON:
        return arguments->json = true;
    case STORE_SKIP_DAMAGE:
        return arguments->skip_damage = true;
    case STORE_FORMAT:
        arguments->format = strcmp(value, "pcap") == 0 ? STORE_FORMAT_PCAP : STORE_FORMAT_JSON;
        return strcmp(value, "pcap") == 0 || strcmp(value, "json") == 0;
    case STORE_SPEED:
        arguments->speed = 0;
        return strcmp(value, "max") == 0 ||
               (parse_factor(value, 1e6, &arguments->speed) && arguments->speed >= 1e-6);
    case STORE_RECEIVERS:
        if (!parse_number(value, 10, &number) || number > UINT16_MAX)
            return false;
        arguments->receivers = (uint32_t)number;
        return true;
    case STORE_WAIT:
        return parse_factor(value, 1e6, &arguments->seconds);
    case STORE_KEYS:
        arguments->keys = value;
        return value[0] != '\0';
    }
    return false;
}

/* Parses the option at argv[*at], and moves to its value if it has one. */
static int parse_option(const struct store_command *command, int argc, char **argv, int *at,
                        struct store_arguments *arguments)
{
    const char *name = argv[*at];
    size_t i = 0;

    while (i < sizeof known / sizeof known[0] && strcmp(name, known[i].name) != 0)
        i++;
    if (i == sizeof known / sizeof known[0])
        return store_refuse(name, "no such option");
    if (!(command->options & known[i].option))
        return store_refuse(name, "not an option of this command");
    if (known[i].wrong != NULL && ++*at == argc)
        return store_refuse(name, known[i].wrong);
    return set_option(known[i].option, argv[*at], arguments) ? 0 : store_refuse(name, known[i].wrong);
}

static int parse_positional(const struct store_command *command, const char *text,
                            struct store_arguments *arguments)
{
    if (arguments->directory == NULL) {
        arguments->directory = text;
        return 0;
    }
    if (command->target == NULL || arguments->target != NULL)
        return store_refuse(text,
                            command->target == NULL ? "one directory at a time" : "one argument too many");
    arguments->target = text;
    if (command->run == store_show && !parse_session(text, &arguments->session))
        return store_refuse(text, "not a session: up to 16 hexadecimal digits, as 'llm-store list' shows it");
    return 0;
}

int store_parse(const struct store_command *command, int argc, char **argv, struct store_arguments *arguments)
{
    int status = 0;

    *arguments = (struct store_arguments){
        .command = command->name, .until = UINT64_MAX, .to = UINT64_MAX, .speed = 1, .seconds = 10};
    for (int i = 0; i < argc && status == 0; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return -1;
        status = argv[i][0] == '-' ? parse_option(command, argc, argv, &i, arguments)
                                   : parse_positional(command, argv[i], arguments);
    }
    if (status != 0)
        return status;
    if (arguments->directory == NULL)
        return store_refuse("DIRECTORY", "has to be given: that of a store");
    if (command->target_has_to_be && arguments->target == NULL)
        return store_refuse(command->target, "has to be given");
    if (arguments->from_given && arguments->since_given)
        return store_refuse("--from", "not together with --since");
    return 0;
}

struct llm_replay_options store_replay_options(const struct store_arguments *arguments)
{
    struct llm_replay_options options;

    llm_replay_options_init(&options);
    options.session = arguments->session;
    options.channel = arguments->channel;
    options.until_number = arguments->to;
    options.until_realtime = arguments->until;
    options.skip_damage = arguments->skip_damage;
    options.keys = arguments->keys;
    if (arguments->since_given) {
        options.from = LLM_JOIN_TIME;
        options.value = arguments->since;
    } else if (arguments->from_given) {
        options.from = LLM_JOIN_NUMBER;
        options.value = arguments->from;
    }
    return options;
}
