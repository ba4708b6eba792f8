/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs and completion queues of the fake device. */
#define _GNU_SOURCE
#include "fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/types.h"

enum { GRH = 40 };

static struct fake_qp *qp_of(struct ibv_qp *qp)
{
    return (struct fake_qp *)(void *)qp;
}

static struct fake_cq *cq_of(struct ibv_cq *cq)
{
    return (struct fake_cq *)(void *)cq;
}

/* -------------------------------------------------------------------------------------- completion queues */

static void cq_fire(struct fake_cq *cq)
{
    struct fake_channel *channel = (void *)cq->cq.channel;
    const uint64_t one = 1;

    cq->armed = false;
    channel->fired[channel->fired_tail++ % 64] = &cq->cq;
    if (write(channel->channel.fd, &one, sizeof one) != sizeof one)
        fake_wrong("the completion channel is full");
}

static void cq_push(struct fake_cq *cq, const struct ibv_wc *notice, uint64_t stamp_ns)
{
    if (cq->tail - cq->head == cq->max)
        fake_wrong("a completion queue of %u overran", cq->max);
    cq->notices[cq->tail % cq->max] = *notice;
    cq->stamps[cq->tail % cq->max] = stamp_ns;
    cq->tail++;
    if (cq->armed)
        cq_fire(cq);
}

/* Room in a send queue is freed by fetching a completion of its packets. */
static void cq_fetched(const struct ibv_wc *notice)
{
    struct fake_qp *qp = fake.send_qp != NULL ? qp_of(fake.send_qp) : NULL;

    if (qp == NULL || notice->qp_num != qp->qp.qp_num)
        return;
    while (qp->retired != qp->completed) {
        const uint64_t number = qp->retired++;

        if (qp->flight[number % qp->cap.max_send_wr].wr_id == notice->wr_id)
            break;
    }
}

int fake_poll_cq(struct ibv_cq *base, int max, struct ibv_wc *completions)
{
    struct fake_cq *cq = cq_of(base);
    int count = 0;

    if (cq->walking)
        fake_wrong("a completion queue is polled while it is walked");
    if (fake.complete_when_polled && fake.send_qp->send_cq == base)
        fake_complete_all();
    for (; count < max && cq->head != cq->tail; count++) {
        completions[count] = cq->notices[cq->head++ % cq->max];
        cq_fetched(&completions[count]);
    }
    return count;
}

int fake_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
    if (solicited_only)
        fake_wrong("only solicited completions are waited for");
    cq_of(base)->armed = true;
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq, void **cq_context)
{
    struct fake_channel *channel = (void *)base;
    uint64_t count;

    if (read(base->fd, &count, sizeof count) < 0)
        return -1;
    *cq = channel->fired[channel->fired_head++ % 64];
    *cq_context = (*cq)->cq_context;
    cq_of(*cq)->unacknowledged++;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    cq_of(cq)->unacknowledged -= (int)count;
}

/* ------------------------------------------------------------------------------------- iteration in place */

static struct fake_cq *walk_of(struct ibv_cq_ex *ex)
{
    struct fake_cq *cq = (struct fake_cq *)(void *)ex;

    if (!cq->walking)
        fake_wrong("a completion is read outside of a walk");
    return cq;
}

static const struct ibv_wc *walk_notice(struct ibv_cq_ex *ex)
{
    const struct fake_cq *cq = walk_of(ex);

    return &cq->notices[(cq->head - 1) % cq->max];
}

static int walk_next(struct ibv_cq_ex *ex)
{
    struct fake_cq *cq = walk_of(ex);

    if (cq->head == cq->tail)
        return ENOENT;
    ex->wr_id = cq->notices[cq->head % cq->max].wr_id;
    ex->status = cq->notices[cq->head % cq->max].status;
    cq->head++;
    return 0;
}

static int walk_next_counted(struct ibv_cq_ex *ex)
{
    fake.next_polls++;
    return walk_next(ex);
}

static int walk_start(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct fake_cq *cq = (struct fake_cq *)(void *)ex;

    if (cq->walking || attr->comp_mask != 0)
        fake_wrong("a walk begins within a walk, or with attributes that nobody knows");
    cq->walking = true;
    if (walk_next(ex) == 0)
        return 0;
    cq->walking = false; /* end_poll() is due after success only */
    return ENOENT;
}

static void walk_end(struct ibv_cq_ex *ex)
{
    walk_of(ex)->walking = false;
}

static uint32_t walk_byte_len(struct ibv_cq_ex *ex)
{
    return walk_notice(ex)->byte_len;
}

static __be32 walk_imm_data(struct ibv_cq_ex *ex)
{
    return walk_notice(ex)->imm_data;
}

