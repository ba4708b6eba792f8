/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An adversary on a channel with keys, in virtual time. It hears every packet, also by unicast, knows what each says,
 * and sends packets of every type to every member: in clear, protected by the key of another channel, with a tag of
 * noise, heard ones again, with a bit flipped, cut, and joined from two:
 *
 *   adversary_keyed [--packets N] [--seed N]   N packets over all profiles of a world (default: 120,000)
 *
 * Each world is compared with the same one without these packets. Exits with 1 if more differs than counters of what
 * was dropped: a packet sent, a message, an event, or any other counter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../sim/cable.h"
#include "core/protect/protect.h"
#include "key_place.h"
#include "security/guard.h"
#include "world.h"

enum {
    NODES = 6, /* those of the world; the last two are the adversary's, and of a third party */
    MEMBERS = 4,
    NODE_ADVERSARY = 4,
    NODE_THIRD = 5,
    PLACES = 32, /* packets remembered of each type */
    TYPES = 16,
    RUN_NS = 12500, /* time for each forged packet, at four in 50 us */
};

/* Packet that was heard, as it was sent. */
struct heard {
    uint32_t size;
    uint8_t bytes[ADVERSARY_PACKET_MAX];
};

static struct {
    struct lli_guard *spy;   /* has the keys: the adversary guesses whatever packets say */
    struct lli_guard *other; /* has another key of the same epoch */
    struct lli_guard_session *other_session;
    uint64_t session;
    struct heard heard[TYPES][PLACES];
    uint32_t counts[TYPES];
    uint64_t sent_packets, sent_bytes; /* by members */
    uint64_t forged[TYPES];
    bool quiet;
} keyed;

static char path[64], other_path[64];
static const struct lli_log silent = {.function = NULL};

/* ---------------------------------------------------------------------------------------------- to hear */

static struct lli_guard *guard_of(const char *file)
{
    const struct lli_guard_config config = {.path = file,
                                            .name = "adversary:1",
                                            .log = &silent,
                                            .mode = LLI_PROTECT_ENCRYPT,
                                            .packet_max = UINT16_MAX,
                                            .senders = 64};
    struct lli_guard *guard;

    cable_must(lli_guard_open(&config, &guard), "a guard");
    return guard;
}

static void hear(uint32_t from, uint32_t to, const uint8_t **bytes, uint32_t *size)
{
    const uint8_t type = **bytes & 15, *clear;
    struct heard *place = &keyed.heard[type][keyed.counts[type] % PLACES];
    size_t clear_size;

    (void)from;
    (void)to;
    if (!lli_protect_is(*bytes, *size) || *size > sizeof place->bytes)
        cable_fail("a packet of type %u is in clear", type);
    keyed.sent_packets++;
    keyed.sent_bytes += *size;
    place->size = *size;
    memcpy(place->bytes, *bytes, *size);
    keyed.counts[type]++;
    lli_guard_look(keyed.spy, cable.now);
    lli_guard_look(keyed.other, cable.now);
    if (lli_guard_take(keyed.spy, *bytes, *size, &clear, &clear_size) != LLI_GUARD_AUTHENTIC)
        return;
    *bytes = clear;
    *size = (uint32_t)clear_size;
}

/* ---------------------------------------------------------------------------------------------- to forge */

static const struct heard *remembered(struct adversary *adversary)
{
    for (;;) {
        const uint32_t type = (uint32_t)adversary_below(adversary, TYPES);
        const uint32_t count = (uint32_t)lli_min(keyed.counts[type], PLACES);

        if (count > 0)
            return &keyed.heard[type][adversary_below(adversary, count)];
    }
}

/* Packet of any kind, in clear. */
static uint32_t forge_clear(struct adversary *adversary, uint8_t *bytes)
{
    struct adversary_packet packet = {.size = 0};

    adversary->announced =
        (struct lli_wire_address){.size = 1, .bytes = {(uint8_t)(1 + adversary_below(adversary, NODES))}};
    adversary_kinds[adversary_below(adversary, (uint64_t)adversary_kinds_count)].forge(adversary, &packet);
    adversary->made++;
    memcpy(bytes, packet.bytes, packet.size);
    return (uint32_t)packet.size;
}

static bool has_room(const uint8_t *bytes, uint32_t size)
{
    return size >= LLI_WIRE_DATA_HEADER && size + LLI_PROTECT_CONTROL <= ADVERSARY_PACKET_MAX &&
           !lli_protect_is(bytes, size);
}

