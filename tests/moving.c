/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions between two hosts, over the public interface, while addresses change or the return path is
 * missing: losses are repaired, or the application learns the reason. Needs root, for network namespaces.
 *
 * moving SCHEME, such as udp or xdp.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llm/llm.h>

#include "hosts.h"
#include "network.h"
#include "patience.h"
#include "rest.h"

#define GROUP "239.193.7.8:17008"
/* Losses are requested from the latest announced address. None is given up while a test waits. */
#define OPTIONS                                                                                            \
    "interface=" HOSTS_INTERFACE "&linger_ns=0&history_bytes=4M&reorder_bytes=4M&heartbeat_ns_max=5000000" \
    "&nak_giveup_ns=3600000000000"
#define LOSSES "&impair_loss_ppm=200000"
#define PATIENCE_NS patience(20000000000)
#define SOME_LOOKS_NS 2500000000 /* endpoints look at their transports about once a second */

static const char *scheme;
static char log_text[65536];

static void log_keep(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    if (level <= LLM_LEVEL_WARNING)
        (void)snprintf(log_text + strlen(log_text), sizeof log_text - strlen(log_text), "%s\n", text);
}

static int logged_count(const char *text)
{
    int count = 0;

    for (const char *at = log_text; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static struct {
    int hosts[2];
    struct llm_context *from;
    struct llm_context *to;
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_topic *topic;
    uint64_t sent;
    uint64_t delivered;
    uint64_t lost;
    int unreachable; /* events */
    uint64_t session;
    enum llm_reason reason;
    char address[80];
} world;

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    assert_true(message->number == world.delivered + world.lost);
    world.delivered++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_GAP)
        world.lost += event->last + 1 - event->first;
    if (event->kind != LLM_EVENT_UNREACHABLE)
        return;
    world.unreachable++;
    world.session = event->session;
    world.reason = event->reason;
    (void)snprintf(world.address, sizeof world.address, "%s", event->address);
}

static struct llm_context *context_of(void)
{
    struct llm_context_options options;
    struct llm_context *context;

    llm_context_options_init(&options);
    options.stats_directory = "";
    options.log = log_keep;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    return context;
}

/* Runs a command on a host, as an operator does. */
static void on_host(int host, const char *command)
{
    hosts_enter_again(world.hosts[host]);
    assert_true(network_command(command));
    hosts_leave();
}

static void address_set(int host, const char *address)
{
    char text[160];

    (void)snprintf(text, sizeof text, "ip -4 address flush dev llm0 && ip address add %s dev llm0", address);
    on_host(host, text);
}

