/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups: joins, leaves, and finding the group of a packet.
 *
 * The device identifies a group by its address alone, so a membership serves all ports. The control thread
 * reports the result of a join, for which the caller waits.
 */
#define _GNU_SOURCE
#include "roce.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "system/clock.h"

#define JOIN_SECONDS 5

/* -------------------------------------------------------------------------------------------- memberships */

static int member_join(struct lli_roce_member *member, bool to_send)
{
    struct rdma_cm_join_mc_attr_ex wanted = {
        .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
        .join_flags = to_send ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER : RDMA_MC_JOIN_FLAG_FULLMEMBER,
        .addr = &member->address.any,
    };

    return rdma_join_multicast_ex(member->id, &wanted, member);
}

/* Waits for the result of a join; true once the group is joined. */
static bool member_wait(struct lli_roce *roce, struct lli_roce_member *member)
{
    struct timespec until;
    enum lli_roce_membership state;

    timespec_get(&until, TIME_UTC);
    until.tv_sec += JOIN_SECONDS;
    pthread_mutex_lock(&roce->control.mutex);
    while (member->state == LLI_ROCE_JOINING && !atomic_load(&roce->gone))
        if (pthread_cond_timedwait(&roce->control.changed, &roce->control.mutex, &until) != 0)
            break;
    state = member->state;
    pthread_mutex_unlock(&roce->control.mutex);
    return state == LLI_ROCE_JOINED;
}

static void member_state_set(struct lli_roce *roce, struct lli_roce_member *member,
                             enum lli_roce_membership state)
{
    pthread_mutex_lock(&roce->control.mutex);
    member->state = state;
    pthread_mutex_unlock(&roce->control.mutex);
}

static enum lli_roce_membership member_state(struct lli_roce *roce, const struct lli_roce_member *member)
{
    enum lli_roce_membership state;

    pthread_mutex_lock(&roce->control.mutex);
    state = member->state;
    pthread_mutex_unlock(&roce->control.mutex);
    return state;
}

/* Logs why the group was not joined: refused, or timed out, in which case the event may still come. */
static int member_refused(struct lli_roce *roce, const struct lli_roce_member *member)
{
    char text[LLI_IP_TEXT_MAX];
    int number;

    if (atomic_load(&roce->gone))
        return lli_roce_fail_gone(roce);
    pthread_mutex_lock(&roce->control.mutex);
    number = member->state == LLI_ROCE_REFUSED ? member->status : 0;
    pthread_mutex_unlock(&roce->control.mutex);
    lli_ip_text(&member->address, text);
    if (number == 0)
        return lli_fail(roce->log, LLM_EGROUP,
                        "roce: device %s did not join group %s in %d s; see whether interface %s is up and "
                        "'rdma link' shows it ACTIVE",
                        roce->device.name, text, JOIN_SECONDS, roce->device.interface.name);
    return lli_fail(roce->log, LLM_EGROUP,
                    "roce: device %s cannot join group %s: %s; each device has a limit of groups, "
                    "'ibv_devinfo -v' shows max_mcast_grp",
                    roce->device.name, text, strerror(number));
}

/* Joins with a free membership. On failure it is free again. */
static int member_new(struct lli_roce *roce, struct lli_roce_member *member,
                      const union lli_ip_address *address, bool to_send)
{
    int status;

    pthread_mutex_lock(&roce->control.mutex);
    *member = (struct lli_roce_member){.state = LLI_ROCE_JOINING,
                                       .id = to_send ? roce->out.id : roce->in.id,
                                       .address = *address,
                                       .users = 1};
    lli_ip_port_set(&member->address, 0);
    pthread_mutex_unlock(&roce->control.mutex);
    pthread_mutex_lock(&roce->control.calls);
    if (member_join(member, to_send) != 0) {
        status = lli_roce_fail(roce, "join of a group");
    } else if (!member_wait(roce, member)) {
        status = member_refused(roce, member);
        rdma_leave_multicast(member->id, &member->address.any);
    } else {
        status = lli_roce_route_check(roce, &member->route);
        if (status != 0)
            rdma_leave_multicast(member->id, &member->address.any);
    }
    pthread_mutex_unlock(&roce->control.calls);
    if (status != 0)
        member_state_set(roce, member, LLI_ROCE_FREE);
    return status;
}

