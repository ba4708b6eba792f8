/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libllm: brokerless reliable multicast messaging.
 *
 * A transmitter sends messages on topics. Every receiver that joined the channel gets them once and in order;
 * messages that it did not get are reported to its application exactly. Lost packets are requested with NAKs and
 * repaired. docs/protocol.md specifies the wire format, docs/architecture.md describes the code.
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
 *   Times     uint64_t nanoseconds; points in time (names end in _at) are of CLOCK_MONOTONIC.
 *   Memory    Calls that open objects allocate, and those that say so. A poll allocates only if a listener's handler
 *             accepts a connection.
 *   Strings   UTF-8, zero-terminated, copied by the library unless the description says otherwise.
 */
#ifndef LLM_LLM_H
#define LLM_LLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <llm/api.h>
#include <llm/event.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------- errors */

/* X(name, number, text): the numbers are stable. */
#define LLM_ERRORS(X)                                                                                                      \
    X(EINVAL, -1, "invalid argument")                                                                                      \
    X(ENOMEM, -2, "out of memory")                                                                                         \
    X(ESCHEME, -3, "unknown or unsupported transport scheme")                                                              \
    X(EOPTION, -4, "unknown option, or a value out of its range")                                                          \
    X(EGROUP, -5, "not a group that can be joined")                                                                        \
    X(EINTERFACE, -6, "network interface is absent, down or without an address")                                           \
    X(EADDRINUSE, -7, "address already in use")                                                                            \
    X(EACCESS, -8, "permission denied")                                                                                    \
    X(EMSGSIZE, -9, "message too long")                                                                                    \
    X(EAGAIN, -10, "cannot be taken now, try again after llm_poll")                                                        \
    X(ESTATE, -11, "not possible in this state")                                                                           \
    X(ELIMIT, -12, "a configured limit is reached")                                                                        \
    X(ESYSTEM, -13, "a system call failed")                                                                                \
    X(EVERSION, -14, "a structure is of a newer version than this library")                                                  \
    X(ENOTFOUND, -15, "no such name")

enum llm_error {
    LLM_OK = 0,
#define LLM_ERROR_ENUM(name, number, text) LLM_##name = number,
    LLM_ERRORS(LLM_ERROR_ENUM)
#undef LLM_ERROR_ENUM
};

/* Return the text of an error code, and its name ("LLM_EINVAL"). Static strings; any thread; never NULL. */
LLM_API const char *llm_error_text(int error);
LLM_API const char *llm_error_name(int error);

/* ----------------------------------------------------------------------------------------------------- log */

enum llm_level { LLM_LEVEL_ERROR = 0, LLM_LEVEL_WARNING = 1, LLM_LEVEL_INFO = 2, LLM_LEVEL_DEBUG = 3 };

/*
 * Log callback: text is one line without a newline, valid during the call. Runs on the thread that made the
 * failing call or that polls the context; must not call into the same context. Never called per packet.
 */
typedef void llm_log_fn(void *arg, enum llm_level level, const char *text);

/* ------------------------------------------------------------------------------------------------- context */

/* An event loop with its memory, transports and clock. Use several contexts to scale across cores. */
struct llm_context;

/* Wait modes of llm_wait() and of the loop thread, for times without work. */
enum llm_wait_mode {
    LLM_WAIT_SPIN = 0,      /* polls without a pause: lowest latency, one core per context */
    LLM_WAIT_BLOCK = 1,     /* sleeps in the kernel until a packet or a deadline: no CPU, tens of microseconds more latency */
    LLM_WAIT_BUSY_POLL = 2, /* BLOCK, with the kernel polling the device (SO_BUSY_POLL) before the sleep, for busy_poll_us or 50 us */
};

/*
 * Levels of the latency monitor, which fills histograms of the counters file. Each level includes those before
 * it.
 */
enum llm_latency_level {
    LLM_LATENCY_OFF = 0,    /* none, at no cost */
    LLM_LATENCY_QUEUES = 1, /* queue lengths: packets in a flush, in a burst, buffered out of order */
    LLM_LATENCY_WIRE = 2,   /* time from send to wire, and from wire to handler */
    LLM_LATENCY_STAGES = 3, /* each stage of these times, time in handlers and between polls */
};

struct llm_context_options {
    size_t size;         /* sizeof(struct llm_context_options), set by llm_context_options_init() */
    /* log, log_arg and log_level are used even if size is wrong, to report that error. */
    llm_log_fn *log;     /* NULL (default): lines of log_level and more severe go to stderr */
    void *log_arg;       /* passed to log */
    enum llm_level log_level; /* least severe level that is logged; default LLM_LEVEL_WARNING */
    enum llm_wait_mode wait;  /* default LLM_WAIT_SPIN */
    int numa_node;       /* NUMA node of large allocations; -1 (default): that of the channel's device, else the caller's */
    bool huge_pages;     /* ask for huge pages for large allocations, plain pages if there are none; default true */

    /*
     * Directory of the counters file, which llm-stat and others read (llm/stats.h); created if absent; 160 bytes
     * at most. NULL (default): that of the environment variable LLM_STATS_DIRECTORY, without which no file is
     * written; if that directory cannot be used the context opens all the same. "": no file. llm-stat looks in
     * "/dev/shm/llm-stat". llm_poll() writes the file, once in stats_ns; llm_context_close() removes it. Opening
     * removes the oldest files that dead processes of this user left there, until 16 of them remain, and no
     * other file.
     */
    const char *stats_directory;
    const char *stats_name; /* name of this context, for people; at most 63 bytes; NULL (default): none */
    uint64_t stats_ns;      /* default 100 ms; 1 ms to 60 s */
    unsigned stats_mode;    /* permissions of the file; default 0640 */
    enum llm_latency_level latency; /* default LLM_LATENCY_OFF */

    /*
     * Interval of the bottleneck watch, which finds out what limits each receiver and transmitter, for
     * llm_receiver_bottleneck(), the counters file and LLM_EVENT_LIMITED. 1 ms to 60 s; 0 (default): one second,
     * without events, if there is a counters file, else off, at no cost.
     */
    uint64_t watch_ns;
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
 * block for their linger time), connection and receiver that is still open, and frees the context. Waits until
 * the other side of each connection knows of its close, for linger_ns from that close at most. *context becomes
 * NULL; NULL in it is allowed. In a child process it releases the child's resources and returns at once: see
 * Fork above. LLM_ESTATE inside a handler: nothing is closed then. The same in a child whose parent was in a
 * handler when it forked, until that handler returned.
 */
