/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that an endpoint stores, forgets and reports, over a transport with a small table. */
#include "log_lines.h"

#include <errno.h>
#include <stdio.h>

#include "engine/objects.h"

#define CHANNEL_OF(receivers_max)                                                                       \
    "loop://reach:1?receivers_max=" receivers_max                                                       \
    "&sessions_max=2&history_bytes=1M&history_packets=1024&message_bytes_max=64K&topics_max=8&mtu=1500" \
    "&linger_ns=0"
#define CHANNEL CHANNEL_OF("6")

/* Places by the options of the channel: of CHANNEL, and of one with more places than are tried at a time. */
enum { PLACES = 8, PLACES_MORE = 24, ADDRESSES = 400 };

static char channel_more[] = CHANNEL_OF("22");

#define SECOND ((lli_ns)1000000000)

/* In place of loop; addresses are numbers. */
static struct {
    struct lli_transport transport;
    bool known[ADDRESSES];
    uint32_t places;
    uint32_t count;
    uint64_t forgotten;
    int answer; /* result of peer() for an unknown address */
    int failing[ADDRESSES];
    int failing_count;
    int number; /* errno of sends to failing addresses */
    bool stuck;
} net;

static struct {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct lli_endpoint *endpoint;
    const struct lli_transport *loop;
    lli_ns now;
    struct llm_event event;
    char address[32];
    int events;
} world;

static struct lli_wire_address wire_of(uint32_t number)
{
    struct lli_wire_address wire = {.size = 4};

    memcpy(wire.bytes, &number, sizeof number);
    return wire;
}

static uint32_t number_of(const struct lli_address *address)
{
    uint32_t number;

    assert_int_equal(address->size, sizeof number);
    memcpy(&number, address->bytes, sizeof number);
    assert_true(number < ADDRESSES);
    return number;
}

static int net_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    const uint32_t number = number_of(address);

    (void)instance;
    if (net.answer == LLM_EINVAL)
        return net.answer;
    if (!net.known[number] && net.count == net.places)
        return LLM_ELIMIT;
    net.count += !net.known[number];
    net.known[number] = true;
    *handle = number;
    return net.answer;
}

static void net_forget(void *instance, const struct lli_address *address)
{
    (void)instance;
    net.count -= net.known[number_of(address)];
    net.known[number_of(address)] = false;
    net.forgotten++;
}

static int net_flush(void *instance)
{
    return net.stuck ? LLM_EAGAIN : world.loop->flush(instance);
}

static bool net_unreached(void *instance, struct lli_address *address, int *number)
{
    struct lli_wire_address wire;

    (void)instance;
    if (net.failing_count == 0)
        return false;
    wire = wire_of((uint32_t)net.failing[--net.failing_count]);
    *address = (struct lli_address){.size = wire.size};
    memcpy(address->bytes, wire.bytes, sizeof address->bytes);
    *number = net.number;
    return true;
}

static void net_describe(const struct lli_address *address, char *text, size_t size)
{
    (void)snprintf(text, size, "host %u", number_of(address));
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    world.event = *event;
    (void)snprintf(world.address, sizeof world.address, "%s", event->address);
    world.events++;
}

static int set_up(void **state)
{
    struct llm_transmitter_handlers handlers;
    struct llm_context_options options;

    memset(&net, 0, sizeof net);
    net.number = ENETUNREACH;
    memset(&world, 0, sizeof world);
    log_text[0] = '\0';
    llm_context_options_init(&options);
    options.stats_directory = "";
    options.log = log_keep;
    assert_int_equal(llm_context_open(&options, &world.context), LLM_OK);
    llm_transmitter_handlers_init(&handlers);
    handlers.event = on_event;
    assert_int_equal(llm_transmitter_open(world.context, *state == NULL ? CHANNEL : *state, NULL, &handlers,
                                          &world.transmitter),
                     LLM_OK);
    world.endpoint = world.transmitter->endpoint;
    net.places = *state == NULL ? PLACES : PLACES_MORE;
    world.loop = world.endpoint->transport;
    net.transport = *world.loop;
    net.transport.peer = net_peer;
    net.transport.forget = net_forget;
    net.transport.flush = net_flush;
    net.transport.unreached = net_unreached;
    net.transport.describe = net_describe;
    world.endpoint->transport = &net.transport;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world.context->upcalls = NULL;
    world.endpoint->transport = world.loop;
    assert_true(llm_transmitter_close(&world.transmitter) >= 0); /* members that never existed */
    assert_int_equal(llm_context_close(&world.context), LLM_OK);
    return 0;
}

