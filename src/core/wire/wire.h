/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codec of everything on the network. docs/protocol.md is the specification; section numbers refer to it.
 * Decoders read untrusted bytes: they check every bound and return false instead of a partial result.
 */
#ifndef LLI_WIRE_H
#define LLI_WIRE_H

#include <string.h>

#include "core/base/types.h"

enum {
    LLI_WIRE_VERSION = 1,
    LLI_WIRE_HEADER = 16,         /* bytes of the base header, section 2 */
    LLI_WIRE_SIZE_AT = 2,         /* offset of the packet's size in it ... */
    LLI_WIRE_TAG_AT = 4,          /* ... and of its session's tag */
    LLI_WIRE_DATA_HEADER = 18,    /* bytes before the frames of DATA, without extensions */
    LLI_WIRE_ADDRESS_MAX = 31,    /* bytes of a transport's address */
    LLI_WIRE_RANGES_MAX = 64,     /* ranges in a NAK or REJECT */
    LLI_WIRE_FETCH_MAX = 16,      /* ranges in a FETCH ... */
    LLI_WIRE_FETCH_PACKETS = 256, /* ... and the packets that they name */
    LLI_WIRE_SPANS_MAX = 16,      /* spans in a LATEST request */
    LLI_WIRE_NAME_MAX = 255,      /* bytes of a topic's name */
    LLI_WIRE_NAME_FLAGS = 2,      /* bytes that flags take of these */
    /* Bytes of the largest control packet except TOPICS, which fills the given buffer. */
    LLI_WIRE_CONTROL_MAX = 640,
    LLI_WIRE_FRAME_MAX = 5,          /* bytes of the longest frame header before a message */
    LLI_WIRE_ASSURED_MAX = 16,       /* assured topics in a session */
    LLI_WIRE_RECEIVER_NAME_MAX = 31, /* bytes of a receiver's own name */
    LLI_WIRE_PAYLOAD_MAX = 512,      /* bytes of application data in CONNECT */
};

enum lli_wire_type {
    LLI_WIRE_DATA = 1,
    LLI_WIRE_HEARTBEAT = 2,
    LLI_WIRE_NAK = 3,
    LLI_WIRE_REJECT = 4,
    LLI_WIRE_STATUS = 5,
    LLI_WIRE_TOPICS = 6,
    LLI_WIRE_QUERY = 7,
    LLI_WIRE_JOIN = 8,
    LLI_WIRE_NOTICE = 9,
    /* Packets of connections, read by lli_wire_get_connection(). */
    LLI_WIRE_CONNECT = 10,
    LLI_WIRE_ACCEPT = 11,
    LLI_WIRE_REFUSE = 12,
    LLI_WIRE_CLOSE = 13,
    LLI_WIRE_LVC = 14, /* a packet of a session */
};

/* Mask of the types that lli_wire_get_header() accepts: all but those of connections. */
enum { LLI_WIRE_SESSION_TYPES = ((1 << LLI_WIRE_CONNECT) - (1 << LLI_WIRE_DATA)) | 1 << LLI_WIRE_LVC };

enum {
    LLI_WIRE_FLAG_EXTENDED = 0x80,
    /* DATA: unrepaired packets directly before this one; the maximum: this many or more */
    LLI_WIRE_FLAGS_UNREPAIRED = 0x3f,
    LLI_WIRE_FLAG_STREAM = 0x01, /* HEARTBEAT: of a session that continues a stream ... */
    LLI_WIRE_FLAG_MERGE = 0x02,  /* ... together with other sessions that have this flag */
};

/* Base header, section 2. */
struct lli_wire_header {
    uint8_t type;
    uint8_t flags;
    uint16_t size;   /* of the packet */
    uint16_t first;  /* DATA: offset in the body of the first frame that starts in this packet */
    uint32_t tag;    /* low half of the session's identity */
    uint32_t seq;    /* low half of the packet's sequence number */
    uint32_t number; /* low half of the number of the first message that starts in this packet or later */
};

/* Reasons to drop a packet; each has a counter. */
enum lli_wire_fault {
    LLI_WIRE_OK = 0,
    LLI_WIRE_SHORT,       /* truncated */
    LLI_WIRE_VERSION_BAD, /* not version 1 */
    LLI_WIRE_TYPE_BAD,    /* type unknown to this version */
    LLI_WIRE_MALFORMED,   /* inconsistent contents */
    LLI_WIRE_CONTROL,     /* no fault: a packet other than DATA, see lli_wire_get_base() */
};

/* Transport address in wire format. */
struct lli_wire_address {
    uint8_t size;
    uint8_t bytes[LLI_WIRE_ADDRESS_MAX];
};

