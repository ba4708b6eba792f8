/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of a process that forks: the child's calls are refused, it closes the contexts, and the parent's
 * sessions continue.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <dirent.h>
#include <llm/llm.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "engine/objects.h"

enum { MESSAGES = 300, CHILD_S = 30, WATCHDOG_S = 240 };

#define PATIENCE UINT64_C(60000000000)
#define OPTIONS                                                                                              \
    "history_bytes=1M&history_packets=256&reorder_bytes=1M&sessions_max=2&message_bytes_max=64K&topics_max=" \
    "8&receivers_max=4"                                                                                      \
    "&window_packets=128&linger_ns=0&flow=window&flow_quorum_percent=100&mtu=1500"

static const char *const channels[] = {
    "loop://fork:1?" OPTIONS,
    "udp://239.195.78.1:17078?interface=lo&rcvbuf_bytes=1M&" OPTIONS,
    "shm://fork?" OPTIONS,
    "shm+udp://239.195.78.2:17078?interface=lo&rcvbuf_bytes=1M&" OPTIONS,
    "impair+udp://239.195.78.3:17078?interface=lo&rcvbuf_bytes=1M&" OPTIONS,
};

/* An end with its own context: transmitter, receiver, or one side of a connection. */
struct end {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct llm_receiver *receiver;
    struct llm_listener *listener;
    struct llm_connection *connection;
    atomic_uint_fast64_t messages;
    atomic_uint_fast64_t faults; /* count of gaps, ends and disconnections */
    atomic_uint_fast64_t lines;  /* lines in the log */
    uint64_t forks_at;           /* number of the message whose handler forks */
    pid_t child;
};

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define ADDRESS_SANITIZED 1
#else
#define ADDRESS_SANITIZED 0
#endif

static struct end near, far;
static char directory[64];
static int descriptors;

/* Ends the child process on a failure: cmocka belongs to its parent. */
#define MUST(condition)                                                                  \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            (void)fprintf(stderr, "child process, line %d: %s\n", __LINE__, #condition); \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

/* --------------------------------------------------------------------------------------------------- ends */

static void on_log(void *arg, enum llm_level level, const char *text)
{
    struct end *end = arg;

    (void)level;
    (void)text;
    atomic_fetch_add(&end->lines, 1);
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct end *end = arg;

    (void)message;
    if (atomic_fetch_add(&end->messages, 1) + 1 == end->forks_at)
        end->child = fork();
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct end *end = arg;

    if (event->kind == LLM_EVENT_GAP || event->kind == LLM_EVENT_SESSION_END ||
        event->kind == LLM_EVENT_DISCONNECTED)
        atomic_fetch_add(&end->faults, 1);
}

static void on_connection_message(void *arg, struct llm_connection *connection,
                                  const struct llm_message *message)
{
    (void)connection;
    on_message(arg, message);
}

static void on_connection_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct end *end = arg;

    end->connection = connection;
    on_event(arg, event);
}

static int on_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                     struct llm_connection_handlers *handlers)
{
    (void)listener;
    (void)caller;
    handlers->arg = arg;
    handlers->message = on_connection_message;
    handlers->event = on_connection_event;
    return LLM_OK;
}

static void end_open(struct end *end, enum llm_wait_mode wait)
{
    struct llm_context_options options;

    memset(end, 0, sizeof *end);
    llm_context_options_init(&options);
    options.log = on_log;
    options.log_arg = end;
    options.log_level = LLM_LEVEL_ERROR;
    options.stats_directory = directory;
    options.wait = wait;
    assert_int_equal(llm_context_open(&options, &end->context), LLM_OK);
}

/* Adds the directory of the test to a channel in shared memory. */
static const char *channel_here(const char *channel)
{
    static char text[512];

    (void)snprintf(text, sizeof text, "%s", channel);
    if (strncmp(channel, "shm", 3) == 0)
        (void)snprintf(text, sizeof text, "%s%sshm_directory=%s", channel,
                       strchr(channel, '?') == NULL ? "?" : "&", directory);
    return text;
}

static void receiver_open(struct end *end, const char *channel)
{
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = end;
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(end->context, channel_here(channel), NULL, &handlers, &end->receiver),
                     LLM_OK);
}

static int up(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof directory, "/dev/shm/llm-fork.XXXXXX");
    assert_non_null(mkdtemp(directory));
    descriptors = descriptors_open();
    return 0;
}

static int down(void **state)
{
    char command[128];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command);
}

static bool loop_threads; /* both contexts have loop threads */

