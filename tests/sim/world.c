/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <stdarg.h>
#include <stdlib.h>

#include "check.h"

/* Minimum interval of a node's turns. */
#define WORLD_TICK SIM_US

/* Useless wake-ups in a row that count as spinning. */
enum { WORLD_IDLE_MAX = 200 };

enum { WORLD_SCRATCH = 1 << 20 };

/* ---------------------------------------------------------------------------------------------- reports */

void sim_trace(const struct sim_world *world, const char *format, ...)
{
    va_list arguments;

    if (!world->verbose)
        return;
    (void)printf("%14.6f ms ", (double)world->now / 1e6);
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    (void)printf("\n");
}

void sim_fail(struct sim_world *world, const char *format, ...)
{
    va_list arguments;

    if (world->failed)
        return;
    world->failed = true;
    (void)printf("FAILED: seed %llu at %.6f ms: ", (unsigned long long)world->scenario.seed,
                 (double)world->now / 1e6);
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    (void)printf("\n");
    sim_scenario_print(&world->scenario, stdout);
}

void sim_digest(struct sim_world *world, uint64_t value)
{
    world->digest = (world->digest ^ value ^ world->now) * 0x100000001b3u;
    world->digest ^= world->digest >> 29;
}

/* ------------------------------------------------------------------------------------------------ nodes */

static bool node_is_sender(const struct sim_world *world, const struct sim_node *node)
{
    return node->index < world->scenario.transmitters;
}

static lli_ns node_deadline(const struct sim_world *world, const struct sim_node *node)
{
    return node_is_sender(world, node) ? lli_tx_deadline(&node->sender->tx)
                                       : sim_follower_deadline(node->follower);
}

/* Schedules the node's wake-up at its deadline. */
static void node_schedule(struct sim_world *world, struct sim_node *node)
{
    lli_ns deadline = node_deadline(world, node);
    struct sim_event event = {.kind = SIM_WAKE, .node = node->index};

    if (deadline == LLI_NEVER)
        return;
    event.at = lli_max(world->now + WORLD_TICK, deadline > node->clock ? deadline - node->clock : 0);
    if (node->wake_at <= event.at)
        return;
    node->wake_at = event.at;
    event.value = ++node->wake_version;
    sim_events_add(&world->events, event);
}

static void node_service(struct sim_world *world, struct sim_node *node)
{
    uint64_t packets = world->network.packets, delivered = world->delivered;

    if (node_is_sender(world, node))
        sim_sender_service(world, node);
    else
        sim_follower_service(world, node);
    if (world->failed)
        return;
    if (packets != world->network.packets || delivered != world->delivered ||
        node_deadline(world, node) > sim_node_now(world, node))
        node->idle_wakes = 0;
    else if (++node->idle_wakes > WORLD_IDLE_MAX)
        sim_fail(world, "node %u spins: its deadline is %llu ns ago", node->index,
                 (unsigned long long)(sim_node_now(world, node) - node_deadline(world, node)));
    node_schedule(world, node);
}

static void node_start(struct sim_world *world, struct sim_node *node)
{
    node->alive = true;
    node->paused = false;
    node->starts++;
    node->wake_at = LLI_NEVER;
    node->clock += lli_random_below(&world->random, SIM_S);
    if (node_is_sender(world, node))
        sim_sender_start(world, node);
    else
        sim_follower_start(world, node);
    node_schedule(world, node);
}

static void node_stop(struct sim_world *world, struct sim_node *node)
{
    if (node_is_sender(world, node))
        sim_sender_stop(world, node);
    else
        sim_follower_stop(world, node);
    node->alive = false;
    node->wake_at = LLI_NEVER;
    node->wake_version++;
}

/* Puts a truncated packet into memory of exactly its size, so that reads beyond its end are detected. */
static void node_cut(struct sim_event *event)
{
    struct sim_packet *whole = event->packet;

    if (event->size == whole->size)
        return;
    event->packet = sim_packet_new(whole->bytes, event->size);
    sim_packet_drop(whole);
}

static void node_input(struct sim_world *world, struct sim_node *node, struct sim_event *event)
{
    node_cut(event);
    if (node_is_sender(world, node))
        sim_sender_input(world, node, event);
    else
        sim_follower_input(world, node, event);
    sim_packet_drop(event->packet);
}

