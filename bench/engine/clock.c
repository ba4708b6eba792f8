/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that only reads the clock, at rate= instants a second for duration= seconds: how late the machine
 * itself lets a loop be on this core. Answers with the delays of the instants.
 */
#include <llm/llm.h>

#include "control.h"

int clock_run(const struct control *control)
{
    const double interval_ns = 1e9 / (double)control_number(control, "rate", 1000);
    const uint64_t start = llm_clock(), end = start + control_ns(control, "duration", 0);
    uint64_t now = start, due_at = start, count = 0;
    struct histogram due;

    histogram_init(&due, 0);
    while (now < end) {
        now = llm_clock();
        for (; due_at <= now && due_at < end; due_at = start + (uint64_t)((double)++count * interval_ns))
            histogram_add(&due, now - due_at);
    }
    json_open();
    json_histogram("due", &due);
    json_close();
    return 0;
}
