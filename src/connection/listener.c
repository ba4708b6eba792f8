/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners: callers are shown to the application, and answered. */
#include <stdio.h>
#include <stdlib.h>

#include "connection/connection.h"
#include "config/options.h"
#include "observe/stats.h"

/* Retry interval of answers that could not be sent. */
#define LISTENER_RETRY ((lli_ns)1000000)

enum { LISTENER_CODE_MAX = 65535 };

void llm_listener_handlers_init(struct llm_listener_handlers *handlers)
{
    if (handlers == NULL)
        return;
    *handlers = (struct llm_listener_handlers){.size = sizeof *handlers};
}

/* ------------------------------------------------------------------------------------------------ open */

static int listener_place(struct llm_listener *listener, const struct llm_options *options)
{
    const uint32_t max = options->connections_max;
    struct lli_applicant *applicants = calloc(2 * (size_t)max, sizeof *applicants);
    uint64_t *ids = calloc(2 * (size_t)max, sizeof *ids);

    lli_acceptor_init(&listener->acceptor, applicants, ids, max, options->connect_timeout_ns);
    return applicants == NULL || ids == NULL
               ? lli_fail(&listener->context->log, LLM_ENOMEM, "no memory for connections_max=%u", max)
               : LLM_OK;
}

void lli_listener_free(struct llm_listener *listener)
{
    free(listener->acceptor.applicants);
    free(listener->acceptor.ids);
    free(listener);
}

static int listener_join(struct llm_listener *listener)
{
    const struct lli_endpoint *endpoint = listener->endpoint;
    const struct lli_group group = {.host = listener->channel.host,
                                    .port = listener->channel.port,
                                    .options = &listener->channel.options,
                                    .values = &listener->channel.values};

    for (const struct llm_listener *other = listener->context->listeners; other != NULL; other = other->next)
        if (other->endpoint == endpoint && other->channel.port == group.port &&
            strcmp(other->channel.host, group.host) == 0)
            return lli_fail(&listener->context->log, LLM_EADDRINUSE,
                            "channel \"%s\": there is a listener in this context", listener->text);
    if (!(endpoint->caps.flags & LLI_CAP_UNICAST))
        return lli_fail(&listener->context->log, LLM_ESCHEME,
                        "channel \"%s\": the transport has no unicast, which connections need",
                        listener->text);
    return endpoint->transport->join(endpoint->instance, &group, LLI_JOIN_RECEIVE, &listener->group);
}

int lli_listener_open(struct llm_context *context, const char *text, const struct llm_options *options,
                      const struct llm_listener_handlers *handlers, struct llm_listener **result)
{
    struct llm_listener *listener = calloc(1, sizeof *listener);
    int error;

    if (listener == NULL)
        return lli_fail(&context->log, LLM_ENOMEM, "no memory for a listener");
    listener->context = context;
    (void)snprintf(listener->text, sizeof listener->text, "%.230s", text);
    (void)snprintf(listener->object, sizeof listener->object, "listener %.230s", text);
    llm_listener_handlers_init(&listener->handlers);
    error = lli_options_import(&listener->handlers, sizeof listener->handlers, handlers,
                               "struct llm_listener_handlers", &context->log);
    if (error == LLM_OK && listener->handlers.connect == NULL)
        error = lli_fail(&context->log, LLM_EINVAL,
                         "channel \"%s\": a listener without the handler connect would never accept", text);
    if (error == LLM_OK)
        error = lli_connection_channel(context, text, options, &listener->channel);
    if (error == LLM_OK)
        error = listener_place(listener, &listener->channel.options);
    if (error == LLM_OK)
        error = lli_endpoint_open(context, &listener->channel, &listener->endpoint);
    if (error != LLM_OK)
        goto free_listener;
    error = listener_join(listener);
    if (error != LLM_OK)
        goto close_endpoint;
    listener->next = context->listeners;
    context->listeners = listener;
    *result = listener;
    return LLM_OK;

close_endpoint:
    lli_endpoint_close(listener->endpoint);
free_listener:
    lli_listener_free(listener);
    return error;
}

int llm_listener_open(struct llm_context *context, const char *channel, const struct llm_options *options,
                      const struct llm_listener_handlers *handlers, struct llm_listener **listener)
{
    int error;

    if (context == NULL)
        return LLM_EINVAL;
    if (channel == NULL || handlers == NULL || listener == NULL)
        return lli_refuse(context, LLM_EINVAL, "llm_listener_open: %s is NULL: it has to be given",
                          channel == NULL    ? "channel"
                          : handlers == NULL ? "handlers"
                                             : "listener");
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    if (!context->in_handler)
        error = lli_listener_open(context, channel, options, handlers, listener);
    else
        error = LLI_REFUSE_IN_HANDLER(context, "llm_listener_open");
    lli_context_leave(context);
    return error;
}

/* ---------------------------------------------------------------------------------------------- answers */

