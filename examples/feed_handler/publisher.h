/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the tops of the books that changed over libllm, one topic per symbol. */
#ifndef FEED_PUBLISHER_H
#define FEED_PUBLISHER_H

#include "book.h"
#include "quote.h"

#include <llm/llm.h>

/* The topic of a book and what was last sent on it. */
struct publication {
    struct llm_topic *topic;
    struct quote quote;
    bool sent;
};

struct publisher {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct publication *publications; /* by the book's number */
    uint32_t symbols_max;
    uint64_t quotes;    /* sent */
    uint64_t postponed; /* times that the network did not take a quote: a later one may replace it */
};

/* 0 or an LLM_E... code; publisher_close() is right in both cases. */
int publisher_open(struct publisher *publisher, const char *channel, uint32_t symbols_max);

/* Waits until the known receivers have all quotes, as llm_transmitter_close() does. */
void publisher_close(struct publisher *publisher);

/*
 * Sends the quotes of the changed books and takes them out of the market's queue. Books stay in it if the network takes no
 * more: the quote that is sent later is that of then. 0 or an LLM_E... code.
 */
int publisher_publish(struct publisher *publisher, struct market *market);

/* Has the quotes of all books sent again by the next publisher_publish(), for receivers that came late or lost some. */
void publisher_refresh(struct publisher *publisher, struct market *market);

#endif
