/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding of frames, and refused ones. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "xdp_frame.h"

enum { FRAME_MAX = 1600 };

static const uint8_t mac[LLI_XDP_MAC_BYTES] = {2, 0, 0, 0, 0, 7};

static union lli_ip_address address(const char *text, uint16_t port)
{
    union lli_ip_address result;

    memset(&result, 0, sizeof result);
    if (inet_pton(AF_INET, text, &result.v4.sin_addr) == 1)
        result.any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &result.v6.sin6_addr) == 1)
        result.any.sa_family = AF_INET6;
    lli_ip_port_set(&result, port);
    return result;
}

/* Writes a whole frame; returns its size. */
static uint32_t frame_make(uint8_t *frame, const char *from, const char *to, const void *payload,
                           uint32_t size)
{
    const union lli_ip_address source = address(from, 40000), group = address(to, 5001);
    struct lli_xdp_header header;

    lli_xdp_header_init(&header, mac, &source, &group, 3);
    lli_xdp_header_put(&header, frame, payload, size);
    memcpy(frame + header.size, payload, size);
    return header.size + size;
}

static uint32_t make_v4(uint8_t *frame, uint32_t size)
{
    static const uint8_t payload[FRAME_MAX] = {'p', 'a', 'y'};

    return frame_make(frame, "10.77.0.1", "239.200.1.2", payload, size);
}

static uint32_t make_v6(uint8_t *frame, uint32_t size)
{
    static const uint8_t payload[FRAME_MAX] = {'p', 'a', 'y'};

    return frame_make(frame, "fd77::1", "ff15::7:1", payload, size);
}

static bool get_v4(const uint8_t *frame, uint32_t size)
{
    struct lli_xdp_frame got;

    return lli_xdp_frame_get(&got, AF_INET, frame, size);
}

static bool get_v6(const uint8_t *frame, uint32_t size)
{
    struct lli_xdp_frame got;

    return lli_xdp_frame_get(&got, AF_INET6, frame, size);
}

/* ------------------------------------------------------------------------------------------------ written */

static void a_frame_over_ipv4_has_the_expected_bytes(void **state)
{
    static const uint8_t expected[] = {
        /* To, from, IPv4 */
        0x01,
        0x00,
        0x5e,
        0x48,
        0x01,
        0x02,
        0x02,
        0x00,
        0x00,
        0x00,
        0x00,
        0x07,
        0x08,
        0x00,
        /* 31 bytes, DF, ttl 3, UDP */
        0x45,
        0x00,
        0x00,
        0x1f,
        0x00,
        0x00,
        0x40,
        0x00,
        0x03,
        0x11,
        0x7c,
        0xb6,
        /* Addresses, UDP */
        0x0a,
        0x4d,
        0x00,
        0x01,
        0xef,
        0xc8,
        0x01,
        0x02,
        0x9c,
        0x40,
        0x13,
        0x89,
        0x00,
        0x0b,
        0x00,
        0x00,
        'a',
        'b',
        'c',
    };
    uint8_t frame[FRAME_MAX];

    (void)state;
    assert_int_equal(frame_make(frame, "10.77.0.1", "239.200.1.2", "abc", 3), sizeof expected);
    assert_memory_equal(frame, expected, sizeof expected);
}

static void a_frame_over_ipv6_has_the_expected_bytes(void **state)
{
    static const uint8_t expected[] = {
        /* To, from, IPv6 */
        0x33,
        0x33,
        0x00,
        0x07,
        0x00,
        0x01,
        0x02,
        0x00,
        0x00,
        0x00,
        0x00,
        0x07,
        0x86,
        0xdd,
        /* 11 bytes of UDP, 3 hops */
        0x60,
        0x00,
        0x00,
        0x00,
        0x00,
        0x0b,
        0x11,
        0x03,
        /* source address */
        0xfd,
        0x77,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x01,
        /* destination address */
        0xff,
        0x15,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x00,
        0x07,
        0x00,
        0x01,
        0x9c,
        0x40,
        0x13,
        0x89,
        0x00,
        0x0b,
        0x8f,
        0x15,
        'a',
        'b',
        'c',
    };
    uint8_t frame[FRAME_MAX];

    (void)state;
    assert_int_equal(frame_make(frame, "fd77::1", "ff15::7:1", "abc", 3), sizeof expected);
    assert_memory_equal(frame, expected, sizeof expected);
}

