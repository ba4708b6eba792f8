/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the tops of changed books over libllm, one topic per symbol. */
#ifndef FEED_PUBLISHER_H
#define FEED_PUBLISHER_H

#include "book.h"
#include "quote.h"

#include <llm/llm.h>

/* Topic of a book, and the last quote sent on it. */
struct publication {
    struct llm_topic *topic;
    struct quote quote;
    bool sent;
};

struct publisher {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct publication *publications; /* by index of the book */
    uint32_t symbols_max;
    uint64_t quotes;    /* sent */
    uint64_t postponed; /* quotes not accepted by the network: a later one may replace them */
};

/* Returns 0 or an LLM_E... code; publisher_close() may be called in both cases. */
int publisher_open(struct publisher *publisher, const char *channel, uint32_t symbols_max);

/* Waits until the known receivers have all quotes, as llm_transmitter_close() does. */
void publisher_close(struct publisher *publisher);

/*
 * Sends the quotes of changed books and removes these from the market's queue. If the network accepts no
 * more, books stay in the queue, and their current quotes are sent later. Returns 0 or an LLM_E... code.
 */
int publisher_publish(struct publisher *publisher, struct market *market);

/*
 * Makes the next publisher_publish() send the quotes of all books, for receivers that joined late or lost
 * some.
 */
void publisher_refresh(struct publisher *publisher, struct market *market);

#endif
