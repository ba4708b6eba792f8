/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher.h"

#include "book_quote.h"

#include <stdlib.h>

int publisher_open(struct publisher *publisher, const char *channel, uint32_t symbols_max)
{
    struct llm_options options;
    int result;

    *publisher = (struct publisher){.symbols_max = symbols_max};
    publisher->publications = calloc(symbols_max, sizeof *publisher->publications);
    if (publisher->publications == NULL)
        return LLM_ENOMEM;
    result = llm_context_open(NULL, &publisher->context);
    if (result < 0)
        return result;
    llm_options_init(&options);
    options.topics_max = symbols_max;
    return llm_transmitter_open(publisher->context, channel, &options, NULL, &publisher->transmitter);
}

void publisher_close(struct publisher *publisher)
{
    llm_transmitter_close(&publisher->transmitter);
    llm_context_close(&publisher->context);
    free(publisher->publications);
    publisher->publications = NULL;
}

/* Builds the quote in the send buffer, without a copy. */
static int send_quote(struct llm_topic *topic, const struct quote *quote)
{
    void *data;
    int result = llm_topic_claim(topic, QUOTE_BYTES, &data);

    if (result < 0)
        return result;
    quote_encode(quote, data);
    /* More quotes may follow; llm_transmitter_flush() is called after the last. */
    return llm_topic_commit(topic, QUOTE_BYTES, LLM_SEND_MORE);
}

/* Sends the top of a book if it has changed. */
static int publish_book(struct publisher *publisher, struct publication *publication, const struct book *book)
{
    struct quote quote = quote_of_book(book);
    int result = 0;

    if (publication->sent && quote_same(&publication->quote, &quote))
        return 0;
    /* A receiver should read a quote at once, without waiting for a second packet with the rest of it. */
    if (publication->topic == NULL)
        result = llm_topic_open(publisher->transmitter, book->symbol, LLM_TOPIC_WHOLE, &publication->topic);
    if (result == 0)
        result = send_quote(publication->topic, &quote);
    if (result < 0)
        return result;
    publication->quote = quote;
    publication->sent = true;
    publisher->quotes++;
    return 0;
}

int publisher_publish(struct publisher *publisher, struct market *market)
{
    const struct book *book;
    int result = 0;

    while (result == 0 && (book = market_changed(market)) != NULL) {
        result = publish_book(publisher, &publisher->publications[book - market->books], book);
        if (result == 0)
            market_pop(market);
    }
    if (result == LLM_EAGAIN)
        publisher->postponed++;
    else if (result < 0)
        return result;
    /* llm_poll() sends what the network does not accept now. */
    result = llm_transmitter_flush(publisher->transmitter);
    return result == LLM_EAGAIN ? 0 : result;
}

void publisher_refresh(struct publisher *publisher, struct market *market)
{
    for (uint32_t i = 0; i < market->book_count; i++) {
        publisher->publications[i].sent = false;
        market_mark(market, &market->books[i]);
    }
}
