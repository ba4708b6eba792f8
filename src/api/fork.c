/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork(): contexts belong to the process that opened them (docs/adr/0046). In a child process each context is
 * orphaned before fork() returns: its calls are refused, by the condition that also decides about locking,
 * and its transports are replaced by one that does nothing. A child that returns from a handler into a poll
 * of its parent's therefore sends and writes nothing either.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "observe/stats_file.h"
#include "api/lifecycle.h"
#include "engine/objects.h"

static struct {
    pthread_mutex_t mutex;
    struct llm_context *first;
    bool watching; /* pthread_atfork() was called */
} fork_all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* -------------------------------------------------------------------------------- a transport for orphans */

static void inert_close(void *instance)
{
    (void)instance;
}

static void inert_region_end(void *instance, void *base, size_t size)
{
    (void)instance;
    (void)base;
    (void)size;
}

static int inert_join(void *instance, const struct lli_group *group, enum lli_join_mode mode,
                      lli_handle *handle)
{
    (void)instance;
    (void)group;
    (void)mode;
    (void)handle;
    return LLM_ESTATE;
}

static void inert_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    (void)instance;
    (void)handle;
    (void)mode;
}

static int inert_address(void *instance, struct lli_address *address)
{
    (void)instance;
    (void)address;
    return LLM_ESTATE;
}

static int inert_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    (void)instance;
    (void)address;
    (void)handle;
    return LLM_EINVAL;
}

/* Accepts all packets and drops them. */
static int inert_post(void *instance, const struct lli_out *packets, int count)
{
    (void)instance;
    (void)packets;
    return count;
}

static int inert_flush(void *instance)
{
    (void)instance;
    return LLM_OK;
}

static uint64_t inert_reap(void *instance)
{
    (void)instance;
    return UINT64_MAX;
}

static int inert_receive(void *instance, struct lli_in *packets, int max)
{
    (void)instance;
    (void)packets;
    (void)max;
    return 0;
}

static void inert_release(void *instance, const struct lli_in *packets, int count)
{
    (void)instance;
    (void)packets;
    (void)count;
}

static int inert_arm(void *instance)
{
    (void)instance;
    return LLM_ESTATE;
}

static const struct lli_counter inert_counters[] = {{NULL, 0}};

static const struct lli_transport inert = {
    .scheme = "",
    .counters = inert_counters,
    .close = inert_close,
    .abandon = inert_close,
    .region_end = inert_region_end,
    .join = inert_join,
    .leave = inert_leave,
    .address = inert_address,
    .peer = inert_peer,
    .post = inert_post,
    .flush = inert_flush,
    .reap = inert_reap,
    .receive = inert_receive,
    .release = inert_release,
    .arm = inert_arm,
};

/* ------------------------------------------------------------------------------------------- in the child */

/* Replaces a history in shared memory with private memory. */
static void fork_unshare(struct llm_transmitter *transmitter)
{
    struct lli_history *history = &transmitter->tx.history;

    if (transmitter->shared.base == NULL)
        return;
    history->edge = &history->edge_own;
    lli_memory_unshare(&transmitter->shared);
}

static void fork_orphan(struct llm_context *context)
{
    const bool inside =
        !lli_context_is_threaded(context) ||
        atomic_load_explicit(&context->lock.owner, memory_order_relaxed) == (uintptr_t)pthread_self();

    context->orphaned = true;
    atomic_store(&context->threaded, true);
    atomic_store(&context->stop, true);
    /* In this process a handler of another thread does not return. */
    context->in_handler &= inside;
    context->stats_at = context->connections_at = context->stores_at = context->watch_at = LLI_NEVER;
    for (struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next) {
        endpoint->inherited = endpoint->transport;
        endpoint->transport = &inert;
        endpoint->lines = NULL;
        endpoint->inspects = endpoint->latency != NULL || endpoint->guard != NULL;
        for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
             transmitter = transmitter->next)
            fork_unshare(transmitter);
    }
}

/* ------------------------------------------------------------------------------------------ around fork() */

static void fork_prepare(void)
{
    pthread_mutex_lock(&fork_all.mutex);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&fork_all.mutex);
}

static void fork_child(void)
{
    for (struct llm_context *context = fork_all.first; context != NULL; context = context->next)
        fork_orphan(context);
    fork_all.first = NULL;
    pthread_mutex_unlock(&fork_all.mutex);
}

void lli_fork_watch(struct llm_context *context)
{
    pthread_mutex_lock(&fork_all.mutex);
    context->next = fork_all.first;
    fork_all.first = context;
    /* pthread_atfork() allocates; if it fails, children are not orphaned. */
    fork_all.watching = fork_all.watching || pthread_atfork(fork_prepare, fork_parent, fork_child) == 0;
    pthread_mutex_unlock(&fork_all.mutex);
}

void lli_fork_unwatch(struct llm_context *context)
{
    struct llm_context **link = &fork_all.first;

    pthread_mutex_lock(&fork_all.mutex);
    while (*link != context)
        link = &(*link)->next;
    *link = context->next;
    pthread_mutex_unlock(&fork_all.mutex);
}

/* ------------------------------------------------------------------------------------------------ release */

/* Frees transmitters and receivers, but not those of connections, which are freed with their connections. */
static void fork_release_endpoint(struct lli_endpoint *endpoint)
{
    struct llm_transmitter *next_transmitter;
    struct llm_receiver *next_receiver;

    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = next_transmitter) {
        next_transmitter = transmitter->next;
        if (transmitter->connection != NULL)
            continue;
        free(transmitter->destinations);
        lli_transmitter_free(transmitter);
    }
    for (struct llm_receiver *receiver = endpoint->receivers; receiver != NULL; receiver = next_receiver) {
        next_receiver = receiver->next;
        if (receiver->group != LLI_GROUP_NONE)
            lli_receiver_free(receiver);
    }
}

/*
 * Frees the listed objects: those that another thread was adding or removing at the fork may be missing, and
 * leak.
 */
void lli_fork_release(struct llm_context *context)
{
    for (struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next)
        fork_release_endpoint(endpoint);
    if (context->upcalls != NULL)
        context->upcalls->release(context);
    if (context->store_calls != NULL)
        context->store_calls->release(context);
    if (context->failover_calls != NULL)
        context->failover_calls->release(context);
    while (context->endpoints != NULL) {
        struct lli_endpoint *endpoint = context->endpoints;

        context->endpoints = endpoint->next;
        lli_endpoint_free(endpoint);
    }
    lli_stats_file_release(&context->stats);
    lli_context_free(context);
}
