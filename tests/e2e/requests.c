/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over a connection between two processes, many outstanding, and the result of each.
 *
 *   e2e_requests reply CHANNEL [--wait MODE]
 *   e2e_requests ask CHANNEL [--requests N | --hold N] [--wait MODE]
 *
 * The replying side takes the newest request first, and ends with the connection; requests marked "keep" are
 * replied to only on a request to release them. The asking side marks each thirtieth of N requests and
 * releases them after their deadline. With --hold the marked requests are never released, and more of them
 * follow until the connection is over.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <llm/llm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { PLAIN, KEPT, RELEASE, REPLY };

enum { ASKED_MAX = 8192, IN_FLIGHT = 200, KEPT_EVERY = 30, SIZE_MAX_BYTES = 1400 };

#define GIVE_UP_NS UINT64_C(100000000000)
#define DEADLINE_NS UINT64_C(100000000)

/* The beginning of a request and of its reply, which determines the rest. */
struct head {
    uint64_t number;
    uint64_t kind;
};

/* A request, at the asking side. */
struct asked {
    struct head head;
    uint64_t until; /* UINT64_MAX: until the end of the connection */
    int told;
};

/* A request, at the replying side. */
struct owed {
    uint64_t id, number;
};

static struct {
    const char *channel;
    uint64_t requests, hold, wait;
    struct llm_connection *connection;
    bool connected, over;
    /* Reasons of the end: of the connection, and before that of its requests. */
    enum llm_reason reason, ended_by;
    struct asked asked[ASKED_MAX];
    uint64_t count, told, replied, unanswered, ended, late, recovered, errors;
    struct owed owed[ASKED_MAX], kept[ASKED_MAX];
    uint64_t owed_count, kept_count;
} program = {.wait = LLM_WAIT_BLOCK};

static void fail(const char *what, int error)
{
    fprintf(stderr, "%s: %s\n", what, llm_error_name(error));
    exit(2);
}

static size_t fill(uint8_t *bytes, const struct head *head)
{
    const size_t size =
        sizeof *head + (size_t)((head->number * 37 + head->kind) % (SIZE_MAX_BYTES - sizeof *head));

    memcpy(bytes, head, sizeof *head);
    for (size_t at = sizeof *head; at < size; at++)
        bytes[at] = (uint8_t)(head->number * 31 + head->kind + at);
    return size;
}

static bool is_made_of(const struct head *head, const void *data, size_t size)
{
    uint8_t expected[SIZE_MAX_BYTES];

    return size == fill(expected, head) && memcmp(data, expected, size) == 0;
}

static void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_CONNECTED) {
        program.connection = connection;
        program.connected = true;
    } else if (event->kind == LLM_EVENT_DISCONNECTED) {
        program.reason = event->reason;
        program.over = true;
    }
}

/* The counters of a connection end with it. */
static void close_connection(const struct llm_context *context)
{
    (void)llm_context_counter(context, "packets_recovered", &program.recovered);
    (void)llm_connection_close(&program.connection);
}

/* Sleeps if permitted, except that refused requests are retried soon. */
static void turn(struct llm_context *context)
{
    (void)(program.wait == LLM_WAIT_SPIN ? llm_poll(context) : llm_wait(context, 1000000));
}

/* ------------------------------------------------------------------------------------------------- ask */

static void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    struct asked *asked = arg;
    const struct head reply = {asked->head.number, REPLY};

    asked->told++;
    program.told++;
    if (reason == LLM_REASON_NONE) {
        program.replied++;
        program.errors += asked->head.kind == KEPT || !is_made_of(&reply, data, size);
    } else if (reason == LLM_REASON_UNANSWERED) {
        program.unanswered++;
        program.errors += size != 0 || llm_clock() < asked->until;
    } else {
        program.ended++;
        program.errors += size != 0 || program.over || (program.ended > 1 && reason != program.ended_by);
        program.ended_by = reason;
    }
}

/* Returns false if the request was refused, or if the connection is over; the event follows. */
static bool ask(enum kind kind, uint64_t timeout_ns)
{
    const uint64_t now = llm_clock();
    struct asked *asked = &program.asked[program.count];
    uint8_t bytes[SIZE_MAX_BYTES];
    int error;

    if (program.count == ASKED_MAX)
        fail("ask", LLM_EAGAIN);
    *asked = (struct asked){.head = {program.count, kind},
                            .until = timeout_ns == UINT64_MAX ? UINT64_MAX : now + timeout_ns};
    error = llm_connection_request(program.connection, bytes, fill(bytes, &asked->head), timeout_ns, on_reply,
                                   asked);
    if (error == LLM_EAGAIN || error == LLM_ESTATE)
        return false;
    if (error != LLM_OK)
        fail("request", error);
    program.count++;
    return true;
}

static bool goes_on(uint64_t until)
{
    return !program.over && llm_clock() < until;
}

/*
 * Releases the marked requests: their replies come first, too late, when all places are taken by other
 * requests again.
 */
static void ask_for_the_late(struct llm_context *context, uint64_t until)
{
    const uint64_t first = program.count, end = first + LLM_REQUESTS_MAX;

    while (goes_on(until) && program.told < end) {
        while (program.count < end && ask(program.count == first ? RELEASE : PLAIN, UINT64_MAX))
            ;
        turn(context);
    }
}

static void ask_many(struct llm_context *context, uint64_t until)
{
    while (goes_on(until) && program.told < program.requests) {
        bool taken = true;

        while (taken && program.count < program.requests && program.count - program.told < IN_FLIGHT)
            taken = program.count % KEPT_EVERY == KEPT_EVERY - 1 ? ask(KEPT, DEADLINE_NS)
                                                                 : ask(PLAIN, UINT64_MAX);
        turn(context);
    }
    ask_for_the_late(context, until);
}