/* Second implementation of the checksum, word by word in network order. */
static uint32_t plain_sum(uint32_t sum, const uint8_t *bytes, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

static void checksums_are_right_at_every_length(void **state)
{
    uint8_t payload[FRAME_MAX], frame[FRAME_MAX + LLI_XDP_HEADER_MAX];
    uint64_t random = 1;

    (void)state;
    for (uint32_t size = 0; size < 1500; size++) {
        uint32_t bytes;

        for (uint32_t i = 0; i < size; i++)
            payload[i] = (uint8_t)((random = random * 6364136223846793005u + 1442695040888963407u) >> 56);
        frame_make(frame, "10.77.0.1", "239.200.1.2", payload, size);
        assert_int_equal(plain_sum(0, frame + 14, 20), 0xffff);
        bytes = frame_make(frame, "fd77::1", "ff15::7:1", payload, size);
        /* Includes the fields of the pseudo-header besides the addresses. */
        assert_int_equal(plain_sum(8 + size + 17, frame + 22, bytes - 22), 0xffff);
    }
}

/* A checksum of 0 would mean that there is none (RFC 768). */
static void a_checksum_of_zero_is_sent_as_its_complement(void **state)
{
    uint8_t payload[2] = {0, 0}, frame[FRAME_MAX];

    (void)state;
    frame_make(frame, "fd77::1", "ff15::7:1", payload, 2);
    memcpy(payload, frame + 60, 2); /* completes the sum to 0xffff */
    frame_make(frame, "fd77::1", "ff15::7:1", payload, 2);
    assert_int_equal(frame[60], 0xff);
    assert_int_equal(frame[61], 0xff);
}

/* --------------------------------------------------------------------------------------------------- read */

/* Frames with random changes, in a block of exactly their size. */
static void mangled_frames_are_read_within_their_bounds(void **state)
{
    uint64_t random = 7;
    uint32_t taken = 0;

    (void)state;
    for (int round = 0; round < 200000; round++) {
        uint8_t bytes[FRAME_MAX];
        const bool v6 = (round & 1) != 0;
        uint32_t size = v6 ? make_v6(bytes, (uint32_t)round % 64) : make_v4(bytes, (uint32_t)round % 64);
        struct lli_xdp_frame got;
        uint8_t *copy;

        for (int changes = round % 4; changes > 0; changes--) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[(random >> 33) % size] = (uint8_t)(random >> 24);
        }
        size -= (uint32_t)(random >> 60) % (size + 1);
        copy = malloc(size == 0 ? 1 : size);
        assert_non_null(copy);
        memcpy(copy, bytes, size);
        if (lli_xdp_frame_get(&got, v6 ? AF_INET6 : AF_INET, copy, size)) {
            assert_true(got.payload <= size && got.size <= size - got.payload);
            taken++;
        }
        free(copy);
    }
    assert_in_range(taken, 1000, 150000);
}

static void written_frames_are_read_back(void **state)
{
    const union lli_ip_address source[2] = {address("10.77.0.1", 40000), address("fd77::1", 40000)};
    const union lli_ip_address group[2] = {address("239.200.1.2", 5001), address("ff15::7:1", 5001)};
    uint8_t bytes[FRAME_MAX];
    struct lli_xdp_frame got;

    (void)state;
    for (int v6 = 0; v6 < 2; v6++)
        for (uint32_t size = 0; size < 1400; size += 7) {
            const uint32_t whole = v6 ? make_v6(bytes, size) : make_v4(bytes, size);

            assert_true(lli_xdp_frame_get(&got, v6 ? AF_INET6 : AF_INET, bytes, whole));
            assert_int_equal(got.size, size);
            assert_int_equal(got.payload, whole - size);
            assert_true(lli_ip_same(&got.source, &source[v6]));
            assert_true(lli_ip_same(&got.group, &group[v6]));
        }
}

/* Frames on a cable have at least 60 bytes. */
static void padding_of_a_short_frame_is_no_payload(void **state)
{
    uint8_t bytes[FRAME_MAX] = {0};
    struct lli_xdp_frame got;

    (void)state;
    make_v4(bytes, 3);
    assert_true(lli_xdp_frame_get(&got, AF_INET, bytes, 60));
    assert_int_equal(got.size, 3);
}

