/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steady state: while messages flow, a context makes no system calls but those that send and receive and
 * a few a second that look after its peers, so it takes no lock that waits, and it touches no new memory. A
 * filter of the kernel (seccomp) stops the process at each other call, and its parent counts them; page
 * faults are counted by getrusage(2).
 */
#define _GNU_SOURCE
#include "unit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <llm/llm.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitized.h"

enum { EXIT_SKIP = 77, EXIT_FAULTS = 4, EXIT_LOSS = 5, BURST = 16 };

/*
 * Longer than the intervals of everything that a context does by time: heartbeats, reports, the interface's
 * state. The kernel itself may move a few pages in that time; memory touched by each message would take
 * thousands.
 */
#define STEADY_NS UINT64_C(2500000000)
enum { STEADY_S = 3, FAULTS_MAX = 64, MESSAGES_MIN = 20000, CALLS_MAX = 512, ALLOWED_MAX = 12 };

/* System calls that a transport may make, and how many in STEADY_NS; the list ends with call -1. */
enum { ANY = -1 };
struct allowed {
    long call;
    long count;
};

struct station {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_topic *topic;
    uint64_t delivered, lost;
};

static void on_message(void *arg, const struct llm_message *message)
{
    (void)message;
    ((struct station *)arg)->delivered++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    ((struct station *)arg)->lost += event->kind == LLM_EVENT_GAP;
}

/* ------------------------------------------------------------------------------------------ system calls */

/* Stops at all calls except those that are allowed in any number. */
static bool filter_calls(const struct allowed *allowed)
{
    struct sock_filter filter[2 + 2 * ALLOWED_MAX];
    unsigned short count = 0;

    filter[count++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (; allowed->call >= 0; allowed++)
        if (allowed->count == ANY) {
            filter[count++] =
                (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed->call, 0, 1);
            filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){count, filter}) == 0;
}

/* Counts the calls of a traced process by number until it ends. Returns its status of waitpid(2). */
static int count_calls(pid_t pid, long *counts)
{
    struct __ptrace_syscall_info info;
    int status, number;

    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        number = WSTOPSIG(status);
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
            number = 0;
            assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0);
            counts[info.seccomp.nr < CALLS_MAX ? info.seccomp.nr : CALLS_MAX - 1]++;
        } else if (number == SIGSTOP) {
            number = 0;
            (void)ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL);
        }
        assert_int_equal(ptrace(PTRACE_CONT, pid, 0, number), 0);
    }
    return status;
}

static void expect_calls(const char *channel, const struct allowed *allowed, const long *counts)
{
    bool fails = false;

    for (long call = 0; call < CALLS_MAX; call++) {
        /* The end of the test itself. */
        long most = call == SYS_getrusage || call == SYS_exit_group;

        for (const struct allowed *one = allowed; one->call >= 0; one++)
            most = one->call == call ? one->count : most;
        if (most != ANY && counts[call] > most)
            print_error("%s: %ld system calls of number %ld in the steady state, more than %ld\n", channel,
                        counts[call], call, most);
        fails |= most != ANY && counts[call] > most;
    }
    assert_false(fails);
}

