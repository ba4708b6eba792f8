/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions of a message: the request `count` of engine/pairs.c sends and receives messages while
 * callgrind counts. cost.py runs the program, attributes the instructions, and prints the table.
 *
 * The count is repeatable only if nothing depends on the time or place of the run: the program provides the
 * clock and the entropy that the library uses.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "engine/pairs.h"

enum {
    COST_SPINS =
        3000, /* longer than an empty flush, in case another clock decides that the transport is idle */
    COST_CLOCK_STEP_NS = 20,
    COST_PAUSE_NS = 10000,
    COST_LATE_MS = 10000, /* after this time missing messages count as lost */
};

typedef void cost_step(struct pair *pair, uint64_t count);

static uint64_t cost_now = 1000000000000;
static uint64_t cost_readings, cost_counted_readings;

/* The library's clock: this definition takes precedence over that of libc. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    cost_readings++;
    cost_now += COST_CLOCK_STEP_NS;
    time->tv_sec = (time_t)(cost_now / 1000000000);
    time->tv_nsec = (long)(cost_now % 1000000000);
    return 0;
}

void cost_pass(uint64_t ns)
{
    cost_now += ns;
}

ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
    static uint8_t last;

    (void)flags;
    memset(bytes, ++last, size);
    return (ssize_t)size;
}

static void cost_flush(struct pair *pair)
{
    steady_ok(llm_transmitter_flush(pair->transmitter), "llm_transmitter_flush");
}

static void cost_send(struct pair *pair, uint64_t count, unsigned flags)
{
    for (uint64_t i = 0; i < count; i++)
        steady_ok(llm_send(pair->topics[0], pair->data, pair->size, flags), "llm_send");
    pair->sent += count;
}

static void step_stream(struct pair *pair, uint64_t count)
{
    cost_send(pair, count, LLM_SEND_MORE);
    cost_flush(pair);
}

static void step_claim(struct pair *pair, uint64_t count)
{
    void *data = NULL;

    for (uint64_t i = 0; i < count; i++) {
        steady_ok(llm_topic_claim(pair->topics[0], pair->size, &data), "llm_topic_claim");
        memcpy(data, pair->data, pair->size);
        steady_ok(llm_topic_commit(pair->topics[0], pair->size, LLM_SEND_MORE), "llm_topic_commit");
    }
    pair->sent += count;
    cost_flush(pair);
}

static void step_batch(struct pair *pair, uint64_t count)
{
    cost_send(pair, count, LLM_SEND_MORE);
    steady_poll(pair->near);
}

static void step_lone(struct pair *pair, uint64_t count)
{
    cost_send(pair, count, 0);
}

static void step_poll_near(struct pair *pair, uint64_t count)
{
    (void)count;
    steady_poll(pair->near);
}

static void step_poll_far(struct pair *pair, uint64_t count)
{
    (void)count;
    steady_poll(pair->far);
}

static void step_receive(struct pair *pair, uint64_t count)
{
    (void)count;
    while (pair->received < pair->sent && steady_ok(llm_poll(pair->far), "llm_poll") > 0)
        continue;
}

/*
 * cost.py names these two functions to callgrind: it counts during cost_counted(), and writes and resets its
 * counts at cost_end(). The build therefore does not need valgrind.
 */
void cost_counted(cost_step *step, struct pair *pair, uint64_t count);
void cost_end(void);

__attribute__((noinline)) void cost_counted(cost_step *step, struct pair *pair, uint64_t count)
{
    step(pair, count);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void cost_end(void)
{
    __asm__ volatile("" ::: "memory");
}

static void cost_run(cost_step *step, struct pair *pair, uint64_t count, bool counted)
{
    const uint64_t readings = cost_readings;

    if (!counted) {
        step(pair, count);
        return;
    }
    cost_counted(step, pair, count);
    cost_counted_readings += cost_readings - readings;
}

/* Waits until the preceding flush no longer marks the transport as busy. */
static void cost_pause(struct pair *pair)
{
    volatile unsigned spins = 0;

    cost_flush(pair);
    cost_pass(COST_PAUSE_NS);
    while (spins < COST_SPINS)
        spins = spins + 1;
}

/*
 * Makes the receiver take all sent messages. A flush delayed by other work on this core marks the transport
 * as busy, and the next message is not sent at once. Delayed packets (late) are awaited outside the count,
 * since empty polls would be counted.
 */
static void cost_receive(struct pair *pair, bool late, bool counted)
{
    struct pollfd fds = {.events = POLLIN};

    cost_flush(pair);
    pairs_turn_to(PAIRS_FAR);
    do {
        fds.fd = late ? steady_ok(llm_context_fd(pair->far), "llm_context_fd") : -1;
        if (late && poll(&fds, 1, COST_LATE_MS) != 1)
            control_fail("cost", "not all messages came");
        cost_run(step_receive, pair, 0, counted);
    } while (late && pair->received < pair->sent);
}

/* Kinds of sending: messages sent before the receiver polls; 0: as many as may be outstanding. */
static const struct cost_kind {
    const char *name;
    uint64_t together;
    cost_step *transmit;
} cost_kinds[] = {
    {"stream", 0, step_stream},
    {"claim", 0, step_claim},
    {"batch", 8, step_batch},
    {"lone", 1, step_lone},
    {"poll-near", 1, step_poll_near},
    {"poll-far", 1, step_poll_far},
    {NULL, 0, NULL},
};

/* Serves kind=, messages= of size=, most= of them outstanding, part=transmit|receive to count, late=1. */
void cost_count(struct pair *pair, const struct control *request)
{
    const uint64_t messages = control_number(request, "messages", 0), received = pair->received,
                   data = pairs_counter(pair->near, "packets_data"),
                   all = pairs_counter(pair->near, "packets_sent"),
                   taken = pairs_counter(pair->far, "packets_received");
    const struct cost_kind *kind = cost_kinds;
    uint64_t together;

    while (kind->name != NULL && !control_is(request, "kind", kind->name))
        kind++;
    if (kind->name == NULL)
        control_fail("kind", "there is none of this name");
    together = kind->together > 0 ? kind->together : control_number(request, "most", messages);
    pair->size = control_number(request, "size", pair->size);
    cost_counted_readings = 0;
    for (uint64_t done = 0; done < messages; done += together) {
        pairs_turn_to(PAIRS_NEAR);
        if (kind->transmit == step_lone)
            cost_pause(pair);
        cost_run(kind->transmit, pair, together, control_is(request, "part", "transmit"));
        if (pair->received < pair->sent)
            cost_receive(pair, control_flag(request, "late"), control_is(request, "part", "receive"));
    }
    cost_end();
    json_open();
    json_counts("received wrong packets sent taken readings",
                (uint64_t[]){pair->received - received, pair->changed + pair->lost,
                             pairs_counter(pair->near, "packets_data") - data,
                             pairs_counter(pair->near, "packets_sent") - all,
                             pairs_counter(pair->far, "packets_received") - taken, cost_counted_readings});
    /* Bounds are valid for one version of one compiler. */
#ifdef __clang__
    json_text("compiler", "clang");
    json_number("version", __clang_major__);
#else
    json_text("compiler", "gcc");
    json_number("version", __GNUC__);
#endif
    json_close();
}
