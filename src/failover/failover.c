/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/failover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/lifecycle.h"
#include "config/options.h"
#include "core/stream/stream.h"
#include "observe/stats.h"

enum { FAILOVER_BEATS_MIN = 4, FAILOVER_MESSAGES_BYTES = 32 };

#define FAILOVER_BEAT_MIN ((lli_ns)100000)
#define FAILOVER_DETECT_MAX ((lli_ns)60000000000)
#define FAILOVER_TAIL_MIN ((uint64_t)4096)
#define FAILOVER_TAIL_MAX ((uint64_t)1 << 30)

/* ------------------------------------------------------------------------------------------------- service */

/* A member that follows a stream and has not its state is no candidate. One that follows none may begin it. */
static bool failover_stands(const struct llm_failover *failover)
{
    return failover->options.kind == LLM_MEMBER_CANDIDATE &&
           (failover->restored || failover->election.position.followed == 0);
}

static lli_ns failover_service(struct llm_failover *failover, lli_ns now)
{
    lli_ns at;

    failover->election.config.stands = failover_stands(failover);
    lli_failover_expire(failover, now);
    lli_failover_send(failover, now);
    lli_failover_lead(failover, now);
    at = lli_failover_fetch(failover, now);
    lli_failover_snapshot_service(failover, now);
    at = lli_min(at, lli_failover_catch_up_service(failover, now));
    lli_failover_report(failover);
    return lli_min(at, lli_election_deadline(&failover->election));
}

static lli_ns failovers_service(struct llm_context *context, lli_ns now)
{
    lli_ns at = LLI_NEVER;

    for (struct llm_failover *failover = context->failovers; failover != NULL; failover = failover->next)
        at = lli_min(at, failover_service(failover, now));
    return at;
}

static void failovers_expire(struct llm_context *context, lli_ns now)
{
    for (struct llm_failover *failover = context->failovers; failover != NULL; failover = failover->next)
        lli_failover_expire(failover, now);
}

static const struct lli_stats_row failover_rows[] = {
#define FAILOVER_ROW(name, text) {#name, offsetof(struct lli_failover_counters, name)},
    LLI_FAILOVER_COUNTERS(FAILOVER_ROW)};

static void failovers_stats(const struct llm_context *context, const struct lli_stats_visitor *to)
{
    for (const struct llm_failover *failover = context->failovers; failover != NULL;
         failover = failover->next) {
        to->object(to->arg, LLM_STATS_FAILOVER, 0, failover->object);
        lli_stats_rows(to, &failover->counters, failover_rows,
                       (int)(sizeof failover_rows / sizeof *failover_rows));
        lli_stats_put(to, LLM_STATS_GAUGE, "failover_role", failover->role);
        lli_stats_put(to, LLM_STATS_GAUGE, "failover_term", failover->election.highest);
        lli_stats_put(to, LLM_STATS_GAUGE, "failover_waiting",
                      failover->tail.next - lli_min(failover->due, failover->tail.next));
        lli_stats_put(to, LLM_STATS_GAUGE, "failover_remembers", failover->election.remembers);
    }
}

/* --------------------------------------------------------------------------------------------------- close */

/* Frees what has no endpoint. */
static void failover_free(struct llm_failover *failover)
{
    free(failover->memory);
    free(failover->waiting);
    free(failover->delivery);
    lli_failover_snapshot_free(failover);
    lli_failover_catch_up_close(failover);
    free(failover->assembly);
    free(failover->topics);
    free(failover);
}

/* Ends the session of a primary. Without the lease nothing is sent any more, not the end either. */
static void failover_close_transmitter(struct llm_failover *failover)
{
    struct llm_transmitter *transmitter = failover->transmitter;

    if (transmitter == NULL)
        return;
    if (!transmitter->fenced && lli_election_holds(&failover->election, lli_clock_ns())) {
        (void)llm_transmitter_close(&transmitter);
        return;
    }
    lli_failover_stop(failover);
    lli_transmitter_discard(transmitter);
}

static void failover_destroy(struct llm_failover *failover)
{
    struct llm_failover **link = &failover->context->failovers;

    while (*link != failover)
        link = &(*link)->next;
    *link = failover->next;
    lli_failover_snapshot_close(failover);
    failover_close_transmitter(failover);
    lli_receiver_destroy(failover->receiver);
    failover_free(failover);
}

