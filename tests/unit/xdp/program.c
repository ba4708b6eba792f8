/* SPDX-License-Identifier: Apache-2.0 */
/* The XDP program's decisions, run in the kernel on generated frames (BPF_PROG_TEST_RUN). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "xdp_frame.h"
#include "xdp_program.h"

enum { FRAME_MAX = 256, PAYLOAD = 45, SIZE_AT = 2, SKIPPED = 77 };

static struct lli_xdp_program program;
static uint32_t size_at; /* offset of the size field in packets; 0: none */
static char log_text[512];

static void log_keep(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    snprintf(log_text, sizeof log_text, "%s", text);
}

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_WARNING};

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

/* ----------------------------------------------------------------------------------------------- programs */

static int program_open(sa_family_t family, bool frags)
{
    const struct lli_xdp_program_config config = {
        .log = &keeper, .family = family, .queues = 1, .groups_max = 4, .frags = frags, .size_at = size_at};

    return lli_xdp_program_init(&program, &config);
}

/* Creates a program of this family with one group, and a socket for queue 0. */
static int family_set_up(void **state, sa_family_t family, const char *group)
{
    const union lli_ip_address known = address(group, 5001);
    static int fd;

    fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    *state = &fd;
    if (fd < 0 || program_open(family, false) != 0 || lli_xdp_program_queue(&program, &keeper, 0, fd) != 0 ||
        lli_xdp_program_group(&program, &keeper, &known, true) != 0) {
        fprintf(stderr, "%s\n", log_text);
        return -1;
    }
    return 0;
}

static int set_up_v4(void **state)
{
    return family_set_up(state, AF_INET, "239.192.1.1");
}

static int set_up_v6(void **state)
{
    return family_set_up(state, AF_INET6, "ff15::7:1");
}

static int set_up_v4_sizes(void **state)
{
    size_at = SIZE_AT;
    return set_up_v4(state);
}

static int set_up_v6_sizes(void **state)
{
    size_at = SIZE_AT;
    return set_up_v6(state);
}

static int tear_down(void **state)
{
    size_at = 0;
    lli_xdp_program_fini(&program);
    close(*(int *)*state);
    return 0;
}

/* Returns the verdict on a frame in queue 0. */
static unsigned verdict(const uint8_t *frame, uint32_t size)
{
    uint8_t out[FRAME_MAX + 512];
    union bpf_attr attribute = {
        .test = {.prog_fd = (uint32_t)program.code, .data_size_in = size, .data_size_out = sizeof out}};

    attribute.test.data_in = (uintptr_t)frame;
    attribute.test.data_out = (uintptr_t)out;
    if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attribute, sizeof attribute) != 0)
        fail_msg("the program cannot be run: %m");
    assert_int_equal(attribute.test.data_size_out, size); /* and the frame is unchanged */
    assert_memory_equal(out, frame, size);
    return attribute.test.retval;
}

static uint32_t frame_make(uint8_t *frame, const char *from, const char *to, uint16_t port)
{
    static const uint8_t mac[LLI_XDP_MAC_BYTES] = {2, 0, 0, 0, 0, 7};
    static const uint8_t payload[PAYLOAD];
    const union lli_ip_address source = address(from, 40000), group = address(to, port);
    struct lli_xdp_header header;

    memset(frame, 0, FRAME_MAX);
    lli_xdp_header_init(&header, mac, &source, &group, 1);
    lli_xdp_header_put(&header, frame, payload, PAYLOAD);
    return header.size + PAYLOAD;
}

/* Returns the verdict on a frame to the known group with one byte changed. */
static unsigned verdict_v4_with(uint32_t at, uint8_t value)
{
    uint8_t frame[FRAME_MAX];
    const uint32_t size = frame_make(frame, "10.77.0.2", "239.192.1.1", 5001);

    frame[at] = value;
    return verdict(frame, size);
}

static unsigned verdict_v6_with(uint32_t at, uint8_t value)
{
    uint8_t frame[FRAME_MAX];
    const uint32_t size = frame_make(frame, "fd77::2", "ff15::7:1", 5001);

    frame[at] = value;
    return verdict(frame, size);
}

static unsigned verdict_to(const char *from, const char *group, uint16_t port)
{
    uint8_t frame[FRAME_MAX];

    return verdict(frame, frame_make(frame, from, group, port));
}

/* -------------------------------------------------------------------------------------------------- tests */

static void packets_to_the_group_are_redirected(void **state)
{
    (void)state;
    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.1", 5001), XDP_REDIRECT);
    assert_int_equal(verdict_to("10.9.9.9", "239.192.1.1", 5001), XDP_REDIRECT); /* from any source */
    assert_int_equal(verdict_v4_with(22, 200), XDP_REDIRECT);                    /* ttl */
    assert_int_equal(verdict_v4_with(15, 0xb8), XDP_REDIRECT);                   /* DSCP */
    assert_int_equal(verdict_v4_with(20, 0), XDP_REDIRECT);                      /* DF is clear */
    assert_int_equal(verdict_v4_with(40, 0x55), XDP_REDIRECT);                   /* UDP checksum */
}

