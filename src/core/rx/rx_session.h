/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session as a receiver follows it: joins it, puts packets in order, asks for what is missing, and gives messages and
 * events in order. A pure state machine: packets and the time go in; messages, events and packets to send are pulled out.
 */
#ifndef LLI_RX_SESSION_H
#define LLI_RX_SESSION_H

#include <llm/llm.h>

#include "core/rx/delay.h"
#include "core/rx/gap.h"
#include "core/rx/reorder.h"
#include "core/rx/topics.h"
#include "core/tx/tx_session.h" /* struct lli_packet */
#include "core/pack/unpack.h"

/* X(name, text); of a receiver, all its sessions together. */
#define LLI_RX_COUNTERS(X)                                                                                                 \
    X(packets_received, "data packets received, repairs and duplicates included")                                          \
    X(bytes_received, "bytes of them")                                                                                     \
    X(messages_delivered, "messages delivered")                                                                            \
    X(messages_ahead, "of these, before their turn, as they arrived")                                                      \
    X(messages_refused, "messages on topics that no subject takes, or the accept predicate refused")                       \
    X(messages_stale, "messages of topics without history, sent before this receiver joined")                              \
    X(messages_rejected, "messages that the filter rejected")                                                              \
    X(packets_skipped, "packets passed over whole, as the filter rejects all that is in them")                              \
    X(messages_lost, "messages lost, each named in a gap event")                                                           \
    X(gaps, "gap events")                                                                                                  \
    X(packets_missed, "packets found missing; not those sent before this receiver joined")                                 \
    X(packets_recovered, "packets received after a NAK, those sent before it joined included")                             \
    X(packets_replayed, "packets of the past received, of sessions joined late")                                           \
    X(packets_passed, "packets of the past that were not sent, as all in them is of topics without history")               \
    X(packets_lost, "packets given up")                                                                                  \
    X(packets_unreliable, "of these, of unreliable topics: not repaired")                                                  \
    X(packets_duplicate, "packets received again")                                                                         \
    X(packets_reordered, "packets received before their turn")                                                             \
    X(packets_doubted, "packets dropped because nothing else told of so high a number, as of forged ones")                   \
    X(packets_stale, "packets of sessions that have ended")                                                                \
    X(window_overflow, "packets dropped because they lie beyond the window")                                               \
    X(reorder_full, "packets dropped because no memory was free to hold them")                                             \
    X(naks_sent, "NAKs sent")                                                                                              \
    X(nak_packets, "packets that they asked for")                                                                          \
    X(naks_held, "confirmations of others' NAKs received")                                                                 \
    X(rejects_received, "rejects received")                                                                                \
    X(notices_received, "notices of how this receiver is served")                                                          \
    X(status_sent, "status reports sent")                                                                                  \
    X(queries_sent, "topic queries sent")                                                                                  \
    X(joins_sent, "requests to begin in the past sent")                                                                    \
    X(joins_granted, "of these, granted")                                                                                  \
    X(joins_refused, "of these, refused, or never answered")                                                               \
    X(crowded, "times that a transmitter said it knows too many receivers to know this one, or sends the past to many") \
    X(fetches_sent, "requests for packets of the past sent")                                                               \
    X(kept_fetches_sent, "requests for messages that topics keep sent")                                                    \
    X(kept_packets_received, "packets of them received")                                                                   \
    X(kept_lost, "joins for which not all of them came, each told by an event")                                            \
    X(heartbeats_received, "heartbeats received")                                                                          \
    X(heartbeats_doubted, "of these, not believed as they contradict what was received")                                   \
    X(streams_receded, "returns to where heartbeats are, as packets that were given up were never sent")                   \
    X(sessions_new, "sessions followed")                                                                                   \
    X(sessions_ended, "sessions ended")                                                                                    \
    X(sessions_refused, "sessions refused by the accept predicate")                                                        \
    X(sessions_dropped, "packets of sessions beyond sessions_max")                                                         \
    X(control_malformed, "control packets that contradict themselves")                                                     \
    X(control_foreign, "control packets with another session's identity")                                                  \
    X(data_malformed, "data packets that contradict themselves or the one before")                                         \
    X(topics_unknown, "messages delivered without the name of their topic")

