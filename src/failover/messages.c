/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the stream at a member: numbers, terms, and the tail that it retains. */
#include <string.h>

#include "failover/failover.h"

uint32_t lli_failover_name(struct llm_failover *failover, const char *name)
{
    /* Mostly the topic of the message before. */
    const uint32_t latest = failover->tail.next > failover->tail.first
                                ? lli_tail_find(&failover->tail, failover->tail.next - 1)->topic
                                : LLI_FAILOVER_TOPICS;

    if (name[0] == '\0')
        return LLI_FAILOVER_TOPICS;
    if (latest < failover->topics_count && strcmp(failover->topics[latest], name) == 0)
        return latest;
    for (uint32_t i = 0; i < failover->topics_count; i++)
        if (strcmp(failover->topics[i], name) == 0)
            return i;
    if (failover->topics_count == LLI_FAILOVER_TOPICS || strlen(name) > LLI_WIRE_NAME_MAX)
        return LLI_FAILOVER_TOPICS;
    strcpy(failover->topics[failover->topics_count], name);
    return failover->topics_count++;
}

static void failover_gap(struct llm_failover *failover, uint64_t first, uint64_t last)
{
    failover->counters.failover_missing += last + 1 - first;
    if (failover->handlers.gap != NULL)
        failover->handlers.gap(failover->handlers.arg, first, last);
    else
        lli_log(&failover->context->log, LLM_LEVEL_WARNING, "%s: messages %llu to %llu are missing",
                failover->object, (unsigned long long)first, (unsigned long long)last);
}

void lli_failover_skip(struct llm_failover *failover, uint64_t number)
{
    /* A member that reads a store misses messages from the first one on that it asks for. */
    if (failover->joined || failover->catch_up.begun)
        failover_gap(failover, failover->due, number - 1);
    failover->due = number;
}

void lli_failover_deliver_one(struct llm_failover *failover, uint64_t number,
                              const struct llm_message *message)
{
    failover->joined = true;
    failover->due = number + 1;
    lli_election_delivered(&failover->election, failover->due);
    failover->counters.failover_messages++;
    if (failover->handlers.message != NULL)
        failover->handlers.message(failover->handlers.arg, number, message);
}

void lli_failover_have(struct llm_failover *failover)
{
    const struct lli_tail *tail = &failover->tail;
    const uint64_t next = failover->role == LLM_ROLE_PRIMARY ? lli_failover_number(failover) : tail->next;

    lli_election_has(&failover->election, lli_min(lli_max(tail->first, failover->repeatable), next), next,
                     failover->context->polled_at);
}

void lli_failover_advance(struct llm_failover *failover, uint64_t number)
{
    if (failover->tail.next < number)
        lli_tail_reset(&failover->tail, number);
    failover->due = number;
    lli_failover_have(failover);
    lli_election_delivered(&failover->election, number);
}

void lli_failover_restored(struct llm_failover *failover)
{
    failover->joined = failover->restored = true;
    lli_failover_deliver(failover);
}

void lli_failover_deliver(struct llm_failover *failover)
{
    /* A primary waits for no majority: the messages are its own, or those that it repeats. */
    const uint64_t allowed = failover->election.state == LLI_ELECTION_PRIMARY
                                 ? failover->tail.next
                                 : lli_election_deliverable(&failover->election);
    const uint64_t end = lli_min(allowed, failover->tail.next);
    const bool inside = failover->context->in_handler;

    if (failover->election.state == LLI_ELECTION_FENCED || !failover->restored)
        return;
    failover->context->in_handler = true;
    while (failover->due < end) {
        const struct lli_tail_message *next = lli_tail_find(&failover->tail, failover->due);
        struct llm_message message = {
            .data = failover->delivery, .size = next->size, .number = failover->due};

        message.topic = next->topic < LLI_FAILOVER_TOPICS ? failover->topics[next->topic] : "";
        lli_tail_copy(&failover->tail, next, 0, failover->delivery, next->size);
        lli_failover_deliver_one(failover, failover->due, &message);
    }
    failover->context->in_handler = inside;
}

void lli_failover_withdraw(struct llm_failover *failover)
{
    lli_tail_truncate(&failover->tail, failover->election.position.next);
}

