/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#define PICK(random, array) (array)[lli_random_below(random, sizeof(array) / sizeof *(array))]

/* Uniform in [low, high]. */
static uint64_t draw(uint64_t *random, uint64_t low, uint64_t high)
{
    return low + lli_random_below(random, high - low + 1);
}

static bool chance(uint64_t *random, uint32_t percent)
{
    return lli_random_below(random, 100) < percent;
}

static void draw_cast(struct sim_scenario *s, uint64_t *random)
{
    s->suppression = chance(random, 3);
    s->transmitters = chance(random, 30) ? (uint32_t)draw(random, 2, SIM_TRANSMITTERS_MAX) : 1;
    s->receivers = (uint32_t)(chance(random, 70) ? draw(random, 1, 8) : draw(random, 9, 40));
    if (s->suppression) {
        s->transmitters = 1;
        s->receivers = (uint32_t)draw(random, 100, SIM_RECEIVERS_MAX);
    }
    s->late =
        !s->suppression && chance(random, 40) ? (uint32_t)lli_random_below(random, s->receivers + 1) : 0;
    s->refusing = chance(random, 15);
}

static void draw_traffic(struct sim_scenario *s, uint64_t *random)
{
    static const uint32_t packet_max[] = {200, 300, 576, 1024, 1472, 1472, 1472, 8972};
    static const lli_ns pauses[] = {2 * SIM_US, 10 * SIM_US, 50 * SIM_US, 200 * SIM_US, 2 * SIM_MS};

    s->packet_max = PICK(random, packet_max);
    s->topics = (uint32_t)(chance(random, 60) ? draw(random, 1, 3) : draw(random, 1, SIM_TOPICS_MAX));
    s->sizes = (enum sim_sizes)lli_random_below(random, 4);
    if (s->sizes == SIM_SIZES_LARGE && s->receivers > 12)
        s->sizes = SIM_SIZES_SMALL;
    s->size_max = s->sizes == SIM_SIZES_SMALL    ? 200
                  : s->sizes == SIM_SIZES_PACKET ? s->packet_max
                  : s->sizes == SIM_SIZES_MIXED  ? 5 * s->packet_max
                                                 : (uint32_t)draw(random, 10000, 300000);
    s->messages =
        s->sizes == SIM_SIZES_LARGE ? (uint32_t)draw(random, 5, 30) : (uint32_t)draw(random, 1, 1500);
    if (s->receivers > 20)
        s->messages = s->messages / 3 + 1;
    s->burst = (uint32_t)(chance(random, 50) ? 1 : draw(random, 1, 100));
    s->pause_mean = PICK(random, pauses);
    s->traffic = s->suppression ? 2 * SIM_S : draw(random, 20 * SIM_MS, 400 * SIM_MS);
    s->claims = chance(random, 40);
    s->back_pressure = chance(random, 20);
    s->start = ((lli_seq)1 << 32) + (uint32_t)lli_random(random);
    if (chance(random, 50))
        s->start =
            ((lli_seq)(chance(random, 50) ? 1 : 2) << 32) - draw(random, 0, 2000) + draw(random, 0, 300);
    s->number = chance(random, 10) ? ((uint64_t)1 << 32) - draw(random, 0, 600) : 0;
}

static void draw_limits(struct sim_scenario *s, uint64_t *random)
{
    bool tight = chance(random, 30);

    s->history_packets = tight ? 64u << lli_random_below(random, 3) : 16384;
    s->history_bytes = tight ? lli_round_up(draw(random, 40, 200) * s->packet_max, 64) : (uint64_t)8 << 20;
    /* A message of any size fits twice into a history of normal size. */
    s->window_packets = chance(random, 30) ? 64u << lli_random_below(random, 3) : 2048;
    /* With very little memory much is repaired: only with few receivers, because of the time it takes. */
    s->reorder_bytes = (chance(random, 30) && s->receivers <= 8 ? 17u : 512u) * (uint64_t)s->packet_max;
    s->message_bytes_max = chance(random, 8) ? (uint32_t)draw(random, 1, 2000) : 1u << 20;
    s->receivers_max = chance(random, 15) ? (uint32_t)draw(random, 1, 4) : 1024;
    s->nak_receivers_immediate = chance(random, 80) ? 8 : (uint32_t)draw(random, 0, 3);
    s->repair_percent = chance(random, 70) ? 50 : (uint32_t)draw(random, 1, 100);
    s->repair_bytes_per_s = chance(random, 70) ? 33554432 : draw(random, 1u << 20, 1u << 23);
    s->inbox_packets = (uint32_t)draw(random, 16, 400);
    if (s->suppression) {
        s->history_packets = 16384;
        s->history_bytes = (uint64_t)8 << 20;
        s->reorder_bytes = (uint64_t)2048 * s->packet_max;
        s->window_packets = 2048;
        s->sizes = SIM_SIZES_SMALL;
        s->size_max = 100;
        s->receivers_max = 1024;
        s->nak_receivers_immediate = 8;
    }
}

