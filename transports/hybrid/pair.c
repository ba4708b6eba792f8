/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "pair.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/types.h"

enum { PARTS = LLI_PAIR_PARTS };

enum { PAIR_GIVE = 64 }; /* packets passed to a part at a time */

/* ----------------------------------------------------------------------------------------- open and close */

int lli_pair_init(struct lli_pair *pair, const struct lli_transport_config *config, const char *name,
                  uint64_t second_bit)
{
    const uint32_t peers = (uint32_t)lli_max(LLI_PAIR_PEERS_MIN, (uint64_t)config->options->receivers_max +
                                                                     config->options->sessions_max);

    pair->log = config->log;
    pair->name = name;
    pair->second_bit = second_bit;
    pair->epoll = -1;
    pair->peer = calloc(peers, sizeof *pair->peer);
    if (pair->peer == NULL || lli_peers_init(&pair->peers, peers) != 0)
        return lli_fail(pair->log, LLM_ENOMEM, "%s: no memory for an instance", config->scheme);
    pair->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (pair->epoll < 0)
        return lli_fail(pair->log, LLM_ESYSTEM, "%s: epoll: %m; raise the limit of open files, 'ulimit -n'",
                        config->scheme);
    return LLM_OK;
}

int lli_pair_open_part(struct lli_pair *pair, int which, const struct lli_transport_config *config)
{
    struct lli_pair_part *part = &pair->part[which];
    const size_t size = lli_round_up(part->transport->size, 64);
    struct epoll_event event = {.events = EPOLLIN};
    int error;

    part->instance = aligned_alloc(64, size);
    if (part->instance == NULL)
        return lli_fail(pair->log, LLM_ENOMEM, "%s: no memory for an instance", config->scheme);
    memset(part->instance, 0, size);
    error = part->transport->open(part->instance, config, &part->caps);
    if (error != LLM_OK) {
        free(part->instance);
        part->instance = NULL;
        return error;
    }
    if (epoll_ctl(pair->epoll, EPOLL_CTL_ADD, part->transport->arm(part->instance), &event) != 0)
        return lli_fail(pair->log, LLM_ESYSTEM, "%s: epoll: %m", config->scheme);
    return LLM_OK;
}

/* Frees everything but the parts' own resources. */
static void pair_free(struct lli_pair *pair)
{
    for (int i = 0; i < PARTS; i++)
        free(pair->part[i].instance);
    if (pair->epoll >= 0)
        close(pair->epoll);
    lli_peers_fini(&pair->peers);
    free(pair->peer);
}

void lli_pair_close(void *instance)
{
    struct lli_pair *pair = instance;

    for (int i = 0; i < PARTS; i++)
        if (pair->part[i].instance != NULL)
            pair->part[i].transport->close(pair->part[i].instance);
    pair_free(pair);
}

void lli_pair_abandon(void *instance)
{
    struct lli_pair *pair = instance;

    for (int i = 0; i < PARTS; i++)
        pair->part[i].transport->abandon(pair->part[i].instance);
    pair_free(pair);
}

/* ------------------------------------------------------------------------------------------------- memory */

/* Declares memory to every part but one. */
static int pair_region_others(struct lli_pair *pair, const struct lli_pair_part *except, void *base,
                              size_t size)
{
    int error = LLM_OK;

    for (int i = 0; i < PARTS && error == LLM_OK; i++) {
        const struct lli_pair_part *part = &pair->part[i];

        if (part != except && part->transport->region != NULL)
            error = part->transport->region(part->instance, base, size);
    }
    return error;
}

int lli_pair_region(void *instance, void *base, size_t size)
{
    return pair_region_others(instance, NULL, base, size);
}

