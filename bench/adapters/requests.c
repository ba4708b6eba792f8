/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over a connection, each of which is a message that comes back as its reply; and bare UDP between
 * the same two hosts, 100 ports further. The channel is the far end's, which listens. So many are outstanding
 * at most.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../engine/control.h"
#include "../raw/raw.h"
#include "adapter.h"

#define ASKED_PATIENCE_NS 1000000000ull /* with a reply */
#define ASKED_CONNECT_NS 30000000000ull
#define ASKED_LOST_NS 20000000ull /* bare: what has not come back by then is lost */

enum { ASKED_OUTSTANDING_MAX = 256, ASKED_SIZE_MAX = 65536 };

static struct asked {
    bool near;
    struct llm_context *context;
    struct llm_listener *listener;
    struct llm_connection *connection; /* of the far end: whose request is being answered; NULL: none */
    uint64_t id;                       /* of that */
    bool connected;
    bool over;
    uint64_t outstanding;
} asked;

/* ------------------------------------------------------------------------------------------------- libllm */

static void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    (void)arg;
    asked.outstanding--;
    if (reason == LLM_REASON_NONE)
        adapter_deliver(data, size);
}

static void on_near_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    (void)arg;
    (void)connection;
    asked.connected |= event->kind == LLM_EVENT_CONNECTED;
    asked.over |= event->kind == LLM_EVENT_DISCONNECTED;
}

/* A greeting comes back as it is, as there is no other way to send one. */
static void on_request(void *arg, struct llm_connection *connection, const struct llm_request *request)
{
    (void)arg;
    asked.connection = connection;
    asked.id = request->id;
    adapter_deliver(request->data, request->size);
    if (asked.connection != NULL)
        (void)llm_connection_reply(connection, request->id, request->data, request->size);
    asked.connection = NULL;
}

static int on_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                     struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)listener;
    (void)caller;
    handlers->request = on_request;
    return LLM_OK;
}

static int asked_listen(const char *channel)
{
    struct llm_listener_handlers handlers;

    llm_listener_handlers_init(&handlers);
    handlers.connect = on_caller;
    return llm_listener_open(asked.context, channel, NULL, &handlers, &asked.listener);
}

static int asked_connect(const char *channel)
{
    struct llm_connection_handlers handlers;
    struct llm_options options;
    int error;

    llm_connection_options_init(&options);
    options.connect_timeout_ns = ASKED_CONNECT_NS;
    llm_connection_handlers_init(&handlers);
    handlers.event = on_near_event;
    error = llm_connection_open(asked.context, channel, &options, &handlers, NULL, &asked.connection);
    while (error == LLM_OK && !asked.connected && !asked.over)
        error = llm_poll(asked.context) < 0 ? LLM_ESTATE : LLM_OK;
    return error;
}

static int asked_open(const struct adapter_link *link)
{
    int error = llm_context_open(NULL, &asked.context);

    asked.near = link->near;
    if (error == LLM_OK)
        error = link->near ? asked_connect(link->send) : asked_listen(link->send);
    if (error != LLM_OK || asked.over)
        return adapter_fail(link->send, error != LLM_OK ? llm_error_text(error) : "no connection");
    return 0;
}

static int asked_send(const void *data, size_t size, bool more)
{
    (void)more;
    if (!asked.near) {
        const bool taken = asked.connection != NULL &&
                           llm_connection_reply(asked.connection, asked.id, data, size) == LLM_OK;

        asked.connection = taken ? NULL : asked.connection;
        return taken;
    }
    if (asked.over)
        control_fail("the connection", "is over");
    if (asked.outstanding >= ASKED_OUTSTANDING_MAX ||
        llm_connection_request(asked.connection, data, size, ASKED_PATIENCE_NS, on_reply, NULL) != LLM_OK)
        return 0;
    asked.outstanding++;
    return 1;
}

static int asked_poll(void)
{
    const int count = llm_poll(asked.context);

    return count > 0 ? count : 0;
}

static void asked_close(void)
{
    if (asked.near)
        (void)llm_connection_close(&asked.connection);
    (void)llm_listener_close(&asked.listener);
    (void)llm_context_close(&asked.context);
}

const struct adapter adapter_requests = {
    .name = "requests",
    .batch = 1,
    .open = asked_open,
    .send = asked_send,
    .poll = asked_poll,
    .close = asked_close,
};

/* --------------------------------------------------------------------------------------------------- bare */

static struct unicast {
    int fd;
    bool known; /* whom to send to: of the far end, that from which the first datagram came */
    uint64_t outstanding;
    uint64_t heard_at;
} unicast = {.fd = -1};

static int unicast_open(const struct adapter_link *link)
{
    struct raw_group group;

    raw_group_of(link->raw_receive, &group);
    unicast.fd = socket(group.address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unicast.known = link->near;
    if (unicast.fd < 0 ||
        (link->near ? connect : bind)(unicast.fd, (struct sockaddr *)&group.address, group.address_size) != 0)
        return adapter_fail("the socket", strerror(errno));
    return 0;
}

static int unicast_send(const void *data, size_t size, bool more)
{
    (void)more;
    if (unicast.outstanding >= ASKED_OUTSTANDING_MAX && llm_clock() > unicast.heard_at + ASKED_LOST_NS)
        unicast.outstanding = 0;
    if (unicast.outstanding >= ASKED_OUTSTANDING_MAX || send(unicast.fd, data, size, 0) != (ssize_t)size)
        return 0;
    unicast.heard_at = unicast.outstanding++ == 0 ? llm_clock() : unicast.heard_at;
    return 1;
}

/*
 * The far end's socket hears nobody else from the first datagram on. What it sends back is not outstanding.
 */
static int unicast_poll(void)
{
    static uint8_t data[ASKED_SIZE_MAX];
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    const ssize_t got = unicast.known
                            ? recv(unicast.fd, data, sizeof data, 0)
                            : recvfrom(unicast.fd, data, sizeof data, 0, (struct sockaddr *)&from, &size);

    if (got < 0)
        return 0;
    unicast.known = unicast.known || connect(unicast.fd, (const struct sockaddr *)&from, size) == 0;
    unicast.outstanding -= unicast.outstanding > 0;
    unicast.heard_at = asked.near ? llm_clock() : 0;
    adapter_deliver(data, (size_t)got);
    unicast.outstanding = asked.near ? unicast.outstanding : 0;
    return 1;
}

/* Leftovers of an earlier measurement must not come into this one. */
static void unicast_begin(size_t size, bool packed)
{
    uint8_t data[64];

    (void)size;
    (void)packed;
    while (unicast.known && recv(unicast.fd, data, sizeof data, 0) >= 0)
        continue;
    unicast.outstanding = 0;
}

static void unicast_close(void)
{
    if (unicast.fd >= 0)
        (void)close(unicast.fd);
}

const struct adapter adapter_unicast = {
    .name = "unicast",
    .batch = 1,
    .open = unicast_open,
    .send = unicast_send,
    .poll = unicast_poll,
    .close = unicast_close,
    .begin = unicast_begin,
};
