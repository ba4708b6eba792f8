/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acceleration of sockets and fallback to the kernel, warm sends, names and spinning: over a test stack,
 * which misbehaves on request. In a network namespace of its own.
 */
#define _GNU_SOURCE
#include "rig.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    POLLS = 64,  /* empty polls between two clock readings */
    SOCKETS = 3, /* sockets of a station: unicast, to send, to receive */
    AS_ENVIRONMENT_SAYS = 2,
};

/* ------------------------------------------------------------------------------------------- acceleration */

static void accelerated_sockets_are_counted(void **state)
{
    struct station station;

    (void)state;
    station_open(&station);
    expect_nothing_logged();
    assert_int_equal(station_counter(&station, "bypass_accelerated"), SOCKETS);
    assert_int_equal(station_counter(&station, "bypass_in_kernel"), 0);
    transport->leave(station.instance, station.receive, LLI_JOIN_RECEIVE);
    transport->leave(station.instance, station.send, LLI_JOIN_SEND);
    assert_int_equal(station_counter(&station, "bypass_accelerated"), 1);
    station_close(&station);
}

static void a_channel_is_refused_without_a_stack(void **state)
{
    struct station station;

    (void)state;
    setenv("SHIM_HIDE", either("onload_is_present", "api"), 1);
    assert_int_equal(instance_open(&station, host, &common), LLM_ESCHEME);
    expect_logged("no stack that accelerates sockets is loaded");
    expect_logged("LD_PRELOAD=libvma.so");
}

static void the_kernel_replaces_a_missing_stack_if_allowed(void **state)
{
    struct station station;

    (void)state;
    setenv("SHIM_HIDE", either("onload_is_present", "api"), 1);
    own_number("bypass_required", 0);
    own_number("warm_ns", 1);
    own_number("stack_spin", 1);
    assert_int_equal(instance_open(&station, host, &common), 0);
    expect_logged("the kernel carries all packets");
    assert_int_equal(station_join(&station, host, port, LLI_JOIN_SEND, &station.send), 0);
    assert_int_equal(station_join(&station, host, port, LLI_JOIN_RECEIVE, &station.receive), 0);
    send_numbers(&station, 0, 100);
    expect_numbers(&station, 0, 100);
    transport->arm(station.instance);
    assert_int_equal(station_counter(&station, "bypass_in_kernel"), SOCKETS);
    assert_int_equal(station_counter(&station, "bypass_lent"), 0);
    assert_int_equal(station_counter(&station, "bypass_warm_sends"), 0);
    station_close(&station);
}

/*
 * Sockets left to the kernel; call that fails; number that stays accelerated if that is allowed; texts in the
 * log.
 */
static const struct handed_over {
    const char *kernel;
    bool open, send, receive;
    unsigned accelerated;
    const char *logged;
} handed_over[] = {
    {"all", true, false, false, 0, "receives " NETWORK_IPV4},
    {"senders", false, true, false, 2, "sends to " GROUP},
    {"groups", false, false, true, 2, "receives " GROUP ":17005"},
};

static void expect_refused(const struct handed_over *expected)
{
    struct station station;
    int status = instance_open(&station, host, &common);
    lli_handle handle;

    assert_int_equal(status, expected->open ? LLM_EINTERFACE : 0);
    if (status == 0) {
        assert_int_equal(station_join(&station, host, port, LLI_JOIN_SEND, &handle),
                         expected->send ? LLM_EINTERFACE : 0);
        if (!expected->send)
            assert_int_equal(station_join(&station, host, port, LLI_JOIN_RECEIVE, &handle),
                             expected->receive ? LLM_EINTERFACE : 0);
        /* A refused socket is closed. */
        assert_int_equal(station_counter(&station, "bypass_in_kernel"), 0);
    }
    expect_logged(expected->logged);
    expect_logged(stack_name);
    expect_logged("on interface " NETWORK_INTERFACE);
    expect_logged("bypass_required=0");
    if (status == 0)
        station_close(&station);
}

static void a_socket_left_to_the_kernel_is_refused_with_reasons(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof handed_over / sizeof handed_over[0]; i++) {
        setenv("SHIM_KERNEL", handed_over[i].kernel, 1);
        expect_refused(&handed_over[i]);
    }
}

