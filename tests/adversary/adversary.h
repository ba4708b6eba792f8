/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An adversary that reads every packet of a session, knows the identities, and sends packets of all types in
 * their names: well formed and false, at the bounds of every field, truncated, and with bits flipped. Packets
 * are built by the library's own codec, so a field that is added to the wire is in them at once. The maximum
 * cost of each kind of packet is in one table, kinds.c (docs/protocol.md section 11).
 *
 * The same packets go to whole contexts in virtual time (sim.c) and over real sockets (udp.c), which are judged
 * by the same table.
 */
#ifndef TESTS_ADVERSARY_H
#define TESTS_ADVERSARY_H

#include "core/wire/wire.h"

enum { ADVERSARY_MEMBERS = 4, ADVERSARY_HEARD = 64, ADVERSARY_PACKET_MAX = 1472 };

/* A receiver's latest report: forged reports and requests in its name start from this. */
struct adversary_member {
    uint64_t id;
    struct lli_wire_address address;
    struct lli_wire_status status;
};

/* Packet that was heard. */
struct adversary_heard {
    size_t size;
    uint8_t bytes[ADVERSARY_PACKET_MAX];
};

/* The adversary: packets heard, and the address for answers to it. */
struct adversary {
    uint64_t random;
    uint64_t made;                       /* packets forged so far; numbers invented identities */
    lli_ns now;                          /* by the clock of the driver, set before each call */
    lli_seq seq;                         /* of the next data packet */
    uint32_t number;                     /* of the next message, low half */
    struct lli_wire_heartbeat heartbeat; /* the latest of the session ... */
    lli_ns heartbeat_at;                 /* ... and when it was heard */
    struct adversary_member members[ADVERSARY_MEMBERS];
    uint32_t members_count;
    struct lli_wire_nak nak;  /* the latest; receiver 0: none */
    struct lli_wire_join ask; /* of a receiver that joins late, likewise */
    struct lli_wire_join fetch;
    struct lli_wire_join grant;
    struct lli_wire_connect connect;               /* latest one; id 0: none */
    struct adversary_heard heard[ADVERSARY_HEARD]; /* latest packet of every type */
    uint32_t heard_count;
    struct lli_wire_address announced; /* address in forged packets: its own, or that of a third party */
};

enum adversary_to { ADVERSARY_TO_GROUP, ADVERSARY_TO_TRANSMITTER, ADVERSARY_TO_RECEIVER };

struct adversary_packet {
    enum adversary_to to;
    uint32_t member; /* ADVERSARY_TO_RECEIVER: index of the receiver */
    size_t size;
    uint8_t bytes[ADVERSARY_PACKET_MAX];
};

/* Takes a packet of the session, or of a connecting peer. */
void adversary_hear(struct adversary *adversary, const uint8_t *packet, size_t size);

/* True once a session, a receiver and enough packets are known. */
bool adversary_knows(const struct adversary *adversary);

/* Returns a random number below a limit. */
uint64_t adversary_below(struct adversary *adversary, uint64_t limit);

/* True for a heartbeat with END: such heartbeats are kinds of their own. */
bool adversary_is_end(const struct adversary_packet *packet);

/* Returns the heartbeat that the transmitter would send now. */
struct lli_wire_heartbeat adversary_heartbeat(const struct adversary *adversary);

/* Returns the identity of a genuine receiver, or an invented one if there is none. */
uint64_t adversary_receiver(const struct adversary *adversary, uint32_t index);

/* ------------------------------------------------------------------------------------------------- costs */

/* X(name, text): costs of one kind of packets beyond those of the same run without them. */
#define ADVERSARY_COSTS(X)                                          \
    X(third, "packets to the address of a third party")             \
    X(third_bytes, "bytes of them")                                 \
    X(own, "packets to the adversary's address")                    \
    X(own_bytes, "bytes of them")                                   \
    X(asked, "NAKs, requests and queries of the genuine receivers") \
    X(reported, "their reports")                                    \
    X(silenced, "reports that they did not send")                   \
    X(repaired, "data packets sent again")                          \
    X(lost, "genuine messages not delivered, at each receiver")     \
    X(late, "delivered, but by more than a tenth of a second late") \
    X(forged, "messages delivered that nobody sent, or twice")      \
    X(named, "messages named in gaps")                              \
    X(events, "events told")                                        \
    X(ended, "sessions ended, or receivers suspended")              \
    X(operations, "basic blocks of the library executed")