static int reach(uint32_t number)
{
    const struct lli_wire_address wire = wire_of(number);
    lli_handle handle = UINT32_MAX;
    const int error = lli_reach_peer(world.endpoint, &wire, &handle);

    assert_true(error != LLM_OK || handle == number);
    return error;
}

static void look(void)
{
    (void)lli_reach_look(world.endpoint, world.now += SECOND);
}

static void member_add(uint32_t number)
{
    struct lli_members *members = &world.transmitter->tx.members;
    const uint32_t place = lli_members_add(members, number + 1);

    assert_int_not_equal(place, LLI_MEMBER_NONE);
    members->table[place].address = wire_of(number);
}

static void member_leaves(uint32_t number)
{
    lli_tx_leave(&world.transmitter->tx, number + 1, 0);
}

/* --------------------------------------------------------------------------------------------- forgetting */

static void the_least_recently_used_address_makes_room(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < ADDRESSES; number++) {
        assert_int_equal(reach(number), LLM_OK);
        assert_int_equal(reach(0), LLM_OK);
        assert_true(net.count <= PLACES && net.known[0]);
        assert_true(number < PLACES ||
                    (net.known[number - (PLACES - 2)] && !net.known[number - (PLACES - 1)]));
    }
    assert_int_equal(world.endpoint->counters.addresses_forgotten, ADDRESSES - PLACES);
    assert_int_equal(world.endpoint->counters.addresses_evicted, 0);
    assert_string_equal(log_text, "");
}

static void addresses_of_departed_members_are_forgotten(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < 6; number++) {
        member_add(number);
        assert_int_equal(reach(number), LLM_OK);
    }
    for (int i = 0; i < 5; i++)
        look();
    assert_int_equal(net.count, 6);
    for (uint32_t number = 0; number < 4; number++)
        member_leaves(number);
    for (int i = 0; i < LLI_REACH_UNUSED_ROUNDS; i++)
        look();
    assert_int_equal(net.count, 2);
    assert_true(net.known[4] && net.known[5]);
    assert_int_equal(world.endpoint->counters.addresses_forgotten, 4);
}

/* A peer that is answered once in a few seconds, and is no member, keeps its place. */
static void an_address_in_use_is_not_forgotten_between_two_uses(void **state)
{
    (void)state;
    assert_int_equal(reach(1), LLM_OK);
    for (int use = 0; use < 5; use++) {
        assert_int_equal(reach(0), LLM_OK);
        for (int i = 1; i < LLI_REACH_UNUSED_ROUNDS; i++)
            look();
        assert_true(net.known[0]);
    }
    assert_false(net.known[1]);
    assert_int_equal(world.endpoint->counters.addresses_forgotten, 1);
}

/* Members that stay need their addresses, however many others are answered once. */
static void an_unneeded_address_is_replaced_before_a_needed_address(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < 6; number++) {
        member_add(number);
        assert_int_equal(reach(number), LLM_OK);
    }
    look();
    for (uint32_t number = 6; number < ADDRESSES; number++)
        assert_int_equal(reach(number), LLM_OK);
    for (uint32_t number = 0; number < 6; number++)
        assert_true(net.known[number]);
    assert_int_equal(world.endpoint->counters.addresses_evicted, 0);
}

/*
 * Several transmitters share an endpoint: together they may have more members than the options of the first
 * allow for.
 */
static void needed_addresses_beyond_the_places_take_turns(void **state)
{
    struct llm_transmitter *other;

    (void)state;
    assert_int_equal(llm_transmitter_open(world.context, CHANNEL, NULL, NULL, &other), LLM_OK);
    for (uint32_t number = 0; number < 12; number++) {
        struct lli_members *members = number < 6 ? &world.transmitter->tx.members : &other->tx.members;
        const uint32_t place = lli_members_add(members, number + 1);

        members->table[place].address = wire_of(number);
    }
    for (int round = 0; round < 10; round++) {
        for (uint32_t number = 0; number < 12; number++)
            assert_int_equal(reach(number), LLM_OK);
        look();
    }
    assert_true(world.endpoint->counters.addresses_evicted > 0);
    assert_int_equal(logged_count("used least recently"), 1);
    assert_true(llm_transmitter_close(&other) >= 0);
}

static uint32_t unneeded; /* the address that no connection needs */

