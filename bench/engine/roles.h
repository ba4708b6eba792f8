/* SPDX-License-Identifier: Apache-2.0 */
/* Roles of a process of llm-bench: engine/main.c names them. Each serves until its work is done, and returns the exit status. */
#ifndef BENCH_ROLES_H
#define BENCH_ROLES_H

#include "control.h"

typedef int role_run(const struct control *control);

role_run joiners_run, load_run, mute_run, receivers_run, transmitter_run;

#endif