/* Makes the connection of a waiting caller; on failure the caller is refused. */
static int listener_accept(struct llm_listener *listener, struct lli_applicant *applicant,
                           const struct llm_connection_handlers *handlers, lli_ns now)
{
    const struct lli_wire_accept other = {
        .session = applicant->connect.session,
        .message_bytes_max = applicant->connect.message_bytes_max,
        .address = applicant->connect.address,
    };
    struct lli_wire_accept answer = {.address = listener->endpoint->address};
    struct llm_connection *connection = NULL;
    int error =
        lli_connection_make(listener->context, &listener->channel, listener->text, handlers, &connection);

    if (error == LLM_OK) {
        connection->id = applicant->connect.id;
        connection->accepted = true;
        connection->until = now + listener->channel.options.connect_timeout_ns;
        error = lli_connection_run(connection, &other, now);
        if (error != LLM_OK)
            lli_connection_destroy(connection);
    }
    if (error != LLM_OK) {
        lli_acceptor_refuse(&listener->acceptor, applicant, LLI_WIRE_FULL, 0, now);
        return error;
    }
    connection->listener = listener;
    answer.session = connection->transmitter->tx.config.session;
    answer.start = connection->transmitter->tx.config.history.start;
    answer.message_bytes_max = connection->receiver->config.message_bytes_max;
    lli_acceptor_accept(&listener->acceptor, applicant, &answer, now);
    return LLM_OK;
}

/* Shows a caller to the application. */
static void listener_report(struct llm_listener *listener, struct lli_applicant *applicant, lli_ns now)
{
    struct llm_context *context = listener->context;
    struct llm_connection_handlers handlers;
    const struct llm_caller caller = {
        .id = applicant->connect.id,
        .payload = applicant->connect.payload,
        .payload_size = applicant->connect.payload_size,
        .message_bytes_max = applicant->connect.message_bytes_max,
    };
    int answer;

    llm_connection_handlers_init(&handlers);
    context->in_handler = true;
    answer = listener->handlers.connect(listener->handlers.arg, listener, &caller, &handlers);
    context->in_handler = false;
    context->delivered++;
    if (answer == LLM_EAGAIN)
        return;
    if (answer == LLM_OK) {
        (void)listener_accept(listener, applicant, &handlers, now);
        return;
    }
    if (answer < 0 || answer > LISTENER_CODE_MAX) {
        lli_log(&context->log, LLM_LEVEL_ERROR,
                "%s: the request handler returned %d: return LLM_OK, LLM_EAGAIN or a code of 1 to %d; "
                "refused with code %d",
                listener->object, answer, LISTENER_CODE_MAX, LISTENER_CODE_MAX);
        answer = LISTENER_CODE_MAX;
    }
    lli_acceptor_refuse(&listener->acceptor, applicant, LLI_WIRE_REFUSED, (uint16_t)answer, now);
}

/* Shows callers to the application once an answer can be sent to them. Returns when to call it again. */
static lli_ns listener_report_all(struct llm_listener *listener, lli_ns now)
{
    struct lli_applicant *applicant;
    lli_ns at = LLI_NEVER;

    for (uint32_t place = 0; (applicant = lli_acceptor_next(&listener->acceptor, &place)) != NULL; place++) {
        lli_handle to;

        switch (lli_conn_reach(listener->endpoint, &applicant->connect.address, &to)) {
        case LLM_OK:
            lli_acceptor_show(applicant, now);
            listener_report(listener, applicant, now);
            break;
        case LLM_EAGAIN:
            at = now + LISTENER_RETRY;
            break;
        default:
            lli_acceptor_drop(&listener->acceptor, applicant, now);
            break;
        }
    }
    return at;
}

/* Sends the answer of an entry, or finds that it cannot be sent. False: not yet. */
static bool listener_answer(struct llm_listener *listener, uint32_t place,
                            const struct lli_wire_address *address)
{
    uint8_t bytes[LLI_WIRE_CONTROL_MAX];
    lli_handle to;
    const int error = lli_conn_reach(listener->endpoint, address, &to);

    if (error == LLM_EAGAIN)
        return false;
    if (error != LLM_OK)
        listener->endpoint->counters.packets_unreachable++;
    else if (!lli_conn_post(listener->endpoint, bytes, lli_acceptor_answer(&listener->acceptor, place, bytes),
                            to))
        return false;
    lli_acceptor_answered(&listener->acceptor, place);
    return true;
}

static lli_ns listener_answer_all(struct llm_listener *listener, lli_ns now)
{
    const struct lli_wire_address *to;
    lli_ns at = LLI_NEVER;

    for (uint32_t place = 0; (to = lli_acceptor_answer_due(&listener->acceptor, &place)) != NULL; place++) {
        const struct lli_wire_address address = *to;

        if (listener_answer(listener, place, &address))
            lli_conn_forget(listener->endpoint, &address);
        else
            at = now + LISTENER_RETRY;
    }
    return at;
}

lli_ns lli_listener_service(struct llm_listener *listener, lli_ns now)
{
    struct lli_wire_address address;
    lli_ns at = listener_report_all(listener, now);

    at = lli_min(at, listener_answer_all(listener, now));
    for (uint32_t place = 0; lli_acceptor_expire(&listener->acceptor, now, &place, &address, &at); place++)
        lli_conn_forget(listener->endpoint, &address);
    return at;
}

