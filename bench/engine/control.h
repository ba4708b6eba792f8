/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link to the runner (bench/runner/session.py): requests are lines of words on standard input, `VERB
 * KEY=VALUE...`, answers are lines of JSON on standard output. The command line is a request too, whose verb
 * is the role of the process. Words contain no blanks.
 */
#ifndef BENCH_CONTROL_H
#define BENCH_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "histogram.h"

enum { CONTROL_WORDS = 48, CONTROL_LINE = 8192 };

/* A request. Its words are valid until the next one is taken. */
struct control {
    const char *verb;
    size_t count;
    const char *words[CONTROL_WORDS]; /* KEY=VALUE */
};

void control_of_arguments(struct control *control, int argc, char **argv);

/* The value of a key, or the one given. */
const char *control_text(const struct control *control, const char *key, const char *otherwise);
uint64_t control_number(const struct control *control, const char *key, uint64_t otherwise);
uint64_t control_ns(const struct control *control, const char *key, uint64_t otherwise); /* of seconds */
bool control_flag(const struct control *control, const char *key);                       /* 1: it is set */
bool control_is(const struct control *control, const char *key, const char *text);
/* Numbers separated by commas. Returns how many there are. */
int control_list(const struct control *control, const char *key, uint64_t *numbers, int most);

/* Roles of a process of llm-bench (main.c): each serves until its work is done, and returns the exit status. */
typedef int control_role(const struct control *control);
control_role joiners_run, load_run, machine_probe, mute_run, receivers_run, transmitter_run;

/* Takes the next request, waiting so long at most: 1; 0: none came; -1: the runner sends no more. */
#define CONTROL_FOREVER UINT64_MAX
int control_take(struct control *control, uint64_t wait_ns);

/* True if there is a request, or the runner sends no more. */
bool control_is_waiting(void);

/* Calls the function of the verb in a table that ends with NULL. An unknown verb ends the process. */
struct control_verb {
    const char *verb;
    void (*serve)(const struct control *request);
};
void control_serve(const struct control *request, const struct control_verb *verbs);

/* Ends the process, with what is wrong on standard error. */
_Noreturn void control_fail(const char *what, const char *why);

/* Zeroed memory. Ends the process without. */
void *control_memory(size_t count, size_t size);

/* An answer: an object on a line of its own. Keys are NULL inside arrays; a number that is not finite is null. */
void json_open(void);
void json_close(void);
void json_begin(const char *key, char bracket);
void json_end(char bracket);
void json_text(const char *key, const char *text);
void json_number(const char *key, double number);
void json_histogram(const char *key, const struct histogram *histogram);

/* Writes counts, one for each of the keys, which are separated by blanks. */
void json_counts(const char *keys, const uint64_t *counts);

/* An answer without contents, or with one number. */
void json_done(const char *key, double number);

#endif
