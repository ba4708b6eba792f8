/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemes of a library built without RoCE: src/config/registry.c is compiled into this test without it in
 * every build.
 */
#include "logged.h"

#include <llm/llm.h>
#include <stdio.h>

#include "config/registry.h"

static void expect_refused(const char *channel, const char *named, const char *unnamed)
{
    struct llm_context_options options;
    struct llm_context *context = NULL;
    struct llm_transmitter *transmitter = NULL;

    llm_context_options_init(&options);
    options.log = log_keep;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), LLM_ESCHEME);
    assert_null(transmitter);
    expect_logged(named);
    if (strstr(logged, unnamed) != NULL)
        fail_msg("'%s' is in: %s", unnamed, logged);
    llm_context_close(&context);
}

static void a_scheme_missing_in_this_build_is_refused_with_advice(void **state)
{
    (void)state;
    expect_refused("roce://239.192.1.1:5001", "-Droce=enabled", "not known");
    expect_refused("roce://239.192.1.1:5001", "librdmacm-dev", "not known");
    expect_refused("xdp://239.192.1.1:5001", "-Dxdp=enabled", "not known");
    expect_refused("impair+roce://239.192.1.1:5001?impair_loss_ppm=1", "-Droce=enabled", "not known");
}

static void an_unknown_scheme_is_refused(void **state)
{
    (void)state;
    expect_refused("rdma://239.192.1.1:5001",
                   "not known; this library has udp, bypass, shm, loop, and impair+", "roce");
    assert_null(lli_transport_missing("rdma"));
    assert_null(lli_transport_missing("udp"));
    assert_null(lli_transport_missing("impair+"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scheme_missing_in_this_build_is_refused_with_advice),
        cmocka_unit_test(an_unknown_scheme_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