static void draw_timers(struct sim_scenario *s, uint64_t *random)
{
    s->heartbeat_min = draw(random, 20, 1000) * SIM_US;
    s->heartbeat_max = draw(random, 5, 100) * SIM_MS;
    s->heartbeat_busy = draw(random, 1, 20) * SIM_MS;
    s->status = draw(random, 10, 100) * SIM_MS;
    s->silence = draw(random, 200, 500) * SIM_MS;
    s->timeout = (chance(random, 80) ? 10 : 1) * SIM_S;
    s->nak_delay = chance(random, 80) ? 0 : draw(random, 1, 500) * SIM_US;
    s->nak_backoff_min = draw(random, 10, 200) * SIM_US;
    s->nak_retry_min = draw(random, 20, 500) * SIM_US;
    s->nak_retry_max = draw(random, 1, 50) * SIM_MS;
    s->nak_giveup = chance(random, 90) ? 60 * SIM_S : draw(random, 50, 500) * SIM_MS;
    s->repair_linger = chance(random, 80) ? 20 * SIM_US : draw(random, 0, 1000) * SIM_US;
    if (s->suppression) {
        s->traffic = 2 * SIM_S;
        s->nak_giveup = 60 * SIM_S;
    }
}

static void draw_network(struct sim_scenario *s, uint64_t *random)
{
    static const uint32_t losses[] = {0, 0, 1000, 10000, 50000, 100000, 200000, 300000};
    static const lli_ns delays[] = {2 * SIM_US, 10 * SIM_US, 10 * SIM_US, 100 * SIM_US, SIM_MS, 10 * SIM_MS};

    s->delay_min = PICK(random, delays);
    s->delay_mean = draw(random, 0, s->delay_min);
    if (s->suppression) {
        s->loss_source = 20000;
        s->loss_burst = 1;
        return;
    }
    s->loss = PICK(random, losses);
    s->loss_source = chance(random, 50) ? 0 : PICK(random, losses);
    s->loss_burst = chance(random, 50) ? 1 : (uint32_t)draw(random, 2, 10);
    s->reorder = chance(random, 50) ? 0 : (uint32_t)draw(random, 0, 100000);
    s->duplicate = chance(random, 50) ? 0 : (uint32_t)draw(random, 0, 100000);
    s->truncate = chance(random, 70) ? 0 : (uint32_t)draw(random, 0, 30000);
    s->lossy_to_the_end = chance(random, 50);
}

/* Draws separate random numbers, so that scenarios of seeds that once failed stay as they were. */
static void draw_flow(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x9e3779b97f4a7c15);

    (void)lli_random(&random);
    s->flow.mode = (enum lli_flow_mode)(chance(&random, 60) ? LLI_FLOW_OPEN
                                                            : draw(&random, LLI_FLOW_PACED, LLI_FLOW_WINDOW));
    s->flow.window_packets = (uint32_t)draw(&random, 16, 1000);
    s->flow.quorum_percent = chance(&random, 50) ? 100 : (uint32_t)draw(&random, 1, 100);
    s->flow.bytes_per_s_max = chance(&random, 80) ? 0 : draw(&random, 1u << 20, 1u << 27);
    s->flow.window_bytes = chance(&random, 50) ? 0 : s->history_bytes / 2;
    if (s->flow.window_bytes != 0 && chance(&random, 50))
        s->flow.window_bytes =
            draw(&random, (uint64_t)SIM_WINDOW_PACKETS * s->packet_max, s->history_bytes / 2);
}

