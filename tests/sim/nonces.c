/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histories of channels with keys: two transmitters, two receivers that join late and fetch, a listener and a caller,
 * which are restarted, lose packets, and have their calendars set; epochs begin, end, overlap, and are withdrawn and
 * given back; numbers of packets pass the ends of blocks. No key and nonce may ever be used for two packets:
 *
 *   sim_nonces [--first N] [--seeds N]   this many seeds from the first one on
 *   sim_nonces --seed N -v               one again, printing every event
 */
#define _GNU_SOURCE
#include "nonces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cable.h"
#include "key_place.h"

enum { TRANSMITTERS = 2, RECEIVERS = 2, LISTENER = 4, CALLER = 5, NODES = 6, EPOCHS = 4, ACTIONS = 24 };

#define OPTIONS                                                                                             \
    "history_bytes=64K&history_packets=64&window_packets=64&reorder_bytes=64K&receivers_max=8&topics_max=4" \
    "&sessions_max=4&connections_max=4&linger_ns=0&keys="
#define GROUP CABLE_SCHEME "://nonces:1?join_else=now&" OPTIONS
#define CALLS CABLE_SCHEME "://calls:2?" OPTIONS

struct member {
    struct llm_context *context;
    struct llm_transmitter *transmitter; /* also of a connection */
    struct llm_topic *topic;
    struct llm_receiver *receiver;
    struct llm_listener *listener;
    struct llm_connection *connection;
    lli_ns send_at;
};

static struct {
    struct member members[NODES];
    bool withdrawn[EPOCHS];
    uint32_t mode;
    uint64_t number;
} world;

static struct {
    uint64_t packets, again, keys, messages;
} total;

static char path[64];

/* --------------------------------------------------------------------------------------------- key file */

static void text_time(char *text, size_t size, uint32_t second)
{
    (void)snprintf(text, size, "2026-01-01T%02u:%02u:%02uZ", second / 3600, second / 60 % 60, second % 60);
}

/* Epochs begin every two seconds and overlap; the last one does not end. */
static void keys_write(void)
{
    static const char *const suites[] = {"aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "aes-128-gcm"};
    char text[600] = "", from[32], until[32];

    for (uint32_t i = 0; i < EPOCHS; i++) {
        if (world.withdrawn[i])
            continue;
        text_time(from, sizeof from, 2 * i);
        text_time(until, sizeof until, i == EPOCHS - 1 ? 24 * 3600 - 1 : 2 * i + 3);
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%u %s %s %s %s *\n", i + 1, from,
                       until, suites[i], i % 2 == 0 ? KEY_A : KEY_B);
    }
    key_file_write(path, text);
}

/* --------------------------------------------------------------------------------------- applications */

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    (void)message;
    total.messages++;
}

static void on_call_message(void *arg, struct llm_connection *connection, const struct llm_message *message)
{
    (void)arg;
    (void)connection;
    (void)message;
    total.messages++;
}

static void on_call_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct member *member = arg;

    if (event->kind != LLM_EVENT_CONNECTED)
        return;
    member->connection = connection;
    member->transmitter = llm_connection_transmitter(connection);
    if (llm_topic_open(member->transmitter, "t", 0, &member->topic) != LLM_OK)
        member->topic = NULL;
}

static int on_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                     struct llm_connection_handlers *handlers)
{
    (void)listener;
    (void)caller;
    llm_connection_handlers_init(handlers);
    handlers->arg = arg;
    handlers->event = on_call_event;
    handlers->message = on_call_message;
    return LLM_OK;
}

static const char *channel_of(const char *channel, const char *more)
{
    static const char *const modes[] = {"", "&keys_mode=authenticate"};
    static char text[512];

    (void)snprintf(text, sizeof text, "%s%s%s%s", channel, path, modes[world.mode], more);
    return text;
}

static void open_group(uint32_t node, struct member *member)
{
    static const char *const joins[] = {"&join=oldest", "&join=now", "&join=latest"};
    struct llm_receiver_handlers handlers;
    struct llm_cache cache;

    if (node >= TRANSMITTERS) {
        llm_receiver_handlers_init(&handlers);
        handlers.message = on_message;
        (void)llm_receiver_open(member->context, channel_of(GROUP, joins[cable_below(3)]), NULL, &handlers,
                                &member->receiver);
        return;
    }
    if (llm_transmitter_open(member->context, channel_of(GROUP, ""), NULL, NULL, &member->transmitter) !=
        LLM_OK)
        return;
    cable_must(llm_topic_open(member->transmitter, "t", 0, &member->topic), "a topic");
    llm_cache_init(&cache);
    if (cable_chance(50))
        cable_must(llm_topic_cache(member->topic, &cache), "a cache");
}

static void open_call(uint32_t node, struct member *member)
{
    struct llm_listener_handlers listening;
    struct llm_connection_handlers handlers;

    if (node == LISTENER) {
        llm_listener_handlers_init(&listening);
        listening.arg = member;
        listening.connect = on_caller;
        (void)llm_listener_open(member->context, channel_of(CALLS, ""), NULL, &listening, &member->listener);
        return;
    }
    llm_connection_handlers_init(&handlers);
    handlers.arg = member;
    handlers.event = on_call_event;
    handlers.message = on_call_message;
    (void)llm_connection_open(member->context, channel_of(CALLS, ""), NULL, &handlers, NULL,
                              &member->connection);
}