static inline bool lli_wire_is_address(const struct lli_wire_address *a, const struct lli_wire_address *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Range of `count` packets starting at `first`. */
struct lli_wire_range {
    uint32_t first;
    uint32_t count;
};

/* HEARTBEAT, section 4. */
struct lli_wire_heartbeat {
    uint64_t session;
    uint64_t lead;           /* sequence number of the next packet to be sent */
    uint64_t trail;          /* oldest packet that can still be repaired */
    uint64_t start;          /* first packet of the session */
    uint64_t messages;       /* number of the first message that starts at lead or later */
    uint64_t sent_at;        /* transmitter's clock, echoed in status reports */
    uint32_t interval_us;    /* another heartbeat or data packet follows within this time */
    uint32_t rtt_ns;         /* measured round trip of the group */
    uint32_t receivers;      /* receivers known from their status reports */
    uint32_t topics;         /* topics announced so far, with ids 0 to topics - 1 */
    uint32_t report_packets; /* receivers also report after this many packets; 0: by time only */
    uint8_t flags;
    struct lli_wire_address address; /* destination of NAKs, status reports and queries */
    /* Valid with LLI_WIRE_HEARTBEAT_ASSURED. */
    /* Unacknowledged messages start in this packet or later; lead if there are none. */
    uint64_t unacknowledged;
    uint64_t unacknowledged_messages; /* number of the first message that starts there or later */
    uint8_t assured;                  /* number of topics that are or were assured */
    /* Their ids; an id keeps its position for the session's life. */
    uint32_t assured_topics[LLI_WIRE_ASSURED_MAX];
    /* Stream that the session continues, 0: none; then the next two are valid, else 0. */
    uint64_t stream;
    uint64_t base; /* the number of a message in the stream is this plus its number in the session */
    uint32_t term; /* a session of a higher term continues those of lower terms */
    bool merges;   /* the session is followed together with others of the stream */
};

enum {
    LLI_WIRE_HEARTBEAT_END = 1,     /* no packet at lead or later will be sent */
    LLI_WIRE_HEARTBEAT_YOUNG = 2,   /* a receiver that discovers the session now begins at start */
    LLI_WIRE_HEARTBEAT_HELD = 4,    /* the transmitter waits for reports or acknowledgements */
    LLI_WIRE_HEARTBEAT_ASSURED = 8, /* the session has assured topics */
    /* Unit of the share k (at most 15): one receiver of 2^k reports by packets. */
    LLI_WIRE_HEARTBEAT_SHARE = 16,
    LLI_WIRE_SHARE_MAX = 15,
};

/*
 * True if a receiver is in the share, one of 2^k, that reports by packets (section 7.1). The share differs
 * between sessions.
 */
static inline bool lli_wire_is_in_share(uint64_t session, uint64_t receiver, uint32_t k)
{
    return k == 0 || (session ^ receiver) >> (64 - k) == 0;
}

/* NAK, section 5. */
struct lli_wire_nak {
    uint64_t session;
    uint64_t receiver;
    struct lli_wire_address address; /* destination of unicast repairs */
    uint16_t count;
    struct lli_wire_range ranges[LLI_WIRE_RANGES_MAX];
    /* Token for this receiver and address, 0: none yet; also in STATUS, QUERY, JOIN (section 5.4) */
    uint64_t token;
};

enum lli_wire_reason {
    LLI_WIRE_GONE = 1,       /* no longer in the history: do not ask again */
    LLI_WIRE_PENDING = 2,    /* already requested, repair under way: do not ask now */
    LLI_WIRE_UNREPAIRED = 3, /* of an unreliable topic: do not ask again */
    /* Only of topics without history, and sent before the receiver joined: not a loss. */
    LLI_WIRE_PASSED = 4,
};

/* REJECT, section 6. */
struct lli_wire_reject {
    uint64_t session;
    uint64_t trail;
    uint8_t reason;
    uint16_t count;
    struct lli_wire_range ranges[LLI_WIRE_RANGES_MAX];
};

/* Bottleneck of a receiver, with the figures of the interval that it was decided on: section 7.4. */
struct lli_wire_limits {
    uint32_t time_ms;
    uint32_t away_ms;
    uint32_t away_us_max;
    uint32_t packets;
    uint32_t missed;
    uint32_t dropped;
    uint8_t limit;
};

/* STATUS, section 7. */
struct lli_wire_status {
    uint64_t session;
    uint64_t receiver;
    uint64_t next;        /* every packet before this one was delivered or given up */
    uint64_t highest;     /* one past the highest packet known */
    uint64_t echo;        /* sent_at of the latest heartbeat, 0: none */
    uint32_t echo_age_ns; /* time since that heartbeat arrived */
    uint32_t lost_packets;
    uint32_t naks;
    uint32_t dropped;     /* packets dropped by the receiver's own host, as far as known */
    uint32_t window_free; /* free packets in the window */
    uint8_t flags;
    struct lli_wire_address address;
    /* Valid with LLI_WIRE_STATUS_ACKNOWLEDGES: section 7.3. */
    uint64_t acknowledged_from; /* first message of the acknowledged run ... */
    /* ... and one past its last: all delivered and, where required, acknowledged by the application */
    uint64_t acknowledged_next;
    /* A bit for each assured topic that is not refused, by its position in the heartbeat. */
    uint16_t accepts;
    uint8_t name_size;
    char name[LLI_WIRE_RECEIVER_NAME_MAX + 1]; /* receiver's own name; zero-terminated */
    struct lli_wire_limits limits;             /* valid with LLI_WIRE_STATUS_LIMITED */
    uint64_t token;
};

enum {
    LLI_WIRE_STATUS_LEAVING = 1,
    LLI_WIRE_STATUS_DONE = 2,
    LLI_WIRE_STATUS_ACKNOWLEDGES = 4,
    LLI_WIRE_STATUS_LIMITED = 8,
    LLI_WIRE_STATUS_BEHIND = 16,
};

/* QUERY, section 8. */
struct lli_wire_query {
    uint64_t session;
    uint64_t receiver;
    uint32_t first; /* first topic id requested */
    struct lli_wire_address address;
    uint64_t token;
};

/*
 * Head of a TOPICS packet. `count` names of the ids first, first + 1 ... follow, each as a length byte and
 * its bytes.
 */
struct lli_wire_topics {
    uint64_t session;
    uint32_t total; /* topics announced */
    uint32_t first;
    uint16_t count;
};

/* Flags of a topic, after its name and a zero byte, if present: section 3.1. */
enum lli_wire_topic_flags {
    LLI_WIRE_TOPIC_TRANSIENT = 1, /* the topic has no history: LLM_TOPIC_NO_HISTORY */
};

enum lli_wire_join_kind {
    LLI_WIRE_JOIN_ASK = 1,    /* receiver asks where to begin */
    LLI_WIRE_JOIN_GRANT = 2,  /* transmitter answers where to begin */
    LLI_WIRE_JOIN_REFUSE = 3, /* transmitter refuses the request */
    LLI_WIRE_JOIN_FETCH = 4,  /* receiver requests packets of the past */
    LLI_WIRE_JOIN_LATEST = 5, /* receiver requests LVC messages */
    LLI_WIRE_JOIN_TOKEN = 6,  /* transmitter sends a token, perhaps with a reason for reduced service */
    /* Between receivers and stores, section 12.5. */
    LLI_WIRE_JOIN_SEEK = 7,    /* receiver asks the group which stores have the past from a position on */
    LLI_WIRE_JOIN_OFFER = 8,   /* store says what it has; receiver 0: to the group, unasked */
    LLI_WIRE_JOIN_RECALL = 9,  /* receiver requests packets of a store */
    LLI_WIRE_JOIN_ABSENT = 10, /* store lacks the position, or packets, asked for */
    /* Of a stream, whose identity is in the place of the session's. */
    LLI_WIRE_JOIN_STREAM = 11,     /* transmitter asks the group where the stream ends */
    LLI_WIRE_JOIN_STREAM_END = 12, /* store says where: number, term in lead, session in wanted */
    /* Between members of a failover group, section 12.7; the stream's identity is in the place of the session's. */
    LLI_WIRE_JOIN_CANVASS = 13,
    LLI_WIRE_JOIN_SURVEY = 14,
    LLI_WIRE_JOIN_BEAT = 15,
    LLI_WIRE_JOIN_ANSWER = 16,
    LLI_WIRE_JOIN_DENIAL = 17,
    LLI_WIRE_JOIN_TAIL_FETCH = 18, /* requests messages of the tail, from number and offset (value) */
    LLI_WIRE_JOIN_TAIL = 19,       /* a part of one, behind the fields: name of the topic, then bytes */
    LLI_WIRE_JOIN_HAVE = 20,       /* as 13 to 17: a voter tells all what it has */
};

enum lli_wire_join_reason {
    LLI_WIRE_JOIN_NO_REASON = 0,
    LLI_WIRE_JOIN_HISTORY = 1,  /* the history does not reach back so far */
    LLI_WIRE_JOIN_NOT_SENT = 2, /* the message was not sent yet */
    LLI_WIRE_JOIN_NOTHING = 3,  /* no topic has an LVC */
    /* TOKEN: the transmitter's table of receivers is full, and this one is not in it */
    LLI_WIRE_JOIN_FULL = 4,
    LLI_WIRE_JOIN_BUSY = 5,  /* TOKEN: the transmitter is serving many late joiners, so replay is slow */
    LLI_WIRE_JOIN_ENDED = 6, /* OFFER, ABSENT: the recording has ended, no later packet will be in it */
};

/* Position among the LVC messages, which are ordered by topic, then by number. */
struct lli_wire_place {
    uint64_t number;
    uint32_t topic;
    uint32_t offset; /* byte offset in the message's frames */
};

/* Half-open interval of positions: [from, to). */
struct lli_wire_span {
    struct lli_wire_place from;
    struct lli_wire_place to;
};

static inline bool lli_wire_is_before(const struct lli_wire_place *a, const struct lli_wire_place *b)
{
    if (a->topic != b->topic)
        return a->topic < b->topic;
    return a->number != b->number ? a->number < b->number : a->offset < b->offset;
}

/* JOIN, section 12. */
struct lli_wire_join {
    uint64_t session;
    /* Receiver that asks, or that the answer is for; to and from stores, its identity for stores. */
    uint64_t receiver;
    uint8_t kind;
    uint8_t from; /* enum llm_join_mode; in an answer, as requested */
    uint8_t reason;
    uint32_t topics; /* GRANT: topics announced so far */
    /*
     * Messages, ns or a message number; in an answer, as requested; LATEST: messages of each topic, 0: all;
     * OFFER to the group: ns within which the next one follows.
     */
    uint64_t value;
    /* GRANT, OFFER: first packet to fetch; REFUSE, ABSENT, OFFER unasked: oldest packet that is there */
    uint64_t packet;
    /*
     * GRANT, OFFER: first message to deliver; REFUSE: first that starts in `packet` or later; LATEST: as
     * granted
     */
    uint64_t number;
    /*
     * REFUSE: message requested, 0: unknown; GRANT, OFFER, ABSENT: first that starts at lead or later;
     * LATEST: packets requested
     */
    uint64_t wanted;
    /* GRANT, REFUSE: next packet to be sent; OFFER, ABSENT: next to be recorded; FETCH: as granted */
    uint64_t lead;
    /* ASK, FETCH, LATEST, SEEK, RECALL: destination of answers and packets; OFFER, ABSENT: of RECALL */
    struct lli_wire_address address;
    uint16_t count;
    struct lli_wire_range ranges[LLI_WIRE_FETCH_MAX]; /* FETCH, RECALL, ABSENT */
    struct lli_wire_span spans[LLI_WIRE_SPANS_MAX];   /* LATEST */
    /*
     * ASK, FETCH, LATEST, RECALL: as in a NAK; GRANT, REFUSE, TOKEN, OFFER, ABSENT: token for the receiver at
     * its address
     */
    uint64_t token;
};

/* Head of an LVC packet, section 12.3; records follow. */
struct lli_wire_lvc {
    uint64_t session;
    uint64_t receiver; /* receiver that it is for */
    uint64_t number;   /* the LVC snapshot covers messages before this one, as granted */
    /* Number of the next message when the packet was built; displacements so far concern lower numbers. */
    uint64_t next;
    struct lli_wire_span span; /* the packet holds every LVC message in this span */
    uint16_t left;             /* further packets that may follow, of those requested */
    uint16_t count;            /* number of records */
};

/* LVC message in a packet, or a part of one: attribute frame and message frame, as in DATA. */
struct lli_wire_record {
    struct lli_wire_place at;
    const uint8_t *bytes;
    uint16_t size;
};

/* NOTICE, section 7.2. */
struct lli_wire_notice {
    uint64_t session;
    uint64_t receiver;   /* receiver that it concerns */
    uint64_t decided_at; /* by the transmitter's clock */
    uint64_t lead;       /* suspended: missing packets before this one are not repaired */
    uint64_t value;      /* figure that decided, in the unit of its threshold */
    uint64_t limit;      /* threshold that it reached */
    uint64_t lag_ns;
    uint64_t silent_ns;
    uint32_t naks_per_s;
    uint32_t nak_ppm;
    uint32_t lag_packets;
    uint32_t receivers;
    uint32_t suffering; /* of these, slow receivers */
    uint32_t rejoin_ms; /* expelled: time until it may return, 0: never */
    uint8_t standing;   /* enum lli_standing */
    uint8_t threshold;  /* enum llm_threshold */
};

enum { LLI_WIRE_STANDING_MAX = 4, LLI_WIRE_THRESHOLD_MAX = 9 };

/* CONNECT, section 13.1. */
struct lli_wire_connect {
    uint64_t id;                /* identity of the connection: random */
    uint64_t session;           /* of the connecting side's transmitter */
    uint32_t message_bytes_max; /* longest message that it accepts */
    uint16_t payload_size;
    struct lli_wire_address address; /* where the connecting side is reached */
    uint8_t payload[LLI_WIRE_PAYLOAD_MAX];
};

/* ACCEPT, section 13.2. */
struct lli_wire_accept {
    uint64_t id;
    uint64_t session; /* of the accepting side's transmitter */
    lli_seq start;    /* the session's first packet */
    uint32_t message_bytes_max;
    struct lli_wire_address address;
};

enum lli_wire_refusal {
    LLI_WIRE_REFUSED = 1, /* refused by the application, with its code */
    LLI_WIRE_FULL = 2,    /* connections_max connections exist */
};

struct lli_wire_refuse {
    uint64_t id;
    uint16_t code;
    uint8_t reason;
};

enum lli_wire_closing {
    LLI_WIRE_ABANDONED = 1, /* closed, perhaps before everything was delivered */
    LLI_WIRE_BROKEN = 2,    /* a message could not be delivered */
    LLI_WIRE_UNKNOWN = 3,   /* no such connection, or no longer */
    LLI_WIRE_LEFT = 4,      /* closed; the other side has everything that was sent */
    LLI_WIRE_HEARD = 5,     /* answer to ABANDONED, BROKEN and LEFT */
};

/* CLOSE, section 13.4. */
struct lli_wire_close {
    uint64_t id;
    uint8_t reason;
    lli_seq next; /* the closing side has taken all packets of the other side before this one */
    struct lli_wire_address address; /* destination of the answer; empty: no answer */
};

/* -------------------------------------------------------------------------------------------- cursor */

/* Bounds-checked reader. After the first overrun every read returns zero, and ok is false. */
struct lli_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool ok;
};

