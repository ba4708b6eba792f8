/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeroMQ. Variants: zmq-tcp and zmq-ipc (publish and subscribe; at full rate push and pull), zmq-epgm and
 * zmq-norm (publish and subscribe over reliable multicast, where libzmq was built with it).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "adapter.h"

#define QUEUE_BURST 256          /* messages taken in one poll */
#define QUEUE_MESSAGES 100000    /* high-water mark of each queue, in messages */
#define QUEUE_RATE_KBIT 10000000 /* rate of multicast; the default is 100 kbit/s */
#define QUEUE_RECOVERY_MS 200    /* time that messages are retained for repairs; memory is rate * time */
#define QUEUE_SOCKET_BYTES 16777216

struct queue {
    void *context;
    void *send;
    void *receive;
};

static struct queue queue;

static int queue_set(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

/* The publisher waits for a slow subscriber instead of dropping messages. */
static int queue_tune(void *socket, bool publishes, bool multicast)
{
    int failed = 0;

    failed |= queue_set(socket, ZMQ_LINGER, 0);
    failed |= queue_set(socket, ZMQ_SNDHWM, QUEUE_MESSAGES);
    failed |= queue_set(socket, ZMQ_RCVHWM, QUEUE_MESSAGES);
    if (publishes)
        failed |= queue_set(socket, ZMQ_XPUB_NODROP, 1);
    if (multicast) {
        failed |= queue_set(socket, ZMQ_RATE, QUEUE_RATE_KBIT);
        failed |= queue_set(socket, ZMQ_RECOVERY_IVL, QUEUE_RECOVERY_MS);
        failed |= queue_set(socket, ZMQ_SNDBUF, QUEUE_SOCKET_BYTES);
        failed |= queue_set(socket, ZMQ_RCVBUF, QUEUE_SOCKET_BYTES);
    }
    return failed;
}

/* The place of a process, by its number among those of its side. */
static void queue_endpoint(const struct adapter_link *link, bool sends, unsigned at, char *text, size_t size)
{
    const char *group = sends ? link->send_group : link->receive_group;
    /* Each process that publishes has a port, or a socket, of its own. */
    unsigned port = (sends ? link->send_port : link->receive_port) + 2 * at;

    if (strcmp(link->variant, "zmq-epgm") == 0)
        snprintf(text, size, "epgm://%s;%s:%u", link->address, group, port);
    else if (strcmp(link->variant, "zmq-norm") == 0)
        snprintf(text, size, "norm://%u,%s;%s:%u", link->near ? 1u : 2u, link->interface, group, port);
    else if (*link->common)
        snprintf(text, size, "ipc://%s/%s.%u", link->common, group, at);
    else
        snprintf(text, size, "tcp://%s:%u", sends ? link->address : link->peer_address, port);
}

static int queue_subscribe(const struct adapter_link *link)
{
    int failed = link->prefixes == NULL ? zmq_setsockopt(queue.receive, ZMQ_SUBSCRIBE, "", 0) : 0;

    for (size_t i = 0; i < link->prefix_count; i++)
        failed |= zmq_setsockopt(queue.receive, ZMQ_SUBSCRIBE, &link->prefixes[i], sizeof link->prefixes[i]);
    return failed;
}

static int queue_open(const struct adapter_link *link)
{
    bool multicast = strcmp(link->variant, "zmq-epgm") == 0 || strcmp(link->variant, "zmq-norm") == 0;
    bool pushes = !multicast && link->throughput;
    char endpoint[128];

    if (*link->common) /* this also raises the full rate by a quarter */
        adapter_prefer_idle(ADAPTER_YIELD);
    queue.context = zmq_ctx_new();
    if (!queue.context)
        return adapter_fail("zmq_ctx_new", zmq_strerror(zmq_errno()));
    queue.send = zmq_socket(queue.context, pushes ? ZMQ_PUSH : ZMQ_PUB);
    queue.receive = zmq_socket(queue.context, pushes ? ZMQ_PULL : ZMQ_SUB);
    if (!queue.send || !queue.receive || queue_tune(queue.send, !pushes, multicast) != 0 ||
        queue_tune(queue.receive, false, multicast) != 0 || (!pushes && queue_subscribe(link) != 0))
        return adapter_fail("cannot set up the sockets", zmq_strerror(zmq_errno()));
    queue_endpoint(link, true, link->index, endpoint, sizeof endpoint);
    if (zmq_bind(queue.send, endpoint) != 0)
        return adapter_fail(endpoint, zmq_strerror(zmq_errno()));
    for (unsigned at = 0; at < (multicast ? 1 : link->others); at++) {
        queue_endpoint(link, false, at, endpoint, sizeof endpoint);
        if (zmq_connect(queue.receive, endpoint) != 0)
            return adapter_fail(endpoint, zmq_strerror(zmq_errno()));
    }
    return 0;
}

static int queue_send(const void *data, size_t size, bool more)
{
    (void)more;
    return zmq_send(queue.send, data, size, ZMQ_DONTWAIT) >= 0;
}

static int queue_poll(void)
{
    int count = 0;

    while (count < QUEUE_BURST) {
        zmq_msg_t message;

        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, queue.receive, ZMQ_DONTWAIT) < 0)
            break;
        adapter_deliver(zmq_msg_data(&message), zmq_msg_size(&message));
        zmq_msg_close(&message);
        count++;
    }
    if (count > 0)
        adapter_delivered();
    return count;
}

/* A ZeroMQ descriptor is edge-triggered; test for pending work before each sleep. */
static bool queue_is_ready(void *socket, short wanted, struct pollfd *fd)
{
    int events = 0;
    size_t events_size = sizeof events;
    size_t fd_size = sizeof fd->fd;

    fd->events = POLLIN;
    zmq_getsockopt(socket, ZMQ_FD, &fd->fd, &fd_size);
    zmq_getsockopt(socket, ZMQ_EVENTS, &events, &events_size);
    return (events & wanted) != 0;
}

static void queue_wait(uint64_t until)
{
    struct pollfd fds[2];

    if (queue_is_ready(queue.receive, ZMQ_POLLIN, &fds[0]))
        return;
    if (adapter_is_refused() && queue_is_ready(queue.send, ZMQ_POLLOUT, &fds[1]))
        return;
    adapter_sleep(fds, adapter_is_refused() ? 2 : 1, until);
}

static void queue_close(void)
{
    if (queue.send)
        zmq_close(queue.send);
    if (queue.receive)
        zmq_close(queue.receive);
    if (queue.context)
        zmq_ctx_term(queue.context);
}

const struct adapter adapter_peer = {
    .name = "zmq",
    .batch = 256,
    .idle_reflector = ADAPTER_YIELD,
    .idle_throughput = ADAPTER_SLEEP,
    .open = queue_open,
    .send = queue_send,
    .poll = queue_poll,
    .wait = queue_wait,
    .close = queue_close,
};
