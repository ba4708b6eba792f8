/* SPDX-License-Identifier: Apache-2.0 */
#include "book.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- levels */

static bool price_is_worse(int side, uint32_t price, uint32_t than)
{
    return side == BOOK_BID ? price < than : price > than;
}

/* Returns the index of the price's level, or where it belongs. */
static uint32_t level_index(const struct book *book, int side, uint32_t price)
{
    const struct book_side *levels = &book->sides[side];
    uint32_t low = 0;
    uint32_t high = levels->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (price_is_worse(side, levels->levels[middle].price, price))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool level_add(struct book *book, int side, uint32_t price, uint32_t shares, uint32_t levels_max)
{
    struct book_side *levels = &book->sides[side];
    uint32_t i = level_index(book, side, price);

    if (i == levels->count || levels->levels[i].price != price) {
        if (levels->count == levels_max)
            return false;
        memmove(&levels->levels[i + 1], &levels->levels[i], (levels->count - i) * sizeof *levels->levels);
        levels->levels[i] = (struct book_level){.price = price};
        levels->count++;
    }
    levels->levels[i].shares += shares;
    levels->levels[i].orders++;
    return true;
}

/* Removes shares of a live order; last if the order has no more. The level exists as long as the order. */
static void level_take(struct book *book, int side, uint32_t price, uint32_t shares, bool last)
{
    struct book_side *levels = &book->sides[side];
    uint32_t i = level_index(book, side, price);

    levels->levels[i].shares -= shares;
    if (!last || --levels->levels[i].orders > 0)
        return;
    levels->count--;
    memmove(&levels->levels[i], &levels->levels[i + 1], (levels->count - i) * sizeof *levels->levels);
}

struct book_top book_top(const struct book *book)
{
    const struct book_side *bids = &book->sides[BOOK_BID];
    const struct book_side *asks = &book->sides[BOOK_ASK];
    struct book_top top = {0};

    if (bids->count > 0) {
        top.bid_price = bids->levels[bids->count - 1].price;
        top.bid_size = bids->levels[bids->count - 1].shares;
    }
    if (asks->count > 0) {
        top.ask_price = asks->levels[asks->count - 1].price;
        top.ask_size = asks->levels[asks->count - 1].shares;
    }
    return top;
}

/* ------------------------------------------------------------------------------------------------- market */

static void market_forget_locates(struct market *market)
{
    for (uint32_t i = 0; i < BOOK_LOCATES; i++)
        market->by_locate[i] = -1;
}

bool market_init(struct market *market, const struct market_limits *limits)
{
    size_t levels = (size_t)limits->symbols_max * 2 * limits->levels_max;

    *market = (struct market){.limits = *limits};
    market->books = calloc(limits->symbols_max, sizeof *market->books);
    market->levels = calloc(levels, sizeof *market->levels);
    market->by_locate = malloc(BOOK_LOCATES * sizeof *market->by_locate);
    market->changed = calloc(limits->symbols_max, sizeof *market->changed);
    if (!order_table_init(&market->orders, limits->orders_max) || market->books == NULL ||
        market->levels == NULL || market->by_locate == NULL || market->changed == NULL)
        return false;
    market_forget_locates(market);
    return true;
}

void market_fini(struct market *market)
{
    order_table_fini(&market->orders);
    free(market->books);
    free(market->levels);
    free(market->by_locate);
    free(market->changed);
    *market = (struct market){0};
}

void market_mark(struct market *market, struct book *book)
{
    uint32_t end = (market->changed_first + market->changed_count) % market->limits.symbols_max;

    if (book->changed)
        return;
    book->changed = true;
    market->changed[end] = (uint32_t)(book - market->books);
    market->changed_count++;
}

struct book *market_changed(const struct market *market)
{
    return market->changed_count > 0 ? &market->books[market->changed[market->changed_first]] : NULL;
}

void market_pop(struct market *market)
{
    market->books[market->changed[market->changed_first]].changed = false;
    market->changed_first = (market->changed_first + 1) % market->limits.symbols_max;
    market->changed_count--;
}

void market_clear(struct market *market)
{
    order_table_clear(&market->orders);
    market_forget_locates(market);
    for (uint32_t i = 0; i < market->book_count; i++) {
        struct book *book = &market->books[i];

        book->stale = false;
        book->sides[BOOK_BID].count = 0;
        book->sides[BOOK_ASK].count = 0;
        market_mark(market, book);
    }
}

void market_lost(struct market *market)
{
    for (uint32_t i = 0; i < market->book_count; i++) {
        market->books[i].stale = true;
        market_mark(market, &market->books[i]);
    }
}

static struct book *market_by_locate(const struct market *market, uint16_t locate)
{
    int32_t i = market->by_locate[locate];

    return i >= 0 ? &market->books[i] : NULL;
}

/*
 * A symbol has the same book, and so the same topic, every day. Linear search: only directory messages come
 * here.
 */
static struct book *market_by_symbol(const struct market *market, const char *symbol)
{
    for (uint32_t i = 0; i < market->book_count; i++) {
        if (strcmp(market->books[i].symbol, symbol) == 0)
            return &market->books[i];
    }
    return NULL;
}

static struct book *book_create(struct market *market, const char *symbol)
{
    size_t levels = (size_t)market->book_count * 2 * market->limits.levels_max;
    struct book *book;

    if (market->book_count == market->limits.symbols_max)
        return NULL;
    book = &market->books[market->book_count++];
    *book = (struct book){0};
    memcpy(book->symbol, symbol, strlen(symbol) + 1);
    book->sides[BOOK_BID].levels = &market->levels[levels];
    book->sides[BOOK_ASK].levels = &market->levels[levels + market->limits.levels_max];
    return book;
}

/* ------------------------------------------------------------------------------------------------- orders */

static enum market_result apply_directory(struct market *market, const struct itch_message *message)
{
    struct book *book = market_by_symbol(market, message->symbol);
    const struct book *named = market_by_locate(market, message->locate);

    if (book == NULL)
        book = book_create(market, message->symbol);
    if (book == NULL)
        return MARKET_FULL;
    /* Orders find their book by the locate, which is valid for the day. */
    if (named != NULL && named != book)
        return MARKET_CONFLICT;
    market->by_locate[message->locate] = (int32_t)(book - market->books);
    return MARKET_OK;
}

static enum market_result apply_add(struct market *market, struct book *book, const struct order *order)
{
    if (order_find(&market->orders, order->reference) != NULL)
        return MARKET_CONFLICT;
    if (!level_add(book, order->side, order->price, order->shares, market->limits.levels_max))
        return MARKET_FULL;
    if (!order_add(&market->orders, order)) {
        level_take(book, order->side, order->price, order->shares, true);
        return MARKET_FULL;
    }
    return MARKET_OK;
}

static void take_shares(struct market *market, struct book *book, struct order *order, uint32_t shares)
{
    bool last = shares == order->shares;

    level_take(book, order->side, order->price, shares, last);
    if (last)
        order_del(&market->orders, order);
    else
        order->shares -= shares;
}

static enum market_result apply_replace(struct market *market, struct book *book, struct order *order,
                                        const struct itch_message *message)
{
    struct order replacement = {
        .reference = message->reference_new,
        .locate = order->locate,
        .side = order->side,
        .shares = message->shares,
        .price = message->price,
    };

    take_shares(market, book, order, order->shares);
    return apply_add(market, book, &replacement);
}

/* Executions, cancels, deletes and replaces: all require an existing order. */
static enum market_result apply_change(struct market *market, struct book *book,
                                       const struct itch_message *message)
{
    struct order *order = order_find(&market->orders, message->reference);

    if (order == NULL)
        return MARKET_UNKNOWN;
    if (order->locate != message->locate)
        return MARKET_CONFLICT;
    if (message->type == ITCH_REPLACE)
        return apply_replace(market, book, order, message);
    if (message->type != ITCH_DELETE && message->shares > order->shares)
        return MARKET_CONFLICT;
    take_shares(market, book, order, message->type == ITCH_DELETE ? order->shares : message->shares);
    return MARKET_OK;
}

static enum market_result apply_order(struct market *market, struct book *book,
                                      const struct itch_message *message)
{
    struct order order = {
        .reference = message->reference,
        .locate = message->locate,
        .side = message->side == 'B' ? BOOK_BID : BOOK_ASK,
        .shares = message->shares,
        .price = message->price,
    };

    return message->type == ITCH_ADD ? apply_add(market, book, &order) : apply_change(market, book, message);
}

enum market_result market_apply(struct market *market, const struct itch_message *message, uint64_t sequence)
{
    enum market_result result = MARKET_OK;
    struct book *book;

    if (message->type == ITCH_DIRECTORY)
        result = apply_directory(market, message);
    book = market_by_locate(market, message->locate);
    if (book == NULL)
        return result == MARKET_OK ? MARKET_UNKNOWN : result;
    if (message->type != ITCH_DIRECTORY)
        result = apply_order(market, book, message);
    if (result != MARKET_OK)
        book->stale = true;
    book->sequence = sequence;
    book->timestamp_ns = message->timestamp_ns;
    market_mark(market, book);
    return result;
}
