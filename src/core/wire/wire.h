/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every byte on the network. docs/protocol.md is the specification; section numbers here are its.
 * Decoders read untrusted bytes: they check every bound and return false instead of a partial result.
 */
#ifndef LLI_WIRE_H
#define LLI_WIRE_H

#include <string.h>

#include "core/base/types.h"

enum {
    LLI_WIRE_VERSION = 1,
    LLI_WIRE_HEADER = 16,       /* bytes of the base header, section 2 */
    LLI_WIRE_SIZE_AT = 2,       /* of these, where the packet's size stands */
    LLI_WIRE_DATA_HEADER = 18,  /* bytes before the frames of DATA, without extensions */
    LLI_WIRE_ADDRESS_MAX = 31,  /* bytes of a transport's address */
    LLI_WIRE_RANGES_MAX = 64,   /* ranges in a NAK or reject */
    LLI_WIRE_FETCH_MAX = 16,    /* ranges in a join ... */
    LLI_WIRE_FETCH_PACKETS = 256, /* ... and packets in them */
    LLI_WIRE_SPANS_MAX = 16,    /* spans in one */
    LLI_WIRE_NAME_MAX = 255,    /* bytes of a topic's name */
    LLI_WIRE_NAME_FLAGS = 2,    /* of these, what flags take */
    LLI_WIRE_CONTROL_MAX = 640, /* bytes of the largest control packet but TOPICS, which fills what it is given */
    LLI_WIRE_FRAME_MAX = 5,     /* bytes of the longest frame header before a message */
    LLI_WIRE_ASSURED_MAX = 16,  /* assured topics in a session */
    LLI_WIRE_RECEIVER_NAME_MAX = 31, /* bytes of the name that a receiver gives itself */
    LLI_WIRE_PAYLOAD_MAX = 512, /* bytes that whoever connects may show */
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
    /* Of connections, which lli_wire_get_connection() takes. */
    LLI_WIRE_CONNECT = 10,
    LLI_WIRE_ACCEPT = 11,
    LLI_WIRE_REFUSE = 12,
    LLI_WIRE_CLOSE = 13,
    LLI_WIRE_LVC = 14, /* of sessions again */
};

/* A bit for each type that lli_wire_get_header() takes: all but those of connections. */
enum { LLI_WIRE_SESSION_TYPES = ((1 << LLI_WIRE_CONNECT) - (1 << LLI_WIRE_DATA)) | 1 << LLI_WIRE_LVC };

enum {
    LLI_WIRE_FLAG_EXTENDED = 0x80,
    LLI_WIRE_FLAGS_UNREPAIRED = 0x3f, /* DATA: so many packets directly before this one are not repaired; this many: or more */
};

/* Section 2. */
struct lli_wire_header {
    uint8_t type;
    uint8_t flags;
    uint16_t size;   /* of the packet */
    uint16_t first;  /* DATA: offset, behind it, of the first frame that starts in this packet */
    uint32_t tag;    /* low half of the session's identity */
    uint32_t seq;    /* low half of the packet's sequence number */
    uint32_t number; /* low half of the number of the first message that starts in this packet or later */
};

/* Why a packet was not taken; each is counted. */
enum lli_wire_fault {
    LLI_WIRE_OK = 0,
    LLI_WIRE_SHORT,     /* ends before it should */
    LLI_WIRE_VERSION_BAD, /* not version 1 */
    LLI_WIRE_TYPE_BAD,  /* a type this version does not have */
    LLI_WIRE_MALFORMED, /* contradicts itself */
    LLI_WIRE_CONTROL,   /* no fault, and not DATA: lli_wire_get_base() */
};

/* A transport's address as it travels. */
struct lli_wire_address {
    uint8_t size;
    uint8_t bytes[LLI_WIRE_ADDRESS_MAX];
};

