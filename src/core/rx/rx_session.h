/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session at a receiver: joins it, puts packets in order, asks for missing ones and delivers messages and
 * events in order. A pure state machine: packets and the time go in; messages, events and packets to send are
 * pulled out.
 */
#ifndef LLI_RX_SESSION_H
#define LLI_RX_SESSION_H

#include <llm/llm.h>

#include "core/rx/delay.h"
#include "core/rx/gap.h"
#include "core/rx/line.h"
#include "core/rx/reorder.h"
#include "core/rx/topics.h"
#include "core/pack/outline.h"
#include "core/pack/unpack.h"
#include "core/protect/seal.h"
#include "core/stream/stream.h"
#include "core/wire/packet.h"
#include "core/wire/wire.h"

/* X(name, text). Counters of a receiver, over all its sessions. */
#define LLI_RX_COUNTERS(X)                                                                                   \
    X(packets_received, "data packets received, repairs and duplicates included")                            \
    X(bytes_received, "bytes of these packets")                                                              \
    X(messages_delivered, "messages delivered")                                                              \
    X(messages_copies,                                                                                       \
      "messages of merged sessions dropped, as another session of the stream delivered them")                \
    X(messages_diverged, "of these, with other bytes than the message that was delivered with their number") \
    X(packets_covered,                                                                                       \
      "packets missing in one session, whose messages another session of the stream delivered")              \
    X(messages_unordered, "of these, delivered ahead of order (option order=arrival)")                       \
    X(messages_refused, "messages on topics that no subject takes, or that the accept predicate refused")    \
    X(messages_stale, "messages of topics without history, sent before this receiver joined")                \
    X(messages_rejected, "messages that the filter rejected")                                                \
    X(packets_skipped, "packets skipped whole, as the filter rejects all their messages")                    \
    X(messages_lost, "messages lost, each named in a gap event")                                             \
    X(gaps, "gap events")                                                                                    \
    X(packets_missed, "packets found missing, except those sent before this receiver joined")                \
    X(packets_recovered, "packets received after a NAK, including those sent before it joined")              \
    X(packets_replayed, "past packets received, of sessions joined late")                                    \
    X(packets_without_history,                                                                               \
      "past packets that were not sent, as all their messages are of topics without history")                \
    X(packets_lost, "packets given up")                                                                      \
    X(packets_unreliable, "of these, of unreliable topics: not repaired")                                    \
    X(packets_duplicate, "packets received again")                                                           \
    X(packets_reordered, "packets received early")                                                           \
    X(packets_implausible, "packets dropped because no other packet confirmed so high a number")             \
    X(packets_stale, "packets of sessions that have ended")                                                  \
    X(window_overflow, "packets dropped because they are beyond the window")                                 \
    X(reorder_full, "packets dropped because the reorder buffer was full")                                   \
    X(naks_sent, "NAKs sent")                                                                                \
    X(nak_packets, "packets requested by these NAKs")                                                        \
    X(naks_suppressed, "confirmations of other receivers' NAKs received, which suppress NAKs")               \
    X(rejects_received, "rejects received")                                                                  \
    X(notices_received, "notices of this receiver's standing")                                               \
    X(status_sent, "status reports sent")                                                                    \
    X(queries_sent, "topic queries sent")                                                                    \
    X(joins_sent, "late-join requests sent")                                                                 \
    X(joins_granted, "of these, granted")                                                                    \
    X(joins_refused, "of these, refused, or never answered")                                                 \
    X(crowded, "reports by a transmitter of a full member table (receivers_max) or many replays "            \
               "(replay_bytes_per_s)")                                                                       \
    X(fetches_sent, "requests for past packets sent")                                                        \
    X(packets_withheld, "of these and of reports, those not sent, as the address has not answered")          \
    X(stores_sought, "questions which stores have the past sent")                                            \
    X(joins_from_stores, "joins that begin with packets of a store")                                         \
    X(recalls_sent, "requests to stores for packets sent")                                                   \
    X(packets_from_stores, "packets received that a store was asked for")                                    \
    X(cache_fetches_sent, "requests for cached messages sent")                                               \
    X(cache_packets_received, "packets of cached messages received")                                         \
    X(cache_losses, "joins for which not all cached messages came, each reported by an event")               \
    X(heartbeats_received, "heartbeats received")                                                            \
    X(heartbeats_implausible, "of these, ignored because they contradict received packets")                  \
    X(streams_receded, "returns to the position of the heartbeats, as packets given up had never been sent") \
    X(sessions_new, "sessions followed")                                                                     \
    X(sessions_ended, "sessions ended")                                                                      \
    X(sessions_refused, "sessions refused by the accept predicate")                                          \
    X(sessions_dropped, "packets of sessions beyond sessions_max")                                           \
    X(streams_continued, "sessions followed that continue a stream after another session")                   \
    X(stream_messages_missing, "messages of streams missing between two sessions")                           \
    X(stream_messages_again, "numbers of streams sent again by a later session")                             \
    X(stream_sessions_refused, "sessions refused as one of a higher term was followed")                      \
    X(line_1_first, "packets of a channel of two lines that came first on line 1")                           \
    X(line_1_second, "... and those that had come on line 2 before, and were dropped")                       \
    X(line_1_lost, "... and those that did not come on line 1, whether or not they came on line 2")          \
    X(line_2_first, "packets of a channel of two lines that came first on line 2")                           \
    X(line_2_second, "... and those that had come on line 1 before, and were dropped")                       \
    X(line_2_lost, "... and those that did not come on line 2, whether or not they came on line 1")          \
    X(control_malformed, "control packets that contradict themselves")                                       \
    X(control_foreign, "control packets with another session's identity")                                    \
    X(data_malformed, "data packets that contradict themselves or the previous one")                         \
    X(topics_unknown, "messages delivered without the name of their topic")

