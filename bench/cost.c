/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions of a message: sends and receives streams of messages for callgrind to count. cost.py runs it,
 * tells whose instructions they are, and prints the table.
 *
 * Instructions repeat exactly only if nothing depends on when or where it runs: the clock and the entropy
 * that the library uses are this program's own.
 */
#define _GNU_SOURCE
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

#include "cost.h"

enum {
    COST_MESSAGES = 8000, /* in each pass */
    COST_BATCH = 8,       /* messages that leave with one llm_poll() */
    COST_SIZE_MAX = 1000,
    /* More than a flush of nothing takes, should the transport's idleness be told by another clock. */
    COST_SPINS = 3000,
    COST_DISTURBED = 75, /* exit status: something else ran on this core at the wrong moment, try again */
    COST_CLOCK_STEP_NS = 20,
    COST_PAUSE_NS = 10000,
    COST_AT_ONCE = 4,      /* polls until the two ends know of each other, if nobody has to look for a way */
    COST_ACQUAINTED = 300, /* seconds that pass until then at most */
    COST_SECOND_NS = 1000000000,
    COST_LATE_MS = 10000, /* what has not arrived by then is lost */
};

struct cost {
    const struct cost_network *network;
    struct llm_context *near;
    struct llm_context *far;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct llm_receiver *receiver;
    size_t size;   /* of each message */
    uint32_t turn; /* messages that the next step sends */
    uint64_t sent;
    uint64_t received;
    uint64_t wrong;    /* messages out of order or of a wrong size, and gaps */
    uint64_t readings; /* of the clock while something was counted */
    bool live;
    uint8_t message[COST_SIZE_MAX];
};

typedef void cost_step(struct cost *cost);

