/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded packets, opened by key files. */
#define _GNU_SOURCE
#include "key_place.h"
#include "logged.h"

#include "security/guard.h"
#include "security/opener.h"

enum { PACKET_MAX = 2048, BODY = 300, PACKETS = 8 };

#define SESSION UINT64_C(0x1122334455667788)
/* Packets on both sides of the border of two blocks. */
#define FIRST (((lli_seq)3 << 32) + ((lli_seq)7 << LLI_PROTECT_DATA_BLOCK) - PACKETS / 2)

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_INFO};
static char path[2][64];
static struct lli_opener *opener;

/* A packet as it was before it was protected, and after. */
struct sample {
    uint8_t clear[PACKET_MAX];
    uint8_t bytes[PACKET_MAX];
    uint32_t clear_size;
    uint32_t size;
};

/* Protects packets with the key file, which has to be valid now. */
static void samples_make(const char *name, enum lli_protect_mode mode, struct sample *samples)
{
    const struct lli_guard_config config = {
        .path = path[0], .name = name, .log = &keeper, .mode = mode, .packet_max = PACKET_MAX, .senders = 8};
    struct lli_guard_session *session;
    struct lli_guard *guard;

    assert_int_equal(lli_guard_open(&config, &guard), LLM_OK);
    assert_int_equal(lli_guard_session_open(guard, SESSION, &session), LLM_OK);
    for (uint32_t i = 0; i < PACKETS; i++) {
        struct sample *sample = &samples[i];
        const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                               .size = LLI_WIRE_DATA_HEADER + BODY,
                                               .tag = (uint32_t)SESSION,
                                               .seq = (uint32_t)(FIRST + i),
                                               .number = i};

        lli_wire_put_header(sample->clear, &header);
        pattern_fill(sample->clear + LLI_WIRE_DATA_HEADER, BODY, i);
        sample->clear_size = header.size;
        memcpy(sample->bytes, sample->clear, header.size);
        sample->size = lli_guard_data(session, FIRST + i, sample->bytes, header.size);
        assert_int_equal(sample->size, header.size + LLI_PROTECT_DATA);
    }
    lli_guard_session_close(session);
    lli_guard_close(guard);
}

static enum lli_opened take(const struct sample *sample, lli_seq seq)
{
    uint8_t *copy = exact_copy(sample->bytes, sample->size);
    const uint8_t *clear;
    uint32_t size;
    const enum lli_opened opened = lli_opener_take(opener, SESSION, seq, copy, sample->size, &clear, &size);

    if (opened == LLI_OPENED) {
        assert_int_equal(size, sample->clear_size);
        assert_memory_equal(clear, sample->clear, size);
    }
    free(copy);
    return opened;
}

static void expect_all(const struct sample *samples, enum lli_opened expected)
{
    for (uint32_t i = 0; i < PACKETS; i++)
        assert_int_equal(take(&samples[i], FIRST + i), expected);
}

static int up(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        (void)snprintf(path[i], sizeof path[i], "/tmp/llm-opener-%d-%d", (int)getpid(), i);
    key_file_write(path[0], KEY_EPOCH(7, "aes-128-gcm", KEY_A, "prices:1"));
    return lli_opener_open(&keeper, &opener);
}

static int down(void **state)
{
    (void)state;
    lli_opener_close(opener);
    for (int i = 0; i < 2; i++)
        (void)unlink(path[i]);
    return 0;
}

static void packets_of_every_suite_and_mode_are_opened_after_their_epoch(void **state)
{
    static const char *const suites[] = {"aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"};
    static struct sample samples[3][2][PACKETS];

    (void)state;
    for (int suite = 0; suite < 3; suite++)
        for (int mode = 0; mode < 2; mode++) {
            char text[256];

            (void)snprintf(text, sizeof text, "%d " KEY_ALWAYS " %s " KEY_A " prices:1\n", suite + 1,
                           suites[suite]);
            key_file_write(path[0], text);
            samples_make("prices:1", mode == 0 ? LLI_PROTECT_ENCRYPT : LLI_PROTECT_AUTHENTICATE,
                         samples[suite][mode]);
        }
    key_file_write(path[0], "1 2020-01-01 2020-01-02 aes-128-gcm " KEY_A " prices:1\n"
                            "2 2020-01-02 2020-01-03 aes-256-gcm " KEY_A " prices:1\n"
                            "3 2999-01-03 2999-01-04 chacha20-poly1305 " KEY_A " prices:1\n");
    assert_int_equal(lli_opener_add(opener, path[0]), LLM_OK);
    for (int suite = 0; suite < 3; suite++)
        for (int mode = 0; mode < 2; mode++)
            expect_all(samples[suite][mode], LLI_OPENED);
}

