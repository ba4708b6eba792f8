# SPDX-License-Identifier: Apache-2.0
# Written by generate.py from the headers of the C library.
"""Options of channels."""
import dataclasses

from . import _enums


@dataclasses.dataclass
class Options:
    """Options of a channel; llm_options(7) describes them."""

    #: interface by name or address; empty: that of the route to the group, else the first usable one
    interface: str = ""
    #: receive packets from this source address only (source-specific join); empty: any source
    source: str = ""
    #: hops that multicast packets may take
    ttl: int = 1
    #: further groups or hosts that a transmitter sends to: host:port, separated by commas
    destinations: str = ""
    #: deliver multicast packets to receivers on this host too
    loop: int = 1
    #: largest IP packet to send, in bytes; 0: the interface's, at most 9000
    mtu: int = 0
    #: socket receive buffer to request; roce: of the receive queue
    rcvbuf_bytes: int = 16777216
    #: socket send buffer to request
    sndbuf_bytes: int = 4194304
    #: packets sent as one (UDP_SEGMENT); 1: none; 0: 16, or as many as fit if no switch follows
    gso_packets: int = 0
    #: receive trains as one (UDP_GRO)
    gro: int = 1
    #: microseconds that the kernel polls the device before it sleeps (SO_BUSY_POLL)
    busy_poll_us: int = 0
    #: have the kernel stamp received packets (struct llm_message, received_at)
    timestamps: int = 0
    #: memory of packets retained for repair, headers included
    history_bytes: int = 25165824
    #: packets retained for repair; a power of two
    history_packets: int = 65536
    #: longest message sent or received
    message_bytes_max: int = 16777216
    #: topics in a session, sent or received
    topics_max: int = 16384
    #: count messages and bytes of each topic, for the counters file
    topic_counters: int = 0
    #: receivers that a transmitter knows by their status
    receivers_max: int = 1024
    #: sessions that a receiver follows at a time
    sessions_max: int = 16
    #: packets that a receiver can buffer after a gap; a power of two
    window_packets: int = 16384
    #: memory of packets buffered after gaps, all sessions together
    reorder_bytes: int = 12582912
    #: shortest time from the last packet to the first heartbeat
    heartbeat_ns_min: int = 30000
    #: longest interval of idle heartbeats, which doubles up to this
    heartbeat_ns_max: int = 100000000
    #: interval of heartbeats while messages flow
    heartbeat_ns_busy: int = 10000000
    #: interval of a receiver's status reports, times receivers / 10
    status_ns: int = 100000000
    #: silence of a session after which it is reported
    silence_ns: int = 500000000
    #: silence of a session after which it ends
    session_timeout_ns: int = 10000000000
    #: wait before the first NAK of a gap, for networks that reorder
    nak_delay_ns: int = 0
    #: up to this many receivers the first NAK has no back-off
    nak_receivers_immediate: int = 8
    #: least range of the random back-off with more receivers
    nak_backoff_ns_min: int = 50000
    #: shortest interval of NAKs for the same packet
    nak_retry_ns_min: int = 50000
    #: longest interval of NAKs for the same packet
    nak_retry_ns_max: int = 10000000
    #: time after which a packet that is not repaired is reported lost
    nak_giveup_ns: int = 10000000000
    #: open, paced (a rate that receivers keep up with) or window (limits the lag of receivers)
    flow: _enums.Flow = _enums.Flow.OPEN
    #: where sessions begin: live, oldest, messages, time (join_messages, join_ns back), latest
    join: _enums.JoinMode = _enums.JoinMode.LIVE
    #: join=messages: number of messages back; latest: cached messages of each topic; default, LLM_JOIN_ALL: all
    join_messages: int = 18446744073709551615
    #: join=time: time back
    join_ns: int = 0
    #: if that is no longer retained: oldest, live, or refuse, and the session is not followed
    join_else: _enums.JoinElse = _enums.JoinElse.OLDEST
    #: delivery of messages in the sequence of sending, or each on its arrival (arrival)
    order: _enums.Order = _enums.Order.SEQUENCE
    #: paced, window: packets by which receivers may lag
    flow_window_packets: int = 4096
    #: paced, window: bytes of the history by which receivers may lag, at most half of it; 0: half
    flow_window_bytes: int = 0
    #: paced, window: share of the receivers that have to keep up
    flow_quorum_percent: int = 50
    #: paced: maximum rate; 0: none
    flow_bytes_per_s_max: int = 0
    #: maximum rate of new data, for every flow; 0: no limit
    rate_bytes_per_s: int = 0
    #: maximum rate of repairs, overrides the next two; 0: no limit
    repair_rate_bytes_per_s: int = 0
    #: repairs may take this share of the bytes of new data
    repair_percent: int = 50
    #: repairs may always take this many bytes a second
    repair_bytes_per_s: int = 33554432
    #: time in which a repaired packet is not repaired again, at least one round trip
    repair_linger_ns: int = 20000
    #: bytes a second for receivers that join late, all together
    replay_bytes_per_s: int = 33554432
    #: memory of the last value caches of all topics of a transmitter, together
    cache_bytes: int = 67108864
    #: age after which packets count as gone; 0: no age limit
    history_ns: int = 0
    #: strongest action against slow receivers: off, report, warn, unicast, suspend or expel
    slow: _enums.Slow = _enums.Slow.SUSPEND
    #: a receiver is suspended for this many NAKs a second
    slow_naks_per_s: int = 10000
    #: ... for requesting this share of the packets again
    slow_nak_ppm: int = 150000
    #: ... for a lag of this many packets; 0: three quarters of the history
    slow_lag_packets: int = 0
    #: ... for a lag of this many bytes of the history; 0: never
    slow_lag_bytes: int = 0
    #: ... for a lag of this time; 0: never
    slow_lag_ns: int = 0
    #: ... for owing an acknowledgement of an assured topic for this time; 0: never
    slow_ack_ns: int = 0
    #: ... for a silence of this time, times receivers / 10; 0: 9/5 of status_ns
    slow_silence_ns: int = 0
    #: share of these thresholds at which a receiver is warned
    slow_warn_percent: int = 50
    #: share of these thresholds at which its repairs no longer go to the group
    slow_unicast_percent: int = 75
    #: time for which NAKs have to be too many before a suspension
    slow_patience_ns: int = 2000000000
    #: time below the thresholds after which a receiver is readmitted
    slow_recover_ns: int = 1000000000
    #: time of suspension after which a receiver is expelled
    slow_expel_ns: int = 30000000000
    #: time after which an expelled receiver may return; 0: never
    slow_rejoin_ns: int = 10000000000
    #: name of a receiver, by which transmitters wait for it to acknowledge; empty: none
    receiver_name: str = ""
    #: acknowledger of messages: library (when delivered) or application (llm_receiver_acknowledge)
    acknowledge: _enums.Acknowledger = _enums.Acknowledger.LIBRARY
    #: connections of a listener at a time, including those that wait to be accepted
    connections_max: int = 64
    #: time after which a connection that is not established is given up
    connect_timeout_ns: int = 5000000000
    #: time for which llm_transmitter_close() waits for receivers to get everything
    linger_ns: int = 1000000000
    #: refuse a packet that announces an address of another host than its source
    check_source: int = 1
    #: ask stores for what a transmitter no longer has, for late joins and repairs
    stores: int = 1
    #: time for which a late join waits for stores to answer
    store_wait_ns: int = 100000000
    #: name of the stream, whose numbers go on when its transmitter restarts; empty: none
    stream: str = ""
    #: number that the first message has in the stream
    stream_base: int = 0
    #: term in the stream: receivers leave lower terms for the highest
    stream_term: int = 0
    #: file of group keys, with which packets are encrypted and authenticated; empty: in clear
    keys: str = ""
    #: with keys: encrypt messages, or only authenticate them
    keys_mode: _enums.KeysMode = _enums.KeysMode.ENCRYPT
    #: file of a private key, with which a transmitter signs its packets; empty: it does not
    seal: str = ""
    #: file of public keys of transmitters, by which packets that others forge are found; empty: none
    seal_keys: str = ""
    #: with seal_keys: a message is delivered once the packets before its end are sealed, and never if another member forged one
    seal_hold: int = 0
    #: receivers merge this session with others of its stream that send the same messages
    stream_merge: int = 0