/* Opens a member; without a valid epoch it stays without a channel. */
static void member_open(uint32_t node)
{
    struct member *member = &world.members[node];
    struct llm_context_options options;

    llm_context_options_init(&options);
    cable.wraps = cable_chance(80);
    member->context = cable_context(node, &options);
    if (node < LISTENER)
        open_group(node, member);
    else
        open_call(node, member);
    cable.wraps = false;
    cable.nodes[node].turn_at = cable.now;
}

static void member_close(uint32_t node)
{
    struct member *member = &world.members[node];

    cable_as(node);
    (void)cable_blocks(node);
    (void)llm_context_close(&member->context);
    cable_blocks_no_more();
    *member = (struct member){.context = NULL};
}

static void member_send(struct member *member)
{
    static uint8_t data[3000];
    const uint32_t count = 1 + (uint32_t)cable_below(cable_chance(5) ? 100 : 4);

    for (uint32_t i = 0; i < count; i++) {
        const size_t size = 8 + (size_t)cable_below(cable_chance(10) ? 2500 : 90);

        memcpy(data, &world.number, sizeof world.number);
        world.number++;
        (void)llm_send(member->topic, data, size, cable_chance(50) ? LLM_SEND_NOW : 0);
    }
    member->send_at = cable.now + cable_between(1, 100) * CABLE_MS;
}

static void world_turn(uint32_t node)
{
    struct member *member = &world.members[node];

    if (member->context == NULL) {
        cable.nodes[node].turn_at = LLI_NEVER;
        return;
    }
    if (member->topic != NULL && cable.now >= member->send_at)
        member_send(member);
    while (llm_poll(member->context) > 0)
        continue;
    cable_sleep(node, member->context,
                member->topic == NULL ? CABLE_S : member->send_at - lli_min(member->send_at, cable.now));
}

/* -------------------------------------------------------------------------------------------- histories */

static void restart(uint32_t node)
{
    member_close(node);
    member_open(node);
}

/* Calendars go on and back: by seconds, by the time in which keys of control packets change, and by an hour. */
static void set_calendar(uint32_t node)
{
    static const int64_t steps[] = {0, 3, -3, 30, -30, 256, 3600, -3600};

    cable.nodes[node].skew = steps[cable_below(8)] * (int64_t)CABLE_S;
}

static void act(void)
{
    const uint32_t node = (uint32_t)cable_below(NODES);

    switch (cable_below(6)) {
    case 0:
        restart(node);
        break;
    case 1:
        set_calendar(node);
        break;
    case 2:
        world.withdrawn[cable_below(EPOCHS - 1)] ^= true;
        keys_write();
        break;
    case 3:
        cable.nodes[node].cut_until = cable.now + cable_below(500) * CABLE_MS;
        break;
    case 4:
        if (world.members[node].connection != NULL) {
            restart(node);
        }
        break;
    default:
        cable.nodes[node].loss = (uint32_t)cable_below(200000);
        break;
    }
}

static void history_run(uint64_t seed)
{
    static const struct cable_test test = {.turn = world_turn};

    cable_begin(seed, &test);
    nonces_begin();
    memset(&world, 0, sizeof world);
    world.mode = (uint32_t)cable_below(2);
    keys_write();
    for (uint32_t i = 0; i < NODES; i++) {
        const uint32_t node = cable_node_add();

        cable.nodes[node].loss = cable_chance(50) ? (uint32_t)cable_below(100000) : 0;
        cable.nodes[node].duplicate = cable_chance(30) ? 10000 : 0;
        cable.nodes[node].delay_more = cable_chance(30) ? CABLE_MS : 0;
    }
    for (uint32_t i = 0; i < NODES; i++)
        member_open(i);
    for (int i = 0; i < ACTIONS; i++) {
        cable_run(cable.now + cable_below(600) * CABLE_MS);
        act();
    }
    cable_end();
    for (uint32_t i = 0; i < NODES; i++) {
        cable_as(i);
        (void)llm_context_close(&world.members[i].context);
    }
    cable_fini();
    total.packets += nonces_seen()->sealed;
    total.again += nonces_seen()->again;
    total.keys += nonces_seen()->keys;
    if (nonces_seen()->misused > 0)
        cable_fail("%llu of %llu packets have the key and nonce of another one",
                   (unsigned long long)nonces_seen()->misused, (unsigned long long)nonces_seen()->sealed);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, seeds = 30;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            cable.verbose = true;
        else if (i + 1 < argc && strcmp(argv[i], "--first") == 0)
            first = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0)
            seeds = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
            first = strtoull(argv[++i], NULL, 10), seeds = 1;
        else
            return 2;
    }
    (void)snprintf(path, sizeof path, "/tmp/llm-nonces-%d.keys", (int)getpid());
    for (uint64_t i = 0; i < seeds; i++)
        history_run(first + i);
    (void)unlink(path);
    (void)printf(
        "%llu seeds from %llu passed: %llu packets with %llu keys, %llu protected again, %llu messages\n",
        (unsigned long long)seeds, (unsigned long long)first, (unsigned long long)total.packets,
        (unsigned long long)total.keys, (unsigned long long)total.again, (unsigned long long)total.messages);
    return total.messages == 0 || total.keys < seeds;
}
