/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 40
#define OPTIONS_HELP 1000 /* getopt's value of --help; the others have their index */

void options_refuse(const struct option_program *program, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", program->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry '%s --help'.\n", program->name);
    exit(2);
}

/* NULL after the last. */
static const struct option_spec *options_spec(const struct option_program *program, size_t i)
{
    if (i < program->count)
        return &program->specs[i];
    return program->shared && program->shared[i - program->count].name ? &program->shared[i - program->count] : NULL;
}

static void options_help(const struct option_program *program)
{
    const struct option_spec *spec;

    printf("%s\n\nOptions:\n", program->summary);
    for (size_t i = 0; (spec = options_spec(program, i)) != NULL; i++) {
        char left[64];

        snprintf(left, sizeof left, "--%s%s%s", spec->name, spec->argument ? " " : "", spec->argument ? spec->argument : "");
        printf("  %-26s %s\n", left, spec->help);
    }
    printf("  %-26s %s\n\n%s", "--help", "this text", program->examples);
}

static bool options_number(const char *text, const char **end, uint64_t *number)
{
    char *stop;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *number = strtoull(text, &stop, 10);
    *end = stop;
    return errno == 0;
}

static bool options_in_range(const struct option_spec *spec, uint64_t number)
{
    return number >= spec->min && number <= spec->max;
}

static bool options_set_number(const struct option_spec *spec, const char *text)
{
    const char *end;
    uint64_t number;

    if (!options_number(text, &end, &number) || *end != '\0' || !options_in_range(spec, number))
        return false;
    *(uint64_t *)spec->value = number;
    return true;
}

static bool options_set_list(const struct option_spec *spec, const char *text)
{
    struct option_list list = {.count = 0};

    for (;;) {
        uint64_t number;

        if (list.count == OPTION_LIST_MAX || !options_number(text, &text, &number) || !options_in_range(spec, number))
            return false;
        list.values[list.count++] = number;
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return false;
    }
    *(struct option_list *)spec->value = list;
    return true;
}

static bool options_set_seconds(const struct option_spec *spec, const char *text)
{
    char *end;
    double seconds = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;

    if (seconds < 0 || *end != '\0' || seconds * 1e9 < (double)spec->min || seconds * 1e9 > (double)spec->max)
        return false;
    *(uint64_t *)spec->value = (uint64_t)(seconds * 1e9);
    return true;
}

static bool options_set_choice(const struct option_spec *spec, const char *text)
{
    size_t length = strlen(text);

    for (const char *word = spec->choices; length > 0 && *word != '\0';) {
        size_t size = strcspn(word, " ");

        if (size == length && strncmp(word, text, size) == 0) {
            *(const char **)spec->value = text;
            return true;
        }
        word += size;
        word += strspn(word, " ");
    }
    return false;
}

static bool options_set(const struct option_spec *spec, const char *text)
{
    switch (spec->kind) {
    case OPTION_FLAG:
        *(bool *)spec->value = true;
        return true;
    case OPTION_TEXT:
        *(const char **)spec->value = text;
        return true;
    case OPTION_CHOICE:
        return options_set_choice(spec, text);
    case OPTION_NUMBER:
        return options_set_number(spec, text);
    case OPTION_LIST:
        return options_set_list(spec, text);
    case OPTION_SECONDS:
        return options_set_seconds(spec, text);
    }
    return false;
}

static _Noreturn void options_refuse_value(const struct option_program *program, const struct option_spec *spec,
                                           const char *text)
{
    if (spec->kind == OPTION_CHOICE)
        options_refuse(program, "--%s %s: must be one of: %s", spec->name, text, spec->choices);
    if (spec->kind == OPTION_SECONDS)
        options_refuse(program, "--%s %s: must be seconds from %g to %g", spec->name, text, (double)spec->min / 1e9,
                       (double)spec->max / 1e9);
    if (spec->kind == OPTION_LIST)
        options_refuse(program, "--%s %s: must be up to %d numbers from %llu to %llu with commas between", spec->name, text,
                       OPTION_LIST_MAX, (unsigned long long)spec->min, (unsigned long long)spec->max);
    options_refuse(program, "--%s %s: must be a number from %llu to %llu", spec->name, text, (unsigned long long)spec->min,
                   (unsigned long long)spec->max);
}

void options_parse(const struct option_program *program, int argc, char **argv)
{
    struct option table[OPTIONS_MAX + 2] = {{.name = "help", .val = OPTIONS_HELP}};
    const struct option_spec *spec;

    for (size_t i = 0; i < OPTIONS_MAX && (spec = options_spec(program, i)) != NULL; i++) {
        table[i + 1].name = spec->name;
        table[i + 1].has_arg = spec->kind == OPTION_FLAG ? no_argument : required_argument;
        table[i + 1].val = (int)i;
    }
    opterr = 0;
    for (;;) {
        int at = optind;
        int which = getopt_long(argc, argv, ":", table, NULL);

        if (which == -1)
            break;
        if (which == OPTIONS_HELP) {
            options_help(program);
            exit(0);
        }
        if (which == ':')
            options_refuse(program, "%s: needs a value", argv[at]);
        if (which == '?')
            options_refuse(program, "%s: no such option, or one that takes no value", argv[at]);
        spec = options_spec(program, (size_t)which);
        if (!options_set(spec, optarg))
            options_refuse_value(program, spec, optarg);
    }
    if (optind < argc)
        options_refuse(program, "%s: not expected; all arguments are options", argv[optind]);
}
