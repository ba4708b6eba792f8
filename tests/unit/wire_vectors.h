/* SPDX-License-Identifier: Apache-2.0 */
/* Packets byte by byte, as quoted in docs/protocol.md: written from the specification, not from the codec. */
#ifndef TESTS_WIRE_VECTORS_H
#define TESTS_WIRE_VECTORS_H

#include "core/wire/wire.h"

enum { VECTOR_MAX = 256, FIELDS_MAX = 32 }; /* including the terminating one */

struct field {
    const char *hex;
    const char *text;
};

struct vector {
    const char *name;
    struct field fields[FIELDS_MAX];
};

/* 192.0.2.1, port 5001, in the format of the UDP transport. */
#define ADDRESS_HEX "04 c0 00 02 01 13 89"
/* clang-format off */
#define ADDRESS_VALUE {.size = 7, .bytes = {4, 192, 0, 2, 1, 0x13, 0x89}}

#define SESSION_FIELD {"88 77 66 55 44 33 22 11", "session"}
#define TAG_FIELD {"88 77 66 55", "tag: low half of the session"}
#define RECEIVER_FIELD {"01 ff ee dd cc bb aa 99", "receiver"}
#define TOKEN_FIELD {"0d 0c 0b 0a 09 08 07 06", "token"}
#define UNUSED_HEADER {"00 00 00 00", "not used"}
/* clang-format on */

static const struct vector data_vector = {
    "DATA: an announcement and two messages",
    {
        {"11", "version 1, type 1"},
        {"00", "flags"},
        {"22 00", "size of the packet"},
        TAG_FIELD,
        {"04 03 02 01", "packet number, low half"},
        {"0c 0b 0a 00", "number of the first message that starts here, low half"},
        {"00 00", "the first frame starts at 0 of the body"},
        {"f0 06 00 01 00 00 00 70 78", "announcement, 6 bytes: topic 1 is \"px\""},
        {"c0 01", "the messages that follow are of topic 1"},
        {"03 68 65 79", "message of 3 bytes: \"hey\""},
        {"00", "message of 0 bytes"},
    },
};

static const struct vector continued_vector = {
    "DATA: the last 2 bytes of a message begun before, then another",
    {
        {"11", "version 1, type 1"},
        {"00", "flags"},
        {"16 00", "size of the packet"},
        TAG_FIELD,
        {"05 03 02 01", "packet number, low half"},
        {"0e 0b 0a 00", "number of the first message that starts here, low half"},
        {"02 00", "the first frame starts at 2 of the body"},
        {"58 59", "\"XY\", the end of message 0x0a0b0d"},
        {"01 7a", "message of 1 byte, topic 0: \"z\""},
    },
};

/* The next five continue in one another, across the wrap of both numbers. */
static const struct vector header_last_vector = {
    "DATA: a message, and the header of another at the end of the packet",
    {
        {"11 00 15 00", "version 1, type 1, flags, size"},
        TAG_FIELD,
        {"ff ff ff ff", "packet number, low half"},
        {"ff ff ff ff", "number of the first message that starts here, low half"},
        {"00 00", "the first frame starts at 0 of the body"},
        {"01 79", "message of 1 byte: \"y\""},
        {"05", "message of 5 bytes, all of them in later packets"},
    },
};

static const struct vector middle_vector = {
    "DATA: 3 bytes in the middle of a message; no frame starts",
    {
        {"11 00 15 00", "version 1, type 1, flags, size"},
        TAG_FIELD,
        {"00 00 00 00", "packet number, low half: one more"},
        {"01 00 00 00", "number of the first message that starts in a later packet, low half"},
        {"03 00", "the size of the body: no frame starts in this packet"},
        {"61 62 63", "\"abc\""},
    },
};

static const struct vector padded_vector = {
    "DATA: the last 2 bytes of a message, then padding",
    {
        {"11 00 16 00", "version 1, type 1, flags, size"},
        TAG_FIELD,
        {"01 00 00 00", "packet number, low half"},
        {"01 00 00 00", "number of the first message that starts in a later packet, low half"},
        {"02 00", "the first frame starts at 2 of the body: padding is a frame"},
        {"64 65", "\"de\""},
        {"e0", "padding"},
        {"e0", "padding"},
    },
};

