/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault injector around any transport: received packets are lost in bursts, duplicated, reordered, delayed
 * and corrupted. Sending is passed through unchanged.
 *
 * Each kind of fault has its own random generator, seeded from impair_seed, that advances once per packet. So
 * the same packets suffer the same faults in every run, and changing the rate of one fault does not affect
 * the others.
 *
 * Received packets are copied into slots of this instance. A reordered packet waits there until others have
 * overtaken it; then every packet waits in a heap until its due time.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "impair.h"
#include "system/clock.h"

enum {
    IMPAIR_SLOTS = 2048,
    /* Any packet; an odd number of cache lines, because a power of two would use few cache sets. */
    IMPAIR_SLOT_BYTES = 65536 + 64,
    IMPAIR_BURST = 32, /* packets received from the inner transport per call */
    IMPAIR_WAITING_MAX = 64,
    IMPAIR_OVERTAKEN_MAX = 8, /* a reordered packet is overtaken by 1 to this many packets */
    IMPAIR_WAIT_NS = 1000000, /* a reordered packet is released after this time at the latest */
};

#define IMPAIR_PROBABILITY_ONE (UINT64_C(1) << 32)

/* Random event: occurs when the upper 32 bits drawn are less than the probability. */
struct impair_dice {
    uint64_t state;
    uint64_t probability; /* in units of 1 / 2^32 */
};

/*
 * Gilbert-Elliott loss model: all packets are lost in a burst, none outside. E. N. Gilbert, 1960, with k = 1
 * and h = 0.
 */
struct impair_loss {
    struct impair_dice begin;
    struct impair_dice end;
    bool running;
};

struct impair_packet {
    uint64_t due_at; /* 0: immediately */
    uint64_t order;  /* order among packets due at the same time */
    uint32_t slot;
    uint32_t size;
    lli_handle from;
    uint64_t stamp_ns;
};

/* Packet waiting to be overtaken. */
struct impair_waiting {
    struct impair_packet packet;
    uint64_t until_count; /* value of admitted at which it is released */
    uint64_t until_at;
};

struct impair {
    const struct lli_transport *inner;
    void *inner_instance;
    bool partial; /* LLI_CAP_PARTIAL of the inner transport */

    struct impair_loss loss;
    struct impair_dice duplicate;
    struct impair_dice reorder;
    struct impair_dice corrupt;
    uint64_t delay_state;
    uint64_t delay_ns;

    uint8_t *slots;
    uint32_t free[IMPAIR_SLOTS]; /* a stack */
    uint32_t free_count;
    uint64_t admitted;
    uint64_t order;
    struct impair_waiting waiting[IMPAIR_WAITING_MAX];
    uint32_t waiting_count;
    struct impair_packet heap[IMPAIR_SLOTS];
    uint32_t heap_count;

    int epoll;
    int timer;
    bool armed;

    uint64_t lost;
    uint64_t duplicated;
    uint64_t reordered;
    uint64_t corrupted;
    uint64_t delayed;
};

/* --------------------------------------------------------------------------------------------------- dice */

/* SplitMix64: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t dice_draw(uint64_t *state)
{
    uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* Returns 0 to limit - 1. */
static uint64_t dice_below(uint64_t *state, uint64_t limit)
{
    return dice_draw(state) % limit;
}

static bool dice_throw(struct impair_dice *dice)
{
    return dice_draw(&dice->state) >> 32 < dice->probability;
}

static struct impair_dice dice_init(uint64_t *seeds, double probability)
{
    return (struct impair_dice){dice_draw(seeds), (uint64_t)(probability * (double)IMPAIR_PROBABILITY_ONE)};
}

/*
 * A burst ends with probability 1 / burst per packet; the loss rate then determines how often one must begin.
 * Independent losses have a mean run length of 1 / (1 - share), which is the minimum: shorter runs would mean
 * that losses avoid each other.
 */
static void loss_init(struct impair_loss *loss, uint64_t *seeds, uint32_t share_ppm, uint32_t burst_packets)
{
    const double share = share_ppm / 1e6;
    double burst = burst_packets;

    if (share_ppm == 1000000) {
        loss->begin = dice_init(seeds, 1);
        loss->end = dice_init(seeds, 0);
        return;
    }
    if (burst < 1 / (1 - share))
        burst = 1 / (1 - share);
    loss->begin = dice_init(seeds, share / (burst * (1 - share)));
    loss->end = dice_init(seeds, 1 / burst);
}