struct lli_rx_counters {
#define LLI_RX_COUNTER_FIELD(name, text) uint64_t name;
    LLI_RX_COUNTERS(LLI_RX_COUNTER_FIELD)
#undef LLI_RX_COUNTER_FIELD
};

/* What follows when a session cannot be joined where it was asked for. */
enum lli_rx_otherwise { LLI_RX_ELSE_OLDEST, LLI_RX_ELSE_LIVE, LLI_RX_ELSE_REFUSE };

struct lli_filter;
struct lli_former;

struct lli_rx_config {
    uint64_t receiver; /* random identity, not 0 */
    bool as_it_arrives; /* messages of packets that come before their turn are given at once */
    bool chooses;      /* where a session begins is asked by LLI_ITEM_JOIN; else with what is sent now */
    enum lli_rx_otherwise otherwise;
    struct lli_former *former; /* sessions that were forgotten, NULL: none is noted */
    bool resumes;      /* one of these that is heard again goes on where it ended, without LLI_ITEM_JOIN */
    bool unread;       /* packets may wait that were not read: no session is judged silent */
    uint32_t window_packets;
    uint32_t topics_max;
    bool counts_topics;
    uint32_t message_bytes_max;
    lli_ns nak_delay;
    uint32_t nak_receivers_immediate;
    lli_ns nak_backoff_min;
    lli_ns nak_retry_min;
    lli_ns nak_retry_max;
    lli_ns nak_giveup;
    lli_ns status;
    lli_ns silence;
    lli_ns timeout;
    const struct llm_bottleneck *limits; /* what limits the receiver, for its reports, NULL: nobody watches ... */
    const struct llm_bottleneck *limits_ever; /* ... and all that was counted for that */
    const struct lli_filter *filter; /* NULL: all messages are wanted; lli_rx_filter() follows where that changes */
    bool application_acknowledges; /* lli_rx_acknowledge(); else what was delivered is acknowledged */
    uint8_t name_size;
    char name[LLI_WIRE_RECEIVER_NAME_MAX + 1]; /* for those who wait for this receiver by name; empty: none */
    struct lli_wire_address address; /* where repairs and answers reach the receiver */
    bool confirms; /* few packets go to a transmitter that has not answered from the address that it announces */
};

/* A packet that came in, its header read by lli_wire_get_header(). */
struct lli_rx_packet {
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;
    const uint8_t *bytes; /* all of it */
    size_t size;
    uint64_t stamp_ns;    /* of its arrival, 0: not known */
};

enum lli_rx_state {
    LLI_RX_FREE = 0,
    LLI_RX_JOINING, /* packets came, but no heartbeat: not known yet */
    LLI_RX_ASKING,  /* known, but not where to begin; packets are held as before */
    LLI_RX_LIVE,
    LLI_RX_ENDED,   /* everything was delivered; the identity is kept to know late packets by */
    LLI_RX_REFUSED, /* not wanted; kept for the same reason */
};

enum lli_item_kind {
    LLI_ITEM_MESSAGES,
    LLI_ITEM_TOPIC, /* event: LLM_EVENT_TOPIC_NEW; lli_rx_topic_subscribe(), lli_rx_topic_refuse() may follow */
    LLI_ITEM_EVENT,
    LLI_ITEM_JOIN,  /* event.session: lli_rx_begin() or lli_rx_refuse() has to follow */
};

