/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shm_guard.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { RANGES = 2 };

struct range {
    _Atomic uintptr_t base;
    _Atomic size_t bytes; /* 0: unused */
};

struct guard {
    atomic_bool used;
    atomic_bool broken;
    struct range ranges[RANGES];
};

/* Guards of the process; index 0 is LLI_SHM_GUARD_NONE. Pages never touched take no memory. */
static struct guard guards[LLI_SHM_GUARDS_MAX + 1];
static _Atomic int guards_end = 1; /* places used so far */
static int guards_count;
static bool installed;
static struct sigaction previous; /* handler installed before ours */
static atomic_flag changing = ATOMIC_FLAG_INIT;

/* ------------------------------------------------------------------------------------------------ handler */

/*
 * True if an address lies in a range. The guard of the mapping that faulted belongs to this thread and does
 * not change here. Guards of other threads may change: reads the base twice to be sure that it belongs to the
 * length.
 */
static bool range_has(const struct range *range, uintptr_t at)
{
    const uintptr_t base = atomic_load(&range->base);
    const size_t bytes = atomic_load(&range->bytes);

    return bytes != 0 && at - base < bytes && atomic_load(&range->base) == base;
}

static bool guard_break(struct guard *guard)
{
    bool whole = true;

    for (int i = 0; i < RANGES; i++) {
        const size_t bytes = atomic_load(&guard->ranges[i].bytes);

        if (bytes != 0)
            whole &= mmap((void *)atomic_load(&guard->ranges[i].base), bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
    }
    atomic_store(&guard->broken, true);
    return whole;
}

static bool guard_catch(uintptr_t at)
{
    const int end = atomic_load(&guards_end);

    for (int i = 1; i < end; i++)
        for (int j = 0; j < RANGES; j++)
            if (range_has(&guards[i].ranges[j], at))
                return guard_break(&guards[i]);
    return false;
}

/*
 * Calls the previous handler. For the default action, restores it: the instruction faults again and ends the
 * process.
 */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    if ((previous.sa_flags & SA_SIGINFO) != 0) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    } else if (info->si_code > 0 || previous.sa_handler == SIG_DFL) {
        const struct sigaction plain = {.sa_handler = SIG_DFL};

        (void)sigaction(signal, &plain, NULL);
        /* The signal was sent by a process: no instruction repeats it. */
        if (info->si_code <= 0)
            (void)raise(signal);
    }
}

static void on_sigbus(int signal, siginfo_t *info, void *context)
{
    const int error = errno;

    if (info->si_code <= 0 || !guard_catch((uintptr_t)info->si_addr))
        pass_on(signal, info, context);
    errno = error;
}

static void handler_install(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    if (installed)
        return;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, NULL, &previous);
    installed = sigaction(SIGBUS, &action, NULL) == 0;
}

/* Removes the handler, unless another was installed on top of it, which may call ours. */
static void handler_remove(void)
{
    struct sigaction now;

    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == on_sigbus)
        installed = sigaction(SIGBUS, &previous, NULL) != 0;
}

/* ------------------------------------------------------------------------------------------------- guards */

/* Serializes threads that add and remove guards. */
static void change_begin(void)
{
    while (atomic_flag_test_and_set_explicit(&changing, memory_order_acquire))
        sched_yield();
}

static void change_end(void)
{
    atomic_flag_clear_explicit(&changing, memory_order_release);
}

static void range_set(struct range *range, void *base, size_t bytes)
{
    atomic_store(&range->base, (uintptr_t)base);
    atomic_store(&range->bytes, bytes);
}

uint16_t lli_shm_guard(void *base, size_t bytes)
{
    uint16_t place = 1;

    change_begin();
    while (place <= LLI_SHM_GUARDS_MAX && atomic_load(&guards[place].used))
        place++;
    if (place > LLI_SHM_GUARDS_MAX) {
        change_end();
        return LLI_SHM_GUARD_NONE;
    }
    if (guards_count++ == 0)
        handler_install();
    if (place >= atomic_load(&guards_end))
        atomic_store(&guards_end, place + 1);
    atomic_store(&guards[place].used, true);
    atomic_store(&guards[place].broken, false);
    range_set(&guards[place].ranges[0], base, bytes);
    change_end();
    return place;
}

void lli_shm_guard_more(uint16_t guard, void *base, size_t bytes)
{
    if (guard != LLI_SHM_GUARD_NONE)
        range_set(&guards[guard].ranges[1], base, bytes);
}

void lli_shm_unguard(uint16_t guard)
{
    if (guard == LLI_SHM_GUARD_NONE)
        return;
    change_begin();
    for (int i = 0; i < RANGES; i++) {
        atomic_store(&guards[guard].ranges[i].bytes, 0);
        atomic_store(&guards[guard].ranges[i].base, 0);
    }
    atomic_store(&guards[guard].used, false);
    if (--guards_count == 0)
        handler_remove();
    change_end();
}

bool lli_shm_guard_is_broken(uint16_t guard)
{
    return guard != LLI_SHM_GUARD_NONE && atomic_load_explicit(&guards[guard].broken, memory_order_relaxed);
}

void lli_shm_guard_mended(uint16_t guard)
{
    if (guard != LLI_SHM_GUARD_NONE)
        atomic_store(&guards[guard].broken, false);
}
