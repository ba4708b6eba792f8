/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections over a transport that resolves addresses with a delay, as RDMA devices do, has room for few, or
 * never resolves them: both sides wait, for as long as they wait for a connection, and need no address longer
 * than that.
 */
#include "calls.h"

#include "connection/connection.h"
#include "config/registry.h"

#define MS UINT64_C(1000000)
#define NEVER UINT64_MAX
#define BRIEF LOOP "&connect_timeout_ns=100000000"

enum { KNOWN_MAX = 64 };

/* An address that was requested from an instance, and not forgotten. */
struct known {
    const void *instance;
    struct lli_address address;
    uint64_t since;
};

/* Loop transport, with delayed resolution of addresses. */
static struct lli_transport late;
static const struct lli_transport *inner;
static struct known known[KNOWN_MAX];
static uint32_t known_count, known_most;
static uint32_t known_max; /* maximum of addresses of an instance */
static uint64_t takes;     /* ns until an address is resolved */
static uint64_t made;      /* number of resolutions */

static bool known_is(const struct known *each, const void *instance, const struct lli_address *address)
{
    return each->instance == instance && each->address.size == address->size &&
           memcmp(each->address.bytes, address->bytes, address->size) == 0;
}

static struct known *known_find(const void *instance, const struct lli_address *address)
{
    for (uint32_t i = 0; i < known_count; i++)
        if (known_is(&known[i], instance, address))
            return &known[i];
    return NULL;
}

static uint32_t known_of(const void *instance)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < known_count; i++)
        count += known[i].instance == instance;
    return count;
}

static int late_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    const int status = inner->peer(instance, address, handle);
    struct known *each = known_find(instance, address);

    if (status != 0)
        return status;
    if (each == NULL) {
        if (known_of(instance) == known_max)
            return LLM_ELIMIT;
        assert_true(known_count < KNOWN_MAX);
        each = &known[known_count++];
        *each = (struct known){instance, *address, llm_clock()};
        made++;
        known_most = known_count > known_most ? known_count : known_most;
    }
    if (takes == NEVER || llm_clock() - each->since < takes) {
        *handle = UINT32_MAX / 2; /* an unused handle */
        return LLM_EAGAIN;
    }
    return 0;
}

static void late_forget(void *instance, const struct lli_address *address)
{
    struct known *each = known_find(instance, address);

    inner->forget(instance, address);
    if (each != NULL)
        *each = known[--known_count];
}

static int late_up(void **state)
{
    inner = lli_transport_find("loop");
    late = *inner;
    late.peer = late_peer;
    late.forget = late_forget;
    known_count = known_most = 0;
    known_max = KNOWN_MAX;
    takes = 20 * MS;
    made = 0;
    return sides_up(state);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, late_up, sides_down)

static void listen_late(const char *channel)
{
    listen_on(channel);
    listener->endpoint->transport = &late;
}

/* Connects; the request was sent, and the answer is for the next poll. */
static void connect_late(const char *channel)
{
    connect_to(channel);
    sides[CONNECTS].connection->endpoint->transport = &late;
}

static void poll_for(uint64_t ns)
{
    for (const uint64_t until = llm_clock() + ns; llm_clock() < until;)
        poll_all();
}

static void close_both(void)
{
    close_beside(&sides[CONNECTS].connection, &sides[LISTENS]);
    POLL_UNTIL(sides[LISTENS].disconnected);
    assert_int_equal(llm_connection_close(&sides[LISTENS].connection), 0);
}

/* --------------------------------------------------------------------------------------------------- late */

static void both_peers_wait_until_their_addresses_are_resolved(void **state)
{
    (void)state;
    listen_late(LOOP);
    connect_late(LOOP);
    poll_for(5 * MS);
    assert_int_equal(requests, 0);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
    exchange(500);
    assert_int_equal(requests, 1);
    assert_int_equal(known_count, 2);
    assert_int_equal(made, 2);
    close_both();
    POLL_UNTIL(known_count == 0); /* when the CLOSE was answered */
    assert_int_equal(counter_of(sides[LISTENS].context, "requests_full"), 0);
}

static void a_refusal_waits_until_the_address_is_resolved(void **state)
{
    (void)state;
    answer = 403;
    listen_late(LOOP);
    connect_late(LOOP);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_REFUSED);
    assert_int_equal(sides[CONNECTS].last.first, 403);
    assert_int_equal(requests, 1);
    POLL_UNTIL(known_count == 0);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
}

