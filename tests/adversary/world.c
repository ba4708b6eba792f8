/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <llm/llm.h>
#include <stdio.h>

#include "../sim/cable.h"

enum {
    NODE_TRANSMITTER = 0,
    NODE_RECEIVER = 1, /* the first receiver; the second is the next node */
    RECEIVERS = 2,
    NODE_NEWCOMER = 3,
    NODE_ADVERSARY = 4,
    NODE_THIRD = 5,
    NODES = 6,
    MESSAGE_SIZE = 48,
    MESSAGES_MAX = 1 << 16,
    NEWCOMER_MESSAGES = 200,
    NEWCOMER_FIRST = MESSAGES_MAX - NEWCOMER_MESSAGES,
    NAMES = 20, /* topics whose names fill an answer */
};

#define MAGIC UINT64_C(0x67656e75696e6521)

#define CHANNEL CABLE_SCHEME "://adversary:1?history_bytes=8M&history_packets=16384&topics_max=64&linger_ns=0"
#define CALLS_CHANNEL CABLE_SCHEME "://adversary:1?linger_ns=0"

/*
 * By then the session is no longer young when the adversary begins. Its effects are observed for the same
 * time.
 */
#define QUIET_NS (1500 * CABLE_MS)
#define AFTER_NS (2500 * CABLE_MS)
#define SETTLE_NS (500 * CABLE_MS)
#define DISTANCE_NS (world.keyed != NULL ? world.keyed->distance : 500 * CABLE_US)
#define LATE_NS (100 * CABLE_MS)
/* No request is repeated for longer than this (nak_giveup_ns), and no silent session is remembered longer. */
#define STORM_AFTER_NS (11000 * CABLE_MS)
/* Limit of a run: one that executes more is beyond all bounds, and stops early. */
#define OPERATIONS_MAX ((uint64_t)250000000)
#define STEP_NS (5 * CABLE_MS)

struct ear {
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct llm_connection *connection;
    bool got[MESSAGES_MAX];
    bool expects; /* it was open before the adversary, or has to get everything */
};

static struct {
    enum adversary_profile profile;
    const struct world_keyed *keyed; /* NULL: in clear */
    struct adversary adversary;
    struct adversary_cost cost;
    uint64_t forged_bytes;
    struct llm_context *context;
    struct llm_context *newcomer_context;
    struct llm_transmitter *transmitter;
    struct llm_transmitter *newcomer;
    struct llm_listener *listener;
    struct llm_connection *connection; /* the listener's side */
    struct llm_topic *topic;
    struct llm_topic *newcomer_topic;
    struct ear ears[RECEIVERS];
    lli_ns sent_at[MESSAGES_MAX];
    uint32_t sent;
    uint32_t newcomer_sent;
    lli_ns message_at;
    lli_ns newcomer_at;
    lli_ns begin;    /* costs are counted from here on */
    lli_ns until;    /* no message is sent after this */
    lli_seq highest; /* highest data packet sent */
} world;

/* Called for each basic block of the library, by a compiler option. */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    world.cost.operations++;
}

static bool counts(void)
{
    return cable.now >= world.begin;
}

/* Returns a channel with more options, and with keys if the world has them. */
static const char *channel_of(const char *channel, const char *more)
{
    static char text[512];

    (void)snprintf(text, sizeof text, "%s%s%s%s", channel, more, world.keyed != NULL ? "&keys=" : "",
                   world.keyed != NULL ? world.keyed->path : "");
    return text;
}

/* ------------------------------------------------------------------------------------------- the network */

static void count_stranger(uint32_t to, uint32_t size)
{
    if (to == NODE_THIRD) {
        world.cost.third++;
        world.cost.third_bytes += size;
    } else {
        world.cost.own++;
        world.cost.own_bytes += size;
    }
}

static void count_asked(uint8_t type)
{
    if (type == LLI_WIRE_STATUS)
        world.cost.reported++;
    else if (type == LLI_WIRE_NAK || type == LLI_WIRE_QUERY || type == LLI_WIRE_JOIN)
        world.cost.asked++;
}

