/* SPDX-License-Identifier: Apache-2.0 */
/* The recordings of a directory: the order in which they began, and streams. */
#ifndef LLI_RECORDINGS_H
#define LLI_RECORDINGS_H

#include <llm/options.h>

#include "store/catalogue.h"

/*
 * Returns the sessions in the order in which their oldest segments were begun, in memory of the caller. NULL:
 * no memory, which is logged.
 */
uint64_t *lli_catalogue_order(const struct lli_catalogue *catalogue, const struct lli_log *log);

/* End of a stream: that of its session of the highest term, of several that of the one with the highest number. */
struct lli_stream_end {
    uint64_t session; /* 0: none is recorded */
    uint64_t next;    /* number in the stream after the last message of it that is recorded */
    uint32_t term;
    uint32_t sessions; /* of the stream that are recorded */
};

/* Finds where a stream ends. Reads the ends of the sessions of the highest term. */
int lli_catalogue_stream(const struct lli_catalogue *catalogue, uint64_t stream, struct lli_stream_end *end);

/* Returns the identity of options->stream in *stream; refuses a structure without one. call: for the log. */
int lli_stream_named(const struct llm_options *options, const char *call, const struct lli_log *log,
                     uint64_t *stream);

/* Sets stream_base and stream_term to continue the stream; LLM_ELIMIT, which is logged: it cannot go on. */
int lli_stream_continue(struct llm_options *options, const struct lli_stream_end *end,
                        const struct lli_log *log);

#endif