enum lli_rx_news { LLI_RX_NEW = 1, LLI_RX_SILENT = 2, LLI_RX_RESUMED = 4, LLI_RX_STANDING = 8, LLI_RX_RESOLVING = 16,
    LLI_RX_FILTERED = 32, /* stays: its messages are given by lli_rx_filtered_messages() */
    LLI_RX_TURN = 64, /* stays while a packet is unpacked of which messages were given before its turn */
    LLI_RX_REST = 128 /* the rest of a loss between whose messages some were given */ };

/* Messages that are given at a time: those of a packet, mostly. */
enum { LLI_ITEM_MESSAGES_MAX = 64 };

struct lli_item {
    enum lli_item_kind kind;
    int count;
    struct llm_event event;
    struct llm_message messages[LLI_ITEM_MESSAGES_MAX];
};

/* Of the frame of a message's attributes, what stands behind its size. */
struct lli_rx_frame {
    const uint8_t *bytes;
    uint32_t size; /* 0: it has none */
};

/* What was given of a packet before its turn, or found not to be wanted. */
struct lli_rx_mark {
    lli_seq seq;    /* of which packet this is */
    uint64_t first; /* the first message that starts in it */
    uint64_t end;   /* one past the last of these */
};

/* Delivery as it arrives: rx_ahead.c. */
struct lli_rx_unordered {
    struct lli_rx_mark *marks; /* by number of the packet, NULL: messages are given in order */
    struct lli_unpack unpack;  /* of the packet `seq`, of which messages are given before its turn */
    lli_seq seq;
    lli_seq from;              /* held packets from this one to the one before end may not have been looked into */
    lli_seq end;
    struct lli_rx_mark turn;   /* of the packet that is being unpacked in its turn, while LLI_RX_TURN is set */
    lli_seq dropped;           /* packets before this one were dropped that had given some, while LLI_RX_AGAIN is set */
    lli_seq lost;              /* the first packet of those given up that were not told of */
    struct lli_unpacked rest;  /* while LLI_RX_REST is set: what is told next of these, and why they are lost */
    enum llm_reason rest_reason;
};

struct lli_rx_held;

/* Of what topics keep, while it is fetched: rx_kept.c. */
struct lli_rx_lvc {
    struct lli_rx_held *held;    /* packets that came before their turn, by where they begin */
    uint32_t held_count;
    struct lli_wire_place next;  /* all before it was given */
    struct lli_reader records;   /* of the packet that is being read ... */
    struct lli_wire_place until; /* ... behind which is this place */
    bool reading;
    struct lli_wire_place part;  /* where the message that is being put together goes on */
    uint64_t number;             /* as granted: what is meant is messages before this one */
    uint64_t live;               /* what newer messages displaced meanwhile were displaced by messages before this one */
    uint64_t most;               /* of each topic, 0: all */
    uint32_t topics;             /* that may keep some: those before this one */
    enum llm_reason lost;        /* given up for this reason */
};

struct lli_rx {
    const struct lli_rx_config *config; /* shared by the sessions of a receiver, as the next three */
    struct lli_reorder *reorder;
    struct lli_rx_counters *counters;
    uint64_t *random;

    enum lli_rx_state state;
    uint32_t tag;
    uint64_t session;      /* 0 while joining */
    struct lli_gap gap;
    uint32_t *cells;       /* where present packets are held, by number */
    uint32_t chunks;       /* that the packets take which this session holds */
    struct lli_rx *sharing; /* the next session that shares the memory for them */
    struct lli_unpack unpack;
    struct lli_topics topics;
    struct lli_topic_count *topic_counts; /* by id, if they are counted */
    uint64_t stamp_ns;     /* of the packet that is being unpacked */

