/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter benchmark: what a message costs a receiver that wants it, and one that does not, in nanoseconds. In one process:
 * packets that a transmitter packed are given to a receiver's session as an endpoint gives them, read header and all, from the
 * cache; the network has no part in it. Rows take turns, many times, and each has the median of its runs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "system/clock.h"
#include "core/select/filter.h"
#include "core/rx/rx_session.h"
#include "core/tx/tx_session.h"

enum {
    FILTER_PACKETS = 256,   /* that are received again and again */
    FILTER_PASSES = 20,     /* of a run */
    FILTER_RUNS = 31,
    FILTER_PACKET_MAX = 1472,
    FILTER_SIZE = 45,
    FILTER_TOPICS = 10000,
    FILTER_ROWS_MAX = 16,
};

#define FILTER_SESSION UINT64_C(0x1122334455667788)
#define FILTER_START (((lli_seq)1 << 32) + 1000)

struct row {
    const char *name;
    const char *text;
    uint32_t topics;
    uint32_t wanted_topics; /* one in so many; 1: all; 0: none */
    bool labels;            /* messages have attributes */
    bool bitmaps;
    uint32_t label_run;     /* messages in a row with the same label, of two; 0: all have label 1 */
    struct llm_label_match match; /* mask 0: no filter by label */
    bool bitmap;            /* the filter asks for a bit that no message has */
    bool properties;
    const char *selector;

    struct lli_tx tx;
    struct lli_rx rx;
    struct lli_rx_config config;
    struct lli_filter filter;
    struct lli_reorder reorder;
    struct lli_rx_counters counters;
    uint64_t random;
    uint8_t *packets[FILTER_PACKETS];
    uint32_t sizes[FILTER_PACKETS];
    uint32_t counts[FILTER_PACKETS]; /* messages that start in it */
    uint64_t messages;               /* in all of them */
    uint64_t delivered;
    double ns[FILTER_RUNS];          /* of all packets, once */
};

static struct row rows[FILTER_ROWS_MAX] = {
    {.name = "plain", .text = "no filter, one topic", .topics = 1, .wanted_topics = 1},
    {.name = "topics_all", .text = "10,000 topics in turns, no filter", .topics = FILTER_TOPICS, .wanted_topics = 1},
    {.name = "topics_1_percent", .text = "10,000 topics in turns, 1 % subscribed to", .topics = FILTER_TOPICS,
     .wanted_topics = 100},
    {.name = "labels_all", .text = "labels, no filter", .topics = 1, .wanted_topics = 1, .labels = true, .label_run = 1},
    {.name = "labels_wanted", .text = "labels, filter wants all", .topics = 1, .wanted_topics = 1, .labels = true,
     .label_run = 1, .match = {4, 0}},
    {.name = "labels_rejected", .text = "labels, filter rejects each message", .topics = 1, .wanted_topics = 1, .labels = true,
     .label_run = 1, .match = {3, 3}},
    {.name = "labels_skipped", .text = "labels, summary rejects each packet", .topics = 1, .wanted_topics = 1, .labels = true,
     .match = {2, 2}},
    {.name = "bitmaps_rejected", .text = "bitmaps of 256 bits, filter rejects each message", .topics = 1, .wanted_topics = 1,
     .labels = true, .bitmaps = true, .label_run = 1, .bitmap = true},
    {.name = "properties_rejected", .text = "3 properties, selector rejects each message", .topics = 1, .wanted_topics = 1,
     .labels = true, .properties = true, .label_run = 1, .selector = "price > 1.5 AND quantity >= 100 AND symbol LIKE 'DE%'"},
    {.name = NULL},
};

static void *filter_memory(size_t size)
{
    void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);

    if (memory == NULL) {
        fprintf(stderr, "filter: no memory\n");
        exit(EXIT_FAILURE);
    }
    memset(memory, 0, (size + 4095) / 4096 * 4096);
    return memory;
}

/* -------------------------------------------------------------------------------------------------- sending */

static void filter_frame(const struct row *row, uint64_t number, struct lli_pack_attributes *frame)
{
    const uint32_t label = row->label_run == 0 ? 1 : (uint32_t)(1 + number / row->label_run % 2);

    *frame = (struct lli_pack_attributes){.label = label, .size = 7};
    frame->frame[0] = LLI_FRAME_ATTRIBUTES;
    lli_store_u16(frame->frame + 1, 4);
    lli_store_u32(frame->frame + 3, label);
    if (row->properties) {
        /* quantity 99, price 2.5, symbol FR */
        static const uint8_t three[] = {0, 1, 0, 1, 99, 0, 0, 0, 2, 0, 3, 0, 0, 0, 0, 0, 0, 4, 0x40, 3, 0, 4, 2, 0, 'F', 'R'};

        memcpy(frame->frame + 7, three, sizeof three);
        lli_store_u16(frame->frame + 1, 4 + sizeof three);
        frame->size = 7 + sizeof three;
    }
    if (!row->bitmaps)
        return;
    lli_store_u16(frame->frame + 1, 5 + LLI_FRAME_BITMAP_MAX);
    frame->frame[7] = LLI_FRAME_BITMAP_MAX;
    frame->frame[8] = 1;
    frame->size = 8 + LLI_FRAME_BITMAP_MAX;
}

