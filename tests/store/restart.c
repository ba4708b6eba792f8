/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process with a transmitter and its store is killed and started again: the next session continues the numbers
 * of the stream where the store ends, for receivers and in the recordings.
 */
#define _GNU_SOURCE
#include "tree.h"
#include "unit.h"

#include <llm/llm.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 8, NUMBERS_MAX = 1 << 20, AHEAD = 1000 };

/* Shared with the parent, so that it survives a kill, as if it had been confirmed to somebody else. */
static struct life {
    _Atomic uint64_t confirmed; /* numbers before this one are acknowledged by the store */
    _Atomic uint64_t base;      /* of the session */
    _Atomic int failed;         /* line at which a child gave up */
} * life;

static char directory[64];
static char channel[64];
static volatile sig_atomic_t stopped;

/* By number in the stream. */
static uint8_t delivered[NUMBERS_MAX];
static uint8_t recorded[NUMBERS_MAX];
static uint64_t missing, again, restarts;
static uint64_t base;
static uint64_t confirmed; /* when the process was killed last */

/* ---------------------------------------------------------------------------------------------- the process */

#define CHILD(condition)             \
    do {                             \
        if (!(condition)) {          \
            life->failed = __LINE__; \
            _exit(1);                \
        }                            \
    } while (0)

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static void on_acknowledged(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_ACKNOWLEDGED)
        life->confirmed = life->base + event->last + 1;
}

static struct llm_store *child_store(struct llm_context *context)
{
    struct llm_store_options options;
    struct llm_store *store;
    struct llm_options follow;

    llm_store_options_init(&options);
    options.directory = directory;
    options.segment_bytes = 16 << 20;
    options.spares = 1;
    options.reserve_bytes = 0;
    CHILD(llm_store_open(context, &options, NULL, &store) == LLM_OK);
    llm_options_init(&follow);
    (void)snprintf(follow.receiver_name, sizeof follow.receiver_name, "own");
    CHILD(llm_store_follow(store, channel, &follow) == LLM_OK);
    return store;
}

static void child_run(struct llm_context *context, struct llm_transmitter *transmitter)
{
    struct llm_assurance assurance;
    struct llm_topic *topic;

    llm_assurance_init(&assurance);
    assurance.receivers = 0;
    assurance.names = "own";
    CHILD(llm_topic_open(transmitter, "orders", 0, &topic) == LLM_OK);
    CHILD(llm_topic_assure(topic, &assurance) == LLM_OK);
    while (!stopped) {
        const uint64_t number = life->base + llm_transmitter_next(transmitter);
        int error = LLM_OK;

        if (number < life->confirmed + AHEAD)
            error = llm_send(topic, &number, sizeof number, 0);
        CHILD(error == LLM_OK || error == LLM_EAGAIN);
        CHILD(llm_wait(context, 100000) >= 0);
    }
}

static void child(void)
{
    struct llm_transmitter_handlers handlers;
    struct llm_context_options context_options;
    struct llm_transmitter *transmitter;
    struct llm_context *context;
    struct llm_options options;
    struct llm_store *store;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGTERM, stop);
    llm_context_options_init(&context_options);
    context_options.huge_pages = false;
    CHILD(llm_context_open(&context_options, &context) == LLM_OK);
    store = child_store(context);
    llm_options_init(&options);
    (void)snprintf(options.stream, sizeof options.stream, "orders");
    CHILD(llm_replay_continue(directory, &options, NULL, NULL) >= 0);
    CHILD(options.stream_base >= life->confirmed);
    life->base = options.stream_base;
    llm_transmitter_handlers_init(&handlers);
    handlers.event = on_acknowledged;
    CHILD(llm_transmitter_open(context, channel, &options, &handlers, &transmitter) == LLM_OK);
    child_run(context, transmitter);
    (void)llm_transmitter_close(&transmitter);
    CHILD(llm_store_close(&store) == LLM_OK);
    CHILD(llm_context_close(&context) == LLM_OK);
    _exit(0);
}

/* --------------------------------------------------------------------------------------------- the receiver */

