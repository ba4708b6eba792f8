/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of another library on topics: its adapter carries all messages of a direction, and the watch
 * list is applied by the library if it filters by a prefix, else by this program.
 */
#include <stdio.h>

#include "../engine/control.h"
#include "adapter.h"
#include "feed.h"

static struct adapter_link peer_link;

void adapter_deliver(const void *data, size_t size)
{
    market_deliver(data, size);
}

void adapter_deliver_numbered(const void *data, size_t size, uint64_t number)
{
    (void)number;
    market_deliver(data, size);
}

void adapter_delivered(void)
{
}

bool adapter_is_refused(void)
{
    return false;
}

/* The runner chooses the idle behaviour. */
void adapter_prefer_idle(enum adapter_idle idle)
{
    (void)idle;
}

int adapter_fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s: %s\n", adapter_peer.name, what, why);
    return -1;
}

static void peer_open(const struct feed_link *link)
{
    uint32_t *prefixes = control_memory(link->topics_max, sizeof *prefixes);

    peer_link = adapter_link_of(link->control, control_flag(link->control, "near"));
    peer_link.size = link->size;
    peer_link.small = true;
    for (uint32_t topic = 0; link->watched != NULL && topic < link->topics_max; topic++)
        if (link->watched[topic])
            prefixes[peer_link.prefix_count++] = topic;
    peer_link.prefixes = link->watched != NULL ? prefixes : NULL;
    if (adapter_peer.open(&peer_link) != 0)
        control_fail(adapter_peer.name, "cannot be opened");
}

static bool peer_send(uint32_t topic, const void *data, size_t size, bool more)
{
    (void)topic;
    return adapter_peer.send(data, size, more) != 0;
}

static int peer_poll(void)
{
    return adapter_peer.poll();
}

static void peer_close(void)
{
    adapter_peer.close();
}

static const struct feed feed_peer = {
    .name = "peer", .open = peer_open, .send = peer_send, .poll = peer_poll, .close = peer_close};

const struct feed *const market_feeds[] = {&feed_peer, NULL};

int main(int argc, char **argv)
{
    struct control control;

    control_of_arguments(&control, argc, argv);
    return market_run(&control);
}
