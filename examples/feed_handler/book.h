/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An order book for each symbol of a feed. Nothing allocates after market_init().
 *
 * A book is right only if it was given every message of its symbol. One that missed a message, because the feed lost some or
 * because a limit was reached, is stale: it goes on, and says so, until market_clear().
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

/* Levels from the worst price to the best: most changes are near the best, and so move few levels. */
struct book_side {
    struct book_level *levels;
    uint32_t count;
};

struct book {
    char symbol[ITCH_SYMBOL_BYTES + 1];
    bool stale;
    bool changed;          /* waits in the market's queue */
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
    uint32_t orders_max;  /* live at a time, all symbols together */
    uint32_t levels_max;  /* prices of one side of a book */
};

struct market {
    struct market_limits limits;
    struct book *books;
    uint32_t book_count;
    struct book_level *levels;
    struct order_table orders;
    int32_t *by_locate; /* the number of the book, -1: none */
    uint32_t *changed;  /* a ring of the numbers of the books that changed, each once */
    uint32_t changed_first;
    uint32_t changed_count;
};

enum market_result {
    MARKET_OK,
    MARKET_UNKNOWN,  /* of an order or a stock that nobody announced: usual after a loss */
    MARKET_CONFLICT, /* against what is known of the order */
    MARKET_FULL,     /* a limit was reached */
};

/* False without memory; market_fini() is right in both cases. */
bool market_init(struct market *market, const struct market_limits *limits);
void market_fini(struct market *market);

/*
 * Starts a new day: no orders, no quotes. Books stay, with their numbers and symbols, but none is found by a locate until the
 * directory has named it again. All books are changed and none is stale.
 */
void market_clear(struct market *market);

/* Applies the message of that sequence. Whatever is not MARKET_OK left the book that it names stale. */
enum market_result market_apply(struct market *market, const struct itch_message *message, uint64_t sequence);

/* Messages were lost, it is not known which: every book is stale, and changed. */
void market_lost(struct market *market);

/* Puts a book at the end of the queue of changed books, if it is not in it. */
void market_mark(struct market *market, struct book *book);

/* The first book of the queue, or NULL; market_pop() takes it out. */
struct book *market_changed(const struct market *market);
void market_pop(struct market *market);

struct book_top book_top(const struct book *book);

#endif