/* The same, protected with another key: that of another channel. */
static uint32_t forge_other(struct adversary *adversary, uint8_t *bytes)
{
    const uint32_t size = forge_clear(adversary, bytes);

    if (!has_room(bytes, size))
        return size;
    if (!lli_protect_is_data(bytes))
        return lli_guard_control(keyed.other, bytes, size);
    if (keyed.session != adversary->heartbeat.session) {
        lli_guard_session_close(keyed.other_session);
        keyed.session = adversary->heartbeat.session;
        cable_must(lli_guard_session_open(keyed.other, keyed.session, &keyed.other_session), "a session");
    }
    return lli_guard_data(keyed.other_session, adversary->seq + adversary->made % 64, bytes, size);
}

/* The same with the fields of a genuine packet of that kind, and the next number, but without its tag. */
static uint32_t forge_tag(struct adversary *adversary, uint8_t *bytes)
{
    const uint32_t size = forge_clear(adversary, bytes);
    const struct heard *like = remembered(adversary);
    struct lli_protect_fields fields;
    struct lli_protect_parts parts;

    while (lli_protect_is_data(like->bytes) != lli_protect_is_data(bytes) && keyed.counts[LLI_WIRE_DATA] > 0)
        like = remembered(adversary);
    if (!has_room(bytes, size) || !lli_protect_parse(like->bytes, like->size, &fields, &parts))
        return size;
    fields.counter += adversary_below(adversary, 100);
    if (adversary_below(adversary, 4) == 0)
        fields.sender = lli_random(&adversary->random);
    for (uint32_t i = 0; i < LLI_PROTECT_CONTROL; i++)
        bytes[size + i] = (uint8_t)adversary_below(adversary, 256);
    return lli_protect_begin(bytes, size, &fields, &parts) ? size + parts.after : size;
}

static uint32_t forge_again(struct adversary *adversary, uint8_t *bytes)
{
    const struct heard *heard = remembered(adversary);

    memcpy(bytes, heard->bytes, heard->size);
    return heard->size;
}

static uint32_t forge_flipped(struct adversary *adversary, uint8_t *bytes)
{
    const uint32_t size = forge_again(adversary, bytes);

    bytes[adversary_below(adversary, size)] ^= (uint8_t)(1 << adversary_below(adversary, 8));
    return size;
}

static uint32_t forge_cut(struct adversary *adversary, uint8_t *bytes)
{
    const uint32_t size = 1 + (uint32_t)adversary_below(adversary, forge_again(adversary, bytes) - 1);

    if (size >= LLI_WIRE_HEADER && adversary_below(adversary, 2) == 0)
        lli_wire_put_size(bytes, (uint16_t)size);
    return size;
}

/* The head of one packet and the end of another. */
static uint32_t forge_joined(struct adversary *adversary, uint8_t *bytes)
{
    const uint32_t size = forge_again(adversary, bytes);
    const struct heard *other = remembered(adversary);
    const uint32_t end = 1 + (uint32_t)adversary_below(adversary, lli_min(size, other->size) - 1);

    memcpy(bytes + size - end, other->bytes + other->size - end, end);
    return size;
}

static uint32_t (*const forgers[])(struct adversary *adversary, uint8_t *bytes) = {
    forge_clear, forge_other, forge_tag, forge_again, forge_flipped, forge_cut, forge_joined};

static void forge(struct adversary *adversary)
{
    uint8_t bytes[ADVERSARY_PACKET_MAX] = {0};
    uint32_t size, to;

    if (keyed.quiet)
        return;
    adversary->now = cable.now;
    size = forgers[adversary_below(adversary, sizeof forgers / sizeof forgers[0])](adversary, bytes);
    if (size == 0)
        return;
    to = (uint32_t)adversary_below(adversary, MEMBERS);
    keyed.forged[bytes[0] & 15]++;
    cable_inject(NODE_THIRD, to == MEMBERS - 1 ? CABLE_GROUP : to, bytes, size);
}

/* -------------------------------------------------------------------------------------------- to compare */

/*
 * Counters of what was dropped, of arrivals, of repeated data, and of what was sent to another member, who is not
 * concerned, or which joined later and takes it for fresh.
 */
