/* SPDX-License-Identifier: Apache-2.0 */
#include "handshake.h"

/* CONNECT is repeated after the first, then at doubling distances up to the last. */
#define DIAL_FIRST ((lli_ns)10000000)
#define DIAL_LAST ((lli_ns)1000000000)

/* -------------------------------------------------------------------------------------- who connects */

void lli_dial_init(struct lli_dial *dial, const struct lli_wire_connect *connect, lli_ns timeout, lli_ns now)
{
    *dial = (struct lli_dial){.connect = *connect, .until = now + timeout, .at = now, .distance = DIAL_FIRST};
}

bool lli_dial_input_accept(struct lli_dial *dial, const struct lli_wire_accept *accept)
{
    if (dial->state == LLI_DIAL_ASKING) {
        dial->state = LLI_DIAL_ACCEPTED;
        dial->accept = *accept;
    }
    return dial->state == LLI_DIAL_ACCEPTED && dial->accept.session == accept->session;
}

void lli_dial_input_refuse(struct lli_dial *dial, const struct lli_wire_refuse *refuse)
{
    if (dial->state != LLI_DIAL_ASKING)
        return;
    dial->state = LLI_DIAL_REFUSED;
    dial->refuse = *refuse;
}

size_t lli_dial_control(struct lli_dial *dial, lli_ns now, uint8_t *buffer)
{
    if (dial->state != LLI_DIAL_ASKING)
        return 0;
    if (now >= dial->until) {
        dial->state = LLI_DIAL_UNANSWERED;
        return 0;
    }
    if (now < dial->at)
        return 0;
    dial->at = now + dial->distance;
    dial->distance = lli_min(dial->distance * 2, DIAL_LAST);
    return lli_wire_put_connect(buffer, &dial->connect);
}

lli_ns lli_dial_deadline(const struct lli_dial *dial)
{
    return dial->state == LLI_DIAL_ASKING ? lli_min(dial->at, dial->until) : LLI_NEVER;
}

/* --------------------------------------------------------------------------------------- who listens */

void lli_door_init(struct lli_door *door, struct lli_guest *guests, uint64_t *ids, uint32_t max, lli_ns timeout)
{
    *door = (struct lli_door){.guests = guests, .ids = ids, .places = 2 * max, .max = max, .timeout = timeout};
}

/* Whether it takes one of those places of which there are only so many. */
static bool guest_counts(const struct lli_guest *guest)
{
    return guest->state >= LLI_GUEST_ASKS && guest->state <= LLI_GUEST_IN;
}

static struct lli_guest *door_known(const struct lli_door *door, uint64_t id)
{
    for (uint32_t i = 0; i < door->places; i++)
        if (door->ids[i] == id)
            return &door->guests[i];
    return NULL;
}

/* A place that is free, else that of the one remembered longest: half of the places or more do not count. */
static struct lli_guest *door_place(struct lli_door *door, uint64_t id)
{
    struct lli_guest *oldest = NULL;

    for (uint32_t i = 0; i < door->places; i++) {
        struct lli_guest *guest = &door->guests[i];

        if (guest->state == LLI_GUEST_FREE) {
            oldest = guest;
            break;
        }
        if (!guest_counts(guest) && (oldest == NULL || guest->since < oldest->since))
            oldest = guest;
    }
    assert(oldest != NULL);
    door->owed -= oldest->owed;
    oldest->owed = false;
    door->ids[oldest - door->guests] = id;
    return oldest;
}

static void door_owe(struct lli_door *door, struct lli_guest *guest)
{
    door->owed += !guest->owed;
    guest->owed = true;
}

static void guest_becomes(struct lli_guest *guest, enum lli_guest_state state, lli_ns now)
{
    guest->state = state;
    guest->since = now;
}

/* There are as many as may be: a short answer, of which nothing is kept. */
static void door_turn_away(struct lli_door *door, const struct lli_wire_connect *connect)
{
    door->counters.requests_full++;
    if (door->turned_tail - door->turned_head == LLI_DOOR_TURNED) {
        door->counters.refusals_dropped++;
        return;
    }
    door->turned[door->turned_tail++ % LLI_DOOR_TURNED] = (struct lli_door_turned){connect->id, connect->address};
}

