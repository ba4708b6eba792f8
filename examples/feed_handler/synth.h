/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic market: the same seed makes the same messages. It stores its live orders in plain lists and finds
 * the top of a book by scanning them, so that it can be compared with the result of book.c.
 */
#ifndef FEED_SYNTH_H
#define FEED_SYNTH_H

#include "itch.h"
#include "quote.h"

#define SYNTH_ORDERS_MAX 64
#define SYNTH_SYMBOLS_MAX 9999

struct synth_order {
    uint64_t reference;
    uint32_t price;
    uint32_t shares;
    char side;
};

struct synth_symbol {
    char name[ITCH_SYMBOL_BYTES + 1]; /* "SYM0001" has locate 1 */
    uint32_t price;                   /* around which orders arrive: a random walk */
    uint32_t order_count;
    struct synth_order orders[SYNTH_ORDERS_MAX]; /* oldest first */
};

struct synth {
    uint64_t random;
    uint64_t timestamp_ns;
    uint64_t reference_next;
    uint64_t match_next;
    uint32_t symbol_count;
    uint32_t directory_count; /* symbols announced so far */
    struct synth_symbol *symbols;
};

/* Creates a market of 1 to SYNTH_SYMBOLS_MAX symbols. False without memory. */
bool synth_init(struct synth *synth, uint64_t seed, uint32_t symbol_count);
void synth_fini(struct synth *synth);

/* Returns the next message: first the directory, a message for each symbol, then orders without end. */
void synth_next(struct synth *synth, struct itch_message *message);

/* Returns a number below limit, from the same seed. */
uint32_t synth_random(struct synth *synth, uint32_t limit);

/* Returns the current best bid and ask of a symbol. */
struct quote synth_top(const struct synth_symbol *symbol);

#endif
