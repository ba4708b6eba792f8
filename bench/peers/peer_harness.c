/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "peer_harness.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "../histogram.h"
#include "../machine.h"
#include "../options.h"
#include "../peer.h"
#include "peer_control.h"

#define HARNESS_NO_CPU 4096
#define HARNESS_WARMUP_NS 300000000ull
#define HARNESS_LEAD_NS 1000000ull      /* from the answer that the far end is ready to the first message */
#define HARNESS_GRACE_NS 50000000ull    /* a stream that is later than this has not reached its rate, and is ended */
#define HARNESS_BURST 256               /* overdue messages sent between two polls */
#define HARNESS_SAMPLES_PER_S 1000
#define HARNESS_TRIES 10
#define HARNESS_STEP 0.9                /* of the rate reached, after a loss */
#define HARNESS_HELLO_NS 20000000ull    /* between two greetings */
#define HARNESS_LOOK_NS 5000000ull      /* between two looks for a request, while messages come */
#define HARNESS_SILENCE_NS 1000000000ull /* nothing has come for so long: what is missing is lost */
#define HARNESS_ANSWER_NS 60000000000ull  /* longer than any library takes to settle */
#define HARNESS_IDLE_NS 100000ull       /* between two polls while nothing is measured */
#define HARNESS_SLEEP_NS 1000000ull     /* the longest sleep at full rate */

/* The values of the answer to PEER_END. */
enum harness_value {
    FAR_RECEIVED,
    FAR_LOST,
    FAR_DISORDERED,
    FAR_REFLECTED,
    FAR_NS,
    FAR_RESIDENT_KIB,
    FAR_WAITED_NS,
};

struct harness_options {
    const char *role;
    const char *work;
    uint64_t size;
    uint64_t rate;
    uint64_t duration_ns;
    uint64_t patience_ns;
    uint64_t cpu;
    uint64_t batch;
    const char *idle;
    const char *read;
};

/* A steady stream: message i is due at start + i * interval. interval 0: as fast as they are taken. */
struct harness_schedule {
    uint64_t start;
    uint64_t end;
    double interval_ns;
    uint64_t total;
    uint64_t warmup; /* the first so many of the total */
    uint64_t stamp_every;
};

struct harness {
    const struct harness_peer *peer;
    enum harness_idle idle;
    int control; /* the connection to the other end */
    char *message;
    bool refused;
    uint64_t read; /* the sum of what was read */
    struct histogram rtt;
    uint64_t waited_ns; /* of this process when the measurement began */

    /* Written by whoever delivers, which may be a thread of the library. */
    _Atomic uint64_t hellos;
    _Atomic uint64_t expected; /* sequence of the next message */
    _Atomic uint64_t received; /* measured messages */
    _Atomic uint64_t lost;
    _Atomic uint64_t disordered;
    _Atomic uint64_t reflected;
    _Atomic uint64_t returned;
    _Atomic uint64_t first_at; /* when the first and the last measured messages came */
    _Atomic uint64_t last_at;
    _Atomic uint64_t heard_at;
};

static struct harness harness = {.control = -1};

static struct harness_link harness_link = {
    .variant = "",
    .interface = "",
    .address = "",
    .peer_address = "",
    .directory = "",
    .common = "",
};

static struct harness_options harness_options = {
    .role = "",
    .work = "",
    .size = 45,
    .rate = 10000,
    .duration_ns = 2000000000,
    .patience_ns = 15000000000,
    .cpu = HARNESS_NO_CPU,
    .idle = "",
    .read = "header",
};