static void filter_pack(struct row *row)
{
    static const uint8_t bytes[FILTER_SIZE];
    struct lli_pack *pack = &row->tx.pack;
    struct lli_pack_attributes frame;

    while (row->tx.history.next < FILTER_START + FILTER_PACKETS) {
        const uint64_t number = pack->number;
        const struct lli_pack_topic topic = {.id = (uint32_t)(number % row->topics)};
        const struct iovec piece = {(void *)(uintptr_t)bytes, sizeof bytes};

        filter_frame(row, number, &frame);
        if (row->labels)
            lli_pack_attribute(pack, &frame);
        if (!lli_pack_message(pack, &topic, &piece, sizeof bytes, row->tx.history.trail))
            abort();
    }
    for (uint32_t i = 0; i < FILTER_PACKETS; i++) {
        row->packets[i] = (uint8_t *)(uintptr_t)lli_history_packet(&row->tx.history, FILTER_START + i);
        row->sizes[i] = lli_history_slot(&row->tx.history, FILTER_START + i)->size;
        if (i > 0)
            row->counts[i - 1] = lli_load_u32(row->packets[i] + 12) - lli_load_u32(row->packets[i - 1] + 12);
    }
    /* The last one is not received: what goes on in it would have to go on in the first. */
    row->messages = lli_load_u32(row->packets[FILTER_PACKETS - 1] + 12);
}

/* ------------------------------------------------------------------------------------------------ receiving */

static uint64_t filter_pull(struct row *row)
{
    struct lli_item item;
    uint64_t count = 0;

    while (lli_rx_next(&row->rx, 1, &item))
        count += item.kind == LLI_ITEM_MESSAGES ? (uint64_t)item.count : 0;
    return count;
}

static void filter_take(struct row *row, const uint8_t *bytes, uint32_t size)
{
    struct lli_rx_packet packet = {.bytes = bytes, .size = size};

    if (lli_wire_get_header(bytes, size, &packet.header, &packet.body, &packet.body_size) != LLI_WIRE_OK)
        abort();
    if (lli_rx_input(&row->rx, &packet, 1))
        row->delivered += filter_pull(row);
}

/* The session is followed from its start, and the names of its topics are known. */
static void filter_follow(struct row *row)
{
    const struct lli_wire_heartbeat heartbeat = {.session = FILTER_SESSION, .lead = FILTER_START, .trail = FILTER_START,
                                                 .start = FILTER_START, .sent_at = 1, .interval_us = 1000000,
                                                 .topics = row->topics, .flags = LLI_WIRE_HEARTBEAT_YOUNG,
                                                 .address = {1, {'t'}}};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    char name[32];

    lli_rx_start(&row->rx, (uint32_t)FILTER_SESSION, 1);
    filter_take(row, packet, (uint32_t)lli_wire_put_heartbeat(packet, &heartbeat));
    for (uint32_t id = 0; id < row->topics; id++) {
        const int size = snprintf(name, sizeof name, "topic.%u", id);

        (void)lli_topics_add(&row->rx.topics, id, (const uint8_t *)name, (size_t)size);
        (void)lli_rx_topic_subscribe(&row->rx, id, id % row->wanted_topics == 0);
    }
    (void)filter_pull(row);
}

/*
 * Where the stream goes on, all packets are numbered anew. A packet in which a message goes on has to be behind that it begins
 * in.
 */
static void filter_renumber(struct row *row)
{
    uint64_t number = row->rx.unpack.number;

    for (uint32_t i = 0; i + 1 < FILTER_PACKETS; i++) {
        lli_store_u32(row->packets[i] + 8, (uint32_t)(row->rx.gap.next + i));
        lli_store_u32(row->packets[i] + 12, (uint32_t)number);
        number += row->counts[i];
    }
}

/* Once all packets but the last; what would go on there is taken for begun and ended. Returns what it took. */
static lli_ns filter_pass(struct row *row)
{
    lli_ns begin;

    filter_renumber(row);
    begin = lli_clock_ns();
    for (uint32_t i = 0; i + 1 < FILTER_PACKETS; i++)
        filter_take(row, row->packets[i], row->sizes[i]);
    begin = lli_clock_ns() - begin;
    row->rx.unpack.assembling = row->rx.unpack.passing = false;
    return begin;
}

