/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cable.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "cable_ticks.h"
#include "config/registry.h"

enum { CABLE_POST_MAX = 64, CABLE_JOINS_MAX = 4, CABLE_INBOX_MAX = 8192, CABLE_HOST_MAX = 64 };

#define CABLE_PEER ((lli_handle)1 << 31)

/* Interval of clock readings in a blocking call. */
#define CABLE_LOOK (20 * CABLE_US)

struct cable cable;

struct cable_join {
    char host[CABLE_HOST_MAX];
    uint16_t port;
    uint32_t receivers;
};

/* A node's instance, beyond the part visible to tests. */
struct cable_station {
    struct cable_join joins[CABLE_JOINS_MAX];
    uint32_t joins_count;
    struct sim_event *inbox; /* a ring */
    uint32_t first;
    uint32_t count;
    uint64_t posted;
    uint64_t dropped_told;
    lli_outline_maker *outline;
    bool asks;         /* for outlines */
    uint32_t outlined; /* packets that may have come with one */
};

static struct {
    const struct cable_test *test;
    struct sim_events events;
    struct cable_station stations[CABLE_NODES_MAX];
    uint64_t random;  /* of the network */
    uint64_t entropy; /* of the library */
    uint32_t current; /* node that calls the library */
    uint32_t waits;   /* node that is in a blocking call */
    bool nested;
    bool flies;
} inner;

/* ------------------------------------------------------------------------------------------------ reports */

void cable_fail(const char *format, ...)
{
    va_list arguments;

    (void)printf("FAILED: seed %llu at %.6f ms: ", (unsigned long long)cable.seed, (double)cable.now / 1e6);
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    (void)printf("\n");
    (void)fflush(stdout);
    exit(1);
}

void cable_trace(const char *format, ...)
{
    va_list arguments;

    if (!cable.verbose)
        return;
    (void)printf("%14.6f ms ", (double)cable.now / 1e6);
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    (void)printf("\n");
}

void cable_must(int error, const char *what)
{
    if (error < 0)
        cable_fail("%s: %s", what, llm_error_text(error));
}

/* ------------------------------------------------------------------------------------------------- chance */

uint64_t cable_below(uint64_t limit)
{
    return lli_random_below(&cable.random, limit);
}

uint64_t cable_between(uint64_t low, uint64_t high)
{
    return low + cable_below(high - low + 1);
}

bool cable_chance(uint32_t percent)
{
    return cable_below(100) < percent;
}

static bool network_hits(uint32_t ppm)
{
    return ppm > 0 && lli_random_below(&inner.random, 1000000) < ppm;
}

/* The program's own definitions come before those of libc. */
ssize_t getrandom(void *buffer, size_t size, unsigned flags)
{
    uint8_t *bytes = buffer;

    (void)flags;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)lli_random(&inner.entropy);
    /* Almost at the end of a block of 2^24 packet numbers, or of 2^32. */
    if (cable.wraps && size == sizeof(uint64_t)) {
        bytes[0] |= 0xe0;
        memset(bytes + 1, 0xff, 2);
        bytes[3] |= lli_random(&inner.entropy) % 2 == 0 ? 0xff : 0;
    }
    return (ssize_t)size;
}

/* --------------------------------------------------------------------------------------------------- time */

/* A blocking call reads the clock repeatedly: meanwhile the other nodes run. */
static lli_ns cable_clock(void)
{
    if (inner.flies)
        cable.now += CABLE_MS;
    if (inner.waits != CABLE_NOBODY && inner.current == inner.waits && !inner.nested) {
        inner.nested = true;
        cable_run(cable.now + CABLE_LOOK);
        inner.current = inner.waits;
        inner.nested = false;
    }
    return inner.current == CABLE_NOBODY ? cable.now : cable_node_now(inner.current);
}

/* The calendar is the same at every node but for its skew. */
static lli_ns cable_calendar(void)
{
    const lli_ns now = CABLE_CALENDAR + cable.now;

    return inner.current == CABLE_NOBODY ? now : now + (lli_ns)cable.nodes[inner.current].skew;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    const lli_ns now = clock == CLOCK_REALTIME ? cable_calendar() : cable_clock();

    *at = (struct timespec){.tv_sec = (time_t)(now / CABLE_S), .tv_nsec = (long)(now % CABLE_S)};
    return 0;
}