struct lli_rx_counters {
#define LLI_RX_COUNTER_FIELD(name, text) uint64_t name;
    LLI_RX_COUNTERS(LLI_RX_COUNTER_FIELD)
#undef LLI_RX_COUNTER_FIELD
};

/* Fallback if a session cannot be joined at the position requested. */
enum lli_rx_otherwise { LLI_RX_ELSE_OLDEST, LLI_RX_ELSE_LIVE, LLI_RX_ELSE_REFUSE };

struct lli_filter;
struct lli_former;
struct lli_former_session;

struct lli_rx_config {
    uint64_t receiver;  /* random identity, not 0 */
    bool as_it_arrives; /* unordered delivery: messages of packets ahead of order are delivered at once */
    bool chooses;       /* LLI_ITEM_JOIN asks where to begin in a session; else begin with live data */
    enum lli_rx_otherwise otherwise;
    struct lli_former *former;   /* sessions that were forgotten; NULL: none are recorded */
    struct lli_streams *streams; /* NULL: streams are ignored */
    bool resumes; /* such a session that is heard again resumes where it ended, without LLI_ITEM_JOIN */
    bool unread;  /* unread packets may be waiting: no session is declared silent */
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
    const struct llm_bottleneck *limits; /* the receiver's bottleneck, for its reports; NULL: not watched */
    const struct llm_bottleneck *limits_ever; /* ... and its figures since the start */
    /* NULL: all messages are wanted; call lli_rx_filter() after changing it */
    const struct lli_filter *filter;
    /* The application acknowledges by lli_rx_acknowledge(); else delivery does. */
    bool application_acknowledges;
    /* LLI_ITEM_PACKET precedes the items of each packet; set before sessions start. */
    bool records;
    /*
     * Packets are opened ones (protocol 14): behind each lies the protected packet that came, which is longer by
     * LLI_PROTECT_DATA, and is what LLI_ITEM_PACKET has; set likewise.
     */
    bool records_protected;
    /* Returns the state of a packet's seal: messages wait until it is verified. NULL: they do not wait. */
    enum lli_seal_state (*seal_state)(void *seals, uint64_t session, lli_seq seq);
    void *seals;
    uint8_t name_size;
    /* Identifies the receiver to topics that wait for it by name; empty: none. */
    char name[LLI_WIRE_RECEIVER_NAME_MAX + 1];
    struct lli_wire_address address; /* destination of repairs and answers */
    bool confirms; /* send few packets to a transmitter until it answers from the address that it announces */
    bool stores;   /* ask stores for what the transmitter no longer has */
    int lines;     /* on which sessions arrive; 0 and 1: one */
    lli_ns store_wait; /* time that a joiner waits for an OFFER */
};

/* Received packet, its header read by lli_wire_get_header(). */
struct lli_rx_packet {
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;
    const uint8_t *bytes; /* the whole packet */
    size_t size;
    uint64_t stamp_ns; /* arrival time stamp, 0: unknown */
    uint8_t line;      /* on which it arrived, from 0 */
};

enum lli_rx_state {
    LLI_RX_FREE = 0,
    LLI_RX_JOINING, /* packets arrived but no heartbeat: not confirmed yet */
    /* Confirmed, but the start position is not known yet; packets are buffered as before. */
    LLI_RX_REQUESTING,
    LLI_RX_LIVE,
    LLI_RX_ENDED,   /* everything was delivered; the identity is retained to recognize late packets */
    LLI_RX_REFUSED, /* refused; the identity is retained for the same reason */
};

enum lli_item_kind {
    LLI_ITEM_MESSAGES,
    /* Event is LLM_EVENT_TOPIC_NEW; lli_rx_topic_subscribe() and lli_rx_topic_refuse() may follow. */
    LLI_ITEM_TOPIC,
    LLI_ITEM_EVENT,
    /* event.session asks where to begin: lli_rx_begin(), lli_rx_continue() or lli_rx_refuse() has to follow */
    LLI_ITEM_JOIN,
    LLI_ITEM_PACKET, /* a packet in order, before its items: with config.records */
};

