/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growth with the number of receivers, topics and sessions, by simulation (multitude.h). Prints one line
 * of JSON.
 *
 *   scale losses RECEIVERS PACKETS SEED     one transmitter; no, independent and shared losses; their repair
 *   scale port RECEIVERS PACKETS SEED RATE PPM
 *                                           independent losses only, at so many packets a second
 *   scale topics RECEIVERS TOPICS SEED      late joiners that watch 1 % of the topics each
 *   scale sessions SESSIONS MESSAGES 0      one receiver of many sessions, in processor time
 *   scale check                             a short run, which fails if a bound is exceeded
 *
 * All figures except those in processor time (pause_us, and those of sessions) are the same in every run.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "many_sessions.h"
#include "multitude.h"

enum {
    MESSAGE_SIZE = 300,
    LOSS_PORT_PPM = 100,   /* 0.01 % */
    LOSS_TRUNK_PPM = 1000, /* 0.1 % */
    WATCH_PERCENT = 1,
    CROWD = 10000, /* so many that switches drop reports when all join at the same time */
};

#define DISTANCE (20 * MULTITUDE_US) /* 50,000 packets a second */

/* Packets that are sent, and the losses of each kind. */
struct traffic {
    uint64_t packets;
    lli_ns distance; /* from one packet to the next */
    uint32_t port_ppm;
};

#define SETTLE_MAX (30 * MULTITUDE_S)

/* Results of one run. */
struct result {
    uint32_t receivers;
    const char *kind;
    lli_ns duration;
    uint64_t sent, delivered;
    struct multitude_figures figures;
    uint64_t pause_ns;
    lli_ns rtt;          /* of the group */
    double repair_us[3]; /* median, 99th percentile, maximum; negative: none was lost */
    lli_ns known_after;  /* time until the transmitter knew all receivers */
    struct multitude_figures joining;
    size_t transmitter_bytes, member_bytes, receiver_bytes;
};

/* ------------------------------------------------------------------------------------------------ losses */

