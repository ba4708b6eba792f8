/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers that measure a stream, each in a context of its own. channels=CHANNEL,...; wait=spin|block; hops
 * are recorded for messages of phases measured=N,... in each of rounds= rounds, with the first trace= in
 * order. any=1: messages arrive in any order, up to most= of them, of size=. bulk=: maximum number of bulk
 * messages, whose times and sizes are answered. acknowledge=1: the application acknowledges. busy=: seconds
 * of work for each message; pace=: seconds between messages of a slow application, from one SIGUSR1 to the
 * next, or from the start (slow=1). later=1: join at the first request. They answer, with counters=NAME,...
 * of the first, when all sessions have ended, on SIGTERM or, with later=1, at the next request.
 *
 * The role mute: a socket joined to the group of place=, read until SIGUSR1 and not after that. For it the
 * network, which is this machine's kernel, does the same work as for a stopped receiver.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../raw/raw.h"
#include "steady.h"

enum { RECEIVERS_MAX = 64, RECEIVERS_PHASES = 16 };

#define RECEIVERS_NAP_NS 10000000ull
#define RECEIVERS_SLEEP_NS 1000000ull /* an application that lags by more sleeps */

struct arrival {
    uint64_t at, bytes;
};

struct receiver {
    struct steady_track track;
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct histogram *hops; /* by round and phase */
    bool *came;             /* by number, for messages in any order */
    uint64_t disordered;    /* after a message that was sent later */
    uint64_t free_at;       /* when a slow application may take the next message */
};

static struct receivers {
    struct receiver all[RECEIVERS_MAX];
    uint64_t count;
    uint64_t rounds;
    uint64_t trace;
    uint64_t phases[RECEIVERS_PHASES]; /* measured phases */
    int phase_count;
    uint64_t size;
    uint64_t most; /* number of messages in any order; 0: they arrive in sequence */
    bool acknowledges;
    uint64_t busy_ns, pace_ns;
    struct arrival *bulk; /* bulk messages */
    uint64_t bulk_count, bulk_max;
    uint64_t opened_at;
} receivers;

static volatile sig_atomic_t receivers_slow, receivers_over;

static void receivers_toggle(int number)
{
    (void)number;
    receivers_slow = !receivers_slow;
}

static void receivers_end(int number)
{
    (void)number;
    receivers_over = 1;
}

static struct histogram *receiver_hops(const struct receiver *receiver, uint64_t round, uint64_t phase)
{
    return &receiver->hops[round * RECEIVERS_PHASES + phase % RECEIVERS_PHASES];
}

static struct steady_stamp receiver_take_any(struct receiver *receiver, const struct llm_message *message)
{
    struct steady_stamp stamp = {.round = STEADY_BULK};

    receiver->track.received++;
    if (message->size != receivers.size || message->number >= receivers.most) {
        receiver->track.changed++;
        return stamp;
    }
    memcpy(&stamp, message->data, sizeof stamp);
    receiver->track.changed += stamp.sequence != message->number;
    receiver->track.duplicated += receiver->came[message->number];
    receiver->came[message->number] = true;
    receiver->disordered += message->number < receiver->track.next;
    receiver->track.next =
        message->number < receiver->track.next ? receiver->track.next : message->number + 1;
    return stamp;
}

/* Spends the application's time. The signal that ends its sleep also ends its slowness. */
static void receiver_spend(struct receiver *receiver, uint64_t now)
{
    while (llm_clock() < now + receivers.busy_ns)
        ;
    if (!receivers_slow)
        return;
    receiver->free_at = (receiver->free_at > now ? receiver->free_at : now) + receivers.pace_ns;
    if (receiver->free_at > now + RECEIVERS_SLEEP_NS)
        (void)usleep((useconds_t)((receiver->free_at - now) / 1000));
}

static void on_message(void *arg, const struct llm_message *message)
{
    const uint64_t now = llm_clock();
    struct receiver *receiver = arg;
    const struct steady_stamp stamp = receiver->came != NULL
                                          ? receiver_take_any(receiver, message)
                                          : steady_track_message(&receiver->track, message);
    struct histogram *hops = stamp.round < receivers.rounds && stamp.phase < RECEIVERS_PHASES
                                 ? receiver_hops(receiver, stamp.round, stamp.phase)
                                 : NULL;

    if (hops != NULL && hops->counts != NULL && stamp.due_at != 0)
        histogram_add(hops, now - stamp.due_at);
    if (stamp.round == STEADY_BULK && receivers.bulk_count < receivers.bulk_max)
        receivers.bulk[receivers.bulk_count++] =
            (struct arrival){message->received_at != 0 ? message->received_at : now, message->size};
    if (receivers.acknowledges)
        steady_ok(llm_receiver_acknowledge(receiver->receiver, message->session, message->number),
                  "llm_receiver_acknowledge");
    if (receivers.busy_ns + receivers.pace_ns > 0)
        receiver_spend(receiver, now);
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct receiver *receiver = arg;

    steady_tell(event);
    steady_track_event(&receiver->track, event);
}

