/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: log, event loop and counters. Included by <llm/llm.h>, which states the conventions. */
#ifndef LLM_CONTEXT_H
#define LLM_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum llm_level { LLM_LEVEL_ERROR = 0, LLM_LEVEL_WARNING = 1, LLM_LEVEL_INFO = 2, LLM_LEVEL_DEBUG = 3 };

/*
 * Log callback: text is one line without a newline, valid during the call. Runs on the thread that made the
 * failing call or that polls the context; must not call into the same context. Never called per packet.
 */
typedef void llm_log_fn(void *arg, enum llm_level level, const char *text);

/* An event loop with its memory, transports and clock. Use several contexts to scale across cores. */
struct llm_context;

/* Wait modes of llm_wait() and of the loop thread, for times without work. */
enum llm_wait_mode {
    LLM_WAIT_SPIN = 0, /* polls without a pause: lowest latency, one core per context */
    /* Sleeps in the kernel until a packet or a deadline: no CPU, tens of microseconds more latency. */
    LLM_WAIT_BLOCK = 1,
    /* BLOCK, with the kernel polling the device (SO_BUSY_POLL) before the sleep, for busy_poll_us or 50 us */
    LLM_WAIT_BUSY_POLL = 2,
};

/*
 * Levels of the latency monitor, which fills histograms of the counters file. Each level includes those
 * before it.
 */
enum llm_latency_level {
    LLM_LATENCY_OFF = 0,    /* none, at no cost */
    LLM_LATENCY_QUEUES = 1, /* queue lengths: packets in a flush, in a burst, buffered out of order */
    LLM_LATENCY_WIRE = 2,   /* time from send to wire, and from wire to handler */
    LLM_LATENCY_STAGES = 3, /* each stage of these times, time in handlers and between polls */
};

struct llm_context_options {
    size_t size; /* sizeof(struct llm_context_options), set by llm_context_options_init() */
    /* log, log_arg and log_level are used even if size is wrong, to report that error. */
    llm_log_fn *log;          /* NULL (default): lines of log_level and more severe go to stderr */
    void *log_arg;            /* passed to log */
    enum llm_level log_level; /* least severe level that is logged; default LLM_LEVEL_WARNING */
    enum llm_wait_mode wait;  /* default LLM_WAIT_SPIN */
    /* NUMA node of large allocations; -1 (default): that of the channel's device, else the caller's */
    int numa_node;
    /* Ask for huge pages for large allocations, plain pages if there are none; default true. */
    bool huge_pages;

    /*
     * Directory of the counters file, which llm-stat and others read (llm/stats.h); created if absent; 160
     * bytes at most. NULL (default): that of the environment variable LLM_STATS_DIRECTORY, without which no
     * file is written; if that directory cannot be used the context opens all the same. "": no file. llm-stat
     * looks in "/dev/shm/llm-stat". llm_poll() writes the file, once in stats_ns; llm_context_close() removes
     * it. Opening removes the oldest files that dead processes of this user left there, until 16 of them
     * remain, and no other file.
     */
    const char *stats_directory;
    const char *stats_name; /* name of this context, for people; at most 63 bytes; NULL (default): none */
    uint64_t stats_ns;      /* default 100 ms; 1 ms to 60 s */
    unsigned stats_mode;    /* permissions of the file; default 0640 */
    enum llm_latency_level latency; /* default LLM_LATENCY_OFF */

    /*
     * Interval of the bottleneck watch, which finds out what limits each receiver and transmitter, for
     * llm_receiver_bottleneck(), the counters file and LLM_EVENT_LIMITED. 1 ms to 60 s; 0 (default): one
     * second, without events, if there is a counters file, else off, at no cost.
     */
    uint64_t watch_ns;
    /*
     * Refuse every channel without the option keys, with LLM_EOPTION: nothing is sent or received in clear; default
     * false.
     */
    bool keys_required;
};

/* Fills *options with the defaults. */
LLM_API void llm_context_options_init(struct llm_context_options *options);