    /* From the latest heartbeat. */
    struct lli_wire_heartbeat heartbeat;
    lli_ns heartbeat_at;   /* when it came, 0: none yet */
    lli_seq lead_before;   /* lead and messages of the heartbeat before it, or of this one if it is the first */
    uint64_t messages_before;
    lli_ns receded_at;     /* since then all heartbeats tell of fewer packets or messages than the next two, LLI_NEVER: they do not */
    lli_seq receded_next;  /* the next packet in order then */
    uint64_t receded_number; /* the next message then */
    struct lli_delay delay; /* in which heartbeats are read */
    lli_ns doubted_at;     /* only heartbeats that contradict what is known have come since, LLI_NEVER: none */
    lli_seq beyond;        /* packets before this one had come, and the latest heartbeat did not cover all, 0: it did */
    lli_seq jumped;        /* a packet far beyond all others that was not believed, 0: none */
    lli_seq gone_below;    /* packets before this one are given up: the transmitter no longer has them ... */
    enum llm_reason gone_reason; /* ... or this receiver is too far behind, or is not served */
    uint8_t behind;        /* of enum lli_rx_behind */

    lli_ns heard_at;
    lli_ns away_at;        /* when nobody had listened for long and the session was not heard since, it begins to be silent here */
    bool silent;           /* LLM_EVENT_HEARTBEAT_LOST was reported */
    lli_ns repair_rtt;     /* smoothed time from the NAK to the repair, 0: not measured */
    uint32_t ask_ahead;    /* packets asked for beyond what there is memory to hold */
    lli_ns status_at;
    lli_seq reported;      /* the next packet in order as of the latest status report */
    lli_seq report_at;     /* another is owed when all packets before this one came */
    lli_ns query_at;       /* LLI_NEVER: nothing to ask */
    uint32_t query_tries;
    uint32_t topics_wanted; /* ids before this one should be known */
    uint32_t topics_granted; /* the same of the GRANT: a heartbeat that it overtook tells of fewer */
    uint32_t topics_told;   /* ids before this one were given as items */
    uint32_t topics_resolved; /* while resolving: and these once more */
    uint8_t aside;          /* of enum lli_rx_aside: packets in order do not take the short way */
    bool unheld;            /* messages were thrown away for a filter: none is acknowledged */
    uint64_t lost_run;      /* packets given up, not reported yet */
    uint64_t told_first;    /* the messages of the latest gaps between which nothing was delivered: the first ... */
    uint64_t told_end;      /* ... and one past the last; equal: none */
    enum llm_reason lost_reason;
    enum llm_reason broken_reason; /* of a loss without packets, of which no other is known */
    struct lli_wire_notice notice; /* the latest, decided_at 0: none */
    struct llm_verdict verdict;    /* as it is told */
    lli_ns naks_held_until;        /* the transmitter does not answer any */
    lli_ns rejoin_at;              /* an expelled receiver forgets the session then, and may follow it again */
    uint8_t crowded;        /* reasons for which the transmitter serves it less, a bit each ... */
    uint8_t crowded_told;   /* ... and those that were logged; the caller's, as the number of receivers that is said with the latest */
    uint64_t crowd;
    uint64_t token;         /* the transmitter's for this receiver, 0: none yet ... */
    struct lli_wire_address token_from; /* ... which came as an answer to packets that went to this address */
    uint32_t unanswered;    /* packets that went to an address that had not answered */
    lli_ns speak_at;        /* none goes to such before, 0: at any time */
    lli_ns expected_at;     /* see lli_rx_expect(); 0: never */
    uint32_t naks;          /* sent for this session, for its status reports */
    uint32_t lost;          /* packets, for the same */

    uint8_t news;           /* of enum lli_rx_news: to be told */
    bool plain;             /* lli_rx_settle() found nothing to think of but packets in order, and only such have come since */
    bool stirred;           /* not by messages in order only: lli_rx_deadline() may be sooner now; the caller clears it */
    enum llm_reason end_reason; /* not LLM_REASON_NONE: the end is to be told when all before it is */
    lli_seq began;              /* the packet that it was followed from */
    uint64_t first;             /* number of the first message to come, when it joined */
    uint64_t held_from;         /* messages from this one on were delivered without a loss */
    uint64_t acknowledged;      /* by the application: messages before this one */

