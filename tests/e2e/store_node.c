/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that is killed, and what it acknowledged, through the public API. LOG is a directory with a file for each
 * session, which is mapped, so that it has what a killed transmitter knew.
 *
 *   e2e_store_node store CHANNEL DIRECTORY [--engine uring|thread] [--level synced|written] [--segment MIB]
 *       records until SIGTERM; prints "listening"
 *   e2e_store_node send CHANNEL LOG [--name STORE] [--messages N] [--say 1]
 *       sends N messages, or until SIGTERM, as fast as the store acknowledges them; on SIGTERM, or at the end,
 *       waits for the rest; --say prints "acknowledged SESSION NUMBER" every 10 ms: messages before that number
 *   e2e_store_node read DIRECTORY LOG
 *       reads all recordings: every acknowledged message has to be there, once, in order and unchanged, and
 *       nothing that was not sent
 */
#define _GNU_SOURCE
#include "flood.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SESSIONS_MAX = 4096, TOPICS = 3, MESSAGE_MAX = 32768, RECORD_SIZE = 4096 };

/* Progress of a transmitter, in its file. */
struct node_record {
    _Atomic uint64_t sent;         /* messages before this one may have been sent */
    _Atomic uint64_t acknowledged; /* messages before this one were reported as acknowledged */
    _Atomic uint64_t complete;     /* 1: all were, and the session was closed */
};

