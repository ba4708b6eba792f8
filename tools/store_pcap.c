/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llm-store export --format pcap: recorded packets as UDP datagrams to the group and port of their channel, for
 * Wireshark. A store has neither addresses nor times of single packets: the source is made up, and all packets
 * of a block have its time.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "config/channel.h"
#include "core/wire/wire.h"
#include "store_tool.h"

enum {
    PCAP_IPV4 = 20,
    PCAP_UDP = 8,
    PCAP_HEADERS = PCAP_IPV4 + PCAP_UDP,
    PCAP_PACKET_MAX = 65535 - PCAP_HEADERS, /* of the longest datagram */
    PCAP_LINK_RAW = 101, /* LINKTYPE_RAW: IP packets, https://www.tcpdump.org/linktypes.html */
    PCAP_PORT = 5001,    /* of channels without one */
};

#define PCAP_SOURCE UINT32_C(0xc0000201) /* 192.0.2.1, RFC 5737 */
#define PCAP_GROUP UINT32_C(0xe9fc0001)  /* 233.252.0.1, RFC 5771: of channels that are no IPv4 groups */
#define PCAP_MAGIC UINT32_C(0xa1b23c4d)  /* with nanoseconds */

struct pcap {
    const struct store_arguments *arguments;
    struct store_progress progress;
    uint64_t session; /* that is being written */
    lli_seq start;    /* its first packet */
    bool begun;       /* a packet of it, or a gap, was there */
    uint32_t group;
    uint16_t port;
    uint64_t packets;
    uint64_t left_out; /* too long for a datagram */
    uint64_t unopened; /* that the keys of the arguments do not open */
};

static void put_big16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put_big32(uint8_t *at, uint32_t value)
{
    put_big16(at, value >> 16);
    put_big16(at + 2, value);
}

/* Checksum of the header, RFC 1071. */
static uint16_t pcap_checksum(const uint8_t *header)
{
    uint32_t sum = 0;

    for (int i = 0; i < PCAP_IPV4; i += 2)
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~(sum + (sum >> 16));
}

static void pcap_packet(struct pcap *pcap, const uint8_t *bytes, uint32_t size, uint64_t wall)
{
    uint8_t record[16], headers[PCAP_HEADERS] = {0x45, 0, 0, 0, 0, 0, 0, 0, 16, 17};

    if (size > PCAP_PACKET_MAX) {
        pcap->left_out++;
        return;
    }
    lli_store_u32(record, (uint32_t)(wall / 1000000000));
    lli_store_u32(record + 4, (uint32_t)(wall % 1000000000));
    lli_store_u32(record + 8, PCAP_HEADERS + size);
    lli_store_u32(record + 12, PCAP_HEADERS + size);
    put_big16(headers + 2, PCAP_HEADERS + size);
    put_big32(headers + 12, PCAP_SOURCE);
    put_big32(headers + 16, pcap->group);
    put_big16(headers + 10, pcap_checksum(headers));
    put_big16(headers + PCAP_IPV4, pcap->port);
    put_big16(headers + PCAP_IPV4 + 2, pcap->port);
    put_big16(headers + PCAP_IPV4 + 4, PCAP_UDP + size);
    fwrite(record, 1, sizeof record, stdout);
    fwrite(headers, 1, sizeof headers, stdout);
    fwrite(bytes, 1, size, stdout);
    store_progress_note(&pcap->progress, ++pcap->packets, "packets");
}

/* A name that was announced before the segment, as the packet that a transmitter answers a QUERY with. */
static void pcap_name(struct pcap *pcap, uint64_t session, const struct lli_record *record, uint64_t wall)
{
    const struct lli_wire_topics topics = {
        .session = session, .total = record->topic + 1, .first = record->topic, .count = 1};
    uint8_t packet[LLI_WIRE_TOPICS_HEAD + 1 + LLI_WIRE_NAME_MAX];
    const size_t used = lli_wire_add_topic(packet, LLI_WIRE_TOPICS_HEAD, sizeof packet,
                                           (const char *)record->data, record->size);

    if (used > 0)
        pcap_packet(pcap, packet, (uint32_t)lli_wire_put_topics(packet, &topics, used), wall);
}

/*
 * A heartbeat with what the store knows, as the transmitter may have sent it: Wireshark tells packets of a session
 * by one. ends: the last one.
 */
static void pcap_heartbeat(struct pcap *pcap, const struct lli_record *record, uint64_t wall, bool ends)
{
    struct lli_wire_heartbeat heartbeat = {.session = pcap->session,
                                           .lead = record->packet,
                                           .trail = record->packet,
                                           .start = lli_min(pcap->start, record->packet),
                                           .messages = record->message,
                                           .flags = ends ? LLI_WIRE_HEARTBEAT_END : 0,
                                           .address = {.size = 7, .bytes = {4, 192, 0, 2, 1}}};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    put_big16(heartbeat.address.bytes + 5, pcap->port);
    pcap_packet(pcap, packet, (uint32_t)lli_wire_put_heartbeat(packet, &heartbeat), wall);
}

