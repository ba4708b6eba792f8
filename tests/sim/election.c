/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeded histories of the members of a failover group: crashes, restarts, pauses, partitions of one direction or
 * both, loss, and clocks that drift. Members are lli_election with a model of the stream beside each.
 *
 *   sim_election [--first N] [--seeds N]     --seeds 1000000 is the long run
 *   sim_election --seed N -v
 *
 * Always: at most one member holds the lease. A member delivers each number once, in order, and of its primary's term
 * only. In half of the histories messages are delivered when a majority has them: then whatever any backup delivered is
 * the same at all of them, and is delivered by every later primary, while a majority of the voters remembers. In the end, after everything was healed: one primary, every member has the same messages and more than
 * before, unless all of them had been down at a time. Where members only crash: no message that a living member delivered is lost, and none is fenced but those
 * that lost their majority.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/election/election.h"

#define US ((lli_ns)1000)
#define MS ((lli_ns)1000000)

enum {
    NODES_MAX = 7,
    MESSAGES_MAX = 4096,
    FLIGHT_MAX = 4096,
    RESENT = 16, /* messages that a primary repeats to a member at a time */
    PATIENCE = 20,
};

#define FAULTS_NS (600 * MS)
#define HEAL_NS (600 * MS)

struct node {
    struct lli_election election;
    bool alive;
    lli_ns opened_at;
    lli_ns paused_until;
    uint64_t offset; /* of its clock */
    int64_t drift;   /* ppm */
    uint64_t values[MESSAGES_MAX];
    uint64_t next;
    uint64_t delivered;
    uint64_t reported[NODES_MAX]; /* as primary: `next` of the others */
    uint32_t lives;
};

struct flight {
    lli_ns at;
    int from, to;
    bool data;
    struct lli_election_packet packet;
    uint32_t term; /* data */
    uint64_t number, count;
    uint64_t values[RESENT];
};

struct world {
    uint64_t random;
    lli_ns now;
    int nodes, voters;
    bool crashes_only;
    bool commits;
    bool lost;
    /* A majority of the voters forgot what it had: nothing is certain any more. */
    bool remembered, forgotten;
    uint64_t delivered[MESSAGES_MAX]; /* by a backup, by number; 0: not yet */
    uint64_t deliveries;
    struct node node[NODES_MAX];
    bool cut[NODES_MAX][NODES_MAX];
    uint32_t loss_percent;
    struct flight flight[FLIGHT_MAX];
    int flights;
    uint64_t values; /* sent so far */
    uint32_t elected, fenced, diverged;
    bool verbose;
    const char *failure;
};

static uint64_t below(struct world *world, uint64_t range)
{
    return lli_random_below(&world->random, range);
}

static lli_ns node_clock(const struct world *world, const struct node *node)
{
    return (lli_ns)((int64_t)(node->offset + world->now) + (int64_t)world->now / 1000000 * node->drift);
}

static void fail(struct world *world, const char *text)
{
    if (world->failure == NULL)
        world->failure = text;
}

static void network_send(struct world *world, const struct flight *flight)
{
    struct flight *sent;

    if (world->cut[flight->from][flight->to] || below(world, 100) < world->loss_percent ||
        world->flights == FLIGHT_MAX)
        return;
    sent = &world->flight[world->flights++];
    *sent = *flight;
    sent->at = world->now + 20 * US + below(world, 80 * US);
    if (!world->crashes_only && below(world, 200) == 0)
        sent->at += below(world, 8 * MS);
}

/* --------------------------------------------------------------------------------------------- members */

static void node_open(struct world *world, int i)
{
    struct node *node = &world->node[i];
    const struct lli_election_config config = {
        .voters = (uint32_t)world->voters,
        .member = (uint32_t)i,
        .stands = i < world->voters && (i == 0 || i % 3 != 2 || world->voters < 4),
        .identity = lli_random(&world->random),
        .seed = lli_random(&world->random),
        .commits = world->commits,
        .beat = MS,
        .lease = 8 * MS,
        .detect = 10 * MS,
        .survey = 2 * MS,
    };

    node->alive = true;
    node->opened_at = world->now;
    node->paused_until = 0;
    node->lives++;
    node->next = node->delivered = 0;
    memset(node->reported, 0, sizeof node->reported);
    lli_election_init(&node->election, &config, node_clock(world, node));
}

