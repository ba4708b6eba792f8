/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bare ring in shared memory: "raw" has a message in each slot, which is no larger than that takes, "packed" as many whole
 * ones as 9,000 bytes hold.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../raw.h"
#include "peer_harness.h"

#define RING_BURST 64 /* slots taken in one poll */

struct ring {
    struct raw_end *send;
    struct raw_end *receive;
    size_t size;         /* of a message */
    size_t packet_bytes; /* of the messages in a slot */
    size_t filled;
    char *packet;
};

static struct ring ring;

/* Whether nothing is left to send. */
static bool ring_flush(void)
{
    if (ring.filled > 0 && raw_send(ring.send, ring.packet, ring.filled) == 0)
        ring.filled = 0;
    return ring.filled == 0;
}

static int ring_send(const void *data, size_t size, bool more)
{
    if (ring.packet_bytes == size)
        return raw_send(ring.send, data, size) == 0;
    if (ring.filled == ring.packet_bytes && !ring_flush())
        return 0;
    memcpy(ring.packet + ring.filled, data, size);
    ring.filled += size;
    if (!more || ring.filled == ring.packet_bytes)
        ring_flush();
    return 1;
}

static int ring_poll(void)
{
    const char *data;
    size_t bytes;
    int count = 0;

    ring_flush();
    for (int slots = 0; slots < RING_BURST && (data = raw_receive(ring.receive, &bytes)) != NULL; slots++)
        for (; bytes >= ring.size; bytes -= ring.size, data += ring.size, count++)
            harness_deliver(data, ring.size);
    if (count > 0)
        harness_delivered();
    return count;
}

static struct raw_end *ring_end(const struct harness_link *link, const char *name, bool sends)
{
    const char *reason = "";
    struct raw_group group;
    char channel[160];

    snprintf(channel, sizeof channel, "shm://%s?shm_directory=%s", name, link->common);
    if (raw_group_of_channel(channel, 0, &group, &reason) != 0)
        return NULL;
    ring.packet_bytes = strcmp(link->variant, "packed") == 0 ? group.mtu / link->size * link->size : link->size;
    group.mtu = (unsigned)ring.packet_bytes;
    return raw_open(&group, sends);
}

static int ring_open(const struct harness_link *link)
{
    ring.size = link->size;
    ring.send = ring_end(link, link->send_group, true);
    ring.receive = ring_end(link, link->receive_group, false);
    if (!ring.send || !ring.receive)
        return harness_fail("cannot open the rings", strerror(errno));
    ring.packet = malloc(ring.packet_bytes);
    return ring.packet ? 0 : harness_fail("no memory", strerror(errno));
}

static void ring_close(void)
{
    raw_close(ring.send);
    raw_close(ring.receive);
    free(ring.packet);
}

int main(int argc, char **argv)
{
    static const struct harness_peer peer = {
        .name = "raw",
        .batch = 256,
        .idle_reflector = HARNESS_SPIN,
        .idle_throughput = HARNESS_SPIN,
        .open = ring_open,
        .send = ring_send,
        .poll = ring_poll,
        .close = ring_close,
    };

    return harness_main(&peer, argc, argv);
}
