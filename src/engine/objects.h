/* SPDX-License-Identifier: Apache-2.0 */
/* What the public handles point to, and how they hang together. */
#ifndef LLI_OBJECTS_H
#define LLI_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "system/clock.h"
#include "engine/endpoint.h"
#include "core/select/filter.h"
#include "core/rx/former.h"
#include "engine/latency.h"
#include "system/log.h"
#include "system/memory.h"
#include "engine/refuse.h"
#include "core/rx/rx_session.h"
#include "engine/subjects.h"
#include "system/ticks.h"
#include "core/tx/tx_session.h"
#include "engine/upcalls.h"
#include "engine/watched.h"

enum { LLI_CHANNEL_TEXT_MAX = 256 };

/* The group of a transmitter or receiver that has none, as those of connections: a handle that no transport gives. */
#define LLI_GROUP_NONE (LLI_HANDLE_UNICAST - 1)

struct llm_topic {
    struct llm_transmitter *transmitter;
    struct llm_topic *next;
    struct lli_pack_topic pack;
    uint64_t plain_below;  /* messages shorter than this take the short way; 0: none does, the topic is assured */
    uint64_t claim_below;  /* the same of claims */
    uint64_t counted_below; /* the same of messages of a topic that is counted, and nothing else */
    const void *claims;    /* what stands for its claims: the topic, or where they do not take the short way its rate */
    struct lli_ack_topic *assured; /* NULL: it never was */
    struct lli_lvc_topic *kept; /* NULL: its last messages are not kept */
    struct lli_pacer rate; /* if it is rated: bytes of its messages */
    bool rated;
    struct lli_topic_count count; /* if its transmitter counts topics */
    char name[LLI_WIRE_NAME_MAX + 1];
};

/* One of several places that packets of a transmitter go to. */
struct lli_destination {
    lli_handle to;
    int ahead; /* packets that the transport took for it before it took them for all */
};

struct llm_transmitter {
    struct llm_context *context;
    struct lli_endpoint *endpoint;
    struct llm_transmitter *next; /* of the endpoint */
    struct llm_connection *connection; /* that it is part of, NULL: none */
    struct llm_topic *topics;
    const void *claimed;          /* what stands for the claim that is open, NULL: none is; the transmitter itself: it is over */
    uintptr_t claimant;           /* the thread that made the latest claim beside a loop thread; 0: none was made so */
    struct lli_memory memory;
    struct lli_memory shared;     /* the history, if the transport has it */
    struct llm_transmitter_handlers handlers;
    struct lli_tx tx;
    lli_handle group;
    struct lli_destination *destinations; /* the group and the others, if there are others; else NULL */
    uint32_t destinations_count;
    int posted_max;               /* packets posted to the group at a time; 0: all go by way of destinations */
    uint32_t slot_max;            /* bytes of a lone message whose packet fits into the transport's slot(), */
    const uint8_t *const *slot_at; /* which lies where it says here; NULL: there is none */
    uint64_t flushed_at;          /* lli_ticks() */
    uint64_t busy_for;            /* so long after that the transport counts as busy */
    uint64_t batch;               /* sealed packets that are worth a flush even then */
    uint64_t message_bytes_max;
    uint64_t keep_bytes;          /* that topics may keep together */
    void *lvc_memory;            /* NULL: none does */
    lli_ns linger;
    bool counts_topics;
    bool dirty;                   /* packed in a handler, not flushed */
    bool watched;                 /* flushes take the longer way: it has a pace, or a latency monitor */
    struct lli_tx_latency *latency; /* NULL without a monitor, as those of the others */
    struct lli_watched watch;
    char object[LLI_CHANNEL_TEXT_MAX]; /* for statistics */
};

struct llm_receiver {
    struct llm_context *context;
    struct lli_endpoint *endpoint;
    struct llm_receiver *next; /* of the endpoint */
    struct llm_handlers handlers;
    struct lli_subjects subjects;
    struct lli_filter filter;  /* if config.filter is not NULL */
    struct lli_memory memory;
    struct lli_memory rare;
    struct lli_rx_config config;
    struct llm_join join;      /* as the options say */
    struct lli_reorder reorder;
    struct lli_former former;
    struct lli_rx_counters counters;
    uint64_t random;
    struct lli_rx *sessions;
    uint32_t sessions_max;
    uint32_t sessions_used;    /* none behind this one was ever used */
    struct lli_rx *latest;     /* the session of the latest packet */
    lli_handle group;
    bool warned_full;
    bool warned_memory;
    lli_ns serviced_at;        /* when its sessions were looked after last, 0: never */
    struct lli_rx_latency *latency;
    struct lli_watched watch;
    char object[LLI_CHANNEL_TEXT_MAX];
};

/*
 * Fair, so that a loop thread which polls without a pause does not keep the others out. Not used before there is such a thread.
 */
struct lli_lock {
    atomic_uint ticket;
    atomic_uint serving;
    atomic_uintptr_t owner; /* the thread that holds it, 0: none */
    unsigned depth;         /* how often: handlers call back into the library */
};

