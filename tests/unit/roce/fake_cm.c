/* SPDX-License-Identifier: Apache-2.0 */
/* librdmacm over the fake device: identifiers, groups and their events. */
#define _GNU_SOURCE
#include "fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct membership {
    struct rdma_cm_id *id;
    union lli_ip_address address;
    uint32_t flags;
    void *context;
    bool attached;
    int handled; /* events read and not acknowledged */
    struct membership *next;
};

struct event {
    struct rdma_cm_event event; /* first: the part visible to the transport */
    struct membership *membership;
    struct event *next;
};

struct identifier {
    struct rdma_cm_id id;
    int handled;
    struct identifier *next;
};

/* All memberships, under the mutex of events. */
static struct membership *memberships;
static struct event *waiting;
static struct identifier *identifiers;

/* -------------------------------------------------------------------------------------------- identifiers */

struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct rdma_event_channel *channel;

    if (fake_fails(FAKE_CALL_CHANNEL))
        return NULL;
    channel = fake_zeroed(sizeof *channel);
    channel->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    fake_born(FAKE_EVENT_CHANNEL);
    return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    for (const struct identifier *each = identifiers; each != NULL; each = each->next)
        if (each->id.channel == channel)
            fake_wrong("an event channel goes that an identifier has");
    close(channel->fd);
    free(channel);
    fake_died(FAKE_EVENT_CHANNEL);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    struct identifier *made;

    if (fake_fails(FAKE_CALL_ID))
        return -1;
    made = fake_zeroed(sizeof *made);
    made->id = (struct rdma_cm_id){.channel = channel, .context = context, .ps = ps};
    fake_events_lock();
    made->next = identifiers;
    identifiers = made;
    fake_events_unlock();
    fake_born(FAKE_ID);
    *id = &made->id;
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    if (fake_fails(FAKE_CALL_BIND))
        return -1;
    if (addr->sa_family != (fake.device.v6 ? AF_INET6 : AF_INET) || id->ps != RDMA_PS_UDP)
        fake_wrong("an identifier is bound to an address of family %d", addr->sa_family);
    if (fake.device.no_device)
        return 0;
    id->verbs = fake_context();
    id->port_num = 1;
    return 0;
}