static void receiver_open(struct receiver *receiver, const struct control *control, const char *channel)
{
    receiver->hops = control_memory(receivers.rounds * RECEIVERS_PHASES, sizeof *receiver->hops);
    for (uint64_t round = 0; round < receivers.rounds; round++)
        for (int i = 0; i < receivers.phase_count; i++)
            histogram_init(receiver_hops(receiver, round, receivers.phases[i]), receivers.trace);
    receiver->came = receivers.most > 0 ? control_memory(receivers.most, sizeof *receiver->came) : NULL;
    receiver->context = steady_context(control);
    receivers.opened_at = llm_clock();
    receiver->receiver = steady_receiver(receiver->context, channel, on_message, on_event, receiver);
}

/* The receiver announces that it leaves. */
static void receiver_close(struct receiver *receiver)
{
    steady_ok(llm_receiver_close(&receiver->receiver), "llm_receiver_close");
    steady_ok(llm_context_close(&receiver->context), "llm_context_close");
}

static void receiver_json(const struct receiver *receiver)
{
    json_begin(NULL, '{');
    steady_json_track(&receiver->track);
    json_counts("disordered", (uint64_t[]){receiver->disordered});
    json_begin("rounds", '[');
    for (uint64_t round = 0; round < receivers.rounds; round++) {
        json_begin(NULL, '[');
        for (int i = 0; i < receivers.phase_count; i++)
            json_histogram(NULL, receiver_hops(receiver, round, receivers.phases[i]));
        json_end(']');
    }
    json_end(']');
    json_end('}');
}

static void receivers_report(const struct control *control)
{
    json_open();
    json_begin("receivers", '[');
    for (uint64_t i = 0; i < receivers.count; i++)
        receiver_json(&receivers.all[i]);
    json_end(']');
    json_counts("opened_at closed_at", (uint64_t[]){receivers.opened_at, llm_clock()});
    json_begin("bulk", '[');
    for (uint64_t i = 0; i < receivers.bulk_count; i++) {
        json_begin(NULL, '[');
        json_number(NULL, (double)receivers.bulk[i].at);
        json_number(NULL, (double)receivers.bulk[i].bytes);
        json_end(']');
    }
    json_end(']');
    steady_json_counters(receivers.all[0].context, control);
    json_close();
}

/* Polls all in turn, or sleeps in the only context. Returns true once all sessions have ended. */
static bool receivers_poll(void)
{
    uint64_t ended = 0;

    for (uint64_t i = 0; i < receivers.count; i++) {
        struct llm_context *context = receivers.all[i].context;

        steady_ok(receivers.count > 1 ? llm_poll(context) : llm_wait(context, RECEIVERS_NAP_NS), "llm_poll");
        ended += receivers.all[i].track.ended;
    }
    return ended == receivers.count;
}

int receivers_run(const struct control *control)
{
    const bool later = control_flag(control, "later");
    char *channels = strdup(control_text(control, "channels", "")), *rest = channels, *channel;
    struct control request;

    receivers.rounds = control_number(control, "rounds", 1);
    receivers.trace = control_number(control, "trace", 0);
    receivers.phase_count = control_list(control, "measured", receivers.phases, RECEIVERS_PHASES);
    receivers.size = control_number(control, "size", 45);
    receivers.most = control_flag(control, "any") ? control_number(control, "most", 0) : 0;
    receivers.acknowledges = control_flag(control, "acknowledge");
    receivers.busy_ns = control_ns(control, "busy", 0);
    receivers.pace_ns = control_ns(control, "pace", 0);
    receivers_slow = control_flag(control, "slow");
    receivers.bulk_max = control_number(control, "bulk", 0);
    receivers.bulk = control_memory(receivers.bulk_max, sizeof *receivers.bulk);
    (void)signal(SIGUSR1, receivers_toggle);
    (void)signal(SIGTERM, receivers_end);
    if (later)
        (void)control_take(&request, CONTROL_FOREVER);
    while (receivers.count < RECEIVERS_MAX && (channel = strsep(&rest, ",")) != NULL)
        receiver_open(&receivers.all[receivers.count++], control, channel);
    while (!receivers_over && !receivers_poll() && !(later && control_is_waiting()))
        continue;
    receivers_report(control);
    for (uint64_t i = 0; i < receivers.count; i++)
        receiver_close(&receivers.all[i]);
    return 0;
}

int mute_run(const struct control *control)
{
    struct pollfd ready = {.events = POLLIN};
    struct raw_group group;
    char nothing[1];

    (void)signal(SIGUSR1, receivers_end);
    raw_group_of(control_text(control, "place", ""), &group);
    ready.fd = raw_udp_open_receive(&group);
    if (ready.fd < 0)
        control_fail("mute", "its socket cannot be opened");
    json_done("ready", 1);
    while (!receivers_over)
        if (poll(&ready, 1, -1) == 1)
            (void)!recv(ready.fd, nothing, sizeof nothing, 0);
    for (;;)
        pause();
}