/* True if a snapshot of a member can be taken. That of a primary is ahead of what a majority has, and would wait for it. */
static bool node_has_state(const struct world *world, const struct node *node)
{
    return node->alive && node->election.state != LLI_ELECTION_FENCED &&
           node->election.position.followed != 0 &&
           (!world->commits || node->delivered <= lli_election_deliverable(&node->election));
}

/* A snapshot, as the application takes it from another member. */
static void node_transfer(struct world *world, struct node *node)
{
    const struct node *from = NULL;
    struct lli_election_position position;

    for (int i = 0; i < world->nodes; i++) {
        const struct node *other = &world->node[i];

        if (other != node && node_has_state(world, other) && (from == NULL || below(world, 2) == 0))
            from = other;
    }
    /* Nobody is left: if all voters begin anew, so does the stream. */
    world->lost |= from == NULL;
    if (from == NULL)
        return;
    position = from->election.position;
    node->next = node->delivered = position.next = from->delivered;
    position.first = lli_min(position.first, position.next);
    memcpy(node->values, from->values, node->next * sizeof *node->values);
    lli_election_restore(&node->election, &position);
    lli_election_has(&node->election, 0, node->next, node_clock(world, node));
}

static void node_crash(struct world *world, int i)
{
    world->node[i].alive = false;
    if (world->verbose)
        printf("%8" PRIu64 " us: %d crashes at %" PRIu64 "\n", world->now / US, i, world->node[i].next);
}

/* Delivers what may be delivered. The application of a primary has what it sends. */
static void node_deliver(struct world *world, struct node *node)
{
    const bool primary = node->election.state == LLI_ELECTION_PRIMARY;
    const uint64_t end = primary ? node->next : lli_election_deliverable(&node->election);

    for (; node->delivered < end; node->delivered++) {
        uint64_t *first = &world->delivered[node->delivered];

        if (primary || !world->commits || world->forgotten)
            continue;
        world->deliveries++;
        if (*first != 0 && *first != node->values[node->delivered])
            fail(world, "two members delivered different messages of one number");
        *first = node->values[node->delivered];
    }
    lli_election_delivered(&node->election, node->delivered);
}

static void node_take(struct world *world, struct node *node, uint64_t value)
{
    if (node->next == MESSAGES_MAX) {
        fail(world, "too many messages for the simulator");
        return;
    }
    node->values[node->next++] = value;
    lli_election_has(&node->election, 0, node->next, node_clock(world, node));
    node_deliver(world, node);
}

static int world_remembering(const struct world *world)
{
    int remembering = 0;

    for (int i = 0; i < world->voters; i++) {
        const struct node *node = &world->node[i];

        remembering += node->alive && node->election.state != LLI_ELECTION_FENCED && node->election.remembers;
    }
    return remembering;
}

/* Notes when fewer than a majority of the voters remember, though they did. */
static void world_remember(struct world *world)
{
    const int remembering = world_remembering(world);

    world->remembered |= remembering > world->voters / 2;
    world->forgotten |= world->remembered && remembering <= world->voters / 2;
}

static void node_send_data(struct world *world, int i, int to, uint64_t number)
{
    const struct node *node = &world->node[i];
    struct flight flight = {.from = i, .to = to, .data = true, .term = node->election.term, .number = number};

    flight.count = lli_min(RESENT, node->next - number);
    memcpy(flight.values, node->values + number, flight.count * sizeof *flight.values);
    network_send(world, &flight);
}

/* The application sends, if it is the primary. */
static void node_application(struct world *world, int i)
{
    struct node *node = &world->node[i];

    if (!lli_election_holds(&node->election, node_clock(world, node)) || node->next == MESSAGES_MAX)
        return;
    node_take(world, node, ++world->values);
    for (int to = 0; to < world->nodes; to++)
        if (to != i)
            node_send_data(world, i, to, node->next - 1);
}

