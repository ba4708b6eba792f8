/* SPDX-License-Identifier: Apache-2.0 */
#include "core/conn/handshake.h"

/* Interval from the first CONNECT to the second; later ones double up to CONNECTOR_LAST. */
#define CONNECTOR_FIRST ((lli_ns)10000000)
#define CONNECTOR_LAST ((lli_ns)1000000000)

/* ------------------------------------------------------------------------------------ connecting side */

void lli_connector_init(struct lli_connector *connector, const struct lli_wire_connect *connect,
                        lli_ns timeout, lli_ns now)
{
    *connector = (struct lli_connector){
        .connect = *connect, .until = now + timeout, .at = now, .distance = CONNECTOR_FIRST};
}

bool lli_connector_input_accept(struct lli_connector *connector, const struct lli_wire_accept *accept)
{
    if (connector->state == LLI_CONNECTOR_CONNECTING) {
        connector->state = LLI_CONNECTOR_ACCEPTED;
        connector->accept = *accept;
    }
    return connector->state == LLI_CONNECTOR_ACCEPTED && connector->accept.session == accept->session;
}

void lli_connector_input_refuse(struct lli_connector *connector, const struct lli_wire_refuse *refuse)
{
    if (connector->state != LLI_CONNECTOR_CONNECTING)
        return;
    connector->state = LLI_CONNECTOR_REFUSED;
    connector->refuse = *refuse;
}

size_t lli_connector_control(struct lli_connector *connector, lli_ns now, uint8_t *buffer)
{
    if (connector->state != LLI_CONNECTOR_CONNECTING)
        return 0;
    if (now >= connector->until) {
        connector->state = LLI_CONNECTOR_UNANSWERED;
        return 0;
    }
    if (now < connector->at)
        return 0;
    connector->at = now + connector->distance;
    connector->distance = lli_min(connector->distance * 2, CONNECTOR_LAST);
    return lli_wire_put_connect(buffer, &connector->connect);
}

lli_ns lli_connector_deadline(const struct lli_connector *connector)
{
    return connector->state == LLI_CONNECTOR_CONNECTING ? lli_min(connector->at, connector->until)
                                                        : LLI_NEVER;
}

/* ------------------------------------------------------------------------------------------- listener */

void lli_acceptor_init(struct lli_acceptor *acceptor, struct lli_applicant *applicants, uint64_t *ids,
                       uint32_t max, lli_ns timeout)
{
    *acceptor = (struct lli_acceptor){
        .applicants = applicants, .ids = ids, .places = 2 * max, .max = max, .timeout = timeout};
}

/* True if an entry counts against the maximum. */
static bool guest_counts(const struct lli_applicant *applicant)
{
    return applicant->state >= LLI_APPLICANT_NEW && applicant->state <= LLI_APPLICANT_IN;
}

static struct lli_applicant *acceptor_known(const struct lli_acceptor *acceptor, uint64_t id)
{
    for (uint32_t i = 0; i < acceptor->places; i++)
        if (acceptor->ids[i] == id)
            return &acceptor->applicants[i];
    return NULL;
}

/*
 * Returns a free entry, else the oldest of those that do not count, which are at least half of the table. An
 * entry with an answer due stays until it is sent. NULL: none at present.
 */
static struct lli_applicant *acceptor_place(struct lli_acceptor *acceptor, uint64_t id)
{
    struct lli_applicant *oldest = NULL;

    for (uint32_t i = 0; i < acceptor->places; i++) {
        struct lli_applicant *applicant = &acceptor->applicants[i];

        if (applicant->state == LLI_APPLICANT_FREE) {
            oldest = applicant;
            break;
        }
        if (!guest_counts(applicant) && !applicant->answer_due &&
            (oldest == NULL || applicant->since < oldest->since))
            oldest = applicant;
    }
    if (oldest != NULL)
        acceptor->ids[oldest - acceptor->applicants] = id;
    return oldest;
}

static void acceptor_owe(struct lli_acceptor *acceptor, struct lli_applicant *applicant, lli_ns now)
{
    if (applicant->answer_due)
        return;
    acceptor->answers_due++;
    applicant->answer_due = true;
    applicant->answer_until = now + acceptor->timeout;
}

static void guest_becomes(struct lli_applicant *applicant, enum lli_applicant_state state, lli_ns now)
{
    applicant->state = state;
    applicant->since = now;
}

