/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and replies over connections (docs/protocol.md section 13.5): clients and servers that send
 * requests to each other, on networks that lose, duplicate and reorder, with deadlines, replies that come
 * late, twice or never, nodes that die, and connections closed in the middle.
 *
 * - Each request ends once: with its reply, UNANSWERED at its deadline, or the reason for which the
 *   connection ended.
 * - Its reply is the one that the other side gave, before its deadline.
 * - The other side gets each request at most once, in order, without omissions.
 * - 1,024 requests may wait, and an entry is free as soon as its request ended. No reply comes after the
 *   connection is over, or was closed.
 * - A timely reply arrives, unless a side died, left, or could not be reached for long.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cable.h"
#include "core/wire/wire.h"

enum {
    REQUESTS_NODES_MAX = 6,
    REQUESTS_LINKS_MAX = 24, /* connections in a history */
    REQUESTS_DATA_MAX = 3000,
    REQUESTS_HEAD = 16,
    REQUESTS_OWED_MAX = 4096,
};

#define REQUESTS_OPTIONS                                                                               \
    "?history_bytes=256K&history_packets=256&window_packets=128&flow=window&flow_quorum_percent=100"   \
    "&flow_window_packets=64&reorder_bytes=256K&message_bytes_max=64K&topics_max=8&receivers_max=1"    \
    "&sessions_max=1&session_timeout_ns=2000000000&silence_ns=500000000&connect_timeout_ns=1000000000" \
    "&linger_ns=200000000"

#define REQUESTS_PACE (500 * CABLE_US)
#define REQUESTS_TIMEOUT (2000 * CABLE_MS)

struct end;

struct ask {
    struct end *end;
    uint64_t number;
    lli_ns until; /* deadline, by the node's clock */
    bool over;
    bool seen;         /* received by the other side ... */
    bool replied;      /* ... which has replied, */
    lli_ns replied_at; /* at this time */
};

/* A delayed reply. */
struct owed {
    uint64_t id;
    uint64_t number;
    lli_ns at;
};

/* One side of a connection. */
struct end {
    uint32_t node;
    struct end *other;
    struct llm_connection *connection;
    bool open, over, closed, closing;
    enum llm_reason reason; /* reason of the end, according to its requests; NONE: none reported it */
    struct ask **asks;
    uint64_t asks_count, asks_room;
    uint64_t waiting;
    lli_ns plans_at; /* no request or close before this time */
    uint64_t seen;   /* requests received from the other side */
    struct owed owed[REQUESTS_OWED_MAX];
    uint32_t owed_count;
};

static struct {
    uint32_t servers, clients;
    struct llm_context *contexts[REQUESTS_NODES_MAX];
    lli_ns polled_at[REQUESTS_NODES_MAX]; /* by the node's clock: time of the current or latest poll ... */
    lli_ns before_at[REQUESTS_NODES_MAX]; /* ... and of the one before */
    bool closes[REQUESTS_NODES_MAX];      /* it is in a call that closes a connection */
    struct llm_listener *listeners[REQUESTS_NODES_MAX];
    struct end ends[2 * REQUESTS_LINKS_MAX];
    uint32_t links;
    lli_ns until; /* no request after this time */
    lli_ns nap;
    uint32_t ask_percent, burst, deadline_percent, at_once_percent, never_percent, close_permille;
    lli_ns think_most;     /* maximum delay of a reply */
    uint32_t away_percent; /* percentage of turns after which a node is away */
    bool hard;             /* a side died, or could not be reached for long */
} talk;

static struct {
    uint64_t asked, replied, unanswered, over, late, full, closed, links;
} seen;

/* ---------------------------------------------------------------------------------------------- the bytes */

static uint64_t end_tag(const struct end *end)
{
    return cable.seed << 16 | (uint64_t)(end - talk.ends);
}

