/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals of public calls: one log line of the context names the value and the remedy. */
#ifndef LLI_REFUSE_H
#define LLI_REFUSE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/types.h"

struct llm_context;

/* Number of remembered kinds of refusals: a call refused in a loop must not fill the log. */
enum { LLI_REFUSALS = 16 };

struct lli_refusals {
    struct {
        const char *format; /* identifies the kind; NULL: unused */
        uint64_t logged_at;
        uint64_t unlogged; /* refusals of this kind since then */
    } kinds[LLI_REFUSALS];
};

/*
 * Logs why a call is refused and returns the error. A kind of refusal, identified by its format, is logged at
 * most once a second; the next line counts those left out. Takes the context's lock: allowed on every thread,
 * with the lock taken or not.
 */
int lli_refuse(struct llm_context *context, int error, const char *format, ...) LLI_COLD
    __attribute__((format(printf, 3, 4)));

/* Refuses a call, named by a literal, that no handler may make. */
#define LLI_REFUSE_IN_HANDLER(context, call) \
    lli_refuse(context, LLM_ESTATE, call ": not allowed inside a handler: call it when the poll has returned")

/* --------------------------------------------------------- messages; cold: not executed for accepted ones */

struct iovec;
struct llm_topic;
struct llm_transmitter;

/*
 * A claim is open on the transmitter: LLM_ESTATE, or LLM_EAGAIN if another thread made it; or its connection
 * is over: LLM_ESTATE.
 */
int lli_refuse_claimed(struct llm_transmitter *transmitter, const char *topic) LLI_COLD;

/* No claim of this topic is open. */
int lli_refuse_unclaimed(const struct llm_topic *topic) LLI_COLD;

int lli_refuse_flags(const struct llm_topic *topic, unsigned flags) LLI_COLD;

/* The message has bytes at NULL. */
int lli_refuse_data(const struct llm_topic *topic, size_t size) LLI_COLD;

/* A negative number of pieces, or pieces at NULL. */
int lli_refuse_count(const struct llm_topic *topic, const struct iovec *pieces, int count) LLI_COLD;

/* A piece has bytes at NULL. */
int lli_refuse_piece(const struct llm_topic *topic, int piece, size_t size) LLI_COLD;

/* The message has more bytes than one of the topic can ever have. */
int lli_refuse_size(const struct llm_topic *topic, size_t size) LLI_COLD;

#endif