static inline bool lli_wire_is_address(const struct lli_wire_address *a, const struct lli_wire_address *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* count packets from first on. */
struct lli_wire_range {
    uint32_t first;
    uint32_t count;
};

/* Section 4. */
struct lli_wire_heartbeat {
    uint64_t session;
    uint64_t lead;     /* the sequence number that the next packet will have */
    uint64_t trail;    /* the oldest packet that can still be repaired */
    uint64_t start;    /* the first packet of the session */
    uint64_t messages; /* the number of the first message that starts at lead or later */
    uint64_t sent_at;  /* the transmitter's clock, echoed by status reports */
    uint32_t interval_us; /* another heartbeat or packet follows within this */
    uint32_t rtt_ns;      /* the group's round trip as measured */
    uint32_t receivers;   /* known by their status reports */
    uint32_t topics;      /* announced so far: they have the ids 0 to topics - 1 */
    uint32_t report_packets; /* receivers report after so many packets, too; 0: by time only */
    uint8_t flags;
    struct lli_wire_address address; /* where NAKs, status and queries go */
    /* With LLI_WIRE_HEARTBEAT_ASSURED. */
    uint64_t kept;          /* what is not acknowledged starts in this packet or later, lead if there is nothing */
    uint64_t kept_messages; /* the number of the first message that starts there or later */
    uint8_t assured;        /* topics that are, or were */
    uint32_t assured_topics[LLI_WIRE_ASSURED_MAX]; /* their ids, each in its place for good */
};

enum {
    LLI_WIRE_HEARTBEAT_END = 1,   /* no packet at lead or later will come */
    LLI_WIRE_HEARTBEAT_YOUNG = 2, /* receivers that hear of the session now begin at start */
    LLI_WIRE_HEARTBEAT_HELD = 4,  /* the transmitter waits for reports before it sends more, or for acknowledgements */
    LLI_WIRE_HEARTBEAT_ASSURED = 8, /* it has assured topics */
    LLI_WIRE_HEARTBEAT_SHARE = 16,  /* times k, at most 15: of 2^k receivers one reports by packets */
    LLI_WIRE_SHARE_MAX = 15,
};

/* True if a receiver is one of those that report by packets, one of 2^k (section 7.1): different ones in each session. */
static inline bool lli_wire_is_in_share(uint64_t session, uint64_t receiver, uint32_t k)
{
    return k == 0 || (session ^ receiver) >> (64 - k) == 0;
}

/* Section 5. */
struct lli_wire_nak {
    uint64_t session;
    uint64_t receiver;
    struct lli_wire_address address; /* where unicast repairs go */
    uint16_t count;
    struct lli_wire_range ranges[LLI_WIRE_RANGES_MAX];
    uint64_t token; /* that the transmitter gave for this receiver and address, 0: none yet; as in the next three (section 5.4) */
};

enum lli_wire_reason {
    LLI_WIRE_GONE = 1,    /* no longer in the history: do not ask again */
    LLI_WIRE_PENDING = 2, /* asked for already, the repair is under way: do not ask now */
    LLI_WIRE_UNREPAIRED = 3, /* of a topic that is not repaired: do not ask again */
    LLI_WIRE_PASSED = 4,     /* of topics without history only, and sent before the receiver came: nothing is lost */
};

/* Section 6. */
struct lli_wire_reject {
    uint64_t session;
    uint64_t trail;
    uint8_t reason;
    uint16_t count;
    struct lli_wire_range ranges[LLI_WIRE_RANGES_MAX];
};

/* What limits a receiver, and the figures of the interval that it was judged by: section 7.4. */
struct lli_wire_limits {
    uint32_t time_ms;
    uint32_t away_ms;
    uint32_t away_us_max;
    uint32_t packets;
    uint32_t missed;
    uint32_t dropped;
    uint8_t limit;
};

/* Section 7. */
struct lli_wire_status {
    uint64_t session;
    uint64_t receiver;
    uint64_t next;    /* everything before was delivered or given up */
    uint64_t highest; /* one past the highest packet seen */
    uint64_t echo;    /* sent_at of the latest heartbeat, 0: none */
    uint32_t hold_ns; /* how long ago that came */
    uint32_t lost_packets;
    uint32_t naks;
    uint32_t dropped; /* by the receiver's own host, as far as it knows */
    uint32_t window_free; /* packets */
    uint8_t flags;
    struct lli_wire_address address;
    /* With LLI_WIRE_STATUS_ACKNOWLEDGES: section 7.3. */
    uint64_t held_from; /* every message from this one ... */
    uint64_t held_next; /* ... to the one before this was delivered, and acknowledged by whoever has to */
    uint16_t accepts;   /* a bit for each assured topic, by its place in the heartbeat, that is not refused */
    uint8_t name_size;
    char name[LLI_WIRE_RECEIVER_NAME_MAX + 1]; /* that the receiver gives itself; zero behind it */
    struct lli_wire_limits limits; /* with LLI_WIRE_STATUS_LIMITED */
    uint64_t token;
};

enum {
    LLI_WIRE_STATUS_LEAVING = 1,
    LLI_WIRE_STATUS_DONE = 2,
    LLI_WIRE_STATUS_ACKNOWLEDGES = 4,
    LLI_WIRE_STATUS_LIMITED = 8,
    LLI_WIRE_STATUS_BEHIND = 16,
};

/* Section 8. */
struct lli_wire_query {
    uint64_t session;
    uint64_t receiver;
    uint32_t first; /* topic id */
    struct lli_wire_address address;
    uint64_t token;
};

/* The head of a TOPICS packet; count names of ids first, first + 1 ... follow as a length byte and its bytes each. */
struct lli_wire_topics {
    uint64_t session;
    uint32_t total; /* topics announced */
    uint32_t first;
    uint16_t count;
};

/* What stands behind a topic's name and a zero byte, if anything does: section 3.1. */
enum lli_wire_topic_flags {
    LLI_WIRE_TOPIC_TRANSIENT = 1, /* it has no history: LLM_TOPIC_NO_HISTORY */
};

enum lli_wire_join_kind {
    LLI_WIRE_JOIN_ASK = 1,    /* a receiver asks where to begin */
    LLI_WIRE_JOIN_GRANT = 2,  /* the transmitter says where */
    LLI_WIRE_JOIN_REFUSE = 3, /* ... or that it cannot be done */
    LLI_WIRE_JOIN_FETCH = 4,  /* a receiver asks for packets of the past */
    LLI_WIRE_JOIN_LATEST = 5, /* ... for messages that topics keep */
    LLI_WIRE_JOIN_TOKEN = 6,  /* the transmitter gives a token, and may say that it serves the receiver less than others */
};

enum lli_wire_join_reason {
    LLI_WIRE_JOIN_NO_REASON = 0,
    LLI_WIRE_JOIN_HISTORY = 1, /* the history does not reach back so far */
    LLI_WIRE_JOIN_AHEAD = 2,   /* no such message was sent yet */
    LLI_WIRE_JOIN_NOTHING = 3, /* no topic keeps messages */
    LLI_WIRE_JOIN_FULL = 4,    /* TOKEN: the transmitter knows as many receivers as it can, and this one is not among them */
    LLI_WIRE_JOIN_BUSY = 5,    /* TOKEN: many receivers are being sent the past, and it takes long */
};

/* A place among the messages that topics keep, which are in the order of topics, then of numbers. */
struct lli_wire_place {
    uint64_t number;
    uint32_t topic;
    uint32_t offset; /* in the message's frames */
};

/* From one place to before another. */
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

/* Section 12. */
struct lli_wire_join {
    uint64_t session;
    uint64_t receiver; /* who asks, or whom the answer is for */
    uint8_t kind;
    uint8_t from;      /* of enum llm_join_mode; in an answer, as asked */
    uint8_t reason;
    uint32_t topics;   /* GRANT: announced so far */
    uint64_t value;    /* messages, nanoseconds or a message number; in an answer, as asked; LATEST: so many of a topic, 0: all */
    uint64_t packet;   /* GRANT: the first to fetch; REFUSE: the oldest kept */
    uint64_t number;   /* GRANT: of the first message to deliver; REFUSE: of the first that starts in the oldest packet or later;
                          LATEST: as granted */
    uint64_t wanted;   /* REFUSE: of the message asked for, if that is known; GRANT: of the first in lead or later; LATEST: packets */
    uint64_t lead;     /* GRANT, REFUSE: the packet that will be sent next; FETCH: as granted */
    struct lli_wire_address address; /* ASK, FETCH: where answers and packets go */
    uint16_t count;
    struct lli_wire_range ranges[LLI_WIRE_FETCH_MAX]; /* FETCH */
    struct lli_wire_span spans[LLI_WIRE_SPANS_MAX];   /* LATEST */
    uint64_t token;    /* ASK, FETCH, LATEST: as in a NAK; GRANT, REFUSE, TOKEN: for the receiver at its address */
};

/* The head of a packet of kept messages, section 12.3; records follow. */
struct lli_wire_lvc {
    uint64_t session;
    uint64_t receiver; /* whom it is for */
    uint64_t number;   /* messages before this one are meant, as granted */
    uint64_t next;     /* that was to be packed next then: what was displaced has lower numbers, and so has what displaced it */
    struct lli_wire_span span; /* all that is kept in it is in this packet */
    uint16_t left;     /* of the packets asked for, so many may follow */
    uint16_t count;    /* of records */
};

/* A kept message in a packet, or a part of it: its frames as in DATA, of attributes and of itself. */
struct lli_wire_record {
    struct lli_wire_place at;
    const uint8_t *bytes;
    uint16_t size;
};

/* How a transmitter serves a receiver, section 7.2: each step takes away more. */
enum lli_standing {
    LLI_STANDING_FINE = 0,
    LLI_STANDING_WARNED,
    LLI_STANDING_UNICAST,   /* no repair goes to the group for its sake */
    LLI_STANDING_SUSPENDED, /* its NAKs are not answered, and nobody waits for it */
    LLI_STANDING_EXPELLED,  /* it has to leave */
};

/* Section 7.2. */
struct lli_wire_notice {
    uint64_t session;
    uint64_t receiver;   /* whom it concerns */
    uint64_t decided_at; /* by the transmitter's clock */
    uint64_t lead;       /* of a suspended receiver: what it misses before is not repaired */
    uint64_t value;      /* the figure that decided, in the unit of its threshold */
    uint64_t limit;      /* what it reached */
    uint64_t lag_ns;
    uint64_t silent_ns;
    uint32_t naks_per_s;
    uint32_t asked_ppm;
    uint32_t lag_packets;
    uint32_t receivers;
    uint32_t suffering;  /* of these */
    uint32_t rejoin_ms;  /* of an expelled one: it may come back after this, 0: never */
    uint8_t standing;    /* enum lli_standing */
    uint8_t threshold;   /* enum llm_threshold */
};

enum { LLI_WIRE_THRESHOLD_MAX = 9 };

/* Section 13.1. */
struct lli_wire_connect {
    uint64_t id;                /* of the connection: random */
    uint64_t session;           /* of the transmitter of whoever connects */
    uint32_t message_bytes_max; /* the longest message that it takes */
    uint16_t payload_size;
    struct lli_wire_address address; /* where it is reached */
    uint8_t payload[LLI_WIRE_PAYLOAD_MAX];
};

/* Section 13.2. */
struct lli_wire_accept {
    uint64_t id;
    uint64_t session;           /* of the transmitter of whoever accepts */
    lli_seq start;              /* the session's first packet */
    uint32_t message_bytes_max;
    struct lli_wire_address address;
};

enum lli_wire_refusal {
    LLI_WIRE_REFUSED = 1, /* by the application, which says why by a code */
    LLI_WIRE_FULL = 2,    /* there are as many connections as may be */
};

struct lli_wire_refuse {
    uint64_t id;
    uint16_t code;
    uint8_t reason;
};

enum lli_wire_closing {
    LLI_WIRE_ABANDONED = 1, /* closed, perhaps before all was delivered */
    LLI_WIRE_BROKEN = 2,    /* a message could not be delivered */
    LLI_WIRE_UNKNOWN = 3,   /* there is no such connection, or no longer */
    LLI_WIRE_LEFT = 4,      /* closed, and the other side has all that was sent */
    LLI_WIRE_HEARD = 5,     /* the answer to ABANDONED, BROKEN and LEFT */
};

/* Section 13.4. */
struct lli_wire_close {
    uint64_t id;
    uint8_t reason;
    lli_seq next; /* whoever leaves has taken all packets of the other side before this one */
    struct lli_wire_address address; /* to which the answer goes; empty: there is none */
};

/* -------------------------------------------------------------------------------------------- cursor */

/* A bounds-checked reader; after the first overrun everything reads as zero and ok is false. */
struct lli_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool ok;
};