static uint32_t size_of(uint64_t number, uint64_t salt)
{
    uint64_t random = number * 977 + salt;
    const uint32_t most = lli_random_below(&random, 4) == 0 ? REQUESTS_DATA_MAX - REQUESTS_HEAD : 60;

    return REQUESTS_HEAD + (uint32_t)lli_random_below(&random, most);
}

/* Fills a request or reply with the identity of its sender, the number, and unique bytes. */
static uint32_t data_fill(uint8_t *data, const struct end *asker, uint64_t number, uint64_t salt)
{
    const uint32_t size = size_of(number, salt);

    lli_store_u64(data, end_tag(asker));
    lli_store_u64(data + 8, number);
    for (uint32_t i = REQUESTS_HEAD; i < size; i++)
        data[i] = (uint8_t)(number * 31 + salt + i);
    return size;
}

static bool data_is(const void *data, size_t size, const struct end *asker, uint64_t number, uint64_t salt)
{
    uint8_t expected[REQUESTS_DATA_MAX];

    return size == data_fill(expected, asker, number, salt) && memcmp(data, expected, size) == 0;
}

enum { REQUESTS_ASKED = 1, REQUESTS_REPLIED = 2 };

/* ------------------------------------------------------------------------------------------------- asking */

static bool end_ask(struct end *end);

static void expect_reply(struct ask *ask, const void *data, size_t size)
{
    const struct end *end = ask->end;

    if (!ask->replied || !data_is(data, size, end, ask->number, REQUESTS_REPLIED))
        cable_fail("node %u: the reply to request %llu is not what was replied", end->node,
                   (unsigned long long)ask->number);
    /* A node that was away gets late packets too, even about requests that are overdue. */
    if (cable_node_now(end->node) > ask->until && talk.before_at[end->node] >= ask->until && !end->closing)
        cable_fail("node %u: the reply to request %llu comes %llu ns after its deadline", end->node,
                   (unsigned long long)ask->number,
                   (unsigned long long)(cable_node_now(end->node) - ask->until));
    seen.replied++;
}

static void expect_unanswered(const struct ask *ask)
{
    const struct end *end = ask->end;

    if (cable_node_now(end->node) < ask->until)
        cable_fail("node %u: request %llu is unanswered before its deadline", end->node,
                   (unsigned long long)ask->number);
    if (talk.before_at[end->node] >= ask->until && !end->closing)
        cable_fail("node %u: that request %llu is unanswered is told %llu ns after its deadline", end->node,
                   (unsigned long long)ask->number,
                   (unsigned long long)(talk.before_at[end->node] - ask->until));
    seen.unanswered++;
}

static void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    struct ask *ask = arg;
    struct end *end = ask->end;

    if (ask->over || end->over || end->closed)
        cable_fail("node %u: request %llu ends again, or after its connection", end->node,
                   (unsigned long long)ask->number);
    ask->over = true;
    end->waiting--;
    if (reason == LLM_REASON_NONE) {
        expect_reply(ask, data, size);
        /* During a close the clock advances within calls, so deadlines are not known exactly. */
        if (!talk.closes[end->node] && cable_chance(10))
            (void)end_ask(end);
    } else if (reason == LLM_REASON_UNANSWERED) {
        expect_unanswered(ask);
    } else {
        if (end->reason != LLM_REASON_NONE && end->reason != reason)
            cable_fail("node %u: requests end for reasons %d and %d", end->node, (int)end->reason,
                       (int)reason);
        end->reason = reason;
        seen.over++;
    }
}

/* Returns true if its connection may be over without a report yet. */
static bool end_may_be_over(const struct end *end)
{
    return end->over || end->closing || end->reason != LLM_REASON_NONE || end->other->closed ||
           end->other->closing || talk.hard;
}