static bool loss_throw(struct impair_loss *loss)
{
    /* Draw both each time, so that a packet's draws do not depend on earlier ones. */
    const bool begin = dice_throw(&loss->begin);
    const bool end = dice_throw(&loss->end);

    loss->running = loss->running ? !end : begin;
    return loss->running;
}

/* -------------------------------------------------------------------------------------------- open, close */

static const struct lli_option impair_options[] = {
#define IMPAIR_OPTION(...) LLI_OPTION_ROW(struct lli_impair_options, __VA_ARGS__)
    LLI_IMPAIR_OPTIONS(IMPAIR_OPTION)};

static const struct lli_option_table impair_option_table = {
    impair_options, sizeof impair_options / sizeof impair_options[0], sizeof(struct lli_impair_options)};

static void faults_init(struct impair *impair, const struct lli_impair_options *options)
{
    uint64_t seeds = options->impair_seed;

    loss_init(&impair->loss, &seeds, options->impair_loss_ppm, options->impair_burst_packets);
    impair->duplicate = dice_init(&seeds, options->impair_duplicate_ppm / 1e6);
    impair->reorder = dice_init(&seeds, options->impair_reorder_ppm / 1e6);
    impair->corrupt = dice_init(&seeds, options->impair_corrupt_ppm / 1e6);
    impair->delay_state = dice_draw(&seeds);
    impair->delay_ns = options->impair_delay_ns;
}

static int slots_open(struct impair *impair, const struct lli_log *log)
{
    const size_t bytes = (size_t)IMPAIR_SLOTS * IMPAIR_SLOT_BYTES;

    /* Slots are reused last in, first out, so few of these pages are ever touched. */
    impair->slots =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (impair->slots == MAP_FAILED) {
        impair->slots = NULL;
        return lli_fail(log, LLM_ENOMEM, "impair: no memory for %d packets: %m", IMPAIR_SLOTS);
    }
    impair->free_count = IMPAIR_SLOTS;
    for (uint32_t i = 0; i < IMPAIR_SLOTS; i++)
        impair->free[i] = IMPAIR_SLOTS - 1 - i;
    return 0;
}

/* Combines the inner transport and the timer of waiting packets in one descriptor. */
static int waiting_open(struct impair *impair, const struct lli_log *log)
{
    struct epoll_event event = {.events = EPOLLIN};

    impair->epoll = epoll_create1(EPOLL_CLOEXEC);
    impair->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (impair->epoll < 0 || impair->timer < 0 ||
        epoll_ctl(impair->epoll, EPOLL_CTL_ADD, impair->timer, &event) < 0 ||
        epoll_ctl(impair->epoll, EPOLL_CTL_ADD, impair->inner->arm(impair->inner_instance), &event) < 0)
        return lli_fail(log, LLM_ESYSTEM,
                        "impair: epoll or timer: %m; raise the limit of open files, 'ulimit -n'");
    return 0;
}

static int inner_open(struct impair *impair, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct lli_transport_config inner = *config;
    int status;

    inner.scheme = config->scheme + strlen("impair+");
    impair->inner = config->registry->find(inner.scheme);
    if (impair->inner == NULL)
        return lli_fail(config->log, LLM_ESCHEME, "impair: there is no transport '%s'", inner.scheme);
    impair->inner_instance = aligned_alloc(64, (impair->inner->size + 63) / 64 * 64);
    if (impair->inner_instance == NULL)
        return lli_fail(config->log, LLM_ENOMEM, "impair: no memory for an instance of '%s'", inner.scheme);
    memset(impair->inner_instance, 0, impair->inner->size);
    status = impair->inner->open(impair->inner_instance, &inner, caps);
    impair->partial = status == 0 && caps->flags & LLI_CAP_PARTIAL;
    /* Not passed through: this transport has no slot(), and loses and reorders packets. */
    caps->slot_max = 0;
    caps->flags &= ~(uint32_t)LLI_CAP_ORDERED;
    if (status != 0) {
        free(impair->inner_instance);
        impair->inner_instance = NULL;
    }
    return status;
}

/* Frees everything but the inner instance's resources. */
static void impair_free(struct impair *impair)
{
    free(impair->inner_instance);
    if (impair->epoll >= 0)
        close(impair->epoll);
    if (impair->timer >= 0)
        close(impair->timer);
    if (impair->slots != NULL)
        munmap(impair->slots, (size_t)IMPAIR_SLOTS * IMPAIR_SLOT_BYTES);
}

