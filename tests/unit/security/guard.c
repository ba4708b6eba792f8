/* SPDX-License-Identifier: Apache-2.0 */
#include "key_place.h"
#include "logged.h"

#include <time.h>

#include "security/aead.h"
#include "security/guard.h"
#include "security/hkdf.h"
#include "system/clock.h"

enum { PACKET_MAX = 2048, SESSION_TAG = 0x55667788 };

#define SESSION UINT64_C(0x1122334455667788)
#define OTHER_SESSION UINT64_C(0xffffffff55667788) /* with the same tag */

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_INFO};
static char path[64];
static struct lli_guard *guards[2];
static int derivations; /* keys derived */

bool __real_lli_hkdf(const struct lli_hkdf_input *secret, const struct lli_hkdf_input *salt,
                     const struct lli_hkdf_input *purpose, void *output, size_t size);
bool __wrap_lli_hkdf(const struct lli_hkdf_input *secret, const struct lli_hkdf_input *salt,
                     const struct lli_hkdf_input *purpose, void *output, size_t size);

bool __wrap_lli_hkdf(const struct lli_hkdf_input *secret, const struct lli_hkdf_input *salt,
                     const struct lli_hkdf_input *purpose, void *output, size_t size)
{
    derivations++;
    return __real_lli_hkdf(secret, salt, purpose, output, size);
}

static struct lli_guard *guard_up(const char *name, enum lli_protect_mode mode)
{
    const struct lli_guard_config config = {
        .path = path, .name = name, .log = &keeper, .mode = mode, .packet_max = PACKET_MAX, .senders = 8};
    struct lli_guard *guard;

    assert_int_equal(lli_guard_open(&config, &guard), LLM_OK);
    return guard;
}

static uint32_t data_make(uint8_t *packet, lli_seq seq, uint32_t body)
{
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .size = (uint16_t)(LLI_WIRE_DATA_HEADER + body),
                                           .tag = SESSION_TAG,
                                           .seq = (uint32_t)seq,
                                           .number = 9};

    lli_wire_put_header(packet, &header);
    pattern_fill(packet + LLI_WIRE_DATA_HEADER, body, seq);
    return LLI_WIRE_DATA_HEADER + body;
}

static uint32_t heartbeat_make(uint8_t *packet, uint64_t session, lli_seq lead)
{
    const struct lli_wire_heartbeat heartbeat = {
        .session = session, .lead = lead, .trail = lead, .start = lead, .address = {.size = 4}};

    return (uint32_t)lli_wire_put_heartbeat(packet, &heartbeat);
}

static enum lli_guard_verdict take(struct lli_guard *guard, const uint8_t *packet, uint32_t size,
                                   const uint8_t *expected, uint32_t expected_size)
{
    const uint8_t *clear;
    size_t clear_size;
    uint8_t *copy = exact_copy(packet, size);
    const enum lli_guard_verdict verdict = lli_guard_take(guard, copy, size, &clear, &clear_size);

    if (verdict == LLI_GUARD_AUTHENTIC) {
        assert_int_equal(clear_size, expected_size);
        assert_memory_equal(clear, expected, expected_size);
    }
    free(copy);
    return verdict;
}

/* Has the second guard know a session. */
static void announce(uint64_t session, lli_seq lead)
{
    uint8_t before[PACKET_MAX], packet[PACKET_MAX];
    const uint32_t size = heartbeat_make(before, session, lead);

    memcpy(packet, before, size);
    assert_int_equal(take(guards[1], packet, lli_guard_control(guards[0], packet, size), before, size),
                     LLI_GUARD_AUTHENTIC);
}

static void every_type_of_packet_is_opened_once(void **state)
{
    uint8_t before[PACKET_MAX], packet[PACKET_MAX];

    (void)state;
    for (uint8_t type = LLI_WIRE_HEARTBEAT; type <= LLI_WIRE_LVC; type++) {
        const struct lli_wire_header header = {.type = type, .size = 40, .tag = 5};
        uint32_t size;

        lli_wire_put_header(before, &header);
        pattern_fill(before + LLI_WIRE_HEADER, 24, type);
        memcpy(packet, before, 40);
        size = lli_guard_control(guards[0], packet, 40);
        assert_int_equal(size, 40 + LLI_PROTECT_CONTROL);
        assert_memory_not_equal(packet + LLI_WIRE_HEADER, before + LLI_WIRE_HEADER, 24);
        assert_int_equal(take(guards[1], packet, size, before, 40), LLI_GUARD_AUTHENTIC);
        assert_int_equal(take(guards[1], packet, size, before, 40), LLI_GUARD_REPEATED);
        /* An endpoint receives its own packets to the group, too. */
        assert_int_equal(take(guards[0], packet, size, before, 40), LLI_GUARD_AUTHENTIC);
    }
}

