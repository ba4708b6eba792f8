/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "rig.h"

#include <stdio.h>
#include <string.h>

#include "../hosts.h"
#include "../network.h"
#include "config/registry.h"

/* ---------------------------------------------------------------------------------------------- instances */

struct llm_options options_on(const char *interface)
{
    struct llm_options options;

    own_reset();
    llm_options_init(&options);
    snprintf(options.interface, sizeof options.interface, "%s", interface);
    return options;
}

void expect_logged(const char *text)
{
    if (strstr(log_text, text) == NULL)
        fail_msg("'%s' is not in the log: %s", text, log_text);
}

void must_open(struct station *station, const struct llm_options *options)
{
    if (instance_open(station, GROUP, options) != 0)
        fail_msg("open: %s", log_text);
}

lli_handle must_join(struct station *station, enum lli_join_mode mode)
{
    lli_handle handle = 0;

    if (station_join(station, GROUP, PORT, mode, &handle) != 0)
        fail_msg("join: %s", log_text);
    return handle;
}

/* Opens an instance on the first host and joins the group to receive. */
lli_handle must_listen(struct station *station, const struct llm_options *options)
{
    must_open(station, options);
    return must_join(station, LLI_JOIN_RECEIVE);
}

/* Returns the number of packets until none comes for a while. */
int heard(struct station *station)
{
    struct lli_in packets[BURST];
    int count, all = 0;

    while ((count = station_await(station, packets, BURST, QUIET_NS)) > 0) {
        transport->release(station->instance, packets, count);
        all += count;
    }
    return all;
}

uint64_t frames_received(const struct station *station)
{
    return station_counter(station, "xdp_frames_received");
}

int rig_run(const struct CMUnitTest *tests, size_t count)
{
    scheme = "xdp";
    transport = lli_transport_find(scheme);
    llm_options_init(&common);
    if (transport == NULL || !hosts_make(HOSTS_MAX, 1500))
        return network_skipped();
    return _cmocka_run_group_tests(scheme, tests, count, NULL, NULL);
}