enum lli_rx_news {
    LLI_RX_NEW = 1,
    LLI_RX_SILENT = 2,
    LLI_RX_RESUMED = 4,
    LLI_RX_STANDING = 8,
    LLI_RX_RESOLVING = 16,
    LLI_RX_FILTERED = 32, /* persistent: messages are taken from lli_rx_filtered_messages() */
    LLI_RX_TURN = 64, /* set while unpacking a packet, some messages of which were delivered ahead of order */
    LLI_RX_REST = 128, /* the rest of a loss is pending, after messages that were delivered ahead of order */
    LLI_RX_RECORD = 256,  /* a packet is to be returned to whoever records the session */
    LLI_RX_LINE = 512,    /* a line is down, or is heard again */
    LLI_RX_MERGES = 1024, /* persistent: messages are taken from lli_rx_merge_messages() */
};

/* A packet in order, byte for byte, and the loss before it. */
struct lli_rx_recorded {
    const uint8_t *bytes;
    uint32_t size;
    lli_seq seq;
    lli_seq first;          /* the first of the lost packets directly before it; seq: none was lost */
    enum llm_reason reason; /* of that loss */
    uint64_t message;       /* number of the message that is next, or of the first lost one ... */
    uint64_t message_next;  /* ... and of the first that starts in this packet or later */
};

/* Messages in one item; mostly those of one packet. */
enum { LLI_ITEM_MESSAGES_MAX = 64 };

struct lli_item {
    enum lli_item_kind kind;
    int count;
    struct llm_event event;
    struct lli_rx_recorded packet;
    struct llm_message messages[LLI_ITEM_MESSAGES_MAX];
};

/* Attribute frame of a message, without its code and size fields. */
struct lli_rx_frame {
    const uint8_t *bytes;
    uint32_t size; /* 0: no attributes */
};

/* Messages of a packet that were delivered ahead of order, or filtered out. */
struct lli_rx_mark {
    lli_seq seq;    /* packet that this entry is about */
    uint64_t first; /* first of these messages; the first that starts in the packet */
    uint64_t end;   /* one past the last of them */
};

/*
 * The state of a session is in groups. The file named at each of them owns it; others read it, or call a
 * function of its owner (rx_internal.h).
 */

/* Conditions that rule out the fast path, and events that are pending: rx_deliver.c. */
struct lli_rx_pending {
    bool plain; /* fast path allowed: no gap, event or filter is pending; see lli_rx_settle() */
    /*
     * lli_rx_deadline() may be earlier now, because more than messages in order arrived;
     * lli_rx_take_service() clears it.
     */
    bool service_due;
    uint16_t news;     /* enum lli_rx_news: pending events */
    uint8_t slow_path; /* enum lli_rx_slow_path */
    uint8_t lag;       /* enum lli_rx_lag */
};

/* Status reports: rx_report.c. */
struct lli_rx_report {
    lli_ns at;                  /* a report is due at this time, and from packet `report_due` on */
    lli_seq next;               /* next packet in order as of the latest status report */
    uint64_t acknowledged_from; /* messages from this one on were delivered without a loss */
    uint64_t acknowledged;      /* messages before this one were acknowledged by the application */
    bool incomplete;            /* messages were dropped by a filter: none is acknowledged */
    bool resumed;               /* after an interruption: topics without a name may be refused ones */
    uint8_t early;              /* reports sent since the latest token, up to a maximum */
};

/* Heartbeats before the latest one, and silence: rx_heartbeat.c, which writes the latest one as well. */
struct lli_rx_heard {
    /* End of a long time without polling, if the session was not heard since: silence counts from here. */
    lli_ns away_at;
    lli_ns expected_at;  /* time of lli_rx_expect(); 0: not called */
    lli_ns heartbeat_at; /* arrival of the latest heartbeat, 0: none yet */
    lli_seq lead_before; /* lead and messages of the previous heartbeat; of this one if it is the first */
    uint64_t messages_before;
    struct lli_delay delay; /* delay with which heartbeats are read */
    bool silent;            /* LLM_EVENT_HEARTBEAT_LOST was reported */
    bool doubted;           /* a heartbeat was far behind where the session ended */
};

/* Buffered packets: rx_buffer.c. */
struct lli_rx_buffer {
    struct lli_reorder *reorder; /* shared by the sessions of a receiver */
    uint32_t *cells;             /* by packet number: the buffered copy of a present packet */
    uint32_t chunks;             /* reorder chunks in use by this session */
    uint32_t run;                /* buffered packets unpacked since the caller of lli_rx_next() cleared it */
    struct lli_rx *next;         /* next session that shares the reorder buffer */
};