/* A new primary fetches what it lacks, at once. */
static void node_fetch(struct world *world, int i)
{
    struct node *node = &world->node[i];
    const struct lli_election_peer *source = lli_election_source(&node->election);

    for (int from = 0; source != NULL && from < world->nodes; from++) {
        const struct node *other = &world->node[from];

        if (!other->alive || other->election.config.identity != source->identity ||
            other->paused_until > world->now || world->cut[from][i] || world->cut[i][from])
            continue;
        while (node->next < source->position.next && node->next < other->next)
            node_take(world, node, other->values[node->next]);
        return;
    }
}

/* Returns true if the survey did not reach a member: it was opened since, perhaps. */
static bool node_is_apart(const struct world *world, int i)
{
    const struct node *node = &world->node[i];

    return !node->alive || node->election.state == LLI_ELECTION_FENCED ||
           world->now < node->opened_at + 3 * MS;
}

static void node_lead(struct world *world, int i)
{
    struct node *node = &world->node[i];
    const uint64_t base = lli_election_lead(&node->election, node_clock(world, node));

    if (node->election.state != LLI_ELECTION_PRIMARY)
        return;
    world->elected++;
    node_deliver(world, node);
    for (uint64_t number = 0; !world->forgotten && number < MESSAGES_MAX && world->delivered[number] != 0;
         number++)
        if (number >= node->next || node->values[number] != world->delivered[number])
            fail(world, "a new primary lacks a message that was delivered");
    if (world->verbose)
        printf("%8" PRIu64 " us: %d leads term %u from %" PRIu64 ", repeats from %" PRIu64 "\n",
               world->now / US, i, node->election.term, node->next, base);
    for (int other = 0; world->crashes_only && other < world->nodes; other++) {
        if (node_is_apart(world, other))
            continue;
        if (world->node[other].next > node->next)
            fail(world, "a new primary lacks messages that a living member delivered");
        if (world->node[other].next < base)
            fail(world, "a new primary does not repeat what a living member lacks");
    }
}

static void node_service(struct world *world, int i)
{
    struct node *node = &world->node[i];
    const lli_ns now = node_clock(world, node);
    const enum lli_election_state before = node->election.state;
    struct lli_election_packet packet;

    node_fetch(world, i);
    while (lli_election_output(&node->election, now, &packet)) {
        for (int to = 0; to < world->nodes; to++) {
            if (to == i)
                continue;
            network_send(world, &(struct flight){.from = i, .to = to, .packet = packet});
            if (packet.kind == LLI_ELECTION_BEAT && node->reported[to] < node->next)
                node_send_data(world, i, to, node->reported[to]);
        }
    }
    /* Messages may have been withdrawn. */
    node->next = node->election.position.next;
    if (node->election.state == LLI_ELECTION_READY)
        node_lead(world, i);
    if (before != node->election.state && node->election.state == LLI_ELECTION_FENCED && world->verbose)
        printf("%8" PRIu64 " us: %d is fenced (%d)\n", world->now / US, i, node->election.fence);
}

static void node_input(struct world *world, const struct flight *flight)
{
    struct node *node = &world->node[flight->to];
    const lli_ns now = node_clock(world, node);
    struct lli_election_packet answer;

    if (flight->data) {
        if (lli_election_delivery(&node->election, flight->term) == LLI_ELECTION_DELIVER &&
            node->election.state != LLI_ELECTION_PRIMARY)
            for (uint64_t i = 0; i < flight->count; i++)
                if (flight->number + i == node->next)
                    node_take(world, node, flight->values[i]);
        return;
    }
    if (flight->packet.kind == LLI_ELECTION_ANSWER && flight->packet.term == node->election.term)
        node->reported[flight->from] = flight->packet.position.next;
    if (lli_election_input(&node->election, &flight->packet, now, &answer))
        network_send(world, &(struct flight){.from = flight->to, .to = flight->from, .packet = answer});
    /* Messages may have been withdrawn. */
    node->next = node->election.position.next;
    node_deliver(world, node);
}

/* ------------------------------------------------------------------------------------------- histories */

static bool node_runs(const struct world *world, int i)
{
    return world->node[i].alive && world->node[i].paused_until <= world->now;
}

