/* SPDX-License-Identifier: Apache-2.0 */
/*
 * End of a stream (docs/protocol.md section 12.6): transmitters that restart ask the stores of a channel, and
 * continue after the farthest answer.
 */
#include <string.h>

#include "api/lifecycle.h"
#include "store/recordings.h"
#include "store/store.h"

/* Ends that a store looks up in a second, and at once: it reads the disk for each, and whoever asks may forge. */
enum { STREAMS_LOOKUPS = 64, STREAMS_LOOKUPS_MAX = 16 };

/* Distance of the questions of a transmitter. */
#define STREAMS_ASK_NS ((lli_ns)20000000)

/* ---------------------------------------------------------------------------------------------- the store */

void lli_streams_lookups(struct lli_pacer *pacer, lli_ns now)
{
    lli_pacer_init(pacer, STREAMS_LOOKUPS, STREAMS_LOOKUPS_MAX, now);
}

void lli_streams_request(struct lli_store_channel *channel, const struct lli_wire_join *join, lli_ns now)
{
    struct llm_store *store = channel->store;

    if (join->receiver == 0 || join->address.size == 0)
        return;
    lli_pacer_fill(&store->lookups, now);
    if (channel->asked_tail - channel->asked_head == LLI_STORE_ASKED || !lli_pacer_take(&store->lookups, 1)) {
        store->counters.store_streams_dropped++;
        return;
    }
    channel->asked[channel->asked_tail++ % LLI_STORE_ASKED] = (struct lli_stream_question){
        .stream = join->session, .receiver = join->receiver, .address = join->address};
    /* Answered at the end of this poll, or of the next. */
    store->context->stores_at = 0;
}

static void streams_answer(struct lli_store_channel *channel, const struct lli_stream_question *question)
{
    struct lli_endpoint *endpoint = channel->receiver->endpoint;
    struct llm_store *store = channel->store;
    uint8_t *buffer = lli_endpoint_scratch(endpoint);
    struct lli_wire_join answer = {.session = question->stream,
                                   .receiver = question->receiver,
                                   .kind = LLI_WIRE_JOIN_STREAM_END,
                                   .address = endpoint->address};
    struct lli_stream_end end;
    struct lli_packet packet = {.data = buffer, .to = &question->address};

    /* Without an answer it asks again. */
    if (buffer == NULL || lli_catalogue_stream(store->catalogue, question->stream, &end) != LLM_OK) {
        store->counters.store_streams_dropped++;
        return;
    }
    answer.number = end.next;
    answer.wanted = end.session;
    answer.lead = end.term;
    packet.size = (uint32_t)lli_wire_put_join(buffer, &answer);
    lli_endpoint_post_control(endpoint, &packet, channel->group);
    lli_endpoint_flush(endpoint);
    store->counters.store_streams_answered++;
}

void lli_streams_service(struct llm_store *store)
{
    for (struct lli_store_channel *channel = store->channels; channel != NULL; channel = channel->next)
        for (; channel->asked_head != channel->asked_tail; channel->asked_head++)
            streams_answer(channel, &channel->asked[channel->asked_head % LLI_STORE_ASKED]);
}

/* ----------------------------------------------------------------------------------------- the transmitter */

/* Stores of which the addresses are compared. */
enum { ASK_STORES_MAX = 64 };

/* A question, and the answers so far. */
struct ask {
    uint64_t stream;
    uint64_t identity;
    struct llm_receiver *receiver;
    struct lli_stream_end end;
    struct lli_wire_address stores[ASK_STORES_MAX];
    uint32_t count;
};

static bool ask_begin(void *arg, struct lli_rx *rx, lli_ns now)
{
    (void)arg;
    (void)now;
    lli_rx_refuse(rx);
    return true;
}

static void ask_packet(void *arg, struct lli_rx *rx, const struct lli_rx_recorded *packet)
{
    (void)arg;
    (void)rx;
    (void)packet;
}

static void ask_event(void *arg, struct lli_rx *rx, const struct llm_event *event)
{
    (void)arg;
    (void)rx;
    (void)event;
}

/* False: this store has answered before. */
static bool ask_add(struct ask *ask, const struct lli_wire_address *store)
{
    for (uint32_t i = 0; i < ask->count; i++)
        if (ask->stores[i].size == store->size &&
            memcmp(ask->stores[i].bytes, store->bytes, store->size) == 0)
            return false;
    if (ask->count == ASK_STORES_MAX)
        return false;
    ask->stores[ask->count++] = *store;
    return true;
}