static unsigned walk_wc_flags(struct ibv_cq_ex *ex)
{
    return walk_notice(ex)->wc_flags;
}

static uint64_t walk_wallclock_ns(struct ibv_cq_ex *ex)
{
    const struct fake_cq *cq = walk_of(ex);

    return cq->stamps[(cq->head - 1) % cq->max];
}

/* Fields that were not requested cannot be read: a device sets no function for them. */
void fake_cq_walk_init(struct fake_cq *cq, uint64_t wc_flags)
{
    cq->ex.start_poll = walk_start;
    cq->ex.next_poll = walk_next_counted;
    cq->ex.end_poll = walk_end;
    cq->ex.read_wc_flags = walk_wc_flags;
    if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
        cq->ex.read_byte_len = walk_byte_len;
    if (wc_flags & IBV_WC_EX_WITH_IMM)
        cq->ex.read_imm_data = walk_imm_data;
    if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
        cq->ex.read_completion_wallclock_ns = walk_wallclock_ns;
}

/* -------------------------------------------------------------------------------------------- queue pairs */

void fake_qp_init(struct fake_qp *qp, const struct ibv_qp_init_attr *wanted)
{
    qp->cap = wanted->cap;
    qp->flight = fake_zeroed(wanted->cap.max_send_wr * sizeof *qp->flight);
    qp->buffers = fake_zeroed(wanted->cap.max_recv_wr * sizeof *qp->buffers);
    qp->pieces = fake_zeroed(wanted->cap.max_recv_wr * sizeof *qp->pieces);
}

static void send_check(const struct fake_qp *qp, const struct ibv_send_wr *send)
{
    const struct ibv_sge *piece = send->sg_list;
    const struct fake_mr *region;

    if (qp->qp.state != IBV_QPS_RTS && qp->qp.state != IBV_QPS_SQE && qp->qp.state != IBV_QPS_ERR)
        fake_wrong("a packet is posted to a queue pair in state %d", (int)qp->qp.state);
    if (send->opcode != IBV_WR_SEND_WITH_IMM || send->num_sge != 1)
        fake_wrong("a packet is posted with operation %d and %d pieces", (int)send->opcode, send->num_sge);
    if (send->wr.ud.ah == NULL)
        fake_wrong("a packet is posted to nowhere");
    if (send->send_flags & IBV_SEND_INLINE) {
        if (piece->length > qp->cap.max_inline_data)
            fake_wrong("%u bytes are posted inline, of %u", piece->length, qp->cap.max_inline_data);
        return;
    }
    region = fake_mr_find(piece->lkey);
    if (region == NULL || piece->addr < (uintptr_t)region->mr.addr ||
        piece->addr + piece->length > (uintptr_t)region->mr.addr + region->mr.length)
        fake_wrong("a packet is posted from memory that its key is not for");
}

static struct fake_send send_record(const struct ibv_send_wr *send)
{
    return (struct fake_send){
        .wr_id = send->wr_id,
        .data = (const uint8_t *)(uintptr_t)send->sg_list->addr,
        .size = send->sg_list->length,
        .lkey = send->sg_list->lkey,
        .flags = send->send_flags,
        .note = ntohl(send->imm_data),
        .ah = send->wr.ud.ah,
        .qp_number = send->wr.ud.remote_qpn,
        .qkey = send->wr.ud.remote_qkey,
        .doorbell = fake.doorbells,
        .route = ((const struct fake_ah *)(const void *)send->wr.ud.ah)->route,
    };
}

static void send_finish(struct fake_qp *qp, enum ibv_wc_status status)
{
    const struct fake_send *send = &qp->flight[qp->completed++ % qp->cap.max_send_wr];
    const struct ibv_wc notice = {
        .wr_id = send->wr_id, .status = status, .opcode = IBV_WC_SEND, .qp_num = qp->qp.qp_num};

    ((struct fake_ah *)(void *)send->ah)->in_flight--;
    if (!(send->flags & IBV_SEND_INLINE) && fake_mr_find(send->lkey) == NULL)
        fake_wrong("a packet is sent from memory whose registration ended");
    if (status != IBV_WC_SUCCESS || (send->flags & IBV_SEND_SIGNALED))
        cq_push(cq_of(qp->qp.send_cq), &notice, 0);
}

