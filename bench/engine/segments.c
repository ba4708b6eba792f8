/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes segments of a store that take no space: segments DIRECTORY COUNT BYTES. Each is a sparse file of this size
 * with a header and a block. Recordings have up to 40 of them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <llm/llm.h>

#include "core/recording/block.h"
#include "core/recording/segment.h"

enum { SEGMENTS_OF_EACH = 40, SEGMENTS_PACKETS = 1000000 };

#define SEGMENTS_SESSION 0x5e55000000000000ull

static void segments_fail(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

/* Writes the segment at a position, which becomes that of the next one. */
static void segments_make(const char *directory, struct lli_block_position *at, uint64_t ordinal,
                          uint64_t bytes)
{
    static uint8_t image[2 * LLI_SEGMENT_HEADER];
    struct lli_segment segment = {
        .first = *at, .ordinal = ordinal, .size = bytes, .channel = "udp://239.192.9.9:5001"};
    const struct lli_record gap = {.next = at->packet + SEGMENTS_PACKETS,
                                   .message = at->message,
                                   .message_next = at->message + SEGMENTS_PACKETS,
                                   .reason = LLM_REASON_GONE};
    struct lli_block_builder builder;
    char name[512];
    int file;

    segment.wall = at->wall;
    (void)snprintf(name, sizeof name, "%s/%016llx", directory, (unsigned long long)at->session);
    (void)mkdir(name, 0777);
    (void)snprintf(name, sizeof name, "%s/%016llx/%016llx.segment", directory,
                   (unsigned long long)at->session, (unsigned long long)ordinal);
    memset(image, 0, sizeof image);
    lli_segment_put(image, &segment);
    lli_block_begin(&builder, image + LLI_SEGMENT_HEADER, LLI_BLOCK_ALIGN, at);
    if (!lli_block_add_gap(&builder, &gap))
        segments_fail("a gap");
    (void)lli_block_seal(&builder, at->wall + 1, at->wall + 1, at);
    file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0 ||
        pwrite(file, image, sizeof image, 0) != (ssize_t)sizeof image)
        segments_fail(name);
    (void)close(file);
}

int main(int argc, char **argv)
{
    const uint64_t count = argc == 4 ? strtoull(argv[2], NULL, 10) : 0,
                   bytes = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
    struct lli_block_position at = {.session = 0};

    if (argc != 4)
        return 2;
    for (uint64_t i = 0; i < count; i++) {
        if (i % SEGMENTS_OF_EACH == 0)
            at =
                (struct lli_block_position){.session = SEGMENTS_SESSION + i, .packet = 1, .wall = 1000000000};
        segments_make(argv[1], &at, i % SEGMENTS_OF_EACH, bytes);
    }
    return 0;
}