static void ends_open(const char *channel, enum llm_wait_mode wait)
{
    loop_threads = false;
    end_open(&near, wait);
    end_open(&far, wait);
    receiver_open(&far, channel);
    assert_int_equal(llm_transmitter_open(near.context, channel_here(channel), NULL, NULL, &near.transmitter),
                     LLM_OK);
    assert_int_equal(llm_topic_open(near.transmitter, "t", 0, &near.topic), LLM_OK);
}

static void ends_close(void)
{
    assert_int_equal(llm_context_close(&near.context), LLM_OK);
    assert_int_equal(llm_context_close(&far.context), LLM_OK);
    assert_int_equal(descriptors_open(), descriptors);
}

/* Sends messages on a topic until this many more have arrived at an end. */
static void deliver(struct llm_topic *topic, struct end *to, uint64_t count)
{
    const uint64_t wanted = atomic_load(&to->messages) + count, until = llm_clock() + PATIENCE;
    uint64_t sent = 0;

    while (atomic_load(&to->messages) < wanted && llm_clock() < until) {
        if (sent < count && llm_send(topic, &sent, sizeof sent, 0) == LLM_OK)
            sent++;
        assert_true(llm_wait(near.context, 0) >= 0);
        assert_true(llm_wait(far.context, 0) >= 0);
    }
    assert_int_equal(atomic_load(&to->messages), wanted);
}

/* ---------------------------------------------------------------------------------------------- the child */

static void child_is_refused(void)
{
    struct llm_counter stat;
    struct llm_rate rate;
    struct llm_topic *topic;
    struct llm_transmitter *transmitter;
    struct llm_receiver_handlers handlers;
    uint64_t value;
    void *data;

    llm_rate_init(&rate);
    llm_receiver_handlers_init(&handlers);
    for (unsigned flags = 0; flags <= LLM_SEND_NOW; flags++)
        MUST(llm_send(near.topic, "x", 1, flags) == LLM_ESTATE);
    MUST(llm_topic_claim(near.topic, 1, &data) == LLM_ESTATE);
    MUST(llm_transmitter_flush(near.transmitter) == LLM_ESTATE);
    MUST(llm_topic_open(near.transmitter, "u", 0, &topic) == LLM_ESTATE);
    MUST(llm_topic_limit_rate(near.topic, &rate) == LLM_ESTATE);
    MUST(llm_poll(near.context) == LLM_ESTATE && llm_poll(far.context) == LLM_ESTATE);
    MUST(llm_wait(near.context, 1000000000) == LLM_ESTATE && llm_context_fd(far.context) == LLM_ESTATE);
    MUST(llm_context_deadline(near.context) == UINT64_MAX);
    MUST(llm_context_start_thread(near.context, -1) == LLM_ESTATE &&
         llm_context_stop_thread(near.context) == LLM_ESTATE);
    MUST(llm_context_counters(near.context, &stat, 1) == LLM_ESTATE &&
         llm_context_counter(near.context, "naks_sent", &value) == LLM_ESTATE);
    MUST(llm_transmitter_open(near.context, "loop://x:1", NULL, NULL, &transmitter) == LLM_ESTATE);
    MUST(llm_receiver_subscribe(far.receiver, "t") == LLM_ESTATE);
    MUST(llm_receiver_open(far.context, "loop://x:1", NULL, &handlers, &far.receiver) == LLM_ESTATE);
}

/* Objects opened in the child belong to the child. */
static void child_opens_its_own(void)
{
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_topic *topic;
    struct llm_receiver_handlers handlers;
    struct end own = {.context = NULL};
    const uint64_t until = llm_clock() + PATIENCE;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = &own;
    handlers.message = on_message;
    handlers.event = on_event;
    MUST(llm_context_open(NULL, &context) == LLM_OK);
    MUST(llm_receiver_open(context, "loop://fork:1?" OPTIONS, NULL, &handlers, &receiver) == LLM_OK);
    MUST(llm_transmitter_open(context, "loop://fork:1?" OPTIONS, NULL, NULL, &transmitter) == LLM_OK);
    MUST(llm_topic_open(transmitter, "t", 0, &topic) == LLM_OK);
    MUST(llm_send(topic, "x", 1, 0) == LLM_OK);
    while (atomic_load(&own.messages) == 0 && llm_clock() < until)
        MUST(llm_poll(context) >= 0);
    MUST(atomic_load(&own.messages) == 1);
    MUST(llm_context_close(&context) == LLM_OK);
}

/*
 * No descriptor stays open beyond those from before the parent's opens, except those that its loop threads
 * had open briefly at the moment of the fork: a directory and a file in it each.
 */
static void child_closes(void)
{
    MUST(llm_context_close(&near.context) == LLM_OK && near.context == NULL);
    MUST(llm_context_close(&far.context) == LLM_OK && far.context == NULL);
    MUST(descriptors_open() <= descriptors + (loop_threads ? 4 : 0));
#if ADDRESS_SANITIZED
    MUST(__lsan_do_recoverable_leak_check() == 0);
#endif
}