static inline struct lli_reader lli_reader_of(const uint8_t *data, size_t size)
{
    return (struct lli_reader){.at = data, .end = data + size, .ok = true};
}

/* Returns the next size bytes, NULL on overrun. */
const uint8_t *lli_read_bytes(struct lli_reader *reader, size_t size);
uint8_t lli_read_u8(struct lli_reader *reader);
uint16_t lli_read_u16(struct lli_reader *reader);
uint32_t lli_read_u32(struct lli_reader *reader);
uint64_t lli_read_u64(struct lli_reader *reader);

/* Converts between host and network byte order; integers on the network are little-endian. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LLI_LITTLE(bits, value) (value)
#else
#define LLI_LITTLE(bits, value) __builtin_bswap##bits(value)
#endif

/* Access by memcpy(), one instruction each: gcc 12 assembles numbers from single bytes one by one. */
static inline uint16_t lli_load_u16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof value);
    return LLI_LITTLE(16, value);
}

static inline uint32_t lli_load_u32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return LLI_LITTLE(32, value);
}

static inline uint64_t lli_load_u64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return LLI_LITTLE(64, value);
}

static inline void lli_store_u16(uint8_t *at, uint16_t value)
{
    value = LLI_LITTLE(16, value);
    memcpy(at, &value, sizeof value);
}