int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *first, struct ibv_send_wr **refused)
{
    struct fake_qp *qp = qp_of(base);

    fake.doorbells++;
    for (struct ibv_send_wr *send = first; send != NULL; send = send->next) {
        int error = qp->posted - qp->retired == qp->cap.max_send_wr ? ENOMEM : 0;

        if (fake.send_refuse_after == 0)
            error = fake.send_refuse_error;
        if (fake.send_refuse_after >= 0)
            fake.send_refuse_after--;
        if (error != 0) {
            *refused = send;
            return error;
        }
        send_check(qp, send);
        ((struct fake_ah *)(void *)send->wr.ud.ah)->in_flight++;
        qp->flight[qp->posted++ % qp->cap.max_send_wr] = send_record(send);
        if (fake.sent_count == FAKE_SENT_MAX)
            fake_wrong("the test sends more than it wants to know");
        fake.sent[fake.sent_count++] = send_record(send);
        if (qp->qp.state != IBV_QPS_RTS)
            send_finish(qp, IBV_WC_WR_FLUSH_ERR);
    }
    return 0;
}

void fake_sent_forget(void)
{
    fake.sent_count = 0;
    fake.doorbells = 0;
}

uint32_t fake_in_flight(void)
{
    const struct fake_qp *qp = qp_of(fake.send_qp);

    return (uint32_t)(qp->posted - qp->completed);
}

void fake_complete(uint32_t count)
{
    for (; count > 0; count--)
        send_finish(qp_of(fake.send_qp), IBV_WC_SUCCESS);
}

void fake_complete_all(void)
{
    fake_complete(fake_in_flight());
}

void fake_complete_failed(enum ibv_wc_status status, enum ibv_qp_state state)
{
    struct fake_qp *qp = qp_of(fake.send_qp);

    qp->qp.state = state;
    send_finish(qp, status);
    if (!fake.flush_later)
        fake_flush_rest();
}

void fake_flush_rest(void)
{
    struct fake_qp *qp = qp_of(fake.send_qp);

    while (qp->completed != qp->posted)
        send_finish(qp, IBV_WC_WR_FLUSH_ERR);
}

void fake_notice(uint64_t wr_id, enum ibv_wc_status status)
{
    const struct ibv_wc notice = {.wr_id = wr_id, .status = status, .opcode = IBV_WC_SEND};

    cq_push(cq_of(fake.send_qp->send_cq), &notice, 0);
}

enum ibv_qp_state fake_send_state(void)
{
    return fake.send_qp->state;
}

/* -------------------------------------------------------------------------------------------------- state */

/* A state change that a device allows, with the attributes that it needs; it empties the queue. */
static bool move_allowed(enum ibv_qp_state from, const struct ibv_qp_attr *attr, int mask)
{
    switch (attr->qp_state) {
    case IBV_QPS_RESET:
        return mask == IBV_QP_STATE;
    case IBV_QPS_INIT:
        return from == IBV_QPS_RESET &&
               mask == (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) &&
               attr->port_num == 1 && attr->qkey == RDMA_UDP_QKEY;
    case IBV_QPS_RTR:
        return from == IBV_QPS_INIT && mask == IBV_QP_STATE;
    case IBV_QPS_RTS:
        return (from == IBV_QPS_RTR && mask == (IBV_QP_STATE | IBV_QP_SQ_PSN)) ||
               (from == IBV_QPS_SQE && mask == (IBV_QP_STATE | IBV_QP_CUR_STATE) &&
                attr->cur_qp_state == IBV_QPS_SQE);
    default:
        return false;
    }
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *qp = qp_of(base);

    atomic_fetch_add_explicit(&fake.modifies, 1, memory_order_relaxed);
    if (fake_fails(FAKE_CALL_MODIFY_QP))
        return errno;
    if (!move_allowed(base->state, attr, mask))
        fake_wrong("no queue pair goes from state %d to %d with mask %x", (int)base->state,
                   (int)attr->qp_state, (unsigned)mask);
    base->state = attr->qp_state;
    if (attr->qp_state == IBV_QPS_RESET) {
        struct fake_cq *cq = cq_of(base->send_cq);

        if (cq->head != cq->tail || qp->posted != qp->completed)
            fake_wrong("a send queue is reset while there is something in it");
        qp->retired = qp->posted;
    }
    return 0;
}

int ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    if (fake_fails(FAKE_CALL_QUERY_QP))
        return errno;
    memset(init, 0, sizeof *init);
    memset(attr, 0, sizeof *attr);
    if (mask & IBV_QP_STATE)
        attr->qp_state = base->state;
    return 0;
}

/* ---------------------------------------------------------------------------------------------- receiving */