/* Likewise. */
static void draw_join(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x6a6f696e);

    (void)lli_random(&random);
    s->joining = !s->suppression && chance(&random, 50);
    s->join_else = (uint32_t)draw(&random, 0, 2);
    s->replay_bytes_per_s = chance(&random, 60) ? 33554432 : draw(&random, 1u << 18, 1u << 22);
    s->history_ns = s->joining && chance(&random, 15) ? draw(&random, 10, 300) * SIM_MS : 0;
}

/* Draws separate random numbers, and times as short as the others. */
static void draw_judge(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x736c6f77);

    (void)lli_random(&random);
    if (s->suppression || chance(&random, 40))
        return;
    s->slow = (struct lli_slow_policy){
        .most = (enum lli_standing)draw(&random, LLI_STANDING_WARNED, LLI_STANDING_EXPELLED),
        .dry = chance(&random, 15),
        .limits =
            {
                [LLM_THRESHOLD_NAKS] = draw(&random, 5, chance(&random, 50) ? 100 : 5000),
                [LLM_THRESHOLD_NAK_SHARE] = draw(&random, 20000, 400000),
                [LLM_THRESHOLD_LAG_PACKETS] = draw(&random, 30, 3000),
                [LLM_THRESHOLD_LAG_TIME] = draw(&random, 20, 500) * SIM_MS,
                [LLM_THRESHOLD_SILENCE] = s->status * 9 / 5,
            },
        .warn_percent = (uint32_t)draw(&random, 10, 50),
        .unicast_percent = (uint32_t)draw(&random, 50, 100),
        .patience = chance(&random, 50) ? 0 : draw(&random, 0, 300) * SIM_MS,
        .recover = draw(&random, 10, 300) * SIM_MS,
        .expel = chance(&random, 50) ? 0 : draw(&random, 20, 500) * SIM_MS,
        .rejoin = draw(&random, 20, 1000) * SIM_MS,
    };
    s->slow.limits[LLM_THRESHOLD_LAG_BYTES] = chance(&random, 50) ? 0 : draw(&random, 4096, s->history_bytes);
    s->slow.limits[LLM_THRESHOLD_ACK_TIME] = chance(&random, 50) ? 0 : draw(&random, 20, 500) * SIM_MS;
}

static void draw_name(struct sim_scenario *s, const char *text)
{
    (void)lli_ack_name_parse(text, strlen(text), &s->assurance.name[s->assurance.names++]);
}

uint32_t sim_scenario_store(const struct sim_scenario *s, uint32_t node)
{
    return node < s->transmitters || node >= s->transmitters + s->stores || node == s->named
               ? SIM_STORE_NONE
               : (node - s->transmitters) % s->store_names;
}

/* Draws separate random numbers. Some scenarios have fewer stores than have to acknowledge. */
static void draw_stores(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x73746f726573);
    char pattern[16];

    (void)lli_random(&random);
    if (s->assured == 0 || chance(&random, 70))
        return;
    s->stores = (uint32_t)draw(&random, 1, lli_min(s->receivers, 6));
    s->store_names = (uint32_t)draw(&random, 1, s->stores);
    s->stores_wanted =
        (uint32_t)(chance(&random, 8) ? s->store_names + 1 : draw(&random, 1, lli_min(s->store_names, 3)));
    (void)snprintf(pattern, sizeof pattern, "store-*:%u", s->stores_wanted);
    draw_name(s, pattern);
    s->assurance.receivers = chance(&random, 50) ? 0 : s->assurance.receivers;
}

/* Draws separate random numbers. */
static void draw_streams(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x73747265616d73);

    (void)lli_random(&random);
    s->streams = chance(&random, 40);
}

/* Draws separate random numbers. In some scenarios no receiver can ever acknowledge. */
static void draw_assured(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x61737375726564);

    (void)lli_random(&random);
    if (s->suppression || chance(&random, 55))
        return;
    s->assured = (uint32_t)draw(&random, 1, lli_min(s->topics, SIM_ASSURED_MAX));
    s->application_percent = chance(&random, 50) ? 0 : (uint32_t)draw(&random, 10, 100);
    s->assurance = (struct lli_ack_rule){
        .receivers =
            (uint32_t)(chance(&random, 8) ? s->receivers + 1 : draw(&random, 1, lli_min(s->receivers, 3))),
        .messages_max = chance(&random, 50) ? draw(&random, 1, 20) : draw(&random, 20, 300),
        .bytes_max = s->history_bytes / 2,
        .patience = draw(&random, 1, 500) * SIM_MS,
    };
    if (chance(&random, 75))
        return;
    s->named = s->transmitters + (uint32_t)lli_random_below(&random, s->receivers);
    s->assurance.receivers = chance(&random, 50) ? 0 : s->assurance.receivers;
    draw_name(s, chance(&random, 90) ? "named" : "nobody");
}

