/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the RoCE transport: a failure logs one line with the reason and the remedy, and leaves nothing
 * behind.
 */
#define _GNU_SOURCE
#include "rig.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int log_lines(void)
{
    int lines = 0;

    for (const char *at = rig_log(); *at != '\0'; at++)
        lines += *at == '\n';
    return lines;
}

static void expect_nothing_left(int descriptors)
{
    char text[256];

    if (fake_live(text, sizeof text) != 0)
        fail_msg("left alive: %s after: %s", text, rig_log());
    assert_int_equal(descriptors_open(), descriptors);
}

/* Device objects are the parent's: destroying one in the child would destroy it there. */
static void a_child_destroys_no_object_of_the_device(void **state)
{
    char before[256], after[256];
    int status, live;
    pid_t child;

    (void)state;
    assert_int_equal(rig_open(), 0);
    live = fake_live(before, sizeof before);
    assert_true(live > 0);
    child = fork();
    if (child == 0) {
        alarm(30);
        roce_transport->abandon(rig.roce);
        _exit(fake_live(after, sizeof after) == live && strcmp(before, after) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    rig_close(&rig);
    assert_int_equal(fake_live(after, sizeof after), 0);
}

static void each_failure_of_open_is_logged_and_leaves_nothing(void **state)
{
    static const int errors[] = {ENOMEM, EPERM, EMFILE, EINVAL, EIO, ENODEV};
    const int descriptors = descriptors_open();
    bool seen[FAKE_CALLS] = {false};

    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        for (int nth = 1;; nth++) {
            int status;

            rig_log_forget();
            fake_fail_step(nth, errors[i]);
            status = rig_open();
            if (status == 0) {
                rig_close(&rig); /* it worked without, or nothing failed */
            } else {
                seen[fake_step_failed()] = true;
                assert_int_equal(log_lines(), 1);
                rig_expect_log("roce: ");
                assert_null(strstr(rig_log(), "device :"));
            }
            expect_nothing_left(descriptors);
            if (fake_step_failed() < 0)
                break;
        }
    }
    for (int call = 0; call < FAKE_CALLS; call++)
        if (call != FAKE_CALL_AH && call != FAKE_CALL_JOIN && call != FAKE_CALL_QUERY_QP &&
            call != FAKE_CALL_MODIFY_QP && call != FAKE_CALL_CQ_EX && call != FAKE_CALL_QP)
            assert_true(seen[call]);
    fake_fail_step(0, 0);
}

static void expect_refusal(int expected, const char *part)
{
    rig_log_forget();
    assert_int_equal(rig_open(), expected);
    assert_int_equal(log_lines(), 1);
    rig_expect_log(part);
}

static void a_lack_of_memory_is_explained_by_a_limit_of_locked_memory(void **state)
{
    static const enum fake_call calls[] = {FAKE_CALL_ID, FAKE_CALL_PD, FAKE_CALL_MR, FAKE_CALL_QP,
                                           FAKE_CALL_COMP_CHANNEL};

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        fake_fail(calls[i], 1, ENOMEM, true);
        expect_refusal(LLM_ENOMEM, "out of memory");
        fake_memlock(65536);
        expect_refusal(LLM_EACCESS, "65536 bytes may be locked, 'ulimit -l unlimited'");
        fake_memlock(UINT64_MAX);
        fake_fail(calls[i], 0, 0, false);
    }
}

static void each_failure_has_its_remedy(void **state)
{
    static const struct {
        enum fake_call call;
        int number, error;
        const char *remedy;
    } cases[] = {
        {FAKE_CALL_CHANNEL, ENOENT, LLM_EINTERFACE, "modprobe rdma_ucm"},
        {FAKE_CALL_CHANNEL, EACCES, LLM_EACCESS, "/dev/infiniband"},
        {FAKE_CALL_CHANNEL, EMFILE, LLM_ELIMIT, "ulimit -n"},
        {FAKE_CALL_BIND, ENODEV, LLM_EINTERFACE, "rdma link"},
        {FAKE_CALL_BIND, EADDRNOTAVAIL, LLM_EINTERFACE, "ip address"},
        {FAKE_CALL_QP, ENOSPC, LLM_ELIMIT, "the device has no more of them"},
        {FAKE_CALL_MR, EIO, LLM_ESYSTEM, "registration of receive buffers"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake_fail(cases[i].call, 1, cases[i].number, true);
        expect_refusal(cases[i].error, cases[i].remedy);
        fake_fail(cases[i].call, 0, 0, false);
    }
}

static void an_unsuitable_device_is_refused(void **state)
{
    const struct fake_device good = fake.device;

    (void)state;
    fake.device.no_device = true;
    expect_refusal(LLM_EINTERFACE, "has no RDMA device");
    fake.device = good;
    fake.device.link_layer = IBV_LINK_LAYER_INFINIBAND;
    expect_refusal(LLM_EINTERFACE, "is InfiniBand, not Ethernet");
    fake.device = good;
    fake.device.port_state = IBV_PORT_DOWN;
    expect_refusal(LLM_EINTERFACE, "port 1 of device fake_0 is DOWN; 'ip link set fake0 up'");
    fake.device = good;
    fake.device.gid_v2 = false;
    expect_refusal(LLM_EINTERFACE, "as RoCE v1 only");
    fake.device.gid_v1 = false;
    expect_refusal(LLM_EINTERFACE, "has no GID of 192.0.2.1");
    fake.device = good;
    fake.device.gids_error = EIO;
    expect_refusal(LLM_ESYSTEM, strerror(EIO));
    fake.device = good;
    fake.device.active_mtu = IBV_MTU_256;
    expect_refusal(LLM_EINTERFACE, "carries packets of 256 bytes only");
    fake.device = good;
    fake.receive_refuse_after = 5;
    expect_refusal(LLM_ESYSTEM, "took 5 of 256 receive buffers");
}

static void the_payload_size_is_limited_by_interface_and_device(void **state)
{
    (void)state;
    fake.device.mtu = 1500;
    fake.device.active_mtu = IBV_MTU_4096;
    rig_up();
    assert_int_equal(rig.caps.payload_max, 1500 - 20 - 36);
    rig_close(&rig);
    fake.device.active_mtu = IBV_MTU_1024;
    rig_up();
    assert_int_equal(rig.caps.payload_max, 1024);
    rig_close(&rig);
    fake.device.v6 = true;
    fake.device.active_mtu = IBV_MTU_2048;
    rig_up();
    assert_int_equal(rig.caps.payload_max, 1500 - 40 - 36);
}

/* Any thread of the process may take a signal; the transport's thread must not. */
static void signals_are_left_to_the_application(void **state)
{
    sigset_t one, pending;
    int number;

    (void)state;
    rig_up();
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &one, NULL), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    usleep(20000);
    assert_int_equal(sigpending(&pending), 0);
    assert_int_equal(sigismember(&pending, SIGUSR1), 1);
    assert_int_equal(sigwait(&one, &number), 0);
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &one, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_child_destroys_no_object_of_the_device),
        TEST(each_failure_of_open_is_logged_and_leaves_nothing),
        TEST(a_lack_of_memory_is_explained_by_a_limit_of_locked_memory),
        TEST(each_failure_has_its_remedy),
        TEST(an_unsuitable_device_is_refused),
        TEST(the_payload_size_is_limited_by_interface_and_device),
        TEST(signals_are_left_to_the_application),
    };

    alarm(100);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