void lli_failover_take(struct llm_failover *failover, uint64_t number, uint32_t topic,
                       const struct llm_message *message)
{
    struct lli_tail *tail = &failover->tail;
    const uint64_t next = tail->next;

    if (number < next) {
        failover->counters.failover_repeated++;
        return;
    }
    if (number > next)
        lli_tail_reset(tail, number);
    lli_tail_add(tail, topic, message->data, message->size);
    if (topic == LLI_FAILOVER_TOPICS)
        failover->repeatable = number + 1;
    lli_failover_have(failover);
    if (!failover->restored) {
        if (number > 0)
            return;
        failover->restored = true;
    }
    /* Those before it, too, if they still waited and the tail had no room. */
    if (lli_min(tail->first, number) > failover->due)
        lli_failover_skip(failover, lli_min(tail->first, number));
    if (failover->due < number)
        lli_failover_deliver(failover);
    if (failover->due == number && lli_election_deliverable(&failover->election) > number)
        lli_failover_deliver_one(failover, number, message);
}

/* Stores a message whose primary was not heard yet. Without room it is dropped, and will be missing. */
static void failover_wait(struct llm_failover *failover, uint64_t number, const struct llm_message *message)
{
    const struct lli_failover_waiting head = {
        .number = number, .topic = lli_failover_name(failover, message->topic), .size = message->size};
    const uint64_t bytes = sizeof head + lli_round_up(message->size, sizeof head);

    if (bytes > failover->options.tail_bytes - failover->waiting_bytes) {
        failover->counters.failover_refused++;
        return;
    }
    memcpy(failover->waiting + failover->waiting_bytes, &head, sizeof head);
    memcpy(failover->waiting + failover->waiting_bytes + sizeof head, message->data, message->size);
    failover->waiting_bytes += bytes;
}

void lli_failover_release(struct llm_failover *failover)
{
    const uint64_t bytes = failover->waiting_bytes;
    const bool inside = failover->context->in_handler;

    if (bytes == 0 || lli_election_delivery(&failover->election, failover->term) == LLI_ELECTION_WAIT)
        return;
    failover->waiting_bytes = 0;
    failover->context->in_handler = true;
    for (uint64_t at = 0; at < bytes;) {
        struct lli_failover_waiting head;
        struct llm_message message = {.session = failover->session};

        memcpy(&head, failover->waiting + at, sizeof head);
        message.data = failover->waiting + at + sizeof head;
        message.size = head.size;
        message.number = head.number - failover->base;
        message.topic = head.topic < LLI_FAILOVER_TOPICS ? failover->topics[head.topic] : "";
        at += sizeof head + lli_round_up(head.size, sizeof head);
        if (lli_election_delivery(&failover->election, failover->term) == LLI_ELECTION_DELIVER)
            lli_failover_take(failover, head.number, head.topic, &message);
        else
            failover->counters.failover_refused++;
    }
    failover->context->in_handler = inside;
}

void lli_failover_message(void *arg, const struct llm_message *message)
{
    struct llm_failover *failover = arg;
    const uint64_t number = failover->base + message->number;
    const bool elected = message->session == failover->session && failover->term != 0;

    switch (elected ? lli_election_delivery(&failover->election, failover->term) : LLI_ELECTION_DROP) {
    case LLI_ELECTION_DELIVER:
        /* Those that waited come before. */
        if (failover->waiting_bytes > 0)
            lli_failover_release(failover);
        lli_failover_take(failover, number, lli_failover_name(failover, message->topic), message);
        break;
    case LLI_ELECTION_WAIT:
        failover_wait(failover, number, message);
        break;
    case LLI_ELECTION_DROP:
        failover->counters.failover_refused++;
        break;
    }
}

void lli_failover_event(void *arg, const struct llm_event *event)
{
    struct llm_failover *failover = arg;

    if (event->kind == LLM_EVENT_SESSION_NEW && event->stream == failover->stream) {
        /* Waiting messages are of a session that was never elected, or its primary's beats were lost as well. */
        failover->counters.failover_refused += failover->waiting_bytes > 0;
        failover->waiting_bytes = 0;
        /* Another life of the primary, in the same term, whose first BEAT was lost. */
        if (event->stream_term == failover->term && event->session != failover->session &&
            failover->term != 0 && failover->term == failover->election.position.followed)
            lli_election_diverge(&failover->election);
        failover->session = event->session;
        failover->term = event->stream_term;
        failover->base = event->stream_base;
        return;
    }
    /* Gaps are reported by number when the next message comes, and repeated numbers are expected. */
    if (event->kind == LLM_EVENT_STREAM_REFUSED || event->kind == LLM_EVENT_HEARTBEAT_LOST) {
        char text[256];

        (void)llm_event_text(event, text, sizeof text);
        lli_log(&failover->context->log, LLM_LEVEL_WARNING, "%s: %s", failover->object, text);
    }
}
