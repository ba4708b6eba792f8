/* SPDX-License-Identifier: Apache-2.0 */
#include "core/join/replay.h"

/* Bytes sent at once after a pause; live packets that arrive meanwhile wait for them. */
#define REPLAY_BURST_MIN ((uint64_t)16 << 10)
enum { REPLAY_BURSTS_PER_S = 2048 };

void lli_replay_init(struct lli_replay *replay, uint64_t bytes_per_s, struct lli_arena *arena, lli_ns now)
{
    *replay = (struct lli_replay){.count = 0};
    replay->places = lli_arena_take(arena, LLI_REPLAY_PLACES * sizeof *replay->places, 64);
    replay->receivers = lli_arena_take(arena, LLI_REPLAY_PLACES * sizeof *replay->receivers, 64);
    lli_pacer_init(&replay->pacer, bytes_per_s, lli_max(bytes_per_s / REPLAY_BURSTS_PER_S, REPLAY_BURST_MIN),
                   now);
}

/* Returns the entry of a receiver, a new one if it has none, or NULL. */
static struct lli_replay_place *replay_place(struct lli_replay *replay, uint64_t receiver)
{
    for (uint32_t i = 0; i < replay->count; i++)
        if (replay->receivers[i] == receiver)
            return &replay->places[i];
    if (replay->count == LLI_REPLAY_PLACES)
        return NULL;
    replay->receivers[replay->count] = receiver;
    replay->places[replay->count] = (struct lli_replay_place){.count = 0};
    return &replay->places[replay->count++];
}

static bool place_is_answering(const struct lli_replay_place *place)
{
    return place->requested || place->gone;
}

static bool place_is_fetching(const struct lli_replay_place *place)
{
    return place->at < place->count;
}

/* Frees an entry that has nothing left to do; the last entry moves into its place. */
static void replay_release(struct lli_replay *replay, uint32_t index)
{
    if (place_is_answering(&replay->places[index]) || place_is_fetching(&replay->places[index]))
        return;
    replay->count--;
    replay->places[index] = replay->places[replay->count];
    replay->receivers[index] = replay->receivers[replay->count];
}

bool lli_replay_join(struct lli_replay *replay, uint64_t receiver, const struct lli_wire_join *join)
{
    struct lli_replay_place *place = replay_place(replay, receiver);

    if (place == NULL)
        return false;
    replay->answering += !place_is_answering(place);
    place->address = join->address;
    place->requested = true;
    place->from = join->from;
    place->value = join->value;
    return true;
}

bool lli_replay_fetch(struct lli_replay *replay, uint64_t receiver, const struct lli_wire_join *join,
                      lli_seq sent)
{
    struct lli_replay_range ranges[LLI_WIRE_FETCH_MAX];
    struct lli_replay_place *place;
    uint8_t count = 0;

    for (uint16_t i = 0; i < join->count; i++) {
        const lli_seq first = lli_seq_extend(sent, join->ranges[i].first);
        const lli_seq end = lli_min(first + join->ranges[i].count, sent);

        if (first < end)
            ranges[count++] = (struct lli_replay_range){first, end};
    }
    if (count == 0)
        return true;
    place = replay_place(replay, receiver);
    if (place == NULL)
        return false;
    replay->fetching += !place_is_fetching(place);
    place->address = join->address;
    place->live = join->lead;
    memcpy(place->ranges, ranges, count * sizeof *ranges);
    place->at = 0;
    place->count = count;
    return true;
}

/* Skips packets no longer in the history. False if nothing is left. */
static bool replay_trim(struct lli_replay *replay, struct lli_replay_place *place, lli_seq trail)
{
    while (place_is_fetching(place) && place->ranges[place->at].first < trail) {
        struct lli_replay_range *range = &place->ranges[place->at];

        replay->answering += !place_is_answering(place);
        place->gone = true;
        range->first = lli_min(trail, range->end);
        if (range->first == range->end)
            place->at++;
    }
    return place_is_fetching(place);
}

bool lli_replay_peek(struct lli_replay *replay, lli_seq trail, lli_seq *seq,
                     const struct lli_wire_address **address)
{
    while (replay->fetching > 0) {
        struct lli_replay_place *place;

        if (replay->turn >= replay->count)
            replay->turn = 0;
        place = &replay->places[replay->turn];
        if (place_is_fetching(place) && replay_trim(replay, place, trail)) {
            *seq = place->ranges[place->at].first;
            *address = &place->address;
            return true;
        }
        /* An entry trimmed to nothing has a REJECT to send, so it stays. */
        replay->fetching -= place->count > 0;
        place->at = place->count = 0;
        replay->turn++;
    }
    return false;
}

void lli_replay_pop(struct lli_replay *replay)
{
    struct lli_replay_place *place = &replay->places[replay->turn];
    struct lli_replay_range *range = &place->ranges[place->at];

    assert(replay->turn < replay->count && place_is_fetching(place));
    if (++range->first == range->end)
        place->at++;
    if (!place_is_fetching(place)) {
        place->at = place->count = 0;
        replay->fetching--;
        replay_release(replay, replay->turn);
    }
    replay->turn++;
}

void lli_replay_skip(struct lli_replay *replay, lli_seq end, uint64_t *receiver,
                     struct lli_wire_address *address, struct lli_wire_range *skipped)
{
    struct lli_replay_place *place = &replay->places[replay->turn];
    struct lli_replay_range *range = &place->ranges[place->at];
    const lli_seq first = range->first;

    assert(replay->turn < replay->count && place_is_fetching(place) && end > first);
    end = lli_min(end, range->end);
    *receiver = replay->receivers[replay->turn];
    *address = place->address;
    *skipped = (struct lli_wire_range){.first = (uint32_t)first, .count = (uint32_t)(end - first)};
    range->first = end - 1;
    lli_replay_pop(replay);
}

void lli_replay_drop(struct lli_replay *replay, uint32_t index)
{
    struct lli_replay_place *place = &replay->places[index];

    assert(index < replay->count);
    replay->answering -= place_is_answering(place);
    replay->fetching -= place->count > 0;
    place->requested = place->gone = false;
    place->at = place->count = 0;
    replay_release(replay, index);
}

bool lli_replay_answer(struct lli_replay *replay, uint64_t *receiver, struct lli_replay_place *answer)
{
    uint32_t i = 0;

    if (replay->answering == 0)
        return false;
    while (!place_is_answering(&replay->places[i]))
        i++;
    assert(i < replay->count);
    *receiver = replay->receivers[i];
    *answer = replay->places[i];
    answer->gone = answer->gone && !answer->requested;
    /* One answer at a time. */
    if (answer->requested)
        replay->places[i].requested = false;
    else
        replay->places[i].gone = false;
    replay->answering -= !place_is_answering(&replay->places[i]);
    replay_release(replay, i);
    return true;
}