/* The request after the marked ones is answered once all have arrived; later ones may never arrive. */
static void ask_to_keep(struct llm_context *context, uint64_t until)
{
    while (goes_on(until) && program.told == 0) {
        while (program.count <= program.hold && ask(program.count < program.hold ? KEPT : PLAIN, UINT64_MAX))
            ;
        turn(context);
    }
    if (!program.over)
        fprintf(stderr, "waiting\n");
    while (goes_on(until)) {
        if (program.count < LLM_REQUESTS_MAX)
            (void)ask(KEPT, UINT64_MAX);
        turn(context);
    }
}

static void run_ask(struct llm_context *context)
{
    const uint64_t until = llm_clock() + GIVE_UP_NS;
    struct llm_connection_handlers handlers;
    int error;

    llm_connection_handlers_init(&handlers);
    handlers.event = on_event;
    error = llm_connection_open(context, program.channel, NULL, &handlers, NULL, &program.connection);
    if (error != LLM_OK)
        fail("connect", error);
    while (!program.connected && goes_on(until))
        turn(context);
    if (program.hold > 0)
        ask_to_keep(context, until);
    else
        ask_many(context, until);
    close_connection(context);
    program.errors += program.ended > 0 && program.ended_by != program.reason;
    for (uint64_t i = 0; i < program.count; i++)
        program.errors += program.asked[i].told != 1;
}

/* ----------------------------------------------------------------------------------------------- reply */

static void owe(struct owed *list, uint64_t *count, struct owed owed)
{
    if (*count == ASKED_MAX)
        fail("owe", LLM_EAGAIN);
    list[(*count)++] = owed;
}

/* Requests arrive once and in order. */
static void on_asked(void *arg, struct llm_connection *connection, const struct llm_request *asked)
{
    struct owed owed = {.id = asked->id, .number = program.count++};
    struct head head = {0, 0};

    (void)arg;
    (void)connection;
    if (asked->size >= sizeof head)
        memcpy(&head, asked->data, sizeof head);
    program.errors += head.number != owed.number || !is_made_of(&head, asked->data, asked->size);
    if (head.kind == KEPT) {
        owe(program.kept, &program.kept_count, owed);
        return;
    }
    owe(program.owed, &program.owed_count, owed);
    if (head.kind == RELEASE)
        for (; program.kept_count > 0; program.late++)
            owe(program.owed, &program.owed_count, program.kept[--program.kept_count]);
}

/* Replies to the newest requests first, as far as replies are accepted. */
static void settle(void)
{
    while (program.owed_count > 0) {
        const struct owed *owed = &program.owed[program.owed_count - 1];
        const struct head head = {owed->number, REPLY};
        uint8_t bytes[SIZE_MAX_BYTES];
        const int error = llm_connection_reply(program.connection, owed->id, bytes, fill(bytes, &head));

        if (error == LLM_EAGAIN || error == LLM_ESTATE)
            return;
        if (error != LLM_OK)
            fail("reply", error);
        program.owed_count--;
        program.replied++;
    }
}

static int on_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                     struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)listener;
    (void)caller;
    llm_connection_handlers_init(handlers);
    handlers->event = on_event;
    handlers->request = on_asked;
    return LLM_OK;
}

static void run_reply(struct llm_context *context)
{
    const uint64_t until = llm_clock() + GIVE_UP_NS;
    struct llm_listener_handlers handlers;
    struct llm_listener *listener;
    int error;

    llm_listener_handlers_init(&handlers);
    handlers.connect = on_caller;
    error = llm_listener_open(context, program.channel, NULL, &handlers, &listener);
    if (error != LLM_OK)
        fail("listen", error);
    fprintf(stderr, "listening\n");
    while (goes_on(until)) {
        turn(context);
        settle();
    }
    close_connection(context);
}

/* ------------------------------------------------------------------------------------------------ main */

static void print_result(void)
{
    printf("{\"asked\": %" PRIu64 ", \"replied\": %" PRIu64 ", \"unanswered\": %" PRIu64
           ", \"ended\": %" PRIu64,
           program.count, program.replied, program.unanswered, program.ended);
    printf(", \"late\": %" PRIu64 ", \"recovered\": %" PRIu64 ", \"errors\": %" PRIu64 ", \"reason\": %d}\n",
           program.late, program.recovered, program.errors, (int)program.reason);
}

int main(int argc, char **argv)
{
    struct llm_context_options options;
    struct llm_context *context;

    if (argc < 3 || (strcmp(argv[1], "reply") != 0 && strcmp(argv[1], "ask") != 0)) {
        fprintf(stderr, "usage: e2e_requests reply|ask CHANNEL [--requests N | --hold N] [--wait MODE]\n");
        return 2;
    }
    program.channel = argv[2];
    for (int i = 3; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--requests") == 0)
            program.requests = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--hold") == 0)
            program.hold = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--wait") == 0)
            program.wait = strtoull(argv[i + 1], NULL, 10);
    }
    llm_context_options_init(&options);
    options.wait = (enum llm_wait_mode)program.wait;
    if (llm_context_open(&options, &context) != LLM_OK)
        return 2;
    if (strcmp(argv[1], "reply") == 0)
        run_reply(context);
    else
        run_ask(context);
    print_result();
    return llm_context_close(&context) == LLM_OK ? 0 : 2;
}
