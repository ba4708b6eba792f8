/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order book for each symbol of a feed. Nothing allocates after market_init().
 *
 * A book is correct only if it was given every message of its symbol. A book that missed a message, because
 * the feed lost some or a limit was reached, is stale: it continues, marked as stale, until market_clear().
 */
#ifndef FEED_BOOK_H
#define FEED_BOOK_H

#include "itch.h"
#include "order.h"

#define BOOK_LOCATES 65536

enum { BOOK_BID = 0, BOOK_ASK = 1 };

/* All orders of one price. */
struct book_level {
    uint64_t shares;
    uint32_t price;
    uint32_t orders;
};

/* Levels from the worst price to the best: most changes are near the best price, and so move few levels. */
struct book_side {
    struct book_level *levels;
    uint32_t count;
};

struct book {
    char symbol[ITCH_SYMBOL_BYTES + 1];
    bool stale;
    bool changed;          /* in the market's queue of changed books */
    uint64_t sequence;     /* of the last message */
    uint64_t timestamp_ns; /* of the last message */
    struct book_side sides[2];
};

struct book_top {
    uint64_t bid_size; /* 0: no bid */
    uint64_t ask_size; /* 0: no ask */
    uint32_t bid_price;
    uint32_t ask_price;
};

struct market_limits {
    uint32_t symbols_max; /* 1 to BOOK_LOCATES */
    uint32_t orders_max;  /* live orders, all symbols together */
    uint32_t levels_max;  /* prices per side of a book */
};

struct market {
    struct market_limits limits;
    struct book *books;
    uint32_t book_count;
    struct book_level *levels;
    struct order_table orders;
    int32_t *by_locate; /* index of the book by locate; -1: none */
    uint32_t *changed;  /* ring of the indices of changed books, each once */
    uint32_t changed_first;
    uint32_t changed_count;
};

enum market_result {
    MARKET_OK,
    MARKET_UNKNOWN,  /* unknown order or stock: usual after a loss */
    MARKET_CONFLICT, /* contradicts the known order */
    MARKET_FULL,     /* a limit was reached */
};

/* Returns false without memory; market_fini() may be called in both cases. */
bool market_init(struct market *market, const struct market_limits *limits);
void market_fini(struct market *market);

/*
 * Starts a new day: no orders, no quotes. Books remain, with their indices and symbols, but none is found by
 * a locate until the directory names it again. All books are marked as changed, and none is stale.
 */
void market_clear(struct market *market);

/*
 * Applies the message with that sequence. If the result is not MARKET_OK, the book it names, if any, is
 * stale.
 */
enum market_result market_apply(struct market *market, const struct itch_message *message, uint64_t sequence);

/* Handles the loss of unknown messages: every book becomes stale, and changed. */
void market_lost(struct market *market);

/* Appends a book to the queue of changed books, unless it is queued. */
void market_mark(struct market *market, struct book *book);

/* Returns the first book of the queue, or NULL; market_pop() removes it. */
struct book *market_changed(const struct market *market);
void market_pop(struct market *market);

struct book_top book_top(const struct book *book);

#endif
