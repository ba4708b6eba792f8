/* SPDX-License-Identifier: Apache-2.0 */
/* Control thread: events of librdmacm and of the device, address handles, repair of the send queue. */
#define _GNU_SOURCE
#include "roce.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "system/clock.h"

/* Interval for checking that the caller's thread has parked, or that a broken queue is empty. */
enum { LOOK_MS = 100 };

/* All instances of the process: those on the same device share the descriptor of its asynchronous events. */
static struct {
    pthread_mutex_t mutex;
    struct lli_roce *first;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t all_once = PTHREAD_ONCE_INIT;

static void all_lock(void)
{
    pthread_mutex_lock(&all.mutex);
}

static void all_unlock(void)
{
    pthread_mutex_unlock(&all.mutex);
}

/* Runs in the child after fork(): the instances are the parent's. */
static void all_forget(void)
{
    all.first = NULL;
    pthread_mutex_unlock(&all.mutex);
}

static void all_watch(void)
{
    (void)pthread_atfork(all_lock, all_unlock, all_forget);
}

/*
 * Stops delivery of events to the instance. Required before closing a queue, which waits for events being
 * handled.
 */
static void all_remove(const struct lli_roce *roce)
{
    pthread_mutex_lock(&all.mutex);
    for (struct lli_roce **link = &all.first; *link != NULL; link = &(*link)->next) {
        if (*link == roce) {
            *link = roce->next;
            break;
        }
    }
    pthread_mutex_unlock(&all.mutex);
}

void lli_roce_signal(int fd)
{
    const uint64_t one = 1;
    const ssize_t written = write(fd, &one, sizeof one);

    (void)written; /* fails only if the counter is full, and then it is readable */
}

void lli_roce_control_wake(const struct lli_roce *roce)
{
    lli_roce_signal(roce->control.wake);
}

/* Marks the instance unusable, and wakes threads that wait for a join. */
static void control_lose(struct lli_roce *roce, const char *why)
{
    if (atomic_exchange(&roce->gone, true))
        return;
    lli_log(roce->log, LLM_LEVEL_ERROR,
            "roce: device %s: %s; close the channels on interface %s and open them again", roce->device.name,
            why, roce->device.interface.name);
    pthread_mutex_lock(&roce->control.mutex);
    pthread_cond_broadcast(&roce->control.changed);
    pthread_mutex_unlock(&roce->control.mutex);
    lli_roce_signal(roce->sleep.woken);
    lli_roce_control_wake(roce);
}

/* ------------------------------------------------------------------------------------- librdmacm's events */

/* Returns true if the route to a group is unchanged: the address handles of its senders were made for it. */
static bool route_is_unchanged(const struct lli_roce_member *member, const struct rdma_ud_param *found)
{
    return memcmp(&member->route.grh.dgid, &found->ah_attr.grh.dgid, sizeof member->route.grh.dgid) == 0 &&
           member->route.grh.sgid_index == found->ah_attr.grh.sgid_index &&
           member->qp_number == found->qp_num && member->qkey == found->qkey;
}

/* Completes a join. False: the group was rejoined with another route. */
static bool member_joined(struct lli_roce *roce, struct lli_roce_member *member,
                          const struct rdma_ud_param *found)
{
    if (member->state != LLI_ROCE_JOINING)
        return true;
    if (member->retry_at != 0 && !route_is_unchanged(member, found))
        return false;
    member->route = found->ah_attr;
    member->qp_number = found->qp_num;
    member->qkey = found->qkey;
    member->state = LLI_ROCE_JOINED;
    pthread_cond_broadcast(&roce->control.changed);
    return true;
}

/*
 * Records that a join was refused, or a membership lost. Lost groups are rejoined; no caller waits for that.
 */
static void member_failed(struct lli_roce *roce, struct lli_roce_member *member, int status)
{
    char text[LLI_IP_TEXT_MAX];

    member->status = status < 0 ? -status : status;
    if (member->state == LLI_ROCE_JOINING && member->retry_at == 0) {
        member->state = LLI_ROCE_REFUSED;
        pthread_cond_broadcast(&roce->control.changed);
    } else if (member->state == LLI_ROCE_JOINING || member->state == LLI_ROCE_JOINED) {
        if (member->state == LLI_ROCE_JOINED) {
            atomic_fetch_add(&roce->counters.groups_lost, 1);
            lli_log(roce->log, LLM_LEVEL_WARNING, "roce: device %s lost group %s: %s; it is joined again",
                    roce->device.name, lli_ip_text(&member->address, text), strerror(member->status));
        }
        member->state = LLI_ROCE_LOST;
        member->retry_at = lli_max(member->retry_at, 1);
    }
}

static void cm_event_take(struct lli_roce *roce, const struct rdma_cm_event *event)
{
    struct lli_roce_member *member = (void *)(uintptr_t)event->param.ud.private_data;
    bool unchanged = true;

    switch (event->event) {
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
        if (member == NULL)
            break;
        pthread_mutex_lock(&roce->control.mutex);
        if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN && event->status == 0)
            unchanged = member_joined(roce, member, &event->param.ud);
        else
            member_failed(roce, member, event->status);
        pthread_mutex_unlock(&roce->control.mutex);
        if (!unchanged)
            control_lose(roce, "its addresses changed while a group was joined again");
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        control_lose(roce, "it is being removed");
        break;
    case RDMA_CM_EVENT_ADDR_CHANGE:
        control_lose(roce, "its address moved to another device");
        break;
    default:
        lli_log(roce->log, LLM_LEVEL_DEBUG, "roce: device %s: event %s", roce->device.name,
                rdma_event_str(event->event));
        break;
    }
}