/* The ring of one part, from which the other posts as from any memory. */
int lli_pair_region_map(void *instance, lli_handle to, size_t size, struct lli_region *region)
{
    struct lli_pair *pair = instance;

    *region = (struct lli_region){.base = NULL};
    for (int i = 0; i < PARTS; i++) {
        const struct lli_pair_part *part = &pair->part[i];
        int error;

        if (part->transport->region_map == NULL)
            continue;
        error = part->transport->region_map(part->instance, pair->senders[to].handle[i], size, region);
        if (error != LLM_OK)
            return error;
        if (region->base != NULL)
            return pair_region_others(pair, part, region->base, size);
    }
    return LLM_OK;
}

void lli_pair_region_end(void *instance, void *base, size_t size)
{
    struct lli_pair *pair = instance;

    for (uint64_t i = pair->done; i < pair->taken; i++) {
        struct lli_out *out = &pair->out[i % LLI_PAIR_POST_MAX].out;

        if ((uintptr_t)out->data - (uintptr_t)base < size)
            out->to = LLI_PAIR_LOST;
    }
    for (int i = 0; i < PARTS; i++)
        pair->part[i].transport->region_end(pair->part[i].instance, base, size);
}

/* ----------------------------------------------------------------------------------------- join and leave */

/* True if a group to receive from is joined on one part, with another group on the other. */
static bool join_differs(const struct lli_pair_join *joins, const lli_handle *handle, enum lli_join_mode mode)
{
    for (uint32_t i = 0; i < LLI_PAIR_JOINS_MAX && mode == LLI_JOIN_RECEIVE; i++)
        if (joins[i].users > 0 && (joins[i].handle[0] == handle[0]) != (joins[i].handle[1] == handle[1]))
            return true;
    return false;
}

/* Finds a place for a pair of joins; repeated receive joins share their place. */
static uint32_t join_place(const struct lli_pair_join *joins, const lli_handle *handle,
                           enum lli_join_mode mode)
{
    uint32_t unused = LLI_PAIR_JOINS_MAX;

    for (uint32_t i = 0; i < LLI_PAIR_JOINS_MAX; i++) {
        if (joins[i].users == 0)
            unused = unused == LLI_PAIR_JOINS_MAX ? i : unused;
        else if (mode == LLI_JOIN_RECEIVE && memcmp(joins[i].handle, handle, sizeof joins[i].handle) == 0)
            return i;
    }
    return unused;
}

int lli_pair_join(struct lli_pair *pair, const struct lli_group *const groups[PARTS], enum lli_join_mode mode,
                  lli_handle *handle)
{
    struct lli_pair_join *joins = mode == LLI_JOIN_SEND ? pair->senders : pair->receivers;
    lli_handle inner[PARTS];
    uint32_t place = LLI_PAIR_JOINS_MAX;
    int error = LLM_OK, joined = PARTS;

    while (joined > 0 && error == LLM_OK) {
        const struct lli_pair_part *part = &pair->part[joined - 1];

        error = part->transport->join(part->instance, groups[joined - 1], mode, &inner[joined - 1]);
        joined -= error == LLM_OK;
    }
    if (error == LLM_OK) {
        place = join_place(joins, inner, mode);
        if (join_differs(joins, inner, mode))
            error =
                lli_fail(pair->log, LLM_EGROUP,
                         "%s: one of the groups %s and %s is joined with another: use the same two groups in "
                         "all channels of a context",
                         pair->name, groups[0]->host, groups[1]->host);
        else if (place == LLI_PAIR_JOINS_MAX)
            error = lli_fail(pair->log, LLM_ELIMIT, "%s: more than %d joins; use a second context",
                             pair->name, LLI_PAIR_JOINS_MAX);
    }
    if (error != LLM_OK || place == LLI_PAIR_JOINS_MAX) {
        for (int i = joined; i < PARTS; i++)
            pair->part[i].transport->leave(pair->part[i].instance, inner[i], mode);
        return error;
    }
    memcpy(joins[place].handle, inner, sizeof inner);
    joins[place].users++;
    if (mode == LLI_JOIN_RECEIVE)
        pair->receivers_used = (uint32_t)lli_max(pair->receivers_used, place + 1);
    *handle = place;
    return LLM_OK;
}