static inline struct lli_reader lli_reader_of(const uint8_t *data, size_t size)
{
    return (struct lli_reader){.at = data, .end = data + size, .ok = true};
}

/* The next size bytes, or NULL. */
const uint8_t *lli_read_bytes(struct lli_reader *reader, size_t size);
uint8_t lli_read_u8(struct lli_reader *reader);
uint16_t lli_read_u16(struct lli_reader *reader);
uint32_t lli_read_u32(struct lli_reader *reader);
uint64_t lli_read_u64(struct lli_reader *reader);

/* Numbers on the network are little-endian: changes one of this machine into one of them, or back. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LLI_LITTLE(bits, value) (value)
#else
#define LLI_LITTLE(bits, value) __builtin_bswap##bits(value)
#endif

/* By memcpy(), which is one instruction each: from single bytes gcc 12 puts a number together, and takes it apart, bit by bit. */
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

/* Writes into a packet how long it is. */
static inline void lli_wire_put_size(uint8_t *packet, size_t size)
{
    lli_store_u16(packet + LLI_WIRE_SIZE_AT, (uint16_t)size);
}

/* LLI_WIRE_HEADER bytes, of DATA LLI_WIRE_DATA_HEADER. */
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
 * Whether a packet of LLI_WIRE_DATA_HEADER bytes or more is DATA of a session, with these two numbers, as far as they are sent, no
 * extensions, and nothing before its first message.
 */
