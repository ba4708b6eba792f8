/* SPDX-License-Identifier: Apache-2.0 */
/* Open, close and waiting. */
#define _GNU_SOURCE
#include "roce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --------------------------------------------------------------------------------------------------- open */

/* librdmacm finds the device by the interface's address. */
static int id_open(struct lli_roce *roce, struct rdma_cm_id **id)
{
    if (rdma_create_id(roce->events, id, roce, RDMA_PS_UDP) != 0)
        return lli_roce_fail(roce, "an RDMA identifier");
    return rdma_bind_addr(*id, &roce->device.interface.address.any) == 0
               ? 0
               : lli_roce_fail(roce, "an RDMA device");
}

static int ids_open(struct lli_roce *roce)
{
    int status;

    roce->events = rdma_create_event_channel();
    if (roce->events == NULL)
        return lli_roce_fail(roce, "librdmacm");
    status = id_open(roce, &roce->out.id);
    return status != 0 ? status : id_open(roce, &roce->in.id);
}

static int peers_open(struct lli_roce *roce, const struct llm_options *options)
{
    const uint32_t max = options->receivers_max + options->sessions_max;

    roce->peers.routes = calloc(max, sizeof *roce->peers.routes);
    if (lli_peers_init(&roce->peers.table, max) == 0 && roce->peers.routes != NULL)
        return 0;
    return lli_fail(roce->log, LLM_ENOMEM, "roce: no memory for the addresses of receivers_max=%u",
                    options->receivers_max);
}

static int waiting_open(struct lli_roce *roce)
{
    struct epoll_event event = {.events = EPOLLIN};

    roce->sleep.woken = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    roce->sleep.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (roce->sleep.woken < 0 || roce->sleep.epoll < 0 ||
        epoll_ctl(roce->sleep.epoll, EPOLL_CTL_ADD, roce->sleep.woken, &event) < 0 ||
        epoll_ctl(roce->sleep.epoll, EPOLL_CTL_ADD, roce->sleep.channel->fd, &event) < 0)
        return lli_roce_fail(roce, "an event descriptor");
    return 0;
}

static int instance_set_up(struct lli_roce *roce, const struct lli_transport_config *config)
{
    const struct llm_options *options = config->options;
    struct ibv_device_attr limits;
    union lli_ip_address group;
    int status;

    if ((status = lli_ip_group_resolve(roce->log, "roce", config->host, AF_UNSPEC, &group)) != 0)
        return status;
    roce->v4 = group.any.sa_family == AF_INET;
    if ((status = lli_ip_interface_find(roce->log, "roce", options->interface, &group,
                                        &roce->device.interface)) != 0)
        return status;
    roce->in.own = lli_roce_gid_of(&roce->device.interface.address);
    roce->control.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (roce->control.wake < 0)
        return lli_roce_fail(roce, "an event descriptor");
    if ((status = ids_open(roce)) != 0 || (status = lli_roce_device_check(roce, options, &limits)) != 0 ||
        (status = peers_open(roce, options)) != 0 ||
        (status = lli_roce_queues_open(roce, options, &limits)) != 0)
        return status;
    status = waiting_open(roce);
    return status != 0 ? status : lli_roce_control_start(roce);
}

int lli_roce_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct lli_roce *roce = instance;
    int status;

    roce->log = config->log;
    roce->control.wake = roce->sleep.woken = roce->sleep.epoll = -1;
    pthread_mutex_init(&roce->control.mutex, NULL);
    pthread_mutex_init(&roce->control.calls, NULL);
    pthread_cond_init(&roce->control.changed, NULL);
    status = instance_set_up(roce, config);
    if (status != 0) {
        lli_roce_close(roce);
        return status;
    }
    *caps = (struct lli_caps){
        .payload_max = roce->out.payload_max,
        .post_max = (uint32_t)lli_min(LLI_ROCE_POST_MAX, (roce->out.mask + 1) / 2),
        .train_max = 1,
        .align = 64,
        .flags = LLI_CAP_UNICAST,
        .numa_node = roce->device.numa_node,
    };
    return 0;
}

static void descriptor_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Frees private memory and descriptors of this process. */
static void memory_free(struct lli_roce *roce)
{
    descriptor_close(roce->control.wake);
    descriptor_close(roce->sleep.woken);
    descriptor_close(roce->sleep.epoll);
    lli_memory_unmap(&roce->in.memory);
    lli_peers_fini(&roce->peers.table);
    free(roce->peers.routes);
    free(roce->out.requests);
    free(roce->out.pieces);
    free(roce->out.kinds);
    free(roce->out.to);
    free(roce->in.requests);
    free(roce->in.pieces);
    free(roce->in.returned);
}

/*
 * Leaves the device's objects alone: they are the parent's, and destroying one here would destroy it there.
 * The RDMA libraries' data about them, some hundred bytes each and the descriptors of devices, remains in
 * this process until it exits.
 */
void lli_roce_abandon(void *instance)
{
    struct lli_roce *roce = instance;

    if (roce->sleep.channel != NULL)
        close(roce->sleep.channel->fd);
    close(roce->events->fd);
    memory_free(roce);
    memset(roce, 0, sizeof *roce);
}

void lli_roce_close(void *instance)
{
    struct lli_roce *roce = instance;

    lli_roce_control_stop(roce);
    lli_roce_queues_close(roce);
    if (roce->sleep.channel != NULL)
        ibv_destroy_comp_channel(roce->sleep.channel);
    if (roce->out.id != NULL)
        rdma_destroy_id(roce->out.id);
    if (roce->in.id != NULL)
        rdma_destroy_id(roce->in.id);
    if (roce->events != NULL)
        rdma_destroy_event_channel(roce->events);
    pthread_mutex_destroy(&roce->control.mutex);
    pthread_mutex_destroy(&roce->control.calls);
    pthread_cond_destroy(&roce->control.changed);
    memory_free(roce);
    memset(roce, 0, sizeof *roce);
}

/* ------------------------------------------------------------------------------------------------ waiting */

int lli_roce_arm(void *instance)
{
    struct lli_roce *roce = instance;
    struct ibv_cq *fired;
    void *context;
    uint64_t count;

    (void)!read(roce->sleep.woken, &count, sizeof count); /* clear all: the caller polls now */
    if (lli_roce_is_gone(roce)) {
        /* It may stay readable forever. */
        epoll_ctl(roce->sleep.epoll, EPOLL_CTL_DEL, roce->sleep.channel->fd, NULL);
        return roce->sleep.epoll;
    }
    while (ibv_get_cq_event(roce->sleep.channel, &fired, &context) == 0) {
        ibv_ack_cq_events(fired, 1);
        if (fired == roce->in.cq)
            roce->in.armed = false;
        else
            roce->out.armed = false;
    }
    if (!roce->in.armed)
        roce->in.armed = ibv_req_notify_cq(roce->in.cq, 0) == 0;
    if (!roce->out.armed && roce->out.done != roce->out.posted)
        roce->out.armed = ibv_req_notify_cq(roce->out.cq, 0) == 0;
    return roce->sleep.epoll;
}
