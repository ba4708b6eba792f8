/* SPDX-License-Identifier: Apache-2.0 */
/* Transmitters, topics and sending. Included by <llm/llm.h>, which states the conventions. */
#ifndef LLM_TRANSMITTER_H
#define LLM_TRANSMITTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/uio.h>

#include <llm/context.h>
#include <llm/event.h>
#include <llm/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A session: a random 64-bit identity, one sequence of packets, one history for repairs, many topics.
 */
struct llm_transmitter;

/* A named flow of messages within a session. */
struct llm_topic;

/* Handlers of a transmitter. They run under the same rules as struct llm_receiver_handlers. */
struct llm_transmitter_handlers {
    size_t size; /* sizeof(struct llm_transmitter_handlers), set by llm_transmitter_handlers_init() */
    void *arg;   /* passed to each handler */
    /* Events of the transmitter and its receivers; NULL: logged as warnings. */
    void (*event)(void *arg, const struct llm_event *event);
};

/* Sets the size and makes every handler NULL. */
LLM_API void llm_transmitter_handlers_init(struct llm_transmitter_handlers *handlers);

/*
 * Opens a transmitter on a channel and announces its session on the network. options and handlers may be
 * NULL; handlers is copied. Allocates; may block while the transport opens. *transmitter belongs to the
 * context and is closed with llm_transmitter_close(). A context with a transmitter has to be polled as well:
 * llm_poll() sends repairs and heartbeats. LLM_EINVAL, LLM_EVERSION, LLM_ESCHEME, LLM_EOPTION, LLM_EGROUP,
 * LLM_EINTERFACE, LLM_EADDRINUSE, LLM_EACCESS, LLM_ENOMEM, LLM_ELIMIT (descriptors, groups), LLM_ESTATE
 * (inside a handler), LLM_ESYSTEM.
 */
LLM_API int llm_transmitter_open(struct llm_context *context, const char *channel,
                                 const struct llm_options *options,
                                 const struct llm_transmitter_handlers *handlers,
                                 struct llm_transmitter **transmitter);

/*
 * Ends the session and closes the transmitter with its topics. Blocks, polling the context, until every known
 * receiver has all messages and messages of assured topics are acknowledged, or linger_ns has passed (at once
 * if linger_ns is 0); receivers of the same context may deliver meanwhile. Returns the number of known
 * receivers that did not report to have everything, but at least 1 if messages of assured topics were not
 * acknowledged: LLM_EVENT_UNACKNOWLEDGED with LLM_REASON_CLOSED reports these before the call returns, once
 * for each topic. *transmitter becomes NULL; NULL in it is allowed. LLM_ESTATE inside a handler: nothing is
 * closed then.
 */
LLM_API int llm_transmitter_close(struct llm_transmitter **transmitter);

/* Returns the identity of the session; random, never used again. */
LLM_API uint64_t llm_transmitter_session(const struct llm_transmitter *transmitter);

/* Returns the number that the next message will have; the first message of a session has number 0. */
LLM_API uint64_t llm_transmitter_next(const struct llm_transmitter *transmitter);

/* Returns the number of receivers known by their status reports. */
LLM_API uint32_t llm_transmitter_receivers(const struct llm_transmitter *transmitter);

/*
 * Polls the context until at least this many receivers are known or timeout_ns has passed, waiting as
 * llm_wait() does. Blocks; handlers may run meanwhile. Returns the number of known receivers: fewer than
 * requested if the time has passed. A receiver reports when it has found the session, and gets the messages
 * sent from then on. LLM_ELIMIT: more than receivers_max; LLM_ESTATE inside a handler.
 */
LLM_API int llm_transmitter_wait(struct llm_transmitter *transmitter, uint32_t receivers,
                                 uint64_t timeout_ns);

enum llm_topic_flags {
    LLM_TOPIC_WHOLE = 1, /* messages that fit into one packet never span two */
    /* Each message is sent once: losses are reported (LLM_REASON_UNRELIABLE), not repaired or waited for. */
    LLM_TOPIC_UNRELIABLE = 2,
    /* Messages are repaired for current receivers; late joiners get none of those sent before. */
    LLM_TOPIC_NO_HISTORY = 4,
};

/*
 * Opens a topic and announces it in the stream. name: 1 to 255 bytes, with LLM_TOPIC_NO_HISTORY 253, unique
 * in the transmitter; flags: of enum llm_topic_flags. Belongs to the transmitter and is closed with it.
 * Allocates. Allowed in handlers. LLM_EINVAL, LLM_ELIMIT (topics_max), LLM_EAGAIN (the history is full of
 * unsent packets), LLM_ESTATE (a claim is open), LLM_ENOMEM.
 */