uint64_t cable_ticks(void)
{
    return inner.current == CABLE_NOBODY ? cable.now : cable_node_now(inner.current);
}

void cable_as(uint32_t node)
{
    inner.current = node;
}

bool cable_blocks(uint32_t node)
{
    if (inner.waits != CABLE_NOBODY)
        return false;
    inner.waits = node;
    return true;
}

void cable_blocks_no_more(void)
{
    inner.waits = CABLE_NOBODY;
}

static bool node_has_turns(uint32_t node)
{
    return !cable.nodes[node].dead && node != inner.waits;
}

static void cable_arrive(struct sim_event *event)
{
    struct cable_node *node = &cable.nodes[event->node];
    struct cable_station *station = &inner.stations[event->node];

    if (node->dead || station->count >= lli_min(node->inbox_max, CABLE_INBOX_MAX)) {
        node->dropped += !node->dead;
        node->dropped_away += !node->dead && !node->asleep;
        sim_packet_drop(event->packet);
        return;
    }
    station->inbox[(station->first + station->count++) % CABLE_INBOX_MAX] = *event;
    if (node->asleep)
        node->turn_at = lli_min(node->turn_at, cable.now);
}

static lli_ns cable_next(void)
{
    lli_ns at = inner.events.count > 0 ? inner.events.heap[0].at : LLI_NEVER;

    for (uint32_t i = 0; i < cable.nodes_count; i++)
        if (node_has_turns(i))
            at = lli_min(at, cable.nodes[i].turn_at);
    return at;
}

static void cable_turns(void)
{
    for (uint32_t i = 0; i < cable.nodes_count; i++) {
        struct cable_node *node = &cable.nodes[i];

        if (!node_has_turns(i) || node->turn_at > cable.now)
            continue;
        node->turn_at = LLI_NEVER;
        inner.current = i;
        inner.test->turn(i);
        inner.current = CABLE_NOBODY;
        if (node->turn_at <= cable.now)
            node->turn_at = cable.now + CABLE_US;
    }
}

void cable_run(lli_ns until)
{
    struct sim_event event;
    lli_ns at;

    while ((at = cable_next()) <= until) {
        cable.now = lli_max(cable.now, at);
        while (inner.events.count > 0 && inner.events.heap[0].at <= cable.now &&
               sim_events_take(&inner.events, &event))
            cable_arrive(&event);
        cable_turns();
    }
    cable.now = lli_max(cable.now, until);
}

void cable_sleep(uint32_t node, const struct llm_context *context, lli_ns nap)
{
    struct cable_node *of = &cable.nodes[node];
    const lli_ns deadline = llm_context_deadline(context);

    of->asleep = true;
    /* Work that is due already has to wait; the application's own plans do not wait for it. */
    of->turn_at = lli_min(cable.now + nap,
                          lli_max(deadline > of->clock ? deadline - of->clock : 0, cable.now + CABLE_US));
}

/* -------------------------------------------------------------------------------------------- the network */

static void network_arrive(uint32_t to, bool group, lli_handle from, struct sim_packet *packet, lli_ns later)
{
    struct cable_node *node = &cable.nodes[to];
    struct sim_event event = {.at = cable.now + node->delay + later,
                              .kind = SIM_ARRIVE,
                              .node = to,
                              .size = packet->size,
                              .group = group,
                              .packet = packet,
                              .value = from};

    if (node->delay_more > 0)
        event.at +=
            lli_random_below(&inner.random, node->delay_more * (network_hits(node->reorder) ? 10 : 1));
    packet->references++;
    sim_events_add(&inner.events, event);
}

static void network_pass(uint32_t to, bool group, lli_handle from, struct sim_packet *packet)
{
    struct cable_node *node = &cable.nodes[to];
    const bool loses = inner.test->loses != NULL && inner.test->loses(to, packet->bytes, packet->size);

    if (network_hits(node->loss) || cable.now < node->cut_until || loses) {
        node->lost++;
        return;
    }
    network_arrive(to, group, from, packet, 0);
    if (network_hits(node->duplicate))
        network_arrive(to, group, from, packet, lli_random_below(&inner.random, CABLE_MS));
}

