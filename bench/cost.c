/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions of a message: sends and receives streams of messages for callgrind to count. cost.py runs it
 * with the name of a network, attributes the instructions, and prints the table.
 *
 * Instructions repeat exactly only if nothing depends on when or where it runs: the clock and the entropy
 * that the library uses are this program's own.
 */
#define _GNU_SOURCE
#include "cost.h"

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <llm/llm.h>

#include "engine/steady.h"

enum {
    COST_MESSAGES = 8000, /* in each pass */
    COST_BATCH = 8,       /* messages that leave with one llm_poll() */
    COST_SIZE_MAX = 1000,
    COST_SPINS =
        3000, /* more than a flush of nothing takes, should another clock tell the transport's idleness */
    COST_DISTURBED = 75, /* exit status: something else ran on this core at the wrong moment, try again */
    COST_CLOCK_STEP_NS = 20,
    COST_PAUSE_NS = 10000,
    COST_AT_ONCE = 4,      /* polls until the two ends know of each other, if nobody has to look for a way */
    COST_ACQUAINTED = 300, /* seconds that pass until then at most */
    COST_SECOND_NS = 1000000000,
    COST_LATE_MS = 10000, /* messages that have not arrived by then are lost */
};

/*
 * Heartbeats and reports stay away: they follow the time, not messages. The history is small, so that it is
 * full, as it is in any stream that lasts, before anything is counted.
 */
#define COST_OPTIONS                                                                                        \
    "history_bytes=1M&history_packets=1024&linger_ns=0&status_ns=60000000000&heartbeat_ns_min=10000000000&" \
    "heartbeat_ns_busy=10000000000&heartbeat_ns_max=10000000000&silence_ns=60000000000&session_timeout_ns=" \
    "600000000000"

/*
 * Packets are those of an Ethernet without the headers of IP and UDP, or of a RoCE device on one. Of RDMA
 * there are as few buffers as possible: the device looks through all of them whenever it gets one.
 */
static const struct cost_network {
    const char *name;    /* the channel's scheme */
    const char *channel; /* with %u for a port */
    uint32_t turn_max;   /* messages that may be under way; a multiple of 1000 */
} cost_networks[] = {
    {"loop", "loop://cost:%u?mtu=1472&" COST_OPTIONS, 8000},
    {"udp", "udp://239.195.1.1:%u?interface=lo&mtu=1052&" COST_OPTIONS, 4000},
    {"roce", "roce://239.195.1.1:%u?interface=lo&rcvbuf_bytes=1M&flow_window_packets=256&" COST_OPTIONS,
     4000},
};

static struct cost {
    bool everything; /* is counted, and not only the kinds compared between networks */
    bool late; /* packets arrive in the kernel's own time, on a busy machine after the send has returned */
    uint32_t turn_max;
    struct llm_context *near;
    struct llm_context *far;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    size_t size;   /* of each message */
    uint32_t turn; /* messages that the next step sends */
    uint64_t sent;
    uint64_t received;
    uint64_t wrong;    /* messages out of order or of a wrong size, and gaps */
    uint64_t readings; /* of the clock while something was counted */
    uint8_t message[COST_SIZE_MAX];
} cost;

typedef void cost_step(void);

/* How messages are sent. */
struct cost_kind {
    const char *name;
    uint32_t size;
    uint32_t turn; /* messages sent before the receiver has its turn */
    bool idle;     /* the transport is idle when they are sent */
    bool receive;  /* the receiver's instructions are counted too */
    bool compared; /* between networks */
    cost_step *transmit;
};

/* -------------------------------------------------------------------------------------- clock and entropy */

static uint64_t cost_now = 1000000000000;
static uint64_t cost_readings;

/* The library's clock: the program's own definition comes before that of libc. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    cost_readings++;
    cost_now += COST_CLOCK_STEP_NS;
    time->tv_sec = (time_t)(cost_now / 1000000000);
    time->tv_nsec = (long)(cost_now % 1000000000);
    return 0;
}

ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
    static uint8_t last;

    (void)flags;
    memset(bytes, ++last, size);
    return (ssize_t)size;
}

/* ----------------------------------------------------------------------------------------------- the ends */

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    cost.wrong += message->number != cost.received || message->size != cost.size;
    cost.received++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    cost.wrong += event->kind == LLM_EVENT_GAP;
}

static void cost_turn(enum cost_end end)
{
    if (&cost_device != NULL)
        cost_device.turn(end);
}

