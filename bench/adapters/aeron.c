/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aeron: driver and client in one thread of this process (invoker mode), since the threads of a media driver
 * would share the core with the program anyway. Exclusive publications over UDP multicast, or over shared
 * memory (aeron:ipc), where both ends use the driver of the near end.
 *
 * In shared memory the driver carries no messages: it only advances the windows. It therefore runs as seldom
 * as the client's own work, and when a window is full: at every poll it would add 0.2 us to a hop. A separate
 * driver that sleeps for 1 ms between two runs gives the same hop but a fifth of the rate, as windows stay
 * full until it wakes.
 */
#include <limits.h>
#include <stdio.h>

#include <aeronc.h>
#include <aeronmd.h>
#include <llm/llm.h>

#include "adapter.h"

#define AERON_TERM_BYTES 16777216 /* larger ones leave the caches: 64 MiB gave 0.8 of the rate at 45 B */
#define AERON_MEMORY_TERM \
    "256k" /* 1 MiB gave 0.8 of the rate at 1,000 B, 16 MiB 0.3; the hop is the same with all */
#define AERON_MEMORY_TERM_READ \
    "4m" /* for messages that are read: 256 KiB gave 0.8 of the rate at 1,000 B, 16 to 20 M messages/s */
#define AERON_TERM_BYTES_MANY 1048576 /* of one publisher of many to many */
#define AERON_TERM_BYTES_SMALL 262144
#define AERON_MTU 1472 /* fills an Ethernet frame; the default of 1408 leaves space for tunnels */
#define AERON_SOCKET_BYTES 16777216
#define AERON_WINDOW_BYTES 2097152
#define AERON_VECTORS 64
#define AERON_FRAGMENTS 256 /* fragments delivered in one poll */
#define AERON_CLIENT_POLLS \
    64 /* polls between two runs of the client's own work: keep-alives and new images */
#define AERON_PATIENCE_NS 10000000000ull

struct media {
    aeron_driver_context_t *driver_context;
    aeron_driver_t *driver;
    aeron_context_t *context;
    aeron_t *client;
    aeron_exclusive_publication_t *publication;
    aeron_subscription_t *subscription;
    aeron_fragment_assembler_t *assembler;
    bool memory;
    unsigned polls;
};

static struct media media;

static void media_work(void)
{
    if (media.driver)
        aeron_driver_main_do_work(media.driver);
}

static const char *media_directory(const struct adapter_link *link)
{
    static char common[PATH_MAX];

    if (!media.memory)
        return link->directory;
    snprintf(common, sizeof common, "%s/aeron", link->common);
    return common;
}

static int media_fail(const char *what)
{
    return adapter_fail(what, aeron_errmsg());
}

static int media_open_driver(const struct adapter_link *link)
{
    aeron_driver_context_t *context = NULL;
    int failed;

    if (aeron_driver_context_init(&media.driver_context) < 0)
        return media_fail("aeron_driver_context_init");
    context = media.driver_context;
    failed = aeron_driver_context_set_dir(context, media_directory(link)) |
             aeron_driver_context_set_dir_delete_on_start(context, true) |
             aeron_driver_context_set_dir_delete_on_shutdown(context, true) |
             aeron_driver_context_set_threading_mode(context, AERON_THREADING_MODE_INVOKER) |
             aeron_driver_context_set_term_buffer_length(context, AERON_TERM_BYTES) |
             aeron_driver_context_set_term_buffer_sparse_file(context, false) |
             aeron_driver_context_set_mtu_length(context, AERON_MTU) |
             aeron_driver_context_set_perform_storage_checks(context, false) |
             aeron_driver_context_set_socket_so_rcvbuf(context, AERON_SOCKET_BYTES) |
             aeron_driver_context_set_socket_so_sndbuf(context, AERON_SOCKET_BYTES) |
             aeron_driver_context_set_rcv_initial_window_length(context, AERON_WINDOW_BYTES) |
             aeron_driver_context_set_receiver_io_vector_capacity(context, AERON_VECTORS) |
             aeron_driver_context_set_sender_io_vector_capacity(context, AERON_VECTORS) |
             aeron_driver_context_set_network_publication_max_messages_per_send(context, AERON_VECTORS);
    if (failed || aeron_driver_init(&media.driver, context) < 0 || aeron_driver_start(media.driver, true) < 0)
        return media_fail("cannot start the driver");
    media_work();
    return 0;
}

static int media_open_client(const struct adapter_link *link)
{
    if (aeron_context_init(&media.context) < 0 ||
        aeron_context_set_dir(media.context, media_directory(link)) < 0 ||
        aeron_context_set_use_conductor_agent_invoker(media.context, true) < 0 ||
        aeron_context_set_pre_touch_mapped_memory(media.context, true) < 0 ||
        aeron_init(&media.client, media.context) < 0 || aeron_start(media.client) < 0)
        return media_fail("cannot start the client");
    return 0;
}