static long faults(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

/* ------------------------------------------------------------------------------------------------ traffic */

static bool station_open(struct station *station, const char *channel)
{
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = station;
    handlers.message = on_message;
    handlers.event = on_event;
    return llm_context_open(NULL, &station->context) == LLM_OK &&
           llm_receiver_open(station->context, channel, NULL, &handlers, &station->receiver) == LLM_OK &&
           llm_transmitter_open(station->context, channel, NULL, NULL, &station->transmitter) == LLM_OK &&
           llm_topic_open(station->transmitter, "topic", 0, &station->topic) == LLM_OK;
}

/* Sends bursts, and polls until each has been delivered, with and without idle polls after it. */
static void station_run(struct station *station, uint64_t ns)
{
    const uint64_t until = llm_clock() + ns;
    uint8_t bytes[200] = {0};

    for (uint64_t round = 1; llm_clock() < until; round++) {
        for (uint64_t i = 0; i < BURST; i++)
            (void)llm_send(station->topic, bytes, (size_t)(round + i) % sizeof bytes,
                           i + 1 < BURST && i % 2 ? LLM_SEND_MORE : 0);
        while (station->delivered < llm_transmitter_next(station->transmitter) && llm_clock() < until)
            (void)llm_poll(station->context);
        for (uint64_t i = 0; i < round % BURST; i++)
            (void)llm_poll(station->context);
    }
}

static int child(const char *channel, const struct allowed *allowed)
{
    static struct station station;
    uint64_t delivered;
    long before;

    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0 || raise(SIGSTOP) != 0 || !station_open(&station, channel))
        return EXIT_SKIP;
    /* The history of 1,024 packets is overwritten many times, and the first reports are past. */
    station_run(&station, STEADY_NS / 5);
    delivered = station.delivered;
    before = faults();
    if (!filter_calls(allowed))
        return EXIT_SKIP;
    station_run(&station, STEADY_NS);
    if (station.lost > 0 || station.delivered - delivered < MESSAGES_MIN)
        return EXIT_LOSS;
    return faults() - before > FAULTS_MAX ? EXIT_FAULTS : 0;
}

/* Files that the process left in shared memory are removed by the next transmitter on the channel. */
static void remove_files(const char *channel)
{
    struct station station = {.context = NULL};

    if (strncmp(channel, "shm:", 4) == 0)
        (void)station_open(&station, channel);
    (void)llm_context_close(&station.context);
}

/* In a process of its own, as a filter cannot be removed. */
static void expect_steady(const char *channel, const struct allowed *allowed)
{
    static long counts[CALLS_MAX];
    const pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(child(channel, allowed));
    assert_true(pid > 0);
    memset(counts, 0, sizeof counts);
    status = count_calls(pid, counts);
    remove_files(channel);
    assert_true(WIFEXITED(status));
    switch (WEXITSTATUS(status)) {
    case 0:
        expect_calls(channel, allowed, counts);
        return;
    case EXIT_SKIP:
        print_message("%s cannot be opened, or calls cannot be traced here: not tested\n", channel);
        skip();
        return;
    case EXIT_FAULTS:
        fail_msg("%s: more than %d page faults", channel, FAULTS_MAX);
    default:
        fail_msg("%s: messages lost, or fewer than %d delivered", channel, MESSAGES_MIN);
    }
}

#define SMALL "history_bytes=1M&history_packets=1024&linger_ns=0"

static void no_system_calls_over_loop(void **state)
{
    (void)state;
    expect_steady("loop://steady:1?mtu=1500&" SMALL, (const struct allowed[]){{-1, 0}});
}

static void few_system_calls_over_shared_memory(void **state)
{
    (void)state;
    /* The socket is read every 2 ms; segments are listed and their locks tested every second. */
    expect_steady("shm://steady?" SMALL, (const struct allowed[]){{SYS_recvfrom, 1000 * STEADY_S},
                                                                  {SYS_openat, STEADY_S},
                                                                  {SYS_newfstatat, STEADY_S},
                                                                  {SYS_getdents64, 2 * STEADY_S},
                                                                  {SYS_fcntl, STEADY_S},
                                                                  {SYS_close, STEADY_S},
                                                                  {-1, 0}});
}

static void few_system_calls_over_udp(void **state)
{
    (void)state;
    /* Among them the question how much the kernel dropped; the interface's state is asked every second. */
    expect_steady("udp://239.195.77.2:17078?interface=lo&mtu=1500&rcvbuf_bytes=4M&" SMALL,
                  (const struct allowed[]){{SYS_sendto, ANY},
                                           {SYS_sendmsg, ANY},
                                           {SYS_sendmmsg, ANY},
                                           {SYS_recvfrom, ANY},
                                           {SYS_recvmsg, ANY},
                                           {SYS_recvmmsg, ANY},
                                           {SYS_getsockopt, ANY},
                                           {SYS_ioctl, 2 * STEADY_S},
                                           {-1, 0}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_system_calls_over_loop),
        cmocka_unit_test(few_system_calls_over_shared_memory),
        cmocka_unit_test(few_system_calls_over_udp),
    };

    return SANITIZED ? EXIT_SKIP : cmocka_run_group_tests(tests, NULL, NULL);
}
