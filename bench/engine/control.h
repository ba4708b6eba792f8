/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link to the runner (bench/runner/session.py): requests are lines of words on standard input, `VERB
 * KEY=VALUE...`; answers are lines of JSON on standard output. The command line is a request too, with the
 * role of the process as its verb. Words contain no blanks.
 */
#ifndef BENCH_CONTROL_H
#define BENCH_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "histogram.h"

enum { CONTROL_WORDS = 48, CONTROL_LINE = 8192 };

/* A request. Its words are valid until the next request. */
struct control {
    const char *verb;
    size_t count;
    const char *words[CONTROL_WORDS]; /* KEY=VALUE */
};

void control_of_arguments(struct control *control, int argc, char **argv);

/* The value of a key, or the default. */
const char *control_text(const struct control *control, const char *key, const char *otherwise);
uint64_t control_number(const struct control *control, const char *key, uint64_t otherwise);
uint64_t control_ns(const struct control *control, const char *key, uint64_t otherwise); /* from seconds */
bool control_flag(const struct control *control, const char *key);                       /* true: 1 */
bool control_is(const struct control *control, const char *key, const char *text);
/* Parses numbers separated by commas. Returns their count. */
int control_list(const struct control *control, const char *key, uint64_t *numbers, int most);

/* Roles of a process of llm-bench (main.c): each serves until its work is done, and returns the status. */
typedef int control_role(const struct control *control);
control_role clock_run, disk_run, joiners_run, load_run, machine_probe, market_run, mute_run, receivers_run,
    replay_run, store_run, transmitter_run;

/* Takes the next request, waiting for wait_ns at most: 1; 0: there is none; -1: end of requests. */
#define CONTROL_FOREVER UINT64_MAX
int control_take(struct control *control, uint64_t wait_ns);

/* True if a request, or the end of requests, is pending. */
bool control_is_waiting(void);

/* Calls the function of the verb in a table that ends with NULL. An unknown verb ends the process. */
struct control_verb {
    const char *verb;
    void (*serve)(const struct control *request);
};
void control_serve(const struct control *request, const struct control_verb *verbs);

/* Prints the error to standard error and ends the process. */
_Noreturn void control_fail(const char *what, const char *why);

/* Allocates zeroed memory, or ends the process. */
void *control_memory(size_t count, size_t size);

/* An answer: a JSON object on one line. Keys are NULL inside arrays; infinity and NaN become null. */
void json_open(void);
void json_close(void);
void json_begin(const char *key, char bracket);
void json_end(char bracket);
void json_text(const char *key, const char *text);
void json_number(const char *key, double number);
void json_histogram(const char *key, const struct histogram *histogram);

/* Writes counts, one for each of the keys, which blanks separate. */
void json_counts(const char *keys, const uint64_t *counts);

/* Writes an empty answer, or one with a single number. */
void json_done(const char *key, double number);

#endif
