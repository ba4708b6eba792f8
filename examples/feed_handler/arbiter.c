/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter.h"

#include <stdlib.h>
#include <string.h>

bool arbiter_init(struct arbiter *arbiter, uint32_t lines, uint64_t wait_ns)
{
    *arbiter = (struct arbiter){.lines = lines, .wait_ns = wait_ns, .gap_until = ARBITER_NEVER};
    arbiter->bytes = calloc(ARBITER_HELD, ARBITER_PACKET_MAX);
    return arbiter->bytes != NULL;
}

void arbiter_fini(struct arbiter *arbiter)
{
    free(arbiter->bytes);
    arbiter->bytes = NULL;
}

static bool session_is(const uint8_t *session, const struct mold_packet *packet)
{
    return memcmp(session, packet->session, MOLD_SESSION_BYTES) == 0;
}

static uint64_t packet_end(const struct mold_packet *packet)
{
    return packet->sequence + packet->count;
}

/* ------------------------------------------------------------------------------------------------- packets held */

/* Holds a copy of a packet. False: too many are held. */
static bool hold(struct arbiter *arbiter, uint32_t line, const void *datagram, size_t size)
{
    for (uint32_t i = 0; i < ARBITER_HELD && size <= ARBITER_PACKET_MAX; i++) {
        struct arbiter_held *held = &arbiter->held[i];
        uint8_t *bytes = arbiter->bytes + (size_t)i * ARBITER_PACKET_MAX;

        if (held->size > 0)
            continue;
        memcpy(bytes, datagram, size);
        *held = (struct arbiter_held){.size = size, .line = line};
        arbiter->count++;
        return mold_packet_decode(&held->packet, bytes, size);
    }
    return false;
}

/* Returns the packet of the session with the lowest sequence; NULL: there is none. */
static struct arbiter_held *held_first(struct arbiter *arbiter)
{
    struct arbiter_held *first = NULL;

    for (uint32_t i = 0; i < ARBITER_HELD && arbiter->count > 0; i++) {
        struct arbiter_held *held = &arbiter->held[i];

        if (held->size > 0 && session_is(arbiter->stream.session, &held->packet) &&
            (first == NULL || held->packet.sequence < first->packet.sequence))
            first = held;
    }
    return first;
}

/* --------------------------------------------------------------------------------------------------- sessions */

static void line_saw(struct arbiter *arbiter, uint32_t line, const struct mold_packet *packet)
{
    if (arbiter->line[line].next < packet_end(packet))
        arbiter->line[line].next = packet_end(packet);
}

static void session_begin(struct arbiter *arbiter, const uint8_t *session)
{
    arbiter->has_former = arbiter->stream.joined;
    memcpy(arbiter->former, arbiter->stream.session, MOLD_SESSION_BYTES);
    arbiter->stream = (struct mold_stream){.joined = true, .next = 1};
    memcpy(arbiter->stream.session, session, MOLD_SESSION_BYTES);
    arbiter->session_new = true;
    arbiter->leaving = false;
    for (uint32_t i = 0; i < arbiter->lines; i++)
        arbiter->line[i].next = 0;
    for (uint32_t i = 0; i < ARBITER_HELD; i++)
        if (arbiter->held[i].size > 0)
            line_saw(arbiter, arbiter->held[i].line, &arbiter->held[i].packet);
}

/* All packets of the session have had their turn: those that are held are of the next one. */
static void session_leave(struct arbiter *arbiter, uint64_t now)
{
    arbiter->gap_until = now + arbiter->wait_ns;
    for (uint32_t i = 0; i < ARBITER_HELD; i++)
        if (arbiter->held[i].size > 0) {
            session_begin(arbiter, arbiter->held[i].packet.session);
            return;
        }
}

/* ------------------------------------------------------------------------------------------------------- turns */

/* Returns true if every line has sent something after the gap. */
static bool gap_is_passed(const struct arbiter *arbiter)
{
    for (uint32_t i = 0; i < arbiter->lines; i++)
        if (arbiter->line[i].next <= arbiter->stream.next)
            return false;
    return true;
}

static void turn_of(struct arbiter *arbiter, uint32_t line, const struct mold_packet *packet, uint64_t now,
                    struct arbiter_turn *turn)
{
    const struct arbiter_held *first;

    turn->packet = *packet;
    turn->step = mold_stream_take(&arbiter->stream, packet);
    turn->step.session_new = arbiter->session_new;
    arbiter->session_new = false;
    if (turn->step.seen_count < packet->count)
        arbiter->line[line].first++;
    else
        arbiter->line[line].second += packet->count > 0;
    first = held_first(arbiter);
    if (first != NULL && first->packet.sequence > arbiter->stream.next) {
        /* Another gap follows, or the same one with a part of it filled. */
        if (turn->step.seen_count < packet->count)
            arbiter->gap_until = now + arbiter->wait_ns;
        return;
    }
    arbiter->filled += arbiter->gap_until != ARBITER_NEVER && turn->step.lost_count == 0;
    arbiter->gap_until = ARBITER_NEVER;
}

bool arbiter_take(struct arbiter *arbiter, uint32_t line, const void *datagram, size_t size, uint64_t now,
                  struct arbiter_turn *turn)
{
    struct mold_packet packet;

    if (!mold_packet_decode(&packet, datagram, size)) {
        arbiter->bad++;
        return false;
    }
    if (arbiter->has_former && session_is(arbiter->former, &packet))
        return false;
    if (!arbiter->stream.joined)
        session_begin(arbiter, packet.session);
    if (session_is(arbiter->stream.session, &packet)) {
        line_saw(arbiter, line, &packet);
        if (packet.sequence <= arbiter->stream.next) {
            turn_of(arbiter, line, &packet, now, turn);
            return true;
        }
    } else {
        arbiter->leaving = true;
    }
    if (!hold(arbiter, line, datagram, size)) {
        /* Too much is held: what is missing is not waited for. The packet is lost like one of the network. */
        arbiter->gap_until = now;
        return false;
    }
    if (arbiter->gap_until == ARBITER_NEVER)
        arbiter->gap_until = now + arbiter->wait_ns;
    return false;
}

bool arbiter_next(struct arbiter *arbiter, uint64_t now, struct arbiter_turn *turn)
{
    struct arbiter_held *first = held_first(arbiter);

    if (first == NULL && arbiter->leaving) {
        session_leave(arbiter, now);
        first = held_first(arbiter);
    }
    if (first == NULL || (first->packet.sequence > arbiter->stream.next && !gap_is_passed(arbiter) &&
                          !arbiter->leaving && now < arbiter->gap_until))
        return false;
    /* The bytes stay until another packet is held. */
    first->size = 0;
    arbiter->count--;
    turn_of(arbiter, first->line, &first->packet, now, turn);
    return true;
}

uint64_t arbiter_deadline(const struct arbiter *arbiter)
{
    return arbiter->count > 0 ? arbiter->gap_until : ARBITER_NEVER;
}
