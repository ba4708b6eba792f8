/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores: asks them for what the transmitter no longer has, for a join or to repair a gap, or for what it
 * cannot send any more because it died (docs/protocol.md section 12.5). The window, the order and the
 * delivery of packets are the same whoever sent them; and the transmitter alone decides what is gone.
 */
#include "core/rx/rx_internal.h"
#include "core/wire/token.h"

/* RECALLs to a store without an answer before the next store is asked. */
enum { STORE_TRIES = 3 };

/* A recalled packet that is late by this many mean distances is requested again. */
enum { STORE_PATIENCE = 4 };

/* SEEKs within store_wait: the first distance is this part of it. */
enum { STORE_SEEK_PART = 16 };

/* A store is forgotten when this many OFFERs to the group did not come. */
enum { STORE_ADVERTS_MISSED = 5 };

/* A store may have to read from a disk. */
#define STORE_RETRY_MIN ((lli_ns)5000000)
/* Distance of requests for packets that may be recorded yet. */
#define STORE_LATER ((lli_ns)10000000)
/* Bounds on the distance of OFFERs to the group, and that of a store that answered. */
#define STORE_ADVERT_MIN ((lli_ns)100000000)
#define STORE_ADVERT_MAX ((lli_ns)10000000000)
#define STORE_ADVERT ((lli_ns)1000000000)

/* Packets sent at once to addresses of stores that have not answered; later ones at doubling distances. */
enum { STORE_UNANSWERED = 4 };
/* Bytes for each OFFER of a store that has not answered: three times the shortest one. */
enum { STORE_ALLOWANCE = 3 * (LLI_WIRE_HEADER + 74), STORE_ALLOWANCE_MAX = 1 << 16 };
#define STORE_UNANSWERED_DISTANCE ((lli_ns)5000000)
#define STORE_UNANSWERED_DISTANCE_MAX ((lli_ns)1000000000)

void lli_rx_store_start(struct lli_rx *rx)
{
    struct lli_rx_known_store *known = rx->store.known;

    rx->store = (struct lli_rx_store){.seek_at = LLI_NEVER, .seek_until = LLI_NEVER, .known = known};
    memset(known, 0, LLI_RX_STORES * sizeof *known);
}

/*
 * Identity of the receiver for stores: SEEK goes to the group, where the one that the transmitter knows must
 * not be (section 7.2).
 */
static uint64_t store_identity(const struct lli_rx *rx)
{
    const struct lli_token_key key = {{rx->config->receiver, rx->session}};
    const struct lli_wire_address nowhere = {.size = 0};

    return lli_token(&key, 0, &nowhere);
}

/* ------------------------------------------------------------------------------------------ what they have */

static bool store_is_known(const struct lli_rx_known_store *known)
{
    return known->address.size > 0;
}

/* True if a store offered a packet, or may record it yet. */
static bool store_covers(const struct lli_rx *rx, const struct lli_rx_known_store *known, lli_seq seq)
{
    /* After the session nothing is recorded any more. */
    const bool later = !known->ended && rx->loss.end_reason == LLM_REASON_NONE;

    return store_is_known(known) && seq >= known->first && (seq < known->end || later);
}

/* True if a store did not say that it lacks a missing packet of the window. */
static bool store_may_have(const struct lli_rx *rx, uint32_t store, lli_seq seq)
{
    const struct lli_gap_slot *slot = &rx->gap.slots[seq & rx->gap.mask];

    return store_covers(rx, &rx->store.known[store], seq) && !(slot->absent >> store & 1);
}

lli_seq lli_rx_store_ahead(const struct lli_rx *rx, lli_seq from, lli_seq end)
{
    for (uint32_t i = 0; i < LLI_RX_STORES && rx->store.count > 0; i++)
        if (store_covers(rx, &rx->store.known[i], lli_max(from, rx->store.known[i].first)))
            end = lli_min(end, lli_max(from, rx->store.known[i].first));
    return end;
}

bool lli_rx_is_recalling(const struct lli_rx *rx)
{
    const struct lli_gap *gap = &rx->gap;
    const bool gone = gap->next < rx->loss.gone_below, ended = rx->loss.end_reason == LLM_REASON_TIMEOUT;

    if (rx->store.count == 0 || rx->state != LLI_RX_LIVE || gap->next >= gap->end ||
        lli_gap_is_present(gap, gap->next) || gap->slots[gap->next & gap->mask].unrepaired ||
        !(gone || ended || rx->heard.silent) || (rx->loss.end_reason != LLM_REASON_NONE && !ended))
        return false;
    for (uint32_t i = 0; i < LLI_RX_STORES; i++)
        if (store_may_have(rx, i, gap->next))
            return true;
    return false;
}