static void failovers_close(struct llm_context *context)
{
    while (context->failovers != NULL)
        failover_destroy(context->failovers);
}

/* In a child process: the receiver and a primary's transmitter are freed with their endpoints. */
static void failovers_release(struct llm_context *context)
{
    while (context->failovers != NULL) {
        struct llm_failover *failover = context->failovers;

        context->failovers = failover->next;
        if (failover->transmitter != NULL && !failover->linked)
            lli_transmitter_free(failover->transmitter);
        failover_free(failover);
    }
}

static const struct lli_failover_calls failover_calls = {
    .expire = failovers_expire,
    .service = failovers_service,
    .close = failovers_close,
    .release = failovers_release,
    .stats = failovers_stats,
};

int llm_failover_close(struct llm_failover **handle)
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
        failover_destroy(*handle);
        *handle = NULL;
    } else {
        error = LLI_REFUSE_IN_HANDLER(context, "llm_failover_close");
    }
    lli_context_leave(context);
    return error;
}

/* ---------------------------------------------------------------------------------------------------- open */

void llm_failover_options_init(struct llm_failover_options *options)
{
    if (options == NULL)
        return;
    *options = (struct llm_failover_options){
        .size = sizeof *options,
        .beat_ns = 1000000,
        .detect_ns = 10000000,
        .tail_bytes = (uint64_t)256 << 10,
    };
}

void llm_failover_handlers_init(struct llm_failover_handlers *handlers)
{
    if (handlers == NULL)
        return;
    *handlers = (struct llm_failover_handlers){.size = sizeof *handlers};
}

static int failover_option(const struct llm_context *context, const char *name, uint64_t value,
                           const char *range)
{
    return lli_fail(&context->log, LLM_EOPTION, "failover: %s is %llu: it has to be %s", name,
                    (unsigned long long)value, range);
}

static int failover_check(const struct llm_context *context, const struct llm_failover_options *options)
{
    if ((unsigned)options->kind > LLM_MEMBER_RECEIVER)
        return failover_option(context, "kind", options->kind, "an enumerator of llm_member_kind");
    if ((unsigned)options->commit > LLM_COMMIT_BACKUP)
        return failover_option(context, "commit", options->commit, "an enumerator of llm_commit");
    if (options->voters < LLI_ELECTION_VOTERS_MIN || options->voters > LLI_ELECTION_VOTERS_MAX)
        return failover_option(
            context, "voters", options->voters,
            "3 to 15: of fewer than 3 the death of one leaves no majority; add a backup, or a "
            "member of kind LLM_MEMBER_VOTER");
    if (options->kind != LLM_MEMBER_RECEIVER && options->member >= options->voters)
        return failover_option(context, "member", options->member, "less than voters, another one for each");
    if (options->beat_ns < FAILOVER_BEAT_MIN)
        return failover_option(context, "beat_ns", options->beat_ns, "100000 at least");
    if (options->detect_ns < FAILOVER_BEATS_MIN * options->beat_ns ||
        options->detect_ns > FAILOVER_DETECT_MAX)
        return failover_option(context, "detect_ns", options->detect_ns, "4 beats to 60 s");
    if (options->tail_bytes < FAILOVER_TAIL_MIN || options->tail_bytes > FAILOVER_TAIL_MAX)
        return failover_option(context, "tail_bytes", options->tail_bytes, "4096 to 2^30");
    return LLM_OK;
}

static int failover_allocate(struct llm_failover *failover)
{
    const uint64_t bytes = failover->options.tail_bytes;
    const bool waits = failover->options.commit == LLM_COMMIT_BACKUP ||
                       failover->options.snapshot_channel != NULL ||
                       failover->options.store_directory != NULL;
    const uint32_t count = (uint32_t)(bytes / FAILOVER_MESSAGES_BYTES);
    struct lli_arena arena = {.memory = NULL};

    lli_tail_init(&failover->tail, bytes, count, &arena);
    failover->memory = aligned_alloc(64, lli_round_up(arena.used, 64));
    failover->waiting = malloc(bytes);
    failover->assembly = malloc(bytes);
    failover->topics = calloc(LLI_FAILOVER_TOPICS, sizeof *failover->topics);
    failover->delivery = waits ? malloc(bytes) : NULL;
    if (failover->memory == NULL || failover->waiting == NULL || failover->assembly == NULL ||
        failover->topics == NULL || (failover->delivery == NULL && waits))
        return lli_fail(&failover->context->log, LLM_ENOMEM, "no memory for a member of a failover group");
    arena = (struct lli_arena){.memory = failover->memory};
    lli_tail_init(&failover->tail, bytes, count, &arena);
    return LLM_OK;
}