static void a_packet_opens_only_as_that_of_its_session_and_number(void **state)
{
    static struct sample samples[PACKETS];

    (void)state;
    samples_make("prices:1", LLI_PROTECT_ENCRYPT, samples);
    assert_int_equal(lli_opener_add(opener, path[0]), LLM_OK);
    assert_int_equal(take(&samples[0], FIRST + 1), LLI_OPENED_DAMAGED);
    expect_all(samples, LLI_OPENED);
    for (uint32_t at = 0; at < samples[0].size; at++) {
        samples[0].bytes[at] ^= 4;
        assert_int_not_equal(take(&samples[0], FIRST), LLI_OPENED);
        samples[0].bytes[at] ^= 4;
    }
    samples[0].size -= 1;
    assert_int_equal(take(&samples[0], FIRST), LLI_OPENED_DAMAGED);
}

/* Two files may have different keys of one epoch number, and their packets may be of one session and block. */
static void every_key_of_an_epoch_number_is_tried(void **state)
{
    static struct sample samples[2][PACKETS];

    (void)state;
    samples_make("prices:1", LLI_PROTECT_ENCRYPT, samples[0]);
    key_file_write(path[1], KEY_EPOCH(7, "aes-128-gcm", KEY_A, "prices:1"));
    key_file_write(path[0], KEY_EPOCH(7, "aes-128-gcm", KEY_B, "prices:1"));
    samples_make("prices:1", LLI_PROTECT_ENCRYPT, samples[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(lli_opener_add(opener, path[i]), LLM_OK);
    for (uint32_t i = 0; i < PACKETS; i++)
        for (int key = 0; key < 2; key++)
            assert_int_equal(take(&samples[key][i], FIRST + i), LLI_OPENED);
}

static void without_the_epoch_or_with_another_key_nothing_is_opened(void **state)
{
    static struct sample samples[PACKETS];
    const uint8_t *clear;
    uint32_t size;

    (void)state;
    samples_make("prices:1", LLI_PROTECT_ENCRYPT, samples);
    assert_int_equal(lli_opener_take(NULL, SESSION, FIRST, samples[0].bytes, samples[0].size, &clear, &size),
                     LLI_OPENED_NO_KEY);
    expect_all(samples, LLI_OPENED_NO_KEY);
    key_file_write(path[1], KEY_EPOCH(8, "aes-128-gcm", KEY_A, "*"));
    assert_int_equal(lli_opener_add(opener, path[1]), LLM_OK);
    expect_all(samples, LLI_OPENED_NO_KEY);
    lli_opener_close(opener);
    assert_int_equal(lli_opener_open(&keeper, &opener), LLM_OK);
    key_file_write(path[1], KEY_EPOCH(7, "aes-128-gcm", KEY_B, "*"));
    assert_int_equal(lli_opener_add(opener, path[1]), LLM_OK);
    expect_all(samples, LLI_OPENED_DAMAGED);
    /* A second file has the key. */
    assert_int_equal(lli_opener_add(opener, path[0]), LLM_OK);
    expect_all(samples, LLI_OPENED);
    assert_int_equal(lli_opener_add(opener, "/nonexistent/keys"), LLM_ENOTFOUND);
}

static void files_are_read_again_for_an_epoch_that_is_missing(void **state)
{
    static struct sample samples[PACKETS];
    int tries = 0;

    (void)state;
    samples_make("prices:1", LLI_PROTECT_ENCRYPT, samples);
    key_file_write(path[1], KEY_EPOCH(6, "aes-128-gcm", KEY_B, "*"));
    assert_int_equal(lli_opener_add(opener, path[1]), LLM_OK);
    assert_int_equal(take(&samples[0], FIRST), LLI_OPENED_NO_KEY);
    key_file_write(path[1],
                   KEY_EPOCH(6, "aes-128-gcm", KEY_B, "*") KEY_EPOCH(7, "aes-128-gcm", KEY_A, "prices:1"));
    while (take(&samples[0], FIRST) != LLI_OPENED && tries++ < 6000)
        (void)usleep(10000);
    expect_all(samples, LLI_OPENED);
    /* One that is gone leaves the keys that were read. */
    assert_int_equal(unlink(path[1]), 0);
    samples[0].bytes[samples[0].size - LLI_PROTECT_DATA] ^= 16;
    (void)usleep(1100000);
    assert_int_equal(take(&samples[0], FIRST), LLI_OPENED_NO_KEY);
    assert_int_equal(take(&samples[1], FIRST + 1), LLI_OPENED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(packets_of_every_suite_and_mode_are_opened_after_their_epoch, up,
                                        down),
        cmocka_unit_test_setup_teardown(a_packet_opens_only_as_that_of_its_session_and_number, up, down),
        cmocka_unit_test_setup_teardown(every_key_of_an_epoch_number_is_tried, up, down),
        cmocka_unit_test_setup_teardown(without_the_epoch_or_with_another_key_nothing_is_opened, up, down),
        cmocka_unit_test_setup_teardown(files_are_read_again_for_an_epoch_that_is_missing, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
