/* SPDX-License-Identifier: Apache-2.0 */
/* Data operations of the RoCE transport, and its table. */
#include "roce.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>

enum { DRY_PACKETS = 1024 }; /* so many may have been dropped each time that the receive queue ran dry: nobody counts them */

/* ---------------------------------------------------------------------------------------------------- sending */

/* The registration of the memory that a packet lies in, or NULL. */
static const struct lli_roce_region *send_region(struct lli_roce *roce, uintptr_t at)
{
    if (roce->region != NULL && at - roce->region->base < roce->region->size)
        return roce->region;
    for (uint32_t i = 0; i < LLI_ROCE_REGIONS_MAX; i++)
        if (at - roce->regions[i].base < roce->regions[i].size)
            return roce->region = &roce->regions[i];
    return NULL;
}

static void send_address(const struct lli_roce *roce, struct ibv_send_wr *send, lli_handle to)
{
    const uint32_t place = to & ~LLI_ROCE_PEER;

    if (to & LLI_ROCE_PEER) {
        const struct lli_roce_peer *peer = &roce->peer_routes[place];

        assert(place < roce->peers.count && peer->handle != NULL);
        send->wr.ud.ah = peer->handle;
        send->wr.ud.remote_qpn = peer->qp_number;
        send->wr.ud.remote_qkey = peer->qkey;
        send->imm_data = htonl(LLI_ROCE_MARK);
    } else {
        const struct lli_roce_sender *sender = &roce->senders[place];

        assert(place < LLI_ROCE_GROUPS_MAX);
        send->wr.ud.ah = sender->handle;
        send->wr.ud.remote_qpn = sender->qp_number;
        send->wr.ud.remote_qkey = sender->qkey;
        send->imm_data = sender->note;
    }
}

static void send_queue(struct lli_roce *roce, const struct lli_out *packet)
{
    const uint32_t slot = (uint32_t)roce->taken & roce->send_mask;
    const struct lli_roce_region *region = NULL;
    struct ibv_send_wr *send = &roce->sends[slot];
    struct ibv_sge *piece = &roce->send_pieces[slot];

    roce->send_to[slot] = packet->to;
    roce->send_kinds[slot] = LLI_ROCE_OUT_LOST;
    send->wr_id = roce->taken++;
    send->send_flags = 0;
    piece->addr = (uintptr_t)packet->data;
    piece->length = packet->size;
    if (packet->size > roce->payload_max)
        return; /* devices drop it without a word, or stop */
    if (packet->size <= roce->inline_max) {
        send->send_flags = IBV_SEND_INLINE;
        roce->send_kinds[slot] = LLI_ROCE_OUT_COPIED;
    } else if ((region = send_region(roce, (uintptr_t)packet->data)) != NULL) {
        piece->lkey = region->registration->lkey;
        roce->send_kinds[slot] = LLI_ROCE_OUT_READ;
    }
    send_address(roce, send, packet->to);
}

static uint64_t send_room(const struct lli_roce *roce)
{
    return lli_min(LLI_ROCE_POST_MAX - (roce->taken - roce->posted), roce->send_mask + 1 - (roce->taken - roce->done));
}

static int roce_post(void *instance, const struct lli_out *packets, int count)
{
    struct lli_roce *roce = instance;
    uint64_t room = send_room(roce);
    int taken = 0;

    if (lli_roce_is_gone(roce)) {
        roce->send_errors += (uint64_t)count;
        roce->taken += (uint64_t)count;
        roce->posted = roce->done = roce->freed = roce->taken;
        return count;
    }
    if (room < (uint64_t)count) {
        (void)lli_roce_reap(roce);
        room = send_room(roce);
    }
    for (; taken < count && (uint64_t)taken < room; taken++)
        send_queue(roce, &packets[taken]);
    return taken;
}

/* No notice comes of what was lost; and the memory of what was copied is free at once. Both are counted in order. */
static void send_free(struct lli_roce *roce)
{
    while (roce->done != roce->posted && roce->send_kinds[roce->done & roce->send_mask] == LLI_ROCE_OUT_LOST)
        roce->done++;
    roce->freed = lli_max(roce->freed, roce->done);
    while (roce->freed != roce->posted && roce->send_kinds[roce->freed & roce->send_mask] != LLI_ROCE_OUT_READ)
        roce->freed++;
}

static void send_completed(struct lli_roce *roce, const struct ibv_wc *completion)
{
    const uint64_t behind = completion->wr_id - roce->done;

    if (completion->status != IBV_WC_SUCCESS) {
        roce->send_errors++;
        /* What follows is flushed by the device, until the queue was brought back. */
        if (atomic_load_explicit(&roce->send_fault, memory_order_relaxed) == LLI_ROCE_FINE)
            atomic_store_explicit(&roce->send_fault, LLI_ROCE_BROKEN, memory_order_relaxed);
    }
    /* A notice given twice, or late, is of a packet that is done with. */
    if (behind < roce->posted - roce->done)
        roce->done += behind + 1;
}

