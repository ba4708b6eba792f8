/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEED_BOOK_QUOTE_H
#define FEED_BOOK_QUOTE_H

#include "book.h"
#include "quote.h"

/* Returns the best bid and ask of a book. */
struct quote quote_of_book(const struct book *book);

#endif
