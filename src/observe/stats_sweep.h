/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes and removes the counters files that dead processes left in a directory. */
#ifndef LLI_STATS_SWEEP_H
#define LLI_STATS_SWEEP_H

#include <llm/stats.h>

#include "system/log.h"

enum { LLI_STATS_NUMBERS = 1000 }; /* contexts of a process that can have a file */

/*
 * Replaces characters of a program's name that file names do not have: other than letters, digits, _ and -.
 */
void lli_stats_program(char *program);

/*
 * Removes the file of a dead process: its name is PROGRAM.PID.N, its header agrees, it is a regular file with
 * a link count of 1, owned by this user (root: by any user), and it is not locked. False: it is another file,
 * or cannot be removed.
 */
bool lli_stats_remove_dead(int directory, const char *name);

/* Removes the oldest files of dead processes of this user until 16 remain. */
void lli_stats_sweep(int directory, const char *path, const struct lli_log *log);

/*
 * Removes all files of dead processes, and returns their number; -1 with errno set, EPERM if
 * lli_owned_is_safe() is false.
 */
int lli_stats_clean(int directory);

#endif
