/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/reach.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>

#include "engine/objects.h"

enum {
    REACH_NONE = UINT32_MAX,
    REACH_TRIES = 8,       /* candidates for eviction: a connection holds its handle */
    REACH_SWEEP_MAX = 256, /* addresses freed by one sweep; the others by the next, or on demand */
    /* A sweep takes time in proportion to the addresses: one sweep a second for this many. */
    REACH_SHARE = 1024,
    REACH_LAYERS = 8,   /* transports of an endpoint: impair+, shm+ and those below */
    REACH_PATIENCE = 3, /* rounds in which an address is not resolved before it counts as unreachable */
};

#define REACH_SWEEP ((lli_ns)1000000000)

/* A transport with its instance. */
struct reach_layer {
    const struct lli_transport *transport;
    void *instance;
};

/* -------------------------------------------------------------------------------------------------- lists */

int lli_reach_init(struct lli_reach *reach, uint32_t max)
{
    *reach = (struct lli_reach){.round = 1};
    reach->lists[false] = reach->lists[true] = (struct lli_reach_list){REACH_NONE, REACH_NONE};
    reach->places = calloc(max, sizeof *reach->places);
    return lli_peers_init(&reach->peers, max) != 0 || reach->places == NULL ? LLM_ENOMEM : LLM_OK;
}

void lli_reach_fini(struct lli_reach *reach)
{
    lli_peers_fini(&reach->peers);
    free(reach->places);
    reach->places = NULL;
}

static struct lli_address reach_address(const struct lli_wire_address *wire)
{
    struct lli_address address = {.size = wire->size};

    memcpy(address.bytes, wire->bytes, sizeof address.bytes);
    return address;
}

static struct lli_wire_address reach_wire(const struct lli_address *address)
{
    struct lli_wire_address wire = {.size = address->size};

    memcpy(wire.bytes, address->bytes, sizeof wire.bytes);
    return wire;
}

static bool reach_is(const struct lli_address *address, const struct lli_wire_address *wire)
{
    return address->size == wire->size && memcmp(address->bytes, wire->bytes, wire->size) == 0;
}

/* Adds an entry at the newest end of a list. */
static void reach_link(struct lli_reach *reach, uint32_t place, bool needed)
{
    struct lli_reach_list *list = &reach->lists[needed];

    reach->places[place].needed = needed;
    reach->places[place].newer = REACH_NONE;
    reach->places[place].older = list->newest;
    if (list->newest == REACH_NONE)
        list->oldest = place;
    else
        reach->places[list->newest].newer = place;
    list->newest = place;
}

static void reach_unlink(struct lli_reach *reach, uint32_t place)
{
    const struct lli_reach_place *at = &reach->places[place];
    struct lli_reach_list *list = &reach->lists[at->needed];

    if (at->older == REACH_NONE)
        list->oldest = at->newer;
    else
        reach->places[at->older].newer = at->newer;
    if (at->newer == REACH_NONE)
        list->newest = at->older;
    else
        reach->places[at->newer].older = at->older;
}

static void reach_touch(struct lli_reach *reach, uint32_t place)
{
    struct lli_reach_place *at = &reach->places[place];

    at->used = reach->round;
    if (at->newer == REACH_NONE)
        return;
    reach_unlink(reach, place);
    reach_link(reach, place, at->needed);
}

/* ------------------------------------------------------------------------------------------ forget, evict */

static void reach_drop(struct lli_endpoint *endpoint, uint32_t place)
{
    struct lli_reach *reach = &endpoint->reach;
    const struct lli_address address = reach->peers.addresses[place];

    reach_unlink(reach, place);
    (void)lli_peers_remove(&reach->peers, &address, &place);
    reach->known--;
    reach->refused = 0;
    endpoint->transport->forget(endpoint->instance, &address);
}

void lli_reach_forget(struct lli_endpoint *endpoint, const struct lli_wire_address *wire)
{
    const struct lli_address address = reach_address(wire);
    uint32_t place;

    if (!lli_peers_get(&endpoint->reach.peers, &address, &place))
        return;
    endpoint->counters.addresses_forgotten++;
    reach_drop(endpoint, place);
}