static void data_is_opened_after_a_heartbeat_in_any_order_and_again(void **state)
{
    const lli_seq start = ((lli_seq)5 << 32) - 8;
    struct lli_guard_session *session;
    uint8_t before[16][PACKET_MAX], packets[16][PACKET_MAX];
    uint32_t sizes[16];

    (void)state;
    assert_int_equal(lli_guard_session_open(guards[0], SESSION, &session), LLM_OK);
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t size = data_make(before[i], start + i, i * 90);

        memcpy(packets[i], before[i], size);
        sizes[i] = lli_guard_data(session, start + i, packets[i], size);
        assert_int_equal(sizes[i], size + LLI_PROTECT_DATA);
        assert_int_equal(lli_load_u16(packets[i] + LLI_WIRE_SIZE_AT), sizes[i]);
    }
    assert_int_equal(take(guards[1], packets[0], sizes[0], NULL, 0), LLI_GUARD_UNKNOWN);
    announce(OTHER_SESSION, start);
    assert_int_equal(take(guards[1], packets[0], sizes[0], NULL, 0), LLI_GUARD_FORGED);
    announce(SESSION, start);
    for (int i = 15; i >= 0; i--)
        for (int again = 0; again < 2; again++)
            assert_int_equal(take(guards[1], packets[i], sizes[i], before[i], sizes[i] - LLI_PROTECT_DATA),
                             LLI_GUARD_AUTHENTIC);
    lli_guard_session_close(session);
}

static void keys_change_with_the_blocks_of_packet_numbers(void **state)
{
    const lli_seq edge = ((lli_seq)3 << 32) + ((lli_seq)7 << LLI_PROTECT_DATA_BLOCK);
    struct lli_guard_session *session;
    uint8_t before[PACKET_MAX], packet[PACKET_MAX];

    (void)state;
    assert_int_equal(lli_guard_session_open(guards[0], SESSION, &session), LLM_OK);
    announce(SESSION, edge);
    for (int lap = 0; lap < 3; lap++) {
        for (lli_seq seq = edge - 3; seq < edge + 3; seq++) {
            const uint32_t size = data_make(before, seq, 100);
            uint32_t more;

            memcpy(packet, before, size);
            more = lli_guard_data(session, seq, packet, size);
            assert_int_equal(take(guards[1], packet, more, before, size), LLI_GUARD_AUTHENTIC);
        }
    }
    lli_guard_session_close(session);
}

/* Sends a data packet from the first guard to the second; returns how many keys were derived for it. */
static int data_derives(struct lli_guard_session *session, lli_seq seq)
{
    uint8_t before[PACKET_MAX], packet[PACKET_MAX];
    const uint32_t size = data_make(before, seq, 100);
    const int already = derivations;
    uint32_t more;

    memcpy(packet, before, size);
    more = lli_guard_data(session, seq, packet, size);
    assert_int_equal(take(guards[1], packet, more, before, size), LLI_GUARD_AUTHENTIC);
    return derivations - already;
}