static void child_main(void)
{
    alarm(CHILD_S);
    child_is_refused();
    MUST(atomic_load(&near.lines) == 1 && atomic_load(&far.lines) == 1);
    child_opens_its_own();
    MUST(llm_transmitter_close(&near.transmitter) == LLM_OK && near.transmitter == NULL);
    MUST(llm_receiver_close(&far.receiver) == LLM_OK && far.receiver == NULL);
    child_closes();
    _exit(0);
}

/* --------------------------------------------------------------------------------------------- the parent */

/* Sends messages while the child lives. */
static void child_await(pid_t child, struct llm_topic *topic, struct end *to)
{
    int status;

    assert_true(child > 0);
    while (waitpid(child, &status, WNOHANG) == 0)
        deliver(topic, to, 10);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int files(void)
{
    DIR *opened = opendir(directory);
    struct dirent *entry;
    int count = 0;

    assert_non_null(opened);
    while ((entry = readdir(opened)) != NULL)
        count += entry->d_type == DT_REG;
    closedir(opened);
    return count;
}

/* The descriptor of a context still becomes readable and wakes a sleeper. */
static void packets_wake(void)
{
    struct pollfd far_fd = {.fd = llm_context_fd(far.context), .events = POLLIN};

    while (llm_poll(far.context) > 0)
        continue;
    assert_int_equal(llm_send(near.topic, "x", 1, LLM_SEND_NOW), LLM_OK);
    assert_int_equal(poll(&far_fd, 1, CHILD_S * 1000), 1);
}

/* Session, names and files still exist, also for receivers that join after the child has exited. */
static void parent_goes_on(const char *channel)
{
    struct end late;

    deliver(near.topic, &far, MESSAGES);
    assert_int_equal(atomic_load(&far.faults), 0);
    assert_int_equal(llm_transmitter_receivers(near.transmitter), 1);
    assert_int_equal(files(), 2);
    end_open(&late, LLM_WAIT_SPIN);
    receiver_open(&late, channel);
    for (const uint64_t until = llm_clock() + PATIENCE;
         atomic_load(&late.messages) == 0 && llm_clock() < until;) {
        deliver(near.topic, &far, 1);
        assert_true(llm_poll(late.context) >= 0);
    }
    assert_true(atomic_load(&late.messages) > 0);
    assert_int_equal(llm_context_close(&late.context), LLM_OK);
}

static void fork_beside(const char *channel, enum llm_wait_mode wait, bool threads)
{
    pid_t child;

    ends_open(channel, wait);
    deliver(near.topic, &far, MESSAGES);
    loop_threads = threads;
    if (threads) {
        assert_int_equal(llm_context_start_thread(near.context, -1), LLM_OK);
        assert_int_equal(llm_context_start_thread(far.context, -1), LLM_OK);
    }
    for (int i = 0; i < 3; i++) {
        child = fork();
        if (child == 0)
            child_main();
        child_await(child, near.topic, &far);
    }
    if (!threads)
        packets_wake();
    parent_goes_on(channel);
    ends_close();
}

static void sessions_of_the_parent_continue_after_the_child_closes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++)
        fork_beside(channels[i], LLM_WAIT_SPIN, false);
}

static void a_sleeping_parent_is_woken_after_the_child_exits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++)
        fork_beside(channels[i], LLM_WAIT_BLOCK, false);
}

static __attribute__((unused)) void a_child_closes_contexts_with_loop_threads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++)
        fork_beside(channels[i], LLM_WAIT_BLOCK, true);
}

/* The child returns from the handler, and finds all calls refused from then on. */
static void a_handler_may_fork(const char *channel, bool thread)
{
    ends_open(channel, LLM_WAIT_SPIN);
    far.forks_at = MESSAGES / 2;
    loop_threads = thread;
    if (thread)
        assert_int_equal(llm_context_start_thread(near.context, -1), LLM_OK);
    for (uint64_t sent = 0; atomic_load(&far.messages) < MESSAGES;) {
        const bool forked = atomic_load(&far.messages) >= far.forks_at;

        sent += sent < MESSAGES && llm_send(near.topic, &sent, sizeof sent, LLM_SEND_MORE) == LLM_OK;
        (void)llm_poll(near.context);
        (void)llm_poll(far.context);
        if (!forked && atomic_load(&far.messages) >= far.forks_at && far.child == 0)
            child_main();
    }
    child_await(far.child, near.topic, &far);
    far.forks_at = 0;
    parent_goes_on(channel);
    ends_close();
}