static void other_groups_and_ports_pass(void **state)
{
    (void)state;
    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.2", 5001), XDP_PASS);
    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.1", 5002), XDP_PASS);
    /* 5001 in the other byte order */
    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.1", 0x8913), XDP_PASS);
    assert_int_equal(verdict_to("10.77.0.2", "10.77.0.1", 5001), XDP_PASS);
}

static void packets_other_than_plain_udp_pass(void **state)
{
    (void)state;
    assert_int_equal(verdict_v4_with(23, 6), XDP_PASS);    /* TCP */
    assert_int_equal(verdict_v4_with(23, 2), XDP_PASS);    /* IGMP */
    assert_int_equal(verdict_v4_with(14, 0x46), XDP_PASS); /* options */
    assert_int_equal(verdict_v4_with(14, 0x4f), XDP_PASS);
    assert_int_equal(verdict_v4_with(20, 0x20), XDP_PASS); /* the first fragment */
    assert_int_equal(verdict_v4_with(20, 0x1f), XDP_PASS); /* a later one */
    assert_int_equal(verdict_v4_with(21, 0x01), XDP_PASS);
    assert_int_equal(verdict_v4_with(13, 0x06), XDP_PASS); /* ARP */
    assert_int_equal(verdict_v4_with(12, 0x86), XDP_PASS);
}

static void tagged_frames_pass(void **state)
{
    uint8_t frame[FRAME_MAX];
    const uint32_t size = frame_make(frame, "10.77.0.2", "239.192.1.1", 5001);

    (void)state;
    memmove(frame + 16, frame + 12, size - 12);
    memcpy(frame + 12, (const uint8_t[]){0x81, 0x00, 0x00, 0x05}, 4);
    assert_int_equal(verdict(frame, size + 4), XDP_PASS);
}

static void arp_passes(void **state)
{
    static const uint8_t request[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0,
                                        7,    8,    6,    0,    1,    8,    0, 6, 4, 0, 1};

    (void)state;
    assert_int_equal(verdict(request, sizeof request), XDP_PASS);
}

/* The kernel passes no frames below 14 bytes to a program. */
static void short_frames_pass(void **state)
{
    uint8_t frame[FRAME_MAX];

    (void)state;
    frame_make(frame, "10.77.0.2", "239.192.1.1", 5001);
    for (uint32_t size = 14; size < LLI_XDP_HEADER_V4; size++)
        assert_int_equal(verdict(frame, size), XDP_PASS);
    assert_int_equal(verdict(frame, LLI_XDP_HEADER_V4), XDP_REDIRECT);
}

static void packets_to_a_left_group_pass(void **state)
{
    const union lli_ip_address known = address("239.192.1.1", 5001), second = address("239.192.1.9", 5009);

    (void)state;
    assert_int_equal(lli_xdp_program_group(&program, &keeper, &second, true), 0);
    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.9", 5009), XDP_REDIRECT);
    assert_int_equal(lli_xdp_program_group(&program, &keeper, &known, false), 0);
    assert_int_equal(lli_xdp_program_group(&program, &keeper, &known, false), 0); /* again is no error */
    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.1", 5001), XDP_PASS);
    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.9", 5009), XDP_REDIRECT);
}

static void all_packets_pass_without_the_socket(void **state)
{
    int *fd = *state;

    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.1", 5001), XDP_REDIRECT);
    close(*fd);
    *fd = -1;
    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.1", 5001), XDP_PASS);
}

static void packets_to_the_ipv6_group_are_redirected(void **state)
{
    (void)state;
    assert_int_equal(verdict_to("fd77::2", "ff15::7:1", 5001), XDP_REDIRECT);
    assert_int_equal(verdict_v6_with(15, 0x10), XDP_REDIRECT); /* flow label */
}

static void other_packets_over_ipv6_pass(void **state)
{
    uint8_t frame[FRAME_MAX];

    (void)state;
    assert_int_equal(verdict_to("fd77::2", "ff15::7:1", 5002), XDP_PASS);
    for (uint32_t at = 38; at < 54; at++)
        assert_int_equal(verdict_v6_with(at, 0xee), XDP_PASS); /* another group in any byte */
    assert_int_equal(verdict_v6_with(20, 0), XDP_PASS);        /* hop-by-hop options */
    assert_int_equal(verdict_v6_with(20, 44), XDP_PASS);       /* a fragment */
    assert_int_equal(verdict_v6_with(20, 58), XDP_PASS);       /* MLD, neighbours */
    assert_int_equal(verdict_to("10.77.0.2", "239.192.1.1", 5001), XDP_PASS);
    frame_make(frame, "fd77::2", "ff15::7:1", 5001);
    for (uint32_t size = 14; size < LLI_XDP_HEADER_V6; size++)
        assert_int_equal(verdict(frame, size), XDP_PASS);
}