/*
 * A young session is followed from its first message. One that was first heard later, as this process did not run, is
 * joined with the message that this member lacks.
 */
static bool failover_begins(void *arg, struct lli_rx *rx, lli_ns now)
{
    const struct llm_failover *failover = arg;
    const struct lli_wire_heartbeat *heartbeat = &rx->heartbeat;
    struct llm_join join = {.mode = LLM_JOIN_NUMBER};

    if (!failover->joined || heartbeat->stream != failover->stream ||
        heartbeat->flags & LLI_WIRE_HEARTBEAT_YOUNG)
        return false;
    if (failover->tail.next > heartbeat->base)
        join.value = failover->tail.next - heartbeat->base;
    lli_rx_begin(rx, &join, now);
    return true;
}

static void failover_tap_event(void *arg, struct lli_rx *rx, const struct llm_event *event)
{
    (void)arg;
    (void)rx;
    (void)event;
}

static const struct lli_tap failover_tap = {
    .begin = failover_begins, .request = lli_failover_request, .event = failover_tap_event};

/* The session of this member's own transmitter is not followed. */
static bool failover_accepts(void *arg, const struct llm_source *source)
{
    const struct llm_failover *failover = arg;

    return failover->transmitter == NULL || source->session != failover->transmitter->tx.config.session;
}

static void failover_elect(struct llm_failover *failover)
{
    const struct llm_failover_options *options = &failover->options;
    const bool votes = options->kind != LLM_MEMBER_RECEIVER;
    const struct lli_election_config config = {
        .voters = options->voters,
        .member = votes ? options->member : options->voters,
        .commits = options->commit == LLM_COMMIT_BACKUP,
        .identity = lli_entropy() | 1,
        .seed = lli_entropy(),
        .beat = options->beat_ns,
        /* Clocks may differ by a tenth. */
        .lease = options->detect_ns - options->detect_ns / 5,
        .detect = options->detect_ns,
        .survey = 2 * options->beat_ns,
    };

    lli_election_init(&failover->election, &config, lli_clock_ns());
}

static int failover_open_sessions(struct llm_failover *failover, const char *channel,
                                  const struct llm_options *options)
{
    struct llm_context *context = failover->context;
    struct llm_receiver_handlers handlers;
    int error = LLM_OK;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = failover;
    handlers.message = lli_failover_message;
    handlers.event = lli_failover_event;
    handlers.accept = failover_accepts;
    if (failover->options.kind == LLM_MEMBER_CANDIDATE)
        error = lli_transmitter_prepare(context, channel, options, &failover->transmitter);
    /* Messages wait in the tail, so it has to have room for each. */
    if (failover->transmitter != NULL && failover->delivery != NULL)
        lli_transmitter_limit(failover->transmitter, failover->options.tail_bytes);
    if (error == LLM_OK)
        error = lli_receiver_open(context, channel, options, &handlers, &failover_tap, failover,
                                  &failover->receiver);
    if (error == LLM_OK)
        failover->receiver->config.chooses = true;
    else if (failover->transmitter != NULL)
        lli_transmitter_discard(failover->transmitter);
    return error;
}