static void reach_evicted(struct lli_endpoint *endpoint)
{
    struct lli_reach *reach = &endpoint->reach;

    endpoint->counters.addresses_evicted++;
    if (!reach->eviction_logged)
        lli_log(&endpoint->context->log, LLM_LEVEL_WARNING,
                "%s: receivers_max and sessions_max allow for %u addresses, and more are in "
                "use: each takes the place of the one used least recently; raise receivers_max of the "
                "channel opened first, or connections_max if it is of a connection or listener",
                endpoint->object, reach->peers.max);
    reach->eviction_logged = true;
}

/* Warns once that no address can make room for another: what is sent to that one is only counted. */
static void reach_full(struct lli_endpoint *endpoint)
{
    struct lli_reach *reach = &endpoint->reach;

    if (!reach->full_logged)
        lli_log(&endpoint->context->log, LLM_LEVEL_WARNING,
                "%s: receivers_max and sessions_max allow for %u addresses, and connections need those that "
                "could make room: packets to others are not sent; raise receivers_max of the channel opened "
                "first, or connections_max if it is of a connection or listener",
                endpoint->object, reach->peers.max);
    reach->full_logged = true;
}

/* Returns true if a connection needs an address, independent of members and sessions. */
static bool reach_is_needed(const struct lli_endpoint *endpoint, const struct lli_wire_address *wire)
{
    const struct lli_upcalls *upcalls = endpoint->context->upcalls;

    return upcalls != NULL && upcalls->needs(endpoint, wire);
}

/* Frees the least recently used entry, preferably an unneeded one. False: none can be freed. */
static bool reach_evict(struct lli_endpoint *endpoint)
{
    struct lli_reach *reach = &endpoint->reach;

    lli_endpoint_flush(endpoint);
    for (int needed = false; needed <= true && !endpoint->stuck; needed++) {
        for (int i = 0; i < REACH_TRIES && reach->lists[needed].oldest != REACH_NONE; i++) {
            const uint32_t place = reach->lists[needed].oldest;
            const struct lli_wire_address wire = reach_wire(&reach->peers.addresses[place]);

            if (reach_is_needed(endpoint, &wire)) {
                reach_touch(reach, place);
                reach->refused++;
                continue;
            }
            if (needed)
                reach_evicted(endpoint);
            else
                endpoint->counters.addresses_forgotten++;
            reach_drop(endpoint, place);
            return true;
        }
    }
    /*
     * Otherwise a later call may free one: none is tried while the transport is stuck, and a few at a time.
     */
    if (reach->refused >= reach->known)
        reach_full(endpoint);
    return false;
}

/* -------------------------------------------------------------------------------------------------- reach */

/* Records that packets cannot be sent to an address; number: errno, or 0. */
static void reach_failed(struct lli_endpoint *endpoint, const struct lli_address *address, int number)
{
    struct lli_reach *reach = &endpoint->reach;
    struct lli_reach_failure *unused = NULL;

    for (uint32_t i = 0; i < LLI_REACH_FAILURES; i++) {
        struct lli_reach_failure *failure = &reach->failures[i];

        if (failure->round != 0 && failure->address.size == address->size &&
            memcmp(failure->address.bytes, address->bytes, address->size) == 0) {
            failure->round = reach->round;
            return;
        }
        if (failure->round == 0 || reach->round - failure->round > LLI_REACH_PAUSE)
            unused = failure;
    }
    if (unused == NULL) {
        reach->failures_overflow = true;
        return;
    }
    *unused = (struct lli_reach_failure){.address = *address, .number = number, .round = reach->round};
    reach->failures_untold++;
}

/*
 * Records the use of an address that the transport has an entry for. False: there is no room here, so free
 * the transport's.
 */