LLM_API int llm_context_close(struct llm_context **context);

/* ------------------------------------------------------------------------------------------ channel options */

/* Closed choices of options. In a channel, each is the last word of its enumerator in lower case: flow=window. */
enum llm_flow { LLM_FLOW_OPEN = 0, LLM_FLOW_PACED = 1, LLM_FLOW_WINDOW = 2 };
enum llm_join_else { LLM_JOIN_ELSE_OLDEST = 0, LLM_JOIN_ELSE_LIVE = 1, LLM_JOIN_ELSE_REFUSE = 2 };
enum llm_order { LLM_ORDER_SEQUENCE = 0, LLM_ORDER_ARRIVAL = 1 };
enum llm_slow {
    LLM_SLOW_OFF = 0,
    LLM_SLOW_REPORT = 1,
    LLM_SLOW_WARN = 2,
    LLM_SLOW_UNICAST = 3,
    LLM_SLOW_SUSPEND = 4,
    LLM_SLOW_EXPEL = 5,
};
enum llm_acknowledger { LLM_ACKNOWLEDGE_LIBRARY = 0, LLM_ACKNOWLEDGE_APPLICATION = 1 };

/* Where a receiver begins in a session. */
enum llm_join_mode {
    LLM_JOIN_LIVE = 0,     /* with messages sent from now on */
    LLM_JOIN_OLDEST = 1,   /* with the oldest message in the history; a little later if some of it is being overwritten */
    LLM_JOIN_MESSAGES = 2, /* value messages back; with the first if fewer were sent */
    LLM_JOIN_TIME = 3,     /* value nanoseconds back, or a little earlier; with the first if the session is younger */
    LLM_JOIN_NUMBER = 4,   /* with message number value, for example the next one of an earlier run */
    LLM_JOIN_LATEST = 5,   /* with the last value messages in the last value cache of each topic (llm_topic_cache()), 0: all; then with
                              messages sent from now on */
};

/*
 * A channel names a transport, a group and a port: "udp://239.192.1.1:5001?interface=eth0&ttl=2", or
 * "udp://[ff15::1]:5001". The scheme is the transport: udp; bypass, the same sockets over a stack that was
 * loaded before the program; roce, where the library was built with it; loop. A prefix "impair+" puts a seeded
 * fault injector in front of it. Options follow the port.
 *
 * Over udp, bypass and xdp the group may be one host, "udp://10.0.0.2:5001": a receiver has to be at that
 * address, and a transmitter sends to it. With further hosts in the option destinations the same stream goes to
 * a list of hosts, each packet to each of them, where the network has no multicast.
 *
 * Every option of struct llm_options can be given as key=value with the name of its field; the channel's value
 * overrides the structure's. Integers are decimal, with an optional suffix K, M or G (powers of 1024, of
 * nanoseconds too). One set of options serves both sides: a transmitter ignores the options of receivers, and
 * the reverse. Beyond the bounds below, heartbeat_ns_min <= heartbeat_ns_max <= silence_ns <=
 * session_timeout_ns, nak_retry_ns_min <= nak_retry_ns_max, slow_warn_percent <= slow_unicast_percent, and more
 * rules for slow_... in llm_options(7); history_bytes is at least 16 packets, and impair_* need the scheme
 * impair+. Channels of a context that agree in scheme, address family and the options of scope INSTANCE share
 * one instance of the transport.
 *
 * X(type, scope, name, default, min, max, text): type is u32, u64, str (max is the array's size, with the
 * terminating zero) or word (min is the enum, max its last enumerator). scope is the object that reads the option: INSTANCE (of the transport), SESSION
 * (transmitters and receivers), TRANSMITTER, RECEIVER or CONNECTION (connections and listeners).
 */
