/* SPDX-License-Identifier: Apache-2.0 */
#include "core/conn/handshake.h"

/* Interval from the first CONNECT to the second; later ones double up to DIAL_LAST. */
#define DIAL_FIRST ((lli_ns)10000000)
#define DIAL_LAST ((lli_ns)1000000000)

/* ------------------------------------------------------------------------------------ connecting side */

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

/* ------------------------------------------------------------------------------------------- listener */

void lli_door_init(struct lli_door *door, struct lli_guest *guests, uint64_t *ids, uint32_t max, lli_ns timeout)
{
    *door = (struct lli_door){.guests = guests, .ids = ids, .places = 2 * max, .max = max, .timeout = timeout};
}

/* True if an entry counts against the maximum. */
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

/*
 * Returns a free entry, else the oldest of those that do not count, which are at least half of the table. An
 * entry with an answer due stays until it is sent. NULL: none at present.
 */
static struct lli_guest *door_place(struct lli_door *door, uint64_t id)
{
    struct lli_guest *oldest = NULL;

    for (uint32_t i = 0; i < door->places; i++) {
        struct lli_guest *guest = &door->guests[i];

        if (guest->state == LLI_GUEST_FREE) {
            oldest = guest;
            break;
        }
        if (!guest_counts(guest) && !guest->owed && (oldest == NULL || guest->since < oldest->since))
            oldest = guest;
    }
    if (oldest != NULL)
        door->ids[oldest - door->guests] = id;
    return oldest;
}

static void door_owe(struct lli_door *door, struct lli_guest *guest, lli_ns now)
{
    if (guest->owed)
        return;
    door->owed++;
    guest->owed = true;
    guest->owed_until = now + door->timeout;
}

static void guest_becomes(struct lli_guest *guest, enum lli_guest_state state, lli_ns now)
{
    guest->state = state;
    guest->since = now;
}

/* Refuses a request because the table is full: one short answer, nothing is stored after it was sent. */
static void door_turn_away(struct lli_door *door, const struct lli_wire_connect *connect, lli_ns now)
{
    struct lli_door_turned *turned = door->turned;

    door->counters.requests_full++;
    if (door->turned_count == LLI_DOOR_TURNED) {
        door->counters.refusals_dropped++;
        return;
    }
    while (turned->id != 0)
        turned++;
    *turned = (struct lli_door_turned){connect->id, connect->address, now + door->timeout};
    door->turned_count++;
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
            door_owe(door, guest, now);
        return;
    }
    if (door->count == door->max) {
        door_turn_away(door, connect, now);
        return;
    }
    guest = door_place(door, connect->id);
    if (guest == NULL) {
        door->counters.refusals_dropped++; /* the connecting side repeats its request */
        return;
    }
    guest->connect = *connect;
    guest_becomes(guest, LLI_GUEST_ASKS, now);
    door->count++;
}

struct lli_guest *lli_door_next(const struct lli_door *door, uint32_t *place)
{
    for (; *place < door->places && door->count > 0; ++*place)
        if (door->guests[*place].state == LLI_GUEST_ASKS)
            return &door->guests[*place];
    return NULL;
}

void lli_door_show(struct lli_guest *guest, lli_ns now)
{
    assert(guest->state == LLI_GUEST_ASKS);
    guest_becomes(guest, LLI_GUEST_WAITS, now);
}

void lli_door_drop(struct lli_door *door, struct lli_guest *guest, lli_ns now)
{
    assert(guest->state == LLI_GUEST_ASKS);
    guest_becomes(guest, LLI_GUEST_GONE, now);
    door->count--;
    door->counters.requests_unreachable++;
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
    door_owe(door, guest, now);
    door->counters.requests_accepted++;
}

