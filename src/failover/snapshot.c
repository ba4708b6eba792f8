/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of the application's state, which a member that begins in the middle of a stream gets from another one, over a
 * connection (docs/protocol.md section 12.7). Its messages wait in the tail meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include "connection/connection.h"
#include "failover/failover.h"

/* The first message of a snapshot: number, size and the term that its sender follows. Others are its bytes. */
enum { SNAPSHOT_HEAD = 8 + 8 + 4, SNAPSHOT_PART = 16 << 10 };

/* A request has one byte: how often it was sent. The primary leaves the first one to others. */
enum { SNAPSHOT_REQUEST_BYTES = 1, SNAPSHOT_REQUEST_FIRST = 1 };

/* Snapshots that a member sends at a time. */
enum { SNAPSHOT_SENDINGS_MAX = 4 };

/* Time after which a request is repeated. */
#define SNAPSHOT_CONNECT_NS ((lli_ns)100000000)

/* ------------------------------------------------------------------------------------------------- sender */

int llm_snapshot_write(struct llm_snapshot *snapshot, const void *data, size_t size)
{
    if (snapshot == NULL || (data == NULL && size > 0))
        return LLM_EINVAL;
    if (size > snapshot->room - snapshot->size) {
        const uint64_t room = lli_max(2 * snapshot->room, snapshot->size + size);
        uint8_t *larger = realloc(snapshot->data, room);

        if (larger == NULL)
            return LLM_ENOMEM;
        snapshot->data = larger;
        snapshot->room = room;
    }
    if (size > 0)
        memcpy(snapshot->data + snapshot->size, data, size);
    snapshot->size += size;
    return LLM_OK;
}

static void sending_free(struct lli_failover_sending *sending)
{
    free(sending->snapshot.data);
    free(sending);
}

static struct lli_failover_sending **sending_find(struct llm_failover *failover,
                                                  const struct llm_connection *connection)
{
    struct lli_failover_sending **link = &failover->sendings;

    while (*link != NULL && (*link)->connection != connection)
        link = &(*link)->next;
    return link;
}

/* Has the application write its state. Without one the connection ends, and another member is asked. */
static void sending_begin(struct llm_failover *failover, struct llm_connection *connection)
{
    struct lli_failover_sending *sending = calloc(1, sizeof *sending);
    int error;

    if (sending == NULL)
        return;
    sending->connection = connection;
    sending->next = failover->sendings;
    failover->sendings = sending;
    sending->number = lli_failover_number(failover);
    error = failover->handlers.save(failover->handlers.arg, sending->number, &sending->snapshot);
    if (error == LLM_OK)
        error = llm_topic_open(connection->transmitter, "llm.snapshot", 0, &sending->topic);
    if (error == LLM_OK)
        failover->counters.failover_snapshots_sent++;
    else
        lli_log(&failover->context->log, LLM_LEVEL_WARNING,
                "%s: no snapshot for another member at number %llu: %s", failover->object,
                (unsigned long long)sending->number, llm_error_text(error));
}

static void sending_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct llm_failover *failover = arg;
    struct lli_failover_sending **link = sending_find(failover, connection), *sending = *link;

    if (event->kind == LLM_EVENT_CONNECTED)
        sending_begin(failover, connection);
    if (event->kind != LLM_EVENT_DISCONNECTED)
        return;
    if (sending != NULL) {
        *link = sending->next;
        sending_free(sending);
    }
    (void)llm_connection_close(&connection);
}

/* Sends as much as the connection takes. Its other side ends it. */
static int sending_send(const struct llm_failover *failover, struct lli_failover_sending *sending)
{
    const struct llm_snapshot *snapshot = &sending->snapshot;
    const uint64_t part_max = lli_min(SNAPSHOT_PART, sending->connection->transmitter->message_bytes_max);
    uint8_t head[SNAPSHOT_HEAD];
    int error = LLM_OK;

    if (!sending->begun) {
        lli_store_u64(head, sending->number);
        lli_store_u64(head + 8, snapshot->size);
        lli_store_u32(head + 16, failover->election.position.followed);
        error = llm_send(sending->topic, head, sizeof head, 0);
        sending->begun = error == LLM_OK;
    }
    while (error == LLM_OK && sending->sent < snapshot->size) {
        const uint64_t part = lli_min(part_max, snapshot->size - sending->sent);

        error = llm_send(sending->topic, snapshot->data + sending->sent, part, 0);
        sending->sent += error == LLM_OK ? part : 0;
    }
    return error;
}