    /* With a filter: the messages that were given last, and their attributes. */
    const struct llm_message *given;
    uint32_t given_count;
    struct lli_rx_frame frames[LLI_ITEM_MESSAGES_MAX];
    struct lli_rx_frame assembled; /* of the message that is being put together, copied */
    uint8_t assembled_frame[LLI_FRAME_ATTRIBUTES_MAX];

    /* Joining late. */
    struct llm_join join;       /* where it is to begin */
    bool chosen;                /* ... is known */
    bool enters;                /* with a message of the packet `begin`, which may not be the first there */
    enum llm_reason refused;    /* to be told, with these two numbers */
    uint64_t refused_wanted;
    uint64_t refused_there;
    lli_ns ask_at;
    lli_ns ask_until;
    uint32_t tries;             /* requests since the latest answer */
    lli_seq begin;
    uint64_t live;              /* messages before this one were sent before it joined; 0: it was there from the start */
    lli_seq live_seq;           /* they start in packets before this one, as granted */
    bool passed;                /* packets were passed over since what was unpacked last, and nothing was lost before them */
    lli_seq replay_end;         /* while behind: packets before this one are fetched, not asked for by NAK */
    lli_seq fetched;            /* packets before this one were */
    uint32_t fetching;          /* packets asked for by the latest request that did not come yet */
    lli_ns fetch_at;
    lli_ns replayed_at;         /* when one came last */
    lli_ns replay_distance;     /* smoothed time between two, 0: not measured */

    struct lli_rx_unordered unordered;
    struct lli_rx_lvc lvc; /* in use while LLI_RX_LATEST is set, `live` until it is live */
};

enum lli_rx_aside {
    LLI_RX_LEARNING = 1,  /* nothing is delivered until names of topics are known */
    LLI_RX_FILTERING = 2, /* there is a filter, or what was passed over for one goes on */
    LLI_RX_AGAIN = 8,     /* packets come again that have given messages before */
    LLI_RX_LATEST = 4,    /* what topics keep is being fetched: nothing else is delivered until it came */
};

enum lli_rx_behind {
    LLI_RX_CHASED = 1,    /* packets were gone while this receiver was a window behind, and it has not caught up since */
    LLI_RX_REPLAYING = 2, /* the past is being fetched */
    LLI_RX_YOUNG = 4,     /* the past was asked for, and is what a young session had sent by then: packets before replay_end */
};

/* Every message of the stream before this one was delivered, or told lost. */
static inline uint64_t lli_rx_delivered(const struct lli_rx *rx)
{
    return rx->aside & LLI_RX_LATEST ? rx->first : rx->unpack.number - rx->unpack.assembling;
}

/* Whether it is of use: not over, not refused, and not perhaps made up by a packet. */
static inline bool lli_rx_is_followed(const struct lli_rx *rx)
{
    return rx->state == LLI_RX_LIVE || rx->state == LLI_RX_ASKING;
}

/* True if data of the session came in order: an invented one may have nothing but heartbeats. */
static inline bool lli_rx_has_data(const struct lli_rx *rx)
{
    return rx->state == LLI_RX_LIVE && rx->gap.next > rx->began;
}

/*
 * Places a session's tables in the arena, and in `rare` those of which most sessions use a little only. config, reorder,
 * counters and random must outlive it.
 */
void lli_rx_init(struct lli_rx *rx, const struct lli_rx_config *config, struct lli_reorder *reorder,
                 struct lli_rx_counters *counters, uint64_t *random, struct lli_arena *arena, struct lli_arena *rare);

/* Begins to follow a session by its tag. */
void lli_rx_start(struct lli_rx *rx, uint32_t tag, lli_ns now);

/*
 * The session and its first packet are known, and followed from there, before any of its packets came: the other side of a connection has
 * said so. Reports go at once, and often until something of the session is heard. After lli_rx_start().
 */
