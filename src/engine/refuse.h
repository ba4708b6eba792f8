/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals of public calls: one line in the log of the context names the value and the remedy. */
#ifndef LLI_REFUSE_H
#define LLI_REFUSE_H

#include <stddef.h>
#include <stdint.h>

struct llm_context;

/* Kinds of refusals that are remembered, so that a call refused in a loop does not fill the log. */
enum { LLI_REFUSALS = 16 };

struct lli_refusals {
    struct {
        const char *format; /* that names the kind; NULL: the place is free */
        uint64_t logged_at;
        uint64_t unlogged;  /* of this kind since */
    } kinds[LLI_REFUSALS];
};

/*
 * Logs why a call is refused and returns the error. A kind of refusal, known by its format, is logged once a second at most; its next
 * line counts those that were not. Takes the context's lock: allowed on every thread, with the lock held or not.
 */
int lli_refuse(struct llm_context *context, int error, const char *format, ...) __attribute__((cold, format(printf, 3, 4)));

/* The same of a call, a literal, that no handler may make. */
#define LLI_REFUSE_IN_HANDLER(context, call) \
    lli_refuse(context, LLM_ESTATE, call ": not allowed inside a handler: call it when the poll has returned")

/* --------------------------------------------------------------------------------- messages; none is on the way of one that is taken */

struct iovec;
struct llm_topic;
struct llm_transmitter;

/* A claim is open on the transmitter: LLM_ESTATE, or LLM_EAGAIN if another thread made it; or its connection is over: LLM_ESTATE. */
int lli_refuse_claimed(struct llm_transmitter *transmitter, const char *topic) __attribute__((cold));

/* No claim of this topic is open. */
int lli_refuse_unclaimed(const struct llm_topic *topic) __attribute__((cold));

int lli_refuse_flags(const struct llm_topic *topic, unsigned flags) __attribute__((cold));

/* Bytes at NULL. */
int lli_refuse_data(const struct llm_topic *topic, size_t size) __attribute__((cold));

/* A negative number of pieces, or pieces at NULL. */
int lli_refuse_count(const struct llm_topic *topic, const struct iovec *pieces, int count) __attribute__((cold));

/* A piece with bytes at NULL. */
int lli_refuse_piece(const struct llm_topic *topic, int piece, size_t size) __attribute__((cold));

/* More bytes than a message of the topic can ever have. */
int lli_refuse_size(const struct llm_topic *topic, size_t size) __attribute__((cold));

#endif