static int failover_open(struct llm_failover *failover, const char *channel,
                         const struct llm_options *options)
{
    struct llm_context *context = failover->context;
    struct lli_channel parsed;
    int error = lli_context_channel(context, channel, options, &parsed);

    if (error != LLM_OK)
        return error;
    if (parsed.options.stream[0] == '\0')
        return lli_fail(
            &context->log, LLM_EOPTION,
            "failover: channel \"%s\": option stream is empty: name the stream, as all members do", channel);
    if (parsed.options.join != LLM_JOIN_LIVE || parsed.options.order != LLM_ORDER_SEQUENCE)
        return lli_fail(&context->log, LLM_EOPTION,
                        "failover: channel \"%s\": join and order do not apply to members: leave them out",
                        channel);
    if (parsed.options.stream_merge != 0)
        return lli_fail(
            &context->log, LLM_EOPTION,
            "failover: channel \"%s\": stream_merge is 1: members send one at a time: leave it out", channel);
    failover->stream = lli_stream_id(parsed.options.stream);
    (void)snprintf(failover->object, sizeof failover->object, "failover %.230s", channel);
    error = failover_allocate(failover);
    if (error != LLM_OK)
        return error;
    failover_elect(failover);
    error = lli_failover_snapshot_open(failover);
    if (error == LLM_OK)
        error = lli_failover_catch_up_open(failover, parsed.options.keys);
    if (error == LLM_OK)
        error = failover_open_sessions(failover, channel, options);
    if (error != LLM_OK) {
        lli_failover_snapshot_close(failover);
        return error;
    }
    if (failover->transmitter != NULL)
        failover->transmitter->failover = failover;
    failover->next = context->failovers;
    context->failovers = failover;
    context->failover_calls = &failover_calls;
    context->watch_at = context->stores_at = 0;
    return LLM_OK;
}

static int failover_new(struct llm_context *context, const char *channel, const struct llm_options *options,
                        const struct llm_failover_options *user, const struct llm_failover_handlers *handlers,
                        struct llm_failover **result)
{
    struct llm_failover *failover = calloc(1, sizeof *failover);
    int error;

    if (failover == NULL)
        return lli_fail(&context->log, LLM_ENOMEM, "no memory for a member of a failover group");
    failover->context = context;
    llm_failover_options_init(&failover->options);
    llm_failover_handlers_init(&failover->handlers);
    error = lli_options_import(&failover->options, sizeof failover->options, user,
                               "struct llm_failover_options", &context->log);
    if (error == LLM_OK)
        error = lli_options_import(&failover->handlers, sizeof failover->handlers, handlers,
                                   "struct llm_failover_handlers", &context->log);
    if (error == LLM_OK)
        error = failover_check(context, &failover->options);
    if (error == LLM_OK)
        error = failover_open(failover, channel, options);
    if (error != LLM_OK) {
        failover_free(failover);
        return error;
    }
    *result = failover;
    return LLM_OK;
}

int llm_failover_open(struct llm_context *context, const char *channel, const struct llm_options *options,
                      const struct llm_failover_options *failover,
                      const struct llm_failover_handlers *handlers, struct llm_failover **result)
{
    int error;

    if (context == NULL)
        return LLM_EINVAL;
    if (channel == NULL || failover == NULL || handlers == NULL || result == NULL)
        return lli_refuse(context, LLM_EINVAL, "llm_failover_open: %s is NULL: it has to be given",
                          channel == NULL    ? "channel"
                          : failover == NULL ? "failover"
                          : handlers == NULL ? "handlers"
                                             : "result");
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    if (!context->in_handler)
        error = failover_new(context, channel, options, failover, handlers, result);
    else
        error = LLI_REFUSE_IN_HANDLER(context, "llm_failover_open");
    lli_context_leave(context);
    return error;
}

/* ------------------------------------------------------------------------------------------------- getters */

enum llm_role llm_failover_role(const struct llm_failover *failover)
{
    return failover == NULL ? LLM_ROLE_BACKUP : failover->role;
}

enum llm_fence llm_failover_fence(const struct llm_failover *failover)
{
    return failover == NULL ? LLM_FENCE_NONE : (enum llm_fence)failover->election.fence;
}

uint64_t llm_failover_committed(const struct llm_failover *failover)
{
    uint64_t number;

    if (failover == NULL)
        return 0;
    if (!lli_context_enter(failover->context))
        return failover->due;
    number = lli_failover_number(failover);
    if (failover->options.commit == LLM_COMMIT_BACKUP)
        number = lli_min(number, failover->election.committed);
    lli_context_leave(failover->context);
    return number;
}

uint64_t llm_failover_next(const struct llm_failover *failover)
{
    uint64_t number;

    if (failover == NULL)
        return 0;
    if (!lli_context_enter(failover->context))
        return lli_failover_number(failover);
    number = lli_failover_number(failover);
    lli_context_leave(failover->context);
    return number;
}