/* ---------------------------------------------------------------------------------------- which there are */

static void store_forget(struct lli_rx *rx, uint32_t store)
{
    rx->store.known[store].address.size = 0;
    rx->store.count--;
    if (store == rx->store.at)
        rx->store.recalling = 0;
}

static void store_expire(struct lli_rx *rx, lli_ns now)
{
    for (uint32_t i = 0; i < LLI_RX_STORES && rx->store.count > 0; i++)
        if (store_is_known(&rx->store.known[i]) && now >= rx->store.known[i].expires_at)
            store_forget(rx, i);
}

static bool store_is_at(const struct lli_rx_known_store *known, const struct lli_wire_address *address)
{
    return store_is_known(known) && lli_wire_is_address(&known->address, address);
}

/*
 * Returns the place of the store that sent a packet, a new one if it is not known; LLI_RX_STORES: there is
 * none. One that answered takes the place of one that did not.
 */
static uint32_t store_place(struct lli_rx *rx, const struct lli_wire_join *join)
{
    struct lli_rx_store *store = &rx->store;
    uint32_t place = LLI_RX_STORES;

    for (uint32_t i = 0; i < LLI_RX_STORES; i++) {
        if (store_is_at(&store->known[i], &join->address))
            return i;
        if (place == LLI_RX_STORES && !store_is_known(&store->known[i]))
            place = i;
    }
    for (uint32_t i = 0; i < LLI_RX_STORES && place == LLI_RX_STORES && join->receiver != 0; i++)
        if (store->known[i].token == 0) {
            store_forget(rx, i);
            place = i;
        }
    if (place == LLI_RX_STORES)
        return place;
    store->known[place] =
        (struct lli_rx_known_store){.address = join->address, .first = join->packet, .end = join->lead};
    store->count++;
    lli_gap_not_absent(&rx->gap, (uint8_t)(1u << place));
    return place;
}

/*
 * Notes what a store has. What it sends to the group only adds to that: the store answers ABSENT for the rest. An
 * OFFER of a position does not say what is before it.
 */
static void store_note(struct lli_rx *rx, struct lli_rx_known_store *known, const struct lli_wire_join *join,
                       lli_ns now)
{
    const bool positioned = join->kind == LLI_WIRE_JOIN_OFFER && join->from != 0;
    lli_ns distance = STORE_ADVERT;

    if (join->receiver == 0) {
        known->allowance = (uint32_t)lli_min(known->allowance + STORE_ALLOWANCE, STORE_ALLOWANCE_MAX);
        known->first = lli_min(known->first, join->packet);
        known->end = lli_max(known->end, join->lead);
        distance = lli_min(lli_max(join->value, STORE_ADVERT_MIN), STORE_ADVERT_MAX);
    } else {
        known->first = positioned ? lli_min(known->first, join->packet) : join->packet;
        known->end = join->lead;
        known->ended = join->reason == LLI_WIRE_JOIN_ENDED;
        known->token = join->token;
        rx->store.unanswered = 0;
        rx->store.speak_at = 0;
    }
    known->expires_at = lli_max(known->expires_at, now + STORE_ADVERTS_MISSED * distance);
}

/* -------------------------------------------------------------------------------------------------- join */

static struct lli_rx_offer store_offer(const struct lli_wire_join *join)
{
    return (struct lli_rx_offer){.kind = join->kind,
                                 .reason = join->reason,
                                 .topics = join->topics,
                                 .packet = join->packet,
                                 .number = join->number,
                                 .wanted = join->wanted,
                                 .lead = join->lead};
}

bool lli_rx_store_seek(struct lli_rx *rx, const struct lli_wire_join *answer, lli_ns now)
{
    const enum llm_join_mode mode = rx->join.position.mode;
    const bool refused = answer->kind == LLI_WIRE_JOIN_REFUSE && answer->reason == LLI_WIRE_JOIN_HISTORY,
               partly = answer->kind == LLI_WIRE_JOIN_GRANT && mode == LLM_JOIN_OLDEST &&
                        answer->packet > rx->heartbeat.start;

    if (!rx->config->stores || mode == LLM_JOIN_LATEST || !(refused || partly))
        return false;
    rx->store.seeking = true;
    rx->store.seeks = 0;
    rx->store.answer = store_offer(answer);
    rx->store.offer.kind = 0;
    rx->store.seek_at = now;
    rx->store.seek_until = now + rx->config->store_wait;
    rx->join.request_at = rx->join.request_until = LLI_NEVER;
    return true;
}

