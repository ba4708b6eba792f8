/* SPDX-License-Identifier: Apache-2.0 */
/* iceoryx2: publish and subscribe, polled without its events. The Rust part is iceoryx2/ends.rs. */
#include "adapter.h"

#define ICEORYX2_QUEUE 128 /* messages; 512 and more make a hop half as long again */

struct iceoryx2_ends;

/* Declarations of ends.rs. */
struct iceoryx2_place {
    const char *common;
    const char *send;
    const char *receive;
    size_t size;
    size_t queue;
};

struct iceoryx2_ends *iceoryx2_open(const struct iceoryx2_place *place);
int iceoryx2_send(struct iceoryx2_ends *ends, const void *data, size_t size);
int iceoryx2_poll(struct iceoryx2_ends *ends);
void iceoryx2_close(struct iceoryx2_ends *ends);

static struct iceoryx2_ends *loans;

static int loans_open(const struct adapter_link *link)
{
    struct iceoryx2_place place = {
        .common = link->common,
        .send = link->send_group,
        .receive = link->receive_group,
        .size = link->size,
        .queue = ICEORYX2_QUEUE,
    };

    loans = iceoryx2_open(&place);
    return loans ? 0 : -1;
}

static int loans_send(const void *data, size_t size, bool more)
{
    (void)more;
    return iceoryx2_send(loans, data, size);
}

static int loans_poll(void)
{
    int count = iceoryx2_poll(loans);

    if (count > 0)
        adapter_delivered();
    return count;
}

static void loans_close(void)
{
    if (loans)
        iceoryx2_close(loans);
}

const struct adapter adapter_peer = {
    .name = "iceoryx2",
    .batch = 256,
    .open = loans_open,
    .send = loans_send,
    .poll = loans_poll,
    .close = loans_close,
};
