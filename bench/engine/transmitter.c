/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transmitter controlled by the runner. channel= size= topics= (used in turn)
 * level=unreliable|no_history|assured; by=: number of acknowledging receivers; names=NAME,...: those that
 * also have to acknowledge; unacknowledged=: most messages that are not; keep=: messages cached for each
 * topic; bulk_size=: adds a topic for bulk messages. Requests:
 *   await receivers=N     answers when there are N receivers, with the identity of the first
 *   limit transmitter= repairs= bulk=   rate limits in bytes a second, 0: none
 *   send rate= duration= round= phase= burst= bulk= open= drain= acknowledged=
 *       Sends messages, or bursts, at a rate or flat out (0), and bulk messages up to theirs, for the
 *       duration or until a request (open=1); then waits until all are acknowledged, or for drain= seconds.
 *       Answers with the rate, the time spent on each message or burst, and that to its acknowledgement.
 *   stats counters=NAME,...             answers with counters
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <llm/llm.h>

#include "machine.h"
#include "steady.h"

/* Messages between two polls; flat out each poll sends the messages packed since the last one. */
enum { SENDER_BATCH = 16, SENDER_BATCH_FLAT_OUT = 1024, SENDER_RING = 1 << 20 };

#define SENDER_HEAR_NS 1000000ull
#define SENDER_PATIENCE_NS 10000000000ull
#define SENDER_STOPPED_NS 1000000000ull /* a process that did not run for so long was stopped */

/* Messages sent at a rate. */
struct offer {
    struct llm_topic **topics;
    uint64_t topic_count;
    uint8_t *data;
    uint64_t size;
    uint64_t interval_ns; /* between two bursts; 0: flat out */
    uint64_t burst;
    uint64_t due_at;
    uint64_t sent;
    bool waits; /* refused messages stay due; else they are skipped */
    struct steady_stamp stamp;
};

static struct sender {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct offer stream;
    struct offer bulk; /* topics NULL: no bulk messages */
    uint64_t sequence; /* sequence of the next message */
    bool assured;
    bool measured;         /* record the time until messages are acknowledged */
    uint64_t acknowledged; /* all messages before this one are acknowledged */
    uint64_t waiting_max;  /* maximum of unacknowledged messages */
    uint64_t *due_at;      /* by sequence modulo SENDER_RING */
    struct histogram spent, told;
} sender;

static void on_event(void *arg, const struct llm_event *event)
{
    const uint64_t now = llm_clock();

    (void)arg;
    steady_tell(event);
    if (event->kind != LLM_EVENT_ACKNOWLEDGED)
        return;
    for (uint64_t number = event->first; sender.measured && number <= event->last; number++)
        if (sender.due_at[number % SENDER_RING] != 0)
            histogram_add(&sender.told, now - sender.due_at[number % SENDER_RING]);
    if (sender.measured && sender.sequence - sender.acknowledged > sender.waiting_max)
        sender.waiting_max = sender.sequence - sender.acknowledged;
    sender.acknowledged = event->last + 1;
}

/* ------------------------------------------------------------------------------------------------ sending */

/* Returns whether the message was accepted. */
static bool offer_send_one(struct offer *offer, unsigned flags)
{
    struct llm_topic *topic = offer->topics[offer->sent % offer->topic_count];
    int result;

    offer->stamp.sequence = sender.sequence;
    memcpy(offer->data, &offer->stamp, sizeof offer->stamp);
    if (sender.assured)
        sender.due_at[sender.sequence % SENDER_RING] = offer->stamp.due_at;
    while ((result = llm_send(topic, offer->data, offer->size, flags)) == LLM_EAGAIN && offer->waits)
        steady_poll(sender.context);
    if (result == LLM_EAGAIN)
        return false;
    steady_ok(result, "llm_send");
    sender.sequence++;
    offer->sent++;
    return true;
}

/* Sends due messages. Flat out, reading the clock would cost more than the measured call. */
static bool offer_send(struct offer *offer, uint64_t now)
{
    const bool bursts = offer->burst > 1;
    bool left = true;

    if (offer->topics == NULL || now < offer->due_at)
        return false;
    offer->stamp.due_at = offer->interval_ns > 0 ? offer->due_at : 0;
    for (uint64_t i = 0; i < offer->burst; i++) {
        if (offer_send_one(offer, bursts ? LLM_SEND_MORE : 0))
            continue;
        offer->due_at = now;
        return false;
    }
    if (bursts && offer->interval_ns > 0)
        left = llm_transmitter_flush(sender.transmitter) != LLM_EAGAIN;
    if (left && offer == &sender.stream)
        histogram_add(&sender.spent, llm_clock() - now);
    offer->due_at += offer->interval_ns;
    return true;
}

