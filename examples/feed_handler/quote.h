/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalised quote: the message of feed_handler, one topic per symbol, the topic's name being the symbol. A
 * message is 48 bytes, little-endian:
 *
 *   offset  size  field
 *        0     2  version         1
 *        2     2  flags           1: stale, the handler missed messages of the feed and the book may be wrong
 *        4     4  -               0
 *        8     8  sequence        the feed's number of the last message that the quote contains
 *       16     8  timestamp_ns    of that message, nanoseconds since midnight
 *       24     8  bid_size        shares at the best bid; 0: there is none
 *       32     8  ask_size        shares at the best ask; 0: there is none
 *       40     4  bid_price       in 1/10000; 0 without a bid
 *       44     4  ask_price       in 1/10000; 0 without an ask
 *
 * A quote is self-contained: the latest one of a topic is its full state. Messages may become longer, and
 * later versions may appear; a reader uses the first 48 bytes of version 1.
 */
#ifndef FEED_QUOTE_H
#define FEED_QUOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define QUOTE_BYTES 48
#define QUOTE_STALE 1

struct quote {
    uint64_t sequence;
    uint64_t timestamp_ns;
    uint64_t bid_size;
    uint64_t ask_size;
    uint32_t bid_price;
    uint32_t ask_price;
    uint16_t flags;
};

/* Writes QUOTE_BYTES bytes, at any alignment. */
void quote_encode(const struct quote *quote, void *data);

/* Decodes a quote. Returns false, leaving *quote unchanged, if the format is unknown. */
bool quote_decode(struct quote *quote, const void *data, size_t size);

/* Compares two quotes, ignoring sequence and timestamp_ns. */
bool quote_same(const struct quote *a, const struct quote *b);

/* Writes "SYMBOL BID_SIZE BID_PRICE ASK_PRICE ASK_SIZE", then " stale" if it is stale, and a newline. */
void quote_write_line(FILE *file, const char *symbol, const struct quote *quote);

#endif