/* Also closes a partly opened instance. */
static void impair_close(void *instance)
{
    struct impair *impair = instance;

    if (impair->inner_instance != NULL)
        impair->inner->close(impair->inner_instance);
    impair_free(impair);
}

static void impair_abandon(void *instance)
{
    struct impair *impair = instance;

    impair->inner->abandon(impair->inner_instance);
    impair_free(impair);
}

static int impair_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct impair *impair = instance;
    struct lli_impair_options options;
    int status;

    impair->epoll = impair->timer = -1;
    lli_option_values_read(config->values, &impair_option_table, &options);
    faults_init(impair, &options);
    if ((status = inner_open(impair, config, caps)) != 0 || (status = slots_open(impair, config->log)) != 0 ||
        (status = waiting_open(impair, config->log)) != 0)
        impair_close(impair);
    return status;
}

/* ------------------------------------------------------------------------------------------- pass-through */

static int impair_region(void *instance, void *base, size_t size)
{
    struct impair *impair = instance;

    return impair->inner->region == NULL ? 0 : impair->inner->region(impair->inner_instance, base, size);
}

static int impair_region_map(void *instance, lli_handle to, size_t size, struct lli_region *region)
{
    struct impair *impair = instance;

    *region = (struct lli_region){.base = NULL};
    return impair->inner->region_map == NULL
               ? 0
               : impair->inner->region_map(impair->inner_instance, to, size, region);
}

static void impair_region_end(void *instance, void *base, size_t size)
{
    struct impair *impair = instance;

    impair->inner->region_end(impair->inner_instance, base, size);
}

static int impair_join(void *instance, const struct lli_group *group, enum lli_join_mode mode,
                       lli_handle *handle)
{
    struct impair *impair = instance;

    return impair->inner->join(impair->inner_instance, group, mode, handle);
}

static int impair_address(void *instance, struct lli_address *address)
{
    struct impair *impair = instance;

    return impair->inner->address(impair->inner_instance, address);
}

static int impair_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    struct impair *impair = instance;

    return impair->inner->peer(impair->inner_instance, address, handle);
}

static void impair_peer_forget(void *instance, const struct lli_address *address)
{
    struct impair *impair = instance;

    if (impair->inner->forget != NULL)
        impair->inner->forget(impair->inner_instance, address);
}

static int impair_post(void *instance, const struct lli_out *packets, int count)
{
    struct impair *impair = instance;

    return impair->inner->post(impair->inner_instance, packets, count);
}

static int impair_flush(void *instance)
{
    struct impair *impair = instance;

    return impair->inner->flush(impair->inner_instance);
}

static uint64_t impair_reap(void *instance)
{
    struct impair *impair = instance;

    return impair->inner->reap(impair->inner_instance);
}

/* ---------------------------------------------------------------------------------------- waiting packets */

static bool heap_before(const struct impair_packet *a, const struct impair_packet *b)
{
    return a->due_at != b->due_at ? a->due_at < b->due_at : a->order < b->order;
}

static void heap_push(struct impair *impair, const struct impair_packet *packet)
{
    uint32_t place = impair->heap_count++;

    for (; place > 0 && heap_before(packet, &impair->heap[(place - 1) / 2]); place = (place - 1) / 2)
        impair->heap[place] = impair->heap[(place - 1) / 2];
    impair->heap[place] = *packet;
}

static struct impair_packet heap_pop(struct impair *impair)
{
    struct impair_packet *heap = impair->heap;
    const struct impair_packet top = heap[0];
    const struct impair_packet last = heap[--impair->heap_count];
    uint32_t place = 0;

    for (uint32_t child = 1; child < impair->heap_count; child = 2 * place + 1) {
        if (child + 1 < impair->heap_count && heap_before(&heap[child + 1], &heap[child]))
            child++;
        if (!heap_before(&heap[child], &last))
            break;
        heap[place] = heap[child];
        place = child;
    }
    heap[place] = last;
    return top;
}

/* Schedules a packet for delivery after a random delay. */
static void packet_forward(struct impair *impair, struct impair_packet *packet, uint64_t now)
{
    packet->due_at = 0;
    packet->order = impair->order++;
    if (impair->delay_ns > 0) {
        packet->due_at = now + dice_below(&impair->delay_state, impair->delay_ns + 1);
        impair->delayed++;
    }
    heap_push(impair, packet);
}

static void waiting_release(struct impair *impair, uint64_t now)
{
    uint32_t remaining = 0;

    for (uint32_t i = 0; i < impair->waiting_count; i++) {
        struct impair_waiting *waiting = &impair->waiting[i];

        if (impair->admitted >= waiting->until_count || now >= waiting->until_at)
            packet_forward(impair, &waiting->packet, now);
        else
            impair->waiting[remaining++] = *waiting;
    }
    impair->waiting_count = remaining;
}

