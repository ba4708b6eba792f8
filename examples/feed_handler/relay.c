/* SPDX-License-Identifier: Apache-2.0 */
#include "relay.h"

#include <string.h>

int relay_open(struct relay *relay, const char *channel)
{
    *relay = (struct relay){.channel = channel};
    return llm_context_open(NULL, &relay->context);
}

void relay_close(struct relay *relay)
{
    llm_transmitter_close(&relay->transmitter);
    llm_context_close(&relay->context);
}

int relay_begin(struct relay *relay, const uint8_t session[MOLD_SESSION_BYTES], uint64_t sequence)
{
    size_t size = MOLD_SESSION_BYTES;
    struct llm_options options;
    int result;

    while (size > 0 && session[size - 1] == ' ')
        size--;
    llm_options_init(&options);
    memcpy(options.stream, session, size);
    options.stream[size] = '\0';
    /* The messages of a session are numbered from 1, and those before the first that comes are skipped. */
    options.stream_base = sequence > LLM_SKIP_MAX ? sequence : 1;
    options.stream_merge = 1;
    result = llm_transmitter_open(relay->context, relay->channel, &options, NULL, &relay->transmitter);
    return result < 0 ? result
                      : llm_topic_open(relay->transmitter, RELAY_TOPIC, LLM_TOPIC_WHOLE, &relay->topic);
}

int relay_send(struct relay *relay, uint64_t sequence, const void *data, size_t size, uint64_t timeout_ns)
{
    const uint64_t until = llm_clock() + timeout_ns;
    int result;

    /* More messages may follow; relay_flush() is called after the last. */
    while ((result = llm_send_numbered(relay->topic, sequence, data, size, LLM_SEND_MORE)) == LLM_EAGAIN &&
           llm_clock() < until) {
        result = llm_topic_wait(relay->topic, size, until - llm_clock());
        if (result < 0)
            break;
    }
    relay->messages += result == 0;
    return result;
}

int relay_flush(const struct relay *relay)
{
    int result = relay->transmitter != NULL ? llm_transmitter_flush(relay->transmitter) : 0;

    /* llm_poll() sends what the network does not accept now. */
    return result == LLM_EAGAIN ? 0 : result;
}
