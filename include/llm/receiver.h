/* SPDX-License-Identifier: Apache-2.0 */
/* Receivers, their messages and their handlers. Included by <llm/llm.h>, which states the conventions. */
#ifndef LLM_RECEIVER_H
#define LLM_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/context.h>
#include <llm/event.h>
#include <llm/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A receiver joins a channel, follows every session on it that its accept predicate accepts, and delivers
 * messages and events in order; with order=arrival, messages as they arrive (llm_options(7)).
 */
struct llm_receiver;

struct llm_message {
    const void *data;  /* valid until the handler returns */
    uint32_t size;     /* in bytes */
    uint32_t topic_id; /* the topic's number in its session */
    /* Name of the topic, "" if it could not be learned; valid as long as the session is followed. */
    const char *topic;
    uint64_t number; /* counts the messages of the session, over all topics, from 0 */
    uint64_t session;
    /* CLOCK_REALTIME ns, by the kernel, of the packet that completed the message; 0 without timestamps=1 */
    uint64_t received_at;
};

struct llm_source {
    uint64_t session;
    /*
     * NULL: accept the session as a whole; else: accept this topic of it; asked once, when the topic is
     * announced
     */
    const char *topic;
};

/* Position at which a receiver begins with a session. */
struct llm_join {
    enum llm_join_mode mode;
    uint64_t value;
};

/*
 * Handlers run inside llm_poll(), llm_wait() and the close functions. From them the application may send,
 * flush, open topics and read statistics of the same context; polling, and opening or closing anything else,
 * is refused with LLM_ESTATE.
 */
struct llm_receiver_handlers {
    size_t size; /* sizeof(struct llm_receiver_handlers) */
    void *arg;   /* passed to each handler */
    /* NULL: messages are counted and dropped */
    void (*message)(void *arg, const struct llm_message *message);
    /* NULL: events are logged, gaps as warnings */
    void (*event)(void *arg, const struct llm_event *event);
    bool (*accept)(void *arg, const struct llm_source *source); /* NULL: everything is accepted */
    /* Takes count messages, one or more, that arrived together and are next in order; replaces message. */
    void (*messages)(void *arg, const struct llm_message *messages, int count);
    /*
     * Called once for each accepted session, before LLM_EVENT_SESSION_NEW, to choose where to begin. *join is
     * the choice of the options and may be changed. NULL: as the options say. Older messages come by unicast
     * from the transmitter's history, then LLM_EVENT_LIVE, then live messages, none twice and none missing
     * that is not reported in a gap. A session less than a second old begins with its message 0 in any mode
     * but LLM_JOIN_NUMBER, and no session begins after the first unacknowledged message of its assured
     * topics.
     *
     * With LLM_JOIN_LATEST cached messages come first, topic by topic and in order in each; their numbers are
     * below that of LLM_EVENT_SESSION_NEW. Cached messages that newer ones displace before they could be sent
     * are left out, and the newer ones follow in order: by LLM_EVENT_LIVE at least the last messages of each
     * topic were delivered, as many as its cache holds.
     */
    void (*join)(void *arg, uint64_t session, struct llm_join *join);
};

/* Sets the size and makes every handler NULL. */
LLM_API void llm_receiver_handlers_init(struct llm_receiver_handlers *handlers);

/*
 * Opens a receiver on a channel. options may be NULL; handlers is copied. Allocates; may block while the
 * transport opens. Errors as llm_transmitter_open().
 */
LLM_API int llm_receiver_open(struct llm_context *context, const char *channel,
                              const struct llm_options *options, const struct llm_receiver_handlers *handlers,
                              struct llm_receiver **receiver);

/*
 * Acknowledges, with acknowledge=application, every message of the session up to this number, over all
 * topics, except lost ones. Allowed in handlers, also for the message being delivered. LLM_ENOTFOUND: no such
 * session is followed; LLM_EINVAL: the message was not delivered yet; LLM_ESTATE: the library acknowledges.
 * The acknowledgement is sent with the next report: llm_poll() sends that at once if the transmitter waits
 * for it, and llm_receiver_close() in any case, also of a session that ended.
 */
LLM_API int llm_receiver_acknowledge(struct llm_receiver *receiver, uint64_t session, uint64_t number);

enum {
    LLM_SUBJECTS_MAX = 4096, /* subjects that a receiver can subscribe to at a time */
};

/*
 * Subscribes to a subject: from now on the receiver delivers only topics that match one of its subjects and
 * that its accept predicate accepts. A subject is the name of a topic, or a pattern of names, of 1 to 255
 * bytes. Names consist of elements separated by dots: an element * of the subject matches any one element, an
 * element > at its end one or more ("prices.*.bonds", "prices.>"). A receiver that never subscribed delivers
 * every topic.
 *
 * Names are compared once, when a topic is announced or a subject is added or removed, and never for a
 * message. Subjects added after a topic was announced, and removed ones, take effect with the next
 * llm_poll(). A topic whose messages were discarded before is delivered from then on, but this receiver
 * acknowledges none of its messages (llm_topic_assure()) as long as it follows the session. Subscribing twice
 * is the same as once. Allocates. Allowed in handlers. LLM_EINVAL: empty, too long, or > not at the end;
 * LLM_ELIMIT: more than LLM_SUBJECTS_MAX; LLM_ENOMEM.
 */
LLM_API int llm_receiver_subscribe(struct llm_receiver *receiver, const char *subject);

/*
 * Removes a subject, as it was written. Without any subject left no topic is delivered. LLM_ENOTFOUND.
 * Allowed in handlers.
 */
LLM_API int llm_receiver_unsubscribe(struct llm_receiver *receiver, const char *subject);

/*
 * Leaves the channel, after a last report to each transmitter that may wait for one: deliveries and
 * acknowledgements so far, and that this receiver leaves. Does not wait for an answer. Sessions get no end
 * event. *receiver becomes NULL; NULL in it is allowed. LLM_ESTATE inside a handler.
 */
LLM_API int llm_receiver_close(struct llm_receiver **receiver);

/*
 * Writes the bottleneck of a receiver over the latest complete watch_ns of struct llm_context_options to
 * *bottleneck. Allowed in handlers. LLM_ESTATE: the watch does not run; LLM_EAGAIN: the first watch_ns is not
 * over.
 */
LLM_API int llm_receiver_bottleneck(const struct llm_receiver *receiver, struct llm_bottleneck *bottleneck);

#ifdef __cplusplus
}
#endif

#endif
