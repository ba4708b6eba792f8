/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "store/store.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/lifecycle.h"
#include "config/options.h"
#include "observe/stats.h"

#define STORE_RETENTION_NS ((lli_ns)1000000000)

/* Interval of checks for a write or a segment that the engine or the pool has no place for. */
#define STORE_RETRY_NS ((lli_ns)1000000)

#define STORE_SEGMENT_MIN ((uint64_t)16 << 20)
#define STORE_SEGMENT_MAX ((uint64_t)64 << 30)

/* -------------------------------------------------------------------------------------------------- events */

static void store_log_event(const struct llm_store *store, const struct llm_event *event)
{
    char text[256];

    (void)llm_event_text(event, text, sizeof text);
    lli_log(&store->context->log,
            event->kind == LLM_EVENT_STORE_STOPPED ? LLM_LEVEL_ERROR
            : event->kind == LLM_EVENT_GAP         ? LLM_LEVEL_WARNING
                                                   : LLM_LEVEL_INFO,
            "%s: %s", store->object, text);
}

void lli_store_report(const struct llm_store *store, const struct llm_event *event)
{
    const bool inside = store->context->in_handler;

    store->context->in_handler = true;
    if (store->handlers.event != NULL)
        store->handlers.event(store->handlers.arg, event);
    else
        store_log_event(store, event);
    store->context->in_handler = inside;
}

static void store_event(void *arg, const struct llm_event *event)
{
    const struct lli_store_channel *channel = arg;

    lli_store_report(channel->store, event);
}