#define LLM_OPTIONS(X)                                                                                                     \
    X(str, INSTANCE, interface, "", 0, 64, "interface by name or address; empty: that of the route to the group, else the first fit")  \
    X(str, RECEIVER, source, "", 0, 64, "receive only what this source address sends (source-specific join); empty: any")            \
    X(u32, TRANSMITTER, ttl, 1, 0, 255, "hops that multicast packets may take")                                                         \
    X(str, TRANSMITTER, destinations, "", 0, 768, "a transmitter sends to these groups or hosts, host:port with commas between, as well") \
    X(u32, TRANSMITTER, loop, 1, 0, 1, "deliver multicast packets to receivers on this host too")                                       \
    X(u32, INSTANCE, mtu, 0, 0, 65535, "largest IP packet to send, in bytes; 0: the interface's, at most 9000")                      \
    X(u32, INSTANCE, rcvbuf_bytes, 16777216, 4096, 1073741824, "socket receive buffer to ask for; roce: of the receive queue")        \
    X(u32, INSTANCE, sndbuf_bytes, 4194304, 4096, 1073741824, "socket send buffer to ask for")                                       \
    X(u32, INSTANCE, gso_packets, 0, 0, 128, "packets sent as one (UDP_SEGMENT); 1: none; 0: 16, or as many as fit if no switch follows") \
    X(u32, INSTANCE, gro, 1, 0, 1, "receive packets that came as one as one (UDP_GRO)")                                              \
    X(u32, INSTANCE, busy_poll_us, 0, 0, 1000000, "microseconds that the kernel polls the device before it sleeps (SO_BUSY_POLL)")   \
    X(u32, INSTANCE, timestamps, 0, 0, 1, "have the kernel stamp received packets (struct llm_message, received_at)")                \
    X(u32, INSTANCE, bypass_required, 1, 0, 1, "bypass: refuse a socket that no stack accelerates; 0: the kernel may have it")        \
    X(u32, INSTANCE, zero_copy, 1, 0, 1, "bypass: lend received packets from the stack's own memory")                                \
    X(u64, INSTANCE, warm_ns, 0, 0, 10000000000, "bypass: a warm send after so long without a packet, where there are; 0: never") \
    X(str, INSTANCE, stack_name, "", 0, 17, "bypass: the Onload stack to be in; empty: as the environment says")                     \
    X(u32, INSTANCE, stack_spin, 2, 0, 2, "bypass: Onload spins in blocking calls of the polling thread; 2: as the environment says") \
    X(str, INSTANCE, xdp_mode, "auto", 0, 8, "xdp: native (in the driver), generic (for every driver), or auto, native if it can")   \
    X(str, INSTANCE, xdp_zero_copy, "auto", 0, 8, "xdp: off, on (only with it), or auto, where the driver has it")                   \
    X(str, INSTANCE, xdp_queue, "all", 0, 16, "xdp: queues of the interface that frames are taken from: all, or the number of one")  \
    X(u64, TRANSMITTER, history_bytes, 25165824, 65536, 68719476736, "memory of packets kept for repair, headers included")             \
    X(u32, TRANSMITTER, history_packets, 65536, 64, 16777216, "packets kept for repair; a power of two")                                \
    X(u32, SESSION, message_bytes_max, 16777216, 1, 16777216, "longest message sent or received")                                   \
    X(u32, SESSION, topics_max, 16384, 1, 1048576, "topics in a session, sent or received")                                         \
    X(u32, SESSION, topic_counters, 0, 0, 1, "count messages and bytes of each topic, for the counters file")                       \
    X(u32, TRANSMITTER, receivers_max, 1024, 1, 1048576, "receivers that a transmitter knows by their status")                          \
    X(u32, RECEIVER, sessions_max, 16, 1, 4096, "sessions that a receiver follows at a time")                                        \
    X(u32, RECEIVER, window_packets, 16384, 64, 1048576, "packets ahead of a gap that a receiver can hold; a power of two")          \
    X(u64, RECEIVER, reorder_bytes, 12582912, 65536, 68719476736, "memory of packets held behind gaps, all sessions together")       \
    X(u64, TRANSMITTER, heartbeat_ns_min, 30000, 1000, 10000000000, "the first heartbeat follows the last packet after this, at least") \
    X(u64, TRANSMITTER, heartbeat_ns_max, 100000000, 1000, 10000000000, "idle heartbeats double their distance up to this")             \
    X(u64, TRANSMITTER, heartbeat_ns_busy, 10000000, 1000, 10000000000, "distance of heartbeats while messages flow")                   \
    X(u64, SESSION, status_ns, 100000000, 1000000, 60000000000, "distance of a receiver's status reports, times receivers / 10")    \
    X(u64, RECEIVER, silence_ns, 500000000, 1000000, 3600000000000, "a session silent for this is reported")                         \
    X(u64, RECEIVER, session_timeout_ns, 10000000000, 1000000, 3600000000000, "a session silent for this is ended")                  \
    X(u64, RECEIVER, nak_delay_ns, 0, 0, 10000000000, "wait before the first NAK of a gap, for networks that reorder")               \
    X(u32, RECEIVER, nak_receivers_immediate, 8, 0, 1048576, "up to this many receivers nobody backs off before the first NAK")      \
    X(u64, RECEIVER, nak_backoff_ns_min, 50000, 0, 10000000000, "least range of the random back-off with more receivers")            \
    X(u64, RECEIVER, nak_retry_ns_min, 50000, 1000, 10000000000, "least distance of NAKs for the same packet")                       \
    X(u64, RECEIVER, nak_retry_ns_max, 10000000, 1000, 10000000000, "greatest distance of NAKs for the same packet")                 \
    X(u64, RECEIVER, nak_giveup_ns, 10000000000, 1000000, 3600000000000, "a packet not repaired in this time is reported lost")      \
    X(word, TRANSMITTER, flow, LLM_FLOW_OPEN, llm_flow, LLM_FLOW_WINDOW, "open, paced (a rate that receivers keep up with) or window (none falls behind further)")   \
    X(word, RECEIVER, join, LLM_JOIN_LIVE, llm_join_mode, LLM_JOIN_LATEST, "where sessions begin: live, oldest, messages, time (join_messages, join_ns back), latest")  \
    X(u64, RECEIVER, join_messages, 0, 0, UINT64_MAX, "join=messages: so many back; latest: of each topic, 0: all that it keeps")      \
    X(u64, RECEIVER, join_ns, 0, 0, UINT64_MAX, "join=time: so long back")                                                            \
    X(word, RECEIVER, join_else, LLM_JOIN_ELSE_OLDEST, llm_join_else, LLM_JOIN_ELSE_REFUSE, "if that is no longer kept: oldest, live, or refuse, and the session is not followed") \
    X(word, RECEIVER, order, LLM_ORDER_SEQUENCE, llm_order, LLM_ORDER_ARRIVAL, "messages come in the sequence they were sent in, or each as it arrives (arrival)")   \
    X(u32, TRANSMITTER, flow_window_packets, 4096, 16, 1048576, "paced, window: packets that receivers may be behind")                  \
    X(u32, TRANSMITTER, flow_quorum_percent, 50, 1, 100, "paced, window: share of the receivers that have to keep up")                  \
    X(u64, TRANSMITTER, flow_bytes_per_s_max, 0, 0, 68719476736, "paced: rate that is never exceeded; 0: none")                         \
    X(u64, TRANSMITTER, rate_bytes_per_s, 0, 0, 68719476736, "new data is never sent faster, whatever flow says; 0: no limit")          \
    X(u64, TRANSMITTER, repair_rate_bytes_per_s, 0, 0, 68719476736, "repairs are never sent faster, whatever the next two say; 0: no limit") \
    X(u32, TRANSMITTER, repair_percent, 50, 1, 1000, "repairs may take this share of the bytes of new data")                            \
    X(u64, TRANSMITTER, repair_bytes_per_s, 33554432, 65536, 68719476736, "repairs may always take this many bytes a second")           \
    X(u64, TRANSMITTER, repair_linger_ns, 20000, 0, 10000000000, "a packet just repaired is not repaired again for this, or one rtt")   \
    X(u64, TRANSMITTER, replay_bytes_per_s, 33554432, 65536, 68719476736, "bytes a second for receivers that join late, all together")  \
    X(u64, TRANSMITTER, cache_bytes, 67108864, 0, 68719476736, "memory of messages that topics keep for those who join late, together")  \
    X(u64, TRANSMITTER, history_ns, 0, 0, 86400000000000, "older packets count as gone; 0: kept as long as there is room")              \
    X(word, TRANSMITTER, slow, LLM_SLOW_SUSPEND, llm_slow, LLM_SLOW_EXPEL, "how far slow receivers are dealt with: off, report, warn, unicast, suspend or expel")     \
    X(u32, TRANSMITTER, slow_naks_per_s, 10000, 1, 1000000000, "a receiver is suspended that sends so many NAKs a second")              \
    X(u32, TRANSMITTER, slow_nak_ppm, 150000, 1, 1000000000, "... that asks for this share of the packets again")                     \
    X(u64, TRANSMITTER, slow_lag_packets, 0, 0, 16777216, "... that is so many packets behind; 0: three quarters of the history")       \
    X(u64, TRANSMITTER, slow_lag_bytes, 0, 0, 68719476736, "... that is behind by so many bytes of the history; 0: nobody is for bytes")   \
    X(u64, TRANSMITTER, slow_lag_ns, 0, 0, 3600000000000, "... that is behind by this; 0: nobody is for any time")                      \
    X(u64, TRANSMITTER, slow_ack_ns, 0, 0, 3600000000000, "... that owes an acknowledgement of an assured topic for this; 0: nobody does")   \
    X(u64, TRANSMITTER, slow_silence_ns, 0, 0, 3600000000000, "... not heard for this, times receivers / 10; 0: 9/5 of status_ns")      \
    X(u32, TRANSMITTER, slow_warn_percent, 50, 1, 100, "of these thresholds: a receiver that is over it is warned")                     \
    X(u32, TRANSMITTER, slow_unicast_percent, 75, 1, 100, "of these thresholds: its repairs no longer go to the group")                 \
    X(u64, TRANSMITTER, slow_patience_ns, 2000000000, 0, 3600000000000, "NAKs are too many for so long before they suspend")            \
    X(u64, TRANSMITTER, slow_recover_ns, 1000000000, 0, 3600000000000, "a receiver is readmitted that was well for so long")            \
    X(u64, TRANSMITTER, slow_expel_ns, 30000000000, 0, 3600000000000, "a receiver is expelled that was suspended for so long")          \
    X(u64, TRANSMITTER, slow_rejoin_ns, 10000000000, 0, 3600000000000, "an expelled receiver may come back after this; 0: never")       \
    X(str, RECEIVER, receiver_name, "", 0, 32, "name of a receiver, by which transmitters wait for it to acknowledge; empty: none")    \
    X(word, RECEIVER, acknowledge, LLM_ACKNOWLEDGE_LIBRARY, llm_acknowledger, LLM_ACKNOWLEDGE_APPLICATION, "who acknowledges messages: library (when delivered) or application (llm_receiver_acknowledge)") \
    X(u32, CONNECTION, connections_max, 64, 1, 4096, "connections of a listener at a time, with those that wait to be accepted")        \
    X(u64, CONNECTION, connect_timeout_ns, 5000000000, 1000000, 3600000000000, "a connection not there after this is given up")        \
    X(u64, TRANSMITTER, linger_ns, 1000000000, 0, 3600000000000, "llm_transmitter_close waits this long for receivers to get all")      \
    X(str, INSTANCE, shm_directory, "/dev/shm", 0, 64, "shm: directory, of a file system in memory, under which channels have theirs")        \
    X(str, INSTANCE, shm_mode, "0600", 0, 8, "shm: who may read a channel and answer on it, as a file's mode, in octal")             \
    X(u32, TRANSMITTER, shm_exclusive, 1, 0, 1, "shm: a second transmitter on the same name is refused")                                \
    X(u64, INSTANCE, impair_seed, 1, 0, UINT64_MAX, "impair+: seed of every decision")                                               \
    X(u32, INSTANCE, impair_loss_ppm, 0, 0, 1000000, "impair+: packets lost, in parts per million")                                  \
    X(u32, INSTANCE, impair_burst_packets, 1, 1, 1000000, "impair+: mean length of a run of losses")                                 \
    X(u32, INSTANCE, impair_duplicate_ppm, 0, 0, 1000000, "impair+: packets sent twice")                                             \
    X(u32, INSTANCE, impair_reorder_ppm, 0, 0, 1000000, "impair+: packets held back behind later ones")                              \
    X(u32, INSTANCE, impair_corrupt_ppm, 0, 0, 1000000, "impair+: packets with flipped bits or cut short")                           \
    X(u64, INSTANCE, impair_delay_ns, 0, 0, 10000000000, "impair+: every received packet is late by a random time up to this")       \
    X(u32, INSTANCE, check_source, 1, 0, 1, "refuse a packet that announces an address of another host than it came from")


