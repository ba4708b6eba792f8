/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills writers and readers: at random moments, and at every instruction of an operation. The others
 * continue, get no torn packet, and all packets that were sent; the name is free at once, and nothing is left
 * at the end.
 *
 *   shm_kill [ROUNDS [SEED]]   kills at random (150), and as many at instructions (1500; 150 with sanitizers)
 */
#define _GNU_SOURCE
#include "shm_test.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/clock.h"

enum { MOMENT_NS_MAX = 2000000, NEWS_MAX = 8192 };

#ifdef SANITIZED
enum { INSTRUCTIONS = 150 }; /* processes start and end ten times more slowly */
#else
enum { INSTRUCTIONS = 1500 };
#endif

static uint64_t rounds = 150, instructions = INSTRUCTIONS;

enum fill { LITTLE, LARGE, SMALL };

/* A round, shared by its processes. */
struct round {
    struct llm_options options;
    uint64_t writer;          /* number of the writer */
    _Atomic uint64_t flushed; /* packets sent by the writer */
    _Atomic uint64_t read;    /* packets read by the second reader */
    _Atomic uint64_t faults;  /* faults found by the second reader */
    int action;               /* under the debugger: enum action */
    enum fill fill;           /* kind of packets that filled the rings before */
};

static struct round *round_shared(void)
{
    struct round *round = shared_memory(sizeof *round);

    round->options = small_options();
    round->options.history_bytes = 16 * 2000;
    return round;
}

static void put_some(struct feed *feed)
{
    const uint64_t number = feed->sent;

    if (number % 3 == 0)
        feed_plain(feed, PACKET_MIN + (uint32_t)(number % (LLI_SHM_INLINE - PACKET_MIN + 1)));
    else if (number % 3 == 1)
        feed_plain(feed, 105 + (uint32_t)(number * 7919 % 1890));
    else
        feed_history(feed, 105 + (uint32_t)(number * 7919 % 1890));
}

static int write_on(void *arg)
{
    static struct feed feed;
    struct round *round = arg;

    feed_open(&feed, &round->options, round->writer);
    for (;;) {
        put_some(&feed);
        atomic_store_explicit(&round->flushed, feed.sent, memory_order_release);
    }
    return 0;
}

static int read_on(void *arg)
{
    struct round *round = arg;
    struct audit audit = {.writer = 0};
    struct station reader;

    open_reader(&reader, &round->options);
    for (uint64_t turn = 0;; turn++) {
        (void)audit_take(&audit, &reader);
        if (turn % 64 == 0)
            (void)transport->arm(reader.instance);
        atomic_store(&round->faults, audit.torn + audit.disordered);
        atomic_store(&round->read, audit.got);
    }
    return 0;
}

/* Reads until a time, while other processes work. */
static void read_until(struct audit *audit, struct station *reader, uint64_t at)
{
    while (lli_clock_ns() < at)
        (void)audit_take(audit, reader);
}

static void read_as_far_as(struct audit *audit, struct station *reader, uint64_t writer, uint64_t packets)
{
    const uint64_t give_up_at = lli_clock_ns() + 10 * ARRIVAL_NS;

    while (audit->writer < writer || (audit->writer == writer && audit->next < packets)) {
        (void)audit_take(audit, reader);
        if (lli_clock_ns() > give_up_at)
            fail_msg("only %llu packets of writer %llu, not %llu of %llu", (unsigned long long)audit->next,
                     (unsigned long long)audit->writer, (unsigned long long)packets,
                     (unsigned long long)writer);
    }
}

/*
 * Reads the dead writer's segment to its end, and releases it. Overwritten entries, and an entry in which the
 * writer died, are skipped in parts by calls that return no packet: continues as long as there is progress.
 */
static void bury(struct audit *audit, struct station *witness, struct round *round)
{
    uint64_t before = UINT64_MAX;

    await_unlocked(NAME);
    if (round->flushed > 0 && shm_of(witness)->in.count > 0)
        read_as_far_as(audit, witness, round->writer, round->flushed);
    while (shm_of(witness)->in.count > 0 && shm_of(witness)->in.sources[0].next != before) {
        before = shm_of(witness)->in.sources[0].next;
        audit_all(audit, witness);
        station_look(witness);
    }
    audit_fine(audit);
    assert_int_equal(shm_of(witness)->in.count, 0);
    assert_int_equal(round->faults, 0);
}

