/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guard, with a fuzzer that has the keys: the input is packets in clear, authentic packets with any content, heartbeats
 * of any session, and changed, cut and repeated copies of them. What was protected opens to the same bytes, and nothing
 * else opens. What lies behind, the core, is fed without keys by fuzz_receiver and fuzz_transmitter.
 */
#include "fuzz.h"

#include <sys/stat.h>
#include <unistd.h>

#include "security/guard.h"

enum { PACKET_MAX = 512, STEPS_MAX = 200, SENDERS = 8 };

#define KEYS "7 2020-01-01 2999-01-01 aes-128-gcm AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= *\n"

struct world {
    struct lli_guard *sender;
    struct lli_guard *receiver;
    struct lli_guard_session *data; /* of the session announced last */
    uint64_t session;
    lli_seq lead;
    uint8_t clear[PACKET_MAX]; /* the packet protected last ... */
    uint32_t clear_size;
    uint8_t packet[PACKET_MAX]; /* ... and what became of it */
    uint32_t size;
};

static const struct lli_log silent = {.function = NULL};

static char path[64];

static void path_remove(void)
{
    (void)unlink(path);
}

static struct lli_guard *guard_open(void)
{
    const struct lli_guard_config config = {.path = path,
                                            .name = "fuzz:1",
                                            .log = &silent,
                                            .mode = LLI_PROTECT_ENCRYPT,
                                            .packet_max = PACKET_MAX,
                                            .senders = SENDERS};
    struct lli_guard *guard;

    if (path[0] == '\0') {
        FILE *file;

        FUZZ_CHECK(atexit(path_remove) == 0);
        (void)snprintf(path, sizeof path, "/tmp/llm-fuzz-guard-%d", (int)getpid());
        file = fopen(path, "we");
        FUZZ_CHECK(file != NULL && fputs(KEYS, file) >= 0 && fchmod(fileno(file), 0600) == 0 &&
                   fclose(file) == 0);
    }
    FUZZ_CHECK(lli_guard_open(&config, &guard) == 0);
    return guard;
}

static enum lli_guard_verdict take(struct world *world, const uint8_t *packet, size_t size)
{
    const uint8_t *clear = NULL;
    size_t clear_size = 0;
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    enum lli_guard_verdict verdict;

    FUZZ_CHECK(copy != NULL);
    if (size > 0)
        memcpy(copy, packet, size);
    verdict = lli_guard_take(world->receiver, copy, size, &clear, &clear_size);
    free(copy);
    if (verdict == LLI_GUARD_AUTHENTIC) {
        FUZZ_CHECK(clear_size == world->clear_size);
        FUZZ_CHECK(memcmp(clear, world->clear, clear_size) == 0);
    }
    return verdict;
}

/* ------------------------------------------------------------------------------------------------- steps */

static void step_noise(struct world *world, struct fuzz_input *input)
{
    size_t size;
    uint8_t *bytes = fuzz_bytes(input, fuzz_u16(input) % PACKET_MAX, &size);

    FUZZ_CHECK(take(world, bytes, size) != LLI_GUARD_AUTHENTIC);
    free(bytes);
}

/* Makes a packet of a type with a body from the input. */
static void make(struct world *world, struct fuzz_input *input, uint8_t type, uint32_t seq)
{
    const uint32_t head = type == LLI_WIRE_DATA ? LLI_WIRE_DATA_HEADER : LLI_WIRE_HEADER;
    struct lli_wire_header header = {.type = type, .tag = (uint32_t)world->session, .seq = seq};
    size_t size;
    uint8_t *body = fuzz_bytes(input, fuzz_u8(input), &size);

    header.size = (uint16_t)(head + size);
    memset(world->clear, 0, head);
    lli_wire_put_header(world->clear, &header);
    if (size > 0)
        memcpy(world->clear + head, body, size);
    world->clear_size = header.size;
    memcpy(world->packet, world->clear, world->clear_size);
    free(body);
}

static void step_control(struct world *world, struct fuzz_input *input)
{
    const uint8_t type = (uint8_t)(LLI_WIRE_HEARTBEAT + fuzz_u8(input) % 14);

    make(world, input, type, fuzz_u32(input));
    world->size = lli_guard_control(world->sender, world->packet, world->clear_size);
    FUZZ_CHECK(world->size == world->clear_size + LLI_PROTECT_CONTROL);
    FUZZ_CHECK(take(world, world->packet, world->size) == LLI_GUARD_AUTHENTIC);
    FUZZ_CHECK(take(world, world->packet, world->size) == LLI_GUARD_REPEATED);
}