/* A packet as it was on the wire, or as it was before it was protected if a key of the arguments opens it. */
static void pcap_data(struct pcap *pcap, struct lli_cursor *cursor, const struct lli_record *record,
                      uint64_t wall)
{
    struct lli_unopened unopened = {.is_set = false};
    const uint8_t *packet;
    uint32_t size;

    if (lli_cursor_packet(cursor, record, &packet, &size, &unopened))
        pcap_packet(pcap, packet, size, wall);
    else
        pcap_packet(pcap, record->data, record->size, wall);
    if (pcap->arguments->keys != NULL && unopened.is_set)
        pcap->unopened++;
}

static void pcap_record(struct pcap *pcap, struct lli_cursor *cursor, const struct lli_record *record,
                        const struct lli_block *block)
{
    if (!pcap->begun && record->kind != LLI_RECORD_NAME) {
        pcap->begun = true;
        pcap_heartbeat(pcap, record, block->wall, false);
    }
    if (record->kind == LLI_RECORD_PACKET)
        pcap_data(pcap, cursor, record, block->wall);
    else if (record->kind == LLI_RECORD_NAME)
        pcap_name(pcap, block->session, record, block->wall);
    else if (record->kind == LLI_RECORD_END)
        pcap_heartbeat(pcap, record, block->wall, true);
}

static void nothing(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

/* Finds out group and port of a channel. */
static void pcap_destination(struct pcap *pcap, const char *text)
{
    const struct lli_log quiet = {.function = nothing};
    struct lli_channel channel;
    struct in_addr address;

    pcap->group = PCAP_GROUP;
    pcap->port = PCAP_PORT;
    if (lli_channel_parse(&channel, text, NULL, &quiet) != LLM_OK)
        return;
    if (inet_pton(AF_INET, channel.host, &address) == 1)
        pcap->group = ntohl(address.s_addr);
    if (channel.port != 0)
        pcap->port = channel.port;
}

/* Stands at what the arguments ask for. */
static int pcap_seek(const struct store_arguments *arguments, struct lli_cursor *cursor)
{
    if (arguments->from_given)
        return lli_cursor_seek(cursor, LLI_INDEX_MESSAGE, arguments->from);
    if (arguments->since_given)
        return lli_cursor_seek(cursor, LLI_INDEX_WALL, arguments->since);
    return LLM_OK;
}

/* True if a record is behind what the arguments ask for. */
static bool pcap_is_past(const struct store_arguments *arguments, const struct lli_record *record,
                         const struct lli_block *block)
{
    return block->wall >= arguments->until ||
           (record->kind != LLI_RECORD_NAME && record->message >= arguments->to);
}

static int pcap_read(struct pcap *pcap, struct lli_cursor *cursor)
{
    const struct store_arguments *arguments = pcap->arguments;
    const struct lli_block *block;
    struct lli_record record;

    while (!ferror(stdout)) {
        const int there = lli_cursor_next(cursor, &record, &block);

        if (there == 0)
            return 0;
        if (there < 0) {
            if (!arguments->skip_damage)
                return STORE_FAILED;
            if (!lli_cursor_skip_damage(cursor))
                return 0;
            continue;
        }
        if (pcap_is_past(arguments, &record, block))
            return 0;
        pcap_record(pcap, cursor, &record, block);
    }
    return 0;
}

static int pcap_one(void *arg, const struct lli_catalogue *catalogue, const struct lli_recording *recording)
{
    struct pcap *pcap = arg;
    struct lli_cursor *cursor = NULL;
    int status = 0, error;

    pcap->session = recording->session;
    pcap->start = recording->start;
    pcap->begun = false;
    pcap_destination(pcap, recording->channel);
    if (lli_cursor_open(catalogue, recording, &catalogue->log, &cursor) != LLM_OK)
        return STORE_FAILED;
    error = pcap_seek(pcap->arguments, cursor);
    /* A message beyond the end: there is nothing to write. */
    if (error != LLM_ENOTFOUND || pcap->arguments->from <= recording->segments[0].message)
        status = pcap_read(pcap, cursor);
    lli_cursor_close(&cursor);
    return status;
}

int store_export_pcap(const struct store_arguments *arguments)
{
    struct pcap pcap = {.arguments = arguments};
    uint8_t header[24] = {0};
    int status;

    if (isatty(STDOUT_FILENO))
        return store_refuse("--format pcap", "is not for a terminal: send it to a file or a pipe");
    lli_store_u32(header, PCAP_MAGIC);
    lli_store_u16(header + 4, 2);
    lli_store_u16(header + 6, 4);
    lli_store_u32(header + 16, 65535);
    lli_store_u32(header + 20, PCAP_LINK_RAW);
    fwrite(header, 1, sizeof header, stdout);
    store_progress_begin(&pcap.progress, "export", 0);
    status = store_each(arguments, pcap_one, &pcap);
    store_progress_end(&pcap.progress);
    if (pcap.left_out > 0)
        fprintf(stderr, "llm-store: left out %" PRIu64 " packets that are too long for a datagram of IP\n",
                pcap.left_out);
    if (pcap.unopened > 0)
        fprintf(stderr, "llm-store: %" PRIu64 " packets are protected by keys that %s does not have\n",
                pcap.unopened, arguments->keys);
    return status;
}
