/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints packets before and after they were protected, for tests/keys/open.py: on each line the line of a key file, the
 * identity and number of a data packet or zeros, the packet, and the protected packet.
 *
 *     keys_packets FILE     the key file to write and to use
 */
#include "key_place.h"
#include "logged.h"

#include "security/guard.h"

enum { PACKETS = 40, BODY_MAX = 300 };

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_WARNING};

static void print_bytes(const uint8_t *bytes, uint32_t size, const char *end)
{
    for (uint32_t i = 0; i < size; i++)
        printf("%02x", bytes[i]);
    printf("%s", end);
}

static void print_packet(struct lli_guard *guard, const char *line, uint64_t *random)
{
    const uint64_t identity = lli_random_below(random, UINT64_MAX) + 1,
                   seq = lli_random_below(random, 1 << 30) << 20;
    const uint8_t type = (uint8_t)(1 + below(random, LLI_WIRE_LVC));
    const uint32_t head = type == LLI_WIRE_DATA ? LLI_WIRE_DATA_HEADER : LLI_WIRE_HEADER;
    const uint32_t size = head + below(random, BODY_MAX);
    const struct lli_wire_header header = {.type = type,
                                           .flags = (uint8_t)below(random, 64),
                                           .size = (uint16_t)size,
                                           .first = 2,
                                           .tag = (uint32_t)identity,
                                           .seq = (uint32_t)seq,
                                           .number = below(random, 1000)};
    uint8_t packet[LLI_WIRE_DATA_HEADER + BODY_MAX + LLI_PROTECT_CONTROL];
    struct lli_guard_session *session;
    uint32_t protected;

    pattern_fill(packet, size, seq);
    lli_wire_put_header(packet, &header);
    printf("%.*s;%llu;%llu;", (int)strlen(line) - 1, line, (unsigned long long)identity,
           (unsigned long long)seq);
    print_bytes(packet, size, ";");
    if (type == LLI_WIRE_DATA) {
        assert_int_equal(lli_guard_session_open(guard, identity, &session), LLM_OK);
        protected = lli_guard_data(session, seq, packet, size);
        lli_guard_session_close(session);
    } else {
        protected = lli_guard_control(guard, packet, size);
    }
    print_bytes(packet, protected, "\n");
}

int main(int argc, char **argv)
{
    static const char *const lines[] = {KEY_EPOCH(7, "aes-128-gcm", KEY_A, "*"),
                                        KEY_EPOCH(65535, "aes-256-gcm", KEY_B, "*"),
                                        KEY_EPOCH(1, "chacha20-poly1305", KEY_A, "*")};
    uint64_t random = 21;

    if (argc != 2)
        return 2;
    for (int i = 0; i < 6; i++) {
        const struct lli_guard_config config = {.path = argv[1],
                                                .name = "keys:1",
                                                .log = &keeper,
                                                .mode =
                                                    i < 3 ? LLI_PROTECT_ENCRYPT : LLI_PROTECT_AUTHENTICATE,
                                                .packet_max = 2048,
                                                .senders = 1};
        struct lli_guard *guard;

        key_file_write(argv[1], lines[i % 3]);
        if (lli_guard_open(&config, &guard) != LLM_OK)
            return 1;
        for (int k = 0; k < PACKETS; k++)
            print_packet(guard, lines[i % 3], &random);
        lli_guard_close(guard);
    }
    return 0;
}
