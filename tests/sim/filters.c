/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selection by receivers (ADR 15): subjects with wildcards, labels, bitmaps, and selectors over properties,
 * which change while messages flow and packets are lost, duplicated and reordered. Exactly the wanted
 * messages are delivered, once and in order; others are counted by reason. A model without the library
 * decides which ones are wanted (choice.h, wanted.h).
 *
 * A change applies from the first message that was not decided before, which the counters identify. Only a
 * message that spans packets, and was begun, stays with the earlier filter; its outcome is not observable.
 */
#include <stdio.h>
#include <string.h>

#include "cable.h"
#include "choice.h"

enum { FILTERS_EARS_MAX = 5, FILTERS_TOPICS_MAX = 8, FILTERS_SUBJECTS_MAX = 12, FILTERS_MESSAGES_MAX = 4000 };

/* Fate of a message, as counted. */
enum fate { FATE_DELIVERED, FATE_REJECTED, FATE_REFUSED, FATE_LOST, FATES };

static const char *const fates[FATES] = {"messages_delivered", "messages_rejected", "messages_refused",
                                         "messages_lost"};

struct ear {
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct choice choice;
    bool chosen;        /* it has subscribed before */
    bool subjects_only; /* it sets no filter, so that packets may be copied in part */
    bool subjects[FILTERS_SUBJECTS_MAX];
    uint64_t next; /* next message to decide on */
    uint64_t counts[FATES];
    uint64_t begun; /* message that may have been begun under another filter */
    bool begun_wanted;
    uint64_t vague; /* of these, undelivered messages: by either filter */
    lli_ns change_at;
};

static struct {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topics[FILTERS_TOPICS_MAX];
    char names[FILTERS_TOPICS_MAX][CHOICE_NAME_MAX];
    char subjects[FILTERS_SUBJECTS_MAX][CHOICE_NAME_MAX];
    uint32_t topics_count;
    struct ear ears[FILTERS_EARS_MAX];
    uint32_t count;
    struct message messages[FILTERS_MESSAGES_MAX];
    uint64_t sent;
    lli_ns until, message_at, gap;
} filters;

static struct {
    uint64_t sent, changes, fates[FATES];
} seen;

static uint32_t node_of(const struct ear *ear)
{
    return (uint32_t)(ear - filters.ears) + 1;
}

/* -------------------------------------------------------------------------------------------------- model */

static bool is_subscribed(const struct ear *ear, const char *topic)
{
    bool takes = !ear->chosen;

    for (uint32_t i = 0; i < FILTERS_SUBJECTS_MAX; i++)
        takes |= ear->subjects[i] && wanted_takes(filters.subjects[i], topic);
    return takes;
}

/* The filter comes first: a message that it rejects is not counted as refused. */
static enum fate fate_of(const struct ear *ear, uint64_t number)
{
    const struct message *message = &filters.messages[number];

    if (number == ear->begun && ear->begun_wanted)
        return is_subscribed(ear, filters.names[message->topic]) ? FATE_DELIVERED : FATE_REFUSED;
    if (!choice_wants(&ear->choice, message))
        return FATE_REJECTED;
    return is_subscribed(ear, filters.names[message->topic]) ? FATE_DELIVERED : FATE_REFUSED;
}

/* Checks that no message before this one was wanted. */
static void ear_pass(struct ear *ear, uint64_t end)
{
    for (; ear->next < end; ear->next++) {
        const struct message *message = &filters.messages[ear->next];
        const bool vague = ear->next == ear->begun && ear->begun_wanted;
        const enum fate fate = fate_of(ear, ear->next);

        if (fate == FATE_DELIVERED && (!vague || choice_wants(&ear->choice, message)))
            cable_fail("node %u: message %llu on \"%s\" is wanted, and did not come; label %u; %s",
                       node_of(ear), (unsigned long long)ear->next, filters.names[message->topic],
                       message->label, wanted_text(&ear->choice.tree));
        ear->vague += vague;
        ear->counts[fate] += !vague;
    }
}

