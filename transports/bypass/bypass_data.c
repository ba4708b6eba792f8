/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving from the stack's memory, and warm sends. The rest of the data path is that of UDP. */
#define _GNU_SOURCE
#include "bypass.h"

#include <assert.h>

#include "system/clock.h"

_Static_assert((int)ONLOAD_MSG_WARM == (int)VMA_SND_FLAGS_DUMMY, "one flag does for both stacks");

enum {
    IDLE_POLLS = 64, /* empty polls per clock reading */
    WARM_BYTES = 64, /* size of a short packet */
};

/* ------------------------------------------------------------------------------------- zero-copy delivery */

bool lli_bypass_room(const struct lli_bypass *bypass)
{
    return bypass->free_count > 0 && bypass->udp.in.free != 0;
}

void lli_bypass_lend(struct lli_bypass *bypass, const struct lli_udp_receiver *receiver, void *id,
                     struct iovec data, struct lli_in *packet)
{
    const uint16_t place = bypass->free[--bypass->free_count];

    bypass->unreleased[place] = (struct lli_bypass_unreleased){id, receiver->fd};
    bypass->lent++;
    *packet = (struct lli_in){.data = data.iov_base,
                              .size = (uint32_t)data.iov_len,
                              .from = receiver->handle,
                              .buffer = LLI_BYPASS_UNRELEASED | place};
}

static size_t bypass_buffer_next(const struct lli_bypass *bypass)
{
    return (size_t)__builtin_ctzll(bypass->udp.in.free);
}

uint8_t *lli_bypass_buffer(const struct lli_bypass *bypass)
{
    return bypass->udp.in.pieces[bypass_buffer_next(bypass)].iov_base;
}

void lli_bypass_lend_buffer(struct lli_bypass *bypass, const struct lli_udp_receiver *receiver, size_t size,
                            struct lli_in *packet)
{
    struct lli_udp *udp = &bypass->udp;
    const size_t buffer = bypass_buffer_next(bypass);

    udp->in.free &= ~(UINT64_C(1) << buffer);
    udp->in.references[buffer] = 1;
    bypass->copied++;
    *packet = (struct lli_in){.data = udp->in.pieces[buffer].iov_base,
                              .size = (uint32_t)size,
                              .from = receiver->handle,
                              .buffer = buffer};
}

static void bypass_give_back(struct lli_bypass *bypass, int fd, void **ids, int count)
{
    if (!bypass->stack->give_back(bypass, fd, ids, count))
        bypass->release_errors += (uint64_t)count;
}

/* Frees an index of unreleased. The caller returns its memory to the stack. */
static struct lli_bypass_unreleased bypass_forget(struct lli_bypass *bypass, uint64_t buffer)
{
    const uint16_t place = (uint16_t)(buffer & ~LLI_BYPASS_UNRELEASED);
    const struct lli_bypass_unreleased unreleased = bypass->unreleased[place];

    assert(place < LLI_BYPASS_UNRELEASED_MAX && unreleased.fd >= 0);
    bypass->unreleased[place].fd = -1;
    bypass->free[bypass->free_count++] = place;
    return unreleased;
}

void lli_bypass_release(void *instance, const struct lli_in *packets, int count)
{
    struct lli_bypass *bypass = instance;
    void *ids[LLI_BYPASS_RELEASE_MAX];
    int fd = -1, used = 0;

    if (bypass->plain && bypass->free_count == LLI_BYPASS_UNRELEASED_MAX) {
        lli_udp_release(&bypass->udp, packets, count);
        return;
    }
    for (int i = 0; i < count; i++) {
        struct lli_bypass_unreleased unreleased;

        if ((packets[i].buffer & LLI_BYPASS_UNRELEASED) == 0) {
            lli_udp_release(&bypass->udp, &packets[i], 1);
            continue;
        }
        unreleased = bypass_forget(bypass, packets[i].buffer);
        if (used > 0 && (unreleased.fd != fd || used == LLI_BYPASS_RELEASE_MAX)) {
            bypass_give_back(bypass, fd, ids, used);
            used = 0;
        }
        fd = unreleased.fd;
        ids[used++] = unreleased.id;
    }
    if (used > 0)
        bypass_give_back(bypass, fd, ids, used);
}

