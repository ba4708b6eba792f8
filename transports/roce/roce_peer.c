/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of other instances and their address handles.
 *
 * Creating a handle is a system call that resolves the neighbour, for up to a second: the control thread does
 * it, one at a time. Until then the caller gets LLM_EAGAIN. A handle is destroyed once its address was
 * forgotten and no packet uses it.
 */
#include "roce.h"

#include <arpa/inet.h>
#include <string.h>

#include "system/clock.h"

/* Packed address: tag, GID, queue pair number, queue key; in network order. */
enum {
    PACKED_TAG = 'r',
    PACKED_GID = 1,
    PACKED_QP = PACKED_GID + 16,
    PACKED_QKEY = PACKED_QP + 4,
    PACKED_BYTES = PACKED_QKEY + 4,
    QP_MAX = 0xfffffe, /* the next number means multicast */
};

#define QKEY_PRIVILEGED ((uint32_t)1 << 31)

static void pack_u32(uint8_t *to, uint32_t value)
{
    value = htonl(value);
    memcpy(to, &value, sizeof value);
}

static uint32_t unpack_u32(const uint8_t *from)
{
    uint32_t value;

    memcpy(&value, from, sizeof value);
    return ntohl(value);
}

int lli_roce_address(void *instance, struct lli_address *address)
{
    const struct lli_roce *roce = instance;

    if (atomic_load(&roce->gone))
        return lli_roce_fail_gone(roce);
    memset(address, 0, sizeof *address);
    address->size = PACKED_BYTES;
    address->bytes[0] = PACKED_TAG;
    memcpy(address->bytes + PACKED_GID, roce->device.gid.raw, sizeof roce->device.gid.raw);
    pack_u32(address->bytes + PACKED_QP, roce->in.qp->qp_num);
    pack_u32(address->bytes + PACKED_QKEY, RDMA_UDP_QKEY);
    return 0;
}

bool lli_roce_address_gid(const struct lli_address *address, struct lli_roce_gid *gid)
{
    if (address->size != PACKED_BYTES || address->bytes[0] != PACKED_TAG)
        return false;
    memcpy(gid, address->bytes + PACKED_GID, sizeof *gid);
    return true;
}

/* Returns true if a GID is that of a single host on our interface's network. */
static bool peer_gid_acceptable(const struct lli_roce *roce, const uint8_t *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    union lli_ip_address address = {.any.sa_family = roce->v4 ? AF_INET : AF_INET6};

    if ((memcmp(gid, mapped, sizeof mapped) == 0) != roce->v4)
        return false;
    if (roce->v4)
        memcpy(&address.v4.sin_addr, gid + 12, 4);
    else
        memcpy(&address.v6.sin6_addr, gid, 16);
    return lli_ip_is_host(&roce->device.interface, &address);
}

static bool peer_unpack(const struct lli_roce *roce, const struct lli_address *packed,
                        struct lli_roce_peer *peer)
{
    if (packed->size != PACKED_BYTES || packed->bytes[0] != PACKED_TAG)
        return false;
    memcpy(peer->gid.raw, packed->bytes + PACKED_GID, sizeof peer->gid.raw);
    peer->qp_number = unpack_u32(packed->bytes + PACKED_QP);
    peer->qkey = unpack_u32(packed->bytes + PACKED_QKEY);
    return peer->qp_number > 1 && peer->qp_number <= QP_MAX && (peer->qkey & QKEY_PRIVILEGED) == 0 &&
           peer_gid_acceptable(roce, peer->gid.raw);
}

/* ------------------------------------------------------------------------------------------- forgetting */

static void peer_end(struct lli_roce *roce, uint32_t place)
{
    struct lli_roce_peer *peer = &roce->peers.routes[place];

    if (peer->handle != NULL)
        ibv_destroy_ah(peer->handle);
    peer->handle = NULL;
    atomic_store_explicit(&peer->state, LLI_ROCE_PEER_NEW, memory_order_relaxed);
    (void)lli_peers_remove(&roce->peers.table, &roce->peers.table.addresses[place], &place);
    roce->counters.peers_forgotten++;
}

/* Frees the places of forgotten addresses that are no longer in use. */
static void peers_sweep(struct lli_roce *roce)
{
    if (roce->peers.leaving == 0)
        return;
    (void)lli_roce_reap(roce);
    if (lli_roce_is_gone(roce))
        return;
    for (uint32_t place = 0; place < roce->peers.table.count && roce->peers.leaving > 0; place++) {
        const struct lli_roce_peer *peer = &roce->peers.routes[place];
        const int state = atomic_load_explicit(&peer->state, memory_order_acquire);

        if (state != LLI_ROCE_PEER_LEFT &&
            (state != LLI_ROCE_PEER_LEAVING || roce->out.done < peer->leave_at))
            continue;
        roce->peers.leaving--;
        peer_end(roce, place);
    }
}