/* Due messages have to be sent before the end, unless refused messages are skipped. */
static bool sender_is_over(uint64_t now, uint64_t end)
{
    const struct offer *stream = &sender.stream;

    return now >= end && (stream->interval_ns == 0 || stream->due_at >= end);
}

/* Checks now and then for a request. Returns whether there is one. */
static bool sender_hears(uint64_t now)
{
    static uint64_t heard_at;

    if (now < heard_at + SENDER_HEAR_NS)
        return false;
    heard_at = now;
    return control_is_waiting();
}

static void sender_run(uint64_t end, bool open)
{
    const uint64_t batch = sender.stream.burst > 1 ? 1 : SENDER_BATCH;
    uint64_t now = llm_clock(), before = now, turns = 0;

    for (; open ? !sender_hears(now) : !sender_is_over(now, end); now = llm_clock()) {
        bool sent;

        /* After a suspension of the whole machine there is no backlog to send. */
        if (open && now - before > SENDER_STOPPED_NS)
            sender.stream.due_at += now - before;
        before = now;
        sent = offer_send(&sender.stream, now);
        sent |= offer_send(&sender.bulk, now);
        if (!sent || ++turns % batch == 0)
            steady_poll(sender.context);
    }
}

/* Waits until all messages are acknowledged; without acknowledgements, for drain_ns. */
static void sender_drain(uint64_t drain_ns)
{
    const uint64_t begun_at = llm_clock();

    while (sender.assured ? sender.acknowledged < sender.sequence : llm_clock() < begun_at + drain_ns) {
        steady_poll(sender.context);
        if (sender.assured && llm_clock() > begun_at + SENDER_PATIENCE_NS)
            control_fail("messages", "are never acknowledged");
    }
}

static void offer_begin(struct offer *offer, uint64_t now, uint64_t rate, uint64_t burst)
{
    offer->interval_ns = rate > 0 ? burst * 1000000000 / rate : 0;
    offer->burst = burst;
    offer->due_at = now;
}

static void sender_send(const struct control *request)
{
    const uint64_t rate = control_number(request, "rate", 0), begun_at = llm_clock(),
                   before = sender.stream.sent;
    uint64_t took_ns;

    sender.stream.stamp.round = (uint32_t)control_number(request, "round", 0);
    sender.stream.stamp.phase = sender.bulk.stamp.phase = (uint32_t)control_number(request, "phase", 0);
    sender.measured = control_flag(request, "acknowledged");
    sender.waiting_max = 0;
    histogram_reset(&sender.spent);
    histogram_reset(&sender.told);
    offer_begin(&sender.stream, begun_at, rate,
                control_number(request, "burst", rate > 0 ? 1 : SENDER_BATCH_FLAT_OUT));
    offer_begin(&sender.bulk, begun_at, control_number(request, "bulk", 1), 1);
    sender_run(begun_at + control_ns(request, "duration", 0), control_flag(request, "open"));
    took_ns = llm_clock() - begun_at;
    sender_drain(control_ns(request, "drain", 0));
    json_open();
    json_number("msgs_per_s", (double)(sender.stream.sent - before) * 1e9 / (double)took_ns);
    json_counts("begun_at unacknowledged_max", (uint64_t[]){begun_at, sender.waiting_max});
    json_histogram("spent", &sender.spent);
    json_histogram("acknowledged", &sender.told);
    json_close();
}

/* ----------------------------------------------------------------------------------------- other requests */

static void sender_await(const struct control *request)
{
    struct llm_congestion first = {.receiver = 0};
    char identity[24];

    while (llm_transmitter_receivers(sender.transmitter) < control_number(request, "receivers", 1))
        steady_poll(sender.context);
    steady_ok(llm_transmitter_congestion(sender.transmitter, &first, 1), "llm_transmitter_congestion");
    json_open();
    json_text("first", steady_identity(first.receiver, identity));
    json_close();
}