static int compare_samples(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void repair_times(struct multitude *m, double repair_us[3])
{
    static const double shares[] = {0.5, 0.99, 1};

    if (m->samples_count > 0)
        qsort(m->samples, m->samples_count, sizeof *m->samples, compare_samples);
    for (int i = 0; i < 3; i++)
        repair_us[i] = m->samples_count == 0
                           ? -1
                           : m->samples[(size_t)((double)(m->samples_count - 1) * shares[i])] / 1e3;
}

static struct multitude_figures difference(const struct multitude_figures *after,
                                           const struct multitude_figures *before)
{
    struct multitude_figures result = *after;

    /* All fields are 64-bit counters. */
    for (size_t i = 0; i < sizeof result / sizeof(uint64_t); i++) {
        uint64_t value;

        memcpy(&value, (const char *)before + i * sizeof value, sizeof value);
        ((uint64_t *)(void *)&result)[i] -= value;
    }
    return result;
}

static const char *const kinds[] = {"none", "port", "trunk"};

enum { PORT = 1, KINDS = 3 };

/* Measures while packets are sent and lost. */
static struct result measure(struct multitude *m, const char *kind, const struct traffic *traffic)
{
    const uint64_t packets = traffic->packets;
    struct result result = {.receivers = m->config.receivers, .kind = kind, .sent = packets};
    const struct multitude_figures begin = multitude_now(m);
    struct multitude_figures end;

    fabric_lose(&m->fabric, strcmp(kind, "port") == 0 ? traffic->port_ppm : 0,
                strcmp(kind, "trunk") == 0 ? LOSS_TRUNK_PPM : 0);
    multitude_send(m, packets, traffic->distance);
    multitude_run(m, packets * traffic->distance);
    if (!multitude_until(m, multitude_is_done, 10 * MULTITUDE_S))
        multitude_fail(m, "not everything was delivered");
    end = multitude_now(m);
    result.figures = difference(&end, &begin);
    result.duration = result.figures.at;
    result.pause_ns = m->pause_ns;
    result.rtt = m->tx.group.rtt;
    for (uint32_t i = 0; i < m->config.receivers; i++) {
        if (m->receivers[i].delivered != packets)
            multitude_fail(m, "a receiver does not have each message once");
        result.delivered += m->receivers[i].delivered;
    }
    repair_times(m, result.repair_us);
    result.transmitter_bytes = m->transmitter_bytes;
    result.member_bytes = m->member_bytes;
    result.receiver_bytes = m->receiver_bytes;
    return result;
}

/* All receivers join at the same time; then each kind of loss is measured. */
static void run_losses(uint32_t receivers, const struct traffic *traffic, uint64_t seed,
                       struct result results[KINDS])
{
    static struct multitude m;
    const struct multitude_config config = {.receivers = receivers,
                                            .topics = 1,
                                            .watch_percent = 100,
                                            .message_size = MESSAGE_SIZE,
                                            .seed = seed};
    struct multitude_figures begin, end;
    lli_ns known_after;

    multitude_open(&m, &config, false);
    begin = multitude_now(&m);
    if (!multitude_until(&m, multitude_is_known, 60 * MULTITUDE_S))
        multitude_fail(&m, "the transmitter does not know all receivers");
    known_after = m.fabric.now - begin.at;
    multitude_run(&m, MULTITUDE_S - known_after);
    end = multitude_now(&m);
    /* Most of them report as rarely then as their number asks for. */
    multitude_run(&m, lli_min((lli_ns)receivers * 25 * MULTITUDE_MS, SETTLE_MAX));
    for (int i = 0; i < KINDS; i++) {
        results[i] = measure(&m, kinds[i], traffic);
        results[i].known_after = known_after;
        results[i].joining = difference(&end, &begin);
    }
    multitude_close(&m);
}

static void print_losses(const struct result *r)
{
    const struct multitude_figures *f = &r->figures;
    const struct lli_tx_counters *c = &f->counters;
    const double s = (double)r->duration / 1e9, distinct = (double)lli_max(f->lost_distinct, 1);

    printf("{\"what\": \"losses\", \"receivers\": %u, \"loss\": \"%s\", \"sent\": %llu, \"received\": %llu, "
           "\"lost\": 0, "
           "\"virtual_s\": %.4f, ",
           r->receivers, r->kind, (unsigned long long)r->sent, (unsigned long long)r->delivered, s);
    printf("\"packets_per_s\": %.1f, \"data_per_s\": %.1f, \"naks_per_s\": %.1f, \"status_per_s\": %.1f, ",
           (double)c->packets_sent / s, (double)c->packets_data / s, (double)c->naks_received / s,
           (double)c->status_received / s);
    printf(
        "\"repairs_multicast_per_s\": %.1f, \"repairs_unicast_per_s\": %.1f, \"repair_bytes_per_s\": %.0f, "
        "\"repair_share\": %.5f, ",
        (double)c->repairs_multicast / s, (double)(c->packets_repaired - c->repairs_multicast) / s,
        (double)f->repair_bytes / s, (double)c->packets_repaired / (double)c->packets_data);
    printf("\"packets_lost\": %llu, \"packets_lost_by_any\": %llu, \"naks_per_lost_packet\": %.3f, "
           "\"repairs_per_lost_packet\": %.3f, \"status_per_packet\": %.4f, ",
           (unsigned long long)f->lost, (unsigned long long)f->lost_distinct,
           (double)c->naks_received / distinct, (double)c->packets_repaired / distinct,
           (double)c->status_received / (double)c->packets_data);
    printf("\"repair_us\": ");
    if (r->repair_us[0] < 0)
        printf("{\"median\": null, \"p99\": null, \"max\": null}, ");
    else
        printf("{\"median\": %.1f, \"p99\": %.1f, \"max\": %.1f}, ", r->repair_us[0], r->repair_us[1],
               r->repair_us[2]);
    printf("\"drops\": {\"to_transmitter\": %llu, \"others\": %llu}, ",
           (unsigned long long)f->drops_transmitter, (unsigned long long)f->drops);
    printf("\"memory\": {\"transmitter_kib\": %.1f, \"transmitter_bytes_per_receiver\": %zu, "
           "\"receiver_kib\": %.1f}, ",
           (double)r->transmitter_bytes / 1024, r->member_bytes, (double)r->receiver_bytes / 1024);
    printf("\"join\": {\"known_ms\": %.3f, \"status\": %llu, \"drops\": %llu}, ",
           (double)r->known_after / 1e6, (unsigned long long)r->joining.counters.status_received,
           (unsigned long long)r->joining.drops_transmitter);
    printf("\"group_rtt_us\": %.1f, \"transmitter\": {\"pause_us\": %.1f, "
           "\"steps_per_packet\": %.2f}}\n",
           (double)r->rtt / 1e3, (double)r->pause_ns / 1e3, (double)f->steps / (double)c->packets_data);
}

/* ------------------------------------------------------------------------------------------------ topics */

/* Memory that the names of a session's topics take at a receiver. */
static size_t names_bytes(const struct multitude *m)
{
    const struct lli_topics *topics = &m->receivers[0].rx.topics;

    return topics->limit * sizeof *topics->entries + topics->text_used;
}

static int compare_times(const void *a, const void *b)
{
    const lli_ns x = *(const lli_ns *)a, y = *(const lli_ns *)b;

    return (x > y) - (x < y);
}

static void run_topics(uint32_t receivers, uint32_t topics, uint64_t seed)
{
    static struct multitude m;
    const struct multitude_config config = {.receivers = receivers,
                                            .topics = topics,
                                            .watch_percent = WATCH_PERCENT,
                                            .message_size = 100,
                                            .seed = seed};
    const uint32_t watched = topics * WATCH_PERCENT / 100;
    lli_ns *times = sim_memory(receivers * sizeof *times), began;
    struct multitude_figures begin, end, figures;
    uint64_t delivered = 0;

    multitude_open(&m, &config, true);
    while (m.named < topics) {
        multitude_run(&m, MULTITUDE_MS);
        multitude_topics(&m);
    }
    /* The session is no longer young: who joins now asks for the names. */
    multitude_run(&m, 2 * MULTITUDE_S);
    begin = multitude_now(&m);
    multitude_join(&m);
    if (!multitude_until(&m, multitude_has_names, 60 * MULTITUDE_S))
        multitude_fail(&m, "not all names are known");
    began = begin.at;
    end = multitude_now(&m);
    figures = difference(&end, &begin);
    for (uint32_t i = 0; i < receivers; i++)
        times[i] = m.receivers[i].known_at - began;
    qsort(times, receivers, sizeof *times, compare_times);
    multitude_send(&m, topics, DISTANCE);
    multitude_run(&m, topics * DISTANCE);
    if (!multitude_until(&m, multitude_is_done, 10 * MULTITUDE_S))
        multitude_fail(&m, "not everything was delivered");
    for (uint32_t i = 0; i < receivers; i++) {
        if (m.receivers[i].delivered != watched)
            multitude_fail(&m, "a receiver does not have each message that it watches once");
        delivered += m.receivers[i].delivered;
    }
    printf("{\"what\": \"topics\", \"receivers\": %u, \"topics\": %u, \"watched\": %u, \"sent\": %u, "
           "\"received\": %llu, "
           "\"lost\": 0, \"known_ms\": {\"median\": %.3f, \"max\": %.3f}, ",
           receivers, topics, watched, topics, (unsigned long long)delivered,
           (double)times[receivers / 2] / 1e6, (double)times[receivers - 1] / 1e6);
    printf("\"queries\": %llu, \"answers\": %llu, \"answers_dropped\": %llu, \"drops\": {\"to_transmitter\": "
           "%llu, "
           "\"others\": %llu}, ",
           (unsigned long long)figures.counters.queries_received,
           (unsigned long long)figures.counters.topics_sent,
           (unsigned long long)figures.counters.answers_dropped,
           (unsigned long long)figures.drops_transmitter, (unsigned long long)figures.drops);
    printf("\"bytes_sent\": %llu, \"receiver_kib\": %.1f, \"names_kib\": %.1f}\n",
           (unsigned long long)figures.counters.bytes_sent, (double)m.receiver_bytes / 1024,
           (double)names_bytes(&m) / 1024);
    multitude_close(&m);
    free(times);
}

/* ---------------------------------------------------------------------------------------------- sessions */

static void run_sessions(uint32_t sessions, uint64_t messages)
{
    const struct many_sessions_result result = many_sessions_run(sessions, messages);

    printf("{\"what\": \"sessions\", \"receivers\": 1, \"sessions\": %u, \"sent\": %llu, \"received\": %llu, "
           "\"lost\": %llu, \"ns_per_message\": %.1f}\n",
           sessions, (unsigned long long)result.sent, (unsigned long long)result.received,
           (unsigned long long)result.lost, result.ns_per_message);
}

/* ------------------------------------------------------------------------------------------------- check */

/* Fails unless a figure is within its bound. */
static void check(uint32_t receivers, const char *kind, const char *what, double value, double bound)
{
    if (value <= bound)
        return;
    (void)fprintf(stderr, "%u receivers, loss %s: %s: %.3f, at most %.3f\n", receivers, kind, what, value,
                  bound);
    exit(1);
}

/* Neither NAKs for a lost packet nor reports for a packet sent may grow faster than the logarithm. */
static void check_result(const struct result *r)
{
    const struct lli_tx_counters *c = &r->figures.counters;
    const double distinct = (double)lli_max(r->figures.lost_distinct, 1), growth = log2(r->receivers);
    const bool shared = strcmp(r->kind, "trunk") == 0;

    check(r->receivers, r->kind, "NAKs for a lost packet",
          (double)c->naks_received / (shared ? distinct : (double)lli_max(r->figures.lost, 1)),
          shared ? 2 + 2 * growth : 1.5);
    check(r->receivers, r->kind, "reports for a packet sent",
          (double)c->status_received / (double)c->packets_data, growth / 10);
    check(r->receivers, r->kind, "repairs for a lost packet", (double)c->packets_repaired / distinct, 2.5);
    check(r->receivers, r->kind, "packets dropped by queues",
          (double)(r->figures.drops + r->figures.drops_transmitter), 0);
    check(r->receivers, r->kind, "s until all are known", (double)r->known_after / 1e9, 1);
}

static void run_check(void)
{
    static const struct {
        uint32_t receivers;
        uint64_t packets;
    } runs[] = {{10, 20000}, {100, 20000}, {1000, 10000}, {CROWD, 100}};

    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const struct traffic traffic = {runs[i].packets, DISTANCE, LOSS_PORT_PPM};
        struct result results[KINDS];

        run_losses(runs[i].receivers, &traffic, i, results);
        for (int kind = 0; kind < KINDS; kind++) {
            print_losses(&results[kind]);
            if (runs[i].receivers != CROWD || kind == 0)
                check_result(&results[kind]);
        }
    }
}

