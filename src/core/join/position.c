/* SPDX-License-Identifier: Apache-2.0 */
#include "core/join/position.h"

#include <llm/llm.h>

/* This many packets hold less than 2^31 messages, so message numbers extend from one to the other. */
enum { POSITION_STRIDE = 16384 };

/*
 * While the history drops packets, the oldest 1 / POSITION_MARGIN of it is excluded: those packets would be
 * gone before they are fetched.
 */
enum { POSITION_MARGIN = 16 };

/* ---------------------------------------------------------------------------------- messages to packets */

uint64_t lli_position_number(const struct lli_position_stream *stream, lli_seq seq)
{
    uint64_t number = stream->lead_number;
    lli_seq at = stream->sent;

    while (at > seq) {
        at -= lli_min(POSITION_STRIDE, at - seq);
        number = lli_position_near(stream->history, at, number);
    }
    return number;
}

/*
 * Returns the last packet of [low, high) whose message number, near that of low, is at most `number`; low
 * satisfies this.
 */
static lli_seq position_search(const struct lli_history *history, lli_seq low, lli_seq high, uint64_t near,
                               uint64_t number)
{
    while (high - low > 1) {
        lli_seq middle = low + (high - low) / 2;

        if (lli_position_near(history, middle, near) <= number)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Finds the packet in which a sent message starts. False if it is no longer in the history. */
static bool position_packet(const struct lli_position_stream *stream, uint64_t number, lli_seq *seq)
{
    const lli_seq trail = stream->history->trail;
    uint64_t above = stream->lead_number;
    lli_seq high = stream->sent;

    while (high > trail) {
        lli_seq low = high - lli_min(POSITION_STRIDE, high - trail);
        uint64_t below = lli_position_near(stream->history, low, above);

        if (below <= number) {
            *seq = position_search(stream->history, low, high, below, number);
            return true;
        }
        high = low;
        above = below;
    }
    return false;
}

/* --------------------------------------------------------------------------------------------- answers */

/*
 * A joining receiver begins no later than with the oldest unacknowledged message, so that it can replace
 * another receiver.
 */
static void position_grant(const struct lli_position_stream *stream, struct lli_wire_join *answer,
                           lli_seq packet, uint64_t number)
{
    if (stream->unacknowledged <= packet) {
        packet = stream->unacknowledged;
        number = lli_min(number, lli_position_number(stream, packet));
    }
    answer->kind = LLI_WIRE_JOIN_GRANT;
    answer->topics = stream->topics;
    answer->packet = packet;
    answer->number = number;
    answer->wanted = stream->lead_number;
    answer->lead = stream->sent;
}

static void position_refuse(const struct lli_position_stream *stream, struct lli_wire_join *answer,
                            enum lli_wire_join_reason reason, uint64_t wanted)
{
    answer->kind = LLI_WIRE_JOIN_REFUSE;
    answer->reason = (uint8_t)reason;
    answer->packet = lli_min(stream->history->trail, stream->sent);
    answer->number = lli_position_number(stream, answer->packet);
    answer->wanted = wanted;
    answer->lead = stream->sent;
}

static bool position_is_complete(const struct lli_position_stream *stream)
{
    return stream->history->trail == stream->start;
}

static void position_oldest(const struct lli_position_stream *stream, struct lli_wire_join *answer)
{
    lli_seq packet = lli_min(stream->history->trail, stream->sent);

    if (!position_is_complete(stream))
        packet += (stream->sent - packet) / POSITION_MARGIN;
    position_grant(stream, answer, packet, lli_position_number(stream, packet));
}

static void position_by_number(const struct lli_position_stream *stream, struct lli_wire_join *answer,
                               uint64_t number)
{
    lli_seq packet = stream->sent;

    if (number > stream->lead_number)
        position_refuse(stream, answer, LLI_WIRE_JOIN_NOT_SENT, number);
    else if (number == stream->lead_number || position_packet(stream, number, &packet))
        position_grant(stream, answer, packet, number);
    else
        position_refuse(stream, answer, LLI_WIRE_JOIN_HISTORY, number);
}

/* If more messages are requested than were ever sent, all of them are meant. */
static void position_messages(const struct lli_position_stream *stream, struct lli_wire_join *answer,
                              uint64_t messages)
{
    uint64_t number = messages < stream->lead_number ? stream->lead_number - messages : 0;

    if (position_is_complete(stream))
        number = lli_max(number, lli_position_number(stream, stream->start));
    position_by_number(stream, answer, number);
}

static void position_time(const struct lli_position_stream *stream, struct lli_wire_join *answer, lli_ns back,
                          lli_ns now)
{
    const lli_seq packet = lli_time_index_find(stream->times, now > back ? now - back : 0);

    if (packet < stream->history->trail)
        position_refuse(stream, answer, LLI_WIRE_JOIN_HISTORY, 0);
    else
        position_grant(stream, answer, packet, lli_position_number(stream, packet));
}

/* Begins with the next packet to be sent; the receiver then asks for LVC messages before it. */
static void position_latest(const struct lli_position_stream *stream, struct lli_wire_join *answer)
{
    if (stream->caches)
        position_grant(stream, answer, stream->sent, stream->lead_number);
    else
        position_refuse(stream, answer, LLI_WIRE_JOIN_NOTHING, 0);
}

void lli_position_answer(const struct lli_position_stream *stream, struct lli_wire_join *answer, lli_ns now)
{
    switch (answer->from) {
    case LLM_JOIN_LATEST:
        position_latest(stream, answer);
        break;
    case LLM_JOIN_MESSAGES:
        position_messages(stream, answer, answer->value);
        break;
    case LLM_JOIN_TIME:
        position_time(stream, answer, answer->value, now);
        break;
    case LLM_JOIN_NUMBER:
        position_by_number(stream, answer, answer->value);
        break;
    default:
        position_oldest(stream, answer);
        break;
    }
}