/* Removes the matching unread events. */
static void events_drop(const struct rdma_cm_id *id, const struct membership *membership)
{
    for (struct event **link = &waiting; *link != NULL;) {
        struct event *event = *link;

        if ((id != NULL && event->event.id == id) ||
            (membership != NULL && event->membership == membership)) {
            *link = event->next;
            free(event);
            fake_died(FAKE_EVENT);
        } else {
            link = &event->next;
        }
    }
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    struct identifier *identifier = (struct identifier *)(void *)id;

    if (id->qp != NULL)
        fake_wrong("an identifier goes that has a queue pair");
    fake_events_lock();
    for (const struct membership *each = memberships; each != NULL; each = each->next)
        if (each->id == id)
            fake_wrong("an identifier goes that is in a group");
    events_drop(id, NULL);
    fake_events_await(&identifier->handled, "rdma_destroy_id()");
    for (struct identifier **link = &identifiers; *link != NULL; link = &(*link)->next) {
        if (*link == identifier) {
            *link = identifier->next;
            break;
        }
    }
    fake_events_unlock();
    free(identifier);
    fake_died(FAKE_ID);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- events */

static void event_send(struct rdma_cm_id *id, struct membership *membership, enum rdma_cm_event_type type,
                       int status)
{
    struct event *event = fake_zeroed(sizeof *event);
    struct event **last = &waiting;
    const uint64_t one = 1;

    fake_born(FAKE_EVENT);
    event->event = (struct rdma_cm_event){.id = id, .event = type, .status = status};
    event->membership = membership;
    if (membership != NULL)
        event->event.param.ud.private_data = membership->context;
    if (type == RDMA_CM_EVENT_MULTICAST_JOIN && status == 0) {
        struct ibv_ah_attr *route = &event->event.param.ud.ah_attr;

        *route = (struct ibv_ah_attr){
            .is_global = 1, .port_num = 1, .grh = {.sgid_index = (uint8_t)atomic_load(&fake.route_gid)}};
        route->grh.dgid.raw[10] = route->grh.dgid.raw[11] = 0xff;
        memcpy(route->grh.dgid.raw + (fake.device.v6 ? 0 : 12), lli_ip_bytes(&membership->address),
               fake.device.v6 ? 16 : 4);
        event->event.param.ud.qp_num = FAKE_GROUP_QPN;
        event->event.param.ud.qkey = RDMA_UDP_QKEY;
    }
    while (*last != NULL)
        last = &(*last)->next;
    *last = event;
    if (write(id->channel->fd, &one, sizeof one) != sizeof one)
        fake_wrong("no event can be told");
}

static struct event *event_next(const struct rdma_event_channel *channel)
{
    for (struct event **link = &waiting; *link != NULL; link = &(*link)->next) {
        struct event *event = *link;

        if (event->event.id->channel != channel)
            continue;
        *link = event->next;
        return event;
    }
    return NULL;
}

/* The queue pair is in the group once the event is read. */
static void event_read(struct event *event)
{
    struct membership *membership = event->membership;

    ((struct identifier *)(void *)event->event.id)->handled++;
    if (membership == NULL)
        return;
    membership->handled++;
    if (event->event.event == RDMA_CM_EVENT_MULTICAST_JOIN && event->event.status == 0 &&
        !membership->attached) {
        membership->attached = true;
        atomic_fetch_add(&((struct fake_qp *)(void *)membership->id->qp)->groups, 1);
    }
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct event *taken;
    uint64_t count;

    if (!(fcntl(channel->fd, F_GETFL) & O_NONBLOCK))
        fake_wrong("events are read from a descriptor that blocks");
    do {
        if (read(channel->fd, &count, sizeof count) < 0)
            return -1;
        fake_events_lock();
        taken = event_next(channel);
        if (taken != NULL)
            event_read(taken);
        fake_events_unlock();
    } while (taken == NULL); /* its group was left meanwhile */
    atomic_fetch_add(&fake.held_events, 1);
    while (atomic_load(&fake.hold_events))
        usleep(100);
    atomic_fetch_sub(&fake.held_events, 1);
    *event = &taken->event;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    struct event *taken = (struct event *)(void *)event;

    fake_events_lock();
    ((struct identifier *)(void *)event->id)->handled--;
    if (taken->membership != NULL)
        taken->membership->handled--;
    fake_events_changed();
    fake_events_unlock();
    free(taken);
    fake_died(FAKE_EVENT);
    return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
    return event == RDMA_CM_EVENT_TIMEWAIT_EXIT ? "RDMA_CM_EVENT_TIMEWAIT_EXIT" : "of another kind";
}

void fake_id_event(enum rdma_cm_event_type type)
{
    fake_events_lock();
    event_send(&identifiers->id, NULL, type, 0);
    fake_events_unlock();
}

/* ------------------------------------------------------------------------------------------------- groups */

static union lli_ip_address address_of(const char *text)
{
    union lli_ip_address address = {.any.sa_family = AF_INET};

    if (inet_pton(AF_INET, text, &address.v4.sin_addr) == 1)
        return address;
    address.any.sa_family = AF_INET6;
    if (inet_pton(AF_INET6, text, &address.v6.sin6_addr) != 1)
        fake_wrong("the test names %s", text);
    return address;
}

static struct membership *membership_find(const struct rdma_cm_id *id, const union lli_ip_address *address)
{
    for (struct membership *each = memberships; each != NULL; each = each->next)
        if (each->id == id && lli_ip_same(&each->address, address))
            return each;
    return NULL;
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *wanted, void *context)
{
    struct membership *membership;

    if (fake_fails(FAKE_CALL_JOIN)) {
        atomic_fetch_add(&fake.joins, 1);
        return -1;
    }
    membership = fake_zeroed(sizeof *membership);
    membership->id = id;
    memcpy(&membership->address, wanted->addr,
           wanted->addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    membership->flags = wanted->join_flags;
    membership->context = context;
    fake_events_lock();
    if (wanted->comp_mask != (RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
        membership_find(id, &membership->address) != NULL)
        fake_wrong("a group is joined twice");
    membership->next = memberships;
    memberships = membership;
    fake_born(FAKE_MEMBERSHIP);
    if (atomic_load(&fake.join) == FAKE_JOIN_YES)
        event_send(id, membership, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    else if (atomic_load(&fake.join) == FAKE_JOIN_NO)
        event_send(id, membership, RDMA_CM_EVENT_MULTICAST_ERROR, atomic_load(&fake.join_error));
    /* A test that has seen the join sends events to the membership. */
    atomic_fetch_add(&fake.joins, 1);
    fake_events_unlock();
    return 0;
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    struct membership *membership;
    union lli_ip_address address = {0};

    memcpy(&address, addr,
           addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    fake_events_lock();
    membership = membership_find(id, &address);
    if (membership == NULL) {
        fake_events_unlock();
        errno = EADDRNOTAVAIL;
        return -1;
    }
    events_drop(NULL, membership);
    fake_events_await(&membership->handled, "rdma_leave_multicast()");
    if (membership->attached)
        atomic_fetch_sub(&((struct fake_qp *)(void *)id->qp)->groups, 1);
    for (struct membership **link = &memberships; *link != NULL; link = &(*link)->next) {
        if (*link == membership) {
            *link = membership->next;
            break;
        }
    }
    fake_events_unlock();
    free(membership);
    fake_died(FAKE_MEMBERSHIP);
    return 0;
}

static struct membership *membership_named(const char *group, bool to_send)
{
    const union lli_ip_address address = address_of(group);
    const struct rdma_cm_id *id = &identifiers->id;

    /* An instance creates the sending one first. */
    return membership_find(to_send ? &identifiers->next->id : id, &address);
}

bool fake_group_event(const char *group, bool to_send, enum rdma_cm_event_type type, int status)
{
    struct membership *membership;

    fake_events_lock();
    membership = membership_named(group, to_send);
    if (membership != NULL)
        event_send(membership->id, membership, type, status);
    fake_events_unlock();
    return membership != NULL;
}

int fake_group_flags(const char *group, bool to_send)
{
    const struct membership *membership;
    int flags;

    fake_events_lock();
    membership = membership_named(group, to_send);
    flags = membership == NULL ? -1 : (int)membership->flags;
    fake_events_unlock();
    return flags;
}
