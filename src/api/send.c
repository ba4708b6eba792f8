/* SPDX-License-Identifier: Apache-2.0 */
/* Sending on topics: messages are checked, packed, and sent at once or with later ones. */
#include <stdlib.h>

#include "api/lifecycle.h"
#include "engine/objects.h"
#include "engine/protection.h"
#include "observe/watch.h"
#include "system/prefetch.h"

/* ----------------------------------------------------------------------------------------------- flush */

/* Counts a waiting message for the latency monitor. Returns true if enough packets wait for a flush. */
static bool transmitter_is_batch(struct llm_transmitter *transmitter)
{
    if (transmitter->latency == NULL)
        return true;
    lli_latency_waits(transmitter);
    return transmitter->tx.history.next - transmitter->tx.sent >= transmitter->latency->batch;
}

void lli_transmitter_wait(struct llm_transmitter *transmitter)
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
        lli_transmitter_wait(transmitter);
        return;
    }
    ticks = lli_ticks();
    if (!(flags & LLM_SEND_NOW) && lli_transmitter_is_busy(transmitter, ticks))
        lli_transmitter_wait(transmitter);
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

LLI_OUT_OF_LINE bool lli_transmitter_make_room(struct llm_transmitter *transmitter)
{
    lli_seq busy = lli_tx_busy(&transmitter->tx);

    (void)lli_endpoint_send(transmitter, true, lli_ticks());
    if (lli_tx_busy(&transmitter->tx) > busy)
        return true;
    lli_watch_refused(transmitter);
    return false;
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
    return (lli_topic_is_assured(topic) && size > topic->assured->rule.bytes_max) ||
           (topic->cache != NULL && topic_is_overfull(topic, size));
}

/* Returns true if one more message of an assured topic may be unacknowledged. */
static bool transmitter_may_wait(const struct llm_topic *topic, size_t size)
{
    if (!lli_topic_is_assured(topic) || lli_ack_topic_allows(topic->assured, size))
        return true;
    topic->transmitter->tx.counters.send_blocked_unacknowledged++;
    return false;
}

/*
 * Sends packets that flow control or a rate limit no longer blocks. Returns true if another packet may be
 * begun.
 */
static LLI_OUT_OF_LINE bool transmitter_unblock(struct llm_transmitter *transmitter)
{
    (void)lli_endpoint_send(transmitter, false, lli_ticks());
    if (!lli_tx_is_blocked(&transmitter->tx))
        return true;
    lli_watch_refused(transmitter);
    return false;
}

/* Returns true if another packet may be begun: flow control may block too many already. */
static inline bool transmitter_may_open(struct llm_transmitter *transmitter)
{
    return !lli_tx_is_blocked(&transmitter->tx) || transmitter_unblock(transmitter);
}

/* Begins a packet. False: flow control blocks it, or the history has no room. */
static LLI_INLINE bool transmitter_open_packet(struct llm_transmitter *transmitter)
{
    struct lli_tx *tx = &transmitter->tx;

    if (!transmitter_may_open(transmitter))
        return false;
    while (!lli_pack_open(&tx->pack, lli_tx_busy(tx)))
        if (!lli_transmitter_make_room(transmitter))
            return false;
    return true;
}

/*
 * Packs a message into as many packets as it takes, and returns the number of the first. False, with nothing
 * packed: flow control blocks it, or the history has no room.
 */
static LLI_INLINE bool topic_pack(struct llm_topic *topic, const struct iovec *pieces, size_t size,
                                  lli_seq *first)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    struct lli_tx *tx = &transmitter->tx;

    if (!transmitter_may_open(transmitter))
        return false;
    *first = tx->history.next;
    while (!lli_pack_message(&tx->pack, &topic->pack, pieces, (uint32_t)size, lli_tx_busy(tx))) {
        if (!lli_transmitter_make_room(transmitter))
            return false;
        *first = tx->history.next;
    }
    return true;
}

