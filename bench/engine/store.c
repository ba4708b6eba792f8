/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store. directory=; channels=CHANNEL,...; level=synced|written|received; engine=auto|uring|thread;
 * segment_mib=, spares=, mib_max=: sizes. It answers once when it is open, with the time that this took, then to requests:
 *   prepared    answers when the spare files are there
 *   first       answers when a session has begun, and a packet of it is recorded
 *   recorded    answers when all sessions have ended, and are recorded
 *   stats       answers at once
 * Each with the counters of the store, which also wait for the level of the store.
 *
 * The role replay reads the directory= of a store from start to end, in each request `replay`, for duration= at
 * least; rate=: messages a second at most; cached=0: each time from the disk, and not from the page cache;
 * session=: only this one. It answers with what was delivered.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llm/llm.h>

#include "machine.h"
#include "steady.h"

#define STORE_HEAR_NS 1000000ull
#define STORE_PATIENCE_NS 60000000000ull
#define STORE_NAP_NS 1000000ull
#define STORE_MIB (1ull << 20)

enum { STORE_REPLAY_PACKETS = 64, STORE_FILES_OPEN = 8 };

static struct {
    struct llm_context *context;
    struct llm_store *store;
    bool sleeps;
    uint64_t spares;
    uint64_t opened_at; /* llm_store_open() was called */
    uint64_t open_ns;   /* and took */
    uint64_t begun_at;  /* of the first session; 0: none */
    uint64_t sessions, ended;
    uint64_t lost;
    uint64_t stopped;
    bool uring;
    bool direct;
} store;

static uint64_t store_counter(const char *name)
{
    uint64_t value = 0;

    (void)llm_context_counter(store.context, name, &value);
    return value;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_SESSION_NEW && store.sessions++ == 0)
        store.begun_at = llm_clock();
    store.ended += event->kind == LLM_EVENT_SESSION_END;
    if (event->kind == LLM_EVENT_GAP)
        store.lost += event->last + 1 - event->first;
    store.stopped += event->kind == LLM_EVENT_STORE_STOPPED;
}

/* The library reports in its log how it writes. */
static void on_log(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    store.uring |= strstr(text, "engine uring") != NULL;
    store.direct &= strstr(text, "no O_DIRECT") == NULL;
    if (level <= LLM_LEVEL_ERROR)
        (void)fprintf(stderr, "%s\n", text);
}

static void store_turn(void)
{
    steady_ok(store.sleeps ? llm_wait(store.context, STORE_NAP_NS) : llm_poll(store.context), "llm_poll");
}

static void store_answer(void)
{
    static const char *const names[] = {
        "store_packets", "store_bytes",          "store_blocks",       "store_block_bytes",    "store_stalls",
        "store_gaps",    "store_segments_begun", "store_write_ns_max", "store_waiting_packets"};

    json_open();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        json_counts(names[i], (uint64_t[]){store_counter(names[i])});
    json_counts(
        "at opened_at open_ns begun_at lost stopped",
        (uint64_t[]){llm_clock(), store.opened_at, store.open_ns, store.begun_at, store.lost, store.stopped});
    json_text("engine", store.uring ? "uring" : "thread");
    json_number("direct", store.direct);
    json_number("rss_mib", machine_resident_mib_max());
    json_close();
}

/* Polls until the condition holds. */
static void store_until(bool (*is_so)(void), const char *what)
{
    const uint64_t until = llm_clock() + STORE_PATIENCE_NS;

    while (!is_so()) {
        if (llm_clock() > until)
            control_fail("store", what);
        store_turn();
    }
    store_answer();
}

static bool store_is_prepared(void)
{
    return store_counter("store_spares") >= store.spares;
}

/* Packets that wait are among those recorded. */
static bool store_has_first(void)
{
    return store.sessions > 0 && store_counter("store_packets") > store_counter("store_waiting_packets");
}

static bool store_is_recorded(void)
{
    return store.sessions > 0 && store.ended >= store.sessions && store_counter("store_sessions") == 0;
}

static void store_prepared(const struct control *request)
{
    (void)request;
    store_until(store_is_prepared, "its spare files are never ready");
}

static void store_first(const struct control *request)
{
    (void)request;
    store_until(store_has_first, "no session is recorded");
}

static void store_recorded(const struct control *request)
{
    (void)request;
    store_until(store_is_recorded, "its sessions do not end");
}

static void store_stats(const struct control *request)
{
    (void)request;
    store_answer();
}

static const struct control_verb store_verbs[] = {{"prepared", store_prepared},
                                                  {"first", store_first},
                                                  {"recorded", store_recorded},
                                                  {"stats", store_stats},
                                                  {NULL, NULL}};

