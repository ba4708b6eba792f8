/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transmitter closes; its receivers close as soon as they know of the session's end, or stay open. Closing
 * receivers owe the report that they have everything and, on an assured topic, the acknowledgement of the
 * last messages. The network loses nothing, so the transmitter must get all of these long before its linger
 * time is over.
 */
#include <stdio.h>
#include <string.h>

#include "cable.h"

enum { CLOSING_EARS_MAX = 14 };

/* Some applications acknowledge only after the poll that delivered the end. */
#define CLOSING_CHANNEL                                                                                    \
    CABLE_SCHEME "://closing:1?history_bytes=1M&history_packets=1024&window_packets=1024&reorder_bytes=1M" \
                 "&receivers_max=16&topics_max=4&sessions_max=1&linger_ns=1000000000"

/* Half of the linger time. */
#define CLOSING_SOON (500 * CABLE_MS)

struct closing_ear {
    struct llm_context *context;
    struct llm_receiver *receiver;
    uint64_t session;
    uint64_t next; /* next message */
    bool ended;    /* the end was reported to it */
    bool stays;
    bool acknowledges; /* its application acknowledges */
};

static struct {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct closing_ear ears[CLOSING_EARS_MAX];
    uint32_t count;
    bool assured;
    lli_ns message_at, close_at;
    uint64_t sent;
    uint64_t acknowledged; /* messages before this one */
    bool closed;
} closing;

static struct {
    uint64_t receivers, left, assured;
    lli_ns longest;
} seen;

static void closing_message(void *arg, const struct llm_message *message)
{
    struct closing_ear *ear = arg;

    ear->session = message->session;
    ear->next = message->number + 1;
}

static void closing_event(void *arg, const struct llm_event *event)
{
    struct closing_ear *ear = arg;

    if (event->kind == LLM_EVENT_GAP)
        cable_fail("messages %llu to %llu are lost", (unsigned long long)event->first,
                   (unsigned long long)event->last);
    ear->ended |= event->kind == LLM_EVENT_SESSION_END;
}

static void closing_acknowledged(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_ACKNOWLEDGED)
        closing.acknowledged = event->last + 1;
    if (event->kind == LLM_EVENT_UNACKNOWLEDGED)
        cable_fail("messages %llu to %llu are not acknowledged: %s", (unsigned long long)event->first,
                   (unsigned long long)event->last, llm_reason_name(event->reason));
}

static void closing_close(void)
{
    const lli_ns began = cable.now;
    int waiting;

    (void)cable_blocks(0);
    waiting = llm_transmitter_close(&closing.transmitter);
    cable_blocks_no_more();
    closing.closed = true;
    seen.longest = lli_max(seen.longest, cable.now - began);
    if (waiting != 0 || cable.now - began >= CLOSING_SOON)
        cable_fail("after %llu ms the transmitter waits for %d of %u receivers",
                   (unsigned long long)((cable.now - began) / CABLE_MS), waiting, closing.count);
    if (closing.assured && closing.acknowledged != closing.sent)
        cable_fail("%llu of %llu messages are acknowledged", (unsigned long long)closing.acknowledged,
                   (unsigned long long)closing.sent);
}

static void closing_turn_ear(uint32_t node)
{
    struct closing_ear *ear = &closing.ears[node - 1];

    while (llm_poll(ear->context) > 0)
        continue;
    if (ear->ended && ear->receiver != NULL) {
        if (ear->acknowledges)
            cable_must(llm_receiver_acknowledge(ear->receiver, ear->session, ear->next - 1),
                       "an acknowledgement");
        if (!ear->stays)
            cable_must(llm_receiver_close(&ear->receiver), "a receiver's close");
        ear->ended = false;
    }
    cable_sleep(node, ear->context, CABLE_S);
}

