/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening, closing and waiting for objects: for the files of this folder, and for connections, which consist
 * of such objects.
 */
#ifndef LLI_LIFECYCLE_H
#define LLI_LIFECYCLE_H

#include "config/channel.h"
#include "engine/objects.h"

/* ------------------------------------------------------------------------------------------- context.c */

/* Parses a channel for this context, whose wait mode may ask for busy polling. */
int lli_context_channel(struct llm_context *context, const char *text, const struct llm_options *options,
                        struct lli_channel *channel);

/* llm_poll() for callers that hold the lock. */
int lli_context_poll(struct llm_context *context);

/* Frees a context in which no object is open any more. */
void lli_context_free(struct llm_context *context);

/*
 * Polls until check(object, value), called under the lock, returns something else than LLM_EAGAIN, or
 * timeout_ns has passed, waiting as llm_wait() does. Returns the last result of check.
 */
int lli_context_await(struct llm_context *context, uint64_t timeout_ns,
                      int (*check)(void *object, uint64_t value), void *object, uint64_t value);

/* ---------------------------------------------------------------------------------------------- fork.c */

/* Register a context for fork(), and remove it: a registered context is orphaned in child processes. */
void lli_fork_watch(struct llm_context *context);
void lli_fork_unwatch(struct llm_context *context);

/*
 * Releases a child process's part of an orphaned context: memory and descriptors. Leaves all resources of the
 * parent unchanged.
 */
void lli_fork_release(struct llm_context *context);

/* --------------------------------------------------------------------------------------- transmitter.c */

/*
 * Allocates memory for a session, in a transmitter that has its endpoint and, unless it is a connection's,
 * its group.
 */
int lli_transmitter_place(struct llm_transmitter *transmitter, const struct llm_options *options);

/* Makes a transmitter that is silent: not linked to its endpoint, it sends and receives nothing. */
int lli_transmitter_prepare(struct llm_context *context, const char *text, const struct llm_options *options,
                            struct llm_transmitter **transmitter);

/* Closes a transmitter that is not linked to its endpoint. */
void lli_transmitter_discard(struct llm_transmitter *transmitter);

/* Frees memory and topics. */
void lli_transmitter_free(struct llm_transmitter *transmitter);

/* ------------------------------------------------------------------------------------------ receiver.c */

/*
 * Opens a receiver on the channel that text names; tap: of its store or member, with tap_arg as the first argument of its calls, or NULL.
 */
int lli_receiver_open(struct llm_context *context, const char *text, const struct llm_options *options,
                      const struct llm_receiver_handlers *handlers, const struct lli_tap *tap, void *tap_arg,
                      struct llm_receiver **result);

/* Allocates memory for the sessions of a receiver that has its endpoint and handlers. */
int lli_receiver_place(struct llm_receiver *receiver, const struct llm_options *options);
void lli_receiver_free(struct llm_receiver *receiver);

/* Notifies the transmitters of the receiver's sessions that it leaves. */
void lli_receiver_leave(struct llm_receiver *receiver);
void lli_receiver_destroy(struct llm_receiver *receiver);

/* --------------------------------------------------------------------------------------------- wait.c */

/* Checks if a message of this size would be taken: LLM_OK, LLM_EAGAIN, or the reason why it never will be. */
int lli_topic_room(struct llm_topic *topic, uint64_t size);

/* --------------------------------------------------------------------------------------------- send.c */

/*
 * Leaves a packed message for the next flush. Enough sealed packets are flushed at once, without the open
 * one.
 */
void lli_transmitter_wait(struct llm_transmitter *transmitter);

/* Passes unsent packets of a full history to the transport. Returns true if a retry may succeed. */
bool lli_transmitter_make_room(struct llm_transmitter *transmitter);

/* -------------------------------------------------------------------------------------------- topic.c */

/*
 * Chooses the route of a topic's messages. Call for a new topic, and when a condition of the choice changed.
 */
void lli_topic_route(struct llm_topic *topic);

/* --------------------------------------------------------------------------------------------- rate.c */

/* Returns true if the rate limit of a topic allows another message. False: the refusal is counted. */
bool lli_topic_may_send(struct llm_topic *topic);

/*
 * Returns true for a transmitter of no failover group, and for a primary that has its lease. Else it is fenced here
 * and now; its member tells the election.
 */
bool lli_transmitter_is_leased(struct llm_transmitter *transmitter, lli_ns now);

#endif