/* Returns the membership of a group, shared or new. */
static int member_find(struct lli_roce *roce, const union lli_ip_address *group, bool to_send,
                       struct lli_roce_member **found)
{
    struct lli_roce_member *members = roce->members[to_send ? 0 : 1];
    union lli_ip_address address = *group;
    struct lli_roce_member *unused = NULL;

    lli_ip_port_set(&address, 0);
    for (uint32_t i = 0; i < LLI_ROCE_GROUPS_MAX; i++) {
        if (members[i].users == 0) {
            unused = unused == NULL ? &members[i] : unused;
        } else if (lli_ip_same(&members[i].address, &address)) {
            members[i].users++;
            *found = &members[i];
            return 0;
        }
    }
    if (unused == NULL)
        return lli_fail(roce->log, LLM_ELIMIT,
                        "roce: more than %d groups on interface %s; use a second context",
                        LLI_ROCE_GROUPS_MAX, roce->device.interface.name);
    *found = unused;
    const int status = member_new(roce, unused, &address, to_send);
    if (status != 0)
        unused->users = 0;
    return status;
}

static void member_leave(struct lli_roce *roce, struct lli_roce_member *member)
{
    if (--member->users > 0)
        return;
    /* The control thread may be rejoining it. */
    pthread_mutex_lock(&roce->control.calls);
    member_state_set(roce, member, LLI_ROCE_FREE);
    if (!lli_roce_is_gone(roce))
        rdma_leave_multicast(member->id, &member->address.any);
    pthread_mutex_unlock(&roce->control.calls);
}

void lli_roce_leave_all(struct lli_roce *roce)
{
    pthread_mutex_lock(&roce->control.calls);
    for (uint32_t i = 0; i < 2 * LLI_ROCE_GROUPS_MAX; i++) {
        struct lli_roce_member *member = &roce->members[i / LLI_ROCE_GROUPS_MAX][i % LLI_ROCE_GROUPS_MAX];

        if (member_state(roce, member) != LLI_ROCE_FREE)
            rdma_leave_multicast(member->id, &member->address.any);
        member_state_set(roce, member, LLI_ROCE_FREE);
    }
    pthread_mutex_unlock(&roce->control.calls);
}

/*
 * Returns when to rejoin a lost membership, also after a rejoin without a result; LLI_NEVER if it is not
 * lost.
 */
static lli_ns member_retry_at(struct lli_roce *roce, const struct lli_roce_member *member)
{
    lli_ns at = LLI_NEVER;

    pthread_mutex_lock(&roce->control.mutex);
    if (member->state == LLI_ROCE_LOST)
        at = member->retry_at;
    else if (member->state == LLI_ROCE_JOINING && member->retry_at > 0)
        at = member->retry_at + JOIN_SECONDS * LLI_ROCE_SECOND;
    pthread_mutex_unlock(&roce->control.mutex);
    return at;
}

static void member_join_again(struct lli_roce *roce, struct lli_roce_member *member, bool to_send, lli_ns now)
{
    rdma_leave_multicast(member->id, &member->address.any);
    pthread_mutex_lock(&roce->control.mutex);
    member->retry_at = now + LLI_ROCE_SECOND;
    member->state = LLI_ROCE_JOINING;
    pthread_mutex_unlock(&roce->control.mutex);
    if (member_join(member, to_send) != 0)
        member_state_set(roce, member, LLI_ROCE_LOST);
}