static inline void lli_store_u32(uint8_t *at, uint32_t value)
{
    value = LLI_LITTLE(32, value);
    memcpy(at, &value, sizeof value);
}

static inline void lli_store_u64(uint8_t *at, uint64_t value)
{
    value = LLI_LITTLE(64, value);
    memcpy(at, &value, sizeof value);
}

/* -------------------------------------------------------------------------------------------- header */

/* Writes the packet's size into its header. */
static inline void lli_wire_put_size(uint8_t *packet, size_t size)
{
    lli_store_u16(packet + LLI_WIRE_SIZE_AT, (uint16_t)size);
}

/* Returns the low half of the message number in a base header. */
static inline uint32_t lli_wire_number(const uint8_t *packet)
{
    return lli_load_u32(packet + 12);
}

/* Writes the base header: LLI_WIRE_HEADER bytes, for DATA LLI_WIRE_DATA_HEADER. */
static inline void lli_wire_put_header(uint8_t *packet, const struct lli_wire_header *header)
{
    packet[0] = (uint8_t)(LLI_WIRE_VERSION << 4 | header->type);
    packet[1] = header->flags;
    lli_wire_put_size(packet, header->size);
    lli_store_u32(packet + 4, header->tag);
    lli_store_u32(packet + 8, header->seq);
    lli_store_u32(packet + 12, header->number);
    if (header->type == LLI_WIRE_DATA)
        lli_store_u16(packet + LLI_WIRE_HEADER, header->first);
}