static bool reach_used(struct lli_endpoint *endpoint, const struct lli_address *address, int error)
{
    struct lli_reach *reach = &endpoint->reach;
    struct lli_reach_place *at;
    uint32_t place;

    if (lli_peers_get(&reach->peers, address, &place)) {
        reach_touch(reach, place);
    } else {
        if (lli_peers_place(&reach->peers, address, &place) != 0 &&
            (!reach_evict(endpoint) || lli_peers_place(&reach->peers, address, &place) != 0))
            return false;
        reach->places[place] = (struct lli_reach_place){.used = reach->round};
        reach_link(reach, place, false);
        reach->known++;
        lli_endpoint_look_soon(endpoint);
    }
    at = &reach->places[place];
    if (error == LLM_OK)
        at->waits = 0;
    else if (at->waits == 0)
        at->waits = reach->round;
    else if (reach->round - at->waits >= REACH_PATIENCE)
        reach_failed(endpoint, address, EHOSTUNREACH);
    return true;
}

int lli_reach_peer(struct lli_endpoint *endpoint, const struct lli_wire_address *wire, lli_handle *handle)
{
    const struct lli_transport *transport = endpoint->transport;
    const struct lli_address address = reach_address(wire);
    int error = transport->peer(endpoint->instance, &address, handle);

    if (error == LLM_ELIMIT && transport->forget != NULL && reach_evict(endpoint))
        error = transport->peer(endpoint->instance, &address, handle);
    if (error == LLM_EINVAL) {
        reach_failed(endpoint, &address, 0);
        lli_endpoint_look_soon(endpoint);
    }
    if ((error != LLM_OK && error != LLM_EAGAIN) || transport->forget == NULL ||
        reach_used(endpoint, &address, error))
        return error;
    transport->forget(endpoint->instance, &address);
    return LLM_ELIMIT;
}

/* -------------------------------------------------------------------------------------------------- sweep */

/*
 * Counts departed members and ended sessions. Misses some whose transmitter or receiver was closed: the next
 * sweep finds these.
 */
static uint64_t reach_departed(const struct lli_endpoint *endpoint)
{
    uint64_t departed = 0;

    for (const struct llm_transmitter *t = endpoint->transmitters; t != NULL; t = t->next)
        departed += t->tx.counters.receivers_left + t->tx.counters.receivers_lost;
    for (const struct llm_receiver *r = endpoint->receivers; r != NULL; r = r->next)
        departed += r->counters.sessions_ended;
    return departed;
}

static void reach_mark(struct lli_reach *reach, const struct lli_wire_address *wire)
{
    const struct lli_address address = reach_address(wire);
    uint32_t place;

    if (wire->size > 0 && lli_peers_get(&reach->peers, &address, &place))
        reach->places[place].marked = true;
}

/* Marks the addresses of members and sessions. */
static void reach_mark_all(struct lli_endpoint *endpoint)
{
    for (const struct llm_transmitter *t = endpoint->transmitters; t != NULL; t = t->next) {
        const struct lli_members *members = &t->tx.members;

        for (uint32_t i = 0, left = members->count; left > 0; i++) {
            if (members->table[i].id == 0)
                continue;
            reach_mark(&endpoint->reach, &members->table[i].address);
            left--;
        }
    }
    for (const struct llm_receiver *r = endpoint->receivers; r != NULL; r = r->next)
        for (uint32_t i = 0; i < r->sessions_used; i++)
            if (r->sessions[i].state != LLI_RX_FREE)
                reach_mark(&endpoint->reach, &r->sessions[i].heartbeat.address);
}

/* Moves addresses of a list whose need changed to the other list, and clears the marks. */
static void reach_sort(struct lli_reach *reach, bool needed)
{
    uint32_t next;

    for (uint32_t place = reach->lists[needed].oldest; place != REACH_NONE; place = next) {
        const bool marked = reach->places[place].marked;

        next = reach->places[place].newer;
        reach->places[place].marked = false;
        if (marked == needed)
            continue;
        reach_unlink(reach, place);
        reach_link(reach, place, marked);
    }
}

