/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over a connection: each message is a request that returns as its reply. The channel is that of the
 * far end, which listens.
 */

#include <llm/llm.h>

#include "../engine/control.h"
#include "adapter.h"

#define ASKED_PATIENCE_NS 1000000000ull /* wait for a reply */
#define ASKED_CONNECT_NS 30000000000ull

enum { ASKED_OUTSTANDING_MAX = 256 };

static struct asked {
    bool near;
    struct llm_context *context;
    struct llm_listener *listener;
    struct llm_connection *connection; /* far end: source of the request in progress; NULL: none */
    uint64_t id;                       /* identity of that request */
    bool connected;
    bool over;
    uint64_t outstanding;
} asked;

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

/* A greeting is replied to unchanged, as there is no other way to send one. */
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