/* Returns false if nothing can be sent: the other member then asks again. */
static bool sending_goes_on(const struct llm_failover *failover, struct lli_failover_sending *sending)
{
    int error;

    if (sending->topic == NULL)
        return false;
    error = sending_send(failover, sending);
    /* LLM_ESTATE: the connection has ended, and its event follows. */
    if (error == LLM_OK || error == LLM_EAGAIN || error == LLM_ESTATE)
        return true;
    lli_log(&failover->context->log, LLM_LEVEL_WARNING,
            "%s: a snapshot of %llu bytes for another member cannot be sent: %s: snapshot_channel %s has to "
            "take messages of %d bytes",
            failover->object, (unsigned long long)sending->snapshot.size, llm_error_text(error),
            failover->snapshot_channel, SNAPSHOT_HEAD);
    return false;
}

static void sendings_service(struct llm_failover *failover)
{
    struct lli_failover_sending **link = &failover->sendings;

    while (*link != NULL) {
        struct lli_failover_sending *sending = *link;

        if (sending_goes_on(failover, sending)) {
            link = &sending->next;
            continue;
        }
        *link = sending->next;
        lli_connection_destroy(sending->connection);
        sending_free(sending);
    }
}

/*
 * Decides about a request for a snapshot. A member that cannot answer leaves it to others. So does the primary at
 * first, as its application has more to do.
 */
static int snapshot_asked(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                          struct llm_connection_handlers *handlers)
{
    struct llm_failover *failover = arg;
    const uint8_t *request = caller->payload;
    int sendings = 0;

    (void)listener;
    for (const struct lli_failover_sending *sending = failover->sendings; sending != NULL;
         sending = sending->next)
        sendings++;
    if (caller->payload_size != SNAPSHOT_REQUEST_BYTES || !failover->restored ||
        sendings >= SNAPSHOT_SENDINGS_MAX || failover->role == LLM_ROLE_FENCED ||
        (failover->role == LLM_ROLE_PRIMARY && request[0] <= SNAPSHOT_REQUEST_FIRST))
        return LLM_EAGAIN;
    handlers->arg = failover;
    handlers->event = sending_event;
    return LLM_OK;
}

/* ----------------------------------------------------------------------------------------------- receiver */

static void snapshot_forget(struct llm_failover *failover)
{
    free(failover->arrived.data);
    failover->arrived = (struct llm_snapshot){.data = NULL};
    failover->arriving = (struct lli_failover_arriving){.begun = false};
}

static void snapshot_arrives(void *arg, struct llm_connection *connection, const struct llm_message *message)
{
    struct llm_failover *failover = arg;
    struct lli_failover_arriving *arriving = &failover->arriving;

    (void)connection;
    if (!arriving->begun) {
        if (message->size != SNAPSHOT_HEAD) {
            failover->asking_failed = true;
            return;
        }
        arriving->begun = true;
        arriving->number = lli_load_u64(message->data);
        arriving->size = lli_load_u64((const uint8_t *)message->data + 8);
        arriving->term = lli_load_u32((const uint8_t *)message->data + 16);
        return;
    }
    if (message->size > arriving->size - failover->arrived.size ||
        llm_snapshot_write(&failover->arrived, message->data, message->size) != LLM_OK)
        failover->asking_failed = true;
}

static void snapshot_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct llm_failover *failover = arg;

    (void)connection;
    if (event->kind == LLM_EVENT_DISCONNECTED)
        failover->asking_failed = true;
}

/* Asks those that have the state. The answer of the first one counts. */
static void snapshot_ask(struct llm_failover *failover, uint64_t needed, lli_ns now)
{
    const uint8_t request = (uint8_t)lli_min(++failover->asked, UINT8_MAX);
    const struct iovec payload = {(void *)(uintptr_t)&request, SNAPSHOT_REQUEST_BYTES};
    struct llm_connection_handlers handlers;
    struct llm_options options;

    llm_connection_options_init(&options);
    options.connect_timeout_ns = lli_max(SNAPSHOT_CONNECT_NS, failover->options.detect_ns);
    llm_connection_handlers_init(&handlers);
    handlers.arg = failover;
    handlers.message = snapshot_arrives;
    handlers.event = snapshot_event;
    snapshot_forget(failover);
    failover->arriving.needed = needed;
    failover->asking_failed = false;
    failover->ask_at = now + failover->options.detect_ns;
    if (lli_connection_connect(failover->context, failover->snapshot_channel, &options, &payload, &handlers,
                               &failover->asking) != LLM_OK)
        failover->asking = NULL;
}

void lli_failover_snapshot_beat(struct llm_failover *failover, uint64_t next, lli_ns now)
{
    if (failover->restored)
        return;
    if (next == 0)
        failover->restored = true;
    else if (failover->catch_up.directory != NULL)
        lli_failover_catch_up_begin(failover, next, now);
    else if (failover->asking == NULL && now >= failover->ask_at)
        snapshot_ask(failover, next, now);
}

/* Returns true if the messages that follow the snapshot are there, or will come. */
static bool snapshot_fits(const struct llm_failover *failover)
{
    const struct lli_failover_arriving *arriving = &failover->arriving;
    const struct lli_tail *tail = &failover->tail;

    return arriving->term == failover->election.position.followed && arriving->number >= arriving->needed &&
           (tail->next == 0 || arriving->number >= tail->first);
}

