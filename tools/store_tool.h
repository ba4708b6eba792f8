/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the subcommands of llm-store: arguments, times, progress. */
#ifndef STORE_TOOL_H
#define STORE_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <llm/llm.h>

#include "store/cursor.h"

enum { STORE_FAILED = 1, STORE_USAGE = 2 }; /* exit statuses */

enum store_format { STORE_FORMAT_JSON, STORE_FORMAT_PCAP };

struct store_arguments {
    const char *command;
    const char *directory;
    const char *target; /* the second argument: a session, another directory, or the channel of play */
    uint64_t session;   /* 0: all */
    const char *channel;
    uint64_t since; /* CLOCK_REALTIME ns */
    uint64_t until;
    uint64_t from; /* message numbers */
    uint64_t to;
    bool from_given;
    bool since_given;
    bool json;
    bool skip_damage;
    enum store_format format;
    double speed; /* 0: as fast as possible */
    uint32_t receivers;
    double seconds;   /* to wait for them */
    const char *keys; /* key file; NULL: none */
};

/* Options, as bits: each subcommand has some. */
enum store_option {
    STORE_SESSION = 1,
    STORE_CHANNEL = 2,
    STORE_SINCE = 4,
    STORE_UNTIL = 8,
    STORE_FROM = 16,
    STORE_TO = 32,
    STORE_JSON = 64,
    STORE_SKIP_DAMAGE = 128,
    STORE_FORMAT = 256,
    STORE_SPEED = 512,
    STORE_RECEIVERS = 1024,
    STORE_WAIT = 2048,
    STORE_KEYS = 4096,
};

/* A subcommand. Its function returns the exit status. */
struct store_command {
    const char *name;
    int (*run)(const struct store_arguments *arguments);
    unsigned options;      /* of enum store_option */
    const char *target;    /* what the second argument is; NULL: there is none */
    bool target_has_to_be; /* ... and has to be given */
    const char *usage;     /* behind "usage: llm-store NAME " */
    const char *text;      /* what it does */
};

/* Takes arguments of its own. Returns the exit status. */
int store_record(int argc, char **argv);

int store_list(const struct store_arguments *arguments);
int store_show(const struct store_arguments *arguments);
int store_verify(const struct store_arguments *arguments);
int store_compare(const struct store_arguments *arguments);
int store_export(const struct store_arguments *arguments);
int store_export_pcap(const struct store_arguments *arguments);
int store_play(const struct store_arguments *arguments);

/* Parses the arguments behind a subcommand. Returns 0, a status for exit(), or -1: --help was all. */
int store_parse(const struct store_command *command, int argc, char **argv,
                struct store_arguments *arguments);

/* Says on standard error what is wrong with an argument. Returns STORE_USAGE. */
int store_refuse(const char *what, const char *why);

/* Log function of everything that the tool opens: "llm-store: ...". */
void store_log(void *arg, enum llm_level level, const char *text);

/* Options of a replay of what the arguments choose. */
struct llm_replay_options store_replay_options(const struct store_arguments *arguments);

/*
 * Calls visit for each recording that the arguments choose, as they began. Returns the exit status: STORE_FAILED
 * if there is none, or it cannot be read, else the greatest that visit returned.
 */
int store_each(const struct store_arguments *arguments,
               int (*visit)(void *arg, const struct lli_catalogue *catalogue,
                            const struct lli_recording *recording),
               void *arg);

/* Checks that all of standard output was written. Returns status, or STORE_FAILED. */
int store_flush(int status);

/* -------------------------------------------------------------------------------------------- printing */

enum { STORE_TIME = 40 };

/* Writes a wall clock as 2026-11-25T10:00:00.123456789Z. */
const char *store_time(char text[static STORE_TIME], uint64_t realtime_ns);

/* Progress of something that may take long, on standard error, from the second second on. */
struct store_progress {
    const char *what;
    uint64_t total; /* 0: unknown */
    uint64_t started_at;
    uint64_t shown_at;
    bool shown;
};

void store_progress_begin(struct store_progress *progress, const char *what, uint64_t total);
/* unit: of done and of total, for people. */
void store_progress_note(struct store_progress *progress, uint64_t done, const char *unit);
void store_progress_end(struct store_progress *progress);

#endif
