/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare verbs with minimal work: one polled queue pair and completion queue per end; short datagrams inline;
 * one send in 64 signalled; a buffer returns to the device with the next receive call.
 */
#define _GNU_SOURCE
#include "raw.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define RAW_GRH 40          /* precedes every received datagram */
#define RAW_ROCE_HEADERS 32 /* UDP header, RDMA header and check sequence */
#define RAW_ROCE_INLINE 512
#define RAW_SEND_DEPTH 1024 /* power of two, as RAW_RECEIVE_DEPTH */
#define RAW_RECEIVE_DEPTH 4096
#define RAW_SIGNAL 64
#define RAW_LINE 64

struct raw_roce_end {
    struct raw_end end;
    bool to_send;
    struct rdma_event_channel *events;
    struct rdma_cm_id *id;
    struct ibv_pd *domain;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_ah *handle;
    uint32_t qp_number;
    uint32_t qkey;
    bool joined;
    union lli_ip_address group;
    size_t inline_max;
    char *buffers;
    size_t stride;
    size_t bytes; /* bytes of all buffers */
    struct ibv_mr *registration;
    uint64_t posted; /* datagrams sent */
    uint64_t done;   /* sends known to be complete */
    /* Completions of received datagrams, whose buffers are not yet returned. */
    struct ibv_wc completions[RAW_BATCH];
    int fetched, next; /* number of completions, and the one to deliver next */
};

static struct raw_roce_end *raw_roce_of(struct raw_end *end)
{
    return (struct raw_roce_end *)end;
}

static uint32_t raw_roce_depth(const struct raw_roce_end *roce)
{
    return roce->to_send ? RAW_SEND_DEPTH : RAW_RECEIVE_DEPTH;
}

/* Datagrams start at cache lines; the GRH precedes them in the buffer. */
static char *raw_roce_buffer(const struct raw_roce_end *roce, uint64_t number)
{
    return roce->buffers + (number & (raw_roce_depth(roce) - 1)) * roce->stride + RAW_LINE;
}

/* --------------------------------------------------------------------------------------------------- open */

static int raw_roce_open_device(struct raw_roce_end *roce, const struct raw_group *group)
{
    union lli_ip_address address = group->interface.address;
    struct ibv_port_attr port;
    size_t active;

    if (!(roce->events = rdma_create_event_channel()) ||
        rdma_create_id(roce->events, &roce->id, NULL, RDMA_PS_UDP) != 0 ||
        rdma_bind_addr(roce->id, &address.any) != 0)
        return -1;
    errno = ENODEV;
    if (!roce->id->verbs || ibv_query_port(roce->id->verbs, roce->id->port_num, &port) != 0)
        return -1;
    active = (size_t)128 << port.active_mtu;
    roce->end.datagram_bytes = raw_datagram_bytes(group, RAW_ROCE_HEADERS);
    if (roce->end.datagram_bytes > active)
        roce->end.datagram_bytes = active;
    roce->stride = RAW_LINE + (roce->end.datagram_bytes + RAW_LINE - 1) / RAW_LINE * RAW_LINE;
    return 0;
}

