/* SPDX-License-Identifier: Apache-2.0 */
/* The live view in a terminal. */
#ifndef STAT_VIEW_H
#define STAT_VIEW_H

/* Draws the counters of a directory periodically until the user quits. Returns a status for exit(). */
int stat_view(const char *directory, double interval);

#endif