static void closing_turn(uint32_t node)
{
    if (node > 0) {
        closing_turn_ear(node);
        return;
    }
    if (cable.now >= closing.close_at && !closing.closed)
        closing_close();
    if (!closing.closed && cable.now >= closing.message_at) {
        const int error = llm_send(closing.topic, "message", 7, 0);

        /* Applications that acknowledge only at the end may block a transmitter. */
        if (error != LLM_EAGAIN)
            cable_must(error, "send");
        closing.sent += error == LLM_OK;
        closing.message_at = cable.now + cable_between(1, 2000) * CABLE_US;
    }
    (void)llm_poll(closing.context);
    cable_sleep(0, closing.context,
                closing.closed
                    ? CABLE_S
                    : lli_min(lli_max(closing.message_at, cable.now + 1), closing.close_at) - cable.now);
}

static void closing_open_ear(struct closing_ear *ear)
{
    const uint32_t node = cable_node_add();
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;

    llm_context_options_init(&options);
    ear->context = cable_context(node, &options);
    cable.nodes[node].delay = cable_between(10, 200) * CABLE_US;
    ear->stays = cable_chance(20);
    ear->acknowledges = closing.assured && cable_chance(50);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = ear;
    handlers.message = closing_message;
    handlers.event = closing_event;
    cable_must(
        llm_receiver_open(ear->context,
                          ear->acknowledges ? CLOSING_CHANNEL "&acknowledge=application" : CLOSING_CHANNEL,
                          NULL, &handlers, &ear->receiver),
        "a receiver");
}

static void closing_open(void)
{
    struct llm_context_options options;
    struct llm_transmitter_handlers handlers;
    struct llm_assurance assurance;

    llm_context_options_init(&options);
    closing.context = cable_context(cable_node_add(), &options);
    llm_transmitter_handlers_init(&handlers);
    handlers.event = closing_acknowledged;
    cable_must(llm_transmitter_open(closing.context, CLOSING_CHANNEL, NULL, &handlers, &closing.transmitter),
               "a transmitter");
    cable_must(llm_topic_open(closing.transmitter, "t", 0, &closing.topic), "a topic");
    llm_assurance_init(&assurance);
    assurance.receivers = closing.count;
    assurance.patience_ns = 100 * CABLE_S;
    if (closing.assured)
        cable_must(llm_topic_assure(closing.topic, &assurance), "an assurance");
    for (uint32_t i = 0; i < closing.count; i++)
        closing_open_ear(&closing.ears[i]);
}

void closing_run(uint64_t seed)
{
    static const struct cable_test test = {.turn = closing_turn};

    cable_begin(seed, &test);
    memset(&closing, 0, sizeof closing);
    closing.count = (uint32_t)cable_between(1, CLOSING_EARS_MAX);
    closing.assured = cable_chance(50);
    closing.message_at = cable.now + 20 * CABLE_MS;
    /* By then all are known, and know the number of receivers. */
    closing.close_at = cable.now + cable_between(500, 1500) * CABLE_MS;
    closing_open();
    cable_run(closing.close_at + 4 * CABLE_S);
    if (!closing.closed)
        cable_fail("the transmitter is still open");
    for (uint32_t i = 0; i < closing.count; i++) {
        if (closing.ears[i].next != closing.sent)
            cable_fail("node %u has %llu of %llu messages", i + 1, (unsigned long long)closing.ears[i].next,
                       (unsigned long long)closing.sent);
        seen.left += !closing.ears[i].stays;
    }
    seen.receivers += closing.count;
    seen.assured += closing.assured;
    cable_end();
    for (uint32_t i = 0; i < closing.count; i++) {
        cable_as(i + 1);
        (void)llm_context_close(&closing.ears[i].context);
    }
    cable_as(0);
    (void)llm_context_close(&closing.context);
    cable_fini();
}

void closing_print(void)
{
    (void)printf(
        "%llu receivers, %llu closed at the end, %llu seeds with acknowledgements, closed within %.3f ms\n",
        (unsigned long long)seen.receivers, (unsigned long long)seen.left, (unsigned long long)seen.assured,
        (double)seen.longest / 1e6);
}