struct adversary_cost {
#define ADVERSARY_COST_FIELD(name, text) uint64_t name;
    ADVERSARY_COSTS(ADVERSARY_COST_FIELD)
#undef ADVERSARY_COST_FIELD
};

/* Members of a world. */
enum adversary_profile {
    ADVERSARY_PLAIN,    /* a transmitter and two receivers */
    ADVERSARY_LOSSY,    /* the second receiver loses one packet in a hundred */
    ADVERSARY_LATE,     /* the second receiver joins late, and fetches the past, when the adversary begins */
    ADVERSARY_KEPT,     /* the same, from the last value cache */
    ADVERSARY_ASSURED,  /* both receivers have to acknowledge */
    ADVERSARY_NEWCOMER, /* another transmitter begins when the adversary is done */
    ADVERSARY_CALLS,    /* a connection */
    ADVERSARY_PROFILES
};

/* The address that a forged packet announces for answers. */
enum adversary_announces {
    ADVERSARY_OWN,
    ADVERSARY_THIRD,   /* that of a third party */
    ADVERSARY_SPOOFED, /* the same, and also as the packet's source address */
};

struct adversary_kind {
    const char *name;
    void (*forge)(struct adversary *adversary, struct adversary_packet *packet);
    enum adversary_profile profile;
    enum adversary_announces announces;
    uint32_t count;             /* number of packets */
    uint32_t gap_us;            /* time between two of them */
    struct adversary_cost most; /* maximum for all of them together, beyond adversary_slack() */
};

extern const struct adversary_kind adversary_kinds[];
extern const int adversary_kinds_count;

/* The cost allowed to packets of every kind: a few reports and answers, and the work of reading them. */
struct adversary_cost adversary_slack(const struct adversary_kind *kind);

/* True if the effect passes: messages sent later are delivered. */
bool adversary_is_survived(const struct adversary_kind *kind);

/* Reports each cost beyond its bound, or every cost if `all` is set. False: some cost is beyond its bound. */
bool adversary_judge(const struct adversary_kind *kind, const struct adversary_cost *cost, bool all);

/* ------------------------------------------------------------------------------------------------- kinds */

/* clang-format off */
#define ADVERSARY_FORGERS(X)                                                                                           \
    X(data_far) X(data_edge) X(data_beyond) X(data_next) X(data_ahead) X(data_contradicts) X(data_unrepaired)          \
    X(data_replayed) X(data_frames) X(data_middle) X(data_long) X(data_tags) X(data_tag) X(heartbeat_replayed)         \
    X(heartbeat_second) X(heartbeat_clock) X(heartbeat_past) X(heartbeat_lead) X(heartbeat_lead_max)                   \
    X(heartbeat_lead_low) X(heartbeat_receivers) X(heartbeat_end_below) X(heartbeat_end) X(heartbeat_end_ahead)        \
    X(heartbeat_interval) X(heartbeat_rtt) X(heartbeat_topics) X(heartbeat_report) X(heartbeat_held)                   \
    X(heartbeat_assured) X(heartbeat_address) X(heartbeat_foreign) X(heartbeat_trail) X(heartbeat_messages)            \
    X(session_old) X(session_young) X(session_many) X(session_followed) X(nak_all) X(nak_invented) X(nak_short) X(nak_genuine)      \
    X(nak_random) X(nak_overlap) X(nak_beyond) X(nak_gone) X(nak_nobody) X(status_invented) X(status_leaving)          \
    X(status_next) X(status_window) X(status_done) X(status_echo) X(status_acknowledges) X(status_crowd)               \
    X(status_healthy) X(query) X(ask) X(ask_crowd) X(fetch_all) X(fetch_overlap) X(fetch_genuine) X(latest)            \
    X(reject_gone) X(reject_gone_max) X(reject_pending) X(reject_unrepaired) X(reject_passed) X(notice_suspended)      \
    X(notice_expelled) X(notice_warned) X(notice_foreign) X(topics_names) X(topics_beyond) X(join_grant)               \
    X(join_refuse) X(seek) X(recall) X(offer) X(offer_gone) X(offer_answer) X(absent) X(kept_records) X(connect) X(connect_shown) X(connect_crowd) X(accept) X(refuse) X(close_left)      \
    X(close_unknown) X(cut) X(noise) X(flipped) X(extended) X(versions) X(bounds)
/* clang-format on */

#define ADVERSARY_FORGER(name) \
    void adversary_##name(struct adversary *adversary, struct adversary_packet *packet);
ADVERSARY_FORGERS(ADVERSARY_FORGER)
#undef ADVERSARY_FORGER

#endif
