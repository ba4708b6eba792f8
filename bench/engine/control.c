/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "control.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void control_of_arguments(struct control *control, int argc, char **argv)
{
    *control = (struct control){.verb = argc > 1 ? argv[1] : ""};
    for (int i = 2; i < argc && control->count < CONTROL_WORDS; i++)
        control->words[control->count++] = argv[i];
}

const char *control_text(const struct control *control, const char *key, const char *otherwise)
{
    const size_t length = strlen(key);

    for (size_t i = 0; i < control->count; i++)
        if (strncmp(control->words[i], key, length) == 0 && control->words[i][length] == '=')
            return control->words[i] + length + 1;
    return otherwise;
}

uint64_t control_number(const struct control *control, const char *key, uint64_t otherwise)
{
    const char *text = control_text(control, key, NULL);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

uint64_t control_ns(const struct control *control, const char *key, uint64_t otherwise)
{
    const char *text = control_text(control, key, NULL);

    return text != NULL ? (uint64_t)(strtod(text, NULL) * 1e9 + 0.5) : otherwise;
}

bool control_flag(const struct control *control, const char *key)
{
    return control_number(control, key, 0) != 0;
}

bool control_is(const struct control *control, const char *key, const char *text)
{
    return strcmp(control_text(control, key, ""), text) == 0;
}

int control_list(const struct control *control, const char *key, uint64_t *numbers, int most)
{
    const char *text = control_text(control, key, "");
    char *end;
    int count = 0;

    for (; *text != '\0' && count < most; text = *end == ',' ? end + 1 : end)
        numbers[count++] = strtoull(text, &end, 10);
    return count;
}

static struct {
    char bytes[CONTROL_LINE];
    size_t size;
    char line[CONTROL_LINE]; /* the current request */
    bool over;
} control_input;

/* Moves the first line of the input to the buffer where it is parsed. */
static bool control_split(struct control *control)
{
    char *end = memchr(control_input.bytes, '\n', control_input.size);
    const size_t size = end != NULL ? (size_t)(end - control_input.bytes) + 1 : 0;
    char *rest, *word;

    if (end == NULL)
        return false;
    *end = '\0';
    memcpy(control_input.line, control_input.bytes, size);
    control_input.size -= size;
    memmove(control_input.bytes, control_input.bytes + size, control_input.size);
    *control = (struct control){.verb = strtok_r(control_input.line, " ", &rest)};
    control->verb = control->verb != NULL ? control->verb : "";
    while (control->count < CONTROL_WORDS && (word = strtok_r(NULL, " ", &rest)) != NULL)
        control->words[control->count++] = word;
    return true;
}

int control_take(struct control *control, uint64_t wait_ns)
{
    const struct timespec time = {.tv_sec = (time_t)(wait_ns / 1000000000),
                                  .tv_nsec = (long)(wait_ns % 1000000000)};
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    while (!control_split(control)) {
        ssize_t got;

        if (control_input.over)
            return -1;
        if (ppoll(&input, 1, wait_ns == CONTROL_FOREVER ? NULL : &time, NULL) <= 0)
            return 0;
        got = read(STDIN_FILENO, control_input.bytes + control_input.size,
                   sizeof control_input.bytes - control_input.size);
        control_input.over = got <= 0;
        control_input.size += got > 0 ? (size_t)got : 0;
    }
    return 1;
}

bool control_is_waiting(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    return control_input.size > 0 || poll(&input, 1, 0) != 0;
}

void control_serve(const struct control *request, const struct control_verb *verbs)
{
    while (verbs->verb != NULL && strcmp(verbs->verb, request->verb) != 0)
        verbs++;
    if (verbs->verb == NULL)
        control_fail(request->verb, "no such request");
    verbs->serve(request);
}

_Noreturn void control_fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

void *control_memory(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL && count > 0)
        control_fail("calloc", "no memory");
    return memory;
}

static bool json_first = true; /* the innermost object or array is still empty */

static void json_next(const char *key)
{
    if (!json_first)
        (void)fputs(", ", stdout);
    json_first = false;
    if (key != NULL)
        (void)printf("\"%s\": ", key);
}

void json_begin(const char *key, char bracket)
{
    json_next(key);
    (void)putchar(bracket);
    json_first = true;
}

void json_end(char bracket)
{
    (void)putchar(bracket);
    json_first = false;
}

void json_open(void)
{
    json_first = true;
    json_begin(NULL, '{');
}

void json_close(void)
{
    json_end('}');
    (void)putchar('\n');
    if (fflush(stdout) != 0)
        control_fail("standard output", "is gone");
}

/* Escapes quotes and backslashes only, which suffices for names of machines and objects. */
void json_text(const char *key, const char *text)
{
    json_next(key);
    (void)putchar('"');
    for (; *text != '\0'; text++)
        (void)printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", (unsigned char)*text < ' ' ? ' ' : *text);
    (void)putchar('"');
}

void json_number(const char *key, double number)
{
    json_next(key);
    if (isfinite(number))
        (void)printf("%.16g", number);
    else
        (void)fputs("null", stdout);
}

void json_counts(const char *keys, const uint64_t *counts)
{
    char key[32];

    for (size_t length; *keys != '\0'; keys += length + (keys[length] == ' ')) {
        length = strcspn(keys, " ");
        (void)snprintf(key, sizeof key, "%.*s", (int)length, keys);
        json_next(key);
        (void)printf("%" PRIu64, *counts++);
    }
}

void json_histogram(const char *key, const struct histogram *histogram)
{
    json_begin(key, '{');
    json_begin("counts", '[');
    for (size_t i = 0; i < HISTOGRAM_COUNTS; i++) {
        if (histogram->counts[i] == 0)
            continue;
        json_number(NULL, (double)histogram_value(i));
        json_number(NULL, histogram->counts[i]);
    }
    json_end(']');
    json_number("max", (double)histogram->max);
    json_begin("trace", '[');
    for (size_t i = 0; i < histogram->trace_count; i++)
        json_number(NULL, histogram->trace[i]);
    json_end(']');
    json_end('}');
}

void json_done(const char *key, double number)
{
    json_open();
    if (key != NULL)
        json_number(key, number);
    json_close();
}