static void network_pass_group(uint32_t from, const struct cable_join *join, struct sim_packet *packet)
{
    for (uint32_t to = 0; to < cable.nodes_count; to++) {
        const struct cable_station *station = &inner.stations[to];

        for (uint32_t i = 0; to != from && i < station->joins_count; i++)
            if (station->joins[i].receivers > 0 && station->joins[i].port == join->port &&
                strcmp(station->joins[i].host, join->host) == 0)
                network_pass(to, true, i, packet);
    }
}

static void network_send(uint32_t from, const struct lli_out *out)
{
    const uint32_t to = out->to & CABLE_PEER ? out->to & ~CABLE_PEER : CABLE_GROUP;
    struct sim_packet *packet;

    if (cable.nodes[from].dead)
        return;
    if (inner.test->sent != NULL)
        inner.test->sent(from, to, out->data, out->size);
    packet = sim_packet_new(out->data, out->size);
    if (to == CABLE_GROUP)
        network_pass_group(from, &inner.stations[from].joins[out->to], packet);
    else
        network_pass(to, false, LLI_HANDLE_UNICAST, packet);
    sim_packet_drop(packet);
}

/* Draws no random number, so that all other events stay as they are without it. */
static void network_inject(uint32_t to, bool group, lli_handle handle, struct sim_packet *packet)
{
    const struct sim_event event = {.at = cable.now + cable.nodes[to].delay,
                                    .kind = SIM_ARRIVE,
                                    .node = to,
                                    .size = packet->size,
                                    .group = group,
                                    .packet = packet,
                                    .value = handle};

    packet->references++;
    sim_events_add(&inner.events, event);
}

void cable_inject(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t size)
{
    struct sim_packet *packet = sim_packet_new(bytes, size);

    if (to != CABLE_GROUP)
        network_inject(to, false, LLI_HANDLE_UNICAST, packet);
    for (uint32_t node = 0; node < cable.nodes_count && to == CABLE_GROUP; node++)
        for (uint32_t i = 0; node != from && i < inner.stations[node].joins_count; i++)
            if (inner.stations[node].joins[i].receivers > 0)
                network_inject(node, true, i, packet);
    sim_packet_drop(packet);
}

/* ------------------------------------------------------------------------------------------ the transport */

struct cable_instance {
    uint32_t node;
};

static struct cable_station *station_of(const void *instance)
{
    return &inner.stations[((const struct cable_instance *)instance)->node];
}

static int cable_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    (void)config;
    ((struct cable_instance *)instance)->node = inner.current;
    *caps = (struct lli_caps){.payload_max = CABLE_PACKET_MAX,
                              .post_max = CABLE_POST_MAX,
                              .train_max = 1,
                              .align = 1,
                              .flags = LLI_CAP_TX_COPIES | LLI_CAP_UNICAST,
                              .numa_node = -1};
    return 0;
}

static void cable_close(void *instance)
{
    (void)instance;
}

/* Posted packets are sent at once. */
static void cable_region_end(void *instance, void *base, size_t size)
{
    (void)instance;
    (void)base;
    (void)size;
}

static int cable_join(void *instance, const struct lli_group *group, enum lli_join_mode mode,
                      lli_handle *handle)
{
    struct cable_station *station = station_of(instance);
    uint32_t i = 0;

    while (i < station->joins_count &&
           (station->joins[i].port != group->port || strcmp(station->joins[i].host, group->host) != 0))
        i++;
    if (i == CABLE_JOINS_MAX || strlen(group->host) >= CABLE_HOST_MAX)
        return LLM_ELIMIT;
    strcpy(station->joins[i].host, group->host);
    station->joins[i].port = group->port;
    station->joins[i].receivers += mode == LLI_JOIN_RECEIVE;
    station->joins_count += i == station->joins_count;
    *handle = i;
    return 0;
}

static void cable_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    station_of(instance)->joins[handle].receivers -= mode == LLI_JOIN_RECEIVE ? 1 : 0;
}

static int cable_address(void *instance, struct lli_address *address)
{
    *address =
        (struct lli_address){.size = 1, .bytes = {(uint8_t)(1 + ((struct cable_instance *)instance)->node)}};
    return 0;
}

static int cable_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    (void)instance;
    if (address->size != 1 || address->bytes[0] == 0 || address->bytes[0] > cable.nodes_count)
        return LLM_EINVAL;
    *handle = CABLE_PEER | (address->bytes[0] - 1u);
    return 0;
}