static void store_open(const struct control *control)
{
    struct llm_store_handlers handlers;
    struct llm_store_options options;

    llm_store_options_init(&options);
    options.directory = control_text(control, "directory", "");
    options.level = control_is(control, "level", "written")    ? LLM_STORE_WRITTEN
                    : control_is(control, "level", "received") ? LLM_STORE_RECEIVED
                                                               : LLM_STORE_SYNCED;
    options.engine = control_is(control, "engine", "uring")    ? LLM_STORE_URING
                     : control_is(control, "engine", "thread") ? LLM_STORE_THREAD
                                                               : LLM_STORE_AUTO;
    options.segment_bytes = control_number(control, "segment_mib", 64) * STORE_MIB;
    options.spares = (uint32_t)(store.spares = control_number(control, "spares", 2));
    options.bytes_max = control_number(control, "mib_max", 0) * STORE_MIB;
    llm_store_handlers_init(&handlers);
    handlers.event = on_event;
    store.opened_at = llm_clock();
    steady_ok(llm_store_open(store.context, &options, &handlers, &store.store), "llm_store_open");
    store.open_ns = llm_clock() - store.opened_at;
}

int store_run(const struct control *control)
{
    struct llm_context_options options = steady_options();
    char *channels = strdup(control_text(control, "channels", "")), *rest = channels, *channel;
    uint64_t heard_at = 0;
    struct control request;
    int came = 0;

    store.sleeps = control_is(control, "wait", "block");
    store.direct = true;
    options.wait = store.sleeps ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN;
    options.log_level = LLM_LEVEL_INFO;
    options.log = on_log;
    store.context = steady_open(&options);
    store_open(control);
    while ((channel = strsep(&rest, ",")) != NULL)
        steady_ok(llm_store_follow(store.store, channel, NULL), channel);
    store_answer();
    while (came >= 0) {
        store_turn();
        if (llm_clock() < heard_at + STORE_HEAR_NS)
            continue;
        heard_at = llm_clock();
        came = control_take(&request, 0);
        if (came > 0)
            control_serve(&request, store_verbs);
    }
    steady_ok(llm_store_close(&store.store), "llm_store_close");
    steady_ok(llm_context_close(&store.context), "llm_context_close");
    free(channels);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- replay */

static void on_replayed(void *arg, const struct llm_message *message)
{
    (void)steady_track_message(arg, message);
}

static void on_replay_event(void *arg, const struct llm_event *event)
{
    steady_track_event(arg, event);
}

static const char *replay_directory;
static struct llm_replay_options replay_options;

static int replay_forget_file(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    const int file = kind == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    (void)status;
    (void)place;
    if (file >= 0) {
        (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        (void)close(file);
    }
    return 0;
}

/* Drops the directory from the page cache. */
static void replay_forget(void)
{
    if (nftw(replay_directory, replay_forget_file, STORE_FILES_OPEN, FTW_PHYS) != 0)
        control_fail(replay_directory, strerror(errno));
}

/* Replays once, and adds to the track. */
static void replay_once(uint64_t rate, struct steady_track *track)
{
    struct llm_receiver_handlers handlers;
    struct llm_replay *replay;
    uint64_t due_at = llm_clock();
    int result;

    track->begun = track->ended = false;
    llm_receiver_handlers_init(&handlers);
    handlers.arg = track;
    handlers.message = on_replayed;
    handlers.event = on_replay_event;
    steady_ok(llm_replay_open(replay_directory, &replay_options, &handlers, NULL, NULL, &replay),
              "llm_replay_open");
    while ((result = llm_replay_next(replay, STORE_REPLAY_PACKETS)) > 0) {
        due_at += rate > 0 ? (uint64_t)result * 1000000000 / rate : 0;
        while (rate > 0 && llm_clock() < due_at)
            ;
    }
    steady_ok(result, "llm_replay_next");
    steady_ok(llm_replay_close(&replay), "llm_replay_close");
}

static void replay_serve(const struct control *request)
{
    const uint64_t rate = control_number(request, "rate", 0),
                   until = llm_clock() + control_ns(request, "duration", 0);
    const bool from_disk = control_number(request, "cached", 1) == 0;
    struct steady_track track = {0};
    uint64_t took_ns = 0;

    do {
        uint64_t begun_at;

        if (from_disk)
            replay_forget();
        begun_at = llm_clock();
        replay_once(rate, &track);
        took_ns += llm_clock() - begun_at;
    } while (llm_clock() < until && !control_is_waiting());
    json_open();
    steady_json_track(&track);
    json_number("msgs_per_s", (double)track.received * 1e9 / (double)took_ns);
    json_number("rss_mib", machine_resident_mib_max());
    json_close();
}

static const struct control_verb replay_verbs[] = {{"replay", replay_serve}, {NULL, NULL}};

int replay_run(const struct control *control)
{
    struct control request;

    replay_directory = control_text(control, "directory", "");
    llm_replay_options_init(&replay_options);
    replay_options.session = strtoull(control_text(control, "session", "0"), NULL, 16);
    json_done(NULL, 0);
    while (control_take(&request, CONTROL_FOREVER) > 0)
        control_serve(&request, replay_verbs);
    return 0;
}