int main(int argc, char **argv)
{
    struct result results[KINDS];
    uint64_t numbers[5] = {0};

    for (int i = 2; i < argc && i < 7; i++)
        numbers[i - 2] = strtoull(argv[i], NULL, 10);
    if (argc == 5 && strcmp(argv[1], "losses") == 0) {
        const struct traffic traffic = {numbers[1], DISTANCE, LOSS_PORT_PPM};

        run_losses((uint32_t)numbers[0], &traffic, numbers[2], results);
        for (int i = 0; i < KINDS; i++)
            print_losses(&results[i]);
    } else if (argc == 7 && strcmp(argv[1], "port") == 0 && numbers[3] > 0) {
        const struct traffic traffic = {numbers[1], MULTITUDE_S / numbers[3], (uint32_t)numbers[4]};

        run_losses((uint32_t)numbers[0], &traffic, numbers[2], results);
        print_losses(&results[PORT]);
    } else if (argc == 5 && strcmp(argv[1], "topics") == 0) {
        run_topics((uint32_t)numbers[0], (uint32_t)numbers[1], numbers[2]);
    } else if (argc == 5 && strcmp(argv[1], "sessions") == 0) {
        run_sessions((uint32_t)numbers[0], numbers[1]);
    } else if (argc == 2 && strcmp(argv[1], "check") == 0) {
        run_check();
    } else {
        (void)fprintf(stderr,
                      "usage: scale losses RECEIVERS PACKETS SEED | port RECEIVERS PACKETS SEED RATE PPM | "
                      "topics RECEIVERS TOPICS SEED | sessions SESSIONS MESSAGES 0 | check\n");
        return 2;
    }
    return 0;
}
