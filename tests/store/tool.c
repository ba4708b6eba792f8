/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llm-store as its users run it: records a channel in shared memory while it is killed and started again, and
 * what it recorded is listed, verified, exported and played into a second store.
 *
 *     store_tool LLM_STORE
 */
#define _GNU_SOURCE
#include "tree.h"
#include "unit.h"

#include <fcntl.h>
#include <llm/llm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program;
static char directory[64], copy[64], channel[128];
static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_topic *topic;
static uint64_t acknowledged;

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_ACKNOWLEDGED)
        acknowledged = event->last + 1;
}

/* ---------------------------------------------------------------------------------------------- programs */

static pid_t start(char *const *arguments)
{
    const pid_t child = fork();

    if (child == 0) {
        const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getenv("STORE_TOOL_LOUD") == NULL)
            (void)dup2(null, STDERR_FILENO);
        (void)execv(program, arguments);
        _exit(127);
    }
    assert_true(child > 0);
    return child;
}

static pid_t record(const char *from, char *to)
{
    char text[192];

    (void)snprintf(text, sizeof text, "%s%creceiver_name=a", from, strchr(from, '?') == NULL ? '?' : '&');
    return start((char *[]){"llm-store", "record", "--segment", "16", "--spares", "0", "--reserve", "0", to,
                            text, NULL});
}

static int end(pid_t child, int with)
{
    int status;

    assert_int_equal(kill(child, with), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Runs a command line; returns its status, and the output up to a size. */
static int run(char *output, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int run(char *output, size_t size, const char *format, ...)
{
    char arguments[256], line[512];
    va_list list;
    size_t got;
    FILE *pipe;
    int status;

    va_start(list, format);
    (void)vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    (void)snprintf(line, sizeof line, "%s %s 2>&1", program, arguments);
    pipe = popen(line, "r");
    assert_non_null(pipe);
    got = fread(output, 1, size - 1, pipe);
    output[got] = '\0';
    while (fgetc(pipe) != EOF)
        continue;
    status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const char *output, const char *text)
{
    if (strstr(output, text) == NULL)
        fail_msg("\"%s\" is not in: %s", text, output);
}

/* ----------------------------------------------------------------------------------------------- messages */

static void send_up_to(uint64_t number)
{
    char text[64];

    while (llm_transmitter_next(transmitter) < number) {
        const int size =
            snprintf(text, sizeof text, "order %llu", (unsigned long long)llm_transmitter_next(transmitter));
        const int error = llm_send(topic, text, (size_t)size, 0);

        assert_true(error == LLM_OK || error == LLM_EAGAIN);
        (void)llm_poll(context);
    }
}

static void await_acknowledged(uint64_t number)
{
    const uint64_t until = llm_clock() + UINT64_C(120000000000);

    while (acknowledged < number) {
        assert_true(llm_clock() < until);
        (void)llm_wait(context, 1000000);
    }
}

static int up(void **state)
{
    struct llm_transmitter_handlers handlers;
    struct llm_context_options options;
    struct llm_assurance assurance;

    (void)state;
    acknowledged = 0;
    (void)snprintf(directory, sizeof directory, "/tmp/llm-store-XXXXXX");
    (void)snprintf(copy, sizeof copy, "/tmp/llm-store-XXXXXX");
    assert_non_null(mkdtemp(directory));
    assert_non_null(mkdtemp(copy));
    (void)snprintf(channel, sizeof channel, "shm://llm-store-%d", (int)getpid());
    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    llm_transmitter_handlers_init(&handlers);
    handlers.event = on_event;
    assert_int_equal(llm_transmitter_open(context, channel, NULL, &handlers, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "orders", 0, &topic), LLM_OK);
    llm_assurance_init(&assurance);
    assurance.receivers = 0;
    assurance.names = "a";
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&context), LLM_OK);
    assert_int_equal(tree_remove(directory), 0);
    assert_int_equal(tree_remove(copy), 0);
    return 0;
}

/* -------------------------------------------------------------------------------------------------- tests */

static void what_was_acknowledged_survives_kills_and_is_played_again(void **state)
{
    static char output[1 << 20];
    char other[160];
    pid_t store, second;

    (void)state;
    store = record(channel, directory);
    for (uint64_t i = 1; i <= 5; i++) {
        send_up_to(i * 300);
        await_acknowledged(i * 300 - 200);
        (void)end(store, SIGKILL);
        store = record(channel, directory);
    }
    send_up_to(2000);
    await_acknowledged(2000);
    /* Stores that were killed a moment ago are known yet, and counted. */
    assert_in_range(llm_transmitter_close(&transmitter), 0, 5);
    assert_int_equal(end(store, SIGTERM), 0);

    assert_int_equal(run(output, sizeof output, "verify %s", directory), 0);
    expect(output, " ok: ");
    assert_int_equal(run(output, sizeof output, "list --json %s", directory), 0);
    expect(output, channel);
    assert_int_equal(run(output, sizeof output, "show %s", directory), 0);
    expect(output, "orders");
    assert_int_equal(run(output, sizeof output, "export %s", directory), 0);
    for (int i = 0; i < 2000; i++) {
        char text[32];

        (void)snprintf(text, sizeof text, "\"order %d\"", i);
        expect(output, text);
    }

    (void)snprintf(other, sizeof other, "%s-again", channel);
    second = record(other, copy);
    assert_int_equal(
        run(output, sizeof output, "play --speed max --receivers 1 --wait 60 %s %s", directory, other), 0);
    assert_int_equal(end(second, SIGTERM), 0);
    assert_int_equal(run(output, sizeof output, "export %s", copy), 0);
    expect(output, "\"order 0\"");
    expect(output, "\"order 1999\"");
}

static void wrong_arguments_are_named(void **state)
{
    char output[4096];

    (void)state;
    assert_int_equal(run(output, sizeof output, "list /nowhere"), 1);
    expect(output, "/nowhere");
    assert_int_equal(run(output, sizeof output, "mend %s", directory), 2);
    expect(output, "mend");
    assert_int_equal(run(output, sizeof output, "record %s", directory), 2);
    assert_int_equal(run(output, sizeof output, "record --level paper %s %s", directory, channel), 2);
    expect(output, "paper");
    assert_int_equal(run(output, sizeof output, "record --segment 1 %s %s", directory, channel), 1);
    expect(output, "segment_bytes");
    assert_int_equal(run(output, sizeof output, "record %s udp://nowhere.invalid:1", directory), 1);
    assert_int_equal(run(output, sizeof output, "record --help"), 0);
    assert_int_equal(run(output, sizeof output, "--help"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_acknowledged_survives_kills_and_is_played_again, up, down),
        cmocka_unit_test_setup_teardown(wrong_arguments_are_named, up, down),
    };

    if (argc < 2) {
        fprintf(stderr, "usage: store_tool LLM_STORE\n");
        return 2;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
