/* SPDX-License-Identifier: Apache-2.0 */
/* The primary of a failover group: its session, which begins with what others lack, and its end. */
#include <string.h>

#include "api/lifecycle.h"
#include "failover/failover.h"

/* ------------------------------------------------------------------------------------------------- topics */

/* A rate that nobody reaches: the route of limited topics asks for the lease before each message. */
#define FAILOVER_RATE_NONE (UINT64_C(1) << 50)

static int failover_topic(struct llm_failover *failover, const char *name, struct llm_topic **result)
{
    struct llm_transmitter *transmitter = failover->transmitter;
    struct llm_topic *topic = transmitter->topics;
    int error;

    while (topic != NULL && strcmp(topic->name, name) != 0)
        topic = topic->next;
    if (topic == NULL) {
        error = llm_topic_open(transmitter, name, 0, &topic);
        if (error != LLM_OK)
            return error;
        topic->rated = true;
        lli_pacer_init(&topic->rate, FAILOVER_RATE_NONE, FAILOVER_RATE_NONE, lli_clock_ns());
        lli_topic_route(topic);
    }
    *result = topic;
    return LLM_OK;
}

static int failover_topic_checked(struct llm_failover *failover, const char *name, struct llm_topic **topic)
{
    struct llm_context *context = failover->context;

    if (failover->role == LLM_ROLE_FENCED)
        return lli_refuse(context, LLM_EFENCED, "%s: it is fenced: close it and open it anew",
                          failover->object);
    if (failover->role != LLM_ROLE_PRIMARY)
        return lli_refuse(
            context, LLM_ESTATE,
            "llm_failover_topic: %s is not the primary: open topics when its handler role says so",
            failover->object);
    return failover_topic(failover, name, topic);
}

int llm_failover_topic(struct llm_failover *failover, const char *name, struct llm_topic **topic)
{
    int error;

    if (failover == NULL)
        return LLM_EINVAL;
    if (name == NULL || topic == NULL)
        return lli_refuse(failover->context, LLM_EINVAL, "llm_failover_topic: %s is NULL: it has to be given",
                          name == NULL ? "name" : "topic");
    if (!lli_context_enter(failover->context))
        return LLM_ESTATE;
    error = failover_topic_checked(failover, name, topic);
    lli_context_leave(failover->context);
    return error;
}

/* ----------------------------------------------------------------------------------------------- takeover */

/* A message that this member cannot send is not left out: it is fenced, and another one leads. */
static void failover_give_up(struct llm_failover *failover, int error)
{
    if (error != LLM_EFENCED)
        lli_log(&failover->context->log, LLM_LEVEL_ERROR,
                "%s: message %llu of the primary before cannot be sent again: %s: give all members the same "
                "options",
                failover->object, (unsigned long long)failover->repeat, llm_error_text(error));
    lli_election_expire(&failover->election);
}

/* Sends again what others may lack. What is not taken now is sent with the next poll. */
static void failover_repeat(struct llm_failover *failover)
{
    const struct lli_tail *tail = &failover->tail;

    for (; failover->repeat < tail->next; failover->repeat++) {
        const struct lli_tail_message *message = lli_tail_find(tail, failover->repeat);
        struct llm_topic *topic;
        int error = failover_topic(failover, failover->topics[message->topic], &topic);

        lli_tail_copy(tail, message, 0, failover->assembly, message->size);
        if (error == LLM_OK)
            error = llm_send(topic, failover->assembly, message->size, LLM_SEND_MORE);
        if (error == LLM_EAGAIN)
            return;
        if (error != LLM_OK) {
            failover_give_up(failover, error);
            return;
        }
    }
}

/* Lets the session begin: until now nothing of it was sent. */
static void failover_begin(struct llm_failover *failover, uint64_t base, lli_ns now)
{
    struct llm_transmitter *transmitter = failover->transmitter;
    struct lli_tx *tx = &transmitter->tx;

    tx->config.stream_base = failover->primary_base = failover->repeat = base;
    tx->config.stream_term = failover->election.term;
    tx->config.address = transmitter->endpoint->address;
    tx->opened_at = now;
    transmitter->next = transmitter->endpoint->transmitters;
    transmitter->endpoint->transmitters = transmitter;
    failover->linked = true;
    lli_endpoint_due(transmitter->endpoint, 0);
    failover->counters.failover_takeovers++;
}

