/* SPDX-License-Identifier: Apache-2.0 */
#include "core/recording/answers.h"

#include <llm/llm.h>

#include "core/wire/ranges.h"

void lli_answers_unconfirmed(struct lli_pacer *pacer, lli_ns now)
{
    lli_pacer_init(pacer, LLI_ANSWERS_UNCONFIRMED, LLI_ANSWERS_UNCONFIRMED_MAX, now);
}

void lli_answers_init(struct lli_answers *answers, const struct lli_answers_config *config,
                      struct lli_arena *arena, lli_ns now)
{
    *answers = (struct lli_answers){.config = *config, .advert_at = LLI_NEVER};
    lli_replay_init(&answers->replay, config->replay_bytes_per_s, arena, now);
}

void lli_answers_recorded(struct lli_answers *answers, const struct lli_answers_extent *extent)
{
    answers->extent = *extent;
}

void lli_answers_advertise(struct lli_answers *answers, lli_ns every, lli_ns now)
{
    answers->advert_every = every;
    answers->advert_at = every == 0 ? LLI_NEVER : now;
}

/* ------------------------------------------------------------------------------------------------ queue */

/* Queues an answer; several of a kind to one receiver in a row become one. */
static void answers_queue(struct lli_answers *answers, const struct lli_answers_answer *answer)
{
    struct lli_answers_answer *latest = &answers->queue[(answers->tail - 1) % LLI_ANSWERS_QUEUE];
    const bool again = answers->tail != answers->head && latest->receiver == answer->receiver &&
                       latest->kind == answer->kind && latest->range.count == 0 && answer->range.count == 0;

    if (again) {
        *latest = *answer;
        return;
    }
    if (answers->tail - answers->head == LLI_ANSWERS_QUEUE) {
        answers->counters.store_answers_dropped++;
        return;
    }
    answers->queue[answers->tail++ % LLI_ANSWERS_QUEUE] = *answer;
}

/* Queues the answer to a SEEK. */
static void answers_offer(struct lli_answers *answers, const struct lli_answers_seek *seek, lli_seq packet,
                          uint64_t number)
{
    const struct lli_answers_answer answer = {
        .kind = LLI_WIRE_JOIN_OFFER,
        .receiver = seek->receiver,
        .address = seek->address,
        .from = seek->from,
        .value = seek->value,
        .packet = packet,
        .number = number,
    };

    answers_queue(answers, &answer);
}

static void answers_refuse(struct lli_answers *answers, const struct lli_answers_seek *seek,
                           enum lli_wire_join_reason reason)
{
    const struct lli_answers_answer answer = {
        .kind = LLI_WIRE_JOIN_ABSENT,
        .receiver = seek->receiver,
        .address = seek->address,
        .from = seek->from,
        .value = seek->value,
        .reason = (uint8_t)reason,
    };

    answers_queue(answers, &answer);
}

/* ------------------------------------------------------------------------------------------------- SEEK */

static bool answers_is_confirmed(const struct lli_answers *answers, const struct lli_wire_join *join)
{
    return join->token != 0 && join->token == lli_token(&answers->config.key, join->receiver, &join->address);
}

/* True if an answer may go to an address that is not confirmed. */
static bool answers_affords(struct lli_answers *answers, lli_ns now)
{
    answers->counters.store_requests_unconfirmed++;
    lli_pacer_fill(answers->config.unconfirmed, now);
    if (lli_pacer_take(answers->config.unconfirmed, 1))
        return true;
    answers->counters.store_answers_dropped++;
    return false;
}

/* Queues a position that has to be looked up in the recording. */
static void answers_look_up(struct lli_answers *answers, const struct lli_answers_seek *seek)
{
    if (answers->seeks_tail - answers->seeks_head == LLI_ANSWERS_SEEKS) {
        answers->counters.store_answers_dropped++;
        return;
    }
    answers->seeks[answers->seeks_tail++ % LLI_ANSWERS_SEEKS] = *seek;
}

/* Number of the first message that a question by messages back asks for; more than there are means all. */
static uint64_t answers_back(const struct lli_answers_extent *extent, uint64_t messages)
{
    return extent->end_number - lli_min(messages, extent->end_number);
}

static void answers_seek_number(struct lli_answers *answers, const struct lli_answers_seek *seek,
                                uint64_t number)
{
    const struct lli_answers_extent *extent = &answers->extent;

    if (number > extent->end_number)
        answers_refuse(answers, seek, LLI_WIRE_JOIN_NOT_SENT);
    else if (number < extent->first_number)
        answers_refuse(answers, seek, LLI_WIRE_JOIN_HISTORY);
    else if (number == extent->end_number)
        answers_offer(answers, seek, extent->end, number);
    else
        answers_look_up(answers, seek);
}

