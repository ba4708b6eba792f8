/* SPDX-License-Identifier: Apache-2.0 */
/* Table of refused calls, with their results and log lines, and the objects for them. */
#ifndef TESTS_REFUSED_H
#define TESTS_REFUSED_H

#include "unit.h"

#include <llm/llm.h>
#include <stdio.h>

#include "connection/connection.h"

enum { CALLS_MAX = 128, SIZES_MAX = 64, NAME_MAX_BYTES = 64, ROUNDS = 100000 };

#define SMALL                                                                                             \
    "?mtu=1500&history_bytes=1M&history_packets=256&reorder_bytes=1M&sessions_max=2&linger_ns=0&message_" \
    "bytes_max=64K"                                                                                       \
    "&topics_max=8&receivers_max=4&window_packets=64&rcvbuf_bytes=1M"
#define CHANNEL "loop://refusals:1" SMALL
#define CALLS "loop://refusals:2" SMALL

/* ---------------------------------------------------------------------------------------------- the table */

static char covered[CALLS_MAX][NAME_MAX_BYTES];
static int covered_count;
static char line[1024]; /* latest line of the log */
static int lines;

static inline void log_count(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    if (level != LLM_LEVEL_ERROR)
        return;
    lines++;
    snprintf(line, sizeof line, "%s", text);
}

/* Records the first public function in the text of a call, if there is one. */
static inline void cover(const char *call)
{
    const char *name = strstr(call, "llm_");
    const size_t size = name == NULL ? 0 : strspn(name, "abcdefghijklmnopqrstuvwxyz_");

    if (size == 0)
        return;
    assert_true(size < NAME_MAX_BYTES && covered_count < CALLS_MAX);
    for (int i = 0; i < covered_count; i++)
        if (strncmp(covered[i], name, size) == 0 && covered[i][size] == '\0')
            return;
    snprintf(covered[covered_count++], NAME_MAX_BYTES, "%.*s", (int)size, name);
}

static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_topic *topic, *other;
static struct llm_receiver *receiver;
static struct llm_listener *listener;
static struct llm_connection *connection, *accepted;

/* As if nothing had been logged for long. */
static inline void row_begin(void)
{
    lines = 0;
    line[0] = '\0';
    if (context != NULL)
        context->refusals = (struct lli_refusals){.kinds = {{.format = NULL}}};
}

static inline void row_end(const char *call, int64_t result, int64_t expected, const char *told)
{
    cover(call);
    if (result != expected)
        fail_msg("%s is %lld, not %lld", call, (long long)result, (long long)expected);
    if (lines != (told == NULL ? 0 : 1))
        fail_msg("%s logs %d lines, the latest: %s", call, lines, line);
    if (told != NULL && strstr(line, told) == NULL)
        fail_msg("%s: \"%s\" is not in: %s", call, told, line);
    /* The wrong value, followed by the remedy. */
    if (told != NULL && strstr(line, ": ") == NULL && strstr(line, "; ") == NULL)
        fail_msg("%s names no remedy: %s", call, line);
}

/* A call, its result, and a part of the log line; NULL: no line. */
#define ROW(call, expected, told)                          \
    do {                                                   \
        int64_t result;                                    \
                                                           \
        row_begin();                                       \
        result = (int64_t)(call);                          \
        row_end(#call, result, (int64_t)(expected), told); \
    } while (0)

/* Functions, versioned structures that they were given with a wrong size, and the results. */
static struct {
    char function[NAME_MAX_BYTES];
    const char *structure;
    int error;
} sizes[SIZES_MAX];
static int sizes_count;

static inline void cover_size(const char *call, const char *structure, int error)
{
    const char *name = strstr(call, "llm_");

    assert_non_null(name);
    assert_true(sizes_count < SIZES_MAX);
    sizes[sizes_count].structure = structure;
    sizes[sizes_count].error = error;
    snprintf(sizes[sizes_count++].function, NAME_MAX_BYTES, "%.*s", (int)strcspn(name, "("), name);
}

/* A call with a structure of size 0, and with one that is larger than the library's. */
#define ROW_SIZE_ZERO(structure_, variable, call)   \
    do {                                            \
        (variable).size = 0;                        \
        ROW(call, LLM_EINVAL, "size is 0");         \
        cover_size(#call, #structure_, LLM_EINVAL); \
    } while (0)

#define ROW_SIZE_LARGER(structure_, variable, call)                   \
    do {                                                              \
        (variable).size = sizeof(struct structure_) + sizeof(size_t); \
        ROW(call, LLM_EVERSION, "size is");                           \
        cover_size(#call, #structure_, LLM_EVERSION);                 \
    } while (0)

#define ROW_SIZES(structure_, variable, call)        \
    do {                                             \
        ROW_SIZE_ZERO(structure_, variable, call);   \
        ROW_SIZE_LARGER(structure_, variable, call); \
    } while (0)

/* The same inside a handler. */
#define ROW_INSIDE(call, expected, told)        \
    do {                                        \
        struct llm_context *inside = context;   \
                                                \
        assert_true(lli_context_enter(inside)); \
        inside->in_handler = true;              \
        ROW(call, expected, told);              \
        inside->in_handler = false;             \
        lli_context_leave(inside);              \
    } while (0)

/* The same for a call that returns nothing, and must do nothing. */
#define ROW_VOID(call) ROW(((call), LLM_OK), LLM_OK, NULL)

/* -------------------------------------------------------------------------------------------- the objects */

static inline void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    (void)message;
}

static inline void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

static inline void on_connection_event(void *arg, struct llm_connection *of, const struct llm_event *event)
{
    (void)event;
    *(struct llm_connection **)arg = of;
}

static inline struct llm_connection_handlers connection_handlers(struct llm_connection **of)
{
    struct llm_connection_handlers handlers;

    llm_connection_handlers_init(&handlers);
    handlers.arg = of;
    handlers.event = on_connection_event;
    return handlers;
}

static inline int on_request(void *arg, struct llm_listener *of, const struct llm_caller *caller,
                             struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)of;
    (void)caller;
    *handlers = connection_handlers(&accepted);
    return LLM_OK;
}

static inline void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    (void)arg;
    (void)reason;
    (void)data;
    (void)size;
}

static inline int up(void **state)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;

    (void)state;
    llm_context_options_init(&options);
    options.log = log_count;
    options.huge_pages = false;
    options.stats_directory = "";
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(llm_receiver_open(context, CHANNEL, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "other", 0, &other), LLM_OK);
    return 0;
}

static inline int down(void **state)
{
    (void)state;
    connection = accepted = NULL;
    assert_int_equal(llm_context_close(&context), LLM_OK);
    return 0;
}

static inline void connect_both(void)
{
    const struct llm_connection_handlers handlers = connection_handlers(&connection);
    struct llm_listener_handlers answering;

    llm_listener_handlers_init(&answering);
    answering.connect = on_request;
    assert_int_equal(llm_listener_open(context, CALLS, NULL, &answering, &listener), LLM_OK);
    assert_int_equal(llm_connection_open(context, CALLS, NULL, &handlers, NULL, &connection), LLM_OK);
    for (int i = 0; i < ROUNDS && (accepted == NULL || llm_connection_transmitter(connection) == NULL); i++)
        assert_true(llm_poll(context) >= 0);
    assert_non_null(accepted);
    assert_non_null(llm_connection_transmitter(connection));
}

#endif
