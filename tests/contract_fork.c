/* SPDX-License-Identifier: Apache-2.0 */
/* A child process abandons its copy of an instance, and the parent's instance is unaffected. */
#define _GNU_SOURCE
#include "contract.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"

enum { CHILDREN = 3, CHILD_S = 30 };

/* Ends the child process, as the tests are the parent's. The RDMA libraries retain descriptors of devices. */
static void child_abandons(struct station *a, struct station *b, int before)
{
    int after;

    alarm(CHILD_S);
    transport->abandon(a->instance);
    transport->abandon(b->instance);
    after = descriptors_open();
    if (after > before && strstr(scheme, "roce") == NULL)
        (void)fprintf(stderr, "child process: %d descriptors instead of %d are open\n", after, before);
    _exit(after > before && strstr(scheme, "roce") == NULL);
}

/* Sends to the group, which both stations joined, and to one of them. */
static void expect_traffic(struct station *a, struct station *b)
{
    station_send(a, a->send, "group", 5);
    station_expect(b, b->receive, "group", 5);
    station_expect(a, a->receive, "group", 5);
    station_send(b, station_peer(b, a), "back", 4);
    station_expect(a, LLI_HANDLE_UNICAST, "back", 4);
}

static void instances_abandoned_by_a_child_serve_the_parent(void **state)
{
    const int before = descriptors_open();
    struct station a, b, late;
    int status;
    pid_t child;

    (void)state;
    station_open(&a);
    station_open(&b);
    expect_traffic(&a, &b);
    for (int i = 0; i < CHILDREN; i++) {
        child = fork();
        if (child == 0)
            child_abandons(&a, &b, before);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        expect_traffic(&a, &b);
    }
    /* An instance opened later finds the others. */
    station_open(&late);
    expect_traffic(&a, &late);
    station_expect(&b, b.receive, "group", 5);
    station_close(&late);
    station_close(&a);
    station_close(&b);
    assert_int_equal(descriptors_open(), before);
}

int contract_fork(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(instances_abandoned_by_a_child_serve_the_parent)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