void lli_pair_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct lli_pair *pair = instance;
    struct lli_pair_join *join = mode == LLI_JOIN_SEND ? &pair->senders[handle] : &pair->receivers[handle];

    for (uint64_t i = pair->done; i < pair->taken && mode == LLI_JOIN_SEND; i++) {
        struct lli_out *out = &pair->out[i % LLI_PAIR_POST_MAX].out;

        if (!(out->to & LLI_PAIR_PEER) && (out->to & ~LLI_PAIR_ONLY) == handle)
            out->to = LLI_PAIR_LOST;
    }
    join->users--;
    for (int i = 0; i < PARTS; i++)
        pair->part[i].transport->leave(pair->part[i].instance, join->handle[i], mode);
}

void lli_pair_forget(void *instance, const struct lli_address *address)
{
    struct lli_pair *pair = instance;
    uint32_t place;

    for (int i = 0; i < PARTS; i++)
        if (pair->part[i].transport->forget != NULL)
            pair->part[i].transport->forget(pair->part[i].instance, address);
    if (lli_peers_remove(&pair->peers, address, &place))
        pair->peer[place].known = false;
}

bool lli_pair_came_from(const struct lli_pair *pair, const struct lli_in *packet,
                        const struct lli_address *address)
{
    const int which = lli_pair_part_of(pair, packet);
    const struct lli_pair_part *part = &pair->part[which];
    struct lli_in inner = *packet;

    if (part->transport->came_from == NULL)
        return true;
    inner.buffer &= ~pair->second_bit;
    if (packet->from != LLI_HANDLE_UNICAST)
        inner.from = pair->receivers[packet->from].handle[which];
    return part->transport->came_from(part->instance, &inner, address);
}

const struct lli_transport *lli_pair_inner(const void *instance, int index, const void **inner_instance)
{
    const struct lli_pair *pair = instance;

    if (index >= PARTS)
        return NULL;
    *inner_instance = pair->part[index].instance;
    return pair->part[index].transport;
}

/* ------------------------------------------------------------------------------------------------ sending */

int lli_pair_post(void *instance, const struct lli_out *packets, int count)
{
    struct lli_pair *pair = instance;
    const int room = LLI_PAIR_POST_MAX - (int)(pair->taken - pair->done);
    const int taken = count < room ? count : room;

    for (int i = 0; i < taken; i++)
        pair->out[pair->taken++ % LLI_PAIR_POST_MAX].out = packets[i];
    return taken;
}

/* Translates a packet for a part. False: the part does not send it. */
static bool give_translate(const struct lli_pair *pair, int which, const struct lli_out *out,
                           struct lli_out *inner)
{
    const struct lli_pair_peer *peer;

    *inner = *out;
    if (out->to == LLI_PAIR_LOST)
        return false;
    if (!(out->to & LLI_PAIR_PEER)) {
        const lli_handle only = (out->to & LLI_PAIR_ONLY) >> LLI_PAIR_ONLY_SHIFT;

        inner->to = pair->senders[out->to & ~LLI_PAIR_ONLY].handle[which];
        return only == 0 || only == (lli_handle)which + 1;
    }
    peer = &pair->peer[out->to & ~LLI_PAIR_PEER];
    inner->to = peer->handle;
    return peer->part == which;
}

/* Offers the next packets to a part. False: the part is full. */
static bool give_some(struct lli_pair *pair, int which)
{
    struct lli_pair_part *part = &pair->part[which];
    struct lli_out inner[PAIR_GIVE];
    uint64_t at[PAIR_GIVE];
    uint64_t end = part->given;
    int count = 0, taken = 0;

    while (end < pair->taken && count < PAIR_GIVE) {
        if (give_translate(pair, which, &pair->out[end % LLI_PAIR_POST_MAX].out, &inner[count]))
            at[count++] = end;
        end++;
    }
    if (count > 0)
        taken = part->transport->post(part->instance, inner, count);
    if (taken < count)
        end = at[taken];
    for (int i = 0; part->given < end; part->given++) {
        if (i < taken && at[i] == part->given) {
            part->posted++;
            i++;
        }
        pair->out[part->given % LLI_PAIR_POST_MAX].mark[which] = part->posted;
    }
    return taken == count;
}

