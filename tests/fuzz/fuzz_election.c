/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a failover group among strangers: the input is a sequence of packets with any fields, of steps in time
 * and of messages that come. For every input its terms only grow, it is the primary only with votes of a majority and
 * sends only within its lease, messages that were delivered are never withdrawn, memory stays within its bounds, and
 * it does not become due immediately for ever.
 */
#include "core/election/election.h"
#include "fuzz.h"

enum { STEPS_MAX = 400, OUTPUTS_MAX = 64, SELF = 77 };

struct world {
    struct lli_election election;
    lli_ns now;
    uint32_t highest;
};

/* Mostly a small number, so that numbers of packets meet. */
static uint64_t some_number(struct fuzz_input *input)
{
    const uint8_t byte = fuzz_u8(input);

    return byte < 240 ? byte % 16u : byte < 250 ? fuzz_u16(input) : UINT64_MAX - byte % 3u;
}

static struct lli_election_packet some_packet(struct world *world, struct fuzz_input *input)
{
    static const enum lli_election_kind kinds[] = {LLI_ELECTION_CANVASS, LLI_ELECTION_SURVEY,
                                                   LLI_ELECTION_BEAT,    LLI_ELECTION_ANSWER,
                                                   LLI_ELECTION_DENIAL,  LLI_ELECTION_HAVE};
    const uint8_t shape = fuzz_u8(input);
    struct lli_election_packet packet = {
        .kind = kinds[shape % 6u],
        .answered = kinds[fuzz_u8(input) % 6u],
        .term = (uint32_t)some_number(input),
        .member = fuzz_u8(input),
        .voters = shape & 64 ? world->election.config.voters : fuzz_u8(input) % 128u,
        .commits = shape & 128 ? world->election.config.commits : (fuzz_u8(input) & 1) != 0,
        .identity = some_number(input),
        .remembers = (fuzz_u8(input) & 1) != 0,
        .committed = some_number(input),
        .position = {.followed = (uint32_t)some_number(input),
                     .level = (uint32_t)some_number(input),
                     .previous = (uint32_t)some_number(input),
                     .begins = some_number(input),
                     .first = some_number(input),
                     .next = some_number(input)},
    };

    packet.term += (shape & 32) != 0 ? world->election.term : 0;
    /* An answer to one of the latest packets, or to any. */
    packet.clock = fuzz_u8(input) % 4u != 0 ? world->now - fuzz_u16(input) : some_number(input);
    return packet;
}

static void check_packet(const struct world *world, const struct lli_election_packet *packet)
{
    /* The number of voters: an answer without a vote. */
    FUZZ_CHECK(packet->member == world->election.config.member ||
               packet->member == world->election.config.voters);
    FUZZ_CHECK(packet->identity == SELF);
    FUZZ_CHECK(packet->voters == world->election.config.voters);
}

static void check(struct world *world)
{
    struct lli_election *election = &world->election;

    FUZZ_CHECK(election->highest >= world->highest && election->term <= election->highest);
    world->highest = election->highest;
    FUZZ_CHECK(election->backed <= election->highest && election->peers_count <= LLI_ELECTION_PEERS_MAX);
    FUZZ_CHECK(election->delivered <= election->position.next);
    FUZZ_CHECK(lli_election_deliverable(election) <= election->position.next);
    FUZZ_CHECK(!lli_election_holds(election, world->now) || election->state == LLI_ELECTION_PRIMARY);
    if (election->state == LLI_ELECTION_PRIMARY) {
        uint32_t votes = 0;

        for (uint32_t i = 0; i < election->config.voters; i++)
            votes += i == election->config.member || election->answered[i] != 0;
        FUZZ_CHECK(election->config.stands && 2 * votes > election->config.voters);
    }
    if (lli_election_source(election) != NULL)
        FUZZ_CHECK(lli_election_source(election) < election->peers + election->peers_count);
}