static int raw_roce_open_buffers(struct raw_roce_end *roce)
{
    roce->bytes = raw_roce_depth(roce) * roce->stride;
    roce->buffers =
        mmap(NULL, roce->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (roce->buffers == MAP_FAILED) {
        roce->buffers = NULL;
        return -1;
    }
    memset(roce->buffers, 'x', roce->bytes);
    roce->registration = ibv_reg_mr(roce->domain, roce->buffers, roce->bytes, IBV_ACCESS_LOCAL_WRITE);
    return roce->registration ? 0 : -1;
}

static int raw_roce_open_queues(struct raw_roce_end *roce)
{
    struct ibv_qp_cap caps = {
        .max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = RAW_RECEIVE_DEPTH, .max_recv_sge = 1};
    struct ibv_qp_init_attr wanted = {.qp_type = IBV_QPT_UD};

    if (roce->to_send)
        caps = (struct ibv_qp_cap){.max_send_wr = RAW_SEND_DEPTH,
                                   .max_send_sge = 1,
                                   .max_recv_wr = 1,
                                   .max_recv_sge = 1,
                                   .max_inline_data = RAW_ROCE_INLINE};
    roce->domain = ibv_alloc_pd(roce->id->verbs);
    roce->cq = ibv_create_cq(roce->id->verbs, (int)raw_roce_depth(roce), NULL, NULL, 0);
    if (!roce->domain || !roce->cq)
        return -1;
    wanted.send_cq = wanted.recv_cq = roce->cq;
    wanted.cap = caps;
    /* A device with less space for inline data refuses the request. */
    while (rdma_create_qp(roce->id, roce->domain, &wanted) != 0) {
        if (caps.max_inline_data == 0)
            return -1;
        caps.max_inline_data /= 2;
        wanted.cap = caps;
    }
    roce->qp = roce->id->qp;
    roce->inline_max = wanted.cap.max_inline_data;
    return raw_roce_open_buffers(roce);
}

/* Returns these buffers to the device, RAW_BATCH at most. Returns 0, or an errno. */
static int raw_roce_post(struct raw_roce_end *roce, const struct ibv_wc *completions, int count)
{
    struct ibv_recv_wr receives[RAW_BATCH], *refused;
    struct ibv_sge pieces[RAW_BATCH];

    for (int i = 0; i < count; i++) {
        pieces[i] = (struct ibv_sge){.addr = (uintptr_t)raw_roce_buffer(roce, completions[i].wr_id) - RAW_GRH,
                                     .length = (uint32_t)roce->stride - (RAW_LINE - RAW_GRH),
                                     .lkey = roce->registration->lkey};
        receives[i] = (struct ibv_recv_wr){.wr_id = completions[i].wr_id,
                                           .sg_list = &pieces[i],
                                           .num_sge = 1,
                                           .next = i + 1 < count ? &receives[i + 1] : NULL};
    }
    return ibv_post_recv(roce->qp, receives, &refused);
}

static int raw_roce_post_all(struct raw_roce_end *roce)
{
    int failed = 0;

    for (uint64_t buffer = 0; !failed && !roce->to_send && buffer < RAW_RECEIVE_DEPTH; buffer++)
        failed = raw_roce_post(roce, &(struct ibv_wc){.wr_id = buffer}, 1);
    errno = failed;
    return failed ? -1 : 0;
}

/* The queue pair is attached to the group once the event is fetched. */
static int raw_roce_join(struct raw_roce_end *roce)
{
    struct rdma_cm_join_mc_attr_ex wanted = {
        .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
        .join_flags = roce->to_send ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER : RDMA_MC_JOIN_FLAG_FULLMEMBER,
        .addr = &roce->group.any,
    };
    struct rdma_cm_event *event;

    if (rdma_join_multicast_ex(roce->id, &wanted, NULL) != 0 || rdma_get_cm_event(roce->events, &event) != 0)
        return -1;
    roce->joined = event->event == RDMA_CM_EVENT_MULTICAST_JOIN && event->status == 0;
    if (roce->joined && roce->to_send) {
        struct ibv_ah_attr route = event->param.ud.ah_attr;

        route.grh.hop_limit = 1;
        route.grh.traffic_class = 0;
        roce->qp_number = event->param.ud.qp_num;
        roce->qkey = event->param.ud.qkey;
        roce->handle = ibv_create_ah(roce->domain, &route);
    }
    rdma_ack_cm_event(event);
    if (roce->joined)
        return roce->to_send && !roce->handle ? -1 : 0;
    errno = ECONNREFUSED;
    return -1;
}

static void raw_roce_close(struct raw_end *end)
{
    struct raw_roce_end *roce = raw_roce_of(end);

    if (roce->joined)
        rdma_leave_multicast(roce->id, &roce->group.any);
    if (roce->qp)
        rdma_destroy_qp(roce->id);
    if (roce->handle)
        ibv_destroy_ah(roce->handle);
    if (roce->cq)
        ibv_destroy_cq(roce->cq);
    if (roce->registration)
        ibv_dereg_mr(roce->registration);
    if (roce->buffers)
        munmap(roce->buffers, roce->bytes);
    if (roce->domain)
        ibv_dealloc_pd(roce->domain);
    if (roce->id)
        rdma_destroy_id(roce->id);
    if (roce->events)
        rdma_destroy_event_channel(roce->events);
}

static int raw_roce_open(struct raw_end *end, const struct raw_group *group, bool to_send)
{
    struct raw_roce_end *roce = raw_roce_of(end);

    roce->to_send = to_send;
    roce->group = group->address;
    if (raw_roce_open_device(roce, group) != 0 || raw_roce_open_queues(roce) != 0 ||
        raw_roce_post_all(roce) != 0)
        return -1;
    return raw_roce_join(roce);
}

/* ------------------------------------------------------------------------------------------------ sending */

/* Frees send slots for count datagrams. Returns false if that is not possible now. */
static bool raw_roce_reap(struct raw_roce_end *roce, unsigned count)
{
    struct ibv_wc completions[RAW_BATCH];

    while (roce->posted + count - roce->done > RAW_SEND_DEPTH) {
        int fetched = ibv_poll_cq(roce->cq, RAW_BATCH, completions);

        if (fetched <= 0)
            return false;
        roce->done = completions[fetched - 1].wr_id;
    }
    return true;
}

/* Prepares the send request of that datagram, except its bytes. */
static void raw_roce_fill(struct raw_roce_end *roce, struct ibv_send_wr *send, struct ibv_sge *piece,
                          uint64_t number)
{
    *send = (struct ibv_send_wr){.wr_id = number + 1, .sg_list = piece, .num_sge = 1, .opcode = IBV_WR_SEND};
    send->wr.ud.ah = roce->handle;
    send->wr.ud.remote_qpn = roce->qp_number;
    send->wr.ud.remote_qkey = roce->qkey;
    send->send_flags = send->wr_id % RAW_SIGNAL == 0 ? IBV_SEND_SIGNALED : 0;
    piece->lkey = roce->registration->lkey;
}

static int raw_roce_send(struct raw_end *end, const void *data, size_t size)
{
    struct raw_roce_end *roce = raw_roce_of(end);
    struct ibv_send_wr send, *refused;
    struct ibv_sge piece;

    if (size > end->datagram_bytes) {
        errno = EMSGSIZE;
        return -1;
    }
    if (!raw_roce_reap(roce, 1))
        return 1;
    raw_roce_fill(roce, &send, &piece, roce->posted);
    piece.addr = (uintptr_t)data;
    piece.length = (uint32_t)size;
    if (size <= roce->inline_max) {
        send.send_flags |= IBV_SEND_INLINE;
    } else {
        piece.addr = (uintptr_t)raw_roce_buffer(roce, roce->posted);
        memcpy(raw_roce_buffer(roce, roce->posted), data, size);
    }
    errno = ibv_post_send(roce->qp, &send, &refused);
    roce->posted += errno == 0;
    return errno == 0 ? 0 : -1;
}

/* Sends the contents of the buffers as they are: nothing is copied. */
static int raw_roce_send_each(struct raw_end *end, const void *data, size_t size, size_t message_bytes)
{
    struct raw_roce_end *roce = raw_roce_of(end);
    const unsigned count = (unsigned)(size / message_bytes);
    struct ibv_send_wr sends[RAW_BATCH], *refused;
    struct ibv_sge pieces[RAW_BATCH];

    (void)data;
    if (!raw_roce_reap(roce, count))
        return 0;
    for (unsigned i = 0; i < count; i++) {
        raw_roce_fill(roce, &sends[i], &pieces[i], roce->posted + i);
        pieces[i].addr = (uintptr_t)raw_roce_buffer(roce, roce->posted + i);
        pieces[i].length = (uint32_t)message_bytes;
        sends[i].next = i + 1 < count ? &sends[i + 1] : NULL;
    }
    errno = ibv_post_send(roce->qp, sends, &refused);
    roce->posted += errno == 0 ? count : 0;
    return errno == 0 ? 0 : -1;
}

/* ---------------------------------------------------------------------------------------------- receiving */

/* Fetches completions once all earlier ones were delivered, and returns the buffers of the earlier ones. */
static const void *raw_roce_receive(struct raw_end *end, size_t *size)
{
    struct raw_roce_end *roce = raw_roce_of(end);
    const struct ibv_wc *completion;

    if (roce->next >= roce->fetched) {
        if (roce->fetched > 0)
            raw_roce_post(roce, roce->completions, roce->fetched);
        roce->fetched = ibv_poll_cq(roce->cq, RAW_BATCH, roce->completions);
        roce->next = 0;
    }
    if (roce->next >= roce->fetched)
        return NULL;
    completion = &roce->completions[roce->next++];
    *size = completion->status == IBV_WC_SUCCESS ? completion->byte_len - RAW_GRH : 0;
    return raw_roce_buffer(roce, completion->wr_id);
}

const struct raw_scheme raw_roce = {
    .name = "roce",
    .bytes = sizeof(struct raw_roce_end),
    .open = raw_roce_open,
    .close = raw_roce_close,
    .send = raw_roce_send,
    .receive = raw_roce_receive,
    .send_each = raw_roce_send_each,
};