static const struct option_spec harness_specs[] = {
    {.name = "role", .kind = OPTION_CHOICE, .value = &harness_options.role, .argument = "ROLE", .choices = "near far",
     .help = "near (sends and reports) or far"},
    {.name = "work", .kind = OPTION_CHOICE, .value = &harness_options.work, .argument = "WORK", .choices = "reflector throughput",
     .help = "reflector (latency of a hop) or throughput (highest lossless rate)"},
    {.name = "variant", .kind = OPTION_TEXT, .value = &harness_link.variant, .argument = "NAME",
     .help = "which of its transports the library uses, if it has several"},
    {.name = "size", .kind = OPTION_NUMBER, .value = &harness_options.size, .argument = "N", .min = sizeof(struct peer_header),
     .max = 65507, .help = "bytes of a message (45); the reflector's at least 24"},
    {.name = "rate", .kind = OPTION_NUMBER, .value = &harness_options.rate, .argument = "N", .min = 0, .max = 100000000,
     .help = "messages a second, reflector only (10000); 0: each when the one before has come back"},
    {.name = "duration", .kind = OPTION_SECONDS, .value = &harness_options.duration_ns, .argument = "SECONDS", .min = 50000000,
     .max = 3600000000000, .help = "of the measurement (2)"},
    {.name = "interface", .kind = OPTION_TEXT, .value = &harness_link.interface, .argument = "NAME", .help = "to the other end"},
    {.name = "address", .kind = OPTION_TEXT, .value = &harness_link.address, .argument = "IP", .help = "of this end"},
    {.name = "peer-address", .kind = OPTION_TEXT, .value = &harness_link.peer_address, .argument = "IP", .help = "of the other"},
    {.name = "directory", .kind = OPTION_TEXT, .value = &harness_link.directory, .argument = "DIR",
     .help = "for files of the library, this end's alone"},
    {.name = "common", .kind = OPTION_TEXT, .value = &harness_link.common, .argument = "DIR",
     .help = "of both ends: they share memory; without interface and addresses"},
    {.name = "cpu", .kind = OPTION_NUMBER, .value = &harness_options.cpu, .argument = "N", .min = 0, .max = 4095,
     .help = "run on this CPU and no other, with all threads of the library"},
    {.name = "batch", .kind = OPTION_NUMBER, .value = &harness_options.batch, .argument = "N", .min = 0, .max = 65536,
     .help = "messages between two polls at full rate (the peer's own choice)"},
    {.name = "idle", .kind = OPTION_CHOICE, .value = &harness_options.idle, .argument = "HOW", .choices = "spin yield sleep",
     .help = "what to do when there is nothing to do (the peer's own choice)"},
    {.name = "read", .kind = OPTION_CHOICE, .value = &harness_options.read, .argument = "WHAT", .choices = "header all",
     .help = "of each message that comes (header)"},
    {.name = "wait", .kind = OPTION_SECONDS, .value = &harness_options.patience_ns, .argument = "SECONDS", .min = 0,
     .max = 3600000000000, .help = "how long to wait for the other end (15)"},
};

static struct option_program harness_program = {
    .summary = "usage: PEER --role near|far --work reflector|throughput --interface NAME --address IP --peer-address IP\n"
               "       PEER --role near|far --work reflector|throughput --common DIR\n\n"
               "One end of one measurement of a peer of libllm. bench/run peers runs both ends of all.",
    .examples = "",
    .specs = harness_specs,
    .count = sizeof harness_specs / sizeof harness_specs[0],
};

int harness_fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", harness_program.name, what, why);
    return -1;
}

bool harness_is_refused(void)
{
    return harness.refused;
}

/* ---------------------------------------------------------------------------------------------------------------- idle */

void harness_sleep(struct pollfd *fds, unsigned count, uint64_t until)
{
    uint64_t now = llm_clock();
    uint64_t left = until > now ? until - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};

    ppoll(fds, count, &timeout, NULL);
}

static void harness_idle(uint64_t until)
{
    switch (harness.idle) {
    case HARNESS_SPIN:
        break;
    case HARNESS_YIELD:
        sched_yield();
        break;
    case HARNESS_SLEEP:
        if (harness.peer->wait)
            harness.peer->wait(until);
        else
            harness_sleep(NULL, 0, until);
        break;
    }
}

void harness_prefer_idle(enum harness_idle idle)
{
    if (*harness_options.idle == '\0')
        harness.idle = idle;
}

/* Polls, and leaves the core to others for a while if nothing came. */
static void harness_rest(void)
{
    if (harness.peer->poll() == 0)
        harness_sleep(NULL, 0, llm_clock() + HARNESS_IDLE_NS);
}

static bool harness_send(const void *data, size_t size, bool more)
{
    harness.refused = harness.peer->send(data, size, more) == 0;
    return !harness.refused;
}

