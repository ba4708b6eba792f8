/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP server for Prometheus, with one page. */
#ifndef STAT_SERVE_H
#define STAT_SERVE_H

/*
 * Serves the counters of a directory at "HOST:PORT", ":PORT" or "[HOST]:PORT" until a signal ends the
 * process. Returns a status for exit().
 */
int stat_serve(const char *directory, const char *address);

#endif