/* Each writer takes the name of the previous, killed writer. */
static void survivors_continue_after_a_kill_at_any_moment(void **state)
{
    struct round *round = round_shared();
    struct audit audit = {.writer = 0};
    struct station witness;
    uint64_t readers_killed = 0;
    pid_t reader;

    (void)state;
    open_reader(&witness, &round->options);
    reader = process_start(read_on, round);
    for (round->writer = 1; round->writer <= rounds; round->writer++) {
        pid_t writer;

        round->flushed = 0;
        writer = process_start(write_on, round);
        /* Every other killed writer had begun to send. */
        if (round->writer % 2 == 0)
            await_value(&round->flushed, 1);
        read_until(&audit, &witness, lli_clock_ns() + random_below(MOMENT_NS_MAX));
        if (round->writer % 3 == 0) {
            const uint64_t before = round->flushed;

            process_kill(reader);
            readers_killed++;
            /* The writer and the other reader continue, and the next reader finds its place. */
            await_value(&round->flushed, before + 200);
            read_as_far_as(&audit, &witness, round->writer, before + 200);
            round->read = 0;
            reader = process_start(read_on, round);
            if (round->writer % 2 == 0)
                await_value(&round->read, 1);
            read_until(&audit, &witness, lli_clock_ns() + random_below(MOMENT_NS_MAX));
        }
        process_kill(writer);
        station_look(&witness);
        bury(&audit, &witness, round);
        assert_in_range(files_of(NAME, ".data"), 0, 1);
    }
    process_kill(reader);
    station_close(&witness);
    next_writer(&round->options);
    print_message("%llu writers and %llu readers killed; %llu packets read\n", (unsigned long long)rounds,
                  (unsigned long long)readers_killed, (unsigned long long)audit.got);
    shared_free(round, sizeof *round);
}

/* -------------------------------------------------------------------------------------- at an instruction */

enum action {
    PUT_HERE,
    PUT_COPIED,
    PUT_HISTORY,
    TAKE,
    ARM,
    WAKE,
    JOIN_SEND,
    MAP,
    LEAVE_SEND,
    JOIN_RECEIVE,
    LEAVE_RECEIVE,
    OPEN,
    CLOSE,
    ACTIONS
};

/* Work of an instance outside of shared memory is distinguished by system calls only. */
static const struct {
    const char *name;
    bool calls; /* steps from system call to system call */
} actions[ACTIONS] = {
    {"put here", false},
    {"put copied", false},
    {"put in the history", false},
    {"take", false},
    {"arm", false},
    {"wake", false},
    {"join to send", false},
    {"map a history", false},
    {"leave as writer", false},
    {"join to receive", false},
    {"leave as reader", false},
    {"open", true},
    {"close", true},
};

/* Returns true for actions of a reader, beside which a writer runs that is not killed. */
static bool is_a_readers(int action)
{
    return action == TAKE || action == ARM || action == JOIN_RECEIVE || action == LEAVE_RECEIVE ||
           action == OPEN;
}

/* A process with a writer, a reader, or neither. */
struct actor {
    struct feed feed;
    struct station reader;
    struct lli_region region;
};