/* Losses and the end, as far as they are not delivered yet: rx_deliver.c. */
struct lli_rx_loss {
    lli_seq gone_below; /* packets before this one are given up: the transmitter no longer has them ... */
    enum llm_reason gone_reason; /* ... or this receiver lags too far, or is not served */
    enum llm_reason run_reason;
    uint64_t run;      /* packets given up, not reported yet ... */
    lli_seq run_first; /* ... the first of them */
    /*
     * At the end: packets from this one on were given up, but their messages were not reported lost, as no two
     * heartbeats count them; 0: none. The session resumes here if it is heard again.
     */
    lli_seq uncounted;
    /* Range of the messages in the latest gaps without delivery between them: first ... */
    uint64_t reported_first;
    uint64_t reported_end;         /* ... and one past the last; equal: none */
    uint32_t packets;              /* packets lost, for its status reports */
    enum llm_reason broken_reason; /* reason for a loss without lost packets, if no other is known */
    enum llm_reason end_reason;    /* not LLM_REASON_NONE: report the end after everything before it */
    bool passed; /* packets were skipped since the last one unpacked, without a loss before them */
};

/* Packets and heartbeats that are not trusted yet: rx_trust.c. */
struct lli_rx_trust {
    /* Since then every heartbeat has had lead or messages below the next two fields; LLI_NEVER: not so. */
    lli_ns receded_at;
    lli_seq receded_next;    /* next packet in order at that time */
    uint64_t receded_number; /* next message at that time */
    /* Since then all heartbeats have contradicted what is known; LLI_NEVER: they have not. */
    lli_ns contradicted_at;
    /* One past the highest packet received that the latest heartbeat does not cover; 0: it covers all. */
    lli_seq beyond;
    lli_seq jumped; /* rejected packet far beyond all others, 0: none */
};

/* NAKs: rx_nak.c. */
struct lli_rx_nak {
    lli_ns rtt;           /* smoothed time from NAK to repair, 0: not measured */
    lli_ns delayed_until; /* the transmitter answers no NAK until then */
    uint32_t excess;      /* packets requested beyond the memory to buffer them */
    uint32_t sent;        /* NAKs sent for this session, for its status reports */
};

/* Names of topics: rx_topics.c, which writes `topics` as well. */
struct lli_rx_names {
    lli_ns query_at; /* LLI_NEVER: no query to send */
    uint32_t tries;
    uint32_t doubled;  /* times that the interval of the next query is doubled */
    uint32_t wanted;   /* ids before this one should be known */
    uint32_t granted;  /* likewise, from GRANT: a heartbeat that it overtook may announce fewer */
    uint32_t reported; /* ids before this one were delivered as items */
    uint32_t resolved; /* while resolving: ids before this one were delivered again */
    struct lli_topic_count *counts; /* by id, if counted */
};

/* Service that the transmitter gives this receiver: rx_notice.c. */
struct lli_rx_standing {
    struct lli_wire_notice notice; /* latest notice; decided_at 0: none */
    struct llm_verdict verdict;    /* the notice as reported to the application */
    lli_ns rejoin_at;              /* expelled: the session is forgotten then, and may be followed again */
    uint64_t crowd;                /* receivers, as sent with the latest reason */
    uint8_t crowded;               /* transmitter's reasons for reduced service, a bit each ... */
    uint8_t crowded_reported;      /* ... and those that lli_rx_take_crowded() returned */
};

/* Confirmation of addresses: rx_token.c. */
struct lli_rx_token {
    uint64_t value;               /* token from the transmitter for this receiver, 0: none yet ... */
    struct lli_wire_address from; /* ... and the address that answered with it */
    uint32_t unanswered;          /* packets sent to an address that has not answered */
    uint32_t allowance;           /* bytes that may still be sent to it */
    lli_ns speak_at;              /* earliest time of the next packet to such an address; 0: any time */
};

/* With a filter: the messages delivered last, and their attributes: rx_filter.c. */
struct lli_rx_filter {
    const struct llm_message *given;
    uint32_t given_count;
    struct lli_rx_frame frames[LLI_ITEM_MESSAGES_MAX];
    struct lli_rx_frame assembled; /* of the message being reassembled; a copy */
    uint8_t assembled_frame[LLI_FRAME_ATTRIBUTES_MAX];
};

/* Start position: rx_join.c. */
struct lli_rx_join {
    struct llm_join position; /* position to begin at ... */
    bool chosen;              /* ... is known */
    /* Delivery begins inside packet `begin`, perhaps not with its first message. */
    bool enters;
    enum llm_reason refused; /* pending refusal, reported with the next two numbers */
    uint64_t refused_wanted;
    uint64_t refused_there;
    lli_ns request_at;
    lli_ns request_until;
    lli_seq began;  /* first packet followed */
    lli_seq begin;  /* first packet granted */
    uint64_t first; /* number of the first message to be delivered, as of joining */
    /* Messages before this one were sent before this receiver joined; 0: followed from the start. */
    uint64_t live;
    lli_seq live_seq; /* they start in packets before this one, as granted */
};

/* Requests for the past, or for LVC messages: rx_join.c. */
struct lli_rx_replay {
    lli_seq end;       /* end of the past: packets before it are requested by FETCH, not by NAK */
    lli_seq fetched;   /* packets before this one were requested by FETCH */
    uint32_t fetching; /* packets outstanding of the latest FETCH */
    uint32_t tries;    /* requests since the latest answer, of ASK as well */
    lli_ns fetch_at;   /* time of the next request */
    lli_ns at;         /* arrival of the latest replay packet */
    lli_ns distance;   /* smoothed time between two of them, 0: not measured */
};