static inline void topic_count(struct llm_topic *topic, size_t size)
{
    topic->count.messages++;
    topic->count.bytes += size;
}

/*
 * Accounts for a message of an assured, rate-limited or counted topic, packed in this packet or a later one.
 */
static void topic_account(struct llm_topic *topic, lli_seq seq, size_t size)
{
    if (lli_topic_is_assured(topic))
        lli_tx_assured(&topic->transmitter->tx, topic->assured, seq, size);
    if (topic->rated)
        (void)lli_pacer_take(&topic->rate, size);
    topic_count(topic, size);
}

/* Returns the reason to refuse a message in every state of the topic; LLM_OK: there is none. */
static inline int topic_check(const struct llm_topic *topic, size_t size, unsigned flags)
{
    if (flags > LLI_SEND_FLAGS)
        return lli_refuse_flags(topic, flags);
    return size > topic->transmitter->message_bytes_max ? lli_refuse_size(topic, size) : LLM_OK;
}

/* ---------------------------------------------------------------------------------------------- routes */

/* Sends the packet of a single message from its place in the history. */
static LLI_OUT_OF_LINE void send_single_from_history(struct llm_topic *topic, const void *data, size_t size,
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
static inline void send_single_from_slot(struct llm_topic *topic, const void *data, size_t size,
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
 * Likewise from its place in the history, protected there. False, with nothing changed: no epoch of the keys is valid, or
 * packets are signed, or go to several destinations.
 */
static LLI_OUT_OF_LINE bool send_single_protected(struct llm_topic *topic, const void *data, size_t size,
                                                  uint64_t ticks)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_endpoint *endpoint = transmitter->endpoint;
    const struct lli_pack *pack = &transmitter->tx.pack;
    struct lli_out out = {.data = pack->prepared, .to = transmitter->group};
    uint32_t bytes;

    if (transmitter->protection == NULL || transmitter->destinations != NULL || transmitter->sealer != NULL)
        return false;
    bytes = lli_pack_single(pack, pack->prepared, &topic->pack, data, size);
    out.size = lli_protection_single(transmitter, bytes);
    if (out.size == 0)
        return false;
    lli_endpoint_sent_protected(transmitter, bytes, out.size,
                                endpoint->transport->post(endpoint->instance, &out, 1) == 1, ticks);
    return true;
}

/*
 * Sends a message in a packet of its own if no packet waits, no limit blocks it, and the transport is idle;
 * the history is updated after the packet was posted. False, with nothing changed, otherwise.
 */
static inline bool send_single(struct llm_topic *topic, const void *data, size_t size, unsigned flags)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_tx *tx = &transmitter->tx;
    uint64_t ticks;

    if (flags & ~(unsigned)LLM_SEND_NOW || !transmitter_may_leave(transmitter, flags) ||
        !lli_pack_may_be_single(&tx->pack, size) || tx->sent != tx->history.next ||
        tx->sent >= tx->flow.limit || lli_tx_is_paced(tx) || transmitter->endpoint->stuck)
        return false;
    ticks = lli_ticks();
    if (!(flags & LLM_SEND_NOW) && lli_transmitter_is_busy(transmitter, ticks))
        return false;
    if (transmitter->posted_max == 0)
        return send_single_protected(topic, data, size, ticks);
    if (size <= transmitter->slot_max)
        send_single_from_slot(topic, data, size, ticks);
    else
        send_single_from_history(topic, data, size, ticks);
    return true;
}