void lli_door_input(struct lli_door *door, const struct lli_wire_connect *connect, lli_ns now)
{
    struct lli_guest *guest;

    if (connect->id == 0)
        return;
    guest = door_known(door, connect->id);
    door->counters.requests_received++;
    if (guest != NULL) {
        door->counters.requests_repeated++;
        if (guest->state == LLI_GUEST_IN || guest->state == LLI_GUEST_REFUSED)
            door_owe(door, guest);
        return;
    }
    if (door->count == door->max) {
        door_turn_away(door, connect);
        return;
    }
    guest = door_place(door, connect->id);
    guest->connect = *connect;
    guest_becomes(guest, LLI_GUEST_ASKS, now);
    door->count++;
}

struct lli_guest *lli_door_next(struct lli_door *door, lli_ns now)
{
    for (uint32_t i = 0; i < door->places && door->count > 0; i++)
        if (door->guests[i].state == LLI_GUEST_ASKS) {
            guest_becomes(&door->guests[i], LLI_GUEST_WAITS, now);
            return &door->guests[i];
        }
    return NULL;
}

struct lli_guest *lli_door_find(const struct lli_door *door, uint64_t id)
{
    struct lli_guest *guest = id == 0 ? NULL : door_known(door, id);

    return guest != NULL && (guest->state == LLI_GUEST_WAITS || guest->state == LLI_GUEST_IN) ? guest : NULL;
}

void lli_door_accept(struct lli_door *door, struct lli_guest *guest, const struct lli_wire_accept *accept, lli_ns now)
{
    assert(guest->state == LLI_GUEST_WAITS);
    guest->accept = *accept;
    guest->accept.id = guest->connect.id;
    guest_becomes(guest, LLI_GUEST_IN, now);
    door_owe(door, guest);
    door->counters.requests_accepted++;
}

void lli_door_refuse(struct lli_door *door, struct lli_guest *guest, enum lli_wire_refusal reason, uint16_t code, lli_ns now)
{
    assert(guest->state == LLI_GUEST_WAITS);
    guest->refuse = (struct lli_wire_refuse){.id = guest->connect.id, .code = code, .reason = (uint8_t)reason};
    guest_becomes(guest, LLI_GUEST_REFUSED, now);
    door_owe(door, guest);
    door->count--;
    if (reason == LLI_WIRE_FULL)
        door->counters.requests_full++;
    else
        door->counters.requests_refused++;
}

void lli_door_leave(struct lli_door *door, uint64_t id, lli_ns now)
{
    struct lli_guest *guest = lli_door_find(door, id);

    if (guest == NULL)
        return;
    door->owed -= guest->owed;
    guest->owed = false;
    guest_becomes(guest, LLI_GUEST_GONE, now);
    door->count--;
}

static size_t door_answer(struct lli_door *door, struct lli_guest *guest, uint8_t *buffer, struct lli_wire_address *to)
{
    guest->owed = false;
    door->owed--;
    *to = guest->connect.address;
    return guest->state == LLI_GUEST_IN ? lli_wire_put_accept(buffer, &guest->accept)
                                        : lli_wire_put_refuse(buffer, &guest->refuse);
}

size_t lli_door_control(struct lli_door *door, uint8_t *buffer, struct lli_wire_address *to)
{
    for (uint32_t i = 0; i < door->places && door->owed > 0; i++)
        if (door->guests[i].owed)
            return door_answer(door, &door->guests[i], buffer, to);
    if (door->turned_head != door->turned_tail) {
        const struct lli_door_turned *turned = &door->turned[door->turned_head++ % LLI_DOOR_TURNED];
        const struct lli_wire_refuse refuse = {.id = turned->id, .reason = LLI_WIRE_FULL};

        *to = turned->address;
        return lli_wire_put_refuse(buffer, &refuse);
    }
    return 0;
}

lli_ns lli_door_expire(struct lli_door *door, lli_ns now)
{
    lli_ns at = LLI_NEVER;

    for (uint32_t i = 0; i < door->places && door->count > 0; i++) {
        struct lli_guest *guest = &door->guests[i];

        if (guest->state != LLI_GUEST_WAITS)
            continue;
        if (now < guest->since + door->timeout) {
            at = lli_min(at, guest->since + door->timeout);
            continue;
        }
        guest_becomes(guest, LLI_GUEST_GONE, now);
        door->count--;
        door->counters.requests_expired++;
    }
    return at;
}
