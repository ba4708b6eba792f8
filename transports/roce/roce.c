/* SPDX-License-Identifier: Apache-2.0 */
/* RoCE transport: data operations and the transport table. */
#include "roce.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>

/* Upper bound of drops each time that the receive queue runs empty: the device does not count them. */
enum { DRY_PACKETS = 1024 };

/* ------------------------------------------------------------------------------------------------ sending */

/* Finds the registration of a packet's memory; usually it is that of the previous packet. */
static LLI_OUT_OF_LINE const struct lli_roce_region *send_region_find(struct lli_roce *roce, uintptr_t at)
{
    for (uint32_t i = 0; i < LLI_ROCE_REGIONS_MAX; i++)
        if (at - roce->out.regions[i].base < roce->out.regions[i].size)
            return roce->out.region = &roce->out.regions[i];
    return NULL;
}

/* Returns the registration of a packet's memory, or NULL. */
static inline const struct lli_roce_region *send_region(struct lli_roce *roce, uintptr_t at)
{
    if (roce->out.region != NULL && at - roce->out.region->base < roce->out.region->size)
        return roce->out.region;
    return send_region_find(roce, at);
}

static inline void send_address(const struct lli_roce *roce, struct ibv_send_wr *send, lli_handle to)
{
    const uint32_t place = to & ~LLI_ROCE_PEER;

    if (to & LLI_ROCE_PEER) {
        const struct lli_roce_peer *peer = &roce->peers.routes[place];

        assert(place < roce->peers.table.count && peer->handle != NULL);
        send->wr.ud.ah = peer->handle;
        send->wr.ud.remote_qpn = peer->qp_number;
        send->wr.ud.remote_qkey = peer->qkey;
        send->imm_data = htonl(LLI_ROCE_MARK);
    } else {
        const struct lli_roce_sender *sender = &roce->out.senders[place];

        assert(place < LLI_ROCE_GROUPS_MAX);
        send->wr.ud.ah = sender->handle;
        send->wr.ud.remote_qpn = sender->qp_number;
        send->wr.ud.remote_qkey = sender->qkey;
        send->imm_data = sender->note;
    }
}

/* Fills the slot of a packet; constant fields were set when the queue was opened. */
static inline void send_queue(struct lli_roce *roce, const struct lli_out *packet)
{
    const uint64_t number = roce->out.taken++;
    const uint32_t slot = (uint32_t)number & roce->out.mask;
    const struct lli_roce_region *region;
    struct ibv_send_wr *send = &roce->out.requests[slot];
    struct ibv_sge *piece = send->sg_list;

    roce->out.to[slot] = packet->to;
    send->wr_id = number;
    piece->addr = (uintptr_t)packet->data;
    piece->length = packet->size;
    if (packet->size <= roce->out.inline_max) {
        send->send_flags = IBV_SEND_INLINE;
        roce->out.kinds[slot] = LLI_ROCE_OUT_COPIED;
    } else if (packet->size <= roce->out.payload_max &&
               (region = send_region(roce, (uintptr_t)packet->data)) != NULL) {
        piece->lkey = region->registration->lkey;
        send->send_flags = 0;
        roce->out.kinds[slot] = LLI_ROCE_OUT_READ;
        roce->out.read_end = number + 1;
    } else {
        lli_roce_lose(roce, number); /* devices silently drop oversized packets, or stop */
        return;
    }
    send_address(roce, send, packet->to);
}

static inline bool send_has_room(const struct lli_roce *roce, uint64_t count)
{
    const uint64_t end = roce->out.taken + count;

    return end - roce->out.posted <= LLI_ROCE_POST_MAX && end - roce->out.done <= roce->out.mask + 1u;
}

/* Takes as many packets as fit after reaping. */
static LLI_OUT_OF_LINE int post_some(struct lli_roce *roce, const struct lli_out *packets, int count)
{
    int taken = 0;

    (void)lli_roce_reap(roce);
    for (; taken < count && send_has_room(roce, 1); taken++)
        send_queue(roce, &packets[taken]);
    return taken;
}