/*
 * Draws separate random numbers. A receiver with a filter acknowledges nothing, so there are filters only
 * without assured topics.
 */
static void draw_filtering(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x66696c746572);

    (void)lli_random(&random);
    s->filtering = !s->suppression && s->assured == 0 && chance(&random, 60);
}

/* Draws separate random numbers. The oracles of acknowledgements and of cached messages count numbers. */
static void draw_skipping(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x736b6970);

    (void)lli_random(&random);
    s->skipping = !s->suppression && s->assured == 0 && s->keeps == 0 && chance(&random, 30);
}

/* Draws separate random numbers. */
static void draw_order(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x6172726976616c);

    (void)lli_random(&random);
    s->arriving = chance(&random, 50);
}

/*
 * Draws separate random numbers. With unnoticed truncation, the missing end of a packet looks like a part of
 * the next loss, so nothing can be acknowledged across it.
 */
static void draw_unreliable(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x756e72656c);

    (void)lli_random(&random);
    if (!s->suppression && chance(&random, 40))
        s->unreliable = (uint32_t)draw(&random, 0, s->topics - s->assured);
}

/* Draws separate random numbers. */
static void draw_transients(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x7472616e73);

    (void)lli_random(&random);
    s->transients = !s->suppression && chance(&random, 50);
}

/* Draws separate random numbers. */
static void draw_keep(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x6b656570);

    (void)lli_random(&random);
    if (s->joining && chance(&random, 60))
        s->keeps =
            (uint32_t)(chance(&random, 50) ? 1 : draw(&random, 2, s->sizes == SIM_SIZES_LARGE ? 3 : 12));
}

/* 0, no limit, or a limit; low ones are as frequent as high ones. */
static uint64_t draw_limit(uint64_t *random, uint64_t low, uint32_t doublings)
{
    const uint64_t limit = low << lli_random_below(random, doublings);

    return chance(random, 25) ? 0 : draw(random, limit, 2 * limit);
}

/*
 * Draws separate random numbers. In half of the scenarios the limits change while messages flow, and after.
 */
static void draw_rates(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x7261746573);
    uint32_t count;
    lli_ns at = 0;

    (void)lli_random(&random);
    if (s->suppression || chance(&random, 80))
        return;
    count = chance(&random, 50) ? 1 : (uint32_t)draw(&random, 2, SIM_RATES_MAX);
    while (s->rates_count < count) {
        s->rates[s->rates_count++] =
            (struct sim_rate){at, draw_limit(&random, 65536, 9), draw_limit(&random, 1u << 18, 6)};
        at += draw(&random, 0, s->traffic / 2);
    }
}

/*
 * Draws separate random numbers, after everything else. Two thirds of the cuts are of one line, and some are so
 * long that it is down. Forged packets are for one line: they may change what is known of two.
 */
static void draw_lines(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x6c696e6573);

    (void)lli_random(&random);
    s->lines = 1;
    /*
     * A receiver that goes on with a session after a time-out may acknowledge messages of a topic that it refused
     * before, until it knows the name: the longer that takes, the likelier.
     */
    if (s->suppression || s->forging || (s->refusing && s->assured > 0) || chance(&random, 70))
        return;
    s->lines = 2;
    s->skew = chance(&random, 30) ? 0 : draw(&random, 1, chance(&random, 70) ? 300 : 5000) * SIM_US;
    for (uint32_t i = 0; i < s->faults_count; i++) {
        struct sim_fault *fault = &s->faults[i];

        fault->one_line = fault->kind == SIM_FAULT_CUT && chance(&random, 67);
        fault->line = (uint32_t)draw(&random, 0, 1);
        if (fault->one_line && chance(&random, 50))
            fault->ns = draw(&random, 100, 1500) * SIM_MS;
    }
}

