/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the messages of a feed themselves over libllm, on one topic, under the numbers that they have in the feed. Two
 * relays of the same feed send one stream: receivers take the first copy of each message, and have what one of them
 * lost from the other.
 */
#ifndef FEED_RELAY_H
#define FEED_RELAY_H

#include "mold.h"

#include <llm/llm.h>

#define RELAY_TOPIC "itch"

struct relay {
    struct llm_context *context;
    struct llm_transmitter *transmitter; /* NULL until the session of the feed is known */
    struct llm_topic *topic;
    const char *channel;
    uint64_t messages;
};

/* Opens the context. Returns 0 or an LLM_E... code; relay_close() may be called in both cases. */
int relay_open(struct relay *relay, const char *channel);

/* Waits until the known receivers have all messages, as llm_transmitter_close() does. */
void relay_close(struct relay *relay);

/* Opens the transmitter: its stream has the name of the session of the feed. sequence: of the first packet. */
int relay_begin(struct relay *relay, const uint8_t session[MOLD_SESSION_BYTES], uint64_t sequence);

/*
 * Sends a message. Messages between the previous one and this one were lost, and are skipped. Waits while libllm takes no
 * more, for timeout_ns at most: the socket of the feed buffers what comes meanwhile.
 */
int relay_send(struct relay *relay, uint64_t sequence, const void *data, size_t size, uint64_t timeout_ns);

/* Sends what is packed. */
int relay_flush(const struct relay *relay);

#endif