/*
 * A publication has three terms, in the memory of its own host and of each subscriber, so many publishers and
 * subscribers need shorter ones, as Aeron's documentation says. The far ends of `small` send almost nothing.
 */
static unsigned media_term_bytes(const struct adapter_link *link)
{
    unsigned bytes = AERON_TERM_BYTES;

    if (link->small && !link->near)
        return AERON_TERM_BYTES_SMALL;
    for (unsigned streams = link->others; streams > 1 && bytes > AERON_TERM_BYTES_MANY; streams /= 2)
        bytes /= 2;
    return bytes;
}

static void media_channel(const struct adapter_link *link, bool sends, char *text, size_t size)
{
    if (media.memory) {
        snprintf(text, size, "aeron:ipc%s%s", sends ? "?term-length=" : "",
                 !sends                                ? ""
                 : link->reads_all && link->throughput ? AERON_MEMORY_TERM_READ
                                                       : AERON_MEMORY_TERM);
    } else if (sends) {
        snprintf(text, size, "aeron:udp?endpoint=%s:%u|interface=%s|fc=min|term-length=%u", link->send_group,
                 link->send_port, link->address, media_term_bytes(link));
    } else {
        snprintf(text, size, "aeron:udp?endpoint=%s:%u|interface=%s", link->receive_group, link->receive_port,
                 link->address);
    }
}

static int media_add_publication(const char *channel, int32_t stream)
{
    aeron_async_add_exclusive_publication_t *adding = NULL;
    uint64_t give_up_at = llm_clock() + AERON_PATIENCE_NS;
    int done = 0;

    if (aeron_async_add_exclusive_publication(&adding, media.client, channel, stream) < 0)
        return media_fail(channel);
    while (done == 0 && llm_clock() < give_up_at) {
        media_work();
        aeron_main_do_work(media.client);
        done = aeron_async_add_exclusive_publication_poll(&media.publication, adding);
    }
    return done == 1 ? 0 : media_fail(channel);
}

static int media_add_subscription(const char *channel, int32_t stream)
{
    aeron_async_add_subscription_t *adding = NULL;
    uint64_t give_up_at = llm_clock() + AERON_PATIENCE_NS;
    int done = 0;

    if (aeron_async_add_subscription(&adding, media.client, channel, stream, NULL, NULL, NULL, NULL) < 0)
        return media_fail(channel);
    while (done == 0 && llm_clock() < give_up_at) {
        media_work();
        aeron_main_do_work(media.client);
        done = aeron_async_add_subscription_poll(&media.subscription, adding);
    }
    return done == 1 ? 0 : media_fail(channel);
}

static void media_message(void *arg, const uint8_t *data, size_t size, aeron_header_t *header)
{
    (void)arg;
    (void)header;
    adapter_deliver(data, size);
}

static int media_open(const struct adapter_link *link)
{
    char channel[160];

    media.memory = *link->common != '\0';
    if (((link->near && link->index == 0) || !media.memory) && media_open_driver(link) != 0)
        return -1;
    if (media_open_client(link) != 0)
        return -1;
    media_channel(link, true, channel, sizeof channel);
    if (media_add_publication(channel, (int32_t)link->send_port) != 0)
        return -1;
    media_channel(link, false, channel, sizeof channel);
    if (media_add_subscription(channel, (int32_t)link->receive_port) != 0)
        return -1;
    return aeron_fragment_assembler_create(&media.assembler, media_message, NULL) < 0
               ? media_fail("no assembler")
               : 0;
}

/* The driver sends offered messages when it runs. */
static int media_send(const void *data, size_t size, bool more)
{
    int64_t position = aeron_exclusive_publication_offer(media.publication, data, size, NULL, NULL);

    /* The term is full; the next offer goes into the next term. */
    if (position == AERON_PUBLICATION_ADMIN_ACTION)
        position = aeron_exclusive_publication_offer(media.publication, data, size, NULL, NULL);
    if (position < 0 || (!more && !media.memory))
        media_work();
    return position >= 0;
}

static int media_poll(void)
{
    int count;

    if (!media.memory)
        media_work();
    if (++media.polls % AERON_CLIENT_POLLS == 0) {
        aeron_main_do_work(media.client);
        if (media.memory)
            media_work();
    }
    count = aeron_subscription_poll(media.subscription, aeron_fragment_assembler_handler, media.assembler,
                                    AERON_FRAGMENTS);
    if (count > 0)
        adapter_delivered();
    return count > 0 ? count : 0;
}

static void media_close(void)
{
    if (media.client)
        aeron_close(media.client);
    if (media.context)
        aeron_context_close(media.context);
    if (media.assembler)
        aeron_fragment_assembler_delete(media.assembler);
    if (media.driver)
        aeron_driver_close(media.driver);
    if (media.driver_context)
        aeron_driver_context_close(media.driver_context);
}

const struct adapter adapter_peer = {
    .name = "aeron",
    .batch = 512,
    .open = media_open,
    .send = media_send,
    .poll = media_poll,
    .close = media_close,
};