static LLI_OUT_OF_LINE int post_gone(struct lli_roce *roce, int count)
{
    roce->counters.send_errors += (uint64_t)count;
    roce->out.taken += (uint64_t)count;
    roce->out.posted = roce->out.done = roce->out.freed = roce->out.taken;
    return count;
}

static int roce_post(void *instance, const struct lli_out *packets, int count)
{
    struct lli_roce *roce = instance;

    if (lli_roce_is_gone(roce))
        return post_gone(roce, count);
    if (!send_has_room(roce, (uint64_t)count))
        return post_some(roce, packets, count);
    for (int i = 0; i < count; i++)
        send_queue(roce, &packets[i]);
    return count;
}

/*
 * Advances done past lost packets, which have no completion, and freed past inline packets, whose memory is
 * free at once. Both counts are in order.
 */
static inline void send_free(struct lli_roce *roce)
{
    if (__builtin_expect(roce->out.lost_end > roce->out.done, 0))
        while (roce->out.done != roce->out.posted &&
               roce->out.kinds[roce->out.done & roce->out.mask] == LLI_ROCE_OUT_LOST)
            roce->out.done++;
    roce->out.freed = lli_max(roce->out.freed, roce->out.done);
    if (roce->out.read_end <= roce->out.freed)
        roce->out.freed = roce->out.posted;
    while (roce->out.freed != roce->out.posted &&
           roce->out.kinds[roce->out.freed & roce->out.mask] != LLI_ROCE_OUT_READ)
        roce->out.freed++;
}

static LLI_OUT_OF_LINE void send_failed(struct lli_roce *roce)
{
    roce->counters.send_errors++;
    /* The device flushes all further packets until the queue is repaired. */
    if (atomic_load_explicit(&roce->out.fault, memory_order_relaxed) == LLI_ROCE_FINE)
        atomic_store_explicit(&roce->out.fault, LLI_ROCE_BROKEN, memory_order_relaxed);
}

static inline void send_completed(struct lli_roce *roce, const struct ibv_wc *completion)
{
    const uint64_t behind = completion->wr_id - roce->out.done;

    if (__builtin_expect(completion->status != IBV_WC_SUCCESS, 0))
        send_failed(roce);
    /* Ignore a duplicate or late completion of a packet already done. */
    if (behind < roce->out.posted - roce->out.done)
        roce->out.done += behind + 1;
}

uint64_t lli_roce_reap(void *instance)
{
    struct lli_roce *roce = instance;
    struct ibv_wc completions[LLI_ROCE_POLL];
    int count;

    if (lli_roce_is_gone(roce)) {
        roce->out.posted = roce->out.done = roce->out.freed = roce->out.taken;
        return roce->out.freed;
    }
    if (roce->out.done == roce->out.posted)
        return roce->out.freed;
    do {
        count = ibv_poll_cq(roce->out.cq, LLI_ROCE_POLL, completions);
        for (int i = 0; i < count; i++)
            send_completed(roce, &completions[i]);
    } while (count == LLI_ROCE_POLL);
    send_free(roce);
    return roce->out.freed;
}

/*
 * Handles a stopped send queue: the control thread repairs it after the device has completed all its packets.
 */
static LLI_OUT_OF_LINE int flush_broken(struct lli_roce *roce, int fault)
{
    (void)lli_roce_reap(roce);
    /* After an error all packets are completed, signalled or not. */
    if (fault == LLI_ROCE_BROKEN && roce->out.done == roce->out.posted) {
        atomic_store_explicit(&roce->out.fault, LLI_ROCE_REPAIRING, memory_order_release);
        lli_roce_control_wake(roce);
    }
    roce->counters.send_waits++;
    return LLM_EAGAIN;
}

