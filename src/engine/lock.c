/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a context with a loop thread: other threads get it between two polls. */
#include <sched.h>
#include <unistd.h>

#include "engine/objects.h"

/* Spins before a waiting thread yields its core, which the holder may need. */
enum { LOCK_SPINS = 1000 };

static void lock_take(struct lli_lock *lock)
{
    uintptr_t self = (uintptr_t)pthread_self();
    unsigned mine;

    /* Relaxed: only this thread writes its own identity there. */
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == self) {
        lock->depth++;
        return;
    }
    mine = atomic_fetch_add_explicit(&lock->ticket, 1, memory_order_relaxed);
    /* Acquire: writes of the previous holder are visible. */
    for (int spins = 0; atomic_load_explicit(&lock->serving, memory_order_acquire) != mine; spins++)
        if (spins >= LOCK_SPINS)
            sched_yield();
    atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
    lock->depth = 1;
}

static void lock_release(struct lli_lock *lock)
{
    if (--lock->depth > 0)
        return;
    atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
    /* Release: writes of this holder are visible to the next. Only the holder writes serving. */
    atomic_fetch_add_explicit(&lock->serving, 1, memory_order_release);
}

/* Logs the refusal, once for each context. */
static void lock_refuse(struct llm_context *context)
{
    if (!context->refused)
        lli_log(&context->log, LLM_LEVEL_ERROR,
                "context: this process was forked from the one that opened it: all calls but those that "
                "close are refused; open a context here");
    context->refused = true;
}

bool lli_context_lock(struct llm_context *context)
{
    /* Checked before locking: another thread may have had the lock when this process was forked. */
    if (context->orphaned) {
        lock_refuse(context);
        return false;
    }
    lock_take(&context->lock);
    return true;
}

bool lli_context_is_inside(const struct llm_context *context)
{
    if (!lli_context_is_threaded(context))
        return context->in_handler;
    return atomic_load_explicit(&context->lock.owner, memory_order_relaxed) == (uintptr_t)pthread_self();
}

bool lli_transmitter_is_claimed_elsewhere(const struct llm_transmitter *transmitter)
{
    return transmitter->claimed != NULL && transmitter->claimed != transmitter &&
           lli_context_is_threaded(transmitter->context) && transmitter->claimant != 0 &&
           transmitter->claimant != (uintptr_t)pthread_self();
}

void lli_context_unlock(struct llm_context *context)
{
    if (context->orphaned)
        return;
    /* This call's work may be due before the sleeping loop thread would wake. */
    if (atomic_load(&context->sleeping) && lli_endpoint_deadline(context) < atomic_load(&context->wakes_at))
        lli_context_wake(context);
    lock_release(&context->lock);
}

void lli_context_wake(struct llm_context *context)
{
    const uint64_t one = 1;

    (void)!write(context->wake_fd, &one, sizeof one);
}