/*
 * True if a packet of LLI_WIRE_DATA_HEADER bytes or more is DATA of this session with these sequence and
 * message numbers (low halves), without extensions, and a frame starts at the beginning of its body.
 */
static inline bool lli_wire_is_data(const uint8_t *packet, size_t size, uint32_t tag, uint64_t seq,
                                    uint64_t number)
{
    const uint64_t flags = (uint64_t)(0xff & ~LLI_WIRE_FLAG_EXTENDED) << 8;
    const uint64_t head =
        LLI_WIRE_VERSION << 4 | LLI_WIRE_DATA | (uint64_t)size << 8 * LLI_WIRE_SIZE_AT | (uint64_t)tag << 32;

    return (lli_load_u64(packet) & ~flags) == head &&
           lli_load_u64(packet + 8) == ((uint32_t)seq | number << 32) &&
           lli_load_u16(packet + LLI_WIRE_HEADER) == 0;
}

/* Skips the extension area, section 2.1. False if it exceeds the packet. */
bool lli_wire_skip_extensions(const uint8_t **body, size_t *body_size);

/* Reads the header fields that only DATA has. */
static inline enum lli_wire_fault lli_wire_get_first(struct lli_wire_header *header, const uint8_t **body,
                                                     size_t *body_size)
{
    if (*body_size < LLI_WIRE_DATA_HEADER - LLI_WIRE_HEADER)
        return LLI_WIRE_SHORT;
    header->first = lli_load_u16(*body);
    *body += LLI_WIRE_DATA_HEADER - LLI_WIRE_HEADER;
    *body_size -= LLI_WIRE_DATA_HEADER - LLI_WIRE_HEADER;
    return header->first > *body_size ? LLI_WIRE_MALFORMED : LLI_WIRE_OK;
}

