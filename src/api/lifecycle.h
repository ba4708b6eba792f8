/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing and waiting for objects: for the files of this folder, and for connections, which are made of such objects. */
#ifndef LLI_LIFECYCLE_H
#define LLI_LIFECYCLE_H

#include "config/channel.h"
#include "engine/objects.h"

/* ------------------------------------------------------------------------------------------- context.c */

/* Takes a channel apart for this context, whose wait mode may ask for busy polling. */
int lli_context_channel(struct llm_context *context, const char *text, const struct llm_options *options,
                        struct lli_channel *channel);

/* llm_poll() for those who are inside already. */
int lli_context_poll(struct llm_context *context);

/* Gives back a context in which nothing is open any more. */
void lli_context_free(struct llm_context *context);

/*
 * Polls until check(object, value), asked under the lock, returns something else than LLM_EAGAIN, or the time has passed, waiting between
 * as llm_wait() does. Returns what it returned last.
 */
int lli_context_await(struct llm_context *context, uint64_t timeout_ns, int (*check)(void *object, uint64_t value), void *object,
                      uint64_t value);

/* ---------------------------------------------------------------------------------------------- fork.c */

/* From now on, until it is unwatched, a context is orphaned in the child processes of this one. */
void lli_fork_watch(struct llm_context *context);
void lli_fork_unwatch(struct llm_context *context);

/* Gives back what a child process has of an orphaned context: memory and descriptors. Nothing that the parent has is changed. */
void lli_fork_release(struct llm_context *context);

/* --------------------------------------------------------------------------------------- transmitter.c */

/* Memory for a session, in a transmitter that has its endpoint and, unless it is a connection's, its group. */
int lli_transmitter_place(struct llm_transmitter *transmitter, const struct llm_options *options);

/* Gives its memory and topics back. */
void lli_transmitter_free(struct llm_transmitter *transmitter);

/* ------------------------------------------------------------------------------------------ receiver.c */

/* Memory for the sessions of a receiver that has its endpoint and handlers. */
int lli_receiver_place(struct llm_receiver *receiver, const struct llm_options *options);
void lli_receiver_free(struct llm_receiver *receiver);

/* Has the transmitters of its sessions know that it leaves. */
void lli_receiver_leave(struct llm_receiver *receiver);
void lli_receiver_destroy(struct llm_receiver *receiver);

/* ------------------------------------------------------------------------------------------- ack.c */

/* Messages of a topic take the short way, if it is not assured, rated or counted and does not keep them; it is new, or that changed. */
void lli_topic_route(struct llm_topic *topic);

/* --------------------------------------------------------------------------------------------- rate.c */

/* Whether the limit of a topic's rate allows another message. False: it is counted. */
bool lli_topic_may_send(struct llm_topic *topic);

#endif