static uint64_t ear_counter(const struct ear *ear, const char *name)
{
    uint64_t value = 0;

    cable_must(llm_context_counter(ear->context, name, &value), name);
    return value;
}

/* Returns how many messages it decided on, which are all before the next. */
static uint64_t ear_position(const struct ear *ear)
{
    uint64_t position = 0;

    for (uint32_t i = 0; i < FATES; i++)
        position += ear_counter(ear, fates[i]);
    if (position < ear->next || position > filters.sent)
        cable_fail("node %u: counts %llu messages, of %llu sent, and is at %llu", node_of(ear),
                   (unsigned long long)position, (unsigned long long)filters.sent,
                   (unsigned long long)ear->next);
    return position;
}

/* ----------------------------------------------------------------------------------------------- delivery */

static void check_attributes(const struct ear *ear, const struct llm_message *given,
                             const struct message *message)
{
    struct llm_attributes attributes;
    uint32_t count = 0;
    bool same;

    llm_attributes_init(&attributes);
    cable_must(llm_message_attributes(ear->receiver, given, &attributes), "attributes");
    same = attributes.label == message->label;
    for (uint32_t i = 0; i < 8 * CHOICE_BITMAP_BYTES; i++)
        same &= choice_bit(attributes.bitmap, attributes.bitmap_bits, i) ==
                choice_bit(message->bitmap, message->bits, i);
    for (uint32_t i = 0; i < WANTED_CODES; i++) {
        struct llm_property property;
        const bool has = llm_message_property(ear->receiver, given, (uint16_t)(i + 1), &property) == LLM_OK;

        count += message->properties[i].kind != WANTED_NOTHING;
        same &= has == (message->properties[i].kind != WANTED_NOTHING);
    }
    if (!same || attributes.properties_count != count)
        cable_fail("message %llu has other attributes", (unsigned long long)given->number);
}

static void on_message(void *arg, const struct llm_message *given)
{
    struct ear *ear = arg;
    const uint32_t node = node_of(ear);
    const struct message *message;
    uint64_t number;

    memcpy(&number, given->data, sizeof number);
    if (number != given->number || number >= filters.sent || number < ear->next)
        cable_fail("node %u: message %llu as %llu, %llu is the next one", node, (unsigned long long)number,
                   (unsigned long long)given->number, (unsigned long long)ear->next);
    message = &filters.messages[number];
    ear_pass(ear, number);
    if (given->size != message->size || strcmp(given->topic, filters.names[message->topic]) != 0)
        cable_fail("node %u: message %llu on \"%s\" is another", node, (unsigned long long)number,
                   given->topic);
    if (fate_of(ear, number) != FATE_DELIVERED)
        cable_fail("node %u: message %llu on \"%s\" is not wanted; label %u; %s", node,
                   (unsigned long long)number, given->topic, message->label, wanted_text(&ear->choice.tree));
    if (ear->choice.filters && number != ear->begun)
        check_attributes(ear, given, message);
    ear->counts[FATE_DELIVERED]++;
    ear->next++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct ear *ear = arg;

    if (event->kind != LLM_EVENT_SESSION_NEW && event->kind != LLM_EVENT_TOPIC_NEW)
        cable_fail("node %u: %s", node_of(ear), llm_event_name(event->kind));
}

/* ------------------------------------------------------------------------------------------------ changes */

static void ear_filter(struct ear *ear)
{
    struct llm_property_name names[WANTED_CODES];
    struct llm_filter filter;

    choice_draw(&ear->choice);
    choice_filter(&ear->choice, names, &filter);
    cable_trace("selector: %s", wanted_text(&ear->choice.tree));
    cable_must(llm_receiver_filter(ear->receiver, ear->choice.filters ? &filter : NULL), "a filter");
}

static void ear_subject(struct ear *ear)
{
    const uint32_t i = (uint32_t)cable_below(FILTERS_SUBJECTS_MAX);
    bool *has = &ear->subjects[i];

    if (*has && cable_chance(80)) {
        cable_must(llm_receiver_unsubscribe(ear->receiver, filters.subjects[i]), "a subject less");
        *has = false;
        return;
    }
    cable_must(llm_receiver_subscribe(ear->receiver, filters.subjects[i]), "a subject");
    *has = ear->chosen = true;
}

