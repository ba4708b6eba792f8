/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals, with a member that forges: the input is packets of the transmitter, some of which are lost, packets of any number
 * that another member sends in its name, seals and requests that are lost or come twice, arbitrary bytes as seals, and time.
 * Digests stand for packets: the first eight bytes are the number, the next one says who made it.
 *
 * Nothing that the transmitter did not send counts as sealed by it; what waits is where the window says; and once nothing
 * more comes, every packet is verified or refused.
 */
#include "fuzz.h"

#include "core/base/hash.h"
#include "core/protect/seal.h"

enum { LOG = 256, STEPS_MAX = 400, CHECKED = 16 /* steps between two checks, which search the window */ };

enum step { STEP_SEND, STEP_FORGE, STEP_SEAL, STEP_ASK, STEP_BYTES, STEP_TIME, STEP_FORGIVE, STEPS };

struct world {
    struct fuzz_input input;
    lli_ns now;
    lli_seq next; /* of the transmitter */
    uint8_t digests[LOG][LLI_SEAL_DIGEST];
    struct lli_seal_log log;
    struct lli_seal_window window;
    bool holds; /* what a seal refutes is forgotten, and comes again */
};

static void digest_of(lli_seq seq, uint8_t maker, uint8_t digest[LLI_SEAL_DIGEST])
{
    memset(digest, 0, LLI_SEAL_DIGEST);
    lli_store_u64(digest, seq);
    digest[8] = maker;
}

/* Digest of a range: of the digests that `at` returns. */
static void range_digest(const uint8_t *(*at)(const struct world *world, lli_seq seq),
                         const struct world *world, struct lli_seal_range *range)
{
    uint64_t chain[1 + LLI_SEAL_DIGEST / sizeof(uint64_t)] = {0};

    for (uint32_t i = 0; i < range->count; i++) {
        memcpy(chain + 1, at(world, range->first + i), LLI_SEAL_DIGEST);
        chain[0] = lli_hash(chain, sizeof chain);
    }
    memset(range->digest, 0, LLI_SEAL_DIGEST);
    lli_store_u64(range->digest, chain[0]);
}

static const uint8_t *of_log(const struct world *world, lli_seq seq)
{
    FUZZ_CHECK(seq >= world->log.first && seq < world->log.sealed);
    return lli_seal_log_digest(&world->log, seq);
}

static const uint8_t *of_window(const struct world *world, lli_seq seq)
{
    return lli_seal_window_digest(&world->window, seq);
}

static void take(struct world *world, lli_seq seq, uint8_t maker)
{
    uint8_t digest[LLI_SEAL_DIGEST];

    digest_of(seq, maker, digest);
    if (world->holds)
        lli_seal_window_forgive(&world->window, seq);
    (void)lli_seal_window_note(&world->window, seq, digest, world->now);
}

/* The receiver takes a seal that the transmitter signed. */
static void verify(struct world *world, const uint8_t *packet, uint32_t size)
{
    struct lli_seal seal;

    FUZZ_CHECK(lli_seal_get(packet, size, &seal) && !seal.asks);
    for (uint32_t i = 0; i < seal.count; i++) {
        struct lli_seal_range own = seal.ranges[i];

        if (!lli_seal_window_needs(&world->window, &own))
            continue;
        range_digest(of_window, world, &own);
        (void)lli_seal_window_set(&world->window, &own,
                                  memcmp(own.digest, seal.ranges[i].digest, LLI_SEAL_DIGEST) == 0
                                      ? LLI_SEAL_VERIFIED
                                      : (world->holds ? LLI_SEAL_NONE : LLI_SEAL_REFUSED));
    }
}

/* Sends a seal of these ranges so many times. */
static void seal_send(struct world *world, struct lli_seal *seal, uint32_t times)
{
    uint8_t packet[LLI_SEAL_MAX];
    uint32_t size;

    if (seal->count == 0)
        return;
    seal->asks = false;
    for (uint32_t i = 0; i < seal->count; i++)
        range_digest(of_log, world, &seal->ranges[i]);
    size = lli_seal_put(packet, seal);
    for (; times > 0; times--)
        verify(world, packet, size);
}

static void seal_due(struct world *world, uint32_t times)
{
    struct lli_seal seal = {.session = 1};

    while (lli_seal_log_due(&world->log) <= world->now) {
        lli_seal_log_take(&world->log, &seal, world->now);
        seal_send(world, &seal, times);
    }
}

static void ask(struct world *world, uint32_t times)
{
    struct lli_seal seal = {.session = 1}, asked;
    uint8_t packet[LLI_SEAL_MAX];

    if (!lli_seal_window_ask(&world->window, world->now, &seal))
        return;
    for (uint32_t i = 0; i < seal.count; i++)
        for (uint32_t k = 0; k < seal.ranges[i].count; k++)
            FUZZ_CHECK(lli_seal_window_state(&world->window, seal.ranges[i].first + k) == LLI_SEAL_WAITING);
    FUZZ_CHECK(lli_seal_get(packet, lli_seal_put(packet, &seal), &asked) && asked.asks);
    lli_seal_log_answer(&world->log, &asked);
    seal_send(world, &asked, times);
}

