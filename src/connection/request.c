/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and replies over a connection: messages on two topics of its own that begin with a number
 * (docs/protocol.md section 13.5). The replying side has no state of a request; the requesting side has a
 * bounded table of those that wait.
 */
#include "connection/connection.h"

#define REQUEST_TOPIC "llm.requests"
#define REPLY_TOPIC "llm.replies"

enum { REQUEST_HEAD = 8 };

/* ------------------------------------------------------------------------------------------------ send */

/* Checks that a request or a reply may be sent now: LLM_OK, or the error, which is logged. */
static int request_allowed(const struct llm_connection *connection, const char *call, size_t size)
{
    const uint64_t most = connection->transmitter->message_bytes_max -
                          lli_min(connection->transmitter->message_bytes_max, REQUEST_HEAD);

    if (connection->state != LLI_CONNECTION_OPEN || connection->closing)
        return lli_refuse(connection->context, LLM_ESTATE,
                          "%s: connection %016llx is not open: call it between the events "
                          "CONNECTED and DISCONNECTED",
                          call, (unsigned long long)connection->id);
    if (size > most)
        return lli_refuse(connection->context, LLM_EMSGSIZE,
                          "%s: %zu bytes: connection %016llx takes at most %llu, by message_bytes_max of "
                          "both sides",
                          call, size, (unsigned long long)connection->id, (unsigned long long)most);
    return LLM_OK;
}

/* Sends a number and the data after it on a topic, which is opened by the first send. */
static int request_send(struct llm_connection *connection, struct llm_topic **topic, const char *name,
                        uint64_t number, const struct iovec *data)
{
    uint8_t head[REQUEST_HEAD];
    const struct iovec pieces[] = {{head, sizeof head}, *data};
    int error = *topic != NULL ? LLM_OK : llm_topic_open(connection->transmitter, name, 0, topic);

    if (error != LLM_OK)
        return error;
    lli_store_u64(head, number);
    return llm_sendv(*topic, pieces, 2, 0);
}

static int request_begin(struct llm_connection *connection, const struct iovec *data,
                         const struct lli_request *wanted)
{
    struct lli_request *request = &connection->requests[connection->requests_next % LLM_REQUESTS_MAX];
    int error = request_allowed(connection, "llm_connection_request", data->iov_len);

    if (error != LLM_OK)
        return error;
    if (request->reply != NULL)
        return LLM_EAGAIN;
    error = request_send(connection, &connection->asking, REQUEST_TOPIC, connection->requests_next, data);
    if (error != LLM_OK)
        return error;
    *request = *wanted;
    request->number = connection->requests_next++;
    connection->requests_at = lli_min(connection->requests_at, request->until);
    lli_conn_due(connection->context, request->until);
    return LLM_OK;
}

int llm_connection_request(struct llm_connection *connection, const void *data, size_t size,
                           uint64_t timeout_ns, llm_reply_fn *reply, void *arg)
{
    const struct iovec piece = {(void *)(uintptr_t)data, size};
    const lli_ns now = lli_clock_ns();
    const struct lli_request wanted = {
        .reply = reply, .arg = arg, .until = timeout_ns > LLI_NEVER - now ? LLI_NEVER : now + timeout_ns};
    int error;

    if (connection == NULL)
        return LLM_EINVAL;
    if ((data == NULL && size > 0) || reply == NULL || timeout_ns == 0)
        return lli_refuse(connection->context, LLM_EINVAL,
                          "llm_connection_request: %s: give the bytes, a reply function and a time in ns",
                          reply == NULL     ? "reply is NULL"
                          : timeout_ns == 0 ? "timeout_ns is 0"
                                            : "data is NULL, and size not 0");
    if (!lli_context_enter(connection->context))
        return LLM_ESTATE;
    error = request_begin(connection, &piece, &wanted);
    lli_context_leave(connection->context);
    return error;
}

int llm_connection_reply(struct llm_connection *connection, uint64_t id, const void *data, size_t size)
{
    const struct iovec piece = {(void *)(uintptr_t)data, size};
    int error;

    if (connection == NULL)
        return LLM_EINVAL;
    if (data == NULL && size > 0)
        return lli_refuse(connection->context, LLM_EINVAL,
                          "llm_connection_reply: data is NULL and size %zu: give the bytes, or size 0", size);
    if (!lli_context_enter(connection->context))
        return LLM_ESTATE;
    error = request_allowed(connection, "llm_connection_reply", size);
    if (error == LLM_OK)
        error = request_send(connection, &connection->replying, REPLY_TOPIC, id, &piece);
    lli_context_leave(connection->context);
    return error;
}

/* --------------------------------------------------------------------------------------------- receive */

bool lli_requests_topic(struct llm_connection *connection, const struct llm_event *event)
{
    if (event->kind != LLM_EVENT_TOPIC_NEW)
        return false;
    if (strcmp(event->topic, REQUEST_TOPIC) == 0)
        connection->request_topic = event->topic_id;
    else if (strcmp(event->topic, REPLY_TOPIC) == 0)
        connection->replied_topic = event->topic_id;
    else
        return false;
    return true;
}

/*
 * Passes a reply to the request that waits for it. The entry is freed first: the reply function may send a
 * request.
 */
static void request_replied(struct llm_connection *connection, uint64_t number, const uint8_t *data,
                            size_t size)
{
    struct lli_request *place = &connection->requests[number % LLM_REQUESTS_MAX];
    const struct lli_request request = *place;

    /* Too late, or forged. */
    if (request.reply == NULL || request.number != number)
        return;
    place->reply = NULL;
    request.reply(request.arg, LLM_REASON_NONE, data, size);
}

void lli_requests_message(struct llm_connection *connection, const struct llm_message *message)
{
    struct lli_reader reader = lli_reader_of(message->data, message->size);
    const uint64_t number = lli_read_u64(&reader);
    const size_t size = (size_t)(reader.end - reader.at);

    if (!reader.ok)
        return;
    if (message->topic_id == connection->replied_topic) {
        request_replied(connection, number, reader.at, size);
    } else if (connection->handlers.request != NULL) {
        const struct llm_request asked = {.id = number, .data = reader.at, .size = size};

        connection->handlers.request(connection->handlers.arg, connection, &asked);
    }
}

/* ---------------------------------------------------------------------------------------------- expire */

lli_ns lli_requests_expire(struct llm_connection *connection, bool all, enum llm_reason reason, lli_ns now)
{
    struct llm_context *context = connection->context;

    if (!all && now < connection->requests_at)
        return connection->requests_at;
    /* Requests sent by the reply functions below lower it again. */
    connection->requests_at = LLI_NEVER;
    for (uint64_t i = 0; i < LLM_REQUESTS_MAX; i++) {
        struct lli_request *place = &connection->requests[i];
        const struct lli_request request = *place;

        if (request.reply == NULL)
            continue;
        if (!all && now < request.until) {
            connection->requests_at = lli_min(connection->requests_at, request.until);
            continue;
        }
        place->reply = NULL;
        context->in_handler = true;
        request.reply(request.arg, reason, NULL, 0);
        context->in_handler = false;
        context->delivered++;
    }
    return connection->requests_at;
}