static void on_message(void *arg, const struct llm_message *message)
{
    uint64_t number;

    (void)arg;
    assert_int_equal(message->size, sizeof number);
    memcpy(&number, message->data, sizeof number);
    assert_int_equal(number, base + message->number);
    assert_true(number < NUMBERS_MAX);
    delivered[number] = 1;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_SESSION_NEW) {
        base = event->stream_base;
        restarts += event->stream_term > 0;
    } else if (event->kind == LLM_EVENT_STREAM_GAP) {
        missing += event->last + 1 - event->first;
    } else if (event->kind == LLM_EVENT_STREAM_AGAIN) {
        again += event->last + 1 - event->first;
        assert_true(event->first >= confirmed);
    } else if (event->kind == LLM_EVENT_GAP) {
        missing += event->last + 1 - event->first;
    }
}

/* Polls until so many numbers are confirmed, and the receiver follows the latest session. */
static void await_confirmed(struct llm_context *context, uint64_t number, uint64_t restarts_wanted)
{
    const uint64_t until = llm_clock() + UINT64_C(120000000000);

    while (life->confirmed < number || restarts < restarts_wanted) {
        assert_true(llm_clock() < until);
        if (life->failed != 0)
            fail_msg("restart.c:%d: the process ended", life->failed);
        (void)llm_wait(context, 1000000);
    }
}

/* ------------------------------------------------------------------------------------------- the recordings */

static void on_recorded(void *arg, const struct llm_message *message)
{
    uint64_t number;

    (void)arg;
    memcpy(&number, message->data, sizeof number);
    assert_int_equal(number, base + message->number);
    recorded[number]++;
}

static void on_recording(void *arg, const struct llm_recording *recording)
{
    struct llm_receiver_handlers handlers;
    struct llm_replay_options options;
    struct llm_replay *replay;
    int result;

    ++*(int *)arg;
    assert_int_not_equal(recording->stream, 0);
    base = recording->stream_base;
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_recorded;
    llm_replay_options_init(&options);
    options.session = recording->session;
    assert_int_equal(llm_replay_open(directory, &options, &handlers, NULL, NULL, &replay), LLM_OK);
    while ((result = llm_replay_next(replay, 1000)) > 0)
        continue;
    assert_int_equal(result, 0);
    assert_int_equal(llm_replay_close(&replay), LLM_OK);
}

/* --------------------------------------------------------------------------------------------------- tests */

static pid_t start(void)
{
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        child();
    return pid;
}

static void a_killed_transmitter_continues_its_stream_from_its_store(void **state)
{
    struct llm_context_options context_options;
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;
    struct llm_context *context;
    int sessions = 0, status;
    uint64_t lacking = 0;
    pid_t pid = start();

    (void)state;
    llm_context_options_init(&context_options);
    context_options.wait = LLM_WAIT_BLOCK;
    context_options.huge_pages = false;
    assert_int_equal(llm_context_open(&context_options, &context), LLM_OK);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &receiver), LLM_OK);
    for (uint64_t i = 0; i < KILLS; i++) {
        await_confirmed(context, confirmed + 500 + i * 113, i);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        confirmed = life->confirmed;
        pid = start();
    }
    await_confirmed(context, confirmed + 500, KILLS);
    assert_int_equal(kill(pid, SIGTERM), 0);
    while (waitpid(pid, &status, WNOHANG) == 0)
        (void)llm_wait(context, 1000000);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(llm_context_close(&context), LLM_OK);
    confirmed = life->confirmed;

    for (uint64_t number = 0; number < confirmed; number++)
        lacking += delivered[number] == 0;
    assert_in_range(lacking, 0, missing);
    assert_int_equal(llm_replay_recordings(directory, on_recording, &sessions, NULL, NULL), KILLS + 1);
    assert_int_equal(sessions, KILLS + 1);
    for (uint64_t number = 0; number < confirmed; number++)
        if (recorded[number] != 1)
            fail_msg("number %llu of %llu is recorded %d times", (unsigned long long)number,
                     (unsigned long long)confirmed, recorded[number]);
}

static int up(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof directory, "/tmp/llm-store-XXXXXX");
    assert_non_null(mkdtemp(directory));
    (void)snprintf(channel, sizeof channel, "shm://llm-restart-%d", (int)getpid());
    life = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(life != MAP_FAILED);
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(munmap(life, 4096), 0);
    assert_int_equal(tree_remove(directory), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_killed_transmitter_continues_its_stream_from_its_store, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