struct llm_context {
    struct lli_log log;
    struct llm_context_options options;
    struct lli_endpoint *endpoints;
    int epoll_fd;
    bool in_handler;
    bool in_single;    /* in that of a message that came alone */
    bool dirty;      /* some transmitter is */
    int delivered;   /* by the poll that runs */
    lli_ns polled_at; /* when the latest poll began */
    lli_ns time;      /* as the clock was read last for lli_context_time(), */
    uint64_t time_ticks; /* lli_ticks() before that, */
    uint64_t moment;  /* and for so many of them it is not read again */
    lli_ns watch_at;  /* when a poll has to look after the following; LLI_NEVER: never */
    lli_ns stats_at;  /* when counters are written next, LLI_NEVER without a file */
    lli_ns connections_at;  /* when listeners and connections have something to do */
    const struct lli_upcalls *upcalls; /* NULL before the first listener or connection */
    struct llm_listener *listeners;
    struct llm_connection *connections;
    struct lli_close_retries *close_retries; /* NULL before there was one of these */
    struct lli_stats_file *stats; /* NULL without a counters file */
    struct lli_latency *latency;
    struct lli_watch watch;
    struct lli_refusals refusals;

    /* The loop thread. */
    struct lli_lock lock;
    atomic_bool threaded; /* a loop thread was started once: from then on every call takes the lock */
    atomic_bool running;  /* it runs */
    atomic_bool stop;
    atomic_uint sleeping;          /* threads that sleep on the descriptor */
    atomic_uint_fast64_t wakes_at; /* while any does: the earliest of their times */
    pthread_t thread;
    int wake_fd;

    /* fork.c */
    struct llm_context *next; /* of all that are open in the process */
    bool orphaned;            /* this process is a child of the one that opened it; threaded is set, too */
    bool refused;             /* a call was refused for that, and the log says so */
};

/*
 * The time, or what it was less than a microsecond before; ticks: lli_ticks(), just read. To read the clock the processor waits
 * for all that it has under way, which whoever polls without a pause would do most of the time.
 */
static inline lli_ns lli_context_time(struct llm_context *context, uint64_t ticks)
{
    if (ticks - context->time_ticks >= context->moment) {
        context->time_ticks = ticks;
        context->time = lli_clock_ns();
    }
    return context->time;
}

/* ---------------------------------------------------------------------------------------------- lock.c */

/* Relaxed: whoever calls from another thread was told of the context after its loop thread was started. */
static inline bool lli_context_is_threaded(const struct llm_context *context)
{
    return atomic_load_explicit(&context->threaded, memory_order_relaxed);
}

/* False: the context is orphaned, and the call has to be refused. */
bool lli_context_lock(struct llm_context *context);
void lli_context_unlock(struct llm_context *context);

/*
 * Every public call is between these two. False: it is to return LLM_ESTATE, or what says nothing, at once; a close of something other
 * than the context sets the handle to NULL.
 */
static inline __attribute__((warn_unused_result)) bool lli_context_enter(struct llm_context *context)
{
    return !lli_context_is_threaded(context) || lli_context_lock(context);
}

static inline void lli_context_leave(struct llm_context *context)
{
    if (lli_context_is_threaded(context))
        lli_context_unlock(context);
}

/*
 * Whether the calling thread is in a handler, or in the log function: where the loop runs on a thread of its own, it holds the lock then,
 * which no other call gives back to the application.
 */
bool lli_context_is_inside(const struct llm_context *context);

/* Whether another thread than the calling one has a claim open, beside a loop thread. */
bool lli_transmitter_is_claimed_elsewhere(const struct llm_transmitter *transmitter);

/* Ends the loop thread's sleep. */
void lli_context_wake(struct llm_context *context);

/* As long after a flush as it took, the transport counts as busy: messages fill packets instead. */
static inline bool lli_transmitter_is_busy(const struct llm_transmitter *transmitter, uint64_t ticks)
{
    return ticks - transmitter->flushed_at < transmitter->busy_for;
}

/* ------------------------------------------------------------------------------------------ sessions.c */

/*
 * Takes a packet for the receiver's group, or for its address (group false). False: the receiver follows no such session.
 */
bool lli_sessions_input(struct llm_receiver *receiver, bool group, const struct lli_rx_packet *packet, lli_ns now);

/*
 * Hands on a packet that came alone, if one receiver alone can be meant, it has one message, and its session has nothing but it to think
 * of: at the least cost. False, with nothing changed: lli_sessions_input() has to take it.
 */
bool lli_sessions_single(struct lli_endpoint *endpoint, const struct lli_in *in, lli_ns now);

/* Sends what the sessions want sent, delivers what time made due; returns when something is due next. */
lli_ns lli_sessions_service(struct llm_receiver *receiver, lli_ns now);

/* Tells the application of an event, inside a handler. */
void lli_sessions_tell(struct llm_receiver *receiver, const struct llm_event *event);

/* -------------------------------------------------------------------------------- transmitter_events.c */

/* Tells the application of receivers whatever it has not been told yet. */
void lli_transmitter_events(struct llm_transmitter *transmitter);

/* The same of an event, inside a handler. */
void lli_transmitter_tell(const struct llm_transmitter *transmitter, const struct llm_event *event);

/* Logs, once, why some receivers are served less than others. */
void lli_transmitter_log_crowd(struct llm_transmitter *transmitter);

#endif