/* The first heartbeat makes the session known, and the report that answers it the receiver. */
static void cost_acquaint(void)
{
    for (int i = 0; llm_transmitter_receivers(cost.transmitter) != 1; i++) {
        if (i == COST_AT_ONCE + COST_ACQUAINTED)
            steady_ok(LLM_ESTATE, "the two ends do not hear each other");
        cost_turn(COST_NEAR);
        steady_poll(cost.near);
        cost_turn(COST_FAR);
        steady_poll(cost.far);
        /* A report for which some other thread has to find the way first is sent again after a time. */
        if (i >= COST_AT_ONCE) {
            usleep(1000);
            cost_now += COST_SECOND_NS;
        }
    }
}

static void cost_open(const struct cost_network *network)
{
    char channel[512];

    cost.everything = strcmp(network->name, "loop") == 0;
    cost.late = strcmp(network->name, "udp") == 0;
    cost.turn_max = network->turn_max;
    memset(cost.message, 'x', sizeof cost.message);
    (void)snprintf(channel, sizeof channel, network->channel, 20000 + (unsigned)getpid() % 20000);
    if (&cost_device != NULL)
        cost_device.open();
    cost.near = steady_open(NULL);
    cost.far = steady_open(NULL);
    (void)steady_receiver(cost.far, channel, on_message, on_event, NULL);
    if (&cost_device != NULL)
        cost_device.opened(COST_FAR);
    steady_ok(llm_transmitter_open(cost.near, channel, NULL, NULL, &cost.transmitter), channel);
    if (&cost_device != NULL)
        cost_device.opened(COST_NEAR);
    steady_ok(llm_topic_open(cost.transmitter, "cost", 0, &cost.topic), "topic");
    cost_acquaint();
}

static void cost_close(void)
{
    cost_turn(COST_NEAR);
    steady_ok(llm_context_close(&cost.near), "context");
    cost_turn(COST_FAR);
    steady_ok(llm_context_close(&cost.far), "context");
}

/* ---------------------------------------------------------------------------------------------- the steps */

static void cost_send(unsigned flags)
{
    for (uint32_t i = 0; i < cost.turn; i++)
        steady_ok(llm_send(cost.topic, cost.message, cost.size, flags), "llm_send");
    cost.sent += cost.turn;
}

static void cost_flush(void)
{
    steady_ok(llm_transmitter_flush(cost.transmitter), "llm_transmitter_flush");
}

static void step_stream(void)
{
    cost_send(LLM_SEND_MORE);
    cost_flush();
}

static void step_claim(void)
{
    void *data = NULL;

    for (uint32_t i = 0; i < cost.turn; i++) {
        steady_ok(llm_topic_claim(cost.topic, cost.size, &data), "llm_topic_claim");
        memcpy(data, cost.message, cost.size);
        steady_ok(llm_topic_commit(cost.topic, cost.size, LLM_SEND_MORE), "llm_topic_commit");
    }
    cost.sent += cost.turn;
    cost_flush();
}

static void step_batch(void)
{
    cost_send(LLM_SEND_MORE);
    steady_poll(cost.near);
}

static void step_lone(void)
{
    cost_send(0);
}

static void step_receive(void)
{
    while (cost.received < cost.sent && steady_ok(llm_poll(cost.far), "llm_poll") > 0)
        continue;
}

static void step_poll_near(void)
{
    steady_poll(cost.near);
}

static void step_poll_far(void)
{
    steady_poll(cost.far);
}

/* --------------------------------------------------------------------------------------------- the passes */

/*
 * cost.py tells callgrind the names of these three: it forgets what it counted when cost_begin() is called,
 * counts while cost_count() runs, and writes down what it counted when cost_end() is called. So nobody needs
 * valgrind to build this.
 */
void cost_begin(void);
void cost_count(cost_step *step);
void cost_end(const char *what, const char *name, uint64_t packets);