static const struct vector empty_vector = {
    "DATA without a body, which libllm does not send",
    {
        {"11 00 12 00", "version 1, type 1, flags, size"},
        TAG_FIELD,
        {"02 00 00 00", "packet number, low half"},
        {"01 00 00 00", "number of the first message that starts in a later packet, low half"},
        {"00 00", "the size of the body"},
    },
};

static const struct vector unused_vector = {
    "DATA with a frame that is not used, behind which nothing can be read",
    {
        {"11 00 17 00", "version 1, type 1, flags, size"},
        TAG_FIELD,
        {"03 00 00 00", "packet number, low half"},
        {"01 00 00 00", "number of the first message that starts here, low half"},
        {"00 00", "the first frame starts at 0 of the body"},
        {"01 7a", "message of 1 byte: \"z\""},
        {"e3", "not used: malformed"},
        {"01 7a", "passed over"},
    },
};

static const struct vector unreliable_vector = {
    "DATA behind two packets that are not repaired",
    {
        {"11", "version 1, type 1"},
        {"02", "flags: the 2 packets directly before this one are not repaired"},
        {"14 00", "size of the packet"},
        TAG_FIELD,
        {"06 03 02 01", "packet number, low half"},
        {"0e 0b 0a 00", "number of the first message that starts here, low half"},
        {"00 00", "the first frame starts at 0 of the body"},
        {"01 7a", "message of 1 byte, topic 0: \"z\""},
    },
};

static const struct vector extended_vector = {
    "DATA with an extension that version 1 does not know",
    {
        {"11", "version 1, type 1"},
        {"80", "flags: extended"},
        {"1a 00", "size of the packet"},
        TAG_FIELD,
        {"04 03 02 01", "packet number, low half"},
        {"0c 0b 0a 00", "number of the first message that starts here, low half"},
        {"06 00 de ad be ef", "extensions, 6 bytes with this length: skipped"},
        {"00 00", "the first frame starts at 0 of the body"},
        {"01 7a", "message of 1 byte, topic 0: \"z\""},
    },
};

static const struct vector attributes_vector = {
    "DATA: a summary and two messages with attributes",
    {
        {"11", "version 1, type 1"},
        {"00", "flags"},
        {"40 00", "size of the packet"},
        TAG_FIELD,
        {"04 03 02 01", "packet number, low half"},
        {"0c 0b 0a 00", "number of the first message that starts here, low half"},
        {"00 00", "the first frame starts at 0 of the body"},
        {"f2 0c 00", "summary, 12 bytes"},
        {"04 03 02 01", "bits that a label has"},
        {"00 03 02 01", "bits that all labels have"},
        {"2e 00", "of the messages that start before 46 of the body"},
        {"02 00", "which are 2"},
        {"c0 01", "the messages that follow are of topic 1"},
        {"f1 04 00", "attributes, 4 bytes"},
        {"04 03 02 01", "label"},
        {"03 68 65 79", "message of 3 bytes: \"hey\""},
        {"f1 0e 00", "attributes, 14 bytes"},
        {"00 03 02 01", "label"},
        {"02 01 80", "bitmap of 2 bytes: bits 0 and 15"},
        {"05 00 01 07 00 00 00", "property 5, an int32: 7"},
        {"00", "message of 0 bytes"},
    },
};

static const struct vector numbers_vector = {
    "DATA: 70 message numbers are skipped",
    {
        {"11 00 19 00", "version 1, type 1, flags, size"},
        TAG_FIELD,
        {"04 03 02 01", "packet number, low half"},
        {"0c 0b 0a 00", "number of the first one that is skipped, low half"},
        {"00 00", "the first frame starts at 0 of the body"},
        {"f3 04 00", "numbers, 4 bytes"},
        {"46 00 00 00", "70 are skipped: the next message is 0x0a0b52"},
    },
};

static const struct vector heartbeat_vector = {
    "HEARTBEAT",
    {
        {"12 00 5d 00", "version 1, type 2, flags, size"},
        TAG_FIELD,
        {"04 03 02 01", "lead, low half"},
        {"0c 0b 0a 00", "messages, low half"},
        SESSION_FIELD,
        {"04 03 02 01 02 00 00 00", "lead: the next packet"},
        {"00 03 02 01 02 00 00 00", "trail: the oldest packet that can be repaired"},
        {"f0 02 02 01 02 00 00 00", "start: the first packet of the session"},
        {"0c 0b 0a 00 00 00 00 00", "messages: the number of the first at lead or later"},
        {"15 cd 5b 07 00 00 00 00", "sent at 123,456,789 ns"},
        {"10 27 00 00", "another follows within 10,000 us"},
        {"50 c3 00 00", "round trip 50,000 ns"},
        {"03 00 00 00", "3 receivers"},
        {"02 00 00 00", "2 topics"},
        {"00 02 00 00", "a report after 512 packets"},
        {"03", "flags: end, young"},
        {"07", "7 bytes of address"},
        {ADDRESS_HEX, "where NAKs, status and queries go"},
    },
};

