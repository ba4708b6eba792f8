/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's suspension (llm_transmitter_suspend() and _suspend_all()) of one receiver or all while
 * packets are lost. During it, only losses of receivers with service are repaired; these receivers get
 * everything without delay. Suspended receivers report their losses, once and in order, and get all later
 * messages once the suspension ends.
 */
#include <stdio.h>

#include "cable.h"
#include "core/wire/wire.h"

enum { SHED_EARS_MAX = 4, SHED_PACKETS_MAX = 16384 };

#define SHED_CHANNEL                                                                                    \
    CABLE_SCHEME "://shed:1?history_bytes=4M&history_packets=4096&window_packets=4096&reorder_bytes=4M" \
                 "&receivers_max=8&topics_max=4&sessions_max=1&linger_ns=0&slow=off"

/* Time after which a packet that was lost a few times in a row has arrived. */
#define SHED_SOON (100 * CABLE_MS)

struct ear {
    struct llm_context *context;
    struct llm_receiver *receiver;
    uint64_t id;
    uint32_t loss;               /* losses of data packets to it, in ppm */
    uint64_t next;               /* next message */
    uint64_t told;               /* messages reported lost */
    bool suspended;              /* the suspension was reported to it */
    bool lost[SHED_PACKETS_MAX]; /* packets that it lost */
};

static struct {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct ear ears[SHED_EARS_MAX];
    uint32_t count;
    uint32_t shed; /* index of the suspended receiver, or count: all */
    bool on;
    bool was_on;
    lli_ns off_at;
    lli_ns message_at, gap, until;
    lli_ns sent_at[SHED_PACKETS_MAX]; /* time of sending each message */
    uint64_t sent;
    uint32_t first, next; /* packet numbers */
    bool known;
} shed;

static struct {
    uint64_t sent, repaired, told, spared;
} seen;

static bool is_shed(uint32_t ear)
{
    return ear == shed.shed || shed.shed == shed.count;
}

/* Returns true if a receiver with service lost this packet. */
static bool is_wanted(uint32_t seq)
{
    for (uint32_t i = 0; i < shed.count; i++)
        if (shed.ears[i].lost[seq - shed.first] && !(shed.on && is_shed(i)))
            return true;
    return false;
}

static void shed_sent(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t size)
{
    struct lli_wire_header header;
    struct lli_wire_status status;
    const uint8_t *body;
    size_t body_size;

    if (lli_wire_get_header(bytes, size, &header, &body, &body_size) != LLI_WIRE_OK)
        return;
    if (from > 0 && header.type == LLI_WIRE_STATUS &&
        lli_wire_get_status(body, body_size, header.tag, &status))
        shed.ears[from - 1].id = status.receiver;
    if (from > 0 || header.type != LLI_WIRE_DATA)
        return;
    if (!shed.known) {
        shed.known = true;
        shed.first = shed.next = header.seq;
    }
    if (header.seq == shed.next) {
        shed.next++;
        if (to != CABLE_GROUP || shed.next - shed.first == SHED_PACKETS_MAX)
            cable_fail("packet %u goes to one receiver, or is one too many", header.seq);
        return;
    }
    seen.repaired++;
    if (to != CABLE_GROUP && shed.on && is_shed(to - 1))
        cable_fail("packet %u is repaired for node %u, which is shed", header.seq, to);
    if (!is_wanted(header.seq))
        cable_fail("packet %u is repaired for nobody who is served", header.seq);
}

static bool shed_loses(uint32_t to, const uint8_t *bytes, uint32_t size)
{
    (void)size;
    if (to == 0 || (bytes[0] & 15) != LLI_WIRE_DATA || cable.now >= shed.until ||
        cable_below(1000000) >= shed.ears[to - 1].loss)
        return false;
    shed.ears[to - 1].lost[lli_load_u32(bytes + 8) - shed.first] = true;
    return true;
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct ear *ear = arg;
    const uint32_t index = (uint32_t)(ear - shed.ears);
    uint64_t number;

    memcpy(&number, message->data, sizeof number);
    if (number != ear->next || number >= shed.sent)
        cable_fail("node %u: message %llu, %llu is the next one", index + 1, (unsigned long long)number,
                   (unsigned long long)ear->next);
    if ((!is_shed(index) || !shed.was_on) && cable.now > shed.sent_at[number] + SHED_SOON)
        cable_fail("node %u: message %llu is late by %llu us", index + 1, (unsigned long long)number,
                   (unsigned long long)((cable.now - shed.sent_at[number]) / CABLE_US));
    ear->next++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct ear *ear = arg;
    const uint32_t index = (uint32_t)(ear - shed.ears);

    ear->suspended |= event->kind == LLM_EVENT_SUSPENDED;
    if (event->kind == LLM_EVENT_SESSION_END ||
        (event->kind == LLM_EVENT_SUSPENDED && !(shed.was_on && is_shed(index))))
        cable_fail("node %u: %s", index + 1, llm_event_name(event->kind));
    if (event->kind != LLM_EVENT_GAP)
        return;
    if (!shed.was_on || !is_shed(index) || event->first != ear->next || event->last < event->first ||
        shed.sent_at[event->first] >= shed.off_at || !ear->suspended)
        cable_fail("node %u: messages %llu to %llu are lost, %llu is the next one", index + 1,
                   (unsigned long long)event->first, (unsigned long long)event->last,
                   (unsigned long long)ear->next);
    ear->told += event->last + 1 - ear->next;
    ear->next = event->last + 1;
}