uint64_t lli_roce_reap(void *instance)
{
    struct lli_roce *roce = instance;
    struct ibv_wc completions[LLI_ROCE_POLL];
    int count;

    if (lli_roce_is_gone(roce)) {
        roce->posted = roce->done = roce->freed = roce->taken;
        return roce->freed;
    }
    if (roce->done == roce->posted)
        return roce->freed;
    do {
        count = ibv_poll_cq(roce->send_cq, LLI_ROCE_POLL, completions);
        for (int i = 0; i < count; i++)
            send_completed(roce, &completions[i]);
    } while (count == LLI_ROCE_POLL);
    send_free(roce);
    return roce->freed;
}

/* A send queue that stopped is repaired by the control thread, once the device has given back all that was in it. */
static bool send_is_broken(struct lli_roce *roce)
{
    int fault = atomic_load_explicit(&roce->send_fault, memory_order_acquire);

    if (__builtin_expect(fault == LLI_ROCE_FINE, 1))
        return false;
    (void)lli_roce_reap(roce);
    /* Behind an error all are completed, with notice or not. */
    if (fault == LLI_ROCE_BROKEN && roce->done == roce->posted) {
        atomic_store_explicit(&roce->send_fault, LLI_ROCE_REPAIRING, memory_order_release);
        lli_roce_control_wake(roce);
    }
    return true;
}

/* Chooses which of a run of packets are completed with a notice: one in so many, and the last, so that an end is always told. */
static void send_mark(struct lli_roce *roce, uint64_t first, uint64_t end)
{
    for (uint64_t number = first; number != end; number++) {
        const uint32_t slot = (uint32_t)number & roce->send_mask;

        roce->sends[slot].send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
        if (++roce->unsignalled >= LLI_ROCE_SIGNAL || number + 1 == end) {
            roce->sends[slot].send_flags |= IBV_SEND_SIGNALED;
            roce->unsignalled = 0;
        }
    }
}

/* Hands packets, none of them lost, to the device with one doorbell. False: it takes no more of them until some are done with. */
static bool send_run(struct lli_roce *roce, uint64_t end)
{
    struct ibv_send_wr *const last = &roce->sends[(end - 1) & roce->send_mask];
    struct ibv_send_wr *const next = last->next;
    struct ibv_send_wr *refused = NULL;
    int status;

    send_mark(roce, roce->posted, end);
    last->next = NULL;
    status = ibv_post_send(roce->send_qp, &roce->sends[roce->posted & roce->send_mask], &refused);
    last->next = next;
    if (status == 0) {
        roce->posted = end;
        return true;
    }
    roce->posted = refused->wr_id;
    /* Whether one of those taken gives notice is not looked up: the next one does. */
    roce->unsignalled = LLI_ROCE_SIGNAL;
    if (status == ENOMEM || status == EAGAIN || status == EBUSY)
        return false;
    roce->send_kinds[roce->posted & roce->send_mask] = LLI_ROCE_OUT_LOST;
    return true;
}

static int send_stuck(struct lli_roce *roce)
{
    roce->send_waits++;
    return LLM_EAGAIN;
}

static int roce_flush(void *instance)
{
    struct lli_roce *roce = instance;

    if (lli_roce_is_gone(roce))
        return 0;
    if (send_is_broken(roce))
        return send_stuck(roce);
    while (roce->posted != roce->taken) {
        uint64_t end = roce->posted;

        if (roce->send_kinds[end & roce->send_mask] == LLI_ROCE_OUT_LOST) {
            roce->send_errors++;
            roce->posted++;
            continue;
        }
        while (end != roce->taken && roce->send_kinds[end & roce->send_mask] != LLI_ROCE_OUT_LOST)
            end++;
        if (!send_run(roce, end)) {
            (void)lli_roce_reap(roce);
            return send_stuck(roce);
        }
    }
    send_free(roce);
    return 0;
}

/* -------------------------------------------------------------------------------------------------- receiving */

/* A completion of the receive queue, however it was fetched. */
struct roce_arrival {
    uint32_t buffer;
    uint32_t size; /* GRH included */
    uint32_t note; /* immediate data, in host order; 0: none */
    uint64_t stamp_ns;
};

static void buffer_return(struct lli_roce *roce, uint32_t buffer)
{
    roce->returned[roce->returned_count++] = buffer;
}