static inline bool lli_wire_is_data(const uint8_t *packet, size_t size, uint32_t tag, uint64_t seq, uint64_t number)
{
    const uint64_t flags = (uint64_t)(0xff & ~LLI_WIRE_FLAG_EXTENDED) << 8;
    const uint64_t head = LLI_WIRE_VERSION << 4 | LLI_WIRE_DATA | (uint64_t)size << 8 * LLI_WIRE_SIZE_AT | (uint64_t)tag << 32;

    return (lli_load_u64(packet) & ~flags) == head && lli_load_u64(packet + 8) == ((uint32_t)seq | number << 32) &&
           lli_load_u16(packet + LLI_WIRE_HEADER) == 0;
}

/* Section 2.1: passes what this version skips. False if it does not end in the packet. */
bool lli_wire_skip_extensions(const uint8_t **body, size_t *body_size);

/* What goes before the frames of DATA. */
static inline enum lli_wire_fault lli_wire_get_first(struct lli_wire_header *header, const uint8_t **body, size_t *body_size)
{
    if (*body_size < LLI_WIRE_DATA_HEADER - LLI_WIRE_HEADER)
        return LLI_WIRE_SHORT;
    header->first = lli_load_u16(*body);
    *body += LLI_WIRE_DATA_HEADER - LLI_WIRE_HEADER;
    *body_size -= LLI_WIRE_DATA_HEADER - LLI_WIRE_HEADER;
    return header->first > *body_size ? LLI_WIRE_MALFORMED : LLI_WIRE_OK;
}