/*
 * Like lli_wire_get_header(), but returns LLI_WIRE_CONTROL for packets other than DATA: a caller that handles
 * them separately need not test the type again.
 */
static inline enum lli_wire_fault lli_wire_get_base(const uint8_t *packet, size_t size,
                                                    struct lli_wire_header *header, const uint8_t **body,
                                                    size_t *body_size)
{
    if (size < LLI_WIRE_HEADER)
        return LLI_WIRE_SHORT;
    if (packet[0] >> 4 != LLI_WIRE_VERSION)
        return LLI_WIRE_VERSION_BAD;
    header->type = packet[0] & 15;
    header->flags = packet[1];
    header->size = lli_load_u16(packet + LLI_WIRE_SIZE_AT);
    header->tag = lli_load_u32(packet + 4);
    header->seq = lli_load_u32(packet + 8);
    header->number = lli_load_u32(packet + 12);
    if (header->type != LLI_WIRE_DATA && !(LLI_WIRE_SESSION_TYPES >> header->type & 1))
        return LLI_WIRE_TYPE_BAD;
    if (header->size != size)
        return LLI_WIRE_MALFORMED;
    *body = packet + LLI_WIRE_HEADER;
    *body_size = size - LLI_WIRE_HEADER;
    if (header->flags & LLI_WIRE_FLAG_EXTENDED && !lli_wire_skip_extensions(body, body_size))
        return LLI_WIRE_MALFORMED;
    if (header->type == LLI_WIRE_DATA)
        return lli_wire_get_first(header, body, body_size);
    header->first = 0;
    return LLI_WIRE_CONTROL;
}

/*
 * Reads the header of a packet and skips its extensions. On LLI_WIRE_OK *body points to what follows them and
 * *body_size is the number of bytes left. For DATA *body points to the frames, after `first`, and `first` is
 * at most *body_size. LLI_WIRE_TYPE_BAD: unknown type, or a packet of a connection.
 */
static inline enum lli_wire_fault lli_wire_get_header(const uint8_t *packet, size_t size,
                                                      struct lli_wire_header *header, const uint8_t **body,
                                                      size_t *body_size)
{
    const enum lli_wire_fault fault = lli_wire_get_base(packet, size, header, body, body_size);

    return fault == LLI_WIRE_CONTROL ? LLI_WIRE_OK : fault;
}

/* Likewise for packets that lli_wire_get_header() reports as LLI_WIRE_TYPE_BAD. */
enum lli_wire_fault lli_wire_get_connection(const uint8_t *packet, size_t size,
                                            struct lli_wire_header *header, const uint8_t **body,
                                            size_t *body_size);

/* -------------------------------------------------------------------------------------------- frames */

/* Frames of a DATA body, section 3. */
enum lli_frame_kind {
    LLI_FRAME_BAD = 0,  /* cannot be parsed, nor can the rest of this packet */
    LLI_FRAME_MESSAGE,  /* value: its length; its bytes follow, and may continue in the next packets */
    LLI_FRAME_TOPIC,    /* value: topic of the messages that follow in this packet */
    LLI_FRAME_ANNOUNCE, /* value: topic id; bytes: its name */
    LLI_FRAME_SKIP,     /* padding, or an extension unknown to this version */
    LLI_FRAME_NUMBERS,  /* value: message numbers that the session skips; the last frame of its packet */
};

struct lli_frame {
    enum lli_frame_kind kind;
    uint32_t value;
    const uint8_t *bytes;
    uint32_t bytes_size;
};

enum {
    LLI_FRAME_SHORT_MAX = 127,    /* longest message with a one-byte header */
    LLI_FRAME_MEDIUM_MAX = 16383, /* ... and with a two-byte header */
    LLI_FRAME_TOPIC_SHORT_MAX = 8191,
    LLI_FRAME_MEDIUM = 0x80,
    LLI_FRAME_TOPIC_SHORT = 0xc0,
    LLI_FRAME_PAD = 0xe0,
    LLI_FRAME_LONG = 0xe1,
    LLI_FRAME_TOPIC_LONG = 0xe2,
    LLI_FRAME_ANNOUNCEMENT = 0xf0,
    LLI_FRAME_ATTRIBUTES = 0xf1,
    LLI_FRAME_SUMMARY = 0xf2,
    LLI_FRAME_SKIPPED = 0xf3,
};

/*
 * Reads frames of LLI_FRAME_PAD and above: all but messages of up to LLI_FRAME_MEDIUM_MAX bytes and short
 * topics.
 */
const uint8_t *lli_frame_get_rare(const uint8_t *at, const uint8_t *end, struct lli_frame *frame);

/* Length of a message, from the two bytes of its header: its code is LLI_FRAME_MEDIUM to LLI_FRAME_TOPIC_SHORT - 1. */
static inline uint32_t lli_frame_medium(const uint8_t *at)
{
    return (at[0] & 0x3fu) << 8 | at[1];
}