LLM_API int llm_topic_open(struct llm_transmitter *transmitter, const char *name, unsigned flags,
                           struct llm_topic **topic);

/*
 * Receivers that have to acknowledge the messages of a topic, and bounds of what may be unacknowledged. A
 * receiver acknowledges a message once it was delivered to the handler, or with acknowledge=application by
 * llm_receiver_acknowledge(); it never acknowledges a lost message, or one of a topic that its accept
 * predicate refused.
 */
struct llm_assurance {
    size_t size;        /* sizeof(struct llm_assurance), set by llm_assurance_init() */
    uint32_t receivers; /* number of receivers that have to acknowledge, 0: by name only; default 1 */
    /*
     * Named receivers that also have to acknowledge, by their option receiver_name: separated by commas, at
     * most 16; NULL: none. A name with one "*" is a pattern, and may have a number from 1 to 16: "store-*:2"
     * means that receivers of two different names that match have to. A receiver counts for each pattern that
     * its name matches.
     */
    const char *names;
    uint64_t messages_max; /* messages that may be unacknowledged, 1 to 1048576; default 1024 */
    /*
     * Bytes that may be unacknowledged, at most half of history_bytes; 0 (default): a quarter of
     * history_bytes.
     */
    uint64_t bytes_max;
    /*
     * Time without progress after which LLM_EVENT_UNACKNOWLEDGED is reported, with the reason; default 1 s.
     */
    uint64_t patience_ns;
};

/* Fills *assurance with the defaults. */
LLM_API void llm_assurance_init(struct llm_assurance *assurance);

/*
 * Assures a topic: from now on a message that would exceed the bounds is refused with LLM_EAGAIN, and
 * acknowledgements are reported to the transmitter's event handler. A later call replaces the assurance, also
 * for messages not acknowledged yet; NULL ends it: messages not acknowledged by then are never reported.
 * *assurance is copied. Unacknowledged packets stay in the history, so that receivers which join get them:
 * when it is full of them and of packets sent since, every topic of the transmitter is refused with
 * LLM_EAGAIN. Use another transmitter for messages that must not wait. Allocates. Allowed in handlers.
 * LLM_EINVAL: no receiver to acknowledge, a bound out of its range, a wrong name or pattern, or a topic with
 * LLM_TOPIC_UNRELIABLE or LLM_TOPIC_NO_HISTORY; LLM_ELIMIT: more receivers than receivers_max, or a 17th
 * topic of this transmitter; LLM_ESTATE: a claim is open; LLM_EVERSION, LLM_ENOMEM.
 */
LLM_API int llm_topic_assure(struct llm_topic *topic, const struct llm_assurance *assurance);

/*
 * Last value cache (LVC) of a topic: messages that late joiners with LLM_JOIN_LATEST get even if the history
 * no longer has them. With messages=1 it holds the last value of the topic.
 */
struct llm_cache {
    size_t size;       /* sizeof(struct llm_cache), set by llm_cache_init() */
    uint64_t messages; /* number of last messages to cache, 1 to 1048576; default 1 */
    /*
     * Longest message with its attributes; default 256. Each cached message takes this much memory and up to
     * 28 bytes more.
     */
    uint64_t bytes_max;
};

/* Fills *cache with the defaults. */
LLM_API void llm_cache_init(struct llm_cache *cache);

/*
 * Gives a topic a last value cache, which holds copies of its last messages for the life of the topic; once
 * for each topic. cache may be NULL for the defaults; it is copied. Messages longer than bytes_max are
 * refused with LLM_EMSGSIZE. Allocates. Allowed in handlers. LLM_EINVAL: a bound out of its range, a topic
 * with LLM_TOPIC_NO_HISTORY, or of a connection; LLM_ELIMIT: the caches of all topics of the transmitter
 * together would take more than cache_bytes; LLM_ESTATE: the topic has a cache already, or a claim is open;
 * LLM_EVERSION, LLM_ENOMEM.
 */
LLM_API int llm_topic_cache(struct llm_topic *topic, const struct llm_cache *cache);

