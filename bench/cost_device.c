/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fake RDMA device of the unit tests in place of libibverbs and librdmacm. Its instructions belong to this
 * program, so cost.py does not count them.
 */
#include "engine/pairs.h"

#include <stddef.h>

#include "fake.h"

static struct {
    struct ibv_qp *send, *receive;
} device_ends[2];

/* The fake device wraps calloc() for the unit tests. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    return __real_calloc(count, size);
}

static void device_open(void)
{
    fake_reset();
    fake.device.address = "127.0.0.1";
    fake.device.active_mtu = IBV_MTU_1024;
    fake.complete_when_polled = true;
}

static void device_opened(enum pairs_end end)
{
    device_ends[end].send = fake.send_qp;
    device_ends[end].receive = fake.receive_qp;
}

static void device_turn(enum pairs_end end)
{
    fake.send_qp = device_ends[end].send;
    fake.receive_qp = device_ends[end].receive;
    for (uint32_t i = 0; i < fake.sent_count; i++)
        if (!fake_arrive_sent(&fake.sent[i]))
            fake_wrong("it has no buffer for packet %u", i);
    fake_sent_forget();
}

const struct pairs_device pairs_device = {.open = device_open, .opened = device_opened, .turn = device_turn};
