/* SPDX-License-Identifier: Apache-2.0 */
/* A store as a program; and lists, checks, exports and replays the recordings of one. */
#include <string.h>

#include "store_tool.h"

/* Subcommands on recordings, in the order of the help. */
static const struct store_command commands[] = {
    {.name = "list",
     .run = store_list,
     .options = STORE_CHANNEL | STORE_SINCE | STORE_UNTIL | STORE_JSON,
     .usage = "[--channel CHANNEL] [--since TIME] [--until TIME] [--json] DIRECTORY",
     .text = "lists the recordings, as they began"},
    {.name = "show",
     .run = store_show,
     .options = STORE_JSON | STORE_KEYS,
     .target = "SESSION",
     .usage = "[--keys FILE] [--json] DIRECTORY [SESSION]",
     .text = "shows the segments, topics, gaps and damage of a recording"},
    {.name = "verify",
     .run = store_verify,
     .options = STORE_SESSION | STORE_CHANNEL | STORE_JSON,
     .usage = "[--session SESSION] [--channel CHANNEL] [--json] DIRECTORY",
     .text = "checks every hash; the exit status is 1 if something is damaged"},
    {.name = "compare",
     .run = store_compare,
     .options = STORE_SESSION | STORE_JSON,
     .target = "DIRECTORY",
     .target_has_to_be = true,
     .usage = "[--session SESSION] [--json] DIRECTORY DIRECTORY",
     .text = "compares the packets of two directories; the exit status is 1 if they differ"},
    {.name = "export",
     .run = store_export,
     .options = STORE_FORMAT | STORE_SESSION | STORE_CHANNEL | STORE_SINCE | STORE_UNTIL | STORE_FROM |
                STORE_TO | STORE_SKIP_DAMAGE | STORE_KEYS,
     .usage = "[--format json|pcap] [--session SESSION] [--channel CHANNEL] [--since TIME] [--until TIME] "
              "[--from NUMBER] "
              "[--to NUMBER] [--keys FILE] [--skip-damage] DIRECTORY",
     .text = "writes messages as lines of JSON, or packets as a capture for Wireshark, to standard output"},
    {.name = "play",
     .run = store_play,
     .options = STORE_SESSION | STORE_CHANNEL | STORE_SINCE | STORE_UNTIL | STORE_FROM | STORE_TO |
                STORE_SPEED | STORE_RECEIVERS | STORE_WAIT | STORE_SKIP_DAMAGE | STORE_JSON | STORE_KEYS,
     .target = "CHANNEL",
     .target_has_to_be = true,
     .usage = "[--speed FACTOR|max] [--receivers COUNT] [--wait SECONDS] [--session SESSION] [--channel "
              "CHANNEL] [--since TIME] "
              "[--until TIME] [--from NUMBER] [--to NUMBER] [--keys FILE] [--skip-damage] [--json] DIRECTORY "
              "CHANNEL",
     .text = "sends recorded messages to a channel, at their own pace"},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const char options_text[] =
    "\n"
    "  --session SESSION   only this session, as list shows it\n"
    "  --channel CHANNEL   only sessions that were received from this channel\n"
    "  --since TIME        only what was received at this time or later\n"
    "  --until TIME        only what was received earlier\n"
    "  --from NUMBER       begins with this message of each session\n"
    "  --to NUMBER         ends before this message\n"
    "  --keys FILE         key file with the epochs of channels with keys, ended ones too\n"
    "  --skip-damage       goes on behind damage\n"
    "  --speed FACTOR      so many times as fast (1), or max: as fast as the receivers permit\n"
    "  --receivers COUNT   begins when so many receivers are there (0)\n"
    "  --wait SECONDS      ... or this time has passed (10)\n"
    "  --json              prints JSON\n"
    "  --help              this text\n"
    "\n"
    "TIME is 2026-11-25, 2026-11-25T10:00 or 2026-11-25T10:00:00.5 in UTC, @SECONDS since 1970, or 90s, 10m, "
    "2h or 3d ago.\n"
    "\n"
    "Exit status: 0; 1 if something failed, is damaged, or differs; 2 for a wrong argument.\n";

static void help(void)
{
    printf("usage: llm-store COMMAND [OPTION]... DIRECTORY\n"
           "\n"
           "Records channels in a directory, or works on its recordings, also while a store runs.\n"
           "\n"
           "  record   records the sessions of channels: 'llm-store record --help'\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].text);
    fputs(options_text, stdout);
}

static void help_on(const struct store_command *command)
{
    printf("usage: llm-store %s %s\n\nThe command %s.\n%s", command->name, command->usage, command->text,
           options_text);
}

int main(int argc, char **argv)
{
    struct store_arguments arguments;
    size_t chosen = 0;
    int status;

    if (argc < 2)
        return store_refuse("command", "has to be given");
    if (strcmp(argv[1], "--help") == 0) {
        help();
        return store_flush(0);
    }
    if (strcmp(argv[1], "record") == 0)
        return store_flush(store_record(argc - 1, argv + 1));
    while (chosen < COMMANDS && strcmp(argv[1], commands[chosen].name) != 0)
        chosen++;
    if (chosen == COMMANDS)
        return store_refuse(argv[1], "no such command");
    status = store_parse(commands + chosen, argc - 2, argv + 2, &arguments);
    if (status < 0) {
        help_on(commands + chosen);
        return store_flush(0);
    }
    return status != 0 ? status : store_flush(commands[chosen].run(&arguments));
}