/* ------------------------------------------------------------------------------------------------------------ delivery */

static void harness_add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value, memory_order_relaxed);
}

static void harness_count(const struct peer_header *header)
{
    uint64_t expected = atomic_load_explicit(&harness.expected, memory_order_relaxed);

    if (header->sequence < expected) {
        harness_add(&harness.disordered, 1);
        return;
    }
    if (header->sequence > expected)
        harness_add(&harness.lost, header->sequence - expected);
    atomic_store_explicit(&harness.expected, (uint64_t)header->sequence + 1, memory_order_relaxed);
    if (header->kind != PEER_DATA)
        return;
    if (atomic_load_explicit(&harness.received, memory_order_relaxed) == 0)
        harness.first_at = llm_clock();
    harness_add(&harness.received, 1);
}

/* The way back is for a thousand messages a second; one that is not taken at once counts as lost there. */
static void harness_reflect(const void *data, size_t size)
{
    struct peer_stamped stamped;

    memcpy(&stamped, data, sizeof stamped);
    if (stamped.due_at == 0)
        return;
    harness.peer->send(data, size, false);
    harness_add(&harness.reflected, 1);
}

static void harness_take_return(const void *data)
{
    struct peer_stamped stamped;

    memcpy(&stamped, data, sizeof stamped);
    harness_add(&harness.returned, 1);
    if (stamped.header.kind == PEER_DATA)
        histogram_add(&harness.rtt, llm_clock() - stamped.due_at);
}

/* As a program would that has a use for its messages: in shared memory a line that nobody reads does not cross from core to core. */
static void harness_read_all(const uint8_t *data, size_t size)
{
    uint64_t sum = 0;
    uint64_t word;

    for (; size >= sizeof word; data += sizeof word, size -= sizeof word) {
        memcpy(&word, data, sizeof word);
        sum += word;
    }
    while (size-- > 0)
        sum += *data++;
    harness.read += sum;
}

void harness_deliver(const void *data, size_t size)
{
    struct peer_header header;

    if (size != harness_options.size)
        return;
    if (harness_link.reads_all)
        harness_read_all(data, size);
    memcpy(&header, data, sizeof header);
    if (header.kind == PEER_HELLO) {
        harness_add(&harness.hellos, 1);
    } else if (header.kind == PEER_WARMUP || header.kind == PEER_DATA) {
        if (harness_link.near) {
            harness_take_return(data);
            return;
        }
        if (!harness_link.throughput)
            harness_reflect(data, size);
        harness_count(&header);
    }
}

void harness_delivered(void)
{
    uint64_t now = llm_clock();

    harness.heard_at = now;
    if (harness.received > 0)
        harness.last_at = now;
}

/* ---------------------------------------------------------------------------------------------------------------- near */

static uint64_t harness_due(const struct harness_schedule *schedule, uint64_t i)
{
    return schedule->start + (uint64_t)((double)i * schedule->interval_ns);
}

/*
 * Sends what is due, polls, and so on. When several are due, all but the last are sent with more, so that a library that packs
 * can send a backlog at once. Returns how many were taken.
 */
static uint64_t harness_stream_paced(const struct harness_schedule *schedule)
{
    uint64_t give_up_at = harness_due(schedule, schedule->total) + HARNESS_GRACE_NS;
    uint64_t due_at = schedule->start;
    uint64_t to_stamp = 0;
    uint64_t i = 0;

    while (i < schedule->total) {
        uint64_t now = llm_clock();

        for (int burst = 1; due_at <= now && i < schedule->total && burst <= HARNESS_BURST; burst++) {
            uint64_t next_due_at = harness_due(schedule, i + 1);
            bool more = next_due_at <= now && i + 1 < schedule->total && burst < HARNESS_BURST;
            struct peer_stamped stamped = {
                .header = {.sequence = (uint32_t)i, .kind = i < schedule->warmup ? PEER_WARMUP : PEER_DATA},
                .due_at = to_stamp == 0 ? due_at : 0,
                .submitted_at = now,
            };

            memcpy(harness.message, &stamped, sizeof stamped);
            if (!harness_send(harness.message, harness_options.size, more))
                break;
            to_stamp = to_stamp == 0 ? schedule->stamp_every - 1 : to_stamp - 1;
            due_at = next_due_at;
            i++;
        }
        if (harness.peer->poll() == 0)
            harness_idle(harness.refused ? now + HARNESS_SLEEP_NS : due_at);
        if (now > give_up_at)
            break;
    }
    return i;
}

