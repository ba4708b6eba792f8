/* SPDX-License-Identifier: Apache-2.0 */
#include "synth.h"

#include <stdlib.h>
#include <string.h>

#define TICK 100            /* one cent */
#define PRICE_START 1000000 /* 100 dollars */
#define PRICE_MIN 100000
#define MARKET_OPEN_NS 34200000000000 /* half past nine */
#define LOT 100

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t random_next(struct synth *synth)
{
    uint64_t z = synth->random += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t synth_random(struct synth *synth, uint32_t limit)
{
    return (uint32_t)(random_next(synth) % limit);
}

bool synth_init(struct synth *synth, uint64_t seed, uint32_t symbol_count)
{
    *synth = (struct synth){
        .random = seed,
        .timestamp_ns = MARKET_OPEN_NS,
        .reference_next = 1,
        .match_next = 1,
        .symbol_count = symbol_count,
        .symbols = calloc(symbol_count, sizeof *synth->symbols),
    };
    if (synth->symbols == NULL)
        return false;
    for (uint32_t i = 0; i < symbol_count; i++) {
        snprintf(synth->symbols[i].name, sizeof synth->symbols[i].name, "SYM%04u", (i + 1) % 10000);
        synth->symbols[i].price = PRICE_START;
    }
    return true;
}

void synth_fini(struct synth *synth)
{
    free(synth->symbols);
    synth->symbols = NULL;
}

/* ------------------------------------------------------------------------------------------------- orders */

static bool is_better(char side, uint32_t price, uint32_t than)
{
    return side == 'B' ? price > than : price < than;
}

/* Returns the oldest order at the best price of a side, or NULL. */
static struct synth_order *best_order(struct synth_symbol *symbol, char side)
{
    struct synth_order *best = NULL;

    for (uint32_t i = 0; i < symbol->order_count; i++) {
        struct synth_order *order = &symbol->orders[i];

        if (order->side == side && (best == NULL || is_better(side, order->price, best->price)))
            best = order;
    }
    return best;
}

struct quote synth_top(const struct synth_symbol *symbol)
{
    struct quote top = {0};

    for (uint32_t i = 0; i < symbol->order_count; i++) {
        const struct synth_order *order = &symbol->orders[i];
        uint64_t *size = order->side == 'B' ? &top.bid_size : &top.ask_size;
        uint32_t *price = order->side == 'B' ? &top.bid_price : &top.ask_price;

        if (*size == 0 || is_better(order->side, order->price, *price)) {
            *price = order->price;
            *size = 0;
        }
        if (order->price == *price)
            *size += order->shares;
    }
    return top;
}

static void order_append(struct synth_symbol *symbol, const struct synth_order *order)
{
    symbol->orders[symbol->order_count++] = *order;
}

static void order_remove(struct synth_symbol *symbol, struct synth_order *order)
{
    size_t after = (size_t)(&symbol->orders[symbol->order_count] - (order + 1));

    memmove(order, order + 1, after * sizeof *order);
    symbol->order_count--;
}

static void order_reduce(struct synth_symbol *symbol, struct synth_order *order, uint32_t shares)
{
    order->shares -= shares;
    if (order->shares == 0)
        order_remove(symbol, order);
}

/*
 * Chooses a price near the random walk that does not cross the other side: crossing orders would have traded.
 */
static uint32_t order_price(struct synth *synth, struct synth_symbol *symbol, char side)
{
    uint32_t distance = TICK * (1 + synth_random(synth, 10));
    uint32_t price = side == 'B' ? symbol->price - distance : symbol->price + distance;
    const struct synth_order *other = best_order(symbol, side == 'B' ? 'S' : 'B');

    if (other != NULL && !is_better(side, other->price, price))
        price = side == 'B' ? other->price - TICK : other->price + TICK;
    return price;
}

static uint32_t order_shares(struct synth *synth)
{
    return LOT * (1 + synth_random(synth, 10));
}

/* ----------------------------------------------------------------------------------------------- messages */

static void make_add(struct synth *synth, struct synth_symbol *symbol, struct itch_message *message)
{
    char side = synth_random(synth, 2) == 0 ? 'B' : 'S';
    struct synth_order order = {
        .reference = synth->reference_next++,
        .side = side,
        .price = order_price(synth, symbol, side),
        .shares = order_shares(synth),
    };

    order_append(symbol, &order);
    message->type = ITCH_ADD;
    message->reference = order.reference;
    message->side = order.side;
    message->price = order.price;
    message->shares = order.shares;
    memcpy(message->symbol, symbol->name, sizeof message->symbol);
}

/* Executes the best order of a side, fully or partly. */
static void make_executed(struct synth *synth, struct synth_symbol *symbol, struct itch_message *message)
{
    char side = synth_random(synth, 2) == 0 ? 'B' : 'S';
    struct synth_order *order = best_order(symbol, side);

    if (order == NULL)
        order = &symbol->orders[0];
    message->type = ITCH_EXECUTED;
    message->reference = order->reference;
    message->shares = 1 + synth_random(synth, order->shares);
    message->match = synth->match_next++;
    order_reduce(symbol, order, message->shares);
}

static void make_cancel(struct synth *synth, struct synth_symbol *symbol, struct itch_message *message)
{
    struct synth_order *order = &symbol->orders[synth_random(synth, symbol->order_count)];

    message->type = ITCH_CANCEL;
    message->reference = order->reference;
    message->shares = 1 + synth_random(synth, order->shares);
    order_reduce(symbol, order, message->shares);
}

static void make_delete(struct synth *synth, struct synth_symbol *symbol, struct itch_message *message)
{
    struct synth_order *order = &symbol->orders[synth_random(synth, symbol->order_count)];

    message->type = ITCH_DELETE;
    message->reference = order->reference;
    order_remove(symbol, order);
}

static void make_replace(struct synth *synth, struct synth_symbol *symbol, struct itch_message *message)
{
    struct synth_order *order = &symbol->orders[synth_random(synth, symbol->order_count)];
    struct synth_order replacement = {.reference = synth->reference_next++, .side = order->side};

    message->type = ITCH_REPLACE;
    message->reference = order->reference;
    order_remove(symbol, order);
    replacement.price = order_price(synth, symbol, replacement.side);
    replacement.shares = order_shares(synth);
    order_append(symbol, &replacement);
    message->reference_new = replacement.reference;
    message->price = replacement.price;
    message->shares = replacement.shares;
}

static void make_order(struct synth *synth, struct synth_symbol *symbol, struct itch_message *message)
{
    uint32_t dice = synth_random(synth, 100);

    /* Fill thin books, empty full ones. */
    if (symbol->order_count < 8 || (dice < 40 && symbol->order_count < SYNTH_ORDERS_MAX))
        make_add(synth, symbol, message);
    else if (dice < 65)
        make_executed(synth, symbol, message);
    else if (dice < 75)
        make_cancel(synth, symbol, message);
    else if (dice < 90)
        make_delete(synth, symbol, message);
    else
        make_replace(synth, symbol, message);
}

/* Moves the price by one cent up or down, or not at all. */
static void walk(struct synth *synth, struct synth_symbol *symbol)
{
    uint32_t step = synth_random(synth, 3);

    if (step == 0 && symbol->price > PRICE_MIN)
        symbol->price -= TICK;
    else if (step == 1 && symbol->price < 10 * PRICE_START)
        symbol->price += TICK;
}

void synth_next(struct synth *synth, struct itch_message *message)
{
    bool directory = synth->directory_count < synth->symbol_count;
    uint32_t i = directory ? synth->directory_count : synth_random(synth, synth->symbol_count);
    struct synth_symbol *symbol = &synth->symbols[i];

    synth->timestamp_ns += 1 + synth_random(synth, 100000);
    *message = (struct itch_message){.locate = (uint16_t)(i + 1), .timestamp_ns = synth->timestamp_ns};
    if (directory) {
        synth->directory_count++;
        message->type = ITCH_DIRECTORY;
        memcpy(message->symbol, symbol->name, sizeof message->symbol);
        return;
    }
    walk(synth, symbol);
    make_order(synth, symbol, message);
}