/*
 * Reads the frame at `at`, before `end`. Returns where the next frame starts or, for LLI_FRAME_MESSAGE, where
 * its bytes do.
 */
static inline const uint8_t *lli_frame_get(const uint8_t *at, const uint8_t *end, struct lli_frame *frame)
{
    uint8_t code = *at;

    if (code <= LLI_FRAME_SHORT_MAX) {
        frame->kind = LLI_FRAME_MESSAGE;
        frame->value = code;
        return at + 1;
    }
    if (code >= LLI_FRAME_PAD)
        return lli_frame_get_rare(at, end, frame);
    if (end - at < 2)
        return frame->kind = LLI_FRAME_BAD, end;
    if (code < LLI_FRAME_TOPIC_SHORT) {
        frame->kind = LLI_FRAME_MESSAGE;
        frame->value = lli_frame_medium(at);
    } else {
        frame->kind = LLI_FRAME_TOPIC;
        frame->value = (code & 0x1fu) << 8 | at[1];
    }
    return at + 2;
}

/* Size in bytes of the frame header before a message of this size. */
static inline uint32_t lli_frame_message_size(uint32_t size)
{
    return size <= LLI_FRAME_SHORT_MAX ? 1 : size <= LLI_FRAME_MEDIUM_MAX ? 2 : 5;
}

/* Writes the frame header before a message in header_bytes bytes, which may be more than it needs. */
static inline void lli_frame_put_message(uint8_t *at, uint32_t header_bytes, uint32_t size)
{
    if (header_bytes == 1) {
        at[0] = (uint8_t)size;
    } else if (header_bytes == 2) {
        at[0] = (uint8_t)(LLI_FRAME_MEDIUM | size >> 8);
        at[1] = (uint8_t)size;
    } else {
        at[0] = LLI_FRAME_LONG;
        lli_store_u32(at + 1, size);
    }
}

static inline uint32_t lli_frame_topic_size(uint32_t topic)
{
    return topic <= LLI_FRAME_TOPIC_SHORT_MAX ? 2 : 5;
}

static inline void lli_frame_put_topic(uint8_t *at, uint32_t topic)
{
    if (topic <= LLI_FRAME_TOPIC_SHORT_MAX) {
        at[0] = (uint8_t)(LLI_FRAME_TOPIC_SHORT | topic >> 8);
        at[1] = (uint8_t)topic;
    } else {
        at[0] = LLI_FRAME_TOPIC_LONG;
        lli_store_u32(at + 1, topic);
    }
}

/* An announcement takes 7 bytes and the name. */
enum { LLI_FRAME_ANNOUNCE_HEAD = 7 };
void lli_frame_put_announcement(uint8_t *at, uint32_t topic, const char *name, size_t name_size);

/* True if this frame code starts a message. */
static inline bool lli_frame_is_message(uint8_t code)
{
    return code < LLI_FRAME_TOPIC_SHORT || code == LLI_FRAME_LONG;
}

enum {
    LLI_FRAME_HEAD = 3,             /* code and size of an extension frame */
    LLI_FRAME_SUMMARY_SIZE = 15,    /* section 3.3 */
    LLI_FRAME_BITMAP_MAX = 32,      /* bytes, section 3.2 */
    LLI_FRAME_ATTRIBUTES_MAX = 512, /* bytes of the largest attribute frame that this version sends */
    LLI_FRAME_NUMBERS_SIZE = 7,     /* section 3.6 */
    LLI_FRAME_NUMBERS_MAX = 65536,  /* numbers of such a frame: no more than of messages in a packet */
};

void lli_frame_put_numbers(uint8_t *at, uint32_t count);

/* Summary of all messages that start in a packet before `end` of its body. */
struct lli_frame_summary {
    uint32_t any; /* bits set in any label */
    uint32_t all; /* bits set in every label */
    uint16_t end;
    uint16_t count;
};

void lli_frame_put_summary(uint8_t *at, const struct lli_frame_summary *summary);

/* Reads the summary if the first frame of a packet is one. False: it is not. */
static inline bool lli_frame_get_summary(const uint8_t *at, const uint8_t *end,
                                         struct lli_frame_summary *summary)
{
    if (end - at < LLI_FRAME_SUMMARY_SIZE || *at != LLI_FRAME_SUMMARY ||
        lli_load_u16(at + 1) < LLI_FRAME_SUMMARY_SIZE - LLI_FRAME_HEAD)
        return false;
    *summary = (struct lli_frame_summary){lli_load_u32(at + 3), lli_load_u32(at + 7), lli_load_u16(at + 11),
                                          lli_load_u16(at + 13)};
    return true;
}

/* ------------------------------------------------------------------------------------------- control */

/*
 * Each encoder writes a whole packet of at most LLI_WIRE_CONTROL_MAX bytes and returns its size. The tag, seq
 * and number of the base header are derived from the fields.
 */