enum { LLI_RX_STORES = 4 };

/* A store that offered packets of the session. */
struct lli_rx_known_store {
    struct lli_wire_address address; /* size 0: free place */
    uint64_t token;                  /* 0: it has not answered this receiver ... */
    uint32_t allowance;              /* ... and may be sent so many bytes */
    lli_seq first;                   /* packets that it offered, of which it may lack some ... */
    lli_seq end;
    bool ended;        /* ... and has none beyond, nor will have */
    lli_ns expires_at; /* it is forgotten then, unless it is heard */
};

/* A position from which a transmitter, or a store, offers the past. */
struct lli_rx_offer {
    uint8_t kind; /* of the answer; 0: none */
    uint8_t reason;
    uint32_t topics;
    lli_seq packet;
    uint64_t number;
    uint64_t wanted;
    lli_seq lead;
};

/* Stores, and packets asked of them: rx_store.c. */
struct lli_rx_store {
    uint32_t count;      /* stores known */
    uint32_t recalling;  /* packets outstanding of the latest RECALL ... */
    lli_seq recalled;    /* ... all before this one */
    bool active;         /* the missing packet next in order is recalled */
    bool seeking;        /* a join waits for OFFERs */
    uint8_t at;          /* the store that is asked */
    uint8_t tries;       /* RECALLs to it since it answered */
    uint8_t waits;       /* RECALLs since the latest packet for what may be recorded yet */
    uint8_t seeks;       /* SEEKs sent */
    uint32_t unanswered; /* packets to addresses of stores that have not answered ... */
    lli_ns speak_at;     /* ... and the earliest time of the next one */
    lli_ns recall_at;
    lli_ns latest;   /* arrival of the latest recalled packet, or when recalling began */
    lli_ns distance; /* smoothed time between two of them, 0: not measured */
    lli_ns seek_at;
    lli_ns seek_until;
    struct lli_rx_offer answer;       /* what the transmitter answered to ASK ... */
    struct lli_rx_offer offer;        /* ... and the best of the stores so far */
    struct lli_rx_known_store *known; /* LLI_RX_STORES places */
};

/* Stream that the session continues: rx_stream.c. */
struct lli_rx_stream {
    struct lli_stream_claim claim; /* of its first heartbeat; stream 0: none */
    uint32_t heartbeats;           /* heartbeats that came before it was followed, while `asks` */
    bool asks;                     /* lli_rx_stream_ask() is due */
    bool announced;                /* LLM_EVENT_SESSION_NEW was delivered, and the seam not yet */
    bool taken;                    /* the refusal for its term was reported */
    /* While LLI_RX_MERGING is set: rx_merge.c. */
    struct lli_merge *merge;         /* sequence that the sessions of the stream are merged into ... */
    struct lli_merge_member *member; /* ... and the place of this one in it */
    bool merges;    /* ... until the session is forgotten: its numbers are those of the stream */
    bool joined;    /* others were delivered before this one began */
    bool ahead;     /* this session is ahead of the others, and waits: LLI_RX_STALLED is set */
    bool lost;      /* nobody has the messages before this session: to be reported */
    bool skips;     /* this session skips numbers, and waits for the others: LLI_RX_STALLED is set ... */
    bool skip_lost; /* ... and none of them has the numbers: to be reported */
    bool covered;   /* the missing packet next in order is given up, as others delivered its messages */
    struct lli_unpacked skipped; /* while `skips` or `skip_lost` is set */
    lli_ns retry_at;    /* the packet next in order, or a stalled session, waits for others; 0: not so */
    bool diverges;      /* the latest copy of this session had other bytes than the delivered message ... */
    bool diverges_news; /* ... and that is to be reported: */
    uint64_t diverged;  /* number of the first one of them ... */
    uint64_t hashes[2]; /* ... hash of the delivered message, and of the copy */
};

/* Unordered delivery: rx_unordered.c. */
struct lli_rx_unordered {
    struct lli_rx_mark *marks; /* by packet number; NULL: ordered delivery */
    struct lli_unpack unpack;  /* of packet `seq`, which is being read ahead of order */
    lli_seq seq;
    lli_seq from; /* buffered packets in [from, end) may not have been read ahead of order yet */
    lli_seq end;
    struct lli_rx_mark turn; /* entry of the packet that is unpacked in order, while LLI_RX_TURN is set */
    /* Packets before this one were dropped after partial delivery, while LLI_RX_AGAIN is set. */
    lli_seq dropped;
    struct lli_unpacked rest; /* while LLI_RX_REST is set: next lost messages to report, and the reason */
    enum llm_reason rest_reason;
};

struct lli_rx_lvc_packet;