static void ear_change(struct ear *ear)
{
    const uint64_t position = ear_position(ear);

    seen.changes++;
    ear_pass(ear, position);
    if (ear->subjects_only || cable_chance(60)) {
        ear_subject(ear);
        return;
    }
    ear->begun_wanted = (ear->begun == position && ear->begun_wanted) ||
                        (position < filters.sent && choice_wants(&ear->choice, &filters.messages[position]));
    ear->begun = position;
    ear_filter(ear);
}

/* ------------------------------------------------------------------------------------------------ sending */

static int message_send(const struct message *message, bool with)
{
    static uint64_t data[CHOICE_MESSAGE_MAX / 8 + 1];
    struct llm_property properties[WANTED_CODES];
    struct llm_attributes attributes;
    struct llm_topic **topic = &filters.topics[message->topic];
    const unsigned flags = cable_chance(50) ? LLM_SEND_MORE : 0;

    data[0] = filters.sent;
    if (*topic == NULL)
        cable_must(llm_topic_open(filters.transmitter, filters.names[message->topic], 0, topic), "a topic");
    if (!with)
        return llm_send(*topic, data, message->size, flags);
    message_attributes(message, properties, &attributes);
    return llm_send_with(*topic, data, message->size, &attributes, flags);
}

static void sender_turn(void)
{
    if (cable.now >= filters.message_at && cable.now < filters.until) {
        for (uint64_t burst = cable_between(1, 12); burst > 0 && filters.sent < FILTERS_MESSAGES_MAX;
             burst--) {
            struct message *message = &filters.messages[filters.sent];
            const bool with = cable_chance(75);
            int error;

            message_draw(message, filters.topics_count, with);
            error = message_send(message, with);
            if (error == LLM_EAGAIN)
                break;
            cable_must(error, "send");
            filters.sent++;
        }
        filters.message_at = cable.now + cable_between(1, 2 * filters.gap);
    }
    cable_must(llm_poll(filters.context), "poll");
    cable_sleep(0, filters.context,
                filters.message_at > cable.now ? filters.message_at - cable.now : CABLE_S);
}

static void filters_turn(uint32_t node)
{
    struct ear *ear;

    if (node == 0) {
        sender_turn();
        return;
    }
    ear = &filters.ears[node - 1];
    if (cable.now >= ear->change_at) {
        ear_change(ear);
        ear->change_at = cable.now < filters.until ? cable.now + cable_between(1, 60) * CABLE_MS : LLI_NEVER;
    }
    while (llm_poll(ear->context) > 0 && !cable_chance(10))
        continue;
    cable_sleep(node, ear->context, ear->change_at == LLI_NEVER ? CABLE_S : ear->change_at - cable.now);
}

/* -------------------------------------------------------------------------------------------- the history */

static void filters_draw(void)
{
    filters.topics_count = (uint32_t)cable_between(2, FILTERS_TOPICS_MAX);
    for (uint32_t i = 0; i < filters.topics_count; i++) {
        choice_draw_name(filters.names[i], false);
        /* Each name once. */
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(filters.names[i], filters.names[j]) == 0)
                (void)snprintf(filters.names[i], CHOICE_NAME_MAX, "b.%u", i);
    }
    for (uint32_t i = 0; i < FILTERS_SUBJECTS_MAX; i++) {
        choice_draw_name(filters.subjects[i], true);
        if (cable_chance(25))
            strcpy(filters.subjects[i], filters.names[cable_below(filters.topics_count)]);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(filters.subjects[i], filters.subjects[j]) == 0)
                (void)snprintf(filters.subjects[i], CHOICE_NAME_MAX, "c.%u", i);
    }
}

#define FILTERS_CHANNEL                                                                                    \
    CABLE_SCHEME "://filters:1?history_bytes=4M&history_packets=4096&window_packets=4096&reorder_bytes=4M" \
                 "&receivers_max=8&topics_max=16&sessions_max=1&linger_ns=0&slow=off"