static void a_socket_left_to_the_kernel_works_if_allowed(void **state)
{
    struct station station;

    (void)state;
    own_number("bypass_required", 0);
    for (size_t i = 0; i < sizeof handed_over / sizeof handed_over[0]; i++) {
        char logged[sizeof log_text];

        setenv("SHIM_KERNEL", handed_over[i].kernel, 1);
        assert_int_equal(instance_open(&station, host, &common), 0);
        strcpy(logged, log_text);
        assert_int_equal(station_join(&station, host, port, LLI_JOIN_SEND, &station.send), 0);
        strcat(logged, log_text);
        assert_int_equal(station_join(&station, host, port, LLI_JOIN_RECEIVE, &station.receive), 0);
        strcat(logged, log_text);
        assert_non_null(strstr(logged, handed_over[i].logged));
        send_numbers(&station, 0, 20);
        expect_numbers(&station, 0, 20);
        assert_int_equal(station_counter(&station, "bypass_accelerated"), handed_over[i].accelerated);
        assert_int_equal(station_counter(&station, "bypass_in_kernel"), SOCKETS - handed_over[i].accelerated);
        assert_int_equal(station_counter(&station, "bypass_lent") > 0,
                         strcmp(handed_over[i].kernel, "senders") == 0);
        station_close(&station);
    }
}

static void a_stack_without_socket_status_is_refused(void **state)
{
    struct station station;

    (void)state;
    setenv("SHIM_HIDE", either("onload_fd_stat", "get_socket_rings_num"), 1);
    assert_int_equal(instance_open(&station, host, &common), LLM_ESCHEME);
    expect_logged("cannot tell which sockets it accelerates");
    own_number("bypass_required", 0);
    assert_int_equal(instance_open(&station, host, &common), 0);
    station_close(&station);
}

/* Neither stack splits trains into packets. */
static void packets_leave_one_by_one(void **state)
{
    struct station station;

    (void)state;
    station_open(&station);
    assert_int_equal(station.caps.train_max, 1);
    station_close(&station);
    setenv("SHIM_KERNEL", "senders", 1);
    own_number("bypass_required", 0);
    assert_int_equal(instance_open(&station, host, &common), 0);
    assert_int_equal(station.caps.train_max, 1);
    station_close(&station);
}

static void counters_of_udp_are_included(void **state)
{
    struct station station;
    const struct lli_transport *inner;
    const void *instance = NULL;

    (void)state;
    station_open(&station);
    inner = transport->inner(station.instance, 0, &instance);
    assert_string_equal(inner->scheme, "udp");
    assert_ptr_equal(instance, station.instance);
    station_close(&station);
}

/* --------------------------------------------------------------------------------------------- warm sends */

static void poll_idly(struct station *station, int times)
{
    struct lli_in packet;

    for (int i = 0; i < times; i++)
        assert_int_equal(transport->receive(station->instance, &packet, 1), 0);
}

static void warm_sends_on_an_idle_path_send_no_packet(void **state)
{
    struct station station;

    (void)state;
    setenv("SHIM_WARM", "1", 1);
    own_number("warm_ns", 1);
    station_open(&station);
    expect_nothing_logged();
    stack_warm_sends = 0;
    poll_idly(&station, 5 * POLLS);
    assert_int_equal(stack_warm_sends, 5);
    assert_int_equal(station_counter(&station, "bypass_warm_sends"), 5);
    /* A packet also counts as a warm send. */
    send_numbers(&station, 0, 1);
    expect_numbers(&station, 0, 1);
    stack_warm_sends = 0;
    poll_idly(&station, 5 * POLLS);
    assert_in_range(stack_warm_sends, 4, 5);
    transport->leave(station.instance, station.send, LLI_JOIN_SEND);
    stack_warm_sends = 0;
    poll_idly(&station, 5 * POLLS);
    assert_int_equal(stack_warm_sends, 0);
    station_close(&station);
}

static void warm_sends_start_after_warm_ns(void **state)
{
    struct station station;

    (void)state;
    setenv("SHIM_WARM", "1", 1);
    own_number("warm_ns", UINT64_C(10000000000));
    station_open(&station);
    send_numbers(&station, 0, 1);
    expect_numbers(&station, 0, 1);
    stack_warm_sends = 0;
    poll_idly(&station, 5 * POLLS);
    assert_int_equal(stack_warm_sends, 0);
    station_close(&station);
}

/* Onload reports no warm sends for UDP; a send with the flag would transmit. */
static void unsupported_warm_sends_are_not_made(void **state)
{
    struct station station;

    (void)state;
    setenv(either("SHIM_WARM", "SHIM_KERNEL"), either("0", "senders"), 1);
    own_number("warm_ns", 1);
    own_number("bypass_required", 0);
    station_open(&station);
    poll_idly(&station, 5 * POLLS);
    station_expect_nothing(&station);
    assert_int_equal(station_counter(&station, "bypass_warm_sends"), 0);
    station_close(&station);
}