/* LVC messages being fetched: rx_lvc.c. */
struct lli_rx_lvc {
    struct lli_rx_lvc_packet *buffered; /* packets that arrived ahead of order, by their start */
    uint32_t buffered_count;
    struct lli_wire_place next;  /* everything before this position was delivered */
    struct lli_reader records;   /* of the packet being read ... */
    struct lli_wire_place until; /* ... which ends at this position */
    bool reading;
    struct lli_wire_place part; /* position where the message being reassembled continues */
    uint64_t number;            /* as granted: the LVC snapshot covers messages before this one */
    /* Messages that displaced LVC messages during the fetch have lower numbers. */
    uint64_t live;
    uint64_t most;        /* messages of each topic, 0: all */
    uint32_t topics;      /* topics before this one may have an LVC */
    enum llm_reason lost; /* set once the fetch is given up */
};

enum { LLI_RX_LINES_MAX = 2 };

/* Address of the transmitter on a line. */
struct lli_rx_line_address {
    struct lli_wire_address address; /* size 0: not known */
    struct lli_rx_token token;
};

/* With config.lines = 2, the two lines: rx_line.c. */
struct lli_rx_lines {
    struct lli_line line[LLI_RX_LINES_MAX];
    uint8_t chosen;         /* line of requests: heartbeat.address and `token` are of this one ... */
    uint8_t latest;         /* line of the latest packet */
    uint8_t heartbeat_line; /* line of the latest heartbeat */
    uint8_t news;           /* a bit for each line whose state is to be reported */
    /* ... and these of the other. */
    struct lli_rx_line_address transmitter[LLI_RX_LINES_MAX];
    lli_seq passed;      /* all lines that are waited for have passed the packets before this one */
    lli_seq sample_seq;  /* packet whose second copy is waited for, to measure the lateness of its line ... */
    uint8_t sample_line; /* ... the line on which it came first ... */
    lli_ns sample_at;    /* ... and when; 0: none */
    lli_ns measured;     /* lateness measured by the latest packet; LLI_NEVER: none */
};

/* Packet to be returned as LLI_ITEM_PACKET: rx_record.c. */
struct lli_rx_record {
    const uint8_t *bytes; /* NULL: none */
    uint32_t size;
    lli_seq seq;
};

enum lli_rx_slow_path {
    LLI_RX_LEARNING = 1,   /* delivery waits for names of topics */
    LLI_RX_FILTERING = 2,  /* a filter is set, or the rest of a message that one rejected follows */
    LLI_RX_AGAIN = 8,      /* packets arrive again that delivered messages before */
    LLI_RX_LATEST = 4,     /* LVC messages are being fetched, and delivery of the stream waits for them */
    LLI_RX_RECORDING = 16, /* config.records: packets are returned, too */
    LLI_RX_STALLED = 32,   /* whoever records them has no room: packets are buffered as after a gap */
    LLI_RX_MERGING = 64,   /* the session is merged with others of its stream */
    LLI_RX_HOLDING = 128,  /* config.seal_state: packets are buffered until they are sealed */
};

enum lli_rx_lag {
    LLI_RX_CHASED = 1,    /* packets were gone while this receiver lagged by a window; not caught up since */
    LLI_RX_REPLAYING = 2, /* the past is being fetched */
    /* Late join of a young session: the past is what it had sent by then, packets before replay.end. */
    LLI_RX_YOUNG = 4,
};

struct __attribute__((aligned(64))) lli_rx {
    /* config, random and counters are shared by the sessions of a receiver. */
    const struct lli_rx_config *config;
    struct lli_rx_buffer buffer;
    struct lli_unpack unpack;

    /*
     * The fast path (rx_single.h) has the members from unpack.number to gap.received, which fill two cache lines: a
     * receiver of many sessions finds those of each in a farther cache.
     */
    struct lli_rx_counters *counters;
    uint64_t stamp_ns;  /* arrival time of the packet being unpacked */
    uint64_t session;   /* 0 while JOINING */
    lli_ns heard_at;    /* arrival of the latest packet */
    lli_seq report_due; /* a status report is due when all packets before this one arrived */
    enum lli_rx_state state;
    uint32_t tag;
    struct lli_rx_pending pending;
    struct lli_topics topics;
    struct lli_gap gap;

    uint32_t few_topics[LLI_TOPICS_FEW];
    uint64_t *random;
    struct lli_rx_report report;
    struct lli_rx_heard heard;
    struct lli_wire_heartbeat heartbeat; /* the latest */
    struct lli_rx_loss loss;
    struct lli_rx_nak nak;
    struct lli_rx_trust trust;
    struct lli_rx_names names;
    struct lli_rx_standing standing;
    struct lli_rx_token token;
    struct lli_rx_join join;
    struct lli_rx_replay replay;
    struct lli_rx_store store;
    struct lli_rx_stream stream;
    struct lli_rx_unordered unordered;
    struct lli_rx_lvc lvc; /* used while LLI_RX_LATEST is set; its `live` until the session is live */
    struct lli_rx_record record;

