/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load on other groups while something is measured: a process that sends to them, or receives from them, and
 * sleeps whenever it has nothing to do. On the transmitting side all groups together get a steady rate, in
 * turns. channel=SCHEME://NET:PORT?OPTIONS, of which a group is NET.0.1, NET.0.2 and so on. Requests:
 *   load groups=N rate=N   ends the load before, loads so many groups, the first ones, and answers with what came of the load before
 *                          when they are joined; messages a second in all, of a transmitter
 */
#define _GNU_SOURCE
#include "roles.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <llm/llm.h>

#include "control.h"
#include "steady.h"

#define LOAD_GROUPS_MAX 4000
#define LOAD_SUBNET 250         /* groups NET.0.1 to NET.0.250, then NET.1.1 and so on */
#define LOAD_CONTEXT_GROUPS 250 /* a context of the udp transport has room for 256 */
#define LOAD_CONTEXTS_MAX (LOAD_GROUPS_MAX / LOAD_CONTEXT_GROUPS)
#define LOAD_DESCRIPTORS 64 /* beside one for each group */
#define LOAD_TICK_NS \
    10000000ull /* what is due in this time is sent at once: to wake more often would cost the cores more */
#define LOAD_NAP_NS 10000000000ull

/* The process that loads. */
struct load_end {
    const char *channel;
    bool transmits;
    uint64_t size; /* of a message */
    struct llm_context *contexts[LOAD_CONTEXTS_MAX];
    int context_count;
    struct llm_topic *topics[LOAD_GROUPS_MAX]; /* of the transmitters */
    uint64_t groups;
    uint64_t rate;
    uint64_t messages;
    uint64_t start;
    uint64_t cpu_start_ns;
    char *message;
};

static void load_channel(const char *channel, uint64_t i, char *text, size_t size)
{
    const char *port = strrchr(channel, ':');

    (void)snprintf(text, size, "%.*s.%" PRIu64 ".%" PRIu64 "%s", (int)(port - channel), channel,
                   i / LOAD_SUBNET, i % LOAD_SUBNET + 1, port);
}

/* ----------------------------------------------------------------------------------------- open and close */

static void load_message(void *arg, const struct llm_message *message)
{
    struct load_end *end = arg;

    (void)message;
    end->messages++;
}

/* Without a handler gaps would be logged; the counts of the two sides tell of them. */
static void load_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

/* A group takes a descriptor, and the usual limit is 1024. */
static void load_allow_descriptors(uint64_t groups)
{
    const rlim_t wanted = groups + LOAD_DESCRIPTORS;
    struct rlimit limit;
    char text[160];

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    (void)snprintf(text, sizeof text,
                   "%" PRIu64 " groups need %" PRIu64 " open files, and %" PRIu64
                   " are allowed; raise that with ulimit -Hn",
                   groups, (uint64_t)wanted, (uint64_t)limit.rlim_max);
    if (limit.rlim_max < wanted)
        control_fail("load", text);
    limit.rlim_cur = wanted;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void load_open_context(struct load_end *end)
{
    struct llm_context_options options;

    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    options.huge_pages = false;
    steady_ok(llm_context_open(&options, &end->contexts[end->context_count++]), "load: a context");
}

static void load_open_group(struct load_end *end, uint64_t i)
{
    struct llm_context *context = end->contexts[end->context_count - 1];
    struct llm_transmitter *transmitter;
    char channel[1024];

    load_channel(end->channel, i, channel, sizeof channel);
    if (!end->transmits) {
        (void)steady_receiver(context, channel, load_message, load_event, end);
        return;
    }
    steady_ok(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), channel);
    steady_ok(llm_topic_open(transmitter, "load", 0, &end->topics[i]), channel);
}

static void load_end_all(struct load_end *end)
{
    for (int i = 0; i < end->context_count; i++)
        llm_context_close(&end->contexts[i]);
    end->context_count = 0;
    end->groups = 0;
}

static void load_begin(struct load_end *end, uint64_t groups)
{
    if (groups > LOAD_GROUPS_MAX)
        steady_ok(LLM_ELIMIT, "load");
    load_allow_descriptors(groups);
    for (uint64_t i = 0; i < groups; i++) {
        if (i % LOAD_CONTEXT_GROUPS == 0)
            load_open_context(end);
        load_open_group(end, i);
    }
    end->groups = groups;
}

/* -------------------------------------------------------------------------------------------- the process */

static uint64_t load_cpu_ns(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

/* A packet for each message: to pack those of one group would make few groups another load than many. */
static void load_transmit(struct load_end *end, uint64_t now)
{
    uint64_t due = (uint64_t)((double)(now - end->start) * (double)end->rate / 1e9);

    for (; end->groups > 0 && end->messages < due; end->messages++) {
        struct llm_topic *topic = end->topics[end->messages % end->groups];

        if (llm_send(topic, end->message, end->size, LLM_SEND_NOW) != 0)
            return;
    }
}

/* Arms and polls every context, as llm_context_fd() asks for. Returns how much was delivered. */
static int load_poll(struct load_end *end, struct pollfd *fds)
{
    int delivered = 0;

    for (int i = 0; i < end->context_count; i++) {
        fds[i] = (struct pollfd){.fd = llm_context_fd(end->contexts[i]), .events = POLLIN};
        delivered += llm_poll(end->contexts[i]);
    }
    return delivered;
}

static struct timespec load_sleep_time(const struct load_end *end, uint64_t now)
{
    uint64_t until = end->rate > 0 && end->groups > 0 ? now + LOAD_TICK_NS : now + LOAD_NAP_NS;

    for (int i = 0; i < end->context_count; i++) {
        uint64_t at = llm_context_deadline(end->contexts[i]);

        if (at < until)
            until = at > now ? at : now;
    }
    return (struct timespec){.tv_sec = (time_t)((until - now) / 1000000000),
                             .tv_nsec = (long)((until - now) % 1000000000)};
}

static void load_take(struct load_end *end, const struct control *control)
{
    struct pollfd fds[LOAD_CONTEXTS_MAX];

    while (load_poll(end, fds) > 0)
        ;
    json_open();
    json_number("messages", (double)end->messages);
    json_number("ns", (double)(llm_clock() - end->start));
    json_number("cpu_ns", (double)(load_cpu_ns() - end->cpu_start_ns));
    load_end_all(end);
    load_begin(end, control_number(control, "groups", 0));
    end->rate = control_number(control, "rate", 0);
    end->messages = 0;
    end->start = llm_clock();
    end->cpu_start_ns = load_cpu_ns();
    json_close();
}

int load_run(const struct control *control)
{
    struct load_end *end = steady_memory(1, sizeof *end);
    struct pollfd fds[LOAD_CONTEXTS_MAX + 1];
    struct control request;
    int came;

    end->transmits = control_flag(control, "transmits");
    end->size = control_number(control, "size", 45);
    end->channel = control_text(control, "channel", "");
    end->message = steady_memory(1, end->size);
    end->start = llm_clock();
    while ((came = control_take(&request, 0)) >= 0) {
        struct timespec time;
        uint64_t now;

        if (came > 0)
            load_take(end, &request);
        now = llm_clock();
        load_transmit(end, now);
        if (load_poll(end, fds) > 0)
            continue;
        fds[end->context_count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
        time = load_sleep_time(end, now);
        (void)ppoll(fds, (nfds_t)end->context_count + 1, &time, NULL);
    }
    load_end_all(end);
    free(end->message);
    free(end);
    return 0;
}