/* Sends a message when the one before has come back. Returns how many were taken. */
static uint64_t harness_ping_pong(const struct harness_schedule *schedule)
{
    uint64_t give_up_at = schedule->end + HARNESS_SILENCE_NS;
    uint64_t i = 0;
    uint64_t now;

    while ((now = llm_clock()) < schedule->end || (harness.returned < i && now < give_up_at)) {
        struct peer_stamped stamped = {
            .header = {.sequence = (uint32_t)i, .kind = now - schedule->start < HARNESS_WARMUP_NS ? PEER_WARMUP : PEER_DATA},
            .due_at = now,
            .submitted_at = now,
        };

        if (harness.returned == i && now < schedule->end) {
            memcpy(harness.message, &stamped, sizeof stamped);
            i += harness_send(harness.message, harness_options.size, false);
        }
        if (harness.peer->poll() == 0)
            harness_idle(schedule->end);
    }
    return i;
}

/* How many messages of the batch the pace allows now. */
static uint64_t harness_allowed(const struct harness_schedule *schedule, uint64_t sent, uint64_t now)
{
    uint64_t batch = harness_options.batch;
    uint64_t due;

    if (schedule->interval_ns <= 0)
        return batch;
    due = (uint64_t)((double)(now - schedule->start) / schedule->interval_ns);
    if (due <= sent)
        return 0;
    return due - sent < batch ? due - sent : batch;
}

/* Returns how many of the count were taken. */
static uint64_t harness_batch(uint64_t first, uint64_t count, enum peer_kind kind)
{
    struct peer_header header = {.sequence = (uint32_t)first, .kind = kind};

    for (uint64_t i = 0; i < count; i++) {
        memcpy(harness.message, &header, sizeof header);
        if (!harness_send(harness.message, harness_options.size, i + 1 < count))
            return i;
        header.sequence++;
    }
    return count;
}

static uint64_t harness_stream_full(struct harness_schedule *schedule)
{
    enum peer_kind kind = PEER_WARMUP;
    uint64_t sent = 0;
    uint64_t now;

    while ((now = llm_clock()) < schedule->end) {
        uint64_t count = harness_allowed(schedule, sent, now);
        uint64_t taken;

        if (kind == PEER_WARMUP && now - schedule->start >= HARNESS_WARMUP_NS) {
            kind = PEER_DATA;
            schedule->warmup = sent;
        }
        taken = harness_batch(sent, count, kind);
        sent += taken;
        if (harness.peer->poll() == 0 && (harness.refused || count == 0))
            harness_idle(now + (count == 0 ? (uint64_t)schedule->interval_ns : HARNESS_SLEEP_NS));
    }
    return sent;
}

static struct harness_schedule harness_plan(double rate)
{
    uint64_t start = llm_clock() + HARNESS_LEAD_NS;
    struct harness_schedule schedule = {.start = start, .end = start + HARNESS_WARMUP_NS + harness_options.duration_ns};

    schedule.interval_ns = rate > 0 ? 1e9 / rate : 0;
    schedule.total = (uint64_t)((double)(schedule.end - start) * rate / 1e9);
    schedule.warmup = (uint64_t)((double)HARNESS_WARMUP_NS * rate / 1e9);
    schedule.stamp_every = rate > HARNESS_SAMPLES_PER_S ? (uint64_t)rate / HARNESS_SAMPLES_PER_S : 1;
    return schedule;
}

/* Makes a request and polls until it is answered. 0, or -1. */
static int harness_request(enum peer_kind kind, uint64_t value, struct peer_control *answer)
{
    struct peer_control request = {.header = {.kind = kind}, .values = {value}};
    uint64_t give_up_at = llm_clock() + HARNESS_ANSWER_NS;
    int came;

    if (control_send(harness.control, &request) != 0)
        return harness_fail("the other end", "has gone");
    while ((came = control_receive(harness.control, answer)) == 0) {
        if (llm_clock() > give_up_at)
            return harness_fail("the other end", "does not answer");
        harness_rest();
    }
    return came < 0 ? harness_fail("the other end", "has gone") : 0;
}

