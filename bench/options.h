/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the benchmark programs: a table of options, parsed with getopt_long(), from which --help is written. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,    /* bool; no argument, sets it true */
    OPTION_TEXT,    /* const char *; the string of argv itself */
    OPTION_CHOICE,  /* const char *; one of the words of choices */
    OPTION_NUMBER,  /* uint64_t between min and max */
    OPTION_LIST,    /* struct option_list of such numbers, with commas between */
    OPTION_SECONDS, /* uint64_t in nanoseconds; given in seconds, with decimals; min and max are nanoseconds too */
};

#define OPTION_LIST_MAX 16

struct option_list {
    uint64_t values[OPTION_LIST_MAX];
    int count;
};

struct option_spec {
    const char *name;     /* without the dashes */
    enum option_kind kind;
    void *value;          /* of the type that the kind says; holds the default */
    const char *argument; /* what --help calls the argument */
    const char *help;
    uint64_t min;
    uint64_t max;
    const char *choices;  /* words with a space between */
};

struct option_program {
    const char *name;
    const char *summary;            /* what the program does, for --help */
    const char *examples;           /* the end of --help */
    const struct option_spec *specs;
    size_t count;
    const struct option_spec *shared; /* those that it has like other programs, listed after its own; NULL, or a last one
                                         without a name */
};

/* Parses the command line into the values of the table. For --help it prints and exits with 0; what is wrong is named on
 * stderr, with what would be right, and the exit status is 2. */
void options_parse(const struct option_program *program, int argc, char **argv);

/* Says what is wrong with the options taken together, and exits with 2. */
_Noreturn void options_refuse(const struct option_program *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
