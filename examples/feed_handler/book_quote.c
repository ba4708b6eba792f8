/* SPDX-License-Identifier: Apache-2.0 */
#include "book_quote.h"

struct quote quote_of_book(const struct book *book)
{
    struct book_top top = book_top(book);

    return (struct quote){
        .sequence = book->sequence,
        .timestamp_ns = book->timestamp_ns,
        .bid_size = top.bid_size,
        .ask_size = top.ask_size,
        .bid_price = top.bid_price,
        .ask_price = top.ask_price,
        .flags = book->stale ? QUOTE_STALE : 0,
    };
}