    /* Large, and of use to few: elsewhere, so that sessions are near each other. */
    struct lli_rx_filter *filter;
    struct lli_rx_lines *lines;
};

_Static_assert(offsetof(struct lli_rx, unpack.number) % 64 == 0 &&
                   offsetof(struct lli_rx, gap.missing) == offsetof(struct lli_rx, unpack.number) + 128,
               "the members of the fast path fill two cache lines");

/* Every message of the stream before this one was delivered or reported lost. */
static inline uint64_t lli_rx_delivered(const struct lli_rx *rx)
{
    return rx->pending.slow_path & LLI_RX_LATEST ? rx->join.first : rx->unpack.number - rx->unpack.assembling;
}

/* Number of the session's message 0 as the application sees it: not 0 if the session is merged with others. */
static inline uint64_t lli_rx_number_offset(const struct lli_rx *rx)
{
    return rx->stream.merges ? rx->stream.claim.base : 0;
}

/* True if the session is in use: not ended, not refused, and confirmed by a heartbeat. */
static inline bool lli_rx_is_followed(const struct lli_rx *rx)
{
    return rx->state == LLI_RX_LIVE || rx->state == LLI_RX_REQUESTING;
}

/* True if data of the session arrived in order; a forged session may have nothing but heartbeats. */
static inline bool lli_rx_has_data(const struct lli_rx *rx)
{
    return rx->state == LLI_RX_LIVE && rx->gap.next > rx->join.began;
}

/*
 * Places a session's tables in the arena; tables of which most sessions use little go to `rare`. config,
 * reorder, counters and random must outlive the session.
 */
void lli_rx_init(struct lli_rx *rx, const struct lli_rx_config *config, struct lli_reorder *reorder,
                 struct lli_rx_counters *counters, uint64_t *random, struct lli_arena *arena,
                 struct lli_arena *rare);

/* Starts following a session by its tag. */
void lli_rx_start(struct lli_rx *rx, uint32_t tag, lli_ns now);

/* Sets the identity of a session that no heartbeat has confirmed yet. Call after lli_rx_start(). */
void lli_rx_identify(struct lli_rx *rx, uint64_t session);

/*
 * Follows a session before any packet of it arrived, from its first packet: the other side of a connection
 * supplied both. Sends reports at once, and often until something of the session is heard. Call after
 * lli_rx_start().
 */
void lli_rx_expect(struct lli_rx *rx, uint64_t session, lli_seq start, const struct lli_wire_address *address,
                   lli_ns now);

/* True if lli_rx_expect() was called and nothing was heard since. */
static inline bool lli_rx_is_unheard(const struct lli_rx *rx)
{
    return rx->heard.expected_at != 0 && rx->heard_at == rx->heard.expected_at;
}

/* Counts the session as heard now: silence counts from here. */
void lli_rx_refresh(struct lli_rx *rx, lli_ns now);

/*
 * Notes that the receiver did not poll for long: packets sent meanwhile may be lost, so silence counts from
 * now on.
 */
void lli_rx_away(struct lli_rx *rx, lli_ns now);

/*
 * True if the session is about to be declared silent, or ended for silence, though packets sent while the
 * receiver did not poll may still wait to be read: config.unread postpones that.
 */
bool lli_rx_is_quiet(const struct lli_rx *rx, lli_ns now);

/* Forgets the session in favour of another. If it is heard again, it resumes from its present position. */
void lli_rx_replace(struct lli_rx *rx);

/* Forgets the session and frees its memory. */
void lli_rx_stop(struct lli_rx *rx);

/*
 * Answers LLI_ITEM_JOIN: sets where to begin. A session so young that all of it is in the history begins at
 * its start.
 */
void lli_rx_begin(struct lli_rx *rx, const struct llm_join *join, lli_ns now);

/*
 * Answers LLI_ITEM_JOIN, too: goes on where an earlier run ended, with the past from there on fetched as by a
 * late join. False: the session has not reached that position, or had begun later; lli_rx_begin() has to
 * follow then.
 */
bool lli_rx_continue(struct lli_rx *rx, const struct lli_former_session *former, lli_ns now);

/* Delivers nothing until called again with false: packets in order are buffered as far as there is room. */
void lli_rx_stall(struct lli_rx *rx, bool stalled);

/*
 * Decides about a session of a stream, if lli_rx_asks_stream() is true after a packet was taken. sessions: the
 * count sessions of the receiver. Returns true if it is to be followed: deliver the items of *before, if it is
 * not NULL, which then ends, and call lli_rx_stream_begin(). False: report *event if its kind is not 0.
 */
bool lli_rx_stream_ask(struct lli_rx *rx, struct lli_rx *sessions, uint32_t count, struct lli_rx **before,
                       struct llm_event *event);

static inline bool lli_rx_asks_stream(const struct lli_rx *rx)
{
    return rx->stream.asks;
}

/* Follows the session, as lli_rx_stream_ask() decided; items may be available. */
void lli_rx_stream_begin(struct lli_rx *rx, lli_ns now);

