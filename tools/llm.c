/* SPDX-License-Identifier: Apache-2.0 */
/* One program for people: sends, receives and measures, and runs the other tools of libllm. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "llm_tool.h"

/* Subcommands, in the order of the help. Those without a function are programs named llm-NAME. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} commands[] = {
    {"send", tool_send, "sends arguments, or lines of standard input, on a topic"},
    {"receive", tool_receive, "prints or counts messages"},
    {"ping", tool_ping, "measures the time to every reflector of a channel and back, or is one"},
    {"doctor", NULL, "checks whether this host is fit for libllm"},
    {"stat", NULL, "shows the counters of this host's processes"},
    {"store", NULL, "records channels, and lists, verifies, exports and plays recordings"},
    {"key", NULL, "makes and checks files of group keys"},
    {"shm", NULL, "lists the channels in shared memory"},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int help(void)
{
    printf("usage: llm COMMAND [OPTION]... [ARGUMENT]...\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-9s%s\n", commands[i].name, commands[i].text);
    printf("\n"
           "'llm COMMAND --help' describes a command, and 'man 7 llm' channels: "
           "udp://239.192.1.1:5001?interface=eth0\n"
           "The version of the library is %s.\n"
           "\n"
           "Exit status: 0; 1 if something failed; 2 for a wrong argument.\n",
           llm_version());
    return tool_flush(0);
}

/* Finds the command of this name. Returns COMMANDS if there is none. */
static size_t find(const char *name)
{
    size_t i = 0;

    while (i < COMMANDS && strcmp(name, commands[i].name) != 0)
        i++;
    return i;
}

/* Runs llm-NAME from the directory of this program, else from PATH. Returns only if there is none. */
static int run_program(const char *name, char **argv)
{
    char program[32], path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof program - 1);
    char *slash;

    (void)snprintf(program, sizeof program, "llm-%s", name);
    argv[0] = program;
    path[length < 0 ? 0 : length] = '\0';
    slash = strrchr(path, '/');
    if (slash != NULL) {
        (void)snprintf(slash + 1, sizeof program, "%s", program);
        (void)execv(path, argv);
    }
    (void)execvp(program, argv);
    fprintf(stderr, "llm: %s cannot be run: %s; it is installed with llm%s\n", program, strerror(errno),
            strcmp(name, "key") == 0 ? " if that was built with the feature keys" : "");
    return TOOL_FAILED;
}

int main(int argc, char **argv)
{
    static char option[] = "--help";
    size_t chosen;

    if (argc < 2) {
        fprintf(stderr, "llm: a command has to be given; try 'llm --help'\n");
        return TOOL_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("llm %s\n", llm_version());
        return tool_flush(0);
    }
    /* "llm help send" is "llm send --help". */
    if (strcmp(argv[1], "help") == 0 && argc == 3) {
        argv[1] = argv[2];
        argv[2] = option;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help();
    chosen = find(argv[1]);
    if (chosen == COMMANDS) {
        fprintf(stderr, "llm: %s: no such command; try 'llm --help'\n", argv[1]);
        return TOOL_USAGE;
    }
    return commands[chosen].run != NULL ? commands[chosen].run(argc - 1, argv + 1)
                                        : run_program(commands[chosen].name, argv + 1);
}