lli_ns lli_roce_rejoin(struct lli_roce *roce, lli_ns now)
{
    lli_ns next = LLI_NEVER;

    if (atomic_load(&roce->counters.groups_lost) == 0)
        return next;
    for (uint32_t i = 0; i < 2 * LLI_ROCE_GROUPS_MAX; i++) {
        const bool to_send = i < LLI_ROCE_GROUPS_MAX;
        struct lli_roce_member *member = &roce->members[to_send ? 0 : 1][i % LLI_ROCE_GROUPS_MAX];
        lli_ns retry_at = member_retry_at(roce, member);

        if (retry_at == LLI_NEVER)
            continue;
        if (now >= retry_at && pthread_mutex_trylock(&roce->control.calls) == 0) {
            /*
             * Check again under the lock: only this thread marks memberships lost, and ending one requires
             * the lock.
             */
            if (member_retry_at(roce, member) <= now)
                member_join_again(roce, member, to_send, now);
            retry_at = now + LLI_ROCE_SECOND;
            pthread_mutex_unlock(&roce->control.calls);
        }
        next = lli_min(next, lli_max(retry_at, now + LLI_ROCE_SECOND / 10));
    }
    return next;
}

/* ------------------------------------------------------------------------------------------ joins to send */

/*
 * Sets the route of a join to send. Creating the address handle is a system call, which may take time here.
 */
static int sender_route(struct lli_roce *roce, struct lli_roce_sender *sender, const struct lli_group *group)
{
    struct ibv_ah_attr route;

    /* The control thread may be rejoining the group. */
    pthread_mutex_lock(&roce->control.mutex);
    route = sender->member->route;
    sender->qp_number = sender->member->qp_number;
    sender->qkey = sender->member->qkey;
    pthread_mutex_unlock(&roce->control.mutex);
    route.grh.hop_limit = (uint8_t)group->options->ttl;
    route.grh.traffic_class = 0;
    sender->handle = ibv_create_ah(roce->device.domain, &route);
    if (sender->handle == NULL)
        return lli_roce_fail(roce, "an address handle");
    sender->note = htonl(LLI_ROCE_MARK | (group->options->loop ? 0 : LLI_ROCE_NO_LOOP) | group->port);
    return 0;
}

static int join_send(struct lli_roce *roce, const union lli_ip_address *address,
                     const struct lli_group *group, lli_handle *handle)
{
    for (uint32_t i = 0; i < LLI_ROCE_GROUPS_MAX; i++) {
        struct lli_roce_sender *sender = &roce->out.senders[i];
        struct lli_roce_member *member;
        int status;

        if (sender->member != NULL)
            continue;
        if ((status = member_find(roce, address, true, &member)) != 0)
            return status;
        sender->member = member;
        if ((status = sender_route(roce, sender, group)) != 0) {
            member_leave(roce, member);
            sender->member = NULL;
        } else {
            *handle = i;
        }
        return status;
    }
    return lli_fail(roce->log, LLM_ELIMIT,
                    "roce: more than %d joins to send on interface %s; use a second context",
                    LLI_ROCE_GROUPS_MAX, roce->device.interface.name);
}

static void leave_send(struct lli_roce *roce, lli_handle handle)
{
    struct lli_roce_sender *sender = &roce->out.senders[handle];

    for (uint64_t number = roce->out.posted; number != roce->out.taken; number++)
        if (roce->out.to[number & roce->out.mask] == handle)
            lli_roce_lose(roce, number);
    /* Wait for packets that use the handle. */
    lli_roce_drain(roce);
    if (!lli_roce_is_gone(roce)) {
        ibv_destroy_ah(sender->handle);
        sender->handle = NULL;
    }
    member_leave(roce, sender->member);
    sender->member = NULL;
}

/* --------------------------------------------------------------------------------------- joins to receive */