static void the_key_of_the_next_block_is_there_before_its_packets(void **state)
{
    const lli_seq edge = (lli_seq)9 << LLI_PROTECT_DATA_BLOCK,
                  half = (lli_seq)1 << (LLI_PROTECT_DATA_BLOCK - 1);
    const lli_ns now = lli_clock_ns(), second = 1000000000;
    struct lli_guard_session *session;
    int already;

    (void)state;
    assert_int_equal(lli_guard_session_open(guards[0], SESSION, &session), LLM_OK);
    announce(SESSION, edge);
    assert_int_equal(data_derives(session, edge), 2);
    already = derivations;
    for (int i = 0; i < 2; i++)
        lli_guard_look(guards[i], now + 2 * second);
    assert_int_equal(derivations, already);
    assert_int_equal(data_derives(session, edge + half), 0);
    already = derivations;
    for (int i = 0; i < 2; i++)
        lli_guard_look(guards[i], now + 4 * second);
    for (int i = 0; i < 2; i++)
        lli_guard_look(guards[i], now + 6 * second);
    assert_int_equal(derivations, already + 2);
    assert_int_equal(data_derives(session, edge + 2 * half - 1), 0);
    assert_int_equal(data_derives(session, edge + 2 * half), 0);
    /* Repairs of the block before. */
    for (int lap = 0; lap < 3; lap++) {
        uint8_t before[PACKET_MAX], packet[PACKET_MAX];
        const uint32_t size = data_make(before, edge + 5, 100);
        struct lli_guard_session *again;
        uint32_t more;

        memcpy(packet, before, size);
        assert_int_equal(lli_guard_session_open(guards[0], SESSION, &again), LLM_OK);
        more = lli_guard_data(again, edge + 5, packet, size);
        lli_guard_session_close(again);
        already = derivations;
        assert_int_equal(take(guards[1], packet, more, before, size), LLI_GUARD_AUTHENTIC);
        assert_int_equal(derivations, already);
        assert_int_equal(data_derives(session, edge + 2 * half + 1 + (lli_seq)lap), 0);
    }
    lli_guard_session_close(session);
}