/* Another session, or the same one at another number. */
static void step_heartbeat(struct world *world, struct fuzz_input *input)
{
    struct lli_wire_heartbeat heartbeat = {.address = {.size = 4}};

    if (fuzz_u8(input) % 4 != 0 || world->session == 0)
        world->session = (uint64_t)fuzz_u32(input) << 32 | fuzz_u16(input) | 1;
    world->lead = ((lli_seq)(fuzz_u32(input) >> 2) << 32 | fuzz_u32(input)) + 1;
    heartbeat.session = world->session;
    heartbeat.lead = heartbeat.trail = heartbeat.start = world->lead;
    world->clear_size = (uint32_t)lli_wire_put_heartbeat(world->clear, &heartbeat);
    memcpy(world->packet, world->clear, world->clear_size);
    world->size = lli_guard_control(world->sender, world->packet, world->clear_size);
    FUZZ_CHECK(take(world, world->packet, world->size) == LLI_GUARD_AUTHENTIC);
    lli_guard_session_close(world->data);
    FUZZ_CHECK(lli_guard_session_open(world->sender, world->session, &world->data) == 0);
}

/* A packet of the session announced last, which opens each time that it comes. */
static void step_data(struct world *world, struct fuzz_input *input)
{
    const lli_seq seq = world->lead + fuzz_u16(input);

    if (world->data == NULL)
        return;
    make(world, input, LLI_WIRE_DATA, (uint32_t)seq);
    world->size = lli_guard_data(world->data, seq, world->packet, world->clear_size);
    FUZZ_CHECK(world->size == world->clear_size + LLI_PROTECT_DATA);
    for (int again = 0; again < 2; again++)
        FUZZ_CHECK(take(world, world->packet, world->size) == LLI_GUARD_AUTHENTIC);
    world->lead = seq;
}

/* The latest packet with some bytes changed, or cut. */
static void step_changed(struct world *world, struct fuzz_input *input)
{
    uint8_t bytes[PACKET_MAX];
    uint32_t size = world->size;

    if (size == 0)
        return;
    memcpy(bytes, world->packet, size);
    for (uint32_t i = 0, count = 1 + fuzz_u8(input) % 4u; i < count; i++)
        bytes[fuzz_u16(input) % size] ^= fuzz_u8(input);
    if (fuzz_u8(input) % 4 == 0) {
        size = fuzz_u16(input) % size;
        if (size >= LLI_WIRE_HEADER)
            lli_wire_put_size(bytes, (uint16_t)size);
    }
    if (size != world->size || memcmp(bytes, world->packet, size) != 0)
        FUZZ_CHECK(take(world, bytes, size) != LLI_GUARD_AUTHENTIC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = fuzz_input_of(data, size);
    struct world world = {.sender = guard_open(), .receiver = guard_open()};

    for (int i = 0; i < STEPS_MAX && fuzz_left(&input) > 0; i++) {
        switch (fuzz_u8(&input) % 5) {
        case 0:
            step_noise(&world, &input);
            break;
        case 1:
            step_control(&world, &input);
            break;
        case 2:
            step_heartbeat(&world, &input);
            break;
        case 3:
            step_data(&world, &input);
            break;
        default:
            step_changed(&world, &input);
            break;
        }
    }
    lli_guard_session_close(world.data);
    lli_guard_close(world.sender);
    lli_guard_close(world.receiver);
    return 0;
}

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    /* A heartbeat, data, a change of it, a packet of control, a change of it, and noise. */
    static const uint8_t seed[] = {2,    1, 1,  2, 3,   4,   5,   6,   1, 0, 0,  0, 9, 0, 0,  0,
                                   3,    5, 0,  4, 'a', 'b', 'c', 'd', 4, 0, 20, 0, 1, 1, 1,  1,
                                   0,    0, 0,  3, 'x', 'y', 'z', 4,   0, 3, 0,  2, 1, 0, 40, 0,
                                   0x22, 0, 40, 0, 1,   2,   3,   4,   5, 6, 7,  8, 9, 10};

    emit(arg, seed, sizeof seed);
    emit(arg, (const uint8_t *)"", 0);
}