static void node_fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static struct node_record *node_map(const char *path, int flags)
{
    const int fd = open(path, flags | O_CLOEXEC, 0600);
    void *map;

    if (fd < 0 || ((flags & O_CREAT) != 0 && ftruncate(fd, RECORD_SIZE) != 0))
        node_fail(path);
    map = mmap(NULL, RECORD_SIZE, PROT_READ | ((flags & O_CREAT) != 0 ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        node_fail(path);
    close(fd);
    return map;
}

static struct llm_context *node_context(void)
{
    struct llm_context_options options;
    struct llm_context *context;

    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    flood_ok(llm_context_open(&options, &context), "llm_context_open");
    return context;
}

/* ---------------------------------------------------------------------------------------------- messages */

/* Size and bytes of a message follow from session and number. One in 32 spans packets. */
static size_t node_size(uint64_t number)
{
    return number % 32 == 7 ? 20000 + number % 5000 : 16 + number * 37 % 400;
}

static void node_fill(uint64_t session, uint64_t number, uint8_t *bytes)
{
    const uint64_t seed = (session ^ number * UINT64_C(0x9e3779b97f4a7c15)) | 1;

    memcpy(bytes, &session, sizeof session);
    memcpy(bytes + 8, &number, sizeof number);
    for (size_t i = 16; i < node_size(number); i++)
        bytes[i] = (uint8_t)(seed >> i % 57 ^ i);
}

/* ------------------------------------------------------------------------------------------------- store */

static void on_store_event(void *arg, const struct llm_event *event)
{
    char text[256];

    (void)arg;
    (void)llm_event_text(event, text, sizeof text);
    fprintf(stderr, "event: %s\n", text);
}

static int node_store(int argc, char **argv)
{
    struct llm_context *context = node_context();
    const char *engine = flood_text(argc, argv, "--engine"), *level = flood_text(argc, argv, "--level");
    struct llm_store_handlers handlers;
    struct llm_store_options options;
    struct llm_store *store;

    llm_store_options_init(&options);
    options.directory = argv[3];
    options.segment_bytes = flood_option(argc, argv, "--segment", 16) << 20;
    options.spares = 1;
    options.reserve_bytes = 0;
    if (engine != NULL)
        options.engine = strcmp(engine, "uring") == 0 ? LLM_STORE_URING : LLM_STORE_THREAD;
    if (level != NULL)
        options.level = strcmp(level, "synced") == 0 ? LLM_STORE_SYNCED : LLM_STORE_WRITTEN;
    llm_store_handlers_init(&handlers);
    handlers.event = on_store_event;
    flood_ok(llm_store_open(context, &options, &handlers, &store), argv[3]);
    flood_ok(llm_store_follow(store, argv[2], NULL), argv[2]);
    fprintf(stderr, "listening\n");
    while (!flood_stopped)
        flood_ok(llm_wait(context, 10000000), "llm_wait");
    printf("{");
    flood_print_stats(stdout, context);
    printf("}\n");
    flood_ok(llm_store_close(&store), "llm_store_close");
    flood_ok(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}

/* -------------------------------------------------------------------------------------------------- send */

static void on_transmitter_event(void *arg, const struct llm_event *event)
{
    struct node_record *record = arg;

    if (event->kind == LLM_EVENT_ACKNOWLEDGED && event->last + 1 > atomic_load(&record->acknowledged))
        atomic_store(&record->acknowledged, event->last + 1);
}

/* Prints what is acknowledged, if that has changed. */
static void node_say(uint64_t session, const struct node_record *record)
{
    static uint64_t said, said_at;
    const uint64_t acknowledged = atomic_load(&record->acknowledged), now = llm_clock();

    if (acknowledged == said || now < said_at + 10000000)
        return;
    said = acknowledged;
    said_at = now;
    printf("acknowledged %016" PRIx64 " %" PRIu64 "\n", session, acknowledged);
    (void)fflush(stdout);
}

static struct llm_transmitter *node_transmitter(struct llm_context *context, const char *channel,
                                                struct node_record *record)
{
    struct llm_transmitter_handlers handlers;
    struct llm_transmitter *transmitter;
    struct llm_options options;

    llm_options_init(&options);
    options.linger_ns = 60000000000;
    llm_transmitter_handlers_init(&handlers);
    handlers.arg = record;
    handlers.event = on_transmitter_event;
    flood_ok(llm_transmitter_open(context, channel, &options, &handlers, &transmitter), channel);
    return transmitter;
}

static struct node_record *node_log(const char *directory)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/new", directory);
    return node_map(path, O_RDWR | O_CREAT | O_TRUNC);
}

static int node_send(int argc, char **argv)
{
    static uint8_t bytes[MESSAGE_MAX];
    const uint64_t messages = flood_option(argc, argv, "--messages", UINT64_MAX);
    struct llm_context *context = node_context();
    struct node_record *record = node_log(argv[3]);
    struct llm_transmitter *transmitter = node_transmitter(context, argv[2], record);
    const uint64_t session = llm_transmitter_session(transmitter);
    struct llm_assurance assurance;
    const bool says = flood_option(argc, argv, "--say", 0) != 0;
    struct llm_topic *topics[TOPICS];
    char from[512], to[512];
    uint64_t number = 0;

    (void)snprintf(from, sizeof from, "%s/new", argv[3]);
    (void)snprintf(to, sizeof to, "%s/%016" PRIx64, argv[3], session);
    if (rename(from, to) != 0)
        node_fail(to);
    llm_assurance_init(&assurance);
    assurance.receivers = 0;
    assurance.names = flood_text(argc, argv, "--name");
    for (int i = 0; i < TOPICS; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "topic %d", i);
        flood_ok(llm_topic_open(transmitter, name, 0, &topics[i]), name);
        flood_ok(llm_topic_assure(topics[i], &assurance), "llm_topic_assure");
    }
    fprintf(stderr, "sending\n");
    while (number < messages && !flood_stopped) {
        int result;

        node_fill(session, number, bytes);
        atomic_store(&record->sent, number + 1);
        result = llm_send(topics[number % TOPICS], bytes, node_size(number), 0);
        if (result == LLM_EAGAIN)
            flood_ok(llm_wait(context, 1000000), "llm_wait");
        else
            number += (uint64_t)flood_ok(result, "llm_send") + 1;
        flood_ok(llm_poll(context), "llm_poll");
        if (says)
            node_say(session, record);
    }
    atomic_store(&record->sent, number);
    fprintf(stderr, "sent\n");
    while (atomic_load(&record->acknowledged) < number)
        flood_ok(llm_wait(context, 1000000), "llm_wait");
    /* The counters end with the transmitter. */
    printf("{\"sent\": %" PRIu64 ", ", number);
    flood_print_stats(stdout, context);
    printf("}\n");
    flood_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    atomic_store(&record->complete, 1);
    flood_ok(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}

/* -------------------------------------------------------------------------------------------------- read */

/* A session as its transmitter and as the store recorded it. */
struct node_session {
    uint64_t session;
    const struct node_record *record;
    uint64_t next; /* message that comes next */
    bool began, ended;
};

static struct node_reading {
    struct node_session sessions[SESSIONS_MAX];
    int count;
    uint64_t messages, acknowledged;
    uint64_t errors;
} reading;

/* Counts an error, and says what is wrong for the first ones. */
static void reading_error(uint64_t session, uint64_t number, const char *what)
{
    if (reading.errors++ < 20)
        fprintf(stderr, "session %016" PRIx64 ", message %" PRIu64 ": %s\n", session, number, what);
}

static struct node_session *reading_find(uint64_t session, uint64_t number)
{
    for (int i = 0; i < reading.count; i++)
        if (reading.sessions[i].session == session)
            return &reading.sessions[i];
    reading_error(session, number, "no transmitter had this session");
    return NULL;
}

static void on_message(void *arg, const struct llm_message *message)
{
    static uint8_t expected[MESSAGE_MAX];
    struct node_session *session = reading_find(message->session, message->number);

    (void)arg;
    if (session == NULL)
        return;
    reading.messages++;
    if (message->number != session->next)
        reading_error(message->session, message->number, "is not the one that comes next");
    if (message->number >= atomic_load(&session->record->sent))
        reading_error(message->session, message->number, "was not sent");
    session->next = message->number + 1;
    node_fill(message->session, message->number, expected);
    if (message->size != node_size(message->number) || memcmp(message->data, expected, message->size) != 0)
        reading_error(message->session, message->number, "has other bytes than were sent");
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct node_session *session = reading_find(event->session, event->first);

    (void)arg;
    if (session == NULL)
        return;
    session->began |= event->kind == LLM_EVENT_SESSION_NEW;
    session->ended |= event->kind == LLM_EVENT_SESSION_END && event->reason == LLM_REASON_CLOSED;
    if (event->kind == LLM_EVENT_GAP)
        reading_error(event->session, event->first, llm_reason_name(event->reason));
}

static void reading_logs(const char *directory)
{
    DIR *folder = opendir(directory);
    const struct dirent *entry;
    char path[512];

    if (folder == NULL)
        node_fail(directory);
    while ((entry = readdir(folder)) != NULL) {
        struct node_session *session = &reading.sessions[reading.count];
        char *end;

        session->session = strtoull(entry->d_name, &end, 16);
        /* The file "new" is of a transmitter that was killed before it had a session. */
        if (*end != '\0' || end == entry->d_name || reading.count == SESSIONS_MAX)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        session->record = node_map(path, O_RDONLY);
        reading.count++;
    }
    closedir(folder);
}

static void reading_check(const struct node_session *session)
{
    const uint64_t acknowledged = atomic_load(&session->record->acknowledged);

    reading.acknowledged += acknowledged;
    if (session->next < acknowledged)
        reading_error(session->session, session->next, "was acknowledged, and is not there");
    if (atomic_load(&session->record->complete) != 0 && session->next != atomic_load(&session->record->sent))
        reading_error(session->session, session->next, "is not there, though the session is complete");
}

/* keys: NULL: recordings are in clear. */
static int node_read(const char *directory, const char *log, const char *keys)
{
    struct llm_replay_options options;
    struct llm_receiver_handlers handlers;
    struct llm_replay *replay;
    int result, ended = 0;

    reading_logs(log);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    llm_replay_options_init(&options);
    options.keys = keys;
    flood_ok(llm_replay_open(directory, &options, &handlers, NULL, NULL, &replay), directory);
    while ((result = llm_replay_next(replay, 1000)) > 0 || result == LLM_EDAMAGED)
        reading.errors += result == LLM_EDAMAGED;
    flood_ok(result, "llm_replay_next");
    flood_ok(llm_replay_close(&replay), "llm_replay_close");
    for (int i = 0; i < reading.count; i++) {
        reading_check(&reading.sessions[i]);
        ended += reading.sessions[i].ended;
    }
    printf("{\"sessions\": %d, \"ended\": %d, \"messages\": %" PRIu64 ", \"acknowledged\": %" PRIu64
           ", \"errors\": %" PRIu64 "}\n",
           reading.count, ended, reading.messages, reading.acknowledged, reading.errors);
    return reading.errors == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "read") == 0)
        return node_read(argv[2], argv[3], flood_text(argc, argv, "--keys"));
    flood_signals();
    if (argc >= 4 && strcmp(argv[1], "store") == 0)
        return node_store(argc, argv);
    if (argc >= 4 && strcmp(argv[1], "send") == 0)
        return node_send(argc, argv);
    fprintf(stderr, "usage: e2e_store_node store CHANNEL DIRECTORY | send CHANNEL LOG | read DIRECTORY LOG "
                    "[OPTION...]\n");
    return 2;
}