static bool peer_moves(struct lli_roce_peer *peer, int *from, enum lli_roce_peer_state to)
{
    return atomic_compare_exchange_strong_explicit(&peer->state, from, (int)to, memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* Frees a place, or marks it to be freed once nothing uses it. */
static void peer_leave(struct lli_roce *roce, uint32_t place)
{
    struct lli_roce_peer *peer = &roce->peers.routes[place];
    int state = atomic_load_explicit(&peer->state, memory_order_acquire);

    /* The control thread may start or finish concurrently: then state is the new state. */
    if (state == LLI_ROCE_PEER_WANTED && peer_moves(peer, &state, LLI_ROCE_PEER_NEW))
        state = LLI_ROCE_PEER_NEW;
    if (state == LLI_ROCE_PEER_MAKING && peer_moves(peer, &state, LLI_ROCE_PEER_UNWANTED)) {
        roce->peers.leaving++;
    } else if (state == LLI_ROCE_PEER_READY) {
        peer->leave_at = roce->out.taken;
        atomic_store_explicit(&peer->state, LLI_ROCE_PEER_LEAVING, memory_order_relaxed);
        roce->peers.leaving++;
    } else if (state == LLI_ROCE_PEER_NEW || state == LLI_ROCE_PEER_FAILED) {
        peer_end(roce, place);
    }
}

void lli_roce_forget(void *instance, const struct lli_address *packed)
{
    struct lli_roce *roce = instance;
    uint32_t place;

    if (lli_roce_is_gone(roce))
        return; /* the control thread releases everything */
    if (lli_peers_get(&roce->peers.table, packed, &place))
        peer_leave(roce, place);
    peers_sweep(roce);
}

/* ---------------------------------------------------------------------------------------------- lookup */

/* Returns the place of an address. LLM_EAGAIN if places are about to be freed. */
static int peer_place(struct lli_roce *roce, const struct lli_address *packed, uint32_t *place)
{
    if (lli_peers_place(&roce->peers.table, packed, place) == 0)
        return 0;
    peers_sweep(roce);
    if (lli_peers_place(&roce->peers.table, packed, place) == 0)
        return 0;
    roce->counters.peers_full++;
    return roce->peers.leaving > 0 ? LLM_EAGAIN : LLM_ELIMIT;
}

/* Revives a forgotten address whose place was not freed yet. Returns its new state. */
static int peer_come_back(struct lli_roce *roce, struct lli_roce_peer *peer, int state)
{
    if (state < LLI_ROCE_PEER_UNWANTED)
        return state;
    roce->peers.leaving--;
    if (state == LLI_ROCE_PEER_LEAVING) {
        atomic_store_explicit(&peer->state, LLI_ROCE_PEER_READY, memory_order_relaxed);
        return LLI_ROCE_PEER_READY;
    }
    if (state == LLI_ROCE_PEER_UNWANTED && peer_moves(peer, &state, LLI_ROCE_PEER_MAKING))
        return LLI_ROCE_PEER_MAKING;
    return LLI_ROCE_PEER_NEW;
}

int lli_roce_peer(void *instance, const struct lli_address *packed, lli_handle *handle)
{
    struct lli_roce *roce = instance;
    struct lli_roce_peer wanted = {.state = LLI_ROCE_PEER_NEW};
    struct lli_roce_peer *peer;
    uint32_t place;
    int state, status;

    if (!peer_unpack(roce, packed, &wanted))
        return LLM_EINVAL;
    if ((status = peer_place(roce, packed, &place)) != 0)
        return status;
    peer = &roce->peers.routes[place];
    state = peer_come_back(roce, peer, atomic_load_explicit(&peer->state, memory_order_acquire));
    if (state == LLI_ROCE_PEER_READY) {
        *handle = LLI_ROCE_PEER | place;
        return 0;
    }
    if (state == LLI_ROCE_PEER_WANTED || state == LLI_ROCE_PEER_MAKING ||
        (state == LLI_ROCE_PEER_FAILED && lli_clock_ns() < peer->retry_at))
        return LLM_EAGAIN;
    peer->gid = wanted.gid;
    peer->qp_number = wanted.qp_number;
    peer->qkey = wanted.qkey;
    atomic_store_explicit(&peer->state, LLI_ROCE_PEER_WANTED, memory_order_release);
    lli_roce_control_wake(roce);
    return LLM_EAGAIN;
}

/* ----------------------------------------------------------------------------------------- control thread */

static struct ibv_ah *peer_handle(struct lli_roce *roce, const struct lli_roce_peer *peer)
{
    struct ibv_ah_attr route = {
        .is_global = 1,
        .port_num = roce->device.port,
        .grh = {.dgid = peer->gid, .sgid_index = roce->device.gid_index, .hop_limit = 64},
    };

    return ibv_create_ah(roce->device.domain, &route);
}

static void peer_make(struct lli_roce *roce, struct lli_roce_peer *peer)
{
    struct ibv_ah *handle = peer_handle(roce, peer);
    int state;

    if (handle == NULL)
        atomic_fetch_add(&roce->counters.peer_errors, 1);
    peer->retry_at = lli_clock_ns() + LLI_ROCE_SECOND;
    do {
        state = LLI_ROCE_PEER_MAKING;
        peer->handle = handle;
        if (peer_moves(peer, &state, handle != NULL ? LLI_ROCE_PEER_READY : LLI_ROCE_PEER_FAILED))
            return;
        /* Forgotten meanwhile, unless it is requested again at this moment. */
        peer->handle = NULL;
    } while (!peer_moves(peer, &state, LLI_ROCE_PEER_LEFT));
    if (handle != NULL)
        ibv_destroy_ah(handle);
}

void lli_roce_peers_resolve(struct lli_roce *roce)
{
    for (uint32_t place = 0; place < roce->peers.table.max; place++) {
        struct lli_roce_peer *peer = &roce->peers.routes[place];
        int state = atomic_load_explicit(&peer->state, memory_order_relaxed);

        if (state == LLI_ROCE_PEER_WANTED && peer_moves(peer, &state, LLI_ROCE_PEER_MAKING))
            peer_make(roce, peer);
    }
}
