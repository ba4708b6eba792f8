/* SPDX-License-Identifier: Apache-2.0 */
/* The fake device: its properties, its objects, and its asynchronous events. */
#define _GNU_SOURCE
#include "fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ASYNC_MAX = 64, WAIT_S = 10 };

struct fake fake;

static atomic_int live[FAKE_KINDS];
static const char *const kind_names[FAKE_KINDS] = {
    "domains",         "registrations",  "completion channels", "completion queues", "queue pairs",
    "address handles", "event channels", "identifiers",         "memberships",       "events"};

static struct {
    atomic_int in, number;
    atomic_bool always;
} failures[FAKE_CALLS], step;
static atomic_int step_failed;

/* The device and its objects. The mutex serializes threads; queues have none. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct ibv_device device;
    struct verbs_context verbs;
    pthread_mutex_t regions_mutex; /* for changes of the list: post calls read it without */
    struct fake_mr *regions;
    uint32_t keys;
    uint32_t qps;
    struct ibv_async_event events[ASYNC_MAX];
    int events_count;
    struct ibv_async_event handled[ASYNC_MAX]; /* events read and not acknowledged */
    int handled_count;
} host = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .regions_mutex = PTHREAD_MUTEX_INITIALIZER,
          .changed = PTHREAD_COND_INITIALIZER};

void *__real_calloc(size_t count, size_t size);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);