static bool need(const struct lli_endpoint *endpoint, const struct lli_wire_address *wire)
{
    const struct lli_wire_address other = wire_of(unneeded);

    (void)endpoint;
    return memcmp(wire->bytes, other.bytes, other.size) != 0;
}

static const struct lli_upcalls connections = {.needs = need};

/* Connections have handles of their addresses, so these stay. */
static void addresses_that_connections_need_make_no_room_which_is_logged_once(void **state)
{
    (void)state;
    world.context->upcalls = &connections;
    unneeded = ADDRESSES;
    for (uint32_t number = 0; number < PLACES; number++)
        assert_int_equal(reach(number), LLM_OK);
    assert_string_equal(log_text, "");
    for (uint32_t number = PLACES; number < 3 * PLACES; number++)
        assert_int_equal(reach(number), LLM_ELIMIT);
    assert_int_equal(logged_count("\n"), 1);
    assert_int_equal(logged_count(world.endpoint->object), 1);
    assert_int_equal(logged_count("allow for 8 addresses"), 1);
    assert_int_equal(logged_count("raise receivers_max of the channel opened first, or connections_max"), 1);
    /* Those that have a place are reached, and a connection that ends makes room. */
    for (uint32_t number = 0; number < PLACES; number++)
        assert_int_equal(reach(number), LLM_OK);
    assert_int_equal(net.forgotten, 0);
    world.context->upcalls = NULL;
    assert_int_equal(reach(PLACES), LLM_OK);
    assert_int_equal(logged_count("\n"), 1);
}

/* A call tries some of the addresses, so a later one finds that which can make room. */
static void an_address_not_tried_yet_may_make_room_which_is_not_logged(void **state)
{
    (void)state;
    world.context->upcalls = &connections;
    unneeded = 20;
    for (uint32_t number = 0; number < PLACES_MORE; number++)
        assert_int_equal(reach(number), LLM_OK);
    assert_int_equal(reach(100), LLM_ELIMIT);
    assert_int_equal(reach(100), LLM_ELIMIT);
    assert_int_equal(reach(100), LLM_OK);
    assert_false(net.known[unneeded]);
    assert_string_equal(log_text, "");
    /* All of them are tried again before it is logged. */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(reach(101), LLM_ELIMIT);
        assert_int_equal(logged_count("\n"), i >= 2);
    }
    assert_int_equal(logged_count("allow for 24 addresses"), 1);
}

/* The queue of the transport still has packets to the addresses: that passes, so it is not logged. */
static void a_stuck_transport_makes_no_room_which_is_not_logged(void **state)
{
    static const uint8_t packet[1];
    const struct lli_out out = {.data = packet, .size = sizeof packet, .to = world.transmitter->group};

    (void)state;
    for (uint32_t number = 0; number < PLACES; number++)
        assert_int_equal(reach(number), LLM_OK);
    net.stuck = true;
    assert_int_equal(lli_endpoint_post(world.endpoint, &out, 1), 1);
    assert_int_equal(reach(PLACES), LLM_ELIMIT);
    assert_true(world.endpoint->stuck);
    assert_string_equal(log_text, "");
    net.stuck = false;
    assert_int_equal(reach(PLACES), LLM_OK);
    assert_string_equal(log_text, "");
}

/* -------------------------------------------------------------------------------------------- unreachable */

static void an_address_with_failing_sends_is_logged_and_reported_once(void **state)
{
    (void)state;
    member_add(3);
    for (int i = 0; i < 5; i++) {
        net.failing[net.failing_count++] = 3;
        look();
    }
    assert_int_equal(logged_count("host 3"), 1);
    assert_int_equal(logged_count("Network is unreachable"), 1);
    assert_int_equal(world.events, 1);
    assert_int_equal(world.event.kind, LLM_EVENT_UNREACHABLE);
    assert_int_equal(world.event.reason, LLM_REASON_NO_ROUTE);
    assert_true(world.event.session == world.transmitter->tx.config.session);
    assert_string_equal(world.address, "host 3");
    assert_int_equal(world.endpoint->counters.addresses_unreachable, 1);
}