struct llm_options {
    size_t size; /* sizeof(struct llm_options), set by llm_options_init() */
#define LLM_OPTION_FIELD_u32(name, min, max) uint32_t name;
#define LLM_OPTION_FIELD_u64(name, min, max) uint64_t name;
#define LLM_OPTION_FIELD_str(name, min, max) char name[max];
#define LLM_OPTION_FIELD_word(name, tag, max) enum tag name;
#define LLM_OPTION_FIELD(type, scope, name, def, min, max, text) LLM_OPTION_FIELD_##type(name, min, max)
    LLM_OPTIONS(LLM_OPTION_FIELD)
#undef LLM_OPTION_FIELD
#undef LLM_OPTION_FIELD_u32
#undef LLM_OPTION_FIELD_u64
#undef LLM_OPTION_FIELD_str
#undef LLM_OPTION_FIELD_word
};

/* Fills *options with the defaults. */
LLM_API void llm_options_init(struct llm_options *options);

/* --------------------------------------------------------------------------------------------- transmitter */

/*
 * A session: a random 64-bit identity, one sequence of packets, one history for repairs, many topics.
 */
struct llm_transmitter;

/* A named flow of messages within a session. */
struct llm_topic;

/*
 * Opens a transmitter on a channel and announces its session on the network. options may be NULL. Allocates; may
 * block while the transport opens. *transmitter belongs to the context and is closed with
 * llm_transmitter_close(). A context with a transmitter has to be polled as well: llm_poll() sends repairs and
 * heartbeats. LLM_EINVAL, LLM_EVERSION, LLM_ESCHEME, LLM_EOPTION, LLM_EGROUP, LLM_EINTERFACE, LLM_EADDRINUSE,
 * LLM_EACCESS, LLM_ENOMEM, LLM_ELIMIT (descriptors, groups), LLM_ESTATE (inside a handler), LLM_ESYSTEM.
 */
LLM_API int llm_transmitter_open(struct llm_context *context, const char *channel, const struct llm_options *options,
                                 struct llm_transmitter **transmitter);