static void node_arrive(struct sim_world *world, struct sim_node *node, struct sim_event *event)
{
    if (!node->alive) {
        sim_packet_drop(event->packet);
        return;
    }
    if (node->paused) {
        if (node->follower->inbox_count < world->scenario.inbox_packets)
            node->follower->inbox[node->follower->inbox_count++] = *event;
        else
            sim_packet_drop(event->packet);
        return;
    }
    node_input(world, node, event);
    if (!world->failed)
        node_service(world, node);
}

static void node_wake(struct sim_world *world, struct sim_node *node, uint64_t version)
{
    if (version != node->wake_version || !node->alive)
        return;
    node->wake_at = LLI_NEVER;
    if (node->paused)
        return;
    if (sim_node_now(world, node) >= node_deadline(world, node))
        node_service(world, node);
    else
        node_schedule(world, node);
}

static void node_resume(struct sim_world *world, struct sim_node *node)
{
    if (!node->alive || !node->paused)
        return;
    node->paused = false;
    sim_trace(world, "node %u goes on, %u packets wait", node->index, node->follower->inbox_count);
    for (uint32_t i = 0; i < node->follower->inbox_count && !world->failed; i++) {
        node_input(world, node, &node->follower->inbox[i]);
        node->follower->inbox[i].packet = NULL;
    }
    node->follower->inbox_count = 0;
    if (!world->failed)
        node_service(world, node);
}

/* ----------------------------------------------------------------------------------------------- faults */

static void world_plan(struct sim_world *world, struct sim_fault fault)
{
    const struct sim_event event = {.at = fault.at, .kind = SIM_FAULT, .value = world->faults_count};

    world->faults = sim_memory_grow(world->faults, (world->faults_count + 1) * sizeof *world->faults);
    world->faults[world->faults_count++] = fault;
    sim_events_add(&world->events, event);
}

static void world_plan_after(struct sim_world *world, const struct sim_fault *fault, enum sim_fault_kind kind)
{
    world_plan(world, (struct sim_fault){.kind = kind, .node = fault->node, .at = world->now + fault->ns});
}

static void fault_cut(struct sim_world *world, const struct sim_fault *fault)
{
    for (uint32_t line = 0; line < world->scenario.lines; line++) {
        const uint32_t at = line * world->network.nodes + fault->node;
        struct sim_link *in = &world->network.in[at], *out = &world->network.out[at];

        if (fault->one_line && fault->line != line)
            continue;
        if (fault->in)
            in->cut_until = lli_max(in->cut_until, world->now + fault->ns);
        if (fault->out)
            out->cut_until = lli_max(out->cut_until, world->now + fault->ns);
    }
}

static void fault_stop(struct sim_world *world, struct sim_node *node, const struct sim_fault *fault)
{
    if (node_is_sender(world, node))
        node->sender->session->crashed = true;
    else if (fault->kind == SIM_FAULT_LEAVE)
        sim_follower_leave(world, node);
    node_stop(world, node);
    world_plan_after(world, fault, SIM_FAULT_RESTART);
}

static void world_fault(struct sim_world *world, struct sim_fault fault)
{
    struct sim_node *node = &world->nodes[fault.node];

    if (fault.kind == SIM_FAULT_RESTART) {
        if (!node->alive)
            node_start(world, node);
        return;
    }
    if (fault.kind == SIM_FAULT_RATE)
        sim_rates_change(world, node, &world->scenario.rates[fault.rate]);
    if (!node->alive)
        return;
    sim_trace(world, "fault %d at node %u", (int)fault.kind, fault.node);
    switch (fault.kind) {
    case SIM_FAULT_PAUSE:
        node->paused = true;
        world_plan_after(world, &fault, SIM_FAULT_RESUME);
        break;
    case SIM_FAULT_RESUME:
        node_resume(world, node);
        break;
    case SIM_FAULT_CUT:
        fault_cut(world, &fault);
        break;
    case SIM_FAULT_STEP:
        node->clock += fault.ns;
        if (!node->paused)
            node_schedule(world, node);
        break;
    case SIM_FAULT_CRASH:
    case SIM_FAULT_LEAVE:
        fault_stop(world, node, &fault);
        break;
    case SIM_FAULT_FORGE:
        sim_forge(world, &fault);
        break;
    case SIM_FAULT_RATE:
        node_schedule(world, node);
        break;
    case SIM_FAULT_RESTART:
        break;
    }
}

/* ------------------------------------------------------------------------------------------------- time */