/* ------------------------------------------------------------------------------------------------- faults */

static uint8_t *slot_data(const struct impair *impair, uint32_t slot)
{
    return impair->slots + (size_t)slot * IMPAIR_SLOT_BYTES;
}

static struct impair_packet packet_copy(struct impair *impair, const uint8_t *data, const struct lli_in *like)
{
    const struct impair_packet packet = {
        .slot = impair->free[--impair->free_count],
        .size = like->size,
        .from = like->from,
        .stamp_ns = like->stamp_ns,
    };

    assert(like->size <= IMPAIR_SLOT_BYTES);
    memcpy(slot_data(impair, packet.slot), data, like->size);
    return packet;
}

/* Flips bits of one byte, or truncates the packet. */
static void packet_corrupt(struct impair *impair, struct impair_packet *packet, uint64_t random)
{
    const uint32_t place = (uint32_t)(random >> 32) % packet->size;

    if (random & 1)
        packet->size = place;
    else
        slot_data(impair, packet->slot)[place] ^= (uint8_t)(1 + (random >> 1) % 255);
    impair->corrupted++;
}

/* Delays a packet until others have overtaken it; forwards it if too many are waiting. */
static void packet_postpone(struct impair *impair, struct impair_packet *packet, uint64_t random,
                            uint64_t now)
{
    if (impair->waiting_count == IMPAIR_WAITING_MAX) {
        packet_forward(impair, packet, now);
        return;
    }
    impair->reordered++;
    impair->waiting[impair->waiting_count++] = (struct impair_waiting){
        .packet = *packet,
        .until_count = impair->admitted + 1 + random % IMPAIR_OVERTAKEN_MAX,
        .until_at = now + IMPAIR_WAIT_NS,
    };
}

/* Applies faults to a packet. Each kind of fault draws once per packet, even for lost ones. */
static void packet_admit(struct impair *impair, const struct lli_in *in, uint64_t now)
{
    const bool lost = loss_throw(&impair->loss);
    const bool duplicated = dice_throw(&impair->duplicate);
    const bool reordered = dice_throw(&impair->reorder);
    const uint64_t reorder = dice_draw(&impair->reorder.state);
    const bool corrupted = dice_throw(&impair->corrupt);
    const uint64_t corruption = dice_draw(&impair->corrupt.state);
    struct impair_packet packet;

    if (lost) {
        impair->lost++;
        return;
    }
    packet = packet_copy(impair, in->data, in);
    impair->admitted++;
    if (duplicated) {
        struct impair_packet copy = packet_copy(impair, in->data, in);

        packet_forward(impair, &copy, now);
        impair->duplicated++;
    }
    if (corrupted && packet.size > 0)
        packet_corrupt(impair, &packet, corruption);
    if (reordered)
        packet_postpone(impair, &packet, reorder, now);
    else
        packet_forward(impair, &packet, now);
    waiting_release(impair, now);
}

/* Returns the time at which the first waiting packet is due; UINT64_MAX if none waits. */
static uint64_t impair_due(const struct impair *impair)
{
    uint64_t due_at = impair->heap_count > 0 ? impair->heap[0].due_at : UINT64_MAX;

    for (uint32_t i = 0; i < impair->waiting_count; i++)
        if (impair->waiting[i].until_at < due_at)
            due_at = impair->waiting[i].until_at;
    return due_at;
}

/* Sets the timer to the first due time. */
static void timer_set(const struct impair *impair)
{
    const uint64_t due_at = impair_due(impair);
    struct itimerspec timer = {0};

    if (due_at != UINT64_MAX) {
        timer.it_value.tv_sec = (time_t)(due_at / 1000000000);
        /* Nonzero, as zero disarms the timer; a past time fires at once. */
        timer.it_value.tv_nsec = (long)(due_at % 1000000000) | 1;
    }
    timerfd_settime(impair->timer, TFD_TIMER_ABSTIME, &timer, NULL);
}

/* ---------------------------------------------------------------------------------------------- receiving */

/*
 * Receives packets from the inner transport; true if there were any. A packet may need two slots; without
 * them it stays there.
 */