/* Sends a request. False: not now. */
static bool end_ask(struct end *end)
{
    uint8_t data[REQUESTS_DATA_MAX];
    const uint64_t number = end->asks_count;
    const struct ask *before = number >= LLM_REQUESTS_MAX ? end->asks[number - LLM_REQUESTS_MAX] : NULL;
    const uint64_t timeout =
        cable_chance(talk.deadline_percent) ? cable_between(1, 200) * CABLE_MS : UINT64_MAX;
    struct ask *ask = sim_memory(sizeof *ask);
    int error;

    *ask = (struct ask){.end = end,
                        .number = number,
                        .until = timeout == UINT64_MAX ? LLI_NEVER : cable_node_now(end->node) + timeout};
    error = llm_connection_request(end->connection, data, data_fill(data, end, number, REQUESTS_ASKED),
                                   timeout, on_reply, ask);
    if (error != LLM_OK) {
        free(ask);
        if (error != LLM_EAGAIN && (error != LLM_ESTATE || !end_may_be_over(end)))
            cable_fail("node %u: a request is refused: %s", end->node, llm_error_text(error));
        seen.full += error == LLM_EAGAIN && before != NULL && !before->over;
        return false;
    }
    if ((before != NULL && !before->over) || end->waiting == LLM_REQUESTS_MAX || end->over || end->closed)
        cable_fail("node %u: request %llu is taken though there is no place for it", end->node,
                   (unsigned long long)number);
    if (end->asks_count == end->asks_room) {
        end->asks_room = end->asks_room * 2 + 64;
        end->asks = sim_memory_grow(end->asks, end->asks_room * sizeof(struct ask *));
    }
    end->asks[end->asks_count++] = ask;
    end->waiting++;
    seen.asked++;
    return true;
}

/* ----------------------------------------------------------------------------------------------- replying */

/* Replies. False: retry later. */
static bool end_reply(struct end *end, uint64_t id, uint64_t number)
{
    uint8_t data[REQUESTS_DATA_MAX];
    struct ask *ask = end->other->asks[number];
    const bool before = ask->replied;
    int error;

    /* The reply may arrive before the call returns. */
    ask->replied = true;
    error = llm_connection_reply(end->connection, id, data,
                                 data_fill(data, end->other, number, REQUESTS_REPLIED));
    if (error == LLM_OK) {
        seen.late += ask->over && !before;
        if (!before)
            ask->replied_at = cable.now;
        return true;
    }
    ask->replied = before;
    if (error != LLM_EAGAIN && error != LLM_ESTATE)
        cable_fail("node %u: a reply is refused: %s", end->node, llm_error_text(error));
    return error == LLM_ESTATE;
}

static void end_owe(struct end *end, uint64_t id, uint64_t number, lli_ns later)
{
    if (end->owed_count < REQUESTS_OWED_MAX)
        end->owed[end->owed_count++] = (struct owed){id, number, cable.now + later};
}

static void on_request(void *arg, struct llm_connection *connection, const struct llm_request *asked)
{
    struct end *end = arg;
    struct end *other = end->other;
    const uint64_t number = end->seen++;

    if (connection != end->connection || end->over || end->closed)
        cable_fail("node %u: a request after the end of its connection", end->node);
    if (number >= other->asks_count || !data_is(asked->data, asked->size, other, number, REQUESTS_ASKED))
        cable_fail("node %u: request %llu of %llu is not what comes", end->node, (unsigned long long)number,
                   (unsigned long long)other->asks_count);
    other->asks[number]->seen = true;
    if (cable_chance(talk.never_percent))
        return;
    if (!cable_chance(talk.at_once_percent) || !end_reply(end, asked->id, number))
        end_owe(end, asked->id, number, cable_below(talk.think_most));
    /* A second reply, which must be ignored. */
    if (cable_chance(3))
        end_owe(end, asked->id, number, cable_below(talk.think_most));
}

static void end_settle(struct end *end)
{
    for (uint32_t i = 0; i < end->owed_count;) {
        if (end->owed[i].at > cable.now) {
            i++;
            continue;
        }
        if (!end_reply(end, end->owed[i].id, end->owed[i].number))
            return;
        end->owed[i] = end->owed[--end->owed_count];
    }
}

