/* SPDX-License-Identifier: Apache-2.0 */
/* Sending on topics: messages are checked, packed, and sent at once or with later ones. */
#include <stdlib.h>

#include "api/lifecycle.h"
#include "engine/objects.h"
#include "observe/watch.h"
#include "system/prefetch.h"

enum { TRANSMITTER_FLAGS = LLM_SEND_MORE | LLM_SEND_NOW };

/* ----------------------------------------------------------------------------------------------- flush */

/* Counts a waiting message for the latency monitor. Returns true if enough packets wait for a flush. */
static bool transmitter_is_batch(struct llm_transmitter *transmitter)
{
    if (transmitter->latency == NULL)
        return true;
    lli_latency_waits(transmitter);
    return transmitter->tx.history.next - transmitter->tx.sent >= transmitter->latency->batch;
}

/*
 * Leaves a packed message for the next flush. Enough sealed packets are flushed all the same, without the
 * open one.
 */
static void transmitter_wait(struct llm_transmitter *transmitter)
{
    const bool in_handler = transmitter->context->in_handler;

    transmitter->dirty |= in_handler;
    transmitter->context->dirty |= in_handler;
    if (transmitter->tx.history.next - transmitter->tx.sent >= transmitter->batch &&
        transmitter_is_batch(transmitter))
        (void)lli_endpoint_send(transmitter, false, lli_ticks());
    lli_endpoint_due(transmitter->endpoint, 0);
}

/*
 * Returns true if a message may leave at once. In a handler the rest of the received packet comes first, as
 * it may cause more sends.
 */
static inline bool transmitter_may_leave(const struct llm_transmitter *transmitter, unsigned flags)
{
    const struct llm_context *context = transmitter->context;

    return flags & LLM_SEND_NOW || (!(flags & LLM_SEND_MORE) && (!context->in_handler || context->in_single));
}

/* Sends a packed message now if the transport is idle, else with the next flush. */
static inline void transmitter_packed(struct llm_transmitter *transmitter, unsigned flags)
{
    uint64_t ticks;

    if (!transmitter_may_leave(transmitter, flags)) {
        transmitter_wait(transmitter);
        return;
    }
    ticks = lli_ticks();
    if (!(flags & LLM_SEND_NOW) && lli_transmitter_is_busy(transmitter, ticks))
        transmitter_wait(transmitter);
    else
        (void)lli_endpoint_send(transmitter, true, ticks);
}

