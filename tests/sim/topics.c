/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limits of topics, and their changes while messages flow (ADR 22): over any window of time a topic
 * sends at most limit * window + burst bytes, plus the rest of the message that used up the last token;
 * messages within the limit are accepted; a refused sender is woken when it may send; topics without a limit
 * are not affected; and all accepted messages arrive, in order.
 *
 * Checked by buckets of the test, as in rates.c: one never emptier than the limit allows, one never fuller.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cable.h"
#include "core/flow/flow.h"

enum { TOPICS_MAX = 4, TOPICS_MESSAGE_MAX = 1400, TOPICS_STEP = 1024 };

/* The library's buckets round to whole bytes, and times to a nanosecond, at each fill. */
#define TOPICS_ROUNDED 1e-3
#define TOPICS_BYTES 2.0
#define TOPICS_LATE ((lli_ns)10 * CABLE_US)

struct topic {
    struct llm_topic *topic;
    uint64_t bytes_per_s; /* 0: no limit */
    double burst, most, least;
    lli_ns at;
    lli_ns free_at; /* latest time at which refused messages may be sent; LLI_NEVER: none was refused */
    lli_ns message_at;
    lli_ns gap;
    uint64_t sent, received;
};

static struct {
    struct llm_context *contexts[2];
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct topic topics[TOPICS_MAX];
    uint32_t count;
    lli_ns until;
    lli_ns change_at;
} topics;

static struct {
    uint64_t sent, refused, changes;
} seen;

static void topic_fill(struct topic *topic)
{
    const double elapsed = (double)(cable.now - topic->at) / 1e9;
    const double low = (double)(topic->bytes_per_s / TOPICS_STEP * TOPICS_STEP);

    topic->most =
        fmin(topic->burst, topic->most + (double)topic->bytes_per_s * (1 + TOPICS_ROUNDED) * elapsed);
    topic->least = fmin(topic->burst, topic->least + low * elapsed);
    topic->at = cable.now;
}

/* A new limit begins with its burst. */
static void topic_limit(struct topic *topic, uint64_t bytes_per_s)
{
    struct llm_rate rate;

    llm_rate_init(&rate);
    rate.bytes_per_s = bytes_per_s;
    cable_must(llm_topic_limit_rate(topic->topic, &rate), "a topic's rate");
    topic->bytes_per_s = bytes_per_s;
    topic->burst = topic->most = topic->least = (double)lli_flow_burst(bytes_per_s);
    topic->at = cable.now;
    topic->free_at = LLI_NEVER;
    seen.changes++;
}

static void topic_refused(struct topic *topic)
{
    const double low = (double)(topic->bytes_per_s / TOPICS_STEP * TOPICS_STEP);

    if (topic->bytes_per_s == 0 || topic->least > TOPICS_BYTES)
        cable_fail("topic %u is refused, though %.0f bytes may go at %llu bytes/s",
                   (unsigned)(topic - topics.topics), topic->least, (unsigned long long)topic->bytes_per_s);
    if (topic->free_at == LLI_NEVER)
        topic->free_at = cable.now + (lli_ns)((TOPICS_BYTES - topic->least) / low * 1e9);
    if (cable.now > topic->free_at + TOPICS_LATE)
        cable_fail("topic %u is still refused after %llu ns", (unsigned)(topic - topics.topics),
                   (unsigned long long)(cable.now - topic->free_at));
    seen.refused++;
}

/* Sends a message. False: not now. */
static bool topic_send(struct topic *topic)
{
    uint64_t data[TOPICS_MESSAGE_MAX / 8 + 1] = {topic->sent};
    const size_t size = cable_between(8, TOPICS_MESSAGE_MAX);
    int error;

    topic_fill(topic);
    error = llm_send(topic->topic, data, size, cable_chance(50) ? LLM_SEND_NOW : 0);
    if (error == LLM_EAGAIN) {
        topic_refused(topic);
        return false;
    }
    cable_must(error, "send");
    if (topic->bytes_per_s != 0 && topic->most <= -TOPICS_BYTES)
        cable_fail("topic %u sends faster than %llu bytes/s, by %.0f bytes",
                   (unsigned)(topic - topics.topics), (unsigned long long)topic->bytes_per_s, -topic->most);
    if (cable.now > topic->free_at && cable.now - topic->free_at > TOPICS_LATE)
        cable_fail("topic %u is woken %llu ns after it may send", (unsigned)(topic - topics.topics),
                   (unsigned long long)(cable.now - topic->free_at));
    topic->free_at = LLI_NEVER;
    topic->most -= (double)size;
    topic->least -= (double)size;
    topic->sent++;
    seen.sent++;
    return true;
}