static bool is_free(const char *name)
{
    static const char *const names[] = {
        "packets_forged",  "packets_repeated",  "packets_in_clear", "packets_other_keys",  "packets_ended",
        "packets_crowded", "packets_duplicate", "packets_received", "packets_unannounced", "bytes_received",
        "packets_stale",   "packets_foreign",   "control_foreign",  "heartbeats_received"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool same(const char *profile, const char *what, uint64_t quiet, uint64_t attacked)
{
    if (quiet == attacked)
        return true;
    (void)printf("%s: %s: %llu, and %llu without the adversary\n", profile, what,
                 (unsigned long long)attacked, (unsigned long long)quiet);
    return false;
}

static bool run_profile(const char *name, enum adversary_profile profile, uint64_t seed, uint64_t packets)
{
    static struct world_traffic quiet, attacked;
    struct world_traffic *const results[] = {&quiet, &attacked};
    const struct world_keyed world = {.path = path,
                                      .distance = lli_max(500 * CABLE_US, packets * RUN_NS / 40000),
                                      .spy = hear,
                                      .forge = forge};
    uint64_t sent_packets[2], sent_bytes[2], dropped = 0;
    bool passed = true;

    for (int i = 0; i < 2; i++) {
        memset(&keyed, 0, offsetof(__typeof__(keyed), forged));
        keyed.quiet = i == 0;
        keyed.spy = guard_of(path);
        keyed.other = guard_of(other_path);
        world_run_keyed(seed, profile, &world, packets, results[i]);
        sent_packets[i] = keyed.sent_packets;
        sent_bytes[i] = keyed.sent_bytes;
        lli_guard_session_close(keyed.other_session);
        lli_guard_close(keyed.other);
        lli_guard_close(keyed.spy);
    }
    passed = same(name, "packets sent", sent_packets[0], sent_packets[1]) && passed;
    passed = same(name, "bytes sent", sent_bytes[0], sent_bytes[1]) && passed;
    passed = same(name, "packets to the adversary", 0, attacked.cost.own + attacked.cost.third) && passed;
    passed = same(name, "messages sent", quiet.messages, attacked.messages) && passed;
    passed = same(name, "messages lost", 0, quiet.cost.lost + attacked.cost.lost) && passed;
    passed = same(name, "messages forged", 0, quiet.cost.forged + attacked.cost.forged) && passed;
    passed = same(name, "events", quiet.cost.events, attacked.cost.events) && passed;
    for (int i = 0; i < attacked.counters_count; i++) {
        if (is_free(attacked.counters[i].name))
            dropped += attacked.counters[i].value - quiet.counters[i].value;
        else
            passed =
                same(name, attacked.counters[i].name, quiet.counters[i].value, attacked.counters[i].value) &&
                passed;
    }
    (void)printf("%s: %llu packets of members, %llu messages, %llu packets dropped: %s\n", name,
                 (unsigned long long)sent_packets[1], (unsigned long long)attacked.messages,
                 (unsigned long long)dropped, passed ? "no effect" : "FAILED");
    return passed && attacked.messages > 1000 && dropped > packets / 2;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum adversary_profile profile;
    } profiles[] = {{"plain", ADVERSARY_PLAIN},     {"lossy", ADVERSARY_LOSSY},
                    {"late join", ADVERSARY_LATE},  {"last values", ADVERSARY_KEPT},
                    {"assured", ADVERSARY_ASSURED}, {"connection", ADVERSARY_CALLS}};
    enum { PROFILES = sizeof profiles / sizeof profiles[0] };
    uint64_t packets = 120000, seed = 1;
    bool passed = true;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--packets") == 0)
            packets = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    (void)snprintf(path, sizeof path, "/tmp/llm-adversary-%d.keys", (int)getpid());
    (void)snprintf(other_path, sizeof other_path, "/tmp/llm-adversary-other-%d.keys", (int)getpid());
    key_file_write(path, KEY_EPOCH(7, "aes-128-gcm", KEY_A, "adversary:1"));
    key_file_write(other_path, KEY_EPOCH(7, "aes-128-gcm", KEY_B, "adversary:1"));
    for (int i = 0; i < PROFILES; i++)
        passed = run_profile(profiles[i].name, profiles[i].profile, seed, packets / PROFILES) && passed;
    for (int type = 0; type < TYPES; type++)
        (void)printf("%s%d: %llu", type == 0 ? "packets of type " : ", ", type,
                     (unsigned long long)keyed.forged[type]);
    (void)printf("\n");
    (void)unlink(path);
    (void)unlink(other_path);
    return !passed;
}