int llm_transmitter_flush(struct llm_transmitter *transmitter)
{
    int error;

    if (transmitter == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    error = lli_endpoint_send(transmitter, true, lli_ticks());
    /* An open packet that flow control or a rate limit blocks stays open. */
    if (lli_tx_is_waiting(&transmitter->tx))
        error = LLM_EAGAIN;
    lli_context_leave(transmitter->context);
    return error;
}

/* -------------------------------------------------------------------------------------------- messages */

/*
 * Gives the transport packets of a history that is full of unsent ones. Returns true if it is worth trying
 * again.
 */
static bool transmitter_make_room(struct llm_transmitter *transmitter)
{
    lli_seq busy = lli_tx_busy(&transmitter->tx);

    (void)lli_endpoint_send(transmitter, true, lli_ticks());
    if (lli_tx_busy(&transmitter->tx) > busy)
        return true;
    lli_watch_refused(transmitter);
    return false;
}

static bool topic_is_assured(const struct llm_topic *topic)
{
    return topic->assured != NULL && lli_ack_topic_is_on(topic->assured);
}

/* Returns true if a message of a cached topic is too long for the cache, with its attributes. */
static bool topic_is_overfull(const struct llm_topic *topic, size_t size)
{
    const struct lli_pack_attributes *attributes = topic->transmitter->tx.pack.attributes;
    const uint32_t bytes = attributes != NULL ? attributes->size : 0;

    return size > topic->cache->bytes_max || bytes > topic->cache->bytes_max - size ||
           bytes > lli_lvc_attributes_max((uint32_t)lli_min(topic->transmitter->tx.config.history.packet_max,
                                                            LLI_ENDPOINT_SCRATCH));
}

/* Returns true if a message is longer than an assured or cached topic can ever take. */
static bool topic_is_exceeded(const struct llm_topic *topic, size_t size)
{
    return (topic_is_assured(topic) && size > topic->assured->rule.bytes_max) ||
           (topic->cache != NULL && topic_is_overfull(topic, size));
}

/* Returns true if one more message of an assured topic may be unacknowledged. */
static bool transmitter_may_wait(const struct llm_topic *topic, size_t size)
{
    if (!topic_is_assured(topic) || lli_ack_topic_allows(topic->assured, size))
        return true;
    topic->transmitter->tx.counters.send_blocked_unacknowledged++;
    return false;
}

/* Returns true if another packet may be begun: flow control may block too many already. */
static bool transmitter_may_open(struct llm_transmitter *transmitter)
{
    if (!lli_tx_is_blocked(&transmitter->tx))
        return true;
    (void)lli_endpoint_send(transmitter, false, lli_ticks());
    if (!lli_tx_is_blocked(&transmitter->tx))
        return true;
    lli_watch_refused(transmitter);
    return false;
}

/* Begins a packet where none is open. False: flow control blocks it, or the history has no room. */
static bool transmitter_open_packet(struct llm_transmitter *transmitter)
{
    struct lli_tx *tx = &transmitter->tx;

    if (!transmitter_may_open(transmitter))
        return false;
    while (!lli_pack_open(&tx->pack, lli_tx_busy(tx)))
        if (!transmitter_make_room(transmitter))
            return false;
    return true;
}

/*
 * Accounts for a message of an assured, rate-limited or counted topic, packed in this packet or a later one.
 */
static void transmitter_account(struct llm_topic *topic, lli_seq seq, size_t size)
{
    if (topic_is_assured(topic))
        lli_tx_assured(&topic->transmitter->tx, topic->assured, seq, size);
    if (topic->rated)
        (void)lli_pacer_take(&topic->rate, size);
    topic->count.messages++;
    topic->count.bytes += size;
}

/*
 * Fast path of counted topics that are neither assured, rate-limited nor cached: as
 * transmitter_send_in_place(), and counted.
 */
static inline bool transmitter_count_in_place(struct llm_topic *topic, const struct iovec *piece, size_t size)
{
    struct llm_transmitter *transmitter = topic->transmitter;

    if (topic->rated || topic->cache != NULL || topic_is_assured(topic) || transmitter->claimed != NULL ||
        size == 0 || size > transmitter->message_bytes_max ||
        !lli_pack_in_place(&transmitter->tx.pack, &topic->pack, piece->iov_base, size))
        return false;
    topic->count.messages++;
    topic->count.bytes += size;
    return true;
}

/* Slow path: messages of assured, rate-limited, counted or cached topics, and oversized messages. */
static LLI_OUT_OF_LINE int transmitter_send_account(struct llm_topic *topic, const struct iovec *pieces,
                                                    int count, size_t size, unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    struct lli_tx *tx = &transmitter->tx;
    /* The packer consumes the attributes when it packs. */
    const struct lli_pack_attributes *attributes = tx->pack.attributes;
    lli_seq seq;

    if (count == 1 && transmitter_count_in_place(topic, pieces, size)) {
        if (flags != LLM_SEND_MORE || transmitter->context->in_handler)
            transmitter_packed(transmitter, flags);
        return LLM_OK;
    }
    if (size > transmitter->message_bytes_max || topic_is_exceeded(topic, size))
        return lli_refuse_size(topic, size);
    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(transmitter, topic->name);
    if (!lli_topic_may_send(topic) || !transmitter_may_wait(topic, size) ||
        !transmitter_may_open(transmitter))
        return LLM_EAGAIN;
    for (;;) {
        seq = tx->history.next;
        if (lli_pack_message(&tx->pack, &topic->pack, pieces, (uint32_t)size, lli_tx_busy(tx)))
            break;
        if (!transmitter_make_room(transmitter))
            return LLM_EAGAIN;
    }
    transmitter_account(topic, seq, size);
    if (topic->cache != NULL)
        lli_tx_lvc_add(tx, topic->cache, attributes, pieces, (uint32_t)size);
    transmitter_packed(transmitter, flags);
    return LLM_OK;
}

static int transmitter_send(struct llm_topic *topic, const struct iovec *pieces, int count, size_t size,
                            unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    struct lli_tx *tx = &transmitter->tx;
    bool tried = flags == LLM_SEND_MORE; /* transmitter_send_in_place() was tried */

    if (flags > TRANSMITTER_FLAGS)
        return lli_refuse_flags(topic, flags);
    if (size >= topic->plain_below)
        return transmitter_send_account(topic, pieces, count, size, flags);
    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(transmitter, topic->name);
    if (tx->pack.packet == NULL) {
        if (!transmitter_open_packet(transmitter))
            return LLM_EAGAIN;
        tried = false;
    }
    /* Common case: one piece, and room in the open packet, which is empty or continues the same topic. */
    if (tried || count != 1 || size == 0 ||
        !lli_pack_in_place(&tx->pack, &topic->pack, pieces->iov_base, size)) {
        if (!transmitter_may_open(transmitter))
            return LLM_EAGAIN;
        while (!lli_pack_message(&tx->pack, &topic->pack, pieces, (uint32_t)size, lli_tx_busy(tx)))
            if (!transmitter_make_room(transmitter))
                return LLM_EAGAIN;
    }
    transmitter_packed(transmitter, flags);
    return LLM_OK;
}

/*
 * Returns true if the fast paths below may be tried: more messages follow, and no other thread changes what
 * they read. The conditions come first: without the lock nothing else may be read.
 */
static inline bool transmitter_may_be_short(const struct llm_topic *topic, const void *data, unsigned flags)
{
    const struct llm_context *context = topic->transmitter->context;

    return flags == LLM_SEND_MORE && data != NULL && !lli_context_is_threaded(context) &&
           !context->in_handler;
}

/*
 * Fastest path, for most messages: the open packet has room and continues the same topic. The packet was made
 * due when it was begun, so nothing is left to do.
 */
static inline bool transmitter_send_in_place(struct llm_topic *topic, const void *data, size_t size)
{
    struct llm_transmitter *transmitter = topic->transmitter;

    return size < topic->plain_below && transmitter->claimed == NULL &&
           lli_pack_in_place(&transmitter->tx.pack, &topic->pack, data, size);
}

/*
 * Returns true if a packet may leave by transmitter_send_single(): no packet waits, no limit blocks it, and
 * nothing observes it.
 */
static inline bool transmitter_is_clear(const struct llm_transmitter *transmitter)
{
    const struct lli_tx *tx = &transmitter->tx;

    return tx->sent == tx->history.next && tx->sent < tx->flow.limit && !lli_tx_is_paced(tx) &&
           !transmitter->endpoint->stuck && transmitter->posted_max != 0;
}

/* Sends the packet of a single message from its place in the history. */
static LLI_OUT_OF_LINE void transmitter_post_single(struct llm_topic *topic, const void *data, size_t size,
                                                    uint64_t ticks)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_endpoint *endpoint = transmitter->endpoint;
    const struct lli_pack *pack = &transmitter->tx.pack;
    const uint32_t bytes = lli_pack_single(pack, pack->prepared, &topic->pack, data, size);
    const struct lli_out out = {pack->prepared, bytes, transmitter->group};
    const bool taken = endpoint->transport->post(endpoint->instance, &out, 1) == 1;

    lli_endpoint_sent_single(transmitter, pack->prepared, bytes, taken, ticks);
}