/* Likewise. Forged packets are for receivers that know nothing of seals. */
static void draw_seals(struct sim_scenario *s)
{
    uint64_t random = s->seed ^ UINT64_C(0x7365616c73);

    (void)lli_random(&random);
    s->sealing = !s->suppression && !s->forging && !chance(&random, 75);
}

static void draw_fault(struct sim_scenario *s, uint64_t *random)
{
    struct sim_fault fault = {.at = lli_random_below(random, s->traffic)};
    uint32_t receiver = s->transmitters + (uint32_t)lli_random_below(random, s->receivers);

    fault.node = (uint32_t)lli_random_below(random, s->transmitters + s->receivers);
    fault.kind = (enum sim_fault_kind)lli_random_below(random, SIM_FAULT_FORGE + 1);
    switch (fault.kind) {
    case SIM_FAULT_PAUSE:
        fault.node = receiver;
        fault.ns = draw(random, 1, chance(random, 80) ? 30 : 700) * SIM_MS;
        break;
    case SIM_FAULT_CUT:
        fault.ns = draw(random, 1, chance(random, 80) ? 30 : 700) * SIM_MS;
        fault.in = chance(random, 70);
        fault.out = !fault.in || chance(random, 50);
        break;
    case SIM_FAULT_STEP:
        fault.ns = chance(random, 80) ? draw(random, 1, 200) * SIM_MS : draw(random, 1, 30) * SIM_S;
        break;
    case SIM_FAULT_LEAVE:
        fault.node = receiver;
        fault.ns = draw(random, 1, 100) * SIM_MS;
        break;
    case SIM_FAULT_CRASH:
    case SIM_FAULT_FORGE:
    case SIM_FAULT_RESTART:
    case SIM_FAULT_RESUME:
    case SIM_FAULT_RATE:
        fault.ns = draw(random, 1, 100) * SIM_MS;
        s->forging |= fault.kind == SIM_FAULT_FORGE;
        break;
    }
    if (fault.kind == SIM_FAULT_PAUSE || fault.kind == SIM_FAULT_CUT || fault.kind == SIM_FAULT_STEP)
        s->outage += fault.ns;
    s->faults[s->faults_count++] = fault;
}

void sim_scenario_draw(struct sim_scenario *s, uint64_t seed)
{
    uint64_t random = seed;
    uint64_t faults;

    /* Neighbouring seeds must not draw shifted sequences of the same numbers. */
    random = lli_random(&random);
    *s = (struct sim_scenario){.seed = seed};
    draw_cast(s, &random);
    draw_traffic(s, &random);
    draw_limits(s, &random);
    draw_flow(s);
    draw_timers(s, &random);
    draw_network(s, &random);
    draw_judge(s);
    draw_assured(s);
    draw_stores(s);
    draw_streams(s);
    draw_filtering(s);
    draw_order(s);
    draw_unreliable(s);
    draw_transients(s);
    faults = s->suppression || chance(&random, 40) ? 0 : draw(&random, 1, 12);
    while (s->faults_count < faults)
        draw_fault(s, &random);
    draw_join(s);
    draw_keep(s);
    draw_rates(s);
    draw_lines(s);
    draw_seals(s);
    draw_skipping(s);
}

