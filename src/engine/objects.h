/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of the public handles, and their links. */
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
#include "engine/tap.h"
#include "core/tx/tx_session.h"
#include "engine/upcalls.h"
#include "engine/watched.h"

enum { LLI_CHANNEL_TEXT_MAX = 256 };

/* Flags that a send may have; no flag is greater. */
enum { LLI_SEND_FLAGS = LLM_SEND_MORE | LLM_SEND_NOW };

/*
 * The group of transmitters and receivers without one, as those of connections: a handle that no transport
 * returns.
 */
#define LLI_GROUP_NONE (LLI_HANDLE_UNICAST - 1)

/* Route of a topic's messages, recomputed whenever a condition of it changes. */
enum lli_route {
    LLI_ROUTE_PLAIN,   /* they are packed */
    LLI_ROUTE_COUNTED, /* ... and counted */
    /* The topic is assured, rate-limited or cached: each is checked before, accounted for after. */
    LLI_ROUTE_CHECKED,
};

struct llm_topic {
    struct llm_transmitter *transmitter;
    struct llm_topic *next;
    struct lli_pack_topic pack;
    enum lli_route route;          /* of its messages: lli_topic_route() */
    struct lli_ack_topic *assured; /* NULL: it was never assured */
    struct lli_lvc_topic *cache;   /* last value cache; NULL: none */
    struct lli_pacer rate;         /* rate limit in bytes of messages, if `rated` is set */
    bool rated;
    struct lli_topic_count count; /* counted if the transmitter counts topics */
    char name[LLI_WIRE_NAME_MAX + 1];
};

static inline bool lli_topic_is_assured(const struct llm_topic *topic)
{
    return topic->assured != NULL && lli_ack_topic_is_on(topic->assured);
}

/* One of several addresses that packets of a transmitter go to. */
struct lli_destination {
    lli_handle to;
    int surplus; /* packets taken for this destination, but not yet for all */
};

struct llm_transmitter {
    struct llm_context *context;
    struct lli_endpoint *endpoint;
    struct llm_transmitter *next;      /* next transmitter of the endpoint */
    struct llm_connection *connection; /* connection that it belongs to, NULL: none */
    struct llm_topic *topics;
    /* Topic of the open claim, NULL: none; the transmitter itself: its connection is over. */
    const void *claimed;
    /* Thread that made the latest claim while a loop thread exists; 0: no such claim. */
    uintptr_t claimant;
    struct lli_memory memory;
    struct lli_memory shared; /* the history, if it is in memory of the transport */
    struct llm_transmitter_handlers handlers;
    struct lli_tx tx;
    lli_handle group;
    struct lli_destination *destinations; /* the group and the other destinations; NULL: the group only */
    uint32_t destinations_count;
    struct lli_guard_session *protection; /* of its data packets; NULL: they are in clear */
    struct lli_sealer *sealer;            /* signs them; NULL: without the option seal */
    /* Packets posted to the group at a time; 0: all are posted by destinations.c, of several or with keys. */
    int posted_max;
    uint32_t slot_max;          /* largest single message whose packet fits into the transport's slot() */
    const uint8_t *const *slot; /* variable that points to that slot; NULL: there is none */
    uint64_t flushed_at;        /* lli_ticks() */
    uint64_t busy_for;          /* ticks after flushed_at for which the transport counts as busy */
    uint64_t batch;             /* sealed packets that are flushed even if it is busy */
    uint64_t message_bytes_max;
    uint64_t cache_bytes; /* limit of the last value caches of all topics together */
    void *lvc_memory;     /* NULL: no topic has a cache */
    lli_ns linger;
    bool counts_topics;
    bool dirty; /* messages were packed in a handler and not flushed */
    /* Flushes take the slow path: it is rate-limited, or has a latency monitor. */
    bool watched;
    struct lli_tx_latency *latency; /* NULL without a latency monitor, as in other objects */
    struct lli_watched watch;
    char object[LLI_CHANNEL_TEXT_MAX]; /* for statistics */
    struct llm_failover *failover;     /* member whose primary it becomes, NULL: none */
    lli_ns leased_until;               /* of a member: messages are refused from then on */
    bool fenced;                       /* ... and for ever: another primary may have been elected */
};