static void filter_open(struct row *row)
{
    const struct lli_tx_config config = {
        .session = FILTER_SESSION,
        .history = {.bytes = 4 * FILTER_PACKETS * FILTER_PACKET_MAX, .packets = 4 * FILTER_PACKETS,
                    .packet_max = FILTER_PACKET_MAX, .align = 64, .start = FILTER_START},
        .receivers_max = 4, .topics_max = 4,
        .heartbeat_min = 1, .heartbeat_max = 1, .heartbeat_busy = 1, .status = 1,
    };
    static const struct llm_property_name names[] = {{"quantity", 1}, {"price", 2}, {"symbol", 3}};
    struct lli_arena arena = {.memory = NULL};
    struct lli_selector_fault fault;

    lli_tx_init(&row->tx, &config, &arena, 0);
    arena = (struct lli_arena){.memory = filter_memory(arena.used)};
    lli_tx_init(&row->tx, &config, &arena, 0);
    row->config = (struct lli_rx_config){.receiver = 1, .window_packets = 64, .topics_max = FILTER_TOPICS,
                                         .message_bytes_max = 4096, .status = 1000000000000, .silence = 1000000000000,
                                         .timeout = 1000000000000, .nak_giveup = 1000000000};
    row->filter.labels_count = row->match.mask != 0;
    row->filter.labels[0] = row->match;
    row->filter.bitmap = row->filter.any = row->bitmap;
    row->filter.mask[LLI_FILTER_WORDS - 1] = 2;
    if (row->selector != NULL && !lli_selector_compile(&row->filter.selector, row->selector, names, 3, &fault))
        abort();
    lli_filter_finish(&row->filter);
    if (row->match.mask != 0 || row->bitmap || row->selector != NULL)
        row->config.filter = &row->filter;
    for (int i = 0; i < 2; i++) {
        arena = (struct lli_arena){.memory = i == 0 ? NULL : filter_memory(arena.used)};
        lli_reorder_init(&row->reorder, 65536, FILTER_PACKET_MAX, &arena, &arena);
        lli_rx_init(&row->rx, &row->config, &row->reorder, &row->counters, &row->random, &arena, &arena);
    }
    filter_pack(row);
    filter_follow(row);
    (void)filter_pass(row);
}

/* --------------------------------------------------------------------------------------------------- report */

static int filter_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double filter_median(struct row *row)
{
    qsort(row->ns, FILTER_RUNS, sizeof *row->ns, filter_compare);
    return row->ns[FILTER_RUNS / 2];
}

static void filter_print(const struct row *row, double ns, bool last, FILE *json)
{
    const double passes = FILTER_RUNS * FILTER_PASSES + 1.0, packets = FILTER_PACKETS - 1;
    const double share = 100 * (double)row->delivered / ((double)row->messages * passes);

    printf("%-50s %9.1f %9.2f %10.1f %9.1f\n", row->text, (double)row->messages / packets, ns / (double)row->messages,
           ns / packets, share);
    if (json != NULL)
        fprintf(json, "    {\"row\": \"%s\", \"messages_per_packet\": %.2f, \"ns_per_message\": %.3f, \"ns_per_packet\": %.2f, "
                "\"delivered_percent\": %.2f, \"packets_skipped\": %" PRIu64 "}%s\n", row->name,
                (double)row->messages / packets, ns / (double)row->messages, ns / packets, share,
                row->counters.packets_skipped, last ? "" : ",");
}

int main(int argc, char **argv)
{
    FILE *json = argc > 1 ? fopen(argv[1], "w") : NULL;

    if (argc > 2 || (argc > 1 && json == NULL)) {
        fprintf(stderr, "usage: filter [FILE_FOR_JSON]\n");
        return 2;
    }
    for (struct row *row = rows; row->name != NULL; row++)
        filter_open(row);
    for (int run = 0; run < FILTER_RUNS; run++)
        for (struct row *row = rows; row->name != NULL; row++) {
            for (int pass = 0; pass < FILTER_PASSES; pass++)
                row->ns[run] += (double)filter_pass(row) / FILTER_PASSES;
            if (row->counters.data_malformed > 0 || row->counters.messages_lost > 0) {
                fprintf(stderr, "filter: %s: packets were not taken for what they are\n", row->name);
                return EXIT_FAILURE;
            }
        }
    printf("%d-byte messages, medians of %d runs\n\n", FILTER_SIZE, FILTER_RUNS);
    printf("%-50s %9s %9s %10s %9s\n", "", "a packet", "ns each", "ns/packet", "% wanted");
    if (json != NULL)
        fprintf(json, "{\"benchmark\": \"filter\", \"size\": %d, \"rows\": [\n", FILTER_SIZE);
    for (struct row *row = rows; row->name != NULL; row++)
        filter_print(row, filter_median(row), row[1].name == NULL, json);
    if (json != NULL)
        fprintf(json, "]}\n");
    return json == NULL || fclose(json) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