static void answers_seek(struct lli_answers *answers, const struct lli_wire_join *join, lli_ns now)
{
    const struct lli_answers_extent *extent = &answers->extent;
    const struct lli_answers_seek seek = {
        .receiver = join->receiver,
        .address = join->address,
        .from = join->from,
        .value = join->value,
        .at = now,
    };

    if (extent->first == extent->end)
        answers_refuse(answers, &seek, LLI_WIRE_JOIN_NOT_SENT);
    else if (join->from == LLM_JOIN_OLDEST)
        answers_offer(answers, &seek, extent->first, extent->first_number);
    else if (join->from == LLM_JOIN_MESSAGES)
        answers_seek_number(answers, &seek, answers_back(extent, join->value));
    else if (join->from == LLM_JOIN_NUMBER)
        answers_seek_number(answers, &seek, join->value);
    else
        answers_look_up(answers, &seek);
}

bool lli_answers_sought(const struct lli_answers *answers, struct lli_answers_seek *seek)
{
    if (answers->seeks_head == answers->seeks_tail)
        return false;
    *seek = answers->seeks[answers->seeks_head % LLI_ANSWERS_SEEKS];
    if (seek->from == LLM_JOIN_MESSAGES) {
        seek->from = LLM_JOIN_NUMBER;
        /* The recording may have lost its beginning since the question came. */
        seek->value = lli_max(answers_back(&answers->extent, seek->value), answers->extent.first_number);
    }
    return true;
}

void lli_answers_found(struct lli_answers *answers, bool found, lli_seq packet, uint64_t number)
{
    struct lli_answers_seek seek, sought;

    if (!lli_answers_sought(answers, &sought))
        return;
    seek = answers->seeks[answers->seeks_head++ % LLI_ANSWERS_SEEKS];
    if (!found || packet < answers->extent.first || packet > answers->extent.end)
        answers_refuse(answers, &seek, LLI_WIRE_JOIN_HISTORY);
    else
        answers_offer(answers, &seek, packet, seek.from == LLM_JOIN_TIME ? number : sought.value);
}

/* ----------------------------------------------------------------------------------------------- RECALL */

/* True if a range names packets that are not in the extent. */
static bool answers_is_outside(const struct lli_answers_extent *extent, const struct lli_wire_range *range)
{
    const lli_seq first = lli_seq_extend(extent->end, range->first);

    return first < extent->first || first + range->count > extent->end;
}

static void answers_recall(struct lli_answers *answers, struct lli_wire_join *join, lli_ns now)
{
    const struct lli_answers_extent *extent = &answers->extent;
    struct lli_answers_answer answer = {.receiver = join->receiver, .address = join->address};
    bool outside = false;

    if (!answers_is_confirmed(answers, join)) {
        answer.kind = LLI_WIRE_JOIN_OFFER;
        answer.packet = extent->first;
        answer.number = extent->first_number;
        if (answers_affords(answers, now))
            answers_queue(answers, &answer);
        return;
    }
    join->count = lli_ranges_merge(join->ranges, join->count, extent->end, 0, LLI_WIRE_FETCH_PACKETS);
    for (uint16_t i = 0; i < join->count; i++)
        outside |= answers_is_outside(extent, &join->ranges[i]);
    answers->counters.store_answers_dropped +=
        !lli_replay_fetch(&answers->replay, join->receiver, join, extent->end);
    answer.kind = LLI_WIRE_JOIN_ABSENT;
    if (outside)
        answers_queue(answers, &answer);
}

bool lli_answers_input(struct lli_answers *answers, const struct lli_wire_join *join, lli_ns now)
{
    struct lli_wire_join recall;

    if (join->receiver == 0 || join->address.size == 0)
        return false;
    if (join->kind == LLI_WIRE_JOIN_SEEK && join->from >= LLM_JOIN_OLDEST && join->from <= LLM_JOIN_NUMBER) {
        answers->counters.seeks_received++;
        if (answers_is_confirmed(answers, join) || answers_affords(answers, now))
            answers_seek(answers, join, now);
        return true;
    }
    if (join->kind != LLI_WIRE_JOIN_RECALL)
        return false;
    answers->counters.recalls_received++;
    recall = *join;
    answers_recall(answers, &recall, now);
    return true;
}

/* --------------------------------------------------------------------------------------------- packets */