struct llm_receiver {
    struct llm_context *context;
    struct lli_endpoint *endpoint;
    struct llm_receiver *next; /* next receiver of the endpoint */
    struct llm_receiver_handlers handlers;
    const struct lli_tap *tap; /* NULL: neither a store nor a member follows it */
    void *tap_arg;
    struct lli_subjects subjects;
    struct lli_filter filter; /* in use if config.filter is not NULL */
    struct lli_memory memory;
    struct lli_memory rare;
    struct lli_rx_config config;
    struct llm_join join; /* from the options */
    struct lli_reorder reorder;
    struct lli_former former;
    struct lli_streams streams;
    struct lli_rx_counters counters;
    uint64_t random;
    struct lli_rx *sessions;
    uint32_t sessions_max;
    uint32_t sessions_used; /* one past the last session ever used */
    struct lli_rx *latest;  /* session of the latest packet */
    uint32_t *hints;        /* by a session's tag: its place, if it is still there */
    uint32_t hints_mask;
    lli_handle group;
    /* For packets to the group, which few receivers send: joined with the first one. */
    struct lli_channel *channel;
    lli_handle send_group;
    bool sends;
    bool send_failed;
    bool warned_full;
    bool warned_memory;
    lli_ns serviced_at; /* latest service of its sessions, 0: never */
    struct lli_rx_latency *latency;
    struct lli_line_times *lines; /* NULL: its channel has one line */
    struct lli_watched watch;
    char object[LLI_CHANNEL_TEXT_MAX];
};

/*
 * A ticket lock: fair, so that a loop thread which polls without a pause does not starve other threads.
 * Unused before there is a loop thread.
 */
struct lli_lock {
    atomic_uint ticket;
    atomic_uint serving;
    atomic_uintptr_t owner; /* thread that holds it, 0: none */
    unsigned depth;         /* nested locks by the owner: handlers call back into the library */
};

struct llm_context {
    struct lli_log log;
    struct llm_context_options options;
    struct lli_endpoint *endpoints;
    int epoll_fd;
    bool in_handler;
    bool in_single;        /* the running handler is that of a message that arrived alone */
    bool dirty;            /* some transmitter is dirty */
    int delivered;         /* messages and events delivered by the running poll */
    lli_ns polled_at;      /* beginning of the latest poll */
    lli_ns time;           /* the clock, as read last for lli_context_time() */
    uint64_t time_ticks;   /* lli_ticks() before that reading */
    uint64_t moment;       /* ticks for which that reading is valid */
    lli_ns watch_at;       /* next time at which a poll has to serve the members below, LLI_NEVER: never */
    lli_ns stats_at;       /* next write of the counters, LLI_NEVER without a file */
    lli_ns connections_at; /* next work of a listener or connection */
    const struct lli_upcalls *upcalls; /* NULL before the first listener or connection */
    struct llm_listener *listeners;
    struct llm_connection *connections;
    struct lli_close_retries *close_retries;   /* NULL before the first close retry */
    const struct lli_store_calls *store_calls; /* NULL before the first store */
    struct llm_store *stores;
    const struct lli_failover_calls *failover_calls; /* NULL before the first member */
    struct llm_failover *failovers;
    lli_ns stores_at;             /* next work of a store or a member; LLI_NEVER without one */
    struct lli_stats_file *stats; /* NULL without a counters file */
    struct lli_latency *latency;
    struct lli_watch watch;
    struct lli_refusals refusals;

    /* The loop thread. */
    struct lli_lock lock;
    atomic_bool threaded; /* a loop thread was started once: from then on every call takes the lock */
    atomic_bool running;  /* the loop thread runs */
    atomic_bool stop;
    atomic_uint sleeping;          /* threads that sleep on the descriptor */
    atomic_uint_fast64_t wakes_at; /* earliest wake-up of those threads, while there are any */
    pthread_t thread;
    int wake_fd;

    /* fork.c */
    struct llm_context *next; /* next context of the process */
    bool orphaned;            /* this process is a child of the one that opened it; threaded is set, too */
    bool refused;             /* a call was refused for that reason, and the refusal was logged */
};

/*
 * Returns the time, at most a microsecond old; ticks: lli_ticks(), just read. Reading the clock makes the
 * processor wait for all instructions in flight, which would dominate a poll loop without a pause.
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

/* Relaxed: another thread that calls got the context after its loop thread was started. */
static inline bool lli_context_is_threaded(const struct llm_context *context)
{
    return atomic_load_explicit(&context->threaded, memory_order_relaxed);
}