/* Sends greetings until one comes back: both directions work then, whatever the library does to make them. */
static int harness_greet(void)
{
    struct peer_stamped hello = {.header = {.kind = PEER_HELLO}};
    uint64_t give_up_at = llm_clock() + harness_options.patience_ns;

    while (harness.hellos == 0) {
        uint64_t until = llm_clock() + HARNESS_HELLO_NS;

        if (until > give_up_at)
            return harness_fail("no message came there and back", "the two directions do not both work");
        memcpy(harness.message, &hello, harness_options.size < sizeof hello ? harness_options.size : sizeof hello);
        harness_send(harness.message, harness_options.size, false);
        while (harness.hellos == 0 && llm_clock() < until)
            harness_rest();
    }
    return 0;
}

static void harness_await_returns(uint64_t wanted)
{
    uint64_t give_up_at = llm_clock() + HARNESS_SILENCE_NS;

    while (harness.returned < wanted && llm_clock() < give_up_at)
        harness_rest();
}

static const char *harness_label(void)
{
    return *harness_link.variant ? harness_link.variant : harness.peer->name;
}

static void harness_print_memory(const struct peer_control *far)
{
    printf(" near_mib=%.1f far_mib=%.1f waited_ms=%.1f\n", machine_resident_mib(), (double)far->values[FAR_RESIDENT_KIB] / 1024,
           (double)(machine_waited_ns() - harness.waited_ns + far->values[FAR_WAITED_NS]) / 1e6);
}

static int harness_reflector(void)
{
    struct peer_control far;
    struct harness_schedule schedule;
    struct histogram_summary hop;
    uint64_t sent;
    uint64_t back;
    double reached;

    if (harness_request(PEER_START, 0, &far) != 0)
        return -1;
    harness.waited_ns = machine_waited_ns();
    schedule = harness_plan((double)harness_options.rate);
    sent = harness_options.rate == 0 ? harness_ping_pong(&schedule) : harness_stream_paced(&schedule);
    reached = harness_options.rate > 0 && sent == schedule.total ? (double)harness_options.rate
                                                                 : (double)sent * 1e9 / (double)(llm_clock() - schedule.start);
    if (harness_request(PEER_END, sent, &far) != 0)
        return -1;
    harness_await_returns(far.values[FAR_REFLECTED]);
    back = harness.returned;
    histogram_sort(&harness.rtt);
    hop = histogram_summarize(&harness.rtt, 2);
    printf("peer=%s work=reflector size=%" PRIu64 " rate=%" PRIu64 " median_us=%.3f mean_us=%.3f p99_us=%.3f p99_9_us=%.3f "
           "max_us=%.3f samples=%zu reached=%.0f sent=%" PRIu64 " lost=%" PRIu64 " disordered=%" PRIu64,
           harness_label(), harness_options.size, harness_options.rate, hop.median, hop.mean, hop.p99, hop.p99_9, hop.max,
           harness.rtt.count, reached, sent,
           far.values[FAR_LOST] + (far.values[FAR_REFLECTED] > back ? far.values[FAR_REFLECTED] - back : 0),
           far.values[FAR_DISORDERED]);
    harness_print_memory(&far);
    return 0;
}

/* One stream; the rate at which its messages came. */
static int harness_try(double pace, struct peer_control *far, double *rate, uint64_t *sent)
{
    struct harness_schedule schedule;
    uint64_t ns;

    if (harness_request(PEER_START, 0, far) != 0)
        return -1;
    harness.waited_ns = machine_waited_ns();
    schedule = harness_plan(pace);
    *sent = harness_stream_full(&schedule);
    if (harness_request(PEER_END, *sent, far) != 0)
        return -1;
    /* A library that stalled has delivered the little that it did in no time. */
    ns = far->values[FAR_NS] > harness_options.duration_ns ? far->values[FAR_NS] : harness_options.duration_ns;
    *rate = (double)far->values[FAR_RECEIVED] * 1e9 / (double)ns;
    return 0;
}