/*
 * Frees unneeded addresses that were not used for some rounds: peers that are not members are answered, too,
 * more than once.
 */
static void reach_sweep(struct lli_endpoint *endpoint)
{
    struct lli_reach *reach = &endpoint->reach;
    uint32_t next;
    int forgotten = 0;

    lli_endpoint_flush(endpoint);
    if (endpoint->stuck)
        return;
    for (uint32_t place = reach->lists[false].oldest; place != REACH_NONE && forgotten < REACH_SWEEP_MAX;
         place = next) {
        const struct lli_wire_address wire = reach_wire(&reach->peers.addresses[place]);

        next = reach->places[place].newer;
        if (reach->round - reach->places[place].used < LLI_REACH_UNUSED_ROUNDS ||
            reach_is_needed(endpoint, &wire))
            continue;
        endpoint->counters.addresses_forgotten++;
        reach_drop(endpoint, place);
        forgotten++;
    }
}

/* ----------------------------------------------------------------------------------------------- failures */

#define REACH_SCOPE \
    "its scope may differ from this side's: give both link-local addresses, or both others, by interface="

static const struct reach_remedy {
    int number;
    enum llm_reason reason;
    const char *remedy;
} reach_remedies[] = {
    {0, LLM_REASON_ADDRESS,
     "give both sides interfaces with addresses of one family and network, by interface="},
    {EINVAL, LLM_REASON_ADDRESS, REACH_SCOPE},
    {EADDRNOTAVAIL, LLM_REASON_ADDRESS, REACH_SCOPE},
    {EPERM, LLM_REASON_FORBIDDEN, "a packet filter of this host forbids it; see 'nft list ruleset'"},
    {EACCES, LLM_REASON_FORBIDDEN,
     "a packet filter or route of this host forbids it; see 'nft list ruleset' and 'ip route'"},
    {ENETDOWN, LLM_REASON_NO_ROUTE, "the interface is down; 'ip link set up' brings it up"},
    {-1, LLM_REASON_NO_ROUTE,
     "add a route to it, or set interface= on a network that both sides have; see 'ip route get' and 'ip "
     "neigh'"},
};

static const struct reach_remedy *reach_remedy(int number)
{
    const struct reach_remedy *remedy = reach_remedies;

    while (remedy->number != number && remedy->number != -1)
        remedy++;
    return remedy;
}

/* Lists a transport and those below it, at any depth that a scheme can have. Returns their number. */
static int reach_layers(const struct lli_endpoint *endpoint, struct reach_layer *layers)
{
    const struct lli_transport *inner;
    const void *instance;
    int count = 1;

    layers[0] = (struct reach_layer){endpoint->transport, endpoint->instance};
    for (int at = 0; at < count; at++)
        for (int i = 0; layers[at].transport->inner != NULL && count < REACH_LAYERS &&
                        (inner = layers[at].transport->inner(layers[at].instance, i, &instance)) != NULL;
             i++)
            layers[count++] = (struct reach_layer){inner, (void *)(uintptr_t)instance};
    return count;
}

/*
 * Formats an address as its transport does; for a hybrid transport the network's text, which comes last,
 * wins.
 */
static void reach_text(const struct lli_endpoint *endpoint, const struct lli_address *address, char *text,
                       size_t size)
{
    struct reach_layer layers[REACH_LAYERS];
    const int count = reach_layers(endpoint, layers);

    text[0] = '\0';
    for (int i = 0; i < count; i++)
        if (layers[i].transport->describe != NULL)
            layers[i].transport->describe(address, text, size);
    for (size_t i = 0; text[0] == '\0' && i < address->size && 2 * i + 2 < size; i++)
        (void)snprintf(text + 2 * i, size - 2 * i, "%02x", address->bytes[i]);
}