void lli_bypass_recall(struct lli_bypass *bypass)
{
    for (uint64_t place = 0; place < LLI_BYPASS_UNRELEASED_MAX; place++)
        if (bypass->unreleased[place].fd >= 0)
            lli_bypass_release(bypass, &(struct lli_in){.buffer = LLI_BYPASS_UNRELEASED | place}, 1);
}

/* --------------------------------------------------------------------------------------------- warm sends */

/*
 * Warm send: takes the path of a packet without transmitting. If the stack transmits it nevertheless,
 * receivers drop it by the version in its first byte, and count it.
 */
static void bypass_warm_send(struct lli_bypass *bypass)
{
    static const uint8_t nothing[WARM_BYTES];

    bypass->warm_next = (bypass->warm_next + 1) % bypass->warm_count;
    if (send(bypass->warm[bypass->warm_next], nothing, sizeof nothing, ONLOAD_MSG_WARM | MSG_DONTWAIT) < 0)
        bypass->warm_errors++;
    else
        bypass->warm_sends++;
}

/* Warms a send path unless something was sent recently. */
static void bypass_stay_warm(struct lli_bypass *bypass)
{
    uint64_t now;

    if (++bypass->idle % IDLE_POLLS != 0)
        return;
    now = lli_clock_ns();
    if (bypass->warm_taken == bypass->udp.out.taken && now < bypass->warm_at)
        return;
    if (bypass->warm_taken == bypass->udp.out.taken)
        bypass_warm_send(bypass);
    bypass->warm_taken = bypass->udp.out.taken;
    bypass->warm_at = now + bypass->warm_ns;
}

/* ---------------------------------------------------------------------------------------------- receiving */

static int bypass_copy(struct lli_bypass *bypass, struct lli_udp_receiver *receiver, struct lli_in *packets,
                       int max)
{
    lli_udp_fetch(&bypass->udp, receiver);
    return lli_udp_lend(&bypass->udp, packets, max);
}

static bool bypass_lends(const struct lli_bypass *bypass, const struct lli_udp_receiver *receiver)
{
    const uint32_t place = receiver->handle == LLI_HANDLE_UNICAST ? LLI_UDP_GROUPS_MAX : receiver->handle;

    /* Only copied messages have time stamps and source addresses. */
    return bypass->lends[place] && !receiver->apart;
}

static int bypass_fetch(struct lli_bypass *bypass, struct lli_in *packets, int max)
{
    struct lli_udp_receiver *receiver;
    int count;

    if (!lli_bypass_room(bypass)) {
        bypass->exhausted++;
        return 0;
    }
    receiver = lli_udp_next(&bypass->udp);
    if (receiver == NULL)
        return 0;
    if (!bypass_lends(bypass, receiver))
        return bypass_copy(bypass, receiver, packets, max);
    count = bypass->stack->fetch(bypass, receiver, packets, max);
    if (count < 0) {
        bypass->fetch_errors++;
        return bypass_copy(bypass, receiver, packets, max);
    }
    receiver->bursting = count > 0;
    /*
     * Packets received by the kernel may have overflowed its buffer; its drop count is read before sleeping,
     * when that is cheap.
     */
    receiver->unchecked += (uint32_t)count;
    return count;
}

int lli_bypass_receive(void *instance, struct lli_in *packets, int max)
{
    struct lli_bypass *bypass = instance;
    const struct lli_udp *udp = &bypass->udp;
    int count;

    /* Deliver copied packets first. */
    if (bypass->plain || udp->in.fetched.next != udp->in.fetched.end || max <= 0)
        count = lli_udp_receive(instance, packets, max);
    else
        count = bypass_fetch(bypass, packets, max);
    if (count == 0 && bypass->warm_count > 0)
        bypass_stay_warm(bypass);
    return count;
}