/* -------------------------------------------------------------------------------------------- connections */

static void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct end *end = arg;

    if (end->closed || end->over)
        cable_fail("node %u: event %s after the end", end->node, llm_event_name(event->kind));
    if (event->kind == LLM_EVENT_CONNECTED) {
        end->open = true;
        end->connection = connection;
        return;
    }
    if (event->kind == LLM_EVENT_TOPIC_NEW)
        cable_fail("node %u: the topics of requests are not the application's", end->node);
    if (event->kind != LLM_EVENT_DISCONNECTED)
        return;
    cable_trace("node %u: disconnected, reason %d, %llu wait", end->node, (int)event->reason,
                (unsigned long long)end->waiting);
    if (end->waiting > 0 || (end->reason != LLM_REASON_NONE && end->reason != event->reason))
        cable_fail("node %u: %llu requests wait, others ended for reason %d, when it is over for reason %d",
                   end->node, (unsigned long long)end->waiting, (int)end->reason, (int)event->reason);
    if (!talk.hard && end->open && !end->other->closed && !end->other->closing)
        cable_fail("node %u: a connection is over that nobody closed, reason %d", end->node,
                   (int)event->reason);
    end->over = true;
    if (!cable_chance(50))
        return;
    (void)llm_connection_close(&end->connection);
    end->closed = true;
}

static void on_message(void *arg, struct llm_connection *connection, const struct llm_message *message)
{
    (void)connection;
    cable_fail("node %u: a message on topic %s", ((struct end *)arg)->node, message->topic);
}

static struct llm_connection_handlers handlers_of(struct end *end)
{
    struct llm_connection_handlers handlers;

    llm_connection_handlers_init(&handlers);
    handlers.arg = end;
    handlers.event = on_event;
    handlers.message = on_message;
    handlers.request = on_request;
    return handlers;
}

static int on_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                     struct llm_connection_handlers *handlers)
{
    uint32_t link;

    (void)arg;
    (void)listener;
    memcpy(&link, caller->payload, sizeof link);
    if (cable_chance(10))
        return 7;
    *handlers = handlers_of(&talk.ends[2 * link + 1]);
    return LLM_OK;
}

static void client_connect(uint32_t node)
{
    const uint32_t link = talk.links, server = (uint32_t)cable_below(talk.servers);
    struct end *end = &talk.ends[2 * link], *other = end + 1;
    const struct iovec payload = {(void *)(uintptr_t)&link, sizeof link};
    const struct llm_connection_handlers handlers = handlers_of(end);
    char channel[512];

    if (link == REQUESTS_LINKS_MAX)
        return;
    talk.links++;
    *end = (struct end){.node = node, .other = other};
    *other = (struct end){.node = server, .other = end};
    (void)snprintf(channel, sizeof channel, CABLE_SCHEME "://server:%u" REQUESTS_OPTIONS, server + 1);
    cable_must(llm_connection_open(talk.contexts[node], channel, NULL, &handlers, &payload, &end->connection),
               "connect");
    seen.links++;
}

static void end_close(struct end *end)
{
    /* Only one node at a time can block here: the others close later. */
    if (!cable_blocks(end->node))
        return;
    cable_trace("node %u closes, %llu wait", end->node, (unsigned long long)end->waiting);
    end->closing = talk.closes[end->node] = true;
    (void)llm_connection_close(&end->connection);
    talk.closes[end->node] = false;
    cable_blocks_no_more();
    if (end->waiting > 0)
        cable_fail("node %u: %llu requests wait after it closed", end->node,
                   (unsigned long long)end->waiting);
    end->closed = true;
    seen.closed++;
}

/* -------------------------------------------------------------------------------------------------- turns */