static bool impair_fetch(struct impair *impair)
{
    struct lli_in packets[IMPAIR_BURST];
    bool any = false;
    int count;

    do {
        const uint32_t room = impair->free_count / 2;
        const int max = room < IMPAIR_BURST ? (int)room : IMPAIR_BURST;
        const uint64_t now = lli_clock_ns();

        count = max == 0 ? 0 : impair->inner->receive(impair->inner_instance, packets, max);
        for (int i = 0; i < count; i++)
            packet_admit(impair, &packets[i], now);
        if (count > 0)
            impair->inner->release(impair->inner_instance, packets, count);
        any |= count > 0;
    } while (count > 0 && impair->partial);
    return any;
}

static int impair_receive(void *instance, struct lli_in *packets, int max)
{
    struct impair *impair = instance;
    uint64_t now;
    int count = 0;

    if (!impair_fetch(impair) && impair->heap_count == 0 && impair->waiting_count == 0)
        return 0;
    now = lli_clock_ns();
    waiting_release(impair, now);
    for (; count < max && impair->heap_count > 0 && impair->heap[0].due_at <= now; count++) {
        const struct impair_packet packet = heap_pop(impair);

        packets[count] = (struct lli_in){
            .data = slot_data(impair, packet.slot),
            .size = packet.size,
            .from = packet.from,
            .buffer = packet.slot,
            .stamp_ns = packet.stamp_ns,
        };
    }
    /*
     * The caller has armed, polled once more, and is about to sleep: packets received by this call must wake
     * it.
     */
    if (count > 0)
        impair->armed = false;
    else if (impair->armed)
        timer_set(impair);
    return count;
}

static void impair_release(void *instance, const struct lli_in *packets, int count)
{
    struct impair *impair = instance;

    for (int i = 0; i < count; i++) {
        assert(impair->free_count < IMPAIR_SLOTS);
        impair->free[impair->free_count++] = (uint32_t)packets[i].buffer;
    }
}

/*
 * Drops waiting packets of a group that was left, because its handle may be reused. Pushing never overtakes
 * the reading.
 */
static void impair_forget(struct impair *impair, lli_handle handle)
{
    const uint32_t heap_count = impair->heap_count;
    const uint32_t waiting_count = impair->waiting_count;

    impair->heap_count = impair->waiting_count = 0;
    for (uint32_t i = 0; i < heap_count; i++) {
        const struct impair_packet packet = impair->heap[i];

        if (packet.from == handle)
            impair->free[impair->free_count++] = packet.slot;
        else
            heap_push(impair, &packet);
    }
    for (uint32_t i = 0; i < waiting_count; i++) {
        const struct impair_waiting waiting = impair->waiting[i];

        if (waiting.packet.from == handle)
            impair->free[impair->free_count++] = waiting.packet.slot;
        else
            impair->waiting[impair->waiting_count++] = waiting;
    }
}

static void impair_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct impair *impair = instance;

    if (mode == LLI_JOIN_RECEIVE)
        impair_forget(impair, handle);
    impair->inner->leave(impair->inner_instance, handle, mode);
}

static int impair_arm(void *instance)
{
    struct impair *impair = instance;

    impair->inner->arm(impair->inner_instance);
    impair->armed = true;
    timer_set(impair);
    return impair->epoll;
}

/* -------------------------------------------------------------------------------------------------- table */

static const struct lli_counter impair_counters[] = {
    {"impaired_lost", offsetof(struct impair, lost)},
    {"impaired_duplicated", offsetof(struct impair, duplicated)},
    {"impaired_reordered", offsetof(struct impair, reordered)},
    {"impaired_corrupted", offsetof(struct impair, corrupted)},
    {"impaired_delayed", offsetof(struct impair, delayed)},
    {NULL, 0},
};

static const struct lli_transport *impair_inner(const void *instance, int index, const void **inner_instance)
{
    const struct impair *impair = instance;

    if (index > 0)
        return NULL;
    *inner_instance = impair->inner_instance;
    return impair->inner;
}

const struct lli_transport lli_transport_impair = {
    .scheme = "impair",
    .size = sizeof(struct impair),
    .counters = impair_counters,
    .options = &impair_option_table,
    .open = impair_open,
    .close = impair_close,
    .abandon = impair_abandon,
    .region = impair_region,
    .region_map = impair_region_map,
    .region_end = impair_region_end,
    .join = impair_join,
    .leave = impair_leave,
    .address = impair_address,
    .peer = impair_peer,
    .forget = impair_peer_forget,
    .post = impair_post,
    .flush = impair_flush,
    .reap = impair_reap,
    .receive = impair_receive,
    .release = impair_release,
    .arm = impair_arm,
    .inner = impair_inner,
};