/* Sends the packet of a single message from a slot of the transport. */
static inline void transmitter_post_slot(struct llm_topic *topic, const void *data, size_t size,
                                         uint64_t ticks)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_endpoint *endpoint = transmitter->endpoint;
    uint8_t *packet = endpoint->transport->slot(endpoint->instance, transmitter->group);
    const uint32_t bytes = lli_pack_single(&transmitter->tx.pack, packet, &topic->pack, data, size);

    endpoint->transport->post_slot(endpoint->instance, transmitter->group, bytes);
    lli_endpoint_sent_single(transmitter, packet, bytes, true, ticks);
}

/*
 * Sends a message in a packet of its own if nothing waits and nothing blocks it; the history is updated after
 * the packet was posted. False, with nothing changed, otherwise.
 */
static inline bool transmitter_send_single(struct llm_topic *topic, const void *data, size_t size,
                                           unsigned flags)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    uint64_t ticks;

    if (flags & ~(unsigned)LLM_SEND_NOW || size >= topic->plain_below || transmitter->claimed != NULL ||
        !transmitter_may_leave(transmitter, flags) || !transmitter_is_clear(transmitter) ||
        !lli_pack_may_be_single(&transmitter->tx.pack, size))
        return false;
    ticks = lli_ticks();
    if (!(flags & LLM_SEND_NOW) && lli_transmitter_is_busy(transmitter, ticks))
        return false;
    if (size <= transmitter->slot_max)
        transmitter_post_slot(topic, data, size, ticks);
    else
        transmitter_post_single(topic, data, size, ticks);
    return true;
}