void lli_rx_expect(struct lli_rx *rx, uint64_t session, lli_seq start, const struct lli_wire_address *address, lli_ns now);

/* Whether lli_rx_expect() was called, and nothing was heard since. */
static inline bool lli_rx_is_unheard(const struct lli_rx *rx)
{
    return rx->expected_at != 0 && rx->heard_at == rx->expected_at;
}

/* Nobody listened for long: what was sent meanwhile may be lost, so silence counts from now on. */
void lli_rx_away(struct lli_rx *rx, lli_ns now);

/*
 * True if the session is about to be judged silent, or ended for that, though packets sent while nobody listened may still wait to be
 * read: config.unread puts it off.
 */
bool lli_rx_is_quiet(const struct lli_rx *rx, lli_ns now);

/* Forgets the session in favour of another: should it be heard again, it goes on where it is now. */
void lli_rx_replace(struct lli_rx *rx);

/* Forgets the session and gives its memory back. */
void lli_rx_stop(struct lli_rx *rx);

/* After LLI_ITEM_JOIN: where the session is to begin. One so young that all of it is there begins at its start. */
void lli_rx_begin(struct lli_rx *rx, const struct llm_join *join, lli_ns now);

/* The accept predicate refused the session; it stays, to drop its packets by. */
void lli_rx_refuse(struct lli_rx *rx);

/* The accept predicate refused a topic. */
void lli_rx_topic_refuse(struct lli_rx *rx, uint32_t topic);

/* Whether a subject takes a topic. True: the accept predicate is to be asked, too, for the first time. */
bool lli_rx_topic_subscribe(struct lli_rx *rx, uint32_t topic, bool subscribed);

/* There is another filter from now on. */
void lli_rx_filter(struct lli_rx *rx);

/* What a message says of itself that was given last, with a filter. False: it is none of those. */
bool lli_rx_attributes(const struct lli_rx *rx, const struct llm_message *message, struct lli_rx_frame *frame);

/* What is subscribed to changed: all topics that were given as items are given once more. */
void lli_rx_resolve(struct lli_rx *rx);

/*
 * Takes a packet with this session's tag. If it returns true there may be items: pull all with lli_rx_next() before the
 * packet's memory goes.
 */
bool lli_rx_input(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now);

/* Whether as many packets came since the last report as the transmitter wants one for. */
static inline bool lli_rx_owes_report(const struct lli_rx *rx)
{
    return rx->gap.next >= rx->report_at;
}

/* Sees whether lli_rx_single() may take the next packet. It does so itself, too, but later than may be. */
void lli_rx_settle(struct lli_rx *rx);

/* Whether all that came is given, nothing is missing and nothing ends. */
bool lli_rx_is_idle(const struct lli_rx *rx);

/* The next messages or event in order, or as they arrived; valid until the next call. False if there is none. */
bool lli_rx_next(struct lli_rx *rx, lli_ns now, struct lli_item *item);

/* Whether a session that ended may be forgotten, to be followed anew when it is heard: ask before lli_rx_control(). */
static inline bool lli_rx_may_return(const struct lli_rx *rx, lli_ns now)
{
    return rx->state == LLI_RX_ENDED && now >= rx->rejoin_at;
}

/* Builds the next NAK, status report or query that is due; false if none is. It counts as sent. */
bool lli_rx_control(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* The application is done with the messages up to this one. False: it was not delivered. */
bool lli_rx_acknowledge(struct lli_rx *rx, uint64_t number, lli_ns now);

/*
 * Builds the last report, by which this receiver leaves: of a session that ended, too, as long as its transmitter may wait for it. False
 * if nobody does.
 */
bool lli_rx_leave(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* When lli_rx_next() or lli_rx_control() may have something even if no packet comes; LLI_NEVER if never. */
lli_ns lli_rx_deadline(const struct lli_rx *rx);

#endif
