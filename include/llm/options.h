/* SPDX-License-Identifier: Apache-2.0 */
/* Channels and their options. Included by <llm/llm.h>, which states the conventions. */
#ifndef LLM_OPTIONS_H
#define LLM_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <llm/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Closed choices of options. In a channel, each is the last word of its enumerator in lower case:
 * flow=window.
 */
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
/* Place where a receiver begins in a session. */
enum llm_join_mode {
    LLM_JOIN_LIVE = 0, /* with messages sent from now on */
    /* With the oldest message in the history; a little later if some of it is being overwritten. */
    LLM_JOIN_OLDEST = 1,
    LLM_JOIN_MESSAGES = 2, /* value messages back; with the first if fewer were sent */
    /* Value nanoseconds back, or a little earlier; with the first if the session is younger. */
    LLM_JOIN_TIME = 3,
    LLM_JOIN_NUMBER = 4, /* with message number value, for example the next one of an earlier run */
    /*
     * With the last value messages, or LLM_JOIN_ALL, in the last value cache of each topic
     * (llm_topic_cache()); then with messages sent from now on.
     */
    LLM_JOIN_LATEST = 5,
};

/* With LLM_JOIN_MESSAGES and LLM_JOIN_LATEST: as many messages as there are. */
#define LLM_JOIN_ALL UINT64_MAX

enum llm_acknowledger { LLM_ACKNOWLEDGE_LIBRARY = 0, LLM_ACKNOWLEDGE_APPLICATION = 1 };

/* Protection of the bodies of packets by keys; headers are authenticated with either. */
enum llm_keys_mode { LLM_KEYS_MODE_ENCRYPT = 0, LLM_KEYS_MODE_AUTHENTICATE = 1 };

/*
 * A channel names a transport, a group and a port: "udp://239.192.1.1:5001?interface=eth0&ttl=2", or
 * "udp://[ff15::1]:5001". The scheme is the transport: udp; bypass, the same sockets over a stack that was
 * loaded before the program; roce, where the library was built with it; loop. A prefix "impair+" puts a
 * seeded fault injector in front of it. Options follow the port.
 *
 * Over udp, bypass and xdp the group may be one host, "udp://10.0.0.2:5001": a receiver has to be at that
 * address, and a transmitter sends to it. With further hosts in the option destinations the same stream goes
 * to a list of hosts, each packet to each of them, where the network has no multicast.
 *
 * A channel of two lines is two channels with " + " between them: "udp://239.1.1.1:5001?interface=eth0 +
 * udp://239.1.2.1:5001?interface=eth1". Every packet is sent on both, and the first copy is delivered.
 *
 * Every option of struct llm_options can be given as key=value with the name of its field; the channel's
 * value overrides the structure's. Options of one transport or prefix, such as impair_..., can be given in a
 * channel whose scheme names it, and nowhere else: llm_options(7) lists them. Integers are decimal, with an
 * optional suffix K, M or G (powers of 1024, of nanoseconds too). One set of options serves both sides: a
 * transmitter ignores the options of receivers, and the reverse. Beyond the bounds below, heartbeat_ns_min <=
 * heartbeat_ns_max <= silence_ns <= session_timeout_ns, nak_retry_ns_min <= nak_retry_ns_max,
 * slow_warn_percent <= slow_unicast_percent, and more rules for slow_... in llm_options(7); history_bytes is
 * at least 16 packets, and flow_window_bytes, if not 0, at least 8. Channels of a context that agree in scheme,
 * address family and the options of scope INSTANCE share one instance of the transport; with keys they also have to
 * agree in host and port.
 *
 * X(type, scope, name, default, min, max, text): type is u32, u64, str (max is the array's size, with the
 * terminating zero) or word (min is the enum, max its last enumerator). scope is the object that reads the
 * option: INSTANCE (of the transport), SESSION (transmitters and receivers), TRANSMITTER, RECEIVER or
 * CONNECTION (connections and listeners).
 */