/* Takes the lock. False: the context is orphaned, and the call has to be refused. */
bool lli_context_lock(struct llm_context *context);
void lli_context_unlock(struct llm_context *context);

/*
 * Enclose every public call. False: the call returns LLM_ESTATE, or its neutral value, at once; a close of an
 * object other than the context sets the handle to NULL.
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
 * Returns true if the calling thread runs a handler or the log function. Beside a loop thread it then holds
 * the lock, which no other call holds while the application runs.
 */
bool lli_context_is_inside(const struct llm_context *context);

/* Returns true if another thread than the caller has a claim open, while a loop thread exists. */
bool lli_transmitter_is_claimed_elsewhere(const struct llm_transmitter *transmitter);

/* Lowers the length of the longest message that a transmitter sends. */
static inline void lli_transmitter_limit(struct llm_transmitter *transmitter, uint64_t bytes)
{
    transmitter->message_bytes_max = lli_min(transmitter->message_bytes_max, bytes);
    lli_pack_limit(&transmitter->tx.pack, transmitter->message_bytes_max);
}

/* Ends the sleep of the loop thread. */
void lli_context_wake(struct llm_context *context);

/*
 * Returns true if the transport is busy: for as long after a flush as it took. Messages fill packets
 * meanwhile.
 */
static inline bool lli_transmitter_is_busy(const struct llm_transmitter *transmitter, uint64_t ticks)
{
    return ticks - transmitter->flushed_at < transmitter->busy_for;
}

/* ------------------------------------------------------------------------------------------ sessions.c */

/*
 * Takes a packet for the receiver's group, or for its address (group false). False: the receiver follows no
 * such session.
 */
bool lli_sessions_input(struct llm_receiver *receiver, bool group, const struct lli_rx_packet *packet,
                        lli_ns now);

/*
 * Chooses the pieces of a packet with an outline, LLI_RX_PIECES_MAX at most. 0: take it whole, else call
 * lli_sessions_input_excerpt() with the pieces next.
 */
uint32_t lli_sessions_excerpt(struct llm_receiver *receiver, const struct lli_in *in,
                              struct lli_piece *pieces);
void lli_sessions_input_excerpt(struct llm_receiver *receiver, const struct lli_in *in,
                                const struct lli_piece *pieces, lli_ns now);

/*
 * Fast path for a packet that arrived alone: delivers it if only one receiver can be meant, it has one
 * message, and its session has no other work pending. False, with nothing changed: lli_sessions_input() has
 * to take it.
 */
bool lli_sessions_single(struct lli_endpoint *endpoint, const struct lli_in *in, lli_ns now);

/* Likewise for a packet of a burst: what its handler sends may wait for the rest. */
bool lli_sessions_single_of_burst(struct lli_endpoint *endpoint, const struct lli_in *in, lli_ns now);

/*
 * Takes a packet that arrived on one of two lines. True: it came on the other line before, and is dropped: nobody
 * needs it.
 */
bool lli_sessions_second(struct lli_endpoint *endpoint, const struct lli_in *in, int line, lli_ns now);

/* Delivers what a session has, after the store that stalled it, or positioned it, lets it go on. */
void lli_sessions_go_on(struct llm_receiver *receiver, struct lli_rx *rx, lli_ns now);

/* Likewise for the session with an identity, if it is followed. */
void lli_sessions_resume(struct llm_receiver *receiver, uint64_t session, lli_ns now);

/* Posts a control packet of a receiver, to its address or to the group, which is joined for it the first time. */
void lli_sessions_post(struct llm_receiver *receiver, const struct lli_packet *packet);

/* Sends the sessions' packets and delivers what became due by time. Returns when the next is due. */
lli_ns lli_sessions_service(struct llm_receiver *receiver, lli_ns now);

/* Reports an event to the application, inside a handler. */
void lli_sessions_report(struct llm_receiver *receiver, const struct llm_event *event);

/* -------------------------------------------------------------------------------- transmitter_events.c */

/* Reports receivers' pending events to the application. */
void lli_transmitter_events(struct llm_transmitter *transmitter);

/* Reports one event, inside a handler. */
void lli_transmitter_report(const struct llm_transmitter *transmitter, const struct llm_event *event);

/* Logs, once, why some receivers get less service than others. */
void lli_transmitter_log_crowd(struct llm_transmitter *transmitter);

#endif