static void ear_open(struct ear *ear)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;
    const uint32_t node = cable_node_add();

    ear->subjects_only = cable_chance(40);
    llm_context_options_init(&options);
    ear->context = cable_context(node, &options);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = ear;
    handlers.message = on_message;
    handlers.event = on_event;
    cable_must(llm_receiver_open(ear->context, FILTERS_CHANNEL, NULL, &handlers, &ear->receiver),
               "a receiver");
    ear->begun = UINT64_MAX;
    if (!ear->subjects_only)
        ear_filter(ear);
    for (uint64_t i = cable_below(4); i > 0; i--)
        ear_subject(ear);
    ear->change_at = cable_chance(20) ? LLI_NEVER : cable.now + cable_between(5, 100) * CABLE_MS;
}

static void filters_open(void)
{
    struct llm_context_options options;

    llm_context_options_init(&options);
    filters.context = cable_context(cable_node_add(), &options);
    cable_must(llm_transmitter_open(filters.context, FILTERS_CHANNEL, NULL, NULL, &filters.transmitter),
               "a transmitter");
    for (uint32_t i = 0; i < filters.count; i++)
        ear_open(&filters.ears[i]);
}

/* All messages arrived: the counts equal the model's. */
static void ear_check(struct ear *ear)
{
    if (ear_position(ear) != filters.sent)
        cable_fail("node %u: %llu of %llu messages are counted", node_of(ear),
                   (unsigned long long)ear_position(ear), (unsigned long long)filters.sent);
    ear_pass(ear, filters.sent);
    for (uint32_t i = 0; i < FATES; i++) {
        const uint64_t count = ear_counter(ear, fates[i]);

        if (count < ear->counts[i] || count > ear->counts[i] + ear->vague)
            cable_fail("node %u: %s is %llu, and should be %llu", node_of(ear), fates[i],
                       (unsigned long long)count, (unsigned long long)ear->counts[i]);
        seen.fates[i] += count;
    }
}

static void filters_network(bool clean)
{
    for (uint32_t i = 1; i <= filters.count; i++) {
        struct cable_node *node = &cable.nodes[i];

        node->loss = clean || cable_chance(30) ? 0 : (uint32_t)cable_below(100000);
        node->duplicate = clean || cable_chance(30) ? 0 : (uint32_t)cable_below(100000);
        node->reorder = clean || cable_chance(30) ? 0 : (uint32_t)cable_below(100000);
        node->delay_more = cable_between(1, 300) * CABLE_US;
    }
}

void filters_run(uint64_t seed)
{
    static const struct cable_test test = {.turn = filters_turn};

    cable_begin(seed, &test);
    memset(&filters, 0, sizeof filters);
    filters.count = (uint32_t)cable_between(1, FILTERS_EARS_MAX);
    filters.until = cable.now + cable_between(50, 500) * CABLE_MS;
    filters.message_at = cable.now + 15 * CABLE_MS;
    filters.gap = cable_between(200, 4000) * CABLE_US;
    filters_draw();
    filters_open();
    cable_run(cable.now + 10 * CABLE_MS);
    filters_network(false);
    cable_run(filters.until);
    filters_network(true);
    cable_run(cable.now + 2 * CABLE_S);
    for (uint32_t i = 0; i < filters.count; i++)
        ear_check(&filters.ears[i]);
    seen.sent += filters.sent;
    cable_end();
    for (uint32_t i = 0; i < filters.count; i++) {
        cable_as(i + 1);
        (void)llm_context_close(&filters.ears[i].context);
    }
    cable_as(0);
    (void)llm_context_close(&filters.context);
    cable_fini();
}

void filters_print(void)
{
    (void)printf("%llu messages, %llu changes", (unsigned long long)seen.sent,
                 (unsigned long long)seen.changes);
    for (uint32_t i = 0; i < FATES; i++)
        (void)printf(", %s %llu", fates[i], (unsigned long long)seen.fates[i]);
    (void)printf("\n");
}