static int cable_post(void *instance, const struct lli_out *packets, int count)
{
    const uint32_t node = ((struct cable_instance *)instance)->node;

    if (cable.nodes[node].blocked)
        return 0;
    for (int i = 0; i < count; i++)
        network_send(node, &packets[i]);
    station_of(instance)->posted += (uint64_t)count;
    return count;
}

static int cable_flush(void *instance)
{
    return cable.nodes[((struct cable_instance *)instance)->node].blocked ? LLM_EAGAIN : 0;
}

static uint64_t cable_reap(void *instance)
{
    return station_of(instance)->posted;
}

/* A packet of which only the head is readable until it is fetched; the rest is filled with bytes that no packet has. */
struct cable_outlined {
    struct sim_packet *packet;
    uint8_t bytes[CABLE_PACKET_MAX];
    struct lli_outline outline;
    _Alignas(8) uint8_t runs[LLI_OUTLINE_BYTES];
};

static void cable_enable(void *instance, lli_outline_maker *outline)
{
    station_of(instance)->outline = outline;
}

static void cable_ask(void *instance)
{
    station_of(instance)->asks = true;
}

/* Lends every other packet with its outline, if it has one. */
static void cable_outline(struct cable_station *station, struct lli_in *in)
{
    struct cable_outlined *outlined;

    if (!station->asks || in->size < LLI_EXCERPT_HEAD || station->outlined++ % 2 == 0)
        return;
    outlined = malloc(sizeof *outlined);
    outlined->outline.size = station->outline(in->data, in->size, outlined->runs, sizeof outlined->runs);
    outlined->outline.bytes = outlined->runs;
    if (outlined->outline.size == 0) {
        free(outlined);
        return;
    }
    outlined->packet = (struct sim_packet *)(uintptr_t)in->buffer;
    memset(outlined->bytes, 0xee, sizeof outlined->bytes);
    memcpy(outlined->bytes, in->data, LLI_EXCERPT_HEAD);
    in->data = outlined->bytes;
    in->outline = &outlined->outline;
}

static struct cable_outlined *cable_outlined_of(const struct lli_in *in)
{
    return (struct cable_outlined *)(void *)((uint8_t *)(uintptr_t)in->data -
                                             offsetof(struct cable_outlined, bytes));
}

static int cable_receive(void *instance, struct lli_in *packets, int max)
{
    const uint32_t node = ((struct cable_instance *)instance)->node;
    struct cable_station *station = station_of(instance);
    int count = 0;

    for (; count < max && station->count > 0; count++, station->count--) {
        const struct sim_event *event = &station->inbox[station->first];

        packets[count] = (struct lli_in){.data = event->packet->bytes,
                                         .size = event->size,
                                         .from = event->group ? (lli_handle)event->value : LLI_HANDLE_UNICAST,
                                         .buffer = (uint64_t)(uintptr_t)event->packet};
        if (inner.test->took != NULL)
            inner.test->took(node, event->packet->bytes, event->size);
        cable_outline(station, &packets[count]);
        station->first = (station->first + 1) % CABLE_INBOX_MAX;
    }
    return count;
}

static void cable_release(void *instance, const struct lli_in *packets, int count)
{
    (void)instance;
    for (int i = 0; i < count; i++) {
        if (packets[i].outline != NULL)
            free(cable_outlined_of(&packets[i]));
        sim_packet_drop((struct sim_packet *)(uintptr_t)packets[i].buffer);
    }
}

static bool cable_fetch(void *instance, const struct lli_in *in, const struct lli_piece *pieces,
                        uint32_t count)
{
    struct cable_outlined *outlined = cable_outlined_of(in);
    uint8_t *to = outlined->bytes;

    /* Now and then the packet was overwritten, and it was copied in vain. */
    for (uint32_t i = 0; i < count; i++) {
        memcpy(to, outlined->packet->bytes + pieces[i].at, pieces[i].size);
        to += pieces[i].size;
    }
    return station_of(instance)->outlined % 256 != 0;
}

static const struct lli_excerpt_calls cable_excerpts = {cable_enable, cable_ask, cable_fetch};