/* How messages are sent. */
struct cost_kind {
    const char *name;
    uint32_t size;
    uint32_t turn; /* messages sent before the receiver has its turn */
    bool idle;     /* the transport is idle when they are sent */
    bool receive;  /* what the receiver does then is of interest too */
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

static void cost_fail(const char *what, int error)
{
    fprintf(stderr, "cost: %s: %s\n", what, llm_error_text(error));
    exit(1);
}

static void cost_check(const char *what, int status)
{
    if (status < 0)
        cost_fail(what, status);
}

static void cost_message(void *arg, const struct llm_message *message)
{
    struct cost *cost = arg;

    cost->wrong += message->number != cost->received || message->size != cost->size;
    cost->received++;
}

static void cost_event(void *arg, const struct llm_event *event)
{
    struct cost *cost = arg;

    cost->live |= event->kind == LLM_EVENT_SESSION_NEW;
    cost->wrong += event->kind == LLM_EVENT_GAP;
}

static void cost_turn(const struct cost *cost, enum cost_end end)
{
    if (cost->network->turn != NULL)
        cost->network->turn(end);
}

static void cost_opened(const struct cost *cost, enum cost_end end)
{
    if (cost->network->opened != NULL)
        cost->network->opened(end);
}

/* The first heartbeat makes the session known, and the report that answers it the receiver. */
static void cost_acquaint(const struct cost *cost)
{
    for (int i = 0; i < COST_AT_ONCE + COST_ACQUAINTED && llm_transmitter_receivers(cost->transmitter) != 1;
         i++) {
        cost_turn(cost, COST_NEAR);
        cost_check("llm_poll", llm_poll(cost->near));
        cost_turn(cost, COST_FAR);
        cost_check("llm_poll", llm_poll(cost->far));
        /* A report for which some other thread has to find the way first is sent again after a time. */
        if (i >= COST_AT_ONCE) {
            usleep(1000);
            cost_now += COST_SECOND_NS;
        }
    }
    if (!cost->live || llm_transmitter_receivers(cost->transmitter) != 1)
        cost_fail("the two ends do not hear each other", LLM_ESTATE);
}

static void cost_open(struct cost *cost)
{
    struct llm_receiver_handlers handlers;
    char channel[512];

    llm_receiver_handlers_init(&handlers);
    handlers.arg = cost;
    handlers.message = cost_message;
    handlers.event = cost_event;
    memset(cost->message, 'x', sizeof cost->message);
    snprintf(channel, sizeof channel, cost->network->channel, 20000 + (unsigned)getpid() % 20000);
    if (cost->network->open != NULL)
        cost->network->open();
    cost_check("context", llm_context_open(NULL, &cost->near));
    cost_check("context", llm_context_open(NULL, &cost->far));
    cost_check(channel, llm_receiver_open(cost->far, channel, NULL, &handlers, &cost->receiver));
    cost_opened(cost, COST_FAR);
    cost_check(channel, llm_transmitter_open(cost->near, channel, NULL, NULL, &cost->transmitter));
    cost_opened(cost, COST_NEAR);
    cost_check("topic", llm_topic_open(cost->transmitter, "cost", 0, &cost->topic));
    cost_acquaint(cost);
}

static void cost_close(struct cost *cost)
{
    cost_turn(cost, COST_NEAR);
    cost_check("context", llm_context_close(&cost->near));
    cost_turn(cost, COST_FAR);
    cost_check("context", llm_context_close(&cost->far));
}

static uint64_t cost_stat(const struct llm_context *context, const char *name)
{
    uint64_t value = 0;

    cost_check(name, llm_context_counter(context, name, &value));
    return value;
}

/* ---------------------------------------------------------------------------------------------- the steps */

static void send_messages(struct cost *cost, unsigned flags)
{
    for (uint32_t i = 0; i < cost->turn; i++)
        cost_check("llm_send", llm_send(cost->topic, cost->message, cost->size, flags));
    cost->sent += cost->turn;
}

static void step_stream(struct cost *cost)
{
    send_messages(cost, LLM_SEND_MORE);
    cost_check("llm_transmitter_flush", llm_transmitter_flush(cost->transmitter));
}

static void step_claim(struct cost *cost)
{
    void *data = NULL;

    for (uint32_t i = 0; i < cost->turn; i++) {
        cost_check("llm_topic_claim", llm_topic_claim(cost->topic, cost->size, &data));
        memcpy(data, cost->message, cost->size);
        cost_check("llm_topic_commit", llm_topic_commit(cost->topic, cost->size, LLM_SEND_MORE));
    }
    cost->sent += cost->turn;
    cost_check("llm_transmitter_flush", llm_transmitter_flush(cost->transmitter));
}

static void step_batch(struct cost *cost)
{
    send_messages(cost, LLM_SEND_MORE);
    cost_check("llm_poll", llm_poll(cost->near));
}

static void step_lone(struct cost *cost)
{
    send_messages(cost, 0);
}

static void step_receive(struct cost *cost)
{
    int status = 1;

    while (cost->received < cost->sent && status > 0)
        status = llm_poll(cost->far);
    cost_check("llm_poll", status);
}

static void step_poll_near(struct cost *cost)
{
    cost_check("llm_poll", llm_poll(cost->near));
}

static void step_poll_far(struct cost *cost)
{
    cost_check("llm_poll", llm_poll(cost->far));
}

/* --------------------------------------------------------------------------------------------- the passes */

/*
 * cost.py tells callgrind the names of these three: it forgets what it counted when cost_begin() is called,
 * counts while cost_count() runs, and writes down what it counted when cost_end() is called. So nobody needs
 * valgrind to build this.
 */
void cost_begin(void);
void cost_count(cost_step *step, struct cost *cost);
void cost_end(const struct cost *cost, const char *what, const char *name, uint64_t packets);

__attribute__((noinline)) void cost_begin(void)
{
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void cost_count(cost_step *step, struct cost *cost)
{
    step(cost);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void cost_end(const struct cost *cost, const char *what, const char *name,
                                        uint64_t packets)
{
    printf("phase %s-%s-%zu %d %" PRIu64 " %" PRIu64 "\n", what, name, cost->size, COST_MESSAGES, packets,
           cost->readings);
}

/* Runs a step, counted or not. */
static void cost_run(cost_step *step, struct cost *cost, bool counted)
{
    uint64_t readings = cost_readings;

    if (!counted) {
        step(cost);
        return;
    }
    cost_count(step, cost);
    cost->readings += cost_readings - readings;
}

/* Time passes, until the flush before no longer makes the transport count as busy. */
static void cost_pause(struct cost *cost)
{
    volatile unsigned spins = 0;

    cost_check("llm_transmitter_flush", llm_transmitter_flush(cost->transmitter));
    cost_now += COST_PAUSE_NS;
    while (spins < COST_SPINS)
        spins = spins + 1;
}

/* Waits until something has arrived, outside of what is counted. */
static void cost_await(const struct cost *cost)
{
    struct pollfd fds = {.fd = llm_context_fd(cost->far), .events = POLLIN};

    cost_check("llm_context_fd", fds.fd);
    if (poll(&fds, 1, COST_LATE_MS) == 1)
        return;
    fprintf(stderr, "cost: only %" PRIu64 " of %" PRIu64 " messages came\n", cost->received, cost->sent);
    exit(1);
}

/*
 * Has the receiver take what the sender, whose turn it is, has sent. A flush that took long because of
 * something else on this core has the transport count as busy when the next message is sent, which then still
 * waits. Where packets arrive in their own time the receiver is not asked before there is something: polls
 * that find nothing would count.
 */
static void cost_receive(struct cost *cost, bool counted)
{
    cost_check("llm_transmitter_flush", llm_transmitter_flush(cost->transmitter));
    cost_turn(cost, COST_FAR);
    if (!cost->network->late)
        cost_run(step_receive, cost, counted);
    while (cost->network->late && cost->received < cost->sent) {
        cost_await(cost);
        cost_run(step_receive, cost, counted);
    }
}

static void cost_turns(struct cost *cost, const struct cost_kind *kind, bool count_transmit,
                       bool count_receive)
{
    cost->size = kind->size;
    cost->turn = kind->turn < cost->network->turn_max ? kind->turn : cost->network->turn_max;
    cost->readings = 0;
    for (uint32_t done = 0; done < COST_MESSAGES; done += cost->turn) {
        cost_turn(cost, COST_NEAR);
        if (kind->idle)
            cost_pause(cost);
        cost_run(kind->transmit, cost, count_transmit);
        cost_receive(cost, count_receive);
    }
}

/* Sends and receives COST_MESSAGES, and returns in how many packets; each must come, and nothing but data. */
static uint64_t cost_pass(struct cost *cost, const struct cost_kind *kind, bool count_transmit,
                          bool count_receive)
{
    uint64_t received = cost->received;
    uint64_t data = cost_stat(cost->near, "packets_data");
    uint64_t all = cost_stat(cost->near, "packets_sent");
    uint64_t taken = cost_stat(cost->far, "packets_received");

    cost_turns(cost, kind, count_transmit, count_receive);
    data = cost_stat(cost->near, "packets_data") - data;
    all = cost_stat(cost->near, "packets_sent") - all;
    taken = cost_stat(cost->far, "packets_received") - taken;
    if (cost->wrong > 0 || cost->received - received != COST_MESSAGES || data != taken || data != all) {
        fprintf(stderr,
                "cost: %s %" PRIu32 ": %" PRIu64 " of %d messages and %" PRIu64 " of %" PRIu64
                " packets came, %" PRIu64 " of them data, %" PRIu64 " wrong\n",
                kind->name, kind->size, cost->received - received, COST_MESSAGES, taken, all, data,
                cost->wrong);
        exit(1);
    }
    if (kind->idle && data != COST_MESSAGES / kind->turn) {
        fprintf(stderr,
                "cost: %s %" PRIu32 ": %" PRIu64 " packets instead of %" PRIu32
                ": the transport counted as busy\n",
                kind->name, kind->size, data, COST_MESSAGES / kind->turn);
        exit(COST_DISTURBED);
    }
    return data;
}

static void cost_measure(struct cost *cost, const struct cost_kind *kind)
{
    uint64_t packets;

    (void)cost_pass(cost, kind, false, false);
    cost_begin();
    packets = cost_pass(cost, kind, true, false);
    cost_end(cost, "transmit", kind->name, packets);
    if (!kind->receive)
        return;
    cost_begin();
    packets = cost_pass(cost, kind, false, true);
    cost_end(cost, "receive", kind->name, packets);
}

/* Polls that find nothing to do count as messages. */
static void cost_measure_idle(struct cost *cost, const char *what, cost_step *step)
{
    cost->size = 0;
    cost->readings = 0;
    cost_begin();
    for (uint32_t i = 0; i < COST_MESSAGES; i++)
        cost_run(step, cost, true);
    cost_end(cost, what, "idle", 0);
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
static void cost_print_compiler(void)
{
#if defined(__clang__)
    printf("compiler clang-%d\n", __clang_major__);
#elif defined(__GNUC__)
    printf("compiler gcc-%d\n", __GNUC__);
#else
    printf("compiler unknown\n");
#endif
}

/* The network of a name, the first one without; NULL if there is none of it. */
static const struct cost_network *cost_network(const char *name)
{
    const struct cost_network *network = cost_networks;

    while (name != NULL && network->name != NULL && strcmp(network->name, name) != 0)
        network++;
    return network->name != NULL ? network : NULL;
}

int main(int argc, char **argv)
{
    static struct cost cost;

    cost.network = cost_network(argc > 1 ? argv[1] : NULL);
    if (cost.network == NULL || argc > 2) {
        fprintf(stderr,
                "usage: %s [NETWORK]\n\nSends messages for callgrind to count; run it with bench/run cost.\n",
                argv[0]);
        return argc > 1 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    cost_print_compiler();
    cost_open(&cost);
    for (size_t i = 0; i < sizeof cost_kinds / sizeof cost_kinds[0]; i++)
        if (cost.network->everything || cost_kinds[i].compared)
            cost_measure(&cost, &cost_kinds[i]);
    if (cost.network->everything) {
        cost_measure_idle(&cost, "transmit", step_poll_near);
        cost_measure_idle(&cost, "receive", step_poll_far);
    }
    cost_close(&cost);
    return 0;
}