/* Rate limits in bytes per second; 0: no limit, else 64 KiB/s to 64 GiB/s. */
struct llm_rate {
    size_t size; /* sizeof(struct llm_rate), set by llm_rate_init() */
    /* New data: packets of a transmitter, as the transport carries them; messages of a topic. */
    uint64_t bytes_per_s;
    uint64_t repair_bytes_per_s; /* repairs; 0 for a topic */
};

/* Fills *rate with no limits. */
LLM_API void llm_rate_init(struct llm_rate *rate);

/*
 * Limits the rates of a transmitter from now on, in place of the options rate_bytes_per_s and
 * repair_rate_bytes_per_s. Up to 256 packets over the limit wait; then messages are refused with LLM_EAGAIN,
 * as by flow control. Repairs over their limit wait. The lowest of several limits applies. Allowed in
 * handlers. LLM_EINVAL: a limit out of its range, or less than that of one of the transmitter's topics.
 * LLM_EVERSION.
 */
LLM_API int llm_transmitter_limit_rate(struct llm_transmitter *transmitter, const struct llm_rate *rate);

/*
 * Limits the rate of a topic from now on: messages over it are refused with LLM_EAGAIN, and
 * llm_context_deadline() is when the next may be sent. Repairs have no limit by topic, as a packet has
 * messages of several. Allowed in handlers. LLM_EINVAL: a limit out of its range, or more than the
 * transmitter's, or one for repairs. LLM_ESTATE: a claim is open. LLM_EVERSION.
 */
LLM_API int llm_topic_limit_rate(struct llm_topic *topic, const struct llm_rate *rate);

enum llm_send_flags {
    /* Another message follows at once: only pack this one, the next send, flush or poll sends it. */
    LLM_SEND_MORE = 1,
    LLM_SEND_NOW = 2, /* send now, even if the transport is busy */
};

/*
 * Sends a message of size bytes (0 to message_bytes_max). The bytes are copied; the number of the message is
 * llm_transmitter_next(). It leaves before the call returns if the transport is idle. After a flush the
 * transport counts as busy for as long as that flush took; messages sent meanwhile fill packets, and all
 * leave in one flush with the next send that finds the transport idle, with llm_transmitter_flush(), or with
 * llm_poll(), whichever comes first. There is no timer to wait for. LLM_EMSGSIZE: longer than
 * message_bytes_max, or than the history can hold; LLM_EAGAIN: the transport does not take packets and the
 * history is full of unsent ones, flow control or a rate limit blocks, too much of an assured topic is not
 * acknowledged, or another thread has a claim open: poll and try again, or llm_topic_wait(); LLM_ESTATE: a
 * claim of this thread is open, or the connection is over; LLM_EINVAL: unknown flags, or bytes at NULL.
 */
LLM_API int llm_send(struct llm_topic *topic, const void *data, size_t size, unsigned flags);

/*
 * Waits after LLM_EAGAIN: polls the context until the topic would take a message of size bytes, attributes
 * included, or timeout_ns has passed, waiting as llm_wait() does. Blocks; handlers may run meanwhile. Also
 * waits for a claim of another thread. LLM_OK: a message would be taken now, unless another thread is faster;
 * LLM_EAGAIN: the time has passed; LLM_EMSGSIZE, LLM_ESTATE as llm_send(), and inside a handler.
 *
 * An application with its own loop polls, tries again, and sleeps on llm_context_fd() until
 * llm_context_deadline(): everything that makes room wakes it by one of these.
 */
LLM_API int llm_topic_wait(struct llm_topic *topic, size_t size, uint64_t timeout_ns);

/*
 * Sends a message gathered from count pieces, else as llm_send(). LLM_EINVAL: count is negative, or a piece
 * has bytes at NULL.
 */
LLM_API int llm_sendv(struct llm_topic *topic, const struct iovec *pieces, int count, unsigned flags);

/* Numbers that one llm_send_numbered() may skip. */
#define LLM_SKIP_MAX 16777216

/*
 * Sends a message as llm_send() does, under a number in the stream that the application sets: where the sequence is
 * its own, so that receivers merge transmitters that do not have all of its messages (stream_merge). number: at least
 * stream_base + llm_transmitter_next(), the number that would come next, and at most LLM_SKIP_MAX more. The numbers
 * between are skipped: this transmitter never has them. Receivers get their messages from another session of the
 * stream; if none has them, and where sessions are not merged, LLM_EVENT_GAP reports them with LLM_REASON_SKIPPED.
 * After LLM_EAGAIN the numbers may have been skipped already; the message was not sent, and its number is still free.
 * LLM_EINVAL: another number, which the log names with the one that is next, and as llm_send(). LLM_ESTATE: the
 * transmitter has no stream (option stream), or is that of a failover group, and as llm_send(). LLM_EMSGSIZE,
 * LLM_EAGAIN as llm_send().
 */