/*
 * Ends the session and closes the transmitter with its topics. Blocks, polling the context, until every known
 * receiver has all messages and messages of assured topics are acknowledged, or linger_ns has passed (at once if
 * linger_ns is 0); receivers of the same context may deliver meanwhile. Returns the number of known receivers
 * that did not report to have everything, but at least 1 if messages of assured topics were not acknowledged:
 * LLM_EVENT_UNACKNOWLEDGED with LLM_REASON_CLOSED reports these before the call returns, once for each topic.
 * *transmitter becomes NULL; NULL in it is allowed. LLM_ESTATE inside a handler: nothing is closed then.
 */
LLM_API int llm_transmitter_close(struct llm_transmitter **transmitter);

/* Returns the identity of the session; random, never used again. */
LLM_API uint64_t llm_transmitter_session(const struct llm_transmitter *transmitter);

/* Returns the number that the next message will have; the first message of a session has number 0. */
LLM_API uint64_t llm_transmitter_next(const struct llm_transmitter *transmitter);

/* Returns the number of receivers known by their status reports. */
LLM_API uint32_t llm_transmitter_receivers(const struct llm_transmitter *transmitter);

/*
 * Polls the context until at least this many receivers are known or timeout_ns has passed, waiting as llm_wait()
 * does. Blocks; handlers may run meanwhile. Returns the number of known receivers: fewer than asked for if the
 * time has passed. A receiver reports when it has found the session, and gets the messages sent from then on.
 * LLM_ELIMIT: more than receivers_max; LLM_ESTATE inside a handler.
 */
LLM_API int llm_transmitter_wait(struct llm_transmitter *transmitter, uint32_t receivers, uint64_t timeout_ns);

enum llm_topic_flags {
    LLM_TOPIC_WHOLE = 1, /* messages that fit into one packet never span two */
    LLM_TOPIC_UNRELIABLE = 2, /* each message is sent once: losses are reported (LLM_REASON_UNRELIABLE), not repaired or waited for */
    LLM_TOPIC_NO_HISTORY = 4, /* messages are repaired for current receivers; late joiners get none of those sent before */
};

/*
 * Opens a topic and announces it in the stream. name: 1 to 255 bytes, with LLM_TOPIC_NO_HISTORY 253, unique in
 * the transmitter; flags: of enum llm_topic_flags. Belongs to the transmitter and is closed with it. Allocates.
 * Allowed in handlers. LLM_EINVAL, LLM_ELIMIT (topics_max), LLM_EAGAIN (the history is full of unsent packets),
 * LLM_ESTATE (a claim is open), LLM_ENOMEM.
 */
LLM_API int llm_topic_open(struct llm_transmitter *transmitter, const char *name, unsigned flags, struct llm_topic **topic);

/*
 * Receivers that have to acknowledge the messages of a topic, and bounds of what may be unacknowledged. A
 * receiver acknowledges a message once it was delivered to the handler, or with acknowledge=application by
 * llm_receiver_acknowledge(); it never acknowledges a lost message, or one of a topic that its accept predicate refused.
 */
struct llm_assurance {
    size_t size;           /* sizeof(struct llm_assurance), set by llm_assurance_init() */
    uint32_t receivers;    /* number of receivers that have to acknowledge, 0: by name only; default 1 */
    const char *names;     /* receivers that have to as well, by their option receiver_name: separated by commas, at most 16; NULL:
                              none */
    uint64_t messages_max; /* messages that may be unacknowledged, 1 to 1048576; default 1024 */
    uint64_t bytes_max;    /* bytes that may be unacknowledged, at most half of history_bytes; 0 (default): a quarter of history_bytes */
    uint64_t patience_ns;  /* time without progress after which LLM_EVENT_UNACKNOWLEDGED is reported, with the reason; default 1 s */
};

/* Fills *assurance with the defaults. */
LLM_API void llm_assurance_init(struct llm_assurance *assurance);

/*
 * Assures a topic: from now on a message that would exceed the bounds is refused with LLM_EAGAIN, and
 * acknowledgements are reported to the transmitter's event handler. A later call replaces the assurance, also
 * for messages not acknowledged yet; NULL ends it: messages not acknowledged by then are never reported.
 * *assurance is copied. Unacknowledged packets stay in the history, so that receivers which join get them: when
 * it is full of them and of packets sent since, every topic of the transmitter is refused with LLM_EAGAIN. Use
 * another transmitter for messages that must not wait. Allocates. Allowed in handlers. LLM_EINVAL: no receiver
 * to acknowledge, a bound or a name out of its range, or a topic with LLM_TOPIC_UNRELIABLE or
 * LLM_TOPIC_NO_HISTORY; LLM_ELIMIT: more receivers than receivers_max, or a 17th topic of this transmitter;
 * LLM_ESTATE: a claim is open; LLM_EVERSION, LLM_ENOMEM.
 */
LLM_API int llm_topic_assure(struct llm_topic *topic, const struct llm_assurance *assurance);

/*
 * Last value cache (LVC) of a topic: messages that late joiners with LLM_JOIN_LATEST get even if the history no
 * longer has them. With messages=1 it holds the last value of the topic.
 */
struct llm_cache {
    size_t size;        /* sizeof(struct llm_cache), set by llm_cache_init() */
    uint64_t messages;  /* number of last messages to cache, 1 to 1048576; default 1 */
    uint64_t bytes_max; /* longest message with its attributes; default 256. Each cached message takes this much memory and up to 28
                           bytes more */
};

/* Fills *keep with the defaults. */
LLM_API void llm_cache_init(struct llm_cache *keep);

/*
 * Gives a topic a last value cache, which holds copies of its last messages for the life of the topic; once for
 * each topic. keep may be NULL for the defaults; it is copied. Messages longer than bytes_max are refused with
 * LLM_EMSGSIZE. Allocates. Allowed in handlers. LLM_EINVAL: a bound out of its range, a topic with
 * LLM_TOPIC_NO_HISTORY, or of a connection; LLM_ELIMIT: the caches of all topics of the transmitter together
 * would take more than cache_bytes; LLM_ESTATE: the topic has a cache already, or a claim is open; LLM_EVERSION,
 * LLM_ENOMEM.
 */
LLM_API int llm_topic_cache(struct llm_topic *topic, const struct llm_cache *keep);

/* Rate limits in bytes per second; 0: no limit, else 64 KiB/s to 64 GiB/s. */
struct llm_rate {
    size_t size;                 /* sizeof(struct llm_rate), set by llm_rate_init() */
    uint64_t bytes_per_s;        /* new data: packets of a transmitter, as the transport carries them; messages of a topic */
    uint64_t repair_bytes_per_s; /* repairs; 0 for a topic */
};