/*
 * Opens a context. options may be NULL for the defaults; only log and log_arg are used after the call. On
 * success *context belongs to the caller, who closes it with llm_context_close(). Allocates. LLM_EINVAL,
 * LLM_EVERSION, LLM_ENOMEM (or no space for a counters file), LLM_EACCESS (to its directory), LLM_ESYSTEM.
 */
LLM_API int llm_context_open(const struct llm_context_options *options, struct llm_context **context);

/*
 * Stops the loop thread if there is one, closes every transmitter (as llm_transmitter_close() does, so it may
 * block for their linger time), connection and receiver that is still open, and frees the context. Waits
 * until the other side of each connection knows of its close, for linger_ns from that close at most. *context
 * becomes NULL; NULL in it is allowed. In a child process it releases the child's resources and returns at
 * once: see Fork above. LLM_ESTATE inside a handler: nothing is closed then. The same in a child whose parent
 * was in a handler when it forked, until that handler returned.
 */
LLM_API int llm_context_close(struct llm_context **context);

/* --------------------------------------------------------------------------------------------------- loop */

/*
 * Does all work that is due: sends packed messages, receives packets, delivers, sends NAKs, repairs and
 * heartbeats. Never blocks. Returns the number of messages and events delivered, or LLM_ESTATE inside a
 * handler.
 */
LLM_API int llm_poll(struct llm_context *context);

/* Returns when llm_poll() has work to do even if no packet comes; UINT64_MAX if never. */
LLM_API uint64_t llm_context_deadline(const struct llm_context *context);

/*
 * Returns a file descriptor for applications that sleep: it becomes readable when a packet comes, and is
 * armed by this call. Call it before each sleep, then llm_poll() once more, and sleep (poll, epoll, until
 * llm_context_deadline()) only if that delivered nothing. The descriptor belongs to the context and stays the
 * same. Room after LLM_EAGAIN is made by a packet or by a deadline.
 */
LLM_API int llm_context_fd(struct llm_context *context);

/*
 * Polls until something was delivered or timeout_ns has passed, waiting as the context's wait mode says.
 * Blocks. Returns as llm_poll(). With UINT64_MAX it waits for ever; signals do not end it, so use a timeout
 * where the caller has to check something.
 */
LLM_API int llm_wait(struct llm_context *context, uint64_t timeout_ns);

/*
 * Runs the loop on its own thread, pinned to a CPU (cpu < 0: not pinned), until llm_context_stop_thread() or
 * llm_context_close(). Handlers run on that thread, or on another that polls meanwhile. Allocates. LLM_ESTATE
 * (runs already, or inside a handler), LLM_EINVAL (no such CPU), LLM_ESYSTEM.
 */
LLM_API int llm_context_start_thread(struct llm_context *context, int cpu);

/* Stops and joins the thread. LLM_ESTATE if there is none, or inside a handler. */
LLM_API int llm_context_stop_thread(struct llm_context *context);

/* Returns the clock of all points in time: CLOCK_MONOTONIC in nanoseconds. Any thread. */
LLM_API uint64_t llm_clock(void);

/* ----------------------------------------------------------------------------------------------- counters */

struct llm_counter {
    /*
     * "transmitter udp://239.192.1.1:5001", "receiver ...", "transport udp"; valid while the object is open
     */
    const char *object;
    const char *name; /* "naks_received"; static; docs/statistics.md lists all */
    uint64_t value;
};

/*
 * Other processes read the counters file, while the process runs or after it died: stats_directory of struct
 * llm_context_options, and llm/stats.h. It also has the sessions of each receiver and the receivers of each
 * session.
 */

/*
 * Writes up to max counters of the context and of all objects open in it to stats, and returns their number,
 * which may be more.
 */
LLM_API int llm_context_counters(const struct llm_context *context, struct llm_counter *stats, int max);

/* Sums a counter over all objects that have it. LLM_ENOTFOUND if none does. */
LLM_API int llm_context_counter(const struct llm_context *context, const char *name, uint64_t *value);

#ifdef __cplusplus
}
#endif

#endif