static void world_step(struct sim_world *world, struct sim_event *event)
{
    struct sim_node *node = &world->nodes[event->node];

    world->now = lli_max(world->now, event->at);
    switch (event->kind) {
    case SIM_ARRIVE:
        node_arrive(world, node, event);
        break;
    case SIM_WAKE:
        node_wake(world, node, event->value);
        break;
    case SIM_SEND:
        if (node->alive && node->sender->session->index == event->value && !node->sender->session->closed) {
            sim_sender_send(world, node);
            node_schedule(world, node);
        }
        break;
    case SIM_FAULT:
        world_fault(world, world->faults[event->value]);
        break;
    }
}

static void world_check(struct sim_world *world)
{
    for (uint32_t i = world->scenario.transmitters; i < world->network.nodes && !world->failed; i++)
        if (world->nodes[i].alive)
            sim_check_memory(world, &world->nodes[i]);
}

static void world_run_until(struct sim_world *world, lli_ns until)
{
    struct sim_event event;

    while (!world->failed && world->events.count > 0 && world->events.heap[0].at <= until &&
           sim_events_take(&world->events, &event))
        world_step(world, &event);
    world->now = lli_max(world->now, until);
    world_check(world);
}

typedef bool world_condition(struct sim_world *world, const struct sim_node *node,
                             const struct sim_session *session);

/* Checks a condition for every receiver and session; prints those that violate it. */
static bool world_holds(struct sim_world *world, world_condition *condition, bool alive, bool complain)
{
    for (uint32_t i = world->scenario.transmitters; i < world->network.nodes; i++) {
        for (uint32_t j = 0; j < world->sessions_count; j++) {
            const struct sim_session *session = world->sessions[j];

            if ((alive && !session->alive) || condition(world, &world->nodes[i], session))
                continue;
            if (complain)
                sim_fail(world, "node %u has not %s of session %u", i, alive ? "everything" : "heard the end",
                         j);
            return false;
        }
    }
    return true;
}

static void world_wait(struct sim_world *world, world_condition *condition, bool alive, lli_ns until)
{
    while (!world->failed && world->now < until && !world_holds(world, condition, alive, false))
        world_run_until(world, world->now + 5 * SIM_MS);
    if (!world->failed)
        (void)world_holds(world, condition, alive, true);
}

/* ---------------------------------------------------------------------------------------------- phases */

static void world_start(struct sim_world *world)
{
    const struct sim_scenario *s = &world->scenario;

    for (uint32_t i = 0; i < s->transmitters + s->receivers; i++) {
        struct sim_fault fault = {.kind = SIM_FAULT_RESTART, .node = i};

        world->nodes[i] =
            (struct sim_node){.index = i, .wake_at = LLI_NEVER, .clock = lli_random(&world->random) >> 10};
        if (i < s->transmitters)
            fault.at = lli_random_below(&world->random, 2 * SIM_MS);
        else if (i >= s->transmitters + s->receivers - s->late)
            fault.at = lli_random_below(&world->random, s->traffic);
        world_plan(world, fault);
    }
    for (uint32_t i = 0; i < s->faults_count; i++)
        world_plan(world, s->faults[i]);
    world->rate = s->rates[0];
    for (uint32_t i = 1; i < s->rates_count; i++)
        for (uint32_t j = 0; j < s->transmitters; j++)
            world_plan(world, (struct sim_fault){
                                  .kind = SIM_FAULT_RATE, .node = j, .at = s->rates[i].at, .rate = i});
}

static void world_heal(struct sim_world *world)
{
    sim_trace(world, "the network heals");
    sim_network_heal(&world->network);
    for (uint32_t i = 0; i < world->network.nodes; i++) {
        struct sim_node *node = &world->nodes[i];

        if (!node->alive)
            node_start(world, node);
        node_resume(world, node);
    }
}

