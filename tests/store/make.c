/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the directory of a store, and prints what is in it as JSON, for recordings.py:
 *
 *     store_make DIRECTORY
 *     store_make --other DIRECTORY   makes the second session only, with another last message
 *
 * The first session is random, has gaps and has ended. The second one has messages of known contents, received in
 * two writes 400 ms apart, and has not ended.
 */
#define _GNU_SOURCE
#include "store/directory.h"

#include <inttypes.h>

#define RANDOM_SESSION UINT64_C(0x1111222233334444)
#define KNOWN_SESSION UINT64_C(0xaaaabbbbccccdddd)

/* A wall clock that people know: 2026-01-02T03:04:05Z. */
#define BEGAN UINT64_C(1767323045000000000)

static void print_model(const struct directory *d)
{
    uint64_t messages = 0, packets = 0;

    for (uint64_t number = 0; number < d->messages; number++)
        messages += directory_has(d, number, d->taken);
    for (lli_seq packet = d->recorded_from; packet < d->taken; packet++)
        packets += !d->dropped[packet];
    printf("{\"session\": \"%016" PRIx64 "\", \"messages\": %" PRIu64 ", \"packets\": %" PRIu64
           ", \"packet_first\": %" PRIu64 ", \"packet_next\": %" PRIu64 ", \"message_first\": %" PRIu64
           ", \"message_next\": %" PRIu64 ", \"topics\": %u, \"blocks\": [",
           d->session, messages, packets, d->recorded_from, d->taken, d->number[d->recorded_from],
           d->messages, d->topics);
    for (uint32_t i = 0; i < d->blocks; i++)
        printf("%s{\"file\": \"%016" PRIx64 ".segment\", \"offset\": %" PRIu64
               ", \"used\": %u, \"named\": %s}",
               i == 0 ? "" : ", ", d->block[i].segment, d->block[i].offset, d->block[i].block.used,
               d->block[i].block.message == LLI_BLOCK_UNNUMBERED ? "true" : "false");
    printf("]}");
}

/* Sends a message with attributes, or with none if frame is NULL. */
static void send_known(struct directory *d, const void *data, size_t size, const uint8_t *frame,
                       uint32_t frame_size)
{
    const struct lli_pack_topic topic = {.id = 0};
    const struct iovec pieces[2] = {{.iov_base = (void *)(uintptr_t)data, .iov_len = size},
                                    {.iov_base = (void *)(uintptr_t) ""}};
    struct lli_pack_attributes attributes = {.size = LLI_FRAME_HEAD + frame_size};

    if (frame != NULL) {
        attributes.label = lli_load_u32(frame);
        attributes.frame[0] = LLI_FRAME_ATTRIBUTES;
        lli_store_u16(attributes.frame + 1, (uint16_t)frame_size);
        memcpy(attributes.frame + LLI_FRAME_HEAD, frame, frame_size);
        lli_pack_attribute(&d->pack, &attributes);
    }
    assert_true(lli_pack_message(&d->pack, &topic, pieces, (uint32_t)size, d->history.next));
    lli_pack_attribute(&d->pack, NULL);
    d->message[d->messages] = (struct directory_message){.size = (uint32_t)size, .end = d->history.next};
    d->messages++;
}

static void make_known(struct directory *d, const char *last)
{
    static const uint8_t binary[] = {0, 1, 2, 0xff};
    /* Label 0x01020304; a bitmap of 16 bits; properties 5, of 32 bits, and 6, of bytes. */
    static const uint8_t frame[] = {4,
                                    3,
                                    2,
                                    1,
                                    2,
                                    0x81,
                                    0x80,
                                    5,
                                    0,
                                    LLM_PROPERTY_INT32,
                                    0xf9,
                                    0xff,
                                    0xff,
                                    0xff,
                                    6,
                                    0,
                                    LLM_PROPERTY_BYTES,
                                    2,
                                    0,
                                    'o',
                                    'k'};

    directory_announce(d, 0);
    directory_record(d);
    send_known(d, "plain \"text\" \xc3\xa4\n", 16, NULL, 0);
    send_known(d, binary, sizeof binary, NULL, 0);
    send_known(d, "", 0, frame, 4);
    lli_pack_flush(&d->pack);
    directory_take(d, false);
    directory_write(d, false);
    d->wall += 400000000;
    send_known(d, last, 8, frame, sizeof frame);
    directory_finish(d, false);
}

/* Makes the second session. */
static void make_second(struct directory *d, const char *path, const char *last)
{
    directory_begin(d, path, KNOWN_SESSION, 12, 1472);
    d->wall = BEGAN + UINT64_C(3600000000000);
    make_known(d, last);
}

int main(int argc, char **argv)
{
    struct directory d;

    if (argc == 3 && strcmp(argv[1], "--other") == 0) {
        make_second(&d, argv[2], "with ALL");
        directory_end(&d);
        return 0;
    }
    if (argc != 2) {
        fprintf(stderr, "usage: store_make [--other] DIRECTORY\n");
        return 2;
    }
    directory_begin(&d, argv[1], RANDOM_SESSION, 11, 1472);
    d.wall = BEGAN;
    directory_fill(&d, 2, true, true, true);
    directory_lose(&d, 5);
    while (d.segments < 3)
        directory_step(&d, true, true);
    directory_finish(&d, true);
    printf("[");
    print_model(&d);
    directory_end(&d);
    make_second(&d, argv[1], "with all");
    printf(",\n");
    print_model(&d);
    printf("]\n");
    directory_end(&d);
    return 0;
}