void lli_pair_give(struct lli_pair *pair, int which)
{
    struct lli_pair_part *part = &pair->part[which];

    part->stuck = false;
    while (part->given < pair->taken) {
        if (give_some(pair, which))
            continue;
        part->stuck = part->transport->flush(part->instance) != LLM_OK;
        if (part->stuck)
            return;
    }
    part->stuck = part->transport->flush(part->instance) != LLM_OK;
}

bool lli_pair_pass_over(struct lli_pair *pair, int which)
{
    struct lli_pair_part *part = &pair->part[which];
    struct lli_pair_out *out = &pair->out[part->given % LLI_PAIR_POST_MAX];
    struct lli_out inner;

    assert(part->given < pair->taken);
    part->given++;
    out->mark[which] = part->posted;
    return give_translate(pair, which, &out->out, &inner);
}

uint64_t lli_pair_reap(void *instance)
{
    struct lli_pair *pair = instance;
    const uint64_t end = lli_min(pair->part[0].given, pair->part[1].given);
    uint64_t reaped[PARTS];

    if (pair->done == end)
        return pair->done;
    for (int i = 0; i < PARTS; i++)
        reaped[i] = pair->part[i].transport->reap(pair->part[i].instance);
    for (; pair->done < end; pair->done++) {
        const struct lli_pair_out *out = &pair->out[pair->done % LLI_PAIR_POST_MAX];

        if (out->mark[0] > reaped[0] || out->mark[1] > reaped[1])
            break;
    }
    return pair->done;
}

int lli_pair_flush(void *instance)
{
    struct lli_pair *pair = instance;

    lli_pair_give(pair, 0);
    lli_pair_give(pair, 1);
    (void)lli_pair_reap(pair);
    return pair->part[0].stuck || pair->part[1].stuck ? LLM_EAGAIN : LLM_OK;
}

/* ---------------------------------------------------------------------------------------------- receiving */

static lli_handle receive_from(const struct lli_pair *pair, int which, lli_handle inner)
{
    uint32_t place = 0;

    if (inner == LLI_HANDLE_UNICAST)
        return inner;
    while (place < pair->receivers_used &&
           (pair->receivers[place].users == 0 || pair->receivers[place].handle[which] != inner))
        place++;
    assert(place < pair->receivers_used);
    return place;
}

int lli_pair_receive(struct lli_pair *pair, int which, struct lli_in *packets, int max)
{
    const struct lli_pair_part *part = &pair->part[which];
    const int count = part->transport->receive(part->instance, packets, max);

    for (int i = 0; i < count; i++) {
        assert(!(packets[i].buffer & pair->second_bit));
        packets[i].from = receive_from(pair, which, packets[i].from);
        packets[i].buffer |= which == 1 ? pair->second_bit : 0;
    }
    return count;
}

void lli_pair_release(void *instance, const struct lli_in *packets, int count)
{
    const struct lli_pair *pair = instance;

    for (int i = 0; i < count; i++) {
        const struct lli_pair_part *part = &pair->part[lli_pair_part_of(pair, &packets[i])];
        struct lli_in inner = packets[i];

        inner.buffer &= ~pair->second_bit;
        part->transport->release(part->instance, &inner, 1);
    }
}

int lli_pair_arm(void *instance)
{
    struct lli_pair *pair = instance;

    for (int i = 0; i < PARTS; i++)
        pair->part[i].transport->arm(pair->part[i].instance);
    return pair->epoll;
}
