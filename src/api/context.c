/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: open, lock (while a loop thread runs), poll and sleep. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/lifecycle.h"
#include "engine/objects.h"
#include "config/options.h"
#include "observe/stats_file.h"
#include "observe/watch.h"

/* SO_BUSY_POLL of LLM_WAIT_BUSY_POLL where the channel does not set it. */
enum { CONTEXT_BUSY_POLL_US = 50 };

enum { CONTEXT_STATS_NS = 100000000, CONTEXT_STATS_MODE = 0640 };

/* Longest sleep of a thread beside a loop thread: the loop thread's progress does not wake it. */
#define CONTEXT_BESIDE ((lli_ns)1000000)

/* ------------------------------------------------------------------------------------- open and close */

void llm_context_options_init(struct llm_context_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    options->log_level = LLM_LEVEL_WARNING;
    options->wait = LLM_WAIT_SPIN;
    options->numa_node = -1;
    options->huge_pages = true;
    options->stats_ns = CONTEXT_STATS_NS;
    options->stats_mode = CONTEXT_STATS_MODE;
}

static int context_watch(struct llm_context *context, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST)
        return LLM_OK;
    return lli_fail(&context->log, LLM_ESYSTEM, "epoll_ctl: %s", strerror(errno));
}

static void context_stats(struct llm_context *context, lli_ns now)
{
    lli_stats_file_write(context->stats, context);
    context->stats_at = now + context->stats->interval;
    context->watch_at = lli_min(context->stats_at, context->connections_at);
}

static void context_serve_members(struct llm_context *context, lli_ns now)
{
    const lli_ns at = context->failover_calls->service(context, now);

    context->stores_at = context->stores == NULL ? at : lli_min(context->stores_at, at);
}

/*
 * Periodic work of a poll. The latency monitor's last level and the watch measure every poll, and stores look
 * for writes that ended.
 */
static LLI_OUT_OF_LINE void context_watch_all(struct llm_context *context, lli_ns now)
{
    if (context->watch.interval != 0)
        lli_watch_polled(context, now);
    if (context->latency != NULL && context->latency->level >= LLM_LATENCY_STAGES)
        lli_latency_polled(context->latency, now);
    if (now >= context->connections_at)
        context->upcalls->service(context, now);
    if (context->store_calls != NULL)
        context->stores_at = context->store_calls->service(context, now);
    if (context->failover_calls != NULL)
        context_serve_members(context, now);
    if (now >= context->stats_at)
        context_stats(context, now);
    context->watch_at = lli_min(context->stats_at, context->connections_at);
    if (context->watch.interval != 0 || context->stores != NULL || context->failovers != NULL ||
        (context->latency != NULL && context->latency->level >= LLM_LATENCY_STAGES))
        context->watch_at = 0;
}

int llm_context_open(const struct llm_context_options *user, struct llm_context **result)
{
    struct llm_context_options options;
    struct lli_log log = {.level = LLM_LEVEL_WARNING};
    struct llm_context *context;
    int error;

    /* The log has the same offset in all versions of the structure, so it can report a wrong size, too. */
    if (user != NULL)
        log = (struct lli_log){user->log, user->log_arg, user->log_level};
    if (result == NULL)
        return lli_fail(&log, LLM_EINVAL,
                        "llm_context_open: context is NULL: give the address of a struct llm_context *");
    llm_context_options_init(&options);
    if (user != NULL) {
        error = lli_options_import(&options, sizeof options, user, "struct llm_context_options", &log);
        if (error != LLM_OK)
            return error;
    }
    if (options.wait > LLM_WAIT_BUSY_POLL || options.log_level > LLM_LEVEL_DEBUG ||
        options.latency > LLM_LATENCY_STAGES)
        return lli_fail(&log, LLM_EINVAL,
                        "context: wait is %d, log_level %d and latency %d: use the enumerators of llm.h",
                        (int)options.wait, (int)options.log_level, (int)options.latency);
    context = calloc(1, sizeof *context);
    if (context == NULL)
        return lli_fail(&log, LLM_ENOMEM, "no memory for a context");
    lli_fork_watch(context);
    context->log = log;
    context->options = options;
    context->options.stats_directory = context->options.stats_name = NULL;
    context->stats_at = context->watch_at = context->connections_at = context->stores_at = LLI_NEVER;
    context->moment = LLI_TICKS_MOMENT;
    context->time_ticks = lli_ticks() - context->moment;
    context->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    context->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (context->epoll_fd < 0 || context->wake_fd < 0)
        error = lli_fail(&log, LLM_ESYSTEM, "epoll or eventfd: %s", strerror(errno));
    else
        error = context_watch(context, context->wake_fd);
    if (error == LLM_OK)
        error = lli_latency_open(context, options.latency);
    if (error == LLM_OK)
        error = lli_stats_file_open(&context->stats, &options, &context->log);
    if (error == LLM_OK)
        error = lli_watch_open(context, &options);
    if (error == LLM_OK && context->stats != NULL)
        context_stats(context, lli_clock_ns());
    /* The watch and the monitor's last level measure every poll; the monitor also times the watch. */
    if (error == LLM_OK && (options.latency == LLM_LATENCY_STAGES || context->watch.interval != 0))
        context->watch_at = 0;
    if (error == LLM_OK && options.latency == LLM_LATENCY_STAGES)
        context->moment = 0;
    if (error != LLM_OK) {
        (void)llm_context_close(&context);
        return error;
    }
    *result = context;
    return LLM_OK;
}

