/* SPDX-License-Identifier: Apache-2.0 */
#include "quote.h"

#include <inttypes.h>

#define QUOTE_VERSION 1
#define PRICE_UNIT 10000

static void put(uint8_t *at, size_t size, uint64_t value)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *at, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

void quote_encode(const struct quote *quote, void *data)
{
    uint8_t *at = data;

    put(at, 2, QUOTE_VERSION);
    put(at + 2, 2, quote->flags);
    put(at + 4, 4, 0);
    put(at + 8, 8, quote->sequence);
    put(at + 16, 8, quote->timestamp_ns);
    put(at + 24, 8, quote->bid_size);
    put(at + 32, 8, quote->ask_size);
    put(at + 40, 4, quote->bid_price);
    put(at + 44, 4, quote->ask_price);
}

bool quote_decode(struct quote *quote, const void *data, size_t size)
{
    const uint8_t *at = data;

    if (size < QUOTE_BYTES || get(at, 2) != QUOTE_VERSION)
        return false;
    *quote = (struct quote){
        .flags = (uint16_t)get(at + 2, 2),
        .sequence = get(at + 8, 8),
        .timestamp_ns = get(at + 16, 8),
        .bid_size = get(at + 24, 8),
        .ask_size = get(at + 32, 8),
        .bid_price = (uint32_t)get(at + 40, 4),
        .ask_price = (uint32_t)get(at + 44, 4),
    };
    return true;
}

bool quote_same(const struct quote *a, const struct quote *b)
{
    return a->bid_size == b->bid_size && a->ask_size == b->ask_size && a->bid_price == b->bid_price &&
           a->ask_price == b->ask_price && a->flags == b->flags;
}

void quote_write_line(FILE *file, const char *symbol, const struct quote *quote)
{
    fprintf(file, "%s %" PRIu64 " %" PRIu32 ".%04" PRIu32 " %" PRIu32 ".%04" PRIu32 " %" PRIu64 "%s\n",
            symbol, quote->bid_size, quote->bid_price / PRICE_UNIT, quote->bid_price % PRICE_UNIT,
            quote->ask_price / PRICE_UNIT, quote->ask_price % PRICE_UNIT, quote->ask_size,
            (quote->flags & QUOTE_STALE) != 0 ? " stale" : "");
}