static void world_sent(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t size)
{
    const uint8_t type = bytes[0] & 15;

    world.adversary.now = cable.now;
    /* A connection has two sessions: the one observed is the listener's. */
    if (world.keyed != NULL)
        world.keyed->spy(from, to, &bytes, &size);
    if (from == NODE_TRANSMITTER ||
        (from < NODE_NEWCOMER && type != LLI_WIRE_HEARTBEAT && type != LLI_WIRE_DATA))
        adversary_hear(&world.adversary, bytes, size);
    if (counts() && (to == NODE_THIRD || to == NODE_ADVERSARY))
        count_stranger(to, size);
    else if (counts() && from != NODE_TRANSMITTER)
        count_asked(type);
    if (from != NODE_TRANSMITTER || type != LLI_WIRE_DATA)
        return;
    if (world.highest == 0 || (int32_t)(lli_load_u32(bytes + 8) - (uint32_t)world.highest) > 0)
        world.highest =
            lli_seq_extend(world.highest == 0 ? (lli_seq)1 << 32 : world.highest, lli_load_u32(bytes + 8));
    else if (counts())
        world.cost.repaired++;
}

/* -------------------------------------------------------------------------------------- the applications */

static void heard_message(struct ear *ear, const struct llm_message *message)
{
    uint64_t words[2];

    if (message->size != MESSAGE_SIZE ||
        (memcpy(words, message->data, sizeof words), words[0] != MAGIC || words[1] >= MESSAGES_MAX)) {
        world.cost.forged++;
        return;
    }
    /* A second delivery is an error. */
    if (ear->got[words[1]])
        world.cost.forged++;
    else if (ear->expects && counts() && cable.now > world.sent_at[words[1]] + LATE_NS)
        world.cost.late++;
    ear->got[words[1]] = true;
}

static void heard_event(const struct llm_event *event)
{
    if (cable.verbose)
        cable_trace("%s event %s: %s %llu %llu",
                    event->session == world.adversary.heartbeat.session ? "genuine" : "other",
                    llm_event_name(event->kind), llm_reason_name(event->reason),
                    (unsigned long long)event->first, (unsigned long long)event->last);
    /* Reported once: somebody in the group has other keys, or none. */
    if (!counts() || event->kind == LLM_EVENT_KEYS)
        return;
    world.cost.events++;
    if (event->kind == LLM_EVENT_SESSION_END || event->kind == LLM_EVENT_SUSPENDED ||
        event->kind == LLM_EVENT_EXPELLED || event->kind == LLM_EVENT_DISCONNECTED)
        world.cost.ended++;
    if (event->kind == LLM_EVENT_GAP)
        world.cost.named += event->last + 1 - event->first;
}

static void on_message(void *arg, const struct llm_message *message)
{
    heard_message(arg, message);
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    heard_event(event);
}

static void on_call_message(void *arg, struct llm_connection *connection, const struct llm_message *message)
{
    (void)connection;
    heard_message(arg, message);
}

static void on_call_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    heard_event(event);
    if (event->kind != LLM_EVENT_CONNECTED || arg != NULL || world.topic != NULL)
        return;
    world.connection = connection;
    world.transmitter = llm_connection_transmitter(connection);
    cable_must(llm_topic_open(world.transmitter, "t", 0, &world.topic), "a topic");
    world.message_at = cable.now + DISTANCE_NS;
}

/* Only the first caller, which is genuine, has a payload. */
static int on_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                     struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)listener;
    if (caller->payload_size == 0)
        return 7;
    llm_connection_handlers_init(handlers);
    handlers->event = on_call_event;
    return LLM_OK;
}

static void send_number(struct llm_topic *topic, uint64_t number)
{
    uint64_t words[MESSAGE_SIZE / 8] = {MAGIC, number};

    world.sent_at[number] = cable.now;
    (void)llm_send(topic, words, sizeof words, LLM_SEND_NOW);
}

/* A refused message is sent at the next turn. */
static void transmitter_turn(void)
{
    uint64_t words[MESSAGE_SIZE / 8] = {MAGIC, world.sent};

    if (world.topic == NULL || cable.now < world.message_at || cable.now >= world.until ||
        world.sent >= NEWCOMER_FIRST)
        return;
    world.sent_at[world.sent] = cable.now;
    if (llm_send(world.topic, words, sizeof words, LLM_SEND_NOW) == LLM_OK)
        world.sent++;
    world.message_at += DISTANCE_NS;
}

static void newcomer_turn(void)
{
    if (world.newcomer_topic == NULL || cable.now < world.newcomer_at ||
        world.newcomer_sent == NEWCOMER_MESSAGES)
        return;
    send_number(world.newcomer_topic, NEWCOMER_FIRST + world.newcomer_sent++);
    world.newcomer_at = cable.now + 10 * DISTANCE_NS;
}