/* Skips lost packets, and returns the end of the following run. */
static LLI_OUT_OF_LINE uint64_t send_run_next(struct lli_roce *roce)
{
    uint64_t end;

    for (; roce->out.posted != roce->out.taken &&
           roce->out.kinds[roce->out.posted & roce->out.mask] == LLI_ROCE_OUT_LOST;
         roce->out.posted++)
        roce->counters.send_errors++;
    for (end = roce->out.posted; end != roce->out.taken; end++)
        if (roce->out.kinds[end & roce->out.mask] == LLI_ROCE_OUT_LOST)
            break;
    return end;
}

/*
 * Handles refusal of the packets from number to end. Signals only the first of them, because it is unknown if
 * an accepted packet is signalled. False: the device accepts no more until some are completed.
 */
static LLI_OUT_OF_LINE bool send_refused(struct lli_roce *roce, uint64_t number, uint64_t end, int status)
{
    const bool lost = status != ENOMEM && status != EAGAIN && status != EBUSY;

    roce->out.posted = number;
    for (uint64_t left = number; left != end; left++)
        roce->out.requests[left & roce->out.mask].send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
    if (lost)
        lli_roce_lose(roce, number);
    if (number + lost != end)
        roce->out.requests[(number + lost) & roce->out.mask].send_flags |= IBV_SEND_SIGNALED;
    return lost;
}

/*
 * Posts a run of packets, none of them lost, with one doorbell. Signals one in LLI_ROCE_SIGNAL packets, and
 * the last, so that the completion of all is reported. False: the device accepts no more until some are
 * completed.
 */
static inline bool send_run(struct lli_roce *roce, uint64_t end)
{
    struct ibv_send_wr *const last = &roce->out.requests[(end - 1) & roce->out.mask];
    struct ibv_send_wr *const next = last->next;
    struct ibv_send_wr *refused = NULL;
    int status;

    if (end - roce->out.posted > LLI_ROCE_SIGNAL)
        for (uint64_t number = roce->out.posted + LLI_ROCE_SIGNAL - 1; number < end;
             number += LLI_ROCE_SIGNAL)
            roce->out.requests[number & roce->out.mask].send_flags |= IBV_SEND_SIGNALED;
    last->send_flags |= IBV_SEND_SIGNALED;
    last->next = NULL;
    status = ibv_post_send(roce->out.qp, &roce->out.requests[roce->out.posted & roce->out.mask], &refused);
    last->next = next;
    if (__builtin_expect(status != 0, 0))
        return send_refused(roce, refused->wr_id, end, status);
    roce->out.posted = end;
    return true;
}