/* Each cause has a remedy of its own. */
static void the_remedy_follows_from_the_error(void **state)
{
    static const char scope[] =
        "its scope may differ from this side's: give both link-local addresses, or both "
        "others, by interface=";
    static const struct {
        int number;
        enum llm_reason reason;
        const char *remedy;
    } causes[] = {
        {EINVAL, LLM_REASON_ADDRESS, scope},
        {EADDRNOTAVAIL, LLM_REASON_ADDRESS, scope},
        {EPERM, LLM_REASON_FORBIDDEN, "a packet filter of this host forbids it; see 'nft list ruleset'"},
        {EACCES, LLM_REASON_FORBIDDEN, "a packet filter or route of this host forbids it"},
        {ENETDOWN, LLM_REASON_NO_ROUTE, "the interface is down; 'ip link set up' brings it up"},
        {ENETUNREACH, LLM_REASON_NO_ROUTE, "add a route to it, or set interface="},
        {EHOSTUNREACH, LLM_REASON_NO_ROUTE, "add a route to it, or set interface="},
    };

    (void)state;
    member_add(3);
    member_add(4);
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        world.endpoint->reach.failures_untold = 0;
        memset(world.endpoint->reach.failures, 0, sizeof world.endpoint->reach.failures);
        log_text[0] = '\0';
        world.events = 0;
        net.number = causes[i].number;
        for (int round = 0; round < 3; round++) {
            net.failing[net.failing_count++] = 3;
            net.failing[net.failing_count++] = 4;
            look();
            assert_int_equal(world.event.reason, causes[i].reason);
        }
        assert_int_equal(logged_count("packets to host 3 cannot be sent"), 1);
        assert_int_equal(logged_count("packets to host 4 cannot be sent"), 1);
        assert_int_equal(logged_count(causes[i].remedy), 2);
        assert_int_equal(logged_count(strerror(causes[i].number)), 2);
        assert_int_equal(world.events, 2);
    }
}

/* The peer is unknown: the log names the address, and no session gets an event. */
static void an_address_of_no_session_is_only_logged(void **state)
{
    (void)state;
    net.failing[net.failing_count++] = 7;
    look();
    assert_int_equal(logged_count("host 7"), 1);
    assert_int_equal(world.events, 0);
}

static void the_lines_about_unreachable_addresses_are_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < ADDRESSES; i++)
        net.failing[net.failing_count++] = i;
    look();
    look();
    assert_int_equal(logged_count("packets to host"), LLI_REACH_FAILURES);
    assert_int_equal(logged_count("not named"), 1);
}

static void an_invalid_address_is_reported(void **state)
{
    (void)state;
    member_add(9);
    net.answer = LLM_EINVAL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(reach(9), LLM_EINVAL);
        look();
    }
    assert_int_equal(world.events, 1);
    assert_int_equal(world.event.reason, LLM_REASON_ADDRESS);
    assert_int_equal(net.count, 0);
}

static void an_address_unresolved_for_long_is_reported(void **state)
{
    (void)state;
    member_add(9);
    net.answer = LLM_EAGAIN;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(reach(9), LLM_EAGAIN);
        look();
        assert_int_equal(world.events, 0);
    }
    assert_int_equal(reach(9), LLM_EAGAIN);
    look();
    assert_int_equal(world.events, 1);
    assert_int_equal(world.event.reason, LLM_REASON_NO_ROUTE);
}

static void an_address_resolved_in_time_is_not_reported(void **state)
{
    (void)state;
    member_add(9);
    for (int i = 0; i < 8; i++) {
        net.answer = i % 3 == 0 ? LLM_OK : LLM_EAGAIN;
        (void)reach(9);
        look();
    }
    assert_int_equal(world.events, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(the_least_recently_used_address_makes_room),
        TEST(addresses_of_departed_members_are_forgotten),
        TEST(an_address_in_use_is_not_forgotten_between_two_uses),
        TEST(an_unneeded_address_is_replaced_before_a_needed_address),
        TEST(needed_addresses_beyond_the_places_take_turns),
        TEST(addresses_that_connections_need_make_no_room_which_is_logged_once),
        cmocka_unit_test_prestate_setup_teardown(an_address_not_tried_yet_may_make_room_which_is_not_logged,
                                                 set_up, tear_down, channel_more),
        TEST(a_stuck_transport_makes_no_room_which_is_not_logged),
        TEST(an_address_with_failing_sends_is_logged_and_reported_once),
        TEST(the_remedy_follows_from_the_error),
        TEST(an_address_of_no_session_is_only_logged),
        TEST(the_lines_about_unreachable_addresses_are_bounded),
        TEST(an_invalid_address_is_reported),
        TEST(an_address_unresolved_for_long_is_reported),
        TEST(an_address_resolved_in_time_is_not_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