/* Prefetches the transport's slot for writing: readers of its last packet have its cache lines. */
static inline void transmitter_fetch_slot(const struct llm_transmitter *transmitter)
{
    enum { LINE = 64 };

    if (transmitter->slot_at == NULL)
        return;
    lli_prefetch_write(*transmitter->slot_at);
    lli_prefetch_write(*transmitter->slot_at + LINE);
}

static LLI_OUT_OF_LINE int transmitter_send_one(struct llm_topic *topic, const void *data, size_t size,
                                                unsigned flags)
{
    const struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    int error = LLM_OK;

    if (!lli_context_enter(topic->transmitter->context))
        return LLM_ESTATE;
    transmitter_fetch_slot(topic->transmitter);
    if (!transmitter_send_single(topic, data, size, flags))
        error = transmitter_send(topic, &piece, 1, size, flags);
    lli_context_leave(topic->transmitter->context);
    return error;
}

/* As transmitter_send_in_place(), for a counted topic that is neither assured nor rate-limited. */
static LLI_OUT_OF_LINE int transmitter_send_counted(struct llm_topic *topic, const void *data, size_t size)
{
    struct llm_transmitter *transmitter = topic->transmitter;

    if (transmitter->claimed != NULL || !lli_pack_in_place(&transmitter->tx.pack, &topic->pack, data, size))
        return transmitter_send_one(topic, data, size, LLM_SEND_MORE);
    topic->count.messages++;
    topic->count.bytes += size;
    return LLM_OK;
}

int llm_send(struct llm_topic *topic, const void *data, size_t size, unsigned flags)
{
    if (topic == NULL || (data == NULL && size > 0))
        return topic == NULL ? LLM_EINVAL : lli_refuse_data(topic, size);
    if (transmitter_may_be_short(topic, data, flags)) {
        if (transmitter_send_in_place(topic, data, size))
            return LLM_OK;
        if (size < topic->counted_below)
            return transmitter_send_counted(topic, data, size);
    }
    return transmitter_send_one(topic, data, size, flags);
}

/* Sends checked pieces, of size bytes in total. */
static inline int transmitter_send_pieces(struct llm_topic *topic, const struct iovec *pieces, int count,
                                          size_t size, unsigned flags)
{
    int error;

    if (!lli_context_enter(topic->transmitter->context))
        return LLM_ESTATE;
    error = transmitter_send(topic, pieces, count, size, flags);
    lli_context_leave(topic->transmitter->context);
    return error;
}

/* Handles pieces that are invalid, or may be: some are at NULL. */
static LLI_COLD LLI_OUT_OF_LINE int transmitter_send_odd(struct llm_topic *topic, const struct iovec *pieces,
                                                         int count, unsigned flags)
{
    size_t size = 0;

    if (topic == NULL)
        return LLM_EINVAL;
    if (count < 0 || (pieces == NULL && count > 0))
        return lli_refuse_count(topic, pieces, count);
    for (int i = 0; i < count; i++) {
        if (pieces[i].iov_base == NULL && pieces[i].iov_len > 0)
            return lli_refuse_piece(topic, i, pieces[i].iov_len);
        if (pieces[i].iov_len > SIZE_MAX - size)
            return lli_refuse_size(topic, SIZE_MAX);
        size += pieces[i].iov_len;
    }
    return transmitter_send_pieces(topic, pieces, count, size, flags);
}

int llm_sendv(struct llm_topic *topic, const struct iovec *pieces, int count, unsigned flags)
{
    size_t size = 0;

    if (topic == NULL || count < 0 || (pieces == NULL && count > 0))
        return transmitter_send_odd(topic, pieces, count, flags);
    for (int i = 0; i < count; i++) {
        if (pieces[i].iov_len > SIZE_MAX - size || pieces[i].iov_base == NULL)
            return transmitter_send_odd(topic, pieces, count, flags);
        size += pieces[i].iov_len;
    }
    return transmitter_send_pieces(topic, pieces, count, size, flags);
}