void lli_door_refuse(struct lli_door *door, struct lli_guest *guest, enum lli_wire_refusal reason, uint16_t code, lli_ns now)
{
    assert(guest->state == LLI_GUEST_WAITS);
    guest->refuse = (struct lli_wire_refuse){.id = guest->connect.id, .code = code, .reason = (uint8_t)reason};
    guest_becomes(guest, LLI_GUEST_REFUSED, now);
    door_owe(door, guest, now);
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

/* Answers are numbered: those of table entries first, then refusals for a full table. */
const struct lli_wire_address *lli_door_owed(const struct lli_door *door, uint32_t *place)
{
    for (; *place < door->places && door->owed > 0; ++*place)
        if (door->guests[*place].owed)
            return &door->guests[*place].connect.address;
    *place = (uint32_t)lli_max(*place, door->places);
    for (; *place < door->places + LLI_DOOR_TURNED && door->turned_count > 0; ++*place)
        if (door->turned[*place - door->places].id != 0)
            return &door->turned[*place - door->places].address;
    return NULL;
}

size_t lli_door_answer(const struct lli_door *door, uint32_t place, uint8_t *buffer)
{
    if (place >= door->places) {
        const struct lli_wire_refuse refuse = {.id = door->turned[place - door->places].id, .reason = LLI_WIRE_FULL};

        return lli_wire_put_refuse(buffer, &refuse);
    }
    return door->guests[place].state == LLI_GUEST_IN ? lli_wire_put_accept(buffer, &door->guests[place].accept)
                                                     : lli_wire_put_refuse(buffer, &door->guests[place].refuse);
}

void lli_door_answered(struct lli_door *door, uint32_t place)
{
    if (place < door->places) {
        door->guests[place].owed = false;
        door->owed--;
    } else {
        door->turned[place - door->places].id = 0;
        door->turned_count--;
    }
}

/* Time at which an entry's wait times out, LLI_NEVER if it does not wait. */
static lli_ns guest_until(const struct lli_door *door, const struct lli_guest *guest)
{
    if (guest->state == LLI_GUEST_ASKS || guest->state == LLI_GUEST_WAITS)
        return guest->since + door->timeout;
    return guest->owed ? guest->owed_until : LLI_NEVER;
}

static void guest_give_up(struct lli_door *door, uint32_t place, lli_ns now)
{
    struct lli_guest *guest = &door->guests[place];

    if (guest->state == LLI_GUEST_ASKS) {
        lli_door_drop(door, guest, now);
    } else if (guest->state == LLI_GUEST_WAITS) {
        guest_becomes(guest, LLI_GUEST_GONE, now);
        door->count--;
        door->counters.requests_expired++;
    } else {
        lli_door_answered(door, place);
        door->counters.refusals_dropped++;
    }
}

/* Part of lli_door_expire() for table entries, while any of them may wait. */
static bool door_expire_guest(struct lli_door *door, lli_ns now, uint32_t *place, struct lli_wire_address *address, lli_ns *at)
{
    for (; *place < door->places && door->count + door->owed > 0; ++*place) {
        const lli_ns until = guest_until(door, &door->guests[*place]);

        if (now < until) {
            *at = lli_min(*at, until);
            continue;
        }
        *address = door->guests[*place].connect.address;
        guest_give_up(door, *place, now);
        return true;
    }
    return false;
}

bool lli_door_expire(struct lli_door *door, lli_ns now, uint32_t *place, struct lli_wire_address *address, lli_ns *at)
{
    if (door_expire_guest(door, now, place, address, at))
        return true;
    *place = (uint32_t)lli_max(*place, door->places);
    for (; *place < door->places + LLI_DOOR_TURNED && door->turned_count > 0; ++*place) {
        const struct lli_door_turned *turned = &door->turned[*place - door->places];

        if (turned->id == 0)
            continue;
        if (now < turned->until) {
            *at = lli_min(*at, turned->until);
            continue;
        }
        *address = turned->address;
        lli_door_answered(door, *place);
        door->counters.refusals_dropped++;
        return true;
    }
    return false;
}

static bool address_is(const struct lli_wire_address *a, const struct lli_wire_address *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

bool lli_door_needs(const struct lli_door *door, const struct lli_wire_address *address)
{
    for (uint32_t i = 0; i < door->places && door->count + door->owed > 0; i++)
        if (guest_until(door, &door->guests[i]) != LLI_NEVER && address_is(&door->guests[i].connect.address, address))
            return true;
    for (uint32_t i = 0; i < LLI_DOOR_TURNED && door->turned_count > 0; i++)
        if (door->turned[i].id != 0 && address_is(&door->turned[i].address, address))
            return true;
    return false;
}