void fake_wrong(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("the fake device: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

/* -------------------------------------------------------------------------------------- life and failures */

void fake_born(enum fake_kind kind)
{
    atomic_fetch_add_explicit(&live[kind], 1, memory_order_relaxed);
}

void fake_died(enum fake_kind kind)
{
    atomic_fetch_sub_explicit(&live[kind], 1, memory_order_relaxed);
}

int fake_live(char *text, size_t size)
{
    int all = 0;

    text[0] = '\0';
    for (int kind = 0; kind < FAKE_KINDS; kind++) {
        const int count = atomic_load(&live[kind]);
        const size_t length = strlen(text);

        all += abs(count);
        if (count != 0)
            snprintf(text + length, size - length, "%d %s ", count, kind_names[kind]);
    }
    return all;
}

int fake_handles(void)
{
    return atomic_load(&live[FAKE_AH]);
}

void fake_fail(enum fake_call call, int nth, int number, bool always)
{
    atomic_store(&failures[call].number, number);
    atomic_store(&failures[call].always, always);
    atomic_store(&failures[call].in, nth);
}

void fake_fail_step(int nth, int number)
{
    atomic_store(&step_failed, -1);
    atomic_store(&step.number, number);
    atomic_store(&step.in, nth);
}

int fake_step_failed(void)
{
    return atomic_load(&step_failed);
}

/* Counts down to 1, which is the call to fail; 0 stays. */
static bool due(atomic_int *in, bool always)
{
    int left = atomic_load_explicit(in, memory_order_relaxed);

    if (left == 0)
        return false;
    if (left == 1 && always)
        return true;
    return atomic_fetch_sub_explicit(in, 1, memory_order_relaxed) == 1;
}

bool fake_fails(enum fake_call call)
{
    if (due(&step.in, false)) {
        atomic_store_explicit(&step_failed, call, memory_order_relaxed);
        errno = atomic_load_explicit(&step.number, memory_order_relaxed);
        return true;
    }
    if (!due(&failures[call].in, atomic_load_explicit(&failures[call].always, memory_order_relaxed)))
        return false;
    errno = atomic_load_explicit(&failures[call].number, memory_order_relaxed);
    return true;
}

void *fake_zeroed(size_t size)
{
    void *made = __real_calloc(1, size); /* the transport's own allocation may have to fail */

    if (made == NULL)
        fake_wrong("no memory");
    return made;
}

static void *object(enum fake_call call, enum fake_kind kind, size_t size)
{
    void *made;

    if (fake_fails(call))
        return NULL;
    made = fake_zeroed(size);
    fake_born(kind);
    return made;
}

/* ------------------------------------------------------------------------------------------------- device */

struct ibv_context *fake_context(void)
{
    return &host.verbs.context;
}

static int device_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
                             size_t size)
{
    (void)context;
    if (fake_fails(FAKE_CALL_QUERY_PORT))
        return errno;
    if (port_num != 1 || size < sizeof *attr)
        fake_wrong("port %d is asked for", port_num);
    memset(attr, 0, sizeof *attr);
    attr->state = fake.device.port_state;
    attr->active_mtu = fake.device.active_mtu;
    attr->link_layer = fake.device.link_layer;
    return 0;
}

static struct ibv_cq *cq_new(enum fake_call call, uint32_t depth, void *cq_context,
                             struct ibv_comp_channel *channel)
{
    struct fake_cq *cq = object(call, FAKE_CQ, sizeof *cq);

    if (cq == NULL)
        return NULL;
    cq->cq.context = fake_context();
    cq->cq.cq_context = cq_context;
    cq->cq.channel = channel;
    cq->max = depth;
    cq->notices = fake_zeroed(depth * sizeof *cq->notices);
    cq->stamps = fake_zeroed(depth * sizeof *cq->stamps);
    ((struct fake_channel *)(void *)channel)->users++;
    return &cq->cq;
}

static struct ibv_cq_ex *device_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *wanted)
{
    const bool flags = (wanted->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
    const bool stamps = (wanted->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0;
    struct ibv_cq *cq;

    (void)context;
    if (fake.device.no_walk || (flags && fake.device.no_cq_flags) || (stamps && fake.device.no_stamps)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    cq = cq_new(FAKE_CALL_CQ_EX, wanted->cqe, wanted->cq_context, wanted->channel);
    if (cq != NULL)
        fake_cq_walk_init((void *)cq, wanted->wc_flags);
    return (void *)cq;
}

static void host_init(void)
{
    snprintf(host.device.name, sizeof host.device.name, "fake_0");
    if (host.verbs.sz == 0)
        host.verbs.context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    host.verbs.sz = sizeof host.verbs;
    host.verbs.query_port = device_query_port;
    host.verbs.create_cq_ex = device_create_cq_ex;
    host.verbs.context.device = &host.device;
    host.verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    host.verbs.context.ops.poll_cq = fake_poll_cq;
    host.verbs.context.ops.req_notify_cq = fake_req_notify_cq;
    host.verbs.context.ops.post_send = fake_post_send;
    host.verbs.context.ops.post_recv = fake_post_recv;
}

void fake_reset(void)
{
    uint64_t count;

    host_init();
    while (host.events_count > 0 && read(host.verbs.context.async_fd, &count, sizeof count) > 0)
        host.events_count--;
    memset(&fake, 0, sizeof fake);
    memset(failures, 0, sizeof failures);
    fake_fail_step(0, 0);
    fake.device = (struct fake_device){
        .mtu = 4200,
        .inline_most = 1024,
        .inline_granted = 1024,
        .vendor = 0x15b3,
        .depth_max = 32768,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
        .port_state = IBV_PORT_ACTIVE,
        .active_mtu = IBV_MTU_4096,
        .gid_v1 = true,
        .gid_v2 = true,
    };
    fake.send_refuse_after = fake.receive_refuse_after = -1;
    fake.route_gid = 3;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

const char *ibv_port_state_str(enum ibv_port_state port_state)
{
    return port_state == IBV_PORT_DOWN ? "DOWN" : "of another state";
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    if (fake_fails(FAKE_CALL_QUERY_DEVICE))
        return errno;
    *attr = (struct ibv_device_attr){.vendor_id = fake.device.vendor,
                                     .max_qp_wr = fake.device.depth_max,
                                     .max_cqe = fake.device.depth_max};
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *port_attr)
{
    (void)context;
    (void)port_attr;
    fake_wrong("port %d is asked for in the old way", port_num);
}

const char *fake_address(void)
{
    if (fake.device.address != NULL)
        return fake.device.address;
    return fake.device.v6 ? "2001:db8::1" : "192.0.2.1";
}

static void own_gid(union ibv_gid *gid)
{
    const bool v6 = fake.device.v6;

    if (!v6)
        gid->raw[10] = gid->raw[11] = 0xff;
    if (inet_pton(v6 ? AF_INET6 : AF_INET, fake_address(), gid->raw + (v6 ? 0 : 12)) != 1)
        fake_wrong("the interface has the address %s", fake_address());
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
                             uint32_t flags, size_t entry_size)
{
    size_t count = 0;

    (void)context;
    if (flags != 0 || entry_size != sizeof *entries || max_entries < 4)
        fake_wrong("GIDs are asked for with flags %x", flags);
    if (fake.device.gids_error != 0)
        return -fake.device.gids_error;
    /* Another address, the same address on another port, and ours. */
    entries[count++] =
        (struct ibv_gid_entry){.gid_index = 0, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
    entries[count] = (struct ibv_gid_entry){.gid_index = 1, .port_num = 2, .gid_type = IBV_GID_TYPE_ROCE_V2};
    own_gid(&entries[count++].gid);
    if (fake.device.gid_v1) {
        entries[count] =
            (struct ibv_gid_entry){.gid_index = 2, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V1};
        own_gid(&entries[count++].gid);
    }
    if (fake.device.gid_v2) {
        entries[count] =
            (struct ibv_gid_entry){.gid_index = 3, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
        own_gid(&entries[count++].gid);
    }
    return (ssize_t)count;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    (void)context;
    if (port_num != 1 || flags != 0 || entry_size != sizeof *entry)
        fake_wrong("a GID of port %u is asked for", port_num);
    *entry = (struct ibv_gid_entry){.gid_index = gid_index,
                                    .port_num = 1,
                                    .gid_type = gid_index == 2 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2};
    return 0;
}

/* ------------------------------------------------------------------------------------------------ objects */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct fake_pd *pd = object(FAKE_CALL_PD, FAKE_PD, sizeof *pd);

    if (pd == NULL)
        return NULL;
    pd->pd.context = context;
    return &pd->pd;
}

static atomic_int *pd_users(struct ibv_pd *pd)
{
    return &((struct fake_pd *)(void *)pd)->users;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    if (atomic_load(pd_users(pd)) != 0)
        fake_wrong("a domain goes that %d objects are in", atomic_load(pd_users(pd)));
    free(pd);
    fake_died(FAKE_PD);
    return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    struct fake_mr *region = object(FAKE_CALL_MR, FAKE_MR, sizeof *region);

    if (region == NULL)
        return NULL;
    atomic_fetch_add(pd_users(pd), 1);
    region->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
    region->access = access;
    pthread_mutex_lock(&host.regions_mutex);
    region->mr.lkey = 0x1000 + 0x100 * host.keys++;
    region->next = host.regions;
    host.regions = region;
    pthread_mutex_unlock(&host.regions_mutex);
    return &region->mr;
}

/* Called by the header if the compiler cannot see that no optional access is requested. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
    if (iova != (uintptr_t)addr)
        fake_wrong("memory is registered at another address");
    return ibv_reg_mr(pd, addr, length, (int)access);
}

struct fake_mr *fake_mr_find(uint32_t lkey)
{
    for (struct fake_mr *region = host.regions; region != NULL; region = region->next)
        if (region->mr.lkey == lkey)
            return region;
    return NULL;
}

bool fake_is_writable(const void *data, size_t size)
{
    for (const struct fake_mr *region = host.regions; region != NULL; region = region->next)
        if ((region->access & IBV_ACCESS_LOCAL_WRITE) != 0 && (uintptr_t)data >= (uintptr_t)region->mr.addr &&
            (uintptr_t)data + size <= (uintptr_t)region->mr.addr + region->mr.length)
            return true;
    return false;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&host.regions_mutex);
    for (struct fake_mr **link = &host.regions; *link != NULL; link = &(*link)->next) {
        struct fake_mr *region = *link;

        if (&region->mr != mr)
            continue;
        *link = region->next;
        pthread_mutex_unlock(&host.regions_mutex);
        atomic_fetch_sub(pd_users(mr->pd), 1);
        free(region);
        fake_died(FAKE_MR);
        return 0;
    }
    fake_wrong("a registration ends that there is not");
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct fake_channel *channel = object(FAKE_CALL_COMP_CHANNEL, FAKE_CHANNEL, sizeof *channel);

    if (channel == NULL)
        return NULL;
    channel->channel.context = context;
    channel->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *base)
{
    if (((struct fake_channel *)(void *)base)->users != 0)
        fake_wrong("a completion channel goes that is in use");
    close(base->fd);
    free(base);
    fake_died(FAKE_CHANNEL);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    (void)context;
    (void)comp_vector;
    return cq_new(FAKE_CALL_CQ, (uint32_t)cqe, cq_context, channel);
}

int ibv_destroy_cq(struct ibv_cq *base)
{
    struct fake_cq *cq = (struct fake_cq *)(void *)base;

    fake_async_await(base);
    if (cq->users != 0 || cq->unacknowledged != 0 || cq->walking)
        fake_wrong("a completion queue goes with %d queue pairs and %d events", cq->users,
                   cq->unacknowledged);
    ((struct fake_channel *)(void *)base->channel)->users--;
    free(cq->notices);
    free(cq->stamps);
    free(cq);
    fake_died(FAKE_CQ);
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct fake_ah *handle;

    atomic_store_explicit(&fake.handle_thread, pthread_self(), memory_order_relaxed);
    atomic_fetch_add_explicit(&fake.handles_made, 1, memory_order_release);
    atomic_fetch_add(&fake.held_handles, 1);
    while (atomic_load(&fake.hold_handles))
        usleep(100);
    atomic_fetch_sub(&fake.held_handles, 1);
    handle = object(FAKE_CALL_AH, FAKE_AH, sizeof *handle);
    if (handle == NULL)
        return NULL;
    if (attr->port_num != 1 || !attr->is_global)
        fake_wrong("an address handle without a GRH, or of port %d", attr->port_num);
    atomic_fetch_add(pd_users(pd), 1);
    handle->ah.context = pd->context;
    handle->ah.pd = pd;
    handle->route = *attr;
    return &handle->ah;
}

int ibv_destroy_ah(struct ibv_ah *base)
{
    struct fake_ah *handle = (struct fake_ah *)(void *)base;

    if (handle->in_flight != 0)
        fake_wrong("an address handle goes that %d packets need", handle->in_flight);
    atomic_fetch_sub(pd_users(base->pd), 1);
    free(handle);
    fake_died(FAKE_AH);
    return 0;
}

/* Real librdmacm creates a queue pair from these. */
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *wanted)
{
    struct fake_qp *qp;

    if (wanted->cap.max_inline_data > fake.device.inline_most) {
        errno = EINVAL;
        return -1;
    }
    qp = object(FAKE_CALL_QP, FAKE_QP, sizeof *qp);
    if (qp == NULL)
        return -1;
    if (wanted->cap.max_inline_data > fake.device.inline_granted)
        wanted->cap.max_inline_data = fake.device.inline_granted;
    fake_qp_init(qp, wanted);
    if (wanted->qp_type != IBV_QPT_UD || wanted->sq_sig_all)
        fake_wrong("a queue pair of type %d", (int)wanted->qp_type);
    qp->qp = (struct ibv_qp){.context = id->verbs,
                             .pd = pd,
                             .send_cq = wanted->send_cq,
                             .recv_cq = wanted->recv_cq,
                             .qp_num = 0x100 + host.qps++,
                             .state = IBV_QPS_RTS,
                             .qp_type = IBV_QPT_UD};
    atomic_fetch_add(pd_users(pd), 1);
    ((struct fake_cq *)(void *)wanted->send_cq)->users++;
    id->qp = &qp->qp;
    if (wanted->cap.max_recv_wr > 1)
        fake.receive_qp = &qp->qp;
    else
        fake.send_qp = &qp->qp;
    return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    struct fake_qp *qp = (void *)id->qp;

    fake_async_await(qp);
    if (atomic_load(&qp->groups) != 0)
        fake_wrong("a queue pair goes that is in %d groups", atomic_load(&qp->groups));
    /* Queued packets are flushed: their handles and memory are free. */
    for (; qp->completed != qp->posted; qp->completed++)
        ((struct fake_ah *)(void *)qp->flight[qp->completed % qp->cap.max_send_wr].ah)->in_flight--;
    atomic_fetch_sub(pd_users(qp->qp.pd), 1);
    ((struct fake_cq *)(void *)qp->qp.send_cq)->users--;
    free(qp->flight);
    free(qp->buffers);
    free(qp->pieces);
    free(qp);
    id->qp = NULL;
    fake_died(FAKE_QP);
}

/* ------------------------------------------------------------------------------------------ events, waits */

void fake_events_lock(void)
{
    pthread_mutex_lock(&host.mutex);
}

void fake_events_unlock(void)
{
    pthread_mutex_unlock(&host.mutex);
}

void fake_events_changed(void)
{
    pthread_cond_broadcast(&host.changed);
}

void fake_events_await(const int *count, const char *what)
{
    struct timespec until;

    timespec_get(&until, TIME_UTC);
    until.tv_sec += WAIT_S;
    while (*count != 0)
        if (__real_pthread_cond_timedwait(&host.changed, &host.mutex, &until) != 0)
            fake_wrong("%s waits for an event that nobody acknowledges", what);
}

static const void *event_element(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return event->element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        return event->element.qp;
    default:
        return NULL;
    }
}

void fake_async_event(enum ibv_event_type type, const void *element)
{
    struct ibv_async_event event = {.event_type = type};
    const uint64_t one = 1;

    if (element == NULL)
        event.element.port_num = 1;
    else
        event.element.qp = (void *)(uintptr_t)element; /* a union: also sets the completion queue */
    fake_events_lock();
    if (host.events_count == ASYNC_MAX)
        fake_wrong("the test makes more events than anybody reads");
    host.events[host.events_count++] = event;
    fake_events_unlock();
    if (write(host.verbs.context.async_fd, &one, sizeof one) != sizeof one)
        fake_wrong("no event can be told");
}

int fake_async_events(void)
{
    int count;

    fake_events_lock();
    count = host.events_count + host.handled_count;
    fake_events_unlock();
    return count;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    uint64_t count;

    if (!(fcntl(context->async_fd, F_GETFL) & O_NONBLOCK))
        fake_wrong("events are read from a descriptor that blocks");
    fake_events_lock();
    do {
        if (read(context->async_fd, &count, sizeof count) < 0) {
            fake_events_unlock();
            return -1;
        }
    } while (host.events_count == 0); /* its queue was destroyed */
    *event = host.events[0];
    memmove(host.events, host.events + 1, (size_t)--host.events_count * sizeof *event);
    host.handled[host.handled_count++] = *event;
    fake_events_unlock();
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    fake_events_lock();
    for (int i = 0; i < host.handled_count; i++) {
        if (host.handled[i].event_type != event->event_type ||
            host.handled[i].element.qp != event->element.qp)
            continue;
        host.handled[i] = host.handled[--host.handled_count];
        fake_events_changed();
        fake_events_unlock();
        return;
    }
    fake_wrong("an event is acknowledged that was not read");
}

static void events_forget(const void *element)
{
    int kept = 0;

    for (int i = 0; i < host.events_count; i++)
        if (event_element(&host.events[i]) != element)
            host.events[kept++] = host.events[i];
    host.events_count = kept;
}

/* Removes unread events of the object; a destroy waits for those being handled. */
void fake_async_await(const void *element)
{
    int waiting = 1;

    fake_events_lock();
    events_forget(element);
    while (waiting != 0) {
        waiting = 0;
        for (int i = 0; i < host.handled_count; i++)
            waiting += event_element(&host.handled[i]) == element;
        if (waiting != 0) {
            struct timespec until;

            timespec_get(&until, TIME_UTC);
            until.tv_sec += WAIT_S;
            if (__real_pthread_cond_timedwait(&host.changed, &host.mutex, &until) != 0)
                fake_wrong("a queue is destroyed by the thread that handles an event of it");
        }
    }
    fake_events_unlock();
}