/* Fills *rate with no limits. */
LLM_API void llm_rate_init(struct llm_rate *rate);

/*
 * Limits the rates of a transmitter from now on, in place of the options rate_bytes_per_s and
 * repair_rate_bytes_per_s. Up to 256 packets over the limit wait; then messages are refused with LLM_EAGAIN, as
 * by flow control. Repairs over their limit wait. The lowest of several limits applies. Allowed in handlers.
 * LLM_EINVAL: a limit out of its range, or less than that of one of the transmitter's topics. LLM_EVERSION.
 */
LLM_API int llm_transmitter_limit_rate(struct llm_transmitter *transmitter, const struct llm_rate *rate);

/*
 * Limits the rate of a topic from now on: messages over it are refused with LLM_EAGAIN, and llm_context_deadline() is
 * when the next may be sent. Repairs have no limit by topic, as a packet has messages of several. Allowed in
 * handlers. LLM_EINVAL: a limit out of its range, or more than the transmitter's, or one for repairs.
 * LLM_ESTATE: a claim is open. LLM_EVERSION.
 */
LLM_API int llm_topic_limit_rate(struct llm_topic *topic, const struct llm_rate *rate);

enum llm_send_flags {
    LLM_SEND_MORE = 1, /* another message follows at once: only pack this one, the next send, flush or poll sends it */
    LLM_SEND_NOW = 2,  /* send now, even if the transport is busy */
};

/*
 * Sends a message of size bytes (0 to message_bytes_max). The bytes are copied; the number of the message is
 * llm_transmitter_next(). It leaves before the call returns if the transport is idle. After a flush the
 * transport counts as busy for as long as that flush took; messages sent meanwhile fill packets, and all leave
 * in one flush with the next send that finds the transport idle, with llm_transmitter_flush(), or with llm_poll(), whichever
 * comes first. There is no timer to wait for. LLM_EMSGSIZE: longer than message_bytes_max, or than the history
 * can hold; LLM_EAGAIN: the transport does not take packets and the history is full of unsent ones, flow control
 * or a rate limit blocks, too much of an assured topic is not acknowledged, or another thread has a claim open:
 * poll and try again, or llm_topic_wait(); LLM_ESTATE: a claim of this thread is open, or the connection is
 * over; LLM_EINVAL: unknown flags, or bytes at NULL.
 */
LLM_API int llm_send(struct llm_topic *topic, const void *data, size_t size, unsigned flags);

/*
 * Waits after LLM_EAGAIN: polls the context until the topic would take a message of size bytes, attributes
 * included, or timeout_ns has passed, waiting as llm_wait() does. Blocks; handlers may run meanwhile. Also waits
 * for a claim of another thread. LLM_OK: a message would be taken now, unless another thread is faster;
 * LLM_EAGAIN: the time has passed; LLM_EMSGSIZE, LLM_ESTATE as llm_send(), and inside a handler.
 *
 * An application with its own loop polls, tries again, and sleeps on llm_context_fd() until llm_context_deadline(): everything
 * that makes room wakes it by one of these.
 */
LLM_API int llm_topic_wait(struct llm_topic *topic, size_t size, uint64_t timeout_ns);

/*
 * Sends a message gathered from count pieces, else as llm_send(). LLM_EINVAL: count is negative, or a piece has
 * bytes at NULL.
 */
LLM_API int llm_sendv(struct llm_topic *topic, const struct iovec *pieces, int count, unsigned flags);

enum { LLM_BITMAP_BITS_MAX = 256 };

enum llm_property_type {
    LLM_PROPERTY_INT32 = 1,
    LLM_PROPERTY_INT64 = 2,
    LLM_PROPERTY_DOUBLE = 3,
    LLM_PROPERTY_BYTES = 4,
};

/* A property of a message; applications agree on the meaning of codes. */
struct llm_property {
    uint16_t code;
    enum llm_property_type type;
    union {
        int32_t int32;
        int64_t int64;
        double float64;
        struct {
            const void *data;
            uint32_t size;
        } bytes;
    } value;
};

/* Attributes of a message, for receivers with a filter: llm_receiver_filter(). */
struct llm_attributes {
    size_t size;          /* sizeof(struct llm_attributes), set by llm_attributes_init() */
    uint32_t label;       /* default 0, which is also the label of messages without attributes */
    uint32_t bitmap_bits; /* 0 to LLM_BITMAP_BITS_MAX; default 0: all bits are clear */
    const void *bitmap;   /* (bitmap_bits + 7) / 8 bytes; bit n is bit n % 8, from the lowest, of byte n / 8 */
    const struct llm_property *properties; /* for selectors; no code twice */
    uint32_t properties_count;             /* default 0 */
};

/* Fills *attributes with the defaults. */
LLM_API void llm_attributes_init(struct llm_attributes *attributes);

/*
 * Sends a message with attributes, else as llm_send(). A label alone takes 7 bytes; a bitmap 1 byte more and its
 * own bytes; a property 3 bytes and its value, 2 more for LLM_PROPERTY_BYTES; a packet of such messages 15.
 * LLM_EINVAL: too many bits, a repeated code, or an unknown type; LLM_EMSGSIZE: also if the attributes take more
 * than 512 bytes, or do not fit into a packet.
 */
LLM_API int llm_send_with(struct llm_topic *topic, const void *data, size_t size, const struct llm_attributes *attributes,
                          unsigned flags);

/*
 * Claims size bytes in the history itself, where the caller builds the message in place, without a copy. *data
 * is writable until llm_topic_commit() or llm_topic_abort(). One claim at a time per transmitter, from any thread: while it
 * is open, other calls on topics of the transmitter are LLM_EAGAIN from other threads, and LLM_ESTATE from the
 * thread that made it. llm_poll() and llm_transmitter_flush() do not send messages packed before it until it is committed or
 * aborted. size: at most llm_transmitter_claim_max(). LLM_EMSGSIZE, LLM_EAGAIN, LLM_ESTATE as llm_send().
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
 * Sends packed messages. 0, or LLM_EAGAIN if the transport did not take all of them, or flow control or a rate
 * limit blocks some: the rest leaves with llm_poll().
 */
LLM_API int llm_transmitter_flush(struct llm_transmitter *transmitter);

/* ------------------------------------------------------------------------------------------------ receiver */