static int roce_flush(void *instance)
{
    struct lli_roce *roce = instance;
    int fault;

    if (lli_roce_is_gone(roce))
        return 0;
    fault = atomic_load_explicit(&roce->out.fault, memory_order_acquire);
    if (__builtin_expect(fault != LLI_ROCE_FINE, 0))
        return flush_broken(roce, fault);
    while (roce->out.posted != roce->out.taken) {
        const uint64_t end = roce->out.lost_end <= roce->out.posted ? roce->out.taken : send_run_next(roce);

        if (end != roce->out.posted && !send_run(roce, end)) {
            (void)lli_roce_reap(roce);
            roce->counters.send_waits++;
            return LLM_EAGAIN;
        }
    }
    send_free(roce);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- receiving */

/* Receive completion, fetched or iterated. */
struct roce_arrival {
    uint32_t buffer;
    uint32_t size; /* including the GRH */
    uint32_t note; /* immediate data, in host order; 0: none */
    uint64_t stamp_ns;
};

static void buffer_return(struct lli_roce *roce, uint32_t buffer)
{
    roce->in.returned[roce->in.returned_count++] = buffer;
}

/* Reads an address from the GRH, whose last 20 bytes are the IP header for IPv4. */
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

/* Returns the group and port of a packet, or NULL. Usually they are those of the previous packet. */
static const struct lli_roce_receiver *receiver_find(struct lli_roce *roce, const struct lli_roce_gid *group,
                                                     uint16_t port)
{
    const struct lli_roce_receiver *receiver = &roce->in.receivers[roce->in.latest];
    uint32_t at;

    if (receiver->port == port && lli_roce_gid_same(&receiver->group, group))
        return receiver;
    for (at = lli_roce_bucket(group, port); roce->in.buckets[at] != 0; at = (at + 1) % LLI_ROCE_BUCKETS) {
        receiver = &roce->in.receivers[roce->in.buckets[at] - 1];
        if (receiver->port != port || !lli_roce_gid_same(&receiver->group, group))
            continue;
        roce->in.latest = (uint16_t)(roce->in.buckets[at] - 1);
        return receiver;
    }
    return NULL;
}

/* Determines the origin of a packet. False: it is not for this instance. */
static bool arrival_accept(struct lli_roce *roce, const struct roce_arrival *arrival, const uint8_t *grh,
                           lli_handle *from)
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
    if ((arrival->note & LLI_ROCE_NO_LOOP) != 0 && lli_roce_gid_same(&source, &roce->in.own))
        return false;
    receiver = receiver_find(roce, &group, port);
    if (receiver == NULL || ((receiver->source.high | receiver->source.low) != 0 &&
                             !lli_roce_gid_same(&receiver->source, &source)))
        return false;
    *from = (lli_handle)(receiver - roce->in.receivers);
    return true;
}

/* Delivers a packet, or returns its buffer. */
static int arrival_take(struct lli_roce *roce, const struct roce_arrival *arrival, struct lli_in *packet)
{
    const uint8_t *grh = roce->in.buffers + (size_t)arrival->buffer * roce->in.stride + roce->in.offset;

    roce->in.posted--;
    roce->in.run++;
    if (!arrival_accept(roce, arrival, grh, &packet->from)) {
        roce->counters.foreign++;
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
    roce->counters.receive_errors++;
    roce->in.posted--;
    buffer_return(roce, buffer);
}

/* Processes the current completion of an iteration. Returns the number of packets delivered. */
static int receive_step(struct lli_roce *roce, struct lli_in *packet)
{
    struct ibv_cq_ex *cq = roce->in.cq_ex;
    struct roce_arrival arrival = {.buffer = (uint32_t)cq->wr_id};

    if (cq->status != IBV_WC_SUCCESS) {
        arrival_failed(roce, arrival.buffer);
        return 0;
    }
    arrival.size = ibv_wc_read_byte_len(cq);
    if (ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM)
        arrival.note = ntohl(ibv_wc_read_imm_data(cq));
    if (roce->in.stamped)
        arrival.stamp_ns = ibv_wc_read_completion_wallclock_ns(cq);
    return arrival_take(roce, &arrival, packet);
}

static int receive_walk(struct lli_roce *roce, struct lli_in *packets, int max)
{
    struct ibv_cq_ex *cq = roce->in.cq_ex;
    struct ibv_poll_cq_attr none = {.comp_mask = 0};
    int count = 0;

    while (count < max && ibv_start_poll(cq, &none) == 0) {
        do
            count += receive_step(roce, &packets[count]);
        while (!roce->in.stepwise && count < max && ibv_next_poll(cq) == 0);
        ibv_end_poll(cq);
        if (!roce->in.stepwise)
            break;
    }
    return count;
}

/* Processes a fetched completion. Returns the number of packets delivered. */
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
        fetched = ibv_poll_cq(roce->in.cq, asked, completions);
        for (int i = 0; i < fetched; i++)
            count += receive_one(roce, &completions[i], &packets[count]);
    } while (fetched == asked && count < max);
    return count;
}

/*
 * Detects that the device ran out of buffers, in which case it silently drops packets: it may have if as many
 * packets as it had buffers were received without the queue being empty in between.
 */
