/* SPDX-License-Identifier: Apache-2.0 */
/* External interfaces of the transport besides its device. The linker replaces the real ones (--wrap). */
#define _GNU_SOURCE
#include "fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
uint64_t __real_lli_clock_ns(void);
uint64_t __wrap_lli_clock_ns(void);
int __wrap_getrlimit64(int resource, struct rlimit *limit);
int __wrap_lli_ip_interface_find(const struct lli_log *log, const char *scheme, const char *wanted,
                                 const union lli_ip_address *group, struct lli_ip_interface *interface);

static atomic_uint_fast64_t clock_ahead;
static atomic_uint_fast64_t wait_limit;
static atomic_uint_fast64_t memlock = RLIM_INFINITY;

void *__wrap_calloc(size_t count, size_t size)
{
    return fake_fails(FAKE_CALL_MEMORY) ? NULL : __real_calloc(count, size);
}

int __wrap_eventfd(unsigned count, int flags)
{
    return flags & EFD_SEMAPHORE || !fake_fails(FAKE_CALL_EVENTFD) ? __real_eventfd(count, flags) : -1;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    return fake_fails(FAKE_CALL_THREAD) ? errno : __real_pthread_create(thread, attr, start, arg);
}

/* --------------------------------------------------------------------------------------------------- time */

uint64_t __wrap_lli_clock_ns(void)
{
    return __real_lli_clock_ns() + atomic_load_explicit(&clock_ahead, memory_order_relaxed);
}

void fake_clock_advance(uint64_t ns)
{
    atomic_fetch_add(&clock_ahead, ns);
    fake_async_event(IBV_EVENT_CLIENT_REREGISTER, NULL); /* has no meaning, but is read */
}

void fake_wait_limit(uint64_t ns)
{
    atomic_store(&wait_limit, ns);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    const uint64_t limit = atomic_load(&wait_limit);
    struct timespec sooner;

    timespec_get(&sooner, TIME_UTC);
    sooner.tv_nsec += (long)(limit % 1000000000);
    sooner.tv_sec += (time_t)(limit / 1000000000) + sooner.tv_nsec / 1000000000;
    sooner.tv_nsec %= 1000000000;
    return __real_pthread_cond_timedwait(condition, mutex, limit != 0 ? &sooner : until);
}

/* -------------------------------------------------------------------------------------- limits, interface */

void fake_memlock(uint64_t bytes)
{
    atomic_store(&memlock, bytes);
}

int __wrap_getrlimit64(int resource, struct rlimit *limit)
{
    if (resource != RLIMIT_MEMLOCK)
        fake_wrong("limit %d is asked for", resource);
    limit->rlim_cur = limit->rlim_max = atomic_load(&memlock);
    return 0;
}

/* 192.0.2.1/24 and 2001:db8::1. */
int __wrap_lli_ip_interface_find(const struct lli_log *log, const char *scheme, const char *wanted,
                                 const union lli_ip_address *group, struct lli_ip_interface *interface)
{
    (void)log;
    (void)scheme;
    (void)wanted;
    *interface = (struct lli_ip_interface){.name = "fake0",
                                           .index = 7,
                                           .mtu = fake.device.mtu,
                                           .flags = IFF_UP | IFF_MULTICAST | IFF_BROADCAST,
                                           .wire = true};
    interface->address.any.sa_family = fake.device.v6 ? AF_INET6 : AF_INET;
    if (group->any.sa_family != interface->address.any.sa_family)
        fake_wrong("the test's group is of another family than its device");
    if (fake.device.v6) {
        inet_pton(AF_INET6, fake_address(), &interface->address.v6.sin6_addr);
        return 0;
    }
    inet_pton(AF_INET, fake_address(), &interface->address.v4.sin_addr);
    interface->broadcast = interface->address;
    inet_pton(AF_INET, "192.0.2.255", &interface->broadcast.v4.sin_addr);
    return 0;
}