/* Position to seek: stores count messages back from their own end, so the transmitter's number is used. */
static struct llm_join store_position(const struct lli_rx *rx)
{
    if (rx->join.position.mode == LLM_JOIN_MESSAGES)
        return (struct llm_join){.mode = LLM_JOIN_NUMBER, .value = rx->store.answer.wanted};
    return rx->join.position;
}

static void store_sought(struct lli_rx *rx, lli_ns now)
{
    rx->store.seeking = false;
    rx->store.seek_at = rx->store.seek_until = LLI_NEVER;
    lli_rx_join_sought(rx, now);
}

/* Takes an OFFER while a join waits for one. */
static void store_take_offer(struct lli_rx *rx, const struct lli_wire_join *join, lli_ns now)
{
    const struct llm_join position = store_position(rx);
    const struct lli_rx_offer *answer = &rx->store.answer;
    const lli_seq before = answer->kind == LLI_WIRE_JOIN_GRANT ? answer->packet : answer->lead;

    if (join->receiver == 0 || join->from != position.mode || join->value != position.value ||
        join->packet < rx->heartbeat.start || join->packet >= lli_min(before, rx->heartbeat.lead) ||
        join->number > rx->heartbeat.messages ||
        (position.mode == LLM_JOIN_NUMBER && join->number != position.value))
        return;
    if (rx->store.offer.kind == 0 || join->packet < rx->store.offer.packet)
        rx->store.offer = store_offer(join);
    if (position.mode != LLM_JOIN_OLDEST || join->packet == rx->heartbeat.start)
        store_sought(rx, now);
}

/*
 * Takes an ABSENT while a join waits for OFFERs: the refusal that may follow names the oldest message that anyone has.
 */
static void store_take_absent(struct lli_rx *rx, const struct lli_wire_join *join)
{
    const struct llm_join position = store_position(rx);
    struct lli_rx_offer *answer = &rx->store.answer;

    if (answer->kind == LLI_WIRE_JOIN_REFUSE && join->reason == LLI_WIRE_JOIN_HISTORY &&
        join->from == position.mode && join->value == position.value)
        answer->number = lli_min(answer->number, join->number);
}

static bool store_control_seek(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    const struct llm_join position = store_position(rx);
    const struct lli_wire_join join = {
        .session = rx->session,
        .receiver = store_identity(rx),
        .kind = LLI_WIRE_JOIN_SEEK,
        .from = (uint8_t)position.mode,
        .value = position.value,
        .address = rx->config->address,
    };

    if (now >= rx->store.seek_until) {
        store_sought(rx, now);
        return false;
    }
    if (now < rx->store.seek_at)
        return false;
    rx->store.seek_at = now + (lli_max(rx->config->store_wait / STORE_SEEK_PART, rx->config->nak_retry_min)
                               << lli_min(rx->store.seeks, STORE_SEEK_PART));
    rx->store.seeks++;
    rx->counters->stores_sought++;
    *packet =
        (struct lli_packet){.data = buffer, .size = (uint32_t)lli_wire_put_join(buffer, &join), .to = NULL};
    return true;
}

/* ----------------------------------------------------------------------------------------------- answers */

/* Packets of the ranges are not in the recording. */
static void store_absent(struct lli_rx *rx, uint32_t place, const struct lli_wire_join *join)
{
    for (uint16_t i = 0; i < join->count; i++) {
        const lli_seq first = lli_seq_extend(rx->gap.next, join->ranges[i].first);

        (void)lli_gap_absent(&rx->gap, first, lli_min(first + join->ranges[i].count, join->lead),
                             (uint8_t)(1u << place), 0);
    }
}

/* Asks again when everything that is still to come of the latest request came, or is not there. */
static void store_answered(struct lli_rx *rx, uint32_t place, lli_ns now)
{
    struct lli_rx_store *store = &rx->store;
    const struct lli_rx_known_store *known = &store->known[place];
    const lli_seq end = lli_min(store->recalled, known->end);

    if (place != store->at)
        return;
    store->tries = 0;
    store->recalling = (uint32_t)lli_gap_absent(&rx->gap, 0, 0, (uint8_t)(1u << place), end);
    if (store->recalling > 0)
        return;
    if (rx->gap.next < known->end) {
        store->recall_at = now;
        return;
    }
    /* The packet may be recorded yet. */
    store->recall_at = now + lli_min(STORE_LATER << lli_min(store->waits, 8), LLI_RX_JOIN_RETRY_MAX);
    store->waits = (uint8_t)lli_min(store->waits + 1u, UINT8_MAX);
}