/* No thread sleeps in the kernel here. */
static int cable_arm(void *instance)
{
    (void)instance;
    return -1;
}

static uint64_t cable_drops(void *instance)
{
    struct cable_station *station = station_of(instance);
    const uint64_t dropped = cable.nodes[((struct cable_instance *)instance)->node].dropped;
    const uint64_t since = dropped - station->dropped_told;

    station->dropped_told = dropped;
    return since;
}

/* No counters but those of the test. */
static const struct lli_counter cable_counters[] = {{.name = NULL}};

static const struct lli_transport cable_transport = {
    .scheme = CABLE_SCHEME,
    .size = sizeof(struct cable_instance),
    .open = cable_open,
    .close = cable_close,
    .region_end = cable_region_end,
    .join = cable_join,
    .leave = cable_leave,
    .address = cable_address,
    .peer = cable_peer,
    .post = cable_post,
    .flush = cable_flush,
    .reap = cable_reap,
    .receive = cable_receive,
    .release = cable_release,
    .arm = cable_arm,
    .drops = cable_drops,
    .excerpts = &cable_excerpts,
    .counters = cable_counters,
};

/* Registry: this is the only transport. */
const struct lli_transport *lli_transport_find(const char *scheme)
{
    return strcmp(scheme, CABLE_SCHEME) == 0 ? &cable_transport : NULL;
}

bool lli_transport_is_named(const char *scheme)
{
    (void)scheme;
    return false;
}

const char *lli_transport_missing(const char *scheme)
{
    (void)scheme;
    return NULL;
}

int lli_transport_option_tables(const char *scheme, const struct lli_option_table **tables, int max)
{
    (void)scheme;
    (void)tables;
    (void)max;
    return 0;
}

const char *lli_transport_option_table(int index, const struct lli_option_table **table)
{
    (void)index;
    (void)table;
    return NULL;
}

void lli_transport_names(char *text, size_t size)
{
    (void)snprintf(text, size, CABLE_SCHEME);
}

const struct lli_registry lli_registry = {.find = lli_transport_find, .is_named = lli_transport_is_named};

/* ------------------------------------------------------------------------------------------ begin and end */

void cable_begin(uint64_t seed, const struct cable_test *test)
{
    uint64_t random = seed;
    const bool verbose = cable.verbose;

    memset(&inner, 0, sizeof inner);
    random = lli_random(&random);
    cable = (struct cable){.seed = seed, .random = random ^ 0x74657374, .now = CABLE_S, .verbose = verbose};
    inner.test = test;
    inner.random = random ^ 0x6e6574;
    inner.entropy = random ^ 0x6c6962;
    inner.current = inner.waits = CABLE_NOBODY;
}

uint32_t cable_node_add(void)
{
    const uint32_t node = cable.nodes_count++;

    if (node == CABLE_NODES_MAX)
        cable_fail("more than %d nodes", CABLE_NODES_MAX);
    cable.nodes[node] = (struct cable_node){.clock = lli_random_below(&inner.entropy, 1000 * CABLE_S),
                                            .turn_at = cable.now,
                                            .delay = 10 * CABLE_US,
                                            .inbox_max = CABLE_INBOX_MAX};
    inner.stations[node].inbox = sim_memory(CABLE_INBOX_MAX * sizeof(struct sim_event));
    return node;
}

static void cable_log(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    cable_trace("%s", text);
}

struct llm_context *cable_context(uint32_t node, struct llm_context_options *options)
{
    struct llm_context *context = NULL;

    cable_as(node);
    options->stats_directory = "";
    options->log = cable_log;
    options->huge_pages = false;
    cable_must(llm_context_open(options, &context), "a context");
    return context;
}

void cable_end(void)
{
    inner.flies = true;
}

void cable_fini(void)
{
    for (uint32_t i = 0; i < cable.nodes_count; i++) {
        struct cable_station *station = &inner.stations[i];

        for (; station->count > 0; station->count--) {
            sim_packet_drop(station->inbox[station->first].packet);
            station->first = (station->first + 1) % CABLE_INBOX_MAX;
        }
        free(station->inbox);
    }
    for (struct sim_event event; sim_events_take(&inner.events, &event);)
        sim_packet_drop(event.packet);
    sim_events_fini(&inner.events);
    inner.events = (struct sim_events){.heap = NULL};
}