void lli_failover_lead(struct llm_failover *failover, lli_ns now)
{
    struct lli_election *election = &failover->election;

    /* A member without the state is elected only if no voter has it: the stream begins. */
    if (!failover->restored &&
        (election->state == LLI_ELECTION_SURVEYING || election->state == LLI_ELECTION_READY))
        failover->restored = true;
    if (election->state == LLI_ELECTION_READY) {
        const uint64_t base = lli_election_lead(election, now);

        if (election->state != LLI_ELECTION_PRIMARY)
            return;
        failover_begin(failover, base, now);
        lli_failover_deliver(failover);
        /* The first beat says where the term begins, and is to come before its messages. */
        lli_failover_send(failover, now);
    }
    if (election->state != LLI_ELECTION_PRIMARY)
        return;
    failover->transmitter->leased_until = lli_election_leased_until(election);
    if (failover->repeat < failover->tail.next)
        failover_repeat(failover);
}

void lli_failover_expire(struct llm_failover *failover, lli_ns now)
{
    if (failover->election.state != LLI_ELECTION_PRIMARY ||
        lli_transmitter_is_leased(failover->transmitter, now))
        return;
    lli_election_expire(&failover->election);
    lli_failover_stop(failover);
}

void lli_failover_stop(struct llm_failover *failover)
{
    struct llm_transmitter *transmitter = failover->transmitter;
    struct llm_transmitter **link;

    if (transmitter == NULL)
        return;
    transmitter->fenced = true;
    transmitter->claimed = transmitter;
    if (!failover->linked)
        return;
    failover->linked = false;
    for (link = &transmitter->endpoint->transmitters; *link != transmitter; link = &(*link)->next)
        ;
    *link = transmitter->next;
}

/* --------------------------------------------------------------------------------------------------- role */

static enum llm_role failover_role(const struct llm_failover *failover)
{
    switch (failover->election.state) {
    case LLI_ELECTION_PRIMARY:
        return failover->repeat < failover->tail.next ? LLM_ROLE_BACKUP : LLM_ROLE_PRIMARY;
    case LLI_ELECTION_FENCED:
        return LLM_ROLE_FENCED;
    case LLI_ELECTION_BACKUP:
    case LLI_ELECTION_CANVASSING:
    case LLI_ELECTION_SURVEYING:
    case LLI_ELECTION_READY:
        break;
    }
    return LLM_ROLE_BACKUP;
}

uint64_t lli_failover_number(const struct llm_failover *failover)
{
    return failover->counters.failover_takeovers == 0
               ? failover->due
               : failover->primary_base + failover->transmitter->tx.pack.number;
}

static const char *failover_fence_text(enum lli_election_fence fence)
{
    static const char *const texts[] = {
        [LLI_ELECTION_UNFENCED] = "",
        [LLI_ELECTION_LEASE] = "no majority of the voters answered in time",
        [LLI_ELECTION_SUPERSEDED] = "another primary was elected",
        [LLI_ELECTION_DIVERGED] = "its messages need not be those of the stream",
        [LLI_ELECTION_CONFLICT] = "another member has the same number, give each its own",
    };

    return texts[fence];
}

void lli_failover_report(struct llm_failover *failover)
{
    const enum llm_role role = failover_role(failover);
    static const char *const names[] = {"backup", "primary", "fenced"};

    if (failover->election.mismatched && !failover->warned) {
        failover->warned = true;
        lli_log(&failover->context->log, LLM_LEVEL_ERROR,
                "%s: a member of this stream was opened with another number of voters than %u, or another "
                "commit, and is ignored: "
                "give all the same, or another stream its own name",
                failover->object, failover->options.voters);
    }
    if (role == failover->role)
        return;
    failover->role = role;
    if (role == LLM_ROLE_FENCED)
        lli_failover_stop(failover);
    lli_log(&failover->context->log, role == LLM_ROLE_FENCED ? LLM_LEVEL_WARNING : LLM_LEVEL_INFO,
            "%s: %s, term %u, number %llu %s", failover->object, names[role], failover->election.highest,
            (unsigned long long)lli_failover_number(failover), failover_fence_text(failover->election.fence));
    if (failover->handlers.role == NULL)
        return;
    failover->context->in_handler = true;
    failover->handlers.role(failover->handlers.arg, role, failover->election.highest,
                            lli_failover_number(failover));
    failover->context->in_handler = false;
}
