/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the subcommands of llm: refusals, numbers, signals, the context. */
#ifndef LLM_TOOL_H
#define LLM_TOOL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <llm/llm.h>

enum { TOOL_FAILED = 1, TOOL_USAGE = 2 }; /* exit statuses */

#define TOOL_SECOND UINT64_C(1000000000)

/* Subcommands: argv[0] is the name. Each returns the exit status. */
int tool_send(int argc, char **argv);
int tool_receive(int argc, char **argv);
int tool_ping(int argc, char **argv);

/* Set by SIGINT and SIGTERM, once tool_catch_signals() was called. */
extern volatile sig_atomic_t tool_stopped;

void tool_catch_signals(void);

/* Says on standard error what is wrong with an argument. Returns TOOL_USAGE. */
int tool_refuse(const char *command, const char *what, const char *why);

/* Says which option getopt_long() did not accept; argv is its own. Returns TOOL_USAGE. */
int tool_refuse_option(const char *command, int result, char **argv);

/* Parse the value of an option. False: it is refused, on standard error. */
bool tool_number(const char *command, const char *option, const char *text, uint64_t least, uint64_t most,
                 uint64_t *value);
bool tool_seconds(const char *command, const char *option, const char *text, uint64_t *value_ns);

/* Log function of everything that the tool opens: "llm: ...". */
void tool_log(void *arg, enum llm_level level, const char *text);

/* Opens a context that sleeps, or with spin polls without a pause. Returns an error of llm_context_open(). */
int tool_open(const char *name, bool spin, struct llm_context **context);

/* Returns the exit status for an error of the library, which has logged it. */
int tool_status(int error);

/* Writes standard output out. Returns status, or TOOL_FAILED if that failed. */
int tool_flush(int status);

#endif