/* Closes a context in a child process. A handler that has not returned still needs it. */
static int context_close_orphaned(struct llm_context **handle)
{
    if ((*handle)->in_handler)
        return LLM_ESTATE;
    lli_fork_release(*handle);
    *handle = NULL;
    return LLM_OK;
}

int llm_context_close(struct llm_context **handle)
{
    struct llm_context *context;

    if (handle == NULL || *handle == NULL)
        return LLM_OK;
    context = *handle;
    if (context->orphaned)
        return context_close_orphaned(handle);
    if (lli_context_is_inside(context))
        return LLI_REFUSE_IN_HANDLER(context, "llm_context_close");
    if (atomic_load(&context->running) && llm_context_stop_thread(context) != LLM_OK)
        return LLM_ESTATE;
    if (context->upcalls != NULL)
        context->upcalls->close(context);
    if (context->failover_calls != NULL)
        context->failover_calls->close(context);
    if (context->store_calls != NULL)
        context->store_calls->close(context);
    /* Closing the last user of an endpoint closes the endpoint. */
    while (context->endpoints != NULL && !context->orphaned) {
        struct lli_endpoint *endpoint = context->endpoints;
        struct llm_transmitter *transmitter = endpoint->transmitters;

        if (transmitter != NULL)
            (void)llm_transmitter_close(&transmitter);
        else
            lli_receiver_destroy(endpoint->receivers);
    }
    /* A handler that ran meanwhile forked, and returned here in the child. */
    if (context->orphaned)
        return context_close_orphaned(handle);
    lli_fork_unwatch(context);
    lli_stats_file_close(&context->stats);
    lli_context_free(context);
    *handle = NULL;
    return LLM_OK;
}

void lli_context_free(struct llm_context *context)
{
    free(context->latency);
    if (context->epoll_fd >= 0)
        close(context->epoll_fd);
    if (context->wake_fd >= 0)
        close(context->wake_fd);
    free(context);
}

int lli_context_channel(struct llm_context *context, const char *text, const struct llm_options *options,
                        struct lli_channel *channel)
{
    int error = lli_channel_parse(channel, text, options, &context->log);

    if (error == LLM_OK && context->options.keys_required && channel->options.keys[0] == '\0')
        return lli_fail(
            &context->log, LLM_EOPTION,
            "channel \"%s\": it is without the option keys, which keys_required of the context demands: add "
            "keys=FILE, a file of llm-key",
            text);
    if (error == LLM_OK && context->options.wait == LLM_WAIT_BUSY_POLL) {
        struct llm_options *const lines[] = {&channel->options, &channel->second.options};

        for (int i = 0; i < 2; i++)
            if (lines[i]->busy_poll_us == 0)
                lines[i]->busy_poll_us = CONTEXT_BUSY_POLL_US;
    }
    return error;
}

/* ------------------------------------------------------------------------------------------------ poll */

static LLI_OUT_OF_LINE void context_expire(struct llm_context *context)
{
    context->failover_calls->expire(context, lli_context_time(context, lli_ticks()));
}

int lli_context_poll(struct llm_context *context)
{
    lli_ns now;

    /* Before anything is sent. */
    if (context->failover_calls != NULL)
        context_expire(context);
    now = lli_context_time(context, lli_ticks());
    context->polled_at = now;
    context->delivered = 0;
    for (struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next)
        lli_endpoint_poll(endpoint, now);
    if (context->dirty)
        lli_endpoint_send_dirty(context, true);
    if (now >= context->watch_at)
        context_watch_all(context, now);
    return context->delivered;
}