/* As lli_wire_get_header(), but for LLI_WIRE_CONTROL, by which whoever treats such packets apart need not ask for the type of each. */
static inline enum lli_wire_fault lli_wire_get_base(const uint8_t *packet, size_t size, struct lli_wire_header *header,
                                                    const uint8_t **body, size_t *body_size)
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
 * Reads the header of a packet and skips its extensions. On LLI_WIRE_OK *body points behind them and *body_size is what is
 * left; for DATA it points to the frames, behind `first`, which is at most *body_size. LLI_WIRE_TYPE_BAD: unknown, or of a
 * connection.
 */
static inline enum lli_wire_fault lli_wire_get_header(const uint8_t *packet, size_t size, struct lli_wire_header *header,
                                                      const uint8_t **body, size_t *body_size)
{
    const enum lli_wire_fault fault = lli_wire_get_base(packet, size, header, body, body_size);

    return fault == LLI_WIRE_CONTROL ? LLI_WIRE_OK : fault;
}

/* The same for what lli_wire_get_header() found to be LLI_WIRE_TYPE_BAD: apart, as it is rare. */
enum lli_wire_fault lli_wire_get_connection(const uint8_t *packet, size_t size, struct lli_wire_header *header,
                                            const uint8_t **body, size_t *body_size);