/* Packs a message into the open packet, or into as many as it takes. */
static LLI_INLINE int send_packed(struct llm_topic *topic, const struct iovec *pieces, int count, size_t size,
                                  unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const int error = topic_check(topic, size, flags);
    bool tried = flags == LLM_SEND_MORE; /* llm_send() tried to pack it in place */
    lli_seq first;

    if (error != LLM_OK)
        return error;
    if (transmitter->tx.pack.packet == NULL) {
        if (!transmitter_open_packet(transmitter))
            return LLM_EAGAIN;
        tried = false;
    }
    if (tried || count != 1 || size == 0 ||
        !lli_pack_in_place(&transmitter->tx.pack, &topic->pack, pieces->iov_base, size))
        if (!topic_pack(topic, pieces, size, &first))
            return LLM_EAGAIN;
    transmitter_packed(transmitter, flags);
    return LLM_OK;
}

/* Returns the reason for which a message of such a topic was not taken: a primary may have been fenced just now. */
static LLI_OUT_OF_LINE int topic_blocked(struct llm_topic *topic)
{
    return topic->transmitter->claimed == topic->transmitter
               ? lli_refuse_claimed(topic->transmitter, topic->name)
               : LLM_EAGAIN;
}

/* Packs a message of an assured, rate-limited or cached topic. */
static LLI_OUT_OF_LINE int send_checked(struct llm_topic *topic, const struct iovec *pieces, size_t size,
                                        unsigned flags)
{
    struct lli_tx *tx = &topic->transmitter->tx;
    /* The packer consumes the attributes when it packs. */
    const struct lli_pack_attributes *attributes = tx->pack.attributes;
    const int error = topic_check(topic, size, flags);
    lli_seq first;

    if (error != LLM_OK)
        return error;
    if (topic_is_exceeded(topic, size))
        return lli_refuse_size(topic, size);
    if (!lli_topic_may_send(topic) || !transmitter_may_wait(topic, size) ||
        !topic_pack(topic, pieces, size, &first))
        return topic_blocked(topic);
    topic_account(topic, first, size);
    if (topic->cache != NULL)
        lli_tx_lvc_add(tx, topic->cache, attributes, pieces, (uint32_t)size);
    transmitter_packed(topic->transmitter, flags);
    return LLM_OK;
}

/* Prefetches the transport's slot for writing: its cache lines are with the readers of its last packet. */
static inline void transmitter_fetch_slot(const struct llm_transmitter *transmitter)
{
    enum { LINE = 64 };

    if (transmitter->slot == NULL)
        return;
    lli_prefetch_write(*transmitter->slot);
    lli_prefetch_write(*transmitter->slot + LINE);
}

/* Sends a message by the route of its topic. */
static LLI_INLINE int send_by_route(struct llm_topic *topic, const struct iovec *pieces, int count,
                                    size_t size, unsigned flags)
{
    int error = LLM_OK;

    if (topic->transmitter->claimed != NULL)
        return lli_refuse_claimed(topic->transmitter, topic->name);
    switch (topic->route) {
    case LLI_ROUTE_PLAIN:
    case LLI_ROUTE_COUNTED:
        if (count != 1 || !send_single(topic, pieces->iov_base, size, flags))
            error = send_packed(topic, pieces, count, size, flags);
        if (topic->route == LLI_ROUTE_COUNTED && error == LLM_OK)
            topic_count(topic, size);
        return error;
    case LLI_ROUTE_CHECKED:
        break;
    }
    return send_checked(topic, pieces, size, flags);
}

/* Sends checked pieces, of size bytes in total. */
static LLI_INLINE int topic_send(struct llm_topic *topic, const struct iovec *pieces, int count, size_t size,
                                 unsigned flags)
{
    int error;

    if (!lli_context_enter(topic->transmitter->context))
        return LLM_ESTATE;
    transmitter_fetch_slot(topic->transmitter);
    error = send_by_route(topic, pieces, count, size, flags);
    lli_context_leave(topic->transmitter->context);
    return error;
}

/*
 * Returns true if a message may be packed in place: more messages follow, and no other thread can change the
 * state that packing reads. These conditions come first: without the lock nothing else may be read.
 */