/* Refuses a request because the table is full: one short answer, nothing is stored after it was sent. */
static void acceptor_turn_away(struct lli_acceptor *acceptor, const struct lli_wire_connect *connect,
                               lli_ns now)
{
    struct lli_acceptor_turned_away *turned = acceptor->turned;

    acceptor->counters.requests_full++;
    if (acceptor->turned_count == LLI_ACCEPTOR_TURNED_AWAY) {
        acceptor->counters.refusals_dropped++;
        return;
    }
    while (turned->id != 0)
        turned++;
    *turned = (struct lli_acceptor_turned_away){connect->id, connect->address, now + acceptor->timeout};
    acceptor->turned_count++;
}

void lli_acceptor_input(struct lli_acceptor *acceptor, const struct lli_wire_connect *connect, lli_ns now)
{
    struct lli_applicant *applicant;

    if (connect->id == 0)
        return;
    applicant = acceptor_known(acceptor, connect->id);
    acceptor->counters.requests_received++;
    if (applicant != NULL) {
        acceptor->counters.requests_repeated++;
        if (applicant->state == LLI_APPLICANT_IN || applicant->state == LLI_APPLICANT_REFUSED)
            acceptor_owe(acceptor, applicant, now);
        return;
    }
    if (acceptor->count == acceptor->max) {
        acceptor_turn_away(acceptor, connect, now);
        return;
    }
    applicant = acceptor_place(acceptor, connect->id);
    if (applicant == NULL) {
        acceptor->counters.refusals_dropped++; /* the connecting side repeats its request */
        return;
    }
    applicant->connect = *connect;
    guest_becomes(applicant, LLI_APPLICANT_NEW, now);
    acceptor->count++;
}

struct lli_applicant *lli_acceptor_next(const struct lli_acceptor *acceptor, uint32_t *place)
{
    for (; *place < acceptor->places && acceptor->count > 0; ++*place)
        if (acceptor->applicants[*place].state == LLI_APPLICANT_NEW)
            return &acceptor->applicants[*place];
    return NULL;
}

void lli_acceptor_show(struct lli_applicant *applicant, lli_ns now)
{
    assert(applicant->state == LLI_APPLICANT_NEW);
    guest_becomes(applicant, LLI_APPLICANT_WAITS, now);
}

void lli_acceptor_drop(struct lli_acceptor *acceptor, struct lli_applicant *applicant, lli_ns now)
{
    assert(applicant->state == LLI_APPLICANT_NEW);
    guest_becomes(applicant, LLI_APPLICANT_GONE, now);
    acceptor->count--;
    acceptor->counters.requests_unreachable++;
}

struct lli_applicant *lli_acceptor_find(const struct lli_acceptor *acceptor, uint64_t id)
{
    struct lli_applicant *applicant = id == 0 ? NULL : acceptor_known(acceptor, id);

    return applicant != NULL &&
                   (applicant->state == LLI_APPLICANT_WAITS || applicant->state == LLI_APPLICANT_IN)
               ? applicant
               : NULL;
}

void lli_acceptor_accept(struct lli_acceptor *acceptor, struct lli_applicant *applicant,
                         const struct lli_wire_accept *accept, lli_ns now)
{
    assert(applicant->state == LLI_APPLICANT_WAITS);
    applicant->accept = *accept;
    applicant->accept.id = applicant->connect.id;
    guest_becomes(applicant, LLI_APPLICANT_IN, now);
    acceptor_owe(acceptor, applicant, now);
    acceptor->counters.requests_accepted++;
}

void lli_acceptor_refuse(struct lli_acceptor *acceptor, struct lli_applicant *applicant,
                         enum lli_wire_refusal reason, uint16_t code, lli_ns now)
{
    assert(applicant->state == LLI_APPLICANT_WAITS);
    applicant->refuse =
        (struct lli_wire_refuse){.id = applicant->connect.id, .code = code, .reason = (uint8_t)reason};
    guest_becomes(applicant, LLI_APPLICANT_REFUSED, now);
    acceptor_owe(acceptor, applicant, now);
    acceptor->count--;
    if (reason == LLI_WIRE_FULL)
        acceptor->counters.requests_full++;
    else
        acceptor->counters.requests_refused++;
}

void lli_acceptor_leave(struct lli_acceptor *acceptor, uint64_t id, lli_ns now)
{
    struct lli_applicant *applicant = lli_acceptor_find(acceptor, id);

    if (applicant == NULL)
        return;
    acceptor->answers_due -= applicant->answer_due;
    applicant->answer_due = false;
    guest_becomes(applicant, LLI_APPLICANT_GONE, now);
    acceptor->count--;
}

/* Answers are numbered: those of table entries first, then refusals for a full table. */
const struct lli_wire_address *lli_acceptor_answer_due(const struct lli_acceptor *acceptor, uint32_t *place)
{
    for (; *place < acceptor->places && acceptor->answers_due > 0; ++*place)
        if (acceptor->applicants[*place].answer_due)
            return &acceptor->applicants[*place].connect.address;
    *place = (uint32_t)lli_max(*place, acceptor->places);
    for (; *place < acceptor->places + LLI_ACCEPTOR_TURNED_AWAY && acceptor->turned_count > 0; ++*place)
        if (acceptor->turned[*place - acceptor->places].id != 0)
            return &acceptor->turned[*place - acceptor->places].address;
    return NULL;
}