/* Notes that the accept predicate refused the session, which is retained to drop its packets. */
void lli_rx_refuse(struct lli_rx *rx);

/* Notes that the accept predicate refused a topic. */
void lli_rx_topic_refuse(struct lli_rx *rx, uint32_t topic);

/* Notes if a subscription matches a topic. True at the first match: ask the accept predicate, too. */
bool lli_rx_topic_subscribe(struct lli_rx *rx, uint32_t topic, bool subscribed);

/* Notes that the filter changed. */
void lli_rx_filter(struct lli_rx *rx);

/* Returns the attributes of a message delivered last, with a filter. False: it is not one of those. */
bool lli_rx_attributes(const struct lli_rx *rx, const struct llm_message *message,
                       struct lli_rx_frame *frame);

/* Notes that subscriptions changed: delivers all topic items again. */
void lli_rx_resolve(struct lli_rx *rx);

/*
 * Takes a packet with this session's tag. True: items may be available; pull all with lli_rx_next() before
 * the packet's memory is reused.
 */
bool lli_rx_input(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now);

/*
 * Chooses the pieces of a DATA packet that are of use: its head, and messages of topics that are not refused.
 * head: its first LLI_WIRE_DATA_HEADER bytes; pieces: room for LLI_RX_PIECES_MAX. Returns their number, of which the
 * last one may be empty; lli_rx_input_excerpt() has to follow with them and their bytes, one after the other. 0:
 * lli_rx_input() has to follow with the whole packet.
 */
uint32_t lli_rx_excerpt(const struct lli_rx *rx, const uint8_t *head, uint32_t size,
                        const struct lli_outline_run *runs, uint32_t count, struct lli_piece *pieces);

/* Takes such a packet, of this whole size, as lli_rx_input() does; the pieces are in use as long as its bytes. */
bool lli_rx_input_excerpt(struct lli_rx *rx, const uint8_t *bytes, uint32_t size, uint64_t stamp_ns,
                          const struct lli_piece *pieces, lli_ns now);

enum { LLI_RX_PIECES_MAX = LLI_OUTLINE_RUNS_MAX + 2 };

/*
 * Takes the packet number of a DATA packet for the group that arrived on one of two lines, before
 * lli_rx_input(). True: the other line has brought it before, so that it can be dropped. If lines.measured is
 * not LLI_NEVER afterwards, it is the lateness of this line.
 */
bool lli_rx_line_data(struct lli_rx *rx, int line, uint32_t low, lli_ns now);

/* True if enough packets for a report arrived since the last one. */
static inline bool lli_rx_owes_report(const struct lli_rx *rx)
{
    return rx->gap.next >= rx->report_due;
}

/*
 * Checks if lli_rx_single() may take the next packet, before it arrives: that function checks only on a
 * packet's arrival.
 */
void lli_rx_settle(struct lli_rx *rx);

/*
 * True if the session's deadlines may have changed since the previous call: mostly not, after messages in
 * order.
 */
static inline bool lli_rx_take_service(struct lli_rx *rx)
{
    const bool due = rx->pending.service_due;

    if (due)
        rx->pending.service_due = false;
    return due;
}

/*
 * Returns reasons for reduced service, a bit each of enum lli_wire_join_reason, that are new since the
 * previous call.
 */
unsigned lli_rx_take_crowded(struct lli_rx *rx);

/* True if everything received was delivered, nothing is missing and no end is pending. */
bool lli_rx_is_idle(const struct lli_rx *rx);

/*
 * Returns the next messages or event, in order or, with unordered delivery, as they arrived; valid until the
 * next call. False if there is none.
 */
bool lli_rx_next(struct lli_rx *rx, lli_ns now, struct lli_item *item);

/*
 * True if an ended session may be forgotten, to be followed anew when heard. Check before lli_rx_control().
 */
static inline bool lli_rx_may_return(const struct lli_rx *rx, lli_ns now)
{
    return rx->state == LLI_RX_ENDED && now >= rx->standing.rejoin_at;
}

/* Builds the next NAK, status report or query that is due; false if none is. It counts as sent. */
bool lli_rx_control(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/*
 * Likewise, but only a status report: may be called between two calls of lli_rx_next(), while messages are
 * delivered.
 */
bool lli_rx_control_meanwhile(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* Notes that messages are dropped from now on, by a filter or a store: none is acknowledged any more. */
void lli_rx_set_incomplete(struct lli_rx *rx);

/* Acknowledges messages up to this one for the application. False: it was not delivered. */
bool lli_rx_acknowledge(struct lli_rx *rx, uint64_t number, lli_ns now);

/*
 * Builds the last report, with which the receiver leaves; also for an ended session, as long as its
 * transmitter may wait for it. False if it does not.
 */
bool lli_rx_leave(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/*
 * Time at which lli_rx_next() or lli_rx_control() may have something without a packet arriving; LLI_NEVER if
 * never.
 */
lli_ns lli_rx_deadline(const struct lli_rx *rx);

#endif