/* A source or destination as the GRH has it: of IPv4 only the last 20 bytes of it are there, its header. */
static struct lli_roce_gid grh_address(const uint8_t *grh, bool v4, size_t at_v4, size_t at_v6)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
    struct lli_roce_gid words;

    if (v4)
        memcpy(gid.raw + 12, grh + at_v4, 4);
    else
        memcpy(gid.raw, grh + at_v6, 16);
    memcpy(&words, gid.raw, sizeof words);
    return words;
}

static struct lli_roce_gid grh_source(const uint8_t *grh, bool v4)
{
    return grh_address(grh, v4, 32, 8);
}

static struct lli_roce_gid grh_destination(const uint8_t *grh, bool v4)
{
    return grh_address(grh, v4, 36, 24);
}

/* The group and port that a packet was sent to, or NULL. Mostly it is that of the packet before. */
static const struct lli_roce_receiver *receiver_find(struct lli_roce *roce, const struct lli_roce_gid *group, uint16_t port)
{
    const struct lli_roce_receiver *receiver = &roce->receivers[roce->receiver_latest];
    uint32_t at;

    if (receiver->port == port && lli_roce_gid_same(&receiver->group, group))
        return receiver;
    for (at = lli_roce_bucket(group, port); roce->buckets[at] != 0; at = (at + 1) % LLI_ROCE_BUCKETS) {
        receiver = &roce->receivers[roce->buckets[at] - 1];
        if (receiver->port != port || !lli_roce_gid_same(&receiver->group, group))
            continue;
        roce->receiver_latest = (uint16_t)(roce->buckets[at] - 1);
        return receiver;
    }
    return NULL;
}

/* Where a packet came in. False: it is not for us. */
static bool arrival_accept(struct lli_roce *roce, const struct roce_arrival *arrival, const uint8_t *grh, lli_handle *from)
{
    const uint16_t port = (uint16_t)arrival->note;
    const struct lli_roce_receiver *receiver;
    struct lli_roce_gid group, source;

    if ((arrival->note & ~(LLI_ROCE_NO_LOOP | UINT16_MAX)) != LLI_ROCE_MARK || arrival->size < LLI_ROCE_GRH)
        return false;
    *from = LLI_HANDLE_UNICAST;
    if (port == 0)
        return true;
    group = grh_destination(grh, roce->v4);
    source = grh_source(grh, roce->v4);
    if ((arrival->note & LLI_ROCE_NO_LOOP) != 0 && lli_roce_gid_same(&source, &roce->own))
        return false;
    receiver = receiver_find(roce, &group, port);
    if (receiver == NULL || ((receiver->source.high | receiver->source.low) != 0 && !lli_roce_gid_same(&receiver->source, &source)))
        return false;
    *from = (lli_handle)(receiver - roce->receivers);
    return true;
}

/* Lends a packet, or returns its buffer. */
static int arrival_take(struct lli_roce *roce, const struct roce_arrival *arrival, struct lli_in *packet)
{
    const uint8_t *grh = roce->buffers + (size_t)arrival->buffer * roce->buffer_stride + roce->buffer_offset;

    roce->receive_posted--;
    roce->receive_run++;
    if (!arrival_accept(roce, arrival, grh, &packet->from)) {
        roce->foreign++;
        buffer_return(roce, arrival->buffer);
        return 0;
    }
    packet->data = grh + LLI_ROCE_GRH;
    packet->size = arrival->size - LLI_ROCE_GRH;
    packet->buffer = arrival->buffer;
    packet->stamp_ns = arrival->stamp_ns;
    return 1;
}

static void arrival_failed(struct lli_roce *roce, uint32_t buffer)
{
    roce->receive_errors++;
    roce->receive_posted--;
    buffer_return(roce, buffer);
}

/* The completion that a walk has come to; whether a packet was lent. */
static int receive_step(struct lli_roce *roce, struct lli_in *packet)
{
    struct ibv_cq_ex *cq = roce->receive_cq_ex;
    struct roce_arrival arrival = {.buffer = (uint32_t)cq->wr_id};

    if (cq->status != IBV_WC_SUCCESS) {
        arrival_failed(roce, arrival.buffer);
        return 0;
    }
    arrival.size = ibv_wc_read_byte_len(cq);
    if (ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM)
        arrival.note = ntohl(ibv_wc_read_imm_data(cq));
    if (roce->stamped)
        arrival.stamp_ns = ibv_wc_read_completion_wallclock_ns(cq);
    return arrival_take(roce, &arrival, packet);
}

static int receive_walk(struct lli_roce *roce, struct lli_in *packets, int max)
{
    struct ibv_cq_ex *cq = roce->receive_cq_ex;
    struct ibv_poll_cq_attr none = {.comp_mask = 0};
    int count = 0;

    while (count < max && ibv_start_poll(cq, &none) == 0) {
        do
            count += receive_step(roce, &packets[count]);
        while (!roce->stepwise && count < max && ibv_next_poll(cq) == 0);
        ibv_end_poll(cq);
        if (!roce->stepwise)
            break;
    }
    return count;
}

