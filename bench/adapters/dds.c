/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CycloneDDS: a reliable writer with full history; multicast even for a single reader; messages taken in a
 * listener.
 */
#include <stdatomic.h>
#include <stdio.h>

#include <dds/dds.h>

#include "message.h"
#include "adapter.h"

#define DDS_TAKE 128 /* messages in one take */
#define DDS_CONFIG_BYTES 512

struct space {
    dds_entity_t domain;
    dds_entity_t participant;
    dds_entity_t writer;
    dds_entity_t reader;
    _Atomic int came; /* messages since the last poll */
};

static struct space space;

static int space_fail(const char *what, dds_return_t error)
{
    return adapter_fail(what, dds_strretcode(error));
}

static void space_take(dds_entity_t reader, void *arg)
{
    void *samples[DDS_TAKE] = {NULL};
    dds_sample_info_t infos[DDS_TAKE];
    int count;

    (void)arg;
    while ((count = dds_take(reader, samples, infos, DDS_TAKE, DDS_TAKE)) > 0) {
        for (int i = 0; i < count; i++) {
            const peer_message *message = samples[i];

            if (infos[i].valid_data)
                adapter_deliver(message->data._buffer, message->data._length);
        }
        dds_return_loan(reader, samples, count);
        adapter_delivered();
        atomic_fetch_add_explicit(&space.came, count, memory_order_relaxed);
    }
}

/* Multicast to a single reader too, where the default is unicast; the other defaults performed best. */
static void space_config(const struct adapter_link *link, char *text, size_t size)
{
    snprintf(text, size,
             "<General><Interfaces><NetworkInterface name=\"%s\" prefer_multicast=\"true\"/></Interfaces>"
             "<AllowMulticast>true</AllowMulticast></General>"
             "<Internal><SocketReceiveBufferSize max=\"16MB\"/></Internal>",
             link->interface);
}

static dds_entity_t space_topic(const char *name)
{
    return dds_create_topic(space.participant, &peer_message_desc, name, NULL, NULL);
}

static int space_open_ends(const struct adapter_link *link, const dds_qos_t *qos,
                           const dds_listener_t *listener)
{
    dds_entity_t out = space_topic(link->near ? "forward" : "back");
    dds_entity_t in = space_topic(link->near ? "back" : "forward");

    if (out < 0 || in < 0)
        return space_fail("no topic", out < 0 ? out : in);
    space.writer = dds_create_writer(space.participant, out, qos, NULL);
    if (space.writer < 0)
        return space_fail("no writer", space.writer);
    space.reader = dds_create_reader(space.participant, in, qos, listener);
    return space.reader < 0 ? space_fail("no reader", space.reader) : 0;
}

static int space_open(const struct adapter_link *link)
{
    dds_qos_t *qos = dds_create_qos();
    dds_listener_t *listener = dds_create_listener(NULL);
    char config[DDS_CONFIG_BYTES];
    int failed;

    space_config(link, config, sizeof config);
    space.domain = dds_create_domain(0, config);
    if (space.domain < 0)
        return space_fail("no domain", space.domain);
    dds_write_set_batch(true);
    space.participant = dds_create_participant(0, NULL, NULL);
    if (space.participant < 0)
        return space_fail("no participant", space.participant);
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(1));
    dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
    dds_lset_data_available(listener, space_take);
    failed = space_open_ends(link, qos, listener);
    dds_delete_qos(qos);
    dds_delete_listener(listener);
    return failed;
}

static int space_send(const void *data, size_t size, bool more)
{
    union {
        const void *given;
        uint8_t *kept;
    } bytes = {.given = data}; /* the writer only reads it */
    peer_message message = {
        .data = {._maximum = (uint32_t)size,
                 ._length = (uint32_t)size,
                 ._buffer = bytes.kept,
                 ._release = false},
    };
    int taken = dds_write(space.writer, &message) == DDS_RETCODE_OK;

    if (!more)
        dds_write_flush(space.writer);
    return taken;
}

static int space_poll(void)
{
    return atomic_exchange_explicit(&space.came, 0, memory_order_relaxed);
}

static void space_close(void)
{
    if (space.domain > 0)
        dds_delete(space.domain);
}

const struct adapter adapter_peer = {
    .name = "cyclonedds",
    .batch = 256,
    .idle_reflector = ADAPTER_YIELD,
    .idle_throughput = ADAPTER_SLEEP,
    .open = space_open,
    .send = space_send,
    .poll = space_poll,
    .close = space_close,
};