static void actor_prepare(struct actor *actor, struct round *round)
{
    const int action = round->action;

    if (action <= PUT_HISTORY || action == WAKE || action == LEAVE_SEND || action == CLOSE) {
        feed_open(&actor->feed, &round->options, round->writer);
        for (int i = 0; i < 100; i++)
            put_some(&actor->feed);
        for (int i = 0; i < 200 && round->fill == LARGE; i++) {
            feed_plain(&actor->feed, 1990);
            feed_history(&actor->feed, 1990);
        }
        for (int i = 0; i < 400 && round->fill == SMALL; i++)
            feed_plain(&actor->feed, 40);
        round->flushed = actor->feed.sent;
    } else if (action == MAP) {
        open_writer(&actor->feed.station, &round->options);
    } else if (action == JOIN_SEND) {
        (void)instance_open(&actor->feed.station, NAME, &round->options);
    }
    if (action == TAKE || action == ARM || action == WAKE || action == LEAVE_RECEIVE)
        open_reader(&actor->reader, &round->options);
    else if (action == JOIN_RECEIVE)
        (void)instance_open(&actor->reader, NAME, &round->options);
    /* Takes the packets that were sent before it. */
    if (action == TAKE)
        shm_of(&actor->reader)->in.sources[0].next -= 3;
    if (action == WAKE)
        (void)transport->arm(actor->reader.instance);
}

static void actor_act(struct actor *actor, struct round *round)
{
    struct feed *feed = &actor->feed;
    struct audit audit = {.writer = round->writer};

    switch ((enum action)round->action) {
    case PUT_HERE:
    case WAKE:
        feed_plain(feed, 40);
        break;
    case PUT_COPIED:
        feed_plain(feed, 110);
        break;
    case PUT_HISTORY:
        feed_history(feed, 110);
        break;
    case TAKE:
        (void)audit_take(&audit, &actor->reader);
        break;
    case ARM:
        (void)transport->arm(actor->reader.instance);
        break;
    case JOIN_SEND:
        (void)station_join(&feed->station, NAME, 0, LLI_JOIN_SEND, &feed->station.send);
        break;
    case MAP:
        (void)transport->region_map(feed->station.instance, feed->station.send, HISTORY_BYTES,
                                    &actor->region);
        break;
    case LEAVE_SEND:
        transport->leave(feed->station.instance, feed->station.send, LLI_JOIN_SEND);
        break;
    case JOIN_RECEIVE:
        (void)station_join(&actor->reader, NAME, 0, LLI_JOIN_RECEIVE, &actor->reader.receive);
        break;
    case LEAVE_RECEIVE:
        transport->leave(actor->reader.instance, actor->reader.receive, LLI_JOIN_RECEIVE);
        break;
    case OPEN:
        (void)instance_open(&actor->reader, NAME, &round->options);
        break;
    case CLOSE:
        station_close(&feed->station);
        break;
    case ACTIONS:
        break;
    }
}

/* Performs the action between two stops. */
static int act(void *arg)
{
    static struct actor actor;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        return 77;
    actor_prepare(&actor, arg);
    raise(SIGSTOP);
    actor_act(&actor, arg);
    raise(SIGSTOP);
    return 0;
}

/*
 * A stepped process and its debugger take turns. On one CPU a turn is a switch; on two CPUs each turn would
 * be a wake-up, which takes many times as long.
 */
static cpu_set_t anywhere;

static int one_cpu(void **state)
{
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    return sched_getaffinity(0, sizeof anywhere, &anywhere) != 0 ||
           sched_setaffinity(0, sizeof here, &here) != 0 || own_directory(state) != 0;
}

static int any_cpu(void **state)
{
    const int left = nothing_left(state);

    return sched_setaffinity(0, sizeof anywhere, &anywhere) != 0 ? -1 : left;
}

/* Starts a process that stops before its action; 0: debuggers are not allowed here. */
static pid_t act_start(struct round *round)
{
    const pid_t pid = process_start(act, round);
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSTOPPED(status) ? pid : 0;
}

/* Continues the process as requested. False: it is done, or it ended. */
static bool act_on(pid_t pid, int request)
{
    int status;

    assert_int_equal(ptrace((enum __ptrace_request)request, pid, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

/*
 * An action, as observed once, with the steps at which it reached each instruction for the first time: other
 * runs continue to such an instruction, and are stepped only from there. A step takes twenty microseconds on
 * a virtual machine.
 */
struct path {
    uint64_t length; /* steps in total */
    size_t count;
    struct {
        uint64_t steps; /* steps before the instruction, */
        long at;        /* its address */
    } news[NEWS_MAX];
};

#ifdef __x86_64__
static long act_place(pid_t pid)
{
    return ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.rip), NULL);
}

/* Runs to an instruction. False: it is not reached. */
static bool act_reach(pid_t pid, long at)
{
    const long instruction = ptrace(PTRACE_PEEKTEXT, pid, at, NULL);

    assert_int_equal(ptrace(PTRACE_POKETEXT, pid, at, (instruction & ~0xffL) | 0xcc), 0);
    if (!act_on(pid, PTRACE_CONT))
        return false;
    assert_int_equal(act_place(pid), at + 1);
    assert_int_equal(ptrace(PTRACE_POKETEXT, pid, at, instruction), 0);
    assert_int_equal(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.rip), at), 0);
    return true;
}
#else
/* Observes every step. */
static long act_place(pid_t pid)
{
    (void)pid;
    return 0;
}