int llm_poll(struct llm_context *context)
{
    int delivered;

    if (context == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    if (!context->in_handler)
        delivered = lli_context_poll(context);
    else
        delivered = LLI_REFUSE_IN_HANDLER(context, "llm_poll");
    lli_context_leave(context);
    return delivered;
}

uint64_t llm_context_deadline(const struct llm_context *context)
{
    lli_ns at;

    if (context == NULL)
        return LLI_NEVER;
    if (!lli_context_enter((struct llm_context *)(uintptr_t)context))
        return LLI_NEVER;
    at = lli_endpoint_deadline(context);
    lli_context_leave((struct llm_context *)(uintptr_t)context);
    return at;
}

/* ----------------------------------------------------------------------------------------------- sleep */

static int context_arm(struct llm_context *context)
{
    if (context->store_calls != NULL) {
        int error = context->store_calls->watch(context, context_watch);

        if (error != LLM_OK)
            return error;
    }
    for (struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next) {
        int fd = endpoint->transport->arm(endpoint->instance);

        if (fd < 0)
            return fd;
        if (fd != endpoint->fd) {
            int error = context_watch(context, fd);

            if (error != LLM_OK)
                return error;
            endpoint->fd = fd;
        }
    }
    return context->epoll_fd;
}

int llm_context_fd(struct llm_context *context)
{
    int fd;

    if (context == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    fd = context_arm(context);
    lli_context_leave(context);
    return fd;
}

/* Sleeps until the descriptor is readable or a point in time. */
static void context_sleep(const struct llm_context *context, lli_ns until)
{
    struct pollfd fds = {.fd = context->epoll_fd, .events = POLLIN};
    lli_ns now = lli_clock_ns();
    lli_ns left = until > now ? until - now : 0;
    const struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000u),
                                     .tv_nsec = (long)(left % 1000000000u)};

    (void)ppoll(&fds, 1, until == LLI_NEVER ? NULL : &timeout, NULL);
}

/* Returns true if other threads may poll the context while this one waits. */
static bool context_is_beside(const struct llm_context *context)
{
    return lli_context_is_threaded(context) &&
           !(atomic_load(&context->running) && pthread_equal(pthread_self(), context->thread));
}

/* Notes that this thread sleeps. Several threads may; the lock is taken. */
static void context_sleeps(struct llm_context *context, lli_ns wakes_at)
{
    const bool others = atomic_load(&context->sleeping) > 0;

    atomic_store(&context->wakes_at, others ? lli_min(wakes_at, atomic_load(&context->wakes_at)) : wakes_at);
    atomic_fetch_add(&context->sleeping, 1);
}

/* Waits for work, as the wait mode says. */
static int context_idle(struct llm_context *context, lli_ns until)
{
    lli_ns wakes_at;
    uint64_t count;
    int fd, delivered;

    if (context->options.wait == LLM_WAIT_SPIN)
        return 0;
    if (context_is_beside(context))
        until = lli_min(until, lli_clock_ns() + CONTEXT_BESIDE);
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    fd = context_arm(context);
    /* Packets that came before the descriptors were armed would not wake this thread. */
    delivered = fd < 0 ? fd : lli_context_poll(context);
    wakes_at = lli_min(until, lli_endpoint_deadline(context));
    if (delivered == 0)
        context_sleeps(context, wakes_at);
    lli_context_leave(context);
    if (delivered == 0) {
        context_sleep(context, wakes_at);
        atomic_fetch_sub(&context->sleeping, 1);
    }
    /* In a child after fork() the descriptor is the parent's. */
    if (context->orphaned)
        return delivered;
    (void)!read(context->wake_fd, &count, sizeof count);
    return delivered;
}

int lli_context_await(struct llm_context *context, uint64_t timeout_ns,
                      int (*check)(void *object, uint64_t value), void *object, uint64_t value)
{
    lli_ns begin = lli_clock_ns();
    lli_ns until = timeout_ns > LLI_NEVER - begin ? LLI_NEVER : begin + timeout_ns;
    lli_ns now;
    int result;

    for (;;) {
        if (!lli_context_enter(context))
            return LLM_ESTATE;
        (void)lli_context_poll(context);
        result = check(object, value);
        now = lli_max(context->polled_at, begin);
        lli_context_leave(context);
        if (result != LLM_EAGAIN || now >= until)
            return result;
        (void)context_idle(context, until);
    }
}

int llm_wait(struct llm_context *context, uint64_t timeout_ns)
{
    lli_ns begin = lli_clock_ns();
    lli_ns until = timeout_ns > LLI_NEVER - begin ? LLI_NEVER : begin + timeout_ns;
    lli_ns now;
    int delivered;

    if (context == NULL)
        return LLM_EINVAL;
    for (;;) {
        if (!lli_context_enter(context))
            return LLM_ESTATE;
        delivered =
            context->in_handler ? LLI_REFUSE_IN_HANDLER(context, "llm_wait") : lli_context_poll(context);
        now = lli_max(context->polled_at, begin);
        lli_context_leave(context);
        if (delivered != 0 || now >= until)
            return delivered;
        delivered = context_idle(context, until);
        if (delivered != 0)
            return delivered;
    }
}