static void receive_watch(struct lli_roce *roce, bool more)
{
    if (roce->in.run > 0 && roce->in.run >= roce->in.had) {
        roce->counters.receive_dry++;
        more = false;
    }
    if (!more) {
        roce->in.run = 0;
        roce->in.had = roce->in.posted;
    }
}

static int roce_receive(void *instance, struct lli_in *packets, int max)
{
    struct lli_roce *roce = instance;
    int count;

    if (max <= 0 || lli_roce_is_gone(roce))
        return 0;
    count = roce->in.cq_ex != NULL ? receive_walk(roce, packets, max) : receive_fetch(roce, packets, max);
    receive_watch(roce, count == max);
    if (roce->in.returned_count >= LLI_ROCE_REPOST || roce->in.posted == 0)
        lli_roce_repost(roce);
    return count;
}

static bool roce_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    const struct lli_roce *roce = instance;
    const struct lli_roce_gid source = grh_source(packet->data - LLI_ROCE_GRH, roce->v4);
    struct lli_roce_gid announced;

    return lli_roce_address_gid(address, &announced) && lli_roce_gid_same(&source, &announced);
}

static void roce_release(void *instance, const struct lli_in *packets, int count)
{
    struct lli_roce *roce = instance;

    for (int i = 0; i < count; i++)
        buffer_return(roce, (uint32_t)packets[i].buffer);
    if (roce->in.returned_count >= LLI_ROCE_REPOST && !lli_roce_is_gone(roce))
        lli_roce_repost(roce);
}

/* -------------------------------------------------------------------------------------------------- table */

/* A device without buffers drops any number of packets without counting them. */
static uint64_t roce_drops(void *instance)
{
    struct lli_roce *roce = instance;
    const uint64_t reported = roce->counters.dry_reported;

    roce->counters.dry_reported = roce->counters.receive_dry;
    return (roce->counters.dry_reported - reported) * DRY_PACKETS;
}

static const struct lli_counter roce_counters[] = {
    /* Packets lost because sending failed. */
    {"roce_send_errors", offsetof(struct lli_roce, counters.send_errors)},
    /* Flushes stopped by a full send queue. */
    {"roce_send_waits", offsetof(struct lli_roce, counters.send_waits)},
    /* Packets lost because of a receive error. */
    {"roce_receive_errors", offsetof(struct lli_roce, counters.receive_errors)},
    /* Times that the device may have had no buffer. */
    {"roce_receive_dry", offsetof(struct lli_roce, counters.receive_dry)},
    /* Packets not ours, of groups left, or of our own host. */
    {"roce_foreign", offsetof(struct lli_roce, counters.foreign)},
    /* Address handles that could not be created. */
    {"roce_peer_errors", offsetof(struct lli_roce, counters.peer_errors)},
    /* Lookups refused because the address table was full. */
    {"roce_peers_full", offsetof(struct lli_roce, counters.peers_full)},
    {"roce_peers_forgotten", offsetof(struct lli_roce, counters.peers_forgotten)}, /* addresses forgotten */
    /* Groups lost by the network, and joined again. */
    {"roce_groups_lost", offsetof(struct lli_roce, counters.groups_lost)},
    {NULL, 0},
};

const struct lli_transport lli_transport_roce = {
    .scheme = "roce",
    .size = sizeof(struct lli_roce),
    .counters = roce_counters,
    .open = lli_roce_open,
    .close = lli_roce_close,
    .abandon = lli_roce_abandon,
    .region = lli_roce_region_begin,
    .region_end = lli_roce_region_end,
    .join = lli_roce_join,
    .leave = lli_roce_leave,
    .address = lli_roce_address,
    .peer = lli_roce_peer,
    .forget = lli_roce_forget,
    .came_from = roce_came_from,
    .post = roce_post,
    .flush = roce_flush,
    .reap = lli_roce_reap,
    .receive = roce_receive,
    .release = roce_release,
    .arm = lli_roce_arm,
    .drops = roce_drops,
};
