/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libllm: brokerless reliable multicast messaging.
 *
 * A transmitter sends messages on topics. Every receiver that joined the channel gets them once and in order;
 * messages that it did not get are reported to its application exactly. Lost packets are requested with NAKs
 * and repaired. docs/protocol.md specifies the wire format, docs/architecture.md describes the code.
 *
 * Conventions of this header
 *   Threads   A context and all objects opened in it belong to one thread at a time: calls on them must not run
 *             concurrently. Exception: once a context's loop was given to llm_context_start_thread(), every call takes the
 *             context's lock and may be made from any thread, llm_poll() and llm_wait() included; handlers run on the
 *             thread that polls, never two at a time. Different contexts share nothing.
 *   Fork      After fork() a context and all objects opened in it belong to the parent. In the child, calls on them
 *             return LLM_ESTATE, the first with a line in the log, llm_context_deadline() returns UINT64_MAX and
 *             llm_connection_transmitter() NULL; calls that only read a number return its value as of the fork. Close
 *             functions set the handle to NULL and return 0. llm_context_close() releases the child's memory and
 *             descriptors, without sending a packet or removing anything of the parent's; nothing is released before it.
 *             A child opens contexts of its own. A child made by vfork() or _Fork() must not call this library.
 *   Blocking  No call blocks unless its description says so.
 *   Errors    0 or a count on success, else a negative LLM_E... code. Outputs are written only on success. A refused call
 *             logs one line at LLM_LEVEL_ERROR to its context, which names the wrong value and the remedy; the same
 *             refusal in a loop logs one line a second, with the number of calls since. Not logged are LLM_EAGAIN, which
 *             is back-pressure, and LLM_ENOTFOUND of the lookups llm_context_counter() and llm_message_property(). A NULL that is
 *             not allowed is LLM_EINVAL. A NULL object is LLM_EINVAL without a line in the log, as no log belongs to it:
 *             getters return 0, NULL or, llm_context_deadline(), UINT64_MAX; close functions do nothing and return LLM_OK, for
 *             NULL and for the address of a NULL; ..._init() functions do nothing.
 *   Structures A structure with a size member is filled by its ..._init() function. A smaller size is that of an older
 *             version: members beyond it have their defaults. A larger size is LLM_EVERSION, and nothing beyond the
 *             members that this library knows is read. A size of 0, or not a multiple of sizeof(size_t), is LLM_EINVAL.
 *             A call that fills a structure writes nothing beyond its size.
 *   Times     uint64_t nanoseconds; points in time (names end in _at) are of CLOCK_MONOTONIC.
 *   Memory    Calls that open objects allocate, and those that say so. A poll allocates only if a listener's handler
 *             accepts a connection.
 *   Strings   UTF-8, zero-terminated, copied by the library unless the description says otherwise.
 */
#ifndef LLM_LLM_H
#define LLM_LLM_H

#include <llm/api.h>
#include <llm/connection.h>
#include <llm/context.h>
#include <llm/error.h>
#include <llm/event.h>
#include <llm/failover.h>
#include <llm/filter.h>
#include <llm/options.h>
#include <llm/receiver.h>
#include <llm/store.h>
#include <llm/transmitter.h>

#endif