bool lli_answers_next(struct lli_answers *answers, lli_ns now, lli_seq *seq,
                      const struct lli_wire_address **to)
{
    struct lli_replay *replay = &answers->replay;
    const struct lli_wire_address *address;

    if (replay->fetching == 0)
        return false;
    lli_pacer_fill(&replay->pacer, now);
    if (replay->pacer.tokens == 0 || !lli_replay_peek(replay, answers->extent.first, seq, &address))
        return false;
    answers->to = *address;
    *to = &answers->to;
    return true;
}

void lli_answers_sent(struct lli_answers *answers, uint32_t size)
{
    struct lli_replay *replay = &answers->replay;
    const uint64_t receiver = replay->receivers[replay->turn];
    const uint32_t turn = replay->turn;

    (void)lli_pacer_take(&replay->pacer, size);
    lli_replay_pop(replay);
    /* Packets of another receiver are elsewhere in the recording: to read a block there takes longer than to send. */
    if (++answers->run < LLI_WIRE_FETCH_PACKETS && turn < replay->count &&
        replay->receivers[turn] == receiver)
        replay->turn = turn;
    else
        answers->run = 0;
    answers->counters.packets_recalled++;
    answers->counters.bytes_recalled += size;
}

void lli_answers_lacks(struct lli_answers *answers, lli_seq end)
{
    struct lli_answers_answer answer = {.kind = LLI_WIRE_JOIN_ABSENT};

    lli_replay_skip(&answers->replay, end, &answer.receiver, &answer.address, &answer.range);
    answers_queue(answers, &answer);
}

void lli_answers_defer(struct lli_answers *answers)
{
    answers->replay.turn++;
    answers->run = 0;
}

/* ------------------------------------------------------------------------------------------------ answers */

/* Builds a packet with what is recorded now. */
static void answers_build(struct lli_answers *answers, const struct lli_answers_answer *answer,
                          uint8_t *buffer, struct lli_packet *packet)
{
    const struct lli_answers_extent *extent = &answers->extent;
    const bool offers = answer->kind == LLI_WIRE_JOIN_OFFER && answer->packet >= extent->first &&
                        answer->packet <= extent->end;
    struct lli_wire_join join = {
        .session = answers->config.session,
        .receiver = answer->receiver,
        .kind = answer->kind,
        .from = answer->from,
        .reason = answer->reason,
        .value = answer->value,
        .packet = offers ? answer->packet : extent->first,
        .number = offers ? answer->number : extent->first_number,
        .wanted = extent->end_number,
        .lead = extent->end,
        .address = answers->config.address,
    };

    if (answer->reason == LLI_WIRE_JOIN_NO_REASON && extent->ended)
        join.reason = LLI_WIRE_JOIN_ENDED;
    if (answer->range.count > 0)
        join.ranges[join.count++] = answer->range;
    answers->to = answer->address;
    *packet = (struct lli_packet){.data = buffer, .to = answer->receiver == 0 ? NULL : &answers->to};
    if (answer->receiver != 0)
        join.token = lli_token(&answers->config.key, answer->receiver, &answer->address);
    packet->size = (uint32_t)lli_wire_put_join(buffer, &join);
}

/* Next of the queue, or that packets are no longer in the extent. */
static bool answers_take(struct lli_answers *answers, struct lli_answers_answer *answer)
{
    struct lli_replay_place place;

    if (answers->head != answers->tail) {
        *answer = answers->queue[answers->head++ % LLI_ANSWERS_QUEUE];
        return true;
    }
    if (!lli_replay_answer(&answers->replay, &answer->receiver, &place))
        return false;
    answer->kind = LLI_WIRE_JOIN_ABSENT;
    answer->address = place.address;
    return true;
}

bool lli_answers_control(struct lli_answers *answers, lli_ns now, uint8_t *buffer, struct lli_packet *packet)
{
    struct lli_answers_answer answer = {.kind = LLI_WIRE_JOIN_OFFER};

    if (answers_take(answers, &answer)) {
        answers->counters.offers_sent += answer.kind == LLI_WIRE_JOIN_OFFER;
        answers->counters.absents_sent += answer.kind == LLI_WIRE_JOIN_ABSENT;
    } else if (now >= answers->advert_at) {
        answer.value = answers->advert_every;
        answers->advert_at = now + answers->advert_every;
        answers->counters.adverts_sent++;
    } else {
        return false;
    }
    answers_build(answers, &answer, buffer, packet);
    return true;
}

lli_ns lli_answers_deadline(const struct lli_answers *answers)
{
    if (answers->head != answers->tail || answers->replay.answering > 0)
        return 0;
    if (answers->replay.fetching > 0)
        return lli_min(answers->advert_at, lli_pacer_ready_at(&answers->replay.pacer));
    return answers->advert_at;
}