/* Returns the time within which everything is repaired and reported after all faults ended. */
static lli_ns world_patience(const struct sim_world *world)
{
    const struct sim_scenario *s = &world->scenario;
    lli_ns patience = 2 * SIM_S + 8 * (s->heartbeat_max + s->nak_retry_max + s->status) + 20 * s->delay_min;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < s->transmitters; i++) {
        const struct sim_sender *sender = world->nodes[i].sender;

        bytes = lli_max(bytes, sender->data_bytes);
        /* With very little memory for early packets, a few packets at a time are repaired. */
        patience += (sender->tx.sent - s->start) * 4 * (s->delay_min + s->delay_mean);
    }
    /* Memory held by a dead session at a receiver is free after its timeout. */
    for (uint32_t i = 0; i < world->sessions_count; i++)
        patience = lli_max(patience, world->sessions[i]->crashed ? 2 * s->timeout : 0);
    /* An expelled receiver returns, and may be slow again: twice, with increasing absence. */
    patience +=
        (7 * s->slow.rejoin + 3 * (s->slow.expel + s->slow.patience + s->slow.recover + LLI_SLOW_PERIOD)) *
        (s->slow.most != LLI_STANDING_FINE);
    if (s->lossy_to_the_end)
        patience *= 8;
    /* At worst each receiver has to be sent everything again. */
    if (s->joining)
        patience += (lli_ns)((double)bytes * s->receivers / (double)s->replay_bytes_per_s * 2e9);
    return patience + (lli_ns)((double)bytes * s->receivers / (double)s->repair_bytes_per_s * 2e9) +
           sim_rates_patience(world);
}

static void world_close(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->scenario.transmitters; i++) {
        struct sim_node *node = &world->nodes[i];

        node->sender->session->closed = true;
        lli_tx_end(&node->sender->tx, sim_node_now(world, node));
        node_schedule(world, node);
    }
}

/* Waits for members that died silently, until they are forgotten. */
static void world_drain(struct sim_world *world)
{
    lli_ns until = world->now + world->scenario.status * (world->scenario.receivers / 5 + 2) * 12 +
                   world_patience(world);

    for (uint32_t i = 0; i < world->scenario.transmitters && !world->failed; i++) {
        const struct lli_tx *tx = &world->nodes[i].sender->tx;

        while (!world->failed && world->now < until && !lli_tx_drained(tx))
            world_run_until(world, world->now + 5 * SIM_MS);
        if (!world->failed && !lli_tx_drained(tx))
            sim_fail(world, "node %u still waits for %u of %u receivers at its end", i,
                     lli_members_waiting(&tx->members), tx->members.count);
    }
}

static void world_play(struct sim_world *world)
{
    const struct sim_scenario *s = &world->scenario;

    world_start(world);
    while (!world->failed && world->now < s->traffic)
        world_run_until(world, lli_min(world->now + 10 * SIM_MS, s->traffic));
    if (!world->failed)
        world_heal(world);
    if (!world->failed)
        world_wait(world, sim_check_caught_up, true, world->now + world_patience(world));
    if (!world->failed && s->assured > 0)
        world_wait(world, sim_check_answered, true, world->now + world_patience(world));
    if (!world->failed && s->suppression)
        sim_check_suppression(world);
    if (!world->failed && s->crowd)
        sim_check_crowd(world);
    if (!world->failed)
        world_close(world);
    if (!world->failed)
        world_wait(world, sim_check_is_over, false,
                   world->now + world_patience(world) + 2 * s->timeout + s->outage);
    if (!world->failed)
        world_drain(world);
}

static void world_fini(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->network.nodes; i++)
        if (world->nodes[i].alive)
            node_stop(world, &world->nodes[i]);
    for (uint32_t i = 0; i < world->network.nodes; i++)
        free(world->nodes[i].seen);
    for (uint32_t i = 0; i < world->sessions_count; i++) {
        free(world->sessions[i]->messages);
        free(world->sessions[i]);
    }
    free(world->sessions);
    free(world->faults);
    free(world->scratch);
    sim_events_fini(&world->events);
    sim_network_fini(&world->network);
}

bool sim_world_run(uint64_t seed, bool crowd, bool verbose, uint64_t *digest, uint64_t *delivered)
{
    struct sim_world *world = sim_memory(sizeof *world);
    bool passed;

    if (crowd)
        sim_scenario_draw_crowd(&world->scenario, seed);
    else
        sim_scenario_draw(&world->scenario, seed);
    sim_network_init(&world->network, &world->scenario, &world->events);
    world->random = seed ^ 0x776f726c64;
    world->random_join = seed ^ 0x6c617465;
    world->random_skip = seed ^ 0x736b6970;
    world->verbose = verbose;
    world->scratch = sim_memory(WORLD_SCRATCH);
    if (verbose)
        sim_scenario_print(&world->scenario, stdout);
    world_play(world);
    world_fini(world);
    passed = !world->failed;
    *digest = world->digest;
    *delivered = world->delivered;
    free(world);
    return passed;
}