static void a_flipped_bit_or_a_cut_is_found_wherever_it_is(void **state)
{
    struct lli_guard_session *session;
    uint8_t data[PACKET_MAX], control[PACKET_MAX];
    uint32_t data_size = data_make(data, 1000, 60), control_size = heartbeat_make(control, SESSION, 1000);

    (void)state;
    assert_int_equal(lli_guard_session_open(guards[0], SESSION, &session), LLM_OK);
    announce(SESSION, 1000);
    data_size = lli_guard_data(session, 1000, data, data_size);
    control_size = lli_guard_control(guards[0], control, control_size);
    for (int which = 0; which < 2; which++) {
        uint8_t *packet = which == 0 ? data : control;
        const uint32_t size = which == 0 ? data_size : control_size;

        for (uint32_t bit = 0; bit < 8 * size; bit++) {
            packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_not_equal(take(guards[1], packet, size, NULL, 0), LLI_GUARD_AUTHENTIC);
            packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        for (uint32_t cut = 0; cut < size; cut++)
            assert_int_not_equal(take(guards[1], packet, cut, NULL, 0), LLI_GUARD_AUTHENTIC);
    }
    lli_guard_session_close(session);
}

static void noise_opens_nothing(void **state)
{
    uint8_t packet[PACKET_MAX];
    uint64_t random = 11;

    (void)state;
    announce(SESSION, 1000);
    for (int i = 0; i < 20000; i++) {
        const uint32_t size = below(&random, 200);

        for (uint32_t k = 0; k < size; k++)
            packet[k] = (uint8_t)below(&random, 256);
        if (size > 40 && chance(&random, 80)) {
            packet[0] = (uint8_t)(LLI_PROTECT_VERSION << 4 | (1 + below(&random, 14)));
            packet[1] = 0;
            lli_wire_put_size(packet, size);
            if (chance(&random, 50))
                lli_store_u32(packet + 4, SESSION_TAG);
            lli_store_u16(packet + size - LLI_PROTECT_DATA, 7);
            packet[size - LLI_PROTECT_DATA + 2] = 1;
            packet[size - LLI_PROTECT_DATA + 3] = 1;
        }
        assert_int_not_equal(take(guards[1], packet, size, NULL, 0), LLI_GUARD_AUTHENTIC);
    }
}

static void more_senders_than_expected_are_heard_until_the_table_is_full(void **state)
{
    struct lli_guard *many[64];
    int heard = 0;

    (void)state;
    for (int i = 0; i < 64; i++) {
        uint8_t before[PACKET_MAX], packet[PACKET_MAX];
        const uint32_t size = heartbeat_make(before, SESSION, 1000);
        enum lli_guard_verdict verdict;

        many[i] = guard_up("keys:1", LLI_PROTECT_ENCRYPT);
        memcpy(packet, before, size);
        verdict = take(guards[1], packet, lli_guard_control(many[i], packet, size), before, size);
        heard += verdict == LLI_GUARD_AUTHENTIC;
        assert_true(verdict == LLI_GUARD_AUTHENTIC || verdict == LLI_GUARD_CROWDED);
    }
    assert_int_equal(heard, 16);
    for (int i = 0; i < 64; i++)
        lli_guard_close(many[i]);
}

/* Makes a heartbeat of a sender that has the key, with a number of its choice. Returns its size. */
static uint32_t numbered_make(uint8_t *packet, uint64_t sender, uint64_t counter)
{
    const struct lli_protect_fields fields = {.sender = sender,
                                              .counter = counter,
                                              .epoch = 7,
                                              .suite = LLI_KEY_AES_128_GCM,
                                              .mode = LLI_PROTECT_ENCRYPT};
    const uint32_t size = heartbeat_make(packet, SESSION, 1000);
    uint8_t secret[LLI_KEY_BYTES], purpose[LLI_PROTECT_PURPOSE], derived[28], nonce[LLI_PROTECT_NONCE];
    uint8_t bytes[LLI_PROTECT_CLEAR_MAX];
    struct lli_aead_clear clear = {.data = bytes};
    struct lli_aead aead = {.context = NULL};
    struct lli_protect_parts parts;

    for (uint8_t i = 0; i < LLI_KEY_BYTES; i++)
        secret[i] = i;
    lli_protect_purpose(false, &fields, sender, lli_protect_block(false, counter), purpose);
    assert_true(lli_hkdf(&(struct lli_hkdf_input){secret, sizeof secret}, &(struct lli_hkdf_input){NULL, 0},
                         &(struct lli_hkdf_input){purpose, sizeof purpose}, derived, sizeof derived));
    assert_true(lli_aead_key(&aead, LLI_KEY_AES_128_GCM, derived, true));
    assert_true(lli_protect_begin(packet, size, &fields, &parts));
    clear.size = lli_protect_clear(packet, &parts, bytes);
    lli_protect_nonce(derived + 16, counter, nonce);
    assert_true(lli_aead_seal(&aead, nonce, &clear, packet + parts.head, parts.body, packet + parts.tag));
    lli_aead_free(&aead);
    return size + LLI_PROTECT_CONTROL;
}

static void an_authentic_packet_of_another_hour_is_dropped_and_named_once(void **state)
{
    const uint64_t now = (uint64_t)time(NULL);
    uint8_t before[PACKET_MAX], packet[PACKET_MAX];
    const uint32_t size = heartbeat_make(before, SESSION, 1000);

    (void)state;
    logged[0] = 0;
    assert_int_equal(
        take(guards[1], packet, numbered_make(packet, 77, now << LLI_PROTECT_SECOND), before, size),
        LLI_GUARD_AUTHENTIC);
    assert_string_equal(logged, "");
    (void)numbered_make(packet, 78, (now + 3600) << LLI_PROTECT_SECOND);
    packet[size] ^= 1;
    assert_int_equal(take(guards[1], packet, size + LLI_PROTECT_CONTROL, NULL, 0), LLI_GUARD_REPEATED);
    assert_string_equal(logged, "");
    for (int again = 0; again < 2; again++) {
        assert_int_equal(
            take(guards[1], packet,
                 numbered_make(packet, 78, (now + 3600 + 60 * (unsigned)again) << LLI_PROTECT_SECOND), NULL,
                 0),
            LLI_GUARD_REPEATED);
        expect_logged("after this host's clock");
        expect_logged("set them");
    }
    logged[0] = 0;
    assert_int_equal(
        take(guards[1], packet, numbered_make(packet, 79, (now - 3600) << LLI_PROTECT_SECOND), NULL, 0),
        LLI_GUARD_REPEATED);
    assert_string_equal(logged, "");
}

/* Histories and stores have packets of earlier epochs; whoever sends in one now sends heartbeats, too. */
static void data_of_an_earlier_epoch_is_told_from_that_of_other_keys(void **state)
{
    uint8_t before[PACKET_MAX], packet[PACKET_MAX], control[PACKET_MAX];
    const uint32_t size = data_make(before, 5, 40);
    const uint32_t beat = heartbeat_make(control, SESSION, 5);
    struct lli_guard_session *session;
    static const char *const files[] = {
        /* Its line has ended; it was removed, and a later epoch is in use; that one has a lower number. */
        "7 2020-01-01 2020-01-02 aes-128-gcm " KEY_A " keys:1\n" KEY_EPOCH(6, "aes-128-gcm", KEY_B, "keys:1"),
        KEY_EPOCH(8, "aes-128-gcm", KEY_B, "keys:1"),
        KEY_EPOCH(6, "aes-128-gcm", KEY_B, "keys:1"),
    };

    (void)state;
    assert_int_equal(lli_guard_session_open(guards[0], SESSION, &session), LLM_OK);
    memcpy(packet, before, size);
    assert_int_equal(lli_guard_data(session, 5, packet, size), size + LLI_PROTECT_DATA);
    assert_int_equal(lli_guard_control(guards[0], control, beat), beat + LLI_PROTECT_CONTROL);
    assert_true(lli_guard_is_valid(guards[1], packet, size + LLI_PROTECT_DATA));
    for (int i = 0; i < 3; i++) {
        lli_guard_close(guards[1]);
        key_file_write(path, files[i]);
        guards[1] = guard_up("keys:1", LLI_PROTECT_ENCRYPT);
        assert_int_equal(lli_guard_epoch(guards[1]).id, i == 1 ? 8 : 6);
        assert_int_equal(take(guards[1], packet, size + LLI_PROTECT_DATA, NULL, 0),
                         i == 2 ? LLI_GUARD_OTHER : LLI_GUARD_ENDED);
        assert_int_equal(take(guards[1], control, beat + LLI_PROTECT_CONTROL, NULL, 0), LLI_GUARD_OTHER);
        assert_false(lli_guard_is_valid(guards[1], packet, size + LLI_PROTECT_DATA));
    }
    lli_guard_session_close(session);
}

static void a_packet_has_the_bytes_of_the_protocols_vector(void **state)
{
    /* docs/protocol.md section 14.6. */
    static const char expected[] =
        "21002b008877665505000000090000000000ae8bc2f0ec07000101a06af0905bcd19f1d1cb92f95991cbff";
    struct lli_guard_session *session;
    uint8_t packet[PACKET_MAX];
    char text[256];
    uint32_t size = data_make(packet, UINT64_C(0x100000005), 5);

    (void)state;
    memcpy(packet + LLI_WIRE_DATA_HEADER,
           "\x04"
           "abcd",
           5);
    assert_int_equal(lli_guard_session_open(guards[0], SESSION, &session), LLM_OK);
    size = lli_guard_data(session, UINT64_C(0x100000005), packet, size);
    for (uint32_t i = 0; i < size; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", packet[i]);
    assert_string_equal(text, expected);
    lli_guard_session_close(session);
}

/* Has a guard look at the file again, as it does once a second. */
static void look(struct lli_guard *guard)
{
    static lli_ns now;

    now = lli_max(now, lli_clock_ns()) + UINT64_C(2000000000);
    lli_guard_look(guard, now);
}

/* Packets of an epoch that was stolen, and taken out of the file: also of those who have it still. */
static void a_withdrawn_epoch_opens_nothing(void **state)
{
    struct lli_guard_session *session;
    uint8_t before[PACKET_MAX], data[PACKET_MAX], control[PACKET_MAX];
    const uint32_t size = data_make(before, 1000, 60);
    struct lli_guard *thief;
    uint32_t data_size, control_size;

    (void)state;
    thief = guard_up("keys:1", LLI_PROTECT_ENCRYPT);
    assert_int_equal(lli_guard_session_open(guards[0], SESSION, &session), LLM_OK);
    announce(SESSION, 1000);
    memcpy(data, before, size);
    data_size = lli_guard_data(session, 1000, data, size);
    assert_int_equal(take(guards[1], data, data_size, before, size), LLI_GUARD_AUTHENTIC);
    key_file_write(path, KEY_EPOCH(8, "aes-128-gcm", KEY_B, "keys:1"));
    for (int i = 0; i < 2; i++)
        look(guards[i]);
    /* A packet of the history, and a new one. */
    assert_int_equal(take(guards[1], data, data_size, before, size), LLI_GUARD_ENDED);
    control_size = heartbeat_make(control, SESSION, 2000);
    control_size = lli_guard_control(thief, control, control_size);
    assert_int_equal(take(guards[1], control, control_size, NULL, 0), LLI_GUARD_OTHER);
    announce(SESSION, 1001);
    (void)data_make(before, 1001, 60);
    memcpy(data, before, size);
    data_size = lli_guard_data(session, 1001, data, size);
    assert_int_equal(take(guards[1], data, data_size, before, size), LLI_GUARD_AUTHENTIC);
    lli_guard_session_close(session);
    lli_guard_close(thief);
}

static void a_session_of_more_than_2_28_packets_is_opened(void **state)
{
    const lli_seq start = ((lli_seq)1 << 32) + 77, far = (lli_seq)1 << LLI_PROTECT_DATA_BLOCK;
    struct lli_guard_session *session;
    uint8_t before[PACKET_MAX], packet[PACKET_MAX];
    const uint32_t size = data_make(before, start, 100);

    (void)state;
    assert_int_equal(lli_guard_session_open(guards[0], SESSION, &session), LLM_OK);
    for (uint32_t i = 0; i < 20; i++) {
        const lli_seq seq = start + i * far;
        uint32_t more;

        announce(SESSION, seq);
        (void)data_make(before, seq, 100);
        memcpy(packet, before, size);
        more = lli_guard_data(session, seq, packet, size);
        assert_int_equal(take(guards[1], packet, more, before, size), LLI_GUARD_AUTHENTIC);
    }
    lli_guard_session_close(session);
}

static void a_file_that_is_read_in_the_middle_of_a_write_is_read_again_after_it(void **state)
{
    static const char text[] = KEY_EPOCH(8, "aes-256-gcm", KEY_B, "keys:1");
    uint8_t before[PACKET_MAX], packet[PACKET_MAX];
    const uint32_t size = heartbeat_make(before, SESSION, 1000);
    FILE *file;

    (void)state;
    /* Written in place, as an editor may. */
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, 40, file), 40);
    assert_int_equal(fflush(file), 0);
    for (int i = 0; i < 2; i++)
        look(guards[i]);
    expect_logged("the keys read before stay in use");
    memcpy(packet, before, size);
    assert_int_equal(lli_guard_control(guards[0], packet, size), size + LLI_PROTECT_CONTROL);
    assert_int_equal(lli_load_u16(packet + size + 16), 7);
    assert_int_equal(take(guards[1], packet, size + LLI_PROTECT_CONTROL, before, size), LLI_GUARD_AUTHENTIC);
    assert_int_equal(fwrite(text + 40, 1, sizeof text - 41, file), sizeof text - 41);
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < 2; i++)
        look(guards[i]);
    memcpy(packet, before, size);
    assert_int_equal(lli_guard_control(guards[0], packet, size), size + LLI_PROTECT_CONTROL);
    assert_int_equal(lli_load_u16(packet + size + 16), 8);
    assert_int_equal(take(guards[1], packet, size + LLI_PROTECT_CONTROL, before, size), LLI_GUARD_AUTHENTIC);
}