static void snapshot_restore(struct llm_failover *failover)
{
    const struct lli_failover_arriving arriving = failover->arriving;
    int error;

    failover->context->in_handler = true;
    error = failover->handlers.restore(failover->handlers.arg, arriving.number, failover->arrived.data,
                                       failover->arrived.size);
    failover->context->in_handler = false;
    if (error != LLM_OK) {
        lli_log(&failover->context->log, LLM_LEVEL_ERROR,
                "%s: the application refused a snapshot of %llu bytes at number %llu with %d: "
                "another one is requested",
                failover->object, (unsigned long long)arriving.size, (unsigned long long)arriving.number,
                error);
        return;
    }
    failover->counters.failover_snapshots_received++;
    lli_failover_advance(failover, arriving.number);
    lli_failover_restored(failover);
}

/* Restores what has arrived. Other members may not have delivered all of it yet: it waits, as a message would. */
static void snapshot_complete(struct llm_failover *failover)
{
    if (snapshot_fits(failover)) {
        if (failover->options.commit == LLM_COMMIT_BACKUP &&
            failover->election.committed < failover->arriving.number)
            return;
        snapshot_restore(failover);
    } else {
        lli_log(&failover->context->log, LLM_LEVEL_WARNING,
                "%s: a snapshot at number %llu of term %u does not fit messages %llu to %llu of term %u: "
                "another one is requested; tail_bytes has to have room for what is sent meanwhile",
                failover->object, (unsigned long long)failover->arriving.number, failover->arriving.term,
                (unsigned long long)failover->tail.first, (unsigned long long)failover->tail.next,
                failover->election.position.followed);
    }
    failover->asking_failed = true;
}

/*
 * Begins anew. Without a primary nobody may have the state any more; a member that has it is elected with the vote of this
 * one as well. What was delivered of a store is not of a stream that begins.
 */
static void snapshot_abandon(struct llm_failover *failover)
{
    if (lli_failover_catch_up_advanced(failover)) {
        lli_election_diverge(&failover->election);
        return;
    }
    lli_election_forget(&failover->election);
    lli_tail_reset(&failover->tail, 0);
    failover->repeatable = 0;
}

void lli_failover_snapshot_service(struct llm_failover *failover, lli_ns now)
{
    sendings_service(failover);
    if (!failover->restored && failover->election.position.followed != 0 &&
        lli_election_is_alone(&failover->election, now))
        snapshot_abandon(failover);
    if (failover->asking == NULL)
        return;
    if (!failover->asking_failed && !failover->restored && failover->arriving.begun &&
        failover->arrived.size == failover->arriving.size)
        snapshot_complete(failover);
    if (!failover->asking_failed && !failover->restored)
        return;
    lli_connection_destroy(failover->asking);
    failover->asking = NULL;
    snapshot_forget(failover);
}

/* -------------------------------------------------------------------------------------------- open, close */

int lli_failover_snapshot_open(struct llm_failover *failover)
{
    const char *channel = failover->options.snapshot_channel;
    struct llm_context *context = failover->context;
    struct llm_listener_handlers handlers;

    failover->restored = channel == NULL;
    if (failover->restored)
        return LLM_OK;
    if (failover->handlers.save == NULL || failover->handlers.restore == NULL)
        return lli_fail(&context->log, LLM_EINVAL,
                        "failover: snapshot_channel is \"%s\" and the handler %s is NULL: both save and "
                        "restore have to be given",
                        channel, failover->handlers.save == NULL ? "save" : "restore");
    if (strlen(channel) >= sizeof failover->snapshot_channel)
        return lli_fail(&context->log, LLM_EINVAL, "failover: snapshot_channel has %zu bytes: at most %zu",
                        strlen(channel), sizeof failover->snapshot_channel - 1);
    strcpy(failover->snapshot_channel, channel);
    failover->options.snapshot_channel = failover->snapshot_channel;
    llm_listener_handlers_init(&handlers);
    handlers.arg = failover;
    handlers.connect = snapshot_asked;
    return lli_listener_open(context, channel, NULL, &handlers, &failover->listener);
}

void lli_failover_snapshot_close(struct llm_failover *failover)
{
    struct llm_connection *connection = failover->context->connections;

    while (connection != NULL) {
        struct llm_connection *next = connection->next;

        if (connection == failover->asking ||
            (connection->listener != NULL && connection->listener == failover->listener))
            lli_connection_destroy(connection);
        connection = next;
    }
    failover->asking = NULL;
    if (failover->listener != NULL)
        lli_listener_destroy(failover->listener);
    failover->listener = NULL;
}

void lli_failover_snapshot_free(struct llm_failover *failover)
{
    while (failover->sendings != NULL) {
        struct lli_failover_sending *sending = failover->sendings;

        failover->sendings = sending->next;
        sending_free(sending);
    }
    snapshot_forget(failover);
}
