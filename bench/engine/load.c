/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load on other groups during a measurement: a process that transmits to them or receives from them, each 10
 * ms. All groups together have a constant rate, in turn. channel=SCHEME://NET:PORT?OPTIONS size= transmits=1;
 * the groups are NET.0.1, NET.0.2 and so on. Requests:
 *   load groups=N rate=N   end the load and start one on the first N groups, rate= messages a second in all;
 *                          answers, once all groups are joined, with the results of the previous load
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <llm/llm.h>

#include "steady.h"

enum {
    LOAD_GROUPS_MAX = 4000,
    LOAD_SUBNET = 250,         /* groups NET.0.1 to NET.0.250, then NET.1.1 and so on */
    LOAD_CONTEXT_GROUPS = 250, /* a context of the udp transport has space for 256 groups */
    LOAD_FILES = 64,           /* open files in addition to one for each group */
    LOAD_TICK_NS =
        10000000, /* messages due in a tick are sent together, since more wake-ups would load the cores */
};

static struct load {
    const char *channel;
    bool transmits;
    uint64_t size; /* bytes of a message */
    char *message;
    struct llm_context *contexts[LOAD_GROUPS_MAX / LOAD_CONTEXT_GROUPS];
    uint64_t context_count;
    struct llm_topic *topics[LOAD_GROUPS_MAX]; /* topics of the transmitters */
    uint64_t groups, rate;
    uint64_t messages;
    uint64_t begun_at, cpu_begun_ns;
} load;

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    (void)message;
    load.messages++;
}

/* Without a handler gaps would be logged; the counts of both sides show them anyway. */
static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

static void load_open_group(uint64_t i)
{
    const char *port = strrchr(load.channel, ':');
    struct llm_context_options options = steady_options();
    struct llm_transmitter *transmitter;
    struct llm_context *context;
    char channel[1024];

    options.huge_pages = false;
    if (i % LOAD_CONTEXT_GROUPS == 0)
        load.contexts[load.context_count++] = steady_open(&options);
    context = load.contexts[load.context_count - 1];
    (void)snprintf(channel, sizeof channel, "%.*s.%" PRIu64 ".%" PRIu64 "%s", (int)(port - load.channel),
                   load.channel, i / LOAD_SUBNET, i % LOAD_SUBNET + 1, port);
    if (!load.transmits) {
        (void)steady_receiver(context, channel, on_message, on_event, NULL);
        return;
    }
    steady_ok(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), channel);
    steady_ok(llm_topic_open(transmitter, "load", 0, &load.topics[i]), channel);
}

static void load_close(void)
{
    while (load.context_count > 0)
        (void)llm_context_close(&load.contexts[--load.context_count]);
}

static uint64_t load_cpu_ns(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

/* Sends one packet for each message: packing would make the load depend on the number of groups. */
static void load_work(void)
{
    const uint64_t ns = llm_clock() - load.begun_at,
                   due = load.groups > 0 ? (uint64_t)((double)ns * (double)load.rate / 1e9) : 0;

    while (load.transmits && load.messages < due &&
           llm_send(load.topics[load.messages % load.groups], load.message, load.size, LLM_SEND_NOW) == 0)
        load.messages++;
    for (uint64_t i = 0; i < load.context_count; i++)
        while (llm_poll(load.contexts[i]) > 0)
            continue;
}

static void load_change(const struct control *request)
{
    load_work();
    json_open();
    json_counts("messages ns cpu_ns",
                (uint64_t[]){load.messages, llm_clock() - load.begun_at, load_cpu_ns() - load.cpu_begun_ns});
    load_close();
    load.groups = control_number(request, "groups", 0);
    load.rate = control_number(request, "rate", 0);
    load.messages = 0;
    steady_ok(load.groups > LOAD_GROUPS_MAX ? LLM_ELIMIT : LLM_OK, "load");
    steady_allow_files(load.groups + LOAD_FILES);
    for (uint64_t i = 0; i < load.groups; i++)
        load_open_group(i);
    load.begun_at = llm_clock();
    load.cpu_begun_ns = load_cpu_ns();
    json_close();
}

int load_run(const struct control *control)
{
    struct control request;
    int came;

    load.transmits = control_flag(control, "transmits");
    load.size = control_number(control, "size", 45);
    load.channel = control_text(control, "channel", "");
    load.message = control_memory(1, load.size);
    while ((came = control_take(&request, LOAD_TICK_NS)) >= 0) {
        if (came > 0)
            load_change(&request);
        load_work();
    }
    load_close();
    free(load.message);
    return 0;
}