/* Checks a claim that does not take the fast path, as for messages. */
static LLI_OUT_OF_LINE int transmitter_may_claim(struct llm_topic *topic, size_t size)
{
    if (size > llm_transmitter_claim_max(topic->transmitter))
        return lli_refuse(topic->transmitter->context, LLM_EMSGSIZE,
                          "topic \"%s\": a claim of %zu bytes: llm_transmitter_claim_max() is %zu: use "
                          "llm_send() for more",
                          topic->name, size, llm_transmitter_claim_max(topic->transmitter));
    if (topic_is_exceeded(topic, size))
        return lli_refuse_size(topic, size);
    return lli_topic_may_send(topic) && transmitter_may_wait(topic, size) &&
                   transmitter_may_open(topic->transmitter)
               ? LLM_OK
               : LLM_EAGAIN;
}

/*
 * Ends a call that may have made a claim while a loop thread runs: other threads get LLM_EAGAIN until this
 * thread ends the claim.
 */
static LLI_OUT_OF_LINE void transmitter_claimed(struct llm_transmitter *transmitter, int error)
{
    if (error == LLM_OK)
        transmitter->claimant = (uintptr_t)pthread_self();
    lli_context_unlock(transmitter->context);
}

int llm_topic_claim(struct llm_topic *topic, size_t size, void **data)
{
    struct llm_transmitter *transmitter;
    uint8_t *bytes = NULL;
    int error = LLM_OK;

    if (topic == NULL || data == NULL)
        return topic == NULL ? LLM_EINVAL
                             : lli_refuse(topic->transmitter->context, LLM_EINVAL,
                                          "topic \"%s\": llm_topic_claim: data is NULL: "
                                          "it has to be given",
                                          topic->name);
    transmitter = topic->transmitter;
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    if (transmitter->claimed != NULL)
        error = lli_refuse_claimed(transmitter, topic->name);
    else if (size >= topic->claim_below)
        error = transmitter_may_claim(topic, size);
    else if (!transmitter_may_open(transmitter))
        error = LLM_EAGAIN;
    while (error == LLM_OK && bytes == NULL) {
        bytes = lli_pack_claim(&transmitter->tx.pack, &topic->pack, (uint32_t)size,
                               lli_tx_busy(&transmitter->tx));
        if (bytes == NULL && !transmitter_make_room(transmitter))
            error = LLM_EAGAIN;
    }
    if (error == LLM_OK) {
        transmitter->claimed = topic->claims;
        *data = bytes;
    }
    if (lli_context_is_threaded(transmitter->context))
        transmitter_claimed(transmitter, error);
    return error;
}

static LLI_COLD int transmitter_refuse_commit(const struct llm_topic *topic, size_t size, unsigned flags)
{
    if (flags > TRANSMITTER_FLAGS)
        return lli_refuse_flags(topic, flags);
    return lli_refuse(topic->transmitter->context, LLM_EINVAL,
                      "topic \"%s\": commit of %zu bytes: %u were claimed: commit no more", topic->name, size,
                      topic->transmitter->tx.pack.claim_size);
}

/* Commits a claim that did not take the fast path; it is in the open packet, too. */
static LLI_OUT_OF_LINE int transmitter_commit_account(struct llm_topic *topic, size_t size, unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    struct lli_tx *tx = &transmitter->tx;
    struct iovec piece = {.iov_len = size};

    if (transmitter->claimed == NULL || transmitter->claimed != topic->claims)
        return lli_refuse_unclaimed(topic);
    if (flags > TRANSMITTER_FLAGS || size > tx->pack.claim_size)
        return transmitter_refuse_commit(topic, size, flags);
    lli_pack_commit(&tx->pack, (uint32_t)size);
    transmitter->claimed = NULL;
    transmitter_account(topic, tx->history.next, size);
    piece.iov_base = tx->pack.at - size;
    if (topic->cache != NULL)
        lli_tx_lvc_add(tx, topic->cache, NULL, &piece, (uint32_t)size);
    transmitter_packed(transmitter, flags);
    return LLM_OK;
}

int llm_topic_commit(struct llm_topic *topic, size_t size, unsigned flags)
{
    struct llm_transmitter *transmitter;
    int error = LLM_OK;

    if (topic == NULL)
        return LLM_EINVAL;
    transmitter = topic->transmitter;
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    if (transmitter->claimed != topic) {
        error = transmitter_commit_account(topic, size, flags);
    } else if (flags > TRANSMITTER_FLAGS || size > transmitter->tx.pack.claim_size) {
        error = transmitter_refuse_commit(topic, size, flags);
    } else {
        lli_pack_commit(&transmitter->tx.pack, (uint32_t)size);
        transmitter->claimed = NULL;
        transmitter_packed(transmitter, flags);
    }
    lli_context_leave(transmitter->context);
    return error;
}