/* Finds a caller that waits and may be answered now. */
static int listener_waiting(const struct llm_listener *listener, uint64_t id,
                            struct lli_applicant **applicant)
{
    if (listener->context->in_handler)
        return lli_refuse(
            listener->context, LLM_ESTATE,
            "%s: a caller is not accepted or refused inside a handler: have the request handler "
            "return the answer, or answer when the poll has returned",
            listener->object);
    *applicant = lli_acceptor_find(&listener->acceptor, id);
    if (*applicant != NULL && (*applicant)->state == LLI_APPLICANT_WAITS)
        return LLM_OK;
    return lli_refuse(listener->context, LLM_ENOTFOUND,
                      "%s: no caller %016llx waits: it was answered already, or its "
                      "connect_timeout_ns has passed",
                      listener->object, (unsigned long long)id);
}

int llm_listener_accept(struct llm_listener *listener, uint64_t id,
                        const struct llm_connection_handlers *handlers)
{
    struct lli_applicant *applicant = NULL;
    int error;

    if (listener == NULL)
        return LLM_EINVAL;
    if (handlers == NULL)
        return lli_refuse(listener->context, LLM_EINVAL,
                          "llm_listener_accept: handlers is NULL: it has to be given");
    if (!lli_context_enter(listener->context))
        return LLM_ESTATE;
    error = listener_waiting(listener, id, &applicant);
    if (error == LLM_OK) {
        error = listener_accept(listener, applicant, handlers, lli_clock_ns());
        lli_conn_due(listener->context, 0);
    }
    lli_context_leave(listener->context);
    return error;
}

int llm_listener_refuse(struct llm_listener *listener, uint64_t id, int code)
{
    struct lli_applicant *applicant = NULL;
    int error;

    if (listener == NULL)
        return LLM_EINVAL;
    if (code < 1 || code > LISTENER_CODE_MAX)
        return lli_refuse(listener->context, LLM_EINVAL, "llm_listener_refuse: code %d: use one of 1 to %d",
                          code, LISTENER_CODE_MAX);
    if (!lli_context_enter(listener->context))
        return LLM_ESTATE;
    error = listener_waiting(listener, id, &applicant);
    if (error == LLM_OK) {
        lli_acceptor_refuse(&listener->acceptor, applicant, LLI_WIRE_REFUSED, (uint16_t)code, lli_clock_ns());
        lli_conn_due(listener->context, 0);
    }
    lli_context_leave(listener->context);
    return error;
}

/* ----------------------------------------------------------------------------------------------- close */

void lli_listener_destroy(struct llm_listener *listener)
{
    struct llm_listener **link = &listener->context->listeners;
    struct lli_wire_address address;
    lli_ns at = LLI_NEVER;

    for (struct llm_connection *connection = listener->context->connections; connection != NULL;
         connection = connection->next)
        if (connection->listener == listener)
            connection->listener = NULL;
    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    /* Expire all callers. */
    for (uint32_t place = 0; lli_acceptor_expire(&listener->acceptor, LLI_NEVER - 1, &place, &address, &at);
         place++)
        lli_conn_forget(listener->endpoint, &address);
    listener->endpoint->transport->leave(listener->endpoint->instance, listener->group, LLI_JOIN_RECEIVE);
    lli_endpoint_close(listener->endpoint);
    lli_listener_free(listener);
}

int llm_listener_close(struct llm_listener **handle)
{
    struct llm_context *context;
    int error = LLM_OK;

    if (handle == NULL || *handle == NULL)
        return LLM_OK;
    context = (*handle)->context;
    if (!lli_context_enter(context)) {
        *handle = NULL;
        return LLM_OK;
    }
    if (!context->in_handler) {
        lli_listener_destroy(*handle);
        *handle = NULL;
    } else {
        error = LLI_REFUSE_IN_HANDLER(context, "llm_listener_close");
    }
    lli_context_leave(context);
    return error;
}

/* ----------------------------------------------------------------------------------------------- counters */

static const struct lli_stats_row listener_rows[] = {
#define LISTENER_ROW(name, text) {#name, offsetof(struct lli_acceptor_counters, name)},
    LLI_ACCEPTOR_COUNTERS(LISTENER_ROW)};

void lli_listener_stats(const struct llm_listener *listener, const struct lli_stats_visitor *to)
{
    uint64_t connections = 0;

    to->object(to->arg, LLM_STATS_LISTENER, 0, listener->object);
    lli_stats_rows(to, &listener->acceptor.counters, listener_rows,
                   sizeof listener_rows / sizeof listener_rows[0]);
    for (const struct llm_connection *c = listener->context->connections; c != NULL; c = c->next)
        connections += c->listener == listener && c->state == LLI_CONNECTION_OPEN;
    lli_stats_put(to, LLM_STATS_GAUGE, "connections", connections);
}