/* Does as the engine after each packet and at each deadline. */
static void serve(struct world *world)
{
    struct lli_election *election = &world->election;
    struct lli_election_packet packet;
    int sent = 0;

    while (lli_election_output(election, world->now, &packet)) {
        check_packet(world, &packet);
        FUZZ_CHECK(packet.clock == world->now);
        FUZZ_CHECK(packet.kind != LLI_ELECTION_BEAT || lli_election_holds(election, world->now));
        FUZZ_CHECK(++sent < OUTPUTS_MAX);
    }
    if (election->state == LLI_ELECTION_READY) {
        const uint64_t from = lli_election_lead(election, world->now);

        FUZZ_CHECK(from <= election->position.next);
    } else {
        FUZZ_CHECK(lli_election_deadline(election) > world->now);
    }
    if (lli_election_deliverable(election) > election->delivered)
        lli_election_delivered(election, lli_election_deliverable(election));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    struct fuzz_input input = fuzz_input_of(data, size);
    const uint8_t shape = fuzz_u8(&input), member = fuzz_u8(&input);
    const struct lli_election_config config = {
        .voters = LLI_ELECTION_VOTERS_MIN + shape % (LLI_ELECTION_VOTERS_MAX - LLI_ELECTION_VOTERS_MIN + 1u),
        .member = member % 20u,
        .stands = member % 20u < LLI_ELECTION_VOTERS_MIN && (shape & 64) == 0,
        .commits = (shape & 128) != 0,
        .identity = SELF,
        .seed = shape,
        .beat = 1000000,
        .lease = 8000000,
        .detect = 10000000,
        .survey = 2000000,
    };

    world = (struct world){.now = 1000000000};
    lli_election_init(&world.election, &config, world.now);
    for (int step = 0; step < STEPS_MAX && fuzz_left(&input) > 0; step++) {
        struct lli_election_packet packet, answer;
        uint64_t next;

        switch (fuzz_u8(&input) % 5u) {
        case 0:
            world.now += (lli_ns)1 << fuzz_u8(&input) % 26u;
            break;
        case 1:
            next = world.election.position.next + fuzz_u8(&input) % 8u;
            lli_election_has(&world.election, next / 2, next, world.now);
            break;
        default:
            packet = some_packet(&world, &input);
            if (lli_election_input(&world.election, &packet, world.now, &answer)) {
                check_packet(&world, &answer);
                FUZZ_CHECK(answer.kind == LLI_ELECTION_ANSWER || answer.kind == LLI_ELECTION_DENIAL);
            }
        }
        check(&world);
        serve(&world);
        check(&world);
    }
    return 0;
}

/* An answer of a member to packets of this kind, in the term of the candidate. */
static size_t seed_answer(uint8_t *seed, uint8_t answered, uint8_t member, uint8_t next)
{
    const uint8_t answer[] = {
        2, 225 /* ANSWER of its term */, answered, 0, member, 5, 1, 0, 0, 0, 0, 0, next, 1, 0, 0};

    memcpy(seed, answer, sizeof answer);
    return sizeof answer;
}

/* A candidate of three that the others elect, with and without commits; it leads, and then loses one or both. */
void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    uint8_t seed[1024];

    for (uint8_t shape = 0; shape < 8; shape++) {
        size_t size = 0;

        seed[size++] = (uint8_t)((shape & 1) << 7);
        seed[size++] = shape % 3;
        for (uint8_t i = 0; i < 4; i++) {
            seed[size++] = 0;
            seed[size++] = 24;
        }
        for (uint8_t round = 0; round < 12; round++) {
            const uint8_t answered = round < 2 ? 0 : round < 5 ? 1 : 2;

            for (uint8_t member = 0; member < 3; member++)
                if (member != shape % 3 && (round < 8 || member == 1))
                    size += seed_answer(seed + size, answered, member, shape & 4 ? 3 : 0);
            seed[size++] = 0;
            seed[size++] = 20;
            seed[size++] = 1;
            seed[size++] = 1;
        }
        emit(arg, seed, size);
    }
}
