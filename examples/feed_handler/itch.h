/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ITCH 5.0 messages that build an order book. Integers are big-endian, prices are in 1/10000, text is padded
 * with spaces. Each message starts with the same eleven bytes: type 1, stock locate 2, tracking number 2,
 * time stamp 6 (nanoseconds since midnight). Then follow
 *
 *   R  stock directory   stock 8, and 20 bytes of attributes that a book does not need        39 bytes in all
 *   A  add order         reference 8, side 1 ('B' or 'S'), shares 4, stock 8, price 4         36
 *   E  order executed    reference 8, shares 4, match number 8                                31
 *   X  order cancel      reference 8, shares 4                                                23
 *   D  order delete      reference 8                                                          19
 *   U  order replace     reference 8, new reference 8, shares 4, price 4                      35
 */
#ifndef FEED_ITCH_H
#define FEED_ITCH_H

#include <stddef.h>
#include <stdint.h>

#define ITCH_SYMBOL_BYTES 8
#define ITCH_MESSAGE_BYTES_MAX 39

enum itch_type {
    ITCH_DIRECTORY = 'R',
    ITCH_ADD = 'A',
    ITCH_EXECUTED = 'E',
    ITCH_CANCEL = 'X',
    ITCH_DELETE = 'D',
    ITCH_REPLACE = 'U',
};

/* Decoded message. Fields absent from its type are 0. */
struct itch_message {
    enum itch_type type;
    uint16_t locate; /* number of the stock, valid for this day */
    char side;       /* 'B' buy, 'S' sell */
    uint32_t shares;
    uint32_t price;
    uint64_t timestamp_ns;
    uint64_t reference; /* number of the order, valid for this day */
    uint64_t reference_new;
    uint64_t match;
    char symbol[ITCH_SYMBOL_BYTES + 1]; /* without padding */
};

enum itch_result {
    ITCH_OK,
    ITCH_OTHER, /* a type that does not affect books: skip it */
    ITCH_BAD,   /* a known type with a wrong length or an invalid value */
};

/* Decodes one message. *message is written only if the result is ITCH_OK. */
enum itch_result itch_decode(const void *data, size_t size, struct itch_message *message);

/* Encodes a message and returns its length, or 0 if it does not fit into size bytes. */
size_t itch_encode(const struct itch_message *message, void *data, size_t size);

#endif