size_t lli_acceptor_answer(const struct lli_acceptor *acceptor, uint32_t place, uint8_t *buffer)
{
    if (place >= acceptor->places) {
        const struct lli_wire_refuse refuse = {.id = acceptor->turned[place - acceptor->places].id,
                                               .reason = LLI_WIRE_FULL};

        return lli_wire_put_refuse(buffer, &refuse);
    }
    return acceptor->applicants[place].state == LLI_APPLICANT_IN
               ? lli_wire_put_accept(buffer, &acceptor->applicants[place].accept)
               : lli_wire_put_refuse(buffer, &acceptor->applicants[place].refuse);
}

void lli_acceptor_answered(struct lli_acceptor *acceptor, uint32_t place)
{
    if (place < acceptor->places) {
        acceptor->applicants[place].answer_due = false;
        acceptor->answers_due--;
    } else {
        acceptor->turned[place - acceptor->places].id = 0;
        acceptor->turned_count--;
    }
}

/* Time at which an entry's wait times out, LLI_NEVER if it does not wait. */
static lli_ns guest_until(const struct lli_acceptor *acceptor, const struct lli_applicant *applicant)
{
    if (applicant->state == LLI_APPLICANT_NEW || applicant->state == LLI_APPLICANT_WAITS)
        return applicant->since + acceptor->timeout;
    return applicant->answer_due ? applicant->answer_until : LLI_NEVER;
}

static void guest_give_up(struct lli_acceptor *acceptor, uint32_t place, lli_ns now)
{
    struct lli_applicant *applicant = &acceptor->applicants[place];

    if (applicant->state == LLI_APPLICANT_NEW) {
        lli_acceptor_drop(acceptor, applicant, now);
    } else if (applicant->state == LLI_APPLICANT_WAITS) {
        guest_becomes(applicant, LLI_APPLICANT_GONE, now);
        acceptor->count--;
        acceptor->counters.requests_expired++;
    } else {
        lli_acceptor_answered(acceptor, place);
        acceptor->counters.refusals_dropped++;
    }
}

/* Part of lli_acceptor_expire() for table entries, while any of them may wait. */
static bool acceptor_expire_guest(struct lli_acceptor *acceptor, lli_ns now, uint32_t *place,
                                  struct lli_wire_address *address, lli_ns *at)
{
    for (; *place < acceptor->places && acceptor->count + acceptor->answers_due > 0; ++*place) {
        const lli_ns until = guest_until(acceptor, &acceptor->applicants[*place]);

        if (now < until) {
            *at = lli_min(*at, until);
            continue;
        }
        *address = acceptor->applicants[*place].connect.address;
        guest_give_up(acceptor, *place, now);
        return true;
    }
    return false;
}

bool lli_acceptor_expire(struct lli_acceptor *acceptor, lli_ns now, uint32_t *place,
                         struct lli_wire_address *address, lli_ns *at)
{
    if (acceptor_expire_guest(acceptor, now, place, address, at))
        return true;
    *place = (uint32_t)lli_max(*place, acceptor->places);
    for (; *place < acceptor->places + LLI_ACCEPTOR_TURNED_AWAY && acceptor->turned_count > 0; ++*place) {
        const struct lli_acceptor_turned_away *turned = &acceptor->turned[*place - acceptor->places];

        if (turned->id == 0)
            continue;
        if (now < turned->until) {
            *at = lli_min(*at, turned->until);
            continue;
        }
        *address = turned->address;
        lli_acceptor_answered(acceptor, *place);
        acceptor->counters.refusals_dropped++;
        return true;
    }
    return false;
}

static bool address_is(const struct lli_wire_address *a, const struct lli_wire_address *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

bool lli_acceptor_needs(const struct lli_acceptor *acceptor, const struct lli_wire_address *address)
{
    for (uint32_t i = 0; i < acceptor->places && acceptor->count + acceptor->answers_due > 0; i++)
        if (guest_until(acceptor, &acceptor->applicants[i]) != LLI_NEVER &&
            address_is(&acceptor->applicants[i].connect.address, address))
            return true;
    for (uint32_t i = 0; i < LLI_ACCEPTOR_TURNED_AWAY && acceptor->turned_count > 0; i++)
        if (acceptor->turned[i].id != 0 && address_is(&acceptor->turned[i].address, address))
            return true;
    return false;
}