static void scene_open_with(const char *transmitter_at, const char *receiver_at, const char *decorator,
                            const char *options)
{
    char channel[512];
    struct llm_transmitter_handlers sending;
    struct llm_receiver_handlers handlers;

    for (int i = 0; i < 2; i++)
        on_host(i, "ip link set llm0 mtu 1500");
    address_set(0, transmitter_at);
    address_set(1, receiver_at);
    (void)snprintf(channel, sizeof channel, "%s%s://" GROUP "?" OPTIONS "%s", decorator, scheme, options);
    log_text[0] = '\0';
    world.sent = world.delivered = world.lost = 0;
    world.unreachable = 0;
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    llm_transmitter_handlers_init(&sending);
    sending.event = on_event;
    hosts_enter_again(world.hosts[0]);
    world.from = context_of();
    assert_int_equal(llm_transmitter_open(world.from, channel, NULL, &sending, &world.transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(world.transmitter, "t", 0, &world.topic), LLM_OK);
    hosts_enter_again(world.hosts[1]);
    world.to = context_of();
    assert_int_equal(llm_receiver_open(world.to, channel, NULL, &handlers, &world.receiver), LLM_OK);
    assert_int_equal(llm_receiver_subscribe(world.receiver, "*"), LLM_OK);
    hosts_leave();
}

static void scene_open(const char *transmitter_at, const char *receiver_at)
{
    scene_open_with(transmitter_at, receiver_at, "impair+", LOSSES);
}

static void scene_close(void)
{
    assert_int_equal(llm_context_close(&world.from), LLM_OK);
    assert_int_equal(llm_context_close(&world.to), LLM_OK);
}

static void poll_both(void)
{
    const int from = llm_poll(world.from);
    const int to = llm_poll(world.to);

    assert_true(from >= 0 && to >= 0);
    rest_after(from + to);
}

static void send_some(int count)
{
    static const char text[1000] = "a message";

    for (int i = 0; i < count; i++) {
        assert_int_equal(llm_send(world.topic, text, sizeof text, 0), LLM_OK);
        world.sent++;
        poll_both();
    }
}

static void await_delivery(void)
{
    const uint64_t give_up_at = llm_clock() + PATIENCE_NS;

    while (world.delivered + world.lost < world.sent) {
        poll_both();
        if (llm_clock() > give_up_at)
            fail_msg("%llu of %llu messages were delivered: %s", (unsigned long long)world.delivered,
                     (unsigned long long)world.sent, log_text);
    }
    assert_int_equal(world.lost, 0);
}

static void poll_some_looks(void)
{
    for (const uint64_t until = llm_clock() + SOME_LOOKS_NS; llm_clock() < until;)
        poll_both();
}

static uint64_t counter(const struct llm_context *context, const char *name)
{
    uint64_t value = 0;

    assert_int_equal(llm_context_counter(context, name, &value), LLM_OK);
    return value;
}

static void await_counter(const struct llm_context *context, const char *name, uint64_t least)
{
    const uint64_t give_up_at = llm_clock() + PATIENCE_NS;

    while (counter(context, name) < least) {
        poll_both();
        if (llm_clock() > give_up_at)
            fail_msg("%s is %llu, not %llu: %s", name, (unsigned long long)counter(context, name),
                     (unsigned long long)least, log_text);
    }
}

static void await_member(void)
{
    const uint64_t give_up_at = llm_clock() + PATIENCE_NS;

    while (llm_transmitter_receivers(world.transmitter) == 0) {
        poll_both();
        assert_true(llm_clock() < give_up_at);
    }
}

static void await_logged(const char *text, int count)
{
    const uint64_t give_up_at = llm_clock() + PATIENCE_NS;

    while (logged_count(text) < count) {
        poll_both();
        if (llm_clock() > give_up_at)
            fail_msg("'%s' is not in the log %d times: %s", text, count, log_text);
    }
}

static void losses_are_repaired_after_the_transmitter_has_moved(void **state)
{
    (void)state;
    scene_open("10.77.0.1/24", "10.77.0.2/24");
    send_some(200);
    await_delivery();
    address_set(0, "10.77.0.31/24");
    send_some(20);
    await_logged("10.77.0.31", 1);
    send_some(200);
    await_delivery();
    scene_close();
}

static void losses_are_repaired_after_the_receiver_has_moved(void **state)
{
    (void)state;
    scene_open("10.77.0.1/24", "10.77.0.2/24");
    send_some(200);
    await_delivery();
    address_set(1, "10.77.0.32/24");
    send_some(20);
    await_logged("10.77.0.32", 1);
    send_some(200);
    await_delivery();
    scene_close();
}

/* Receivers refuse packets that announce an address of another host than their source; impair+ does not. */
static void packets_come_from_the_announced_address_after_a_move(void **state)
{
    (void)state;
    scene_open_with("10.77.0.1/24", "10.77.0.2/24", "", "");
    send_some(20);
    await_delivery();
    await_member();
    for (int host = 0; host < 2; host++) {
        const char *to = host == 0 ? "10.77.0.31" : "10.77.0.32";
        char text[40];

        (void)snprintf(text, sizeof text, "%s/24", to);
        address_set(host, text);
        await_logged(to, 1);
        poll_some_looks();
        send_some(20);
        await_delivery();
    }
    assert_int_equal(counter(world.from, "packets_misaddressed"), 0);
    assert_int_equal(counter(world.to, "packets_misaddressed"), 0);
    scene_close();
}

/* Trains are refused at once, packets until the MTU is checked; all messages arrive in the end. */
static void losses_are_repaired_while_the_mtu_is_too_small_and_after(void **state)
{
    (void)state;
    scene_open("10.77.0.1/24", "10.77.0.2/24");
    send_some(200);
    await_delivery();
    on_host(0, "ip link set llm0 mtu 900");
    send_some(100);
    await_logged("in fragments", 1);
    send_some(100);
    await_delivery();
    on_host(0, "ip link set llm0 mtu 1500");
    await_logged("whole again", 1);
    send_some(100);
    await_delivery();
    scene_close();
}

/*
 * The receiver's interface drops packets that are longer than its MTU, unless they come as a train, and its
 * own NAKs are shorter: the repairs are dropped as the packets were, until the MTU is large enough again.
 */
static void losses_are_repaired_after_the_receivers_mtu_was_too_small(void **state)
{
    uint64_t naks, repairs;

    (void)state;
    scene_open_with("10.77.0.1/24", "10.77.0.2/24", "impair+", LOSSES "&gso_packets=1");
    send_some(200);
    await_delivery();
    on_host(1, "ip link set llm0 mtu 900");
    naks = counter(world.from, "naks_received");
    repairs = counter(world.from, "packets_repaired");
    send_some(100);
    await_logged("in fragments", 1);
    await_counter(world.from, "naks_received", naks + 10);
    await_counter(world.from, "packets_repaired", repairs + 10);
    assert_true(world.delivered < world.sent);
    on_host(1, "ip link set llm0 mtu 1500");
    await_logged("whole again", 1);
    send_some(100);
    await_delivery();
    scene_close();
}

/* Expects one log line with the remedy, one event, and rising counters. */
static void expect_unreachable(const struct llm_context *context, const char *address)
{
    const uint64_t errors = counter(context, "udp_send_errors");
    char text[40];

    poll_some_looks();
    await_counter(context, "udp_send_errors", errors + 1);
    assert_true(errors > 0);
    assert_int_equal(counter(context, "addresses_unreachable"), 1);
    (void)snprintf(text, sizeof text, "packets to %s", address);
    assert_int_equal(logged_count(text), 1);
    assert_int_equal(logged_count("packets to"), 1);
    assert_non_null(strstr(log_text, "Network is unreachable; add a route to it"));
    assert_int_equal(world.unreachable, 1);
    assert_int_equal(world.reason, LLM_REASON_NO_ROUTE);
    assert_memory_equal(world.address, address, strlen(address));
    assert_true(world.session != 0);
}

/* A host of another network receives the group, and cannot send NAKs. */
static void a_missing_route_to_the_transmitter_is_reported_once(void **state)
{
    (void)state;
    scene_open("10.77.0.1/24", "10.88.0.2/24");
    on_host(1, "ip route add 239.0.0.0/8 dev llm0; ! ip route get 10.77.0.1 2>/dev/null");
    send_some(50);
    await_logged("10.77.0.1:", 1);
    expect_unreachable(world.to, "10.77.0.1:");
    scene_close();
}

/*
 * A member on another network sends NAKs, and repairs cannot be sent to it. Reverse path filtering would drop
 * its packets.
 */
static void a_missing_route_to_a_receiver_is_reported_once_and_repairs_wait_for_it(void **state)
{
    (void)state;
    scene_open("10.77.0.1/24", "10.88.0.2/24");
    on_host(0, "for at in all llm0; do at=/proc/sys/net/ipv4/conf/$at/rp_filter;"
               " grep -qx 0 $at || echo 0 >$at || exit 1; done; ip route add 10.88.0.0/24 dev llm0");
    on_host(1, "ip route add 239.0.0.0/8 dev llm0 && ip route add 10.77.0.0/24 dev llm0");
    send_some(200);
    await_delivery();
    await_member();
    on_host(0, "ip route del 10.88.0.0/24 dev llm0 && ! ip route get 10.88.0.2 2>/dev/null");
    send_some(200);
    await_logged("10.88.0.2:", 1);
    expect_unreachable(world.from, "10.88.0.2:");
    assert_true(world.delivered < world.sent);
    await_counter(world.from, "naks_received", counter(world.from, "naks_received") + 1);
    on_host(0, "ip route add 10.88.0.0/24 dev llm0");
    await_delivery();
    send_some(200);
    await_delivery();
    assert_int_equal(logged_count("packets to"), 1);
    assert_int_equal(world.unreachable, 1);
    scene_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_repaired_after_the_transmitter_has_moved),
        cmocka_unit_test(losses_are_repaired_after_the_receiver_has_moved),
        cmocka_unit_test(packets_come_from_the_announced_address_after_a_move),
        cmocka_unit_test(losses_are_repaired_while_the_mtu_is_too_small_and_after),
        cmocka_unit_test(losses_are_repaired_after_the_receivers_mtu_was_too_small),
        cmocka_unit_test(a_missing_route_to_the_transmitter_is_reported_once),
        cmocka_unit_test(a_missing_route_to_a_receiver_is_reported_once_and_repairs_wait_for_it),
    };

    if (argc != 2)
        return 1;
    scheme = argv[1];
    if (!hosts_make(2, 1500))
        return network_skipped();
    for (int i = 0; i < 2; i++)
        world.hosts[i] = hosts_enter();
    hosts_leave();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
