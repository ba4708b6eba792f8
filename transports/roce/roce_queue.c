/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, completion queues and queue pairs. */
#define _GNU_SOURCE
#include "roce.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "system/clock.h"

enum { CACHE_LINE = 64, PACKET_MAX = 4096 /* on any device */ };

#define SOFT_ROCE_VENDOR 0xffffff

/* --------------------------------------------------------------------------------------------- send queue */

static int send_queue_open(struct lli_roce *roce)
{
    const uint32_t depth = roce->out.mask + 1;

    roce->out.requests = calloc(depth, sizeof *roce->out.requests);
    roce->out.pieces = calloc(depth, sizeof *roce->out.pieces);
    roce->out.kinds = calloc(depth, sizeof *roce->out.kinds);
    roce->out.to = calloc(depth, sizeof *roce->out.to);
    if (roce->out.requests == NULL || roce->out.pieces == NULL || roce->out.kinds == NULL ||
        roce->out.to == NULL)
        return lli_fail(roce->log, LLM_ENOMEM, "roce: no memory for a send queue of %u packets", depth);
    for (uint32_t slot = 0; slot < depth; slot++) {
        roce->out.requests[slot].next = &roce->out.requests[(slot + 1) & roce->out.mask];
        roce->out.requests[slot].sg_list = &roce->out.pieces[slot];
        roce->out.requests[slot].num_sge = 1;
        roce->out.requests[slot].opcode = IBV_WR_SEND_WITH_IMM;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------ receive queue */

/*
 * Packets start at cache lines, at an odd number of lines from each other: with a power of two their headers
 * would map to a few cache sets.
 */
static int receive_buffers_open(struct lli_roce *roce)
{
    const struct lli_memory_policy policy = {
        .huge_pages = true, .populate = true, .numa_node = roce->device.numa_node};
    const uint32_t depth = roce->in.depth;
    int status;

    roce->in.requests = calloc(depth, sizeof *roce->in.requests);
    roce->in.pieces = calloc(depth, sizeof *roce->in.pieces);
    roce->in.returned = calloc(depth, sizeof *roce->in.returned);
    if (roce->in.requests == NULL || roce->in.pieces == NULL || roce->in.returned == NULL)
        return lli_fail(roce->log, LLM_ENOMEM, "roce: no memory for a receive queue of %u packets", depth);
    status = lli_memory_map(&roce->in.memory, (size_t)depth * roce->in.stride, &policy, roce->log);
    if (status != 0)
        return status;
    roce->in.buffers = roce->in.memory.base;
    roce->in.registration =
        ibv_reg_mr(roce->device.domain, roce->in.buffers, roce->in.memory.size, IBV_ACCESS_LOCAL_WRITE);
    if (roce->in.registration == NULL)
        return lli_roce_fail(roce, "registration of receive buffers");
    for (uint32_t buffer = 0; buffer < depth; buffer++) {
        roce->in.pieces[buffer] = (struct ibv_sge){
            .addr = (uintptr_t)roce->in.buffers + (uint64_t)buffer * roce->in.stride + roce->in.offset,
            .length = roce->in.stride - roce->in.offset,
            .lkey = roce->in.registration->lkey,
        };
        roce->in.requests[buffer].wr_id = buffer;
        roce->in.requests[buffer].sg_list = &roce->in.pieces[buffer];
        roce->in.requests[buffer].num_sge = 1;
        roce->in.returned[buffer] = buffer;
    }
    roce->in.returned_count = depth;
    return 0;
}

void lli_roce_repost(struct lli_roce *roce)
{
    struct ibv_recv_wr *refused = NULL;
    uint32_t count = roce->in.returned_count;
    uint32_t remaining = 0;

    if (count == 0)
        return;
    for (uint32_t i = 0; i + 1 < count; i++)
        roce->in.requests[roce->in.returned[i]].next = &roce->in.requests[roce->in.returned[i + 1]];
    roce->in.requests[roce->in.returned[count - 1]].next = NULL;
    if (ibv_post_recv(roce->in.qp, &roce->in.requests[roce->in.returned[0]], &refused) != 0)
        for (; refused != NULL; refused = refused->next)
            remaining++;
    /* Retry refused buffers with the next ones. */
    memmove(roce->in.returned, roce->in.returned + (count - remaining),
            remaining * sizeof *roce->in.returned);
    roce->in.returned_count = remaining;
    roce->in.posted += count - remaining;
    if (roce->in.run == 0)
        roce->in.had = roce->in.posted;
}

/* -------------------------------------------------------------------------------------- completion queues */

/*
 * Opens a completion queue that is iterated in place, with time stamps if requested and supported; else a
 * plain one.
 */
static int receive_cq_open(struct lli_roce *roce, uint32_t vendor, bool stamps)
{
    struct ibv_context *verbs = roce->out.id->verbs;
    struct ibv_cq_init_attr_ex wanted = {
        .cqe = roce->in.depth,
        .channel = roce->sleep.channel,
        .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM,
        .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
        .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
    };

    if (stamps) {
        wanted.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
        roce->in.cq_ex = ibv_create_cq_ex(verbs, &wanted);
        roce->in.stamped = roce->in.cq_ex != NULL;
        wanted.wc_flags &= ~(uint64_t)IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
        if (!roce->in.stamped)
            lli_log(roce->log, LLM_LEVEL_WARNING,
                    "roce: timestamps=1: device %s does not stamp packets with the time of day; "
                    "they have none",
                    roce->device.name);
    }
    if (roce->in.cq_ex == NULL)
        roce->in.cq_ex = ibv_create_cq_ex(verbs, &wanted);
    if (roce->in.cq_ex == NULL) {
        wanted.comp_mask = wanted.flags = 0; /* some devices support no flags */
        roce->in.cq_ex = ibv_create_cq_ex(verbs, &wanted);
    }
    /* Soft-RoCE's library before rdma-core 55 loses count when an iteration reaches the end of the queue. */
    roce->in.stepwise = vendor == SOFT_ROCE_VENDOR;
    roce->in.cq = roce->in.cq_ex != NULL
                      ? ibv_cq_ex_to_cq(roce->in.cq_ex)
                      : ibv_create_cq(verbs, (int)roce->in.depth, NULL, roce->sleep.channel, 0);
    return roce->in.cq != NULL ? 0 : lli_roce_fail(roce, "a completion queue");
}

static int cqs_open(struct lli_roce *roce, uint32_t vendor, const struct llm_options *options)
{
    int status;

    roce->sleep.channel = ibv_create_comp_channel(roce->out.id->verbs);
    if (roce->sleep.channel == NULL ||
        fcntl(roce->sleep.channel->fd, F_SETFL, fcntl(roce->sleep.channel->fd, F_GETFL) | O_NONBLOCK) < 0)
        return lli_roce_fail(roce, "a completion channel");
    if ((status = receive_cq_open(roce, vendor, options->timestamps != 0)) != 0)
        return status;
    roce->out.cq = ibv_create_cq(roce->out.id->verbs, (int)roce->out.mask + 1, NULL, roce->sleep.channel, 0);
    return roce->out.cq != NULL ? 0 : lli_roce_fail(roce, "a completion queue");
}

/* -------------------------------------------------------------------------------------------- queue pairs */

static int qp_open(struct lli_roce *roce, struct rdma_cm_id *id, struct ibv_cq *cq,
                   const struct ibv_qp_cap *caps, struct ibv_qp **qp)
{
    struct ibv_qp_init_attr wanted = {
        .send_cq = cq, .recv_cq = cq, .cap = *caps, .qp_type = IBV_QPT_UD, .sq_sig_all = 0};
    uint32_t inline_bytes = caps->max_inline_data;

    /* A device with less inline space refuses: retry with half. */
    while (rdma_create_qp(id, roce->device.domain, &wanted) != 0) {
        if (wanted.cap.max_inline_data == 0)
            return lli_roce_fail(roce, "a queue pair");
        inline_bytes /= 2;
        wanted.cap = *caps;
        wanted.cap.max_inline_data = inline_bytes < CACHE_LINE ? 0 : inline_bytes;
    }
    roce->out.inline_max = (uint32_t)lli_min(wanted.cap.max_inline_data, roce->out.payload_max);
    *qp = id->qp;
    return 0;
}

static int qps_open(struct lli_roce *roce)
{
    const struct ibv_qp_cap receive = {
        .max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = roce->in.depth, .max_recv_sge = 1};
    const struct ibv_qp_cap send = {.max_send_wr = roce->out.mask + 1,
                                    .max_send_sge = 1,
                                    .max_recv_wr = 1,
                                    .max_recv_sge = 1,
                                    .max_inline_data = LLI_ROCE_INLINE};
    int status = qp_open(roce, roce->in.id, roce->in.cq, &receive, &roce->in.qp);

    return status != 0 ? status : qp_open(roce, roce->out.id, roce->out.cq, &send, &roce->out.qp);
}

/* Returns the largest power of two not above the wanted value, limited to least and most. */
static uint32_t depth_within(uint64_t wanted, uint64_t least, uint64_t most)
{
    uint32_t depth = 1;

    wanted = lli_min(lli_max(wanted, least), most);
    while (2ull * depth <= wanted)
        depth *= 2;
    return depth;
}

int lli_roce_queues_open(struct lli_roce *roce, const struct llm_options *options,
                         const struct ibv_device_attr *limits)
{
    const uint64_t device_max = lli_max(lli_min((uint64_t)limits->max_qp_wr, (uint64_t)limits->max_cqe), 2);
    uint64_t lines;
    int status;

    /* Peers may send larger packets than we do: up to the device's maximum. */
    roce->in.offset = CACHE_LINE - LLI_ROCE_GRH;
    lines = (CACHE_LINE + lli_max(roce->out.payload_max, PACKET_MAX) + CACHE_LINE - 1) / CACHE_LINE | 1;
    roce->in.stride = (uint32_t)lines * CACHE_LINE;
    /* Round up to flow_window_packets: a transmitter that observes its window must not overrun the queue. */
    roce->in.depth = depth_within(
        lli_max(options->rcvbuf_bytes / roce->in.stride, 2 * (uint64_t)options->flow_window_packets - 1),
        LLI_ROCE_RECEIVE_DEPTH_MIN, lli_min(device_max, (uint64_t)LLI_ROCE_RECEIVE_DEPTH_MAX));
    roce->out.mask = depth_within(LLI_ROCE_SEND_DEPTH, 2, device_max) - 1;
    roce->device.domain = ibv_alloc_pd(roce->out.id->verbs);
    if (roce->device.domain == NULL)
        return lli_roce_fail(roce, "a protection domain");
    if ((status = cqs_open(roce, limits->vendor_id, options)) != 0 || (status = qps_open(roce)) != 0 ||
        (status = send_queue_open(roce)) != 0 || (status = receive_buffers_open(roce)) != 0)
        return status;
    lli_roce_repost(roce);
    if (roce->in.returned_count > 0)
        return lli_fail(roce->log, LLM_ESYSTEM, "roce: device %s took %u of %u receive buffers",
                        roce->device.name, roce->in.posted, roce->in.depth);
    return 0;
}

static void handles_close(struct lli_roce *roce)
{
    for (uint32_t i = 0; i < LLI_ROCE_GROUPS_MAX; i++) {
        if (roce->out.senders[i].handle != NULL)
            ibv_destroy_ah(roce->out.senders[i].handle);
        roce->out.senders[i].handle = NULL;
    }
    for (uint32_t place = 0; roce->peers.routes != NULL && place < roce->peers.table.max; place++) {
        if (roce->peers.routes[place].handle != NULL)
            ibv_destroy_ah(roce->peers.routes[place].handle);
        roce->peers.routes[place].handle = NULL;
    }
}

void lli_roce_queues_close(struct lli_roce *roce)
{
    lli_roce_leave_all(roce); /* a queue pair in a group cannot be closed */
    if (roce->in.qp != NULL)
        rdma_destroy_qp(roce->in.id);
    if (roce->out.qp != NULL)
        rdma_destroy_qp(roce->out.id);
    roce->in.qp = roce->out.qp = NULL;
    handles_close(roce);
    if (roce->in.cq != NULL)
        ibv_destroy_cq(roce->in.cq);
    if (roce->out.cq != NULL)
        ibv_destroy_cq(roce->out.cq);
    roce->in.cq = roce->out.cq = NULL;
    roce->in.cq_ex = NULL;
    for (uint32_t i = 0; i < LLI_ROCE_REGIONS_MAX; i++) {
        if (roce->out.regions[i].registration != NULL)
            ibv_dereg_mr(roce->out.regions[i].registration);
        roce->out.regions[i] = (struct lli_roce_region){0};
    }
    if (roce->in.registration != NULL)
        ibv_dereg_mr(roce->in.registration);
    roce->in.registration = NULL;
    if (roce->device.domain != NULL)
        ibv_dealloc_pd(roce->device.domain);
    roce->device.domain = NULL;
}

/* ------------------------------------------------------------------------------------------------ regions */

int lli_roce_region_begin(void *instance, void *base, size_t size)
{
    struct lli_roce *roce = instance;

    if (lli_roce_is_gone(roce))
        return lli_roce_fail_gone(roce);
    for (uint32_t i = 0; i < LLI_ROCE_REGIONS_MAX; i++) {
        struct lli_roce_region *region = &roce->out.regions[i];

        if (region->registration != NULL)
            continue;
        region->registration = ibv_reg_mr(roce->device.domain, base, size, 0);
        if (region->registration == NULL)
            return lli_roce_fail(roce, "registration of memory to send from");
        region->base = (uintptr_t)base;
        region->size = size;
        return 0;
    }
    return lli_fail(roce->log, LLM_ELIMIT,
                    "roce: more than %d transmitters on interface %s; use a second context",
                    LLI_ROCE_REGIONS_MAX, roce->device.interface.name);
}

void lli_roce_drain(struct lli_roce *roce)
{
    const lli_ns until = lli_clock_ns() + LLI_ROCE_SECOND;

    while (!lli_roce_is_gone(roce) && roce->out.done != roce->out.posted && lli_clock_ns() < until)
        (void)lli_roce_reap(roce);
}

void lli_roce_region_end(void *instance, void *base, size_t size)
{
    struct lli_roce *roce = instance;

    for (uint64_t number = roce->out.posted; number != roce->out.taken; number++)
        if (roce->out.pieces[number & roce->out.mask].addr - (uintptr_t)base < size)
            lli_roce_lose(roce, number);
    lli_roce_drain(roce);
    if (lli_roce_is_gone(roce))
        return; /* the control thread releases all regions */
    for (uint32_t i = 0; i < LLI_ROCE_REGIONS_MAX; i++) {
        if (roce->out.regions[i].registration == NULL || roce->out.regions[i].base != (uintptr_t)base)
            continue;
        ibv_dereg_mr(roce->out.regions[i].registration);
        roce->out.regions[i] = (struct lli_roce_region){0};
        break;
    }
}

/* ------------------------------------------------------------------------------------------------- repair */

static bool qp_move(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
    return ibv_modify_qp(qp, &attr, mask) == 0;
}

bool lli_roce_send_repair(const struct lli_roce *roce)
{
    struct ibv_qp *qp = roce->out.qp;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) != 0)
        return false;
    if (attr.qp_state == IBV_QPS_RTS)
        return true;
    if (attr.qp_state == IBV_QPS_SQE)
        return qp_move(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE},
                       IBV_QP_STATE | IBV_QP_CUR_STATE);
    return qp_move(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE) &&
           qp_move(qp,
                   (struct ibv_qp_attr){
                       .qp_state = IBV_QPS_INIT, .port_num = roce->device.port, .qkey = RDMA_UDP_QKEY},
                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) &&
           qp_move(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR}, IBV_QP_STATE) &&
           qp_move(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE | IBV_QP_SQ_PSN);
}