static void a_caller_beyond_the_limit_gets_a_refusal(void **state)
{
    struct llm_connection *first;

    (void)state;
    listen_late(LOOP "&connections_max=1");
    connect_late(LOOP);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
    first = sides[CONNECTS].connection;
    /* From another instance, which is unknown to the listener. */
    sides[CONNECTS].connection = NULL;
    connect_to(LOOP "&rcvbuf_bytes=2M");
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_FULL);
    assert_int_equal(made, 3);
    POLL_UNTIL(known_count == 2);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
    sides[CONNECTS].connection = first;
    close_both();
}

/* The caller's address stays known until the application has answered and the answer was sent. */
static void a_late_answer_of_the_application_reaches_the_caller(void **state)
{
    const struct llm_connection_handlers handlers = handlers_of(&sides[LISTENS]);

    (void)state;
    answer = LLM_EAGAIN;
    listen_late(LOOP);
    connect_late(LOOP);
    POLL_UNTIL(requests == 1);
    assert_int_equal(llm_listener_accept(listener, caller_id, &handlers), LLM_OK);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
    exchange(10);
    /* Two connections of one instance: the end of one does not affect the other. */
    connect_to(LOOP);
    POLL_UNTIL(requests == 2);
    assert_int_equal(llm_listener_refuse(listener, caller_id, 7), LLM_OK);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.first, 7);
    assert_int_equal(made, 2);
    assert_int_equal(known_count, 2);
}

static void a_connect_without_an_answer_releases_its_address(void **state)
{
    (void)state;
    answer = LLM_EAGAIN;
    listen_late(BRIEF);
    connect_late(BRIEF);
    POLL_UNTIL(requests == 1);
    assert_int_equal(known_count, 1);
    POLL_UNTIL(counter_of(sides[LISTENS].context, "requests_expired") == 1 && sides[CONNECTS].disconnected);
    assert_int_equal(known_count, 0);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_UNANSWERED);
}

/* -------------------------------------------------------------------------------------------------- never */

static void an_unreachable_caller_is_not_shown_and_given_up(void **state)
{
    (void)state;
    takes = NEVER;
    listen_late(BRIEF);
    connect_to(BRIEF);
    POLL_UNTIL(sides[CONNECTS].disconnected &&
               counter_of(sides[LISTENS].context, "requests_unreachable") == 1);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_UNANSWERED);
    assert_int_equal(requests, 0);
    assert_int_equal(known_count, 0);
    assert_int_equal(counter_of(sides[LISTENS].context, "requests_full"), 0);
}

static void a_caller_gives_up_an_unreachable_listener(void **state)
{
    const uint64_t begin = llm_clock();

    (void)state;
    takes = NEVER;
    listen_on(BRIEF);
    connect_late(BRIEF);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_true(llm_clock() - begin >= 100 * MS);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_UNANSWERED);
    assert_non_null(strstr(logged, "could not be resolved"));
    assert_int_equal(counter_of(sides[CONNECTS].context, "packets_unreachable"), 1);
    assert_int_equal(known_count, 0);
    POLL_UNTIL(counter_of(sides[LISTENS].context, "connections_unconfirmed") == 1);
    assert_int_equal(sides[LISTENS].connected + sides[LISTENS].disconnected, 0);
}

static void an_unsendable_answer_is_given_up(void **state)
{
    (void)state;
    answer = LLM_EAGAIN;
    listen_late(BRIEF);
    connect_to(BRIEF);
    POLL_UNTIL(requests == 1);
    takes = NEVER;
    assert_int_equal(llm_listener_refuse(listener, caller_id, 7), LLM_OK);
    POLL_UNTIL(counter_of(sides[LISTENS].context, "refusals_dropped") >= 1 && known_count == 0);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_UNANSWERED);
}

/* ------------------------------------------------------------------------------------------------- closed */

static void a_connection_closed_during_resolution_leaves_no_address(void **state)
{
    (void)state;
    takes = NEVER;
    listen_on(BRIEF);
    connect_late(BRIEF);
    POLL_UNTIL(known_count == 1);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
    assert_int_equal(known_count, 0);
    POLL_UNTIL(counter_of(sides[LISTENS].context, "connections_unconfirmed") == 1);
}

static void a_listener_closed_during_resolution_leaves_no_address(void **state)
{
    const struct lli_endpoint *endpoint;

    (void)state;
    listen_late(LOOP);
    connect_late(LOOP);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
    endpoint = listener->endpoint;
    /* The connection needs the endpoint. */
    connect_to(LOOP "&rcvbuf_bytes=2M&connect_timeout_ns=100000000");
    takes = NEVER;
    POLL_UNTIL(known_of(endpoint->instance) == 2);
    assert_int_equal(llm_listener_close(&listener), LLM_OK);
    assert_int_equal(known_of(endpoint->instance), 1);
    takes = 0;
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_UNANSWERED);
}