/* The same of a completion that was fetched. */
static int receive_one(struct lli_roce *roce, const struct ibv_wc *completion, struct lli_in *packet)
{
    const struct roce_arrival arrival = {
        .buffer = (uint32_t)completion->wr_id,
        .size = completion->byte_len,
        .note = completion->wc_flags & IBV_WC_WITH_IMM ? ntohl(completion->imm_data) : 0,
    };

    if (completion->status == IBV_WC_SUCCESS)
        return arrival_take(roce, &arrival, packet);
    arrival_failed(roce, arrival.buffer);
    return 0;
}

static int receive_fetch(struct lli_roce *roce, struct lli_in *packets, int max)
{
    struct ibv_wc completions[LLI_ROCE_POLL];
    int asked, fetched, count = 0;

    do {
        asked = max - count < LLI_ROCE_POLL ? max - count : LLI_ROCE_POLL;
        fetched = ibv_poll_cq(roce->receive_cq, asked, completions);
        for (int i = 0; i < fetched; i++)
            count += receive_one(roce, &completions[i], &packets[count]);
    } while (fetched == asked && count < max);
    return count;
}

/*
 * A device that has no buffer left drops without a word. It had none if as many packets as it had buffers were waiting; what is
 * known is how many were taken since none was.
 */
static void receive_watch(struct lli_roce *roce, bool more)
{
    if (roce->receive_run > 0 && roce->receive_run >= roce->receive_had) {
        roce->receive_dry++;
        more = false;
    }
    if (!more) {
        roce->receive_run = 0;
        roce->receive_had = roce->receive_posted;
    }
}

static int roce_receive(void *instance, struct lli_in *packets, int max)
{
    struct lli_roce *roce = instance;
    int count;

    if (max <= 0 || lli_roce_is_gone(roce))
        return 0;
    count = roce->receive_cq_ex != NULL ? receive_walk(roce, packets, max) : receive_fetch(roce, packets, max);
    receive_watch(roce, count == max);
    if (roce->returned_count >= LLI_ROCE_REPOST || roce->receive_posted == 0)
        lli_roce_repost(roce);
    return count;
}

static void roce_release(void *instance, const struct lli_in *packets, int count)
{
    struct lli_roce *roce = instance;

    for (int i = 0; i < count; i++)
        buffer_return(roce, (uint32_t)packets[i].buffer);
    if (roce->returned_count >= LLI_ROCE_REPOST && !lli_roce_is_gone(roce))
        lli_roce_repost(roce);
}

/* ------------------------------------------------------------------------------------------------------ table */

/* A device without a buffer drops without a word, as many as come. */
static uint64_t roce_drops(void *instance)
{
    struct lli_roce *roce = instance;
    const uint64_t told = roce->dry_told;

    roce->dry_told = roce->receive_dry;
    return (roce->dry_told - told) * DRY_PACKETS;
}

static const struct lli_counter roce_counters[] = {
    {"roce_send_errors", offsetof(struct lli_roce, send_errors)},       /* packets that could not be sent: lost */
    {"roce_send_waits", offsetof(struct lli_roce, send_waits)},         /* flushes that found no room in the send queue */
    {"roce_receive_errors", offsetof(struct lli_roce, receive_errors)}, /* packets received with an error: lost */
    {"roce_receive_dry", offsetof(struct lli_roce, receive_dry)},       /* times that the device may have had no buffer */
    {"roce_foreign", offsetof(struct lli_roce, foreign)},               /* packets not ours, of groups left, or of our own host */
    {"roce_peer_errors", offsetof(struct lli_roce, peer_errors)},       /* address handles that could not be made */
    {"roce_peers_full", offsetof(struct lli_roce, peers_full)},         /* times that an address found no place */
    {"roce_peers_forgotten", offsetof(struct lli_roce, peers_forgotten)}, /* addresses whose places were given back */
    {"roce_groups_lost", offsetof(struct lli_roce, groups_lost)},       /* groups that the network took away, and were joined again */
    {NULL, 0},
};

const struct lli_transport lli_transport_roce = {
    .scheme = "roce",
    .size = sizeof(struct lli_roce),
    .counters = roce_counters,
    .open = lli_roce_open,
    .close = lli_roce_close,
    .region = lli_roce_region_begin,
    .region_end = lli_roce_region_end,
    .join = lli_roce_join,
    .leave = lli_roce_leave,
    .address = lli_roce_address,
    .peer = lli_roce_peer,
    .forget = lli_roce_forget,
    .post = roce_post,
    .flush = roce_flush,
    .reap = lli_roce_reap,
    .receive = roce_receive,
    .release = roce_release,
    .arm = lli_roce_arm,
    .drops = roce_drops,
};