static struct llm_context *context_of(uint32_t node)
{
    return node == NODE_TRANSMITTER ? world.context
           : node == NODE_NEWCOMER  ? world.newcomer_context
                                    : world.ears[node - 1].context;
}

static lli_ns nap_of(uint32_t node)
{
    const lli_ns at = node == NODE_TRANSMITTER && cable.now < world.until && world.topic != NULL
                          ? world.message_at
                      : node == NODE_NEWCOMER && world.newcomer_sent < NEWCOMER_MESSAGES ? world.newcomer_at
                                                                                         : LLI_NEVER;

    return at == LLI_NEVER ? CABLE_S : at > cable.now ? at - cable.now : CABLE_US;
}

static void world_turn(uint32_t node)
{
    struct llm_context *context = context_of(node);

    if (context == NULL) {
        cable.nodes[node].turn_at = LLI_NEVER;
        return;
    }
    if (node == NODE_TRANSMITTER)
        transmitter_turn();
    else if (node == NODE_NEWCOMER)
        newcomer_turn();
    while (llm_poll(context) > 0)
        continue;
    cable_sleep(node, context, nap_of(node));
}

/* --------------------------------------------------------------------------------------------- begin, end */

static void open_transmitter(void)
{
    struct llm_context_options options;
    struct llm_transmitter_handlers handlers = {.size = sizeof handlers, .event = on_event};
    struct llm_assurance assurance;
    struct llm_cache keep;

    llm_context_options_init(&options);
    world.context = cable_context(NODE_TRANSMITTER, &options);
    cable_must(llm_transmitter_open(world.context, channel_of(CHANNEL, ""), NULL,
                                    world.profile == ADVERSARY_ASSURED ? NULL : &handlers,
                                    &world.transmitter),
               "a transmitter");
    cable_must(llm_topic_open(world.transmitter, "t", 0, &world.topic), "a topic");
    llm_assurance_init(&assurance);
    assurance.receivers = 2;
    if (world.profile == ADVERSARY_ASSURED)
        cable_must(llm_topic_assure(world.topic, &assurance), "assured");
    llm_cache_init(&keep);
    keep.messages = 1000;
    if (world.profile == ADVERSARY_KEPT)
        cable_must(llm_topic_cache(world.topic, &keep), "kept");
    for (int i = 0; i < NAMES; i++) {
        struct llm_topic *topic;
        char name[64];

        (void)snprintf(name, sizeof name, "a.topic.with.a.name.that.takes.its.room.%d", i);
        cable_must(llm_topic_open(world.transmitter, name, 0, &topic), "a topic");
    }
    world.message_at = cable.now + 20 * CABLE_MS;
}

static void open_receiver(uint32_t index)
{
    struct ear *ear = &world.ears[index];
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;
    const char *more = index == 0                        ? ""
                       : world.profile == ADVERSARY_LATE ? "&join=oldest&replay_bytes_per_s=1M"
                       : world.profile == ADVERSARY_KEPT ? "&join=latest"
                                                         : "";

    llm_context_options_init(&options);
    ear->context = cable_context(NODE_RECEIVER + index, &options);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = ear;
    handlers.message = on_message;
    handlers.event = on_event;
    ear->expects = world.profile != ADVERSARY_LATE && world.profile != ADVERSARY_KEPT ? true : index == 0;
    cable_must(llm_receiver_open(ear->context, channel_of(CHANNEL, more), NULL, &handlers, &ear->receiver),
               "a receiver");
}

static void open_call(void)
{
    struct llm_context_options options;
    struct llm_listener_handlers listening;
    struct llm_connection_handlers handlers;
    struct ear *ear = &world.ears[0];
    const struct iovec payload = {(void *)(uintptr_t) "me", 2};

    llm_context_options_init(&options);
    world.context = cable_context(NODE_TRANSMITTER, &options);
    llm_listener_handlers_init(&listening);
    listening.connect = on_caller;
    cable_must(
        llm_listener_open(world.context, channel_of(CALLS_CHANNEL, ""), NULL, &listening, &world.listener),
        "listen");
    llm_context_options_init(&options);
    ear->context = cable_context(NODE_RECEIVER, &options);
    ear->expects = true;
    llm_connection_handlers_init(&handlers);
    handlers.arg = ear;
    handlers.message = on_call_message;
    handlers.event = on_call_event;
    cable_must(llm_connection_open(ear->context, channel_of(CALLS_CHANNEL, ""), NULL, &handlers, &payload,
                                   &ear->connection),
               "connect");
}