static void node_poll(uint32_t node)
{
    int delivered;

    do {
        talk.before_at[node] = talk.polled_at[node];
        talk.polled_at[node] = cable_node_now(node);
        delivered = llm_poll(talk.contexts[node]);
        cable_must(delivered, "poll");
    } while (delivered > 0);
}

static bool end_is_up(const struct end *end)
{
    return end->open && !end->over && !end->closed;
}

static void end_turn(struct end *end)
{
    if (end->over && !end->closed)
        end_close(end);
    if (!end_is_up(end))
        return;
    end_settle(end);
    if (cable.now >= talk.until || cable.now < end->plans_at)
        return;
    end->plans_at = cable.now + cable_between(1, 2 * REQUESTS_PACE);
    for (uint64_t i = cable_chance(talk.ask_percent) ? 1 + cable_below(talk.burst) : 0; i > 0; i--)
        if (!end_ask(end))
            break;
    if (cable_below(1000) < talk.close_permille)
        end_close(end);
}

static void node_turn(uint32_t node)
{
    bool connected = false;

    node_poll(node);
    for (uint32_t i = 0; i < 2 * talk.links; i++) {
        if (talk.ends[i].node != node)
            continue;
        end_turn(&talk.ends[i]);
        connected |= !talk.ends[i].closed;
    }
    if (node >= talk.servers && !connected && cable.now < talk.until)
        client_connect(node);
    node_poll(node);
    cable_sleep(node, talk.contexts[node], talk.nap);
    if (!cable_chance(talk.away_percent))
        return;
    cable.nodes[node].asleep = false;
    cable.nodes[node].turn_at = cable.now + cable_below(30 * CABLE_MS);
}

/* -------------------------------------------------------------------------------------------- the history */

static void node_open(uint32_t node)
{
    struct llm_context_options options;
    struct llm_listener_handlers handlers;
    char channel[512];

    llm_context_options_init(&options);
    talk.contexts[node] = cable_context(cable_node_add(), &options);
    if (node >= talk.servers)
        return;
    llm_listener_handlers_init(&handlers);
    handlers.connect = on_caller;
    (void)snprintf(channel, sizeof channel, CABLE_SCHEME "://server:%u" REQUESTS_OPTIONS, node + 1);
    cable_must(llm_listener_open(talk.contexts[node], channel, NULL, &handlers, &talk.listeners[node]),
               "listen");
}

static void talk_draw(void)
{
    talk.servers = (uint32_t)cable_between(1, 2);
    talk.clients = (uint32_t)cable_between(1, 4);
    talk.until = cable.now + cable_between(100, 400) * CABLE_MS;
    talk.nap = cable_between(200, 3000) * CABLE_US;
    talk.ask_percent = (uint32_t)cable_between(1, 40);
    talk.burst = (uint32_t)(cable_chance(15) ? 100 : cable_between(1, 5));
    talk.deadline_percent = (uint32_t)(cable_chance(30) ? 0 : cable_below(101));
    talk.at_once_percent = (uint32_t)cable_below(101);
    talk.never_percent = (uint32_t)(cable_chance(30) ? 0 : cable_below(cable_chance(20) ? 101 : 20));
    talk.think_most = 1 + cable_below(cable_chance(50) ? 5 * CABLE_MS : 400 * CABLE_MS);
    talk.close_permille = (uint32_t)(cable_chance(50) ? 0 : cable_below(10));
    talk.away_percent = (uint32_t)(cable_chance(50) ? 0 : cable_below(5));
}

static void network_draw(void)
{
    const uint32_t loss = cable_chance(40) ? 0 : (uint32_t)cable_below(150000);
    const uint32_t duplicate = cable_chance(50) ? 0 : (uint32_t)cable_below(100000);

    for (uint32_t i = 0; i < cable.nodes_count; i++) {
        struct cable_node *node = &cable.nodes[i];

        node->loss = loss;
        node->duplicate = duplicate;
        node->delay = cable_between(5, 200) * CABLE_US;
        node->delay_more = cable_chance(50) ? 0 : cable_below(200 * CABLE_US);
        node->reorder = cable_chance(50) ? 0 : (uint32_t)cable_below(100000);
    }
}