static void reach_report_sessions(struct lli_endpoint *endpoint, const struct lli_reach_failure *failure,
                                  struct llm_event *event)
{
    for (struct llm_receiver *r = endpoint->receivers; r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->sessions_used && r->handlers.event != NULL; i++) {
            if (!lli_rx_is_followed(&r->sessions[i]) ||
                !reach_is(&failure->address, &r->sessions[i].heartbeat.address))
                continue;
            event->session = r->sessions[i].session;
            lli_sessions_report(r, event);
            endpoint->context->delivered++;
        }
    }
    for (struct llm_transmitter *t = endpoint->transmitters; t != NULL; t = t->next) {
        bool member = false;

        for (uint32_t i = 0, left = t->tx.members.count; left > 0; i++) {
            left -= t->tx.members.table[i].id != 0;
            member |= t->tx.members.table[i].id != 0 &&
                      reach_is(&failure->address, &t->tx.members.table[i].address);
        }
        if (!member || t->handlers.event == NULL)
            continue;
        event->session = t->tx.config.session;
        lli_transmitter_report(t, event);
        endpoint->context->delivered++;
    }
}

static void reach_report(struct lli_endpoint *endpoint, struct lli_reach_failure *failure)
{
    const struct reach_remedy *remedy = reach_remedy(failure->number);
    char text[80], why[96];
    struct llm_event event = {.kind = LLM_EVENT_UNREACHABLE, .reason = remedy->reason, .address = text};

    failure->reported = true;
    endpoint->counters.addresses_unreachable++;
    reach_text(endpoint, &failure->address, text, sizeof text);
    errno = failure->number;
    (void)snprintf(why, sizeof why, failure->number == 0 ? "address not reachable from this host" : "%m");
    lli_log(&endpoint->context->log, LLM_LEVEL_WARNING,
            "%s: packets to %s cannot be sent: %s; %s; losses in either "
            "direction are not repaired",
            endpoint->object, text, why, remedy->remedy);
    endpoint->context->in_handler = true;
    reach_report_sessions(endpoint, failure, &event);
    endpoint->context->in_handler = false;
}

/* Asks the transports for addresses that sends failed to. */
static void reach_request(struct lli_endpoint *endpoint)
{
    struct reach_layer layers[REACH_LAYERS];
    const int count = reach_layers(endpoint, layers);
    struct lli_address address;
    int number;

    for (int i = 0; i < count; i++)
        while (layers[i].transport->unreached != NULL &&
               layers[i].transport->unreached(layers[i].instance, &address, &number))
            reach_failed(endpoint, &address, number);
}

static void reach_report_all(struct lli_endpoint *endpoint)
{
    struct lli_reach *reach = &endpoint->reach;

    for (uint32_t i = 0; i < LLI_REACH_FAILURES && reach->failures_untold > 0; i++) {
        if (reach->failures[i].round == 0 || reach->failures[i].reported)
            continue;
        reach->failures_untold--;
        reach_report(endpoint, &reach->failures[i]);
    }
    if (reach->failures_overflow && !reach->failures_overflow_logged) {
        reach->failures_overflow_logged = true;
        lli_log(&endpoint->context->log, LLM_LEVEL_WARNING,
                "%s: packets cannot be sent to more than %d addresses: the others are not "
                "named",
                endpoint->object, LLI_REACH_FAILURES);
    }
}

/* --------------------------------------------------------------------------------------------------- look */

bool lli_reach_look(struct lli_endpoint *endpoint, lli_ns now)
{
    struct lli_reach *reach = &endpoint->reach;
    const uint64_t departed = reach_departed(endpoint);

    reach_request(endpoint);
    reach_report_all(endpoint);
    reach->round++;
    if (reach->known == 0 || now < reach->sweep_at ||
        (departed == reach->departed && reach->lists[false].oldest == REACH_NONE))
        return reach->known > 0;
    reach->departed = departed;
    reach->sweep_at = now + REACH_SWEEP * (reach->known / REACH_SHARE);
    reach_mark_all(endpoint);
    reach_sort(reach, true);
    reach_sort(reach, false);
    reach_sweep(endpoint);
    return reach->known > 0;
}