/* No faults but those caused by the number of joins. */
void sim_scenario_draw_crowd(struct sim_scenario *s, uint64_t seed)
{
    uint64_t random = seed;

    *s = (struct sim_scenario){
        .seed = seed,
        .crowd = true,
        .lines = 1,
        .joining = true,
        .transmitters = 1,
        .receivers = SIM_CROWD + SIM_CROWD_LIVE,
        .late = SIM_CROWD,
        .topics = 2,
        .messages = 1000000,
        .burst = 2,
        .pause_mean = 8 * SIM_MS,
        .traffic = 10 * SIM_S,
        .sizes = SIM_SIZES_SMALL,
        .size_max = 400,
        .start = (lli_seq)1 << 32,
        .packet_max = 1472,
        .history_bytes = (uint64_t)8 << 20,
        .history_packets = 4096,
        .receivers_max = 2000,
        .window_packets = 128,
        .reorder_bytes = 64 * 1472,
        .message_bytes_max = 1u << 20,
        .nak_receivers_immediate = 8,
        .repair_percent = 50,
        .repair_bytes_per_s = 33554432,
        .heartbeat_min = 30 * SIM_US,
        .heartbeat_max = 100 * SIM_MS,
        .heartbeat_busy = 10 * SIM_MS,
        .status = 100 * SIM_MS,
        .silence = 500 * SIM_MS,
        .timeout = 10 * SIM_S,
        .nak_backoff_min = 50 * SIM_US,
        .nak_retry_min = 50 * SIM_US,
        .nak_retry_max = 10 * SIM_MS,
        .nak_giveup = 60 * SIM_S,
        .repair_linger = 20 * SIM_US,
        .delay_min = 10 * SIM_US,
        .delay_mean = 5 * SIM_US,
        .loss = 10000,
        .loss_burst = 1,
        .inbox_packets = 16,
        .lossy_to_the_end = true,
    };
    s->replay_bytes_per_s = draw(&random, 1u << 23, 1u << 25);
    /* In half of the scenarios the receiver that reports last decides how far the transmitter may send. */
    if (seed % 2 != 0)
        return;
    s->flow.mode = LLI_FLOW_WINDOW;
    s->flow.window_packets = 2048;
    s->flow.quorum_percent = 100;
}

static void print_fault(const struct sim_fault *fault, FILE *file)
{
    static const char *const names[] = {"pause", "cut",     "step",   "crash", "leave",
                                        "forge", "restart", "resume", "rate"};

    (void)fprintf(file, "  at %9.3f ms: %s node %u for %.3f ms%s%s\n", (double)fault->at / 1e6,
                  names[fault->kind], fault->node, (double)fault->ns / 1e6, fault->in ? " in" : "",
                  fault->out ? " out" : "");
}

