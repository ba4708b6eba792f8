/* SPDX-License-Identifier: Apache-2.0 */
/* libllm itself, at its defaults but for what throughput takes. */
#include <stdio.h>

#include "../peer.h"
#include "peer_harness.h"

/* In memory 24 MiB, the default, leave the third cache and have half of the rate at 1,000 B; a hop is the same over all. */
#define ENDS_MEMORY_HISTORY "6M"

static struct peer ends;

static void ends_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    harness_deliver(message->data, message->size);
}

static void ends_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_GAP)
        fprintf(stderr, "libllm: messages %llu to %llu are lost: %s\n", (unsigned long long)event->first,
                (unsigned long long)event->last, llm_reason_name(event->reason));
}

/* Flat out, libllm finds by itself the rate that the receiver keeps up with, as the others do. */
static void ends_channel(char *text, size_t size, const struct harness_link *link, const char *group, unsigned port)
{
    const char *flow = link->throughput ? "&flow=window" : "";

    if (*link->common)
        snprintf(text, size, "shm://%s?shm_directory=%s%s%s", group, link->common, flow,
                 link->throughput ? "&history_bytes=" ENDS_MEMORY_HISTORY : "");
    else
        snprintf(text, size, "udp://%s:%u?interface=%s%s", group, port, link->interface, flow);
}

static int ends_open(const struct harness_link *link)
{
    char send[128];
    char receive[128];
    struct peer_channels channels = {.send = send, .receive = receive};
    struct llm_handlers handlers;

    ends_channel(send, sizeof send, link, link->send_group, link->send_port);
    ends_channel(receive, sizeof receive, link, link->receive_group, link->receive_port);
    llm_handlers_init(&handlers);
    handlers.message = ends_message;
    handlers.event = ends_event;
    return peer_open(&ends, &channels, &handlers) == 0 ? 0 : -1;
}

static int ends_send(const void *data, size_t size, bool more)
{
    return llm_send(ends.topic, data, size, more ? LLM_SEND_MORE : 0) == 0;
}

static int ends_poll(void)
{
    int count = llm_poll(ends.context);

    if (count > 0)
        harness_delivered();
    return count > 0 ? count : 0;
}

static void ends_close(void)
{
    peer_close(&ends);
}

int main(int argc, char **argv)
{
    static const struct harness_peer peer = {
        .name = "libllm",
        .batch = 2048,
        .idle_reflector = HARNESS_SPIN,
        .idle_throughput = HARNESS_SPIN,
        .open = ends_open,
        .send = ends_send,
        .poll = ends_poll,
        .close = ends_close,
    };

    return harness_main(&peer, argc, argv);
}