/* A member can send any bytes as a seal, or as a request. Nothing that it signs counts. */
static void take_bytes(struct world *world)
{
    size_t size;
    uint8_t *bytes = fuzz_bytes(&world->input, fuzz_u16(&world->input) % (LLI_SEAL_MAX + 1), &size);
    uint8_t again[LLI_SEAL_MAX];
    struct lli_seal seal, same;

    if (lli_seal_get(bytes, size, &seal)) {
        FUZZ_CHECK(lli_seal_get(again, lli_seal_put(again, &seal), &same));
        FUZZ_CHECK(same.session == seal.session && same.asks == seal.asks && same.count == seal.count);
        lli_seal_log_answer(&world->log, &seal);
        seal_send(world, &seal, 1);
    }
    free(bytes);
}

static void check(const struct world *world)
{
    const struct lli_seal_window *window = &world->window;
    uint32_t waiting = 0;

    for (uint32_t i = 0; i < LLI_SEAL_WINDOW; i++) {
        const struct lli_seal_entry *entry = &window->entries[i];

        if (entry->state == LLI_SEAL_NONE)
            continue;
        FUZZ_CHECK(lli_load_u64(entry->digest) == entry->seq);
        if (entry->state == LLI_SEAL_VERIFIED)
            FUZZ_CHECK(entry->digest[8] == 0 && entry->seq < world->log.sealed);
        if (entry->state != LLI_SEAL_WAITING)
            continue;
        waiting++;
        FUZZ_CHECK(entry->seq >= window->low && entry->seq < window->high);
    }
    FUZZ_CHECK(waiting == window->waiting);
}

static void do_step(struct world *world)
{
    struct fuzz_input *input = &world->input;
    const uint8_t code = fuzz_u8(input);
    const uint8_t more = fuzz_u8(input);

    switch ((enum step)(code % STEPS)) {
    case STEP_SEND:
        for (uint32_t i = 0; i <= more % 64u; i++) {
            uint8_t digest[LLI_SEAL_DIGEST];

            digest_of(world->next, 0, digest);
            lli_seal_log_note(&world->log, world->next, digest, world->now);
            if ((more & 64) == 0 || i % 3 != 0)
                take(world, world->next, 0);
            world->next++;
        }
        break;
    case STEP_FORGE:
        /* Near the transmitter's next number, or anywhere that a packet of 32 bits can be. */
        take(world, more & 128 ? fuzz_u32(input) : world->next - lli_min(world->next, 40) + more % 80u,
             (uint8_t)(1 + code / STEPS % 2));
        break;
    case STEP_SEAL:
        seal_due(world, more % 3);
        break;
    case STEP_ASK:
        ask(world, more % 3);
        break;
    case STEP_BYTES:
        take_bytes(world);
        break;
    case STEP_TIME:
        world->now += (lli_ns)fuzz_u16(input) * (more & 1 ? 100000 : 1000);
        (void)lli_seal_window_give_up(&world->window, world->now);
        break;
    case STEP_FORGIVE:
        lli_seal_window_forgive(&world->window, world->next - lli_min(world->next, more));
        break;
    case STEPS:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lli_seal_entry entries[LLI_SEAL_WINDOW];
    static struct world world;

    world = (struct world){.input = fuzz_input_of(data, size), .now = 1, .window = {.entries = entries}};
    lli_seal_window_reset(&world.window);
    lli_seal_log_init(&world.log, world.digests, LOG);
    world.holds = fuzz_u8(&world.input) & 1;
    world.next = fuzz_u32(&world.input);
    for (int step = 1; step <= STEPS_MAX && fuzz_left(&world.input) > 0; step++) {
        do_step(&world);
        if (step % CHECKED == 0)
            check(&world);
    }
    /* The session is silent: what is still not sealed never will be. */
    world.now += LLI_SEAL_SILENCE;
    seal_due(&world, 1);
    (void)lli_seal_window_give_up(&world.window, world.now);
    check(&world);
    FUZZ_CHECK(world.window.waiting == 0);
    return 0;
}

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    static const uint8_t lossy[] = {0, 1,        0,    0,          0,         STEP_SEND, 70, STEP_TIME,
                                    0, 0xff,     0x7f, STEP_SEAL,  1,         STEP_TIME, 1,  0x40,
                                    0, STEP_ASK, 1,    STEP_FORGE, STEP_SEND, 10};
    static const uint8_t forged[] = {
        1, 100,       0, 0,    0,    STEP_SEND, 20, STEP_FORGE,   45,  STEP_FORGE, 50, STEP_SEND,
        9, STEP_TIME, 0, 0xff, 0x7f, STEP_SEAL, 2,  STEP_FORGE,   200, 1,          2,  3,
        4, STEP_TIME, 1, 0xff, 0xff, STEP_ASK,  2,  STEP_FORGIVE, 3};
    uint8_t bytes[16 + LLI_SEAL_MAX] = {0, 1, 0, 0, 0, STEP_SEND, 30, STEP_BYTES, 0};
    const struct lli_seal seal = {
        .session = 1, .asks = true, .count = 1, .ranges = {{.first = 1, .count = 20}}};
    const uint32_t size = lli_seal_put(bytes + 11, &seal);

    lli_store_u16(bytes + 9, (uint16_t)size);
    emit(arg, lossy, sizeof lossy);
    emit(arg, forged, sizeof forged);
    emit(arg, bytes, 11 + size);
}