static void open_newcomer(void)
{
    struct llm_context_options options;

    llm_context_options_init(&options);
    world.newcomer_context = cable_context(NODE_NEWCOMER, &options);
    cable_must(
        llm_transmitter_open(world.newcomer_context, channel_of(CHANNEL, ""), NULL, NULL, &world.newcomer),
        "another transmitter");
    cable_must(llm_topic_open(world.newcomer, "t", 0, &world.newcomer_topic), "a topic");
    world.newcomer_at = cable.now;
    cable.nodes[NODE_NEWCOMER].turn_at = cable.now;
}

static void world_open(uint64_t seed, enum adversary_profile profile, const struct world_keyed *keyed)
{
    static const struct cable_test test = {.turn = world_turn, .sent = world_sent};

    cable_begin(seed, &test);
    memset(&world, 0, sizeof world);
    world.profile = profile;
    world.keyed = keyed;
    world.adversary.random = seed;
    world.begin = world.until = LLI_NEVER;
    world.message_at = LLI_NEVER;
    for (uint32_t i = 0; i < NODES; i++)
        (void)cable_node_add();
    cable.nodes[NODE_ADVERSARY].dead = cable.nodes[NODE_THIRD].dead = true;
    if (profile == ADVERSARY_CALLS) {
        open_call();
    } else {
        open_transmitter();
        open_receiver(0);
        if (profile != ADVERSARY_LATE && profile != ADVERSARY_KEPT)
            open_receiver(1);
    }
    if (profile == ADVERSARY_LOSSY)
        cable.nodes[NODE_RECEIVER + 1].loss = 10000;
    cable_run(cable.now + QUIET_NS);
    if (!adversary_knows(&world.adversary))
        cable_fail("nothing was heard");
    world.begin = cable.now;
    world.cost = (struct adversary_cost){.operations = 0};
    if (profile == ADVERSARY_LATE || profile == ADVERSARY_KEPT) {
        open_receiver(1);
        cable.nodes[NODE_RECEIVER + 1].turn_at = cable.now;
        /* The receiver has sent its request, and it was not answered yet. */
        while (world.adversary.ask.receiver == 0)
            cable_run(cable.now + CABLE_US);
    }
}

static void world_close(void)
{
    cable_end();
    for (uint32_t i = 0; i < RECEIVERS; i++) {
        cable_as(NODE_RECEIVER + i);
        if (world.ears[i].connection != NULL)
            (void)llm_connection_close(&world.ears[i].connection);
        (void)llm_context_close(&world.ears[i].context);
    }
    cable_as(NODE_NEWCOMER);
    (void)llm_context_close(&world.newcomer_context);
    cable_as(NODE_TRANSMITTER);
    (void)llm_context_close(&world.context);
    cable_fini();
}

/* ----------------------------------------------------------------------------------------- the adversary */

static void world_forge(const struct adversary_kind *kind)
{
    struct adversary *adversary = &world.adversary;
    const uint32_t from = kind->announces == ADVERSARY_SPOOFED ? NODE_THIRD : NODE_ADVERSARY;
    const uint32_t announced = kind->announces == ADVERSARY_OWN ? NODE_ADVERSARY : NODE_THIRD;
    struct adversary_packet packet = {.size = 0};
    uint32_t to = CABLE_GROUP;

    adversary->now = cable.now;
    adversary->announced = (struct lli_wire_address){.size = 1, .bytes = {(uint8_t)(1 + announced)}};
    kind->forge(adversary, &packet);
    adversary->made++;
    if (packet.to == ADVERSARY_TO_TRANSMITTER)
        to = NODE_TRANSMITTER;
    else if (packet.to == ADVERSARY_TO_RECEIVER)
        to = NODE_RECEIVER + (world.profile == ADVERSARY_CALLS ? 0 : packet.member % RECEIVERS);
    cable_inject(from, to, packet.bytes, (uint32_t)packet.size);
    world.forged_bytes +=
        packet.size * (to == CABLE_GROUP && world.profile != ADVERSARY_CALLS ? RECEIVERS : 1);
}

/* Runs until a time, or until the limit of operations. */
static void world_pass(lli_ns until)
{
    while (cable.now < until && world.cost.operations < OPERATIONS_MAX)
        cable_run(lli_min(until, cable.now + STEP_NS));
}