/*
 * Returns the verdict for this value of the size field of a packet of PAYLOAD bytes, in a frame of which this
 * many bytes are linear.
 */
static unsigned verdict_v4_saying(uint8_t low, uint8_t high, uint32_t payload)
{
    uint8_t frame[FRAME_MAX];

    frame_make(frame, "10.77.0.2", "239.192.1.1", 5001);
    frame[LLI_XDP_HEADER_V4 + SIZE_AT] = low;
    frame[LLI_XDP_HEADER_V4 + SIZE_AT + 1] = high;
    return verdict(frame, LLI_XDP_HEADER_V4 + payload);
}

static void trains_in_one_buffer_pass(void **state)
{
    (void)state;
    assert_int_equal(verdict_v4_saying(PAYLOAD, 0, PAYLOAD), XDP_REDIRECT);
    /* The rest is in another buffer. */
    assert_int_equal(verdict_v4_saying(PAYLOAD, 0, SIZE_AT + 2), XDP_REDIRECT);
    assert_int_equal(verdict_v4_saying(PAYLOAD, 0, SIZE_AT + 1), XDP_PASS);
    assert_int_equal(verdict_v4_saying(PAYLOAD - 1, 0, PAYLOAD), XDP_PASS);
    assert_int_equal(verdict_v4_saying(PAYLOAD + 1, 0, PAYLOAD), XDP_PASS);
    assert_int_equal(verdict_v4_saying(PAYLOAD, 1, PAYLOAD), XDP_PASS);
    assert_int_equal(verdict_v4_saying(0, PAYLOAD, PAYLOAD), XDP_PASS); /* the other byte order */
    assert_int_equal(verdict_v4_saying(0, 0, PAYLOAD), XDP_PASS);
}

static void trains_in_one_buffer_over_ipv6_pass(void **state)
{
    uint8_t frame[FRAME_MAX];
    const uint32_t size = frame_make(frame, "fd77::2", "ff15::7:1", 5001);

    (void)state;
    frame[LLI_XDP_HEADER_V6 + SIZE_AT] = PAYLOAD;
    assert_int_equal(verdict(frame, size), XDP_REDIRECT);
    frame[LLI_XDP_HEADER_V6 + SIZE_AT] = PAYLOAD / 2;
    assert_int_equal(verdict(frame, size), XDP_PASS);
}

static void groups_beyond_the_size_of_the_map_are_refused(void **state)
{
    int taken = 0;

    (void)state;
    for (uint16_t port = 1; port < 100; port++) {
        const union lli_ip_address group = address("239.192.1.2", port);

        taken += lli_xdp_program_group(&program, &keeper, &group, true) == 0;
    }
    assert_int_equal(taken, 3);
    assert_non_null(strstr(log_text, "group of the program"));
}

static void the_program_loads_for_frames_of_several_buffers(void **state)
{
    (void)state;
    assert_int_equal(program_open(AF_INET, true), 0);
    lli_xdp_program_fini(&program);
    assert_int_equal(program_open(AF_INET6, true), 0);
    lli_xdp_program_fini(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(packets_to_the_group_are_redirected, set_up_v4, tear_down),
        cmocka_unit_test_setup_teardown(other_groups_and_ports_pass, set_up_v4, tear_down),
        cmocka_unit_test_setup_teardown(packets_other_than_plain_udp_pass, set_up_v4, tear_down),
        cmocka_unit_test_setup_teardown(tagged_frames_pass, set_up_v4, tear_down),
        cmocka_unit_test_setup_teardown(arp_passes, set_up_v4, tear_down),
        cmocka_unit_test_setup_teardown(short_frames_pass, set_up_v4, tear_down),
        cmocka_unit_test_setup_teardown(packets_to_a_left_group_pass, set_up_v4, tear_down),
        cmocka_unit_test_setup_teardown(all_packets_pass_without_the_socket, set_up_v4, tear_down),
        cmocka_unit_test_setup_teardown(groups_beyond_the_size_of_the_map_are_refused, set_up_v4, tear_down),
        cmocka_unit_test_setup_teardown(packets_to_the_ipv6_group_are_redirected, set_up_v6, tear_down),
        cmocka_unit_test_setup_teardown(other_packets_over_ipv6_pass, set_up_v6, tear_down),
        cmocka_unit_test_setup_teardown(trains_in_one_buffer_pass, set_up_v4_sizes, tear_down),
        cmocka_unit_test_setup_teardown(trains_in_one_buffer_over_ipv6_pass, set_up_v6_sizes, tear_down),
        cmocka_unit_test(the_program_loads_for_frames_of_several_buffers),
    };
    const int error = program_open(AF_INET, false);

    lli_xdp_program_fini(&program);
    if (error == LLM_EACCESS || error == LLM_ESYSTEM) {
        fprintf(stderr, "%s\n", log_text);
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