/* -------------------------------------------------------------------------------------------- frames */

/* Section 3: what the frames of a DATA body are. */
enum lli_frame_kind {
    LLI_FRAME_BAD = 0,  /* cannot be parsed: nothing more of this packet can be */
    LLI_FRAME_MESSAGE,  /* value: its length; its bytes follow, and may go on in the next packets */
    LLI_FRAME_TOPIC,    /* value: the topic of the messages that follow in this packet */
    LLI_FRAME_ANNOUNCE, /* value: topic id; bytes: its name */
    LLI_FRAME_SKIP,     /* padding, or an extension that this version does not know */
};

struct lli_frame {
    enum lli_frame_kind kind;
    uint32_t value;
    const uint8_t *bytes;
    uint32_t bytes_size;
};

enum {
    LLI_FRAME_SHORT_MAX = 127,   /* longest message with a header of one byte */
    LLI_FRAME_MEDIUM_MAX = 16383, /* and of two */
    LLI_FRAME_TOPIC_SHORT_MAX = 8191,
    LLI_FRAME_MEDIUM = 0x80,
    LLI_FRAME_TOPIC_SHORT = 0xc0,
    LLI_FRAME_PAD = 0xe0,
    LLI_FRAME_LONG = 0xe1,
    LLI_FRAME_TOPIC_LONG = 0xe2,
    LLI_FRAME_ANNOUNCEMENT = 0xf0,
    LLI_FRAME_ATTRIBUTES = 0xf1,
    LLI_FRAME_SUMMARY = 0xf2,
};

/* Frames of LLI_FRAME_PAD and above: everything but messages and topics of everyday size. */
const uint8_t *lli_frame_get_rare(const uint8_t *at, const uint8_t *end, struct lli_frame *frame);

/* Reads one frame at `at`, before end, and returns where the next one starts (a message's bytes, for LLI_FRAME_MESSAGE). */
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
        frame->value = (code & 0x3fu) << 8 | at[1];
    } else {
        frame->kind = LLI_FRAME_TOPIC;
        frame->value = (code & 0x1fu) << 8 | at[1];
    }
    return at + 2;
}

/* Bytes of the frame header before a message of this size. */
static inline uint32_t lli_frame_message_size(uint32_t size)
{
    return size <= LLI_FRAME_SHORT_MAX ? 1 : size <= LLI_FRAME_MEDIUM_MAX ? 2 : 5;
}

/* Writes that header in the given number of bytes, which may be more than it needs. */
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

/* An announcement is 7 bytes and the name. */
enum { LLI_FRAME_ANNOUNCE_HEAD = 7 };
void lli_frame_put_announcement(uint8_t *at, uint32_t topic, const char *name, size_t name_size);

/* Whether a message follows that frame code. */
static inline bool lli_frame_is_message(uint8_t code)
{
    return code < LLI_FRAME_TOPIC_SHORT || code == LLI_FRAME_LONG;
}

enum {
    LLI_FRAME_HEAD = 3,             /* code and size of an extension frame */
    LLI_FRAME_SUMMARY_SIZE = 15,    /* section 3.3 */
    LLI_FRAME_BITMAP_MAX = 32,      /* bytes, section 3.2 */
    LLI_FRAME_ATTRIBUTES_MAX = 512, /* bytes of a frame of attributes that this version sends */
};