static void buffer_check(const struct fake_qp *qp, const struct ibv_recv_wr *buffer)
{
    const struct ibv_sge *piece = buffer->sg_list;
    const struct fake_mr *region = fake_mr_find(piece->lkey);

    if (buffer->num_sge != 1 || region == NULL || piece->addr < (uintptr_t)region->mr.addr ||
        piece->addr + piece->length > (uintptr_t)region->mr.addr + region->mr.length)
        fake_wrong("a buffer is posted that its key is not for");
    for (uint64_t number = qp->buffers_head; number != qp->buffers_tail; number++)
        if (qp->pieces[number % qp->cap.max_recv_wr].addr == piece->addr)
            fake_wrong("buffer %llu is posted twice", (unsigned long long)buffer->wr_id);
}

int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *first, struct ibv_recv_wr **refused)
{
    struct fake_qp *qp = qp_of(base);

    fake.receive_calls++;
    fake.receive_batch = 0;
    for (struct ibv_recv_wr *buffer = first; buffer != NULL; buffer = buffer->next) {
        if (qp->buffers_tail - qp->buffers_head == qp->cap.max_recv_wr)
            fake_wrong("more buffers are posted than the queue has room for");
        if (fake.receive_refuse_after == 0) {
            fake.receive_refuse_after--;
            *refused = buffer;
            return ENOMEM;
        }
        if (fake.receive_refuse_after > 0)
            fake.receive_refuse_after--;
        buffer_check(qp, buffer);
        qp->buffers[qp->buffers_tail % qp->cap.max_recv_wr] = *buffer;
        qp->pieces[qp->buffers_tail % qp->cap.max_recv_wr] = buffer->sg_list[0];
        qp->buffers_tail++;
        fake.receive_batch++;
    }
    return 0;
}

uint32_t fake_buffers(void)
{
    const struct fake_qp *qp = qp_of(fake.receive_qp);

    return (uint32_t)(qp->buffers_tail - qp->buffers_head);
}

/* For IPv4 the first 20 bytes are undefined: devices leave earlier contents in them. */
static void grh_fill(uint8_t *grh, const struct fake_packet *packet)
{
    const bool v6 = fake.device.v6;

    memset(grh, 0xee, GRH);
    if (v6) {
        memset(grh, 0, 8);
        grh[0] = 0x60;
    } else {
        memset(grh + 20, 0, 20);
        grh[20] = 0x45;
    }
    if (inet_pton(v6 ? AF_INET6 : AF_INET, packet->source, grh + (v6 ? 8 : 32)) != 1 ||
        inet_pton(v6 ? AF_INET6 : AF_INET, packet->to, grh + (v6 ? 24 : 36)) != 1)
        fake_wrong("the test sends from %s to %s", packet->source, packet->to);
}

bool fake_arrive(const struct fake_packet *packet)
{
    struct fake_qp *qp = qp_of(fake.receive_qp);
    const uint64_t number = qp->buffers_head % qp->cap.max_recv_wr;
    const struct ibv_sge *piece = &qp->pieces[number];
    uint8_t *buffer = (uint8_t *)(uintptr_t)piece->addr;
    struct ibv_wc notice = {.wr_id = qp->buffers[number].wr_id,
                            .status = packet->status,
                            .opcode = IBV_WC_RECV,
                            .qp_num = qp->qp.qp_num};

    if (qp->buffers_head == qp->buffers_tail)
        return false;
    if (GRH + packet->size > piece->length)
        fake_wrong("the test sends %u bytes to a buffer of %u", packet->size, piece->length);
    qp->buffers_head++;
    grh_fill(buffer, packet);
    for (uint32_t i = 0; i < packet->size; i++) /* pattern() of unit.h */
        buffer[GRH + i] =
            packet->data != NULL ? packet->data[i] : (uint8_t)(packet->which * 31 + i * 7 + (i >> 8));
    notice.byte_len = packet->truncated ? GRH - 1 : GRH + packet->size;
    notice.wc_flags = IBV_WC_GRH | (packet->bare ? 0 : IBV_WC_WITH_IMM);
    notice.imm_data = htonl(packet->note);
    if (packet->status != IBV_WC_SUCCESS)
        notice.byte_len = notice.wc_flags = 0xdead; /* undefined for an error */
    cq_push(cq_of(qp->qp.recv_cq), &notice, packet->stamp_ns);
    return true;
}

bool fake_arrive_sent(const struct fake_send *sent)
{
    const bool v6 = fake.device.v6;
    const union ibv_gid *to = &sent->route.grh.dgid;
    char text[INET6_ADDRSTRLEN];

    if (inet_ntop(v6 ? AF_INET6 : AF_INET, to->raw + (v6 ? 0 : 12), text, sizeof text) == NULL)
        fake_wrong("a packet is sent to nowhere");
    return fake_arrive(&(const struct fake_packet){
        .source = fake_address(), .to = text, .note = sent->note, .size = sent->size, .data = sent->data});
}