static void cm_events_take(struct lli_roce *roce)
{
    struct rdma_cm_event *event;

    while (rdma_get_cm_event(roce->events, &event) == 0) {
        cm_event_take(roce, event);
        rdma_ack_cm_event(event);
    }
}

/* ----------------------------------------------------------------------------------- asynchronous events */

static void async_event_take(struct lli_roce *roce, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_DEVICE_FATAL:
        control_lose(roce, "it failed");
        break;
    case IBV_EVENT_CQ_ERR:
        if (event->element.cq == roce->in.cq || event->element.cq == roce->out.cq)
            control_lose(roce, "a completion queue overran");
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        /* A send queue fault is reported by its completions, and repaired then. */
        if (event->element.qp == roce->in.qp)
            control_lose(roce, "the receive queue failed");
        break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
        if (event->element.port_num == roce->device.port)
            lli_log(roce->log, LLM_LEVEL_WARNING, "roce: port %u of device %s %s", roce->device.port,
                    roce->device.name,
                    event->event_type == IBV_EVENT_PORT_ERR
                        ? "is down: nothing goes or comes until it is up again"
                        : "is up");
        break;
    case IBV_EVENT_GID_CHANGE:
        lli_log(roce->log, LLM_LEVEL_INFO, "roce: addresses of device %s changed", roce->device.name);
        break;
    default:
        break;
    }
}

/* Delivers asynchronous events to all instances on the device; any of their threads may read them. */
static void async_events_take(const struct lli_roce *roce)
{
    struct ibv_context *verbs = roce->out.id->verbs;
    struct ibv_async_event event;

    while (ibv_get_async_event(verbs, &event) == 0) {
        pthread_mutex_lock(&all.mutex);
        for (struct lli_roce *each = all.first; each != NULL; each = each->next)
            if (each->out.id->verbs == verbs)
                async_event_take(each, &event);
        pthread_mutex_unlock(&all.mutex);
        ibv_ack_async_event(&event);
    }
}

/* ------------------------------------------------------------------------------------------------- thread */

/* Repairs the send queue, which the caller's thread has emptied. */
static void send_fault_repair(struct lli_roce *roce)
{
    if (atomic_load_explicit(&roce->out.fault, memory_order_acquire) != LLI_ROCE_REPAIRING)
        return;
    if (!lli_roce_send_repair(roce)) {
        control_lose(roce, "its send queue failed and cannot be reset");
        return;
    }
    atomic_store_explicit(&roce->out.fault, LLI_ROCE_FINE, memory_order_release);
    lli_roce_signal(roce->sleep.woken);
}

static bool control_is_stopped(struct lli_roce *roce)
{
    bool stop;

    pthread_mutex_lock(&roce->control.mutex);
    stop = roce->control.stop;
    pthread_mutex_unlock(&roce->control.mutex);
    return stop;
}

static int control_timeout(const struct lli_roce *roce, lli_ns next, lli_ns now)
{
    if (atomic_load(&roce->gone))
        return LOOK_MS;
    return next == LLI_NEVER ? -1 : (int)((next - lli_min(next, now)) / 1000000 + 1);
}

static void *control_main(void *arg)
{
    struct lli_roce *roce = arg;
    struct pollfd watched[] = {
        {.fd = roce->control.wake, .events = POLLIN},
        {.fd = roce->events->fd, .events = POLLIN},
        {.fd = roce->out.id->verbs->async_fd, .events = POLLIN},
    };
    bool closed = false;
    lli_ns next = LLI_NEVER;

    while (!control_is_stopped(roce)) {
        uint64_t count;

        poll(watched, sizeof watched / sizeof watched[0],
             closed ? -1 : control_timeout(roce, next, lli_clock_ns()));
        if (read(roce->control.wake, &count, sizeof count) < 0 && errno != EAGAIN)
            break;
        cm_events_take(roce);
        if (closed)
            continue;
        async_events_take(roce);
        if (!atomic_load(&roce->gone)) {
            lli_roce_peers_resolve(roce);
            send_fault_repair(roce);
            next = lli_roce_rejoin(roce, lli_clock_ns());
        } else if (atomic_load_explicit(&roce->parked, memory_order_acquire)) {
            /*
             * Release all objects so that the driver can unload; packets still with the caller are plain
             * memory.
             */
            all_remove(roce);
            lli_roce_queues_close(roce);
            watched[2].fd = -1;
            closed = true;
        }
    }
    return NULL;
}

static int descriptor_unblock(int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Blocks all signals in the thread: they are the application's. */
static int thread_create(struct lli_roce *roce)
{
    sigset_t blocked, before;
    int status;

    sigfillset(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    status = pthread_create(&roce->control.thread, NULL, control_main, roce);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

int lli_roce_control_start(struct lli_roce *roce)
{
    int status;

    if (descriptor_unblock(roce->events->fd) < 0 || descriptor_unblock(roce->out.id->verbs->async_fd) < 0)
        return lli_roce_fail(roce, "descriptors of events");
    (void)pthread_once(&all_once, all_watch);
    pthread_mutex_lock(&all.mutex);
    roce->next = all.first;
    all.first = roce;
    pthread_mutex_unlock(&all.mutex);
    status = thread_create(roce);
    roce->control.running = status == 0;
    return status == 0 ? 0 : lli_fail(roce->log, LLM_ESYSTEM, "roce: control thread: %s", strerror(status));
}

void lli_roce_control_stop(struct lli_roce *roce)
{
    if (roce->control.running) {
        pthread_mutex_lock(&roce->control.mutex);
        roce->control.stop = true;
        pthread_mutex_unlock(&roce->control.mutex);
        lli_roce_control_wake(roce);
        pthread_join(roce->control.thread, NULL);
        roce->control.running = false;
    }
    all_remove(roce);
}