static bool act_reach(pid_t pid, long at)
{
    (void)pid;
    (void)at;
    return true;
}
#endif

static void path_note(struct path *path, pid_t pid)
{
    const long at = act_place(pid);
    size_t i = path->count;

    while (i > 0 && path->news[i - 1].at != at)
        i--;
    if (i > 0 || path->count == NEWS_MAX)
        return;
    path->news[path->count].steps = path->length;
    path->news[path->count++].at = at;
}

/* Observes an action to its end. False: not possible. */
static bool path_watch(struct path *path, struct round *round)
{
    const bool calls = actions[round->action].calls;
    const pid_t pid = act_start(round);

    path->length = path->count = 0;
    if (pid == 0)
        return false;
    path_note(path, pid);
    while (act_on(pid, calls ? PTRACE_SYSCALL : PTRACE_SINGLESTEP)) {
        path->length++;
        if (!calls)
            path_note(path, pid);
    }
    process_kill(pid);
    return true;
}

/*
 * Chooses the number of steps before a kill: of four kills, one at any step, which is mostly in a loop, and
 * three before an instruction reached for the first time.
 */
static uint64_t path_pick(const struct path *path)
{
    if (path->count <= 1 || random_below(4) == 0)
        return random_below(path->length + 1);
    return path->news[random_below(path->count)].steps;
}

/* Lets a process take this many steps, and kills it. */
static void kill_after(struct round *round, const struct path *path, uint64_t steps)
{
    const bool calls = actions[round->action].calls;
    const pid_t pid = act_start(round);
    size_t new = path->count - 1;
    bool acts = true;
    int status;

    assert_true(pid > 0);
    while (path->news[new].steps > steps)
        new --;
    if (new > 0)
        acts = act_reach(pid, path->news[new].at);
    for (uint64_t done = path->news[new].steps; acts && done < steps; done++)
        acts = act_on(pid, calls ? PTRACE_SYSCALL : PTRACE_SINGLESTEP);
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
        continue;
}

/* A writer that is not killed. */
static struct feed stays;

/* Sends one packet of each kind. */
static void stays_put(void)
{
    feed_plain(&stays, 40);
    feed_plain(&stays, 110);
    feed_history(&stays, 110);
}

static void stays_open(struct round *round)
{
    feed_open(&stays, &round->options, round->writer);
    stays_put();
}

/* False: debuggers are not allowed here. */
static bool watch_all(struct round *round, struct path paths[ACTIONS])
{
    bool watched = true;

    for (int i = 0; i < ACTIONS && watched; i++) {
        round->action = i;
        if (is_a_readers(i))
            stays_open(round);
        watched = path_watch(&paths[i], round);
        if (is_a_readers(i))
            feed_close(&stays);
        assert_true(!watched || paths[i].length > 5);
    }
    return watched;
}

static void kill_a_writer(struct audit *audit, struct station *witness, struct round *round,
                          const struct path *path)
{
    round->flushed = 0;
    kill_after(round, path, path_pick(path));
    station_look(witness);
    bury(audit, witness, round);
}