static const struct vector nak_vector = {
    "NAK",
    {
        {"13 00 43 00", "version 1, type 3, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"00", "not used"},
        {"07", "7 bytes of address"},
        {"02 00", "2 ranges"},
        {ADDRESS_HEX, "where unicast repairs go"},
        {"fe ff ff ff 03 00 00 00", "3 packets from 0xfffffffe on: across the wrap"},
        {"10 00 00 00 01 00 00 00", "packet 16"},
        TOKEN_FIELD,
    },
};

static const struct vector reject_vector = {
    "REJECT",
    {
        {"14 00 2c 00", "version 1, type 4, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        {"00 03 02 01 02 00 00 00", "trail: the oldest packet that can be repaired"},
        {"01", "reason: gone"},
        {"00", "not used"},
        {"01 00", "1 range"},
        {"f0 02 02 01 04 00 00 00", "4 packets from 0x010202f0 on"},
    },
};

static const struct vector unrepaired_vector = {
    "REJECT of packets that are not repaired",
    {
        {"14 00 34 00", "version 1, type 4, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        {"00 03 02 01 02 00 00 00", "trail: the oldest packet that can be repaired"},
        {"03", "reason: unrepaired"},
        {"00", "not used"},
        {"02 00", "2 ranges"},
        {"01 03 02 01 02 00 00 00", "2 packets from 0x01020301 on"},
        {"06 03 02 01 01 00 00 00", "packet 0x01020306"},
    },
};

static const struct vector passed_vector = {
    "REJECT of packets of topics without history",
    {
        {"14 00 2c 00", "version 1, type 4, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        {"00 03 02 01 02 00 00 00", "trail: the oldest packet that can be repaired"},
        {"04", "reason: passed"},
        {"00", "not used"},
        {"01 00", "1 range"},
        {"10 03 02 01 08 00 00 00", "8 packets from 0x01020310 on"},
    },
};

static const struct vector status_vector = {
    "STATUS",
    {
        {"15 00 5d 00", "version 1, type 5, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"02 03 02 01 02 00 00 00", "next: all before was delivered or given up"},
        {"04 03 02 01 02 00 00 00", "highest: one past the highest seen"},
        {"15 cd 5b 07 00 00 00 00", "echo of the heartbeat sent at 123,456,789 ns"},
        {"e8 03 00 00", "that came 1,000 ns ago"},
        {"05 00 00 00", "5 packets lost"},
        {"06 00 00 00", "6 NAKs"},
        {"07 00 00 00", "7 dropped by the host"},
        {"00 40 00 00", "window free: 16,384 packets"},
        {"02", "flags: done"},
        {"07", "7 bytes of address"},
        {ADDRESS_HEX, "where answers go"},
        TOKEN_FIELD,
    },
};

static const struct vector topics_vector = {
    "TOPICS",
    {
        {"16 00 2b 00", "version 1, type 6, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        {"03 00 00 00", "3 topics in the session"},
        {"01 00 00 00", "the first here is topic 1"},
        {"02 00", "2 names"},
        {"02 70 78", "\"px\""},
        {"05 71 74 79", "\"qty\""},
        {"00 01", "which has no history"},
    },
};

static const struct vector topics_beyond_vector = {
    "TOPICS: the answer to a QUERY from beyond what is announced",
    {
        {"16 00 22 00", "version 1, type 6, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        {"03 00 00 00", "3 topics in the session"},
        {"03 00 00 00", "the same again"},
        {"00 00", "no names"},
    },
};

static const struct vector query_vector = {
    "QUERY",
    {
        {"17 00 34 00", "version 1, type 7, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"01 00 00 00", "names from topic 1 on"},
        {"07", "7 bytes of address"},
        {ADDRESS_HEX, "where the answer goes"},
        TOKEN_FIELD,
    },
};

static const struct vector join_ask_vector = {
    "JOIN: a receiver asks to begin 1,000 messages back",
    {
        {"18 00 61 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"01", "ASK"},
        {"02", "so many messages back"},
        {"00", "no reason"},
        {"07", "7 bytes of address"},
        {"00 00", "no ranges"},
        {"00 00 00 00", "no topics"},
        {"e8 03 00 00 00 00 00 00", "1,000 messages"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {ADDRESS_HEX, "where the answer goes"},
        TOKEN_FIELD,
    },
};

static const struct vector join_grant_vector = {
    "JOIN: the transmitter says where to begin",
    {
        {"18 00 5a 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"02", "GRANT"},
        {"02", "as asked: so many messages back"},
        {"00", "no reason"},
        {"00", "no address"},
        {"00 00", "no ranges"},
        {"03 00 00 00", "3 topics in the session"},
        {"e8 03 00 00 00 00 00 00", "as asked: 1,000"},
        {"10 00 00 00 01 00 00 00", "the first packet to fetch"},
        {"09 00 00 00 00 00 00 00", "the first message to deliver is number 9"},
        {"2a 00 00 00 00 00 00 00", "the first in the packet that will be sent next is number 42"},
        {"20 00 00 00 01 00 00 00", "the packet that will be sent next"},
        TOKEN_FIELD,
    },
};

static const struct vector join_fetch_vector = {
    "JOIN: a receiver fetches packets of the past",
    {
        {"18 00 69 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"04", "FETCH"},
        {"00", "not used"},
        {"00", "no reason"},
        {"07", "7 bytes of address"},
        {"01 00", "1 range"},
        {"00 00 00 00", "no topics"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"20 00 00 00 01 00 00 00", "as granted: what is live begins here"},
        {ADDRESS_HEX, "where the packets go"},
        {"10 00 00 00 10 00 00 00", "16 packets from packet 16 on"},
        TOKEN_FIELD,
    },
};

static const struct vector join_latest_vector = {
    "JOIN: a receiver requests messages of last value caches",
    {
        {"18 00 81 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"05", "LATEST"},
        {"05", "not used"},
        {"00", "no reason"},
        {"07", "7 bytes of address"},
        {"01 00", "1 span"},
        {"00 00 00 00", "no topics"},
        {"02 00 00 00 00 00 00 00", "the last 2 of each topic"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"2a 00 00 00 00 00 00 00", "as granted: messages before number 42"},
        {"00 01 00 00 00 00 00 00", "in 256 packets"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {ADDRESS_HEX, "where the packets go"},
        {"07 00 00 00 29 00 00 00 00 00 00 00 e8 03 00 00", "from topic 7, message 41, byte 1,000 of it"},
        {"10 27 00 00 00 00 00 00 00 00 00 00 00 00 00 00", "to before topic 10,000"},
        TOKEN_FIELD,
    },
};

static const struct vector join_seek_vector = {
    "JOIN: a receiver asks stores for what follows message 1,000",
    {
        {"18 00 61 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"07", "SEEK"},
        {"04", "from message number ..."},
        {"00", "no reason"},
        {"07", "7 bytes of address"},
        {"00 00", "no ranges"},
        {"00 00 00 00", "no topics"},
        {"e8 03 00 00 00 00 00 00", "... 1,000"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {ADDRESS_HEX, "where the answer goes"},
        TOKEN_FIELD,
    },
};

static const struct vector join_offer_vector = {
    "JOIN: a store offers what it has",
    {
        {"18 00 61 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"08", "OFFER"},
        {"04", "as asked: from message number"},
        {"06", "ENDED: the recording has ended"},
        {"07", "7 bytes of address"},
        {"00 00", "no ranges"},
        {"00 00 00 00", "no topics"},
        {"e8 03 00 00 00 00 00 00", "as asked: 1,000"},
        {"10 00 00 00 01 00 00 00", "the first packet to fetch"},
        {"e8 03 00 00 00 00 00 00", "the first message to deliver"},
        {"2a 04 00 00 00 00 00 00", "the recording has 1,066 messages"},
        {"20 00 00 00 01 00 00 00", "and packets up to before this one"},
        {ADDRESS_HEX, "address of the store"},
        TOKEN_FIELD,
    },
};

static const struct vector join_recall_vector = {
    "JOIN: a receiver recalls packets from a store",
    {
        {"18 00 69 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"09", "RECALL"},
        {"00", "not used"},
        {"00", "no reason"},
        {"07", "7 bytes of address"},
        {"01 00", "1 range"},
        {"00 00 00 00", "no topics"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {ADDRESS_HEX, "where the packets go"},
        {"10 00 00 00 10 00 00 00", "16 packets from packet 16 on"},
        TOKEN_FIELD,
    },
};

static const struct vector join_absent_vector = {
    "JOIN: a store lacks packets",
    {
        {"18 00 69 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"0a", "ABSENT"},
        {"00", "not used"},
        {"00", "no reason"},
        {"07", "7 bytes of address"},
        {"01 00", "1 range"},
        {"00 00 00 00", "no topics"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"10 00 00 00 01 00 00 00", "the oldest packet that it has"},
        {"09 00 00 00 00 00 00 00", "the first message there is number 9"},
        {"2a 00 00 00 00 00 00 00", "it has messages up to before number 42"},
        {"20 00 00 00 01 00 00 00", "and packets up to before this one"},
        {ADDRESS_HEX, "address of the store"},
        {"12 00 00 00 02 00 00 00", "it lacks 2 packets from packet 18 on"},
        TOKEN_FIELD,
    },
};

static const struct vector join_stream_vector = {
    "JOIN: a transmitter asks stores where a stream ends",
    {
        {"18 00 61 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        {"88 77 66 55 44 33 22 11", "stream"},
        {"01 ff ee dd cc bb aa 99", "identity of the question"},
        {"0b", "STREAM"},
        {"00", "not used"},
        {"00", "no reason"},
        {"07", "7 bytes of address"},
        {"00 00", "no ranges"},
        {"00 00 00 00", "no topics"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {ADDRESS_HEX, "where the answer goes"},
        {"00 00 00 00 00 00 00 00", "no token"},
    },
};

static const struct vector join_stream_end_vector = {
    "JOIN: a store says where a stream ends",
    {
        {"18 00 61 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        {"88 77 66 55 44 33 22 11", "stream"},
        {"01 ff ee dd cc bb aa 99", "identity of the question"},
        {"0c", "STREAM_END"},
        {"00", "not used"},
        {"00", "no reason"},
        {"07", "7 bytes of address"},
        {"00 00", "no ranges"},
        {"00 00 00 00", "no topics"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"e8 03 00 00 00 00 00 00", "the stream ends before number 1,000"},
        {"2a 00 00 00 00 00 00 00", "with session 42"},
        {"03 00 00 00 00 00 00 00", "of term 3"},
        {ADDRESS_HEX, "address of the store"},
        {"00 00 00 00 00 00 00 00", "no token"},
    },
};

static const struct vector join_beat_vector = {
    "JOIN: the primary of a failover group is alive",
    {
        {"18 00 61 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        {"88 77 66 55 44 33 22 11", "stream"},
        {"01 ff ee dd cc bb aa 99", "identity of the primary's life"},
        {"0f", "BEAT"},
        {"00", "member 0"},
        {"83", "of 3 voters; a majority has what is delivered"},
        {"07", "7 bytes of address"},
        {"00 00", "not used"},
        {"0c 00 00 00", "term 12, one of member 0"},
        {"40 42 0f 00 00 00 00 00", "clock of the primary: 1 ms"},
        {"05 00 00 00 00 00 00 00", "it retains messages from number 5 on"},
        {"2a 00 00 00 00 00 00 00", "its term begins with number 42"},
        {"0c 00 00 00", "it is the primary of term 12 ..."},
        {"0a 00 00 00", "... and was of level 10 before"},
        {"2d 00 00 00 00 00 00 00", "it has the messages before number 45"},
        {ADDRESS_HEX, "where answers go"},
        {"2c 00 00 00 00 00 00 00", "a majority has those before number 44"},
    },
};

static const struct vector join_tail_fetch_vector = {
    "JOIN: a candidate requests messages of a member",
    {
        {"18 00 61 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        {"88 77 66 55 44 33 22 11", "stream"},
        {"01 ff ee dd cc bb aa 99", "identity of the candidate's life"},
        {"12", "TAIL_FETCH"},
        {"00", "not used"},
        {"00", "not used"},
        {"07", "7 bytes of address"},
        {"00 00", "not used"},
        {"00 00 00 00", "not used"},
        {"00 01 00 00 00 00 00 00", "from byte 256 on ..."},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"2a 00 00 00 00 00 00 00", "... of message 42"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {ADDRESS_HEX, "where the messages go"},
        {"00 00 00 00 00 00 00 00", "no token"},
    },
};

static const struct vector join_tail_vector = {
    "JOIN: a member sends a part of a message",
    {
        {"18 00 63 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        {"88 77 66 55 44 33 22 11", "stream"},
        {"01 ff ee dd cc bb aa 99", "identity of the member's life"},
        {"13", "TAIL"},
        {"00", "not used"},
        {"00", "not used"},
        {"00", "no address"},
        {"00 00", "not used"},
        {"03 01 00 00", "the message has 259 bytes"},
        {"00 01 00 00 00 00 00 00", "this part begins at byte 256"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"2a 00 00 00 00 00 00 00", "message 42"},
        {"03 00 00 00", "3 bytes of it ..."},
        {"06 00 00 00", "... after 6 of its topic's name"},
        {"2d 00 00 00 00 00 00 00", "the member has the messages before number 45"},
        {"00 00 00 00 00 00 00 00", "no token"},
        {"6f 72 64 65 72 73", "topic \"orders\""},
        {"65 6e 64", "\"end\""},
    },
};

static const struct vector join_token_vector = {
    "JOIN: the transmitter gives a token, and knows too many receivers",
    {
        {"18 00 5a 00", "version 1, type 8, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"06", "TOKEN"},
        {"00", "not used"},
        {"04", "FULL"},
        {"00", "no address"},
        {"00 00", "no ranges"},
        {"00 00 00 00", "no topics"},
        {"00 04 00 00 00 00 00 00", "it knows 1,024 receivers"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        {"00 00 00 00 00 00 00 00", "not used"},
        TOKEN_FIELD,
    },
};

static const struct vector kept_vector = {
    "LVC: messages of last value caches",
    {
        {"1e 00 7e 00", "version 1, type 14, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"2a 00 00 00 00 00 00 00", "as asked: messages before number 42"},
        {"2f 00 00 00 00 00 00 00", "what was packed by now is messages before number 47"},
        {"07 00 00 00 29 00 00 00 00 00 00 00 e8 03 00 00", "from topic 7, message 41, byte 1,000 of it"},
        {"10 27 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
         "to before topic 10,000: all that is kept of these"},
        {"00 00", "no packet follows of those asked for"},
        {"02 00", "2 records"},
        {"07 00 00 00 29 00 00 00 00 00 00 00 e8 03 00 00", "of topic 7, message 41, from its byte 1,000 on"},
        {"03 00 65 6e 64", "3 bytes: \"end\""},
        {"09 00 00 00 03 00 00 00 00 00 00 00 00 00 00 00", "of topic 9, message 3, from its first byte on"},
        {"03 00 02 68 69", "3 bytes: a message of 2, \"hi\""},
    },
};

static const struct vector notice_vector = {
    "NOTICE",
    {
        {"19 00 6a 00", "version 1, type 9, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"15 cd 5b 07 00 00 00 00", "decided at 123,456,789 ns"},
        {"04 03 02 01 02 00 00 00", "lead: nothing before is repaired"},
        {"2a c3 02 00 00 00 00 00", "the figure that decided: 181,034"},
        {"f0 49 02 00 00 00 00 00", "what it reached: 150,000"},
        {"40 4b 4c 00 00 00 00 00", "behind by 5 ms"},
        {"80 96 98 00 00 00 00 00", "not heard for 10 ms"},
        {"e8 03 00 00", "1,000 NAKs a second"},
        {"2a c3 02 00", "asks for 18.1034 % of the packets again"},
        {"2c 01 00 00", "behind by 300 packets"},
        {"03 00 00 00", "3 receivers"},
        {"01 00 00 00", "1 of them suffers"},
        {"10 27 00 00", "may come back after 10 s"},
        {"03", "suspended"},
        {"02", "for the share that it asks for again"},
    },
};

static const struct vector assured_vector = {
    "HEARTBEAT of a session with assured topics",
    {
        {"12 00 76 00", "version 1, type 2, flags, size"},
        TAG_FIELD,
        {"04 03 02 01", "lead, low half"},
        {"0c 0b 0a 00", "messages, low half"},
        SESSION_FIELD,
        {"04 03 02 01 02 00 00 00", "lead: the next packet"},
        {"00 03 02 01 02 00 00 00", "trail: the oldest packet that can be repaired"},
        {"f0 02 02 01 02 00 00 00", "start: the first packet of the session"},
        {"0c 0b 0a 00 00 00 00 00", "messages: the number of the first at lead or later"},
        {"15 cd 5b 07 00 00 00 00", "sent at 123,456,789 ns"},
        {"10 27 00 00", "another follows within 10,000 us"},
        {"50 c3 00 00", "round trip 50,000 ns"},
        {"03 00 00 00", "3 receivers"},
        {"02 00 00 00", "2 topics"},
        {"80 00 00 00", "a report after 128 packets"},
        {"0c", "flags: held, assured"},
        {"07", "7 bytes of address"},
        {ADDRESS_HEX, "where NAKs, status and queries go"},
        {"02 03 02 01 02 00 00 00", "kept: what is not acknowledged starts here"},
        {"00 0b 0a 00 00 00 00 00", "the number of the first message that starts there or later"},
        {"02", "2 assured topics"},
        {"01 00 00 00", "topic 1"},
        {"00 01 00 00", "topic 256"},
    },
};

static const struct vector stream_vector = {
    "HEARTBEAT of a session that continues a stream",
    {
        {"12 01 71 00", "version 1, type 2, flags: stream, size"},
        TAG_FIELD,
        {"04 03 02 01", "lead, low half"},
        {"0c 0b 0a 00", "messages, low half"},
        SESSION_FIELD,
        {"04 03 02 01 02 00 00 00", "lead: the next packet"},
        {"00 03 02 01 02 00 00 00", "trail: the oldest packet that can be repaired"},
        {"f0 02 02 01 02 00 00 00", "start: the first packet of the session"},
        {"0c 0b 0a 00 00 00 00 00", "messages: the number of the first at lead or later"},
        {"15 cd 5b 07 00 00 00 00", "sent at 123,456,789 ns"},
        {"10 27 00 00", "another follows within 10,000 us"},
        {"50 c3 00 00", "round trip 50,000 ns"},
        {"03 00 00 00", "3 receivers"},
        {"02 00 00 00", "2 topics"},
        {"00 02 00 00", "a report after 512 packets"},
        {"02", "flags: young"},
        {"07", "7 bytes of address"},
        {ADDRESS_HEX, "where NAKs, status and queries go"},
        {"f0 de bc 9a 78 56 34 12", "the stream"},
        {"40 42 0f 00 00 00 00 00", "base: message 0 of the session has number 1,000,000 in it"},
        {"05 00 00 00", "term 5"},
    },
};

static const struct vector acknowledging_vector = {
    "STATUS that acknowledges",
    {
        {"15 00 74 00", "version 1, type 5, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"02 03 02 01 02 00 00 00", "next: all before was delivered or given up"},
        {"04 03 02 01 02 00 00 00", "highest: one past the highest seen"},
        {"15 cd 5b 07 00 00 00 00", "echo of the heartbeat sent at 123,456,789 ns"},
        {"e8 03 00 00", "that came 1,000 ns ago"},
        {"05 00 00 00", "5 packets lost"},
        {"06 00 00 00", "6 NAKs"},
        {"07 00 00 00", "7 dropped by the host"},
        {"00 40 00 00", "window free: 16,384 packets"},
        {"04", "flags: acknowledges"},
        {"07", "7 bytes of address"},
        {ADDRESS_HEX, "where answers go"},
        {"00 0b 0a 00 00 00 00 00", "held from this message on"},
        {"08 0b 0a 00 00 00 00 00", "to the one before this"},
        {"02 00", "accepts the second assured topic, not the first"},
        {"04", "4 bytes of name"},
        {"62 6f 6f 6b", "\"book\""},
        TOKEN_FIELD,
    },
};

/* clang-format off */
#define CONNECTION_FIELD {"88 77 66 55 44 33 22 11", "connection"}
/* clang-format on */

static const struct vector connect_vector = {
    "CONNECT",
    {
        {"1a 00 34 00", "version 1, type 10, flags, size"},
        {"88 77 66 55", "tag: low half of the connection's identity"},
        UNUSED_HEADER,
        UNUSED_HEADER,
        CONNECTION_FIELD,
        {"01 ff ee dd cc bb aa 99", "session of the transmitter"},
        {"00 00 10 00", "takes messages of up to 1 MiB"},
        {"05 00", "5 bytes of payload"},
        {"00", "not used"},
        {"07", "7 bytes of address"},
        {ADDRESS_HEX, "where whoever connects is reached"},
        {"74 6f 6b 65 6e", "\"token\""},
    },
};

static const struct vector accept_vector = {
    "ACCEPT",
    {
        {"1b 00 34 00", "version 1, type 11, flags, size"},
        {"88 77 66 55", "tag: low half of the connection's identity"},
        UNUSED_HEADER,
        UNUSED_HEADER,
        CONNECTION_FIELD,
        {"01 ff ee dd cc bb aa 99", "session of the transmitter"},
        {"03 02 01 00 01 00 00 00", "start"},
        {"00 00 10 00", "takes messages of up to 1 MiB"},
        {"07", "7 bytes of address"},
        {ADDRESS_HEX, "where whoever accepts is reached"},
    },
};

static const struct vector refuse_vector = {
    "REFUSE",
    {
        {"1c 00 1b 00", "version 1, type 12, flags, size"},
        {"88 77 66 55", "tag: low half of the connection's identity"},
        UNUSED_HEADER,
        UNUSED_HEADER,
        CONNECTION_FIELD,
        {"93 01", "code 403"},
        {"01", "by the application"},
    },
};

static const struct vector close_vector = {
    "CLOSE",
    {
        {"1d 00 29 00", "version 1, type 13, flags, size"},
        {"88 77 66 55", "tag: low half of the connection's identity"},
        UNUSED_HEADER,
        UNUSED_HEADER,
        CONNECTION_FIELD,
        {"04", "left: the other side has all that was sent"},
        {"07", "7 bytes of address"},
        {"02 03 02 01 02 00 00 00", "next: every packet of the other side before was taken"},
        {ADDRESS_HEX, "where the answer goes"},
    },
};

static const struct vector limited_vector = {
    "STATUS that tells what limits the receiver",
    {
        {"15 00 76 00", "version 1, type 5, flags, size"},
        TAG_FIELD,
        UNUSED_HEADER,
        UNUSED_HEADER,
        SESSION_FIELD,
        RECEIVER_FIELD,
        {"02 03 02 01 02 00 00 00", "next: all before was delivered or given up"},
        {"04 03 02 01 02 00 00 00", "highest: one past the highest seen"},
        {"15 cd 5b 07 00 00 00 00", "echo of the heartbeat sent at 123,456,789 ns"},
        {"e8 03 00 00", "that came 1,000 ns ago"},
        {"05 00 00 00", "5 packets lost"},
        {"06 00 00 00", "6 NAKs"},
        {"07 00 00 00", "7 dropped by the host"},
        {"00 40 00 00", "window free: 16,384 packets"},
        {"08", "flags: limited"},
        {"07", "7 bytes of address"},
        {ADDRESS_HEX, "where answers go"},
        {"02", "limited by its receive buffer"},
        {"e9 03 00 00", "over 1,001 ms"},
        {"64 00 00 00", "of which its application was away for 100 ms"},
        {"88 13 00 00", "at most 5,000 us at once"},
        {"10 27 00 00", "10,000 packets came"},
        {"08 00 00 00", "8 were missed"},
        {"07 00 00 00", "7 were dropped by its host"},
        TOKEN_FIELD,
    },
};

static const struct vector *const vectors[] = {
    &data_vector,
    &continued_vector,
    &header_last_vector,
    &middle_vector,
    &padded_vector,
    &empty_vector,
    &unused_vector,
    &topics_beyond_vector,
    &extended_vector,
    &attributes_vector,
    &unreliable_vector,
    &numbers_vector,
    &heartbeat_vector,
    &nak_vector,
    &reject_vector,
    &unrepaired_vector,
    &passed_vector,
    &status_vector,
    &topics_vector,
    &query_vector,
    &notice_vector,
    &join_ask_vector,
    &join_grant_vector,
    &join_fetch_vector,
    &join_latest_vector,
    &join_token_vector,
    &kept_vector,
    &assured_vector,
    &acknowledging_vector,
    &limited_vector,
    &connect_vector,
    &accept_vector,
    &refuse_vector,
    &close_vector,
    &join_seek_vector,
    &join_offer_vector,
    &join_recall_vector,
    &join_absent_vector,
    &stream_vector,
    &join_stream_vector,
    &join_stream_end_vector,
    &join_beat_vector,
    &join_tail_fetch_vector,
    &join_tail_vector,
};

enum { VECTORS = sizeof vectors / sizeof vectors[0] };

#endif