static void buckets_fill(struct lli_roce *roce)
{
    memset(roce->in.buckets, 0, sizeof roce->in.buckets);
    for (uint32_t i = 0; i < LLI_ROCE_GROUPS_MAX; i++) {
        const struct lli_roce_receiver *receiver = &roce->in.receivers[i];
        uint32_t at = lli_roce_bucket(&receiver->group, receiver->port);

        if (receiver->member == NULL)
            continue;
        while (roce->in.buckets[at] != 0)
            at = (at + 1) % LLI_ROCE_BUCKETS;
        roce->in.buckets[at] = (uint16_t)(i + 1);
    }
}

static int source_find(const struct lli_roce *roce, const struct llm_options *options,
                       struct lli_roce_gid *source)
{
    union lli_ip_address address;
    int status = 0;

    *source = (struct lli_roce_gid){0};
    if (options->source[0] == '\0')
        return 0;
    status = lli_ip_resolve(roce->log, "roce", LLM_EOPTION, "source", options->source,
                            roce->v4 ? AF_INET : AF_INET6, &address);
    if (status == 0)
        *source = lli_roce_gid_of(&address);
    return status;
}

static int join_receive(struct lli_roce *roce, const union lli_ip_address *address,
                        const struct lli_group *group, lli_handle *handle)
{
    struct lli_roce_receiver *unused = NULL;
    struct lli_roce_receiver wanted = {.users = 1, .port = group->port, .group = lli_roce_gid_of(address)};
    int status = source_find(roce, group->options, &wanted.source);

    for (uint32_t i = 0; i < LLI_ROCE_GROUPS_MAX && status == 0; i++) {
        struct lli_roce_receiver *receiver = &roce->in.receivers[i];

        if (receiver->member == NULL) {
            unused = unused == NULL ? receiver : unused;
        } else if (receiver->port == wanted.port && lli_roce_gid_same(&receiver->group, &wanted.group)) {
            if (!lli_roce_gid_same(&receiver->source, &wanted.source))
                return lli_fail(roce->log, LLM_EOPTION,
                                "roce: source=%s: group '%s' port %u is joined with another source "
                                "already; use a second context",
                                group->options->source, group->host, group->port);
            receiver->users++;
            *handle = i;
            return 0;
        }
    }
    if (status == 0 && unused == NULL)
        status =
            lli_fail(roce->log, LLM_ELIMIT, "roce: more than %d groups on interface %s; use a second context",
                     LLI_ROCE_GROUPS_MAX, roce->device.interface.name);
    if (status != 0 || (status = member_find(roce, address, false, &wanted.member)) != 0)
        return status;
    *unused = wanted;
    *handle = (lli_handle)(unused - roce->in.receivers);
    buckets_fill(roce);
    return 0;
}

static void leave_receive(struct lli_roce *roce, lli_handle handle)
{
    struct lli_roce_receiver *receiver = &roce->in.receivers[handle];
    struct lli_roce_member *member = receiver->member;

    if (--receiver->users > 0)
        return;
    *receiver = (struct lli_roce_receiver){0};
    buckets_fill(roce);
    member_leave(roce, member);
}

/* -------------------------------------------------------------------------------------------- join, leave */

int lli_roce_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle)
{
    struct lli_roce *roce = instance;
    union lli_ip_address address;
    int status;

    if (lli_roce_is_gone(roce))
        return lli_roce_fail_gone(roce);
    status = lli_ip_group_resolve(roce->log, "roce", group->host, roce->v4 ? AF_INET : AF_INET6, &address);
    if (status != 0)
        return status;
    if (group->port == 0)
        return lli_fail(roce->log, LLM_EGROUP, "roce: group '%s' has port 0: take one of 1 to 65535",
                        group->host);
    if (!roce->v4)
        address.v6.sin6_scope_id = (uint32_t)roce->device.interface.index;
    return mode == LLI_JOIN_SEND ? join_send(roce, &address, group, handle)
                                 : join_receive(roce, &address, group, handle);
}

void lli_roce_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    if (mode == LLI_JOIN_SEND)
        leave_send(instance, handle);
    else
        leave_receive(instance, handle);
}