static int up(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/llm-guard-test-%d", (int)getpid());
    key_file_write(path, KEY_EPOCH(7, "aes-128-gcm", KEY_A, "keys:1"));
    for (int i = 0; i < 2; i++)
        guards[i] = guard_up("keys:1", LLI_PROTECT_ENCRYPT);
    return 0;
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        lli_guard_close(guards[i]);
    (void)unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_type_of_packet_is_opened_once, up, down),
        cmocka_unit_test_setup_teardown(data_is_opened_after_a_heartbeat_in_any_order_and_again, up, down),
        cmocka_unit_test_setup_teardown(keys_change_with_the_blocks_of_packet_numbers, up, down),
        cmocka_unit_test_setup_teardown(the_key_of_the_next_block_is_there_before_its_packets, up, down),
        cmocka_unit_test_setup_teardown(a_flipped_bit_or_a_cut_is_found_wherever_it_is, up, down),
        cmocka_unit_test_setup_teardown(noise_opens_nothing, up, down),
        cmocka_unit_test_setup_teardown(more_senders_than_expected_are_heard_until_the_table_is_full, up,
                                        down),
        cmocka_unit_test_setup_teardown(an_authentic_packet_of_another_hour_is_dropped_and_named_once, up,
                                        down),
        cmocka_unit_test_setup_teardown(data_of_an_earlier_epoch_is_told_from_that_of_other_keys, up, down),
        cmocka_unit_test_setup_teardown(a_withdrawn_epoch_opens_nothing, up, down),
        cmocka_unit_test_setup_teardown(a_session_of_more_than_2_28_packets_is_opened, up, down),
        cmocka_unit_test_setup_teardown(a_file_that_is_read_in_the_middle_of_a_write_is_read_again_after_it,
                                        up, down),
        cmocka_unit_test_setup_teardown(a_packet_has_the_bytes_of_the_protocols_vector, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