static void no_frame_is_read_beyond_its_end(void **state)
{
    uint8_t bytes[FRAME_MAX];
    const uint32_t v4 = make_v4(bytes, 100);

    (void)state;
    for (uint32_t size = 0; size < v4; size++)
        assert_false(get_v4(bytes, size));
    for (uint32_t size = 0, v6 = make_v6(bytes, 100); size < v6; size++)
        assert_false(get_v6(bytes, size));
}

static void a_udp_checksum_is_not_checked(void **state)
{
    uint8_t bytes[FRAME_MAX];
    const uint32_t size = make_v4(bytes, 100);

    (void)state;
    bytes[40] = 0x12;
    assert_true(get_v4(bytes, size));
}

/* Decodes a frame with one byte changed and its checksum corrected. */
static bool get_v4_with(uint32_t at, uint8_t value)
{
    uint8_t bytes[FRAME_MAX];
    const uint32_t size = make_v4(bytes, 100);
    uint32_t sum;

    bytes[at] = value;
    bytes[24] = bytes[25] = 0;
    sum = plain_sum(0, bytes + 14, 20) ^ 0xffff;
    bytes[24] = (uint8_t)(sum >> 8);
    bytes[25] = (uint8_t)sum;
    return get_v4(bytes, size);
}

static void frames_without_a_whole_udp_packet_are_refused(void **state)
{
    (void)state;
    assert_true(get_v4_with(22, 9));     /* another ttl */
    assert_true(get_v4_with(15, 0xb8));  /* another DSCP */
    assert_true(get_v4_with(20, 0x00));  /* DF is clear, and it is no fragment */
    assert_false(get_v4_with(12, 0x81)); /* a tag */
    assert_false(get_v4_with(14, 0x46)); /* options */
    assert_false(get_v4_with(14, 0x65));
    assert_false(get_v4_with(20, 0x60)); /* more fragments follow */
    assert_false(get_v4_with(21, 0x01)); /* the second fragment */
    assert_false(get_v4_with(23, 6));    /* TCP */
    assert_false(get_v4_with(17, 127));  /* lengths that disagree: of IP */
    assert_false(get_v4_with(17, 129));
    assert_false(get_v4_with(17, 19));
    assert_false(get_v4_with(16, 0xff));
    assert_false(get_v4_with(39, 107)); /* ... of UDP */
    assert_false(get_v4_with(39, 7));
    assert_false(get_v4_with(38, 0xff));
}

static void a_wrong_checksum_of_ip_is_refused(void **state)
{
    uint8_t bytes[FRAME_MAX];
    const uint32_t size = make_v4(bytes, 100);

    (void)state;
    bytes[30] ^= 1;
    assert_false(get_v4(bytes, size));
}

static void frames_without_a_whole_udp_packet_over_ipv6_are_refused(void **state)
{
    static const struct {
        uint32_t at;
        uint8_t value;
    } wrong[] = {{12, 0x08}, {14, 0x40}, {18, 0xff}, {19, 107}, {19, 109},
                 {20, 44},   {20, 0},    {59, 107},  {59, 7}};
    uint8_t bytes[FRAME_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const uint32_t size = make_v6(bytes, 100);

        bytes[wrong[i].at] = wrong[i].value;
        assert_false(get_v6(bytes, size));
    }
}

static void frames_of_the_other_family_are_refused(void **state)
{
    uint8_t bytes[FRAME_MAX];

    (void)state;
    assert_false(get_v6(bytes, make_v4(bytes, 100)));
    assert_false(get_v4(bytes, make_v6(bytes, 100)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_over_ipv4_has_the_expected_bytes),
        cmocka_unit_test(a_frame_over_ipv6_has_the_expected_bytes),
        cmocka_unit_test(checksums_are_right_at_every_length),
        cmocka_unit_test(a_checksum_of_zero_is_sent_as_its_complement),
        cmocka_unit_test(written_frames_are_read_back),
        cmocka_unit_test(padding_of_a_short_frame_is_no_payload),
        cmocka_unit_test(mangled_frames_are_read_within_their_bounds),
        cmocka_unit_test(no_frame_is_read_beyond_its_end),
        cmocka_unit_test(a_udp_checksum_is_not_checked),
        cmocka_unit_test(frames_without_a_whole_udp_packet_are_refused),
        cmocka_unit_test(a_wrong_checksum_of_ip_is_refused),
        cmocka_unit_test(frames_without_a_whole_udp_packet_over_ipv6_are_refused),
        cmocka_unit_test(frames_of_the_other_family_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
