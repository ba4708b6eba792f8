/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of the benchmarks: llm-bench ROLE KEY=VALUE... bench/run starts it and sends it requests on
 * standard input.
 */
#include <stdio.h>
#include <string.h>

#include "../adapters/adapter.h"
#include "../adapters/feed.h"
#include "control.h"

/* An end over libllm, and over a bare transport if it has channels; adapter=raw: the bare transport only. */
static int ends_role(const struct control *control)
{
    const bool beside = *control_text(control, "raw_receive", "") != '\0';

    if (control_is(control, "adapter", "requests"))
        return ends_run(control, &adapter_requests, beside ? &adapter_bare : NULL);
    if (control_is(control, "adapter", "raw"))
        return ends_run(control, &adapter_bare, NULL);
    return ends_run(control, &adapter_llm, beside ? &adapter_bare : NULL);
}

const struct feed *const market_feeds[] = {&feed_llm, &feed_bare, NULL};

static const struct {
    const char *name;
    control_role *run;
} roles[] = {
    {"near", ends_role},          {"far", ends_role},
    {"probe", machine_probe},     {"joiners", joiners_run},
    {"load", load_run},           {"mute", mute_run},
    {"receivers", receivers_run}, {"transmitter", transmitter_run},
    {"market", market_run},       {"clock", clock_run},
    {"store", store_run},         {"replay", replay_run},
    {"disk", disk_run},
};

int main(int argc, char **argv)
{
    struct control control;

    control_of_arguments(&control, argc, argv);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(control.verb, roles[i].name) == 0)
            return roles[i].run(&control);
    (void)fprintf(stderr, "usage: llm-bench ROLE KEY=VALUE...; bench/run starts it. Roles:");
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        (void)fprintf(stderr, " %s", roles[i].name);
    (void)fprintf(stderr, "\n");
    return 2;
}