static void world_receive(struct world *world)
{
    for (int i = 0; i < world->flights;) {
        const struct flight *next = &world->flight[i];
        struct flight flight;

        if (next->at > world->now || (world->node[next->to].alive && !node_runs(world, next->to))) {
            i++;
            continue;
        }
        flight = *next;
        world->flight[i] = world->flight[--world->flights];
        if (world->node[flight.to].alive)
            node_input(world, &flight);
    }
}

static void world_check(struct world *world)
{
    int holders = 0;

    for (int i = 0; i < world->nodes; i++) {
        const struct node *node = &world->node[i];

        holders += node->alive && lli_election_holds(&node->election, node_clock(world, node));
        if (world->crashes_only && node->alive && node->election.fence == LLI_ELECTION_DIVERGED)
            fail(world, "a member diverged though members only crashed");
        if (world->commits && !world->forgotten && node->alive &&
            node->election.fence == LLI_ELECTION_DIVERGED)
            fail(world, "a member diverged though it delivered what a majority has");
    }
    if (holders > 1)
        fail(world, "two members hold the lease");
}

static void world_fault(struct world *world)
{
    const int i = (int)below(world, (uint64_t)world->nodes);
    struct node *node = &world->node[i];
    uint64_t kind = below(world, world->crashes_only ? 2 : 6);
    int dead = 0;

    for (int j = 0; j < world->nodes; j++)
        dead += !world->node[j].alive || world->node[j].election.state == LLI_ELECTION_FENCED;
    /* Mostly the memory of the group survives. */
    if (world->commits && i < world->voters && world_remembering(world) <= world->voters / 2 + 1 &&
        below(world, 50) != 0)
        kind = 1;
    switch (kind) {
    case 0:
        if (node->alive && (!world->crashes_only || dead < (world->voters - 1) / 2))
            node_crash(world, i);
        break;
    case 1:
        if (!node->alive || node->election.state == LLI_ELECTION_FENCED) {
            node_open(world, i);
            node_transfer(world, node);
        }
        break;
    case 2:
        node->paused_until = world->now + below(world, 60 * MS);
        break;
    case 3:
        for (int j = 0; j < world->nodes; j++)
            world->cut[i][j] = below(world, 2) == 0;
        break;
    case 4:
        for (int j = 0; j < world->nodes; j++)
            world->cut[i][j] = world->cut[j][i] = j != i && below(world, 2) == 0;
        break;
    default:
        memset(world->cut, 0, sizeof world->cut);
        world->loss_percent = (uint32_t)(below(world, 3) * below(world, 15));
        break;
    }
}

static void world_heal(struct world *world)
{
    memset(world->cut, 0, sizeof world->cut);
    world->loss_percent = 0;
    for (int i = 0; i < world->nodes; i++)
        world->node[i].paused_until = 0;
}

/* Restarts what is dead or fenced. */
static void world_restart(struct world *world)
{
    for (int i = 0; i < world->nodes; i++) {
        struct node *node = &world->node[i];

        if (node->alive && node->election.state != LLI_ELECTION_FENCED)
            continue;
        world->fenced += node->alive;
        world->diverged += node->alive && node->election.fence == LLI_ELECTION_DIVERGED;
        node_open(world, i);
        node_transfer(world, node);
    }
}

static const struct node *world_primary(const struct world *world)
{
    const struct node *primary = NULL;

    for (int i = 0; i < world->nodes; i++)
        if (world->node[i].election.state == LLI_ELECTION_PRIMARY)
            primary = &world->node[i];
    return primary;
}

static void world_check_end(struct world *world, uint64_t before)
{
    const struct node *primary = world_primary(world);

    if (primary == NULL) {
        fail(world, "no primary after everything was healed");
        return;
    }
    if (primary->next <= before && !world->lost)
        fail(world, "no progress after everything was healed");
    for (int i = 0; i < world->nodes; i++) {
        const struct node *node = &world->node[i];

        /* A member that missed the term in which a majority forgot what it had delivered cannot know that. */
        if (node->election.state == LLI_ELECTION_FENCED || (world->commits && world->forgotten))
            continue;
        if (node->next > primary->next ||
            memcmp(node->values, primary->values, node->next * sizeof *node->values) != 0)
            fail(world, "a member that is not fenced has another sequence than the primary");
        if (node->next + 64 < primary->next)
            fail(world, "a member does not catch up");
    }
}