static bool ask_answered(void *arg, const struct lli_rx_packet *packet, lli_ns now)
{
    struct lli_wire_join join;
    struct ask *ask = arg;

    (void)now;
    if (packet->header.type != LLI_WIRE_JOIN ||
        !lli_wire_get_join(packet->body, packet->body_size, packet->header.tag, &join) ||
        join.kind != LLI_WIRE_JOIN_STREAM_END || join.session != ask->stream ||
        join.receiver != ask->identity)
        return false;
    if (join.address.size == 0 || join.lead > UINT32_MAX || !ask_add(ask, &join.address) || join.wanted == 0)
        return true;
    if (ask->end.sessions++ == 0 || join.lead > ask->end.term ||
        (join.lead == ask->end.term && join.number > ask->end.next)) {
        ask->end.session = join.wanted;
        ask->end.next = join.number;
        ask->end.term = (uint32_t)join.lead;
    }
    return true;
}

static const struct lli_tap ask_tap = {
    .begin = ask_begin, .packet = ask_packet, .request = ask_answered, .event = ask_event};

static void ask_send(struct ask *ask)
{
    struct lli_endpoint *endpoint = ask->receiver->endpoint;
    uint8_t *buffer = lli_endpoint_scratch(endpoint);
    const struct lli_wire_join join = {.session = ask->stream,
                                       .receiver = ask->identity,
                                       .kind = LLI_WIRE_JOIN_STREAM,
                                       .address = endpoint->address};
    struct lli_packet packet = {.data = buffer};

    if (buffer == NULL)
        return;
    packet.size = (uint32_t)lli_wire_put_join(buffer, &join);
    lli_sessions_post(ask->receiver, &packet);
    lli_endpoint_flush(endpoint);
}

/* Asks until so many stores have answered, or the time has passed. */
static void ask_run(struct ask *ask, struct llm_context *context, uint32_t stores, lli_ns timeout)
{
    const lli_ns begun = lli_clock_ns();
    lli_ns now = begun, at = begun;

    while (ask->count < stores && now - begun <= timeout) {
        if (now >= at) {
            ask_send(ask);
            at = now + STREAMS_ASK_NS;
        }
        /* Other threads get their turn between two polls. */
        lli_context_leave(context);
        if (!lli_context_enter(context))
            break;
        (void)lli_context_poll(context);
        now = lli_clock_ns();
    }
}

static int streams_ask(struct llm_context *context, const char *channel, struct llm_options *options,
                       uint32_t stores, uint64_t timeout)
{
    struct llm_receiver_handlers handlers;
    struct ask ask = {.identity = lli_entropy() | 1};
    int error = lli_stream_named(options, "llm_store_ask", &context->log, &ask.stream);

    if (error != LLM_OK)
        return error;
    if (stores == 0 || stores > ASK_STORES_MAX)
        return lli_fail(&context->log, LLM_EOPTION, "llm_store_ask: stores is %u: it has to be 1 to %d",
                        stores, ASK_STORES_MAX);
    llm_receiver_handlers_init(&handlers);
    error = lli_receiver_open(context, channel, options, &handlers, &ask_tap, &ask, &ask.receiver);
    if (error != LLM_OK)
        return error;
    ask_run(&ask, context, stores, timeout);
    lli_receiver_destroy(ask.receiver);
    if (ask.count < stores)
        return lli_fail(&context->log, LLM_ENOTFOUND,
                        "llm_store_ask: channel \"%s\": %u of %u stores answered for stream %.63s: see that "
                        "they run and follow the channel, or wait longer",
                        channel, ask.count, stores, options->stream);
    error = lli_stream_continue(options, &ask.end, &context->log);
    return error == LLM_OK ? (int)ask.count : error;
}

int llm_store_ask(struct llm_context *context, const char *channel, struct llm_options *options,
                  uint32_t stores, uint64_t timeout_ns)
{
    int error;

    if (context == NULL)
        return LLM_EINVAL;
    if (channel == NULL || options == NULL)
        return lli_refuse(context, LLM_EINVAL, "llm_store_ask: %s is NULL: it has to be given",
                          channel == NULL ? "channel" : "options");
    if (!lli_context_enter(context))
        return LLM_ESTATE;
    if (!context->in_handler)
        error = streams_ask(context, channel, options, stores, timeout_ns);
    else
        error = LLI_REFUSE_IN_HANDLER(context, "llm_store_ask");
    lli_context_leave(context);
    return error;
}