/* In the middle, a side may die, or be unreachable for a while. */
static void talk_disturb(void)
{
    const uint32_t node = (uint32_t)cable_below(cable.nodes_count);
    const uint64_t what = cable_below(4);

    cable_run(cable.now + cable_below(talk.until - cable.now));
    talk.hard = what == 0 || what == 1;
    if (what == 0)
        cable.nodes[node].dead = true;
    if (what == 1)
        cable.nodes[node].cut_until = cable.now + cable_below(5 * CABLE_S);
    if (what == 2)
        cable.nodes[node].cut_until = cable.now + cable_below(500 * CABLE_MS);
    cable_trace("node %u: disturbed in way %u", node, (unsigned)what);
}

/* Checks the end: all requests, and their replies, arrived long ago. */
static void end_check(const struct end *end)
{
    for (uint64_t i = 0; i < end->asks_count; i++) {
        const struct ask *ask = end->asks[i];

        if (ask->over)
            continue;
        if (!end_is_up(end) && !cable.nodes[end->node].dead)
            cable_fail("node %u: request %llu waits after the end", end->node, (unsigned long long)i);
        if (end_is_up(end) && end_is_up(end->other) && !talk.hard && (!ask->seen || ask->replied))
            cable_fail("node %u: request %llu waits, which the other side %s", end->node,
                       (unsigned long long)i, ask->seen ? "replied to" : "never saw");
        if (!cable.nodes[end->node].dead && ask->until <= cable_node_now(end->node))
            cable_fail("node %u: request %llu waits beyond its deadline", end->node, (unsigned long long)i);
    }
}

static void end_fini(struct end *end)
{
    if (end->waiting > 0)
        cable_fail("node %u: %llu requests wait though its context is closed", end->node,
                   (unsigned long long)end->waiting);
    for (uint64_t i = 0; i < end->asks_count; i++)
        free(end->asks[i]);
    free(end->asks);
}

void requests_run(uint64_t seed)
{
    static const struct cable_test test = {.turn = node_turn};

    cable_begin(seed, &test);
    memset(&talk, 0, sizeof talk);
    talk_draw();
    for (uint32_t i = 0; i < talk.servers + talk.clients; i++)
        node_open(i);
    network_draw();
    talk_disturb();
    cable_run(talk.until);
    for (uint32_t i = 0; i < cable.nodes_count; i++)
        cable.nodes[i].loss = 0;
    cable_run(lli_max(cable.now, talk.until) + (talk.hard ? 5 * CABLE_S : 0) + 3 * REQUESTS_TIMEOUT / 2);
    for (uint32_t i = 0; i < 2 * talk.links; i++)
        end_check(&talk.ends[i]);
    cable_end();
    for (uint32_t i = 0; i < 2 * talk.links; i++)
        talk.ends[i].closing = true;
    talk.hard = true;
    for (uint32_t i = 0; i < cable.nodes_count; i++) {
        cable_as(i);
        (void)llm_context_close(&talk.contexts[i]);
    }
    for (uint32_t i = 0; i < 2 * talk.links; i++)
        end_fini(&talk.ends[i]);
    cable_fini();
}

void requests_print(void)
{
    (void)printf("%llu connections, %llu closed, %llu requests: %llu replied to, %llu unanswered, %llu over; "
                 "%llu late replies, %llu times no place\n",
                 (unsigned long long)seen.links, (unsigned long long)seen.closed,
                 (unsigned long long)seen.asked, (unsigned long long)seen.replied,
                 (unsigned long long)seen.unanswered, (unsigned long long)seen.over,
                 (unsigned long long)seen.late, (unsigned long long)seen.full);
}