/*
 * A receiver joins a channel, follows every session on it that its accept predicate accepts, and delivers
 * messages and events in order; with order=arrival, messages as they arrive (llm_options(7)).
 */
struct llm_receiver;

struct llm_message {
    const void *data;     /* valid until the handler returns */
    uint32_t size;        /* in bytes */
    uint32_t topic_id;    /* the topic's number in its session */
    const char *topic;    /* name of the topic, "" if it could not be learned; valid as long as the session is followed */
    uint64_t number;      /* counts the messages of the session, over all topics, from 0 */
    uint64_t session;
    uint64_t received_at; /* CLOCK_REALTIME ns, by the kernel, of the packet that completed the message; 0 without timestamps=1 */
};

/* Handlers of a transmitter. They run under the same rules as struct llm_receiver_handlers. */
struct llm_transmitter_handlers {
    size_t size; /* sizeof(struct llm_transmitter_handlers) */
    void *arg;   /* passed to each handler */
    void (*event)(void *arg, const struct llm_event *event); /* events of the transmitter and its receivers; NULL: logged as warnings */
};

/* Sets the size and makes every handler NULL. */
LLM_API void llm_transmitter_handlers_init(struct llm_transmitter_handlers *handlers);

/* Replaces the handlers of a transmitter; *handlers is copied. LLM_EINVAL, LLM_EVERSION. */
LLM_API int llm_transmitter_handle(struct llm_transmitter *transmitter, const struct llm_transmitter_handlers *handlers);

/*
 * Suspends a receiver by hand. With on, NAKs of the receiver (its identity in struct llm_verdict), or of all
 * receivers with 0, are not answered from now on, and its queued repairs are dropped; the receiver is notified.
 * Applies whatever the option slow says. A receiver named by its identity is suspended, too. Without on, NAKs
 * are answered again. Allowed in handlers. LLM_ENOTFOUND: no such receiver is known.
 */
LLM_API int llm_transmitter_shed(struct llm_transmitter *transmitter, uint64_t receiver, bool on);

struct llm_source {
    uint64_t session;
    const char *topic; /* NULL: accept the session as a whole; else: accept this topic of it; asked once, when the topic is announced */
};

/* Position at which a receiver begins with a session. */
struct llm_join {
    enum llm_join_mode mode;
    uint64_t value;
};

/*
 * Handlers run inside llm_poll(), llm_wait() and the close functions. From them the application may send, flush, open topics
 * and read statistics of the same context; polling, and opening or closing anything else, is refused with LLM_ESTATE.
 */