void sim_scenario_print(const struct sim_scenario *s, FILE *file)
{
    (void)fprintf(
        file,
        "scenario %llu%s: %u transmitters (nodes 0 on), %u receivers (nodes %u on), %u of them late%s\n",
        (unsigned long long)s->seed, s->suppression ? " (suppression)" : "", s->transmitters, s->receivers,
        s->transmitters, s->late, s->refusing ? ", some refuse topics" : "");
    if (s->lines > 1)
        (void)fprintf(file, "  two lines, the second later by %llu us\n",
                      (unsigned long long)(s->skew / SIM_US));
    if (s->sealing)
        (void)fprintf(file, "  most receivers deliver only what is sealed\n");
    if (s->unreliable > 0)
        (void)fprintf(file, "  %u topics are unreliable, the last ones\n", s->unreliable);
    if (s->transients)
        (void)fprintf(file, "  some topics have no history\n");
    if (s->skipping)
        (void)fprintf(file, "  transmitters leave numbers out\n");
    if (s->filtering)
        (void)fprintf(file, "  messages have labels, and most receivers want some of them\n");
    if (s->arriving)
        (void)fprintf(file, "  some receivers take messages as they arrive\n");
    (void)fprintf(
        file, "  %u messages of at most %u bytes on %u topics, %u at a time, every %.1f us for %.1f ms%s%s\n",
        s->messages, s->size_max, s->topics, s->burst, (double)s->pause_mean / 1e3, (double)s->traffic / 1e6,
        s->claims ? ", claims" : "", s->back_pressure ? ", back-pressure" : "");
    (void)fprintf(file,
                  "  from packet %llu, message %llu; packets of %u, history %u packets %llu bytes, window "
                  "%u, reorder %llu\n",
                  (unsigned long long)s->start, (unsigned long long)s->number, s->packet_max,
                  s->history_packets, (unsigned long long)s->history_bytes, s->window_packets,
                  (unsigned long long)s->reorder_bytes);
    (void)fprintf(
        file, "  message_bytes_max %u, receivers_max %u, immediate %u, repair %u %% + %llu B/s, inbox %u\n",
        s->message_bytes_max, s->receivers_max, s->nak_receivers_immediate, s->repair_percent,
        (unsigned long long)s->repair_bytes_per_s, s->inbox_packets);
    if (s->flow.mode != LLI_FLOW_OPEN)
        (void)fprintf(file, "  flow %s, window %u packets, %llu bytes, quorum %u %%, at most %llu B/s\n",
                      s->flow.mode == LLI_FLOW_PACED ? "paced" : "window", s->flow.window_packets,
                      (unsigned long long)s->flow.window_bytes, s->flow.quorum_percent,
                      (unsigned long long)s->flow.bytes_per_s_max);
    if (s->slow.most != LLI_STANDING_FINE)
        (void)fprintf(
            file,
            "  slow receivers: at most %u%s, %llu NAKs/s, %llu ppm, %llu packets, %llu bytes, %llu us "
            "behind, "
            "%llu us to acknowledge, patience %llu, "
            "recover %llu, expel %llu, rejoin %llu us\n",
            s->slow.most, s->slow.dry ? " (dry)" : "", (unsigned long long)s->slow.limits[LLM_THRESHOLD_NAKS],
            (unsigned long long)s->slow.limits[LLM_THRESHOLD_NAK_SHARE],
            (unsigned long long)s->slow.limits[LLM_THRESHOLD_LAG_PACKETS],
            (unsigned long long)s->slow.limits[LLM_THRESHOLD_LAG_BYTES],
            (unsigned long long)(s->slow.limits[LLM_THRESHOLD_LAG_TIME] / SIM_US),
            (unsigned long long)(s->slow.limits[LLM_THRESHOLD_ACK_TIME] / SIM_US),
            (unsigned long long)(s->slow.patience / SIM_US), (unsigned long long)(s->slow.recover / SIM_US),
            (unsigned long long)(s->slow.expel / SIM_US), (unsigned long long)(s->slow.rejoin / SIM_US));
    if (s->assured > 0)
        (void)fprintf(
            file,
            "  %u topics acknowledged by %u receivers%s%s and %u of %u stores of %u names, %u %% by "
            "applications, %llu messages before, patience %llu us\n",
            s->assured, s->assurance.receivers, s->named != 0 ? " and " : "",
            s->named != 0 ? s->assurance.name[0].text : "", s->stores_wanted, s->stores, s->store_names,
            s->application_percent, (unsigned long long)s->assurance.messages_max,
            (unsigned long long)(s->assurance.patience / SIM_US));
    (void)fprintf(
        file, "  us: heartbeat %llu..%llu busy %llu, status %llu, silence %llu, timeout %llu, giveup %llu\n",
        (unsigned long long)(s->heartbeat_min / SIM_US), (unsigned long long)(s->heartbeat_max / SIM_US),
        (unsigned long long)(s->heartbeat_busy / SIM_US), (unsigned long long)(s->status / SIM_US),
        (unsigned long long)(s->silence / SIM_US), (unsigned long long)(s->timeout / SIM_US),
        (unsigned long long)(s->nak_giveup / SIM_US));
    (void)fprintf(
        file, "  us: nak delay %llu, backoff %llu, retry %llu..%llu, linger %llu\n",
        (unsigned long long)(s->nak_delay / SIM_US), (unsigned long long)(s->nak_backoff_min / SIM_US),
        (unsigned long long)(s->nak_retry_min / SIM_US), (unsigned long long)(s->nak_retry_max / SIM_US),
        (unsigned long long)(s->repair_linger / SIM_US));
    (void)fprintf(
        file,
        "  delay %.1f + %.1f us; ppm: loss %u, at the source %u, in runs of %u%s, reorder %u, duplicate %u, "
        "truncate %u\n",
        (double)s->delay_min / 1e3, (double)s->delay_mean / 1e3, s->loss, s->loss_source, s->loss_burst,
        s->lossy_to_the_end ? " to the end" : "", s->reorder, s->duplicate, s->truncate);
    if (s->joining)
        (void)fprintf(file, "  receivers join late, else %u; replays %llu B/s, history %llu us\n",
                      s->join_else, (unsigned long long)s->replay_bytes_per_s,
                      (unsigned long long)(s->history_ns / SIM_US));
    if (s->keeps > 0)
        (void)fprintf(file, "  most topics keep %u messages for them\n", s->keeps);
    for (uint32_t i = 0; i < s->rates_count; i++)
        (void)fprintf(file, "  at %9.3f ms: limits, 0: none: data %llu B/s, repairs %llu B/s\n",
                      (double)s->rates[i].at / 1e6, (unsigned long long)s->rates[i].bytes_per_s,
                      (unsigned long long)s->rates[i].repair_bytes_per_s);
    for (uint32_t i = 0; i < s->faults_count; i++)
        print_fault(&s->faults[i], file);
}