/*
 * Two listeners of one group accept: the caller uses the first ACCEPT and closes the other, whose answer ends
 * nothing.
 */
static void the_accept_of_a_second_listener_has_no_effect(void **state)
{
    struct llm_context *context = context_make();
    struct llm_listener_handlers handlers;
    struct llm_listener *first, *other;

    (void)state;
    takes = 5 * MS;
    llm_listener_handlers_init(&handlers);
    handlers.arg = &sides[LISTENS];
    handlers.connect = on_request;
    listen_on(LOOP);
    first = listener;
    assert_int_equal(llm_listener_open(context, LOOP, NULL, &handlers, &other), LLM_OK);
    connect_late(LOOP);
    for (const uint64_t until = llm_clock() + WAIT_NS;
         llm_clock() < until && (made < 2 || known_count > 1 || !sides[CONNECTS].connected);) {
        listener = first;
        poll_all();
        listener = other;
        assert_true(llm_poll(context) >= 0);
    }
    assert_int_equal(requests, 2);
    assert_int_equal(made, 2);
    assert_int_equal(known_count, 1);
    for (const uint64_t until = llm_clock() + 100 * MS; llm_clock() < until;) {
        poll_all();
        assert_true(llm_poll(context) >= 0);
    }
    assert_int_equal(sides[CONNECTS].connected, 1);
    assert_int_equal(sides[CONNECTS].disconnected, 0);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

/* --------------------------------------------------------------------------------------------------- full */

/* The table has room for one address: each caller gets it when the previous one has left. */
static void callers_in_turn_share_one_place_of_the_address_table(void **state)
{
    (void)state;
    takes = MS / 4;
    listen_late(LOOP "&connections_max=3");
    known_max = 1;
    assert_int_equal(llm_context_close(&sides[CONNECTS].context), LLM_OK);
    for (int i = 1; i <= 30; i++) {
        struct side *last = &sides[CONNECTS];

        *last = (struct side){.context = context_make()};
        connect_late(LOOP);
        POLL_UNTIL(sides[LISTENS].connected == i && last->connected == 1);
        close_beside(&last->connection, &sides[LISTENS]);
        POLL_UNTIL(sides[LISTENS].disconnected == 1);
        assert_int_equal(llm_connection_close(&sides[LISTENS].connection), 0);
        POLL_UNTIL(known_count == 0);
        sides[LISTENS].disconnected = 0;
        assert_int_equal(llm_context_close(&last->context), LLM_OK);
    }
    assert_int_equal(known_most, 2);
    sides[CONNECTS].context = context_make();
}

static void a_caller_waits_while_the_address_table_is_full(void **state)
{
    struct side *last = &sides[CONNECTS];
    struct side first;

    (void)state;
    takes = MS;
    known_max = 1;
    listen_late(LOOP);
    connect_late(LOOP);
    POLL_UNTIL(sides[LISTENS].connected && last->connected);
    first = *last;
    sides[CONNECTS] = (struct side){.context = context_make()};
    connect_to(LOOP);
    poll_for(20 * MS);
    assert_int_equal(requests, 1);
    assert_int_equal(last->disconnected, 0);
    {
        struct llm_connection *closing = sides[LISTENS].connection;

        close_beside(&closing, &first);
        assert_int_equal(llm_context_close(&first.context), LLM_OK);
    }
    POLL_UNTIL(sides[LISTENS].connected == 2 && last->connected);
    assert_int_equal(requests, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_peers_wait_until_their_addresses_are_resolved),
        TEST(a_refusal_waits_until_the_address_is_resolved),
        TEST(a_caller_beyond_the_limit_gets_a_refusal),
        TEST(a_late_answer_of_the_application_reaches_the_caller),
        TEST(a_connect_without_an_answer_releases_its_address),
        TEST(an_unreachable_caller_is_not_shown_and_given_up),
        TEST(a_caller_gives_up_an_unreachable_listener),
        TEST(an_unsendable_answer_is_given_up),
        TEST(a_connection_closed_during_resolution_leaves_no_address),
        TEST(a_listener_closed_during_resolution_leaves_no_address),
        TEST(the_accept_of_a_second_listener_has_no_effect),
        TEST(callers_in_turn_share_one_place_of_the_address_table),
        TEST(a_caller_waits_while_the_address_table_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