size_t lli_wire_put_heartbeat(uint8_t *packet, const struct lli_wire_heartbeat *heartbeat);
size_t lli_wire_put_nak(uint8_t *packet, const struct lli_wire_nak *nak);
size_t lli_wire_put_reject(uint8_t *packet, const struct lli_wire_reject *reject);
size_t lli_wire_put_status(uint8_t *packet, const struct lli_wire_status *status);
size_t lli_wire_put_query(uint8_t *packet, const struct lli_wire_query *query);
size_t lli_wire_put_join(uint8_t *packet, const struct lli_wire_join *join);
size_t lli_wire_put_notice(uint8_t *packet, const struct lli_wire_notice *notice);
size_t lli_wire_put_connect(uint8_t *packet, const struct lli_wire_connect *connect);
size_t lli_wire_put_accept(uint8_t *packet, const struct lli_wire_accept *accept);
size_t lli_wire_put_refuse(uint8_t *packet, const struct lli_wire_refuse *refuse);
size_t lli_wire_put_close(uint8_t *packet, const struct lli_wire_close *close);

/*
 * TOPICS packet. lli_wire_add_topic() appends a name after the head of LLI_WIRE_TOPICS_HEAD bytes and returns
 * the bytes used then, 0 if the name does not fit into size. lli_wire_put_topics() writes the head last, with
 * the number of names and the total size, which it returns.
 */
enum { LLI_WIRE_TOPICS_HEAD = LLI_WIRE_HEADER + 18 };
size_t lli_wire_put_topics(uint8_t *packet, const struct lli_wire_topics *topics, size_t size);
size_t lli_wire_add_topic(uint8_t *packet, size_t used, size_t size, const char *name, size_t name_size);

/*
 * LVC packet, likewise: append records after the head of LLI_WIRE_LVC_HEAD bytes (0: it does not fit), write
 * the head last.
 */
enum { LLI_WIRE_LVC_HEAD = LLI_WIRE_HEADER + 68, LLI_WIRE_RECORD_HEAD = 18 };
size_t lli_wire_put_lvc(uint8_t *packet, const struct lli_wire_lvc *lvc, size_t size);
size_t lli_wire_add_record(uint8_t *packet, size_t used, size_t size, const struct lli_wire_record *record);

/*
 * Encodes a topic's name as in announcements and TOPICS into `to`, of LLI_WIRE_NAME_MAX bytes; returns its
 * size. Without flags (enum lli_wire_topic_flags) this is the name alone; with flags the name has to be
 * LLI_WIRE_NAME_FLAGS bytes shorter.
 */
size_t lli_wire_put_name(char *to, const char *name, uint8_t flags);

/* Decodes such a name: returns the size of the name itself, which may be 0, and its flags. */
size_t lli_wire_get_name(const uint8_t *bytes, size_t size, uint8_t *flags);

/* Each decoder reads the body of a control packet whose header had this tag. */
bool lli_wire_get_heartbeat(const uint8_t *body, size_t size, const struct lli_wire_header *header,
                            struct lli_wire_heartbeat *heartbeat);
bool lli_wire_get_nak(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_nak *nak);
bool lli_wire_get_reject(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_reject *reject);
bool lli_wire_get_status(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_status *status);
bool lli_wire_get_query(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_query *query);
bool lli_wire_get_join(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_join *join);
bool lli_wire_get_notice(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_notice *notice);
bool lli_wire_get_connect(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_connect *connect);
bool lli_wire_get_accept(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_accept *accept);
bool lli_wire_get_refuse(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_refuse *refuse);
bool lli_wire_get_close(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_close *close);
/*
 * *names is positioned after the head: read `count` length-prefixed names from it with lli_read_u8() and
 * lli_read_bytes().
 */
bool lli_wire_get_topics(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_topics *topics,
                         struct lli_reader *names);
/*
 * *records is positioned after the head. All records are in the span, in order and before `number`; read them
 * with lli_wire_next_record().
 */
bool lli_wire_get_lvc(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_lvc *unacknowledged,
                      struct lli_reader *records);
bool lli_wire_next_record(struct lli_reader *records, struct lli_wire_record *record);

/*
 * Reads the address that a control packet of this type announces, even if the body is malformed otherwise.
 * False: none.
 */
bool lli_wire_get_announced(uint8_t type, const uint8_t *body, size_t size, struct lli_wire_address *address);

/*
 * Copies a control packet that announces address `from`, with address `to` in its place, and returns the size of
 * the copy. 0: it announces another address, or none, or the copy needs more than room bytes.
 */
size_t lli_wire_readdress(const uint8_t *packet, size_t size, const struct lli_wire_address *from,
                          const struct lli_wire_address *to, uint8_t *out, size_t room);

/*
 * Spans of a JOIN. Empty spans, and more than LLI_WIRE_SPANS_MAX, are not read: the reader's ok is false
 * then.
 */
uint8_t *lli_wire_put_spans(uint8_t *at, const struct lli_wire_span *spans, uint16_t count);
void lli_wire_get_spans(struct lli_reader *reader, uint16_t count, struct lli_wire_span *spans);

#endif