struct llm_receiver_handlers {
    size_t size; /* sizeof(struct llm_receiver_handlers) */
    void *arg;   /* passed to each handler */
    void (*message)(void *arg, const struct llm_message *message); /* NULL: messages are counted and dropped */
    void (*event)(void *arg, const struct llm_event *event);       /* NULL: events are logged, gaps as warnings */
    bool (*accept)(void *arg, const struct llm_source *source);    /* NULL: everything is accepted */
    /* Takes count messages, one or more, that arrived together and are next in order; replaces message. */
    void (*messages)(void *arg, const struct llm_message *messages, int count);
    /*
     * Called once for each accepted session, before LLM_EVENT_SESSION_NEW, to choose where to begin. *join is
     * the choice of the options and may be changed. NULL: as the options say. Older messages come by unicast
     * from the transmitter's history, then LLM_EVENT_LIVE, then live messages, none twice and none missing that
     * is not reported in a gap. A session less than a second old begins with its message 0 in any mode but
     * LLM_JOIN_NUMBER, and no session begins after the first unacknowledged message of its assured topics.
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
 * Opens a receiver on a channel. options may be NULL; handlers is copied. Allocates; may block while the transport opens.
 * Errors as llm_transmitter_open().
 */
LLM_API int llm_receiver_open(struct llm_context *context, const char *channel, const struct llm_options *options,
                              const struct llm_receiver_handlers *handlers, struct llm_receiver **receiver);

/*
 * Acknowledges, with acknowledge=application, every message of the session up to this number, over all topics,
 * except lost ones. Allowed in handlers, also for the message being delivered. LLM_ENOTFOUND: no such session is
 * followed; LLM_EINVAL: the message was not delivered yet; LLM_ESTATE: the library acknowledges. The
 * acknowledgement is sent with the next report: llm_poll() sends that at once if the transmitter waits for it,
 * and llm_receiver_close() in any case, also of a session that ended.
 */
LLM_API int llm_receiver_acknowledge(struct llm_receiver *receiver, uint64_t session, uint64_t number);

enum {
    LLM_SUBJECTS_MAX = 4096, /* subjects that a receiver can subscribe to at a time */
};

/*
 * Subscribes to a subject: from now on the receiver delivers only topics that match one of its subjects and that
 * its accept predicate accepts. A subject is the name of a topic, or a pattern of names, of 1 to 255 bytes.
 * Names consist of elements separated by dots: an element * of the subject matches any one element, an element >
 * at its end one or more ("prices.*.bonds", "prices.>"). A receiver that never subscribed delivers every topic.
 *
 * Names are compared once, when a topic is announced or a subject is added or removed, and never for a message.
 * Subjects added after a topic was announced, and removed ones, take effect with the next llm_poll(). A topic
 * whose messages were discarded before is delivered from then on, but this receiver acknowledges none of its
 * messages (llm_topic_assure()) as long as it follows the session. Subscribing twice is the same as once.
 * Allocates. Allowed in handlers. LLM_EINVAL: empty, too long, or > not at the end; LLM_ELIMIT: more than
 * LLM_SUBJECTS_MAX; LLM_ENOMEM.
 */
LLM_API int llm_receiver_subscribe(struct llm_receiver *receiver, const char *subject);

/*
 * Removes a subject, as it was written. Without any subject left no topic is delivered. LLM_ENOTFOUND. Allowed
 * in handlers.
 */
LLM_API int llm_receiver_unsubscribe(struct llm_receiver *receiver, const char *subject);

enum {
    LLM_LABELS_MAX = 16,
    LLM_SELECTOR_MAX = 4096, /* bytes of a selector */
};

/* Name by which a selector refers to a property. */
struct llm_property_name {
    const char *name;
    uint16_t code;
};

/* A label matches if label & mask == match. */
struct llm_label_match {
    uint32_t mask;
    uint32_t match; /* must be 0 in bits that are not in mask */
};

/* Selects messages that meet every condition that is set. */
struct llm_filter {
    size_t size;              /* sizeof(struct llm_filter), set by llm_filter_init() */
    uint32_t labels_count;    /* 0 (default): any label */
    uint32_t bitmap_bits;     /* size of bitmap_mask and bitmap_match, 1 to LLM_BITMAP_BITS_MAX; further bits are ignored */
    const struct llm_label_match *labels; /* the label matches one of these; at most LLM_LABELS_MAX */
    const void *bitmap_mask;  /* NULL (default): any bitmap; laid out as in struct llm_attributes */
    const void *bitmap_match; /* bitmap & mask == match; NULL (default): at least one bit of the mask is set */
    /*
     * Condition over properties, in the subset of SQL-92 that JMS has: AND OR NOT, = <> < <= > >=, + - * /,
     * BETWEEN, IN, LIKE with ESCAPE, IS NULL, numbers, 'strings', TRUE and FALSE, with the standard's
     * precedence; llm_receiver_filter(3) describes it. A message is wanted if the condition is true; a property
     * that a message does not have makes its expression unknown, as NULL does. NULL (default): any properties.
     */
    const char *selector;
    const struct llm_property_name *names; /* properties that the selector uses; copied, like all of this structure */
    uint32_t names_count;
};

/* Fills *filter with the defaults: everything is wanted. */
LLM_API void llm_filter_init(struct llm_filter *filter);

/*
 * Sets the filter, which is copied: from the next packet on, messages that it does not select are not delivered.
 * They are counted as messages_rejected, and are not lost. Packets without a selected message, as far as labels
 * tell, are skipped whole and counted as packets_skipped. Messages without attributes have label 0 and no bit
 * set. NULL removes the filter. In sessions that were followed with a filter that has a condition this receiver
 * acknowledges nothing (llm_topic_assure()). Allowed in handlers. LLM_EINVAL: a condition that nothing can meet,
 * such as match with bits outside of mask, or too many of them, or a selector that cannot be compiled: the log
 * gives the column of the fault, in bytes from 1; LLM_EVERSION. The filter set before stays in effect then.
 */
LLM_API int llm_receiver_filter(struct llm_receiver *receiver, const struct llm_filter *filter);

/*
 * Returns the attributes of a message, in a message handler of a receiver with a filter (one without a condition
 * suffices). bitmap is valid until the handler returns; properties_count is the number of properties, and
 * properties is NULL: llm_message_property() reads one. The caller sets attributes->size. LLM_EINVAL: the
 * message is not one that the handler was called with; LLM_ESTATE: there is no filter; LLM_EVERSION.
 */
LLM_API int llm_message_attributes(struct llm_receiver *receiver, const struct llm_message *message,
                                   struct llm_attributes *attributes);

/*
 * Returns the property with this code, in the same handlers; its bytes are valid until the handler returns.
 * LLM_ENOTFOUND: the message has none.
 */
LLM_API int llm_message_property(struct llm_receiver *receiver, const struct llm_message *message, uint16_t code,
                                 struct llm_property *property);

/*
 * Leaves the channel, after a last report to each transmitter that may wait for one: deliveries and
 * acknowledgements so far, and that this receiver leaves. Does not wait for an answer. Sessions get no end
 * event. *receiver becomes NULL; NULL in it is allowed. LLM_ESTATE inside a handler.
 */
LLM_API int llm_receiver_close(struct llm_receiver **receiver);

/* ---------------------------------------------------------------------------------------------------- loop */

/*
 * Does all work that is due: sends packed messages, receives packets, delivers, sends NAKs, repairs and
 * heartbeats. Never blocks. Returns the number of messages and events delivered, or LLM_ESTATE inside a handler.
 */
LLM_API int llm_poll(struct llm_context *context);

/* Returns when llm_poll() has work to do even if no packet comes; UINT64_MAX if never. */
LLM_API uint64_t llm_context_deadline(const struct llm_context *context);

/*
 * Returns a file descriptor for applications that sleep: it becomes readable when a packet comes, and is armed
 * by this call. Call it before each sleep, then llm_poll() once more, and sleep (poll, epoll, until
 * llm_context_deadline()) only if that delivered nothing. The descriptor belongs to the context and stays the same. Room
 * after LLM_EAGAIN is made by a packet or by a deadline.
 */
LLM_API int llm_context_fd(struct llm_context *context);

/*
 * Polls until something was delivered or timeout_ns has passed, waiting as the context's wait mode says. Blocks.
 * Returns as llm_poll(). With UINT64_MAX it waits for ever; signals do not end it, so use a timeout where the
 * caller has to check something.
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

/* ----------------------------------------------------------------------------------------------- statistics */

struct llm_counter {
    const char *object; /* "transmitter udp://239.192.1.1:5001", "receiver ...", "transport udp"; valid while the object is open */
    const char *name;   /* "naks_received"; static; docs/statistics.md lists all */
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

/*
 * Write the bottleneck of a receiver or a transmitter over the latest complete watch_ns of struct
 * llm_context_options to *bottleneck. Allowed in handlers. LLM_ESTATE: the watch does not run; LLM_EAGAIN: the
 * first watch_ns is not over.
 */
LLM_API int llm_receiver_bottleneck(const struct llm_receiver *receiver, struct llm_bottleneck *bottleneck);
LLM_API int llm_transmitter_bottleneck(const struct llm_transmitter *transmitter, struct llm_bottleneck *bottleneck);

/* A receiver, according to its latest report. */
struct llm_congestion {
    uint64_t receiver;        /* identity of the receiver */
    uint64_t heard_at;
    uint64_t rtt_ns;          /* 0: not measured */
    uint64_t lag_packets;     /* packets sent by then that it neither had nor gave up */
    uint64_t window_packets;  /* packets that its window holds */
    uint64_t naks;            /* NAKs that it sent since it follows the session; the same interval for the next two */
    uint64_t packets_lost;
    uint64_t packets_dropped; /* dropped by its host, an upper bound; 0 if it runs no watch */
    bool reports;             /* true: it runs a watch, and bottleneck is its result */
    struct llm_bottleneck bottleneck;
};

/*
 * Writes up to max of the receivers known to a transmitter, and returns their number, which may be more. Allowed
 * in handlers.
 */
LLM_API int llm_transmitter_congestion(const struct llm_transmitter *transmitter, struct llm_congestion *receivers, int max);

#ifdef __cplusplus
}
#endif

#include <llm/connection.h>

#endif