static void shed_turn(uint32_t node)
{
    struct llm_context *context = node == 0 ? shed.context : shed.ears[node - 1].context;
    uint8_t data[600] = {0};

    if (node == 0 && cable.now >= shed.message_at && cable.now < shed.until + 300 * CABLE_MS) {
        memcpy(data, &shed.sent, sizeof shed.sent);
        shed.sent_at[shed.sent++] = cable.now;
        cable_must(llm_send(shed.topic, data, cable_between(8, sizeof data), LLM_SEND_NOW), "send");
        shed.message_at = cable.now + cable_between(1, 2 * shed.gap);
    }
    while (llm_poll(context) > 0)
        continue;
    cable_sleep(node, context,
                node == 0 && shed.message_at > cable.now ? shed.message_at - cable.now : CABLE_S);
}

static void shed_switch(bool on)
{
    cable_as(0);
    shed.on = on;
    shed.was_on |= on;
    if (shed.shed == shed.count)
        cable_must((on ? llm_transmitter_suspend_all : llm_transmitter_resume_all)(shed.transmitter),
                   "the switch for all");
    else
        cable_must((on ? llm_transmitter_suspend : llm_transmitter_resume)(shed.transmitter,
                                                                           shed.ears[shed.shed].id),
                   "the switch");
    cable.nodes[0].turn_at = cable.now;
}

static void shed_open(void)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;

    llm_context_options_init(&options);
    shed.context = cable_context(cable_node_add(), &options);
    cable_must(llm_transmitter_open(shed.context, SHED_CHANNEL, NULL, NULL, &shed.transmitter),
               "a transmitter");
    cable_must(llm_topic_open(shed.transmitter, "t", 0, &shed.topic), "a topic");
    for (uint32_t i = 0; i < shed.count; i++) {
        struct ear *ear = &shed.ears[i];

        llm_context_options_init(&options);
        ear->context = cable_context(cable_node_add(), &options);
        ear->loss = cable_chance(30) ? 0 : (uint32_t)cable_below(60000);
        llm_receiver_handlers_init(&handlers);
        handlers.arg = ear;
        handlers.message = on_message;
        handlers.event = on_event;
        cable_must(llm_receiver_open(ear->context, SHED_CHANNEL, NULL, &handlers, &ear->receiver),
                   "a receiver");
    }
}

void shed_run(uint64_t seed)
{
    static const struct cable_test test = {.turn = shed_turn, .sent = shed_sent, .loses = shed_loses};
    lli_ns on_at;

    cable_begin(seed, &test);
    memset(&shed, 0, sizeof shed);
    shed.count = (uint32_t)cable_between(1, SHED_EARS_MAX);
    shed.shed = (uint32_t)(cable_chance(30) ? shed.count : cable_below(shed.count));
    shed.gap = cable_between(100, 1000) * CABLE_US;
    shed.message_at = cable.now + 20 * CABLE_MS;
    on_at = cable.now + cable_between(250, 400) * CABLE_MS;
    shed.off_at = on_at + cable_between(1, 400) * CABLE_MS;
    shed.until = shed.off_at + cable_between(0, 300) * CABLE_MS;
    shed_open();
    cable_run(on_at);
    shed_switch(true);
    cable_run(shed.off_at);
    shed_switch(false);
    cable_run(shed.until + 4 * CABLE_S);
    for (uint32_t i = 0; i < shed.count; i++) {
        if (shed.ears[i].next != shed.sent)
            cable_fail("node %u has, or was told lost, %llu of %llu messages", i + 1,
                       (unsigned long long)shed.ears[i].next, (unsigned long long)shed.sent);
        seen.told += shed.ears[i].told;
        seen.spared += is_shed(i) && shed.ears[i].told == 0;
    }
    seen.sent += shed.sent;
    cable_end();
    for (uint32_t i = 0; i < shed.count; i++) {
        cable_as(i + 1);
        (void)llm_context_close(&shed.ears[i].context);
    }
    cable_as(0);
    (void)llm_context_close(&shed.context);
    cable_fini();
}

void shed_print(void)
{
    (void)printf("%llu messages, %llu repairs, %llu told lost, %llu receivers that were shed lost nothing\n",
                 (unsigned long long)seen.sent, (unsigned long long)seen.repaired,
                 (unsigned long long)seen.told, (unsigned long long)seen.spared);
}