/* What is said of all messages that start in a packet before `end` of its body. */
struct lli_frame_summary {
    uint32_t any;   /* bits that a label has */
    uint32_t all;   /* bits that all labels have */
    uint16_t end;
    uint16_t count;
};

void lli_frame_put_summary(uint8_t *at, const struct lli_frame_summary *summary);

/* Reads it where the first frame of a packet is; false: there is none. */
static inline bool lli_frame_get_summary(const uint8_t *at, const uint8_t *end, struct lli_frame_summary *summary)
{
    if (end - at < LLI_FRAME_SUMMARY_SIZE || *at != LLI_FRAME_SUMMARY ||
        lli_load_u16(at + 1) < LLI_FRAME_SUMMARY_SIZE - LLI_FRAME_HEAD)
        return false;
    *summary = (struct lli_frame_summary){
        lli_load_u32(at + 3), lli_load_u32(at + 7), lli_load_u16(at + 11), lli_load_u16(at + 13)};
    return true;
}

/* ------------------------------------------------------------------------------------------- control */

/*
 * Each writes a whole packet of at most LLI_WIRE_CONTROL_MAX bytes and returns its size. tag, seq and number of the base
 * header follow from the fields.
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
 * A TOPICS packet: names are added behind its head of LLI_WIRE_TOPICS_HEAD bytes while they fit into size, each addition
 * returning the bytes used then, or 0 if it does not fit; the head is written last, with their count and the size of it all,
 * which it returns.
 */
enum { LLI_WIRE_TOPICS_HEAD = LLI_WIRE_HEADER + 18 };
size_t lli_wire_put_topics(uint8_t *packet, const struct lli_wire_topics *topics, size_t size);
size_t lli_wire_add_topic(uint8_t *packet, size_t used, size_t size, const char *name, size_t name_size);

/* A KEPT packet, likewise: records are added behind its head of LLI_WIRE_LVC_HEAD bytes, 0: it does not fit; the head is written last. */
enum { LLI_WIRE_LVC_HEAD = LLI_WIRE_HEADER + 68, LLI_WIRE_RECORD_HEAD = 18 };
size_t lli_wire_put_lvc(uint8_t *packet, const struct lli_wire_lvc *kept, size_t size);
size_t lli_wire_add_record(uint8_t *packet, size_t used, size_t size, const struct lli_wire_record *record);

/*
 * A topic's name as announcements and TOPICS have it: in `to`, of LLI_WIRE_NAME_MAX bytes; returns how many it takes. Without
 * flags (of enum lli_wire_topic_flags) it is the name alone, else shorter than that by LLI_WIRE_NAME_FLAGS.
 */
size_t lli_wire_put_name(char *to, const char *name, uint8_t flags);

/* What is the name of these bytes, which may be none, and its flags. */
size_t lli_wire_get_name(const uint8_t *bytes, size_t size, uint8_t *flags);

/* Each reads the body of a control packet whose header had this tag. */
bool lli_wire_get_heartbeat(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_heartbeat *heartbeat);
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
/* *names is left behind the head; read count length-prefixed names from it with lli_read_u8 and lli_read_bytes. */
bool lli_wire_get_topics(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_topics *topics,
                         struct lli_reader *names);
/* *records is left behind the head. All are inside the span, in their order and before `number`: lli_wire_next_record() gives each. */
bool lli_wire_get_lvc(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_lvc *kept, struct lli_reader *records);
bool lli_wire_next_record(struct lli_reader *records, struct lli_wire_record *record);

/* The address that the body of a control packet of this type announces, which may be malformed otherwise; false: none. */
bool lli_wire_get_announced(uint8_t type, const uint8_t *body, size_t size, struct lli_wire_address *address);

/* The spans of a join. Those that are empty or too many are not read: the reader is not ok then. */
uint8_t *lli_wire_put_spans(uint8_t *at, const struct lli_wire_span *spans, uint16_t count);
void lli_wire_get_spans(struct lli_reader *reader, uint16_t count, struct lli_wire_span *spans);

#endif