static void sender_limit(const struct control *request)
{
    struct llm_rate limit;

    llm_rate_init(&limit);
    limit.bytes_per_s = control_number(request, "transmitter", 0);
    limit.repair_bytes_per_s = control_number(request, "repairs", 0);
    steady_ok(llm_transmitter_limit_rate(sender.transmitter, &limit), "llm_transmitter_limit_rate");
    llm_rate_init(&limit);
    limit.bytes_per_s = control_number(request, "bulk", 0);
    if (sender.bulk.topics != NULL)
        steady_ok(llm_topic_limit_rate(sender.bulk.topics[0], &limit), "llm_topic_limit_rate");
    json_done(NULL, 0);
}

static void sender_stats(const struct control *request)
{
    json_open();
    machine_json("machine");
    json_counts("sent bytes packet_bytes",
                (uint64_t[]){sender.sequence,
                             sender.stream.sent * sender.stream.size + sender.bulk.sent * sender.bulk.size,
                             llm_transmitter_claim_max(sender.transmitter)});
    steady_json_counters(sender.context, request);
    json_close();
}

/* No work: a send with open=1 ends when a request is pending. */
static void sender_stop(const struct control *request)
{
    (void)request;
}

static const struct control_verb sender_verbs[] = {{"await", sender_await}, {"limit", sender_limit},
                                                   {"send", sender_send},   {"stats", sender_stats},
                                                   {"stop", sender_stop},   {NULL, NULL}};

/* --------------------------------------------------------------------------------------------------- open */

static void offer_open(struct offer *offer, const char *name, unsigned flags, uint64_t topics, uint64_t size)
{
    char text[32];

    *offer = (struct offer){.topics = control_memory(topics, sizeof(struct llm_topic *)),
                            .topic_count = topics,
                            .size = size,
                            .data = control_memory(1, size),
                            .waits = offer == &sender.stream};
    for (uint64_t i = 0; i < topics; i++) {
        (void)snprintf(text, sizeof text, i == 0 ? "%s" : "%s.%" PRIu64, name, i);
        steady_ok(llm_topic_open(sender.transmitter, text, flags, &offer->topics[i]), "llm_topic_open");
    }
}

static void sender_open_topics(const struct control *control)
{
    const unsigned flags = control_is(control, "level", "unreliable")   ? LLM_TOPIC_UNRELIABLE
                           : control_is(control, "level", "no_history") ? LLM_TOPIC_NO_HISTORY
                                                                        : 0;
    struct llm_assurance assurance;
    struct llm_cache keep;

    offer_open(&sender.stream, "bench", flags, control_number(control, "topics", 1),
               control_number(control, "size", 45));
    if (control_text(control, "bulk_size", NULL) != NULL)
        offer_open(&sender.bulk, "bulk", 0, 1, control_number(control, "bulk_size", 0));
    sender.bulk.stamp.round = STEADY_BULK;
    sender.assured = control_is(control, "level", "assured");
    llm_assurance_init(&assurance);
    assurance.receivers = (uint32_t)control_number(control, "by", 1);
    assurance.names = control_text(control, "names", NULL);
    assurance.messages_max = control_number(control, "unacknowledged", assurance.messages_max);
    if (sender.assured)
        steady_ok(llm_topic_assure(sender.stream.topics[0], &assurance), "llm_topic_assure");
    llm_cache_init(&keep);
    keep.messages = control_number(control, "keep", 0);
    keep.bytes_max = sender.stream.size;
    for (uint64_t i = 0; keep.messages > 0 && i < sender.stream.topic_count; i++)
        steady_ok(llm_topic_cache(sender.stream.topics[i], &keep), "llm_topic_cache");
}

int transmitter_run(const struct control *control)
{
    const char *channel = control_text(control, "channel", "");
    struct llm_transmitter_handlers handlers;
    struct control request;
    int came;

    sender.context = steady_context(control);
    sender.due_at = control_memory(SENDER_RING, sizeof *sender.due_at);
    histogram_init(&sender.spent, 0);
    histogram_init(&sender.told, 0);
    llm_transmitter_handlers_init(&handlers);
    handlers.event = on_event;
    steady_ok(llm_transmitter_open(sender.context, channel, NULL, &handlers, &sender.transmitter), channel);
    sender_open_topics(control);
    while ((came = control_take(&request, 0)) >= 0) {
        if (came > 0)
            control_serve(&request, sender_verbs);
        steady_poll(sender.context);
    }
    /* Closing waits for repairs. */
    steady_ok(llm_transmitter_close(&sender.transmitter), "llm_transmitter_close");
    steady_ok(llm_context_close(&sender.context), "llm_context_close");
    return 0;
}