static int harness_throughput(void)
{
    struct peer_control far;
    double pace = 0;
    double rate = 0;
    uint64_t sent = 0;
    int tries = 0;

    do {
        pace = tries == 0 ? 0 : HARNESS_STEP * (pace > 0 && pace < rate ? pace : rate);
        if (harness_try(pace, &far, &rate, &sent) != 0)
            return -1;
        tries++;
    } while (far.values[FAR_LOST] + far.values[FAR_DISORDERED] > 0 && tries < HARNESS_TRIES && rate > 0);
    printf("peer=%s work=throughput size=%" PRIu64 " msgs_per_s=%.0f gbit_per_s=%.4f tries=%d sent=%" PRIu64 " lost=%" PRIu64
           " disordered=%" PRIu64,
           harness_label(), harness_options.size, rate, rate * (double)harness_options.size * 8 / 1e9, tries, sent,
           far.values[FAR_LOST], far.values[FAR_DISORDERED]);
    harness_print_memory(&far);
    return 0;
}

static int harness_near(void)
{
    struct peer_control answer;

    if (harness_greet() != 0 || (harness_link.throughput ? harness_throughput() : harness_reflector()) != 0)
        return -1;
    return harness_request(PEER_BYE, 0, &answer);
}

/* ----------------------------------------------------------------------------------------------------------------- far */

static void harness_begin(void)
{
    harness.expected = 0;
    harness.received = 0;
    harness.lost = 0;
    harness.disordered = 0;
    harness.reflected = 0;
    harness.first_at = 0;
    harness.last_at = 0;
    harness.waited_ns = machine_waited_ns();
}

/* Polls without rest until the other end makes a request. */
static int harness_measure(struct peer_control *request)
{
    uint64_t look_at = llm_clock() + HARNESS_LOOK_NS;

    for (;;) {
        int came = 0;

        if (harness.peer->poll() > 0)
            continue;
        if (llm_clock() > look_at) {
            came = control_receive(harness.control, request);
            look_at = llm_clock() + HARNESS_LOOK_NS;
        }
        if (came != 0)
            return came;
        harness_idle(look_at);
    }
}

/* What was sent may still be on its way, or have to be repaired. */
static void harness_settle(uint64_t sent)
{
    harness.heard_at = llm_clock();
    while (harness.expected < sent && llm_clock() - harness.heard_at < HARNESS_SILENCE_NS)
        harness_rest();
    if (harness.expected < sent)
        harness_add(&harness.lost, sent - harness.expected);
}

static int harness_report(void)
{
    struct peer_control answer = {
        .header = {.kind = PEER_ANSWER},
        .values = {
            [FAR_RECEIVED] = harness.received,
            [FAR_LOST] = harness.lost,
            [FAR_DISORDERED] = harness.disordered,
            [FAR_REFLECTED] = harness.reflected,
            [FAR_NS] = harness.last_at - harness.first_at,
            [FAR_RESIDENT_KIB] = (uint64_t)(machine_resident_mib() * 1024),
            [FAR_WAITED_NS] = machine_waited_ns() - harness.waited_ns,
        },
    };

    return control_send(harness.control, &answer);
}

static int harness_answer(const struct peer_control *request)
{
    struct peer_control answer = {.header = {.kind = PEER_ANSWER}};
    struct peer_control end;

    if (request->header.kind != PEER_START)
        return control_send(harness.control, &answer);
    harness_begin();
    if (control_send(harness.control, &answer) != 0 || harness_measure(&end) < 0)
        return -1;
    harness_settle(end.values[0]);
    return harness_report();
}

/* Sends a greeting back for each that came, as the first may come before the way back works. */
static void harness_greet_back(uint64_t *answered)
{
    struct peer_stamped hello = {.header = {.kind = PEER_HELLO}};

    if (harness.hellos == *answered)
        return;
    *answered = harness.hellos;
    memcpy(harness.message, &hello, harness_options.size < sizeof hello ? harness_options.size : sizeof hello);
    harness_send(harness.message, harness_options.size, false);
}