static void a_child_may_return_from_the_forking_handler(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        a_handler_may_fork(channels[i], false);
        a_handler_may_fork(channels[i], !ADDRESS_SANITIZED);
    }
}

static void connect_ends(const char *channel)
{
    const uint64_t until = llm_clock() + PATIENCE;
    struct llm_connection_handlers handlers;
    struct llm_listener_handlers accepts;
    struct llm_options own;

    llm_connection_options_init(&own);
    llm_connection_handlers_init(&handlers);
    (void)on_caller(&near, NULL, NULL, &handlers);
    llm_listener_handlers_init(&accepts);
    accepts.arg = &far;
    accepts.connect = on_caller;
    end_open(&near, LLM_WAIT_SPIN);
    end_open(&far, LLM_WAIT_SPIN);
    assert_int_equal(llm_listener_open(far.context, channel_here(channel), &own, &accepts, &far.listener),
                     LLM_OK);
    assert_int_equal(
        llm_connection_open(near.context, channel_here(channel), &own, &handlers, NULL, &near.connection),
        LLM_OK);
    while ((far.connection == NULL || llm_connection_transmitter(near.connection) == NULL) &&
           llm_clock() < until) {
        (void)llm_poll(near.context);
        (void)llm_poll(far.context);
    }
    assert_int_equal(llm_topic_open(llm_connection_transmitter(near.connection), "t", 0, &near.topic),
                     LLM_OK);
    assert_int_equal(llm_topic_open(llm_connection_transmitter(far.connection), "t", 0, &far.topic), LLM_OK);
}

static void connection_child_main(void)
{
    alarm(CHILD_S);
    MUST(llm_connection_request(near.connection, "x", 1, UINT64_MAX,
                                (llm_reply_fn *)(uintptr_t)connection_child_main, NULL) == LLM_ESTATE);
    MUST(llm_connection_transmitter(near.connection) == NULL);
    MUST(llm_connection_close(&near.connection) == LLM_OK && near.connection == NULL);
    MUST(llm_listener_close(&far.listener) == LLM_OK && far.listener == NULL);
    child_closes();
    _exit(0);
}

/* Receivers in shared memory read the transmitter's packets in place. */
static void history_writes_of_the_child_are_invisible_to_others(void **state)
{
    const uint8_t *bytes;
    uint64_t edge;
    int status;
    pid_t child;

    (void)state;
    ends_open("shm://fork?" OPTIONS, LLM_WAIT_SPIN);
    deliver(near.topic, &far, MESSAGES);
    bytes = near.transmitter->shared.base;
    assert_non_null(bytes);
    edge = atomic_load(near.transmitter->tx.history.edge);
    child = fork();
    if (child == 0) {
        memset(near.transmitter->shared.base, 0xff, near.transmitter->shared.size);
        atomic_store(near.transmitter->tx.history.edge, UINT64_MAX);
        child_closes();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(atomic_load(near.transmitter->tx.history.edge), edge);
    /* Nothing was ever packed at this position. */
    assert_int_equal(bytes[near.transmitter->shared.size - 1], 0);
    parent_goes_on("shm://fork?" OPTIONS);
    ends_close();
}

static void a_connection_of_the_parent_stays_open(void **state)
{
    pid_t child;

    (void)state;
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        char channel[64];

        (void)snprintf(channel, sizeof channel, "%.*s%s", (int)strcspn(channels[i], "?"), channels[i],
                       strstr(channels[i], "udp") != NULL ? "?interface=lo" : "");
        connect_ends(channel);
        deliver(near.topic, &far, MESSAGES);
        child = fork();
        if (child == 0)
            connection_child_main();
        child_await(child, near.topic, &far);
        deliver(near.topic, &far, MESSAGES);
        deliver(far.topic, &near, MESSAGES);
        assert_int_equal(atomic_load(&near.faults) + atomic_load(&far.faults), 0);
        ends_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sessions_of_the_parent_continue_after_the_child_closes, up, down),
        cmocka_unit_test_setup_teardown(a_sleeping_parent_is_woken_after_the_child_exits, up, down),
#if !ADDRESS_SANITIZED /* ASan's allocator may stay locked in a child of several threads */
        cmocka_unit_test_setup_teardown(a_child_closes_contexts_with_loop_threads, up, down),
#endif
        cmocka_unit_test_setup_teardown(a_child_may_return_from_the_forking_handler, up, down),
        cmocka_unit_test_setup_teardown(history_writes_of_the_child_are_invisible_to_others, up, down),
        cmocka_unit_test_setup_teardown(a_connection_of_the_parent_stays_open, up, down),
    };

    /* A child that hangs ends by itself. */
    alarm(WATCHDOG_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