LLM_API int llm_send_numbered(struct llm_topic *topic, uint64_t number, const void *data, size_t size,
                              unsigned flags);

/*
 * Claims size bytes in the history itself, where the caller builds the message in place, without a copy.
 * *data is writable until llm_topic_commit() or llm_topic_abort(). One claim at a time per transmitter, from
 * any thread: while it is open, other calls on topics of the transmitter are LLM_EAGAIN from other threads,
 * and LLM_ESTATE from the thread that made it. llm_poll() and llm_transmitter_flush() do not send messages
 * packed before it until it is committed or aborted. size: at most llm_transmitter_claim_max(). LLM_EMSGSIZE,
 * LLM_EAGAIN, LLM_ESTATE as llm_send().
 */
LLM_API int llm_topic_claim(struct llm_topic *topic, size_t size, void **data);

/*
 * Sends the first size bytes of the open claim, as llm_send() does; always has room. LLM_EINVAL: size is more
 * than claimed, or unknown flags. LLM_ESTATE: no claim is open on this topic.
 */
LLM_API int llm_topic_commit(struct llm_topic *topic, size_t size, unsigned flags);

/* Drops the open claim. LLM_ESTATE if there is none. */
LLM_API int llm_topic_abort(struct llm_topic *topic);

/* Returns the longest message that llm_topic_claim() takes: one that fits into a packet. */
LLM_API size_t llm_transmitter_claim_max(const struct llm_transmitter *transmitter);

/*
 * Sends packed messages. 0, or LLM_EAGAIN if the transport did not take all of them, or flow control or a
 * rate limit blocks some: the rest leaves with llm_poll().
 */
LLM_API int llm_transmitter_flush(struct llm_transmitter *transmitter);

/*
 * Suspend a receiver by hand: NAKs of the receiver (its identity in struct llm_verdict) are not answered from
 * now on, its queued repairs are dropped, flow control does not wait for it, and it is notified, whatever the
 * option slow says. Resume answers NAKs of the receiver again; the policy of the option slow readmits it.
 * Allowed in handlers. LLM_ENOTFOUND: no such receiver is known; llm_transmitter_congestion() lists those
 * that are.
 */
LLM_API int llm_transmitter_suspend(struct llm_transmitter *transmitter, uint64_t receiver);
LLM_API int llm_transmitter_resume(struct llm_transmitter *transmitter, uint64_t receiver);

/*
 * Stop answering the NAKs of all receivers, drop every queued repair and notify the receivers; and answer
 * NAKs again, except those of receivers that are suspended one by one. Allowed in handlers.
 */
LLM_API int llm_transmitter_suspend_all(struct llm_transmitter *transmitter);
LLM_API int llm_transmitter_resume_all(struct llm_transmitter *transmitter);

/*
 * Writes the bottleneck of a transmitter over the latest complete watch_ns of struct llm_context_options to
 * *bottleneck. Allowed in handlers. LLM_ESTATE: the watch does not run; LLM_EAGAIN: the first watch_ns is not
 * over.
 */
LLM_API int llm_transmitter_bottleneck(const struct llm_transmitter *transmitter,
                                       struct llm_bottleneck *bottleneck);

/* A receiver, according to its latest report. */
struct llm_congestion {
    uint64_t receiver; /* identity of the receiver */
    uint64_t heard_at;
    uint64_t rtt_ns;         /* 0: not measured */
    uint64_t lag_packets;    /* packets sent by then that it neither had nor gave up */
    uint64_t window_packets; /* packets that its window holds */
    /* NAKs that it sent since it follows the session; the same interval for the next two */
    uint64_t naks;
    uint64_t packets_lost;
    uint64_t packets_dropped; /* dropped by its host, an upper bound; 0 if it runs no watch */
    bool reports;             /* true: it runs a watch, and bottleneck is its result */
    struct llm_bottleneck bottleneck;
};

/*
 * Writes up to max of the receivers known to a transmitter, and returns their number, which may be more.
 * Allowed in handlers.
 */
LLM_API int llm_transmitter_congestion(const struct llm_transmitter *transmitter,
                                       struct llm_congestion *receivers, int max);

#ifdef __cplusplus
}
#endif

#endif