static void world_begin(struct world *world, uint64_t seed, bool verbose)
{
    memset(world, 0, sizeof *world);
    world->random = seed;
    world->verbose = verbose;
    world->now = 1000 * MS;
    world->voters = below(world, 3) == 0 ? 5 : 3;
    world->nodes = world->voters + (int)below(world, 3);
    world->crashes_only = below(world, 4) == 0;
    world->commits = below(world, 2) == 0;
    for (int i = 0; i < world->nodes; i++) {
        world->node[i].offset = below(world, 1000 * MS);
        world->node[i].drift = world->crashes_only ? 0 : (int64_t)below(world, 100000) - 50000;
        node_open(world, i);
    }
}

static const char *world_run(struct world *world, uint64_t seed, bool verbose)
{
    const lli_ns step = 50 * US;
    lli_ns fault_at, end, restart_at, latest;
    uint64_t before = 0;

    world_begin(world, seed, verbose);
    fault_at = world->now + 40 * MS;
    end = world->now + FAULTS_NS + HEAL_NS;
    /*
     * Where members without delivery by majority have messages of different primaries, those are fenced one after the
     * other that have not the state of the latest one; which state they get then is left to chance.
     */
    latest = end + PATIENCE * HEAL_NS;
    restart_at = world->now + FAULTS_NS;
    for (; world->now < end && world->failure == NULL; world->now += step) {
        const bool heals = world->now >= restart_at || before != 0;

        if (world->now + step >= end && end < latest && world_primary(world) == NULL)
            end += HEAL_NS;

        if (heals && before == 0) {
            world_heal(world);
            for (int i = 0; i < world->nodes; i++)
                before = lli_max(before, world->node[i].alive ? world->node[i].next : 0);
            before++;
        }
        if (heals && world->now >= restart_at) {
            world_restart(world);
            restart_at = world->now + 60 * MS;
        }
        if (!heals && world->now >= fault_at) {
            world_fault(world);
            fault_at = world->now + below(world, 40 * MS);
        }
        world_receive(world);
        for (int i = 0; i < world->nodes; i++) {
            if (!node_runs(world, i))
                continue;
            node_service(world, i);
            if (below(world, 10) == 0)
                node_application(world, i);
        }
        world_remember(world);
        world_check(world);
    }
    if (world->failure == NULL)
        world_check_end(world, before);
    return world->failure;
}

int main(int argc, char **argv)
{
    static struct world world;
    uint64_t first = 1, seeds = 300, elected = 0, fenced = 0, diverged = 0, values = 0, deliveries = 0,
             forgotten = 0;
    bool verbose = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            verbose = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            first = strtoull(argv[++i], NULL, 10);
            seeds = 1;
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--first") == 0) {
            first = strtoull(argv[++i], NULL, 10);
        } else {
            (void)fprintf(stderr, "usage: sim_election [--first N] [--seeds N] [--seed N] [-v]\n");
            return 2;
        }
    }
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        const char *failure = world_run(&world, seed, verbose);

        if (failure != NULL) {
            printf("FAILED: seed %" PRIu64 ", at %" PRIu64 " us: %s\n", seed, world.now / US, failure);
            return 1;
        }
        elected += world.elected;
        fenced += world.fenced;
        diverged += world.diverged;
        values += world.values;
        deliveries += world.deliveries;
        forgotten += world.commits && world.forgotten;
    }
    printf("%" PRIu64 " seeds from %" PRIu64 " passed: %" PRIu64 " messages, %" PRIu64 " primaries, %" PRIu64
           " members fenced, %" PRIu64 " of them diverged; %" PRIu64 " deliveries by majority, and %" PRIu64
           " histories whose majority forgot\n",
           seeds, first, values, elected, fenced, diverged, deliveries, forgotten);
    return 0;
}
