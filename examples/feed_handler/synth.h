/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A synthetic market: the same seed makes the same messages. It keeps its live orders in plain lists and finds the top of a book
 * by looking at all of them, so that it can be compared with what book.c makes of the messages.
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
    uint32_t price;                   /* where orders come: a random walk */
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

/* Makes a market of 1 to SYNTH_SYMBOLS_MAX symbols. False without memory. */
bool synth_init(struct synth *synth, uint64_t seed, uint32_t symbol_count);
void synth_fini(struct synth *synth);

/* The next message: the directory first, a message for each symbol, then orders for ever. */
void synth_next(struct synth *synth, struct itch_message *message);

/* A number below limit, from the same seed. */
uint32_t synth_random(struct synth *synth, uint32_t limit);

/* The best bid and ask of a symbol as of now. */
struct quote synth_top(const struct synth_symbol *symbol);

#endif