struct lli_recorded *lli_store_recorded(const struct llm_store *store, uint64_t session)
{
    for (uint32_t i = 0; i < store->sessions_used; i++)
        if (store->sessions[i] != NULL && store->sessions[i]->session == session)
            return store->sessions[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- service */

static void store_take_segments(struct llm_store *store)
{
    struct lli_pool_segment segment;

    while (lli_pool_take(store->pool, &segment)) {
        struct lli_recorded *recorded = lli_store_recorded(store, segment.session);

        assert(recorded != NULL && recorded->requested);
        lli_recorded_take(recorded, &segment);
    }
}

void lli_store_take_completions(struct llm_store *store)
{
    struct lli_disk_completion completions[LLI_DISK_WRITES];
    const int count = lli_disk_completed(store->disk, completions, LLI_DISK_WRITES);

    for (int i = 0; i < count; i++) {
        store->slowest = lli_max(store->slowest, completions[i].took);
        lli_recorded_written(store->sessions[completions[i].tag >> 8], completions[i].tag & 0xff,
                             completions[i].error);
    }
}

/* Returns when the next work is due that no descriptor announces. */
static lli_ns store_service(struct llm_store *store, lli_ns now)
{
    lli_ns at = store->retention_at;

    store_take_segments(store);
    lli_store_take_completions(store);
    for (uint32_t i = 0; i < store->sessions_used; i++) {
        struct lli_recorded *recorded = store->sessions[i];

        if (recorded == NULL)
            continue;
        if (!lli_recorded_service(recorded, now))
            lli_recorded_free(recorded);
        else if (recorded->has_write && !recorded->requested)
            at = lli_min(at, now + STORE_RETRY_NS);
    }
    lli_disk_submit(store->disk);
    at = lli_min(at, lli_answering_service(store, now));
    lli_streams_service(store);
    if (now >= store->retention_at) {
        lli_retention_service(store);
        store->retention_at = now + STORE_RETENTION_NS;
    }
    return at;
}

static lli_ns stores_service(struct llm_context *context, lli_ns now)
{
    lli_ns at = LLI_NEVER;

    for (struct llm_store *store = context->stores; store != NULL; store = store->next)
        at = lli_min(at, store_service(store, now));
    return at;
}

static int stores_watch(struct llm_context *context, int (*watch)(struct llm_context *context, int fd))
{
    for (struct llm_store *store = context->stores; store != NULL; store = store->next) {
        int error;

        if (store->watched)
            continue;
        error = watch(context, lli_disk_fd(store->disk));
        if (error == LLM_OK)
            error = watch(context, lli_pool_fd(store->pool));
        if (error != LLM_OK)
            return error;
        store->watched = true;
    }
    return LLM_OK;
}

/* ---------------------------------------------------------------------------------------------- statistics */

static const struct lli_stats_row store_rows[] = {
#define STORE_ROW(name, text) {#name, offsetof(struct lli_store_counters, name)},
    LLI_STORE_COUNTERS(STORE_ROW)};

/* Packets that are not on the disk yet. */
static uint64_t store_waiting(const struct llm_store *store)
{
    uint64_t packets = 0;

    for (uint32_t i = 0; i < store->sessions_used; i++)
        if (store->sessions[i] != NULL && store->sessions[i]->begun)
            packets += store->sessions[i]->recorder.end.packet - store->sessions[i]->recorder.durable.packet;
    return packets;
}

/* Time since everything that was received had been on the disk, of the session for which that is longest. */
static lli_ns store_lag(const struct llm_store *store, lli_ns now)
{
    lli_ns lag = 0;

    for (uint32_t i = 0; i < store->sessions_used; i++)
        if (store->sessions[i] != NULL && !lli_recorded_is_settled(store->sessions[i]))
            lag = lli_max(lag, now - store->sessions[i]->settled_at);
    return lag;
}

/* Spare files, with those that have the name of the segment of a session already. */
static uint64_t store_spares(const struct llm_store *store)
{
    uint64_t spares = lli_pool_spares(store->pool);

    for (uint32_t i = 0; i < store->sessions_used; i++)
        spares += store->sessions[i] != NULL && store->sessions[i]->next.fd >= 0;
    return spares;
}

static const struct lli_stats_row answers_rows[] = {
#define ANSWERS_ROW(name, text) {#name, offsetof(struct lli_answers_counters, name)},
    LLI_ANSWERS_COUNTERS(ANSWERS_ROW)};

static void store_stats(const struct llm_store *store, const struct lli_stats_visitor *to)
{
    struct lli_answers_counters answers;

    lli_answering_stats(store, &answers);
    to->object(to->arg, LLM_STATS_STORE, 0, store->object);
    lli_stats_rows(to, &store->counters, store_rows, (int)(sizeof store_rows / sizeof *store_rows));
    lli_stats_rows(to, &answers, answers_rows, (int)(sizeof answers_rows / sizeof *answers_rows));
    lli_stats_put(to, LLM_STATS_GAUGE, "store_sessions", store->sessions_recorded);
    lli_stats_put(to, LLM_STATS_GAUGE, "store_waiting_packets", store_waiting(store));
    lli_stats_put(to, LLM_STATS_GAUGE, "store_lag_ns", store_lag(store, lli_clock_ns()));
    lli_stats_put(to, LLM_STATS_GAUGE, "store_free_bytes", lli_pool_free_bytes(store->pool));
    lli_stats_put(to, LLM_STATS_GAUGE, "store_spares", store_spares(store));
    lli_stats_put(to, LLM_STATS_GAUGE, "store_write_ns_max", store->slowest);
}

static void stores_stats(const struct llm_context *context, const struct lli_stats_visitor *to)
{
    for (const struct llm_store *store = context->stores; store != NULL; store = store->next)
        store_stats(store, to);
}

/* --------------------------------------------------------------------------------------------------- close */

/* Frees what has no receiver; in a child process, without touching the parent's files. */
static void store_free(struct llm_store *store)
{
    lli_answering_free_all(store);
    for (uint32_t i = 0; i < store->sessions_used; i++)
        if (store->sessions[i] != NULL)
            lli_recorded_free(store->sessions[i]);
    while (store->channels != NULL) {
        struct lli_store_channel *channel = store->channels;

        store->channels = channel->next;
        lli_answering_release(channel);
        free(channel->by_place);
        free(channel);
    }
    lli_disk_close(&store->disk);
    lli_pool_close(&store->pool);
    lli_catalogue_close(&store->catalogue);
    free(store->sessions);
    free(store->directory);
    free(store);
}

static bool store_is_settled(const struct llm_store *store)
{
    for (uint32_t i = 0; i < store->sessions_used; i++)
        if (store->sessions[i] != NULL && !lli_recorded_may_end(store->sessions[i]))
            return false;
    return true;
}

/* Writes what was received. Blocks as long as the disk takes. */
static void store_settle(struct llm_store *store)
{
    while (!store_is_settled(store)) {
        struct pollfd fds[] = {{.fd = lli_disk_fd(store->disk), .events = POLLIN},
                               {.fd = lli_pool_fd(store->pool), .events = POLLIN}};

        (void)store_service(store, lli_clock_ns());
        if (!store_is_settled(store))
            (void)poll(fds, 2, 10);
    }
}

static void store_destroy(struct llm_store *store)
{
    struct llm_context *context = store->context;
    struct llm_store **link = &context->stores;

    store_settle(store);
    /* Acknowledges what has become durable since the last poll. */
    (void)store_service(store, lli_clock_ns());
    while (*link != store)
        link = &(*link)->next;
    *link = store->next;
    for (uint32_t i = 0; i < store->sessions_used; i++) {
        if (store->sessions[i] == NULL)
            continue;
        store->sessions[i]->over = true;
        (void)lli_recorded_service(store->sessions[i], lli_clock_ns());
        lli_recorded_free(store->sessions[i]);
    }
    lli_answering_free_all(store);
    for (struct lli_store_channel *channel = store->channels; channel != NULL; channel = channel->next) {
        const struct lli_endpoint *endpoint = channel->receiver->endpoint;

        lli_answering_close(channel);
        endpoint->transport->leave(endpoint->instance, channel->group, LLI_JOIN_SEND);
        lli_receiver_destroy(channel->receiver);
    }
    store_free(store);
}

static void stores_close(struct llm_context *context)
{
    while (context->stores != NULL)
        store_destroy(context->stores);
}

static void stores_release(struct llm_context *context)
{
    while (context->stores != NULL) {
        struct llm_store *store = context->stores;

        context->stores = store->next;
        store_free(store);
    }
}

static const struct lli_store_calls store_calls = {
    .service = stores_service,
    .watch = stores_watch,
    .close = stores_close,
    .release = stores_release,
    .stats = stores_stats,
};

int llm_store_close(struct llm_store **handle)
{
    struct llm_context *context;
    int error = LLM_OK;

    if (handle == NULL || *handle == NULL)
        return LLM_OK;
    context = (*handle)->context;
    if (!lli_context_enter(context)) {
        *handle = NULL;
        return LLM_OK;
    }
    if (!context->in_handler) {
        store_destroy(*handle);
        *handle = NULL;
    } else {
        error = LLI_REFUSE_IN_HANDLER(context, "llm_store_close");
    }
    lli_context_leave(context);
    return error;
}

/* ---------------------------------------------------------------------------------------------------- open */

void llm_store_options_init(struct llm_store_options *options)
{
    if (options == NULL)
        return;
    *options = (struct llm_store_options){
        .size = sizeof *options,
        .segment_bytes = (uint64_t)256 << 20,
        .spares = 2,
        .reserve_bytes = (uint64_t)1 << 30,
    };
}

void llm_store_handlers_init(struct llm_store_handlers *handlers)
{
    if (handlers == NULL)
        return;
    *handlers = (struct llm_store_handlers){.size = sizeof *handlers};
}

/* Refuses a value that is out of its range. */
static int store_option(const struct llm_context *context, const char *name, uint64_t value,
                        const char *range)
{
    return lli_fail(&context->log, LLM_EOPTION, "store: %s is %llu: it has to be %s", name,
                    (unsigned long long)value, range);
}

static int store_check(const struct llm_context *context, const struct llm_store_options *options)
{
    if (options->directory == NULL || options->directory[0] == '\0')
        return lli_fail(&context->log, LLM_EINVAL, "store: directory is %s: name the directory of the store",
                        options->directory == NULL ? "NULL" : "empty");
    if ((unsigned)options->level > LLM_STORE_RECEIVED)
        return store_option(context, "level", options->level, "an enumerator of llm_store_level");
    if ((unsigned)options->engine > LLM_STORE_THREAD)
        return store_option(context, "engine", options->engine, "an enumerator of llm_store_engine");
    if ((unsigned)options->full > LLM_STORE_OLDEST)
        return store_option(context, "full", options->full, "an enumerator of llm_store_full");
    if (options->segment_bytes < STORE_SEGMENT_MIN || options->segment_bytes > STORE_SEGMENT_MAX ||
        options->segment_bytes % LLI_BLOCK_ALIGN != 0)
        return store_option(context, "segment_bytes", options->segment_bytes,
                            "a multiple of 4096 from 16 MiB to 64 GiB");
    if (options->spares > LLI_POOL_SPARES_MAX)
        return store_option(context, "spares", options->spares, "64 at most");
    if (options->bytes_max > 0 && options->bytes_max < 2 * options->segment_bytes)
        return store_option(context, "bytes_max", options->bytes_max, "at least two segments, or 0");
    return LLM_OK;
}

/* Opens what is on the disk. On failure the caller frees what is open. */
static int store_open_disk(struct llm_store *store)
{
    const struct llm_store_options *options = &store->options;
    const struct lli_log *log = &store->context->log;
    const struct lli_pool_config config = {.directory = store->directory,
                                           .segment_bytes = options->segment_bytes,
                                           .spares = options->spares,
                                           .reserve_bytes = options->reserve_bytes};
    int error = lli_pool_open(&config, log, &store->pool);

    if (error == LLM_OK)
        error = lli_catalogue_open(store->directory, log, &store->catalogue);
    /* Files that a process which was killed had ready; of very many, the rest is taken back at the next start. */
    for (uint32_t i = 0; error == LLM_OK && i < store->catalogue->ready_count; i++)
        (void)lli_pool_retire(store->pool, store->catalogue->ready[i].session,
                              store->catalogue->ready[i].ordinal, true);
    if (error == LLM_OK)
        error = lli_disk_open((enum lli_disk_engine)options->engine, options->level == LLM_STORE_SYNCED, log,
                              &store->disk);
    /* Of a process that is killed, the engine has the lock until its writes have ended. */
    if (error == LLM_OK && lli_disk_file_add(store->disk, lli_pool_lock(store->pool)) < 0)
        error = LLM_ELIMIT;
    return error;
}

static int store_open(struct llm_context *context, const struct llm_store_options *user,
                      const struct llm_store_handlers *handlers, struct llm_store **result)
{
    struct llm_store *store = calloc(1, sizeof *store);
    int error;

    if (store == NULL)
        return lli_fail(&context->log, LLM_ENOMEM, "no memory for a store");
    store->context = context;
    llm_store_options_init(&store->options);
    llm_store_handlers_init(&store->handlers);
    error = lli_options_import(&store->options, sizeof store->options, user, "struct llm_store_options",
                               &context->log);
    if (error == LLM_OK && handlers != NULL)
        error = lli_options_import(&store->handlers, sizeof store->handlers, handlers,
                                   "struct llm_store_handlers", &context->log);
    if (error == LLM_OK)
        error = store_check(context, &store->options);
    if (error != LLM_OK) {
        free(store);
        return error;
    }
    (void)snprintf(store->object, sizeof store->object, "store %.230s", store->options.directory);
    store->key = (struct lli_token_key){{lli_entropy(), lli_entropy()}};
    lli_answers_unconfirmed(&store->unconfirmed, lli_clock_ns());
    lli_streams_lookups(&store->lookups, lli_clock_ns());
    store->directory = strdup(store->options.directory);
    store->options.directory = store->directory;
    store->sessions = calloc(LLI_STORE_SESSIONS_MAX, sizeof *store->sessions);
    error = store->directory == NULL || store->sessions == NULL
                ? lli_fail(&context->log, LLM_ENOMEM, "no memory for a store")
                : store_open_disk(store);
    if (error != LLM_OK) {
        store_free(store);
        return error;
    }
    store->next = context->stores;
    context->stores = store;
    context->store_calls = &store_calls;
    context->watch_at = context->stores_at = 0;
    *result = store;
    return LLM_OK;
}

int llm_store_open(struct llm_context *context, const struct llm_store_options *options,
                   const struct llm_store_handlers *handlers, struct llm_store **store)
{
    int error;

    if (context == NULL)
        return LLM_EINVAL;
    if (options == NULL || store == NULL)
        return lli_refuse(context, LLM_EINVAL, "llm_store_open: %s is NULL: it has to be given",
                          options == NULL ? "options" : "store");
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    if (!context->in_handler)
        error = store_open(context, options, handlers, store);
    else
        error = LLI_REFUSE_IN_HANDLER(context, "llm_store_open");
    lli_context_leave(context);
    return error;
}

/* -------------------------------------------------------------------------------------------------- follow */

/* Options that a store sets itself are refused where they are set otherwise. */
static int store_check_channel(const struct llm_store *store, const char *text,
                               const struct llm_options *options)
{
    const struct lli_log *log = &store->context->log;

    if (options->join != LLM_JOIN_LIVE && options->join != LLM_JOIN_OLDEST)
        return lli_fail(log, LLM_EOPTION,
                        "%s: channel \"%s\": join does not apply: a store begins with the oldest packet",
                        store->object, text);
    if (options->order != LLM_ORDER_SEQUENCE)
        return lli_fail(
            log, LLM_EOPTION,
            "%s: channel \"%s\": order=arrival does not apply: a store records packets in sequence",
            store->object, text);
    if (options->acknowledge != LLM_ACKNOWLEDGE_LIBRARY)
        return lli_fail(log, LLM_EOPTION,
                        "%s: channel \"%s\": acknowledge does not apply: set the level of the store",
                        store->object, text);
    return LLM_OK;
}

/* Joins the group to send answers to all of it. */
static int store_join(struct lli_store_channel *channel, const struct lli_channel *parsed)
{
    const struct lli_endpoint *endpoint = channel->receiver->endpoint;
    struct lli_group group, second;
    int error;

    lli_channel_group(parsed, &group, &second);
    group.shared = second.shared = true;
    error = endpoint->transport->join(endpoint->instance, &group, LLI_JOIN_SEND, &channel->group);
    if (error != LLM_OK)
        return error;
    error = lli_answering_open(channel);
    if (error != LLM_OK)
        endpoint->transport->leave(endpoint->instance, channel->group, LLI_JOIN_SEND);
    return error;
}

/* Opens the receiver of a channel, with everything that it needs. */
static int store_follow_channel(struct lli_store_channel *channel, const struct llm_options *user,
                                const struct lli_channel *parsed)
{
    struct llm_store *store = channel->store;
    struct llm_receiver_handlers handlers;
    int error;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = channel;
    handlers.event = store_event;
    error = lli_receiver_open(store->context, channel->text, user, &handlers, &lli_recorded_tap, channel,
                              &channel->receiver);
    if (error != LLM_OK)
        return error;
    channel->by_place = calloc(channel->receiver->sessions_max, sizeof(*channel->by_place));
    error = channel->by_place == NULL
                ? lli_fail(&store->context->log, LLM_ENOMEM, "%s: no memory for sessions", store->object)
                : store_join(channel, parsed);
    if (error != LLM_OK) {
        lli_receiver_destroy(channel->receiver);
        free(channel->by_place);
    }
    return error;
}

static int store_follow(struct llm_store *store, const char *text, const struct llm_options *user)
{
    struct lli_store_channel *channel;
    struct lli_channel parsed;
    int error =
        strlen(text) > LLI_SEGMENT_CHANNEL_MAX
            ? lli_fail(&store->context->log, LLM_EINVAL, "%s: channel \"%.80s...\" has more than %d bytes",
                       store->object, text, LLI_SEGMENT_CHANNEL_MAX)
            : lli_context_channel(store->context, text, user, &parsed);

    if (error == LLM_OK)
        error = store_check_channel(store, text, &parsed.options);
    if (error == LLM_OK && parsed.options.keys[0] != '\0')
        error = lli_catalogue_add_keys(store->catalogue, parsed.options.keys);
    if (error != LLM_OK)
        return error;
    channel = calloc(1, sizeof *channel);
    if (channel == NULL)
        return lli_fail(&store->context->log, LLM_ENOMEM, "%s: no memory for a channel", store->object);
    channel->store = store;
    (void)snprintf(channel->text, sizeof channel->text, "%s", text);
    error = store_follow_channel(channel, user, &parsed);
    if (error != LLM_OK) {
        free(channel);
        return error;
    }
    channel->receiver->join = (struct llm_join){.mode = LLM_JOIN_OLDEST};
    channel->receiver->config.application_acknowledges = true;
    channel->next = store->channels;
    store->channels = channel;
    return LLM_OK;
}

int llm_store_follow(struct llm_store *store, const char *channel, const struct llm_options *options)
{
    int error;

    if (store == NULL)
        return LLM_EINVAL;
    if (channel == NULL)
        return lli_refuse(store->context, LLM_EINVAL,
                          "llm_store_follow: channel is NULL: it has to be given");
    if (!lli_context_enter(store->context))
        return LLM_ESTATE;
    if (!store->context->in_handler)
        error = store_follow(store, channel, options);
    else
        error = LLI_REFUSE_IN_HANDLER(store->context, "llm_store_follow");
    lli_context_leave(store->context);
    return error;
}