/* clang-format off */
#define LLM_OPTIONS(X)                                                                                                     \
    X(str, INSTANCE, interface, "", 0, 64, "interface by name or address; empty: that of the route to the group, else the first usable one") \
    X(str, RECEIVER, source, "", 0, 64, "receive packets from this source address only (source-specific join); empty: any source")   \
    X(u32, TRANSMITTER, ttl, 1, 0, 255, "hops that multicast packets may take")                                                         \
    X(str, TRANSMITTER, destinations, "", 0, 768, "further groups or hosts that a transmitter sends to: host:port, separated by commas")  \
    X(u32, TRANSMITTER, loop, 1, 0, 1, "deliver multicast packets to receivers on this host too")                                       \
    X(u32, INSTANCE, mtu, 0, 0, 65535, "largest IP packet to send, in bytes; 0: the interface's, at most 9000")                      \
    X(u32, INSTANCE, rcvbuf_bytes, 16777216, 4096, 1073741824, "socket receive buffer to request; roce: of the receive queue")        \
    X(u32, INSTANCE, sndbuf_bytes, 4194304, 4096, 1073741824, "socket send buffer to request")                                       \
    X(u32, INSTANCE, gso_packets, 0, 0, 128, "packets sent as one (UDP_SEGMENT); 1: none; 0: 16, or as many as fit if no switch follows") \
    X(u32, INSTANCE, gro, 1, 0, 1, "receive trains as one (UDP_GRO)")                                                                \
    X(u32, INSTANCE, busy_poll_us, 0, 0, 1000000, "microseconds that the kernel polls the device before it sleeps (SO_BUSY_POLL)")   \
    X(u32, INSTANCE, timestamps, 0, 0, 1, "have the kernel stamp received packets (struct llm_message, received_at)")                \
    X(u64, TRANSMITTER, history_bytes, 25165824, 65536, 68719476736, "memory of packets retained for repair, headers included")         \
    X(u32, TRANSMITTER, history_packets, 65536, 64, 16777216, "packets retained for repair; a power of two")                            \
    X(u32, SESSION, message_bytes_max, 16777216, 1, 16777216, "longest message sent or received")                                   \
    X(u32, SESSION, topics_max, 16384, 1, 1048576, "topics in a session, sent or received")                                         \
    X(u32, SESSION, topic_counters, 0, 0, 1, "count messages and bytes of each topic, for the counters file")                       \
    X(u32, TRANSMITTER, receivers_max, 1024, 1, 1048576, "receivers that a transmitter knows by their status")                          \
    X(u32, RECEIVER, sessions_max, 16, 1, 4096, "sessions that a receiver follows at a time")                                        \
    X(u32, RECEIVER, window_packets, 16384, 64, 1048576, "packets that a receiver can buffer after a gap; a power of two")           \
    X(u64, RECEIVER, reorder_bytes, 12582912, 65536, 68719476736, "memory of packets buffered after gaps, all sessions together")    \
    X(u64, TRANSMITTER, heartbeat_ns_min, 30000, 1000, 10000000000, "shortest time from the last packet to the first heartbeat")        \
    X(u64, TRANSMITTER, heartbeat_ns_max, 100000000, 1000, 10000000000, "longest interval of idle heartbeats, which doubles up to this") \
    X(u64, TRANSMITTER, heartbeat_ns_busy, 10000000, 1000, 10000000000, "interval of heartbeats while messages flow")                   \
    X(u64, SESSION, status_ns, 100000000, 1000000, 60000000000, "interval of a receiver's status reports, times receivers / 10")    \
    X(u64, RECEIVER, silence_ns, 500000000, 1000000, 3600000000000, "silence of a session after which it is reported")               \
    X(u64, RECEIVER, session_timeout_ns, 10000000000, 1000000, 3600000000000, "silence of a session after which it ends")            \
    X(u64, RECEIVER, nak_delay_ns, 0, 0, 10000000000, "wait before the first NAK of a gap, for networks that reorder")               \
    X(u32, RECEIVER, nak_receivers_immediate, 8, 0, 1048576, "up to this many receivers the first NAK has no back-off")              \
    X(u64, RECEIVER, nak_backoff_ns_min, 50000, 0, 10000000000, "least range of the random back-off with more receivers")            \
    X(u64, RECEIVER, nak_retry_ns_min, 50000, 1000, 10000000000, "shortest interval of NAKs for the same packet")                    \
    X(u64, RECEIVER, nak_retry_ns_max, 10000000, 1000, 10000000000, "longest interval of NAKs for the same packet")                  \
    X(u64, RECEIVER, nak_giveup_ns, 10000000000, 1000000, 3600000000000, "time after which a packet that is not repaired is reported lost") \
    X(word, TRANSMITTER, flow, LLM_FLOW_OPEN, llm_flow, LLM_FLOW_WINDOW, "open, paced (a rate that receivers keep up with) or window (limits the lag of receivers)") \
    X(word, RECEIVER, join, LLM_JOIN_LIVE, llm_join_mode, LLM_JOIN_LATEST, "where sessions begin: live, oldest, messages, time (join_messages, join_ns back), latest")  \
    X(u64, RECEIVER, join_messages, UINT64_MAX, 1, UINT64_MAX, "join=messages: number of messages back; latest: cached messages of each topic; default, LLM_JOIN_ALL: all") \
    X(u64, RECEIVER, join_ns, 0, 0, UINT64_MAX, "join=time: time back")                                                               \
    X(word, RECEIVER, join_else, LLM_JOIN_ELSE_OLDEST, llm_join_else, LLM_JOIN_ELSE_REFUSE, "if that is no longer retained: oldest, live, or refuse, and the session is not followed") \
    X(word, RECEIVER, order, LLM_ORDER_SEQUENCE, llm_order, LLM_ORDER_ARRIVAL, "delivery of messages in the sequence of sending, or each on its arrival (arrival)") \
    X(u32, TRANSMITTER, flow_window_packets, 4096, 16, 1048576, "paced, window: packets by which receivers may lag")                    \
    X(u64, TRANSMITTER, flow_window_bytes, 0, 0, 68719476736, "paced, window: bytes of the history by which receivers may lag, at most half of it; 0: half") \
    X(u32, TRANSMITTER, flow_quorum_percent, 50, 1, 100, "paced, window: share of the receivers that have to keep up")                  \
    X(u64, TRANSMITTER, flow_bytes_per_s_max, 0, 0, 68719476736, "paced: maximum rate; 0: none")                                        \
    X(u64, TRANSMITTER, rate_bytes_per_s, 0, 0, 68719476736, "maximum rate of new data, for every flow; 0: no limit")                   \
    X(u64, TRANSMITTER, repair_rate_bytes_per_s, 0, 0, 68719476736, "maximum rate of repairs, overrides the next two; 0: no limit")    \
    X(u32, TRANSMITTER, repair_percent, 50, 1, 1000, "repairs may take this share of the bytes of new data")                            \
    X(u64, TRANSMITTER, repair_bytes_per_s, 33554432, 65536, 68719476736, "repairs may always take this many bytes a second")           \
    X(u64, TRANSMITTER, repair_linger_ns, 20000, 0, 10000000000, "time in which a repaired packet is not repaired again, at least one round trip") \
    X(u64, TRANSMITTER, replay_bytes_per_s, 33554432, 65536, 68719476736, "bytes a second for receivers that join late, all together")  \
    X(u64, TRANSMITTER, cache_bytes, 67108864, 0, 68719476736, "memory of the last value caches of all topics of a transmitter, together")  \
    X(u64, TRANSMITTER, history_ns, 0, 0, 86400000000000, "age after which packets count as gone; 0: no age limit")                     \
    X(word, TRANSMITTER, slow, LLM_SLOW_SUSPEND, llm_slow, LLM_SLOW_EXPEL, "strongest action against slow receivers: off, report, warn, unicast, suspend or expel") \
    X(u32, TRANSMITTER, slow_naks_per_s, 10000, 1, 1000000000, "a receiver is suspended for this many NAKs a second")                   \
    X(u32, TRANSMITTER, slow_nak_ppm, 150000, 1, 1000000000, "... for requesting this share of the packets again")                    \
    X(u64, TRANSMITTER, slow_lag_packets, 0, 0, 16777216, "... for a lag of this many packets; 0: three quarters of the history")       \
    X(u64, TRANSMITTER, slow_lag_bytes, 0, 0, 68719476736, "... for a lag of this many bytes of the history; 0: never")                    \
    X(u64, TRANSMITTER, slow_lag_ns, 0, 0, 3600000000000, "... for a lag of this time; 0: never")                                       \
    X(u64, TRANSMITTER, slow_ack_ns, 0, 0, 3600000000000, "... for owing an acknowledgement of an assured topic for this time; 0: never") \
    X(u64, TRANSMITTER, slow_silence_ns, 0, 0, 3600000000000, "... for a silence of this time, times receivers / 10; 0: 9/5 of status_ns") \
    X(u32, TRANSMITTER, slow_warn_percent, 50, 1, 100, "share of these thresholds at which a receiver is warned")                       \
    X(u32, TRANSMITTER, slow_unicast_percent, 75, 1, 100, "share of these thresholds at which its repairs no longer go to the group")   \
    X(u64, TRANSMITTER, slow_patience_ns, 2000000000, 0, 3600000000000, "time for which NAKs have to be too many before a suspension")  \
    X(u64, TRANSMITTER, slow_recover_ns, 1000000000, 0, 3600000000000, "time below the thresholds after which a receiver is readmitted") \
    X(u64, TRANSMITTER, slow_expel_ns, 30000000000, 0, 3600000000000, "time of suspension after which a receiver is expelled")          \
    X(u64, TRANSMITTER, slow_rejoin_ns, 10000000000, 0, 3600000000000, "time after which an expelled receiver may return; 0: never")    \
    X(str, RECEIVER, receiver_name, "", 0, 32, "name of a receiver, by which transmitters wait for it to acknowledge; empty: none")    \
    X(word, RECEIVER, acknowledge, LLM_ACKNOWLEDGE_LIBRARY, llm_acknowledger, LLM_ACKNOWLEDGE_APPLICATION, "acknowledger of messages: library (when delivered) or application (llm_receiver_acknowledge)") \
    X(u32, CONNECTION, connections_max, 64, 1, 4096, "connections of a listener at a time, including those that wait to be accepted")   \
    X(u64, CONNECTION, connect_timeout_ns, 5000000000, 1000000, 3600000000000, "time after which a connection that is not established is given up") \
    X(u64, TRANSMITTER, linger_ns, 1000000000, 0, 3600000000000, "time for which llm_transmitter_close() waits for receivers to get everything") \
    X(u32, INSTANCE, check_source, 1, 0, 1, "refuse a packet that announces an address of another host than its source") \
    X(u32, RECEIVER, stores, 1, 0, 1, "ask stores for what a transmitter no longer has, for late joins and repairs")                    \
    X(u64, RECEIVER, store_wait_ns, 100000000, 1000000, 60000000000, "time for which a late join waits for stores to answer") \
    X(str, TRANSMITTER, stream, "", 0, 64, "name of the stream, whose numbers go on when its transmitter restarts; empty: none")       \
    X(u64, TRANSMITTER, stream_base, 0, 0, 4611686018427387904, "number that the first message has in the stream")                     \
    X(u32, TRANSMITTER, stream_term, 0, 0, 4294967295, "term in the stream: receivers leave lower terms for the highest") \
    X(str, INSTANCE, keys, "", 0, 256, "file of group keys, with which packets are encrypted and authenticated; empty: in clear")           \
    X(word, INSTANCE, keys_mode, LLM_KEYS_MODE_ENCRYPT, llm_keys_mode, LLM_KEYS_MODE_AUTHENTICATE, "with keys: encrypt messages, or only authenticate them") \
    X(str, TRANSMITTER, seal, "", 0, 256, "file of a private key, with which a transmitter signs its packets; empty: it does not")      \
    X(str, INSTANCE, seal_keys, "", 0, 256, "file of public keys of transmitters, by which packets that others forge are found; empty: none")  \
    X(u32, INSTANCE, seal_hold, 0, 0, 1, "with seal_keys: a message is delivered once the packets before its end are sealed, and never if another member forged one") \
    X(u32, TRANSMITTER, stream_merge, 0, 0, 1, "receivers merge this session with others of its stream that send the same messages")
/* clang-format on */

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

#ifdef __cplusplus
}
#endif

#endif