/* The writer continues, and the other reader is woken and misses nothing. */
static void kill_a_reader(struct audit *audit, struct station *witness, struct round *round,
                          const struct path *path)
{
    const uint64_t got = audit->got, skipped = audit->skipped;
    struct pollfd asleep = {.events = POLLIN};

    stays_open(round);
    station_look(witness);
    audit_all(audit, witness);
    asleep.fd = transport->arm(witness->instance);
    kill_after(round, path, path_pick(path));
    stays_put();
    assert_int_equal(poll(&asleep, 1, 0), 1);
    audit_all(audit, witness);
    audit_fine(audit);
    assert_int_equal(audit->got - got, stays.sent);
    assert_int_equal(audit->skipped, skipped);
    feed_close(&stays);
    station_look(witness);
    assert_int_equal(shm_of(witness)->in.count, 0);
}

/* The name is free, and the earlier readers hear the next writer. */
static void succeed(struct audit *audit, struct station *witness, struct round *round)
{
    static struct feed next;
    const uint64_t got = audit->got;

    feed_open(&next, &round->options, round->writer);
    assert_int_equal(files_of(NAME, ".data"), 1);
    assert_int_equal(files_of(NAME, ".bell"), 1);
    station_look(witness);
    audit->next = 0;
    for (int i = 0; i < 5; i++)
        feed_plain(&next, 50);
    audit_all(audit, witness);
    assert_int_equal(audit->got, got + 5);
    feed_close(&next);
    station_look(witness);
}

static void survivors_continue_after_a_kill_at_any_instruction(void **state)
{
    struct round *round = round_shared();
    struct audit audit = {.writer = 0};
    struct station witness;
    static struct path paths[ACTIONS];
    uint64_t killed[2] = {0, 0};

    (void)state;
    if (!watch_all(round, paths)) {
        shared_free(round, sizeof *round);
        skip(); /* debuggers are not allowed here */
    }
    open_reader(&witness, &round->options);
    for (round->writer = 1; round->writer <= instructions; round->writer++) {
        round->action = (int)(round->writer % ACTIONS);
        killed[is_a_readers(round->action)]++;
        (is_a_readers(round->action) ? kill_a_reader : kill_a_writer)(&audit, &witness, round,
                                                                      &paths[round->action]);
        succeed(&audit, &witness, round);
    }
    station_close(&witness);
    for (int i = 0; i < ACTIONS; i++)
        print_message("%s: %llu %s\n", actions[i].name, (unsigned long long)paths[i].length,
                      actions[i].calls ? "stops at system calls" : "instructions");
    print_message("%llu writers and %llu readers killed\n", (unsigned long long)killed[0],
                  (unsigned long long)killed[1]);
    shared_free(round, sizeof *round);
}

/*
 * A reader one lap late reads all available packets after each instruction of a writer that overwrites the
 * oldest.
 */
static void overwritten_packets_are_read_whole_or_not_at_all(void **state)
{
    struct round *round = round_shared();
    struct station witness;
    int status;

    (void)state;
    round->options.history_packets = 256;
    round->writer = 1;
    for (int i = 0; i < 9; i++) {
        pid_t pid;

        round->action = i % 3;
        round->fill = (enum fill)(i / 3);
        open_reader(&witness, &round->options);
        pid = process_start(act, round);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSTOPPED(status)) {
            station_close(&witness);
            shared_free(round, sizeof *round);
            skip(); /* debuggers are not allowed here */
        }
        station_look(&witness);
        assert_int_equal(shm_of(&witness)->in.count, 1);
        do {
            struct audit audit = {.writer = 1};

            shm_of(&witness)->in.sources[0].next = round->flushed < 256 ? 0 : round->flushed - 256;
            audit_all(&audit, &witness);
            audit_fine(&audit);
            assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
            assert_int_equal(waitpid(pid, &status, 0), pid);
        } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
        process_kill(pid);
        station_close(&witness);
    }
    next_writer(&round->options);
    shared_free(round, sizeof *round);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        shm_test(survivors_continue_after_a_kill_at_any_moment),
        cmocka_unit_test_setup_teardown(survivors_continue_after_a_kill_at_any_instruction, one_cpu, any_cpu),
        cmocka_unit_test_setup_teardown(overwritten_packets_are_read_whole_or_not_at_all, one_cpu, any_cpu),
    };

    rounds_arguments(argc, argv, &rounds);
    if (argc > 1)
        instructions = rounds;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