static void unavailable_warm_sends_are_logged(void **state)
{
    struct station station;

    (void)state;
    own_number("warm_ns", 1000);
    assert_int_equal(instance_open(&station, host, &common), 0);
    assert_int_equal(station_join(&station, host, port, LLI_JOIN_SEND, &station.send), 0);
    expect_logged("warm_ns=1000: Onload has no warm sends");
    assert_int_equal(station_join(&station, host, port, LLI_JOIN_SEND, &station.send), 0);
    expect_nothing_logged();
    station_close(&station);
}

/* ---------------------------------------------------------------------------------------- names, spinning */

static uint64_t number_of_stack(const char *name)
{
    struct station station;
    uint64_t number;

    own_set("stack_name", name);
    station_open(&station);
    number = station_counter(&station, "bypass_stack_number");
    station_close(&station);
    return number;
}

static void sockets_belong_to_the_named_stack(void **state)
{
    int (*fd_stat)(int, struct onload_stat *);
    void *found = __real_dlsym(RTLD_DEFAULT, "onload_fd_stat");
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct onload_stat stat;
    const uint64_t first = number_of_stack("first");
    int fd;

    (void)state;
    assert_int_not_equal(first, number_of_stack(""));
    assert_int_not_equal(first, number_of_stack("second"));
    assert_int_equal(first, number_of_stack("first"));
    /* Other descriptors of this thread are not counted. */
    memcpy(&fd_stat, &found, sizeof found);
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(fd_stat(fd, &stat), 1);
    assert_string_equal(stat.stack_name, "");
    free(stat.stack_name);
    close(fd);
}

static void the_blocking_thread_spins_by_the_option(void **state)
{
    unsigned *spins = __real_dlsym(RTLD_DEFAULT, "stack_spins");
    struct station station;

    (void)state;
    for (uint32_t spin = 0; spin <= AS_ENVIRONMENT_SAYS; spin++) {
        own_number("stack_spin", spin);
        station_open(&station);
        *spins = 1u << 3; /* bit of TCP: not ours */
        transport->arm(station.instance);
        assert_int_equal(*spins, spin == 1 ? 1u << 3 | 1u << ONLOAD_SPIN_UDP_RECV |
                                                 1u << ONLOAD_SPIN_UDP_SEND | 1u << ONLOAD_SPIN_SELECT |
                                                 1u << ONLOAD_SPIN_POLL | 1u << ONLOAD_SPIN_EPOLL_WAIT
                                           : 1u << 3);
        *spins |= 1u << ONLOAD_SPIN_POLL;
        transport->arm(station.instance);
        assert_int_equal(*spins & 1u << ONLOAD_SPIN_POLL, spin == 0 ? 0 : 1u << ONLOAD_SPIN_POLL);
        station_close(&station);
    }
}

static void expect_option_refused(const char *key, const char *value, const char *text)
{
    struct station station;

    own_reset();
    own_set(key, value);
    assert_int_equal(instance_open(&station, host, &common), LLM_EOPTION);
    expect_logged(text);
}

static void options_unsupported_by_the_stack_are_refused(void **state)
{
    (void)state;
    setenv("SHIM_HIDE", "onload_set_stackname,onload_thread_set_spin", 1);
    expect_option_refused("stack_name", "feed",
                          either("does not name stacks from a program", "VMA has no names"));
    expect_option_refused(
        "stack_spin", "0",
        either("does not spin by thread; leave it out, and set EF_POLL_USEC", "set VMA_SELECT_POLL"));
}

/* --------------------------------------------------------------------------------------------------- main */

int main(void)
{
    const struct CMUnitTest tests[] = {
        ODD(accelerated_sockets_are_counted),
        ODD(a_channel_is_refused_without_a_stack),
        ODD(the_kernel_replaces_a_missing_stack_if_allowed),
        ODD(a_socket_left_to_the_kernel_is_refused_with_reasons),
        ODD(a_socket_left_to_the_kernel_works_if_allowed),
        ODD(a_stack_without_socket_status_is_refused),
        ODD(packets_leave_one_by_one),
        ODD(counters_of_udp_are_included),
        ODD(warm_sends_on_an_idle_path_send_no_packet),
        ODD(warm_sends_start_after_warm_ns),
        ODD(unsupported_warm_sends_are_not_made),
        ODD(options_unsupported_by_the_stack_are_refused),
    };
    const struct CMUnitTest onload_tests[] = {
        ODD(unavailable_warm_sends_are_logged),
        ODD(sockets_belong_to_the_named_stack),
        ODD(the_blocking_thread_spins_by_the_option),
    };
    int failed;

    if (!rig_set_up())
        return network_skipped();
    failed = cmocka_run_group_tests_name(stack_name, tests, NULL, NULL);
    if (is_onload())
        failed += cmocka_run_group_tests_name(stack_name, onload_tests, NULL, NULL);
    return failed;
}