static inline bool topic_may_be_in_place(const struct llm_topic *topic, const void *data, unsigned flags)
{
    const struct llm_context *context = topic->transmitter->context;

    return flags == LLM_SEND_MORE && data != NULL && !lli_context_is_threaded(context) &&
           !context->in_handler;
}

/* Sends a message that did not go in place. Out of line, so that one in place needs no stack. */
static LLI_OUT_OF_LINE int topic_send_one(struct llm_topic *topic, const void *data, size_t size,
                                          unsigned flags)
{
    const struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};

    return topic_send(topic, &piece, 1, size, flags);
}

/* Sends a message of a counted topic in place, if it may be. */
static LLI_OUT_OF_LINE int topic_send_counted(struct llm_topic *topic, const void *data, size_t size)
{
    struct llm_transmitter *transmitter = topic->transmitter;

    if (transmitter->claimed != NULL || !lli_pack_in_place(&transmitter->tx.pack, &topic->pack, data, size))
        return topic_send_one(topic, data, size, LLM_SEND_MORE);
    topic_count(topic, size);
    return LLM_OK;
}

/*
 * Common case, inline: the open packet has room and continues the same topic. The packet became due when it
 * was begun, so nothing else is left to do.
 */
int llm_send(struct llm_topic *topic, const void *data, size_t size, unsigned flags)
{
    if (topic == NULL || (data == NULL && size > 0))
        return topic == NULL ? LLM_EINVAL : lli_refuse_data(topic, size);
    if (topic_may_be_in_place(topic, data, flags)) {
        if (topic->route == LLI_ROUTE_PLAIN && topic->transmitter->claimed == NULL &&
            lli_pack_in_place(&topic->transmitter->tx.pack, &topic->pack, data, size))
            return LLM_OK;
        if (topic->route == LLI_ROUTE_COUNTED)
            return topic_send_counted(topic, data, size);
    }
    return topic_send_one(topic, data, size, flags);
}

/* Handles pieces that are invalid, or may be: some are at NULL. */
static LLI_COLD LLI_OUT_OF_LINE int topic_send_odd(struct llm_topic *topic, const struct iovec *pieces,
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
    return topic_send(topic, pieces, count, size, flags);
}

int llm_sendv(struct llm_topic *topic, const struct iovec *pieces, int count, unsigned flags)
{
    size_t size = 0;

    if (topic == NULL || count < 0 || (pieces == NULL && count > 0))
        return topic_send_odd(topic, pieces, count, flags);
    for (int i = 0; i < count; i++) {
        if (pieces[i].iov_len > SIZE_MAX - size || pieces[i].iov_base == NULL)
            return topic_send_odd(topic, pieces, count, flags);
        size += pieces[i].iov_len;
    }
    return topic_send(topic, pieces, count, size, flags);
}

static LLI_COLD int topic_refuse_claim(const struct llm_topic *topic, size_t size)
{
    return lli_refuse(
        topic->transmitter->context, LLM_EMSGSIZE,
        "topic \"%s\": a claim of %zu bytes: llm_transmitter_claim_max() is %zu: use llm_send() for "
        "more",
        topic->name, size, llm_transmitter_claim_max(topic->transmitter));
}

/* Returns LLM_OK if a message of an assured, rate-limited or cached topic may be claimed. */
static LLI_OUT_OF_LINE int topic_check_claim(struct llm_topic *topic, size_t size)
{
    if (topic_is_exceeded(topic, size))
        return lli_refuse_size(topic, size);
    return lli_topic_may_send(topic) && transmitter_may_wait(topic, size) ? LLM_OK : topic_blocked(topic);
}

/* Returns LLM_OK if a claim of this size may be made. */
static inline int topic_may_claim(struct llm_topic *topic, size_t size)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    int error = LLM_OK;

    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(transmitter, topic->name);
    if (size > transmitter->tx.pack.claim_max)
        return topic_refuse_claim(topic, size);
    if (topic->route == LLI_ROUTE_CHECKED)
        error = topic_check_claim(topic, size);
    return error != LLM_OK || transmitter_may_open(transmitter) ? error : LLM_EAGAIN;
}