void lli_rx_input_store(struct lli_rx *rx, const struct lli_wire_join *join, lli_ns now)
{
    const bool unasked = join->kind == LLI_WIRE_JOIN_OFFER && join->receiver == 0;
    bool confirms;
    uint32_t place;

    if (!rx->config->stores || !lli_rx_is_followed(rx) || join->address.size == 0 ||
        (!unasked && join->receiver != store_identity(rx)))
        return;
    place = store_place(rx, join);
    if (place == LLI_RX_STORES)
        return;
    confirms = !unasked && rx->store.known[place].token != join->token;
    store_note(rx, &rx->store.known[place], join, now);
    if (rx->state == LLI_RX_REQUESTING) {
        if (rx->store.seeking && join->kind == LLI_WIRE_JOIN_OFFER)
            store_take_offer(rx, join, now);
        else if (rx->store.seeking)
            store_take_absent(rx, join);
        return;
    }
    if (join->kind == LLI_WIRE_JOIN_ABSENT && join->from == 0) {
        store_absent(rx, place, join);
        store_answered(rx, place, now);
    } else if (confirms && place == rx->store.at) {
        /* Requests sent without the token had no effect. */
        rx->store.tries = 0;
        rx->store.recall_at = now;
    }
    if (rx->heard.silent)
        lli_rx_store_extend(rx, now);
}

/* ------------------------------------------------------------------------------------------------ recall */

void lli_rx_store_extend(struct lli_rx *rx, lli_ns now)
{
    lli_seq end = lli_max(rx->heartbeat.lead, rx->heard.lead_before);

    for (uint32_t i = 0; i < LLI_RX_STORES; i++)
        if (store_is_known(&rx->store.known[i]))
            end = lli_max(end, rx->store.known[i].end);
    lli_gap_extend(&rx->gap, end, now, now + rx->config->nak_retry_max);
    lli_gap_retract(&rx->gap, end);
}

/* Time after which a request is repeated. */
static lli_ns store_retry(const struct lli_rx *rx)
{
    const lli_ns least =
        lli_max(STORE_RETRY_MIN, lli_rx_request_time(rx)) + STORE_PATIENCE * rx->store.distance;

    return lli_min(least << lli_min(rx->store.tries, 16), lli_max(least, LLI_RX_JOIN_RETRY_MAX));
}

bool lli_rx_recalled(struct lli_rx *rx, lli_seq seq, lli_ns now)
{
    struct lli_rx_store *store = &rx->store;
    struct lli_rx_known_store *known = &store->known[store->at];
    lli_ns distance;

    if (store->recalling == 0 || seq >= store->recalled)
        return false;
    distance = lli_min(now - store->latest, LLI_RX_JOIN_RETRY_MAX);
    store->distance = store->distance == 0 ? distance : (store->distance * 7 + distance) / 8;
    store->latest = now;
    store->tries = store->waits = 0;
    known->expires_at = lli_max(known->expires_at, now + STORE_ADVERTS_MISSED * STORE_ADVERT);
    rx->counters->packets_from_stores++;
    if (--store->recalling == 0)
        store->recall_at = now;
    else if (seq + 1 == store->recalled)
        /* Last packet of the request: missing ones of the others may just have been overtaken by it. */
        store->recall_at = now + rx->config->nak_retry_min;
    else
        store->recall_at = now + store_retry(rx);
    return true;
}

/*
 * Chooses the store to ask for the missing packet next in order: one that offered it rather than one that may
 * record it yet, and the one asked before if it answers.
 */
static uint32_t store_choose(const struct lli_rx *rx)
{
    const uint32_t from = rx->store.at + (rx->store.tries >= STORE_TRIES ? 1u : 0u);
    uint32_t chosen = LLI_RX_STORES;

    for (uint32_t i = 0; i < LLI_RX_STORES; i++) {
        const uint32_t place = (from + i) % LLI_RX_STORES;

        if (!store_may_have(rx, place, rx->gap.next))
            continue;
        if (rx->gap.next < rx->store.known[place].end)
            return place;
        if (chosen == LLI_RX_STORES)
            chosen = place;
    }
    return chosen;
}

/*
 * Limits packets to an address that has not answered. False: this one must not be sent, as what came from there does
 * not permit that many bytes.
 */
