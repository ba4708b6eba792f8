/* SPDX-License-Identifier: Apache-2.0 */
/* The optional thread that runs a context's loop. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "engine/objects.h"

/* Longest sleep of the loop thread: a bound for noticing a stop whose wake-up was lost. */
#define LOOP_SLEEP ((lli_ns)100000000)

static void *loop_main(void *arg)
{
    struct llm_context *context = arg;

    while (!atomic_load_explicit(&context->stop, memory_order_relaxed))
        (void)llm_wait(context, context->options.wait == LLM_WAIT_SPIN ? 0 : LOOP_SLEEP);
    return NULL;
}

static int loop_start(struct llm_context *context, int cpu)
{
    pthread_attr_t attributes;
    cpu_set_t cpus;
    int error;

    pthread_attr_init(&attributes);
    if (cpu >= 0) {
        CPU_ZERO(&cpus);
        CPU_SET((size_t)cpu, &cpus);
        pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    }
    atomic_store(&context->stop, false);
    /*
     * Stays set when the thread is stopped: other threads may be between taking and releasing the lock then.
     */
    atomic_store(&context->threaded, true);
    error = pthread_create(&context->thread, &attributes, loop_main, context);
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        atomic_store(&context->running, true);
        return LLM_OK;
    }
    return lli_refuse(context, error == EINVAL ? LLM_EINVAL : LLM_ESYSTEM,
                      "llm_context_start_thread: cpu %d: %s: choose a CPU that this process "
                      "may run on, or a negative number",
                      cpu, strerror(error));
}

/*
 * Reads whether a handler runs, under the lock: another thread may poll while no loop thread runs. False: the
 * context is orphaned.
 */
static bool loop_may_start(struct llm_context *context, bool *in_handler)
{
    if (!lli_context_enter(context))
        return false;
    *in_handler = context->in_handler;
    lli_context_leave(context);
    return true;
}

int llm_context_start_thread(struct llm_context *context, int cpu)
{
    bool in_handler = false;

    if (context == NULL)
        return LLM_EINVAL;
    if (!loop_may_start(context, &in_handler))
        return LLM_ESTATE;
    if (in_handler)
        return LLI_REFUSE_IN_HANDLER(context, "llm_context_start_thread");
    if (cpu >= CPU_SETSIZE)
        return lli_refuse(
            context, LLM_EINVAL,
            "llm_context_start_thread: cpu %d: CPUs have the numbers 0 to %d; a negative one pins to none",
            cpu, CPU_SETSIZE - 1);
    if (atomic_load(&context->running))
        return lli_refuse(
            context, LLM_ESTATE,
            "llm_context_start_thread: a loop thread runs already: llm_context_stop_thread() it first");
    return loop_start(context, cpu);
}

int llm_context_stop_thread(struct llm_context *context)
{
    if (context == NULL)
        return LLM_EINVAL;
    if (context->orphaned)
        return LLM_ESTATE;
    if (lli_context_is_inside(context))
        return LLI_REFUSE_IN_HANDLER(context, "llm_context_stop_thread");
    if (!atomic_load(&context->running))
        return lli_refuse(
            context, LLM_ESTATE,
            "llm_context_stop_thread: no loop thread runs: llm_context_start_thread() starts one");
    atomic_store(&context->stop, true);
    lli_context_wake(context);
    pthread_join(context->thread, NULL);
    atomic_store(&context->running, false);
    return LLM_OK;
}