static uint64_t topic_draw(void)
{
    const uint64_t low = (uint64_t)65536 << cable_below(7);

    return cable_chance(30) ? 0 : cable_between(low, 2 * low);
}

static void sender_turn(void)
{
    lli_ns next = topics.change_at;

    if (cable.now >= topics.change_at) {
        topic_limit(&topics.topics[cable_below(topics.count)], topic_draw());
        topics.change_at = next = cable.now + cable_between(5, 200) * CABLE_MS;
    }
    for (uint32_t i = 0; i < topics.count && cable.now < topics.until; i++) {
        struct topic *topic = &topics.topics[i];

        if (cable.now >= topic->message_at && topic_send(topic))
            topic->message_at = cable.now + cable_between(1, 2 * topic->gap);
        /* A refused sender waits to be woken. */
        if (topic->message_at > cable.now)
            next = lli_min(next, topic->message_at);
    }
    cable_must(llm_poll(topics.contexts[0]), "poll");
    cable_sleep(0, topics.contexts[0], next > cable.now ? next - cable.now : CABLE_US);
}

static void topics_turn(uint32_t node)
{
    if (node == 0) {
        sender_turn();
        return;
    }
    while (llm_poll(topics.contexts[1]) > 0)
        continue;
    cable_sleep(1, topics.contexts[1], CABLE_S);
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct topic *topic = &topics.topics[message->topic_id];
    uint64_t number;

    (void)arg;
    memcpy(&number, message->data, sizeof number);
    if (number != topic->received)
        cable_fail("message %llu of topic %u, %llu is the next one", (unsigned long long)number,
                   message->topic_id, (unsigned long long)topic->received);
    topic->received++;
}

#define TOPICS_CHANNEL                                                                                    \
    CABLE_SCHEME "://topics:1?history_bytes=4M&history_packets=4096&window_packets=4096&reorder_bytes=1M" \
                 "&receivers_max=4&topics_max=8&sessions_max=1&linger_ns=0&slow=off"

static void topics_open(void)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;
    char name[] = "t0";

    llm_context_options_init(&options);
    topics.contexts[0] = cable_context(cable_node_add(), &options);
    cable_must(llm_transmitter_open(topics.contexts[0], TOPICS_CHANNEL, NULL, NULL, &topics.transmitter),
               "a transmitter");
    for (uint32_t i = 0; i < topics.count; i++, name[1]++) {
        cable_must(llm_topic_open(topics.transmitter, name, 0, &topics.topics[i].topic), "a topic");
        topic_limit(&topics.topics[i], topic_draw());
    }
    llm_context_options_init(&options);
    topics.contexts[1] = cable_context(cable_node_add(), &options);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    cable_must(llm_receiver_open(topics.contexts[1], TOPICS_CHANNEL, NULL, &handlers, &topics.receiver),
               "a receiver");
}

void topics_run(uint64_t seed)
{
    static const struct cable_test test = {.turn = topics_turn};

    cable_begin(seed, &test);
    memset(&topics, 0, sizeof topics);
    topics.count = (uint32_t)cable_between(1, TOPICS_MAX);
    topics.until = cable.now + cable_between(100, 1500) * CABLE_MS;
    topics.change_at = cable_chance(40) ? LLI_NEVER : cable.now + cable_between(5, 300) * CABLE_MS;
    for (uint32_t i = 0; i < topics.count; i++)
        topics.topics[i] = (struct topic){.gap = cable_between(100, 3000) * CABLE_US,
                                          .message_at = cable.now + 5 * CABLE_MS};
    topics_open();
    cable.nodes[1].loss = cable_chance(50) ? 0 : (uint32_t)cable_below(50000);
    cable_run(topics.until);
    cable.nodes[1].loss = 0;
    topics.change_at = LLI_NEVER;
    cable_run(cable.now + CABLE_S);
    for (uint32_t i = 0; i < topics.count; i++)
        if (topics.topics[i].received != topics.topics[i].sent)
            cable_fail("of topic %u %llu of %llu messages came", i,
                       (unsigned long long)topics.topics[i].received,
                       (unsigned long long)topics.topics[i].sent);
    cable_end();
    for (uint32_t i = 0; i < 2; i++) {
        cable_as(i);
        (void)llm_context_close(&topics.contexts[i]);
    }
    cable_fini();
}

void topics_print(void)
{
    (void)printf("%llu messages, %llu times refused, %llu limits\n", (unsigned long long)seen.sent,
                 (unsigned long long)seen.refused, (unsigned long long)seen.changes);
}