static bool store_may_speak(struct lli_rx *rx, struct lli_rx_known_store *known, uint32_t size, lli_ns now)
{
    if (known->token != 0)
        return true;
    if (++rx->store.unanswered >= STORE_UNANSWERED)
        rx->store.speak_at =
            now + lli_min(STORE_UNANSWERED_DISTANCE << lli_min(rx->store.unanswered - STORE_UNANSWERED, 16),
                          STORE_UNANSWERED_DISTANCE_MAX);
    if (size > known->allowance) {
        rx->store.speak_at = lli_max(rx->store.speak_at, now + STORE_UNANSWERED_DISTANCE);
        rx->counters->packets_withheld++;
        return false;
    }
    known->allowance -= size;
    return true;
}

static bool store_control_recall(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    const struct lli_reorder *reorder = rx->buffer.reorder;
    struct lli_rx_store *store = &rx->store;
    const uint32_t place = store_choose(rx);
    struct lli_rx_known_store *known = &store->known[place];
    const uint64_t most =
        lli_min(LLI_WIRE_FETCH_PACKETS, lli_reorder_packets(reorder, reorder->count / 2) + rx->nak.excess);
    const bool all = rx->heard.silent || rx->loss.end_reason != LLM_REASON_NONE;
    struct lli_wire_join join = {
        .session = rx->session,
        .receiver = store_identity(rx),
        .kind = LLI_WIRE_JOIN_RECALL,
        .address = rx->config->address,
        .token = known->token,
    };

    if (place != store->at)
        store->tries = 0;
    store->at = (uint8_t)place;
    join.count = (uint16_t)lli_gap_list(
        &rx->gap, lli_min(all ? rx->gap.end : rx->loss.gone_below, known->ended ? known->end : UINT64_MAX),
        most, (uint8_t)(1u << place), join.ranges,
        known->token != 0 ? LLI_WIRE_FETCH_MAX : LLI_RX_RANGES_UNANSWERED, &store->recalled);
    store->recalling = 0;
    for (uint16_t i = 0; i < join.count; i++)
        store->recalling += join.ranges[i].count;
    store->recall_at = now + store_retry(rx);
    store->tries = (uint8_t)lli_min(store->tries + 1u, UINT8_MAX);
    *packet = (struct lli_packet){
        .data = buffer, .size = (uint32_t)lli_wire_put_join(buffer, &join), .to = &known->address};
    if (!store_may_speak(rx, known, packet->size, now))
        return false;
    rx->counters->recalls_sent++;
    return true;
}

/* Nothing came for so long: what is missing is lost, and others do not wait for these stores again. */
static void store_give_up(struct lli_rx *rx, lli_ns now)
{
    for (uint32_t i = 0; i < LLI_RX_STORES; i++)
        if (store_is_known(&rx->store.known[i]))
            store_forget(rx, i);
    if (rx->heard.silent)
        lli_rx_store_extend(rx, now);
    if (lli_rx_is_replaying(rx))
        lli_rx_request_start(rx, now);
}

/* Starts or stops recalling, as the missing packet next in order requires. */
static bool store_is_active(struct lli_rx *rx, lli_ns now)
{
    const bool active = lli_rx_is_recalling(rx);

    if (active && !rx->store.active) {
        rx->store.latest = rx->store.recall_at = now;
        rx->store.distance = 0;
        rx->store.tries = rx->store.waits = 0;
    } else if (!active) {
        rx->store.recalling = 0;
    }
    return rx->store.active = active;
}

bool lli_rx_control_store(struct lli_rx *rx, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    if (rx->state == LLI_RX_REQUESTING)
        return rx->store.seeking && store_control_seek(rx, now, buffer, packet);
    if (rx->state != LLI_RX_LIVE || rx->store.count == 0)
        return false;
    store_expire(rx, now);
    if (rx->heard.silent)
        lli_rx_store_extend(rx, now);
    if (!store_is_active(rx, now))
        return false;
    if (now >= rx->store.latest + rx->config->nak_giveup) {
        store_give_up(rx, now);
        return false;
    }
    return now >= lli_max(rx->store.recall_at, rx->store.speak_at) &&
           store_control_recall(rx, now, buffer, packet);
}

lli_ns lli_rx_store_deadline(const struct lli_rx *rx)
{
    if (rx->store.seeking)
        return lli_min(rx->store.seek_at, rx->store.seek_until);
    if (!lli_rx_is_recalling(rx))
        return LLI_NEVER;
    if (!rx->store.active)
        return 0;
    return lli_min(lli_max(rx->store.recall_at, rx->store.speak_at),
                   rx->store.latest + rx->config->nak_giveup);
}