/* Counts the messages from first to end - 1 that were not delivered, over all receivers. */
static uint64_t world_lost(uint32_t first, uint32_t end)
{
    uint64_t lost = 0;

    for (uint32_t i = 0; i < RECEIVERS; i++)
        for (uint32_t number = first; number < end && world.ears[i].context != NULL; number++)
            lost += !world.ears[i].got[number];
    return lost;
}

void world_run(const struct adversary_kind *kind, uint64_t seed, bool quiet, struct world_result *result)
{
    uint32_t first;

    world_open(seed, kind->profile, NULL);
    first = kind->profile == ADVERSARY_LATE ? 0 : world.sent;
    for (uint32_t i = 0; i < kind->count; i++) {
        if (!quiet)
            world_forge(kind);
        world_pass(cable.now + kind->gap_us * CABLE_US);
    }
    if (kind->profile == ADVERSARY_NEWCOMER)
        open_newcomer();
    world.until = cable.now + AFTER_NS;
    world_pass(world.until + SETTLE_NS);
    *result = (struct world_result){
        .cost = world.cost, .messages = world.sent - first, .forged_bytes = world.forged_bytes};
    result->cost.lost = world_lost(first, world.sent);
    if (kind->profile == ADVERSARY_NEWCOMER)
        result->cost.lost += world_lost(NEWCOMER_FIRST, MESSAGES_MAX);
    world_close();
}

/* ------------------------------------------------------------------------------------------------- storm */

bool world_storm(uint64_t seed, uint64_t packets, enum adversary_profile profile)
{
    uint64_t lost, messages, strangers;
    uint32_t first;

    world_open(seed, profile, NULL);
    for (uint64_t i = 0; i < packets;) {
        const struct adversary_kind *kind =
            &adversary_kinds[adversary_below(&world.adversary, (uint64_t)adversary_kinds_count)];

        if (!adversary_is_survived(kind))
            continue;
        world_forge(kind);
        i++;
        if (i % 4 == 0)
            cable_run(cable.now + 50 * CABLE_US);
    }
    /* Count messages sent after the storm only. */
    strangers = world.cost.third;
    cable_run(cable.now + STORM_AFTER_NS);
    first = world.sent;
    world.until = cable.now + 1000 * CABLE_MS;
    cable_run(world.until + SETTLE_NS);
    lost = world_lost(first, world.sent);
    messages = world.sent - first;
    (void)printf(
        "storm %llu: %llu packets; %llu packets to a third party; behind it %llu of %llu messages lost\n",
        (unsigned long long)seed, (unsigned long long)packets, (unsigned long long)strangers,
        (unsigned long long)lost, (unsigned long long)messages);
    world_close();
    return lost == 0 && messages > 1000 && strangers <= packets;
}

/* ------------------------------------------------------------------------------------------------- keyed */

static void keyed_count(const struct llm_context *context, struct world_traffic *traffic)
{
    static struct llm_counter counters[WORLD_COUNTERS_MAX];
    const int count = context == NULL ? 0 : llm_context_counters(context, counters, WORLD_COUNTERS_MAX);

    for (int i = 0; i < count && traffic->counters_count < WORLD_COUNTERS_MAX; i++)
        traffic->counters[traffic->counters_count++] =
            (struct world_counter){counters[i].name, counters[i].value};
}

void world_run_keyed(uint64_t seed, enum adversary_profile profile, const struct world_keyed *keyed,
                     uint64_t packets, struct world_traffic *traffic)
{
    uint32_t first;

    world_open(seed, profile, keyed);
    first = profile == ADVERSARY_LATE ? 0 : world.sent;
    for (uint64_t i = 0; i < packets; i++) {
        keyed->forge(&world.adversary);
        if (i % KEYED_TOGETHER == 0)
            cable_run(cable.now + 50 * CABLE_US);
    }
    world.until = cable.now + AFTER_NS;
    cable_run(world.until + SETTLE_NS);
    memset(traffic, 0, sizeof *traffic);
    traffic->cost = world.cost;
    traffic->messages = world.sent - first;
    traffic->cost.lost = world_lost(first, world.sent);
    keyed_count(world.context, traffic);
    for (uint32_t i = 0; i < RECEIVERS; i++)
        keyed_count(world.ears[i].context, traffic);
    world_close();
}