static inline uint8_t *topic_reserve(struct llm_topic *topic, size_t size)
{
    struct lli_tx *tx = &topic->transmitter->tx;

    return lli_pack_claim(&tx->pack, &topic->pack, (uint32_t)size, lli_tx_busy(tx));
}

/* Repeats a reservation as the full history gets room. NULL: it gets none. */
static LLI_OUT_OF_LINE uint8_t *topic_reserve_late(struct llm_topic *topic, size_t size)
{
    uint8_t *bytes = NULL;

    while (bytes == NULL && lli_transmitter_make_room(topic->transmitter))
        bytes = topic_reserve(topic, size);
    return bytes;
}

static inline int topic_claim(struct llm_topic *topic, size_t size, void **data)
{
    uint8_t *bytes = topic_reserve(topic, size);

    if (bytes == NULL)
        bytes = topic_reserve_late(topic, size);
    if (bytes == NULL)
        return LLM_EAGAIN;
    topic->transmitter->claimed = topic;
    *data = bytes;
    return LLM_OK;
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
    int error;

    if (topic == NULL || data == NULL)
        return topic == NULL ? LLM_EINVAL
                             : lli_refuse(topic->transmitter->context, LLM_EINVAL,
                                          "topic \"%s\": llm_topic_claim: data is NULL: it has to be given",
                                          topic->name);
    transmitter = topic->transmitter;
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    error = topic_may_claim(topic, size);
    if (error == LLM_OK)
        error = topic_claim(topic, size, data);
    if (lli_context_is_threaded(transmitter->context))
        transmitter_claimed(transmitter, error);
    return error;
}

static LLI_COLD int topic_refuse_commit(const struct llm_topic *topic, size_t size, unsigned flags)
{
    if (flags > LLI_SEND_FLAGS)
        return lli_refuse_flags(topic, flags);
    return lli_refuse(topic->transmitter->context, LLM_EINVAL,
                      "topic \"%s\": commit of %zu bytes: %u were claimed: commit no more", topic->name, size,
                      topic->transmitter->tx.pack.claim_size);
}

/* Accounts for a committed message, which is in the open packet. */
static LLI_OUT_OF_LINE void topic_account_claim(struct llm_topic *topic, size_t size)
{
    struct lli_tx *tx = &topic->transmitter->tx;
    const struct iovec piece = {.iov_base = tx->pack.at - size, .iov_len = size};

    topic_account(topic, tx->history.next, size);
    if (topic->cache != NULL)
        lli_tx_lvc_add(tx, topic->cache, NULL, &piece, (uint32_t)size);
}

static inline void topic_commit(struct llm_topic *topic, size_t size)
{
    lli_pack_commit(&topic->transmitter->tx.pack, (uint32_t)size);
    topic->transmitter->claimed = NULL;
}

/* The lease of a primary may have expired since the claim. */
static LLI_OUT_OF_LINE int topic_commit_checked(struct llm_topic *topic, size_t size)
{
    struct llm_transmitter *transmitter = topic->transmitter;

    if (transmitter->failover != NULL && !lli_transmitter_is_leased(transmitter, lli_clock_ns())) {
        lli_pack_abort(&transmitter->tx.pack);
        return lli_refuse_claimed(transmitter, topic->name);
    }
    topic_commit(topic, size);
    topic_account_claim(topic, size);
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
        error = lli_refuse_unclaimed(topic);
    } else if (flags > LLI_SEND_FLAGS || size > transmitter->tx.pack.claim_size) {
        error = topic_refuse_commit(topic, size, flags);
    } else {
        if (topic->route == LLI_ROUTE_PLAIN)
            topic_commit(topic, size);
        else
            error = topic_commit_checked(topic, size);
        if (error == LLM_OK)
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
    if (transmitter->claimed == topic) {
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