int llm_topic_abort(struct llm_topic *topic)
{
    struct llm_transmitter *transmitter;
    int error = LLM_OK;

    if (topic == NULL)
        return LLM_EINVAL;
    transmitter = topic->transmitter;
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    if (transmitter->claimed != NULL && transmitter->claimed == topic->claims) {
        lli_pack_abort(&transmitter->tx.pack);
        transmitter->claimed = NULL;
        /* A poll during the claim could not send the messages packed before it. */
        lli_endpoint_due(transmitter->endpoint, 0);
    } else {
        error = lli_refuse_unclaimed(topic);
    }
    lli_context_leave(transmitter->context);
    return error;
}

/* ---------------------------------------------------------------------------------------------- topics */

static int transmitter_topic(struct llm_transmitter *transmitter, const char *name, unsigned flags,
                             struct llm_topic **result)
{
    const struct lli_log *log = &transmitter->context->log;
    struct lli_tx *tx = &transmitter->tx;
    /* Unreliable topics have no history anyway. */
    const bool transient = flags & LLM_TOPIC_NO_HISTORY && !(flags & LLM_TOPIC_UNRELIABLE);
    const size_t name_max = LLI_WIRE_NAME_MAX - (flags & LLM_TOPIC_NO_HISTORY ? LLI_WIRE_NAME_FLAGS : 0);
    struct llm_topic *topic;
    int error;

    if (strlen(name) < 1 || strlen(name) > name_max)
        return lli_fail(log, LLM_EINVAL, "topic \"%.32s\": a name has 1 to %zu bytes%s, this one has %zu",
                        name, name_max, flags & LLM_TOPIC_NO_HISTORY ? " without history" : "", strlen(name));
    for (topic = transmitter->topics; topic != NULL; topic = topic->next)
        if (strcmp(topic->name, name) == 0)
            return lli_fail(
                log, LLM_EINVAL,
                "topic \"%s\": is open already on this transmitter: use that one, or another name", name);
    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(transmitter, name);
    topic = calloc(1, sizeof *topic);
    if (topic == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for a topic");
    topic->transmitter = transmitter;
    memcpy(topic->name, name, strlen(name));
    topic->pack.whole = flags & LLM_TOPIC_WHOLE;
    topic->pack.unreliable = flags & LLM_TOPIC_UNRELIABLE;
    topic->pack.transient = transient;
    do
        error = transient ? lli_tx_topic_add_transient(tx, topic->name, &topic->pack.id)
                          : lli_tx_topic_add(tx, topic->name, &topic->pack.id);
    while (error == LLM_EAGAIN && transmitter_make_room(transmitter));
    if (error != LLM_OK) {
        free(topic);
        if (error == LLM_ELIMIT)
            return lli_fail(log, error, "topic \"%s\": there are topics_max=%u already", name,
                            tx->config.topics_max);
        return error;
    }
    if (topic->pack.unreliable)
        lli_pack_unreliable(&tx->pack, topic->pack.id);
    lli_topic_route(topic);
    topic->next = transmitter->topics;
    transmitter->topics = topic;
    *result = topic;
    transmitter_packed(transmitter, LLM_SEND_MORE);
    return LLM_OK;
}

int llm_topic_open(struct llm_transmitter *transmitter, const char *name, unsigned flags,
                   struct llm_topic **topic)
{
    int error;

    if (transmitter == NULL)
        return LLM_EINVAL;
    if (name == NULL || topic == NULL)
        return lli_refuse(transmitter->context, LLM_EINVAL, "llm_topic_open: %s is NULL: it has to be given",
                          name == NULL ? "name" : "topic");
    if (flags > (LLM_TOPIC_WHOLE | LLM_TOPIC_UNRELIABLE | LLM_TOPIC_NO_HISTORY))
        return lli_refuse(transmitter->context, LLM_EINVAL,
                          "topic \"%.32s\": flags %#x: use those of enum llm_topic_flags, or 0", name, flags);
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    error = transmitter_topic(transmitter, name, flags, topic);
    lli_context_leave(transmitter->context);
    return error;
}