static int harness_far(void)
{
    struct peer_control request;
    uint64_t answered = 0;

    for (;;) {
        int came = control_receive(harness.control, &request);

        if (came < 0)
            return harness_fail("the other end", "has gone");
        if (came > 0 && harness_answer(&request) != 0)
            return -1;
        if (came > 0 && request.header.kind == PEER_BYE)
            return 0;
        harness_greet_back(&answered);
        harness_rest();
    }
}

/* ---------------------------------------------------------------------------------------------------------------- main */

static void harness_set_link(void)
{
    static const char *const multicast[] = {"239.192.7.1", "239.192.7.3"}; /* Aeron wants odd ones and takes the even ones too */
    static const char *const names[] = {"there", "back"};
    const char *const *groups = *harness_link.common ? names : multicast;

    harness_link.near = strcmp(harness_options.role, "near") == 0;
    harness_link.reads_all = strcmp(harness_options.read, "all") == 0;
    harness_link.throughput = strcmp(harness_options.work, "throughput") == 0;
    harness_link.size = harness_options.size;
    harness_link.rate = harness_options.rate;
    harness_link.send_group = groups[harness_link.near ? 0 : 1];
    harness_link.receive_group = groups[harness_link.near ? 1 : 0];
    harness_link.send_port = harness_link.near ? 7101 : 7102;
    harness_link.receive_port = harness_link.near ? 7102 : 7101;
}

static void harness_check_options(void)
{
    if (*harness_options.role == '\0' || *harness_options.work == '\0')
        options_refuse(&harness_program, "--role and --work are missing");
    if (*harness_link.common == '\0' &&
        (*harness_link.interface == '\0' || *harness_link.address == '\0' || *harness_link.peer_address == '\0'))
        options_refuse(&harness_program, "--interface, --address and --peer-address are missing, or --common");
    if (strcmp(harness_options.work, "reflector") == 0 && harness_options.size < sizeof(struct peer_stamped))
        options_refuse(&harness_program, "--size %" PRIu64 ": the reflector's messages have at least %zu bytes",
                       harness_options.size, sizeof(struct peer_stamped));
}

static void harness_choose(const struct harness_peer *peer)
{
    if (harness_options.batch == 0)
        harness_options.batch = peer->batch;
    if (*harness_options.idle == '\0')
        harness.idle = harness_link.throughput ? peer->idle_throughput : peer->idle_reflector;
    else
        harness.idle = harness_options.idle[1] == 'p' ? HARNESS_SPIN : *harness_options.idle == 'y' ? HARNESS_YIELD : HARNESS_SLEEP;
}

static int harness_open(void)
{
    size_t samples = (size_t)((double)(HARNESS_WARMUP_NS + harness_options.duration_ns) / 1e9 * HARNESS_SAMPLES_PER_S * 2) + 1024;

    if (harness_options.cpu != HARNESS_NO_CPU && machine_pin((unsigned)harness_options.cpu) != 0)
        return harness_fail("cannot run on the CPU asked for", strerror(errno));
    prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps end when they should; threads inherit it */
    harness.message = malloc(harness_options.size + sizeof(struct peer_stamped));
    if (!harness.message || histogram_init(&harness.rtt, samples) != 0)
        return harness_fail("no memory", strerror(errno));
    memset(harness.message, 'x', harness_options.size);
    harness.control = control_open(&harness_link, harness_options.patience_ns);
    if (harness.control < 0)
        return harness_fail("no connection to the other end", strerror(errno));
    return harness.peer->open(&harness_link);
}

static void harness_close(void)
{
    harness.peer->close();
    control_close(harness.control);
    histogram_fini(&harness.rtt);
    free(harness.message);
}

int harness_main(const struct harness_peer *peer, int argc, char **argv)
{
    int failed;

    harness_program.name = peer->name;
    options_parse(&harness_program, argc, argv);
    harness_check_options();
    harness_set_link();
    harness.peer = peer;
    harness_choose(peer);
    failed = harness_open();
    if (failed == 0) {
        mlockall(MCL_CURRENT | MCL_ONFAULT); /* a page that is not there would be measured with a message; not everybody may */
        failed = harness_link.near ? harness_near() : harness_far();
    }
    harness_close();
    return failed != 0;
}