__attribute__((noinline)) void cost_begin(void)
{
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void cost_count(cost_step *step)
{
    step();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void cost_end(const char *what, const char *name, uint64_t packets)
{
    printf("phase %s-%s-%zu %d %" PRIu64 " %" PRIu64 "\n", what, name, cost.size, COST_MESSAGES, packets,
           cost.readings);
}

/* Runs a step, counted or not. */
static void cost_run(cost_step *step, bool counted)
{
    const uint64_t readings = cost_readings;

    if (!counted) {
        step();
        return;
    }
    cost_count(step);
    cost.readings += cost_readings - readings;
}

/* Time passes, until the flush before no longer makes the transport count as busy. */
static void cost_pause(void)
{
    volatile unsigned spins = 0;

    cost_flush();
    cost_now += COST_PAUSE_NS;
    while (spins < COST_SPINS)
        spins = spins + 1;
}

/*
 * Has the receiver take what was sent. A flush that took long because of something else on this core has the
 * transport count as busy when the next message is sent, which then still waits. Packets that arrive in their
 * own time are awaited, uncounted: polls that find nothing would count.
 */
static void cost_receive(bool counted)
{
    struct pollfd fds = {.events = POLLIN};

    cost_flush();
    cost_turn(COST_FAR);
    if (!cost.late)
        cost_run(step_receive, counted);
    while (cost.late && cost.received < cost.sent) {
        fds.fd = steady_ok(llm_context_fd(cost.far), "llm_context_fd");
        if (poll(&fds, 1, COST_LATE_MS) != 1)
            control_fail("cost", "not all messages came");
        cost_run(step_receive, counted);
    }
}

static uint64_t cost_counter(const struct llm_context *context, const char *name)
{
    uint64_t value = 0;

    steady_ok(llm_context_counter(context, name, &value), name);
    return value;
}

/* Sends and receives COST_MESSAGES, and returns in how many packets; each must come, and nothing but data. */
static uint64_t cost_pass(const struct cost_kind *kind, bool count_transmit, bool count_receive)
{
    const uint64_t received = cost.received, data = cost_counter(cost.near, "packets_data"),
                   all = cost_counter(cost.near, "packets_sent"),
                   taken = cost_counter(cost.far, "packets_received");
    uint64_t packets;

    cost.size = kind->size;
    cost.turn = kind->turn < cost.turn_max ? kind->turn : cost.turn_max;
    cost.readings = 0;
    for (uint32_t done = 0; done < COST_MESSAGES; done += cost.turn) {
        cost_turn(COST_NEAR);
        if (kind->idle)
            cost_pause();
        cost_run(kind->transmit, count_transmit);
        cost_receive(count_receive);
    }
    packets = cost_counter(cost.near, "packets_data") - data;
    if (cost.wrong > 0 || cost.received - received != COST_MESSAGES ||
        packets != cost_counter(cost.far, "packets_received") - taken ||
        packets != cost_counter(cost.near, "packets_sent") - all)
        control_fail(kind->name, "not every message came once, or packets were sent that are no data");
    if (kind->idle && packets != COST_MESSAGES / kind->turn) {
        (void)fprintf(stderr, "cost: %s: %" PRIu64 " packets: the transport counted as busy\n", kind->name,
                      packets);
        exit(COST_DISTURBED);
    }
    return packets;
}

static void cost_measure(const struct cost_kind *kind)
{
    uint64_t packets;

    (void)cost_pass(kind, false, false);
    for (int receives = 0; receives <= kind->receive; receives++) {
        cost_begin();
        packets = cost_pass(kind, !receives, receives);
        cost_end(receives ? "receive" : "transmit", kind->name, packets);
    }
}

/* Polls that find nothing to do count as messages. */
static void cost_measure_idle(const char *what, cost_step *step)
{
    cost.size = 0;
    cost.readings = 0;
    cost_begin();
    for (uint32_t i = 0; i < COST_MESSAGES; i++)
        cost_run(step, true);
    cost_end(what, "idle", 0);
}

static const struct cost_kind cost_kinds[] = {
    {"stream", 45, COST_MESSAGES, false, true, true, step_stream},
    {"stream", 100, COST_MESSAGES, false, true, false, step_stream},
    {"stream", 1000, COST_MESSAGES, false, true, false, step_stream},
    {"claim", 45, COST_MESSAGES, false, false, false, step_claim},
    {"batch", 45, COST_BATCH, false, true, false, step_batch},
    {"lone", 45, 1, true, true, true, step_lone},
};

/* Bounds hold for one version of one compiler. */
#if defined(__clang__)
#define COST_COMPILER "clang-", __clang_major__
#elif defined(__GNUC__)
#define COST_COMPILER "gcc-", __GNUC__
#else
#define COST_COMPILER "unknown-", 0
#endif

int main(int argc, char **argv)
{
    const struct cost_network *network = cost_networks,
                              *end = network + sizeof cost_networks / sizeof *network;

    while (argc == 2 && network < end && strcmp(network->name, argv[1]) != 0)
        network++;
    if (argc != 2 || network == end || (strcmp(network->name, "roce") == 0) != (&cost_device != NULL)) {
        (void)fprintf(stderr, "usage: %s NETWORK; bench/run cost runs it under valgrind\n", argv[0]);
        return 2;
    }
    printf("compiler %s%d\n", COST_COMPILER);
    cost_open(network);
    for (size_t i = 0; i < sizeof cost_kinds / sizeof cost_kinds[0]; i++)
        if (cost.everything || cost_kinds[i].compared)
            cost_measure(&cost_kinds[i]);
    if (cost.everything) {
        cost_measure_idle("transmit", step_poll_near);
        cost_measure_idle("receive", step_poll_far);
    }
    cost_close();
    return 0;
}
